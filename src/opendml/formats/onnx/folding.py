"""Nodes whose inputs are known: computed while the model is translated, by onnx's reference evaluator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.types import known_type
from opendml.formats.onnx.values import Value, known

__all__ = ["fold"]

LARGEST: Final = 1 << 16
"""Elements of all inputs together up to which a node is computed: shapes and indices, not weights."""

LARGEST_RESULT: Final = 1 << 22
"""Elements of a result up to which it is computed: a few numbers can ask for more than any memory."""

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
    if _result_size(node, list(feeds.values())) > LARGEST_RESULT:
        return None
    try:
        with np.errstate(all="ignore"):
            results = _by_numpy(node, list(feeds.values())) if len(feeds) == len(node.input) else None
            results = results or _evaluator(node, given, version).run(None, feeds)
    except Exception:  # whatever it raises of what it does not know: the node's own function may know
        return None
    return _values(results, frozenset[str]().union(*(value.inputs for value in given.values())))


_BY_NUMPY: Final[dict[str, Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Neg": np.negative,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Not": np.logical_not,
    "Xor": np.logical_xor,
    "Equal": np.equal,
    "Less": np.less,
    "Greater": np.greater,
    "Where": np.where,
    "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
    "Sqrt": np.sqrt,
}
"""What NumPy's functions are, too: most of shape arithmetic, and a hundred times faster than an evaluator."""

_OF_COUNTS: Final[dict[str, Any]] = {"Div": np.floor_divide, "Mod": np.mod}
"""The same of integers that are not negative, as sizes are, divided by such that are not 0 either."""


def _are_counts(dividend: npt.NDArray[Any], divisor: npt.NDArray[Any]) -> bool:
    are_integers = dividend.dtype == divisor.dtype and dividend.dtype.kind in "iu"
    return are_integers and bool((dividend >= 0).all() and (divisor > 0).all())


def _is_safe_cast(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether a cast means the same everywhere: not of numbers that an integer cannot hold."""
    return source.kind in "biuf" and target.kind in "biuf" and (target.kind == "f" or source.kind != "f")


def _by_numpy(node: Any, arrays: list[npt.NDArray[Any]]) -> list[Any] | None:
    """The result of a node whose inputs are all given; None for what is left to the evaluator."""
    attributes = {one.name: one for one in node.attribute}
    if node.op_type in _BY_NUMPY and not attributes and len({array.dtype for array in arrays[-2:]}) == 1:
        return [_BY_NUMPY[node.op_type](*arrays)]
    if node.op_type in _OF_COUNTS and not attributes and _are_counts(*arrays):
        return [_OF_COUNTS[node.op_type](*arrays)]
    if node.op_type == "Div" and not attributes and {array.dtype.char for array in arrays} in ({"f"}, {"d"}):
        return [np.divide(*arrays)]
    if node.op_type == "Cast" and [*attributes] == ["to"]:
        target = known_type(attributes["to"].i)
        return None if target is None or not _is_safe_cast(arrays[0].dtype, target) else [arrays[0].astype(target)]
    if node.op_type == "Concat" and [*attributes] == ["axis"]:
        return [np.concatenate(arrays, attributes["axis"].i)]
    if node.op_type == "Gather" and not attributes.keys() - {"axis"}:
        data, indices = arrays
        return [data.take(indices, attributes["axis"].i if attributes else 0)]
    return None


def _result_size(node: Any, arrays: list[npt.NDArray[Any]]) -> float:
    """Elements of the result, at most."""
    try:
        if node.op_type == "Range":
            start, limit, step = (float(array.reshape(())) for array in arrays)
            return (limit - start) / step + 1
        if node.op_type in _COUNTED:
            return math.prod(max(float(size), 0.0) for size in arrays[_COUNTED[node.op_type]].reshape(-1))
        if node.op_type == "OneHot":
            return arrays[0].size * max(float(arrays[1].reshape(-1)[0]), 0.0)
        if node.op_type == "Pad":
            return math.prod(float(size) + float(np.abs(arrays[1]).astype(float).sum()) for size in arrays[0].shape)
        sizes = itertools.zip_longest(*(array.shape[::-1] for array in arrays), fillvalue=1)
        return math.prod(float(max(along)) for along in sizes)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return math.inf


_COUNTED: Final = {**dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), 0)}
"""Operators whose result is as large as the values of an input say."""


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
