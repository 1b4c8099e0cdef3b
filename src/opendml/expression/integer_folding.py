"""Operations of integers and bools whose operands are known, as Python numbers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, Final

from opendml.expression.element_types import ElementType, Number


def dot(count: int, a: Any, b: Any) -> Any:
    """``dot2`` or ``dot4`` of integers, or of arrays of them, not wrapped."""
    bits = 32 // count
    mask, half = (1 << bits) - 1, 1 << (bits - 1)
    total = a & 0
    for i in range(count):
        x, y = (a >> i * bits) & mask, ((((b >> i * bits) & mask) ^ half) - half)
        total = total + (x if count == 4 else (x ^ half) - half) * y
    return total


def _dot4_saturating(a: Any, b: Any) -> Any:
    pairs = (dot(4, a >> shift & 0xFFFF, b >> shift & 0xFFFF) for shift in (0, 16))
    return sum(_saturated(pair) for pair in pairs)


def _saturated(value: Any) -> Any:
    """Of a number, or of each of an array, the nearest one of 16 bits."""
    low, high = -(1 << 15), (1 << 15) - 1
    return value + (low - value) * (value < low) + (high - value) * (value > high)


WORD_DOTS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "dot2": functools.partial(dot, 2),
    "dot4": functools.partial(dot, 4),
    "dot4_saturating": _dot4_saturating,
}
"""Products of words, of integers or of arrays of them, not wrapped."""

_RESULTS: Final[dict[str, Callable[[int, int], int]]] = {
    **WORD_DOTS,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
    "rem": operator.mod,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def folded_integers(operation: str, a: Number, b: Number, type: ElementType) -> int | None:
    """The result of an operation of two numbers of ``type``, not wrapped.

    None where that is left to the target: quotients and shifts of negative numbers, or by what is not positive, or too
    far.
    """
    a, b = int(a), int(b)
    is_left = type.kind == "bool" or b <= 0 or a < 0
    if (operation in ("div", "rem") and is_left) or (operation in ("shl", "shr") and (is_left or b >= type.bits)):
        return None
    return _RESULTS[operation](a, b)
