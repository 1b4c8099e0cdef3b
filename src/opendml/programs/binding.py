"""The tensors that a program takes, the arrays that are given for them, and whether these fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from opendml.description.errors import BindingError, OutOfMemoryError
from opendml.description.foreign_types import instead_of
from opendml.description.quoting import cut, quoted
from opendml.description.tensor import TensorDesc
from opendml.programs.device_tensor import DeviceTensor
from opendml.targets.host_memory import address_of, aligned_empty, empty
from opendml.targets.interface import DeviceBuffer

if TYPE_CHECKING:
    from opendml.targets.target import Target

Array = npt.NDArray[Any]

TENSORS_SHOWN: Final = 4
"""Tensors that one line names, at most."""

PAIRS: Final = 256
"""Pairs of arrays from which on only those are compared whose memory is near: sorting them costs something too."""

OVERLAP_WORK: Final = 10_000
"""Candidates tried to tell whether two interleaving arrays share an element."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A tensor that a program takes: its field in DirectML's spelling (``InputTensors[1]``) and its descriptor, of the
    4-bit types that of the bytes."""

    name: str
    desc: TensorDesc | None

    def __post_init__(self) -> None:
        if self.desc is not None and self.desc.data_type.bits == 4:
            object.__setattr__(self, "desc", self.desc.in_memory)


def signature_text(inputs: Sequence[Binding], outputs: Sequence[Binding]) -> str:
    """``(ATensor float32 [2, 3]) -> (OutputTensor float32 [2, 3])``; absent tensors are left out, many cut short."""
    return " -> ".join(f"({_bindings_text(bindings)})" for bindings in (inputs, outputs))


def _bindings_text(bindings: Sequence[Binding]) -> str:
    present = [(b.name, b.desc) for b in bindings if b.desc is not None]
    texts = [f"{name} {desc.data_type.name.lower()} {list(desc.sizes)}" for name, desc in present[:TENSORS_SHOWN]]
    return ", ".join([*texts, f"{len(present) - TENSORS_SHOWN} more"] if len(present) > TENSORS_SHOWN else texts)


@dataclass(slots=True, eq=False)
class BoundTensor:
    """An array at its place; ``refresh`` copies anew what could not be used in place."""

    name: str
    desc: TensorDesc
    array: Array
    refresh: Callable[[], None] | None = None
    address: int = field(init=False)

    def __post_init__(self) -> None:
        self.address = address_of(self.array)


Bound = BoundTensor | DeviceBuffer
"""A tensor of a program that was given: an array, or memory of the program's device."""


def as_array(value: Any, name: str) -> Array:
    """``value`` as a NumPy array over the same memory: an array, or anything with DLPack or the buffer protocol."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, DeviceTensor):
        if value.array is None:
            raise BindingError(f"{name}: the tensor lives on {value.device}; numpy() copies it to the host")
        return value.array
    try:
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        return np.asarray(_buffer_of(value, name))
    except BindingError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"{name}: there is no memory to see the tensor as a NumPy array") from error
    except Exception as error:  # These are protocols: foreign code runs, and raises what it likes.
        reason = quoted(str(error))[1:-1]
        instead = _instead_of_type(value)
        if instead:
            raise BindingError(f"{name}: {instead}") from error
        raise BindingError(f"{name}: the tensor is not accessible as a NumPy array: {reason}") from error


def _instead_of_type(value: Any) -> str:
    """What is to be said of the type of a foreign tensor's elements, such as torch.bfloat16."""
    try:
        return instead_of(str(value.dtype).rpartition(".")[2])
    except Exception:  # whatever a foreign object raises
        return ""


def _buffer_of(value: Any, name: str) -> memoryview:
    try:
        return memoryview(value)
    except TypeError:
        kind = type(value).__name__
        expected = "an array, or an object with DLPack or the buffer protocol"
        raise BindingError(f"{name}: expected {expected}, got {cut(kind)}") from None


def several(values: Any, what: str) -> list[Any]:
    """What should be a sequence of arrays as a list; ``what`` they are called in the message if it is none."""
    try:
        if not isinstance(values, (str, bytes, Mapping)):
            return list(values)
    except Exception as error:  # whatever a foreign object raises when it is gone through
        raise BindingError(f"{what}: expected a sequence of arrays, got {type(values).__name__}") from error
    raise BindingError(f"{what}: expected a sequence of arrays, got {type(values).__name__}")


def bind_all(
    bindings: Sequence[Binding], values: Sequence[Any], role: str, target: Target | None = None
) -> list[Bound | None]:
    """Arrays for tensors, None for absent ones, or what lives in the own memory of ``target``. Inputs that are not
    aligned are taken as they are where the target reads them so. ``role``: "input" or "output". Raises BindingError."""
    values = values if isinstance(values, (list, tuple)) else several(values, f"{role}s")
    if len(values) != len(bindings):
        names = ", ".join(binding.name for binding in bindings) or "none"
        raise BindingError(f"expected {len(bindings)} {role}s ({names}), got {len(values)}")
    return [
        (_bind_tensor if isinstance(value, DeviceTensor) else _bind)(binding, value, role, target)
        for binding, value in zip(bindings, values, strict=True)
    ]


