"""UPSAMPLE_2D: images of other sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.data_types import FLOATS
from opendml.descriptors import Operator, at, enumeration, levels, size_2d, tensor_input, tensor_output
from opendml.enums import InterpolationMode, OperatorType

if TYPE_CHECKING:
    from opendml.fields import Size2D
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class Upsample2D(Operator, type=OperatorType.UPSAMPLE_2D, since="1_0"):
    """Enlarges height and width by integer factors, nearest neighbour or bilinear."""

    input_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    scale_size: Size2D = size_2d()
    interpolation_mode: InterpolationMode = enumeration(InterpolationMode)

    support = levels(at("1_0", (4, 5), FLOATS))

    def check(self, rules: Rules) -> None:
        """The last two dimensions grow by the factors, the others stay."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "output_tensor")
        if not rules.ready("input_tensor", "output_tensor", "scale_size"):
            return
        for name, factor in (("width", self.scale_size.width), ("height", self.scale_size.height)):
            rules.require(factor >= 1, f"scale_size.{name}", "must be at least 1", factor)
        if rules.ready("scale_size"):
            *leading, height, width = self.input_tensor.sizes
            sizes = [*leading, height * self.scale_size.height, width * self.scale_size.width]
            rules.sizes_are("output_tensor", sizes, "by InputTensor.Sizes and ScaleSize")
