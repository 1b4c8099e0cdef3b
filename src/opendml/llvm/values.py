"""Operands of LLVM IR: texts with types and lanes, and how LLVM writes types, constants and names of types."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from opendml.expression.element_types import BOOL, F16, F32, F64, I64, U8, U16, U32, U64, ElementType
from opendml.expression.ir import Const

LLVM_TYPES: Final = {
    "f16": "half",
    "f32": "float",
    "f64": "double",
    "i8": "i8",
    "u8": "i8",
    "i16": "i16",
    "u16": "i16",
    "i32": "i32",
    "u32": "i32",
    "i64": "i64",
    "u64": "i64",
    "bool": "i1",
}

UNSIGNED: Final = {"i8": U8, "i16": U16, "i32": U32, "i64": U64, "u8": U8, "u16": U16, "u32": U32, "u64": U64}


class Value(NamedTuple):
    """An LLVM operand: its text, the type of an element, and the number of lanes (1: a scalar)."""

    text: str
    type: ElementType
    lanes: int = 1

    @property
    def llvm_type(self) -> str:
        """The LLVM type of the operand."""
        return vector_type(self.type, self.lanes)

    @property
    def typed(self) -> str:
        """The operand with its type before it."""
        return f"{vector_type(self.type, self.lanes)} {self.text}"


def vector_type(type: ElementType, lanes: int) -> str:
    """The LLVM type of ``lanes`` elements; the element type itself for one."""
    name = LLVM_TYPES[type.name]
    return name if lanes == 1 else f"<{lanes} x {name}>"


def literal(const: Const) -> str:
    """A constant as LLVM writes it; floating point as bits, so that it is exact."""
    if const.type is F16:
        return f"0xH{const.bits:04X}"
    if const.type is F32:
        (number,) = struct.unpack("<f", const.bits.to_bytes(4, "little"))
        if number != number:
            # Widening by hand keeps the payload and the quiet bit of a NaN.
            sign, payload = const.bits >> 31, const.bits & 0x7FFFFF
            return f"0x{(sign << 63) | (0x7FF << 52) | (payload << 29):016X}"
        return f"0x{int.from_bytes(struct.pack('<d', number), 'little'):016X}"
    if const.type is F64:
        return f"0x{const.bits:016X}"
    if const.type is BOOL:
        return "true" if const.bits else "false"
    return str(const.bits - (1 << const.type.bits) if const.bits >> (const.type.bits - 1) else const.bits)


def suffix(value: Value) -> str:
    """The part of an intrinsic's name that tells its type: ``v16f32``, ``i64`` ..."""
    name = value.type.name.replace("u", "i") if value.type is not BOOL else "i1"
    return name if value.lanes == 1 else f"v{value.lanes}{name}"


def index_value(text: str | int) -> Value:
    """A 64-bit index operand."""
    return Value(str(text), I64)


__all__ = ["LLVM_TYPES", "UNSIGNED", "Value", "index_value", "literal", "suffix", "vector_type"]
