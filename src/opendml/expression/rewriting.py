"""Expressions taken apart and rebuilt: the tools of every stage that rewrites definitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

from opendml.expression.ir import (
    BOOL,
    Binary,
    Bitcast,
    Cast,
    Expression,
    Fold,
    FusedMultiplyAdd,
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
        if isinstance(e, FusedMultiplyAdd):
            return FusedMultiplyAdd(self(e.x), self(e.y), self(e.z))
        if isinstance(e, Cast):
            return cast(self(e.operand), e.type)
        if isinstance(e, Bitcast):
            return Bitcast(self(e.operand), e.type)
        if isinstance(e, Load):
            return Load(e.tensor, tuple(map(self, e.coordinates)))
        if isinstance(e, Part):
            fold = self(e.fold)
            assert isinstance(fold, Fold)
            return Part(fold, e.number)
        if isinstance(e, Fold):
            return self._fold(e)
        return e.rebuilt(self)

    def _select(self, e: Select) -> Expression:
        condition = self(e.condition)
        if condition.type is BOOL and condition == constant(True, BOOL):
            return self(e.then)
        if condition == constant(False, BOOL):
            return self(e.otherwise)
        return select(condition, self(e.then), self(e.otherwise), rare=e.rare)

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


def substitute(replacements: dict[Expression, Expression]) -> Rewriter:
    """A rewriter that replaces whole sub-expressions."""
    return Rewriter(replacements.get)


def walk(expression: Expression, leaf: Callable[[Expression], bool] | None = None) -> Iterable[Expression]:
    """All sub-expressions, each once, parents first; what is inside of a ``leaf`` is left out."""
    if leaf is not None:
        return _walked(expression, leaf)
    # The compiler's stages ask the same few expressions dozens of times.
    try:
        inner = expression._inner
    except AttributeError:
        inner = expression._inner = tuple(_walked(expression, None))[1:]
    return itertools.chain((expression,), inner)


def _walked(expression: Expression, leaf: Callable[[Expression], bool] | None) -> Iterator[Expression]:
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
        children = e.children
        if children:
            stack.extend(children[::-1])
        if isinstance(e, Fold):
            stack.extend(e.combine.result)


def conjuncts(condition: Expression) -> list[Expression]:
    """The conditions that ``condition`` is the conjunction of."""
    if isinstance(condition, Binary) and condition.operation == "and" and condition.type is BOOL:
        return conjuncts(condition.left) + conjuncts(condition.right)
    return [condition]
