"""Expressions into instructions of one thread, at one point.

Everything is a scalar. What is computed is remembered by the expression, in scopes that follow the control flow.
Float16 travels as its bits, since many devices have no type for it: operations widen them to float32 and round once,
which is what the type's own operations give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opendml.expression.affine import Affine, Dependencies, Element, is_unsafe
from opendml.expression.element_types import BOOL, F16, F32, F64, U8, U16, ElementType
from opendml.expression.ir import (
    COMPARISONS,
    Axis,
    Binary,
    Bitcast,
    Cast,
    Combine,
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
from opendml.expression.rewriting import Contains, inner_first, step_limits
from opendml.llvm.builder import Builder
from opendml.llvm.values import LLVM_TYPES, Value, index_value

Name = Axis | Variable
"""What a point binds."""


def stored_type(type: ElementType) -> ElementType:
    """The type of an element's value in a thread."""
    return U16 if type is F16 else type


class _Known:
    """Values by expression, in scopes."""

    def __init__(self) -> None:
        self._scopes: list[dict[Expression, Value]] = [{}]

    def __contains__(self, e: object) -> bool:
        return any(e in scope for scope in self._scopes)

    def __iter__(self) -> Iterator[Expression]:
        return iter(dict.fromkeys(e for scope in self._scopes for e in scope))

    def __getitem__(self, e: Expression) -> Value:
        for scope in reversed(self._scopes):
            found = scope.get(e)
            if found is not None:
                return found
        raise KeyError(e)

    def __setitem__(self, e: Expression, value: Value) -> None:
        self._scopes[-1][e] = value

    @contextmanager
    def inner(self, keeps: Callable[[Expression], bool] | None = None) -> Iterator[None]:
        """What is put inside is not known outside; nor the other way round what ``keeps`` is false of."""
        outer = self._scopes
        kept = outer if keeps is None else [{e: self[e] for e in self if keeps(e)}]
        self._scopes = [*kept, {}]
        try:
            yield
        finally:
            self._scopes = outer


