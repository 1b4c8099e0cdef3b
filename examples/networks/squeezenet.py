"""SqueezeNet 1.1 (Iandola and others, "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", 2016)."""

from __future__ import annotations

from layers import Layers, Network, Weights, run

import opendml as dml

# By position: None for a pooling, else the channels of a fire module: squeezed, and expanded by each of two windows.
FEATURES = {
    2: None,
    3: (16, 64),
    4: (16, 64),
    5: None,
    6: (32, 128),
    7: (32, 128),
    8: None,
    9: (48, 192),
    10: (48, 192),
    11: (64, 256),
    12: (64, 256),
}


def build(
    graph: dml.Graph, weights: Weights | None = None, batch: int = 1, image_size: int = 224, classes: int = 1000
) -> Network:
    """Images {N, 3, size, size} in, a number for each class {N, classes} out."""
    layers = Layers(graph, weights)
    x = graph.input("float32", [batch, 3, image_size, image_size], name="image")
    x = dml.activation_relu(layers.convolution("features.0", x, 64, window=3, stride=2, bias=True))
    for position, channels in FEATURES.items():
        name = f"features.{position}"
        x = layers.max_pooling(x, window=3, stride=2) if channels is None else fire(layers, name, x, *channels)
        layers.remember(name, x)
    x = dml.activation_relu(layers.convolution("classifier.1", x, classes, window=1, bias=True))
    return layers.network(layers.remember("output", layers.global_average(x)))


def fire(layers: Layers, name: str, x: dml.GraphTensor, squeezed: int, expanded: int) -> dml.GraphTensor:
    """Few channels, then many by windows of 1 and of 3."""
    x = dml.activation_relu(layers.convolution(f"{name}.squeeze", x, squeezed, window=1, bias=True))
    narrow = dml.activation_relu(layers.convolution(f"{name}.expand1x1", x, expanded, window=1, bias=True))
    wide = dml.activation_relu(layers.convolution(f"{name}.expand3x3", x, expanded, window=3, padding=1, bias=True))
    return dml.join([narrow, wide], axis=1)


if __name__ == "__main__":
    run("SqueezeNet 1.1", build, batch=1, image_size=224)
