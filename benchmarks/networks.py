"""Whole networks: PyTorch modules with random parameters, which opendml, ONNX Runtime and OpenVINO run as PyTorch
exports them to ONNX, in float32 or quantised."""

from __future__ import annotations

import fnmatch
import gc
import importlib
import io
import math
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import opendml as dml
from benchmarks.limits import PEAK_SECONDS, better
from benchmarks.measure import Effort, fastest, race
from benchmarks.peers import EAGER, Array, Call, Prepared, Unsupported
from benchmarks.quantized_networks import Quantization, dynamically, statically
from benchmarks.timing import OPENDML, Outcome, Timing
from opendml.targets.cpu.limits import byte_peak, fma_peak
from opendml.targets.machine_limits import MachineLimits

SECTION: Final = "networks"

DIRECTORY: Final = Path(__file__).resolve().parent.parent / "examples" / "networks"

EXAMPLES: Final = {
    "mnist": "MNIST",
    "squeezenet": "SqueezeNet 1.1",
    "mobilenet_v2": "MobileNetV2",
    "resnet50": "ResNet-50",
    "transformer_encoder": "transformer encoder, 4 layers",
}
"""The modules of the examples, and what the table calls them."""

RELATIVE_ERROR: Final = 1e-3
"""How far a result may be from opendml's, relative to its largest element: less than any narrower type would give."""

HALF_ERROR: Final = 0.1
"""The same for networks in float16, whose libraries round in other places: some behind every operator, some only what
is in memory, some with parameters put together before. Of ResNet-50 with random parameters all were within 0.05 of one
another, of transformers within 0.006; what is wrong is about 1 apart."""

QUANTIZED_SPREAD: Final = 1.25
"""Quantised networks are compared by how far they are from their results in float32, root of the mean square: nobody's
are so many times as far as opendml's, or nearer. Where products, biases and sums are rounded in other places some
elements of a layer are a step of 256 apart, and those of the layers behind it by more; what quantisation loses over all
elements together stays the same within a twelfth for all that were tried. What computes something else is farther, and
what computes in float32 nearer."""

PROFILES: Final = 3
"""How often the kernels of a network are measured, so that a comparison knows what they differ by anyway."""

SHORTEST: Final = 1e-9
"""Seconds of a kernel that a clock does not see."""

ONNX_RUNTIME_TYPES: Final = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
"""The types of results, by its names for them."""

COMPILE, ONNX_RUNTIME, OPENVINO = "torch.compile", "ONNX Runtime", "OpenVINO"


@dataclass(frozen=True)
class Network:
    """A network with the sizes of its inputs. ``make`` gives the PyTorch module, ``inputs`` arrays for it;
    ``quantize`` what is made of it in ONNX's format, if anything is; ``is_half``: whether its numbers, and those given,
    are float16."""

    name: str
    batch: int
    make: Callable[[], Any]
    inputs: Callable[[int, np.random.Generator], list[Array]]
    quantize: Quantization | None = None
    is_half: bool = False

    @property
    def error(self) -> float:
        """How far results may be from opendml's, where these are not compared with those of float32."""
        return HALF_ERROR if self.is_half else RELATIVE_ERROR

    @property
    def label(self) -> str:
        """What the table calls it."""
        return label(self.name, self.batch)

    @property
    def title(self) -> str:
        """By which it is chosen."""
        return f"{SECTION}: {self.label}"


def label(name: str, batch: int) -> str:
    """The name with the batch, if that is one."""
    return name if batch == 1 else f"{name}, batch {batch}"


def networks() -> list[Network]:
    """All networks in the order of the table; batches of 8 of those that take less than about half a second."""
    return [
        Network(a.name, batch, a.make, a.inputs, a.quantize, a.is_half) for a in _ARCHITECTURES for batch in a.batches
    ]


def matches(title: str, pattern: str) -> bool:
    """Whether a title contains or matches a pattern."""
    return pattern.lower() in title.lower() or fnmatch.fnmatch(title.lower(), pattern.lower())


# ------------------------------------------------------------------------------------------------------- architectures


class _Architecture(NamedTuple):
    name: str
    batches: Sequence[int]
    make: Callable[[], Any]
    inputs: Callable[[int, np.random.Generator], list[Array]]
    quantize: Quantization | None = None
    is_half: bool = False


