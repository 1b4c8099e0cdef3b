"""Products of words, added up: x86's VPDPBUSD (AVX-512 VNNI and AVX-VNNI), VPMADDWD with an addition, and VPMADDUBSW,
whose sums of pairs VPMADDWD adds up; AArch64's USDOT (FEAT_I8MM), and SDOT (FEAT_DotProd) with what makes the bytes
of one side signed.

What they compute is in Intel's "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2, and in Arm's
"Architecture Reference Manual for A-profile architecture". None saturates but VPMADDUBSW, which is for signed bytes so
small that it does not, either; VPDPBUSDS, which does, is not used.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.expression.element_types import F32, I8, I16, I32
from opendml.expression.ir import constant
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value, vector_type
from opendml.loops.instructions import Instruction

Array = npt.NDArray[Any]

_MADD: Final = {16: "avx512.pmaddw.d.512", 8: "avx2.pmadd.wd", 4: "sse2.pmadd.wd"}
_MADD_BYTES: Final = {16: "avx512.pmaddubs.w.512", 8: "avx2.pmadd.ub.sw", 4: "ssse3.pmadd.ub.sw.128"}


def _write_vpdpbusd(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    return builder.intrinsic(f"llvm.x86.avx512.vpdpbusd.{a.lanes * 32}", c, c, a, b)


def _write_vpmaddwd(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    """LLVM joins this with the addition where the processor can (VPDPWSSD). Elsewhere it would add up products of
    several steps before they meet the sum, which takes more registers than a tile leaves."""
    halves = [_halves(builder, v) for v in (a, b)]
    return _added(builder, builder.intrinsic(f"llvm.x86.{_MADD[a.lanes]}", a, *halves), c)


def _write_vpmaddubsw(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    """Sums of pairs in 16 bits, and of these in 32: products with ones."""
    ones = _halves(builder, builder.spread(builder.constant(constant(0x00010001, I32)), a.lanes))
    bytes_ = [_bytes(builder, v) for v in (a, b)]
    pairs = builder.intrinsic(f"llvm.x86.{_MADD_BYTES[a.lanes]}", ones, *bytes_)
    return _added(builder, builder.intrinsic(f"llvm.x86.{_MADD[a.lanes]}", a, pairs, ones), c)


def _added(builder: Builder, a: Value, c: Value) -> Value:
    """The sum, which LLVM does not take apart."""
    return builder.bitcast(builder.fenced(builder.bitcast(builder.binary("add", a, c), F32)), I32)


def _halves(builder: Builder, words: Value) -> Value:
    lanes = words.lanes * 2
    return Value(builder.assign(f"bitcast {words.typed} to {vector_type(I16, lanes)}"), I16, lanes)


def _write_usdot(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    return builder.intrinsic("llvm.aarch64.neon.usdot.v4i32.v16i8", c, c, _bytes(builder, a), _bytes(builder, b))


def _write_sdot(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    """Unsigned bytes less 128 are signed ones; what that leaves out is 64 times those of ``b``, twice."""

    def sdot(x: Value, total: Value) -> Value:
        return builder.intrinsic("llvm.aarch64.neon.sdot.v4i32.v16i8", c, total, _bytes(builder, x), right)

    right = _bytes(builder, b)
    moved, sixty_four = (builder.spread(builder.constant(constant(bits, I32)), 4) for bits in (-0x7F7F7F80, 0x40404040))
    return sdot(sixty_four, sdot(sixty_four, sdot(builder.binary("xor", a, moved), c)))


def _bytes(builder: Builder, words: Value) -> Value:
    lanes = words.lanes * 4
    return Value(builder.assign(f"bitcast {words.typed} to {vector_type(I8, lanes)}"), I8, lanes)


def _vpdpbusd(a: Array, b: Array, c: Array) -> Array:
    """Four unsigned bytes of ``a`` times the signed ones of ``b``; the sum modulo 2^32."""
    return _sum_of_parts(a, b, c, np.dtype(np.uint8), np.dtype(np.int8))


def _vpmaddwd(a: Array, b: Array, c: Array) -> Array:
    """Two signed numbers of 16 bits each; the sum modulo 2^32, which that of two products alone reaches once."""
    return _sum_of_parts(a, b, c, np.dtype(np.int16), np.dtype(np.int16))


def _vpmaddubsw(a: Array, b: Array, c: Array) -> Array:
    """As VPDPBUSD, but that the sums of two products saturate at 16 bits."""
    products = _products_of_parts(a, b, np.dtype(np.uint8), np.dtype(np.int8))
    pairs = np.clip(products[..., 0::2] + products[..., 1::2], -(1 << 15), (1 << 15) - 1)
    return np.asarray((pairs.sum(-1) + c).astype(np.int32))


def _sum_of_parts(a: Array, b: Array, c: Array, left: np.dtype[Any], right: np.dtype[Any]) -> Array:
    return np.asarray((_products_of_parts(a, b, left, right).sum(-1) + c).astype(np.int32))


def _products_of_parts(a: Array, b: Array, left: np.dtype[Any], right: np.dtype[Any]) -> Array:
    """Those of the parts of each word, along a last axis of their own."""
    a, b = (np.ascontiguousarray(v)[..., np.newaxis] for v in np.broadcast_arrays(a, b))
    return np.asarray(a.view(left).astype(np.int64) * b.view(right).astype(np.int64))


def _products(lanes: int, name: str, features: tuple[str, ...]) -> Instruction:
    if name == "vpdpbusd":
        return Instruction(name, "dot4", I32, lanes, features, _vpdpbusd, _write_vpdpbusd)
    if name == _OF_SMALL_BYTES:
        return Instruction(name, "dot4_saturating", I32, lanes, features, _vpmaddubsw, _write_vpmaddubsw)
    return Instruction(name, "dot2", I32, lanes, features, _vpmaddwd, _write_vpmaddwd)


_OF_SMALL_BYTES: Final = "vpmaddubsw, vpmaddwd, vpaddd"


PRODUCTS: Final = (
    *(_products(lanes, "vpdpbusd", ("avx512vl", "avx512vnni")) for lanes in (16, 8, 4)),
    *(_products(lanes, "vpdpbusd", ("avxvnni",)) for lanes in (8, 4)),
    _products(16, "vpmaddwd, vpaddd", ("avx512bw",)),
    *(_products(lanes, "vpmaddwd, vpaddd", ("avx2",)) for lanes in (8, 4)),
    _products(16, _OF_SMALL_BYTES, ("avx512bw",)),
    *(_products(lanes, _OF_SMALL_BYTES, ("avx2",)) for lanes in (8, 4)),
    Instruction("usdot", "dot4", I32, 4, ("i8mm",), _vpdpbusd, _write_usdot),
    Instruction("sdot, of unsigned bytes less 128", "dot4", I32, 4, ("dotprod",), _vpdpbusd, _write_sdot),
)
