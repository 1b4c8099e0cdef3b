"""The grammar in which every operator is defined, whole.

    expression = Const | Index(axis) | Load(tensor, coordinates)
               | Unary(operation, x) | Binary(operation, x, y) | Select(condition, x, y)
               | FusedMultiplyAdd(x, y, z) | Cast(x, type) | Bitcast(x, type)
               | Variable                                          -- a value bound by Fold, Scan or Order
               | Part(Fold(axes, initial, elements, combine), i)   -- ordered reduction, several values at once
    statement  = Compute(axes, stores)        -- for all axes: store; all points independent
               | Scan(axes, along, ...)       -- a running state along one axis
               | Scatter(axes, where, store)  -- stores at data-dependent places, in order, the last one wins
               | Order(axes, along, key, ...) -- the first points along an axis in the order of a key
               | Repeat(axis, statements)     -- statements in order, again and again
               | Each(axes, statements, own)  -- statements in order, for all axes; all points independent
    definition = Definition(inputs, outputs, temporaries, statements)

Expressions are immutable values, compared by structure; their hash is computed once, so sharing is cheap. All
coordinates are 64-bit integers. ``Select`` evaluates only the branch taken, which is how a load is guarded.
Arithmetic is exact about types: integers wrap, floating point is IEEE 754 with one rounding an operation, and
there is no ``max`` of floats: the definitions say with ``Select`` what happens to NaN and to -0.
"""

from __future__ import annotations

import itertools
import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Number = int | float | bool


@dataclass(frozen=True, slots=True)
class ElementType:
    """The type of a value: ``name`` as LLVM-like short form, ``bits`` wide, ``kind`` float, int, uint or bool."""

    name: str
    bits: int
    kind: Literal["float", "int", "uint", "bool"]

    @property
    def is_float(self) -> bool:
        """Whether values are IEEE 754 floating-point numbers."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether values are signed or unsigned integers (``bool`` is neither)."""
        return self.kind in ("int", "uint")

    def __repr__(self) -> str:
        return self.name


F16: Final = ElementType("f16", 16, "float")
F32: Final = ElementType("f32", 32, "float")
F64: Final = ElementType("f64", 64, "float")
I8: Final = ElementType("i8", 8, "int")
I16: Final = ElementType("i16", 16, "int")
I32: Final = ElementType("i32", 32, "int")
I64: Final = ElementType("i64", 64, "int")
U8: Final = ElementType("u8", 8, "uint")
U16: Final = ElementType("u16", 16, "uint")
U32: Final = ElementType("u32", 32, "uint")
U64: Final = ElementType("u64", 64, "uint")
BOOL: Final = ElementType("bool", 1, "bool")

ELEMENT_TYPES: Final = {t.name: t for t in (F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, BOOL)}

_FLOAT_FORMATS: Final = {16: "<e", 32: "<f", 64: "<d"}

ARITHMETIC: Final = ("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr")
WORD_PRODUCTS: Final = ("dot2", "dot4")
COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
REPR_LENGTH: Final = 2000
"""Characters of an expression that Python's ``repr`` shows, about: with all that it shares it may be endless."""

UNARY: Final = ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "round_even", "not")


