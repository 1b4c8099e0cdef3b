"""Expressions and graphs as deep as anybody likes: nothing calls itself for what an expression is made of."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import opendml as dml
from opendml.expression.affine import Dependencies, affine, interval
from opendml.expression.element_types import F32, I64, U32, U64
from opendml.expression.folds import sum_of
from opendml.expression.interpreter import run_interpreted
from opendml.expression.ir import Axis, Binary, Expression, Load, Part, Tensor, Variable, constant, index, load, select
from opendml.expression.printer import format_definition, format_expression, format_values
from opendml.expression.rewriting import conjuncts, substitute, walk
from opendml.expression.statements import Compute, Definition, Order, Scatter, Statement, Store, expressions_of
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.costs import GRAPH_COSTS
from opendml.graph.joining import join
from opendml.loops.nest import Accumulate, Branch, Candidates, Fill, Gather, Keeping, Nest
from opendml.loops.nest_printer import format_nest
from opendml.loops.plans import KeptRow

T = TypeVar("T")

DEPTH = 5_000
AXIS = Axis("i", 9)
INPUT = Tensor("x", F32, (9,), (1,), "input")


def from_deep_stack(function: Callable[[], T], frames: int = 150) -> T:
    """What a function returns that has only some frames of Python's stack left."""
    depth, frame = 1, sys._getframe().f_back
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + frames)
    try:
        return function()
    finally:
        sys.setrecursionlimit(before)


def chain(start: Expression, step: Callable[[Expression], Expression], depth: int = DEPTH) -> Expression:
    """One expression inside of another, again and again."""
    e = start
    for _ in range(depth):
        e = step(e)
    return e


def element() -> Expression:
    return load(INPUT, [index(AXIS)])


