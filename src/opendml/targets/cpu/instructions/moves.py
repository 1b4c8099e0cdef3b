"""Loads and stores that leave lanes out, from a vector of addresses, or past the caches; and prefetches.

They are written as operations of LLVM, which has them for vectors of any length and makes these instructions of them
on machines that have them. Lanes that are left out are not touched: their addresses need not be valid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.expression.element_types import F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, ElementType
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value, suffix
from opendml.loops.instructions import Instruction

Array = npt.NDArray[Any]

SHORTEST_MASKED: Final = 16
"""Bytes of the shortest vector of which lanes are left out."""

# What is done --------------------------------------------------------------------------------------------------------


def _loaded(memory: Array, places: Array, mask: Array) -> Array:
    """Lane by lane the element at a place; 0 where a lane is left out."""
    places, mask = np.broadcast_arrays(places, mask)
    values = np.zeros(places.shape, memory.dtype)
    values[mask] = memory[places[mask]]
    return values


def _stored(memory: Array, places: Array, mask: Array, values: Array) -> None:
    """Lane by lane a value to a place, in order."""
    places, mask, values = np.broadcast_arrays(places, mask, values)
    for place, value in zip(places[mask].tolist(), values[mask], strict=True):
        memory[place] = value


def _prefetched(memory: Array, places: Array) -> None:
    """What is near is nothing that a value depends on; there need be no such place."""


# How it is written ---------------------------------------------------------------------------------------------------


def write_load(builder: Builder, type: ElementType, pointer: str, mask: Value, alignment: int) -> Value:
    """Neighbouring elements from ``pointer`` on where ``mask`` holds, 0 elsewhere."""
    result = Value("", type, mask.lanes)
    kind, name = result.llvm_type, f"llvm.masked.load.{suffix(result)}.p0"
    builder.declarations.add(f"declare {kind} @{name}(ptr, {mask.llvm_type}, {kind})")
    arguments = f"ptr align {alignment} {pointer}, {mask.typed}, {kind} zeroinitializer"
    return Value(builder.assign(f"call {kind} @{name}({arguments})"), type, mask.lanes)


def write_gather(builder: Builder, type: ElementType, pointers: str, mask: Value, alignment: int) -> Value:
    """One load a lane from a vector of addresses where ``mask`` holds; the others are undefined. On machines without
    such an instruction LLVM makes branches of it."""
    result = Value("", type, mask.lanes)
    kind, name = result.llvm_type, f"llvm.masked.gather.{suffix(result)}.v{mask.lanes}p0"
    builder.declarations.add(f"declare {kind} @{name}(<{mask.lanes} x ptr>, {mask.llvm_type}, {kind})")
    arguments = f"<{mask.lanes} x ptr> align {alignment} {pointers}, {mask.typed}, {kind} poison"
    return Value(builder.assign(f"call {kind} @{name}({arguments})"), type, mask.lanes)


def write_store(builder: Builder, value: Value, pointer: str, mask: Value) -> None:
    """The lanes of a value where ``mask`` holds to neighbouring places."""
    name = f"llvm.masked.store.{suffix(value)}.p0"
    builder.declarations.add(f"declare void @{name}({value.llvm_type}, ptr, {mask.llvm_type})")
    target = f"ptr align {value.type.bits // 8} {pointer}"
    builder.line(f"call void @{name}({value.typed}, {target}, {mask.typed})")


def write_stream(builder: Builder, value: Value, pointer: str, alignment: int) -> None:
    """All lanes to neighbouring places, past the caches: at boundaries of ``alignment`` bytes. Not of float16, which
    LLVM would store as always."""
    builder.line(f"store {value.typed}, ptr {pointer}, align {alignment}, !nontemporal !0")


def integers_of_halves(builder: Builder, value: Value) -> Value:
    """Bits of float16 as LLVM stores them past the caches too. A plain bitcast it would take back.

    So they are combined with a zero that it knows nothing about: there are never so many threads.
    """
    zero = builder.assign("lshr i64 %threads, 48")
    narrow = Value(builder.assign(f"trunc i64 {zero} to i16"), U16)
    return builder.binary("xor", builder.bitcast(value, U16), builder.spread(narrow, value.lanes))


def _write_halves(builder: Builder, value: Value, pointer: str, alignment: int) -> None:
    write_stream(builder, integers_of_halves(builder, value), pointer, alignment)


def write_prefetch(builder: Builder, pointer: str, *, is_stored: bool = False, cache: int = 1) -> None:
    """The line of memory at an address, which need not be a valid one, is brought to the cache of that level."""
    builder.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    builder.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(is_stored)}, i32 {4 - cache}, i32 1)")


# The instructions ----------------------------------------------------------------------------------------------------

_TYPES: Final = (F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64)
_MASKED: Final = ("avx512bw", "avx512vl")
_MASK_MOVES: Final = {8: "vmovdqu8", 16: "vmovdqu16", 32: "vmovups", 64: "vmovupd"}
_OLD_MASK_MOVES: Final = {32: "vmaskmovps", 64: "vmaskmovpd"}
_GATHERS: Final = {32: "vgatherqps", 64: "vgatherqpd"}
_WIDE: Final[dict[int, tuple[str, ...]]] = {64: ("avx512f",), 32: ("avx2",), 16: ()}


def _moves() -> Iterator[Instruction]:
    """Registers of all sizes: vectors longer than the widest are several of them."""
    for type, size in itertools.product(_TYPES, (64, 32, 16)):
        bits, lanes = type.bits, size * 8 // type.bits
        masked = f"{_MASK_MOVES[bits]} {{k}}"
        yield Instruction(f"{masked}{{z}}", "load", type, lanes, _MASKED, _loaded, write_load)
        yield Instruction(masked, "store", type, lanes, _MASKED, _stored, write_store)
        if bits >= 32:
            if size >= 32:
                yield Instruction(f"{_GATHERS[bits]} {{k}}", "gather", type, lanes, ("avx512f",), _loaded, write_gather)
            if size <= 32:
                yield Instruction(_OLD_MASK_MOVES[bits], "load", type, lanes, ("avx2",), _loaded, write_load)
        stream = _write_halves if type is F16 else write_stream
        yield Instruction("non-temporal store", "stream", type, lanes, _WIDE[size], _stored, stream)


MOVES: Final = (*_moves(), Instruction("prefetch", "prefetch", U8, 64, (), _prefetched, write_prefetch))
