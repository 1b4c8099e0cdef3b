"""Sets of data types that recur in support tables, in the documentation's order."""

from __future__ import annotations

from typing import Final

from opendml.description.enums import TensorDataType


def data_types(names: str) -> tuple[TensorDataType, ...]:
    """The data types of a list of names: ``data_types("FLOAT32 FLOAT16")``."""
    return tuple(TensorDataType[name] for name in names.split())


FLOATS: Final = data_types("FLOAT32 FLOAT16")
FLOATS_AND_SIGNED: Final = data_types("FLOAT32 FLOAT16 INT32 INT16 INT8")
FLOATS_AND_BYTES: Final = data_types("FLOAT32 FLOAT16 INT8 UINT8")
FLOATS_AND_32_BIT: Final = data_types("FLOAT32 FLOAT16 INT32 UINT32")
FLOATS_AND_32_TO_64_BIT: Final = data_types("FLOAT32 FLOAT16 INT64 INT32 UINT64 UINT32")
FLOATS_AND_16_TO_32_BIT: Final = data_types("FLOAT32 FLOAT16 INT32 INT16 UINT32 UINT16")
FLOATS_AND_8_TO_16_BIT: Final = data_types("FLOAT32 FLOAT16 INT16 INT8 UINT16 UINT8")
UP_TO_32_BIT: Final = data_types("FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8")
ALL_BUT_FLOAT64: Final = data_types("FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8")
ALL: Final = data_types("FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8")
BYTES: Final = data_types("INT8 UINT8")
INTEGERS_UP_TO_32_BIT: Final = data_types("INT32 INT16 INT8 UINT32 UINT16 UINT8")
FLOAT32_ONLY: Final = data_types("FLOAT32")
INT32_ONLY: Final = data_types("INT32")
UINT8_ONLY: Final = data_types("UINT8")
UINT32_ONLY: Final = data_types("UINT32")
UINT32_OR_64: Final = data_types("UINT64 UINT32")
INDICES: Final = data_types("INT64 INT32 UINT64 UINT32")


def nearest_data_type(data_type: TensorDataType, choice: tuple[TensorDataType, ...]) -> TensorDataType:
    """What to convert a type to: the smallest type that has all its values, else the largest, of its kind if any."""
    return min(choice, key=lambda other: _distance(data_type, other))


def _distance(given: TensorDataType, other: TensorDataType) -> tuple[bool, bool, bool, int]:
    if given.is_float or other.is_float:
        holds = given.is_float and other.is_float and given.bits <= other.bits
    else:
        (low, high), (least, most) = given.integer_range, other.integer_range
        holds = least <= low and high <= most
    is_other_kind = given.is_float != other.is_float
    return not holds, is_other_kind, given.is_signed != other.is_signed, other.bits if holds else -other.bits
