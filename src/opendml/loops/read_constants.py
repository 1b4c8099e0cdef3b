"""Many statements that differ in constants alone: they read these from tables, and so are alike.

A graph may do the same again and again with other numbers. Each would be a kernel of its own to schedule, write and
compile; a kernel that is told where its constants are serves them all. Where there are few such statements they keep
their constants, which the compiler may know then: but for numbers that the results of folds are scaled or moved by, as
layers of a network do, since the code of a fold is long and what follows it is little. What is computed is the same: a
load gives the bits of the constant.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opendml.expression.element_types import BOOL, I64
from opendml.expression.ir import Binary, Const, Expression, Fold, Load, Tensor, load
from opendml.expression.likeness import likeness
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute, Statement, rewritten


@dataclass(frozen=True, slots=True)
class ReadConstants:
    """``statements`` as they were and what becomes of them; what is in the tensors of one element that these read."""

    statements: Mapping[Statement, Compute]
    constants: Mapping[Tensor, Const]


def read_constants(
    statements: Sequence[Statement], order: Mapping[Tensor, int], least: int, least_folds: int
) -> ReadConstants:
    """Those of ``statements`` of which at least ``least`` are the same but for constants, or ``least_folds`` with folds
    but for floating-point constants behind these. ``order``: as for ``likeness``."""
    changed: dict[Statement, Compute] = {}
    constants: dict[Tensor, Const] = {}

    def change(some: Sequence[Compute], least: int, free: Callable[[Compute], frozenset[Const]]) -> None:
        for like_sized in _groups(some, _size, least):
            likes = {s: likeness(s, (), order, free(s)) for s in like_sized}
            for alike in _groups(like_sized, lambda statement: likes[statement].key, least):  # noqa: B023 (at once)
                differing = [len(set(column)) > 1 for column in zip(*(likes[s].constants for s in alike), strict=True)]
                for statement in alike if any(differing) else ():
                    loads: dict[Expression, Expression] = {}
                    for const in itertools.compress(likes[statement].constants, differing):
                        tensor = Tensor(f"constant{len(constants)}", const.type, (1,), (1,), "input")
                        constants[tensor] = const
                        loads[const] = load(tensor, [0])
                    changed[statement] = _rewritten(statement, loads)

    computes = [s for s in statements if isinstance(s, Compute)]
    change(computes, least, _free_constants)
    change([s for s in computes if s not in changed and _has_fold(s)], least_folds, _constants_behind_folds)
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


def _has_fold(statement: Compute) -> bool:
    return any(isinstance(e, Fold) for store in statement.stores for e in walk(store.value))


def _constants_behind_folds(statement: Compute) -> frozenset[Const]:
    """Free floating-point constants that are in no fold: schedules look into those."""
    inside: set[Expression] = set()
    for store in statement.stores:
        for e in walk(store.value):
            if isinstance(e, Fold):
                inside |= set(walk(e))
    return frozenset(const for const in _free_constants(statement) - inside if const.type.is_float)


def _rewritten(statement: Compute, loads: dict[Expression, Expression]) -> Compute:
    changed = rewritten(statement, substitute(loads), {})
    assert isinstance(changed, Compute)
    return changed
