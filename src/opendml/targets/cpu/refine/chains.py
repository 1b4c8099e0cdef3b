"""Chains of statements from one product of matrices to another, whose left factor is made of it row by row.

Attention is such a chain: scores, their softmax, and the sum of the values that it weighs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opendml.expression.affine import Dependencies
from opendml.expression.ir import Axis, Binary, Fold, Index, Load, Tensor
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition, Repeat, Statement, reads_of, writes_of

Roles = dict[Tensor, dict[int, Axis]]
"""For the dimensions of tensors the axis of the last product that walks them."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Statements ``first`` to ``last`` of a definition, or of its statement number ``repeat``; the second product is
    number ``product``, and what comes behind it reads what it gives. ``roles`` has the tensors between them, which
    nothing else reads, ``axes`` the axes of each statement that walk rows, with the second product's axis for each of
    them. The rows of one place along the axes ``outer`` read the same right factors; ``inner`` walk these rows."""

    repeat: int | None
    first: int
    product: int
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

    def repeated(self, definition: Definition) -> Repeat | None:
        """The Repeat that the chain is in: it stands behind what was put before it for chains behind this one in it."""
        if self.repeat is None:
            return None
        return next(s for s in definition.statements[self.repeat :] if isinstance(s, Repeat))

    def statements(self, definition: Definition) -> tuple[Statement, ...]:
        """The statements of the chain."""
        around = self.repeated(definition) or definition
        return around.statements[self.first : self.last + 1]

    def replaced(
        self, definition: Definition, statements: Iterable[Statement], before: Iterable[Statement] = ()
    ) -> tuple[Statement, ...]:
        """All statements of the definition, with others in the place of the chain, and some ``before`` them, which a
        Repeat does not repeat."""
        around, outside = self.repeated(definition), definition.statements
        if around is None:
            return (*outside[: self.first], *before, *statements, *outside[self.last + 1 :])
        whole, number = around.statements, outside.index(around)
        found = (*whole[: self.first], *statements, *whole[self.last + 1 :])
        return (*outside[:number], *before, Repeat(around.axis, found), *outside[number + 1 :])


def chains_in(definition: Definition) -> list[Chain]:
    """The chains of a definition, the last one first: what takes the place of one moves none behind it in the list."""
    found = list[Chain | None]()
    for number, statement in enumerate(definition.statements):
        if isinstance(statement, Repeat):
            inside = statement.statements
            found += [_chain(definition, number, inside, last) for last in range(len(inside))]
        else:
            found.append(_chain(definition, None, definition.statements, number))
    return [chain for chain in reversed(found) if chain is not None]


def product_of(statement: Statement) -> Fold | None:
    """The only sum of products of a statement."""
    if not isinstance(statement, Compute):
        return None
    found = {e for s in statement.stores for e in walk(s.value) if isinstance(e, Fold) and e.contract}
    return found.pop() if len(found) == 1 else None


def _chain(definition: Definition, repeat: int | None, statements: Sequence[Statement], last: int) -> Chain | None:
    """The chain of ``statements`` that ends with one of them, if it is one."""
    statement = statements[last]
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
    first = _first(statements, last, left.tensor)
    if first is None:
        return None
    end = _end(definition, statements, last)
    chain, product_number = statements[first : end + 1], last - first
    written = [writes_of(s) for s in chain]
    temporaries = set(definition.temporaries)
    if any(not tensors <= temporaries for tensors in written[:product_number]):
        return None
    made = temporaries & set().union(*written)
    roles: Roles = {left.tensor: {d: c.axis for d, c in enumerate(left.coordinates[:-1]) if isinstance(c, Index)}}
    axes = _roles(chain, product_number, made, roles)
    if axes is None:
        return None
    own = made - _kept(chain) - _read_elsewhere(definition, chain)
    roles = {tensor: roles[tensor] for tensor in definition.temporaries if tensor in own}
    shared = Dependencies().of(right)
    rows = [axis for axis in statement.axes if axis in axes[product_number]]
    outer, inner = ([a for a in rows if (a in shared) is is_outer] for is_outer in (True, False))
    columns = product.axes[0].size
    return Chain(repeat, first, last, end, roles, axes, tuple(outer), tuple(inner), columns) if rows else None


def _kept(chain: Sequence[Statement]) -> set[Tensor]:
    """The tensors that a chain reads before it writes them: they have something in them from before."""
    written, kept = set[Tensor](), set[Tensor]()
    for statement in chain:
        kept |= reads_of(statement) - written
        written |= writes_of(statement)
    return kept


def _read_elsewhere(definition: Definition, chain: Sequence[Statement]) -> set[Tensor]:
    """What statements read that are none of the chain's."""
    others = (s for s in _singles(definition.statements) if not any(s is own for own in chain))
    return {tensor for s in others for tensor in reads_of(s)}


