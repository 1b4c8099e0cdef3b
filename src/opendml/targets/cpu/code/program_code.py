"""A definition into LLVM modules: every kernel a function, and one entry that all threads run together."""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from opendml.expression.affine import Interval, affine
from opendml.expression.element_types import BOOL
from opendml.expression.ir import Axis, Expression, Tensor
from opendml.expression.statements import (
    Compute,
    Definition,
    Each,
    Order,
    Repeat,
    Scan,
    Single,
    Statement,
    Store,
    own_of,
    stores_of,
    writes_of,
)
from opendml.llvm.builder import Builder, Value
from opendml.loops.memory_plan import ALIGNMENT, MemoryPlan, bytes_of, plan_memory
from opendml.targets.cpu.code.call_runs import Call, Place, RunWriter, moved_thread, runs
from opendml.targets.cpu.code.interface import ENTRY
from opendml.targets.cpu.code.kernel_code import KernelCode, kernel_code
from opendml.targets.cpu.code.likeness import Likeness, likeness
from opendml.targets.cpu.code.read_constants import constant_tables, read_constants
from opendml.targets.cpu.code.work_items import decoded, share
from opendml.targets.cpu.contraction import ContractionKernel, schedule_contraction
from opendml.targets.cpu.schedule import (
    ComputeKernel,
    OrderKernel,
    ScanKernel,
    ScatterKernel,
    schedule_compute,
    schedule_order,
    schedule_scan,
    schedule_scatter,
    work_of,
)
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.target import Requirements

SCRATCH: Final = -1
"""In place of an argument's number: the memory that the thread has alone."""

CLOCK: Final = "llvm.readcyclecounter"
"""The counter of constant rate that programs may read: x86's time stamp counter, AArch64's virtual counter."""

Kernel = ComputeKernel | ContractionKernel | ScanKernel | ScatterKernel | OrderKernel
Origin = tuple[Single, tuple[Axis, ...]]
"""The statement of a kernel, and the axes of the Repeats that it is in."""

RECORD: Final = ("work", "time")
"""What a profiled program adds up for each kernel and thread, 64-bit ticks of the CLOCK: how long the thread
worked, and how long it took until all threads were done."""


