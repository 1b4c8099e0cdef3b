"""Element-wise logic: truth values, comparisons, tests, selection, and operations on bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from opendml.building.operands import ALONE, OperandRules, together
from opendml.description.descriptors import Operator
from opendml.description.enums import IsInfinityMode, TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.builders import of_one, of_one_typed, of_two, of_two_typed
from opendml.functions.core import Array, Operand, evaluate_single, operand_rules
from opendml.functions.element_wise import packed
from opendml.functions.signatures import operator_function
from opendml.operators.element_wise_logic import (
    ElementWiseBitAnd,
    ElementWiseBitCount,
    ElementWiseBitNot,
    ElementWiseBitOr,
    ElementWiseBitShiftLeft,
    ElementWiseBitShiftRight,
    ElementWiseBitXor,
    ElementWiseIf,
    ElementWiseIsInfinity,
    ElementWiseIsNan,
    ElementWiseLogicalAnd,
    ElementWiseLogicalEquals,
    ElementWiseLogicalGreaterThan,
    ElementWiseLogicalGreaterThanOrEqual,
    ElementWiseLogicalLessThan,
    ElementWiseLogicalLessThanOrEqual,
    ElementWiseLogicalNot,
    ElementWiseLogicalOr,
    ElementWiseLogicalXor,
)
from opendml.programs.device import Device


@operator_function
def logical_and(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """1 where both are not 0, else 0 (ELEMENT_WISE_LOGICAL_AND).

    ``a``, ``b``: the same sizes and type, uint32 or uint8.

    >>> dml.logical_and(np.array([0, 2, 1], "uint8"), np.array([3, 1, 0], "uint8")).tolist()
    [0, 1, 0]
    """
    return evaluate_single(_logical_and, (a, b), device=device, out=out)


@operator_function
def logical_or(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """1 where either is not 0, else 0 (ELEMENT_WISE_LOGICAL_OR).

    ``a``, ``b``: the same sizes and type, uint32 or uint8.

    >>> dml.logical_or(np.array([0, 2, 1], "uint8"), np.array([0, 1, 0], "uint8")).tolist()
    [0, 1, 1]
    """
    return evaluate_single(_logical_or, (a, b), device=device, out=out)


@operator_function
def logical_xor(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """1 where exactly one is not 0, else 0 (ELEMENT_WISE_LOGICAL_XOR).

    ``a``, ``b``: the same sizes and type, uint32 or uint8.

    >>> dml.logical_xor(np.array([0, 2, 1], "uint8"), np.array([3, 1, 0], "uint8")).tolist()
    [1, 0, 1]
    """
    return evaluate_single(_logical_xor, (a, b), device=device, out=out)


@operator_function
def logical_not(input: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """1 where the input is 0, else 0 (ELEMENT_WISE_LOGICAL_NOT).

    ``input``: uint32 or uint8.

    >>> dml.logical_not(np.array([0, 2, 1], "uint8")).tolist()
    [1, 0, 0]
    """
    return evaluate_single(_logical_not, (input,), device=device, out=out)


@operator_function
def equals(
    a: Operand,
    b: Operand,
    *,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT8,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """1 where ``a == b``, else 0 (ELEMENT_WISE_LOGICAL_EQUALS). -0 equals +0.

    ``a``, ``b``: the same type and sizes; any type but float64. ``output_data_type``: UINT8 or UINT32.

    >>> dml.equals(np.array([1, 2, 3], "int8"), np.array([2, 2, 2], "int8")).tolist()
    [0, 1, 0]
    """
    return evaluate_single(_equals, (a, b), (output_data_type,), device=device, out=out)


@operator_function
def greater_than(
    a: Operand,
    b: Operand,
    *,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT8,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """1 where ``a > b``, else 0 (ELEMENT_WISE_LOGICAL_GREATER_THAN). A comparison with NaN is false.

    ``a``, ``b``: the same type and sizes; any type but float64. ``output_data_type``: UINT8 or UINT32.

    >>> dml.greater_than(np.array([1, 2, 3], "int8"), np.array([2, 2, 2], "int8")).tolist()
    [0, 0, 1]
    """
    return evaluate_single(_greater_than, (a, b), (output_data_type,), device=device, out=out)


@operator_function
def greater_than_or_equal(
    a: Operand,
    b: Operand,
    *,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT8,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """1 where ``a >= b``, else 0 (ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL). A comparison with NaN is false.

    ``a``, ``b``: the same type and sizes; any type but float64. ``output_data_type``: UINT8 or UINT32.

    >>> dml.greater_than_or_equal(np.array([1, 2, 3], "int8"), np.array([2, 2, 2], "int8")).tolist()
    [0, 1, 1]
    """
    return evaluate_single(_greater_than_or_equal, (a, b), (output_data_type,), device=device, out=out)


@operator_function
def less_than(
    a: Operand,
    b: Operand,
    *,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT8,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """1 where ``a < b``, else 0 (ELEMENT_WISE_LOGICAL_LESS_THAN). A comparison with NaN is false.

    ``a``, ``b``: the same type and sizes; any type but float64. ``output_data_type``: UINT8 or UINT32.

    >>> dml.less_than(np.array([1, 2, 3], "int8"), np.array([2, 2, 2], "int8")).tolist()
    [1, 0, 0]
    """
    return evaluate_single(_less_than, (a, b), (output_data_type,), device=device, out=out)


@operator_function
def less_than_or_equal(
    a: Operand,
    b: Operand,
    *,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT8,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """1 where ``a <= b``, else 0 (ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL). A comparison with NaN is false.

    ``a``, ``b``: the same type and sizes; any type but float64. ``output_data_type``: UINT8 or UINT32.

    >>> dml.less_than_or_equal(np.array([1, 2, 3], "int8"), np.array([2, 2, 2], "int8")).tolist()
    [1, 1, 0]
    """
    return evaluate_single(_less_than_or_equal, (a, b), (output_data_type,), device=device, out=out)


@operator_function
def is_nan(
    input: Operand,
    *,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT8,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """1 where the input is NaN, else 0 (ELEMENT_WISE_IS_NAN).

    ``input``: float32 or float16. ``output_data_type``: UINT8 or UINT32.

    >>> dml.is_nan(np.array([1, np.nan, np.inf], "float32")).tolist()
    [0, 1, 0]
    """
    return evaluate_single(_is_nan, (input,), (output_data_type,), device=device, out=out)


@operator_function
def is_infinity(
    input: Operand,
    *,
    infinity_mode: IsInfinityMode | str = IsInfinityMode.EITHER,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT8,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """1 where the input is infinite, else 0 (ELEMENT_WISE_IS_INFINITY).

    ``input``: float32 or float16. ``infinity_mode``: EITHER, POSITIVE or NEGATIVE. ``output_data_type``: UINT8.

    >>> dml.is_infinity(np.array([1, -np.inf, np.inf], "float32"), infinity_mode="NEGATIVE").tolist()
    [0, 1, 0]
    """
    return evaluate_single(_is_infinity, (input,), (infinity_mode, output_data_type), device=device, out=out)


@operand_rules(ALONE)
def _is_infinity(input: TensorDesc, infinity_mode: Any, output_data_type: Any) -> Operator:
    output = TensorDesc(output_data_type, input.sizes)
    return ElementWiseIsInfinity(input_tensor=input, output_tensor=output, infinity_mode=infinity_mode)


@operator_function
def if_(condition: Operand, a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``a`` where the condition is not 0, else ``b`` (ELEMENT_WISE_IF).

    ``condition``: uint8. ``a``, ``b``: the same type, any. All have the same sizes.

    >>> dml.if_(np.array([1, 0], "uint8"), np.array([1, 2], "int8"), np.array([3, 4], "int8")).tolist()
    [1, 4]
    """
    return evaluate_single(_if, (condition, a, b), device=device, out=out)


