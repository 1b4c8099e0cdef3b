"""Several Python threads that compile, initialise and run different programs at once get what one thread alone gets."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from execution import ALL_THREADS, ALL_TYPES, assert_identical
from properties import SHARE

import opendml as dml
from opendml import operators as op
from opendml.description.tensor import TensorDesc

Array = np.ndarray[Any, Any]

PYTHON_THREADS: Final = 6
ROUNDS: Final = max(round(40 * SHARE), 10)
FRESH_ROUNDS: Final = 6 if SHARE >= 1 else 2


class Job(NamedTuple):
    """Something that a user does: ``make`` compiles it for a number of threads, and the result runs it."""

    name: str
    make: Callable[[int], Callable[[], Sequence[Array]]]


def _array(seed: int, *sizes: int) -> Array:
    return np.random.default_rng(seed).normal(size=sizes).astype(np.float32)


def _operator(desc: Any, *arrays: Array | None) -> Callable[[int], Callable[[], Sequence[Array]]]:
    def make(threads: int) -> Callable[[], Sequence[Array]]:
        program = dml.Device(thread_count=threads, tuning=ALL_THREADS).compile(desc)

        def run() -> Sequence[Array]:
            results = program(*arrays)
            return results if isinstance(results, tuple) else (results,)

        return run

    return make


def _operators() -> list[Job]:
    """Maps, folds with lanes, contractions, scans, scatters, and those with temporaries between statements."""
    data = TensorDesc("float32", [3, 5, 33, 40])
    x, rows = _array(0, *data.sizes), TensorDesc("float32", [60, 300])
    chosen = np.random.default_rng(1).integers(0, 60, (60, 300)).astype(np.uint32)
    pooled = TensorDesc("float32", [3, 5, 16, 20])
    pooling = op.MaxPooling1(
        input_tensor=data,
        output_tensor=pooled,
        output_indices_tensor=TensorDesc("uint32", pooled.sizes),
        strides=[2, 2],
        window_size=[2, 2],
        start_padding=[0, 0],
        end_padding=[0, 0],
    )
    scatter = op.ScatterElements(
        input_tensor=rows,
        indices_tensor=TensorDesc("uint32", rows.sizes),
        updates_tensor=rows,
        output_tensor=rows,
        axis=0,
    )
    product = op.Gemm(
        a_tensor=rows,
        b_tensor=TensorDesc("float32", [300, 50]),
        output_tensor=TensorDesc("float32", [60, 50]),
        trans_a="NONE",
        trans_b="NONE",
        alpha=1,
        beta=0,
    )
    totals = op.CumulativeSummation(
        input_tensor=data, output_tensor=data, axis=2, axis_direction="INCREASING", has_exclusive_sum=False
    )
    sums = op.Reduce(function="SUM", input_tensor=rows, output_tensor=TensorDesc("float32", [60, 1]), axes=[1])
    normalised = op.MeanVarianceNormalization1(
        input_tensor=data, output_tensor=data, axes=[0, 2, 3], normalize_variance=True, epsilon=1e-5
    )
    return [
        Job("max pooling", _operator(pooling, x)),
        Job("scatter", _operator(scatter, _array(2, 60, 300), chosen, _array(3, 60, 300))),
        Job("gemm", _operator(product, _array(4, 60, 300), _array(5, 300, 50), None)),
        Job("running totals", _operator(totals, x)),
        Job("sums", _operator(sums, _array(6, 60, 300))),
        Job("normalisation", _operator(normalised, x, None, None)),
    ]


def _classifier(threads: int) -> Callable[[], Sequence[Array]]:
    """A graph with weights OWNED_BY_DML: initialised anew before every run."""
    graph = dml.Graph(dml.Device(thread_count=threads, tuning=ALL_THREADS))
    x = graph.input("float32", [4, 64], name="x")
    w = graph.input("float32", [64, 32], name="w", owned_by_dml=True)
    hidden = dml.activation_relu(dml.gemm(x, w * 0.5) + _array(7, 32).reshape(1, 32))
    program = graph.compile(dml.activation_softmax(hidden, axes=[1]))

    def run() -> Sequence[Array]:
        program.initialize(w=_array(8, 64, 32))
        return (program(_array(9, 4, 64)),)

    return run


def _network(threads: int) -> Callable[[], Sequence[Array]]:
    """A graph of many kernels with barriers between them, bound once."""
    graph = dml.Graph(dml.Device(thread_count=threads, tuning=ALL_THREADS))
    image = graph.input("float32", [1, 3, 24, 24], name="image")
    y = image
    for layer, channels in enumerate((8, 8, 12)):
        weights = _array(20 + layer, channels, y.sizes[1], 3, 3)
        y = dml.activation_relu(dml.convolution(y, weights, start_padding=[1, 1], end_padding=[1, 1]))
        y = dml.mean_variance_normalization(y, None, None, axes=[2, 3])
    pooled = dml.max_pooling(y, window_size=[2, 2], strides=[2, 2], output_indices=True)
    program = graph.compile([pooled.values, dml.reduce(y, "LOG_SUM_EXP", axes=[1, 2, 3]), pooled.indices])
    bound = program.bind(_array(30, 1, 3, 24, 24))

    def run() -> Sequence[Array]:
        for result in bound.results:
            result[...] = 0
        bound()
        return [result.copy() for result in bound.results]

    return run


def _functions(_: int) -> Callable[[], Sequence[Array]]:
    """Functions on arrays, which share one cache of programs."""
    x = _array(40, 12, 50)

    def run() -> Sequence[Array]:
        parts = dml.split(x, axis=1, output_axis_sizes=[20, 30])
        return [dml.join([parts[1], parts[0]], axis=1), dml.activation_tanh(parts[0]), x + dml.activation_elu(x)]

    return run


def _refused(_: int) -> Callable[[], Sequence[Array]]:
    """A descriptor that does not validate, with as many violations every time."""
    sizes = [[2, 3], [2, 4], [3, 3]]

    def run() -> Sequence[Array]:
        a, b, c = (TensorDesc(data_type, s) for data_type, s in zip(ALL_TYPES[1:4], sizes, strict=True))
        with pytest.raises(dml.InvalidDescriptorError) as caught:
            dml.Device().compile(op.ElementWiseAdd(a_tensor=a, b_tensor=b, output_tensor=c))
        return (np.array([len(caught.value.violations)]),)

    return run


def jobs() -> list[Job]:
    """All of them."""
    graphs = [Job("classifier", _classifier), Job("network", _network)]
    return [*_operators(), *graphs, Job("functions", _functions), Job("refused", _refused)]


@pytest.mark.sampled
@pytest.mark.parametrize("fresh", [False, True])
def test_different_programs_at_once(fresh: bool) -> None:
    """Every thread runs all programs in an order of its own, and now and then compiles them anew (``fresh``)."""
    work = jobs()
    expected = {job.name: job.make(1)() for job in work}
    together = threading.Barrier(PYTHON_THREADS)
    errors: list[BaseException] = []

    def live(number: int) -> None:
        try:
            order = random.Random(number)
            runs = {job.name: job.make(1 + number % 4) for job in work}
            together.wait()
            for _ in range(FRESH_ROUNDS if fresh else ROUNDS):
                for job in order.sample(work, len(work)):
                    run = job.make(order.randint(1, 5)) if fresh else runs[job.name]
                    for actual, wanted in zip(run(), expected[job.name], strict=True):
                        assert_identical(actual, wanted)
        except BaseException as error:
            together.abort()
            errors.append(error)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(PYTHON_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
