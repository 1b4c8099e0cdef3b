"""What a program needs to know of its graph, which may be far less than all that the graph says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from opendml.programs.binding import Binding

if TYPE_CHECKING:
    from opendml.description.graph_desc import GraphDesc


class GraphOutline(NamedTuple):
    """The inputs and outputs of a graph, and the contents of constants by the numbers of their nodes; ``describe``
    gives the graph itself, for people."""

    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    constants: Mapping[int, bytes | memoryview]
    describe: Callable[[], GraphDesc]


def outline_of(graph: GraphDesc) -> GraphOutline:
    """The outline of a graph, all of whose constants it has."""
    from opendml.description.graph_desc import ConstantNode
    from opendml.description.graph_paths import graph_input_tensors, graph_output_tensors

    return GraphOutline(
        tuple(Binding(graph.input_name(i), desc) for i, desc in enumerate(graph_input_tensors(graph))),
        tuple(Binding(graph.output_name(i), desc) for i, desc in enumerate(graph_output_tensors(graph))),
        {number: node.data for number, node in enumerate(graph.nodes) if isinstance(node, ConstantNode)},
        lambda: graph,
    )
