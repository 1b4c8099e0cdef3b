"""``OnnxModel``: an ONNX file, its inputs and outputs; compiled for sizes, or run on arrays right away."""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from opendml.building.graph_program import GraphProgram, OutputForm
from opendml.description.enums import ExecutionFlags
from opendml.description.errors import BindingError, FormatProblem, InvalidDescriptorError, ModelFormatError
from opendml.description.quoting import argument, listed, quoted
from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.program import OnnxProgram, as_input, check_names, graph_outputs
from opendml.formats.onnx.sources import ModelSource, source_of_part
from opendml.formats.onnx.stored_programs import Outcome, StoredModel, entry_key, read_entry, write_failure, write_model
from opendml.formats.onnx.types import TensorInfo, check_count, has_tensors, known_type
from opendml.formats.onnx.values import NO_DOUBLE, STAND_IN, Value, known, reason_of
from opendml.programs.device import Device, Flags, default_device

if TYPE_CHECKING:
    from opendml.building.graph_assembly import GraphAssembly, GraphInterface
    from opendml.building.graph_building import Graph
    from opendml.building.graph_tensor import GraphTensor
    from opendml.description.graph_desc import GraphDesc
    from opendml.formats.onnx.translation import Scope, Translation
    from opendml.programs.compiled_graph import CompiledGraph

__all__ = ["KEPT_PROGRAMS", "OnnxModel"]

Array = npt.NDArray[Any]
Sizes = Mapping[str, int | Sequence[int]]

KEPT_PROGRAMS: Final = 4
"""Programs that ``OnnxModel.run`` keeps, for the sizes and values that it met last."""

EXAMPLE_SIZES: Final = (1, 3, 224, 224)
"""What a message gives as an example for an input of which the model says no sizes."""

LARGEST_EXAMPLE: Final = 8
"""Elements of an input up to which a message gives values for it as an example."""

LARGEST_VALUES: Final = 4096
"""Elements of an input up to which ``OnnxModel.run`` compiles for its values where nodes ask for them."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What a program is for, all of it known.

    ``selects``: whether both branches of a condition that is not known are computed. ``narrows``: whether FLOAT64
    becomes FLOAT32 where its operator has no FLOAT64. ``fuses``: whether nodes between DequantizeLinear and
    QuantizeLinear become operators on integers.
    """

    device: Device | None
    sizes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, Array]
    narrows: bool
    progress: Callable[[float], None] | None = None
    execution_flags: Flags = ExecutionFlags.NONE
    selects: bool = False
    fuses: bool = True


