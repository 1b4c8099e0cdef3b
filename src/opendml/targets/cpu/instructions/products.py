"""Products of words, added up: x86's VPDPBUSD (AVX-512 VNNI and AVX-VNNI), and VPMADDWD with an addition; AArch64's
USDOT (FEAT_I8MM), and SDOT (FEAT_DotProd) with what makes the bytes of one side signed.

What they compute is in Intel's "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2, and in Arm's
"Architecture Reference Manual for A-profile architecture". None saturates; VPDPBUSDS, which does, is not used.
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


def _write_vpdpbusd(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    return builder.intrinsic(f"llvm.x86.avx512.vpdpbusd.{a.lanes * 32}", c, c, a, b)


def _write_vpmaddwd(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    """LLVM joins this with the addition where the processor can (VPDPWSSD). Elsewhere it would add up products of
    several steps before they meet the sum, which takes more registers than a tile leaves."""
    lanes = a.lanes * 2
    kind = vector_type(I16, lanes)
    halves = [Value(builder.assign(f"bitcast {v.typed} to {kind}"), I16, lanes) for v in (a, b)]
    total = builder.binary("add", builder.intrinsic(f"llvm.x86.{_MADD[a.lanes]}", a, *halves), c)
    return builder.bitcast(builder.fenced(builder.bitcast(total, F32)), I32)


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
    return Value(builder.assign(f"bitcast {words.typed} to {vector_type(I8, 16)}"), I8, 16)


def _vpdpbusd(a: Array, b: Array, c: Array) -> Array:
    """Four unsigned bytes of ``a`` times the signed ones of ``b``; the sum modulo 2^32."""
    return _sum_of_parts(a, b, c, np.dtype(np.uint8), np.dtype(np.int8))


def _vpmaddwd(a: Array, b: Array, c: Array) -> Array:
    """Two signed numbers of 16 bits each; the sum modulo 2^32, which that of two products alone reaches once."""
    return _sum_of_parts(a, b, c, np.dtype(np.int16), np.dtype(np.int16))


def _sum_of_parts(a: Array, b: Array, c: Array, left: np.dtype[Any], right: np.dtype[Any]) -> Array:
    a, b, c = (np.ascontiguousarray(v)[..., np.newaxis] for v in np.broadcast_arrays(a, b, c))
    products = a.view(left).astype(np.int64) * b.view(right).astype(np.int64)
    return np.asarray((products.sum(-1) + c[..., 0]).astype(np.int32))


def _products(lanes: int, name: str, features: tuple[str, ...]) -> Instruction:
    if name == "vpdpbusd":
        return Instruction(name, "dot4", I32, lanes, features, _vpdpbusd, _write_vpdpbusd)
    return Instruction(name, "dot2", I32, lanes, features, _vpmaddwd, _write_vpmaddwd)


PRODUCTS: Final = (
    *(_products(lanes, "vpdpbusd", ("avx512vl", "avx512vnni")) for lanes in (16, 8, 4)),
    *(_products(lanes, "vpdpbusd", ("avxvnni",)) for lanes in (8, 4)),
    _products(16, "vpmaddwd, vpaddd", ("avx512bw",)),
    *(_products(lanes, "vpmaddwd, vpaddd", ("avx2",)) for lanes in (8, 4)),
    Instruction("usdot", "dot4", I32, 4, ("i8mm",), _vpdpbusd, _write_usdot),
    Instruction("sdot, of unsigned bytes less 128", "dot4", I32, 4, ("dotprod",), _vpdpbusd, _write_sdot),
)
