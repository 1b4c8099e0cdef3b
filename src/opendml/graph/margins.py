"""Copies with margins around them, as what is copied and the margins: the first may move into what computes it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from opendml.expression.affine import affine
from opendml.expression.ir import Axis, Const, Expression, Fold, Index, Select, grid, index
from opendml.expression.limits import limits_of
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute, Statement, Store
from opendml.graph.costs import GraphCosts
from opendml.graph.rows import innermost_last, run_on

Range = tuple[int, int]
"""The first coordinate, and the one behind the last."""


def inside_and_margins(copy: Compute) -> tuple[Compute, list[Compute]] | None:
    """A statement that writes a tensor at its own points, and a constant outside of some ranges of coordinates, in
    two: the points inside, and statements that write the constant. None for other statements."""
    if len(copy.stores) != 1:
        return None
    (store,) = copy.stores
    value, sizes, axes = store.value, store.tensor.sizes, _axes_of(copy)
    if not isinstance(value, Select) or not isinstance(value.otherwise, Const) or axes is None:
        return None
    ranges = _ranges(value.condition, axes)
    if ranges is None or all(range == (0, size) for range, size in zip(ranges, sizes, strict=True)):
        return None
    return _inside(store, axes, value.then, ranges), _margins(store, value.otherwise, ranges)


def may_store_inside(writers: Collection[Statement], inside: Compute, costs: GraphCosts) -> bool:
    """Whether all that writes a tensor may as well store it within margins, where a copy would put what is ``inside``:
    it computes what takes longer than that, and margins are written apart."""
    found = [writer for writer in writers if isinstance(writer, Compute)]
    if len(found) < len(writers):
        return False
    is_narrow = len(found) == 1 and _sums_long(found[0], costs) and _has_narrow_margins(inside, costs)
    return is_narrow or all(_has_rows_apart(writer, inside, costs) for writer in found)


def _axes_of(copy: Compute) -> list[Axis] | None:
    """The axis along each dimension of the tensor that a statement writes, if it writes the tensor at its own points;
    any axis of one point where a dimension has no more."""
    (store,) = copy.stores
    axes = [c.axis if isinstance(c, Index) else Axis("one", 1) for c in store.coordinates]
    if tuple(axis.size for axis in axes) != store.tensor.sizes:
        return None
    if any(c != index(axis) for c, axis in zip(store.coordinates, axes, strict=True)):
        return None
    longer = [axis for axis in axes if axis.size > 1]
    is_each_once = len(longer) == len({*longer}) and {*longer} == {axis for axis in copy.axes if axis.size > 1}
    return axes if is_each_once else None


def _ranges(condition: Expression, axes: Sequence[Axis]) -> list[Range] | None:
    """The coordinates that a condition holds for, if it is a range of them for each axis."""
    found, limits = {axis: (0, axis.size) for axis in axes}, limits_of(condition)
    if limits is None:
        return None
    for inside in limits:
        form = inside.coordinate
        if len(form.axes) != 1 or form.coefficient(form.axes[0]) != 1:
            return None
        (axis,) = form.axes
        if axis not in found:
            return None
        first, end = found[axis]
        first = first if inside.first is None else max(first, inside.first - form.constant)
        end = end if inside.end is None else min(end, inside.end - form.constant)
        found[axis] = (first, end)
    ranges = list(found.values())
    return ranges if all(first < end for first, end in ranges) else None


def _inside(store: Store, along: Sequence[Axis], value: Expression, ranges: Sequence[Range]) -> Compute:
    """The points within the ranges."""
    axes = grid([end - first for first, end in ranges])
    place = [index(axis) + first for axis, (first, _) in zip(axes, ranges, strict=True)]
    rewrite = substitute({Index(old): new for old, new in zip(along, place, strict=True)})
    return Compute(axes, (Store(store.tensor, tuple(place), rewrite(value)),))


def _margins(store: Store, value: Expression, ranges: Sequence[Range]) -> list[Compute]:
    """The points outside: dimension by dimension those that no earlier one has, before and behind the range."""
    sizes = store.tensor.sizes
    found = list[Compute]()
    for d, (first, end) in enumerate(ranges):
        ends = [(0, first), (end, sizes[d])]
        for width, some in itertools.groupby([e for e in ends if e[0] < e[1]], lambda e: e[1] - e[0]):
            others = [*((e - f, f) for f, e in ranges[:d]), (width, 0), *((size, 0) for size in sizes[d + 1 :])]
            axes = grid([size for size, _ in others])
            place = [index(axis) + start for axis, (_, start) in zip(axes, others, strict=True)]
            # Margins before and behind lie next to each other where rows follow one another: they are written together.
            stores = (Store(store.tensor, (*place[:d], place[d] + e[0], *place[d + 1 :]), value) for e in some)
            found.append(Compute(axes, tuple(stores)))
    return found


def _sums_long(producer: Compute, costs: GraphCosts) -> bool:
    """Whether a statement sums in so many steps that it matters little how it stores what comes out."""
    steps = _steps(producer)
    return len(steps) > 0 and min(steps) >= costs.surrounded_steps


def _steps(producer: Compute) -> list[int]:
    """The steps of the sums in a statement."""
    return [x.steps for s in producer.stores for x in walk(s.value) if isinstance(x, Fold)]


def _has_narrow_margins(inside: Compute, costs: GraphCosts) -> bool:
    """Whether what is to be written inside of margins are rows that these are one element wide around."""
    (store,) = inside.stores
    place, size = affine(store.coordinates[-1]), store.tensor.sizes[-1]
    row = inside.axes[-1].size
    is_row = costs.margined_row is not None and row >= costs.margined_row
    return is_row and 0 <= place.constant <= 1 and size - row - place.constant <= 1


def _has_rows_apart(producer: Compute, inside: Compute, costs: GraphCosts) -> bool:
    """Whether a statement sums in rows that do not run on in what it reads, as over windows: rows that do not run on in
    what it stores make it no slower then. Others may take all places of an image as one row. What sums nothing, as
    what joins tensors, takes less time than a copy of what is ``inside``, as long as its rows are."""
    if not _steps(producer):
        return any(axis.size >= costs.surrounded_row for axis in innermost_last(inside)[-1:])
    if not _sums_long(producer, costs):
        return False
    axes = innermost_last(producer)
    return len(axes) > 1 and axes[-1].size >= costs.surrounded_row and not run_on(producer, axes[-2:])
