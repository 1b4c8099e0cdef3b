"""Sequences of kernels, without any target: whatever is drawn, what conflicts is kept apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from opendml.expression.element_types import F32, I64
from opendml.expression.ir import (
    Axis,
    Binary,
    Const,
    Expression,
    Index,
    Load,
    Tensor,
    binary,
    constant,
    grid,
    index,
    indices,
    load,
    temporary,
)
from opendml.expression.rewriting import walk
from opendml.expression.statements import (
    Compute,
    Definition,
    Each,
    Repeat,
    Single,
    Statement,
    Store,
    expressions_of,
    stores_of,
    writes_of,
)
from opendml.loops.alignment import ALIGNMENT
from opendml.loops.conflicts import Accesses
from opendml.loops.sequence import Barrier, Call, KernelSequence, Loop, Points, Run, Sharing, Step, Tuning, sequence_of

TUNING = Tuning(serial_work=40, long_run=3, like_statements=2, long_statement=8, work_beside=10)
Point = Mapping[Axis, int]
Touched = frozenset[tuple[object, int]]
"""Bytes: of which memory, and where in it."""


@dataclass(frozen=True)
class Made:
    """A kernel of a target that only counts."""

    name: str
    tensors: Sequence[Tensor]
    work: int
    is_serial: bool
    takes_turns: bool
    scratch_bytes: int


class Target:
    """Small kernels are done by one thread, and the others shared out. ``made``: the statements that got a kernel."""

    def __init__(self) -> None:
        self.made: list[Single] = []
        self.beside = 0

    def __call__(
        self, statement: Single, repeats: tuple[Axis, ...], order: Mapping[Tensor, int], sharing: Sharing
    ) -> Made:
        self.made.append(statement)
        self.beside += sharing == "beside"
        tensors = sorted({e.tensor for e in _loads(statement)} | writes_of(statement), key=order.__getitem__)
        axes = statement.axes if isinstance(statement, Compute) else ()
        work = math.prod(axis.size for axis in axes)
        is_serial = work < TUNING.serial_work and sharing != "beside"
        return Made(
            f"kernel{len(self.made) - 1}", tensors, work, is_serial, is_serial and sharing != "alone", 8 * len(repeats)
        )


def _loads(statement: Statement) -> Iterator[Load]:
    return (e for x in expressions_of(statement) for e in walk(x) if isinstance(e, Load))


class _Drawn:
    """Statements over few tensors, which they read and write in parts, so that they often meet."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.given = [Tensor(f"x{n}", F32, (6, 5), (5, 1), "input") for n in range(2)]
        self.results = [Tensor(f"y{n}", F32, (6, 5), (5, 1), "output") for n in range(2)]
        self.temporaries = [temporary(f"t{n}", F32, (6, 5)) for n in range(self.integer(0, 4))]
        self.view = Tensor("view", F32, (30,), (1,), "temporary")
        self.own: list[Tensor] = []
        self.count = 0

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def definition(self) -> Definition:
        statements = tuple(self.statement(2) for _ in range(self.integer(1, 7)))
        views = ((self.view, self.temporaries[0]),) if self.temporaries else ()
        temporaries = (*self.temporaries, *self.own)
        return Definition(tuple(self.given), tuple(self.results), statements, temporaries, views)

    def statement(self, depth: int) -> Statement:
        kind = self.integer(0, 9) if depth else 9
        if kind == 0:
            axis = self.axis("r", self.integer(1, 3))
            return Repeat(axis, tuple(self.statement(depth - 1) for _ in range(self.integer(1, 3))))
        if kind == 1:
            return self.each()
        return self.compute(self.draw(st.sampled_from([*self.results, *self.temporaries])))

    def axis(self, name: str, size: int) -> Axis:
        self.count += 1
        return Axis(f"{name}{self.count}", size)

    def region(self) -> tuple[tuple[Axis, ...], tuple[Expression, ...]]:
        """A part of a tensor."""
        axes, place = [], []
        for size in (6, 5):
            axis = self.axis("i", self.integer(1, size))
            axes.append(axis)
            place.append(index(axis) + self.integer(0, size - axis.size))
        return tuple(axes), tuple(place)

    def compute(self, target: Tensor) -> Compute:
        axes, place = self.region()
        return Compute(axes, (Store(target, place, self.value(axes)),))

    def value(self, axes: Sequence[Axis]) -> Expression:
        value: Expression = constant(self.integer(0, 2), F32)
        for _ in range(self.integer(0, 2)):
            source = self.draw(st.sampled_from([*self.given, *self.results, *self.temporaries]))
            rows, columns = (self.integer(0, size - axis.size) for axis, size in zip(axes, (6, 5), strict=True))
            place = [index(axes[0]) + rows, index(axes[1]) + columns]
            read = load(source, place)
            if self.temporaries and source is self.temporaries[0] and self.integer(0, 1):
                read = load(self.view, [place[0] * 5 + place[1]])
            value = binary("add", value, read)
        return value

    def each(self) -> Each:
        """Rows of a tensor, each written by way of a tensor of its own."""
        own = temporary(f"own{len(self.own)}", F32, (5,))
        self.own.append(own)
        target = self.draw(st.sampled_from([*self.results, *self.temporaries]))
        row = self.axis("e", self.integer(1, 6))
        first, second = grid([5]), grid([5])
        reads = load(self.given[0], [index(row), index(first[0])])
        return Each(
            (row,),
            (
                Compute(first, (Store(own, indices(first), reads),)),
                Compute(second, (Store(target, (index(row), *indices(second)), load(own, indices(second))),)),
            ),
            (own,),
        )


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """Definitions of statements that read and write parts of few tensors."""
    return _Drawn(draw).definition()


