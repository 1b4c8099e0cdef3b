"""``x * y + z`` with one rounding, with NumPy: what ``FusedMultiplyAdd`` and contracted sums mean.

Processors do this in one instruction; here it is made of operations whose rounding errors are computed exactly (D. E.
Knuth's sum, T. J. Dekker's product) and of "rounding to odd", which leaves the last rounding the only one that matters
(S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Transactions on Computers, 2008).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_FAR: Final = 200
"""Binary places beyond which a term only matters by its sign."""
_LEAST_EXPONENT: Final = -1300
"""A number with this exponent, or a lower one, is rounded to 0."""
_SPLITTER: Final = 2.0**27 + 1


def fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """``x * y + z`` of arrays of one type (which broadcast): float32 and float64 rounded once to nearest even, integers
    modulo their width."""
    if x.dtype.kind in "iu":
        with np.errstate(over="ignore"):
            return np.asarray(x * y + z)
    x, y, z = np.broadcast_arrays(x, y, z)
    if x.dtype == np.float32:
        product = x.astype(np.float64) * y.astype(np.float64)
        return _odd_sum(product, z.astype(np.float64)).astype(np.float32)
    simple = x * y + z
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    result = np.where(finite, _finite(*(np.where(finite, v, 0.0) for v in (x, y, z))), simple)
    # An infinite term prevails over a product that is only too large for the type.
    return np.where(np.isinf(z) & np.isfinite(x) & np.isfinite(y), z, result)


def _finite(x: Array, y: Array, z: Array) -> Array:
    """The float64 case: terms are scaled to be near 1, added in full, rounded at the last place of the result."""
    (x_part, x_exponent), (y_part, y_exponent), (z_part, z_exponent) = map(np.frexp, (x, y, z))
    is_zero = (x == 0) | (y == 0)
    product_exponent = np.where(is_zero, z_exponent, x_exponent + y_exponent)
    z_exponent = np.where(z == 0, product_exponent, z_exponent)
    exponent = np.maximum(product_exponent, z_exponent)
    x_part = np.ldexp(x_part, np.maximum(product_exponent - exponent, -_FAR))
    z_part = np.ldexp(z_part, np.maximum(z_exponent - exponent, -_FAR))
    high, low = _two_product(x_part, y_part)
    middle, lowest = _two_sum(z_part, low)
    total, rest = _two_sum(high, middle)
    rest = _odd_sum(rest, lowest)
    # At the exponents of subnormal results the last place is higher: adding an anchor rounds there.
    bounded = np.maximum(exponent, _LEAST_EXPONENT)
    smallest_normal = np.ldexp(1.0, -1022 - bounded)
    anchor = np.copysign(smallest_normal, total)
    anchored, error = _two_sum(anchor, total)
    subnormal = (anchored + _odd_sum(error, rest)) - anchor
    normal = total + rest
    result = np.ldexp(np.where(np.abs(normal) < smallest_normal, subnormal, normal), bounded)
    signed = np.copysign(result, np.where(total == 0, rest, total))
    return np.where((total == 0) & (rest == 0), x * y + z, signed)


def _odd_sum(a: Array, b: Array) -> Array:
    """``a + b`` rounded to odd: if it is not exact, toward the neighbour whose last bit is set."""
    total, error = _two_sum(a, b)
    inexact = (error != 0) & np.isfinite(total) & np.isfinite(error)
    bits = np.ascontiguousarray(total).view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact & (bits & 1 == 0), bits + step, bits).view(np.float64)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its error."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: Array) -> tuple[Array, Array]:
    scaled = a * _SPLITTER
    high = scaled - (scaled - a)
    return high, a - high
