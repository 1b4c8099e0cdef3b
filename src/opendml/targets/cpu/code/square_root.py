"""Square roots of float32 vectors from AVX-512's estimate of their reciprocals: the same bits in half the time.

The instruction for square roots keeps a processor's divider busy for a dozen cycles or more; multiplications and
additions take their turns beside what else there is to do. From an estimate ``y`` of ``1 / sqrt(x)`` with an error of
2^-14 come ``g = x * y`` and ``h = y / 2``; one step of Goldschmidt's iteration squares the error of both, and the
residual ``x - g * g``, which a fused multiply-add gives exactly, corrects ``g`` to the root as IEEE 754 rounds it (P.
Markstein, "IA-64 and Elementary Functions", 2000). The tests try every significand with both parities of the exponent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from opendml.expression.element_types import F32, U32
from opendml.expression.ir import constant
from opendml.llvm.builder import Builder, Value
from opendml.llvm.host import Machine

REGISTER_BYTES: Final = 64
LANES: Final = 16
"""AVX-512's registers: their size, and how many float32 elements one has."""

LEAST: Final = 2.0**-96
"""The least number of which no step loses digits to underflow. Smaller ones, infinity, NaN and negative numbers are
left to the instruction; zeros are themselves."""


def has_estimate(a: Value, machine: Machine) -> bool:
    """Whether there is an estimate, and of use for a value: whole registers of float32."""
    has_instruction = machine.has("avx512f") and machine.vector_bytes >= REGISTER_BYTES
    return has_instruction and a.type is F32 and a.lanes % LANES == 0


def square_root(builder: Builder, a: Value) -> Value:
    """The square root of whole registers of float32."""
    half = builder.spread(builder.constant(constant(0.5, F32)), a.lanes)
    estimate = _estimate(builder, a)
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
    unusual = replace(unusual, text=builder.assign(f"freeze {unusual.typed}"))

    def exact() -> list[Value]:
        return [builder.unary("sqrt", a)]

    return builder.branch(builder.any_lane(unusual), exact, lambda: [root])[0]


def _is_usual(builder: Builder, a: Value) -> Value:
    """Whether numbers are from LEAST to the largest one: their bits, as integers, are so far above those of LEAST."""
    least, infinity = (constant(number, F32).bits for number in (LEAST, float("inf")))
    bits = builder.bitcast(a, U32)
    above = builder.binary("sub", bits, builder.spread(Value(str(least), U32), a.lanes))
    return builder.binary("lt", above, builder.spread(Value(str(infinity - least), U32), a.lanes))


def _estimate(builder: Builder, a: Value) -> Value:
    """``1 / sqrt(a)`` with a relative error of 2^-14 at most, register by register."""
    parts = [
        _of_register(builder, builder.shuffle(a, None, range(first, first + LANES)) if a.lanes > LANES else a)
        for first in range(0, a.lanes, LANES)
    ]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [builder.shuffle(x, y, range(2 * x.lanes)) for x, y in pairs]
    return parts[0]


def _of_register(builder: Builder, a: Value) -> Value:
    name, kind = "llvm.x86.avx512.rsqrt14.ps.512", a.llvm_type
    builder.declarations.add(f"declare {kind} @{name}({kind}, {kind}, i16)")
    return replace(a, text=builder.assign(f"call {kind} @{name}({a.typed}, {kind} zeroinitializer, i16 -1)"))
