"""Words of four bytes or fewer that lie in memory as they are wanted: one load, not four and what joins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from opendml.expression.affine import Affine, Element
from opendml.expression.element_types import I8, I16, I32, U8, U16, U32
from opendml.expression.ir import Binary, Cast, Const, Expression, Tensor

BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class MemoryWord:
    """A word by the element of its first byte, the lowest one, and how many bytes it has; 0 above them."""

    first: Element
    count: int = BYTES

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
    found = bytes_in_memory(e)
    return found if found is not None and found.count == BYTES else None


def bytes_in_memory(e: Expression) -> MemoryWord | None:
    """The same of two bytes or more."""
    found = [_element(part) for part in parts_of_word(e)]
    following = [one for one in found if one is not None]
    is_run = all(map(_follow, following, following[1:]))
    if len(following) < len(found) or not 2 <= len(found) <= BYTES or not is_run:
        return None
    return MemoryWord(following[0], len(found))


def parts_of_word(e: Expression) -> list[Expression]:
    """The bytes that an expression joins in a word, the lowest first; none if it does not join bytes."""
    bytes = _parts(e, 8)
    return bytes if all(byte.type in (I8, U8) for byte in bytes) else []


def halves_of_word(e: Expression) -> list[Expression]:
    """The bytes of which an expression joins the numbers of 16 bits in a word, as ``parts_of_word``."""
    numbers = [part.operand for part in _parts(e, 16) if isinstance(part, Cast) and part.type is U16]
    bytes = [number.operand for number in numbers if isinstance(number, Cast) and number.type is I16]
    return bytes if len(bytes) == 2 and all(byte.type in (I8, U8) for byte in bytes) else []


def _parts(e: Expression, bits: int) -> list[Expression]:
    """What an expression joins in a word, so many bits each."""
    if isinstance(e, Cast) and e.type is I32:
        e = e.operand
    moved = list[Expression]()
    while isinstance(e, Binary) and e.operation == "or" and len(moved) < I32.bits // bits:
        moved.append(e.right)
        e = e.left
    widened = [e]
    for number, part in enumerate(reversed(moved), 1):
        if not isinstance(part, Binary) or part.operation != "shl" or not _is(part.right, bits * number):
            return []
        widened.append(part.left)
    parts = [part.operand for part in widened if isinstance(part, Cast) and part.type is U32]
    return parts if len(parts) == len(widened) else []


def _element(byte: Expression) -> Element | None:
    """The element that a byte is, with or without a sign."""
    signed = byte.operand if isinstance(byte, Cast) else byte
    return signed if isinstance(signed, Element) and signed.type in (I8, U8) else None


def _follow(first: Element, second: Element) -> bool:
    """Whether one element is that before another."""
    near = first.address.plus(second.address, -1)
    return first.tensor is second.tensor and first.safe == second.safe and not near.terms and near.constant == -1


def _is(e: Expression, value: int) -> bool:
    return isinstance(e, Const) and e.bits == value
