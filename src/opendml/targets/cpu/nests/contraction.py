"""Sums of products as nests: panels, tiles of sums that stay in registers, and what is asked for ahead of its use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from opendml.expression.affine import Affine, Element, bytes_between
from opendml.expression.ir import Axis, Binary, Expression, Part, Tensor, Variable, temporary
from opendml.expression.rewriting import substitute, walk
from opendml.loops.nest import (
    Accumulate,
    At,
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
    Node,
    Points,
    Prefetch,
    SumInTiles,
    Tiles,
    Transpose,
    Turn,
    nodes_of,
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
    Quotient,
    Start,
    Sum,
)
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.contractions.tiles import Rest
from opendml.targets.cpu.instructions.tiles import ROWS, WORDS
from opendml.targets.cpu.nests.kept_rows import unconditional_loads
from opendml.targets.cpu.nests.sharing import look_of, shared_items
from opendml.targets.cpu.panels import Panel
from opendml.targets.cpu.target import CpuTarget


def contraction_nest(kernel: ContractionKernel, target: CpuTarget) -> Nest:
    """Work items of blocks; where there is a panel, filled unless the item before has left the same one."""
    maker = _Maker(kernel, target)
    rows = () if kernel.panel is None else (kernel.panel.tensor,)
    rows = (*rows, maker.sums) if kernel.words is not None or kernel.steps_at_once else rows
    if kernel.by_rounds:
        return Nest(maker.rounds(), rows=rows, rolled=True)
    cuts = tuple(Cut(axis, block) for axis, block in kernel.blocks)
    if kernel.has_filling_tiles:
        body = maker.filling()
    else:
        body = maker.behind_panel(maker.interrupted() if kernel.steps_at_once else maker.whole())
    items = shared_items(cuts, body, kernel, kernel.work, target.tuning)
    if kernel.words is None:
        return Nest((items,), rows=rows, rolled=True)
    return Nest((Tiles(maker.tile_sizes(), (items,)),), rows=rows, rolled=True)


class _Counts(NamedTuple):
    """Registers along the vector axis, points along the tile axis, and rows of these along the axis ``row``, of the
    tiles that are made."""

    vectors: int
    points: int
    rows: int
    row: Axis | None


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
        rows, self.pitch = (kernel.tile_size, kernel.vectors * WORDS)
        if kernel.steps_at_once:
            rows, self.pitch = kernel.waiting_sizes
        self.sums = sums or temporary("sums", kernel.fold.type, (rows, self.pitch))
        waiting = (kernel.tile, kernel.vector) if kernel.steps_at_once else ()
        self.unmoved = {axis: Local(f"unmoved_{axis.name}") for axis in waiting}
        self.counts = _Counts(kernel.vectors, kernel.tile_size, kernel.row_count, kernel.row)

    def loops(self, axes: Sequence[Axis], counts: _Counts, body: Callable[[_Counts], Body]) -> Body:
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
        step = self._step(axis, counts)
        limit = None if axis.size % step == 0 else axis.size - step
        unmoved = self.unmoved.get(axis)
        return (Loop(axis, Start(axis), End(axis), step, self.loops(rest, counts, body), limit, unmoved=unmoved),)

    def _groups(self, axis: Axis, inner: Sequence[Axis], counts: _Counts, body: Callable[[_Counts], Body]) -> Body:
        """The loop along the axis of rows, and a copy of what is inside of it for those that are left."""
        count = self.kernel.row_count
        whole = axis.size - axis.size % count
        groups = Loop(axis, Start(axis), Least(End(axis), whole), count, self.loops(inner, counts, body))
        left = counts._replace(rows=axis.size - whole)
        rest = Loop(axis, whole, End(axis), count, self.loops(inner, left, body))
        return (groups, rest)

    def _with_rest(self, rest: Rest, inner: Sequence[Axis], counts: _Counts, body: Callable[[_Counts], Body]) -> Body:
        """The loop along the tile axis, and a copy of what is inside of it for the points that are left; one of both
        where these are done in several rows."""
        axis, step = self.kernel.tile, self.kernel.tile_size
        whole = axis.size - axis.size % step
        tiles = Loop(axis, Start(axis), Least(End(axis), whole), step, self.loops(inner, counts, body))
        narrow = counts._replace(points=rest.size)
        left = Loop(axis, whole, End(axis), rest.size, self.loops(inner, narrow, body))
        if rest.row is None:
            return (tiles, left)
        return (tiles,) if counts.row is None else (left,)

    def _with_rows_of_rest(self, inner: Sequence[Axis], counts: _Counts, body: Callable[[_Counts], Body]) -> Body:
        """The loop along the axis of the rows in which the points that are left are done, and one of these rows."""
        rest = self.kernel.rest
        assert rest is not None
        assert rest.row is not None
        axis, step = rest.row, rest.rows
        limit = None if axis.size % step == 0 else axis.size - step
        tiles = Loop(axis, Start(axis), End(axis), 1, self.loops(inner, counts, body))
        in_rows = counts._replace(rows=step, row=axis)
        left = Loop(axis, Start(axis), End(axis), step, self.loops(inner, in_rows, body), limit)
        return (tiles, left)

    def _strips(self, inner: Sequence[Axis], counts: _Counts, body: Callable[[_Counts], Body]) -> Body:
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
        axis, step = kernel.tile, self._step(kernel.tile, self.counts)
        limit = None if axis.size % step == 0 else axis.size - step
        first, filling = Local("first"), Local("filling")

        def tile(counts: _Counts) -> Body:
            both = self._sums(counts, self._copied(counts)), self._sums(counts)
            is_filling = Equal(first, filling)
            sums = Branch(is_filling, *both, carried=(self.sum,), copies=self._copies(counts))
            return (sums, *self._stored(counts))

        def of_item(counts: _Counts) -> Body:
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
        steps, count = self._last_step(), self.kernel.steps_at_once
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
        return (0, axis.size) if self.end is None or axis is not self._last_step() else (self.first, self.end)

    def _steps(self, axes: Sequence[Axis], body: Body) -> Body:
        """``body`` at every step of the fold, as far as ``axes`` go."""
        for axis in reversed(axes):
            body = (Loop(axis, *self._part(axis), 1, body),)
        return body

    def _filled(self, panel: Panel) -> Body:
        """The loops are those that read the source in long runs."""
        kernel = self.kernel
        fill = _fill(panel)
        if panel.transposed is None:
            strips = self.loops(kernel.along, self.counts, lambda counts: self._vectors(counts.vectors, (fill,)))
            return self.loops(kernel.batch, self.counts, lambda _: self._steps(kernel.fold.axes, strips))
        rest = [axis for axis in kernel.fold.axes if axis is not panel.transposed]
        squares = self._squares(panel.source, panel.transposed, fill)
        axes = [*kernel.batch, *kernel.along]
        return self.loops(axes, self.counts, lambda counts: self._steps(rest, squares(counts)))

    def _squares(self, source: Expression, axis: Axis, fill: Leaf) -> Callable[[_Counts], Body]:
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

    def tile(self, counts: _Counts) -> Body:
        """The sums of a tile, then what is made of them."""
        return (*self._sums(counts), *self._stored(counts))

    def _stored(self, counts: _Counts) -> Body:
        """What is made of the sums of a tile."""
        leaves = self._results(self.turned if self.kernel.turned else self.sum)
        return self._turned(counts, leaves) if self.kernel.turned else self._tile("unrolled", counts, leaves)

    def _copied(self, counts: _Counts) -> Body:
        """Of a tile that fills the panel: each step copies what it then reads there, and asks for what a later one is
        to copy."""
        kernel, panel = self.kernel, self.kernel.panel
        assert panel is not None
        line, asked = self.target.machine.cache_line, tuple[Prefetch, ...]()
        for e in dict.fromkeys(unconditional_loads(panel.source)):
            if e.address.coefficient(kernel.vector) == 1:
                there = _moved(e.address, self._last_step(), self._copied_steps_ahead(e))
                lanes = range(0, kernel.lanes * counts.vectors, line * 8 // e.type.bits)
                asked += tuple(Prefetch(e.tensor, _moved(there, kernel.vector, lane)) for lane in lanes)
        return (*asked, *self._vectors(counts.vectors, (_fill(panel),)))

    def _copied_steps_ahead(self, e: Element) -> int:
        """How many steps before it is copied a vector is asked for."""
        tuning = self.target.tuning
        distance = bytes_between(e, self._last_step())
        return tuning.steps_ahead if distance % tuning.page_bytes else tuning.copied_steps_ahead

    def _results(self, total: Variable) -> Body:
        """What is stored, of a sum in registers."""
        rewrite = substitute({Part(self.kernel.fold, 0): total})
        return tuple(Leaf((replace(s, value=rewrite(s.value)),)) for s in self.kernel.stores)

    def tile_sizes(self) -> tuple[tuple[int, int], ...]:
        """Rows and words of the tile registers; of those that are not used none."""
        (sums,) = (node for node in self.rectangle(self.counts) if isinstance(node, SumInTiles))
        return tuple(sums.tiles.get(number, (0, 0)) for number in range(max(sums.tiles) + 1))

    def rectangle(self, counts: _Counts) -> Body:
        """The sums of a tile in tile registers, to memory, and from there what is made of them."""
        kernel = self.kernel
        words, product = kernel.words, kernel.fold.elements[0]
        assert words is not None
        assert isinstance(product, Binary)
        factors = (product.left, product.right)
        by_rows, by_columns = factors if words.operation == "tiles of unsigned rows" else reversed(factors)
        assert isinstance(by_rows, Element)
        assert isinstance(by_columns, Element)
        rows, columns = _parts(kernel.tile_size, ROWS), (kernel.lanes,) * counts.vectors
        sums = SumInTiles(
            self.sums,
            self.pitch,
            words.operation,
            by_rows,
            by_columns,
            kernel.tile,
            rows,
            kernel.vector,
            columns,
            (*(axis for axis in kernel.fold.axes if axis is not words.axis), words.axis),
            words.axis,
            words.depth,
        )
        base = Axis("sums_base", 1 << 40)
        here = Sum(Product(Position(kernel.tile), self.pitch), Position(kernel.vector))
        there = Affine(((base, 1), (kernel.tile, self.pitch), (kernel.vector, 1)), 0)
        rewrite = substitute({Part(kernel.fold, 0): Element(self.sums, there, True)})
        leaf = Leaf(tuple(replace(s, value=rewrite(s.value)) for s in kernel.stores))
        active = kernel.lanes if kernel.lanes < WORDS else None
        vector: Body = (Block((Points(kernel.vector, WORDS, "vector", (leaf,), active),)),)
        row: Body = (Points(kernel.vector, counts.vectors, "unrolled", vector, step=WORDS),)
        return (sums, At(base, Difference(0, here), (Points(kernel.tile, kernel.tile_size, "unrolled", row),)))

    def _tile(self, kind: Kind, counts: _Counts, body: Body) -> Body:
        """All points of a tile; those of its rows are next to one another."""
        return (
            Points(
                self.kernel.tile,
                counts.points,
                kind,
                self._rows(counts, self._vectors(counts.vectors, body, kind), kind),
            ),
        )

    def _rows(self, counts: _Counts, body: Body, kind: Kind = "unrolled") -> Body:
        """In every row of the tile."""
        step = counts.points if counts.row is self.kernel.tile else 1
        return body if counts.row is None else (Points(counts.row, counts.rows, kind, body, step=step),)

    def _copies(self, counts: _Counts) -> int:
        """How many registers of sums a tile has."""
        return counts.points * counts.rows * counts.vectors

    def _step(self, axis: Axis, counts: _Counts) -> int:
        """How many points of one of the tile's sides a tile takes."""
        rows = counts.rows if axis is counts.row else 1
        return rows * (counts.points if axis is self.kernel.tile else 1)

    def _some_steps(self, counts: _Counts) -> Body:
        """The sums of a tile from one step to another: from memory, if these are not the first, and to memory or, if
        these are the last, to what is made of them."""
        kernel, steps = self.kernel, self._last_step()
        fold = kernel.fold
        is_first, is_last = self.first == 0, self.end == steps.size
        product = fold.elements[0]
        assert isinstance(product, Binary)
        base = Axis("sums_base", 1 << 40)
        place = Affine(((base, 1), (kernel.tile, self.pitch), (kernel.vector, 1)), 0)
        begin = fold.initial if is_first else (Element(self.sums, place, True),)
        begins = self._tile("together", counts, (Leaf(registers=(self.sum,), values=begin),))
        ahead = self._lines_ahead(counts.vectors, self._steps_ahead)
        if kernel.panel is None:
            ahead = self._lines_ahead(counts.vectors, lambda _: kernel.steps_at_once, cache=2)
        body: Body = (*ahead, *self._tile("together", counts, (Accumulate(self.sum, product),)))
        inside = Loop(steps, *self._part(steps), 1, body, carried=(self.sum,), copies=counts.points * counts.vectors)
        waiting = (Leaf((ElementStore(self.sums, place, self.sum),)),)
        stored = self._tile("unrolled", counts, self._results(self.sum) if is_last else waiting)
        expected = self._expected(counts) if is_last else ()
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

    def _sums(self, counts: _Counts, copied: Body = ()) -> Body:
        """All side by side, in the order of the fold, each step behind what is ``copied`` for it."""
        fold = self.kernel.fold
        product = fold.elements[0]
        assert isinstance(product, Binary)
        begin = self._tile("together", counts, (Leaf(registers=(self.sum,), values=fold.initial),))
        step = self._tile("together", counts, (Accumulate(self.sum, product),))
        loops = [axis for axis in fold.axes if axis.size > 1]
        if not loops:
            step = _at_first(fold.axes, (*copied, *self._prefetched(counts), *step))
            return (*self._expected(counts), *begin, *self._same_for_all(counts), *step)
        body = self._along(loops, counts, step, copied)
        single = [axis for axis in fold.axes if axis.size == 1]
        return (*begin, *self._same_for_all(counts), *_at_first(single, body))

    def _along(self, loops: Sequence[Axis], counts: _Counts, step: Body, copied: Body) -> Body:
        """The steps along all axes, and what is asked for between them: some of the innermost axis one after the other,
        where that pays off."""
        *outer, last = loops
        together = self._steps_written_out(last, counts)
        body = (*copied, *self._prefetched(counts), *step)
        if together > 1:
            body = self._written_out(last, together, counts, (*copied, *step))
        if not outer:
            return self._expecting_between(last, counts, body, together)
        for axis in reversed(outer[1:] if together == last.size else loops[1:]):
            body = (self._summing(axis, 0, axis.size, together if axis is last else 1, counts, body),)
        return self._expecting(outer[0], counts, body)

    def _summing(self, axis: Axis, first: Integer, end: Integer, step: int, counts: _Counts, body: Body) -> Loop:
        """The loop along an axis of the fold."""
        return Loop(axis, first, end, step, body, carried=(self.sum,), copies=self._copies(counts))

    def _steps_written_out(self, axis: Axis, counts: _Counts) -> int:
        """How many steps of the innermost axis are written out one after the other. A scalar beside a single vector is
        in a register for one product: LLVM would have that be the sum's from there on, and move all sums."""
        if not self.target.has_few_registers or counts.vectors == 1:
            return 1
        return next(count for count in range(self.target.tuning.steps_written_out, 0, -1) if axis.size % count == 0)

    def _written_out(self, axis: Axis, count: int, counts: _Counts, step: Body) -> Body:
        """So many steps, and what is asked for in each of them or, where its next line is further, in some."""
        some, each = list[Node](), list[Node]()
        for node in self._prefetched(counts):
            run = max(bytes_between(ask, axis) for ask in nodes_of((node,)) if isinstance(ask, Prefetch))
            lines = -(-count * run // self.target.machine.cache_line) or 1
            if lines < count:
                some.append(Points(axis, lines, "unrolled", (node,), step=count // lines))
            else:
                each.append(node)
        carried, copies = (self.sum,), self._copies(counts)
        whole = (*some, Points(axis, count, "unrolled", (*each, *step), carried=carried, copies=copies))
        return (At(axis, 0, whole),) if count == axis.size else whole

    def _expecting_between(self, axis: Axis, counts: _Counts, body: Body, together: int) -> Body:
        """The steps along the only axis of the fold, and what is asked for between them: lines of a point or more every
        few steps, so that the last ones, which are asked for again, are when a part of the steps is left."""
        _, count = self._lines_along(counts)
        tuning = self.target.tuning
        asking = int(axis.size * tuning.asking_part)
        few = max(asking // count, tuning.fewest_asking_steps, together)
        few -= few % together
        if asking < 2 * few:
            return (*self._expected(counts), self._summing(axis, 0, axis.size, together, counts, body))
        return self._asking_every(few, asking, axis, counts, body, together)

    def _expecting(self, axis: Axis, counts: _Counts, body: Body) -> Body:
        """The same of steps that are loops themselves. The last lines are asked for half way. Beside long steps
        it costs nothing to ask for them more than once."""
        along, count = self._lines_along(counts)
        few = axis.size // 2 // count
        if few > 1 and self.target.has_few_registers:
            return self._asking_every(few, axis.size // 2, axis, counts, body)
        each = -(-2 * count // axis.size)
        number = Least(Quotient(Product(Position(axis), 2 * count), axis.size), count - each)
        lines = self._lines_of_some(each, counts)
        asked: Body = (At(along, Sum(Position(along), number), lines),) if each < count else lines
        return (self._summing(axis, 0, axis.size, 1, counts, (*asked, *body)),)

    def _asking_every(self, few: int, asking: int, axis: Axis, counts: _Counts, body: Body, together: int = 1) -> Body:
        """The steps along an axis, and every few of them a part of the lines, all of them in ``asking`` steps."""
        along, count = self._lines_along(counts)
        each = -(-count // (asking // few))
        here = Axis(axis.name, axis.size)
        number = Least(Product(Quotient(Position(here), few), each), count - each)
        end = Least(Sum(Position(here), few), axis.size)
        asked = At(along, Sum(Position(along), number), self._lines_of_some(each, counts))
        steps = self._summing(axis, Position(here), end, together, counts, body)
        return (self._summing(here, 0, axis.size, few, counts, (asked, steps)),)

    def _lines_of_some(self, each: int, counts: _Counts) -> Body:
        """The lines of some points across the runs of memory that a tile stores."""
        along, _ = self._lines_along(counts)
        return (Points(along, each, "unrolled", self._lines(counts)),)

    def _turned(self, counts: _Counts, leaves: Body) -> Body:
        """The sums transposed, so that the points of the tile axis fill the lanes."""
        kernel = self.kernel
        turn = Turn(self.sum, self.turned, counts.points, counts.rows * counts.vectors, kernel.lanes)
        active = None if turn.width == counts.points else counts.points
        column: Body = (Block((Points(kernel.tile, turn.width, "vector", leaves, active),)),)
        columns = Points(kernel.vector, kernel.lanes, "unrolled", column)
        return self._rows(
            counts, (Points(kernel.vector, counts.vectors, "unrolled", (turn, columns), step=kernel.lanes),)
        )

    def _prefetched(self, counts: _Counts) -> Body:
        """What is far from what is loaded now: scalars of another tile or a later step, and vectors of a later step."""
        kernel = self.kernel
        tile, size = kernel.tile, self._step(kernel.tile, counts)
        nodes: Body = tuple(Prefetch(e.tensor, _moved(e.address, tile, size), cache=2) for e in kernel.next_tile)
        nodes += tuple(Prefetch(e.tensor, e.address, cache=2) for e in kernel.next_block)
        nodes += tuple(itertools.chain.from_iterable(self._next_strip(e, counts.vectors) for e in kernel.next_strip))
        for e in kernel.far:
            nodes += self._ahead(e, counts) if kernel.far_ahead else self._below(e, counts)
        return nodes + self._lines_ahead(counts.vectors, self._steps_ahead)

    def _next_strip(self, e: Element, vectors: int) -> Body:
        """The lines of this step of the next strip, wherever in a line strips begin: this one's last line is here."""
        line, strip = self.target.machine.cache_line * 8 // e.type.bits, self.kernel.lanes * vectors
        lanes = range(strip + line - 1, 2 * strip, line)
        return tuple(Prefetch(e.tensor, _moved(e.address, self.kernel.vector, lane), cache=2) for lane in lanes)

    def _lines_ahead(self, vectors: int, steps: Callable[[Element], int], cache: int = 1) -> Body:
        """Vectors so many steps before they are loaded, or those of the next strip."""
        kernel, line, nodes = self.kernel, self.target.machine.cache_line, tuple[Prefetch, ...]()
        for e in kernel.far_vectors:
            along, distance = (kernel.vector, kernel.strip) if kernel.by_strips else (self._last_step(), steps(e))
            there = _moved(e.address, along, distance)
            lanes = range(0, kernel.lanes * vectors, line * 8 // e.type.bits)
            nodes += tuple(Prefetch(e.tensor, _moved(there, kernel.vector, lane), cache=cache) for lane in lanes)
        return nodes

    def _last_step(self) -> Axis:
        """The axis along which the next step of the sums is."""
        return next(axis for axis in reversed(self.kernel.fold.axes) if axis.size > 1)

    def _steps_ahead(self, e: Element) -> int:
        """How many steps before it is loaded a vector is asked for."""
        tuning = self.target.tuning
        distance = bytes_between(e, self._last_step())
        is_streamed = self.kernel.panel is None and distance <= tuning.near_bytes
        return tuning.streamed_steps_ahead if is_streamed else tuning.steps_ahead

    def _ahead(self, e: Element, counts: _Counts) -> Body:
        """The first and the last of a tile's scalars of some steps on."""
        kernel = self.kernel
        there = _moved(e.address, self._last_step(), self.target.tuning.steps_ahead)
        if kernel.row is kernel.tile:
            ends: Body = tuple(
                Prefetch(e.tensor, _moved(there, kernel.tile, end)) for end in (0, self._step(kernel.tile, counts) - 1)
            )
            return ends
        return self._rows(
            counts, tuple(Prefetch(e.tensor, _moved(there, kernel.tile, end)) for end in (0, counts.points - 1))
        )

    def _below(self, e: Element, counts: _Counts) -> Body:
        """The scalars of this step of the tile below, or of the next tile if there is none below."""
        kernel, line = self.kernel, self.target.machine.cache_line
        tile, size = kernel.tile, counts.points
        below = next((a for a in reversed(kernel.across[:-1]) if e.address.coefficient(a)), tile)
        there = _moved(e.address, below, self._step(below, counts))
        lines = -(-bytes_between(e, tile) * size // line)
        ends = (size - 1 - number * size // lines for number in range(lines))
        return self._rows(counts, tuple(Prefetch(e.tensor, _moved(there, tile, end)) for end in ends))

    # What is loaded and stored after the sums of a tile, asked for while they are done --------------------------------

    def _expected(self, counts: _Counts) -> Body:
        """All of it."""
        _, count = self._lines_along(counts)
        return self._lines_of_some(count, counts)

    def _lines_along(self, counts: _Counts) -> tuple[Axis, int]:
        """The axis across the runs of memory that a tile stores, and how many points it has there."""
        kernel = self.kernel
        return (kernel.vector, kernel.lanes * counts.vectors) if kernel.turned else (kernel.tile, counts.points)

    def _lines(self, counts: _Counts) -> Body:
        """The lines of one of these points."""
        kernel = self.kernel
        run = kernel.tile if kernel.turned else kernel.vector
        if not kernel.turned:
            return self._rows(counts, self._lines_of_strip(counts))
        asked = tuple(ask for ask in self._asked() if ask.address.coefficient(run) == 1 or ask.is_stored)
        size = counts.points
        return self._rows(counts, (Points(kernel.tile, min(size, 2), "unrolled", asked, step=max(size - 1, 1)),))

    def _lines_of_strip(self, counts: _Counts) -> Body:
        """The lines along the vector axis, of a run of memory each once."""
        kernel, nodes = self.kernel, tuple[Node, ...]()
        for ask in self._asked():
            step = ask.address.coefficient(kernel.vector)
            if step == 1 and (ask.is_stored or self._is_of_points(ask.address, counts)):
                nodes += self._lines_of_run(ask, counts.vectors)
            elif ask.is_stored:
                nodes += (Points(kernel.vector, counts.vectors, "unrolled", (ask,), step=kernel.lanes),)
        return nodes

    def _same_for_all(self, counts: _Counts) -> Body:
        """The lines of what is the same for all points of a tile: of this strip, and of the next one what its sums
        begin with."""
        kernel, nodes = self.kernel, tuple[Node, ...]()
        begins = dict.fromkeys(e for first in kernel.fold.initial for e in walk(first) if isinstance(e, Element))
        loads = [ask for ask in self._asked() if not ask.is_stored]
        loads += [Prefetch(e.tensor, _moved(e.address, kernel.vector, kernel.lanes * counts.vectors)) for e in begins]
        for ask in loads:
            if ask.address.coefficient(kernel.vector) == 1 and not self._is_of_points(ask.address, counts):
                nodes += self._lines_of_run(ask, counts.vectors)
        return nodes

    def _lines_of_run(self, ask: Prefetch, vectors: int) -> Body:
        """The lines of a strip's run of memory, of which the first one is asked for."""
        lanes = self._lanes_of_lines(ask.address, ask.tensor.type.bits // 8, vectors)
        return tuple(replace(ask, address=_moved(ask.address, self.kernel.vector, lane)) for lane in lanes)

    def _is_of_points(self, address: Affine, counts: _Counts) -> bool:
        """Whether an address is not the same for all points of a tile."""
        return any(address.coefficient(axis) for axis in (self.kernel.tile, counts.row) if axis is not None)

    def _lanes_of_lines(self, address: Affine, size: int, vectors: int) -> Sequence[int]:
        """The lanes of a strip with which lines may begin: wherever it does in a line, the last one is there, too."""
        kernel, line = self.kernel, self.target.machine.cache_line // size
        strip = kernel.lanes * vectors
        apart = math.gcd(line, *(c for axis, c in address.terms if axis is not kernel.vector), address.constant)
        begins = range(0, strip, line)
        return begins if apart >= min(strip, line) else (*begins, strip - 1)

    def _asked(self) -> list[Prefetch]:
        """What a point stores, and what its results load."""
        inside, asked = set(walk(self.kernel.fold)), list[Prefetch]()
        for store in self.kernel.stores:
            asked.append(Prefetch(store.tensor, store.address, is_stored=True))
            loads = [e for e in walk(store.value) if isinstance(e, Element) and e not in inside]
            asked += [Prefetch(e.tensor, e.address) for e in loads]
        return asked


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


def _moved(address: Affine, axis: Axis, distance: int) -> Affine:
    """The address so much further along an axis."""
    return Affine(address.terms, address.constant + address.coefficient(axis) * distance)