class OnnxModel:
    """An ONNX model: ``opendml.load`` reads one.

    ``inputs`` and ``outputs`` are what the file says of them; initialisers are no inputs, also where an old file lists
    them there.

        model = dml.load("model.onnx")
        program = model.compile(sizes={"batch": 1})
        results = program.run({"image": picture})

    ``model.run({"image": picture})`` takes what is left open from the arrays and keeps a few programs.
    """

    def __init__(self, source: ModelSource, name: str = "") -> None:
        self.name = name or source.outline.name
        self.inputs = source.outline.inputs
        self.outputs = source.outline.outputs
        self._source = source
        self._changing = frozenset[str]()  # inputs whose values no program is to be compiled for
        self._programs: OrderedDict[tuple[Hashable, ...], OnnxProgram] = OrderedDict()

    def __repr__(self) -> str:
        nodes = self._source.outline.node_count
        inputs, outputs = (", ".join(map(repr, infos)) for infos in (self.inputs, self.outputs))
        return f"<OnnxModel {quoted(self.name)} of {nodes} nodes: {inputs} -> {outputs}>"

    def compile(
        self,
        device: Device | None = None,
        *,
        sizes: Sizes | None = None,
        values: Mapping[str, Any] | None = None,
        narrow_float64: bool = False,
        fuse_quantization: bool = True,
        progress: Callable[[float], None] | None = None,
        execution_flags: Flags = ExecutionFlags.NONE,
    ) -> OnnxProgram:
        """A program for sizes that are known.

        ``sizes``: of dimensions by their name, ``{"batch": 1}``, or of an input by its name,
        ``{"image": [1, 3, 224, 224]}``. ``values``: of inputs whose values decide sizes or branches, ``{"sr": 16000}``;
        the program computes with these and needs them no more. ``narrow_float64``: nodes on FLOAT64 whose operators
        have none are computed in FLOAT32, and named in the program's ``narrowed``; else they are refused.
        ``fuse_quantization``: products between DequantizeLinear and QuantizeLinear are exact sums of integers, as ONNX
        Runtime computes them; else they are those of float32, as the file says, which may round to the next integer.

        Raises ModelFormatError, whose ``problems`` are all sizes that are missing, or else all nodes that DirectML's
        operators do not express, with their names and reasons.
        """
        request = self._request(device, sizes, values, narrow_float64, progress, execution_flags, fuse_quantization)
        outcome, program = self._compiled(request)
        return self._staged(request, outcome) if program is None else program

    def describe(
        self,
        device: Device | None = None,
        *,
        sizes: Sizes | None = None,
        values: Mapping[str, Any] | None = None,
        narrow_float64: bool = False,
        fuse_quantization: bool = True,
    ) -> GraphDesc:
        """The graph that ``compile`` would compile as DirectML's descriptor, with the weights in it.

        Outputs that are known without computing are no outputs of it. Arguments and errors as for ``compile``.
        """
        request = self._request(device, sizes, values, narrow_float64, fuses=fuse_quantization)
        graph, translation, outputs, _ = self._translated(replace(request, selects=True))
        if translation.problems:
            raise self._refusal(request, _without_graph(_outcome(translation)))
        tensors = graph_outputs(outputs)
        if not tensors:
            raise ModelFormatError("", "all of its outputs are known without computing, so that it has no graph")
        return graph.describe(tensors)

    def run(
        self,
        arrays: Mapping[str, Any],
        *,
        device: Device | None = None,
        narrow_float64: bool = False,
        fuse_quantization: bool = True,
        execution_flags: Flags = ExecutionFlags.NONE,
    ) -> dict[str, Array]:
        """The outputs by name for inputs by name, by a program for their sizes, compiled when they are first met.

        Where nodes ask for the values of small inputs, the program is for these values, too. Raises as ``compile``
        does, and BindingError for arrays that do not fit.
        """
        way = (device, narrow_float64, fuse_quantization, execution_flags)
        for key, program in reversed(self._programs.items()):
            if key[: len(way)] == way:
                results = program.run_quickly(arrays)
                if results is not None:
                    return {info.name: array for info, array in zip(program.outputs, results, strict=True)}
        program = self.program_for(
            arrays,
            device=device,
            narrow_float64=narrow_float64,
            fuse_quantization=fuse_quantization,
            execution_flags=execution_flags,
        )
        return program.run(arrays)

    def __call__(self, **arrays: Any) -> dict[str, Array]:
        """``run`` with the inputs as parameters."""
        return self.run(arrays)

    def sizes_of(self, sizes: Sizes | None = None) -> dict[str, tuple[int, ...]]:
        """The sizes of every input, with those that are given. Raises ModelFormatError for all that are missing."""
        return self._sizes(sizes or {}, {})

    def values_of(self, values: Mapping[str, Any]) -> dict[str, Array]:
        """Numbers and lists as arrays of the types of the inputs that they are for. Raises BindingError."""
        return self._values(values)

    @property
    def proto(self) -> Any:
        """The ModelProto, as the package onnx has read it: metadata, nodes, weights. It is not to be changed."""
        return self._source.proto

    @property
    def head(self) -> Any:
        """The ModelProto without nodes, and with no more of its weights than their names."""
        return self._source.head

    def needed_values(self, *, device: Device | None = None, sizes: Sizes | None = None) -> tuple[str, ...]:
        """The inputs whose values nodes ask for, where there is no program for sizes without ``values`` of them.

        Raises ModelFormatError for sizes that are missing.
        """
        request = self._request(device, sizes, None, narrows=False)
        needed = frozenset[str]()
        for selects in (False, True):
            outcome = self._outcome(replace(request, selects=selects))
            if not outcome.problems:
                return ()
            needed = outcome.needed
        return tuple(sorted(needed))

    def _outcome(self, request: _Request) -> Outcome:
        """What becomes of the model's nodes."""
        key = self._entry_key(request)
        stored = self._entry(request, key)
        if stored is not None:
            return stored.outcome
        outcome = _outcome(self._translated(request)[1])
        if outcome.problems and key is not None:
            write_failure(key, self._source, outcome)
        return outcome

    # ---- programs

    def program_for(
        self,
        arrays: Mapping[str, Any],
        *,
        device: Device | None = None,
        narrow_float64: bool = False,
        fuse_quantization: bool = True,
        progress: Callable[[float], None] | None = None,
        execution_flags: Flags = ExecutionFlags.NONE,
    ) -> OnnxProgram:
        """The program that ``run`` uses for arrays: one that is kept, or a new one. Not by several threads at once."""
        taken = self._arrays(arrays)
        sizes = tuple((name, array.shape) for name, array in taken.items())
        way = (device, narrow_float64, fuse_quantization, execution_flags)
        for key, program in reversed(self._programs.items()):
            if key == (*way, sizes, *_values_key(program.values, taken)):
                self._programs.move_to_end(key)
                return program
        known_sizes = self._sizes(dict(sizes), {})
        request = _Request(device, known_sizes, {}, narrow_float64, progress, execution_flags, fuses=fuse_quantization)
        program = self._made(request, taken)
        self._programs[*way, sizes, *_values_key(program.values, taken)] = program
        if len(self._programs) > KEPT_PROGRAMS:
            self._programs.popitem(last=False)
        return program

    def kept_programs(self) -> tuple[OnnxProgram, ...]:
        """The programs that ``run`` has compiled and keeps."""
        return tuple(self._programs.values())

    def _made(self, request: _Request, taken: Mapping[str, Array]) -> OnnxProgram:
        """A program for arrays. Nodes say which values they need, which may let others say so.

        Integers and single numbers are likely to be options, whose values stay; of a condition that is computed from
        others both branches are taken, if that is all that is needed.
        """
        while True:
            outcome, program = self._compiled(request, selects=False)
            asked = {name for name in outcome.needed if taken[name].size <= LARGEST_VALUES} - set(request.values)
            asked -= self._changing
            options = {name for name in asked if taken[name].dtype.kind != "f" or taken[name].size == 1}
            if program is None and not options:
                outcome, program = self._compiled(request)
            if program is not None:
                return program
            if not asked or (outcome.loops and not options):
                return self._staged(request, outcome)
            values = {name: np.array(taken[name]) for name in options or asked}
            request = replace(request, values={**request.values, **values})

    def _request(
        self,
        device: Device | None,
        sizes: Sizes | None,
        values: Mapping[str, Any] | None,
        narrows: bool,
        progress: Callable[[float], None] | None = None,
        flags: Flags = ExecutionFlags.NONE,
        fuses: bool = True,
    ) -> _Request:
        given = self._values(values or {})
        return _Request(device, self._sizes(sizes or {}, given), given, narrows, progress, flags, fuses=fuses)

    def _compiled(self, request: _Request, selects: bool = True) -> tuple[Outcome, OnnxProgram | None]:
        """What became of the model's nodes, and the program, if all of them have an expression.

        ``selects``: whether both branches of a condition that is not known are computed.
        """
        request = replace(request, selects=selects)
        key = self._entry_key(request)
        stored = self._stored(request, key)
        if stored is not None:
            return stored
        graph, translation, outputs, bound = self._translated(request)
        outcome = _outcome(translation)
        if outcome.problems:
            if key is not None:
                write_failure(key, self._source, outcome)
            return outcome, None
        tensors = graph_outputs(outputs)
        program, part = None, None
        if tensors:
            assembly = _assembly(graph, tensors)
            compiled = graph.device.compile_graph(
                assembly.desc,
                progress=request.progress,
                execution_flags=request.execution_flags,
                bounds=assembly.bounds(),
            )
            program, part = _graph_program(compiled, assembly.interface), (compiled, assembly.interface)
        if key is not None:
            write_model(key, self._source, outcome, outputs, bound, part)
        return outcome, self._program(request, outcome, program, bound, outputs)

    def _staged(self, request: _Request, outcome: Outcome) -> OnnxProgram:
        """A program in parts, where all that is in the way can be driven from the host. Raises ModelFormatError with
        all that is."""
        if not outcome.loops or len(outcome.loops) != len(outcome.problems):
            raise self._refusal(request, outcome)
        from opendml.formats.onnx.staging import PartModel, StagedProgram, parted

        def make(changing: frozenset[str], proto: Any) -> PartModel:
            part = OnnxModel(source_of_part(proto, self._source.folder), self.name)
            part._changing = changing | self._changing
            ways: dict[str, Any] = {
                "device": request.device,
                "narrow_float64": request.narrows,
                "fuse_quantization": request.fuses,
                "execution_flags": request.execution_flags,
            }
            return PartModel(partial(part.run, **ways), partial(part.program_for, **ways), part.kept_programs)

        parts = parted(self.proto, outcome.loops, self._source.folder)
        if parts is None:
            return self._inlined(request, outcome)
        return StagedProgram(self._infos(request), self.outputs, request.values, parts, make)

    def _inlined(self, request: _Request, outcome: Outcome) -> OnnxProgram:
        """The program of the same model with the bodies of its functions in place of the nodes that call them."""
        if not self.proto.functions:
            raise self._refusal(request, outcome)
        proto = onnx_package().inliner.inline_local_functions(self.proto)
        model = OnnxModel(source_of_part(proto, self._source.folder), self.name)
        model._changing = self._changing
        found, program = model._compiled(request)
        return model._staged(request, found) if program is None else program

    def _refusal(self, request: _Request, outcome: Outcome) -> ModelFormatError:
        """All that is in the way of a program, and what might help: FLOAT32, values that nodes ask for."""
        cure = f"{NO_DOUBLE} ({argument('narrow_float64', True)} computes it in FLOAT32)"
        examples = {
            info.name: _example(request.sizes[info.name])
            for info in self.inputs
            if info.name in outcome.needed and _is_option(info, request.sizes[info.name])
        }
        messages = [_with_values(one.message.replace(NO_DOUBLE, cure, 1), examples) for one in outcome.problems]
        problems = (one._replace(message=text) for one, text in zip(outcome.problems, messages, strict=True))
        first, *others = problems
        return ModelFormatError(first.path, first.message, others)

    def _entry_key(self, request: _Request) -> bytes | None:
        values = [(name, value.dtype.str, value.shape, value.tobytes()) for name, value in request.values.items()]
        facts = (sorted(request.sizes.items()), sorted(values), request.narrows, request.selects, request.fuses)
        return entry_key(self._source, request.device, facts)

    def _stored(self, request: _Request, key: bytes | None) -> tuple[Outcome, OnnxProgram | None] | None:
        """What ``_compiled`` gave before."""
        stored = self._entry(request, key)
        if stored is None:
            return None
        if stored.outcome.problems:
            return stored.outcome, None
        program = None
        if stored.interface is not None:
            device, flags = request.device or default_device(), request.execution_flags
            compiled = device.stored_graph(stored.outline, stored.key, flags)
            if compiled is None:
                return None
            program = _graph_program(compiled, stored.interface._replace(name=self.name))
        return stored.outcome, self._program(request, stored.outcome, program, stored.bound, stored.outputs)

    def _entry(self, request: _Request, key: bytes | None) -> StoredModel | None:
        describe = functools.cache(partial(self._described, request))
        return None if key is None else read_entry(key, self._source, describe)

    def _described(self, request: _Request) -> GraphDesc:
        """The graph of a program, translated anew."""
        graph, _, outputs, _ = self._translated(request)
        return _assembly(graph, graph_outputs(outputs)).desc

    def _program(
        self,
        request: _Request,
        outcome: Outcome,
        program: GraphProgram | None,
        bound: Sequence[str],
        outputs: Mapping[str, Value],
    ) -> OnnxProgram:
        return OnnxProgram(program, self._infos(request), bound, outputs, request.values, outcome.narrowed)

    def _infos(self, request: _Request) -> list[TensorInfo]:
        """The inputs that a program takes."""
        return [
            TensorInfo(one.name, one.data_type, request.sizes[one.name], one.element_type)
            for one in self.inputs
            if one.name not in request.values
        ]

    def _translated(self, request: _Request) -> tuple[Graph, Translation, dict[str, Value], list[str]]:
        """The graph, what became of the nodes, the outputs, and the names of the graph's inputs."""
        from opendml.formats.onnx.translation import ModelGraph, Translation  # not needed for what is in the cache

        graph = ModelGraph(request.device, name=self.name)
        proto, weights = self._source.light
        translation = Translation(graph, proto, self._source.folder, request.selects, request.narrows, request.fuses)
        scope: Scope = {}
        bound = []
        for info in self.inputs:
            scope[info.name], is_bound = self._input(translation, info, request.sizes[info.name], request.values)
            bound += [info.name] if is_bound else []
        translation.graph_of(proto.graph, scope, weights)
        outputs = {info.name: self._output(translation, info, scope) for info in self.outputs}
        found = {name: value for name, value in outputs.items() if isinstance(value, Value)}
        return graph, translation, found, bound

    def _input(
        self, translation: Translation, info: TensorInfo, sizes: tuple[int, ...], values: Mapping[str, Array]
    ) -> tuple[Any, bool]:
        """What an input stands for, and whether it is one of the graph."""
        from opendml.formats.onnx.translation import FAILED

        name = info.name
        if name in values:
            return known(values[name], frozenset({name})), False
        data_type = known_type(info.element_type) or np.dtype(object)
        if not has_tensors(data_type):
            translation.problems.append(
                FormatProblem(f"input {name!r}", f"DirectML has no tensors of {info.data_type}")
            )
            return FAILED, False
        if 0 in sizes:
            return known(np.zeros(sizes, data_type)), False
        bytes_type = np.dtype(np.uint8) if data_type == np.bool_ else data_type
        try:
            tensor = translation.graph.input(bytes_type, sizes or (1,), name if name != "out" else "out ")
        except InvalidDescriptorError as error:
            translation.problems.append(FormatProblem(f"input {name!r}", reason_of(error)))
            return FAILED, False
        return Value(data_type, sizes, None, tensor, frozenset({name})), True

    def _output(self, translation: Translation, info: TensorInfo, scope: Scope) -> Any:
        value = scope.get(info.name)
        if value is None:
            translation.problems.append(FormatProblem(f"output {info.name!r}", "nothing in the model gives it"))
        if not isinstance(value, Value):
            if not translation.problems:
                translation.problems.append(FormatProblem(f"output {info.name!r}", "no tensor"))
            return None
        expected = known_type(info.element_type)
        if expected is not None and value.data_type != expected:
            reason = f"the model says {info.data_type}, its nodes give {value.data_type}"
            translation.problems.append(FormatProblem(f"output {info.name!r}", reason))
        return value

    # ---- what is given

    def _arrays(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        check_names(self.inputs, arrays)
        return {
            info.name: as_input(info, arrays[info.name]) if known_type(info.element_type) else np.empty(0)
            for info in self.inputs
        }

    def _values(self, values: Mapping[str, Any]) -> dict[str, Array]:
        known_inputs = {info.name: info for info in self.inputs}
        unknown = [name for name in values if name not in known_inputs]
        if unknown:
            place = argument("values")
            raise BindingError(f"{place}: the model has no input {listed(unknown)}, only {listed(known_inputs)}")
        found = {}
        for name, value in values.items():
            given = value
            info = known_inputs[name]
            kind = known_type(info.element_type)
            if not isinstance(value, np.ndarray) and kind is not None:
                given = np.asarray(value, kind)
                if not given.ndim and len(info.sizes or ()) == 1:
                    given = given.reshape(1)
            found[name] = np.array(as_input(info, given))
        return found

    def _sizes(self, sizes: Sizes, values: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
        """The sizes of every input. Raises ModelFormatError with all that are not known."""
        problems: list[FormatProblem] = []
        found = {}
        names = {size for info in self.inputs for size in info.sizes or () if isinstance(size, str)}
        known_names = sorted({*names, *(info.name for info in self.inputs)})
        problems += [
            FormatProblem(
                argument("sizes"), f"the model has no dimension and no input {quoted(name)}, only {listed(known_names)}"
            )
            for name in sizes
            if name not in known_names
        ]
        for info in self.inputs:
            own = {info.name: values[info.name].shape} if info.name in values else sizes
            try:
                found[info.name] = _sizes_of(info, own)
                check_count(found[info.name])
            except ValueError as error:
                problems.append(FormatProblem(f"input {info.name!r}", str(error)))
        if problems:
            raise ModelFormatError(problems[0].path, problems[0].message, problems[1:])
        return found


def _sizes_of(info: TensorInfo, sizes: Sizes) -> tuple[int, ...]:
    """The sizes of an input; ValueError where they are not known or contradict the file."""
    given = sizes.get(info.name)
    if isinstance(given, int) and info.name not in (info.sizes or ()):
        given = (given,)
    if given is not None and not isinstance(given, int):
        found = tuple(int(size) for size in given)
        declared = info.sizes if info.sizes is not None else (None,) * len(found)
        if len(found) != len(declared) or any(
            isinstance(have, int) and have != want for have, want in zip(declared, found, strict=False)
        ):
            raise ValueError(f"the model says {info!r}, not {list(found)}")
        if min(found, default=0) < 0:
            raise ValueError(f"the sizes {list(found)} have a negative one")
        return found
    if info.sizes is None:
        cure = argument("sizes", {info.name: [*EXAMPLE_SIZES]})
        raise ValueError(f"its sizes are not known: {cure}, for example")
    bound = [sizes.get(size, size) if isinstance(size, str) else size for size in info.sizes]
    open_ones = [size for size in bound if not isinstance(size, int)]
    if open_ones:
        names = {size: 1 for size in open_ones if size is not None}
        whole = {info.name: [size if isinstance(size, int) else 1 for size in bound]}
        cure = argument("sizes", whole if None in open_ones else names)
        raise ValueError(f"not all of its sizes are known, {info!r}: {cure}, for example")
    return tuple(int(size) for size in bound)  # type: ignore[arg-type]


def _is_option(info: TensorInfo, sizes: tuple[int, ...]) -> bool:
    """Whether an input is likely to be an option, whose values stay: a number, or some integers."""
    kind = known_type(info.element_type)
    count = math.prod(sizes)
    return kind is not None and (count == 1 or (kind.kind != "f" and 0 < count <= LARGEST_EXAMPLE))


def _with_values(message: str, examples: Mapping[str, Any]) -> str:
    """A message that ends with the inputs that a node asks for, and how values of theirs are given."""
    before, inputs, names = message.rpartition(" (inputs ")
    own = {name: examples[name] for name in names.removesuffix(")").split(", ") if name in examples}
    if not inputs or not own:
        return message
    return f"{before}{inputs}{names.removesuffix(')')}: {argument('values', own)}, for example)"


def _example(sizes: tuple[int, ...]) -> int | list[int]:
    return [1] * math.prod(sizes) if sizes else 1


def _values_key(values: Mapping[str, Array], taken: Mapping[str, Array]) -> tuple[Hashable, ...]:
    return tuple((name, taken[name].tobytes()) for name in values)


def _outcome(translation: Translation) -> Outcome:
    problems = tuple(dict.fromkeys(translation.problems))
    needed = frozenset(translation.needed - {STAND_IN})
    return Outcome(problems, needed, tuple(translation.narrowed), tuple(translation.loops))


def _without_graph(outcome: Outcome) -> Outcome:
    """Says of nodes that the host drives that the model runs, though it has no one graph."""
    if len(outcome.loops) < len(outcome.problems):
        return outcome
    reason = "it is driven from the host when the model is run, and part of no graph"
    problems = (one._replace(message=f"{reason}: {one.message}") for one in outcome.problems)
    return outcome._replace(problems=tuple(problems))


def _assembly(graph: Graph, outputs: Mapping[str, GraphTensor]) -> GraphAssembly:
    from opendml.building.graph_building import CONSTANT_NODE_LIMIT

    return graph.assemble(outputs, constant_limit=CONSTANT_NODE_LIMIT)


def _graph_program(program: CompiledGraph, interface: GraphInterface) -> GraphProgram:
    return GraphProgram(program, interface, OutputForm("mapping", tuple(name for name, _ in interface.outputs)))
