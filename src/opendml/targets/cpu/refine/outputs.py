"""Results that are computed in a row of their own and then moved: where the output is such a row, nothing is moved."""

from __future__ import annotations

from dataclasses import replace

from opendml.expression.ir import Load, Tensor, indices, packed_strides
from opendml.expression.positions import digits, row_major
from opendml.expression.statements import Compute, Definition, Statement, Store, reads_of, writes_of
from opendml.targets.cpu.refine.accesses import is_whole
from opendml.targets.cpu.refine.refinement import Surroundings


def stored_at_once(definition: Definition, around: Surroundings) -> Definition:
    """The definition with packed outputs stored by the statements that compute them."""
    for statement in definition.statements:
        row = _moved_row(definition, statement)
        if row is not None and isinstance(statement, Compute):
            output = statement.stores[0].tensor
            rest = [s for s in definition.statements if s is not statement]
            temporaries = tuple(t for t in definition.temporaries if t is not row)
            statements = tuple(_storing(s, row, output) for s in rest)
            return replace(definition, statements=statements, temporaries=temporaries)
    return definition


def _moved_row(definition: Definition, statement: Statement) -> Tensor | None:
    """The temporary of one dimension that a statement moves to a packed output, and nobody else reads."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return None
    (store,) = statement.stores
    output, value = store.tensor, store.value
    if output not in definition.outputs or not is_whole(statement, output) or not isinstance(value, Load):
        return None
    row, strides = value.tensor, zip(output.sizes, output.strides, packed_strides(output.sizes), strict=True)
    is_packed = all(size == 1 or own == packed for size, own, packed in strides)
    is_row = value.coordinates == (row_major(indices(statement.axes), output.sizes),) and row.type is output.type
    if not is_packed or not is_row or row not in definition.temporaries:
        return None
    readers = [s for s in definition.statements if row in reads_of(s)]
    writers = [s for s in definition.statements if row in writes_of(s)]
    return row if readers == [statement] and all(isinstance(s, Compute) for s in writers) else None


def _storing(statement: Statement, row: Tensor, output: Tensor) -> Statement:
    """A statement that stores to the output what it would store to the row."""
    if not isinstance(statement, Compute) or row not in writes_of(statement):
        return statement
    stores = [
        Store(output, digits(s.coordinates[0], output.sizes), s.value) if s.tensor is row else s
        for s in statement.stores
    ]
    return Compute(statement.axes, tuple(stores))
