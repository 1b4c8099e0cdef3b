"""The rules of graphs: all that is wrong with one, together with everything that is wrong with its operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel
from opendml.description.errors import DescriptorArgumentError, InvalidDescriptorError
from opendml.description.fields import camel_case
from opendml.description.graph_desc import (
    ConstantNode,
    GraphDesc,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
    is_index,
)
from opendml.description.graph_paths import (
    GRAPH,
    NodeInput,
    NodeOutput,
    cycle_text,
    node_place,
    nodes_in_order,
    used_bytes,
)
from opendml.description.json_values import describe
from opendml.description.quoting import quoted
from opendml.description.rules import Violation, describe_value
from opendml.description.tensor import MAXIMUM_UINT, TensorDesc
from opendml.description.validation import validate

if TYPE_CHECKING:
    pass

SINCE: Final = FeatureLevel.LEVEL_2_1
CONSTANTS_SINCE: Final = FeatureLevel.LEVEL_6_2

MAXIMUM_GRAPH_INPUTS: Final = 1_000_000
"""A descriptor heap of Direct3D 12 has room for no more, so no graph with more inputs can be bound."""


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
        raise InvalidDescriptorError(f"{GRAPH} is invalid at feature level {level}:", violations)


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
            self.level >= SINCE, "", f"{GRAPH} does not exist at feature level {self.level}", allowed_at=SINCE
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
        order = nodes_in_order(self.graph)
        if len(order) < len(self.graph.nodes):
            self._violate("IntermediateEdges", "must not form a cycle", cycle_text(self.graph, order))
        return self.violations

    def _violate(self, place: str, must: str, got: object = "", allowed_at: FeatureLevel | None = None) -> None:
        text = got if isinstance(got, str) else describe_value(got)
        self.violations.append(Violation(GRAPH, place, must, text, allowed_at))

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
            self._require(is_index(count, limit + 1), place, f"must be an integer from 0 to {limit}", count)
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
        if not is_index(count, MAXIMUM_UINT + 1):
            return is_index(value, MAXIMUM_UINT)
        return self._require(is_index(value, count), place, f"must be an integer less than {count}{what}", value)

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
        if not is_index(graph.output_count, MAXIMUM_UINT + 1):
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
