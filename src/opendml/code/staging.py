"""Short rows on their way past the caches.

A line of memory written past the caches in pieces costs a transfer for every piece. So neighbouring rows of a large
output are computed in a small piece of memory of the thread's own, the stage, and leave it together: whole lines past
the caches, and what is left before the first and after the last one as usual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from opendml.code.builder import Builder, Value, vector_type
from opendml.code.evaluation import Evaluator, Point
from opendml.expression.ir import U8, U16, U32, U64
from opendml.kernels.schedule import CACHE_LINE, ComputeKernel, ElementStore

UNSIGNED_OF_SIZE: Final = {1: U8, 2: U16, 4: U32, 8: U64}


class Stage:
    """The stage of a kernel, in the frame of its function: one area for every output."""

    def __init__(self, builder: Builder, evaluator: Evaluator, kernel: ComputeKernel) -> None:
        assert kernel.stage is not None
        self._builder = builder
        self._evaluator = evaluator
        self._kernel = kernel
        self._axis = kernel.stage
        self._areas = [self._area(store) for store in kernel.stores]

    def _area(self, store: ElementStore) -> str:
        """Memory for a block, and for as many bytes before it as it begins behind a line in the output."""
        size = self._row(store) * self._kernel.stage_block * store.tensor.type.bits // 8 + CACHE_LINE
        return self._builder.assign(f"alloca [{size} x i8], align {CACHE_LINE}")

    def _row(self, store: ElementStore) -> int:
        return store.address.coefficient(self._axis)

    def write(self, point: Point, first: str, last: str, row: Callable[[Point], None]) -> None:
        """``row(point)`` for the rows ``first`` to ``last`` into the stage, and from there to the outputs."""
        builder, stores = self._builder, self._kernel.stores
        origin = point.at(self._axis, first)
        for axis in (self._kernel.vector, self._kernel.tile):
            if axis is not None:
                origin = origin.at(axis, None)
        targets = [self._evaluator.place(store.tensor, store.address, origin) for store in stores]
        sources = [self._beginning(area, target) for area, target in zip(self._areas, targets, strict=True)]
        moved = {s.tensor: self._moved(s, origin, source) for s, source in zip(stores, sources, strict=True)}

        def body(position: str, _: list[Value]) -> list[Value]:
            with self._evaluator.scope():
                row(point.at(self._axis, position))
            return []

        with self._evaluator.stored_at(moved):
            builder.loop(first, last, 1, [], body)
        rows = builder.assign(f"sub nsw i64 {last}, {first}")
        for store, source, target in zip(stores, sources, targets, strict=True):
            self._flush(store, source, target, builder.assign(f"mul nsw i64 {rows}, {self._row(store)}"))

    def _beginning(self, area: str, target: str) -> str:
        """Where the block begins in its area: as far behind a line as in the output."""
        address = self._builder.assign(f"ptrtoint ptr {target} to i64")
        behind = self._builder.assign(f"and i64 {address}, {CACHE_LINE - 1}")
        return self._builder.assign(f"getelementptr i8, ptr {area}, i64 {behind}")

    def _moved(self, store: ElementStore, origin: Point, source: str) -> str:
        """Where the tensor would begin if ``source`` were its element at ``origin``."""
        index = self._evaluator.index(store.address, origin).text
        back = self._builder.assign(f"sub nsw i64 0, {index}")
        return self._builder.assign(f"getelementptr {vector_type(store.tensor.type, 1)}, ptr {source}, i64 {back}")

    def _flush(self, store: ElementStore, source: str, target: str, count: str) -> None:
        """``count`` elements from the stage to the output."""
        builder = self._builder
        size = store.tensor.type.bits // 8
        lanes = CACHE_LINE // size
        address = builder.assign(f"ptrtoint ptr {target} to i64")
        gap = builder.assign(f"and i64 {builder.assign(f'sub i64 0, {address}')}, {CACHE_LINE - 1}")
        start = self._smaller(builder.assign(f"udiv i64 {gap}, {size}"), count)
        span = builder.assign(f"sub nsw i64 {count}, {start}")
        rest = builder.assign(f"srem i64 {span}, {lanes}")
        end = builder.assign(f"sub nsw i64 {count}, {rest}")
        self._copy(store, source, target, ("0", start), 1)
        self._copy(store, source, target, (start, end), lanes)
        self._copy(store, source, target, (end, count), 1)

    def _copy(self, store: ElementStore, source: str, target: str, bounds: tuple[str, str], lanes: int) -> None:
        builder, size = self._builder, store.tensor.type.bits // 8
        type = UNSIGNED_OF_SIZE[size]  # bits are moved, whatever they mean
        element, kind = vector_type(type, 1), vector_type(type, lanes)
        how = f"align {CACHE_LINE}, !nontemporal !0" if lanes > 1 else f"align {size}"

        def body(position: str, _: list[Value]) -> list[Value]:
            places = [builder.assign(f"getelementptr {element}, ptr {p}, i64 {position}") for p in (source, target)]
            value = builder.assign(f"load {kind}, ptr {places[0]}, align {CACHE_LINE if lanes > 1 else size}")
            builder.line(f"store {kind} {value}, ptr {places[1]}, {how}")
            return []

        builder.loop(*bounds, lanes, [], body)

    def _smaller(self, a: str, b: str) -> str:
        less = self._builder.assign(f"icmp slt i64 {a}, {b}")
        return self._builder.assign(f"select i1 {less}, i64 {a}, i64 {b}")
