"""Rows that loaded numbers choose, as GATHER's: which one comes next, the processor learns from the numbers alone.

Where a row ends it would be too late to ask for the next one, and what lies behind a row is none of those that will be
read. So the next one's lines are asked for while a row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opendml.expression.affine import Affine, Dependencies, Element, affine, is_unsafe, loads_of, total
from opendml.expression.element_types import I64
from opendml.expression.ir import Axis, Binary, Cast, Expression, Fold, Index, Select, Unary, binary, constant, index
from opendml.expression.rewriting import Rewriter, walk
from opendml.loops.nest import ElementStore
from opendml.targets.cpu.tuning import Tuning


def chosen_rows(
    stores: Sequence[ElementStore], outer: Sequence[Axis], vector: Axis | None, tuning: Tuning, line: int
) -> tuple[Element, ...]:
    """The loads along ``vector`` from large tensors whose rows numbers choose, one for each point of the last of the
    ``outer`` axes: as they will be some rows later, or once more at the end. A ``line`` of the cache has so many
    bytes."""
    if vector is None or not outer or any(isinstance(e, Fold) for s in stores for e in walk(s.value)):
        return ()
    return tuple(dict.fromkeys(_next_rows(stores, outer, vector, tuning, line)))


def _next_rows(
    stores: Sequence[ElementStore], outer: Sequence[Axis], vector: Axis, tuning: Tuning, line: int
) -> Iterator[Element]:
    dependencies = Dependencies()
    for e in loads_of(*(store.value for store in stores)):
        row_bytes = vector.size * e.type.bits // 8
        is_near = e.tensor.extent * e.type.bits // 8 < tuning.prefetched_bytes
        if is_near or e.address.coefficient(vector) != 1 or not line <= row_bytes < tuning.prefetched_run_bytes:
            continue
        chosen = [dependencies.of(term) for term in e.address.opaque]
        is_chosen = any(outer[-1] in axes for axes in chosen) and not any(vector in axes for axes in chosen)
        if is_chosen and all(_is_cheap(term, tuning) for term in e.address.opaque):
            yield _further(e, outer[-1], max(tuning.prefetch_distance // row_bytes, 1))


def _is_cheap(place: Expression, tuning: Tuning) -> bool:
    """Whether it takes few operations to find out what a number chooses, whatever conditions say."""
    parts = list(walk(place))
    operations = sum(isinstance(e, Unary | Binary | Select | Cast) for e in parts)
    return operations <= tuning.choosing_operations and not any(map(is_unsafe, parts))


def _further(e: Element, axis: Axis, points: int) -> Element:
    """The element that is loaded some points later along an axis, or at its last point."""
    there = binary("min", index(axis) + points, constant(axis.size - 1, I64))

    def moved(address: Affine) -> Affine:
        parts = [(affine(there if term is axis else _expression(term)), c) for term, c in address.terms]
        return total(parts, address.constant)

    def visit(part: Expression) -> Expression | None:
        return there if isinstance(part, Index) and part.axis is axis else None

    def read(_: Expression, part: Expression) -> Expression:
        return Element(part.tensor, moved(part.address), part.safe) if isinstance(part, Element) else part

    found = Rewriter(visit, read)(e)
    assert isinstance(found, Element)
    return found


def _expression(term: Axis | Expression) -> Expression:
    return index(term) if isinstance(term, Axis) else term
