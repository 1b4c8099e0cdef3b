"""Copies with margins around them, as what is copied and the margins: the first may move into what computes it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from opendml.expression.affine import affine
from opendml.expression.ir import Axis, Binary, Const, Expression, Index, Select, grid, index
from opendml.expression.rewriting import conjuncts, substitute
from opendml.expression.statements import Compute, Store

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
    found = {axis: (0, axis.size) for axis in axes}
    for one in conjuncts(condition):
        if not isinstance(one, Binary) or one.operation not in ("ge", "lt") or not isinstance(one.right, Const):
            return None
        form = affine(one.left)
        if not form.is_pure or len(form.axes) != 1 or form.coefficient(form.axes[0]) != 1:
            return None
        (axis,) = form.axes
        if axis not in found:
            return None
        first, end = found[axis]
        limit = int(one.right.value) - form.constant
        found[axis] = (max(first, limit), end) if one.operation == "ge" else (first, min(end, limit))
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