def _example(name: str) -> Any:
    """A network of the examples."""
    with _examples():
        return importlib.import_module("torch_models").MODELS[name]()


def _ours(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"benchmarks.architectures.{module}"), name)()


def _normal(sizes: Sequence[int], batch: int, random: np.random.Generator) -> list[Array]:
    return [random.normal(size=(batch, *sizes)).astype(np.float32)]


def _text(batch: int, random: np.random.Generator, length: int = 128, padding: int = 16) -> list[Array]:
    """Numbers of words, and which ones count: all but some at the end."""
    counts = np.ones((batch, length), np.int64)
    counts[:, length - padding :] = 0
    return [random.integers(0, 30522, (batch, length)), counts]


def _next_word(batch: int, random: np.random.Generator, length: int = 128, layers: int = 12) -> list[Array]:
    """The number of a word, its position, and keys and values of all before it."""
    past = [random.normal(size=(batch, 12, length, 64)).astype(np.float32) for _ in range(2 * layers)]
    return [random.integers(0, 50257, (batch, 1)), np.full((batch, 1), length), *past]


def _half(array: Array) -> Array:
    return array.astype(np.float16) if array.dtype == np.float32 else array


_picture = partial(_normal, (3, 224, 224))
_statically_7, _dynamically_7 = (partial(way, reduce_range=True) for way in (statically, dynamically))

_ARCHITECTURES: Final = (
    _Architecture(EXAMPLES["mnist"], (1, 8), partial(_example, "mnist"), partial(_normal, (1, 28, 28))),
    _Architecture(EXAMPLES["squeezenet"], (1, 8), partial(_example, "squeezenet"), _picture),
    _Architecture(EXAMPLES["mobilenet_v2"], (1, 8), partial(_example, "mobilenet_v2"), _picture),
    _Architecture("EfficientNet-B0", (1, 8), partial(_ours, "images", "EfficientNet"), _picture),
    _Architecture(EXAMPLES["resnet50"], (1, 8), partial(_example, "resnet50"), _picture),
    _Architecture("ConvNeXt-Tiny", (1, 8), partial(_ours, "images", "ConvNeXt"), _picture),
    _Architecture("YOLOv8n", (1, 8), partial(_ours, "detection", "Yolo"), partial(_normal, (3, 640, 640))),
    _Architecture("U-Net", (1,), partial(_ours, "images", "UNet"), partial(_normal, (3, 256, 256))),
    _Architecture(
        EXAMPLES["transformer_encoder"], (1, 8), partial(_example, "transformer_encoder"), partial(_normal, (128, 256))
    ),
    _Architecture("BERT-base", (1,), partial(_ours, "transformers", "Bert"), _text),
    _Architecture("ViT-B/16", (1,), partial(_ours, "images", "VisionTransformer"), _picture),
    _Architecture("GPT-2, one word", (1, 8), partial(_ours, "transformers", "Gpt2"), _next_word),
    _Architecture("LSTM", (1, 8), partial(_ours, "sequences", "Recurrent"), partial(_normal, (100, 128))),
    _Architecture("MobileNetV2, float16", (1,), partial(_example, "mobilenet_v2"), _picture, is_half=True),
    _Architecture("ResNet-50, float16", (1,), partial(_example, "resnet50"), _picture, is_half=True),
    _Architecture("BERT-base, float16", (1,), partial(_ours, "transformers", "Bert"), _text, is_half=True),
    _Architecture("GPT-2, one word, float16", (1, 8), partial(_ours, "transformers", "Gpt2"), _next_word, is_half=True),
    _Architecture("MobileNetV2, int8", (1, 8), partial(_example, "mobilenet_v2"), _picture, statically),
    _Architecture("ResNet-50, int8", (1, 8), partial(_example, "resnet50"), _picture, statically),
    _Architecture("MobileNetV2, int8 of 7 bits", (1, 8), partial(_example, "mobilenet_v2"), _picture, _statically_7),
    _Architecture("ResNet-50, int8 of 7 bits", (1, 8), partial(_example, "resnet50"), _picture, _statically_7),
    _Architecture(
        "transformer encoder, int8",
        (1, 8),
        partial(_example, "transformer_encoder"),
        partial(_normal, (128, 256)),
        statically,
    ),
    _Architecture(
        "transformer encoder, dynamic int8",
        (1, 8),
        partial(_example, "transformer_encoder"),
        partial(_normal, (128, 256)),
        dynamically,
    ),
    _Architecture("BERT-base, dynamic int8", (1,), partial(_ours, "transformers", "Bert"), _text, dynamically),
    _Architecture(
        "BERT-base, dynamic int8 of 7 bits",
        (1,),
        partial(_ours, "transformers", "Bert"),
        _text,
        _dynamically_7,
    ),
)


