"""``GraphTensor``: what a tensor of a graph can do, with Python's operators, indices, and NumPy's functions."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from opendml.building.operands import (
    ALONE,
    Listed,
    Number,
    OperandRules,
    Read,
    View,
    converted,
    read,
    resolved,
    together,
    types_of,
    view_of,
    views_of,
)
from opendml.building.operator_messages import in_words_of_expression
from opendml.building.places import at_place, caller_place
from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType, TensorDataType
from opendml.description.errors import BindingError, InvalidDescriptorError
from opendml.description.operator_classes import operator_class
from opendml.description.quoting import quoted
from opendml.description.tensor import MAXIMUM_DIMENSION_COUNT, TensorDesc

if TYPE_CHECKING:
    from opendml.building.graph_building import Graph

Array = npt.NDArray[Any]
Operand = Any
"""A graph tensor, or what ``opendml.building.operands`` takes for one."""

SIDES: Final = ("left", "right")
"""What messages call the operands of Python's operators."""

POWER: Final = OperandRules("xe", {"x": "e", "e": "x"}, together)
"""The exponent may have a type of its own; a number has that of what it is beside."""


class GraphTensor:
    """A tensor of a graph: what it will be is known (``desc``), not what it holds.

    Made by ``Graph.input``, ``Graph.constant`` and all functions. On tensors, arrays, lists and numbers work, with
    NumPy's broadcasting: ``+ - * / ** @``, ``%`` (the remainder has the sign of the divisor, as Python's and NumPy's),
    ``-x``, ``abs(x)``, ``& | ^ << >> ~``, and comparisons, which give uint8, 0 or 1. NumPy's functions of elements
    (``np.exp(x)``) work where an operator means exactly the same. ``x[1:, ::-1, None]`` takes parts.
    """

    __slots__ = ("desc", "graph", "source")
    __hash__ = object.__hash__

    def __init__(self, graph: Graph, desc: TensorDesc, source: Any) -> None:
        self.graph = graph
        self.desc = desc
        self.source = source

    @property
    def sizes(self) -> tuple[int, ...]:
        """Element counts, outermost dimension first."""
        return self.desc.sizes

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one to the next along each dimension."""
        return self.desc.effective_strides

    @property
    def data_type(self) -> TensorDataType:
        """The type of the elements."""
        return self.desc.data_type

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.desc.rank

    @property
    def shape(self) -> tuple[int, ...]:
        """``sizes``, as NumPy calls them."""
        return self.desc.sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the elements."""
        return self.data_type.dtype

    @property
    def ndim(self) -> int:
        """``rank``, as NumPy calls it."""
        return self.desc.rank

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.desc.element_count

    @property
    def T(self) -> GraphTensor:  # noqa: N802
        """The dimensions in reverse order; costs nothing."""
        return self.transpose()

    def __repr__(self) -> str:
        strides = "" if self.desc.strides is None else f", strides={list(self.desc.strides)}"
        return f"GraphTensor({self.data_type.name.lower()!r}, {list(self.sizes)}{strides})"

    # ---- the same bytes, seen otherwise

    def reinterpret(
        self,
        sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        data_type: TensorDataType | str | Any = None,
    ) -> GraphTensor:
        """The same bytes with other sizes, strides or another type; costs nothing.

        Without ``sizes`` they stay, and so do the strides unless given; with ``sizes`` the default is packed. The new
        tensor must fit into the bytes of the old one. Bytes that the old one's strides leave out have no value.
        """
        if sizes is None:
            sizes, strides = self.sizes, self.desc.strides if strides is None else strides
        data_type = self.data_type if data_type is None else data_type
        with at_place(caller_place()):
            desc = TensorDesc(
                data_type,
                sizes,
                strides,
                flags=self.desc.flags,
                total_size_in_bytes=self.desc.total_size_in_bytes,
                guaranteed_base_offset_alignment=self.desc.guaranteed_base_offset_alignment,
            )
            check_layout(desc)
            room = self.desc.total_size_in_bytes
            if desc.minimum_size_in_bytes > room:
                needed = desc.minimum_size_in_bytes
                raise InvalidDescriptorError(f"{desc!r} needs {needed} bytes, but {self!r} has {room}")
        return GraphTensor(self.graph, desc, self.source)

    def reshape(self, *sizes: int | Sequence[int]) -> GraphTensor:
        """The same elements in the same order; one of the sizes may be -1, for what is left.

        Costs nothing for a packed tensor, else it is packed first.
        """
        wanted = _integers(sizes)
        found = resolved(wanted, self.size)
        if found is None:
            _refuse(f"{self!r} cannot have the sizes {quoted(list(wanted))}")
        return (self if self.desc.is_packed else self.packed()).reinterpret(found)

    def flatten(self) -> GraphTensor:
        """All elements in one dimension."""
        return self.reshape(-1)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> GraphTensor:
        """Without dimensions of size 1: all of them, or those given; at least one dimension stays. Costs nothing."""
        axes = [i for i, size in enumerate(self.sizes) if size == 1] if axis is None else self._axes(axis, self.rank)
        if any(self.sizes[i] != 1 for i in axes):
            _refuse(f"{self!r} has other sizes than 1 along {quoted(list(axes))}")
        kept = [i for i in range(self.rank) if i not in axes] or [0]
        return self.reinterpret([self.sizes[i] for i in kept], [self.strides[i] for i in kept])

    def expand_dims(self, axis: int | Sequence[int]) -> GraphTensor:
        """With new dimensions of size 1, whose places in the result are given; costs nothing."""
        rank = self.rank + (1 if isinstance(axis, int) else len(axis))
        new = self._axes(axis, rank)
        old = iter(zip(self.sizes, self.strides, strict=True))
        sizes, strides = zip(*((1, 1) if i in new else next(old) for i in range(rank)), strict=True)
        return self.reinterpret(sizes, strides)

    def transpose(self, *axes: int | Sequence[int] | None) -> GraphTensor:
        """The dimensions in another order, ``sizes[axes[0]]`` first, by default reversed; costs nothing."""
        given = range(self.rank)[::-1] if not axes or axes == (None,) else _integers(axes)
        order = [axis + self.rank if -self.rank <= axis < 0 else axis for axis in given]
        if sorted(order) != list(range(self.rank)):
            _refuse(f"{quoted(list(given))} is no order of the dimensions of {self!r}")
        return self.reinterpret([self.sizes[i] for i in order], [self.strides[i] for i in order])

    def broadcast_to(self, sizes: Sequence[int]) -> GraphTensor:
        """Repeated along dimensions of size 1, and in new ones in front, like NumPy's; costs nothing."""
        sizes = tuple(sizes)
        if sizes == self.sizes:
            return self
        new = len(sizes) - self.rank
        if new < 0 or any(have not in (1, want) for have, want in zip(self.sizes, sizes[new:], strict=True)):
            _refuse(f"{self!r} does not broadcast to {quoted(list(sizes))}")
        strides = (
            0 if have == 1 and want != 1 else stride
            for have, want, stride in zip(self.sizes, sizes[new:], self.strides, strict=True)
        )
        return self.reinterpret(sizes, [*[0] * new, *strides])

    def packed(self) -> GraphTensor:
        """A packed copy (ELEMENT_WISE_IDENTITY)."""
        return unary(OperatorType.ELEMENT_WISE_IDENTITY, self)

    def astype(self, data_type: TensorDataType | str | Any) -> GraphTensor:
        """Every element converted to another type (CAST)."""
        with at_place(caller_place()):
            output = TensorDesc(data_type, self.sizes)
        desc = operator_class(OperatorType.CAST)(input_tensor=self.desc, output_tensor=output)
        return _only(self.graph.append(desc, self))

    def _axes(self, axes: int | Sequence[int], rank: int) -> list[int]:
        """Axes of a tensor of some rank, none of them negative."""
        given = [axes] if isinstance(axes, int) else list(axes)
        found = [axis + rank if -rank <= axis < 0 else axis for axis in given]
        if len(set(found)) != len(found) or not all(0 <= axis < rank for axis in found):
            _refuse(f"{quoted(given)} are no axes of {self!r}")
        return found

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
            _refuse(f"{self!r}[{quoted(index)}] would have no elements")
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
        return _only(self.graph.append(desc, self))

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
        from opendml.building.numpy_functions import apply

        return apply(function, method, operands, options)


