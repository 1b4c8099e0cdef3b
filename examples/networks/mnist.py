"""A small network for handwritten digits, the one of PyTorch's MNIST example."""

from __future__ import annotations

from layers import Layers, Network, Weights, run

import opendml as dml


def build(graph: dml.Graph, weights: Weights | None = None, batch: int = 1, image_size: int = 28) -> Network:
    """Images {N, 1, size, size} in, logarithms of the probabilities of ten digits {N, 10} out."""
    layers = Layers(graph, weights)
    x = graph.input("float32", [batch, 1, image_size, image_size], name="image")
    x = dml.activation_relu(layers.convolution("conv1", x, 32, window=3, bias=True))
    x = dml.activation_relu(layers.convolution("conv2", x, 64, window=3, bias=True))
    x = layers.max_pooling(x, window=2, stride=2)
    x = x.reshape([batch, x.desc.element_count // batch])
    x = dml.activation_relu(layers.linear("fc1", x, 128))
    x = layers.linear("fc2", x, 10)
    return layers.network(layers.remember("output", dml.activation_log_softmax(x)))


if __name__ == "__main__":
    run("MNIST", build, batch=1)
