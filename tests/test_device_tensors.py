"""Tensors that live on a device, and DLPack: which a target's memory has to offer, on every device that there is."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import plain_target
import pytest
from execution import assert_identical
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from test_conformity import PLAIN

import opendml as dml
from opendml.description.errors import BindingError
from opendml.programs import dlpack
from opendml.programs.dlpack import DLManagedTensor, DLManagedTensorVersioned, ExportError
from opendml.targets.registry import KINDS

FLOAT32 = dml.TensorDesc("FLOAT32", [2, 3])
X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
RELU = dml.operators.ActivationRelu(input_tensor=FLOAT32, output_tensor=FLOAT32)
ADD = dml.operators.ElementWiseAdd(a_tensor=FLOAT32, b_tensor=FLOAT32, output_tensor=FLOAT32)
PRODUCT = dml.operators.Gemm(
    a_tensor=dml.TensorDesc("FLOAT32", [1, 1, 2, 3]),
    b_tensor=dml.TensorDesc("FLOAT32", [1, 1, 3, 2]),
    output_tensor=dml.TensorDesc("FLOAT32", [1, 1, 2, 2]),
    trans_a="NONE",
    trans_b="NONE",
    alpha=1,
    beta=0,
)  # without its third input
OTHERS = ["opencl", "plain"]  # whose memory is not the host's


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "plain", PLAIN)


def found(name: str) -> dml.Device:
    try:
        return dml.Device(name)
    except dml.ConfigurationError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["cpu", "reference", *OTHERS])
def device(request: pytest.FixtureRequest) -> dml.Device:
    return found(request.param)


@pytest.fixture(params=OTHERS)
def other(request: pytest.FixtureRequest) -> dml.Device:
    """A device with memory of its own."""
    return found(request.param)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of what is copied between the host and a device."""
    sizes: list[int] = []

    def counted(copy: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            sizes.append(max(a.nbytes for a in arguments if isinstance(a, np.ndarray)))
            return copy(*arguments, **options)

        return call

    monkeypatch.setattr(plain_target, "copied", counted(plain_target.copied))
    try:
        import pyopencl
    except ImportError:
        pass
    else:
        monkeypatch.setattr(pyopencl, "enqueue_copy", counted(pyopencl.enqueue_copy))
    yield sizes


# ---- programs


def test_results_stay_on_the_device(device: dml.Device) -> None:
    relu, add = device.compile(RELU), device.compile(ADD)
    x = device.tensor(X)
    y = add(relu(x), x)
    assert isinstance(y, dml.DeviceTensor)
    assert y.device == device.name
    assert y.desc == FLOAT32
    assert_identical(y.numpy(), np.maximum(X, 0) + X)
    np.testing.assert_array_equal(np.asarray(y), y.numpy())
    assert repr(y) == f"<DeviceTensor float32 [2, 3] on {device.name}>"


def test_a_chain_of_programs_copies_nothing(other: dml.Device, copies: list[int]) -> None:
    relu, add = other.compile(RELU), other.compile(ADD)
    graph = dml.Graph(other)
    a = graph.input("float32", [2, 3], name="a")
    network = graph.compile({"sums": dml.reduce(dml.exp(a), "SUM", axes=[1]), "twice": a + a})
    network(X)  # what is copied once for all runs
    copies.clear()
    x = other.tensor(X)
    assert copies == [X.nbytes]
    y = network(add(relu(x), x))
    z = relu(y["twice"])
    bound = relu.bind([z], [out := other.empty(FLOAT32)])
    for _ in range(3):
        bound()
    assert copies == [X.nbytes]
    assert_identical(out.numpy(), 2 * np.maximum(np.maximum(X, 0) + X, 0))
    assert copies == [X.nbytes, X.nbytes]
    expected = network(np.maximum(X, 0) + X)
    assert_identical(y["sums"].numpy(), expected["sums"])


def test_arrays_and_tensors_go_together(device: dml.Device) -> None:
    add = device.compile(ADD)
    assert_identical(add(device.tensor(X), X).numpy(), X + X)
    result = np.zeros_like(X)
    add(device.tensor(X), X, out=result)
    assert_identical(result, X + X)
    out = device.empty(FLOAT32)
    assert add(X, X, out=[out]) is out
    assert_identical(out.numpy(), X + X)


def test_graphs_whose_tensors_are_seen_otherwise_inside(other: dml.Device) -> None:
    """The names of a graph's tensors are the builder's; the program inside may see their memory otherwise."""
    graph = dml.Graph(other)
    x = graph.input("float32", [2, 3], name="x")
    weights = graph.input("float32", [2, 3], name="w", owned_by_dml=True)
    program = graph.compile(dml.transpose(x * weights, [1, 0]))
    program.initialize(w=X)
    y = program(other.tensor(X))
    assert isinstance(y, dml.DeviceTensor)
    assert_identical(np.ascontiguousarray(y.numpy()), np.ascontiguousarray((X * X).T))
    with pytest.raises(BindingError, match=r"x: expected|expected sizes \[2, 3\]"):
        program(other.tensor(X.T))


def test_an_initialisation_copies_from_the_device(other: dml.Device) -> None:
    graph = dml.Graph(other)
    x, weights = graph.input("float32", [2, 3], name="x"), graph.input("float32", [2, 3], name="w", owned_by_dml=True)
    program = graph.compile(x * weights).program
    program.initialize([None, other.tensor(X)])
    assert_identical(program(X, None), X * X)


def test_outputs_with_gaps_keep_what_lies_between(other: dml.Device) -> None:
    gaps = dml.TensorDesc("FLOAT32", [2, 3], [8, 2])
    program = other.compile(
        dml.operators.ElementWiseIdentity(input_tensor=FLOAT32, output_tensor=gaps, scale_bias=None)
    )
    out = other.empty(gaps)
    memory = out.memory
    assert memory is not None
    memory.write(np.full(gaps.element_span, 7, np.float32).view(np.uint8))
    program(X, out=out)
    content = np.zeros(gaps.element_span, np.float32)
    memory.read(content.view(np.uint8))
    expected = np.full(gaps.element_span, 7, np.float32)
    np.lib.stride_tricks.as_strided(expected, (2, 3), (32, 8))[...] = X
    assert_identical(content, expected)
    assert_identical(np.ascontiguousarray(out.numpy()), X)


# ---- what does not fit


def test_what_does_not_fit_is_refused(other: dml.Device) -> None:
    relu = other.compile(RELU)
    refused: list[tuple[Any, Any, str]] = [
        (other.tensor(X.astype(np.float16)), None, "InputTensor: expected elements of float32, got float16"),
        (other.tensor(X.reshape(3, 2)), None, r"InputTensor: expected sizes \[2, 3\], got \[3, 2\]"),
        (other.empty(dml.TensorDesc("FLOAT32", [2, 3], [4, 1])), None, r"strides of \[3, 1\] elements, got \[4, 1\]"),
        (X, other.tensor(X.astype(np.int32)), "OutputTensor: expected elements of float32, got int32"),
    ]
    for value, out, message in refused:
        with pytest.raises(BindingError, match=message):
            relu(value, out=out)
    x = other.tensor(X)
    with pytest.raises(BindingError, match="OutputTensor overlaps the memory of InputTensor"):
        relu(x, out=x)
    with pytest.raises(BindingError, match=f"lives on {other.name}, and the program runs on"):
        dml.Device("cpu").compile(RELU)(x)
    with pytest.raises(BindingError, match=r"lives on .*; numpy\(\) copies it"):
        dml.add(x, x)
    with pytest.raises(BindingError, match="does not have this tensor"):
        other.compile(PRODUCT)(X.reshape(1, 1, 2, 3), X.reshape(1, 1, 3, 2), x)


@pytest.mark.parametrize("use", ["numpy", "array", "memory", "__dlpack__", "__dlpack_device__", "__array__"])
def test_a_released_tensor_is_refused(device: dml.Device, use: str) -> None:
    relu, x = device.compile(RELU), device.tensor(X)
    bound = relu.bind([x], [out := np.zeros_like(X)])
    x.release()
    assert x.is_released
    assert "released" in repr(x)
    bound()  # what was bound before is kept
    assert_identical(out, np.maximum(X, 0))
    with pytest.raises(BindingError, match="was released"):
        relu(x)
    with pytest.raises(BindingError, match="was released"):
        getattr(x, use)()


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((0, 3), np.float32),
        np.zeros(3, np.complex64),
        np.zeros([1] * 9, np.float32),
        np.array(["a"]),
        None,
        X.astype(bool),
    ],
    ids=repr,
)
def test_what_is_no_tensor_is_refused(device: dml.Device, value: Any) -> None:
    with pytest.raises(BindingError):
        device.tensor(value)


