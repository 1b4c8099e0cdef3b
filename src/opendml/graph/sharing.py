"""What several nodes make of the same tensors is made once: panels, sums of columns, padded copies.

Every step of a recurrent network that is written out multiplies by the same matrix; each has a layout of it made that
is like the others'. Convolutions that read the same image each have a copy of it made with the same margins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from opendml.expression.ir import Load, Tensor
from opendml.expression.likeness import likeness
from opendml.expression.statements import Compute, Statement, reads_of, replaced_loads, rewritten, writes_of
from opendml.graph.joining import JoinedGraph

__all__ = ["shared"]


def shared(joined: JoinedGraph) -> JoinedGraph:
    """The graph with one tensor in place of all that are computed alike from what nothing writes any more."""
    writers = Counter(joined.views.get(t, t) for statement in joined.statements for t in writes_of(statement))
    missing = writers.copy()
    candidates = set(joined.temporaries) - set(joined.outputs) - set(joined.tensors.values())
    found: dict[tuple[object, ...], Tensor] = {}
    same: dict[Tensor, Tensor] = {}
    kept: list[Statement] = []
    for statement in joined.statements:
        is_settled = not any(missing[joined.views.get(t, t)] for t in reads_of(statement))
        missing.subtract(joined.views.get(t, t) for t in writes_of(statement))
        name = _name(statement, candidates, writers, same) if is_settled else None
        if name is None:
            kept.append(statement)
            continue
        (written,) = writes_of(statement)
        first = found.setdefault(name, written)
        if first is written:
            kept.append(statement)
        else:
            same[written] = first
    return _with(joined, kept, same) if same else joined


def _name(
    statement: Statement, candidates: set[Tensor], writers: Mapping[Tensor, int], same: Mapping[Tensor, Tensor]
) -> tuple[object, ...] | None:
    """What is equal for statements that compute the same; None for those of other tensors."""
    if not isinstance(statement, Compute) or len(statement.stores) != 1:
        return None
    written = statement.stores[0].tensor
    reads = reads_of(statement)
    if written not in candidates or writers[written] != 1 or not reads or written in reads:
        return None
    like = likeness(statement, (), dict.fromkeys((written, *reads), 0))
    tensors = tuple(None if t is written else same.get(t, t) for t in like.tensors)
    return like.key, tensors, like.bases


def _with(joined: JoinedGraph, statements: list[Statement], same: Mapping[Tensor, Tensor]) -> JoinedGraph:
    """The graph of fewer statements, which read others' tensors in place of their own."""
    rewrite = replaced_loads({t: partial(Load, other) for t, other in same.items()})
    return replace(
        joined,
        statements=[rewritten(one, rewrite, {}) if reads_of(one) & same.keys() else one for one in statements],
        temporaries=[t for t in joined.temporaries if t not in same],
        views={view: same.get(root, root) for view, root in joined.views.items()},
    )