def _singles(statements: Iterable[Statement]) -> Iterator[Statement]:
    for statement in statements:
        if isinstance(statement, Repeat):
            yield from _singles(statement.statements)
        else:
            yield statement


def _first(statements: Sequence[Statement], last: int, weights: Tensor) -> int | None:
    """The first of the statements that write what the first product gives, all of them behind one another."""
    first = last - 1
    while first >= 0 and isinstance(statements[first], Compute):
        statement = statements[first]
        if product_of(statement) is not None:
            written = writes_of(statement)
            while first > 0 and writes_of(statements[first - 1]) == written:
                first -= 1
            return first if written.isdisjoint([weights]) else None
        first -= 1
    return None


def _end(definition: Definition, statements: Sequence[Statement], product: int) -> int:
    """The last of the statements behind a product, one after another, that read what it gives."""
    given = writes_of(statements[product]) & set(definition.temporaries)
    end = product
    while end + 1 < len(statements) and isinstance(statements[end + 1], Compute):
        if given.isdisjoint(reads_of(statements[end + 1])):
            break
        end += 1
    return end


def _roles(
    chain: Sequence[Statement], product: int, made: set[Tensor], roles: Roles
) -> tuple[dict[Axis, Axis], ...] | None:
    """The axes of each statement that walk rows; fills in the ``roles`` of all that is ``made``. None if something is
    not read and written row by row. Each statement is seen when others have told the roles of what it has."""
    rows = {axis: axis for axis in roles[next(iter(roles))].values()}
    found = dict[int, dict[Axis, Axis]]()
    for number in (product, *range(product + 1, len(chain)), *reversed(range(product))):
        statement = chain[number]
        assert isinstance(statement, Compute)
        axes = rows if number == product else _rows_of(statement, roles)
        if axes is None or set(axes.values()) != set(rows.values()) or not set(axes) <= set(statement.axes):
            return None
        if not _agree(statement, axes, made, roles) or not _stored(statement, axes, made, roles):
            return None
        found[number] = axes
    return tuple(found[number] for number in range(len(chain)))


def _rows_of(statement: Compute, roles: Roles) -> dict[Axis, Axis] | None:
    """The axes of a statement that walk rows, by where it has tensors whose roles are known."""
    axes = dict[Axis, Axis]()
    stored = [(store.tensor, store.coordinates) for store in statement.stores]
    loaded = [(e.tensor, e.coordinates) for s in statement.stores for e in walk(s.value) if isinstance(e, Load)]
    known = [(t, place) for t, place in stored if t in roles] or [(t, place) for t, place in loaded if t in roles]
    for tensor, coordinates in known:
        for d, role in roles[tensor].items():
            place = coordinates[d]
            if not isinstance(place, Index) or axes.setdefault(place.axis, role) is not role:
                return None
    return axes


def _stored(statement: Compute, axes: Mapping[Axis, Axis], made: set[Tensor], roles: Roles) -> bool:
    """Whether a statement writes what is made at its own rows only."""
    for store in statement.stores:
        if store.tensor in made:
            own = {d: axes[c.axis] for d, c in enumerate(store.coordinates) if isinstance(c, Index) and c.axis in axes}
            if roles.setdefault(store.tensor, own) != own:
                return False
    return True


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
