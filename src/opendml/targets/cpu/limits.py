"""What this processor can do at best: bandwidth of copies, peak of fused multiply-adds and of products of bytes,
measured by programs."""

from __future__ import annotations

import ctypes
import functools
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from opendml.description.tensor import TensorDesc
from opendml.expression.element_types import F32, I32, ElementType
from opendml.expression.ir import WORD_PRODUCTS, constant
from opendml.llvm.builder import Builder
from opendml.llvm.compiled_objects import get_or_compile
from opendml.llvm.host import host_machine
from opendml.llvm.native import load_object
from opendml.llvm.values import Value, vector_type
from opendml.loops.instructions import Instruction
from opendml.operators import ElementWiseIdentity
from opendml.targets.cpu.instructions.machine import machine_instructions
from opendml.targets.cpu.instructions.tiles import (
    CONFIGURATION_BYTES,
    ROWS,
    UNSIGNED_ROWS,
    WORDS,
    write_configuration,
    write_release,
)
from opendml.targets.cpu.runtime.thread_team import default_team
from opendml.targets.host_memory import address_of, empty
from opendml.targets.interface import GivenArray
from opendml.targets.machine_limits import MachineLimits

if TYPE_CHECKING:
    from opendml.targets.cpu.processor import Processor

COPIED: Final = tuple(1 << power for power in (14, 16, 18, 20, 22, 24, 26))
"""Bytes of the copies, from what fits into the nearest cache to what fits into none."""

COPY_SECONDS: Final = 0.03
PEAK_SECONDS: Final = 0.01
"""How long a copy is measured, and behind each copy each of the peaks: the best of all runs counts, since what disturbs
one makes it slower. Another process that has one of two processors for some ticks halves all runs of such a time."""

LEAST_RUNS: Final = 8
"""Runs of a peak, and copies, in that time at least, however long others hold them up."""

SUMS_IN_TILES: Final = 4
"""Independent sums in tile registers; each product takes 16 cycles, and its sum is known after some 50."""

ACCUMULATORS: Final = 12
"""Independent sums a thread: enough to fill two pipelines of latency 4 to 6, and few enough for 16 registers."""


@functools.cache
def processor_limits(processor: Processor, thread_count: int) -> MachineLimits:
    """The limits of this machine, measured once (half a second)."""
    copies, fma, products = [], 0.0, 0.0
    for size in COPIED:
        copies.append((2 * size, copy_bandwidth(processor, size, thread_count)))
        fma = max(fma, fma_peak(thread_count, PEAK_SECONDS))
        products = max(products, byte_peak(thread_count, PEAK_SECONDS))
    return MachineLimits(thread_count, tuple(copies), fma, products)


