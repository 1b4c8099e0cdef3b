"""Element-wise arithmetic: sums, products and quotients, extremes, roundings, sign, square root."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from opendml.description.data_types import (
    ALL_BUT_FLOAT64,
    FLOATS,
    FLOATS_AND_32_BIT,
    FLOATS_AND_32_TO_64_BIT,
    FLOATS_AND_SIGNED,
    UP_TO_32_BIT,
    data_types,
)
from opendml.description.descriptors import Support, at, enumeration, levels
from opendml.description.enums import OperatorType, RoundingMode, TensorDataType
from opendml.expression.element_types import F32, F64
from opendml.expression.folds import maximum, minimum
from opendml.expression.ir import Expression, cast, constant, fused_multiply_add, select, unary
from opendml.operators.element_wise import BinaryElementWise, ScaledElementWise, UnaryElementWise

if TYPE_CHECKING:
    from opendml.description.field_types import Member

FLOATS_AND_ALL_SIGNED: Final = data_types("FLOAT32 FLOAT16 INT64 INT32 INT16 INT8")

_FLOAT_SUPPORT: Final[Support] = levels(at("3_0", (1, 8), FLOATS), at("1_0", (4, 4), FLOATS))

_EXTREME_SUPPORT: Final[Support] = levels(
    at("5_0", (1, 8), ALL_BUT_FLOAT64),
    at("3_0", (1, 8), UP_TO_32_BIT),
    at("2_1", (4, 4), UP_TO_32_BIT),
    at("1_0", (4, 4), FLOATS),
)


# ---- two tensors


class ElementWiseSubtract(BinaryElementWise, type=OperatorType.ELEMENT_WISE_SUBTRACT, since="1_0"):
    """Subtracts two tensors element by element."""

    support = levels(
        at("5_1", (1, 8), ALL_BUT_FLOAT64),
        at("4_1", (1, 8), FLOATS_AND_32_TO_64_BIT),
        at("3_0", (1, 8), FLOATS_AND_32_BIT),
        at("2_1", (4, 4), FLOATS_AND_32_BIT),
        at("1_0", (4, 4), FLOATS),
    )

    def element(self, a: Expression, b: Expression) -> Expression:
        """The difference; integers wrap."""
        return a - b


class ElementWiseMultiply(BinaryElementWise, type=OperatorType.ELEMENT_WISE_MULTIPLY, since="1_0"):
    """Multiplies two tensors element by element."""

    support = levels(
        at("5_1", (1, 8), ALL_BUT_FLOAT64),
        at("4_1", (1, 8), FLOATS_AND_32_TO_64_BIT),
        at("3_0", (1, 8), FLOATS_AND_32_BIT),
        at("2_1", (4, 5), FLOATS_AND_32_BIT),
        at("1_0", (4, 5), FLOATS),
    )

    def element(self, a: Expression, b: Expression) -> Expression:
        """The product; integers wrap."""
        return a * b


class ElementWiseDivide(BinaryElementWise, type=OperatorType.ELEMENT_WISE_DIVIDE, since="1_0"):
    """Divides two tensors element by element; quotients of integers are truncated."""

    support = levels(
        at("6_0", (1, 8), ALL_BUT_FLOAT64),
        at("5_1", (1, 8), UP_TO_32_BIT),
        at("3_0", (1, 8), FLOATS_AND_32_BIT),
        at("2_1", (4, 4), FLOATS_AND_32_BIT),
        at("1_0", (4, 4), FLOATS),
    )

    def element(self, a: Expression, b: Expression) -> Expression:
        """The quotient, IEEE 754's or ``quotient``'s."""
        return a / b if a.type.is_float else quotient(a, b)


class Modulus(BinaryElementWise):
    """What the remainders share."""

    support = levels(
        at("6_0", (1, 8), ALL_BUT_FLOAT64),
        at("3_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
    )

    def truncated(self, a: Expression, b: Expression) -> Expression:
        """The remainder of the division rounded toward zero. Quotients are below 2^40 in float16, 2^277 in float32."""
        return remainder(a, b, digits=1 if self.output_tensor.data_type is TensorDataType.FLOAT16 else 6)


class ElementWiseModulusTruncate(Modulus, type=OperatorType.ELEMENT_WISE_MODULUS_TRUNCATE, since="2_1"):
    """Remainder of the division rounded toward zero, as C's % and fmod: it has the sign of the dividend."""

    def element(self, a: Expression, b: Expression) -> Expression:
        """The exact remainder."""
        return self.truncated(a, b)


