"""Writing where indices say: scatter_elements, scatter_nd, one_hot."""

from __future__ import annotations

from typing import Any

from opendml.building.operands import OperandRules
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, operand_rules, replaced
from opendml.functions.element_wise import packed
from opendml.functions.signatures import operator_function
from opendml.operators.scattering import OneHot, ScatterElements, ScatterNd
from opendml.programs.device import Device


@operator_function
def scatter_elements(
    input: Operand,
    indices: Operand,
    updates: Operand,
    *,
    axis: int,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The input with single elements replaced, each with its own index along an axis (SCATTER_ELEMENTS).

    ``input``: any type and rank. ``indices``: uint32, uint64, int32 or int64, of the input's sizes but for the axis.
    ``updates``: the new elements, of the indices' sizes. Negative indices count from the end; updates whose index is
    outside are left out; of several updates of one element the last one stays.

    >>> dml.scatter_elements(np.zeros((2, 3)), np.array([[2], [0]]), np.array([[1.0], [2.0]]), axis=1).tolist()
    [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
    """
    return evaluate_single(_scatter_elements, (input, indices, updates), (axis,), device=device, out=out)


@operand_rules(OperandRules("xix"))
def _scatter_elements(input: TensorDesc, indices: TensorDesc, updates: TensorDesc, axis: Any) -> Operator:
    return ScatterElements(
        input_tensor=input, indices_tensor=indices, updates_tensor=updates, output_tensor=packed(input), axis=axis
    )


@operator_function
def scatter_nd(
    input: Operand,
    indices: Operand,
    updates: Operand,
    *,
    input_dimension_count: int,
    indices_dimension_count: int,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The input with the blocks replaced that tuples of coordinates address (SCATTER_ND).

    ``input``: any type and rank. ``indices``: uint32, uint64, int32 or int64, of the input's rank; the last dimension
    is one tuple. Of both the last dimensions count, as many as ``input_dimension_count`` and
    ``indices_dimension_count`` say; the others have size 1. ``updates``: the sizes of the indices without the last,
    then those of a block, aligned right in the same rank. Negative coordinates count from the end; updates with a
    coordinate outside are left out; of several updates of one element the last one stays.

    >>> x, places, updates = np.zeros((2, 2)), np.array([[-1]]), np.array([[1.0, 2.0]])
    >>> dml.scatter_nd(x, places, updates, input_dimension_count=2, indices_dimension_count=2).tolist()
    [[0.0, 0.0], [1.0, 2.0]]
    """
    parameters = (input_dimension_count, indices_dimension_count)
    return evaluate_single(_scatter_nd, (input, indices, updates), parameters, device=device, out=out)


@operand_rules(OperandRules("xix"))
def _scatter_nd(
    input: TensorDesc,
    indices: TensorDesc,
    updates: TensorDesc,
    input_dimension_count: Any,
    indices_dimension_count: Any,
) -> Operator:
    return ScatterNd(
        input_tensor=input,
        indices_tensor=indices,
        updates_tensor=updates,
        output_tensor=packed(input),
        input_dimension_count=input_dimension_count,
        indices_dimension_count=indices_dimension_count,
    )


@operator_function
def one_hot(
    indices: Operand,
    values: Operand,
    *,
    output_length: int,
    axis: int,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """One value everywhere, except for another one at the index given for every line along an axis (ONE_HOT).

    ``indices``: uint32, uint64, int32 or int64, any rank, of size 1 along the axis, where the result has
    ``output_length``. ``values``: the usual value and the one at the index, of the same rank and of any type, that of
    the result. Negative indices count from the end; those outside mark nothing.

    >>> dml.one_hot(np.array([[1], [-1], [7]]), np.array([[0.0, 1.0]]), output_length=3, axis=1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    return evaluate_single(_one_hot, (indices, values), (output_length, axis), device=device, out=out)


def _one_hot(indices: TensorDesc, values: TensorDesc, output_length: Any, axis: Any) -> Operator:
    target = TensorDesc(values.data_type, replaced(indices.sizes, axis, output_length))
    return OneHot(indices_tensor=indices, values_tensor=values, output_tensor=target, axis=axis)
