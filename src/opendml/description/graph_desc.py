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

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel
from opendml.description.errors import DescriptorArgumentError, InvalidDescriptorError
from opendml.description.fields import camel_case
from opendml.description.json_values import describe
from opendml.description.names import checked_text
from opendml.description.notebook import table
from opendml.description.quoting import quoted
from opendml.description.rules import Violation, describe_value, validate
from opendml.description.tensor import MAXIMUM_UINT, TensorDesc

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "ConstantNode",
    "GraphDesc",
    "GraphInput",
    "InputEdge",
    "IntermediateEdge",
    "Node",
    "NodeInput",
    "NodeOutput",
    "OperatorNode",
    "OutputEdge",
    "Source",
    "graph_input_tensors",
    "graph_output_tensors",
    "node_place",
    "sources",
    "topological_order",
    "uses",
    "validate_graph",
    "validate_graph_or_raise",
]

SINCE: Final = FeatureLevel.LEVEL_2_1
CONSTANTS_SINCE: Final = FeatureLevel.LEVEL_6_2

MAXIMUM_GRAPH_INPUTS: Final = 1_000_000
"""A descriptor heap of Direct3D 12 has room for no more, so no graph with more inputs can be bound."""


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
        return _name(self.input_names, index, "Inputs")

    def output_name(self, index: int) -> str:
        """The name of an output of the graph; ``Outputs[0]`` where it has none."""
        return _name(self.output_names, index, "Outputs")

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


def validate_graph(graph: GraphDesc, feature_level: FeatureLevel | str = FeatureLevel.LEVEL_6_4) -> list[Violation]:
    """All violations of a graph and of its nodes' operators at a feature level; an empty list if it is valid.

    Places are those of DirectML's structs, a node with its name: ``Nodes[3] 'conv1'.InputTensor.Sizes[2]``,
    ``IntermediateEdges[7].ToNodeIndex``.
    """
    if not isinstance(graph, GraphDesc):
        raise DescriptorArgumentError(f"expected a GraphDesc, got {quoted(graph)}")
    return _GraphRules(graph, FeatureLevel.parse(feature_level)).check()


def validate_graph_or_raise(graph: GraphDesc, feature_level: FeatureLevel | str = FeatureLevel.LEVEL_6_4) -> None:
    """Raises ``InvalidDescriptorError`` with all violations if there are any."""
    level = FeatureLevel.parse(feature_level)
    violations = validate_graph(graph, level)
    if violations:
        raise InvalidDescriptorError(f"{_GRAPH} is invalid at feature level {level}:", violations)


# ---- finding one's way in a valid graph


class GraphInput(NamedTuple):
    """An input of the graph."""

    number: int


class NodeOutput(NamedTuple):
    """An output of a node."""

    node: int
    output: int


class NodeInput(NamedTuple):
    """An input of a node."""

    node: int
    input: int


Source = GraphInput | NodeOutput
"""Where a tensor comes from."""


def sources(graph: GraphDesc) -> dict[NodeInput, Source]:
    """Where each connected input of a node comes from."""
    found: dict[NodeInput, Source] = {}
    for edge in graph.input_edges:
        found[NodeInput(edge.to_node_index, edge.to_node_input_index)] = GraphInput(edge.graph_input_index)
    for between in graph.intermediate_edges:
        target = NodeInput(between.to_node_index, between.to_node_input_index)
        found[target] = NodeOutput(between.from_node_index, between.from_node_output_index)
    return found


def uses(graph: GraphDesc) -> dict[Source, list[NodeInput]]:
    """The inputs of nodes that read each input of the graph and each output of a node; those nobody reads are not in
    it. Outputs of the graph are no uses: ``graph.output_edges`` has them."""
    found: dict[Source, list[NodeInput]] = {}
    for target, source in sources(graph).items():
        found.setdefault(source, []).append(target)
    return found


def graph_input_tensors(graph: GraphDesc) -> list[TensorDesc | None]:
    """The tensor of each input of a valid graph; None for those nobody reads.

    Where several read it, it is the tensor that reaches furthest, and the first of these.
    """
    tensors: list[TensorDesc | None] = [None] * graph.input_count
    for edge in graph.input_edges:
        node = graph.nodes[edge.to_node_index]
        assert isinstance(node, OperatorNode)
        tensor, other = node.operator.inputs()[edge.to_node_input_index][1], tensors[edge.graph_input_index]
        assert tensor is not None
        if other is None or used_bytes(tensor) > used_bytes(other):
            tensors[edge.graph_input_index] = tensor
    return tensors


