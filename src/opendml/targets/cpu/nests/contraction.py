"""Sums of products as nests: panels, tiles of sums that stay in registers, and what is asked for ahead of its use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from opendml.expression.affine import Affine, Element, loads_of
from opendml.expression.ir import Axis, Binary, Expression, Part, Tensor, Variable, temporary
from opendml.expression.rewriting import substitute
from opendml.loops.nest import (
    Accumulate,
    At,
    Beside,
    Block,
    Body,
    Branch,
    Cut,
    ElementStore,
    Items,
    Kind,
    Leaf,
    Let,
    Loop,
    Nest,
    Points,
    SumInTiles,
    Tiles,
    Transpose,
    Turn,
)
from opendml.loops.nest_integers import (
    Difference,
    Either,
    End,
    Equal,
    First,
    Integer,
    Least,
    Local,
    Position,
    Product,
    Start,
    Sum,
)
from opendml.targets.cpu.coalescing import coalesce
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.contractions.tiles import Rest, rows_together
from opendml.targets.cpu.instructions.tiles import ROWS, WORDS
from opendml.targets.cpu.kernel_parts import work_of_values
from opendml.targets.cpu.nests.asking import Asking
from opendml.targets.cpu.nests.corners import each_from_here
from opendml.targets.cpu.nests.kept_rows import unconditional_loads
from opendml.targets.cpu.nests.long_results import long_results
from opendml.targets.cpu.nests.padding import Choice, Padding, Pattern
from opendml.targets.cpu.nests.sharing import look_of, shared_items
from opendml.targets.cpu.nests.tile_counts import TileCounts
from opendml.targets.cpu.nests.waiting_sums import WaitingSums
from opendml.targets.cpu.panels import Panel
from opendml.targets.cpu.target import CpuTarget


def contraction_nest(kernel: ContractionKernel, target: CpuTarget) -> Nest:
    """Work items of blocks; where there is a panel, filled unless the item before has left the same one."""
    maker = _Maker(kernel, target)
    rows = () if kernel.panel is None else (kernel.panel.tensor,)
    rows = (*rows, maker.sums) if kernel.words is not None or kernel.steps_at_once else rows
    rows = (*rows, maker.waiting.memory) if maker.waiting is not None else rows
    rows = (*rows, maker.long.memory) if maker.long is not None else rows
    if kernel.by_rounds:
        return Nest(maker.rounds(), rows=rows, rolled=True)
    cuts = tuple(Cut(axis, block) for axis, block in kernel.blocks)
    if kernel.has_filling_tiles:
        body = maker.filling()
    else:
        steps = maker.interrupted if kernel.steps_at_once else maker.in_parts if kernel.outer_at_once else maker.whole
        body = maker.behind_panel(steps())
    items = shared_items(cuts, body, kernel, kernel.work, target.tuning)
    if kernel.words is None:
        return Nest((items,), rows=rows, rolled=True)
    return Nest((Tiles(maker.tile_sizes(), (items,)),), rows=rows, rolled=True)


class _Maker:
    """What is made of the steps from ``first`` to before ``end``, where they are not done at once."""

    def __init__(
        self,
        kernel: ContractionKernel,
        target: CpuTarget,
        sums: Tensor | None = None,
        first: Integer = 0,
        end: Integer | None = None,
    ) -> None:
        self.kernel = kernel
        self.first, self.end = first, end
        self.target = target
        self.sum = Variable("sum", kernel.fold.type)
        self.turned = Variable("turned", kernel.fold.type)
        self.row_pitch = kernel.row_pitch or kernel.tile_size
        rows, self.pitch = self.row_pitch * (kernel.row_count - 1) + kernel.tile_size, kernel.vectors * WORDS
        if kernel.steps_at_once:
            rows, self.pitch = kernel.waiting_sizes
        self.sums = sums or temporary("sums", kernel.fold.type, (rows, self.pitch))
        self.waiting = WaitingSums(kernel) if kernel.outer_at_once else None
        waiting = (kernel.tile, kernel.vector) if kernel.steps_at_once else ()
        self.unmoved = {axis: Local(f"unmoved_{axis.name}") for axis in waiting}
        self.unmoved |= {} if self.waiting is None else self.waiting.unmoved
        self.asking = Asking(kernel, target, self.sum)
        self.padding = Padding(kernel, target)
        self.long = long_results(kernel, target.tuning, self.sum, self._tile)
        self.counts = TileCounts(kernel.vectors, kernel.tile, kernel.tile_size, kernel.row_count, kernel.row)

    def loops(self, axes: Sequence[Axis], counts: TileCounts, body: Callable[[TileCounts], Body]) -> Body:
        """Loops of an item. The last tile of an axis is moved back to end with it: some sums are done twice."""
        if not axes:
            return body(counts)
        axis, *rest = axes
        if axis is self.kernel.vector:
            return self._strips(rest, counts, body)
        kernel = self.kernel
        if axis is kernel.row and axis is not kernel.tile and axis.size % kernel.row_count and not kernel.redoes:
            return self._groups(axis, rest, counts, body)
        if kernel.rest is not None and axis is kernel.rest.row and counts.row is None:
            return self._with_rows_of_rest(rest, counts, body)
        if kernel.rest is not None and axis is kernel.tile:
            return self._with_rest(kernel.rest, rest, counts, body)
        step = counts.along(axis)
        limit = None if axis.size % step == 0 else axis.size - step
        return (self._loop(axis, Start(axis), End(axis), step, self.loops(rest, counts, body), limit),)

    def _loop(self, axis: Axis, first: Integer, last: Integer, step: int, body: Body, limit: int | None = None) -> Loop:
        """A loop along an axis of tiles, which says where these would stand if none were moved back, where sums have
        places in memory."""
        return Loop(axis, first, last, step, body, limit, unmoved=self.unmoved.get(axis))

    def _groups(
        self, axis: Axis, inner: Sequence[Axis], counts: TileCounts, body: Callable[[TileCounts], Body]
    ) -> Body:
        """The loop along the axis of rows, and a copy of what is inside of it for those that are left."""
        count = self.kernel.row_count
        whole = axis.size - axis.size % count
        left = counts._replace(rows=axis.size - whole)
        return (
            self._loop(axis, Start(axis), Least(End(axis), whole), count, self.loops(inner, counts, body)),
            self._loop(axis, whole, End(axis), count, self.loops(inner, left, body)),
        )

    def _with_rest(
        self, rest: Rest, inner: Sequence[Axis], counts: TileCounts, body: Callable[[TileCounts], Body]
    ) -> Body:
        """The loop along the tile axis, and a copy of what is inside of it for the points that are left; one of both
        where these are done in several rows."""
        axis, step = self.kernel.tile, self.kernel.tile_size
        whole = axis.size - axis.size % step
        tiles = self._loop(axis, Start(axis), Least(End(axis), whole), step, self.loops(inner, counts, body))
        narrow = counts._replace(points=rest.size)
        left = self._loop(axis, whole, End(axis), rest.size, self.loops(inner, narrow, body))
        if rest.row is None:
            return (tiles, left)
        return (tiles,) if counts.row is None else (left,)

    def _with_rows_of_rest(self, inner: Sequence[Axis], counts: TileCounts, body: Callable[[TileCounts], Body]) -> Body:
        """The loop along the axis of the rows in which the points that are left are done, and one of these rows."""
        rest = self.kernel.rest
        assert rest is not None
        assert rest.row is not None
        axis, step = rest.row, rest.rows
        limit = None if axis.size % step == 0 else axis.size - step
        tiles = self._loop(axis, Start(axis), End(axis), 1, self.loops(inner, counts, body))
        in_rows = counts._replace(rows=step, row=axis)
        left = self._loop(axis, Start(axis), End(axis), step, self.loops(inner, in_rows, body), limit)
        return (tiles, left)

    def _strips(self, inner: Sequence[Axis], counts: TileCounts, body: Callable[[TileCounts], Body]) -> Body:
        """The loop along the vector axis; its last strip has a copy of the loops ``inner`` if it is narrower."""
        kernel = self.kernel
        axis = kernel.vector

        def strips(first: Integer, last: Integer, vectors: int) -> Loop:
            """Their body knows where the strip is in the panel, if there is one."""
            points = vectors * kernel.lanes
            nodes = self.loops(inner, counts._replace(vectors=vectors), body)
            unmoved = self.unmoved.get(axis)
            if kernel.panel is not None:
                unmoved = unmoved or Local("strip")
                base = kernel.panel.first(unmoved, kernel.along, dict(kernel.blocks), self.first)
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

    def whole(self) -> Body:
        """All steps of the sums of a tile, and then those of the next one."""
        tile = self.tile if self.kernel.words is None else self.rectangle
        return self.loops(self.kernel.loops, self.counts, tile)

    def filling(self) -> Body:
        """The same, where the first tiles of a panel fill it: what they wait for comes while sums are done."""
        kernel = self.kernel
        axis, step = kernel.tile, self.counts.along(kernel.tile)
        limit = None if axis.size % step == 0 else axis.size - step
        first, filling = Local("first"), Local("filling")

        def tile(counts: TileCounts) -> Body:
            both = self._sums(counts, self._copied(counts)), self._sums(counts)
            is_filling = Equal(first, filling)
            sums = Branch(is_filling, *both, carried=(self.sum,), copies=counts.registers)
            return (sums, *self._stored(counts))

        def of_item(counts: TileCounts) -> Body:
            inner = self.loops(kernel.along, counts, tile)
            return (
                Let(filling, Either(First(self._followers()), Start(axis), -1)),
                Loop(axis, Start(axis), End(axis), step, inner, limit, unmoved=first),
            )

        return self.loops(kernel.batch, self.counts, of_item)

    def interrupted(self) -> Body:
        """Some steps of all tiles, and then the next ones: in between sums are in memory. A tile that is moved back has
        a place of its own there, since sums that two tiles have in common are done by both."""
        return self._in_turn(0, lambda part: part.some_steps())

    def in_parts(self) -> Body:
        """Some steps along the outermost axis of the fold for all tiles, and then the next ones; in between sums are in
        memory, to which they come from what they begin with, and from which what is made of them is stored."""
        kernel, waiting = self.kernel, self.waiting
        assert waiting is not None
        (initial,), outer = kernel.fold.initial, kernel.outer_step
        here = Axis(outer.name, outer.size)
        first, end = Position(here), Least(Sum(Position(here), kernel.outer_at_once), outer.size)

        def begun(counts: TileCounts, place: Element) -> Body:
            return self._tile("unrolled", counts, (Leaf((ElementStore(place.tensor, place.address, initial),)),))

        def going_on(counts: TileCounts, place: Element) -> Body:
            steps = self._outer_steps(counts, first, end)
            kept = (Leaf((ElementStore(place.tensor, place.address, self.sum),)),)
            return (*self._taken(counts, place), *steps, *self._tile("unrolled", counts, kept))

        def done(counts: TileCounts, place: Element) -> Body:
            return (*self._taken(counts, place), *self._stored(counts))

        beginning, part, rest = (
            self.loops(kernel.loops, self.counts, waiting.with_place(body)) for body in (begun, going_on, done)
        )
        return (*beginning, Loop(here, 0, outer.size, kernel.outer_at_once, part), *rest)

    def _taken(self, counts: TileCounts, place: Element) -> Body:
        """The sums of a tile, from memory."""
        return self._tile("together", counts, (Leaf(registers=(self.sum,), values=(place,)),))

    def _outer_steps(self, counts: TileCounts, first: Integer, end: Integer) -> Body:
        """The steps of the sums of a tile from one along the outermost axis of the fold to another."""
        fold = self.kernel.fold
        product = fold.elements[0]
        assert isinstance(product, Binary)
        loops = [axis for axis in fold.axes if axis.size > 1]
        step = self._tile("together", counts, (Accumulate(self.sum, product),))
        body, _ = self._within(loops, counts, step)
        steps = counts.summing(self.sum, loops[0], first, end, 1, body)
        return (*self.padding.known(), *_at_first([axis for axis in fold.axes if axis.size == 1], (steps,)))

    def rounds(self) -> Body:
        """Some steps of all work items of a thread, and then the next ones: the places of sums in memory are those of
        all work items, of which each thread uses its own. The last round has steps enough for a square."""
        kernel, tuning = self.kernel, self.target.tuning
        cuts = tuple(Cut(axis, block) for axis, block in kernel.blocks)
        look = look_of(kernel.item_count, kernel.work * kernel.steps_at_once // kernel.steps, tuning)

        def some(part: _Maker) -> Body:
            return (Items(cuts, part.behind_panel(part.some_steps()), kernel.serial, look),)

        return self._in_turn(kernel.lanes, some)

    def _in_turn(self, least: int, some: Callable[[_Maker], Body]) -> Body:
        """The first steps, those between, and the last ones, of which there are ``least`` or more."""
        steps, count = self.kernel.last_step, self.kernel.steps_at_once
        here, last = Axis(steps.name, steps.size), (steps.size - max(least, 1)) // count * count
        parts = ((0, count), (Position(here), Sum(Position(here), count)), (last, steps.size))
        first, between, rest = (some(_Maker(self.kernel, self.target, self.sums, *part)) for part in parts)
        return (*first, Loop(here, count, last, count, between), *rest)

    def some_steps(self) -> Body:
        """Those of the tiles of a work item."""
        return self.loops(self.kernel.loops, self.counts, self._some_steps)

    # The panel -------------------------------------------------------------------------------------------------------

    def behind_panel(self, body: Body) -> Body:
        """The body of a work item behind what fills its panel, if there is one."""
        panel = self.kernel.panel
        return body if panel is None else (Branch(First(self._followers()), self._filled(panel)), *body)

    def _followers(self) -> int:
        """Work items in a row that share a panel."""
        kernel = self.kernel
        counts = zip(kernel.blocks, kernel.block_counts, strict=True)
        return math.prod(count for (axis, _), count in counts if axis in kernel.across)

    def _part(self, axis: Axis) -> tuple[Integer, Integer]:
        """The first step along an axis of the fold, and the one behind the last one."""
        return (0, axis.size) if self.end is None or axis is not self.kernel.last_step else (self.first, self.end)

    def _steps(self, axes: Sequence[Axis], body: Body) -> Body:
        """``body`` at every step of the fold, as far as ``axes`` go."""
        for axis in reversed(axes):
            body = (Loop(axis, *self._part(axis), 1, body),)
        return body

    def _filled(self, panel: Panel) -> Body:
        """The loops are those that read the source in long runs: taps of a filter are one with its channels there."""
        kernel = self.kernel
        fill = _fill(panel)
        if panel.transposed is None:
            strips = self.loops(kernel.along, self.counts, lambda counts: self._vectors(counts.vectors, (fill,)))
            return self.loops(kernel.batch, self.counts, lambda _: self._steps(kernel.fold.axes, strips))
        steps, stores = list(kernel.fold.axes), fill.stores
        if self.end is None:
            steps, stores = coalesce(steps, stores)
        loads = {e.address for e in loads_of(stores[0].value)}
        merged = (axis for axis in steps if axis not in kernel.fold.axes)
        along = next((a for a in merged if {load.coefficient(a) for load in loads} == {1}), panel.transposed)
        rest = [axis for axis in steps if axis is not along]
        squares = self._squares(stores[0].value, along, Leaf(stores))
        axes = [*kernel.batch, *kernel.along]
        return self.loops(axes, self.counts, lambda counts: self._steps(rest, squares(counts)))

    def _squares(self, source: Expression, axis: Axis, fill: Leaf) -> Callable[[TileCounts], Body]:
        """Squares of as many steps as a vector has lanes; the last one is moved back to end with the steps."""
        lanes = self.kernel.lanes
        side = min(lanes, 1 << (axis.size.bit_length() - 1))
        loads = tuple(self._transposed(source, axis)) if side == lanes else ()
        transpose: Body = (Points(axis, side, "together", (Transpose(loads, axis),)),) if loads else ()
        square: Body = (*transpose, Points(axis, side, "unrolled", (fill,)))
        limit = None if axis.size % side == 0 else axis.size - side
        return lambda counts: (
            Loop(axis, *self._part(axis), side, self._vectors(counts.vectors, square, is_block=True), limit),
        )

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

    def tile(self, counts: TileCounts) -> Body:
        """The sums of a tile, then what is made of them."""
        return (*self._sums(counts), *self._stored(counts))

    def _stored(self, counts: TileCounts) -> Body:
        """What is made of the sums of a tile."""
        long = self.long
        if self.kernel.turned and long is not None and (long.made is not None or self._are_few(counts)):
            results = self._results(self.turned, long.made)
            return long.replaced(counts, lambda one: self._turned(one, results))
        if self.kernel.turned:
            return self._turned(counts, self._results(self.turned))
        if long is None or counts.points * counts.rows == 1:
            return self._tile("unrolled", counts, self._results(self.sum))
        return long.stored(counts, self._results)

    def _copied(self, counts: TileCounts) -> Body:
        """Of a tile that fills the panel: each step copies what it then reads there, and asks for what a later one is
        to copy."""
        panel = self.kernel.panel
        assert panel is not None
        return (*self.asking.copied(panel.source, counts), *self._vectors(counts.vectors, (_fill(panel),)))

    def _results(self, value: Expression, of: Expression | None = None) -> Body:
        """What is stored where a sum, or what is made ``of`` it, has a value."""
        rewrite = substitute({Part(self.kernel.fold, 0) if of is None else of: value})
        return tuple(Leaf((replace(s, value=rewrite(s.value)),)) for s in self.kernel.stores)

    def tile_sizes(self) -> tuple[tuple[int, int], ...]:
        """Rows and words of the tile registers; of those that are not used none."""
        (sums,) = (node for node in self.rectangle(self.counts) if isinstance(node, SumInTiles))
        return tuple(sums.tiles.get(number, (0, 0)) for number in range(max(sums.tiles) + 1))

    def rectangle(self, counts: TileCounts) -> Body:
        """The sums of a tile in tile registers, to memory, and from there what is made of them."""
        kernel = self.kernel
        words, product = kernel.words, kernel.fold.elements[0]
        assert words is not None
        assert isinstance(product, Binary)
        factors = (product.left, product.right)
        by_rows, by_columns = factors if words.operation == "tiles of unsigned rows" else reversed(factors)
        assert isinstance(by_columns, Element)
        rows, beside = self._parts_of_rows(counts)
        sums = SumInTiles(
            self.sums,
            self.pitch,
            words.operation,
            by_rows,
            by_columns,
            kernel.tile,
            rows,
            beside,
            kernel.vector,
            (kernel.lanes,) * counts.vectors,
            (*(axis for axis in kernel.fold.axes if axis is not words.axis), words.axis),
            words.axis,
            words.depth,
        )
        base = Axis("sums_base", 1 << 40)
        here: Integer = Sum(Product(Position(kernel.tile), self.pitch), Position(kernel.vector))
        there = Affine(((base, 1), (kernel.tile, self.pitch), (kernel.vector, 1)), 0)
        if counts.row is not None:
            pitch = self.row_pitch * self.pitch
            here = Sum(here, Product(Position(counts.row), pitch))
            there = Affine((*there.terms, (counts.row, pitch)), 0)
        rewrite = substitute({Part(kernel.fold, 0): Element(self.sums, there, True)})
        leaf = Leaf(tuple(replace(s, value=rewrite(s.value)) for s in kernel.stores))
        points = self._turned_points(leaf, counts) if kernel.turned else self._points_of_rows(leaf, counts)
        asked = () if kernel.turned else self.asking.of_next_rows(counts)
        return (sums, *asked, At(base, Difference(0, here), counts.in_rows(points)))

    def _parts_of_rows(self, counts: TileCounts) -> tuple[tuple[int, ...], Beside | None]:
        """Points of the rows in each tile register, and how these are beside one another."""
        kernel, row = self.kernel, counts.row
        if row is None:
            return _parts(kernel.tile_size, ROWS), None
        together = rows_together(kernel.tile_size, kernel.row_pitch) if kernel.row_pitch else 1
        points = self.row_pitch * (together - 1) + kernel.tile_size
        return (points,) * (counts.rows // together), Beside(row, together, together * self.row_pitch)

    def _points_of_rows(self, leaf: Leaf, counts: TileCounts) -> Body:
        """The sums of a rectangle whose columns are neighbours in what is stored."""
        kernel = self.kernel
        active = kernel.lanes if kernel.lanes < WORDS else None
        vector: Body = (Points(kernel.vector, WORDS, "vector", (leaf,), active),)
        row: Body = (Points(kernel.vector, counts.vectors, "unrolled", vector, step=WORDS),)
        together = self._rows_written_out(kernel.tile_size)
        points: Body = (Points(kernel.tile, together, "unrolled", row),)
        if together == kernel.tile_size:
            return points
        return each_from_here(kernel.tile, kernel.tile_size // together, points, together)

    def _rows_written_out(self, size: int) -> int:
        """How many of so many rows of a tile register are written out one after the other: an even number, if that can
        be, as bytes of two rows are stored together."""
        tuning, values = self.target.tuning, [store.value for store in self.kernel.stores]
        if work_of_values(values, tuning) < tuning.long_results:
            return size
        most = min(size, tuning.rows_written_out)
        return next(n for n in range(most, 0, -1) if size % n == 0 and (n % 2 == 0 or size % 2))

    def _turned_points(self, leaf: Leaf, counts: TileCounts) -> Body:
        """Those of which the rows are."""
        kernel = self.kernel
        active = kernel.tile_size if kernel.tile_size < WORDS else None
        vector: Body = (Points(kernel.tile, WORDS, "vector", (leaf,), active),)
        row: Body = (Points(kernel.tile, -(-kernel.tile_size // WORDS), "unrolled", vector, step=WORDS),)
        column: Body = (Points(kernel.vector, kernel.lanes, "unrolled", row),)
        return (Points(kernel.vector, counts.vectors, "unrolled", column, step=WORDS),)

    def _tile(self, kind: Kind, counts: TileCounts, body: Body) -> Body:
        """All points of a tile; those of its rows are next to one another."""
        return (
            Points(
                self.kernel.tile,
                counts.points,
                kind,
                counts.in_rows(self._vectors(counts.vectors, body, kind), kind),
            ),
        )

    def _some_steps(self, counts: TileCounts) -> Body:
        """The sums of a tile from one step to another: from memory, if these are not the first, and to memory or, if
        these are the last, to what is made of them."""
        kernel, steps = self.kernel, self.kernel.last_step
        fold = kernel.fold
        is_first, is_last = self.first == 0, self.end == steps.size
        product = fold.elements[0]
        assert isinstance(product, Binary)
        base = Axis("sums_base", 1 << 40)
        place = Affine(((base, 1), (kernel.tile, self.pitch), (kernel.vector, 1)), 0)
        begin = fold.initial if is_first else (Element(self.sums, place, True),)
        begins = self._tile("together", counts, (Leaf(registers=(self.sum,), values=begin),))
        ahead = self.asking.vectors_ahead(counts.vectors, self.asking.steps_ahead)
        if kernel.panel is None:
            ahead = self.asking.vectors_ahead(counts.vectors, lambda _: kernel.steps_at_once, cache=2)
        body: Body = (*ahead, *self._tile("together", counts, (Accumulate(self.sum, product),)))
        inside = counts.summing(self.sum, steps, *self._part(steps), 1, body)
        waiting = (Leaf((ElementStore(self.sums, place, self.sum),)),)
        stored = self._stored(counts) if is_last else self._tile("unrolled", counts, waiting)
        expected = self.asking.expected(counts) if is_last else ()
        row, column = (
            self.unmoved[axis] if kernel.by_rounds else Difference(self.unmoved[axis], Start(axis))
            for axis in (kernel.tile, kernel.vector)
        )
        here = Sum(Product(Position(kernel.tile), self.pitch), Position(kernel.vector))
        nodes: Body = (
            At(base, Difference(Sum(Product(row, self.pitch), column), here), (*expected, *begins, inside, *stored)),
        )
        for axis in fold.axes:
            nodes = nodes if axis is steps else (At(axis, 0, nodes),)
        return nodes

    def _sums(self, counts: TileCounts, copied: Body = ()) -> Body:
        """All side by side, in the order of the fold, each step behind what is ``copied`` for it."""
        fold = self.kernel.fold
        product = fold.elements[0]
        assert isinstance(product, Binary)
        begin = self._tile("together", counts, (Leaf(registers=(self.sum,), values=fold.initial),))
        step = self._tile("together", counts, (Accumulate(self.sum, product),))
        loops = [axis for axis in fold.axes if axis.size > 1]
        if not loops:
            step = _at_first(fold.axes, (*copied, *self.asking.by_steps(counts), *step))
            return (*self.asking.expected(counts), *begin, *self.asking.same_for_all(counts), *step)
        turns_loads = self.kernel.turns_loads
        body = self._squares_of_steps(counts, step) if turns_loads else self._along(loops, counts, step, copied)
        single = [axis for axis in fold.axes if axis.size == 1]
        choices = [] if turns_loads or copied else self.padding.choices(loops[1:], counts)
        if choices:
            parts = self._parts_inside(loops, counts, choices, begin, (*begin, *body))
            return (*self.padding.known(), *self.asking.same_for_all(counts), *_at_first(single, parts))
        return (*self.padding.known(), *begin, *self.asking.same_for_all(counts), *_at_first(single, body))

    def _parts_inside(
        self, loops: Sequence[Axis], counts: TileCounts, choices: Sequence[Choice], begin: Body, whole: Body
    ) -> Body:
        """The sums of a tile, where it may leave steps out with those points alone that are inside of what windows
        read, in code for each place where some are not; as a ``whole`` elsewhere."""
        body = whole
        for positions, patterns in self.padding.tiles(choices):
            condition = self.padding.condition(positions)
            some = (*begin, *self._steps_inside(loops, counts, choices, patterns))
            body = (Branch(condition, some, body, carried=(self.sum,), copies=counts.registers),)
        return body

    def _steps_inside(
        self, loops: Sequence[Axis], counts: TileCounts, choices: Sequence[Choice], patterns: Mapping[Axis, Pattern]
    ) -> Body:
        """All steps of a tile, those along the taps of ``choices`` one after the other."""
        product, taps = self.kernel.fold.elements[0], {choice.tap for choice in choices}
        assert isinstance(product, Binary)
        stays = self.target.has_few_registers and product.operation == "mul"

        def along(axes: Sequence[Axis], at: Mapping[Axis, int]) -> Body:
            if not axes:
                numbers = self.padding.numbers(choices, patterns, at, counts)
                some = None if len(numbers) == counts.registers else numbers
                step = self._tile("together", counts, (Accumulate(self.sum, product, some, stays),))
                return (*self.asking.by_steps(counts), *step) if numbers else ()
            axis, *rest = axes
            if axis not in taps:
                first, end = self.padding.bounds(axis, counts)
                return (counts.summing(self.sum, axis, first, end, 1, along(rest, at)),)
            steps = (along(rest, {**at, axis: step}) for step in range(axis.size))
            return tuple(At(axis, step, body) for step, body in enumerate(steps) if body)

        return self._between_loops(loops, counts, along(loops[1:], {}))

    def _squares_of_steps(self, counts: TileCounts, step: Body) -> Body:
        """As many steps as a vector has lanes at once: what they load is squares, which are transposed."""
        kernel, axis = self.kernel, self.kernel.last_step
        transpose = Transpose(tuple(self._transposed(kernel.fold.elements[0], axis)), axis)
        square: Body = (
            *self._vectors(counts.vectors, (Points(axis, kernel.lanes, "together", (transpose,)),)),
            Points(axis, kernel.lanes, "unrolled", step, carried=(self.sum,), copies=counts.registers),
        )
        loop = counts.summing(self.sum, axis, 0, axis.size, kernel.lanes, (Block(square),))
        return (*self.asking.expected(counts), loop)

    def _along(self, loops: Sequence[Axis], counts: TileCounts, step: Body, copied: Body) -> Body:
        """The steps along all axes, and what is asked for between them: some of the innermost axis one after the other,
        where that pays off."""
        outer, *inner = loops
        body, together = self._within(loops, counts, step, copied)
        if not inner:
            return self.asking.between_steps(outer, counts, body, together)
        return self._between_loops(loops, counts, body)

    def _between_loops(self, loops: Sequence[Axis], counts: TileCounts, body: Body) -> Body:
        """The steps along the outermost of several axes, and what is asked for between them."""
        outer, *inner = loops
        asked = self.asking.by_outer_steps(outer)
        body, bounds = (*(_at_first(inner, asked) if asked else ()), *body), self.padding.bounds(outer, counts)
        return self.asking.between_loops(outer, counts, body, bounds)

    def _within(self, loops: Sequence[Axis], counts: TileCounts, step: Body, copied: Body = ()) -> tuple[Body, int]:
        """A step along the outermost axis, of all steps along the others, and how many of the innermost axis it has
        written out one after the other."""
        *_, last = loops
        together = self._steps_written_out(last, counts, is_copying=bool(copied))
        if together > 1:
            body = self._written_out(last, together, counts, (*copied, *step))
        else:
            body = (*copied, *self.asking.by_steps(counts), *step)
        for axis in reversed(loops[1:-1] if together == last.size else loops[1:]):
            first, end = self.padding.bounds(axis, counts) if axis is not last or together == 1 else (0, axis.size)
            body = (counts.summing(self.sum, axis, first, end, together if axis is last else 1, body),)
        return body, together

    def _steps_written_out(self, axis: Axis, counts: TileCounts, *, is_copying: bool) -> int:
        """How many steps of the innermost axis are written out one after the other. A scalar beside a single vector is
        in a register for one product: LLVM would have that be the sum's from there on, and move all sums."""
        tuning = self.target.tuning
        if not self.target.has_few_registers or counts.vectors == 1:
            return 1
        most = tuning.steps_written_out
        if is_copying or self._are_few(counts):
            most = min(most, tuning.few_steps_written_out)
        return next(count for count in range(most, 0, -1) if axis.size % count == 0)

    def _are_few(self, counts: TileCounts) -> bool:
        """Whether tiles of so many points, those of what is left, do a little part of all sums."""
        kernel, whole = self.kernel, self.counts
        share = 1.0
        if counts.vectors < whole.vectors:
            share *= kernel.vector.size % kernel.strip / kernel.vector.size
        if counts.row is not whole.row or counts.points < whole.points:
            share *= kernel.tile.size % kernel.tile_size / kernel.tile.size
        elif kernel.row is not None and counts.rows < whole.rows:
            share *= counts.rows / kernel.row.size
        return share <= self.target.tuning.little_share

    def _written_out(self, axis: Axis, count: int, counts: TileCounts, step: Body) -> Body:
        """So many steps, and what is asked for in each of them or, where its next line is further, in some."""
        once, each = self.asking.by_several_steps(axis, count, counts)
        carried, copies = (self.sum,), counts.registers
        whole = (*once, Points(axis, count, "unrolled", (*each, *step), carried=carried, copies=copies))
        return (At(axis, 0, whole),) if count == axis.size else whole

    def _turned(self, counts: TileCounts, leaves: Body) -> Body:
        """The sums transposed, so that the points of the tile axis fill the lanes."""
        kernel = self.kernel
        turn = Turn(self.sum, self.turned, counts.points, counts.rows * counts.vectors, kernel.lanes)
        active = None if turn.width == counts.points else counts.points
        column: Body = (Block((Points(kernel.tile, turn.width, "vector", leaves, active),)),)
        columns = Points(kernel.vector, kernel.lanes, "unrolled", column)
        return counts.in_rows((Points(kernel.vector, counts.vectors, "unrolled", (turn, columns), step=kernel.lanes),))


def _fill(panel: Panel) -> Leaf:
    """The element of a panel that stands here becomes its source's."""
    return Leaf((ElementStore(panel.tensor, panel.element.address, panel.source),))


def _parts(size: int, most: int) -> tuple[int, ...]:
    """So many points in parts that fit into tile registers."""
    return tuple(min(most, size - start) for start in range(0, size, most))


def _at_first(axes: Sequence[Axis], body: Body) -> Body:
    """``body`` where axes of a single point stand."""
    for axis in reversed(axes):
        body = (At(axis, 0, body),)
    return body
