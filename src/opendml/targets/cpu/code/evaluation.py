"""Expressions into instructions, for one point or for several points at once.

A ``Point`` says where in the iteration space an expression is evaluated: the position of every axis, the axis whose
neighbouring points fill the lanes of a vector, and the values of bound variables. What does not depend on the vector
axis comes out as a scalar. Everything computed is remembered by the expression and by the part of the point that it
depends on, in scopes that follow the control flow. How Selects and folds are computed the nest's plans say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from opendml.expression.affine import Affine, Dependencies, Element, affine, is_unsafe
from opendml.expression.element_types import BOOL, F32, I32, I64
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
from opendml.expression.rewriting import Contains
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value, index_value
from opendml.loops.alignment import ALIGNMENT
from opendml.loops.instructions import Instructions
from opendml.loops.plans import AS_THEY_STAND, Folding, KeptRow, Plan
from opendml.targets.cpu.code.choice_code import ChoiceWriter
from opendml.targets.cpu.code.fold_code import FoldWriter
from opendml.targets.cpu.code.memory import Memory, Place, Pointer, Scopes, first_lanes, sum_of_products
from opendml.targets.cpu.code.point import Point
from opendml.targets.cpu.instructions.registers import by_registers
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.words_in_memory import BYTES, MemoryWord, bytes_in_memory

RECURSION: Final = 8
"""How deep an expression is computed by calls for its parts, which is the quickest way."""

_WAITING: Final = "waiting"
"""Where a value is that was put off, in scopes: behind this, and before what it is known by otherwise."""

OVERLAPPING: Final = 2
"""How far apart words that overlap begin at most, in bytes: further ones are loaded byte by byte."""


class Evaluator:
    """Writes instructions for expressions through a Builder."""

    def __init__(
        self,
        builder: Builder,
        pointers: Mapping[Tensor, Pointer],
        target: CpuTarget,
        prefetched: Mapping[Tensor, int],
        prefetched_in_folds: Mapping[Fold, Mapping[Tensor, int]],
        instructions: Instructions,
    ) -> None:
        self.builder = builder
        self.instructions = instructions
        self.dependencies = Dependencies()
        self.target = target
        self.plan = AS_THEY_STAND
        self._scopes = Scopes(lambda: builder.block)
        self.memory = Memory(builder, self._scopes, pointers, target, prefetched, instructions)
        self._forms: dict[Expression, Affine] = {}
        self._orders: dict[Expression, tuple[list[Axis], list[Variable]]] = {}
        self.is_unsafe: Callable[[Expression], bool] = Contains(is_unsafe)
        """Whether an expression loads what may be outside of its tensor where the conditions around it do not hold."""
        self._depth = 0
        self._kept: dict[Expression, Element] = {}
        self._choices = ChoiceWriter(self)
        self._folds = FoldWriter(self, prefetched_in_folds)

    @contextmanager
    def following(self, plan: Plan) -> Iterator[None]:
        """Inside, expressions are computed as a plan says."""
        before, self.plan = self.plan, plan
        yield
        self.plan = before

    def scope(self, *, in_line: bool = False) -> AbstractContextManager[None]:
        """What is computed inside is not known outside: for blocks that need not be executed, or ``in_line``, where
        places are known still."""
        return self._scopes.inner(in_line=in_line)

    # Values ----------------------------------------------------------------------------------------------------------

    def value(self, e: Expression, point: Point) -> Value:
        """The value of ``e`` at ``point``."""
        if type(e) is Const:
            return self.builder.constant(e)
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
        stack = [(root, at, self._key(root, at), False)]
        while stack:
            e, point, key, has_parts = stack.pop()
            if self._scopes.find(key) is not None:
                continue
            missing = [] if has_parts else self._missing(e, point)
            if missing:
                stack.append((e, point, key, True))
                stack += reversed(missing)
            else:
                self._put(key, e, point)
        return self.value(root, at)

    def _missing(self, e: Expression, point: Point) -> list[tuple[Expression, Point, object, bool]]:
        """The parts of ``e`` that have not been computed, with what they are known by."""
        missing = []
        for part, there in self._parts(e, point):
            if type(part) is not Const and not self._is_known(part, key := self._key(part, there)):
                missing.append((part, there, key, False))
        return missing

    def _parts(self, e: Expression, point: Point) -> list[tuple[Expression, Point]]:
        """What is computed for ``e`` whatever conditions say, and where, in order."""
        if e in self._kept or isinstance(e, Part | Const | Index | Variable):
            return []
        if isinstance(e, Select):
            choice = self.plan.choices.get(e)
            if choice is None:
                return [(part, point) for part in e.children]
            return [] if choice.how == "known lanes" else [(e.condition, point)]
        if isinstance(e, Element):
            terms = e.address.opaque
        else:
            source = e.operand if isinstance(e, Cast) and e.type.is_integer else e
            form = self.form(source) if source.type is I64 else None
            if form is None or form.terms == ((source, 1),) or any(self.varies(term, point) for term in form.opaque):
                return [(part, point) for part in e.children]
            terms = form.opaque
        scalar = point._replace(vector=None, lanes=1)
        return [(term, point if self.varies(term, point) else scalar) for term in terms]

    def known(self, key: object, write: Callable[[], Value]) -> Value:
        """What ``write`` gives, from where it has been written on."""
        found = self._scopes.find(key)
        return self._scopes.put(key, write()) if found is None else found

    def define(self, e: Expression, point: Point, value: Value) -> None:
        """Let ``e`` at ``point`` be ``value``, which was computed elsewhere."""
        self._scopes.put(self._key(e, point), value)

    def put_off(self, e: Part, point: Point, value: Value) -> None:
        """The same, where the value is to wait in the thread's own memory until it is wanted: what LLVM keeps in
        registers during the folds that come next, it may take from their sums."""
        size = value.lanes * value.type.bits // 8
        memory = self.builder.allocate(self.builder.fresh("waiting"), size)
        self.builder.line(f"store volatile {value.typed}, ptr {memory}, align {ALIGNMENT}")
        self._scopes.put((_WAITING, self._key(e, point)), value._replace(text=memory))

    def is_known(self, e: Expression, point: Point) -> bool:
        """Whether ``e`` has been computed at ``point``."""
        return self._is_known(e, self._key(e, point))

    def _is_known(self, e: Expression, key: object) -> bool:
        if self._scopes.find(key) is not None:
            return True
        return isinstance(e, Part) and self._scopes.find((_WAITING, key)) is not None

    def waiting(self, e: Part, point: Point) -> Value | None:
        """The value of what was put off."""
        found = self._scopes.find((_WAITING, self._key(e, point)))
        if found is None:
            return None
        text = f"load volatile {found.llvm_type}, ptr {found.text}, align {ALIGNMENT}"
        return found._replace(text=self.builder.assign(text))

    def _key(self, e: Expression, point: Point) -> object:
        found = self._orders.get(e)
        axes, variables = self._order(e) if found is None else found
        positions = point.positions
        bindings: tuple[object, ...] = tuple([positions[axis] for axis in axes])
        if variables:
            assert point.variables is not None
            bindings += tuple([point.variables[variable].text for variable in variables])
        lanes = (point.lanes, point.active) if point.vector in axes else None
        everywhere = (e, bindings, lanes, None)
        if point.mask is None or (isinstance(e, Part) and self._is_known(e, everywhere)):
            return everywhere
        return (e, bindings, lanes, point.mask.text)

    def _order(self, e: Expression) -> tuple[list[Axis], list[Variable]]:
        """What an expression depends on, in an order that is always the same."""
        needed = self.dependencies.of(e)
        axes = [item for item in needed if isinstance(item, Axis)]
        found = self._orders[e] = axes, [item for item in needed if isinstance(item, Variable)]
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
        """A product of words, plus ``c``: by an instruction of whole registers, if there is one."""
        return self._by_instruction(operation, partial(self.builder.dot, operation), a, b, c)

    def multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """``a * b + c`` with one rounding: in the register of ``c``, if there is an instruction for that."""
        return self._by_instruction("multiply-add", self.builder.fused_multiply_add, a, b, c)

    def _by_instruction(self, operation: str, plain: Callable[..., Value], *operands: Value) -> Value:
        """What an instruction of whole registers makes of operands of as many lanes, or plain operations do."""
        operands = (*self.builder.aligned(*operands),)
        instruction = self.instructions.fitting(operation, operands[0].type, operands[0].lanes)
        return plain(*operands) if instruction is None else by_registers(self.builder, instruction, *operands)

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
        parts, constant = self._products(form, point)
        return self._sum(parts), constant

    def _products(self, form: Affine, point: Point) -> tuple[list[tuple[str, int]], int]:
        """Of the part that is only known when the code runs, each value times a number; and the constant rest."""
        constant = form.constant
        parts: list[tuple[str, int]] = []
        for term, coefficient in form.terms:
            if isinstance(term, Axis):
                position = point.positions[term]
                constant += coefficient * position.constant
                if position.name is not None:
                    parts.append((position.name, coefficient))
            else:
                parts.append((self.value(term, point._replace(vector=None, lanes=1)).text, coefficient))
        return parts, constant

    def _sum(self, parts: Sequence[tuple[str, int]]) -> Value | None:
        """Of such products, if there are any."""
        if not parts:
            return None
        key = ("index", tuple(parts))
        found = self._scopes.find(key)
        if found is None:
            found = self._scopes.put_in_block(key, index_value(sum_of_products(self.builder, parts)))
        return found

    def place(self, tensor: Tensor, address: Affine, point: Point) -> Place:
        """An element of a tensor: for the first lane."""
        parts, constant = self._products(address, point)
        start, parts = self.memory.outside(tensor, parts)
        return Place(tensor, self._sum(parts), constant, start)

    # Rows kept in memory ---------------------------------------------------------------------------------------------

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Inside, what comes after the folds that write rows reads these."""
        yield
        self._kept = {}

    def write_rows(self, rows: Sequence[KeptRow], point: Point) -> None:
        """Lanes that do not take part are written too: there is room for them behind the row."""
        for row in rows:
            value = self.value(row.value, point)
            self.store(row.memory, Affine(((row.axis, 1),), 0), value, point._replace(active=None))

    def keep(self, rows: Sequence[KeptRow]) -> None:
        """From here on the rows are read."""
        for row in rows:
            for e, axis in row.readers.items():
                self._kept[e] = Element(row.memory, Affine(((axis, 1),), 0), True)

    # Memory ----------------------------------------------------------------------------------------------------------

    def load(self, e: Element, point: Point) -> Value:
        """The element at an address; neighbouring lanes as vectors where the step between them allows it."""
        if any(self.varies(term, point) for term in e.address.opaque):
            return self._load_each_lane(e, point)
        place, step = self.place(e.tensor, e.address, point), self.step(e.address, point)
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

    def load_words(self, word: MemoryWord, point: Point) -> Value | None:
        """Words that follow one another, or overlap, in memory at a point; None: they do neither."""
        first = word.first
        if not first.safe or not first.address.is_pure or point.mask is not None:
            return None
        step, place = self.step(first.address, point), self.place(first.tensor, first.address, point)
        if word.count == BYTES and step in (0, BYTES) and point.active is None:
            return self.memory.load_words(place, 1 if step == 0 else point.lanes)
        if 0 < step <= OVERLAPPING and point.active != 1:
            return self.memory.load_overlapping(place, step, word.count, point.lanes, point.active or point.lanes)
        return None

    def step(self, address: Affine, point: Point) -> int:
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
        offsets = self.builder.progression(self.step(uniform, point), I64, point.lanes)
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

    def transpose_loads(self, loads: Sequence[Element], axis: Axis, points: Sequence[Point]) -> None:
        """Load what lies along an axis, forwards or backwards, as vectors, and transpose it into those of the points.

        ``points`` are as many neighbouring points of the axis as there are lanes. The loads stay known to ``value``.
        """
        vector, count = points[0].vector, len(points)
        assert vector is not None
        for e in loads:
            points = sorted(points, key=lambda p: p.positions[axis].constant * e.address.coefficient(axis))
            place, step = self.place(e.tensor, e.address, points[0]), e.address.coefficient(vector)
            rows = [self.memory.load_apart(place.moved(lane * step), 1, count) for lane in range(count)]
            for point, column in zip(points, self.builder.transposed(rows), strict=True):
                self.define(e, point, column)

    def store(self, tensor: Tensor, address: Affine, value: Value, point: Point, aligned: bool = False) -> None:
        """``value`` to an address; lanes along the vector axis. ``aligned``: whole registers, past the caches."""
        place, step = self.place(tensor, address, point), self.step(address, point)
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

    def reduce(self, foldings: Iterable[Folding], points: Sequence[Point]) -> None:
        """Evaluate folds that are not known yet, each for all points together."""
        self._folds.reduce(foldings, points)


