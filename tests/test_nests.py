"""Nests: the grammar as text and as a program of NumPy, and that the processor's nests compute what statements say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from execution import assert_same_values, random_values, seeds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import examples
from random_definitions import definitions
from random_descriptors import descriptors, is_drawn

from opendml.description.enums import TensorDataType
from opendml.expression.affine import Affine, Element
from opendml.expression.element_types import I32
from opendml.expression.interpreter import NUMPY_TYPES, StrayAccessError, interpret
from opendml.expression.ir import Axis, Expression, Tensor, Variable, index
from opendml.expression.statements import Definition
from opendml.loops.nest import (
    At,
    Block,
    Body,
    Branch,
    Cut,
    Difference,
    ElementStore,
    End,
    Equal,
    Items,
    Keep,
    Leaf,
    Least,
    Let,
    Local,
    Loop,
    Memory,
    Nest,
    Points,
    Recall,
    Share,
    Start,
    WholeSteps,
    Within,
    nodes_of,
)
from opendml.loops.nest_interpreter import RaceError, interpret_nests, run_nest
from opendml.loops.nest_printer import format_nest
from opendml.operators import implemented
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import CpuTarget, host_target

Array = np.ndarray[Any, Any]

DATA_TYPES = {d.dtype: d for d in TensorDataType if d.name not in ("UNKNOWN", "UINT4", "INT4")}


# The grammar, node by node -------------------------------------------------------------------------------------------

ROW, COLUMN = Axis("i", 10), Axis("j", 4)
X = Tensor("x", I32, (40,), (1,), "input")
Y = Tensor("y", I32, (40,), (1,), "output")
PLACE = Affine(((ROW, 4), (COLUMN, 1)), 0)
COPY = Leaf((ElementStore(Y, PLACE, Element(X, PLACE, True)),))
COPY_TEXT = "y@(4*i + j) = x@(4*i + j)"


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


def test_one_thread_does_serial_items() -> None:
    state = Variable("s", I32)
    once = Leaf((ElementStore(Y, PLACE, Element(Y, PLACE, True) + 1),))
    body: Body = (Items((Cut(ROW), Cut(COLUMN)), (once,), serial=True),)
    assert _text(body)[0] == "by one thread: i < 10, j < 4"
    assert _run(body, order=(1, 0, 2))[1].tolist() == [1] * 40
    assert state.name == "s"


def test_shares_and_branches() -> None:
    """Every thread goes through all points and writes what is its own."""
    first, last = Local("first"), Local("last")
    loops = _over_i((Loop(COLUMN, 0, 4, 1, (Branch(Within(PLACE, first, last), (COPY,)),)),))
    body: Body = (Share(first, last, 40), *loops)
    assert _text(body) == [
        "first..last = this thread's share of 40",
        "for i in 0..10",
        "  for j in 0..4",
        "    if first <= 4*i + j < last",
        f"      {COPY_TEXT}",
    ]
    x, y = _run(body, order=(1, 2, 0))
    assert (x == y).all()


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
    unrolled = lambda leaf: Points(COLUMN, 2, "unrolled", (leaf,))  # noqa: E731
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
    over_j = lambda body: Loop(COLUMN, 0, 4, 2, (Points(COLUMN, 2, "vector", body),))  # noqa: E731
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


def test_stores_outside_are_seen() -> None:
    outside = Leaf((ElementStore(Y, Affine(((ROW, 5),), 0), Element(X, Affine((), 0), True)),))
    with pytest.raises(StrayAccessError, match="y"):
        _run(_over_i((outside,)))


def test_races_are_seen() -> None:
    """Two threads may write the same to one element, but nothing else."""
    first, last = Local("first"), Local("last")
    own = lambda value: Leaf((ElementStore(Y, Affine((), 7), value),))  # noqa: E731
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

KERNEL_TARGETS = {
    "usual": {},
    "all threads": {"serial_work": 0, "work_between_looks": 16},
    "streamed": {"serial_work": 0, "streamed_bytes": 0, "streamed_row_bytes": 0, "prefetched_bytes": 0},
    "staged": {"serial_work": 0, "streamed_bytes": 0, "streamed_row_bytes": 1 << 40, "stage_bytes": 512},
}


def _check(definition: Definition, target: CpuTarget, contents: dict[Tensor, Array], in_place: bool = False) -> None:
    """A definition interpreted by its statements and by its nests, whose threads run in several orders."""
    code = generate(definition, target, in_place=in_place)
    nests = {
        statement: kernel_nest(kernel, target, repeats)
        for kernel, (statement, repeats) in zip(code.kernels, code.origins, strict=True)
    }
    expected = {tensor: content.copy() for tensor, content in contents.items()}
    interpret(definition, expected)
    for order in ((0,), (2, 0, 1)):
        found = {tensor: content.copy() for tensor, content in contents.items()}
        interpret_nests(definition, found, lambda statement, _: nests.get(statement), order=order)
        for tensor, buffer in found.items():
            assert_same_values(buffer, expected[tensor])


def _contents(definition: Definition, seed: int) -> dict[Tensor, Array]:
    generator = np.random.default_rng(seed)
    tensors = [t for t in (*definition.inputs, *definition.outputs) if t is not None]
    return {t: random_values(DATA_TYPES[NUMPY_TYPES[t.type.name]], t.extent, generator) for t in tensors}


@examples(60, suppress_health_check=list(HealthCheck))
@given(definitions(), st.sampled_from(sorted(KERNEL_TARGETS)), seeds)
def test_nests_of_random_definitions(definition: Definition, tuning: str, seed: int) -> None:
    _check(definition, host_target().tuned(**KERNEL_TARGETS[tuning]), _contents(definition, seed))


DRAWN = [operator_type for operator_type in implemented() if is_drawn(operator_type)]


@pytest.mark.sampled
@pytest.mark.parametrize("operator_type", DRAWN, ids=lambda operator_type: operator_type.name)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), tuning=st.sampled_from(sorted(KERNEL_TARGETS)), seed=seeds)
def test_nests_of_random_descriptors(operator_type: Any, data: st.DataObject, tuning: str, seed: int) -> None:
    target = host_target().tuned(**KERNEL_TARGETS[tuning])
    definition = refined_definition(data.draw(descriptors(operator_type)), target)
    _check(definition, target, _contents(definition, seed))
