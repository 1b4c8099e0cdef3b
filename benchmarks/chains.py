"""Chains of operators that opendml compiles to one fused program, and that other libraries run one by one or fuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import opendml as dml
from opendml.description.tensor import TensorDesc

Tensor = Any
"""A graph tensor of opendml."""


@dataclass(frozen=True)
class Chain:
    """A chain on float32 tensors of ``sizes``.

    ``operands`` are the inputs in order: "whole" ones of all sizes, one value a "channel" (dimension 1) or one "row"
    (the last dimension), which broadcast.
    """

    sizes: tuple[int, ...]
    operands: ClassVar[tuple[str, ...]] = ()

    def inputs(self) -> Sequence[tuple[str, TensorDesc]]:
        """Names and tensors, as a descriptor gives them."""
        kept = {"whole": range(len(self.sizes)), "channel": (1,), "row": (len(self.sizes) - 1,)}
        sizes = [[n if d in kept[kind] else 1 for d, n in enumerate(self.sizes)] for kind in self.operands]
        return [(f"input{number}", TensorDesc("FLOAT32", each)) for number, each in enumerate(sizes)]

    def outputs(self) -> Sequence[tuple[str, TensorDesc]]:
        """As ``inputs``."""
        return [("output", TensorDesc("FLOAT32", self.sizes))]

    def build(self, *inputs: Tensor) -> Tensor:
        """The output as a graph tensor."""
        raise TypeError(f"{type(self).__name__} builds nothing")


class ScaleBiasRelu(Chain):
    """``relu(x * scale + bias)``, scale and bias by channel."""

    operands = ("whole", "channel", "channel")

    def build(self, *inputs: Tensor) -> Tensor:
        x, scale, bias = inputs
        return dml.activation_relu(x * scale + bias)


class AddLayerNormalization(Chain):
    """``layer_normalization(x + y) * scale + bias``, as between the parts of a transformer."""

    operands = ("whole", "whole", "row", "row")

    def build(self, *inputs: Tensor) -> Tensor:
        x, y, scale, bias = inputs
        return dml.mean_variance_normalization(x + y, scale, bias, axes=[len(self.sizes) - 1])


class BiasGelu(Chain):
    """``gelu(x + bias)``, the bias a row."""

    operands = ("whole", "row")

    def build(self, *inputs: Tensor) -> Tensor:
        x, bias = inputs
        return dml.activation_gelu(x + bias)


class ResidualRelu(Chain):
    """``relu(batch_normalization(x) + y)``, as at the end of a residual block."""

    operands = ("whole", "whole", "channel", "channel", "channel", "channel")

    def build(self, *inputs: Tensor) -> Tensor:
        x, y, mean, variance, scale, bias = inputs
        return dml.activation_relu(dml.batch_normalization(x, mean, variance, scale, bias) + y)


class GatedSigmoid(Chain):
    """``sigmoid(x) * x * y``, as in gated networks."""

    operands = ("whole", "whole")

    def build(self, *inputs: Tensor) -> Tensor:
        x, y = inputs
        return dml.activation_sigmoid(x) * x * y
