"""The entry of a program: the function that all threads run together, with the calls of its kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from opendml.expression.element_types import BOOL
from opendml.expression.ir import Axis
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value
from opendml.loops.alignment import ALIGNMENT, aligned
from opendml.loops.sequence import Barrier, Call, KernelSequence, Loop, Points, Run, Step, has_barriers
from opendml.targets.cpu.code import records
from opendml.targets.cpu.code.call_runs import Place, RunWriter, WrittenCall, moved_thread
from opendml.targets.cpu.code.constant_tables import constant_tables
from opendml.targets.cpu.code.interface import ENTRY
from opendml.targets.cpu.code.modules import REALIGNED
from opendml.targets.cpu.code.share_code import ShareWriter
from opendml.targets.cpu.code.work_items import decoded, share
from opendml.targets.cpu.code.written_kernels import WrittenKernel
from opendml.targets.cpu.tuning import Tuning

SCRATCH: Final = -1
"""In place of an argument's number: the memory that the thread has alone."""

COUNTERS: Final = 8
"""Counters of pools that each thread has beside the barrier: as many as fill a cache line."""

Loops = Sequence[tuple[Axis, str]]
"""The loops around a step, and the names of their positions."""


class EntryWriter:
    """Writes the entry. Its arguments are the slots of the sequence, then one buffer of ``temporary_size`` bytes and
    the scratch memory of each thread, if that is not nothing, then, if the program is ``profiled``, one for records."""

    def __init__(self, sequence: KernelSequence[WrittenKernel], tuning: Tuning, *, profiled: bool) -> None:
        self._sequence = sequence
        self._tuning = tuning
        self._profiled = profiled
        self._builder = Builder()
        self._threads: dict[int, str] = {}  # the numbers of threads in the turns since the last barrier
        self._shares = ShareWriter(self._builder, acts=not profiled and tuning.serial_work > 0)
        self._runs = RunWriter(self._builder, self._look, tuning)
        self._pools = 0  # of the kernels since the last barrier
        self._work = self._seen = 0  # of the kernels so far, and of those before the last look
        self._has_looked = False
        self._slot_count = len(sequence.slots)
        self._places = {tensor: Place(number, number, 0) for number, tensor in enumerate(sequence.slots)}
        for tensor, offset in sequence.memory.offsets.items():
            if tensor not in sequence.own:
                self._places[tensor] = Place(len(self._places), self._slot_count, offset)
        few = len(self._places) <= tuning.many_pointers
        self._pointers = [self._argument(place) for place in self._places.values()] if few else []
        self._is_used = [False] * len(self._pointers)
        self._argument_lines = len(self._builder.lines)
        self._places |= {tensor: Place(len(self._places) + n, SCRATCH, 0) for n, tensor in enumerate(sequence.own)}
        self._places |= {view: self._places[root] for view, root in sequence.views.items()}
        self._tables, constants = constant_tables(sequence.constants)
        for tensor, (table, offset) in constants.items():
            self._places[tensor] = Place(len(self._places), 0, offset, table=table)

    # Memory ----------------------------------------------------------------------------------------------------------

    @property
    def temporary_size(self) -> int:
        """Bytes for temporary tensors; what threads have alone begins behind them, at a cache line."""
        size = self._sequence.memory.size
        return aligned(size) if self.scratch_in_memory else size

    @property
    def scratch_in_memory(self) -> int:
        """Bytes that each thread has alone in the program's memory: none where they are few enough for a stack."""
        size = self._sequence.scratch_bytes
        return size if size > self._tuning.stacked_scratch_bytes else 0

    def _prologue(self) -> list[str]:
        """Where the memory of the program is, and the thread's part of it."""
        lines = []
        number, scratch_bytes = self._slot_count, self._sequence.scratch_bytes
        if self.temporary_size or self.scratch_in_memory:
            lines += [f"  %memory_address = getelementptr ptr, ptr %args, i64 {number}"]
            lines += ["  %memory = load ptr, ptr %memory_address, align 8"]
            number += 1
        if 0 < scratch_bytes <= self._tuning.stacked_scratch_bytes:
            lines += [f"  %scratch = alloca [{scratch_bytes} x i8], align {ALIGNMENT}"]
        elif scratch_bytes:
            lines += [f"  %scratch_before = mul i64 %thread, {scratch_bytes}"]
            lines += [f"  %scratch_offset = add i64 %scratch_before, {self.temporary_size}"]
            lines += ["  %scratch = getelementptr i8, ptr %memory, i64 %scratch_offset"]
        if self._profiled:
            lines += [f"  %records_address = getelementptr ptr, ptr %args, i64 {number}"]
            lines += ["  %records = load ptr, ptr %records_address, align 8"]
        return [*lines, *(self._shares.prologue() if self._sequence.is_parallel else [])]

    def _argument(self, place: Place) -> str:
        """The pointer to a tensor."""
        if place.slot == self._slot_count:
            return self._builder.assign(f"getelementptr i8, ptr %memory, i64 {place.start}")
        address = self._builder.assign(f"getelementptr ptr, ptr %args, i64 {place.slot}")
        return self._builder.assign(f"load ptr, ptr {address}, align 8")

    def _pointer_to(self, place: Place) -> str:
        if place.table:
            return self._builder.assign(f"getelementptr i8, ptr {place.table}, i64 {place.start + place.offset}")
        if place.slot == SCRATCH:
            return self._builder.assign(f"getelementptr i8, ptr %scratch, i64 {place.start + place.offset}")
        if self._pointers:
            self._is_used[place.number] = True
            pointer = self._pointers[place.number]
        else:
            pointer = self._argument(place)
        if place.offset == 0:
            return pointer
        return self._builder.assign(f"getelementptr i8, ptr {pointer}, i64 {place.offset}")

    def _places_for(self, call: Call[WrittenKernel]) -> tuple[Place, ...]:
        """Where a kernel is to begin in its tensors."""
        return tuple(
            replace(self._places[tensor], offset=(first + moved) * tensor.type.bits // 8)
            for (tensor, moved), first in zip(call.tensors, call.kernel.code.origins, strict=True)
        )

    # The function ----------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The whole of it."""
        if self._sequence.is_parallel:
            self._shares.begin()
        self._steps(self._sequence.steps, ())
        self._shares.end()
        head = f"define void @{ENTRY}(ptr %args, i64 %thread, i64 %threads, ptr %barrier, ptr %control)"
        return "\n".join([f"{head} {REALIGNED} #0 {{", "entry:", *self._prologue(), *self._lines(), "  ret void", "}"])

    @property
    def globals(self) -> list[str]:
        """What the entry refers to, known when its text is."""
        return [*(records.FUNCTIONS if self._profiled else ()), *self._tables, *self._runs.tables]

    def _lines(self) -> list[str]:
        """The entry's lines: without the pointers that nothing uses, where long runs find theirs in tables."""
        lines = self._builder.lines
        if not self._runs.tables:
            return lines
        counts = (2 if number < self._slot_count else 1 for number in range(len(self._pointers)))  # as ``_argument``
        kept = (is_used for is_used, count in zip(self._is_used, counts, strict=True) for _ in range(count))
        return [*itertools.compress(lines, kept), *lines[self._argument_lines :]]

    def _steps(self, steps: Sequence[Step[WrittenKernel]], loops: Loops) -> None:
        for step in steps:
            if isinstance(step, Call):
                self._write_call(self._call_of(step, loops), step.number)
            elif isinstance(step, Run):
                calls = [self._call_of(call, loops, in_run=True) for call in step.calls]
                self._runs.write(calls, self._shares.thread, self._call)
            elif isinstance(step, Barrier):
                self._meet(in_loop=bool(loops))
            elif isinstance(step, Loop):
                self._loop(step, loops)
            else:
                self._points(step, loops)

    def _meet(self, *, in_loop: bool) -> None:
        self._threads = {}
        self._pools = 0
        if not self._sequence.is_parallel:
            return
        if in_loop:
            self._shares.meet_in_loop()
        else:
            self._shares.meet()

    def _loop(self, loop: Loop[WrittenKernel], loops: Loops) -> None:
        if has_barriers(loop):
            self._shares.interrupt()
            self._threads = {}

        def body(position: str, _: list[Value]) -> list[Value]:
            before = self._work
            self._steps(loop.steps, (*loops, (loop.axis, position)))
            work = max(self._work - before, 1)
            if work * loop.axis.size > self._tuning.work_between_looks:
                self._runs.look_now_and_then(position, work)
                self._has_looked, self._seen = True, self._work
            return []

        self._builder.loop("0", str(loop.axis.size), 1, [], body)

    # Calls -----------------------------------------------------------------------------------------------------------

    def _call_of(self, call: Call[WrittenKernel], loops: Loops, *, in_run: bool = False) -> WrittenCall:
        """A call with all its arguments. Calls in a run have but one counter for pools among them: they have none. Nor
        have those in a loop, of which each thread is to read in every round what it has in its cache from the last."""
        kernel, code = call.kernel, call.kernel.code
        rest = [f"ptr {'null' if in_run or loops else self._new_pool()}"] if code.is_pooled else []
        rest += [*(["ptr %control"] if code.is_controlled else []), *(["ptr %scratch"] if code.scratch_bytes else [])]
        # One that asks by itself needs no question before it, and nothing can have been stopped before the first one.
        may_be_stopped = not code.is_controlled and (bool(loops) or self._has_looked)
        positions = tuple(f"i64 {position}" for _, position in loops)
        self._work += kernel.work
        self._has_looked |= code.is_controlled
        looks = self._work - self._seen > self._tuning.work_between_looks and not loops
        if looks:
            self._has_looked, self._seen = True, self._work
        places = self._places_for(call)
        return WrittenCall(kernel.name, places, positions, call.turn, tuple(rest), may_be_stopped, looks, kernel.work)

    def _new_pool(self) -> str:
        """The counters of the next kernel with pools since the last barrier; null where none are left, or where a
        thread is alone, which shares no barrier."""
        self._pools += 1
        if self._pools > COUNTERS:
            return "null"
        return self._builder.assign(f"call ptr @pools(ptr %barrier, i64 %threads, i64 {self._pools - 1})")

    def _write_call(self, call: WrittenCall, number: int) -> None:
        pointers = [self._pointer_to(place) for place in call.places]
        text = call.text(pointers, self._thread_of(call.turn))
        if self._profiled:
            start = records.started(self._builder)
            self._call(text, call.may_be_stopped)
            records.record(self._builder, number, start)
            self._pools = 0
        else:
            self._call(text, call.may_be_stopped)
        if call.looks:
            self._look()

    def _look(self) -> list[Value]:
        """Have the calling thread see whether it is to go on. All threads meet at the same barriers in any case."""
        self._builder.assign("call i1 @go_on(ptr %control)")
        return []

    def _call(self, call: str, may_be_stopped: bool) -> None:
        """The call of a kernel, unless the dispatch is stopped."""
        if not may_be_stopped:
            self._builder.line(call)
            return
        stop = self._builder.assign("load atomic i64, ptr %control monotonic, align 8")
        self._call_if(f"icmp eq i64 {stop}, 0", call)

    def _call_if(self, condition: str, call: str) -> None:
        def write() -> list[Value]:
            self._builder.line(call)
            return []

        self._builder.branch(Value(self._builder.assign(condition), BOOL), write, list)

    def _thread_of(self, turn: int) -> str:
        """The number by which a thread goes in a turn."""
        if turn and turn not in self._threads:
            self._threads[turn] = moved_thread(self._builder, self._shares.thread, str(turn))
        return self._threads[turn] if turn else self._shares.thread

    # Points of their own ---------------------------------------------------------------------------------------------

    def _points(self, points: Points[WrittenKernel], loops: Loops) -> None:
        """The loop over this thread's points. In a profiled program, where all threads meet behind every kernel, all of
        them go around equally often."""
        builder = self._builder
        for tensor, start in points.own:
            self._places[tensor] = replace(self._places[tensor], start=start)
        count = math.prod(axis.size for axis in points.axes)
        work = max(sum(call.kernel.work for call in points.calls), 1)
        self._work += work * count
        looks = work * count > self._tuning.work_between_looks
        first, last = share(builder, count, self._shares.thread)
        self._has_looked |= looks
        if looks:
            self._seen = self._work

        def body(position: str, _: list[Value]) -> list[Value]:
            if looks:
                self._runs.look_now_and_then(position, work)
            place = decoded(builder, position, [axis.size for axis in points.axes])
            positions = [*(p for _, p in loops), *place]
            for call in points.calls:
                text = self._point_call(call, positions)
                if self._profiled:
                    start = records.started(builder)
                    self._call_if(f"icmp slt i64 {position}, {last}", text)
                    records.record(builder, call.number, start)
                else:
                    self._call(text, looks)
            return []

        if self._profiled:
            rounds = builder.assign(f"add i64 {builder.assign('sub i64 %threads, 1')}, {count}")
            last_round = builder.assign(f"add i64 {first}, {builder.assign(f'udiv i64 {rounds}, %threads')}")
            builder.loop(first, last_round, 1, [], body)
        else:
            builder.loop(first, last, 1, [], body)

    def _point_call(self, call: Call[WrittenKernel], positions: Sequence[str]) -> str:
        """The call by a thread that does all work items alone."""
        arguments = [f"ptr {self._pointer_to(place)}" for place in self._places_for(call)]
        arguments += [*(f"i64 {position}" for position in positions), "i64 0", "i64 1"]
        arguments += ["ptr null"] if call.kernel.code.is_pooled else []
        arguments += ["ptr %scratch"] if call.kernel.code.scratch_bytes else []
        return f"call void @{call.kernel.name}({', '.join(arguments)})"
