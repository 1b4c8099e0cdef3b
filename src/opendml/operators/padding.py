"""PADDING, PADDING1 and TILE: larger tensors out of smaller ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from opendml.description.data_types import ALL, ALL_BUT_FLOAT64, FLOATS, UP_TO_32_BIT
from opendml.description.descriptors import (
    Operator,
    at,
    count_of,
    enumeration,
    float_value,
    levels,
    scalar_union,
    tensor_input,
    tensor_output,
    uint_array,
)
from opendml.description.enums import OperatorType, PaddingMode, TensorDataType
from opendml.description.tensor import MAXIMUM_UINT
from opendml.expression.element_types import I64
from opendml.expression.ir import Expression, both, constant, grid, in_range, index, indices, load, select
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.definition import converted, every_element, scalar, tensor
from opendml.operators.element_types import ELEMENT_TYPE_OF

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Integers, Member, Number, Scalar, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class Padding(Operator, type=OperatorType.PADDING, since="1_0"):
    """Enlarges a tensor on every side, filling with a constant or with replicated or mirrored values."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    padding_mode: Member[PaddingMode] = enumeration(PaddingMode)
    padding_value: Number = float_value()
    dimension_count: Count = count_of("start_padding", default=None, rank_of=("input_tensor", "output_tensor"))
    start_padding: Integers = uint_array(count="dimension_count")
    end_padding: Integers = uint_array(count="dimension_count")

    support = levels(
        at("5_0", (1, 8), ALL),
        at("3_1", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 5), UP_TO_32_BIT),
        at("1_0", (4, 5), FLOATS),
    )

    def check(self, rules: Rules) -> None:
        """As ``check_padding``."""
        check_padding(rules)

    def define(self) -> Definition:
        """One map over the output; PaddingValue is converted to the tensor's type."""
        return _padded(self, converted(self.padding_value, ELEMENT_TYPE_OF[self.output_tensor.data_type]))


class Padding1(Operator, type=OperatorType.PADDING1, since="5_0"):
    """Padding whose constant value has its own, exact data type."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    padding_mode: Member[PaddingMode] = enumeration(PaddingMode)
    padding_value_data_type: Member[TensorDataType] = enumeration(TensorDataType)
    padding_value: Scalar = scalar_union("padding_value_data_type")
    dimension_count: Count = count_of("start_padding", default=None, rank_of=("input_tensor", "output_tensor"))
    start_padding: Integers = uint_array(count="dimension_count")
    end_padding: Integers = uint_array(count="dimension_count")

    support = levels(at("5_0", (1, 8), ALL))

    def check(self, rules: Rules) -> None:
        """As ``check_padding``; the value has the tensors' type, whatever the mode."""
        check_padding(rules)
        rules.is_data_type_of("padding_value_data_type", "output_tensor")

    def define(self) -> Definition:
        """As PADDING, with the bits of PaddingValue."""
        return _padded(self, scalar(self.padding_value, ELEMENT_TYPE_OF[self.output_tensor.data_type]))


def check_padding(rules: Rules) -> None:
    """The output is the input and its padding. Any amount of padding is allowed in every mode."""
    rules.same_data_type("input_tensor", "output_tensor")
    rules.same_rank("input_tensor", "output_tensor")
    if rules.rank("input_tensor") == rules.rank("output_tensor"):
        for i, parts in rules.along("input_tensor", "start_padding", "end_padding"):
            rules.size_is("output_tensor", i, sum(parts), "InputTensor.Sizes[i] + StartPadding[i] + EndPadding[i]")