def _coordinate(e: Expression, point: Point) -> int:
    """The value of a sum of axes."""
    if isinstance(e, Index):
        return point[e.axis]
    parts = [_coordinate(part, point) for part in e.children]
    if isinstance(e, Const):
        return int(e.value)
    assert isinstance(e, Binary) and e.operation in ("add", "mul")
    return sum(parts) if e.operation == "add" else math.prod(parts)


def _touched(sequence: KernelSequence[Any], call: Call[Any], around: Point) -> tuple[Touched, Touched]:
    """All bytes that a call reads, and all that it writes, at one point of what it is in."""
    axes = call.statement.axes
    reads: set[tuple[object, int]] = set()
    writes: set[tuple[object, int]] = set()
    for position in itertools.product(*(range(axis.size) for axis in axes)):
        point = {**around, **dict(zip(axes, position, strict=True))}
        for found, accesses in ((reads, _loads(call.statement)), (writes, stores_of(call.statement))):
            for access in accesses:
                root = sequence.views.get(access.tensor, access.tensor)
                steps = zip(access.coordinates, access.tensor.strides, strict=True)
                place = 4 * sum(_coordinate(c, point) * stride for c, stride in steps)
                if root in sequence.own:  # nobody else's
                    continue
                if root in sequence.memory.offsets:
                    found.add(("memory", sequence.memory.offsets[root] + place))
                else:
                    found.add((root, place))
    return frozenset(reads), frozenset(writes)


def _events(steps: Iterable[Step[Any]], around: Point) -> Iterator[Barrier | tuple[Call[Any], Point, int | None]]:
    """What runs, with all loops rolled out: barriers, and calls with the points they are at; which points of an Each
    they belong to."""
    for step in steps:
        if isinstance(step, Barrier):
            yield step
        elif isinstance(step, Call):
            yield step, around, None
        elif isinstance(step, Run):
            yield from ((call, around, None) for call in step.calls)
        elif isinstance(step, Loop):
            for n in range(step.axis.size):
                yield from _events(step.steps, {**around, step.axis: n})
        else:
            for number, position in enumerate(itertools.product(*(range(axis.size) for axis in step.axes))):
                point = {**around, **dict(zip(step.axes, position, strict=True))}
                yield from ((call, point, number) for call in step.calls)


@examples(120)
@given(definitions())
def test_what_conflicts_is_separated_by_a_barrier(definition: Definition) -> None:
    _check_barriers(definition)


