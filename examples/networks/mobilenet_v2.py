"""MobileNetV2 (Sandler and others, "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018)."""

from __future__ import annotations

from layers import Layers, Network, Weights, run

import opendml as dml

# Expansion, channels, number of blocks, stride of the first one.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def build(
    graph: dml.Graph, weights: Weights | None = None, batch: int = 1, image_size: int = 224, classes: int = 1000
) -> Network:
    """Images {N, 3, size, size} in, a number for each class {N, classes} out."""
    layers = Layers(graph, weights)
    x = graph.input("float32", [batch, 3, image_size, image_size], name="image")
    x = layers.remember("features.0", normalized(layers, "features.0", x, 32, window=3, stride=2))
    position = 1
    for expansion, channels, count, first_stride in STAGES:
        for stride in (first_stride, *[1] * (count - 1)):
            name = f"features.{position}"
            x = layers.remember(name, inverted_residual(layers, name, x, expansion, channels, stride))
            position += 1
    x = layers.remember(f"features.{position}", normalized(layers, f"features.{position}", x, 1280, window=1))
    x = layers.linear("classifier.1", layers.global_average(x), classes)
    return layers.network(x)


def inverted_residual(
    layers: Layers, name: str, x: dml.GraphTensor, expansion: int, channels: int, stride: int
) -> dml.GraphTensor:
    """More channels, a convolution of each by itself, fewer channels; the input is added where sizes allow."""
    y, expanded, position = x, x.sizes[1] * expansion, 0
    if expansion != 1:
        y = normalized(layers, f"{name}.conv.0", y, expanded, window=1)
        position = 1
    y = normalized(layers, f"{name}.conv.{position}", y, expanded, window=3, stride=stride, groups=expanded)
    y = layers.convolution(f"{name}.conv.{position + 1}", y, channels, window=1)
    y = layers.batch_normalization(f"{name}.conv.{position + 2}", y)
    return x + y if stride == 1 and x.sizes == y.sizes else y


def normalized(
    layers: Layers, name: str, x: dml.GraphTensor, channels: int, window: int, stride: int = 1, groups: int = 1
) -> dml.GraphTensor:
    """A convolution, a normalisation, and the limits 0 and 6."""
    x = layers.convolution(f"{name}.0", x, channels, window, stride, padding=window // 2, groups=groups)
    return dml.clip(layers.batch_normalization(f"{name}.1", x), 0, 6)


if __name__ == "__main__":
    run("MobileNetV2", build, batch=1, image_size=224)
