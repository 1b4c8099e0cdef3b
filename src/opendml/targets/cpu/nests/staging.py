"""Short rows on their way past the caches.

A line of memory written past the caches in pieces costs a transfer for every piece. So neighbouring rows of a large
output are computed in a small piece of memory of the thread's own, the stage, and leave it in long runs: whole lines
past the caches, and what is left before the first and after the last one as usual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opendml.expression.affine import Affine
from opendml.expression.ir import Axis
from opendml.loops.nest import Area, Body, ElementStore, Flush, Let, Loop, Memory, Run, Stage
from opendml.loops.nest_integers import Difference, End, Integer, Local, Product, Start
from opendml.targets.cpu.kernels import ComputeKernel
from opendml.targets.cpu.nests.making import Stores


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the rows of one output lie in the stage: each ``row`` elements long, one ``pitch`` elements after another,
    and several ``planes`` of them, ``plane_pitch`` elements apart."""

    area: Area
    row: int
    pitch: int
    planes: int
    plane_pitch: int


class Staging:
    """The stage of a kernel, in scratch memory of the thread."""

    def __init__(self, kernel: ComputeKernel, cache_line: int) -> None:
        assert kernel.stage is not None and kernel.vector is not None
        self._kernel = kernel
        self._rows = kernel.stage
        self._vector = kernel.vector
        self._cache_line = cache_line
        self._layouts = [self._layout(store) for store in kernel.stores]

    @property
    def memories(self) -> tuple[Memory, ...]:
        """What the stage takes, for each output."""
        return tuple(layout.area.memory for layout in self._layouts)

    def _layout(self, store: ElementStore) -> _Layout:
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
        memory = Memory("stage", store.tensor.type, elements)
        here = Affine(tuple(address), 0)
        area = Area(store.tensor, store.address, here, memory, slack * size, self._cache_line)
        return _Layout(area, row, pitch, planes, plane_pitch)

    def body(self, inner: Callable[[Stores], Body]) -> Body:
        """``inner(stores)`` for all rows of a block into the stage, and from there to the outputs."""
        rows, vector, tile = self._rows, self._vector, self._kernel.tile
        is_cut = self._kernel.vector_block is not None
        bounds: tuple[Integer, Integer] = (Start(vector), End(vector)) if is_cut else (0, vector.size)
        origin: list[tuple[Axis, Integer]] = [] if tile is None else [(tile, 0)]
        origin += [(rows, Start(rows)), (vector, bounds[0])]
        areas = tuple(layout.area for layout in self._layouts)
        pairs = zip(self._kernel.stores, areas, strict=True)
        body = inner(tuple(ElementStore(store.tensor, area.address, store.value) for store, area in pairs))
        if rows is not tile:
            body = (Loop(rows, Start(rows), End(rows), 1, body),)
        count = Local("rows")
        flushes: list[Let | Flush] = [Let(count, Difference(End(rows), Start(rows)))]
        for layout in self._layouts:
            columns = Local("columns")
            flushes += [Let(columns, Difference(bounds[1], bounds[0])), self._flush(layout, count, columns)]
        return (Stage(areas, tuple(origin), body), *flushes)

    def _flush(self, layout: _Layout, rows: Local, columns: Local) -> Flush:
        """A block from the stage to the output: as one run, where the rows follow one another without a gap."""
        runs, target = list[Run](), layout.area.target
        if layout.planes > 1 and self._kernel.tile is not None:
            runs.append(Run(layout.planes, layout.plane_pitch, target.coefficient(self._kernel.tile)))
        if layout.row == layout.pitch:
            return Flush(layout.area, tuple(runs), Product(rows, layout.row))
        runs.append(Run(rows, layout.pitch, target.coefficient(self._rows)))
        return Flush(layout.area, tuple(runs), columns)


def _congruent(least: int, number: int, modulus: int) -> int:
    """The first number from ``least`` on that leaves the same rest as ``number``."""
    return least + (number - least) % modulus
