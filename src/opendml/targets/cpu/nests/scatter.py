"""Scatters as nests: all points in order, by the thread that the elements which they write belong to."""

from __future__ import annotations

from opendml.loops.nest import Body, Branch, Cut, Items, Leaf, Loop, Nest, Share
from opendml.loops.nest_integers import End, Integer, Local, Start, Within
from opendml.targets.cpu.kernels import ScatterKernel
from opendml.targets.cpu.nests.sharing import look_of
from opendml.targets.cpu.tuning import Tuning


def scatter_nest(kernel: ScatterKernel, tuning: Tuning) -> Nest:
    """Work items where axes keep points apart; else every thread goes through all points and writes what is in its own
    share of the output.

    Which those are nobody could foresee: without a jump a point takes a third of the time, or less."""
    write: Body = (Leaf(stores=(kernel.store,)),)
    if kernel.blocks or kernel.serial:
        cuts = tuple(Cut(axis, block) for axis, block in kernel.blocks)
        items = Items(cuts, _loops(kernel, write), kernel.serial, look_of(kernel.item_count, kernel.work, tuning))
        return Nest((items,), aliased=True)
    first, last = Local("first"), Local("last")
    own: Body = (Leaf((kernel.store,), own=Within(kernel.store.address, first, last)),)
    return Nest(
        (Share(first, last, kernel.store.tensor.extent), *_loops(kernel, own)),
        aliased=True,
    )


def _loops(kernel: ScatterKernel, body: Body) -> Body:
    """Every axis in order, as far as the work item covers it."""
    cut = {axis for axis, _ in kernel.blocks}
    body = (Branch(kernel.where, body),)
    for axis in reversed(kernel.axes):
        bounds: tuple[Integer, Integer] = (Start(axis), End(axis)) if axis in cut else (0, axis.size)
        body = (Loop(axis, *bounds, 1, body),)
    return body
