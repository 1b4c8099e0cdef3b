"""Steps again and again, for all units of a network: how their weights lie, and what is computed before them.

Every unit of a step is a sum of products with weights of its own, which stay the same from step to step. The units are
the last axis of all that the steps keep. They are walked in blocks of a power of two, and what is kept has a whole
number of blocks: units behind the last one do what that one does, and nobody reads them. Weights are copied so that
those of a block's units lie side by side; so are all other operands that are read for the units again and again.

What is computed of inputs alone, for all steps at once, stays a tensor where there is room for it; elsewhere the steps
compute it.

Directions need nothing of one another. Where the weights of both do not stay near from step to step, but those of each
do, all steps of one are done before the first of the other, if there is one item in the batch: sums of several items
take longer than loading the weights does.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from opendml.expression.affine import Affine, Dependencies, affine
from opendml.expression.element_types import ElementType
from opendml.expression.ir import (
    Axis,
    Cast,
    Expression,
    Fold,
    Index,
    Load,
    Tensor,
    binary,
    cast,
    grid,
    index,
    indices,
    load,
    temporary,
)
from opendml.expression.rewriting import Rewriter, substitute, walk
from opendml.expression.statements import (
    Compute,
    Definition,
    Repeat,
    Statement,
    Store,
    loads_in,
    reads_of,
    replaced_loads,
    rewritten,
    stores_of,
    writes_of,
)
from opendml.targets.cpu.refine.accesses import is_whole
from opendml.targets.cpu.refine.refinement import Surroundings
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import Tuning

_T = TypeVar("_T")


def blocks_of_units(definition: Definition, around: Surroundings) -> Definition:
    """The definition with the units of its steps in blocks; the same one if nothing is done again and again."""
    repeat = next((s for s in definition.statements if isinstance(s, Repeat)), None)
    network = None if repeat is None else _network(definition, repeat, around)
    return definition if network is None else network.refined()


def _network(definition: Definition, repeat: Repeat, around: Surroundings) -> _Network | None:
    """What has units, if all that the steps keep has as many of them, last."""
    target = around.target
    steps = [s for s in repeat.statements if isinstance(s, Compute) and s.axes]
    sizes = {s.axes[-1].size for s in steps}
    if len(steps) != len(repeat.statements) or len(sizes) != 1 or sizes == {1}:
        return None
    (units,) = sizes
    kept = {t for t in definition.temporaries if t.sizes[-1] == units}
    written = {t for s in definition.statements for t in writes_of(s)}
    for statement in _simple(definition.statements):
        for store in stores_of(statement):
            is_unit = isinstance(statement, Compute) and store.coordinates[-1] == Index(statement.axes[-1])
            if store.tensor in kept and not (is_unit and set(writes_of(statement)) <= kept):
                return None
    if not writes_of(repeat) <= kept or not kept <= written:
        return None
    batch = max(math.prod(axis.size for axis in s.axes[:-1]) for s in steps)
    return _Network(definition, repeat, kept, units, _block(units, batch, target), batch, target.tuning, around.fixed)


def _simple(statements: Sequence[Statement]) -> Iterator[Statement]:
    for statement in statements:
        yield from statement.statements if isinstance(statement, Repeat) else (statement,)


def _block(units: int, batch: int, target: CpuTarget) -> int:
    """Units in a block; the next power of two where there are fewer."""
    block = target.tuning.unit_registers * target.machine.lanes(32)
    if units < block:
        return 1 << (units - 1).bit_length()
    tuning, wider = target.tuning, 2 * block
    is_wider = batch == 1 and units % wider == 0 and (units <= tuning.few_units or wider <= tuning.narrow_unit_block)
    return wider if is_wider else block


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """The unit that the last axis of a statement was at: its ``number`` by new ``axes``, in steps those of the block
    and of the lane in it."""

    axis: Axis
    axes: tuple[Axis, ...]
    number: Expression

    @property
    def is_in_block(self) -> bool:
        """Whether the unit is walked in blocks."""
        return len(self.axes) == 2


@dataclass(frozen=True, slots=True)
class _Place:
    """An element of an operand of units: of dimension ``along``, in which as many units lie one behind the other as
    there are groups, it is in group ``group``; ``walked`` dimensions are those that sums walk."""

    read: Load
    along: int
    group: Expression
    walked: tuple[int, ...]

    @property
    def others(self) -> list[int]:
        """The dimensions beside those, larger than 1."""
        sizes = enumerate(self.read.tensor.sizes)
        return [d for d, size in sizes if size > 1 and d != self.along and d not in self.walked]

    def sorted(self, unit: Sequence[_T], among: Sequence[_T]) -> list[_T]:
        """Coordinates, or sizes, of a copy: of the unit (its number, or block and lane), of its group, and of the other
        dimensions, of which ``among`` has one each."""
        group, *unit = unit
        others, walked = ([among[d] for d in chosen] for chosen in (self.others, self.walked))
        *block, last = unit
        return [*others, *block, group, *walked, last] if block else [*others, *walked, group, last]


def _place(read: Load, units: Axis, walked: Collection[Axis]) -> _Place | None:
    """Where an operand is read for a unit; None if its units do not lie one behind the other."""
    forms = [affine(c) for c in read.coordinates]
    dependencies = Dependencies()
    moving = [d for d, c in enumerate(read.coordinates) if units in dependencies.of(c)]
    if len(moving) != 1 or forms[moving[0]].coefficient(units) != 1:
        return None
    (along,) = moving
    rest = forms[along].plus(Affine(((units, 1),), 0), -1)
    numbers = [c for _, c in rest.terms] + [rest.constant, read.tensor.sizes[along]]
    if any(n % units.size for n in numbers) or not rest.is_pure:
        return None
    group = Affine(tuple((t, c // units.size) for t, c in rest.terms), rest.constant // units.size)
    whole = [d for d, c in enumerate(read.coordinates) if isinstance(c, Index) and c.axis in walked]
    if any(read.coordinates[d].axis.size != read.tensor.sizes[d] for d in whole):  # type: ignore[attr-defined]
        return None
    return _Place(read, along, group.as_expression(), tuple(whole))


@dataclass(slots=True, eq=False)
class _Network:
    """A definition whose tensors ``kept`` have so many ``units``, and the blocks in which these are walked."""

    definition: Definition
    repeat: Repeat
    kept: set[Tensor]
    units: int
    block: int
    batch: int
    tuning: Tuning
    fixed: frozenset[Tensor]
    copies: dict[tuple[Tensor, bool], tuple[Tensor, Compute]] = field(default_factory=dict)

    @property
    def padded(self) -> int:
        """The units of whole blocks."""
        return -(-self.units // self.block) * self.block

    def refined(self) -> Definition:
        """The definition in blocks."""
        moved = {t: temporary(t.name, t.type, [*t.sizes[:-1], self.padded]) for t in self.kept}
        read = replaced_loads({t: functools.partial(load, new) for t, new in moved.items()})
        statements: list[Statement] = []
        for statement in self.definition.statements:
            if statement is self.repeat:
                inner = [self._for_blocks(s, moved, True) for s in self.repeat.statements]
                weights = {copy for copy, _ in self.copies.values()}
                parts = _parts_to_repeat(self.repeat.axis, inner, weights, self.tuning) if self.batch == 1 else [inner]
                statements += (Repeat(self.repeat.axis, tuple(part)) for part in parts)
            elif writes_of(statement) <= self.kept:
                statements.append(self._for_blocks(statement, moved, False))
            else:
                statements.append(rewritten(statement, read, {}))
        numbers = {t: n for n, t in enumerate(self.definition.inputs)}
        copies = [self.copies[key] for key in sorted(self.copies, key=lambda key: numbers[key[0]])]
        refined = replace(
            self.definition,
            statements=(*(statement for _, statement in copies), *statements),
            temporaries=(*(copy for copy, _ in copies), *(moved.get(t, t) for t in self.definition.temporaries)),
        )
        return _without_large(refined, moved.values(), self.tuning)

    def _for_blocks(self, statement: Statement, moved: Mapping[Tensor, Tensor], is_step: bool) -> Compute:
        """A statement for whole blocks of units."""
        assert isinstance(statement, Compute)
        *outer, axis = statement.axes
        if is_step:
            axes = grid([self.padded // self.block, self.block], "ku")
            unit = _Unit(axis, axes, index(axes[0]) * self.block + index(axes[1]))
        else:
            axes = (Axis(axis.name, self.padded),)
            unit = _Unit(axis, axes, index(axes[0]))
        in_place = () if is_step else self._read_in_place(statement)
        rewrite = self._rewriter(unit, moved, [s.value for s in statement.stores], in_place)
        stores = (
            Store(moved[s.tensor], (*map(rewrite, s.coordinates[:-1]), unit.number), rewrite(s.value))
            for s in statement.stores
        )
        return Compute((*outer, *axes), tuple(stores))

    def _read_in_place(self, statement: Compute) -> Collection[Expression]:
        """What the products of a statement for all steps at once may read where it lies: what is not fixed is packed
        anew for every run, and tiles pack what they need by themselves."""
        written, definition = writes_of(statement), self.definition
        is_in_steps = any(_is_too_large(tensor, statement, definition, self.tuning) for tensor in written)
        if self.padded > self.units or is_in_steps:
            return ()
        return {e for e in loads_in(statement) if e.tensor not in self.fixed}

    def _rewriter(
        self,
        unit: _Unit,
        moved: Mapping[Tensor, Tensor],
        values: Sequence[Expression],
        in_place: Collection[Expression],
    ) -> Rewriter:
        dependencies, old = Dependencies(), Index(unit.axis)
        products = {e for value in values for e in walk(value) if isinstance(e, Fold) and e.contract}
        walked = {axis for product in products for axis in product.axes}

        def visit(e: Expression) -> Expression | None:
            if e == old:
                return unit.number
            read = e.operand if isinstance(e, Cast) else e
            if not isinstance(read, Load) or read.tensor in moved or unit.axis not in dependencies.of(read):
                return None
            place = _place(read, unit.axis, walked) if unit.is_in_block or products else None
            if place is None or read.tensor not in self.definition.inputs or (place.walked and e in in_place):
                return substitute({old: self._source(unit.number)})(e)
            is_in_block = unit.is_in_block and bool(place.walked)
            copy = self._copy(place, e.type, is_in_block)
            number = indices(unit.axes) if is_in_block else (unit.number,)
            return load(copy, place.sorted((place.group, *number), read.coordinates))

        def read(_: Expression, e: Expression) -> Expression:
            return load(moved[e.tensor], e.coordinates) if isinstance(e, Load) and e.tensor in moved else e

        return Rewriter(visit, read)

    def _source(self, unit: Expression) -> Expression:
        """The unit of the network that one of whole blocks is."""
        return unit if self.padded == self.units else binary("min", unit, self.units - 1)

    def _copy(self, place: _Place, type: ElementType, is_in_block: bool) -> Tensor:
        """The copy of an operand, added where there is none."""
        source = place.read.tensor
        found = self.copies.get((source, is_in_block))
        if found is None:
            unit = (self.padded // self.block, self.block) if is_in_block else (self.padded,)
            groups = source.sizes[place.along] // self.units
            copy = temporary(f"packed_{source.name}", type, place.sorted((groups, *unit), source.sizes))
            axes = grid(copy.sizes)
            found = self.copies[source, is_in_block] = (
                copy,
                Compute(axes, (self._stored(copy, axes, place, is_in_block),)),
            )
        return found[0]

    def _stored(self, copy: Tensor, axes: Sequence[Axis], place: _Place, is_in_block: bool) -> Store:
        """An element of the copy."""
        source, here = place.read.tensor, iter(indices(axes))
        coordinates: list[Expression | int] = [0] * len(source.sizes)
        for d in place.others:
            coordinates[d] = next(here)
        block = next(here) if is_in_block else None
        group = next(here) if is_in_block else None
        for d in place.walked:
            coordinates[d] = next(here)
        if group is None:
            group = next(here)
        unit = next(here) if block is None else block * self.block + next(here)
        coordinates[place.along] = group * self.units + self._source(unit)
        return Store(copy, indices(axes), cast(load(source, coordinates), copy.type))


# Which steps are done together ----------------------------------------------------------------------------------------


def _parts_to_repeat(
    steps: Axis, inner: list[Compute], weights: Collection[Tensor], tuning: Tuning
) -> list[list[Compute]]:
    """All statements of a step together; or those that need one another, where all of each such part's ``weights`` stay
    near."""
    parts = _parts(inner)
    read = [_bytes_read(part, steps, weights) for part in parts]
    return parts if max(read) <= tuning.step_bytes < sum(read) else [inner]


def _parts(statements: Sequence[Compute]) -> list[list[Compute]]:
    """Statements by what they write: those that touch what another one writes are in a part with it, in order."""
    parts: list[list[Compute]] = []
    for statement in statements:
        near = [part for part in parts if any(_touch(statement, other) for other in part)]
        parts = [part for part in parts if part not in near] + [[*itertools.chain(*near), statement]]
    return [sorted(part, key=statements.index) for part in parts]


def _touch(one: Compute, other: Compute) -> bool:
    """Whether one of two statements reads or writes what the other one writes."""
    return not (
        writes_of(one).isdisjoint(reads_of(other) | writes_of(other)) and writes_of(other).isdisjoint(reads_of(one))
    )


def _bytes_read(part: Sequence[Compute], steps: Axis, weights: Collection[Tensor]) -> int:
    """Bytes of the weights that the statements of a part read in every step."""
    dependencies = Dependencies()
    found = {e for s in part for e in loads_in(s) if e.tensor in weights}
    sizes = ((e, [a.size for a in dependencies.of(e) if isinstance(a, Axis) and a is not steps]) for e in found)
    return sum(math.prod(walked) * e.tensor.type.bits // 8 for e, walked in sizes)


# What steps compute --------------------------------------------------------------------------------------------------


def _without_large(definition: Definition, kept: Collection[Tensor], tuning: Tuning) -> Definition:
    """The definition without those of the ``kept`` tensors that are of all steps and out of proportion: steps compute
    their elements."""
    written = {t: s for s in definition.statements for t in writes_of(s) if t in kept and is_whole(s, t)}
    large = {t: s for t, s in written.items() if _is_too_large(t, s, definition, tuning)}
    if not large:
        return definition
    inline = replaced_loads({t: functools.partial(_value_at, s) for t, s in large.items()})
    others = (s for s in definition.statements if s not in large.values())
    return replace(
        definition,
        statements=tuple(rewritten(s, inline, {}) for s in others),
        temporaries=tuple(t for t in definition.temporaries if t not in large),
    )


def _is_too_large(tensor: Tensor, statement: Statement, definition: Definition, tuning: Tuning) -> bool:
    """Whether a tensor that steps read has many more elements, for each of their reads, than the inputs behind it,
    weights, which units have of their own, left out."""
    readers = [s for s in definition.statements if tensor in reads_of(s)]
    if not readers or not all(isinstance(s, Repeat) for s in readers):
        return False
    reads = {e for s in readers for e in loads_in(s) if e.tensor is tensor}
    assert isinstance(statement, Compute)
    dependencies, units = Dependencies(), statement.axes[-1]
    loads = {e for e in loads_in(statement) if units not in dependencies.of(e)}
    inputs = sum(math.prod(t.sizes) for t in {e.tensor for e in loads} if t in definition.inputs)
    return math.prod(tensor.sizes) > tuning.projected_growth * len(reads) * inputs + tuning.projected_elements


def _value_at(statement: Statement, place: Sequence[Expression]) -> Expression:
    """What a statement stores at a place, its folds over axes of their own."""
    assert isinstance(statement, Compute)
    (store,) = statement.stores
    folds = [e for e in walk(store.value) if isinstance(e, Fold)]
    own = {axis: Axis(axis.name, axis.size) for fold in folds for axis in fold.axes}
    moved = {Index(axis): index(new) for axis, new in own.items()}
    moved |= {Index(axis): c for axis, c in zip(statement.axes, place, strict=True)}

    def visit(e: Expression) -> Expression | None:
        if not isinstance(e, Fold):
            return moved.get(e) if isinstance(e, Index) else None
        initial, elements = (tuple(map(rewrite, part)) for part in (e.initial, e.elements))
        where = None if e.where is None else rewrite(e.where)
        return Fold(tuple(own[a] for a in e.axes), initial, elements, e.combine, where, e.partials, e.contract)

    rewrite = Rewriter(visit)
    return rewrite(store.value)
