"""Layouts of the tensors between a graph's operators: the channels of a point side by side, where sums gain by that.

A convolution of one tap sums up the channels of a point. Where these are planes, as tensors of images usually are, each
step of the sum is on another page, and a tile of many output channels is transposed in registers before it is stored.
Where they are side by side (N, spatial..., C), steps follow one another in memory, and vectors are stored as they are.
Nobody but operators of the graph sees such tensors, so their strides are free: a graph is given others by the
descriptors at both ends of an edge, which say all there is to say. No operator computes anything else.

An operator that goes along channels in what it reads and writes, as activations, residual sums, joins, poolings, means
of channels and depthwise convolutions do, has them side by side in all of that or in nothing. Convolutions of all
channels have them in either, one as well as the other. Some read a tensor in another order of its dimensions, as what
normalises the channels of each point does: for whom they are the last one has them one after the other then, and not a
plane apart. What lies so anyway, as results of products of points do, is as good a neighbour as one that was moved.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from opendml.description.data_types import FLOATS
from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType
from opendml.description.fields import TensorArrayField, TensorField
from opendml.description.graph_desc import GraphDesc, OperatorNode
from opendml.description.graph_paths import GraphInput, NodeInput, NodeOutput, node_inputs, node_outputs, sources, uses
from opendml.description.tensor import TensorDesc
from opendml.expression.affine import Affine, affine
from opendml.expression.ir import Fold, Load, Tensor
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition, expressions_of, loads_in
from opendml.targets.cpu.refine.convolutions import Windows, windows_of
from opendml.targets.cpu.refine.refinement import CHANNEL, are_side_by_side, has_channel_runs, pitch_of_run
from opendml.targets.cpu.refine.sums import sum_of
from opendml.targets.cpu.refine.sums_of_points import fold_of_points
from opendml.targets.cpu.target import CpuTarget


def laid_out(graph: GraphDesc, target: CpuTarget) -> GraphDesc:
    """A valid graph with the channels of tensors between its operators side by side, where that is faster; itself where
    it is nowhere."""
    if not has_channel_runs(target) or not any(map(_is_convolution, graph.nodes)):
        return graph
    tensors_between = _Tensors(graph, target)
    chosen = tensors_between.in_runs()
    if not chosen:
        return graph
    changed = defaultdict[int, dict[tuple[str, int], TensorDesc]](dict)
    for source in chosen:
        own = tensors_between.written(source.node)[source.output]
        assert own is not None
        desc = _in_runs(own, target)
        changed[source.node]["output", source.output] = desc
        for reader in tensors_between.readers[source]:
            changed[reader.node]["input", reader.input] = _seen_by(tensors_between.orders[reader], desc)
    nodes = list(graph.nodes)
    for number, tensors in changed.items():
        node = nodes[number]
        assert isinstance(node, OperatorNode)
        nodes[number] = OperatorNode(_with_tensors(node.operator, tensors), node.name)
    return GraphDesc(
        input_count=graph.input_count,
        output_count=graph.output_count,
        nodes=nodes,
        input_edges=graph.input_edges,
        output_edges=graph.output_edges,
        intermediate_edges=graph.intermediate_edges,
        input_names=graph.input_names,
        output_names=graph.output_names,
    )


def _is_convolution(node: object) -> bool:
    return isinstance(node, OperatorNode) and node.operator.type is OperatorType.CONVOLUTION


def _in_runs(desc: TensorDesc, target: CpuTarget) -> TensorDesc:
    """The tensor with its channels side by side."""
    channels, *places = desc.sizes[CHANNEL:]
    pitch = pitch_of_run(channels, desc.data_type.bits, target)
    strides = [pitch * math.prod(places[d + 1 :]) for d in range(len(places))]
    return TensorDesc(desc.data_type, desc.sizes, [pitch * math.prod(places), 1, *strides], flags=desc.flags)


def _seen_by(order: Sequence[int], desc: TensorDesc) -> TensorDesc:
    """The tensor as one sees it for whom its dimensions come in this order."""
    sizes, strides = ([values[d] for d in order] for values in (desc.sizes, desc.effective_strides))
    return TensorDesc(desc.data_type, sizes, strides, flags=desc.flags)


def _with_tensors(operator: Operator, tensors: Mapping[tuple[str, int], TensorDesc]) -> Operator:
    """The operator with other tensors in the place of some, which are known by their direction and number."""
    changes, numbers = dict[str, object](), {"input": 0, "output": 0}
    for name, own in operator.fields.items():
        value = getattr(operator, name)
        if isinstance(own, TensorField):
            changes[name] = tensors.get((own.direction, numbers[own.direction]), value)
            numbers[own.direction] += 1
        elif isinstance(own, TensorArrayField):
            first = numbers[own.direction]
            changes[name] = [tensors.get((own.direction, first + i), desc) for i, desc in enumerate(value)]
            numbers[own.direction] += len(value)
    return operator.replace(**changes)


class _PointSums(NamedTuple):
    """Sums over the channels of single points, so many, and what they give."""

    channels: int
    output: NodeOutput


@dataclass(slots=True)
class _Tie:
    """Tensors whose channels lie alike: all of them, or none."""

    members: set[NodeOutput] = field(default_factory=set)
    is_free: bool = True
    sums: list[_PointSums] = field(default_factory=list)
    """Those that read one of them."""
    is_read_by_points: bool = False
    """Whether somebody reads one of them with the channels as the last dimension."""

    def join(self, other: _Tie) -> None:
        """All of both."""
        self.members |= other.members
        self.is_free &= other.is_free
        self.sums += other.sums
        self.is_read_by_points |= other.is_read_by_points


class _Tensors:
    """The tensors between a graph's operators, and which of them have to lie alike."""

    def __init__(self, graph: GraphDesc, target: CpuTarget) -> None:
        self.graph, self.target = graph, target
        self.sources, self.readers = sources(graph), uses(graph)
        self.outputs = {NodeOutput(e.from_node_index, e.from_node_output_index) for e in graph.output_edges}
        self.read, self.written = node_inputs(graph), node_outputs(graph)
        self.lanes = target.machine.lanes(32)
        self.orders: dict[NodeInput, tuple[int, ...]] = {}
        """Which dimension of a tensor each one is for those who read it."""
        written = (source for source in self.readers if isinstance(source, NodeOutput))
        self.ties = {source: self._tie_of(source) for source in written if self._may_be(source)}

    def in_runs(self) -> list[NodeOutput]:
        """Those whose channels are to be side by side."""
        for number, node in enumerate(self.graph.nodes):
            if isinstance(node, OperatorNode):
                self._see(number, node.operator)
        chosen = {source for source, tie in self.ties.items() if tie.is_free}
        while True:
            left = {source for source in chosen if not self._gains(self.ties[source], chosen)}
            if not left:
                return sorted(chosen)
            chosen -= left

    def _gains(self, tie: _Tie, others: Collection[NodeOutput]) -> bool:
        """Whether something takes less time: what goes along the channels of each point, sums of tiles that are stored
        as they are, and long ones."""
        least = self.target.tuning.fewest_run_steps
        return tie.is_read_by_points or any(s.channels >= least or s.output in others for s in tie.sums)

    def _may_be(self, source: NodeOutput) -> bool:
        """Whether a tensor's layout is the graph's own matter, and it has channels."""
        if source in self.outputs or not isinstance(self.graph.nodes[source.node], OperatorNode):
            return False
        own = self.written(source.node)[source.output]
        if own is None or own.data_type not in FLOATS or own.rank < CHANNEL + 2 or not own.is_packed:
            return False
        is_whole = own.sizes[CHANNEL] % self.lanes == 0 and math.prod(own.sizes[CHANNEL + 1 :]) > 1
        return is_whole and own.total_size_in_bytes == own.minimum_size_in_bytes and self._is_read_whole(source, own)

    def _is_read_whole(self, source: NodeOutput, own: TensorDesc) -> bool:
        """Whether all who read a tensor read all of its elements, each once, in whatever order of dimensions."""
        for reader in self.readers[source]:
            order = _order(self.read(reader.node)[reader.input], own)
            if order is None:
                return False
            self.orders[reader] = order
        return True

    def _tie_of(self, source: NodeOutput) -> _Tie:
        """A tensor by itself. Who reads it with its dimensions in another order asks for nothing of other tensors: to
        have its channels side by side if these are the last dimension then, else that it stays as it is."""
        are_last = [self.orders[r][-1] == CHANNEL for r in self.readers[source] if self._is_turned(r)]
        return _Tie({source}, is_free=all(are_last), is_read_by_points=any(are_last))

    def _is_turned(self, reader: NodeInput) -> bool:
        """Whether an operator reads a tensor with its dimensions in another order."""
        return self.orders[reader] != tuple(range(len(self.orders[reader])))

    def _see(self, number: int, operator: Operator) -> None:
        """What an operator asks of its tensors."""
        inputs, outputs = self._tensors_of(number)
        if not inputs and not outputs:
            return
        definition = operator.define()
        known = {definition.inputs[i]: source for i, source in inputs}
        known |= {definition.outputs[i]: source for i, source in outputs}
        windows = _windows(definition)
        if windows is not None and windows.is_of_single_channels and windows.group.size > 1:
            self._see_along(known, [windows.sum.left.load.tensor, windows.sum.compute.stores[0].tensor])
            return
        if windows is not None and windows.group.size == 1 and self._has_fixed_filter(number, definition, windows):
            image = windows.sum.left.load.tensor
            self._bar(source for tensor, source in known.items() if tensor not in (image, *definition.outputs))
            if image in known and max(windows.tap_counts) == 1:
                self.ties[known[image]].sums.append(_PointSums(windows.inner.size, NodeOutput(number, 0)))
            return
        self._see_along(known, _followed(definition))

    def _see_along(self, known: Mapping[Tensor | None, NodeOutput], followed: Sequence[Tensor]) -> None:
        """What an operator asks that goes along the channels of some of its tensors, and of no others."""
        self._bar(source for tensor, source in known.items() if tensor not in followed)
        tied = [known[tensor] for tensor in followed if tensor in known]
        self._tie(tied)
        if not all(tensor in known or are_side_by_side(tensor) for tensor in followed):
            self._bar(tied)

    def _tensors_of(self, number: int) -> tuple[list[tuple[int, NodeOutput]], list[tuple[int, NodeOutput]]]:
        """The inputs and outputs of a node that may have channels side by side, by their positions, but for inputs that
        it reads with their dimensions in another order."""
        read = ((i, self.sources.get(NodeInput(number, i))) for i in range(len(self.read(number))))
        written = [(i, NodeOutput(number, i)) for i in range(len(self.written(number)))]
        may_be = [(i, source) for i, source in read if isinstance(source, NodeOutput) and source in self.ties]
        inputs = [(i, source) for i, source in may_be if not self._is_turned(NodeInput(number, i))]
        return inputs, [(i, source) for i, source in written if source in self.ties]

    def _has_fixed_filter(self, number: int, definition: Definition, windows: Windows) -> bool:
        """Whether the filter of a convolution is known before it ever runs."""
        return self._is_fixed(NodeInput(number, definition.inputs.index(windows.sum.right.load.tensor)))

    def _is_fixed(self, target: NodeInput) -> bool:
        source = self.sources[target]
        if isinstance(source, GraphInput):
            desc = self.read(target.node)[target.input]
            return desc is not None and desc.is_owned_by_dml
        return not isinstance(self.graph.nodes[source.node], OperatorNode)

    def _bar(self, tensors: Iterable[NodeOutput]) -> None:
        """None of them, nor those that lie alike, has its channels side by side."""
        for source in tensors:
            self.ties[source].is_free = False

    def _tie(self, tensors: Sequence[NodeOutput]) -> None:
        """All of them lie alike, and so do those that lie like one of them."""
        for source in tensors[1:]:
            first, other = self.ties[tensors[0]], self.ties[source]
            if first is not other:
                first.join(other)
                self.ties |= dict.fromkeys(other.members, first)


