"""The order of a graph's nodes: files should have them sorted, but some converters append what belongs before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["in_order", "names_read"]


def in_order(nodes: Iterable[Any]) -> list[Any]:
    """Nodes behind those whose outputs they read, otherwise in the order that they have. Circles stay as they are."""
    given = list(nodes)
    makers = {name: number for number, node in enumerate(given) for name in node.output if name}
    needed = [{makers[name] for name in names_read(node) if name in makers} for node in given]
    if all(max(numbers, default=-1) < number for number, numbers in enumerate(needed)):
        return given
    return [given[number] for number in _sorted(needed)]


def names_read(node: Any) -> Iterator[str]:
    """The names that a node reads, and those that graphs inside of it read or give as they are."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield from one.input
        for attribute in one.attribute:
            if attribute.HasField("g"):
                pending += attribute.g.node
                yield from (output.name for output in attribute.g.output)


def _sorted(needed: list[set[int]]) -> list[int]:
    order: list[int] = []
    is_open, is_done = [False] * len(needed), [False] * len(needed)
    for root in range(len(needed)):
        stack = [root]
        while stack:
            number = stack[-1]
            if not is_open[number]:
                is_open[number] = True
                stack += sorted((one for one in needed[number] if not is_open[one]), reverse=True)
                continue
            stack.pop()
            if not is_done[number]:
                is_done[number] = True
                order.append(number)
    return order
