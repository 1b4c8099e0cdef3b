"""Plain schedules: what one thread does for each kind of statement, and its text.

    Compute   a point
    Scan      all points along the axis, in order
    Scatter   all points that may store to the same elements, in order: those that differ in no axis of ``apart``
    Order     one sequence: it looks for the next element as often as one is wanted

Nothing is shared between threads, so there is no barrier within a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from opendml.expression.element_types import I64
from opendml.expression.ir import Axis, Tensor
from opendml.expression.statements import Compute, Order, Scan, Scatter, Single, Store, reads_of, stores_of
from opendml.llvm.builder import Builder, Value, index_value
from opendml.targets.gpu.dialect import Dialect
from opendml.targets.gpu.evaluation import Evaluator, Name, stored_type


@dataclass(frozen=True, slots=True)
class Kernel:
    """One statement: ``tensors`` are its pointers, in order, behind which the positions of the loops around it come;
    ``points``: how many threads it needs."""

    name: str
    text: str
    declarations: frozenset[str]
    tensors: tuple[Tensor, ...]
    points: int


def write_kernel(
    name: str,
    statement: Single,
    loops: Sequence[Axis],
    start: Callable[[Tensor], int],
    dialect: Dialect,
    *,
    divides_exactly: bool,
) -> Kernel:
    """The kernel of a statement within ``loops``, which the host runs. ``start`` gives how many elements into its
    buffer a tensor begins."""
    used = {*reads_of(statement), *(store.tensor for store in stores_of(statement))}
    tensors = tuple(sorted(used, key=lambda tensor: (tensor.role, tensor.name, id(tensor))))
    numbers = {tensor: number for number, tensor in enumerate(tensors)}
    builder = Builder()
    evaluator = Evaluator(builder, lambda t: (f"%p{numbers[t]}", start(t)), divides_exactly=divides_exactly)
    axes = _threads(statement)
    points = math.prod(axis.size for axis in axes)
    for line in dialect.position:
        builder.line(line)
    builder.line(f"%is_point = icmp ult i64 %position, {points}")
    builder.line("br i1 %is_point, label %point, label %end")
    builder.begin("point")
    around: dict[Name, Value] = {axis: index_value(f"%l{number}") for number, axis in enumerate(loops)}
    with evaluator.at({**around, **_decoded(builder, axes)}):
        _WRITE[type(statement)](evaluator, statement)
    builder.jump("end")
    parameters = [f"ptr addrspace(1) %p{number}" for number in range(len(tensors))]
    parameters += [f"i64 %l{number}" for number in range(len(loops))]
    head = f"define {dialect.kernel} void @{name}({', '.join(parameters)}) {{\nentry:"
    text = "\n".join((head, *evaluator.allocations, *builder.lines, "end:\n  ret void\n}"))
    return Kernel(name, text, frozenset((*builder.declarations, *dialect.declarations)), tensors, points)


def _threads(statement: Single) -> tuple[Axis, ...]:
    """The axes that are shared out among threads."""
    if isinstance(statement, Scatter):
        return tuple(axis for axis in statement.axes if axis in statement.apart)
    return statement.axes


def _decoded(builder: Builder, axes: Sequence[Axis]) -> dict[Name, Value]:
    """The coordinates of a thread, in row-major order."""
    coordinates: dict[Name, Value] = {}
    rest = Value("%position", I64)
    large = [axis for axis in axes if axis.size > 1]
    coordinates |= {axis: index_value(0) for axis in axes if axis.size == 1}
    for axis in reversed(large):
        if axis is large[0]:
            coordinates[axis] = rest
        else:
            coordinates[axis] = builder.binary("rem", rest, index_value(axis.size))
            rest = builder.binary("div", rest, index_value(axis.size))
    return coordinates


def _store_all(evaluator: Evaluator, stores: Sequence[Store]) -> None:
    """All values are known before the first is stored."""
    values = [evaluator.value(store.value) for store in stores]
    for store, value in zip(stores, values, strict=True):
        evaluator.store(store.tensor, store.coordinates, value)


def _compute(evaluator: Evaluator, statement: Compute) -> None:
    _store_all(evaluator, statement.stores)


def _scan(evaluator: Evaluator, statement: Scan) -> None:
    initial = evaluator.values(statement.initial)
    inner = [*statement.step, *(store.value for store in statement.stores)]
    evaluator.prepare(inner, frozenset((statement.along, *statement.state)))

    def step(state: list[Value]) -> Sequence[Value]:
        with evaluator.at(dict(zip(statement.state, state, strict=True))):
            following = evaluator.values(statement.step)
            _store_all(evaluator, statement.stores)
            return following

    evaluator.loop(statement.along, initial, step)


def _scatter(evaluator: Evaluator, statement: Scatter) -> None:
    def store() -> Sequence[Value]:
        _store_all(evaluator, (statement.store,))
        return ()

    def nest(axes: Sequence[Axis]) -> Sequence[Value]:
        if axes:
            return evaluator.loop(axes[0], (), lambda _: nest(axes[1:]))
        return evaluator.when(evaluator.value(statement.where), store)

    nest([axis for axis in statement.axes if axis not in statement.apart])


def _order(evaluator: Evaluator, statement: Order) -> None:
    """As often as an element is wanted, the least one that comes behind the last one: no memory, and as many looks as
    there are pairs."""
    builder, key = evaluator.builder, stored_type(statement.key.type)
    evaluator.prepare((statement.key,), frozenset((statement.along,)))
    nothing = Value("0", key)

    def rank(state: list[Value]) -> Sequence[Value]:
        last_key, last = state

        def look(best: list[Value]) -> Sequence[Value]:
            best_key, best_place = best
            here, place = evaluator.value(statement.key), evaluator.bound(statement.along)
            is_first = builder.binary("lt", last, index_value(0))
            is_equal = builder.binary("eq", here, last_key)
            is_later = builder.binary("and", is_equal, builder.binary("gt", place, last))
            is_behind = builder.binary("or", builder.binary("gt", here, last_key), is_later)
            is_left = builder.binary("or", is_first, is_behind)
            is_less = builder.binary("lt", here, best_key)
            is_none = builder.binary("lt", best_place, index_value(0))
            is_best = builder.binary("and", is_left, builder.binary("or", is_none, is_less))
            return [builder.select(is_best, here, best_key), builder.select(is_best, place, best_place)]

        chosen_key, chosen = evaluator.loop(statement.along, [nothing, _NONE], look)
        with evaluator.at({statement.chosen: chosen}):
            _store_all(evaluator, statement.stores)
        return [chosen_key, chosen]

    evaluator.loop(statement.rank, [nothing, _NONE], rank)


_NONE: Final = index_value(-1)
"""The place of an element that there is not."""

_WRITE: Final[dict[type, Callable[[Evaluator, Any], None]]] = {
    Compute: _compute,
    Scan: _scan,
    Scatter: _scatter,
    Order: _order,
}
