"""Normalisations by given or computed statistics."""

from __future__ import annotations

from typing import Any, Final

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["NORMALIZATIONS"]


def _per_channel(tensor: GraphTensor, rank: int) -> GraphTensor:
    """One value a channel, beside images."""
    return tensor.reshape(1, -1, *[1] * (rank - 2)) if rank > 1 else tensor


def _aligned(tensor: GraphTensor | None, rank: int) -> GraphTensor | None:
    """With dimensions of size 1 in front."""
    return None if tensor is None else tensor.reshape(*[1] * (rank - tensor.rank), *tensor.sizes)


def _batch_normalization(node: Node) -> Results:
    if node.integer("training_mode"):
        return _trained_batch_normalization(node)
    if any(node.wants(position) for position in range(1, 5)):
        raise NotExpressibleError("in training below version 14 it gives statistics that are not defined well")
    if node.integer("spatial", 1) != 1:
        raise NotExpressibleError("statistics of single elements (spatial = 0) have no operator yet")
    data = node.tensor()
    scale, bias, mean, variance = (
        _per_channel(_typed(one, data), data.rank) for one in (node.tensor(position) for position in range(1, 5))
    )
    epsilon = node.number("epsilon", 1e-5)
    found: Any = dml.batch_normalization(data, mean, variance, scale, bias, epsilon=epsilon)
    return node.result(found, node.sizes())


def _trained_batch_normalization(node: Node) -> Results:
    """By the statistics of the batch, with which those that are kept are updated."""
    data = node.tensor()
    scale, bias, mean, variance = (node.tensor(position) for position in range(1, 5))
    found = dml.batch_normalization_training(
        data,
        *(_per_channel(_typed(one, data), data.rank) for one in (scale, bias)),
        epsilon=node.number("epsilon", 1e-5),
    )
    kept = node.number("momentum", 0.9)
    updated = [
        old * kept + _typed(new.reshape(old.sizes), old) * (1.0 - kept)
        for old, new in ((mean, found.mean), (variance, found.variance))
    ]
    return [node.result(found.output, node.sizes()), *updated]


def _typed(tensor: GraphTensor, beside: GraphTensor) -> GraphTensor:
    return tensor if tensor.dtype == beside.dtype else dml.cast(tensor, beside.data_type)


def _instance_normalization(node: Node) -> Results:
    data = node.tensor()
    scale, bias = (_per_channel(node.tensor(position), data.rank) for position in (1, 2))
    axes = list(range(2, data.rank))
    epsilon = node.number("epsilon", 1e-5)
    return node.result(dml.mean_variance_normalization(data, scale, bias, axes=axes, epsilon=epsilon))


def _layer_normalization(node: Node) -> Results | None:
    """The other outputs, mean and deviation, come by ONNX's own definition."""
    if node.wants(1) or node.wants(2):
        return None
    return _over_last(node, normalize_mean=True)


def _rms_normalization(node: Node) -> Results:
    return _over_last(node, normalize_mean=False)


def _over_last(node: Node, normalize_mean: bool) -> Results:
    data = node.tensor()
    axis = node.axis(data.rank, -1)
    scale, bias = (_aligned(node.optional(position), data.rank) for position in (1, 2))
    for one in (scale, bias):
        if one is not None and one.dtype != data.dtype:
            raise NotExpressibleError(f"a scale of {one.dtype} beside {data.dtype} has no operator")
    found: Any = dml.mean_variance_normalization(
        data,
        scale,
        bias,
        axes=list(range(axis, data.rank)),
        normalize_mean=normalize_mean,
        epsilon=node.number("epsilon", 1e-5),
    )
    return node.result(found, node.sizes())


def _local_response_normalization(node: Node) -> Results:
    """Images of other than two spatial dimensions are seen as such."""
    sizes = node.sizes()
    data = node.tensor().reshape(*sizes[:2], -1, sizes[-1] if len(sizes) > 3 else 1)
    found = dml.local_response_normalization(
        data,
        cross_channel=True,
        local_size=node.integer("size"),
        alpha=node.number("alpha", 1e-4),
        beta=node.number("beta", 0.75),
        bias=node.number("bias", 1.0),
    )
    return node.result(found, sizes)


NORMALIZATIONS: Final[Table] = {
    "BatchNormalization": _batch_normalization,
    "InstanceNormalization": _instance_normalization,
    "LRN": _local_response_normalization,
    "LayerNormalization": _layer_normalization,
    "RMSNormalization": _rms_normalization,
}
