"""Which of the instructions that a nest may use have something to do in it: what ``explain`` shows of them."""

from __future__ import annotations

from collections.abc import Iterator

from opendml.expression.affine import Element
from opendml.expression.element_types import ElementType
from opendml.expression.ir import Binary, Expression, Part, Unary
from opendml.expression.rewriting import walk
from opendml.loops.instructions import Instruction
from opendml.loops.nest import (
    Accumulate,
    Body,
    Branch,
    Fill,
    Flush,
    Gather,
    Keeping,
    Leaf,
    Nest,
    Node,
    Points,
    Reduce,
    Transpose,
    bodies_of,
)

Wanted = tuple[str, ElementType]
"""An operation, and the type of what it is done to."""


def instructions_of(nest: Nest) -> list[Instruction]:
    """The widest instruction for each operation of a nest that is done by one, in the order in which the nest prefers
    them; prefetches are nodes already."""
    if not nest.instructions.members:
        return []
    found = {nest.instructions.find(*pair) for pair in dict.fromkeys(_wanted(nest.body, 1, False))}
    return [instruction for instruction in nest.instructions if instruction in found]


def _wanted(body: Body, lanes: int, is_partial: bool) -> Iterator[Wanted]:
    """What the nodes of a body do at points of so many lanes, of which some may take no part."""
    for node in body:
        if isinstance(node, Points) and node.kind == "vector":
            yield from _wanted(node.body, node.count, is_partial or node.active is not None)
            continue
        yield from _of_node(node, lanes, is_partial)
        for inner in bodies_of(node):
            yield from _wanted(inner, lanes, is_partial)


def _of_node(node: Node, lanes: int, is_partial: bool) -> Iterator[Wanted]:
    if isinstance(node, Flush) or (isinstance(node, Leaf) and node.written == "past the caches"):
        tensors = [node.area.tensor] if isinstance(node, Flush) else [store.tensor for store in node.stores]
        yield from (("stream", tensor.type) for tensor in tensors)
    elif isinstance(node, Leaf) and is_partial:
        yield from (("store", store.tensor.type) for store in node.stores)
    for e in (e for root in _expressions(node) for e in walk(root)):
        if isinstance(node, Accumulate) and node.stays and e is node.product:
            yield "multiply-add", e.type
        elif isinstance(e, Unary | Binary) and lanes > 1:
            yield e.operation, e.type
        elif isinstance(e, Element):
            yield from _of_load(e, lanes, is_partial)
        elif isinstance(e, Part) and e.fold.partials > 1:
            inner = (x for root in e.fold.children for x in walk(root))
            yield from ((x.operation, x.type) for x in inner if isinstance(x, Unary | Binary))


def _of_load(e: Element, lanes: int, is_partial: bool) -> Iterator[Wanted]:
    if lanes > 1 and e.address.opaque:
        yield "gather", e.type
    elif lanes > 1 and (is_partial or not e.safe):
        yield "load", e.type


def _expressions(node: Node) -> Iterator[Expression]:
    """The expressions that a node evaluates itself."""
    if isinstance(node, Leaf):
        yield from node.values
        yield from (store.value for store in node.stores)
    elif isinstance(node, Accumulate):
        yield node.product
    elif isinstance(node, Reduce):
        yield from (Part(fold, 0) for fold in node.folds)
    elif isinstance(node, Keeping):
        yield from (row.value for row in node.rows)
    elif isinstance(node, Fill | Gather):
        yield node.key
    elif isinstance(node, Transpose):
        yield from node.loads
    elif isinstance(node, Branch) and isinstance(node.condition, Expression):
        yield node.condition
