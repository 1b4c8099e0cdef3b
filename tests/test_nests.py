"""Nests: the grammar as text and as a program of NumPy, and that the processor's nests compute what statements say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import opendml as dml
from opendml.description.enums import TensorDataType
from opendml.expression.affine import Affine, Element
from opendml.expression.element_types import I32, I64, U32, U64
from opendml.expression.folds import sum_of
from opendml.expression.interpreter import StrayAccessError
from opendml.expression.ir import (
    Axis,
    Binary,
    Expression,
    Part,
    Select,
    Tensor,
    Variable,
    cast,
    constant,
    index,
    select,
    temporary,
)
from opendml.loops.nest import (
    Accumulate,
    Area,
    At,
    Block,
    Body,
    Branch,
    Candidates,
    Cut,
    ElementStore,
    Fence,
    Fill,
    Flush,
    Gather,
    Items,
    Keep,
    Keeping,
    Kind,
    Leaf,
    Let,
    Loop,
    Memory,
    Nest,
    Node,
    Pick,
    Points,
    Prefetch,
    Recall,
    Reduce,
    Run,
    Share,
    Sort,
    Stage,
    Transpose,
    Turn,
    nodes_of,
)
from opendml.loops.nest_integers import (
    Both,
    Difference,
    Either,
    End,
    Equal,
    First,
    Greatest,
    Least,
    Local,
    Position,
    Product,
    Quotient,
    Register,
    Start,
    Sum,
    ToBoundary,
    WholeSteps,
    Within,
)
from opendml.loops.nest_interpreter import run_nest
from opendml.loops.nest_memory import RaceError
from opendml.loops.nest_printer import format_nest
from opendml.loops.plans import AS_THEY_STAND, Choice, Folding, KeptRow, Overlap, Plan, Steps
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import host_target

Array = np.ndarray[Any, Any]

DATA_TYPES = {d.dtype: d for d in TensorDataType if d.name not in ("UNKNOWN", "UINT4", "INT4")}


# The grammar, node by node -------------------------------------------------------------------------------------------

ROW, COLUMN = Axis("i", 10), Axis("j", 4)
X = Tensor("x", I32, (40,), (1,), "input")
Y = Tensor("y", I32, (40,), (1,), "output")
PLACE = Affine(((ROW, 4), (COLUMN, 1)), 0)
COPY = Leaf((ElementStore(Y, PLACE, Element(X, PLACE, True)),))
COPY_TEXT = "y@(4*i + j) = x@(4*i + j)"
LOADED = Element(X, PLACE, True)


def _run(body: Body, *memories: Memory, order: Sequence[int] = (0,)) -> tuple[Array, Array]:
    x, y = np.arange(1, 41, dtype=np.int32), np.zeros(40, np.int32)
    run_nest(Nest(body, memories), {X: x, Y: y}, order)
    return x, y


def _text(body: Body, *memories: Memory) -> list[str]:
    return format_nest(Nest(body, memories)).splitlines()


def _over_i(body: Body) -> Body:
    return (Loop(ROW, 0, ROW.size, 1, body),)


def test_loops_and_vectors() -> None:
    """The last step of a loop with a limit begins there; lanes that are not active store nothing."""
    body: Body = (
        Loop(
            ROW,
            2,
            ROW.size,
            3,
            (Points(ROW, 3, "together", (At(COLUMN, 0, (Points(COLUMN, 4, "vector", (COPY,), 3),)),)),),
            7,
        ),
    )
    assert _text(body) == [
        "for i in 2..10 step 3, not beyond 7",
        "  together i + 0..3",
        "    at j = 0",
        "      vector j + 0..4, 3 of them active",
        f"        {COPY_TEXT}",
    ]
    x, y = _run(body)
    expected = x.reshape(10, 4).copy()
    expected[:2] = expected[:, 3] = 0
    assert y.tolist() == expected.reshape(-1).tolist()


@pytest.mark.parametrize("order", [(0,), (2, 0, 1), (4, 3, 2, 1, 0)])
def test_work_items(order: Sequence[int]) -> None:
    """Points of one axis, blocks of another one, and blocks within blocks."""
    body: Body = (
        Items((Cut(COLUMN), Cut(ROW, 4), Cut(ROW, 3)), (Loop(ROW, Start(ROW), End(ROW), 1, (COPY,)),), look=5),
    )
    assert _text(body) == [
        "24 work items, shared out among the threads: j < 4, i < 10 in blocks of 4, i < 10 in blocks of 3"
        " (a look every 5)",
        "  for i in i.start..i.end",
        f"    {COPY_TEXT}",
    ]
    x, y = _run(body, order=order)
    assert (x == y).all()


@pytest.mark.parametrize("order", [(0,), (2, 0, 1), (4, 3, 2, 1, 0)])
def test_points_of_blocks(order: Sequence[int]) -> None:
    """Those of a block follow one another for every point of an axis between."""
    x, y = _run((Items((Cut(ROW, 5), Cut(COLUMN), Cut(ROW)), (COPY,)),), order=order)
    assert (x == y).all()
    with pytest.raises(AssertionError, match="beyond the last block"):
        _run((Items((Cut(ROW, 4), Cut(COLUMN), Cut(ROW)), (COPY,)),))
    with pytest.raises(AssertionError, match="beyond the last block"):
        _run((Items((Cut(ROW, 5), Cut(ROW, 2), Cut(ROW)), (COPY,)),))


@pytest.mark.parametrize("order", [(0,), (2, 0, 1), (4, 3, 2, 1, 0)])
def test_pools_of_work_items(order: Sequence[int]) -> None:
    """Each item is done once, whoever does it; so many threads that some have no share are of use all the same."""
    once = Leaf((ElementStore(Y, PLACE, Element(Y, PLACE, True) + 1),))
    body: Body = (Items((Cut(ROW), Cut(COLUMN)), (once,), pool=38),)
    assert _text(body)[0] == (
        "40 work items, shared out among the threads, 38 at the ends of shares to whoever is done first: i < 10, j < 4"
    )
    assert _run(body, order=order)[1].tolist() == [1] * 40
    body = (Items((Cut(ROW), Cut(COLUMN)), (once,), pool=35, taken=5),)
    assert _text(body)[0].endswith(", 35 at the ends of shares to whoever is done first, 5 at a time: i < 10, j < 4")
    assert _run(body, order=order)[1].tolist() == [1] * 40


def test_one_thread_does_serial_items() -> None:
    state = Variable("s", I32)
    once = Leaf((ElementStore(Y, PLACE, Element(Y, PLACE, True) + 1),))
    body: Body = (Items((Cut(ROW), Cut(COLUMN)), (once,), serial=True),)
    assert _text(body)[0] == "by one thread: i < 10, j < 4"
    assert _run(body, order=(1, 0, 2))[1].tolist() == [1] * 40
    assert state.name == "s"


@pytest.mark.parametrize("without_jump", [False, True])
def test_shares_and_branches(without_jump: bool) -> None:
    """Every thread goes through all points and writes what is its own."""
    first, last = Local("first"), Local("last")
    mine = Within(PLACE, first, last)
    writes: Body = (Leaf(COPY.stores, own=mine),) if without_jump else (Branch(mine, (COPY,)),)
    loops = _over_i((Loop(COLUMN, 0, 4, 1, writes),))
    body: Body = (Share(first, last, 40), *loops)
    assert _text(body) == [
        "first..last = this thread's share of 40",
        "for i in 0..10",
        "  for j in 0..4",
        f"    {'only ' if without_jump else ''}if first <= 4*i + j < last",
        f"      {COPY_TEXT}",
    ]
    x, y = _run(body, order=(1, 2, 0))
    assert (x == y).all()


def test_both_of_two_conditions() -> None:
    """The second one is asked only where the first one holds."""
    asked = Both(LOADED > 7, Within(PLACE, 0, 20))
    body: Body = _over_i((Loop(COLUMN, 0, 4, 1, (Leaf(COPY.stores, own=asked),)),))
    assert _text(body)[2:] == ["    only if (x@(4*i + j) > 7:i32) and 0 <= 4*i + j < 20", f"      {COPY_TEXT}"]
    x, y = _run(body)
    assert y.tolist() == [n if n > 7 and place < 20 else 0 for place, n in enumerate(x.tolist())]
    far = Within(Affine(((LOADED, 1),), 0), 0, 20)
    branch = _over_i((Loop(COLUMN, 0, 4, 1, (Branch(Both(LOADED < 9, far), (COPY,)),)),))
    assert _run(branch)[1].tolist() == [n if n < 9 else 0 for n in x.tolist()]


def test_integers_and_conditions() -> None:
    end = Local("end")
    body: Body = (
        Let(end, Least(WholeSteps(1, 12, 4), Difference(12, 1))),
        Loop(ROW, 1, end, 1, (Branch(Equal(end, 9), (Block((At(COLUMN, 1, (COPY,)),)),), (At(COLUMN, 2, (COPY,)),)),)),
    )
    assert _text(body) == [
        "let end = min(whole_steps(1, 12, 4), (12 - 1))",
        "for i in 1..end",
        "  if end == 9",
        "    block",
        "      at j = 1",
        f"        {COPY_TEXT}",
        "  else",
        "    at j = 2",
        f"      {COPY_TEXT}",
    ]
    x, y = _run(body)
    assert y.nonzero()[0].tolist() == [4 * i + 1 for i in range(1, 9)]
    assert (y == np.where(y != 0, x, 0)).all()


def test_registers_of_unrolled_points() -> None:
    """Each of them has its own, which a loop carries from step to step."""
    s = Variable("s", I32)
    step = Leaf((ElementStore(Y, PLACE, s),), (s,), (s + Element(X, PLACE, True),))
    begin = Leaf(registers=(s,), values=(Element(X, Affine((), 0), True),))

    def unrolled(leaf: Leaf) -> Points:
        return Points(COLUMN, 2, "unrolled", (leaf,))

    body: Body = (At(COLUMN, 1, (unrolled(begin), Loop(ROW, 0, 10, 1, (unrolled(step),), carried=(s,), copies=2))),)
    assert _text(body) == [
        "at j = 1",
        "  unrolled j + 0..2",
        "    s = x@(0)",
        "  for i in 0..10, carrying s (2 of each)",
        "    unrolled j + 0..2",
        "      y@(4*i + j) = s",
        "      s = (s + x@(4*i + j))",
    ]
    x, y = _run(body)
    sums = np.cumsum(x.reshape(10, 4), 0) + 1 - x.reshape(10, 4)
    assert (y.reshape(10, 4)[:, 1:3] == sums[:, 1:3]).all()
    assert not y.reshape(10, 4)[:, [0, 3]].any()


def test_registers_in_memory() -> None:
    s, memory = Variable("s", I32), Memory("state", I32, 4)
    place = ((s,), (memory,), COLUMN, 0)
    fill = (Leaf(registers=(s,), values=(Element(X, Affine(((COLUMN, 1),), 0), True),)), Keep(*place))
    use = (Recall(*place), Leaf((ElementStore(Y, PLACE, s),)))

    def over_j(body: Body) -> Loop:
        return Loop(COLUMN, 0, 4, 2, (Points(COLUMN, 2, "vector", body),))

    body: Body = (over_j(fill), *_over_i((over_j(use),)))
    assert _text(body, memory) == [
        "scratch state: i32[4]",
        "for j in 0..4 step 2",
        "  vector j + 0..2",
        "    s = x@(j)",
        "    state[j - 0] = s",
        "for i in 0..10",
        "  for j in 0..4 step 2",
        "    vector j + 0..2",
        "      s = state[j - 0]",
        "      y@(4*i + j) = s",
    ]
    assert _run(body, memory)[1].tolist() == [1, 2, 3, 4] * 10


def test_registers_that_both_bodies_set() -> None:
    """Behind a branch they are those of the body that was taken; an integer may be one of two likewise."""
    s, row = Variable("s", I32), Local("row")

    def sets(value: Expression) -> Body:
        return (Points(COLUMN, 2, "unrolled", (Leaf(registers=(s,), values=(value,)),)),)

    stored = Points(COLUMN, 2, "unrolled", (Leaf((ElementStore(Y, PLACE, s),)),))
    branch = Branch(
        Equal(Position(ROW), row), sets(Element(X, PLACE, True)), sets(constant(7, I32)), carried=(s,), copies=2
    )
    chosen = Let(row, Either(Equal(2, 3), 5, Either(Equal(3, 3), 4, 6)))
    body: Body = (At(COLUMN, 1, (chosen, *_over_i((branch, stored)))),)
    assert _text(body) == [
        "at j = 1",
        "  let row = (5 if 2 == 3 else (4 if 3 == 3 else 6))",
        "  for i in 0..10",
        "    if i == row, carrying s (2 of each)",
        "      unrolled j + 0..2",
        "        s = x@(4*i + j)",
        "    else",
        "      unrolled j + 0..2",
        "        s = 7:i32",
        "    unrolled j + 0..2",
        "      y@(4*i + j) = s",
    ]
    x, y = (array.reshape(10, 4) for array in _run(body))
    expected = np.zeros_like(y)
    expected[:, 1:3] = 7
    expected[4, 1:3] = x[4, 1:3]
    assert (y == expected).all()


def test_more_integers() -> None:
    """The way to a boundary in memory is less than the elements between two of them."""
    gap = ToBoundary(Y, PLACE, COLUMN, 0, 16)
    start, end = Local("start"), Local("end")
    body: Body = (
        At(ROW, 0, (Let(start, Least(Sum(0, gap), 4)),)),
        Let(end, Greatest(WholeSteps(start, Product(start, 1), 4, may_be_empty=True), 2)),
        Loop(ROW, end, Sum(end, 5), 1, (At(COLUMN, start, (Branch(Equal(start, 4), (), (COPY,)),)),)),
    )
    assert _text(body)[1:5] == [
        "  let start = min((0 + to_boundary(y, j = 0, 16 bytes)), 4)",
        "let end = max(whole_steps(start, start*1, 4), 2)",
        "for i in end..(end + 5)",
        "  at j = start",
    ]
    x, y = _run(body)
    places = y.nonzero()[0].tolist()
    assert len({place % 4 for place in places}) == 1 and len(places) in (3, 4, 5)
    assert (y[places] == x[places]).all()


def test_rows_that_folds_leave() -> None:
    """What a fold computes along a row is read by what comes behind it."""
    k, memory = Axis("k", 4), temporary("row0", I32, (4,))

    def square(axis: Axis) -> Expression:
        return Element(X, Affine(((ROW, 4), (axis, 1)), 0), True) * Element(X, Affine(((axis, 1),), 0), True)

    total = sum_of((k,), square(k), partials=4)
    assert isinstance(total, Part)
    row = KeptRow(total.fold, k, square(k), {square(COLUMN): COLUMN}, memory)
    leaf = Leaf((ElementStore(Y, PLACE, square(COLUMN) + total),))
    points = Loop(COLUMN, 0, 4, 2, (Points(COLUMN, 2, "vector", (leaf,)),))
    always = Steps("always", AS_THEY_STAND, AS_THEY_STAND)
    folding = Folding(total.fold, "partials", (), None, (), always, rows=(row,))
    reduce = Reduce((total.fold,), Plan({}, {}, (folding,)))
    nest = Nest(
        _over_i((Keeping((row,), (reduce, points)),)),
        rows=(memory,),
        ahead={X: 256},
        ahead_in_folds={total.fold: {X: 16}},
    )
    assert format_nest(nest).splitlines()[:7] == [
        "scratch row0: i32[4]",
        "prefetch x 256 bytes ahead",
        "prefetch x 16 bytes ahead, reducing k < 4",
        "for i in 0..10",
        "  keeping row0[k] = (x@(4*i + k) * x@(k)) while that is folded",
        "    reduce k < 4, 4 partial results in lanes",
        "    for j in 0..4 step 2",
    ]
    x, y = np.arange(1, 41, dtype=np.int32), np.zeros(40, np.int32)
    run_nest(nest, {X: x, Y: y})
    products = x.reshape(10, 4) * x[:4]
    assert (y.reshape(10, 4) == products + products.sum(1, keepdims=True)).all()


@pytest.mark.parametrize("order", [(0,), (1, 0, 2)])
def test_stages(order: Sequence[int]) -> None:
    """Rows that lie apart in the stage go to the output one by one."""
    here = Affine(((ROW, 9), (COLUMN, 1)), 0)
    area = Area(Y, PLACE, here, Memory("stage", I32, 80), 64, 64)
    rows = Local("rows")
    store = Leaf((ElementStore(Y, here, Element(X, PLACE, True)),), written="interleaved")
    loops: Body = (Loop(ROW, Start(ROW), End(ROW), 1, (At(COLUMN, 0, (Points(COLUMN, 4, "vector", (store,)),)),)),)
    stage = Stage((area,), ((ROW, Start(ROW)), (COLUMN, 0)), loops)
    flush = Flush(area, (Run(rows, 9, 4),), 4)
    body: Body = (Items((Cut(ROW, 3),), (stage, Let(rows, Difference(End(ROW), Start(ROW))), flush)), Fence())
    assert _text(body, area.memory) == [
        "scratch stage: i32[80]",
        "4 work items, shared out among the threads: i < 10 in blocks of 3",
        "  stage y from i = i.start, j = 0",
        "    for i in i.start..i.end",
        "      at j = 0",
        "        vector j + 0..4",
        "          interleaved y@(9*i + j) = x@(4*i + j)",
        "  let rows = (i.end - i.start)",
        "  flush y: rows times (every 9 to every 4) 4 elements",
        "fence",
    ]
    x, y = _run(body, area.memory, order=order)
    assert (x == y).all()
    narrow = replace(area, memory=Memory("stage", I32, 30))
    outside = Items((Cut(ROW, 3),), (replace(stage, areas=(narrow,)), replace(flush, area=narrow, runs=())))
    with pytest.raises(StrayAccessError, match="y"):
        _run((outside,), narrow.memory)


def test_candidates() -> None:
    """The least five of forty keys, equal ones in their order, with room for twelve."""
    along, rank, chosen = Axis("n", 40), Axis("r", 5), Variable("chosen", I64)
    count, threshold = Variable("count", I64), Variable("threshold", U32)
    memory, other, digits = (temporary(name, U64, (20,)) for name in ("candidates", "ordered", "digits"))
    candidates = Candidates(U32, 5, 12, memory, other, digits, 4, 8)
    key = Element(X, Affine(((along, 1),), 0), True)
    gather = Gather(candidates, key, along, (count, threshold))

    def at_four(node: Node) -> Body:
        return (Points(along, 4, "vector", (node,)),)

    place = Affine(((rank, 1),), 0)
    body: Body = (
        Loop(along, 0, 12, 4, at_four(Fill(candidates, key, along))),
        Sort(candidates, 12, (count, threshold)),
        Loop(along, 12, 40, 4, at_four(gather), carried=(count, threshold)),
        Branch(Equal(Register(count), 5), (), (Sort(candidates, Register(count)),)),
        Loop(rank, 0, 5, 1, (Pick(candidates, rank, chosen), Leaf((ElementStore(Y, place, cast(chosen, I32)),)))),
    )
    assert _text(body) == [
        "for n in 0..12 step 4",
        "  vector n + 0..4",
        "    candidates[n] = x@(n), n",
        "count, threshold = sort 5 of 12 candidates",
        "for n in 12..40 step 4, carrying count, threshold",
        "  vector n + 0..4",
        "    candidates[count++] = x@(n), n where the key < threshold",
        "    if count >= 12",
        "      count, threshold = sort 5 of count candidates",
        "if count == 5",
        "else",
        "  sort 5 of count candidates",
        "for r in 0..5",
        "  chosen = position of candidates[r]",
        "  y@(r) = i32(chosen)",
    ]
    keys = np.random.default_rng(0).integers(-3, 9, 40).astype(np.int32)
    found = np.zeros(40, np.int32)
    run_nest(Nest(body), {X: keys, Y: found})
    assert found[:5].tolist() == np.argsort(keys, kind="stable")[:5].tolist()


def test_plans() -> None:
    """They say how Selects and folds are computed that are not as they stand."""
    k, inside = Axis("k", 3), index(COLUMN) >= 1
    load = Element(X, PLACE, False)
    shifted = select(inside, load, constant(0, I32))
    total = sum_of((k,), select(index(k) >= 1, load, constant(0, I32)))
    assert isinstance(shifted, Select) and isinstance(total, Part) and isinstance(total.fold.elements[0], Select)
    jump = Choice(shifted, "jump", AS_THEY_STAND, AS_THEY_STAND)
    known = Choice(total.fold.elements[0], "known lanes", AS_THEY_STAND, AS_THEY_STAND)
    steps = Steps("lanes", AS_THEY_STAND, Plan({known.select: known}, {}))
    order = Overlap(ROW, k, 2, 3)
    body: Body = (
        Reduce((total.fold,), Plan({}, {}, (Folding(total.fold, "points", (k,), order, (), steps),))),
        Block((Transpose((load,), COLUMN),)),
        Leaf((ElementStore(Y, PLACE, shifted),), plan=Plan({shifted: jump}, {})),
    )
    assert _text(body) == [
        "reduce unrolled k < 3, in the order of 2*i + 3*k, each point's in their own",
        "  a step that is left out is taken in some lanes",
        "  where (k >= 1): both branches, each in its lanes, which are known",
        "block",
        "  transpose x@(4*i + j) along j",
        "where (j >= 1): by a jump to the branch",
        "y@(4*i + j) = select((j >= 1), x@(4*i + j), 0:i32)",
    ]


def test_sums_side_by_side() -> None:
    """Points that are together have a sum each, which the loop carries; they are stored one after the other."""
    s, k = Variable("s", I32), Axis("k", 3)
    product = Element(X, Affine(((ROW, 4), (k, 1)), 0), True) * Element(X, Affine(((COLUMN, 1), (k, 4)), 0), True)
    assert isinstance(product, Binary)

    def tile(kind: Kind, body: Body) -> Points:
        return Points(ROW, 3, kind, (Points(COLUMN, 2, kind, (Points(COLUMN, 2, "vector", body),), step=2),))

    begin = tile("together", (Leaf(registers=(s,), values=(constant(7, I32),)),))
    ahead = Prefetch(X, Affine(((ROW, 4), (k, 1)), 400), cache=2, is_stored=True)
    sums = Loop(k, 0, 3, 1, (ahead, tile("together", (Accumulate(s, product),))), carried=(s,), copies=6)
    stored = tile("unrolled", (Leaf((ElementStore(Y, PLACE, s),)),))
    body: Body = (At(COLUMN, 0, (Loop(ROW, 0, 10, 3, (begin, sums, stored), 7),)),)
    assert _text(body) == [
        "at j = 0",
        "  for i in 0..10 step 3, not beyond 7",
        "    together i + 0..3",
        "      together j + 2*(0..2)",
        "        vector j + 0..2",
        "          s = 7:i32",
        "    for k in 0..3, carrying s (6 of each)",
        "      prefetch x@(4*i + k + 400) to cache 2 to store there",
        "      together i + 0..3",
        "        together j + 2*(0..2)",
        "          vector j + 0..2",
        "            s += (x@(4*i + k) * x@(j + 4*k))",
        "    unrolled i + 0..3",
        "      unrolled j + 2*(0..2)",
        "        vector j + 0..2",
        "          y@(4*i + j) = s",
    ]
    x, y = _run(body)
    x = x.reshape(10, 4)
    assert (y.reshape(10, 4) == 7 + x[:, :3] @ x[:3]).all()


def test_steps_that_are_written_out_carry_the_sums_of_all_points() -> None:
    """One after the other, as a loop's: each has what the one before left in all registers, and so has what follows."""
    s, k = Variable("s", I32), Axis("k", 4)
    product = Element(X, Affine(((ROW, 4), (k, 1)), 0), True) * Element(X, Affine(((COLUMN, 1), (k, 4)), 0), True)
    assert isinstance(product, Binary)

    def tile(kind: Kind, body: Body) -> Points:
        return Points(ROW, 3, kind, (Points(COLUMN, 2, kind, (Points(COLUMN, 2, "vector", body),), step=2),))

    begin = tile("together", (Leaf(registers=(s,), values=(constant(7, I32),)),))
    steps = Points(k, 2, "unrolled", (tile("together", (Accumulate(s, product),)),), carried=(s,), copies=6)
    stored = tile("unrolled", (Leaf((ElementStore(Y, PLACE, s),)),))
    loop = Loop(k, 0, 4, 2, (steps,), carried=(s,), copies=6)
    body: Body = (At(COLUMN, 0, (Loop(ROW, 0, 10, 3, (begin, loop, stored), 7),)),)
    assert _text(body)[6:8] == [
        "    for k in 0..4 step 2, carrying s (6 of each)",
        "      unrolled k + 0..2, carrying s (6 of each)",
    ]
    x, y = _run(body)
    x = x.reshape(10, 4)
    assert (y.reshape(10, 4) == 7 + x @ x[:4]).all()


