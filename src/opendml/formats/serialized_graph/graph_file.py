"""Serialised graphs: the files ``Partition_0.bin`` that ONNX Runtime's DirectML provider writes (its option
``enable_graph_serialization``) and DxDispatch runs.

    graph = dml.load("Partition_0.bin")
    dml.save(graph, "copy/Partition_0.bin")

A file is a FlatBuffer: nodes, each with the names of the tensors that it reads and gives, and the names of the graph's
own inputs and outputs. Equal names are what the edges of the graph are made of. An operator's tensors stand in one list
for inputs and one for outputs, its attributes in a third, in the order of the fields of DirectML's struct; absent
optional tensors have an empty name. Constants are stored in the file, or each in one of its own beside it.

Source of the format: the tables and the reader in microsoft/DirectML, DxDispatch/src/dxdispatch/DirectMLHelpers, and
the writer in microsoft/onnxruntime, DmlGraphSerialization.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from opendml.description.descriptors import Operator, operator_class
from opendml.description.enums import OperatorType, TensorDataType
from opendml.description.errors import (
    DescriptorArgumentError,
    FormatProblem,
    ModelFormatError,
    UnknownMemberError,
    UnknownOperatorError,
)
from opendml.description.fields import ArrayField, EnumField, Field, ScalarUnion, TensorArrayField, TensorField
from opendml.description.file_access import FileTooLargeError, read_file
from opendml.description.graph_desc import (
    ConstantNode,
    GraphDesc,
    GraphInput,
    InputEdge,
    IntermediateEdge,
    Node,
    NodeInput,
    NodeOutput,
    OperatorNode,
    OutputEdge,
    Source,
    graph_input_tensors,
    node_place,
    sources,
    topological_order,
    validate_graph_or_raise,
)
from opendml.description.quoting import quoted
from opendml.description.tensor import TensorDesc
from opendml.formats.serialized_graph.flat_buffers import MAXIMUM_SIZE, Reader, Reference, Table, Writer
from opendml.formats.serialized_graph.storage import plain_source, replace_files, stamp, stored_sources

__all__ = ["load", "read_graph", "save", "write_graph"]

SCHEMA: Final = {
    "DmlGraphDesc": ("nodes", "graphInputNames", "graphOutputNames"),
    "DmlGraphNode": ("desc_type", "desc", "name", "inputNames", "outputNames"),
    "OperatorNodeDesc": ("type", "inputs", "outputs", "attributes"),
    "ConstantNodeDesc": ("data_type", "data"),
    "ConstantName": ("name",),
    "ConstantRawData": ("data",),
    "DmlBufferTensorDesc": ("dataType", "sizes", "strides", "totalTensorSizeInBytes"),
    "AttributeDesc": ("name", "val_type", "val"),
    "Activation": ("type", "attributes"),
    "ActivationArray": ("data",),
    "UIntArray": ("data",),
    "IntArray": ("data",),
    "FloatArray": ("data",),
    "ScalarUnionData": ("data_type", "data"),
}
CONSTANTS_LIMIT: Final = 16 << 30
"""The most bytes that the constants in files of their own may have together: what one tensor of DirectML may have."""

OPERATOR_NODE, CONSTANT_NODE = 1, 2
CONSTANT_NAME, CONSTANT_RAW_DATA = 1, 2

ATTRIBUTE_TYPES: Final = (
    *("NONE", "Activation", "ActivationArray", "UInt32", "UInt64", "Int32", "Float32"),
    *("UIntArray", "IntArray", "FloatArray", "ScaleBias", "Size2D", "ScalarUnionData", "Bool"),
)
"""What the value of an attribute may be, in the order of the union's numbers."""

STRUCTS: Final = {"UInt32": "I", "UInt64": "Q", "Int32": "i", "Float32": "f", "ScaleBias": "2f", "Size2D": "2I"}
ARRAYS: Final = {"UIntArray": "I", "IntArray": "i", "FloatArray": "f"}
BYTE_ARRAY: Final = 1
SCALAR_FORMS: Final = ("", "8s", "1s", "1s", "2s", "2s", "4s", "4s", "8s", "8s", "4s", "8s")
"""The bytes of a scalar union by its type: NONE, ByteArray, Int8, UInt8, ... UInt64, Float32, Float64."""

