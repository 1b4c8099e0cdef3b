"""How many sums a tile of registers has, and where these stand."""

from __future__ import annotations

from typing import NamedTuple

from opendml.expression.ir import Axis, Variable
from opendml.loops.nest import Body, Kind, Loop, Points
from opendml.loops.nest_integers import Integer


class TileCounts(NamedTuple):
    """Registers along the vector axis, points along the tile axis, and rows of these along the axis ``row``, of the
    tiles that are made."""

    vectors: int
    tile: Axis
    points: int
    rows: int
    row: Axis | None

    @property
    def registers(self) -> int:
        """How many registers of sums a tile has."""
        return self.points * self.rows * self.vectors

    def along(self, axis: Axis) -> int:
        """How many points of one of the tile's sides a tile takes."""
        rows = self.rows if axis is self.row else 1
        return rows * (self.points if axis is self.tile else 1)

    @property
    def row_step(self) -> int:
        """Points along the axis of rows from one row to the next."""
        return self.points if self.row is self.tile else 1

    def in_rows(self, body: Body, kind: Kind = "unrolled") -> Body:
        """In every row of the tile."""
        return body if self.row is None else (Points(self.row, self.rows, kind, body, step=self.row_step),)

    def summing(self, total: Variable, axis: Axis, first: Integer, end: Integer, step: int, body: Body) -> Loop:
        """The loop along an axis of the fold, through which the sums ``total`` of the tile go in registers."""
        return Loop(axis, first, end, step, body, carried=(total,), copies=self.registers)
