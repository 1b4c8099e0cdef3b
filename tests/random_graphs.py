"""Random valid graphs of the sample descriptors: ``graphs()`` is a hypothesis strategy.

Every input of a node reads an input of the graph, a constant, or an output of an earlier node of the same total size;
outputs that nobody reads, and some others, are outputs of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from sample_descriptors import samples

from opendml.description.descriptors import Operator
from opendml.description.graph_desc import (
    ConstantNode,
    GraphDesc,
    InputEdge,
    IntermediateEdge,
    Node,
    OperatorNode,
    OutputEdge,
)
from opendml.description.tensor import TensorDesc

LARGEST_CONSTANT = 4096


@st.composite
def graphs(draw: st.DrawFn, operators: Sequence[Operator] | None = None, most: int = 6) -> GraphDesc:
    """A graph of up to ``most`` operators; its nodes in any order, some named and some not."""
    chosen = draw(st.lists(st.sampled_from(operators or samples()), min_size=1, max_size=most))
    builder = _Builder(draw)
    for number, operator in enumerate(chosen):
        builder.add(operator, draw(st.sampled_from(["", f"node {number}"])))
    return permuted(builder.finish(), draw(st.permutations(range(len(builder.nodes)))))


class _Builder:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.nodes: list[Node] = []
        self.inputs: list[TensorDesc] = []
        self.input_edges: list[InputEdge] = []
        self.intermediate_edges: list[IntermediateEdge] = []
        self.given: list[tuple[int, int, TensorDesc]] = []
        self.read: set[tuple[int, int]] = set()

    def add(self, operator: Operator, name: str) -> None:
        edges = [
            (number, self.source(tensor), tensor)
            for number, (_, tensor) in enumerate(operator.inputs())
            if tensor is not None
        ]
        index = len(self.nodes)
        self.nodes.append(OperatorNode(operator, name))
        for number, source, _ in edges:
            if isinstance(source, int):
                self.input_edges.append(InputEdge(source, index, number))
            else:
                self.intermediate_edges.append(IntermediateEdge(*source, index, number))
                self.read.add(source)
        for number, (_, tensor) in enumerate(operator.outputs()):
            if tensor is not None:
                self.given.append((index, number, tensor))

    def source(self, tensor: TensorDesc) -> int | tuple[int, int]:
        """The number of an input of the graph, or a node and its output."""
        size = tensor.total_size_in_bytes
        outputs = [(node, output) for node, output, its in self.given if its.total_size_in_bytes == size]
        inputs = [index for index, its in enumerate(self.inputs) if its.total_size_in_bytes == size]
        kinds = ["input", *(["output"] * 3 if outputs else []), *(["constant"] if size <= LARGEST_CONSTANT else [])]
        match self.draw(st.sampled_from(kinds)):
            case "output":
                return self.draw(st.sampled_from(outputs))
            case "constant":
                return self.constant(size)
        if bool(inputs) and self.draw(st.booleans()):
            return self.draw(st.sampled_from(inputs))
        self.inputs.append(tensor)
        return len(self.inputs) - 1

    def constant(self, size: int) -> tuple[int, int]:
        number = len(self.nodes)
        data = bytes((number * 7 + i) % 256 for i in range(size))
        self.nodes.append(ConstantNode(data, source=self.draw(st.sampled_from(["", f"weights/{number}"]))))
        return number, 0

    def finish(self) -> GraphDesc:
        outputs = [
            (node, output)
            for node, output, _ in self.given
            if (node, output) not in self.read or self.draw(st.booleans())
        ]
        named = self.draw(st.booleans())
        unused = self.draw(st.integers(0, 2))
        return GraphDesc(
            input_count=len(self.inputs) + unused,
            output_count=len(outputs),
            nodes=tuple(self.nodes),
            input_edges=tuple(self.input_edges),
            intermediate_edges=tuple(self.intermediate_edges),
            output_edges=tuple(OutputEdge(*source, number) for number, source in enumerate(outputs)),
            input_names=tuple(f"x{i}" for i in range(len(self.inputs) + unused)) if named else (),
            output_names=tuple(f"y{i}" for i in range(len(outputs))) if named else (),
        )


def permuted(graph: GraphDesc, order: Sequence[int]) -> GraphDesc:
    """The graph with its nodes in another order."""
    place = {old: new for new, old in enumerate(order)}

    def moved(edge: Any) -> Any:
        ends = ("from_node_index", "to_node_index")
        return replace(edge, **{end: place[getattr(edge, end)] for end in ends if hasattr(edge, end)})

    return replace(
        graph,
        nodes=tuple(graph.nodes[old] for old in order),
        input_edges=tuple(map(moved, graph.input_edges)),
        intermediate_edges=tuple(map(moved, graph.intermediate_edges)),
        output_edges=tuple(map(moved, graph.output_edges)),
    )
