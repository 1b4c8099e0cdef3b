"""The function of a contraction: loops around a tile of sums that stay in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from opendml.code.builder import Builder, Value
from opendml.code.evaluation import Evaluator, Point
from opendml.code.work_items import block_bounds, decoded, smaller, write_items
from opendml.expression.ir import Axis, Part
from opendml.kernels.contraction import ContractionKernel

CACHE_LINE: Final = 64
"""Bytes that a cache fetches together."""


def write_contraction(kernel: ContractionKernel, builder: Builder, evaluator: Evaluator, origin: Point) -> None:
    """All work items of this thread."""
    writer = _Writer(kernel, builder, evaluator)
    # Steps of a sum written out one after the other would share what they load, in more registers than there are.
    builder.rolled, evaluator.unroll_steps = True, 0
    evaluator.before_product = writer.prefetch

    def item(position: str) -> None:
        with evaluator.scope():
            bounds: dict[Axis, tuple[str, str]] = {}
            numbers = decoded(builder, position, kernel.block_counts)
            whole: dict[Axis, int] = {}
            for (axis, block), number in zip(kernel.blocks, numbers, strict=True):
                bounds[axis] = block_bounds(builder, number, block, whole.get(axis, axis.size), bounds.get(axis))
                whole[axis] = block
            writer.loops(kernel.loops, bounds, origin)

    write_items(builder, kernel.item_count, kernel.serial, item)


class _Writer:
    def __init__(self, kernel: ContractionKernel, builder: Builder, evaluator: Evaluator) -> None:
        self.kernel = kernel
        self.builder = builder
        self.evaluator = evaluator

    def loops(self, axes: Sequence[Axis], bounds: dict[Axis, tuple[str, str]], point: Point) -> None:
        """The loops of an item. The last tile of an axis is moved back to end with it: some sums are done twice."""
        if not axes:
            self._tile(point)
            return
        axis, *rest = axes
        step = {self.kernel.vector: self.kernel.strip, self.kernel.tile: self.kernel.tile_size}.get(axis, 1)

        def body(position: str, _: list[Value]) -> list[Value]:
            with self.evaluator.scope():
                start = position if axis.size % step == 0 else smaller(self.builder, position, axis.size - step)
                self.loops(rest, bounds, point.at(axis, start))
            return []

        self.builder.loop(*bounds[axis], step, [], body)

    def _tile(self, point: Point) -> None:
        kernel = self.kernel
        rows = [self._moved(point, kernel.tile, number) for number in range(kernel.tile_size)]
        points = [
            replace(self._moved(row, kernel.vector, kernel.lanes * number), vector=kernel.vector, lanes=kernel.lanes)
            for row in rows
            for number in range(kernel.vectors)
        ]
        if kernel.turned:
            self._store_turned(point, points)
            return
        self.evaluator.prepare([store.value for store in kernel.stores], points)
        for here in points:
            self._store(here)

    def prefetch(self, point: Point) -> None:
        """What the next tile needs at this step of the sums, where it is far from what the next step needs."""
        tile, size = self.kernel.tile, self.kernel.tile_size
        for e in self.kernel.far:
            reach = abs(e.address.coefficient(tile)) * size * e.type.bits // 8
            lines = -(-reach // CACHE_LINE)
            for number in range(lines):
                distance = 2 * size - 1 - number * size // lines
                self.evaluator.prefetch(e, self._moved(point, tile, distance))

    def _moved(self, point: Point, axis: Axis, distance: int) -> Point:
        name, constant = point.positions[axis]
        return point.at(axis, name, constant + distance)

    def _store(self, point: Point) -> None:
        for store in self.kernel.stores:
            value = self.evaluator.value(store.value, point)
            self.evaluator.store(store.tensor, store.address, value, point)

    def _store_turned(self, origin: Point, points: Sequence[Point]) -> None:
        """The sums of a tile, transposed so that the points of the tile axis fill the lanes."""
        kernel = self.kernel
        sums = [values[0] for values in self.evaluator.folded(kernel.fold, points)]
        for number in range(kernel.vectors):
            columns = self._turned([self.builder.spread(v, kernel.lanes) for v in sums[number :: kernel.vectors]])
            for lane, column in enumerate(columns):
                here = self._moved(origin, kernel.vector, kernel.lanes * number + lane)
                active = None if column.lanes == kernel.tile_size else kernel.tile_size
                here = replace(here, vector=kernel.tile, lanes=column.lanes, active=active)
                with self.evaluator.scope():
                    self.evaluator.define(Part(kernel.fold, 0), here, column)
                    self._store(here)

    def _turned(self, rows: Sequence[Value]) -> list[Value]:
        """The columns of some rows, as many lanes as the next power of two; those beyond the rows are undefined."""
        side = 1 << (len(rows) - 1).bit_length()
        undefined = replace(rows[0], text="poison")
        square = [*rows, *[undefined] * (side - len(rows))]
        columns: list[Value] = []
        for start in range(0, rows[0].lanes, side):
            part = range(start, start + side)
            cut = square if side == rows[0].lanes else [self._cut(row, part) for row in square]
            columns += self.builder.transposed(cut) if side > 1 else cut
        return columns

    def _cut(self, row: Value, lanes: range) -> Value:
        if row.text == "poison":
            return replace(row, lanes=len(lanes))
        return self.builder.shuffle(row, None, lanes)
