"""What rules of refinement ask about the accesses of statements."""

from __future__ import annotations

from opendml.expression.ir import Tensor, indices
from opendml.expression.statements import Compute, Statement


def is_whole(statement: Statement, tensor: Tensor) -> bool:
    """Whether a statement stores every element of a tensor, at its own coordinates, and nothing else."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return False
    (store,) = statement.stores
    sizes = tuple(axis.size for axis in statement.axes)
    return store.tensor is tensor and sizes == tensor.sizes and store.coordinates == indices(statement.axes)
