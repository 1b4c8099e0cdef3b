"""Mathematical functions written in the grammar: polynomials and bits, no library, the same bits on every target.

Every function maps expressions of type ``F32`` or ``F64`` to one of the same type (float16 values are widened to F32 by
the caller). They are straight-line: a few selects for special values, no loops, no tables, no fused multiply-adds, so
they vectorise anywhere and the compiled code equals the interpreter bit for bit. Infinities, NaN, -0, overflow and
gradual underflow come out as C's library functions give them. The errors stated are the largest ones found: among all
arguments in F32, in dense samples in F64 and for two arguments.

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

from opendml.expression.ir import (
    F16,
    F32,
    F64,
    I32,
    I64,
    Bitcast,
    ElementType,
    Expression,
    cast,
    constant,
    float_bits,
    select,
    unary,
)

_NAN: Final = float("nan")
_INFINITY: Final = float("inf")


def exp(x: Expression) -> Expression:
    """The natural exponential, subnormal results included. Error: 0.90 ULP in F32, 1.2 in F64."""
    return _exp_of_sum(x)


def expm1(x: Expression) -> Expression:
    """``exp(x) - 1`` without cancellation: ``2**n * expm1(r) + (2**n - 1)`` with ``x = n log 2 + r``.

    Error: 1.53 ULP in F32, 1.5 in F64.
    """
    form = _FORMS[x.type]
    clamped = _at_most(_at_least(x, form.expm1_lowest), form.exp_highest)
    fraction, exponent = _exp_parts(clamped, form.expm1)
    # Half the power of two, doubled at the end, is still finite wherever the result is.
    half = _power_of_two(exponent, 0.5, x.type)
    result = half * fraction + (half - 0.5)
    return select(unary("abs", x) < form.epsilon, x, result + result)


def log(x: Expression) -> Expression:
    """The natural logarithm; minus infinity for 0, NaN below. Error: 0.91 ULP in F32, 0.9 in F64."""
    form = _FORMS[x.type]
    exponent, mantissa = _exponent_and_mantissa(x)
    return _log_special(_log_parts(mantissa - 1, exponent, form.log), x, pole=0.0)


def log1p(x: Expression) -> Expression:
    """``log(1 + x)`` without cancellation; minus infinity for -1, NaN below. Error: 1.46 ULP in F32, 1.4 in F64."""
    return _log_special(_log1p_finite(x), x, pole=-1.0)


def tanh(x: Expression) -> Expression:
    """The hyperbolic tangent: an odd polynomial near 0, elsewhere ``1 - 2 / (exp(2 |x|) + 1)``.

    Error: 1.34 ULP in F32, 1.4 in F64.
    """
    form = _FORMS[x.type]
    magnitude = _at_most(unary("abs", x), form.tanh_is_one)
    square = magnitude * magnitude
    near = magnitude + magnitude * (square * _polynomial(square, form.tanh_near))
    fraction, exponent = _exp_parts(magnitude + magnitude, form.exp)
    far = 1 - 2 / ((fraction + 1) * _power_of_two(exponent, 1.0, x.type) + 1)
    return _with_sign_of(x, select(magnitude < _TANH_SPLIT, near, far))


def sigmoid(x: Expression) -> Expression:
    """The logistic function ``1 / (1 + exp(-x))``.

    With ``q`` its value at ``-|x|`` it is ``1 - q`` or, more exactly than ``q`` itself, ``exp(x) - exp(x) * q``.
    Error: 1.81 ULP in F32, 2.0 in F64.
    """
    decay = _exp_of_negative(-unary("abs", x))
    quotient = decay / (decay + 1)
    base = select(x < 0, decay, 1.0)
    return base - base * quotient


def softplus(x: Expression) -> Expression:
    """``log(1 + exp(x))``, computed as ``max(x, 0) + log1p(exp(-|x|))``. Error: 1.8 ULP in F32 and F64."""
    return select(x < 0, 0.0, x) + _log1p_finite(_exp_of_negative(-unary("abs", x)))


def erf(x: Expression) -> Expression:
    """The error function: an odd polynomial near 0, elsewhere ``1 - exp(p(|x|))``, ``p`` fitted to ``log(erfc)``.

    Error: 1.3 ULP in F32 and F64.
    """
    form = _FORMS[x.type]
    magnitude = _at_most(unary("abs", x), form.erf_is_one)
    square = magnitude * magnitude
    near = magnitude + magnitude * _polynomial(square, form.erf_near)
    fraction, exponent = _exp_parts(_polynomial(magnitude, form.erf_far), form.exp)
    far = 1 - (fraction + 1) * _power_of_two(exponent, 1.0, x.type)
    return _with_sign_of(x, select(magnitude < form.erf_split, near, far))


def normal_tail(t: Expression) -> Expression:
    """The probability that a standard normal variable exceeds ``t >= 0``, to full relative accuracy; F32 only.

    ``exp(-t*t / 2)`` times a polynomial in ``(t - 2) / (t + 2)``, the variable of M. M. Shepherd and J. G. Laframboise
    (1981). The square is taken in two parts, since the exponential would magnify its rounding error.
    Error: 5.2 ULP where the result is a normal number.
    """
    bounded = _at_most(t, _NORMAL_TAIL_IS_ZERO)
    high = _leading_half(bounded)
    rest = (bounded - high) * (bounded + high) * -0.5
    weight = 4 / (bounded + 2)
    return _exp_of_negative(high * high * -0.5, rest) * (weight * _polynomial(1 - weight, _NORMAL_TAIL))


def pow(x: Expression, y: Expression) -> Expression:
    """``x`` to the power ``y`` with all special cases of C's ``pow``.

    F32 is computed in F64: the logarithm must be eight bits more precise than the result, and arithmetic in two parts
    costs more operations than half of the lanes. F64 has its logarithm in two parts. Error: 0.52 ULP in
    F32, 1.2 in F64.
    """
    magnitude = unary("abs", x)
    power = _narrow_power(magnitude, cast(y, F64)) if x.type is F32 else _two_part_power(magnitude, y)
    half = y * 0.5
    integral = unary("trunc", y).equals(y)
    odd = integral & unary("trunc", half).differs(half)
    signed = select(odd, _with_sign_of(x, power), power)
    invalid = (x < 0) & ~integral & x.differs(-_INFINITY)
    one = y.equals(0) | x.equals(1) | (x.equals(-1) & unary("abs", y).equals(_INFINITY))
    return select(one, 1.0, select(invalid, _NAN, signed))


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

    Error: 0.51 ULP for odd ``p`` in F32, 1.3 in F64; 0.9 for even ``p`` in F32.
    """
    while p % 2 == 0:
        x, p = unary("sqrt", x), p // 2
    if p == 1:
        return x
    high = 1 / p
    low = float((1 - Fraction(high) * p) / p)
    y = constant(high, F64)
    power = _narrow_power(x, y) if x.type is F32 else _two_part_power(x, y, low)
    return select(x < 0, _NAN, power)


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


