"""What a name of a model stands for while it is translated: an array that is known, or a tensor of the graph."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from opendml.description.errors import InvalidDescriptorError

if TYPE_CHECKING:
    from opendml.building.graph_building import Graph
    from opendml.building.graph_tensor import GraphTensor

__all__ = [
    "NOTHING",
    "NO_DOUBLE",
    "STAND_IN",
    "HostDrivenError",
    "Integers",
    "NotExpressibleError",
    "Products",
    "Steps",
    "UnknownValuesError",
    "Value",
    "constant",
    "known",
    "reason_of",
]

Array = npt.NDArray[Any]
NOTHING: Final[frozenset[str]] = frozenset()
RULES_SHOWN: Final = 2
"""Rules that a descriptor breaks which a reason names, at most."""

STAND_IN: Final = "\0"
"""Among the inputs that a value depends on: what stands for the output of a node without an expression. No input has
this name."""

NO_DOUBLE: Final = "no FLOAT64 here"
"""How a reason begins where a node would have an expression if it were computed in FLOAT32."""


class NotExpressibleError(Exception):
    """A node has no expression in DirectML's operators; the message is the reason."""


class UnknownValuesError(NotExpressibleError):
    """A node needs values while the graph is made. ``inputs`` are the model's inputs that they depend on."""

    def __init__(self, message: str, inputs: frozenset[str]) -> None:
        super().__init__(message)
        self.inputs = inputs


class HostDrivenError(UnknownValuesError):
    """A node with graphs inside of it cannot be part of a graph, as how often a loop runs, for example, is not known
    while that is made; it can be driven from the host."""


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A tensor of a model: its type and sizes as ONNX has them, where there are bools and tensors without dimensions.

    ``array`` are its values where they are known; else ``tensor`` is what computes them, whose bools are UINT8 and
    which has at least one dimension. ``inputs`` are the model's inputs that it depends on. What has no elements is
    always known. ``integers``: how a tensor of float32 comes of integers, where it does.
    """

    data_type: np.dtype[Any]
    sizes: tuple[int, ...]
    array: Array | None = None
    tensor: GraphTensor | None = None
    inputs: frozenset[str] = NOTHING
    integers: Integers | Products | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.sizes)


@dataclass(frozen=True, eq=False, slots=True)
class Steps:
    """Which numbers integers stand for: ``(integer - zero_point) * scale``.

    ``scale``: float32, finite, above 0 and no subnormal number, so that quantising what was dequantised gives the
    integers again. ``zero_point``: of the integers' type. Both have one element where ``axis`` is None, else one for
    each place along this axis.
    """

    scale: Array
    zero_point: Array
    axis: int | None = None

    @property
    def data_type(self) -> np.dtype[Any]:
        """The type of the integers."""
        return self.zero_point.dtype

    def is_same(self, other: Steps) -> bool:
        """Whether the same integers stand for the same numbers."""
        pairs = ((self.scale, other.scale), (self.zero_point, other.zero_point))
        same = all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)
        return same and self.axis == other.axis


@dataclass(frozen=True, eq=False, slots=True)
class Integers:
    """A tensor is these integers, dequantised."""

    value: Value
    steps: Steps


@dataclass(frozen=True, eq=False, slots=True)
class Products:
    """A tensor is sums of products of integers, scaled, which ``quantized`` gives as integers of other steps (one for
    the whole tensor). ``limits``: then numbers below and above these were replaced by them, one pair after another."""

    quantized: Callable[[Steps], GraphTensor]
    limits: tuple[tuple[float, float], ...] = ()


def known(array: Array, inputs: frozenset[str] = NOTHING) -> Value:
    """Values that are known."""
    return Value(array.dtype.newbyteorder("="), array.shape, array, None, inputs)


def constant(graph: Graph, value: Value) -> GraphTensor:
    """A value as a tensor of the graph: bools as UINT8, at least one dimension."""
    if value.tensor is not None:
        return value.tensor
    assert value.array is not None
    array = value.array.reshape(1) if value.array.ndim == 0 else value.array
    return graph.constant(array.view(np.uint8) if array.dtype == np.bool_ else array)


def reason_of(error: BaseException) -> str:
    """What is wrong, without the line of the program that stands before it."""
    if isinstance(error, InvalidDescriptorError) and error.violations:
        shown = "; ".join(f"{violation}" for violation in error.violations[:RULES_SHOWN])
        name = f"{error.desc.type.dml_name}: " if error.desc is not None else ""
        return name + shown
    if isinstance(error, KeyError):
        return f"{error} is missing"
    text = str(error) or type(error).__name__
    return re.sub(r'^File ".*?", line \d+: ', "", text.split("\n", 1)[0])
