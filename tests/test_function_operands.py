"""The functions: operands of every kind, where results go, and the cache of programs."""

from __future__ import annotations

import array
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from calls import Array, Recorder, described, numbers

import opendml as dml
from opendml import operators
from opendml.functions import core

# ---- operands


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "packed": lambda x: x.copy(),
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "every other": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "a part": lambda x: np.pad(x, [(1, 2), (3, 4)])[1:-2, 3:-4],
}


def unaligned(x: Array) -> Array:
    memory = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    memory[...] = x
    return memory


def between(x: Array) -> Array:
    """Rows whose distance is no multiple of the element size."""
    memory = np.zeros((x.shape[0], x.shape[1] * x.itemsize + 2), np.uint8)
    rows = np.ndarray(x.shape, x.dtype, memory, 0, (memory.strides[0], x.itemsize))
    rows[...] = x
    return rows


COPIED: dict[str, Callable[[Array], Array]] = {
    "reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "unaligned": unaligned,
    "between": between,
    "swapped": lambda x: x.astype(x.dtype.newbyteorder(">")),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_are_used_in_place(layout: str) -> None:
    x = LAYOUTS[layout](numbers((3, 5)))
    recorder = Recorder()
    np.testing.assert_array_equal(dml.add(x, x, device=recorder), x + x)
    (desc,) = recorder.descs
    assert isinstance(desc, operators.ElementWiseAdd)
    assert desc.a_tensor.effective_strides == tuple(stride // 4 for stride in x.strides)
    assert desc.output_tensor.strides is None


@pytest.mark.parametrize("layout", COPIED)
def test_other_arrays_are_copied(layout: str) -> None:
    original = numbers((3, 5))
    x = COPIED[layout](original)
    recorder = Recorder()
    for _ in range(2):
        np.testing.assert_array_equal(dml.add(x, original, device=recorder), original + original)
    (desc,) = recorder.descs
    assert isinstance(desc, operators.ElementWiseAdd)
    assert desc.a_tensor == desc.b_tensor == dml.TensorDesc("float32", (3, 5))


def test_broadcast_operands() -> None:
    x, row = numbers((3, 5)), numbers((5,), seed=1)
    broadcast = np.broadcast_to(row, (3, 5))
    assert described(dml.add, x, broadcast).b_tensor.strides == (0, 1)
    np.testing.assert_array_equal(dml.add(x, broadcast), x + row)
    np.testing.assert_array_equal(dml.identity(broadcast), broadcast)
    assert dml.identity(broadcast).flags.c_contiguous


def test_strides_of_single_elements_mean_nothing() -> None:
    x = np.lib.stride_tricks.as_strided(numbers((4,)), (1, 4), (-400, 4))
    assert described(dml.identity, x).input_tensor.strides is None
    np.testing.assert_array_equal(dml.identity(x), x)


def test_overlapping_windows_are_used_in_place() -> None:
    windows = np.lib.stride_tricks.sliding_window_view(numbers((8,)), 3)
    assert described(dml.reduce, windows, "SUM", axes=[1]).input_tensor.strides == (1, 1)
    np.testing.assert_array_equal(dml.reduce(windows, "SUM", axes=[1])[:, 0], windows.sum(1))


def test_buffer_protocol() -> None:
    values = array.array("f", [1, 2, 3])
    np.testing.assert_array_equal(dml.add(values, memoryview(values)), [2, 4, 6])
    np.testing.assert_array_equal(dml.identity(b"\x01\xff"), np.array([1, 255], np.uint8))


def test_dlpack() -> None:
    class Exporter:
        def __init__(self, array: Array) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    x = numbers((2, 3))
    recorder = Recorder()
    np.testing.assert_array_equal(dml.identity(Exporter(x.T), device=recorder), x.T)
    assert recorder.descs[0].inputs()[0][1] == dml.TensorDesc("float32", (3, 2), (1, 3))


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    np.testing.assert_array_equal(dml.add(x, x), (x + x).numpy())
    np.testing.assert_array_equal(dml.identity(x.t()), x.t().numpy())
    out = np.empty((2, 3), np.float32)
    dml.add(x, x.numpy(), out=out)
    assert torch.equal(torch.from_dlpack(dml.add(x, x)), x + x)


def test_results_are_new_and_packed() -> None:
    x = numbers((3, 5)).T
    first, second = dml.identity(x), dml.identity(x)
    assert first.flags.c_contiguous
    assert first.flags.writeable
    assert not np.shares_memory(first, second)
    assert first.__array_interface__["data"][0] % 64 == 0


# ---- out


def test_out() -> None:
    x = numbers((3, 5))
    out = np.empty((3, 5), np.float32)
    assert dml.add(x, x, out=out) is out
    np.testing.assert_array_equal(out, x + x)
    strided = np.zeros((5, 6), np.float32)
    view = strided.T[::2]
    assert dml.add(x, x, out=view) is view
    np.testing.assert_array_equal(strided.T[::2], x + x)
    assert not strided.T[1::2].any()
    again = x.copy()
    dml.add(again, x, out=again)
    np.testing.assert_array_equal(again, x + x)


def test_several_outs() -> None:
    x = numbers((2, 6), "int8")
    whole = np.zeros((2, 6), np.int8)
    pieces = dml.split(x, axis=1, output_axis_sizes=[2, 4], out=(whole[:, 4:], whole[:, :4]))
    assert pieces[0].base is whole
    np.testing.assert_array_equal(whole, np.roll(x, -2, axis=1))
    image = numbers((1, 1, 4, 4))
    expected = dml.max_pooling(image, window_size=[2, 2], strides=[2, 2], output_indices=True)
    out = dml.MaxPoolingOutputs(np.empty((1, 1, 2, 2), np.float32), np.empty((1, 1, 2, 2), np.uint32))
    result = dml.max_pooling(image, window_size=[2, 2], strides=[2, 2], output_indices=True, out=out)
    assert result.indices is out.indices
    np.testing.assert_array_equal(out.values, expected.values)
    np.testing.assert_array_equal(out.indices, expected.indices)
    for only in (out.values, [out.values], dml.MaxPoolingOutputs(out.values, None)):
        assert dml.max_pooling(image, window_size=[2, 2], strides=[2, 2], out=only).values is out.values


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty((5, 3), np.float32), r"OutputTensor: expected sizes \[3, 5\], got \[5, 3\]"),
        (np.empty((3, 5), np.float64), "OutputTensor: expected elements of float32, got float64"),
        (np.empty((3, 5), np.float32)[::-1], "strides"),
        (unaligned(np.zeros((3, 5), np.float32)), "aligned"),
        ([np.empty((3, 5), np.float32)] * 2, "expected 1 array"),
        ([], "an array is needed"),
        ("text", "out"),
    ],
)
def test_unfitting_out(out: Any, message: str) -> None:
    x = numbers((3, 5))
    for _ in range(2):
        with pytest.raises(dml.BindingError, match=message):
            dml.add(x, x, out=out)


