"""Networks of quantised convolutions, between which there are bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from execution import Array

import opendml as dml

Build = Callable[[dml.Graph, Any], Any]
"""What makes an output of a graph's input."""

PADDED: Final[dict[str, Any]] = {"start_padding": [1, 1], "end_padding": [1, 1]}


def weights(sizes: Sequence[int], seed: int = 0, type: str = "int8") -> Array:
    limits = np.iinfo(type)
    return np.random.default_rng(seed).integers(limits.min, limits.max, sizes, type, endpoint=True)


def layer(x: Any, inputs: int, outputs: int, window: int = 1, zero: int = 0, groups: int = 1, **options: Any) -> Any:
    """A convolution with weights that are constants; ``zero``: that of its input."""
    kind, signed = ("int8", "uint8") if x.data_type.name == "INT8" else ("uint8", "int8")
    scales = np.linspace(0.5, 1.5, outputs, dtype=np.float32)
    point = np.array([zero], kind)
    return dml.quantized_linear_convolution(
        *(x, np.float32(0.02), point, weights([outputs, inputs // groups, window, window], outputs, signed)),
        *(scales, None, np.arange(outputs, dtype=np.int32) * 100, np.float32(2.0), np.array([3], kind)),
        group_count=groups,
        **options,
    )


def plain(graph: dml.Graph, x: Any) -> Any:
    """Points, windows, points: two tensors between them."""
    return layer(layer(layer(x, 32, 64), 64, 32, 3, 3, **PADDED), 32, 48, zero=3)


def strided(graph: dml.Graph, x: Any) -> Any:
    first = layer(x, 32, 32)
    return layer(layer(first, 32, 40, 3, 3, strides=[2, 2], **PADDED), 40, 64, zero=3, strides=[2, 2])


def residual(graph: dml.Graph, x: Any) -> Any:
    """A sum of what is read twice."""
    first = layer(x, 32, 32)
    second = layer(layer(first, 32, 32, 3, 3, **PADDED), 32, 32, zero=3)
    return layer(dml.max(first, second), 32, 16)


def pooled(graph: dml.Graph, x: Any) -> Any:
    """A pooling between convolutions; a mean at the end, whose lanes are points."""
    first = dml.max_pooling(layer(x, 32, 32), window_size=[3, 3], **PADDED).values
    second = dml.cast(layer(first, 32, 32), "float32")
    return dml.reduce(second, "AVERAGE", axes=[2, 3])


def grouped(graph: dml.Graph, x: Any) -> Any:
    return layer(layer(layer(x, 32, 64), 64, 64, 3, groups=2, **PADDED), 64, 16)


def depthwise(graph: dml.Graph, x: Any) -> Any:
    """Convolutions of single channels between others, by one and by two steps."""
    first = layer(layer(x, 32, 36), 36, 36, 3, 3, groups=36, **PADDED)
    second = layer(layer(first, 36, 32, zero=3), 32, 32, 3, groups=32, strides=[2, 2], **PADDED)
    return layer(second, 32, 48)


NETWORKS: Final[dict[str, tuple[Build, int]]] = {
    "plain": (plain, 2),
    "strided": (strided, 2),
    "residual": (residual, 4),
    "pooled": (pooled, 3),
    "grouped": (grouped, 1),
    "depthwise": (depthwise, 4),
}
"""Networks, and how many tensors lie otherwise."""


def described(build: Build, batch: int, type: str, size: Sequence[int] = (9, 11)) -> Any:
    graph = dml.Graph()
    return graph.describe(build(graph, graph.input(type, [batch, 32, *size])))