@contextmanager
def _examples() -> Iterator[None]:
    """The examples are modules beside each other, not a package."""
    sys.path.insert(0, str(DIRECTORY))
    try:
        yield
    finally:
        sys.path.remove(str(DIRECTORY))


def make_module(network: Network, arrays: Sequence[Array]) -> Any:
    """The PyTorch module, with the same random parameters every time and as it is after training.

    What passes through it keeps its size: factors have the variance that their number asks for, and batch
    normalisations the means and variances of the given input.
    """
    import torch
    from torch import nn

    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    module = network.make()
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.weight.normal_(0, math.sqrt(1 / part.in_features))
        elif isinstance(part, nn.modules.conv._ConvNd):
            part.weight.normal_(0, math.sqrt(2 / math.prod(part.weight.shape[1:])))
        elif isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.weight.uniform_(0.5, 1.5)
            part.bias.normal_(0, 0.1)
            part.momentum = None  # the mean of all inputs, which is the one
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules()):
        module.train()(*map(torch.from_numpy, arrays))
    return module.eval()


class Model:
    """A network with its parameters, and one input for all contestants."""

    def __init__(self, network: Network, threads: int) -> None:
        self.network = network
        self.threads = threads
        self._wide = network.inputs(network.batch, np.random.default_rng(0))
        self.arrays = [_half(array) for array in self._wide] if network.is_half else self._wide

    @cached_property
    def torch(self) -> Any:
        """The network in PyTorch."""
        import torch

        torch.set_num_threads(self.threads)
        module = make_module(self.network, self._wide)
        return module.half() if self.network.is_half else module

    @cached_property
    def onnx(self) -> bytes:
        """The network in ONNX's format, as PyTorch exports it, and quantised if it is to be."""
        quantize = self.network.quantize
        return self._exported() if quantize is None else quantize(self._exported(), self.named)

    def _exported(self) -> bytes:
        import torch

        file = io.BytesIO()
        names = [f"input{number}" for number in range(len(self.arrays))]
        given = tuple(map(torch.from_numpy, self.arrays))
        torch.backends.mha.set_fastpath_enabled(False)  # its operators have no equivalent in ONNX
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(self.torch, given, file, input_names=names, dynamo=False, opset_version=17)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        return file.getvalue()

    @cached_property
    def exact(self) -> list[Array] | None:
        """The results in float32, which those of a quantised network are compared with; None where it is not."""
        import torch

        if self.network.quantize is None:
            return None
        found = self.torch(*map(torch.from_numpy, self.arrays))
        return [tensor.numpy() for tensor in (found if isinstance(found, (tuple, list)) else (found,))]

    @property
    def named(self) -> dict[str, Array]:
        """The input by the names that it has in ONNX."""
        return {f"input{number}": array for number, array in enumerate(self.arrays)}

    @cached_property
    def program(self) -> dml.OnnxProgram:
        """opendml's."""
        found = dml.load(self.onnx)
        assert isinstance(found, dml.OnnxModel)
        return found.compile(dml.Device("cpu", thread_count=self.threads))


# ---------------------------------------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Kernel:
    """Kernels of opendml's program that compute the same for the same sizes. ``title``: what that is, and the sizes of
    the first result; ``timing``: of all ``count`` of them; ``share``: their part of the time of all kernels;
    ``traffic``, ``operations`` and ``products``: bytes moved, floating-point operations and those of products of bytes
    in all their ``runs`` together."""

    title: str
    count: int
    timing: Timing
    share: float
    traffic: int
    operations: int
    products: int
    runs: int

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise ValueError(f"{self.title} runs {self.runs} times")

    def efficiency(self, limits: MachineLimits) -> float:
        """Which part of their time the machine needs at least to move their bytes or to compute, as ``opendml profile``
        tells it."""
        once = (amount / self.runs for amount in (self.traffic, self.operations, self.products))
        return limits.least_seconds(*once) * self.runs / self.timing.minimum


