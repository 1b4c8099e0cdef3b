"""Fewer, larger statements: intermediate tensors that need not be written.

Two moves, repeated until neither applies:

* *push*: a statement that reads a tensor only at its own point moves into the statements that write the tensor
  (element-wise operators and residual sums become the epilogue of a convolution, a reduction, a join ...);
* *pull*: a tensor whose elements are cheap to compute where they are needed is computed there (views, and element-wise
  operators before a copy, a padding, a gather).

Neither changes an operation or the order of a fold, so a fused graph gives the same bits as its operators one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from opendml.expression.ir import (
    Axis,
    Compute,
    Const,
    Expression,
    Fold,
    Index,
    Load,
    Select,
    Statement,
    Store,
    Tensor,
)
from opendml.expression.rewriting import Rewriter, walk
from opendml.expression.statements import expressions_of, reads_of, replaced_loads, rewritten, stores_of, writes_of


def fuse(
    statements: Sequence[Statement], kept: frozenset[Tensor], views: Mapping[Tensor, Tensor] | None = None
) -> list[Statement]:
    """Statements that compute the ``kept`` tensors (and whatever they need) with fewer tensors in between.

    ``views`` are tensors that are the bytes of another one, which is kept.
    """
    state = _State(list(statements), kept, views or {})
    changed = True
    while changed:
        changed = False
        for tensor in state.candidates():
            if state.push(tensor) or state.pull(tensor):
                changed = True
    return state.statements


@dataclass(slots=True)
class _Facts:
    """What is known about one statement. What it reads through a view counts as read."""

    reads: set[Tensor]
    writes: set[Tensor]


@dataclass(slots=True)
class _State:
    statements: list[Statement]
    kept: frozenset[Tensor]
    views: Mapping[Tensor, Tensor]
    _facts: dict[int, tuple[Statement, _Facts]] = field(default_factory=dict)

    def facts(self, statement: Statement) -> _Facts:
        known = self._facts.get(id(statement))
        if known is None:
            reads = reads_of(statement)
            reads |= {self.views[t] for t in reads if t in self.views}
            known = self._facts[id(statement)] = (statement, _Facts(reads, writes_of(statement)))
        return known[1]

    def candidates(self) -> list[Tensor]:
        """Tensors that are written and read here and need not exist afterwards, in the order of their writers."""
        read = {t for s in self.statements for t in self.facts(s).reads}
        written = dict.fromkeys(store.tensor for s in self.statements for store in stores_of(s))
        return [t for t in written if t in read and t not in self.kept]

    def writers(self, tensor: Tensor) -> list[int]:
        return [i for i, s in enumerate(self.statements) if tensor in self.facts(s).writes]

    def readers(self, tensor: Tensor) -> list[int]:
        return [i for i, s in enumerate(self.statements) if tensor in self.facts(s).reads]

    # Push ------------------------------------------------------------------------------------------------------------

    def push(self, tensor: Tensor) -> bool:
        """Move the only reader of ``tensor`` into its writers."""
        readers, writers = self.readers(tensor), self.writers(tensor)
        if len(readers) != 1 or not writers or writers[-1] >= readers[0]:
            return False
        reader = self.statements[readers[0]]
        producers = [self.statements[i] for i in writers]
        if not isinstance(reader, Compute) or not _reads_own_point(reader, tensor):
            return False
        pairs = zip(writers, producers, strict=True)
        if not all(isinstance(p, Compute) and self._may_move(i, readers[0], writers) for i, p in pairs):
            return False
        # What else a producer writes is not there yet where it becomes one statement with the reader.
        if any((self.facts(p).writes - {tensor}) & self.facts(reader).reads for p in producers):
            return False
        # Two reductions in one loop nest would get in each other's way: each wants loops of its own.
        if _has_fold(reader) and (len(producers) > 1 or _has_fold(producers[0])):
            return False
        joined = [_joined(p, reader, tensor) for p in producers if isinstance(p, Compute)]
        self.statements[readers[0]] = joined[-1]
        self.statements[readers[0] : readers[0]] = joined[:-1]
        for i in reversed(writers):
            del self.statements[i]
        return True

    def _may_move(self, position: int, to: int, along: Collection[int]) -> bool:
        """Whether a statement may become part of a later one: nothing in between, but what moves ``along``, reads or
        writes what it writes, and nothing, the later one included, writes what it reads."""
        facts = self.facts(self.statements[position])
        between = [self.facts(self.statements[i]) for i in range(position + 1, to) if i not in along]
        later = self.facts(self.statements[to])
        return not any(
            other.reads & facts.writes or other.writes & (facts.reads | facts.writes) for other in between
        ) and not (later.writes & facts.reads)

    # Pull ------------------------------------------------------------------------------------------------------------

    def pull(self, tensor: Tensor) -> bool:
        """Compute the elements of ``tensor`` where they are read."""
        writers, readers = self.writers(tensor), self.readers(tensor)
        if len(writers) != 1 or not readers:
            return False
        producer = self.statements[writers[0]]
        if not isinstance(producer, Compute) or len(producer.stores) != 1 or not _covers(producer, tensor):
            return False
        value = producer.stores[0].value
        if any(isinstance(x, Fold) for x in walk(value)):
            return False
        is_view = isinstance(value, Load)
        if len(readers) > 1 and not is_view:
            return False
        consumers = [self.statements[i] for i in readers]
        if not all(isinstance(c, Compute) for c in consumers):
            return False
        if not self._stays_the_same(writers[0], readers[-1]):
            return False
        if any(_reads_in_folds(c, tensor) for c in consumers) and not (is_view and _keeps_rows(producer)):
            return False
        for i, consumer in zip(readers, consumers, strict=True):
            self.statements[i] = rewritten(consumer, replaced_loads({tensor: _inlined(producer)}), {})
        del self.statements[writers[0]]
        return True

    def _stays_the_same(self, position: int, to: int) -> bool:
        """Whether what a statement reads is not written before and by a later one."""
        reads = self.facts(self.statements[position]).reads
        return not any(self.facts(s).writes & reads for s in self.statements[position + 1 : to + 1])


def _has_fold(statement: Statement) -> bool:
    return any(isinstance(x, Fold) for e in expressions_of(statement) for x in walk(e))


def _is_index(e: Expression, axis: Axis) -> bool:
    return (isinstance(e, Index) and e.axis is axis) or (axis.size == 1 and isinstance(e, Const) and e.bits == 0)


def _reads_own_point(reader: Compute, tensor: Tensor) -> bool:
    """Whether ``reader`` has one point for every element of ``tensor`` and reads only that element of it."""
    if tuple(axis.size for axis in reader.axes) != tensor.sizes:
        return False
    for e in expressions_of(reader):
        for x in walk(e):
            if isinstance(x, Fold) and any(_loads_from(part, tensor) for part in x.children):
                return False
            if isinstance(x, Load) and x.tensor is tensor:
                pairs = zip(x.coordinates, reader.axes, strict=True)
                if not all(_is_index(coordinate, axis) for coordinate, axis in pairs):
                    return False
    return True


def _loads_from(e: Expression, tensor: Tensor) -> bool:
    return any(isinstance(x, Load) and x.tensor is tensor for x in walk(e))


def _reads_in_folds(statement: Statement, tensor: Tensor) -> bool:
    folds = (x for e in expressions_of(statement) for x in walk(e) if isinstance(x, Fold))
    return any(_loads_from(part, tensor) for fold in folds for part in fold.children)


def _joined(producer: Compute, reader: Compute, tensor: Tensor) -> Compute:
    """``producer`` with the stores of ``reader`` in place of its store to ``tensor``."""
    stores: list[Store] = []
    for store in producer.stores:
        if store.tensor is not tensor:
            stores.append(store)
            continue
        place = dict(zip(reader.axes, store.coordinates, strict=True))
        stores += [_moved(s, place, tensor, store.value) for s in reader.stores]
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
    uses = [any(isinstance(x, Index) and x.axis is last for x in walk(c)) for c in value.coordinates]
    moves = sum(uses) == 1 and uses[-1] and not any(isinstance(x, Select) for x in walk(value))
    return (moves or last.size == 1) and value.tensor.strides[-1] == 1


def _inlined(producer: Compute) -> Callable[[tuple[Expression, ...]], Expression]:
    """The value of ``producer`` at given coordinates."""
    (store,) = producer.stores

    def at(coordinates: tuple[Expression, ...]) -> Expression:
        place = dict(zip(producer.axes, coordinates, strict=True))

        def visit(e: Expression) -> Expression | None:
            return place.get(e.axis) if isinstance(e, Index) else None

        return Rewriter(visit)(store.value)

    return at