class Axis:
    """A loop: a name for printing and a size. Two axes are equal only if they are the same object."""

    __slots__ = ("name", "size")

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def __repr__(self) -> str:
        return f"{self.name}:{self.size}"


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A buffer as an operator sees it: element type, sizes and strides (in elements, any sign), by identity.

    ``extent`` is the number of elements that the buffer must hold behind ``offset``; ``role`` tells who owns it.
    """

    name: str
    type: ElementType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    role: Literal["input", "output", "temporary"]
    offset: int = 0

    @property
    def extent(self) -> int:
        """Elements from the start of the buffer to one past the last element that the sizes and strides reach."""
        return self.offset + 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True) if s > 0)

    def __repr__(self) -> str:
        return self.name


class Expression:
    """Base of all expressions; ``type`` is the type of its value. Python's operators build expressions."""

    __slots__ = ("_bounds", "_equal", "_form", "_hash", "_inner", "type")
    type: ElementType
    _hash: int
    _equal: Expression
    _form: Any  # what ``expression.affine`` has found out
    _bounds: Any
    _inner: tuple[Expression, ...]  # what ``rewriting.walk`` has found inside

    def _key(self) -> tuple[object, ...]:
        """What tells expressions of one kind apart, beside their ``children``."""
        raise TypeError(type(self).__name__)

    @property
    def children(self) -> tuple[Expression, ...]:
        """The expressions this one is made of, bound ones included."""
        return ()

    def rebuilt(self, rewrite: Callable[[Expression], Expression]) -> Expression:
        """The expression with its parts rewritten; for leaves, and kinds that a later stage adds to the grammar."""
        return self

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            pass
        stack: list[Expression] = [self]
        while stack:
            e = stack[-1]
            children = e.children
            missing = [child for child in children if not hasattr(child, "_hash")]
            if missing:
                stack += missing
            else:
                e._hash = hash((type(e).__name__, *e._key(), *[child._hash for child in children]))
                stack.pop()
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or hash(self) != hash(other):
            return False
        assert isinstance(other, Expression)
        if not self.children:
            return self._key() == other._key()
        # What was found equal once is remembered: expressions share parts, and along all paths to them there may be
        # exponentially many comparisons.
        found = _equal_pairs(self, other)
        for first, second in found or ():
            second._equal = first
        return found is not None

    def _representative(self) -> Expression:
        """One of the expressions that this one was found equal to, the same for all of them.

        Links lead to lower addresses only, so there is no cycle even if several threads make them.
        """
        found = self
        while hasattr(found, "_equal"):
            found = found._equal
        if found is not self:
            self._equal = found
        return found

    def __add__(self, other: Expression | Number) -> Expression:
        return binary("add", self, other)

    def __radd__(self, other: Number) -> Expression:
        return binary("add", constant(other, self.type), self)

    def __sub__(self, other: Expression | Number) -> Expression:
        return binary("sub", self, other)

    def __rsub__(self, other: Number) -> Expression:
        return binary("sub", constant(other, self.type), self)

    def __mul__(self, other: Expression | Number) -> Expression:
        return binary("mul", self, other)

    def __rmul__(self, other: Number) -> Expression:
        return binary("mul", constant(other, self.type), self)

    def __truediv__(self, other: Expression | Number) -> Expression:
        return binary("div", self, other)

    def __rtruediv__(self, other: Number) -> Expression:
        return binary("div", constant(other, self.type), self)

    def __floordiv__(self, other: Expression | Number) -> Expression:
        """Integer division rounding toward zero, as in C (definitions use it on non-negative values)."""
        return binary("div", self, other)

    def __mod__(self, other: Expression | Number) -> Expression:
        """Remainder with the sign of the dividend, as in C."""
        return binary("rem", self, other)

    def __and__(self, other: Expression | Number) -> Expression:
        return binary("and", self, other)

    def __or__(self, other: Expression | Number) -> Expression:
        return binary("or", self, other)

    def __xor__(self, other: Expression | Number) -> Expression:
        return binary("xor", self, other)

    def __lshift__(self, other: Expression | Number) -> Expression:
        return binary("shl", self, other)

    def __rshift__(self, other: Expression | Number) -> Expression:
        return binary("shr", self, other)

    def __lt__(self, other: Expression | Number) -> Expression:
        return binary("lt", self, other)

    def __le__(self, other: Expression | Number) -> Expression:
        return binary("le", self, other)

    def __gt__(self, other: Expression | Number) -> Expression:
        return binary("gt", self, other)

    def __ge__(self, other: Expression | Number) -> Expression:
        return binary("ge", self, other)

    def __neg__(self) -> Expression:
        return unary("neg", self)

    def __invert__(self) -> Expression:
        return unary("not", self)

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value; use select()")

    def equals(self, other: Expression | Number) -> Expression:
        """The comparison ``==`` as an expression (Python's ``==`` compares structures)."""
        return binary("eq", self, other)

    def differs(self, other: Expression | Number) -> Expression:
        """The comparison ``!=`` as an expression; ``x.differs(x)`` is true for NaN only."""
        return binary("ne", self, other)

    def __repr__(self) -> str:
        from opendml.expression.printer import format_expression

        return format_expression(self, limit=REPR_LENGTH)


