"""Layers of quantized networks, whose weights are known before they run: products and convolutions of u8 by i8.

Weights have a scale for each output and no zero point, activations one scale and one zero point, as tools that quantize
networks make them. Peers get a model of QuantizeLinear and DequantizeLinear (``onnx_model``), in which they find the
integer operators themselves: that is how such networks are given to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import opendml as dml
from benchmarks.chains import Chain, Tensor
from opendml.description.tensor import TensorDesc

Array = Any

OPSET = 17
IR_VERSION = 8


@dataclass(frozen=True)
class QuantizedLayer(Chain):
    """A layer for activations of ``sizes``, with ``filters`` outputs (columns, or channels)."""

    filters: int

    def inputs(self) -> Sequence[tuple[str, TensorDesc]]:
        return [("input", TensorDesc("UINT8", self.sizes))]

    def outputs(self) -> Sequence[tuple[str, TensorDesc]]:
        return [("output", TensorDesc("UINT8", self.output_sizes))]

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """The sizes of the result."""
        raise TypeError(f"{type(self).__name__} has no sizes")

    @property
    def steps(self) -> int:
        """Products in a sum."""
        return math.prod(self.weight_sizes) // self.filters

    @property
    def weight_sizes(self) -> tuple[int, ...]:
        """The sizes of the weights."""
        raise TypeError(f"{type(self).__name__} has no weights")

    @property
    def zero_point(self) -> int:
        """Of the activations."""
        return 0

    @cached_property
    def weights(self) -> Array:
        """Random ones."""
        return np.random.default_rng(1).integers(-100, 101, self.weight_sizes, np.int8)

    @cached_property
    def scales(self) -> Array:
        """One for each output: the result of random activations fills its range."""
        spread = 2.0**7 / (math.sqrt(self.steps) * 58 * 74 * 3)
        return (np.random.default_rng(2).uniform(0.5, 1, self.filters) * spread).astype(np.float32)

    def onnx_model(self) -> bytes:
        """The layer between DequantizeLinear and QuantizeLinear; from ``x0`` to ``y0``."""
        from onnx import TensorProto, checker, helper, numpy_helper

        weight_axis = self._weight_axis
        constants = {
            "scale": np.float32(1),
            "zero_point": np.uint8(self.zero_point),
            "weights": self.weights,
            "scales": self.scales,
            "zeros": np.zeros(self.filters, np.int8),
            "output_zero_point": np.uint8(128),
        }
        nodes = [
            helper.make_node("DequantizeLinear", ["x0", "scale", "zero_point"], ["x"]),
            helper.make_node("DequantizeLinear", ["weights", "scales", "zeros"], ["w"], axis=weight_axis),
            self._node(helper),
            helper.make_node("QuantizeLinear", ["y", "scale", "output_zero_point"], ["y0"]),
        ]
        inputs = [helper.make_tensor_value_info("x0", TensorProto.UINT8, self.sizes)]
        outputs = [helper.make_tensor_value_info("y0", TensorProto.UINT8, self.output_sizes)]
        known = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
        graph = helper.make_graph(nodes, "layer", inputs, outputs, known)
        imports = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
        checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())

    @property
    def _weight_axis(self) -> int:
        return 0

    def _node(self, helper: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no operator")


@dataclass(frozen=True)
class QuantizedProduct(QuantizedLayer):
    """A matrix of ``sizes`` {M, K} times weights {K, ``filters``}, as in transformers."""

    @property
    def output_sizes(self) -> tuple[int, ...]:
        return (self.sizes[0], self.filters)

    @property
    def weight_sizes(self) -> tuple[int, ...]:
        return (self.sizes[1], self.filters)

    @property
    def zero_point(self) -> int:
        return 50

    def build(self, *inputs: Tensor) -> Tensor:
        (x,) = inputs
        zero_points = np.uint8(self.zero_point), np.uint8(128)
        one = np.float32(1)
        return dml.quantized_linear_matrix_multiply(
            x, one, zero_points[0], self.weights, self.scales, None, one, zero_points[1]
        )

    @property
    def _weight_axis(self) -> int:
        return 1

    def _node(self, helper: Any) -> Any:
        return helper.make_node("MatMul", ["x", "w"], ["y"])


@dataclass(frozen=True)
class QuantizedWindows(QuantizedLayer):
    """A convolution of images of ``sizes`` {N, C, H, W} by square windows, padded by half of one, as in ResNet-50."""

    window: int
    stride: int

    @property
    def output_sizes(self) -> tuple[int, ...]:
        margin = self.window // 2
        spatial = ((size + 2 * margin - self.window) // self.stride + 1 for size in self.sizes[2:])
        return (self.sizes[0], self.filters, *spatial)

    @property
    def weight_sizes(self) -> tuple[int, ...]:
        return (self.filters, self.sizes[1], self.window, self.window)

    def build(self, *inputs: Tensor) -> Tensor:
        (x,) = inputs
        one, margin = np.float32(1), [self.window // 2] * 2
        return dml.quantized_linear_convolution(
            x,
            one,
            np.uint8(self.zero_point),
            self.weights,
            self.scales,
            None,
            None,
            one,
            np.uint8(128),
            strides=[self.stride] * 2,
            start_padding=margin,
            end_padding=margin,
        )

    def _node(self, helper: Any) -> Any:
        pads, strides = [self.window // 2] * 4, [self.stride] * 2
        return helper.make_node("Conv", ["x", "w"], ["y"], pads=pads, strides=strides)
