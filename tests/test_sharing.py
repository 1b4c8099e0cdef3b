"""What nodes of a graph make of the same weights is made once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opendml as dml
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
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
    initialisation = divide_and_fuse(join(graph.describe(results), refining(target)), fusion=fusion).initialisation
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
