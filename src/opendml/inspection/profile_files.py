"""Profiles for other programs: Chrome's trace format, and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from opendml.inspection.measurements import KernelProfile, Measurements
from opendml.targets.machine_limits import MachineLimits


def trace_of(profiles: Sequence[Measurements]) -> str:
    """Chrome's trace format (JSON): a process for each profile, a thread for each of the program's, or its device."""
    events: list[dict[str, Any]] = []
    for process, one in enumerate(profiles):
        events.append({"name": "process_name", "ph": "M", "pid": process, "args": {"name": one.title}})
        for thread in range(one.thread_count or 1):
            name = {"name": one.device if one.thread_count is None else f"thread {thread}"}
            events.append({"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": name})
        start = 0.0
        for kernel in one.kernels:
            shares = kernel.work if one.thread_count is not None else (kernel.seconds,)
            events += [_event(process, thread, kernel, start, work) for thread, work in enumerate(shares) if work]
            start += kernel.seconds
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=1)


def as_json(profile: Measurements) -> dict[str, Any]:
    """A profile for programs: seconds, bytes and floating-point operations. Without limits that are known ``machine``
    is None, and kernels have no ``bound_by``."""
    limits = profile.limits
    return {
        "title": profile.title,
        "seconds": profile.seconds,
        "instrumented_seconds": profile.instrumented_seconds,
        "kernel_seconds": profile.kernel_seconds,
        "runs": profile.runs,
        "temporary_bytes": profile.temporary_bytes,
        "alive_bytes": profile.alive_bytes,
        "thread_bytes": profile.thread_bytes,
        "device": profile.device,
        "machine": None if limits is None else _machine(limits),
        "kernels": [
            {
                "number": kernel.number,
                "title": kernel.title,
                "operators": list(kernel.operators),
                "nodes": list(kernel.nodes),
                "seconds": kernel.seconds,
                "work": list(kernel.work),
                "share": profile.share(kernel),
                "repetitions": kernel.repetitions,
                "bytes": kernel.bytes,
                "operations": kernel.operations,
                "integer_operations": kernel.integer_operations,
                **({} if limits is None else {"bound_by": kernel.bound_by(limits)}),
                "reads": [use._asdict() for use in kernel.reads],
                "writes": [use._asdict() for use in kernel.writes],
            }
            for kernel in profile.kernels
        ],
    }


def _machine(limits: MachineLimits) -> dict[str, Any]:
    return {
        "thread_count": limits.thread_count,
        "fma_peak": limits.fma_peak,
        "byte_peak": limits.byte_peak if limits.byte_peak < math.inf else None,
        "copies": [{"bytes": size, "bytes_per_second": rate} for size, rate in limits.copies],
    }


def _event(process: int, thread: int, kernel: KernelProfile, start: float, work: float) -> dict[str, Any]:
    return {
        "name": kernel.title,
        "cat": "kernel",
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": start * 1e6,
        "dur": work * 1e6,
        "args": {
            "kernel": kernel.number,
            "nodes": list(kernel.nodes),
            "repetitions": kernel.repetitions,
            "bytes": kernel.bytes,
            "operations": kernel.operations,
            "integer_operations": kernel.integer_operations,
        },
    }