def _equal_pairs(one: Expression, other: Expression) -> list[tuple[Expression, Expression]] | None:
    """The pairs of different objects that two expressions being equal takes to be equal, lower addresses first; None if
    they are not equal."""
    pairs: list[tuple[Expression, Expression]] = []
    joined: dict[int, Expression] = {}  # what is taken to be equal so far
    stack = [(one, other)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if type(a) is not type(b) or a._hash != b._hash:
            return None
        a, b = a._representative(), b._representative()
        while id(a) in joined:
            a = joined[id(a)]
        while id(b) in joined:
            b = joined[id(b)]
        if a is b:
            continue
        if a._key() != b._key():
            return None
        children = a.children
        if children:
            first, second = (a, b) if id(a) < id(b) else (b, a)
            joined[id(second)] = first
            pairs.append((first, second))
            stack += zip(children, b.children, strict=True)
    return pairs


class Const(Expression):
    """A constant, kept as the bits of its type so that NaN and -0 are values like others."""

    __slots__ = ("bits",)

    def __init__(self, bits: int, type: ElementType) -> None:
        self.bits = bits
        self.type = type

    def _key(self) -> tuple[object, ...]:
        return (self.bits, self.type.name)

    @property
    def value(self) -> int | float | bool:
        """The constant as a Python number."""
        kind, width = self.type.kind, self.type.bits
        if kind == "float":
            number: float = struct.unpack(_FLOAT_FORMATS[width], self.bits.to_bytes(width // 8, "little"))[0]
            return number
        if kind == "bool":
            return bool(self.bits)
        return self.bits - (1 << width) if kind == "int" and self.bits >> (width - 1) else self.bits


class Index(Expression):
    """The current coordinate of an axis, a 64-bit integer in ``range(axis.size)``."""

    __slots__ = ("axis",)

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.type = I64

    def _key(self) -> tuple[object, ...]:
        return (id(self.axis),)


class Load(Expression):
    """The element of ``tensor`` at ``coordinates``, one 64-bit integer a dimension, each inside the sizes."""

    __slots__ = ("coordinates", "tensor")

    def __init__(self, tensor: Tensor, coordinates: tuple[Expression, ...]) -> None:
        if len(coordinates) != len(tensor.sizes):
            raise ValueError(f"{tensor.name} has {len(tensor.sizes)} dimensions, not {len(coordinates)}")
        self.tensor = tensor
        self.coordinates = coordinates
        self.type = tensor.type

    def _key(self) -> tuple[object, ...]:
        return (id(self.tensor),)

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.coordinates


class Unary(Expression):
    """One of ``UNARY`` applied to one operand, in the operand's type."""

    __slots__ = ("operand", "operation")

    def __init__(self, operation: str, operand: Expression) -> None:
        self.operation = operation
        self.operand = operand
        self.type = operand.type

    def _key(self) -> tuple[object, ...]:
        return (self.operation,)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)


class Binary(Expression):
    """One of ``ARITHMETIC``, ``COMPARISONS`` or ``WORD_PRODUCTS`` applied to two operands of one type.

    Division of integers truncates; by 0 it gives the quotient 0 and the remainder ``left``; the lowest integer by -1
    wraps. Shifts count in unsigned numbers; by the width or more they leave 0, or the sign where that is shifted in.
    ``dot2`` and ``dot4`` (``WORD_PRODUCTS``) take I32 as words of 2 signed numbers of 16 bits, and of 4 of 8 bits,
    unsigned on the left and signed on the right, and give the sum of their products; targets lay sums of products out
    for them.
    """

    __slots__ = ("left", "operation", "right")

    def __init__(self, operation: str, left: Expression, right: Expression) -> None:
        if left.type is not right.type:
            raise TypeError(f"{operation} of {left.type} and {right.type}")
        self.operation = operation
        self.left = left
        self.right = right
        self.type = BOOL if operation in COMPARISONS else left.type

    def _key(self) -> tuple[object, ...]:
        return (self.operation,)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.left, self.right)


class Select(Expression):
    """``then`` where the condition holds, else ``otherwise``; only the branch taken is evaluated.

    ``rare`` says that the condition seldom holds. It changes no value: code for vectors then jumps over ``then`` where
    the condition holds in no lane.
    """

    __slots__ = ("condition", "otherwise", "rare", "then")

    def __init__(self, condition: Expression, then: Expression, otherwise: Expression, rare: bool = False) -> None:
        if condition.type is not BOOL or then.type is not otherwise.type:
            raise TypeError(f"select({condition.type}, {then.type}, {otherwise.type})")
        self.condition = condition
        self.then = then
        self.otherwise = otherwise
        self.rare = rare
        self.type = then.type

    def _key(self) -> tuple[object, ...]:
        return (self.rare,)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.condition, self.then, self.otherwise)


