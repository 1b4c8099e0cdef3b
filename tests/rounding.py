"""How far a floating-point sum may be from the exact one."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FLOAT32_EPSILON = float(np.finfo(np.float32).eps)


def assert_within_rounding(actual: Array, exact: Array, magnitudes: Array, roundings: float) -> None:
    """``actual`` is ``exact`` (float64), up to ``roundings`` relative errors of float32 in ``magnitudes`` (the sum of
    the terms' magnitudes), and one rounding to its own type. What is not finite must be the same."""
    limits = np.finfo(actual.dtype)
    wide = actual.astype(np.float64)
    bound = roundings * FLOAT32_EPSILON * magnitudes + np.abs(exact) * float(limits.eps)
    bound = bound + float(limits.smallest_subnormal)
    ordinary = np.isfinite(exact) & np.isfinite(magnitudes) & (np.abs(exact) + bound < float(limits.max))
    np.testing.assert_array_equal(np.isnan(wide), np.isnan(exact))
    infinite = np.isinf(exact)
    np.testing.assert_array_equal(wide[infinite], exact[infinite])
    error = np.abs(wide - np.where(ordinary, exact, 0))[ordinary]
    assert np.all(error <= bound[ordinary]), (error - bound[ordinary]).max()
