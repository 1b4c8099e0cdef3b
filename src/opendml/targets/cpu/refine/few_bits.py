"""Products of few rows with weights of 4 bits, which stay as they are in memory.

Dequantised once they would be eight times the bytes, and few rows wait for memory. So panels have the integers, two
steps in a byte, and panels of their own what dequantises each block of steps; the product makes the numbers of them
anew, as they are defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opendml.expression.affine import Dependencies
from opendml.expression.element_types import F32, I32, I64, U8, U32
from opendml.expression.folds import sum_of_products
from opendml.expression.ir import Axis, Cast, Expression, Load, Part, binary, cast, constant, grid, index, indices, load
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Origin
from opendml.targets.cpu.panels import Columns, columns_in_panels
from opendml.targets.cpu.refine.matrix_products import Product, product_of
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings
from opendml.targets.cpu.refine.sums import Sum, at, moved

BLOCKS: Final = (256, 128, 64, 32, 16)
"""Steps whose integers may be dequantised in the same way."""


def product_of_few_bits(found: Sum, surroundings: Surroundings) -> Refinement | None:
    """The product over panels of integers and of what dequantises them, each laid out once."""
    product = product_of(found)
    if product is None or found.fold.partials > 1 or any(axis.size > 1 for axis in product.batch):
        return None
    tuning, origin = surroundings.target.tuning, surroundings.origins.get(product.right.tensor)
    if origin is None or product.rows > tuning.few_bits_rows:
        return None
    length = next((length for length in BLOCKS if _is_alike(product, origin, length)), None)
    if length is None or product.right.factor.zero_point is not None:
        return None
    refinement = Refinement([*origin.definition.statements], [*origin.definition.temporaries])
    for region in columns_in_panels(product.column.size, tuning.panel):
        _add_panels(product, origin, length, region, refinement)
    return refinement


def _element(product: Product, origin: Origin, inner: Expression, column: Expression) -> Expression:
    """The right factor of a step and a column, by its origin."""
    there = {product.inner: inner, product.column: column}
    return origin.element([at(c, there) for c in product.right.factor.load.coordinates])


def _is_alike(product: Product, origin: Origin, length: int) -> bool:
    """Whether integers of blocks of so many steps are dequantised in the same way, by an element each of tensors."""
    if product.inner.size % length:
        return False
    (block, step) = grid([product.inner.size // length, length])
    e = _element(product, origin, index(block) * length + index(step), index(product.column))
    loads = {x for x in walk(e) if isinstance(x, Load)}
    integers = {x for x in loads if x.tensor is origin.integers}
    dependencies = Dependencies()
    is_widened = all(not isinstance(x, Cast) or x.operand not in integers or x.type is F32 for x in walk(e))
    return len(integers) == 1 and is_widened and not any(step in dependencies.of(x) for x in loads - integers)


def _add_panels(product: Product, origin: Origin, length: int, region: Columns, refinement: Refinement) -> None:
    """Adds the panels of some columns, and their products."""
    start, blocks, width = region
    counts = [product.inner.size // length, length // 2]

    def of_step(panel: Expression, block: Expression, inner: Expression, column: Expression) -> Expression:
        return _element(product, origin, block * length + inner, panel * width + column + start)

    def integer(*place: Expression) -> Expression:
        panel, block, pair, column = place
        low, high = (_integer(of_step(panel, block, pair * 2 + half, column), origin) for half in range(2))
        return low | (high << 4)

    bits = refinement.copy("bits", U8, [blocks, *counts, width], integer)
    panel, column = grid([blocks, width], "no")
    block, pair, half = steps = grid([*counts, 2], "kjh")
    byte = cast(load(bits, (index(panel), index(block), index(pair), index(column))), U32)
    bit = binary("and", binary("shr", byte, cast(index(half) * 4, U32)), constant(15, U32))
    whole = of_step(index(panel), index(block), index(pair) * 2 + index(half), index(column))
    replaced = dict[Expression, Expression]()
    for e in walk(whole):
        if isinstance(e, Cast) and isinstance(e.operand, Load) and e.operand.tensor is origin.integers:
            replaced[e] = cast(cast(bit, I32), F32)
        elif isinstance(e, Load) and e.tensor is not origin.integers:
            replaced[e] = _of_blocks(e, (panel, block, column), refinement)
    weight = substitute(replaced)(whole)
    there = {product.inner: index(block) * length + index(pair) * 2 + index(half)}
    column_there = {product.column: index(panel) * width + index(column) + start}
    left = at(product.left.factor.whole, there)
    total = sum_of_products(steps, left, cast(weight, product.sum.fold.type))
    axes = (*product.batch, product.row, panel, column)
    replacements = {Part(product.sum.fold, 0): total, **moved(column_there)}
    refinement.statements.append(product.sum.rewritten(replacements, axes))


def _integer(e: Expression, origin: Origin) -> Expression:
    """The element of the integers that a dequantised number comes of."""
    return next(x for x in walk(e) if isinstance(x, Load) and x.tensor is origin.integers)


def _of_blocks(e: Load, axes: Sequence[Axis], refinement: Refinement) -> Expression:
    """What reads an element that is the same for a block of steps from a panel of its own."""
    place = indices(axes)

    def element(*coordinates: Expression) -> Expression:
        return substitute({p: c for p, c in zip(place, coordinates, strict=True) if p != constant(0, I64)})(e)

    copy = refinement.copy("of_blocks", e.type, [axis.size for axis in axes], element)
    return load(copy, place)
