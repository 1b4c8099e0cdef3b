"""Tables of what is computed from a few coordinates and read at many: where samples lie, and which sums are empty.

A statement that finds places by arithmetic on what it loads (regions: a corner, a step, the number of a sample) would
do so again for every point that reads there. What depends on a few of its axes only is computed once for each of their
points and read from a table, and so is the fold that says whether a step of another fold is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from opendml.expression.affine import Dependencies, interval
from opendml.expression.element_types import BOOL, I64, U8, U32, ElementType
from opendml.expression.ir import (
    Axis,
    Cast,
    Expression,
    Fold,
    Index,
    Load,
    Part,
    Tensor,
    cast,
    grid,
    index,
    indices,
    load,
    temporary,
)
from opendml.expression.rewriting import Rewriter, conjuncts, substitute, walk
from opendml.expression.statements import Compute, Definition, Statement, Store, rewritten
from opendml.targets.cpu.refine.accesses import operations
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings, statement_by_statement
from opendml.targets.cpu.tuning import Tuning

_NAMES: Final = {"bool": "conditions", "float": "weights", "int": "places", "uint": "places"}
"""What tables are called, by the kind of their elements."""


def tables_of_places(definition: Definition, around: Surroundings) -> Definition:
    """The definition with such tables, each before the statement that reads it."""

    def with_tables(statement: Statement) -> Refinement | None:
        found = _Search(statement, around.target.tuning).worth() if isinstance(statement, Compute) else {}
        made, replaced = Refinement(), dict[Expression, Expression]()
        for axes in dict.fromkeys(found.values()):
            values = [e for e, own in found.items() if own == axes]
            tables = [temporary(_NAMES[e.type.kind], _kept_as(e), [axis.size for axis in axes]) for e in values]
            made.statements.append(_filled(tables, values, axes))
            made.temporaries += tables
            for e, table in zip(values, tables, strict=True):
                read = load(table, indices(axes))
                replaced[e] = read.differs(0) if e.type is BOOL else cast(read, e.type)
        if not replaced:
            return None
        made.statements.append(rewritten(statement, Rewriter(replaced.get), {}))
        return made

    return statement_by_statement(definition, with_tables)


def _kept_as(e: Expression) -> ElementType:
    """The type of a table that holds an expression's values."""
    if e.type is BOOL:
        return U8
    bounds = interval(e, {}) if e.type is I64 else None
    return U32 if bounds is not None and bounds[0] >= 0 and bounds[1] < 1 << U32.bits else e.type


def _filled(tables: Sequence[Tensor], values: Sequence[Expression], axes: Sequence[Axis]) -> Compute:
    own = grid([axis.size for axis in axes], [axis.name for axis in axes])
    here = substitute({Index(axis): index(a) for axis, a in zip(axes, own, strict=True)})
    stores = [Store(t, indices(own), cast(here(e), t.type)) for t, e in zip(tables, values, strict=True)]
    return Compute(own, tuple(stores))


@dataclass(slots=True)
class _Search:
    """What of a statement is worth a table: largest expressions of few axes, less those that others give."""

    compute: Compute
    tuning: Tuning

    def worth(self) -> dict[Expression, tuple[Axis, ...]]:
        """Expressions, and the axes of the table of each."""
        conditions = self._conditions()
        if not (conditions or self._has_rounded_numbers()):
            return {}
        candidates = dict(self._largest())
        if not any(map(_finds_places, candidates)) and not candidates.keys() & conditions:
            return {}
        found = dict(sorted(candidates.items(), key=lambda item: -operations(item[0])))
        for e in list(found):
            others = found.keys() - {e}
            if operations(e, others) < self.tuning.table_operations:
                del found[e]
        return found

    def _has_rounded_numbers(self) -> bool:
        """Whether there may be a coordinate that is made of numbers: sooner known than what is worth a table."""
        roots = (e for s in self.compute.stores for e in (*s.coordinates, s.value))
        return any(True for root in roots for _ in _rounded(root))

    def _largest(self) -> Iterator[tuple[Expression, tuple[Axis, ...]]]:
        """Expressions of few axes that are computed ``Tuning.table_reads`` times at each of their points."""
        dependencies, seen = Dependencies(), set[Expression]()
        points = math.prod(axis.size for axis in self.compute.axes)
        room = self.tuning.table_growth * points
        stack = [(e, points, self.compute.axes) for s in self.compute.stores for e in (*s.coordinates, s.value)]
        while stack:
            e, uses, around = stack.pop()
            if e in seen:
                continue
            seen.add(e)
            moving = dependencies.of(e)
            axes = tuple(axis for axis in around if axis in moving)
            size = math.prod(axis.size for axis in axes)
            is_free = len(axes) == len(moving) > 0 and self.tuning.table_reads * size <= uses and size <= room
            if is_free and self._is_worth_a_table(e, dependencies):
                yield e, self._in_order(axes)
                continue
            if isinstance(e, Fold):
                around, uses = (*around, *e.axes), uses * e.steps
            stack += [(part, uses, around) for part in e.children]

    def _is_worth_a_table(self, e: Expression, dependencies: Dependencies) -> bool:
        """Whether it takes enough operations, on numbers, that all of it needs."""
        moving = dependencies.of(e)
        if any(dependencies.of(part) != moving for part in conjuncts(e)) or not _is_of_numbers(e):
            return False
        return operations(e) >= self.tuning.table_operations

    def _in_order(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """The last one of the statement's own axes behind those of folds, so that it is the vectors' here too."""
        own = [axis for axis in axes if axis in self.compute.axes]
        return (*own[:-1], *(axis for axis in axes if axis not in own), *own[-1:])

    def _conditions(self) -> set[Expression]:
        """Folds that say whether a step of another one is taken."""
        folds = {e for s in self.compute.stores for e in walk(s.value) if isinstance(e, Fold)}
        return {e for f in folds if f.where is not None for e in conjuncts(f.where) if isinstance(e, Part)}


def _is_of_numbers(e: Expression) -> bool:
    """Whether floating-point arithmetic on loaded elements makes an expression, without folds of its own but for
    conditions."""
    parts = list(walk(e))
    if any(isinstance(p, Fold) for p in parts) and e.type is not BOOL:
        return False
    return any(p.type.is_float for p in parts) and any(isinstance(p, Load) for p in parts)


def _finds_places(e: Expression) -> bool:
    """Whether a coordinate is made of floating-point numbers in an expression."""
    return any(map(_is_of_numbers, _rounded(e)))


def _rounded(e: Expression) -> Iterator[Expression]:
    """The floating-point numbers in an expression that become integers."""
    return (p.operand for p in walk(e) if isinstance(p, Cast) and p.operand.type.is_float and not p.type.is_float)
