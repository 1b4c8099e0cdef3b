"""Index expressions as sums of axes: addresses, conditions and their ranges.

Everything that the code generator knows about memory is read off these forms: how an address moves along an axis,
where a bounds test changes its answer, and whether a load can ever leave its tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeGuard
from weakref import WeakKeyDictionary

from opendml.expression.element_types import I64, ElementType
from opendml.expression.ir import (
    REPR_LENGTH,
    Axis,
    Binary,
    Cast,
    Const,
    Expression,
    Fold,
    Index,
    Load,
    Select,
    Tensor,
    Variable,
    as_expression,
    index,
)
from opendml.expression.notation import Words, written
from opendml.expression.rewriting import inner_first, walk

NOTHING: Final = frozenset[Any]()

EXACT: Final = 1 << 62
"""Sums up to here are computed without overflow in 64 bits. Beyond it integers wrap, and are not sums any more."""

Term = Axis | Expression
Interval = tuple[int, int]
Ranges = Mapping[Axis, Interval]

Region = tuple[Interval, ...]
"""The least and the greatest coordinate in every dimension."""


def meet(a: Region, b: Region) -> bool:
    """Whether two regions have elements in common."""
    return all(x[0] <= y[1] and y[0] <= x[1] for x, y in zip(a, b, strict=True))


@dataclass(frozen=True, slots=True)
class Affine:
    """``constant`` + the sum of coefficient * term; a term is an axis or an expression that is not affine itself."""

    terms: tuple[tuple[Term, int], ...]
    constant: int

    def coefficient(self, axis: Axis) -> int:
        """How much the value grows when ``axis`` moves by one (leaving aside what opaque terms do)."""
        return next((c for t, c in self.terms if t is axis), 0)

    @property
    def is_pure(self) -> bool:
        """Whether all terms are axes."""
        return all(isinstance(term, Axis) for term, _ in self.terms)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes among the terms."""
        return tuple(term for term, _ in self.terms if isinstance(term, Axis))

    @property
    def opaque(self) -> tuple[Expression, ...]:
        """The terms that are not axes."""
        return tuple(term for term, _ in self.terms if not isinstance(term, Axis))

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """``self + factor * other``."""
        return total(((self, 1), (other, factor)))

    def rebuilt(self, rewrite: Callable[[Expression], Expression]) -> Affine:
        """The form with its opaque terms rewritten; they may turn out affine now."""
        parts = [
            (Affine(((term, 1),), 0) if isinstance(term, Axis) else affine(rewrite(term)), coefficient)
            for term, coefficient in self.terms
        ]
        return total(parts, self.constant)

    def range(self, ranges: Ranges) -> Interval | None:
        """The least and greatest value over ``ranges`` (whole axes where not given); None if unknown."""
        return _range(self, ranges, lambda term: interval(term, ranges))

    @property
    def magnitude(self) -> int:
        """What no partial sum of the terms exceeds, whatever their order."""
        result = abs(self.constant)
        for term, coefficient in self.terms:
            low, high = axis_range(term, {}) if isinstance(term, Axis) else whole_interval(term)
            result += abs(coefficient) * max(abs(low), abs(high))
        return result

    def as_expression(self) -> Expression:
        """The form as an expression again."""
        result: Expression = as_expression(self.constant, I64)
        for term, coefficient in self.terms:
            result = result + (index(term) if isinstance(term, Axis) else term) * coefficient
        return result


def axis_range(axis: Axis, ranges: Ranges) -> Interval:
    """The first and last coordinate of ``axis``."""
    return ranges.get(axis, (0, axis.size - 1))


def total(parts: Iterable[tuple[Affine, int]], constant: int = 0) -> Affine:
    """``constant`` + the sum of factor * form."""
    terms: dict[Term, int] = {}
    for form, factor in parts:
        constant += factor * form.constant
        for term, coefficient in form.terms:
            terms[term] = terms.get(term, 0) + factor * coefficient
    found = Affine(tuple((t, c) for t, c in terms.items() if c != 0), constant)
    return _recombined(found)