def graph_output_tensors(graph: GraphDesc) -> list[TensorDesc]:
    """The tensor of each output of a valid graph."""
    tensors: dict[int, TensorDesc] = {}
    for edge in graph.output_edges:
        node = graph.nodes[edge.from_node_index]
        assert isinstance(node, OperatorNode)
        tensor = node.operator.outputs()[edge.from_node_output_index][1]
        assert tensor is not None
        tensors[edge.graph_output_index] = tensor
    return [tensors[index] for index in range(graph.output_count)]


def topological_order(graph: GraphDesc) -> list[int]:
    """The indices of the nodes, each after those that it reads, and otherwise in the order of ``nodes``.

    Raises ``InvalidDescriptorError`` if there is a cycle. Edges from or to nodes that do not exist are ignored.
    """
    order = _nodes_in_order(graph)
    if len(order) < len(graph.nodes):
        raise InvalidDescriptorError(f"{_GRAPH} has a cycle: {_cycle_text(graph, order)}")
    return order


def _nodes_in_order(graph: GraphDesc) -> list[int]:
    """As ``topological_order``, without the nodes on cycles and those behind them."""
    count = len(graph.nodes)
    waiting_for = [0] * count
    followers: list[list[int]] = [[] for _ in range(count)]
    for source, target in _node_pairs(graph):
        waiting_for[target] += 1
        followers[source].append(target)
    ready = [index for index in range(count) if not waiting_for[index]]
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for follower in followers[node]:
            waiting_for[follower] -= 1
            if not waiting_for[follower]:
                heapq.heappush(ready, follower)
    return order


def _node_pairs(graph: GraphDesc) -> Iterator[tuple[int, int]]:
    """The nodes at the two ends of each edge between nodes that exist."""
    count = len(graph.nodes)
    for edge in graph.intermediate_edges:
        if isinstance(edge, IntermediateEdge):
            pair = edge.from_node_index, edge.to_node_index
            if all(_is_index(index, count) for index in pair):
                yield pair


def _cycle_text(graph: GraphDesc, order: Sequence[int]) -> str:
    """One cycle of a graph that has one: ``Nodes[0] 'a' -> Nodes[1] 'b' -> Nodes[0] 'a'``."""
    left = set(range(len(graph.nodes))).difference(order)
    before = {target: source for source, target in _node_pairs(graph) if source in left and target in left}
    # Every node left waits for another one, so going back long enough ends in a cycle.
    node = min(left)
    for _ in left:
        node = before[node]
    cycle = [node]
    while before[cycle[-1]] != node:
        cycle.append(before[cycle[-1]])
    first = cycle.index(min(cycle))
    forward = [*reversed(cycle[: first + 1]), *reversed(cycle[first + 1 :])]
    shown = [node_place(graph, index) for index in forward[:_CYCLE_SHOWN]]
    more = [f"{len(forward) - _CYCLE_SHOWN} more"] if len(forward) > _CYCLE_SHOWN else []
    return " -> ".join([*shown, *more, shown[0]])


_CYCLE_SHOWN = 8
_GRAPH = "DML_GRAPH_DESC"


def node_place(graph: GraphDesc, index: int) -> str:
    """A node in messages: ``Nodes[3] 'conv1'``, or ``Nodes[3]`` if it has no name."""
    name = getattr(graph.nodes[index], "name", "")
    return f"Nodes[{index}] {describe(name)!r}" if isinstance(name, str) and name else f"Nodes[{index}]"


# ---- the rules


class _Tensors(NamedTuple):
    """The tensors of a node, by number; a constant's only output is its data."""

    inputs: tuple[tuple[str, TensorDesc | None], ...]
    outputs: tuple[tuple[str, TensorDesc | None], ...]