def test_every_type_goes_there_and_back(device: dml.Device) -> None:
    for data_type in dml.TensorDataType:
        if data_type.name != "UNKNOWN":
            tensor = device.empty(dml.TensorDesc(data_type, [3, 4]))
            assert tensor.numpy().nbytes == tensor.nbytes
            again = device.tensor(tensor.numpy())
            np.testing.assert_array_equal(again.numpy().view(np.uint8), tensor.numpy().view(np.uint8))


def test_strided_arrays(device: dml.Device) -> None:
    for array in (X.T, X[:, ::2], X[0, 0], np.broadcast_to(X[0], (4, 3))):
        assert_identical(np.ascontiguousarray(device.tensor(array).numpy()).reshape(np.shape(array)), array.copy())


# ---- DLPack: the host's memory


def test_the_hosts_memory_is_exchanged_without_copies() -> None:
    torch = pytest.importorskip("torch")
    device = dml.Device("cpu")
    given_tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    x = device.from_dlpack(given_tensor)
    y = device.compile(RELU)(x)
    assert x.__dlpack_device__() == (dlpack.HOST, 0)
    for back in (torch.from_dlpack(y), np.from_dlpack(y)):
        assert np.shares_memory(np.asarray(back), y.numpy())
    given_tensor[0, 0] = 100
    assert x.numpy()[0, 0] == 100
    strided = device.from_dlpack(given_tensor.T)
    assert strided.desc.strides == (1, 3)
    assert np.shares_memory(strided.numpy(), given_tensor.numpy())


