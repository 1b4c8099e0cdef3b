"""Tensors that live in another one from the beginning: what is copied there as a whole is computed there.

Where tensors are joined, a part that nobody else reads is written to its place by what computes it (*push*). A part
that others read, too, as the way around some layers is, would be written, read by a copy and written once more. Here
all who read it read that place instead, its writers write it there, and the copy is gone.

    t = relu(...)                      joined[:, :, 1:, 1:] = relu(...)
    u = pooled(t)                ->    u = pooled(joined[:, :, 1:, 1:])
    joined[:, :, 1:, 1:] = t

So does a tensor that is copied with margins around it, as what goes around a window's sum and into it, where its
writers may as well store it there: of the copy the margins are left.

This comes when all else is fused: what writes parts of one tensor no longer moves past what reads other parts of it.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opendml.expression.affine import Affine, Region, affine, interval, meet
from opendml.expression.element_types import I64
from opendml.expression.ir import Expression, Load, Tensor, constant
from opendml.expression.rewriting import Rewriter
from opendml.expression.statements import Compute, Statement, Store, reads_of, writes_of
from opendml.graph.costs import GRAPH_COSTS, GraphCosts
from opendml.graph.fusion import Order
from opendml.graph.margins import inside_and_margins, may_store_inside
from opendml.graph.rows import fold_evaluations, has_loops, last_rows_run_on, loops_run_on


@dataclass(frozen=True, slots=True)
class Lodging:
    """Where a tensor lives in its ``host``: for each dimension of that the tensor's that goes along it, None if none
    does, and the place of its first element."""

    host: Tensor
    places: tuple[tuple[int | None, int], ...]

    def at(self, coordinates: Sequence[Expression]) -> tuple[Expression, ...]:
        """Where in the host an element is."""
        return tuple(
            constant(first, I64) if d is None else coordinates[d] + first if first else coordinates[d]
            for d, first in self.places
        )

    def behind(self, inner: Lodging) -> Lodging:
        """Where a tensor lives that lives in one that lives here."""
        places = [
            (None, first) if d is None else (inner.places[d][0], inner.places[d][1] + first) for d, first in self.places
        ]
        return Lodging(self.host, tuple(places))

    def region(self, tensor: Tensor) -> Region:
        """All that the tensor takes of the host."""
        return tuple((first, first) if d is None else (first, first + tensor.sizes[d] - 1) for d, first in self.places)


@dataclass(frozen=True, slots=True)
class _Copy:
    """Of a tensor: which ``region`` a statement copies, what it does at the points ``inside`` of margins, and what is
    left of it without them."""

    region: Region
    inside: Compute
    margins: Sequence[Compute]


@dataclass(frozen=True, slots=True)
class Lodged:
    """Statements, and where tensors of theirs live that are none any more."""

    statements: list[Statement]
    lodgings: Mapping[Tensor, Lodging]


def lodged(
    statements: Sequence[Statement],
    kept: frozenset[Tensor],
    views: Mapping[Tensor, Tensor],
    costs: GraphCosts = GRAPH_COSTS,
) -> Lodged:
    """The statements without the copies of tensors that may live where they are copied to. None of the ``kept``
    tensors does, and none that is seen by another name in ``views``."""
    state = _Statements(statements, costs)
    barred = {*kept, *views, *views.values()}
    lodgings = dict[Tensor, Lodging]()
    waiting, is_changed = [t for t in state.written() if t not in barred], True
    while is_changed:
        found = {tensor: one for tensor in waiting if (one := state.lodge(tensor)) is not None}
        for tensor, lodging in found.items():
            lodgings = {t: lodging.behind(inner) if inner.host is tensor else inner for t, inner in lodgings.items()}
            lodgings[tensor] = lodging
        waiting, is_changed = [tensor for tensor in waiting if tensor not in found], bool(found)
    return Lodged(state.in_order(), lodgings)


class _Statements:
    """Statements by where they stand, and which of them read and write a tensor."""

    def __init__(self, statements: Sequence[Statement], costs: GraphCosts) -> None:
        self._costs = costs
        self._statements: dict[Order, Statement] = {(number,): s for number, s in enumerate(statements)}
        self._readers, self._writers = defaultdict[Tensor, set[Order]](set), defaultdict[Tensor, set[Order]](set)
        for place in self._statements:
            self._enter(place)

    def in_order(self) -> list[Statement]:
        """All that are left."""
        return [self._statements[place] for place in sorted(self._statements)]

    def written(self) -> Iterator[Tensor]:
        """All tensors that are written and read."""
        return iter([tensor for tensor in self._writers if self._readers[tensor]])

    def lodge(self, tensor: Tensor) -> Lodging | None:
        """Let a tensor live where it is copied to, if it is as a whole, and somebody else reads it."""
        copies = defaultdict[Lodging, dict[Order, _Copy]](dict)
        for place in sorted(self._readers[tensor]):
            found = _copied(self._statements[place], tensor)
            if found is not None:
                lodging, copy = found
                copies[lodging][place] = copy
        for lodging, parts in copies.items():
            regions = [copy.region for copy in parts.values()]
            if _covers(tensor, regions) and self._is_free(lodging, tensor, parts) and self._may_store(tensor, parts):
                moved = self._moved(tensor, lodging, parts)
                if moved is not None:
                    self._replace(parts, moved)
                    return lodging
        return None

    def _replace(self, copies: Mapping[Order, _Copy], moved: Mapping[Order, Statement]) -> None:
        """Statements that have ``moved``, and of ``copies`` their margins, instead of those that there are."""
        for place in (*copies, *moved):
            self._leave(place)
        margins = {
            (*place, number): margin for place, copy in copies.items() for number, margin in enumerate(copy.margins)
        }
        for place, statement in (margins | dict(moved)).items():
            self._statements[place] = statement
            self._enter(place)

    def _may_store(self, tensor: Tensor, copies: Mapping[Order, _Copy]) -> bool:
        """Whether what writes a tensor may as well write it within margins, where copies have some."""
        writers = [self._statements[place] for place in self._writers[tensor]]
        return all(
            tensor.type.is_float and may_store_inside(writers, copy.inside, self._costs)
            for copy in copies.values()
            if copy.margins
        )

    def _is_free(self, lodging: Lodging, tensor: Tensor, copies: Mapping[Order, _Copy]) -> bool:
        """Whether nothing but the ``copies`` writes to the place."""
        own = lodging.region(tensor)
        for place in self._writers[lodging.host] - copies.keys():
            writer = self._statements[place]
            if not isinstance(writer, Compute):
                return False
            written = (region_of(store.coordinates) for store in writer.stores if store.tensor is lodging.host)
            if any(region is None or meet(region, own) for region in written):
                return False
        return True

    def _moved(self, tensor: Tensor, lodging: Lodging, copies: Mapping[Order, _Copy]) -> dict[Order, Statement] | None:
        """All others that read or write the tensor with its elements in the host; None where loops would not be as
        long as they are, or folds would be computed more often."""

        def visit(e: Expression) -> Expression | None:
            if isinstance(e, Load) and e.tensor is tensor:
                return Load(lodging.host, lodging.at(tuple(map(rewrite, e.coordinates))))
            return None

        rewrite, has_margins = Rewriter(visit), any(copy.margins for copy in copies.values())
        found = dict[Order, Statement]()
        for place in (self._readers[tensor] | self._writers[tensor]) - copies.keys():
            before = self._statements[place]
            if not isinstance(before, Compute):
                return None
            after = Compute(before.axes, tuple(_moved_store(s, tensor, lodging, rewrite) for s in before.stores))
            if not has_loops(after) or (last_rows_run_on(before) and not last_rows_run_on(after)):
                return None
            # Margins part rows further out, too: what goes through all of them at once would have shorter loops.
            if has_margins and loops_run_on(after) < loops_run_on(before):
                return None
            if fold_evaluations(after) > fold_evaluations(before):
                return None
            found[place] = after
        return found

    def _enter(self, place: Order) -> None:
        statement = self._statements[place]
        for tensor in reads_of(statement):
            self._readers[tensor].add(place)
        for tensor in writes_of(statement):
            self._writers[tensor].add(place)

    def _leave(self, place: Order) -> None:
        statement = self._statements.pop(place)
        for tensor in reads_of(statement):
            self._readers[tensor].discard(place)
        for tensor in writes_of(statement):
            self._writers[tensor].discard(place)


def _moved_store(store: Store, tensor: Tensor, lodging: Lodging, rewrite: Rewriter) -> Store:
    coordinates = tuple(map(rewrite, store.coordinates))
    if store.tensor is tensor:
        return Store(lodging.host, lodging.at(coordinates), rewrite(store.value))
    return Store(store.tensor, coordinates, rewrite(store.value))


def _copied(statement: Statement, tensor: Tensor) -> tuple[Lodging, _Copy] | None:
    """Where a statement that does nothing else copies elements of a tensor to, and which ones."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return None
    copy, margins = inside_and_margins(statement) or (statement, [])
    (store,) = copy.stores
    value, host = store.value, store.tensor
    if not isinstance(value, Load) or value.tensor is not tensor or host is tensor or host.type is not tensor.type:
        return None
    sources, targets = [[affine(c) for c in place] for place in (value.coordinates, store.coordinates)]
    if any(not f.is_pure or len(f.axes) > 1 or any(c != 1 for _, c in f.terms) for f in (*sources, *targets)):
        return None
    along = _dimensions_along(sources, targets, tensor)
    if along is None or any(axis.size > 1 for axis in {*copy.axes} - {a for form in targets for a in form.axes}):
        return None
    places = tuple(
        (along[d], form.constant - sources[along[d]].constant) if d in along else (None, form.constant)
        for d, form in enumerate(targets)
    )
    ends = (f.constant + sum(axis.size - 1 for axis in f.axes) for f in sources)
    region = tuple((f.constant, end) for f, end in zip(sources, ends, strict=True))
    return Lodging(host, places), _Copy(region, copy, margins)


