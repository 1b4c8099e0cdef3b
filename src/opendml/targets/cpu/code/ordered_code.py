"""Scans and scatters into LLVM functions: what has to be done in order, for many points side by side.

The points of a scan run along one axis with their state. Where many of them lie next to each other they go together,
row by row: their state waits in memory of the thread's own, and rows are read as they lie. A few points next to each
other have their state in a register, and so have several points that lie apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from opendml.expression.ir import BOOL, Axis, Expression
from opendml.llvm.builder import Builder, Value, vector_type
from opendml.targets.cpu.code.evaluation import Evaluator
from opendml.targets.cpu.code.point import Point
from opendml.targets.cpu.code.work_items import Bounds, block_bounds, decoded, share, write_items
from opendml.targets.cpu.schedule import ScanKernel, ScatterKernel


def write_scan(kernel: ScanKernel, builder: Builder, evaluator: Evaluator, origin: Point) -> None:
    """The function of a Scan."""
    writer = _ScanWriter(kernel, builder, evaluator)
    blocks = [
        (axis, size) for axis, size in ((kernel.rows, kernel.rows_together), (kernel.vector, kernel.block)) if axis
    ]
    sizes = [axis.size for axis in kernel.outer] + [-(-axis.size // size) for axis, size in blocks]

    def item(position: str) -> None:
        with evaluator.scope():
            coordinates = decoded(builder, position, sizes)
            point = origin
            for axis, name in zip(kernel.outer, coordinates, strict=False):
                point = point.at(axis, name)
            numbers = coordinates[len(kernel.outer) :]
            bounds = [
                block_bounds(builder, name, size, axis.size) for (axis, size), name in zip(blocks, numbers, strict=True)
            ]
            writer.write(point, bounds)

    write_items(builder, kernel, kernel.work, evaluator.target.tuning, item)


class _ScanWriter:
    """What one work item of a Scan does."""

    def __init__(self, kernel: ScanKernel, builder: Builder, evaluator: Evaluator) -> None:
        self.kernel = kernel
        self.builder = builder
        self.evaluator = evaluator
        sizes = [kernel.block * max(v.type.bits, 8) // 8 for v in kernel.scan.state] if kernel.by_rows else []
        self._areas = [builder.allocate(builder.fresh("state"), size) for size in sizes]

    def write(self, point: Point, bounds: Sequence[Bounds]) -> None:
        """The points of one work item: a block of ``vector``, or of ``rows``, or one point."""
        kernel = self.kernel
        if kernel.by_rows:
            self._by_rows(point, *bounds[0])
        elif kernel.vector is not None:
            self._chunks(*bounds[0], lambda start, lanes: self._along([self._at(point, start, lanes)]))
        elif kernel.rows is not None:
            self._together(kernel.rows, point, *bounds[0])
        else:
            self._along([point])

    def _at(self, point: Point, start: str, lanes: int) -> Point:
        """The point, or points, that begin at ``start`` of the vector axis."""
        vector = self.kernel.vector
        assert vector is not None
        here = point.at(vector, start)
        return replace(here, vector=vector, lanes=lanes) if lanes > 1 else here

    def _chunks(self, first: str, last: str, body: Callable[[str, int], None]) -> None:
        """``body(start, lanes)`` for all points from ``first`` to ``last``, each once: a scan may work in place."""
        lanes = self.kernel.lanes
        for width in dict.fromkeys((lanes, max(lanes // 4, 1), 1)):
            span = self.builder.assign(f"sub nsw i64 {last}, {first}")
            end = self.builder.assign(f"sub nsw i64 {last}, {self.builder.assign(f'srem i64 {span}, {width}')}")

            def several(position: str, _: list[Value], width: int = width) -> list[Value]:
                with self.evaluator.scope():
                    body(position, width)
                return []

            self.builder.loop(first, end, width, [], several)
            first = end

    # State in memory -------------------------------------------------------------------------------------------------

    def _by_rows(self, point: Point, first: str, last: str) -> None:
        """Step by step along the scan, in every step all points of the block."""

        def begin(start: str, lanes: int) -> None:
            here = self._at(point, start, lanes)
            self._keep(self._values(self.kernel.initial, here), start, first)

        def step(position: str, _: list[Value]) -> list[Value]:
            moved = point.at(self.kernel.scan.along, position)
            self._chunks(first, last, lambda start, lanes: self._row_step(self._at(moved, start, lanes), start, first))
            return []

        self._chunks(first, last, begin)
        with self.evaluator.scope():
            self.builder.loop("0", str(self.kernel.scan.along.size), 1, [], step)

    def _row_step(self, point: Point, start: str, first: str) -> None:
        state = [
            Value(
                self.builder.assign(
                    f"load {vector_type(v.type, point.lanes)}, ptr {place}, align {max(v.type.bits, 8) // 8}"
                ),
                v.type,
                point.lanes,
            )
            for v, place in zip(self.kernel.scan.state, self._places(start, first), strict=True)
        ]
        self._keep(self._step(point, state), start, first)

    def _keep(self, state: Sequence[Value], start: str, first: str) -> None:
        for value, place in zip(state, self._places(start, first), strict=True):
            self.builder.line(f"store {value.typed}, ptr {place}, align {max(value.type.bits, 8) // 8}")

    def _places(self, start: str, first: str) -> list[str]:
        offset = self.builder.assign(f"sub nsw i64 {start}, {first}")
        elements = [vector_type(v.type, 1) for v in self.kernel.scan.state]
        return [
            self.builder.assign(f"getelementptr {element}, ptr {area}, i64 {offset}")
            for element, area in zip(elements, self._areas, strict=True)
        ]

    # State in registers ----------------------------------------------------------------------------------------------

    def _together(self, rows: Axis, point: Point, first: str, last: str) -> None:
        """The points of a block of ``rows`` side by side, so that none of them waits for its own state only."""
        count = self.kernel.rows_together
        span = self.builder.assign(f"sub nsw i64 {last}, {first}")
        whole = Value(self.builder.assign(f"icmp eq i64 {span}, {count}"), BOOL)

        def together() -> list[Value]:
            with self.evaluator.scope():
                self._along([point.at(rows, first, number) for number in range(count)])
            return []

        def one_by_one() -> list[Value]:
            def one(position: str, _: list[Value]) -> list[Value]:
                with self.evaluator.scope():
                    self._along([point.at(rows, position)])
                return []

            return self.builder.loop(first, last, 1, [], one)

        self.builder.branch(whole, together, one_by_one)

    def _along(self, points: Sequence[Point]) -> None:
        """The whole scan of some points, step by step."""
        state = [value for point in points for value in self._values(self.kernel.initial, point)]
        size = len(self.kernel.scan.state)

        def body(position: str, values: list[Value]) -> list[Value]:
            with self.evaluator.scope():
                moved = [point.at(self.kernel.scan.along, position) for point in points]
                parts = [values[n : n + size] for n in range(0, len(values), size)]
                steps = [self._step(point, part) for point, part in zip(moved, parts, strict=True)]
                return [value for step in steps for value in step]

        self.builder.loop("0", str(self.kernel.scan.along.size), 1, state, body)

    def _step(self, point: Point, state: Sequence[Value]) -> list[Value]:
        """One step at a point; the state after it."""
        kernel, here = self.kernel, point.bound(self.kernel.scan.state, state)
        following = self._values(kernel.step, here)
        stored = [self.evaluator.value(s.value, here) for s in kernel.stores]
        for store, value in zip(kernel.stores, stored, strict=True):
            self.evaluator.store(store.tensor, store.address, value, here)
        return following

    def _values(self, expressions: Sequence[Expression], point: Point) -> list[Value]:
        return [self.builder.spread(self.evaluator.value(e, point), point.lanes) for e in expressions]


def write_scatter(kernel: ScatterKernel, builder: Builder, evaluator: Evaluator, origin: Point) -> None:
    """The function of a Scatter."""
    store = kernel.store

    def nest(axes: Sequence[Axis], point: Point, bounds: Mapping[Axis, Bounds], part: Bounds | None) -> None:
        if not axes:
            condition = evaluator.value(kernel.where, point)
            builder.branch(condition, lambda: place(point, part), list)
            return
        axis, *rest = axes

        def body(position: str, _: list[Value]) -> list[Value]:
            with evaluator.scope():
                nest(rest, point.at(axis, position), bounds, part)
            return []

        builder.loop(*bounds.get(axis, ("0", str(axis.size))), 1, [], body)

    def place(point: Point, part: Bounds | None) -> list[Value]:
        """Writes the element, if it is in the given part of the output."""
        with evaluator.scope():
            if part is None:
                return write(point)
            element = evaluator.index(store.address, point).text
            above = builder.assign(f"icmp sge i64 {element}, {part[0]}")
            below = builder.assign(f"icmp slt i64 {element}, {part[1]}")
            mine = builder.assign(f"and i1 {above}, {below}")
            return builder.branch(Value(mine, BOOL), lambda: write(point), list)

    def write(point: Point) -> list[Value]:
        with evaluator.scope():
            evaluator.store(store.tensor, store.address, evaluator.value(store.value, point), point)
        return []

    def item(position: str) -> None:
        with evaluator.scope():
            counts = [-(-axis.size // block) for axis, block in kernel.blocks]
            numbers = zip(kernel.blocks, decoded(builder, position, counts), strict=True)
            bounds = {axis: block_bounds(builder, number, block, axis.size) for (axis, block), number in numbers}
            nest(kernel.axes, origin, bounds, None)

    if kernel.blocks or kernel.serial:
        write_items(builder, kernel, kernel.work, evaluator.target.tuning, item)
    else:
        nest(kernel.axes, origin, {}, share(builder, store.tensor.extent))
