"""Types of elements that other libraries have and DirectML has not: what to do instead."""

from __future__ import annotations

import re
from typing import Final

_STATEMENTS: Final = (
    (r"complex\d*|clongdouble|csingle|cdouble", "DirectML has no complex numbers; give .real and .imag as two tensors"),
    (r"bfloat16", "DirectML has no bfloat16; float32 holds all its values"),
    (r"bool", "DirectML has no bool; uint8 has the same bytes"),
    (r"float(96|128)|longdouble", "no type of DirectML is longer than float64; convert to that"),
    (r"str\d*|bytes\d*|string", "DirectML's tensors hold numbers, not texts"),
    (r"object", "DirectML's tensors hold numbers, not objects of Python"),
    (r"(datetime|timedelta)64(\[.*\])?", "DirectML's tensors hold numbers, not times; .view(np.int64) gives theirs"),
    (r"void\d*", "DirectML's tensors hold numbers, not records; give each field as a tensor"),
)


def instead_of(name: str) -> str:
    """What is to be said of a type by its name, as NumPy writes it; empty for one that nothing is known of."""
    return next((text for pattern, text in _STATEMENTS if re.fullmatch(pattern, name[:100])), "")