def _exp_of_sum(x: Expression, low: Expression | None = None) -> Expression:
    """``exp(x + low)`` for any ``x`` and a ``low`` that is small beside 1."""
    form = _FORMS[x.type]
    x = _at_most(_at_least(x, form.exp_lowest), form.exp_highest)
    negative = x < 0
    # The power of two need not be a normal number: it is made of two factors, of which the sign of x tells the second.
    shift = form.shift_exponent
    anchor = select(negative, form.anchor + shift, form.anchor - shift, x.type)
    fraction, exponent = _exp_parts(x, form.exp, low, anchor)
    outer = select(negative, 2.0**-shift, 2.0**shift, x.type)
    return (fraction + 1) * _power_of_two(exponent, 1.0, x.type) * outer


def _exp_of_negative(x: Expression, low: Expression | None = None) -> Expression:
    """``exp(x + low)`` for ``x <= 0`` and a ``low`` that is small beside 1."""
    form = _FORMS[x.type]
    shift = form.shift_exponent
    anchor = constant(form.anchor + shift, x.type)
    fraction, exponent = _exp_parts(_at_least(x, form.exp_lowest), form.exp, low, anchor)
    return (fraction + 1) * _power_of_two(exponent, 1.0, x.type) * 2.0**-shift


def _exp_parts(
    x: Expression, coefficients: Sequence[float], low: Expression | None = None, anchor: Expression | None = None
) -> tuple[Expression, Expression]:
    """``exp(r) - 1`` and ``n`` (shifted to the place of an exponent) with ``x + low = n log(2) + r``.

    Adding the anchor, 1.5 * 2**m with m bits of mantissa, rounds to an integer and leaves it in the lowest bits; an
    anchor that is greater or smaller by k adds k to the exponent.
    """
    form = _FORMS[x.type]
    if anchor is None:
        anchor = constant(form.anchor, x.type)
    anchored = x * _LOG2_E + anchor
    n = anchored - anchor
    high = x - n * form.log_2_high
    subtrahend = n * form.log_2_low if low is None else n * form.log_2_low - low
    r = high - subtrahend
    rounded_off = (high - r) - subtrahend
    fraction = r + (r * r * _polynomial(r, coefficients) + rounded_off)
    return fraction, Bitcast(anchored, form.integer) << form.mantissa_bits


