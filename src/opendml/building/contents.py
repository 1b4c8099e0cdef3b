"""``Contents``: contents of constants, each once, by numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

__all__ = ["Contents"]

Bytes = bytes | memoryview

LONG: Final = 1 << 16
"""Bytes from which on a content is looked at as a whole only where another one has the same sample."""

PIECES: Final = 32
PIECE: Final = 64
"""What a sample consists of, at equal distances: so many pieces, of so many bytes."""


class Contents:
    """Numbers those that differ, in the order in which they come. Hundreds of megabytes that are like nothing else are
    not read for that."""

    def __init__(self) -> None:
        self._all: list[Bytes] = []
        self._sampled: dict[tuple[int, bytes], int] = {}
        self._whole: dict[Bytes, int] = {}

    def __iter__(self) -> Iterator[Bytes]:
        return iter(self._all)

    def number_of(self, content: Bytes) -> int:
        """The number of a content, which nobody may change."""
        found = len(self._all)
        if len(content) >= LONG:
            first = self._sampled.setdefault(_sample(content), found)
            if first < found:
                self._whole.setdefault(self._all[first], first)
                found = self._whole.setdefault(content, found)
        else:
            found = self._whole.setdefault(content, found)
        if found == len(self._all):
            self._all.append(content)
        return found


def _sample(content: Bytes) -> tuple[int, bytes]:
    size = len(content)
    starts = range(0, size - PIECE, size // PIECES)
    return size, b"".join(bytes(content[start : start + PIECE]) for start in starts)
