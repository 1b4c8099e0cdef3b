"""Quantization to and from 8 and 4 bits: quantize, dequantize, dynamic_quantize_linear.

NumPy has no types of 4 bits: their tensors are arrays of uint8 of one dimension, two elements a byte, the first one in
the lower half, rows following one another without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from opendml.building.operands import OperandRules, Sizes, View
from opendml.description.descriptors import Operator
from opendml.description.enums import QuantizationType, TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate, evaluate_single, integers, operand_rules
from opendml.functions.quantized_operands import type_or
from opendml.functions.several import several
from opendml.functions.signatures import operator_function
from opendml.operators.quantization import Dequantize, DynamicQuantizeLinear, Quantize
from opendml.programs.device import Device

T = TypeVar("T")


@operator_function
def quantize(
    input: Operand,
    scale: Operand,
    zero_point: Operand | None = None,
    *,
    output_data_type: TensorDataType | str | Any = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``input / scale``, rounded (halves to even), plus the zero point, clamped, in blocks (QUANTIZE).

    ``input``: float32 or float16. ``scale``: of its type and rank; along each dimension its size divides that of the
    input, and each of its elements is for a block of them. ``zero_point``: of the scale's sizes. A number is for all.
    ``output_data_type``: uint8, int8, uint4 or int4; by default the type of the zero point, UINT8 where there is none.
    The zero point of a 4-bit type, and the result, are arrays of bytes of one dimension.

    >>> x, scale = np.array([[1, 2, 8, -4]], "float32"), np.array([[1, 2]], "float32")
    >>> dml.quantize(x, scale, output_data_type="int8").tolist()
    [[1, 2, 4, -2]]
    >>> dml.quantize(x, scale, output_data_type="int4").tolist()
    [33, 228]
    """
    if zero_point is None:
        return evaluate_single(_quantize_by_scale, (input, scale), (output_data_type,), device=device, out=out)
    return evaluate_single(_quantize, (input, scale, zero_point), (output_data_type,), device=device, out=out)


def _number_for_all(shapes: Sequence[Sizes | None], _: tuple[Any, ...]) -> Sequence[View | None]:
    """A scale or zero point that is a number, or an array of one number, has the rank of the input."""
    rank = 0 if shapes[0] is None else len(shapes[0])
    views: list[View | None] = [None]
    for shape in shapes[1:]:
        view = View((1,) * rank, tuple(0 if shape and d == rank - 1 else None for d in range(rank)))
        views.append(view if shape in ((), (1,)) and rank else None)
    return views


@operand_rules(OperandRules("xx", views=_number_for_all))
def _quantize_by_scale(input: TensorDesc, scale: TensorDesc, output_data_type: Any) -> Operator:
    return _quantize(input, scale, None, output_data_type)


@operand_rules(OperandRules("xxz", {"z": np.dtype(np.uint8)}, _number_for_all))
def _quantize(input: TensorDesc, scale: TensorDesc, zero_point: TensorDesc | None, output_data_type: Any) -> Operator:
    output = TensorDesc(type_or(output_data_type, zero_point, TensorDataType.UINT8), input.sizes)
    return Quantize(input_tensor=input, output_tensor=output, **_parameters(scale, zero_point, output))


