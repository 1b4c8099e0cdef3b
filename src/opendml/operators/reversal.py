"""REVERSE_SUBSEQUENCES: the beginnings of sequences reversed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.description.data_types import ALL, UINT32_ONLY, UINT32_OR_64, UP_TO_32_BIT
from opendml.description.descriptors import Operator, at, levels, tensor_input, tensor_output, uint
from opendml.description.enums import OperatorType
from opendml.expression.element_types import I64
from opendml.expression.ir import Expression, binary, cast, constant, load, select
from opendml.expression.statements import Definition
from opendml.operators.definition import every_element, tensor

if TYPE_CHECKING:
    from opendml.description.field_types import Integer, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class ReverseSubsequences(Operator, type=OperatorType.REVERSE_SUBSEQUENCES, since="2_1"):
    """Reverses the first elements of every sequence along an axis, as many as its length says, and copies the rest.

    A length beyond the end of its sequence means the whole sequence.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    sequence_lengths_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    axis: Integer = uint()

    support = levels(
        at("5_0", (1, 8), ALL, sequence_lengths_tensor=UINT32_OR_64),
        at("4_0", (1, 8), UP_TO_32_BIT, sequence_lengths_tensor=UINT32_ONLY),
        at("3_0", (4, 5), UP_TO_32_BIT, sequence_lengths_tensor=UINT32_ONLY),
        at("2_1", (4, 4), UP_TO_32_BIT, sequence_lengths_tensor=UINT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """One length a sequence."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "sequence_lengths_tensor", "output_tensor")
        rules.same_sizes("input_tensor", "output_tensor")
        rules.axis_in_range("axis", "input_tensor")
        rules.same_sizes_but_for_axis("sequence_lengths_tensor", "input_tensor", 1)

    def define(self) -> Definition:
        """One copy whose coordinate along the axis depends on the length."""
        source = tensor("InputTensor", self.input_tensor, "input")
        lengths = tensor("SequenceLengthsTensor", self.sequence_lengths_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        axis, size = self.axis, target.sizes[self.axis]

        def value(o: tuple[Expression, ...]) -> Expression:
            before, i, after = o[:axis], o[axis], o[axis + 1 :]
            given = load(lengths, (*before, constant(0, I64), *after))
            length = cast(binary("min", given, size), I64)
            position = select(i < length, length - 1 - i, i)
            return load(source, (*before, position, *after))

        return Definition((source, lengths), (target,), (every_element(target, value),))
