"""Linear quantization against the formulas, element by element."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from execution import assert_identical, inputs, outputs, random_array, run_single, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate

Array = np.ndarray[Any, Any]
bounded = examples(12)
BYTES = st.sampled_from(["INT8", "UINT8"])


def quantized(value: float, zero_point: int, dtype: Any) -> int:
    """Python's ``round`` is to even as well, and of any size."""
    limits = np.iinfo(dtype)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return int(limits.max if value > 0 else limits.min)
    return min(max(round(value) + zero_point, int(limits.min)), int(limits.max))


@bounded
@given(
    data=st.data(),
    shape=sizes(limit=48),
    data_type=st.sampled_from(["FLOAT32", "FLOAT16", "INT32"]),
    output_type=BYTES,
    has_zero_point=st.booleans(),
    seed=seeds,
)
def test_quantize_linear(
    data: st.DataObject, shape: list[int], data_type: str, output_type: str, has_zero_point: bool, seed: int
) -> None:
    source = data.draw(inputs(data_type, shape))
    scales = data.draw(inputs("FLOAT32" if data_type == "INT32" else data_type, shape))
    zero_points = data.draw(inputs(output_type, shape)) if has_zero_point else None
    target = data.draw(outputs(output_type, shape))
    x, scale = random_array(source, seed), random_array(scales, seed + 1)
    zero_point = None if zero_points is None else random_array(zero_points, seed + 2)
    desc = operators.ElementWiseQuantizeLinear(
        input_tensor=source, scale_tensor=scales, zero_point_tensor=zero_points, output_tensor=target
    )
    with np.errstate(all="ignore"):
        quotients = x.astype(np.float32) / scale.astype(np.float32)
    dtype = target.data_type.dtype
    zeros = np.zeros(shape, dtype) if zero_point is None else zero_point
    pairs: Iterable[Any] = zip(quotients.ravel().tolist(), zeros.ravel().tolist(), strict=True)
    expected = np.array([quantized(value, zero, dtype) for value, zero in pairs], dtype).reshape(shape)
    assert_identical(run_single(desc, x, scale, zero_point), expected)


@bounded
@given(
    data=st.data(),
    shape=sizes(limit=48),
    data_type=st.sampled_from(["INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"]),
    output_type=st.sampled_from(["FLOAT32", "FLOAT16"]),
    has_zero_point=st.booleans(),
    seed=seeds,
)
def test_dequantize_linear(
    data: st.DataObject, shape: list[int], data_type: str, output_type: str, has_zero_point: bool, seed: int
) -> None:
    source, scales = data.draw(inputs(data_type, shape)), data.draw(inputs(output_type, shape))
    zero_points = data.draw(inputs(data_type, shape)) if has_zero_point else None
    x, scale = random_array(source, seed), random_array(scales, seed + 1, special=False)
    zero_point = None if zero_points is None else random_array(zero_points, seed + 2)
    desc = operators.ElementWiseDequantizeLinear(
        input_tensor=source,
        scale_tensor=scales,
        zero_point_tensor=zero_points,
        output_tensor=data.draw(outputs(output_type, shape)),
    )
    difference = x.astype(np.int64) - (0 if zero_point is None else zero_point.astype(np.int64))
    with np.errstate(over="ignore"):
        expected = (difference.astype(np.float32) * scale.astype(np.float32)).astype(scale.dtype)
    assert_identical(run_single(desc, x, scale, zero_point), expected)


@bounded
@given(data=st.data(), shape=sizes(limit=48), seed=seeds)
def test_quantized_linear_add(data: st.DataObject, shape: list[int], seed: int) -> None:
    generator = np.random.default_rng(seed)
    one = [1] * len(shape)
    fields: dict[str, Any] = {}
    arrays: list[Any] = []
    for name in ("a", "b", "output"):
        data_type = data.draw(BYTES)
        whole = data.draw(outputs(data_type, shape) if name == "output" else inputs(data_type, shape))
        fields[f"{name}_tensor"] = whole
        if name != "output":
            arrays.append(random_array(whole, int(generator.integers(2**32))))
        fields[f"{name}_scale_tensor"] = TensorDesc("FLOAT32", one)
        arrays.append(generator.lognormal(0, 1, one).astype(np.float32))
        fields[f"{name}_zero_point_tensor"] = TensorDesc(data_type, one) if data.draw(st.booleans()) else None
        number = generator.integers(-100 if data_type == "INT8" else 0, 101, one).astype(whole.data_type.dtype)
        arrays.append(number if fields[f"{name}_zero_point_tensor"] else None)
    desc = operators.ElementWiseQuantizedLinearAdd(**fields)
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = arrays
    left, right = (
        (x.astype(np.float32) - np.float32(0 if z is None else z.item())) * s
        for x, s, z in ((a, a_scale, a_zero), (b, b_scale, b_zero))
    )
    dtype = desc.output_tensor.data_type.dtype
    zero_point = 0 if zero is None else zero.item()
    quotients = ((left + right) / scale).astype(np.float32)
    expected = np.array([quantized(value, zero_point, dtype) for value in quotients.ravel().tolist()], dtype)
    assert_identical(run_single(desc, *arrays), expected.reshape(shape))


