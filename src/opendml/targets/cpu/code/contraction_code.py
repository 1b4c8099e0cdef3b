"""The function of a contraction: loops around a tile of sums that stay in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from opendml.expression.affine import Element
from opendml.expression.element_types import BOOL
from opendml.expression.ir import Axis, Part
from opendml.expression.rewriting import walk
from opendml.llvm.builder import Builder, Value
from opendml.targets.cpu.code.evaluation import Evaluator
from opendml.targets.cpu.code.point import Point
from opendml.targets.cpu.code.work_items import block_bounds, decoded, moved_back, smaller, write_items
from opendml.targets.cpu.contraction import ContractionKernel, Panel
from opendml.targets.cpu.nests.looks import look_of


def write_contraction(kernel: ContractionKernel, builder: Builder, evaluator: Evaluator, origin: Point) -> None:
    """All work items of this thread."""
    writer = _Writer(kernel, builder, evaluator)
    # Steps of a sum written out one after the other would share what they load, in more registers than there are.
    builder.rolled, evaluator.unroll_steps = True, 0
    look = look_of(kernel.item_count, kernel.work, evaluator.target.tuning)
    write_items(builder, kernel.item_count, lambda number: writer.item(number, origin), serial=kernel.serial, look=look)


class _Writer:
    def __init__(self, kernel: ContractionKernel, builder: Builder, evaluator: Evaluator) -> None:
        self.kernel = kernel
        self.builder = builder
        self.evaluator = evaluator
        self.cache_line = evaluator.target.machine.cache_line
        self.bounds: dict[Axis, tuple[str, str]] = {}
        self.vectors = kernel.vectors  # of the tiles that are being written

    def item(self, number: str, origin: Point) -> None:
        """One work item."""
        kernel, builder = self.kernel, self.builder
        with self.evaluator.scope():
            numbers = decoded(builder, number, kernel.block_counts)
            whole: dict[Axis, int] = {}
            self.bounds = {}
            for (axis, block), part in zip(kernel.blocks, numbers, strict=True):
                outer = self.bounds.get(axis)
                self.bounds[axis] = block_bounds(builder, part, block, whole.get(axis, axis.size), outer)
                whole[axis] = block
            if kernel.panel is not None:
                self._pack_if_new(number, origin)
            self._loops(kernel.loops, origin, self._tile)

    def _loops(self, axes: Sequence[Axis], point: Point, body: Callable[[Point], None]) -> None:
        """Loops of an item. The last tile of an axis is moved back to end with it: some sums are done twice."""
        if not axes:
            body(point)
            return
        axis, *rest = axes
        if axis is self.kernel.vector:
            self._strips(rest, point, body)
            return
        step = self.kernel.tile_size if axis is self.kernel.tile else 1

        def one(position: str, _: list[Value]) -> list[Value]:
            with self.evaluator.scope():
                start = moved_back(self.builder, position, step, axis.size)
                self._loops(rest, point.at(axis, start), body)
            return []

        self.builder.loop(*self.bounds[axis], step, [], one)

    def _strips(self, inner: Sequence[Axis], point: Point, body: Callable[[Point], None]) -> None:
        """The loop along the vector axis; its last strip has a copy of the loops ``inner`` if it is narrower."""
        kernel, (start, end) = self.kernel, self.bounds[self.kernel.vector]
        axis, size = kernel.vector, kernel.vector.size

        def one(position: str, _: list[Value]) -> list[Value]:
            with self.evaluator.scope():
                here = point.at(axis, moved_back(self.builder, position, self.vectors * kernel.lanes, size))
                if kernel.panel is not None:
                    here = self._with_base(kernel.panel, here, position)
                self._loops(inner, here, body)
            return []

        if kernel.last_vectors == kernel.vectors:
            self.builder.loop(start, end, kernel.strip, [], one)
            return
        whole = size - size % kernel.strip
        self.builder.loop(start, smaller(self.builder, end, whole), kernel.strip, [], one)
        self.vectors = kernel.last_vectors
        self.builder.loop(str(whole), end, kernel.strip, [], one)
        self.vectors = kernel.vectors

    # The panel -------------------------------------------------------------------------------------------------------

    def _with_base(self, panel: Panel, point: Point, unmoved: str) -> Point:
        """The point, knowing where the strip is in the panel whose vectors begin at ``unmoved`` or are moved back."""
        builder, kernel = self.builder, self.kernel
        number = builder.assign(f"sub nsw i64 {unmoved}, {self.bounds[kernel.vector][0]}")
        number = builder.assign(f"udiv i64 {number}, {kernel.strip}")
        blocks = dict(kernel.blocks)
        stride = -(-blocks[kernel.vector] // kernel.strip)
        for axis in reversed(kernel.along[:-1]):
            position, _ = point.positions[axis]
            inside = builder.assign(f"sub nsw i64 {position}, {self.bounds[axis][0]}")
            number = builder.assign(f"add nsw i64 {number}, {builder.assign(f'mul nsw i64 {inside}, {stride}')}")
            stride *= blocks[axis]
        start = builder.assign(f"mul nsw i64 {number}, {kernel.strip * kernel.steps}")
        begin, _ = point.positions[kernel.vector]
        return point.at(panel.base, builder.assign(f"sub nsw i64 {start}, {begin}"))

    def _pack_if_new(self, number: str, origin: Point) -> None:
        """Fill the panel, unless the item before has left the same one."""
        kernel, builder, panel = self.kernel, self.builder, self.kernel.panel
        assert panel is not None
        followers = math.prod(
            count for (axis, _), count in zip(kernel.blocks, kernel.block_counts, strict=True) if axis in kernel.across
        )

        def pack() -> list[Value]:
            with self.evaluator.scope():
                self._fill_panel(panel, origin)
            return []

        first = builder.assign(f"udiv i64 {builder.assign(f'mul i64 %thread, {kernel.item_count}')}, %threads")
        is_first = builder.assign(f"icmp eq i64 {number}, {first}")
        place = builder.assign(f"urem i64 {number}, {followers}")
        is_new = builder.assign(f"icmp eq i64 {place}, 0")
        builder.branch(Value(builder.assign(f"or i1 {is_first}, {is_new}"), BOOL), pack, list)

    def _fill_panel(self, panel: Panel, origin: Point) -> None:
        """The loops are those that read the source in long runs."""
        batch, along, steps = self.kernel.batch, self.kernel.along, self.kernel.fold.axes
        if panel.transposed is None:
            self._loops(
                batch,
                origin,
                lambda here: self._steps(steps, here, lambda step: self._loops(along, step, self._pack_step)),
            )
            return
        steps = tuple(axis for axis in steps if axis is not panel.transposed)
        self._loops([*batch, *along], origin, lambda strip: self._steps(steps, strip, self._pack_transposed))

    def _steps(self, axes: Sequence[Axis], point: Point, body: Callable[[Point], None]) -> None:
        """``body`` at every step of the fold, as far as ``axes`` go."""
        if not axes:
            body(point)
            return
        axis, *rest = axes

        def one(position: str, _: list[Value]) -> list[Value]:
            with self.evaluator.scope():
                self._steps(rest, point.at(axis, position), body)
            return []

        self.builder.loop("0", str(axis.size), 1, [], one)

    def _pack_step(self, point: Point) -> None:
        kernel = self.kernel
        for number in range(self.vectors):
            here = self._moved(point, kernel.vector, kernel.lanes * number)
            self._fill(replace(here, vector=kernel.vector, lanes=kernel.lanes))

    def _pack_transposed(self, point: Point) -> None:
        """Squares of as many steps as a vector has lanes; the last one is moved back to end with the steps."""
        panel, lanes = self.kernel.panel, self.kernel.lanes
        assert panel is not None and panel.transposed is not None
        axis = panel.transposed
        side = min(lanes, 1 << (axis.size.bit_length() - 1))

        def square(position: str, _: list[Value]) -> list[Value]:
            start = moved_back(self.builder, position, side, axis.size)
            for number in range(self.vectors):
                with self.evaluator.scope():
                    first = self._moved(point, self.kernel.vector, lanes * number)
                    first = replace(first, vector=self.kernel.vector, lanes=lanes)
                    steps = [first.at(axis, start, step) for step in range(side)]
                    if side == lanes:
                        self.evaluator.transpose([panel.source], axis, steps)
                    for here in steps:
                        self._fill(here)
            return []

        self.builder.loop("0", str(axis.size), side, [], square)

    def _fill(self, point: Point) -> None:
        """A vector of the panel."""
        panel = self.kernel.panel
        assert panel is not None
        element = next(e for e in walk(self.kernel.fold) if isinstance(e, Element) and e.tensor is panel.tensor)
        self.evaluator.store(panel.tensor, element.address, self.evaluator.value(panel.source, point), point)

    # Tiles -----------------------------------------------------------------------------------------------------------

    def _tile(self, point: Point) -> None:
        kernel = self.kernel
        rows = [self._moved(point, kernel.tile, number) for number in range(kernel.tile_size)]
        points = [
            replace(self._moved(row, kernel.vector, kernel.lanes * number), vector=kernel.vector, lanes=kernel.lanes)
            for row in rows
            for number in range(self.vectors)
        ]
        self.evaluator.before_product = self._prefetch
        self._expect(point, points)
        if kernel.turned:
            self._store_turned(point, points)
            return
        self.evaluator.prepare([store.value for store in kernel.stores], points)
        for here in points:
            self._store(here)

    def _prefetch(self, point: Point) -> None:
        """What is far from what is loaded now: scalars that the tile below this one needs at this step of the sums, or
        the next tile if there is none below, and vectors of a later step."""
        tile, size = self.kernel.tile, self.kernel.tile_size
        for e in self.kernel.next_tile:
            self._ask_for(e, self._moved(point, tile, size), cache=2)
        for e in self.kernel.far:
            below = next((a for a in reversed(self.kernel.across[:-1]) if e.address.coefficient(a)), None)
            there = self._moved(point, tile, size) if below is None else self._moved(point, below, 1)
            lines = -(-abs(e.address.coefficient(tile)) * size * e.type.bits // 8 // self.cache_line)
            for number in range(lines):
                self._ask_for(e, self._moved(there, tile, size - 1 - number * size // lines))
        for e in self.kernel.far_vectors:
            last = next(axis for axis in reversed(self.kernel.fold.axes) if axis.size > 1)
            there = self._moved(point, last, self.evaluator.target.tuning.steps_ahead)
            for lane in range(0, self.kernel.lanes * self.vectors, self.cache_line * 8 // e.type.bits):
                self._ask_for(e, self._moved(there, self.kernel.vector, lane))

    def _expect(self, origin: Point, points: Sequence[Point]) -> None:
        """Ask for what is loaded and stored after the sums of a tile, while they are done."""
        kernel = self.kernel
        if kernel.turned:
            lanes = [self._moved(origin, kernel.vector, lane) for lane in range(kernel.lanes * self.vectors)]
            ends = {0, kernel.tile_size - 1}
            points = [self._moved(lane, kernel.tile, end) for lane in lanes for end in ends]
        run = kernel.tile if kernel.turned else kernel.vector
        inside = set(walk(kernel.fold))
        for store in kernel.stores:
            loads = [e for e in walk(store.value) if isinstance(e, Element) and e not in inside]
            for here in points:
                self.evaluator.memory.prefetch(self.evaluator.place(store.tensor, store.address, here), is_stored=True)
                for e in loads:
                    if e.address.coefficient(run) == 1:
                        self._ask_for(e, here)

    def _ask_for(self, e: Element, point: Point, *, cache: int = 1) -> None:
        """Have the place of an element brought to the cache of a level; it need not be inside of the tensor."""
        self.evaluator.memory.prefetch(self.evaluator.place(e.tensor, e.address, point), cache=cache)

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
        for number in range(self.vectors):
            columns = self._turned([self.builder.spread(v, kernel.lanes) for v in sums[number :: self.vectors]])
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
