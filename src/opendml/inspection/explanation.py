"""What becomes of an operator or a graph: descriptor, expressions, kernels and code, as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opendml.description.descriptors import Operator
from opendml.description.errors import ConfigurationError
from opendml.description.graph_desc import ConstantNode, GraphDesc, OperatorNode
from opendml.description.graph_paths import (
    GraphInput,
    NodeInput,
    NodeOutput,
    Source,
    node_place,
    sources,
    topological_order,
)
from opendml.description.graph_validation import validate_graph_or_raise
from opendml.description.notebook import preformatted
from opendml.description.quoting import ascii_only, quoted
from opendml.description.validation import validate_or_raise
from opendml.expression.printer import format_definition
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.graph.provenance import Provenance
from opendml.programs.device import DEFAULT_FEATURE_LEVEL
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.kernel_description import describe_kernel
from opendml.targets.cpu.refine.refining import refined_definition, refining
from opendml.targets.cpu.target import host_target

if TYPE_CHECKING:
    from opendml.building.graph_program import GraphProgram
    from opendml.programs.compiled_graph import CompiledGraph
    from opendml.programs.program import Program
    from opendml.targets.cpu.code.program_code import ProgramCode


class Explanation(str):
    """What ``explain`` gives: text, shown line by line in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return preformatted(self)


def explain(what: Operator | GraphDesc | Program | CompiledGraph | GraphProgram, **code: bool) -> Explanation:
    """The stages of an operator, a graph or a program: what ``opendml explain`` shows. Nothing runs.

    ``llvm=True`` and ``assembly=True`` add the code for this machine. The text is ASCII, which any stream can write:
    other characters of names are escaped. Raises InvalidDescriptorError for an invalid descriptor (at the latest
    feature level).
    """
    return Explanation(ascii_only(explanation(what, **code)))


def explanation(what: Operator | GraphDesc | Program | CompiledGraph | GraphProgram, **code: bool) -> str:
    """As ``explain``, with names as they are."""
    desc: Any = what if isinstance(what, (Operator, GraphDesc)) else getattr(what, "desc", what)
    if isinstance(desc, GraphDesc):
        validate_graph_or_raise(desc, DEFAULT_FEATURE_LEVEL)
        return explain_graph(desc, **code)
    if desc is what and not isinstance(what, Operator):
        raise ConfigurationError(f"expected an operator, a graph or a program, got {quoted(what)}")
    if desc is None:
        raise ConfigurationError("this program is only a part of a graph: explain the graph")
    validate_or_raise(desc, DEFAULT_FEATURE_LEVEL)
    return explain_operator(desc, **code)


def explain_operator(desc: Operator, *, llvm: bool = False, assembly: bool = False) -> str:
    """The stages of a valid descriptor, one after another; ``llvm`` and ``assembly`` add the code for this machine."""
    definition, target = desc.define(), host_target()
    refined = refined_definition(desc, target)
    code = generate(refined, target, in_place=desc.in_place)
    pairs = zip(code.kernels, code.origins, strict=True)
    kernels = "\n".join(describe_kernel(kernel, target, repeats) for kernel, (_, repeats) in pairs)
    sections = {"Descriptor": _json(desc), "Expressions": format_definition(definition)}
    if refined.statements != definition.statements:
        sections["Expressions as refined for this processor"] = format_definition(refined)
    sections["Kernels"] = kernels
    sections["Sequence"] = str(code.sequence)
    return _text(sections | _code(code, llvm, assembly))


def explain_graph(graph: GraphDesc, *, fusion: bool = True, llvm: bool = False, assembly: bool = False) -> str:
    """The stages of a valid graph: its nodes in the order in which they run; the expressions that are left when they
    are fused, apart for what is computed once at initialisation and for what runs every time; and the kernels, each
    with the operators that it computes. ``llvm`` and ``assembly`` add the code of what runs every time.
    """
    target = host_target()
    joined = join(graph, refining(target))
    parts = divide_and_fuse(joined, fusion=fusion, costs=target.tuning.graph)
    code = generate(parts.execution, target, in_place=False)
    provenance = Provenance(graph, joined, parts.execution)
    sections = {"Graph": describe_graph(graph)}
    if parts.initialisation is not None:
        sections["Expressions of the initialisation"] = format_definition(parts.initialisation)
    sections["Expressions"] = format_definition(parts.execution)
    kernels = []
    for kernel, (statement, repeats) in zip(code.kernels, code.origins, strict=True):
        nodes = ", ".join(_node_text(graph, node) for node in provenance.nodes(statement))
        kernels.append(f"{nodes}\n{describe_kernel(kernel, target, repeats)}\n")
    sections["Kernels"] = "\n".join(kernels)
    sections["Sequence"] = str(code.sequence)
    needs = code.requirements
    alive = f"{needs.least_temporary_size} bytes of them are alive at one time, at most"
    scratch = f"; {needs.scratch_size} bytes more for each thread" if needs.scratch_size else ""
    sections["Memory"] = f"{needs.temporary_size} bytes for temporary tensors: {alive}{scratch}"
    return _text(sections | _code(code, llvm, assembly))


def _node_text(graph: GraphDesc, index: int) -> str:
    node = graph.nodes[index]
    assert isinstance(node, OperatorNode)
    return f"{node.operator.type.name} of {node_place(graph, index)}"


def _code(code: ProgramCode, llvm: bool, assembly: bool) -> dict[str, str]:
    from opendml.llvm import native

    sections = {"LLVM IR": "\n".join(code.modules)} if llvm else {}
    if assembly:
        sections["Assembly"] = "\n".join(native.assembly(module, host_target().machine) for module in code.modules)
    return sections


def _text(sections: Mapping[str, str]) -> str:
    return "\n\n".join(f"{title}\n{'-' * len(title)}\n{text.rstrip()}" for title, text in sections.items()) + "\n"


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