def test_overlapping_out() -> None:
    x = numbers((4, 4))
    for _ in range(2):
        with pytest.raises(dml.BindingError, match="overlaps"):
            dml.tile(x[:2, :2], [2, 2], out=x)
        with pytest.raises(dml.BindingError, match="overlaps"):
            dml.add(x[:2], x[:2], out=x[1:3])
    repeated = np.lib.stride_tricks.as_strided(x, (4, 4), (0, 4))
    with pytest.raises(dml.InvalidDescriptorError, match="address of its own"):
        dml.add(x, x, out=repeated)
    read_only = x.copy()
    read_only.flags.writeable = False
    with pytest.raises(dml.BindingError, match="read-only"):
        dml.add(x, x, out=read_only)


# ---- the cache of programs


def test_programs_are_compiled_once() -> None:
    recorder = Recorder()
    x = numbers((3, 4))
    several: list[Any] = [[3, 4], (3, 4), np.array([3, 4]), range(3, 5)]
    for sizes in several:
        for _ in range(3):
            dml.slice(
                x.copy(),
                input_window_offsets=[0, 0],
                input_window_sizes=sizes,
                input_window_strides=[1, 1],
                device=recorder,
            )
    assert len(recorder.descs) == 1
    dml.slice(x, input_window_offsets=[0, 0], input_window_sizes=[3, 4], input_window_strides=[1, -1], device=recorder)
    dml.slice(
        x.astype("int32"),
        input_window_offsets=[0, 0],
        input_window_sizes=[3, 4],
        input_window_strides=[1, 1],
        device=recorder,
    )
    dml.slice(
        x[:, ::-1], input_window_offsets=[0, 0], input_window_sizes=[3, 4], input_window_strides=[1, 1], device=recorder
    )
    dml.slice(
        np.asfortranarray(x),
        input_window_offsets=[0, 0],
        input_window_sizes=[3, 4],
        input_window_strides=[1, 1],
        device=recorder,
    )
    assert len(recorder.descs) == 5