class _GraphRules:
    """Collects the violations of one graph. What is broken in itself is reported once and then left out."""

    def __init__(self, graph: GraphDesc, level: FeatureLevel) -> None:
        self.graph = graph
        self.level = level
        self.violations: list[Violation] = []
        self.tensors = [_tensors_of(node) for node in graph.nodes]
        # Ends of edges that exist count as connected even where the other end does not.
        self.connected_inputs: list[tuple[str, NodeInput]] = []
        self.connected_outputs: set[NodeOutput] = set()

    def check(self) -> list[Violation]:
        self._require(
            self.level >= SINCE, "", f"{_GRAPH} does not exist at feature level {self.level}", allowed_at=SINCE
        )
        self._check_counts()
        for index, node in enumerate(self.graph.nodes):
            self._check_node(index, node)
        inputs = list(self._sound_edges("input_edges", InputEdge))
        between = list(self._sound_edges("intermediate_edges", IntermediateEdge))
        outputs = list(self._sound_edges("output_edges", OutputEdge))
        self._check_node_inputs()
        self._check_node_outputs()
        self._check_graph_inputs(inputs)
        self._check_graph_outputs(outputs)
        for _, edge in between:
            self._check_between(edge)
        order = _nodes_in_order(self.graph)
        if len(order) < len(self.graph.nodes):
            self._violate("IntermediateEdges", "must not form a cycle", _cycle_text(self.graph, order))
        return self.violations

    def _violate(self, place: str, must: str, got: object = "", allowed_at: FeatureLevel | None = None) -> None:
        text = got if isinstance(got, str) else describe_value(got)
        self.violations.append(Violation(_GRAPH, place, must, text, allowed_at))

    def _require(
        self, condition: bool, place: str, must: str, got: object = "", allowed_at: FeatureLevel | None = None
    ) -> bool:
        if not condition:
            self._violate(place, must, got, allowed_at)
        return condition

    # ---- each by itself

    def _check_counts(self) -> None:
        graph = self.graph
        for place, count, limit in (
            ("InputCount", graph.input_count, MAXIMUM_GRAPH_INPUTS),
            ("OutputCount", graph.output_count, MAXIMUM_UINT),
        ):
            self._require(_is_index(count, limit + 1), place, f"must be an integer from 0 to {limit}", count)
        for place, names, count in (
            ("InputNames", graph.input_names, graph.input_count),
            ("OutputNames", graph.output_names, graph.output_count),
        ):
            self._require(len(names) in (0, count), place, f"must have {describe_value(count)} elements", len(names))
        self._require(len(graph.nodes) > 0, "Nodes", "must have at least one node", "none")

    def _check_node(self, index: int, node: object) -> None:
        place = node_place(self.graph, index)
        if isinstance(node, ConstantNode):
            self._require(len(node.data) > 0, f"{place}.Data", "must not be empty")
            if not node.source:
                must = f"must not be a constant at feature level {self.level}"
                self._require(self.level >= CONSTANTS_SINCE, place, must, allowed_at=CONSTANTS_SINCE)
        elif isinstance(node, OperatorNode) and isinstance(node.operator, Operator):
            for found in validate(node.operator, self.level):
                self.violations.append(replace(found, field=f"{place}.{found.field}" if found.field else place))
        else:
            self._violate(place, "must be an operator or a constant", describe(node))

    def _sound_edges(self, name: str, edge_type: type[Any]) -> Iterator[tuple[str, Any]]:
        """The edges whose ends exist, with their places; the others are reported."""
        for position, edge in enumerate(getattr(self.graph, name)):
            place = f"{camel_case(name)}[{position}]"
            if not isinstance(edge, edge_type):
                self._violate(place, f"must be an {edge_type.__name__}", describe(edge))
            elif self._check_ends(place, edge):
                yield place, edge

    def _check_ends(self, place: str, edge: InputEdge | OutputEdge | IntermediateEdge) -> bool:
        graph, sound = self.graph, True
        if isinstance(edge, InputEdge):
            sound &= self._check_index(f"{place}.GraphInputIndex", edge.graph_input_index, graph.input_count)
        else:
            sound &= self._check_output_end(place, edge.from_node_index, edge.from_node_output_index)
        if isinstance(edge, OutputEdge):
            sound &= self._check_index(f"{place}.GraphOutputIndex", edge.graph_output_index, graph.output_count)
        else:
            sound &= self._check_input_end(place, edge.to_node_index, edge.to_node_input_index)
        return sound

    def _check_input_end(self, place: str, node: int, number: int) -> bool:
        if not self._check_index(f"{place}.ToNodeIndex", node, len(self.graph.nodes)):
            return False
        tensors = self.tensors[node]
        if tensors is None or not self._check_number(
            f"{place}.ToNodeInputIndex", node, number, tensors.inputs, "input"
        ):
            return False
        self.connected_inputs.append((place, NodeInput(node, number)))
        return True

    def _check_output_end(self, place: str, node: int, number: int) -> bool:
        if not self._check_index(f"{place}.FromNodeIndex", node, len(self.graph.nodes)):
            return False
        found = self.tensors[node]
        if found is None or not self._check_number(
            f"{place}.FromNodeOutputIndex", node, number, found.outputs, "output"
        ):
            return False
        self.connected_outputs.add(NodeOutput(node, number))
        return True

    def _check_number(
        self, place: str, node: int, number: int, tensors: Sequence[tuple[str, TensorDesc | None]], what: str
    ) -> bool:
        """An input or an output of a node exists, and its operator has a tensor there."""
        where = node_place(self.graph, node)
        if not self._require(len(tensors) > 0, place, f"must lead to an {what}: {where} has none", number):
            return False
        if not self._check_index(place, number, len(tensors), f", the number of {what}s of {where}"):
            return False
        name, tensor = tensors[number]
        is_there = tensor is not None or isinstance(self.graph.nodes[node], ConstantNode)
        return self._require(is_there, place, f"must not lead to {where}.{name}, which is absent", number)

    def _check_index(self, place: str, value: object, count: object, what: str = "") -> bool:
        if not _is_index(count, MAXIMUM_UINT + 1):
            return _is_index(value, MAXIMUM_UINT)
        return self._require(_is_index(value, count), place, f"must be an integer less than {count}{what}", value)

    # ---- together

    def _check_node_inputs(self) -> None:
        """Every input of a node that its operator has is connected, and once only."""
        connected: dict[NodeInput, str] = {}
        for place, target in self.connected_inputs:
            if target in connected:
                must = f"must not lead where {connected[target]} leads already, to {self._input_place(target)}"
                self._violate(place, must)
            connected.setdefault(target, place)
        for index, tensors in enumerate(self.tensors):
            for number, (_, tensor) in enumerate(tensors.inputs if tensors else ()):
                if tensor is not None and NodeInput(index, number) not in connected:
                    self._violate(self._input_place(NodeInput(index, number)), "must be connected")

    def _check_node_outputs(self) -> None:
        """Every output of a node that its operator has is connected, and so is every constant."""
        for index, tensors in enumerate(self.tensors):
            is_constant = isinstance(self.graph.nodes[index], ConstantNode)
            for number, (_, tensor) in enumerate(tensors.outputs if tensors else ()):
                if (is_constant or tensor is not None) and NodeOutput(index, number) not in self.connected_outputs:
                    self._violate(self._output_place(NodeOutput(index, number)), "must be connected")

    def _check_graph_inputs(self, inputs: Sequence[tuple[str, InputEdge]]) -> None:
        """All tensors that read an input of the graph have one size and agree on being OWNED_BY_DML."""
        first: dict[int, tuple[str, TensorDesc]] = {}
        for _, edge in inputs:
            target = NodeInput(edge.to_node_index, edge.to_node_input_index)
            tensor = self._input_tensor(target)
            if tensor is None:
                continue
            here = self._input_place(target)
            there, other = first.setdefault(edge.graph_input_index, (here, tensor))
            must = f"must have the total size of {there}, {other.total_size_in_bytes} bytes"
            size = tensor.total_size_in_bytes
            self._require(size == other.total_size_in_bytes, f"{here}.TotalTensorSizeInBytes", must, size)
            must = f"must be OWNED_BY_DML if and only if {there} is, which reads the same input of the graph"
            self._require(tensor.is_owned_by_dml == other.is_owned_by_dml, f"{here}.Flags", must)

    def _check_graph_outputs(self, outputs: Sequence[tuple[str, OutputEdge]]) -> None:
        """Every output of the graph is written, and once only: DirectML does not say what twice would mean."""
        graph = self.graph
        if not _is_index(graph.output_count, MAXIMUM_UINT + 1):
            return
        must = f"must not be more than the number of OutputEdges, {len(graph.output_edges)}"
        if not self._require(graph.output_count <= len(graph.output_edges), "OutputCount", must, graph.output_count):
            return
        self._require(graph.output_count > 0, "OutputCount", "must be at least 1", graph.output_count)
        written: dict[int, str] = {}
        for place, edge in outputs:
            if isinstance(graph.nodes[edge.from_node_index], ConstantNode):
                where = node_place(graph, edge.from_node_index)
                must = f"must not lead from {where}, a constant, straight to an output of the graph"
                self._violate(f"{place}.FromNodeIndex", must)
            if edge.graph_output_index in written:
                must = f"must not be the output of the graph to which {written[edge.graph_output_index]} leads"
                self._violate(f"{place}.GraphOutputIndex", must, edge.graph_output_index)
            written.setdefault(edge.graph_output_index, place)
        if len(outputs) == len(graph.output_edges):
            for index in range(graph.output_count):
                must = "must be connected to the output of a node"
                self._require(index in written, f"Outputs[{index}]", must)

    def _check_between(self, edge: IntermediateEdge) -> None:
        """The two ends of an edge have one size, and what is OWNED_BY_DML comes from an input of the graph."""
        target = NodeInput(edge.to_node_index, edge.to_node_input_index)
        reader = self._input_tensor(target)
        if reader is None:
            return
        here = self._input_place(target)
        must = "must not be OWNED_BY_DML, as it does not read an input of the graph"
        self._require(not reader.is_owned_by_dml, f"{here}.Flags", must)
        node = self.graph.nodes[edge.from_node_index]
        size = reader.total_size_in_bytes
        if isinstance(node, ConstantNode):
            # Data need not have the padding that makes a tensor's size a multiple of 4 bytes.
            least, given = min(used_bytes(reader), size), len(node.data)
            must = f"must have the size of {here}, {size} bytes"
            where = f"{node_place(self.graph, edge.from_node_index)}.DataSize"
            self._require(least <= given <= size, where, must, given)
            return
        source = NodeOutput(edge.from_node_index, edge.from_node_output_index)
        writer = self._output_tensor(source)
        if writer is not None:
            must = f"must have the total size of {self._output_place(source)}, {writer.total_size_in_bytes} bytes"
            self._require(size == writer.total_size_in_bytes, f"{here}.TotalTensorSizeInBytes", must, size)

    # ---- places

    def _input_tensor(self, target: NodeInput) -> TensorDesc | None:
        tensors = self.tensors[target.node]
        tensor = tensors.inputs[target.input][1] if tensors else None
        return tensor if isinstance(tensor, TensorDesc) else None

    def _output_tensor(self, source: NodeOutput) -> TensorDesc | None:
        tensors = self.tensors[source.node]
        tensor = tensors.outputs[source.output][1] if tensors else None
        return tensor if isinstance(tensor, TensorDesc) else None

    def _input_place(self, target: NodeInput) -> str:
        tensors = self.tensors[target.node]
        return f"{node_place(self.graph, target.node)}.{tensors.inputs[target.input][0] if tensors else target.input}"

    def _output_place(self, source: NodeOutput) -> str:
        tensors, place = self.tensors[source.node], node_place(self.graph, source.node)
        return f"{place}.{tensors.outputs[source.output][0]}" if tensors else place


