"""Element-wise transcendental functions: exponential, logarithm, trigonometric, hyperbolic, error function, powers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from opendml.description.data_types import FLOATS, UP_TO_32_BIT
from opendml.description.descriptors import Support, at, float_value, levels, scale_bias, tensor_input, tensor_output
from opendml.description.enums import FeatureLevel, OperatorType
from opendml.expression import mathematics, trigonometry
from opendml.expression.element_types import F16, F32, F64, U64
from opendml.expression.ir import Axis, Combine, Expression, Fold, Part, Variable, cast, constant, index, select, unary
from opendml.expression.statements import Definition
from opendml.operators.definition import widen
from opendml.operators.element_wise import (
    BinaryElementWise,
    ElementWise,
    ScaledElementWise,
    each_element,
    scaled,
)

if TYPE_CHECKING:
    from opendml.description.field_types import Number, OptionalScaleBias, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

_FROM_1_0: Final[Support] = levels(at("3_0", (1, 8), FLOATS), at("1_0", (4, 4), FLOATS))
_FROM_2_0: Final[Support] = levels(at("3_0", (1, 8), FLOATS), at("2_0", (4, 4), FLOATS))


# ---- one tensor


class ElementWiseExp(ScaledElementWise, type=OperatorType.ELEMENT_WISE_EXP, since="1_0"):
    """Natural exponential of each element."""

    support = _FROM_1_0

    def element(self, x: Expression) -> Expression:
        """``exp(x)``."""
        return mathematics.exp(x)


class ElementWiseLog(ScaledElementWise, type=OperatorType.ELEMENT_WISE_LOG, since="1_0"):
    """Natural logarithm of each element."""

    support = _FROM_1_0

    def element(self, x: Expression) -> Expression:
        """``log(x)``; minus infinity for 0, NaN below."""
        return mathematics.log(x)


class ElementWiseSin(ScaledElementWise, type=OperatorType.ELEMENT_WISE_SIN, since="1_0"):
    """Sine of each element, an angle in radians."""

    support = _FROM_1_0

    def element(self, x: Expression) -> Expression:
        """``sin(x)``; NaN for infinities."""
        return trigonometry.sin(x)


class ElementWiseCos(ScaledElementWise, type=OperatorType.ELEMENT_WISE_COS, since="1_0"):
    """Cosine of each element, an angle in radians."""

    support = _FROM_1_0

    def element(self, x: Expression) -> Expression:
        """``cos(x)``; NaN for infinities."""
        return trigonometry.cos(x)


class ElementWiseTan(ScaledElementWise, type=OperatorType.ELEMENT_WISE_TAN, since="1_0"):
    """Tangent of each element, an angle in radians."""

    support = _FROM_1_0

    def element(self, x: Expression) -> Expression:
        """``tan(x)``; NaN for infinities."""
        return trigonometry.tan(x)


class ElementWiseAsin(ScaledElementWise, type=OperatorType.ELEMENT_WISE_ASIN, since="1_0"):
    """Arc sine of each element, in radians from -pi/2 to pi/2."""

    support = _FROM_1_0

    def element(self, x: Expression) -> Expression:
        """``asin(x)``; NaN beyond 1."""
        return trigonometry.asin(x)


class ElementWiseAcos(ScaledElementWise, type=OperatorType.ELEMENT_WISE_ACOS, since="1_0"):
    """Arc cosine of each element, in radians from 0 to pi."""

    support = _FROM_1_0

    def element(self, x: Expression) -> Expression:
        """``acos(x)``; NaN beyond 1."""
        return trigonometry.acos(x)


class ElementWiseAtan(ScaledElementWise, type=OperatorType.ELEMENT_WISE_ATAN, since="1_0"):
    """Arc tangent of each element, in radians from -pi/2 to pi/2."""

    support = _FROM_1_0

    def element(self, x: Expression) -> Expression:
        """``atan(x)``."""
        return trigonometry.atan(x)


class ElementWiseSinh(ScaledElementWise, type=OperatorType.ELEMENT_WISE_SINH, since="2_0"):
    """Hyperbolic sine of each element."""

    support = _FROM_2_0

    def element(self, x: Expression) -> Expression:
        """``sinh(x)``."""
        return mathematics.sinh(x)


class ElementWiseCosh(ScaledElementWise, type=OperatorType.ELEMENT_WISE_COSH, since="2_0"):
    """Hyperbolic cosine of each element."""

    support = _FROM_2_0

    def element(self, x: Expression) -> Expression:
        """``cosh(x)``."""
        return mathematics.cosh(x)


class ElementWiseTanh(ScaledElementWise, type=OperatorType.ELEMENT_WISE_TANH, since="2_0"):
    """Hyperbolic tangent of each element."""

    support = _FROM_2_0

    def element(self, x: Expression) -> Expression:
        """``tanh(x)``."""
        return mathematics.tanh(x)


class ElementWiseAsinh(ScaledElementWise, type=OperatorType.ELEMENT_WISE_ASINH, since="2_0"):
    """Inverse hyperbolic sine of each element."""

    support = _FROM_2_0

    def element(self, x: Expression) -> Expression:
        """``asinh(x)``."""
        return mathematics.asinh(x)


class ElementWiseAcosh(ScaledElementWise, type=OperatorType.ELEMENT_WISE_ACOSH, since="2_0"):
    """Inverse hyperbolic cosine of each element."""

    support = _FROM_2_0

    def element(self, x: Expression) -> Expression:
        """``acosh(x)``; NaN below 1."""
        return mathematics.acosh(x)


class ElementWiseAtanh(ScaledElementWise, type=OperatorType.ELEMENT_WISE_ATANH, since="2_0"):
    """Inverse hyperbolic tangent of each element."""

    support = _FROM_2_0

    def element(self, x: Expression) -> Expression:
        """``atanh(x)``; infinite at 1, NaN beyond."""
        return mathematics.atanh(x)


class ElementWiseErf(ScaledElementWise, type=OperatorType.ELEMENT_WISE_ERF, since="2_0"):
    """Gaussian error function of each element."""

    support = _FROM_2_0

    def element(self, x: Expression) -> Expression:
        """``erf(x)``."""
        return mathematics.erf(x)


# ---- powers, and the angle of a point


class ElementWisePow(ElementWise, type=OperatorType.ELEMENT_WISE_POW, since="1_0"):
    """Raises each element of the input to the power given by the corresponding element of the exponent tensor."""

    input_tensor: Value[TensorDesc] = tensor_input()
    exponent_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    scale_bias: OptionalScaleBias = scale_bias(default=None)

    alike = (("input_tensor", "output_tensor"),)
    support = levels(at("3_0", (1, 8), UP_TO_32_BIT), at("1_0", (4, 4), FLOATS))

    def check(self, rules: Rules) -> None:
        """Until 3_0 the exponents have the type of the input."""
        super().check(rules)
        if rules.level < FeatureLevel.LEVEL_3_0:
            rules.same_data_type("input_tensor", "exponent_tensor")

    def define(self) -> Definition:
        """``pow(x * Scale + Bias, exponent)``, of integers exactly."""
        return each_element(self, lambda x, y: power(scaled(widen(x), self.scale_bias), y, rounded_to=x))


class ElementWiseConstantPow(ScaledElementWise, type=OperatorType.ELEMENT_WISE_CONSTANT_POW, since="1_0"):
    """Raises each element to one constant power."""

    exponent: Number = float_value()

    support = _FROM_1_0

    def define(self) -> Definition:
        """``pow(x * Scale + Bias, Exponent)``."""
        return each_element(self, lambda x: self._power(scaled(widen(x), self.scale_bias), rounded_to=x))

    def _power(self, x: Expression, rounded_to: Expression) -> Expression:
        simple = _SIMPLE_POWERS.get(self.exponent)
        if simple is not None:
            # Three factors of float16 are exact in float64.
            return narrowed(simple(cast(x, F64))) if rounded_to.type is F16 else simple(x)
        return power(x, constant(self.exponent, F32), rounded_to)


class ElementWiseAtanYx(BinaryElementWise, type=OperatorType.ELEMENT_WISE_ATAN_YX, since="3_1"):
    """Angle of the point (B, A) in radians from -pi to pi: the arc tangent of A/B in the quadrant of the signs."""

    support = levels(at("3_1", (1, 8), FLOATS))

    def define(self) -> Definition:
        """C's ``atan2(A, B)``; 0 or pi with the sign of A at the origin. float16 by way of float64."""
        return each_element(self, _angle)


