"""What a sum of products asks for ahead: the loads whose places processors do not foresee, and when."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from opendml.expression.affine import Affine, Element, bytes_between, loads_of
from opendml.expression.ir import Axis, Fold
from opendml.expression.rewriting import walk
from opendml.loops.nest import ElementStore
from opendml.targets.cpu.contractions.blocks import keeps_tiles
from opendml.targets.cpu.contractions.problem import Problem
from opendml.targets.cpu.contractions.tiles import Tile, asks_for_next_strip
from opendml.targets.cpu.panels import Panel, strip_bytes
from opendml.targets.cpu.words_in_memory import BYTES


def tiles_ahead(problem: Problem, side: int, tile: Tile) -> tuple[tuple[Element, ...], bool]:
    """Loads along the tile axis that are asked for, and whether that is some steps ahead: where there are new lines
    at every step, too many for the nearest cache to keep those of a tile until the next one comes."""
    line = problem.machine.cache_line
    is_far = all(distance > line for distance in problem.distances(side) or [0])
    if is_far and problem.steps * line > problem.tuning.near_strip_bytes and not tile.steps_at_once:
        return _far(problem, side, tile.tile, line), True
    # Beside one vector every sum loads a scalar of its own: nothing else can be loaded while rows of them are done.
    is_full = tile.vectors == 1 and tile.row is not None
    return () if is_full or tile.steps_at_once else _far(problem, side, tile.tile), False


def vectors_ahead(problem: Problem, tile: Tile, panel: Panel | None) -> tuple[Element, ...]:
    """Loads along the vector axis that are asked for some steps ahead: all of them if the steps go through more of
    a strip than the nearest cache keeps, else those that are far apart from step to step."""
    side = problem.side(tile.vector)
    if problem.steps == 1 or (panel is None and problem.words[side] is not None):
        return ()
    if strip_bytes(problem.fold, tile.lanes * tile.vectors) <= problem.tuning.near_strip_bytes:
        return () if panel is not None else _far(problem, side, tile.vector)
    rows = math.prod(axis.size for axis in problem.axes if axis not in problem.sides[side])
    if rows > problem.tuning.asked_strip_rows:
        return ()
    elements = problem.elements[side] if panel is None else [panel.element]
    return tuple(e for e in elements if 0 < abs(e.address.coefficient(tile.vector)) <= problem.tuning.shuffled_stride)


def asks_by_strips(problem: Problem, tile: Tile) -> bool:
    """Whether vectors that are loaded where they lie had best be asked for while those of the strip before are
    summed up: the nearest cache keeps both, and at the first steps of a strip, too, nothing is waited for. Steps
    along rows of windows would ask for the same lines again and again."""
    is_plain = sum(axis.size > 1 for axis in problem.fold.axes) == 1 and not tile.packed and tile.words is None
    return is_plain and strip_bytes(problem.fold, tile.lanes * tile.vectors) <= problem.tuning.near_strip_bytes


def next_tile(problem: Problem, side: int, axis: Axis) -> tuple[Element, ...]:
    """Loads of a large factor that is one run of memory along the steps of the fold and then along an axis, as
    loads that move by a cache line with every step. Where points are more than a page apart processors see by
    themselves what comes next, soon enough if it does not come from memory."""
    elements, tuning = problem.elements[side], problem.tuning
    size, row = problem.bytes_of(elements), problem.steps * problem.fold.type.bits // 8
    is_far = size >= (tuning.far_tile_bytes if row <= tuning.page_bytes else tuning.prefetched_bytes)
    word = problem.words[side]
    if len(elements) != 1 or not is_far or row > tuning.longest_next_row:
        return ()
    (e,) = elements
    run = 1
    line = problem.machine.cache_line * 8 // e.type.bits
    for inner in reversed(problem.fold.axes):
        if inner.size > 1 and e.address.coefficient(inner) != run:
            return ()
        run *= inner.size
    if axis.size > 1 and not run <= e.address.coefficient(axis) <= run + line:
        return ()
    if word is not None:
        e, line = word.first, problem.machine.cache_line // BYTES
    terms = tuple((t, c * line if t in problem.fold.axes else c) for t, c in e.address.terms)
    return (Element(e.tensor, Affine(terms, e.address.constant), e.safe),)


def next_block(
    problem: Problem, tile: Tile, along: Sequence[Axis], across: Sequence[Axis], blocks: Mapping[Axis, int]
) -> tuple[Element, ...]:
    """Loads of a factor that is cut into blocks, each read by all tiles while it is in the second-level cache, as
    loads of the next block: a tile that has a part of all rows goes through as much of each strip."""
    if tile.packed or tile.steps_at_once:
        return ()
    if keeps_tiles(problem, tile):
        return _next_panel(problem, tile, along, across)
    steps, elements = [a for a in problem.fold.axes if a.size > 1], problem.elements[problem.side(tile.vector)]
    if len(steps) > 1:
        return _next_panel(problem, tile, [axis for axis in along if blocks[axis] == 1], across)
    cut = next((axis for axis in along if blocks[axis] < axis.size), None)
    tiles = -(-tile.tile.size // tile.tile_size)
    is_plain = len(steps) == 1 and len(across) == 1 and len(elements) == 1 and tile.words is None
    if cut is None or not is_plain or tiles == 1 or problem.words[problem.side(tile.vector)] is not None:
        return ()
    (e,), (step,) = elements, steps
    distance = e.address.coefficient(step)
    a_step = -(-distance // tiles)
    a_point = -(-a_step * step.size // tile.tile_size)
    leaves_lines_out = cut is tile.vector and a_step * e.type.bits // 8 > problem.machine.cache_line
    if distance < tile.lanes * tile.vectors or leaves_lines_out:
        return ()
    terms = tuple((t, a_step if t is step else c) for t, c in e.address.terms)
    further = e.address.constant + e.address.coefficient(cut) * blocks[cut]
    return (Element(e.tensor, Affine((*terms, (tile.tile, a_point)), further), e.safe),)


def _next_panel(problem: Problem, tile: Tile, along: Sequence[Axis], across: Sequence[Axis]) -> tuple[Element, ...]:
    """Where all strips of a panel go along all tiles before those of the next one do, and panels follow one another in
    memory, loads of the next panel: each tile of each strip asks for its part of the lines, so that all of them come
    while sums are done, not while the first tile waits for them."""
    side, line = problem.side(tile.vector), problem.machine.cache_line
    elements, width = problem.elements[side], tile.vector.size
    if (
        len(elements) != 1
        or problem.words[side] is not None
        or problem.bytes_of(elements) < problem.tuning.far_tile_bytes
    ):
        return ()
    (e,) = elements
    run = width
    for axis in reversed([axis for axis in problem.fold.axes if axis.size > 1]):
        if e.address.coefficient(axis) != run:
            return ()
        run *= axis.size
    panel = next((axis for axis in along if axis is not tile.vector and e.address.coefficient(axis) == run), None)
    strip = tile.lanes * tile.vectors
    points = {axis: tile.steps.get(axis, 1) for axis in across} | {tile.vector: strip}
    counts = [-(-axis.size // step) for axis, step in points.items()]
    tiles = math.prod(counts)
    if width % strip or panel is None or tiles == 1:
        return ()
    a_step = -(-width // tiles)
    if a_step * e.type.bits // 8 > line:
        return ()
    others = [(t, c) for t, c in e.address.terms if t is not tile.vector]
    terms = [(t, c * a_step // width if t in problem.fold.axes else c) for t, c in others]
    part = -(-run // tiles)
    for (axis, step), count in zip(reversed(points.items()), reversed(counts), strict=True):
        terms += [(axis, -(-part // step))] if count > 1 else []
        part *= count
    return (Element(e.tensor, Affine(tuple(terms), e.address.constant + run), e.safe),)


def next_strip(problem: Problem, tile: Tile) -> tuple[Element, ...]:
    """Loads of a factor that comes from beyond the second-level cache, where each tile asks for all that the next strip
    loads."""
    return tuple(problem.elements[problem.side(tile.vector)]) if asks_for_next_strip(problem, tile) else ()


def loads_of_results(store: ElementStore, fold: Fold) -> list[Element]:
    """What is loaded to make of a sum what is stored, not for the sum itself."""
    inside = set(walk(fold))
    return [e for e in loads_of(store.value) if e not in inside]


def are_results_far(problem: Problem, tile: Tile) -> bool:
    """Whether what tiles store, or what is made of their sums reads, comes from memory, and the steps of a tile take
    less time than that."""
    if problem.steps > problem.tuning.short_steps or tile.words is not None or tile.steps_at_once:
        return False
    tensors = {store.tensor for store in problem.stores}
    tensors |= {e.tensor for store in problem.stores for e in loads_of_results(store, problem.fold)}
    return any(t.extent * t.type.bits // 8 >= problem.tuning.far_results_bytes for t in tensors)


def _far(problem: Problem, side: int, axis: Axis, near_bytes: int | None = None) -> tuple[Element, ...]:
    """Loads of a factor in runs along an axis that are far apart from step to step."""
    if problem.words[side] is not None:
        return ()
    near = problem.tuning.near_bytes if near_bytes is None else near_bytes
    steps = [a for a in problem.fold.axes if a.size > 1]
    return tuple(
        e
        for e in problem.elements[side]
        if 0 < abs(e.address.coefficient(axis)) <= problem.tuning.shuffled_stride
        and any(bytes_between(e, a) > near for a in steps)
    )
