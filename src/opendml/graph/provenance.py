"""Which operators of a graph a fused statement computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from opendml.description.graph_desc import GraphDesc, OperatorNode
from opendml.description.graph_paths import NodeInput, NodeOutput, Source, sources, topological_order
from opendml.expression.affine import Region
from opendml.expression.ir import Tensor
from opendml.expression.statements import Definition, Statement, loads_in, stores_of
from opendml.graph.joining import JoinedGraph
from opendml.graph.lodging import Lodging, is_within, region_of


class _Branch(NamedTuple):
    """Nodes that lead to an input of another one, and the tensors that they need."""

    nodes: set[int]
    needed: set[Tensor]

    def is_read(self, reads: set[Tensor]) -> bool:
        """Whether a statement that writes a part of a tensor reads what the branch needs."""
        return 2 * len(self.needed & reads) >= len(self.needed)


class Provenance:
    """The nodes behind the statements of a fused definition of a graph.

    A statement stands for the node that writes its tensor, and for all nodes before that one whose tensors no longer
    exist because they are computed on the way. Tensors that live in others, as ``lodgings`` say, exist.
    """

    def __init__(
        self,
        graph: GraphDesc,
        joined: JoinedGraph,
        definition: Definition,
        lodgings: Mapping[Tensor, Lodging] = MappingProxyType({}),
    ) -> None:
        self._graph = graph
        self._joined = joined
        self._views = dict(definition.views)
        self._sources = sources(graph)
        self._order = {node: place for place, node in enumerate(topological_order(graph))}
        self._lodgers: dict[Tensor, list[tuple[Region, Tensor]]] = {}
        for tensor, lodging in lodgings.items():
            self._lodgers.setdefault(lodging.host, []).append((lodging.region(tensor), tensor))
        writers = Counter(t for s in definition.statements for t in self._writes(s))
        self._existing = {*writers, *(t for t in definition.inputs if t is not None)}
        self._in_parts = {t for t, count in writers.items() if count > 1}
        self._written: dict[int, list[Tensor]] = {}  # what still exists of the tensors that a node writes
        for tensor, node in joined.nodes.items():
            if tensor in self._existing:
                self._written.setdefault(node, []).append(tensor)
        self._branches: dict[int, list[_Branch]] = {}

    def nodes(self, statement: Statement) -> tuple[int, ...]:
        """Positions of the operators in the graph's nodes, in the order in which they run."""
        found: set[int] = set()
        reads = {self._views.get(t, t) for t in self._reads(statement)}
        for tensor in self._writes(statement):
            last = self._joined.nodes.get(tensor)
            if last is not None:
                branches = self._branches_of(last)
                if tensor in self._in_parts:
                    branches = [branch for branch in branches if branch.is_read(reads)]
                found = found.union((last,), *(branch.nodes for branch in branches))
        return tuple(sorted(found, key=self._order.__getitem__))

    def _writes(self, statement: Statement) -> set[Tensor]:
        """The tensors that a statement writes, those that live in others by their own names."""
        return {self._own(store.tensor, region_of(store.coordinates)) for store in stores_of(statement)}

    def _reads(self, statement: Statement) -> set[Tensor]:
        """The tensors that it reads, likewise."""
        return {self._own(e.tensor, region_of(e.coordinates)) for e in loads_in(statement)}

    def _own(self, tensor: Tensor, region: Region | None) -> Tensor:
        """The tensor that lives in a region of another one, if any does."""
        if region is None:
            return tensor
        return next((own for around, own in self._lodgers.get(tensor, ()) if is_within(region, around)), tensor)

    def _branches_of(self, index: int) -> list[_Branch]:
        """What is computed on the way to each input of a node."""
        if index not in self._branches:
            ways = [self._before([source.node]) for source in self._gone_inputs(index)]
            self._branches[index] = [_Branch(nodes, self._needed(nodes)) for nodes in ways]
        return self._branches[index]

    def _needed(self, nodes: set[int]) -> set[Tensor]:
        """The tensors that exist of those that some nodes read and write."""
        read = {self._joined.tensors.get(source) for node in nodes for source in self._inputs(node)}
        written = {tensor for node in nodes for tensor in self._written.get(node, ())}
        return {tensor for tensor in read | written if tensor in self._existing and tensor is not None}

    def _before(self, nodes: Iterable[int]) -> set[int]:
        """Some nodes, and those that are computed on the way to them."""
        found: set[int] = set()
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if node not in found:
                found.add(node)
                stack += [source.node for source in self._gone_inputs(node)]
        return found

    def _gone_inputs(self, index: int) -> list[NodeOutput]:
        found = [s for s in self._inputs(index) if self._joined.tensors.get(s) not in self._existing]
        return [s for s in found if isinstance(s, NodeOutput) and isinstance(self._graph.nodes[s.node], OperatorNode)]

    def _inputs(self, index: int) -> list[Source]:
        node = self._graph.nodes[index]
        inputs = node.operator.inputs() if isinstance(node, OperatorNode) else ()
        return [self._sources[NodeInput(index, n)] for n, (_, desc) in enumerate(inputs) if desc is not None]
