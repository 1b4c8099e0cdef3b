"""Models with nodes that no graph can have, loops whose rounds are not known before they run, for example: in parts,
with these nodes driven from here (``driving``).

A model is cut at its first such node: what comes before, the graphs inside of it, what comes behind. Each is a model of
its own, which is compiled for the sizes that it meets and may have such nodes again. The body of a loop is one program
that every round runs; trip count and condition are looked at between rounds, carried values go from one round to the
next as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy.typing as npt

from opendml.description.errors import BindingError, NotPicklableError
from opendml.description.quoting import quoted
from opendml.formats.onnx.driving import DRIVERS, RunningGraph, graphs_of
from opendml.formats.onnx.ordering import in_order, names_read
from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.program import OnnxProgram
from opendml.formats.onnx.tensors import array_of
from opendml.formats.onnx.types import TensorInfo

__all__ = ["PartModel", "PartRun", "Parts", "StagedProgram", "parted"]

Array = npt.NDArray[Any]
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


class PartModel(NamedTuple):
    """A part of a model: what runs it on arrays by name, what gives the program that it runs for them, and the programs
    that there are already."""

    run: Run
    program_for: Callable[[Mapping[str, Array]], OnnxProgram]
    kept: Callable[[], tuple[OnnxProgram, ...]]


class PartRun(NamedTuple):
    """A program that ran as a part of another one: which part, the arrays that it was given first, and how many
    times it ran."""

    place: str
    program: OnnxProgram
    arrays: Mapping[str, Array]
    times: int


class Record:
    """The programs that run, in the order in which they do so first."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], PartRun] = {}

    def add(self, run: PartRun) -> None:
        """A program that has run ``run.times`` times."""
        key = run.place, id(run.program)
        before = self._runs.get(key, run._replace(times=0))
        self._runs[key] = before._replace(times=before.times + run.times)

    @property
    def runs(self) -> tuple[PartRun, ...]:
        """All of them."""
        return tuple(self._runs.values())


class Part(NamedTuple):
    """A part of a model: a ModelProto without inputs, the names that these have, and what it gives."""

    model: Any
    reads: tuple[str, ...]
    gives: tuple[str, ...]


class Parts(NamedTuple):
    """A model cut at a node of an operator of a version. ``graphs``: those inside of it, by the names of its
    attributes. ``known``: its inputs that are constants."""

    before: Part
    node: Any
    version: int
    graphs: dict[str, Part]
    behind: Part
    known: dict[str, Array]


def parted(proto: Any, loops: Iterable[str], folder: Path | None) -> Parts | None:
    """A model cut at the first of the nodes that are named by their first outputs; None where that is no node with
    graphs, but one that calls a function."""
    graph, named = proto.graph, set(loops)
    nodes = in_order(graph.node)
    place = next(number for number, node in enumerate(nodes) if named & {*node.output})
    first, driven, rest = nodes[:place], nodes[place], nodes[place + 1 :]
    if driven.op_type not in DRIVERS or driven.domain not in ("", "ai.onnx"):
        return None
    weights = {tensor.name: tensor for tensor in graph.initializer}
    inputs = {one.name for one in graph.input} - weights.keys()
    made = {name for node in first for name in node.output if name}
    outer = inputs | made
    behind_reads = {name for node in rest for name in names_read(node)} | {one.name for one in graph.output}
    gives = sorted(made & (behind_reads | {*names_read(driven)}))

    def part(nodes: Any, reads: Iterable[str], outputs: Sequence[str], own_weights: Any, wanted: set[str]) -> Part:
        model = onnx_package().ModelProto()
        model.CopyFrom(_without_graph(proto))
        model.graph.name = graph.name
        model.graph.node.extend(nodes)
        model.graph.initializer.extend([*own_weights, *(weights[name] for name in sorted(wanted & weights.keys()))])
        model.graph.output.extend(onnx_package().ValueInfoProto(name=name) for name in dict.fromkeys(outputs))
        return Part(model, tuple(reads), tuple(outputs))

    def inner(body: Any) -> Part:
        own = [one.name for one in body.input]
        outputs = [one.name for one in body.output]
        read = {name for node in body.node for name in names_read(node)} | {*outputs}
        free = read - {*own} - {name for node in body.node for name in node.output}
        return part(body.node, [*own, *sorted(free & outer)], outputs, body.initializer, free)

    first_reads = {name for node in first for name in names_read(node)}
    given = [name for name in driven.output if name in behind_reads]
    outputs = [one.name for one in graph.output]
    return Parts(
        part(first, sorted(first_reads & inputs), gives, (), first_reads),
        driven,
        next((one.version for one in proto.opset_import if one.domain in ("", "ai.onnx")), 0),
        {name: inner(body) for name, body in graphs_of(driven).items()},
        part(rest, [*given, *sorted(behind_reads & outer)], outputs, (), behind_reads),
        {name: array_of(weights[name], folder, f"initializer {name!r}") for name in driven.input if name in weights},
    )


def _without_graph(proto: Any) -> Any:
    head = onnx_package().ModelProto(ir_version=proto.ir_version)
    head.opset_import.extend(proto.opset_import)
    head.functions.extend(proto.functions)
    return head


