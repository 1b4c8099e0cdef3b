"""Which tensors of a graph may have many denormal numbers: softmaxes of scores to which a mask has added about -100, as
the shifted windows of Swin transformers have them. Code that knows it need not be slow with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from opendml.description.enums import OperatorType, TensorDataType
from opendml.description.graph_desc import ConstantNode, GraphDesc, Node, OperatorNode
from opendml.description.graph_paths import GraphInput, Source, node_pairs, sources
from opendml.expression.element_types import F32

LEAST_MASK: Final = 64.0
"""What the largest number of such a mask is above, of either sign: the share of a score that is less than the largest
one of its row by more than 87 is no normal number, and 0 by more than 104. Scores differ by more than their masks."""

MOST_MASK: Final = 128.0
"""What it is not above."""

_MOVING: Final = frozenset(
    {
        OperatorType.ELEMENT_WISE_IDENTITY,
        OperatorType.SLICE,
        OperatorType.SLICE1,
        OperatorType.SPLIT,
        OperatorType.JOIN,
        OperatorType.TILE,
        OperatorType.GATHER,
    }
)
"""Operators whose outputs have elements of their inputs."""

_MASKING: Final = _MOVING | {
    OperatorType.ELEMENT_WISE_ADD,
    OperatorType.ELEMENT_WISE_ADD1,
    OperatorType.ELEMENT_WISE_IF,
    OperatorType.ELEMENT_WISE_MULTIPLY,
}
"""Operators by which masks are made and added."""

_SOFTMAX: Final = frozenset({OperatorType.ACTIVATION_SOFTMAX, OperatorType.ACTIVATION_SOFTMAX1})


def denormal_nodes(graph: GraphDesc, bounds: Mapping[int, float]) -> frozenset[int]:
    """The nodes of a valid graph whose outputs may have many denormal numbers of float32. ``bounds``: those of inputs
    OWNED_BY_DML that are known."""
    masks = {number for number, bound in bounds.items() if LEAST_MASK < bound <= MOST_MASK}
    scores = _scores(graph)
    found = {softmax for softmax, read in scores.items() if any(_is_mask(source, graph, masks) for source in read)}
    waiting, readers = [*found], _readers(graph) if found else {}
    while waiting:
        moving = {n for n in readers.get(waiting.pop(), ()) if _type_of(graph, n) in _MOVING} - found
        found |= moving
        waiting += moving
    return frozenset(found)


def mask_inputs(graph: GraphDesc) -> frozenset[int]:
    """The inputs of a valid graph, by their numbers, that may be such masks by how they are read."""
    scores = _scores(graph).values()
    return frozenset(source.number for read in scores for source in read if isinstance(source, GraphInput))


def _scores(graph: GraphDesc) -> dict[int, list[Source]]:
    """The nodes that are softmaxes of float32, and what their scores are made of by operators that masks are made and
    added by: inputs and constants."""
    softmaxes = [number for number, node in enumerate(graph.nodes) if _is_softmax(node)]
    read = _read(graph) if softmaxes else {}
    found = dict[int, list[Source]]()
    for softmax in softmaxes:
        seen, waiting, ends = {softmax}, [softmax], list[Source]()
        while waiting:
            for source in read.get(waiting.pop(), ()):
                if isinstance(source, GraphInput) or isinstance(graph.nodes[source.node], ConstantNode):
                    ends.append(source)
                elif source.node not in seen and _type_of(graph, source.node) in _MASKING:
                    seen.add(source.node)
                    waiting.append(source.node)
        found[softmax] = ends
    return found


def _is_softmax(node: Node) -> bool:
    if not isinstance(node, OperatorNode) or node.operator.type not in _SOFTMAX:
        return False
    _, desc = node.operator.outputs()[0]
    return desc is not None and desc.data_type is TensorDataType.FLOAT32


def _is_mask(source: Source, graph: GraphDesc, masks: Collection[int]) -> bool:
    if isinstance(source, GraphInput):
        return source.number in masks
    node = graph.nodes[source.node]
    if not isinstance(node, ConstantNode) or not node.data or len(node.data) % (F32.bits // 8):
        return False
    return LEAST_MASK < -float(np.frombuffer(node.data, "<f4").min()) <= MOST_MASK


def _type_of(graph: GraphDesc, number: int) -> OperatorType | None:
    node = graph.nodes[number]
    return node.operator.type if isinstance(node, OperatorNode) else None


def _read(graph: GraphDesc) -> dict[int, list[Source]]:
    """What each node reads."""
    found = dict[int, list[Source]]()
    for target, source in sources(graph).items():
        found.setdefault(target.node, []).append(source)
    return found


def _readers(graph: GraphDesc) -> dict[int, set[int]]:
    """The nodes that read each node."""
    found = dict[int, set[int]]()
    for source, target in node_pairs(graph):
        found.setdefault(source, set()).add(target)
    return found
