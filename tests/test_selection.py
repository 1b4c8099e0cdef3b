"""Operators that select and place by indices, against NumPy and plain loops, with indices of every kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import (
    ALL_TYPES,
    Array,
    assert_identical,
    inputs,
    outputs,
    random_array,
    run_single,
    seeds,
    sizes,
)
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from reference import cast
from sample_descriptors import sample
from sample_tensors import f32, u32

from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.targets.cpu.tuning import TUNING

bounded = examples(25)
types = st.sampled_from(ALL_TYPES)
index_types = st.sampled_from(["INT64", "INT32", "UINT64", "UINT32"])
smallest_blocks = st.sampled_from([1, TUNING.scattered_block])


def clamped(position: int, size: int) -> int:
    """An index of a gather: from the end if negative, then moved to the nearest end."""
    return min(max(position + size if position < 0 else position, 0), size - 1)


def found(position: int, size: int) -> int | None:
    """An index of a scatter: from the end if negative; None outside."""
    position = position + size if position < 0 else position
    return position if 0 <= position < size else None


def padded(sizes: Sequence[int], rank: int) -> list[int]:
    return [1] * (rank - len(sizes)) + list(sizes)


@st.composite
def lines(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """Sizes, the same with another one along an axis, and the axis."""
    whole = draw(sizes(limit=48))
    axis = draw(st.integers(0, len(whole) - 1))
    return whole, [draw(st.integers(1, 6)) if d == axis else size for d, size in enumerate(whole)], axis


@st.composite
def tuples(draw: st.DrawFn, most_batches: int) -> tuple[list[int], list[int], list[int], int]:
    """Sizes of a tensor, of index tuples and of the gathered blocks, and the number of batches; without padding."""
    batch = draw(st.lists(st.integers(1, 2), max_size=most_batches))
    indexed = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    many = draw(st.lists(st.integers(1, 3), max_size=2))
    block = draw(st.lists(st.integers(1, 4), max_size=2))
    return batch + indexed + block, [*batch, *many, len(indexed)], batch + many + block, len(batch)


# ---- gathers


@bounded
@given(data=st.data(), shapes=lines(), data_type=types, index_type=index_types, seed=seeds)
def test_gather_elements(
    data: st.DataObject, shapes: tuple[list[int], list[int], int], data_type: str, index_type: str, seed: int
) -> None:
    whole, part, axis = shapes
    source, chosen = data.draw(inputs(data_type, whole)), data.draw(inputs(index_type, part))
    x, positions = random_array(source, seed), random_array(chosen, seed + 1)
    desc = operators.GatherElements(
        input_tensor=source, indices_tensor=chosen, output_tensor=data.draw(outputs(data_type, part)), axis=axis
    )
    plain = np.array([clamped(int(i), whole[axis]) for i in positions.ravel()], np.int64).reshape(part)
    assert_identical(run_single(desc, x, positions), np.take_along_axis(x, plain, axis))


@bounded
@given(data=st.data(), shapes=tuples(2), data_type=types, index_type=index_types, seed=seeds)
def test_gather_nd(
    data: st.DataObject, shapes: tuple[list[int], list[int], list[int], int], data_type: str, index_type: str, seed: int
) -> None:
    whole, indices, gathered, batches = shapes
    rank = data.draw(st.integers(max(map(len, (whole, indices, gathered))), 8))
    source = data.draw(inputs(data_type, padded(whole, rank)))
    chosen = data.draw(inputs(index_type, padded(indices, rank)))
    x, positions = random_array(source, seed), random_array(chosen, seed + 1)
    fields: dict[str, Any] = {
        "input_tensor": source,
        "indices_tensor": chosen,
        "output_tensor": data.draw(outputs(data_type, padded(gathered, rank))),
        "input_dimension_count": len(whole),
        "indices_dimension_count": len(indices),
    }
    if batches or data.draw(st.booleans()):
        desc: Operator = operators.GatherNd1(**fields, batch_dimension_count=batches)
    else:
        desc = operators.GatherNd(**fields)
    blocks, places = x.reshape(whole), positions.reshape(indices)
    expected = np.empty(gathered, x.dtype)
    for place in np.ndindex(*indices[:-1]):
        at = zip(places[place], whole[batches:], strict=False)
        expected[place] = blocks[place[:batches] + tuple(clamped(int(i), size) for i, size in at)]
    assert_identical(run_single(desc, x, positions), expected.reshape(padded(gathered, rank)))


# ---- scatters


def run_scatter(desc: Operator, smallest_block: int, *arrays: Array) -> Array:
    """The output; blocks of at least ``smallest_block`` elements are updated as a whole."""
    return run_single(desc, *arrays, tuning=replace(TUNING, scattered_block=smallest_block))


@bounded
@given(data=st.data(), shapes=lines(), data_type=types, index_type=index_types, smallest=smallest_blocks, seed=seeds)
def test_scatter_elements(
    data: st.DataObject,
    shapes: tuple[list[int], list[int], int],
    data_type: str,
    index_type: str,
    smallest: int,
    seed: int,
) -> None:
    whole, part, axis = shapes
    source, chosen = data.draw(inputs(data_type, whole)), data.draw(inputs(index_type, part))
    new = data.draw(inputs(data_type, part))
    x, positions, updates = (random_array(tensor, seed + i) for i, tensor in enumerate((source, chosen, new)))
    desc = operators.ScatterElements(
        input_tensor=source,
        indices_tensor=chosen,
        updates_tensor=new,
        output_tensor=data.draw(outputs(data_type, whole)),
        axis=axis,
    )
    expected = x.copy()
    for place in np.ndindex(*part):
        position = found(int(positions[place]), whole[axis])
        if position is not None:
            expected[(*place[:axis], position, *place[axis + 1 :])] = updates[place]
    assert_identical(run_scatter(desc, smallest, x, positions, updates), expected)


@bounded
@given(data=st.data(), shapes=tuples(0), data_type=types, index_type=index_types, smallest=smallest_blocks, seed=seeds)
def test_scatter_nd(
    data: st.DataObject,
    shapes: tuple[list[int], list[int], list[int], int],
    data_type: str,
    index_type: str,
    smallest: int,
    seed: int,
) -> None:
    whole, indices, scattered, _ = shapes
    rank = data.draw(st.integers(max(map(len, (whole, indices, scattered))), 8))
    source = data.draw(inputs(data_type, padded(whole, rank)))
    chosen = data.draw(inputs(index_type, padded(indices, rank)))
    new = data.draw(inputs(data_type, padded(scattered, rank)))
    x, positions, updates = (random_array(tensor, seed + i) for i, tensor in enumerate((source, chosen, new)))
    desc = operators.ScatterNd(
        input_tensor=source,
        indices_tensor=chosen,
        updates_tensor=new,
        output_tensor=data.draw(outputs(data_type, source.sizes)),
        input_dimension_count=len(whole),
        indices_dimension_count=len(indices),
    )
    expected, blocks = x.copy().reshape(whole), updates.reshape(scattered)
    for place in np.ndindex(*indices[:-1]):
        at = [found(int(i), n) for i, n in zip(positions.reshape(indices)[place], whole, strict=False)]
        if None not in at:
            expected[tuple(at)] = blocks[place]
    assert_identical(run_scatter(desc, smallest, x, positions, updates), expected.reshape(source.sizes))


def test_the_last_of_equal_indices_wins() -> None:
    places = TensorDesc("INT32", [6])
    desc = operators.ScatterElements(
        input_tensor=f32(3), indices_tensor=places, updates_tensor=f32(6), output_tensor=f32(3), axis=0
    )
    updates = np.arange(1, 7, dtype=np.float32)
    y = run_single(desc, np.zeros(3, np.float32), np.array([0, 1, 0, -2, 3, -3], np.int32), updates)
    assert y.tolist() == [6, 4, 0]


@pytest.mark.parametrize("index_type", ["INT64", "UINT64"])
def test_indices_beyond_32_bits_are_outside(index_type: str) -> None:
    """None of them is an index after its upper half is cut off."""
    values = [2**32, 2**32 + 1, 2**63 - 1, 1] + ([2**64 - 1, 2**63] if index_type[0] == "U" else [-(2**32), -(2**63)])
    places = TensorDesc(index_type, [len(values), 1])
    positions = np.array(values, places.data_type.dtype).reshape(places.sizes)
    source, new = f32(1, 2), f32(1, len(values))
    desc = operators.ScatterNd(
        input_tensor=source,
        indices_tensor=places,
        updates_tensor=new,
        output_tensor=source,
        input_dimension_count=1,
        indices_dimension_count=2,
    )
    updates = np.arange(1, len(values) + 1, dtype=np.float32).reshape(new.sizes)
    assert run_single(desc, np.zeros((1, 2), np.float32), positions, updates).tolist() == [[0, 4]]
    hot = operators.OneHot(indices_tensor=places, values_tensor=f32(2, 1), output_tensor=f32(len(values), 2), axis=1)
    marked = run_single(hot, positions, np.array([[0], [1]], np.float32))
    assert marked.tolist() == [[0, i == 3] for i in range(len(values))]
    gather = operators.GatherElements(
        input_tensor=f32(3, 1), indices_tensor=places, output_tensor=f32(len(values), 1), axis=0
    )
    picked = run_single(gather, np.array([[10], [20], [30]], np.float32), positions).ravel().tolist()
    assert picked == [30, 30, 30, 20] + ([30, 30] if index_type[0] == "U" else [10, 10])


@bounded
@given(data=st.data(), shapes=lines(), data_type=types, index_type=index_types, seed=seeds)
def test_one_hot(
    data: st.DataObject, shapes: tuple[list[int], list[int], int], data_type: str, index_type: str, seed: int
) -> None:
    shape, _, axis = shapes
    given_values = data.draw(sizes(len(shape), len(shape), limit=12).filter(lambda drawn: math.prod(drawn) > 1))
    chosen = data.draw(inputs(index_type, [1 if d == axis else n for d, n in enumerate(shape)]))
    values = data.draw(inputs(data_type, given_values))
    positions, pair = random_array(chosen, seed), random_array(values, seed + 1)
    target = data.draw(outputs(data_type, shape))
    desc = operators.OneHot(indices_tensor=chosen, values_tensor=values, output_tensor=target, axis=axis)
    # Packed, the values' second element along the last dimension larger than 1 is their second one.
    expected = np.full(shape, pair.ravel()[0])
    for place in np.ndindex(*chosen.sizes):
        position = found(int(positions[place]), shape[axis])
        if position is not None:
            expected[(*place[:axis], position, *place[axis + 1 :])] = pair.ravel()[1]
    assert_identical(run_single(desc, positions, pair), expected)


# ---- reversals and diagonals


@bounded
@given(data=st.data(), shapes=lines(), data_type=types, wide=st.booleans(), seed=seeds)
def test_reverse_subsequences(
    data: st.DataObject, shapes: tuple[list[int], list[int], int], data_type: str, wide: bool, seed: int
) -> None:
    shape, _, axis = shapes
    source = data.draw(inputs(data_type, shape))
    given_lengths = data.draw(
        inputs("UINT64" if wide else "UINT32", [1 if d == axis else n for d, n in enumerate(shape)])
    )
    x, lengths = random_array(source, seed), random_array(given_lengths, seed + 1)
    target = data.draw(outputs(data_type, shape))
    desc = operators.ReverseSubsequences(
        input_tensor=source, sequence_lengths_tensor=given_lengths, output_tensor=target, axis=axis
    )
    expected = np.moveaxis(x.copy(), axis, -1)
    for place in np.ndindex(*expected.shape[:-1]):
        length = min(int(np.moveaxis(lengths, axis, -1)[place][0]), shape[axis])
        expected[place][:length] = np.moveaxis(x, axis, -1)[place][:length][::-1]
    assert_identical(run_single(desc, x, lengths), np.moveaxis(expected, -1, axis))


diagonals = st.sampled_from([*range(-6, 7), -(2**31), 2**31 - 1])


@bounded
@given(
    data=st.data(),
    shape=sizes(2, 4),
    data_type=types,
    offset=diagonals,
    value=st.sampled_from([1.0, 10.6, -3.5, 300.0, -1e9, 3e38, math.inf, math.nan]),
)
def test_diagonal_matrix(data: st.DataObject, shape: list[int], data_type: str, offset: int, value: float) -> None:
    target = data.draw(outputs(data_type, shape))
    desc = operators.DiagonalMatrix(output_tensor=target, offset=offset, value=value)
    converted = cast(np.array([value], np.float32), target.data_type.dtype)
    rows, columns = np.indices(shape[-2:])
    band = np.broadcast_to(columns - rows == offset, shape)
    assert_identical(run_single(desc), np.where(band, converted, np.zeros_like(converted)))


@bounded
@given(data=st.data(), shape=sizes(2, 4), data_type=types, begin=diagonals, end=diagonals, seed=seeds)
def test_diagonal_matrix1(
    data: st.DataObject, shape: list[int], data_type: str, begin: int, end: int, seed: int
) -> None:
    source = data.draw(st.none() | inputs(data_type, shape))
    target = data.draw(outputs(data_type, shape))
    x: Array | None = None if source is None else random_array(source, seed)
    desc = operators.DiagonalMatrix1(
        input_tensor=source,
        output_tensor=target,
        value_data_type=data_type,
        value=7,
        diagonal_fill_begin=begin,
        diagonal_fill_end=end,
    )
    rows, columns = np.indices(shape[-2:])
    top = columns - rows
    filled = np.broadcast_to((end >= begin) ^ (top >= begin) ^ (top < end), shape)
    kept = np.zeros(shape, target.data_type.dtype) if x is None else x
    assert_identical(run_single(desc, x), np.where(filled, np.array(7, kept.dtype), kept))


# ---- positions of extremes


@st.composite
def reductions(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Sizes and some of their dimensions, in any order."""
    shape = draw(sizes())
    return shape, draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))


