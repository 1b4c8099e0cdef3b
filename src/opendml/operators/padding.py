"""PADDING, PADDING1 and TILE: larger tensors out of smaller ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.data_types import ALL, ALL_BUT_FLOAT64, FLOATS, UP_TO_32_BIT
from opendml.descriptors import (
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
from opendml.enums import OperatorType, PaddingMode, TensorDataType

if TYPE_CHECKING:
    from opendml.fields import ScalarUnion
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class Padding(Operator, type=OperatorType.PADDING, since="1_0"):
    """Enlarges a tensor on every side, filling with a constant or with replicated or mirrored values."""

    input_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    padding_mode: PaddingMode = enumeration(PaddingMode)
    padding_value: float = float_value()
    dimension_count: int = count_of("start_padding", default=None)
    start_padding: tuple[int, ...] = uint_array(count="dimension_count")
    end_padding: tuple[int, ...] = uint_array(count="dimension_count")

    support = levels(
        at("5_0", (1, 8), ALL),
        at("3_1", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 5), UP_TO_32_BIT),
        at("1_0", (4, 5), FLOATS),
    )

    def check(self, rules: Rules) -> None:
        """As ``check_padding``."""
        check_padding(rules)


class Padding1(Operator, type=OperatorType.PADDING1, since="5_0"):
    """Padding whose constant value has its own, exact data type."""

    input_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    padding_mode: PaddingMode = enumeration(PaddingMode)
    padding_value_data_type: TensorDataType = enumeration(TensorDataType)
    padding_value: ScalarUnion = scalar_union("padding_value_data_type")
    dimension_count: int = count_of("start_padding", default=None)
    start_padding: tuple[int, ...] = uint_array(count="dimension_count")
    end_padding: tuple[int, ...] = uint_array(count="dimension_count")

    support = levels(at("5_0", (1, 8), ALL))

    def check(self, rules: Rules) -> None:
        """As ``check_padding``; the value has the tensors' type, whatever the mode."""
        check_padding(rules)
        rules.is_data_type_of("padding_value_data_type", "output_tensor")


def check_padding(rules: Rules) -> None:
    """The output is the input and its padding. Any amount of padding is allowed in every mode."""
    rules.same_data_type("input_tensor", "output_tensor")
    rules.same_rank("input_tensor", "output_tensor")
    rules.count_is_rank("dimension_count", "input_tensor")
    if rules.aligned("input_tensor", "start_padding", "end_padding") and rules.ready("output_tensor"):
        parts = zip(
            rules.tensor("input_tensor").sizes,
            rules.integers("start_padding"),
            rules.integers("end_padding"),
            strict=True,
        )
        rules.sizes_are("output_tensor", [sum(part) for part in parts], "InputSize + StartPadding + EndPadding")


class Tile(Operator, type=OperatorType.TILE, since="1_0"):
    """Repeats a tensor a whole number of times along each dimension."""

    input_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    repeats_count: int = count_of("repeats", default=None)
    repeats: tuple[int, ...] = uint_array(count="repeats_count")

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
        rules.count_is_rank("repeats_count", "input_tensor")
        rules.each_at_least("repeats", 1)
        if rules.aligned("input_tensor", "repeats") and rules.ready("output_tensor"):
            sizes = [size * count for size, count in zip(self.input_tensor.sizes, self.repeats, strict=True)]
            rules.sizes_are("output_tensor", sizes, "InputSize * Repeats")
