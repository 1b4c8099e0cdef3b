"""A program as a value: which kernels run one after another, what waits for what, what repeats, and where tensors lie.

A target says of each kernel what a ``Kernel`` here has: what it is called with, how long it takes, whether the threads
share it out. All else follows from what the statements read and write. ``print(sequence)`` shows it::

    0: kernel0: x, w -> t0
    1: kernel1, in turn 1: y -> t1
    barrier
    2 to 65: kernel2, 64 times: t0, t1 -> z, ...
    for i < 3:
      barrier
      66: kernel3: z -> h
    barrier
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from opendml.expression.affine import Region
from opendml.expression.ir import Axis, Const, Tensor
from opendml.expression.likeness import Likeness, likeness
from opendml.expression.statements import (
    Compute,
    Definition,
    Each,
    Repeat,
    Single,
    Statement,
    own_of,
    reads_of,
    stores_of,
    writes_of,
)
from opendml.loops.alignment import aligned
from opendml.loops.conflicts import Accesses, Who, written_regions
from opendml.loops.memory_plan import MemoryPlan, bytes_of, plan_memory
from opendml.loops.placement import PLACEMENT, Placement
from opendml.loops.read_constants import read_constants


class Kernel(Protocol):
    """What a target says of a kernel."""

    @property
    def name(self) -> str:
        """What kernels have in common that do the same to the tensors that they are called with."""

    @property
    def tensors(self) -> Sequence[Tensor]:
        """Those of the statement that it was made for, in the order in which it takes them."""

    @property
    def work(self) -> int:
        """Its steps."""

    @property
    def is_serial(self) -> bool:
        """Whether one thread does all of it."""

    @property
    def takes_turns(self) -> bool:
        """Whether that may as well be another thread than the first."""

    @property
    def scratch_bytes(self) -> int:
        """Memory that each thread needs alone while it runs."""


K = TypeVar("K", bound=Kernel)
K_co = TypeVar("K_co", bound=Kernel, covariant=True)


Sharing = Literal["as it pays", "alone", "beside"]
"""Among whom a kernel is shared out: threads, where that pays; one that runs ``alone`` among nobody, as its threads are
at different points of an Each; one ``beside`` others that are shared out among all threads, which are awake, however
small it is, if that is possible."""


class Maker(Protocol[K_co]):
    """A target, as far as it makes kernels."""

    def __call__(
        self, statement: Single, repeats: tuple[Axis, ...], order: Mapping[Tensor, int], sharing: Sharing
    ) -> K_co:
        """The kernel of a statement inside of some ``repeats``; it takes its tensors in the ``order`` given."""


class Tuning(NamedTuple):
    """What steers a sequence. ``serial_work``: steps of kernels below which waking other threads costs more than it
    saves. ``long_run``: calls of one kernel in a row from which on they are a Run. ``like_statements``: statements with
    folds, or with ``long_statement`` expressions, from which on they share a kernel if only constants
    differ. ``work_beside``: steps of kernels from which on they are shared out beside others that are."""

    serial_work: int
    long_run: int
    like_statements: int
    long_statement: int
    placement: Placement = PLACEMENT
    work_beside: int = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Call(Generic[K]):
    """A kernel in its place.

    ``number``: its place among all calls of the sequence as it is written down. ``statement``: what it computes, at all
    points of ``axes``, those of the Loops and Points that it is in. ``tensors``: what it is called with, and how many
    elements further on it begins in each than what it was made for. ``turn``: the thread that takes part as number 0 is
    so many before the first.
    """

    number: int
    kernel: K
    statement: Single
    axes: tuple[Axis, ...]
    tensors: tuple[tuple[Tensor, int], ...]
    turn: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Run(Generic[K]):
    """Calls of one kernel in a row."""

    calls: tuple[Call[K], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """All threads wait for each other: what is behind it sees what was written before it."""


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Generic[K]):
    """Steps that are done for every point of an axis, in order."""

    axis: Axis
    steps: tuple[Step[K], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Points(Generic[K]):
    """Points of some axes in any order, shared out among the threads if ``is_shared``; a thread makes all calls of a
    point one after another, without a barrier. ``own``: tensors, and how many bytes behind the beginning of the
    thread's own memory they lie.
    """

    axes: tuple[Axis, ...]
    calls: tuple[Call[K], ...]
    own: tuple[tuple[Tensor, int], ...]
    is_shared: bool


Step = Call[K] | Run[K] | Barrier | Loop[K] | Points[K]

BARRIER: Final = Barrier()


@dataclass(frozen=True, eq=False)
class KernelSequence(Generic[K]):
    """The kernels of a definition.

    ``slots`` are the tensors that are given, in binding order; ``memory`` is where the temporaries lie. ``own`` are
    those that threads have alone; with what kernels need they take ``scratch_bytes`` a thread. ``views`` are the memory
    of other tensors. ``constants`` are in tensors of one element, which kernels alike read where statements differ in
    numbers alone.
    """

    steps: tuple[Step[K], ...]
    slots: tuple[Tensor, ...]
    memory: MemoryPlan
    own: tuple[Tensor, ...]
    views: Mapping[Tensor, Tensor]
    constants: Mapping[Tensor, Const]
    scratch_bytes: int

    @cached_property
    def calls(self) -> tuple[Call[K], ...]:
        """All calls by their numbers, each once, whatever repeats."""
        return tuple(_calls_of(self.steps))

    @property
    def is_parallel(self) -> bool:
        """Whether several threads can help."""
        return any(_is_parallel(step) for step in self.steps)

    def __str__(self) -> str:
        return "\n".join(_lines(self.steps))


def sequence_of(
    definition: Definition, make: Maker[K], tuning: Tuning, *, every_kernel_waits: bool = False
) -> KernelSequence[K]:
    """The kernels of a definition, made by a target. If ``every_kernel_waits`` all threads meet behind each of them, so
    that nothing else has to make them."""
    slots = tuple(t for t in (*definition.inputs, *definition.outputs) if t is not None)
    plan, own = plan_memory(definition, tuning.placement), tuple(own_of(definition.statements))
    placed = (tensor for tensor in plan.offsets if tensor not in own)
    views = dict(definition.views)
    order = {t: number for number, t in enumerate(dict.fromkeys((*slots, *placed, *own, *views)))}
    least = tuning.long_run, tuning.like_statements, tuning.long_statement
    reading = read_constants(definition.statements, order, *least)
    order |= {tensor: len(order) + number for number, tensor in enumerate(reading.constants)}
    writer = _Sequencer(make, tuning, plan, views, order, reading.statements, reading.constants, every_kernel_waits)
    steps = writer.steps(definition.statements, ())
    return KernelSequence(steps, slots, plan, own, views, reading.constants, writer.scratch_bytes)


class _Turns:
    """What kernels since the last barrier do that one thread does: their work, by how many that thread is before the
    first."""

    def __init__(self) -> None:
        self.work = [0]

    @property
    def last(self) -> int:
        """The last turn that there is."""
        return len(self.work) - 1

    def add(self, turn: int, work: int) -> None:
        """More work for one that is there, or the next one."""
        self.work += [0] * (turn - self.last)
        self.work[turn] += work


@dataclass(frozen=True, slots=True)
class _Made(Generic[K]):
    """A kernel, and what the statement that it was made for has in common with others."""

    kernel: K
    like: Likeness | None

    def tensors_for(self, like: Likeness | None) -> tuple[tuple[Tensor, int], ...]:
        """What the kernel is called with for another statement like its own, and how much further to begin in it."""
        if self.like is None or like is None:
            return tuple([(tensor, 0) for tensor in self.kernel.tensors])
        moves = (there - here for here, there in zip(self.like.bases, like.bases, strict=True))
        found = dict(zip(self.like.tensors, zip(like.tensors, moves, strict=True), strict=True))
        return tuple([found[tensor] for tensor in self.kernel.tensors])


class _Sequencer(Generic[K]):
    """Goes through the statements in order."""

    def __init__(
        self,
        make: Maker[K],
        tuning: Tuning,
        plan: MemoryPlan,
        views: Mapping[Tensor, Tensor],
        order: Mapping[Tensor, int],
        changed: Mapping[Statement, Compute],
        constants: Mapping[Tensor, Const],
        every_kernel_waits: bool,
    ) -> None:
        self.scratch_bytes = 0
        self._make = make
        self._tuning = tuning
        self._plan = plan
        self._views = views
        self._order = order
        self._changed = changed  # statements that read constants
        self._constants = constants
        self._every_kernel_waits = every_kernel_waits
        self._made: dict[object, _Made[K]] = {}  # by what the statements that they are for have in common
        self._count = 0
        self._pending = Accesses(plan)
        self._turns = _Turns()
        self._in_turn: dict[int, list[int]] = {}  # calls of one thread since the last barrier, by its turn
        self._in_order: set[int] = set()  # those of which one needs what another has done

    def steps(self, statements: Sequence[Statement], repeats: tuple[Axis, ...]) -> tuple[Step[K], ...]:
        """All steps; in a profiled program nothing is a run, since each call has times of its own."""
        steps: list[Step[K]] = []
        for statement in statements:
            if isinstance(statement, Repeat):
                self._meet()
                inner = self.steps(statement.statements, (*repeats, statement.axis))
                if self._every_kernel_waits or not all(map(_is_first_threads, inner)):
                    steps += (Loop(statement.axis, (BARRIER, *inner)), BARRIER)
                else:
                    steps += (BARRIER, Loop(statement.axis, inner), BARRIER)
                self._meet()
            elif isinstance(statement, Each):
                steps += self._points(statement, repeats)
            else:
                steps += self._kernel(statement, repeats)
        return tuple(steps if self._every_kernel_waits else self._with_runs(list(self._with_all_threads(steps))))

    def _kernel(self, statement: Single, repeats: tuple[Axis, ...]) -> Iterator[Step[K]]:
        read = self._changed.get(statement, statement)
        kernel, tensors = self._kernel_of(read, repeats, "as it pays")
        reads, writes = self._reads(read), written_regions(stores_of(read))
        before = self._pending.conflicts(reads, writes)
        turn = self._turn_behind(before, kernel)
        if turn is None:
            self._meet()
            yield BARRIER
            turn = self._next_turn(kernel)
        elif before:
            self._in_order |= {*self._in_turn.get(turn, ()), self._count}
        if kernel.is_serial:
            self._in_turn.setdefault(turn, []).append(self._count)
        self._pending.add(reads, writes, turn if kernel.is_serial else None)
        self.scratch_bytes = max(self.scratch_bytes, kernel.scratch_bytes)
        yield Call(self._number(), kernel, statement, repeats, tensors, turn)
        if self._every_kernel_waits:
            self._meet()

    def _points(self, each: Each, repeats: tuple[Axis, ...]) -> Iterator[Step[K]]:
        axes = (*repeats, *each.axes)
        calls: list[Call[K]] = []
        reads, writes = set[Tensor](), dict[Tensor, list[Region]]()
        for statement in each.statements:
            kernel, tensors = self._kernel_of(statement, axes, "alone")
            calls.append(Call(self._number(), kernel, statement, axes, tensors))
            reads |= self._reads(statement)
            for tensor, regions in written_regions(stores_of(statement)).items():
                writes.setdefault(tensor, []).extend(regions)
        reads -= set(each.own)
        writes = {tensor: regions for tensor, regions in writes.items() if tensor not in each.own}
        if self._pending.conflicts(reads, writes):
            self._meet()
            yield BARRIER
        self._pending.add(reads, writes, None)
        own = self._own(each.own, max((call.kernel.scratch_bytes for call in calls), default=0))
        count = math.prod(axis.size for axis in each.axes)
        work = max(sum(call.kernel.work for call in calls), 1)
        yield Points(each.axes, tuple(calls), own, count > 1 and work * count >= self._tuning.serial_work)
        if self._every_kernel_waits:
            self._meet()

    def _own(self, tensors: Sequence[Tensor], start: int) -> tuple[tuple[Tensor, int], ...]:
        """Places for tensors in the scratch memory of a thread, behind what kernels have there."""
        places = []
        start = aligned(start)
        for tensor in tensors:
            places.append((tensor, start))
            start += bytes_of(tensor)
        self.scratch_bytes = max(self.scratch_bytes, start)
        return tuple(places)

    def _kernel_of(
        self, statement: Single, repeats: tuple[Axis, ...], sharing: Sharing
    ) -> tuple[K, tuple[tuple[Tensor, int], ...]]:
        """The kernel of a statement and those like it, and what it is called with for this one."""
        like = likeness(statement, repeats, self._order) if isinstance(statement, Compute) else None
        key = (sharing, statement if like is None else like.key)
        made = self._made.get(key)
        if made is None:
            made = _Made(self._make(statement, repeats, self._order, sharing), like)
            self._made[key] = made
        return made.kernel, made.tensors_for(like)

    def _number(self) -> int:
        self._count += 1
        return self._count - 1

    def _reads(self, statement: Single) -> set[Tensor]:
        return {self._views.get(tensor, tensor) for tensor in reads_of(statement)}

    def _meet(self) -> None:
        """There is nothing to wait for behind a barrier."""
        self._pending = Accesses(self._plan)
        self._turns = _Turns()
        self._in_turn = {}

    def _with_all_threads(self, steps: Sequence[Step[K]]) -> Iterator[Step[K]]:
        """Small calls beside others that are shared out are so, too, if nothing else between the barriers around them
        needs what they do, or has done what they need."""
        for is_between, group in itertools.groupby(steps, lambda step: not isinstance(step, Barrier | Loop)):
            together = list(group)
            are_awake = is_between and any(map(_is_shared, together))
            yield from map(self._shared_out, together) if are_awake else together

    def _shared_out(self, step: Step[K]) -> Step[K]:
        if not isinstance(step, Call) or not step.kernel.is_serial or step.number in self._in_order:
            return step
        if step.kernel.work < self._tuning.work_beside:
            return step
        read = self._changed.get(step.statement, step.statement)
        kernel, tensors = self._kernel_of(read, step.axes, "beside")
        if kernel.is_serial:
            return step
        self.scratch_bytes = max(self.scratch_bytes, kernel.scratch_bytes)
        return replace(step, kernel=kernel, tensors=tensors, turn=0)

    def _turn_behind(self, before: Set[Who], kernel: Kernel) -> int | None:
        """The turn for a kernel that must come behind some others; None: they are not of one thread, which would do it
        behind them anyway, and a barrier is needed."""
        if not before:
            return self._next_turn(kernel)
        if not kernel.is_serial or len(before) > 1:
            return None
        (turn,) = before
        if turn is None or (turn and not kernel.takes_turns):
            return None
        self._turns.add(turn, kernel.work)
        return turn

    def _next_turn(self, kernel: Kernel) -> int:
        """Small kernels that need not wait for each other take turns in which thread is the first, as soon as there is
        enough work for one more."""
        if not kernel.takes_turns:
            return 0
        last = self._turns.last
        if self._turns.work[last] and self._turns.work[last] + kernel.work > self._tuning.serial_work:
            last += 1
        self._turns.add(last, kernel.work)
        return last

    def _with_runs(self, steps: Sequence[Step[K]]) -> Iterator[Step[K]]:
        """Long runs in place of their calls."""

        def kind(step: Step[K]) -> object:
            """Which calls go together: of one kernel, with a constant in the same places."""
            if not isinstance(step, Call):
                return step
            constants = self._constants
            return step.kernel.name, tuple(constants[t].type if t in constants else None for t, _ in step.tensors)

        for _, group in itertools.groupby(steps, kind):
            run = list(group)
            calls = tuple(step for step in run if isinstance(step, Call))
            if len(calls) == len(run) >= self._tuning.long_run:
                yield Run(calls)
            else:
                yield from run


def _calls_of(steps: Sequence[Step[K]]) -> Iterator[Call[K]]:
    for step in steps:
        if isinstance(step, Call):
            yield step
        elif isinstance(step, Run | Points):
            yield from step.calls
        elif isinstance(step, Loop):
            yield from _calls_of(step.steps)


def has_barriers(loop: Loop[K]) -> bool:
    """Whether threads meet in its rounds."""
    return any(isinstance(s, Barrier) or (isinstance(s, Loop) and has_barriers(s)) for s in loop.steps)


def _is_parallel(step: Step[K]) -> bool:
    if isinstance(step, Call):
        return not step.kernel.is_serial or step.turn > 0
    if isinstance(step, Run):
        return any(map(_is_parallel, step.calls))
    if isinstance(step, Loop):
        return any(map(_is_parallel, step.steps))
    return isinstance(step, Points) and step.is_shared


def _is_shared(step: Step[K]) -> bool:
    """Whether all threads have a share of it."""
    return step.is_shared if isinstance(step, Points) else isinstance(step, Call) and not step.kernel.is_serial


def _is_first_threads(step: Step[K]) -> bool:
    """Whether the first thread alone does all of it."""
    calls = step.calls if isinstance(step, Run) else (step,)
    return all(isinstance(call, Call) and call.kernel.is_serial and call.turn == 0 for call in calls)


# As text -------------------------------------------------------------------------------------------------------------


def _lines(steps: Sequence[Step[K]]) -> Iterator[str]:
    for step in steps:
        yield from _PRINTERS[type(step)](step)


def _call_lines(call: Call[K]) -> Iterator[str]:
    turn = f", in turn {call.turn}" if call.turn else ""
    yield f"{call.number}: {call.kernel.name}{turn}: {_tensors(call.statement)}"


def _run_lines(run: Run[K]) -> Iterator[str]:
    first, last = run.calls[0], run.calls[-1]
    turns = f", in turns {first.turn} to {last.turn}" if last.turn > first.turn else ""
    times = f"{first.kernel.name}, {len(run.calls)} times{turns}"
    yield f"{first.number} to {last.number}: {times}: {_tensors(first.statement)}, ..., {_tensors(last.statement)}"


def _loop_lines(loop: Loop[K]) -> Iterator[str]:
    yield f"for {loop.axis.name} < {loop.axis.size}:"
    yield from ("  " + line for line in _lines(loop.steps))


def _point_lines(points: Points[K]) -> Iterator[str]:
    axes = ", ".join(f"{axis.name} < {axis.size}" for axis in points.axes)
    own = f", each with {', '.join(t.name for t, _ in points.own)} alone" if points.own else ""
    yield f"for {axes} in any order{own}:"
    yield from ("  " + line for call in points.calls for line in _call_lines(call))


def _tensors(statement: Statement) -> str:
    """What a statement reads and writes, in the order of their names."""
    reads, writes = (", ".join(sorted({t.name for t in of(statement)})) for of in (reads_of, writes_of))
    return f"{reads} -> {writes}" if reads else writes


_PRINTERS: Final[Mapping[type, Callable[..., Iterator[str]]]] = {
    Call: _call_lines,
    Run: _run_lines,
    Barrier: lambda _: iter(["barrier"]),
    Loop: _loop_lines,
    Points: _point_lines,
}
