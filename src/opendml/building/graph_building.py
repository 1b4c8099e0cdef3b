"""``Graph`` and ``GraphTensor``: a graph of operators is built by writing down what it computes, as in DirectMLX.

    g = dml.Graph(dml.Device("cpu"))
    x = g.input("float32", [1, 3, 224, 224], name="image")
    y = dml.activation_relu(dml.convolution(x, filter, bias, strides=[2, 2]) * 0.5 + shift)
    program = g.compile({"features": y})
    features = program(image=picture)["features"]

The functions that run at once on arrays append a node where an operand is a graph tensor; arrays beside graph tensors
become constants, copied as they are then. Operands are taken by
the same rules everywhere (``opendml.building.operands``): numbers and lists are converted, sizes broadcast as NumPy's.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.building.contents import Contents
from opendml.building.graph_assembly import GraphAssembly, GraphInterface, KeptConstant
from opendml.building.graph_tensor import GraphTensor
from opendml.building.layouts import check_layout
from opendml.building.places import Place, at_place, caller_place
from opendml.description.descriptors import Operator
from opendml.description.enums import ExecutionFlags, TensorDataType, TensorFlags
from opendml.description.errors import BindingError, InvalidDescriptorError
from opendml.description.fields import CountField, TensorArrayField, TensorField
from opendml.description.graph_desc import (
    ConstantNode,
    GraphDesc,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
)
from opendml.description.graph_validation import CONSTANTS_SINCE, SINCE
from opendml.description.names import checked_text
from opendml.description.notebook import table
from opendml.description.quoting import quoted
from opendml.description.tensor import TensorDesc, packed_strides
from opendml.description.validation import validate
from opendml.programs.binding import as_array
from opendml.programs.device import Device, Flags, default_device
from opendml.targets.host_memory import owner_of

if TYPE_CHECKING:
    from opendml.building.graph_program import GraphProgram, OutputForm

__all__ = ["CONSTANT_NODE_LIMIT", "Graph", "GraphAssembly"]

Array = npt.NDArray[Any]
Operand = Any
"""A graph tensor, an array (or anything with DLPack or the buffer protocol), or a number."""

CONSTANT_NODE_LIMIT: Final = 1024
"""Bytes up to which a compiled graph has a constant as a node, whose content the compiler sees. Larger ones are
OWNED_BY_DML inputs that the program is initialised with: their content is no part of the code."""


class Graph:
    """A graph being built for a device. Not for several threads at once.

    ``device`` decides what is valid (by default the processor at feature level 6_4); graphs exist from level 2_1 on.
    Every node is checked when it is made: an InvalidDescriptorError has all violations and the line of the program
    that made the node. Graphs only grow; what no output needs is left out when they are compiled. ``name`` is for
    people: profiles begin with it.
    """

    def __init__(self, device: Device | None = None, *, name: str = "") -> None:
        self.device = device or default_device()
        self.name = name
        if self.device.feature_level < SINCE:
            level = self.device.feature_level
            raise InvalidDescriptorError(f"graphs do not exist at feature level {level}, only from {SINCE} on")
        self._inputs: list[_Input] = []
        self._nodes: list[_Node] = []
        self._constants = Contents()
        self._scopes: list[str] = []

    def __repr__(self) -> str:
        names = ", ".join(given.name for given in self._inputs)
        title = f" {quoted(self.name)}" if self.name else ""
        return f"<Graph{title} on {self.device!r}: inputs ({names}), {len(self._nodes)} nodes>"

    def _repr_html_(self) -> str:
        rows = (
            (number, node.name, node.operator.type.name, ", ".join(repr(t) for _, t in node.operator.outputs() if t))
            for number, node in enumerate(self._nodes)
        )
        return table(repr(self), ("Node", "Name", "Operator", "Outputs"), rows)

    def input(
        self,
        data_type: TensorDataType | str | Any,
        sizes: Sequence[int],
        name: str | None = None,
        strides: Sequence[int] | None = None,
        owned_by_dml: bool = False,
    ) -> GraphTensor:
        """A new input of the graph.

        ``data_type``: a ``TensorDataType``, its name, or a NumPy type. ``name``: by default ``input0`` and so on, by
        position. ``owned_by_dml``: bound once, when the program is initialised, and not when it runs (weights).
        """
        flags = TensorFlags.OWNED_BY_DML if owned_by_dml else TensorFlags.NONE
        with at_place(caller_place()):
            desc = TensorDesc(data_type, sizes, strides, flags=flags)
            check_layout(desc)
            checked = "" if name is None else checked_text(name, "name")
            name = checked or f"input{len(self._inputs)}"
            if name == "out" or any(given.name == name for given in self._inputs):
                reason = "is what outputs are given by" if name == "out" else "is an input already"
                raise InvalidDescriptorError(f"the name {quoted(name)} {reason}")
        self._inputs.append(_Input(name, desc))
        return GraphTensor(self, desc, _FromInput(len(self._inputs) - 1))

    def constant(self, array: Operand) -> GraphTensor:
        """A tensor with the values that an array has now; NumPy's bools are UINT8.

        What it repeats with strides of 0 is kept once.
        """
        if isinstance(array, GraphTensor):
            return self._own(array)
        values = as_array(array, "constant")
        values = values.view(np.uint8) if values.dtype == np.bool_ else values
        with at_place(caller_place()):
            desc, data = _constant(values)
        return GraphTensor(self, desc, _FromConstant(self._constants.number_of(data)))

    def append(self, operator: Operator, *inputs: Operand | None) -> tuple[GraphTensor | None, ...]:
        """The outputs of a new node, None for those that its descriptor does not have.

        ``inputs`` are in DirectML's binding order, None for optional tensors that the descriptor does not have.
        Their bytes are read as the descriptor says; only the total sizes must agree. Raises InvalidDescriptorError.
        """
        place = caller_place()
        tensors = [None if given is None else self.constant(given) for given in inputs]
        with at_place(place):
            checked = self.device.create_operator(operator).desc
            _check_inputs(checked, tensors)
        self._nodes.append(_Node(checked, tuple(tensors), self._node_name(checked, place)))
        source = len(self._nodes) - 1
        return tuple(
            None if desc is None else GraphTensor(self, desc, _FromNode(source, number))
            for number, (_, desc) in enumerate(checked.outputs())
        )

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Nodes made inside a ``with`` block of it are named ``name`` in messages and profiles; nested ``a/b``."""
        self._scopes.append(checked_text(name, "name"))
        try:
            yield
        finally:
            self._scopes.pop()

    def describe(self, outputs: Any, *, constant_limit: int | None = None) -> GraphDesc:
        """The graph that computes the outputs (see ``compile``) as DirectML's descriptor.

        Constants of more than ``constant_limit`` bytes are graph inputs, OWNED_BY_DML, behind those of the graph;
        ``assemble`` has their values too. By default there are none from feature level 6_2 on, where constants are
        nodes, and below only those.
        """
        return self.assemble(outputs, constant_limit=constant_limit).desc

    def assemble(self, outputs: Any, *, constant_limit: int | None = None) -> GraphAssembly:
        """As ``describe``, together with what the descriptor's inputs and outputs are."""
        named = _outputs_by_name(outputs)
        limit = constant_limit
        if self.device.feature_level < CONSTANTS_SINCE:
            limit = -1
        return _Assembler(self, named, sys.maxsize if limit is None else limit).assemble()

    def compile(
        self,
        outputs: Any,
        *,
        constant_limit: int = CONSTANT_NODE_LIMIT,
        progress: Callable[[float], None] | None = None,
        execution_flags: Flags = ExecutionFlags.NONE,
    ) -> GraphProgram:
        """Native code for the outputs, which are also the form of the program's results: one graph tensor gives an
        array, a sequence a tuple, a mapping of names to graph tensors a dictionary. ``progress`` and
        ``execution_flags`` are as for ``Device.compile_graph``.

        Raises InvalidDescriptorError, whose ``violations`` are all that is wrong with the graph.
        """
        from opendml.building.graph_program import GraphProgram

        assembly = self.assemble(outputs, constant_limit=constant_limit)
        program = self.device.compile_graph(
            assembly.desc, progress=progress, execution_flags=execution_flags, bounds=assembly.bounds()
        )
        return GraphProgram(program, assembly.interface, form_of(outputs))

    def _own(self, tensor: GraphTensor) -> GraphTensor:
        if tensor.graph is not self:
            raise BindingError("graph tensors of different graphs cannot meet in one operator")
        return tensor

    def _node_name(self, operator: Operator, place: Place) -> str:
        label = "/".join(self._scopes) or operator.type.name.lower()
        return f"{label} ({Path(place.file).name}:{place.line})"