def _check_barriers(definition: Definition) -> None:
    """One is between any two calls of which one writes bytes that the other one touches, but for those that one thread
    makes in order: at one point of an Each, and of small kernels in the same turn."""
    sequence = sequence_of(definition, Target(), TUNING)
    together: list[tuple[object, Touched, Touched]] = []
    for event in _events(sequence.steps, {}):
        if isinstance(event, Barrier):
            together = []
            continue
        call, around, number = event
        reads, writes = _touched(sequence, call, around)
        thread: object = ("point", number)
        if number is None:
            thread = ("turn", call.turn) if call.kernel.is_serial else object()
        for other, other_reads, other_writes in together:
            if other != thread:
                assert not writes & (other_reads | other_writes)
                assert not other_writes & reads
        together.append((thread, reads, writes))


@examples(120)
@given(definitions())
def test_kernels_are_those_of_the_statements_in_order(definition: Definition) -> None:
    """With runs and without; each is called with the tensors of its statement, and those alike have one kernel."""
    target = Target()
    sequence = sequence_of(definition, target, TUNING)
    statements = list(_statements(definition.statements))
    assert [call.statement for call in sequence.calls] == [statement for statement, _ in statements]
    assert [call.axes for call in sequence.calls] == [axes for _, axes in statements]
    assert [call.number for call in sequence.calls] == list(range(len(statements)))
    for call in sequence.calls:
        constants = {tensor for tensor, _ in call.tensors} & set(sequence.constants)
        tensors = {e.tensor for e in _loads(call.statement)} | writes_of(call.statement)
        assert {tensor for tensor, _ in call.tensors} - constants == tensors
    unused = {f"kernel{n}" for n in range(len(target.made))} - {call.kernel.name for call in sequence.calls}
    assert len(unused) <= target.beside  # of those only that were made again, to be shared out
    long = sequence_of(definition, Target(), TUNING._replace(long_run=1000, like_statements=1000))
    assert not any(isinstance(step, Run) for step in _flat(long.steps))
    assert _rolled_out(sequence) == _rolled_out(long) or sequence.constants
    for step in _flat(sequence.steps):
        if isinstance(step, Run):
            assert len(step.calls) >= TUNING.long_run
            assert len({call.kernel.name for call in step.calls}) == 1
    assert str(sequence).count("\n") < 3 * len(statements) + 3 * sum(1 for _ in _flat(sequence.steps))


def _rolled_out(sequence: KernelSequence[Any]) -> list[object]:
    """Every call in the order in which it runs, and the barriers."""
    return [
        None if isinstance(event, Barrier) else (event[0].number, event[0].turn, tuple(event[1].values()))
        for event in _events(sequence.steps, {})
    ]


def _statements(
    statements: Iterable[Statement], axes: tuple[Axis, ...] = ()
) -> Iterator[tuple[Single, tuple[Axis, ...]]]:
    for statement in statements:
        if isinstance(statement, Repeat):
            yield from _statements(statement.statements, (*axes, statement.axis))
        elif isinstance(statement, Each):
            yield from _statements(statement.statements, (*axes, *statement.axes))
        else:
            yield statement, axes


def _flat(steps: Iterable[Step[Any]]) -> Iterator[Step[Any]]:
    for step in steps:
        yield step
        if isinstance(step, Loop):
            yield from _flat(step.steps)


