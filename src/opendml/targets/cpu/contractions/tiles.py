"""Tiles of registers for a sum of products: all choices, and what each of them costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from opendml.expression.affine import Element, bytes_between
from opendml.expression.ir import Axis, Binary
from opendml.targets.cpu.contractions.matrix_tiles import MatrixSteps, matrix_steps
from opendml.targets.cpu.contractions.problem import Problem
from opendml.targets.cpu.instructions.tiles import ROWS, WORDS
from opendml.targets.cpu.kernel_parts import work_of_values
from opendml.targets.cpu.panels import strip_bytes


class Rest(NamedTuple):
    """What points behind the last whole tile are done in: narrower tiles, of ``size`` points of ``rows`` rows."""

    size: int
    row: Axis | None = None
    rows: int = 1


class Tile(NamedTuple):
    """A choice of axes and of the numbers of points along them that are computed together; with ``words`` in tile
    registers, of which each goes on from one row of the tile axis to the next where ``row_pitch`` points of that are
    from row to row. Without a ``rest`` points behind the last whole tile are done with others before them once more.
    ``turns_loads``: what is loaded for the vectors lies along the steps, and is transposed in registers."""

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
    row_pitch: int = 0
    steps_at_once: int = 0
    by_rounds: bool = False
    rest: Rest | None = None
    turns_loads: bool = False

    @property
    def points(self) -> int:
        """Points along the tile axis and that of the rows."""
        return self.tile_size * self.row_count

    @property
    def steps(self) -> dict[Axis, int]:
        """How many points of an axis it takes, other than that of its vectors."""
        if self.row is None or self.row is self.tile:
            return {self.tile: self.points}
        return {self.tile: self.tile_size, self.row: self.row_count}


def cheapest_tile(problem: Problem) -> Tile | None:
    """The choice that costs least, of several the one whose points are nearest to each other in what they read; None if
    there is none."""
    choices = _Choices(problem)
    costs = choices.costs()
    least = min((cost for cost, _ in costs), default=0.0)
    return min((tile for cost, tile in costs if cost == least), key=choices.spacing, default=None)


def asks_for_next_strip(problem: Problem, tile: Tile) -> bool:
    """Whether each tile asks for all that the next strip of a factor from beyond the second-level cache loads: where
    strips are of as many runs as there are steps, more than processors follow. Where many tiles read it they do not."""
    side, tuning, line = problem.side(tile.vector), problem.tuning, problem.machine.cache_line
    is_plain = not (tile.packed or tile.steps_at_once or tile.turned or tile.words) and problem.words[side] is None
    if not is_plain or not are_few_tiles(problem, side, tile):
        return False
    is_far = all(d > tuning.near_bytes and d > line for d in problem.distances(side) or [0])
    elements = problem.elements[side]
    is_large = len(elements) == 1 and problem.bytes_of(elements) >= tuning.far_tile_bytes
    return is_far and is_large and problem.coefficients(side, tile.vector) == {1}


def are_few_tiles(problem: Problem, side: int, tile: Tile) -> bool:
    """Whether those that go through a strip of a side are few enough for each to ask."""
    tiles = problem.points_across[side] / tile.points
    return tiles <= problem.tuning.asking_tiles or are_asked_planes(problem, side, tile)


def are_asked_planes(problem: Problem, side: int, tile: Tile) -> bool:
    """Whether, if they are many, what they ask for is in planes, and no more than there is time for."""
    if not problem.has_planes[side]:
        return False
    tiles = problem.points_across[side] / tile.points
    return strip_bytes(problem.fold, tile.lanes * tile.vectors) * tiles <= problem.tuning.asked_planes_bytes


def has_tiles(problem: Problem) -> bool:
    """Whether there is a choice at all."""
    return any(True for _ in _Choices(problem).tiles())


def _even_sizes(size: int, fewest: int, most: int) -> Iterator[int]:
    """The sizes of the parts, as even as can be, if so many points are cut into ``fewest`` to ``most`` of them; in
    ascending order."""
    for part in range(-(-size // most), -(-size // fewest) + 1):
        count = max(-(-size // part), fewest)
        if -(-size // count) == part:
            yield part


def rows_together(points: int, pitch: int) -> int:
    """How many rows of so many points, ``pitch`` points apart, a tile register has."""
    return 1 + (ROWS - points) // pitch


def last_vectors(size: int, lanes: int, vectors: int) -> int:
    """How many registers the last strip of an axis takes if the others take ``vectors``."""
    return -(-(size % (lanes * vectors) or lanes * vectors) // lanes)


class _Loading(NamedTuple):
    """Where a tile loads from: how many loads a vector takes, the lines that scalars are in, how much longer steps take
    for that, whether each scalar delays one, and whether those of many rows get in one another's way."""

    loads: float
    lines: int
    walking: float
    is_delayed: bool
    is_aliased: bool


