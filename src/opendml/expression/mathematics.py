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

from fractions import Fraction

from opendml.expression.element_types import F16, F32, F64, I64
from opendml.expression.exponentials_and_logarithms import (
    exp_of_extreme,
    exp_of_negative,
    exp_of_normal,
    expm1_of_normal,
    expm1_parts,
    exponent_and_mantissa,
    half_exp,
    log1p_of_finite,
    log_of_double,
    log_of_normal,
    log_of_special,
    log_parts,
    narrow_power,
    scaled_coefficients,
    special_power,
    tanh_by_addition,
    two_part_power,
)
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
    with_sign_of,
)
from opendml.expression.function_tables import (
    FLOAT16_ACOSH,
    FLOAT16_ASINH,
    FLOAT16_COSH,
    FLOAT16_ERF,
    FLOAT16_EXP,
    FLOAT16_EXPM1,
    FLOAT16_GELU,
    FLOAT16_LOG,
    FLOAT16_LOG1P,
    FLOAT16_SIGMOID,
    FLOAT16_SINH,
    FLOAT16_SOFTPLUS,
    FUNCTION_FORMS,
    HALF_NEGATIVE_EXPM1,
    LOG2_E,
    NORMAL_TAIL,
    NORMAL_TAIL_DIVISOR,
    NORMAL_TAIL_IS_ZERO,
    SIGMOID_SCALE,
    TWO_LOG_2_HIGH,
    TWO_LOG_2_LOW,
)
from opendml.expression.ir import Bitcast, Expression, cast, constant, fused_multiply_add, select, unary


def exp(x: Expression) -> Expression:
    """The natural exponential, subnormal results included. Error: 0.90 ULP in F32, 1.21 in F64."""
    form = FUNCTION_FORMS[x.type]
    result = select(~(magnitude_of(x) < form.exp_normal), exp_of_extreme(x), exp_of_normal(x), rare=True)
    return right_for_float16(x, x, result, FLOAT16_EXP)


def expm1(x: Expression) -> Expression:
    """``exp(x) - 1`` without cancellation: ``2**n * expm1(r) + (2**n - 1)`` with ``x = n log 2 + r``.

    Error: 1.44 ULP in F32, 1.82 in F64.
    """
    form = FUNCTION_FORMS[x.type]
    # Half the power of two, doubled at the end, is still finite wherever the result is.
    fraction, half = expm1_parts(at_most(at_least(x, form.expm1_lowest), form.exp_highest), form.anchor - 1)
    extreme = fused_multiply_add(half, fraction, half - 0.5)
    unusual = ~(magnitude_of(x) < form.exp_normal)
    result = select(unusual, extreme + extreme, expm1_of_normal(x), rare=True)
    return right_for_float16(x, x, with_sign_of(x, result), FLOAT16_EXPM1)


def log(x: Expression) -> Expression:
    """The natural logarithm; minus infinity for 0, NaN below. Error: 0.88 ULP in F32, 0.82 in F64."""
    exponent, mantissa = exponent_and_mantissa(x)
    any_positive = log_parts(mantissa - 1, exponent, FUNCTION_FORMS[x.type].log)
    result = select(is_unusual(x), log_of_special(any_positive, x, pole=0.0), log_of_normal(x), rare=True)
    return right_for_float16(x, x, result, FLOAT16_LOG)


def log1p(x: Expression) -> Expression:
    """``log(1 + x)`` without cancellation; minus infinity for -1, NaN below. Error: 1.47 ULP in F32, 1.37 in F64."""
    usual = log1p_of_finite(x)
    unusual = ~((x > -1) & (x < INFINITY))
    result = with_sign_of(x, select(unusual, log_of_special(usual, x, pole=-1.0), usual, rare=True))
    return right_for_float16(x, x, result, FLOAT16_LOG1P)


