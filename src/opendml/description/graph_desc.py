"""``GraphDesc``: a graph of operators, field for field DirectML's ``DML_GRAPH_DESC``, and what makes one valid.

    add = dml.operators.ElementWiseAdd(a_tensor=desc, b_tensor=desc, output_tensor=desc)
    graph = dml.GraphDesc(
        input_count=1,
        output_count=1,
        nodes=[dml.ConstantNode(bytes(16)), dml.OperatorNode(add, name="add")],
        input_edges=[dml.InputEdge(0, to_node_index=1, to_node_input_index=0)],
        intermediate_edges=[dml.IntermediateEdge(0, 0, to_node_index=1, to_node_input_index=1)],
        output_edges=[dml.OutputEdge(1, 0, graph_output_index=0)],
    )
    dml.validate_graph(graph, "6_2")

A graph is a value: immutable, equal and hashable. It may hold nonsense (an edge to a node that does not exist, a
cycle); ``validate_graph`` reports all of that at once, together with everything that is wrong with the operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from opendml.description.descriptors import Operator
from opendml.description.errors import InvalidDescriptorError
from opendml.description.fields import camel_case
from opendml.description.json_values import describe
from opendml.description.names import checked_text
from opendml.description.notebook import table

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """A node that computes an operator (``DML_OPERATOR_GRAPH_NODE_DESC``). The name is for messages only."""

    operator: Operator
    name: str = ""


@dataclass(frozen=True, slots=True, init=False)
class ConstantNode:
    """A node that gives constant data (``DML_CONSTANT_DATA_GRAPH_NODE_DESC``), its only output, number 0.

    ``data`` are the bytes of the tensor that reads it; anything with the buffer protocol is copied into ``bytes``.
    ``source`` is the name under which a serialised graph keeps the data in a file of its own; such a constant reaches
    DirectML as a tensor OWNED_BY_DML, which every feature level with graphs knows, and not as a constant node.
    """

    data: bytes
    name: str
    source: str

    def __init__(
        self, data: bytes | bytearray | memoryview | npt.NDArray[Any], name: str = "", source: str = ""
    ) -> None:
        if not isinstance(data, bytes):
            try:
                data = memoryview(cast(Any, data)).tobytes()
            except (TypeError, ValueError, BufferError):
                raise InvalidDescriptorError(f"Data: expected bytes, got {describe(data)}") from None
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "source", source)

    def __repr__(self) -> str:
        source = f", source={self.source!r}" if self.source else ""
        return f"ConstantNode(<{len(self.data)} bytes>, name={self.name!r}{source})"


Node = OperatorNode | ConstantNode


@dataclass(frozen=True, slots=True)
class InputEdge:
    """From an input of the graph to an input of a node (``DML_INPUT_GRAPH_EDGE_DESC``)."""

    graph_input_index: int
    to_node_index: int
    to_node_input_index: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class OutputEdge:
    """From an output of a node to an output of the graph (``DML_OUTPUT_GRAPH_EDGE_DESC``)."""

    from_node_index: int
    from_node_output_index: int
    graph_output_index: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class IntermediateEdge:
    """From an output of a node to an input of another (``DML_INTERMEDIATE_GRAPH_EDGE_DESC``)."""

    from_node_index: int
    from_node_output_index: int
    to_node_index: int
    to_node_input_index: int
    name: str = ""


@dataclass(frozen=True, slots=True, init=False)
class GraphDesc:
    """Operators and constants, and how their tensors are connected (``DML_GRAPH_DESC``).

    ``nodes`` may stand in any order. Inputs of a node are numbered in the order of the tensor fields of its operator,
    arrays expanded, absent optional tensors counted (the order of ``Operator.inputs()``); outputs likewise. Tensors
    on the two ends of an edge may differ in sizes, strides and data type as long as their total size is the same: the
    bytes are reinterpreted. ``input_names`` and ``output_names`` are those of the graph's own inputs and outputs, one
    each or none at all; DirectML has no such names, serialised graphs bind by them.
    """

    input_count: int
    output_count: int
    nodes: tuple[Node, ...]
    input_edges: tuple[InputEdge, ...]
    output_edges: tuple[OutputEdge, ...]
    intermediate_edges: tuple[IntermediateEdge, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]

    def __init__(
        self,
        *,
        input_count: int,
        output_count: int,
        nodes: Iterable[Node],
        input_edges: Iterable[InputEdge] = (),
        output_edges: Iterable[OutputEdge] = (),
        intermediate_edges: Iterable[IntermediateEdge] = (),
        input_names: Iterable[str] = (),
        output_names: Iterable[str] = (),
    ) -> None:
        object.__setattr__(self, "input_count", input_count)
        object.__setattr__(self, "output_count", output_count)
        arrays = (nodes, input_edges, output_edges, intermediate_edges, input_names, output_names)
        for name, value in zip(_ARRAYS, arrays, strict=True):
            if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
                raise InvalidDescriptorError(f"{camel_case(name)}: expected a sequence, got {describe(value)}")
            object.__setattr__(self, name, tuple(value))
            self._check_names(name)

    def _check_names(self, array: str) -> None:
        """Names that no file could hold are refused at once."""
        members = getattr(self, array)
        names = members if array.endswith("_names") else (getattr(member, "name", "") for member in members)
        for index, name in enumerate(names):
            checked_text(name, f"{camel_case(array)}[{index}]")

    def _repr_html_(self) -> str:
        title = f"A graph of {len(self.nodes)} nodes, {self.input_count} inputs and {self.output_count} outputs"
        return table(title, ("Node", "Name", "Operator", "Reads", "Writes"), _node_rows(self))

    def input_name(self, index: int) -> str:
        """The name of an input of the graph; ``Inputs[0]`` where it has none."""
        return name_of(self.input_names, index, "Inputs")

    def output_name(self, index: int) -> str:
        """The name of an output of the graph; ``Outputs[0]`` where it has none."""
        return name_of(self.output_names, index, "Outputs")

    def to_json(self) -> dict[str, Any]:
        """The graph in DirectML's spelling, to be looked at: of constants it has the size, not the data."""
        return {
            "InputCount": self.input_count,
            "OutputCount": self.output_count,
            "Nodes": [_node_json(node) for node in self.nodes],
            **{
                camel_case(name): [_fields_json(edge) for edge in getattr(self, name)]
                for name in ("input_edges", "output_edges", "intermediate_edges")
            },
        }


