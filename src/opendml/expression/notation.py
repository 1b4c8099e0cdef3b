"""How expressions are written: words and expressions in turn, which become text without anything calling itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

SIGNS: Final = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "dot2": "dot2",
    "dot4": "dot4",
    "dot4_saturating": "dot4_saturating",
    "div": "/",
    "rem": "%",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
"""Operations that are written between their operands."""

Words = Sequence[Any]
"""Strings, and nodes whose own ``words()`` stand in their place."""


def written(parts: Words, names: Mapping[Any, str] | None = None, limit: int | None = None) -> str:
    """The text of words and nodes one after another, however deep these are; those in ``names`` are called by name.

    What is longer than ``limit`` characters ends in dots: without names, what occurs several times is written as often.
    """
    words: list[str] = []
    length = 0
    stack = list(reversed(parts))
    while stack and (limit is None or length < limit):
        part = stack.pop()
        word = part if isinstance(part, str) else names.get(part) if names else None
        if word is None:
            stack += reversed(part.words())
        else:
            words.append(word)
            length += len(word)
    return "".join(words) + ("..." if stack else "")


def listed(nodes: Iterable[Any]) -> list[Any]:
    """The words of nodes with commas between them."""
    words: list[Any] = []
    for node in nodes:
        words += (", ", node) if words else (node,)
    return words


def call(name: str, operands: Iterable[Any]) -> Words:
    """The words of a function of operands."""
    return [f"{name}(", *listed(operands), ")"]
