"""Products of matrices of words in tile registers: x86's AMX (TDPBUSD and TDPBSUD), which add up exact integers.

What they compute is in Intel's "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2. A tile has up
to 16 rows of up to 64 bytes. The sums are those of ``dot4`` word by word, modulo 2^32: neither instruction saturates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from opendml.expression.element_types import I32
from opendml.llvm.builder import Builder
from opendml.loops.instructions import Instruction

Array = npt.NDArray[Any]

ROWS: Final = 16
"""Rows of a tile at most."""

WORDS: Final = 16
"""Words of a row at most."""

CONFIGURATION_BYTES: Final = 64

Operation = Literal["tiles of unsigned rows", "tiles of signed rows"]


# What is computed ----------------------------------------------------------------------------------------------------


def _tdpbusd(a: Array, b: Array, c: Array) -> Array:
    """Words {m, k} of unsigned bytes by words {k, n} of signed ones."""
    return _product(a, b, c, np.dtype(np.uint8), np.dtype(np.int8))


def _tdpbsud(a: Array, b: Array, c: Array) -> Array:
    """The other way round: the bytes of ``a`` are signed."""
    return _product(a, b, c, np.dtype(np.int8), np.dtype(np.uint8))


def _product(a: Array, b: Array, c: Array, left: np.dtype[Any], right: np.dtype[Any]) -> Array:
    rows = np.ascontiguousarray(a).view(left).astype(np.int64)
    columns = np.ascontiguousarray(b.T).view(right).astype(np.int64)
    return np.asarray((rows @ columns.T + c).astype(np.int32))


# How it is written ---------------------------------------------------------------------------------------------------


def write_configuration(builder: Builder, place: str, tiles: Sequence[tuple[int, int]]) -> None:
    """Tile registers of so many rows and words, with zeros in them; ``place`` is memory for it, 64 bytes."""
    fields = bytearray(CONFIGURATION_BYTES)
    fields[0] = 1  # the palette
    for number, (rows, words) in enumerate(tiles):
        fields[16 + 2 * number : 18 + 2 * number] = (4 * words).to_bytes(2, "little")
        fields[48 + number] = rows
    for start in range(0, CONFIGURATION_BYTES, 8):
        part = builder.assign(f"getelementptr i8, ptr {place}, i64 {start}")
        builder.line(f"store i64 {int.from_bytes(fields[start : start + 8], 'little')}, ptr {part}, align 8")
    builder.declarations.add("declare void @llvm.x86.ldtilecfg(ptr)")
    builder.line(f"call void @llvm.x86.ldtilecfg(ptr {place})")


def write_release(builder: Builder) -> None:
    """The tile registers are nobody's: threads that wait need not keep them."""
    builder.declarations.add("declare void @llvm.x86.tilerelease()")
    builder.line("call void @llvm.x86.tilerelease()")


def write_zero(builder: Builder, tile: int) -> None:
    """A tile of zeros."""
    builder.declarations.add("declare void @llvm.x86.tilezero(i8 immarg)")
    builder.line(f"call void @llvm.x86.tilezero(i8 {tile})")


def write_tile_load(builder: Builder, tile: int, pointer: str, stride: int) -> None:
    """A tile from rows that lie ``stride`` bytes apart."""
    builder.declarations.add("declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)")
    builder.line(f"call void @llvm.x86.tileloadd64(i8 {tile}, ptr {pointer}, i64 {stride})")


def write_tile_store(builder: Builder, tile: int, pointer: str, stride: int) -> None:
    """A tile to rows that lie ``stride`` bytes apart."""
    builder.declarations.add("declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)")
    builder.line(f"call void @llvm.x86.tilestored64(i8 {tile}, ptr {pointer}, i64 {stride})")


def _write_tdpbusd(builder: Builder, total: int, left: int, right: int) -> None:
    _write_product(builder, "tdpbusd", total, left, right)


def _write_tdpbsud(builder: Builder, total: int, left: int, right: int) -> None:
    _write_product(builder, "tdpbsud", total, left, right)


def _write_product(builder: Builder, name: str, total: int, left: int, right: int) -> None:
    builder.declarations.add(f"declare void @llvm.x86.{name}(i8 immarg, i8 immarg, i8 immarg)")
    builder.line(f"call void @llvm.x86.{name}(i8 {total}, i8 {left}, i8 {right})")


_FEATURES: Final = ("amx-int8",)
UNSIGNED_ROWS: Final = Instruction("tdpbusd", "tiles of unsigned rows", I32, WORDS, _FEATURES, _tdpbusd, _write_tdpbusd)
SIGNED_ROWS: Final = Instruction("tdpbsud", "tiles of signed rows", I32, WORDS, _FEATURES, _tdpbsud, _write_tdpbsud)
TILE_PRODUCTS: Final = (UNSIGNED_ROWS, SIGNED_ROWS)
