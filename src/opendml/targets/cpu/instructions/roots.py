"""Square roots of float32 vectors from AVX-512's estimate of their reciprocals: the same bits in half the time.

The instruction for square roots keeps a processor's divider busy for a dozen cycles or more; multiplications and
additions take their turns beside what else there is to do. From an estimate ``y`` of ``1 / sqrt(x)`` with an error of
2^-14 come ``g = x * y`` and ``h = y / 2``; one step of Goldschmidt's iteration squares the error of both, and the
residual ``x - g * g``, which a fused multiply-add gives exactly, corrects ``g`` to the root as IEEE 754 rounds it (P.
Markstein, "IA-64 and Elementary Functions", 2000).

The manual bounds the error of VRSQRT14PS and leaves the bits of its estimates to the processor; so does what is said
here. Any estimate within the bound gives the same root: behind the correction, ``g`` is wrong by less than 2^-46 of
itself before it is rounded for the last time, and few numbers have roots so near to the middle between two floating
point numbers. The tests try every estimate that the bound allows for each of them, and all significands with the
estimates of the machine.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.expression.element_types import F32, U32
from opendml.expression.fused import fused_multiply_add
from opendml.expression.ir import constant
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value
from opendml.loops.instructions import Instruction
from opendml.targets.cpu.instructions.registers import by_registers

Array = npt.NDArray[Any]

LANES: Final = 16
"""Float32 elements of AVX-512's registers."""

LEAST: Final = 2.0**-96
"""The least number of which no step loses digits to underflow. Smaller ones, infinity, NaN and negative numbers are
left to the instruction; zeros are themselves."""

ERROR: Final = 2.0**-14
"""By how much an estimate may be wrong, of what it estimates; from 2^-126 on, for numbers below infinity."""


# What is computed ----------------------------------------------------------------------------------------------------


def _estimated(x: Array) -> Array:
    """One of the estimates that the bound allows: the reciprocal root, cut to 15 bits."""
    with np.errstate(all="ignore"):
        exact = (1 / np.sqrt(x.astype(np.float64))).astype(np.float32)
    cut = exact.view(np.uint32) & np.uint32(0xFFFFFE00)
    return np.where(np.isfinite(exact), cut.view(np.float32), exact)


def corrected(x: Array, estimate: Array) -> Array:
    """The root of numbers from LEAST on from estimates of its reciprocal, step by step as code does it."""
    half = np.float32(0.5)
    root, halved = x * estimate, estimate * half
    error = fused_multiply_add(-root, halved, np.full_like(x, half))
    root, halved = fused_multiply_add(root, error, root), fused_multiply_add(halved, error, halved)
    residual = fused_multiply_add(-root, root, x)
    return fused_multiply_add(residual, halved, root)


def _root(x: Array) -> Array:
    x = np.asarray(x, np.float32)
    usual = (x >= np.float32(LEAST)) & (x < np.float32(np.inf))
    with np.errstate(all="ignore"):
        number = np.where(usual, x, np.float32(1))
        return np.where(usual, corrected(number, _estimated(number)), np.where(x == 0, x, np.sqrt(x)))


# How it is written ---------------------------------------------------------------------------------------------------


def _write_estimate(builder: Builder, a: Value) -> Value:
    name, kind = "llvm.x86.avx512.rsqrt14.ps.512", a.llvm_type
    builder.declarations.add(f"declare {kind} @{name}({kind}, {kind}, i16)")
    return a._replace(text=builder.assign(f"call {kind} @{name}({a.typed}, {kind} zeroinitializer, i16 -1)"))


def _write_root(builder: Builder, a: Value) -> Value:
    """Of any number of whole registers: what is unusual in one of them is asked once."""
    half = builder.spread(builder.constant(constant(0.5, F32)), a.lanes)
    estimate = by_registers(builder, ESTIMATE, a)
    root = builder.binary("mul", a, estimate)
    halved = builder.binary("mul", estimate, half)
    error = builder.fused_multiply_add(builder.unary("neg", root), halved, half)
    root = builder.fused_multiply_add(root, error, root)
    halved = builder.fused_multiply_add(halved, error, halved)
    residual = builder.fused_multiply_add(builder.unary("neg", root), root, a)
    root = builder.fused_multiply_add(residual, halved, root)
    zero = builder.binary("eq", a, builder.spread(Value("0.0", F32), a.lanes))
    root = builder.select(zero, a, root)
    unusual = builder.unary("not", builder.binary("or", zero, _is_usual(builder, a)))
    # Lanes that take no part may be undefined, and nothing may depend on those.
    unusual = unusual._replace(text=builder.assign(f"freeze {unusual.typed}"))

    def exact() -> list[Value]:
        return [builder.unary("sqrt", a)]

    return builder.branch(builder.any_lane(unusual), exact, lambda: [root])[0]


def _is_usual(builder: Builder, a: Value) -> Value:
    """Whether numbers are from LEAST to the largest one: their bits, as integers, are so far above those of LEAST."""
    least, infinity = (constant(number, F32).bits for number in (LEAST, float("inf")))
    bits = builder.bitcast(a, U32)
    above = builder.binary("sub", bits, builder.spread(Value(str(least), U32), a.lanes))
    return builder.binary("lt", above, builder.spread(Value(str(infinity - least), U32), a.lanes))


ESTIMATE: Final = Instruction("vrsqrt14ps", "estimate", F32, LANES, ("avx512f",), _estimated, _write_estimate)
ROOT: Final = Instruction("vrsqrt14ps, corrected", "sqrt", F32, LANES, ("avx512f",), _root, _write_root)
