"""Products of products, some rows at a time: what lies between them stays in a cache.

A product whose left factor is made row by row of another product (attention: scores, their softmax, and the sum of the
values that it weighs) would write and read tensors of all rows and columns. Rows are independent: the statements from
the first product to the last become those of a block of rows, which does them one after the other (``Each``) with
tensors of its own. All rows of a block read the same right factors. Which rows are together changes no bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from opendml.expression.affine import Dependencies
from opendml.expression.ir import Axis, Binary, Expression, Fold, Index, Load, Tensor, index
from opendml.expression.rewriting import Rewriter, walk
from opendml.expression.statements import Compute, Definition, Each, Statement, Store, reads_of, writes_of
from opendml.targets.cpu.refine.refinement import Surroundings
from opendml.targets.cpu.tuning import Tuning


def blocks_of_rows(definition: Definition, around: Surroundings) -> Definition:
    """The definition with such a chain of statements in blocks, where there are more elements than a cache holds."""
    for last, statement in enumerate(definition.statements):
        chain = _chain(definition, last) if isinstance(statement, Compute) else None
        if chain is not None and chain.elements > around.target.tuning.rows_at_once:
            return chain.in_blocks(definition, around.target.tuning)
    return definition


Roles = dict[Tensor, dict[int, Axis]]
"""For the dimensions of tensors the axis of the last product that walks them."""


@dataclass(frozen=True, slots=True, eq=False)
class _Chain:
    """Statements ``first`` to ``last`` of a definition; ``roles`` has the tensors between them, ``axes`` the axes of
    each statement that walk rows, with the last product's axis for each of them. The rows of one place along the axes
    ``outer`` read the same right factors; ``inner`` walk these rows."""

    first: int
    last: int
    roles: Roles
    axes: tuple[dict[Axis, Axis], ...]
    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    columns: int

    @property
    def rows(self) -> int:
        """All of them."""
        return math.prod(axis.size for axis in (*self.outer, *self.inner))

    @property
    def elements(self) -> int:
        """Rows times columns of what lies between the products."""
        return self.rows * self.columns

    def in_blocks(self, definition: Definition, tuning: Tuning) -> Definition:
        """The definition with the chain for whole blocks, and for what is left of the rows."""
        places = self.inner[-1].size if self.inner else 1
        block = self._block(tuning, places)
        whole, rest = divmod(places, block)
        chain = definition.statements[self.first : self.last + 1]
        blocks = [self._blocks(chain, block, 0, whole)]
        if rest:
            blocks.append(self._blocks(chain, rest, whole * block, 1))
        statements = (*definition.statements[: self.first], *blocks, *definition.statements[self.last + 1 :])
        others = (t for t in definition.temporaries if t not in self.roles)
        own = (t for each in blocks for t in each.own)
        return replace(definition, statements=statements, temporaries=(*others, *own))

    def _block(self, tuning: Tuning, places: int) -> int:
        """Places along the last axis of the rows that a block has."""
        most = max(min(tuning.block_elements // self.columns, self.rows // tuning.items), tuning.fewest_rows)
        most -= most % tuning.fewest_rows
        together = math.prod(axis.size for axis in self.inner[:-1])
        return min(max(most // together, 1), places)

    def _blocks(self, chain: Sequence[Statement], block: int, start: int, count: int) -> Each:
        """So many blocks of so many places from ``start`` on."""
        around = (*(Axis(axis.name, axis.size) for axis in self.outer), Axis("block", count))
        begin = {axis: index(a) for axis, a in zip(self.outer, around, strict=False)}
        sizes = dict.fromkeys(self.outer, 1)
        for axis in self.inner[-1:]:
            begin[axis], sizes[axis] = index(around[-1]) * block + start, block
        own = {t: _part_of(t, roles, sizes) for t, roles in self.roles.items()}
        statements = []
        for statement, roles in zip(chain, self.axes, strict=True):
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
            return tuple(here.get(c, c) if d in self.roles[tensor] else rewrite(c) for d, c in enumerate(coordinates))

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


def _part_of(tensor: Tensor, roles: Mapping[int, Axis], sizes: Mapping[Axis, int]) -> Tensor:
    """The tensor of one block; rows as far apart as they were."""
    part = [sizes.get(roles[d], n) if d in roles else n for d, n in enumerate(tensor.sizes)]
    strides = [*tensor.strides[-2:]]
    for d in reversed(range(len(part) - 2)):
        strides.insert(0, strides[0] * part[d + 1])
    return Tensor(tensor.name, tensor.type, tuple(part), tuple(strides), "temporary")


# Recognition ---------------------------------------------------------------------------------------------------------


def _product(statement: Statement) -> Fold | None:
    """The only sum of products of a statement."""
    if not isinstance(statement, Compute):
        return None
    found = {e for s in statement.stores for e in walk(s.value) if isinstance(e, Fold) and e.contract}
    return found.pop() if len(found) == 1 else None


def _chain(definition: Definition, last: int) -> _Chain | None:
    """The chain that ends with a statement, if it is one."""
    statement = definition.statements[last]
    product = _product(statement)
    if product is None or not isinstance(statement, Compute) or len(product.axes) != 1:
        return None
    element = product.elements[0]
    assert isinstance(element, Binary)
    left, right = element.left, element.right
    if not isinstance(left, Load) or left.tensor not in definition.temporaries:
        return None
    if left.coordinates[-1] != Index(product.axes[0]):
        return None
    first = _first(definition, last, left.tensor)
    made = set().union(*(writes_of(s) for s in definition.statements[first:last])) if first is not None else set()
    elsewhere = [s for n, s in enumerate(definition.statements) if first is None or not first <= n <= last]
    if first is None or not made <= set(definition.temporaries) or any(made & reads_of(s) for s in elsewhere):
        return None
    roles: Roles = {left.tensor: {d: c.axis for d, c in enumerate(left.coordinates[:-1]) if isinstance(c, Index)}}
    axes = _roles(definition.statements[first : last + 1], made, roles)
    if axes is None:
        return None
    roles = {tensor: roles[tensor] for tensor in definition.temporaries if tensor in roles}
    shared = Dependencies().of(right)
    rows = [axis for axis in statement.axes if axis in roles[left.tensor].values()]
    outer, inner = ([a for a in rows if (a in shared) is is_outer] for is_outer in (True, False))
    return _Chain(first, last, roles, axes, tuple(outer), tuple(inner), product.axes[0].size) if rows else None


def _first(definition: Definition, last: int, weights: Tensor) -> int | None:
    """The first of the statements that write what the first product gives, all of them behind one another."""
    first = last - 1
    while first >= 0 and isinstance(definition.statements[first], Compute):
        statement = definition.statements[first]
        if _product(statement) is not None:
            written = writes_of(statement)
            while first > 0 and writes_of(definition.statements[first - 1]) == written:
                first -= 1
            return first if written.isdisjoint([weights]) else None
        first -= 1
    return None


def _roles(chain: Sequence[Statement], made: set[Tensor], roles: Roles) -> tuple[dict[Axis, Axis], ...] | None:
    """The axes of each statement that walk rows; fills in the ``roles`` of all that is ``made``. None if something
    between the products is not read and written row by row."""
    *before, last = chain
    assert isinstance(last, Compute)
    rows = set(roles[next(iter(roles))].values())
    found = [{axis: axis for axis in rows}]
    if not _agree(last, found[0], made, roles):
        return None
    for statement in reversed(before):
        assert isinstance(statement, Compute)
        axes = dict[Axis, Axis]()
        for store in statement.stores:
            if store.tensor not in roles:
                return None
            for d, role in roles[store.tensor].items():
                place = store.coordinates[d]
                if not isinstance(place, Index) or axes.setdefault(place.axis, role) is not role:
                    return None
        if not set(axes) <= set(statement.axes) or not _agree(statement, axes, made, roles):
            return None
        found.insert(0, axes)
    return tuple(found)


def _agree(statement: Compute, axes: Mapping[Axis, Axis], made: set[Tensor], roles: Roles) -> bool:
    """Whether a statement reads what is made at its own rows only."""
    dependencies = Dependencies()
    for store in statement.stores:
        for e in walk(store.value):
            if isinstance(e, Load) and e.tensor in made:
                own = {d: axes[c.axis] for d, c in enumerate(e.coordinates) if isinstance(c, Index) and c.axis in axes}
                others = (c for d, c in enumerate(e.coordinates) if d not in own)
                if roles.setdefault(e.tensor, own) != own or any(dependencies.of(c) & set(axes) for c in others):
                    return False
    return True
