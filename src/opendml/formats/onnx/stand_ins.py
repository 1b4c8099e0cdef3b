"""What stands for the outputs of a node that has no expression, so that the nodes behind it are judged, too.

Their types and sizes are those that the package onnx infers; nobody computes them, since a model with such a node is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from opendml.building.graph_building import Graph
from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.types import has_tensors, info_of, known_type
from opendml.formats.onnx.values import STAND_IN, Value

__all__ = ["stand_ins"]

ENDLESS: Final = frozenset({"Einsum"})
"""Operators that the package is not asked about: it never comes to an end of some equations that are none, such as
``abcd,ab>cd``."""

LARGEST_DATA: Final = 4096
"""Elements of what is known up to which the package is told it: sizes and axes have few, and weights stay where they
are."""


def stand_ins(graph: Graph, node: Any, inputs: Sequence[Value | None], version: int) -> list[Value | None] | None:
    """Tensors for the outputs of a node; None where their types and sizes do not follow from its inputs."""
    onnx = onnx_package()
    if node.op_type in ENDLESS:
        return None
    try:
        schema = onnx.defs.get_schema(node.op_type, version, "" if node.domain == "ai.onnx" else node.domain)
        given = {name: value for name, value in zip(node.input, inputs, strict=False) if name and value is not None}
        types = {name: _type_of(value) for name, value in given.items()}
        known = {name: value.array for name, value in given.items() if value.array is not None}
        few = {name: array for name, array in known.items() if array.size <= LARGEST_DATA}
        data = {name: onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in few.items()}
        found = onnx.shape_inference.infer_node_outputs(schema, node, types, data)
        values = [_value(graph, onnx.ValueInfoProto(name=name, type=found.get(name))) for name in node.output]
    except Exception:  # whatever the package raises: nothing is known of what such a node gives
        return None
    return None if None in values else values


def _type_of(value: Value) -> Any:
    onnx = onnx_package()
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(value.data_type), value.sizes)


def _value(graph: Graph, output: Any) -> Value | None:
    info = info_of(output)
    data_type, sizes = known_type(info.element_type), [size for size in info.sizes or () if isinstance(size, int)]
    if info.sizes is None or data_type is None or not has_tensors(data_type):
        return None
    if len(sizes) != len(info.sizes) or 0 in sizes:
        return None
    seen = np.dtype(np.uint8) if data_type == np.bool_ else data_type
    tensor = graph.input(seen, sizes or (1,), f"{info.name} without an expression")
    return Value(data_type, tuple(sizes), None, tensor, frozenset({STAND_IN}))
