"""What this processor can do at best: bandwidth of copies and peak of fused multiply-adds, measured by programs."""

from __future__ import annotations

import ctypes
import functools
import math
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from opendml.description.tensor import TensorDesc
from opendml.llvm.host import host_machine
from opendml.llvm.native import load_object
from opendml.llvm.object_cache import get_or_compile
from opendml.operators import ElementWiseIdentity
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
    host = host_machine()
    lanes = host.vector_bytes // 4
    data, _ = get_or_compile(_fma_loop(lanes), host)
    code = load_object(data, ["fma_loop"], host)
    iterations, best, team = 1 << 17, math.inf, default_team(thread_count)
    sink = np.zeros((thread_count, lanes), np.float32)
    table = (ctypes.c_int64 * 2)(sink.ctypes.data, iterations)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        threads = team.run(code["fma_loop"], ctypes.addressof(table), thread_count)
        best = min(best, (time.perf_counter() - start) / threads)
    return iterations * ACCUMULATORS * lanes * 2 / best


def _fma_loop(lanes: int) -> str:
    """``fma_loop(table, thread, ...)``: ``table[1]`` rounds; the sum goes to row ``thread`` of ``table[0]``."""
    vector = f"<{lanes} x float>"
    numbers = range(ACCUMULATORS)
    half = f"<{', '.join(['float 0.5'] * lanes)}>"
    phis = "\n".join(f"  %a{i} = phi {vector} [ %start{i}, %entry ], [ %b{i}, %loop ]" for i in numbers)
    starts = "\n".join(f"  %start{i} = fadd {vector} %zero, <{', '.join([f'float {i}.0'] * lanes)}>" for i in numbers)
    steps = "\n".join(
        f"  %b{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{i}, {vector} {half}, {vector} {half})"
        for i in numbers
    )
    sums = "\n".join(f"  %s{i} = fadd {vector} {f'%s{i - 1}' if i else '%zero'}, %b{i}" for i in numbers)
    return f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})

define void @fma_loop(ptr %table, i64 %thread, i64 %threads, ptr %barrier) {{
entry:
  %rows = load ptr, ptr %table
  %count_place = getelementptr i64, ptr %table, i64 1
  %count = load i64, ptr %count_place
  %row = getelementptr {vector}, ptr %rows, i64 %thread
  %zero = load {vector}, ptr %row, align 4
{starts}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{steps}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
{sums}
  store {vector} %s{ACCUMULATORS - 1}, ptr %row, align 4
  ret void
}}
"""
