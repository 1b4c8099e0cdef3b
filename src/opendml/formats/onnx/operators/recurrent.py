"""Recurrent networks: RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.description.descriptors import Operator
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError, Value
from opendml.functions import fused_activation

__all__ = ["RECURRENT"]

_DIRECTIONS: Final = {"forward": "FORWARD", "reverse": "BACKWARD", "bidirectional": "BIDIRECTIONAL"}

_ACTIVATIONS: Final[dict[str, tuple[Callable[..., Operator], dict[str, float]]]] = {
    "affine": (fused_activation.linear, {"alpha": 1.0, "beta": 0.0}),
    "elu": (fused_activation.elu, {"alpha": 1.0}),
    "hardsigmoid": (fused_activation.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "leakyrelu": (fused_activation.leaky_relu, {"alpha": 0.01}),
    "relu": (fused_activation.relu, {}),
    "scaledtanh": (fused_activation.scaled_tanh, {"alpha": 1.0, "beta": 1.0}),
    "sigmoid": (fused_activation.sigmoid, {}),
    "softplus": (fused_activation.softplus, {}),
    "softsign": (fused_activation.softsign, {}),
    "tanh": (fused_activation.tanh, {}),
    "thresholdedrelu": (fused_activation.thresholded_relu, {"alpha": 1.0}),
}
"""Functions by ONNX's names, with their parameters and usual values."""


def _activations(node: Node, usual: tuple[str, ...]) -> list[Operator]:
    """Those of all directions; parameters are taken from the lists by the functions that have some, in order."""
    directions = 2 if node.text("direction") == "bidirectional" else 1
    names = node.attributes.get("activations") or list(usual) * directions
    given = {name: iter(node.attributes.get(f"activation_{name}") or ()) for name in ("alpha", "beta")}
    found = []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            raise NotExpressibleError(f"the activation {name!r} is not known")
        function, parameters = _ACTIVATIONS[name.lower()]
        found.append(function(**{one: float(next(given[one], value)) for one, value in parameters.items()}))
    return found


class _Operands:
    """The inputs of a recurrent node as the operator wants them: four dimensions, steps before batches."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.batches_first = bool(node.integer("layout"))

    def sequence(self) -> GraphTensor:
        tensor = self.node.tensor(0)
        return (tensor.transpose(1, 0, 2) if self.batches_first else tensor).expand_dims(0)

    def weights(self, position: int) -> GraphTensor:
        return self.node.tensor(position).expand_dims(0)

    def flat(self, position: int) -> GraphTensor | None:
        tensor = self.node.optional(position)
        return None if tensor is None else tensor.expand_dims((0, 1))

    def state(self, position: int) -> GraphTensor | None:
        tensor = self.node.optional(position)
        if tensor is None:
            return None
        return (tensor.transpose(1, 0, 2) if self.batches_first else tensor).expand_dims(0)

    def lengths(self) -> GraphTensor | None:
        tensor = self.node.optional(4)
        return None if tensor is None else dml.cast(tensor, "uint32").reshape(1, 1, 1, -1)

    def outputs(self, states: Any, *singles: Any) -> list[Value | None]:
        """Those that are wanted, with ONNX's dimensions."""
        whole = states.transpose(2, 0, 1, 3) if states is not None and self.batches_first else states
        last = [None if one is None else one.squeeze(0) for one in singles]
        last = [one if one is None or not self.batches_first else one.transpose(1, 0, 2) for one in last]
        return [None if one is None else self.node.result(one) for one in (whole, *last)]


def _common(node: Node) -> dict[str, Any]:
    hidden = node.sizes(2)[-1]
    if node.integer("hidden_size", hidden) != hidden:
        said = node.integer("hidden_size")
        raise NotExpressibleError(f"hidden_size: expected {hidden}, which the weights have, got {said}")
    return {
        "direction": _DIRECTIONS[node.text("direction", "forward")],
        "output_sequence": node.wants(0),
        "output_single": node.wants(1),
    }


def _no_clip(node: Node) -> None:
    if "clip" in node.attributes:
        raise NotExpressibleError("clipping of what is activated has no operator")


def _rnn(node: Node) -> Results:
    _no_clip(node)
    given = _Operands(node)
    found = dml.rnn(
        given.sequence(),
        given.weights(1),
        given.weights(2),
        given.flat(3),
        given.state(5),
        given.lengths(),
        activation_descs=_activations(node, ("Tanh",)),
        **_common(node),
    )
    return given.outputs(found.sequence, found.single)


def _gru(node: Node) -> Results:
    _no_clip(node)
    given = _Operands(node)
    found = dml.gru(
        given.sequence(),
        given.weights(1),
        given.weights(2),
        given.flat(3),
        given.state(5),
        given.lengths(),
        activation_descs=_activations(node, ("Sigmoid", "Tanh")),
        linear_before_reset=bool(node.integer("linear_before_reset")),
        **_common(node),
    )
    return given.outputs(found.sequence, found.single)


def _lstm(node: Node) -> Results:
    given = _Operands(node)
    found = dml.lstm(
        given.sequence(),
        given.weights(1),
        given.weights(2),
        given.flat(3),
        given.state(5),
        given.state(6),
        given.lengths(),
        given.flat(7),
        activation_descs=_activations(node, ("Sigmoid", "Tanh", "Tanh")),
        clip_threshold=node.number("clip") if "clip" in node.attributes else None,
        couple_input_forget=bool(node.integer("input_forget")),
        output_cell_single=node.wants(2),
        **_common(node),
    )
    return given.outputs(found.sequence, found.single, found.cell_single)


RECURRENT: Final[Table] = {"GRU": _gru, "LSTM": _lstm, "RNN": _rnn}
