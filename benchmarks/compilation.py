"""How long users wait for code: first results of small graphs, and networks in new processes, compiled or from the
disk cache."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

import opendml as dml
from benchmarks.measure import Effort
from benchmarks.networks import Model, networks
from benchmarks.small import SmallResult, empty_cache
from benchmarks.timing import Timing
from opendml.llvm.object_cache import DIRECTORY_VARIABLE
from opendml.programs.graph_plan import RECENT

FIRST_RESULT: Final = 0.1
"""Seconds that the first result of a small graph may take."""

COLD: Final = 5.0
"""Seconds that a network may take that nobody has compiled before, with the import of the package."""

CACHED: Final = 0.3
"""The same for one that is in the disk cache."""

Array = npt.NDArray[np.float32]
Tensors = Sequence[dml.GraphTensor]


def measure_compilation(
    threads: int, effort: Effort, progress: Callable[[str], None] = lambda _: None
) -> Iterator[SmallResult]:
    """First results, and starts of all networks of float32 where PyTorch is there to make them."""
    rounds = max(effort.minimum_rounds, 5)
    progress("first results")
    yield from _first_results(threads, rounds)
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("onnx") is None:
        return
    with tempfile.TemporaryDirectory() as directory:
        yield from _starts(Path(directory), threads, rounds, progress)


# ------------------------------------------------------------------------------------------------------- small graphs


def _layers(tensors: Tensors) -> dml.GraphTensor:
    x, first, second = tensors
    return dml.activation_softmax(dml.gemm(dml.activation_relu(dml.gemm(x, first)), second), axes=[1])


def _bottleneck(tensors: Tensors) -> dml.GraphTensor:
    x, narrow, middle, wide = tensors
    y = dml.activation_relu(dml.convolution(x, narrow))
    y = dml.activation_relu(dml.convolution(y, middle, start_padding=[1, 1], end_padding=[1, 1]))
    return dml.activation_relu(dml.convolution(y, wide) + x)


def _attention(tensors: Tensors) -> dml.GraphTensor:
    queries, keys, values = tensors
    return dml.gemm(dml.activation_softmax(dml.gemm(queries, keys) * 0.125, axes=[3]), values)


def _normalization(tensors: Tensors) -> dml.GraphTensor:
    x, scale, bias = tensors
    return dml.activation_gelu(dml.mean_variance_normalization(x, scale, bias, axes=[2])) + x


def _step(tensors: Tensors) -> dml.GraphTensor:
    found = dml.lstm(*tensors).single
    assert found is not None
    return found


# Sizes that differ from sample to sample, so that nothing of one compilation helps the next.
_GRAPHS: Final[dict[str, tuple[Callable[[Tensors], dml.GraphTensor], Callable[[int], list[tuple[int, ...]]]]]] = {
    "two layers and softmax": (_layers, lambda n: [(16 + n, 64), (64, 128), (128, 10)]),
    "bottleneck of convolutions": (
        _bottleneck,
        lambda n: [(1, 64, 14 + n, 14), (16, 64, 1, 1), (16, 16, 3, 3), (64, 16, 1, 1)],
    ),
    "attention": (_attention, lambda n: [(1, 4, 32 + n, 16), (1, 4, 16, 32 + n), (1, 4, 32 + n, 16)]),
    "layer normalization and GELU": (_normalization, lambda n: [(1, 16 + n, 64), (1, 1, 64), (1, 1, 64)]),
    "LSTM, two steps": (_step, lambda n: [(1, 2, 1, 32 + n), (1, 1, 256, 32 + n), (1, 1, 256, 64)]),
}


def _first_results(threads: int, rounds: int) -> Iterator[SmallResult]:
    """From the first line that states a graph to its result, with an empty cache directory, in a process that has
    compiled another graph before."""
    device = dml.Device("cpu", thread_count=threads)
    random = np.random.default_rng(0)
    for name, (build, sizes) in _GRAPHS.items():
        samples = []
        for sample in range(rounds + 1):
            arrays = [random.normal(size=one).astype(np.float32) for one in sizes(sample)]
            with empty_cache():
                samples.append(_seconds_to_result(device, build, arrays))
        yield SmallResult(f"{name}: first result", Timing.of(samples[1:]), FIRST_RESULT)


def _seconds_to_result(
    device: dml.Device, build: Callable[[Tensors], dml.GraphTensor], arrays: Sequence[Array]
) -> float:
    start = time.perf_counter()
    graph = dml.Graph(device)
    inputs = [graph.input("float32", array.shape) for array in arrays]
    graph.compile(build(inputs))(*arrays)
    return time.perf_counter() - start


# ---------------------------------------------------------------------------------------------------------- processes

_TIMED: Final = """
import sys, time
start = time.perf_counter()
{}
print(time.perf_counter() - start)
"""

_OPENDML: Final = _TIMED.format("import opendml; opendml.load(sys.argv[1]).compile()")

_ONNX_RUNTIME: Final = _TIMED.format(
    "import numpy, onnxruntime; onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"
)


def _starts(directory: Path, threads: int, rounds: int, progress: Callable[[str], None]) -> Iterator[SmallResult]:
    """Networks compiled in new processes, then taken from the cache in others; beside them ONNX Runtime's sessions."""
    for number, network in enumerate(networks()):
        if network.batch > 1 or network.quantize is not None or network.is_half:
            continue
        progress(f"compilation: {network.name}")
        file = directory / f"{number}.onnx"
        file.write_bytes(Model(network, threads).onnx)
        yield from _starts_of(network.name, file, threads, rounds)
        file.unlink()


def _starts_of(name: str, file: Path, threads: int, rounds: int) -> Iterator[SmallResult]:
    caches = [file.with_suffix(f".{sample}") for sample in range(2)]
    cold = [_seconds_of_start(_OPENDML, file, cache, threads) for cache in caches]
    yield SmallResult(f"{name}: compiled by a new process", Timing.of(cold), COLD)
    _let_settle(file, caches[0], threads)
    cached = [_seconds_of_start(_OPENDML, file, caches[0], threads) for _ in range(rounds)]
    yield SmallResult(f"{name}: from the disk cache, in a new process", Timing.of(cached), CACHED)
    if importlib.util.find_spec("onnxruntime") is not None:
        theirs = [_seconds_of_start(_ONNX_RUNTIME, file, caches[0], threads) for _ in range(rounds)]
        yield SmallResult(f"{name}: ONNX Runtime, in a new process", Timing.of(theirs))


def _let_settle(file: Path, cache: Path, threads: int) -> None:
    """Wait until a file counts as one that has not changed, as those that users have do, and one process knows that."""
    time.sleep(max(file.stat().st_mtime + RECENT / 1e9 - time.time(), 0) + 0.1)
    _seconds_of_start(_OPENDML, file, cache, threads)


def _seconds_of_start(program: str, file: Path, cache: Path, threads: int) -> float:
    """What a new process takes for the imports, of modules whose byte code is kept as usual, and the model."""
    environment = os.environ | {DIRECTORY_VARIABLE: str(cache), "OPENDML_NUM_THREADS": str(threads)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    arguments = [sys.executable, "-c", program, str(file)]
    done = subprocess.run(arguments, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout))