def _order(desc: TensorDesc | None, own: TensorDesc) -> tuple[int, ...] | None:
    """Which dimension of a packed tensor each one of a view is that shows all of it; None where it shows something
    else."""
    if desc is None or (desc.data_type, desc.flags) != (own.data_type, own.flags):
        return None
    dimensions = enumerate(zip(own.sizes, own.packed_strides, strict=True))
    large = {(size, stride): d for d, (size, stride) in dimensions if size > 1}
    small = iter([d for d, size in enumerate(own.sizes) if size == 1])
    shown = zip(desc.sizes, desc.effective_strides, strict=True)
    order = tuple(large.get((size, stride), -1) if size > 1 else next(small, -1) for size, stride in shown)
    return order if sorted(order) == [*range(own.rank)] else None


def _windows(definition: Definition) -> Windows | None:
    """Those of a convolution."""
    found = sum_of(definition.statements[0]) if len(definition.statements) == 1 else None
    return None if found is None else windows_of(found)


def _followed(definition: Definition) -> list[Tensor]:
    """The inputs and outputs along whose channels an operator goes, each channel of what it writes by itself or from
    the same ones of what it reads; none where it does something else."""
    found = list[Tensor]()
    for statement in definition.statements:
        if not isinstance(statement, Compute) or len(statement.stores) != 1 or _has_other_loops(statement):
            return []
        (store,) = statement.stores
        along = affine(store.coordinates[CHANNEL]) if len(store.coordinates) > CHANNEL + 1 else None
        if along is None or not along.is_pure or len(along.axes) != 1:
            return []
        loads = [e for e in loads_in(statement) if _is_spread(e.tensor)]
        if not all(_goes_along(load, along, len(store.coordinates)) for load in loads):
            return []
        found += [e.tensor for e in loads]
        found += [store.tensor] if _is_spread(store.tensor) else []
    return found


def _is_spread(tensor: Tensor) -> bool:
    """Whether a tensor has several places, whose elements are different ones and not the same again and again."""
    has_places = math.prod(tensor.sizes[CHANNEL + 1 :]) > 1
    return has_places and all(size == 1 or stride for size, stride in zip(tensor.sizes, tensor.strides, strict=True))


def _goes_along(load: Load, along: Affine, rank: int) -> bool:
    """Whether a load reads the channels that are stored, wherever else it reads."""
    if len(load.coordinates) != rank:
        return False
    (channel,) = along.axes
    own = affine(load.coordinates[CHANNEL])
    others = (c for d, c in enumerate(load.coordinates) if d != CHANNEL)
    is_same = own.is_pure and own.axes == along.axes and own.coefficient(channel) == along.coefficient(channel)
    return is_same and all(channel not in affine(c).axes for c in others)


def _has_other_loops(statement: Compute) -> bool:
    """Whether a statement sums up products, or points in the lanes of a vector, which it wants side by side."""
    folds = [e for x in expressions_of(statement) for e in walk(x) if isinstance(e, Fold)]
    has_lanes = any(fold.partials > 1 for fold in folds) and fold_of_points(statement) is None
    return has_lanes or any(fold.contract for fold in folds)