def _power_of_two(exponent: Expression, factor: float, type: ElementType) -> Expression:
    """``factor * 2**n`` for an ``n`` from ``_exp_parts``; garbage, not NaN, if that was NaN."""
    return Bitcast(exponent + float_bits(factor, type), type)


# ---------------------------------------------------------------------------------------------------------------------
# The logarithm: log(2**n * (1 + f)) = n log(2) + f - f**2 / 2 + f**3 * polynomial, sqrt(1/2) <= 1 + f < sqrt(2).


def _exponent_and_mantissa(x: Expression) -> tuple[Expression, Expression]:
    """``n`` (at the place of an exponent) and the mantissa of a positive, finite ``x``, subnormal ones included."""
    form = _FORMS[x.type]
    subnormal = x < form.smallest_normal
    scaled = select(subnormal, x * 2.0**form.mantissa_bits, x)
    correction = select(subnormal, form.mantissa_bits << form.mantissa_bits, 0, form.integer)
    exponent = _exponent(scaled)
    return exponent - correction, Bitcast(Bitcast(scaled, form.integer) - exponent, x.type)


def _exponent(x: Expression) -> Expression:
    """``n`` of a positive normal number, at the place of an exponent: ``x * 2**-n`` is in [sqrt(1/2), sqrt(2))."""
    form = _FORMS[x.type]
    return (Bitcast(x, form.integer) - float_bits(0.5**0.5, x.type)) & -(1 << form.mantissa_bits)


def _log_parts(f: Expression, exponent: Expression, coefficients: Sequence[float]) -> Expression:
    """``log((1 + f) * 2**n)``; the sign of a zero ``f`` survives."""
    form = _FORMS[f.type]
    unit = 0.5**form.mantissa_bits
    negated = cast(constant(0, form.integer) - exponent, f.type)
    square = f * f
    curve = square * 0.5 - square * f * _polynomial(f, coefficients)
    return (f - (curve + negated * (form.log_2_low * unit))) - negated * (form.log_2_high * unit)