@operator_function
def dequantize(
    input: Operand,
    scale: Operand,
    zero_point: Operand | None = None,
    *,
    input_data_type: TensorDataType | str | Any = None,
    input_sizes: Sequence[int] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``(input - zero_point) * scale``, in blocks (DEQUANTIZE).

    ``input``: uint8 or int8; or the bytes of a 4-bit tensor, then ``input_data_type`` is uint4 or int4 and
    ``input_sizes`` are its sizes. ``scale``: float32 or float16, the type of the result, of the input's rank; along
    each dimension its size divides that of the input, and each of its elements is for a block of them. ``zero_point``:
    of the type of the input and the sizes of the scale. A number is for all.

    >>> scale = np.array([[1, 2]], "float32")
    >>> dml.dequantize(np.array([[1, 2, 4, -2]], "int8"), scale).tolist()
    [[1.0, 2.0, 8.0, -4.0]]
    >>> bytes = np.array([33, 228], "uint8")
    >>> dml.dequantize(bytes, scale, input_data_type="int4", input_sizes=[1, 4]).tolist()
    [[1.0, 2.0, 8.0, -4.0]]
    """
    parameters = (input_data_type, integers(input_sizes))
    if zero_point is None:
        return evaluate_single(_dequantize_by_scale, (input, scale), parameters, device=device, out=out)
    return evaluate_single(_dequantize, (input, scale, zero_point), parameters, device=device, out=out)


def _beside_scale(shapes: Sequence[Sizes | None], parameters: tuple[Any, ...]) -> Sequence[View | None]:
    """As of ``quantize``; the rank is that of the sizes, where the input is bytes."""
    sizes = parameters[1] if isinstance(parameters[1], tuple) else shapes[0]
    return [None, *_number_for_all([sizes, *shapes[1:]], ())[1:]]


@operand_rules(OperandRules("xs", {"s": np.dtype(np.float32)}, _beside_scale))
def _dequantize_by_scale(input: TensorDesc, scale: TensorDesc, input_data_type: Any, input_sizes: Any) -> Operator:
    return _dequantize(input, scale, None, input_data_type, input_sizes)


@operand_rules(OperandRules("xsx", {"s": np.dtype(np.float32)}, _beside_scale))
def _dequantize(
    input: TensorDesc, scale: TensorDesc, zero_point: TensorDesc | None, input_data_type: Any, input_sizes: Any
) -> Operator:
    if input_data_type is not None or input_sizes is not None:
        sizes = input.sizes if input_sizes is None else input_sizes
        input = TensorDesc(input.data_type if input_data_type is None else input_data_type, sizes)
    output = TensorDesc(scale.data_type, input.sizes)
    return Dequantize(input_tensor=input, output_tensor=output, **_parameters(scale, zero_point, input))


def _parameters(scale: TensorDesc, zero_point: TensorDesc | None, whole: TensorDesc) -> dict[str, Any]:
    """The fields for scale and zero point; of a 4-bit type this one is given as bytes."""
    if zero_point is None:
        return {"quantization_type": QuantizationType.SCALE, "quantization_tensors": [scale]}
    if whole.data_type.bits == 4 and zero_point.data_type is TensorDataType.UINT8:
        zero_point = TensorDesc(whole.data_type, scale.sizes)
    return {"quantization_type": QuantizationType.SCALE_ZERO_POINT, "quantization_tensors": [scale, zero_point]}


@several
class DynamicQuantizeLinearOutputs(NamedTuple, Generic[T]):
    """What ``dynamic_quantize_linear`` returns; scale and zero point have one element and the rank of the output."""

    output: T
    scale: T
    zero_point: T


@operator_function
def dynamic_quantize_linear(
    input: Operand,
    *,
    output_data_type: TensorDataType | str | Any = TensorDataType.UINT8,
    device: Device | None = None,
    out: Any = None,
) -> DynamicQuantizeLinearOutputs[Any]:
    """The input quantized by a scale and zero point that its own range gives (DYNAMIC_QUANTIZE_LINEAR).

    ``input``: float32 or float16, any rank. ``output_data_type``: uint8 or int8. The range is that of the input and 0;
    the scale is a 255th of it, in float32, the zero point what 0 becomes.

    >>> quantized = dml.dynamic_quantize_linear(np.array([-1, 0, 2, 4], "float32"))
    >>> quantized.output.tolist(), quantized.scale.tolist(), quantized.zero_point.tolist()
    ([0, 51, 153, 255], [0.019607843831181526], [51])
    """
    outputs = evaluate(_dynamic_quantize_linear, (input,), (output_data_type,), device=device, out=out)
    return DynamicQuantizeLinearOutputs(*outputs)


def _dynamic_quantize_linear(input: TensorDesc, output_data_type: Any) -> Operator:
    one = [1] * input.rank
    return DynamicQuantizeLinear(
        input_tensor=input,
        output_tensor=TensorDesc(output_data_type, input.sizes),
        output_scale_tensor=TensorDesc(TensorDataType.FLOAT32, one),
        output_zero_point_tensor=TensorDesc(output_data_type, one),
    )
