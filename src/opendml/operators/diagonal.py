"""DIAGONAL_MATRIX and DIAGONAL_MATRIX1: matrices with a value on a band of diagonals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.description.data_types import ALL, FLOATS, UP_TO_32_BIT
from opendml.description.descriptors import (
    Operator,
    at,
    enumeration,
    float_value,
    int_value,
    levels,
    scalar_union,
    tensor_input,
    tensor_output,
)
from opendml.description.enums import OperatorType, TensorDataType
from opendml.expression.element_types import BOOL, I32, I64
from opendml.expression.ir import Const, Expression, Tensor, cast, constant, load, select
from opendml.expression.statements import Definition
from opendml.operators.definition import converted, every_element, optional_tensor, scalar, tensor

if TYPE_CHECKING:
    from opendml.description.field_types import Integer, Member, Number, Scalar, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class DiagonalMatrix(Operator, type=OperatorType.DIAGONAL_MATRIX, since="2_0"):
    """Generates matrices with one value on a diagonal and zeros elsewhere.

    The last two dimensions are rows and columns. A positive ``offset`` moves the diagonal to the right.
    """

    output_tensor: Value[TensorDesc] = tensor_output()
    offset: Integer = int_value()
    value: Number = float_value()

    support = levels(
        at("5_1", (2, 4), ALL),
        at("4_0", (2, 4), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
        at("2_0", (4, 4), FLOATS),
    )

    def define(self) -> Definition:
        """A comparison an element."""
        target = tensor("OutputTensor", self.output_tensor, "output")
        return _band(target, None, converted(self.value, target.type), self.offset, self.offset + 1)


class DiagonalMatrix1(Operator, type=OperatorType.DIAGONAL_MATRIX1, since="5_1"):
    """Fills a band of diagonals of matrices, or all but that, with a value and keeps the input, or zero, elsewhere.

    The element in row y and column x is on diagonal x - y. The band reaches from ``diagonal_fill_begin`` to before
    ``diagonal_fill_end``; where the end is less than the beginning, all that is not from the end to before the
    beginning is filled.
    """

    input_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()
    value_data_type: Member[TensorDataType] = enumeration(TensorDataType)
    value: Scalar = scalar_union("value_data_type")
    diagonal_fill_begin: Integer = int_value()
    diagonal_fill_end: Integer = int_value()

    support = levels(at("5_1", (2, 4), ALL))

    def check(self, rules: Rules) -> None:
        """Two tensors alike, and a value of their type."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "output_tensor")
        rules.same_sizes("input_tensor", "output_tensor")
        rules.is_data_type_of("value_data_type", "output_tensor")

    def define(self) -> Definition:
        """Two comparisons an element."""
        source = optional_tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        value = scalar(self.value, target.type)
        return _band(target, source, value, self.diagonal_fill_begin, self.diagonal_fill_end, (source,))


def _band(
    target: Tensor, source: Tensor | None, value: Const, begin: int, end: int, inputs: tuple[Tensor | None, ...] = ()
) -> Definition:
    """``value`` on the diagonals ``begin`` to before ``end`` (where that is less: on all but ``end`` to before
    ``begin``), elsewhere the source or zero."""
    height, width = target.sizes[-2:]
    # Diagonals of 32 bits take half the registers of those of 64.
    type = I32 if height + width < 1 << 31 else I64

    def at_least(diagonal: Expression, bound: int) -> Expression:
        if -height < bound < width:
            return diagonal >= bound
        return constant(bound <= -height, BOOL)

    def element(o: tuple[Expression, ...]) -> Expression:
        diagonal = cast(o[-1] - o[-2], type)
        after_begin, before_end = at_least(diagonal, begin), ~at_least(diagonal, end)
        is_filled = after_begin & before_end if begin <= end else after_begin | before_end
        kept = constant(0, target.type) if source is None else load(source, o)
        return select(is_filled, value, kept)

    return Definition(inputs, (target,), (every_element(target, element),))
