"""What sums of products ask memory for ahead of its use: what later steps load, and what is made of the sums."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from opendml.expression.affine import Affine, Element, bytes_between, loads_of
from opendml.expression.ir import Axis, Expression, Variable
from opendml.loops.nest import At, Body, Node, Points, Prefetch, nodes_of
from opendml.loops.nest_integers import Integer, Least, Position, Product, Quotient, Sum
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.contractions.prefetches import loads_of_results
from opendml.targets.cpu.nests.kept_rows import unconditional_loads
from opendml.targets.cpu.nests.tile_counts import TileCounts
from opendml.targets.cpu.target import CpuTarget


class Asking:
    """What the tiles of a kernel, whose sums are ``total``, ask for: in each step what later ones load, between steps
    what is loaded and stored after the last one."""

    def __init__(self, kernel: ContractionKernel, target: CpuTarget, total: Variable) -> None:
        self.kernel = kernel
        self.target = target
        self.total = total

    # What later steps, or later tiles, load ---------------------------------------------------------------------------

    def by_steps(self, counts: TileCounts) -> Body:
        """What is far from what is loaded now: scalars of another tile or a later step, and vectors of a later step."""
        kernel = self.kernel
        tile, size = kernel.tile, counts.along(kernel.tile)
        nodes: Body = tuple(Prefetch(e.tensor, moved(e.address, tile, size), cache=2) for e in kernel.next_tile)
        if not self._asks_between_loops:
            nodes += tuple(Prefetch(e.tensor, e.address, cache=2) for e in kernel.next_block)
        nodes += tuple(itertools.chain.from_iterable(self._next_strip(e, counts.vectors) for e in kernel.next_strip))
        for e in kernel.far:
            if kernel.outer_at_once:
                nodes += self._in_next_part(e, counts)
            else:
                nodes += self._ahead(e, counts) if kernel.far_ahead else self._below(e, counts)
        return nodes + self.vectors_ahead(counts.vectors, self.steps_ahead)

    @property
    def _asks_between_loops(self) -> bool:
        """Whether there are fewer lines of the next block than steps of the loops within the outermost one."""
        loops = [axis for axis in self.kernel.fold.axes if axis.size > 1]
        inner = math.prod(axis.size for axis in loops[1:])
        return len(loops) > 1 and any(self._lines_of(e, loops[0]) < inner for e in self.kernel.next_block)

    def _lines_of(self, e: Element, axis: Axis) -> int:
        """Lines of a step along an axis, wherever in a line it begins."""
        return -(-bytes_between(e, axis) // self.target.machine.cache_line)

    def by_outer_steps(self, axis: Axis) -> Body:
        """What is asked for at each step along the outermost of several axes, where the others are at their first."""
        if not self._asks_between_loops:
            return ()
        asked = list[Node]()
        for e in self.kernel.next_block:
            line = self.target.machine.cache_line * 8 // e.type.bits
            further = (e.address.constant + line * number for number in range(self._lines_of(e, axis)))
            asked += (Prefetch(e.tensor, Affine(e.address.terms, place), cache=2) for place in further)
        return tuple(asked)

    def by_several_steps(self, axis: Axis, count: int, counts: TileCounts) -> tuple[Body, Body]:
        """The same of so many steps that are written out one after the other: what is asked for once, of lines that
        several steps load from, and what each step asks for."""
        once, each = list[Node](), list[Node]()
        for node in self.by_steps(counts):
            run = max(bytes_between(ask, axis) for ask in nodes_of((node,)) if isinstance(ask, Prefetch))
            lines = -(-count * run // self.target.machine.cache_line) or 1
            if lines < count:
                once.append(Points(axis, lines, "unrolled", (node,), step=count // lines))
            else:
                each.append(node)
        return tuple(once), tuple(each)

    def _next_strip(self, e: Element, vectors: int) -> Body:
        """The lines of this step of the next strip, wherever in a line strips begin: this one's last line is here."""
        line, strip = self.target.machine.cache_line * 8 // e.type.bits, self.kernel.lanes * vectors
        lanes = range(strip + line - 1, 2 * strip, line)
        return tuple(Prefetch(e.tensor, moved(e.address, self.kernel.vector, lane), cache=2) for lane in lanes)

    def vectors_ahead(self, vectors: int, steps: Callable[[Element], int], cache: int = 1) -> Body:
        """Vectors so many steps before they are loaded, or those of the next strip."""
        kernel, line, nodes = self.kernel, self.target.machine.cache_line, tuple[Prefetch, ...]()
        for e in kernel.far_vectors:
            along, distance = (kernel.vector, kernel.strip) if kernel.by_strips else (kernel.last_step, steps(e))
            there = moved(e.address, along, distance)
            lanes = range(0, kernel.lanes * vectors, line * 8 // e.type.bits)
            nodes += tuple(Prefetch(e.tensor, moved(there, kernel.vector, lane), cache=cache) for lane in lanes)
        return nodes

    def steps_ahead(self, e: Element) -> int:
        """How many steps before it is loaded a vector is asked for."""
        tuning = self.target.tuning
        distance = bytes_between(e, self.kernel.last_step)
        is_streamed = self.kernel.panel is None and distance <= tuning.near_bytes
        return tuning.streamed_steps_ahead if is_streamed else tuning.steps_ahead

    def _ahead(self, e: Element, counts: TileCounts) -> Body:
        """The first and the last of a tile's scalars of some steps on."""
        kernel = self.kernel
        there = moved(e.address, kernel.last_step, self.target.tuning.steps_ahead)
        if kernel.row is kernel.tile:
            ends: Body = tuple(
                Prefetch(e.tensor, moved(there, kernel.tile, end)) for end in (0, counts.along(kernel.tile) - 1)
            )
            return ends
        return counts.in_rows(
            tuple(Prefetch(e.tensor, moved(there, kernel.tile, end)) for end in (0, counts.points - 1))
        )

    def _below(self, e: Element, counts: TileCounts) -> Body:
        """The scalars of this step of the tile below, or of the next tile if there is none below."""
        tile = self.kernel.tile
        below = next((a for a in reversed(self.kernel.across[:-1]) if e.address.coefficient(a)), tile)
        return self._scalars(e, counts, below, counts.along(below))

    def _in_next_part(self, e: Element, counts: TileCounts) -> Body:
        """The scalars of this step of the same tile in the next part of the fold."""
        return self._scalars(e, counts, self.kernel.outer_step, self.kernel.outer_at_once)

    def _scalars(self, e: Element, counts: TileCounts, along: Axis, distance: int) -> Body:
        """The lines of a tile's scalars so much further along an axis."""
        tile, size, line = self.kernel.tile, counts.points, self.target.machine.cache_line
        there = moved(e.address, along, distance)
        lines = -(-bytes_between(e, tile) * size // line)
        ends = (size - 1 - number * size // lines for number in range(lines))
        return counts.in_rows(tuple(Prefetch(e.tensor, moved(there, tile, end)) for end in ends))

    def copied(self, source: Expression, counts: TileCounts) -> Body:
        """Of a tile that fills the panel: what later steps are to copy there of ``source``."""
        kernel, line, asked = self.kernel, self.target.machine.cache_line, tuple[Prefetch, ...]()
        for e in dict.fromkeys(unconditional_loads(source)):
            if e.address.coefficient(kernel.vector) == 1:
                there = moved(e.address, kernel.last_step, self._copied_steps_ahead(e))
                lanes = range(0, kernel.lanes * counts.vectors, line * 8 // e.type.bits)
                asked += tuple(Prefetch(e.tensor, moved(there, kernel.vector, lane)) for lane in lanes)
        return asked

    def _copied_steps_ahead(self, e: Element) -> int:
        """How many steps before it is copied a vector is asked for."""
        tuning = self.target.tuning
        distance = bytes_between(e, self.kernel.last_step)
        return tuning.steps_ahead if distance % tuning.page_bytes else tuning.copied_steps_ahead

    # What is loaded and stored after the sums of a tile, asked for while they are done --------------------------------

    def between_steps(self, axis: Axis, counts: TileCounts, body: Body, together: int) -> Body:
        """The steps along the only axis of the fold, and what is asked for between them: lines of a point or more every
        few steps, so that the last ones, which are asked for again, are when a part of the steps is left."""
        _, count = self._lines_along(counts)
        tuning = self.target.tuning
        asking = int(axis.size * tuning.asking_part)
        few = max(asking // count, tuning.fewest_asking_steps, together)
        few -= few % together
        if asking < 2 * few:
            return (*self.expected(counts), counts.summing(self.total, axis, 0, axis.size, together, body))
        return self._every(few, asking, axis, counts, body, together)

    def between_loops(self, axis: Axis, counts: TileCounts, body: Body, bounds: tuple[Integer, Integer]) -> Body:
        """The same of steps that are loops themselves, those within ``bounds``. The last lines are asked for half way.
        Beside long steps it costs nothing to ask for them more than once."""
        along, count = self._lines_along(counts)
        few = max(axis.size // 2 // count, min(self.target.tuning.asking_channels, axis.size // 4))
        if few > 1 and self.target.has_few_registers and bounds == (0, axis.size):
            return self._every(few, axis.size // 2, axis, counts, body)
        each = -(-2 * count // axis.size)
        number = Least(Quotient(Product(Position(axis), 2 * count), axis.size), count - each)
        lines = self._lines_of_some(each, counts)
        asked: Body = (At(along, Sum(Position(along), number), lines),) if each < count else lines
        return (counts.summing(self.total, axis, *bounds, 1, (*asked, *body)),)

    def _every(self, few: int, asking: int, axis: Axis, counts: TileCounts, body: Body, together: int = 1) -> Body:
        """The steps along an axis, and every few of them a part of the lines, all of them in ``asking`` steps."""
        along, count = self._lines_along(counts)
        each = -(-count // (asking // few))
        here = Axis(axis.name, axis.size)
        number = Least(Product(Quotient(Position(here), few), each), count - each)
        end = Least(Sum(Position(here), few), axis.size)
        asked = At(along, Sum(Position(along), number), self._lines_of_some(each, counts))
        steps = counts.summing(self.total, axis, Position(here), end, together, body)
        return (counts.summing(self.total, here, 0, axis.size, few, (asked, steps)),)

    def expected(self, counts: TileCounts) -> Body:
        """All of it, at once."""
        _, count = self._lines_along(counts)
        return self._lines_of_some(count, counts)

    def _lines_of_some(self, each: int, counts: TileCounts) -> Body:
        """The lines of some points across the runs of memory that a tile stores."""
        along, _ = self._lines_along(counts)
        return (Points(along, each, "unrolled", self._lines(counts)),)

    def _lines_along(self, counts: TileCounts) -> tuple[Axis, int]:
        """The axis across the runs of memory that a tile stores, and how many points it has there."""
        kernel = self.kernel
        return (kernel.vector, kernel.lanes * counts.vectors) if kernel.turned else (kernel.tile, counts.points)

    def _lines(self, counts: TileCounts) -> Body:
        """The lines of one of these points."""
        kernel = self.kernel
        run = kernel.tile if kernel.turned else kernel.vector
        if not kernel.turned:
            return counts.in_rows(self._lines_of_strip(counts))
        asked = tuple(ask for ask in self._asked() if ask.address.coefficient(run) == 1 or ask.is_stored)
        size = counts.points
        return counts.in_rows((Points(kernel.tile, min(size, 2), "unrolled", asked, step=max(size - 1, 1)),))

    def _lines_of_strip(self, counts: TileCounts) -> Body:
        """The lines along the vector axis, of a run of memory each once."""
        kernel, nodes = self.kernel, tuple[Node, ...]()
        for ask in self._asked():
            step = ask.address.coefficient(kernel.vector)
            if step == 1 and (ask.is_stored or self._is_of_points(ask.address, counts)):
                nodes += self._lines_of_run(ask, counts.vectors)
            elif ask.is_stored:
                nodes += (Points(kernel.vector, counts.vectors, "unrolled", (ask,), step=kernel.lanes),)
        return nodes

    def of_next_rows(self, counts: TileCounts) -> Body:
        """What is made of sums in tile registers reads beside them, of the next rows, where these are one run of
        memory: while the strips of some rows are done, each asks for its part of that run. Behind a few steps all that
        a tile reads would be waited for at once."""
        kernel, nodes = self.kernel, tuple[Node, ...]()
        if counts.row is not None or kernel.keeps_tiles:
            return ()
        steps, line, rows = kernel.tile_steps, self.target.machine.cache_line, kernel.tile_size
        strips = {axis: -(-axis.size // steps[axis]) for axis in kernel.along}
        width = math.prod(axis.size for axis in kernel.along)
        for e in dict.fromkeys(e for store in kernel.stores for e in loads_of_results(store, kernel.fold)):
            is_far = e.tensor.extent * e.type.bits // 8 >= self.target.tuning.far_tile_bytes
            is_run = e.address.coefficient(kernel.vector) == 1 and e.address.coefficient(kernel.tile) == width
            if not is_far or not is_run:
                continue
            part = -(-rows * width // math.prod(strips.values()))
            terms, inner = [(t, c) for t, c in e.address.terms if t not in kernel.along], part
            for axis in reversed(kernel.along):
                terms += [(axis, inner // steps[axis])] if strips[axis] > 1 else []
                inner *= strips[axis]
            first = e.address.constant + rows * width
            places = range(first, first + part, line * 8 // e.type.bits)
            nodes += tuple(Prefetch(e.tensor, Affine(tuple(terms), place)) for place in places)
        return nodes

    def same_for_all(self, counts: TileCounts) -> Body:
        """The lines of what is the same for all points of a tile: of this strip, and of the next one what its sums
        begin with."""
        kernel, nodes = self.kernel, tuple[Node, ...]()
        begins = dict.fromkeys(loads_of(*kernel.fold.initial))
        loads = [ask for ask in self._asked() if not ask.is_stored]
        loads += [Prefetch(e.tensor, moved(e.address, kernel.vector, kernel.lanes * counts.vectors)) for e in begins]
        for ask in loads:
            if ask.address.coefficient(kernel.vector) == 1 and not self._is_of_points(ask.address, counts):
                nodes += self._lines_of_run(ask, counts.vectors)
        return nodes

    def _lines_of_run(self, ask: Prefetch, vectors: int) -> Body:
        """The lines of a strip's run of memory, of which the first one is asked for."""
        lanes = self._lanes_of_lines(ask.address, ask.tensor.type.bits // 8, vectors)
        return tuple(replace(ask, address=moved(ask.address, self.kernel.vector, lane)) for lane in lanes)

    def _is_of_points(self, address: Affine, counts: TileCounts) -> bool:
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
        asked = list[Prefetch]()
        for store in self.kernel.stores:
            asked.append(Prefetch(store.tensor, self._of_next_tile(store.address), is_stored=True))
            loads = loads_of_results(store, self.kernel.fold)
            asked += [Prefetch(e.tensor, self._of_next_tile(e.address)) for e in loads]
        return asked

    def _of_next_tile(self, address: Affine) -> Affine:
        """Where the next tile has it, where it comes from memory, which takes longer than the steps of one tile."""
        kernel = self.kernel
        if not kernel.results_ahead:
            return address
        blocks, steps = dict(kernel.blocks), kernel.tile_steps
        inner = next((axis for axis in reversed(kernel.loops) if blocks.get(axis, axis.size) > steps[axis]), None)
        return address if inner is None else moved(address, inner, steps[inner])


def moved(address: Affine, axis: Axis, distance: int) -> Affine:
    """The address so much further along an axis."""
    return Affine(address.terms, address.constant + address.coefficient(axis) * distance)