# ---- what a graph consists of


@dataclass(frozen=True, slots=True)
class _FromInput:
    number: int


@dataclass(frozen=True, slots=True)
class _FromConstant:
    number: int


@dataclass(frozen=True, slots=True)
class _FromNode:
    node: int
    output: int


_Source = _FromInput | _FromConstant | _FromNode


class _Input(NamedTuple):
    name: str
    desc: TensorDesc


class _Node(NamedTuple):
    operator: Operator
    inputs: tuple[GraphTensor | None, ...]
    name: str


# ---- checks


def _check_inputs(operator: Operator, tensors: Sequence[GraphTensor | None]) -> None:
    inputs = operator.inputs()
    name = operator.type.dml_name
    if len(tensors) != len(inputs):
        fields = ", ".join(field for field, _ in inputs) or "none"
        raise InvalidDescriptorError(f"{name} has {len(inputs)} inputs ({fields}), got {len(tensors)}")
    for (field_name, desc), tensor in zip(inputs, tensors, strict=True):
        if (desc is None) != (tensor is None):
            what = "is given, but the descriptor does not have it" if desc is None else "is missing"
            raise InvalidDescriptorError(f"{name}: {field_name} {what}")
        if desc is None or tensor is None:
            continue
        if desc.total_size_in_bytes != tensor.desc.total_size_in_bytes:
            sizes = f"{desc.total_size_in_bytes} bytes, but {tensor!r} has {tensor.desc.total_size_in_bytes}"
            raise InvalidDescriptorError(f"{name}: {field_name} has {sizes}")
        if desc.is_owned_by_dml != tensor.desc.is_owned_by_dml:
            raise InvalidDescriptorError(f"{name}: {field_name} and {tensor!r} disagree on being OWNED_BY_DML")