class FusedMultiplyAdd(Expression):
    """``x * y + z`` with one rounding, as IEEE 754 defines it; all three F32 or F64."""

    __slots__ = ("x", "y", "z")

    def __init__(self, x: Expression, y: Expression, z: Expression) -> None:
        if not (x.type is y.type is z.type and x.type in (F32, F64)):
            raise TypeError(f"fused multiply-add of {x.type}, {y.type} and {z.type}")
        self.x = x
        self.y = y
        self.z = z
        self.type = x.type

    def _key(self) -> tuple[object, ...]:
        return ()

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.x, self.y, self.z)


class Cast(Expression):
    """The value converted to another type.

    Float to float rounds to nearest even; float to integer truncates and saturates, NaN gives 0; integer to integer
    wraps; integer to float rounds to nearest even; bool gives 0 or 1; a number casts to bool as ``!= 0``.
    """

    __slots__ = ("operand",)

    def __init__(self, operand: Expression, type: ElementType) -> None:
        self.operand = operand
        self.type = type

    def _key(self) -> tuple[object, ...]:
        return (self.type.name,)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)


class Bitcast(Expression):
    """The same bits read as another type of the same width."""

    __slots__ = ("operand",)

    def __init__(self, operand: Expression, type: ElementType) -> None:
        if operand.type.bits != type.bits:
            raise TypeError(f"bitcast of {operand.type} to {type}")
        self.operand = operand
        self.type = type

    def _key(self) -> tuple[object, ...]:
        return (self.type.name,)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)


_variable_numbers: Iterator[int] = itertools.count()


class Variable(Expression):
    """A value bound by the Fold, Scan or Order around it; two variables are equal only if they are the same object."""

    __slots__ = ("name",)

    def __init__(self, name: str, type: ElementType) -> None:
        self.name = name
        self.type = type

    def _key(self) -> tuple[object, ...]:
        return (id(self),)


@dataclass(frozen=True, slots=True, eq=False)
class Combine:
    """How a Fold joins two partial results: ``result`` in terms of the variables ``left`` and ``right``.

    ``left`` always comes before ``right`` in the order of the fold. ``result`` must be associative for the fold to
    have ``lanes``; ``merge``, where given, joins partial results whose points interleave (it may not rely on which
    comes first), ``result`` itself is used where it is None.
    """

    left: tuple[Variable, ...]
    right: tuple[Variable, ...]
    result: tuple[Expression, ...]
    merge: tuple[Expression, ...] | None = None


