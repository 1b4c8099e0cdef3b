"""What may stand for a tensor, and what becomes of it: one set of rules for functions on arrays, functions on graph
tensors, and Python's operators.

- An *array* (of NumPy, or anything with DLPack or the buffer protocol) or a graph tensor has a type and is never
  converted. NumPy's bools are UINT8: the same bytes.
- A *number* is Python's or NumPy's, or an array without dimensions. Its type is that of the arrays that the operator
  wants to have the same type, and it must be a value of that type: integers exactly, and an integer type takes no
  floating-point number; a floating-point number is rounded to the nearest of its type, but not to infinity. Where
  there is no such array, the type is the one that the operator always has there (UINT8 of a condition), else NumPy's of
  a number that has one (``np.float32(2)``). A number of Python alone is an error: nothing says which type is meant.
- A *list* (or tuple) of numbers is an array whose type follows the same rules; where nothing says it, it is NumPy's.
- Operands of operators that compute element by element broadcast as NumPy's arrays do, and so do the matrices of GEMM
  and what it adds: a repeated dimension has a stride of 0, so nothing is copied. CONVOLUTION's bias may have one
  dimension, of output channels. Elsewhere a number is a tensor of one element of the rank of the other operands, and
  arrays are taken as they are: where DirectML broadcasts sizes of 1 itself, dimensions are never guessed.

A number alone, or an array without dimensions, has the sizes {1}: DirectML's tensors have at least one dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from opendml.description.enums import TensorDataType
from opendml.description.errors import BindingError, InvalidDescriptorError, UnknownMemberError
from opendml.description.quoting import quoted
from opendml.programs.binding import as_array

Array = npt.NDArray[Any]
DataType = np.dtype[Any]
Sizes = tuple[int, ...]
T = TypeVar("T")


class View(NamedTuple):
    """An operand as the operator sees it: its sizes, and which of the operand's dimensions each of them is; None for
    dimensions that the operand does not have, where it is repeated."""

    sizes: Sizes
    dimensions: tuple[int | None, ...]


Views = Callable[[Sequence[Sizes | None], tuple[Any, ...]], Sequence[View | None]]
"""From the sizes of the operands (of numbers none: ``()``) and the operator's parameters to how each is seen; None for
what is taken as it is. Raises ValueError where sizes do not go together."""


def as_they_are(shapes: Sequence[Sizes | None], _: tuple[Any, ...]) -> Sequence[View | None]:
    """No operand is seen in another way than it is given."""
    return [None] * len(shapes)


def together(shapes: Sequence[Sizes | None], _: tuple[Any, ...] = ()) -> Sequence[View | None]:
    """All operands have the sizes to which they broadcast."""
    sizes = np.broadcast_shapes(*(shape for shape in shapes if shape is not None)) or (1,)
    return [None if shape is None else broadcast(shape, sizes) for shape in shapes]


def broadcast(shape: Sizes, sizes: Sizes) -> View | None:
    """How something is seen that is repeated to have other sizes; None if it has them."""
    if shape == sizes:
        return None
    new = len(sizes) - len(shape)
    if new < 0 or any(have not in (1, want) for have, want in zip(shape, sizes[new:], strict=True)):
        raise ValueError(f"{shape} does not broadcast to {sizes}")
    return View(sizes, (*[None] * new, *range(len(shape))))


@dataclass(frozen=True)
class OperandRules:
    """How the operands of an operator belong together.

    ``types``: one letter an operand; those with the same letter have the same type. The last letter stands for all that
    follow. ``usual``: the type of a letter that no array has: a data type, or another letter. ``views``: what is
    broadcast.
    """

    types: str
    usual: Mapping[str, str | DataType] = field(default_factory=dict)
    views: Views = as_they_are

    def letter(self, position: int) -> str:
        """That of an operand."""
        return self.types[min(position, len(self.types) - 1)]


ALONE: Final = OperandRules("x", views=together)
"""One operand; of several, all have the same type and broadcast."""

SEPARATE: Final = OperandRules("abcdefgh")
"""Operands that have nothing in common."""


class Number(NamedTuple):
    """A number given for a tensor; ``dtype`` is None for Python's, which have no type of their own."""

    value: int | float
    dtype: DataType | None


class Listed(NamedTuple):
    """A list of numbers given for a tensor, as NumPy reads it."""

    values: Array


Read = Array | Number | Listed
"""An operand on its own, before its type is known."""


def read(value: Any, name: str) -> Read:
    """What was given for an operand, and is no graph tensor. Raises BindingError for what cannot be one."""
    if isinstance(value, np.ndarray):
        return _read_array(value, name)
    if isinstance(value, (np.generic, complex)):
        return _read_array(np.asarray(value), name)
    if isinstance(value, (bool, int, float)):
        return Number(value, None)
    if isinstance(value, (list, tuple)):
        return _read_list(value, name)
    return _read_array(as_array(value, name), name)


def _read_array(array: Array, name: str) -> Array | Number:
    if array.dtype == np.bool_:
        array = array.view(np.uint8)
    if array.dtype.kind not in "iuf":
        check_type(array.dtype, name)
    if array.ndim or array.dtype.kind not in "iuf":
        return array
    return Number(array.item(), array.dtype.newbyteorder("="))


def check_type(dtype: DataType, name: str) -> None:
    """Raises InvalidDescriptorError for a type of elements that DirectML does not have."""
    try:
        TensorDataType.parse(dtype)
    except UnknownMemberError as error:
        raise InvalidDescriptorError(f"{name}: {error}") from None


