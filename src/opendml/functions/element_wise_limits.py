"""Element-wise limits: a threshold, and the gradient of clipping."""

from __future__ import annotations

from typing import Any

from opendml.building.operands import ALONE
from opendml.description.descriptors import Operator
from opendml.description.structs import ScalarUnion, ScaleBias
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, operand_rules
from opendml.functions.element_wise import packed
from opendml.functions.signatures import operator_function
from opendml.functions.versions import fits
from opendml.operators.element_wise_limits import ElementWiseClipGrad, ElementWiseClipGrad1, ElementWiseThreshold
from opendml.programs.device import Device


@operator_function
def threshold(
    input: Operand,
    *,
    min: float,
    scale_bias: ScaleBias | tuple[float, float] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``input``, or ``input * scale + bias``, and ``min`` where that is less (ELEMENT_WISE_THRESHOLD).

    ``input``: any type of up to 32 bits; for integers ``min`` is truncated. NaN stays NaN.

    >>> dml.threshold(np.array([-3, 0.5, 7], "float32"), min=1).tolist()
    [1.0, 1.0, 7.0]
    """
    return evaluate_single(_threshold, (input,), numbers=(min, scale_bias), device=device, out=out)


@operand_rules(ALONE)
def _threshold(input: TensorDesc, min: Any, scale_bias: ScaleBias | None) -> Operator:
    return ElementWiseThreshold(input_tensor=input, output_tensor=packed(input), scale_bias=scale_bias, min=min)


@operator_function
def clip_grad(
    input: Operand,
    input_gradient: Operand,
    *,
    min: float | ScalarUnion,
    max: float | ScalarUnion,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The gradient of ``clip``: ``input_gradient`` where ``min < input < max``, else 0.

    ``input``, ``input_gradient``: the same type and sizes; any type but float64. Limits that their type has as values
    are exact (ELEMENT_WISE_CLIP_GRAD1); for integers any others are converted as FLOAT (ELEMENT_WISE_CLIP_GRAD).

    >>> dml.clip_grad(np.array([0, 1, 2], "float32"), np.array([5, 6, 7], "float32"), min=0, max=2).tolist()
    [0.0, 6.0, 0.0]
    """
    return evaluate_single(_clip_grad, (input, input_gradient), numbers=(min, max), device=device, out=out)


@operand_rules(ALONE)
def _clip_grad(input: TensorDesc, input_gradient: TensorDesc, min: Any, max: Any) -> Operator:
    tensors = {
        "input_tensor": input,
        "input_gradient_tensor": input_gradient,
        "output_gradient_tensor": packed(input),
    }
    if fits(min, input.data_type) and fits(max, input.data_type):
        return ElementWiseClipGrad1(**tensors, min_max_data_type=input.data_type, min=min, max=max)
    return ElementWiseClipGrad(**tensors, min=min, max=max)