def tanh(x: Expression) -> Expression:
    """The hyperbolic tangent.

    F64: ``t / (t + 1)`` with ``t = expm1(2 |x|) / 2``; with ``b`` the smaller of ``t`` and 1 this is, more exactly,
    ``b - b * (b / (t + 1))``. F32, faster: by the addition theorem. Error: 1.97 ULP in F32, 1.90 in F64.
    """
    bounded = at_most(magnitude_of(x), FUNCTION_FORMS[x.type].tanh_is_one)
    if x.type is F32:
        return with_sign_of(x, tanh_by_addition(bounded))
    fraction, half = expm1_parts(bounded + bounded, FUNCTION_FORMS[F64].anchor - 1)
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
    form = FUNCTION_FORMS[x.type]
    shift = FORMATS[x.type].shift_exponent
    bounded = at_most(at_least(x, form.exp_lowest), form.sigmoid_is_one)
    anchor = form.anchor - shift
    anchored = fused_multiply_add(bounded, -LOG2_E, anchor)
    n = anchored - anchor
    r = fused_multiply_add(n, form.log_2_high, bounded)
    r = fused_multiply_add(n, form.log_2_low, r)
    fraction = r * polynomial(r, scaled_coefficients((1.0, *form.exp), -SIGMOID_SCALE, -1.0))
    power = power_of_two(anchored)
    one = SIGMOID_SCALE * 2.0**-shift
    result = one / fused_multiply_add(power, SIGMOID_SCALE, fused_multiply_add(power, fraction, one))
    return right_for_float16(x, x, result, FLOAT16_SIGMOID)


def softplus(x: Expression) -> Expression:
    """``log(1 + exp(x))``, computed as ``max(x, 0) + log1p(exp(-|x|))``. Error: 1.88 ULP in F32, 1.74 in F64."""
    result = select(x < 0, 0.0, x) + log1p_of_finite(exp_of_negative(-magnitude_of(x)))
    return right_for_float16(x, x, result, FLOAT16_SOFTPLUS)


def sinh(x: Expression) -> Expression:
    """The hyperbolic sine: an odd polynomial up to 1, beyond it ``(e - 1 / e) / 2`` with ``e = exp(|x|)``.

    Error: 1.62 ULP in F32, 1.63 in F64.
    """
    form = FUNCTION_FORMS[x.type]
    magnitude = magnitude_of(x)
    square = magnitude * magnitude
    near = fused_multiply_add(magnitude * square, polynomial(square, form.sinh), magnitude)
    e = exp_of_normal(magnitude)
    usual = select(magnitude < 1, near, fused_multiply_add(e, 0.5, -0.5 / e))
    unusual = ~(magnitude < form.exp_normal)
    result = select(unusual, half_exp(magnitude), usual, rare=True)
    return with_sign_of(x, right_for_float16(x, magnitude, result, FLOAT16_SINH))


def cosh(x: Expression) -> Expression:
    """The hyperbolic cosine: ``(e + 1 / e) / 2`` with ``e = exp(|x|)``. Error: 1.35 ULP in F32, 1.60 in F64."""
    form = FUNCTION_FORMS[x.type]
    magnitude = magnitude_of(x)
    e = exp_of_normal(magnitude)
    usual = fused_multiply_add(e, 0.5, 0.5 / e)
    result = select(~(magnitude < form.exp_normal), half_exp(magnitude), usual, rare=True)
    return right_for_float16(x, magnitude, result, FLOAT16_COSH)


def asinh(x: Expression) -> Expression:
    """The inverse hyperbolic sine: ``log1p(a + a**2 / (1 + sqrt(1 + a**2)))`` with ``a = |x|``.

    Error: 1.86 ULP in F32, 1.71 in F64.
    """
    magnitude = magnitude_of(x)
    square = magnitude * magnitude
    rest = square / (unary("sqrt", fused_multiply_add(magnitude, magnitude, 1.0)) + 1)
    large = ~(magnitude < FUNCTION_FORMS[x.type].square_is_all)
    result = select(large, log_of_double(magnitude), log1p_of_finite(magnitude + rest), rare=True)
    return with_sign_of(x, right_for_float16(x, magnitude, result, FLOAT16_ASINH))


def acosh(x: Expression) -> Expression:
    """The inverse hyperbolic cosine: ``log1p(t + sqrt(t**2 + 2 t))`` with ``t = x - 1``; NaN below 1.

    Error: 2.06 ULP in F32, 1.93 in F64.
    """
    t = x - 1
    usual = log1p_of_finite(t + unary("sqrt", fused_multiply_add(t, t, t + t)))
    unusual = ~((x >= 1) & (x < FUNCTION_FORMS[x.type].square_is_all))
    result = select(unusual, select(x < 1, NAN, log_of_double(x)), usual, rare=True)
    return right_for_float16(x, x, result, FLOAT16_ACOSH)


