"""Panels: a factor of sums of products laid out so that what is computed together lies side by side at every step.

This module says what a panel is: how large, how it lies, and who fills it. There are two. *Panels of weights* are
tensors of a definition, ``Tuning.panel`` columns wide, and statements fill them: refinement makes those, once where the
weights are fixed (``columns_in_panels``). A *panel of a thread's own* has the part of a factor that a work item reads,
in strips as wide as a tile of registers, and the work item fills it (``Panel``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from opendml.expression.affine import Affine, Element
from opendml.expression.ir import Axis, Expression, Fold, Tensor, temporary
from opendml.loops.nest_integers import Difference, Integer, Local, Position, Product, Quotient, Start, Sum


class Columns(NamedTuple):
    """The columns from ``start`` on that lie in so many ``blocks``, each of them ``width`` wide."""

    start: int
    blocks: int
    width: int


def columns_in_panels(count: int, width: int) -> list[Columns]:
    """All columns: those in whole panels, and the narrower panel of those that are left."""
    whole, rest = divmod(count, width)
    return [c for c in (Columns(0, whole, width), Columns(whole * width, 1, rest)) if c.blocks and c.width]


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """A factor of the product, copied by each thread for the points of the vector side that its work item covers.

    ``tensor`` holds strips of ``strip`` points of the axis ``vector``, one behind the other; in a strip the points that
    are computed together lie next to each other at every step of ``fold``. The stores of the kernel read it through
    ``base``, an axis that stands where the strip would begin if its first point were number 0. ``source`` is the factor
    itself; ``transposed`` is the axis of the fold along which it is contiguous, if it is not so along the vector axis.
    """

    tensor: Tensor
    base: Axis
    source: Expression
    transposed: Axis | None
    fold: Fold
    vector: Axis
    strip: int
    steps: int

    @property
    def element(self) -> Element:
        """What the sums read instead of the source."""
        terms: list[tuple[Axis, int]] = [(self.base, 1), (self.vector, 1)]
        size = self.strip
        for axis in reversed(self.fold.axes):
            terms.append((axis, size))
            size *= axis.size
        return Element(self.tensor, Affine(tuple(terms), 0), True)

    @property
    def bytes(self) -> int:
        """The memory that a thread needs for it."""
        return self.tensor.extent * self.tensor.type.bits // 8

    def first(self, unmoved: Local, along: Sequence[Axis], blocks: Mapping[Axis, int], step: Integer) -> Integer:
        """Where ``base`` stands for the strip that begins at ``unmoved``, or is moved back from there, where the panel
        begins with some ``step``.

        ``along`` are the axes of the vector side, the vector axis last, of which a work item covers ``blocks``."""
        number: Integer = Quotient(Difference(unmoved, Start(self.vector)), self.strip)
        stride = -(-blocks[self.vector] // self.strip)
        for axis in reversed(along[:-1]):
            number = Sum(number, Product(Difference(Position(axis), Start(axis)), stride))
            stride *= blocks[axis]
        base = Difference(Product(number, self.strip * self.steps), Position(self.vector))
        return base if step == 0 else Difference(base, Product(step, self.strip))


def panel_of(
    source: Expression,
    fold: Fold,
    vector: Axis,
    strip: int,
    blocks: Sequence[tuple[Axis, int]],
    transposed: Axis | None,
    steps: int,
) -> Panel:
    """The panel of a work item that covers ``blocks`` of the axes of the vector side, of so many steps at once."""
    strips = math.prod(-(-block // strip) if axis is vector else block for axis, block in blocks)
    tensor = temporary("panel", fold.type, (strips * steps * strip,))
    return Panel(tensor, Axis("panel_base", 1 << 40), source, transposed, fold, vector, strip, steps)


def strip_bytes(fold: Fold, points: int) -> int:
    """Bytes of panels of so many points of the vector side."""
    return fold.steps * points * fold.type.bits // 8
