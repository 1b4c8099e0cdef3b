"""``GraphTensor``: what a tensor of a graph can do, with Python's operators, indices, and NumPy's functions."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendml.building.graph_operators import (
    Operand,
    binary,
    comparison,
    matrix_product,
    only,
    power,
    quotient,
    unary,
)
from opendml.building.layouts import LaidOut, integers, refuse
from opendml.building.numpy_functions import apply
from opendml.building.operands import resolved
from opendml.building.places import at_place, caller_place
from opendml.description.enums import OperatorType, TensorDataType
from opendml.description.operator_classes import operator_class
from opendml.description.quoting import quoted
from opendml.description.tensor import TensorDesc

Array = npt.NDArray[Any]


class GraphTensor(LaidOut):
    """A tensor of a graph: what it will be is known (``desc``), not what it holds.

    Made by ``Graph.input``, ``Graph.constant`` and all functions. On tensors, arrays, lists and numbers work, with
    NumPy's broadcasting: ``+ - * / ** @``, ``%`` (the remainder has the sign of the divisor, as Python's and NumPy's),
    ``-x``, ``abs(x)``, ``& | ^ << >> ~``, and comparisons, which give uint8, 0 or 1. NumPy's functions of elements
    (``np.exp(x)``) work where an operator means exactly the same. ``x[1:, ::-1, None]`` takes parts.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    @property
    def T(self) -> GraphTensor:  # noqa: N802
        """The dimensions in reverse order; costs nothing."""
        return self.transpose()

    def __repr__(self) -> str:
        strides = "" if self.desc.strides is None else f", strides={list(self.desc.strides)}"
        return f"GraphTensor({self.data_type.name.lower()!r}, {list(self.sizes)}{strides})"

    def reshape(self, *sizes: int | Sequence[int]) -> GraphTensor:
        """The same elements in the same order; one of the sizes may be -1, for what is left.

        Costs nothing for a packed tensor, else it is packed first.
        """
        wanted = integers(sizes)
        found = resolved(wanted, self.size)
        if found is None:
            refuse(f"{self!r} cannot have the sizes {quoted(list(wanted))}")
        return (self if self.desc.is_packed else self.packed()).reinterpret(found)

    def flatten(self) -> GraphTensor:
        """All elements in one dimension."""
        return self.reshape(-1)

    def packed(self) -> GraphTensor:
        """A packed copy (ELEMENT_WISE_IDENTITY)."""
        return unary(OperatorType.ELEMENT_WISE_IDENTITY, self)

    def astype(self, data_type: TensorDataType | str | Any) -> GraphTensor:
        """Every element converted to another type (CAST)."""
        with at_place(caller_place()):
            output = TensorDesc(data_type, self.sizes)
        desc = operator_class(OperatorType.CAST)(input_tensor=self.desc, output_tensor=output)
        return only(self.graph.append(desc, self))

    # ---- parts

    def __getitem__(self, index: Any) -> GraphTensor:
        """A part, as of a NumPy array: integers, slices of any step, ``...`` and None (SLICE1).

        A single element has the sizes {1}. Raises IndexError for an integer that is out of range, TypeError for
        anything else: ``opendml.gather`` and its kind take tensors of indices.
        """
        items = _expanded(index if isinstance(index, tuple) else (index,), self.rank)
        windows = [
            _window(item, size) for item, size in zip((i for i in items if i is not None), self.sizes, strict=True)
        ]
        if any(len(window) == 0 for window in windows):
            refuse(f"{self!r}[{quoted(index)}] would have no elements")
        part = self._sliced(windows)
        dimensions = iter(range(self.rank))
        kept = [None if item is None else next(dimensions) for item in items]
        chosen = [i for i, item in zip(kept, items, strict=True) if item is None or isinstance(item, slice)]
        if chosen == list(range(self.rank)):
            return part
        sizes = [1 if i is None else part.sizes[i] for i in chosen] or [1]
        return part.reinterpret(sizes, [1 if i is None else part.strides[i] for i in chosen] or [1])

    def __iter__(self) -> Iterator[GraphTensor]:
        """The parts along the first dimension."""
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        return self.sizes[0]

    def _sliced(self, windows: Sequence[range]) -> GraphTensor:
        """The elements at some indices along each dimension."""
        if all(window == range(size) for window, size in zip(windows, self.sizes, strict=True)):
            return self
        output = TensorDesc(self.data_type, [len(window) for window in windows])
        offsets = [min(window[0], window[-1]) for window in windows]
        desc = operator_class(OperatorType.SLICE1)(
            input_tensor=self.desc,
            output_tensor=output,
            input_window_offsets=offsets,
            input_window_sizes=[abs(window[-1] - window[0]) + 1 for window in windows],
            input_window_strides=[window.step for window in windows],
        )
        return only(self.graph.append(desc, self))

    # ---- operators

    def __add__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_ADD, self, other)

    def __radd__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_ADD, other, self)

    def __sub__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_SUBTRACT, self, other)

    def __rsub__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_SUBTRACT, other, self)

    def __mul__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_MULTIPLY, self, other)

    def __rmul__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_MULTIPLY, other, self)

    def __truediv__(self, other: Operand) -> GraphTensor:
        return quotient(self, other)

    def __rtruediv__(self, other: Operand) -> GraphTensor:
        return quotient(other, self)

    def __mod__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_MODULUS_FLOOR, self, other)

    def __rmod__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_MODULUS_FLOOR, other, self)

    def __pow__(self, other: Operand) -> GraphTensor:
        return power(self, other)

    def __rpow__(self, other: Operand) -> GraphTensor:
        return power(other, self)

    def __matmul__(self, other: Operand) -> GraphTensor:
        return matrix_product(self, other)

    def __rmatmul__(self, other: Operand) -> GraphTensor:
        return matrix_product(other, self)

    def __and__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_BIT_AND, self, other)

    def __rand__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_BIT_AND, other, self)

    def __or__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_BIT_OR, self, other)

    def __ror__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_BIT_OR, other, self)

    def __xor__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_BIT_XOR, self, other)

    def __rxor__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_BIT_XOR, other, self)

    def __lshift__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_BIT_SHIFT_LEFT, self, other)

    def __rlshift__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_BIT_SHIFT_LEFT, other, self)

    def __rshift__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_BIT_SHIFT_RIGHT, self, other)

    def __rrshift__(self, other: Operand) -> GraphTensor:
        return binary(OperatorType.ELEMENT_WISE_BIT_SHIFT_RIGHT, other, self)

    def __eq__(self, other: Operand) -> GraphTensor:  # type: ignore[override]
        return comparison(OperatorType.ELEMENT_WISE_LOGICAL_EQUALS, self, other)

    def __ne__(self, other: Operand) -> GraphTensor:  # type: ignore[override]
        return unary(OperatorType.ELEMENT_WISE_LOGICAL_NOT, self == other)

    def __lt__(self, other: Operand) -> GraphTensor:
        return comparison(OperatorType.ELEMENT_WISE_LOGICAL_LESS_THAN, self, other)

    def __le__(self, other: Operand) -> GraphTensor:
        return comparison(OperatorType.ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL, self, other)

    def __gt__(self, other: Operand) -> GraphTensor:
        return comparison(OperatorType.ELEMENT_WISE_LOGICAL_GREATER_THAN, self, other)

    def __ge__(self, other: Operand) -> GraphTensor:
        return comparison(OperatorType.ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL, self, other)

    def __pos__(self) -> GraphTensor:
        return self

    def __neg__(self) -> GraphTensor:
        if operator_class(OperatorType.ELEMENT_WISE_NEGATE).since <= self.graph.device.feature_level:
            return unary(OperatorType.ELEMENT_WISE_NEGATE, self)
        return unary(OperatorType.ELEMENT_WISE_IDENTITY, self, scale_bias=(-1.0, 0.0))

    def __abs__(self) -> GraphTensor:
        return unary(OperatorType.ELEMENT_WISE_ABS, self)

    def __invert__(self) -> GraphTensor:
        return unary(OperatorType.ELEMENT_WISE_BIT_NOT, self)

    def __bool__(self) -> bool:
        raise TypeError("a graph tensor has no truth value while the graph is built; see opendml.if_")

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError("a graph tensor has no values while the graph is built; compile the graph and run it")

    def __array_ufunc__(self, function: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        return apply(function, method, operands, options)


def reinterpret(
    input: GraphTensor,
    sizes: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    data_type: TensorDataType | str | Any = None,
) -> GraphTensor:
    """``input.reinterpret(...)``: the same bytes with other sizes, strides or another type."""
    return input.reinterpret(sizes, strides, data_type)


def _expanded(items: tuple[Any, ...], rank: int) -> list[Any]:
    """What an index says of each dimension, and None for new ones; what is left out is whole."""
    for item in items:
        if isinstance(item, (bool, np.bool_)) or not (
            item is None or item is ... or isinstance(item, (slice, int, np.integer))
        ):
            raise TypeError(f"a graph tensor takes integers, slices, ... and None as indices, not {quoted(item)}")
    given = sum(item is not None and item is not ... for item in items)
    dots = sum(item is ... for item in items)
    if dots > 1 or given > rank:
        raise IndexError(f"too many indices for a tensor of rank {rank}: {quoted(list(items))}")
    place = next((i for i, item in enumerate(items) if item is ...), len(items))
    return [*items[:place], *[slice(None)] * (rank - given), *items[place + dots :]]


def _window(item: Any, size: int) -> range:
    """The indices that an integer or a slice stands for."""
    if isinstance(item, slice):
        return range(size)[item]
    index = operator.index(item)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range for a dimension of {size}")
    return range(size)[index : index + 1 or None]