def test_halves_round_to_even_before_the_zero_point_is_added() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 254.5, 1e30, -1e30, math.nan], np.float32)
    one = np.ones_like(x)
    result = dml.quantize_linear(x, one, np.full(x.shape, 1, np.uint8))
    assert result.tolist() == [1, 3, 3, 1, 0, 255, 255, 0, 0]
    assert dml.quantize_linear(x, one, output_data_type="int8").tolist() == [0, 2, 2, 0, -2, 127, 127, -128, 0]


def test_differences_of_unsigned_integers_do_not_wrap() -> None:
    x, zero_point = np.array([3, 0, 2**32 - 1], np.uint32), np.array([5, 2**32 - 1, 0], np.uint32)
    assert dml.dequantize_linear(x, np.ones(3, np.float32), zero_point).tolist() == [-2, -(2.0**32), 2.0**32]


# ---- rules


def texts(desc: Any, level: str = "6_4") -> list[str]:
    return [str(violation) for violation in validate(desc, level)]


def f32(*shape: int) -> TensorDesc:
    return TensorDesc("FLOAT32", shape)


def u8(*shape: int) -> TensorDesc:
    return TensorDesc("UINT8", shape)


@pytest.mark.parametrize("level", ["1_0", "5_0", "6_1", "6_2"])
def test_the_zero_point_may_be_absent_since_6_2(level: str) -> None:
    one = (1, 2, 3, 4)
    quantize = operators.ElementWiseQuantizeLinear(
        input_tensor=f32(*one), scale_tensor=f32(*one), output_tensor=u8(*one)
    )
    dequantize = operators.ElementWiseDequantizeLinear(
        input_tensor=u8(*one), scale_tensor=f32(*one), output_tensor=f32(*one)
    )
    must = f"ZeroPointTensor: must be given at feature level {level} (allowed from feature level 6_2 on)"
    assert texts(quantize, level) == texts(dequantize, level) == ([] if level == "6_2" else [must])


def test_types_of_scales_and_zero_points() -> None:
    half, int32, int8 = TensorDesc("FLOAT16", [3]), TensorDesc("INT32", [3]), TensorDesc("INT8", [3])
    quantize = operators.ElementWiseQuantizeLinear(
        input_tensor=int32, scale_tensor=half, zero_point_tensor=int8, output_tensor=u8(3)
    )
    assert texts(quantize) == [
        "ZeroPointTensor: must have the DataType of OutputTensor, UINT8, got INT8",
        "ScaleTensor: must have the DataType FLOAT32, as InputTensor is INT32, got FLOAT16",
    ]
    assert texts(quantize.replace(input_tensor=f32(3), zero_point_tensor=u8(3))) == [
        "ScaleTensor: must have the DataType FLOAT32, as InputTensor is FLOAT32, got FLOAT16"
    ]
    dequantize = operators.ElementWiseDequantizeLinear(
        input_tensor=u8(3), scale_tensor=half, zero_point_tensor=int8, output_tensor=f32(3)
    )
    assert len(texts(dequantize)) == 2


def test_scales_of_quantized_addition_have_one_element() -> None:
    desc = operators.ElementWiseQuantizedLinearAdd(
        a_tensor=u8(2, 3),
        a_scale_tensor=f32(1, 3),
        b_tensor=u8(2, 3),
        b_scale_tensor=f32(1),
        b_zero_point_tensor=TensorDesc("INT8", [1, 1]),
        output_scale_tensor=f32(1, 1),
        output_tensor=u8(2, 2),
    )
    assert texts(desc) == [
        "BZeroPointTensor: must have the DataType of BTensor, UINT8, got INT8",
        "BScaleTensor: must have the DimensionCount of ATensor, 2, got 1",
        "OutputTensor.Sizes[1]: must be ATensor.Sizes[1] = 3, got 2",
        "AScaleTensor.Sizes[1]: must be 1, as it holds one value, got 3",
    ]
