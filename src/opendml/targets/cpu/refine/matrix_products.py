"""Matrix products: rows of the left matrix and panels of columns of the right one, contiguous and widened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opendml.expression.element_types import F16
from opendml.expression.ir import (
    Axis,
    Expression,
    Fold,
    Part,
    Tensor,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    temporary,
)
from opendml.expression.rewriting import substitute
from opendml.expression.statements import Compute, Store
from opendml.llvm.host import Machine
from opendml.targets.cpu.kernel_parts import sums_side_by_side
from opendml.targets.cpu.panels import columns_in_panels
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings
from opendml.targets.cpu.refine.sums import Factor, Sum, at, moved, order_of
from opendml.targets.cpu.tuning import Tuning


def matrix_product(found: Sum, surroundings: Surroundings) -> Refinement | None:
    """The product of two matrices, or batches of them, read from copies where these are worth it.

    A right matrix that is fixed is laid out in panels of columns. Where sums have partial sums they run along rows of
    the left matrix and columns of the right one, so these are to be contiguous.
    """
    product = product_of(found)
    return None if product is None else _Refined(product, surroundings).refinement()


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """A factor, and its tensor's dimensions in the order of the product: the batch, then two."""

    factor: Factor
    order: tuple[int, ...]

    @property
    def tensor(self) -> Tensor:
        """What it is read from."""
        return self.factor.load.tensor

    def stride(self, number: int) -> int:
        """How far the elements lie apart along a dimension of the product's."""
        return self.tensor.strides[self.order[number]]


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A matrix product: its axes, and its factors in the order of these."""

    sum: Sum
    batch: tuple[Axis, ...]
    row: Axis
    column: Axis
    inner: Axis
    left: Matrix
    right: Matrix

    @property
    def rows(self) -> int:
        """Rows that read the same right matrix: those of all batches that share it."""
        shared = (a.size for i, a in enumerate(self.batch) if self.right.stride(i) == 0)
        return self.row.size * math.prod(shared)


def product_of(found: Sum) -> Product | None:
    """A sum over one axis for each row and column, of elements that are read at plain coordinates."""
    fold, axes = found.fold, found.compute.axes
    if len(fold.axes) != 1 or len(axes) < 2 or fold.where is not None or not fold.type.is_float:
        return None
    *batch, row, column = axes
    factors, (inner,) = (found.left, found.right), fold.axes
    if any(factor.zero_point is not None or factor.inside is not None for factor in factors):
        return None
    left = order_of(found.left.load, (*batch, row, inner))
    right = order_of(found.right.load, (*batch, inner, column))
    if left is None or right is None:
        return None
    return Product(found, tuple(batch), row, column, inner, Matrix(found.left, left), Matrix(found.right, right))


class _Refined:
    def __init__(self, product: Product, surroundings: Surroundings) -> None:
        self.product = product
        self.tuning: Tuning = surroundings.target.tuning
        self.machine: Machine = surroundings.target.machine
        self.has_few_registers = surroundings.target.has_few_registers
        self.is_fixed = product.right.tensor in surroundings.fixed
        self.is_dot = product.sum.fold.partials > 1
        self.found = Refinement()

    def refinement(self) -> Refinement | None:
        """The copies, then the product of all columns or of those in whole panels and those that are left."""
        product = self.product
        replaced: dict[Expression, Expression] = {}
        if self._is_worth_rows():
            replaced[product.left.factor.whole] = self._copied(
                product.left, (*product.batch, product.row, product.inner)
            )
        if not self.is_dot and self._is_worth_panels():
            for part in columns_in_panels(product.column.size, self._panel_width()):
                self._add_panels(replaced, *part)
            return self.found
        if self.is_dot and self._are_worth_streams():
            self._add_streams(replaced)
            return self.found
        if self.is_dot and product.column.size < self.tuning.few_rows and product.right.stride(-2) != 1:
            columns = (*product.batch, product.column, product.inner)
            replaced[product.right.factor.whole] = self._copied(product.right, columns)
        if not replaced:
            return None
        self.found.statements.append(product.sum.rewritten(replaced, product.sum.compute.axes))
        return self.found

    def _is_worth_rows(self) -> bool:
        """Whether copying the left matrix, so that its rows are contiguous and widened, costs less than it saves."""
        left, columns = self.product.left, self.product.column.size
        if columns < self.tuning.few_rows or 0 in (left.stride(-1), left.stride(-2)):
            return False
        is_worth = columns >= self.tuning.columns_of_rows and left.stride(-1) != 1
        is_worth &= not (self._has_near_columns() or self._is_better_turned())
        return left.tensor.type is F16 or is_worth

    def _has_near_columns(self) -> bool:
        """Whether tiles read the left matrix by columns as quickly as a copy by rows: the points of a tile lie side by
        side at every step, and what all steps read stays in the caches until the next tile wants it."""
        product, tuning = self.product, self.tuning
        left, steps, size = product.left, product.inner.size, product.left.tensor.type.bits // 8
        is_small = product.row.size * steps * size <= tuning.vector_side_bytes
        is_near = is_small or steps <= tuning.many_steps
        return not self.is_dot and left.stride(-2) == 1 and is_near and not self._is_crowded(left)

    def _is_better_turned(self) -> bool:
        """Whether vectors had better lie along the columns of the left matrix, which each thread copies to panels of
        its own, and tiles be transposed: where these columns, and the rows of the right matrix, are runs of memory, and
        tiles would not read the left one by columns, since its rows are whole pages apart."""
        product = self.product
        left, right = product.left, product.right
        is_turned = left.stride(-2) == 1 and right.stride(-2) == 1 and right.stride(-1) != 1
        is_wide = product.row.size >= self.tuning.columns_of_rows
        return not self.is_dot and is_turned and is_wide and self._is_aliased(left)

    def _is_crowded(self, matrix: Matrix) -> bool:
        """Whether what the steps read falls into so few places of the nearest cache that it is gone before the next
        tile wants the rest of its lines."""
        few, many = self.tuning.crowded_column_bytes, self.tuning.page_bytes
        return self._bytes_apart(matrix) % (few if self.has_few_registers else many) == 0

    def _is_aliased(self, matrix: Matrix) -> bool:
        """Whether what one step reads and what the next one does are whole pages apart."""
        return self._bytes_apart(matrix) % self.tuning.page_bytes == 0

    @staticmethod
    def _bytes_apart(matrix: Matrix) -> int:
        """From what one step reads to what the next one does."""
        return matrix.stride(-1) * matrix.tensor.type.bits // 8

    def _is_worth_panels(self) -> bool:
        """Whether to lay the right matrix out in panels: where that is done only once, before the product ever runs."""
        right, least = self.product.right, self.tuning.few_rows
        if not self.is_fixed or 0 in (right.stride(-1), right.stride(-2)) or self.product.column.size < least:
            return False
        return self.product.rows >= least or self._is_far()

    def _are_worth_streams(self) -> bool:
        """Whether a row goes through a fixed matrix from beyond the near caches whose rows are summed up some together,
        in whole steps: they had better lie in the order in which they are read."""
        product, partials = self.product, self.product.sum.fold.partials
        count, lanes = self._sums_of_streams()
        is_even = product.column.size % count == 0 and product.inner.size % partials == 0 and partials % lanes == 0
        is_long = product.inner.size // partials >= (2 if lanes == partials else self.tuning.parted_steps)
        return self.is_fixed and product.rows == 1 and count > 1 and is_even and is_long and self._is_far()

    def _sums_of_streams(self) -> tuple[int, int]:
        """Of how many columns sums are done together, and how many lanes of each: all of them, or as many as registers
        hold of as many columns, where these are few."""
        fold = self.product.sum.fold
        count = sums_side_by_side(fold, self.machine, self.tuning)
        if count > 1:
            return count, fold.partials
        count = self.tuning.rows_side_by_side
        registers = max(self.machine.vector_registers // 2 // count, 1)
        return count, registers * self.machine.lanes(fold.type.bits)

    def _is_far(self) -> bool:
        """Whether the right matrix comes from beyond the second-level cache every time."""
        size = self.product.column.size * self.product.inner.size * self.product.right.tensor.type.bits // 8
        return size >= self.tuning.few_rows_panel_bytes

    def _in_panels(self) -> Expression:
        """What panels have of an element: what it is widened to, or of what is far and read for few rows its bits as
        they are, which are fewer to bring, where the processor widens them."""
        factor, rows = self.product.right.factor, self.product.rows
        is_narrow = self._is_far() and rows < self.tuning.widened_panel_rows and self.machine.converts_float16
        return factor.load if is_narrow else factor.element

    def _panel_width(self) -> int:
        """Columns of a panel: as many as a tile has, where there are rows enough to fill one; a register of them where
        work items would be fewer than threads."""
        product, tuning = self.product, self.tuning
        lanes = self.machine.lanes(product.right.factor.element.type.bits)
        wide, columns = tuning.matrix_panel_registers * lanes, product.column.size
        if product.rows < tuning.rows_of_tiles:
            return tuning.panel
        if self._has_few_panels():
            return lanes
        is_even = columns % wide == 0 or columns >= tuning.panels_beside_rest * wide
        return wide if is_even else wide - lanes

    def _has_few_panels(self) -> bool:
        """Whether panels of a register are no more than threads, each of which reads one in whole lines: few rows, all
        of them in one tile, leave nothing else to cut, and the matrix comes from beyond the near caches."""
        product, tuning, line = self.product, self.tuning, self.machine.cache_line
        row = product.column.size * product.right.factor.element.type.bits // 8
        is_narrow = row <= tuning.many_threads * line <= tuning.many_threads * self.machine.vector_bytes
        return is_narrow and product.rows < 2 * tuning.rows_of_tiles and self._is_far()

    def _copied(self, matrix: Matrix, axes: Sequence[Axis]) -> Expression:
        """The element, for the coordinates of ``axes``, of a copy of a matrix that has them as its dimensions."""
        batch = len(self.product.batch)
        strides = matrix.tensor.strides
        places = order_of(matrix.factor.load, axes)
        assert places is not None
        sizes = [1 if strides[d] == 0 and i < batch else axes[i].size for i, d in enumerate(places)]
        element = matrix.factor.element
        copy = self.found.copy(
            f"packed_{matrix.tensor.name}",
            element.type,
            sizes,
            lambda *place: at(element, dict(zip(axes, place, strict=True))),
            self._gap(sizes[-1] * element.type.bits // 8, element.type.bits // 8),
        )
        return _repeated(copy, indices(axes))

    def _gap(self, row: int, element: int) -> int:
        """Elements between rows of so many bytes: a line where the rows of a tile would else fall into the same places
        of the nearest cache."""
        is_aliased = row % (self.tuning.page_bytes // 2) == 0
        return self.machine.cache_line // element if is_aliased and not self.is_dot else 0

    def _add_panels(self, replaced: dict[Expression, Expression], start: int, blocks: int, width: int) -> None:
        """Adds a copy of some columns, in blocks of so many, and their products."""
        product, element = self.product, self._in_panels()

        def of_column(*place: Expression) -> Expression:
            *batch, block, inner, column = place
            return self._right(element, batch, inner, block * width + column + start)

        sizes = [*self._copied_batches(), blocks, product.inner.size, width]
        panels = self.found.copy("panels", element.type, sizes, of_column)
        block, column = grid([blocks, width], "no")
        place = (*indices(product.batch), index(block), index(product.inner), index(column))
        column_there = index(block) * width + index(column) + start
        replacements = replaced | moved({product.column: column_there})
        replacements[product.right.factor.whole] = cast(_repeated(panels, place), product.sum.fold.type)
        axes = (*product.batch, product.row, block, column)
        self.found.statements.append(product.sum.rewritten(replacements, axes))

    def _add_streams(self, replaced: dict[Expression, Expression]) -> None:
        """Adds a copy of the right matrix in which the steps of some of its columns lie behind one another, those of
        some or all lanes together, and their products."""
        product, fold = self.product, self.product.sum.fold
        count, width = self._sums_of_streams()
        element, groups = self._in_panels(), fold.partials // width
        steps = product.inner.size // fold.partials
        sizes = [*self._copied_batches(), product.column.size // count, groups, steps, count, width]

        def inner(group: Expression, step: Expression, lane: Expression) -> Expression:
            return step * fold.partials + group * width + lane

        def of_step(*place: Expression) -> Expression:
            *batch, block, group, step, column, lane = place
            return self._right(element, batch, inner(group, step, lane), block * count + column)

        streams = self.found.copy("streams", element.type, sizes, of_step)
        block, group, step, column, lane = grid(sizes[-5:], "ngkol")
        place = (*indices(product.batch), *indices((block, group, step, column, lane)))
        there = {
            product.inner: inner(index(group), index(step), index(lane)),
            product.column: index(block) * count + index(column),
        }
        replacements = moved(there) | {whole: at(copied, there) for whole, copied in replaced.items()}
        replacements[product.right.factor.whole] = cast(_repeated(streams, place), fold.type)
        elements = tuple(map(substitute(replacements), fold.elements))
        outputs = (*product.batch, product.row, block, column)
        axes, partials = ((step, lane), fold.partials) if groups == 1 else ((step,), 1)
        total: Expression = Part(Fold(axes, fold.initial, elements, fold.combine, None, partials, fold.contract), 0)
        if groups > 1:
            total = self._joined(total, (*product.batch, product.row, block), group, column, lane)
        self.found.statements.append(product.sum.rewritten(moved(there) | {Part(fold, 0): total}, outputs))

    def _joined(self, partial: Expression, outer: Sequence[Axis], group: Axis, column: Axis, lane: Axis) -> Expression:
        """A sum of partial results that a statement of its own computes, group by group, each from -0.0 on, which
        changes none."""
        fold = self.product.sum.fold
        sizes = [axis.size for axis in (*outer, column)]
        results = temporary("partial_results", fold.type, [*sizes, fold.partials])
        place = (*indices(outer), index(column), index(group) * lane.size + index(lane))
        self.found.temporaries.append(results)
        self.found.statements.append(Compute((*outer, group, column, lane), (Store(results, place, partial),)))
        every = Axis("l", fold.partials)
        element = load(results, (*indices(outer), index(column), index(every)))
        nothing = constant(-0.0, fold.type)
        return Part(Fold((every,), (nothing,), (element,), fold.combine, None, fold.partials), 0)

    def _copied_batches(self) -> list[int]:
        """How many right matrices are copied along the axes of the batch: one that all share (a stride of 0) once."""
        batch = self.product.batch
        return [1 if self.product.right.stride(number) == 0 else axis.size for number, axis in enumerate(batch)]

    def _right(
        self, element: Expression, batch: Sequence[Expression], inner: Expression, column: Expression
    ) -> Expression:
        """An element of the right matrix at these coordinates."""
        there = {self.product.inner: inner, self.product.column: column}
        return at(element, dict(zip(self.product.batch, batch, strict=True)) | there)


def _repeated(copy: Tensor, place: Sequence[Expression]) -> Expression:
    """The element of a copy that has dimensions of size 1 for those that repeat."""
    return load(copy, [0 if size == 1 else p for p, size in zip(place, copy.sizes, strict=True)])
