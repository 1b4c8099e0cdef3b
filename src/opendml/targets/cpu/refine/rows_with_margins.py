"""Sums of products that write the margins around their rows: the lines of memory are at hand then, and nobody waits.

Fusion lets a sum write into the tensor with margins that the next one reads, and margins be written by statements of
their own. Those before and behind rows are a few bytes in as many lines of memory as there are rows, or twice as many:
by themselves they take nearly as long as a copy, and by several threads longer, as each has lines that another one has
written. So they become a part of the store that writes the rows.

This is a matter of how memory works, so it comes behind fusion, when what is left to be written is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from opendml.expression.affine import Affine, affine
from opendml.expression.ir import Const, Tensor
from opendml.expression.statements import Compute, Definition, RowMargins, Single, Statement, Store, writes_of
from opendml.targets.cpu.contraction import is_contraction
from opendml.targets.cpu.instructions.moves import SHORTEST_MASKED
from opendml.targets.cpu.target import CpuTarget


def rows_with_margins(definition: Definition, target: CpuTarget) -> tuple[Definition, dict[Single, Single]]:
    """The definition with such statements together, and for each of these the one that computes the rows."""
    wholes, dropped = dict[Single, Single](), set[Statement]()
    if target.costs.margined_row is None:
        return definition, wholes
    writers = dict[Tensor, list[Compute]]()
    for statement in definition.statements:
        if isinstance(statement, Compute):
            for tensor in writes_of(statement):
                writers.setdefault(tensor, []).append(statement)
    made = dict[Statement, Compute]()
    for tensor in definition.temporaries:
        if len(writers.get(tensor, ())) < 2 or tensor.strides[-1] != 1:
            continue
        for rows in writers[tensor]:
            found = _with_margins(rows, writers[tensor], target)
            if found is not None:
                made[rows], parts = found
                dropped |= set(parts)
                wholes[made[rows]] = rows
    if not made:
        return definition, wholes
    statements = tuple(made.get(s, s) for s in definition.statements if s not in dropped)
    return replace(definition, statements=statements), wholes


class _Box(NamedTuple):
    """What a store writes: the first coordinate in each dimension, and how many there are."""

    firsts: tuple[int, ...]
    sizes: tuple[int, ...]


def _with_margins(
    statement: Compute, others: Sequence[Compute], target: CpuTarget
) -> tuple[Compute, list[Compute]] | None:
    """A sum of products that writes the margins that others write, and these others."""
    if len(statement.stores) != 1:
        return None
    (store,) = statement.stores
    box, last = _box(store), affine(store.coordinates[-1])
    if box is None or len(last.axes) != 1 or store.margins is not None:
        return None
    (along,) = last.axes
    most = SHORTEST_MASKED * 8 // store.tensor.type.bits
    before = behind = 0
    value: Const | None = None
    parts = list[Compute]()
    for other in others:
        widths = [width for one in other.stores if (width := _width_beside(box, one, most)) is not None]
        written, *different = {one.value for one in other.stores}
        if len(widths) < len(other.stores) or different or not isinstance(written, Const):
            continue
        if value is not None and written != value:
            continue
        value = written
        parts.append(other)
        before += sum(-width for width in widths if width < 0)
        behind += sum(width for width in widths if width > 0)
    if value is None:
        return None
    margins = RowMargins(along, along.size, before, behind, value)
    made = replace(statement, stores=(replace(store, margins=margins),))
    return (made, parts) if is_contraction(made, target) else None


def _box(store: Store) -> _Box | None:
    """Where a store writes, if that is all between the least and the greatest coordinate in each dimension."""
    found = [part for coordinate in store.coordinates if (part := _run(affine(coordinate))) is not None]
    axes = [axis for coordinate in store.coordinates for axis in affine(coordinate).axes]
    if len(found) < len(store.coordinates) or len(set(axes)) < len(axes):
        return None
    return _Box(tuple(first for first, _ in found), tuple(size for _, size in found))


def _run(coordinate: Affine) -> tuple[int, int] | None:
    """The first of coordinates and how many there are, if the axes that they are along are digits of a number."""
    size = 1
    for axis in sorted(coordinate.axes, key=coordinate.coefficient):
        if coordinate.coefficient(axis) != size:
            return None
        size *= axis.size
    return (coordinate.constant, size) if coordinate.is_pure else None


def _width_beside(rows: _Box, store: Store, most: int) -> int | None:
    """How wide the margin is that a store writes behind rows, or (less than 0) before them."""
    box = _box(store)
    if box is None or (box.firsts[:-1], box.sizes[:-1]) != (rows.firsts[:-1], rows.sizes[:-1]):
        return None
    width, first = box.sizes[-1], box.firsts[-1]
    if width > most:
        return None
    if first + width == rows.firsts[-1]:
        return -width
    return width if first == rows.firsts[-1] + rows.sizes[-1] else None
