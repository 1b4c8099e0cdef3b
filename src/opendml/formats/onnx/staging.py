"""Models with loops whose rounds are not known before they run: in parts, with the loop driven from here.

A model is cut at its first such loop: what comes before, the body, what comes behind. Each is a model of its own, which
is compiled for the sizes that it meets and may have loops again. The body is one program that every round runs; trip
count and condition are looked at between rounds, carried values go from one round to the next as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from opendml.description.errors import BindingError, NotPicklableError
from opendml.formats.onnx.ordering import in_order, names_read
from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.program import OnnxProgram
from opendml.formats.onnx.tensors import array_of
from opendml.formats.onnx.types import TensorInfo, info_of, known_type

__all__ = ["Parts", "StagedProgram", "parted"]

Array = npt.NDArray[Any]
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


class Part(NamedTuple):
    """A part of a model: a ModelProto without inputs, the names that these have, and what it gives."""

    model: Any
    reads: tuple[str, ...]
    gives: tuple[str, ...]


class Parts(NamedTuple):
    """A model cut at a loop. ``known``: the loop's inputs that are constants."""

    before: Part
    loop: Any
    body: Part
    behind: Part
    known: dict[str, Array]


def parted(proto: Any, loops: Iterable[str], folder: Path | None) -> Parts:
    """A model cut at the first of the loops, which are named by their first outputs."""
    graph, named = proto.graph, set(loops)
    nodes = in_order(graph.node)
    place = next(number for number, node in enumerate(nodes) if named & {*node.output})
    first, loop, rest = nodes[:place], nodes[place], nodes[place + 1 :]
    body = body_of(loop)
    weights = {tensor.name: tensor for tensor in graph.initializer}
    inputs = {one.name for one in graph.input} - weights.keys()
    made = {name for node in first for name in node.output if name}
    outer = inputs | made
    behind_reads = {name for node in rest for name in names_read(node)} | {one.name for one in graph.output}
    own = {one.name for one in body.input}
    body_reads = ({name for node in body.node for name in names_read(node)} | {one.name for one in body.output}) - own
    gives = sorted(made & (behind_reads | body_reads | {*loop.input}))

    def part(nodes: Any, reads: Iterable[str], outputs: Sequence[str], own_weights: Any, wanted: set[str]) -> Part:
        model = onnx_package().ModelProto()
        model.CopyFrom(_without_graph(proto))
        model.graph.name = graph.name
        model.graph.node.extend(nodes)
        model.graph.initializer.extend([*own_weights, *(weights[name] for name in sorted(wanted & weights.keys()))])
        model.graph.output.extend(onnx_package().ValueInfoProto(name=name) for name in dict.fromkeys(outputs))
        return Part(model, tuple(reads), tuple(outputs))

    first_reads = {name for node in first for name in names_read(node)}
    body_outputs, outputs = [one.name for one in body.output], [one.name for one in graph.output]
    loop_outputs = [name for name in loop.output if name in behind_reads]
    return Parts(
        part(first, sorted(first_reads & inputs), gives, (), first_reads),
        loop,
        part(
            body.node,
            [*(one.name for one in body.input), *sorted(body_reads & outer)],
            body_outputs,
            body.initializer,
            body_reads,
        ),
        part(rest, [*loop_outputs, *sorted(behind_reads & outer)], outputs, (), behind_reads),
        {name: array_of(weights[name], folder, f"initializer {name!r}") for name in loop.input if name in weights},
    )


def _without_graph(proto: Any) -> Any:
    head = onnx_package().ModelProto(ir_version=proto.ir_version)
    head.opset_import.extend(proto.opset_import)
    head.functions.extend(proto.functions)
    return head


class PartRunner:
    """A part that runs on arrays by name. ``make`` gives what runs a ModelProto; there is one for all sizes of arrays
    of the same types and ranks."""

    def __init__(self, part: Part, make: Callable[[Any], Run]) -> None:
        self.part = part
        self._make = make
        self._runs: dict[tuple[Any, ...], Run] = {}

    def __call__(self, found: Mapping[str, Array]) -> Mapping[str, Array]:
        """The part's outputs for arrays, among which are its inputs."""
        arrays = {name: found[name] for name in self.part.reads}
        kinds = tuple((array.dtype, array.ndim) for array in arrays.values())
        run = self._runs.get(kinds)
        if run is None:
            run = self._runs[kinds] = self._make(self._with_inputs(arrays))
        return run(arrays)

    def _with_inputs(self, arrays: Mapping[str, Array]) -> Any:
        helper, model = onnx_package().helper, onnx_package().ModelProto()
        model.CopyFrom(self.part.model)
        for name, array in arrays.items():
            element = helper.np_dtype_to_tensor_dtype(array.dtype)
            model.graph.input.append(helper.make_tensor_value_info(name, element, [None] * array.ndim))
        return model


