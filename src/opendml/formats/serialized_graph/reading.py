"""From the bytes of a file to a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType, TensorDataType
from opendml.description.errors import (
    DescriptorArgumentError,
    FormatProblem,
    ModelFormatError,
    UnknownMemberError,
    UnknownOperatorError,
)
from opendml.description.fields import Field, TensorArrayField, TensorField
from opendml.description.file_access import FileTooLargeError, read_file
from opendml.description.graph_desc import (
    ConstantNode,
    GraphDesc,
    InputEdge,
    IntermediateEdge,
    Node,
    OperatorNode,
    OutputEdge,
)
from opendml.description.graph_paths import GraphInput, NodeOutput, Source
from opendml.description.operator_classes import operator_class
from opendml.description.quoting import quoted
from opendml.description.structs import ScalarUnion
from opendml.description.tensor import TensorDesc
from opendml.formats.serialized_graph.flat_buffers import Reader, Table
from opendml.formats.serialized_graph.schema import (
    ARRAYS,
    ATTRIBUTE_TYPES,
    CONSTANT_NAME,
    CONSTANT_NODE,
    CONSTANT_RAW_DATA,
    CONSTANTS_LIMIT,
    OPERATOR_NODE,
    SCALAR_FORMS,
    SCHEMA,
    STRUCTS,
    attribute_fields,
    attribute_type,
)
from opendml.formats.serialized_graph.storage import file_name, plain_source


def read_graph(data: bytes, folder: Path | None = None) -> GraphDesc:
    """The graph in the bytes of a file; its other constants lie in ``folder``. Errors as for ``load``."""
    try:
        return _read_graph(data, folder)
    except ModelFormatError as error:
        from opendml.formats.recognition import EMPTY, format_of, other_format

        if not data:
            raise ModelFormatError("", EMPTY) from None
        other = other_format(data, "serialized_graph")
        if other:
            raise ModelFormatError("", f"not a serialised graph: {other}") from None
        if not format_of(data):
            raise ModelFormatError("", f"of no format that opendml reads; as a serialised graph: {error}") from None
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
    fields = attribute_fields(operator)
    if len(attributes) != len(fields):
        table.fail(f"{operator.type.dml_name} has {len(fields)} attributes, got {len(attributes)}", "attributes")
    return {
        name: _read_attribute(attribute, field)
        for (name, field), attribute in zip(fields.items(), attributes, strict=True)
    }


def _read_attribute(table: Table, field: Field) -> Any:
    kind = table.number("val_type", "B")
    given = ATTRIBUTE_TYPES[kind] if kind < len(ATTRIBUTE_TYPES) else str(kind)
    name, expected = table.text("name"), attribute_type(field)
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
            name = file_name(node.source, path)
            if folder is None:
                raise ModelFormatError(
                    path, f"the constant lies in another file, {quoted(name)}, and no folder is given"
                )
            if name not in contents:
                limit = min(limits.get(index, 0), CONSTANTS_LIMIT - sum(map(len, contents.values())))
                contents[name] = read_bytes(folder / name, limit, path, folder)
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


def constant_files(data: bytes) -> set[str]:
    """The names of the files that a graph's constants lie in."""
    sources = set[str]()
    for table in Reader(data, SCHEMA).root("DmlGraphDesc").tables("nodes", "DmlGraphNode"):
        if table.number("desc_type", "B") == CONSTANT_NODE:
            constant = table.table("desc", "ConstantNodeDesc")
            if constant is not None and constant.number("data_type", "B") == CONSTANT_NAME:
                named = constant.table("data", "ConstantName")
                sources |= set() if named is None else {named.text("name")}
    return {file_name(source, "") for source in sources if source}


def read_bytes(path: Path, limit: int, place: str, folder: Path | None = None) -> bytes:
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