# ---- constants


def _constant(array: Array) -> tuple[TensorDesc, bytes | memoryview]:
    """The description of an array's values and their bytes; what strides of 0 repeat is there once.

    Bytes that cannot be written to, such as those of a file, stay where they are; others are copied.
    """
    repeated = tuple(stride == 0 and size > 1 for size, stride in zip(array.shape, array.strides, strict=True))
    once = array[tuple(slice(0, 1) if repeats else slice(None) for repeats in repeated)]
    strides = None
    if any(repeated):
        usual = packed_strides(once.shape)
        strides = [0 if repeats else stride for repeats, stride in zip(repeated, usual, strict=True)]
    desc = TensorDesc(array.dtype, array.shape, strides)
    check_layout(desc)
    values = np.ascontiguousarray(once, array.dtype.newbyteorder("="))
    return desc, _where_it_is(values) or values.tobytes()


def _kept_data(data: bytes | memoryview, is_owned: bool) -> bytes | memoryview:
    """The content of an input of a graph: whole words; aligned where it is bound as it is whenever the graph runs."""
    if missing := -len(data) % 4:
        return bytes(data) + bytes(missing)
    return data if is_owned else bytes(data)


def _where_it_is(values: Array) -> memoryview | None:
    """The bytes of a packed array where nobody can write to them: in ``bytes`` or a mapped file; else None."""
    owner = owner_of(values)
    if not isinstance(owner, (bytes, mmap.mmap)) or not memoryview(owner).readonly:
        return None
    start = values.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
    return memoryview(owner)[start : start + values.nbytes]


# ---- descriptors of graphs


def _outputs_by_name(outputs: Any) -> list[tuple[str, GraphTensor]]:
    """The outputs, whatever form they are given in, with names."""
    if isinstance(outputs, GraphTensor):
        named = [("output", outputs)]
    elif isinstance(outputs, Mapping):
        named = [(checked_text(name, "outputs"), tensor) for name, tensor in outputs.items()]
    elif isinstance(outputs, (list, tuple)):
        named = [(f"output{i}", tensor) for i, tensor in enumerate(outputs)]
    else:
        named = []
    if not named or not all(isinstance(tensor, GraphTensor) for _, tensor in named):
        raise BindingError("outputs: expected a graph tensor, or a sequence or a mapping of at least one")
    return named