@dataclass(frozen=True, slots=True)
class ProgramCode:
    """The text of modules, and what a program needs to know to run them.

    ``slots`` are the tensors whose buffers the entry expects, in order; after them comes one buffer of
    ``requirements.temporary_size`` bytes and ``scratch_size`` more for each thread, aligned to 64, if that is not
    nothing; then, if the program is profiled, one for records: the number of threads that it has room for, then as many
    RECORDs for each kernel. ``origins`` are the statements, in the order in which their kernels run.
    """

    modules: tuple[str, ...]
    slots: tuple[Tensor, ...]
    requirements: Requirements
    origins: tuple[Origin, ...]
    target: CpuTarget
    in_place: bool

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the ``origins``, for people who want to see them: all are scheduled, those alike too."""
        return tuple(_scheduled(statement, self.target, self.in_place) for statement, _ in self.origins)


def program_code(
    definition: Definition, target: CpuTarget, support: str, *, in_place: bool = False, profiled: bool = False
) -> ProgramCode:
    """The modules of a definition. ``support`` defines ``barrier_wait``, ``go_on`` and what else the machine lacks.

    ``in_place`` says that outputs may be bound to the same memory as inputs. ``profiled`` adds
    records of time, for which all threads wait for each other behind every kernel.
    """
    slots = tuple(t for t in (*definition.inputs, *definition.outputs) if t is not None)
    plan = plan_memory(definition)
    own = tuple(own_of(definition.statements))
    writer = _ProgramWriter(slots, own, plan, dict(definition.views), target, in_place, profiled)
    writer.program(definition.statements)
    requirements = Requirements(writer.temporary_size, plan.least_size, writer.scratch_in_memory, writer.parallel)
    return ProgramCode(writer.modules(support), slots, requirements, tuple(writer.origins), target, in_place)


_Region = tuple[Interval, ...]
"""The least and the greatest coordinate in every dimension."""


class _Regions:
    """Parts of one tensor, in the order in which they begin along each dimension: whether another one meets any of them
    is asked of those alone that come near it, along the dimension where these are the fewest."""

    def __init__(self, rank: int) -> None:
        self._regions: list[_Region] = []
        self._begins: list[list[tuple[int, int]]] = [[] for _ in range(rank)]
        self._longest = [0] * rank

    def add(self, region: _Region) -> None:
        """Another part of the tensor."""
        number = len(self._regions)
        self._regions.append(region)
        for d, (low, high) in enumerate(region):
            insort(self._begins[d], (low, number))
            self._longest[d] = max(self._longest[d], high - low)

    def meet(self, region: _Region) -> bool:
        """Whether ``region`` has elements in common with any part."""
        near: Sequence[tuple[int, int]] | None = None
        for begins, longest, (low, high) in zip(self._begins, self._longest, region, strict=True):
            first, last = bisect_left(begins, (low - longest,)), bisect_left(begins, (high + 1,))
            if near is None or last - first < len(near):
                near = begins[first:last]
        return bool(self._regions) if near is None else any(_meet(self._regions[n], region) for _, n in near)


class _Memory:
    """Temporary tensors in the order in which they lie in memory."""

    def __init__(self, plan: MemoryPlan) -> None:
        self._plan = plan
        self._tensors: dict[Tensor, None] = {}
        self._begins: list[tuple[int, int, Tensor]] = []
        self._longest = 0

    def add(self, tensors: Iterable[Tensor]) -> None:
        """More tensors; those that are no temporaries are left out."""
        for tensor in tensors:
            if tensor in self._plan.offsets and tensor not in self._tensors:
                start, end = self._plan.span(tensor)
                insort(self._begins, (start, len(self._tensors), tensor))
                self._tensors[tensor] = None
                self._longest = max(self._longest, end - start)

    def meet(self, tensors: Iterable[Tensor]) -> bool:
        """Whether any of some tensors has bytes in common with another one of these."""
        for tensor in tensors:
            if tensor in self._plan.offsets:
                start, end = self._plan.span(tensor)
                first, last = bisect_left(self._begins, (start - self._longest,)), bisect_left(self._begins, (end,))
                for _, _, other in self._begins[first:last]:
                    if other is not tensor and self._plan.span(other)[1] > start:
                        return True
        return False


class _Accesses:
    """What has been read and written since the last barrier, writes with the regions they cover."""

    def __init__(self, plan: MemoryPlan) -> None:
        self._reads: set[Tensor] = set()
        self._writes: dict[Tensor, _Regions] = {}
        self._read_memory, self._written_memory = _Memory(plan), _Memory(plan)

    def conflict(self, reads: Set[Tensor], writes: Mapping[Tensor, Sequence[_Region]]) -> bool:
        """Whether what reads and writes some tensors must wait for these."""
        if self._written_memory.meet((*reads, *writes)) or self._read_memory.meet(writes):
            return True
        if any(tensor in self._writes for tensor in reads) or any(tensor in self._reads for tensor in writes):
            return True
        earlier = ((self._writes[tensor], regions) for tensor, regions in writes.items() if tensor in self._writes)
        return any(before.meet(region) for before, regions in earlier for region in regions)

    def add(self, reads: Set[Tensor], writes: Mapping[Tensor, Sequence[_Region]]) -> None:
        """Another statement, before the next barrier."""
        self._reads |= reads
        self._read_memory.add(reads)
        self._written_memory.add(writes)
        for tensor, regions in writes.items():
            before = self._writes.setdefault(tensor, _Regions(len(tensor.sizes)))
            for region in regions:
                before.add(region)


def _written_regions(stores: Iterable[Store]) -> dict[Tensor, list[_Region]]:
    """The regions of tensors that stores write to."""
    found: dict[Tensor, list[_Region]] = {}
    for store in stores:
        found.setdefault(store.tensor, []).append(_region(store))
    return found


def _meet(a: _Region, b: _Region) -> bool:
    return all(x[0] <= y[1] and y[0] <= x[1] for x, y in zip(a, b, strict=True))


@dataclass(slots=True)
class _Turn:
    """Kernels since the last barrier that one thread does, the one that is ``number`` before the first; their work."""

    number: int = 0
    work: int = 0


@dataclass(frozen=True, slots=True)
class _Written:
    """A kernel that has been scheduled and written, and the statement that it was written for."""

    kernel: Kernel
    code: KernelCode
    name: str
    used: tuple[Tensor, ...]
    work: int
    like: Likeness | None

    def tensors_of(self, like: Likeness | None) -> dict[Tensor, tuple[Tensor, int]]:
        """For each tensor of the kernel that of another statement like its own, and how much further to begin in it."""
        if self.like is None or like is None:
            return {tensor: (tensor, 0) for tensor in self.used}
        moves = (there - here for here, there in zip(self.like.bases, like.bases, strict=True))
        return dict(zip(self.like.tensors, zip(like.tensors, moves, strict=True), strict=True))


class _ProgramWriter:
    """The entry function and the kernels it calls."""

    def __init__(
        self,
        slots: tuple[Tensor, ...],
        own: Sequence[Tensor],
        plan: MemoryPlan,
        views: Mapping[Tensor, Tensor],
        target: CpuTarget,
        in_place: bool,
        profiled: bool,
    ) -> None:
        self.origins: list[Origin] = []
        self.parallel = False
        self._plan = plan
        self._views = views
        self._target = target
        self._tuning = target.tuning
        self._in_place = in_place
        self.scratch_size = 0
        self._profiled = profiled
        self._builder = Builder()
        self._functions: dict[str, str] = {}  # the text of a kernel without its name -> its name
        self._written: dict[object, _Written] = {}  # kernels, by what the statements that they are for have in common
        self._calls: list[Call] = []  # that are still to be written
        self._threads: dict[int, str] = {}  # the numbers of threads in the turns since the last barrier
        self._runs = RunWriter(self._builder, self._look, target.tuning)
        self._declarations: set[str] = set()
        self._pending = _Accesses(plan)
        self._turn = _Turn()
        self._work = self._seen = 0  # of the kernels so far, and of those before the last look
        self._has_looked = False
        self._slot_count = len(slots)
        self._places = {tensor: Place(number, number, 0) for number, tensor in enumerate(slots)}
        for tensor, offset in plan.offsets.items():
            if tensor not in own:
                self._places[tensor] = Place(len(self._places), len(slots), offset)
        few = len(self._places) <= self._tuning.many_pointers
        self._pointers = [self._argument(place) for place in self._places.values()] if few else []
        self._is_used = [False] * len(self._pointers)
        self._argument_lines = len(self._builder.lines)
        self._places |= {tensor: Place(len(self._places) + n, SCRATCH, 0) for n, tensor in enumerate(own)}
        self._places |= {view: self._places[root] for view, root in views.items()}
        self._numbers = {tensor: number for number, tensor in enumerate(self._places)}
        self._changed: Mapping[Statement, Compute] = {}  # statements that read constants from tables
        self._tables: list[str] = []

    def _argument(self, place: Place) -> str:
        """The pointer to a tensor."""
        if place.slot == self._slot_count:
            return self._builder.assign(f"getelementptr i8, ptr %memory, i64 {place.start}")
        address = self._builder.assign(f"getelementptr ptr, ptr %args, i64 {place.slot}")
        return self._builder.assign(f"load ptr, ptr {address}, align 8")

    @property
    def temporary_size(self) -> int:
        """Bytes for temporary tensors; what threads have alone begins behind them, at a cache line."""
        return -(-self._plan.size // ALIGNMENT) * ALIGNMENT if self.scratch_in_memory else self._plan.size

    @property
    def scratch_in_memory(self) -> int:
        """Bytes that each thread has alone in the program's memory: none where they are few enough for a stack."""
        return self.scratch_size if self.scratch_size > self._tuning.stacked_scratch_bytes else 0

    def _prologue(self) -> list[str]:
        """Where the memory of the program is, and the thread's part of it."""
        lines = []
        number = self._slot_count
        if self.temporary_size or self.scratch_in_memory:
            lines += [f"  %memory_address = getelementptr ptr, ptr %args, i64 {number}"]
            lines += ["  %memory = load ptr, ptr %memory_address, align 8"]
            number += 1
        if 0 < self.scratch_size <= self._tuning.stacked_scratch_bytes:
            lines += [f"  %scratch = alloca [{self.scratch_size} x i8], align {ALIGNMENT}"]
        elif self.scratch_size:
            lines += [f"  %scratch_before = mul i64 %thread, {self.scratch_size}"]
            lines += [f"  %scratch_offset = add i64 %scratch_before, {self.temporary_size}"]
            lines += ["  %scratch = getelementptr i8, ptr %memory, i64 %scratch_offset"]
        if self._profiled:
            lines += [f"  %records_address = getelementptr ptr, ptr %args, i64 {number}"]
            lines += ["  %records = load ptr, ptr %records_address, align 8"]
        return lines

    def program(self, statements: Sequence[Statement]) -> None:
        """All calls, and the kernels."""
        reading = read_constants(statements, self._numbers, self._tuning.long_run)
        self._changed = reading.statements
        self._tables, places = constant_tables(reading.constants)
        for tensor, (table, offset) in places.items():
            self._numbers[tensor] = len(self._numbers)
            self._places[tensor] = Place(self._numbers[tensor], 0, offset, table=table)
        self.statements(statements, [])

    def statements(self, statements: Sequence[Statement], repeats: list[tuple[Axis, str]]) -> None:
        for statement in statements:
            if isinstance(statement, Repeat):
                self._repeat(statement, repeats)
            elif isinstance(statement, Each):
                self._each(statement, repeats)
            else:
                self._kernel(statement, repeats)
        self._write_calls()

    def _repeat(self, repeat: Repeat, repeats: list[tuple[Axis, str]]) -> None:
        def body(position: str, _: list[Value]) -> list[Value]:
            self._barrier()
            before = self._work
            self.statements(repeat.statements, [*repeats, (repeat.axis, position)])
            work = max(self._work - before, 1)
            if work * repeat.axis.size > self._tuning.work_between_looks:
                self._runs.look_now_and_then(position, work)
                self._has_looked, self._seen = True, self._work
            return []

        self._write_calls()
        self._builder.loop("0", str(repeat.axis.size), 1, [], body)
        self._barrier()

    def _each(self, each: Each, repeats: list[tuple[Axis, str]]) -> None:
        """The points shared out among the threads; each thread does all work items of the kernels at its points."""
        self._write_calls()
        axes = (*(axis for axis, _ in repeats), *each.axes)
        alone = self._target.tuned(items=1, work_between_looks=1 << 62)  # no thread but the first may look for signals
        kernels = []
        reads, writes = set[Tensor](), dict[Tensor, list[_Region]]()
        for origin in each.statements:
            like = likeness(origin, axes, self._numbers) if isinstance(origin, Compute) else None
            key = (Each, origin if like is None else like.key)
            written = self._written.get(key) or self._write(origin, axes, like, alone, key)
            tensors = written.tensors_of(like)
            reads |= {self._views.get(t, t) for t in (tensors[tensor][0] for tensor in written.kernel.reads)}
            for tensor, regions in _written_regions(stores_of(origin)).items():
                writes.setdefault(tensor, []).extend(regions)
            places = [(*tensors[t], first) for t, first in zip(written.used, written.code.origins, strict=True)]
            kernels.append((written, places))
            self.origins.append((origin, axes))
        reads -= set(each.own)
        writes = {tensor: regions for tensor, regions in writes.items() if tensor not in each.own}
        if self._pending.conflict(reads, writes):
            self._barrier()
        self._pending.add(reads, writes)
        self._place_own(each.own, max((written.code.scratch_bytes for written, _ in kernels), default=0))
        count = math.prod(axis.size for axis in each.axes)
        work = max(sum(written.work for written, _ in kernels), 1)
        self.parallel |= count > 1 and work * count >= self._tuning.serial_work
        self._work += work * count
        self._points(each, repeats, kernels, count, work)

    def _place_own(self, own: Sequence[Tensor], start: int) -> None:
        """Places for tensors in the scratch memory of a thread, behind what kernels have there."""
        start = -(-start // ALIGNMENT) * ALIGNMENT
        for tensor in own:
            self._places[tensor] = replace(self._places[tensor], start=start)
            start += bytes_of(tensor)
        self.scratch_size = max(self.scratch_size, start)

    def _points(
        self,
        each: Each,
        repeats: list[tuple[Axis, str]],
        kernels: Sequence[tuple[_Written, Sequence[tuple[Tensor, int, int]]]],
        count: int,
        work: int,
    ) -> None:
        """The loop over this thread's points. In a profiled program, where all threads meet behind every kernel, all of
        them go around equally often."""
        builder = self._builder
        first, last = share(builder, count)
        looks = work * count > self._tuning.work_between_looks
        self._has_looked |= looks
        if looks:
            self._seen = self._work
        numbers = range(len(self.origins) - len(kernels), len(self.origins))

        def body(position: str, _: list[Value]) -> list[Value]:
            if looks:
                self._runs.look_now_and_then(position, work)
            place = decoded(builder, position, [axis.size for axis in each.axes])
            positions = [f"i64 {p}" for p in (*(p for _, p in repeats), *place)]
            for number, (written, places) in zip(numbers, kernels, strict=True):
                code = written.code
                pointers = [f"ptr {self._pointer_to(self._place(*p))}" for p in places]
                rest = ["ptr %scratch"] if code.scratch_bytes else []
                call = f"call void @{written.name}({', '.join([*pointers, *positions, 'i64 0', 'i64 1', *rest])})"
                if self._profiled:
                    self._timed_point(call, position, last, number)
                else:
                    self._call(call, looks)
            return []

        if self._profiled:
            rounds = builder.assign(f"add i64 {builder.assign('sub i64 %threads, 1')}, {count}")
            last_round = builder.assign(f"add i64 {first}, {builder.assign(f'udiv i64 {rounds}, %threads')}")
            builder.loop(first, last_round, 1, [], body)
        else:
            builder.loop(first, last, 1, [], body)

    def _timed_point(self, call: str, position: str, last: str, number: int) -> None:
        """The call at a point, if that is one of this thread's, and its time."""
        start = self._builder.assign(f"call i64 @{CLOCK}()")
        is_own = Value(self._builder.assign(f"icmp slt i64 {position}, {last}"), BOOL)

        def write() -> list[Value]:
            self._builder.line(call)
            return []

        self._builder.branch(is_own, write, list)
        arguments = f"ptr %records, i64 {number}, i64 %thread, i64 {start}, ptr %barrier, i64 %threads"
        self._builder.line(f"call void @record({arguments})")
        self._all_have_met()

    def _barrier(self) -> None:
        self._write_calls()
        self._builder.line("call void @barrier_wait(ptr %barrier, i64 %threads)")
        self._all_have_met()

    def _all_have_met(self) -> None:
        """There is nothing to wait for behind a barrier."""
        self._pending = _Accesses(self._plan)
        self._turn = _Turn()
        self._threads = {}

    def _kernel(self, origin: Single, repeats: list[tuple[Axis, str]]) -> None:
        axes = tuple(axis for axis, _ in repeats)
        statement = self._changed.get(origin, origin)
        like = likeness(statement, axes, self._numbers) if isinstance(statement, Compute) else None
        key = statement if like is None else like.key
        written = self._written.get(key) or self._write(statement, axes, like, self._target, key)
        kernel, code, tensors = written.kernel, written.code, written.tensors_of(like)
        reads = {self._views.get(other, other) for other in (tensors[tensor][0] for tensor in kernel.reads)}
        writes = _written_regions(stores_of(statement))
        if self._pending.conflict(reads, writes):
            self._barrier()
        self._pending.add(reads, writes)
        self.parallel |= not kernel.serial
        places = [self._place(*tensors[t], first) for t, first in zip(written.used, code.origins, strict=True)]
        rest = [*(["ptr %control"] if code.is_controlled else []), *(["ptr %scratch"] if code.scratch_bytes else [])]
        self.scratch_size = max(self.scratch_size, code.scratch_bytes)
        # One that asks by itself needs no question before it, and nothing can have been stopped before the first one.
        may_be_stopped = not code.is_controlled and (bool(repeats) or self._has_looked)
        positions = tuple(f"i64 {position}" for _, position in repeats)
        turn, work = self._turn_of(kernel, written.work), written.work
        self._work += work
        self._has_looked |= code.is_controlled
        looks = self._work - self._seen > self._tuning.work_between_looks and not repeats
        if looks:
            self._has_looked, self._seen = True, self._work
        self._calls.append(Call(written.name, tuple(places), positions, turn, tuple(rest), may_be_stopped, looks, work))
        if self._profiled:
            self._write_calls()
        self.origins.append((origin, axes))

    def _write(
        self,
        statement: Single,
        axes: tuple[Axis, ...],
        like: Likeness | None,
        target: CpuTarget,
        key: object,
    ) -> _Written:
        """A kernel for a statement, and for those like it."""
        kernel = _scheduled(statement, target, self._in_place)
        used = sorted(kernel.reads | writes_of(statement), key=self._numbers.__getitem__)
        code = kernel_code(kernel, used, axes, target)
        name = self._functions.setdefault(code.text, f"kernel{len(self._functions)}")
        self._declarations |= code.declarations
        written = _Written(kernel, code, name, tuple(used), work_of_kernel(kernel), like)
        return self._written.setdefault(key, written)

    def _place(self, tensor: Tensor, moved: int, origin: int) -> Place:
        """Where a kernel is to begin in a tensor."""
        return replace(self._places[tensor], offset=(origin + moved) * tensor.type.bits // 8)

    def _write_calls(self) -> None:
        """The calls that are still to be written."""
        calls, self._calls = self._calls, []
        for run in runs(calls):
            if len(run) >= self._tuning.long_run:
                self._runs.write(run, self._call)
                continue
            for call in run:
                self._write_call(call)

    def _write_call(self, call: Call) -> None:
        pointers = [self._pointer_to(place) for place in call.places]
        text = call.text(pointers, self._thread_of(call.turn))
        if self._profiled:
            self._timed(text, call.may_be_stopped)
        else:
            self._call(text, call.may_be_stopped)
        if call.looks:
            self._look()

    def _look(self) -> list[Value]:
        """Have the calling thread see whether it is to go on. All threads meet at the same barriers in any case."""
        self._builder.assign("call i1 @go_on(ptr %control, i64 %thread)")
        return []

    def _call(self, call: str, may_be_stopped: bool) -> None:
        """The call of a kernel, unless the dispatch is stopped."""

        def write() -> list[Value]:
            self._builder.line(call)
            return []

        if not may_be_stopped:
            write()
            return
        stop = self._builder.assign("load atomic i64, ptr %control monotonic, align 8")
        goes_on = Value(self._builder.assign(f"icmp eq i64 {stop}, 0"), BOOL)
        self._builder.branch(goes_on, write, list)

    def _turn_of(self, kernel: Kernel, work: int) -> int:
        """By how much the threads' numbers are moved in a kernel: small ones that need not wait for each other take
        turns in which thread is the first, as soon as there is enough work for one more."""
        if not isinstance(kernel, ComputeKernel) or not kernel.serial:
            return 0
        if self._turn.work and self._turn.work + work > self._tuning.serial_work:
            self._turn = _Turn(self._turn.number + 1)
            self.parallel = True
        self._turn.work += work
        return self._turn.number

    def _thread_of(self, turn: int) -> str:
        """The number by which a thread goes in a turn."""
        if turn and turn not in self._threads:
            self._threads[turn] = moved_thread(self._builder, str(turn))
        return self._threads[turn] if turn else "%thread"

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

    def _timed(self, call: str, may_be_stopped: bool) -> None:
        start = self._builder.assign(f"call i64 @{CLOCK}()")
        self._call(call, may_be_stopped)
        arguments = f"ptr %records, i64 {len(self.origins)}, i64 %thread, i64 {start}, ptr %barrier, i64 %threads"
        self._builder.line(f"call void @record({arguments})")
        self._all_have_met()

    def modules(self, support: str) -> tuple[str, ...]:
        """The text of the modules: the entry, and where the kernels are many, groups of them."""
        groups = _groups(self._functions, self._tuning.module_size)
        timing = [f"declare i64 @{CLOCK}()", _RECORD_FUNCTION] if self._profiled else []
        tables = [*self._tables, *self._runs.tables]
        head = f"define void @{ENTRY}(ptr %args, i64 %thread, i64 %threads, ptr %barrier, ptr %control) #0 {{"
        entry = "\n".join([head, "entry:", *self._prologue(), *self._lines(), "  ret void", "}"])
        if len(groups) < 2:
            functions = [f"define internal void @{name}{text}" for text, name in self._functions.items()]
            return (self._module(support, [*timing, *tables, *functions, entry]),)
        declarations = [f"declare void @{name}{_parameter_types(text)}" for text, name in self._functions.items()]
        kernels = ([f"define void @{self._functions[text]}{text}" for text in group] for group in groups)
        return (
            self._module(support, [*timing, *tables, *declarations, entry]),
            *(self._module(support, functions) for functions in kernels),
        )

    def _lines(self) -> list[str]:
        """The entry's lines: without the pointers that nothing uses, where long runs find theirs in tables."""
        lines = self._builder.lines
        if not self._runs.tables:
            return lines
        counts = (2 if number < self._slot_count else 1 for number in range(len(self._pointers)))  # as ``_argument``
        kept = (is_used for is_used, count in zip(self._is_used, counts, strict=True) for _ in range(count))
        return [*itertools.compress(lines, kept), *lines[self._argument_lines :]]

    def _module(self, support: str, parts: Sequence[str]) -> str:
        width = self._target.machine.vector_bytes * 8
        attributes = (
            f'attributes #0 = {{ nounwind "min-legal-vector-width"="{width}" "prefer-vector-width"="{width}" }}'
        )
        parts = [*sorted(self._declarations), *parts, attributes]
        needs_support = any(name in part for part in parts for name in ("@barrier_wait", "@go_on", "half"))
        return "\n\n".join([*([support] if needs_support else []), *parts, _METADATA]) + "\n"


def work_of_kernel(kernel: Kernel) -> int:
    """The steps of a kernel."""
    return work_of(kernel) if isinstance(kernel, ComputeKernel) else kernel.work


def _groups(functions: Iterable[str], size: int) -> list[list[str]]:
    """The texts of kernels, in groups of about ``size`` characters."""
    groups: list[list[str]] = []
    room = 0
    for text in functions:
        if room <= 0:
            groups.append([])
            room = size
        groups[-1].append(text)
        room -= len(text)
    return groups


def _parameter_types(function: str) -> str:
    """``(ptr noalias %p0, i64 %thread) noinline #0 {`` as what a declaration has: ``(ptr noalias, i64)``."""
    return re.sub(r" %\w+", "", function[: function.index(")") + 1])


_METADATA: Final = """\
!0 = !{i32 1}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}"""

_RECORD_FUNCTION: Final = """
%record = type { i64, i64 }

; All threads meet behind a kernel, each with what it took since %start. Not inlined: LLVM takes a time that grows with
; the square of the calls and clocks in one block.
define internal void @record(ptr %records, i64 %kernel, i64 %thread, i64 %start, ptr %barrier, i64 %threads) noinline {
  %end = call i64 @llvm.readcyclecounter()
  call void @barrier_wait(ptr %barrier, i64 %threads)
  %together = call i64 @llvm.readcyclecounter()
  %room = load i64, ptr %records
  %row = mul i64 %kernel, %room
  %number = add i64 %row, %thread
  %header_end = getelementptr i64, ptr %records, i64 1
  %work_place = getelementptr %record, ptr %header_end, i64 %number
  %time_place = getelementptr %record, ptr %work_place, i64 0, i32 1
  %old_work = load i64, ptr %work_place
  %worked = sub i64 %end, %start
  %work = add i64 %old_work, %worked
  store i64 %work, ptr %work_place
  %old_time = load i64, ptr %time_place
  %took = sub i64 %together, %start
  %time = add i64 %old_time, %took
  store i64 %time, ptr %time_place
  ret void
}"""


def _scheduled(statement: Single, target: CpuTarget, in_place: bool) -> Kernel:
    if isinstance(statement, Compute):
        found = None if in_place else schedule_contraction(statement, target)
        return found or schedule_compute(statement, target, in_place=in_place)
    if isinstance(statement, Scan):
        return schedule_scan(statement, target)
    if isinstance(statement, Order):
        return schedule_order(statement, target)
    return schedule_scatter(statement, target)


def _region(store: Store) -> _Region:
    """Where in its tensor a store writes to; whole dimensions where that is not known."""

    def reach(coordinate: Expression, size: int) -> Interval:
        return affine(coordinate).range({}) or (0, size - 1)

    return tuple(map(reach, store.coordinates, store.tensor.sizes))
