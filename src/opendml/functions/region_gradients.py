"""Gradients of regions brought to one size: roi_align_grad."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from opendml.building.operands import OperandRules
from opendml.description.descriptors import Operator
from opendml.description.enums import InterpolationMode, ReduceFunction
from opendml.description.tensor import MAXIMUM_UINT, TensorDesc
from opendml.functions.core import Operand, evaluate, operand_rules, sizes_or
from opendml.functions.element_wise import packed
from opendml.functions.several import several
from opendml.functions.signatures import operator_function
from opendml.operators.region_gradients import RoiAlignGrad
from opendml.programs.device import Device

T = TypeVar("T")


@several
class RoiAlignGradOutputs(NamedTuple, Generic[T]):
    """What ``roi_align_grad`` returns; None for what is not asked for."""

    gradient: T | None
    roi_gradient: T | None


@operator_function
def roi_align_grad(
    input: Operand | None,
    input_gradient: Operand,
    roi: Operand,
    batch_indices: Operand,
    *,
    batch_size: int | None = None,
    image_height: int | None = None,
    image_width: int | None = None,
    compute_output_gradient: bool = True,
    compute_output_roi_gradient: bool = False,
    reduction_function: ReduceFunction | str = ReduceFunction.AVERAGE,
    interpolation_mode: InterpolationMode | str = InterpolationMode.LINEAR,
    spatial_scale_x: float = 1,
    spatial_scale_y: float = 1,
    input_pixel_offset: float = 0.5,
    output_pixel_offset: float = -0.5,
    minimum_samples_per_output: int = 1,
    maximum_samples_per_output: int = MAXIMUM_UINT,
    align_regions_to_corners: bool = False,
    device: Device | None = None,
    out: Any = None,
) -> RoiAlignGradOutputs[Any]:
    """The gradients of ``roi_align`` for its images and its regions (ROI_ALIGN_GRAD; from level 4_1 on).

    ``input``: the images, needed for ``MAX`` and for the regions' gradient; without them ``batch_size``,
    ``image_height`` and ``image_width`` are their sizes. ``input_gradient``: the gradient of what ``roi_align`` gave.
    ``batch_indices``: uint32. The parameters are those of ``roi_align``. Returns ``gradient``, of the images' sizes,
    and ``roi_gradient``, of those of ``roi``.

    >>> gradient, regions = np.ones((1, 1, 1, 2), "float32"), np.array([[0, 0, 2, 1]], "float32")
    >>> found = dml.roi_align_grad(np.array([[[[1, 3, 4]]]], "float32"), gradient, regions, np.array([0], "uint32"))
    >>> found.gradient.tolist()
    [[[[1.0, 1.0, 0.0]]]]
    """
    scales = (spatial_scale_x, spatial_scale_y, input_pixel_offset, output_pixel_offset)
    samples = (minimum_samples_per_output, maximum_samples_per_output, align_regions_to_corners)
    outputs = (compute_output_gradient, compute_output_roi_gradient)
    parameters = (batch_size, image_height, image_width, outputs, reduction_function, interpolation_mode)
    operands = (input, input_gradient, roi, batch_indices)
    found = evaluate(_roi_align_grad, operands, (*parameters, *scales, *samples), optional=4, device=device, out=out)
    return RoiAlignGradOutputs(*found)


@operand_rules(OperandRules("xxxi", {"i": np.dtype(np.uint32)}))
def _roi_align_grad(
    input: TensorDesc | None,
    input_gradient: TensorDesc,
    roi: TensorDesc,
    batch_indices: TensorDesc,
    batch_size: Any,
    image_height: Any,
    image_width: Any,
    outputs: Any,
    *parameters: Any,
) -> Operator:
    names = (
        "reduction_function",
        "interpolation_mode",
        "spatial_scale_x",
        "spatial_scale_y",
        "input_pixel_offset",
        "output_pixel_offset",
        "minimum_samples_per_output",
        "maximum_samples_per_output",
        "align_regions_to_corners",
    )

    def sizes() -> tuple[int, ...]:
        usual = (1, 1, 1, 1) if input is None else input.sizes
        wanted = (batch_size, input_gradient.sizes[1] if input is None else None, image_height, image_width)
        return tuple(size if other is None else other for size, other in zip(usual, wanted, strict=True))

    image = TensorDesc(input_gradient.data_type, sizes_or(input_gradient.sizes, sizes))
    return RoiAlignGrad(
        input_tensor=input,
        input_gradient_tensor=input_gradient,
        roi_tensor=roi,
        batch_indices_tensor=batch_indices,
        output_gradient_tensor=image if outputs[0] else None,
        output_roi_gradient_tensor=packed(roi) if outputs[1] else None,
        **dict(zip(names, parameters, strict=True)),
    )
