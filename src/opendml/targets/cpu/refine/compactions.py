"""Compactions in pieces: threads share what a scan does one element after the other.

A scan that gives every marked element the next free place becomes one of each piece by itself, which says where its
marked elements are in it, one over the pieces, which says how many are before each of them, and a scatter that puts the
pieces next to each other.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from opendml.expression.element_types import BOOL, I64, U16, U32
from opendml.expression.folds import fold, partials_for
from opendml.expression.ir import (
    Axis,
    Binary,
    Cast,
    Expression,
    Load,
    Select,
    Tensor,
    Variable,
    cast,
    constant,
    index,
    load,
    temporary,
)
from opendml.expression.rewriting import walk
from opendml.expression.statements import (
    Compute,
    Definition,
    Scan,
    Scatter,
    Statement,
    Store,
    expressions_of,
    replaced_loads,
    rewritten,
    writes_of,
)
from opendml.targets.cpu.refine.refinement import Surroundings


def compactions_in_pieces(definition: Definition, around: Surroundings) -> Definition:
    """The definition with its compaction in pieces, where there are more elements than one piece has."""
    length = around.target.tuning.compacted_piece
    for number, statement in enumerate(definition.statements):
        found = _compaction(definition, statement) if isinstance(statement, Scan) else None
        if found is not None and found.marks.sizes[0] > length:
            return _in_pieces(definition, number, found, length)
    return definition


class _Compaction(NamedTuple):
    """Elements with a mark of 1 get the next of the ``places``, which is their number; ``counted`` is stored."""

    marks: Tensor
    places: Store
    counted: Store
    following: Expression


def _compaction(definition: Definition, scan: Scan) -> _Compaction | None:
    """A scan that is a compaction, if nobody reads more places than there are marks."""
    if scan.axes or len(scan.state) != 1 or len(scan.stores) != 2:
        return None
    (found,), (following,), element = scan.state, scan.step, index(scan.along)
    places, counted = scan.stores
    reads = [e for e in walk(following) if isinstance(e, Load)]
    if found.type is not I64 or scan.initial != (constant(0, I64),) or len(reads) != 1:
        return None
    (mark,) = reads
    is_next = following == found + cast(mark, I64) and mark.coordinates == (element,)
    is_place = places.coordinates == (found,) and places.value == cast(element, U32)
    is_count = counted.value == cast(following, U32) and all(not c.children for c in counted.coordinates)
    if not is_next or not is_place or not is_count or not _is_marked(definition, mark.tensor):
        return None
    bare = any(_reads_freely(statement, places.tensor, counted.tensor) for statement in definition.statements)
    return None if bare else _Compaction(mark.tensor, places, counted, following)


def _is_marked(definition: Definition, marks: Tensor) -> bool:
    """Whether all that is stored to a temporary is 1 for true and 0 for false."""
    stores = [s for statement in definition.statements if isinstance(statement, Compute) for s in statement.stores]
    values = [store.value for store in stores if store.tensor is marks]
    are_answers = all(isinstance(value, Cast) and value.operand.type is BOOL for value in values)
    return marks in definition.temporaries and bool(values) and are_answers


def _reads_freely(statement: Statement, places: Tensor, count: Tensor) -> bool:
    """Whether a statement reads places without asking whether they are less than the count."""

    def is_asked(e: Expression) -> bool:
        if not isinstance(e, Select) or not isinstance(e.condition, Binary) or e.condition.operation != "lt":
            return False
        limits = [x for x in walk(e.condition.right) if isinstance(x, Load)]
        reads = [x for x in walk(e.then) if isinstance(x, Load) and x.tensor is places]
        is_less = all(x.coordinates == (e.condition.left,) for x in reads)
        return len(limits) == 1 and limits[0].tensor is count and is_less

    return any(
        isinstance(e, Load) and e.tensor is places for root in expressions_of(statement) for e in walk(root, is_asked)
    )


def _in_pieces(definition: Definition, number: int, found: _Compaction, length: int) -> Definition:
    """The definition with another form of its statement of that number."""
    pieces = -(-found.marks.sizes[0] // length)
    marks = temporary(found.marks.name, found.marks.type, [pieces * length])
    counts, firsts = temporary("counts", U32, [pieces]), temporary("firsts", U32, [pieces])
    lists = temporary("lists", U16, [pieces, length])
    made = list(_statements(found, marks, (counts, firsts, lists)))
    moved = replaced_loads({found.marks: lambda place: load(marks, place)})
    others = [
        s if found.marks not in writes_of(s) else rewritten(s, moved, {found.marks: marks})
        for s in definition.statements
    ]
    statements = [*others[:number], *_filled(found.marks.sizes[0], marks), *made, *others[number + 1 :]]
    temporaries = [marks if t is found.marks else t for t in definition.temporaries]
    return replace(definition, statements=tuple(statements), temporaries=(*temporaries, counts, firsts, lists))


def _filled(start: int, marks: Tensor) -> Iterator[Compute]:
    """Zeros behind the last element, to the end of its piece."""
    if start < marks.sizes[0]:
        rest = Axis("i", marks.sizes[0] - start)
        yield Compute((rest,), (Store(marks, (index(rest) + start,), constant(0, marks.type)),))


def _statements(found: _Compaction, marks: Tensor, own: tuple[Tensor, Tensor, Tensor]) -> Iterator[Statement]:
    counts, firsts, lists = own
    piece, number = Axis("p", lists.sizes[0]), Axis("i", lists.sizes[1])
    p, i, length = index(piece), index(number), lists.sizes[1]
    mark = load(marks, (p * length + i,))
    total = fold(operator.add, (number,), constant(0, U32), cast(mark, U32), partials=partials_for(number))
    yield Compute((piece,), (Store(counts, (p,), total),))
    before, within = Variable("before", U32), Variable("found", I64)
    through = before + load(counts, (p,))
    counted = Store(found.counted.tensor, found.counted.coordinates, through)
    yield Scan((), piece, (before,), (constant(0, U32),), (through,), (Store(firsts, (p,), before), counted))
    kept = Store(lists, (p, within), cast(i, U16))
    yield Scan((piece,), number, (within,), (constant(0, I64),), (within + cast(mark, I64),), (kept,))
    place = cast(load(firsts, (p,)), I64) + i
    value = cast(p * length, U32) + cast(load(lists, (p, i)), U32)
    is_there = i < cast(load(counts, (p,)), I64)
    yield Scatter((piece, number), is_there, Store(found.places.tensor, (place,), value), apart=(piece,))
