"""Tables of text for terminals, pipes and files: columns as wide as their cells, broken into lines where they must."""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TextIO

__all__ = ["Column", "Table", "width_of"]

GAP: Final = "   "
UNBOUNDED_WIDTH: Final = 200
"""Columns where nobody looks, for instance in a pipe: there is no width to keep to."""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; ``align`` right for numbers. ``overflow``: what happens to cells if the table becomes too wide."""

    heading: str
    align: Literal["left", "right"] = "left"
    overflow: Literal["fold", "cut", "keep"] = "fold"


@dataclass(slots=True)
class Table:
    """Rows of cells below headings.

    A table that is wider than it may be takes the room from its widest columns that allow that: their cells go on in
    the next line (``fold``) or are cut off (``cut``).
    """

    columns: Sequence[Column]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, *headings: str) -> Table:
        """A table of columns of text."""
        return cls([Column(heading) for heading in headings])

    def add_row(self, *cells: str) -> None:
        """A row, one cell a column."""
        self.rows.append(tuple(cell.replace("\n", " ") for cell in cells))

    def text(self, width: int = UNBOUNDED_WIDTH) -> str:
        """The table in lines of at most ``width`` characters, if the columns can be made so narrow."""
        widths = self._widths(width)
        headings = tuple(column.heading for column in self.columns)
        rule = "-" * min(sum(widths) + len(GAP) * (len(widths) - 1), width)
        lines = [*self._lines(headings, widths), rule]
        for row in self.rows:
            lines += self._lines(row, widths)
        return "\n".join(lines) + "\n"

    def _widths(self, width: int) -> list[int]:
        widths = [
            max([_length(column.heading), *(_length(row[number]) for row in self.rows)])
            for number, column in enumerate(self.columns)
        ]
        flexible = [number for number, column in enumerate(self.columns) if column.overflow != "keep"]
        excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
        while excess > 0 and flexible:
            widest = max(flexible, key=lambda number: widths[number])
            least = max(_length(self.columns[widest].heading), _LEAST_WIDTH)
            others = max((widths[number] for number in flexible if number != widest), default=0)
            step = min(excess, max(1, widths[widest] - others), widths[widest] - least)
            if step <= 0:
                flexible.remove(widest)
                continue
            widths[widest] -= step
            excess -= step
        return widths

    def _lines(self, cells: Iterable[str], widths: Sequence[int]) -> list[str]:
        broken = [_broken(cell, width, column) for cell, width, column in zip(cells, widths, self.columns, strict=True)]
        return [
            GAP.join(
                _padded(lines[number] if number < len(lines) else "", width, column)
                for lines, width, column in zip(broken, widths, self.columns, strict=True)
            ).rstrip()
            for number in range(max(map(len, broken)))
        ]


def width_of(stream: TextIO) -> int:
    """Characters that a line of a terminal has; ``UNBOUNDED_WIDTH`` for what is no terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else UNBOUNDED_WIDTH


_LEAST_WIDTH = 8


def _broken(cell: str, width: int, column: Column) -> list[str]:
    if _length(cell) <= width or column.overflow == "keep":
        return [cell]
    if column.overflow == "cut":
        return [cell[: width - 3] + "..."]
    return textwrap.wrap(cell, width, break_on_hyphens=False) or [""]


def _padded(cell: str, width: int, column: Column) -> str:
    blanks = " " * (width - _length(cell))
    return blanks + cell if column.align == "right" else cell + blanks


def _length(text: str) -> int:
    """How many places of a terminal a text takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )
