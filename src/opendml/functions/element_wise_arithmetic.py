"""Element-wise arithmetic: sums, products and quotients, extremes, roundings, sign, square root."""

from __future__ import annotations

from typing import Any

from opendml.building.operands import ALONE
from opendml.description.descriptors import Operator
from opendml.description.enums import RoundingMode
from opendml.description.structs import ScaleBias
from opendml.description.tensor import TensorDesc
from opendml.functions.builders import of_one, of_one_scaled, of_two
from opendml.functions.core import Array, Operand, evaluate_single, operand_rules
from opendml.functions.element_wise import packed
from opendml.functions.signatures import operator_function
from opendml.operators.element_wise_arithmetic import (
    ElementWiseAbs,
    ElementWiseCeil,
    ElementWiseDifferenceSquare,
    ElementWiseDivide,
    ElementWiseFloor,
    ElementWiseMax,
    ElementWiseMean,
    ElementWiseMin,
    ElementWiseModulusFloor,
    ElementWiseModulusTruncate,
    ElementWiseMultiply,
    ElementWiseNegate,
    ElementWiseRecip,
    ElementWiseRound,
    ElementWiseSign,
    ElementWiseSqrt,
    ElementWiseSubtract,
)
from opendml.programs.device import Device


@operator_function
def subtract(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``a - b`` (ELEMENT_WISE_SUBTRACT). Integers wrap.

    ``a``, ``b``: the same type and sizes; any type but float64.

    >>> dml.subtract(np.array([1, 2], "int8"), np.array([3, -127], "int8")).tolist()
    [-2, -127]
    """
    return evaluate_single(_subtract, (a, b), device=device, out=out)


@operator_function
def multiply(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``a * b`` (ELEMENT_WISE_MULTIPLY). Integers wrap.

    ``a``, ``b``: the same type and sizes; any type but float64.

    >>> dml.multiply(np.array([2, 100], "int8"), np.array([3, 3], "int8")).tolist()
    [6, 44]
    """
    return evaluate_single(_multiply, (a, b), device=device, out=out)


@operator_function
def divide(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``a / b`` (ELEMENT_WISE_DIVIDE). Quotients of integers are truncated; by 0 all bits of them are set.

    ``a``, ``b``: the same type and sizes; any type but float64.

    >>> dml.divide(np.array([7, -7, 7], "int8"), np.array([2, 2, 0], "int8")).tolist()
    [3, -3, -1]
    """
    return evaluate_single(_divide, (a, b), device=device, out=out)


@operator_function
def modulus_truncate(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """The remainder with the sign of ``a``, as C's fmod (ELEMENT_WISE_MODULUS_TRUNCATE). It is exact.

    ``a``, ``b``: the same type and sizes; any type but float64. For integers all bits are set where ``b`` is 0.

    >>> dml.modulus_truncate(np.array([7, -7, 7], "int8"), np.array([3, 3, -3], "int8")).tolist()
    [1, -1, 1]
    """
    return evaluate_single(_modulus_truncate, (a, b), device=device, out=out)


@operator_function
def modulus_floor(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """The remainder with the sign of ``b``, as Python's % (ELEMENT_WISE_MODULUS_FLOOR).

    ``a``, ``b``: the same type and sizes; any type but float64. For integers all bits are set where ``b`` is 0.

    >>> dml.modulus_floor(np.array([7, -7, 7], "int8"), np.array([3, 3, -3], "int8")).tolist()
    [1, 2, -2]
    """
    return evaluate_single(_modulus_floor, (a, b), device=device, out=out)


@operator_function
def max(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """The larger of two elements (ELEMENT_WISE_MAX); NaN if either is NaN.

    ``a``, ``b``: the same type and sizes; any type but float64.

    >>> dml.max(np.array([1, 5], "float32"), np.array([3, 2], "float32")).tolist()
    [3.0, 5.0]
    """
    return evaluate_single(_max, (a, b), device=device, out=out)


@operator_function
def min(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """The smaller of two elements (ELEMENT_WISE_MIN); NaN if either is NaN.

    ``a``, ``b``: the same type and sizes; any type but float64.

    >>> dml.min(np.array([1, 5], "float32"), np.array([3, 2], "float32")).tolist()
    [1.0, 2.0]
    """
    return evaluate_single(_min, (a, b), device=device, out=out)


@operator_function
def mean(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``(a + b) / 2`` (ELEMENT_WISE_MEAN). The sum of integers wraps, its half is truncated.

    ``a``, ``b``: the same type and sizes; float32, float16, int32 or uint32.

    >>> dml.mean(np.array([1, 5], "float32"), np.array([3, 2], "float32")).tolist()
    [2.0, 3.5]
    """
    return evaluate_single(_mean, (a, b), device=device, out=out)


@operator_function
def difference_square(a: Operand, b: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``(a - b) * (a - b)`` (ELEMENT_WISE_DIFFERENCE_SQUARE). Integers wrap.

    ``a``, ``b``: the same type and sizes; float32, float16, int32 or uint32.

    >>> dml.difference_square(np.array([1, 5], "float32"), np.array([3, 2], "float32")).tolist()
    [4.0, 9.0]
    """
    return evaluate_single(_difference_square, (a, b), device=device, out=out)


@operator_function
def abs(
    input: Operand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The absolute value (ELEMENT_WISE_ABS); the most negative integer stays as it is.

    ``input``: float32, float16 or a signed integer, replaced by ``input * scale + bias`` before.

    >>> dml.abs(np.array([-1.5, 2], "float32")).tolist()
    [1.5, 2.0]
    """
    return evaluate_single(_abs, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def ceil(
    input: Operand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The smallest integer that is not less (ELEMENT_WISE_CEIL).

    ``input``: float32 or float16, replaced by ``input * scale + bias`` before.

    >>> dml.ceil(np.array([-1.5, 1.5], "float32")).tolist()
    [-1.0, 2.0]
    """
    return evaluate_single(_ceil, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def floor(
    input: Operand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The largest integer that is not greater (ELEMENT_WISE_FLOOR).

    ``input``: float32 or float16, replaced by ``input * scale + bias`` before.

    >>> dml.floor(np.array([-1.5, 1.5], "float32")).tolist()
    [-2.0, 1.0]
    """
    return evaluate_single(_floor, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def recip(
    input: Operand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The reciprocal ``1 / input`` (ELEMENT_WISE_RECIP).

    ``input``: float32 or float16, replaced by ``input * scale + bias`` before.

    >>> dml.recip(np.array([2, -0.0], "float32")).tolist()
    [0.5, -inf]
    """
    return evaluate_single(_recip, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def sqrt(
    input: Operand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The square root (ELEMENT_WISE_SQRT); NaN for what is less than 0.

    ``input``: float32 or float16, replaced by ``input * scale + bias`` before.

    >>> dml.sqrt(np.array([9, 2.25], "float32")).tolist()
    [3.0, 1.5]
    """
    return evaluate_single(_sqrt, (input,), numbers=(scale_bias,), device=device, out=out)


@operator_function
def negate(input: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``-input`` (ELEMENT_WISE_NEGATE); the most negative integer stays as it is.

    ``input``: float32, float16 or a signed integer.

    >>> dml.negate(np.array([-1.5, 2], "float32")).tolist()
    [1.5, -2.0]
    """
    return evaluate_single(_negate, (input,), device=device, out=out)


@operator_function
def sign(input: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """-1, 0 or 1 (ELEMENT_WISE_SIGN); 0 for NaN.

    ``input``: any type but float64.

    >>> dml.sign(np.array([-7, 0, 3], "int8")).tolist()
    [-1, 0, 1]
    """
    return evaluate_single(_sign, (input,), device=device, out=out)


@operator_function
def round(
    input: Operand,
    *,
    rounding_mode: RoundingMode | str = RoundingMode.HALVES_TO_NEAREST_EVEN,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """Rounds to integers (ELEMENT_WISE_ROUND).

    ``input``: float32 or float16. ``rounding_mode``: HALVES_TO_NEAREST_EVEN, TOWARD_ZERO, or TOWARD_INFINITY, which is
    to nearest as well, with halves away from zero.

    >>> dml.round(np.array([-2.5, 1.25, 2.5], "float32"), rounding_mode="TOWARD_INFINITY").tolist()
    [-3.0, 1.0, 3.0]
    """
    return evaluate_single(_round, (input,), (rounding_mode,), device=device, out=out)


@operand_rules(ALONE)
def _round(input: TensorDesc, rounding_mode: Any) -> Operator:
    return ElementWiseRound(input_tensor=input, output_tensor=packed(input), rounding_mode=rounding_mode)


_subtract = of_two(ElementWiseSubtract)
_multiply = of_two(ElementWiseMultiply)
_divide = of_two(ElementWiseDivide)
_modulus_truncate = of_two(ElementWiseModulusTruncate)
_modulus_floor = of_two(ElementWiseModulusFloor)
_max = of_two(ElementWiseMax)
_min = of_two(ElementWiseMin)
_mean = of_two(ElementWiseMean)
_difference_square = of_two(ElementWiseDifferenceSquare)
_abs = of_one_scaled(ElementWiseAbs)
_ceil = of_one_scaled(ElementWiseCeil)
_floor = of_one_scaled(ElementWiseFloor)
_recip = of_one_scaled(ElementWiseRecip)
_sqrt = of_one_scaled(ElementWiseSqrt)
_negate = of_one(ElementWiseNegate)
_sign = of_one(ElementWiseSign)