def test_squares_are_turned() -> None:
    """Three rows of two vectors become vectors of four lanes, three of them active."""
    s, t = Variable("s", I32), Variable("t", I32)
    vectors = Points(COLUMN, 2, "together", (Points(COLUMN, 2, "vector", (Leaf((), (s,), (LOADED,)),)),), step=2)
    turn = Turn(s, t, rows=3, stride=2, lanes=2)
    column = Points(ROW, turn.width, "vector", (Leaf((ElementStore(Y, PLACE, t),)),), 3)
    columns = Points(COLUMN, 2, "unrolled", (turn, Points(COLUMN, 2, "unrolled", (column,))), step=2)
    body: Body = (At(ROW, 1, (At(COLUMN, 0, (Points(ROW, 3, "together", (vectors,)), columns)),)),)
    assert _text(body)[6:10] == [
        "    unrolled j + 2*(0..2)",
        "      t = s of 3 rows, 2 lanes each, transposed",
        "      unrolled j + 0..2",
        "        vector i + 0..4, 3 of them active",
    ]
    x, y = _run(body)
    expected = np.zeros((10, 4), np.int32)
    expected[1:4] = x.reshape(10, 4)[1:4]
    assert (y.reshape(10, 4) == expected).all()


@pytest.mark.parametrize("order", [(0,), (2, 0, 1)])
def test_a_panel_is_filled_by_the_first_item_that_reads_it(order: Sequence[int]) -> None:
    """Each thread has one; where an item is in it follows from where its loops stand."""
    panel, base = Tensor("panel", I32, (8,), (1,), "temporary"), Axis("base", 1 << 20)
    strip = Local("strip")
    begin = Difference(Product(Quotient(Difference(strip, Start(COLUMN)), 3), 3), Position(COLUMN))
    fill = Leaf(
        (ElementStore(panel, Affine(((base, 1), (COLUMN, 1)), 0), Element(X, Affine(((COLUMN, 1),), 0), True)),)
    )
    use = Leaf((ElementStore(Y, PLACE, Element(panel, Affine(((base, 1), (COLUMN, 1)), 0), True)),))

    def strips(body: Body) -> Loop:
        vector = Points(COLUMN, 3, "vector", body)
        at = At(base, Sum(begin, 0), (vector,))
        return Loop(COLUMN, Start(COLUMN), End(COLUMN), 3, (at,), 1, unmoved=strip)

    inner: Body = (Branch(First(5), (strips((fill,)),)), Loop(ROW, Start(ROW), End(ROW), 1, (strips((use,)),)))
    nest = Nest((Items((Cut(COLUMN, 4), Cut(ROW, 2)), inner),), rows=(panel,), rolled=True)
    text = format_nest(nest).splitlines()
    assert text[:5] == [
        "scratch panel: i32[8]",
        "loops stay as they are",
        "5 work items, shared out among the threads: j < 4 in blocks of 4, i < 10 in blocks of 2",
        "  if first item here of 5",
        "    for j in j.start..j.end step 3, not beyond 1, unmoved strip",
    ]
    assert text[5] == "      at base = (((strip - j.start) // 3*3 - j) + 0)"
    x, y = np.arange(1, 41, dtype=np.int32), np.zeros(40, np.int32)
    run_nest(nest, {X: x, Y: y}, order)
    assert (y.reshape(10, 4) == x[:4]).all()