def reinterpret(
    input: GraphTensor,
    sizes: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    data_type: TensorDataType | str | Any = None,
) -> GraphTensor:
    """``input.reinterpret(...)``: the same bytes with other sizes, strides or another type."""
    return input.reinterpret(sizes, strides, data_type)


# ---- operands


def tensors_for(
    graph: Graph,
    operands: Sequence[Operand | None],
    rules: OperandRules = ALONE,
    parameters: tuple[Any, ...] = (),
    names: Sequence[str] = ("a", "b", "c"),
) -> list[GraphTensor | None]:
    """What was given for operands, as tensors of a graph seen as the rules want it; None stays None.

    Raises BindingError for what cannot be an operand, InvalidDescriptorError for values that a type does not have and
    sizes that do not broadcast.
    """
    given: list[GraphTensor | Read | None] = [
        operand if operand is None or isinstance(operand, GraphTensor) else read(operand, name)
        for operand, name in zip(operands, names, strict=False)
    ]
    with at_place(caller_place()):
        types = types_of(rules, given, _type_of, names.__getitem__)
        found = [_with_type(*each) for each in zip(given, types, names, strict=False)]
        shapes = [None if operand is None else operand.shape for operand in found]
        numbers = [isinstance(operand, Number) for operand in given]
        views = views_of(rules, shapes, numbers, parameters, lambda: _described(found))
    return [
        None if operand is None else _seen(graph, operand, view) for operand, view in zip(found, views, strict=True)
    ]


