"""Whole networks, float32 and batch 1: those of ``examples/networks``, which PyTorch, its compiler, ONNX Runtime and
OpenVINO run with the same parameters."""

from __future__ import annotations

import importlib
import io
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

import opendml as dml
from benchmarks.measure import Effort, Outcome, fastest, race
from benchmarks.peers import EAGER, OPENDML, Array, Call, Prepared, Unsupported

DIRECTORY: Final = Path(__file__).resolve().parent.parent / "examples" / "networks"

NETWORKS: Final = {
    "mnist": "MNIST",
    "squeezenet": "SqueezeNet 1.1",
    "mobilenet_v2": "MobileNetV2",
    "resnet50": "ResNet-50",
    "transformer_encoder": "transformer encoder, 4 layers",
}
"""The modules of the examples, and what the table calls them."""

RELATIVE_ERROR: Final = 1e-3
"""How far a result may be from opendml's, relative to its largest element: less than any narrower type would give."""

COMPILE, ONNX_RUNTIME, OPENVINO = "torch.compile", "ONNX Runtime", "OpenVINO"


@dataclass(frozen=True)
class Kernel:
    """A kernel of opendml's program in the run in which it was fastest. ``title``: its number, what it computes and the
    sizes of its first result; ``share``: its part of the time of all; ``efficiency``: which part of its time the
    machine needs at least to move its bytes or to compute, as ``opendml profile`` tells it."""

    title: str
    seconds: float
    share: float
    efficiency: float


@dataclass
class NetworkResult(Outcome):
    """A measured network."""

    name: str
    kernels: list[Kernel] = field(default_factory=list)


class Model:
    """A network of the examples with its parameters, and one input for all contestants."""

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        self.threads = threads
        self.graph = dml.Graph(dml.Device("cpu", thread_count=threads))
        self.network = importlib.import_module(name).build(self.graph)
        self.program = self.graph.compile(self.network.output)
        self.input: Array = importlib.import_module("layers").random_input(self.program)

    @cached_property
    def torch(self) -> Any:
        """The network in PyTorch."""
        import torch

        torch.set_num_threads(self.threads)
        torch.set_grad_enabled(False)
        model = importlib.import_module("torch_models").MODELS[self.name]()
        state = {layer: torch.from_numpy(value.copy()) for layer, value in self.network.parameters.items()}
        model.load_state_dict(state, strict=False)
        return model.eval()

    @cached_property
    def onnx(self) -> bytes:
        """The network in ONNX's format, as PyTorch exports it."""
        import torch

        file = io.BytesIO()
        torch.backends.mha.set_fastpath_enabled(False)  # its operators have no equivalent in ONNX
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(self.torch, (torch.from_numpy(self.input),), file, dynamo=False, opset_version=17)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        return file.getvalue()


def measure_networks(threads: int, effort: Effort, progress: Callable[[str], None]) -> list[NetworkResult]:
    """All networks, each raced by all contestants that are installed."""
    with _examples():
        return [_measured(name, threads, effort, progress) for name in NETWORKS]


def _measured(name: str, threads: int, effort: Effort, progress: Callable[[str], None]) -> NetworkResult:
    progress(f"network: {NETWORKS[name]}")
    result = NetworkResult(NETWORKS[name])
    model = Model(name, threads)
    racers: dict[str, Prepared] = {}
    expected: Array | None = None
    for contestant, prepare in CONTESTANTS.items():
        try:
            way = prepare(model)
            way.run()
            (found,) = way.results()
            expected = found.copy() if expected is None else expected
            if _agree(found, expected):
                racers[contestant] = way
            else:
                result.faults[contestant] = "differs"
        except ImportError as error:
            result.absent[contestant] = f"not installed ({error.name or error})"
        except Exception as error:  # The libraries raise errors of their own.
            where = result.faults if contestant == OPENDML else result.absent
            where[contestant] = f"{type(error).__name__}: {error}".splitlines()[0]
    result.timings = race({contestant: racer.run for contestant, racer in racers.items()}, effort)
    if OPENDML in racers:
        result.kernels = _kernels(dml.profile(model.program, model.input, seconds=effort.seconds))
    return result


