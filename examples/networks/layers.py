"""The layers that the example networks consist of, and the command line that they share.

Parameters have the names and sizes of PyTorch's ``state_dict``, so that

    numpy.savez("weights.npz", **{name: value.numpy() for name, value in model.state_dict().items()})

is a file for ``--weights``. Without one they are random, always the same ones.
"""

from __future__ import annotations

import argparse
import math
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import opendml as dml

Array = np.ndarray[Any, Any]
Weights = Mapping[str, Array]


class Network(NamedTuple):
    """A network in a graph: its result, the outputs of all its layers by name, and its parameters."""

    output: dml.GraphTensor
    layers: dict[str, dml.GraphTensor]
    parameters: dict[str, Array]


class Layers:
    """Layers on float32 tensors {N, C, H, W} or {N, features}; the output of each is remembered by its name."""

    def __init__(self, graph: dml.Graph, weights: Weights | None = None, seed: int = 0) -> None:
        self.graph = graph
        self.weights = weights
        self.seed = seed
        self.outputs: dict[str, dml.GraphTensor] = {}
        self.parameters: dict[str, Array] = {}

    def network(self, output: dml.GraphTensor) -> Network:
        """All layers so far, with the last one's output as the result."""
        return Network(output, self.outputs, self.parameters)

    def remember(self, name: str, output: dml.GraphTensor) -> dml.GraphTensor:
        """Give an output a name."""
        self.outputs[name] = output
        return output

    def parameter(self, name: str, sizes: list[int], random: Callable[[np.random.Generator], Array]) -> Array:
        """A parameter out of the given weights, or a random one that depends on its name and the seed only."""
        if self.weights is not None:
            value = np.asarray(self.weights[name], np.float32)
            if list(value.shape) != sizes:
                raise ValueError(f"{name}: expected {sizes}, got {list(value.shape)}")
        else:
            value = random(np.random.default_rng([self.seed, zlib.crc32(name.encode())])).astype(np.float32)
        self.parameters[name] = value
        return value

    def weight(self, name: str, sizes: list[int]) -> Array:
        """Factors; random ones keep the variance of what passes through a ReLU."""
        deviation = math.sqrt(2 / math.prod(sizes[1:]))
        return self.parameter(name, sizes, lambda generator: generator.normal(0, deviation, sizes))

    def bias(self, name: str, size: int) -> Array:
        """Summands."""
        return self.parameter(name, [size], lambda generator: generator.normal(0, 0.1, size))

    def positive(self, name: str, size: int) -> Array:
        """Variances, and factors that change little."""
        return self.parameter(name, [size], lambda generator: generator.uniform(0.5, 1.5, size))

    def convolution(
        self,
        name: str,
        x: dml.GraphTensor,
        channels: int,
        window: int,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> dml.GraphTensor:
        """A convolution with a square window."""
        filter = self.weight(f"{name}.weight", [channels, x.sizes[1] // groups, window, window])
        with self.graph.scope(name):
            y = dml.convolution(
                x,
                filter,
                _per_channel(self.bias(f"{name}.bias", channels)) if bias else None,
                strides=[stride, stride],
                start_padding=[padding, padding],
                end_padding=[padding, padding],
                group_count=groups,
            )
        return self.remember(name, y)

    def batch_normalization(self, name: str, x: dml.GraphTensor) -> dml.GraphTensor:
        """A normalisation with the mean and variance seen in training."""
        channels = x.sizes[1]
        scale, bias = self.positive(f"{name}.weight", channels), self.bias(f"{name}.bias", channels)
        mean, variance = self.bias(f"{name}.running_mean", channels), self.positive(f"{name}.running_var", channels)
        with self.graph.scope(name):
            y = dml.batch_normalization(x, *map(_per_channel, (mean, variance, scale, bias)))
        return self.remember(name, y)

    def layer_normalization(self, name: str, x: dml.GraphTensor) -> dml.GraphTensor:
        """A normalisation of each row of {rows, features}."""
        scale, bias = self.positive(f"{name}.weight", x.sizes[1]), self.bias(f"{name}.bias", x.sizes[1])
        with self.graph.scope(name):
            y = dml.mean_variance_normalization(x, scale[np.newaxis], bias[np.newaxis], axes=[1])
        return self.remember(name, y)

    def linear(self, name: str, x: dml.GraphTensor, features: int) -> dml.GraphTensor:
        """``x @ weight.T + bias`` of {rows, features}."""
        return self.remember(name, self.product(f"{name}.weight", f"{name}.bias", name, x, features))

    def product(self, weight: str, bias: str, name: str, x: dml.GraphTensor, features: int) -> dml.GraphTensor:
        """As ``linear``, with names for the parameters."""
        factors = self.weight(weight, [features, x.sizes[1]])
        summands = np.broadcast_to(self.bias(bias, features), [x.sizes[0], features])
        with self.graph.scope(name):
            return dml.gemm(x, factors, summands, trans_b="TRANSPOSE")

    def max_pooling(self, x: dml.GraphTensor, window: int, stride: int, padding: int = 0) -> dml.GraphTensor:
        """The maximum of square windows; the last one may be cut off by the border (PyTorch's ``ceil_mode``)."""
        end = [padding + -(size + 2 * padding - window) % stride for size in x.sizes[2:]] if padding == 0 else None
        return dml.max_pooling(
            x,
            window_size=[window, window],
            strides=[stride, stride],
            start_padding=[padding, padding],
            end_padding=end or [padding, padding],
        ).values

    def global_average(self, x: dml.GraphTensor) -> dml.GraphTensor:
        """The mean of each channel: {N, C}."""
        return dml.reduce(x, "AVERAGE", axes=[2, 3]).reshape(x.sizes[:2])


def _per_channel(values: Array) -> Array:
    """{C} as {1, C, 1, 1}."""
    return values.reshape(1, -1, 1, 1)


def run(title: str, build: Callable[..., Network], **sizes: int) -> None:
    """The command line of a network: build, compile, run on random input, and say how long that took.

    ``sizes`` are the parameters of ``build`` that options may change, and what they are by default.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--weights", help="parameters in a .npz file, named as in PyTorch (default: random ones)")
    parser.add_argument("--save-weights", help="write the parameters to a .npz file")
    parser.add_argument("--repetitions", type=int, default=10)
    for name, size in sizes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=size, help=f"default: {size}")
    options = parser.parse_args()

    graph = dml.Graph(name=title)
    weights = None if options.weights is None else dict(np.load(options.weights))
    network = build(graph, weights, **{name: getattr(options, name) for name in sizes})
    if options.save_weights:
        np.savez(options.save_weights, **network.parameters)
    start = time.perf_counter()
    program = graph.compile(network.output)
    print(f"{title}: {len(network.layers)} layers, compiled in {time.perf_counter() - start:.2f} s")

    x = random_input(program)
    call = program.bind(x)
    times = []
    for _ in range(options.repetitions):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    if times:
        print(f"median of {len(times)} runs: {np.median(times) * 1e3:.2f} ms")
    best = np.argsort(call.results.reshape(-1))[-5:][::-1]
    print("largest outputs:", ", ".join(f"[{i}] {call.results.reshape(-1)[i]:.4f}" for i in best))


def random_input(program: dml.GraphProgram, seed: int = 0) -> Array:
    """Normally distributed numbers for the one input of a network."""
    desc = program.inputs[0].desc
    assert desc is not None
    return np.random.default_rng(seed).normal(size=desc.sizes).astype(np.float32)
