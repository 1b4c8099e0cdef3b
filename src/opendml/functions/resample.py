"""Tensors of other sizes, by scales and offsets: resample, resample_grad.

Along each dimension output o lies at ``(o - output_pixel_offsets) / scales - input_pixel_offsets`` of what is
resampled. By default scales are the quotients of the sizes, and the offsets, 0.5 and -0.5, align the centres of pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.enums import AxisDirection, InterpolationMode
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, integers
from opendml.functions.signatures import operator_function
from opendml.operators.resample import Resample3, ResampleGrad1
from opendml.programs.device import Device


@operator_function
def resample(
    input: Operand,
    *,
    output_sizes: Sequence[int],
    interpolation_mode: InterpolationMode | str,
    rounding_direction: AxisDirection | str = AxisDirection.INCREASING,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    antialiased: bool = False,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The input in other sizes (RESAMPLE3; at lower levels RESAMPLE2, RESAMPLE1, RESAMPLE).

    ``input``: 1 to 4 dimensions, float32, float16, int8 or uint8. ``interpolation_mode``: ``LINEAR`` along all
    dimensions, or ``NEAREST_NEIGHBOR``, which takes the next element in ``rounding_direction``. ``scales`` and offsets
    have one element a dimension. ``antialiased``: ``LINEAR`` looks at all elements between the outputs of dimensions
    that shrink. Below level 5_1 there is ``LINEAR`` only, since nearest neighbours round otherwise there.

    >>> x = np.array([[1, 3]], "float32")
    >>> dml.resample(x, output_sizes=[1, 4], interpolation_mode="LINEAR").tolist()
    [[1.0, 1.5, 2.5, 3.0]]
    >>> dml.resample(x, output_sizes=[2, 3], interpolation_mode="NEAREST_NEIGHBOR").tolist()
    [[1.0, 3.0, 3.0], [1.0, 3.0, 3.0]]
    """
    places = (integers(scales), integers(input_pixel_offsets), integers(output_pixel_offsets))
    parameters = (integers(output_sizes), interpolation_mode, rounding_direction, antialiased)
    return evaluate_single(_resample, (input,), parameters, places, device=device, out=out)


def _resample(
    input: TensorDesc,
    output_sizes: Any,
    interpolation_mode: Any,
    rounding_direction: Any,
    antialiased: Any,
    scales: Any,
    input_pixel_offsets: Any,
    output_pixel_offsets: Any,
) -> Operator:
    output = TensorDesc(input.data_type, output_sizes)
    return Resample3(
        input_tensor=input,
        output_tensor=output,
        interpolation_mode=interpolation_mode,
        rounding_direction=rounding_direction,
        antialiased=antialiased,
        **_places(input, output, scales, input_pixel_offsets, output_pixel_offsets),
    )


@operator_function
def resample_grad(
    input_gradient: Operand,
    *,
    output_sizes: Sequence[int],
    interpolation_mode: InterpolationMode | str,
    rounding_direction: AxisDirection | str = AxisDirection.INCREASING,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The gradient of ``resample`` with the same parameters (RESAMPLE_GRAD1; at lower levels RESAMPLE_GRAD).

    ``input_gradient``: the gradient of what ``resample`` gave, 1 to 4 dimensions, float32 or float16. ``output_sizes``:
    the sizes of what was resampled, and of the result. Below level 5_1 there is ``LINEAR`` only.

    >>> gradient = np.array([[1, 1, 1, 1]], "float32")
    >>> dml.resample_grad(gradient, output_sizes=[1, 2], interpolation_mode="LINEAR").tolist()
    [[2.0, 2.0]]
    """
    places = (integers(scales), integers(input_pixel_offsets), integers(output_pixel_offsets))
    parameters = (integers(output_sizes), interpolation_mode, rounding_direction)
    return evaluate_single(_resample_grad, (input_gradient,), parameters, places, device=device, out=out)


def _resample_grad(
    input_gradient: TensorDesc,
    output_sizes: Any,
    interpolation_mode: Any,
    rounding_direction: Any,
    scales: Any,
    input_pixel_offsets: Any,
    output_pixel_offsets: Any,
) -> Operator:
    output = TensorDesc(input_gradient.data_type, output_sizes)
    return ResampleGrad1(
        input_gradient_tensor=input_gradient,
        output_gradient_tensor=output,
        interpolation_mode=interpolation_mode,
        rounding_direction=rounding_direction,
        **_places(output, input_gradient, scales, input_pixel_offsets, output_pixel_offsets),
    )


def _places(
    original: TensorDesc, resampled: TensorDesc, scales: Any, input_pixel_offsets: Any, output_pixel_offsets: Any
) -> dict[str, Any]:
    """The fields with their defaults. Sizes that make no sense are what the rules report."""
    if scales is None:
        pairs = zip(original.sizes, resampled.sizes, strict=False)
        scales = tuple(to / of if of else 1.0 for of, to in pairs)
    centres = [0.5] * original.rank if input_pixel_offsets is None else input_pixel_offsets
    outputs = [-0.5] * original.rank if output_pixel_offsets is None else output_pixel_offsets
    return {"scales": scales, "input_pixel_offsets": centres, "output_pixel_offsets": outputs}