def _log1p_finite(x: Expression) -> Expression:
    """``log(1 + x)`` for a finite ``x > -1``: ``1 + x = 2**n * (1 + f)``, ``f`` computed without the rounding of 1 + x.

    ``n`` is taken from the rounded sum; ``x * 2**-n`` and ``2**-n - 1`` are exact.
    """
    form = _FORMS[x.type]
    exponent = _exponent(x + 1)
    scaled = Bitcast(Bitcast(x, form.integer) - exponent, x.type)
    # Four times the power of two is a normal number even for the largest x.
    quadruple = Bitcast(constant(float_bits(4.0, x.type), form.integer) - exponent, x.type)
    return _log_parts(scaled - (1 - quadruple * 0.25), exponent, form.log)


def _log_special(result: Expression, x: Expression, pole: float) -> Expression:
    """``result`` where ``x`` is finite and beyond the pole; the right infinity or NaN elsewhere."""
    below = select(x.equals(pole), -_INFINITY, _NAN, x.type)
    return select(x > pole, select(x.equals(_INFINITY), x, result), below)


# ---------------------------------------------------------------------------------------------------------------------
# Powers of non-negative numbers: exp(y * log(x)).


def _narrow_power(x: Expression, y: Expression) -> Expression:
    """``x`` (F32) to the power ``y`` (F64) as F32, with polynomials just good enough for that."""
    wide = cast(x, F64)
    exponent = _exponent(wide)
    mantissa = Bitcast(Bitcast(wide, I64) - exponent, F64)
    logarithm = _log_special(_log_parts(mantissa - 1, exponent, _NARROW_LOG), wide, pole=0.0)
    product = _at_most(_at_least(y * logarithm, -110.0), 100.0)
    fraction, power = _exp_parts(product, _NARROW_EXP)
    return cast((fraction + 1) * _power_of_two(power, 1.0, F64), F32)


def _two_part_power(x: Expression, y: Expression, y_low: float = 0.0) -> Expression:
    """``x`` to the power ``y + y_low``, all F64."""
    log_high, log_low = _two_part_log(x)
    # Beyond 2**64 every power but that of 1 overflows or vanishes; below, no product does.
    bounded = _at_most(_at_least(y, -(2.0**64)), 2.0**64)
    high, low = _two_product(bounded, log_high)
    low = low + (bounded * log_low + log_high * y_low)
    small = select(unary("abs", high) < 800.0, low, 0.0)
    extreme = select(x.equals(0).differs(y < 0), 0.0, _INFINITY, F64)
    result = select(x.equals(0) | x.equals(_INFINITY), extreme, _exp_of_sum(high, small))
    return select(x.differs(x) | y.differs(y), x + y, result)


def _two_part_log(x: Expression) -> tuple[Expression, Expression]:
    """``log(x)`` of a positive, finite F64 number as the sum of two.

    With ``s = f / (2 + f)``: ``log(1 + f) = 2 s + s**3 * (2/3 + s**2 * polynomial(s**2))``, everything but the
    polynomial in two parts.
    """
    form = _FORMS[F64]
    exponent, mantissa = _exponent_and_mantissa(x)
    n = cast(exponent, F64) * 0.5**form.mantissa_bits
    f = mantissa - 1
    divisor = f + 2
    s = f / divisor
    product, product_low = _two_product(s, divisor)
    s_low = (f - product - product_low - s * (f - (divisor - 2))) / divisor
    z, z_low = _two_product(s, s)
    z_low = z_low + s * s_low * 2
    bracket, bracket_low = _fast_two_sum(constant(2 / 3, F64), z * _polynomial(z, _ATANH) + _TWO_THIRDS_LOW)
    cube, cube_low = _two_product(z, s)
    cube_low = cube_low + (z * s_low + z_low * s)
    tail, tail_low = _two_product(cube, bracket)
    tail_low = tail_low + (cube * bracket_low + cube_low * bracket)
    log_f, log_f_low = _fast_two_sum(s * 2, tail)
    log_f_low = log_f_low + (s_low * 2 + tail_low)
    total, total_low = _fast_two_sum(n * form.log_2_high, log_f)
    return _fast_two_sum(total, total_low + (log_f_low + n * form.log_2_low))