def _dimensions_along(sources: Sequence[Affine], targets: Sequence[Affine], tensor: Tensor) -> dict[int, int] | None:
    """For dimensions of what is written those of the tensor that go along them, by an axis of their own."""
    walked, written = ({form.axes[0]: d for d, form in enumerate(forms) if form.axes} for forms in (sources, targets))
    is_each_once = all(
        len(found) == sum(bool(f.axes) for f in forms) for found, forms in ((walked, sources), (written, targets))
    )
    if not is_each_once or walked.keys() != written.keys():
        return None
    along = {d: walked[axis] for axis, d in written.items()}
    # Dimensions along which a piece has one coordinate only are taken to be in the same order in both.
    still, free = ([d for d, form in enumerate(forms) if not form.axes] for forms in (sources, targets))
    if len(still) != len(free):
        still = [d for d in still if tensor.sizes[d] > 1]
    if len(still) == len(free):
        return along | dict(zip(free, still, strict=True))
    return None if still else along


def _covers(tensor: Tensor, regions: Sequence[Region]) -> bool:
    """Whether regions are all of a tensor, each element in one of them."""
    elements = sum(math.prod(high - low + 1 for low, high in region) for region in regions)
    apart = not any(meet(a, b) for a, b in itertools.combinations(regions, 2))
    return apart and elements == math.prod(tensor.sizes)


def region_of(coordinates: Sequence[Expression]) -> Region | None:
    """Where in a tensor elements are, if that is known."""
    found = [interval(coordinate, {}) for coordinate in coordinates]
    known = [one for one in found if one is not None]
    return tuple(known) if len(known) == len(found) else None


def is_within(region: Region, other: Region) -> bool:
    """Whether all elements of a region are in another one."""
    return all(x[0] >= y[0] and x[1] <= y[1] for x, y in zip(region, other, strict=True))