class _Choices:
    """The tiles that a sum of products may be done in."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.tuning = problem, problem.tuning
        self._lanes = problem.machine.lanes(problem.fold.type.bits)
        self.has_few_registers = problem.target.has_few_registers
        product = problem.fold.elements[0]
        operation = product.operation if isinstance(product, Binary) else ""
        self._has_sums_of_pairs = operation == "dot4_saturating"
        self._has_products_apart = operation == "dot2" or self._has_sums_of_pairs
        has_broadcasts = problem.machine.has("avx512f")
        self._loads_of_scalar = self.tuning.broadcast_loads if has_broadcasts else self.tuning.scalar_loads
        self._known_loading: dict[Any, _Loading] = {}

    def tiles(self) -> Iterator[Tile]:
        """All choices: of whole registers, and of half ones along axes that these divide, but whole ones do not; along
        any axes where there are no others. Where a large matrix is transposed as it is loaded for few rows nothing is
        as good: halves would be of rows, for scalars of that matrix from many places at each step."""
        has_whole = turns_loads = False
        for tile in self._tiles_of_lanes(self._lanes, self.problem.axes):
            has_whole, turns_loads = True, turns_loads or tile.turns_loads
            yield tile
        if not turns_loads and self.problem.machine.vector_bytes >= self.tuning.halved_registers:
            half = self._lanes // 2
            axes = [axis for axis in self.problem.axes if axis.size % self._lanes]
            yield from self._tiles_of_lanes(half, [axis for axis in axes if not has_whole or axis.size % half == 0])
        yield from self._matrix_tiles()

    def _tiles_of_lanes(self, width: int, axes: Sequence[Axis]) -> Iterator[Tile]:
        """Those with vectors along some axes."""
        for side, other in ((0, 1), (1, 0)):
            own = [axis for axis in axes if axis in self.problem.sides[side] and axis not in self.problem.sides[other]]
            across = [
                axis
                for axis in self.problem.axes
                if axis in self.problem.sides[other] and axis not in self.problem.sides[side]
            ]
            for vector in own:
                yield from self._turning_loads(side, vector, across, width)
            for vector, packed in itertools.product(own, (False, True)):
                if vector.size < width or not self.problem.is_readable(side, vector, packed):
                    continue
                for tile in across:
                    rows = [axis for axis in across if axis is not tile]
                    for one in self._tiles_of(vector, tile, width, packed):
                        yield one
                        yield from self._in_rows(one, rows)
                    yield from self._with_rests(side, self._tiles_of(vector, tile, width, packed), rows)
                    yield from self._in_rounds(self._tiles_of(vector, tile, width, packed))
                if not packed and len(own) == 1 and len(across) <= 1:
                    yield from self._interrupted(side, vector, across[0] if across else Axis("row", 1), width)

    def _in_rows(self, tile: Tile, rows: Iterable[Axis]) -> Iterator[Tile]:
        """The tile in several rows, where one has few points: rows of another axis, or, where tiles are transposed
        and so no longer than a vector, of points of the same axis."""
        most = min(self._most_sums(tile.vectors), self.tuning.most_points) // tile.tile_size
        if tile.tile_size == tile.tile.size:
            for row in rows:
                for count in range(2, min(most, row.size) + 1):
                    yield tile._replace(row=row, row_count=count)
        elif tile.turned:
            for count in range(2, min(most, tile.tile.size // tile.tile_size) + 1):
                yield tile._replace(row=tile.tile, row_count=count)

    def _with_rests(self, side: int, tiles: Iterable[Tile], rows: Sequence[Axis]) -> Iterator[Tile]:
        """The widest of the tiles, each with narrower ones for the points that are left behind whole ones: narrower
        tiles of which no points were left have fewer sums side by side, where there are few registers too few. Points
        that are left in several rows of windows are as many as those of a tile."""
        for vectors, group in itertools.groupby(tiles, lambda tile: tile.vectors):
            one = next(group)
            most = self._most_points_of(one.tile, vectors, one.lanes, one.turned)
            left = one.tile.size % most
            if not left:
                continue
            yield one._replace(tile_size=most, rest=Rest(left))
            for size, row in itertools.product(range(1, most // 2 + 1), self._rows_of_rest(side, one.tile, most, rows)):
                count = min(self._most_sums(vectors) // size, row.size)
                if left % size == 0 and count > 1:
                    yield one._replace(tile_size=most, rest=Rest(size, row, count))

    def _rows_of_rest(self, side: int, tile: Axis, most: int, rows: Sequence[Axis]) -> Sequence[Axis]:
        """Axes of which several rows have points that are left. Where steps do not go along lines each row would read a
        line of its own at every step; rows of a single whole tile are better done in tiles of several rows."""
        is_along_lines = max(self.problem.distances(1 - side), default=0) < self.problem.machine.cache_line
        is_better = tile.size >= 2 * most or self._has_products_apart
        return rows if is_along_lines and is_better else ()

    def _most_sums(self, vectors: int) -> int:
        """Points of a tile of which the sums stay in registers, beside what a step loads, a product that another
        instruction adds up, the last one of a scalar in the register of that, and the ones that sums of pairs are
        multiplied by."""
        others = vectors + 1 + (self._has_products_apart and vectors > 1) + self._has_sums_of_pairs
        return (self.problem.machine.vector_registers - others) // vectors

    def _interrupted(self, side: int, vector: Axis, tile: Axis, width: int) -> Iterator[Tile]:
        """Tiles of a few rows whose sums wait in memory, where the vectors of each step are on pages of their own: runs
        of all tiles together are longer than those of one."""
        count = self._waiting_steps(tile)
        if self._may_wait(side, vector, tile) and not self._is_filled(side, vector, tile):
            for one in self._tiles_of(vector, tile, width, packed=False):
                yield one._replace(steps_at_once=count)

    def _waiting_steps(self, tile: Axis) -> int:
        """Steps after which sums wait where the vectors of each are on pages of their own."""
        return self.tuning.steps_at_once if tile.size >= self.tuning.rows_of_tiles else self.tuning.steps_of_few_rows

    def _may_wait(self, side: int, vector: Axis, tile: Axis) -> bool:
        """Whether there are few rows of long sums, and the vectors of each step are on pages of their own."""
        tuning, steps = self.tuning, [axis for axis in self.problem.fold.axes if axis.size > 1]
        is_plain = (
            len(steps) == 1 and self.problem.words[side] is None and self.problem.coefficients(side, vector) == {1}
        )
        is_long = self.problem.steps > tuning.fewest_interrupted * self._waiting_steps(tile)
        row = vector.size * self.problem.fold.type.bits // 8
        is_far = row >= tuning.page_bytes and min(self.problem.distances(side), default=0) >= tuning.page_bytes
        is_far &= tile.size > 1 or self.problem.bytes_of(self.problem.elements[side]) >= tuning.prefetched_bytes
        return (
            is_plain and is_long and is_far and tile.size <= tuning.interrupted_rows and self.problem.is_along(vector)
        )

    def _is_filled(self, side: int, vector: Axis, tile: Axis) -> bool:
        """Whether, instead, the first tiles fill a panel while they are summed up: where registers are large, rows
        enough read it again, and what is copied, from whole pages apart, comes neither from a near cache nor from
        memory."""
        tuning, problem, machine = self.tuning, self.problem, self.problem.machine
        has_registers = machine.vector_registers * machine.vector_bytes >= tuning.filling.registers
        if not has_registers or not tuning.filling.rows <= tile.size <= tuning.interrupted_rows:
            return False
        is_plain = isinstance(problem.factors[side], Element)
        is_plain &= all(distance % tuning.page_bytes == 0 for distance in problem.distances(side))
        is_cached = problem.bytes_of(problem.elements[side]) <= tuning.filling.bytes
        is_far = problem.steps >= tuning.filling.steps
        return is_plain and is_cached and is_far and self._may_wait(side, vector, tile)

    def _turning_loads(self, side: int, vector: Axis, across: Sequence[Axis], width: int) -> Iterator[Tile]:
        """Tiles of all of a few rows that transpose in registers what they load: a copy of it would be read once."""
        problem, steps = self.problem, self.problem.steps
        step = None if problem.has_vectors(side, vector) else problem.contiguous_step(side)
        is_plain = isinstance(problem.factors[side], Element) and problem.is_along(vector)
        if step is None or step.size != steps or len(across) != 1 or not is_plain:
            return
        if steps % width or vector.size < width or (self.has_few_registers and steps < self.tuning.turned_steps):
            return
        (tile,) = across
        if tile.size <= problem.machine.vector_registers - width - 2:
            yield Tile(vector, width, 1, tile, tile.size, turned=False, packed=False, turns_loads=True)

    def _in_rounds(self, tiles: Iterable[Tile]) -> Iterator[Tile]:
        """Tiles whose sums wait in memory until those of all others of a thread have come as far."""
        for tile in tiles if self.problem.is_deep else ():
            if self.problem.is_along(tile.vector):
                yield tile._replace(steps_at_once=self.tuning.steps_of_deep_sums, by_rounds=True)

    def _most_points_of(self, tile: Axis, vectors: int, lanes: int, turned: bool) -> int:
        """Points of a row of a tile at most."""
        most = min(self._most_sums(vectors), self.tuning.most_tile, tile.size)
        return min(most, lanes) if turned else most

    def _matrix_tiles(self) -> Iterator[Tile]:
        """Choices in tile registers."""
        for side, (vector, tile) in itertools.product((0, 1), itertools.permutations(self.problem.axes, 2)):
            is_own = vector in self.problem.sides[side] and vector not in self.problem.sides[1 - side]
            is_across = tile in self.problem.sides[1 - side] and tile not in self.problem.sides[side]
            turned = not self.problem.is_along(vector)
            if not is_own or not is_across or (turned and not self.problem.is_along(tile)):
                continue
            words = matrix_steps(self.problem, side, tile)
            for packed in (False, True) if words is not None else ():
                lanes = min(WORDS, vector.size)
                vectors = min(2, vector.size // lanes)
                is_loadable = self.problem.coefficients(side, vector) == {1} if not packed else lanes == WORDS
                if is_loadable and self.problem.is_readable(side, vector, packed):
                    size = _rows_of_tiles(tile, turned)
                    one = Tile(vector, lanes, vectors, tile, size, turned, packed, words=words)
                    yield one
                    yield from self._of_two_rows(side, one)

    def _of_two_rows(self, side: int, tile: Tile) -> Iterator[Tile]:
        """A tile in tile registers of which another row has as many points: more sums that need not wait for one
        another."""
        for row in self.problem.axes if tile.tile_size <= ROWS else ():
            if row is not tile.tile and row.size > 1 and row in self.problem.sides[1 - side] - self.problem.sides[side]:
                yield tile._replace(row=row, row_count=2)
                yield from self._of_joined_rows(1 - side, tile, row)

    def _of_joined_rows(self, side: int, tile: Tile, row: Axis) -> Iterator[Tile]:
        """The same of rows so short that a tile register has several, with the points between them, which are no
        more than what is behind each row in memory: a part of the sums is nobody's."""
        steps = {(e.address.coefficient(row), e.address.coefficient(tile.tile)) for e in self.problem.elements[side]}
        (apart, step), *others = steps
        if others or tile.turned or tile.tile_size < tile.tile.size or apart % step or apart < step * tile.tile_size:
            return
        together = rows_together(tile.tile_size, apart // step)
        for count in (together, 2 * together) if together > 1 else ():
            if count <= row.size:
                yield tile._replace(row=row, row_count=count, row_pitch=apart // step)

    def _tiles_of(self, vector: Axis, tile: Axis, lanes: int, packed: bool) -> Iterator[Tile]:
        tuning = self.tuning
        turned = not self.problem.is_along(vector) and self.problem.is_along(tile)
        for vectors in range(1, min(tuning.most_vectors, vector.size // lanes) + 1):
            if packed and strip_bytes(self.problem.fold, vectors * lanes) > tuning.most_panel_bytes:
                return
            most = self._most_points_of(tile, vectors, lanes, turned)
            fewest = -(-tile.size // most)
            for size in _even_sizes(tile.size, fewest, min(tile.size, tuning.smaller_tiles * fewest)):
                yield Tile(vector, lanes, vectors, tile, size, turned, packed)

    def costs(self) -> list[tuple[float, Tile]]:
        """All choices, and what they cost. Tiles that are turned, of vectors that are packed, are compared with what is
        best without: it matters whether that packs its vectors, too."""
        costs = [(self.cost(tile), tile) for tile in self.tiles()]
        others = [(cost, tile.packed) for cost, tile in costs if not (tile.turned and tile.packed)]
        are_packed = bool(others) and min(others)[1]
        penalty = self.tuning.turned_penalty if are_packed else self.tuning.repacked_penalty
        return [(cost * penalty if tile.turned and tile.packed else cost, tile) for cost, tile in costs]

    def cost(self, tile: Tile) -> float:
        """Cycles of all sums, by and large."""
        side = self.problem.side(tile.vector)
        strips = -(-tile.vector.size // (tile.lanes * tile.vectors))
        last = last_vectors(tile.vector.size, tile.lanes, tile.vectors)

        def row_cost(tile: Tile) -> float:
            strip = self._tile_cost(side, tile)
            is_whole = last == tile.vectors
            return (strips - 1) * strip + (strip if is_whole else self._tile_cost(side, tile._replace(vectors=last)))

        steps = tile.steps
        others = self.problem.points // math.prod(axis.size for axis in (tile.vector, *steps))
        if tile.rest is not None:
            size, row, rows = tile.rest
            whole, left = divmod(tile.tile.size, tile.tile_size)
            each = 1.0 if row is None else -(-row.size // rows) / row.size
            rest = row_cost(tile._replace(tile_size=size, row=row, row_count=rows))
            cycles = others * (whole * row_cost(tile) + left // size * each * rest)
            cycles = cycles * (1 + self.tuning.worth_code) + self.tuning.cycles_worth_code
        else:
            # Rows that are left are a tile of their own, others are done twice.
            is_whole = {tile.tile, tile.row} if tile.row_pitch else {tile.tile}
            counts = (-(-axis.size // n) if axis in is_whole else axis.size / n for axis, n in steps.items())
            cycles = others * math.prod(counts) * row_cost(tile)
        if tile.turns_loads:
            cycles += self.problem.packing(side, tile.vector) * self.tuning.turned_loads_share
        return cycles + (self._packing(side, tile) if tile.packed else 0)

    def spacing(self, tile: Tile) -> int:
        """Elements between neighbours along the tile axis in what they read."""
        side = 1 - self.problem.side(tile.vector)
        return max(map(abs, self.problem.coefficients(side, tile.tile)), default=0)

    def _packing(self, side: int, tile: Tile) -> float:
        """Cycles for copying the factor of the vector axis, by a loop of its own or by the first tiles."""
        cycles = self.problem.packing(side, tile.vector)
        is_filled = tile.row is None and tile.rest is None and self._is_filled(side, tile.vector, tile.tile)
        return cycles * self.tuning.filling.share if is_filled else cycles

    def _walking(self, side: int, tile: Tile) -> float:
        """How much longer steps take for where their loads are."""
        result, tuning = 1.0, self.tuning
        if tile.steps_at_once:
            return tuning.prefetched_penalty
        if self.problem.is_deep:
            return tuning.lost_penalty
        if not tile.packed and any(d > tuning.near_bytes for d in self.problem.distances(side)):
            result = self._apart(side, tile)
        if self._is_across_lines(side, tile) and not self._is_near(tile):
            result = max(result, tuning.far_penalty)
        if tile.tile_size > 1 and self._is_scattered(1 - side, tile.tile):
            result *= tuning.far_penalty
        scalars = max(self.problem.distances(1 - side), default=0)
        if scalars >= tuning.page_bytes:
            return result * (tuning.far_penalty if scalars % tuning.page_bytes else tuning.lost_penalty)
        if scalars < tuning.near_bytes:
            return result
        return result * tuning.asked_scalars_penalty

    def _apart(self, side: int, tile: Tile) -> float:
        """How much longer steps take whose vectors are far apart. Where there are few registers a step of a tile is
        long enough for what the next ones load, from no more pages than a processor knows the addresses of."""
        tuning, distances = self.tuning, self.problem.distances(side)
        if self.problem.steps > tuning.many_steps or any(d % tuning.page_bytes == 0 for d in distances):
            return tuning.lost_penalty
        if self.has_few_registers and self.problem.steps <= tuning.short_sums:
            return tuning.prefetched_penalty if self._is_across_lines(side, tile) else 1.0
        if all(d <= tuning.page_bytes for d in distances):
            return tuning.prefetched_penalty
        return tuning.asked_strip_penalty if self._asks_for_planes(side, tile) else tuning.far_penalty

    def _asks_for_planes(self, side: int, tile: Tile) -> bool:
        return are_asked_planes(self.problem, side, tile) and asks_for_next_strip(self.problem, tile)

    def _is_across_lines(self, side: int, tile: Tile) -> bool:
        """Whether vectors begin anywhere in a line."""
        return not tile.packed and any(d % self._bytes_of_vector(tile) for d in self.problem.distances(side))

    def _is_near(self, tile: Tile) -> bool:
        """Whether what the vectors of a tile are loaded from stays in the nearest cache: steps along a row of windows
        read the same lines again, and a vector in two of them costs no more than two loads."""
        is_dense = self.problem.coefficients(self.problem.side(tile.vector), tile.vector) <= {0, 1}
        return is_dense and strip_bytes(self.problem.fold, tile.lanes * tile.vectors) <= self.tuning.near_strip_bytes

    def _is_scattered(self, side: int, axis: Axis) -> bool:
        """Whether neighbours along an axis are far apart, and no runs of memory either along the steps of the fold."""
        size = self.problem.fold.type.bits // 8
        if all(abs(step) * size <= self.tuning.near_bytes for step in self.problem.coefficients(side, axis)):
            return False
        run = 1
        for inner in reversed(self.problem.fold.axes):
            if inner.size > 1 and self.problem.coefficients(side, inner) != {run}:
                break
            run *= inner.size
        return run * size < self.problem.machine.cache_line

    def _is_aliased(self, side: int, axis: Axis) -> bool:
        distances = [step * self.problem.fold.type.bits // 8 for step in self.problem.coefficients(side, axis)]
        return any(distance and distance % self.tuning.page_bytes == 0 for distance in distances)

    def _tile_cost(self, side: int, tile: Tile) -> float:
        """Cycles of the sums of one tile. Loads that are transposed are then as near as those of a panel."""
        tuning, tile = self.tuning, tile._replace(packed=tile.packed or tile.turns_loads)
        if tile.words is not None:
            return self._matrix_cost(tile, tile.words)
        where = self._loading(side, tile)
        loads = tile.vectors * where.loads
        sums = tile.vectors * tile.points
        issued = self.problem.issued(tile.lanes)
        step = max(self._summing(sums, issued), (loads + tile.points * self._loads_of_scalar) / issued)
        loading = loads * self._bytes_of_vector(tile) / tuning.near_cache_bytes
        lines = where.lines * self.problem.machine.cache_line / tuning.near_cache_bytes
        step = max(step, loading + lines) + tuning.loading_share * loading + tuning.step_overhead
        if self._has_sums_of_pairs and tile.vectors == 1:
            step *= tuning.lone_vector_penalty
        step += tuning.far_scalar * (tile.points if where.is_delayed else 0)
        step *= where.walking
        rows = tile.points if tile.row is tile.tile else tile.tile_size
        if rows > tuning.aliased_rows and where.is_aliased:
            step *= tuning.aliased_penalty if rows <= 2 * tuning.aliased_rows else tuning.lost_penalty
        rounds = -(-self.problem.steps // tile.steps_at_once) if tile.steps_at_once else 1
        return self.problem.steps * step + (self._finishing(tile) + tuning.tile_overhead) * rounds + self._results(sums)

    def _loading(self, side: int, tile: Tile) -> _Loading:
        """Found once for all tiles that differ in no more than how many points they have."""
        strip, waits = tile.lanes * tile.vectors, tile.steps_at_once > 0
        asks = are_asked_planes(self.problem, side, tile)
        key = side, tile.vector, strip, tile.tile, tile.packed, tile.tile_size > 1, waits, asks
        found = self._known_loading.get(key)
        if found is None:
            is_dense = tile.packed or self.problem.coefficients(side, tile.vector) <= {0, 1}
            halves = 2 if self._is_across_lines(side, tile) and self._is_near(tile) else 1
            found = self._known_loading[key] = _Loading(
                halves if is_dense else self.tuning.strided_load,
                self._lines_of_scalars(1 - side),
                self._walking(side, tile),
                self._has_far_scalars(side, tile),
                self._is_aliased(1 - side, tile.tile),
            )
        return found

    def _bytes_of_vector(self, tile: Tile) -> int:
        return tile.lanes * self.problem.fold.type.bits // 8

    def _summing(self, sums: int, issued: int) -> float:
        """Cycles of a multiply-add of each of some sums, of which so many begin in one. Where there are few registers
        there are hardly more than begin while one is done: one that is late makes others late."""
        products = 2 if self._has_sums_of_pairs else 1
        throughput, latency = products * sums / issued, self.tuning.latency
        if not self.has_few_registers:
            return max(throughput, latency)
        return math.sqrt(math.hypot(throughput**2, latency**2))

    def _lines_of_scalars(self, side: int) -> int:
        """Lines that the scalars of a step are in, other than those of the step before, which are no longer near when
        the next tile wants its part of them. Beside the sums of many registers there is time for them."""
        line = self.problem.machine.cache_line
        far = [distance for distance in self.problem.distances(side) if distance >= line]
        is_far = self.problem.steps * line > self.tuning.near_strip_bytes
        return len(far) if is_far and self.has_few_registers else 0

    def _has_far_scalars(self, side: int, tile: Tile) -> bool:
        """Whether each scalar of a step delays it beside planes of several images that come from far, where there are
        registers enough to have fewer of them."""
        if self.has_few_registers or tile.tile.size < self.tuning.far_rows or self._asks_for_planes(side, tile):
            return False
        if self._has_far_planes(1 - side):
            return tile.packed
        line, size = self.problem.machine.cache_line, self.problem.fold.type.bits // 8
        is_apart = all(abs(step) * size >= line for step in self.problem.coefficients(1 - side, tile.tile))
        return is_apart and self._has_far_planes(side)

    def _has_far_planes(self, side: int) -> bool:
        """Whether a factor is of planes of several images, not of panels, and more than stays in a near cache."""
        own = self.problem.sides[side] - self.problem.sides[1 - side]
        panel = self.tuning.filter_panel_registers * self.problem.machine.vector_bytes
        are_planes = len(own) > 1 and all(d > panel for d in self.problem.distances(side) or [0])
        return are_planes and self.problem.bytes_of(self.problem.elements[side]) >= self.tuning.far_planes_bytes

    def _matrix_cost(self, tile: Tile, words: MatrixSteps) -> float:
        """The same in tile registers."""
        tuning, rows, columns = self.tuning, -(-tile.tile_size // ROWS) * tile.row_count, tile.vectors
        if tile.row_pitch:
            rows = tile.row_count // rows_together(tile.tile_size, tile.row_pitch)
        loads = tuning.tile_load * (rows + columns)
        step = max(tuning.tile_product * rows * columns, loads, tuning.tile_latency) + tuning.step_overhead
        finishing = tile.points * columns * (tuning.turned_tile_store if tile.turned else tuning.tile_store)
        distance = 0 if tile.packed else max(self.problem.coefficients(self.problem.side(tile.vector), words.axis)) * 4
        is_page = distance >= tuning.page_bytes
        penalty = tuning.lost_penalty if is_page and distance % tuning.page_bytes == 0 else tuning.far_penalty
        walking = penalty if is_page else tuning.prefetched_penalty if distance > tuning.near_bytes else 1
        rows_apart = max(bytes_between(e, tile.tile) for e in self.problem.elements[1 - self.problem.side(tile.vector)])
        walking *= tuning.far_penalty if rows_apart > tuning.page_bytes else 1
        return self.problem.steps // words.depth * step * walking + finishing + tuning.tile_overhead

    @cached_property
    def _work_of_results(self) -> int:
        return work_of_values([store.value for store in self.problem.stores], self.tuning)

    def _results(self, sums: int) -> float:
        """Cycles for what is made of a tile's sums, but for what is done while those of the next one are."""
        return max(0, sums * self._work_of_results - self.tuning.hidden_results) / self.tuning.results_issued

    def _finishing(self, tile: Tile) -> float:
        """Cycles for storing a tile."""
        if tile.turned:
            return tile.vectors * tile.row_count * tile.lanes * (math.log2(tile.lanes) + 1)
        lane_by_lane = self.tuning.scattered_store * tile.lanes
        return tile.vectors * tile.points * (1 if self.problem.is_along(tile.vector) else lane_by_lane)


def _rows_of_tiles(axis: Axis, turned: bool) -> int:
    """Points along an axis that are rows of two tile registers at most: as few as give no more tiles, but an even
    number, since bytes of two rows are stored together; or, where vectors are to go along them, whole ones of these."""
    if turned:
        return min(axis.size, ROWS) if axis.size < 2 * ROWS else 2 * ROWS
    rows = -(-axis.size // -(-axis.size // (2 * ROWS)))
    return min(rows + rows % 2, axis.size)