def form_of(outputs: Any) -> OutputForm:
    """What turns the results of a program into the form that outputs were given in."""
    from opendml.building.graph_program import OutputForm

    if isinstance(outputs, GraphTensor):
        return OutputForm("single")
    if isinstance(outputs, Mapping):
        return OutputForm("mapping", tuple(str(name) for name in outputs))
    return OutputForm("sequence")


@dataclass
class _Assembler:
    """Writes down the part of a graph that some outputs need."""

    graph: Graph
    named: list[tuple[str, GraphTensor]]
    constant_limit: int
    nodes: list[_Node] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)

    def assemble(self) -> GraphAssembly:
        sources = [self._output_source(name, tensor) for name, tensor in self.named]
        self._keep_needed_nodes(sources)
        outputs = [self._renumbered(source) for source in sources]
        used = {*outputs, *(self._renumbered(source) for source in self._sources() if isinstance(source, _FromNode))}
        self.nodes = [_without_unused_outputs(node, number, used) for number, node in enumerate(self.nodes)]
        unused = [
            _FromNode(number, output)
            for number, node in enumerate(self.nodes)
            for output, (_, desc) in enumerate(node.operator.outputs())
            if desc is not None and _FromNode(number, output) not in used
        ]
        constants, kept = self._constants()
        return self._described([*outputs, *unused], constants, kept)

    def _output_source(self, name: str, tensor: GraphTensor) -> _FromNode:
        """Where an output comes from; inputs and constants reach it through a copy."""
        self.graph._own(tensor)
        if isinstance(tensor.source, _FromNode):
            return tensor.source
        desc = tensor.desc
        data_type, count = desc.data_type, desc.element_span
        if data_type.bits == 64:
            # Lower levels have no copies of 64-bit types.
            data_type, count = TensorDataType.UINT32, 2 * count
        with self.graph.scope(name):
            source = tensor.reinterpret([1, 1, 1, count], data_type=data_type).packed().source
        assert isinstance(source, _FromNode)
        return source

    def _keep_needed_nodes(self, sources: Sequence[_FromNode]) -> None:
        """The nodes that outputs depend on, in the order in which they were made."""
        needed, waiting = set[int](), [source.node for source in sources]
        while waiting:
            number = waiting.pop()
            if number not in needed:
                needed.add(number)
                inputs = self.graph._nodes[number].inputs
                waiting += [t.source.node for t in inputs if t is not None and isinstance(t.source, _FromNode)]
        self.numbers = {number: new for new, number in enumerate(sorted(needed))}
        self.nodes = [self.graph._nodes[number] for number in self.numbers]

    def _renumbered(self, source: Any) -> _FromNode:
        return _FromNode(self.numbers[source.node], source.output)

    def _constants(self) -> tuple[dict[int, int], dict[int, KeptConstant]]:
        """The numbers of the constants that become nodes, and the graph's inputs for the others by constant.

        A constant is OWNED_BY_DML if every operator that reads it allows that.
        """
        data = list(self.graph._constants)
        level = self.graph.device.feature_level
        constants, kept = dict[int, int](), dict[int, KeptConstant]()
        for index, readers in sorted(self._readers_of_constants().items()):
            if len(data[index]) <= self.constant_limit:
                constants[index] = len(self.nodes) + len(constants)
                continue
            owned = {i: _with_owned(self.nodes[i], index) for i in readers}
            may_be_owned = not any(validate(node.operator, level) for node in owned.values())
            if not may_be_owned and level >= CONSTANTS_SINCE:
                constants[index] = len(self.nodes) + len(constants)
                continue
            kept[index] = KeptConstant(_kept_data(data[index], may_be_owned), may_be_owned)
            for i, node in owned.items() if may_be_owned else ():
                self.nodes[i] = node
        return constants, kept

    def _readers_of_constants(self) -> dict[int, list[int]]:
        """The nodes that read each constant."""
        readers: dict[int, list[int]] = {}
        for number, node in enumerate(self.nodes):
            for constant in {
                t.source.number for t in node.inputs if t is not None and isinstance(t.source, _FromConstant)
            }:
                readers.setdefault(constant, []).append(number)
        return readers

    def _sources(self) -> Iterator[_Source]:
        """What the nodes read."""
        return (tensor.source for node in self.nodes for tensor in node.inputs if tensor is not None)

    def _described(
        self, outputs: Sequence[_FromNode], constants: dict[int, int], kept: dict[int, KeptConstant]
    ) -> GraphAssembly:
        inputs = self.graph._inputs
        data = list(self.graph._constants)
        kept_numbers = {index: len(inputs) + number for number, index in enumerate(kept)}
        input_edges, edges = list[InputEdge](), list[IntermediateEdge]()
        for number, node in enumerate(self.nodes):
            for position, tensor in enumerate(node.inputs):
                source = None if tensor is None else tensor.source
                if isinstance(source, _FromNode):
                    new = self._renumbered(source)
                    edges.append(IntermediateEdge(new.node, new.output, number, position))
                elif isinstance(source, _FromInput):
                    input_edges.append(InputEdge(source.number, number, position))
                elif isinstance(source, _FromConstant) and source.number in constants:
                    edges.append(IntermediateEdge(constants[source.number], 0, number, position))
                elif isinstance(source, _FromConstant):
                    input_edges.append(InputEdge(kept_numbers[source.number], number, position))
        names = [name for name, _ in self.named]
        desc = GraphDesc(
            input_count=len(inputs) + len(kept),
            output_count=len(outputs),
            nodes=(
                *(OperatorNode(node.operator, node.name) for node in self.nodes),
                *(ConstantNode(bytes(data[index]), f"constant{index}") for index in constants),
            ),
            input_edges=tuple(input_edges),
            output_edges=tuple(OutputEdge(source.node, source.output, number) for number, source in enumerate(outputs)),
            intermediate_edges=tuple(edges),
            input_names=(*(given.name for given in inputs), *(f"constant{index}" for index in kept)),
            output_names=(*names, *(f"unused{number}" for number in range(len(outputs) - len(names)))),
        )
        interface = GraphInterface(
            tuple((given.name, given.desc) for given in inputs),
            tuple((name, tensor.desc) for name, tensor in self.named),
            {kept_numbers[index]: constant for index, constant in kept.items()},
            self.graph.name,
        )
        return GraphAssembly(desc, interface)


