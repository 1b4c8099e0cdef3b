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
UINT32_ONLY: Final = data_types("UINT32")
UINT32_OR_64: Final = data_types("UINT64 UINT32")
INDICES: Final = data_types("INT64 INT32 UINT64 UINT32")
