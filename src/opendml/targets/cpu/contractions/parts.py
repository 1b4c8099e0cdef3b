"""Sums of products whose tiles wait for one another: convolutions of many channels of large images, whose tiles would
each go through more than the second-level cache holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from opendml.expression.ir import Axis
from opendml.targets.cpu.contractions.problem import Problem
from opendml.targets.cpu.contractions.tiles import Tile
from opendml.targets.cpu.panels import strip_bytes


def steps_of_parts(problem: Problem, tile: Tile, blocks: Mapping[Axis, int], across: Sequence[Axis]) -> int:
    """Steps along the outermost of several axes of the fold after which the sums of a tile wait for those of the others
    of its work item, which then load the same from the nearest cache; 0: they do not wait. Tiles of many registers load
    so much less for each product that they take as long from the second-level cache."""
    tuning, loops = problem.tuning, [axis for axis in problem.fold.axes if axis.size > 1]
    elements = problem.elements[1 - problem.side(tile.vector)]
    if tile.packed or tile.words is not None or tile.steps_at_once or len(loops) < 2 or len(elements) != 1:
        return 0
    if not problem.target.has_few_registers:
        return 0
    outer = loops[0]
    sums = math.prod(blocks.get(axis, axis.size) for axis in problem.axes) * problem.fold.type.bits // 8
    tiles = math.prod(-(-blocks.get(axis, axis.size) // tile.steps.get(axis, 1)) for axis in across)
    strip = strip_bytes(problem.fold, tile.lanes * tile.vectors)
    if sums > tuning.waiting_sums_bytes or tiles < tuning.fewest_waiting_tiles:
        return 0
    if strip + _rows_bytes(problem, tile, loops) < tuning.waiting_tiles_bytes:
        return 0
    count = max(tuning.part_bytes * outer.size // strip, 1)
    return count if count < outer.size else 0


def _rows_bytes(problem: Problem, tile: Tile, loops: Sequence[Axis]) -> int:
    """Bytes of what the tiles along a row load beside the strip."""
    (e,) = problem.elements[1 - problem.side(tile.vector)]
    steps = math.prod(axis.size for axis in loops[:-1])
    row = min(abs(e.address.coefficient(loops[0])), tile.tile.size * abs(e.address.coefficient(tile.tile)))
    return steps * row * e.type.bits // 8
