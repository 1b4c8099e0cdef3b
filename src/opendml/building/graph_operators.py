"""Operators that stand for Python's: operands that broadcast, in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import numpy as np
import numpy.typing as npt

from opendml.building.layouts import LaidOut, refuse
from opendml.building.operands import (
    ALONE,
    Listed,
    Number,
    OperandRules,
    Read,
    View,
    converted,
    read,
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
from opendml.description.tensor import TensorDesc

if TYPE_CHECKING:
    from opendml.building.graph_building import Graph
    from opendml.building.graph_tensor import GraphTensor

Array = npt.NDArray[Any]
Operand = Any
"""A graph tensor, or what ``opendml.building.operands`` takes for one."""

SIDES: Final = ("left", "right")
"""What messages call the operands of Python's operators."""

POWER: Final = OperandRules("xe", {"x": "e", "e": "x"}, together)
"""The exponent may have a type of its own; a number has that of what it is beside."""


def is_graph_tensor(value: object) -> TypeGuard[GraphTensor]:
    """Whether a value is a tensor of a graph: they compute, so their class knows this file, and not this file it."""
    return isinstance(value, LaidOut)


def _graph_of(*operands: Operand) -> Graph:
    graph: Graph = next(operand.graph for operand in operands if is_graph_tensor(operand))
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
        if is_graph_tensor(operand) and operand.dtype.kind != "f":
            raise TypeError(
                f"/ gives no integers, as {operand!r} has; opendml.divide truncates, astype('float32') converts"
            )
    return binary(OperatorType.ELEMENT_WISE_DIVIDE, a, b)


def power(a: Operand, b: Operand) -> GraphTensor:
    """``a ** b``; of floating-point numbers to the power of a number with ELEMENT_WISE_CONSTANT_POW."""
    if is_graph_tensor(a) and not is_graph_tensor(b):
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
        refuse(f"{first!r} @ {second!r}: {rows.sizes[-1]} columns do not meet {columns.sizes[-2]} rows")
    try:
        batch = np.broadcast_shapes(rows.sizes[:-2], columns.sizes[:-2])
    except ValueError:
        refuse(f"{first!r} @ {second!r}: the stacks of matrices do not broadcast to common sizes")
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
        return only(graph.append(desc, *inputs))
    except InvalidDescriptorError as error:
        raise in_words_of_expression(error) from None


def only(outputs: tuple[GraphTensor | None, ...]) -> GraphTensor:
    """The output of an operator that has one."""
    (output,) = outputs
    assert output is not None
    return output


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
        operand if operand is None or is_graph_tensor(operand) else read(operand, name)
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
    if is_graph_tensor(operand) or isinstance(operand, np.ndarray):
        return operand.dtype.newbyteorder("=")
    return None


def _described(operands: Sequence[GraphTensor | Array | None]) -> str:
    return " and ".join(
        f"{operand.dtype} {list(operand.shape)}" if isinstance(operand, np.ndarray) else repr(operand)
        for operand in operands
        if operand is not None
    )


def _seen(graph: Graph, operand: GraphTensor | Array, view: View | None) -> GraphTensor:
    if isinstance(operand, np.ndarray):
        return graph.constant(view_of(operand, view))
    tensor = graph.constant(operand)
    if view is None:
        return tensor
    strides = (
        0 if i is None or (tensor.sizes[i] == 1 and size != 1) else tensor.strides[i]
        for i, size in zip(view.dimensions, view.sizes, strict=True)
    )
    return tensor.reinterpret(view.sizes, list(strides))
