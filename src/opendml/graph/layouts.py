"""The same bytes with other dimensions: coordinates in one tensor as sums of coordinates in another."""

from __future__ import annotations

from collections.abc import Sequence

from opendml.expression.element_types import I64
from opendml.expression.ir import Expression, Tensor, constant

Factors = tuple[tuple[int, ...], ...]
"""For each dimension of one tensor, how far a step along each dimension of another one moves along it."""


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
    dimensions = [e for e, n in enumerate(source.sizes) if n > 1 and source.strides[e] > 0]
    dimensions.sort(key=lambda e: -source.strides[e])
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


def moved_coordinates(coordinates: Sequence[Expression], factors: Factors) -> tuple[Expression, ...]:
    """The coordinates in the other tensor."""
    return tuple(_sum(coordinates, row) for row in factors)


def _sum(coordinates: Sequence[Expression], row: Sequence[int]) -> Expression:
    terms = [c * factor if factor > 1 else c for c, factor in zip(coordinates, row, strict=True) if factor]
    result: Expression = terms[0] if terms else constant(0, I64)
    for term in terms[1:]:
        result = result + term
    return result
