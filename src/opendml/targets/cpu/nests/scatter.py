"""Scatters as nests: all points in order, by the thread that the elements which they write belong to."""

from __future__ import annotations

from opendml.expression.affine import Affine, is_unsafe
from opendml.expression.ir import Cast, Fold, in_range
from opendml.expression.rewriting import conjuncts, walk
from opendml.loops.nest import Body, Branch, Cut, Items, Leaf, Loop, Nest, Prefetch, Share
from opendml.loops.nest_integers import Both, End, Integer, Local, Start, Within
from opendml.targets.cpu.kernel_parts import work_of_values
from opendml.targets.cpu.kernels import ScatterKernel
from opendml.targets.cpu.nests.sharing import look_of
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import Tuning


def scatter_nest(kernel: ScatterKernel, target: CpuTarget) -> Nest:
    """Work items where axes keep points apart; else every thread goes through all points and writes what is in its own
    share of the output.

    Which those are nobody could foresee: without a jump a point takes a third of the time, or less."""
    tuning, asked = target.tuning, _next_rows(kernel, target.machine.cache_line)
    if kernel.blocks or kernel.serial:
        cuts = tuple(Cut(axis, block) for axis, block in kernel.blocks)
        body = _loops(kernel, (Branch(kernel.where, (Leaf((kernel.store,)),)),), asked)
        return Nest((Items(cuts, body, kernel.serial, look_of(kernel.item_count, kernel.work, tuning)),), aliased=True)
    first, last = Local("first"), Local("last")
    loops = _loops(kernel, _own(kernel, Within(kernel.store.address, first, last), tuning), asked)
    return Nest((Share(first, last, kernel.store.tensor.extent), *loops), aliased=True)


def _own(kernel: ScatterKernel, own: Within, tuning: Tuning) -> Body:
    """What is done at a point by every thread. Where what is written can be computed at all points no other question
    needs a jump: it is asked with the other one, or answered by it."""
    if not _is_total(kernel, tuning):
        return (Branch(kernel.where, (Leaf((kernel.store,), own=own),)),)
    return (Leaf((kernel.store,), own=own if _is_inside(kernel) else Both(kernel.where, own)),)


def _is_total(kernel: ScatterKernel, tuning: Tuning) -> bool:
    """Whether what is written can be computed wherever that may be, in a few operations."""
    roots = (kernel.store.value, *kernel.store.address.opaque)
    is_partial = any(is_unsafe(e) or isinstance(e, Fold) for root in roots for e in walk(root))
    return not is_partial and work_of_values(roots, tuning) <= tuning.operations_a_step


def _is_inside(kernel: ScatterKernel) -> bool:
    """Whether nothing is asked but that the address is one of the tensor's, of which a thread's share are some."""
    place, extent = kernel.store.address, kernel.store.tensor.extent
    if place.constant or [factor for _, factor in place.terms] != [1] or len(place.opaque) != 1:
        return False
    (there,) = place.opaque
    known = set(conjuncts(in_range(there, extent)))
    if isinstance(there, Cast) and _is_same_number(there, extent):
        known |= set(conjuncts(in_range(there.operand, extent)))
    return set(conjuncts(kernel.where)) <= known


def _is_same_number(cast: Cast, extent: int) -> bool:
    """Whether an integer is cast to a wider one, and both types have so many numbers from 0 on."""
    before = cast.operand.type
    return before.is_integer and before.bits < cast.type.bits and extent < 1 << (before.bits - 1)


def _loops(kernel: ScatterKernel, body: Body, asked: Body) -> Body:
    """Every axis in order, as far as the work item covers it, with what is ``asked`` for before the last loop."""
    cut = {axis for axis, _ in kernel.blocks}
    for axis in reversed(kernel.axes):
        if axis in kernel.loops[-2:-1]:
            body = (*asked, *body)
        bounds: tuple[Integer, Integer] = (Start(axis), End(axis)) if axis in cut else (0, axis.size)
        body = (Loop(axis, *bounds, 1, body),)
    return body


def _next_rows(kernel: ScatterKernel, line_bytes: int) -> Body:
    """All lines of rows further on, wherever in a line these begin."""
    if not kernel.next_rows:
        return ()
    asked, (row, last) = list[Prefetch](), kernel.loops[-2:]
    for e, rows in kernel.next_rows:
        terms = tuple((term, factor) for term, factor in e.address.terms if term is not last)
        line, begin = line_bytes * 8 // e.type.bits, e.address.constant + rows * e.address.coefficient(row)
        places = range(begin, begin + last.size + line - 1, line)
        asked += (Prefetch(e.tensor, Affine(terms, place)) for place in places)
    return tuple(asked)
