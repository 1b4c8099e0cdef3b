"""Nests as text, for people: what ``opendml explain`` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from opendml.expression.affine import format_address
from opendml.expression.ir import Expression
from opendml.expression.printer import format_expression, format_values
from opendml.loops.nest import (
    At,
    Block,
    Body,
    Branch,
    Condition,
    Cut,
    Difference,
    End,
    Equal,
    Integer,
    Items,
    Keep,
    Leaf,
    Least,
    Let,
    Local,
    Loop,
    Memory,
    Nest,
    Node,
    Points,
    Recall,
    Share,
    Start,
    WholeSteps,
    Within,
)


def format_nest(nest: Nest) -> str:
    """A line for every node, what is inside of it indented, memories first."""
    return "\n".join([*map(_memory, nest.memories), *_lines(nest.body)])


def _lines(body: Body) -> list[str]:
    return [line for node in body for line in _LINES[type(node)](node)]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _memory(memory: Memory) -> str:
    return f"{memory.space} {memory.name}: {memory.type}[{memory.size}]"


# Integers and conditions ---------------------------------------------------------------------------------------------


def format_integer(integer: Integer) -> str:
    """An integer in infix notation: a part of an axis is from ``axis.start`` to before ``axis.end``."""
    return str(integer) if isinstance(integer, int) else _INTEGERS[type(integer)](integer)


_INTEGERS: Final[dict[type, Callable[[Any], str]]] = {
    Local: lambda e: e.name,
    Start: lambda e: f"{e.axis.name}.start",
    End: lambda e: f"{e.axis.name}.end",
    Difference: lambda e: f"({format_integer(e.left)} - {format_integer(e.right)})",
    Least: lambda e: f"min({format_integer(e.left)}, {format_integer(e.right)})",
    WholeSteps: lambda e: f"whole_steps({format_integer(e.first)}, {format_integer(e.last)}, {e.step})",
}


def _condition(condition: Condition) -> str:
    if isinstance(condition, Within):
        first, last = format_integer(condition.first), format_integer(condition.last)
        return f"{first} <= {format_address(condition.address)} < {last}"
    if isinstance(condition, Equal):
        return f"{format_integer(condition.left)} == {format_integer(condition.right)}"
    return format_expression(condition)


# Nodes ---------------------------------------------------------------------------------------------------------------


def _items(node: Items) -> list[str]:
    cuts = ", ".join(map(_cut, node.cuts))
    who = "by one thread" if node.serial else f"{node.count} work items, shared out among the threads"
    look = f" (a look every {node.look})" if node.look is not None else ""
    return [f"{who}{f': {cuts}' if cuts else ''}{look}", *_indented(_lines(node.body))]


def _cut(cut: Cut) -> str:
    block = f" in blocks of {cut.block}" if cut.block is not None else ""
    return f"{cut.axis.name} < {cut.axis.size}{block}"


def _loop(node: Loop) -> list[str]:
    step = f" step {node.step}" if node.step > 1 else ""
    limit = f", not beyond {node.limit}" if node.limit is not None else ""
    copies = f" ({node.copies} of each)" if node.copies > 1 else ""
    carried = f", carrying {', '.join(v.name for v in node.carried)}{copies}" if node.carried else ""
    bounds = f"{format_integer(node.first)}..{format_integer(node.last)}"
    return [f"for {node.axis.name} in {bounds}{step}{limit}{carried}", *_indented(_lines(node.body))]


def _points(node: Points) -> list[str]:
    active = f", {node.active} of them active" if node.active is not None else ""
    name = node.axis.name
    return [f"{node.kind} {name} + 0..{node.count}{active}", *_indented(_lines(node.body))]


def _branch(node: Branch) -> list[str]:
    lines = [f"if {_condition(node.condition)}", *_indented(_lines(node.then))]
    return [*lines, "else", *_indented(_lines(node.otherwise))] if node.otherwise else lines


def _leaf(node: Leaf) -> list[str]:
    values: list[tuple[str, Expression]] = [
        (f"{store.tensor.name}@({format_address(store.address)})", store.value) for store in node.stores
    ]
    values += [(variable.name, value) for variable, value in zip(node.registers, node.values, strict=True)]
    return format_values(values)


def _places(node: Recall | Keep) -> list[str]:
    place = f"{node.axis.name} - {format_integer(node.origin)}"
    return [f"{memory.name}[{place}]" for memory in node.memories]


def _recall(node: Recall) -> list[str]:
    return [f"{v.name} = {place}" for v, place in zip(node.registers, _places(node), strict=True)]


def _keep(node: Keep) -> list[str]:
    return [f"{place} = {v.name}" for v, place in zip(node.registers, _places(node), strict=True)]


def _share(node: Share) -> list[str]:
    return [f"{node.first.name}..{node.last.name} = this thread's share of {node.count}"]


_LINES: Final[dict[type[Node], Callable[[Any], list[str]]]] = {
    Items: _items,
    Loop: _loop,
    Points: _points,
    At: lambda node: [f"at {node.axis.name} = {format_integer(node.position)}", *_indented(_lines(node.body))],
    Share: _share,
    Let: lambda node: [f"let {node.local.name} = {format_integer(node.value)}"],
    Block: lambda node: ["block", *_indented(_lines(node.body))],
    Branch: _branch,
    Leaf: _leaf,
    Recall: _recall,
    Keep: _keep,
}