def test_a_read_only_array_is_no_output() -> None:
    x = X.copy()
    x.flags.writeable = False
    tensor = dml.Device("cpu").tensor(x)
    assert tensor.is_read_only
    with pytest.raises(BindingError, match="read-only"):
        dml.Device("cpu").compile(RELU)(X, out=tensor)
    with pytest.raises(ExportError):
        tensor.__dlpack__()
    assert not np.from_dlpack(tensor).flags.writeable


def test_the_hosts_memory_is_not_the_devices(other: dml.Device) -> None:
    with pytest.raises(BindingError, match=r"lives on the device \(1, 0\), not on"):
        other.from_dlpack(X)
    with pytest.raises(BindingError, match="not on cpu"):
        dml.Device("cpu").from_dlpack(other.tensor(X))
    with pytest.raises(BindingError, match="does not tell its device"):
        other.from_dlpack(object())


# ---- DLPack: a device's memory


def test_a_capsule_is_the_same_memory(other: dml.Device, copies: list[int]) -> None:
    x = other.tensor(X)
    before = dlpack.exported_count()
    copies.clear()
    y = other.from_dlpack(x)
    assert dlpack.exported_count() == before + 1
    assert not copies
    assert y.__dlpack_device__() == x.__dlpack_device__() != (dlpack.HOST, 0)
    assert x.memory is not None and y.memory is not None
    assert x.memory.handle == y.memory.handle
    other.compile(RELU)(X + 2, out=x)
    assert_identical(y.numpy(), np.maximum(X + 2, 0))
    with pytest.raises(BindingError, match="overlaps"):
        other.compile(RELU)(x, out=y)
    x.release()
    assert_identical(y.numpy(), np.maximum(X + 2, 0))
    del y
    gc.collect()
    assert dlpack.exported_count() == before


@pytest.mark.parametrize("versioned", [False, True])
def test_a_capsule_that_nobody_takes_frees_its_tensor(other: dml.Device, versioned: bool) -> None:
    before = dlpack.exported_count()
    capsule = other.tensor(X).__dlpack__(max_version=(1, 0) if versioned else None)
    assert ("dltensor_versioned" if versioned else '"dltensor"') in repr(capsule)
    assert dlpack.exported_count() == before + 1
    del capsule
    assert dlpack.exported_count() == before


