"""Measure attention beside PyTorch and ONNX Runtime over a grid of sizes, masks and ways of passing keys.

    python tools/measure_attention.py [--threads 2] [--only SUBSTRING] [--below 1.0] [--seconds 1.0]

prints a line for each case: the medians of all three in microseconds, and how many times as fast as the best peer
opendml is, in medians and in minima. The contestants take turns (``benchmarks.measure.race``), and their results are
compared first. It measures some minutes at full length; ``--only`` chooses cases by a part of their names.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MASKED: Final = -10000.0


@dataclass(frozen=True)
class Case:
    """``queries`` of ``heads`` heads of ``size`` elements, with as many new keys, behind ``past`` ones, or with
    ``keys``; ``mask``: none, lengths, boolean, causal or additive, the latter two as biases of all scores."""

    queries: int
    heads: int
    size: int
    keys: int = 0
    past: int = 0
    batch: int = 1
    mask: str = "none"
    is_stacked: bool = False
    dtype: str = "float32"

    @property
    def new(self) -> int:
        """New keys."""
        return self.keys or self.queries

    @property
    def name(self) -> str:
        """What ``--only`` looks in."""
        parts = [f"{self.queries} queries", f"{self.heads}x{self.size}"]
        parts += [f"{self.keys} keys"] * bool(self.keys) + [f"past {self.past}"] * bool(self.past)
        parts += [f"batch {self.batch}"] * (self.batch > 1) + [self.mask] * (self.mask != "none")
        return ", ".join(parts + ["stacked"] * self.is_stacked + [self.dtype] * (self.dtype != "float32"))


def cases() -> Iterator[Case]:
    """The grid: lengths by heads; decoder steps; masks; stacks; float16."""
    for length in (16, 64, 128, 384, 512, 1024, 2048, 4096, 8192):
        for heads, size in ((1, 64), (8, 64), (12, 64), (32, 128), (8, 32), (8, 80)):
            if length * length * heads * size <= 1 << 33:
                yield Case(length, heads, size)
    yield from (Case(1, heads, 64, past=past) for heads in (1, 12, 32) for past in (1, 16, 128, 512, 1024, 4096))
    yield from (Case(queries, 12, 64, keys=1024) for queries in (4, 15, 16, 32))
    for mask in ("lengths", "boolean", "causal", "additive"):
        yield from (Case(length, 12, 64, mask=mask) for length in (128, 384, 1024))
    yield from (Case(length, 12, 64, batch=8) for length in (16, 128))
    yield from (Case(length, 12, 64, is_stacked=True) for length in (128, 1024))
    yield from (Case(length, 12, 64, dtype="float16") for length in (128, 1024, 2048))


class Arrays:
    """The inputs of a case as DirectML has them."""

    def __init__(self, case: Case) -> None:
        random = np.random.default_rng(0)

        def uniform(*sizes: int) -> Array:
            return random.uniform(-1, 1, sizes).astype(case.dtype)

        rows, width = (case.batch, case.queries), case.heads * case.size
        self.query, self.key, self.value = (uniform(case.batch, n, width) for n in (case.queries, case.new, case.new))
        self.stack = uniform(*rows, case.heads, 3, case.size) if case.is_stacked else None
        if self.stack is not None:
            self.query, self.key, self.value = (
                np.ascontiguousarray(self.stack[..., n, :].reshape(*rows, width)) for n in range(3)
            )
        past = (case.batch, case.heads, case.past, case.size)
        self.past = (uniform(*past), uniform(*past)) if case.past else None
        total = case.past + case.new
        scores = (case.batch, case.heads, case.queries, total)
        self.lengths = np.full((1, case.batch), total * 3 // 4, np.int32) if case.mask == "lengths" else None
        self.boolean = random.integers(0, 2, scores).astype(np.int32) if case.mask == "boolean" else None
        self.bias: Array | None = None
        if case.mask == "additive":
            self.bias = uniform(*scores)
        elif case.mask == "causal":
            below = np.tri(case.queries, total, dtype=case.dtype)
            self.bias = np.ascontiguousarray(np.broadcast_to((below - 1) * -MASKED, scores))
        elif self.boolean is not None:
            self.bias = ((self.boolean == 0) * MASKED).astype(case.dtype)
        elif self.lengths is not None:
            hidden = np.arange(total) >= self.lengths.reshape(-1, 1, 1, 1)
            self.bias = np.broadcast_to(hidden * MASKED, (case.batch, 1, 1, total)).astype(case.dtype)


def own(case: Case, arrays: Arrays, threads: int) -> tuple[Callable[[], object], Array]:
    """The call of opendml, and its output."""
    from opendml import operators
    from opendml.description.tensor import TensorDesc
    from opendml.programs.device import Device

    output = np.empty((case.batch, case.queries, case.heads * case.size), case.dtype)
    inputs: dict[str, Array | None] = {"stacked_query_key_value_tensor": arrays.stack}
    if arrays.stack is None:
        inputs = {"query_tensor": arrays.query, "key_tensor": arrays.key, "value_tensor": arrays.value}
    if case.mask in ("boolean", "lengths"):
        inputs["mask_tensor"] = arrays.lengths if arrays.boolean is None else arrays.boolean
    else:
        inputs["relative_position_bias_tensor"] = arrays.bias
    if arrays.past is not None:
        inputs |= {"past_key_tensor": arrays.past[0], "past_value_tensor": arrays.past[1]}
    kinds = {"boolean": "BOOLEAN", "lengths": "KEY_SEQUENCE_LENGTH"}
    descs = {
        k: TensorDesc(str(a.dtype).upper(), a.shape)
        for k, a in (inputs | {"output_tensor": output}).items()
        if a is not None
    }
    operator = operators.MultiheadAttention(
        **descs,
        scale=case.size**-0.5,
        mask_filter_value=MASKED,
        head_count=case.heads,
        mask_type=kinds.get(case.mask, "NONE"),
    )
    program = Device("cpu", thread_count=threads).compile(operator)
    by_name = {"".join(part.capitalize() for part in name.split("_")): a for name, a in inputs.items()}
    return program.bind(
        [by_name.get(binding.name) for binding in program.inputs], [output, *[None] * (len(program.outputs) - 1)]
    ), output


def with_torch(case: Case, arrays: Arrays) -> tuple[Callable[[], object], list[Any]]:
    """PyTorch's call, on heads as they lie in the inputs, and where it leaves its result."""
    import torch

    q, k, v = (
        torch.from_numpy(a).unflatten(-1, (case.heads, case.size)).transpose(1, 2)
        for a in (arrays.query, arrays.key, arrays.value)
    )
    mask = None if arrays.bias is None else torch.from_numpy(arrays.bias)
    past = None if arrays.past is None else [torch.from_numpy(a) for a in arrays.past]
    results: list[Any] = [None]

    def run() -> None:
        keys, values = (k, v) if past is None else (torch.cat([past[0], k], 2), torch.cat([past[1], v], 2))
        found = torch.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        results[0] = found.transpose(1, 2).flatten(2)

    return run, results


