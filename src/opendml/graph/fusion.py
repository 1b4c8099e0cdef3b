"""Fewer, larger statements: intermediate tensors that need not be written.

Three moves, repeated until none applies:

* *push*: a statement that reads a tensor only at its own point moves into the statements that write the tensor
  (element-wise operators and residual sums become the epilogue of a convolution, a reduction, a join ...), also where
  its dimensions are in another order or merged;
* *pull*: a tensor whose elements are cheap to compute where they are needed is computed there (views, and element-wise
  operators before a copy, a padding, a gather, a reduction);
* *surround*: what copies a tensor and puts margins around it becomes the copy, which is pushed, and the margins (a
  convolution writes what the next one reads).

What makes wider elements of a reduction's, as dequantizing does, moves to those who read it first, and only what is
left of it into the reduction. No move changes an operation or the order of a fold, so a fused graph gives the same
bits as its operators one by one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from opendml.expression.affine import Dependencies, affine, always_inside
from opendml.expression.element_types import I64
from opendml.expression.ir import (
    Axis,
    Binary,
    Const,
    Expression,
    Fold,
    Index,
    Load,
    Part,
    Select,
    Tensor,
    Variable,
    constant,
)
from opendml.expression.rewriting import Rewriter, asks_for, inner_first, substitute, walk
from opendml.expression.statements import (
    Compute,
    Statement,
    Store,
    expressions_of,
    loads_in,
    reads_of,
    replaced_loads,
    rewritten,
    stores_of,
    writes_of,
)
from opendml.graph.costs import GRAPH_COSTS, GraphCosts
from opendml.graph.layouts import (
    Digits,
    Factors,
    Reading,
    coordinate_digits,
    coordinate_factors,
    moved_coordinates,
    moved_digits,
)
from opendml.graph.margins import inside_and_margins, may_store_inside
from opendml.graph.rows import has_loops, innermost_last, loops_around, run_on

SLOW: Final = frozenset(("div", "rem", "sqrt"))
"""Operations that take as long as several others."""


def fuse(
    statements: Sequence[Statement],
    kept: frozenset[Tensor],
    views: Mapping[Tensor, Tensor] | None = None,
    costs: GraphCosts = GRAPH_COSTS,
) -> list[Statement]:
    """Statements that compute the ``kept`` tensors (and whatever they need) with fewer tensors in between.

    ``views`` are tensors that are the bytes of another one. ``costs`` are the target's.
    """
    state = _State(statements, kept, views or {}, costs)
    changed = True
    while changed:
        changed = False
        for tensor in state.candidates():
            if state.push(tensor) or state.pull(tensor) or state.surround(tensor):
                changed = True
        if not changed and state.has_postponed:
            changed, state.postpones, state.has_postponed = True, False, False
    return state.statements


def readers_in_writers(
    statements: Sequence[Statement], tensors: Iterable[Tensor], views: Mapping[Tensor, Tensor], costs: GraphCosts
) -> tuple[list[Statement], set[Tensor]]:
    """Statements of which the only reader of each of some tensors is a part of what writes it, where it may be; and the
    tensors that are gone."""
    state = _State(statements, frozenset(), views, costs)
    gone = {tensor for tensor in tensors if state.push(tensor)}
    return state.statements, gone


Order = tuple[int, ...]
"""Where a statement stands among the others: what takes its place stands behind ``(*place, number)``."""


@dataclass(slots=True)
class _Facts:
    """What is known about one statement. What it reads through a view counts as read, and is in ``viewed``.

    Facts of statements that others were joined to follow from those of the parts: ``size``, the number of expressions,
    and ``guards``, how many conditions on coordinates are around one another, are upper bounds then.
    """

    reads: set[Tensor]
    writes: set[Tensor]
    viewed: set[Tensor]
    has_fold: bool
    size: int
    guards: int

    def fits(self, other: _Facts, costs: GraphCosts, times: int = 1) -> bool:
        """Whether a statement made of this one and ``times`` times another is not too large."""
        size, guards = self.size + times * other.size, self.guards + other.guards
        return size <= costs.fused_expressions and guards <= costs.fused_guards

    def joined(self, other: _Facts, without: set[Tensor], times: int = 1) -> _Facts:
        """The facts of a statement made of this one and ``times`` times another, which no longer reads or writes some
        tensors."""
        return _Facts(
            (self.reads | other.reads) - without,
            (self.writes | other.writes) - without,
            (self.viewed | other.viewed) - without,
            self.has_fold or other.has_fold,
            self.size + times * other.size,
            self.guards + other.guards,
        )


def _facts_of(statement: Statement, views: Mapping[Tensor, Tensor]) -> _Facts:
    """The facts of a statement as it is."""
    found = {x for e in expressions_of(statement) for x in walk(e)}
    reads = {x.tensor for x in found if isinstance(x, Load)}
    viewed = {views[t] for t in reads if t in views}
    has_fold = any(isinstance(x, Fold) for x in found)
    return _Facts(reads | viewed, writes_of(statement), viewed, has_fold, len(found), _guards(statement, found))


def _guards(statement: Statement, found: Collection[Expression]) -> int:
    """How many Selects whose conditions load nothing stand around one another, at most."""
    guards = {
        x for x in found if isinstance(x, Select) and not any(isinstance(y, (Load, Part)) for y in walk(x.condition))
    }
    if not guards:
        return 0
    depths: dict[Expression, int] = {}
    for root in expressions_of(statement):
        for e in inner_first(root, depths):
            depths[e] = max((depths[child] for child in e.children), default=0) + (e in guards)
    return max(depths.values())


class _State:
    """Statements in their order, and which of them read and write a tensor."""

    def __init__(
        self,
        statements: Sequence[Statement],
        kept: frozenset[Tensor],
        views: Mapping[Tensor, Tensor],
        costs: GraphCosts,
    ) -> None:
        self.kept = kept
        self.costs = costs
        self.postpones, self.has_postponed = True, False
        self.views = views
        self._facts: dict[Statement, _Facts] = {}
        self._order: dict[Statement, Order] = {}
        self._readers: dict[Tensor, set[Statement]] = {}
        self._writers: dict[Tensor, set[Statement]] = {}
        for number, statement in enumerate(statements):
            self._enter(statement, (number,), _facts_of(statement, self.views))

    @property
    def statements(self) -> list[Statement]:
        """All statements in their order."""
        return sorted(self._order, key=self._order.__getitem__)

    def facts(self, statement: Statement) -> _Facts:
        return self._facts[statement]

    def candidates(self) -> list[Tensor]:
        """Tensors that are written and read here and need not exist afterwards, in the order of their writers."""
        written = dict.fromkeys(store.tensor for s in self.statements for store in stores_of(s))
        return [t for t in written if self._readers.get(t) and t not in self.kept]

    def writers(self, tensor: Tensor) -> list[Statement]:
        return sorted(self._writers.get(tensor, ()), key=self._order.__getitem__)

    def readers(self, tensor: Tensor) -> list[Statement]:
        return sorted(self._readers.get(tensor, ()), key=self._order.__getitem__)

    def _enter(self, statement: Statement, order: Order, facts: _Facts) -> None:
        self._facts[statement], self._order[statement] = facts, order
        for tensor in facts.reads:
            self._readers.setdefault(tensor, set()).add(statement)
        for tensor in facts.writes:
            self._writers.setdefault(tensor, set()).add(statement)

    def _remove(self, statement: Statement) -> Order:
        """Leave a statement out; where it stood."""
        facts = self._facts.pop(statement)
        for tensor in facts.reads:
            self._readers[tensor].discard(statement)
        for tensor in facts.writes:
            self._writers[tensor].discard(statement)
        return self._order.pop(statement)

    def _places(self, statements: Iterable[Statement], left_out: Collection[Statement]) -> list[Order]:
        """Where some statements stand, in order."""
        return sorted(self._order[statement] for statement in statements if statement not in left_out)

    # Push ------------------------------------------------------------------------------------------------------------

    def push(self, tensor: Tensor) -> bool:
        """Move the only reader of ``tensor`` into its writers."""
        if len(self._readers.get(tensor, ())) != 1:
            return False
        (reader,) = self._readers[tensor]
        producers = self.writers(tensor)
        if not producers or self._order[producers[-1]] >= self._order[reader]:
            return False
        later = self.facts(reader)
        if not all(self.facts(producer).fits(later, self.costs) for producer in producers):
            return False
        place = self._own_place(reader, tensor) if isinstance(reader, Compute) else None
        if not isinstance(reader, Compute) or place is None:
            return False
        if not all(isinstance(p, Compute) for p in producers) or not self._may_move(producers, reader):
            return False
        # What else a producer writes is not there yet where it becomes one statement with the reader.
        if any(not (self.facts(p).writes - {tensor}).isdisjoint(later.reads) for p in producers):
            return False
        # Two reductions in one loop nest would get in each other's way: each wants loops of its own.
        folding = [self.facts(p).has_fold for p in producers]
        if self.postpones and any(folding) and self._widens(reader, tensor):
            self.has_postponed = True
            return False
        if later.has_fold and (len(producers) > 1 or folding[0]):
            return False
        if any(folding) and not _keeps_neighbours(reader, place, tensor):
            return False
        joined = [_joined(p, reader, tensor, place) for p in producers if isinstance(p, Compute)]
        if not all(map(has_loops, joined)):
            return False
        facts = [self.facts(producer).joined(later, {tensor, place.name}) for producer in producers]
        for producer in producers:
            self._remove(producer)
        order = self._remove(reader)
        for number, (statement, some) in enumerate(zip(joined, facts, strict=True)):
            self._enter(statement, (*order, number) if len(joined) > 1 else order, some)
        return True

    def _widens(self, reader: Compute, tensor: Tensor) -> bool:
        """Whether a statement makes wider elements of a tensor's, for others to read: it is better a part of theirs,
        so that what is in memory is the narrow tensor."""
        written = [store.tensor for store in reader.stores]
        return all(one.type.bits > tensor.type.bits and one not in self.kept for one in written)

    def _own_place(self, reader: Compute, tensor: Tensor) -> _OwnPlace | None:
        """Where ``reader`` reads ``tensor``, if it reads it, or one view of it, only at its own points."""
        names = {t for t in reads_of(reader) if t is tensor or self.views.get(t) is tensor}
        if len(names) != 1:
            return None
        (name,) = names
        digits = _own_point(reader, name)
        if digits is None:
            return None
        if name is tensor:
            factors = tuple(tuple(int(d == e) for e in range(len(tensor.sizes))) for d in range(len(tensor.sizes)))
        elif math.prod(name.sizes) == math.prod(tensor.sizes):
            found = coordinate_factors(tensor, name)
            if found is None:
                return None
            factors = found
        else:
            return None
        return _OwnPlace(name, factors, digits)

    def _may_move(self, along: Sequence[Statement], to: Statement) -> bool:
        """Whether statements may become part of a later one: nothing in between, but what moves ``along``, reads or
        writes what they write, and nothing, the later one included, writes what they read."""
        end, moving, later = self._order[to], set(along), self.facts(to)
        touched: dict[Tensor, list[Order]] = {}  # where what one of them writes is read or written
        written: dict[Tensor, list[Order]] = {}  # where what one of them reads is written
        for statement in along:
            facts, order = self.facts(statement), self._order[statement]
            if not later.writes.isdisjoint(facts.reads):
                return False
            for tensor in facts.writes:
                if tensor not in touched:
                    others = self._readers.get(tensor, set()) | self._writers[tensor]
                    touched[tensor] = self._places(others, moving)
                if _between(touched[tensor], order, end):
                    return False
            for tensor in facts.reads:
                if tensor not in written:
                    written[tensor] = self._places(self._writers.get(tensor, ()), moving)
                if _between(written[tensor], order, end):
                    return False
        return True

    # Pull ------------------------------------------------------------------------------------------------------------

    def pull(self, tensor: Tensor) -> bool:
        """Compute the elements of ``tensor`` where they are read."""
        readers = self.readers(tensor)
        if len(self._writers[tensor]) != 1 or not readers:
            return False
        (producer,) = self._writers[tensor]
        if not isinstance(producer, Compute) or len(producer.stores) != 1 or not _covers(producer, tensor):
            return False
        own = self.facts(producer)
        if own.has_fold:
            return False
        consumers = [reader for reader in readers if isinstance(reader, Compute)]
        if len(consumers) != len(readers) or not self._stays_the_same(producer, readers[-1]):
            return False
        inlined = self._inlined_by_name(producer, tensor, consumers)
        if inlined is None:
            return False
        times = [sum(len(_loads_of(consumer, name)) for name in inlined) for consumer in consumers]
        if not all(self.facts(c).fits(own, self.costs, count) for c, count in zip(consumers, times, strict=True)):
            return False
        if not _is_worth_pulling(producer, consumers, inlined, self.costs):
            return False
        # What several read is computed once where it can be a part of what computes its own input.
        if len(readers) > 1 and not isinstance(producer.stores[0].value, Load) and self._push_any(own.reads):
            return True
        self._remove(producer)
        for consumer, count in zip(consumers, times, strict=True):
            facts = self.facts(consumer).joined(own, {*inlined}, count)
            self._enter(rewritten(consumer, replaced_loads(inlined), {}), self._remove(consumer), facts)
        return True

    def _inlined_by_name(
        self, producer: Compute, tensor: Tensor, consumers: Sequence[Compute]
    ) -> dict[Tensor, Reading] | None:
        """What readers find at coordinates in a tensor, and in the views of it that they read; None if that is not to
        be told. Through a view only what a copy found is told, by coordinates that loops need not divide."""
        inlined = {tensor: _inlined(producer)}
        for view in {name for c in consumers for name in reads_of(c) if self.views.get(name) is tensor}:
            digits = coordinate_digits(view, tensor)
            if digits is None or not isinstance(producer.stores[0].value, Load):
                return None
            if not all(_divides_outside(consumer, view, digits) for consumer in consumers):
                return None
            inlined[view] = _read_through(digits, inlined[tensor])
        return inlined

    def _push_any(self, tensors: set[Tensor]) -> bool:
        """Move the only reader of any of some tensors into its writers."""
        return any(self.push(t) for t in sorted(tensors - self.kept, key=lambda t: t.name))

    def _stays_the_same(self, producer: Statement, reader: Statement) -> bool:
        """Whether what a statement reads is not written before and by a later one."""
        start, end = self._order[producer], self._order[reader]
        writers = (w for tensor in self.facts(producer).reads for w in self._writers.get(tensor, ()))
        return not any(start < self._order[writer] <= end for writer in writers)

    # Surround --------------------------------------------------------------------------------------------------------

    def surround(self, tensor: Tensor) -> bool:
        """Where the only reader of ``tensor`` is a copy of it with margins, move the copy into the writers, which
        compute what takes longer, and let the margins be written apart."""
        if len(self._readers.get(tensor, ())) != 1:
            return False
        (reader,) = self._readers[tensor]
        facts = self.facts(reader)
        if not isinstance(reader, Compute) or facts.has_fold or not all(t.type.is_float for t in facts.writes):
            return False
        parts = inside_and_margins(reader)
        if parts is None:
            return False
        inside, margins = parts
        if not may_store_inside(self.writers(tensor), inside, self.costs):
            return False
        order = self._remove(reader)
        for number, part in enumerate((*margins, inside)):
            self._enter(part, (*order, number), _facts_of(part, self.views))
        if self.push(tensor):
            return True
        for part in (*margins, inside):
            self._remove(part)
        self._enter(reader, order, facts)
        return False


def _between(places: Sequence[Order], start: Order, end: Order) -> bool:
    """Whether any of some places, which are in order, is between two others."""
    number = bisect_right(places, start)
    return number < len(places) and places[number] < end


def _loads_of(statement: Statement, tensor: Tensor) -> set[Load]:
    return {load for load in loads_in(statement) if load.tensor is tensor}


def _is_index(e: Expression, axis: Axis) -> bool:
    return (isinstance(e, Index) and e.axis is axis) or (axis.size == 1 and isinstance(e, Const) and e.bits == 0)


def _is_moved_index(e: Expression, axis: Axis) -> bool:
    """Whether an expression is the coordinate of an axis, or that and a constant."""
    form = affine(e)
    return _is_index(e, axis) or (form.is_pure and form.axes == (axis,) and form.coefficient(axis) == 1)


class _Digit(NamedTuple):
    """One digit of the coordinate along a dimension: what is left when it is divided by ``below``, the sizes of lower
    digits, lowest first, modulo ``size`` (None for the highest digit)."""

    dimension: int
    below: tuple[int, ...]
    size: int | None

    def of(self, coordinates: Sequence[Expression]) -> Expression:
        value = coordinates[self.dimension]
        for size in self.below:
            value = value // size
        return value if self.size is None else value % self.size


class _OwnPlace(NamedTuple):
    """How a statement reads a tensor at its own points: by which name (a view's perhaps), how coordinates by that name
    follow from those in the tensor, and which part of them is the coordinate of each axis (None: 0)."""

    name: Tensor
    factors: Factors
    digits: tuple[_Digit | None, ...]

    def of(self, coordinates: Sequence[Expression]) -> tuple[Expression, ...]:
        """The coordinates of the statement's axes at an element of the tensor."""
        there = moved_coordinates(coordinates, self.factors)
        return tuple(constant(0, I64) if digit is None else digit.of(there) for digit in self.digits)


def _own_point(reader: Compute, tensor: Tensor) -> tuple[_Digit | None, ...] | None:
    """The coordinate of each axis of ``reader`` at a point of ``tensor``, if it has one point for every element of
    ``tensor`` and reads only that element of it."""
    loads = _loads_of(reader, tensor)
    if len(loads) != 1 or _folds_with(reader, tensor):
        return None
    (found,) = loads
    digits: dict[Axis, _Digit] = {}
    for d, (coordinate, size) in enumerate(zip(found.coordinates, tensor.sizes, strict=True)):
        axes = _digits(coordinate, size)
        if axes is None or any(axis in digits or axis not in reader.axes for axis in axes):
            return None
        if len(axes) > 1 and not run_on(reader, axes):
            return None
        for number, axis in enumerate(axes):
            below = tuple(inner.size for inner in reversed(axes[number + 1 :]))
            digits[axis] = _Digit(d, below, None if number == 0 else axis.size)
    if any(axis.size > 1 and axis not in digits for axis in reader.axes):
        return None
    return tuple(digits.get(axis) for axis in reader.axes)


def _digits(coordinate: Expression, size: int) -> list[Axis] | None:
    """The axes whose coordinates are the digits of ``coordinate``, the highest first, if these make up all of
    ``range(size)``: ``i * 3 + j`` for axes of sizes 2 and 3 makes up ``range(6)``."""
    form = affine(coordinate)
    if not form.is_pure or form.constant:
        return None
    axes = sorted(form.axes, key=form.coefficient, reverse=True)
    expected = 1
    for axis in reversed(axes):
        if form.coefficient(axis) != expected:
            return None
        expected *= axis.size
    return axes if expected == size and (axes or isinstance(coordinate, Const)) else None


def _keeps_neighbours(reader: Compute, place: _OwnPlace, tensor: Tensor) -> bool:
    """Whether neighbours in ``tensor`` stay neighbours in what ``reader`` stores, so that loops which suit the one suit
    the other."""
    last = _innermost(tensor)
    if last is None:
        return True
    moving = {
        axis
        for axis, digit in zip(reader.axes, place.digits, strict=True)
        if digit is not None and not digit.below and place.factors[digit.dimension][last] == 1
    }
    for store in reader.stores:
        innermost = _innermost(store.tensor)
        if innermost is None or not any(_is_moved_index(store.coordinates[innermost], axis) for axis in moving):
            return False
    return True


def _innermost(tensor: Tensor) -> int | None:
    """The dimension with the smallest step; None if there is only one element."""
    dimensions = [d for d, size in enumerate(tensor.sizes) if size > 1]
    return min(dimensions, key=lambda d: tensor.strides[d], default=None)


def _loads_from(e: Expression, tensor: Tensor) -> bool:
    return any(isinstance(x, Load) and x.tensor is tensor for x in walk(e))


def _folds_with(statement: Statement, tensor: Tensor) -> list[Fold]:
    """The folds of a statement that load from ``tensor``."""
    folds = (x for e in expressions_of(statement) for x in walk(e) if isinstance(x, Fold))
    return [fold for fold in folds if any(_loads_from(part, tensor) for part in fold.children)]


def _is_worth_pulling(
    producer: Compute, consumers: Sequence[Compute], names: Collection[Tensor], costs: GraphCosts
) -> bool:
    """Whether computing the elements that are read by some names where they are read costs less than writing and
    reading them."""
    value, tensor = producer.stores[0].value, producer.stores[0].tensor
    folds = [fold for consumer in consumers for name in names for fold in _folds_with(consumer, name)]
    if isinstance(value, Load):
        return not folds or _keeps_rows(producer)
    if any(fold.contract for fold in folds):
        return False  # Their factors are loads, which come in tiles.
    elements = math.prod(tensor.sizes)
    uses = sum(_evaluations(consumer, tensor) for consumer in consumers)
    work = _work(value, costs)
    if folds and len(consumers) == 1 and all(_keeps_rows_of(consumers[0], fold, costs) for fold in folds):
        work = min(work, costs.kept_operations)
    return uses <= elements or (uses - elements) * work <= elements * costs.memory_work


def _keeps_rows_of(consumer: Compute, fold: Fold, costs: GraphCosts) -> bool:
    """Whether what ``fold`` computes along a row is kept for the rest of ``consumer``, whose innermost loop is along
    the same row: then it is computed once."""
    size = fold.axes[-1].size * max(element.type.bits for element in fold.elements) // 8
    if fold.partials == 1 or len(fold.axes) != 1 or fold.where is not None or size > costs.kept_row_bytes:
        return False
    (around,) = loops_around((innermost_last(consumer),), Dependencies().of(fold))
    return math.prod(a.size for a in consumer.axes) == math.prod(a.size for a in around) * fold.axes[0].size


def _evaluations(consumer: Compute, tensor: Tensor) -> int:
    """How often a statement evaluates loads from ``tensor`` at most.

    A fold that is the same all along the innermost axes of what is stored, or at all points of a fold around it, is
    evaluated once for them.
    """
    found: dict[Expression, int] = {}
    free = Dependencies()
    outer = innermost_last(consumer)
    pending: list[tuple[Expression, tuple[tuple[Axis, ...], ...]]] = [(e, (outer,)) for e in expressions_of(consumer)]
    while pending:
        e, loops = pending.pop()
        if isinstance(e, Fold):
            loops = (*loops_around(loops, free.of(e)), e.axes)
        times = math.prod(axis.size for nest in loops for axis in nest)
        if found.get(e, 0) < times:
            found[e] = times
            pending += [(child, loops) for child in e.children]
    return sum(times for e, times in found.items() if isinstance(e, Load) and e.tensor is tensor)


def _work(value: Expression, costs: GraphCosts) -> int:
    """Operations of an expression, the first load left aside: there is one of the tensor itself otherwise."""
    parts = list(walk(value, lambda x: isinstance(x, Load)))
    loads = sum(isinstance(x, Load) for x in parts)
    operations = [getattr(x, "operation", "") for x in parts if not isinstance(x, (Const, Index, Load))]
    slow = sum(operation in SLOW for operation in operations)
    return len(operations) + slow * (costs.slow_operation - 1) + max(loads - 1, 0)


def _joined(producer: Compute, reader: Compute, tensor: Tensor, own: _OwnPlace) -> Compute:
    """``producer`` with the stores of ``reader`` in place of its store to ``tensor``."""
    stores: list[Store] = []
    for store in producer.stores:
        if store.tensor is not tensor:
            stores.append(store)
            continue
        place = dict(zip(reader.axes, own.of(store.coordinates), strict=True))
        stores += [_moved(s, place, own.name, store.value) for s in reader.stores]
    return Compute(producer.axes, tuple(stores))


def _moved(store: Store, place: dict[Axis, Expression], tensor: Tensor, value: Expression) -> Store:
    """A store of the reader at the point of the producer that ``place`` gives."""

    def visit(e: Expression) -> Expression | None:
        if isinstance(e, Index):
            return place.get(e.axis)
        if isinstance(e, Load) and e.tensor is tensor:
            return value
        return None

    rewrite = Rewriter(visit)
    return Store(store.tensor, tuple(map(rewrite, store.coordinates)), rewrite(store.value))


def _covers(producer: Compute, tensor: Tensor) -> bool:
    """Whether every point of ``producer`` writes the element of its own coordinates, and all of them."""
    coordinates = producer.stores[0].coordinates
    if len(producer.axes) != len(coordinates) or tuple(axis.size for axis in producer.axes) != tensor.sizes:
        return False
    return all(_is_index(coordinate, axis) for coordinate, axis in zip(coordinates, producer.axes, strict=True))


def _keeps_rows(producer: Compute) -> bool:
    """Whether neighbours along the last axis stay neighbours in what a view loads."""
    value = producer.stores[0].value
    if not isinstance(value, Load) or not producer.axes:
        return False
    last = producer.axes[-1]
    uses = [asks_for(c, (last,)) for c in value.coordinates]
    moves = sum(uses) == 1 and uses[-1] and not any(isinstance(x, Select) for x in walk(value))
    return (moves or last.size == 1) and value.tensor.strides[-1] == 1


def _divides_outside(consumer: Compute, view: Tensor, digits: Digits) -> bool:
    """Whether what a statement reads through a view is inside of it, and its innermost loops, those of its folds, and
    those of the rows or columns of its products, have no division of their coordinates for it."""
    free, folds = Dependencies(), _folds_with(consumer, view)
    inner: set[Axis | Variable] = {fold_axis for fold in folds for fold_axis in fold.axes}
    inner.update(innermost_last(consumer)[-1:])
    for product in (fold.elements[0] for fold in folds if fold.contract):
        left, right = map(free.of, product.children)
        inner |= left ^ right
    for found in _loads_of(consumer, view):
        quotients = {q for c in moved_digits(found.coordinates, digits) for q in walk(c) if _is_quotient(q)}
        quotients -= {q for c in found.coordinates for q in walk(c)}
        if not always_inside(found, {}) or any(inner & free.of(q) for q in quotients):
            return False
    return True


def _is_quotient(e: Expression) -> bool:
    return isinstance(e, Binary) and e.operation in ("div", "rem")


def _read_through(digits: Digits, inlined: Reading) -> Reading:
    """What is found at coordinates in a view, where those in the tensor are the sums of ``digits``."""
    return lambda coordinates: inlined(moved_digits(coordinates, digits))


def _inlined(producer: Compute) -> Reading:
    """The value of ``producer`` at given coordinates."""
    (store,) = producer.stores

    def at(coordinates: tuple[Expression, ...]) -> Expression:
        return substitute({Index(axis): c for axis, c in zip(producer.axes, coordinates, strict=True)})(store.value)

    return at
