"""Taps that lie in the padding: sums over windows may leave them out, where that changes no bit.

Outside of its input a sum multiplies zeros by weights. What such a product adds is nothing, if the weight is a finite
number, but the sign of a zero, and only where all products so far were zero or too small for a number. What is added
behind the sum, a bias (or 0, where there is none), takes that sign away again, unless it is -0 itself. Weights and
biases that are fixed are looked at once, before the program ever runs, others every time; where one of them forbids it
nothing is left out.

So the fold of such a sum says *where* it has steps: inside of the input, or anywhere if that is so. Whoever computes it
may take all of them for inside, since its padded copy has zeros there.
"""

from __future__ import annotations

from opendml.expression.element_types import F32, I64, U32
from opendml.expression.folds import fold, maximum
from opendml.expression.ir import (
    Axis,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expression,
    Fold,
    Load,
    Part,
    Tensor,
    binary,
    constant,
    grid,
    index,
    indices,
    load,
    select,
)
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute, Store
from opendml.targets.cpu.refine.refinement import Refinement
from opendml.targets.cpu.refine.sums import Sum, at, sum_of

_INFINITY = 0x7F800000
_MAGNITUDE = 0x7FFFFFFF
_NEGATIVE_ZERO = 0x80000000


def without_padding(statement: Compute, sum: Sum, known: frozenset[Tensor] | None, made: Refinement) -> Compute:
    """The sums over windows of a padded copy, with filters in panels, that may leave out what is not ``inside`` of what
    ``sum`` reads; the same ones if a bias does not say that it changes no bit. That is one of those ``known`` before
    the program runs, or any at all."""
    there = sum_of(statement)
    assert there is not None
    total = Part(there.fold, 0)
    bias = _bias(statement, total, known)
    inside = sum.left.inside
    if bias is None or inside is None or there.fold.type is not F32:
        return statement
    may_leave_out = _flag(statement, there, bias, made)
    where = binary("or", binary("eq", load(may_leave_out, [constant(0, I64)]), 0), inside)
    old = there.fold
    some = Fold(
        old.axes, old.initial, old.elements, old.combine, where, old.partials, old.contract, is_same_anywhere=True
    )
    rewrite = substitute({total: Part(some, 0)})
    stores = tuple(Store(s.tensor, s.coordinates, rewrite(s.value)) for s in statement.stores)
    return Compute(statement.axes, stores)


def _bias(statement: Compute, total: Part, known: frozenset[Tensor] | None) -> Expression | None:
    """What is added to a sum of which nothing else is made, if that is a number, or an element of what is known."""
    found = {e for store in statement.stores for e in walk(store.value) if total in e.children}
    if len(found) != 1 or any(store.value is total for store in statement.stores):
        return None
    (e,) = found
    if not isinstance(e, Binary) or e.operation != "add":
        return None
    other = e.right if e.left is total else e.left
    if isinstance(other, Const):
        return None if other.bits == _NEGATIVE_ZERO else other
    element = other.operand if isinstance(other, Cast) else other
    is_known = isinstance(element, Load) and element.type.is_float and (known is None or element.tensor in known)
    return other if is_known and other.type is F32 else None


def _flag(statement: Compute, sum: Sum, bias: Expression, made: Refinement) -> Tensor:
    """A number that is 0 if a weight is infinite or NaN, or a bias is -0."""
    group, block, within = statement.axes[1:4]
    folded = tuple(Axis(axis.name, axis.size) for axis in sum.fold.axes)
    steps = {old: index(new) for old, new in zip(sum.fold.axes, folded, strict=True)}

    def largest(*channel: Expression) -> Expression:
        there = dict(zip((group, block, within), channel, strict=True))
        magnitude = binary("and", Bitcast(at(sum.right.whole, {**there, **steps}), U32), _MAGNITUDE)
        most = fold(maximum, folded, constant(0, U32), magnitude)
        if isinstance(bias, Const):
            return most
        is_negative_zero = binary("eq", Bitcast(at(bias, there), U32), _NEGATIVE_ZERO)
        return select(is_negative_zero, constant(_INFINITY, U32), most)

    tops = made.copy("largest_weights", U32, [group.size, block.size, within.size], largest)

    def is_harmless(_: Expression) -> Expression:
        axes = grid(tops.sizes)
        most = fold(maximum, axes, constant(0, U32), load(tops, indices(axes)))
        return select(binary("lt", most, _INFINITY), constant(1, I64), 0)

    return made.copy("may_leave_out", I64, [1], is_harmless)
