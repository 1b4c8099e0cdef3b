"""Sums of products as loops: matrix products and convolutions.

One factor of the product moves along a *vector* axis, the other along a *tile* axis; both are taken in a tile of
registers: ``vectors`` registers of neighbouring points along the one times ``tile_size`` points along the other, all of
which add up their sums side by side; where the tile axis is short, ``row_count`` rows of such points. Every step of the
fold loads the registers of the one factor and the scalars of the other one once for the whole tile. The order of every
sum is the fold's own, whatever the tile.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from opendml.expression.affine import Affine, Dependencies, Element
from opendml.expression.ir import WORD_PRODUCTS, Axis, Binary, Const, Expression, Fold, Tensor
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute
from opendml.loops.nest import ElementStore
from opendml.loops.rewriting import lowered_stores
from opendml.targets.cpu.coalescing import coalesce
from opendml.targets.cpu.instructions.tiles import ROWS, WORDS
from opendml.targets.cpu.matrix_tiles import MatrixSteps, matrix_steps
from opendml.targets.cpu.panels import Panel, panel_of, strip_bytes
from opendml.targets.cpu.schedule import read_by
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.words_in_memory import BYTES, word_in_memory


@dataclass(frozen=True, slots=True, eq=False)
class ContractionKernel:
    """A Compute of one sum of products with its loops chosen.

    A work item has loops over the axes ``batch`` (of both factors, or neither), ``across`` (of the factor of the tile
    axis, which is the last one) and ``along`` (of the factor of the vector axis, likewise). ``blocks`` says how work
    items are cut: an axis and how many of its points an item covers, slowest first; a second block of an axis is part
    of the first. The vector axis is walked ``vectors`` registers of ``lanes`` points at a time, the tile axis
    ``tile_size`` points at a time, and ``row``, another axis of the same side, ``row_count`` points at a time, if there
    is one: all of the tile axis is then taken at once. Where ``row`` is the tile axis itself, ``row_count`` times
    ``tile_size`` points of it are taken at once. ``turned`` says that the outputs lie next to each other along the tile
    axis instead of the vector axis: tiles are transposed in registers before they are stored. ``keeps_tiles`` says that
    the loops ``along`` are around those ``across``, and not inside of them. ``far`` are loads along the tile axis, and
    ``far_vectors`` loads along the vector axis, whose places are far apart from step to step of the fold, so that
    processors do not see by themselves what comes next; ``far_ahead`` says that the former are asked for some steps
    ahead, not a tile ahead, which would be too early, and ``strip_ahead`` that the latter are asked for a strip ahead,
    not some steps, of which a short sum would go through too few. ``next_tile`` are loads along the tile axis whose
    points are one run of memory, in order, for all steps and then for the next tile: with every step they move on by a
    cache line. ``next_block`` are loads along the vector axis, of the block of its side that the next work items read:
    each tile asks for its part of that. ``next_strip`` are loads along the vector axis of which each tile asks for
    those of the next strip, as there are few tiles to do so. ``panel`` is the factor of the vector axis laid out anew,
    if it is. ``steps_at_once`` are the steps after which the sums of a tile wait in memory until those of all others of
    the work item have come as far, so that what the steps load is read in long runs; 0: they never wait. ``by_rounds``
    says that they wait for those of all work items of the thread, whose steps then read what is near. ``words`` says
    how the sums of a tile are done in the processor's tile registers, if they are: its rows are the points along the
    tile axis, its columns those along the vector axis.
    """

    stores: tuple[ElementStore, ...]
    fold: Fold
    batch: tuple[Axis, ...]
    across: tuple[Axis, ...]
    along: tuple[Axis, ...]
    blocks: tuple[tuple[Axis, int], ...]
    vector: Axis
    lanes: int
    vectors: int
    tile: Axis
    tile_size: int
    row: Axis | None
    row_count: int
    turned: bool
    keeps_tiles: bool
    far: tuple[Element, ...]
    far_ahead: bool
    far_vectors: tuple[Element, ...]
    strip_ahead: bool
    next_tile: tuple[Element, ...]
    next_block: tuple[Element, ...]
    next_strip: tuple[Element, ...]
    panel: Panel | None
    words: MatrixSteps | None
    steps_at_once: int
    by_rounds: bool
    serial: bool
    reads: frozenset[Tensor]

    @property
    def loops(self) -> tuple[Axis, ...]:
        """All axes from the outermost to the innermost loop of a work item."""
        sides = (self.along, self.across) if self.keeps_tiles else (self.across, self.along)
        return (*self.batch, *sides[0], *sides[1])

    def step(self, axis: Axis) -> int:
        """How many points of one of the tile's sides a tile takes."""
        rows = self.row_count if axis is self.row else 1
        return rows * (self.tile_size if axis is self.tile else 1)

    @property
    def steps(self) -> int:
        """Steps of the fold."""
        return math.prod(axis.size for axis in self.fold.axes)

    @property
    def work(self) -> int:
        """Steps of all sums, as long as those of other kernels: these come in whole registers of multiply-adds."""
        return math.prod(axis.size for axis in self.loops) * self.steps // self.lanes

    @property
    def panel_bytes(self) -> int:
        """Bytes of memory of its own that a thread needs."""
        return 0 if self.panel is None else self.panel.bytes

    @property
    def item_count(self) -> int:
        """Work items of the kernel."""
        return math.prod(self.block_counts)

    @property
    def block_counts(self) -> tuple[int, ...]:
        """How many blocks there are of every axis in ``blocks``."""
        whole: dict[Axis, int] = {}
        counts = []
        for axis, block in self.blocks:
            counts.append(-(-whole.get(axis, axis.size) // block))
            whole[axis] = block
        return tuple(counts)

    @property
    def strip(self) -> int:
        """Points of the vector axis that are computed together."""
        return self.lanes * self.vectors

    @property
    def waiting_sizes(self) -> tuple[int, int]:
        """Points along the tile axis and the vector axis of a work item's sums, in whole tiles."""
        blocks = {axis: axis.size for axis in self.loops} if self.by_rounds else dict(self.blocks)
        rows, columns = -(-blocks[self.tile] // self.tile_size), -(-blocks[self.vector] // self.strip)
        return rows * self.tile_size, columns * self.strip

    @property
    def last_vectors(self) -> int:
        """Registers along the vector axis of the last strip."""
        return last_vectors(self.vector.size, self.lanes, self.vectors)


def last_vectors(size: int, lanes: int, vectors: int) -> int:
    """How many registers the last strip of an axis takes if the others take ``vectors``."""
    return -(-(size % (lanes * vectors) or lanes * vectors) // lanes)


@dataclass(frozen=True, slots=True)
class _Tile:
    """A choice of axes and of the numbers of points along them that are computed together; with ``words`` in tile
    registers."""

    vector: Axis
    lanes: int
    vectors: int
    tile: Axis
    tile_size: int
    turned: bool
    packed: bool
    row: Axis | None = None
    row_count: int = 1
    words: MatrixSteps | None = None
    steps_at_once: int = 0
    by_rounds: bool = False

    @property
    def points(self) -> int:
        """Points along the tile axis and that of the rows."""
        return self.tile_size * self.row_count


def schedule_contraction(compute: Compute, target: CpuTarget) -> ContractionKernel | None:
    """Loops for a sum of products in registers; None if the statement is something else."""
    if not any(isinstance(e, Fold) and e.contract and e.partials == 1 for s in compute.stores for e in walk(s.value)):
        return None
    stores = lowered_stores(compute.stores)
    axes = [axis for axis in compute.axes if axis.size > 1]
    axes.sort(key=lambda axis: -abs(stores[0].address.coefficient(axis)))
    axes, stores = coalesce(axes, stores)
    fold = _only_fold(stores)
    if fold is None or not _is_plain(stores):
        return None
    problem = _Problem(stores, fold, axes, target)
    tile = min(problem.tiles(), key=problem.cost, default=None)
    return None if tile is None else problem.kernel(tile)


def _only_fold(stores: Sequence[ElementStore]) -> Fold | None:
    """The fold of all stores, if it is one sum of products from a constant on, without conditions."""
    folds = {e for store in stores for e in walk(store.value) if isinstance(e, Fold)}
    if len(folds) != 1:
        return None
    (fold,) = folds
    is_sum = fold.contract and fold.partials == 1 and fold.where is None and isinstance(fold.initial[0], Const)
    everywhere = all(any(e == fold for e in walk(store.value)) for store in stores)
    return fold if is_sum and everywhere else None


def _is_plain(stores: Sequence[ElementStore]) -> bool:
    """Whether all places are sums of axes, and all loads may be done whatever the conditions."""
    elements = [e for store in stores for e in walk(store.value) if isinstance(e, Element)]
    return all(e.safe and e.address.is_pure for e in elements) and all(store.address.is_pure for store in stores)


class _Problem:
    """What the choice of a tile depends on."""

    def __init__(self, stores: tuple[ElementStore, ...], fold: Fold, axes: list[Axis], target: CpuTarget) -> None:
        product = fold.elements[0]
        assert isinstance(product, Binary)
        self.stores = stores
        self.fold = fold
        self.axes = axes
        self.target, self.machine, self.tuning = target, target.machine, target.tuning
        self.factors = (product.left, product.right)
        dependencies = Dependencies()
        self.sides = tuple(frozenset(a for a in axes if a in dependencies.of(f)) for f in self.factors)
        self.steps = math.prod(axis.size for axis in fold.axes)
        self.points = math.prod(axis.size for axis in axes)
        self._words = tuple(map(word_in_memory, self.factors))
        self._elements = tuple(map(_elements, self.factors))
        self._known_coefficients: dict[tuple[int, Axis], set[int]] = {}
        self._is_deep = self._is_of_deep_sums()
        self._contiguous = {axis for axis in axes if all(s.address.coefficient(axis) == 1 for s in stores)}

    def tiles(self) -> Iterator[_Tile]:
        """All choices."""
        width = self.machine.vector_bytes * 8 // self.fold.type.bits
        for side, other in ((0, 1), (1, 0)):
            own = [axis for axis in self.axes if axis in self.sides[side] and axis not in self.sides[other]]
            across = [axis for axis in self.axes if axis in self.sides[other] and axis not in self.sides[side]]
            for vector, packed in itertools.product(own, (False, True)):
                if vector.size < width or not self._is_readable(side, vector, packed):
                    continue
                for tile in across:
                    rows = [axis for axis in across if axis is not tile]
                    for one in self._tiles_of(vector, tile, width, packed):
                        yield one
                        yield from self._in_rows(one, rows)
                    yield from self._in_rounds(self._tiles_of(vector, tile, width, packed))
                if not packed and len(own) == 1 and len(across) <= 1:
                    yield from self._interrupted(side, vector, across[0] if across else Axis("row", 1), width)
        yield from self._matrix_tiles()

    def _in_rows(self, tile: _Tile, rows: Iterable[Axis]) -> Iterator[_Tile]:
        """The tile in several rows, where one has few points: rows of another axis, or, where tiles are transposed
        and so no longer than a vector, of points of the same axis."""
        most = min(self._most_sums(tile.vectors), self.tuning.most_points) // tile.tile_size
        if tile.tile_size == tile.tile.size:
            for row in rows:
                for count in range(2, min(most, row.size) + 1):
                    yield replace(tile, row=row, row_count=count)
        elif tile.turned:
            for count in range(2, min(most, tile.tile.size // tile.tile_size) + 1):
                yield replace(tile, row=tile.tile, row_count=count)

    def _most_sums(self, vectors: int) -> int:
        """Points of a tile of which the sums stay in registers, beside what a step loads."""
        return (self.machine.vector_registers - 1 - vectors) // vectors

    def _interrupted(self, side: int, vector: Axis, tile: Axis, width: int) -> Iterator[_Tile]:
        """Tiles of a few rows whose sums wait in memory, where the vectors of each step are on pages of their own: runs
        of all tiles together are longer than those of one."""
        tuning, steps = self.tuning, [axis for axis in self.fold.axes if axis.size > 1]
        is_plain = len(steps) == 1 and self._words[side] is None and self._coefficients(side, vector) == {1}
        count = tuning.steps_at_once if tile.size >= tuning.rows_of_tiles else tuning.steps_of_few_rows
        is_long = self.steps > tuning.fewest_interrupted * count
        row = vector.size * self.fold.type.bits // 8
        is_far = row >= tuning.page_bytes and min(self._distances(side), default=0) >= tuning.page_bytes
        is_far &= tile.size > 1 or self._bytes_of(self._elements[side]) >= tuning.prefetched_bytes
        if is_plain and is_long and is_far and tile.size <= tuning.interrupted_rows and self._is_along(vector):
            for one in self._tiles_of(vector, tile, width, packed=False):
                yield replace(one, steps_at_once=count)

    def _is_of_deep_sums(self) -> bool:
        """Whether there are few sums of so many steps that what these read does not stay in a near cache."""
        tuning, size = self.tuning, self.fold.type.bits // 8
        fewest = tuning.fewest_interrupted * tuning.steps_of_deep_sums
        fewest = max(fewest, tuning.steps_of_deep_sums + self.machine.vector_bytes // size)
        is_long = self.steps >= fewest and [a.size for a in self.fold.axes if a.size > 1] == [self.steps]
        is_plain = len(self.axes) == 2 and self._words == (None, None) and not self.sides[0] & self.sides[1]
        is_small = self.points * size <= tuning.waiting_bytes
        sides = [self._side_bytes(side) for side in (0, 1)]
        is_far = min(sides) >= tuning.vector_side_bytes and sum(sides) > tuning.prefetched_bytes
        return is_long and is_plain and is_small and is_far

    def _in_rounds(self, tiles: Iterable[_Tile]) -> Iterator[_Tile]:
        """Tiles whose sums wait in memory until those of all others of a thread have come as far."""
        for tile in tiles if self._is_deep else ():
            if self._is_along(tile.vector):
                yield replace(tile, steps_at_once=self.tuning.steps_of_deep_sums, by_rounds=True)

    def _most_points(self, vectors: int) -> int:
        """Points of a row of a tile at most."""
        return min(self._most_sums(vectors), self.tuning.most_tile)

    def _matrix_tiles(self) -> Iterator[_Tile]:
        """Choices in tile registers."""
        for side, (vector, tile) in itertools.product((0, 1), itertools.permutations(self.axes, 2)):
            is_own = vector in self.sides[side] and vector not in self.sides[1 - side]
            is_across = tile in self.sides[1 - side] and tile not in self.sides[side]
            if not is_own or not is_across or not self._is_along(vector):
                continue
            words = matrix_steps(self.fold, self.factors, side, tile, self.target)
            for packed in (False, True) if words is not None else ():
                lanes = min(WORDS, vector.size)
                vectors = min(2, vector.size // lanes)
                is_loadable = self._coefficients(side, vector) == {1} if not packed else lanes == WORDS
                if is_loadable and self._is_readable(side, vector, packed):
                    yield _Tile(vector, lanes, vectors, tile, min(2 * ROWS, tile.size), False, packed, words=words)

    def _tiles_of(self, vector: Axis, tile: Axis, lanes: int, packed: bool) -> Iterator[_Tile]:
        tuning = self.tuning
        turned = not self._is_along(vector) and self._is_along(tile)
        for vectors in range(1, min(tuning.most_vectors, vector.size // lanes) + 1):
            if packed and strip_bytes(self.fold, vectors * lanes) > tuning.most_panel_bytes:
                return
            most = min(self._most_points(vectors), tile.size)
            most = min(most, lanes) if turned else most
            counts = range(-(-tile.size // most), min(tile.size, tuning.smaller_tiles * -(-tile.size // most)) + 1)
            for size in sorted({-(-tile.size // count) for count in counts}):
                yield _Tile(vector, lanes, vectors, tile, size, turned, packed)

    def _is_along(self, axis: Axis) -> bool:
        """Whether neighbours along an axis are neighbours in all that is stored."""
        return axis in self._contiguous

    def _coefficients(self, side: int, axis: Axis) -> set[int]:
        """How far apart neighbours along an axis are in what a factor loads."""
        found = self._known_coefficients.get((side, axis))
        if found is None:
            found = {e.address.coefficient(axis) for e in self._elements[side]}
            self._known_coefficients[side, axis] = found
        return found

    def _is_readable(self, side: int, vector: Axis, packed: bool) -> bool:
        """Whether vectors of a factor can be loaded, or (``packed``) made: it is contiguous along some axis."""
        if self._has_vectors(side, vector):
            return True
        return packed and self._contiguous_step(side) is not None

    def _has_vectors(self, side: int, vector: Axis) -> bool:
        return all(0 <= step <= self.tuning.shuffled_stride for step in self._coefficients(side, vector))

    def _contiguous_step(self, side: int) -> Axis | None:
        """The axis of the fold along which a factor is contiguous."""
        return next((a for a in self.fold.axes if a.size > 1 and self._coefficients(side, a) == {1}), None)

    def _side(self, tile: _Tile) -> int:
        return 0 if tile.vector in self.sides[0] else 1

    def _distances(self, side: int) -> list[int]:
        """Bytes from one step of the fold to the next one."""
        last = [axis for axis in self.fold.axes if axis.size > 1][-1:]
        size = self.fold.type.bits // 8
        return [abs(step) * size for axis in last for step in self._coefficients(side, axis)]

    def _walking(self, side: int, tile: _Tile) -> float:
        """How much longer steps take for where their loads are."""
        result, tuning = 1.0, self.tuning
        if tile.steps_at_once:
            return tuning.prefetched_penalty
        if self._is_deep:
            return tuning.lost_penalty
        distances = [] if tile.packed else self._distances(side)
        if any(d > tuning.near_bytes for d in distances):
            is_lost = self.steps > tuning.many_steps or any(d % tuning.page_bytes == 0 for d in distances)
            is_far = any(d > tuning.page_bytes for d in distances)
            result = tuning.lost_penalty if is_lost else tuning.far_penalty if is_far else tuning.prefetched_penalty
        if self._is_across_lines(side, tile) and not self._is_near(tile):
            result = max(result, tuning.far_penalty)
        if tile.tile_size > 1 and self._is_scattered(1 - side, tile.tile):
            result *= tuning.far_penalty
        scalars = max(self._distances(1 - side), default=0)
        if scalars >= tuning.page_bytes:
            return result * (tuning.far_penalty if scalars % tuning.page_bytes else tuning.lost_penalty)
        return result * (tuning.prefetched_penalty if scalars >= tuning.near_bytes else 1)

    def _is_across_lines(self, side: int, tile: _Tile) -> bool:
        """Whether vectors begin anywhere in a line."""
        return not tile.packed and any(d % self.machine.vector_bytes for d in self._distances(side))

    def _is_near(self, tile: _Tile) -> bool:
        """Whether what the vectors of a tile are loaded from stays in the nearest cache: steps along a row of windows
        read the same lines again, and a vector in two of them costs no more than two loads."""
        is_dense = self._coefficients(self._side(tile), tile.vector) <= {0, 1}
        return is_dense and strip_bytes(self.fold, tile.lanes * tile.vectors) <= self.tuning.near_strip_bytes

    def _is_scattered(self, side: int, axis: Axis) -> bool:
        """Whether neighbours along an axis are far apart, and no runs of memory either along the steps of the fold."""
        size = self.fold.type.bits // 8
        if all(abs(step) * size <= self.tuning.near_bytes for step in self._coefficients(side, axis)):
            return False
        run = 1
        for inner in reversed(self.fold.axes):
            if inner.size > 1 and self._coefficients(side, inner) != {run}:
                break
            run *= inner.size
        return run * size < self.machine.cache_line

    def _is_aliased(self, side: int, axis: Axis) -> bool:
        distances = [step * self.fold.type.bits // 8 for step in self._coefficients(side, axis)]
        return any(distance and distance % self.tuning.page_bytes == 0 for distance in distances)

    def cost(self, tile: _Tile) -> float:
        """Cycles of all sums, by and large."""
        side = self._side(tile)
        strips = -(-tile.vector.size // (tile.lanes * tile.vectors))
        last = replace(tile, vectors=last_vectors(tile.vector.size, tile.lanes, tile.vectors))
        row = (strips - 1) * self._tile_cost(side, tile) + self._tile_cost(side, last)
        steps = self._tile_steps(tile)
        others = self.points // math.prod(axis.size for axis in (tile.vector, *steps))
        # Rows that are left are a tile of their own, others are done twice.
        counts = (axis.size / step if axis is not tile.tile else -(-axis.size // step) for axis, step in steps.items())
        rows = others * math.prod(counts)
        if tile.turned and tile.packed:
            row *= self.tuning.repacked_penalty
        return rows * row + (self._packing(side, tile) if tile.packed else 0)

    @staticmethod
    def _tile_steps(tile: _Tile) -> dict[Axis, int]:
        """How many points of an axis a tile takes, other than that of its vectors."""
        if tile.row is None or tile.row is tile.tile:
            return {tile.tile: tile.points}
        return {tile.tile: tile.tile_size, tile.row: tile.row_count}

    def _tile_cost(self, side: int, tile: _Tile) -> float:
        """Cycles of the sums of one tile."""
        tuning = self.tuning
        if tile.words is not None:
            return self._matrix_cost(tile, tile.words)
        is_dense = tile.packed or self._coefficients(side, tile.vector) <= {0, 1}
        halves = 2 if self._is_across_lines(side, tile) and self._is_near(tile) else 1
        loads = tile.vectors * (halves if is_dense else tuning.strided_load)
        sums = tile.vectors * tile.points
        step = max(sums / tuning.issued, (loads + tile.points) / tuning.issued, tuning.latency)
        loading = loads * self.machine.vector_bytes / tuning.near_cache_bytes
        step = max(step, loading) + tuning.loading_share * loading + tuning.step_overhead
        step *= self._walking(side, tile)
        rows = self._tile_steps(tile)[tile.tile]
        if rows > tuning.aliased_rows and self._is_aliased(1 - side, tile.tile):
            step *= tuning.aliased_penalty if rows <= 2 * tuning.aliased_rows else tuning.lost_penalty
        rounds = -(-self.steps // tile.steps_at_once) if tile.steps_at_once else 1
        return self.steps * step + (self._finishing(tile) + tuning.tile_overhead) * rounds

    def _matrix_cost(self, tile: _Tile, words: MatrixSteps) -> float:
        """The same in tile registers."""
        tuning, rows, columns = self.tuning, -(-tile.tile_size // ROWS), tile.vectors
        loads = tuning.tile_load * (rows + columns)
        step = max(tuning.tile_product * rows * columns, loads) + tuning.step_overhead
        finishing = tile.tile_size * columns * tuning.tile_store
        distance = 0 if tile.packed else max(self._coefficients(self._side(tile), words.axis)) * 4
        is_page = distance >= tuning.page_bytes
        penalty = tuning.lost_penalty if is_page and distance % tuning.page_bytes == 0 else tuning.far_penalty
        walking = penalty if is_page else tuning.prefetched_penalty if distance > tuning.near_bytes else 1
        return self.steps // words.depth * step * walking + finishing + tuning.tile_overhead

    def _packing(self, side: int, tile: _Tile) -> float:
        """Cycles for copying the factor of the vector axis."""
        elements = self.steps * math.prod(axis.size for axis in self.axes if axis in self.sides[side])
        return elements * (self.tuning.packing if self._has_vectors(side, tile.vector) else self.tuning.transposing)

    def _finishing(self, tile: _Tile) -> float:
        """Cycles for storing a tile."""
        if tile.turned:
            return tile.vectors * tile.row_count * tile.lanes * (math.log2(tile.lanes) + 1)
        lane_by_lane = self.tuning.scattered_store * tile.lanes
        return tile.vectors * tile.points * (1 if self._is_along(tile.vector) else lane_by_lane)

    def kernel(self, tile: _Tile) -> ContractionKernel:
        """The loops around a tile."""
        side = self._side(tile)
        own, other = self.sides[side], self.sides[1 - side]
        along = [axis for axis in self.axes if axis in own and axis not in other and axis is not tile.vector]
        across = [axis for axis in self.axes if axis in other and axis not in own and axis is not tile.tile]
        batch = [axis for axis in self.axes if (axis in own) == (axis in other)]
        along, across = [*along, tile.vector], [*across, tile.tile]
        steps = dict.fromkeys(self.axes, 1) | {tile.vector: tile.lanes * tile.vectors} | self._tile_steps(tile)
        keeps_tiles = self._keeps_tiles(tile)
        first, second = (across, along) if keeps_tiles else (along, across)
        near, rows, parts = self._cuts(tile, batch, first, second, steps)
        waits_for_memory = tile.steps_at_once > 0 and tile.tile.size < self.tuning.rows_of_tiles
        panel = self._panel(tile, near) if tile.packed else None
        far, is_far_ahead = self._tiles_ahead(1 - side, tile)
        next_strip = self._next_strip(tile, across)
        stores, fold = self.stores, self.fold
        if panel is not None:
            stores, fold = self._reading(panel)
        return ContractionKernel(
            stores=stores,
            fold=fold,
            batch=tuple(batch),
            across=tuple(across),
            along=tuple(along),
            blocks=(*((axis, 1) for axis in batch), *near, *rows, *parts),
            vector=tile.vector,
            lanes=tile.lanes,
            vectors=tile.vectors,
            tile=tile.tile,
            tile_size=tile.tile_size,
            row=tile.row,
            row_count=tile.row_count,
            turned=tile.turned,
            keeps_tiles=keeps_tiles,
            far=far,
            far_ahead=is_far_ahead,
            far_vectors=() if waits_for_memory else self._vectors_ahead(tile, panel),
            strip_ahead=not tile.steps_at_once and not keeps_tiles and self._has_strip_ahead(tile),
            next_tile=() if tile.steps_at_once else self._next_tile(1 - side, tile.tile),
            next_block=() if next_strip else self._next_block(tile, along, across, dict(near)),
            next_strip=next_strip,
            panel=panel,
            words=tile.words,
            steps_at_once=tile.steps_at_once,
            by_rounds=tile.by_rounds,
            serial=self.points * self.steps < self.tuning.serial_work,
            reads=read_by(self.stores),  # the panel is nobody else's
        )

    def _panel_parts(self, tile: _Tile, along: Sequence[Axis], steps: Mapping[Axis, int]) -> int:
        """In how many parts many threads had best go through the vector side, each of which copies the parts that its
        work items are of: the more there are, the less it copies, and the more often the other side is read."""
        tuning, side = self.tuning, self._side(tile)
        threads, packing = tuning.many_threads, self._packing(side, tile)
        reading = self._side_bytes(1 - side) / tuning.far_cache_bytes
        strips = -(-tile.vector.size // steps[tile.vector])
        if self.steps <= tuning.short_sums:
            strips = max(tile.vector.size * self.fold.type.bits // 8 // tuning.page_bytes, 1)
        strips *= math.prod(-(-axis.size // steps[axis]) for axis in along if axis is not tile.vector)

        def cycles(parts: int) -> float:
            return packing * min(1 / parts + 1 / threads, 1) + reading * max(parts, 1) / threads

        return min(range(1, max(min(strips, tuning.items), 1) + 1), key=cycles)

    def _runs(self, tile: _Tile) -> int:
        """Work items of tiles whose sums wait."""
        size, (least, most) = tile.vector.size * self.fold.type.bits // 8, self.tuning.run_bytes
        items = self.tuning.interrupted_items // (1 if tile.tile.size >= self.tuning.rows_of_tiles else 2)
        return max(min(items, size // least), size // most, 1)

    def _keeps_tiles(self, tile: _Tile) -> bool:
        """Whether a strip goes along all tiles before the next one does: tiles that are transposed store parts of
        lines, and those of the next tile then follow while they are near. What all tiles read is then read again and
        again; if that is done in parts, all strips are read as often."""
        side, near = self._side(tile), self._most_near_bytes()
        tiles, strips = self._side_bytes(1 - side), self._side_bytes(side)
        is_near = tiles <= self.tuning.tile_side_bytes and min(tiles, strips) <= near
        return tile.turned and not tile.packed and is_near

    def _cuts(
        self, tile: _Tile, batch: Sequence[Axis], first: Sequence[Axis], second: Sequence[Axis], steps: dict[Axis, int]
    ) -> tuple[_Blocks, _Blocks, _Blocks]:
        """Blocks of the side that is read again and again, small enough for a near cache; of the other side; and of the
        first side once more, if there are not work items enough."""
        is_tile_side = tile.tile in first
        points = math.prod(axis.size for axis in first)
        read = strip_bytes(self.fold, points) if tile.packed else self._side_bytes(self._side(tile) ^ is_tile_side)
        unevenness = self.tuning.block_unevenness
        parts_of_panel = self._panel_parts(tile, first, steps) if tile.packed else 1
        near = _shrunk(first, steps, unevenness, max(read / self._most_near_bytes(), parts_of_panel))
        is_apart = tile.steps_at_once > 0 and not tile.by_rounds
        if is_apart:
            near = _cut([(tile.vector, tile.vector.size)], steps, unevenness, self._runs(tile))
        work = self.points * self.steps // tile.lanes
        items = self.tuning.many_items if work >= self.tuning.large_work else self.tuning.items
        wanted = -(-items // math.prod([axis.size for axis in batch]))
        wanted = -(-wanted // math.prod([-(-axis.size // block) for axis, block in near]))
        wanted = 1 if is_apart else wanted
        if self._is_parted(tile, self._side(tile) ^ is_tile_side):
            parted = _cut(near, steps, unevenness, wanted)
            wanted //= math.prod([-(-axis.size // block) for axis, block in parted])
            return parted, _cut([(axis, axis.size) for axis in second], steps, unevenness, max(1, wanted)), []
        rows = _cut([(axis, axis.size) for axis in second], steps, unevenness, wanted)
        wanted //= math.prod([-(-axis.size // block) for axis, block in rows])
        cut = _cut(near, steps, unevenness, max(1, wanted))
        if tile.packed:
            return cut, rows, []
        return near, rows, [(axis, block) for axis, block in cut if block < dict(near)[axis]]

    def _is_parted(self, tile: _Tile, side: int) -> bool:
        """Whether each thread is to have a part of a factor of its own, all of whose sums it does, and goes through all
        of the other factor: where that one is smaller, so that less is read that another thread has written. Of short
        sums it is the results that take time, not what they are of."""
        size, other = self._side_bytes(side), self._side_bytes(1 - side)
        is_plain = not tile.packed and not tile.steps_at_once and tile.words is None
        is_plain &= self.steps > self.tuning.short_sums
        return is_plain and other <= self._most_near_bytes() and self.tuning.parted_times * other <= size

    def _most_near_bytes(self) -> int:
        """Bytes of the vector side that work items are to have at most."""
        product = self.fold.elements[0]
        is_of_words = isinstance(product, Binary) and product.operation in WORD_PRODUCTS
        return self.tuning.vector_side_bytes_of_words if is_of_words else self.tuning.vector_side_bytes

    def _far(self, side: int, axis: Axis, near_bytes: int | None = None) -> tuple[Element, ...]:
        """Loads of a factor in runs along an axis that are far apart from step to step."""
        if self._words[side] is not None:
            return ()
        near = self.tuning.near_bytes if near_bytes is None else near_bytes
        steps = [a for a in self.fold.axes if a.size > 1]
        return tuple(
            e
            for e in self._elements[side]
            if 0 < abs(e.address.coefficient(axis)) <= self.tuning.shuffled_stride
            and any(abs(e.address.coefficient(a)) * e.type.bits // 8 > near for a in steps)
        )

    def _tiles_ahead(self, side: int, tile: _Tile) -> tuple[tuple[Element, ...], bool]:
        """Loads along the tile axis that are asked for, and whether that is some steps ahead: where there are new lines
        at every step, too many for the nearest cache to keep those of a tile until the next one comes."""
        line = self.machine.cache_line
        is_far = all(distance > line for distance in self._distances(side) or [0])
        if is_far and self.steps * line > self.tuning.near_strip_bytes and not tile.steps_at_once:
            return self._far(side, tile.tile, line), True
        # Beside one vector every sum loads a scalar of its own: nothing else can be loaded while rows of them are done.
        is_full = tile.vectors == 1 and tile.row is not None
        return () if is_full or tile.steps_at_once else self._far(side, tile.tile), False

    def _vectors_ahead(self, tile: _Tile, panel: Panel | None) -> tuple[Element, ...]:
        """Loads along the vector axis that are asked for some steps ahead: all of them if the steps go through more of
        a strip than the nearest cache keeps, else those that are far apart from step to step."""
        side = self._side(tile)
        if self.steps == 1 or (panel is None and self._words[side] is not None):
            return ()
        if strip_bytes(self.fold, tile.lanes * tile.vectors) <= self.tuning.near_strip_bytes:
            return () if panel is not None else self._far(side, tile.vector)
        elements = self._elements[side] if panel is None else [panel.element]
        return tuple(e for e in elements if 0 < abs(e.address.coefficient(tile.vector)) <= self.tuning.shuffled_stride)

    def _has_strip_ahead(self, tile: _Tile) -> bool:
        """Whether vectors that are loaded where they lie had best be asked for while those of the strip before are
        summed up: the nearest cache keeps both, and at the first steps of a strip, too, nothing is waited for. Steps
        along rows of windows would ask for the same lines again and again."""
        is_plain = sum(axis.size > 1 for axis in self.fold.axes) == 1 and not tile.packed and tile.words is None
        return is_plain and strip_bytes(self.fold, tile.lanes * tile.vectors) <= self.tuning.near_strip_bytes

    def _next_tile(self, side: int, axis: Axis) -> tuple[Element, ...]:
        """Loads of a large factor that is one run of memory along the steps of the fold and then along an axis, as
        loads that move by a cache line with every step. Where points are more than a page apart processors see by
        themselves what comes next."""
        elements = self._elements[side]
        is_short = self.steps * self.fold.type.bits // 8 <= self.tuning.page_bytes
        word = self._words[side]
        if len(elements) != 1 or not is_short or self._bytes_of(elements) < self.tuning.far_tile_bytes:
            return ()
        (e,) = elements
        run = 1
        line = self.machine.cache_line * 8 // e.type.bits
        for inner in reversed(self.fold.axes):
            if inner.size > 1 and e.address.coefficient(inner) != run:
                return ()
            run *= inner.size
        if axis.size > 1 and not run <= e.address.coefficient(axis) <= run + line:
            return ()
        if word is not None:
            e, line = word.first, self.machine.cache_line // BYTES
        terms = tuple((t, c * line if t in self.fold.axes else c) for t, c in e.address.terms)
        return (Element(e.tensor, Affine(terms, e.address.constant), e.safe),)

    def _next_block(
        self, tile: _Tile, along: Sequence[Axis], across: Sequence[Axis], blocks: Mapping[Axis, int]
    ) -> tuple[Element, ...]:
        """Loads of a factor that is cut into blocks, each read by all tiles while it is in the second-level cache, as
        loads of the next block: a tile that has a part of all rows goes through as much of each strip."""
        if tile.packed or tile.steps_at_once or self._keeps_tiles(tile):
            return ()
        steps, elements = [a for a in self.fold.axes if a.size > 1], self._elements[self._side(tile)]
        cut = next((axis for axis in along if blocks[axis] < axis.size), None)
        tiles = -(-tile.tile.size // tile.tile_size)
        is_plain = len(steps) == 1 and len(across) == 1 and len(elements) == 1 and tile.words is None
        if cut is None or not is_plain or tiles == 1 or self._words[self._side(tile)] is not None:
            return ()
        (e,), (step,) = elements, steps
        distance = e.address.coefficient(step)
        a_step = -(-distance // tiles)
        a_point = -(-a_step * step.size // tile.tile_size)
        leaves_lines_out = cut is tile.vector and a_step * e.type.bits // 8 > self.machine.cache_line
        if distance < tile.lanes * tile.vectors or leaves_lines_out:
            return ()
        terms = tuple((t, a_step if t is step else c) for t, c in e.address.terms)
        further = e.address.constant + e.address.coefficient(cut) * blocks[cut]
        return (Element(e.tensor, Affine((*terms, (tile.tile, a_point)), further), e.safe),)

    def _next_strip(self, tile: _Tile, across: Sequence[Axis]) -> tuple[Element, ...]:
        """Loads of a factor that comes from beyond the second-level cache, in strips of as many runs as there are
        steps: more than processors follow. Where it is read by many tiles each asks for its part of a block."""
        side = self._side(tile)
        elements, line = self._elements[side], self.machine.cache_line
        tiles = math.prod(axis.size for axis in across) / tile.points
        is_plain = not tile.packed and not tile.steps_at_once and not tile.turned and tile.words is None
        is_far = all(d > self.tuning.near_bytes and d > line for d in self._distances(side) or [0])
        if not is_plain or tiles > self.tuning.asking_tiles or not is_far or self._words[side] is not None:
            return ()
        is_large = len(elements) == 1 and self._bytes_of(elements) >= self.tuning.far_tile_bytes
        return tuple(elements) if is_large and self._coefficients(side, tile.vector) == {1} else ()

    def _panel(self, tile: _Tile, blocks: Sequence[tuple[Axis, int]]) -> Panel:
        """The panel of a work item's part of the vector side."""
        side = self._side(tile)
        transposed = None if self._has_vectors(side, tile.vector) else self._contiguous_step(side)
        strip = tile.lanes * tile.vectors
        steps = tile.steps_at_once + tile.lanes if tile.by_rounds else self.steps
        return panel_of(self.factors[side], self.fold, tile.vector, strip, blocks, transposed, steps)

    def _reading(self, panel: Panel) -> tuple[tuple[ElementStore, ...], Fold]:
        """The stores and their fold with the panel in place of its source."""
        rewrite = substitute({panel.source: panel.element})
        fold = rewrite(self.fold)
        assert isinstance(fold, Fold)
        return tuple(ElementStore(s.tensor, s.address, rewrite(s.value)) for s in self.stores), fold

    def _side_bytes(self, side: int) -> int:
        """Bytes that a factor loads in all, at one point of the axes that both factors share."""
        shared = self.sides[0] & self.sides[1]
        return self._bytes_of(self._elements[side]) // max(1, math.prod(axis.size for axis in shared))

    @staticmethod
    def _bytes_of(elements: Sequence[Element]) -> int:
        """Bytes of all tensors that are read."""
        result = 0
        for tensor in {e.tensor for e in elements}:
            size = math.prod(n for n, stride in zip(tensor.sizes, tensor.strides, strict=True) if stride)
            result += size * tensor.type.bits // 8
        return result


def _elements(factor: Expression) -> list[Element]:
    """What a factor loads: a word that lies in memory as one element."""
    word = word_in_memory(factor)
    element = None if word is None else word.element
    return [e for e in walk(factor) if isinstance(e, Element)] if element is None else [element]


_Blocks = list[tuple[Axis, int]]


def _shrunk(axes: Sequence[Axis], steps: Mapping[Axis, int], unevenness: float, times: float) -> _Blocks:
    """Blocks that have together about so many times fewer points than the axes: the outermost axes are cut first."""
    result = []
    for axis in axes:
        block = _block(axis.size, steps[axis], unevenness, max(1, round(times)))
        times *= block / axis.size
        result.append((axis, block))
    return result


def _cut(blocks: _Blocks, steps: Mapping[Axis, int], unevenness: float, wanted: int) -> _Blocks:
    """The blocks cut, the outermost first, into so many smaller ones or more, if that is possible."""
    result = []
    for axis, size in blocks:
        block = _block(size, steps[axis], unevenness, wanted)
        wanted = max(1, wanted // -(-size // block))
        result.append((axis, block))
    return result


def _block(size: int, step: int, unevenness: float, wanted: int) -> int:
    """A multiple of ``step`` that cuts ``size`` into ``wanted`` blocks or somewhat more, all of about the same size:
    threads share out blocks, not points. They may together be longer by the part ``unevenness``."""
    tiles = -(-size // step)
    counts = range(max(1, tiles // wanted), 0, -1)
    even = (count for count in counts if -(-tiles // count) * count <= tiles * (1 + unevenness))
    return min(size, next(even) * step)
