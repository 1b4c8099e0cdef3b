"""What rules of refinement ask about the accesses of statements, and the work between them."""

from __future__ import annotations

from collections.abc import Collection

from opendml.expression.ir import Expression, Load, Tensor, indices
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Statement


def is_whole(statement: Statement, tensor: Tensor) -> bool:
    """Whether a statement stores every element of a tensor, at its own coordinates, and nothing else."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return False
    (store,) = statement.stores
    sizes = tuple(axis.size for axis in statement.axes)
    return store.tensor is tensor and sizes == tensor.sizes and store.coordinates == indices(statement.axes)


def operations(e: Expression, known: Collection[Expression] = ()) -> int:
    """Operations of an expression, but for those that make what is loaded, or one of the ``known`` ones."""
    inner = walk(e, lambda x: isinstance(x, Load) or x in known)
    return sum(1 for part in inner if part.children and not isinstance(part, Load) and part not in known)