class Evaluator:
    """Writes instructions for expressions through a Builder.

    ``pointer`` gives the address of a tensor's element of address 0, and how many elements its own begin behind that.
    ``divides_exactly``: whether division and square root of float32 are correctly rounded; else they are float64's,
    rounded again, which is the same number.
    """

    def __init__(
        self, builder: Builder, pointer: Callable[[Tensor], tuple[str, int]], *, divides_exactly: bool
    ) -> None:
        self.builder = builder
        self.allocations: list[str] = []
        self._pointer = pointer
        self._divides_exactly = divides_exactly
        self._known = _Known()
        self._bound: dict[Name, Value] = {}
        self._dependencies = Dependencies()
        self._is_unsafe = Contains(is_unsafe)
        self._is_costly = Contains(lambda e: isinstance(e, Part) or is_unsafe(e))

    # Points ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def at(self, bound: Mapping[Name, Value]) -> Iterator[None]:
        """Inside, axes and variables have these values; what is computed there is not known outside."""
        outer = self._bound
        self._bound = {**outer, **bound}
        again = frozenset(name for name in bound if name in outer)
        keeps = (lambda e: again.isdisjoint(self._dependencies.of(e))) if again else None
        with self._known.inner(keeps):
            yield
        self._bound = outer

    def loop(
        self, axis: Axis, carried: Sequence[Value], body: Callable[[list[Value]], Sequence[Value]], count: str = ""
    ) -> list[Value]:
        """All points of an axis in order, ``count`` of them at most: the carried values after them."""

        def step(position: str, values: list[Value]) -> Sequence[Value]:
            with self.at({axis: index_value(position)}):
                return body(values)

        return self.builder.loop("0", count or str(axis.size), 1, carried, step)

    def when(
        self, condition: Value, then: Callable[[], Sequence[Value]], otherwise: Callable[[], Sequence[Value]] = list
    ) -> list[Value]:
        """The values of the branch that is taken; what is computed in one is not known behind it."""

        def scoped(branch: Callable[[], Sequence[Value]]) -> Callable[[], Sequence[Value]]:
            def write() -> Sequence[Value]:
                with self.at({}):
                    return branch()

            return write

        return self.builder.branch(condition, scoped(then), scoped(otherwise))

    # Values ----------------------------------------------------------------------------------------------------------

    def value(self, root: Expression) -> Value:
        """The value of an expression at the point."""
        known = self._known
        for e in inner_first(root, known, self._parts):
            known[e] = _COMPUTE[type(e)](self, e)
        return known[root]

    def values(self, expressions: Iterable[Expression]) -> list[Value]:
        """The values of expressions."""
        return [self.value(e) for e in expressions]

    def _parts(self, e: Expression) -> Sequence[Expression]:
        """What an expression is computed of, whatever its conditions say."""
        if isinstance(e, Part):
            return ()
        if isinstance(e, Select) and not self._is_plain(e):
            return (e.condition,)
        return e.children

    def _is_plain(self, e: Select) -> bool:
        """Whether both branches may be computed, and are little."""
        return not (self._is_costly(e.then) or self._is_costly(e.otherwise))

    def prepare(
        self, expressions: Iterable[Expression], changing: frozenset[Name], *, is_guarded: bool = False
    ) -> None:
        """Compute the folds in expressions that are the same however ``changing`` changes, before it does."""
        stack, seen = list(expressions), set[Expression]()
        while stack:
            e = stack.pop()
            if e in seen or e in self._known:
                continue
            seen.add(e)
            if isinstance(e, Part) and changing.isdisjoint(self._dependencies.of(e)):
                free = self._dependencies.of(e)
                if all(name in self._bound for name in free) and not (is_guarded and self._is_unsafe(e)):
                    self.value(e)
                continue
            stack += (e.condition,) if isinstance(e, Select) else e.children

    # Memory ----------------------------------------------------------------------------------------------------------

    def place(self, tensor: Tensor, address: Affine) -> str:
        """A pointer to an element."""
        name, start = self._pointer(tensor)
        builder, constant = self.builder, address.constant + start
        terms: list[Value] = []
        for term, coefficient in address.terms:
            value = self.bound(term) if isinstance(term, Axis) else self.value(term)
            terms.append(value if coefficient == 1 else builder.binary("mul", value, index_value(coefficient)))
        terms += [index_value(constant)] if constant or not terms else []
        total = terms[0]
        for value in terms[1:]:
            total = builder.binary("add", total, value)
        element = LLVM_TYPES[stored_type(tensor.type).name]
        return builder.assign(f"getelementptr {element}, ptr addrspace(1) {name}, i64 {total.text}")

    def load(self, e: Element) -> Value:
        """The element of a tensor."""
        type = stored_type(e.tensor.type)
        place = self.place(e.tensor, e.address)
        text = self.builder.assign(f"load {LLVM_TYPES[type.name]}, ptr addrspace(1) {place}, align {type.bits // 8}")
        return Value(text, type)

    def store(self, tensor: Tensor, address: Affine, value: Value) -> None:
        """A value to an element of a tensor."""
        place = self.place(tensor, address)
        self.builder.line(f"store {value.typed}, ptr addrspace(1) {place}, align {value.type.bits // 8}")

    # Float16 ---------------------------------------------------------------------------------------------------------

    def widened(self, value: Value) -> Value:
        """The bits of a float16 as float32."""
        return Value(self.builder.assign(f"call float @widened({value.typed})"), F32)

    def narrowed(self, value: Value) -> Value:
        """A float32 rounded to the bits of a float16."""
        return Value(self.builder.assign(f"call i16 @narrowed({value.typed})"), U16)

    # Operations ------------------------------------------------------------------------------------------------------

    def unary(self, e: Unary) -> Value:
        """One of the grammar's unary operations."""
        operand, builder = self.value(e.operand), self.builder
        if e.operand.type is F16:
            mask = {"neg": ("xor", -(1 << 15)), "abs": ("and", (1 << 15) - 1)}.get(e.operation)
            if mask is not None:
                return builder.binary(mask[0], operand, Value(str(mask[1]), U16))
            return self.narrowed(self._float32_unary(e.operation, self.widened(operand)))
        if e.operand.type is F32:
            return self._float32_unary(e.operation, operand)
        return builder.unary(e.operation, operand)

    def _float32_unary(self, operation: str, operand: Value) -> Value:
        if operation == "sqrt" and not self._divides_exactly:
            return self.builder.cast(self.builder.unary(operation, self.builder.cast(operand, F64)), F32)
        return self.builder.unary(operation, operand)

    def binary(self, e: Binary) -> Value:
        """One of the grammar's binary operations."""
        left, right, builder = self.value(e.left), self.value(e.right), self.builder
        if e.left.type is F16:
            wide = self.widened(left), self.widened(right)
            if e.operation in COMPARISONS:
                return builder.binary(e.operation, *wide)
            if e.operation in ("min", "max"):
                is_left = builder.binary("lt" if e.operation == "min" else "gt", *wide)
                return builder.select(is_left, left, right)
            return self.narrowed(self._float32_binary(e.operation, *wide))
        if e.left.type is F32:
            return self._float32_binary(e.operation, left, right)
        return builder.binary(e.operation, left, right)

    def _float32_binary(self, operation: str, left: Value, right: Value) -> Value:
        builder = self.builder
        if operation == "div" and not self._divides_exactly:
            return builder.cast(builder.binary("div", builder.cast(left, F64), builder.cast(right, F64)), F32)
        return builder.binary(operation, left, right)

    def cast(self, e: Cast) -> Value:
        """One of the grammar's conversions."""
        operand, builder = self.value(e.operand), self.builder
        if e.operand.type is F16:
            return builder.cast(self.widened(operand), e.type)
        if e.type is not F16:
            return builder.cast(operand, e.type)
        # What float32 rounds of an integer is beyond the range of float16 anyway; definitions round float64 themselves.
        return self.narrowed(builder.cast(operand, F32))

    def select(self, e: Select) -> Value:
        """Only the branch taken, unless both are little and load nothing that the condition guards."""
        condition = self.value(e.condition)
        if self._is_plain(e):
            return self.builder.select(condition, self.value(e.then), self.value(e.otherwise))
        return self.when(condition, lambda: [self.value(e.then)], lambda: [self.value(e.otherwise)])[0]

    def bound(self, name: Name) -> Value:
        """What an axis or a variable is at the point."""
        return self._bound[name]

    # Folds -----------------------------------------------------------------------------------------------------------

    def part(self, e: Part) -> Value:
        """One of the values of a fold, all of which are computed."""
        for number, value in enumerate(self._folded(e.fold)):
            self._known[Part(e.fold, number)] = value
        return self._known[e]

    def _folded(self, fold: Fold) -> list[Value]:
        initial = self.values(fold.initial)
        children = [*fold.elements, *(() if fold.where is None else (fold.where,))]
        self.prepare(children, frozenset(fold.axes), is_guarded=fold.where is not None)
        return self._fold_partials(fold, initial) if fold.partials > 1 else self._fold_axes(fold, fold.axes, initial)

    def _fold_axes(self, fold: Fold, axes: Sequence[Axis], state: list[Value]) -> list[Value]:
        """All points of the axes, in row-major order."""
        if not axes:
            return self._step(fold, state)
        axis, *rest = axes
        return self.loop(axis, state, lambda values: self._fold_axes(fold, rest, values), self._step_count(fold, axis))

    def _step_count(self, fold: Fold, axis: Axis) -> str:
        """As many steps along an axis as may be taken."""
        count = step_limits(fold).get(axis)
        if count is None:
            return ""
        return self.builder.binary("min", self.value(count), index_value(axis.size)).text

    def _step(self, fold: Fold, state: list[Value]) -> list[Value]:
        """One point of a fold."""
        if fold.where is None:
            return self._combined(fold, state)
        return self.when(self.value(fold.where), lambda: self._combined(fold, state), lambda: state)

    def _combined(self, fold: Fold, state: list[Value]) -> list[Value]:
        product = fold.elements[0]
        if fold.contract and isinstance(product, Binary) and product.operation == "mul":
            left, right = self.value(product.left), self.value(product.right)
            return [self.builder.fused_multiply_add(left, right, state[0])]
        elements = self.values(fold.elements)
        return self._joined(fold.combine, fold.combine.result, state, elements)

    def _joined(
        self, combine: Combine, result: Sequence[Expression], left: Sequence[Value], right: Sequence[Value]
    ) -> list[Value]:
        with self.at(dict(zip((*combine.left, *combine.right), (*left, *right), strict=True))):
            return self.values(result)

    # A fold's partial results are states that never meet before the end, so a thread makes them one after another.

    def _fold_partials(self, fold: Fold, initial: list[Value]) -> list[Value]:
        *outer, last = fold.axes
        places = [self._array(value, fold.partials) for value in initial]

        def along_last(lane: str, state: list[Value]) -> list[Value]:
            def step(position: str, values: list[Value]) -> Sequence[Value]:
                with self.at({last: index_value(position)}):
                    return self._step(fold, values)

            return self.builder.loop(lane, str(last.size), fold.partials, state, step)

        def nest(axes: Sequence[Axis], lane: str, state: list[Value]) -> list[Value]:
            if not axes:
                return along_last(lane, state)
            return self.loop(axes[0], state, lambda values: nest(axes[1:], lane, values))

        def whole_lane(lane: str, _: list[Value]) -> Sequence[Value]:
            with self.at({}):
                self._keep(places, lane, nest(outer, lane, initial))
            return ()

        self.builder.loop("0", str(fold.partials), 1, (), whole_lane)
        return self._merged(fold, places)

    def _merged(self, fold: Fold, places: Sequence[tuple[str, ElementType, int]]) -> list[Value]:
        """The states of the upper half of the lanes into those of the lower half, until one is left."""
        combine, width = fold.combine, fold.partials
        result = combine.result if combine.merge is None else combine.merge
        while width > 1:
            width //= 2

            def merge(lane: str, _: list[Value], width: int = width) -> Sequence[Value]:
                upper = self.builder.assign(f"add nsw i64 {lane}, {width}")
                self._keep(
                    places, lane, self._joined(combine, result, self._kept(places, lane), self._kept(places, upper))
                )
                return ()

            self.builder.loop("0", str(width), 1, (), merge)
        return self._kept(places, "0")

    def _array(self, like: Value, count: int) -> tuple[str, ElementType, int]:
        """Memory of the thread for ``count`` values."""
        name = f"%{self.builder.fresh('lanes')}"
        self.allocations.append(f"  {name} = alloca [{count} x {_memory_type(like.type)}], align 8")
        return name, like.type, count

    def _element(self, place: tuple[str, ElementType, int], lane: str) -> str:
        name, type, count = place
        return self.builder.assign(f"getelementptr [{count} x {_memory_type(type)}], ptr {name}, i64 0, i64 {lane}")

    def _keep(self, places: Sequence[tuple[str, ElementType, int]], lane: str, values: Sequence[Value]) -> None:
        for place, value in zip(places, values, strict=True):
            if value.type is BOOL:
                value = Value(self.builder.assign(f"zext i1 {value.text} to i8"), U8)
            self.builder.line(f"store {value.typed}, ptr {self._element(place, lane)}")

    def _kept(self, places: Sequence[tuple[str, ElementType, int]], lane: str) -> list[Value]:
        found = []
        for place in places:
            text = self.builder.assign(f"load {_memory_type(place[1])}, ptr {self._element(place, lane)}")
            if place[1] is BOOL:
                text = self.builder.assign(f"icmp ne i8 {text}, 0")
            found.append(Value(text, place[1]))
        return found


def _memory_type(type: ElementType) -> str:
    return "i8" if type is BOOL else LLVM_TYPES[type.name]


def _constant(evaluator: Evaluator, e: Const) -> Value:
    return evaluator.builder.constant(Const(e.bits, U16) if e.type is F16 else e)


def _bitcast(evaluator: Evaluator, e: Bitcast) -> Value:
    return evaluator.builder.bitcast(evaluator.value(e.operand), stored_type(e.type))


_COMPUTE: Final[dict[type, Callable[[Evaluator, Any], Value]]] = {
    Const: _constant,
    Index: lambda evaluator, e: evaluator.bound(e.axis),
    Variable: lambda evaluator, e: evaluator.bound(e),
    Element: Evaluator.load,
    Unary: Evaluator.unary,
    Binary: Evaluator.binary,
    Select: Evaluator.select,
    FusedMultiplyAdd: lambda evaluator, e: evaluator.builder.fused_multiply_add(*evaluator.values((e.x, e.y, e.z))),
    Cast: Evaluator.cast,
    Bitcast: _bitcast,
    Part: Evaluator.part,
}