@dataclass
class NetworkResult(Outcome):
    """A measured network."""

    name: str
    batch: int
    kernels: list[Kernel] = field(default_factory=list)

    @property
    def label(self) -> str:
        """With the batch, if that is one."""
        return label(self.name, self.batch)

    @property
    def title(self) -> str:
        """By which it is chosen, and found in another run."""
        return f"{SECTION}: {self.label}"

    def efficiency(self, limits: MachineLimits | None) -> float | None:
        """Which part of the time of all kernels the machine needs at least."""
        if not self.kernels or limits is None:
            return None
        return sum(kernel.share * kernel.efficiency(limits) for kernel in self.kernels)


def measure_network(network: Network, threads: int, effort: Effort) -> tuple[NetworkResult, MachineLimits | None]:
    """A network raced by all contestants that are installed, and what the machine could do around that."""
    result = NetworkResult(network.name, network.batch)
    limits: MachineLimits | None = None
    before = (fma_peak(threads, PEAK_SECONDS), byte_peak(threads, PEAK_SECONDS))
    model = Model(network, threads)
    racers: dict[str, Prepared] = {}
    expected: list[Array] | None = None
    for contestant, prepare in CONTESTANTS.items():
        try:
            way = prepare(model)
            way.run()
            found = [np.array(array) for array in way.results()]
            expected = found if expected is None else expected
            if agree(found, expected, model.exact, network.error):
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
        profiles = _profiles(model, effort.seconds / PROFILES)
        result.kernels = kernels_of(profiles)
        found_limits = profiles[0].limits
        assert found_limits is not None  # the processor's are measured
        after = (fma_peak(threads, PEAK_SECONDS), byte_peak(threads, PEAK_SECONDS))
        limits = better(found_limits, MachineLimits(threads, (), *map(max, before, after)))
    del model, racers
    gc.collect()
    return result, limits


def _profiles(model: Model, seconds: float) -> list[dml.Profile]:
    """Several, so that a timing has quartiles."""
    program, arrays = model.program.program, _bound_arrays(model)
    assert program is not None
    return [dml.profile(program, *arrays, seconds=seconds) for _ in range(PROFILES)]


def _bound_arrays(model: Model) -> list[Array]:
    """The arrays as the graph takes them, in its order."""
    program = model.program.program
    assert program is not None
    return [model.named[binding.name] for binding in program.inputs]


def kernels_of(profiles: Sequence[dml.Profile]) -> list[Kernel]:
    """The kernels of a program that was profiled several times, those that do the same together."""
    found: dict[str, list[int]] = {}
    for number, kernel in enumerate(profiles[0].kernels):
        title = f"{kernel.title}, {'x'.join(map(str, kernel.writes[0].sizes))}"
        found.setdefault(title, []).append(number)
    return [_together(title, numbers, profiles) for title, numbers in found.items()]


def _together(title: str, numbers: Sequence[int], profiles: Sequence[dml.Profile]) -> Kernel:
    times = [sum(profile.kernels[number].seconds for number in numbers) for profile in profiles]
    best = profiles[times.index(min(times))]
    kernels = [best.kernels[number] for number in numbers]
    return Kernel(
        title,
        len(numbers),
        Timing.of([max(seconds, SHORTEST) for seconds in times]),
        sum(best.share(kernel) for kernel in kernels),
        sum(kernel.bytes for kernel in kernels),
        sum(kernel.operations for kernel in kernels),
        sum(kernel.integer_operations for kernel in kernels),
        sum(kernel.repetitions for kernel in kernels),
    )


def agree(
    found: Sequence[Array],
    expected: Sequence[Array],
    exact: Sequence[Array] | None = None,
    error: float = RELATIVE_ERROR,
) -> bool:
    """Whether all results are near enough to what is expected, and numbers; those of a quantised network, whose results
    in float32 are ``exact``, as near to these."""
    if len(found) != len(expected):
        return False
    if exact is None:
        return all(_near(*pair, error) for pair in zip(found, expected, strict=True))
    return all(map(_as_near, found, expected, exact))