def _angle(y: Expression, x: Expression) -> Expression:
    if x.type is F16:
        return narrowed(trigonometry.atan2(cast(y, F64), cast(x, F64)))
    return trigonometry.atan2(y, x)


def power(x: Expression, y: Expression, rounded_to: Expression) -> Expression:
    """``x`` to the power ``y``, each of any type, in the type of ``rounded_to``.

    Of two integers exactly. Otherwise in float32 where that has all values of both, else in float64; an integer result
    is truncated, but for what the computation misses it by.
    """
    type = rounded_to.type
    if x.type.is_integer and y.type.is_integer:
        return integer_power(x, y)
    if type is F32 and (y.type.is_float or y.type.bits < 32):
        return mathematics.pow(x, cast(y, F32))
    result = mathematics.pow(cast(x, F64), cast(y, F64))
    if type is F16:
        return narrowed(result)
    return cast(mathematics.without_last_bits(result) if type.is_integer else result, type)


def narrowed(x: Expression) -> Expression:
    """An F64 result as F16, rounded once."""
    return mathematics.narrow_to_f16(mathematics.without_last_bits(x))


def integer_power(x: Expression, y: Expression) -> Expression:
    """``x`` to the power ``y`` modulo two to the width of ``x``, bit by bit of the exponent; its square goes along.

    For a negative exponent the truncated reciprocal: 0 but for 1 and -1, and 0 for 0, too.
    """
    bits = Axis("bit", y.type.bits)
    exponent = cast(unary("abs", y) if y.type.kind == "int" else y, U64)
    bit = cast((exponent >> cast(index(bits), U64)) & 1, x.type)
    left = Variable("power", x.type), Variable("square", x.type)
    right = Variable("bit", x.type), Variable("unused", x.type)
    following = select(right[0].equals(0), left[0], left[0] * left[1]), left[1] * left[1]
    fold = Fold((bits,), (constant(1, x.type), x), (bit, constant(0, x.type)), Combine(left, right, following))
    result = Part(fold, 0)
    if y.type.kind == "uint":
        return result
    unit = x.equals(1) | (x.equals(-1) if x.type.kind == "int" else x.equals(1))
    return select((y < 0) & ~unit, 0, result)


# Constant powers of one or two roundings, the same as ``pow`` for infinities, zeros and NaN.
_SIMPLE_POWERS: Final[dict[float, Callable[[Expression], Expression]]] = {
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    -1.0: lambda x: 1 / x,
    0.5: lambda x: select(x.equals(-float("inf")), float("inf"), unary("sqrt", x) + 0.0),
}