class Fold(Expression):
    """An ordered reduction over ``axes``, of one or several values at once; ``Part`` picks one of them.

    For every point of the axes in row-major order, where ``where`` holds:
    ``state = combine(state, elements)``, beginning with ``initial``.

    With ``lanes = L > 1`` (a power of two) there are L states; the point with coordinate ``i`` on the last axis
    belongs to state ``i % L``, each state is folded in order, and in the end the upper half of the states is merged
    into the lower half until one is left (state ``j`` with ``j + L/2``, then ``L/4`` ...). So the order of a sum is
    the same for every target and every number of threads, and vectorises.

    ``contract`` says that the fold is a sum of products (elements are ``Binary("mul", x, y)``, one value) whose
    multiplication and addition are one fused operation with a single rounding. Sums of integers are exact modulo their
    width, so a target may take their products in any order and with any instruction.
    """

    __slots__ = ("axes", "combine", "contract", "elements", "initial", "lanes", "where")

    def __init__(
        self,
        axes: tuple[Axis, ...],
        initial: tuple[Expression, ...],
        elements: tuple[Expression, ...],
        combine: Combine,
        where: Expression | None = None,
        lanes: int = 1,
        contract: bool = False,
    ) -> None:
        self.axes = axes
        self.initial = initial
        self.elements = elements
        self.combine = combine
        self.where = where
        self.lanes = lanes
        self.contract = contract
        self.type = elements[0].type

    def _key(self) -> tuple[object, ...]:
        axes = tuple(map(id, self.axes))
        return (axes, id(self.combine), self.where is None, self.lanes, self.contract)

    @property
    def children(self) -> tuple[Expression, ...]:
        guard = () if self.where is None else (self.where,)
        return (*self.initial, *self.elements, *guard)