def test_numbers_are_told_apart_by_their_bits() -> None:
    recorder = Recorder()
    x = np.array([-0.0], np.float32)
    signs = [
        np.signbit(dml.identity(x, scale_bias=(1, bias), device=recorder)).item() for bias in (0.0, -0.0, 0.0, -0.0)
    ]
    assert signs == [False, True, False, True]
    assert len(recorder.descs) == 2
    for _ in range(3):
        dml.activation_linear(x, alpha=float("nan"), beta=0, device=recorder)
    assert len(recorder.descs) == 3
    assert dml.fill_value_constant([1], output_data_type="int64", value=2**53 + 1).item() == 2**53 + 1
    assert dml.fill_value_constant([1], output_data_type="int64", value=float(2**53)).item() == 2**53


def test_equal_devices_share_programs() -> None:
    x = numbers((3, 3))
    dml.add(x, x, device=dml.Device("cpu", feature_level="5_0"))
    count = len(core.PROGRAMS)
    dml.add(x, x, device=dml.Device("cpu", feature_level="5_0"))
    assert len(core.PROGRAMS) == count
    assert dml.Device("cpu") == dml.Device("cpu")
    assert len({dml.Device("cpu"), dml.Device("cpu"), dml.Device("cpu", thread_count=1)}) == 2


def test_the_cache_is_bounded_and_forgets_the_least_recent() -> None:
    cache = core.ProgramCache(2)
    made: list[str] = []

    def get(key: str) -> None:
        def make() -> core.Call:
            made.append(key)
            return core.Call(None, ())  # type: ignore[arg-type]

        cache.get_or_make((key,), make)

    for key in ("a", "b", "a", "c", "a", "b"):
        get(key)
    assert made == ["a", "b", "c", "b"]
    assert len(cache) == 2
    cache.clear()
    assert len(cache) == 0


def test_parameters_that_cannot_be_keys() -> None:
    x = numbers((3, 4))
    axis: Any = np.array(1)
    for _ in range(2):
        np.testing.assert_array_equal(dml.cumulative_summation(x, axis=axis), np.cumsum(x, 1))


def test_a_failure_is_not_cached() -> None:
    x = numbers((3, 4))
    count = len(core.PROGRAMS)
    for _ in range(2):
        with pytest.raises(dml.InvalidDescriptorError):
            dml.tile(x, [1, 2, 3])
    assert len(core.PROGRAMS) == count


def test_threads_share_a_compilation_and_run_at_once() -> None:
    recorder = Recorder()
    arrays = [numbers((40, 50), seed=seed) for seed in range(8)]
    failures: list[int] = []
    start = threading.Barrier(len(arrays))

    def work(number: int) -> None:
        x = arrays[number]
        expected = (x + x).sum(axis=1, keepdims=True)
        start.wait()
        sums = [dml.reduce(dml.add(x, x, device=recorder), "SUM", axes=[1], device=recorder) for _ in range(50)]
        if not all(np.array_equal(total, expected) for total in sums):
            failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(arrays))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(recorder.descs) == 2


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    yield
    core.PROGRAMS.clear()
