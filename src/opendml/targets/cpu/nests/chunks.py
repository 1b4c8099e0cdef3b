"""The points of a work item, each of them once."""

from __future__ import annotations

from opendml.expression.ir import Axis
from opendml.loops.nest import Body, Let, Loop, Points
from opendml.loops.nest_integers import End, Integer, Local, Start, WholeSteps


def chunks(vector: Axis, lanes: int, body: Body) -> Body:
    """``body`` for all points of the work item, each once, since it may change what it reads: in whole vectors, then in
    quarters of one, then one by one."""
    nodes: list[Let | Loop] = []
    first: Integer = Start(vector)
    for width in dict.fromkeys((lanes, max(lanes // 4, 1), 1)):
        end = Local(f"end{len(nodes) // 2}")
        inner: Body = (Points(vector, width, "vector", body),) if width > 1 else body
        nodes += [Let(end, WholeSteps(first, End(vector), width)), Loop(vector, first, end, width, inner)]
        first = end
    return tuple(nodes)
