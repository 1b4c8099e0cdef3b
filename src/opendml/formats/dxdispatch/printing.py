"""Elements of resources as text, formatted as DxDispatch prints them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["format_elements", "format_elements_verbose"]

_CHUNK = 1 << 14


def format_elements(values: NDArray[Any]) -> Iterator[str]:
    """``6, 15, 24``, in pieces. Real numbers have six significant digits, as C++ streams print them."""
    form = "%g" if values.dtype.kind == "f" else "%d"
    for begin in range(0, values.size, _CHUNK):
        piece = ", ".join(map(form.__mod__, values[begin : begin + _CHUNK].tolist()))
        yield ", " + piece if begin else piece


def format_elements_verbose(values: NDArray[Any]) -> Iterator[str]:
    """``[0] 1.5 (0x3FC00000)``, a line an element, in pieces: index, value, bits (padded with blanks to full width)."""
    form = "%g" if values.dtype.kind == "f" else "%d"
    digits = values.dtype.itemsize * 2
    bits = values.view(f"u{values.dtype.itemsize}")
    width = len(str(values.size))
    for begin in range(0, values.size, _CHUNK):
        elements = zip(values[begin : begin + _CHUNK].tolist(), bits[begin : begin + _CHUNK].tolist(), strict=True)
        yield "".join(
            f"[{index:{width}}] {form % value} (0x{pattern:{digits}X})\n"
            for index, (value, pattern) in zip(itertools.count(begin), elements, strict=False)
        )
