"""``Node``: a node of a model as the functions that express operators see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendml.building.graph_building import Graph
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.texts import check_text
from opendml.formats.onnx.types import known_type
from opendml.formats.onnx.values import NotExpressibleError, UnknownValuesError, Value, constant, known

__all__ = ["Node", "Result", "Results"]

Array = npt.NDArray[Any]
Result = Value | GraphTensor | Array
Results = Result | Sequence[Result | None]
"""What a function gives: one output, or one for each output of the node."""


class Node:
    """A node with its inputs: what is known of them and how they are computed.

    ``version``: that of the node's set of operators. ``inputs``: None for those that are left out.
    """

    def __init__(
        self,
        graph: Graph,
        operator: str,
        version: int,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any],
        outputs: Sequence[str],
    ) -> None:
        self.graph = graph
        self.operator = operator
        self.version = version
        self.inputs = tuple(inputs)
        self.attributes = attributes
        self.outputs = tuple(outputs)
        self.depends_on = frozenset[str]().union(*(value.inputs for value in inputs if value is not None))

    # ---- inputs

    def has(self, position: int) -> bool:
        """Whether an input is given."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def wants(self, position: int) -> bool:
        """Whether an output is used by name."""
        return position < len(self.outputs) and bool(self.outputs[position])

    def value(self, position: int) -> Value:
        """An input that the operator must have."""
        found = self.inputs[position] if position < len(self.inputs) else None
        if found is None:
            raise NotExpressibleError(f"its input {position} is missing")
        return found

    def sizes(self, position: int = 0) -> tuple[int, ...]:
        """The sizes of an input."""
        return self.value(position).sizes

    def type_of(self, position: int = 0) -> np.dtype[Any]:
        """The type of an input."""
        return self.value(position).data_type

    def tensor(self, position: int = 0) -> GraphTensor:
        """An input as a tensor of the graph; of a bool UINT8, and of no dimensions one."""
        value = self.value(position)
        if value.array is not None and value.array.size == 0:
            raise NotExpressibleError(f"its input {position} has no elements")
        return constant(self.graph, value)

    def tensors(self) -> list[GraphTensor]:
        """All inputs as tensors of the graph."""
        return [self.tensor(position) for position in range(len(self.inputs))]

    def optional(self, position: int) -> GraphTensor | None:
        """An input as a tensor of the graph, None if it is not given."""
        return self.tensor(position) if self.has(position) else None

    def known(self, position: int) -> Array:
        """The values of an input that decide what the node is. Raises UnknownValuesError."""
        value = self.value(position)
        if value.array is None:
            raise UnknownValuesError(f"the values of its input {position} decide what it computes", value.inputs)
        return value.array

    def integers_of(self, position: int) -> list[int]:
        """Those values as integers."""
        return [int(value) for value in self.known(position).reshape(-1)]

    def narrowed(self) -> Node:
        """The same node with FLOAT32 in place of FLOAT64."""
        inputs = [value if value is None else self._narrow(value) for value in self.inputs]
        return Node(self.graph, self.operator, self.version, inputs, self.attributes, self.outputs)

    def _narrow(self, value: Value) -> Value:
        if value.data_type != np.float64:
            return value
        if value.array is not None:
            return known(value.array.astype(np.float32), value.inputs)
        assert value.tensor is not None
        return self.result(value.tensor.astype("float32"), value.sizes)

    # ---- attributes

    def integer(self, name: str, usual: int = 0) -> int:
        """An attribute that is an integer."""
        return int(self.attributes.get(name, usual))

    def number(self, name: str, usual: float = 0.0) -> float:
        """An attribute that is a number."""
        return float(self.attributes.get(name, usual))

    def text(self, name: str, usual: str = "") -> str:
        """An attribute that is a text, one of those that ONNX has for it. Raises NotExpressibleError."""
        text = str(self.attributes.get(name, usual))
        check_text(self.operator, name, text)
        return text

    def data_type(self, name: str, usual: np.dtype[Any] | None = None) -> np.dtype[Any]:
        """An attribute that is one of ONNX's types; ``usual`` where it says nothing. Raises NotExpressibleError."""
        number = self.integer(name)
        found = usual if number == 0 else known_type(number)
        if found is None:
            raise NotExpressibleError(f"{name}: {number} is no type of ONNX's tensors")
        return found

    def integers(self, name: str) -> list[int] | None:
        """An attribute that is a list of integers, None if it is not given."""
        found = self.attributes.get(name)
        return None if found is None else [int(value) for value in found]

    def given(self, name: str, position: int) -> list[int] | None:
        """Integers that are an attribute in old versions of an operator and an input in new ones."""
        return self.integers_of(position) if self.has(position) else self.integers(name)

    def axis(self, rank: int, usual: int = 0, name: str = "axis") -> int:
        """An attribute that is an axis, none negative."""
        return normal_axis(self.integer(name, usual), rank)

    # ---- results

    def result(self, tensor: GraphTensor, sizes: Sequence[int] | None = None, data_type: Any = None) -> Value:
        """What the node gives; of other sizes than the tensor has (none at all, for example), and of bool."""
        sizes = tensor.sizes if sizes is None else tuple(sizes)
        if tuple(sizes or (1,)) != tensor.sizes:
            tensor = tensor.reshape(sizes or (1,))
        found = tensor.dtype if data_type is None else np.dtype(data_type)
        return Value(found, tuple(sizes), None, tensor, self.depends_on)

    def values(self, results: Results) -> list[Value | None]:
        """What a function has given, as values."""
        several = results if isinstance(results, (list, tuple)) else [results]
        return [None if result is None else self._value(result) for result in several]

    def _value(self, result: Any) -> Value:
        if isinstance(result, Value):
            return result
        return self.result(result) if isinstance(result, GraphTensor) else known(np.asarray(result), self.depends_on)


def normal_axis(axis: int, rank: int) -> int:
    """An axis counted from the front. Raises NotExpressibleError for one that there is not."""
    if not -rank <= axis < max(rank, 1):
        raise NotExpressibleError(f"axis {axis} is none of {rank} dimensions")
    return axis + rank if axis < 0 else axis