def _two_product(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """The rounded product and, all but exactly, its rounding error."""
    product = a * b
    a_high, b_high = _leading_half(a), _leading_half(b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + (a_high * b_low + a_low * b_high)) + a_low * b_low


def _fast_two_sum(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """The rounded sum and its error, for ``|a| >= |b|`` or ``a = 0``."""
    total = a + b
    return total, b - (total - a)


# ---------------------------------------------------------------------------------------------------------------------


def _polynomial(x: Expression, coefficients: Sequence[float]) -> Expression:
    """Horner's scheme, lowest coefficient first."""
    result: Expression = constant(coefficients[-1], x.type)
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def _at_most(x: Expression, bound: float) -> Expression:
    """The smaller of ``x`` and ``bound``; NaN stays."""
    return select(x > bound, bound, x)


def _at_least(x: Expression, bound: float) -> Expression:
    """The larger of ``x`` and ``bound``; NaN stays."""
    return select(x < bound, bound, x)


def _with_sign_of(x: Expression, magnitude: Expression) -> Expression:
    """The non-negative ``magnitude`` with the sign of ``x``, -0 included."""
    integer = _FORMS[x.type].integer
    sign = Bitcast(x, integer) & (1 << (x.type.bits - 1))
    return Bitcast(Bitcast(magnitude, integer) | sign, x.type)


def _leading_half(x: Expression) -> Expression:
    """``x`` without the lower half of its mantissa: products of such numbers are exact."""
    form = _FORMS[x.type]
    return Bitcast(Bitcast(x, form.integer) & -(1 << (form.mantissa_bits // 2 + 1)), x.type)


@dataclass(frozen=True, slots=True)
class _Form:
    """What the functions need to know about a floating-point type; polynomials have their lowest coefficient first."""

    integer: ElementType
    mantissa_bits: int
    anchor: float
    """1.5 * 2**mantissa_bits: see ``_exp_parts``."""
    shift_exponent: int
    """A power of two that brings every result of ``exp``, too large or too small, into the range of normal numbers."""
    smallest_normal: float
    epsilon: float
    """Below it, ``expm1(x)`` is ``x``."""
    log_2_high: float
    """log(2) with so few bits that its product with any exponent is exact."""
    log_2_low: float
    exp_lowest: float
    """Here and below, ``exp`` is 0."""
    exp_highest: float
    """Here and above, ``exp`` is infinite."""
    expm1_lowest: float
    """Here and below, ``expm1`` is -1."""
    tanh_is_one: float
    erf_split: float
    erf_is_one: float
    exp: tuple[float, ...]
    """(exp(r) - 1 - r) / r**2 for |r| <= log(2) / 2, relative to exp(r)."""
    expm1: tuple[float, ...]
    """The same, relative to exp(r) - 1."""
    log: tuple[float, ...]
    """(log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f <= sqrt(2)."""
    tanh_near: tuple[float, ...]
    """(tanh(x) / x - 1) / x**2 in x**2, up to 0.6."""
    erf_near: tuple[float, ...]
    """erf(x) / x - 1 in x**2, up to erf_split."""
    erf_far: tuple[float, ...]
    """log(1 - erf(x)) from erf_split to erf_is_one, relative to 1 / (1 - erf(x))."""


_TANH_SPLIT: Final = 0.6
_LOG2_E: Final = 1.4426950408889634

_FORMS: Final = {
    F32: _Form(
        integer=I32,
        mantissa_bits=23,
        anchor=12582912.0,
        shift_exponent=64,
        smallest_normal=2.0**-126,
        epsilon=2.0**-25,
        log_2_high=0.693145751953125,
        log_2_low=1.4286068e-06,
        exp_lowest=-104.5,
        exp_highest=89.0,
        expm1_lowest=-18.0,
        tanh_is_one=9.25,
        erf_split=0.9,
        erf_is_one=3.95,
        exp=(0.49999994, 0.16666514, 0.04166806, 0.008369549, 0.0013843873),
        expm1=(0.5, 0.16666666, 0.041666467, 0.008333639, 0.0013934951, 0.00019672094),
        log=(0.3333333, -0.25000826, 0.20001265, -0.16623212, 0.14200686, -0.13160509, 0.12769683, -0.07644062),
        tanh_near=(-0.333333, 0.13331936, -0.053784717, 0.020798625, -0.0058979667),
        erf_near=(0.12837917, -0.3761263, 0.11283624, -0.02685556, 0.005191753, -0.0008039753, 7.9431e-05),
        erf_far=(
            -0.00016645102, -1.1277972, -0.63697606, -0.10411368, 0.022315187, -0.0030654683, 0.00019821458,
        ),
    ),
    F64: _Form(
        integer=I64,
        mantissa_bits=52,
        anchor=6755399441055744.0,
        shift_exponent=512,
        smallest_normal=2.0**-1022,
        epsilon=2.0**-54,
        log_2_high=0.6931471805598903,
        log_2_low=5.497923018708371e-14,
        exp_lowest=-746.0,
        exp_highest=710.0,
        expm1_lowest=-38.0,
        tanh_is_one=19.25,
        erf_split=1.0,
        erf_is_one=5.95,
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
        log=(
            0.33333333333333454, -0.24999999999998912, 0.19999999999945614, -0.16666666666915983, 0.1428571429391053,
            -0.1249999998194238, 0.11111110511615262, -0.10000000382873571, 0.09090933666078163,
            -0.08333345870765856, 0.07691710969819937, -0.07141996898411643, 0.06675196430099434,
            -0.06269847189798351, 0.05817359065154239, -0.05326352521055436, 0.054181623909773366,
            -0.06277600443777936, 0.056916690038286144, -0.024202631376764656,
        ),
        tanh_near=(
            -0.33333333333333326, 0.13333333333331865, -0.05396825396725824, 0.021869488502532588,
            -0.008863234866025619, 0.003592119686957536, -0.001455764171661783, 0.0005896223836514288,
            -0.00023751277474245785, 9.248905492950927e-05, -3.1177931309414e-05, 6.502997259566522e-06,
        ),
        erf_near=(
            0.1283791670955126, -0.376126389031841, 0.11283791670971098, -0.026866170648031113, 0.005223977652691972,
            -0.0008548328535747636, 0.00012055386190903535, -1.4926881391099837e-05, 1.6481057515845624e-06,
            -1.655711373439662e-07, 1.60131154537847e-08, -1.6464294529433302e-09, 1.4342800805817174e-10,
        ),
        erf_far=(
            -1.796140648627209e-07, -1.128377329322531, -0.6366284886621458, -0.10274725280164779,
            0.019078156158797332, 0.00028048834221173374, -0.0017690007117572273, 0.0006411730152011088,
            -4.482286392335559e-05, -7.03662930597114e-05, 4.503716336130326e-05, -1.6513845069995053e-05,
            4.327013340966415e-06, -8.505682217130382e-07, 1.2570409939258544e-07, -1.3626624311964729e-08,
            1.0256963105822125e-09, -4.7960239605820125e-11, 1.0496199258093703e-12,
        ),
    ),
}  # fmt: skip

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

_NORMAL_TAIL_IS_ZERO: Final = 14.375
_NORMAL_TAIL: Final = (
    0.168102, -0.08285115, 0.0071997666, 0.009180671, -0.00012296592, -0.0016900885, -0.00046291368, 0.00022935234,
    0.00016304784, -7.1444642e-06, -7.3438664e-06, 9.958952e-06,
)  # fmt: skip
"""The normal tail times exp(t**2 / 2) * (t + 2) / 4, in (t - 2) / (t + 2)."""
