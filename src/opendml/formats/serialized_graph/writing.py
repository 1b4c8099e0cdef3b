"""From a graph to the bytes of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.errors import (
    ModelFormatError,
)
from opendml.description.fields import Field
from opendml.description.graph_desc import ConstantNode, GraphDesc, OperatorNode
from opendml.description.graph_paths import (
    GraphInput,
    NodeInput,
    NodeOutput,
    Source,
    graph_input_tensors,
    node_place,
    sources,
    topological_order,
)
from opendml.description.graph_validation import validate_graph_or_raise
from opendml.description.quoting import quoted
from opendml.description.tensor import TensorDesc
from opendml.formats.serialized_graph.flat_buffers import Reference, Writer
from opendml.formats.serialized_graph.schema import (
    ARRAYS,
    ATTRIBUTE_TYPES,
    BYTE_ARRAY,
    CONSTANT_NAME,
    CONSTANT_NODE,
    CONSTANT_RAW_DATA,
    OPERATOR_NODE,
    SCHEMA,
    STRUCTS,
    attribute_fields,
    attribute_type,
    type_name,
)
from opendml.formats.serialized_graph.storage import file_name


def write_graph(graph: GraphDesc, stored: Mapping[str, str] | None = None) -> tuple[bytes, dict[str, bytes]]:
    """The bytes of a graph's file, and by name those of the files of its constants. Errors as for ``save``.

    ``stored``: the sources that stand in the file instead of those of the constants.
    """
    validate_graph_or_raise(graph)
    _check_expressible(graph)
    names = _Names(graph)
    writer, files = Writer(SCHEMA), _ConstantFiles(stored or {}, {})
    nodes = [_write_node(writer, graph, index, names, files) for index in topological_order(graph)]
    root = writer.table(
        "DmlGraphDesc",
        nodes=writer.references(nodes),
        graphInputNames=writer.texts(names.inputs),
        graphOutputNames=writer.texts(names.outputs),
    )
    return writer.finish(root), files.contents


@dataclass(frozen=True, slots=True)
class _ConstantFiles:
    """Other sources for constants, and the contents of their files by name."""

    sources: Mapping[str, str]
    contents: dict[str, bytes]


def _check_expressible(graph: GraphDesc) -> None:
    """Raises for what the format has no place for."""
    for index, tensor in enumerate(graph_input_tensors(graph)):
        if tensor is not None and tensor.is_owned_by_dml:
            raise ModelFormatError(graph.input_name(index), "the format has no inputs OWNED_BY_DML; use a constant")
    for index, node in enumerate(graph.nodes):
        tensors = (*node.operator.inputs(), *node.operator.outputs()) if isinstance(node, OperatorNode) else ()
        for name, tensor in tensors:
            if tensor is not None and tensor.guaranteed_base_offset_alignment:
                message = "the format has no GuaranteedBaseOffsetAlignment"
                raise ModelFormatError(f"{node_place(graph, index)}.{name}", message)
    given: dict[NodeOutput, int] = {}
    for edge in graph.output_edges:
        source = NodeOutput(edge.from_node_index, edge.from_node_output_index)
        if source in given:
            both = f"{graph.output_name(given[source])} and {graph.output_name(edge.graph_output_index)}"
            place = node_place(graph, source.node)
            raise ModelFormatError(
                place, f"the format cannot have one output of a node as {both}; put an identity between"
            )
        given[source] = edge.graph_output_index


class _Names:
    """The names of all tensors and nodes: those they have, and new ones for those without."""

    def __init__(self, graph: GraphDesc) -> None:
        self._used: set[str] = set()
        self.inputs = list(graph.input_names) or [""] * graph.input_count
        self.outputs = list(graph.output_names) or [""] * graph.output_count
        self.tensors: dict[Source, str] = {}
        self.nodes = _node_names(graph)
        self._sources = sources(graph)
        for index, name in enumerate(self.inputs):
            self._claim(name, graph.input_name(index))
        for index, name in enumerate(self.outputs):
            self._claim(name, graph.output_name(index))
        for edge in graph.input_edges:
            number = edge.graph_input_index
            if not self.inputs[number]:
                self.inputs[number] = self._new(edge.name or f"input_{number}")
            self.tensors[GraphInput(number)] = self.inputs[number]
        for output in graph.output_edges:
            number = output.graph_output_index
            if not self.outputs[number]:
                self.outputs[number] = self._new(output.name or f"output_{number}")
            self.tensors[NodeOutput(output.from_node_index, output.from_node_output_index)] = self.outputs[number]
        for between in graph.intermediate_edges:
            source = NodeOutput(between.from_node_index, between.from_node_output_index)
            if source not in self.tensors:
                otherwise = f"{self.nodes[source.node]}-nodeIdx:{source.node}-outputIdx:{source.output}"
                self.tensors[source] = self._new(between.name or otherwise)

    def of_inputs(self, node: int, count: int) -> list[str]:
        """The names of the tensors that a node reads, empty for absent ones."""
        given = (self._sources.get(NodeInput(node, number)) for number in range(count))
        return ["" if source is None else self.tensors[source] for source in given]

    def of_outputs(self, node: int, count: int) -> list[str]:
        """The names of the tensors that a node gives, empty for absent ones."""
        return [self.tensors.get(NodeOutput(node, number), "") for number in range(count)]

    def _claim(self, name: str, place: str) -> None:
        if name in self._used:
            raise ModelFormatError(place, f"two tensors have the name {quoted(name)}")
        if name:
            self._used.add(name)

    def _new(self, wish: str) -> str:
        """A name that no tensor has yet, the wish if possible."""
        name, number = wish, 1
        while name in self._used:
            number += 1
            name = f"{wish}_{number}"
        self._used.add(name)
        return name


def _node_names(graph: GraphDesc) -> list[str]:
    """The nodes' names; a node without one is called by its operator and number."""
    return [
        node.name
        or (f"{node.operator.type.name.lower()}_{index}" if isinstance(node, OperatorNode) else f"constant_{index}")
        for index, node in enumerate(graph.nodes)
    ]


