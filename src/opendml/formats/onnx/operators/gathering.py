"""Selecting and writing by indices."""

from __future__ import annotations

import math
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


_IDENTITIES: Final[dict[str, Any]] = {"add": 0, "mul": 1}
_REDUCTIONS: Final[dict[str, tuple[str, Any]]] = {
    "add": ("SUM", dml.add),
    "mul": ("MULTIPLY", dml.multiply),
    "max": ("MAX", dml.max),
    "min": ("MIN", dml.min),
}


def _reduction(node: Node) -> str:
    """How what is written is joined with what is there; nothing where it replaces that."""
    reduction = node.text("reduction", "none")
    if reduction != "none" and reduction not in _REDUCTIONS:
        raise NotExpressibleError(f"the reduction {reduction!r} is not known")
    return "" if reduction == "none" else reduction


def _neutral(reduction: str, data_type: np.dtype[Any]) -> Any:
    """What joins without an effect."""
    if reduction in _IDENTITIES:
        return _IDENTITIES[reduction]
    if data_type.kind == "f":
        return -np.inf if reduction == "max" else np.inf
    limits = np.iinfo(data_type)
    return limits.min if reduction == "max" else limits.max


def _joined(data: GraphTensor, indices: GraphTensor, updates: GraphTensor, axis: int, reduction: str) -> GraphTensor:
    """Data with updates joined to the elements along an axis that indices name, none of them negative.

    Every element looks at all updates along the axis, which DirectML's scatters cannot: they only replace.
    """
    function, join = _REDUCTIONS[reduction]
    length, count = data.sizes[axis], indices.sizes[axis]
    updates, indices = (one.expand_dims(axis) for one in (updates, indices))
    places = np.arange(length, dtype=indices.dtype).reshape([length if i == axis else 1 for i in range(indices.rank)])
    is_there = dml.equals(indices, places)
    neutral = np.full((1,) * indices.rank, _neutral(reduction, updates.dtype), updates.dtype)
    chosen = dml.if_(is_there, updates, neutral)
    total = dml.reduce(chosen, function, axes=[axis + 1]) if count > 1 else chosen
    found: GraphTensor = join(data, total.reshape(data.sizes))
    return found


def _from_front(indices: GraphTensor, length: Any) -> GraphTensor:
    """Negative indices counted from the front."""
    zero = np.zeros((1,) * indices.rank, indices.dtype)
    return dml.if_(dml.less_than(indices, zero), indices + np.asarray(length, indices.dtype), indices)


def _scatter_elements(node: Node) -> Results:
    """Indices may leave out parts of the data in the other dimensions, which stay as they are."""
    data, indices, updates = node.tensor(), _indices(node, 1), node.tensor(2)
    axis, reduction = node.axis(data.rank), _reduction(node)
    window = [slice(None) if i == axis else slice(size) for i, size in enumerate(indices.sizes)]
    part = data[tuple(window)]
    if reduction:
        found = _joined(part, _from_front(indices, data.sizes[axis]), updates, axis, reduction)
    else:
        found = dml.scatter_elements(part, indices, updates, axis=axis)
    if part.sizes != data.sizes:
        found = _put_back(data, found)
    return node.result(found, node.sizes(), node.type_of())


def _put_back(data: GraphTensor, part: GraphTensor) -> GraphTensor:
    """The data with its first elements along every dimension replaced."""
    inside = np.zeros(data.sizes, np.uint8)
    inside[tuple(slice(size) for size in part.sizes)] = 1
    more = [have - size for have, size in zip(data.sizes, part.sizes, strict=True)]
    whole = dml.padding(part, start_padding=[0] * data.rank, end_padding=more)
    return dml.if_(data.graph.constant(inside), whole, data)


def _scatter_nd(node: Node) -> Results:
    data, indices, updates = node.tensor(), _indices(node, 1), node.tensor(2)
    reduction = _reduction(node)
    if reduction:
        return node.result(_joined_blocks(data, indices, updates, reduction), node.sizes(), node.type_of())
    rank = max(data.rank, indices.rank, updates.rank)
    scattered = dml.scatter_nd(
        _widened(data, rank),
        _widened(indices, rank),
        _widened(updates, rank),
        input_dimension_count=data.rank,
        indices_dimension_count=indices.rank,
    )
    return node.result(scattered, node.sizes(), node.type_of())


def _joined_blocks(data: GraphTensor, indices: GraphTensor, updates: GraphTensor, reduction: str) -> GraphTensor:
    """Tuples of coordinates become numbers of blocks; those with a coordinate outside are of none."""
    count = indices.sizes[-1]
    outer = data.sizes[:count]
    tuples = _from_front(indices.reshape(-1, count), np.reshape(outer, (1, -1)))
    limits = np.asarray(outer, tuples.dtype).reshape(1, -1)
    zero = np.zeros((1, 1), tuples.dtype)
    is_inside = dml.logical_and(dml.greater_than_or_equal(tuples, zero), dml.less_than(tuples, limits))
    steps = np.array([math.prod(outer[i + 1 :]) for i in range(count)], tuples.dtype).reshape(1, -1)
    number = dml.reduce(tuples * steps, "SUM", axes=[1])
    number = dml.if_(dml.reduce(is_inside.astype("uint32"), "MIN", axes=[1]).astype("uint8"), number, zero - 1)
    blocks = data.reshape(math.prod(outer), -1)
    every = number.broadcast_to((number.sizes[0], blocks.sizes[1]))
    return _joined(blocks, every, updates.reshape(number.sizes[0], -1), 0, reduction).reshape(data.sizes)


def _tensor_scatter(node: Node) -> Results:
    """Updates of each batch along an axis from an index of its own on, from which they may go round."""
    data, updates = node.tensor(0), node.tensor(1)
    axis = node.axis(data.rank, -2)
    places = np.arange(updates.sizes[axis]).reshape([-1 if i == axis else 1 for i in range(data.rank)])
    batches = [data.sizes[0] if i == 0 else 1 for i in range(data.rank)]
    starts = node.tensor(2).reshape(batches) if node.has(2) else node.graph.constant(np.zeros(batches, np.int64))
    indices = starts + places.astype(starts.dtype)
    if node.text("mode", "linear") == "circular":
        indices = dml.modulus_floor(indices, np.full((1,) * data.rank, data.sizes[axis], indices.dtype))
    found = dml.scatter_elements(data, indices.broadcast_to(updates.sizes), updates, axis=axis)
    return node.result(found, node.sizes(), node.type_of())


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


def _top_k(node: Node) -> Results:
    """Always in order; of equal elements the first ones come first."""
    count = node.integer("k") if node.version < 10 else node.integers_of(1)[0]
    axis = node.axis(len(node.sizes()), -1)
    direction = "DECREASING" if node.integer("largest", 1) else "INCREASING"
    sizes = [count if i == axis else size for i, size in enumerate(node.sizes())]
    if not count:
        return [np.zeros(sizes, node.type_of()), np.zeros(sizes, np.int64)]
    top = dml.top_k(node.tensor(), axis=axis, k=count, axis_direction=direction)
    return [node.result(top.value, sizes), node.result(dml.cast(top.index, "int64"), sizes)]


GATHERING: Final[Table] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "TopK": _top_k,
}
