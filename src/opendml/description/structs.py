"""The small structs that fields of descriptors hold: ``DML_SCALAR_UNION``, ``DML_SCALE_BIAS``, ``DML_SIZE_2D``."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from opendml.description.enums import TensorDataType
from opendml.description.json_values import to_float, to_float32
from opendml.description.quoting import quoted


@dataclass(frozen=True, slots=True)
class ScalarUnion:
    """``DML_SCALAR_UNION``: 8 bytes that hold one value of a type given beside them, in its lowest bytes."""

    data: bytes = bytes(8)

    @classmethod
    def of(cls, value: float, data_type: TensorDataType) -> ScalarUnion:
        """The union that holds a number as a data type. ``ValueError`` if it does not fit.

        Floats are rounded to the nearest value. Integers may be given signed or unsigned: -2 and 254 are the same
        UINT8. FLOAT16 has no member of its own in DirectML; its 16 bits are in the lowest two bytes.
        """
        if data_type.is_float:
            return cls(_FLOAT_BYTES[data_type](math.nan if value != value else value).ljust(8, b"\0"))
        number = int(value) if isinstance(value, int) or value.is_integer() else None
        if number is None or not data_type.bits or not -(1 << data_type.bits - 1) <= number < 1 << data_type.bits:
            raise ValueError(f"{quoted(value)} is not a value of {data_type.name}")
        return cls((number % (1 << data_type.bits)).to_bytes(8, "little"))

    def as_type(self, data_type: TensorDataType) -> int | float:
        """The value read as a data type; ``ValueError`` for UNKNOWN."""
        if data_type.is_float:
            return float(struct.unpack_from(_FLOAT_FORMATS[data_type], self.data)[0])
        if not data_type.bits:
            raise ValueError("UNKNOWN is no data type to read a value as")
        low, _ = data_type.integer_range
        bits = int.from_bytes(self.data, "little") % (1 << data_type.bits)
        return (bits - low) % (1 << data_type.bits) + low


_FLOAT_FORMATS = {TensorDataType.FLOAT16: "<e", TensorDataType.FLOAT32: "<f", TensorDataType.FLOAT64: "<d"}


def _float16_bytes(value: float) -> bytes:
    value = to_float(value)
    try:
        return struct.pack("<e", value)
    except OverflowError:
        return struct.pack("<e", float("inf") if value > 0 else float("-inf"))


_FLOAT_BYTES: dict[TensorDataType, Callable[[float], bytes]] = {
    TensorDataType.FLOAT16: _float16_bytes,
    TensorDataType.FLOAT32: lambda value: struct.pack("<f", to_float32(value)),
    TensorDataType.FLOAT64: lambda value: struct.pack("<d", to_float(value)),
}


class ScaleBias(NamedTuple):
    """``DML_SCALE_BIAS``: x * scale + bias, applied to the input first."""

    scale: float
    bias: float


class Size2D(NamedTuple):
    """``DML_SIZE_2D``."""

    width: int
    height: int
