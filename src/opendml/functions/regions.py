"""Regions of images, each brought to one size: roi_align, roi_pooling.

``input`` are images {N, C, H, W}, the result is {regions, C, height, width}.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opendml.building.operands import OperandRules
from opendml.description.descriptors import Operator
from opendml.description.enums import InterpolationMode, ReduceFunction
from opendml.description.structs import Size2D
from opendml.description.tensor import MAXIMUM_UINT, TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, operand_rules, sizes_or
from opendml.functions.signatures import operator_function
from opendml.operators.regions import RoiAlign1, RoiPooling
from opendml.programs.device import Device


@operator_function
def roi_align(
    input: Operand,
    roi: Operand,
    batch_indices: Operand,
    *,
    output_height: int,
    output_width: int,
    reduction_function: ReduceFunction | str = ReduceFunction.AVERAGE,
    interpolation_mode: InterpolationMode | str = InterpolationMode.LINEAR,
    spatial_scale_x: float = 1,
    spatial_scale_y: float = 1,
    input_pixel_offset: float = 0.5,
    output_pixel_offset: float = -0.5,
    out_of_bounds_input_value: float = 0,
    minimum_samples_per_output: int = 1,
    maximum_samples_per_output: int = MAXIMUM_UINT,
    align_regions_to_corners: bool = False,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """Regions of images, sampled between the pixels (ROI_ALIGN1; at level 3_0 ROI_ALIGN).

    ``input``: float32 or float16; ``roi``: rows of x1, y1, x2, y2 of the same type, which the spatial scales multiply;
    ``batch_indices``: for each region the number of its image, uint32, or uint64 from level 5_0 on. Every output is the
    ``AVERAGE`` or the ``MAX`` of samples, as many along each dimension as pixels it covers, in the bounds given.
    Samples outside of the image are ``out_of_bounds_input_value``. Below level 4_0 offsets have their defaults.

    >>> x = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    >>> regions = np.array([[0, 0, 4, 4], [1, 1, 2, 2]], "float32")
    >>> dml.roi_align(x, regions, np.array([0, 0], "uint32"), output_height=1, output_width=2).tolist()
    [[[[6.5, 8.5]]], [[[4.75, 5.25]]]]
    """
    scales = (spatial_scale_x, spatial_scale_y, input_pixel_offset, output_pixel_offset, out_of_bounds_input_value)
    samples = (minimum_samples_per_output, maximum_samples_per_output, align_regions_to_corners)
    parameters = (output_height, output_width, reduction_function, interpolation_mode, *scales, *samples)
    return evaluate_single(_roi_align, (input, roi, batch_indices), parameters, device=device, out=out)


@operand_rules(OperandRules("xxi", {"i": np.dtype(np.uint32)}))
def _roi_align(
    input: TensorDesc, roi: TensorDesc, batch_indices: TensorDesc, height: Any, width: Any, *parameters: Any
) -> Operator:
    names = (
        "reduction_function",
        "interpolation_mode",
        "spatial_scale_x",
        "spatial_scale_y",
        "input_pixel_offset",
        "output_pixel_offset",
        "out_of_bounds_input_value",
        "minimum_samples_per_output",
        "maximum_samples_per_output",
        "align_regions_to_corners",
    )
    return RoiAlign1(
        input_tensor=input,
        roi_tensor=roi,
        batch_indices_tensor=batch_indices,
        output_tensor=_pooled(input, roi, height, width),
        **dict(zip(names, parameters, strict=True)),
    )


@operator_function
def roi_pooling(
    input: Operand,
    roi: Operand,
    *,
    pooled_size: Size2D | tuple[int, int],
    spatial_scale: float = 1,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The maximum over each bin of regions of images (ROI_POOLING).

    ``input``: float32 or float16; ``roi``: {1, 1, regions, 5} of the same type, rows of image, x1, y1, x2, y2, corners
    that are both inside; ``spatial_scale`` multiplies them, then they are rounded. ``pooled_size``: (width, height).
    Bins outside of the image are 0.

    >>> x = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    >>> dml.roi_pooling(x, np.array([[[[0, 1, 1, 3, 3]]]], "float32"), pooled_size=(2, 1)).tolist()
    [[[[14.0, 15.0]]]]
    """
    return evaluate_single(_roi_pooling, (input, roi), (pooled_size, spatial_scale), device=device, out=out)


@operand_rules(OperandRules("x"))
def _roi_pooling(input: TensorDesc, roi: TensorDesc, pooled_size: Any, spatial_scale: Any) -> Operator:
    width, height = pooled_size if isinstance(pooled_size, (tuple, list)) and len(pooled_size) == 2 else (1, 1)
    return RoiPooling(
        input_tensor=input,
        roi_tensor=roi,
        output_tensor=_pooled(input, roi, height, width),
        spatial_scale=spatial_scale,
        pooled_size=pooled_size,
    )


def _pooled(input: TensorDesc, roi: TensorDesc, height: Any, width: Any) -> TensorDesc:
    """One plane of that size for each region and channel."""
    sizes = sizes_or(input.sizes, lambda: (roi.sizes[-2], input.sizes[1], height, width))
    return TensorDesc(input.data_type, sizes)
