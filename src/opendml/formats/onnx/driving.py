"""Nodes with graphs inside of them, driven from here: their graphs are programs that run on arrays.

``DRIVERS`` gives what a node gives for the arrays it reads, by its operator: Loop and Scan run their body round after
round, and look at trip count and condition in between; If runs the branch that its condition takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.description.errors import OutOfMemoryError
from opendml.description.quoting import quoted
from opendml.formats.onnx.types import TensorInfo, info_of, known_type
from opendml.targets.host_memory import machine_memory

__all__ = ["DRIVERS", "Graphs", "RunningGraph", "graphs_of"]

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


class RunningGraph(NamedTuple):
    """A graph inside of a node: the names of its own inputs and of its outputs, and what runs it on all arrays that
    there are by name."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    run: Callable[[Arrays], Arrays]


Graphs = Mapping[str, RunningGraph]
"""The graphs of a node by the names of its attributes."""

Driver = Callable[[Any, int, Graphs, Arrays], list[Array]]
"""What a node gives: its NodeProto, the version of its operator set, its graphs, and all arrays by name."""


def graphs_of(node: Any) -> dict[str, Any]:
    """The GraphProtos inside of a node by the names of its attributes."""
    return {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}


# ---- If


def _branch(node: Any, version: int, graphs: Graphs, found: Arrays) -> list[Array]:
    is_true = bool(found[node.input[0]].reshape(-1)[0])
    branch = graphs["then_branch" if is_true else "else_branch"]
    results = branch.run(found)
    return [results[name] for name in branch.outputs]


# ---- Loop


def _loop(node: Any, version: int, graphs: Graphs, found: Arrays) -> list[Array]:
    """Its carried values behind the last round, and what the rounds gave, stacked."""
    body = graphs["body"]
    count, condition = (found[name] if name else None for name in (*node.input, "", "")[:2])
    states = [found[name] for name in node.input[2:]]
    limit = None if count is None else int(count.reshape(-1)[0])
    goes_on = condition is None or bool(condition.reshape(-1)[0])
    collected: list[list[Array]] = [[] for _ in body.outputs[1 + len(states) :]]
    if limit is not None and goes_on:
        _check_memory(node, limit, len(collected))
    number = 0
    while goes_on and (limit is None or number < limit):
        condition, *results = _round(body, found, [np.array(number, np.int64), np.array(True), *states])
        goes_on = bool(condition.reshape(-1)[0])
        states = results[: len(states)]
        _collect(collected, results[len(states) :])
        number += 1
    return [*states, *_stacks(node, len(states) + 1, collected, [0] * len(collected))]


def _check_memory(node: Any, rounds: int, count: int) -> None:
    """Of a loop that nothing ends before so many rounds: its last ``count`` outputs fit into memory. OutOfMemoryError,
    rather than hours of rounds before there is no memory for another one."""
    graph, memory = graphs_of(node)["body"], machine_memory()
    sizes = [info_of(one) for one in graph.output][len(graph.output) - count :]
    least = rounds * sum(_ARRAY_BYTES + _known_bytes(info) for info in sizes)
    if memory is not None and least > memory and _never_ends(graph):
        name = quoted(node.name or next(iter(node.output), ""))
        raise OutOfMemoryError(
            f"Loop {name}: what its {rounds} rounds give takes {least} bytes at least; this machine has {memory}"
        )


_ARRAY_BYTES: Final = 96
"""Bytes of an array beside its elements, at least: each round's results are arrays until they are stacked."""


def _known_bytes(info: TensorInfo) -> int:
    """Bytes of a tensor as far as its sizes are known, else 0."""
    kind = known_type(info.element_type)
    known = info.sizes is not None and all(isinstance(size, int) for size in info.sizes)
    return math.prod(info.sizes or ()) * kind.itemsize if known and kind is not None else 0  # type: ignore[arg-type]


def _never_ends(body: Any) -> bool:
    """Whether the condition of a loop is handed on as it is by its body, so that it holds for ever if it does once."""
    copies = [node for node in body.node if node.op_type == "Identity" and node.input and node.output]
    sources, name = {node.output[0]: node.input[0] for node in copies}, body.output[0].name
    while name in sources:
        name = sources.pop(name)
    return bool(name == body.input[1].name)


def _round(body: RunningGraph, found: Arrays, given: Sequence[Array]) -> list[Array]:
    results = body.run({**found, **dict(zip(body.inputs, given, strict=False))})
    return [results[name] for name in body.outputs]


def _collect(collected: Sequence[list[Array]], results: Iterable[Array]) -> None:
    for parts, part in zip(collected, results, strict=True):
        parts.append(part)


# ---- Scan


def _scan(node: Any, version: int, graphs: Graphs, found: Arrays) -> list[Array]:
    """A round for every element along the axes of what is scanned; below version 9 for every batch."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    count = int(attributes["num_scan_inputs"].i)
    if version >= 9:
        return _scanned(node, graphs["body"], attributes, count, found, [found[name] for name in node.input])
    given = [found[name] for name in node.input[1:]]
    batches = [
        _scanned(node, graphs["body"], attributes, count, found, [array[batch] for array in given])
        for batch in range(len(given[0]))
    ]
    return [np.stack(parts) for parts in zip(*batches, strict=True)]


def _scanned(
    node: Any, body: RunningGraph, attributes: Mapping[str, Any], count: int, found: Arrays, given: list[Array]
) -> list[Array]:
    def listed(name: str, length: int) -> list[int]:
        return list(attributes[name].ints) if name in attributes else [0] * length

    states, scanned = given[: len(given) - count], given[len(given) - count :]
    axes = listed("scan_input_axes", count)
    backwards = listed("scan_input_directions" if "directions" not in attributes else "directions", count)
    collected: list[list[Array]] = [[] for _ in body.outputs[len(states) :]]
    rounds = scanned[0].shape[axes[0]]
    for number in range(rounds):
        parts = [
            array.take(rounds - 1 - number if backward else number, axis)
            for array, axis, backward in zip(scanned, axes, backwards, strict=True)
        ]
        results = _round(body, found, [*states, *parts])
        states = results[: len(states)]
        _collect(collected, results[len(states) :])
    directions = listed("scan_output_directions", len(collected))
    ordered = [parts[::-1] if backward else parts for parts, backward in zip(collected, directions, strict=True)]
    return [*states, *_stacks(node, len(states), ordered, listed("scan_output_axes", len(collected)))]


# ---- what rounds gave


def _stacks(node: Any, first: int, collected: Sequence[Sequence[Array]], axes: Sequence[int]) -> list[Array]:
    """What every round gave along a new axis, of those outputs of the body from the ``first`` on."""
    infos = [info_of(one) for one in graphs_of(node)["body"].output][first:]
    return [_stacked(*each) for each in zip(collected, infos, axes, strict=True)]


def _stacked(parts: Sequence[Array], info: TensorInfo, axis: int) -> Array:
    """Parts along a new axis; of none the body says what they would be."""
    if parts:
        return np.stack(parts, axis)
    sizes = [size if isinstance(size, int) else 0 for size in info.sizes or ()]
    return np.expand_dims(np.zeros(sizes, known_type(info.element_type) or np.float32), axis).take([], axis)


DRIVERS: Final[Mapping[str, Driver]] = {"If": _branch, "Loop": _loop, "Scan": _scan}