FIELD_TYPES: Final = {
    "UINT": "UInt32",
    "BOOL": "UInt32",
    "INT": "Int32",
    "FLOAT": "Float32",
    "DML_SCALE_BIAS": "ScaleBias",
    "DML_SIZE_2D": "Size2D",
    "DML_SCALAR_UNION": "ScalarUnionData",
    "DML_OPERATOR_DESC": "Activation",
}
ARRAY_FIELD_TYPES: Final = {
    "UINT": "UIntArray",
    "INT": "IntArray",
    "FLOAT": "FloatArray",
    "DML_OPERATOR_DESC": "ActivationArray",
}


def load(path: str | os.PathLike[str]) -> GraphDesc:
    """Reads a serialised graph, and the constants that lie in files beside it.

    The graph is not validated: ``validate_graph`` and ``Device.compile_graph`` do that. Raises ``ModelFormatError`` for
    what is no serialised graph, or a damaged one, with the place in it.
    """
    path = _path(path)
    while True:
        before = stamp(path)
        try:
            graph = read_graph(_read_file(path, MAXIMUM_SIZE, ""), path.parent)
        except ModelFormatError:
            if stamp(path) == before:
                raise
        else:
            # The files of constants belong to the graph's file that was there before they were read.
            if stamp(path) == before or not any(isinstance(n, ConstantNode) and n.source for n in graph.nodes):
                return graph


def save(graph: GraphDesc, path: str | os.PathLike[str]) -> None:
    """Writes a graph as ONNX Runtime does, and each constant with a ``source`` into a file beside it.

    All files are replaced as one: whoever loads the graph meanwhile gets the old one or the new one, and a saving that
    fails changes nothing. No file that another graph may need is written over: a constant whose usual file has other
    content already goes into a file whose name ends with a hash of its content.

    Nodes come in topological order; tensors and nodes without a name are given one. What the format has no place for is
    refused with ``ModelFormatError``: inputs OWNED_BY_DML, guaranteed alignments, one output of a node as several
    outputs of the graph. Raises ``InvalidDescriptorError`` for an invalid graph.
    """
    path = _path(path)
    write_graph(graph)  # What cannot be written is refused before any file is looked at.
    constants = {node.source: node.data for node in graph.nodes if isinstance(node, ConstantNode) and node.source}
    stored = stored_sources(path, constants, lambda source: _file_name(source, ""))
    data, files = write_graph(graph, stored)
    try:
        replace_files(path, data, files, _constant_files)
    except OSError as error:
        raise ModelFormatError("", f"cannot write {quoted(path.name)}: {error.strerror or error}") from error


def _path(path: object) -> Path:
    try:
        return Path(path)  # type: ignore[arg-type]
    except Exception:  # whatever a foreign object raises
        raise ModelFormatError("", f"expected the path of a file, got {quoted(path)}") from None


# ---- reading


def read_graph(data: bytes, folder: Path | None = None) -> GraphDesc:
    """The graph in the bytes of a file; its other constants lie in ``folder``. Errors as for ``load``."""
    try:
        return _read_graph(data, folder)
    except ModelFormatError:
        from opendml.formats.recognition import other_format

        other = other_format(data, "serialized_graph")
        if other:
            raise ModelFormatError("", f"not a serialised graph: {other}") from None
        raise


def _read_graph(data: bytes, folder: Path | None) -> GraphDesc:
    root = Reader(data, SCHEMA).root("DmlGraphDesc")
    nodes = [_read_node(table) for table in root.tables("nodes", "DmlGraphNode")]
    if not nodes:
        root.fail("not a serialised graph: it has no nodes", "nodes")
    connected = _connect(nodes, root.texts("graphInputNames"), root.texts("graphOutputNames"))
    return _with_constants(connected, folder)


