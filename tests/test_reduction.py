"""REDUCE against NumPy in float64 and in Python's integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from execution import Array, assert_identical, inputs, outputs, random_array, run_operator, run_single, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from rounding import assert_within_rounding

import opendml as dml
from opendml import operators
from opendml.description.enums import ReduceFunction
from opendml.description.tensor import TensorDesc
from opendml.expression import reductions
from opendml.expression.element_types import U32
from opendml.expression.ir import temporary

bounded = examples(40)

FLOATS = ("FLOAT32", "FLOAT16")
WIDE_INTEGERS = ("INT64", "INT32", "UINT64", "UINT32")
ALL = (*FLOATS, *WIDE_INTEGERS, "INT16", "INT8", "UINT16", "UINT8")
EXTREMES = ("MAX", "MIN", "ARGMAX", "ARGMIN")
EXACT_INTEGERS = ("SUM", "MULTIPLY", "L1", "SUM_SQUARE")
SUMS = ("SUM", "AVERAGE", "L1", "L2", "LOG_SUM", "LOG_SUM_EXP", "SUM_SQUARE", "MULTIPLY")


def groups(x: Array, axes: Sequence[int]) -> Array:
    """``x`` with the kept dimensions first, in their order, and all reduced elements in one last dimension."""
    kept = [d for d in range(x.ndim) if d not in axes]
    moved = x.transpose([*kept, *sorted(axes)])
    return moved.reshape([x.shape[d] for d in kept] + [-1])


def reduced_sizes(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    return [1 if d in axes else size for d, size in enumerate(shape)]


def describe(function: str, source: TensorDesc, target: TensorDesc, axes: Sequence[int]) -> operators.Reduce:
    return operators.Reduce(
        function=ReduceFunction[function], input_tensor=source, output_tensor=target, axes=tuple(axes)
    )


@st.composite
def cases(draw: st.DrawFn, limit: int = 96) -> tuple[list[int], list[int]]:
    """Sizes and some of their dimensions, all or none of them, in any order."""
    shape = draw(sizes(limit=limit))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), max_size=len(shape), unique=True))
    return shape, axes


def extreme(values: Sequence[Any], sign: int) -> Any:
    """The first NaN, else the largest (``sign`` 1) or smallest (-1) of the values."""
    unlike = [value for value in values if value != value]
    return unlike[0] if unlike else (max(values) if sign > 0 else min(values))


def extreme_position(values: Sequence[Any], sign: int) -> int:
    """Where the first largest or smallest of the numbers is; 0 if there is none."""
    numbers = [value for value in values if value == value]
    return list(values).index(max(numbers) if sign > 0 else min(numbers)) if numbers else 0


@bounded
@given(
    data=st.data(),
    case=cases(),
    function=st.sampled_from(EXTREMES),
    data_type=st.sampled_from(ALL),
    index_type=st.sampled_from(["INT64", "INT32", "UINT64", "UINT32"]),
    seed=seeds,
)
def test_extremes(
    data: st.DataObject,
    case: tuple[list[int], list[int]],
    function: str,
    data_type: str,
    index_type: str,
    seed: int,
) -> None:
    shape, axes = case
    source = data.draw(inputs(data_type, shape))
    is_position = function.startswith("ARG")
    target = data.draw(outputs(index_type if is_position else data_type, reduced_sizes(shape, axes)))
    x = random_array(source, seed)
    rows = groups(x, axes)
    expected = np.empty(rows.shape[:-1], target.data_type.dtype)
    for place in np.ndindex(expected.shape):
        found = extreme_position if is_position else extreme
        expected[place] = found(rows[place].tolist(), 1 if function.endswith("MAX") else -1)
    output = run_single(describe(function, source, target, axes), x)
    assert output.dtype == expected.dtype
    np.testing.assert_array_equal(output, expected.reshape(output.shape))


def integer_result(function: str, values: Sequence[int]) -> int:
    if function == "MULTIPLY":
        return math.prod(values)
    enter: dict[str, Callable[[int], int]] = {"SUM": int, "L1": abs, "SUM_SQUARE": lambda v: v * v}
    return sum(map(enter[function], values))


@bounded
@given(
    data=st.data(),
    case=cases(),
    function=st.sampled_from(EXACT_INTEGERS),
    data_type=st.sampled_from(WIDE_INTEGERS),
    seed=seeds,
)
def test_integers_wrap(
    data: st.DataObject, case: tuple[list[int], list[int]], function: str, data_type: str, seed: int
) -> None:
    shape, axes = case
    source = data.draw(inputs(data_type, shape))
    target = data.draw(outputs(data_type, reduced_sizes(shape, axes)))
    x = random_array(source, seed)
    rows = groups(x, axes)
    bits = source.data_type.bits
    wrapped = np.empty(rows.shape[:-1], f"u{bits // 8}")
    for place in np.ndindex(wrapped.shape):
        wrapped[place] = integer_result(function, rows[place].tolist()) % (1 << bits)
    output = run_single(describe(function, source, target, axes), x)
    assert_identical(output, wrapped.view(source.data_type.dtype).reshape(output.shape))


def float_result(function: str, rows: Array) -> tuple[Array, Array]:
    """The result in float64, and the magnitude that its roundings are relative to."""
    count = rows.shape[-1]
    total, magnitude, squares = rows.sum(-1), np.abs(rows).sum(-1), (rows * rows).sum(-1)
    if function == "LOG_SUM":
        return np.log(total), np.abs(np.log(total)) + magnitude / np.abs(total)
    if function == "LOG_SUM_EXP":
        shift = rows.max(-1)
        result = np.log(np.exp(rows - shift[..., None]).sum(-1)) + shift
        return result, np.abs(result) + np.abs(shift) + 2 * np.abs(rows).max(-1) + 1
    if function == "MULTIPLY":
        return rows.prod(-1), np.abs(rows.prod(-1))
    return {
        "SUM": (total, magnitude),
        "AVERAGE": (total / count, magnitude / count),
        "L1": (magnitude, magnitude),
        "L2": (np.sqrt(squares), np.sqrt(squares)),
        "SUM_SQUARE": (squares, squares),
    }[function]


@bounded
@given(
    data=st.data(),
    case=cases(),
    function=st.sampled_from(SUMS),
    data_type=st.sampled_from(FLOATS),
    seed=seeds,
)
def test_floats(
    data: st.DataObject, case: tuple[list[int], list[int]], function: str, data_type: str, seed: int
) -> None:
    shape, axes = case
    source = data.draw(inputs(data_type, shape))
    target = data.draw(outputs(data_type, reduced_sizes(shape, axes)))
    x = random_array(source, seed, special=False)
    x = np.abs(x) + x.dtype.type(0.25) if function == "LOG_SUM" else x
    exact, magnitude = float_result(function, groups(x.astype(np.float64), axes))
    output = run_single(describe(function, source, target, axes), x)
    roundings = 2 * math.prod(shape[d] for d in axes) + 8
    assert_within_rounding(output, exact.reshape(output.shape), magnitude.reshape(output.shape), roundings)


LARGE = [
    ((70_000,), (0,)),
    ((3, 40_000), (1,)),
    ((3, 1, 4, 100, 100), (2, 3, 4)),
    ((33_000, 2), (0,)),
    ((2_100, 40), (0,)),
    ((4_000, 3, 10), (0, 2)),
    ((5_000, 2, 3, 3), (0, 2)),
    ((1, 16_384), (0, 1)),
]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("shape", "axes", "function"),
    [*((*case, function) for case in LARGE for function in ("SUM", "ARGMAX", "MIN")), (*LARGE[2], "LOG_SUM_EXP")],
)
def test_reductions_in_pieces(shape: tuple[int, ...], axes: tuple[int, ...], function: str) -> None:
    source = TensorDesc("float32", shape)
    x = random_array(source, 5, special=False)
    is_position = function == "ARGMAX"
    target = TensorDesc("uint32" if is_position else "float32", reduced_sizes(shape, axes))
    output = run_single(describe(function, source, target, axes), x)
    rows = groups(x, axes)
    if function in ("ARGMAX", "MIN"):
        expected = rows.argmax(-1) if is_position else rows.min(-1)
        np.testing.assert_array_equal(output, expected.reshape(output.shape))
    else:
        exact, magnitude = float_result(function, rows.astype(np.float64))
        assert_within_rounding(output, exact.reshape(output.shape), magnitude.reshape(output.shape), 4_000)


@pytest.mark.sampled
@pytest.mark.parametrize(("shape", "axes"), LARGE)
def test_the_order_of_a_sum_does_not_depend_on_strides(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    target = TensorDesc("float32", reduced_sizes(shape, axes))
    strides, step = [0] * len(shape), 2
    for d in (*range(1, len(shape)), 0):
        strides[d] = step
        step = step * shape[d] + 1
    packed, strange = TensorDesc("float32", shape), TensorDesc("float32", shape, strides)
    x = random_array(packed, 11, special=False)
    one = run_single(describe("SUM", packed, target, axes), x)
    other = run_single(describe("SUM", strange, target, axes), x)
    assert_identical(one, other)


def test_pieces_are_decided_by_the_sizes() -> None:
    cut = [bool(reductions.reduction(temporary("x", U32, s), a).pieces) for s, a in LARGE]
    assert cut == [True, True, True, True, True, True, True, False]
    many_outputs = reductions.reduction(temporary("x", U32, (64, 40_000)), (1,))
    assert many_outputs.pieces is None


@pytest.mark.parametrize("count", [1, 5, 100, 40_000])
def test_ties_and_lowest_values_give_the_first_position(count: int) -> None:
    source, target = TensorDesc("float32", [count]), TensorDesc("uint32", [1])
    for value, function in ((-np.inf, "ARGMAX"), (np.inf, "ARGMIN"), (1.0, "ARGMAX"), (np.nan, "ARGMIN")):
        desc = describe(function, source, target, [0])
        assert run_single(desc, np.full(count, value, np.float32)).tolist() == [0]
    x = np.arange(count, dtype=np.float32)
    x[count // 3] = x[count // 2] = count
    assert run_single(describe("ARGMAX", source, target, [0]), x).tolist() == [count // 3]


@pytest.mark.parametrize("count", [2, 5, 100, 40_000])
def test_positions_of_extremes_pass_over_nan(count: int) -> None:
    """Infinities of the wrong sign are numbers, too: they are found behind a NaN."""
    source, target = TensorDesc("float32", [count]), TensorDesc("uint32", [1])
    for cls, lowest in ((operators.Argmax, -np.inf), (operators.Argmin, np.inf)):
        x = np.full(count, np.nan, np.float32)
        for direction, empty, found in (("INCREASING", 0, 1), ("DECREASING", count - 1, count - 1)):
            desc = cls(input_tensor=source, output_tensor=target, axes=[0], axis_direction=direction)
            assert run_single(desc, x).tolist() == [empty]
            x[1:] = lowest
            assert run_single(desc, x).tolist() == [found]
            x[count // 2] = 1
            assert run_single(desc, x).tolist() == [count // 2]
            x[:] = np.nan


@pytest.mark.parametrize("count", [1, 3, 100])
def test_special_values(count: int) -> None:
    source, target = TensorDesc("float32", [count]), TensorDesc("float32", [1])

    def reduce(function: str, value: float) -> float:
        return float(run_single(describe(function, source, target, [0]), np.full(count, value, np.float32))[0])

    assert reduce("LOG_SUM_EXP", np.inf) == np.inf
    assert reduce("LOG_SUM_EXP", -np.inf) == -np.inf
    assert np.isnan(reduce("LOG_SUM_EXP", np.nan))
    assert reduce("LOG_SUM_EXP", 1000.0) == pytest.approx(1000 + math.log(count))
    assert reduce("LOG_SUM", 0.0) == -np.inf
    assert np.isnan(reduce("LOG_SUM", -1.0))
    assert np.signbit(reduce("SUM", -0.0))
    assert not np.signbit(reduce("L1", -0.0))
    assert np.isnan(reduce("MAX", np.nan))


def test_float16_is_summed_in_float32() -> None:
    source, target = TensorDesc("float16", [2, 4096]), TensorDesc("float16", [2, 1])
    x = np.ones((2, 4096), np.float16)
    x[1, 0] = 60_000
    assert run_single(describe("SUM", source, target, [1]), x).ravel().tolist() == [4096, 64096 // 32 * 32]


def test_examples_of_the_documentation() -> None:
    x = np.array([[1, 2, 3], [3, 0, 4], [2, 4, 2]], np.float32)
    source = TensorDesc("float32", [3, 3])
    for axes, expected in (([0], [[6, 6, 9]]), ([1], [[6], [7], [8]]), ([0, 1], [[21]])):
        target = TensorDesc("float32", reduced_sizes([3, 3], axes))
        assert run_single(describe("SUM", source, target, axes), x).tolist() == expected


NO_AXES: dict[str, Callable[[float], float]] = {
    "SUM": float,
    "AVERAGE": float,
    "MULTIPLY": float,
    "MIN": float,
    "MAX": float,
    "LOG_SUM_EXP": float,
    "L1": abs,
    "L2": abs,
    "SUM_SQUARE": lambda x: x * x,
    "LOG_SUM": math.log,
    "ARGMIN": lambda x: 0,
    "ARGMAX": lambda x: 0,
}


@pytest.mark.sampled
@pytest.mark.parametrize("function", NO_AXES)
@pytest.mark.parametrize("level", ["1_0", "6_4"])
def test_no_axes(function: str, level: str) -> None:
    """Every element alone: the function of one number, from the first level on."""
    source = TensorDesc("float32", [1, 2, 1, 3], [12, 1, 1, 2])
    target = TensorDesc("uint32" if function.startswith("ARG") else "float32", [1, 2, 1, 3])
    x = np.array([1, 2, 0.5, 8, 4, 0.25], np.float32).reshape(1, 2, 1, 3) * (1 if function == "LOG_SUM" else -1)
    desc = describe(function, source, target, [])
    assert desc.axis_count == 0
    assert operators.Reduce.from_json(desc.to_json()) == desc
    (output,) = run_operator(desc, [x], level)
    expected = [NO_AXES[function](value) for value in x.ravel().tolist()]
    np.testing.assert_allclose(output.ravel(), expected, rtol=1e-6)
    eager = dml.reduce(x, function, axes=[])
    assert_identical(eager, output)
    everything = dml.reduce(x, function, axes=None)
    assert everything.shape == (1, 1, 1, 1)


def test_no_axes_of_extremes_and_norms() -> None:
    x = np.array([[3, -np.inf], [np.nan, -0.0]], np.float32)
    for find in (dml.argmin, dml.argmax):
        assert find(x, axes=[]).tolist() == [[0, 0], [0, 0]]
        assert find(x).shape == (1, 1)
    normalised = dml.mean_variance_normalization(x, axes=[], epsilon=1.0)
    np.testing.assert_array_equal(normalised, [[0, np.nan], [np.nan, 0]])
    assert np.isnan(dml.mean_variance_normalization(x, axes=[], epsilon=0.0)).all()
    by_square = dml.mean_variance_normalization(x, axes=[], epsilon=0.0, normalize_mean=False)
    np.testing.assert_array_equal(by_square, [[1, np.nan], [np.nan, np.nan]])


def test_no_axes_in_a_graph() -> None:
    graph = dml.Graph()
    squared = dml.reduce(dml.reduce(graph.input("float32", [2, 3]), "SUM_SQUARE", axes=[]), "SUM", axes=[1])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert graph.compile(squared)(x).tolist() == [[5.0], [50.0]]
