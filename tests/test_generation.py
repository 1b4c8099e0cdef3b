"""Constants and sequences."""

from __future__ import annotations

import numpy as np
import pytest
from execution import ALL_TYPES, assert_identical, outputs, run_single, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from opendml import operators
from opendml.description.structs import ScalarUnion
from opendml.description.tensor import TensorDesc

bounded = examples(40)
SEQUENCE_TYPES = tuple(name for name in ALL_TYPES if name != "FLOAT64")


@bounded
@given(data=st.data(), shape=sizes(), data_type=st.sampled_from(ALL_TYPES), bits=st.binary(min_size=8, max_size=8))
def test_constant_of_any_bits(data: st.DataObject, shape: list[int], data_type: str, bits: bytes) -> None:
    target = data.draw(outputs(data_type, shape))
    desc = operators.FillValueConstant(output_tensor=target, value_data_type=data_type, value=ScalarUnion(bits))
    value = np.frombuffer(bits, target.data_type.dtype, 1)
    assert_identical(run_single(desc), np.broadcast_to(value, shape))


@bounded
@given(
    data=st.data(),
    shape=sizes(),
    data_type=st.sampled_from([name for name in SEQUENCE_TYPES if "FLOAT" not in name]),
    values=st.tuples(st.integers(), st.integers()),
)
def test_integer_sequences_wrap(data: st.DataObject, shape: list[int], data_type: str, values: tuple[int, int]) -> None:
    target = data.draw(outputs(data_type, shape))
    dtype = target.data_type.dtype
    mask = (1 << 8 * dtype.itemsize) - 1
    start, delta = (value & mask for value in values)
    desc = operators.FillValueSequence(
        output_tensor=target, value_data_type=data_type, value_start=start, value_delta=delta
    )
    expected = [(start + i * delta) & mask for i in range(target.element_count)]
    assert_identical(run_single(desc), np.array(expected, f"u{dtype.itemsize}").view(dtype).reshape(shape))


@bounded
@given(
    data=st.data(),
    shape=sizes(),
    data_type=st.sampled_from(["FLOAT32", "FLOAT16"]),
    values=st.tuples(st.floats(-1e4, 1e4, width=16), st.floats(-100, 100, width=16)),
)
def test_floating_point_sequences(
    data: st.DataObject, shape: list[int], data_type: str, values: tuple[float, float]
) -> None:
    target = data.draw(outputs(data_type, shape))
    start, delta = values
    desc = operators.FillValueSequence(
        output_tensor=target, value_data_type=data_type, value_start=start, value_delta=delta
    )
    number = np.arange(target.element_count, dtype=np.float32).reshape(shape)
    expected = number * np.float32(delta) + np.float32(start)
    assert_identical(run_single(desc), expected.astype(target.data_type.dtype))


def test_elements_are_not_accumulated() -> None:
    desc = operators.FillValueSequence(
        output_tensor=TensorDesc("FLOAT32", [1000]), value_data_type="FLOAT32", value_start=0, value_delta=0.1
    )
    assert run_single(desc)[999] == np.float32(999) * np.float32(0.1)


@pytest.mark.parametrize("value", [-2, 254])
def test_a_negative_step_of_an_unsigned_type(value: int) -> None:
    desc = operators.FillValueSequence(
        output_tensor=TensorDesc("UINT8", [1, 1, 2, 2]), value_data_type="UINT8", value_start=10, value_delta=value
    )
    assert run_single(desc).ravel().tolist() == [10, 8, 6, 4]