def read_operators(data: bytes) -> tuple[list[tuple[str, Operator]], list[FormatProblem]]:
    """For checking a graph that cannot be read: the operators that can, by their places, and why others cannot."""
    operators: list[tuple[str, Operator]] = []
    problems: list[FormatProblem] = []
    for table in Reader(data, SCHEMA).root("DmlGraphDesc").tables("nodes", "DmlGraphNode"):
        try:
            node = _read_node(table)
        except ModelFormatError as error:
            problems += error.problems
        else:
            if isinstance(node.node, OperatorNode):
                operators.append((node.path, node.node.operator))
    return operators, problems


@dataclass(frozen=True, slots=True)
class _NamedNode:
    """A node and the names of the tensors that it reads and gives; empty for absent ones."""

    node: Node
    inputs: Sequence[str]
    outputs: Sequence[str]
    path: str


def _read_node(table: Table) -> _NamedNode:
    inputs, outputs = table.texts("inputNames"), table.texts("outputNames")
    kind, name = table.number("desc_type", "B"), table.text("name")
    if kind == OPERATOR_NODE:
        desc = table.table("desc", "OperatorNodeDesc") or table.fail("the operator is missing", "desc")
        node: Node = OperatorNode(_read_operator(desc, inputs, outputs), name)
    elif kind == CONSTANT_NODE:
        constant = table.table("desc", "ConstantNodeDesc") or table.fail("the constant is missing", "desc")
        node = _read_constant(constant, name)
        if inputs or len(outputs) != 1:
            table.fail(f"a constant has one output, not {len(inputs)} inputs and {len(outputs)} outputs")
    else:
        table.fail(f"unknown type of node: {kind}", "desc_type")
    return _NamedNode(node, inputs, outputs, table.path)


def _read_constant(table: Table, name: str) -> ConstantNode:
    """A constant; the data of one in another file is read later."""
    kind = table.number("data_type", "B")
    if kind == CONSTANT_NAME:
        named = table.table("data", "ConstantName") or table.fail("the constant is missing", "data")
        return ConstantNode(b"", name, source=named.text("name") or named.fail("the name is empty", "name"))
    if kind == CONSTANT_RAW_DATA:
        raw = table.table("data", "ConstantRawData") or table.fail("the constant is missing", "data")
        return ConstantNode(raw.content("data") or b"", name)
    return table.fail(f"unknown type of constant: {kind}", "data_type")


def _read_operator(table: Table, inputs: Sequence[str], outputs: Sequence[str]) -> Operator:
    operator = _operator_class(table)
    tensors = {
        "input": _TensorReader(table, "inputs", inputs),
        "output": _TensorReader(table, "outputs", outputs),
    }
    values = _read_attributes(table, operator)
    for name, field in operator.fields.items():
        if isinstance(field, (TensorField, TensorArrayField)):
            values[name] = tensors[field.direction].read(field)
    for reader in tensors.values():
        reader.finish()
    try:
        return operator(**values)
    except DescriptorArgumentError as error:
        table.fail(str(error))


def _operator_class(table: Table) -> type[Operator]:
    name = table.text("type")
    try:
        return operator_class(OperatorType.parse(name))
    except (UnknownMemberError, UnknownOperatorError) as error:
        table.fail(str(error), "type")


