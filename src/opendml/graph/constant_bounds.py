"""How large the numbers of a constant are: code that knows what sums are multiplied by needs fewer bounds."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from opendml.expression.element_types import F32, bits_of

BOUNDED_BYTES: Final = 1 << 15
"""Bytes of a constant at most whose numbers are looked at: scales of the channels of a large layer."""

_INFINITY: Final = bits_of(math.inf, F32)


def bound_of_constant(data: bytes | memoryview) -> float:
    """A power of two that no number of float32 in a constant exceeds, none of which is less than 0; infinite where
    there is none, or the constant is large. It is in what a program is known by: coarse, so that networks that are
    alike are the same program."""
    if not 0 < len(data) <= BOUNDED_BYTES or len(data) % 4:
        return math.inf
    most = int(np.frombuffer(data, "<u4").max())
    if most >= _INFINITY:
        return math.inf
    return math.ldexp(1.0, math.frexp(float(np.uint32(most).view(np.float32)))[1])


__all__ = ["BOUNDED_BYTES", "bound_of_constant"]
