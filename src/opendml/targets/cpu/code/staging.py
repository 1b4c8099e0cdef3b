"""Short rows on their way past the caches.

A line of memory written past the caches in pieces costs a transfer for every piece. So neighbouring rows of a large
output are computed in a small piece of memory of the thread's own, the stage, and leave it in long runs: whole lines
past the caches, and what is left before the first and after the last one as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from opendml.expression.affine import Affine
from opendml.expression.element_types import U8, U16, U32, U64
from opendml.expression.ir import Axis
from opendml.llvm.builder import Builder, Value, vector_type
from opendml.loops.nest import ElementStore
from opendml.targets.cpu.code.evaluation import Evaluator
from opendml.targets.cpu.code.point import Point
from opendml.targets.cpu.code.work_items import Bounds, smaller
from opendml.targets.cpu.schedule import ComputeKernel

UNSIGNED_OF_SIZE: Final = {1: U8, 2: U16, 4: U32, 8: U64}


@dataclass(frozen=True, slots=True)
class _Area:
    """The part of the stage for one output.

    ``store`` is the store into it. Its rows are ``row`` elements long, one is ``pitch`` elements after another, as far
    behind a line of memory as in the output. Vectors and tiles that are moved back at the end of an axis begin up to
    ``slack`` bytes before the first row. There may be several ``planes`` of rows, ``plane_pitch`` elements apart.
    """

    target: ElementStore
    store: ElementStore
    row: int
    pitch: int
    slack: int
    planes: int
    plane_pitch: int
    pointer: str

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.target.tensor.type.bits // 8

    @property
    def is_one_run(self) -> bool:
        """Whether the rows follow one another without a gap."""
        return self.row == self.pitch


class Stage:
    """The stage of a kernel, in scratch memory of the thread."""

    def __init__(self, builder: Builder, evaluator: Evaluator, kernel: ComputeKernel) -> None:
        assert kernel.stage is not None and kernel.vector is not None
        self._builder = builder
        self._evaluator = evaluator
        self._kernel = kernel
        self._rows = kernel.stage
        self._vector = kernel.vector
        self._cache_line = evaluator.target.machine.cache_line
        self._areas = [self._area(store) for store in kernel.stores]

    def _area(self, store: ElementStore) -> _Area:
        kernel, rows, vector = self._kernel, self._rows, self._vector
        size, pitch = store.tensor.type.bits // 8, store.address.coefficient(rows)
        whole = vector.size * store.address.coefficient(vector)
        row = whole if kernel.vector_block is None else kernel.vector_block
        count, before = kernel.stage_block, 0
        if rows is kernel.tile:
            count, before = kernel.tile_block, kernel.tile_size
        line = self._cache_line // size
        if row != pitch:
            # Behind a line as in the output, and not a power of two, for whose multiples a cache has few places.
            pitch = _congruent(row + kernel.lanes + line, pitch, line)
        slack = -(-(before * pitch + kernel.lanes) // line) * line
        address: list[tuple[Axis, int]] = [(rows, pitch), (vector, store.address.coefficient(vector))]
        planes = plane_pitch = 1
        if kernel.tile is not None and kernel.tile is not rows:
            plane_pitch = store.address.coefficient(kernel.tile)
            if not kernel.interleaved:
                planes = kernel.tile_size
                plane_pitch = _congruent(count * pitch + kernel.lanes + line, plane_pitch, line)
            address.append((kernel.tile, plane_pitch))
        elements = slack + count * pitch + (planes - 1) * plane_pitch + line
        area = self._builder.allocate(self._builder.fresh("stage"), elements * size)
        moved = ElementStore(store.tensor, Affine(tuple(address), 0), store.value)
        return _Area(store, moved, row, pitch, slack * size, planes, plane_pitch, area)

    def write(
        self, point: Point, bounds: Mapping[Axis, Bounds], body: Callable[[tuple[ElementStore, ...], Point], None]
    ) -> None:
        """``body(stores, point)`` for all rows of a block into the stage, and from there to the outputs."""
        evaluator, builder, rows = self._evaluator, self._builder, self._rows
        first, last = bounds[rows]
        start, end = bounds.get(self._vector, ("0", str(self._vector.size)))
        origin = point.at(self._kernel.tile, None) if self._kernel.tile is not None else point
        origin = origin.at(rows, first).at(self._vector, None if start == "0" else start)
        places = [evaluator.place(a.target.tensor, a.target.address, origin) for a in self._areas]
        targets = [evaluator.memory.pointer(place) for place in places]
        sources = [self._beginning(a, target) for a, target in zip(self._areas, targets, strict=True)]
        moved = {a.store.tensor: self._moved(a, origin, s) for a, s in zip(self._areas, sources, strict=True)}
        stores = tuple(area.store for area in self._areas)

        def each_row(position: str, _: list[Value]) -> list[Value]:
            with evaluator.scope():
                body(stores, point.at(rows, position))
            return []

        with evaluator.memory.elsewhere(moved):
            if rows is self._kernel.tile:
                body(stores, point)
            else:
                builder.loop(first, last, 1, [], each_row)
        count = builder.assign(f"sub nsw i64 {last}, {first}")
        for area, source, target in zip(self._areas, sources, targets, strict=True):
            self._flush(area, source, target, count, builder.assign(f"sub nsw i64 {end}, {start}"))

    def _beginning(self, area: _Area, target: str) -> str:
        """Where the block begins in its area: as far behind a line as in the output."""
        address = self._builder.assign(f"ptrtoint ptr {target} to i64")
        behind = self._builder.assign(f"and i64 {address}, {self._cache_line - 1}")
        place = self._builder.assign(f"add nsw i64 {behind}, {area.slack}")
        return self._builder.assign(f"getelementptr i8, ptr {area.pointer}, i64 {place}")

    def _moved(self, area: _Area, origin: Point, source: str) -> str:
        """Where the tensor would begin if ``source`` were its element at ``origin``."""
        index = self._evaluator.index(area.store.address, origin).text
        back = self._builder.assign(f"sub nsw i64 0, {index}")
        return self._builder.assign(f"getelementptr {vector_type(area.store.tensor.type, 1)}, ptr {source}, i64 {back}")

    def _flush(self, area: _Area, source: str, target: str, rows: str, columns: str) -> None:
        """A block from the stage to the output."""
        builder, address = self._builder, area.target.address

        def plane(source: str, target: str) -> None:
            if area.is_one_run:
                self._run(area, source, target, builder.assign(f"mul nsw i64 {rows}, {area.row}"))
            else:
                pitches = (area.pitch, address.coefficient(self._rows))
                self._each(rows, area, pitches, (source, target), lambda a, b: self._run(area, a, b, columns))

        if area.planes == 1 or self._kernel.tile is None:
            plane(source, target)
        else:
            pitches = (area.plane_pitch, address.coefficient(self._kernel.tile))
            self._each(str(area.planes), area, pitches, (source, target), plane)

    def _each(
        self,
        count: str,
        area: _Area,
        pitches: tuple[int, int],
        pointers: tuple[str, str],
        body: Callable[[str, str], None],
    ) -> None:
        """``body`` for ``count`` places that lie ``pitches`` elements apart in the stage and in the output."""

        def one(position: str, _: list[Value]) -> list[Value]:
            offsets = [self._builder.assign(f"mul nsw i64 {position}, {pitch * area.size}") for pitch in pitches]
            pairs = zip(pointers, offsets, strict=True)
            source, target = (self._builder.assign(f"getelementptr i8, ptr {p}, i64 {offset}") for p, offset in pairs)
            body(source, target)
            return []

        self._builder.loop("0", count, 1, [], one)

    def _run(self, area: _Area, source: str, target: str, count: str) -> None:
        """``count`` elements from one place to another, both as far behind a line."""
        builder, size = self._builder, area.size
        lanes = self._cache_line // size
        address = builder.assign(f"ptrtoint ptr {target} to i64")
        gap = builder.assign(f"and i64 {builder.assign(f'sub i64 0, {address}')}, {self._cache_line - 1}")
        start = smaller(builder, builder.assign(f"udiv i64 {gap}, {size}"), count)
        span = builder.assign(f"sub nsw i64 {count}, {start}")
        rest = builder.assign(f"srem i64 {span}, {lanes}")
        end = builder.assign(f"sub nsw i64 {count}, {rest}")
        self._copy(size, source, target, ("0", start), 1)
        self._copy(size, source, target, (start, end), lanes)
        self._copy(size, source, target, (end, count), 1)

    def _copy(self, size: int, source: str, target: str, bounds: tuple[str, str], lanes: int) -> None:
        builder, type = self._builder, UNSIGNED_OF_SIZE[size]  # bits are moved, whatever they mean
        element, kind = vector_type(type, 1), vector_type(type, lanes)
        how = f"align {self._cache_line}, !nontemporal !0" if lanes > 1 else f"align {size}"

        def body(position: str, _: list[Value]) -> list[Value]:
            places = [builder.assign(f"getelementptr {element}, ptr {p}, i64 {position}") for p in (source, target)]
            value = builder.assign(f"load {kind}, ptr {places[0]}, align {self._cache_line if lanes > 1 else size}")
            builder.line(f"store {kind} {value}, ptr {places[1]}, {how}")
            return []

        builder.loop(*bounds, lanes, [], body)


def _congruent(least: int, number: int, modulus: int) -> int:
    """The first number from ``least`` on that leaves the same rest as ``number``."""
    return least + (number - least) % modulus
