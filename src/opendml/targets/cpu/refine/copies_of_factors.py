"""Copies of the factors of sums: widened, or with what counts as zero around them, so that no step asks or converts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from opendml.expression.affine import Dependencies
from opendml.expression.element_types import F16
from opendml.expression.ir import (
    Cast,
    Const,
    Expression,
    Tensor,
    both,
    cast,
    constant,
    in_range,
    load,
    select,
)
from opendml.targets.cpu.refine.refinement import Refinement, are_side_by_side
from opendml.targets.cpu.refine.sums import Factor
from opendml.targets.cpu.tuning import Tuning

Read = Callable[[Sequence[Expression]], Expression]
"""How sums read a factor, by the coordinates in its tensor."""


def widened(factor: Factor, found: Refinement) -> Read:
    """The factor as it is, where it never leaves its tensor; of float16 a copy in float32."""
    source, type = factor.load.tensor, factor.element.type
    if source.type is not F16:
        return lambda place: factor.less_zero_point(cast(load(source, place), type))
    like = source if are_side_by_side(source) else None

    def element(*place: Expression) -> Expression:
        return cast(load(source, place), type)

    copy = found.copy(f"packed_{source.name}", type, source.sizes, element, like=like)
    return lambda place: load(copy, place)


def zero_outside(factor: Factor, place: Sequence[Expression]) -> Expression:
    """The element of a factor's tensor in the type of the sum, 0 outside of its sizes."""
    source = factor.load.tensor
    return select(_is_inside(source, place), cast(load(source, place), factor.element.type), 0)


def _is_inside(source: Tensor, place: Sequence[Expression]) -> Expression:
    return both(in_range(p, size) for p, size in zip(place[2:], source.sizes[2:], strict=True))


def padded(
    factor: Factor,
    lowest: Sequence[int],
    highest: Sequence[int],
    output: Tensor,
    tuning: Tuning,
    found: Refinement,
    *,
    rows_of_channels: bool,
) -> Read | None:
    """How a factor is read at spatial coordinates between ``lowest`` and ``highest``, zero outside of its sizes: from a
    copy with elements around it that count as zero. None where that is out of proportion.

    ``rows_of_channels`` lays the rows of all channels next to one another, {N, spatial but for the last, C, last}: what
    sums over channels read is then a few long runs instead of a page for each channel.
    """
    source = factor.load.tensor
    before = (0, 0, *(max(0, -low) for low in lowest))
    sizes = [*source.sizes[:2], *(high + 1 + b for high, b in zip(highest, before[2:], strict=True))]
    zero = _zero(factor)
    if zero is None or not is_in_proportion(sizes, source, output, tuning):
        return None

    def element(*coordinates: Expression) -> Expression:
        place = [i - b for i, b in zip(coordinates, before, strict=True)]
        return select(_is_inside(source, place), cast(load(source, place), zero.type), zero)

    order = [*range(len(sizes))]
    if rows_of_channels:
        order.insert(-1, order.pop(1))
    back = [order.index(d) for d in range(len(sizes))]
    copy = found.copy("padded_input", zero.type, [sizes[d] for d in order], lambda *c: element(*(c[d] for d in back)))

    def read(place: Sequence[Expression]) -> Expression:
        spread = [p + b for p, b in zip(place, before, strict=True)]
        there = load(copy, [spread[d] for d in order])
        return factor.less_zero_point(cast(there, factor.element.type))

    return read


def _zero(factor: Factor) -> Expression | None:
    """What an element of a copy is to be so that the factor is 0; None where it is not one value. Copies of integers
    keep their type, others have that of the sum."""
    type = factor.load.type if factor.load.type.is_integer else factor.element.type
    point = factor.zero_point
    if point is None:
        return constant(0, type)
    if isinstance(point, Const):
        return constant(point.value, type)
    is_one_value = isinstance(point, Cast) and point.operand.type is type and not Dependencies().of(point)
    return point.operand if isinstance(point, Cast) and is_one_value else None


def is_in_proportion(sizes: Sequence[int], source: Tensor, output: Tensor, tuning: Tuning) -> bool:
    """Whether a copy of ``source`` with these sizes is in proportion to it and the output."""
    room = tuning.padded_growth * (math.prod(source.sizes) + math.prod(output.sizes)) + tuning.unpadded_elements
    return math.prod(sizes) <= room
