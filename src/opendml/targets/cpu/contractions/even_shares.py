"""Blocks of a sum of products that come out evenly among many threads.

Threads take whole work items: of 40 items 16 threads do three each, or two, which is as long as 48 take. More of them
are better then, if what they read once more does not take as long.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from opendml.expression.ir import Axis
from opendml.targets.cpu.contractions.blocks import Cuts
from opendml.targets.cpu.contractions.problem import Problem
from opendml.targets.cpu.contractions.tiles import Tile


def evened(
    problem: Problem, tile: Tile, batch: Sequence[Axis], found: Cuts, steps: Mapping[Axis, int], *, keeps_near: bool
) -> Cuts:
    """The ``found`` cuts, or others of which the blocks of one axis are smaller, if threads are done sooner by
    ``worth_uneven`` with them; with ``keeps_near`` the first side stays as it is."""
    tuning = problem.tuning
    if tile.steps_at_once or problem.points * problem.steps < tuning.serial_work:
        return found
    images = math.prod(axis.size for axis in batch)

    def cycles(cuts: Cuts) -> float:
        count = images * _count(cuts)
        largest, usual = _cycles_of_items(problem, tile, cuts, steps)
        return (-(-count // tuning.shares) - 1) * usual + largest

    most = tuning.most_even_items * tuning.shares // (images * _count(found))
    best = min(_smaller(found, steps, most, keeps_near), key=cycles, default=found)
    return best if cycles(best) < cycles(found) * (1 - tuning.worth_uneven) else found


def _smaller(found: Cuts, steps: Mapping[Axis, int], most: int, keeps_near: bool) -> Iterator[Cuts]:
    """The cuts with blocks of one axis cut into up to ``most``."""
    near, rows, parts = found
    for number, (axis, block) in enumerate(rows):
        for size in _sizes(block, steps[axis], most):
            yield Cuts(near, [*rows[:number], (axis, size), *rows[number + 1 :]], parts)
    if keeps_near:
        return
    for axis, block in near:
        for size in _sizes(dict(parts).get(axis, block), steps[axis], most):
            cut = dict(parts) | {axis: size}
            yield Cuts(near, rows, [(a, cut[a]) for a, _ in near if a in cut])


def _sizes(block: int, step: int, most: int) -> Iterator[int]:
    """Whole tiles of a block cut into 2 to ``most``."""
    tiles = -(-block // step)
    return (-(-tiles // count) * step for count in range(2, min(tiles, most) + 1))


def _count(cuts: Cuts) -> int:
    """Work items of an image."""
    near = dict(cuts.near)
    whole = math.prod(-(-axis.size // block) for axis, block in (*cuts.near, *cuts.rows))
    return whole * math.prod(-(-near[axis] // part) for axis, part in cuts.parts)


def _cycles_of_items(problem: Problem, tile: Tile, cuts: Cuts, steps: Mapping[Axis, int]) -> tuple[float, float]:
    """Cycles of the largest work item and of all of an image, on average: multiply-adds, and what is read of the first
    side, which is in a near cache, and of the other one."""
    tuning, near, rows = problem.tuning, dict(cuts.near) | dict(cuts.parts), dict(cuts.rows)
    first = problem.side(tile.vector) ^ (tile.tile in near)
    near_bytes, rows_bytes = (
        problem.side_bytes(side) * math.prod(block / axis.size for axis, block in blocks.items())
        for side, blocks in ((first, near), (1 - first, rows))
    )
    others = near_bytes / tuning.near_cache_bytes + rows_bytes / tuning.far_cache_bytes + tuning.item_overhead
    blocks = near | rows
    largest = math.prod(-(-block // steps[axis]) * steps[axis] for axis, block in blocks.items())
    whole = math.prod(-(-axis.size // steps[axis]) * steps[axis] for axis in blocks)
    cycles_of_point = problem.steps / (tile.lanes * problem.issued(tile.lanes))
    return largest * cycles_of_point + others, whole / _count(cuts) * cycles_of_point + others