def _kernels(profile: dml.Profile) -> list[Kernel]:
    assert profile.limits is not None  # the processor's are measured
    return [
        Kernel(
            f"{number}: {kernel.title}, {'x'.join(map(str, kernel.writes[0].sizes))}",
            kernel.seconds,
            profile.share(kernel),
            kernel.efficiency(profile.limits),
        )
        for number, kernel in enumerate(profile.kernels)
    ]


def _agree(found: Array, expected: Array) -> bool:
    scale = float(np.abs(expected).max()) or 1.0
    return float(np.abs(found.reshape(expected.shape) - expected).max()) <= RELATIVE_ERROR * scale


@contextmanager
def _examples() -> Iterator[None]:
    """The examples are modules beside each other, not a package."""
    sys.path.insert(0, str(DIRECTORY))
    try:
        yield
    finally:
        sys.path.remove(str(DIRECTORY))


# -------------------------------------------------------------------------------------------------------- contestants


class _Kept:
    """A call whose last result is kept."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None

    def run(self) -> None:
        self._result = self._call()

    def results(self) -> list[Array]:
        return [np.asarray(self._result)]

    def prepared(self) -> Prepared:
        return Prepared(self.run, self.results)


def _opendml(model: Model) -> Prepared:
    bound = model.program.bind(model.input)
    return Prepared(bound, lambda: [bound.results])


def _eager(model: Model) -> Prepared:
    """With channels first or last, whichever is faster."""
    import torch

    module, x = model.torch, torch.from_numpy(model.input)
    ways = [_Kept(lambda: module(x)).prepared()]
    if x.ndim == 4:
        last = importlib.import_module("copy").deepcopy(module).to(memory_format=torch.channels_last)
        moved = x.to(memory_format=torch.channels_last)
        ways.append(_Kept(lambda: last(moved)).prepared())
    return fastest(ways)


def _compiled(model: Model) -> Prepared:
    """With the parameters as constants, which are packed once."""
    import torch

    if not any(map(shutil.which, ("g++", "clang++", "cl"))):
        raise Unsupported("no C++ compiler")
    torch.compiler.reset()
    module, x = torch.compile(model.torch, dynamic=False, options={"freezing": True}), torch.from_numpy(model.input)
    return _Kept(lambda: module(x)).prepared()


def _onnx_runtime(model: Model) -> Prepared:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = model.threads, 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.onnx, options, providers=["CPUExecutionProvider"])
    (given,), (made,) = session.get_inputs(), session.get_outputs()
    binding = session.io_binding()
    x = model.input
    binding.bind_input(given.name, "cpu", 0, x.dtype.type, x.shape, x.ctypes.data)
    y = np.empty(made.shape, np.float32)
    binding.bind_output(made.name, "cpu", 0, y.dtype.type, y.shape, y.ctypes.data)
    return Prepared(lambda: session.run_with_iobinding(binding), lambda: [y])


def _openvino(model: Model) -> Prepared:
    """In float32 also on processors for which OpenVINO would choose a narrower type."""
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": model.threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(io.BytesIO(model.onnx)), "CPU", settings)
    request = compiled.create_infer_request()
    request.set_input_tensor(openvino.Tensor(model.input, shared_memory=True))
    run: Call = request.infer
    return Prepared(run, lambda: [request.get_output_tensor().data])


CONTESTANTS: Final[Mapping[str, Callable[[Model], Prepared]]] = {
    OPENDML: _opendml,
    EAGER: _eager,
    COMPILE: _compiled,
    ONNX_RUNTIME: _onnx_runtime,
    OPENVINO: _openvino,
}
"""opendml and its peers in the order of the table."""
