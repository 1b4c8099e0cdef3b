"""What nodes of a graph make of the same tensors is made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opendml as dml
from opendml.expression.element_types import F32
from opendml.expression.ir import Expression, Tensor, grid, index, load, temporary
from opendml.expression.statements import Compute, Statement, Store
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import JoinedGraph, join
from opendml.graph.sharing import shared
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import host_target

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.integers(-4, 5, (1, 1, 256, 512)).astype("f")
SIZES = [1, 1, 8, 256]


def graph_of(weights: list[Array], *, owned: bool = False, transposed: int = 0) -> tuple[dml.Graph, list[Any]]:
    """A product by each of the weights, one constant or input for all that are the same array, the last ones turned."""
    graph = dml.Graph()
    known: dict[int, Any] = {}
    results = []
    for number, array in enumerate(weights):
        if id(array) not in known:
            name = f"w{len(known)}"
            owner = graph.input("float32", array.shape, name, owned_by_dml=True) if owned else graph.constant(array)
            known[id(array)] = owner
        x = graph.input("float32", SIZES, f"x{number}")
        turned = number >= len(weights) - transposed
        results.append(dml.gemm(x, known[id(array)], trans_b="TRANSPOSE" if turned else "NONE"))
    return graph, results


def once(graph: dml.Graph, results: list[Any], *, fusion: bool = True) -> int:
    """Statements that run once."""
    target = host_target()
    initialisation = divide_and_fuse(
        join(graph.describe(results), refining(target)), fusion=fusion, costs=target.costs
    ).initialisation
    return 0 if initialisation is None else len(initialisation.statements)


def test_one_layout_of_weights_that_several_nodes_read() -> None:
    alone = once(*graph_of([WEIGHTS]))
    assert alone > 0
    assert once(*graph_of([WEIGHTS] * 4)) == alone
    assert once(*graph_of([WEIGHTS] * 4, owned=True)) == once(*graph_of([WEIGHTS], owned=True)) > 0
    assert once(*graph_of([WEIGHTS, WEIGHTS + 1])) == 2 * alone
    assert once(*graph_of([WEIGHTS] * 4), fusion=False) == 4 * alone


def test_layouts_that_differ_are_made_each() -> None:
    square = RANDOM.integers(-4, 5, (1, 1, 256, 256)).astype("f")
    assert once(*graph_of([square] * 4, transposed=2)) == 2 * once(*graph_of([square]))


@pytest.mark.parametrize("transposed", [0, 1])
def test_results_are_those_of_the_products(transposed: int) -> None:
    weights = [RANDOM.integers(-4, 5, (1, 1, 256, 256)).astype("f")] * 3
    graph, results = graph_of(weights, transposed=transposed)
    given = [RANDOM.integers(-4, 5, SIZES).astype("f") for _ in weights]
    found = graph.compile(results)(*given)
    for number, (x, w, result) in enumerate(zip(given, weights, found, strict=True)):
        assert (result == x @ (w.swapaxes(2, 3) if number >= len(weights) - transposed else w)).all()


def copies_of(paddings: list[int], *, between: bool = False) -> int:
    """Copies with margins that convolutions of the same image read, those ``between`` of what another one makes. Their
    results are those without fusion."""
    graph = dml.Graph()
    x = image = graph.input("float32", [1, 4, 6, 40], "x")
    if between:
        image = dml.activation_sigmoid(dml.convolution(x, RANDOM.normal(size=(4, 4, 1, 1)).astype("f")))
    weights = [RANDOM.normal(size=(3, 4, 3, 3)).astype("f") for _ in paddings]
    ends: list[dict[str, Any]] = [{"start_padding": [n, n], "end_padding": [n, n]} for n in paddings]
    desc = graph.describe([dml.convolution(image, w, **end) for w, end in zip(weights, ends, strict=True)])
    given = RANDOM.normal(size=[1, 4, 6, 40]).astype("f")
    alone, together = (dml.Device().compile_graph(desc, fusion=fusion)(given) for fusion in (False, True))
    for one, other in zip(alone, together, strict=True):
        assert (one == other).all()
    execution = divide_and_fuse(join(desc, refining(host_target())), costs=host_target().costs).execution
    return sum("padded" in tensor.name for tensor in execution.temporaries)


@pytest.mark.parametrize("between", [False, True])
def test_one_copy_with_margins_that_several_nodes_read(between: bool) -> None:
    assert copies_of([1], between=between) == 1
    assert copies_of([1, 1, 1], between=between) == 1
    assert copies_of([1, 2, 1], between=between) == 2


def test_what_is_written_again_is_copied_again() -> None:
    """Copies of what a tensor was at different times are different."""
    source = Tensor("source", F32, (4,), (1,), "input")
    changing, first, second = (temporary(name, F32, [4]) for name in ("changing", "first", "second"))
    result = Tensor("result", F32, (4,), (1,), "output")

    def stored(tensor: Tensor, value: Callable[[Expression], Expression]) -> Compute:
        (axis,) = grid([4])
        return Compute((axis,), (Store(tensor, (index(axis),), value(index(axis))),))

    def statements(is_changed: bool) -> list[Statement]:
        change = stored(changing, lambda i: load(source, [i]) * 2)
        return [
            stored(changing, lambda i: load(source, [i])),
            stored(first, lambda i: load(changing, [i])),
            *([change] if is_changed else []),
            stored(second, lambda i: load(changing, [i])),
            stored(result, lambda i: load(first, [i]) - load(second, [i])),
        ]

    for is_changed in (False, True):
        joined = JoinedGraph([source], [False], [result], statements=statements(is_changed))
        joined.temporaries += [changing, first, second]
        assert (second in shared(joined).temporaries) == is_changed