def test_stores_outside_are_seen() -> None:
    outside = Leaf((ElementStore(Y, Affine(((ROW, 5),), 0), Element(X, Affine((), 0), True)),))
    with pytest.raises(StrayAccessError, match="y"):
        _run(_over_i((outside,)))


def test_races_are_seen() -> None:
    """Two threads may write the same to one element, but nothing else."""
    first, last = Local("first"), Local("last")

    def own(value: Expression) -> Leaf:
        return Leaf((ElementStore(Y, Affine((), 7), value),))

    alike: Body = (Share(first, last, 10), Loop(ROW, first, last, 1, (own(Element(X, Affine((), 3), True)),)))
    assert _run(alike, order=(0, 1))[1][7] == 4
    each: Body = (Share(first, last, 10), Loop(ROW, first, last, 1, (own(Element(X, Affine(((ROW, 1),), 0), True)),)))
    with pytest.raises(RaceError, match="element 7"):
        _run(each, order=(0, 1))


def test_nodes_of_a_nest() -> None:
    body: Body = (Block((Branch(_true(), (COPY,), (Let(Local("a"), 1),)), COPY)),)
    assert [type(node).__name__ for node in nodes_of(body)] == ["Block", "Branch", "Leaf", "Let", "Leaf"]


def _true() -> Expression:
    return index(ROW) >= 0