def _with_type(
    operand: GraphTensor | Read | None, dtype: np.dtype[Any] | None, name: str
) -> GraphTensor | Array | None:
    if isinstance(operand, (Number, Listed)):
        assert dtype is not None
        return converted(operand, dtype, name)
    return operand


def _type_of(operand: Any) -> np.dtype[Any] | None:
    if isinstance(operand, (GraphTensor, np.ndarray)):
        return operand.dtype.newbyteorder("=")
    return None


def _described(operands: Sequence[GraphTensor | Array | None]) -> str:
    return " and ".join(
        f"{operand.dtype} {list(operand.shape)}" if isinstance(operand, np.ndarray) else repr(operand)
        for operand in operands
        if operand is not None
    )


def _seen(graph: Graph, operand: GraphTensor | Array, view: View | None) -> GraphTensor:
    if not isinstance(operand, GraphTensor):
        return graph.constant(view_of(operand, view))
    tensor = graph.constant(operand)
    if view is None:
        return tensor
    strides = (
        0 if i is None or (tensor.sizes[i] == 1 and size != 1) else tensor.strides[i]
        for i, size in zip(view.dimensions, view.sizes, strict=True)
    )
    return tensor.reinterpret(view.sizes, list(strides))


def _integers(values: tuple[Any, ...]) -> tuple[int, ...]:
    """Integers given one by one or as one sequence."""
    if len(values) == 1 and not isinstance(values[0], (int, np.integer)):
        values = tuple(values[0])
    return tuple(operator.index(value) for value in values)


def _refuse(message: str) -> NoReturn:
    with at_place(caller_place()):
        raise InvalidDescriptorError(message)


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


# ---- operators


def _graph_of(*operands: Operand) -> Graph:
    graph: Graph = next(operand.graph for operand in operands if isinstance(operand, GraphTensor))
    return graph


def binary(operator_type: OperatorType, a: Operand, b: Operand, data_type: TensorDataType | None = None) -> GraphTensor:
    """An operator with the fields ATensor, BTensor and OutputTensor on operands that broadcast to common sizes."""
    graph = _graph_of(a, b)
    first, second = _given(tensors_for(graph, (a, b), names=SIDES))
    output = TensorDesc(first.data_type if data_type is None else data_type, first.sizes)
    desc = operator_class(operator_type)(a_tensor=first.desc, b_tensor=second.desc, output_tensor=output)
    return _appended(graph, desc, first, second)


def comparison(operator_type: OperatorType, a: Operand, b: Operand) -> GraphTensor:
    """1 where it holds, else 0."""
    return binary(operator_type, a, b, TensorDataType.UINT8)


def unary(
    operator_type: OperatorType, input: GraphTensor, data_type: TensorDataType | None = None, **fields: Any
) -> GraphTensor:
    """An operator with the fields InputTensor and OutputTensor."""
    output = TensorDesc(input.data_type if data_type is None else data_type, input.sizes)
    desc = operator_class(operator_type)(input_tensor=input.desc, output_tensor=output, **fields)
    return _appended(input.graph, desc, input)


def quotient(a: Operand, b: Operand) -> GraphTensor:
    """``a / b`` of floating-point numbers; of integers it would be no integer."""
    for operand in (a, b):
        if isinstance(operand, GraphTensor) and operand.dtype.kind != "f":
            raise TypeError(
                f"/ gives no integers, as {operand!r} has; opendml.divide truncates, astype('float32') converts"
            )
    return binary(OperatorType.ELEMENT_WISE_DIVIDE, a, b)


