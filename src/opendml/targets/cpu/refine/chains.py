"""Chains of statements from one product of matrices to another, whose left factor is made of it row by row.

Attention is such a chain: scores, their softmax, and the sum of the values that it weighs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from opendml.expression.affine import Dependencies
from opendml.expression.ir import Axis, Binary, Fold, Index, Load, Tensor
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition, Statement, reads_of, writes_of

Roles = dict[Tensor, dict[int, Axis]]
"""For the dimensions of tensors the axis of the last product that walks them."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
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

    def statements(self, definition: Definition) -> tuple[Statement, ...]:
        """The statements of the chain."""
        return definition.statements[self.first : self.last + 1]

    def replaced(self, definition: Definition, statements: Iterable[Statement]) -> tuple[Statement, ...]:
        """All statements of the definition, with others in the place of the chain."""
        return (*definition.statements[: self.first], *statements, *definition.statements[self.last + 1 :])


def chain_in(definition: Definition) -> Chain | None:
    """The first chain of a definition, if there is one."""
    found = (_chain(definition, last) for last in range(len(definition.statements)))
    return next((chain for chain in found if chain is not None), None)


def product_of(statement: Statement) -> Fold | None:
    """The only sum of products of a statement."""
    if not isinstance(statement, Compute):
        return None
    found = {e for s in statement.stores for e in walk(s.value) if isinstance(e, Fold) and e.contract}
    return found.pop() if len(found) == 1 else None


def _chain(definition: Definition, last: int) -> Chain | None:
    """The chain that ends with a statement, if it is one."""
    statement = definition.statements[last]
    product = product_of(statement)
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
    return Chain(first, last, roles, axes, tuple(outer), tuple(inner), product.axes[0].size) if rows else None


def _first(definition: Definition, last: int, weights: Tensor) -> int | None:
    """The first of the statements that write what the first product gives, all of them behind one another."""
    first = last - 1
    while first >= 0 and isinstance(definition.statements[first], Compute):
        statement = definition.statements[first]
        if product_of(statement) is not None:
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