@operand_rules(OperandRules("cxx", {"c": np.dtype(np.uint8)}, together))
def _if(condition: TensorDesc, a: TensorDesc, b: TensorDesc) -> Operator:
    return ElementWiseIf(condition_tensor=condition, a_tensor=a, b_tensor=b, output_tensor=packed(a))


@operator_function
def bit_and(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """The bits set in both (ELEMENT_WISE_BIT_AND).

    ``a``, ``b``: the same sizes and type, any: it only says how many bits there are.

    >>> dml.bit_and(np.array([12, 5], "uint8"), np.array([10, 6], "uint8")).tolist()
    [8, 4]
    """
    return evaluate_single(_bit_and, (a, b), device=device, out=out)


@operator_function
def bit_or(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """The bits set in either (ELEMENT_WISE_BIT_OR).

    ``a``, ``b``: the same sizes and type, any: it only says how many bits there are.

    >>> dml.bit_or(np.array([12, 5], "uint8"), np.array([10, 6], "uint8")).tolist()
    [14, 7]
    """
    return evaluate_single(_bit_or, (a, b), device=device, out=out)


@operator_function
def bit_xor(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """The bits set in exactly one (ELEMENT_WISE_BIT_XOR).

    ``a``, ``b``: the same sizes and type, any: it only says how many bits there are.

    >>> dml.bit_xor(np.array([12, 5], "uint8"), np.array([10, 6], "uint8")).tolist()
    [6, 3]
    """
    return evaluate_single(_bit_xor, (a, b), device=device, out=out)


@operator_function
def bit_shift_left(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``a`` shifted up by ``b`` bits (ELEMENT_WISE_BIT_SHIFT_LEFT); 0 where ``b`` is not less than their number.

    ``a``, ``b``: the same sizes and type, an unsigned integer.

    >>> dml.bit_shift_left(np.array([1, 129, 7], "uint8"), np.array([3, 1, 8], "uint8")).tolist()
    [8, 2, 0]
    """
    return evaluate_single(_bit_shift_left, (a, b), device=device, out=out)


@operator_function
def bit_shift_right(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``a`` shifted down by ``b`` bits (ELEMENT_WISE_BIT_SHIFT_RIGHT); 0 where ``b`` is not less than their number.

    ``a``, ``b``: the same sizes and type, an unsigned integer.

    >>> dml.bit_shift_right(np.array([8, 129, 7], "uint8"), np.array([3, 1, 8], "uint8")).tolist()
    [1, 64, 0]
    """
    return evaluate_single(_bit_shift_right, (a, b), device=device, out=out)


@operator_function
def bit_not(input: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """The bits that are not set (ELEMENT_WISE_BIT_NOT).

    ``input``: any type, which only says how many bits there are.

    >>> dml.bit_not(np.array([0, 42], "uint8")).tolist()
    [255, 213]
    """
    return evaluate_single(_bit_not, (input,), device=device, out=out)


@operator_function
def bit_count(
    input: Operand,
    *,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT8,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The number of bits that are set (ELEMENT_WISE_BIT_COUNT).

    ``input``: any type, which only says how many bits there are. ``output_data_type``: UINT8 or UINT32.

    >>> dml.bit_count(np.array([0, 42, -1], "int16")).tolist()
    [0, 3, 16]
    """
    return evaluate_single(_bit_count, (input,), (output_data_type,), device=device, out=out)


_logical_and = of_two(ElementWiseLogicalAnd)
_logical_or = of_two(ElementWiseLogicalOr)
_logical_xor = of_two(ElementWiseLogicalXor)
_bit_and = of_two(ElementWiseBitAnd)
_bit_or = of_two(ElementWiseBitOr)
_bit_xor = of_two(ElementWiseBitXor)
_bit_shift_left = of_two(ElementWiseBitShiftLeft)
_bit_shift_right = of_two(ElementWiseBitShiftRight)
_logical_not = of_one(ElementWiseLogicalNot)
_bit_not = of_one(ElementWiseBitNot)
_equals = of_two_typed(ElementWiseLogicalEquals)
_greater_than = of_two_typed(ElementWiseLogicalGreaterThan)
_greater_than_or_equal = of_two_typed(ElementWiseLogicalGreaterThanOrEqual)
_less_than = of_two_typed(ElementWiseLogicalLessThan)
_less_than_or_equal = of_two_typed(ElementWiseLogicalLessThanOrEqual)
_is_nan = of_one_typed(ElementWiseIsNan)
_bit_count = of_one_typed(ElementWiseBitCount)
