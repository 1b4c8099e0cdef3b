"""Where the axes stand while a nest is run with NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from opendml.expression.interpreter import PARTIAL_DIMENSIONS, Array
from opendml.expression.ir import Axis


@dataclass(frozen=True, slots=True)
class Place:
    """Where the axes stand. ``spread`` are the axes of which several points are taken at once, how many, and how far
    apart; the first ``active`` of the vector's take part. ``copy``: the number of the unrolled point.
    """

    positions: Mapping[Axis, int]
    spread: tuple[tuple[Axis, int, int], ...] = ()
    vector: Axis | None = None
    active: int | None = None
    copy: int = 0

    def at(self, axis: Axis, position: int) -> Place:
        """The place with an axis somewhere else."""
        return replace(self, positions={**self.positions, axis: position})

    def moved(self, axis: Axis, count: int) -> Place:
        """The place with an axis so many points further on."""
        return self.at(axis, self.positions[axis] + count)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many points there are along each axis of several."""
        return tuple(count for _, count, _ in self.spread)

    @property
    def together(self) -> int:
        """How many points are together, vectors counted as one."""
        return math.prod(count for d, count in enumerate(self.shape) if self.vector is None or d != self.dimension)

    @property
    def dimension(self) -> int:
        """That of the vector, along which its axis goes point by point: the last one of that axis."""
        return max(d for d, (axis, _, _) in enumerate(self.spread) if axis is self.vector)

    @property
    def coordinates(self) -> dict[object, Array]:
        """Where each axis stands at all of the points, a dimension for every axis of several, and more for lanes."""
        found: dict[object, Array] = {axis: np.asarray(i, np.int64) for axis, i in self.positions.items()}
        rank = len(self.spread) + PARTIAL_DIMENSIONS
        for d, (axis, count, step) in enumerate(self.spread):
            steps = np.arange(count, dtype=np.int64).reshape([count if n == d else 1 for n in range(rank)])
            found[axis] = found[axis] + steps * step
        return found

    @property
    def mask(self) -> Array | None:
        """Which of the points take part; None: all."""
        if self.active is None:
            return None
        lanes = np.arange(self.shape[self.dimension]) < self.active
        rank = len(self.spread) + PARTIAL_DIMENSIONS
        return lanes.reshape([-1 if d == self.dimension else 1 for d in range(rank)])


def at_points(value: Array, place: Place) -> Array:
    """A value at every one of the points, in a row."""
    shape = (*place.shape, *([1] * PARTIAL_DIMENSIONS))
    return np.broadcast_to(value.reshape((1,) * (len(shape) - value.ndim) + value.shape), shape).reshape(-1)