@examples(80)
@given(definitions())
def test_memory_of_tensors_that_live_at_the_same_time_is_apart(definition: Definition) -> None:
    """From the first statement that touches one to the last; what threads have alone lies apart from what kernels
    need."""
    sequence = sequence_of(definition, Target(), TUNING)
    lives: dict[Tensor, set[int]] = {}
    for number, statement in enumerate(definition.statements):
        for tensor in {e.tensor for e in _loads(statement)} | writes_of(statement):
            lives.setdefault(sequence.views.get(tensor, tensor), set()).add(number)
    spans = {tensor: range(min(numbers), max(numbers) + 1) for tensor, numbers in lives.items()}
    memory = sequence.memory
    for tensor in memory.offsets:
        assert memory.offsets[tensor] % ALIGNMENT == 0
        assert memory.span(tensor)[1] <= memory.size
    for a, b in itertools.combinations(memory.offsets, 2):
        if set(spans[a]) & set(spans[b]):
            assert memory.span(a)[1] <= memory.offsets[b] or memory.span(b)[1] <= memory.offsets[a]
    for step in _flat(sequence.steps):
        if isinstance(step, Points):
            for (_, start), call in itertools.product(step.own, step.calls):
                assert call.kernel.scratch_bytes <= start < sequence.scratch_bytes


@examples(40)
@given(definitions())
def test_every_kernel_waits(definition: Definition) -> None:
    """Where all threads meet behind each kernel there are no turns, no runs, and barriers for what repeats alone."""
    sequence = sequence_of(definition, Target(), TUNING, every_kernel_waits=True)
    assert not any(isinstance(step, Run) for step in _flat(sequence.steps))
    assert not any(call.turn for call in sequence.calls)
    loops = sum(isinstance(step, Loop) for step in _flat(sequence.steps))
    assert sum(isinstance(step, Barrier) for step in _flat(sequence.steps)) == 2 * loops


def _chain(*sizes: int) -> Definition:
    """Copies of copies."""
    *between, last = [temporary(f"t{n}", F32, (size,)) for n, size in enumerate(sizes)]
    x, y = Tensor("x", F32, last.sizes, (1,), "input"), Tensor("y", F32, last.sizes, (1,), "output")
    statements = []
    for source, target in itertools.pairwise((x, *between, y)):
        (i,) = grid(target.sizes)
        statements.append(Compute((i,), (Store(target, (index(i),), load(source, [index(i)])),)))
    return Definition((x,), (y,), tuple(statements), tuple(between))


def test_the_properties_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without conflicts there are no barriers, and the brute force sees it."""
    definition = _chain(64, 64)
    assert str(sequence_of(definition, Target(), TUNING)) == "0: kernel0: x -> t0\nbarrier\n1: kernel1: t0 -> y"
    monkeypatch.setattr(Accesses, "conflicts", lambda *_: set())
    assert str(sequence_of(definition, Target(), TUNING)) == "0: kernel0: x -> t0\n1: kernel1: t0 -> y"
    with pytest.raises(AssertionError):
        _check_barriers(definition)


def test_one_thread_needs_no_barrier() -> None:
    """Small kernels of which each reads what the one before wrote are one thread's, however many there are."""
    sequence = sequence_of(_chain(*[30] * 20), Target(), TUNING)
    assert _rolled_out(sequence) == [(number, 0, ()) for number in range(20)]
    assert not sequence.is_parallel


def test_what_one_thread_repeats_needs_no_barrier() -> None:
    small, large = _chain(30, 30), _chain(30, 64)
    for definition, barriers in ((small, 2), (large, 3)):
        repeated = replace(definition, statements=(Repeat(Axis("r", 5), definition.statements),))
        sequence = sequence_of(repeated, Target(), TUNING)
        assert sum(isinstance(step, Barrier) for step in _flat(sequence.steps)) == barriers


def _beside(*sizes: int, second_of_first: bool = False) -> Definition:
    """Sums of so many elements of one input, each stored apart; the second one perhaps of the first."""
    x = Tensor("x", F32, (60,), (1,), "input")
    outputs = [Tensor(f"y{n}", F32, (size,), (1,), "output") for n, size in enumerate(sizes)]
    statements = []
    for n, y in enumerate(outputs):
        axis = Axis(f"i{n}", y.sizes[0])
        source = outputs[0] if second_of_first and n == 1 else x
        read = load(source, [index(axis)])
        statements.append(Compute((axis,), (Store(y, (index(axis),), binary("add", read, read)),)))
    return Definition((x,), tuple(outputs), tuple(statements))