@bounded
@given(
    data=st.data(),
    case=reductions(),
    data_type=st.sampled_from(ALL_TYPES[1:]),
    index_type=index_types,
    largest=st.booleans(),
    last=st.booleans(),
    seed=seeds,
)
def test_positions_of_extremes(
    data: st.DataObject,
    case: tuple[list[int], list[int]],
    data_type: str,
    index_type: str,
    largest: bool,
    last: bool,
    seed: int,
) -> None:
    shape, axes = case
    source = data.draw(inputs(data_type, shape))
    target = data.draw(outputs(index_type, [1 if d in axes else n for d, n in enumerate(shape)]))
    x = random_array(source, seed)
    cls = operators.Argmax if largest else operators.Argmin
    desc = cls(input_tensor=source, output_tensor=target, axes=axes, axis_direction=int(last))
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose([*kept, *sorted(axes)]).reshape([shape[d] for d in kept] + [-1])
    expected = np.array([extreme_position(row, largest, last) for row in rows.reshape(-1, rows.shape[-1])])
    assert_identical(run_single(desc, x), expected.astype(target.data_type.dtype).reshape(target.sizes))


def extreme_position(row: Array, largest: bool, last: bool) -> int:
    """Of the extreme among the numbers, or of NaN if there are none; the first or the last one."""
    chosen = row == row
    if chosen.any():
        chosen = row == (row[chosen].max() if largest else row[chosen].min())
    else:
        chosen = ~chosen
    return int(np.flatnonzero(chosen)[-1 if last else 0])


