"""The vector axis: the pieces in which its conditions are known, vectors over its ends, and what is done at a point."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from opendml.expression.affine import Affine, Element, is_unsafe, threshold_form
from opendml.expression.ir import Axis, Expression, Fold, Part, Select, Variable, temporary
from opendml.expression.rewriting import substitute, walk
from opendml.loops.nest import (
    At,
    Block,
    Body,
    ElementStore,
    Keeping,
    Leaf,
    Let,
    Loop,
    Node,
    Points,
    Prefetch,
    Reduce,
    Transpose,
)
from opendml.loops.nest_integers import (
    End,
    Greatest,
    Integer,
    Least,
    Local,
    Position,
    Start,
    Sum,
    ToBoundary,
    WholeSteps,
)
from opendml.targets.cpu.kernel_parts import is_part, work_of_values
from opendml.targets.cpu.kernels import ComputeKernel
from opendml.targets.cpu.nests.corners import corner_of, each_from_here
from opendml.targets.cpu.nests.kept_rows import (
    in_order_of_evaluation,
    kept_rows,
    outside_selects,
    parts_outside_selects,
    unconditional_loads,
)
from opendml.targets.cpu.nests.making import Making, Piece, Stores, rewritten


def vector_body(making: Making, stores: Stores) -> Body:
    """The stores at all points of the vector axis, where all axes outside of it stand somewhere."""
    kernel = making.kernel
    vector = kernel.vector
    if vector is None:
        return _tiles(making, stores, 1, frozenset())

    def is_wanted(part: Part) -> bool:
        return part.fold not in making.ahead and _is_known(making, part)

    # Folds that are the same all along the vector axis are computed once, before it begins.
    same = [e for s in stores for e in parts_outside_selects(s.value) if is_wanted(e)]
    pieces = _pieces(making, stores, vector)
    if not same:
        return tuple(_piece(making, vector, piece, lanes, making.ahead) for piece, lanes in pieces)
    folds = dict.fromkeys(part.fold for part in same)
    rows = kept_rows(
        in_order_of_evaluation(same, making.dependencies),
        [s.value for s in stores],
        vector,
        making.target.tuning,
        making.rows,
    )
    body: Body = (
        Reduce(tuple(folds)),
        *(_piece(making, vector, piece, lanes, making.ahead | folds.keys()) for piece, lanes in pieces),
    )
    return (Keeping(tuple(rows), body),) if rows else body


def _is_known(making: Making, e: Expression) -> bool:
    """Whether ``e`` depends on nothing but the axes that stand already."""
    return all(isinstance(item, Axis) and item in making.known for item in making.dependencies.of(e))


# Pieces --------------------------------------------------------------------------------------------------------------


def _pieces(making: Making, stores: Stores, vector: Axis) -> list[tuple[Piece, int]]:
    """The parts of the vector axis, with the points that are computed together in each."""
    kernel, pieces = making.kernel, _between_cuts(making.kernel, stores, vector)
    alone = [not _vectorises(making, piece.stores, vector) for piece in pieces]
    if vector.size < kernel.lanes or _fills_edges(making, pieces, alone):
        return [(piece, kernel.lanes) for piece in _with_edges(kernel, stores, vector, pieces, alone)]
    return [(piece, 1 if is_alone else kernel.lanes) for piece, is_alone in zip(pieces, alone, strict=True)]


def _between_cuts(kernel: ComputeKernel, stores: Stores, axis: Axis) -> list[Piece]:
    """The parts of an axis in which the answers of conditions stay the same."""
    cuts = sorted({0, axis.size, *cuts_of(kernel, stores, axis)})
    return [Piece(stores, axis, *ends) for ends in itertools.pairwise(cuts)]


def cuts_of(kernel: ComputeKernel, stores: Stores, axis: Axis) -> set[int]:
    """Where the answer of a condition changes along an axis."""
    result: set[int] = set()
    for e in (e for s in stores for x in (s.value, *s.address.opaque) for e in walk(x)):
        form = threshold_form(e)
        if form is None or not form.is_pure:
            continue
        slope = form.coefficient(axis)
        others = [other for other in form.axes if other is not axis]
        if slope == 0 or any(other in kernel.outer or other in kernel.together for other in others):
            continue
        reach = form.plus(Affine(((axis, 1),), 0), -slope).range({})
        assert reach is not None
        for rest in reach:
            # slope * v + rest >= 0 changes its answer at this v.
            result.add(-(rest // slope) if slope > 0 else rest // -slope + 1)
    return {cut for cut in result if 0 < cut < axis.size}


def _vectorises(making: Making, stores: Stores, vector: Axis) -> bool:
    """Whether neighbouring points can be computed together: no guard differs between them."""
    dependencies, kernel = making.dependencies, making.kernel
    are_apart = kernel.tile is not None or kernel.lanes > making.target.tuning.rows_side_by_side
    sure = {e for s in stores for e in outside_selects(s.value)}
    # Folds that are wanted in any case are computed before a condition of what becomes of them is asked.
    ahead = {e for e in sure if isinstance(e, Part)}
    for e in (e for s in stores for e in walk(s.value)):
        if isinstance(e, Fold) and e.partials > 1 and vector in dependencies.of(e) and are_apart:
            return False
        if isinstance(e, Element) and is_unsafe(e) and any(vector in dependencies.of(t) for t in e.address.opaque):
            return False
        guard = e.condition if isinstance(e, Select) else (e.where if isinstance(e, Fold) else None)
        if guard is not None and _differs(making, guard, vector):
            guarded = (e.then, e.otherwise) if isinstance(e, Select) else e.children
            inside = (x for branch in guarded for x in walk(branch, ahead.__contains__))
            # What is loaded in any case does not depend on a condition, such as one of the exponential function.
            if any(is_unsafe(x) and x not in sure for x in inside):
                return False
    return True


def _differs(making: Making, guard: Expression, vector: Axis) -> bool:
    """Whether ``guard`` may differ between neighbouring points (bound variables count as different)."""
    free = making.dependencies.of(guard)
    return vector in free or any(isinstance(item, Variable) for item in free)


def _fills_edges(making: Making, pieces: Sequence[Piece], alone: Sequence[bool]) -> bool:
    """Whether points at the ends that would be computed one by one may be lanes of vectors that are cut there.

    Windows do that: their conditions are known for every lane, and some steps of their fold leave lanes out.
    """
    kernel, tuning = making.kernel, making.target.tuning
    is_cut = kernel.vector_block is not None
    if kernel.in_place or is_cut or kernel.tile is not None or kernel.lanes < tuning.least_edge:
        return False
    folds = [e for s in kernel.stores for e in walk(s.value) if isinstance(e, Fold)]
    if not folds or not all(_knows_lanes(making, fold) for fold in folds):
        return False
    ends = [p.size for p, is_alone in zip(pieces, alone, strict=True) if is_alone]
    return (
        bool(ends)
        and sum(p.size for p in pieces) >= kernel.lanes
        and alone.count(False) <= 1
        and sum(-(-size // kernel.lanes) for size in ends) <= tuning.most_ends
    )


def _knows_lanes(making: Making, fold: Fold) -> bool:
    """Whether it is known, where the points of a vector are, which steps of a fold leave lanes out."""
    if making.kernel.rows is not None:
        return True
    is_guarded = fold.where is not None or fold.contract
    return is_guarded and fold.partials == 1 and fold.steps <= making.unrolled


def _with_edges(
    kernel: ComputeKernel, stores: Stores, vector: Axis, pieces: Sequence[Piece], alone: Sequence[bool]
) -> list[Piece]:
    """Vectors over both ends, as many as it takes, and what is left between them."""
    lanes, size = kernel.lanes, vector.size
    whole = [p for p, is_alone in zip(pieces, alone, strict=True) if not is_alone]
    first, last = (whole[0].first, whole[-1].last) if whole and lanes <= size else (size, size)
    head, tail = list(range(0, first, lanes)), list(range(size - lanes, last - lanes, -lanes))
    first, last = (head[-1] + lanes if head else 0), (tail[-1] if tail else size)
    if first < last < first + lanes:
        head.append(first)
    starts = sorted({max(min(start, size - lanes), 0) for start in (*head, *tail)})
    result = [Piece(stores, vector, start, min(start + lanes, size), is_edge=True) for start in starts]
    if first + lanes <= last:
        result.append(Piece(stores, vector, first, last))
    return result


# Loops along the vector axis -----------------------------------------------------------------------------------------


def _piece(making: Making, vector: Axis, piece: Piece, lanes: int, known: frozenset[Fold]) -> Block:
    """A piece; ``known`` are the folds that have been computed before it."""
    if not piece.is_edge:
        return Block(tuple(_run(making, vector, piece, lanes, known)))
    active = piece.size if piece.size < lanes else None
    inner = _tiles(making, piece.stores, lanes, known)
    return Block((At(vector, piece.first, (Points(vector, lanes, "vector", inner, active),)),))


def _run(making: Making, vector: Axis, piece: Piece, lanes: int, known: frozenset[Fold]) -> Iterator[Node]:
    """The points of a piece, as far as they belong to this work item."""
    kernel, last = making.kernel, piece.last
    low: Integer = piece.first
    high: Integer = last
    if kernel.vector_block is not None:
        low = Start(vector) if piece.first == 0 else Greatest(Start(vector), piece.first)
        high = Least(End(vector), last)
    while lanes > piece.size:
        lanes //= 2
    register = making.target.machine.lanes(piece.stores[0].tensor.type.bits)
    if not (kernel.streamed or kernel.in_place or _has_folds(piece.stores)):
        lanes = _with_few_repeated(lanes, register, piece.size, making.target.tuning.repeated_part)
    whole = kernel.vector_block is None and piece.size % lanes == 0
    steps = _Steps(making, vector, piece.stores, known)
    is_streamed = kernel.streamed and lanes >= register
    if is_streamed or kernel.in_place:
        if not isinstance(low, int | Start):
            yield (let := Let(Local("low"), low))
            low = let.local
        if not isinstance(high, int):
            yield (let := Let(Local("high"), high))
            high = let.local
    if is_streamed:
        end = Local("end")
        yield from steps.streamed(low, high, end, lanes)
        low, lanes, whole = end, register, False
    if kernel.in_place:
        yield from steps.in_place(low, high, lanes)
    elif lanes == 1:
        yield steps.loop(low, high, 1)
    else:
        # The last vector is moved back so that it ends with the piece: some points are computed twice.
        yield steps.loop(low, high, lanes, None if whole else last - lanes)


def _has_folds(stores: Stores) -> bool:
    return any(isinstance(e, Fold) for s in stores for e in walk(s.value))


def _with_few_repeated(lanes: int, register: int, size: int, part: float) -> int:
    """Points at a time so that the last vector of ``size`` points, which is moved back, repeats few of them."""
    while lanes > register and -size % lanes > part * size:
        lanes //= 2
    return lanes


class _Steps:
    """Loops over parts of the vector axis that store the same."""

    def __init__(self, making: Making, vector: Axis, stores: Stores, known: frozenset[Fold]) -> None:
        self._making = making
        self._vector = vector
        self._stores = stores
        self._known = known

    def loop(self, low: Integer, high: Integer, lanes: int, limit: int | None = None, is_aligned: bool = False) -> Loop:
        """``lanes`` points at a time."""
        body = _tiles(self._making, self._stores, lanes, self._known, is_aligned)
        if lanes > 1:
            body = (Points(self._vector, lanes, "vector", body),)
        return Loop(self._vector, low, high, lanes, body, limit)

    def streamed(self, low: Integer, high: Integer, end: Local, lanes: int) -> Iterator[Node]:
        """Whole registers at register boundaries, written past the caches; the rest begins at ``end``."""
        (store,) = self._stores
        start, width = Local("start"), self._making.target.machine.vector_bytes
        gap = ToBoundary(store.tensor, store.address, self._vector, low, width)
        yield Let(start, Least(Sum(low, gap), high))
        yield self.loop(low, start, 1)
        yield Let(end, WholeSteps(start, high, lanes))
        yield self.loop(start, end, lanes, is_aligned=True)

    def in_place(self, low: Integer, high: Integer, lanes: int) -> Iterator[Node]:
        """Every point is computed exactly once."""
        for number, width in enumerate((lanes, lanes // 8, 1)):
            if width < 1:
                continue
            end = Local(f"end{number}")
            yield Let(end, WholeSteps(low, high, width, may_be_empty=True))
            yield self.loop(low, end, width)
            if width == 1:
                return
            low = end


# Tiles and points ----------------------------------------------------------------------------------------------------


def _tiles(making: Making, stores: Stores, lanes: int, known: frozenset[Fold], is_aligned: bool = False) -> Body:
    """The points along the tile, or the rows, that are computed together."""
    tile, rows = making.kernel.tile, making.kernel.rows
    if rows is not None:
        kept = _kept_sum(making, stores, lanes, known) if rows.together > 1 and not is_aligned else None
        if kept is not None:
            return _in_turn(making, stores, lanes, kept)
        return (Points(rows.axis, rows.together, "together", _point(making, stores, lanes, known, is_aligned)),)
    if tile is None:
        return _point(making, stores, lanes, known, is_aligned)
    size = making.kernel.tile_size
    pieces = _pieces_of_squares(making, stores, lanes, tile)
    if pieces is not None:
        return _squares_and_ends(making, tile, pieces, lanes, known)
    body: Body = (Points(tile, size, "together", _point(making, stores, lanes, known, False)),)
    return (Loop(tile, Start(tile), End(tile), size, body, None if tile.size % size == 0 else tile.size - size),)


def _pieces_of_squares(making: Making, stores: Stores, lanes: int, tile: Axis) -> list[Piece] | None:
    """The parts of the tile axis in which its conditions are known, where these keep the longest one, which has whole
    squares, from being transposed: what a condition guards is loaded element by element."""
    kernel = making.kernel
    if not kernel.transposed or lanes != kernel.tile_size or kernel.stage is not None or kernel.in_place:
        return None
    pieces = _between_cuts(kernel, stores, tile)
    longest = _longest(pieces)
    turned, guarded = (
        sum(1 for _ in _transposed_loads(making, [s.value for s in some], tile)) for some in (longest.stores, stores)
    )
    return pieces if longest.size >= kernel.tile_size and turned > guarded else None


def _longest(pieces: Sequence[Piece]) -> Piece:
    """The one that has most points, the first of several."""
    return max(pieces, key=lambda piece: piece.size)


def _squares_and_ends(
    making: Making, tile: Axis, pieces: Sequence[Piece], lanes: int, known: frozenset[Fold]
) -> tuple[Loop, ...]:
    """The longest piece in squares, of which the first and the last are moved inside of it; points of the others one
    by one."""
    size, longest, loops = making.kernel.tile_size, _longest(pieces), list[Loop]()
    for piece in pieces:
        point = _point(making, piece.stores, lanes, known, False, is_square=piece is longest)
        end = Least(End(tile), piece.last)
        if piece is longest:
            begin = Greatest(Start(tile), piece.first // size * size)
            square: Body = (Points(tile, size, "together", point),)
            inside = At(tile, Greatest(Position(tile), piece.first), square)
            loops.append(Loop(tile, begin, end, size, (inside,), piece.last - size))
        else:
            loops.append(Loop(tile, Greatest(Start(tile), piece.first), end, 1, point))
    return tuple(loops)


def _point(
    making: Making,
    stores: Stores,
    lanes: int,
    known: frozenset[Fold],
    is_aligned: bool,
    is_square: bool = True,
) -> Body:
    """What is done at the points that stand here: folds first, so that they share what they load."""
    kernel, nodes = making.kernel, list[Node]()
    values = [s.value for s in stores]
    if is_square and kernel.transposed and lanes == kernel.tile_size and kernel.tile is not None:
        loads = tuple(_transposed_loads(making, values, kernel.tile))
        nodes += [Transpose(loads, kernel.tile)] if loads else []
    folds = dict.fromkeys(part.fold for e in values for part in parts_outside_selects(e))
    wanted = tuple(fold for fold in folds if fold not in known)
    nodes += _lines(making, kernel.expected, lanes) if wanted else []
    nodes += [Reduce(wanted)] if wanted else []
    nodes += _lines(making, kernel.chosen_rows, lanes)
    if kernel.interleaved and lanes > 1:
        return (*nodes, Leaf(stores, written="interleaved"))
    return (*nodes, Leaf(stores, written="past the caches" if is_aligned else "each"))


def _kept_sum(making: Making, stores: Stores, lanes: int, known: frozenset[Fold]) -> Part | None:
    """The fold that long results are made of, if there is one, and nothing else that is computed for all points."""
    values, kernel = [s.value for s in stores], making.kernel
    parts = {part for value in values for part in walk(value, is_part) if isinstance(part, Part)}
    is_long = work_of_values(values, making.target.tuning) >= making.target.tuning.long_results
    if len(parts) != 1 or not is_long or lanes == 1 or kernel.interleaved or kernel.chosen_rows:
        return None
    (part,) = parts
    is_plain = part.fold not in known and part in {p for value in values for p in parts_outside_selects(value)}
    return part if is_plain else None


def _in_turn(making: Making, stores: Stores, lanes: int, total: Part) -> Body:
    """Rows whose folds are computed together, and what is made of them for one row after the other, by the same code:
    the folds wait in memory."""
    rows, vector = making.kernel.rows, making.kernel.vector
    assert rows is not None
    assert vector is not None
    making.rolled = True
    key = (-1, total.type.name, rows.together * lanes)
    memory = making.rows.setdefault(key, temporary("waiting", total.type, (rows.together, lanes)))
    corner = corner_of({rows.axis: lanes, vector: 1})
    made = rewritten(stores, substitute({total: Element(memory, corner.address, True)}))
    wait = Leaf((ElementStore(memory, corner.address, total),))
    nodes: Body = (*_lines(making, making.kernel.expected, lanes), Reduce((total.fold,)), wait)
    each = each_from_here(rows.axis, rows.together, (Leaf(made),))
    return corner.begins((Points(rows.axis, rows.together, "together", nodes), *each))


def _lines(making: Making, loads: Iterable[Element], lanes: int) -> Iterator[Prefetch]:
    """The lines that the points of a vector load from: rows to come lie as they do."""
    for e in loads if making.kernel.vector is not None and lanes > 1 else ():
        for lane in range(0, lanes, making.target.machine.cache_line * 8 // e.type.bits):
            yield Prefetch(e.tensor, e.address.plus(Affine((), lane)))


def _transposed_loads(making: Making, values: Sequence[Expression], tile: Axis) -> Iterator[Element]:
    """The loads that run along the tile, and walk over its rows along the vector axis. Those under a condition that may
    keep them from leaving their tensor are left out."""
    vector, near = making.kernel.vector, making.target.tuning.shuffled_stride
    for e in {x: None for root in values for x in unconditional_loads(root)}:
        if vector is None or e.address.coefficient(tile) != 1 or abs(e.address.coefficient(vector)) <= near:
            continue
        if not any(vector in making.dependencies.of(term) for term in e.address.opaque):
            yield e
