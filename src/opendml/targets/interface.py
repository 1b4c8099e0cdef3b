"""What a target offers to programs: code that is loaded, and dispatches of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from opendml.targets.host_memory import address_of

Array = npt.NDArray[Any]

NO_ARRAY: Final = np.empty(0, np.uint8)
"""In place of an array where the elements are not the host's."""


class DeviceMemory(Protocol):
    """Bytes in a device's own memory. ``handle`` and ``offset`` are what DLPack calls data and byte offset: memory of
    one handle is one piece. Whoever refers to it keeps it."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def handle(self) -> int:
        """The piece of memory."""

    @property
    def offset(self) -> int:
        """Bytes of it before these."""

    def read(self, target: Array) -> None:
        """Copy as many bytes as ``target`` has to it, when all that was started is done."""

    def write(self, source: Array) -> None:
        """Copy the bytes of ``source`` to the device."""


class MemorySpace(Protocol):
    """The memory of a device that is not the host's."""

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's type of the device, and its number."""

    def allocate(self, size: int) -> DeviceMemory:
        """New memory, of random content. Raises OutOfMemoryError."""

    def adopt(self, handle: int, offset: int, size: int) -> DeviceMemory:
        """Memory that somebody else has allocated, and keeps meanwhile. Raises BindingError where programs of this
        device cannot use it, or it is smaller than that."""


class Buffer(Protocol):
    """The memory of a tensor: an array that fits it, and where that is."""

    @property
    def array(self) -> Array:
        """It holds the elements."""

    @property
    def address(self) -> int:
        """That of the first element."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceBuffer:
    """A tensor in a device's own memory, which programs of that device read or write there. It has no array."""

    refresh: ClassVar[None] = None
    name: str
    memory: DeviceMemory

    @property
    def array(self) -> Array:
        """None of its elements."""
        return NO_ARRAY

    @property
    def address(self) -> int:
        """None."""
        return 0


class Dispatch(Protocol):
    """Code with all its tensors, to be called any number of times, by one thread at a time."""

    def __call__(self) -> object:
        """Run once."""

    def quicker(self) -> Callable[[], object]:
        """The same for those who call often: making it may take as long as some calls."""

    def release(self) -> None:
        """Give back what it holds beside its tensors. It is not called again."""


Runner = Callable[..., object]
"""A function that runs once on arrays; it may be called by several threads at once."""


class ArrayLayouts(NamedTuple):
    """How the arrays of a call lie in memory, the output's last. ``masks``: bits of an address that must be 0;
    ``sizes``: bytes from the first element to behind the last one; ``in_place``: whether an input may be the output."""

    masks: Sequence[int]
    sizes: Sequence[int]
    in_place: Sequence[int]


class KernelTimes(NamedTuple):
    """A kernel in one run of a program, in seconds, all its repetitions together: how long it took, and how long each
    of this process's threads worked, the rest being spent on waiting for the others (no threads: those of a device)."""

    duration: float
    work: tuple[float, ...]


class Executable(Protocol):
    """The code of a program, loaded, and by how many threads it runs. May be used from several threads at once.

    ``least_temporary_size``: bytes of the temporary tensors that are alive at one time, at most.
    """

    thread_count: int
    least_temporary_size: int

    @property
    def temporary_size(self) -> int:
        """Bytes of memory that a run needs beside its tensors."""

    def with_thread_count(self, thread_count: int) -> Executable:
        """The same code run by another number of threads; the results are the same."""

    def resident(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """The same tensors where the code reads them, for any number of dispatches: memory that nobody else writes
        to."""

    def dispatch(self, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer | None]) -> Dispatch:
        """The code with tensors, None for absent ones. They must live as long as the dispatch. DeviceBuffers are of the
        target's own memory. Raises BindingError where one is too small for the code."""

    def run(self, inputs: Sequence[Array | None], outputs: Sequence[Array | None]) -> None:
        """Run once on arrays that are as the tensors' descriptors say."""

    def runner(self, inputs: Sequence[Buffer | None], positions: Sequence[int], output_count: int) -> Runner | None:
        """A function of arrays that are as the tensors' descriptors say, aligned and with outputs that overlap nothing:
        the inputs at ``positions``, then the outputs; good as long as this is. ``inputs``: what the others are, None
        for absent ones. None if there is nothing quicker than dispatches."""

    def array_function(self, layouts: ArrayLayouts, *, into: bool) -> Callable[..., int] | None:
        """A function of arrays that are known to be of the right types, sizes and strides, the inputs and one output,
        good as long as this is; None if there is none.

        ``function(*inputs, buffer)``, with room in new bytes for the output and ``ALIGNMENT`` more, gives its offset
        there; if it is ``into``, ``function(*inputs, output)`` writes to that array and gives 0. -1 says that nothing
        ran, since an array is not where the layouts allow.
        """


class GivenArray(NamedTuple):
    """An array that is as its tensor's descriptor says."""

    array: Array
    address: int


def runner_of(
    executable: Executable, inputs: Sequence[Buffer | None], positions: Sequence[int], output_count: int
) -> Runner:
    """``Executable.runner``, by dispatches where there is nothing quicker."""
    found = executable.runner(inputs, positions, output_count)
    if found is not None:
        return found
    count = len(positions)

    def run(*arrays: Array) -> None:
        given: list[Buffer | None] = list(inputs)
        buffers = [GivenArray(array, address_of(array)) for array in arrays]
        for position, buffer in zip(positions, buffers[:count], strict=True):
            given[position] = buffer
        dispatch = executable.dispatch(given, buffers[count:])
        dispatch()
        dispatch.release()

    return run


class TimedExecutable(Executable, Protocol):
    """An executable that measures its kernels. One thread at a time may run it, and kernels which would overlap do
    not."""

    def reset(self) -> None:
        """Forget earlier runs; to be done before each one."""

    def times(self) -> list[KernelTimes]:
        """The times of the kernels since the last reset, in the order of the code's descriptions."""
