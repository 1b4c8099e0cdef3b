"""What of a graph runs once: all that depends on constants alone, but for what would be large to keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_lodging import checked

import opendml as dml
from opendml.graph.compilation import GraphDefinitions

ROW = np.linspace(-1, 1, 40, dtype=np.float32).reshape(1, 40)
TABLE = np.random.default_rng(0).normal(size=(20, 40)).astype(np.float32)


def kept(parts: GraphDefinitions) -> list[tuple[int, ...]]:
    """The sizes of what is kept, ones left out."""
    return sorted(tuple(n for n in t.sizes if n > 1) for t in parts.persistent)


def repeated(row: Any) -> Any:
    """Twenty times as large."""
    return dml.tile(row, repeats=[20, 1])


@pytest.mark.parametrize(
    ("network", "sizes"),
    [
        (lambda x: x + dml.reduce(x.graph.constant(TABLE), "SUM", axes=[1]), [(20,)]),
        # What nobody else reads may be as large as it will.
        (lambda x: x + dml.reduce(repeated(x.graph.constant(ROW)) * TABLE, "SUM", axes=[1]), [(20,)]),
        (lambda x: x + dml.activation_tanh(repeated(x.graph.constant(ROW)) * TABLE), [(20, 40)]),
        # Too large for what it is made from, at once or in the end.
        (lambda x: x + repeated(x.graph.constant(ROW)), [(40,)]),
        (lambda x: x + dml.activation_tanh(repeated(x.graph.constant(ROW))), [(40,)]),
        (lambda x: x + repeated(dml.activation_tanh(x.graph.constant(ROW))), [(40,)]),
        # One reader runs once, the other one every time.
        (lambda x: x + dml.reduce(y := repeated(x.graph.constant(ROW)), "SUM", axes=[1]) * x + y, [(40,)]),
    ],
)
def test_what_is_kept(network: Callable[[Any], Any], sizes: list[tuple[int, ...]]) -> None:
    assert kept(checked(network, [20, 40])) == sizes
