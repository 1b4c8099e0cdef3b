"""Limits and coefficients of the mathematical functions, a set for each type.

Polynomials are minimax ones (``mathematics`` says how they are found), their lowest coefficient first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from opendml.expression.element_types import F32, F64
from opendml.expression.floating_point import (
    FORMATS,
)


@dataclass(frozen=True, slots=True)
class Form:
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


LOG2_E: Final = 1.4426950408889634

FUNCTION_FORMS: Final = {
    F32: Form(
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
    F64: Form(
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

TANH: Final = (-0.3333337, 0.13331711, -0.05271699)
"""(tanh(r) - r) / r**3 in r**2, for |r| <= log(2) / 4, relative to tanh(r), in F32."""

NARROW_EXP: Final = (
    0.5000000068831713, 0.16666663799707598, 0.041666282227946286, 0.008334013767507724, 0.0013945832139852028,
    0.00019493470084258887,
)  # fmt: skip
"""As ``Form.exp``, in F64 and good to 33 bits."""

NARROW_LOG: Final = (
    0.3333333389389981, -0.24999997064596724, 0.1999991105304893, -0.16666855820947288, 0.14290182538568189,
    -0.12498274286790487, 0.11014659746478302, -0.09924578574414585, 0.09989300923517566, -0.0986341182200157,
    0.05385708128126323,
)  # fmt: skip
"""As ``Form.log``, in F64 and good to 35 bits."""

TWO_THIRDS_LOW: Final = 3.700743415417188e-17
ATANH: Final = (
    0.4000000000000226, 0.28571428570096535, 0.22222222520522264, 0.1818178431055631, 0.1538676010049975,
    0.13256749896265121, 0.1319698655478327,
)  # fmt: skip
"""(log((1 + s) / (1 - s)) - 2 s - 2/3 s**3) / s**5 in s**2, for s up to 3 - sqrt(8)."""

SIGMOID_SCALE: Final = 1.65625

NORMAL_TAIL_IS_ZERO: Final = 14.5
NORMAL_TAIL: Final = (0.31196472, 0.06230871, -0.033577777, -0.019041494, -0.003201745)
NORMAL_TAIL_DIVISOR: Final = (1.5435, 1.3515816, 0.56450856, 0.12502897, 0.012640162)
"""``1 + t - d / 2`` is ``t`` times the first polynomial divided by the second, for t up to 14.5 and relative to d,
where ``exp(-t**2 / 2) / d`` is the probability that a standard normal variable exceeds t. The divisor's first
coefficient is free: this one keeps what is rounded away from the lower ends of binades, where roundings weigh most."""

TWO_LOG_2_HIGH: Final = 1.38629150390625
TWO_LOG_2_LOW: Final = 2.8572135e-06
HALF_NEGATIVE_EXPM1: Final = (-0.5, 0.124999985, -0.020833151, 0.0026042683, -0.00026152254, 2.1591784e-05)
"""(exp(-r / 2) - 1) / r for |r| <= log(2), relative to exp(-r / 2), in F32."""

# Arguments of float16 whose results would be rounded to the wrong side, and results in float32 on the right side.
FLOAT16_EXP: Final = ((0.007297515869140625, 1.0073241), (0.0226898193359375, 1.0229491))
FLOAT16_EXPM1: Final = ((0.000690460205078125, 0.0006906987),)
FLOAT16_LOG: Final = ((0.005340576171875, -5.2324214),)
FLOAT16_LOG1P: Final = ((-0.005847930908203125, -0.0058650966), (0.005870819091796875, 0.0058536534))
# That of sigmoid is 1/2 + x/4 - x**3/48, and the first two terms may be midway.
FLOAT16_SIGMOID: Final = (
    (-0.00927734375, 0.4976807),
    (-0.00732421875, 0.49816898),
    (-0.00146484375, 0.49963382),
    (0.0029296875, 0.50073236),
    (0.0068359375, 0.5017089),
)
FLOAT16_SOFTPLUS: Final = ((-6.389617919921875e-05, 0.6931152), (0.001888275146484375, 0.69409174))
FLOAT16_SINH: Final = ((2.47265625, 5.884766),)
FLOAT16_COSH: Final = ((0.03125, 1.0004884),)
FLOAT16_ASINH: Final = ((0.2105712890625, 0.20904543), (14.2421875, 3.3505857), (258.5, 6.2480464))
FLOAT16_ACOSH: Final = ((1.22265625, 0.65551764),)
FLOAT16_ERF: Final = ((0.0014820098876953125, 0.0016722678),)
FLOAT16_GELU: Final = ((5.960464477539063e-08, 2.9802326e-08),)
