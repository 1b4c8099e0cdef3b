"""Nodes that hold graphs: If takes the branch of a known condition, Loop and Scan are unrolled. What they cannot be
that for is driven from the host (``HostDrivenError``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import opendml as dml
from opendml.formats.onnx.nodes import Node, Results, normal_axis
from opendml.formats.onnx.values import (
    NOTHING,
    HostDrivenError,
    NotExpressibleError,
    UnknownValuesError,
    Value,
    constant,
    known,
)

if TYPE_CHECKING:
    from opendml.formats.onnx.translation import Translation

__all__ = ["CONTROL", "MOST_NODES"]

LONGEST: Final = 1024
"""Rounds that are unrolled, at most."""

MOST_NODES: Final = 50_000
"""Nodes that are translated, at most, those of functions and of rounds of loops among them: a small file could have
more than any machine can take."""


def _if(translation: Translation, node: Node, scope: Any) -> Results:
    """The branch that a known condition takes; branches see the names around them. They have no effect but their
    outputs, so that of an unknown condition both are computed, if nothing else helps, and one is selected."""
    if node.value(0).array is None and translation.selects:
        branches = _both(translation, node, scope)
        return [_selected(node, *outputs) for outputs in zip(*branches, strict=True)]
    is_true = bool(node.known(0).reshape(-1)[0])
    return translation.inner(node.attributes["then_branch" if is_true else "else_branch"], scope, [])


def _both(translation: Translation, node: Node, scope: Any) -> list[list[Value]]:
    """What both branches give. Of one that has no expression the other one's nodes are looked at, too."""
    found, failures = [], []
    for name in ("then_branch", "else_branch"):
        try:
            found.append(translation.inner(node.attributes[name], scope, []))
        except NotExpressibleError as error:
            failures.append(error)
    if failures and isinstance(failures[0], UnknownValuesError):
        raise failures[0]
    if failures:
        names = node.value(0).inputs
        translation.needed |= names
        inputs = ", ".join(sorted(names)) or "none"
        raise NotExpressibleError(f"{failures[0]}, and the value of its condition is not known (inputs {inputs})")
    return found


def _selected(node: Node, first: Value, second: Value) -> Value:
    """One of two values by the condition; they must have the same type and sizes."""
    if (first.data_type, first.sizes) != (second.data_type, second.sizes):
        both = f"{first.data_type} {list(first.sizes)} and {second.data_type} {list(second.sizes)}"
        raise HostDrivenError(f"its condition is not known, and its branches give {both}", node.depends_on)
    if 0 in first.sizes:
        return first
    tensors = [constant(node.graph, value) for value in (first, second)]
    condition = node.tensor(0).reshape([1] * tensors[0].rank)
    inputs = node.depends_on | first.inputs | second.inputs
    return Value(first.data_type, first.sizes, None, dml.if_(condition, *tensors), inputs)


def _check_ends(body: Any, inputs: int, outputs: int) -> None:
    """A graph inside of a node has so many inputs, and as many outputs at least."""
    if len(body.input) != inputs or len(body.output) < outputs:
        found = f"{len(body.input)} inputs and {len(body.output)} outputs"
        raise NotExpressibleError(f"its graph has {found}, expected {inputs} and {outputs} at least")


class _RoundLimit:
    """Rounds that are unrolled: no more than a graph should have, nor of more nodes."""

    def __init__(self, translation: Translation) -> None:
        self.translation = translation
        self.before = translation.count

    def check(self, number: int, rounds: int | None) -> None:
        """Ahead of a round: of so many, or of rounds that end nobody knows when."""
        if number >= LONGEST or (rounds or 0) > LONGEST:
            raise HostDrivenError(f"it has more than {LONGEST} rounds", NOTHING)
        nodes = self.translation.count - self.before
        if number and rounds and self.before + nodes * rounds // number > MOST_NODES:
            raise HostDrivenError(f"its rounds have more than {MOST_NODES} nodes", NOTHING)


