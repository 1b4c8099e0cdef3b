"""DynamicQuantizeLSTM: an LSTM whose products are those of integers, in steps of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.operators.microsoft.quantized import product_of_integers
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["DYNAMIC"]

LONGEST: Final = 1024
"""Steps that are unrolled, at most."""

_ACTIVATIONS: Final[dict[str, Callable[..., GraphTensor]]] = {
    "relu": dml.activation_relu,
    "sigmoid": dml.activation_sigmoid,
    "tanh": dml.activation_tanh,
}
_USUAL: Final = ("Sigmoid", "Tanh", "Tanh")


class _Weights(NamedTuple):
    """Quantised weights of one direction {inputs, gates}, with one scale and zero point, or one a gate."""

    matrix: GraphTensor
    scale: GraphTensor
    zero_point: GraphTensor

    def product(self, node: Node, rows: GraphTensor) -> GraphTensor:
        """The rows, quantised by their own range, times the weights."""
        quantized, scale, zero_point = dml.dynamic_quantize_linear(rows)
        given = quantized, scale.flatten(), zero_point.flatten()
        return product_of_integers(node, given, (self.matrix, self.scale, self.zero_point), None)


class _Direction:
    """One direction: what its steps need. ``steps``: those of the sequence {batches, gates}, by their number."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number
        self.count, self.batches, width = node.sizes(0)
        self.hidden = node.sizes(2)[1]
        self.recurrence = self._weights(2, 10)
        self.lengths = None if not node.has(4) else dml.cast(node.tensor(4), "uint32").reshape(-1, 1)
        self.is_reverse = node.text("direction") == "reverse" or number == 1
        self.bias = self._bias()
        parts = None if not node.has(7) else self._of(7).flatten()
        size = self.hidden
        self.peepholes = [None if parts is None else parts[i * size : (i + 1) * size] for i in range(3)]
        whole = self._turned(node.tensor(0)).reshape(self.count * self.batches, width)
        self.gates = self._weights(1, 8).product(node, whole)
        names = list(node.attributes.get("activations") or _USUAL * 2)[3 * number : 3 * number + 3]
        unknown = [name for name in names if name.lower() not in _ACTIVATIONS]
        if unknown:
            raise NotExpressibleError(f"the activation {unknown[0]!r} is not among {', '.join(_ACTIVATIONS)}")
        self.activations = [_ACTIVATIONS[name.lower()] for name in names]

    def _of(self, position: int) -> GraphTensor:
        """The part of an input for this direction."""
        tensor = self.node.tensor(position)
        return tensor[self.number : self.number + 1].squeeze(0) if tensor.rank > 1 else tensor[self.number :][:1]

    def _weights(self, position: int, scale: int) -> _Weights:
        return _Weights(self._of(position), self._of(scale).flatten(), self._of(scale + 1).flatten())

    def _bias(self) -> GraphTensor | None:
        """Those of the input and of the recurrence, which are added to each other first."""
        if not self.node.has(3):
            return None
        both = self._of(3).flatten()
        return (both[: 4 * self.hidden] + both[4 * self.hidden :]).reshape(1, -1)

    def _turned(self, steps: GraphTensor) -> GraphTensor:
        """The steps {steps, batches, ...} in the order in which they are taken, or back; those behind the end stay."""
        if not self.is_reverse:
            return steps
        if self.lengths is None:
            return dml.join([steps[i : i + 1] for i in reversed(range(self.count))], axis=0)
        lengths = self.lengths.reshape(1, self.batches, *[1] * (steps.rank - 2))
        found: GraphTensor = dml.reverse_subsequences(
            steps, lengths.broadcast_to((1, *steps.sizes[1:])).packed(), axis=0
        )
        return found

    def outputs(self) -> tuple[GraphTensor, GraphTensor, GraphTensor]:
        """All hidden states {steps, 1, batches, hidden}, the last one and the last cell {1, batches, hidden}."""
        hidden, cell = (self._of(position) if self.node.has(position) else None for position in (5, 6))
        states: list[GraphTensor] = []
        last: tuple[GraphTensor | None, GraphTensor | None] = hidden, cell
        for number in range(self.count):
            hidden, cell = self._step(number, hidden, cell)
            last = self._still(number, hidden, last[0]), self._still(number, cell, last[1])
            hidden = self._still(number, hidden, None)
            states.append(hidden)
        hidden, cell = last
        assert hidden is not None
        assert cell is not None
        sizes = (1, self.batches, self.hidden)
        whole = dml.join([state.reshape(sizes) for state in states], axis=0) if self.count > 1 else states[0]
        sequence = self._turned(whole.reshape(self.count, self.batches, self.hidden))
        return sequence.expand_dims(1), hidden.reshape(sizes), cell.reshape(sizes)

    def _still(self, number: int, after: Any, before: GraphTensor | None) -> Any:
        """What holds behind a step, which sequences that have ended do not take."""
        if self.lengths is None:
            return after
        goes_on = dml.less_than(np.full((1, 1), number, np.uint32), self.lengths)
        return dml.if_(goes_on, after, np.zeros((1, 1), np.float32) if before is None else before)

    def _step(self, number: int, hidden: GraphTensor | None, cell: GraphTensor | None) -> tuple[Any, Any]:
        """The hidden state and the cell behind a step; None before the first one where both are 0."""
        f, g, h = self.activations
        whole = self.gates[number * self.batches : (number + 1) * self.batches]
        if hidden is not None:
            whole = whole + self.recurrence.product(self.node, hidden)
        if self.bias is not None:
            whole = whole + self.bias
        size = self.hidden
        gates = [whole[:, i * size : (i + 1) * size] for i in range(4)]
        entered = f(self._limited(self._seeing(gates[0], 0, cell)))
        if self.node.integer("input_forget"):
            forgotten = 1.0 - entered
        else:
            forgotten = f(self._limited(self._seeing(gates[2], 2, cell)))
        new_cell: Any = entered * g(self._limited(gates[3]))
        if cell is not None:
            new_cell = forgotten * cell + new_cell
        given = f(self._limited(self._seeing(gates[1], 1, new_cell)))
        return given * h(new_cell), new_cell

    def _seeing(self, gate: GraphTensor, number: int, cell: GraphTensor | None) -> GraphTensor:
        peephole = self.peepholes[number]
        return gate if peephole is None or cell is None else gate + peephole.reshape(1, -1) * cell

    def _limited(self, gate: GraphTensor) -> GraphTensor:
        if "clip" not in self.node.attributes:
            return gate
        limit = self.node.number("clip")
        found: GraphTensor = dml.clip(gate, -limit, limit)
        return found


def _dynamic_lstm(node: Node) -> Results:
    """ONNX Runtime's: the whole sequence is quantised at once, the hidden state in every step, for all batches."""
    if node.sizes(0)[0] > LONGEST:
        raise NotExpressibleError(f"it has more than {LONGEST} steps")
    count = 2 if node.text("direction") == "bidirectional" else 1
    results = [_Direction(node, number).outputs() for number in range(count)]
    joined = (
        dml.join(parts, axis=axis) if count > 1 else parts[0]
        for parts, axis in zip(zip(*results, strict=True), (1, 0, 0), strict=True)
    )
    return [node.result(one) if node.wants(position) else None for position, one in enumerate(joined)]


DYNAMIC: Final[Table] = {"DynamicQuantizeLSTM": _dynamic_lstm}