class Part(Expression):
    """One of the values of a Fold."""

    __slots__ = ("fold", "number")

    def __init__(self, fold: Fold, number: int) -> None:
        self.fold = fold
        self.number = number
        self.type = fold.elements[number].type

    def _key(self) -> tuple[object, ...]:
        return (self.number,)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.fold,)


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """``tensor[coordinates] = value``."""

    tensor: Tensor
    coordinates: tuple[Expression, ...]
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    """All ``stores`` for every point of ``axes``; every point writes elements of its own, in any order."""

    axes: tuple[Axis, ...]
    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """A running state along one axis, for every point of ``axes``.

    ``state`` begins as ``initial``; at every point of ``along``, in order, the stores are done (their values may use
    the state before the point, the variables ``state``, and the expressions ``step``, the state after it), then the
    state becomes ``step``.
    """

    axes: tuple[Axis, ...]
    along: Axis
    state: tuple[Variable, ...]
    initial: tuple[Expression, ...]
    step: tuple[Expression, ...]
    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """``store`` where ``where`` holds, for every point of ``axes`` in row-major order: the last of equals wins.

    The coordinates may depend on loaded values; ``where`` must imply that they are inside the tensor. Points that
    differ in an axis of ``apart`` never store to the same element, whatever is loaded.
    """

    axes: tuple[Axis, ...]
    where: Expression
    store: Store
    apart: tuple[Axis, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The points of ``along`` in ascending order of ``key``, equal ones in their own, for every point of ``axes``.

    For every point of ``rank``, which is no longer than ``along``, the stores are done: ``chosen`` is the coordinate
    along ``along`` of the point that has this place in the order. The key is an integer.
    """

    axes: tuple[Axis, ...]
    along: Axis
    key: Expression
    rank: Axis
    chosen: Variable
    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """``statements`` in order, for every point of ``axis`` in order; each sees what the ones before it wrote."""

    axis: Axis
    statements: tuple[Statement, ...]


Single = Compute | Scan | Scatter | Order
"""A statement without others in it: what becomes one kernel."""


@dataclass(frozen=True, slots=True, eq=False)
class Each:
    """``statements`` in order, for every point of ``axes``, in any order, at the same time too.

    Every point has the tensors ``own`` for itself, with nothing in them that it has not written, and writes no element
    of another tensor that any other point reads or writes. ``statements`` are no Repeat and no Each.
    """

    axes: tuple[Axis, ...]
    statements: tuple[Single, ...]
    own: tuple[Tensor, ...]


Statement = Single | Repeat | Each


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """What an operator or a graph computes: tensors in binding order (None: not given), and the statements.

    ``views`` are tensors that are the memory of another tensor, seen with another layout or type.
    """

    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]
    statements: tuple[Statement, ...]
    temporaries: tuple[Tensor, ...] = ()
    views: tuple[tuple[Tensor, Tensor], ...] = ()


# ---------------------------------------------------------------------------------------------------------------------
# Construction. These functions are what definitions are written with; they fold constants where that is exact.


def constant(value: Number, type: ElementType) -> Const:
    """A constant of ``type``; integers wrap to its width, floats are rounded to nearest even."""
    if type.kind == "float":
        return Const(float_bits(float(value), type), type)
    if type.kind == "bool":
        return Const(int(bool(value)), type)
    return Const(int(value) & ((1 << type.bits) - 1), type)


def float_bits(value: float, type: ElementType) -> int:
    """The bits of ``value`` rounded to the floating-point ``type``; overflow gives an infinity."""
    try:
        packed = struct.pack(_FLOAT_FORMATS[type.bits], value)
    except OverflowError:
        packed = struct.pack(_FLOAT_FORMATS[type.bits], float("inf") if value > 0 else float("-inf"))
    return int.from_bytes(packed, "little")


def as_expression(value: Expression | Number, type: ElementType) -> Expression:
    """``value`` itself, or the constant of ``type``."""
    return value if isinstance(value, Expression) else constant(value, type)


def index(axis: Axis) -> Expression:
    """The coordinate of ``axis``; 0 for an axis of size 1."""
    return Index(axis) if axis.size > 1 else constant(0, I64)


def load(tensor: Tensor, coordinates: Iterable[Expression | int]) -> Expression:
    """The element of ``tensor`` at ``coordinates``."""
    return Load(tensor, tuple(as_expression(c, I64) for c in coordinates))


def select(
    condition: Expression | bool,
    then: Expression | Number,
    otherwise: Expression | Number,
    type: ElementType | None = None,
    *,
    rare: bool = False,
) -> Expression:
    """``then`` if the condition holds, else ``otherwise``; numbers take the type of the other one, or ``type``."""
    if isinstance(condition, Const):
        condition = bool(condition.bits)
    known = next((x.type for x in (then, otherwise) if isinstance(x, Expression)), type)
    if known is None:
        raise TypeError("select() of two numbers needs a type")
    then, otherwise = as_expression(then, known), as_expression(otherwise, known)
    if isinstance(condition, bool):
        return then if condition else otherwise
    return then if then == otherwise else Select(condition, then, otherwise, rare)


def unary(operation: str, operand: Expression) -> Expression:
    """``operation`` (one of ``UNARY``) of the operand."""
    if operation == "not" and isinstance(operand, Const) and operand.type is BOOL:
        return constant(not operand.bits, BOOL)
    return Unary(operation, operand)


def binary(operation: str, left: Expression, right: Expression | Number) -> Expression:
    """``operation`` (one of ``ARITHMETIC`` or ``COMPARISONS``) of two operands; integer constants are folded."""
    right = as_expression(right, left.type)
    if left.type.kind == "float":
        return Binary(operation, left, right)
    if isinstance(left, Const) and isinstance(right, Const):
        folded = _fold_integers(operation, left, right)
        if folded is not None:
            return folded
    simpler = _simplify(operation, left, right)
    return Binary(operation, left, right) if simpler is None else simpler


def is_product(e: Expression) -> bool:
    """Whether ``e`` is a product still: those of integers with 0 and 1 are something simpler."""
    return isinstance(e, Binary) and e.operation in ("mul", *WORD_PRODUCTS)


def fused_multiply_add(x: Expression, y: Expression | Number, z: Expression | Number) -> Expression:
    """``x * y + z`` with one rounding; numbers take the type of ``x``."""
    return FusedMultiplyAdd(x, as_expression(y, x.type), as_expression(z, x.type))


def cast(operand: Expression, type: ElementType) -> Expression:
    """``operand`` converted to ``type`` by the rules of ``Cast``; nothing where it has that type already."""
    if operand.type is type:
        return operand
    if isinstance(operand, Const) and not operand.type.is_float:
        return constant(operand.value, type)
    return Cast(operand, type)


def both(conditions: Iterable[Expression]) -> Expression:
    """The conjunction of all ``conditions``; true if there are none."""
    result: Expression = constant(True, BOOL)
    for condition in conditions:
        result = binary("and", result, condition)
    return result


def in_range(value: Expression, size: int) -> Expression:
    """``0 <= value < size``."""
    return (value >= 0) & (value < size)


def clamp_index(value: Expression, size: int) -> Expression:
    """The integer ``value`` moved into ``range(size)``."""
    return binary("max", binary("min", value, size - 1), 0)


def grid(sizes: Sequence[int], names: Sequence[str] | str = "ijklmnop") -> tuple[Axis, ...]:
    """One axis a dimension."""
    return tuple(Axis(names[d], n) for d, n in enumerate(sizes))


def indices(axes: Iterable[Axis]) -> tuple[Expression, ...]:
    """The coordinates of all ``axes``."""
    return tuple(index(axis) for axis in axes)


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides = [1] * len(sizes)
    for d in range(len(sizes) - 2, -1, -1):
        strides[d] = strides[d + 1] * sizes[d + 1]
    return tuple(strides)


def temporary(name: str, type: ElementType, sizes: Sequence[int]) -> Tensor:
    """A packed tensor of the program's own."""
    return Tensor(name, type, tuple(sizes), packed_strides(sizes), "temporary")


def dot(count: int, a: Any, b: Any) -> Any:
    """``dot2`` or ``dot4`` of integers, or of arrays of them, not wrapped."""
    bits = 32 // count
    mask, half = (1 << bits) - 1, 1 << (bits - 1)
    total = a & 0
    for i in range(count):
        x, y = (a >> i * bits) & mask, ((((b >> i * bits) & mask) ^ half) - half)
        total = total + (x if count == 4 else (x ^ half) - half) * y
    return total


def _fold_integers(operation: str, left: Const, right: Const) -> Const | None:
    a, b, type = left.value, right.value, left.type
    if operation in ("div", "rem", "shl", "shr"):
        if type.kind == "bool" or b <= 0 or a < 0 or (operation in ("shl", "shr") and b >= type.bits):
            return None
        # Only the one that is asked for: a shift by what may be a divisor takes as much memory.
        results = {"div": operator.floordiv, "rem": operator.mod, "shl": operator.lshift, "shr": operator.rshift}
        return constant(results[operation](int(a), int(b)), type)
    if operation in COMPARISONS:
        order = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
        return constant(order[operation], BOOL)
    a, b = int(a), int(b)
    if operation in WORD_PRODUCTS:
        return constant(dot(int(operation[-1]), a, b), type)
    arithmetic = {
        "add": a + b,
        "sub": a - b,
        "mul": a * b,
        "min": min(a, b),
        "max": max(a, b),
        "and": a & b,
        "or": a | b,
        "xor": a ^ b,
    }
    return constant(arithmetic[operation], type)


def _simplify(operation: str, left: Expression, right: Expression) -> Expression | None:
    """Identities of integers and bools with one constant operand."""
    if isinstance(left, Const) and operation in ("add", "mul", "and", "or"):
        left, right = right, left
    if not isinstance(right, Const):
        return None
    value = right.value
    if left.type is BOOL:
        return {("and", True): left, ("and", False): right, ("or", False): left, ("or", True): right}.get(
            (operation, bool(value))
        )
    if value == 0 and operation in ("add", "sub", "shl", "shr", "or", "xor"):
        return left
    if value == 1 and operation in ("mul", "div"):
        return left
    if value == 0 and operation in ("mul", "and"):
        return right
    if value == 1 and operation == "rem":
        return constant(0, left.type)
    return None
