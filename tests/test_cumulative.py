"""Running sums and products."""

from __future__ import annotations

import numpy as np
import pytest
from execution import assert_same_values, inputs, outputs, random_array, run_single, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from reference import cumulative

import opendml as dml
from opendml import operators
from opendml.description.enums import AxisDirection
from opendml.description.tensor import TensorDesc

bounded = examples(50)
types = st.sampled_from(["FLOAT32", "FLOAT16", "INT64", "INT32", "UINT64", "UINT32"])


@bounded
@given(
    data=st.data(),
    shape=sizes(),
    data_type=types,
    product=st.booleans(),
    direction=st.sampled_from(AxisDirection),
    exclusive=st.booleans(),
    seed=seeds,
)
def test_running_sums_and_products(
    data: st.DataObject,
    shape: list[int],
    data_type: str,
    product: bool,
    direction: AxisDirection,
    exclusive: bool,
    seed: int,
) -> None:
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    fields = {
        "input_tensor": source,
        "output_tensor": data.draw(outputs(data_type, shape)),
        "axis": data.draw(st.integers(0, len(shape) - 1)),
        "axis_direction": direction,
    }
    desc = (
        operators.CumulativeProduct(**fields, has_exclusive_product=exclusive)
        if product
        else operators.CumulativeSummation(**fields, has_exclusive_sum=exclusive)
    )
    operation, initial = (np.multiply, 1) if product else (np.add, 0)
    decreasing = direction == AxisDirection.DECREASING
    expected = cumulative(x, fields["axis"], decreasing, exclusive, operation, initial)
    result = run_single(desc, x)
    if product or (data_type.endswith(("32", "64")) and not data_type.startswith("FLOAT")):
        assert_same_values(result, expected)
    else:
        # NumPy's accumulate begins with the first element, the definition with 0: the sign of a zero may differ.
        np.testing.assert_array_equal(result, expected)


def test_the_sum_of_float16_is_kept_in_float32() -> None:
    tensor = TensorDesc("FLOAT16", [4])
    desc = operators.CumulativeSummation(
        input_tensor=tensor, output_tensor=tensor, axis=0, axis_direction="INCREASING", has_exclusive_sum=False
    )
    result = run_single(desc, np.array([2048, 1, 1, 1], np.float16))
    assert result.tolist() == [2048, 2048, 2050, 2052]


def test_minus_zero_plus_the_initial_zero_is_plus_zero() -> None:
    tensor = TensorDesc("FLOAT32", [2])
    desc = operators.CumulativeSummation(
        input_tensor=tensor, output_tensor=tensor, axis=0, axis_direction="DECREASING", has_exclusive_sum=False
    )
    assert not np.signbit(run_single(desc, np.array([-0.0, -0.0], np.float32))).any()


@pytest.mark.sampled
@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "INT64"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        (
            [5, 4099],
            0,
        ),  # wider than a block of state in memory
        ([3, 7, 301], 1),
        ([40, 6, 130], 1),  # more than one vector, and a rest of two elements
        ([33, 19], 1),  # nobody beside, two rows at a time and a last one
        ([2, 3, 5, 6], 3),
    ],
)
def test_many_neighbours_go_together(data_type: str, shape: list[int], axis: int) -> None:
    tensor = TensorDesc(data_type, shape)
    x = random_array(tensor, 5, special=False)
    for exclusive in (False, True):
        desc = operators.CumulativeSummation(
            input_tensor=tensor,
            output_tensor=tensor,
            axis=axis,
            axis_direction=AxisDirection.DECREASING,
            has_exclusive_sum=exclusive,
        )
        expected = cumulative(x, axis, True, exclusive, np.add, 0)
        np.testing.assert_array_equal(run_single(desc, x), expected)
        in_place = x.copy()
        dml.Device(thread_count=3).compile(desc)(in_place, out=[in_place])
        np.testing.assert_array_equal(in_place, expected)
