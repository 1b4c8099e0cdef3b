"""NONZERO_COORDINATES against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from execution import inputs, outputs, random_array, run_operator, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.data_types import UP_TO_32_BIT
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.expression.element_types import I64
from opendml.expression.interpreter import StrayAccessError, interpret
from opendml.expression.ir import Axis, Tensor, cast, constant, index, load
from opendml.expression.statements import Definition, Scatter, Store
from opendml.targets.cpu.schedule import schedule_scatter
from opendml.targets.cpu.target import host_target
from opendml.targets.cpu.tuning import TUNING

Array = np.ndarray[Any, Any]


def check(desc: operators.NonzeroCoordinates, x: Array) -> None:
    """Count and rows are NumPy's, the rows behind them zeros."""
    count, coordinates = run_operator(desc, [x])
    kept = coordinates.shape[-1]
    expected = np.argwhere(x.reshape(desc.input_tensor.sizes))[:, x.ndim - kept :]
    assert count.reshape(-1).tolist() == [len(expected)]
    rows = coordinates.reshape(-1, kept)
    np.testing.assert_array_equal(rows[: len(expected)], expected)
    assert not rows[len(expected) :].any()


@examples(60)
@given(data=st.data(), shape=sizes(), data_type=st.sampled_from(UP_TO_32_BIT), share=st.floats(0, 1), seed=seeds)
def test_against_numpy(data: st.DataObject, shape: list[int], data_type: Any, share: float, seed: int) -> None:
    source = data.draw(inputs(data_type.name, shape))
    x = random_array(source, seed)
    if all(stride or size == 1 for size, stride in zip(shape, source.effective_strides, strict=True)):
        x[np.random.default_rng(seed).random(x.shape) > share] = 0
    large = next((i for i, size in enumerate(shape) if size > 1), len(shape) - 1)
    kept = data.draw(st.integers(len(shape) - large, len(shape)))
    rank = data.draw(st.integers(2, 8))
    desc = operators.NonzeroCoordinates(
        input_tensor=source,
        output_count_tensor=data.draw(outputs("UINT32", [1] * data.draw(st.integers(1, 8)))),
        output_coordinates_tensor=data.draw(outputs("UINT32", [1] * (rank - 2) + [x.size, kept])),
    )
    check(desc, x)


@pytest.mark.parametrize("shape", [(TUNING.compacted_piece,), (TUNING.compacted_piece + 1,), (3, 2, 700), (41, 101)])
@pytest.mark.parametrize("share", [0, 0.02, 0.6, 1])
def test_pieces(shape: tuple[int, ...], share: float) -> None:
    """More elements than one piece has, none of which need be zero, or all."""
    x = (np.random.default_rng(5).random(shape) < share).astype(np.float32)
    desc = operators.NonzeroCoordinates(
        input_tensor=TensorDesc("FLOAT32", shape),
        output_count_tensor=TensorDesc("UINT32", [1]),
        output_coordinates_tensor=TensorDesc("UINT32", [x.size, x.ndim]),
    )
    check(desc, x)


def test_zeros_and_what_is_none() -> None:
    x = np.array([0.0, -0.0, np.nan, np.inf, 1e-45, -1e-45], np.float32)
    found = dml.nonzero_coordinates(x)
    assert found.coordinates[: found.count.item(), 0].tolist() == [2, 3, 4, 5]
    small = np.array([0.0, -0.0, np.nan, 6e-8, -6e-8], np.float16)
    found = dml.nonzero_coordinates(small)
    assert found.coordinates[: found.count.item(), 0].tolist() == [2, 3, 4]


