"""Mathematical functions written in the grammar: polynomials and bits, no library, the same bits on every target.

Every function maps expressions of type ``F32`` or ``F64`` to one of the same type (float16 values are widened to F32 by
the caller). They are straight-line: a few selects for special values, no loops, no tables, no fused multiply-adds, so
they vectorise anywhere and the compiled code equals the interpreter bit for bit. Infinities, NaN, -0, overflow and
gradual underflow come out as C's library functions give them.

Sources: argument reductions as in W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980), and
J.-M. Muller, "Elementary Functions" (3rd edition, 2016); exact products and sums as in T. J. Dekker, "A floating-point
technique for extending the available precision" (1971). The coefficients are minimax polynomials: E. Remez's exchange
algorithm in multiple precision, coefficients rounded one after another, the rest fitted anew each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from opendml.expression.ir import (
    BOOL,
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
    """The natural exponential, also where the result is subnormal. Error: see ``ERROR_BOUNDS``."""
    return _exp_of_sum(x, None)


def expm1(x: Expression) -> Expression:
    """``exp(x) - 1`` without cancellation: ``2**n * expm1(r) + (2**n - 1)`` with ``x = n log 2 + r``."""
    form = _FORMS[x.type]
    clamped = _at_most(_at_least(x, form.expm1_lowest), form.exp_highest)
    fraction, exponent = _exp_parts(clamped, constant(0.0, x.type), form.expm1)
    # Half the power of two, doubled at the end, is still finite wherever the result is.
    half = _scaled(constant(0.5, x.type), exponent)
    result = half * fraction + (half - 0.5)
    return select(unary("abs", x) < form.epsilon, x, result + result)


def log(x: Expression) -> Expression:
    """The natural logarithm: minus infinity for 0, NaN for negative numbers."""
    form = _FORMS[x.type]
    subnormal = x < form.smallest_normal
    scaled = select(subnormal, x * 2.0**form.mantissa_bits, x)
    exponent, mantissa = _exponent_and_mantissa(scaled)
    correction = select(subnormal, -form.mantissa_bits << form.mantissa_bits, 0, form.integer)
    return _log_special(_log_parts(mantissa - 1, exponent + correction, form.log), x, pole=0.0)


def log1p(x: Expression) -> Expression:
    """``log(1 + x)`` without cancellation: minus infinity for -1, NaN below."""
    return _log_special(_log1p_finite(x), x, pole=-1.0)


def tanh(x: Expression) -> Expression:
    """The hyperbolic tangent, ``E / (E + 2)`` with ``E = expm1(2 |x|)``."""
    form = _FORMS[x.type]
    magnitude = _at_most(unary("abs", x), form.tanh_is_one)
    fraction, exponent = _exp_parts(magnitude + magnitude, constant(0.0, x.type), form.expm1)
    power = _scaled(constant(1.0, x.type), exponent)
    grown = power * fraction + (power - 1)
    return _with_sign_of(x, grown / (grown + 2))


def sigmoid(x: Expression) -> Expression:
    """The logistic function ``1 / (1 + exp(-x))``, computed from ``exp(-|x|)`` so that neither tail is lost."""
    decay = _exp_of_negative(-unary("abs", x))
    return select(x < 0, decay, constant(1, x.type)) / (decay + 1)


def softplus(x: Expression) -> Expression:
    """``log(1 + exp(x))``, computed as ``max(x, 0) + log1p(exp(-|x|))``."""
    return select(x < 0, 0.0, x) + _log1p_finite(_exp_of_negative(-unary("abs", x)))


def erf(x: Expression) -> Expression:
    """The error function: an odd polynomial near 0, elsewhere ``1 - exp(p(|x|))``, ``p`` fitted to ``log(erfc)``."""
    form = _FORMS[x.type]
    magnitude = _at_most(unary("abs", x), form.erf_is_one)
    square = magnitude * magnitude
    near = magnitude + magnitude * _polynomial(square, form.erf_near)
    fraction, exponent = _exp_parts(_polynomial(magnitude, form.erf_far), constant(0.0, x.type), form.exp)
    far = 1 - _scaled(fraction + 1, exponent)
    return _with_sign_of(x, select(magnitude < form.erf_split, near, far))


def normal_tail(t: Expression) -> Expression:
    """The probability that a standard normal variable exceeds ``t >= 0``, to full relative accuracy; F32 only.

    ``exp(-t*t / 2)`` times a polynomial in ``(t - 4) / (t + 4)`` (the variable is M. M. Shepherd and J. G. Laframboise's,
    1981). The square is taken in two parts, since its rounding error would be magnified by the exponential.
    """
    bounded = _at_most(t, _NORMAL_TAIL_IS_ZERO)
    high = _leading_half(bounded)
    rest = (bounded - high) * (bounded + high) * -0.5
    weight = 8 / (bounded + 4)
    return _exp_of_negative(high * high * -0.5, rest) * (weight * _polynomial(1 - weight, _NORMAL_TAIL))


def pow(x: Expression, y: Expression) -> Expression:
    """``x`` to the power ``y`` with all special cases of C's ``pow``.

    F32 is computed in F64: the logarithm needs eight bits more than the result, and two-part arithmetic in F32 takes
    more operations than halving the lanes costs. F64 carries the logarithm in two parts.
    """
    magnitude = cast(_power_in_f64(cast(unary("abs", x), F64), cast(y, F64)), F32) if x.type is F32 else _power(x, y)
    return _pow_special(magnitude, x, y)


def power_integer(x: Expression, n: int) -> Expression:
    """``x`` to the constant integer power ``n`` by repeated squaring; relative error about ``|n|`` roundings."""
    if n < 0:
        return 1 / power_integer(x, -n)
    result, square = constant(1, x.type), x
    first = True
    while n:
        if n & 1:
            result, first = (square if first else result * square), False
        n >>= 1
        if n:
            square = square * square
    return result


def root(x: Expression, p: int) -> Expression:
    """The ``p``-th root of ``x``, for a constant integer ``p >= 1``; NaN for negative ``x`` unless ``p`` is 1."""
    while p % 2 == 0:
        x, p = unary("sqrt", x), p // 2
    if p == 1:
        return x
    if x.type is F64:
        return select(x < 0, _NAN, _power_of_parts(unary("abs", x), *_reciprocal_parts(p)))
    wide = cast(x, F64)
    return cast(select(wide < 0, _NAN, _power_in_f64(unary("abs", wide), constant(1 / p, F64))), F32)


def narrow_to_f16(x: Expression) -> Expression:
    """An F64 value as F16 with one rounding.

    The value is first cut to float32's precision, with the last bit set if anything was lost (rounding to odd, see
    S. Boldo and G. Melquiond, "When double rounding is odd", 2005); then the second rounding is the only one.
    """
    bits = Bitcast(x, I64)
    lost = (1 << 29) - 1
    sticky = cast((bits & lost).differs(0), I64) << 29
    return cast(cast(Bitcast((bits & ~lost) | sticky, F64), F32), F16)