def _node_rows(graph: GraphDesc) -> Iterator[tuple[object, ...]]:
    """What there is to show of each node, also where the graph makes no sense."""
    reads: dict[object, list[str]] = {}
    writes: dict[object, list[str]] = {}
    for edge in graph.input_edges:
        reads.setdefault(edge.to_node_index, []).append(graph.input_name(edge.graph_input_index))
    for between in graph.intermediate_edges:
        reads.setdefault(between.to_node_index, []).append(f"node {between.from_node_index}")
    for end in graph.output_edges:
        writes.setdefault(end.from_node_index, []).append(graph.output_name(end.graph_output_index))
    for index, node in enumerate(graph.nodes):
        is_operator = isinstance(node, OperatorNode) and isinstance(node.operator, Operator)
        kind = node.operator.type.name if is_operator else describe(node)  # type: ignore[union-attr]
        if isinstance(node, ConstantNode):
            kind = f"{len(node.data)} bytes"
        name = getattr(node, "name", "")
        yield index, name, kind, ", ".join(reads.get(index, ())), ", ".join(writes.get(index, ()))


_ARRAYS = ("nodes", "input_edges", "output_edges", "intermediate_edges", "input_names", "output_names")


def is_index(value: object, count: Any) -> bool:
    """Whether a value is an integer below a count."""
    return isinstance(value, int) and not isinstance(value, bool) and isinstance(count, int) and 0 <= value < count


def name_of(names: Sequence[str], index: int, otherwise: str) -> str:
    """The name of an input or output; ``InputEdges[3]`` of one that has none."""
    return names[index] if index < len(names) and names[index] else f"{otherwise}[{index}]"


def _node_json(node: Node) -> dict[str, Any]:
    named = {"Name": node.name} if node.name else {}
    if isinstance(node, ConstantNode):
        return {"Type": "DML_GRAPH_NODE_TYPE_CONSTANT", "Desc": {"DataSize": len(node.data), **named}}
    return {"Type": "DML_GRAPH_NODE_TYPE_OPERATOR", "Desc": {"Operator": node.operator.to_json(), **named}}


def _fields_json(edge: InputEdge | OutputEdge | IntermediateEdge) -> dict[str, Any]:
    values = {name: getattr(edge, name) for name in edge.__dataclass_fields__}
    return {camel_case(name): value for name, value in values.items() if value != ""}
