"""Groups whose rows lie apart in memory, one behind the other: their elements are in a cache when they are read again.

What is folded over all images, as the mean and the variance of a channel in training, comes before what is computed
from it for every element, so both go through all of memory. Where a group is small enough for a thread's part of the
last cache, the two statements become those of a group, one after the other (``Each``): memory is read once. Groups
that are one run of memory are rows, whose values move into the statement of the elements (``groups.py``). Which group
comes first changes no bit.

Element-wise operators behind have to be fused with the elements before, so it comes behind fusion.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from opendml.expression.ir import Axis, Expression, Fold, Index, Tensor, index
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import (
    Compute,
    Definition,
    Each,
    Single,
    Statement,
    expressions_of,
    loads_in,
    reads_of,
    rewritten,
    writes_of,
)
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import Tuning


def groups_apart(definition: Definition, target: CpuTarget) -> tuple[Definition, dict[Single, Single]]:
    """The definition with such pairs of statements by groups, where these are enough for all threads and memory holds
    more than stays in a cache; and for each statement of a group that which it is a part of."""
    statements, wholes = list(definition.statements), dict[Single, Single]()
    for pair in reversed(list(_pairs(definition, target.tuning))):
        each = pair.each()
        statements[pair.number : pair.number + 2] = [each]
        wholes |= zip(each.statements, (pair.values, pair.elements), strict=True)
    return replace(definition, statements=tuple(statements)), wholes


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Statements number ``number`` and the next one of a definition: the ``values`` of groups, and the ``elements``,
    which read these, or only what they are made of; in that case they may be the first one of the two. ``groups`` are
    the axes of the values, each with that of the elements for it."""

    number: int
    values: Compute
    elements: Compute
    groups: Mapping[Axis, Axis]

    def each(self) -> Each:
        """Both for every group."""
        around = {axis: Axis(axis.name, axis.size) for axis in self.groups}
        parts = (
            _part(self.values, around),
            _part(self.elements, {other: around[axis] for axis, other in self.groups.items()}),
        )
        return Each(tuple(around.values()), parts, ())


def _part(statement: Compute, groups: Mapping[Axis, Axis]) -> Compute:
    """A statement for the elements of one group."""
    part = rewritten(statement, substitute({Index(axis): index(there) for axis, there in groups.items()}), {})
    assert isinstance(part, Compute)
    return replace(part, axes=tuple(axis for axis in part.axes if axis not in groups))


# Which pairs there are ------------------------------------------------------------------------------------------------


def _pairs(definition: Definition, tuning: Tuning) -> Iterator[_Pair]:
    """Those that are worth it, in order; no statement is in two."""
    statements, number = definition.statements, 0
    viewed = {tensor for view in definition.views for tensor in view}
    while number + 1 < len(statements):
        first, second = statements[number : number + 2]
        pair = _pair(number, first, second, viewed, tuning)
        if pair is None and writes_of(second).isdisjoint(reads_of(first)):
            pair = _pair(number, second, first, viewed, tuning)
        if pair is not None:
            yield pair
        number += 1 if pair is None else 2


def _pair(number: int, values: Statement, elements: Statement, viewed: set[Tensor], tuning: Tuning) -> _Pair | None:
    if not isinstance(values, Compute) or not isinstance(elements, Compute) or not _has_fold(values):
        return None
    if not _are_apart(values, elements, viewed):
        return None
    both = {t for t in reads_of(values) & reads_of(elements) if _bytes(t) >= tuning.prefetched_bytes}
    if sum(map(_bytes, both)) < tuning.groups_apart_bytes:
        return None
    groups = _groups(values, elements, both, tuning)
    count = math.prod(axis.size for axis in groups)
    is_even = -(-count // tuning.shares) * tuning.shares <= count * (1 + tuning.uneven_groups)
    is_near = sum(map(_bytes, reads_of(values))) <= count * tuning.group_apart_bytes
    return _Pair(number, values, elements, groups) if groups and is_even and is_near else None


def _has_fold(statement: Compute) -> bool:
    return any(isinstance(e, Fold) for root in expressions_of(statement) for e in walk(root))


def _are_apart(values: Compute, elements: Compute, viewed: set[Tensor]) -> bool:
    """Whether neither writes what the other one, or a point of its own, has still to read, under any name."""
    own, written = writes_of(values), writes_of(elements)
    read = reads_of(values) | reads_of(elements)
    if any(store.margins for store in (*values.stores, *elements.stores)) or not viewed.isdisjoint(read | written):
        return False
    return read.isdisjoint(written) and own.isdisjoint(reads_of(values))


def _groups(values: Compute, elements: Compute, shared: set[Tensor], tuning: Tuning) -> dict[Axis, Axis]:
    """For each axis of the values that of the elements which walks the same groups of what both read, if these lie in
    long rows and each element reads the values of its own group; else none."""
    found = dict[Axis, Axis]()
    for tensor in shared:
        for here, there, stride in zip(_walked(values, tensor), _walked(elements, tensor), tensor.strides, strict=True):
            if here is None or there is None or stride * tensor.type.bits // 8 < tuning.group_row_bytes:
                continue
            if found.setdefault(here, there) is not there:
                return {}
    is_whole = found.keys() == {axis for axis in values.axes if axis.size > 1}
    are_different = len(set(found.values())) == len(found)
    return found if is_whole and are_different and _read_their_own(values, elements, found) else {}


def _walked(statement: Compute, tensor: Tensor) -> list[Axis | None]:
    """By a tensor's dimensions the axis of a statement that walks all of one, wherever the statement reads it."""
    places = zip(*(e.coordinates for e in loads_in(statement) if e.tensor is tensor), strict=True)
    return [_axis(statement, set(found), size) for found, size in zip(places, tensor.sizes, strict=True)]


def _axis(statement: Compute, places: set[Expression], size: int) -> Axis | None:
    place = places.pop() if len(places) == 1 else None
    is_axis = isinstance(place, Index) and place.axis in statement.axes and 1 < place.axis.size == size
    return place.axis if isinstance(place, Index) and is_axis else None


def _read_their_own(values: Compute, elements: Compute, groups: Mapping[Axis, Axis]) -> bool:
    """Whether elements read no values but those of their own group."""
    rewrite = substitute({Index(axis): index(there) for axis, there in groups.items()})
    own = {store.tensor: tuple(map(rewrite, store.coordinates)) for store in values.stores}
    return all(own[e.tensor] == e.coordinates for e in loads_in(elements) if e.tensor in own)


def _bytes(tensor: Tensor) -> int:
    return tensor.extent * tensor.type.bits // 8
