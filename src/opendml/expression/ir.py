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

Expressions are immutable values, and interned: those of equal structure are one object, so that comparing and finding
them costs nothing. What a stage finds out about them it keeps in tables of its own. All coordinates are 64-bit
integers. ``Select`` evaluates only the branch taken, which is how a load is guarded.
Arithmetic is exact about types: integers wrap, floating point is IEEE 754 with one rounding an operation, and
there is no ``max`` of floats: the definitions say with ``Select`` what happens to NaN and to -0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from opendml.expression.element_types import BOOL, F32, F64, I64, ElementType, Number, bits_of, number_of
from opendml.expression.integer_folding import folded_integers
from opendml.expression.nodes import Node
from opendml.expression.notation import SIGNS, Words, call, listed, written

ARITHMETIC: Final = ("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr")
WORD_PRODUCTS: Final = {"dot2": 2, "dot4": 4, "dot4_saturating": 4}
"""Products of words, and the numbers that a word of each has."""
COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
UNARY: Final = ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "round_even", "not")

REPR_LENGTH: Final = 2000
"""Characters of an expression that Python's ``repr`` shows, about: with all that it shares it may be endless."""


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


class Expression(metaclass=Node):
    """Base of all expressions; ``type`` is the type of its value. Python's operators build expressions.

    Classes state their fields; ``nodes`` makes constructors of them. Nothing is ever added to a node.
    """

    __slots__ = ("__weakref__", "children", "type")

    if TYPE_CHECKING:

        @property
        def type(self) -> ElementType: ...

        @property
        def children(self) -> tuple[Expression, ...]:
            """The expressions this one is made of, bound ones included."""

    def _result(self) -> ElementType:
        """The type of the value; raises TypeError or ValueError where the fields do not fit together."""
        return self.type

    @property
    def own(self) -> tuple[object, ...]:
        """What tells the expression from others of its class with the same children."""
        return tuple([getattr(self, field) for field in type(self).own_fields])

    def words(self) -> Words:
        """How the expression is written, with its parts as they are."""
        raise NotImplementedError(type(self).__name__)

    def rebuilt(self, rewrite: Callable[[Expression], Expression]) -> Expression:
        """The expression with its parts rewritten; for leaves, and kinds that a later stage adds to the grammar."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field) for field in type(self).fields)

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
        return written([self], limit=REPR_LENGTH)


class Const(Expression):
    """A constant, kept as the bits of its type so that NaN and -0 are values like others."""

    bits: int
    type: ElementType

    @property
    def value(self) -> Number:
        """The constant as a Python number."""
        return number_of(self.bits, self.type)

    def words(self) -> Words:
        return [str(self.value) if self.type in (I64, BOOL) else f"{self.value}:{self.type}"]


class Index(Expression):
    """The current coordinate of an axis, a 64-bit integer in ``range(axis.size)``."""

    axis: Axis

    def _result(self) -> ElementType:
        return I64

    def words(self) -> Words:
        return [self.axis.name]


class Load(Expression):
    """The element of ``tensor`` at ``coordinates``, one 64-bit integer a dimension, each inside the sizes."""

    tensor: Tensor
    coordinates: tuple[Expression, ...]

    def _result(self) -> ElementType:
        if len(self.coordinates) != len(self.tensor.sizes):
            raise ValueError(f"{self.tensor.name} has {len(self.tensor.sizes)} dimensions, not {len(self.coordinates)}")
        return self.tensor.type

    def words(self) -> Words:
        return [f"{self.tensor.name}[", *listed(self.coordinates), "]"]


class Unary(Expression):
    """One of ``UNARY`` applied to one operand, in the operand's type."""

    operation: str
    operand: Expression

    def _result(self) -> ElementType:
        return self.operand.type

    def words(self) -> Words:
        return call(self.operation, (self.operand,))


