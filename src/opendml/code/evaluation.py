"""Expressions into instructions, for one point or for several points at once.

A ``Point`` says where in the iteration space an expression is evaluated: the position of every axis, the axis whose
neighbouring points fill the lanes of a vector, and the values of bound variables. What does not depend on the vector
axis comes out as a scalar. Everything computed is remembered by the expression and by the part of the point that it
depends on, in scopes that follow the control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from opendml.code.builder import Builder, Value, index_value, suffix, vector_type
from opendml.code.kept_rows import KeptRow, parts_outside_selects
from opendml.code.square_root import REGISTER_BYTES, has_estimate, square_root
from opendml.expression.ir import (
    BOOL,
    F16,
    I64,
    U16,
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
from opendml.expression.rewriting import conjuncts, walk
from opendml.kernels.affine import Affine, Dependencies, Element, affine, threshold_form
from opendml.kernels.schedule import CACHE_LINE, SHUFFLED_STRIDE, UNROLLED_OPERATIONS


class Position(NamedTuple):
    """Where an axis stands: the value ``name`` (or nothing) plus a constant."""

    name: str | None
    constant: int = 0


class Pointer(NamedTuple):
    """Where a tensor is: the value ``name`` is the address of its element ``origin``."""

    name: str
    origin: int


@dataclass(frozen=True, slots=True)
class Point:
    """A point, or ``lanes`` neighbouring points along ``vector``.

    Only the first ``active`` lanes may touch memory, and only those where ``mask`` holds may make unsafe loads;
    ``allowed`` are these, from the first one to that behind the last one, where they are known as the code is written.
    """

    positions: Mapping[Axis, Position]
    vector: Axis | None = None
    lanes: int = 1
    variables: Mapping[Variable, Value] | None = None
    active: int | None = None
    mask: Value | None = None
    allowed: tuple[int, int] | None = None

    def at(self, axis: Axis, name: str | None, constant: int = 0) -> Point:
        """The point with ``axis`` moved."""
        return replace(self, positions={**self.positions, axis: Position(name, constant)})

    def bound(self, names: Sequence[Variable], values: Sequence[Value]) -> Point:
        """The point with values for variables."""
        return replace(self, variables={**(self.variables or {}), **dict(zip(names, values, strict=True))})


class Evaluator:
    """Writes instructions for expressions through a Builder."""

    def __init__(
        self,
        builder: Builder,
        pointers: Mapping[Tensor, Pointer],
        register_bytes: int,
        unroll_steps: int,
        prefetched: Mapping[Tensor, int],
    ) -> None:
        self.builder = builder
        self.dependencies = Dependencies()
        self.unroll_steps = unroll_steps
        self.before_product: Callable[[Point], None] | None = None  # at every step of a sum of products
        self._pointers = dict(pointers)
        self.register_bytes = register_bytes
        self._prefetched = prefetched
        self._scopes: list[dict[object, Value]] = [{}]
        self._forms: dict[Expression, Affine] = {}
        self._orders: dict[Expression, list[Axis | Variable]] = {}
        self._unsafe: dict[Expression, bool] = {}
        self._scratch: dict[tuple[int, str, int], Tensor] = {}
        self._rows: dict[KeptRow, Tensor] = {}
        self._rows_depth = 0
        self._kept: dict[Expression, Element] = {}

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed inside is not known outside: for blocks that need not be executed."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    @contextmanager
    def stored_at(self, pointers: Mapping[Tensor, str]) -> Iterator[None]:
        """Inside, tensors begin at other places."""
        before = {tensor: self._pointers[tensor] for tensor in pointers}
        self._pointers |= {tensor: Pointer(name, 0) for tensor, name in pointers.items()}
        with self.scope():
            yield
        self._pointers |= before

    def place(self, tensor: Tensor, address: Affine, point: Point) -> str:
        """A pointer to an element."""
        return self._pointer(tensor, *self._index_parts(address, point))

    # Values ----------------------------------------------------------------------------------------------------------

    def value(self, e: Expression, point: Point) -> Value:
        """The value of ``e`` at ``point``."""
        key = self._key(e, point)
        found = self._known(key)
        if found is None:
            kept = self._kept.get(e) if self._kept else None
            found = self._compute(e, point) if kept is None else self.value(kept, point)
            self._scopes[-1][key] = found
        return found

    def define(self, e: Expression, point: Point, value: Value) -> None:
        """Let ``e`` at ``point`` be ``value``, which was computed elsewhere."""
        self._scopes[-1][self._key(e, point)] = value

    def _known(self, key: object) -> Value | None:
        for scope in reversed(self._scopes):
            found = scope.get(key)
            if found is not None:
                return found
        return None

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
        for scope in reversed(self._scopes):
            found = scope.get(key)
            if found is not None:
                return found, constant
        text: str | None = None
        for name, coefficient in parts:
            product = name if coefficient == 1 else self.builder.assign(f"mul nsw i64 {name}, {coefficient}")
            text = product if text is None else self.builder.assign(f"add nsw i64 {text}, {product}")
        assert text is not None
        result = self._scopes[-1][key] = index_value(text)
        return result, constant

    # Rows kept in memory ---------------------------------------------------------------------------------------------

    @contextmanager
    def keeping(self, rows: Sequence[KeptRow]) -> Iterator[None]:
        """Inside, folds write ``rows`` to memory, and what comes after them reads the rows."""
        self._rows = {row: self._scratch_row(number, row) for number, row in enumerate(rows)}
        self._rows_depth = len(self._scopes)
        yield
        self._rows, self._kept = {}, {}

    def _scratch_row(self, number: int, row: KeptRow) -> Tensor:
        """Memory on the stack, the same for all bodies of a kernel."""
        type = row.value.type
        key = (number, type.name, row.size)
        if key not in self._scratch:
            name = f"row{len(self._scratch)}"
            tensor = self._scratch[key] = Tensor(name, type, (row.size,), (1,), "temporary")
            self._pointers[tensor] = Pointer(self.builder.allocate(name, vector_type(type, 1), row.size), 0)
        return self._scratch[key]

    def _written_rows(self, fold: Fold) -> list[tuple[KeptRow, Tensor]]:
        """The rows that ``fold`` has to write: none where it is evaluated under a condition or in a loop."""
        if not self._rows or len(self._scopes) != self._rows_depth:
            return []
        return [(row, tensor) for row, tensor in self._rows.items() if row.writer == fold]

    def _write_rows(self, rows: Sequence[tuple[KeptRow, Tensor]], point: Point) -> None:
        """Lanes that do not take part are written too: there is room for them behind the row."""
        for row, tensor in rows:
            value = self.value(row.value, point)
            self.store(tensor, Affine(((row.axis, 1),), 0), value, replace(point, active=None))

    def _keep(self, rows: Sequence[tuple[KeptRow, Tensor]]) -> None:
        """From here on the rows are read."""
        for row, tensor in rows:
            for e, axis in row.readers.items():
                self._kept[e] = Element(tensor, Affine(((axis, 1),), 0), True)

    # Memory ----------------------------------------------------------------------------------------------------------

    def _pointer(self, tensor: Tensor, base: Value | None, constant: int) -> str:
        element = vector_type(tensor.type, 1)
        pointer, origin = self._pointers[tensor]
        constant -= origin
        if base is not None:
            key = ("pointer", id(tensor), base.text)
            found = next((s[key] for s in reversed(self._scopes) if key in s), None)
            if found is None:
                text = self.builder.assign(f"getelementptr {element}, ptr {pointer}, i64 {base.text}")
                found = self._scopes[-1][key] = index_value(text)
            pointer = found.text
        if constant:
            pointer = self.builder.assign(f"getelementptr {element}, ptr {pointer}, i64 {constant}")
        return pointer

    def load(self, e: Element, point: Point) -> Value:
        """The element at an address; neighbouring lanes as vectors where the step between them allows it."""
        step = e.address.coefficient(point.vector) if point.vector is not None and point.lanes > 1 else 0
        if any(self.varies(term, point) for term in e.address.opaque):
            return self._load_each_lane(e, point)
        base, constant = self._index_parts(e.address, point)
        if point.mask is not None and not e.safe:
            return self._load_where(e.tensor, base, constant, step, point)
        if step == 0 or point.lanes == 1:
            return self._load_run(e.tensor, base, constant, 1)
        lanes = point.lanes if point.active is None else point.active
        if point.active is not None and not (step == 1 and lanes > 1):
            scalars = [self._load_run(e.tensor, base, constant + lane * step, 1) for lane in range(lanes)]
            return self.builder.gathered(scalars, point.lanes)
        if point.active is not None:
            return self._load_masked(e.tensor, base, constant, point, self.active_mask(point))
        if e.tensor in self._prefetched and abs(step) <= SHUFFLED_STRIDE:
            self._prefetch(e.tensor, base, constant, step, lanes)
        if step == 1:
            return self._load_run(e.tensor, base, constant, lanes)
        if step == -1:
            run = self._load_run(e.tensor, base, constant - lanes + 1, lanes)
            return self.builder.shuffle(run, None, range(lanes - 1, -1, -1))
        if abs(step) <= SHUFFLED_STRIDE:
            return self._load_picked(e.tensor, base, constant, step, lanes)
        scalars = [self._load_run(e.tensor, base, constant + lane * step, 1) for lane in range(lanes)]
        return self.builder.gathered(scalars, lanes)

    def _prefetch(self, tensor: Tensor, base: Value | None, constant: int, step: int, lanes: int) -> None:
        """The lines of memory that the same load will want some rounds later."""
        size = tensor.type.bits // 8
        origin = self._pointers[tensor].origin  # lines are counted from here: the same in kernels at other places
        constant -= origin
        ends = sorted((constant * size, (constant + (lanes - 1) * step) * size))
        ahead = self._prefetched[tensor] if step > 0 else -self._prefetched[tensor]
        for line in range(ends[0] // CACHE_LINE, ends[1] // CACHE_LINE + 1):
            key = ("prefetched", id(tensor), base.text if base is not None else "", line)
            if self._known(key) is not None:
                continue
            self.builder.prefetch(self._pointer(tensor, base, origin + (line * CACHE_LINE + ahead) // size))
            self._scopes[-1][key] = Value("", BOOL)

    def prefetch(self, e: Element, point: Point) -> None:
        """Have the place of an element brought to the nearest cache; it need not be inside of the tensor."""
        base, constant = self._index_parts(e.address, point)
        self.builder.prefetch(self._pointer(e.tensor, base, constant))

    def _load_run(self, tensor: Tensor, base: Value | None, constant: int, lanes: int) -> Value:
        pointer = self._pointer(tensor, base, constant)
        text = self.builder.assign(
            f"load {vector_type(tensor.type, lanes)}, ptr {pointer}, align {tensor.type.bits // 8}"
        )
        return Value(text, tensor.type, lanes)

    def _load_where(self, tensor: Tensor, base: Value | None, constant: int, step: int, point: Point) -> Value:
        """Lanes ``step`` elements apart, those where the mask of the point holds; the others are undefined."""
        mask = point.mask
        assert mask is not None
        if point.active is not None:
            mask = self.builder.binary("and", mask, self.active_mask(point))
        if step == 1:
            return self._load_masked(tensor, base, constant, point, mask)
        if point.allowed is not None and 2 <= abs(step) <= SHUFFLED_STRIDE:
            return self._load_picked(tensor, base, constant, step, point.lanes, point.allowed)
        lanes, element = point.lanes, vector_type(tensor.type, 1)
        offsets = self.builder.progression(step, I64, lanes)
        start = self._pointer(tensor, base, constant)
        pointers = self.builder.assign(f"getelementptr {element}, ptr {start}, {offsets.typed}")
        return self._gather(tensor, pointers, lanes, mask)

    def _load_masked(self, tensor: Tensor, base: Value | None, constant: int, point: Point, mask: Value) -> Value:
        pointer = self._pointer(tensor, base, constant)
        result = Value("", tensor.type, point.lanes)
        kind = result.llvm_type
        name = f"llvm.masked.load.{suffix(result)}.p0"
        self.builder.declarations.add(f"declare {kind} @{name}(ptr, <{point.lanes} x i1>, {kind})")
        arguments = f"ptr align {tensor.type.bits // 8} {pointer}, {mask.typed}, {kind} poison"
        return replace(result, text=self.builder.assign(f"call {kind} @{name}({arguments})"))

    def active_mask(self, point: Point) -> Value:
        """The lanes that take part, as a constant."""
        assert point.active is not None
        bits = ", ".join("i1 true" if lane < point.active else "i1 false" for lane in range(point.lanes))
        return Value(f"<{bits}>", BOOL, point.lanes)

    def _load_picked(
        self,
        tensor: Tensor,
        base: Value | None,
        constant: int,
        step: int,
        lanes: int,
        allowed: tuple[int, int] | None = None,
    ) -> Value:
        """Every ``step``-th element: whole registers loaded and picked apart, from the first allowed to the last."""
        chunk = min(lanes, max(1, self.register_bytes // (tensor.type.bits // 8)))
        first, last = allowed or (0, lanes)
        chunks = []
        for start in range(0, lanes, chunk):
            here = range(max(first - start, 0), min(last - start, chunk))
            chunks.append(self._load_picked_chunk(tensor, base, constant + start * step, step, chunk, here))
        while len(chunks) > 1:
            pairs = zip(chunks[::2], chunks[1::2], strict=True)
            chunks = [self.builder.shuffle(a, b, range(2 * a.lanes)) for a, b in pairs]
        return chunks[0]

    def _load_picked_chunk(
        self, tensor: Tensor, base: Value | None, constant: int, step: int, lanes: int, allowed: range
    ) -> Value:
        """The lanes in ``allowed``; the others are undefined."""
        if not allowed:
            return Value("poison", tensor.type, lanes)
        wanted = {lane: lane * step for lane in allowed}
        lowest, highest = min(wanted.values()), max(wanted.values())
        width = min(lanes, _power_below(highest - lowest + 1))
        result: Value | None = None
        for start in _run_starts(highest - lowest + 1, width):
            run = self._load_run(tensor, base, constant + lowest + start, width)
            here = {
                lane: place - lowest - start
                for lane, place in wanted.items()
                if start <= place - lowest < start + width
            }
            wanted = {lane: place for lane, place in wanted.items() if lane not in here}
            if result is None:
                order = [here.get(lane, 0) for lane in range(lanes)]
                result = run if order == list(range(lanes)) else self.builder.shuffle(run, None, order)
            elif here:
                run = run if width == lanes else self.builder.shuffle(run, None, [i % width for i in range(lanes)])
                order = [lanes + here[lane] if lane in here else lane for lane in range(lanes)]
                result = self.builder.shuffle(result, run, order)
        assert result is not None
        return result

    def _load_each_lane(self, e: Element, point: Point) -> Value:
        """An address that is not affine in the vector axis: the addresses as a vector, one load a lane."""
        varying = [(t, c) for t, c in e.address.terms if not isinstance(t, Axis) and self.varies(t, point)]
        uniform = Affine(tuple(term for term in e.address.terms if term not in varying), e.address.constant)
        step = uniform.coefficient(point.vector) if point.vector is not None else 0
        base, constant = self._index_parts(uniform, point)
        offsets = self.builder.progression(step, I64, point.lanes)
        for term, coefficient in varying:
            factor = self.builder.spread(index_value(coefficient), point.lanes)
            offsets = self.builder.binary("add", offsets, self.builder.binary("mul", self.value(term, point), factor))
        start = self._pointer(e.tensor, base, constant)
        element = vector_type(e.tensor.type, 1)
        pointers = self.builder.assign(f"getelementptr {element}, ptr {start}, {offsets.typed}")
        mask = None if e.safe else point.mask
        if point.active is not None:
            active = self.active_mask(point)
            mask = active if mask is None else self.builder.binary("and", mask, active)
        if mask is not None or (e.tensor.type.bits >= 32 and self.register_bytes == 64):
            return self._gather(e.tensor, pointers, point.lanes, mask)
        scalars = []
        for lane in range(point.lanes):
            pointer = self.builder.assign(f"extractelement <{point.lanes} x ptr> {pointers}, i64 {lane}")
            text = self.builder.assign(f"load {element}, ptr {pointer}, align {e.tensor.type.bits // 8}")
            scalars.append(Value(text, e.tensor.type))
        return self.builder.gathered(scalars, point.lanes)

    def _gather(self, tensor: Tensor, pointers: str, lanes: int, mask: Value | None) -> Value:
        """One load a lane where ``mask`` holds (everywhere without one); the others are undefined."""
        result = Value("", tensor.type, lanes)
        kind, name = result.llvm_type, f"llvm.masked.gather.{suffix(result)}.v{lanes}p0"
        where = self.builder.spread(Value("true", BOOL), lanes) if mask is None else mask
        self.builder.declarations.add(f"declare {kind} @{name}(<{lanes} x ptr>, <{lanes} x i1>, {kind})")
        arguments = f"<{lanes} x ptr> align {tensor.type.bits // 8} {pointers}, {where.typed}, {kind} poison"
        return replace(result, text=self.builder.assign(f"call {kind} @{name}({arguments})"))

    def transpose(self, expressions: Sequence[Expression], tile: Axis, points: Sequence[Point]) -> None:
        """Load what lies along ``tile`` as vectors, and transpose it into the vectors of the points.

        ``points`` are as many neighbouring points of the tile as there are lanes. The loads stay known to ``value``.
        Those under a condition that may keep them from leaving their tensor are left out.
        """
        vector = points[0].vector
        for e in {x: None for root in expressions for x in _unconditional_loads(root)}:
            address = e.address
            if vector is None or address.coefficient(tile) != 1 or abs(address.coefficient(vector)) <= SHUFFLED_STRIDE:
                continue
            if any(self.varies(term, point) for term in address.opaque for point in points):
                continue
            base, constant = self._index_parts(address, points[0])
            step = address.coefficient(vector)
            rows = [self._load_run(e.tensor, base, constant + lane * step, len(points)) for lane in range(len(points))]
            for point, column in zip(points, self.builder.transposed(rows), strict=True):
                self._scopes[-1][self._key(e, point)] = column

    def store(self, tensor: Tensor, address: Affine, value: Value, point: Point, aligned: bool = False) -> None:
        """``value`` to an address; lanes along the vector axis. ``aligned``: whole registers, past the caches."""
        base, constant = self._index_parts(address, point)
        step = address.coefficient(point.vector) if point.vector is not None and point.lanes > 1 else 0
        size = tensor.type.bits // 8
        if step == 0:
            pointer = self._pointer(tensor, base, constant)
            self.builder.line(f"store {self.builder.extract(value, 0).typed}, ptr {pointer}, align {size}")
            return
        value = self.builder.spread(value, point.lanes)
        if step == -1:
            value = self.builder.shuffle(value, None, range(point.lanes - 1, -1, -1))
            step, constant = 1, constant - point.lanes + 1
        if step == 1 and point.active is not None:
            self._store_active(self._pointer(tensor, base, constant), value, point)
            return
        if step == 1:
            pointer = self._pointer(tensor, base, constant)
            how = f"align {self.register_bytes}, !nontemporal !0" if aligned else f"align {size}"
            if aligned and value.type is F16:
                value = self._as_integers(value)
            self.builder.line(f"store {value.typed}, ptr {pointer}, {how}")
            return
        for lane in range(point.lanes if point.active is None else point.active):
            pointer = self._pointer(tensor, base, constant + lane * step)
            self.builder.line(f"store {self.builder.extract(value, lane).typed}, ptr {pointer}, align {size}")

    def _as_integers(self, value: Value) -> Value:
        """Bits of float16 as LLVM stores them past the caches too. A plain bitcast it would take back.

        So they are combined with a zero that it knows nothing about: there are never so many threads.
        """
        zero = self.builder.assign("lshr i64 %threads, 48")
        narrow = Value(self.builder.assign(f"trunc i64 {zero} to i16"), U16)
        return self.builder.binary("xor", self.builder.bitcast(value, U16), self.builder.spread(narrow, value.lanes))

    def _store_active(self, pointer: str, value: Value, point: Point) -> None:
        """The lanes that take part, to neighbouring places."""
        assert point.active is not None
        size, mask = value.type.bits // 8, self.active_mask(point)
        if self.register_bytes == 64:
            name = f"llvm.masked.store.{suffix(value)}.p0"
            self.builder.declarations.add(f"declare void @{name}({value.llvm_type}, ptr, {mask.llvm_type})")
            self.builder.line(f"call void @{name}({value.typed}, ptr align {size} {pointer}, {mask.typed})")
            return
        start = 0
        while start < point.active:
            lanes = 1 << (point.active - start).bit_length() - 1
            part = self.builder.shuffle(value, None, range(start, start + lanes))
            place = self.builder.assign(f"getelementptr {vector_type(value.type, 1)}, ptr {pointer}, i64 {start}")
            self.builder.line(f"store {part.typed}, ptr {place}, align {size}")
            start += lanes

    def store_run(self, tensor: Tensor, address: Affine, value: Value, point: Point) -> None:
        """All lanes of ``value`` next to one another, from ``address`` on."""
        base, constant = self._index_parts(address, point)
        pointer = self._pointer(tensor, base, constant)
        self.builder.line(f"store {value.typed}, ptr {pointer}, align {tensor.type.bits // 8}")

    def misaligned_elements(self, tensor: Tensor, address: Affine, point: Point) -> str:
        """How many elements there are from an address to the next register boundary in memory."""
        place = self.builder.assign(f"ptrtoint ptr {self.place(tensor, address, point)} to i64")
        beyond = self.builder.assign(f"sub i64 0, {place}")
        gap = self.builder.assign(f"and i64 {beyond}, {self.register_bytes - 1}")
        return self.builder.assign(f"udiv i64 {gap}, {tensor.type.bits // 8}")

    # Selection -------------------------------------------------------------------------------------------------------

    def _select(self, e: Select, point: Point) -> Value:
        condition = self.value(e.condition, point)
        branches = (e.then, e.otherwise)
        if e.rare and not any(self._may_stray(branch, point) for branch in branches):
            return self._select_rarely(condition, e, point)
        if condition.lanes > 1 and any(map(self._is_unsafe, branches)):
            then = self.value(e.then, self._masked(point, condition))
            otherwise = self.value(e.otherwise, self._masked(point, self.builder.unary("not", condition)))
            return self.builder.select(condition, then, otherwise)
        if condition.lanes > 1 or not any(self._is_costly(branch, point) for branch in branches):
            return self.builder.select(condition, self.value(e.then, point), self.value(e.otherwise, point))

        def side(branch: Expression) -> Callable[[], list[Value]]:
            def write() -> list[Value]:
                with self.scope():
                    return [self.value(branch, point)]

            return write

        return self.builder.branch(condition, side(e.then), side(e.otherwise))[0]

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
            return isinstance(x, Part) or self._known(self._key(x, point)) is not None

        stack = (x for x in walk(e, is_known) if isinstance(x, Part) or (isinstance(x, Element) and not x.safe))
        return any(self._known(self._key(x, point)) is None for x in stack)

    def _is_unsafe(self, e: Expression) -> bool:
        """Whether ``e`` loads what may be outside of its tensor where the conditions around it do not hold."""
        found = self._unsafe.get(e)
        if found is None:
            here = isinstance(e, Element) and not e.safe
            found = self._unsafe[e] = here or any(map(self._is_unsafe, e.children))
        return found

    def _is_costly(self, e: Expression, point: Point) -> bool:
        """Whether ``e`` must not, or should not, be evaluated where it is not needed."""
        for x in walk(e, lambda x: isinstance(x, Part)):
            if isinstance(x, Part) and self._known(self._key(x, point)) is None:
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
        folds = dict.fromkeys(part.fold for e in expressions for part in parts_outside_selects(e))
        for fold in folds:
            if all(self._known(self._key(Part(fold, 0), point)) is not None for point in points):
                continue
            for point, values in zip(points, self.folded(fold, points), strict=True):
                for number, value in enumerate(values):
                    part = Part(fold, number)
                    self._scopes[-1][self._key(part, point)] = value

    def folded(self, fold: Fold, points: Sequence[Point]) -> list[list[Value]]:
        """All values of a fold at every one of ``points``."""
        self._prepare_inner_folds(fold, points)
        if fold.lanes > 1:
            return [self._folded_with_lanes(fold, point) for point in points]
        states = []
        for point in points:
            wide = any(self.varies(e, point) for e in fold.children)
            initial = [self.value(e, point) for e in fold.initial]
            states.append([self.builder.spread(v, point.lanes) for v in initial] if wide else initial)
        unrolled = self._unrolled_axes(fold, len(points))
        return self._fold_axes(fold, list(fold.axes), unrolled, list(points), states)

    def _prepare_inner_folds(self, fold: Fold, points: Sequence[Point]) -> None:
        """Folds inside of ``fold`` that are the same at all of its points, before it begins."""
        axes = frozenset(fold.axes)
        inner = [part for e in fold.children for part in parts_outside_selects(e)]
        self.prepare([part for part in inner if not axes & self.dependencies.of(part)], points)

    def _unrolled_axes(self, fold: Fold, copies: int) -> set[Axis]:
        steps = self.unroll_steps * 2 // max(copies, 1) if copies > 1 else self.unroll_steps
        operations = sum(1 for e in (*fold.elements, *fold.combine.result) for _ in walk(e))
        budget, result = max(1, min(steps, UNROLLED_OPERATIONS // operations)), set()
        for axis in reversed(fold.axes):
            if axis.size > budget:
                break
            budget //= max(axis.size, 1)
            result.add(axis)
        return result

    def _fold_axes(
        self, fold: Fold, axes: list[Axis], unrolled: set[Axis], points: list[Point], states: list[list[Value]]
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
        return _split(self.builder.loop("0", str(axis.size), 1, flat, body), shape)

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
            elif allowed == (0, point.lanes):
                result += self._combined(fold, [point], [state])
            elif allowed == (0, 0):
                result.append(state)
            else:
                masked = replace(self._masked(point, condition), allowed=allowed)
                (following,) = self._combined(fold, [masked], [state])
                result.append([self.builder.select(condition, n, o) for n, o in zip(following, state, strict=True)])
        return result

    def _allowed_lanes(self, condition: Expression, point: Point) -> tuple[int, int] | None:
        """The lanes where a condition holds, as a range, if the point stands where that is known."""
        if point.vector is None or point.mask is not None or point.active is not None:
            return None
        first, last = 0, point.lanes
        for part in conjuncts(condition):
            form = threshold_form(part)
            if form is None or any(not isinstance(t, Axis) or point.positions[t].name for t, _ in form.terms):
                return None
            start = form.constant + sum(c * point.positions[t].constant for t, c in form.terms if isinstance(t, Axis))
            slope = form.coefficient(point.vector)
            holding = [lane for lane in range(first, last) if start + lane * slope >= 0]
            first, last = (holding[0], holding[-1] + 1) if holding else (0, 0)
        return first, last

    def _combined(self, fold: Fold, points: list[Point], states: list[list[Value]]) -> list[list[Value]]:
        self.prepare(fold.elements, points)
        if fold.contract and self.before_product is not None:
            self.before_product(points[0])
        return [self._combined_at(fold, p, s) for p, s in zip(points, states, strict=True)]

    def _combined_at(self, fold: Fold, point: Point, state: list[Value]) -> list[Value]:
        lanes = max(v.lanes for v in state)
        if fold.contract:
            product = fold.elements[0]
            assert isinstance(product, Binary)
            left, right = self.value(product.left, point), self.value(product.right, point)
            return [self.builder.fused_multiply_add(left, right, state[0])]
        elements = [self.value(e, point) for e in fold.elements]
        joint = point.bound((*fold.combine.left, *fold.combine.right), (*state, *elements))
        return [self.builder.spread(self.value(e, joint), lanes) for e in fold.combine.result]

    # Folds in lanes --------------------------------------------------------------------------------------------------

    def _folded_with_lanes(self, fold: Fold, point: Point) -> list[Value]:
        """A fold whose lanes take the place of those of the point; where it varies between these, one after another."""
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
        lanes = fold.lanes
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

    def _fold_last_axis(
        self, fold: Fold, point: Point, state: list[Value], rows: Sequence[tuple[KeptRow, Tensor]]
    ) -> list[Value]:
        last, lanes = fold.axes[-1], fold.lanes
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
                mask = self.active_mask(rest)
                state = [self.builder.select(mask, n, o) for n, o in zip(following, state, strict=True)]
        return state

    def _merge_lanes(self, fold: Fold, point: Point, state: list[Value]) -> list[Value]:
        combine = fold.combine
        result = combine.result if combine.merge is None else combine.merge
        width = fold.lanes
        while width > 1:
            width //= 2
            lower = [self.builder.shuffle(v, None, range(width)) for v in state]
            upper = [self.builder.shuffle(v, None, range(width, 2 * width)) for v in state]
            joint = replace(point, lanes=width).bound((*combine.left, *combine.right), (*lower, *upper))
            with self.scope():
                state = [self.builder.spread(self.value(e, joint), width) for e in result]
        return state


def _unconditional_loads(root: Expression) -> Iterator[Element]:
    """The elements in ``root`` that may be loaded whatever its conditions say."""
    stack, seen = [root], set()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, Element):
            yield e
        if isinstance(e, Select):
            branches = (x for branch in (e.then, e.otherwise) for x in walk(branch))
            yield from (x for x in branches if isinstance(x, Element) and x.safe)
        stack.extend((e.condition,) if isinstance(e, Select) else e.children)


def _split(values: Sequence[Value], shape: Sequence[int]) -> list[list[Value]]:
    result, start = [], 0
    for count in shape:
        result.append(list(values[start : start + count]))
        start += count
    return result


def _power_below(number: int) -> int:
    return 1 << (number.bit_length() - 1)


def _run_starts(span: int, lanes: int) -> list[int]:
    """Where runs of ``lanes`` elements begin that together cover ``span`` elements without leaving them."""
    starts = list(range(0, span - lanes + 1, lanes))
    return starts if starts[-1] + lanes == span else [*starts, span - lanes]


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
    if e.operation == "sqrt" and evaluator.register_bytes == REGISTER_BYTES and has_estimate(operand):
        return square_root(evaluator.builder, operand)
    return evaluator.builder.unary(e.operation, operand)


def _binary(evaluator: Evaluator, e: Binary, point: Point) -> Value:
    return evaluator.builder.binary(e.operation, evaluator.value(e.left, point), evaluator.value(e.right, point))


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
