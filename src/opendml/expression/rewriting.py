"""Expressions taken apart and rebuilt: the tools of every stage that rewrites definitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from opendml.expression.element_types import BOOL
from opendml.expression.exact_casts import exact_cast
from opendml.expression.ir import (
    Axis,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expression,
    Fold,
    FusedMultiplyAdd,
    Index,
    Load,
    Part,
    Select,
    Unary,
    binary,
    constant,
    is_product,
    select,
    unary,
)

Visit = Callable[[Expression], Expression | None]
Read = Callable[[Expression, Expression], Expression]
_Known = Mapping[Expression, Expression]


class Rewriter:
    """Rebuilds expressions from the leaves up, after ``visit`` had the chance to replace a node as a whole.

    ``read`` is given every load (and every expression of a kind that a later stage adds) as it was and with its parts
    rewritten, and says what takes its place. Expressions may be as deep as they like: nothing here calls itself for the
    parts of one.
    """

    def __init__(self, visit: Visit | None = None, read: Read | None = None) -> None:
        self._visit = visit
        self._read = read
        self._known: dict[Expression, Expression] = {}

    def __call__(self, expression: Expression) -> Expression:
        """The expression rewritten."""
        known, visit = self._known, self._visit
        found = known.get(expression)
        if found is not None:
            return found
        stack, entered = [expression], set[Expression]()
        while stack:
            e = stack[-1]
            if e in known:
                stack.pop()
                continue
            if visit is not None and e not in entered:
                found = visit(e)
                if found is not None:
                    known[e] = found
                    stack.pop()
                    continue
                entered.add(e)
            missing = [part for part in self._parts(e) if part not in known]
            if missing:
                stack += reversed(missing)
            else:
                known[e] = self._rebuild(e)
                stack.pop()
        return known[expression]

    def _parts(self, e: Expression) -> Sequence[Expression]:
        """What has to be rewritten before ``e`` is rebuilt, as far as that is known; of a Select the branches that its
        condition leaves."""
        if not isinstance(e, Select):
            return e.children
        condition = self._known.get(e.condition)
        if condition is None:
            return (e.condition,)
        if isinstance(condition, Const):
            return (e.then if condition.bits else e.otherwise,)
        return (e.then, e.otherwise)

    def _rebuild(self, e: Expression) -> Expression:
        """``e`` with its parts, which have been rewritten."""
        known = self._known
        rebuild = _REBUILD.get(type(e))
        if rebuild is not None:
            return rebuild(e, known)
        if isinstance(e, Load):
            rebuilt: Expression = Load(e.tensor, tuple([known[c] for c in e.coordinates]))
        else:
            rebuilt = e.rebuilt(known.__getitem__)
        return rebuilt if self._read is None else self._read(e, rebuilt)


def _select(e: Select, known: _Known) -> Expression:
    condition = known[e.condition]
    if isinstance(condition, Const):
        return known[e.then if condition.bits else e.otherwise]
    return select(condition, known[e.then], known[e.otherwise], rare=e.rare)


def _part(e: Part, known: _Known) -> Expression:
    fold = known[e.fold]
    assert isinstance(fold, Fold)
    return Part(fold, e.number)


def _fold(e: Fold, known: _Known) -> Expression:
    where = None if e.where is None else known[e.where]
    if where is not None and where == constant(True, BOOL):
        where = None
    elements = tuple([known[part] for part in e.elements])
    initial = tuple([known[part] for part in e.initial])
    contract = e.contract and is_product(elements[0])
    is_same = e.is_same_anywhere and where is not None
    return Fold(e.axes, initial, elements, e.combine, where, e.partials, contract, is_same)


_REBUILD: Final[dict[type, Callable[[Any, _Known], Expression]]] = {
    Binary: lambda e, known: binary(e.operation, known[e.left], known[e.right]),
    Select: _select,
    Unary: lambda e, known: unary(e.operation, known[e.operand]),
    FusedMultiplyAdd: lambda e, known: FusedMultiplyAdd(known[e.x], known[e.y], known[e.z]),
    Cast: lambda e, known: exact_cast(known[e.operand], e.type),
    Bitcast: lambda e, known: Bitcast(known[e.operand], e.type),
    Part: _part,
    Fold: _fold,
}
"""How an expression is made of its parts, which have been rewritten."""


def substitute(replacements: dict[Expression, Expression]) -> Rewriter:
    """A rewriter that replaces whole sub-expressions."""
    return Rewriter(replacements.get)


_inner: Final = WeakKeyDictionary[Expression, tuple[Expression, ...]]()
"""What is inside of expressions, for as long as they live: the compiler's stages ask the same few dozens of times."""


def walk(expression: Expression, leaf: Callable[[Expression], bool] | None = None) -> Iterable[Expression]:
    """All sub-expressions, each once, parents first; what is inside of a ``leaf`` is left out."""
    if leaf is not None:
        return _walked(expression, leaf)
    if not expression.children:
        return (expression,)
    inner = _inner.get(expression)
    if inner is None:
        inner = _inner[expression] = tuple(_walked(expression, None))[1:]
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


def asks_for(expression: Expression, axes: Container[Axis]) -> bool:
    """Whether the coordinate of one of some axes occurs in an expression."""
    return any(isinstance(e, Index) and e.axis in axes for e in walk(expression))


class Contains:
    """Whether something holds of an expression or of a part of it; each part is asked about once."""

    def __init__(self, holds: Callable[[Expression], bool]) -> None:
        self._holds = holds
        self._known: dict[Expression, bool] = {}

    def __call__(self, expression: Expression) -> bool:
        """Whether it does for this one."""
        known = self._known
        for e in inner_first(expression, known):
            known[e] = self._holds(e) or any(known[part] for part in e.children)
        return known[expression]


def inner_first(
    root: Expression, known: Container[Expression], parts: Callable[[Expression], Sequence[Expression]] | None = None
) -> Iterator[Expression]:
    """The sub-expressions that are not ``known``, each behind its parts (all of its children by default).

    For values that follow from those of the parts: the caller makes each one known before it asks for the next.
    """
    stack = [root]
    while stack:
        e = stack[-1]
        if e in known:
            stack.pop()
            continue
        missing = [part for part in (e.children if parts is None else parts(e)) if part not in known]
        if missing:
            stack += reversed(missing)
        else:
            stack.pop()
            yield e


def conjuncts(condition: Expression) -> list[Expression]:
    """The conditions that ``condition`` is the conjunction of."""
    found: list[Expression] = []
    stack = [condition]
    while stack:
        e = stack.pop()
        if isinstance(e, Binary) and e.operation == "and" and e.type is BOOL:
            stack += (e.right, e.left)
        else:
            found.append(e)
    return found


def step_limits(fold: Fold) -> dict[Axis, Expression]:
    """Counts beyond which no step of a fold is taken: conditions ``index(axis) < count`` whose count is the same at all
    of its steps."""
    limits: dict[Axis, Expression] = {}
    for e in () if fold.where is None else conjuncts(fold.where):
        if not isinstance(e, Binary) or e.operation != "lt" or asks_for(e.right, fold.axes):
            continue
        if isinstance(e.left, Index) and e.left.axis in fold.axes:
            limits.setdefault(e.left.axis, e.right)
    return limits
