"""Margins around bytes whose channels lie side by side: what computes the bytes stores them where they are read.

A copy that puts a margin around a tensor moves all of it. Where nothing else reads the tensor, what computes it stores
it within the margin at once, and of the copy the margin is left: a few rows, and a few points of each row, which are
runs of memory where channels lie side by side. Fusion does the same for other tensors; these copies were copies of
words until their tensors were laid out, behind fusion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from opendml.expression.affine import affine
from opendml.expression.element_types import U8
from opendml.expression.ir import Cast, Load, Select, Tensor, cast, index, select
from opendml.expression.rewriting import substitute
from opendml.expression.statements import Compute, Definition, Single, Statement, Store, reads_of, writes_of
from opendml.graph.margins import inside_and_margins


def margins_in_place(definition: Definition, channel: int) -> tuple[Definition, dict[Single, Single]]:
    """The definition with such copies gone, of tensors whose dimension ``channel`` is side by side in memory; and for
    each statement that is new that which it was."""
    were, statements = dict[Single, Single](), list(definition.statements)
    gone = set[Tensor]()
    for statement in definition.statements:
        copy = _copy(statement, statements, definition, channel)
        if copy is None:
            continue
        made = copy.stored()
        were[made] = were.get(copy.writer, copy.writer)
        were |= dict.fromkeys(copy.margins, copy.statement)
        number = statements.index(copy.writer)
        statements[number : number + 1] = [*copy.margins, made]
        statements.remove(copy.statement)
        gone.add(copy.read.tensor)
    temporaries = tuple(tensor for tensor in definition.temporaries if tensor not in gone)
    return replace(definition, statements=tuple(statements), temporaries=temporaries), were


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """A ``statement`` that copies what a ``writer`` computes: all that it ``read`` to ``inside`` of another tensor,
    and ``margins`` around that."""

    statement: Compute
    writer: Compute
    read: Load
    inside: Store
    margins: Sequence[Compute]

    def stored(self) -> Compute:
        """The writer, storing where the copy would."""
        (store,) = self.writer.stores
        firsts = (affine(coordinate).constant for coordinate in self.inside.coordinates)
        place = tuple(c + first if first else c for c, first in zip(store.coordinates, firsts, strict=True))
        value = substitute({self.read: store.value})(self.inside.value)
        return Compute(self.writer.axes, (Store(self.inside.tensor, place, value),))


def _copy(statement: Statement, statements: Sequence[Statement], definition: Definition, channel: int) -> _Copy | None:
    """What a statement copies, if it is such a copy and nothing else touches what it copies."""
    if not isinstance(statement, Compute):
        return None
    parts = inside_and_margins(_choosing_last(statement))
    if parts is None:
        return None
    inside, margins = parts
    (store,) = inside.stores
    read = store.value.operand if isinstance(store.value, Cast) else store.value
    if store.tensor.type is not U8 or not isinstance(read, Load) or not _is_whole(read, inside):
        return None
    inner, outer = read.tensor, store.tensor
    if inner.strides[channel] != 1 or outer.strides[channel] != 1:
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
    return _Copy(statement, writer, read, store, margins)


def _choosing_last(copy: Compute) -> Compute:
    """The statement with a conversion of what it chooses done before it chooses."""
    stores = list[Store]()
    for store in copy.stores:
        value = store.value
        if isinstance(value, Cast) and isinstance(value.operand, Select):
            choice = value.operand
            value = select(choice.condition, cast(choice.then, value.type), cast(choice.otherwise, value.type))
        stores.append(replace(store, value=value))
    return Compute(copy.axes, tuple(stores))


def _is_whole(read: Load, inside: Compute) -> bool:
    """Whether the points of a statement read one element each of a tensor, all of them, in order."""
    return read.tensor.sizes == tuple(axis.size for axis in inside.axes) and all(
        affine(c) == affine(index(axis)) for c, axis in zip(read.coordinates, inside.axes, strict=True)
    )