class PartRunner:
    """A part that runs on arrays by name. ``make`` gives what runs a ModelProto; there is one for all sizes of arrays
    of the same types and ranks. ``place``: which part it is."""

    def __init__(self, part: Part, place: str, make: Callable[[Any], PartModel]) -> None:
        self.part = part
        self.place = place
        self.record: Record | None = None
        self._make = make
        self._models: dict[tuple[Any, ...], PartModel] = {}

    def __call__(self, found: Mapping[str, Array]) -> Mapping[str, Array]:
        """The part's outputs for arrays, among which are its inputs."""
        arrays = {name: found[name] for name in self.part.reads}
        kinds = tuple((array.dtype, array.ndim) for array in arrays.values())
        model = self._models.get(kinds)
        if model is None:
            model = self._models[kinds] = self._make(self._with_inputs(arrays))
        return model.run(arrays) if self.record is None else self._recorded(model, arrays, self.record)

    def compiled(self) -> Iterator[tuple[str, OnnxProgram]]:
        """The programs that there are, each with its place; of those in parts those of their parts."""
        for program in (one for model in self._models.values() for one in model.kept()):
            if isinstance(program, StagedProgram):
                yield from ((f"{self.place}, {place}", one) for place, one in program.compiled())
            else:
                yield self.place, program

    def _recorded(self, model: PartModel, arrays: dict[str, Array], record: Record) -> Mapping[str, Array]:
        program = model.program_for(arrays)
        if not isinstance(program, StagedProgram):
            record.add(PartRun(self.place, program, arrays, 1))
            return program.run(arrays)
        results, runs = program.run_recorded(arrays)
        for one in runs:
            record.add(one._replace(place=f"{self.place}, {one.place}"))
        return results

    def _with_inputs(self, arrays: Mapping[str, Array]) -> Any:
        helper, model = onnx_package().helper, onnx_package().ModelProto()
        model.CopyFrom(self.part.model)
        for name, array in arrays.items():
            element = helper.np_dtype_to_tensor_dtype(array.dtype)
            model.graph.input.append(helper.make_tensor_value_info(name, element, [None] * array.ndim))
        return model


class StagedProgram(OnnxProgram):
    """A program in parts. ``program`` is None: there are several, which are compiled for the sizes that they meet. It
    cannot be bound, and ``outputs`` are what the model says of them. ``driven``: the node, by its operator and name.

    ``make`` gives what runs a ModelProto, of which no program may be compiled for the values of some inputs.
    """

    def __init__(
        self,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        values: Mapping[str, Array],
        parts: Parts,
        make: Callable[[frozenset[str], Any], PartModel],
    ) -> None:
        super().__init__(None, inputs, (), {}, values)
        self.outputs = tuple(outputs)
        self.driven = f"{parts.node.op_type} {quoted(parts.node.name or next(filter(None, parts.node.output), ''))}"
        self._parts = parts
        self._lock = threading.Lock()
        self._before = PartRunner(parts.before, f"before {self.driven}", partial(make, frozenset[str]()))
        self._behind = PartRunner(parts.behind, f"behind {self.driven}", partial(make, frozenset[str]()))
        self._inside = {name: self._inner(name, make) for name in parts.graphs}
        self._graphs = {
            name: RunningGraph(_own_inputs(parts, name), runner.part.gives, runner)
            for name, runner in self._inside.items()
        }

    def _inner(self, name: str, make: Callable[[frozenset[str], Any], PartModel]) -> PartRunner:
        """A graph inside of the node. Its inputs have other values in every round, for which nothing is compiled."""
        changing = frozenset(_own_inputs(self._parts, name))
        return PartRunner(self._parts.graphs[name], f"{name} of {self.driven}", partial(make, changing))

    def __reduce__(self) -> NoReturn:
        raise NotPicklableError("a program with a node that is driven from the host is not pickled: pickle its model")

    def run(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        """The outputs by name for inputs by name, as ``OnnxProgram.run``; of several threads one runs at a time."""
        with self._lock:
            return self._run(arrays)

    def run_recorded(self, arrays: Mapping[str, Any]) -> tuple[dict[str, Array], tuple[PartRun, ...]]:
        """As ``run``; beside the outputs the programs of the parts that ran."""
        record = Record()
        with self._lock:
            for runner in self._runners:
                runner.record = record
            try:
                return self._run(arrays), record.runs
            finally:
                for runner in self._runners:
                    runner.record = None

    def compiled(self) -> list[tuple[str, OnnxProgram]]:
        """The programs of its parts that there are, each with the part: those of the sizes that they met last."""
        with self._lock:
            return [one for runner in self._runners for one in runner.compiled()]

    @property
    def _runners(self) -> tuple[PartRunner, ...]:
        return self._before, *self._inside.values(), self._behind

    def _run(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        found = {**self._parts.known, **self._checked(arrays), **self.values}
        if self._parts.before.gives:
            found |= self._before(found)
        node = self._parts.node
        results = DRIVERS[node.op_type](node, self._parts.version, self._graphs, found)
        found |= {name: array for name, array in zip(node.output, results, strict=False) if name}
        given = self._behind(found)
        return {info.name: given[info.name] for info in self.outputs}

    def bind(self, arrays: Mapping[str, Any], *, out: Mapping[str, Any] | None = None) -> NoReturn:
        """Refused: what such a node gives has sizes that are known when it has run."""
        raise BindingError("the model has a node that is driven from the host: its arrays cannot be bound, run it")


def _own_inputs(parts: Parts, name: str) -> tuple[str, ...]:
    """The names of the inputs of a graph inside of the node."""
    return tuple(one.name for one in graphs_of(parts.node)[name].input)
