"""Operators of ``ai.onnx.ml``, ONNX's domain of classical machine learning, that need no dictionaries."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

import opendml as dml
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Table

__all__ = ["CLASSIC"]


def _features(node: Node) -> Results:
    """Columns by their numbers; of one dimension one row."""
    sizes = node.sizes()
    count = math.prod(node.sizes(1))
    data = node.tensor().reshape(-1, sizes[-1])
    found = dml.gather(data, node.tensor(1).reshape(1, -1), axis=1, index_dimensions=1)
    return node.result(found, (*(sizes[:-1] or (1,)), count), node.type_of())


def _binarizer(node: Node) -> Results:
    tensor = node.tensor()
    threshold = np.full((1,) * tensor.rank, node.number("threshold"), tensor.dtype)
    return node.result(dml.cast(dml.greater_than(tensor, threshold), tensor.data_type), node.sizes())


CLASSIC: Final[Table] = {"ArrayFeatureExtractor": _features, "Binarizer": _binarizer}