def _read_list(values: list[Any] | tuple[Any, ...], name: str) -> Listed:
    if hasattr(values, "_fields"):
        fields = " or ".join(f".{name}" for name in values._fields)
        raise BindingError(f"{name}: {type(values).__name__} holds several tensors; use {fields} of it")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        array = np.empty((), object)
    if array.dtype.kind == "c":
        check_type(array.dtype, name)
    if array.dtype.kind not in "biuf":
        expected = "an array, a number, or a list of numbers"
        raise BindingError(f"{name}: expected {expected}, got a {type(values).__name__} of something else")
    return Listed(array.view(np.uint8) if array.dtype == np.bool_ else array)


def types_of(
    rules: OperandRules, operands: Sequence[Any], typed: Callable[[Any], DataType | None], names: Callable[[int], str]
) -> list[DataType | None]:
    """The type that each ``Number`` and ``Listed`` has, None for other operands.

    ``typed`` gives the type of an array or tensor and None for numbers and lists.
    """
    known: dict[str, DataType] = {}
    for find in (typed, _list_type, _number_type):
        for position, operand in enumerate(operands):
            dtype = None if operand is None else find(operand)
            letter = rules.letter(position)
            if dtype is not None and letter not in known and not (find is not typed and letter in rules.usual):
                known[letter] = dtype
    for letter, usual in rules.usual.items():
        if letter not in known and (not isinstance(usual, str) or usual in known):
            known[letter] = known[usual] if isinstance(usual, str) else usual
    return [
        _type_for(operand, known.get(rules.letter(position)), names(position))
        if isinstance(operand, (Number, Listed))
        else None
        for position, operand in enumerate(operands)
    ]


def _list_type(operand: Any) -> DataType | None:
    return operand.values.dtype if isinstance(operand, Listed) else None


def _number_type(operand: Any) -> DataType | None:
    return operand.dtype if isinstance(operand, Number) else None


def _type_for(operand: Number | Listed, dtype: DataType | None, name: str) -> DataType:
    if dtype is not None:
        return dtype
    own = operand.values.dtype if isinstance(operand, Listed) else operand.dtype
    if own is None:
        assert isinstance(operand, Number)
        value = quoted(operand.value)
        message = f"nothing says which type {value} has; write np.float32({value}), for example"
        raise InvalidDescriptorError(f"{name}: {message}")
    return own


def converted(operand: Number | Listed, dtype: DataType, name: str) -> Array:
    """The values in a type. Raises InvalidDescriptorError for one that the type does not have."""
    given = operand.values if isinstance(operand, Listed) else np.asarray(operand.value)
    if given.dtype == object:  # An integer beyond 64 bits
        raise _no_value(operand.value, dtype, name)  # type: ignore[union-attr]
    with np.errstate(all="ignore"):
        values = given.astype(dtype)
        lost = _lost(given, values)
    if lost.any():
        raise _no_value(given[lost].flat[0].item(), dtype, name)
    return values


def _lost(given: Array, values: Array) -> npt.NDArray[np.bool_]:
    """Where a conversion has not kept a value as the rules want it."""
    if given.dtype.kind == "f":
        if values.dtype.kind != "f":
            return np.ones(given.shape, bool)
        return np.asarray(np.isfinite(given) & ~np.isfinite(values))
    if values.dtype.kind == "f":
        back = values.astype(np.float64)
        # Integers of 64 bits are compared as integers, where the conversion back is defined.
        inside = np.isfinite(values) & (np.abs(back) < 2.0**63)
        return np.asarray(~inside | (np.where(inside, back, 0).astype(np.int64) != given))
    limits = np.iinfo(values.dtype)
    return np.asarray((given < limits.min) | (given > limits.max))


def _no_value(value: Any, dtype: DataType, name: str) -> InvalidDescriptorError:
    return InvalidDescriptorError(f"{name}: {quoted(value)} is no value of {TensorDataType.parse(dtype).name}")


def views_of(
    rules: OperandRules,
    shapes: Sequence[Sizes | None],
    numbers: Sequence[bool],
    parameters: tuple[Any, ...],
    describe: Callable[[], str],
) -> list[View | None]:
    """How each operand is seen. Raises InvalidDescriptorError where sizes do not broadcast; ``describe`` says whose."""
    try:
        views = rules.views(shapes, parameters)
    except ValueError:
        raise InvalidDescriptorError(f"{describe()} do not broadcast to common sizes") from None
    rank = max((len(shape) for shape in shapes if shape is not None), default=0) or 1
    one = View((1,) * rank, (None,) * rank)
    return [one if view is None and is_number else view for view, is_number in zip(views, numbers, strict=True)]


def view_of(array: Array, view: View | None) -> Array:
    """An array as a view of it: the same memory."""
    if view is None:
        return array
    kept = [dimension for dimension in view.dimensions if dimension is not None]
    assert kept == list(range(array.ndim))
    placed = array[tuple(np.newaxis if dimension is None else slice(None) for dimension in view.dimensions)]
    return np.broadcast_to(placed, view.sizes)


def resolved(sizes: Sequence[int], count: int) -> tuple[int, ...] | None:
    """The sizes of a reshape of ``count`` elements; of one of -1 what is left. None if there are no such sizes."""
    sizes = tuple(sizes)
    if sizes.count(-1) == 1:
        known = -math.prod(sizes)
        if known <= 0 or count % known:
            return None
        sizes = tuple(count // known if size == -1 else size for size in sizes)
    return sizes if math.prod(sizes) == count and all(size > 0 for size in sizes) else None
