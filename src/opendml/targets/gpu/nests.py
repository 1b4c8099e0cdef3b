"""Plain schedules: what one thread does for each kind of statement, as a nest whose work items are threads.

    Compute   a point
    Scan      all points along the axis, in order
    Scatter   all points that may store to the same elements, in order: those that differ in no axis of ``apart``
    Order     one sequence: it looks for the next element as often as one is wanted

Nothing is shared between threads, so there is no barrier within a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from opendml.expression.element_types import I64
from opendml.expression.ir import Axis, Variable, constant, index, select
from opendml.expression.statements import Compute, Order, Scan, Scatter, Single
from opendml.loops.nest import Body, Branch, Cut, Items, Leaf, Loop, Nest
from opendml.loops.rewriting import lower_loads, lowered_stores


def nest_of(statement: Single) -> Nest:
    """The nest of a statement."""
    return Nest(_NESTS[type(statement)](statement), aliased=True)


def _threads(axes: Sequence[Axis], body: Body) -> Body:
    """A thread for every point of some axes."""
    return (Items(tuple(Cut(axis) for axis in axes), body),)


def _compute(statement: Compute) -> Body:
    return _threads(statement.axes, (Leaf(lowered_stores(statement.stores)),))


def _scan(statement: Scan) -> Body:
    lower, state, along = lower_loads({}), statement.state, statement.along
    begin = Leaf(registers=state, values=tuple(map(lower, statement.initial)))
    step = Leaf(lowered_stores(statement.stores), state, tuple(map(lower, statement.step)))
    return _threads(statement.axes, (begin, Loop(along, 0, along.size, 1, (step,), carried=state)))


def _scatter(statement: Scatter) -> Body:
    body: Body = (Branch(lower_loads({})(statement.where), (Leaf(lowered_stores((statement.store,))),)),)
    for axis in reversed([axis for axis in statement.axes if axis not in statement.apart]):
        body = (Loop(axis, 0, axis.size, 1, body),)
    return _threads([axis for axis in statement.axes if axis in statement.apart], body)


def _order(statement: Order) -> Body:
    """As often as an element is wanted, the least one that comes behind the last one: no memory, and as many looks as
    there are pairs. A place of -1 says that there is none yet."""
    key, along, rank = lower_loads({})(statement.key), statement.along, statement.rank
    last_key, last = Variable("last_key", key.type), Variable("last", I64)
    best_key, best = Variable("best_key", key.type), statement.chosen
    nothing, place = (constant(0, key.type), constant(-1, I64)), index(along)
    is_behind = (key > last_key) | (key.equals(last_key) & (place > last))
    is_best = ((last < 0) | is_behind) & ((best < 0) | (key < best_key))
    chosen = select(is_best, key, best_key), select(is_best, place, best)
    look = Loop(along, 0, along.size, 1, (Leaf(registers=(best_key, best), values=chosen),), carried=(best_key, best))
    found = Leaf(lowered_stores(statement.stores), (last_key, last), (best_key, best))
    body: Body = (Leaf(registers=(best_key, best), values=nothing), look, found)
    ranks = Loop(rank, 0, rank.size, 1, body, carried=(last_key, last))
    return _threads(statement.axes, (Leaf(registers=(last_key, last), values=nothing), ranks))


_NESTS: Final[dict[type, Callable[[Any], Body]]] = {
    Compute: _compute,
    Scan: _scan,
    Scatter: _scatter,
    Order: _order,
}