def _loop(translation: Translation, node: Node, scope: Any) -> Results:
    """As many rounds as are known, while the condition is known to hold."""
    body = node.attributes["body"]
    states_count = max(0, len(node.inputs) - 2)
    _check_ends(body, 2 + states_count, 1 + states_count)
    try:
        rounds = int(node.known(0).reshape(-1)[0]) if node.has(0) else None
        goes_on = bool(node.known(1).reshape(-1)[0]) if node.has(1) else True
    except UnknownValuesError as error:
        raise HostDrivenError(str(error), error.inputs) from None
    states = [node.value(position) for position in range(2, len(node.inputs))]
    collected: list[list[Value]] = [[] for _ in body.output[1 + len(states) :]]
    limit, number = _RoundLimit(translation), 0
    while goes_on and (rounds is None or number < rounds):
        limit.check(number, rounds)
        given = [known(np.array(number, np.int64)), known(np.array(True)), *states]
        condition, *results = translation.inner(body, scope, given)
        if condition.array is None:
            raise HostDrivenError("the values of its condition decide what it computes", condition.inputs)
        goes_on = bool(condition.array.reshape(-1)[0])
        states = results[: len(states)]
        for parts, part in zip(collected, results[len(states) :], strict=True):
            parts.append(part)
        number += 1
    return [*states, *(_stacked(node, parts, 0) for parts in collected)]


def _scan(translation: Translation, node: Node, scope: Any) -> Results:
    """A round for every element along the axes of the inputs that are scanned; below version 9 for every batch."""
    first = 1 if node.version < 9 else 0
    if first and node.has(0):
        raise NotExpressibleError("batches with lengths of their own have no operator")
    count = node.integer("num_scan_inputs")
    values = [node.value(position) for position in range(first, len(node.inputs))]
    if not 1 <= count <= len(values):
        raise NotExpressibleError(f"num_scan_inputs is {count}, of {len(values)} inputs")
    _check_ends(node.attributes["body"], len(values), len(values) - count)
    if not first:
        return _scanned(translation, node, scope, values[: len(values) - count], values[len(values) - count :])
    batches = [
        _scanned(translation, node, scope, each[: len(each) - count], each[len(each) - count :])
        for each in ([_element(node, value, 0, batch) for value in values] for batch in range(values[0].sizes[0]))
    ]
    return [_stacked(node, parts, 0) for parts in zip(*batches, strict=True)]


def _scanned(
    translation: Translation, node: Node, scope: Any, states: list[Value], scanned: list[Value]
) -> list[Value]:
    body, count = node.attributes["body"], len(scanned)
    given_axes = node.integers("scan_input_axes") or [0] * count
    axes = [normal_axis(axis, value.rank) for axis, value in zip(given_axes, scanned, strict=True)]
    backwards = node.integers("scan_input_directions") or node.integers("directions") or [0] * count
    results_count = len(body.output) - len(states)
    collected: list[list[Value]] = [[] for _ in range(results_count)]
    rounds = scanned[0].sizes[axes[0]]
    limit = _RoundLimit(translation)
    for number in range(rounds):
        limit.check(number, rounds)
        parts = [
            _element(node, value, axis, rounds - 1 - number if backward else number)
            for value, axis, backward in zip(scanned, axes, backwards, strict=True)
        ]
        results = translation.inner(body, scope, [*states, *parts])
        states = results[: len(states)]
        for found, part in zip(collected, results[len(states) :], strict=True):
            found.append(part)
    result_axes = node.integers("scan_output_axes") or [0] * results_count
    directions = node.integers("scan_output_directions") or [0] * results_count
    stacks = [
        _stacked(node, parts[::-1] if backward else parts, axis)
        for parts, axis, backward in zip(collected, result_axes, directions, strict=True)
    ]
    return [*states, *stacks]


def _element(node: Node, value: Value, axis: int, index: int) -> Value:
    """One element along an axis, which is left out."""
    sizes = (*value.sizes[:axis], *value.sizes[axis + 1 :])
    if value.array is not None:
        return known(value.array.take(index, axis), value.inputs)
    assert value.tensor is not None
    part = value.tensor[(*[slice(None)] * axis, slice(index, index + 1))]
    return node.result(part, sizes, value.data_type)


def _stacked(node: Node, parts: Sequence[Value], axis: int) -> Value:
    """Parts along a new axis."""
    if not parts:
        raise NotExpressibleError("it has no rounds, and the sizes of its outputs are those of one")
    first = parts[0]
    arrays = [part.array for part in parts if part.array is not None]
    axis = normal_axis(axis, first.rank + 1)
    if len(arrays) == len(parts):
        return known(np.stack(arrays, axis), frozenset[str]().union(*(part.inputs for part in parts)))
    sizes = [*first.sizes[:axis], 1, *first.sizes[axis:]]
    tensors = [constant(node.graph, part).reshape(sizes) for part in parts]
    joined = dml.join(tensors, axis=axis) if len(tensors) > 1 else tensors[0]
    sizes[axis] = len(parts)
    return node.result(joined, sizes, first.data_type)


CONTROL: Final[dict[str, Callable[[Translation, Node, Any], Results]]] = {"If": _if, "Loop": _loop, "Scan": _scan}
