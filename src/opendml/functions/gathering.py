"""Selecting by indices: gather, gather_elements, gather_nd."""

from __future__ import annotations

from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, sizes_or
from opendml.functions.signatures import operator_function
from opendml.operators.gathering import Gather, GatherElements, GatherNd1
from opendml.programs.device import Device


@operator_function
def gather(
    input: Operand,
    indices: Operand,
    *,
    axis: int,
    index_dimensions: int,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The slices of the input along an axis that the indices name (GATHER).

    ``input``: any type and rank. ``indices``: uint32, uint64, int32 or int64, of the input's rank; of its sizes the
    last ``index_dimensions`` count, the others are 1. Negative indices count from the end; those outside are moved to
    the nearest end. The result has the input's sizes with those of the indices in place of the axis, aligned right in
    the same rank.

    >>> dml.gather(np.array([[1, 2], [3, 4], [5, 6]]), np.array([[2, 0]]), axis=0, index_dimensions=1).tolist()
    [[5, 6], [1, 2]]
    """
    return evaluate_single(_gather, (input, indices), (axis, index_dimensions), device=device, out=out)


def _gather(input: TensorDesc, indices: TensorDesc, axis: Any, index_dimensions: Any) -> Operator:
    rank = input.rank

    def gathered() -> tuple[int, ...]:
        chosen = indices.sizes[max(rank - index_dimensions, 0) :]
        sizes = (*input.sizes[:axis], *chosen, *input.sizes[axis + 1 :])
        return (*(1,) * (rank - len(sizes)), *sizes[max(len(sizes) - rank, 0) :])

    return Gather(
        input_tensor=input,
        indices_tensor=indices,
        output_tensor=TensorDesc(input.data_type, sizes_or(input.sizes, gathered)),
        axis=axis,
        index_dimensions=index_dimensions,
    )


@operator_function
def gather_elements(
    input: Operand,
    indices: Operand,
    *,
    axis: int,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """Single elements of the input, each with its own index along an axis (GATHER_ELEMENTS).

    ``input``: any type and rank. ``indices``: uint32, uint64, int32 or int64, of the input's sizes but for the axis;
    the result has their sizes. Negative indices count from the end; those outside are moved to the nearest end.

    >>> dml.gather_elements(np.array([[1, 2], [3, 4]]), np.array([[1, 0], [0, -1]]), axis=1).tolist()
    [[2, 1], [3, 4]]
    """
    return evaluate_single(_gather_elements, (input, indices), (axis,), device=device, out=out)


def _gather_elements(input: TensorDesc, indices: TensorDesc, axis: Any) -> Operator:
    target = TensorDesc(input.data_type, indices.sizes)
    return GatherElements(input_tensor=input, indices_tensor=indices, output_tensor=target, axis=axis)


@operator_function
def gather_nd(
    input: Operand,
    indices: Operand,
    *,
    input_dimension_count: int,
    indices_dimension_count: int,
    batch_dimension_count: int = 0,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The blocks of the input that tuples of coordinates address (GATHER_ND1).

    ``input``: any type and rank. ``indices``: uint32, uint64, int32 or int64, of the input's rank; the last dimension
    is one tuple. Of both the last dimensions count, as many as ``input_dimension_count`` and
    ``indices_dimension_count`` say; the others have size 1. The first ``batch_dimension_count`` of those are the same
    in both, the tuples are for the following ones. Negative coordinates count from the end; those outside are moved to
    the nearest end. The result has the sizes of the indices without the last, then those of a block, aligned right in
    the same rank.

    >>> x, places = np.array([[1, 2], [3, 4], [5, 6]]), np.array([[2], [0]])
    >>> dml.gather_nd(x, places, input_dimension_count=2, indices_dimension_count=2).tolist()
    [[5, 6], [1, 2]]
    """
    parameters = (input_dimension_count, indices_dimension_count, batch_dimension_count)
    return evaluate_single(_gather_nd, (input, indices), parameters, device=device, out=out)


def _gather_nd(
    input: TensorDesc,
    indices: TensorDesc,
    input_dimension_count: Any,
    indices_dimension_count: Any,
    batch_dimension_count: Any,
) -> Operator:
    rank = input.rank

    def gathered() -> tuple[int, ...]:
        tuples = indices.sizes[rank - indices_dimension_count : rank - 1]
        indexed = batch_dimension_count + indices.sizes[-1]
        sizes = (*tuples, *input.sizes[rank - input_dimension_count + indexed :])
        return (*(1,) * (rank - len(sizes)), *sizes)

    return GatherNd1(
        input_tensor=input,
        indices_tensor=indices,
        output_tensor=TensorDesc(input.data_type, sizes_or(input.sizes, gathered)),
        input_dimension_count=input_dimension_count,
        indices_dimension_count=indices_dimension_count,
        batch_dimension_count=batch_dimension_count,
    )
