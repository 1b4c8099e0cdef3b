"""Steps of optimisers, from the preview of ONNX's operators for training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Result, Results
from opendml.formats.onnx.operators.interface import Function, Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["TRAINING"]

Step = Callable[[Node, GraphTensor, GraphTensor, GraphTensor, list[GraphTensor]], list[GraphTensor]]
"""New parameters and what is remembered: from the rate, the step's number, the parameters, and the gradient with what
is remembered."""


def _optimizer(step: Step, remembered: int) -> Function:
    """Inputs are the rate, the step's number, then all parameters, all gradients, and all that each remembers."""

    def express(node: Node) -> Results:
        count = (len(node.inputs) - 2) // (2 + remembered)
        if count < 1 or len(node.inputs) != 2 + count * (2 + remembered):
            raise NotExpressibleError(f"its {len(node.inputs)} inputs are no parameters with their gradients")
        found: list[list[Result]] = [[] for _ in range(1 + remembered)]
        for number in range(count):
            places = range(2 + number, len(node.inputs), count)
            parameters, gradient, *state = (node.tensor(place) for place in places)
            gradient = gradient + parameters * node.number("norm_coefficient")
            rate, time = (_scalar(node, i, parameters) for i in (0, 1))
            new = step(node, rate, time, parameters, [gradient, *state])
            for results, tensor in zip(found, new, strict=True):
                results.append(node.result(tensor, node.sizes(places[0])))
        return [one for results in found for one in results]

    return express


def _scalar(node: Node, position: int, beside: GraphTensor) -> GraphTensor:
    """One number in the type and rank of what it is beside."""
    return dml.cast(node.tensor(position), beside.data_type).reshape([1] * beside.rank)


def _positive(time: GraphTensor) -> GraphTensor:
    return dml.greater_than(time, np.zeros([1] * time.rank, time.dtype))


def _momentum(
    node: Node, rate: GraphTensor, time: GraphTensor, parameters: GraphTensor, state: list[GraphTensor]
) -> list[GraphTensor]:
    gradient, momentum = state
    alpha, beta = node.number("alpha"), node.number("beta")
    share = dml.if_(_positive(time), np.full([1] * time.rank, beta, time.dtype), np.ones([1] * time.rank, time.dtype))
    new = momentum * alpha + gradient * share
    way = gradient + new * alpha if node.text("mode") == "nesterov" else new
    return [parameters - rate * way, new]


def _adagrad(
    node: Node, rate: GraphTensor, time: GraphTensor, parameters: GraphTensor, state: list[GraphTensor]
) -> list[GraphTensor]:
    gradient, squares = state
    new = squares + gradient * gradient
    slower = rate / (time * node.number("decay_factor") + 1.0)
    return [parameters - slower * gradient / (dml.sqrt(new) + node.number("epsilon", 1e-6)), new]


def _adam(
    node: Node, rate: GraphTensor, time: GraphTensor, parameters: GraphTensor, state: list[GraphTensor]
) -> list[GraphTensor]:
    """With weights that decay before and after, which ADAM_OPTIMIZER lacks."""
    gradient, first, second = state
    alpha, beta = node.number("alpha", 0.9), node.number("beta", 0.999)
    first = first * alpha + gradient * (1.0 - alpha)
    second = second * beta + gradient * gradient * (1.0 - beta)
    bases = [np.full([1] * time.rank, base, time.dtype) for base in (alpha, beta)]
    of_first, of_second = (1.0 - dml.pow(node.graph.constant(base), time) for base in bases)
    corrected = dml.if_(_positive(time), rate * dml.sqrt(of_second) / of_first, rate)
    new = parameters - corrected * first / (dml.sqrt(second) + node.number("epsilon", 1e-6))
    return [new * (1.0 - node.number("norm_coefficient_post")), first, second]


TRAINING: Final[Table] = {
    "Adagrad": _optimizer(_adagrad, 1),
    "Adam": _optimizer(_adam, 2),
    "Momentum": _optimizer(_momentum, 1),
}
