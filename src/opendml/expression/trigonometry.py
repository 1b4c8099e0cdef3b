"""Trigonometric functions written in the grammar, for F32 and F64, in radians.

Arguments are reduced to ``|r| <= pi / 4`` with ``pi / 2`` in three parts (W. J. Cody and W. Waite, 1980), fused
multiply-adds making the first two steps exact. Where that is not precise enough, from ``2**13`` on in F32, the argument
is multiplied by as many digits of ``2 / pi`` as there are, whole turns being left out (M. H. Payne and R. N. Hanek,
"Radian reduction for trigonometric functions", 1983), so every finite argument gives the right result. The inverse
functions follow J.-M. Muller, "Elementary Functions" (3rd edition, 2016). Coefficients and errors: as in
``opendml.expression.mathematics``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from opendml.expression.element_types import F32, F64, I64
from opendml.expression.floating_point import (
    FORMATS,
    INFINITY,
    fast_two_sum,
    magnitude_of,
    negated_by,
    polynomial,
    right_for_float16,
    sign_bit,
    two_product,
    two_sum,
    with_sign_of,
)
from opendml.expression.ir import Bitcast, Expression, cast, constant, fused_multiply_add, select, unary


def sin(x: Expression) -> Expression:
    """The sine. Error: 1.17 ULP in F32, 1.14 in F64."""
    magnitude = magnitude_of(x)
    result = right_for_float16(x, magnitude, _of_angle(magnitude, _sine), _FLOAT16_SIN)
    return negated_by(sign_bit(x), result)


def cos(x: Expression) -> Expression:
    """The cosine. Error: 1.16 ULP in F32, 1.14 in F64."""
    magnitude = magnitude_of(x)
    result = _of_angle(magnitude, lambda angle: _sine(angle.turned()))
    return right_for_float16(x, magnitude, result, _FLOAT16_COS)


def tan(x: Expression) -> Expression:
    """The tangent. Error: 1.78 ULP in F32, 1.58 in F64."""
    magnitude = magnitude_of(x)
    result = right_for_float16(x, magnitude, _of_angle(magnitude, _tangent), _FLOAT16_TAN)
    return negated_by(sign_bit(x), result)


def asin(x: Expression) -> Expression:
    """The arc sine: a polynomial up to 1/2, beyond it ``pi / 2 - 2 asin(sqrt((1 - x) / 2))``; NaN beyond 1.

    Error: 1.19 ULP in F32, 1.09 in F64.
    """
    form = _FORMS[x.type]
    magnitude = magnitude_of(x)
    small = magnitude <= 0.5
    leading, rest = _asin_of_half(magnitude, small)
    difference = fused_multiply_add(leading, -2.0, form.quarter_turn[0])
    rounded_off = fused_multiply_add(leading, -2.0, form.quarter_turn[0] - difference)
    other_rest = fused_multiply_add(rest, -2.0, rounded_off + form.quarter_turn_low)
    return with_sign_of(x, select(small, leading, difference) + select(small, rest, other_rest))


def acos(x: Expression) -> Expression:
    """The arc cosine: ``pi / 2 - asin(x)`` up to 1/2, beyond it ``2 asin(sqrt((1 - |x|) / 2))`` or pi minus that.

    NaN beyond 1. Error: 1.14 ULP in F32, 1.12 in F64.
    """
    form = _FORMS[x.type]
    magnitude = magnitude_of(x)
    small = magnitude <= 0.5
    leading, rest = _asin_of_half(magnitude, small)
    value = leading + rest
    middle = form.quarter_turn[0] - (negated_by(sign_bit(x), value) - form.quarter_turn_low)
    double = value + value
    large = select(x < 0, 2 * form.quarter_turn[0] - (double - 2 * form.quarter_turn_low), double)
    return right_for_float16(x, x, select(small, middle, large), _FLOAT16_ACOS)


def atan(x: Expression) -> Expression:
    """The arc tangent: a polynomial up to 1, beyond it ``pi / 2 - atan(1 / x)``.

    Error: 1.29 ULP in F32, 1.17 in F64.
    """
    form = _FORMS[x.type]
    magnitude = magnitude_of(x)
    large = magnitude > 1
    ratio = select(large, -1.0, magnitude) / select(large, magnitude, 1.0)
    base = select(large, form.quarter_turn[0], 0.0, x.type)
    rest = select(large, form.quarter_turn_low, 0.0, x.type)
    result = base + _atan_of_ratio(ratio, rest)
    return with_sign_of(x, right_for_float16(x, magnitude, result, _FLOAT16_ATAN))


def atan2(y: Expression, x: Expression) -> Expression:
    """The angle of the point (``x``, ``y``), from -pi to pi, with C's signs of zeros and infinities.

    Error: 1.46 ULP in F32, 1.47 in F64.
    """
    form = _FORMS[x.type]
    width, height = magnitude_of(x), magnitude_of(y)
    steep = height > width
    smaller, larger = select(steep, width, height), select(steep, height, width)
    alike = select(smaller.equals(larger), select(larger.equals(0), 0.0, 1.0, x.type), x + y)
    unusual = ~((larger > 0) & (larger < INFINITY) & x.equals(x))
    ratio = select(unusual & (smaller.equals(larger) | x.differs(x) | y.differs(y)), alike, smaller / larger, rare=True)
    left = Bitcast(x, FORMATS[x.type].integer) < 0
    # pi / 2 - a, pi - a, pi / 2 + a
    backwards = Bitcast(
        select(steep.differs(left), constant(-0.0, x.type), constant(0.0, x.type)), FORMATS[x.type].integer
    )
    quarters = select(steep, 1.0, select(left, 2.0, 0.0, x.type))
    angle = _atan_of_ratio(negated_by(backwards, ratio), quarters * form.quarter_turn_low)
    return with_sign_of(y, fused_multiply_add(quarters, form.quarter_turn[0], angle))


# ---------------------------------------------------------------------------------------------------------------------


class _Angle(NamedTuple):
    """``quarters`` quarter turns (an integer, of which the last two bits matter) and ``r + low``."""

    quarters: Expression
    r: Expression
    low: Expression

    def turned(self) -> _Angle:
        """A quarter turn further."""
        return self._replace(quarters=self.quarters + 1)


def _of_angle(x: Expression, function: Callable[[_Angle], Expression]) -> Expression:
    """``function`` of the angle ``x >= 0``."""
    form = _FORMS[x.type]
    return select(~(x < form.reduced_below), function(_reduced_by_digits(x)), function(_reduced(x)), rare=True)


def _reduced(x: Expression) -> _Angle:
    """The first step is exact; ``low`` is the third one and what the second one rounds off.

    What begins the second step is a multiple of the last digit of what it subtracts, so its error is exact even where
    the difference is small (S. Boldo, S. Graillat and J.-M. Muller, "On the robustness of the 2Sum and Fast2Sum
    algorithms", 2017).
    """
    form = _FORMS[x.type]
    anchor = FORMATS[x.type].anchor
    anchored = fused_multiply_add(x, 1 / form.quarter_turn[0], anchor)
    n = anchored - anchor
    first, second, third = form.quarter_turn
    begun = fused_multiply_add(n, -first, x)
    step, step_low = two_product(n, constant(-second, x.type))
    r, rounded_off = fast_two_sum(begun, step)
    low = fused_multiply_add(n, -third, rounded_off + step_low)
    return _Angle(Bitcast(anchored, FORMATS[x.type].integer), r, low)


def _reduced_by_digits(x: Expression) -> _Angle:
    """The fraction of ``x * 2 / pi`` as the sum of exact products, each without its multiples of 4; computed in F64."""
    wide = cast(x, F64) * 2.0**-_DIGITS_SHIFT
    total: list[Expression] = [constant(0.0, F64)] * 3
    for digits in _FORMS[x.type].two_over_pi:
        product, error = two_product(wide, constant(digits, F64))
        # With x from F32 the products are exact.
        for term in (product,) if x.type is F32 else (product, error):
            total = _added(total, fused_multiply_add(unary("round_even", term * 0.25), -4.0, term))
    high, middle = two_sum(total[0], total[1])
    n = unary("round_even", high)
    high, low = two_sum(high - n, middle + total[2])
    (first, second, _) = _FORMS[F64].quarter_turn
    r, rest = two_product(high, constant(first, F64))
    rest = fused_multiply_add(low, first, fused_multiply_add(high, second, rest))
    narrow = cast(r + rest, x.type)
    low = cast((r - cast(narrow, F64)) + rest, x.type)
    return _Angle(cast(cast(n, I64), FORMATS[x.type].integer), narrow, low)


def _added(total: list[Expression], term: Expression) -> list[Expression]:
    """A sum in three parts and another number."""
    high, rest = two_sum(total[0], term)
    middle, rest = two_sum(total[1], rest)
    return [high, middle, total[2] + rest]


def _sine(angle: _Angle) -> Expression:
    """The sine or the cosine of ``r + low``, positive or negative, as the quarter turns tell."""
    form = _FORMS[angle.r.type]
    bits = angle.r.type.bits
    r, square = angle.r, angle.r * angle.r
    sine = r + fused_multiply_add(r * square, polynomial(square, form.sine), angle.low)
    curve = fused_multiply_add(square, polynomial(square, form.cosine), -0.5)
    cosine = fused_multiply_add(square, curve, -(r * angle.low)) + 1
    value = select((angle.quarters & 1).equals(0), sine, cosine)
    return negated_by((angle.quarters << (bits - 2)) & (1 << (bits - 1)), value)


def _tangent(angle: _Angle) -> Expression:
    """The tangent of ``r + low``, or minus its reciprocal."""
    r, square = angle.r, angle.r * angle.r
    low = fused_multiply_add(angle.low, square, angle.low)
    tangent = r + fused_multiply_add(r * square, polynomial(square, _FORMS[r.type].tangent), low)
    even = (angle.quarters & 1).equals(0)
    return select(even, tangent, -1.0) / select(even, 1.0, tangent)


def _asin_of_half(magnitude: Expression, small: Expression) -> tuple[Expression, Expression]:
    """The arc sine of ``magnitude`` where it is ``small``, of ``sqrt((1 - magnitude) / 2)`` elsewhere, in two parts."""
    square = select(small, magnitude * magnitude, fused_multiply_add(magnitude, -0.5, 0.5))
    leading = select(small, magnitude, unary("sqrt", square))
    return leading, (leading * square) * polynomial(square, _FORMS[magnitude.type].arc_sine)


def _atan_of_ratio(ratio: Expression, rest: Expression) -> Expression:
    """The arc tangent of a number up to 1, plus ``rest``, which is small."""
    square = ratio * ratio
    return ratio + fused_multiply_add(ratio * square, polynomial(square, _FORMS[ratio.type].arc_tangent), rest)


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Form:
    """Constants for a type; polynomials are in the square of the variable and have their lowest coefficient first."""

    quarter_turn: tuple[float, ...]
    """pi / 2 as a sum of numbers of the type"""
    reduced_below: float
    """Below it, the quarter turn in three parts is precise enough."""
    two_over_pi: tuple[float, ...]
    """2 / pi * 2**_DIGITS_SHIFT as a sum of F64 numbers, in F32 of so few bits each that products are exact"""
    sine: tuple[float, ...]
    """(sin(r) - r) / r**3 for |r| <= pi / 4"""
    cosine: tuple[float, ...]
    """(cos(r) - 1 + r**2 / 2) / r**4 for |r| <= pi / 4"""
    tangent: tuple[float, ...]
    """(tan(r) - r) / r**3 for |r| <= pi / 4"""
    arc_sine: tuple[float, ...]
    """(asin(s) - s) / s**3 for s <= 1/2"""
    arc_tangent: tuple[float, ...]
    """(atan(z) - z) / z**3 for z <= 1"""

    @property
    def quarter_turn_low(self) -> float:
        """pi / 2 minus its first part."""
        return self.quarter_turn[1]


_DIGITS_SHIFT: Final = 128
"""Without it the last digits would be too small for F64."""

_FORMS: Final = {
    F32: _Form(
        quarter_turn=(
            1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15,
        ),
        reduced_below=2.0**13,
        two_over_pi=(
            2.1663048247031852e+38, 4.995911119770809e+29, 7.744860928017412e+20, 2001273671680.0, 3520.8569717407227,
            1.287375425818027e-06, 1.2660119977319072e-14,
        ),
        sine=(
            -0.16666654, 0.008332106, -0.00019507883,
        ),
        cosine=(
            0.041666646, -0.0013887304, 2.4431196e-05,
        ),
        tangent=(
            0.33333352, 0.13332576, 0.054070186, 0.021227673, 0.010980632, -9.8151046e-05, 0.0044707325,
        ),
        arc_sine=(
            0.16666752, 0.074953064, 0.045469772, 0.02418077, 0.04216643,
        ),
        arc_tangent=(
            -0.333333, 0.1999853, -0.14264014, 0.109508604, -0.08399202, 0.057878688, -0.03109326, 0.010866078,
            -0.0017820902,
        ),
    ),
    F64: _Form(
        quarter_turn=(
            1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33,
        ),
        reduced_below=2.0**20,
        two_over_pi=(
            2.166304829699096e+38, 2.4386318509151237e+22, 3464640.856973028, 2.8764035955568025e-10,
            1.1862827848483869e-26, 1.6336035472120595e-42, 3.9117078138307323e-60, 4.004585006247815e-74,
            1.2779997548346236e-90, 5.649169506234269e-106, 7.283980789400713e-122, 8.435906059866033e-138,
            3.4393354075691067e-154, 4.164116026840121e-170, 7.434845245611233e-186, 5.793014893526207e-202,
            8.980777205703654e-218, 1.830293918034326e-233, 1.5872687587900484e-249, 2.4106862911819918e-265,
            1.7770974051653473e-281, 1.1736305351608019e-297,
        ),
        sine=(
            -0.16666666666666666, 0.008333333333333044, -0.00019841269840966378, 2.7557319076916337e-06,
            -2.505207189661585e-08, 1.6054459355619175e-10, -7.39783937152508e-13,
        ),
        cosine=(
            0.041666666666666664, -0.0013888888888888393, 2.4801587301187956e-05, -2.755731906498171e-07,
            2.087672321879828e-09, -1.1467023121540947e-11, 4.600918720262453e-14,
        ),
        tangent=(
            0.33333333333333387, 0.1333333333332438, 0.053968253973454644, 0.021869488383751932, 0.00886323817929089,
            0.003592098160400121, 0.0014560650859337043, 0.0005887661909588002, 0.00024410480688539471,
            8.264678453664887e-05, 6.889519617060936e-05, -2.7764711430317896e-05, 5.0426060510666974e-05,
            -2.51657623652482e-05, 9.998572882960359e-06,
        ),
        arc_sine=(
            0.1666666666666676, 0.07499999999970812, 0.04464285717464449, 0.030381942704750954, 0.02237221510447796,
            0.017351609461039783, 0.013980855716093442, 0.011398592095698436, 0.010782208157042757,
            0.0036984726913302747, 0.021727984629542386, -0.021029740856290897, 0.03264875603865715,
        ),
        arc_tangent=(
            -0.3333333333333307, 0.19999999999951754, -0.1428571428258836, 0.11111111007349098, -0.09090907007898706,
            0.07692279889789018, -0.06666404428390277, 0.05880529827709889, -0.05253526830805257,
            0.047223484271594646, -0.0421924352691866, 0.03664315513579033, -0.029905734285134013,
            0.021987054958729692, -0.013902548982787123, 0.007197858440425286, -0.002885591822897848,
            0.0008315519521212237, -0.00015220919705250145, 1.3229778004350602e-05,
        ),
    ),
}  # fmt: skip

# Arguments of float16 whose results would be rounded to the wrong side, and results in float32 on the right side.
_FLOAT16_SIN: Final = ((0.2093505859375, 0.20782472), (300.0, -0.9997558))
_FLOAT16_COS: Final = ((0.0584716796875, 0.9982911),)
_FLOAT16_TAN: Final = ((0.0357666015625, 0.035781864), (94.8125, 0.63354486))
_FLOAT16_ACOS: Final = ((-0.556640625, 2.161133), (-0.07318115234375, 1.6440428), (-4.470348358154297e-06, 1.5708009))
_FLOAT16_ATAN: Final = ((0.0283966064453125, 0.028388979), (0.2095947265625, 0.20660402), (6.4296875, 1.416504))
