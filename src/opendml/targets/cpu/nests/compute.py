"""Computes as nests: work items, and the cases into which conditions cut them.

Bounds tests never sit in an inner loop where they can be decided outside of it:

* conditions on outer axes alone choose between two bodies (``_unswitched``),
* conditions on outer axes and axes of a fold hold for all of the fold in the interior, which gets a body without
  them; the border keeps them (``_interior``). Where vectors lie across the windows its places have bodies in which it
  is known which steps are outside: one for all, whose long sums come in phases (``window_phases``), or, where they are
  few, one for each (``_at_places``),
* conditions on the vector axis cut its range into pieces in which their answer is known (``pieces``); what is left
  undecided (the columns of a window that reach over the edge) runs point by point.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from opendml.expression.affine import Affine, Element, threshold_form
from opendml.expression.element_types import BOOL
from opendml.expression.ir import Axis, Expression, Fold, Select, both, constant, index
from opendml.expression.rewriting import conjuncts, substitute, walk
from opendml.loops.nest import At, Block, Body, Branch, Cut, Fence, Loop, Nest, Reduce
from opendml.loops.nest_integers import End, Equal, Greatest, Integer, Least, Start
from opendml.loops.plans import Overlap
from opendml.targets.cpu.kernels import ComputeKernel
from opendml.targets.cpu.nests.kept_rows import parts_outside_selects
from opendml.targets.cpu.nests.making import Making, Piece, Stores, rewritten
from opendml.targets.cpu.nests.pieces import cuts_of, vector_body
from opendml.targets.cpu.nests.planning import is_long, planned
from opendml.targets.cpu.nests.sharing import shared_items
from opendml.targets.cpu.nests.staging import Staging
from opendml.targets.cpu.nests.waiting_folds import waiting_folds_nest
from opendml.targets.cpu.nests.window_phases import in_phases
from opendml.targets.cpu.schedule import work_of
from opendml.targets.cpu.target import CpuTarget


def compute_nest(kernel: ComputeKernel, target: CpuTarget, repeats: Sequence[Axis]) -> Nest:
    """The nest of a kernel inside of ``repeats``, whose axes stand where they stand."""
    if kernel.steps_at_once:
        nest = waiting_folds_nest(kernel, work_of(kernel), target.tuning)
        return planned(nest, target.tuning, target.tuning.unrolled_steps)
    maker, rows, tuning = _ComputeNest(kernel, target, repeats), kernel.rows, target.tuning
    overlap = None if rows is None else Overlap(rows.axis, rows.tap, rows.step, rows.reach)
    return planned(maker.nest(), tuning, tuning.unrolled_steps, overlap, maker.border)


class _ComputeNest:
    """Makes the nest of one Compute."""

    def __init__(self, kernel: ComputeKernel, target: CpuTarget, repeats: Sequence[Axis]) -> None:
        staged = () if kernel.stage is None or kernel.stage is kernel.tile else (kernel.stage,)
        known = frozenset((*repeats, *kernel.shared, *kernel.inner, *staged))
        self._kernel = kernel
        self._tuning = target.tuning
        self.border: list[Block] = []  # where folds are loops
        self._making = Making(kernel, target, known, target.tuning.unrolled_steps)

    def nest(self) -> Nest:
        kernel, tuning = self._kernel, self._tuning
        staging = None if kernel.stage is None else Staging(kernel, self._making.target.machine.cache_line)
        body = self._inner(kernel.stores) if staging is None else staging.body(self._inner)
        items = shared_items(self._cuts(), body, kernel, work_of(kernel), tuning)
        return Nest(
            (items, Fence()) if kernel.streamed or staging is not None else (items,),
            () if staging is None else staging.memories,
            tuple(self._making.rows.values()),
            kernel.prefetched,
            kernel.next_rows,
            kernel.in_place,
            self._making.rolled,
        )

    def _cuts(self) -> Iterator[Cut]:
        kernel = self._kernel
        rows = () if kernel.rows is None else (Cut(kernel.rows.axis, kernel.rows.block),)
        if kernel.rows_first:
            yield from rows
        blocks = []
        if kernel.vector is not None and kernel.vector_block is not None:
            blocks.append(Cut(kernel.vector, kernel.vector_block))
        if kernel.share:
            *shared, last = kernel.shared
            yield from (*map(Cut, shared), Cut(last, kernel.share), *blocks, Cut(last))
            blocks.clear()
        else:
            yield from map(Cut, kernel.shared)
        if kernel.stage is not None and kernel.stage is not kernel.tile:
            yield Cut(kernel.stage, kernel.stage_block)
        if kernel.tile is not None:
            yield Cut(kernel.tile, kernel.tile_block)
        if not kernel.rows_first:
            yield from rows
        yield from blocks

    def _inner(self, stores: Stores) -> Body:
        ahead = self._ahead(stores)
        self._making.ahead = frozenset(fold for folds in ahead.values() for fold in folds)
        body = self._interior(stores)
        for axis in reversed(self._kernel.inner):
            body = (Loop(axis, 0, axis.size, 1, body),)
            if axis in ahead:
                body = (Reduce(tuple(ahead[axis])), *body)
        return body

    def _ahead(self, stores: Stores) -> Mapping[Axis, list[Fold]]:
        """Folds that are the same along the loop over an axis and those inside of it, by the outermost one."""
        kernel, result, known = self._kernel, dict[Axis, list[Fold]](), set(self._making.known)
        if not kernel.inner:
            return result
        found = dict.fromkeys(part.fold for s in stores for part in parts_outside_selects(s.value))
        wanted = [fold for fold in found if not any(map(_is_decided_outside, walk(fold)))]
        known.difference_update(kernel.inner)
        for axis in kernel.inner:
            same = [fold for fold in wanted if self._making.dependencies.of(fold) <= known]
            if same:
                result[axis] = same
            wanted = [fold for fold in wanted if fold not in same]
            known.add(axis)
        return result

    # Cases -----------------------------------------------------------------------------------------------------------

    def _interior(self, stores: Stores) -> Body:
        """One body for where all conditions on outer and fold axes hold, one for the rest, whose folds are loops."""
        forms = self._fold_conditions(stores)
        if not forms:
            return self._unswitched(stores, 0)
        inside = both(self._worst(form).as_expression() >= 0 for form in forms.values())
        true: dict[Expression, Expression] = {c: constant(True, BOOL) for c in forms}
        interior = rewritten(stores, substitute(true))
        if inside == constant(True, BOOL):
            return self._unswitched(interior, 0)
        middle = self._unswitched(interior, 0)
        places = self._places(stores, forms)
        body = None if places is None else self._at_places(stores, forms, middle, *places)
        if body is not None:
            return body
        self._making.unrolled = 1
        border = self._unswitched(stores, 0)
        self._making.unrolled = self._tuning.unrolled_steps
        self.border.append(Block(border))
        return (Branch(inside, middle, (self.border[-1],)),)

    def _places(self, stores: Stores, forms: Mapping[Expression, Affine]) -> tuple[Axis, int, int] | None:
        """The outer axis that conditions on steps of windows depend on, and between which of its places all of them
        hold, where vectors lie across the windows: bodies for its other places know which steps are inside."""
        kernel = self._kernel
        axes = {axis for form in forms.values() for axis in form.axes if axis in kernel.outer}
        if kernel.rows is None or kernel.vector is None or len(axes) != 1:
            return None
        dependencies = self._making.dependencies
        if any(kernel.vector in dependencies.of(c) for fold in _folds(stores) for c in _conditions(fold)):
            return None
        (axis,) = axes
        first, last = 0, axis.size
        for form in map(self._worst, forms.values()):
            step = form.coefficient(axis)
            if step > 0:
                first = max(first, -(form.constant // step))
            else:
                last = min(last, form.constant // -step + 1)
        first, last = min(first, axis.size), max(last, 0)
        if first > last:
            first = last = axis.size
        return axis, first, last

    def _at_places(
        self, stores: Stores, forms: Mapping[Expression, Affine], middle: Body, axis: Axis, first: int, last: int
    ) -> Body | None:
        """Bodies for the places of an axis before ``first`` and from ``last`` on, and the ``middle`` between; None if
        these would be too many."""
        parts = list[tuple[int, Body]]()
        most = self._tuning.border_steps // max(sum(fold.steps for fold in _folds(stores)), 1)
        for start, end in ((0, first), (last, axis.size)):
            phased = self._phased(stores, forms, axis, start, end)
            if phased is not None:
                parts.append((end - 1, self._unswitched(phased, 0)))
            elif end - start > most:
                return None
            else:
                parts += [(place, self._at_place(stores, axis, place)) for place in range(start, end)]
                most -= end - start
            if start == 0 and first < last:
                parts.append((last - 1, middle))
        (_, body), *others = reversed(parts)
        for place, part in others:
            body = (Branch(index(axis) <= place, part, body),)
        return body

    def _phased(
        self, stores: Stores, forms: Mapping[Expression, Affine], axis: Axis, first: int, last: int
    ) -> Stores | None:
        """The stores at some places of an axis with their windows in two phases, if these are long."""
        rows = self._kernel.rows
        if rows is None or first == last or not all(is_long(f, rows.together, self._tuning) for f in _folds(stores)):
            return None
        return in_phases(stores, forms, axis, first, last)

    def _at_place(self, stores: Stores, axis: Axis, place: int) -> Body:
        return (At(axis, place, self._unswitched(Piece(stores, axis, place, place + 1).stores, 0)),)

    def _fold_conditions(self, stores: Stores) -> dict[Expression, Affine]:
        """Comparisons inside folds that depend on outer axes and not on the vector axis, with their forms."""
        result: dict[Expression, Affine] = {}
        for fold in _folds(stores):
            inner = frozenset(fold.axes)
            for condition in _conditions(fold):
                form = threshold_form(condition)
                if form is None or not form.is_pure:
                    continue
                axes = set(form.axes)
                if self._kernel.vector not in axes and axes & inner and axes & set(self._kernel.outer):
                    result[condition] = form
        return result

    def _worst(self, form: Affine) -> Affine:
        """The least value of ``form`` over the axes of folds and tiles, in terms of those that stand somewhere."""
        constant_part = form.constant
        terms = []
        for term, coefficient in form.terms:
            if isinstance(term, Axis) and term not in self._making.known:
                constant_part += min(0, coefficient * (term.size - 1))
            else:
                terms.append((term, coefficient))
        return Affine(tuple(terms), constant_part)

    def _unswitched(self, stores: Stores, depth: int) -> Body:
        """Two bodies for a condition that is the same all along the vector axis."""
        found = self._uniform_condition(stores) if depth < self._tuning.most_cases else None
        if found is None:
            return self._rows(stores)
        whole, uniform = found
        holds = rewritten(stores, substitute(dict.fromkeys(uniform, constant(True, BOOL))))
        fails = rewritten(stores, substitute({whole: constant(False, BOOL)}))
        return (Branch(both(uniform), self._unswitched(holds, depth + 1), self._unswitched(fails, depth + 1)),)

    def _uniform_condition(self, stores: Stores) -> tuple[Expression, list[Expression]] | None:
        """A condition that guards a load, and the parts of it that only outer axes decide."""
        for e in (e for s in stores for e in walk(s.value)):
            if isinstance(e, Select):
                if not any(isinstance(x, Element) for branch in (e.then, e.otherwise) for x in walk(branch)):
                    continue
                whole = e.condition
            elif isinstance(e, Fold) and e.where is not None:
                whole = e.where
            else:
                continue
            uniform = [c for c in conjuncts(whole) if self._is_uniform(c)]
            if uniform:
                return whole, uniform
        return None

    def _is_uniform(self, condition: Expression) -> bool:
        if any(isinstance(e, Element) for e in walk(condition)):
            return False
        free = self._making.dependencies.of(condition)
        return bool(free) and all(isinstance(item, Axis) and item in self._making.known for item in free)

    # Rows ------------------------------------------------------------------------------------------------------------

    def _rows(self, stores: Stores) -> Body:
        """The rows that are computed together: at both ends where they stand is known, and so are their conditions."""
        rows = self._kernel.rows
        if rows is None:
            return vector_body(self._making, stores)
        axis, count = rows.axis, rows.together
        first, last = _longest_run(cuts_of(self._kernel, stores, axis), axis.size)
        head, tail = list(range(0, first, count)), list(range(axis.size - count, last - count, -count))
        if len(head) + len(tail) > self._tuning.most_ends:
            head, tail = [], []
        first, last = (head[-1] + count if head else 0), (tail[-1] if tail else axis.size)
        if first < last < first + count:
            head.append(first)
        ends: dict[int, tuple[Integer, int]] = {max(start, 0): (End(axis), axis.size) for start in tail}
        ends |= {min(start, axis.size - count): (Start(axis), 0) for start in head}
        nodes: list[Block | Branch | Loop] = [
            self._end_rows(stores, start, *end) for start, end in sorted(ends.items())
        ]
        if first + count <= last:
            nodes.append(self._middle_rows(Piece(stores, axis, first, last)))
        return tuple(nodes)

    def _end_rows(self, stores: Stores, start: int, bound: Integer, wanted: int) -> Block | Branch:
        """The rows from ``start`` on, if an end of this work item's rows is the ``wanted`` one."""
        rows = self._kernel.rows
        assert rows is not None
        piece = Piece(stores, rows.axis, start, start + rows.together)
        body: Body = (At(rows.axis, start, vector_body(self._making, piece.stores)),)
        return Branch(Equal(bound, wanted), body) if rows.block < rows.axis.size else Block(body)

    def _middle_rows(self, piece: Piece) -> Loop:
        """The rows of this work item that are in ``piece``."""
        rows = self._kernel.rows
        assert rows is not None
        axis, count = rows.axis, rows.together
        bounds: tuple[Integer, Integer] = (piece.first, piece.last)
        if rows.block < axis.size:
            low = Start(axis) if piece.first == 0 else Greatest(Start(axis), piece.first)
            bounds = (low, Least(End(axis), piece.last))
        limit = None if piece.size % count == 0 else piece.last - count
        return Loop(axis, *bounds, count, vector_body(self._making, piece.stores), limit)


def _is_decided_outside(e: Expression) -> bool:
    """Whether there may be bodies in which a condition in ``e`` is decided, so that it is another expression there."""
    return isinstance(e, Select) or (isinstance(e, Fold) and e.where is not None)


def _folds(stores: Stores) -> list[Fold]:
    return [e for s in stores for e in walk(s.value) if isinstance(e, Fold)]


def _conditions(fold: Fold) -> Iterator[Expression]:
    """Those that decide which steps a fold takes, and what it loads."""
    if fold.where is not None:
        yield from conjuncts(fold.where)
    for element in fold.elements:
        for e in walk(element):
            if isinstance(e, Select):
                yield from conjuncts(e.condition)


def _longest_run(cuts: set[int], size: int) -> tuple[int, int]:
    """The longest part of an axis between cuts."""
    return max(itertools.pairwise(sorted({0, *cuts, size})), key=lambda run: run[1] - run[0])
