"""Expressions rewritten: loads into addresses, conditions decided by ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from opendml.expression.ir import (
    BOOL,
    Axis,
    Binary,
    Bitcast,
    Cast,
    Expression,
    Fold,
    Load,
    Part,
    Select,
    Unary,
    binary,
    cast,
    constant,
    select,
    unary,
)
from opendml.kernels.affine import Affine, Element, Ranges, address_of, affine, always_inside, decide, total

Visit = Callable[[Expression], Expression | None]


class Rewriter:
    """Rebuilds expressions from the leaves up, after ``visit`` had the chance to replace a node as a whole."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._known: dict[Expression, Expression] = {}

    def __call__(self, expression: Expression) -> Expression:
        """The expression rewritten."""
        found = self._known.get(expression)
        if found is None:
            found = self._visit(expression)
            if found is None:
                found = self._rebuild(expression)
            self._known[expression] = found
        return found

    def _rebuild(self, e: Expression) -> Expression:
        if isinstance(e, Binary):
            return binary(e.operation, self(e.left), self(e.right))
        if isinstance(e, Select):
            return self._select(e)
        if isinstance(e, Unary):
            return unary(e.operation, self(e.operand))
        if isinstance(e, Cast):
            return cast(self(e.operand), e.type)
        if isinstance(e, Bitcast):
            return Bitcast(self(e.operand), e.type)
        if isinstance(e, Element):
            return Element(e.tensor, self.form(e.address), e.safe) if e.address.opaque else e
        if isinstance(e, Load):
            return Load(e.tensor, tuple(map(self, e.coordinates)))
        if isinstance(e, Part):
            fold = self(e.fold)
            assert isinstance(fold, Fold)
            return Part(fold, e.number)
        if isinstance(e, Fold):
            return self._fold(e)
        return e

    def _select(self, e: Select) -> Expression:
        condition = self(e.condition)
        if condition.type is BOOL and condition == constant(True, BOOL):
            return self(e.then)
        if condition == constant(False, BOOL):
            return self(e.otherwise)
        return select(condition, self(e.then), self(e.otherwise))

    def _fold(self, e: Fold) -> Expression:
        where = None if e.where is None else self(e.where)
        if where is not None and where == constant(True, BOOL):
            where = None
        return Fold(
            e.axes,
            tuple(map(self, e.initial)),
            tuple(map(self, e.elements)),
            e.combine,
            where,
            e.lanes,
            e.contract and isinstance(e.elements[0], Binary),
        )

    def form(self, address: Affine) -> Affine:
        """An affine form with its opaque terms rewritten; they may turn out affine now."""
        parts = [
            (Affine(((term, 1),), 0) if isinstance(term, Axis) else affine(self(term)), coefficient)
            for term, coefficient in address.terms
        ]
        return total(parts, address.constant)


def lower_loads(ranges: Ranges) -> Rewriter:
    """A rewriter that turns loads by coordinates into elements by address."""

    def visit(e: Expression) -> Expression | None:
        if not isinstance(e, Load):
            return None
        lowered = Load(e.tensor, tuple(map(rewriter, e.coordinates)))
        return Element(e.tensor, address_of(e.tensor, lowered.coordinates), always_inside(e, ranges))

    rewriter = Rewriter(visit)
    return rewriter


def simplify(ranges: Ranges) -> Rewriter:
    """A rewriter that replaces the comparisons which ``ranges`` decide."""

    def visit(e: Expression) -> Expression | None:
        if e.type is BOOL and isinstance(e, Binary):
            answer = decide(e, ranges)
            return None if answer is None else constant(answer, BOOL)
        return None

    return Rewriter(visit)


def substitute(replacements: dict[Expression, Expression]) -> Rewriter:
    """A rewriter that replaces whole sub-expressions."""
    return Rewriter(replacements.get)


def walk(expression: Expression, leaf: Callable[[Expression], bool] | None = None) -> Iterator[Expression]:
    """All sub-expressions, each once, parents first; what is inside of a ``leaf`` is left out."""
    seen: set[Expression] = set()
    stack = [expression]
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        yield e
        if leaf is not None and leaf(e):
            continue
        stack.extend(reversed(e.children))
        if isinstance(e, Fold):
            stack.extend(e.combine.result)


def conjuncts(condition: Expression) -> list[Expression]:
    """The conditions that ``condition`` is the conjunction of."""
    if isinstance(condition, Binary) and condition.operation == "and" and condition.type is BOOL:
        return conjuncts(condition.left) + conjuncts(condition.right)
    return [condition]