def test_small_kernels_beside_others_are_shared_out() -> None:
    sequence = sequence_of(_beside(20, 60, 5), Target(), TUNING)
    assert [call.kernel.is_serial for call in sequence.calls] == [False, False, True]
    assert not any(isinstance(step, Barrier) for step in sequence.steps)


def test_small_kernels_by_themselves_are_not() -> None:
    assert all(call.kernel.is_serial for call in sequence_of(_beside(20, 30, 20), Target(), TUNING).calls)


def test_small_kernels_of_one_another_are_not() -> None:
    sequence = sequence_of(_beside(30, 20, 60, second_of_first=True), Target(), TUNING)
    assert [call.kernel.is_serial for call in sequence.calls] == [True, True, False]


def test_threads_that_need_not_wait_for_each_other_do_not() -> None:
    """A kernel that reads what one in another turn wrote has that turn; one that reads what two wrote waits for both,
    and so does a large one."""
    x, y = Tensor("x", F32, (30,), (1,), "input"), Tensor("y", F32, (30,), (1,), "output")
    wide = Tensor("z", F32, (64,), (1,), "output")
    a, b, c, d = (temporary(name, F32, (30,)) for name in "abcd")

    def sums(target: Tensor, *sources: Tensor) -> Compute:
        (i,) = grid(target.sizes)
        value: Expression = constant(0, F32)
        for source in sources:
            value = binary("add", value, load(source, [index(i) // (target.sizes[0] // 30)]))
        return Compute((i,), (Store(target, (index(i),), value),))

    statements = (sums(a, x), sums(b, x), sums(c, b), sums(d, a), sums(y, a, b, c, d), sums(wide, y))
    sequence = sequence_of(Definition((x,), (y, wide), statements, (a, b, c, d)), Target(), TUNING)
    assert all(isinstance(step, (Barrier, Call, Run)) for step in sequence.steps)
    turns = [getattr(step, "turn", None) for step in sequence.steps if not isinstance(step, Run)]
    assert turns == [0, 1, 1, 0, None, 0, None, 0]


def _pieces(count: int) -> Definition:
    whole = Tensor("y", F32, (count, 4), (4, 1), "output")
    pieces = [Tensor(f"x{n}", F32, (4,), (1,), "input") for n in range(count)]
    statements = []
    for number, piece in enumerate(pieces):
        (i,) = grid([4])
        place = (constant(number, I64), index(i))
        statements.append(Compute((i,), (Store(whole, place, load(piece, [index(i)])),)))
    return Definition(tuple(pieces), (whole,), tuple(statements))


def test_pieces_of_a_tensor_are_a_run_in_turns() -> None:
    """One kernel, in other places of its tensors; as soon as there is enough work, other threads do it."""
    target = Target()
    sequence = sequence_of(_pieces(30), target, TUNING)
    (run,) = sequence.steps
    assert isinstance(run, Run) and len(target.made) == 1
    assert [call.tensors[-1][1] for call in run.calls] == [4 * n for n in range(30)]
    assert [call.turn for call in run.calls] == [n // 10 for n in range(30)]
    assert sequence.is_parallel
    assert not sequence_of(_pieces(10), Target(), TUNING).is_parallel
    assert str(sequence) == "0 to 29: kernel0, 30 times, in turns 0 to 2: x0 -> y, ..., x29 -> y"


def test_statements_that_differ_in_constants_read_them() -> None:
    (x,), count = [Tensor("x", F32, (4,), (1,), "input")], 5
    outputs = [Tensor(f"y{n}", F32, (4,), (1,), "output") for n in range(count)]
    statements = []
    for number, output in enumerate(outputs):
        (i,) = grid([4])
        value = binary("add", load(x, [index(i)]), constant(number, F32))
        statements.append(Compute((i,), (Store(output, (index(i),), value),)))
    definition = Definition((x,), tuple(outputs), tuple(statements))
    target = Target()
    sequence = sequence_of(definition, target, TUNING)
    assert len(target.made) == 1
    assert [const.value for const in sequence.constants.values()] == list(range(count))
    few = replace(definition, statements=definition.statements[:2])
    assert not sequence_of(few, Target(), TUNING).constants