def _cast(evaluator: Evaluator, e: Cast, point: Point) -> Value:
    """A conversion; a narrowed index is computed in the narrow type, lane by lane a constant apart."""
    if e.operand.type is I64 and e.type.is_integer:
        form = evaluator.form(e.operand)
        if form.terms != ((e.operand, 1),) and not any(evaluator.varies(term, point) for term in form.opaque):
            step = form.coefficient(point.vector) if point.vector is not None else 0
            return evaluator._spread_index(evaluator.index(form, point), step, point.lanes, e.type)
    rounded = rounded_to_integer(e)
    if rounded is not None:
        number, offset = evaluator.value(rounded.number, point), offset_of(evaluator, rounded, point)
        return evaluator.builder.rounded_integer(number, offset, e.type)
    inner = rounded_to_integer(e.operand) if e.type is F32 else None
    if inner is not None and inner.offset == 0:
        return evaluator.builder.rounded_number(evaluator.value(inner.number, point), 0, e.operand.type)
    if e.type is F32 and isinstance(e.operand, Cast) and _is_narrowed_whole(e.operand):
        return evaluator.builder.whole_number(evaluator.value(e.operand.operand, point), e.operand.type)
    return evaluator.builder.cast(evaluator.value(e.operand, point), e.type)


class Rounded(NamedTuple):
    """A number that is rounded to nearest even, and what is added to it then: a whole number, or an integer of up to 16
    bits that is read."""

    number: Expression
    offset: int | Expression