def test_what_an_export_cannot_be(other: dml.Device) -> None:
    x = other.tensor(X)
    with pytest.raises(ExportError, match="no stream"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="lives on the device"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ExportError, match="with a copy only"):
        x.__dlpack__(dl_device=(dlpack.HOST, 0), copy=False)
    with pytest.raises(ExportError, match="without a copy"):
        np.array(x, copy=False)
    assert_identical(np.asarray(Capsule(x.__dlpack__(dl_device=(dlpack.HOST, 0)), (dlpack.HOST, 0))), X)
    copied = other.from_dlpack(Capsule(x.__dlpack__(copy=True), x.__dlpack_device__()))
    assert copied.memory is not None and x.memory is not None
    assert copied.memory.handle != x.memory.handle
    assert_identical(copied.numpy(), X)


class Capsule:
    """Somebody else's tensor."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self.capsule = capsule
        self.device = device

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.from_dlpack(self)


def _managed(capsule: Any) -> Any:
    """The struct of a capsule."""
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    if "versioned" in repr(capsule):
        return DLManagedTensorVersioned.from_address(get(capsule, b"dltensor_versioned"))
    return DLManagedTensor.from_address(get(capsule, b"dltensor"))


FIELDS: list[tuple[str, Any, str | None]] = [
    ("ndim", -1, "dimensions"),
    ("ndim", 9, "dimensions"),
    ("ndim", 1 << 30, "dimensions"),
    ("data", None, "no memory"),
    ("shape", None, "dimensions"),
    ("sizes", [0, 3], "sizes from 1 on"),
    ("sizes", [-2, 3], "sizes from 1 on"),
    ("sizes", [1 << 40, 3], "sizes from 1 on"),
    ("sizes", [20, 3], "the tensor ends|bytes"),
    ("strides", [-3, 1], "strides from 0 on"),
    ("strides", [1 << 40, 1], "strides from 0 on"),
    ("strides", [100, 1], "the tensor ends|bytes"),
    ("code", 5, "no tensor has elements of this type"),
    ("bits", 16, None),
    ("bits", 4, "no tensor has elements of this type"),
    ("bits", 0, "no tensor has elements of this type"),
    ("lanes", 4, "no tensor has elements of this type"),
    ("byte_offset", 2, "not aligned"),
    ("byte_offset", 1 << 20, "the tensor ends|bytes"),
    ("device_id", 7, "lives on the device"),
    ("device_type", 2, "lives on the device"),
    ("major", 2, "version 2"),
]


@pytest.mark.parametrize(("field", "value", "message"), FIELDS, ids=lambda value: str(value)[:20])
def test_every_field_of_a_foreign_capsule_is_checked(
    other: dml.Device, field: str, value: Any, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is refused is given back once, whether it was taken already or not."""
    if other.name.startswith("plain"):
        monkeypatch.setattr(plain_target.PlainMemorySpace, "adopt", _bounded(X.nbytes))
    before = dlpack.exported_count()
    x = other.tensor(X)
    capsule = x.__dlpack__(max_version=(1, 0))
    managed = _managed(capsule)
    tensor = managed.dl_tensor
    if field in ("sizes", "strides"):
        pointer = tensor.shape if field == "sizes" else tensor.strides
        for place, number in enumerate(value):
            pointer[place] = number
    elif field in ("code", "bits", "lanes"):
        setattr(tensor.dtype, field, value)
    elif field == "major":
        managed.major = value
    else:
        setattr(tensor, field, value)
    if message is None:
        assert other.from_dlpack(Capsule(capsule, x.__dlpack_device__())).desc.data_type.name == "FLOAT16"
    else:
        with pytest.raises(BindingError, match=message):
            other.from_dlpack(Capsule(capsule, x.__dlpack_device__()))
    del capsule, managed, tensor
    gc.collect()
    assert dlpack.exported_count() == before


def _bounded(limit: int) -> Callable[..., Any]:
    """Somebody who knows how large his memory is."""
    adopt = plain_target.PlainMemorySpace.adopt

    def checked(space: Any, handle: int, offset: int, size: int) -> Any:
        if offset + size > limit:
            raise BindingError(f"the memory has {limit} bytes")
        return adopt(space, handle, offset, size)

    return checked


def test_a_capsule_is_taken_once(other: dml.Device) -> None:
    x = other.tensor(X)
    capsule = Capsule(x.__dlpack__(), x.__dlpack_device__())
    first = other.from_dlpack(capsule)
    assert "used_dltensor" in repr(capsule.capsule)
    with pytest.raises(BindingError, match="nobody has taken"):
        other.from_dlpack(capsule)
    for value in (None, 7, "dltensor"):
        with pytest.raises(BindingError, match="nobody has taken"):
            other.from_dlpack(Capsule(value, x.__dlpack_device__()))
    assert_identical(first.numpy(), X)


