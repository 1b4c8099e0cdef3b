"""Scans as nests: what has to be done in order, for many points side by side.

The points of a scan run along one axis with their state. Where many of them lie next to each other they go together,
row by row: their state waits in memory of the thread's own, and rows are read as they lie. A few points next to each
other have their state in a register, and so have several points that lie apart. Where these run along memory, squares
of points and steps are transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from opendml.expression.affine import Element
from opendml.expression.ir import Axis, Expression, Variable
from opendml.expression.rewriting import walk
from opendml.loops.nest import (
    At,
    Body,
    Branch,
    Cut,
    ElementStore,
    Keep,
    Leaf,
    Loop,
    Memory,
    Nest,
    Node,
    Points,
    Recall,
    Transpose,
    Turn,
)
from opendml.loops.nest_integers import Difference, End, Equal, Start
from opendml.targets.cpu.kernels import ScanKernel
from opendml.targets.cpu.nests.chunks import chunks
from opendml.targets.cpu.nests.sharing import shared_items
from opendml.targets.cpu.tuning import Tuning


def scan_nest(kernel: ScanKernel, tuning: Tuning) -> Nest:
    """Work items of a block of ``vector``, of ``rows``, or of one point."""
    state = kernel.scan.state
    memories = tuple(Memory("state", v.type, kernel.block) for v in state) if kernel.by_rows else ()
    cuts = [Cut(axis) for axis in kernel.outer]
    if kernel.rows is not None:
        cuts.append(Cut(kernel.rows, kernel.rows_together))
    if kernel.vector is not None:
        cuts.append(Cut(kernel.vector, kernel.block))
    items = shared_items(cuts, _points(kernel, memories), kernel, kernel.work, tuning)
    return Nest((items,), memories, ahead=kernel.prefetched, aliased=True)


def _points(kernel: ScanKernel, memories: tuple[Memory, ...]) -> Body:
    if memories and kernel.vector is not None:
        return _by_rows(kernel, kernel.vector, memories)
    if kernel.vector is not None:
        return chunks(kernel.vector, kernel.lanes, _along(kernel, 1, lambda leaf: (leaf,)))
    if kernel.rows is not None and kernel.lanes > 1:
        return _squares(kernel, kernel.rows)
    if kernel.rows is not None:
        return _together(kernel, kernel.rows)
    return _along(kernel, 1, lambda leaf: (leaf,))


def _by_rows(kernel: ScanKernel, vector: Axis, memories: tuple[Memory, ...]) -> Body:
    """Step by step along the scan, in every step all points of the block, their state in memory."""
    state, along = kernel.scan.state, kernel.scan.along
    place = (state, memories, vector, Start(vector))
    begin: Body = (Leaf(registers=state, values=kernel.initial), Keep(*place))
    step: Body = (Recall(*place), Leaf(kernel.stores, state, kernel.step), Keep(*place))
    steps = Loop(along, 0, along.size, 1, chunks(vector, kernel.lanes, step))
    return (*chunks(vector, kernel.lanes, begin), steps)


def _together(kernel: ScanKernel, rows: Axis) -> Body:
    """The points of a block side by side, so that none of them waits for its own state only."""
    count = kernel.rows_together
    side_by_side = _along(kernel, count, lambda leaf: (Points(rows, count, "unrolled", (leaf,)),))
    one_by_one = Loop(rows, Start(rows), End(rows), 1, _along(kernel, 1, lambda leaf: (leaf,)))
    whole = Equal(Difference(End(rows), Start(rows)), count)
    return (Branch(whole, (At(rows, Start(rows), side_by_side),), (one_by_one,)),)


def _squares(kernel: ScanKernel, rows: Axis) -> Body:
    """The points of a block as the lanes of a register, step by step, in squares of as many steps: these are loaded,
    and stored, along the scan, and transposed in between. What is left of the steps has its elements one by one. Points
    that do not fill a register go side by side."""
    scan, lanes, rest = kernel.scan, kernel.lanes, rows.size % kernel.lanes
    state, along = scan.state, scan.along

    def vector(*body: Node) -> Points:
        return Points(rows, lanes, "vector", body)

    results = [Variable(f"result{n}", store.tensor.type) for n, store in enumerate(kernel.stores)]
    turned = [Variable(f"turned{n}", store.tensor.type) for n, store in enumerate(kernel.stores)]
    values = [store.value for store in kernel.stores]
    loads = tuple(dict.fromkeys(e for x in (*kernel.step, *values) for e in walk(x) if _lies_along(e, along)))
    leaf = Leaf(registers=(*results, *state), values=(*values, *kernel.step))
    read: Body = (Points(along, lanes, "together", (Transpose(loads, along),)),) if loads else ()
    turns = [Turn(source, target, lanes, 1, lanes) for source, target in zip(results, turned, strict=True)]
    stores = [ElementStore(s.tensor, s.address, row) for s, row in zip(kernel.stores, turned, strict=True)]
    written = Points(along, lanes, "vector", (Leaf(tuple(stores)),))
    square: Body = (
        vector(*read, Points(along, lanes, "unrolled", (leaf,), carried=state)),
        *turns,
        Points(rows, lanes, "unrolled", (written,)),
    )
    whole = along.size - along.size % lanes
    loops = [Loop(along, 0, whole, lanes, square, carried=state)]
    if whole < along.size:
        one_by_one = (vector(Leaf(kernel.stores, state, kernel.step)),)
        loops.append(Loop(along, whole, along.size, 1, one_by_one, carried=state))
    body: Body = (vector(Leaf(registers=state, values=kernel.initial)), *loops)
    filled: Body = (At(rows, Start(rows), body),)
    if rest == 0:
        return filled
    others = _along(kernel, rest, lambda leaf: (Points(rows, rest, "unrolled", (leaf,)),))
    is_filled = Equal(Difference(End(rows), Start(rows)), lanes)
    return (Branch(is_filled, filled, (At(rows, Start(rows), others),)),)


def _lies_along(e: Expression, axis: Axis) -> TypeGuard[Element]:
    return isinstance(e, Element) and abs(e.address.coefficient(axis)) == 1


def _along(kernel: ScanKernel, copies: int, at_points: Callable[[Leaf], Body]) -> Body:
    """The whole scan of some points, their state in registers."""
    state, along = kernel.scan.state, kernel.scan.along
    begin = at_points(Leaf(registers=state, values=kernel.initial))
    step = at_points(Leaf(kernel.stores, state, kernel.step))
    return (*begin, Loop(along, 0, along.size, 1, step, carried=state, copies=copies))
