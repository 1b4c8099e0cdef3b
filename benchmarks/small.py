"""What one small operator costs: calls on 1 KiB, and compilations."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import opendml as dml
from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.measure import Effort, race, run_case
from benchmarks.peers import Contestant, Opendml, make_buffers
from benchmarks.timing import OPENDML, Timing
from opendml.description.descriptors import Operator
from opendml.description.enums import ReduceFunction
from opendml.llvm.object_cache import DIRECTORY_VARIABLE

ELEMENTS = 256


@dataclass(frozen=True)
class SmallResult:
    """A row of the table: what was done, how long it took, and the most that it should take, in seconds."""

    name: str
    timing: Timing | None
    aim: float | None = None

    @property
    def is_met(self) -> bool | None:
        """None without an aim or a timing."""
        return None if self.timing is None or self.aim is None else self.timing.median <= self.aim


def measure_small(contestants: Sequence[Contestant], threads: int, effort: Effort) -> Iterator[SmallResult]:
    """Calls and compilations of small operators."""
    yield from _calls(contestants, effort)
    yield from _compilations(threads, effort)


def _calls(contestants: Sequence[Contestant], effort: Effort) -> Iterator[SmallResult]:
    """An addition of two float32 vectors of 1 KiB."""
    operator = cases.add("FLOAT32", (1, 1, 1, ELEMENTS))
    result = run_case(Case("small", "add", operator), contestants, effort)
    yield SmallResult("add, 1 KiB: bound call", result.timings.get(OPENDML), 5e-6)
    yield SmallResult("add, 1 KiB: eager call", _eager(operator, effort), 3e-6)
    for name, timing in result.timings.items():
        if name != OPENDML:
            yield SmallResult(f"add, 1 KiB: {name}", timing)


def _eager(operator: Operator, effort: Effort) -> Timing | None:
    """``dml.add(a, b)``, which allocates its result; None as long as there is no such function."""
    function: Callable[..., Any] | None = getattr(dml, "add", None)
    if function is None:
        return None
    a, b = make_buffers(operator).inputs
    return race({"eager": lambda: function(a, b)}, effort)["eager"]


# Descriptors that differ from sample to sample, so that nothing of one compilation helps the next.
_COMPILED: dict[str, Callable[[int], Operator]] = {
    "add": lambda n: cases.add("FLOAT32", (1, 1, 1, ELEMENTS + n)),
    "slice1 -2": lambda n: cases.slice1("FLOAT32", (1, 8, 64, 64 + n), {3: -2}),
    "max pooling 3x3/2 with indices": lambda n: cases.max_pooling("FLOAT32", (1, 8, 64, 64 + n), 3, 2, 1, indices=True),
    "reduce sum": lambda n: cases.reduce(ReduceFunction.SUM, "FLOAT32", (1, 8, 64, 64 + n), (3,)),
}


def _compilations(threads: int, effort: Effort) -> Iterator[SmallResult]:
    """Compilations with an empty cache directory, and again with what the first one left there."""
    device = dml.Device("cpu", thread_count=threads)
    Opendml(threads).prepare(cases.add("FLOAT32", (ELEMENTS,)), make_buffers(cases.add("FLOAT32", (ELEMENTS,))))
    for name, build in _COMPILED.items():
        cold, cached = [], []
        for sample in range(max(effort.minimum_rounds, 5)):
            operator = build(sample)
            with empty_cache():
                cold.append(_seconds_to_compile(device, operator))
                cached.append(_seconds_to_compile(device, operator))
        yield SmallResult(f"{name}: cold compilation", Timing.of(cold), 0.150)
        yield SmallResult(f"{name}: from the disk cache", Timing.of(cached), 0.010)


def _seconds_to_compile(device: dml.Device, operator: Operator) -> float:
    start = time.perf_counter()
    device.compile(operator)
    return time.perf_counter() - start


@contextmanager
def empty_cache() -> Iterator[None]:
    """Inside, the disk cache is a directory that nobody has used before."""
    before = os.environ.get(DIRECTORY_VARIABLE)
    with tempfile.TemporaryDirectory() as directory:
        os.environ[DIRECTORY_VARIABLE] = directory
        try:
            yield
        finally:
            if before is None:
                del os.environ[DIRECTORY_VARIABLE]
            else:
                os.environ[DIRECTORY_VARIABLE] = before
