"""Nodes whose inputs are known: computed while the model is translated, by onnx's reference evaluator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.values import Value, known

__all__ = ["fold"]

LARGEST: Final = 1 << 16
"""Elements of all inputs together up to which a node is computed: shapes and indices, not weights."""

_SINCE: Final = {
    **dict.fromkeys(("Abs", "Add", "Ceil", "Div", "Exp", "Floor", "Log", "Mod", "Mul", "Neg", "Pow", "Reciprocal"), 7),
    **dict.fromkeys(("Relu", "Round", "Sign", "Sqrt", "Sub"), 7),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), 8),
    **dict.fromkeys(("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor"), 7),
    **dict.fromkeys(("BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "IsInf", "IsNaN"), 9),
    **dict.fromkeys(("Cast", "CastLike", "Where"), 9),
    **dict.fromkeys(("Concat", "Gather", "GatherElements", "GatherND", "NonZero", "OneHot", "Compress"), 9),
    **dict.fromkeys(("Clip", "CumSum", "Pad", "Range", "ScatterElements", "ScatterND", "TopK", "Unique"), 11),
    **dict.fromkeys(("BlackmanWindow", "EyeLike", "HammingWindow", "HannWindow", "MelWeightMatrix", "Trilu"), 9),
    **dict.fromkeys(("ArgMax", "ArgMin"), 13),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"), 18),
    **dict.fromkeys(("OptionalHasElement",), 15),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"), 11),
}
"""Operators of shape arithmetic, and the version from which on the evaluator computes them as that version means them:
where it has no class for an old version, it takes that of a newer one."""


def fold(node: Any, inputs: list[Value | None], version: int) -> list[Value | None] | None:
    """The outputs of a node of shape arithmetic; None for others, and where an input is not known or too large.

    What only moves elements is computed by its own function (``operators.shapes``), and what else depends on constants
    alone by the program, once, when it is initialised.
    """
    if node.domain not in ("", "ai.onnx") or version < _SINCE.get(node.op_type, version + 1):
        return None
    given = {name: value for name, value in zip(node.input, inputs, strict=True) if value is not None}
    if any(value.array is None for value in given.values()):
        return None
    if sum(value.array.size for value in given.values() if value.array is not None) > LARGEST:
        return None
    feeds = {name: np.asarray(value.array) for name, value in given.items()}
    try:
        with np.errstate(all="ignore"):
            results = _evaluator(node, given, version).run(None, feeds)
    except Exception:  # whatever it raises of what it does not know: the node's own function may know
        return None
    return _values(results, frozenset[str]().union(*(value.inputs for value in given.values())))


def _evaluator(node: Any, given: Iterable[str], version: int) -> Any:
    """The evaluator of a model of one node: of a node alone it takes the newest version of the operator."""
    onnx = onnx_package()
    graph = onnx.GraphProto(name=node.op_type)
    graph.node.append(node)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in given)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph)
    model.opset_import.append(onnx.OperatorSetIdProto(domain=node.domain, version=version))
    return onnx.reference.ReferenceEvaluator(model)


def _values(results: list[Any], inputs: frozenset[str]) -> list[Value | None] | None:
    arrays: list[npt.NDArray[Any] | None] = []
    for result in results:
        if result is not None and not isinstance(result, (np.ndarray, np.generic)):
            return None
        arrays.append(None if result is None else np.asarray(result))
    return [None if array is None else known(array, inputs) for array in arrays]
