"""ONNX models for tests, made node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import opendml as dml

TYPES = onnx.TensorProto
REFERENCE = dml.Device("reference")


def info(name: str, sizes: Sequence[int | str | None] | None, element: int = TYPES.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, sizes)


def proto(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    opset: int = 18,
    **weights: np.ndarray[Any, Any],
) -> Any:
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def model_of(*arguments: Any, **named: Any) -> dml.OnnxModel:
    loaded = dml.load(proto(*arguments, **named).SerializeToString())
    assert isinstance(loaded, dml.OnnxModel)
    return loaded


node = helper.make_node


def network() -> Any:
    """A convolution with a rectifier behind it, the means of the channels, and sizes computed from sizes."""
    random = np.random.default_rng(1)
    return proto(
        [
            node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], name="first"),
            node("Relu", ["c"], ["r"]),
            node("GlobalAveragePool", ["r"], ["p"]),
            node("Shape", ["x"], ["batch"], end=1),
            node("Constant", [], ["rest"], value_ints=[-1]),
            node("Concat", ["batch", "rest"], ["sizes"], axis=0),
            node("Reshape", ["p", "sizes"], ["y"], name="last"),
        ],
        [info("x", ["batch", 3, "height", "?"])],
        [info("y", ["batch", 4])],
        w=random.standard_normal((4, 3, 3, 3)).astype("f"),
        b=np.arange(4, dtype="f"),
    )


def expected_of(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in network().graph.initializer}
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    sums = np.einsum("nchwij,ocij->nohw", windows, weights["w"]) + weights["b"][:, None, None]
    return np.asarray(np.maximum(sums, 0).mean((2, 3)))
