"""The parts of mathematical functions: polynomials, signs, exact sums and products, properties of F32 and F64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from opendml.expression.element_types import F16, F32, F64, I32, I64, U32, U64, ElementType, Number, float_bits
from opendml.expression.ir import Bitcast, Cast, Expression, as_expression, fused_multiply_add, select, unary

NAN: Final = float("nan")
INFINITY: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Format:
    """A floating-point type as the functions take it apart."""

    integer: ElementType
    unsigned: ElementType
    mantissa_bits: int
    bias: int
    """What is added to an exponent when it is stored."""

    @property
    def anchor(self) -> float:
        """A number from which on floats are integers; adding it to something small rounds that to an integer."""
        return 1.5 * 2.0**self.mantissa_bits

    @property
    def smallest_normal(self) -> float:
        """The smallest number with all bits of the mantissa."""
        return 2.0 ** (1 - self.bias)

    @property
    def smallest_exponent(self) -> int:
        """Of 2: the smallest number of all."""
        return 1 - self.bias - self.mantissa_bits

    @property
    def shift_exponent(self) -> int:
        """A power of two that brings every result of ``exp``, too large or too small, among the normal numbers."""
        return (self.bias + 1) // 2


FORMATS: Final = {F32: Format(I32, U32, 23, 127), F64: Format(I64, U64, 52, 1023)}


def polynomial(x: Expression, coefficients: Sequence[Expression | float]) -> Expression:
    """Horner's scheme, lowest coefficient first."""
    result = as_expression(coefficients[-1], x.type)
    for coefficient in reversed(coefficients[:-1]):
        result = fused_multiply_add(result, x, coefficient)
    return result


def magnitude_of(x: Expression) -> Expression:
    """``|x|``."""
    return unary("abs", x)


def at_most(x: Expression, bound: Number) -> Expression:
    """The smaller of ``x`` and ``bound``; NaN stays."""
    return select(x > bound, bound, x)


def at_least(x: Expression, bound: Number) -> Expression:
    """The larger of ``x`` and ``bound``; NaN stays."""
    return select(x < bound, bound, x)


def sign_bit(x: Expression) -> Expression:
    """The bits of ``x`` without all but the sign."""
    return Bitcast(x, FORMATS[x.type].integer) & (1 << (x.type.bits - 1))


def with_sign_of(x: Expression, value: Expression) -> Expression:
    """``value``, which must not have the opposite sign, with the sign of ``x``: for magnitudes, and for zeros."""
    return Bitcast(Bitcast(value, FORMATS[x.type].integer) | sign_bit(x), x.type)


def negated_by(bits: Expression, value: Expression) -> Expression:
    """``value`` with its sign changed where ``bits`` are those of -0, not those of 0."""
    return Bitcast(Bitcast(value, FORMATS[value.type].integer) ^ bits, value.type)


def power_of_two(x: Expression) -> Expression:
    """2 to the power that stands, biased, in the lowest bits of ``x``."""
    form = FORMATS[x.type]
    return Bitcast(Bitcast(x, form.integer) << form.mantissa_bits, x.type)


def is_subnormal(x: Expression) -> Expression:
    """Whether ``x`` is a number smaller than all normal ones, of either sign, but not 0."""
    form = FORMATS[x.type]
    magnitude = Bitcast(x, form.unsigned) & (float_bits(-0.0, x.type) - 1)
    return (magnitude - 1) < float_bits(form.smallest_normal, x.type) - 1


def subnormal(x: Expression, y: Expression | float) -> Expression:
    """``x * y`` times the smallest number of all, rounded once, where that is smaller than all normal ones, and neither
    is negative: the bits of an integer. Products so small take some processors a hundred cycles and more."""
    unit = 2.0 ** FORMATS[x.type].mantissa_bits  # from which on floats are the integers
    rounded = Bitcast(fused_multiply_add(x, y, unit), FORMATS[x.type].integer)
    return Bitcast(rounded - float_bits(unit, x.type), x.type)


def is_unusual(x: Expression, beyond: float = INFINITY) -> Expression:
    """Whether ``x`` is anything but a positive normal number below ``beyond``: one comparison of integers."""
    form = FORMATS[x.type]
    least = float_bits(form.smallest_normal, x.type)
    return (Bitcast(x, form.unsigned) - least) >= float_bits(beyond, x.type) - least


def right_for_float16(
    x: Expression, key: Expression, result: Expression, exceptions: Sequence[tuple[float, float]]
) -> Expression:
    """``result``, or the second of an exception whose first is ``key``, if ``x`` is a float16 number, widened.

    Float16 results are rounded from float32 ones. For a few arguments that is not enough to tell on which side of the
    middle between two float16 numbers the exact result lies: the exception is the float32 number next to it on that
    side, so it is right for what is computed further in float32, too.
    """
    if isinstance(x, Cast) and x.operand.type is F16:
        for argument, value in exceptions:
            result = select(key.equals(argument), value, result)
    return result


def two_product(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """The rounded product and its rounding error."""
    product = a * b
    return product, fused_multiply_add(a, b, -product)


def two_sum(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """The rounded sum and its rounding error (D. E. Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fast_two_sum(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """The rounded sum and its error, for ``|a| >= |b|``, or ``a`` a multiple of ``b``'s last digit (T. J. Dekker)."""
    total = a + b
    return total, b - (total - a)
