"""ResNet-50 (He and others, "Deep Residual Learning for Image Recognition", 2015), strides in the 3x3 convolutions."""

from __future__ import annotations

from layers import Layers, Network, Weights, run

import opendml as dml

# Channels inside the blocks, number of blocks, stride of the first one.
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))


def build(
    graph: dml.Graph, weights: Weights | None = None, batch: int = 1, image_size: int = 224, classes: int = 1000
) -> Network:
    """Images {N, 3, size, size} in, a number for each class {N, classes} out."""
    layers = Layers(graph, weights)
    x = graph.input("float32", [batch, 3, image_size, image_size], name="image")
    x = layers.convolution("conv1", x, 64, window=7, stride=2, padding=3)
    x = dml.activation_relu(layers.batch_normalization("bn1", x))
    x = layers.remember("maxpool", layers.max_pooling(x, window=3, stride=2, padding=1))
    for stage, (channels, count, first_stride) in enumerate(STAGES, 1):
        for block, stride in enumerate((first_stride, *[1] * (count - 1))):
            name = f"layer{stage}.{block}"
            x = layers.remember(name, bottleneck(layers, name, x, channels, stride))
    return layers.network(layers.linear("fc", layers.global_average(x), classes))


def bottleneck(layers: Layers, name: str, x: dml.GraphTensor, channels: int, stride: int) -> dml.GraphTensor:
    """Fewer channels, a 3x3 convolution, more channels; the input, made to fit, is added."""
    y = layers.convolution(f"{name}.conv1", x, channels, window=1)
    y = dml.activation_relu(layers.batch_normalization(f"{name}.bn1", y))
    y = layers.convolution(f"{name}.conv2", y, channels, window=3, stride=stride, padding=1)
    y = dml.activation_relu(layers.batch_normalization(f"{name}.bn2", y))
    y = layers.convolution(f"{name}.conv3", y, 4 * channels, window=1)
    y = layers.batch_normalization(f"{name}.bn3", y)
    if x.sizes != y.sizes:
        x = layers.convolution(f"{name}.downsample.0", x, 4 * channels, window=1, stride=stride)
        x = layers.batch_normalization(f"{name}.downsample.1", x)
    return dml.activation_relu(x + y)


if __name__ == "__main__":
    run("ResNet-50", build, batch=1, image_size=224)