def _bind_tensor(binding: Binding, tensor: DeviceTensor, role: str, target: Target | None) -> Bound | None:
    """A tensor that lives in a device's memory: nothing of it can be copied to fit."""
    name, desc, memory = binding.name, binding.desc, tensor.memory
    if memory is None:
        return _bind(binding, tensor.array, role, target)
    if desc is None:
        raise BindingError(f"{name}: the descriptor does not have this tensor, so None is expected")
    if target is None or tensor.device != target.name:
        here = "reference" if target is None else target.name
        raise BindingError(f"{name}: the tensor lives on {tensor.device}, and the program runs on {here}")
    if tensor.desc.data_type != desc.data_type:
        raise BindingError(f"{name}: expected elements of {desc.data_type.dtype}, got {tensor.desc.data_type.dtype}")
    if role == "output" and tensor.is_read_only:
        raise BindingError(f"{name}: the tensor is read-only")
    if tensor.desc.sizes != desc.sizes:
        raise BindingError(f"{name}: expected sizes {list(desc.sizes)}, got {list(tensor.desc.sizes)}")
    pairs = zip(desc.sizes, desc.effective_strides, tensor.desc.effective_strides, strict=True)
    if any(size > 1 and want != have for size, want, have in pairs):
        strides = list(desc.effective_strides), list(tensor.desc.effective_strides)
        raise BindingError(f"{name}: expected strides of {strides[0]} elements, got {strides[1]}")
    return DeviceBuffer(name, memory)


def _bind(binding: Binding, value: Any, role: str, target: Target | None) -> BoundTensor | None:
    name, desc = binding.name, binding.desc
    if desc is None:
        if value is not None:
            raise BindingError(f"{name}: the descriptor does not have this tensor, so None is expected")
        return None
    if value is None:
        raise BindingError(f"{name}: an array is needed")
    array = as_array(value, name)
    if array.dtype != desc.data_type.dtype:
        raise BindingError(f"{name}: expected elements of {desc.data_type.dtype}, got {array.dtype}")
    if role == "output" and not array.flags.writeable:
        raise BindingError(f"{name}: the array is read-only")
    is_aligned = array.flags.aligned or (role == "input" and target is not None and target.reads_anywhere)
    if _fits(array, desc) and is_aligned:
        return BoundTensor(name, desc, array)
    if _is_flat_buffer(array, desc):
        if array.size < desc.element_span:
            raise BindingError(f"{name}: a buffer of {desc.element_span} elements is needed, got {array.size}")
        if is_aligned:
            return BoundTensor(name, desc, array)
    elif array.shape != desc.sizes:
        raise BindingError(f"{name}: expected sizes {list(desc.sizes)}, got {list(array.shape)}")
    if role == "output":
        wanted = [s * array.itemsize for s in desc.effective_strides]
        raise BindingError(f"{name}: expected aligned memory with strides of {wanted} bytes, got {list(array.strides)}")
    return _copied(name, desc, array)


def _copied(name: str, desc: TensorDesc, array: Array) -> BoundTensor:
    """A copy laid out as the descriptor wants it."""
    place = empty(desc)
    if array.shape == desc.sizes:
        source, target = array, _without_repetition(place)
        source = array[tuple(slice(0, n) for n in target.shape)]
    else:
        place = aligned_empty(desc.element_span * array.itemsize).view(array.dtype)
        source, target = array[: place.size], place

    def refresh() -> None:
        target[...] = source

    return BoundTensor(name, desc, place, refresh)


def copied(binding: Binding, value: Any, target: Target | None) -> Array:
    """A copy of the memory of an array that fits a binding, as the flat buffer that its descriptor describes, for a
    program of the target."""
    bound = _read_once(binding, value, target)
    source = _flat(bound)
    if bound.refresh is not None:
        return source  # which had to be laid out anew, so it is a copy
    buffer = aligned_empty(source.nbytes).view(source.dtype)
    buffer[...] = source
    return buffer


def flat_memory(binding: Binding, value: Any, target: Target | None) -> Array:
    """The memory of an array that fits a binding, as the flat buffer that its descriptor describes: where it is, to be
    read only, or of a copy where the array had to be laid out anew for the target."""
    return _flat(_read_once(binding, value, target))


def _read_once(binding: Binding, value: Any, target: Target | None) -> BoundTensor:
    bound = _bind(binding, value.numpy() if isinstance(value, DeviceTensor) else value, "input", target)
    assert bound is not None
    if bound.refresh is not None:
        bound.refresh()
    return bound


