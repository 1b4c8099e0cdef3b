"""Exponentials, logarithms and powers of usual arguments, and parts of them: what other functions are made of."""

from __future__ import annotations

from collections.abc import Sequence

from opendml.expression.element_types import F32, F64, float_bits
from opendml.expression.floating_point import (
    FORMATS,
    INFINITY,
    NAN,
    at_least,
    at_most,
    fast_two_sum,
    magnitude_of,
    polynomial,
    power_of_two,
    subnormal,
    two_product,
    with_sign_of,
)
from opendml.expression.function_tables import (
    ATANH,
    FUNCTION_FORMS,
    LOG2_E,
    NARROW_EXP,
    NARROW_LOG,
    TANH,
    TWO_THIRDS_LOW,
)
from opendml.expression.ir import Bitcast, Expression, cast, constant, fused_multiply_add, select, unary

# ---------------------------------------------------------------------------------------------------------------------
# The exponential: exp(x) = 2**n * exp(r), x = n * log(2) + r, |r| <= log(2) / 2.


def _reduced(x: Expression, anchor: float | Expression, low: Expression | None = None) -> tuple[Expression, Expression]:
    """``r``, and a number with ``n`` in its lowest bits, as much greater as the anchor is greater than the format's.

    Adding the anchor, 1.5 * 2**m with m bits of mantissa, rounds to an integer and leaves it there. ``low`` is added
    to ``x``. The first step is exact.
    """
    form = FUNCTION_FORMS[x.type]
    anchored = fused_multiply_add(x, LOG2_E, anchor)
    n = anchored - anchor
    r = fused_multiply_add(n, -form.log_2_high, x)
    if low is not None:
        return r + fused_multiply_add(n, -form.log_2_low, low), anchored
    return fused_multiply_add(n, -form.log_2_low, r), anchored


def _exp_parts(
    x: Expression, anchor: float | Expression, low: Expression | None = None
) -> tuple[Expression, Expression]:
    """``exp(r)`` and a power of two: their product is ``exp(x + low)``, if the power is a normal number."""
    r, anchored = _reduced(x, anchor, low)
    return polynomial(r, (1.0, 1.0, *FUNCTION_FORMS[x.type].exp)), power_of_two(anchored)


def exp_of_normal(x: Expression) -> Expression:
    """``exp(x)`` where the power of two is a normal number."""
    value, power = _exp_parts(x, FUNCTION_FORMS[x.type].anchor)
    return value * power


def expm1_parts(x: Expression, anchor: float) -> tuple[Expression, Expression]:
    """``exp(r) - 1`` and the power of two."""
    r, anchored = _reduced(x, anchor)
    return fused_multiply_add(r * r, polynomial(r, FUNCTION_FORMS[x.type].expm1), r), power_of_two(anchored)


def expm1_of_normal(x: Expression) -> Expression:
    """``exp(x) - 1`` where the power of two is a normal number."""
    fraction, power = expm1_parts(x, FUNCTION_FORMS[x.type].anchor)
    return fused_multiply_add(power, fraction, power - 1)


def exp_of_sum(x: Expression, low: Expression | None = None) -> Expression:
    """``exp(x + low)`` for any ``x`` and a ``low`` that is small beside 1."""
    shifted, negative = _shifted_exp(x, low)
    return shifted * select(negative, _smaller(x), 2.0 ** FORMATS[x.type].shift_exponent)


def exp_of_extreme(x: Expression) -> Expression:
    """``exp(x)`` for an ``x`` whose result is infinite, almost so, or smaller than all normal numbers; NaN for NaN."""
    shift = FORMATS[x.type].shift_exponent
    shifted, negative = _shifted_exp(x)
    smaller = subnormal(shifted, 2.0 ** (-shift - FORMATS[x.type].smallest_exponent))
    return select(negative, smaller, shifted * 2.0**shift)


def _shifted_exp(x: Expression, low: Expression | None = None) -> tuple[Expression, Expression]:
    """A normal number that is ``exp(x + low)`` but for a second factor of the power of two, which need not be a normal
    number, and whether that factor makes it smaller: the sign of ``x`` tells."""
    form, shift = FUNCTION_FORMS[x.type], FORMATS[x.type].shift_exponent
    x = at_most(at_least(x, form.exp_lowest), form.exp_highest)
    negative = x < 0
    value, power = _exp_parts(x, select(negative, form.anchor + shift, form.anchor - shift, x.type), low)
    return value * power, negative


def exp_of_negative(x: Expression) -> Expression:
    """``exp(x)`` for ``x <= 0``."""
    form = FUNCTION_FORMS[x.type]
    shift = FORMATS[x.type].shift_exponent
    value, power = _exp_parts(at_least(x, form.exp_lowest), form.anchor + shift)
    return value * power * _smaller(x)


