"""Margins around bytes whose channels lie side by side: what computes the bytes stores them where they are read.

A copy that puts a margin around a tensor moves all of it. Where nothing else reads the tensor, what computes it stores
it within the margin at once, and of the copy the margin is left: a few rows, and a few points of each row, which are
runs of memory where channels lie side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from opendml.expression.affine import affine
from opendml.expression.element_types import U8
from opendml.expression.ir import (
    Cast,
    Const,
    Expression,
    Load,
    Select,
    Tensor,
    both,
    cast,
    grid,
    in_range,
    index,
)
from opendml.expression.statements import Compute, Definition, Single, Statement, Store, reads_of, writes_of

SPATIAL: Final = 2
"""The first dimension behind images and channels."""


def margins_in_place(definition: Definition) -> tuple[Definition, dict[Single, Single]]:
    """The definition with such copies gone; and for each statement that is new that which it was."""
    were, statements = dict[Single, Single](), list(definition.statements)
    gone = set[Tensor]()
    for statement in definition.statements:
        copy = _copy(statement, statements, definition)
        if copy is None:
            continue
        number = statements.index(copy.writer)
        made = copy.stored()
        around = list(copy.margins())
        were[made] = were.get(copy.writer, copy.writer)
        for margin in around:
            were[margin] = copy.statement
        statements[number : number + 1] = [*around, made]
        statements.remove(copy.statement)
        gone.add(copy.inner)
    temporaries = tuple(tensor for tensor in definition.temporaries if tensor not in gone)
    return replace(definition, statements=tuple(statements), temporaries=temporaries), were


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """A ``statement`` that copies an ``inner`` tensor, which is the ``writer``'s, into an ``outer`` one, ``before``
    elements behind its first ones in the spatial dimensions, and ``zero`` around it."""

    statement: Compute
    writer: Compute
    inner: Tensor
    outer: Tensor
    before: tuple[int, ...]
    zero: Const

    def stored(self) -> Compute:
        """The writer, storing where the copy would."""
        (store,) = self.writer.stores
        moved = (c + b if b else c for c, b in zip(store.coordinates[SPATIAL:], self.before, strict=True))
        place = (*store.coordinates[:SPATIAL], *moved)
        return Compute(self.writer.axes, (Store(self.outer, place, cast(store.value, U8)),))

    def margins(self) -> Iterator[Compute]:
        """What is around the tensor in one spatial dimension after the other."""
        sizes, count = [*self.outer.sizes], len(self.before)
        starts = [0] * len(sizes)
        for d in range(SPATIAL, SPATIAL + count):
            inner, before = self.inner.sizes[d], self.before[d - SPATIAL]
            for start, size in ((0, before), (before + inner, self.outer.sizes[d] - before - inner)):
                if size:
                    yield self._filled([*starts[:d], start, *starts[d + 1 :]], [*sizes[:d], size, *sizes[d + 1 :]])
            starts[d], sizes[d] = before, inner

    def _filled(self, starts: Sequence[int], sizes: Sequence[int]) -> Compute:
        axes = grid(sizes)
        place = tuple(index(axis) + start if start else index(axis) for axis, start in zip(axes, starts, strict=True))
        return Compute(axes, (Store(self.outer, place, cast(self.zero, U8)),))


def _copy(statement: Statement, statements: Sequence[Statement], definition: Definition) -> _Copy | None:
    """What a statement copies, if it is such a copy and nothing else touches what it copies."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return None
    (store,) = statement.stores
    chosen = store.value.operand if isinstance(store.value, Cast) else store.value
    if store.tensor.type is not U8 or not isinstance(chosen, Select) or not isinstance(chosen.then, Load):
        return None
    inner, outer, zero = chosen.then.tensor, store.tensor, chosen.otherwise
    before = _before(store, chosen.then, chosen.condition)
    if before is None or not isinstance(zero, Const) or outer.strides[1] != 1 or inner.strides[1] != 1:
        return None
    viewed = {t for pair in definition.views for t in pair}
    touching = Counter(t for s in statements for t in (*reads_of(s), *writes_of(s)))
    writers = [s for s in statements if inner in writes_of(s)]
    is_own = {inner, outer} <= set(definition.temporaries) - viewed and touching[inner] == 2
    is_own &= [s for s in statements if outer in writes_of(s)] == [statement]
    if not is_own or len(writers) != 1:
        return None
    (writer,) = writers
    if not isinstance(writer, Compute) or len(writer.stores) != 1:
        return None
    return _Copy(statement, writer, inner, outer, before, zero)


def _before(store: Store, there: Load, inside: Expression) -> tuple[int, ...] | None:
    """How many elements are before those of a tensor in the spatial dimensions, if a store copies it ``inside`` of its
    sizes; None where it does something else."""
    inner, outer = there.tensor, store.tensor
    if len(inner.sizes) != len(outer.sizes) or there.coordinates[:SPATIAL] != store.coordinates[:SPATIAL]:
        return None
    places, sizes = there.coordinates[SPATIAL:], inner.sizes[SPATIAL:]
    moves = [affine(place).plus(affine(c), -1) for place, c in zip(places, store.coordinates[SPATIAL:], strict=True)]
    before = tuple(-move.constant for move in moves)
    fits = all(
        b >= 0 and b + size <= whole for b, size, whole in zip(before, sizes, outer.sizes[SPATIAL:], strict=True)
    )
    is_inside = inside is both(in_range(place, size) for place, size in zip(places, sizes, strict=True))
    return before if fits and is_inside and not any(move.terms for move in moves) else None
