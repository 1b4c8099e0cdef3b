"""What a name of a model stands for while it is translated: an array that is known, or a tensor of the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from opendml.building.graph_building import Graph
    from opendml.building.graph_tensor import GraphTensor

__all__ = ["NOTHING", "HostDrivenError", "NotExpressibleError", "UnknownValuesError", "Value", "constant", "known"]

Array = npt.NDArray[Any]
NOTHING: Final[frozenset[str]] = frozenset()


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
    always known.
    """

    data_type: np.dtype[Any]
    sizes: tuple[int, ...]
    array: Array | None = None
    tensor: GraphTensor | None = None
    inputs: frozenset[str] = NOTHING

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.sizes)


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