class Tile(Operator, type=OperatorType.TILE, since="1_0"):
    """Repeats a tensor a whole number of times along each dimension."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    repeats_count: Count = count_of("repeats", default=None, rank_of=("input_tensor", "output_tensor"))
    repeats: Integers = uint_array(count="repeats_count")

    support = levels(
        at("4_1", (1, 8), ALL_BUT_FLOAT64),
        at("3_1", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
        at("1_0", (4, 4), FLOATS),
    )

    def check(self, rules: Rules) -> None:
        """The output is that many times the input."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "output_tensor")
        rules.each_at_least("repeats", 1)
        if rules.rank("input_tensor") == rules.rank("output_tensor"):
            for i, (size, count) in rules.along("input_tensor", "repeats"):
                rules.size_is("output_tensor", i, size * count, "InputTensor.Sizes[i] * Repeats[i]")

    def define(self) -> Definition:
        """One copy with two axes a dimension, the repetition and the element in it."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        copies, elements = grid(self.repeats, "abcdefgh"), grid(source.sizes)
        axes = tuple(axis for pair in zip(copies, elements, strict=True) for axis in pair)
        place = tuple(index(r) * i.size + index(i) for r, i in zip(copies, elements, strict=True))
        copy = Compute(axes, (Store(target, place, load(source, indices(elements))),))
        return Definition((source,), (target,), (copy,))


def _padded(desc: Padding | Padding1, value: Expression) -> Definition:
    """One map over the output; ``value`` fills what is outside in mode CONSTANT."""
    source = tensor("InputTensor", desc.input_tensor, "input")
    target = tensor("OutputTensor", desc.output_tensor, "output")
    dimensions = tuple(zip(source.sizes, desc.start_padding, desc.end_padding, strict=True))

    def constant_outside(o: tuple[Expression, ...]) -> Expression:
        place = [i - start for i, (_, start, _) in zip(o, dimensions, strict=True)]
        inside = both(
            in_range(i, size) for i, (size, start, end) in zip(place, dimensions, strict=True) if start or end
        )
        return select(inside, load(source, place), value)

    def repeated(o: tuple[Expression, ...]) -> Expression:
        return load(source, [_source(desc.padding_mode, i, *each) for i, each in zip(o, dimensions, strict=True)])

    element = constant_outside if desc.padding_mode is PaddingMode.CONSTANT else repeated
    return Definition((source,), (target,), (every_element(target, element),))


def _source(mode: PaddingMode, position: Expression, size: int, start: int, end: int) -> Expression:
    """The input's coordinate for an output's ``position`` along a dimension.

    Paddings within one period are selects of affine pieces, which the code generator takes apart into loops.
    """
    if size == 1:
        return constant(0, I64)
    inside = position - start
    before, after, reach = _BESIDE[mode](inside, size)
    if max(start, end) > reach:
        period = _PERIODS[mode](size)
        return _periodic(position + -start % period, size, period)
    within = select(inside >= size, after, inside) if end else inside
    return select(inside < 0, before, within) if start else within


# Where a coordinate before and one after the input reads, and how far outside that holds.
_BESIDE: Final[dict[PaddingMode, Callable[[Expression, int], tuple[Expression, Expression, int]]]] = {
    PaddingMode.EDGE: lambda i, size: (constant(0, I64), constant(size - 1, I64), MAXIMUM_UINT),
    PaddingMode.REFLECTION: lambda i, size: (0 - i, 2 * (size - 1) - i, size - 1),
    PaddingMode.SYMMETRIC: lambda i, size: (-1 - i, 2 * size - 1 - i, size),
    PaddingMode.WRAP: lambda i, size: (i + size, i - size, size),
}

_PERIODS: Final[dict[PaddingMode, Callable[[int], int]]] = {
    PaddingMode.REFLECTION: lambda size: 2 * (size - 1),
    PaddingMode.SYMMETRIC: lambda size: 2 * size,
    PaddingMode.WRAP: lambda size: size,
}


def _periodic(position: Expression, size: int, period: int) -> Expression:
    """The coordinate in an input repeated with ``period``, mirrored in the second half of a longer period."""
    phase = position % period
    if period == size:
        return phase
    mirrored = (2 * size - 1 if period == 2 * size else period) - phase
    return select(phase < size, phase, mirrored)
