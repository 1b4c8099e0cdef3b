"""Element-wise operators: each output element depends on the input elements at the same coordinate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.data_types import (
    ALL,
    ALL_BUT_FLOAT64,
    FLOATS,
    FLOATS_AND_8_TO_16_BIT,
    FLOATS_AND_32_BIT,
    FLOATS_AND_32_TO_64_BIT,
    UP_TO_32_BIT,
)
from opendml.descriptors import (
    Operator,
    at,
    enumeration,
    float_value,
    levels,
    operator_desc,
    scalar_union,
    scale_bias,
    tensor_input,
    tensor_output,
)
from opendml.enums import OperatorType, TensorDataType
from opendml.operators.activation import FUSABLE

if TYPE_CHECKING:
    from opendml.fields import ScalarUnion, ScaleBias
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class ElementWise(Operator):
    """What the element-wise operators share: every tensor has the same data type and sizes."""

    in_place = True

    def check(self, rules: Rules) -> None:
        """All tensors alike; broadcasting is expressed with strides of 0."""
        tensors = [name for name, field in self.fields.items() if hasattr(field, "direction")]
        rules.same_data_type(*tensors)
        rules.same_rank(*tensors)
        rules.same_sizes(*tensors)


class ElementWiseIdentity(ElementWise, type=OperatorType.ELEMENT_WISE_IDENTITY, since="1_0"):
    """Copies each element (optionally scaled and biased); used to copy a tensor or to change its memory layout."""

    input_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    scale_bias: ScaleBias | None = scale_bias(default=None)

    support = levels(
        at("4_1", (1, 8), ALL),
        at("3_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 5), UP_TO_32_BIT),
        at("1_0", (4, 5), FLOATS),
    )


class ElementWiseAdd(ElementWise, type=OperatorType.ELEMENT_WISE_ADD, since="1_0"):
    """Adds two tensors element by element."""

    a_tensor: TensorDesc = tensor_input()
    b_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()

    support = levels(
        at("5_1", (1, 8), ALL_BUT_FLOAT64),
        at("4_1", (1, 8), FLOATS_AND_32_TO_64_BIT),
        at("3_0", (1, 8), FLOATS_AND_32_BIT),
        at("2_1", (4, 5), FLOATS_AND_32_BIT),
        at("1_0", (4, 5), FLOATS),
    )


class ElementWiseAdd1(ElementWise, type=OperatorType.ELEMENT_WISE_ADD1, since="2_0"):
    """Adds two tensors element by element, with an optional fused activation."""

    a_tensor: TensorDesc = tensor_input()
    b_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    fused_activation: Operator | None = operator_desc(FUSABLE, default=None)

    support = levels(at("3_0", (1, 8), FLOATS), at("2_0", (4, 5), FLOATS))


class ElementWiseClip(ElementWise, type=OperatorType.ELEMENT_WISE_CLIP, since="1_0"):
    """Clamps each element to the closed interval [Min, Max] (FLOAT limits). Without tensors a fused activation."""

    input_tensor: TensorDesc = tensor_input(default=None, optional=False)
    output_tensor: TensorDesc = tensor_output(default=None, optional=False)
    scale_bias: ScaleBias | None = scale_bias(default=None)
    min: float = float_value()
    max: float = float_value()

    support = levels(
        at("5_0", (1, 8), ALL_BUT_FLOAT64),
        at("3_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
        at("1_0", (4, 4), FLOATS),
    )


class ElementWiseClip1(ElementWise, type=OperatorType.ELEMENT_WISE_CLIP1, since="5_0"):
    """Clamps each element to the closed interval [Min, Max], limits given in the data type of the tensor."""

    input_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    scale_bias: ScaleBias | None = scale_bias(default=None)
    min_max_data_type: TensorDataType = enumeration(TensorDataType)
    min: ScalarUnion = scalar_union("min_max_data_type")
    max: ScalarUnion = scalar_union("min_max_data_type")

    support = levels(at("5_0", (1, 8), ALL_BUT_FLOAT64))

    def check(self, rules: Rules) -> None:
        """The limits have the tensors' type."""
        super().check(rules)
        rules.is_data_type_of("min_max_data_type", "output_tensor")


class Cast(Operator, type=OperatorType.CAST, since="1_0"):
    """Converts each element to the data type of the output."""

    input_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()

    support = levels(
        at("4_1", (1, 8), ALL),
        at("3_1", (1, 8), ALL_BUT_FLOAT64),
        at("3_0", (4, 4), ALL_BUT_FLOAT64),
        at("1_0", (4, 4), FLOATS_AND_8_TO_16_BIT),
    )

    def check(self, rules: Rules) -> None:
        """Any two data types, the same sizes."""
        rules.same_rank("input_tensor", "output_tensor")
        rules.same_sizes("input_tensor", "output_tensor")
