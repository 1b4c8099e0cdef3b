"""Runs of dimensions that are folded as one: how they lie in memory.

A definition folds several dimensions by the positions of their elements, as coordinates that are quotients and rests of
one number. Where the dimensions follow one another in memory, the address is a multiple of the number again and there
is nothing to do. Elsewhere nobody wants to divide at every step: a run at the end of a tensor is read from a packed
copy, and a run before dimensions that stay is folded dimension by dimension, which is the same order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from opendml.expression.ir import (
    Axis,
    Binary,
    Expression,
    Fold,
    Index,
    Load,
    Part,
    Tensor,
    grid,
    index,
    indices,
    load,
    temporary,
)
from opendml.expression.positions import digits, row_major
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import (
    Compute,
    Definition,
    Statement,
    Store,
    expressions_of,
    replaced_loads,
    rewritten,
)
from opendml.targets.cpu.refine.refinement import Surroundings


def runs_in_memory(definition: Definition, around: Surroundings) -> Definition:
    """The definition without divisions at the steps of its folds."""
    found = {read: run for statement in definition.statements for read, run in _scattered(statement)}
    copied = {read.tensor: None for read, run in found.items() if run.is_last or not isinstance(run.position, Index)}
    if copied:
        definition = _with_copies(definition, list(copied))
    if len(copied) < len({read.tensor for read in found}):
        definition = replace(definition, statements=tuple(map(_dimension_by_dimension, definition.statements)))
    return definition


class _Run(NamedTuple):
    """Dimensions of a tensor whose coordinates are those of the element number ``position`` in them. ``is_last``: no
    dimension behind them has more than one element."""

    position: Expression
    dimensions: tuple[int, ...]
    is_last: bool

    def sizes(self, tensor: Tensor) -> list[int]:
        """Those of the dimensions."""
        return [tensor.sizes[d] for d in self.dimensions]


def _scattered(statement: Statement) -> Iterator[tuple[Load, _Run]]:
    """The loads of a statement's folds that walk a run whose dimensions do not follow one another in memory."""
    if not isinstance(statement, Compute):
        return
    folds = {e for root in expressions_of(statement) for e in walk(root) if isinstance(e, Fold)}
    for read in dict.fromkeys(e for fold in folds for part in fold.children for e in walk(part)):
        if not isinstance(read, Load):
            continue
        for run in _runs(read):
            strides = [(read.tensor.strides[d], read.tensor.sizes[d]) for d in run.dimensions]
            if any(outer != inner * size for (outer, _), (inner, size) in itertools.pairwise(strides)):
                yield read, run


def _runs(read: Load) -> Iterator[_Run]:
    """The runs that a load walks."""
    tensor = read.tensor
    large = [d for d, size in enumerate(tensor.sizes) if size > 1]
    end = len(large)
    while end > 1:
        last = read.coordinates[large[end - 1]]
        position = last.left if isinstance(last, Binary) and last.operation == "rem" else None
        start = None if position is None else _start(read, position, large[:end])
        if position is None or start is None:
            end -= 1
            continue
        yield _Run(position, tuple(large[start:end]), end == len(large))
        end = start


def _start(read: Load, position: Expression, large: Sequence[int]) -> int | None:
    """From which dimension on, down to the last of some, the coordinates are those of a position."""
    sizes = [read.tensor.sizes[d] for d in large]
    coordinates = [read.coordinates[d] for d in large]
    for start in range(len(large) - 1):
        if tuple(coordinates[start:]) == digits(position, sizes[start:]):
            return start
    return None


def _with_copies(definition: Definition, tensors: Sequence[Tensor]) -> Definition:
    """The definition with packed copies of some inputs, which all its statements read."""
    copies = {t: temporary(f"packed_{t.name}", t.type, t.sizes) for t in tensors}
    statements = list[Statement]()
    for source, copy in copies.items():
        axes = grid(source.sizes)
        statements.append(Compute(axes, (Store(copy, indices(axes), load(source, indices(axes))),)))
    rewrite = replaced_loads({t: lambda place, copy=copy: load(copy, place) for t, copy in copies.items()})  # type: ignore[misc]
    statements += [rewritten(statement, rewrite, {}) for statement in definition.statements]
    temporaries = (*copies.values(), *definition.temporaries)
    return replace(definition, statements=tuple(statements), temporaries=temporaries)


def _dimension_by_dimension(statement: Statement) -> Statement:
    """A statement whose folds have an axis for each dimension of such runs, innermost folds first."""
    while True:
        runs = dict[Axis, list[int]]()
        for read, run in _scattered(statement):
            if isinstance(run.position, Index):
                runs[run.position.axis] = run.sizes(read.tensor)
        folds = [e for root in expressions_of(statement) for e in walk(root) if isinstance(e, Fold)]
        wanted = [fold for fold in folds if not runs.keys().isdisjoint(fold.axes)]
        inner = {e for fold in wanted for part in fold.children for e in walk(part) if e is not fold}
        fold = next((fold for fold in wanted if fold not in inner), None)
        if fold is None:
            return statement
        parted = _parted(fold, runs)
        parts: dict[Expression, Expression] = {Part(fold, n): Part(parted, n) for n in range(len(fold.elements))}
        statement = rewritten(statement, substitute(parts), {})


def _parted(fold: Fold, runs: dict[Axis, list[int]]) -> Fold:
    """The fold with several axes in the place of each of some."""
    axes, there = list[Axis](), dict[Expression, Expression]()
    for axis in fold.axes:
        sizes = runs.get(axis)
        if sizes is None:
            axes.append(axis)
            continue
        parts = [Axis(f"{axis.name}{'abcdefgh'[n]}", size) for n, size in enumerate(sizes)]
        axes += parts
        there |= dict(zip(digits(index(axis), sizes), indices(parts), strict=True))
        there[index(axis)] = row_major(indices(parts), sizes)
    rewrite = substitute(there)
    where = None if fold.where is None else rewrite(fold.where)
    elements = tuple(map(rewrite, fold.elements))
    return Fold(tuple(axes), fold.initial, elements, fold.combine, where, fold.partials, fold.contract)
