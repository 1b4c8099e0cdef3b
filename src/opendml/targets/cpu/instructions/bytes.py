"""Numbers into bytes: rounded by the conversion to integers, clamped and joined by packs that saturate.

What they compute is in Intel's "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.expression.element_types import F32, I16, I32, U8
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value, vector_type
from opendml.loops.instructions import Instruction

Array = npt.NDArray[Any]

JOINED: Final = 4
"""Registers whose bytes are one."""

_PARTS: Final = 16
"""Bytes of the parts of a register that packs work on, each by itself."""

_ROUNDING: Final = "i16 -1, i32 4"
"""In all lanes, as the processor rounds, which is to nearest even."""


def _rounded(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        nearest = np.rint(np.asarray(x, np.float32).astype(np.float64))
    fits = np.abs(nearest) < 2.0**31
    return np.asarray(np.where(fits, nearest, -(2.0**31)), np.int32)


def _packed(a: Array, b: Array, c: Array, d: Array) -> Array:
    return np.asarray(np.clip(np.concatenate([a, b, c, d]), 0, 255), np.uint8)


def _write_rounded(builder: Builder, a: Value) -> Value:
    if a.lanes < 16:
        return builder.intrinsic("llvm.x86.avx.cvt.ps2dq.256", Value("", I32, a.lanes), a)
    kind, name = vector_type(I32, a.lanes), "llvm.x86.avx512.mask.cvtps2dq.512"
    builder.declarations.add(f"declare {kind} @{name}({a.llvm_type}, {kind}, i16, i32)")
    return Value(builder.assign(f"call {kind} @{name}({a.typed}, {kind} zeroinitializer, {_ROUNDING})"), I32, a.lanes)


def _write_packed(builder: Builder, *words: Value) -> Value:
    """Each part of the result has bytes of all four: whole words are put in order behind the packs."""
    lanes = JOINED * words[0].lanes
    level, end = ("avx512", ".512") if lanes == 64 else ("avx2", "")
    halves = Value("", I16, lanes // 2)
    low, high = (builder.intrinsic(f"llvm.x86.{level}.packssdw{end}", halves, *pair) for pair in (words[:2], words[2:]))
    packed = builder.intrinsic(f"llvm.x86.{level}.packuswb{end}", Value("", U8, lanes), low, high)
    parts = lanes // _PARTS
    joined = Value(builder.assign(f"bitcast {packed.typed} to {vector_type(I32, lanes // 4)}"), I32, lanes // 4)
    order = [part * JOINED + word for word in range(JOINED) for part in range(parts)]
    ordered = builder.shuffle(joined, None, order)
    return Value(builder.assign(f"bitcast {ordered.typed} to {vector_type(U8, lanes)}"), U8, lanes)


BYTES: Final = (
    Instruction("vcvtps2dq", "round", F32, 16, ("avx512f",), _rounded, _write_rounded),
    Instruction("vcvtps2dq", "round", F32, 8, ("avx2",), _rounded, _write_rounded),
    Instruction("vpackssdw, vpackuswb", "bytes", U8, 64, ("avx512bw",), _packed, _write_packed),
    Instruction("vpackssdw, vpackuswb", "bytes", U8, 32, ("avx2",), _packed, _write_packed),
)
