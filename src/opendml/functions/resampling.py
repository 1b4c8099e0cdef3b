"""Images of other sizes: upsample_2d."""

from __future__ import annotations

from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.enums import InterpolationMode
from opendml.description.structs import Size2D
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, integers, sizes_or
from opendml.functions.signatures import operator_function
from opendml.operators.resampling import Upsample2D
from opendml.programs.device import Device


@operator_function
def upsample_2d(
    input: Operand,
    *,
    scale_size: Size2D | tuple[int, int],
    interpolation_mode: InterpolationMode | str,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """Height and width enlarged by whole factors (UPSAMPLE_2D).

    ``input``: {N, C, H, W} or {N, C, D, H, W}, float32 or float16. ``scale_size``: the factors of width and height, in
    that order. ``interpolation_mode``: ``NEAREST_NEIGHBOR`` or ``LINEAR``.

    >>> x, factors = np.array([[[[1, 2]]]], "float32"), dml.Size2D(width=2, height=1)
    >>> dml.upsample_2d(x, scale_size=factors, interpolation_mode="NEAREST_NEIGHBOR").tolist()
    [[[[1.0, 1.0, 2.0, 2.0]]]]
    """
    return evaluate_single(_upsample_2d, (input,), (integers(scale_size), interpolation_mode), device=device, out=out)


def _upsample_2d(input: TensorDesc, scale_size: Any, interpolation_mode: Any) -> Operator:
    def enlarged() -> tuple[int, ...]:
        *outer, height, width = input.sizes
        width_scale, height_scale = scale_size
        return *outer, height * height_scale, width * width_scale

    return Upsample2D(
        input_tensor=input,
        output_tensor=TensorDesc(input.data_type, sizes_or(input.sizes, enlarged)),
        scale_size=scale_size,
        interpolation_mode=interpolation_mode,
    )
