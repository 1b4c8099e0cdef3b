"""One value out of many: sums, norms and extremes, softmax, running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results, normal_axis
from opendml.formats.onnx.operators.interface import Function, Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["REDUCTIONS"]


def _reduce(function: str) -> Function:
    def express(node: Node) -> Results:
        sizes = node.sizes()
        axes = _axes(node)
        if axes is None:
            axes = [] if node.integer("noop_with_empty_axes") else list(range(len(sizes)))
            if not axes and sizes and function in ("SUM", "AVERAGE", "MIN", "MAX", "MULTIPLY"):
                return node.value(0)
        kept = _reduced(sizes, axes, bool(node.integer("keepdims", 1)))
        reduced = dml.reduce(node.tensor(), function, axes=axes if sizes else [0])
        return node.result(reduced, kept, node.type_of())

    return express


def _axes(node: Node) -> list[int] | None:
    """The axes, none negative; None where there are none."""
    given = node.given("axes", 1)
    return sorted({normal_axis(axis, len(node.sizes())) for axis in given}) if given else None


def _reduced(sizes: Sequence[int], axes: Sequence[int], keep: bool) -> list[int]:
    return [1 if i in axes else size for i, size in enumerate(sizes) if keep or i not in axes]


def _extreme(function: Callable[..., GraphTensor]) -> Function:
    def express(node: Node) -> Results:
        axis = node.axis(len(node.sizes()))
        direction = "DECREASING" if node.integer("select_last_index") else "INCREASING"
        kept = _reduced(node.sizes(), [axis], bool(node.integer("keepdims", 1)))
        found = function(node.tensor(), axes=[axis], axis_direction=direction, output_data_type="int64")
        return node.result(found, kept)

    return express


def _softmax(function: Callable[..., GraphTensor]) -> Function:
    """Below version 13 all dimensions from the axis on are one."""

    def express(node: Node) -> Results:
        sizes = node.sizes()
        tensor = node.tensor()
        if node.version >= 13:
            return node.result(function(tensor, axes=[node.axis(len(sizes), -1)]), sizes)
        axis = node.axis(len(sizes), 1)
        flat = tensor.reshape(math.prod(sizes[:axis]), math.prod(sizes[axis:]))
        return node.result(function(flat, axes=[1]), sizes)

    return express


def _cumulative(function: Callable[..., GraphTensor]) -> Function:
    def express(node: Node) -> Results:
        (axis,) = node.integers_of(1)
        direction = "DECREASING" if node.integer("reverse") else "INCREASING"
        axis = normal_axis(axis, len(node.sizes()))
        exclusive = bool(node.integer("exclusive"))
        return node.result(
            function(node.tensor(), axis=axis, axis_direction=direction, exclusive=exclusive), node.sizes()
        )

    return express


def _global_pool(function: str) -> Function:
    def express(node: Node) -> Results:
        axes = list(range(2, len(node.sizes())))
        return node.result(dml.reduce(node.tensor(), function, axes=axes))

    return express


def _global_lp_pool(node: Node) -> Results:
    norm = node.integer("p", 2)
    if norm not in (1, 2):
        raise NotExpressibleError(f"norms of p = {norm} over whole images have no operator")
    return _global_pool(f"L{norm}")(node)  # type: ignore[return-value]


def _lp_normalization(node: Node) -> Results:
    smallest = float(np.finfo(np.float32).tiny) if node.type_of() != np.float16 else 2.0**-24
    axis = node.axis(len(node.sizes()), -1)
    norm: Any = dml.lp_normalization(node.tensor(), axis=axis, epsilon=smallest, p=node.integer("p", 2))
    return node.result(norm, node.sizes())


REDUCTIONS: Final[Table] = {
    "ArgMax": _extreme(dml.argmax),
    "ArgMin": _extreme(dml.argmin),
    "CumProd": _cumulative(dml.cumulative_product),
    "CumSum": _cumulative(dml.cumulative_summation),
    "GlobalAveragePool": _global_pool("AVERAGE"),
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": _global_pool("MAX"),
    "Hardmax": _softmax(dml.activation_hardmax),
    "LogSoftmax": _softmax(dml.activation_log_softmax),
    "LpNormalization": _lp_normalization,
    "ReduceL1": _reduce("L1"),
    "ReduceL2": _reduce("L2"),
    "ReduceLogSum": _reduce("LOG_SUM"),
    "ReduceLogSumExp": _reduce("LOG_SUM_EXP"),
    "ReduceMax": _reduce("MAX"),
    "ReduceMean": _reduce("AVERAGE"),
    "ReduceMin": _reduce("MIN"),
    "ReduceProd": _reduce("MULTIPLY"),
    "ReduceSum": _reduce("SUM"),
    "ReduceSumSquare": _reduce("SUM_SQUARE"),
    "Softmax": _softmax(dml.activation_softmax),
}
