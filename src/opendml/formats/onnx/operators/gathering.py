"""Selecting and writing by indices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results, normal_axis
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["GATHERING"]


def _widened(tensor: GraphTensor, rank: int) -> GraphTensor:
    """With dimensions of size 1 in front."""
    return tensor.reshape(*[1] * (rank - tensor.rank), *tensor.sizes)


def _indices(node: Node, position: int) -> GraphTensor:
    tensor = node.tensor(position)
    if tensor.dtype not in (np.int32, np.int64):
        raise NotExpressibleError(f"indices of {tensor.dtype} have no operator")
    return tensor


def _gather(node: Node) -> Results:
    sizes, chosen = node.sizes(0), node.sizes(1)
    axis = node.axis(len(sizes))
    found = (*sizes[:axis], *chosen, *sizes[axis + 1 :])
    data, indices = node.tensor(), _indices(node, 1)
    value = node.value(1)
    if value.array is not None and not chosen:
        index = int(value.array) + (sizes[axis] if int(value.array) < 0 else 0)
        if not 0 <= index < sizes[axis]:
            raise NotExpressibleError(f"the index {int(value.array)} is outside of {sizes[axis]}")
        return node.result(data[(*[slice(None)] * axis, slice(index, index + 1))], found, node.type_of())
    rank = max(data.rank, data.rank - 1 + indices.rank, indices.rank)
    gathered = dml.gather(
        _widened(data, rank),
        _widened(indices, rank),
        axis=axis + rank - data.rank,
        index_dimensions=indices.rank,
    )
    return node.result(gathered, found, node.type_of())


def _gather_elements(node: Node) -> Results:
    data, indices = node.tensor(), _indices(node, 1)
    axis = node.axis(data.rank)
    if any(i != axis and index > size for i, (index, size) in enumerate(zip(indices.sizes, data.sizes, strict=True))):
        raise NotExpressibleError(f"indices of {list(indices.sizes)} are more than {list(data.sizes)}")
    window = tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(indices.sizes))
    return node.result(dml.gather_elements(data[window], indices, axis=axis), node.sizes(1), node.type_of())


def _gather_nd(node: Node) -> Results:
    data, indices = node.tensor(), _indices(node, 1)
    batch = node.integer("batch_dims")
    block = data.sizes[batch + indices.sizes[-1] :]
    found = (*indices.sizes[:-1], *block)
    rank = max(data.rank, indices.rank, len(found))
    gathered = dml.gather_nd(
        _widened(data, rank),
        _widened(indices, rank),
        input_dimension_count=data.rank,
        indices_dimension_count=indices.rank,
        batch_dimension_count=batch,
    )
    return node.result(gathered, found, node.type_of())


def _plain(node: Node) -> None:
    """Raises where what is written is to be joined with what is there."""
    reduction = node.text("reduction", "none")
    if reduction != "none":
        raise NotExpressibleError(f"scattering with the reduction {reduction!r} has no operator")


def _scatter_elements(node: Node) -> Results:
    _plain(node)
    data, indices, updates = node.tensor(), _indices(node, 1), node.tensor(2)
    axis = node.axis(data.rank)
    if any(i != axis and index != data.sizes[i] for i, index in enumerate(indices.sizes)):
        reason = f"indices of {list(indices.sizes)} that leave out parts of {list(data.sizes)} have no operator"
        raise NotExpressibleError(reason)
    return node.result(dml.scatter_elements(data, indices, updates, axis=axis), node.sizes(), node.type_of())


def _scatter_nd(node: Node) -> Results:
    _plain(node)
    data, indices, updates = node.tensor(), _indices(node, 1), node.tensor(2)
    rank = max(data.rank, indices.rank, updates.rank)
    scattered = dml.scatter_nd(
        _widened(data, rank),
        _widened(indices, rank),
        _widened(updates, rank),
        input_dimension_count=data.rank,
        indices_dimension_count=indices.rank,
    )
    return node.result(scattered, node.sizes(), node.type_of())


def _one_hot(node: Node) -> Results:
    """Negative indices count from the end; those outside mark nothing."""
    sizes = node.sizes()
    depth = node.integers_of(1)[0]
    axis = normal_axis(node.integer("axis", -1), len(sizes) + 1)
    indices = node.tensor()
    if indices.dtype != np.int64:
        indices = dml.cast(indices, "int64")
    indices = indices.reshape(*sizes[:axis], 1, *sizes[axis:])
    values: Any = node.tensor(2).reshape(*[1] * (indices.rank - 1), 2)
    found = (*sizes[:axis], depth, *sizes[axis:])
    return node.result(dml.one_hot(indices, values, output_length=depth, axis=axis), found, node.type_of(2))


GATHERING: Final[Table] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
}