class Binary(Expression):
    """One of ``ARITHMETIC``, ``COMPARISONS`` or ``WORD_PRODUCTS`` applied to two operands of one type.

    Division of integers truncates; by 0 it gives the quotient 0 and the remainder ``left``; the lowest integer by -1
    wraps. Shifts count in unsigned numbers; by the width or more they leave 0, or the sign where that is shifted in.
    ``dot2`` and ``dot4`` (``WORD_PRODUCTS``) take I32 as words of 2 signed numbers of 16 bits, and of 4 of 8 bits,
    unsigned on the left and signed on the right, and give the sum of their products; targets lay sums of products out
    for them. ``dot4_saturating`` is ``dot4`` but that the sums of its two lower and two upper products saturate at 16
    bits: the same where the signed numbers are no larger than 64.
    """

    operation: str
    left: Expression
    right: Expression

    def _result(self) -> ElementType:
        if self.left.type is not self.right.type:
            raise TypeError(f"{self.operation} of {self.left.type} and {self.right.type}")
        return BOOL if self.operation in COMPARISONS else self.left.type

    def words(self) -> Words:
        sign = SIGNS.get(self.operation)
        return ["(", self.left, f" {sign} ", self.right, ")"] if sign else call(self.operation, self.children)


class Select(Expression):
    """``then`` where the condition holds, else ``otherwise``; only the branch taken is evaluated.

    ``rare`` says that the condition seldom holds. It changes no value: code for vectors then jumps over ``then`` where
    the condition holds in no lane.
    """

    condition: Expression
    then: Expression
    otherwise: Expression
    rare: bool = False

    def _result(self) -> ElementType:
        if self.condition.type is not BOOL or self.then.type is not self.otherwise.type:
            raise TypeError(f"select({self.condition.type}, {self.then.type}, {self.otherwise.type})")
        return self.then.type

    def words(self) -> Words:
        return call("select", self.children)


class FusedMultiplyAdd(Expression):
    """``x * y + z`` with one rounding, as IEEE 754 defines it; all three F32 or F64."""

    x: Expression
    y: Expression
    z: Expression

    def _result(self) -> ElementType:
        if not (self.x.type is self.y.type is self.z.type and self.x.type in (F32, F64)):
            raise TypeError(f"fused multiply-add of {self.x.type}, {self.y.type} and {self.z.type}")
        return self.x.type

    def words(self) -> Words:
        return call("fma", self.children)


class Cast(Expression):
    """The value converted to another type.

    Float to float rounds to nearest even; float to integer truncates and saturates, NaN gives 0; integer to integer
    wraps; integer to float rounds to nearest even; bool gives 0 or 1; a number casts to bool as ``!= 0``.
    """

    operand: Expression
    type: ElementType

    def words(self) -> Words:
        return call(self.type.name, (self.operand,))


class Bitcast(Expression):
    """The same bits read as another type of the same width."""

    operand: Expression
    type: ElementType

    def _result(self) -> ElementType:
        if self.operand.type.bits != self.type.bits:
            raise TypeError(f"bitcast of {self.operand.type} to {self.type}")
        return self.type

    def words(self) -> Words:
        return call(f"bits_as_{self.type}", (self.operand,))


class Variable(Expression, interned=False):
    """A value bound by the Fold, Scan or Order around it; every variable made is another one."""

    name: str
    type: ElementType

    def words(self) -> Words:
        return [self.name]