class StagedProgram(OnnxProgram):
    """A program in parts. ``program`` is None: there are several, which are compiled for the sizes that they meet. It
    cannot be bound, and ``outputs`` are what the model says of them.

    ``make`` gives what runs a ModelProto, of which no program may be compiled for the values of some inputs.
    """

    def __init__(
        self,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        values: Mapping[str, Array],
        parts: Parts,
        make: Callable[[frozenset[str], Any], Run],
    ) -> None:
        super().__init__(None, inputs, (), {}, values)
        self.outputs = tuple(outputs)
        changing = frozenset(one.name for one in body_of(parts.loop).input)
        self._parts = parts
        self._lock = threading.Lock()
        self._before = PartRunner(parts.before, partial(make, frozenset[str]()))
        self._body = PartRunner(parts.body, partial(make, changing))
        self._behind = PartRunner(parts.behind, partial(make, frozenset[str]()))

    def __reduce__(self) -> NoReturn:
        raise NotPicklableError("a program with a loop that is driven from the host is not pickled: pickle its model")

    def run(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        """The outputs by name for inputs by name, as ``OnnxProgram.run``; of several threads one runs at a time."""
        with self._lock:
            return self._run(arrays)

    def _run(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        found = {**self._parts.known, **self._checked(arrays), **self.values}
        if self._parts.before.gives:
            found |= self._before(found)
        results = rounds_of(self._parts.loop, self._body, found)
        found |= {name: array for name, array in zip(self._parts.loop.output, results, strict=True) if name}
        given = self._behind(found)
        return {info.name: given[info.name] for info in self.outputs}

    def bind(self, arrays: Mapping[str, Any], *, out: Mapping[str, Any] | None = None) -> NoReturn:
        """Refused: what a loop gives has sizes that are known when it has run."""
        raise BindingError("the model has a loop that is driven from the host: its arrays cannot be bound, run it")


# ---- loops


def body_of(loop: Any) -> Any:
    """The graph of a loop."""
    return next(attribute.g for attribute in loop.attribute if attribute.name == "body")


def rounds_of(loop: Any, body: PartRunner, found: Mapping[str, Array]) -> list[Array]:
    """What a Loop gives: its carried values behind the last round, and what the rounds gave, stacked."""
    count, condition = (found[name] if name else None for name in (*loop.input, "", "")[:2])
    states = [found[name] for name in loop.input[2:]]
    limit = None if count is None else int(count.reshape(-1)[0])
    goes_on = condition is None or bool(condition.reshape(-1)[0])
    given = dict(found)
    reads, gives = body.part.reads, body.part.gives
    collected: list[list[Array]] = [[] for _ in gives[1 + len(states) :]]
    number = 0
    while goes_on and (limit is None or number < limit):
        given[reads[0]], given[reads[1]] = np.array(number, np.int64), np.array(True)
        given.update(zip(reads[2:], states, strict=False))
        results = body(given)
        goes_on = bool(results[gives[0]].reshape(-1)[0])
        states = [results[name] for name in gives[1 : 1 + len(states)]]
        for parts, name in zip(collected, gives[1 + len(states) :], strict=True):
            parts.append(results[name])
        number += 1
    infos = [info_of(one) for one in body_of(loop).output][1 + len(states) :]
    return [*states, *(_stacked(parts, info) for parts, info in zip(collected, infos, strict=True))]


def _stacked(parts: Sequence[Array], info: TensorInfo) -> Array:
    """Parts along a new axis; of none the body says what they would be."""
    if parts:
        return np.stack(parts)
    sizes = [size if isinstance(size, int) else 0 for size in info.sizes or ()]
    return np.zeros((0, *sizes), known_type(info.element_type) or np.float32)