class _TensorReader:
    """Hands out the inputs, or the outputs, of an operator in the order of its fields."""

    def __init__(self, table: Table, field: str, names: Sequence[str]) -> None:
        self.table = table
        self.field = field
        self.names = names
        self.tensors = [_read_tensor(tensor) for tensor in table.tables(field, "DmlBufferTensorDesc")]
        self.names_used = 0
        self.tensors_used = 0

    def read(self, field: TensorField | TensorArrayField) -> TensorDesc | tuple[TensorDesc, ...] | None:
        """The tensor of a field, None if its name is empty; for an array all that are left."""
        if isinstance(field, TensorArrayField):
            rest = tuple(self.tensors[self.tensors_used :])
            self.names_used += len(rest)
            self.tensors_used += len(rest)
            return rest
        if self.names_used >= len(self.names):
            self.table.fail(f"there is no name for {field.json_name}", self.field)
        name = self.names[self.names_used]
        self.names_used += 1
        if not name:
            return None
        if self.tensors_used >= len(self.tensors):
            self.table.fail(f"there is no tensor for {field.json_name}", self.field)
        self.tensors_used += 1
        return self.tensors[self.tensors_used - 1]

    def finish(self) -> None:
        """Nothing may be left over."""
        for what, used, given in (
            ("tensors", self.tensors_used, len(self.tensors)),
            ("names of tensors", self.names_used, len(self.names)),
        ):
            if used != given:
                self.table.fail(f"expected {used} {what}, got {given}", self.field)


def _read_tensor(table: Table) -> TensorDesc:
    name = table.text("dataType")
    try:
        data_type = TensorDataType.parse(name)
    except UnknownMemberError as error:
        table.fail(str(error), "dataType")
    return TensorDesc(
        data_type,
        table.numbers("sizes", "I") or (),
        table.numbers("strides", "I"),
        total_size_in_bytes=table.number("totalTensorSizeInBytes", "Q"),
    )


def _read_attributes(table: Table, operator: type[Operator]) -> dict[str, Any]:
    """The values of all fields but the tensors."""
    attributes = list(table.tables("attributes", "AttributeDesc"))
    fields = _attribute_fields(operator)
    if len(attributes) != len(fields):
        table.fail(f"{operator.type.dml_name} has {len(fields)} attributes, got {len(attributes)}", "attributes")
    return {
        name: _read_attribute(attribute, field)
        for (name, field), attribute in zip(fields.items(), attributes, strict=True)
    }


def _read_attribute(table: Table, field: Field) -> Any:
    kind = table.number("val_type", "B")
    given = ATTRIBUTE_TYPES[kind] if kind < len(ATTRIBUTE_TYPES) else str(kind)
    name, expected = table.text("name"), _attribute_type(field)
    if name and name != field.json_name:
        table.fail(f"expected {field.json_name}, got {quoted(name)}", "name")
    # Newer schemas have a BOOL of their own, which takes the place of a UINT.
    if given != expected and not (given == "Bool" and field.kind == "BOOL"):
        table.fail(f"{field.json_name} must be {expected}, got {given}", "val_type")
    value = _read_bool(table) if given == "Bool" else _ATTRIBUTE_READERS[expected](table, expected)
    if value is None and not field.optional:
        table.fail(f"{field.json_name} is missing", "val")
    return value


def _read_bool(table: Table) -> Any:
    values = table.structure("val", "B")
    return None if values is None else values[0]


def _read_number(table: Table, kind: str) -> Any:
    values = table.structure("val", STRUCTS[kind])
    return values if values is None or len(values) > 1 else values[0]


def _read_array(table: Table, kind: str) -> Any:
    array = table.table("val", kind)
    return None if array is None else array.numbers("data", ARRAYS[kind]) or ()


def _read_scalar_union(table: Table, kind: str) -> ScalarUnion | None:
    union = table.table("val", kind)
    if union is None:
        return None
    scalar = union.number("data_type", "B")
    if not 1 <= scalar < len(SCALAR_FORMS):
        union.fail(f"unknown type of scalar: {scalar}", "data_type")
    values = union.structure("data", SCALAR_FORMS[scalar])
    return None if values is None else ScalarUnion(values[0].ljust(8, b"\0"))


def _read_activation(table: Table, kind: str) -> Operator | None:
    activation = table.table("val", kind)
    return None if activation is None else _activation(activation)


def _read_activations(table: Table, kind: str) -> tuple[Operator, ...] | None:
    array = table.table("val", kind)
    return None if array is None else tuple(_activation(item) for item in array.tables("data", "Activation"))


