"""Sums of products as nests: panels, tiles of sums that stay in registers, and what is asked for ahead of its use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from opendml.expression.affine import Affine, Element
from opendml.expression.ir import Axis, Binary, Expression, Part, Variable
from opendml.expression.rewriting import substitute, walk
from opendml.loops.nest import (
    Accumulate,
    At,
    Block,
    Body,
    Branch,
    Cut,
    ElementStore,
    Kind,
    Leaf,
    Loop,
    Nest,
    Points,
    Prefetch,
    Transpose,
    Turn,
)
from opendml.loops.nest_integers import (
    End,
    First,
    Integer,
    Least,
    Local,
    Start,
)
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.nests.kept_rows import unconditional_loads
from opendml.targets.cpu.nests.sharing import shared_items
from opendml.targets.cpu.panels import Panel
from opendml.targets.cpu.target import CpuTarget


def contraction_nest(kernel: ContractionKernel, target: CpuTarget) -> Nest:
    """Work items of blocks; where there is a panel, filled unless the item before has left the same one."""
    maker = _Maker(kernel, target)
    body = maker.loops(kernel.loops, kernel.vectors, maker.tile)
    if kernel.panel is not None:
        followers = math.prod(
            count for (axis, _), count in zip(kernel.blocks, kernel.block_counts, strict=True) if axis in kernel.across
        )
        body = (Branch(First(followers), maker.filled(kernel.panel)), *body)
    cuts = tuple(Cut(axis, block) for axis, block in kernel.blocks)
    items = shared_items(cuts, body, kernel, kernel.work, target.tuning)
    return Nest((items,), rows=() if kernel.panel is None else (kernel.panel.tensor,), rolled=True)


class _Maker:
    def __init__(self, kernel: ContractionKernel, target: CpuTarget) -> None:
        self.kernel = kernel
        self.target = target
        self.sum = Variable("sum", kernel.fold.type)
        self.turned = Variable("turned", kernel.fold.type)

    def loops(self, axes: Sequence[Axis], vectors: int, body: Callable[[int], Body]) -> Body:
        """Loops of an item. The last tile of an axis is moved back to end with it: some sums are done twice."""
        if not axes:
            return body(vectors)
        axis, *rest = axes
        if axis is self.kernel.vector:
            return self._strips(rest, body)
        step = self.kernel.tile_size if axis is self.kernel.tile else 1
        limit = None if axis.size % step == 0 else axis.size - step
        return (Loop(axis, Start(axis), End(axis), step, self.loops(rest, vectors, body), limit),)

    def _strips(self, inner: Sequence[Axis], body: Callable[[int], Body]) -> Body:
        """The loop along the vector axis; its last strip has a copy of the loops ``inner`` if it is narrower."""
        kernel = self.kernel
        axis = kernel.vector

        def strips(first: Integer, last: Integer, vectors: int) -> Loop:
            """Their body knows where the strip is in the panel, if there is one."""
            points = vectors * kernel.lanes
            nodes, unmoved = self.loops(inner, vectors, body), None
            if kernel.panel is not None:
                unmoved = Local("strip")
                base = kernel.panel.first(unmoved, kernel.along, dict(kernel.blocks))
                nodes = (At(kernel.panel.base, base, nodes),)
            limit = None if axis.size % points == 0 else axis.size - points
            return Loop(axis, first, last, kernel.strip, nodes, limit, unmoved=unmoved)

        if kernel.last_vectors == kernel.vectors:
            return (strips(Start(axis), End(axis), kernel.vectors),)
        whole = axis.size - axis.size % kernel.strip
        return (
            strips(Start(axis), Least(End(axis), whole), kernel.vectors),
            strips(whole, End(axis), kernel.last_vectors),
        )

    # The panel -------------------------------------------------------------------------------------------------------

    def filled(self, panel: Panel) -> Body:
        """The loops are those that read the source in long runs."""
        kernel = self.kernel
        fill = Leaf((ElementStore(panel.tensor, panel.element.address, panel.source),))
        if panel.transposed is None:
            strips = self.loops(kernel.along, kernel.vectors, lambda vectors: self._vectors(vectors, (fill,)))
            return self.loops(kernel.batch, kernel.vectors, lambda _: _steps(kernel.fold.axes, strips))
        rest = [axis for axis in kernel.fold.axes if axis is not panel.transposed]
        squares = self._squares(panel.source, panel.transposed, fill)
        axes = [*kernel.batch, *kernel.along]
        return self.loops(axes, kernel.vectors, lambda vectors: _steps(rest, squares(vectors)))

    def _squares(self, source: Expression, axis: Axis, fill: Leaf) -> Callable[[int], Body]:
        """Squares of as many steps as a vector has lanes; the last one is moved back to end with the steps."""
        lanes = self.kernel.lanes
        side = min(lanes, 1 << (axis.size.bit_length() - 1))
        loads = tuple(self._transposed(source, axis)) if side == lanes else ()
        transpose: Body = (Points(axis, side, "together", (Transpose(loads, axis),)),) if loads else ()
        square: Body = (*transpose, Points(axis, side, "unrolled", (fill,)))
        limit = None if axis.size % side == 0 else axis.size - side
        return lambda vectors: (Loop(axis, 0, axis.size, side, self._vectors(vectors, square, is_block=True), limit),)

    def _transposed(self, source: Expression, axis: Axis) -> Iterator[Element]:
        """The loads that run along an axis, and walk over its rows along the vector axis."""
        near = self.target.tuning.shuffled_stride
        for e in dict.fromkeys(unconditional_loads(source)):
            if e.address.coefficient(axis) == 1 and abs(e.address.coefficient(self.kernel.vector)) > near:
                yield e

    def _vectors(self, vectors: int, body: Body, kind: Kind = "unrolled", *, is_block: bool = False) -> Body:
        """All registers along the vector axis."""
        kernel = self.kernel
        inner: Body = (Points(kernel.vector, kernel.lanes, "vector", body),)
        return (Points(kernel.vector, vectors, kind, (Block(inner),) if is_block else inner, step=kernel.lanes),)

    # Tiles -----------------------------------------------------------------------------------------------------------

    def tile(self, vectors: int) -> Body:
        """The sums of a tile, then what is made of them."""
        rewrite = substitute({Part(self.kernel.fold, 0): self.turned if self.kernel.turned else self.sum})
        leaves = tuple(Leaf((ElementStore(s.tensor, s.address, rewrite(s.value)),)) for s in self.kernel.stores)
        stored = self._turned(vectors, leaves) if self.kernel.turned else self._tile("unrolled", vectors, leaves)
        return (*self._expected(vectors), *self._sums(vectors), *stored)

    def _tile(self, kind: Kind, vectors: int, body: Body) -> Body:
        return (Points(self.kernel.tile, self.kernel.tile_size, kind, self._vectors(vectors, body, kind)),)

    def _sums(self, vectors: int) -> Body:
        """All side by side, in the order of the fold."""
        fold, copies = self.kernel.fold, self.kernel.tile_size * vectors
        product = fold.elements[0]
        assert isinstance(product, Binary)
        begin = self._tile("together", vectors, (Leaf(registers=(self.sum,), values=fold.initial),))
        step = self._tile("together", vectors, (Accumulate(self.sum, product),))
        body: Body = (*self._prefetched(vectors), *step)
        is_inside = False
        for axis in reversed(fold.axes):
            is_inside |= axis.size > 1
            if is_inside:
                body = (Loop(axis, 0, axis.size, 1, body, carried=(self.sum,), copies=copies),)
            else:
                body = (At(axis, 0, body),)
        return (*begin, *body)

    def _turned(self, vectors: int, leaves: Body) -> Body:
        """The sums transposed, so that the points of the tile axis fill the lanes."""
        kernel = self.kernel
        turn = Turn(self.sum, self.turned, kernel.tile_size, vectors, kernel.lanes)
        active = None if turn.width == kernel.tile_size else kernel.tile_size
        column: Body = (Block((Points(kernel.tile, turn.width, "vector", leaves, active),)),)
        columns = Points(kernel.vector, kernel.lanes, "unrolled", column)
        return (Points(kernel.vector, vectors, "unrolled", (turn, columns), step=kernel.lanes),)

    def _prefetched(self, vectors: int) -> list[Prefetch]:
        """What is far from what is loaded now: scalars that the tile below this one needs at this step of the sums, or
        the next tile if there is none below, and vectors of a later step."""
        kernel, line = self.kernel, self.target.machine.cache_line
        tile, size = kernel.tile, kernel.tile_size
        nodes = [Prefetch(e.tensor, _moved(e.address, tile, size), cache=2) for e in kernel.next_tile]
        for e in kernel.far:
            below = next((a for a in reversed(kernel.across[:-1]) if e.address.coefficient(a)), None)
            there = _moved(e.address, tile, size) if below is None else _moved(e.address, below, 1)
            lines = -(-abs(e.address.coefficient(tile)) * size * e.type.bits // 8 // line)
            ends = (size - 1 - number * size // lines for number in range(lines))
            nodes += [Prefetch(e.tensor, _moved(there, tile, end)) for end in ends]
        for e in kernel.far_vectors:
            last = next(axis for axis in reversed(kernel.fold.axes) if axis.size > 1)
            there = _moved(e.address, last, self.target.tuning.steps_ahead)
            lanes = range(0, kernel.lanes * vectors, line * 8 // e.type.bits)
            nodes += [Prefetch(e.tensor, _moved(there, kernel.vector, lane)) for lane in lanes]
        return nodes

    def _expected(self, vectors: int) -> Body:
        """Ask for what is loaded and stored after the sums of a tile, while they are done."""
        kernel = self.kernel
        run = kernel.tile if kernel.turned else kernel.vector
        inside = set(walk(kernel.fold))
        nodes: Body = ()
        for store in kernel.stores:
            loads = [e for e in walk(store.value) if isinstance(e, Element) and e not in inside]
            asked: Body = (
                Prefetch(store.tensor, store.address, is_stored=True),
                *(Prefetch(e.tensor, e.address) for e in loads if e.address.coefficient(run) == 1),
            )
            if kernel.turned:
                size = kernel.tile_size
                ends = Points(kernel.tile, min(size, 2), "unrolled", asked, step=max(size - 1, 1))
                nodes += (Points(kernel.vector, kernel.lanes * vectors, "unrolled", (ends,)),)
            else:
                nodes += self._tile("unrolled", vectors, asked)
        return nodes


def _steps(axes: Sequence[Axis], body: Body) -> Body:
    """``body`` at every step of the fold, as far as ``axes`` go."""
    for axis in reversed(axes):
        body = (Loop(axis, 0, axis.size, 1, body),)
    return body


def _moved(address: Affine, axis: Axis, distance: int) -> Affine:
    """The address so much further along an axis."""
    return Affine(address.terms, address.constant + address.coefficient(axis) * distance)
