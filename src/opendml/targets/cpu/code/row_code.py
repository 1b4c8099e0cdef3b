"""Stores of rows with margins around them: a vector may go on in the next row, and ends of rows have neighbours.

The lanes of a vector that are in one row are a piece. Where rows are apart from one another, every piece is stored by
itself, from where all of the vector would be if that row had all of it: by a mask that has the lanes beside the piece,
too, which are given what is in the margins. What is before the first lane, or behind the last one, is stored alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from opendml.expression.element_types import BOOL, I64
from opendml.expression.ir import Axis, Expression, constant, index
from opendml.expression.statements import RowMargins
from opendml.llvm.values import Value, index_value
from opendml.loops.nest import ElementStore
from opendml.targets.cpu.code.memory import Place
from opendml.targets.cpu.code.point import Point
from opendml.targets.cpu.instructions.moves import SHORTEST_MASKED, write_store

if TYPE_CHECKING:
    from opendml.targets.cpu.code.evaluation import Evaluator


class _Masked(NamedTuple):
    """Lanes that are ``stored`` from a place on, those ``inside`` of a row, all others as margins are."""

    place: Place
    stored: Value
    inside: Value | None = None


def write_rows(evaluator: Evaluator, store: ElementStore, margins: RowMargins, value: Value, point: Point) -> None:
    """``value`` to where a store says, and its margins at the ends of rows."""
    _RowWriter(evaluator, store, margins, point).write(value)


class _RowWriter:
    """A store at a point."""

    def __init__(self, evaluator: Evaluator, store: ElementStore, margins: RowMargins, point: Point) -> None:
        self._evaluator, self._builder, self._memory = evaluator, evaluator.builder, evaluator.memory
        self._store, self._margins, self._point = store, margins, point
        self._is_along = point.vector is margins.along and point.lanes > 1
        self._place = evaluator.place(store.tensor, store.address, point)
        self._further = next((c for t, c in store.address.terms if not isinstance(t, Axis)), 0)
        self._count = point.lanes if point.active is None else point.active

    def write(self, value: Value) -> None:
        """The elements, and what is in the margins. What the masks follow from is computed before a branch: other
        stores at the same place want it, too."""
        value = self._builder.spread(value, self._point.lanes) if self._is_along else value
        pieces, margins = list(self._pieces()), list(self._beside())
        if not self._is_mostly_inside():
            self._at_ends(value, pieces, margins)
            return
        inside = partial(self._memory.store, self._place, value)
        at_ends = partial(self._at_ends, value, pieces, margins)
        self._builder.branch(self._is_inside(), self._arm(inside), self._arm(at_ends))

    def _arm(self, write: Callable[[], None]) -> Callable[[], Sequence[Value]]:
        def written() -> Sequence[Value]:
            with self._evaluator.scope():
                write()
            return ()

        return written

    def _at_ends(self, value: Value, pieces: Sequence[_Masked], margins: Sequence[_Masked]) -> None:
        """Every piece of a vector by itself, and what is beside it."""
        if not pieces:
            self._evaluator.store(self._store.tensor, self._store.address, value, self._point)
        for place, stored, inside in (*pieces, *margins):
            margin = self._builder.spread(self._builder.constant(self._margins.value), stored.lanes)
            lanes = margin if inside is None else self._builder.select(inside, value, margin)
            write_store(self._builder, lanes, self._memory.pointer(place), stored)

    # Inside of rows --------------------------------------------------------------------------------------------------

    def _is_mostly_inside(self) -> bool:
        """Whether rows are so long that most vectors are."""
        is_whole = self._is_along and self._point.active is None
        long_row = self._evaluator.target.tuning.long_row * self._point.lanes
        step = self._evaluator.step(self._store.address, self._point)
        return is_whole and step == 1 and self._margins.row >= long_row

    def _is_inside(self) -> Value:
        """Whether the vector is inside of a row, and beside no margin."""
        first = min(self._margins.before, 1)
        last = self._margins.row - self._count - min(self._margins.behind, 1)

        def write() -> Value:
            distance = self._builder.assign(f"sub i64 {self._in_row(0)}, {first}")
            return Value(self._builder.assign(f"icmp ule i64 {distance}, {last - first}"), BOOL)

        return self._known(("is inside",), write)

    # Pieces ----------------------------------------------------------------------------------------------------------

    def _pieces(self) -> Iterator[_Masked]:
        if self._is_along and self._further:
            for number, (inside, stored) in enumerate(self._masks()):
                yield _Masked(self._place.moved(number * self._further), stored, inside)

    def _masks(self) -> Iterator[tuple[Value, Value]]:
        """For every row that the vector may reach, the lanes in it, and these with the margins that there are lanes
        for."""
        row, lanes, earlier = self._margins.row, self._point.lanes, index_value(0)
        for number in range(1 + -(-(lanes - 1) // row)):
            through = self._known(("through", number), partial(self._lanes_before, (number + 1) * row))
            inside = self._known(("inside", number), partial(self._without, through, earlier))
            stored = self._known(("stored", number), partial(self._with_margins, inside))
            earlier = through
            masks = ((("inside lanes", number), inside), (("stored lanes", number), stored))
            first, second = (self._known(key, partial(self._mask, bits)) for key, bits in masks)
            yield first, second

    def _lanes_before(self, end: int) -> Value:
        """The lanes before the one that is ``end`` elements behind the beginning of the first row."""
        builder, lanes = self._builder, self._point.lanes
        distance = builder.assign(f"sub i64 {end}, {self._in_row(0)}")
        is_less = builder.assign(f"icmp slt i64 {distance}, {self._count}")
        limit = builder.assign(f"select i1 {is_less}, i64 {distance}, i64 {self._count}")
        power = builder.assign(f"shl i64 1, {limit}")
        bits = builder.assign(f"sub i64 {power}, 1")
        return index_value(bits if lanes == 64 else builder.assign(f"trunc i64 {bits} to i{lanes}"))

    def _without(self, lanes: Value, others: Value) -> Value:
        return self._bits("and", lanes, self._bits("xor", others, index_value(-1)))

    def _with_margins(self, inside: Value) -> Value:
        """The lanes beside these, too."""
        result, everything = inside, index_value((1 << self._count) - 1)
        if self._margins.before:
            result = self._bits("or", result, self._bits("lshr", inside, index_value(1)))
        if self._margins.behind:
            behind = self._bits("and", self._bits("shl", inside, index_value(1)), everything)
            result = self._bits("or", result, behind)
        return result

    def _bits(self, operation: str, a: Value, b: Value) -> Value:
        return index_value(self._builder.assign(f"{operation} i{self._point.lanes} {a.text}, {b.text}"))

    def _mask(self, bits: Value) -> Value:
        lanes = self._point.lanes
        return Value(self._builder.assign(f"bitcast i{lanes} {bits.text} to <{lanes} x i1>"), BOOL, lanes)

    # Ends ------------------------------------------------------------------------------------------------------------

    def _beside(self) -> Iterator[_Masked]:
        """What is before a row that begins with the first lane, and behind one that ends with the last; where lanes are
        in rows of their own, around each of them."""
        margins = self._margins
        step = self._evaluator.step(self._store.address, self._point)
        lanes = 1 if self._is_along or self._point.lanes == 1 else self._count
        places = [self._place.moved(lane * step) for lane in range(lanes)]
        last = self._count - 1 if self._is_along else 0
        if margins.before:
            begins = self._known(("begins", 0), lambda: self._is_zero(self._in_row(0)))
            for place in places:
                yield self._margin(place.moved(-margins.before), margins.before, begins)
        if margins.behind:
            ends = self._known(("ends", 0), lambda: self._is_zero(self._in_row(last + 1)))
            for place in places:
                yield self._margin(self._behind(place, last), margins.behind, ends)

    def _behind(self, place: Place, last: int) -> Place:
        """The element behind lane ``last``."""
        if not self._further or not last:
            return place.moved(last + 1)
        builder, row, along = self._builder, self._margins.row, index(self._margins.along)

        def write() -> Value:
            rows = builder.assign(f"sub i64 {self._number((along + last) // row)}, {self._number(along // row)}")
            return index_value(builder.assign(f"mul i64 {rows}, {self._further}"))

        further = self._known(("further", last), write)
        base = further.text
        if place.base is not None:
            base = builder.assign(f"add i64 {place.base.text}, {further.text}")
        return place._replace(base=index_value(base)).moved(last + 1)

    def _margin(self, first: Place, count: int, condition: Value) -> _Masked:
        """``count`` elements, if a condition holds."""
        builder, lanes = self._builder, SHORTEST_MASKED // first.size

        def write() -> Value:
            bits = builder.assign(f"select i1 {condition.text}, i{lanes} {(1 << count) - 1}, i{lanes} 0")
            return Value(builder.assign(f"bitcast i{lanes} {bits} to <{lanes} x i1>"), BOOL, lanes)

        return _Masked(first, self._known(("margin", count, condition.text), write))

    def _is_zero(self, number: str) -> Value:
        return Value(self._builder.assign(f"icmp eq i64 {number}, 0"), BOOL)

    # What is known ---------------------------------------------------------------------------------------------------

    def _in_row(self, lane: int) -> str:
        """Where in its row a lane is, or would be."""
        return self._number((index(self._margins.along) + lane) % constant(self._margins.row, I64))

    def _number(self, e: Expression) -> str:
        """An integer at the first lane."""
        return self._evaluator.value(e, self._point._replace(vector=None, lanes=1)).text

    def _known(self, what: tuple[object, ...], write: Callable[[], Value]) -> Value:
        """What other stores to rows at the same place have asked for, too."""
        margins, point = self._margins, self._point
        here = self._number(index(margins.along)), margins.row, margins.before, margins.behind
        return self._evaluator.known(("rows", *what, *here, point.lanes, point.active, self._further), write)