def _activation(table: Table) -> Operator:
    """An operator without tensors."""
    operator = _operator_class(table)
    if any(field.kind.startswith("DML_OPERATOR_DESC") for field in operator.fields.values()):
        table.fail(f"{operator.type.dml_name} is no activation", "type")
    try:
        return operator(**_read_attributes(table, operator))
    except DescriptorArgumentError:
        table.fail(f"{operator.type.dml_name} is no activation", "type")


_ATTRIBUTE_READERS: Mapping[str, Callable[[Table, str], Any]] = {
    **dict.fromkeys(STRUCTS, _read_number),
    **dict.fromkeys(ARRAYS, _read_array),
    "ScalarUnionData": _read_scalar_union,
    "Activation": _read_activation,
    "ActivationArray": _read_activations,
}


def _attribute_fields(operator: type[Operator]) -> dict[str, Field]:
    return {name: field for name, field in operator.fields.items() if not hasattr(field, "direction")}


def _attribute_type(field: Field) -> str:
    """What DirectML's schema stores a field as: enumerations and Booleans are UINT."""
    if isinstance(field, EnumField):
        return "UInt32"
    if isinstance(field, ArrayField):
        return ARRAY_FIELD_TYPES[field.element.kind]
    return FIELD_TYPES[field.kind]


# ---- edges from names


def _connect(nodes: Sequence[_NamedNode], input_names: Sequence[str], output_names: Sequence[str]) -> GraphDesc:
    """The graph whose edges are the equal names."""
    given = _tensor_sources(nodes, input_names)
    outputs = {name: index for index, name in enumerate(output_names) if name}
    if len(outputs) < sum(map(bool, output_names)):
        raise ModelFormatError("graphOutputNames", "a name occurs twice")
    input_edges: list[InputEdge] = []
    intermediate_edges: list[IntermediateEdge] = []
    output_edges: list[OutputEdge] = []
    for index, node in enumerate(nodes):
        for number, name in enumerate(node.inputs):
            source = given.get(name)
            if isinstance(source, GraphInput):
                input_edges.append(InputEdge(source.number, index, number, name))
            elif source is not None:
                intermediate_edges.append(IntermediateEdge(source.node, source.output, index, number, name))
            elif name:
                path = f"{node.path}.inputNames[{number}]"
                raise ModelFormatError(path, f"nothing in the graph gives a tensor {quoted(name)}")
        for number, name in enumerate(node.outputs):
            if name in outputs:
                output_edges.append(OutputEdge(index, number, outputs[name], name))
    return GraphDesc(
        input_count=len(input_names),
        output_count=len(output_names),
        nodes=tuple(node.node for node in nodes),
        input_edges=tuple(input_edges),
        output_edges=tuple(output_edges),
        intermediate_edges=tuple(intermediate_edges),
        input_names=tuple(input_names),
        output_names=tuple(output_names),
    )


def _tensor_sources(nodes: Sequence[_NamedNode], input_names: Sequence[str]) -> dict[str, Source]:
    """What gives the tensor of each name."""
    found: dict[str, Source] = {}

    def add(name: str, source: Source, path: str) -> None:
        if name in found:
            raise ModelFormatError(path, f"two tensors have the name {quoted(name)}")
        if name:
            found[name] = source

    for index, name in enumerate(input_names):
        add(name, GraphInput(index), f"graphInputNames[{index}]")
    for index, node in enumerate(nodes):
        for number, name in enumerate(node.outputs):
            add(name, NodeOutput(index, number), f"{node.path}.outputNames[{number}]")
    return found


# ---- constants in files of their own