def _smaller(x: Expression) -> Expression:
    """The second factor of the power of two for a negative ``x``: 0 where the result is 0, for a product that vanishes
    takes processors some hundred cycles, and the scores that masks hide are far below."""
    return select(x < FUNCTION_FORMS[x.type].exp_lowest, 0.0, 2.0 ** -FORMATS[x.type].shift_exponent, x.type)


def half_exp(x: Expression) -> Expression:
    """``exp(x) / 2`` for a large ``x``, finite wherever it can be."""
    form = FUNCTION_FORMS[x.type]
    value, power = _exp_parts(at_most(x, form.half_exp_highest), form.anchor - 2)
    quarter = value * power
    return quarter + quarter


def tanh_by_addition(x: Expression) -> Expression:
    """The hyperbolic tangent (F32) of ``x = n log(2) / 2 + r >= 0``, by its addition theorem.

    With ``s = 2**n`` and ``w = tanh(r)``, an odd polynomial, it is ``a / (a - 2 w + 2)``, ``a = s - 1 + (s + 1) w``.
    All of this is multiplied by 5/4: that keeps numerators and denominators away from the lower ends of binades, where
    roundings weigh most.
    """
    form = FUNCTION_FORMS[F32]
    anchored = fused_multiply_add(x, 2 * LOG2_E, form.anchor)
    # Of log(2) / 2 the lower digits are missing: they matter only where the result is nearly 1.
    r = fused_multiply_add(anchored - form.anchor, form.log_2_high * -0.5, x)
    square = r * r
    w = fused_multiply_add(r, square * polynomial(square, TANH), r)
    power = power_of_two(anchored)
    less, more = fused_multiply_add(power, 1.25, -1.25), fused_multiply_add(power, 1.25, 1.25)
    numerator = fused_multiply_add(w, more, less)
    return numerator / (fused_multiply_add(w, -2.5, numerator) + 2.5)


def scaled_coefficients(coefficients: Sequence[float], factor: float, base: float = 1.0) -> list[float]:
    """The coefficients of ``factor * polynomial(base * x)``; exact for powers of two."""
    return [coefficient * factor * base**power for power, coefficient in enumerate(coefficients)]


# ---------------------------------------------------------------------------------------------------------------------
# The logarithm: log(2**n * (1 + f)) = n log(2) + f - f**2 / 2 + f**3 * polynomial, sqrt(1/2) <= 1 + f < sqrt(2).


def _exponent(x: Expression) -> Expression:
    """``n`` of a positive normal number, at the place of an exponent: ``x * 2**-n`` is in [sqrt(1/2), sqrt(2))."""
    form = FORMATS[x.type]
    return (Bitcast(x, form.integer) - float_bits(0.5**0.5, x.type)) & -(1 << form.mantissa_bits)


def log_parts(f: Expression, exponent: Expression, coefficients: Sequence[float]) -> Expression:
    """``log((1 + f) * 2**n)``."""
    form = FUNCTION_FORMS[f.type]
    unit = 0.5 ** FORMATS[f.type].mantissa_bits
    n = cast(exponent, f.type)
    curve = fused_multiply_add(f, polynomial(f, coefficients), -0.5)
    rest = fused_multiply_add(f * f, curve, n * (form.log_2_low * unit))
    return fused_multiply_add(n, form.log_2_high * unit, f + rest)


def log_of_normal(x: Expression, coefficients: Sequence[float] | None = None) -> Expression:
    """The logarithm of a positive normal number."""
    exponent = _exponent(x)
    mantissa = Bitcast(Bitcast(x, FORMATS[x.type].integer) - exponent, x.type)
    return log_parts(mantissa - 1, exponent, coefficients or FUNCTION_FORMS[x.type].log)


def log_of_double(x: Expression) -> Expression:
    """The logarithm of ``2 x`` for a positive ``x`` that is no subnormal number."""
    form = FORMATS[x.type]
    exponent = _exponent(x)
    mantissa = Bitcast(Bitcast(x, form.integer) - exponent, x.type)
    result = log_parts(mantissa - 1, exponent + (1 << form.mantissa_bits), FUNCTION_FORMS[x.type].log)
    return select(x < INFINITY, result, x)


def exponent_and_mantissa(x: Expression) -> tuple[Expression, Expression]:
    """``n`` (at the place of an exponent) and the mantissa of a positive, finite ``x``, subnormal ones included."""
    form = FORMATS[x.type]
    subnormal = x < form.smallest_normal
    scaled = select(subnormal, x * 2.0**form.mantissa_bits, x)
    correction = select(subnormal, form.mantissa_bits << form.mantissa_bits, 0, form.integer)
    exponent = _exponent(scaled)
    return exponent - correction, Bitcast(Bitcast(scaled, form.integer) - exponent, x.type)


