"""The tables of the format, and what its numbers mean."""

from __future__ import annotations

from typing import Final

from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType
from opendml.description.fields import ArrayField, EnumField, Field

SCHEMA: Final = {
    "DmlGraphDesc": ("nodes", "graphInputNames", "graphOutputNames"),
    "DmlGraphNode": ("desc_type", "desc", "name", "inputNames", "outputNames"),
    "OperatorNodeDesc": ("type", "inputs", "outputs", "attributes"),
    "ConstantNodeDesc": ("data_type", "data"),
    "ConstantName": ("name",),
    "ConstantRawData": ("data",),
    "DmlBufferTensorDesc": ("dataType", "sizes", "strides", "totalTensorSizeInBytes"),
    "AttributeDesc": ("name", "val_type", "val"),
    "Activation": ("type", "attributes"),
    "ActivationArray": ("data",),
    "UIntArray": ("data",),
    "IntArray": ("data",),
    "FloatArray": ("data",),
    "ScalarUnionData": ("data_type", "data"),
}
CONSTANTS_LIMIT: Final = 16 << 30
"""The most bytes that the constants in files of their own may have together: what one tensor of DirectML may have."""

OPERATOR_NODE, CONSTANT_NODE = 1, 2
CONSTANT_NAME, CONSTANT_RAW_DATA = 1, 2

ATTRIBUTE_TYPES: Final = (
    *("NONE", "Activation", "ActivationArray", "UInt32", "UInt64", "Int32", "Float32"),
    *("UIntArray", "IntArray", "FloatArray", "ScaleBias", "Size2D", "ScalarUnionData", "Bool"),
)
"""What the value of an attribute may be, in the order of the union's numbers."""

STRUCTS: Final = {"UInt32": "I", "UInt64": "Q", "Int32": "i", "Float32": "f", "ScaleBias": "2f", "Size2D": "2I"}
ARRAYS: Final = {"UIntArray": "I", "IntArray": "i", "FloatArray": "f"}
BYTE_ARRAY: Final = 1
SCALAR_FORMS: Final = ("", "8s", "1s", "1s", "2s", "2s", "4s", "4s", "8s", "8s", "4s", "8s")
"""The bytes of a scalar union by its type: NONE, ByteArray, Int8, UInt8, ... UInt64, Float32, Float64."""

FIELD_TYPES: Final = {
    "UINT": "UInt32",
    "BOOL": "UInt32",
    "INT": "Int32",
    "FLOAT": "Float32",
    "DML_SCALE_BIAS": "ScaleBias",
    "DML_SIZE_2D": "Size2D",
    "DML_SCALAR_UNION": "ScalarUnionData",
    "DML_OPERATOR_DESC": "Activation",
}
ARRAY_FIELD_TYPES: Final = {
    "UINT": "UIntArray",
    "INT": "IntArray",
    "FLOAT": "FloatArray",
    "DML_OPERATOR_DESC": "ActivationArray",
}


def attribute_fields(operator: type[Operator]) -> dict[str, Field]:
    """The fields of an operator that the format has as attributes: all but tensors."""
    return {name: field for name, field in operator.fields.items() if not hasattr(field, "direction")}


def attribute_type(field: Field) -> str:
    """What DirectML's schema stores a field as: enumerations and Booleans are UINT."""
    if isinstance(field, EnumField):
        return "UInt32"
    if isinstance(field, ArrayField):
        return ARRAY_FIELD_TYPES[field.element.kind]
    return FIELD_TYPES[field.kind]


def type_name(operator: Operator) -> str:
    """The operator's name in DirectML's schema, which knows one of them by the name of its descriptor."""
    return {OperatorType.SCATTER_ELEMENTS: "DML_OPERATOR_SCATTER"}.get(operator.type, operator.type.dml_name)
