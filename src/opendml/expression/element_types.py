"""Element types: what values are, and the numbers of each type as bits."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final, Literal

Number = int | float | bool


@dataclass(frozen=True, slots=True, eq=False)
class ElementType:
    """The type of a value: ``name`` as LLVM-like short form, ``bits`` wide, ``kind`` float, int, uint or bool.

    There is one of each name: types are compared as objects.
    """

    name: str
    bits: int
    kind: Literal["float", "int", "uint", "bool"]

    @property
    def is_float(self) -> bool:
        """Whether values are IEEE 754 floating-point numbers."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether values are signed or unsigned integers (``bool`` is neither)."""
        return self.kind in ("int", "uint")

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return element_type, (self.name,)


F16: Final = ElementType("f16", 16, "float")
F32: Final = ElementType("f32", 32, "float")
F64: Final = ElementType("f64", 64, "float")
I8: Final = ElementType("i8", 8, "int")
I16: Final = ElementType("i16", 16, "int")
I32: Final = ElementType("i32", 32, "int")
I64: Final = ElementType("i64", 64, "int")
U8: Final = ElementType("u8", 8, "uint")
U16: Final = ElementType("u16", 16, "uint")
U32: Final = ElementType("u32", 32, "uint")
U64: Final = ElementType("u64", 64, "uint")
BOOL: Final = ElementType("bool", 1, "bool")

ELEMENT_TYPES: Final = {t.name: t for t in (F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, BOOL)}

_FLOAT_FORMATS: Final = {16: "<e", 32: "<f", 64: "<d"}


def element_type(name: str) -> ElementType:
    """The type of a name."""
    return ELEMENT_TYPES[name]


def bits_of(value: Number, type: ElementType) -> int:
    """The bits of ``value`` in ``type``: integers wrap to its width, floats are rounded to nearest even."""
    if type.kind == "float":
        return float_bits(float(value), type)
    return int(bool(value)) if type.kind == "bool" else int(value) & ((1 << type.bits) - 1)


def float_bits(value: float, type: ElementType) -> int:
    """The bits of ``value`` rounded to the floating-point ``type``; overflow gives an infinity."""
    try:
        packed = struct.pack(_FLOAT_FORMATS[type.bits], value)
    except OverflowError:
        packed = struct.pack(_FLOAT_FORMATS[type.bits], float("inf") if value > 0 else float("-inf"))
    return int.from_bytes(packed, "little")


def number_of(bits: int, type: ElementType) -> Number:
    """The Python number that ``bits`` are in ``type``."""
    if type.kind == "float":
        number: float = struct.unpack(_FLOAT_FORMATS[type.bits], bits.to_bytes(type.bits // 8, "little"))[0]
        return number
    if type.kind == "bool":
        return bool(bits)
    return bits - (1 << type.bits) if type.kind == "int" and bits >> (type.bits - 1) else bits