def _with_constants(graph: GraphDesc, folder: Path | None) -> GraphDesc:
    """The graph with the data of the constants that have a source."""
    limits = _constant_limits(graph)
    contents: dict[str, bytes] = {}
    nodes: list[Node] = []
    for index, node in enumerate(graph.nodes):
        if isinstance(node, ConstantNode) and node.source:
            path = f"nodes[{index}].desc.data.name"
            name = _file_name(node.source, path)
            if folder is None:
                raise ModelFormatError(
                    path, f"the constant lies in another file, {quoted(name)}, and no folder is given"
                )
            if name not in contents:
                limit = min(limits.get(index, 0), CONSTANTS_LIMIT - sum(map(len, contents.values())))
                contents[name] = _read_file(folder / name, limit, path, folder)
            data = contents[name]
            node = replace(node, data=data, source=plain_source(node.source, data))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _constant_limits(graph: GraphDesc) -> dict[int, int]:
    """The greatest size that a reader of each constant has."""
    limits: dict[int, int] = {}
    for edge in graph.intermediate_edges:
        reader = graph.nodes[edge.to_node_index]
        if isinstance(reader, OperatorNode):
            tensor = reader.operator.inputs()[edge.to_node_input_index][1]
            size = tensor.total_size_in_bytes if tensor else 0
            limits[edge.from_node_index] = max(size, limits.get(edge.from_node_index, 0))
    return limits


def _file_name(source: str, path: str) -> str:
    """The name of the file of a constant; characters that are separators or special to some system become ``_``, as
    in the files that ONNX Runtime writes, so that it is always a name in the same folder."""
    if not source.isprintable():
        raise ModelFormatError(path, "the name of a constant has characters that no file may have")
    return "".join("_" if one in '\\/:*?"<>|' else one for one in source) + ".bin"


def _constant_files(data: bytes) -> set[str]:
    """The names of the files that a graph's constants lie in."""
    sources = set[str]()
    for table in Reader(data, SCHEMA).root("DmlGraphDesc").tables("nodes", "DmlGraphNode"):
        if table.number("desc_type", "B") == CONSTANT_NODE:
            constant = table.table("desc", "ConstantNodeDesc")
            if constant is not None and constant.number("data_type", "B") == CONSTANT_NAME:
                named = constant.table("data", "ConstantName")
                sources |= set() if named is None else {named.text("name")}
    return {_file_name(source, "") for source in sources if source}


def _read_file(path: Path, limit: int, place: str, folder: Path | None = None) -> bytes:
    """The content of a file of at most that size; of one in the folder, where one is given, links included."""
    name = quoted(path.name)
    try:
        if folder is not None and not path.resolve().is_relative_to(folder.resolve()):
            raise ModelFormatError(place, f"the file {name} lies outside the folder of the graph")
        return read_file(path, limit)
    except FileNotFoundError:
        raise ModelFormatError(place, f"no file {name} in {quoted(str(path.parent), 300)}") from None
    except FileTooLargeError as error:
        raise ModelFormatError(place, f"the file {name} {str(error.strerror).removeprefix('it ')}") from None
    except MemoryError:
        raise ModelFormatError(place, f"the file {name} is larger than there is memory") from None
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, ModelFormatError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise ModelFormatError(place, f"cannot read the file {name}: {reason}") from None


# ---- writing


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
    name = _file_name(source, place)
    if files.contents.setdefault(name, node.data) != node.data:
        raise ModelFormatError(place, f"two constants with different data would share the file {quoted(name)}")
    named = writer.table("ConstantName", name=writer.text(source))
    return writer.table("ConstantNodeDesc", data_type=("B", CONSTANT_NAME), data=named)


def _write_operator(writer: Writer, operator: Operator) -> Reference:
    return writer.table(
        "OperatorNodeDesc",
        type=writer.text(_type_name(operator)),
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
        for name, field in _attribute_fields(type(operator)).items()
    ]


def _write_attribute(writer: Writer, field: Field, value: Any) -> Reference:
    """An attribute; one that is absent has neither name nor value."""
    kind = _attribute_type(field)
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
        type=writer.text(_type_name(activation)),
        attributes=writer.references(_write_attributes(writer, activation)),
    )


def _type_name(operator: Operator) -> str:
    """The operator's name in DirectML's schema, which knows one of them by the name of its descriptor."""
    return {OperatorType.SCATTER_ELEMENTS: "DML_OPERATOR_SCATTER"}.get(operator.type, operator.type.dml_name)
