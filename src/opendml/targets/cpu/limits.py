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
from opendml.expression.ir import constant
from opendml.llvm.builder import Builder, Value, vector_type
from opendml.llvm.compiled_objects import get_or_compile
from opendml.llvm.host import host_machine
from opendml.llvm.native import load_object
from opendml.operators import ElementWiseIdentity
from opendml.targets.cpu.instructions.machine import machine_instructions
from opendml.targets.cpu.runtime.thread_team import default_team
from opendml.targets.host_memory import address_of, empty
from opendml.targets.interface import GivenArray
from opendml.targets.machine_limits import MachineLimits

if TYPE_CHECKING:
    from opendml.targets.cpu.processor import Processor

COPIED: Final = tuple(1 << power for power in (14, 16, 18, 20, 22, 24, 26))
"""Bytes of the copies, from what fits into the nearest cache to what fits into none."""

COPY_SECONDS: Final = 0.03
FMA_SECONDS: Final = 0.05
"""How long each of the limits is measured; the best of all runs counts, since what disturbs one makes it slower."""

ACCUMULATORS: Final = 12
"""Independent sums a thread: enough to fill two pipelines of latency 4 to 6, and few enough for 16 registers."""


@functools.cache
def processor_limits(processor: Processor, thread_count: int) -> MachineLimits:
    """The limits of this machine, measured once (half a second)."""
    copies = tuple((2 * size, copy_bandwidth(processor, size, thread_count)) for size in COPIED)
    return MachineLimits(thread_count, copies, fma_peak(thread_count, FMA_SECONDS))


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
    while len(durations) < 3 or time.perf_counter() < end:
        copy.reset()
        call()
        durations.append(copy.times()[0].duration)
    return 2 * size / max(min(durations), 1e-9)


def fma_peak(thread_count: int, seconds: float = 0.5) -> float:
    """Float32 operations a second of all threads in a loop of nothing but fused multiply-adds."""
    lanes = host_machine().vector_bytes // 4

    def step(builder: Builder, a: Value) -> Value:
        half = builder.spread(builder.constant(constant(0.5, F32)), lanes)
        return builder.fused_multiply_add(a, half, half)

    return 2 * lanes * _steps_a_second(F32, lanes, step, thread_count, seconds)


def byte_peak(thread_count: int, seconds: float = 0.5) -> float:
    """Integer operations a second, two for each product of bytes and its addition, of all threads in a loop of nothing
    but the products of words that kernels use here; those of words of 16 bits where the processor has no others."""
    instructions = machine_instructions(host_machine())
    product = instructions.find("dot4", I32) or instructions.find("dot2", I32)
    if product is None:
        lanes, parts = host_machine().vector_bytes // 4, 1
    else:
        lanes, parts = product.lanes, int(product.operation[-1])

    def step(builder: Builder, a: Value) -> Value:
        """The sum is a factor too: nothing of the step stays the same."""
        if product is None:
            return builder.binary("add", builder.binary("mul", a, a), a)
        written: Value = product.write(builder, a, a, a)
        return written

    return 2 * parts * lanes * _steps_a_second(I32, lanes, step, thread_count, seconds)


_Step = Callable[[Builder, Value], Value]


def _steps_a_second(type: ElementType, lanes: int, step: _Step, thread_count: int, seconds: float) -> float:
    """Of all threads, each with ``ACCUMULATORS`` sums."""
    host = host_machine()
    data, _ = get_or_compile(_loop_of(type, lanes, step), host)
    code = load_object(data, ["steps"], host)
    iterations, best, team = 1 << 17, math.inf, default_team(thread_count)
    sink = np.zeros((thread_count, lanes * type.bits // 8), np.uint8)
    table = (ctypes.c_int64 * 2)(sink.ctypes.data, iterations)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        threads = team.run(code["steps"], ctypes.addressof(table), thread_count)
        best = min(best, (time.perf_counter() - start) / threads)
    return iterations * ACCUMULATORS / best


def _loop_of(type: ElementType, lanes: int, step: _Step) -> str:
    """``steps(table, thread, ...)``: ``table[1]`` rounds; the sum goes to row ``thread`` of ``table[0]``."""
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
    body, declared = "\n".join(builder.lines), "\n".join(sorted(builder.declarations))
    signature = "define void @steps(ptr %table, i64 %thread, i64 %threads, ptr %barrier)"
    return f"{declared}\n\n{signature} {{\nentry:\n{body}\n  ret void\n}}\n"
