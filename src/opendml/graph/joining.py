"""A graph of operators as one list of statements over shared tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from opendml.description.graph_desc import ConstantNode, GraphDesc, OperatorNode
from opendml.description.graph_paths import (
    GraphInput,
    NodeInput,
    NodeOutput,
    Source,
    graph_input_tensors,
    node_inputs,
    sources,
    topological_order,
    used_bytes,
)
from opendml.description.tensor import TensorDesc
from opendml.expression.element_types import F32
from opendml.expression.ir import Const, Load, Tensor, grid, indices, load
from opendml.expression.statements import (
    Compute,
    Definition,
    Origin,
    Statement,
    Store,
    reads_of,
    replaced_loads,
    rewritten,
    writes_of,
)
from opendml.graph.constant_bounds import BOUNDED_TYPES, bound_of_constant
from opendml.graph.denormal_numbers import denormal_nodes
from opendml.graph.layouts import Reading, coordinate_factors, moved_coordinates
from opendml.graph.origins import origin_of
from opendml.operators.definition import tensor

SEEN_BYTES: Final = 8
"""Bytes of a constant node at most that make a difference to the definitions: those of a single number."""


@dataclass(slots=True)
class JoinedGraph:
    """Statements of all nodes in an order in which they can run.

    ``inputs`` are the graph's, None for those that nobody reads; ``owned`` says which of them are OWNED_BY_DML;
    ``constants`` are constant nodes with their positions in the graph.
    ``views`` tells of tensors that are the bytes of another tensor, read with another layout or type. ``tensors`` are
    those of graph inputs and of the outputs of nodes, as far as they are used; ``nodes`` says which node of the graph
    writes a tensor.
    """

    inputs: list[Tensor | None]
    owned: list[bool]
    outputs: list[Tensor] = field(default_factory=list)
    constants: dict[Tensor, int] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    temporaries: list[Tensor] = field(default_factory=list)
    views: dict[Tensor, Tensor] = field(default_factory=dict)
    tensors: dict[Source, Tensor] = field(default_factory=dict)
    nodes: dict[Tensor, int] = field(default_factory=dict)


Refine = Callable[
    [Definition, Iterable[Tensor], Mapping[Tensor, float], Iterable[Tensor], Mapping[Tensor, Origin]], Definition
]
"""What a target makes of the definition of an operator, some of whose inputs are known before the graph ever runs; of
some of these, numbers that no element exceeds, where none is less than 0; of some inputs and outputs many elements may
be denormal numbers; and some inputs have an origin in what is known, which may be read instead."""


def join(graph: GraphDesc, refine: Refine | None = None, bounds: Mapping[int, float] | None = None) -> JoinedGraph:
    """The definitions of a valid graph's operators, each refined for a target, over shared tensors. ``bounds``: those
    of the graph's inputs OWNED_BY_DML of which some are known."""
    descs = graph_input_tensors(graph)
    inputs = [None if d is None else tensor(graph.input_name(i), d, "input") for i, d in enumerate(descs)]
    owned = [d is not None and d.is_owned_by_dml for d in descs]
    joiner = _Joiner(graph, JoinedGraph(inputs, owned), refine, bounds or {})
    for index in topological_order(graph):
        node = graph.nodes[index]
        if isinstance(node, OperatorNode):
            joiner.operator(index, node)
    return joiner.finish()


