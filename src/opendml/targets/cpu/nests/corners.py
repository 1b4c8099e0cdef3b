"""Addresses in memory of a thread's own that count from the corner of a tile, wherever that stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from opendml.expression.affine import Affine
from opendml.expression.ir import Axis
from opendml.loops.nest import At, Body, Loop
from opendml.loops.nest_integers import Difference, Integer, Position, Product, Sum


class Corner(NamedTuple):
    """An ``address`` that is 0 where all of its axes stand when a body ``begins``."""

    base: Axis
    address: Affine
    origin: Integer

    def begins(self, body: Body) -> Body:
        """The body, from where the axes stand now."""
        return (At(self.base, self.origin, body),)


def corner_of(pitches: Mapping[Axis, int]) -> Corner:
    """The address of points that are so far apart along each axis."""
    base, here = Axis("corner", 1 << 40), list[Integer]()
    for axis, pitch in pitches.items():
        here.append(Position(axis) if pitch == 1 else Product(Position(axis), pitch))
    total, *others = here
    for other in others:
        total = Sum(total, other)
    return Corner(base, Affine(((base, 1), *pitches.items()), 0), Difference(0, total))


def each_from_here(axis: Axis, count: int, body: Body, step: int = 1) -> Body:
    """A loop over so many points, ``step`` apart, from where an axis stands now. Also of one: what is loaded inside is
    not known outside, where memory may have been stored to."""
    return (Loop(axis, Position(axis), Sum(Position(axis), count * step), step, body),)
