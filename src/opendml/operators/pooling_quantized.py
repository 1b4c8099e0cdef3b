"""Pooling of quantized tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from opendml.description.data_types import BYTES, FLOAT32_ONLY
from opendml.description.descriptors import at, boolean, levels, tensor_input, uint_array
from opendml.description.enums import OperatorType
from opendml.expression.element_types import F32, I32
from opendml.expression.folds import sum_of
from opendml.expression.ir import cast, constant, grid, indices, load
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.pooling import Pooling, check_windows
from opendml.operators.quantization_parameters import (
    CHANNELS,
    Tensors,
    check_counted,
    difference,
    requantized,
    value_for,
)

if TYPE_CHECKING:
    from opendml.description.field_types import Integers, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class QuantizedLinearAveragePooling(Pooling, type=OperatorType.QUANTIZED_LINEAR_AVERAGE_POOLING, since="6_2"):
    """Mean of the quantized elements inside a window, quantized again: dequantize, average, quantize.

    Input and output have one scale and zero point or one a channel each; without a zero point it is 0.
    ``include_padding``: divide by the size of the window instead of the number of its elements inside the input.
    """

    input_scale_tensor: Value[TensorDesc] = tensor_input(after="input_tensor")
    input_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None, after="input_scale_tensor")
    output_scale_tensor: Value[TensorDesc] = tensor_input(after="input_zero_point_tensor")
    output_zero_point_tensor: Value[TensorDesc | None] = tensor_input(default=None, after="output_scale_tensor")
    dilations: Integers = uint_array(count="dimension_count", after="end_padding")
    include_padding: Value[bool] = boolean()

    _PARAMETERS = ("input_scale_tensor", "input_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor")

    support = levels(
        at(
            "6_2",
            (4, 5),
            BYTES,
            dict.fromkeys(_PARAMETERS, (1, 5)),
            input_scale_tensor=FLOAT32_ONLY,
            output_scale_tensor=FLOAT32_ONLY,
        )
    )

    def check(self, rules: Rules) -> None:
        """Windows as of AVERAGE_POOLING1; zero points have the types of what they belong to."""
        for name in ("input", "output"):
            rules.same_data_type(f"{name}_tensor", f"{name}_zero_point_tensor")
        rules.same_rank("input_tensor", "output_tensor")
        check_windows(rules, "input_tensor", "output_tensor")
        channels = rules.size("input_tensor", 1)
        check_counted(rules, self._PARAMETERS, CHANNELS, channels, "InputTensor.Sizes[1]")

    def define(self) -> Definition:
        """The exact sum of the differences, rounded to float32, times InputScale, divided by the number of elements and
        by OutputScale; each operation in float32."""
        tensors = Tensors(self)
        source, output = tensors["input_tensor"], tensors["output_tensor"]
        axes = grid(output.sizes)
        place, window = indices(axes), self.window(axes)
        channel = place[1]
        element = difference(load(source, window.coordinates), tensors.get("input_zero_point_tensor"), channel, I32)
        total = cast(sum_of(window.taps, element, window.where), F32)
        size = constant(math.prod(self.window_size), F32)
        count = size if self.include_padding else cast(window.element_count, F32)
        mean = total * value_for(tensors["input_scale_tensor"], channel) / count
        value = mean / value_for(tensors["output_scale_tensor"], channel)
        zero_point = tensors.get("output_zero_point_tensor")
        stored = Store(output, place, requantized(value, zero_point, channel, output.type))
        return tensors.definition(Compute(axes, (stored,)))