def copy_bandwidth(processor: Processor, size: int, thread_count: int, seconds: float = COPY_SECONDS) -> float:
    """Bytes a second, read and written together, of copying ``size`` bytes again and again."""
    desc = TensorDesc("FLOAT32", [size // 4])
    definition = ElementWiseIdentity(input_tensor=desc, output_tensor=desc).define()
    _, copy = processor.instrumented(definition, in_place=True, thread_count=thread_count)
    source, target = empty(desc), empty(desc)
    source[...] = 1
    call = copy.dispatch([GivenArray(source, address_of(source))], [GivenArray(target, address_of(target))])
    durations: list[float] = []
    call()  # the first run maps the memory
    end = time.perf_counter() + seconds
    while len(durations) < LEAST_RUNS or time.perf_counter() < end:
        copy.reset()
        call()
        durations.append(copy.times()[0].duration)
    return 2 * size / max(min(durations), 1e-9)


def fma_peak(thread_count: int, seconds: float = 0.5) -> float:
    """Float32 operations a second of all threads in a loop of nothing but fused multiply-adds."""
    lanes = host_machine().lanes(32)

    def step(builder: Builder, a: Value) -> Value:
        half = builder.spread(builder.constant(constant(0.5, F32)), lanes)
        return builder.fused_multiply_add(a, half, half)

    rounds = _rounds_a_second(_loop_of(F32, lanes, step), thread_count, seconds)
    return 2 * lanes * ACCUMULATORS * rounds


def byte_peak(thread_count: int, seconds: float = 0.5) -> float:
    """Integer operations a second, two for each product of bytes and its addition, of all threads in a loop of nothing
    but the widest products of words that kernels use here: of four bytes, be it small ones only, if there are any."""
    instructions = machine_instructions(host_machine())
    if instructions.find(UNSIGNED_ROWS.operation, I32):
        rounds = _rounds_a_second(loop_of_tiles(), thread_count, seconds)
        return 2 * 4 * ROWS * WORDS * WORDS * SUMS_IN_TILES * rounds
    found = (instructions.find(operation, I32) for operation in ("dot4", "dot4_saturating", "dot2"))
    product = next((instruction for instruction in found if instruction is not None), None)
    lanes, parts = (host_machine().lanes(32), 1) if product is None else _size(product)

    def step(builder: Builder, a: Value) -> Value:
        """The sum is a factor too: nothing of the step stays the same."""
        if product is None:
            return builder.binary("add", builder.binary("mul", a, a), a)
        written: Value = product.write(builder, a, a, a)
        return written

    return 2 * parts * lanes * ACCUMULATORS * _rounds_a_second(_loop_of(I32, lanes, step), thread_count, seconds)


def _size(product: Instruction) -> tuple[int, int]:
    """Words of an instruction, and bytes or numbers of 16 bits of a word."""
    return product.lanes, WORD_PRODUCTS[product.operation]


_Step = Callable[[Builder, Value], Value]


def _rounds_a_second(text: str, thread_count: int, seconds: float) -> float:
    """Of all threads, in ``steps`` of a module: ``steps(table, thread, ...)`` does ``table[1]`` rounds, and has row
    ``thread`` of ``table[0]``, a vector of the machine's, to write to."""
    host = host_machine()
    data, _ = get_or_compile(text, host)
    code = load_object(data, ["steps"], host)
    iterations, best, team = 1 << 17, math.inf, default_team(thread_count)
    sink = np.zeros((thread_count, host.vector_bytes), np.uint8)
    table = (ctypes.c_int64 * 2)(sink.ctypes.data, iterations)
    runs, end = 0, time.perf_counter() + seconds
    while runs < LEAST_RUNS or time.perf_counter() < end:
        start = time.perf_counter()
        threads = team.run(code["steps"], ctypes.addressof(table), thread_count)
        best = min(best, (time.perf_counter() - start) / threads)
        runs += 1
    return iterations / best


def _loop_of(type: ElementType, lanes: int, step: _Step) -> str:
    """Rounds of steps of ``ACCUMULATORS`` sums; that of all of them goes to the thread's row."""
    builder = Builder()
    rows = builder.assign("load ptr, ptr %table")
    count = builder.assign("load i64, ptr " + builder.assign("getelementptr i64, ptr %table, i64 1"))
    row = builder.assign(f"getelementptr {vector_type(type, lanes)}, ptr {rows}, i64 %thread")
    zero = Value(builder.assign(f"load {vector_type(type, lanes)}, ptr {row}, align 4"), type, lanes)
    numbers = [builder.spread(builder.constant(constant(i, type)), lanes) for i in range(ACCUMULATORS)]
    starts = [builder.binary("add", zero, number) for number in numbers]
    sums = builder.loop("0", count, 1, starts, lambda _, values: [step(builder, value) for value in values])
    total = functools.reduce(functools.partial(builder.binary, "add"), sums)
    builder.line(f"store {total.typed}, ptr {row}, align 4")
    return _module(builder)


def loop_of_tiles() -> str:
    """Rounds of a product in each of ``SUMS_IN_TILES`` tile registers."""
    builder = Builder()
    count = builder.assign("load i64, ptr " + builder.assign("getelementptr i64, ptr %table, i64 1"))
    configuration = builder.assign(f"alloca [{CONFIGURATION_BYTES} x i8], align 64")
    write_configuration(builder, configuration, [(ROWS, WORDS)] * (SUMS_IN_TILES + 2))

    def step(_: str, __: list[Value]) -> list[Value]:
        for number in range(SUMS_IN_TILES):
            UNSIGNED_ROWS.write(builder, number, SUMS_IN_TILES, SUMS_IN_TILES + 1)
        return []

    builder.loop("0", count, 1, [], step)
    write_release(builder)
    return _module(builder)


def _module(builder: Builder) -> str:
    """The function ``steps`` of what has been written."""
    body, declared = "\n".join(builder.lines), "\n".join(sorted(builder.declarations))
    signature = "define void @steps(ptr %table, i64 %thread, i64 %threads, ptr %barrier)"
    return f"{declared}\n\n{signature} {{\nentry:\n{body}\n  ret void\n}}\n"