def power(a: Operand, b: Operand) -> GraphTensor:
    """``a ** b``; of floating-point numbers to the power of a number with ELEMENT_WISE_CONSTANT_POW."""
    if isinstance(a, GraphTensor) and not isinstance(b, GraphTensor):
        exponent = read(b, "right")
        if isinstance(exponent, Number) and a.dtype.kind == "f":
            return unary(OperatorType.ELEMENT_WISE_CONSTANT_POW, a, exponent=float(exponent.value))
    graph = _graph_of(a, b)
    base, exponents = _given(tensors_for(graph, (a, b), POWER, names=SIDES))
    desc = operator_class(OperatorType.ELEMENT_WISE_POW)(
        input_tensor=base.desc, exponent_tensor=exponents.desc, output_tensor=TensorDesc(base.data_type, base.sizes)
    )
    return _appended(graph, desc, base, exponents)


_PRODUCT: Final = OperandRules("x")


def matrix_product(a: Operand, b: Operand) -> GraphTensor:
    """``a @ b`` as NumPy's: stacks of matrices broadcast, a vector is a row or a column (GEMM)."""
    graph = _graph_of(a, b)
    first, second = _given(tensors_for(graph, (a, b), _PRODUCT, names=SIDES))
    rows = first if first.rank > 1 else first.expand_dims(0)
    columns = second if second.rank > 1 else second.expand_dims(1)
    if rows.sizes[-1] != columns.sizes[-2]:
        _refuse(f"{first!r} @ {second!r}: {rows.sizes[-1]} columns do not meet {columns.sizes[-2]} rows")
    try:
        batch = np.broadcast_shapes(rows.sizes[:-2], columns.sizes[:-2])
    except ValueError:
        _refuse(f"{first!r} @ {second!r}: the stacks of matrices do not broadcast to common sizes")
    rows, columns = rows.broadcast_to((*batch, *rows.sizes[-2:])), columns.broadcast_to((*batch, *columns.sizes[-2:]))
    output = TensorDesc(rows.data_type, (*batch, rows.sizes[-2], columns.sizes[-1]))
    desc = operator_class(OperatorType.GEMM)(
        a_tensor=rows.desc, b_tensor=columns.desc, c_tensor=None, output_tensor=output, **_PLAIN_PRODUCT
    )
    product = _appended(graph, desc, rows, columns, None)
    dropped = [axis for axis, tensor in ((-2, first), (-1, second)) if tensor.rank == 1]
    return product.squeeze(dropped) if dropped else product


_PLAIN_PRODUCT: Final = {"trans_a": "NONE", "trans_b": "NONE", "alpha": 1.0, "beta": 0.0, "fused_activation": None}


def _given(tensors: Sequence[GraphTensor | None]) -> list[GraphTensor]:
    if any(tensor is None for tensor in tensors):
        name = next(side for side, tensor in zip(SIDES, tensors, strict=True) if tensor is None)
        raise BindingError(f"{name}: expected an array, a graph tensor or a number, got None")
    return [tensor for tensor in tensors if tensor is not None]


def _appended(graph: Graph, desc: Operator, *inputs: GraphTensor | None) -> GraphTensor:
    """The output of an operator that stands for one of Python's; what is wrong is told in its words."""
    try:
        return _only(graph.append(desc, *inputs))
    except InvalidDescriptorError as error:
        raise in_words_of_expression(error) from None


def _only(outputs: tuple[GraphTensor | None, ...]) -> GraphTensor:
    (output,) = outputs
    assert output is not None
    return output


# ---- checks


def check_layout(desc: TensorDesc) -> None:
    """What no operator allows, of a tensor that no operator has yet."""
    if not 1 <= desc.rank <= MAXIMUM_DIMENSION_COUNT:
        raise InvalidDescriptorError(f"{desc!r} must have from 1 to {MAXIMUM_DIMENSION_COUNT} dimensions")
    if min(desc.sizes) < 1:
        raise InvalidDescriptorError(f"{desc!r} must not have sizes less than 1")
    if desc.strides is not None and (len(desc.strides) != desc.rank or min(desc.strides) < 0):
        raise InvalidDescriptorError(f"{desc!r} must have one stride a dimension, none of them negative")
