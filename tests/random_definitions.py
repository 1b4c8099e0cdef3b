"""Random definitions of the grammar, wilder than those of any operator: ``definitions()`` is a hypothesis strategy.

Loads walk their tensors forwards, backwards, with steps and through index tensors, inside by construction, by clamping
or under a condition; conditions, selects, folds of several values with and without partial results nest in one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from opendml.expression.element_types import BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, ElementType
from opendml.expression.folds import extreme_with_position, fold, lowest, partials_for, sum_of_products
from opendml.expression.ir import (
    Axis,
    Expression,
    Tensor,
    Variable,
    binary,
    cast,
    clamp_index,
    constant,
    in_range,
    index,
    indices,
    load,
    select,
    temporary,
    unary,
)
from opendml.expression.statements import Compute, Definition, Order, Scan, Scatter, Statement, Store

STORED = (F16, F32, F64, I8, U8, I16, I32, U32, I64)
COMPUTED = (F32, I32, U16, I64, F64)
LENGTHS = (1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 65, 130)


@dataclass
class _Writer:
    """Draws expressions; what they load from is collected in ``inputs``."""

    draw: st.DrawFn
    inputs: list[Tensor] = field(default_factory=list)
    folds: int = 0

    def choice(self, *options: object) -> object:
        return self.draw(st.sampled_from(options))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    # Values

    def value(self, type: ElementType, axes: Sequence[Axis], variables: Sequence[Variable], depth: int) -> Expression:
        """Any expression of a type."""
        if depth <= 0:
            return self.leaf(type, axes, variables)
        kind = self.choice(
            "leaf", "binary", "binary", "unary", "select", "select", "cast", "fold", "guarded", "guarded"
        )
        if kind == "binary":
            names = ("add", "sub", "mul") if type.is_float else ("add", "sub", "mul", "min", "max", "and", "xor")
            left, right = (self.value(type, axes, variables, depth - 1) for _ in range(2))
            return binary(str(self.choice(*names)), left, right)
        if kind == "unary":
            return unary(str(self.choice("neg", "abs")), self.value(type, axes, variables, depth - 1))
        if kind == "select":
            then, otherwise = (self.value(type, axes, variables, depth - 1) for _ in range(2))
            return select(self.condition(axes, variables, depth - 1), then, otherwise)
        if kind == "cast":
            other = next(t for t in (self.choice(*COMPUTED),) if isinstance(t, ElementType))
            return cast(self.value(other, axes, variables, depth - 1), type)
        if kind == "fold" and self.folds < 2:
            return self.folded(type, axes, variables, depth)
        if kind == "guarded":
            return self.guarded_load(type, axes, variables)
        return self.leaf(type, axes, variables)

    def leaf(self, type: ElementType, axes: Sequence[Axis], variables: Sequence[Variable]) -> Expression:
        kind = self.choice("constant", "index", "load", "load", "load", "variable")
        if kind == "constant":
            return constant(self.integer(0, 100), type)
        if kind == "index" and axes:
            return cast(self.position(axes), type)
        if kind == "variable" and variables:
            return cast(self.draw(st.sampled_from(variables)), type)
        return cast(self.load(axes), type)

    def position(self, axes: Sequence[Axis]) -> Expression:
        """An affine index expression of any range."""
        result: Expression = constant(self.integer(-4, 4), I64)
        for axis in axes:
            if self.integer(0, 1):
                result = result + index(axis) * self.integer(-3, 3)
        return result

    def condition(self, axes: Sequence[Axis], variables: Sequence[Variable], depth: int) -> Expression:
        kind = self.choice("position", "position", "range", "value", "both", "not")
        if kind == "position" or depth <= 0:
            comparison = str(self.choice("lt", "le", "gt", "ge", "eq", "ne"))
            return binary(comparison, self.position(axes), self.integer(-5, 20))
        if kind == "range":
            return in_range(self.position(axes), self.integer(1, 30))
        if kind == "value":
            left, right = (self.value(F32, axes, variables, depth - 1) for _ in range(2))
            return left < right
        if kind == "not":
            return ~self.condition(axes, variables, depth - 1)
        name = str(self.choice("and", "or"))
        return binary(name, *(self.condition(axes, variables, depth - 1) for _ in range(2)))

    # Loads

    def load(self, axes: Sequence[Axis]) -> Expression:
        """A load that is always inside its tensor."""
        coordinates, sizes = [], []
        for _ in range(self.integer(1, 3)):
            coordinate, size = self.inside(axes)
            coordinates.append(coordinate)
            sizes.append(size)
        return load(self.tensor(sizes), coordinates)

    def inside(self, axes: Sequence[Axis]) -> tuple[Expression, int]:
        """A coordinate and a size that it never leaves."""
        kind = self.choice("affine", "affine", "affine", "one", "clamp", "remainder", "gather")
        if not axes or kind == "one":
            return constant(0, I64), self.integer(1, 3)
        chosen = self.draw(st.sampled_from(axes))
        if kind == "affine":
            step, first = self.integer(1, 5), self.integer(0, 2)
            size = first + (chosen.size - 1) * step + 1
            forward = index(chosen) * step + first
            return (forward, size) if self.integer(0, 2) else (size - 1 - forward, size)
        size = self.integer(1, 20)
        if kind == "clamp":
            return clamp_index(self.position(axes), size), size
        if kind == "remainder":
            return (index(chosen) * self.integer(1, 5)) % size, size
        chooser = self.tensor([chosen.size], I32)
        return clamp_index(cast(load(chooser, [index(chosen)]), I64), size), size

    def guarded_load(self, type: ElementType, axes: Sequence[Axis], variables: Sequence[Variable]) -> Expression:
        """A load that a condition keeps inside its tensor."""
        positions = [self.position(axes) for _ in range(self.integer(1, 2))]
        sizes = [self.integer(1, 40) for _ in positions]
        inside: Expression = constant(True, BOOL)
        for position, size in zip(positions, sizes, strict=True):
            inside = inside & in_range(position, size)
        loaded = cast(load(self.tensor(sizes), positions), type)
        return select(inside, loaded, self.leaf(type, axes, variables))

    def tensor(self, sizes: Sequence[int], type: ElementType | None = None) -> Tensor:
        """A new input with strides of any sign."""
        chosen = type or next(t for t in (self.choice(*STORED),) if isinstance(t, ElementType))
        strides, step, offset = [0] * len(sizes), self.integer(1, 2), self.integer(0, 3)
        for d in self.draw(st.permutations(range(len(sizes)))):
            if self.integer(0, 7) == 0:
                continue
            strides[d] = step
            step = step * sizes[d] + self.integer(0, 1)
            if self.integer(0, 4) == 0:
                offset += strides[d] * (sizes[d] - 1)
                strides[d] = -strides[d]
        result = Tensor(f"x{len(self.inputs)}", chosen, tuple(sizes), tuple(strides), "input", offset)
        self.inputs.append(result)
        return result

    # Folds

    def folded(self, type: ElementType, axes: Sequence[Axis], variables: Sequence[Variable], depth: int) -> Expression:
        self.folds += 1
        over = [Axis(f"r{self.folds}{n}", self.integer(1, 4)) for n in range(self.integer(0, 1))]
        over.append(Axis(f"r{self.folds}", self.draw(st.sampled_from((1, 2, 3, 7, 16, 17, 33, 70)))))
        inner = [*axes, *over]
        element = self.value(type, inner, variables, depth - 1)
        where = self.condition(inner, variables, 1) if self.integer(0, 2) == 0 else None
        kind = self.choice("sum", "extreme", "largest", "product")
        partials = partials_for(over[-1]) if self.integer(0, 1) else 1
        if kind == "product" and type.is_float:
            # Small whole numbers, so that the interpreter's way around a fused operation is exact.
            left, right = (cast(cast(self.load(inner), I8) & 15, type) for _ in range(2))
            return sum_of_products(over, left, right, where)
        if kind == "extreme":
            *outer, last = over
            start = (lowest(type), constant(0, U32))
            largest, position = extreme_with_position("gt", [last], element, cast(index(last), U32), start)
            both = largest + cast(position, type)
            return fold(lambda a, b: a + b, outer, constant(0, type), both) if outer else both
        if kind == "largest":
            return fold(lambda a, b: select(b > a, b, a), over, constant(0, type), element, where, partials)
        return fold(lambda a, b: a + b, over, constant(1, type), element, where, partials)


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """One or two statements, the second one reading what the first one wrote."""
    writer = _Writer(draw)
    sizes = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(0, 3)))] + [draw(st.sampled_from(LENGTHS))]
    if draw(st.booleans()):
        sizes = draw(st.permutations(sizes))
    axes = tuple(Axis("ijklm"[d], n) for d, n in enumerate(sizes))
    type = draw(st.sampled_from(COMPUTED))
    statements: list[Statement] = []
    temporaries: list[Tensor] = []
    if draw(st.booleans()):
        middle = temporary("t", type, sizes)
        temporaries.append(middle)
        statements.append(_statement(writer, axes, [_packed_store(writer, middle, axes)], whole=True))
        axes = tuple(Axis("abcde"[d], n) for d, n in enumerate(sizes))
        read = load(
            middle, [n - 1 - i if draw(st.booleans()) else i for i, n in zip(indices(axes), sizes, strict=True)]
        )
        target, place = _output(writer, axes, 0)
        value = binary("sub", writer.value(type, axes, (), 2), read)
        statements.append(Compute(axes, (Store(target, place, cast(value, target.type)),)))
        outputs = [target]
    else:
        writer.folds = 0
        outputs = []
        stores = []
        for number in range(draw(st.integers(1, 2))):
            target, place = _output(writer, axes, number)
            outputs.append(target)
            stores.append(Store(target, place, cast(writer.value(type, axes, (), 4), target.type)))
        statements.append(_statement(writer, axes, stores))
    return Definition(tuple(writer.inputs), tuple(outputs), tuple(statements), tuple(temporaries))


def _packed_store(writer: _Writer, target: Tensor, axes: Sequence[Axis]) -> Store:
    return Store(target, indices(axes), writer.value(target.type, axes, (), 3))


def _output(writer: _Writer, axes: Sequence[Axis], number: int) -> tuple[Tensor, tuple[Expression, ...]]:
    """A tensor that has a place of its own for every point: embedded, reversed, permuted."""
    sizes, place = [], []
    for axis in axes:
        step = writer.integer(1, 3) if writer.integer(0, 2) == 0 else 1
        first = writer.integer(0, 2)
        size = first + (axis.size - 1) * step + 1
        forward = index(axis) * step + first
        sizes.append(size)
        place.append(forward if writer.integer(0, 3) else size - 1 - forward)
    strides, step = [0] * len(sizes), 1
    order = range(len(sizes) - 1, -1, -1) if writer.integer(0, 1) else writer.draw(st.permutations(range(len(sizes))))
    for d in order:
        strides[d] = step
        step = step * sizes[d]
    chosen = next(t for t in (writer.choice(*STORED),) if isinstance(t, ElementType))
    # float64 would have to be rounded twice on its way to float16.
    chosen = F32 if chosen is F16 else chosen
    return Tensor(f"y{number}", chosen, tuple(sizes), tuple(strides), "output"), tuple(place)


def _statement(writer: _Writer, axes: tuple[Axis, ...], stores: Sequence[Store], whole: bool = False) -> Statement:
    """The stores as a Compute, or with a running value as a Scan, at the first points of an Order, or (unless
    ``whole``) one of them as a Scatter."""
    kind = writer.choice("compute", "compute", "compute", "scan", "order", "scatter")
    if kind == "order" and len(axes) > 1:
        rank, chosen = writer.draw(st.sampled_from(axes)), Variable("chosen", I64)
        others, along = tuple(axis for axis in axes if axis is not rank), Axis("o", rank.size + writer.integer(0, 20))
        key = writer.value(I32, (*others, along), (), 2)
        added = [Store(s.tensor, s.coordinates, binary("add", s.value, cast(chosen, s.value.type))) for s in stores]
        return Order(others, along, key, rank, chosen, tuple(added))
    if kind == "scan" and len(axes) > 1:
        along = writer.draw(st.sampled_from(axes))
        others = tuple(axis for axis in axes if axis is not along)
        state = Variable("state", I32)
        step = binary("add", binary("mul", state, 3), writer.value(I32, axes, (state,), 2))
        added = [Store(s.tensor, s.coordinates, binary("add", s.value, cast(state, s.value.type))) for s in stores]
        return Scan(others, along, (state,), (writer.value(I32, others, (), 1),), (step,), tuple(added))
    if kind == "scatter" and len(stores) == 1 and not whole:
        return Scatter(axes, writer.condition(axes, (), 1), stores[0])
    return Compute(axes, tuple(stores))
