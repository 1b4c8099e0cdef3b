"""Ready-made reductions: sums, extremes with their positions, and sums of products."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opendml.expression.element_types import I64, ElementType
from opendml.expression.ir import (
    Axis,
    Combine,
    Const,
    Expression,
    Fold,
    Part,
    Variable,
    binary,
    constant,
    index,
    is_product,
    select,
)

MOST_WRITTEN_TERMS = 8
"""Terms of an element's sum up to which ``sum_of_terms`` writes them out: the same bits, in another form."""

PARTIALS = 64
"""Partial results of a vectorised reduction, by which its order is defined on every target: four AVX-512 or eight AVX2
registers of float32 in flight."""


def partials_for(axis: Axis) -> int:
    """Partial results of a fold whose last axis is ``axis``: a power of two, not above its size nor ``PARTIALS``."""
    return min(PARTIALS, 1 << (max(axis.size, 1).bit_length() - 1))


def simple_combine(operation: Callable[[Expression, Expression], Expression], type: ElementType) -> Combine:
    """The combination of one value by an associative ``operation``."""
    left, right = Variable("a", type), Variable("b", type)
    return Combine((left,), (right,), (operation(left, right),))


def fold(
    operation: Callable[[Expression, Expression], Expression],
    axes: Sequence[Axis],
    initial: Expression,
    element: Expression,
    where: Expression | None = None,
    partials: int = 1,
) -> Expression:
    """``element`` folded over ``axes`` by one associative operation."""
    combine = simple_combine(operation, element.type)
    return Part(Fold(tuple(axes), (initial,), (element,), combine, where, partials), 0)


def sum_of(axes: Sequence[Axis], element: Expression, where: Expression | None = None, partials: int = 1) -> Expression:
    """The sum of ``element`` over ``axes``, beginning with 0."""
    return fold(lambda a, b: a + b, axes, constant(0, element.type), element, where, partials)


def sum_of_terms(
    counts: Sequence[int], term_at: Callable[[Sequence[Expression]], tuple[Expression, Expression]]
) -> Expression:
    """The sum of the terms at all points of ``range(counts[0])``, ..., in row-major order from +0 on.

    ``term_at(numbers)`` is a term and the condition that there is one. Few terms are written out, so that elements of
    an output that lie in several blocks of different terms interleave.
    """
    if math.prod(counts) > MOST_WRITTEN_TERMS:
        axes = [Axis(f"t{i}", count) for i, count in enumerate(counts)]
        term, where = term_at([index(axis) for axis in axes])
        return sum_of(axes, term, None if isinstance(where, Const) and where.value else where)
    total: Expression | None = None
    for numbers in itertools.product(*(range(count) for count in counts)):
        term, where = term_at([constant(number, I64) for number in numbers])
        total = (constant(0, term.type) if total is None else total) + select(where, term, 0)
    assert total is not None
    return total


def sum_of_products(
    axes: Sequence[Axis],
    left: Expression,
    right: Expression,
    where: Expression | None = None,
    initial: Expression | None = None,
    partials: int = 1,
) -> Expression:
    """The sum of ``left * right`` over ``axes`` by fused multiply-adds in order, beginning with ``initial`` or 0."""
    combine = simple_combine(lambda a, b: a + b, left.type)
    start = constant(0, left.type) if initial is None else initial
    product = binary("mul", left, right)
    return Part(Fold(tuple(axes), (start,), (product,), combine, where, partials, contract=is_product(product)), 0)


def lowest(type: ElementType) -> Expression:
    """The value that every other one is at least: minus infinity or the smallest integer."""
    if type.is_float:
        return constant(float("-inf"), type)
    return constant(-(1 << (type.bits - 1)) if type.kind == "int" else 0, type)


def highest(type: ElementType) -> Expression:
    """The value that every other one is at most: infinity or the largest integer."""
    if type.is_float:
        return constant(float("inf"), type)
    return constant((1 << (type.bits - (type.kind == "int"))) - 1, type)


