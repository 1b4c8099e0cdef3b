"""Roundings to float16 that change nothing: of values that are float16's already, held in float32.

Operators of float16 compute in float32 and round what they give once. Where they are joined to one expression, most of
what rectifiers, limits and choices give is one of their arguments, which the operator before has rounded: rounding it
again gives the same bits. And if what is chosen is rounded anyway, it need not be rounded before: rounding keeps the
order of numbers, so a comparison with a number of float16 is one with what lies half way to its neighbour.

Where the choice is between a number and zero, and is widened again, it is made of what is rounded and widened: a
comparison with the zero that is chosen is the maximum of both, one instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from opendml.expression.element_types import F16, F32, ElementType, bits_of, number_of
from opendml.expression.ir import (
    COMPARISONS,
    Binary,
    Cast,
    Const,
    Expression,
    Select,
    Unary,
    binary,
    cast,
    constant,
    select,
    unary,
)

DEEPEST: Final = 16
"""Choices inside of one another that are rewritten to choose before they round: operators have two at most."""

_CHOICES: Final = ("min", "max")
_KEEPING: Final = ("neg", "abs", "floor", "ceil", "trunc", "round_even")

Fact = TypeVar("Fact")

_known: Final = WeakKeyDictionary[Expression, bool]()
"""Whether expressions give numbers of float16, for as long as they live."""

_depths: Final = WeakKeyDictionary[Expression, int]()
"""How many choices deep an expression has something that is rounded to float16, and 0 where it has none."""


def exact_cast(operand: Expression, type: ElementType) -> Expression:
    """``operand`` converted to ``type``: to float16 with one rounding where there were several, and to float32 without
    any if that would change nothing."""
    if type is F16 and operand.type is F32 and 0 < _depth(operand) <= DEEPEST and is_float16(operand):
        return cast(_Unrounded()(operand), F16)
    if type is F32 and isinstance(operand, Cast) and operand.type is F16:
        narrowed = operand.operand
        found = None if narrowed.type is not F32 else narrowed if is_float16(narrowed) else _rectified(narrowed)
        if found is not None:
            return found
    return cast(operand, type)


# What is rounded already ---------------------------------------------------------------------------------------------


def is_float16(expression: Expression) -> bool:
    """Whether all values that an expression of float32 can have are numbers of float16."""

    def holds(e: Expression, parts: Sequence[Expression]) -> bool:
        return all(_known[part] for part in parts) if parts else _is_float16_itself(e)

    _note(expression, _known, _parts, holds)
    return _known[expression]


def _depth(expression: Expression) -> int:
    def depth(e: Expression, parts: Sequence[Expression]) -> int:
        below = max((_depths[part] for part in parts), default=int(_is_rounded(e)))
        return below and below + 1

    _note(expression, _depths, _choices, depth)
    return _depths[expression]


def _note(
    expression: Expression,
    facts: WeakKeyDictionary[Expression, Fact],
    parts_of: Callable[[Expression], Sequence[Expression]],
    fact: Callable[[Expression, Sequence[Expression]], Fact],
) -> None:
    """Know a fact about an expression, of which those of its parts are known before."""
    stack = [expression]
    while stack:
        e = stack[-1]
        parts = parts_of(e)
        missing = [part for part in parts if part not in facts]
        if missing:
            stack += missing
        else:
            facts[e] = fact(e, parts)
            stack.pop()


def _parts(e: Expression) -> Sequence[Expression]:
    """The expressions that an expression is a number of float16 with; none where that does not follow from its parts.
    Numbers of float16 that are not whole are below 1024, so those next to them that are whole are float16's too."""
    if isinstance(e, Binary) and e.operation in _CHOICES:
        return e.left, e.right
    return (e.operand,) if isinstance(e, Unary) and e.operation in _KEEPING else _choices(e)


def _choices(e: Expression) -> Sequence[Expression]:
    return (e.then, e.otherwise) if isinstance(e, Select) else ()


def _is_float16_itself(e: Expression) -> bool:
    if isinstance(e, Const):
        return e.type is F32 and constant(e.value, F16).value == e.value
    return isinstance(e, Cast) and e.operand.type is F16


def _is_rounded(e: Expression) -> bool:
    """Whether an expression is a float32 that is rounded to float16."""
    if not isinstance(e, Cast) or e.type is not F32:
        return False
    narrowed = e.operand
    return isinstance(narrowed, Cast) and narrowed.type is F16 and narrowed.operand.type is F32


# Choices before they are rounded -------------------------------------------------------------------------------------


