"""Element-wise limits: a threshold, and the gradients of clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.description.data_types import ALL_BUT_FLOAT64, FLOATS, UP_TO_32_BIT
from opendml.description.descriptors import (
    at,
    enumeration,
    float_value,
    levels,
    scalar_union,
    tensor_input,
    tensor_output,
)
from opendml.description.enums import OperatorType, TensorDataType
from opendml.expression.ir import Expression, select
from opendml.expression.statements import Definition
from opendml.operators.definition import converted, scalar, widen
from opendml.operators.element_types import ELEMENT_TYPE_OF
from opendml.operators.element_wise import ElementWise, ScaledElementWise, each_element

if TYPE_CHECKING:
    from opendml.description.field_types import Member, Number, Scalar, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class ElementWiseThreshold(ScaledElementWise, type=OperatorType.ELEMENT_WISE_THRESHOLD, since="1_0"):
    """Replaces every element below Min (a FLOAT limit) by Min."""

    min: Number = float_value()

    support = levels(
        at("3_0", (1, 8), UP_TO_32_BIT),
        at("2_1", (4, 4), UP_TO_32_BIT),
        at("1_0", (4, 4), FLOATS),
    )

    def element(self, x: Expression) -> Expression:
        """``max(x, Min)`` with Min converted to the tensor's type; NaN stays, a limit that is NaN is none."""
        limit = widen(converted(self.min, ELEMENT_TYPE_OF[self.output_tensor.data_type]))
        return select(x < limit, limit, x)


class ClipGrad(ElementWise):
    """What the gradients of CLIP share: the incoming gradient where Min < x < Max, else 0."""

    input_tensor: Value[TensorDesc] = tensor_input()
    input_gradient_tensor: Value[TensorDesc] = tensor_input()
    output_gradient_tensor: Value[TensorDesc] = tensor_output()


class ElementWiseClipGrad(ClipGrad, type=OperatorType.ELEMENT_WISE_CLIP_GRAD, since="3_1"):
    """Gradient of CLIP: the incoming gradient where Min < x < Max (FLOAT limits), else 0."""

    min: Number = float_value()
    max: Number = float_value()

    support = levels(at("5_0", (1, 8), ALL_BUT_FLOAT64), at("3_1", (1, 8), UP_TO_32_BIT))

    def define(self) -> Definition:
        """The limits are converted to the tensors' type, as CLIP's are."""
        type = ELEMENT_TYPE_OF[self.input_tensor.data_type]
        return _clip_grad(self, converted(self.min, type), converted(self.max, type))


class ElementWiseClipGrad1(ClipGrad, type=OperatorType.ELEMENT_WISE_CLIP_GRAD1, since="5_0"):
    """Gradient of CLIP1: the incoming gradient where Min < x < Max, else 0; limits in the data type of the tensors."""

    min_max_data_type: Member[TensorDataType] = enumeration(TensorDataType)
    min: Scalar = scalar_union("min_max_data_type")
    max: Scalar = scalar_union("min_max_data_type")

    support = levels(at("5_0", (1, 8), ALL_BUT_FLOAT64))

    def check(self, rules: Rules) -> None:
        """The limits have the tensors' type."""
        super().check(rules)
        rules.is_data_type_of("min_max_data_type", "output_gradient_tensor")

    def define(self) -> Definition:
        """As CLIP_GRAD, with limits of the tensors' own type."""
        type = ELEMENT_TYPE_OF[self.input_tensor.data_type]
        return _clip_grad(self, scalar(self.min, type), scalar(self.max, type))


def _clip_grad(desc: ClipGrad, low: Expression, high: Expression) -> Definition:
    """The gradient is copied as it is stored; NaN in x is beyond no limit."""

    def gradient(x: Expression, incoming: Expression) -> Expression:
        beyond = (widen(x) <= widen(low)) | (widen(x) >= widen(high))
        return select(beyond, 0, incoming)

    return each_element(desc, gradient)