def _flat(bound: BoundTensor) -> Array:
    span = bound.desc.element_span
    return np.lib.stride_tricks.as_strided(bound.array, (span,), (bound.array.itemsize,), writeable=False)


def _without_repetition(array: Array) -> Array:
    """One element of each dimension along which the same memory is repeated (stride 0)."""
    return array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]


def _is_flat_buffer(array: Array, desc: TensorDesc) -> bool:
    """Whether an array is a descriptor's buffer rather than its tensor. Beside a packed tensor of one dimension that is
    one of the stated total size only: an array of another length is a mistake."""
    if array.ndim != 1 or array.shape == desc.sizes or not array.flags.c_contiguous:
        return False
    return len(desc.sizes) > 1 or not desc.is_packed or array.nbytes == desc.total_size_in_bytes


def _fits(array: Array, desc: TensorDesc) -> bool:
    if array.shape != desc.sizes:
        return False
    if desc.strides is None and array.flags.c_contiguous:
        return True
    itemsize = array.itemsize
    return all(
        n == 1 or have == want * itemsize
        for n, have, want in zip(desc.sizes, array.strides, desc.effective_strides, strict=True)
    )


def check_overlap(inputs: Sequence[Bound | None], outputs: Sequence[Bound | None], *, in_place: bool) -> None:
    """Raises BindingError where an output shares memory with another tensor and must not."""
    near = _near(inputs, outputs) if len(outputs) * (len(inputs) + len(outputs)) > PAIRS else None
    for number, written in enumerate(outputs):
        if written is None:
            continue
        if isinstance(written, DeviceBuffer):
            _check_device_memory(written, [*inputs, *outputs[:number]])
            continue
        for other in [*inputs, *outputs[:number]] if near is None else near[number]:
            if other is None or not _overlap(written.array, other.array):
                continue
            assert isinstance(other, BoundTensor)
            if in_place and other in inputs and _same_memory(written, other):
                continue
            reason = "does not work in place"
            if in_place:
                reason = "works in place only on exactly the same elements"
            raise BindingError(f"{written.name} overlaps the memory of {other.name}, and the operator {reason}")


def _check_device_memory(written: DeviceBuffer, others: Sequence[Bound | None]) -> None:
    """No output may be of a piece of memory that another tensor is of: programs on devices do not work in place."""
    for other in others:
        if isinstance(other, DeviceBuffer) and other.memory.handle == written.memory.handle:
            reason = "programs on a device do not work in place"
            raise BindingError(f"{written.name} overlaps the memory of {other.name}, and {reason}")


def _overlap(a: Array, b: Array) -> bool:
    if not np.may_share_memory(a, b):
        return False
    # Arrays that interleave without sharing an element are told apart as long as that is quick; else they overlap.
    try:
        return np.shares_memory(a, b, max_work=cast(Any, OVERLAP_WORK))
    except np.exceptions.TooHardError:
        return True


def _near(inputs: Sequence[Bound | None], outputs: Sequence[Bound | None]) -> list[list[Bound]]:
    """For each output the inputs, and the outputs before it, whose first to last bytes have some in common with its."""
    bound = [(*_bounds(b.array), number, b) for number, b in enumerate((*inputs, *outputs)) if b is not None]
    found: list[list[tuple[int, Bound]]] = [[] for _ in outputs]
    read: list[tuple[int, int, Bound]] = []  # what has begun before: its end, its number
    written: list[tuple[int, int, Bound]] = []
    for start, end, number, tensor in sorted(bound, key=lambda place: place[:3]):
        written = [other for other in written if other[0] > start]
        if number < len(inputs):
            for _, output, _ in written:
                found[output - len(inputs)].append((number, tensor))
            read.append((end, number, tensor))
            continue
        read = [other for other in read if other[0] > start]
        found[number - len(inputs)] += [(other[1], other[2]) for other in read]
        for _, output, other in written:
            first, last = sorted(((output, other), (number, tensor)), key=lambda pair: pair[0])
            found[last[0] - len(inputs)].append(first)
        written.append((end, number, tensor))
    return [[tensor for _, tensor in sorted(others, key=lambda pair: pair[0])] for others in found]


def _bounds(array: Array) -> tuple[int, int]:
    """The address of the first byte of an array, and that behind its last one."""
    start: int = array.__array_interface__["data"][0]
    if not array.size:
        return start, start
    reaches = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    return start + sum(min(r, 0) for r in reaches), start + sum(max(r, 0) for r in reaches) + array.itemsize


def _same_memory(a: BoundTensor, b: BoundTensor) -> bool:
    """Whether every element of one is the same element of the other."""
    strides = zip(a.desc.sizes, a.desc.effective_strides, b.desc.effective_strides, strict=True)
    same_layout = a.desc.sizes == b.desc.sizes and all(n == 1 or x == y for n, x, y in strides)
    return same_layout and a.array.dtype == b.array.dtype and address_of(a.array) == address_of(b.array)
