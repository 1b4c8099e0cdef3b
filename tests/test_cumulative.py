"""Running sums and products."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from execution import assert_same_values, inputs, outputs, random_array, run_single, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from nest_running import ORDERS, TARGETS, check_nests, contents_of
from properties import examples
from reference import cumulative

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.enums import AxisDirection
from opendml.description.tensor import TensorDesc
from opendml.llvm.host import machine_of
from opendml.loops.nest import Turn, nodes_of
from opendml.targets.cpu.processor import Processor

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
    fields: dict[str, Any] = {
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
        ([37, 53], 1),  # squares, and what is left of rows and steps
        ([2, 35, 600], 2),  # for several threads
    ],
)
def test_many_neighbours_go_together(data_type: str, shape: list[int], axis: int) -> None:
    tensor = TensorDesc(data_type, shape)
    x = random_array(tensor, 5, special=False)
    for exclusive, direction in itertools.product((False, True), AxisDirection):
        desc = running_sum(tensor, axis, direction, exclusive)
        expected = cumulative(x, axis, direction == AxisDirection.DECREASING, exclusive, np.add, 0)
        np.testing.assert_array_equal(run_single(desc, x), expected)
        in_place = x.copy()
        dml.Device(thread_count=3).compile(desc)(in_place, out=[in_place])
        np.testing.assert_array_equal(in_place, expected)


# Squares of points and steps -----------------------------------------------------------------------------------------


@bounded
@given(
    rows=st.integers(4, 70),
    steps=st.integers(1, 50),
    gap=st.integers(0, 3),
    data_type=types,
    direction=st.sampled_from(AxisDirection),
    exclusive=st.booleans(),
    target=TARGETS,
    order=ORDERS,
    seed=seeds,
)
def test_rows_side_by_side(
    rows: int,
    steps: int,
    gap: int,
    data_type: str,
    direction: AxisDirection,
    exclusive: bool,
    target: Processor,
    order: list[int],
    seed: int,
) -> None:
    """Nests, code and definition agree, on processors with registers of every width."""
    tensor = TensorDesc(data_type, [rows, steps], [steps + gap, 1])
    definition = running_sum(tensor, 1, direction, exclusive).define()
    check_nests(definition, target, contents_of(definition, seed), order)


def squares(target: Processor, data_type: str, rows: int, steps: int, axis: int = 1) -> list[int]:
    """Sides of the squares of registers in the nest of a running sum."""
    tensor = TensorDesc(data_type, [rows, steps])
    definition = running_sum(tensor, axis, AxisDirection.INCREASING, False).define()
    (nest,) = target.generate(definition, in_place=True).nests
    return [node.lanes for node in nodes_of(nest.body) if isinstance(node, Turn)]


def test_squares_fill_registers_and_leave_work_for_threads() -> None:
    target = Processor(machine_of("x86_64-unknown-linux-gnu", "avx512"))
    assert squares(target, "FLOAT32", 4096, 1000) == squares(target, "FLOAT16", 4096, 1000) == [16]
    assert squares(target, "INT64", 4096, 1000) == [8]
    assert squares(target, "FLOAT32", 128, 1000) == [8]
    assert squares(target, "FLOAT32", 16, 10000) == [4]
    assert squares(target, "FLOAT32", 12, 10000) == []  # two at a time are work for more threads
    assert squares(target, "FLOAT32", 12, 100) == [8]  # one thread does all of it
    assert squares(target, "FLOAT32", 3, 100) == squares(target, "FLOAT32", 100, 3) == []
    assert squares(target, "FLOAT32", 4096, 1000, axis=0) == []


def running_sum(tensor: TensorDesc, axis: int, direction: AxisDirection, exclusive: bool) -> Operator:
    """CUMULATIVE_SUMMATION of a tensor into one like it."""
    return operators.CumulativeSummation(
        input_tensor=tensor,
        output_tensor=tensor,
        axis=axis,
        axis_direction=direction,
        has_exclusive_sum=exclusive,
    )