def rounded_to_integer(e: Expression) -> Rounded | None:
    """What an integer of 8 or 16 bits is made of, if that is a float32 that is rounded, and moved by a whole number."""
    if not isinstance(e, Cast) or not e.type.is_integer or e.type.bits not in (8, 16) or e.operand.type is not F32:
        return None
    moved, whole = e.operand, e.operand
    offset: int | Expression | None = 0
    if isinstance(moved, Binary) and moved.operation == "add":
        whole, offset = moved.left, _whole_number(moved.right)
    if offset is None or not isinstance(whole, Unary) or whole.operation != "round_even":
        return None
    return Rounded(whole.operand, offset)


def _whole_number(e: Expression) -> int | Expression | None:
    """A float32 that is a whole number, if it is known, or widened from an integer of 8 or 16 bits: that integer."""
    if isinstance(e, Const):
        number = float(e.value)
        return int(number) if number.is_integer() and abs(number) < 1 << 16 else None
    is_wide = isinstance(e, Cast) and e.operand.type.is_integer and e.operand.type.bits in (8, 16)
    return e.operand if isinstance(e, Cast) and is_wide else None


def offset_of(evaluator: Evaluator, rounded: Rounded, point: Point) -> int | Value:
    """The number that is added, read if it is not known."""
    return rounded.offset if isinstance(rounded.offset, int) else evaluator.value(rounded.offset, point)


