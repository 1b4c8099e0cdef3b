"""Words of four bytes that lie in memory as they are wanted: one load, instead of four and what joins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from opendml.expression.affine import Affine, Element
from opendml.expression.element_types import I8, I32, U8, U32
from opendml.expression.ir import Binary, Cast, Const, Expression, Tensor

BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class MemoryWord:
    """A word by the element of its first byte, the lowest one."""

    first: Element

    @property
    def element(self) -> Element | None:
        """The word as an element of words, by which its place is judged; None where words are not all aligned alike."""
        tensor, address = self.first.tensor, self.first.address
        if any(number % BYTES for number in (*(c for _, c in address.terms), address.constant)):
            return None
        sizes = (*tensor.sizes[:-1], -(-tensor.sizes[-1] // BYTES))
        words = Tensor(tensor.name, I32, sizes, tensor.strides, tensor.role)
        there = Affine(tuple((term, c // BYTES) for term, c in address.terms), address.constant // BYTES)
        return Element(words, there, self.first.safe)


def word_in_memory(e: Expression) -> MemoryWord | None:
    """The word that an expression is, if it is made of four bytes that follow one another in memory."""
    if isinstance(e, Cast) and e.type is I32:
        e = e.operand
    if e.type is not U32:
        return None
    following: Element | None = None
    for number in range(BYTES - 1, 0, -1):
        if not isinstance(e, Binary) or e.operation != "or":
            return None
        moved, e = e.right, e.left
        if not isinstance(moved, Binary) or moved.operation != "shl" or not _is(moved.right, 8 * number):
            return None
        byte = _byte(moved.left)
        if byte is None or (following is not None and not _follow(byte, following)):
            return None
        following = byte
    first = _byte(e)
    assert following is not None
    return MemoryWord(first) if first is not None and _follow(first, following) else None


def _byte(e: Expression) -> Element | None:
    """The element of a byte that is widened to a word without a sign."""
    if not isinstance(e, Cast) or e.type is not U32 or e.operand.type is not U8:
        return None
    byte = e.operand.operand if isinstance(e.operand, Cast) else e.operand
    return byte if isinstance(byte, Element) and byte.type in (I8, U8) else None


def _follow(first: Element, second: Element) -> bool:
    """Whether one element is that before another."""
    near = first.address.plus(second.address, -1)
    return first.tensor is second.tensor and first.safe == second.safe and not near.terms and near.constant == -1


def _is(e: Expression, value: int) -> bool:
    return isinstance(e, Const) and e.bits == value