class _Joiner:
    def __init__(
        self, graph: GraphDesc, joined: JoinedGraph, refine: Refine | None, bounds: Mapping[int, float]
    ) -> None:
        self.graph = graph
        self.refine = refine
        self.bounds = bounds
        self.joined = joined
        self.sources = sources(graph)
        self.furthest = _furthest_readers(graph, self.sources)
        self.denormal = denormal_nodes(graph, bounds)
        self.has_origins = False
        self.tensors = joined.tensors
        self.graph_outputs: dict[NodeOutput, list[int]] = {}
        for i, tensor_of_input in enumerate(joined.inputs):
            if tensor_of_input is not None:
                self.tensors[GraphInput(i)] = tensor_of_input
        for edge in graph.output_edges:
            source = NodeOutput(edge.from_node_index, edge.from_node_output_index)
            self.graph_outputs.setdefault(source, []).append(edge.graph_output_index)

    def operator(self, index: int, node: OperatorNode) -> None:
        """The statements of a node, reading and writing the graph's tensors."""
        definition = node.operator.define()
        targets = {own: NodeInput(index, number) for number, own in enumerate(definition.inputs) if own is not None}
        loads: dict[Tensor, Reading] = {}
        for own, target in targets.items():
            number = self._number(own, target)
            if number is not None:
                loads[own] = number
        if self.refine is not None:
            fixed = [own for own, target in targets.items() if self._is_fixed(target)]
            bounds = {own: self._bound(own, targets[own]) for own in fixed if own.type in BOUNDED_TYPES}
            denormal = [own for own, target in targets.items() if self._is_denormal(target)]
            denormal += [own for own in definition.outputs if own is not None and index in self.denormal]
            found = list(self._origins(targets))
            origins = {own: origin for own, origin, _ in found}
            definition = self.refine(_with_loads(definition, loads), fixed, bounds, denormal, origins)
            for *_, inputs in found:
                targets |= inputs
            self.has_origins |= bool(found)
        for own in targets:
            if own not in loads:
                loads[own] = self._reading(own, self._source_tensor(targets[own]))
        renamed = self._written_tensors(index, node, definition)
        for own, shared in renamed.items():
            loads[own] = _same_place(shared)
        rewrite = replaced_loads(loads)
        self.joined.statements += [rewritten(s, rewrite, renamed) for s in definition.statements]

    def _written_tensors(self, index: int, node: OperatorNode, definition: Definition) -> dict[Tensor, Tensor]:
        renamed: dict[Tensor, Tensor] = {}
        prefix = node.name or f"node{index}"
        outputs = node.operator.outputs()
        for number, own in enumerate(definition.outputs):
            if own is None:
                continue
            source = NodeOutput(index, number)
            # What somebody reads beyond its end, as bytes without a value, is not left to the caller's memory.
            _, desc = outputs[number]
            reader = self.furthest.get(source, desc)
            is_whole = desc is not None and reader is not None and used_bytes(reader) <= used_bytes(desc)
            role: Literal["output", "temporary"] = "temporary"
            if source in self.graph_outputs and is_whole:
                role = "output"
            shared = replace(own, name=f"{prefix}.{own.name}", role=role)
            renamed[own] = self.tensors[source] = shared
            if role == "temporary":
                self.joined.temporaries.append(shared)
        for own in definition.temporaries:
            renamed[own] = replace(own, name=f"{prefix}.{own.name}")
            self.joined.temporaries.append(renamed[own])
        self.joined.nodes |= dict.fromkeys(renamed.values(), index)
        return renamed

    def _number(self, own: Tensor, target: NodeInput) -> Reading | None:
        """How an operator reads a constant of one element, however often it is repeated: not at all."""
        source = self.sources[target]
        node = None if isinstance(source, GraphInput) else self.graph.nodes[source.node]
        if not isinstance(node, ConstantNode) or own.extent != 1:
            return None
        value = Const(int.from_bytes(node.data[: own.type.bits // 8], "little"), own.type)
        return lambda _: value

    def _is_fixed(self, target: NodeInput) -> bool:
        """Whether an input of a node is known before the graph ever runs."""
        source = self.sources[target]
        if isinstance(source, GraphInput):
            return self.joined.owned[source.number]
        return isinstance(self.graph.nodes[source.node], ConstantNode)

    def _origins(
        self, targets: Mapping[Tensor, NodeInput]
    ) -> Iterator[tuple[Tensor, Origin, Mapping[Tensor, NodeInput]]]:
        """The inputs that come of integers of 4 bits that are known, with these, and what they are read from."""
        for own, target in targets.items():
            source = self.sources[target]
            node = self.graph.nodes[source.node] if isinstance(source, NodeOutput) else None
            if not isinstance(node, OperatorNode) or not isinstance(source, NodeOutput):
                continue
            origin = origin_of(own, node.operator)
            if origin is None:
                continue
            inputs = {t: NodeInput(source.node, i) for i, t in enumerate(origin.definition.inputs) if t is not None}
            if all(map(self._is_fixed, inputs.values())):
                yield own, origin, inputs

    def _is_denormal(self, target: NodeInput) -> bool:
        """Whether what a node reads may have many denormal numbers."""
        source = self.sources[target]
        return isinstance(source, NodeOutput) and source.node in self.denormal

    def _bound(self, own: Tensor, target: NodeInput) -> float:
        """What no number of a fixed input exceeds, whatever its sign; infinite if that is not known."""
        source = self.sources[target]
        if isinstance(source, GraphInput):
            # Inputs of float32 with bounds are masks, which have numbers less than 0.
            return math.inf if own.type is F32 else self.bounds.get(source.number, math.inf)
        node = self.graph.nodes[source.node]
        return bound_of_constant(node.data, own.type) if isinstance(node, ConstantNode) else math.inf

    def _source_tensor(self, target: NodeInput) -> Tensor:
        source = self.sources[target]
        found = self.tensors.get(source)
        if found is None:
            assert isinstance(source, NodeOutput)
            node = self.graph.nodes[source.node]
            assert isinstance(node, ConstantNode)
            found = self.tensors[source] = tensor(node.name or f"constant{source.node}", self.furthest[source], "input")
            self.joined.constants[found] = source.node
        return found

    def _reading(self, own: Tensor, source: Tensor) -> Reading:
        """How an operator's loads from its input become loads from the tensor that it is connected to."""
        factors = coordinate_factors(own, source)
        if factors is None:
            view = replace(own, name=f"{source.name} as {own.name}", role="temporary")
            self.joined.views[view] = self.joined.views.get(source, source)
            return _same_place(view)
        return lambda coordinates: Load(source, moved_coordinates(coordinates, factors))

    def finish(self) -> JoinedGraph:
        """The whole, with a copy for every further output that the same tensor goes to."""
        outputs: dict[int, Tensor] = {}
        for source, numbers in self.graph_outputs.items():
            first = self.tensors[source]
            if first.role == "output":
                outputs[numbers[0]] = first
            for number in numbers[1:] if first.role == "output" else numbers:
                again = replace(first, name=self.graph.output_name(number), role="output")
                axes = grid(first.sizes, [f"d{d}" for d in range(len(first.sizes))])
                copied = Store(again, indices(axes), load(first, indices(axes)))
                self.joined.statements.append(Compute(axes, (copied,)))
                outputs[number] = again
                self.joined.nodes[again] = source.node
        self.joined.outputs = [outputs[i] for i in range(self.graph.output_count)]
        if self.has_origins:
            self._leave_out_what_nobody_reads()
        return self.joined

    def _leave_out_what_nobody_reads(self) -> None:
        """What was written for those who have read its origin instead."""
        joined, kept = self.joined, list[Statement]()
        needed = {*joined.outputs}
        for statement in reversed(joined.statements):
            if writes_of(statement) & needed:
                read = reads_of(statement)
                needed |= read | {joined.views[t] for t in read if t in joined.views}
                kept.append(statement)
        joined.statements = kept[::-1]
        joined.temporaries = [t for t in joined.temporaries if t in needed]


def _with_loads(definition: Definition, loads: Mapping[Tensor, Reading]) -> Definition:
    """The definition with other expressions for the elements of some of its inputs."""
    if not loads:
        return definition
    rewrite = replaced_loads(loads)
    return replace(definition, statements=tuple(rewritten(s, rewrite, {}) for s in definition.statements))


def _furthest_readers(graph: GraphDesc, connected: dict[NodeInput, Source]) -> dict[Source, TensorDesc]:
    """The tensor, of those that read each output of a node, that reaches furthest into its bytes."""
    furthest: dict[Source, TensorDesc] = {}
    inputs = node_inputs(graph)
    for target, source in connected.items():
        desc = inputs(target.node)[target.input]
        if desc is not None and (source not in furthest or used_bytes(desc) > used_bytes(furthest[source])):
            furthest[source] = desc
    return furthest


def _same_place(tensor_there: Tensor) -> Reading:
    return lambda coordinates: Load(tensor_there, coordinates)