class TestExpressions:
    """Every way through an expression."""

    def test_hashes_and_comparisons(self) -> None:
        def compared() -> tuple[bool, bool]:
            one, other = (chain(element(), lambda e: e + 1.0) for _ in range(2))
            longer = chain(element(), lambda e: e + 1.0, DEPTH + 1)
            return one == other, one == longer

        assert from_deep_stack(compared, 60) == (True, False)

    def test_what_is_shared_is_compared_once(self) -> None:
        one, other = (chain(element(), lambda e: e + e, 200) for _ in range(2))
        assert one == other
        assert hash(one) == hash(other)

    def test_rewriting(self) -> None:
        deep = chain(element(), lambda e: select(e < 0.0, constant(0, F32), e))
        rewritten = from_deep_stack(lambda: substitute({element(): constant(1, F32)})(deep), 60)
        assert not any(isinstance(e, Load) for e in walk(rewritten))

    def test_conjunctions(self) -> None:
        deep = chain(element() < 0.0, lambda e: e & (element() < 1.0))
        assert len(from_deep_stack(lambda: conjuncts(deep), 60)) == DEPTH + 1

    def test_forms_of_sums(self) -> None:
        form = from_deep_stack(lambda: affine(chain(index(AXIS), lambda e: e + 1)), 60)
        assert (form.coefficient(AXIS), form.constant) == (1, DEPTH)

    def test_bounds(self) -> None:
        def bounds(e: Expression) -> Any:
            return from_deep_stack(lambda: (interval(e, {}), interval(e, {AXIS: (2, 3)})), 60)

        assert bounds(chain(index(AXIS), lambda e: (e + 2) // 2, 1000)) == ((1, 2), (2, 2))
        shared = chain(index(AXIS), lambda e: select(e < 1, e, e // 2), 200)
        assert bounds(shared) == ((0, 8), (0, 3))

    def test_dependencies(self) -> None:
        assert from_deep_stack(lambda: Dependencies().of(chain(element(), lambda e: -e)), 60) == {AXIS}

    def test_text(self) -> None:
        deep = chain(element(), lambda e: -e)
        assert from_deep_stack(lambda: format_expression(deep), 60).startswith("neg(neg(")
        assert len(repr(chain(element(), lambda e: e + e, 200))) < 4000
        lines = from_deep_stack(lambda: format_values([("y", chain(element(), lambda e: e + e, 200))]), 60)
        assert 1 < len(lines) <= 200

    def test_what_is_shared_is_written_once_wherever_it_stands(self) -> None:
        """Of 16 steps, so that what is written as often as it occurs is long, and not without end."""
        value = chain(element(), lambda e: e + e, 16)
        output, variable = Tensor("y", F32, (9,), (1,), "output"), Variable("v", F32)
        store = Store(output, (index(AXIS),), value)
        rank = Axis("r", 3)
        for statement in (
            Compute((AXIS,), (store,)),
            Scatter((AXIS,), value < 1.0, store),
            Order((), AXIS, value, rank, Variable("chosen", I64), (Store(output, (index(rank),), element()),)),
        ):
            assert len(format_definition(Definition((INPUT,), (output,), (statement,)))) < 1200
        words = Tensor("words", U64, (16,), (1,), "temporary")
        candidates = Candidates(U32, 3, 8, words, words, words, 4, 8)
        total = sum_of((AXIS,), value)
        assert isinstance(total, Part)
        for node in (
            Branch(value < 1.0, ()),
            Keeping((KeptRow(total.fold, AXIS, value, {}, output),), ()),
            Accumulate(variable, Binary("mul", value, value)),
            Fill(candidates, value, AXIS),
            Gather(candidates, value, AXIS, (variable, variable)),
        ):
            assert len(format_nest(Nest((node,)))) < 1200


def interpreted(value: Expression, x: np.ndarray[Any, Any], frames: int = 150) -> np.ndarray[Any, Any]:
    output = Tensor("y", F32, (9,), (1,), "output")
    statement = Compute((AXIS,), (Store(output, (index(AXIS),), value),))
    definition = Definition((INPUT,), (output,), (statement,))
    (result,) = from_deep_stack(lambda: run_interpreted(definition, [x]), frames)
    assert result is not None
    return result


class TestInterpreter:
    """The oracle takes what the compiler takes."""

    x = np.linspace(-1, 1, 9, dtype=np.float32)

    def test_chain(self) -> None:
        np.testing.assert_array_equal(interpreted(chain(element(), lambda e: e + 1.0, 3000), self.x), self.x + 3000)

    def test_branches_that_share(self) -> None:
        deep = chain(element(), lambda e: select(element() < 0.0, e - 1.0, e + 1.0), 300)
        np.testing.assert_array_equal(interpreted(deep, self.x), np.where(self.x < 0, self.x - 300, self.x + 300))

    def test_guarded_loads_are_still_checked(self) -> None:
        behind = load(INPUT, [index(AXIS) + 1])
        guarded = select(index(AXIS) < 8, behind, constant(0, F32))
        np.testing.assert_array_equal(interpreted(guarded, self.x), np.append(self.x[1:], np.float32(0)))
        with pytest.raises(Exception, match="outside its dimension"):
            interpreted(select(index(AXIS) < 9, behind, constant(0, F32)), self.x)


GRAPHS: dict[str, Callable[[Any], Any]] = {}


def graph_of(build: Callable[[dml.Graph], Any]) -> Callable[[dml.Graph], Any]:
    GRAPHS[build.__name__] = build
    return build


def _chained(x: dml.GraphTensor, step: Callable[[Any], Any], depth: int) -> Any:
    for _ in range(depth):
        x = step(x)
    return x


@graph_of
def tanh_24(g: dml.Graph) -> Any:
    return _chained(g.input("float32", [9]), dml.activation_tanh, 24)


@graph_of
def relu_144(g: dml.Graph) -> Any:
    return _chained(g.input("float32", [9]), dml.activation_relu, 144)


@graph_of
def additions_320(g: dml.Graph) -> Any:
    x = g.input("float32", [9])
    return _chained(x, lambda y: dml.add(y, x), 320)


@graph_of
def diamonds_200(g: dml.Graph) -> Any:
    return _chained(g.input("float32", [9]), lambda y: dml.add(y, y), 200)


@graph_of
def inputs_300(g: dml.Graph) -> Any:
    first, *others = (g.input("float32", [9]) for _ in range(300))
    for other in others:
        first = dml.add(first, other)
    return first


@graph_of
def choices_100(g: dml.Graph) -> Any:
    x, condition = g.input("float32", [9]), g.input("uint8", [9])
    return _chained(x, lambda y: dml.if_(condition, y * 2.0, y + 1.0), 100)


@graph_of
def transposed_60(g: dml.Graph) -> Any:
    return _chained(g.input("float32", [3, 3]), lambda y: dml.activation_relu(y.transpose([1, 0]) + y), 60)


@pytest.mark.sampled
@pytest.mark.parametrize("name", GRAPHS)
def test_graph_from_a_deep_stack(name: str) -> None:
    """Deep graphs compile and run, wherever they are called from, and give the bits of their operators one by one."""
    graph = dml.Graph()
    desc = graph.describe(GRAPHS[name](graph))
    device = dml.Device()
    generator = np.random.default_rng(1)

    def run() -> Any:
        fused = device.compile_graph(desc)
        alone = dml.Device("reference").compile_graph(desc)
        arrays = [
            generator.uniform(0, 2, b.desc.sizes).astype(b.desc.data_type.dtype)
            for b in fused.inputs
            if b.desc is not None
        ]
        return fused(*arrays), alone(*arrays)

    found, expected = from_deep_stack(run, 250)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["additions_320"])
def test_tools_take_deep_graphs_from_a_deep_stack(name: str, tmp_path: Path) -> None:
    """What shows, copies and keeps graphs, and what profiles them."""
    graph = dml.Graph()
    desc = graph.describe(GRAPHS[name](graph))
    file = str(tmp_path / "graph.bin")

    def run() -> None:
        assert str(dml.explain(desc))
        assert repr(desc)
        assert desc._repr_html_()
        assert pickle.loads(pickle.dumps(desc)) == copy.deepcopy(desc) == desc
        dml.save(desc, file)
        loaded = dml.load(file)
        assert isinstance(loaded, dml.GraphDesc)
        assert len(loaded.nodes) == len(desc.nodes)
        program = dml.Device().compile_graph(desc, fusion=False)
        profile = dml.profile(
            program, *(np.ones(b.desc.sizes, np.float32) for b in program.inputs if b.desc), seconds=0
        )
        assert len(profile.kernels) >= 200
        profile.save_page(tmp_path / "page.html")

    from_deep_stack(run, 250)


def fused_statements(output: Callable[[dml.Graph], Any]) -> tuple[Statement, ...]:
    graph = dml.Graph()
    return divide_and_fuse(join(graph.describe(output(graph)))).execution.statements


def test_statements_are_bounded() -> None:
    """No statement grows without end: a chain of twice the length has twice the statements, not larger ones."""

    def additions(depth: int) -> tuple[Statement, ...]:
        def build(g: dml.Graph) -> Any:
            x = g.input("float32", [9])
            return _chained(x, lambda y: dml.add(y, x), depth)

        return fused_statements(build)

    once, twice = additions(600), additions(1200)
    assert len(once) > 1
    assert 2 * len(once) - 1 <= len(twice) <= 2 * len(once)
    for statement in once:
        assert len({e for root in expressions_of(statement) for e in walk(root)}) <= GRAPH_COSTS.fused_expressions


def test_guards_are_bounded() -> None:
    """Paddings of paddings are conditions in conditions, which code can only follow so far."""

    def build(g: dml.Graph) -> Any:
        def padded(y: Any) -> Any:
            return dml.padding(y, start_padding=[0], end_padding=[1], padding_value=1.0)

        return _chained(g.input("float32", [1000]), padded, 4 * GRAPH_COSTS.fused_guards)

    assert len(fused_statements(build)) >= 4
