"""Mathematical functions written in the grammar: polynomials and bits, no library, the same bits on every target.

Every function maps expressions of type ``F32`` or ``F64`` to one of the same type (float16 values are widened to F32 by
the caller; the coefficients are chosen so that every result for a float16 argument then rounds correctly). They are
straight-line, with selects for special values, no loops and no tables, so they vectorise anywhere, and the compiled
code equals the interpreter bit for bit. What only huge, tiny or special arguments need is behind a ``rare`` select.
Infinities, NaN, -0, overflow and gradual underflow come out as C's library functions give them. The errors stated are
the largest ones found by ``tools/measure_errors.py``: among all arguments in F32, in samples in F64 and for two
arguments.

Sources: argument reductions as in W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980), and
J.-M. Muller, "Elementary Functions" (3rd edition, 2016); exact products and sums as in T. J. Dekker, "A floating-point
technique for extending the available precision" (1971). The coefficients are minimax polynomials: E. Remez's exchange
algorithm in multiple precision, coefficients rounded one after another, the rest fitted anew each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from opendml.expression.element_types import F16, F32, F64, I64, float_bits
from opendml.expression.floating_point import (
    FORMATS,
    INFINITY,
    NAN,
    at_least,
    at_most,
    fast_two_sum,
    is_unusual,
    magnitude_of,
    polynomial,
    power_of_two,
    right_for_float16,
    two_product,
    with_sign_of,
)
from opendml.expression.ir import Bitcast, Expression, cast, constant, fused_multiply_add, select, unary


def exp(x: Expression) -> Expression:
    """The natural exponential, subnormal results included. Error: 0.90 ULP in F32, 1.21 in F64."""
    form = _FORMS[x.type]
    result = select(~(magnitude_of(x) < form.exp_normal), _exp_of_sum(x), _exp_normal(x), rare=True)
    return right_for_float16(x, x, result, _FLOAT16_EXP)


def expm1(x: Expression) -> Expression:
    """``exp(x) - 1`` without cancellation: ``2**n * expm1(r) + (2**n - 1)`` with ``x = n log 2 + r``.

    Error: 1.44 ULP in F32, 1.82 in F64.
    """
    form = _FORMS[x.type]
    # Half the power of two, doubled at the end, is still finite wherever the result is.
    fraction, half = _expm1_parts(at_most(at_least(x, form.expm1_lowest), form.exp_highest), form.anchor - 1)
    extreme = fused_multiply_add(half, fraction, half - 0.5)
    unusual = ~(magnitude_of(x) < form.exp_normal)
    result = select(unusual, extreme + extreme, _expm1_normal(x), rare=True)
    return right_for_float16(x, x, with_sign_of(x, result), _FLOAT16_EXPM1)


def log(x: Expression) -> Expression:
    """The natural logarithm; minus infinity for 0, NaN below. Error: 0.88 ULP in F32, 0.82 in F64."""
    exponent, mantissa = _exponent_and_mantissa(x)
    any_positive = _log_parts(mantissa - 1, exponent, _FORMS[x.type].log)
    result = select(is_unusual(x), _log_special(any_positive, x, pole=0.0), _log_normal(x), rare=True)
    return right_for_float16(x, x, result, _FLOAT16_LOG)


def log1p(x: Expression) -> Expression:
    """``log(1 + x)`` without cancellation; minus infinity for -1, NaN below. Error: 1.47 ULP in F32, 1.37 in F64."""
    usual = _log1p_finite(x)
    unusual = ~((x > -1) & (x < INFINITY))
    result = with_sign_of(x, select(unusual, _log_special(usual, x, pole=-1.0), usual, rare=True))
    return right_for_float16(x, x, result, _FLOAT16_LOG1P)


def tanh(x: Expression) -> Expression:
    """The hyperbolic tangent.

    F64: ``t / (t + 1)`` with ``t = expm1(2 |x|) / 2``; with ``b`` the smaller of ``t`` and 1 this is, more exactly,
    ``b - b * (b / (t + 1))``. F32, faster: by the addition theorem. Error: 1.97 ULP in F32, 1.90 in F64.
    """
    bounded = at_most(magnitude_of(x), _FORMS[x.type].tanh_is_one)
    if x.type is F32:
        return with_sign_of(x, _tanh_by_addition(bounded))
    fraction, half = _expm1_parts(bounded + bounded, _FORMS[F64].anchor - 1)
    t = fused_multiply_add(half, fraction, half - 0.5)
    base = at_most(t, 1.0)
    share = base / (t + 1)
    # What t is rounded by matters, times the derivative, only where the result is not nearly 1.
    rounded_off = fused_multiply_add(half, fraction, (half - 0.5) - t)
    low = select(t < 1, rounded_off * ((1 - share) * (1 - share)), 0.0)
    return with_sign_of(x, base + fused_multiply_add(-base, share, low))


def sigmoid(x: Expression) -> Expression:
    """The logistic function ``1 / (1 + exp(-x))``.

    Numerator and denominator are multiplied by a small number: by a power of two, so that the exponential does not
    overflow where the result is still a number, and by a number at which the roundings of denominators weigh least
    (those at a binade's lower end weigh most, those of results at its upper end). Error: 1.74 ULP in F32, 1.87 in F64.
    """
    form = _FORMS[x.type]
    shift = FORMATS[x.type].shift_exponent
    bounded = at_most(at_least(x, form.exp_lowest), form.sigmoid_is_one)
    anchor = form.anchor - shift
    anchored = fused_multiply_add(bounded, -_LOG2_E, anchor)
    n = anchored - anchor
    r = fused_multiply_add(n, form.log_2_high, bounded)
    r = fused_multiply_add(n, form.log_2_low, r)
    fraction = r * polynomial(r, _scaled((1.0, *form.exp), -_SIGMOID_SCALE, -1.0))
    power = power_of_two(anchored)
    one = _SIGMOID_SCALE * 2.0**-shift
    result = one / fused_multiply_add(power, _SIGMOID_SCALE, fused_multiply_add(power, fraction, one))
    return right_for_float16(x, x, result, _FLOAT16_SIGMOID)


def softplus(x: Expression) -> Expression:
    """``log(1 + exp(x))``, computed as ``max(x, 0) + log1p(exp(-|x|))``. Error: 1.88 ULP in F32, 1.74 in F64."""
    result = select(x < 0, 0.0, x) + _log1p_finite(_exp_of_negative(-magnitude_of(x)))
    return right_for_float16(x, x, result, _FLOAT16_SOFTPLUS)


def sinh(x: Expression) -> Expression:
    """The hyperbolic sine: an odd polynomial up to 1, beyond it ``(e - 1 / e) / 2`` with ``e = exp(|x|)``.

    Error: 1.62 ULP in F32, 1.63 in F64.
    """
    form = _FORMS[x.type]
    magnitude = magnitude_of(x)
    square = magnitude * magnitude
    near = fused_multiply_add(magnitude * square, polynomial(square, form.sinh), magnitude)
    e = _exp_normal(magnitude)
    usual = select(magnitude < 1, near, fused_multiply_add(e, 0.5, -0.5 / e))
    unusual = ~(magnitude < form.exp_normal)
    result = select(unusual, _half_exp(magnitude), usual, rare=True)
    return with_sign_of(x, right_for_float16(x, magnitude, result, _FLOAT16_SINH))


def cosh(x: Expression) -> Expression:
    """The hyperbolic cosine: ``(e + 1 / e) / 2`` with ``e = exp(|x|)``. Error: 1.35 ULP in F32, 1.60 in F64."""
    form = _FORMS[x.type]
    magnitude = magnitude_of(x)
    e = _exp_normal(magnitude)
    usual = fused_multiply_add(e, 0.5, 0.5 / e)
    result = select(~(magnitude < form.exp_normal), _half_exp(magnitude), usual, rare=True)
    return right_for_float16(x, magnitude, result, _FLOAT16_COSH)


def asinh(x: Expression) -> Expression:
    """The inverse hyperbolic sine: ``log1p(a + a**2 / (1 + sqrt(1 + a**2)))`` with ``a = |x|``.

    Error: 1.86 ULP in F32, 1.71 in F64.
    """
    magnitude = magnitude_of(x)
    square = magnitude * magnitude
    rest = square / (unary("sqrt", fused_multiply_add(magnitude, magnitude, 1.0)) + 1)
    large = ~(magnitude < _FORMS[x.type].square_is_all)
    result = select(large, _log_of_double(magnitude), _log1p_finite(magnitude + rest), rare=True)
    return with_sign_of(x, right_for_float16(x, magnitude, result, _FLOAT16_ASINH))


def acosh(x: Expression) -> Expression:
    """The inverse hyperbolic cosine: ``log1p(t + sqrt(t**2 + 2 t))`` with ``t = x - 1``; NaN below 1.

    Error: 2.06 ULP in F32, 1.93 in F64.
    """
    t = x - 1
    usual = _log1p_finite(t + unary("sqrt", fused_multiply_add(t, t, t + t)))
    unusual = ~((x >= 1) & (x < _FORMS[x.type].square_is_all))
    result = select(unusual, select(x < 1, NAN, _log_of_double(x)), usual, rare=True)
    return right_for_float16(x, x, result, _FLOAT16_ACOSH)


def atanh(x: Expression) -> Expression:
    """The inverse hyperbolic tangent: ``log1p(2 a / (1 - a)) / 2`` with ``a = |x|``; NaN beyond 1.

    Error: 2.17 ULP in F32, 1.93 in F64.
    """
    magnitude = magnitude_of(x)
    usual = _log1p_finite((magnitude + magnitude) / (1 - magnitude)) * 0.5
    pole = select(magnitude.equals(1), INFINITY, NAN, x.type)
    return with_sign_of(x, select(~(magnitude < 1), pole, usual, rare=True))


def erf(x: Expression) -> Expression:
    """The error function: ``1 - (1 - y / k)**k`` with ``y = |x| * polynomial(|x|)``, ``k`` 4 in F32 and 8 in F64.

    The polynomial is fitted to what makes this the error function. The power is made of squares, without cancellation:
    ``y - y**2 / (2 k)`` is the same for ``k / 2``. Only what is added to the linear term is rounded on the way.
    Error: 1.59 ULP in F32, 1.39 in F64.
    """
    form = _FORMS[x.type]
    bounded = at_most(magnitude_of(x), form.erf_is_one)
    linear, *others = form.erf
    rest = bounded * polynomial(bounded, others)
    k = form.erf_power
    while k > 2:
        y = fused_multiply_add(bounded, linear, rest)
        rest = fused_multiply_add(y * (-0.5 / k), y, rest)
        k //= 2
    y = fused_multiply_add(bounded, linear, rest)
    return with_sign_of(x, right_for_float16(x, bounded, fused_multiply_add(y * -0.25, y, y), _FLOAT16_ERF))


def gelu(x: Expression) -> Expression:
    """``x`` times the probability that a standard normal variable is below it, to full relative accuracy; F32 only.

    ``max(x, 0) - t exp(-t**2 / 2) / d(t)`` with ``t = |x|`` and ``d(t) = 2 (t + 1 - t * rational(t))``: what is hard to
    compute is a small part of ``d``. The one division is by ``d`` times the rational's divisor, whose own error does
    not matter. The quotient is corrected by its remainder and by what the last addition of the divisor rounded off.
    The exponential is that of ``-r / 2`` with ``r = t**2 - 2 n log 2``, where ``n * _TWO_LOG_2_HIGH`` is exact.
    Everything is a large power of two too large, so that only the result underflows. Error: 1.79 ULP.
    """
    form = _FORMS[x.type]
    shift = FORMATS[x.type].shift_exponent
    t = at_most(magnitude_of(x), _NORMAL_TAIL_IS_ZERO)
    anchor = form.anchor + shift - 1
    anchored = fused_multiply_add(t * t, -0.5 * _LOG2_E, anchor)
    n = anchored - anchor
    r = fused_multiply_add(n, _TWO_LOG_2_LOW, fused_multiply_add(t, t, n * _TWO_LOG_2_HIGH))
    fraction = r * polynomial(r, _HALF_NEGATIVE_EXPM1)
    factor = polynomial(t, _NORMAL_TAIL_DIVISOR)
    product = t * factor
    rest = fused_multiply_add(-t, polynomial(t, _NORMAL_TAIL), factor)
    larger, smaller = select(product < rest, rest, product), select(product < rest, product, rest)
    divisor, divisor_low = fast_two_sum(larger, smaller)
    reciprocal = 1 / divisor
    dividend = product * power_of_two(anchored)
    quotient = dividend * fused_multiply_add(reciprocal, fraction, reciprocal)
    remainder = fused_multiply_add(dividend, fraction, fused_multiply_add(-quotient, divisor, dividend))
    remainder = fused_multiply_add(-quotient, divisor_low, remainder)
    below = fused_multiply_add(remainder, reciprocal, quotient)
    result = fused_multiply_add(below, -(2.0**-shift), select(x < 0, x * 0.0, x))
    return right_for_float16(x, x, result, _FLOAT16_GELU)


def pow(x: Expression, y: Expression) -> Expression:
    """``x`` to the power ``y`` with all special cases of C's ``pow``.

    F32 is computed in F64: the logarithm must be eight bits more precise than the result, and arithmetic in two parts
    costs more operations than half of the lanes. F64 has its logarithm in two parts.
    Error: 0.53 ULP in F32, 1.32 in F64.
    """
    usual = _narrow_power(x, cast(y, F64)) if x.type is F32 else _two_part_power(x, y)
    unusual = is_unusual(x) | ~(magnitude_of(y) < INFINITY)
    return select(unusual, _special_power(x, y), usual, rare=True)


def power_integer(x: Expression, n: int) -> Expression:
    """``x`` to the constant integer power ``n`` by repeated squaring; the error is at most ``|n|`` roundings."""
    if n <= 0:
        return constant(1, x.type) if n == 0 else 1 / power_integer(x, -n)
    if n == 1:
        return x
    square = power_integer(x * x, n // 2)
    return x * square if n % 2 else square


def root(x: Expression, p: int) -> Expression:
    """The ``p``-th root of ``x`` for a constant integer ``p >= 1``; NaN for negative ``x``, unless ``p`` is 1.

    Error, in samples: 0.51 ULP in F32 for odd ``p``, 1 for even ``p``; 1.4 in F64.
    """
    while p % 2 == 0:
        x, p = unary("sqrt", x), p // 2
    if p == 1:
        return x
    high = 1 / p
    low = float((1 - Fraction(high) * p) / p)
    y = constant(high, F64)
    power = _narrow_power(x, y) if x.type is F32 else _two_part_power(x, y, low)
    special = select(x < 0, NAN, x)
    return select(x > 0, select(x.equals(INFINITY), x, power), special)


def without_last_bits(x: Expression) -> Expression:
    """An F64 value rounded to 46 bits: one that misses a shorter number only by the error of a function becomes it.

    For results that are rounded further, to float16 or to an integer.
    """
    scaled = x * (2.0**7 + 1)
    return select(magnitude_of(x) < 2.0**1000, scaled - (scaled - x), x)


def narrow_to_f16(x: Expression) -> Expression:
    """An F64 value as F16 with one rounding.

    The value is first cut to float32's precision, with the last bit set if anything was lost ("rounding to odd":
    S. Boldo and G. Melquiond, 2008); after that the rounding to float16 is the only one that matters.
    """
    bits = Bitcast(x, I64)
    cut = (1 << 29) - 1
    sticky = select((bits & cut).differs(0), 1 << 29, 0, I64)
    return cast(cast(Bitcast((bits & ~cut) | sticky, F64), F32), F16)


# ---------------------------------------------------------------------------------------------------------------------
# The exponential: exp(x) = 2**n * exp(r), x = n * log(2) + r, |r| <= log(2) / 2.


def _reduced(x: Expression, anchor: float | Expression, low: Expression | None = None) -> tuple[Expression, Expression]:
    """``r``, and a number with ``n`` in its lowest bits, as much greater as the anchor is greater than the format's.

    Adding the anchor, 1.5 * 2**m with m bits of mantissa, rounds to an integer and leaves it there. ``low`` is added
    to ``x``. The first step is exact.
    """
    form = _FORMS[x.type]
    anchored = fused_multiply_add(x, _LOG2_E, anchor)
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
    return polynomial(r, (1.0, 1.0, *_FORMS[x.type].exp)), power_of_two(anchored)


def _exp_normal(x: Expression) -> Expression:
    """``exp(x)`` where the power of two is a normal number."""
    value, power = _exp_parts(x, _FORMS[x.type].anchor)
    return value * power


def _expm1_parts(x: Expression, anchor: float) -> tuple[Expression, Expression]:
    """``exp(r) - 1`` and the power of two."""
    r, anchored = _reduced(x, anchor)
    return fused_multiply_add(r * r, polynomial(r, _FORMS[x.type].expm1), r), power_of_two(anchored)


def _expm1_normal(x: Expression) -> Expression:
    """``exp(x) - 1`` where the power of two is a normal number."""
    fraction, power = _expm1_parts(x, _FORMS[x.type].anchor)
    return fused_multiply_add(power, fraction, power - 1)


def _exp_of_sum(x: Expression, low: Expression | None = None) -> Expression:
    """``exp(x + low)`` for any ``x`` and a ``low`` that is small beside 1."""
    form = _FORMS[x.type]
    x = at_most(at_least(x, form.exp_lowest), form.exp_highest)
    negative = x < 0
    # The power of two need not be a normal number: it is made of two factors, of which the sign of x tells the second.
    shift = FORMATS[x.type].shift_exponent
    value, power = _exp_parts(x, select(negative, form.anchor + shift, form.anchor - shift, x.type), low)
    return value * power * select(negative, 2.0**-shift, 2.0**shift, x.type)


def _exp_of_negative(x: Expression) -> Expression:
    """``exp(x)`` for ``x <= 0``."""
    form = _FORMS[x.type]
    shift = FORMATS[x.type].shift_exponent
    value, power = _exp_parts(at_least(x, form.exp_lowest), form.anchor + shift)
    return value * power * 2.0**-shift


def _half_exp(x: Expression) -> Expression:
    """``exp(x) / 2`` for a large ``x``, finite wherever it can be."""
    form = _FORMS[x.type]
    value, power = _exp_parts(at_most(x, form.half_exp_highest), form.anchor - 2)
    quarter = value * power
    return quarter + quarter


def _tanh_by_addition(x: Expression) -> Expression:
    """The hyperbolic tangent (F32) of ``x = n log(2) / 2 + r >= 0``, by its addition theorem.

    With ``s = 2**n`` and ``w = tanh(r)``, an odd polynomial, it is ``a / (a - 2 w + 2)``, ``a = s - 1 + (s + 1) w``.
    All of this is multiplied by 5/4: that keeps numerators and denominators away from the lower ends of binades, where
    roundings weigh most.
    """
    form = _FORMS[F32]
    anchored = fused_multiply_add(x, 2 * _LOG2_E, form.anchor)
    # Of log(2) / 2 the lower digits are missing: they matter only where the result is nearly 1.
    r = fused_multiply_add(anchored - form.anchor, form.log_2_high * -0.5, x)
    square = r * r
    w = fused_multiply_add(r, square * polynomial(square, _TANH), r)
    power = power_of_two(anchored)
    less, more = fused_multiply_add(power, 1.25, -1.25), fused_multiply_add(power, 1.25, 1.25)
    numerator = fused_multiply_add(w, more, less)
    return numerator / (fused_multiply_add(w, -2.5, numerator) + 2.5)


def _scaled(coefficients: Sequence[float], factor: float, base: float = 1.0) -> list[float]:
    """The coefficients of ``factor * polynomial(base * x)``; exact for powers of two."""
    return [coefficient * factor * base**power for power, coefficient in enumerate(coefficients)]


# ---------------------------------------------------------------------------------------------------------------------
# The logarithm: log(2**n * (1 + f)) = n log(2) + f - f**2 / 2 + f**3 * polynomial, sqrt(1/2) <= 1 + f < sqrt(2).


def _exponent(x: Expression) -> Expression:
    """``n`` of a positive normal number, at the place of an exponent: ``x * 2**-n`` is in [sqrt(1/2), sqrt(2))."""
    form = FORMATS[x.type]
    return (Bitcast(x, form.integer) - float_bits(0.5**0.5, x.type)) & -(1 << form.mantissa_bits)


def _log_parts(f: Expression, exponent: Expression, coefficients: Sequence[float]) -> Expression:
    """``log((1 + f) * 2**n)``."""
    form = _FORMS[f.type]
    unit = 0.5 ** FORMATS[f.type].mantissa_bits
    n = cast(exponent, f.type)
    curve = fused_multiply_add(f, polynomial(f, coefficients), -0.5)
    rest = fused_multiply_add(f * f, curve, n * (form.log_2_low * unit))
    return fused_multiply_add(n, form.log_2_high * unit, f + rest)


def _log_normal(x: Expression, coefficients: Sequence[float] | None = None) -> Expression:
    """The logarithm of a positive normal number."""
    exponent = _exponent(x)
    mantissa = Bitcast(Bitcast(x, FORMATS[x.type].integer) - exponent, x.type)
    return _log_parts(mantissa - 1, exponent, coefficients or _FORMS[x.type].log)


def _log_of_double(x: Expression) -> Expression:
    """The logarithm of ``2 x`` for a positive ``x`` that is no subnormal number."""
    form = FORMATS[x.type]
    exponent = _exponent(x)
    mantissa = Bitcast(Bitcast(x, form.integer) - exponent, x.type)
    result = _log_parts(mantissa - 1, exponent + (1 << form.mantissa_bits), _FORMS[x.type].log)
    return select(x < INFINITY, result, x)


def _exponent_and_mantissa(x: Expression) -> tuple[Expression, Expression]:
    """``n`` (at the place of an exponent) and the mantissa of a positive, finite ``x``, subnormal ones included."""
    form = FORMATS[x.type]
    subnormal = x < form.smallest_normal
    scaled = select(subnormal, x * 2.0**form.mantissa_bits, x)
    correction = select(subnormal, form.mantissa_bits << form.mantissa_bits, 0, form.integer)
    exponent = _exponent(scaled)
    return exponent - correction, Bitcast(Bitcast(scaled, form.integer) - exponent, x.type)


def _log1p_finite(x: Expression) -> Expression:
    """``log(1 + x)`` for a finite ``x > -1``: ``1 + x = 2**n * (1 + f)``, ``f`` computed without the rounding of 1 + x.

    ``n`` is taken from the rounded sum; ``x * 2**-n`` and ``2**-n - 1`` are exact.
    """
    form = FORMATS[x.type]
    exponent = _exponent(x + 1)
    # Four times the power of two is a normal number even for the largest x.
    quadruple = Bitcast(constant(float_bits(4.0, x.type), form.integer) - exponent, x.type)
    f = fused_multiply_add(x * quadruple, 0.25, fused_multiply_add(quadruple, 0.25, -1.0))
    return _log_parts(f, exponent, _FORMS[x.type].log)


def _log_special(result: Expression, x: Expression, pole: float) -> Expression:
    """``result`` where ``x`` is finite and beyond the pole; the right infinity or NaN elsewhere."""
    below = select(x.equals(pole), -INFINITY, NAN, x.type)
    return select(x > pole, select(x.equals(INFINITY), x, result), below)


# ---------------------------------------------------------------------------------------------------------------------
# Powers of positive numbers: exp(y * log(x)).


def _special_power(x: Expression, y: Expression) -> Expression:
    """``x`` to the power ``y`` for any arguments, special ones included."""
    magnitude = magnitude_of(x)
    if x.type is F32:
        power = _narrow_power(magnitude, cast(y, F64))
    else:
        power = _two_part_power(magnitude, y)
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


def _narrow_power(x: Expression, y: Expression) -> Expression:
    """``x`` (F32, positive and finite) to the power ``y`` (F64) as F32, with polynomials just good enough for that."""
    logarithm = _log_normal(cast(x, F64), _NARROW_LOG)
    product = at_most(at_least(y * logarithm, -110.0), 100.0)
    r, anchored = _reduced(product, _FORMS[F64].anchor)
    return cast(polynomial(r, (1.0, 1.0, *_NARROW_EXP)) * power_of_two(anchored), F32)


def _two_part_power(x: Expression, y: Expression, y_low: float = 0.0) -> Expression:
    """``x`` (positive and finite) to the power ``y + y_low``, all F64."""
    log_high, log_low = _two_part_log(x)
    # Beyond 2**64 every power but that of 1 overflows or vanishes; below, no product does.
    bounded = at_most(at_least(y, -(2.0**64)), 2.0**64)
    high, low = two_product(bounded, log_high)
    low = low + fused_multiply_add(bounded, log_low, log_high * y_low)
    return _exp_of_sum(high, select(magnitude_of(high) < 800.0, low, 0.0))


def _two_part_log(x: Expression) -> tuple[Expression, Expression]:
    """``log(x)`` of a positive, finite F64 number as the sum of two.

    With ``s = f / (2 + f)``: ``log(1 + f) = 2 s + s**3 * (2/3 + s**2 * polynomial(s**2))``, everything but the
    polynomial in two parts.
    """
    form = _FORMS[F64]
    exponent, mantissa = _exponent_and_mantissa(x)
    n = cast(exponent, F64) * 0.5 ** FORMATS[F64].mantissa_bits
    f = mantissa - 1
    divisor = f + 2
    s = f / divisor
    divisor_low = f - (divisor - 2)
    s_low = (fused_multiply_add(-s, divisor, f) - s * divisor_low) / divisor
    z, z_low = two_product(s, s)
    z_low = fused_multiply_add(s * 2, s_low, z_low)
    bracket, bracket_low = fast_two_sum(
        constant(2 / 3, F64), fused_multiply_add(z, polynomial(z, _ATANH), _TWO_THIRDS_LOW)
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


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Form:
    """Limits and coefficients for a type; polynomials have their lowest coefficient first."""

    anchor: float
    """Adding it to ``x / log(2)`` leaves the biased exponent of ``exp(x)`` in the lowest bits."""
    log_2_high: float
    """log(2)"""
    log_2_low: float
    exp_normal: float
    """Below it, ``exp(x)`` and ``exp(-x)`` are a normal power of two times a number near 1."""
    exp_lowest: float
    """Here and below, ``exp`` is 0."""
    exp_highest: float
    """Here and above, ``exp`` is infinite."""
    half_exp_highest: float
    """Here and above, ``exp / 2`` is infinite."""
    expm1_lowest: float
    """Here and below, ``expm1`` is -1."""
    tanh_is_one: float
    sigmoid_is_one: float
    square_is_all: float
    """Here and above, ``sqrt(x**2 + 1)`` is ``x``."""
    erf_is_one: float
    erf_power: int
    exp: tuple[float, ...]
    """(exp(r) - 1 - r) / r**2 for |r| <= log(2) / 2, relative to exp(r)."""
    expm1: tuple[float, ...]
    """The same, relative to exp(r) - 1."""
    sinh: tuple[float, ...]
    """(sinh(x) - x) / x**3 in x**2, for |x| <= 1, relative to sinh(x)."""
    log: tuple[float, ...]
    """(log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f <= sqrt(2)."""
    erf: tuple[float, ...]
    """k * (1 - erfc(x)**(1 / k)) / x up to erf_is_one, k = erf_power, relative to erf(x); the first in two parts."""


_LOG2_E: Final = 1.4426950408889634

_FORMS: Final = {
    F32: _Form(
        anchor=FORMATS[F32].anchor + FORMATS[F32].bias,
        log_2_high=0.693147182464599609375,
        log_2_low=-1.904654323148236e-09,
        exp_normal=87.5,
        exp_lowest=-104.5,
        exp_highest=89.0,
        half_exp_highest=89.5,
        expm1_lowest=-18.0,
        tanh_is_one=9.25,
        sigmoid_is_one=40.0,
        square_is_all=4097.0,
        erf_is_one=3.97,
        erf_power=4,
        exp=(0.49999994, 0.16666517, 0.041668106, 0.008369137, 0.0013836616),
        expm1=(0.5, 0.16666666, 0.041666467, 0.008333644, 0.0013935092, 0.00019664179),
        sinh=(
            0.16666667, 0.0083333105, 0.00019842896, 2.7822132e-06,
        ),
        log=(0.3333333, -0.25000826, 0.20001265, -0.16623212, 0.14200686, -0.13160509, 0.12769683, -0.07644062),
        erf=(
            1.1283792, -5.2943218e-08, 0.47746423, -0.061838806, -0.07457028, 0.0050922027, 0.007421257,
            -0.00048059179, -0.00073460763, 0.00021073049, -2.2146502e-05, 7.7070945e-07,
        ),
    ),
    F64: _Form(
        anchor=FORMATS[F64].anchor + FORMATS[F64].bias,
        log_2_high=0.6931471805599453,
        log_2_low=2.3190468138462996e-17,
        exp_normal=708.5,
        exp_lowest=-746.0,
        exp_highest=710.0,
        half_exp_highest=710.5,
        expm1_lowest=-38.0,
        tanh_is_one=19.25,
        sigmoid_is_one=40.0,
        square_is_all=2.0**27,
        erf_is_one=5.93,
        erf_power=8,
        exp=(
            0.5000000000000011, 0.16666666666666263, 0.04166666666652363, 0.008333333333455642,
            0.0013888888946853488, 0.00019841270005106868, 2.4801487260662264e-05, 2.7556683125686356e-06,
            2.763324119810505e-07, 2.543929262461875e-08,
        ),
        expm1=(
            0.5, 0.16666666666666666, 0.0416666666666667, 0.008333333333334515, 0.0013888888888864237,
            0.00019841269836572053, 2.4801587368847813e-05, 2.755732729328583e-06, 2.755723451669346e-07,
            2.5045701840572368e-08, 2.0927114522015246e-09, 1.799436245335979e-10,
        ),
        sinh=(
            0.16666666666666666, 0.008333333333333573, 0.0001984126984106116, 2.7557319310090387e-06,
            2.5052089409618367e-08, 1.6061340433372656e-10, 7.503100621634474e-13, 6.482335356875267e-15,
        ),
        log=(
            0.33333333333333454, -0.24999999999998912, 0.19999999999945614, -0.16666666666915983, 0.1428571429391053,
            -0.1249999998194238, 0.11111110511615262, -0.10000000382873571, 0.09090933666078163,
            -0.08333345870765856, 0.07691710969819937, -0.07141996898411643, 0.06675196430099434,
            -0.06269847189798351, 0.05817359065154239, -0.05326352521055436, 0.054181623909773366,
            -0.06277600443777936, 0.056916690038286144, -0.024202631376764656,
        ),
        erf=(
            1.1283791670955126, 1.2095746965768085e-17, 0.5570423008216349, 0.016720440616893987,
            -0.052753905629148626, -0.0013885000570133816, 0.003933322201073659, -0.0005191807960622866,
            -0.00011508290808738173, 8.27690479429894e-05, -2.543052454081888e-05, 4.2717614379947065e-07,
            3.4687857484753427e-06, -1.4951111350527288e-06, 4.863439214860313e-08, 2.8644507904908176e-07,
            -1.9805303568857445e-07, 8.335966267788219e-08, -2.586109002792644e-08, 6.2294078666438906e-09,
            -1.1812063880346986e-09, 1.75517941521001e-10, -2.0066626498082672e-11, 1.705712900320402e-12,
            -1.015390520903068e-13, 3.776317829858315e-15, -6.599912275367819e-17,
        ),
    ),
}  # fmt: skip

_TANH: Final = (-0.3333337, 0.13331711, -0.05271699)
"""(tanh(r) - r) / r**3 in r**2, for |r| <= log(2) / 4, relative to tanh(r), in F32."""

_NARROW_EXP: Final = (
    0.5000000068831713, 0.16666663799707598, 0.041666282227946286, 0.008334013767507724, 0.0013945832139852028,
    0.00019493470084258887,
)  # fmt: skip
"""As ``_Form.exp``, in F64 and good to 33 bits."""

_NARROW_LOG: Final = (
    0.3333333389389981, -0.24999997064596724, 0.1999991105304893, -0.16666855820947288, 0.14290182538568189,
    -0.12498274286790487, 0.11014659746478302, -0.09924578574414585, 0.09989300923517566, -0.0986341182200157,
    0.05385708128126323,
)  # fmt: skip
"""As ``_Form.log``, in F64 and good to 35 bits."""

_TWO_THIRDS_LOW: Final = 3.700743415417188e-17
_ATANH: Final = (
    0.4000000000000226, 0.28571428570096535, 0.22222222520522264, 0.1818178431055631, 0.1538676010049975,
    0.13256749896265121, 0.1319698655478327,
)  # fmt: skip
"""(log((1 + s) / (1 - s)) - 2 s - 2/3 s**3) / s**5 in s**2, for s up to 3 - sqrt(8)."""

_SIGMOID_SCALE: Final = 1.65625

_NORMAL_TAIL_IS_ZERO: Final = 14.5
_NORMAL_TAIL: Final = (0.31196472, 0.06230871, -0.033577777, -0.019041494, -0.003201745)
_NORMAL_TAIL_DIVISOR: Final = (1.5435, 1.3515816, 0.56450856, 0.12502897, 0.012640162)
"""``1 + t - d / 2`` is ``t`` times the first polynomial divided by the second, for t up to 14.5 and relative to d,
where ``exp(-t**2 / 2) / d`` is the probability that a standard normal variable exceeds t. The divisor's first
coefficient is free: this one keeps what is rounded away from the lower ends of binades, where roundings weigh most."""

_TWO_LOG_2_HIGH: Final = 1.38629150390625
_TWO_LOG_2_LOW: Final = 2.8572135e-06
_HALF_NEGATIVE_EXPM1: Final = (-0.5, 0.124999985, -0.020833151, 0.0026042683, -0.00026152254, 2.1591784e-05)
"""(exp(-r / 2) - 1) / r for |r| <= log(2), relative to exp(-r / 2), in F32."""

# Arguments of float16 whose results would be rounded to the wrong side, and results in float32 on the right side.
_FLOAT16_EXP: Final = ((0.007297515869140625, 1.0073241), (0.0226898193359375, 1.0229491))
_FLOAT16_EXPM1: Final = ((0.000690460205078125, 0.0006906987),)
_FLOAT16_LOG: Final = ((0.005340576171875, -5.2324214),)
_FLOAT16_LOG1P: Final = ((-0.005847930908203125, -0.0058650966), (0.005870819091796875, 0.0058536534))
# That of sigmoid is 1/2 + x/4 - x**3/48, and the first two terms may be midway.
_FLOAT16_SIGMOID: Final = (
    (-0.00927734375, 0.4976807),
    (-0.00732421875, 0.49816898),
    (-0.00146484375, 0.49963382),
    (0.0029296875, 0.50073236),
    (0.0068359375, 0.5017089),
)
_FLOAT16_SOFTPLUS: Final = ((-6.389617919921875e-05, 0.6931152), (0.001888275146484375, 0.69409174))
_FLOAT16_SINH: Final = ((2.47265625, 5.884766),)
_FLOAT16_COSH: Final = ((0.03125, 1.0004884),)
_FLOAT16_ASINH: Final = ((0.2105712890625, 0.20904543), (14.2421875, 3.3505857), (258.5, 6.2480464))
_FLOAT16_ACOSH: Final = ((1.22265625, 0.65551764),)
_FLOAT16_ERF: Final = ((0.0014820098876953125, 0.0016722678),)
_FLOAT16_GELU: Final = ((5.960464477539063e-08, 2.9802326e-08),)