def atanh(x: Expression) -> Expression:
    """The inverse hyperbolic tangent: ``log1p(2 a / (1 - a)) / 2`` with ``a = |x|``; NaN beyond 1.

    Error: 2.17 ULP in F32, 1.93 in F64.
    """
    magnitude = magnitude_of(x)
    usual = log1p_of_finite((magnitude + magnitude) / (1 - magnitude)) * 0.5
    pole = select(magnitude.equals(1), INFINITY, NAN, x.type)
    return with_sign_of(x, select(~(magnitude < 1), pole, usual, rare=True))


def erf(x: Expression) -> Expression:
    """The error function: ``1 - (1 - y / k)**k`` with ``y = |x| * polynomial(|x|)``, ``k`` 4 in F32 and 8 in F64.

    The polynomial is fitted to what makes this the error function. The power is made of squares, without cancellation:
    ``y - y**2 / (2 k)`` is the same for ``k / 2``. Only what is added to the linear term is rounded on the way.
    Error: 1.59 ULP in F32, 1.39 in F64.
    """
    form = FUNCTION_FORMS[x.type]
    bounded = at_most(magnitude_of(x), form.erf_is_one)
    linear, *others = form.erf
    rest = bounded * polynomial(bounded, others)
    k = form.erf_power
    while k > 2:
        y = fused_multiply_add(bounded, linear, rest)
        rest = fused_multiply_add(y * (-0.5 / k), y, rest)
        k //= 2
    y = fused_multiply_add(bounded, linear, rest)
    return with_sign_of(x, right_for_float16(x, bounded, fused_multiply_add(y * -0.25, y, y), FLOAT16_ERF))


def gelu(x: Expression) -> Expression:
    """``x`` times the probability that a standard normal variable is below it, to full relative accuracy; F32 only.

    ``max(x, 0) - t exp(-t**2 / 2) / d(t)`` with ``t = |x|`` and ``d(t) = 2 (t + 1 - t * rational(t))``: what is hard to
    compute is a small part of ``d``. The one division is by ``d`` times the rational's divisor, whose own error does
    not matter. The quotient is corrected by its remainder and by what the last addition of the divisor rounded off.
    The exponential is that of ``-r / 2`` with ``r = t**2 - 2 n log 2``, where ``n * TWO_LOG_2_HIGH`` is exact.
    Everything is a large power of two too large, so that only the result underflows. Error: 1.79 ULP.
    """
    form = FUNCTION_FORMS[x.type]
    shift = FORMATS[x.type].shift_exponent
    t = at_most(magnitude_of(x), NORMAL_TAIL_IS_ZERO)
    anchor = form.anchor + shift - 1
    anchored = fused_multiply_add(t * t, -0.5 * LOG2_E, anchor)
    n = anchored - anchor
    r = fused_multiply_add(n, TWO_LOG_2_LOW, fused_multiply_add(t, t, n * TWO_LOG_2_HIGH))
    fraction = r * polynomial(r, HALF_NEGATIVE_EXPM1)
    factor = polynomial(t, NORMAL_TAIL_DIVISOR)
    product = t * factor
    rest = fused_multiply_add(-t, polynomial(t, NORMAL_TAIL), factor)
    larger, smaller = select(product < rest, rest, product), select(product < rest, product, rest)
    divisor, divisor_low = fast_two_sum(larger, smaller)
    reciprocal = 1 / divisor
    dividend = product * power_of_two(anchored)
    quotient = dividend * fused_multiply_add(reciprocal, fraction, reciprocal)
    remainder = fused_multiply_add(dividend, fraction, fused_multiply_add(-quotient, divisor, dividend))
    remainder = fused_multiply_add(-quotient, divisor_low, remainder)
    below = fused_multiply_add(remainder, reciprocal, quotient)
    result = fused_multiply_add(below, -(2.0**-shift), select(x < 0, x * 0.0, x))
    return right_for_float16(x, x, result, FLOAT16_GELU)


def pow(x: Expression, y: Expression) -> Expression:
    """``x`` to the power ``y`` with all special cases of C's ``pow``.

    F32 is computed in F64: the logarithm must be eight bits more precise than the result, and arithmetic in two parts
    costs more operations than half of the lanes. F64 has its logarithm in two parts.
    Error: 0.53 ULP in F32, 1.32 in F64.
    """
    usual = narrow_power(x, cast(y, F64)) if x.type is F32 else two_part_power(x, y)
    unusual = is_unusual(x) | ~(magnitude_of(y) < INFINITY)
    return select(unusual, special_power(x, y), usual, rare=True)


def square(x: Expression) -> Expression:
    """``x * x``."""
    return x * x


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
    power = narrow_power(x, y) if x.type is F32 else two_part_power(x, y, low)
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
