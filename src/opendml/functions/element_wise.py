"""Element-wise functions: identity, add, clip, cast."""

from __future__ import annotations

from typing import Any

from opendml.building.operands import ALONE
from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.structs import ScalarUnion, ScaleBias
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, operand_rules
from opendml.functions.signatures import operator_function
from opendml.functions.versions import fits
from opendml.operators.element_wise import (
    Cast,
    ElementWiseAdd,
    ElementWiseAdd1,
    ElementWiseClip,
    ElementWiseClip1,
    ElementWiseIdentity,
)
from opendml.programs.device import Device


@operator_function
def identity(
    input: Operand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """A packed copy, or ``input * scale + bias`` (ELEMENT_WISE_IDENTITY).

    ``input``: any type and rank. Returns an array of the same type and sizes.

    >>> dml.identity(np.array([1.0, 2.0], "float32"), scale_bias=(10, 0.5)).tolist()
    [10.5, 20.5]
    """
    return evaluate_single(_identity, (input,), numbers=(scale_bias,), device=device, out=out)


@operand_rules(ALONE)
def _identity(input: TensorDesc, scale_bias: ScaleBias | None) -> Operator:
    return ElementWiseIdentity(input_tensor=input, output_tensor=packed(input), scale_bias=scale_bias)


@operator_function
def add(
    a: Operand,
    b: Operand,
    *,
    fused_activation: Operator | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``a + b`` (ELEMENT_WISE_ADD), or an activation of it (ELEMENT_WISE_ADD1). Integers wrap.

    ``a``, ``b``: the same type and sizes; any type but float64, with an activation float32 or float16.
    ``fused_activation``: an activation without tensors, such as ``dml.fused_activation.relu()``.

    >>> dml.add(np.array([1, 2], "int8"), np.array([3, 126], "int8")).tolist()
    [4, -128]
    """
    return evaluate_single(_add, (a, b), (fused_activation,), device=device, out=out)


@operand_rules(ALONE)
def _add(a: TensorDesc, b: TensorDesc, fused_activation: Operator | None) -> Operator:
    if fused_activation is None:
        return ElementWiseAdd(a_tensor=a, b_tensor=b, output_tensor=packed(a))
    return ElementWiseAdd1(a_tensor=a, b_tensor=b, output_tensor=packed(a), fused_activation=fused_activation)


@operator_function
def clip(
    input: Operand,
    min: float | ScalarUnion,
    max: float | ScalarUnion,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``input``, or ``input * scale + bias``, limited to [min, max].

    ``input``: any type but float64. Limits that its type has as values are exact (ELEMENT_WISE_CLIP1); for integers
    any others, 0.5 or infinity, are converted as FLOAT (ELEMENT_WISE_CLIP). NaN stays NaN.

    >>> dml.clip(np.array([-3, 0, 7], "int32"), 0, 5).tolist()
    [0, 0, 5]
    """
    return evaluate_single(_clip, (input,), numbers=(min, max, scale_bias), device=device, out=out)


@operand_rules(ALONE)
def _clip(input: TensorDesc, min: Any, max: Any, scale_bias: ScaleBias | None) -> Operator:
    data_type = input.data_type
    if fits(min, data_type) and fits(max, data_type):
        return ElementWiseClip1(
            input_tensor=input,
            output_tensor=packed(input),
            scale_bias=scale_bias,
            min_max_data_type=data_type,
            min=min,
            max=max,
        )
    return ElementWiseClip(input_tensor=input, output_tensor=packed(input), scale_bias=scale_bias, min=min, max=max)


@operator_function
def cast(
    input: Operand, output_data_type: TensorDataType | str | Any, *, device: Device | None = None, out: Any = None
) -> Array:
    """Every element converted to another data type (CAST).

    ``input``: any type and rank. ``output_data_type``: a ``TensorDataType``, its name, or a NumPy type. Floats are
    truncated to integers and saturate, NaN gives 0; integers wrap.

    >>> dml.cast(np.array([-1.5, 300, np.nan], "float32"), "uint8").tolist()
    [0, 255, 0]
    """
    return evaluate_single(_cast, (input,), (output_data_type,), device=device, out=out)


@operand_rules(ALONE)
def _cast(input: TensorDesc, output_data_type: Any) -> Operator:
    return Cast(input_tensor=input, output_tensor=TensorDesc(output_data_type, input.sizes))


def packed(tensor: TensorDesc) -> TensorDesc:
    """An output of the type and sizes of an input."""
    return TensorDesc(tensor.data_type, tensor.sizes)