def _write_node(writer: Writer, graph: GraphDesc, index: int, names: _Names, files: _ConstantFiles) -> Reference:
    node = graph.nodes[index]
    if isinstance(node, ConstantNode):
        inputs: list[str] = []
        count = 1
        kind, desc = CONSTANT_NODE, _write_constant(writer, node, node_place(graph, index), files)
    else:
        inputs = names.of_inputs(index, len(node.operator.inputs()))
        count = len(node.operator.outputs())
        kind, desc = OPERATOR_NODE, _write_operator(writer, node.operator)
    return writer.table(
        "DmlGraphNode",
        desc_type=("B", kind),
        desc=desc,
        name=writer.text(names.nodes[index]),
        inputNames=writer.texts(inputs),
        outputNames=writer.texts(names.of_outputs(index, count)),
    )


def _write_constant(writer: Writer, node: ConstantNode, place: str, files: _ConstantFiles) -> Reference:
    if not node.source:
        raw = writer.table("ConstantRawData", data=writer.content(node.data))
        return writer.table("ConstantNodeDesc", data_type=("B", CONSTANT_RAW_DATA), data=raw)
    source = files.sources.get(node.source, node.source)
    name = file_name(source, place)
    if files.contents.setdefault(name, node.data) != node.data:
        raise ModelFormatError(place, f"two constants with different data would share the file {quoted(name)}")
    named = writer.table("ConstantName", name=writer.text(source))
    return writer.table("ConstantNodeDesc", data_type=("B", CONSTANT_NAME), data=named)


def _write_operator(writer: Writer, operator: Operator) -> Reference:
    return writer.table(
        "OperatorNodeDesc",
        type=writer.text(type_name(operator)),
        inputs=writer.references(_write_tensors(writer, operator.inputs())),
        outputs=writer.references(_write_tensors(writer, operator.outputs())),
        attributes=writer.references(_write_attributes(writer, operator)),
    )


def _write_tensors(writer: Writer, tensors: Iterable[tuple[str, TensorDesc | None]]) -> list[Reference]:
    return [
        writer.table(
            "DmlBufferTensorDesc",
            dataType=writer.text(tensor.data_type.dml_name),
            sizes=writer.numbers(tensor.sizes, "I"),
            strides=None if tensor.strides is None else writer.numbers(tensor.strides, "I"),
            totalTensorSizeInBytes=("Q", tensor.total_size_in_bytes),
        )
        for _, tensor in tensors
        if tensor is not None
    ]


def _write_attributes(writer: Writer, operator: Operator) -> list[Reference]:
    return [
        _write_attribute(writer, field, getattr(operator, name))
        for name, field in attribute_fields(type(operator)).items()
    ]


def _write_attribute(writer: Writer, field: Field, value: Any) -> Reference:
    """An attribute; one that is absent has neither name nor value."""
    kind = attribute_type(field)
    number = ("B", ATTRIBUTE_TYPES.index(kind))
    if value is None:
        return writer.table("AttributeDesc", val_type=number)
    target = _write_value(writer, kind, value)
    return writer.table("AttributeDesc", name=writer.text(field.json_name), val_type=number, val=target)


def _write_value(writer: Writer, kind: str, value: Any) -> Reference:
    if kind in ARRAYS:
        return writer.table(kind, data=writer.numbers(value, ARRAYS[kind]))
    if kind == "ScalarUnionData":
        data = writer.structure("8s", value.data)
        return writer.table(kind, data_type=("B", BYTE_ARRAY), data=data)
    if kind == "Activation":
        return _write_activation(writer, value)
    if kind == "ActivationArray":
        return writer.table(kind, data=writer.references([_write_activation(writer, item) for item in value]))
    return writer.structure(STRUCTS[kind], *(value if isinstance(value, tuple) else (value,)))


def _write_activation(writer: Writer, activation: Operator) -> Reference:
    return writer.table(
        "Activation",
        type=writer.text(type_name(activation)),
        attributes=writer.references(_write_attributes(writer, activation)),
    )
