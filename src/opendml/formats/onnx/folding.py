"""Nodes whose inputs are known: computed while the model is translated, by onnx's reference evaluator."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.values import Value, known

__all__ = ["fold"]

LARGEST: Final = 1 << 16
"""Elements of all inputs together up to which a node is computed: shapes and indices, not weights."""

_NEVER: Final = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"}
)


def fold(node: Any, inputs: list[Value | None], version: int) -> list[Value | None] | None:
    """The outputs of a NodeProto of ONNX's own operators; None where some input is not known or it is too large."""
    if node.op_type in _NEVER or any(attribute.HasField("g") for attribute in node.attribute):
        return None
    given = {name: value for name, value in zip(node.input, inputs, strict=True) if value is not None}
    if any(value.array is None for value in given.values()):
        return None
    if sum(value.array.size for value in given.values() if value.array is not None) > LARGEST:
        return None
    feeds = {name: np.asarray(value.array) for name, value in given.items()}
    try:
        with np.errstate(all="ignore"):
            evaluator = onnx_package().reference.ReferenceEvaluator(node, opsets={node.domain: version})
            results = evaluator.run(None, feeds)
    except Exception:  # whatever it raises of what it does not know: the node's own function may know
        return None
    return _values(results, frozenset[str]().union(*(value.inputs for value in given.values())))


def _values(results: list[Any], inputs: frozenset[str]) -> list[Value | None] | None:
    arrays: list[npt.NDArray[Any] | None] = []
    for result in results:
        if result is not None and not isinstance(result, (np.ndarray, np.generic)):
            return None
        arrays.append(None if result is None else np.asarray(result))
    return [None if array is None else known(array, inputs) for array in arrays]
