"""The race: all contestants of a case by turns, after their results have been compared.

Noise of the machine meets all alike, because the contestants take turns within a case. Before its turn each waits until
the threads of the one before have stopped spinning, and makes one call that is not timed.
"""

from __future__ import annotations

import ctypes
import gc
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.cases import Case, Work
from benchmarks.chains import Chain
from benchmarks.matrix_layers import MatrixProduct
from benchmarks.peers import Array, Buffers, Call, Contestant, Prepared, Unsupported, make_buffers
from benchmarks.quantized_layers import QuantizedLayer
from benchmarks.timing import OPENDML, Outcome, Timing
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.enums import ReduceFunction

SAMPLE_SECONDS = 0.0005
"""A sample is so many calls that it takes at least this long."""

WARMING_SECONDS = 0.001
"""A contestant is called for so long before its sample: its threads are awake then."""

MAXIMUM_ROUNDS = 101


@dataclass(frozen=True)
class Effort:
    """How long a case is measured: until ``seconds`` have passed, but for ``minimum_rounds`` at least."""

    seconds: float
    minimum_rounds: int


@dataclass
class Result(Outcome):
    """A measured case."""

    case: Case


def run_case(case: Case, contestants: Sequence[Contestant], effort: Effort) -> Result:
    """Compare the contestants' results, then time them."""
    result = Result(case)
    buffers = make_buffers(case.operator, case.values)
    if case.fill is not None:
        case.fill(buffers.inputs)
    racers: dict[str, Prepared] = {}
    expected: list[Array] | None = None
    for contestant in contestants:
        try:
            ways = contestant.prepare(case.operator, buffers)
            for way in ways:
                found = _comparable(case.operator, _results(way, buffers))
                if expected is None:
                    expected = found
                elif not _agree(found, expected, tolerance(case.operator)):
                    result.faults[contestant.name] = "differs"
            if contestant.name not in result.faults:
                racers[contestant.name] = fastest(ways)
        except Unsupported as reason:
            result.absent[contestant.name] = str(reason)
        except Exception as error:  # The libraries raise errors of their own for types that they do not have.
            where = result.faults if contestant.name == OPENDML else result.absent
            where[contestant.name] = f"{type(error).__name__}: {error}".splitlines()[0]
    result.timings = race({name: racer.run for name, racer in racers.items()}, effort)
    return result


