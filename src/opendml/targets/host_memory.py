"""New memory: arrays that are aligned, and where arrays are; files in memory, and what of them may go again."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.description.errors import OutOfMemoryError
from opendml.description.tensor import TensorDesc
from opendml.loops.alignment import ALIGNMENT, aligned

Array = npt.NDArray[Any]


class Place(NamedTuple):
    """What a new array is made of; sizes in elements, strides and the size of the buffer in bytes."""

    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    buffer_size: int


def place_of(desc: TensorDesc) -> Place:
    """What an array of a tensor is made of."""
    dtype = desc.data_type.dtype
    strides = None if desc.strides is None else tuple(stride * dtype.itemsize for stride in desc.strides)
    return Place(dtype, desc.sizes, strides, desc.element_span * dtype.itemsize)


def new_array(place: Place) -> Array:
    """An array, aligned; its content is random."""
    try:
        buffer, start = _aligned_memory(place.buffer_size)
    except OutOfMemoryError as error:
        tensor = f"a tensor of {place.dtype} {list(place.sizes)}"
        raise OutOfMemoryError(f"there is no memory for {tensor}, {place.buffer_size} bytes") from error
    return np.ndarray(place.sizes, place.dtype, buffer, start, place.strides)


def empty(desc: TensorDesc) -> Array:
    """A new array with the type, sizes and strides of a descriptor, aligned to a cache line; its content is random."""
    return new_array(place_of(desc))


def aligned_empty(size: int) -> npt.NDArray[np.uint8]:
    """``size`` bytes of memory, aligned to ``ALIGNMENT``."""
    buffer, start = _aligned_memory(size)
    return buffer[start : start + size]


def aligned_parts(sizes: Sequence[int]) -> list[npt.NDArray[np.uint8]]:
    """Memory for several tensors, one behind the other, each aligned to ``ALIGNMENT``. The system gives large memory in
    large pages, and what is in one of them with others costs it no page of its own."""
    ends = list(accumulate(map(aligned, sizes)))
    memory = aligned_empty(ends[-1] if ends else 0)
    return [memory[start : start + size] for start, size in zip([0, *ends], sizes, strict=False)]


def _aligned_memory(size: int) -> tuple[npt.NDArray[np.uint8], int]:
    """Memory with room for ``size`` bytes from the aligned offset that is given with it."""
    try:
        buffer = np.empty(size + ALIGNMENT, np.uint8)
    except (MemoryError, OverflowError, ValueError) as error:
        raise OutOfMemoryError(f"there is no memory for {size} bytes") from error
    return buffer, -address_of(buffer) % ALIGNMENT


def machine_memory() -> int | None:
    """Bytes of memory of this machine, whoever uses them; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # of Windows, which has no sysconf, and of names that are not known
        return None


def address_of(array: Array) -> int:
    """Where the first element of an array is."""
    if array.flags.carray and array.size:  # The quickest way there is.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    address: int = array.__array_interface__["data"][0]
    return address


class MappedFile(mmap.mmap):
    """A file that is only read (``ACCESS_READ``): whatever of it leaves memory is read from the file again."""


def mapped_array(file: BinaryIO, data_type: np.dtype[Any], sizes: tuple[int, ...], offset: int) -> Array:
    """The elements of a file from a byte on, mapped: only read, and only what is looked at. There is one at least, and
    the file reaches so far."""
    before = offset % mmap.ALLOCATIONGRANULARITY
    size = math.prod(sizes) * data_type.itemsize
    memory = MappedFile(file.fileno(), before + size, access=mmap.ACCESS_READ, offset=offset - before)
    return np.frombuffer(memory, data_type, math.prod(sizes), before).reshape(sizes)


def owner_of(value: Any) -> Any:
    """What the memory of an array belongs to: an array, or what gave its buffer."""
    while getattr(value, "base", None) is not None:  # of arrays, and of what stands between those with other strides
        value = value.base
    return value.obj if isinstance(value, memoryview) else value


def let_go(value: Any) -> None:
    """Let the pages of a ``MappedFile`` that hold an array leave memory, for they are not needed soon; nothing else."""
    file = owner_of(value)
    if isinstance(file, MappedFile) and hasattr(file, "madvise") and value.size and value.flags.c_contiguous:
        start = address_of(value) - address_of(np.frombuffer(file, np.uint8))
        first = start - start % mmap.PAGESIZE
        file.madvise(mmap.MADV_DONTNEED, first, start + value.nbytes - first)


LARGE: Final = 1 << 20
"""Bytes from which on a tensor that nobody changes is read where it lies. Smaller ones are copied, so that vectors of
them lie in a cache line each, and what becomes of their file is no matter."""


def can_stay(value: Any) -> bool:
    """Whether an array is a large one that nobody changes, so that it may be read where it lies, again and again."""
    return isinstance(owner_of(value), (bytes, MappedFile)) and bool(value.nbytes >= LARGE)
