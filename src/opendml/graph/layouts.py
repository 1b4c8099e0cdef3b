"""The same bytes with other dimensions: coordinates in one tensor as sums of coordinates in another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from opendml.expression.affine import Affine, affine
from opendml.expression.element_types import I64
from opendml.expression.ir import Expression, Tensor, constant

Reading = Callable[[tuple[Expression, ...]], Expression]
"""What somebody gets for the element of a tensor at some coordinates."""

Factors = tuple[tuple[int, ...], ...]
"""For each dimension of one tensor, how far a step along each dimension of another one moves along it."""


class Digit(NamedTuple):
    """A digit of the coordinate along ``dimension``: what is left when it is divided by ``below``, modulo ``size``
    (None for the highest digit); ``factor``: how far a step of it moves along a dimension of another tensor."""

    dimension: int
    below: int
    size: int | None
    factor: int

    def of(self, coordinates: Sequence[Expression]) -> Expression:
        """How far it moves at an element with these coordinates."""
        value = quotient(coordinates[self.dimension], self.below)
        if self.size is not None:
            value = remainder(value, self.size)
        return value * self.factor if self.factor > 1 else value


Digits = tuple[tuple[Digit, ...], ...]
"""For each dimension of one tensor, digits of coordinates in another one, of which its coordinate is the sum."""


def coordinate_digits(own: Tensor, source: Tensor) -> Digits | None:
    """As ``coordinate_factors``, also where dimensions are merged: steps along one of ``own`` then go along several
    of ``source``, one after the other.

        >>> coordinate_digits([B * H, S, D] with strides [D, B * H * D, 1], [S, B, H * D])
        (S: 1 s;  B: bh / H;  H * D: D (bh % H), 1 d)
    """
    if own.type is not source.type or own.offset != source.offset:
        return None
    dimensions = _largest_first(source)
    digits: list[list[Digit]] = [[] for _ in source.sizes]
    for d, (size, stride) in enumerate(zip(own.sizes, own.strides, strict=True)):
        found = _digits_of_steps(d, size, stride, source, dimensions)
        if found is None:
            return None
        for e, digit in found:
            digits[e].append(digit)
    # The address is right by construction, so it is the same element if each coordinate is inside of its dimension.
    for row, size in zip(digits, source.sizes, strict=True):
        if sum((_count(digit, own) - 1) * digit.factor for digit in row) >= size:
            return None
    return tuple(map(tuple, digits))


def _digits_of_steps(
    d: int, size: int, stride: int, source: Tensor, dimensions: Sequence[int]
) -> list[tuple[int, Digit]] | None:
    """The dimensions that ``size`` steps of ``stride`` elements go along, each with its digit."""
    found: list[tuple[int, Digit]] = []
    below, left = 1, size
    while left > 1 and stride > 0:
        e = next((e for e in dimensions if stride % source.strides[e] == 0), None)
        if e is None:
            return None
        factor = stride // source.strides[e]
        steps, over = divmod(source.sizes[e], factor)
        if left <= steps or over:
            return [*found, (e, Digit(d, below, None, factor))]
        if steps < 2 or left % steps:
            return None
        found.append((e, Digit(d, below, steps, factor)))
        below, left, stride = below * steps, left // steps, stride * steps
    return found


def _count(digit: Digit, own: Tensor) -> int:
    """How many values a digit has."""
    return digit.size or -(-own.sizes[digit.dimension] // digit.below)


def moved_digits(coordinates: Sequence[Expression], digits: Digits) -> tuple[Expression, ...]:
    """The coordinates in the other tensor."""
    return tuple(_added([digit.of(coordinates) for digit in row]) for row in digits)


def quotient(coordinate: Expression, divisor: int) -> Expression:
    """``coordinate / divisor``, of ``e * divisor + f`` with a smaller ``f``: ``e``."""
    if divisor == 1:
        return coordinate
    parts = _taken_apart(coordinate, divisor)
    return coordinate // divisor if parts is None else parts[0]


def remainder(coordinate: Expression, divisor: int) -> Expression:
    """``coordinate % divisor``, of ``e * divisor + f`` with a smaller ``f``: ``f``."""
    if divisor == 1:
        return constant(0, I64)
    parts = _taken_apart(coordinate, divisor)
    return coordinate % divisor if parts is None else parts[1]


def _taken_apart(coordinate: Expression, divisor: int) -> tuple[Expression, Expression] | None:
    """The quotient and the remainder of a sum of which some terms are multiples of the divisor and the others smaller
    than it."""
    form = affine(coordinate)
    high = Affine(tuple((t, c // divisor) for t, c in form.terms if c % divisor == 0), form.constant // divisor)
    low = Affine(tuple((t, c) for t, c in form.terms if c % divisor), form.constant % divisor)
    bounds = low.range({})
    if bounds is None or bounds[0] < 0 or bounds[1] >= divisor:
        return None
    return high.as_expression(), low.as_expression()


def coordinate_factors(own: Tensor, source: Tensor) -> Factors | None:
    """How the coordinates in ``source`` of the elements of ``own``, the same bytes, follow from those in ``own``.

    Dimensions may be repeated (a stride of 0), exchanged, left out where they have one element, or split: elements
    ``h, d`` of [H, D] are ``h * D + d`` of [H * D]. None where that is not enough: the types differ, dimensions are
    merged (which takes a division), or ``own`` has elements that are none of ``source``.

        >>> coordinate_factors([B, H, S, D] with strides [S * H * D, D, H * D, 1], [B, S, H * D])
        ((1, 0, 0, 0), (0, 0, 1, 0), (0, D, 0, 1))
    """
    if own.type is not source.type or own.offset != source.offset:
        return None
    dimensions = _largest_first(source)
    factors = [[0] * len(own.sizes) for _ in source.sizes]
    for d, (size, rest) in enumerate(zip(own.sizes, own.strides, strict=True)):
        if size > 1:
            for e in dimensions:
                factors[e][d], rest = divmod(rest, source.strides[e])
            if rest:
                return None
    # The address is right by construction, so it is the same element if each coordinate is inside of its dimension.
    for row, size in zip(factors, source.sizes, strict=True):
        if sum((n - 1) * factor for n, factor in zip(own.sizes, row, strict=True)) >= size:
            return None
    return tuple(map(tuple, factors))


def _largest_first(source: Tensor) -> list[int]:
    """The dimensions along which elements differ, the one with the largest step first."""
    dimensions = [e for e, n in enumerate(source.sizes) if n > 1 and source.strides[e] > 0]
    return sorted(dimensions, key=lambda e: -source.strides[e])


def moved_coordinates(coordinates: Sequence[Expression], factors: Factors) -> tuple[Expression, ...]:
    """The coordinates in the other tensor."""
    return tuple(_sum(coordinates, row) for row in factors)


def _sum(coordinates: Sequence[Expression], row: Sequence[int]) -> Expression:
    return _added([c * factor if factor > 1 else c for c, factor in zip(coordinates, row, strict=True) if factor])


def _added(terms: Sequence[Expression]) -> Expression:
    result: Expression = terms[0] if terms else constant(0, I64)
    for term in terms[1:]:
        result = result + term
    return result
