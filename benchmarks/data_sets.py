"""``python -m benchmarks.data_sets``: rows a second of a model over a data set.

One process batch after batch, also with ONNX Runtime, ``dml.distributed.map`` here, the same on a local cluster of
Ray, and ONNX Runtime as Ray's actors, with as many processors each. What the two runtimes differ by in one process is
none of Ray's doing. The rate is that from when a quarter of the rows is done, behind compilation and the start of the
actors; the time of all is that of everything but for Ray's own start, whose processes would take the first one's time.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import opendml as dml

Array = npt.NDArray[Any]

CHANNELS = 32


def model_of(size: int) -> bytes:
    """Two convolutions, a pooling over the image and a product: images of ``size`` by ``size`` to ten numbers."""
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    weights = {
        "first": (CHANNELS, 3, 3, 3),
        "second": (CHANNELS, CHANNELS, 3, 3),
        "dense": (CHANNELS, 10),
    }
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "second"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("ReduceMean", ["d"], ["e"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["e", "dense"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "images",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
        [
            numpy_helper.from_array(random.standard_normal(shape, np.float32) * np.float32(0.1), name)
            for name, shape in weights.items()
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    data: bytes = made.SerializeToString()
    return data


class OnnxRuntimeWorker:
    """An actor of Ray with a session of ONNX Runtime, as its documentation has it."""

    def __init__(self, model: bytes, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def __call__(self, batch: dict[str, Array]) -> dict[str, Array]:
        return {"y": self._session.run(["y"], {"x": batch["x"]})[0]}


Times = list[tuple[int, float]]
"""How many rows were done, and when."""


def contestants(model: bytes, rows: Array, batch: int, threads: int) -> Iterator[tuple[str, Callable[[Times], Array]]]:
    """What computes the outputs of all rows, by name, and notes how far it is; Ray starts before the first that is its
    own."""
    program = dml.load(model).compile(dml.Device(thread_count=threads), sizes={"batch": batch})  # type: ignore[union-attr]

    def one_process(times: Times) -> Array:
        parts = []
        for first in range(0, len(rows), batch):
            parts.append(program.run({"x": rows[first : first + batch]})["y"])
            times.append((first + batch, time.perf_counter()))
        return np.concatenate(parts)

    def here(times: Times) -> Array:
        def progress(share: float) -> None:
            times.append((round(share * len(rows)), time.perf_counter()))

        results = dml.distributed.map(model, {"x": rows}, batch_size=batch, workers=threads, progress=progress)
        found: Array = results["y"]
        return found

    yield "one process, all threads", one_process
    yield "map, here", here
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return
    worker = OnnxRuntimeWorker(model, threads)

    def peer_in_one_process(times: Times) -> Array:
        parts = []
        for first in range(0, len(rows), batch):
            parts.append(worker({"x": rows[first : first + batch]})["y"])
            times.append((first + batch, time.perf_counter()))
        return np.concatenate(parts)

    yield "ONNX Runtime, one process", peer_in_one_process
    try:
        import ray
        import ray.data
    except ImportError:
        return

    def begin() -> None:
        """Ray with as many processes as it starts beforehand, which have done something."""
        ray.init(num_cpus=threads + 1, include_dashboard=False, log_to_driver=False, configure_logging=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        ray.data.range(8 * threads).map_batches(lambda batch: batch, batch_size=1).materialize()

    def start() -> Any:
        dataset = ray.data.from_numpy([rows[first : first + batch] for first in range(0, len(rows), batch)])
        dataset.context.execution_options.preserve_order = True
        return dataset

    def collected(results: Any, times: Times) -> Array:
        parts: list[Array] = []
        for part in results.iter_batches(batch_size=None, batch_format="numpy"):
            parts.append(part["y"])
            times.append((sum(map(len, parts)), time.perf_counter()))
        return np.concatenate(parts)

    def with_opendml(times: Times) -> Array:
        mapped = dml.distributed.map(model, start(), columns={"x": "data"}, batch_size=batch, workers=threads)
        return collected(mapped, times)

    def with_onnx_runtime(times: Times) -> Array:
        mapped = (
            start()
            .rename_columns({"data": "x"})
            .map_batches(
                OnnxRuntimeWorker,
                fn_constructor_args=(model, 1),
                batch_size=batch,
                compute=ray.data.ActorPoolStrategy(size=threads),
                num_cpus=1,
            )
        )
        return collected(mapped, times)

    begin()
    yield "map, Ray", with_opendml
    yield "ONNX Runtime, Ray", with_onnx_runtime


def steady_rate(times: Times) -> float:
    """Rows a second from when a quarter was done."""
    total = times[-1][0]
    rows, begun = next((rows, when) for rows, when in times if rows >= total / 4)
    return (total - rows) / max(times[-1][1] - begun, 1e-9)


def main() -> int:
    """Measures and prints; 1 where results differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data_sets", description=__doc__)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--size", type=int, default=64, help="height and width of the images")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    values = parser.parse_args()
    os.environ["OPENDML_NUM_THREADS"] = str(values.threads)
    rows = np.random.default_rng(1).standard_normal((values.rows, 3, values.size, values.size), np.float32)
    expected: Array | None = None
    for name, run in contestants(model_of(values.size), rows, values.batch, values.threads):
        times: Times = []
        started = time.perf_counter()
        result = run(times)
        expected = result if expected is None else expected
        if not np.allclose(result, expected, rtol=1e-3, atol=1e-4):
            print(f"{name}: wrong")
            return 1
        print(f"{name:26}{steady_rate(times):10.0f} rows/s   all in {times[-1][1] - started:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