@pytest.mark.sampled
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("shape", "axes"), [((2, 3, 5000, 2), [0, 2]), ((3, 2, 11000), [0, 2]), ((40000,), [0])])
def test_equal_elements_of_long_reductions(shape: tuple[int, ...], axes: list[int], last: bool) -> None:
    """The pieces that these are cut into are not in the order of their elements where an inner dimension is cut."""
    x = np.random.default_rng(1).integers(0, 2, shape).astype(np.float32)
    if not last:
        x[(slice(1), *[slice(None)] * (len(shape) - 1))] *= np.random.default_rng(2).random(shape[1:]) > 0.999
    target = TensorDesc("UINT32", [1 if d in axes else n for d, n in enumerate(shape)])
    desc = operators.Argmax(input_tensor=f32(*shape), output_tensor=target, axes=axes, axis_direction=int(last))
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose([*kept, *axes]).reshape([shape[d] for d in kept] + [-1])
    expected = [extreme_position(row, True, last) for row in rows.reshape(-1, rows.shape[-1])]
    assert run_single(desc, x).ravel().tolist() == expected


# ---- rules


def texts(desc: Any, level: str = "6_4") -> list[str]:
    return [str(violation) for violation in validate(desc, level)]


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        (
            "GatherElements",
            {"indices_tensor": u32(1, 2, 4, 4)},
            [
                "IndicesTensor.Sizes[3]: must be InputTensor.Sizes[3] = 3, as in all dimensions but Axis, got 4",
                "OutputTensor.Sizes[3]: must be IndicesTensor.Sizes[3] = 4, got 3",
            ],
        ),
        (
            "GatherElements",
            {"output_tensor": f32(1, 2, 5, 3)},
            ["OutputTensor.Sizes[2]: must be IndicesTensor.Sizes[2] = 4, got 5"],
        ),
        ("ScatterElements", {"axis": 4}, ["Axis: must be less than InputTensor.DimensionCount = 4, got 4"]),
        (
            "ScatterElements",
            {"updates_tensor": TensorDesc("INT8", [1, 2, 4, 3])},
            ["UpdatesTensor: must have the DataType of InputTensor, FLOAT32, got INT8"],
        ),
        (
            "GatherNd",
            {"input_dimension_count": 5},
            ["InputDimensionCount: must be from 1 to InputTensor.DimensionCount = 4, got 5"],
        ),
        (
            "GatherNd",
            {"indices_dimension_count": 0},
            ["IndicesDimensionCount: must be from 1 to IndicesTensor.DimensionCount = 4, got 0"],
        ),
        (
            "GatherNd",
            {"input_dimension_count": 2},
            [
                "InputTensor.Sizes[1]: must be 1, as the dimension is not among the last InputDimensionCount ones, got"
                " 3",
                "OutputTensor.Sizes[2]: must be 1"
                ", by IndicesTensor.Sizes[3], InputDimensionCount and IndicesDimensionCount, got 6",
                "OutputTensor.Sizes[3]: must be IndicesTensor.Sizes[2] = 6"
                ", by IndicesTensor.Sizes[3], InputDimensionCount and IndicesDimensionCount, got 5",
            ],
        ),
        (
            "GatherNd",
            {"indices_tensor": u32(1, 1, 6, 4)},
            [
                "IndicesTensor.Sizes[3]: must be at most InputDimensionCount = 3, the coordinates of one index, got 4",
            ],
        ),
        (
            "ScatterNd",
            {"indices_tensor": u32(1, 1, 6, 1), "indices_dimension_count": 4},
            ["IndicesDimensionCount: must leave at most 4 dimensions for UpdatesTensor, got 5"],
        ),
        (
            "ScatterNd",
            {"updates_tensor": f32(1, 1, 6, 4)},
            [
                "UpdatesTensor.Sizes[3]: must be InputTensor.Sizes[3] = 5"
                ", by IndicesTensor.Sizes[3], InputDimensionCount and IndicesDimensionCount, got 4"
            ],
        ),
        (
            "GatherNd1",
            {"batch_dimension_count": 3},
            [
                "BatchDimensionCount: must be less than InputDimensionCount = 3, got 3",
                "BatchDimensionCount: must be less than IndicesDimensionCount = 3, got 3",
            ],
        ),
        (
            "GatherNd1",
            {"batch_dimension_count": 2},
            [
                "IndicesTensor.Sizes[2]: must be InputTensor.Sizes[2] = 4, a batch dimension by InputDimensionCount and"
                " IndicesDimensionCount and BatchDimensionCount, got 6",
                "OutputTensor.Sizes[1]: must be 1"
                ", by IndicesTensor.Sizes[3], InputDimensionCount and IndicesDimensionCount and"
                " BatchDimensionCount, got 3",
                "OutputTensor.Sizes[2]: must be IndicesTensor.Sizes[1] = 3"
                ", by IndicesTensor.Sizes[3], InputDimensionCount and IndicesDimensionCount and"
                " BatchDimensionCount, got 6",
                "OutputTensor.Sizes[3]: must be IndicesTensor.Sizes[2] = 6"
                ", by IndicesTensor.Sizes[3], InputDimensionCount and IndicesDimensionCount and"
                " BatchDimensionCount, got 5",
            ],
        ),
        ("OneHot", {"values_tensor": f32(1, 1, 1, 1)}, ["ValuesTensor.Sizes: must hold two values, got {1, 1, 1, 1}"]),
        (
            "OneHot",
            {"axis": 2},
            [
                "IndicesTensor.Sizes[3]: must be OutputTensor.Sizes[3] = 7, as in all dimensions but Axis, got 1",
                "IndicesTensor.Sizes[2]: must be 1, as the dimension is Axis, got 3",
            ],
        ),
        (
            "ReverseSubsequences",
            {"sequence_lengths_tensor": u32(1, 2, 3, 4)},
            ["SequenceLengthsTensor.Sizes[3]: must be 1, as the dimension is Axis, got 4"],
        ),
        (
            "DiagonalMatrix",
            {"offset": 2**31},
            ["Offset: must be an integer from -2147483648 to 2147483647, got 2147483648"],
        ),
        (
            "DiagonalMatrix1",
            {"input_tensor": f32(1, 2, 3, 5)},
            ["OutputTensor.Sizes[3]: must be InputTensor.Sizes[3] = 5, got 4"],
        ),
        ("Argmin", {"axes": [1, 1]}, ["Axes[1]: must not name a dimension again, got 1"]),
        (
            "Argmax",
            {"axis_direction": 2},
            ["AxisDirection: must be a DML_AXIS_DIRECTION (one of INCREASING, DECREASING), got 2"],
        ),
    ],
)
def test_rules(name: str, changes: dict[str, Any], expected: list[str]) -> None:
    assert texts(sample(getattr(operators, name), **changes)) == expected


def test_scatter_has_two_names() -> None:
    json = sample(operators.ScatterElements).to_json()
    assert json["Type"] == "DML_OPERATOR_SCATTER_ELEMENTS"
    assert operators.ScatterElements.from_json({**json, "Type": "SCATTER"}) == sample(operators.ScatterElements)