def log1p_of_finite(x: Expression) -> Expression:
    """``log(1 + x)`` for a finite ``x > -1``: ``1 + x = 2**n * (1 + f)``, ``f`` computed without the rounding of 1 + x.

    ``n`` is taken from the rounded sum; ``x * 2**-n`` and ``2**-n - 1`` are exact.
    """
    form = FORMATS[x.type]
    exponent = _exponent(x + 1)
    # Four times the power of two is a normal number even for the largest x.
    quadruple = Bitcast(constant(float_bits(4.0, x.type), form.integer) - exponent, x.type)
    f = fused_multiply_add(x * quadruple, 0.25, fused_multiply_add(quadruple, 0.25, -1.0))
    return log_parts(f, exponent, FUNCTION_FORMS[x.type].log)


def log_of_special(result: Expression, x: Expression, pole: float) -> Expression:
    """``result`` where ``x`` is finite and beyond the pole; the right infinity or NaN elsewhere."""
    below = select(x.equals(pole), -INFINITY, NAN, x.type)
    return select(x > pole, select(x.equals(INFINITY), x, result), below)


# ---------------------------------------------------------------------------------------------------------------------
# Powers of positive numbers: exp(y * log(x)).


def special_power(x: Expression, y: Expression) -> Expression:
    """``x`` to the power ``y`` for any arguments, special ones included."""
    magnitude = magnitude_of(x)
    if x.type is F32:
        power = narrow_power(magnitude, cast(y, F64))
    else:
        power = two_part_power(magnitude, y)
    extreme = select(x.equals(0).differs(y < 0), 0.0, INFINITY, x.type)
    power = select(x.equals(0) | magnitude.equals(INFINITY), extreme, power)
    half = y * 0.5
    integral = unary("trunc", y).equals(y)
    odd = integral & unary("trunc", half).differs(half)
    signed = select(odd, with_sign_of(x, power), power)
    undefined = (x < 0) & ~integral & x.differs(-INFINITY)
    real = select(x.differs(x) | y.differs(y), x + y, select(undefined, NAN, signed))
    one = y.equals(0) | x.equals(1) | (x.equals(-1) & magnitude_of(y).equals(INFINITY))
    return select(one, 1.0, real)


def narrow_power(x: Expression, y: Expression) -> Expression:
    """``x`` (F32, positive and finite) to the power ``y`` (F64) as F32, with polynomials just good enough for that."""
    logarithm = log_of_normal(cast(x, F64), NARROW_LOG)
    product = at_most(at_least(y * logarithm, -110.0), 100.0)
    r, anchored = _reduced(product, FUNCTION_FORMS[F64].anchor)
    return cast(polynomial(r, (1.0, 1.0, *NARROW_EXP)) * power_of_two(anchored), F32)


def two_part_power(x: Expression, y: Expression, y_low: float = 0.0) -> Expression:
    """``x`` (positive and finite) to the power ``y + y_low``, all F64."""
    log_high, log_low = _two_part_log(x)
    # Beyond 2**64 every power but that of 1 overflows or vanishes; below, no product does.
    bounded = at_most(at_least(y, -(2.0**64)), 2.0**64)
    high, low = two_product(bounded, log_high)
    low = low + fused_multiply_add(bounded, log_low, log_high * y_low)
    return exp_of_sum(high, select(magnitude_of(high) < 800.0, low, 0.0))


def _two_part_log(x: Expression) -> tuple[Expression, Expression]:
    """``log(x)`` of a positive, finite F64 number as the sum of two.

    With ``s = f / (2 + f)``: ``log(1 + f) = 2 s + s**3 * (2/3 + s**2 * polynomial(s**2))``, everything but the
    polynomial in two parts.
    """
    form = FUNCTION_FORMS[F64]
    exponent, mantissa = exponent_and_mantissa(x)
    n = cast(exponent, F64) * 0.5 ** FORMATS[F64].mantissa_bits
    f = mantissa - 1
    divisor = f + 2
    s = f / divisor
    divisor_low = f - (divisor - 2)
    s_low = (fused_multiply_add(-s, divisor, f) - s * divisor_low) / divisor
    z, z_low = two_product(s, s)
    z_low = fused_multiply_add(s * 2, s_low, z_low)
    bracket, bracket_low = fast_two_sum(
        constant(2 / 3, F64), fused_multiply_add(z, polynomial(z, ATANH), TWO_THIRDS_LOW)
    )
    cube, cube_low = two_product(z, s)
    cube_low = cube_low + fused_multiply_add(z, s_low, z_low * s)
    tail, tail_low = two_product(cube, bracket)
    tail_low = tail_low + fused_multiply_add(cube, bracket_low, cube_low * bracket)
    log_f, log_f_low = fast_two_sum(s * 2, tail)
    log_f_low = log_f_low + fused_multiply_add(s_low, 2.0, tail_low)
    product, product_low = two_product(n, constant(form.log_2_high, F64))
    total, total_low = fast_two_sum(product, log_f)
    rest = product_low + fused_multiply_add(n, form.log_2_low, log_f_low)
    return fast_two_sum(total, total_low + rest)
