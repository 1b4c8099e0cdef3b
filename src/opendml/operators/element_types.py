"""Data types of tensors as types of elements in the grammar, and back: what programs need to know of definitions."""

from __future__ import annotations

from typing import Final

from opendml.description.enums import TensorDataType
from opendml.expression.element_types import F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, ElementType

ELEMENT_TYPE_OF: Final[dict[TensorDataType, ElementType]] = {
    TensorDataType.FLOAT16: F16,
    TensorDataType.FLOAT32: F32,
    TensorDataType.FLOAT64: F64,
    TensorDataType.INT8: I8,
    TensorDataType.INT16: I16,
    TensorDataType.INT32: I32,
    TensorDataType.INT64: I64,
    TensorDataType.UINT8: U8,
    TensorDataType.UINT16: U16,
    TensorDataType.UINT32: U32,
    TensorDataType.UINT64: U64,
}

DATA_TYPE_OF: Final[dict[str, TensorDataType]] = {type.name: data_type for data_type, type in ELEMENT_TYPE_OF.items()}
"""The data type of tensors by the name of their elements' type."""
