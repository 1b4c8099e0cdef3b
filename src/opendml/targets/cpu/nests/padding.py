"""What tiles of sums over windows leave out: steps that are outside of what they read, for some or all of their points.

Where all points of a tile are at the same place along a dimension, the loop along its taps has fewer steps. Where they
are not, the steps of each tap are written out, with those points alone that are inside: tiles at both ends of a row,
and those between them, have code of their own.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from opendml.expression.element_types import I64
from opendml.expression.ir import Axis, Variable
from opendml.expression.limits import Inside
from opendml.loops.nest import Body, Leaf
from opendml.loops.nest_integers import (
    Both,
    Condition,
    Difference,
    Either,
    Equal,
    Greatest,
    Integer,
    Least,
    Position,
    Product,
    Quotient,
    Register,
    Sum,
)
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.contractions.windows import windows_of
from opendml.targets.cpu.nests.tile_counts import TileCounts
from opendml.targets.cpu.target import CpuTarget

Pattern = tuple[tuple[bool, ...], ...]
"""For each tap which points along an axis of a tile are inside."""


class Choice(NamedTuple):
    """The points along a tile's axis ``place`` that are inside at each step along ``tap``, by positions of tiles: of
    several that are inside as a whole none is there."""

    tap: Axis
    place: Axis
    patterns: Mapping[int, Pattern]


class Padding:
    """Which steps the tiles of a kernel leave out, if it may leave any out."""

    def __init__(self, kernel: ContractionKernel, target: CpuTarget) -> None:
        self.kernel = kernel
        self.target = target
        windows = windows_of(kernel.fold)
        self.inside = () if windows is None else windows.inside
        self.may_leave_out = None if windows is None else windows.may_leave_out
        self.flag = Variable("may_leave_out", I64)

    def known(self) -> Body:
        """What says whether steps may be left out, in a register."""
        return () if self.may_leave_out is None else (Leaf(registers=(self.flag,), values=(self.may_leave_out,)),)

    def condition(self, positions: Mapping[Axis, int]) -> Condition:
        """That a tile is at such positions, and may leave steps out."""
        conditions: list[Condition] = [Equal(Position(axis), position) for axis, position in positions.items()]
        if self.may_leave_out is not None:
            conditions.insert(0, Equal(Register(self.flag), 1))
        return functools.reduce(Both, conditions)

    def bounds(self, tap: Axis, counts: TileCounts) -> tuple[Integer, Integer]:
        """The first step along an axis of the fold, and the one behind the last, that tiles do not leave out."""
        first: Integer = 0
        end: Integer = tap.size
        for inside in self.inside:
            places, step = self._places(inside, tap), inside.coordinate.coefficient(tap)
            if places is None or step < 1 or {*places} & self._axes_of(counts):
                continue
            here: Integer = inside.coordinate.constant
            for place in places:
                here = Sum(here, Product(Position(place), inside.coordinate.coefficient(place)))
            first = first if inside.first is None else Greatest(first, _steps_to(inside.first, here, step))
            end = end if inside.end is None else Least(end, _steps_to(inside.end, here, step))
        if self.may_leave_out is not None:
            is_forbidden = Equal(Register(self.flag), 0)
            first = first if first == 0 else Either(is_forbidden, 0, first)
            end = end if end == tap.size else Either(is_forbidden, tap.size, end)
        return first, end

    def choices(self, taps: Sequence[Axis], counts: TileCounts) -> list[Choice]:
        """Of taps those whose steps are written out. Several rows of several vectors would need more registers then
        than the fewest processors have."""
        if self.target.has_few_registers and counts.row is not None and counts.vectors > 1:
            return []
        found = [self._choice(inside, tap, counts) for inside in self.inside for tap in taps]
        choices = [choice for choice in found if choice is not None]
        tuning = self.target.tuning
        is_short = math.prod(choice.tap.size for choice in choices) <= tuning.most_taps_written_out
        return choices if is_short and len([*self.tiles(choices)]) <= tuning.most_tiles_written_out else []

    def tiles(self, choices: Sequence[Choice]) -> Iterator[tuple[dict[Axis, int], dict[Axis, Pattern]]]:
        """The positions of tiles of which some points are outside, and for each tap which ones are inside."""
        for positions in itertools.product(*(choice.patterns for choice in choices)):
            patterns = {c.tap: c.patterns[position] for c, position in zip(choices, positions, strict=True)}
            if not all(all(map(all, pattern)) for pattern in patterns.values()):
                yield {c.place: position for c, position in zip(choices, positions, strict=True)}, patterns

    def numbers(
        self, choices: Sequence[Choice], patterns: Mapping[Axis, Pattern], at: Mapping[Axis, int], counts: TileCounts
    ) -> frozenset[int]:
        """The numbers of a tile's sums that have a step there."""
        rows, points, vectors = range(counts.rows), range(counts.points), range(counts.vectors)
        found = set[int]()
        for point, row in itertools.product(points, rows):
            places = {counts.tile: point}
            if counts.row is not None:
                places[counts.row] = row if counts.row is not counts.tile else row * counts.points + point
            if all(patterns[choice.tap][at[choice.tap]][places[choice.place]] for choice in choices):
                found |= {(point * counts.rows + row) * counts.vectors + vector for vector in vectors}
        return frozenset(found)

    def _axes_of(self, counts: TileCounts) -> set[Axis | None]:
        return {counts.tile, counts.row, self.kernel.vector}

    def _places(self, inside: Inside, tap: Axis) -> list[Axis] | None:
        """The axes along which windows are elsewhere, if the tap is the only step that matters."""
        axes = inside.coordinate.axes
        if tap not in axes or any(axis is not tap and axis in self.kernel.fold.axes for axis in axes):
            return None
        return [axis for axis in axes if axis is not tap]

    def _choice(self, inside: Inside, tap: Axis, counts: TileCounts) -> Choice | None:
        places = self._places(inside, tap)
        if places is None or len(places) != 1 or places[0] not in (counts.tile, counts.row):
            return None
        (place,), form = places, inside.coordinate
        count, found = counts.along(place), dict[int, Pattern]()
        for position in self._positions(place, counts):
            steps = [form.constant + form.coefficient(tap) * step for step in range(tap.size)]
            points = [form.coefficient(place) * (position + point) for point in range(count)]
            found[position] = tuple(tuple(inside.holds(step + point) for point in points) for step in steps)
        outside = sum(row.count(False) for pattern in found.values() for row in pattern)
        if outside < self.target.tuning.least_padding_of_tiles * count * tap.size * len(found):
            return None
        inner = {position for position, pattern in found.items() if all(map(all, pattern))}
        return Choice(tap, place, {p: pattern for p, pattern in found.items() if p not in inner or len(inner) == 1})

    def _positions(self, axis: Axis, counts: TileCounts) -> Sequence[int]:
        """Where tiles of such counts stand along an axis of theirs."""
        kernel, count = self.kernel, counts.along(axis)
        if axis is kernel.row and axis is not kernel.tile and not kernel.redoes:
            whole = axis.size - axis.size % kernel.row_count
            return range(0, whole, count) if count == kernel.row_count else [whole]
        if kernel.rest is not None and axis is kernel.tile:
            whole = axis.size - axis.size % kernel.tile_size
            return range(0, whole, count) if count == kernel.tile_size else range(whole, axis.size, count)
        return sorted({max(0, min(first, axis.size - count)) for first in range(0, axis.size, count)})


def _steps_to(limit: int, here: Integer, step: int) -> Integer:
    """How many steps it takes from ``here`` to a limit or beyond; 0 or less where that is behind."""
    distance = Difference(limit, here)
    return distance if step == 1 else Quotient(Greatest(0, Sum(distance, step - 1)), step)
