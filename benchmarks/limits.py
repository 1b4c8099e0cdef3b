"""What the machine can do at best: its parallel copy bandwidth and its peak of fused multiply-adds."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.cases import IMAGE, Case, bytes_moved, identity
from benchmarks.measure import Effort, run_case
from benchmarks.peers import Contestant
from opendml.runtime.host import host_target
from opendml.runtime.native import compile_object, load_object
from opendml.runtime.thread_team import ThreadTeam
from opendml.tensor import TensorDesc

COPIED = ((1, 64, 128, 128), (4, 64, 112, 112), IMAGE)
"""What is copied: float32 tensors of 4, 12 and 49 MiB."""


@dataclass(frozen=True)
class Copy:
    """``bandwidth``: bytes a second in copying ``traffic`` bytes (read and written), and who reached it."""

    traffic: int
    bandwidth: float
    by: str


@dataclass(frozen=True)
class Limits:
    """The copies, smallest first, and ``fma_peak`` in floating-point operations a second."""

    copies: tuple[Copy, ...]
    fma_peak: float

    def copy_bandwidth(self, traffic: int) -> float:
        """Bytes a second of the copy that moves the most similar number of bytes, since caches favour small ones."""
        return min(self.copies, key=lambda copy: abs(math.log(copy.traffic / traffic))).bandwidth

    def or_better(self, other: Limits) -> Limits:
        """The best of two measurements: what disturbs one makes it slower."""
        pairs = zip(self.copies, other.copies, strict=True)
        best = tuple(max(pair, key=lambda copy: copy.bandwidth) for pair in pairs)
        return Limits(best, max(self.fma_peak, other.fma_peak))


def measure_limits(contestants: Sequence[Contestant], threads: int, effort: Effort) -> Limits:
    """The best copies and the FMA peak."""
    return Limits(tuple(_best_copy(sizes, contestants, effort) for sizes in COPIED), fma_peak(threads))


def _best_copy(sizes: Sequence[int], contestants: Sequence[Contestant], effort: Effort) -> Copy:
    case = Case("limits", "copy", identity(TensorDesc("FLOAT32", sizes)))
    timings = run_case(case, contestants, effort).timings
    best = min(timings, key=lambda name: timings[name].median)
    traffic = bytes_moved(case.operator)
    return Copy(traffic, traffic / timings[best].median, best)


ACCUMULATORS = 12
"""Independent sums a thread: enough to fill two pipelines of latency 4 to 6, and few enough for 16 registers."""


def fma_peak(threads: int, seconds: float = 0.5) -> float:
    """Float32 operations a second of all threads in a loop of nothing but fused multiply-adds."""
    host = host_target()
    lanes = host.vector_bytes // 4
    code = load_object(compile_object(_fma_loop(lanes), host), ["fma_loop"], host)
    iterations, best, team = 1 << 20, math.inf, ThreadTeam(threads)
    sink = np.zeros((threads, lanes), np.float32)
    table = (ctypes.c_int64 * 2)(sink.ctypes.data, iterations)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        team.run(code["fma_loop"], ctypes.addressof(table))
        best = min(best, time.perf_counter() - start)
    team.stop()
    return threads * iterations * ACCUMULATORS * lanes * 2 / best


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
