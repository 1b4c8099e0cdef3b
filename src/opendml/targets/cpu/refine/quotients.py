"""Axes whose coordinates are divided: blocks of as many points as the divisor says, in which nothing is divided.

What is gathered from windows with a stride, as the gradients of poolings are, asks for quotients and rests of
coordinates by the stride. Processors divide slowly, and vectors of integers not at all. An axis of whole blocks and one
of the points in a block need no division: of ``i + c`` the quotient is the block's number, and one more behind a carry.
What is left behind the last whole block has a statement of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from opendml.expression.affine import affine
from opendml.expression.element_types import I64
from opendml.expression.ir import Axis, Binary, Const, Expression, Index, Load, index, select
from opendml.expression.rewriting import Rewriter, walk
from opendml.expression.statements import Compute, Definition, Statement, Store
from opendml.loops.rewriting import simplify
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings, statement_by_statement


def blocks_of_strides(definition: Definition, around: Surroundings) -> Definition:
    """The definition with blocks in the place of axes that its sums of windows divide."""
    return statement_by_statement(definition, _in_blocks)


def _in_blocks(statement: Statement) -> Refinement | None:
    """The statements of whole blocks, and those of what is left."""
    divisors = _divisors(statement) if isinstance(statement, Compute) else {}
    if not isinstance(statement, Compute) or not divisors:
        return None
    choices = [list(_parts(axis, divisors[axis])) if axis in divisors else [_Whole(axis)] for axis in statement.axes]
    return Refinement([_with_parts(statement, parts) for parts in itertools.product(*choices)])


def _divisors(statement: Compute) -> dict[Axis, int]:
    """The axes that stores walk one by one, and whose coordinates are divided by one number wherever they are.

    Copies are left as they are. So is an axis outside of rows whose rests are parts of addresses: these are divided
    once a row.
    """
    if all(isinstance(store.value, Load) for store in statement.stores):
        return {}
    found, in_addresses = dict[Axis, set[int]](), set[Axis]()
    for e in (e for store in statement.stores for e in walk(store.value)):
        divided = _divided(e)
        if divided is not None:
            axis, _, divisor = divided
            found.setdefault(axis, set()).add(divisor)
        if isinstance(e, Load):
            rests = (x for c in e.coordinates for x in walk(c) if isinstance(x, Binary) and x.operation == "rem")
            in_addresses |= {divided[0] for x in rests if (divided := _divided(x)) is not None}
    coordinates = [set(store.coordinates) for store in statement.stores]
    return {
        axis: divisor
        for axis, (divisor, *others) in found.items()
        if not others
        and axis in statement.axes
        and (axis is statement.axes[-1] or axis not in in_addresses)
        and all(index(axis) in places for places in coordinates)
    }


def _divided(e: Expression) -> tuple[Axis, int, int] | None:
    """The axis, the addend and the divisor of a quotient or rest of a coordinate; no dividend may be negative."""
    if not isinstance(e, Binary) or e.type is not I64 or e.operation not in ("div", "rem"):
        return None
    form, divisor = affine(e.left), int(e.right.value) if isinstance(e.right, Const) else 0
    if len(form.terms) != 1 or form.constant < 0 or divisor < 2:
        return None
    ((axis, coefficient),) = form.terms
    return (axis, form.constant, divisor) if isinstance(axis, Axis) and coefficient == 1 else None


class _Whole:
    """An axis as it is."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.axes: tuple[Axis, ...] = (axis,)

    def place(self) -> Expression:
        """The coordinate."""
        return index(self.axis)

    def quotient(self, addend: int) -> Expression:
        """Of the coordinate and a number, by the stride."""
        raise AssertionError(f"{self.axis.name} is not divided, {addend} or not")

    rest = quotient


class _Blocks(_Whole):
    """Some ``blocks`` of an axis from number ``start`` on, as two axes; of each the first ``length`` points."""

    def __init__(self, axis: Axis, stride: int, start: int, blocks: int, length: int) -> None:
        super().__init__(axis)
        self.stride, self.start = stride, start
        self.block, self.inner = Axis(axis.name, blocks), Axis(f"inner_{axis.name}", length)
        self.axes = (self.block, self.inner)

    def place(self) -> Expression:
        return index(self.block) * self.stride + index(self.inner) + self.start * self.stride

    def _carried(self, shift: int) -> Expression | None:
        """Whether a point in a block and a number are of the next block; None if never."""
        carries = self.inner.size + shift > self.stride
        return index(self.inner) + shift >= self.stride if carries else None

    def quotient(self, addend: int) -> Expression:
        skipped, shift = divmod(addend, self.stride)
        carried, number = self._carried(shift), index(self.block) + (self.start + skipped)
        return number if carried is None else number + select(carried, 1, 0, I64)

    def rest(self, addend: int) -> Expression:
        shift = addend % self.stride
        carried, rest = self._carried(shift), index(self.inner) + shift
        return rest if carried is None else rest - select(carried, self.stride, 0, I64)


def _parts(axis: Axis, stride: int) -> Iterator[_Blocks]:
    """Whole blocks, and what is left behind them."""
    whole, rest = divmod(axis.size, stride)
    if whole:
        yield _Blocks(axis, stride, 0, whole, stride)
    if rest:
        yield _Blocks(axis, stride, whole, 1, rest)


def _with_parts(statement: Compute, parts: Sequence[_Whole]) -> Compute:
    """The statement at the points of these parts of its axes."""
    of_axis = {part.axis: part for part in parts}

    def visit(e: Expression) -> Expression | None:
        divided = _divided(e)
        if divided is not None and isinstance(part := of_axis.get(divided[0]), _Blocks):
            assert isinstance(e, Binary)
            return part.quotient(divided[1]) if e.operation == "div" else part.rest(divided[1])
        if isinstance(e, Index) and e.axis in of_axis:
            return of_axis[e.axis].place()
        return None

    moved, decided = Rewriter(visit), simplify({})
    stores = [Store(s.tensor, tuple(map(moved, s.coordinates)), decided(moved(s.value))) for s in statement.stores]
    return Compute(tuple(axis for part in parts for axis in part.axes), tuple(stores))