def _with_owned(node: _Node, constant: int) -> _Node:
    """The node with the inputs that read a constant OWNED_BY_DML."""

    def owned(desc: TensorDesc | None, tensor: GraphTensor | None) -> TensorDesc | None:
        if desc is None or tensor is None or tensor.source != _FromConstant(constant):
            return desc
        size = desc.total_size_in_bytes
        return desc.replace(flags=desc.flags | TensorFlags.OWNED_BY_DML, total_size_in_bytes=size)

    descs = [desc for _, desc in node.operator.inputs()]
    tensors = [owned(desc, tensor) for desc, tensor in zip(descs, node.inputs, strict=True)]
    return node._replace(operator=_with_tensors(node.operator, "input", tensors))


def _without_unused_outputs(node: _Node, number: int, used: set[_FromNode]) -> _Node:
    """The node without the optional outputs that nobody uses."""
    operator = node.operator
    optional = [
        isinstance(described, TensorField) and not described.is_required
        for name, described in operator.fields.items()
        if isinstance(described, (TensorField, TensorArrayField)) and described.direction == "output"
        for _ in (getattr(operator, name) if isinstance(described, TensorArrayField) else (name,))
    ]
    outputs = [
        None if may_be_absent and _FromNode(number, i) not in used else desc
        for i, (may_be_absent, (_, desc)) in enumerate(zip(optional, operator.outputs(), strict=True))
    ]
    return node._replace(operator=_with_tensors(operator, "output", outputs)) if any(optional) else node


def _with_tensors(operator: Operator, direction: str, tensors: Sequence[TensorDesc | None]) -> Operator:
    """The operator with other tensors for its inputs or its outputs, in DirectML's binding order."""
    given = iter(tensors)
    changes: dict[str, Any] = {}
    for name, described in operator.fields.items():
        if isinstance(described, TensorArrayField) and described.direction == direction:
            changes[name] = tuple(next(given) for _ in getattr(operator, name))
        elif isinstance(described, TensorField) and described.direction == direction:
            changes[name] = next(given)
    counts = {name: value for name, value in operator.values().items() if isinstance(operator.fields[name], CountField)}
    return operator.replace(**changes, **counts)
