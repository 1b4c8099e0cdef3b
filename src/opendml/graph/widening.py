"""Tensors whose elements are all read in a wider type: what copies them in that type is the tensor that others read.

Targets lay factors of sums out in the type of the sum. A tensor of float16 that two nodes read, as those around a
residual sum are, would be written, read by the copy and written once more; where whoever reads it widens its elements,
all can read the copy. Its elements are then computed where the tensor's were, and the tensor itself is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from opendml.expression.ir import Cast, Expression, Load, Tensor, indices
from opendml.expression.rewriting import Rewriter
from opendml.expression.statements import Compute, Statement, reads_of, rewritten, writes_of


def read_widened(
    statements: Sequence[Statement], kept: frozenset[Tensor], views: Mapping[Tensor, Tensor]
) -> list[Statement]:
    """The statements with one copy in the place of tensors that are only read in its type. Not of the ``kept`` ones,
    and of none that is seen by another name in ``views``."""
    barred = {*kept, *views, *views.values()}
    copies = {n: source for n, one in enumerate(statements) if (source := _copied(one)) is not None}
    if not copies:
        return list(statements)
    state = _Statements(statements)
    for number, source in copies.items():
        if source not in barred and not writes_of(statements[number]) & barred:
            state.read_copy(number, source)
    return state.in_order()


def _copied(copy: Statement) -> Tensor | None:
    """The tensor that a statement widens, element by element, and nothing else."""
    if not isinstance(copy, Compute) or len(copy.stores) != 1:
        return None
    (store,) = copy.stores
    value, places = store.value, indices(copy.axes)
    if not isinstance(value, Cast) or not isinstance(value.operand, Load) or store.coordinates != places:
        return None
    source = value.operand.tensor
    is_whole = value.operand.coordinates == places and source.sizes == store.tensor.sizes
    is_wider = source.type.is_float and value.type.is_float and source.type.bits < value.type.bits
    return source if is_whole and is_wider and source.sizes == tuple(axis.size for axis in copy.axes) else None


class _Statements:
    """Statements by their numbers: which of them read and write a tensor, and where they stand."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self._statements = list(statements)
        self._places: list[tuple[int, ...]] = [(number,) for number in range(len(statements))]
        self._readers, self._writers = defaultdict[Tensor, list[int]](list), defaultdict[Tensor, list[int]](list)
        for number, one in enumerate(statements):
            for tensor in reads_of(one):
                self._readers[tensor].append(number)
            for tensor in writes_of(one):
                self._writers[tensor].append(number)

    def in_order(self) -> list[Statement]:
        """All of them."""
        return [self._statements[n] for n in sorted(range(len(self._statements)), key=self._places.__getitem__)]

    def read_copy(self, copy: int, source: Tensor) -> None:
        """Let all who read a tensor read its copy, which comes right behind what writes the tensor."""
        (copied,) = writes_of(self._statements[copy])
        readers = [number for number in self._readers[source] if number != copy]
        if len(self._writers[source]) != 1 or len(self._writers[copied]) != 1 or not readers:
            return
        place = (*self._places[self._writers[source][0]], copy)
        if any(self._places[number] < place for number in readers):
            return

        def visit(e: Expression) -> Expression | None:
            if not isinstance(e, Cast) or e.type is not copied.type or not isinstance(e.operand, Load):
                return None
            return Load(copied, e.operand.coordinates) if e.operand.tensor is source else None

        replaced = [rewritten(self._statements[number], Rewriter(visit), {}) for number in readers]
        if any(source in reads_of(one) or not isinstance(one, Compute) for one in replaced):
            return
        for number, one in zip(readers, replaced, strict=True):
            self._statements[number] = one
        self._readers[copied] += readers
        self._readers[source], self._places[copy] = [copy], place
