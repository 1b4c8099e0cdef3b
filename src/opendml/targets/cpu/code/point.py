"""Points of the iteration space at which expressions are evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opendml.expression.ir import Axis, Variable
from opendml.llvm.values import Value


class Position(NamedTuple):
    """Where an axis stands: the value ``name`` (or nothing) plus a constant."""

    name: str | None
    constant: int = 0


class Point(NamedTuple):
    """A point, or ``lanes`` neighbouring points along ``vector``.

    Only the first ``active`` lanes may touch memory, and only those where ``mask`` holds may make unsafe loads;
    ``allowed`` are these, from the first one to that behind the last one, where they are known as the code is written.
    """

    positions: Mapping[Axis, Position]
    vector: Axis | None = None
    lanes: int = 1
    variables: Mapping[Variable, Value] | None = None
    active: int | None = None
    mask: Value | None = None
    allowed: tuple[int, int] | None = None

    @property
    def active_lanes(self) -> tuple[int, int]:
        """The lanes that may touch memory, as a range."""
        return (0, self.lanes if self.active is None else self.active)

    def at(self, axis: Axis, name: str | None, constant: int = 0) -> Point:
        """The point with ``axis`` moved."""
        return Point({**self.positions, axis: Position(name, constant)}, *self[1:])

    def bound(self, names: Sequence[Variable], values: Sequence[Value]) -> Point:
        """The point with values for variables."""
        return self._replace(variables={**(self.variables or {}), **dict(zip(names, values, strict=True))})
