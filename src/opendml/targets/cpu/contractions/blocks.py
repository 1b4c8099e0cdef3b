"""Blocks of a sum of products: how its axes are cut into work items."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opendml.expression.ir import Axis
from opendml.targets.cpu.contractions.problem import Problem
from opendml.targets.cpu.contractions.tiles import Tile
from opendml.targets.cpu.panels import strip_bytes

Blocks = list[tuple[Axis, int]]
"""Axes, slowest first, and how many of their points a block has."""


class Cuts(NamedTuple):
    """How axes are cut into work items: those of the side that is read again and again, small enough for a near cache;
    of the other side; and of the first side once more, where there are not work items enough."""

    near: Blocks
    rows: Blocks
    parts: Blocks


def cuts(
    problem: Problem,
    tile: Tile,
    batch: Sequence[Axis],
    first: Sequence[Axis],
    second: Sequence[Axis],
    steps: dict[Axis, int],
) -> Cuts:
    """The blocks, as many as ``items`` or more where the tiles are enough."""
    is_tile_side = tile.tile in first
    points = math.prod(axis.size for axis in first)
    read = (
        strip_bytes(problem.fold, points)
        if tile.packed
        else problem.side_bytes(problem.side(tile.vector) ^ is_tile_side)
    )
    unevenness = problem.tuning.block_unevenness
    parts_of_panel = _panel_parts(problem, tile, first, steps) if tile.packed else 1
    near = _shrunk(first, steps, unevenness, max(read / problem.most_near_bytes(), parts_of_panel))
    is_apart = tile.steps_at_once > 0 and not tile.by_rounds
    if is_apart:
        near = _cut([(tile.vector, tile.vector.size)], steps, unevenness, _runs(problem, tile))
    work = problem.points * problem.steps // tile.lanes
    items = problem.tuning.many_items if work >= problem.tuning.large_work else problem.tuning.items
    wanted = -(-items // math.prod([axis.size for axis in batch]))
    wanted = -(-wanted // math.prod([-(-axis.size // block) for axis, block in near]))
    wanted = 1 if is_apart else wanted
    if _is_parted(problem, tile, problem.side(tile.vector) ^ is_tile_side):
        parted = _cut(near, steps, unevenness, wanted)
        wanted //= math.prod([-(-whole // block) for (_, whole), (_, block) in zip(near, parted, strict=True)])
        return Cuts(parted, _cut([(axis, axis.size) for axis in second], steps, unevenness, max(1, wanted)), [])
    rows = _cut([(axis, axis.size) for axis in second], steps, unevenness, wanted)
    wanted //= math.prod([-(-axis.size // block) for axis, block in rows])
    cut = _cut(near, steps, unevenness, max(1, wanted))
    if tile.packed:
        return Cuts(cut, rows, [])
    return Cuts(near, rows, [(axis, block) for axis, block in cut if block < dict(near)[axis]])


def _panel_parts(problem: Problem, tile: Tile, along: Sequence[Axis], steps: Mapping[Axis, int]) -> int:
    """In how many parts many threads had best go through the vector side, each of which copies the parts that its
    work items are of: the more there are, the less it copies, and the more often the other side is read."""
    tuning, side = problem.tuning, problem.side(tile.vector)
    threads, packing = tuning.many_threads, problem.packing(side, tile.vector)
    reading = problem.side_bytes(1 - side) / tuning.far_cache_bytes
    strips = -(-tile.vector.size // steps[tile.vector])
    if problem.steps <= tuning.short_sums:
        strips = max(tile.vector.size * problem.fold.type.bits // 8 // tuning.page_bytes, 1)
    strips *= math.prod(-(-axis.size // steps[axis]) for axis in along if axis is not tile.vector)

    def cycles(parts: int) -> float:
        return packing * min(1 / parts + 1 / threads, 1) + reading * max(parts, 1) / threads

    return min(range(1, max(min(strips, tuning.items), 1) + 1), key=cycles)


def _runs(problem: Problem, tile: Tile) -> int:
    """Work items of tiles whose sums wait."""
    size, (least, most) = tile.vector.size * problem.fold.type.bits // 8, problem.tuning.run_bytes
    items = problem.tuning.interrupted_items // (1 if tile.tile.size >= problem.tuning.rows_of_tiles else 2)
    return max(min(items, size // least), size // most, 1)


def _is_parted(problem: Problem, tile: Tile, side: int) -> bool:
    """Whether each thread is to have a part of a factor of its own, all of whose sums it does, and goes through all
    of the other factor: where that one is smaller, so that less is read that another thread has written. Of short
    sums it is the results that take time, not what they are of."""
    size, other = problem.side_bytes(side), problem.side_bytes(1 - side)
    is_plain = not tile.packed and not tile.steps_at_once and tile.words is None
    is_plain &= problem.steps > problem.tuning.short_sums
    return is_plain and other <= problem.most_near_bytes() and problem.tuning.parted_times * other <= size


def keeps_tiles(problem: Problem, tile: Tile) -> bool:
    """Whether a strip goes along all tiles before the next one does: tiles that are transposed store parts of
    lines, and those of the next tile then follow while they are near. What all tiles read is then read again and
    again; if that is done in parts, all strips are read as often."""
    side, near = problem.side(tile.vector), problem.most_near_bytes()
    tiles, strips = problem.side_bytes(1 - side), problem.side_bytes(side)
    is_near = tiles <= problem.tuning.tile_side_bytes and min(tiles, strips) <= max(
        near, problem.tuning.kept_side_bytes
    )
    return tile.turned and not tile.packed and is_near


def _shrunk(axes: Sequence[Axis], steps: Mapping[Axis, int], unevenness: float, times: float) -> Blocks:
    """Blocks that have together about so many times fewer points than the axes: the outermost axes are cut first."""
    result = []
    for axis in axes:
        block = even_block(axis.size, steps[axis], unevenness, max(1, round(times)))
        times *= block / axis.size
        result.append((axis, block))
    return result


def _cut(blocks: Blocks, steps: Mapping[Axis, int], unevenness: float, wanted: int) -> Blocks:
    """The blocks cut, the outermost first, into so many smaller ones or more, if that is possible."""
    result = []
    for axis, size in blocks:
        block = even_block(size, steps[axis], unevenness, wanted)
        wanted = max(1, wanted // -(-size // block))
        result.append((axis, block))
    return result


def even_block(size: int, step: int, unevenness: float, wanted: int) -> int:
    """A multiple of ``step`` that cuts ``size`` into ``wanted`` blocks or somewhat more, all of about the same size:
    threads share out blocks, not points. They may together be longer by the part ``unevenness``."""
    tiles = -(-size // step)
    counts = range(max(1, tiles // wanted), 0, -1)
    even = (count for count in counts if -(-tiles // count) * count <= tiles * (1 + unevenness))
    return min(size, next(even) * step)