_EXTREMES: Final[Mapping[str, Callable[[ElementType], Expression]]] = {"gt": lowest, "lt": highest}
"""By the comparison of an extreme, what every element takes the place of, or is equal to."""


def maximum(a: Expression, b: Expression) -> Expression:
    """The larger; NaN if either is NaN (the first one of two), the first of equals (+0 or -0: the first)."""
    return _extreme("gt", a, b)


def minimum(a: Expression, b: Expression) -> Expression:
    """The smaller; NaN if either is NaN (the first one of two), the first of equals."""
    return _extreme("lt", a, b)


def _extreme(comparison: str, a: Expression, b: Expression) -> Expression:
    return select(_replaces(comparison, a, b), b, a)


def _replaces(comparison: str, a: Expression, b: Expression) -> Expression:
    """Whether ``b``, which comes after ``a``, takes its place: it is more extreme, or the first NaN."""
    if not a.type.is_float:
        return binary(comparison, b, a)
    # "not less or equal" is true for NaN too: two comparisons where the plain reading takes three.
    return ~binary({"gt": "le", "lt": "ge"}[comparison], b, a) & a.equals(a)


def replaces_nan(comparison: str, a: Expression, b: Expression) -> Expression:
    """Whether ``b``, which comes after ``a``, takes its place where NaN are passed over: any number that is more
    extreme, or the first number."""
    if not a.type.is_float:
        return binary(comparison, b, a)
    return ~binary({"gt": "le", "lt": "ge"}[comparison], b, a) & b.equals(b)


def extreme_of(
    comparison: str, axes: Sequence[Axis], element: Expression, where: Expression | None = None, partials: int = 1
) -> Expression:
    """The largest (``"gt"``) or smallest (``"lt"``) element over ``axes``; NaN if there is one."""
    start = _EXTREMES[comparison](element.type)
    return fold(lambda a, b: _extreme(comparison, a, b), axes, start, element, where, partials)


def extreme_comparison(fold: Fold) -> str | None:
    """By which comparison a fold is that of ``extreme_of``; None: it is another one."""
    combine = fold.combine
    if len(combine.left) != 1:
        return None
    (left,), (right,), (initial,) = combine.left, combine.right, fold.initial
    comparisons = (c for c, start in _EXTREMES.items() if initial == start(initial.type))
    return next((c for c in comparisons if combine.result == (_extreme(c, left, right),)), None)


def extreme_with_position(
    comparison: str,
    axes: Sequence[Axis],
    element: Expression,
    position: Expression,
    initial: tuple[Expression, Expression],
    where: Expression | None = None,
    partials: int = 1,
) -> tuple[Expression, Expression]:
    """The largest (``"gt"``) or smallest (``"lt"``) element and its position: the first NaN, else the first extreme.

    ``position`` must increase in the order of the fold.
    """
    combine = extreme_combine(comparison, element.type, position.type)
    reduction = Fold(tuple(axes), initial, (element, position), combine, where, partials)
    return Part(reduction, 0), Part(reduction, 1)


def extreme_combine(
    comparison: str,
    type: ElementType,
    position_type: ElementType,
    last: bool = False,
    replaces: Callable[[str, Expression, Expression], Expression] = _replaces,
) -> Combine:
    """The combination of ``extreme_with_position``: of a value and a position. ``last``: the last of equals instead.

    ``replaces`` says what is more extreme: by default a NaN, with ``replaces_nan`` any number is more than a NaN.
    """
    a, i = Variable("a", type), Variable("i", position_type)
    b, j = Variable("b", type), Variable("j", position_type)
    better = replaces(comparison, a, b)
    if last:
        # Read backwards, the last of equals comes first: it is kept unless the one behind it is better.
        remains = replaces(comparison, b, a)
        result = (select(remains, a, b), select(remains, i, j))
    else:
        result = (select(better, b, a), select(better, j, i))
    same = a.equals(b)
    if type.is_float:
        same = same | (a.differs(a) & b.differs(b))
    preferred = better | (same & ((j > i) if last else (j < i)))
    merge = (select(preferred, b, a), select(preferred, j, i))
    return Combine((a, i), (b, j), result, merge)
