"""How large the numbers of a constant are: code that knows what sums are multiplied by needs fewer bounds, and faster
instructions where they are small."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from opendml.description.graph_desc import ConstantNode, GraphDesc, OperatorNode
from opendml.description.graph_paths import graph_input_tensors
from opendml.description.tensor import TensorDesc
from opendml.expression.element_types import F32, I8, U8, ElementType, bits_of
from opendml.graph.denormal_numbers import LEAST_MASK, MOST_MASK, mask_inputs
from opendml.operators.element_types import ELEMENT_TYPE_OF

BOUNDED_BYTES: Final = 1 << 15
"""Bytes of a constant of float32 at most whose numbers are looked at: scales of the channels of a large layer."""

BOUNDS_OF_BYTES: Final = {I8: 128.0, U8: 256.0}
"""Powers of two that no byte exceeds, whatever its sign."""

BOUNDED_TYPES: Final = frozenset((F32, *BOUNDS_OF_BYTES))
"""Those that bounds are asked of."""

_INFINITY: Final = bits_of(math.inf, F32)


def bound_of_constant(data: bytes | memoryview, type: ElementType) -> float:
    """A power of two that no number in a constant exceeds, whatever its sign; of float32 infinite where a number is
    less than 0, or the constant is large. It is in what a program is known by: coarse, so that networks that are alike
    are the same program."""
    if type is F32:
        return _bound_of_floats(data)
    numbers = np.frombuffer(data, np.int8 if type is I8 else np.uint8)
    return power_of_two(max(-int(numbers.min()), int(numbers.max()))) if numbers.size else math.inf


def bounds_of_constants(graph: GraphDesc) -> dict[int, dict[str, float]]:
    """The bounds of a valid graph's constants, by their nodes, as numbers of all types as which they are read."""
    found: dict[int, dict[str, float]] = {}
    for edge in graph.intermediate_edges:
        node, reader = graph.nodes[edge.from_node_index], graph.nodes[edge.to_node_index]
        if isinstance(node, ConstantNode) and isinstance(reader, OperatorNode):
            _, desc = reader.operator.inputs()[edge.to_node_input_index]
            type = None if desc is None else ELEMENT_TYPE_OF[desc.in_memory.data_type]
            known = found.setdefault(edge.from_node_index, {})
            if type in BOUNDED_TYPES and type.name not in known:
                known[type.name] = bound_of_constant(node.data, type)
    return {number: dict(sorted(bounds.items())) for number, bounds in found.items()}


def bounds_of_inputs(graph: GraphDesc, contents: Mapping[int, bytes | memoryview]) -> dict[int, float]:
    """The bounds of those inputs of a valid graph whose contents are known, by their numbers, that make a difference to
    its code."""
    descs, masks = graph_input_tensors(graph), mask_inputs(graph)
    found = dict[int, float]()
    for number, data in contents.items():
        type = bounded_type(descs[number])
        if type is not None and (type is not F32 or number in masks):
            bound = useful_bound(_largest_of_floats(data) if type is F32 else bound_of_constant(data, type), type)
            found |= {} if bound is None else {number: bound}
    return found


def bounded_type(desc: TensorDesc | None) -> ElementType | None:
    """The type of an input's numbers, if they are bytes, no packed smaller numbers, or of float32, and bound before a
    graph runs."""
    type = None if desc is None or not desc.is_owned_by_dml else ELEMENT_TYPE_OF.get(desc.data_type)
    return type if type in BOUNDED_TYPES else None


def useful_bound(bound: float, type: ElementType) -> float | None:
    """A power of two that numbers of an input do not exceed either, if code differs by it: of bytes if not all have it,
    of float32 if it is that of a mask."""
    power = power_of_two(bound)
    is_useful = LEAST_MASK < power <= MOST_MASK if type is F32 else power < BOUNDS_OF_BYTES[type]
    return power if is_useful else None


def _bound_of_floats(data: bytes | memoryview) -> float:
    if not 0 < len(data) <= BOUNDED_BYTES or len(data) % 4:
        return math.inf
    most = int(np.frombuffer(data, "<u4").max())
    if most >= _INFINITY:
        return math.inf
    return math.ldexp(1.0, math.frexp(float(np.uint32(most).view(np.float32)))[1])


def _largest_of_floats(data: bytes | memoryview) -> float:
    numbers = np.frombuffer(data, "<f4")
    return float(max(numbers.max(), -numbers.min())) if numbers.size else math.inf


def power_of_two(number: float) -> float:
    """The least from 1 on that a number does not exceed."""
    return 2.0 ** max(math.ceil(math.log2(number)), 0) if 1 < number < math.inf else max(number, 1.0)


__all__ = [
    "BOUNDED_TYPES",
    "BOUNDS_OF_BYTES",
    "bound_of_constant",
    "bounded_type",
    "bounds_of_constants",
    "bounds_of_inputs",
    "power_of_two",
    "useful_bound",
]
