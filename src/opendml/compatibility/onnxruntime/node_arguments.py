"""What a session says of its model: ``NodeArg`` for inputs and outputs, ``ModelMetadata``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

__all__ = ["ELEMENT_TYPES", "ModelMetadata", "NodeArg", "argument_of", "element_type_of", "metadata_of", "type_of"]

ELEMENT_TYPES: Final = {
    1: "float",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "double",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
}
"""ONNX Runtime's names of ONNX's element types (TensorProto.DataType)."""

_BY_ARRAY_TYPE: Final = {
    name: number for number, name in ELEMENT_TYPES.items() if name not in ("float", "double", "string")
} | {"float32": 1, "float64": 11}

Size = int | str | None


def element_type_of(data_type: np.dtype[Any]) -> int:
    """ONNX's number of an array's type. Raises KeyError for types that ONNX does not have."""
    return _BY_ARRAY_TYPE[data_type.name]


def type_of(data_type: np.dtype[Any]) -> str:
    """``tensor(float)`` for an array's type; for one that ONNX lacks, NumPy's name of it."""
    number = _BY_ARRAY_TYPE.get(data_type.name)
    return f"tensor({ELEMENT_TYPES[number] if number else data_type.name})"


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or an output: ``name``, ``type`` such as ``tensor(float)``, ``shape`` of numbers, names and None.

    A shape of which the model says nothing is empty, as in onnxruntime.
    """

    name: str
    type: str
    shape: list[Size]

    def __str__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What the file says of the model as a whole."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: Mapping[str, str] = field(default_factory=dict)


def metadata_of(model: Any) -> ModelMetadata:
    """The metadata of a ModelProto. ``version`` is 2 ** 63 - 1 where the file has none, as in onnxruntime."""
    return ModelMetadata(
        producer_name=model.producer_name,
        graph_name=model.graph.name,
        domain=model.domain,
        description=model.doc_string,
        graph_description=model.graph.doc_string,
        version=model.model_version if model.HasField("model_version") else (1 << 63) - 1,
        custom_metadata_map={entry.key: entry.value for entry in model.metadata_props},
    )


def argument_of(value: Any, names: Mapping[str, int], denotations: Mapping[str, int]) -> NodeArg:
    """What a ValueInfoProto says, its free dimensions overridden by name or by denotation."""
    shape: list[Size] = []
    if value.type.WhichOneof("value") == "tensor_type":
        shape = [_size(one, names, denotations) for one in value.type.tensor_type.shape.dim]
    return NodeArg(value.name, _type(value.type), shape)


def _size(dimension: Any, names: Mapping[str, int], denotations: Mapping[str, int]) -> Size:
    kind = dimension.WhichOneof("value")
    if kind == "dim_value" and dimension.dim_value >= 0:
        return int(dimension.dim_value)
    if kind == "dim_param" and dimension.dim_param in names:
        return names[dimension.dim_param]
    if dimension.denotation in denotations:
        return denotations[dimension.denotation]
    return str(dimension.dim_param) if kind == "dim_param" else None


def _type(kind: Any) -> str:
    """``tensor(float)``, ``seq(tensor(string))``, and so on."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        element = ELEMENT_TYPES.get(getattr(kind, which).elem_type, "undefined")
        return f"{'sparse_' if which.startswith('sparse') else ''}tensor({element})"
    if which in ("sequence_type", "optional_type"):
        return f"{which.partition('_')[0].replace('sequence', 'seq')}({_type(getattr(kind, which).elem_type)})"
    if which == "map_type":
        return f"map({ELEMENT_TYPES.get(kind.map_type.key_type, 'undefined')},{_type(kind.map_type.value_type)})"
    return ""