# The processor's nests -----------------------------------------------------------------------------------------------


def test_explanations_show_nests() -> None:
    """What ``explain`` shows of a kernel is the nest that its code is written from."""
    tensor = dml.TensorDesc("float32", [1, 2, 9, 130])
    desc = dml.operators.MaxPooling(
        input_tensor=tensor,
        output_tensor=tensor,
        dimension_count=2,
        strides=[1, 1],
        window_size=[3, 3],
        start_padding=[1, 1],
        end_padding=[1, 1],
    )
    code = generate(refined_definition(desc, host_target()), host_target(), in_place=False)
    (kernel,), ((_, repeats),) = code.kernels, code.origins
    nest = kernel_nest(kernel, host_target(), repeats)
    assert nest is not None
    text = format_nest(nest)
    assert text in dml.explain(desc)
    assert any(isinstance(node, Branch) for node in nodes_of(nest.body)), "the interior of windows is a case"
    assert "reduce" in text and "unrolled t" in text


def test_registers_go_from_point_to_point() -> None:
    """A running sum along each row: what a point leaves in the register is what the next one finds, and the loop."""
    s = Variable("s", I32)
    leaf = Leaf((ElementStore(Y, PLACE, s),), (s,), (s + LOADED,))
    points = Points(COLUMN, 2, "unrolled", (leaf,), carried=(s,))
    body = _over_i((Leaf(registers=(s,), values=(constant(0, I32),)), Loop(COLUMN, 0, 4, 2, (points,), carried=(s,))))
    assert _text(body)[1:4] == [
        "  s = 0:i32",
        "  for j in 0..4 step 2, carrying s",
        "    unrolled j + 0..2, carrying s",
    ]
    x, y = _run(body)
    totals = x.reshape(10, 4).cumsum(1)
    assert (y.reshape(10, 4)[:, 1:] == totals[:, :-1]).all() and (y[::4] == 0).all()