def _difference(evaluator: Evaluator, e: Binary, point: Point) -> Value | None:
    """The float32 of a rounded integer less what was added to it: the number that was rounded, in bounds."""
    wide, offset = e.left, e.right
    rounded = rounded_to_integer(wide.operand) if isinstance(wide, Cast) and wide.type is F32 else None
    if rounded is None or _whole_number(offset) != rounded.offset:
        return None
    assert isinstance(wide, Cast)
    number, moved = evaluator.value(rounded.number, point), offset_of(evaluator, rounded, point)
    return evaluator.builder.rounded_number(number, moved, wide.operand.type)


def _is_narrowed_whole(e: Cast) -> bool:
    """Whether a whole number of float32 becomes an integer of 8 or 16 bits."""
    return e.operand.type is F32 and e.type.is_integer and e.type.bits < 32 and _is_whole(e.operand)


def _is_whole(e: Expression) -> bool:
    """Whether a float32 has no digits behind its point, or is infinite or NaN: sums of whole numbers are, rounded or
    not."""
    if isinstance(e, Const):
        return float(e.value).is_integer()
    if isinstance(e, Binary):
        return e.operation in ("add", "sub") and _is_whole(e.left) and _is_whole(e.right)
    if isinstance(e, Cast):
        return e.operand.type.is_integer
    return isinstance(e, Unary) and e.operation in ("round_even", "floor", "ceil", "trunc")


