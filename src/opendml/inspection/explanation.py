"""What becomes of an operator or a graph on a device: descriptor, expressions, kernels and code, as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

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
from opendml.formats.onnx.program import OnnxProgram
from opendml.formats.onnx.staging import StagedProgram
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.graph.provenance import Provenance
from opendml.programs.device import DEFAULT_DEVICE, DEFAULT_FEATURE_LEVEL, Device
from opendml.targets.registry import find_target

if TYPE_CHECKING:
    from opendml.building.graph_program import GraphProgram
    from opendml.programs.compiled_graph import CompiledGraph
    from opendml.programs.program import Program
    from opendml.targets.target import Code, Target


class Explanation(str):
    """What ``explain`` gives: text, shown line by line in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return preformatted(self)


def explain(
    what: Operator | GraphDesc | Program | CompiledGraph | GraphProgram | OnnxProgram,
    *,
    device: Device | str | None = None,
    llvm: bool = False,
    assembly: bool = False,
) -> Explanation:
    """The stages of an operator, a graph or a program: what ``opendml explain`` shows. Nothing runs.

    ``device``: whose kernels are shown; by default those of the program's device, or the processor's. ``llvm=True``
    and ``assembly=True`` add the code for it: text for LLVM, and the processor's instructions or SPIR-V. The text is
    ASCII, which any stream can write: other characters of names are escaped. Of an ONNX program in parts, which the
    host drives, those parts are shown that have run. Raises InvalidDescriptorError for an
    invalid descriptor (at the latest feature level), ConfigurationError for a device that is not there, or has no
    kernels.
    """
    return Explanation(ascii_only(explanation(what, device=device, llvm=llvm, assembly=assembly)))


def explanation(
    what: Operator | GraphDesc | Program | CompiledGraph | GraphProgram | OnnxProgram,
    *,
    device: Device | str | None = None,
    llvm: bool = False,
    assembly: bool = False,
) -> str:
    """As ``explain``, with names as they are."""
    if isinstance(what, OnnxProgram):
        return _explanation_of_model(what, device, llvm, assembly)
    desc: Any = what if isinstance(what, (Operator, GraphDesc)) else getattr(what, "desc", what)
    if desc is what and not isinstance(what, (Operator, GraphDesc)):
        raise ConfigurationError(f"expected an operator, a graph or a program, got {quoted(what)}")
    if desc is None:
        raise ConfigurationError("this program is only a part of a graph: explain the graph")
    target = _target_of(what) if device is None else _target_named(device)
    if isinstance(desc, GraphDesc):
        validate_graph_or_raise(desc, DEFAULT_FEATURE_LEVEL)
        bounds = getattr(_compiled(what), "bounds", None)
        return explain_graph(desc, target, llvm=llvm, assembly=assembly, bounds=bounds)
    validate_or_raise(desc, DEFAULT_FEATURE_LEVEL)
    return explain_operator(desc, target, llvm=llvm, assembly=assembly)


def _explanation_of_model(program: OnnxProgram, device: Device | str | None, llvm: bool, assembly: bool) -> str:
    """The stages of an ONNX program; of one in parts those of every part that has run."""
    if program.program is not None:
        return explanation(program.program, device=device, llvm=llvm, assembly=assembly)
    if not isinstance(program, StagedProgram):
        raise ConfigurationError("all of its outputs are known without computing, so that there is nothing to explain")
    parts = program.compiled()
    shown = [(place, one.program) for place, one in parts if one.program is not None]
    driven = f"{program.driven} is driven from the host; what is before, inside of and behind it are programs."
    if not shown:
        return f"{driven}\nThey are compiled for the sizes that they meet: run the program first.\n"
    texts = [f"# {place}\n\n{explanation(one, device=device, llvm=llvm, assembly=assembly)}" for place, one in shown]
    return "\n".join([f"{driven}\n", *texts])


def _target_named(device: Device | str) -> Target:
    found = (device if isinstance(device, Device) else Device(device)).target
    if found is None:
        raise ConfigurationError("the reference device interprets the operators' definitions: it has no kernels")
    return found


def _compiled(what: Any) -> Any:
    """What was compiled of a program that was built by expression; everything else as it is."""
    return getattr(what, "program", what)


def _target_of(what: Any) -> Target:
    """The target of a program; the processor for what has none, as a descriptor and an interpreted program."""
    program = _compiled(what)
    found = getattr(getattr(program, "execution", program), "target", None)
    return find_target(DEFAULT_DEVICE) if found is None else cast("Target", found)


def explain_operator(desc: Operator, target: Target, *, llvm: bool = False, assembly: bool = False) -> str:
    """The stages of a valid descriptor, one after another; ``llvm`` and ``assembly`` add the target's code."""
    definition = desc.define()
    refined = target.refine(definition)
    code = target.generate(refined, in_place=desc.in_place)
    sections = {"Descriptor": _json(desc), "Expressions": format_definition(definition)}
    if refined.statements != definition.statements:
        sections["Expressions as refined for this processor"] = format_definition(refined)
    sections["Kernels"] = "\n".join(kernel.text for kernel in code.describe_kernels())
    sections["Sequence"] = code.describe_sequence()
    return _text(sections | _code(code, target, llvm, assembly))


def explain_graph(
    graph: GraphDesc,
    target: Target,
    *,
    fusion: bool = True,
    llvm: bool = False,
    assembly: bool = False,
    bounds: Mapping[int, float] | None = None,
) -> str:
    """The stages of a valid graph: its nodes in the order in which they run; the expressions that are left when they
    are fused, apart for what is computed once at initialisation and for what runs every time; and the kernels, each
    with the operators that it computes. ``llvm`` and ``assembly`` add the code of what runs every time; ``bounds`` are
    those of ``Device.compile_graph``.
    """
    joined = join(target.lay_out(graph), target.refine, bounds)
    parts = divide_and_fuse(joined, fusion=fusion, costs=target.costs)
    code = target.generate(parts.execution, in_place=False)
    provenance = Provenance(graph, joined, parts.execution, parts.lodgings)
    sections = {"Graph": describe_graph(graph)}
    if parts.initialisation is not None:
        sections["Expressions of the initialisation"] = format_definition(parts.initialisation)
    sections["Expressions"] = format_definition(parts.execution)
    kernels = []
    for kernel in code.describe_kernels():
        nodes = ", ".join(_node_text(graph, node) for node in provenance.nodes(kernel.whole))
        kernels.append(f"{nodes}\n{kernel.text}\n")
    sections["Kernels"] = "\n".join(kernels)
    sections["Sequence"] = code.describe_sequence()
    needs = code.requirements
    alive = f"{needs.least_temporary_size} bytes of them are alive at one time, at most"
    scratch = f"; {needs.scratch_size} bytes more for each thread" if needs.scratch_size else ""
    sections["Memory"] = f"{needs.temporary_size} bytes for temporary tensors: {alive}{scratch}"
    return _text(sections | _code(code, target, llvm, assembly))


def _node_text(graph: GraphDesc, index: int) -> str:
    node = graph.nodes[index]
    assert isinstance(node, OperatorNode)
    return f"{node.operator.type.name} of {node_place(graph, index)}"


def _code(code: Code, target: Target, llvm: bool, assembly: bool) -> dict[str, str]:
    sections = {"LLVM IR": "\n".join(code.modules)} if llvm else {}
    if assembly:
        sections["Assembly"] = "\n".join(map(target.assembly, code.modules))
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
