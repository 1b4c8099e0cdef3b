"""Windows that slide over the spatial dimensions of a tensor: where their elements are, and which of them exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from opendml.expression.element_types import BOOL, I64
from opendml.expression.ir import (
    Axis,
    Const,
    Expression,
    as_expression,
    binary,
    both,
    constant,
    index,
    select,
)
from opendml.expression.positions import row_major


class WindowDimension(NamedTuple):
    """One spatial dimension of the window that belongs to one element of the output.

    ``origin`` is the place in the input (``size`` elements long) of the window's first element, from ``lowest``
    (negative in the padding) to ``highest``; ``tap`` walks the window, whose elements are ``dilation`` apart.
    """

    size: int
    dilation: int
    origin: Expression
    lowest: int
    highest: int
    tap: Axis

    @property
    def reach(self) -> int:
        """The distance from the first to the last element of the window."""
        return (self.tap.size - 1) * self.dilation

    @property
    def position(self) -> Expression:
        """The place in the input of the element that ``tap`` is at."""
        return self.origin + index(self.tap) * self.dilation

    @property
    def is_inside(self) -> Expression:
        """Whether ``position`` is in the input; only what can fail is asked."""
        above = self.position >= 0 if self.lowest < 0 else True
        below = self.position < self.size if self.highest + self.reach >= self.size else True
        return as_expression(above, BOOL) & below

    @property
    def first(self) -> Expression:
        """The number of the first element of the window that does not lie before the input."""
        if self.lowest >= 0:
            return constant(0, I64)
        return select(self.origin >= 0, 0, ((self.dilation - 1) - self.origin) // self.dilation)

    @property
    def end(self) -> Expression:
        """One more than the number of the last element of the window that does not lie behind the input."""
        if self.highest + self.reach < self.size:
            return constant(self.tap.size, I64)
        behind = ((self.size + self.dilation - 1) - self.origin) // self.dilation
        return select(self.origin + self.reach < self.size, self.tap.size, behind)

    @property
    def is_never_empty(self) -> bool:
        """Whether every window certainly has an element inside the input."""
        starts_inside = self.lowest >= 0 or (self.lowest + self.reach >= 0 and self.dilation <= self.size)
        return starts_inside and self.highest < self.size

    @property
    def element_count(self) -> Expression:
        """The number of elements of the window inside the input."""
        inside = self.end - self.first
        return inside if self.is_never_empty else binary("max", inside, 0)


class Window(NamedTuple):
    """The window of one element of the output, over one plane of the input."""

    plane: tuple[Expression, ...]
    dimensions: tuple[WindowDimension, ...]

    @property
    def taps(self) -> tuple[Axis, ...]:
        """The axes that walk the window in row-major order."""
        return tuple(d.tap for d in self.dimensions)

    @property
    def coordinates(self) -> tuple[Expression, ...]:
        """The coordinates in the input of the element that the taps are at."""
        return (*self.plane, *(d.position for d in self.dimensions))

    @property
    def where(self) -> Expression | None:
        """Whether the taps are at an element of the input; None if they always are."""
        condition = both(d.is_inside for d in self.dimensions)
        return None if isinstance(condition, Const) and condition.value else condition

    @property
    def element_count(self) -> Expression:
        """The number of elements inside the input, a constant if that is the same for all windows."""
        count: Expression = constant(1, I64)
        for dimension in self.dimensions:
            count = count * dimension.element_count
        return count

    @property
    def has_elements(self) -> Expression:
        """Whether any element is inside the input, a constant if that is certain."""
        return both(d.element_count > 0 for d in self.dimensions if not d.is_never_empty)

    @property
    def step(self) -> Expression:
        """How far the taps are from the window's first element in the packed plane of the input."""
        return row_major([index(d.tap) * d.dilation for d in self.dimensions], [d.size for d in self.dimensions])

    @property
    def first_step(self) -> Expression:
        """``step`` of the first element inside the input."""
        return row_major([d.first * d.dilation for d in self.dimensions], [d.size for d in self.dimensions])

    def start(self, channels: int) -> Expression:
        """Where the window's first element is in the packed input of {N, C, spatial...}; may be negative."""
        sizes = (channels, *(d.size for d in self.dimensions))
        return row_major((*self.plane, *(d.origin for d in self.dimensions)), (1, *sizes))


def sliding_window(
    output: Sequence[Axis],
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    start_padding: Sequence[int],
) -> Window:
    """The window of the element at the coordinates ``output`` ({N, C, spatial...}) over an input of ``sizes``."""
    spatial = len(window)
    dimensions = tuple(
        WindowDimension(
            size=sizes[i - spatial],
            dilation=dilations[i],
            origin=index(output[i - spatial]) * strides[i] - start_padding[i],
            lowest=-start_padding[i],
            highest=(output[i - spatial].size - 1) * strides[i] - start_padding[i],
            tap=Axis(f"t{i}", window[i]),
        )
        for i in range(spatial)
    )
    return Window(tuple(index(axis) for axis in output[:-spatial]), dimensions)
