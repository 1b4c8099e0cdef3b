"""Expressions into instructions, for one point or for several points at once.

A ``Point`` says where in the iteration space an expression is evaluated: the position of every axis, the axis whose
neighbouring points fill the lanes of a vector, and the values of bound variables. What does not depend on the vector
axis comes out as a scalar. Everything computed is remembered by the expression and by the part of the point that it
depends on, in scopes that follow the control flow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final

from opendml.expression.affine import Affine, Dependencies, Element, affine, threshold_form
from opendml.expression.element_types import BOOL, I32, I64
from opendml.expression.ir import (
    WORD_PRODUCTS,
    Axis,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expression,
    Fold,
    FusedMultiplyAdd,
    Index,
    Part,
    Select,
    Tensor,
    Unary,
    Variable,
)
from opendml.expression.rewriting import conjuncts, inner_first, step_limits, walk
from opendml.llvm.builder import Builder, Value, index_value
from opendml.loops.instructions import Instructions
from opendml.loops.nest import Folding, KeptRow, Overlap
from opendml.targets.cpu.code.memory import Memory, Place, Pointer, Scopes, first_lanes, lanes_between
from opendml.targets.cpu.code.point import Point, Position
from opendml.targets.cpu.instructions.registers import by_registers
from opendml.targets.cpu.nests.folds import unrolled_axes
from opendml.targets.cpu.nests.kept_rows import parts_outside_selects, unconditional_loads
from opendml.targets.cpu.target import CpuTarget

RECURSION: Final = 8
"""How deep an expression is computed by calls for its parts, which is the quickest way."""


class Evaluator:
    """Writes instructions for expressions through a Builder."""

    def __init__(
        self,
        builder: Builder,
        pointers: Mapping[Tensor, Pointer],
        target: CpuTarget,
        prefetched: Mapping[Tensor, int],
        instructions: Instructions,
    ) -> None:
        self.builder = builder
        self.instructions = instructions
        self.dependencies = Dependencies()
        self.target = target
        self.unroll_steps = target.tuning.unrolled_steps
        self.overlap: Overlap | None = None  # points along it are folded together
        self._scopes = Scopes()
        self.memory = Memory(builder, self._scopes, pointers, target, prefetched, instructions)
        self._forms: dict[Expression, Affine] = {}
        self._thresholds: dict[Expression, list[Affine | None]] = {}
        self._orders: dict[Expression, list[Axis | Variable]] = {}
        self._unsafe: dict[Expression, bool] = {}
        self._rows: Sequence[KeptRow] = ()
        self._rows_depth = 0
        self._depth = 0
        self._kept: dict[Expression, Element] = {}

    def scope(self) -> AbstractContextManager[None]:
        """What is computed inside is not known outside: for blocks that need not be executed."""
        return self._scopes.inner()

    # Values ----------------------------------------------------------------------------------------------------------

    def value(self, e: Expression, point: Point) -> Value:
        """The value of ``e`` at ``point``."""
        key = self._key(e, point)
        found = self._scopes.find(key)
        if found is None:
            self._depth += 1
            found = self._put(key, e, point) if self._depth < RECURSION else self._inner_first(e, point)
            self._depth -= 1
        return found

    def _put(self, key: object, e: Expression, point: Point) -> Value:
        kept = self._kept.get(e) if self._kept else None
        value = self._compute(e, point) if kept is None else self.value(kept, point)
        return self._scopes.put(key, value)

    def _inner_first(self, root: Expression, at: Point) -> Value:
        """As ``value``, for parts of deep expressions: what they are made of comes first, in the same order, so that
        nothing calls itself for it. Code under conditions, and folds in folds, are as deep as calls are."""
        plain: dict[object, Value] = {}  # conditions of Selects both of whose branches are computed
        stack = [(root, at)]
        while stack:
            e, point = stack[-1]
            key = self._key(e, point)
            if self._scopes.find(key) is not None:
                stack.pop()
                continue
            if isinstance(e, Select) and e not in self._kept:
                condition = self._plain_condition(e, point) if key not in plain else plain[key]
                if condition is not None:
                    plain[key] = condition
            needed = self._parts(e, point, key in plain)
            missing = [part for part in needed if not self._is_known(*part)]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            if isinstance(e, Select) and key in plain:
                then, otherwise = self.value(e.then, point), self.value(e.otherwise, point)
                self._scopes.put(key, self.builder.select(plain[key], then, otherwise))
            else:
                self._put(key, e, point)
        return self.value(root, at)

    def _parts(self, e: Expression, point: Point, is_plain: bool) -> list[tuple[Expression, Point]]:
        """What is computed for ``e`` whatever conditions say, and where, in order."""
        if e in self._kept or isinstance(e, Part | Const | Index | Variable):
            return []
        if isinstance(e, Select):
            here = e.children if is_plain else (e.condition,) if self._allowed_lanes(e.condition, point) is None else ()
            return [(part, point) for part in here]
        if isinstance(e, Element):
            terms = e.address.opaque
        else:
            source = e.operand if isinstance(e, Cast) and e.type.is_integer else e
            form = self.form(source) if source.type is I64 else None
            if form is None or form.terms == ((source, 1),) or any(self.varies(term, point) for term in form.opaque):
                return [(part, point) for part in e.children]
            terms = form.opaque
        scalar = replace(point, vector=None, lanes=1)
        return [(term, point if self.varies(term, point) else scalar) for term in terms]

    def define(self, e: Expression, point: Point, value: Value) -> None:
        """Let ``e`` at ``point`` be ``value``, which was computed elsewhere."""
        self._scopes.put(self._key(e, point), value)

    def _is_known(self, e: Expression, point: Point) -> bool:
        """Whether ``e`` has been computed at ``point``."""
        return self._scopes.find(self._key(e, point)) is not None

    def _key(self, e: Expression, point: Point) -> object:
        bindings: list[object] = []
        vectored = False
        for item in self._ordered(e):
            if isinstance(item, Axis):
                bindings.append(point.positions[item])
                vectored |= item is point.vector
            else:
                assert point.variables is not None
                bindings.append(point.variables[item].text)
        mask = point.mask.text if point.mask is not None else None
        return (e, tuple(bindings), (point.lanes, point.active) if vectored else None, mask)

    def _ordered(self, e: Expression) -> list[Axis | Variable]:
        found = self._orders.get(e)
        if found is None:
            found = self._orders[e] = sorted(self.dependencies.of(e), key=id)
        return found

    def form(self, e: Expression) -> Affine:
        """The affine form of an index expression."""
        found = self._forms.get(e)
        if found is None:
            found = self._forms[e] = affine(e)
        return found

    def varies(self, e: Expression, point: Point) -> bool:
        """Whether ``e`` may differ between the lanes of ``point``."""
        if point.lanes == 1:
            return False
        for item in self.dependencies.of(e):
            if item is point.vector:
                return True
            if isinstance(item, Variable) and point.variables and point.variables[item].lanes > 1:
                return True
        return False

    def _compute(self, e: Expression, point: Point) -> Value:
        if e.type is I64 and not isinstance(e, Const | Variable | Element | Part | Select):
            linear = self._linear(e, point)
            if linear is not None:
                return linear
        return _COMPUTE[type(e)](self, e, point)

    def dot(self, operation: str, a: Value, b: Value, c: Value) -> Value:
        """``dot2`` or ``dot4`` of words, plus ``c``: by an instruction of whole registers, if there is one."""
        a, b, c = self.builder.aligned(a, b, c)
        instruction = self.instructions.fitting(operation, a.type, a.lanes)
        if instruction is None:
            return self.builder.dot(operation, a, b, c)
        return by_registers(self.builder, instruction, a, b, c)

    # Indices ---------------------------------------------------------------------------------------------------------

    def _linear(self, e: Expression, point: Point) -> Value | None:
        """An affine index expression; None if it has to be computed operation by operation."""
        form = self.form(e)
        if form.terms == ((e, 1),):
            return None
        if any(self.varies(term, point) for term in form.opaque):
            return None
        base = self.index(form, point)
        step = form.coefficient(point.vector) if point.vector is not None else 0
        return self._spread_index(base, step, point.lanes, I64)

    def _spread_index(self, base: Value, step: int, lanes: int, type: Any) -> Value:
        base = self.builder.cast(base, type)
        if step == 0 or lanes == 1:
            return base
        return self.builder.binary("add", base, self.builder.progression(step, type, lanes))

    def index(self, form: Affine, point: Point, with_constant: bool = True) -> Value:
        """An affine form as a scalar: for the first lane."""
        total, constant = self._index_parts(form, point)
        constant = constant if with_constant else 0
        if total is None:
            return index_value(constant)
        if constant == 0:
            return total
        return index_value(self.builder.assign(f"add nsw i64 {total.text}, {constant}"))

    def _index_parts(self, form: Affine, point: Point) -> tuple[Value | None, int]:
        """The part that is only known when the code runs, and the constant rest."""
        constant = form.constant
        parts: list[tuple[str, int]] = []
        for term, coefficient in form.terms:
            if isinstance(term, Axis):
                position = point.positions[term]
                constant += coefficient * position.constant
                if position.name is not None:
                    parts.append((position.name, coefficient))
            else:
                parts.append((self.value(term, replace(point, vector=None, lanes=1)).text, coefficient))
        if not parts:
            return None, constant
        key = ("index", tuple(parts))
        found = self._scopes.find(key)
        if found is not None:
            return found, constant
        text: str | None = None
        for name, coefficient in parts:
            product = name if coefficient == 1 else self.builder.assign(f"mul nsw i64 {name}, {coefficient}")
            text = product if text is None else self.builder.assign(f"add nsw i64 {text}, {product}")
        assert text is not None
        return self._scopes.put(key, index_value(text)), constant

    def place(self, tensor: Tensor, address: Affine, point: Point) -> Place:
        """An element of a tensor: for the first lane."""
        return Place(tensor, *self._index_parts(address, point))

    # Rows kept in memory ---------------------------------------------------------------------------------------------

    @contextmanager
    def keeping(self, rows: Sequence[KeptRow]) -> Iterator[None]:
        """Inside, folds write ``rows`` to memory, and what comes after them reads the rows."""
        self._rows = rows
        self._rows_depth = self._scopes.depth
        yield
        self._rows, self._kept = (), {}

    def _written_rows(self, fold: Fold) -> list[KeptRow]:
        """The rows that ``fold`` has to write: none where it is evaluated under a condition or in a loop."""
        if not self._rows or self._scopes.depth != self._rows_depth:
            return []
        return [row for row in self._rows if row.writer == fold]

    def _write_rows(self, rows: Sequence[KeptRow], point: Point) -> None:
        """Lanes that do not take part are written too: there is room for them behind the row."""
        for row in rows:
            value = self.value(row.value, point)
            self.store(row.memory, Affine(((row.axis, 1),), 0), value, replace(point, active=None))

    def _keep(self, rows: Sequence[KeptRow]) -> None:
        """From here on the rows are read."""
        for row in rows:
            for e, axis in row.readers.items():
                self._kept[e] = Element(row.memory, Affine(((axis, 1),), 0), True)

    # Memory ----------------------------------------------------------------------------------------------------------

    def load(self, e: Element, point: Point) -> Value:
        """The element at an address; neighbouring lanes as vectors where the step between them allows it."""
        if any(self.varies(term, point) for term in e.address.opaque):
            return self._load_each_lane(e, point)
        place, step = self.place(e.tensor, e.address, point), self._step(e.address, point)
        if point.mask is not None and not e.safe:
            mask = self._where_active(point.mask, point)
            return self.memory.load_where(place, step, mask, point.allowed)
        if step == 0 or point.lanes == 1:
            return self.memory.load(place)
        if point.active is None:
            return self.memory.load_apart(place, step, point.lanes)
        if 1 <= abs(step) <= self.target.tuning.shuffled_stride and point.active > 1:
            return self.memory.load_where(place, step, first_lanes(point.active, point.lanes), (0, point.active))
        return self.memory.load_one_by_one(place, step, point.active, point.lanes)

    def _step(self, address: Affine, point: Point) -> int:
        """How far an address moves from lane to lane."""
        return address.coefficient(point.vector) if point.vector is not None and point.lanes > 1 else 0

    def _where_active(self, mask: Value, point: Point) -> Value:
        if point.active is None:
            return mask
        return self.builder.binary("and", mask, first_lanes(point.active, point.lanes))

    def _load_each_lane(self, e: Element, point: Point) -> Value:
        """An address that is not affine in the vector axis: the addresses as a vector, one load a lane."""
        varying = [(t, c) for t, c in e.address.terms if not isinstance(t, Axis) and self.varies(t, point)]
        uniform = Affine(tuple(term for term in e.address.terms if term not in varying), e.address.constant)
        place = self.place(e.tensor, uniform, point)
        offsets = self.builder.progression(self._step(uniform, point), I64, point.lanes)
        for term, coefficient in varying:
            factor = self.builder.spread(index_value(coefficient), point.lanes)
            offsets = self.builder.binary("add", offsets, self.builder.binary("mul", self.value(term, point), factor))
        pointers = self.memory.pointers(place, offsets)
        if (e.safe or point.mask is None) and point.active is None:
            if self.instructions.find("gather", e.tensor.type) is None:
                return self.memory.load_from_each(place, pointers, point.lanes)
            return self.memory.gather(place, pointers, self.builder.spread(Value("true", BOOL), point.lanes))
        if e.safe or point.mask is None:
            assert point.active is not None
            return self.memory.gather(place, pointers, first_lanes(point.active, point.lanes))
        return self.memory.gather(place, pointers, self._where_active(point.mask, point))

    def transpose(self, expressions: Sequence[Expression], tile: Axis, points: Sequence[Point]) -> None:
        """As ``transpose_loads``, for those loads that lie along ``tile`` and are far apart along the vector axis.

        Those under a condition that may keep them from leaving their tensor are left out.
        """
        vector, near = points[0].vector, self.target.tuning.shuffled_stride
        for e in {x: None for root in expressions for x in unconditional_loads(root)}:
            address = e.address
            if vector is None or address.coefficient(tile) != 1 or abs(address.coefficient(vector)) <= near:
                continue
            if not any(self.varies(term, point) for term in address.opaque for point in points):
                self.transpose_loads([e], points)

    def transpose_loads(self, loads: Sequence[Element], points: Sequence[Point]) -> None:
        """Load what lies along a tile as vectors, and transpose it into the vectors of the points.

        ``points`` are as many neighbouring points of the tile as there are lanes. The loads stay known to ``value``.
        """
        vector, count = points[0].vector, len(points)
        assert vector is not None
        for e in loads:
            place, step = self.place(e.tensor, e.address, points[0]), e.address.coefficient(vector)
            rows = [self.memory.load(place.moved(lane * step), count) for lane in range(count)]
            for point, column in zip(points, self.builder.transposed(rows), strict=True):
                self.define(e, point, column)

    def store(self, tensor: Tensor, address: Affine, value: Value, point: Point, aligned: bool = False) -> None:
        """``value`` to an address; lanes along the vector axis. ``aligned``: whole registers, past the caches."""
        place, step = self.place(tensor, address, point), self._step(address, point)
        if step == 0:
            self.memory.store(place, self.builder.extract(value, 0))
            return
        value = self.builder.spread(value, point.lanes)
        if step == -1:
            value = self.builder.shuffle(value, None, range(point.lanes - 1, -1, -1))
            place, step = place.moved(1 - point.lanes), 1
        if step != 1:
            self.memory.store_apart(place, step, value, point.lanes if point.active is None else point.active)
        elif point.active is not None:
            self.memory.store_first(place, value, point.active)
        else:
            self.memory.store(place, value, aligned)

    # Selection -------------------------------------------------------------------------------------------------------

    def _select(self, e: Select, point: Point) -> Value:
        allowed = self._allowed_lanes(e.condition, point)
        if allowed is not None:
            return self._select_lanes(e, point, allowed)
        condition = self.value(e.condition, point)
        branches = (e.then, e.otherwise)
        if self._is_plain(e, condition, point):
            return self.builder.select(condition, self.value(e.then, point), self.value(e.otherwise, point))
        if e.rare and not any(self._may_stray(branch, point) for branch in branches):
            return self._select_rarely(condition, e, point)
        if condition.lanes > 1:
            then = self.value(e.then, self._masked(point, condition))
            otherwise = self.value(e.otherwise, self._masked(point, self.builder.unary("not", condition)))
            return self.builder.select(condition, then, otherwise)

        def side(branch: Expression) -> Callable[[], list[Value]]:
            def write() -> list[Value]:
                with self.scope():
                    return [self.value(branch, point)]

            return write

        return self.builder.branch(condition, side(e.then), side(e.otherwise))[0]

    def _is_plain(self, e: Select, condition: Value, point: Point) -> bool:
        """Whether both branches are computed where the Select is, to choose between what comes out."""
        branches = (e.then, e.otherwise)
        if e.rare and not any(self._may_stray(branch, point) for branch in branches):
            return False
        if condition.lanes > 1:
            return not any(self._is_unsafe(x) and self._may_stray(x, point) for x in branches)
        return not any(self._is_costly(branch, point) for branch in branches)

    def _plain_condition(self, e: Select, point: Point) -> Value | None:
        """The condition of a plain Select, once it is known."""
        if self._allowed_lanes(e.condition, point) is not None:
            return None
        condition = self._scopes.find(self._key(e.condition, point))
        return condition if condition is not None and self._is_plain(e, condition, point) else None

    def _select_lanes(self, e: Select, point: Point, allowed: tuple[int, int]) -> Value:
        """``e`` where it is known for every lane which branch it takes."""
        if allowed == point.active_lanes:
            return self.value(e.then, point)
        if allowed[0] == allowed[1]:
            return self.value(e.otherwise, point)
        mask = lanes_between(*allowed, point.lanes)
        then = self.value(e.then, replace(point, mask=mask, allowed=allowed))
        if _is_zero(e.otherwise) and self._is_zero_where_left_out(e.then, point):
            return then
        there = replace(point, mask=self.builder.unary("not", mask)) if self._is_unsafe(e.otherwise) else point
        return self.builder.select(mask, then, self.value(e.otherwise, there))

    def _is_zero_where_left_out(self, e: Expression, point: Point) -> bool:
        """Whether ``e`` is a masked load, perhaps widened: 0 already in the lanes that its mask leaves out."""
        while isinstance(e, Cast) and e.type.is_float and e.operand.type.is_float:
            e = e.operand
        if not isinstance(e, Element) or e.safe or any(self.varies(term, point) for term in e.address.opaque):
            return False
        return self._step(e.address, point) == 1 and self.memory.masks(e.tensor)

    def _select_rarely(self, condition: Value, e: Select, point: Point) -> Value:
        """``e.then`` is computed only if some lane wants it."""
        condition = replace(condition, text=self.builder.assign(f"freeze {condition.typed}"))
        otherwise = self.value(e.otherwise, point)

        def mixed() -> list[Value]:
            with self.scope():
                return [self.builder.select(condition, self.value(e.then, point), otherwise)]

        return self.builder.branch(self.builder.any_lane(condition), mixed, lambda: [otherwise])[0]

    def _may_stray(self, e: Expression, point: Point) -> bool:
        """Whether what is yet to be computed of ``e`` loads from places that only its conditions make safe."""

        def is_known(x: Expression) -> bool:
            return isinstance(x, Part) or self._is_known(x, point)

        stack = (x for x in walk(e, is_known) if isinstance(x, Part) or (isinstance(x, Element) and not x.safe))
        return any(not self._is_known(x, point) for x in stack)

    def _is_unsafe(self, e: Expression) -> bool:
        """Whether ``e`` loads what may be outside of its tensor where the conditions around it do not hold."""
        for x in inner_first(e, self._unsafe):
            here = isinstance(x, Element) and not x.safe
            self._unsafe[x] = here or any(self._unsafe[child] for child in x.children)
        return self._unsafe[e]

    def _is_costly(self, e: Expression, point: Point) -> bool:
        """Whether ``e`` must not, or should not, be evaluated where it is not needed."""
        for x in walk(e, lambda x: isinstance(x, Part)):
            if isinstance(x, Part) and not self._is_known(x, point):
                return True
            if isinstance(x, Element) and not x.safe:
                return True
        return False

    def _masked(self, point: Point, condition: Value) -> Point:
        mask = condition if point.mask is None else self.builder.binary("and", point.mask, condition)
        return replace(point, mask=mask)

    # Folds -----------------------------------------------------------------------------------------------------------

    def prepare(self, expressions: Sequence[Expression], points: Sequence[Point]) -> None:
        """Evaluate the folds in ``expressions`` for all points together, so that they share what they load."""
        for fold in dict.fromkeys(part.fold for e in expressions for part in parts_outside_selects(e)):
            if not self._is_folded(fold, points):
                self._reduce(fold, points, None)

    def reduce(self, foldings: Iterable[Folding], points: Sequence[Point]) -> None:
        """Evaluate folds that are not known yet, each for all points together."""
        for folding in foldings:
            if not self._is_folded(folding.fold, points):
                self._reduce(folding.fold, points, folding.unrolled)

    def _is_folded(self, fold: Fold, points: Sequence[Point]) -> bool:
        return all(self._is_known(Part(fold, 0), point) for point in points)

    def _reduce(self, fold: Fold, points: Sequence[Point], unrolled: Sequence[Axis] | None) -> None:
        for point, values in zip(points, self.folded(fold, points, unrolled), strict=True):
            for number, value in enumerate(values):
                self.define(Part(fold, number), point, value)

    def folded(self, fold: Fold, points: Sequence[Point], unrolled: Sequence[Axis] | None = None) -> list[list[Value]]:
        """All values of a fold at every one of ``points``.

        ``unrolled``: the axes along which its steps are written out, where a nest says so.
        """
        self._prepare_inner_folds(fold, points)
        if fold.partials > 1:
            return [self._folded_by_lanes(fold, point) for point in points]
        states = []
        for point in points:
            # What is loaded under a mask has a value in each lane, even where all lanes load the same place.
            masked = point.mask is not None and any(self._is_unsafe(e) for e in fold.children)
            wide = masked or any(self.varies(e, point) for e in fold.children)
            initial = [self.value(e, point) for e in fold.initial]
            states.append([self.builder.spread(v, point.lanes) for v in initial] if wide else initial)
        if self.overlap is not None and self.overlap.tap in fold.axes:
            return self._fold_rows(fold, self.overlap, points, states)
        if unrolled is None:
            unrolled = unrolled_axes(fold, len(points), self.unroll_steps, self.target.tuning)
        return self._fold_axes(fold, list(fold.axes), unrolled, list(points), states)

    def _fold_rows(
        self, fold: Fold, rows: Overlap, points: Sequence[Point], states: list[list[Value]]
    ) -> list[list[Value]]:
        """The steps of a fold for several rows: those that load the same place one after the other.

        Each row's own steps keep their order.
        """
        number = fold.axes.index(rows.tap)
        before, behind = (
            list(itertools.product(*(range(axis.size) for axis in axes)))
            for axes in (fold.axes[:number], fold.axes[number + 1 :])
        )
        way = 1 if rows.reach > 0 else -1
        meeting: dict[int, list[tuple[int, int]]] = {}
        for tap, row in itertools.product(range(rows.tap.size), range(len(points))):
            meeting.setdefault(way * (row * rows.step + tap * rows.reach), []).append((row, tap))
        for outer, place, inner in itertools.product(before, sorted(meeting), behind):
            for row, tap in meeting[place]:
                positions = {axis: Position(None, i) for axis, i in zip(fold.axes, (*outer, tap, *inner), strict=True)}
                here = replace(points[row], positions={**points[row].positions, **positions})
                (states[row],) = self._fold_step(fold, [here], [states[row]])
        return states

    def _prepare_inner_folds(self, fold: Fold, points: Sequence[Point]) -> None:
        """Folds inside of ``fold`` that are the same at all of its points, before it begins."""
        axes = frozenset(fold.axes)
        inner = [part for e in fold.children for part in parts_outside_selects(e)]
        self.prepare([part for part in inner if not axes & self.dependencies.of(part)], points)

    def _fold_axes(
        self, fold: Fold, axes: list[Axis], unrolled: Sequence[Axis], points: list[Point], states: list[list[Value]]
    ) -> list[list[Value]]:
        if not axes:
            return self._fold_step(fold, points, states)
        axis, *rest = axes
        if axis in unrolled:
            for i in range(axis.size):
                states = self._fold_axes(fold, rest, unrolled, [p.at(axis, None, i) for p in points], states)
            return states
        shape = [len(state) for state in states]

        def body(position: str, values: list[Value]) -> list[Value]:
            with self.scope():
                moved = [p.at(axis, position) for p in points]
                inner = self._fold_axes(fold, rest, unrolled, moved, _split(values, shape))
                return [v for state in inner for v in state]

        flat = [v for state in states for v in state]
        return _split(self.builder.loop("0", self._step_count(fold, axis, points), 1, flat, body), shape)

    def _step_count(self, fold: Fold, axis: Axis, points: list[Point]) -> str:
        """As many steps along an axis as may be taken at any of the points."""
        count = step_limits(fold).get(axis)
        if count is None:
            return str(axis.size)
        largest = index_value(0)
        for point in points:
            counts = self.value(count, point)
            if counts.lanes > 1:
                # Lanes that take no part have any value.
                if point.mask is not None:
                    counts = self.builder.select(point.mask, counts, index_value(0))
                if point.active is not None:
                    counts = self.builder.select(first_lanes(point.active, counts.lanes), counts, index_value(0))
                counts = self.builder.largest_lane(counts)
            largest = self.builder.binary("max", largest, counts)
        return self.builder.binary("min", largest, index_value(axis.size)).text

    def _fold_step(self, fold: Fold, points: list[Point], states: list[list[Value]]) -> list[list[Value]]:
        if fold.where is None:
            return self._combined(fold, points, states)
        conditions = [self.value(fold.where, p) for p in points]
        if all(c.text == "true" for c in conditions):
            return self._combined(fold, points, states)
        if conditions[0].lanes == 1 and all(c == conditions[0] for c in conditions):
            shape = [len(state) for state in states]

            def taken() -> list[Value]:
                with self.scope():
                    return [v for state in self._combined(fold, points, states) for v in state]

            flat = self.builder.branch(conditions[0], taken, lambda: [v for state in states for v in state])
            return _split(flat, shape)
        result = []
        for point, condition, state in zip(points, conditions, states, strict=True):
            allowed = self._allowed_lanes(fold.where, point)
            if condition.lanes == 1 and allowed is None:
                result += self._fold_step(fold, [point], [state])
            elif allowed == point.active_lanes:
                result += self._combined(fold, [point], [state])
            elif allowed is not None and allowed[0] == allowed[1]:
                result.append(state)
            else:
                masked = replace(self._masked(point, condition), allowed=allowed)
                (following,) = self._combined(fold, [masked], [state])
                result.append([self.builder.select(condition, n, o) for n, o in zip(following, state, strict=True)])
        return result

    def _allowed_lanes(self, condition: Expression, point: Point) -> tuple[int, int] | None:
        """The active lanes where a condition holds, as a range, if the point stands where that is known."""
        if point.vector is None or point.mask is not None:
            return None
        first, last = point.active_lanes
        for form in self._threshold_forms(condition):
            if form is None or any(not isinstance(t, Axis) or point.positions[t].name for t, _ in form.terms):
                return None
            start = form.constant + sum(c * point.positions[t].constant for t, c in form.terms if isinstance(t, Axis))
            slope = form.coefficient(point.vector)
            holding = [lane for lane in range(first, last) if start + lane * slope >= 0]
            first, last = (holding[0], holding[-1] + 1) if holding else (0, 0)
        return first, last

    def _threshold_forms(self, condition: Expression) -> list[Affine | None]:
        found = self._thresholds.get(condition)
        if found is None:
            found = self._thresholds[condition] = [threshold_form(part) for part in conjuncts(condition)]
        return found

    def _combined(self, fold: Fold, points: list[Point], states: list[list[Value]]) -> list[list[Value]]:
        self.prepare(fold.elements, points)
        return [self._combined_at(fold, p, s) for p, s in zip(points, states, strict=True)]

    def _combined_at(self, fold: Fold, point: Point, state: list[Value]) -> list[Value]:
        lanes = max(v.lanes for v in state)
        if fold.contract:
            product = fold.elements[0]
            assert isinstance(product, Binary)
            left, right = self.value(product.left, point), self.value(product.right, point)
            if product.operation != "mul":
                return [self.dot(product.operation, left, right, state[0])]
            return [self.builder.fused_multiply_add(left, right, state[0])]
        elements = [self.value(e, point) for e in fold.elements]
        joint = point.bound((*fold.combine.left, *fold.combine.right), (*state, *elements))
        return [self.builder.spread(self.value(e, joint), lanes) for e in fold.combine.result]

    # Partial results in lanes ----------------------------------------------------------------------------------------

    def _folded_by_lanes(self, fold: Fold, point: Point) -> list[Value]:
        """A fold whose partial results are lanes instead of the points; where it varies between these, one by one."""
        lanes = point.lanes
        if lanes == 1 or not (self.varies(fold, point) or point.mask is not None):
            return self._folded_in_lanes(fold, replace(point, vector=None, lanes=1, active=None))

        def at_lane(lane: str, values: list[Value]) -> list[Value]:
            with self.scope():
                here = self._lane(point, lane)

                def folded() -> list[Value]:
                    with self.scope():
                        return self._folded_in_lanes(fold, here)

                if point.mask is None:
                    results = folded()
                else:
                    undefined = [Value("poison", v.type) for v in values]
                    mask = self.builder.assign(f"extractelement {point.mask.typed}, i64 {lane}")
                    results = self.builder.branch(Value(mask, BOOL), folded, lambda: undefined)
                inserted = [
                    self.builder.assign(f"insertelement {v.typed}, {result.typed}, i64 {lane}")
                    for v, result in zip(values, results, strict=True)
                ]
                return [replace(v, text=text) for v, text in zip(values, inserted, strict=True)]

        none = [Value("poison", e.type, lanes) for e in fold.elements]
        return self.builder.loop("0", str(lanes if point.active is None else point.active), 1, none, at_lane)

    def _lane(self, point: Point, lane: str) -> Point:
        """One lane of a point, chosen when the code runs."""
        variables = {}
        for variable, value in (point.variables or {}).items():
            one = f"extractelement {value.typed}, i64 {lane}"
            variables[variable] = value if value.lanes == 1 else Value(self.builder.assign(one), value.type)
        here = replace(point, vector=None, lanes=1, active=None, mask=None, variables=variables)
        if point.vector is None:
            return here
        name, constant = point.positions[point.vector]
        start = self.builder.assign(f"add nsw i64 {lane}, {constant}")
        moved = start if name is None else self.builder.assign(f"add nsw i64 {name}, {start}")
        return here.at(point.vector, moved)

    def _folded_in_lanes(self, fold: Fold, point: Point) -> list[Value]:
        *outer, last = fold.axes
        lanes = fold.partials
        here = replace(point, vector=last, lanes=lanes)
        state = [self.builder.spread(self.value(e, point), lanes) for e in fold.initial]
        rows = self._written_rows(fold)

        def nest(axes: Sequence[Axis], at: Point, values: list[Value]) -> list[Value]:
            if not axes:
                return self._fold_last_axis(fold, at, values, rows)

            def body(position: str, inner: list[Value]) -> list[Value]:
                with self.scope():
                    return nest(axes[1:], at.at(axes[0], position), inner)

            return self.builder.loop("0", str(axes[0].size), 1, values, body)

        state = nest(outer, here, state)
        self._keep(rows)
        return self._merge_lanes(fold, point, state)

    def _fold_last_axis(self, fold: Fold, point: Point, state: list[Value], rows: Sequence[KeptRow]) -> list[Value]:
        last, lanes = fold.axes[-1], fold.partials
        whole = last.size - last.size % lanes

        def body(position: str, values: list[Value]) -> list[Value]:
            with self.scope():
                here = point.at(last, position)
                following = self._fold_step(fold, [here], [values])[0]
                self._write_rows(rows, here)
                return following

        state = self.builder.loop("0", str(whole), lanes, state, body)
        if whole < last.size:
            rest = replace(point.at(last, None, whole), active=last.size - whole)
            with self.scope():
                following = self._fold_step(fold, [rest], [state])[0]
                self._write_rows(rows, rest)
                mask = first_lanes(last.size - whole, lanes)
                state = [self.builder.select(mask, n, o) for n, o in zip(following, state, strict=True)]
        return state

    def _merge_lanes(self, fold: Fold, point: Point, state: list[Value]) -> list[Value]:
        combine = fold.combine
        result = combine.result if combine.merge is None else combine.merge
        width = fold.partials
        while width > 1:
            width //= 2
            halves = range(width), range(width, 2 * width)
            if 2 * width == fold.partials and _is_integer_product(fold):
                halves = range(0, 2 * width, 2), range(1, 2 * width, 2)
            lower, upper = ([self.builder.shuffle(v, None, half) for v in state] for half in halves)
            joint = replace(point, lanes=width).bound((*combine.left, *combine.right), (*lower, *upper))
            with self.scope():
                state = [self.builder.spread(self.value(e, joint), width) for e in result]
        return state


def _is_integer_product(fold: Fold) -> bool:
    """Whether a fold adds up products of integers, in whatever order.

    Halves of one vector of products of bytes, added up, are what LLVM 22 takes for a sum that one ``vpdpbusd``
    computes, of which it forgets all lanes but the first. Even and odd lanes it does not take for that.
    """
    element = fold.elements[0]
    return (
        len(fold.elements) == 1
        and isinstance(element, Binary)
        and element.operation == "mul"
        and (element.type.is_integer)
    )


def _is_zero(e: Expression) -> bool:
    """Whether ``e`` is the number 0 itself, not -0."""
    return isinstance(e, Const) and e.bits == 0


def _split(values: Sequence[Value], shape: Sequence[int]) -> list[list[Value]]:
    result, start = [], 0
    for count in shape:
        result.append(list(values[start : start + count]))
        start += count
    return result


def _cast(evaluator: Evaluator, e: Cast, point: Point) -> Value:
    """A conversion; a narrowed index is computed in the narrow type, lane by lane a constant apart."""
    if e.operand.type is I64 and e.type.is_integer:
        form = evaluator.form(e.operand)
        if form.terms != ((e.operand, 1),) and not any(evaluator.varies(term, point) for term in form.opaque):
            step = form.coefficient(point.vector) if point.vector is not None else 0
            return evaluator._spread_index(evaluator.index(form, point), step, point.lanes, e.type)
    return evaluator.builder.cast(evaluator.value(e.operand, point), e.type)


def _unary(evaluator: Evaluator, e: Unary, point: Point) -> Value:
    operand = evaluator.value(e.operand, point)
    instruction = evaluator.instructions.fitting(e.operation, operand.type, operand.lanes)
    if instruction is None:
        return evaluator.builder.unary(e.operation, operand)
    written: Value = instruction.write(evaluator.builder, operand)
    return written


def _binary(evaluator: Evaluator, e: Binary, point: Point) -> Value:
    left, right = evaluator.value(e.left, point), evaluator.value(e.right, point)
    if e.operation in WORD_PRODUCTS:
        return evaluator.dot(e.operation, left, right, Value("0", I32))
    return evaluator.builder.binary(e.operation, left, right)


def _fused_multiply_add(evaluator: Evaluator, e: FusedMultiplyAdd, point: Point) -> Value:
    return evaluator.builder.fused_multiply_add(*(evaluator.value(operand, point) for operand in (e.x, e.y, e.z)))


def _variable(evaluator: Evaluator, e: Variable, point: Point) -> Value:
    assert point.variables is not None
    return point.variables[e]


def _index(evaluator: Evaluator, e: Index, point: Point) -> Value:
    form = evaluator.form(e)
    step = 1 if e.axis is point.vector else 0
    return evaluator._spread_index(evaluator.index(form, point), step, point.lanes, I64)


def _part(evaluator: Evaluator, e: Part, point: Point) -> Value:
    evaluator.prepare([e], [point])
    return evaluator.value(e, point)


_COMPUTE: Final[dict[type, Callable[[Evaluator, Any, Point], Value]]] = {
    Const: lambda evaluator, e, point: evaluator.builder.constant(e),
    Index: _index,
    Variable: _variable,
    Element: lambda evaluator, e, point: evaluator.load(e, point),
    Unary: _unary,
    Binary: _binary,
    Select: lambda evaluator, e, point: evaluator._select(e, point),
    FusedMultiplyAdd: _fused_multiply_add,
    Cast: _cast,
    Bitcast: lambda evaluator, e, point: evaluator.builder.bitcast(evaluator.value(e.operand, point), e.type),
    Part: _part,
}
