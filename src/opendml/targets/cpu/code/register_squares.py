"""Squares of registers: rows of vectors that are not as many as a vector has lanes."""

from __future__ import annotations

from collections.abc import Sequence

from opendml.llvm.builder import Builder
from opendml.llvm.values import Value


def turned(builder: Builder, rows: Sequence[Value]) -> list[Value]:
    """The columns of some rows, as many lanes as the next power of two; those beyond the rows are undefined."""
    side = 1 << (len(rows) - 1).bit_length()
    undefined = rows[0]._replace(text="poison")
    square = [*rows, *[undefined] * (side - len(rows))]
    columns: list[Value] = []
    for start in range(0, rows[0].lanes, side):
        part = range(start, start + side)
        cut = square if side == rows[0].lanes else [_cut(builder, row, part) for row in square]
        columns += builder.transposed(cut, fenced=True) if side > 1 else cut
    return columns


def _cut(builder: Builder, row: Value, lanes: range) -> Value:
    if row.text == "poison":
        return row._replace(lanes=len(lanes))
    return builder.shuffle(row, None, lanes)