def _unary(evaluator: Evaluator, e: Unary, point: Point) -> Value:
    operand = evaluator.value(e.operand, point)
    instruction = evaluator.instructions.fitting(e.operation, operand.type, operand.lanes)
    if instruction is None:
        return evaluator.builder.unary(e.operation, operand)
    written: Value = instruction.write(evaluator.builder, operand)
    return written


def _binary(evaluator: Evaluator, e: Binary, point: Point) -> Value:
    word = bytes_in_memory(e) if e.operation == "or" else None
    loaded = None if word is None else evaluator.load_words(word, point)
    if loaded is not None:
        return loaded
    difference = _difference(evaluator, e, point) if e.operation == "sub" else None
    if difference is not None:
        return difference
    left, right = evaluator.value(e.left, point), evaluator.value(e.right, point)
    if e.operation in WORD_PRODUCTS:
        return evaluator.dot(e.operation, left, right, Value("0", I32))
    return evaluator.builder.binary(e.operation, left, right)


def _fused_multiply_add(evaluator: Evaluator, e: FusedMultiplyAdd, point: Point) -> Value:
    x, y, z = evaluator.value(e.x, point), evaluator.value(e.y, point), evaluator.value(e.z, point)
    return evaluator.builder.fused_multiply_add(x, y, z)


def _variable(evaluator: Evaluator, e: Variable, point: Point) -> Value:
    assert point.variables is not None
    return point.variables[e]


def _index(evaluator: Evaluator, e: Index, point: Point) -> Value:
    form = evaluator.form(e)
    step = 1 if e.axis is point.vector else 0
    return evaluator._spread_index(evaluator.index(form, point), step, point.lanes, I64)


def _part(evaluator: Evaluator, e: Part, point: Point) -> Value:
    found = evaluator.waiting(e, point)
    if found is not None:
        return found
    evaluator.reduce((evaluator.plan.foldings[e.fold],), [point])
    return evaluator.value(e, point)


_COMPUTE: Final[dict[type, Callable[[Evaluator, Any, Point], Value]]] = {
    Const: lambda evaluator, e, point: evaluator.builder.constant(e),
    Index: _index,
    Variable: _variable,
    Element: lambda evaluator, e, point: evaluator.load(e, point),
    Unary: _unary,
    Binary: _binary,
    Select: lambda evaluator, e, point: evaluator._choices.select(e, point),
    FusedMultiplyAdd: _fused_multiply_add,
    Cast: _cast,
    Bitcast: lambda evaluator, e, point: evaluator.builder.bitcast(evaluator.value(e.operand, point), e.type),
    Part: _part,
}