def _recombined(form: Affine) -> Affine:
    """The form with every ``x / n * n + x % n`` as ``x``: a coordinate that was taken apart and put together again."""
    for term, coefficient in form.terms:
        if not (isinstance(term, Binary) and term.operation == "div" and isinstance(term.right, Const)):
            continue
        divisor = int(term.right.value)
        if divisor > 0 and coefficient % divisor == 0:
            rest: Expression = Binary("rem", term.left, term.right)
            if (rest, coefficient // divisor) in form.terms:
                left = tuple((t, c) for t, c in form.terms if t is not term and t != rest)
                return total(((Affine(left, form.constant), 1), (affine(term.left), coefficient // divisor)))
    return form


_forms: Final = WeakKeyDictionary[Expression, Affine | None]()
"""The forms of sums, for as long as these live; None for a sum that is opaque, which would keep itself alive."""

_bounds: Final = WeakKeyDictionary[Expression, Interval | None]()
"""The bounds of other integer expressions over all of their axes."""


def affine(expression: Expression) -> Affine:
    """Any integer expression as an affine form; what is not affine, or may overflow, becomes an opaque term."""
    if isinstance(expression, Const):
        return Affine((), int(expression.value))
    if isinstance(expression, Index):
        return Affine(((expression.axis, 1),), 0)
    if not _is_sum(expression):
        return Affine(((expression, 1),), 0)
    if expression not in _forms:
        _settle(expression)
    return _forms[expression] or Affine(((expression, 1),), 0)


def _is_sum(e: Expression) -> TypeGuard[Binary]:
    return isinstance(e, Binary) and e.type is I64 and e.operation in ("add", "sub", "mul")


def _integer_parts(e: Expression) -> tuple[Expression, ...]:
    """The parts of an integer expression that its form or its bounds may follow from."""
    if isinstance(e, Binary):
        return (e.left, e.right) if e.type.is_integer else ()
    if isinstance(e, Select):
        return (e.then, e.otherwise)
    return (e.operand,) if isinstance(e, Cast) and e.operand.type.is_integer else ()


def _settle(expression: Expression) -> None:
    """Finds the forms of sums in an integer expression and the bounds of what else it is made of, inside out: one
    follows from the other, and expressions may be deep."""
    stack = [expression]
    while stack:
        e = stack[-1]
        missing = [part for part in _integer_parts(e) if not _is_settled(part)]
        if missing:
            stack += missing
            continue
        stack.pop()
        if _is_sum(e):
            form = _linear(e)
            _forms[e] = form if form is not None and form.magnitude <= EXACT else None
        else:
            _bounds[e] = _interval(e, {}, lambda part: interval(part, {}))


def _is_settled(e: Expression) -> bool:
    return not _integer_parts(e) or e in (_forms if _is_sum(e) else _bounds)


def _linear(e: Binary) -> Affine | None:
    """A sum, difference or multiple of affine forms."""
    left, right = affine(e.left), affine(e.right)
    if e.operation != "mul":
        return left.plus(right, 1 if e.operation == "add" else -1)
    if not right.terms:
        return total(((left, right.constant),))
    return None if left.terms else total(((right, left.constant),))


class Element(Expression):
    """A load by address: the element of ``tensor``'s buffer at ``address``.

    ``safe`` says that the address is inside the tensor whatever the conditions around it, so that it may be read
    speculatively.
    """

    tensor: Tensor
    address: Affine
    safe: bool

    def _result(self) -> ElementType:
        return self.tensor.type

    def _inside(self) -> tuple[Expression, ...]:
        return self.address.opaque

    def rebuilt(self, rewrite: Callable[[Expression], Expression]) -> Expression:
        """The element with its address rewritten; an opaque term may turn out affine now."""
        return Element(self.tensor, self.address.rebuilt(rewrite), self.safe) if self.address.opaque else self

    def words(self) -> Words:
        return [f"{self.tensor.name}@(", *_address_words(self.address), ")"]


def loads_of(*expressions: Expression) -> list[Element]:
    """All loads in expressions, those of the steps of folds too."""
    return [e for expression in expressions for e in walk(expression) if isinstance(e, Element)]


def is_unsafe(e: Expression) -> bool:
    """Whether an expression is a load that only the conditions around it keep inside of its tensor."""
    return isinstance(e, Element) and not e.safe


def format_address(address: Affine) -> str:
    """An address in elements, as a sum."""
    return written(_address_words(address), limit=REPR_LENGTH)


def _address_words(address: Affine) -> Words:
    words: list[Any] = []
    for term, coefficient in address.terms:
        name = term.name if isinstance(term, Axis) else term
        words += _signed(coefficient, words), *(() if coefficient == 1 else (f"{abs(coefficient)}*",)), name
    if address.constant or not words:
        words += _signed(address.constant, words), str(abs(address.constant))
    return words


def _signed(number: int, before: Words) -> str:
    """The sign of a summand behind others."""
    return (" - " if number < 0 else " + ") if before else ("-" if number < 0 else "")


def address_of(tensor: Tensor, coordinates: Iterable[Expression]) -> Affine:
    """The place of an element in its buffer, in elements."""
    return total(zip(map(affine, coordinates), tensor.strides, strict=True), tensor.offset)


def always_inside(load: Load, ranges: Ranges) -> bool:
    """Whether every coordinate of ``load`` is inside its dimension over all of ``ranges``."""
    for coordinate, size in zip(load.coordinates, load.tensor.sizes, strict=True):
        reach = affine(coordinate).range(ranges)
        if reach is None or reach[0] < 0 or reach[1] >= size:
            return False
    return True


def interval(expression: Expression, ranges: Ranges) -> Interval | None:
    """Bounds of an integer expression over ``ranges``, or None where nothing is known."""
    if isinstance(expression, Const):
        return (int(expression.value), int(expression.value))
    if isinstance(expression, Index):
        return axis_range(expression.axis, ranges)
    if not _integer_parts(expression):
        return type_limits(expression.type)
    if not ranges:
        if _is_sum(expression):
            form = affine(expression)
            is_opaque = form.terms == ((expression, 1),)
            return _interval(expression, {}, lambda part: interval(part, {})) if is_opaque else form.range({})
        if expression not in _bounds:
            _settle(expression)
        return _bounds[expression]
    known: dict[Expression, Interval | None] = {}
    for e in inner_first(expression, known, _bounding_parts):
        known[e] = _interval(e, ranges, known.__getitem__) if _integer_parts(e) else interval(e, ranges)
    return known[expression]


def whole_interval(expression: Expression) -> Interval:
    """Bounds of an integer expression for all values of its axes."""
    found = interval(expression, {}) or type_limits(I64)
    assert found is not None
    return found


def _bounding_parts(e: Expression) -> tuple[Expression, ...]:
    """The parts that the bounds of an integer expression follow from."""
    if not isinstance(e, Binary) or not e.type.is_integer:
        return _integer_parts(e)
    form = affine(e)
    if form.terms != ((e, 1),):
        return form.opaque
    return (e.left, e.right) if e.operation in ("min", "max", "div", "rem") else ()


def _interval(e: Expression, ranges: Ranges, inner: Callable[[Expression], Interval | None]) -> Interval | None:
    """The bounds of an integer expression with parts, whose bounds are ``inner``."""
    if isinstance(e, Select):
        return _hull(inner(e.then), inner(e.otherwise))
    if isinstance(e, Cast):
        within, limits = inner(e.operand), type_limits(e.type)
        if within is not None and limits is not None and limits[0] <= within[0] and within[1] <= limits[1]:
            return within
        return limits
    assert isinstance(e, Binary)
    return _binary_interval(e, ranges, inner)


def _range(form: Affine, ranges: Ranges, inner: Callable[[Expression], Interval | None]) -> Interval | None:
    low = high = form.constant
    for term, coefficient in form.terms:
        reach = axis_range(term, ranges) if isinstance(term, Axis) else inner(term)
        if reach is None:
            return None
        ends = (reach[0] * coefficient, reach[1] * coefficient)
        low, high = low + min(ends), high + max(ends)
    return low, high


class Addressed(Protocol):
    """What is somewhere in a tensor's buffer: an element, a store, what is asked for ahead."""

    @property
    def tensor(self) -> Tensor:
        """The tensor."""

    @property
    def address(self) -> Affine:
        """Where in its buffer."""


def bytes_between(place: Addressed, axis: Axis) -> int:
    """Bytes between neighbours along an axis."""
    return abs(place.address.coefficient(axis)) * place.tensor.type.bits // 8


def type_limits(type: ElementType) -> Interval | None:
    """The least and greatest value of an integer type."""
    if not type.is_integer:
        return None
    if type.kind == "uint":
        return (0, (1 << type.bits) - 1)
    return (-(1 << (type.bits - 1)), (1 << (type.bits - 1)) - 1)


def _hull(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _binary_interval(e: Binary, ranges: Ranges, inner: Callable[[Expression], Interval | None]) -> Interval | None:
    form = affine(e)
    if form.terms != ((e, 1),):
        return _range(form, ranges, inner)
    if e.operation not in ("min", "max", "div", "rem"):
        return type_limits(e.type)
    a, b = inner(e.left), inner(e.right)
    if a is None or b is None:
        return type_limits(e.type)
    if e.operation == "min":
        return (min(a[0], b[0]), min(a[1], b[1]))
    if e.operation == "max":
        return (max(a[0], b[0]), max(a[1], b[1]))
    if e.operation == "div" and b[0] == b[1] > 0 and a[0] >= 0:
        return (a[0] // b[0], a[1] // b[0])
    if e.operation == "rem" and b[0] == b[1] > 0 and a[0] >= 0:
        return a if a[1] < b[0] else (0, b[0] - 1)
    return type_limits(e.type)


# ---------------------------------------------------------------------------------------------------------------------
# Conditions. A comparison of index expressions is kept as a form that is >= 0 exactly where the comparison holds.


def threshold_form(condition: Expression) -> Affine | None:
    """The form that is >= 0 exactly where the comparison ``condition`` holds; None if it has no such form."""
    if not isinstance(condition, Binary) or condition.left.type is not I64:
        return None
    left, right = affine(condition.left), affine(condition.right)
    one = Affine((), 1)
    if condition.operation == "ge":
        return left.plus(right, -1)
    if condition.operation == "gt":
        return left.plus(right, -1).plus(one, -1)
    if condition.operation == "le":
        return right.plus(left, -1)
    if condition.operation == "lt":
        return right.plus(left, -1).plus(one, -1)
    return None


def decide(condition: Expression, ranges: Ranges) -> bool | None:
    """Whether a comparison holds everywhere (True) or nowhere (False) over ``ranges``; None if neither is certain."""
    form = threshold_form(condition)
    if form is not None:
        reach = form.range(ranges)
        if reach is None:
            return None
        return True if reach[0] >= 0 else (False if reach[1] < 0 else None)
    if isinstance(condition, Binary) and condition.operation in ("eq", "ne") and condition.left.type is I64:
        reach = affine(condition.left).plus(affine(condition.right), -1).range(ranges)
        if reach is not None and (reach[0] > 0 or reach[1] < 0):
            return condition.operation == "ne"
        if reach == (0, 0):
            return condition.operation == "eq"
    return None


class Dependencies:
    """The axes and variables that expressions depend on, remembered for one compilation."""

    def __init__(self) -> None:
        self._known: dict[Expression, frozenset[Axis | Variable]] = {}

    def of(self, expression: Expression) -> frozenset[Axis | Variable]:
        """The free axes and variables of ``expression``."""
        known = self._known
        if expression not in known:
            for e in inner_first(expression, known):
                known[e] = self._find(e)
        return known[expression]

    def _find(self, e: Expression) -> frozenset[Axis | Variable]:
        known, children = self._known, e.children
        if isinstance(e, Index):
            return frozenset((e.axis,))
        if isinstance(e, Variable):
            return frozenset((e,))
        result = known[children[0]].union(*[known[child] for child in children[1:]]) if children else NOTHING
        if isinstance(e, Element):
            result |= frozenset(e.address.axes)
        if isinstance(e, Fold):
            result -= frozenset(e.axes)
        return result


def follows_axes(address: Affine, axes: Iterable[Axis]) -> bool:
    """Whether an address is a sum of ``axes`` times constants, and of what depends on none of them.

    Loops are made for stores at such addresses only, so this is what fusion keeps to when it moves stores.
    """
    dependencies = Dependencies()
    return all(dependencies.of(term).isdisjoint(axes) for term in address.opaque)
