"""Finding one's way in a valid graph: where tensors come from and go to, and nodes in an order in which they run."""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from opendml.description.errors import InvalidDescriptorError
from opendml.description.graph_desc import (
    GraphDesc,
    IntermediateEdge,
    OperatorNode,
    is_index,
)
from opendml.description.json_values import describe
from opendml.description.tensor import TensorDesc

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator

# ---- finding one's way in a valid graph

GRAPH: Final = "DML_GRAPH_DESC"
"""What messages call a graph."""


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


Tensors = Callable[[int], tuple[TensorDesc | None, ...]]


def node_inputs(graph: GraphDesc) -> Tensors:
    """What gives the input tensors of a node by its index: each is asked once, who may have thousands of them."""
    return functools.cache(lambda index: tuple(tensor for _, tensor in _operator(graph, index).inputs()))


def node_outputs(graph: GraphDesc) -> Tensors:
    """The same of its output tensors."""
    return functools.cache(lambda index: tuple(tensor for _, tensor in _operator(graph, index).outputs()))


def _operator(graph: GraphDesc, index: int) -> Operator:
    node = graph.nodes[index]
    assert isinstance(node, OperatorNode)
    return node.operator


def graph_input_tensors(graph: GraphDesc) -> list[TensorDesc | None]:
    """The tensor of each input of a valid graph; None for those nobody reads.

    Where several read it, it is the tensor that reaches furthest, and the first of these.
    """
    tensors: list[TensorDesc | None] = [None] * graph.input_count
    inputs = node_inputs(graph)
    for edge in graph.input_edges:
        tensor, other = inputs(edge.to_node_index)[edge.to_node_input_index], tensors[edge.graph_input_index]
        assert tensor is not None
        if other is None or used_bytes(tensor) > used_bytes(other):
            tensors[edge.graph_input_index] = tensor
    return tensors


def graph_output_tensors(graph: GraphDesc) -> list[TensorDesc]:
    """The tensor of each output of a valid graph."""
    tensors: dict[int, TensorDesc] = {}
    outputs = node_outputs(graph)
    for edge in graph.output_edges:
        tensor = outputs(edge.from_node_index)[edge.from_node_output_index]
        assert tensor is not None
        tensors[edge.graph_output_index] = tensor
    return [tensors[index] for index in range(graph.output_count)]


def topological_order(graph: GraphDesc) -> list[int]:
    """The indices of the nodes, each after those that it reads, and otherwise in the order of ``nodes``.

    Raises ``InvalidDescriptorError`` if there is a cycle. Edges from or to nodes that do not exist are ignored.
    """
    order = nodes_in_order(graph)
    if len(order) < len(graph.nodes):
        raise InvalidDescriptorError(f"{GRAPH} has a cycle: {cycle_text(graph, order)}")
    return order


def nodes_in_order(graph: GraphDesc) -> list[int]:
    """As ``topological_order``, without the nodes on cycles and those behind them."""
    count = len(graph.nodes)
    waiting_for = [0] * count
    followers: list[list[int]] = [[] for _ in range(count)]
    for source, target in node_pairs(graph):
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


def node_pairs(graph: GraphDesc) -> Iterator[tuple[int, int]]:
    """The nodes at the two ends of each edge between nodes that exist."""
    count = len(graph.nodes)
    for edge in graph.intermediate_edges:
        if isinstance(edge, IntermediateEdge):
            pair = edge.from_node_index, edge.to_node_index
            if all(is_index(index, count) for index in pair):
                yield pair


def cycle_text(graph: GraphDesc, order: Sequence[int]) -> str:
    """One cycle of a graph that has one: ``Nodes[0] 'a' -> Nodes[1] 'b' -> Nodes[0] 'a'``."""
    left = set(range(len(graph.nodes))).difference(order)
    before = {target: source for source, target in node_pairs(graph) if source in left and target in left}
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


def node_place(graph: GraphDesc, index: int) -> str:
    """A node in messages: ``Nodes[3] 'conv1'``, or ``Nodes[3]`` if it has no name."""
    name = getattr(graph.nodes[index], "name", "")
    return f"Nodes[{index}] {describe(name)!r}" if isinstance(name, str) and name else f"Nodes[{index}]"


def used_bytes(tensor: TensorDesc) -> int:
    """The bytes up to the end of the last element."""
    return -(-tensor.element_span * tensor.data_type.bits // 8)
