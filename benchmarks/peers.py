"""Who takes part, and what a contestant has to offer."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.cases import Values, Work
from benchmarks.chains import Chain
from benchmarks.timing import OPENDML
from opendml import operators
from opendml.building.graph_building import Graph
from opendml.description.tensor import TensorDesc
from opendml.programs.device import Device
from opendml.programs.program import Program
from opendml.targets.host_memory import empty

Array = npt.NDArray[Any]
Call = Callable[[], object]

EAGER = "PyTorch"
PEERS = {
    "NumPy": "benchmarks.numpy_peer",
    EAGER: "benchmarks.torch_peer",
    "torch.compile": "benchmarks.torch_compile_peer",
    "ONNX Runtime": "benchmarks.onnxruntime_peer",
    "OpenVINO": "benchmarks.openvino_peer",
}
"""The peers in the order of the table, with the module of each; its function ``peer(threads)`` gives the contestant."""


class Unsupported(Exception):  # noqa: N818 -- not an error: the table shows "-".
    """The contestant has no way to do this operator on these data types."""


@dataclass(frozen=True)
class Buffers:
    """The arrays of a case, the same memory for all contestants, laid out as the descriptor wants them."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


@dataclass(frozen=True)
class Prepared:
    """One way to do a case: ``run`` does it once, ``results`` then gives arrays like the descriptor's outputs."""

    run: Call
    results: Callable[[], Sequence[Array]]


class Contestant(Protocol):
    """A library in the race."""

    name: str
    version: str

    def prepare(self, operator: Work, buffers: Buffers) -> list[Prepared]:
        """The ways in which the library can do the operator; the fastest one takes part in the race.

        Raises Unsupported, or whatever the library raises, if there is none.
        """


class Opendml:
    """The package itself: a bound call of a compiled program."""

    name = OPENDML

    def __init__(self, threads: int) -> None:
        from opendml._version import __version__

        self.version = __version__
        self._device = Device("cpu", thread_count=threads)

    def prepare(self, operator: Work, buffers: Buffers) -> list[Prepared]:
        """One bound call."""
        if isinstance(operator, Chain):
            return [in_place(buffers, self._chained(operator, buffers))]
        program = self._device.compile(operator)
        if isinstance(operator, operators.AdamOptimizer):
            return [_updating(program, buffers)]
        inputs, outputs = iter(buffers.inputs), iter(buffers.outputs)
        call = program.bind(
            [None if binding.desc is None else next(inputs) for binding in program.inputs],
            [None if binding.desc is None else next(outputs) for binding in program.outputs],
        )
        return [in_place(buffers, call)]

    def _chained(self, chain: Chain, buffers: Buffers) -> Call:
        graph = Graph(self._device)
        inputs = [graph.input(desc.data_type, desc.sizes, name) for name, desc in chain.inputs()]
        (output,) = buffers.outputs
        return graph.compile(chain.build(*inputs)).bind(*buffers.inputs, out=output)


def contestants(threads: int) -> list[Contestant]:
    """opendml and the peers that are installed, each set to ``threads`` threads."""
    found: list[Contestant] = [Opendml(threads)]
    for module in PEERS.values():
        try:
            found.append(importlib.import_module(module).peer(threads))
        except ImportError:
            continue
    return found


def _updating(program: Program, buffers: Buffers) -> Prepared:
    """A step of training in place, in copies: the results are those of one step from the beginning."""
    copies = [array.copy() for array in buffers.inputs]
    updated = copies[: len(buffers.outputs)]
    run = program.bind(copies, updated)

    def results() -> list[Array]:
        for copy, array in zip(copies, buffers.inputs, strict=True):
            copy[...] = array
        run()
        return [array.copy() for array in updated]

    return Prepared(run, results)


def in_place(buffers: Buffers, run: Call) -> Prepared:
    """A call that writes into the outputs of the case."""
    return Prepared(run, lambda: buffers.outputs)


def make_buffers(operator: Work, values: Values | None = None, seed: int = 0) -> Buffers:
    """Random inputs: in the range of ``values``, or else floats from -25 to 75 (so that sums do not cancel), integers
    from 0 or -100 to 100."""
    generator = np.random.default_rng(seed)
    inputs = tuple(_random(desc, values, generator) for _, desc in operator.inputs() if desc is not None)
    outputs = tuple(empty(desc) for _, desc in operator.outputs() if desc is not None)
    for output in outputs:
        output[...] = 0  # No contestant pays for the first touch of a page.
    return Buffers(inputs, outputs)


def _random(desc: TensorDesc, values: Values | None, generator: np.random.Generator) -> Array:
    array = empty(desc)
    distinct = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]
    if array.dtype.kind == "f":
        low, high = values or (-25, 75)
        distinct[...] = generator.random(distinct.shape, np.float32) * (high - low) + low
    else:
        low, high = values or (-100, 100)
        lowest = 0 if array.dtype.kind == "u" else int(low)
        distinct[...] = generator.integers(lowest, int(high) + 1, distinct.shape, np.int16)
    return array
