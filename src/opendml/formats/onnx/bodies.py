"""Operators that are functions of others: of the model itself, and of ONNX's own definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.values import Value

__all__ = ["Functions", "body_of", "usual_attributes"]

Functions = dict[tuple[str, str], Any]


def body_of(node: Any, inputs: Sequence[Value | None], version: int) -> Any:
    """The FunctionProto by which ONNX defines an operator; None for an operator that is none of others."""
    onnx = onnx_package()
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        return schema.function_body
    if not schema.has_context_dependent_function:
        return None
    since = max((v for v in schema.context_dependent_function_opset_versions if v <= version), default=None)
    if since is None:
        return None
    types = [onnx.TypeProto() if value is None else _type(onnx, value) for value in inputs]
    try:
        text = schema.get_context_dependent_function_with_opset_version(
            since, node.SerializeToString(), [given.SerializeToString() for given in types]
        )
    except Exception:  # whatever the package raises: the operator has no body for such inputs
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(text)
    return body if body.node else None


def usual_attributes(node: Any, version: int) -> list[Any]:
    """The attributes that an operator has where a node does not give them, for the body that refers to them."""
    schema = onnx_package().defs.get_schema(node.op_type, version, node.domain)
    return [one.default_value for one in schema.attributes.values() if one.default_value.type]


def _type(onnx: Any, value: Value) -> Any:
    element = onnx.helper.np_dtype_to_tensor_dtype(value.data_type)
    return onnx.helper.make_tensor_type_proto(element, value.sizes)