def race(calls: Mapping[str, Call], effort: Effort) -> dict[str, Timing]:
    """Times calls by turns, beginning each round with another one."""
    names = list(calls)
    repeats = {name: _repeats(call) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + effort.seconds
    gc.collect()
    gc.disable()
    try:
        for turn in range(MAXIMUM_ROUNDS):
            if turn >= effort.minimum_rounds and time.perf_counter() > end:
                break
            first = turn % max(len(names), 1)
            for name in names[first:] + names[:first]:
                _wait_for_quiet()
                _warm(calls[name])
                samples[name].append(seconds_of(calls[name], repeats[name]))
    finally:
        gc.enable()
    return {name: Timing.of(times) for name, times in samples.items()}


def _warm(call: Call) -> None:
    end = time.perf_counter() + WARMING_SECONDS
    call()
    while time.perf_counter() < end:
        call()


def seconds_of(call: Call, repeats: int = 1) -> float:
    """The mean time of a call."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def fastest(ways: Sequence[Prepared]) -> Prepared:
    """The way that takes the least time in a few calls."""
    if len(ways) == 1:
        return ways[0]
    return min(ways, key=lambda way: min(seconds_of(way.run) for _ in range(4)))


@dataclass(frozen=True)
class Tolerance:
    """How far results may differ: ``relative`` to the expected value, plus ``absolute``."""

    relative: float = 0.0
    absolute: float = 0.0


LARGE_GROUP: Final = 1 << 20
"""Elements whose mean is off by 1e-3 in a library that adds them one after the other in float32."""


def tolerance(operator: Work) -> Tolerance:
    """None but where every library rounds in its own way: sums, whose order it chooses, mathematical functions, and
    products of scales: what is quantized by them may be one off."""
    if isinstance(operator, operators.Reduce):
        is_sum = operator.function in (ReduceFunction.SUM, ReduceFunction.AVERAGE)
        return Tolerance(1e-3) if is_sum else Tolerance()
    if isinstance(operator, operators.Gemm | operators.Convolution | MatrixProduct):
        return Tolerance(1e-3)
    if isinstance(operator, QuantizedLayer):
        return Tolerance(1e-6, 1.0)
    if isinstance(operator, operators.MeanVarianceNormalization1):
        sizes = operator.input_tensor.sizes
        if math.prod(sizes[axis] for axis in operator.axes) >= LARGE_GROUP:
            return Tolerance(1e-3, 2e-3)
    return Tolerance(1e-3, 1e-4) if isinstance(operator, (Chain, *_ROUNDED)) else Tolerance()


_ROUNDED: tuple[type[Operator], ...] = (
    operators.ElementWiseExp,
    operators.ElementWiseSqrt,
    operators.ElementWiseErf,
    operators.ActivationSigmoid,
    operators.ActivationTanh,
    operators.ActivationGelu,
    operators.ActivationSoftplus,
    operators.ActivationSoftmax1,
    operators.ActivationLogSoftmax1,
    operators.MeanVarianceNormalization1,
    operators.LocalResponseNormalization,
    operators.LocalResponseNormalizationGrad,
    operators.CumulativeSummation,
    operators.BatchNormalization,
    operators.AveragePoolingGrad,
    operators.MaxPoolingGrad,
    operators.Resample1,
    operators.ResampleGrad,
    operators.RoiAlign,
    operators.RoiAlignGrad,
    operators.BatchNormalizationTraining,
    operators.BatchNormalizationTrainingGrad,
    operators.BatchNormalizationGrad,
    operators.AdamOptimizer,
    operators.Fold,
    operators.Rnn,
    operators.Gru,
    operators.Lstm,
    operators.MultiheadAttention,
)


def keep_freed_memory() -> None:
    """Let the C library keep memory that was freed, so that peers which allocate their results get warm pages.

    By default it gives large blocks back to the system, and the next call pays for clearing them again.
    """
    if sys.platform == "linux":
        trim_threshold, map_maximum = -1, -4
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(trim_threshold, -1)
            mallopt(map_maximum, 0)


def _results(way: Prepared, buffers: Buffers) -> list[Array]:
    for output in buffers.outputs:
        output[...] = 99  # What another contestant wrote must not count.
    way.run()
    return [np.array(array) for array in way.results()]


def _comparable(operator: Work, results: list[Array]) -> list[Array]:
    """Without positions that the contestants choose as they like where elements are equal, and without random bits."""
    if isinstance(operator, operators.RandomGenerator):
        return []
    return results[:1] if isinstance(operator, operators.TopK1) else results


def _agree(found: Sequence[Array], expected: Sequence[Array], allowed: Tolerance) -> bool:
    pairs = [(a.reshape(b.shape), b) for a, b in zip(found, expected, strict=True)]
    if allowed.relative:
        return all(np.allclose(a, b, rtol=allowed.relative, atol=allowed.absolute) for a, b in pairs)
    return all(np.array_equal(a, b) for a, b in pairs)


def _repeats(call: Call) -> int:
    fastest = min(seconds_of(call) for _ in range(3))
    return max(1, min(math.ceil(SAMPLE_SECONDS / max(fastest, 1e-9)), 10_000))


def _wait_for_quiet(limit: float = 0.2) -> None:
    """Sleep until no thread of this process is computing: thread pools spin for up to 30 ms after a call.

    The kernel books the time of threads on other processors a tick (4 to 10 ms) late, so a shorter look sees nothing.
    """
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        used = time.process_time()
        time.sleep(0.02)
        if time.process_time() - used < 0.002:
            return
