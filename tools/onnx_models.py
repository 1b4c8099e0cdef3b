"""Runs an ONNX model beside ONNX Runtime's CPU provider, and says how far apart and how fast they are.

    python tools/onnx_models.py model.onnx --size batch=1 x=1x3x48x320
    python tools/onnx_models.py model.onnx --value sr=16000 --repeat 50

Inputs are random: floats from a normal distribution, integers from 0 to 99, numbers of a range (``--range 0 1``, as
for pixels), or zeros (``--zeros``, as for states). The
relative error is that of the largest difference to the largest expected element. Times are medians, taken in turns in
one process.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from number_ranges import Range

import opendml as dml


def parse(items: list[str]) -> dict[str, Any]:
    """``batch=1`` and ``x=1x3x224x224`` as sizes, or numbers as values."""
    found: dict[str, Any] = {}
    for item in items:
        name, _, text = item.rpartition("=")
        numbers = [int(one) for one in text.split("x")] if "x" in text else int(text)
        found[name] = numbers
    return found


def arrays_for(
    program: dml.OnnxProgram, zeros: Sequence[str], seed: int, numbers: Range | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """Random arrays for what is left open, of ``numbers`` if these are given."""
    random = np.random.default_rng(seed)
    found = {}
    for info in program.inputs:
        sizes = tuple(size for size in info.sizes or () if isinstance(size, int))
        assert len(sizes) == len(info.sizes or ()), info
        kind = np.dtype(info.data_type)
        if info.name in zeros:
            data: Any = np.zeros(sizes)
        elif numbers is not None:
            data = numbers.draw(random, sizes)
        else:
            data = random.integers(0, 100, sizes) if kind.kind in "iu" else random.standard_normal(sizes)
        found[info.name] = np.asarray(data).astype(kind)
    return found


def timed(calls: list[Callable[[], Any]], repeat: int) -> list[float]:
    """Medians in milliseconds."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeat):
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(taken) for taken in times]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--size", nargs="+", default=[], help="of dimensions and inputs that are left open")
    parser.add_argument("--value", nargs="+", default=[], help="of inputs that decide sizes and branches")
    parser.add_argument("--zeros", nargs="+", default=[], help="inputs that are zeros")
    parser.add_argument("--range", nargs=2, type=float, metavar=("LOW", "HIGH"), help="of the numbers of other inputs")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=1e-3, help="relative error above which the exit code is 1")
    options = parser.parse_args()
    import onnxruntime

    start = time.perf_counter()
    model = dml.load(options.model)
    assert isinstance(model, dml.OnnxModel)
    loaded = time.perf_counter()
    program = model.compile(sizes=parse(options.size), values=parse(options.value))
    compiled = time.perf_counter()
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(options.model, settings, providers=["CPUExecutionProvider"])
    created = time.perf_counter()
    print(f"{options.model.name} {' '.join(options.size)}: read in {loaded - start:.2f} s, compiled in", end=" ")
    print(f"{compiled - loaded:.2f} s; ONNX Runtime's session in {created - compiled:.2f} s")
    numbers = None if options.range is None else Range(*options.range)
    worst = 0.0
    for seed in range(options.seeds):
        arrays = arrays_for(program, options.zeros, seed, numbers)
        given = arrays | program.values
        expected = session.run(None, given)
        for (name, found), wanted in zip(program.run(arrays).items(), expected, strict=True):
            if found.shape != wanted.shape or found.dtype != wanted.dtype:
                print(f"  {name}: {found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}")
                worst = np.inf
                continue
            difference = np.abs(found.astype("d") - wanted.astype("d")).max(initial=0)
            error = float(difference / max(np.abs(wanted.astype("d")).max(initial=0), 1e-30))
            if seed == 0:
                print(f"  {name} {list(found.shape)}: relative error {error:.1e}")
            worst = max(worst, error)
    ours, theirs = timed([lambda: program.run(arrays), lambda: session.run(None, given)], options.repeat)
    print(f"  worst error {worst:.1e}; {ours:.3f} ms, ONNX Runtime {theirs:.3f} ms, ratio {theirs / ours:.2f}")
    return 1 if not worst <= options.tolerance else 0


if __name__ == "__main__":
    sys.exit(main())
