"""Attributes of nodes as Python's values, and those of a function's body taken from the node that calls it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.tensors import array_of

__all__ = ["attributes_of", "with_attributes"]


def attributes_of(node: Any, folder: Path | None) -> dict[str, Any]:
    """Names and values: numbers, texts, lists of them, arrays; graphs as they are."""
    return {attribute.name: _value(attribute, folder, f"{node.name}.{attribute.name}") for attribute in node.attribute}


def _value(attribute: Any, folder: Path | None, place: str) -> Any:
    kinds = onnx_package().AttributeProto
    if attribute.type == kinds.TENSOR:
        return array_of(attribute.t, folder, place)
    if attribute.type == kinds.STRING:
        return attribute.s.decode("utf-8", "replace")
    if attribute.type == kinds.STRINGS:
        return [text.decode("utf-8", "replace") for text in attribute.strings]
    if attribute.type == kinds.GRAPH:
        return attribute.g
    try:
        return onnx_package().helper.get_attribute_value(attribute)
    except ValueError:
        return None


def with_attributes(body: Any, given: Mapping[str, Any]) -> Any:
    """A node of a function's body with the attributes that refer to those of the calling node."""
    if not any(attribute.ref_attr_name for attribute in body.attribute):
        return body
    node = onnx_package().NodeProto()
    node.CopyFrom(body)
    del node.attribute[:]
    for attribute in body.attribute:
        if not attribute.ref_attr_name:
            node.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            taken = node.attribute.add()
            taken.CopyFrom(given[attribute.ref_attr_name])
            taken.name = attribute.name
    return node
