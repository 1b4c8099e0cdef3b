"""Code that is loaded into this process, run by a team of threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt

from opendml.targets.cpu.runtime.array_calls import (
    MAXIMUM_INPUTS,
    Words,
    array_call,
    bound_call,
    data_offset,
    table_call,
)
from opendml.targets.cpu.runtime.thread_team import CALL_WORDS, asked, default_team
from opendml.targets.host_memory import address_of, aligned_empty

if TYPE_CHECKING:
    from opendml.llvm.native import LoadedObject
    from opendml.targets.interface import ArrayLayouts, Buffer, Runner
    from opendml.targets.target import Requirements

Array = npt.NDArray[Any]


class WorkingMemory(NamedTuple):
    """What a run needs beside its tensors, and where it is."""

    array: Array
    address: int

    @classmethod
    def of(cls, size: int) -> WorkingMemory:
        """So many bytes of new memory."""
        array = aligned_empty(size)
        return cls(array, address_of(array))


class CpuExecutable:
    """A loaded entry function. ``records``: what kernels write their times to, behind the tensors, if they do."""

    records: Array | None = None

    def __init__(self, requirements: Requirements, loaded: LoadedObject, entry: int, thread_count: int) -> None:
        self.requirements = requirements
        self._loaded = loaded
        self._entry = entry
        self._use_threads(thread_count)

    def _use_threads(self, thread_count: int) -> None:
        """Run by so many threads, or by one where there is no work for others."""
        self._team = default_team(thread_count)
        self.thread_count = thread_count if self.requirements.parallel else 1
        self._asked = asked(self.thread_count, self.requirements.alone)
        self.least_temporary_size = self.requirements.least_temporary_size
        self._spare: list[WorkingMemory] = []  # of a call that is over, for the next one

    @property
    def temporary_size(self) -> int:
        """What the threads share, and what each needs alone."""
        needed = self.requirements
        return needed.temporary_size + needed.scratch_size * self.thread_count

    def with_thread_count(self, thread_count: int) -> CpuExecutable:
        """The same code run by another number of threads."""
        other = object.__new__(CpuExecutable)
        other.__dict__.update(self.__dict__)
        other._use_threads(thread_count)
        return other

    def resident(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """They are where they are read."""
        return buffers

    def dispatch(self, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer | None]) -> TeamDispatch:
        """A dispatch with memory of its own, if it needs any."""
        memory = self._memory()
        addresses = [buffer.address for buffer in (*inputs, *outputs) if buffer is not None]
        addresses += [memory.address] if memory is not None else []
        addresses += [address_of(self.records)] if self.records is not None else []
        return TeamDispatch(self, self._table(addresses), memory)

    def run(self, inputs: Sequence[Array | None], outputs: Sequence[Array | None]) -> None:
        """One dispatch, without what is needed for more."""
        addresses = [address_of(array) for array in (*inputs, *outputs) if array is not None]
        memory = self._memory()
        if memory is not None:
            addresses.append(memory.address)
        self.call(self._table(addresses))
        self.keep_for_later(memory)

    def call(self, table: ctypes.Array[ctypes.c_void_p]) -> None:
        """Run on a table."""
        self._team.call_function(ctypes.addressof(table))

    def quick_call(self, table: ctypes.Array[ctypes.c_void_p]) -> Callable[[], object] | None:
        """What runs on a table, sooner; None where there is no such thing."""
        return bound_call(self._team, ctypes.addressof(table))

    def array_function(self, layouts: ArrayLayouts, *, into: bool) -> Callable[..., int] | None:
        """A function of the interpreter's own kind, where the code needs nothing but the tensors."""
        if data_offset() is None or self.temporary_size or self.records is not None:
            return None
        if len(layouts.masks) > MAXIMUM_INPUTS + 1:
            return None
        team = self._team
        words = Words(team.call_address, team.handle, self._entry, self._asked, *layouts)
        return array_call(words, into=into)

    def runner(self, inputs: Sequence[Buffer | None], positions: Sequence[int], output_count: int) -> Runner | None:
        """A function of the interpreter's own kind, which takes the memory of a run too where it needs some."""
        if data_offset() is None or self.records is not None:
            return None
        places: list[int | None] = [None if buffer is None else buffer.address for buffer in inputs]
        for position in positions:
            places[position] = 0
        numbers = [position - places[:position].count(None) for position in positions]
        addresses = [place for place in places if place is not None]
        has_memory = bool(self.temporary_size)
        last = range(len(addresses), len(addresses) + output_count + has_memory)
        addresses += [0] * len(last)
        head = (self._team.call_address, self._team.handle, self._entry, self._asked)
        function = table_call(head, addresses, [*numbers, *last])
        keep = (self, inputs)
        return partial(self._run_with_memory, function, keep) if has_memory else partial(_run_alone, function, keep)

    def _run_with_memory(self, function: Runner, _: object, *arrays: Array) -> None:
        memory = self._memory()
        assert memory is not None
        function(*arrays, memory.array)
        self.keep_for_later(memory)

    def _table(self, addresses: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
        """What the team is called with: itself, the entry, its arguments and the threads; then the arguments."""
        table = (ctypes.c_void_p * (CALL_WORDS + len(addresses)))()
        arguments = ctypes.addressof(table) + CALL_WORDS * ctypes.sizeof(ctypes.c_void_p)
        table[:4] = [self._team.handle, self._entry, arguments, self._asked]
        table[CALL_WORDS:] = list(addresses)
        return table

    def _memory(self) -> WorkingMemory | None:
        """Memory for temporaries and threads: that of a call that is over, since new pages are slow."""
        try:
            return self._spare.pop()
        except IndexError:
            return WorkingMemory.of(self.temporary_size) if self.temporary_size else None

    def keep_for_later(self, memory: WorkingMemory | None) -> None:
        """The memory of a call that is over is for the next one."""
        if memory is not None and not self._spare:
            self._spare.append(memory)


def _run_alone(function: Runner, _: object, *arrays: Array) -> None:
    function(*arrays)


@dataclass(slots=True)
class TeamDispatch:
    """A table that a team is called with, and the memory that it names."""

    executable: CpuExecutable
    table: ctypes.Array[ctypes.c_void_p]
    memory: WorkingMemory | None

    def __call__(self) -> None:
        """Run once."""
        self.executable.call(self.table)

    def quicker(self) -> Callable[[], object]:
        """A function of the interpreter's own kind, if there is one. It is good as long as this is."""
        return self.executable.quick_call(self.table) or self

    def release(self) -> None:
        """The memory goes to a later call."""
        memory, self.memory = self.memory, None
        self.executable.keep_for_later(memory)