def with_onnx_runtime(case: Case, arrays: Arrays, threads: int) -> tuple[Callable[[], object], Array]:
    """ONNX Runtime's MultiHeadAttention, and its output."""
    import onnxruntime
    from onnx import TensorProto, helper

    names = ("query", "key", "value", "", "", "attention_bias", "past_key", "past_value")
    past = arrays.past or (None, None)
    values = (arrays.query, arrays.key, arrays.value, None, None, arrays.bias, *past)
    feeds = {name: a for name, a in zip(names, values, strict=True) if a is not None}
    used = [name if name in feeds else "" for name in names]
    while not used[-1]:
        used.pop()
    output = np.empty((case.batch, case.queries, case.heads * case.size), case.dtype)
    kind = TensorProto.FLOAT16 if case.dtype == "float16" else TensorProto.FLOAT
    outputs = ["y", *["present_key", "present_value"] * bool(case.past)]  # else it leaves out what is past
    node = helper.make_node("MultiHeadAttention", used, outputs, domain="com.microsoft", num_heads=case.heads)
    graph = helper.make_graph(
        [node],
        "case",
        [helper.make_tensor_value_info(name, kind, a.shape) for name, a in feeds.items()],
        [helper.make_tensor_value_info("y", kind, output.shape)],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, a in feeds.items():
        binding.bind_input(name, "cpu", 0, a.dtype.type, a.shape, a.ctypes.data)
    binding.bind_output("y", "cpu", 0, output.dtype.type, output.shape, output.ctypes.data)
    return lambda: session.run_with_iobinding(binding), output


def measured(case: Case, threads: int, seconds: float) -> tuple[float, str]:
    """How many times as fast as the best peer opendml is, and the line that says so."""
    from benchmarks.measure import Effort, race

    arrays = Arrays(case)
    call, output = own(case, arrays, threads)
    calls: dict[str, Callable[[], object]] = {"opendml": call}
    calls["PyTorch"], results = with_torch(case, arrays)
    call()
    calls["PyTorch"]()
    tolerance = 5e-3 if case.dtype == "float16" else 1e-4
    worst = float(np.abs(output.astype(np.float64) - results[0].numpy()).max())
    note = "" if worst <= tolerance else f"  differs by {worst:.2g}"
    try:
        calls["ONNX Runtime"], found = with_onnx_runtime(case, arrays, threads)
        calls["ONNX Runtime"]()
        if not np.allclose(found, output, rtol=0, atol=tolerance):
            note += "  ONNX Runtime differs"
    except Exception as error:  # Its provider has no float16, for example.
        calls.pop("ONNX Runtime", None)
        note += f"  no ONNX Runtime: {type(error).__name__}"
    timings = race(calls, Effort(seconds, 5))
    medians = {name: timing.median for name, timing in timings.items()}
    ratio, least = (
        min(getattr(t, which) for name, t in timings.items() if name != "opendml") / getattr(timings["opendml"], which)
        for which in ("median", "minimum")
    )
    times = " ".join(f"{medians[name] * 1e6:10.1f}" if name in medians else "         -" for name in COLUMNS)
    return ratio, f"{case.name:48} {times} {ratio:6.2f} {least:6.2f}{note}"


COLUMNS: Final = ("opendml", "PyTorch", "ONNX Runtime")


def main() -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser(description="Measure attention beside PyTorch and ONNX Runtime.")
    parser.add_argument("--threads", type=int, default=2, help="threads of all contestants")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--below", type=float, default=float("inf"), help="print only cases with a smaller ratio")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a case is measured")
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENDML_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    import torch

    from benchmarks.measure import keep_freed_memory

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    keep_freed_memory()
    print(f"{'':48} " + " ".join(f"{name:>10.10}" for name in COLUMNS) + "   ratio of minima")
    for case in cases():
        if options.only in case.name:
            ratio, line = measured(case, options.threads, options.seconds)
            if ratio < options.below:
                print(line, flush=True)


if __name__ == "__main__":
    main()