class ElementWiseModulusFloor(Modulus, type=OperatorType.ELEMENT_WISE_MODULUS_FLOOR, since="2_1"):
    """Remainder of the division rounded down, as Python's %: it has the sign of the divisor."""

    def element(self, a: Expression, b: Expression) -> Expression:
        """The exact remainder, moved by the divisor where the signs differ; a zero has the sign of the divisor."""
        rest = self.truncated(a, b)
        if a.type.kind == "uint":
            return rest
        moved = select((rest < 0).differs(b < 0), rest + b, rest)
        zero = select(b < 0, constant(-0.0, a.type), 0) if a.type.is_float else rest
        return select(rest.equals(0), zero, moved)


class ElementWiseMax(BinaryElementWise, type=OperatorType.ELEMENT_WISE_MAX, since="1_0"):
    """The larger of two elements."""

    support = _EXTREME_SUPPORT

    def element(self, a: Expression, b: Expression) -> Expression:
        """NaN if either is NaN, the first of equals (+0 and -0)."""
        return maximum(a, b)


class ElementWiseMin(BinaryElementWise, type=OperatorType.ELEMENT_WISE_MIN, since="1_0"):
    """The smaller of two elements."""

    support = _EXTREME_SUPPORT

    def element(self, a: Expression, b: Expression) -> Expression:
        """NaN if either is NaN, the first of equals (+0 and -0)."""
        return minimum(a, b)


class ElementWiseMean(BinaryElementWise, type=OperatorType.ELEMENT_WISE_MEAN, since="1_0"):
    """The average of two elements: (a + b) / 2."""

    support = levels(
        at("3_0", (1, 8), FLOATS_AND_32_BIT),
        at("2_1", (4, 4), FLOATS_AND_32_BIT),
        at("1_0", (4, 4), FLOATS),
    )

    def element(self, a: Expression, b: Expression) -> Expression:
        """The sum, wrapped or rounded as ADD's, then halved; integers toward zero."""
        return (a + b) * 0.5 if a.type.is_float else (a + b) // 2


class ElementWiseDifferenceSquare(BinaryElementWise, type=OperatorType.ELEMENT_WISE_DIFFERENCE_SQUARE, since="3_1"):
    """The square of the difference of two elements: (a - b) * (a - b)."""

    support = levels(at("3_1", (1, 8), FLOATS_AND_32_BIT))

    def element(self, a: Expression, b: Expression) -> Expression:
        """Two operations, each rounded or wrapped."""
        difference = a - b
        return difference * difference


# ---- one tensor


class ElementWiseAbs(ScaledElementWise, type=OperatorType.ELEMENT_WISE_ABS, since="1_0"):
    """Absolute value."""

    support = levels(
        at("4_1", (1, 8), FLOATS_AND_ALL_SIGNED),
        at("3_0", (1, 8), FLOATS_AND_SIGNED),
        at("2_1", (4, 4), FLOATS_AND_SIGNED),
        at("1_0", (4, 4), FLOATS),
    )

    def element(self, x: Expression) -> Expression:
        """The sign bit cleared; the most negative integer stays as it is."""
        return unary("abs", x)


class ElementWiseNegate(UnaryElementWise, type=OperatorType.ELEMENT_WISE_NEGATE, since="5_0"):
    """Negation."""

    support = levels(at("5_0", (1, 8), FLOATS_AND_ALL_SIGNED))

    def element(self, x: Expression) -> Expression:
        """The sign bit flipped; the most negative integer stays as it is."""
        return -x


