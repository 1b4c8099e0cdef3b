"""Normalisations with what stands before them: sums and embeddings."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results, normal_axis
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError, Value

__all__ = ["NORMALIZATIONS", "SIMPLIFIED"]


def _last_normalized(
    data: GraphTensor, scale: GraphTensor, bias: GraphTensor | None, epsilon: float, normalize_mean: bool = True
) -> GraphTensor:
    """Along the last dimension."""
    aligned = [None if one is None else one.reshape(*[1] * (data.rank - 1), -1) for one in (scale, bias)]
    found: Any = dml.mean_variance_normalization(
        data, *aligned, axes=[data.rank - 1], normalize_mean=normalize_mean, epsilon=epsilon
    )
    return found  # type: ignore[no-any-return]


def _no_statistics(node: Node, *positions: int) -> None:
    if any(node.wants(position) for position in positions):
        raise NotExpressibleError("statistics of a normalisation as outputs have no operator")


def _skipping(node: Node, normalize_mean: bool) -> Results:
    """Of the sum of an input, one that has skipped some layers, and a bias; the sum is an output too."""
    _no_statistics(node, 1, 2)
    total = node.tensor(0) + node.tensor(1)
    beta, bias = (3, 4) if normalize_mean else (9, 3)
    if node.has(bias):
        total = total + node.tensor(bias)
    epsilon = node.number("epsilon", 1e-12 if normalize_mean else 1e-5)
    found = _last_normalized(total, node.tensor(2), node.optional(beta), epsilon, normalize_mean)
    return [node.result(found, node.sizes()), None, None, node.result(total, node.sizes())]


def _skip_layer(node: Node) -> Results:
    return _skipping(node, normalize_mean=True)


def _skip_simplified(node: Node) -> Results:
    return _skipping(node, normalize_mean=False)


def _simplified(node: Node) -> Results:
    """Without the mean: by the root of the mean square."""
    _no_statistics(node, 1)
    data = node.tensor()
    if normal_axis(node.integer("axis", -1), data.rank) != data.rank - 1:
        raise NotExpressibleError("it is normalised along more than the last dimension")
    return node.result(_last_normalized(data, node.tensor(1), None, node.number("epsilon", 1e-5), False), node.sizes())


def _embedding(node: Node) -> Results:
    """The sum of the embeddings of words, positions and segments, normalised; and the lengths that a mask gives."""
    batch, length = node.sizes(0)
    total = _rows(node.tensor(2), node.tensor(0))
    if node.has(8):
        positions = _rows(node.tensor(3), node.tensor(8))
    else:
        positions = node.tensor(3)[:length].reshape(1, length, -1)
    total = total + positions
    if node.has(1) and node.has(4):
        total = total + _rows(node.tensor(4), node.tensor(1))
    found = _last_normalized(total, node.tensor(5), node.tensor(6), node.number("epsilon", 1e-12))
    lengths: Any = np.zeros(batch, np.int32)
    if node.has(7):
        lengths = node.result(dml.reduce(node.tensor(7), "SUM", axes=[1]), (batch,))
    results: list[Any] = [node.result(found), lengths, node.result(total)]
    return results[: len(node.outputs)]


def _rows(table: GraphTensor, indices: GraphTensor) -> GraphTensor:
    """A row of the table for each index."""
    batch, length = indices.sizes
    found = dml.gather(table, indices.reshape(1, -1), axis=0, index_dimensions=1)
    return found.reshape(batch, length, table.sizes[-1])


def _group(node: Node) -> Results:
    return _groups(node, node.tensor())


def _skip_group(node: Node) -> Results:
    total = node.tensor(0) + node.tensor(3).reshape(_beside(node, 3))
    if node.has(4):
        total = total + node.tensor(4).reshape(_beside(node, 4))
    return [_groups(node, total), node.result(total)]


def _beside(node: Node, position: int) -> list[int]:
    """Values of whole images, or one for each channel of each of them, or one for each channel."""
    sizes = node.sizes(position)
    if len(sizes) == 4:
        return list(sizes)
    is_last = node.integer("channels_last", 1)
    batch = sizes[0] if len(sizes) > 1 else 1
    return [batch, 1, 1, sizes[-1]] if is_last else [batch, sizes[-1], 1, 1]


def _groups(node: Node, data: GraphTensor) -> Value:
    """Groups of channels are normalised; scale and bias are the channels'."""
    groups = node.integer("groups")
    is_last = bool(node.integer("channels_last", 1))
    images = data.transpose(0, 3, 1, 2) if is_last else data
    batch, channels, height, width = images.sizes
    parts = images.reshape(batch, groups, channels // groups, height, width)
    scale, bias = (_typed(node.tensor(i), data).reshape(1, groups, channels // groups, 1, 1) for i in (1, 2))
    found: Any = dml.mean_variance_normalization(
        parts, scale, bias, axes=[2, 3, 4], epsilon=node.number("epsilon", 1e-5)
    )
    if node.integer("activation"):
        found = dml.activation_swish(found)
    found = found.reshape(batch, channels, height, width)
    return node.result(found.transpose(0, 2, 3, 1).packed() if is_last else found)


def _typed(tensor: GraphTensor, beside: GraphTensor) -> GraphTensor:
    return tensor if tensor.dtype == beside.dtype else dml.cast(tensor, beside.data_type)


NORMALIZATIONS: Final[Table] = {
    "EmbedLayerNormalization": _embedding,
    "GroupNorm": _group,
    "SkipGroupNorm": _skip_group,
    "SkipLayerNormalization": _skip_layer,
    "SkipSimplifiedLayerNormalization": _skip_simplified,
}

SIMPLIFIED: Final[Table] = {"SimplifiedLayerNormalization": _simplified}
"""Of no domain, as ONNX Runtime writes it."""
