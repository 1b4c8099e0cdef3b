"""Graphs into programs: what depends on constants only runs once, the rest is fused and runs every time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from opendml.expression.ir import Tensor
from opendml.expression.statements import Definition, Statement, reads_of, writes_of
from opendml.graph.costs import GRAPH_COSTS, GraphCosts
from opendml.graph.fusion import fuse
from opendml.graph.joining import JoinedGraph
from opendml.graph.lodging import Lodged, Lodging, lodged
from opendml.graph.sharing import shared
from opendml.graph.widening import read_widened


@dataclass(frozen=True, slots=True)
class GraphDefinitions:
    """A graph in two parts.

    ``execution`` runs every time: its inputs are the graph's own (None for those OWNED_BY_DML or unread), then the
    ``persistent`` tensors. ``initialisation`` runs once and computes those persistent tensors that are not themselves
    inputs or constants; its inputs are ``sources``. None if there is nothing to compute. ``lodgings`` are tensors that
    live in others while it runs.
    """

    execution: Definition
    persistent: tuple[Tensor, ...]
    initialisation: Definition | None
    sources: tuple[Tensor, ...]
    lodgings: Mapping[Tensor, Lodging]


def divide_and_fuse(joined: JoinedGraph, *, fusion: bool = True, costs: GraphCosts = GRAPH_COSTS) -> GraphDefinitions:
    """The two parts of a graph, each with as few statements as fusion leaves."""
    joined = shared(joined) if fusion else joined
    owned = [t for t, is_owned in zip(joined.inputs, joined.owned, strict=True) if t is not None and is_owned]
    fixed = {*owned, *joined.constants}
    once, always = _divided(joined, fixed, costs)
    made = {t for s in once for t in writes_of(s)}
    read = _read_by(always, joined)
    order = (*owned, *joined.constants, *joined.temporaries)  # names need not be unique
    persistent = tuple(t for t in order if t in read and t in fixed | made)
    inputs = [None if is_owned else t for t, is_owned in zip(joined.inputs, joined.owned, strict=True)]
    fused_by = costs if fusion else None
    outputs = frozenset(joined.outputs)
    fewer = _fused(always, outputs, joined, fused_by)
    execution = _definition(fewer.statements, (*inputs, *persistent), joined.outputs, joined)
    computed = [t for t in persistent if t in made]
    needed = _read_by(once, joined)
    sources = tuple(t for t in (*owned, *joined.constants) if t in needed)
    initialisation = None
    if computed:
        made_once = _fused(once, frozenset(computed), joined, fused_by)
        initialisation = _definition(made_once.statements, sources, computed, joined)
    return GraphDefinitions(execution, persistent, initialisation, sources, fewer.lodgings)


def _divided(joined: JoinedGraph, fixed: set[Tensor], costs: GraphCosts) -> tuple[list[Statement], list[Statement]]:
    """The statements that run once, as they depend on fixed tensors only, and the others. No tensor is written by both
    kinds, and none is large that is kept for the others; what only statements that run once read may be of any size."""
    left_out: set[Statement] = set()
    while True:
        once, always, sources = _depending(joined, fixed, left_out)
        changing, needed = {t for s in always for t in writes_of(s)}, _read_by(always, joined)
        found: set[Statement] = set()
        for statement in reversed(once):
            writes = writes_of(statement)
            is_kept = not needed.isdisjoint(writes)
            if not changing.isdisjoint(writes) or (is_kept and _is_large(statement, joined, sources, costs)):
                found.add(statement)
                changing |= writes
                needed |= _read_by([statement], joined) - writes
        if not found:
            return once, always
        left_out |= found


def _depending(
    joined: JoinedGraph, fixed: set[Tensor], left_out: set[Statement]
) -> tuple[list[Statement], list[Statement], dict[Tensor, int]]:
    """The statements that depend on fixed tensors only and write no output, but for those that are ``left_out`` and
    what depends on these, and the others; and of how many bytes of fixed tensors each tensor of the first ones is
    made."""
    sources = {t: _bytes({t}) for t in fixed}
    changing = set(joined.outputs)
    once: list[Statement] = []
    always: list[Statement] = []
    for statement in joined.statements:
        writes = writes_of(statement)
        reads = _read_by([statement], joined) - writes
        if reads and reads <= sources.keys() and not writes & changing and statement not in left_out:
            once.append(statement)
            size = sum(sources[t] for t in reads)
            sources |= {t: sources.get(t, 0) + size for t in writes}
        else:
            always.append(statement)
            changing |= writes
            for tensor in writes & sources.keys():
                del sources[tensor]
    return once, always, sources


def _is_large(statement: Statement, joined: JoinedGraph, sources: Mapping[Tensor, int], costs: GraphCosts) -> bool:
    """Whether what a statement makes is too large to be kept, for what it is made from at once or in the end."""
    writes = writes_of(statement)
    made_from = min(_bytes(_read_by([statement], joined) - writes), sum(sources[t] for t in writes))
    return _bytes(writes) > costs.persistent_growth * made_from


def _read_by(statements: Iterable[Statement], joined: JoinedGraph) -> set[Tensor]:
    """What statements read, by whatever name."""
    return {_root(t, joined.views) for s in statements for t in reads_of(s)}


def _fused(
    statements: Sequence[Statement], kept: frozenset[Tensor], joined: JoinedGraph, costs: GraphCosts | None
) -> Lodged:
    """As few statements as fusion leaves; as they are without ``costs``."""
    if costs is None:
        return Lodged(list(statements), {})
    fused = fuse(read_widened(statements, kept, joined.views), kept, joined.views, costs)
    return lodged(fused, kept, joined.views, costs)


def _definition(
    statements: Sequence[Statement], inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], joined: JoinedGraph
) -> Definition:
    used = {t for s in statements for t in reads_of(s) | writes_of(s)}
    roots = used | {_root(t, joined.views) for t in used}
    bound = {t for t in (*inputs, *outputs) if t is not None}
    temporaries = tuple(t for t in joined.temporaries if t in roots and t not in bound)
    views = tuple((view, root) for view, root in joined.views.items() if view in used)
    return Definition(tuple(inputs), tuple(outputs), tuple(statements), temporaries, views)


def _root(tensor: Tensor, views: Mapping[Tensor, Tensor]) -> Tensor:
    return views.get(tensor, tensor)


def _bytes(tensors: set[Tensor]) -> int:
    return sum(t.extent * t.type.bits // 8 for t in tensors)
