"""Roundings to float16 of what float16 has already: which ones are left out, and that all bits stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from execution import assert_identical

import opendml as dml
from opendml.expression.element_types import BOOL, F16, F32
from opendml.expression.exact_casts import exact_cast, is_float16
from opendml.expression.ir import (
    Axis,
    Cast,
    Expression,
    Tensor,
    binary,
    cast,
    constant,
    index,
    load,
    select,
    unary,
)
from opendml.expression.rewriting import walk
from opendml.expression.statements import expressions_of
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join

PLACE = [index(Axis("i", 10))]
HALF = cast(load(Tensor("half", F16, (10,), (1,), "input"), PLACE), F32)
WIDE = load(Tensor("wide", F32, (10,), (1,), "input"), PLACE)
ASKED = load(Tensor("asked", BOOL, (10,), (1,), "input"), PLACE)


@pytest.mark.parametrize(
    ("expression", "is_exact"),
    [
        (HALF, True),
        (-HALF, True),
        (unary("abs", HALF), True),
        (unary("floor", HALF), True),
        (binary("max", HALF, constant(6.0, F32)), True),
        (select(ASKED, HALF, constant(65504.0, F32)), True),
        (select(ASKED, HALF, constant(float("inf"), F32)), True),
        (select(ASKED, select(ASKED, HALF, -HALF), HALF), True),
        (WIDE, False),
        (HALF + HALF, False),
        (unary("sqrt", HALF), False),
        (binary("max", HALF, constant(0.1, F32)), False),
        (select(ASKED, HALF, constant(65505.0, F32)), False),
        (select(ASKED, HALF, constant(2.0**-25, F32)), False),
        (select(ASKED, HALF, WIDE), False),
        (select(ASKED, select(ASKED, HALF, WIDE), HALF), False),
    ],
)
def test_what_is_rounded_already(expression: Expression, is_exact: bool) -> None:
    narrowed = cast(expression, F16)
    assert is_float16(expression) == is_exact
    assert exact_cast(narrowed, F32) is (expression if is_exact else cast(narrowed, F32))


def test_of_a_deep_choice() -> None:
    """Every part is asked once, and none by a call within a call."""
    e = HALF
    for _ in range(20_000):
        e = select(ASKED, e, -e)
    assert is_float16(e)
    assert not is_float16(select(ASKED, e, e + 1))


def near_numbers_of_float16() -> np.ndarray[Any, Any]:
    """All numbers of float16, all that lie half way between two of them, and the numbers of float32 beside each of
    those; infinities, NaNs of all kinds and what is rounded to an infinity too."""
    numbers = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = np.unique(np.append(numbers[np.isfinite(numbers)], [-65536.0, 65536.0])).astype(np.float32)
    half_way = (finite[1:] + finite[:-1]) / 2
    sides = [np.nextafter(near, np.float32(end)) for near in (half_way, finite) for end in (-np.inf, np.inf)]
    found = np.concatenate([numbers, half_way, *sides, np.array([1e-40, -1e-40, -1e-45, 3e38, -3e38], np.float32)])
    return np.append(found, np.zeros(-len(found) % 256, np.float32)).reshape(-1, 256)


Network = Callable[[Any], Any]


@pytest.mark.parametrize("type", ["float16", "float32"])
@pytest.mark.parametrize(
    "network",
    [
        dml.activation_relu,
        lambda x: dml.clip(x, min=0.0, max=6.0),
        lambda x: dml.clip(x, min=-0.0, max=0.0),
        lambda x: dml.clip(x, min=-1.0, max=1 / 3),
        lambda x: dml.clip(x, min=-1.0009765625, max=1.0009765625),
        lambda x: dml.clip(x, min=-(2.0**-24), max=2.0**-24),
        lambda x: dml.clip(x, min=-65504.0, max=65504.0),
        lambda x: dml.clip(x, min=-float("inf"), max=float("inf")),
        lambda x: dml.clip(dml.activation_relu(dml.clip(x, min=-3.0, max=2049.0)), min=1.0, max=2000.0),
        lambda x: dml.clip(dml.activation_relu(x) + 0.3, min=1.0, max=2.0),
        lambda x: dml.clip(dml.activation_relu(dml.clip(x, min=-0.0, max=6.0)), min=-1.0, max=0.0),
        lambda x: dml.activation_relu(x * -1.0) * -1.0,
        lambda x: dml.activation_relu(dml.abs(x) * -1.0),
        dml.activation_hard_sigmoid,
        dml.activation_thresholded_relu,
        dml.sign,
        dml.floor,
    ],
)
def test_what_is_chosen_behind_a_rounding(network: Network, type: str) -> None:
    """The same bits as of the operators one at a time, where a comparison is near what it is with, too; of what is
    widened again as well."""
    graph = dml.Graph()
    numbers = near_numbers_of_float16()
    desc = graph.describe(dml.cast(network(dml.cast(graph.input("float32", numbers.shape), "float16")), type))
    device = dml.Device()
    alone, together = (device.compile_graph(desc, fusion=fusion)(numbers) for fusion in (False, True))
    assert_identical(together, alone)
    reference = dml.Device("reference").compile_graph(desc)(numbers)
    is_number = ~np.isnan(reference)  # NumPy keeps NaNs signalling, which processors do not.
    assert_identical(np.isnan(together), ~is_number)
    assert_identical(together[is_number], reference[is_number])


@pytest.mark.parametrize(
    ("network", "roundings"),
    [
        (lambda x: dml.activation_relu(x + 0.3), 1),
        (lambda x: dml.clip(dml.activation_relu(dml.clip(x, min=-300.0, max=60.0) + 0.3), min=0.0, max=6.0), 1),
        (lambda x: dml.clip(x + 0.3, min=0.0, max=6.0) * 0.7, 2),
        (lambda x: dml.activation_relu(x + 0.3) + x, 2),
    ],
)
def test_how_often_is_rounded(network: Network, roundings: int) -> None:
    """Once for every operator that computes something new."""
    graph = dml.Graph()
    desc = graph.describe(network(graph.input("float16", [256, 256])))
    (statement,) = divide_and_fuse(join(desc)).execution.statements
    parts = {part for e in expressions_of(statement) for part in walk(e)}
    assert sum(isinstance(e, Cast) and e.type is F16 and e.operand.type is F32 for e in parts) == roundings


ROUNDED = cast(cast(WIDE, F16), F32)


def limited(value: Expression, comparison: str, limit: float, number: float) -> Expression:
    return select(binary(comparison, value, constant(limit, F32)), constant(number, F32), value)


@pytest.mark.parametrize(
    ("choice", "widened"),
    [
        (limited(WIDE, "lt", -(2.0**-25), 0.0), limited(ROUNDED, "lt", 0.0, 0.0)),
        (limited(WIDE, "gt", 2.0**-25, 0.0), limited(ROUNDED, "gt", 0.0, 0.0)),
        (
            limited(limited(WIDE, "lt", -(2.0**-25), 0.0), "gt", 6.0, 6.0),
            limited(limited(ROUNDED, "lt", 0.0, 0.0), "gt", 6.0, 6.0),
        ),
        (limited(WIDE, "lt", -(2.0**-24), 0.0), None),
        (limited(WIDE, "lt", 2.0**-25, 0.0), None),
        (limited(WIDE, "le", -(2.0**-25), 0.0), None),
        (limited(WIDE, "lt", 0.0, 0.0), None),
        (limited(WIDE, "gt", 6.0, 6.0), None),
        (limited(limited(WIDE, "lt", -(2.0**-25), 0.0), "gt", 6.0, 5.0), None),
        (select(binary("lt", WIDE + WIDE, constant(-(2.0**-25), F32)), constant(0.0, F32), WIDE), None),
    ],
)
def test_rectifiers_behind_the_rounding(choice: Expression, widened: Expression | None) -> None:
    """What is widened again is limited afterwards where one of the limits is zero, and only where that is the same."""
    rounded = cast(cast(choice, F16), F32)
    assert exact_cast(cast(choice, F16), F32) is (rounded if widened is None else widened)
