"""Operators of com.microsoft.dml: what ONNX Runtime's DirectML provider makes of an operator and an activation behind
it, as models have it that were stored after its optimisation."""

from __future__ import annotations

from typing import Any, Final

import opendml as dml
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.element_wise import ELEMENT_WISE
from opendml.formats.onnx.operators.interface import Function, Table
from opendml.formats.onnx.operators.matrices import MATRICES
from opendml.formats.onnx.operators.microsoft.fused import activation_of
from opendml.formats.onnx.operators.normalizations import NORMALIZATIONS
from opendml.formats.onnx.operators.windows import WINDOWS

__all__ = ["DIRECTML"]

_PREFIX: Final = "fused_"
VERSION: Final = 13
"""That of the operators that were fused: what they are has not changed since version 7 but in types, and in attributes
that a node of these has or has not."""


def _mean_variance_normalization(node: Node) -> Results:
    axes = node.integers("axes") or [0, 2, 3]
    found: Any = dml.mean_variance_normalization(node.tensor(), axes=axes)
    return node.result(found, node.sizes())


def _with_activation(name: str, function: Function) -> Function:
    """An operator with an activation behind it, whose name and attributes begin with ``fused_``."""

    def express(node: Node) -> Results:
        names = [one for one in node.attributes if one.startswith(_PREFIX)]
        own = {one: value for one, value in node.attributes.items() if one not in names}
        parameters = {one.removeprefix(_PREFIX): node.attributes[one] for one in names}
        inner = Node(node.graph, name, VERSION, node.inputs, own, node.outputs[:1])
        value, *_ = inner.values(function(inner) or [])
        assert value is not None
        activation = str(parameters.get("activation", ""))
        return activation_of(node, value, activation, parameters) if activation else value

    return express


_FUSED: Final[Table] = {
    "Add": ELEMENT_WISE["Add"],
    "BatchNormalization": NORMALIZATIONS["BatchNormalization"],
    "Conv": WINDOWS["Conv"],
    "ConvTranspose": WINDOWS["ConvTranspose"],
    "Gemm": MATRICES["Gemm"],
    "InstanceNormalization": NORMALIZATIONS["InstanceNormalization"],
    "MatMul": MATRICES["MatMul"],
    "MeanVarianceNormalization": _mean_variance_normalization,
    "Sum": ELEMENT_WISE["Sum"],
}

DIRECTML: Final[Table] = {f"DmlFused{name}": _with_activation(name, function) for name, function in _FUSED.items()}