def _near(found: Array, expected: Array, error: float) -> bool:
    scale = float(np.abs(expected).max()) or 1.0
    wide = expected.astype(np.float32)
    return float(np.abs(found.reshape(wide.shape).astype(np.float32) - wide).max()) <= error * scale


def _as_near(found: Array, expected: Array, exact: Array) -> bool:
    distances = [math.sqrt(np.square(array.reshape(exact.shape) - exact).mean()) for array in (found, expected)]
    return max(distances) <= QUANTIZED_SPREAD * min(distances)


# -------------------------------------------------------------------------------------------------------- contestants


class _Kept:
    """A call whose last result is kept: a tensor, or several."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None

    def run(self) -> None:
        self._result = self._call()

    def results(self) -> list[Array]:
        found = self._result if isinstance(self._result, (tuple, list)) else [self._result]
        return [np.asarray(tensor) for tensor in found]

    def prepared(self) -> Prepared:
        return Prepared(self.run, self.results)


def _opendml(model: Model) -> Prepared:
    bound = model.program.bind(model.named)
    return Prepared(bound, lambda: list(bound.results.values()))


def _check_float(model: Model) -> None:
    if model.network.quantize is not None:
        raise Unsupported("quantised as a model of ONNX only")


def _eager(model: Model) -> Prepared:
    """With channels first or last, whichever is faster."""
    import torch

    _check_float(model)
    module, given = model.torch, tuple(map(torch.from_numpy, model.arrays))
    ways = [_Kept(lambda: module(*given)).prepared()]
    if given[0].ndim == 4:
        last = importlib.import_module("copy").deepcopy(module).to(memory_format=torch.channels_last)
        moved = given[0].to(memory_format=torch.channels_last)
        ways.append(_Kept(lambda: last(moved)).prepared())
    return fastest(ways)


def _compiled(model: Model) -> Prepared:
    """With the parameters as constants, which are packed once."""
    import torch

    _check_float(model)
    if not any(map(shutil.which, ("g++", "clang++", "cl"))):
        raise Unsupported("no C++ compiler")
    torch.compiler.reset()
    module = torch.compile(model.torch, dynamic=False, options={"freezing": True})
    given = tuple(map(torch.from_numpy, model.arrays))
    return _Kept(lambda: module(*given)).prepared()


def _onnx_runtime(model: Model) -> Prepared:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = model.threads, 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.onnx, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, x in model.named.items():
        binding.bind_input(name, "cpu", 0, x.dtype.type, x.shape, x.ctypes.data)
    results = [np.empty(made.shape, ONNX_RUNTIME_TYPES[made.type]) for made in session.get_outputs()]
    for made, y in zip(session.get_outputs(), results, strict=True):
        binding.bind_output(made.name, "cpu", 0, y.dtype.type, y.shape, y.ctypes.data)
    return Prepared(lambda: session.run_with_iobinding(binding), lambda: results)


def _openvino(model: Model) -> Prepared:
    """In float32 also on processors for which OpenVINO would choose a narrower type; networks in float16 in that, and
    in float32 where it would take bfloat16 for it, which has three bits less."""
    import openvino

    settings = {"INFERENCE_NUM_THREADS": model.threads, "PERFORMANCE_HINT": "LATENCY"}
    core = openvino.Core()
    given = core.read_model(io.BytesIO(model.onnx))
    for precision in ("f16", "f32") if model.network.is_half else ("f32",):
        compiled = core.compile_model(given, "CPU", settings | {"INFERENCE_PRECISION_HINT": precision})
        if compiled.get_property("INFERENCE_PRECISION_HINT") != openvino.Type.bf16:
            break
    request = compiled.create_infer_request()
    for name, x in model.named.items():
        request.set_tensor(name, openvino.Tensor(x, shared_memory=True))
    run: Call = request.infer
    return Prepared(run, lambda: [request.get_tensor(output).data for output in compiled.outputs])


CONTESTANTS: Final[Mapping[str, Callable[[Model], Prepared]]] = {
    OPENDML: _opendml,
    EAGER: _eager,
    COMPILE: _compiled,
    ONNX_RUNTIME: _onnx_runtime,
    OPENVINO: _openvino,
}
"""opendml and its peers in the order of the table."""
