"""Kernels into LLVM functions: the loops, and the cases into which conditions cut them.

Bounds tests never sit in an inner loop where they can be decided outside of it:

* conditions on outer axes alone choose between two bodies (``_unswitched``),
* conditions on outer axes and axes of a fold hold for all of the fold in the interior, which gets a body without
  them; the border keeps them (``_interior``),
* conditions on the vector axis cut its range into pieces in which their answer is known (``_pieces``); what is left
  undecided (the columns of a window that reach over the edge) runs point by point.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from opendml.expression.affine import Affine, Dependencies, Element, threshold_form
from opendml.expression.element_types import BOOL
from opendml.expression.ir import Axis, Expression, Fold, Select, Tensor, Variable, both, constant
from opendml.expression.rewriting import Rewriter, conjuncts, substitute, walk
from opendml.llvm.builder import Builder, Value
from opendml.loops.alignment import ALIGNMENT
from opendml.loops.nest import ElementStore
from opendml.loops.rewriting import simplify
from opendml.targets.cpu.code.contraction_code import write_contraction
from opendml.targets.cpu.code.evaluation import Evaluator
from opendml.targets.cpu.code.kept_rows import in_order_of_evaluation, kept_rows, parts_outside_selects
from opendml.targets.cpu.code.memory import Pointer
from opendml.targets.cpu.code.nest_code import write_nest
from opendml.targets.cpu.code.order_code import write_order
from opendml.targets.cpu.code.point import Point, Position
from opendml.targets.cpu.code.staging import Stage
from opendml.targets.cpu.code.work_items import Bounds, block_bounds, decoded, moved_back, smaller, write_items
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.nests.looks import look_of
from opendml.targets.cpu.nests.scan import scan_nest
from opendml.targets.cpu.nests.scatter import scatter_nest
from opendml.targets.cpu.schedule import (
    ComputeKernel,
    OrderKernel,
    ScanKernel,
    ScatterKernel,
    fold_steps,
    work_of,
)
from opendml.targets.cpu.target import CpuTarget

Stores = tuple[ElementStore, ...]


@dataclass(frozen=True, slots=True)
class KernelCode:
    """The text of a kernel's function from its parameters on, and what it declares: intrinsics, functions of its own.

    ``origins`` are the elements of the tensors that the function wants pointers to. Kernels that do the same to other
    tensors, or at other places of them, have the same text. ``scratch_bytes``: memory that each thread needs alone.
    ``is_controlled``: whether the function takes the control block of the dispatch.
    """

    text: str
    declarations: frozenset[str]
    origins: tuple[int, ...]
    scratch_bytes: int
    is_controlled: bool


def kernel_code(
    kernel: ComputeKernel | ContractionKernel | ScanKernel | ScatterKernel | OrderKernel,
    tensors: Sequence[Tensor],
    repeats: Sequence[Axis],
    target: CpuTarget,
) -> KernelCode:
    """The function ``(pointers of tensors..., positions of repeats..., thread, threads)``, from its parameters on.

    A kernel that takes long takes the control block of the dispatch behind those, and one that needs memory for each
    thread a pointer to the thread's own one. On the stack there
    are only the registers that LLVM spills.
    """
    builder = Builder()
    builder.dot_lanes = target.machine.dot_lanes
    origins = _origins(kernel)
    pointers = {tensor: Pointer(f"%p{number}", origins[tensor]) for number, tensor in enumerate(tensors)}
    if isinstance(kernel, ContractionKernel) and kernel.panel is not None:
        pointers[kernel.panel.tensor] = Pointer(builder.allocate("panel", kernel.panel_bytes), 0)
    prefetched = kernel.prefetched if isinstance(kernel, ComputeKernel) else {}
    evaluator = Evaluator(builder, pointers, target, prefetched)
    origin = Point({axis: Position(f"%r{number}") for number, axis in enumerate(repeats)})
    if isinstance(kernel, ComputeKernel):
        _ComputeWriter(kernel, builder, evaluator).write(origin)
        alias = kernel.in_place
    elif isinstance(kernel, ContractionKernel):
        write_contraction(kernel, builder, evaluator, origin)
        alias = False
    elif isinstance(kernel, OrderKernel):
        write_order(kernel, builder, evaluator, origin)
        alias = False
    elif isinstance(kernel, ScanKernel):
        write_nest(scan_nest(kernel, target.tuning), builder, evaluator, origin)
        alias = True
    else:
        write_nest(scatter_nest(kernel, target.tuning), builder, evaluator, origin)
        alias = True
    qualifier = "" if alias else " noalias"
    parameters = [f"ptr{qualifier} nocapture {pointers[tensor].name}" for tensor in tensors]
    parameters += [f"i64 %r{number}" for number in range(len(repeats))]
    parameters += ["i64 %thread", "i64 %threads"]
    if builder.is_controlled:
        parameters.append("ptr nocapture %control")
    if builder.scratch_bytes:
        parameters.append(f"ptr noalias nocapture align {ALIGNMENT} %scratch")
    head = f"({', '.join(parameters)}) noinline #0 {{"
    text = "\n".join([head, "entry:", *builder.allocations, *builder.lines, "  ret void", "}"])
    places = tuple(origins[tensor] for tensor in tensors)
    declarations = frozenset(builder.declarations)
    return KernelCode(text, declarations, places, builder.scratch_bytes, builder.is_controlled)


def _origins(kernel: ComputeKernel | ContractionKernel | ScanKernel | ScatterKernel | OrderKernel) -> dict[Tensor, int]:
    """The least constant part of the addresses in each tensor: kernels that differ in it alone are one function."""
    stores = (kernel.store,) if isinstance(kernel, ScatterKernel) else kernel.stores
    expressions = [e for store in stores for e in (store.value, *store.address.opaque)]
    if isinstance(kernel, ScanKernel):
        expressions += [*kernel.initial, *kernel.step]
    elif isinstance(kernel, ScatterKernel):
        expressions.append(kernel.where)
    elif isinstance(kernel, OrderKernel):
        expressions.append(kernel.key)
    elif isinstance(kernel, ContractionKernel) and kernel.panel is not None:
        expressions.append(kernel.panel.source)
    elements = [e for root in expressions for e in walk(root) if isinstance(e, Element)]
    origins: dict[Tensor, int] = {}
    for tensor, address in [(s.tensor, s.address) for s in stores] + [(e.tensor, e.address) for e in elements]:
        origins[tensor] = min(origins.get(tensor, address.constant), address.constant)
    return origins


class _Piece:
    """A part of the vector axis, and what is stored there.

    An edge is one vector, some of whose lanes are left out by conditions.
    """

    def __init__(self, stores: Stores, vector: Axis, first: int, last: int, is_edge: bool = False) -> None:
        self.first, self.last, self.is_edge = first, last, is_edge
        self.stores = _rewritten(stores, simplify({vector: (first, last - 1)}))

    @property
    def size(self) -> int:
        return self.last - self.first


class _ComputeWriter:
    """The function of one Compute kernel."""

    def __init__(self, kernel: ComputeKernel, builder: Builder, evaluator: Evaluator) -> None:
        self.target = evaluator.target
        self.kernel = kernel
        self.builder = builder
        self.evaluator = evaluator
        self.bounds: Bounds | None = None  # this item's part of the vector axis, if it is cut into blocks
        self.tile_bounds: Bounds | None = None
        self.row_bounds: Bounds | None = None
        self.first_row = Position(None)  # of those that are computed together
        evaluator.rows = kernel.rows
        self._dependencies = Dependencies()

    def write(self, origin: Point) -> None:
        kernel, builder = self.kernel, self.builder
        blocks: list[tuple[Axis, int]] = []
        if kernel.stage is not None and kernel.stage is not kernel.tile:
            blocks.append((kernel.stage, kernel.stage_block))
        if kernel.tile is not None:
            blocks.append((kernel.tile, kernel.tile_block))
        if kernel.rows is not None:
            blocks.append((kernel.rows.axis, kernel.rows.block))
        if kernel.vector is not None and kernel.vector_block is not None:
            blocks.append((kernel.vector, kernel.vector_block))
        stage = None if kernel.stage is None else Stage(builder, self.evaluator, kernel)
        sizes = [axis.size for axis in kernel.shared] + [-(-axis.size // block) for axis, block in blocks]

        def item(position: str) -> None:
            with self.evaluator.scope():
                coordinates = decoded(builder, position, sizes)
                point = origin
                for axis, name in zip(kernel.shared, coordinates, strict=False):
                    point = point.at(axis, name)
                bounds: dict[Axis, Bounds] = {}
                for (axis, block), name in zip(blocks, coordinates[len(kernel.shared) :], strict=True):
                    bounds[axis] = block_bounds(builder, name, block, axis.size)
                self.tile_bounds = None if kernel.tile is None else bounds.get(kernel.tile)
                self.row_bounds = None if kernel.rows is None else bounds.get(kernel.rows.axis)
                self.bounds = None if kernel.vector is None else bounds.get(kernel.vector)
                if stage is None:
                    self._inner(kernel.inner, kernel.stores, point)
                else:
                    stage.write(point, bounds, lambda stores, here: self._inner(kernel.inner, stores, here))

        look = look_of(kernel.item_count, work_of(kernel), self.target.tuning)
        write_items(builder, kernel.item_count, item, serial=kernel.serial, look=look)
        if kernel.streamed or stage is not None:
            builder.line("fence seq_cst")  # stores past the caches are not ordered by anything weaker

    def _inner(self, axes: Sequence[Axis], stores: Stores, point: Point) -> None:
        if not axes:
            self._interior(stores, point)
            return

        def body(position: str, _: list[Value]) -> list[Value]:
            with self.evaluator.scope():
                self._inner(axes[1:], stores, point.at(axes[0], position))
            return []

        self.builder.loop("0", str(axes[0].size), 1, [], body)

    # Cases -----------------------------------------------------------------------------------------------------------

    def _interior(self, stores: Stores, point: Point) -> None:
        """One body for where all conditions on outer and fold axes hold, one for the rest."""
        forms = self._fold_conditions(stores)
        if not forms:
            self._unswitched(stores, point, 0)
            return
        inside = both(_worst(form, point).as_expression() >= 0 for form in forms.values())
        true: dict[Expression, Expression] = {c: constant(True, BOOL) for c in forms}
        interior = _rewritten(stores, substitute(true))
        if inside == constant(True, BOOL):
            self._unswitched(interior, point, 0)
            return
        condition = self.evaluator.value(inside, point)

        def case(body: Stores, steps: int) -> Callable[[], list[Value]]:
            def write() -> list[Value]:
                with self.evaluator.scope():
                    before, self.evaluator.unroll_steps = self.evaluator.unroll_steps, steps
                    self._unswitched(body, point, 0)
                    self.evaluator.unroll_steps = before
                return []

            return write

        self.builder.branch(condition, case(interior, self.evaluator.unroll_steps), case(stores, 1))

    def _fold_conditions(self, stores: Stores) -> dict[Expression, Affine]:
        """Comparisons inside folds that depend on outer axes and not on the vector axis, with their forms."""
        result: dict[Expression, Affine] = {}
        for fold in (e for s in stores for e in walk(s.value) if isinstance(e, Fold)):
            inner = frozenset(fold.axes)
            conditions = [] if fold.where is None else conjuncts(fold.where)
            for element in fold.elements:
                conditions += [c for e in walk(element) if isinstance(e, Select) for c in conjuncts(e.condition)]
            for condition in conditions:
                form = threshold_form(condition)
                if form is None or not form.is_pure:
                    continue
                axes = set(form.axes)
                if self.kernel.vector not in axes and axes & inner and axes & set(self.kernel.outer):
                    result[condition] = form
        return result

    def _unswitched(self, stores: Stores, point: Point, depth: int) -> None:
        """Two bodies for a condition that is the same all along the vector axis."""
        found = self._uniform_condition(stores, point) if depth < self.target.tuning.most_cases else None
        if found is None:
            self._rows(stores, point)
            return
        whole, uniform = found
        true = constant(True, BOOL)
        holds = _rewritten(stores, substitute(dict.fromkeys(uniform, true)))
        fails = _rewritten(stores, substitute({whole: constant(False, BOOL)}))
        condition = self.evaluator.value(both(uniform), point)

        def case(body: Stores) -> Callable[[], list[Value]]:
            def write() -> list[Value]:
                with self.evaluator.scope():
                    self._unswitched(body, point, depth + 1)
                return []

            return write

        self.builder.branch(condition, case(holds), case(fails))

    def _uniform_condition(self, stores: Stores, point: Point) -> tuple[Expression, list[Expression]] | None:
        """A condition that guards a load, and the parts of it that only outer axes decide."""
        known = set(point.positions)
        for e in (e for s in stores for e in walk(s.value)):
            if isinstance(e, Select):
                if not any(isinstance(x, Element) for branch in (e.then, e.otherwise) for x in walk(branch)):
                    continue
                whole = e.condition
            elif isinstance(e, Fold) and e.where is not None:
                whole = e.where
            else:
                continue
            uniform = [c for c in conjuncts(whole) if self._is_uniform(c, known)]
            if uniform:
                return whole, uniform
        return None

    def _is_uniform(self, condition: Expression, known: set[Axis]) -> bool:
        if any(isinstance(e, Element) for e in walk(condition)):
            return False
        free = self._dependencies.of(condition)
        return bool(free) and all(isinstance(item, Axis) and item in known for item in free)

    # Rows ------------------------------------------------------------------------------------------------------------

    def _rows(self, stores: Stores, point: Point) -> None:
        """The rows that are computed together: at both ends where they stand is known, and so are their conditions."""
        rows = self.kernel.rows
        if rows is None:
            self._pieces(stores, point)
            return
        assert self.row_bounds is not None
        axis, count = rows.axis, rows.together
        first, last = self._longest_run(self._cuts(stores, axis), axis.size)
        head, tail = list(range(0, first, count)), list(range(axis.size - count, last - count, -count))
        if len(head) + len(tail) > self.target.tuning.most_ends:
            head, tail = [], []
        first, last = (head[-1] + count if head else 0), (tail[-1] if tail else axis.size)
        if first < last < first + count:
            head.append(first)
        ends = {max(start, 0): (self.row_bounds[1], axis.size) for start in tail}
        ends |= {min(start, axis.size - count): (self.row_bounds[0], 0) for start in head}
        for start, (bound, wanted) in sorted(ends.items()):
            self._end_rows(stores, point, start, bound, wanted)
        if first + count <= last:
            self._middle_rows(_Piece(stores, axis, first, last), point)

    def _longest_run(self, cuts: set[int], size: int) -> tuple[int, int]:
        """The longest part of an axis between cuts."""
        return max(itertools.pairwise(sorted({0, *cuts, size})), key=lambda run: run[1] - run[0])

    def _end_rows(self, stores: Stores, point: Point, start: int, bound: str, wanted: int) -> None:
        """The rows from ``start`` on, if an end of this work item's rows is the ``wanted`` one."""
        rows = self.kernel.rows
        assert rows is not None

        def write() -> list[Value]:
            with self.evaluator.scope():
                self.first_row = Position(None, start)
                self._pieces(_Piece(stores, rows.axis, start, start + rows.together).stores, point)
            return []

        if bound == str(wanted):
            write()
        else:
            is_there = Value(self.builder.assign(f"icmp eq i64 {bound}, {wanted}"), BOOL)
            self.builder.branch(is_there, write, list)

    def _middle_rows(self, piece: _Piece, point: Point) -> None:
        """The rows of this work item that are in ``piece``."""
        rows = self.kernel.rows
        assert rows is not None and self.row_bounds is not None
        count, limit = rows.together, piece.last - rows.together
        low, high = self.row_bounds
        low = str(piece.first) if low == "0" else self._larger(low, piece.first)
        high = str(piece.last) if high == str(rows.axis.size) else smaller(self.builder, high, piece.last)

        def body(position: str, _: list[Value]) -> list[Value]:
            with self.evaluator.scope():
                start = position if piece.size % count == 0 else smaller(self.builder, position, limit)
                self.first_row = Position(start)
                self._pieces(piece.stores, point)
            return []

        self.builder.loop(low, high, count, [], body)

    # The vector axis -------------------------------------------------------------------------------------------------

    def _pieces(self, stores: Stores, point: Point) -> None:
        vector = self.kernel.vector
        if vector is None:
            self._tiles(stores, point)
            return
        # Folds that are the same all along the vector axis are computed once, before it begins.
        same = [e for s in stores for e in parts_outside_selects(s.value) if self._is_known(e, point)]
        folds = in_order_of_evaluation(same, self._dependencies)
        cuts = sorted({0, vector.size, *self._cuts(stores, vector)})
        with self.evaluator.keeping(kept_rows(folds, [s.value for s in stores], vector, self.target.tuning)):
            self.evaluator.prepare(same, [point])
            pieces = [_Piece(stores, vector, *ends) for ends in itertools.pairwise(cuts)]
            alone = [not self._vectorises(piece.stores, vector) for piece in pieces]
            if vector.size < self.kernel.lanes or self._fills_edges(pieces, alone):
                pieces, alone = self._with_edges(stores, vector, pieces, alone)
            for piece, is_alone in zip(pieces, alone, strict=True):
                with self.evaluator.scope():
                    if piece.is_edge:
                        lanes = self.kernel.lanes
                        active = piece.size if piece.size < lanes else None
                        here = replace(point.at(vector, None, piece.first), vector=vector, lanes=lanes, active=active)
                        self._tiles(piece.stores, here)
                    else:
                        lanes = 1 if is_alone else self.kernel.lanes
                        self._run(piece.stores, point, vector, piece.first, piece.last, lanes)

    def _fills_edges(self, pieces: Sequence[_Piece], alone: Sequence[bool]) -> bool:
        """Whether points at the ends that would be computed one by one may be lanes of vectors that are cut there.

        Windows do that: their conditions are known for every lane, and some steps of their fold leave lanes out.
        """
        kernel, tuning = self.kernel, self.target.tuning
        if kernel.in_place or self.bounds is not None or kernel.tile is not None or kernel.lanes < tuning.least_edge:
            return False
        folds = [e for s in kernel.stores for e in walk(s.value) if isinstance(e, Fold)]
        if not folds or not all(self._knows_lanes(fold) for fold in folds):
            return False
        ends = [p.size for p, is_alone in zip(pieces, alone, strict=True) if is_alone]
        return (
            bool(ends)
            and sum(p.size for p in pieces) >= kernel.lanes
            and alone.count(False) <= 1
            and sum(-(-size // kernel.lanes) for size in ends) <= tuning.most_ends
        )

    def _knows_lanes(self, fold: Fold) -> bool:
        """Whether it is known, where the points of a vector are, which steps of a fold leave lanes out."""
        if self.kernel.rows is not None:
            return True
        is_guarded = fold.where is not None or fold.contract
        return is_guarded and fold.lanes == 1 and fold_steps(fold) <= self.evaluator.unroll_steps

    def _with_edges(
        self, stores: Stores, vector: Axis, pieces: Sequence[_Piece], alone: Sequence[bool]
    ) -> tuple[list[_Piece], list[bool]]:
        """Vectors over both ends, as many as it takes, and what is left between them."""
        lanes, size = self.kernel.lanes, vector.size
        whole = [p for p, is_alone in zip(pieces, alone, strict=True) if not is_alone]
        first, last = (whole[0].first, whole[-1].last) if whole and lanes <= size else (size, size)
        head, tail = list(range(0, first, lanes)), list(range(size - lanes, last - lanes, -lanes))
        first, last = (head[-1] + lanes if head else 0), (tail[-1] if tail else size)
        if first < last < first + lanes:
            head.append(first)
        starts = sorted({max(min(start, size - lanes), 0) for start in (*head, *tail)})
        result = [_Piece(stores, vector, start, min(start + lanes, size), is_edge=True) for start in starts]
        if first + lanes <= last:
            result.append(_Piece(stores, vector, first, last))
        return result, [False] * len(result)

    def _is_known(self, e: Expression, point: Point) -> bool:
        """Whether ``e`` depends on nothing but the axes that stand already."""
        return all(isinstance(item, Axis) and item in point.positions for item in self._dependencies.of(e))

    def _cuts(self, stores: Stores, vector: Axis) -> set[int]:
        """Where the answer of a condition changes along the vector axis."""
        result: set[int] = set()
        for e in (e for s in stores for x in (s.value, *s.address.opaque) for e in walk(x)):
            form = threshold_form(e)
            if form is None or not form.is_pure:
                continue
            slope = form.coefficient(vector)
            others = [axis for axis in form.axes if axis is not vector]
            if slope == 0 or any(axis in self.kernel.outer or axis in self.kernel.together for axis in others):
                continue
            reach = form.plus(Affine(((vector, 1),), 0), -slope).range({})
            assert reach is not None
            for rest in reach:
                # slope * v + rest >= 0 changes its answer at this v.
                result.add(-(rest // slope) if slope > 0 else rest // -slope + 1)
        return {cut for cut in result if 0 < cut < vector.size}

    def _vectorises(self, stores: Stores, vector: Axis) -> bool:
        """Whether neighbouring points can be computed together: no guard differs between them."""
        dependencies = self._dependencies
        # Folds that are wanted in any case are computed before a condition of what becomes of them is asked.
        ahead = {part for s in stores for part in parts_outside_selects(s.value)}
        for e in (e for s in stores for e in walk(s.value)):
            if isinstance(e, Fold) and e.lanes > 1 and vector in dependencies.of(e):
                return False
            if isinstance(e, Element) and not e.safe and any(vector in dependencies.of(t) for t in e.address.opaque):
                return False
            guard = e.condition if isinstance(e, Select) else (e.where if isinstance(e, Fold) else None)
            if guard is not None and self._differs(guard, vector):
                guarded = (e.then, e.otherwise) if isinstance(e, Select) else e.children
                inside = (x for branch in guarded for x in walk(branch, ahead.__contains__))
                if any(isinstance(x, Element) and not x.safe for x in inside):
                    return False
        return True

    def _differs(self, guard: Expression, vector: Axis) -> bool:
        """Whether ``guard`` may differ between neighbouring points (bound variables count as different)."""
        free = self._dependencies.of(guard)
        return vector in free or any(isinstance(item, Variable) for item in free)

    def _run(self, stores: Stores, point: Point, vector: Axis, first: int, last: int, lanes: int) -> None:
        """The points ``first`` to ``last`` of the vector axis, as far as they belong to this work item."""
        low, high = str(first), str(last)
        if self.bounds is not None:
            low = self._larger(self.bounds[0], first)
            high = smaller(self.builder, self.bounds[1], last)
        while lanes > last - first:
            lanes //= 2
        whole = self.bounds is None and (last - first) % lanes == 0
        register = self.target.machine.vector_bytes * 8 // stores[0].tensor.type.bits
        if self.kernel.streamed and lanes >= register:
            low, lanes, whole = self._run_streamed(stores, point, vector, low, high, lanes), register, False
        if self.kernel.in_place:
            self._run_in_place(stores, point, vector, low, high, lanes)
        elif lanes == 1:
            self._steps(stores, point, vector, low, high, 1, None)
        else:
            # The last vector is moved back so that it ends with the piece: some points are computed twice.
            self._steps(stores, point, vector, low, high, lanes, None if whole else last - lanes)

    def _run_streamed(self, stores: Stores, point: Point, vector: Axis, low: str, high: str, lanes: int) -> str:
        """Whole registers at register boundaries, written past the caches; returns where the rest begins."""
        (store,) = stores
        place = self.evaluator.place(store.tensor, store.address, point.at(vector, low))
        gap = self.evaluator.memory.misaligned_elements(place)
        start = self.builder.assign(f"add nsw i64 {low}, {gap}")
        short = self.builder.assign(f"icmp slt i64 {start}, {high}")
        start = self.builder.assign(f"select i1 {short}, i64 {start}, i64 {high}")
        self._steps(stores, point, vector, low, start, 1, None)
        span = self.builder.assign(f"sub nsw i64 {high}, {start}")
        rest = self.builder.assign(f"srem i64 {span}, {lanes}")
        end = self.builder.assign(f"sub nsw i64 {high}, {rest}")
        self._steps(stores, point, vector, start, end, lanes, None, aligned=True)
        return end

    def _run_in_place(self, stores: Stores, point: Point, vector: Axis, low: str, high: str, lanes: int) -> None:
        """As ``_run``, but every point is computed exactly once."""
        for width in (lanes, lanes // 8, 1):
            if width < 1 or (width == 1 and lanes == 1 and width != lanes):
                continue
            span = self.builder.assign(f"sub nsw i64 {high}, {low}")
            rest = self.builder.assign(f"srem i64 {span}, {width}")
            end = self.builder.assign(f"sub nsw i64 {high}, {rest}") if width > 1 else high
            positive = self.builder.assign(f"icmp sgt i64 {span}, 0")
            end = self.builder.assign(f"select i1 {positive}, i64 {end}, i64 {low}")
            self._steps(stores, point, vector, low, end, width, None)
            if width == 1:
                return
            low = end

    def _larger(self, name: str, bound: int) -> str:
        if bound == 0:
            return name
        more = self.builder.assign(f"icmp sgt i64 {name}, {bound}")
        return self.builder.assign(f"select i1 {more}, i64 {name}, i64 {bound}")

    def _steps(
        self,
        stores: Stores,
        point: Point,
        vector: Axis,
        low: str,
        high: str,
        lanes: int,
        limit: int | None,
        aligned: bool = False,
    ) -> None:
        def body(position: str, _: list[Value]) -> list[Value]:
            with self.evaluator.scope():
                start = position if limit is None else smaller(self.builder, position, limit)
                here = replace(point.at(vector, start), vector=vector if lanes > 1 else None, lanes=lanes)
                self._tiles(stores, here, aligned)
            return []

        self.builder.loop(low, high, lanes, [], body)

    # Tiles and points ------------------------------------------------------------------------------------------------

    def _tiles(self, stores: Stores, point: Point, aligned: bool = False) -> None:
        tile, rows = self.kernel.tile, self.kernel.rows
        if rows is not None:
            name, start = self.first_row
            self._points(
                stores, [point.at(rows.axis, name, start + number) for number in range(rows.together)], aligned
            )
            return
        if tile is None:
            self._points(stores, [point], aligned)
            return
        assert self.tile_bounds is not None
        size = self.kernel.tile_size

        def body(position: str, _: list[Value]) -> list[Value]:
            with self.evaluator.scope():
                start = moved_back(self.builder, position, size, tile.size)
                self._points(stores, [point.at(tile, start, number) for number in range(size)])
            return []

        self.builder.loop(*self.tile_bounds, size, [], body)

    def _points(self, stores: Stores, points: list[Point], aligned: bool = False) -> None:
        if self.kernel.transposed and points[0].lanes == len(points) and self.kernel.tile is not None:
            self.evaluator.transpose([s.value for s in stores], self.kernel.tile, points)
        self.evaluator.prepare([s.value for s in stores], points)
        values = [[self.evaluator.value(s.value, p) for s in stores] for p in points]
        if self.kernel.interleaved and points[0].lanes > 1:
            for store, column in zip(stores, zip(*values, strict=True), strict=True):
                joined = self.builder.interleaved([self.builder.spread(v, points[0].lanes) for v in column])
                place = self.evaluator.place(store.tensor, store.address, points[0])
                self.evaluator.memory.store(place, joined)
            return
        for point, row in zip(points, values, strict=True):
            for store, value in zip(stores, row, strict=True):
                self.evaluator.store(store.tensor, store.address, value, point, aligned)


def _worst(form: Affine, point: Point) -> Affine:
    """The least value of ``form`` over the axes of folds and tiles, in terms of those that ``point`` knows."""
    constant_part = form.constant
    terms = []
    for term, coefficient in form.terms:
        if isinstance(term, Axis) and term not in point.positions:
            constant_part += min(0, coefficient * (term.size - 1))
        else:
            terms.append((term, coefficient))
    return Affine(tuple(terms), constant_part)


def _rewritten(stores: Stores, rewrite: Rewriter) -> Stores:
    return tuple(ElementStore(s.tensor, s.address.rebuilt(rewrite), rewrite(s.value)) for s in stores)
