"""What a statement costs whatever its schedule: the memory that it has to touch, its floating-point operations, and
those of products of bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from opendml.expression.affine import Dependencies, Interval, address_of
from opendml.expression.ir import (
    WORD_PRODUCTS,
    Axis,
    Binary,
    Expression,
    Fold,
    FusedMultiplyAdd,
    Load,
    Tensor,
    Unary,
    Variable,
)
from opendml.expression.limits import share_inside
from opendml.expression.rewriting import walk
from opendml.expression.statements import Order, Scan, Single, expressions_of, stores_of

ARITHMETIC: Final = frozenset(("add", "sub", "mul", "div", "rem"))
"""Operations of two floating-point numbers that count as one; comparisons and minima do not count."""

WORD_OPERATIONS: Final = {operation: 2 * count for operation, count in WORD_PRODUCTS.items()}
"""Operations of two words: a product of each pair of their parts, and an addition."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes that are read and written at least, each element once; floating-point operations, and integer ones, of
    products of words that hold several numbers.

    An expression is counted once for every point of the axes that it depends on, as if everything that does not change
    in a loop were computed before it; a fused multiply-add, or a step of a sum of products, is two operations. Both
    branches of a Select count, and steps of a fold that its condition leaves out, but for those of sums of products.
    """

    bytes_read: dict[Tensor, int]
    bytes_written: dict[Tensor, int]
    operations: int
    integer_operations: int


def cost_of(statement: Single, repeats: Iterable[Axis] = ()) -> Cost:
    """The cost of a statement once, at one point of the Repeats around it."""
    count = _Count(statement, frozenset(repeats))
    reads: dict[Tensor, _Footprint] = {}
    writes: dict[Tensor, _Footprint] = {}
    for e in count.expressions():
        if isinstance(e, Load):
            reads.setdefault(e.tensor, _Footprint(e.tensor)).add(e.coordinates, count)
    for store in stores_of(statement):
        writes.setdefault(store.tensor, _Footprint(store.tensor)).add(store.coordinates, count)
    return Cost(
        {tensor: footprint.size_in_bytes for tensor, footprint in reads.items()},
        {tensor: footprint.size_in_bytes for tensor, footprint in writes.items()},
        count.operations(_operations),
        count.operations(_integer_operations),
    )


class _Count:
    """How often the expressions of a statement are evaluated."""

    def __init__(self, statement: Single, repeats: frozenset[Axis]) -> None:
        self.statement = statement
        self._repeats = repeats
        self._dependencies = Dependencies()
        # The axes that a bound variable differs along.
        self._state, self._state_axes = frozenset[Variable](), frozenset[Axis]()
        if isinstance(statement, Scan):
            self._state, self._state_axes = frozenset(statement.state), frozenset((*statement.axes, statement.along))
        elif isinstance(statement, Order):
            self._state, self._state_axes = frozenset((statement.chosen,)), frozenset((*statement.axes, statement.rank))

    def expressions(self) -> Iterator[Expression]:
        """All expressions of the statement, each once."""
        return iter(dict.fromkeys(e for root in expressions_of(self.statement) for e in walk(root)))

    def axes_of(self, e: Expression) -> frozenset[Axis]:
        """The axes that the value of an expression differs along."""
        free = self._dependencies.of(e)
        axes = frozenset(axis for axis in free if isinstance(axis, Axis)) - self._repeats
        return axes | self._state_axes if free & self._state else axes

    def operations(self, counted: Callable[[Expression], int]) -> int:
        """Operations of the statement, as they are ``counted`` of an expression."""
        total, parts = 0, self._parts_of_sums()
        for e in _outside_of_combines(expressions_of(self.statement)):
            total += round(counted(e) * _points(self.axes_of(e)) * parts.get(e, 1))
            if isinstance(e, Fold):
                steps = round(_points(self.axes_of(e) | frozenset(e.axes)) * parts.get(e, 1))
                total += steps * sum(map(counted, _outside_of_combines(e.combine.result)))
        return total

    def _parts_of_sums(self) -> dict[Expression, float]:
        """Of sums of products that leave some out, and of these products, the part of all points that is left."""
        found = dict[Expression, float]()
        for e in self.expressions():
            if isinstance(e, Fold) and e.contract and e.where is not None:
                found |= dict.fromkeys((e, *e.elements), share_inside(e.where))
        return found


def _outside_of_combines(roots: Iterable[Expression]) -> Iterator[Expression]:
    """All expressions, each once, but for those that say how folds combine."""
    seen: set[Expression] = set()
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            yield e
            stack.extend(e.children)


def _operations(e: Expression) -> int:
    if not e.type.is_float or isinstance(e, Variable):
        return 0
    if isinstance(e, FusedMultiplyAdd):
        return 2
    is_one = (isinstance(e, Binary) and e.operation in ARITHMETIC) or (isinstance(e, Unary) and e.operation == "sqrt")
    return int(is_one)


def _integer_operations(e: Expression) -> int:
    return WORD_OPERATIONS.get(e.operation, 0) if isinstance(e, Binary) else 0


def _points(axes: Iterable[Axis]) -> int:
    return math.prod(axis.size for axis in axes)


@dataclass(slots=True)
class _Footprint:
    """The elements of a tensor that are touched, through one or several ways to reach them."""

    tensor: Tensor
    _ways: dict[object, tuple[int, Interval | None]] = field(default_factory=dict)

    def add(self, coordinates: tuple[Expression, ...], count: _Count) -> None:
        """Elements at coordinates."""
        address = address_of(self.tensor, coordinates)
        axes = frozenset(axis for c in coordinates for axis in count.axes_of(c))
        moves = sorted((c, t.size) if isinstance(t, Axis) else (c, hash(t)) for t, c in address.terms)
        self._ways[(address.constant, *moves)] = (_points(axes), address.range({}))

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the elements, none counted twice."""
        pairs = zip(self.tensor.sizes, self.tensor.strides, strict=True)
        most = math.prod(size for size, stride in pairs if stride)
        counts = sum(points for points, _ in self._ways.values())
        ranges = [reach for _, reach in self._ways.values() if reach is not None]
        if len(ranges) == len(self._ways):
            counts = min(counts, _covered(ranges))
        return min(counts, most) * max(self.tensor.type.bits, 8) // 8


def _covered(ranges: Iterable[Interval]) -> int:
    """How many whole numbers are in any of the ranges."""
    total, end = 0, -math.inf
    for low, high in sorted(ranges):
        total += max(0, int(high - max(low - 1, end)))
        end = max(end, high)
    return total
