"""Element-wise quantization to and from integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opendml.building.operands import OperandRules, Sizes, View, broadcast, together
from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, operand_rules
from opendml.functions.quantized_operands import type_or
from opendml.functions.signatures import operator_function
from opendml.operators.element_wise_quantization import (
    ElementWiseDequantizeLinear,
    ElementWiseQuantizedLinearAdd,
    ElementWiseQuantizeLinear,
)
from opendml.programs.device import Device


@operator_function
def quantize_linear(
    input: Operand,
    scale: Operand,
    zero_point: Operand | None = None,
    *,
    output_data_type: TensorDataType | str | Any = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``input / scale``, rounded (halves to even), plus the zero point, clamped (ELEMENT_WISE_QUANTIZE_LINEAR).

    ``input``: float32, float16 or int32. ``scale``: of its type, for int32 float32. ``zero_point``: uint8 or int8.
    All have the same sizes. ``output_data_type``: by default that of the zero point, UINT8 where there is none.

    >>> dml.quantize_linear(np.array([-1, 0.26, 9], "float32"), np.full(3, 0.5, "float32"), np.full(3, 5, "uint8"))
    array([ 3,  6, 23], dtype=uint8)
    """
    operands = (input, scale, zero_point)
    return evaluate_single(_quantize_linear, operands, (output_data_type,), optional=1, device=device, out=out)


@operand_rules(OperandRules("xsz", {"s": np.dtype(np.float32), "z": np.dtype(np.uint8)}, together))
def _quantize_linear(
    input: TensorDesc, scale: TensorDesc, zero_point: TensorDesc | None, output_data_type: Any
) -> Operator:
    return ElementWiseQuantizeLinear(
        input_tensor=input,
        scale_tensor=scale,
        zero_point_tensor=zero_point,
        output_tensor=TensorDesc(type_or(output_data_type, zero_point, TensorDataType.UINT8), input.sizes),
    )


@operator_function
def dequantize_linear(
    input: Operand,
    scale: Operand,
    zero_point: Operand | None = None,
    *,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``(input - zero_point) * scale`` (ELEMENT_WISE_DEQUANTIZE_LINEAR).

    ``input``: an integer of up to 32 bits. ``scale``: float32 or float16, the type of the output. ``zero_point``: of
    the type of the input. All have the same sizes.

    >>> dml.dequantize_linear(np.array([3, 7], "uint8"), np.full(2, 0.5, "float32"), np.full(2, 5, "uint8")).tolist()
    [-1.0, 1.0]
    """
    return evaluate_single(_dequantize_linear, (input, scale, zero_point), optional=1, device=device, out=out)


@operand_rules(OperandRules("xsx", {"s": np.dtype(np.float32)}, together))
def _dequantize_linear(input: TensorDesc, scale: TensorDesc, zero_point: TensorDesc | None) -> Operator:
    return ElementWiseDequantizeLinear(
        input_tensor=input,
        scale_tensor=scale,
        zero_point_tensor=zero_point,
        output_tensor=TensorDesc(scale.data_type, input.sizes),
    )


@operator_function
def quantized_linear_add(
    a: Operand,
    a_scale: Operand,
    a_zero_point: Operand | None,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = None,
    *,
    output_data_type: TensorDataType | str | Any = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The sum of two quantized arrays, quantized (ELEMENT_WISE_QUANTIZED_LINEAR_ADD).

    ``a``, ``b``: uint8 or int8, the same sizes. Scales: float32, zero points: of the type of what they belong to; all
    have one element and the rank of ``a``. ``output_data_type``: by default that of the output's zero point, where
    there is none that of ``a``.

    >>> a, one = np.array([3, 250], "uint8"), np.ones(1, "float32")
    >>> dml.quantized_linear_add(a, one, None, a, one * 2, None, one, np.array([1], "uint8")).tolist()
    [10, 255]
    """
    operands = (a, a_scale, a_zero_point, b, b_scale, b_zero_point, output_scale, output_zero_point)
    parameters = (output_data_type,)
    return evaluate_single(_quantized_linear_add, operands, parameters, optional=6, device=device, out=out)


def _sum_beside_scales(shapes: Sequence[Sizes | None], _: tuple[Any, ...]) -> Sequence[View | None]:
    """The two arrays have common sizes; scales and zero points, of one element, their rank."""
    a, b = together([shapes[0], shapes[3]])
    sizes = np.broadcast_shapes(*(shape for shape in (shapes[0], shapes[3]) if shape is not None))
    rank = max(len(sizes), 1)
    views = [broadcast(shape, (1,) * rank) if shape in ((), (1,)) else None for shape in shapes]
    return [a, *views[1:3], b, *views[4:]]


@operand_rules(OperandRules("asabsbsz", {"s": np.dtype(np.float32), "z": "a"}, _sum_beside_scales))
def _quantized_linear_add(
    a: TensorDesc,
    a_scale: TensorDesc,
    a_zero_point: TensorDesc | None,
    b: TensorDesc,
    b_scale: TensorDesc,
    b_zero_point: TensorDesc | None,
    output_scale: TensorDesc,
    output_zero_point: TensorDesc | None,
    output_data_type: Any,
) -> Operator:
    return ElementWiseQuantizedLinearAdd(
        a_tensor=a,
        a_scale_tensor=a_scale,
        a_zero_point_tensor=a_zero_point,
        b_tensor=b,
        b_scale_tensor=b_scale,
        b_zero_point_tensor=b_zero_point,
        output_scale_tensor=output_scale,
        output_zero_point_tensor=output_zero_point,
        output_tensor=TensorDesc(type_or(output_data_type, output_zero_point, a.data_type), a.sizes),
    )
