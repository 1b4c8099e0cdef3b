"""What becomes of an operator or a graph: descriptor, expressions, kernels and code, as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from opendml.descriptors import Operator
from opendml.expression.printer import format_definition
from opendml.graph_desc import (
    ConstantNode,
    GraphDesc,
    GraphInput,
    NodeInput,
    NodeOutput,
    OperatorNode,
    Source,
    node_place,
    sources,
    topological_order,
)
from opendml.kernels.description import describe_kernel
from opendml.program import generate
from opendml.runtime.host import host_target


def explain_operator(desc: Operator, *, llvm: bool = False, assembly: bool = False) -> str:
    """The stages of a valid descriptor, one after another; ``llvm`` and ``assembly`` add the code for this machine."""
    from opendml.runtime import native

    definition, host = desc.define(), host_target()
    code = generate(definition, host, in_place=desc.in_place)
    sections = {
        "Descriptor": _json(desc),
        "Expressions": format_definition(definition),
        "Kernels": "\n".join(describe_kernel(kernel) for kernel in code.kernels),
    }
    if llvm:
        sections["LLVM IR"] = code.text
    if assembly:
        sections["Assembly"] = native.assembly(code.text, host)
    return "\n\n".join(f"{title}\n{'-' * len(title)}\n{text.rstrip()}" for title, text in sections.items()) + "\n"


def explain_graph(graph: GraphDesc, *, llvm: bool = False, assembly: bool = False) -> str:
    """The nodes of a valid graph in the order in which they run, then each operator as by ``explain_operator``."""
    sections = [f"Graph\n-----\n{describe_graph(graph)}"]
    for index in topological_order(graph):
        node = graph.nodes[index]
        if isinstance(node, OperatorNode):
            title = node_place(graph, index)
            text = explain_operator(node.operator, llvm=llvm, assembly=assembly)
            sections.append(f"{title}\n{'=' * len(title)}\n\n{text.rstrip()}")
    return "\n\n".join(sections) + "\n"


def describe_graph(graph: GraphDesc) -> str:
    """A line for each node of a valid graph, in the order in which they run:
    ``Nodes[2] 'conv1': CONVOLUTION(InputTensor=x, FilterTensor=Nodes[0] 'w') -> OutputTensor=y``."""
    given = sources(graph)
    written = {
        NodeOutput(e.from_node_index, e.from_node_output_index): e.graph_output_index for e in graph.output_edges
    }
    return "\n".join(_node_line(graph, index, given, written) for index in topological_order(graph))


def _node_line(
    graph: GraphDesc, index: int, given: Mapping[NodeInput, Source], written: Mapping[NodeOutput, int]
) -> str:
    node, place = graph.nodes[index], node_place(graph, index)
    if isinstance(node, ConstantNode):
        return f"{place}: {len(node.data)} bytes" + (f" of {node.source!r}" if node.source else "")
    reads = [
        f"{name}={_source_text(graph, given[NodeInput(index, number)])}"
        for number, (name, tensor) in enumerate(node.operator.inputs())
        if tensor is not None
    ]
    writes = [
        f"{name}={graph.output_name(written[NodeOutput(index, number)])}" if (index, number) in written else name
        for number, (name, tensor) in enumerate(node.operator.outputs())
        if tensor is not None
    ]
    return f"{place}: {node.operator.type.name}({', '.join(reads)}) -> {', '.join(writes)}"


def _source_text(graph: GraphDesc, source: Source) -> str:
    if isinstance(source, GraphInput):
        return graph.input_name(source.number)
    node, place = graph.nodes[source.node], node_place(graph, source.node)
    outputs = node.operator.outputs() if isinstance(node, OperatorNode) else ()
    return place if len(outputs) < 2 else f"{place}.{outputs[source.output][0]}"


def _json(desc: Operator) -> str:
    """The descriptor as indented JSON with lists of numbers on one line."""
    text = json.dumps(desc.to_json(), indent=2)
    return re.sub(
        r"\[[\s\d,.eE+-]*\]", lambda match: re.sub(r"\s+", " ", match[0]).replace("[ ", "[").replace(" ]", "]"), text
    )