class ElementWiseSign(UnaryElementWise, type=OperatorType.ELEMENT_WISE_SIGN, since="2_0"):
    """Sign: -1, 0 or 1."""

    support = levels(
        at("4_1", (1, 8), ALL_BUT_FLOAT64),
        at("3_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
        at("2_0", (4, 4), FLOATS),
    )

    def element(self, x: Expression) -> Expression:
        """+0 for both zeros and for NaN."""
        positive = cast(x > 0, x.type)
        return positive if x.type.kind == "uint" else select(x < 0, -1, positive)


class ElementWiseCeil(ScaledElementWise, type=OperatorType.ELEMENT_WISE_CEIL, since="1_0"):
    """The smallest integer that is not less."""

    support = _FLOAT_SUPPORT

    def element(self, x: Expression) -> Expression:
        """IEEE 754's rounding toward positive."""
        return unary("ceil", x)


class ElementWiseFloor(ScaledElementWise, type=OperatorType.ELEMENT_WISE_FLOOR, since="1_0"):
    """The largest integer that is not greater."""

    support = _FLOAT_SUPPORT

    def element(self, x: Expression) -> Expression:
        """IEEE 754's rounding toward negative."""
        return unary("floor", x)


class ElementWiseRound(UnaryElementWise, type=OperatorType.ELEMENT_WISE_ROUND, since="2_1"):
    """Rounds to an integer: halves to even or away from zero, or everything toward zero."""

    rounding_mode: Member[RoundingMode] = enumeration(RoundingMode)

    support = levels(at("3_0", (1, 8), FLOATS), at("2_1", (4, 4), FLOATS))

    def element(self, x: Expression) -> Expression:
        """IEEE 754's roundings: infinities, NaN and the sign stay."""
        return _ROUNDINGS[self.rounding_mode](x)


class ElementWiseRecip(ScaledElementWise, type=OperatorType.ELEMENT_WISE_RECIP, since="1_0"):
    """Reciprocal: 1 / x."""

    support = _FLOAT_SUPPORT

    def element(self, x: Expression) -> Expression:
        """IEEE 754's quotient."""
        return 1 / x


class ElementWiseSqrt(ScaledElementWise, type=OperatorType.ELEMENT_WISE_SQRT, since="1_0"):
    """Square root."""

    support = _FLOAT_SUPPORT

    def element(self, x: Expression) -> Expression:
        """IEEE 754's square root: NaN for what is less than 0, -0 for -0."""
        return unary("sqrt", x)


# ---- what they are made of


def quotient(a: Expression, b: Expression) -> Expression:
    """The quotient of integers, toward zero. By 0 all bits are set; the most negative number by -1 is itself."""
    return select(b.equals(0), constant(-1, a.type), _truncated_quotient(a, b))


def remainder(a: Expression, b: Expression, digits: int) -> Expression:
    """``a - b * truncated quotient``, exact, with the sign of ``a``. Integers: all bits are set for a divisor of 0.

    ``digits``: as many as the quotient of floats can have, as ``_float_remainder`` counts them.
    """
    if a.type.is_float:
        return _float_remainder(a, b, digits)
    return select(b.equals(0), constant(-1, a.type), a - _truncated_quotient(a, b) * b)


def _truncated_quotient(a: Expression, b: Expression) -> Expression:
    """Of integers; anything where ``b`` is 0, but no trap."""
    if a.type.bits < 64:
        # Processors divide vectors of floating-point numbers only. A quotient of integers that have fewer digits than
        # these is never rounded up to the next integer: its distance to that is at least 1 / b.
        wide = F32 if a.type.bits <= 16 else F64
        result = cast(cast(a, wide) / cast(b, wide), a.type)
        return result if a.type.kind == "uint" else select(b.equals(-1), -a, result)
    divisor = select(b.equals(0), 1, b)
    if a.type.kind == "uint":
        return a // divisor
    is_minus_one = b.equals(-1)
    return select(is_minus_one, -a, a // select(is_minus_one, 1, divisor))


_DIGIT_BITS: Final = 48


def _float_remainder(a: Expression, b: Expression, digits: int) -> Expression:
    """C's fmodf of float32 numbers: long division in float64, 48 bits of the quotient a digit.

    A digit need not be right, only near: its error is less than 0.7, so that the rest, which may be negative, stays
    smaller than what was divided by. Every rest is a multiple of the last places of ``a`` and ``b`` that fits in 26
    bits, so all of them are exact.
    """
    rest, divisor = cast(unary("abs", a), F64), cast(unary("abs", b), F64)
    inverse = 1 / divisor
    for digit in reversed(range(digits)):
        power = 2.0 ** (digit * _DIGIT_BITS)
        nearest = unary("round_even", rest * (inverse * (1 / power)))
        rest = fused_multiply_add(-nearest, divisor * power, rest)
    magnitude = cast(select(rest < 0, rest + divisor, rest), F32)
    return select(unary("abs", a) < unary("abs", b), a, select(a < 0, -magnitude, magnitude))


def _round_half_away(x: Expression) -> Expression:
    """To nearest, halves away from zero: what is cut off is exact, so it can be compared with a half."""
    whole = unary("trunc", x)
    return select(unary("abs", x - whole) >= 0.5, whole + select(x < 0, -1, 1, x.type), whole)


_ROUNDINGS: Final[Mapping[RoundingMode, Callable[[Expression], Expression]]] = {
    RoundingMode.HALVES_TO_NEAREST_EVEN: lambda x: unary("round_even", x),
    RoundingMode.TOWARD_ZERO: lambda x: unary("trunc", x),
    RoundingMode.TOWARD_INFINITY: _round_half_away,
}