def test_what_graphs_read_behind_the_count() -> None:
    """Zeros, whatever was in memory: here every element is gathered, the first ones of the tensor again and again."""
    graph = dml.Graph()
    x = graph.input("float32", [40, 60])
    found = dml.nonzero_coordinates(dml.abs(x))
    gathered = dml.gather_nd(x, found.coordinates, input_dimension_count=2, indices_dimension_count=2)
    program = graph.compile([gathered, found.count])
    for seed in range(2):
        values = np.random.default_rng(seed).normal(size=(40, 60)).astype(np.float32)
        values[np.abs(values) < 1] = 0
        values[0, 0] = -7
        picked, count = program(values)
        expected = values[values != 0]
        assert count.tolist() == [expected.size]
        rows = picked.reshape(-1)
        np.testing.assert_array_equal(rows[: expected.size], expected)
        np.testing.assert_array_equal(rows[expected.size :], np.full(rows.size - expected.size, -7))


def test_all_that_is_wrong() -> None:
    desc = operators.NonzeroCoordinates(
        input_tensor=TensorDesc("FLOAT32", [1, 1, 2, 4]),
        output_count_tensor=TensorDesc("UINT32", [1, 2]),
        output_coordinates_tensor=TensorDesc("UINT32", [3, 9, 1]),
    )
    assert {violation.field: violation.rule for violation in validate(desc)} == {
        "OutputCountTensor.Sizes[1]": "must be 1, as it is one number",
        "OutputCoordinatesTensor.Sizes[0]": "must be 1, as all but the last two",
        "OutputCoordinatesTensor.Sizes[1]": "must be 8, the number of elements of InputTensor",
        "OutputCoordinatesTensor.Sizes[2]": (
            "must be from 2, the effective rank of InputTensor, to 4, its DimensionCount"
        ),
    }
    wide = desc.replace(output_coordinates_tensor=TensorDesc("UINT32", [8, 5]))
    assert [v.field for v in validate(wide)] == ["OutputCountTensor.Sizes[1]", "OutputCoordinatesTensor.Sizes[1]"]


def test_the_oldest_level_wants_one_rank() -> None:
    desc = operators.NonzeroCoordinates(
        input_tensor=TensorDesc("FLOAT32", [1, 1, 2, 4]),
        output_count_tensor=TensorDesc("UINT32", [1] * 4),
        output_coordinates_tensor=TensorDesc("UINT32", [1, 1, 8, 2]),
    )
    assert not validate(desc, "3_0")
    other = desc.replace(output_count_tensor=TensorDesc("UINT32", [1] * 5))
    (violation,) = validate(other, "3_0")
    assert str(violation.allowed_at) == "4_0"
    assert violation.rule == "must have the DimensionCount of InputTensor, 4, at feature level 3_0"
    assert not validate(other, "4_0")


def _scatter(rows: int, size: int) -> tuple[Definition, Scatter]:
    """Every row of some numbers goes to where its own offset says."""
    offsets = Tensor("offsets", I64, (rows,), (1,), "input")
    target = Tensor("target", I64, (rows * size,), (1,), "output")
    row, i = Axis("row", rows), Axis("i", size)
    place = load(offsets, (index(row),)) + index(i)
    store = Store(target, (place,), cast(index(row) * size + index(i), I64))
    scatter = Scatter((row, i), constant(0, I64) <= index(i), store, apart=(row,))
    return Definition((offsets,), (target,), (scatter,)), scatter


def test_scatters_are_cut_along_axes_that_keep_points_apart() -> None:
    _, scatter = _scatter(200, 500)
    kernel = schedule_scatter(scatter, host_target())
    assert kernel.blocks == ((scatter.axes[0], 3),)
    assert not kernel.serial


def test_points_that_are_apart_and_meet_are_a_defect() -> None:
    definition, _ = _scatter(3, 4)
    target = np.zeros(12, np.int64)
    (offsets, output) = (definition.inputs[0], definition.outputs[0])
    assert offsets is not None and output is not None
    interpret(definition, {offsets: np.array([4, 8, 0]), output: target})
    assert target.tolist() == [8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(StrayAccessError, match="points that are apart store to the same element"):
        interpret(definition, {offsets: np.array([0, 3, 8]), output: target})
