"""Sums of products as loops: matrix products and convolutions.

One factor of the product moves along a *vector* axis, the other along a *tile* axis; both are taken in a tile of
registers: ``vectors`` registers of neighbouring points along the one times ``tile_size`` points along the other, all of
which add up their sums side by side; where the tile axis is short, ``row_count`` rows of such points. Every step of the
fold loads the registers of the one factor and the scalars of the other one once for the whole tile. The order of every
sum is the fold's own, whatever the tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from opendml.expression.affine import Element, loads_of
from opendml.expression.ir import Axis, Const, Fold, Tensor
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute
from opendml.loops.nest import ElementStore
from opendml.loops.rewriting import lowered_stores
from opendml.targets.cpu.coalescing import coalesce, has_parted_rows
from opendml.targets.cpu.contractions.beginnings import begun_with_terms
from opendml.targets.cpu.contractions.blocks import cuts, keeps_tiles
from opendml.targets.cpu.contractions.even_shares import evened
from opendml.targets.cpu.contractions.matrix_tiles import MatrixSteps
from opendml.targets.cpu.contractions.parts import steps_of_parts
from opendml.targets.cpu.contractions.prefetches import (
    are_results_far,
    asks_by_strips,
    next_block,
    next_strip,
    next_tile,
    tiles_ahead,
    vectors_ahead,
)
from opendml.targets.cpu.contractions.problem import Problem
from opendml.targets.cpu.contractions.tiles import Rest, Tile, cheapest_tile, has_tiles, last_vectors
from opendml.targets.cpu.contractions.windows import windows_of
from opendml.targets.cpu.panels import Panel, panel_of
from opendml.targets.cpu.schedule import read_by
from opendml.targets.cpu.target import CpuTarget


@dataclass(frozen=True, slots=True, eq=False)
class ContractionKernel:
    """A Compute of one sum of products with its loops chosen.

    A work item has loops over the axes ``batch`` (of both factors, or neither), ``across`` (of the factor of the tile
    axis, which is the last one) and ``along`` (of the factor of the vector axis, likewise). ``blocks`` says how work
    items are cut: an axis and how many of its points an item covers, slowest first; a second block of an axis is part
    of the first. The vector axis is walked ``vectors`` registers of ``lanes`` points at a time, the tile axis
    ``tile_size`` points at a time, and ``row``, another axis of the same side, ``row_count`` points at a time, if there
    is one: all of the tile axis is then taken at once. Where ``row`` is the tile axis itself, ``row_count`` times
    ``tile_size`` points of it are taken at once. ``rest`` are the narrower tiles of the points behind the last whole
    one; without them that is moved back to end with the axis. ``redoes`` says that last rows, and a last strip, are
    moved back too, where they are narrower else. ``turned`` says that the outputs lie next to each other along the tile
    axis instead of the vector axis: tiles are transposed in registers before they are stored. ``keeps_tiles`` says that
    the loops ``along`` are around those ``across``, and not inside of them. ``far`` are loads along the tile axis, and
    ``far_vectors`` loads along the vector axis, whose places are far apart from step to step of the fold, so that
    processors do not see by themselves what comes next; ``far_ahead`` says that the former are asked for some steps
    ahead, not a tile ahead, which would be too early, and ``by_strips`` that the latter are asked for a strip ahead,
    not some steps, of which a short sum would go through too few. ``next_tile`` are loads along the tile axis whose
    points are one run of memory, in order, for all steps and then for the next tile: with every step they move on by a
    cache line. ``next_block`` are loads along the vector axis, of the block of its side that the next work items read:
    each tile asks for its part of that. ``next_strip`` are loads along the vector axis of which each tile asks for
    those of the next strip, as there are few tiles to do so. ``results_ahead`` says that what tiles store, and what is
    made of their sums reads, is asked for while the tile before is done. ``panel`` is the factor of the vector axis
    laid out anew, if it is. ``steps_at_once`` are the steps after which the sums of a tile wait in memory until those
    of all others of the work item have come as far, so that what the steps load is read in long runs; 0: they never
    wait. ``by_rounds`` says that they wait for those of all work items of the thread, whose steps then read what is
    near. ``outer_at_once`` are, where the fold has several axes, the steps along its outermost one after which the sums
    of a tile wait for those of all others of the work item: what several tiles load then stays in the nearest cache; 0:
    they do not. ``words`` says how the sums of a tile are done in the processor's tile registers, if they are: its rows
    are the points along the tile axis, of ``row_count`` rows, its columns those along the vector axis; with a
    ``row_pitch`` a register has several rows, so many points of the tile axis apart, and what is between them.
    ``turns_loads``
    says that the factor of the vector axis lies along the steps of the fold, and that squares of it are transposed in
    registers as they are loaded.
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
    rest: Rest | None
    redoes: bool
    turned: bool
    keeps_tiles: bool
    far: tuple[Element, ...]
    far_ahead: bool
    far_vectors: tuple[Element, ...]
    by_strips: bool
    next_tile: tuple[Element, ...]
    next_block: tuple[Element, ...]
    next_strip: tuple[Element, ...]
    results_ahead: bool
    panel: Panel | None
    words: MatrixSteps | None
    row_pitch: int
    turns_loads: bool
    steps_at_once: int
    by_rounds: bool
    outer_at_once: int
    serial: bool
    reads: frozenset[Tensor]

    @property
    def loops(self) -> tuple[Axis, ...]:
        """All axes from the outermost to the innermost loop of a work item."""
        sides = (self.along, self.across) if self.keeps_tiles else (self.across, self.along)
        return (*self.batch, *sides[0], *sides[1])

    @property
    def has_filling_tiles(self) -> bool:
        """Whether the first tiles of a panel fill it while they are summed up, not a loop of its own before: where the
        panel is filled in the order of their steps."""
        is_whole = self.words is None and not (self.steps_at_once or self.keeps_tiles or self.row or self.rest)
        is_copied = self.panel is not None and self.panel.transposed is None and len(self.across) == 1
        return is_whole and is_copied and sum(axis.size > 1 for axis in self.fold.axes) == 1

    @property
    def steps(self) -> int:
        """Steps of the fold."""
        return self.fold.steps

    @property
    def last_step(self) -> Axis:
        """The axis along which the next step of the sums is."""
        return next(axis for axis in reversed(self.fold.axes) if axis.size > 1)

    @property
    def outer_step(self) -> Axis:
        """The axis of the fold whose steps have all others in them."""
        return next(axis for axis in self.fold.axes if axis.size > 1)

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
    def tile_steps(self) -> dict[Axis, int]:
        """Points of each axis that a whole tile takes."""
        steps = dict.fromkeys(self.loops, 1) | {self.vector: self.strip, self.tile: self.tile_size}
        if self.row is not None:
            steps[self.row] *= self.row_count
        return steps

    @property
    def waiting_sizes(self) -> tuple[int, int]:
        """Points along the tile axis and the vector axis of a work item's sums, in whole tiles."""
        blocks = {axis: axis.size for axis in self.loops} if self.by_rounds else dict(self.blocks)
        rows, columns = -(-blocks[self.tile] // self.tile_size), -(-blocks[self.vector] // self.strip)
        return rows * self.tile_size, columns * self.strip

    @property
    def last_vectors(self) -> int:
        """Registers along the vector axis of the last strip."""
        return self.vectors if self.redoes else last_vectors(self.vector.size, self.lanes, self.vectors)


def schedule_contraction(compute: Compute, target: CpuTarget) -> ContractionKernel | None:
    """Loops for a sum of products in registers; None if the statement is something else."""
    problem = _problem(compute, target)
    tile = None if problem is None else cheapest_tile(problem)
    return None if problem is None or tile is None else _kernel(problem, tile)


def is_contraction(compute: Compute, target: CpuTarget) -> bool:
    """Whether there are such loops: sooner known than which of them are best."""
    problem = _problem(compute, target)
    return problem is not None and has_tiles(problem)


def _problem(compute: Compute, target: CpuTarget) -> Problem | None:
    """The sum of products that a statement is, if it is one."""
    if not any(isinstance(e, Fold) and e.contract and e.partials == 1 for s in compute.stores for e in walk(s.value)):
        return None
    stores = lowered_stores(compute.stores)
    axes = [axis for axis in compute.axes if axis.size > 1]
    axes.sort(key=lambda axis: -abs(stores[0].address.coefficient(axis)))
    axes, stores = coalesce(_rows_together(axes, stores), stores, parts_rows=True)
    fold = _only_fold(stores)
    return None if fold is None or not _is_plain(stores) else Problem(stores, fold, axes, target)


def _only_fold(stores: Sequence[ElementStore]) -> Fold | None:
    """The fold of all stores, if it is one sum of products from a constant on, without conditions that matter."""
    folds = {e for store in stores for e in walk(store.value) if isinstance(e, Fold)}
    if len(folds) != 1:
        return None
    (fold,) = folds
    is_sum = fold.contract and fold.partials == 1 and isinstance(fold.initial[0], Const)
    is_sum &= fold.where is None or windows_of(fold) is not None
    everywhere = all(any(e == fold for e in walk(store.value)) for store in stores)
    return fold if is_sum and everywhere else None


def _rows_together(axes: list[Axis], stores: Sequence[ElementStore]) -> list[Axis]:
    """The axes with that of rows beside that along them, where rows with margins are apart in what is stored alone."""
    margins = stores[0].margins
    if margins is None or margins.along not in axes or not has_parted_rows(stores[0]):
        return axes
    along = margins.along
    loads = [e.address for e in loads_of(*(store.value for store in stores))]
    steps = [(a.coefficient(along) * along.size, a) for a in loads]
    rows = [axis for axis in axes if all(step == a.coefficient(axis) for step, a in steps) and any(s for s, _ in steps)]
    others = [axis for axis in axes if axis not in (*rows[:1], along)]
    return [*others, *rows[:1], along]


def _is_plain(stores: Sequence[ElementStore]) -> bool:
    """Whether all places are sums of axes, but for rows with margins, and all loads may be done in any case."""
    is_safe = all(e.safe and e.address.is_pure for e in loads_of(*(store.value for store in stores)))
    return is_safe and all(store.address.is_pure or store.margins is not None for store in stores)


def _kernel(problem: Problem, tile: Tile) -> ContractionKernel:
    """The loops around a tile."""
    side = problem.side(tile.vector)
    own, other = problem.sides[side], problem.sides[1 - side]
    along = [axis for axis in problem.axes if axis in own and axis not in other and axis is not tile.vector]
    across = [axis for axis in problem.axes if axis in other and axis not in own and axis is not tile.tile]
    batch = [axis for axis in problem.axes if (axis in own) == (axis in other)]
    along, across = [*along, tile.vector], [*across, tile.tile]
    steps = dict.fromkeys(problem.axes, 1) | {tile.vector: tile.lanes * tile.vectors} | tile.steps
    if tile.rest is not None and tile.rest.row is not None:
        steps[tile.rest.row] = tile.rest.rows
    tiles_first = keeps_tiles(problem, tile)
    first, second = (across, along) if tiles_first else (along, across)
    found = cuts(problem, tile, batch, first, second, steps)
    near, rows, parts = evened(problem, tile, batch, found, steps, keeps_near=tile.packed)
    waits_for_memory = tile.steps_at_once > 0 and tile.tile.size < problem.tuning.rows_of_tiles
    waits_for_memory &= problem.bytes_of(problem.elements[side]) <= problem.tuning.asked_runs_bytes
    panel = _panel(problem, tile, near) if tile.packed else None
    far, is_far_ahead = tiles_ahead(problem, 1 - side, tile)
    strips = next_strip(problem, tile)
    stores, fold = problem.stores, problem.fold
    if panel is not None:
        stores, fold = _reading(problem, panel)
    blocks = (*((axis, 1) for axis in batch), *near, *rows, *parts)
    outer_at_once = steps_of_parts(problem, tile, dict(blocks), across)
    if tile.words is None and not tile.steps_at_once and not outer_at_once:
        stores, fold = begun_with_terms(stores, fold, {axis for axis in tile.steps if axis is not tile.vector})
    return ContractionKernel(
        stores=stores,
        fold=fold,
        batch=tuple(batch),
        across=tuple(across),
        along=tuple(along),
        blocks=blocks,
        vector=tile.vector,
        lanes=tile.lanes,
        vectors=tile.vectors,
        tile=tile.tile,
        tile_size=tile.tile_size,
        row=tile.row,
        row_count=tile.row_count,
        rest=tile.rest,
        redoes=_redoes(problem, tile),
        turned=tile.turned,
        keeps_tiles=tiles_first,
        far=far,
        far_ahead=is_far_ahead,
        far_vectors=() if waits_for_memory else vectors_ahead(problem, tile, panel),
        by_strips=not tile.steps_at_once and not tiles_first and asks_by_strips(problem, tile),
        next_tile=() if tile.steps_at_once else next_tile(problem, 1 - side, tile.tile),
        next_block=() if strips else next_block(problem, tile, along, across, dict(near)),
        next_strip=strips,
        results_ahead=are_results_far(problem, tile),
        panel=panel,
        words=tile.words,
        row_pitch=tile.row_pitch,
        turns_loads=tile.turns_loads,
        steps_at_once=tile.steps_at_once,
        by_rounds=tile.by_rounds,
        outer_at_once=outer_at_once,
        serial=problem.points * problem.steps < problem.tuning.serial_work,
        reads=read_by(problem.stores),  # the panel is nobody else's
    )


def _redoes(problem: Problem, tile: Tile) -> bool:
    """Whether the last rows, and the last strip, are done as all others are, for which some of their points are done
    once more: where that is so little that code of their own is not worth what LLVM takes for it."""
    tuning, strip = problem.tuning, tile.lanes * tile.vectors
    if tile.words is not None or tile.steps_at_once:
        return tile.row_pitch > 0
    axes = {tile.vector: strip} | ({} if tile.row is None or tile.row is tile.tile else {tile.row: tile.row_count})
    more = math.prod(-(-axis.size // count) * count / axis.size for axis, count in axes.items()) - 1
    if more <= tuning.hardly_redone:
        return True
    has_many_points = not tile.packed and tile.points >= tuning.fewest_redone
    work = more * problem.points * problem.steps
    return has_many_points and more <= tuning.redone_part and work <= tuning.redone_work * tile.lanes


def _panel(problem: Problem, tile: Tile, blocks: Sequence[tuple[Axis, int]]) -> Panel:
    """The panel of a work item's part of the vector side."""
    side = problem.side(tile.vector)
    transposed = None if problem.has_vectors(side, tile.vector) else problem.contiguous_step(side)
    strip = tile.lanes * tile.vectors
    steps = tile.steps_at_once + tile.lanes if tile.by_rounds else problem.steps
    return panel_of(problem.factors[side], problem.fold, tile.vector, strip, blocks, transposed, steps)


def _reading(problem: Problem, panel: Panel) -> tuple[tuple[ElementStore, ...], Fold]:
    """The stores and their fold with the panel in place of its source."""
    rewrite = substitute({panel.source: panel.element})
    fold = rewrite(problem.fold)
    assert isinstance(fold, Fold)
    return tuple(replace(s, value=rewrite(s.value)) for s in problem.stores), fold
