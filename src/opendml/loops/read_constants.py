"""Many statements that differ in constants alone: they read these from tables, and so are alike.

A graph may do the same again and again with other numbers. Each would be a kernel of its own to schedule, write and
compile; a kernel that is told where its constants are serves them all. Where there are few such statements they keep
their constants, which the compiler may know then: but for numbers that the results of folds are scaled or moved by, as
layers of a network do, since the code of a fold is long and what follows it is little, and for numbers in long
expressions. What is computed is the same: a load gives the bits of the constant.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from opendml.expression.element_types import BOOL, F32, I16, I32, I64, U32, ElementType, bits_of
from opendml.expression.ir import (
    Binary,
    Bitcast,
    Cast,
    Const,
    Expression,
    Fold,
    Load,
    Tensor,
    binary,
    cast,
    constant,
    load,
)
from opendml.expression.likeness import likeness
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute, Statement, rewritten

SMALL: Final = 4096.0
"""A number that scales of quantised tensors hardly exceed. Sums of a few products of it by integers of 8 bits and their
zero points are within 32 bits."""


@dataclass(frozen=True, slots=True)
class ReadConstants:
    """``statements`` as they were and what becomes of them; what is in the tensors of one element that these read."""

    statements: Mapping[Statement, Compute]
    constants: Mapping[Tensor, Const]


def read_constants(
    statements: Sequence[Statement], order: Mapping[Tensor, int], least: int, least_long: int, long: int
) -> ReadConstants:
    """Those of ``statements`` of which at least ``least`` are the same but for constants, or ``least_long`` with folds
    or ``long`` different expressions but for numbers that are in no fold. ``order``: as for ``likeness``."""
    changed: dict[Statement, Compute] = {}
    constants: dict[Tensor, Const] = {}

    def change(some: Sequence[Compute], least: int, free: Callable[[Compute], frozenset[Const]]) -> None:
        for like_sized in _groups(some, _size, least):
            likes = {s: likeness(s, (), order, free(s)) for s in like_sized}
            for alike in _groups(like_sized, lambda statement: likes[statement].key, least):  # noqa: B023 (at once)
                columns = list(zip(*(likes[s].constants for s in alike), strict=True))
                differing = [len(set(column)) > 1 for column in columns]
                readings = [_reading(column) if _narrows(alike[0]) else _AS_THEY_ARE for column in columns]
                for statement in alike if any(differing) else ():
                    read = itertools.compress(zip(likes[statement].constants, readings, strict=True), differing)
                    loads: dict[Expression, Expression] = {c: loaded(c, how) for c, how in read}
                    changed[statement] = _rewritten(statement, loads)

    def loaded(const: Const, how: _Reading) -> Expression:
        stored = how.stored(const)
        tensor = Tensor(f"constant{len(constants)}", stored.type, (1,), (1,), "input")
        constants[tensor] = stored
        return how.read(load(tensor, [0]), const.type)

    computes = [s for s in statements if isinstance(s, Compute)]
    change(computes, least, _free_constants)
    change([s for s in computes if s not in changed and _is_long(s, long)], least_long, _numbers_outside_folds)
    return ReadConstants(changed, constants)


def _groups(statements: Iterable[Compute], key: Callable[[Compute], Hashable], least: int) -> Iterator[list[Compute]]:
    """Those that have a key in common, where they are many."""
    groups: dict[Hashable, list[Compute]] = {}
    for statement in statements:
        groups.setdefault(key(statement), []).append(statement)
    return (group for group in groups.values() if len(group) >= least)


def _size(statement: Compute) -> Hashable:
    """What is quickly seen to differ."""
    expressions = [sum(1 for _ in walk(store.value)) for store in statement.stores]
    return tuple(axis.size for axis in statement.axes), tuple(expressions)


def _free_constants(statement: Compute) -> frozenset[Const]:
    """The constants that nothing but the value depends on: none in coordinates, in what may be one, or in how a fold
    begins and combines; no divisors and counts of shifts, for which code is the better if it knows them."""
    free: set[Const] = set()
    bound: set[Expression] = set()
    for store in statement.stores:
        for coordinate in store.coordinates:
            bound |= set(walk(coordinate))
        for e in walk(store.value):
            kept: Sequence[Expression] = ()
            if isinstance(e, Const) and e.type not in (BOOL, I64):
                free.add(e)
            elif isinstance(e, Load):
                kept = e.coordinates
            elif isinstance(e, Fold):
                kept = (*e.initial, *e.combine.result, *(e.combine.merge or ()))
            elif isinstance(e, Binary) and e.operation in ("div", "rem", "shl", "shr") and not e.type.is_float:
                kept = (e.right,)
            for expression in kept:
                bound |= set(walk(expression))
    return frozenset(free - bound)


def _is_long(statement: Compute, least: int) -> bool:
    """Whether the code of a statement is long: it has a fold, or so many expressions."""
    expressions = {e for store in statement.stores for e in walk(store.value)}
    return len(expressions) >= least or any(isinstance(e, Fold) for e in expressions)


def _numbers_outside_folds(statement: Compute) -> frozenset[Const]:
    """Free constants of 32 bits or floating point that are in no fold: schedules look into those."""
    inside: set[Expression] = set()
    for store in statement.stores:
        for e in walk(store.value):
            if isinstance(e, Fold):
                inside |= set(walk(e))
    return frozenset(c for c in _free_constants(statement) - inside if c.type.is_float or c.type in (I32, U32))


def _narrows(statement: Compute) -> bool:
    """Whether a statement quantizes: makes integers of 8 or 16 bits, for which whole numbers are clamped at once."""
    parts = (e for store in statement.stores for e in walk(store.value))
    return any(isinstance(e, Cast) and e.type.is_integer and e.type.bits < 32 for e in parts)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is stored for a constant, and how that is read so that it has the constant's bits."""

    stored: Callable[[Const], Const]
    read: Callable[[Expression, ElementType], Expression]


_AS_THEY_ARE: Final = _Reading(lambda const: const, lambda load, _: load)
_AS_INTEGERS: Final = _Reading(lambda const: constant(const.value, I16), cast)
_AS_SMALL_NUMBERS: Final = _Reading(
    lambda const: constant(const.bits, U32),
    lambda load, type: Bitcast(binary("min", load, bits_of(SMALL, type)), type),
)
"""By their bits, which are in the order of the numbers where these are no less than 0. The minimum changes none; code
that asks how large a sum may become can tell."""


def _reading(column: Sequence[Const]) -> _Reading:
    """How constants of a statement that quantizes are read."""
    if all(map(_is_whole, column)):
        return _AS_INTEGERS
    is_small = all(const.type is F32 and const.bits <= bits_of(SMALL, F32) for const in column)
    return _AS_SMALL_NUMBERS if is_small else _AS_THEY_ARE


def _is_whole(const: Const) -> bool:
    """Whether a number of float32 is a whole one, as zero points of quantised tensors are. Read as an integer it has
    the same bits, and code that writes out what is done with whole numbers can tell that it is one, of 16 bits."""
    if const.type is not F32 or const.bits == bits_of(-0.0, F32):
        return False
    number = float(const.value)
    return number.is_integer() and -(1 << 15) <= number < 1 << 15


def _rewritten(statement: Compute, loads: dict[Expression, Expression]) -> Compute:
    changed = rewritten(statement, substitute(loads), {})
    assert isinstance(changed, Compute)
    return changed