def test_a_deleter_is_called_once(other: dml.Device) -> None:
    """Somebody else's, in whatever order tensors go."""
    called: list[int] = []
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(called.append)
    x = other.tensor(X)
    capsule = x.__dlpack__(max_version=(1, 1))
    managed = _managed(capsule)
    own, managed.deleter = managed.deleter, ctypes.cast(deleter, ctypes.c_void_p).value
    y = other.from_dlpack(Capsule(capsule, x.__dlpack_device__()))
    seen = [y, y.seen_as(dml.TensorDesc("FLOAT32", [6]))]
    y.release()
    del y
    gc.collect()
    assert not called
    assert_identical(seen.pop().numpy(), X.reshape(6))
    del seen, capsule
    gc.collect()
    assert called == [ctypes.addressof(managed)]
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(own)(ctypes.addressof(managed))


def test_a_read_only_capsule_is_no_output(other: dml.Device) -> None:
    x = other.tensor(X)
    capsule = x.__dlpack__(max_version=(1, 1))
    _managed(capsule).flags = dlpack.READ_ONLY
    y = other.from_dlpack(Capsule(capsule, x.__dlpack_device__()))
    assert y.is_read_only
    with pytest.raises(BindingError, match="read-only"):
        other.compile(RELU)(X, out=y)
    assert_identical(other.compile(RELU)(y).numpy(), np.maximum(X, 0))
    with pytest.raises(ExportError, match="read-only"):
        y.__dlpack__()
    assert _managed(y.__dlpack__(max_version=(1, 1))).flags == dlpack.READ_ONLY


def test_strides_and_offsets_of_capsules(other: dml.Device) -> None:
    """A column of a tensor, as somebody else would export it."""
    rows = np.arange(4096, dtype=np.float32).reshape(4, 1024)
    x = other.tensor(rows)
    capsule = x.__dlpack__(max_version=(1, 1))
    tensor = _managed(capsule).dl_tensor
    tensor.byte_offset = 4096
    tensor.shape[0], tensor.shape[1] = 3, 5
    y = other.from_dlpack(Capsule(capsule, x.__dlpack_device__()))
    assert y.desc.sizes == (3, 5)
    assert_identical(np.ascontiguousarray(y.numpy()), np.ascontiguousarray(rows[1:, :5]))
    desc = dml.TensorDesc("FLOAT32", [3, 5], [1024, 1])
    program = other.compile(RELU.replace(input_tensor=desc, output_tensor=dml.TensorDesc("FLOAT32", [3, 5])))
    assert_identical(program(y).numpy(), rows[1:, :5].copy())
    no_strides = x.__dlpack__()
    _managed(no_strides).dl_tensor.strides = None
    assert_identical(other.from_dlpack(Capsule(no_strides, x.__dlpack_device__())).numpy(), rows)


@examples(60)
@given(st.data())
def test_mangled_capsules_are_refused_or_right(data: st.DataObject) -> None:
    """Whatever the fields say: an error of this package, or a tensor that ends within the memory."""
    space, memory = plain_target.PlainMemorySpace(), np.zeros(4096, np.uint8)
    desc = dml.TensorDesc("FLOAT32", [4, 8])
    capsule = dlpack.export(
        desc, space.dlpack_device, memory.ctypes.data, 0, memory, versioned=data.draw(st.booleans())
    )
    tensor = _managed(capsule).dl_tensor
    numbers = st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 10)
    for name in data.draw(st.lists(st.sampled_from(["ndim", "device_type", "device_id", "byte_offset"]), max_size=2)):
        setattr(tensor, name, data.draw(numbers))
    for place in range(2):
        tensor.shape[place] = data.draw(st.integers(-(2**62), 2**62) | st.integers(-1, 10))
        tensor.strides[place] = data.draw(st.integers(-(2**62), 2**62) | st.integers(-1, 40))
    # More sizes than there are cannot be told from outside.
    tensor.ndim = min(tensor.ndim, 2) if tensor.ndim <= 8 else tensor.ndim
    try:
        taken = dlpack.taken(capsule)
    except dml.OpendmlError:
        return
    assert all(size > 0 for size in taken.desc.sizes)
    assert taken.offset % 4 == 0
    taken.give_back()