class _Unrounded:
    """What an expression of numbers of float16 is the rounded value of, without the roundings inside of it."""

    def __init__(self) -> None:
        self._found: dict[Expression, Expression] = {}

    def __call__(self, e: Expression) -> Expression:
        """Of one expression."""
        if e not in self._found:
            self._found[e] = self._made(e) if _depth(e) else e
        return self._found[e]

    def _made(self, e: Expression) -> Expression:
        if isinstance(e, Select):
            return select(self._asked(e.condition, e), self(e.then), self(e.otherwise), rare=e.rare)
        assert isinstance(e, Cast)
        assert isinstance(e.operand, Cast)
        return e.operand.operand

    def _asked(self, condition: Expression, choice: Select) -> Expression:
        """A condition of what is not rounded, as far as it compares that with constants or asks if it is a number."""
        if isinstance(condition, Unary) and condition.operation == "not":
            return unary("not", self._asked(condition.operand, choice))
        if not isinstance(condition, Binary):
            return condition
        left, right = condition.left, condition.right
        if condition.operation in ("and", "or"):
            return binary(condition.operation, self._asked(left, choice), self._asked(right, choice))
        if condition.operation not in COMPARISONS or not (_depth(left) or _depth(right)):
            return condition
        if left is right and condition.operation in ("eq", "ne") and is_float16(left):
            return binary(condition.operation, self(left), self(left))
        if _number(left) is not None:
            condition = Binary(_TURNED[condition.operation], right, left)
        return self._compared(condition, choice)

    def _compared(self, condition: Binary, choice: Select) -> Expression:
        """A comparison with a constant on its right. Where the choice is between both, a number that becomes the
        constant may count as on either side, unless that is a zero, whose sign would tell."""
        value, limit, operation = condition.left, _number(condition.right), condition.operation
        if limit is None or not abs(limit) <= LARGEST or not is_float16(value) or operation not in _BOUNDS:
            return condition
        if limit and choice.then is condition.right and choice.otherwise is value:
            return binary(operation, self(value), condition.right)
        above, (if_even, if_odd) = _BOUNDS[operation]
        half_way, is_even = _half_way(limit, above=above)
        return binary(if_even if is_even else if_odd, self(value), constant(half_way, F32))


def _number(e: Expression) -> float | None:
    """The number of float16 that an expression of float32 is written down as."""
    if isinstance(e, Cast) and e.operand.type is F16:
        e = e.operand
    return float(e.value) if isinstance(e, Const) and (e.type is F16 or _is_float16_itself(e)) else None


# Choices of zeros, behind the rounding -----------------------------------------------------------------------------


def _rectified(e: Expression) -> Expression | None:
    """What ``e`` is, rounded to float16 and widened again, where it is a number or a zero, by which of them is larger,
    or that within limits: the same choice of the number, rounded and widened."""
    limits = list[tuple[Select, bool]]()
    while len(limits) < DEEPEST and isinstance(e, Select) and (is_zero := _is_limited(e)) is not None:
        limits.append((e, is_zero))
        e = e.otherwise
    if not any(is_zero for _, is_zero in limits):
        return None
    rounded = exact_cast(cast(e, F16), F32)
    for choice, _ in reversed(limits):
        assert isinstance(choice.condition, Binary)
        condition = binary(choice.condition.operation, rounded, choice.then)
        rounded = select(condition, choice.then, rounded, rare=choice.rare)
    return rounded


def _is_limited(choice: Select) -> bool | None:
    """Whether a choice is zero where a number is beyond what lies half way from it to the next number of float16; False
    where it is another number of float16 and the limit is this number itself; None where it is neither."""
    condition, number = choice.condition, _number(choice.then)
    if number is None or not isinstance(condition, Binary) or condition.left is not choice.otherwise:
        return None
    if condition.operation not in _BOUNDS or not abs(number) <= LARGEST:
        return None
    if number:
        return False if condition.right is choice.then else None
    above, (if_even, _) = _BOUNDS[condition.operation]
    is_half_way = condition.right is constant(_half_way(number, above=above)[0], F32)
    return True if is_half_way and if_even == condition.operation else None


_TURNED: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}

_BOUNDS: Final = {
    "lt": (False, ("lt", "le")),
    "ge": (False, ("ge", "gt")),
    "gt": (True, ("gt", "ge")),
    "le": (True, ("le", "lt")),
}
"""Whether a comparison of what is rounded is one with what lies half way to the number above, or to that below, and
which one if the number has an even last digit, so that what lies half way is rounded to it, and if not."""

LARGEST: Final = 65504.0
"""The largest number of float16."""


def _half_way(number: float, *, above: bool) -> tuple[float, bool]:
    """What lies half way from a number of float16 to the next one, and whether the number is the even one of them. The
    one behind the largest is what would follow if exponents went on."""
    bits = bits_of(abs(number), F16)
    away = above == (number >= 0)
    if number == 0:
        neighbour = 1
    else:
        neighbour = bits + 1 if away else bits - 1
    beside = 65536.0 if neighbour == bits_of(LARGEST, F16) + 1 else float(number_of(neighbour, F16))
    sign = (1.0 if above else -1.0) if number == 0 else (1.0 if number > 0 else -1.0)
    return (number + sign * beside) / 2, bits % 2 == 0
