"""Element-wise logic, comparisons, tests, selection and bits against NumPy and Python, one by one."""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from execution import (
    ALL_TYPES,
    assert_identical,
    assert_same_values,
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

import opendml as dml
from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.programs.device import compile_operator

Array = np.ndarray[Any, Any]
bounded = examples(8)

TRUTH = st.sampled_from(["UINT32", "UINT8"])
UNSIGNED = ("UINT64", "UINT32", "UINT16", "UINT8")

LOGICAL: dict[str, Callable[[bool, bool], bool]] = {
    "LogicalAnd": lambda a, b: a and b,
    "LogicalOr": lambda a, b: a or b,
    "LogicalXor": lambda a, b: a is not b,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "LogicalEquals": python.eq,
    "LogicalGreaterThan": python.gt,
    "LogicalGreaterThanOrEqual": python.ge,
    "LogicalLessThan": python.lt,
    "LogicalLessThanOrEqual": python.le,
}
BITWISE: dict[str, Callable[[int, int], int]] = {"BitAnd": python.and_, "BitOr": python.or_, "BitXor": python.xor}
SHIFTS: dict[str, Callable[[int, int], int]] = {
    "BitShiftLeft": lambda a, b: a << min(b, 64),
    "BitShiftRight": lambda a, b: a >> min(b, 64),
}


def one_by_one(function: Callable[..., Any], dtype: Any, *arrays: Array) -> Array:
    """A function of Python's numbers for every element; integers wrap."""
    mask = (1 << (np.dtype(dtype).itemsize * 8)) - 1
    values = [int(function(*place)) & mask for place in zip(*(x.ravel().tolist() for x in arrays), strict=True)]
    return np.array(values, dtype).reshape(arrays[0].shape)


def operator(name: str) -> Any:
    return getattr(operators, f"ElementWise{name}")


def pattern(x: Array) -> Array:
    return x.view(f"u{x.itemsize}")


@pytest.mark.parametrize("name", LOGICAL)
@bounded
@given(data=st.data(), shape=sizes(limit=64), data_type=TRUTH, seed=seeds)
def test_logical(name: str, data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    left, right = data.draw(inputs(data_type, shape)), data.draw(inputs(data_type, shape))
    a, b = random_array(left, seed) % 3 * 100, random_array(right, seed + 1) % 3
    desc = operator(name)(a_tensor=left, b_tensor=right, output_tensor=data.draw(outputs(data_type, shape)))
    expected = one_by_one(lambda x, y: LOGICAL[name](bool(x), bool(y)), a.dtype, a, b)
    assert_identical(run_single(desc, a, b), expected)


@bounded
@given(data=st.data(), shape=sizes(limit=64), data_type=TRUTH, seed=seeds)
def test_logical_not(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed) % 3
    desc = operators.ElementWiseLogicalNot(input_tensor=source, output_tensor=data.draw(outputs(data_type, shape)))
    assert_identical(run_single(desc, x), one_by_one(lambda v: not v, x.dtype, x))


@pytest.mark.parametrize("name", COMPARISONS)
@bounded
@given(
    data=st.data(),
    shape=sizes(limit=64),
    data_type=st.sampled_from([name for name in ALL_TYPES if name != "FLOAT64"]),
    output_type=TRUTH,
    seed=seeds,
)
def test_comparisons(
    name: str, data: st.DataObject, shape: list[int], data_type: str, output_type: str, seed: int
) -> None:
    left, right = data.draw(inputs(data_type, shape)), data.draw(inputs(data_type, shape))
    a, b = random_array(left, seed), random_array(right, seed + 1)
    a = np.where(np.random.default_rng(seed).random(a.shape) < 0.4, b, a)
    if 0 in left.effective_strides:
        a = random_array(left, seed)
    target = data.draw(outputs(output_type, shape))
    desc = operator(name)(a_tensor=left, b_tensor=right, output_tensor=target)
    assert_identical(run_single(desc, a, b), one_by_one(COMPARISONS[name], target.data_type.dtype, a, b))


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
def test_comparisons_are_those_of_ieee_754(data_type: str) -> None:
    special = np.array([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, -math.nan])
    a, b = np.broadcast_arrays(special[:, None], special)
    a, b = (np.array(x, TensorDesc(data_type, [1]).data_type.dtype) for x in (a, b))
    for name, compare in COMPARISONS.items():
        tensor, truth = TensorDesc(data_type, a.shape), TensorDesc("UINT8", a.shape)
        result = run_single(operator(name)(a_tensor=tensor, b_tensor=tensor, output_tensor=truth), a, b)
        assert_identical(result, one_by_one(compare, np.uint8, a, b))


@bounded
@given(data=st.data(), shape=sizes(limit=64), data_type=st.sampled_from(["FLOAT32", "FLOAT16"]), seed=seeds)
def test_tests_of_floats(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    target = data.draw(outputs(data.draw(TRUTH), shape))
    desc = operators.ElementWiseIsNan(input_tensor=source, output_tensor=target)
    assert_identical(run_single(desc, x), one_by_one(math.isnan, target.data_type.dtype, x))
    target = data.draw(outputs("UINT8", shape))
    modes: dict[str, Callable[[float], bool]] = {
        "EITHER": math.isinf,
        "POSITIVE": lambda v: v == math.inf,
        "NEGATIVE": lambda v: v == -math.inf,
    }
    for mode, test in modes.items():
        infinity = operators.ElementWiseIsInfinity(input_tensor=source, output_tensor=target, infinity_mode=mode)
        assert_identical(run_single(infinity, x), one_by_one(test, np.uint8, x))


def test_every_float16() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    x, exponent, fraction = bits.view(np.float16), bits >> 10 & 31, bits & 1023
    assert_identical(dml.is_nan(x), ((exponent == 31) & (fraction != 0)).astype(np.uint8))
    assert_identical(dml.is_infinity(x), ((exponent == 31) & (fraction == 0)).astype(np.uint8))


@bounded
@given(data=st.data(), shape=sizes(limit=64), data_type=st.sampled_from(ALL_TYPES), seed=seeds)
def test_if(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    tests, left, right = (data.draw(inputs(name, shape)) for name in ("UINT8", data_type, data_type))
    condition = random_array(tests, seed) % 3
    a, b = random_array(left, seed), random_array(right, seed + 1)
    desc = operators.ElementWiseIf(
        condition_tensor=tests, a_tensor=left, b_tensor=right, output_tensor=data.draw(outputs(data_type, shape))
    )
    assert_identical(run_single(desc, condition, a, b), np.where(condition > 0, a, b))


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32", "FLOAT64"])
def test_if_and_bits_keep_the_payload_of_nan(data_type: str) -> None:
    count = 67
    dtype = TensorDesc(data_type, [1]).data_type.dtype
    infinity = int(np.array([math.inf], dtype).view(f"u{dtype.itemsize}")[0])
    nan = (np.arange(count).astype(f"u{dtype.itemsize}") + infinity + 1).view(dtype)
    zero = np.zeros(count, dtype)
    condition = (np.arange(count) % 2).astype(np.uint8)
    selected = dml.if_(condition, nan, zero)
    assert_identical(
        selected, np.where(condition > 0, nan.view(f"u{dtype.itemsize}"), 0).astype(pattern(nan).dtype).view(dtype)
    )
    assert_identical(dml.bit_or(nan, zero), nan)
    assert_identical(dml.bit_not(dml.bit_not(nan)), nan)


@pytest.mark.parametrize("name", BITWISE)
@bounded
@given(data=st.data(), shape=sizes(limit=64), data_type=st.sampled_from(ALL_TYPES), seed=seeds)
def test_bitwise(name: str, data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    left, right = data.draw(inputs(data_type, shape)), data.draw(inputs(data_type, shape))
    a, b = random_array(left, seed), random_array(right, seed + 1)
    desc = operator(name)(a_tensor=left, b_tensor=right, output_tensor=data.draw(outputs(data_type, shape)))
    unsigned = pattern(a).dtype
    program = compile_operator(desc, thread_count=1)
    expected = one_by_one(BITWISE[name], unsigned, pattern(a), pattern(b)).view(a.dtype)
    assert_same_values(run_single(desc, a, b), expected)
    assert_identical(program(_laid_out(left, a), _laid_out(right, b)), expected)


def _laid_out(tensor: TensorDesc, content: Array) -> Array:
    """``content`` in memory with the strides of a description."""
    buffer = np.zeros(tensor.element_span, content.dtype)
    strides = tuple(stride * buffer.itemsize for stride in tensor.effective_strides)
    view = np.lib.stride_tricks.as_strided(buffer, tensor.sizes, strides)
    pattern(view)[...] = pattern(content)
    return view


@bounded
@given(data=st.data(), shape=sizes(limit=64), data_type=st.sampled_from(ALL_TYPES), seed=seeds)
def test_bits_of_one_tensor(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    inverted = operators.ElementWiseBitNot(input_tensor=source, output_tensor=data.draw(outputs(data_type, shape)))
    assert_same_values(run_single(inverted, x), one_by_one(lambda v: ~v, pattern(x).dtype, pattern(x)).view(x.dtype))
    counts = data.draw(outputs(data.draw(TRUTH), shape))
    count = operators.ElementWiseBitCount(input_tensor=source, output_tensor=counts)
    assert_identical(run_single(count, x), one_by_one(int.bit_count, counts.data_type.dtype, pattern(x)))


@pytest.mark.parametrize("data_type", UNSIGNED)
def test_bit_count_of_single_bits(data_type: str) -> None:
    bits = TensorDesc(data_type, [1]).data_type.bits
    x = np.array([(1 << i) - 1 for i in range(bits + 1)] + [1 << i for i in range(bits)], f"u{bits // 8}")
    assert dml.bit_count(x).tolist() == [*range(bits + 1), *([1] * bits)]


@pytest.mark.parametrize("name", SHIFTS)
@bounded
@given(data=st.data(), shape=sizes(limit=64), data_type=st.sampled_from(UNSIGNED), seed=seeds)
def test_shifts(name: str, data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    left, right = data.draw(inputs(data_type, shape)), data.draw(inputs(data_type, shape))
    a, b = random_array(left, seed), random_array(right, seed + 1)
    b = b if data.draw(st.booleans()) else b % (left.data_type.bits + 2)
    desc = operator(name)(a_tensor=left, b_tensor=right, output_tensor=data.draw(outputs(data_type, shape)))
    assert_identical(run_single(desc, a, b), one_by_one(SHIFTS[name], a.dtype, a, b))


@pytest.mark.parametrize("data_type", UNSIGNED)
def test_shifts_by_every_count(data_type: str) -> None:
    bits = TensorDesc(data_type, [1]).data_type.bits
    counts = np.array([*range(bits + 3), 2 * bits, (1 << bits) - 1], f"u{bits // 8}")
    ones = np.full_like(counts, (1 << bits) - 1)
    for name, shift in SHIFTS.items():
        tensor = TensorDesc(data_type, counts.shape)
        desc = operator(name)(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
        assert_identical(run_single(desc, ones, counts), one_by_one(shift, counts.dtype, ones, counts))


def test_outputs_may_be_inputs() -> None:
    tensor = TensorDesc("UINT32", [37])
    for name in (*LOGICAL, *BITWISE, *SHIFTS):
        a, b = random_array(tensor, 1), random_array(tensor, 2) % 40
        program = compile_operator(
            operator(name)(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor), thread_count=1
        )
        assert program.in_place
        expected = program(a, b)
        program.bind([a, b], [b])()
        assert_identical(b, expected)
    for name in ("LogicalNot", "BitNot"):
        x = random_array(tensor, 3)
        program = compile_operator(operator(name)(input_tensor=tensor, output_tensor=tensor), thread_count=1)
        expected = program(x)
        program.bind([x], [x])()
        assert_identical(x, expected)
