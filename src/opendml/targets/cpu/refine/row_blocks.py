"""Products of products, some rows at a time: what lies between them stays in a cache.

A product whose left factor is made row by row of another product (attention: scores, their softmax, and the sum of the
values that it weighs) would write and read tensors of all rows and columns. Rows are independent: the statements from
the first product to the last become those of a block of rows, which does them one after the other (``Each``) with
tensors of its own. All rows of a block read the same right factors. Which rows are together changes no bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from opendml.expression.ir import Axis, Expression, Index, Load, Tensor, index, load, packed_strides
from opendml.expression.rewriting import Rewriter
from opendml.expression.statements import Compute, Definition, Each, Store, replaced_loads, rewritten
from opendml.targets.cpu.refine.chains import Chain, chains_in
from opendml.targets.cpu.refine.refinement import Surroundings
from opendml.targets.cpu.target import CpuTarget


def blocks_of_rows(definition: Definition, around: Surroundings) -> Definition:
    """The definition with such a chain of statements in blocks, where there are more elements than a cache holds; rows
    in memory begin at lines of the cache in any case."""
    for chain in chains_in(definition):
        if chain.elements > around.target.tuning.rows_at_once:
            definition = _Blocks(definition, chain, around.target).definition_in_blocks()
        else:
            definition = _with_rows_apart(definition, chain, around.target)
    return definition


def _with_rows_apart(definition: Definition, chain: Chain, target: CpuTarget) -> Definition:
    """The definition with the tensors inside of a chain laid out for it."""
    moved = {tensor: _laid_out(tensor, tensor.sizes, target) for tensor in chain.roles}
    rewrite = replaced_loads({tensor: _loaded(new) for tensor, new in moved.items()})
    parts = (rewritten(statement, rewrite, moved) for statement in chain.statements(definition))
    temporaries = tuple(moved.get(tensor, tensor) for tensor in definition.temporaries)
    return replace(definition, statements=chain.replaced(definition, parts), temporaries=temporaries)


def _loaded(tensor: Tensor) -> Callable[[tuple[Expression, ...]], Expression]:
    return lambda place: load(tensor, place)


def _laid_out(tensor: Tensor, sizes: Sequence[int], target: CpuTarget) -> Tensor:
    """A tensor whose rows, if they are longer than a cache line, begin at lines, not all of them at the same places of
    a cache."""
    line = target.machine.cache_line * 8 // max(tensor.type.bits, 8)
    lines = -(-sizes[-1] // line)
    room = (lines + (lines % 2 == 0)) * line if lines > 1 else sizes[-1]
    strides = packed_strides([*sizes[:-1], room])
    return Tensor(tensor.name, tensor.type, tuple(sizes), tuple(strides), "temporary")


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """A chain of a definition, for blocks of its rows."""

    definition: Definition
    chain: Chain
    target: CpuTarget

    def definition_in_blocks(self) -> Definition:
        """The definition with the chain for whole blocks, and for what is left of the rows."""
        chain, definition = self.chain, self.definition
        places = chain.inner[-1].size if chain.inner else 1
        block = self._block(places)
        whole, rest = divmod(places, block)
        blocks = [self._blocks(block, 0, whole)]
        if rest:
            blocks.append(self._blocks(rest, whole * block, 1))
        others = (t for t in definition.temporaries if t not in chain.roles)
        own = (t for each in blocks for t in each.own)
        return replace(definition, statements=chain.replaced(definition, blocks), temporaries=(*others, *own))

    def _block(self, places: int) -> int:
        """Places along the last axis of the rows that a block has."""
        chain, tuning = self.chain, self.target.tuning
        most = max(min(tuning.block_elements // chain.columns, chain.rows // tuning.items), tuning.fewest_rows)
        most -= most % tuning.fewest_rows
        together = math.prod(axis.size for axis in chain.inner[:-1])
        return min(max(most // together, 1), places)

    def _blocks(self, block: int, start: int, count: int) -> Each:
        """So many blocks of so many places from ``start`` on."""
        chain = self.chain
        around = (*(Axis(axis.name, axis.size) for axis in chain.outer), Axis("block", count))
        begin = {axis: index(a) for axis, a in zip(chain.outer, around, strict=False)}
        sizes = dict.fromkeys(chain.outer, 1)
        for axis in chain.inner[-1:]:
            begin[axis], sizes[axis] = index(around[-1]) * block + start, block
        own = {t: self._part_of(t, roles, sizes) for t, roles in chain.roles.items()}
        statements = []
        for statement, roles in zip(chain.statements(self.definition), chain.axes, strict=True):
            assert isinstance(statement, Compute)
            statements.append(self._part(statement, roles, begin, sizes, own))
        return Each(around, tuple(statements), tuple(own.values()))

    def _part(
        self,
        statement: Compute,
        roles: Mapping[Axis, Axis],
        begin: Mapping[Axis, Expression],
        sizes: Mapping[Axis, int],
        own: Mapping[Tensor, Tensor],
    ) -> Compute:
        """A statement for the rows of one block."""
        parts = {a: Axis(a.name, sizes[roles[a]]) for a in statement.axes if roles.get(a) in sizes}
        here: dict[Expression, Expression] = {Index(a): index(part) for a, part in parts.items()}
        there = {Index(a): begin[roles[a]] + index(part) for a, part in parts.items()}

        def place(tensor: Tensor, coordinates: Sequence[Expression]) -> tuple[Expression, ...]:
            return tuple(
                here.get(c, c) if d in self.chain.roles[tensor] else rewrite(c) for d, c in enumerate(coordinates)
            )

        def visit(e: Expression) -> Expression | None:
            if isinstance(e, Load) and e.tensor in own:
                return Load(own[e.tensor], place(e.tensor, e.coordinates))
            return there.get(e) if isinstance(e, Index) else None

        rewrite = Rewriter(visit)
        stores = (
            Store(own[s.tensor], place(s.tensor, s.coordinates), rewrite(s.value))
            if s.tensor in own
            else Store(s.tensor, tuple(map(rewrite, s.coordinates)), rewrite(s.value))
            for s in statement.stores
        )
        return Compute(tuple(parts.get(a, a) for a in statement.axes), tuple(stores))

    def _part_of(self, tensor: Tensor, roles: Mapping[int, Axis], sizes: Mapping[Axis, int]) -> Tensor:
        """The tensor of one block."""
        part = [sizes.get(roles[d], n) if d in roles else n for d, n in enumerate(tensor.sizes)]
        return _laid_out(tensor, part, self.target)
