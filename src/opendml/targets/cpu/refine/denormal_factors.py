"""Matrix products whose left matrix has denormal numbers, as the softmax of masked scores does: some processors take
about a hundred times as long for a step with one.

What such steps add is so little that it changes a sum only where this is tiny, or lies in the middle between two
numbers. So sums are bounded first, from below and from above: a step with a denormal number becomes one with 0 and one
that moves the bound by ``PUSH`` times the other factor's magnitude, which is more. Rounding keeps the order of numbers,
so the sum is between its bounds after every step; where these are the same bits in the end, it is they. So is the sum
of the steps with 0, which is between them, too: of rows whose sums are all known so, denormal numbers are read as 0,
and others as they are.
"""

from __future__ import annotations

import math
from typing import Final

from opendml.expression.element_types import F32, I32, U32
from opendml.expression.floating_point import is_subnormal, magnitude_of, sign_bit
from opendml.expression.folds import fold, partials_for, sum_of_products
from opendml.expression.ir import (
    Axis,
    Bitcast,
    Expression,
    Tensor,
    constant,
    grid,
    index,
    indices,
    load,
    select,
)
from opendml.targets.cpu.refine.matrix_products import Product, product_of
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings
from opendml.targets.cpu.refine.sums import Sum, at

PUSH: Final = 2.0**-80
"""More than any denormal number; and so much that bounds are seldom moved by one."""


def sums_between_bounds(found: Sum, surroundings: Surroundings) -> Refinement | None:
    """Such a product, where its processor takes long for denormal numbers and a row's sums are in one order."""
    is_slow = surroundings.target.tuning.slow_denormals and found.left.load.tensor in surroundings.denormal
    product = product_of(found) if is_slow and found.fold.partials == 1 else None
    if product is None or product.left.tensor.type is not F32:
        return None
    bounded = _Bounded(product)
    return bounded.refinement() if bounded.size <= surroundings.target.tuning.bounded_bytes else None


class _Bounded:
    def __init__(self, product: Product) -> None:
        self.product = product
        self.found = Refinement()

    @property
    def size(self) -> int:
        """Bytes of the copy of the left matrix that the bounds are computed from: two of each step for each bound."""
        product = self.product
        return 4 * math.prod(self._batch_sizes) * product.row.size * product.inner.size * F32.bits // 8

    def refinement(self) -> Refinement:
        """The bounds, which rows they tell nothing about, the left matrix as it is read then, and the product."""
        product, sum = self.product, self.product.sum
        unknown = self._unknown_rows(self._bounds())
        batch, row = product.batch, product.row

        def element(*place: Expression) -> Expression:
            factor = self._left(*place)
            is_unknown = load(unknown, place[:-1]).differs(0)
            return select(is_unknown, factor, _less_denormal(factor))

        sizes = [*self._batch_sizes, row.size, product.inner.size]
        left = self.found.copy("left_factor", F32, sizes, element)
        replaced = {product.left.factor.whole: load(left, indices((*batch, row, product.inner)))}
        self.found.statements.append(sum.rewritten(replaced, sum.compute.axes))
        return self.found

    def _bounds(self) -> Tensor:
        """What sums are at least, and at most: {batch, 2, rows, columns}. Each step of the sum is two."""
        product, batch = self.product, self._batch_sizes

        def bounding(*place: Expression) -> Expression:
            *outer, bound, row, part, step = place
            factor = self._left(*outer, row, step)
            push = select(bound.equals(0), constant(-PUSH, F32), constant(PUSH, F32))
            # Adding -0 changes nothing.
            push = select(is_subnormal(factor), push, constant(-0.0, F32))
            return select(part.equals(0), _less_denormal(factor), push)

        def bounded(*place: Expression) -> Expression:
            *outer, part, step, column = place
            factor = self._right(*outer, step, column)
            return select(part.equals(0), factor, magnitude_of(factor))

        rows, steps, columns = product.row.size, product.inner.size, product.column.size
        left = self.found.copy("bounding_factor", F32, [*batch, 2, rows, 2, steps], bounding)
        right = self.found.copy("bounded_factor", F32, [*batch, 2, steps, columns], bounded)
        step, part = grid([steps, 2], "kp")

        def value(*place: Expression) -> Expression:
            *outer, bound, row, column = place
            steps_of_left = load(left, (*outer, bound, row, index(part), index(step)))
            return sum_of_products((step, part), steps_of_left, load(right, (*outer, index(part), index(step), column)))

        return self.found.copy("bounds", F32, [*batch, 2, rows, columns], value)

    def _unknown_rows(self, bounds: Tensor) -> Tensor:
        """Which rows have a sum that its bounds do not tell: 1, others 0."""
        column = Axis("n", self.product.column.size)
        yes, no = constant(1, I32), constant(0, I32)

        def is_unknown(*place: Expression) -> Expression:
            *outer, row = place
            least, most = (load(bounds, (*outer, bound, row, index(column))) for bound in (0, 1))
            differ = Bitcast(least, U32).differs(Bitcast(most, U32)) | least.differs(least)
            return fold(lambda a, b: a | b, (column,), no, select(differ, yes, no), partials=partials_for(column))

        return self.found.copy("unknown_rows", I32, [*self._batch_sizes, self.product.row.size], is_unknown)

    @property
    def _batch_sizes(self) -> list[int]:
        return [axis.size for axis in self.product.batch]

    def _left(self, *place: Expression) -> Expression:
        product = self.product
        axes = (*product.batch, product.row, product.inner)
        return at(product.left.factor.element, dict(zip(axes, place, strict=True)))

    def _right(self, *place: Expression) -> Expression:
        product = self.product
        axes = (*product.batch, product.inner, product.column)
        return at(product.right.factor.element, dict(zip(axes, place, strict=True)))


def _less_denormal(x: Expression) -> Expression:
    """A number, 0 with its sign for a denormal one."""
    return select(is_subnormal(x), Bitcast(sign_bit(x), F32), x)
