"""What the products of a chain read, laid out for them: every block of rows reads the right factors as a whole.

The right factor of the first product becomes panels of columns, or rows where sums have partial sums; that of the last
one lies row by row, or in panels as wide as a tile. A left factor, too, is read again and again, so it is computed once
if it is more than an element of a tensor. Few rows read the right factors where they are, whatever these are made of: a
copy would be read once or twice. A sum of elements from two places, one behind the other, is then two sums, of which
the second one goes on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from opendml.expression.affine import Dependencies, address_of, threshold_form
from opendml.expression.folds import sum_of_products
from opendml.expression.ir import Axis, Binary, Cast, Expression, Fold, Load, Part, Select, index, load
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute, Definition, Repeat, Statement, Store, tensors_read, writes_of
from opendml.targets.cpu.panels import columns_in_panels
from opendml.targets.cpu.refine.chains import Chain, chains_in, product_of
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings
from opendml.targets.cpu.refine.sums import at
from opendml.targets.cpu.tuning import Tuning


def factors_of_chains(definition: Definition, around: Surroundings) -> Definition:
    """The definition with copies of the factors of a chain of products."""
    for chain in chains_in(definition):
        made = _Factors(definition, chain, around.target.tuning)
        found, product = chain.statements(definition), chain.product - chain.first
        refined = [*made.first, *found[1:product], *made.last, *found[product + 1 :]]
        statements = chain.replaced(definition, refined, before=made.found.statements)
        temporaries = (*made.found.temporaries, *definition.temporaries)
        definition = replace(definition, statements=statements, temporaries=temporaries)
    return definition


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """A statement of one sum of products, over ``inner``: its ``left`` factor, and its ``right`` one, which is the same
    for all rows at a place of the ``outer`` axes and differs along ``columns``. ``repeats``: the axis of a Repeat
    around it, which is one of the outer axes if the right factor differs along it."""

    compute: Compute
    repeats: tuple[Axis, ...]
    fold: Fold
    left: Expression
    right: Expression
    outer: tuple[Axis, ...]
    columns: tuple[Axis, ...]

    @property
    def inner(self) -> Axis:
        return self.fold.axes[0]

    def axes_of(self, e: Expression) -> tuple[Axis, ...]:
        """The axes of the statement and the sum that an expression differs along."""
        dependencies = Dependencies().of(e)
        return tuple(axis for axis in (*self.repeats, *self.compute.axes, *self.fold.axes) if axis in dependencies)

    def rewritten(self, replacements: Mapping[Expression, Expression], axes: Sequence[Axis]) -> Compute:
        """The statement over other axes, with other expressions in the place of some."""
        rewrite = substitute(dict(replacements))
        stores = (Store(s.tensor, tuple(map(rewrite, s.coordinates)), rewrite(s.value)) for s in self.compute.stores)
        return Compute(tuple(axes), tuple(stores))


def _product(statement: Statement, rows: Mapping[Axis, Axis], chain: Chain, around: Repeat | None) -> _Product | None:
    """The product that a statement of a chain is; ``rows`` are its axes that walk rows. None where a row has a right
    factor of its own, there is another fold, or what is repeated makes factors."""
    fold = product_of(statement)
    if not isinstance(statement, Compute) or fold is None or len(fold.axes) != 1 or fold.where is not None:
        return None
    if {e for s in statement.stores for e in walk(s.value) if isinstance(e, Fold)} != {fold}:
        return None
    element, dependencies = fold.elements[0], Dependencies()
    assert isinstance(element, Binary)
    if any(isinstance(e, Part) for e in walk(element)):
        return None
    right = dependencies.of(element.right)
    repeats = () if around is None else (around.axis,)
    if around is not None and tensors_read([element.right]) & {t for s in around.statements for t in writes_of(s)}:
        return None
    outer = tuple(axis for axis in repeats if axis in right)
    outer += tuple(axis for axis in statement.axes if rows.get(axis) in chain.outer and axis in right)
    columns = tuple(axis for axis in statement.axes if axis not in rows and axis in right)
    if any(axis in right for axis, role in rows.items() if role in chain.inner) or element.operation != "mul":
        return None
    return _Product(statement, repeats, fold, element.left, element.right, outer, columns)


class _Factors:
    """The copies (``found``), the statements that take the place of the ``first`` product, and the ``last`` one."""

    def __init__(self, definition: Definition, chain: Chain, tuning: Tuning) -> None:
        self.found = Refinement()
        self._tuning = tuning
        self._rows = math.prod(axis.size for axis in chain.inner)
        around = chain.repeated(definition)
        number = chain.product - chain.first
        statements = chain.statements(definition)
        first, last = statements[0], statements[number]
        of_first = _product(first, chain.axes[0], chain, around)
        self.first = [first] if of_first is None else self._first(of_first)
        of_last = _product(last, chain.axes[number], chain, around)
        self.last = [last] if of_last is None else self._last(of_last)

    def _first(self, product: _Product) -> list[Statement]:
        """The first product, from a left factor that is an element and a right one in panels or rows."""
        replaced = dict[Expression, Expression]()
        if not isinstance(product.left, Load):
            replaced[product.left] = self._copy(product.left, product.axes_of(product.left))
        if product.fold.partials > 1:
            if not _is_element(product.right) and not self._are_few_rows:
                rows = (*product.outer, *product.columns, product.inner)
                replaced[product.right] = self._copy(product.right, rows)
            return [product.rewritten(replaced, product.compute.axes)]
        if len(product.columns) != 1:
            return [product.rewritten(replaced, product.compute.axes)]
        (column,) = product.columns
        pieces = columns_in_panels(column.size, self._tuning.panel)
        return [self._in_panels(product, column, replaced, "panels", *piece) for piece in pieces]

    def _in_panels(
        self,
        product: _Product,
        column: Axis,
        replaced: Mapping[Expression, Expression],
        name: str,
        start: int,
        blocks: int,
        width: int,
    ) -> Statement:
        """The product of some columns, in blocks of so many, from panels of them."""
        block, within = Axis("x", blocks), Axis(column.name, width)
        place = index(block) * width + index(within) + start
        moved = at(product.right, {column: place})
        panels = self._copy(moved, (*product.outer, block, product.inner, within), name)
        axes = [axis for axis in product.compute.axes if axis is not column]
        replacements = {**replaced, product.right: panels, index(column): place}
        return product.rewritten(replacements, (*axes, block, within))

    def _last(self, product: _Product) -> list[Statement]:
        """The last product, whose right factor is copied where it is no element, or not row by row and read by many
        rows."""
        if self._are_few_rows:
            return [_in_two(product)]
        width = self._tuning.last_panel
        if len(product.columns) == 1 and product.columns[0].size > width and product.fold.partials == 1:
            (column,) = product.columns
            pieces = columns_in_panels(column.size, width)
            return [self._in_panels(product, column, {}, "", *piece) for piece in pieces]
        if _is_element(product.right) and _is_by_rows(product):
            return [product.compute]
        copy = self._copy(product.right, (*product.outer, product.inner, *product.columns))
        return [product.rewritten({product.right: copy}, product.compute.axes)]

    @property
    def _are_few_rows(self) -> bool:
        return self._rows < self._tuning.rows_worth_copies

    def _copy(self, e: Expression, axes: Sequence[Axis], name: str = "") -> Expression:
        """An element of a copy of an expression, whose dimensions are axes that it differs along."""
        first = next((x for x in walk(e) if isinstance(x, Load)), None)
        name = name or ("packed" if first is None else f"packed_{first.tensor.name}")
        sizes = [axis.size for axis in axes]
        copy = self.found.copy(name, e.type, sizes, lambda *place: at(e, dict(zip(axes, place, strict=True))))
        return load(copy, [index(axis) for axis in axes])


def _in_two(product: _Product) -> Compute:
    """The product as it is, or where its right factor is chosen by the step of the sum alone, as two sums: the second
    one begins with what the first one comes to, so the order of the terms stays."""
    fold, right, inner = product.fold, product.right, product.inner
    count = None if fold.partials > 1 or not isinstance(right, Select) else _first_steps(right.condition, inner)
    if count is None:
        return product.compute
    assert isinstance(right, Select)
    start = fold.initial[0]
    for branch, begin, size in ((right.then, 0, count), (right.otherwise, count, inner.size - count)):
        axis = Axis(inner.name, size)
        left, here = (at(e, {inner: index(axis) + begin}) for e in (product.left, branch))
        start = sum_of_products((axis,), left, here, initial=start)
    return product.rewritten({Part(fold, 0): start}, product.compute.axes)


def _first_steps(condition: Expression, axis: Axis) -> int | None:
    """How many of the first points of an axis, some but not all, a condition holds at; None if it is another one."""
    form = threshold_form(condition)
    if form is None or form.terms != ((axis, -1),):
        return None
    return form.constant + 1 if 0 <= form.constant < axis.size - 1 else None


def _is_element(e: Expression) -> bool:
    """Whether an expression is an element of a tensor, perhaps in a wider type."""
    return isinstance(e.operand if isinstance(e, Cast) else e, Load)


def _is_by_rows(product: _Product) -> bool:
    """Whether the right factor lies row by row already, as its product has it."""
    if not isinstance(product.right, Load):
        return False
    address = address_of(product.right.tensor, product.right.coordinates)
    width = math.prod(axis.size for axis in product.columns)
    return [address.coefficient(axis) for axis in (product.inner, *product.columns)] == [width, 1]