@dataclass(frozen=True, slots=True, eq=False)
class Combine:
    """How a Fold joins two partial results: ``result`` in terms of the variables ``left`` and ``right``.

    ``left`` always comes before ``right`` in the order of the fold. ``result`` must be associative for the fold to
    have ``partials``; ``merge``, where given, joins partial results whose points interleave (it may not rely on which
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

    With ``partials = P > 1`` (a power of two) there are P states; the point with coordinate ``i`` on the last axis
    belongs to state ``i % P``, each state is folded in order, and in the end the upper half of the states is merged
    into the lower half until one is left (state ``j`` with ``j + P/2``, then ``P/4`` ...). So the order of a sum is
    the same for every target and every number of threads, and vectorises.

    ``contract`` says that the fold is a sum of products (elements are ``Binary("mul", x, y)``, one value) whose
    multiplication and addition are one fused operation with a single rounding. Sums of integers are exact modulo their
    width, so a target may take their products in any order and with any instruction.

    ``is_same_anywhere`` says that steps elsewhere than ``where`` change nothing: they may be done as well.
    """

    axes: tuple[Axis, ...]
    initial: tuple[Expression, ...]
    elements: tuple[Expression, ...]
    combine: Combine
    where: Expression | None = None
    partials: int = 1
    contract: bool = False
    is_same_anywhere: bool = False

    @property
    def steps(self) -> int:
        """How many there are for one of its results."""
        return math.prod(axis.size for axis in self.axes)

    def _result(self) -> ElementType:
        return self.elements[0].type

    def words(self) -> Words:
        combine = self.combine
        axes = ", ".join(f"{axis.name} < {axis.size}" for axis in self.axes)
        guard = () if self.where is None else (" where ", self.where, " or anywhere" if self.is_same_anywhere else "")
        partials = f", {self.partials} partial results" if self.partials > 1 else ""
        fused = ", fused multiply-add" if self.contract else ""
        return [
            *(f"fold[{axes}", *guard, f"{partials}{fused}]("),
            *(*listed(self.initial), "; (", *listed(combine.left), "), (", *listed(combine.right)),
            *(") -> (", *listed(combine.result), "); ", *listed(self.elements), ")"),
        ]


class Part(Expression):
    """One of the values of a Fold."""

    fold: Fold
    number: int

    def _result(self) -> ElementType:
        return self.fold.elements[self.number].type

    def words(self) -> Words:
        return [self.fold, f".{self.number}" if len(self.fold.elements) > 1 else ""]


# ---------------------------------------------------------------------------------------------------------------------
# Construction. These functions are what definitions are written with; they fold constants where that is exact.


def constant(value: Number, type: ElementType) -> Const:
    """A constant of ``type``; integers wrap to its width, floats are rounded to nearest even."""
    return Const(bits_of(value, type), type)


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
        folded = folded_integers(operation, left.value, right.value, left.type)
        if folded is not None:
            return constant(folded, BOOL if operation in COMPARISONS else left.type)
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


def _simplify(operation: str, left: Expression, right: Expression) -> Expression | None:
    """Identities of integers and bools with one constant operand, and of what compares numbers with one."""
    if isinstance(left, Const) and operation in ("add", "mul", "and", "or"):
        left, right = right, left
    if not isinstance(right, Const):
        if operation == "and" and left.type is BOOL:
            found = _compared_with_number(left, right)
            return _compared_with_number(right, left) if found is None else found
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


def _compared_with_number(denied: Expression, ordered: Expression) -> Expression | None:
    """``not c >= x and x = x``, as the smaller of two is chosen, where ``c`` is a constant and a number: ``c < x``,
    which is one comparison, and with the choice one instruction."""
    if not (isinstance(denied, Unary) and isinstance(denied.operand, Binary) and isinstance(ordered, Binary)):
        return None
    comparison, x = denied.operand, ordered.left
    if ordered.operation != "eq" or x is not ordered.right or comparison.operation not in _DENIED:
        return None
    if not x.type.is_float or x not in (comparison.left, comparison.right):
        return None
    limit = comparison.left if comparison.right is x else comparison.right
    number = limit.operand if isinstance(limit, Cast) and limit.operand.type.is_float else limit
    if not isinstance(number, Const) or number.value != number.value:
        return None
    return Binary(_DENIED[comparison.operation], comparison.left, comparison.right)


_DENIED: Final = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
"""What holds of two numbers where a comparison does not."""
