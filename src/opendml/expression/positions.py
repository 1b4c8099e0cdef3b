"""Positions of elements, counted row-major, and the coordinates that they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from opendml.expression.element_types import I64
from opendml.expression.ir import Expression, constant, packed_strides


def row_major(coordinates: Sequence[Expression], sizes: Sequence[int]) -> Expression:
    """The position of an element among those of a tensor of ``sizes``."""
    position: Expression = constant(0, I64)
    for coordinate, stride in zip(coordinates, packed_strides(sizes), strict=True):
        position = position + coordinate * stride
    return position


def digits(position: Expression, sizes: Sequence[int]) -> tuple[Expression, ...]:
    """The coordinates of the element at a position. One divisor after the other, so that an address made of them is the
    position again."""
    coordinates: list[Expression] = [constant(0, position.type)] * len(sizes)
    large = [d for d, size in enumerate(sizes) if size > 1]
    for d in reversed(large):
        coordinates[d] = position if d == large[0] else position % sizes[d]
        position = position // sizes[d]
    return tuple(coordinates)
