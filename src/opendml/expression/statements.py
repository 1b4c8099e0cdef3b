"""The grammar's statements: what they are, what they read and write, and the same statements over other tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakKeyDictionary

from opendml.expression.affine import Element
from opendml.expression.ir import Axis, Const, Expression, Load, Tensor, Variable
from opendml.expression.rewriting import Rewriter, walk


@dataclass(frozen=True, slots=True)
class RowMargins:
    """What a store of rows writes around them: where ``along`` is at the first point of a row, which has ``row`` of
    them, the ``before`` elements before it in the last dimension become ``value``, where it is at the last one, the
    ``behind`` elements behind it."""

    along: Axis
    row: int
    before: int
    behind: int
    value: Const

    @property
    def around(self) -> list[tuple[int, int]]:
        """For every element of a margin, how far it is from the row's point beside it, and where in the row that is."""
        first = [(-1 - n, 0) for n in range(self.before)]
        return first + [(1 + n, self.row - 1) for n in range(self.behind)]


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """``tensor[coordinates] = value``, and margins around its rows, if it has them."""

    tensor: Tensor
    coordinates: tuple[Expression, ...]
    value: Expression
    margins: RowMargins | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    """All ``stores`` for every point of ``axes``; every point writes elements of its own, in any order. It may read
    them, too: what was there before."""

    axes: tuple[Axis, ...]
    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """A running state along one axis, for every point of ``axes``.

    ``state`` begins as ``initial``; at every point of ``along``, in order, the stores are done (their values may use
    the state before the point, the variables ``state``, and the expressions ``step``, the state after it), then the
    state becomes ``step``.
    """

    axes: tuple[Axis, ...]
    along: Axis
    state: tuple[Variable, ...]
    initial: tuple[Expression, ...]
    step: tuple[Expression, ...]
    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """``store`` where ``where`` holds, for every point of ``axes`` in row-major order: the last of equals wins.

    The coordinates may depend on loaded values; ``where`` must imply that they are inside the tensor. Points that
    differ in an axis of ``apart`` never store to the same element, whatever is loaded.
    """

    axes: tuple[Axis, ...]
    where: Expression
    store: Store
    apart: tuple[Axis, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The points of ``along`` in ascending order of ``key``, equal ones in their own, for every point of ``axes``.

    For every point of ``rank``, which is no longer than ``along``, the stores are done: ``chosen`` is the coordinate
    along ``along`` of the point that has this place in the order. The key is an integer.
    """

    axes: tuple[Axis, ...]
    along: Axis
    key: Expression
    rank: Axis
    chosen: Variable
    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """``statements`` in order, for every point of ``axis`` in order; each sees what the ones before it wrote."""

    axis: Axis
    statements: tuple[Statement, ...]


Single = Compute | Scan | Scatter | Order
"""A statement without others in it: what becomes one kernel."""


@dataclass(frozen=True, slots=True, eq=False)
class Each:
    """``statements`` in order, for every point of ``axes``, in any order, at the same time too.

    Every point has the tensors ``own`` for itself, with nothing in them that it has not written, and writes no element
    of another tensor that any other point reads or writes. ``statements`` are no Repeat and no Each.
    """

    axes: tuple[Axis, ...]
    statements: tuple[Single, ...]
    own: tuple[Tensor, ...]


Statement = Single | Repeat | Each


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """What an operator or a graph computes: tensors in binding order (None: not given), and the statements.

    ``views`` are tensors that are the memory of another tensor, seen with another layout or type.
    """

    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]
    statements: tuple[Statement, ...]
    temporaries: tuple[Tensor, ...] = ()
    views: tuple[tuple[Tensor, Tensor], ...] = ()


# What they read and write, and the same over others ------------------------------------------------------------------


def stores_of(statement: Statement) -> tuple[Store, ...]:
    """All stores in a statement."""
    if isinstance(statement, Scatter):
        return (statement.store,)
    if isinstance(statement, Repeat | Each):
        return tuple(store for inner in statement.statements for store in stores_of(inner))
    return statement.stores


def expressions_of(statement: Statement) -> Iterator[Expression]:
    """All expressions of a statement: values, coordinates, states and conditions."""
    if isinstance(statement, Repeat | Each):
        for inner in statement.statements:
            yield from expressions_of(inner)
        return
    for store in stores_of(statement):
        yield store.value
        yield from store.coordinates
    if isinstance(statement, Scan):
        yield from statement.initial
        yield from statement.step
    if isinstance(statement, Scatter):
        yield statement.where
    if isinstance(statement, Order):
        yield statement.key


_tensors_of: Final = WeakKeyDictionary[Expression, frozenset[Tensor]]()
"""What expressions load from, for as long as they live: every stage asks it of the same ones."""


def tensors_read(expressions: Iterable[Expression]) -> set[Tensor]:
    """The tensors that expressions load from, by coordinates or by address."""
    found = set[Tensor]()
    for e in expressions:
        known = _tensors_of.get(e)
        if known is None:
            known = _tensors_of[e] = frozenset([x.tensor for x in walk(e) if isinstance(x, Load | Element)])
        found |= known
    return found


def reads_of(statement: Statement) -> set[Tensor]:
    """The tensors that a statement loads from."""
    return tensors_read(expressions_of(statement))


def loads_in(statement: Statement) -> Iterator[Load]:
    """All loads by coordinates in a statement."""
    return (e for root in expressions_of(statement) for e in walk(root) if isinstance(e, Load))


def writes_of(statement: Statement) -> set[Tensor]:
    """The tensors that a statement stores to."""
    return {store.tensor for store in stores_of(statement)}


def own_of(statements: Sequence[Statement]) -> Iterator[Tensor]:
    """The tensors that points of an Each have for themselves."""
    for statement in statements:
        if isinstance(statement, Each):
            yield from statement.own
        elif isinstance(statement, Repeat):
            yield from own_of(statement.statements)


def rewritten(
    statement: Statement, rewrite: Callable[[Expression], Expression], tensors: Mapping[Tensor, Tensor]
) -> Statement:
    """The statement with its expressions rewritten, and its stores going to other tensors where ``tensors`` says so."""
    if isinstance(statement, Repeat):
        return Repeat(statement.axis, tuple(rewritten(inner, rewrite, tensors) for inner in statement.statements))
    if isinstance(statement, Each):
        own = tuple(tensors.get(tensor, tensor) for tensor in statement.own)
        return Each(statement.axes, tuple(_simple(inner, rewrite, tensors) for inner in statement.statements), own)
    return _simple(statement, rewrite, tensors)


def _simple(statement: Single, rewrite: Callable[[Expression], Expression], tensors: Mapping[Tensor, Tensor]) -> Single:
    """As ``rewritten``, of a statement that holds no others."""

    def all_of(expressions: Sequence[Expression]) -> tuple[Expression, ...]:
        return tuple(map(rewrite, expressions))

    def store_of(store: Store) -> Store:
        tensor = tensors.get(store.tensor, store.tensor)
        return replace(store, tensor=tensor, coordinates=all_of(store.coordinates), value=rewrite(store.value))

    if isinstance(statement, Compute):
        return Compute(statement.axes, tuple(map(store_of, statement.stores)))
    if isinstance(statement, Scatter):
        return Scatter(statement.axes, rewrite(statement.where), store_of(statement.store), statement.apart)
    if isinstance(statement, Order):
        stores = tuple(map(store_of, statement.stores))
        return Order(statement.axes, statement.along, rewrite(statement.key), statement.rank, statement.chosen, stores)
    return Scan(
        statement.axes,
        statement.along,
        statement.state,
        all_of(statement.initial),
        all_of(statement.step),
        tuple(map(store_of, statement.stores)),
    )


def replaced_loads(replacements: Mapping[Tensor, Callable[[tuple[Expression, ...]], Expression]]) -> Rewriter:
    """A rewriter that replaces loads from some tensors by what a function makes of the (rewritten) coordinates."""

    def read(_: Expression, e: Expression) -> Expression:
        if isinstance(e, Load) and e.tensor in replacements:
            return replacements[e.tensor](e.coordinates)
        return e

    return Rewriter(read=read)


@dataclass(frozen=True, slots=True)
class Origin:
    """What a tensor's elements are made of, all of which is known before a program ever runs: behind the statements of
    ``definition``, ``element`` of what reads it at some coordinates, by ``integers`` of 4 bits, one a byte."""

    definition: Definition
    integers: Tensor
    element: Callable[[Sequence[Expression]], Expression]