def _tensors_of(node: object) -> _Tensors | None:
    if isinstance(node, ConstantNode):
        return _Tensors((), (("Data", None),))
    if isinstance(node, OperatorNode) and isinstance(node.operator, Operator):
        return _Tensors(node.operator.inputs(), node.operator.outputs())
    return None


def used_bytes(tensor: TensorDesc) -> int:
    """The bytes up to the end of the last element."""
    return -(-tensor.element_span * tensor.data_type.bits // 8)


def _is_index(value: object, count: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and isinstance(count, int) and 0 <= value < count


def _name(names: Sequence[str], index: int, otherwise: str) -> str:
    return names[index] if index < len(names) and names[index] else f"{otherwise}[{index}]"


def _node_json(node: Node) -> dict[str, Any]:
    named = {"Name": node.name} if node.name else {}
    if isinstance(node, ConstantNode):
        return {"Type": "DML_GRAPH_NODE_TYPE_CONSTANT", "Desc": {"DataSize": len(node.data), **named}}
    return {"Type": "DML_GRAPH_NODE_TYPE_OPERATOR", "Desc": {"Operator": node.operator.to_json(), **named}}


def _fields_json(edge: InputEdge | OutputEdge | IntermediateEdge) -> dict[str, Any]:
    values = {name: getattr(edge, name) for name in edge.__dataclass_fields__}
    return {camel_case(name): value for name, value in values.items() if value != ""}
