"""UPSAMPLE_2D: images of other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opendml.description.data_types import FLOATS
from opendml.description.descriptors import Operator, at, enumeration, levels, size_2d, tensor_input, tensor_output
from opendml.description.enums import InterpolationMode, OperatorType
from opendml.expression.element_types import I64
from opendml.expression.ir import Axis, Expression, cast, grid, index, indices, load, select
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.definition import tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Member, Size, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class Upsample2D(Operator, type=OperatorType.UPSAMPLE_2D, since="1_0"):
    """Enlarges height and width by integer factors, nearest neighbour or bilinear."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    scale_size: Size = size_2d()
    interpolation_mode: Member[InterpolationMode] = enumeration(InterpolationMode)

    support = levels(at("1_0", (4, 5), FLOATS))

    def check(self, rules: Rules) -> None:
        """The last two dimensions grow by the factors, the others stay."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "output_tensor")
        sizes, rank = rules.sizes("input_tensor"), rules.rank("output_tensor")
        factors = {
            -2: ("height", rules.member("scale_size", "height")),
            -1: ("width", rules.member("scale_size", "width")),
        }
        for name, factor in factors.values():
            if factor is not None:
                rules.require(factor >= 1, f"scale_size.{name}", "must be at least 1", factor)
        if sizes is None or rank != len(sizes):
            return
        rules.sizes_are("output_tensor", (*sizes[:-2], None, None), "InputTensor.Sizes[i]")
        for dimension, (name, _) in factors.items():
            factor, size = rules.member("scale_size", name), sizes[dimension]
            if factor is not None and size is not None:
                reason = f"InputTensor.Sizes[i] * ScaleSize.{rules.location(name)}"
                rules.size_is("output_tensor", rank + dimension, size * factor, reason)

    def define(self) -> Definition:
        """One map with two axes for height and width each, the input's pixel and the place inside it."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        *kept, y, x = grid(source.sizes)
        inner_y, inner_x = Axis("inner_y", self.scale_size.height), Axis("inner_x", self.scale_size.width)
        place = (
            *indices(kept),
            index(y) * inner_y.size + index(inner_y),
            index(x) * inner_x.size + index(inner_x),
        )

        def row(v: Expression) -> Expression:
            return _interpolated(x, inner_x, lambda u: widen(load(source, (*indices(kept), v, u))))

        if self.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR:
            value = load(source, indices((*kept, y, x)))
        else:
            value = cast(_interpolated(y, inner_y, row), target.type)
        axes = (*kept, y, inner_y, x, inner_x)
        return Definition((source,), (target,), (Compute(axes, (Store(target, place, value),)),))


def _interpolated(pixel: Axis, inner: Axis, value_at: Callable[[Expression], Expression]) -> Expression:
    """Linear interpolation between the two nearest centres of pixels, the outermost ones beyond the border.

    In the first half of a pixel of ``scale`` elements these are the pixel before and itself, in the second half
    itself and the next one. The weight of the second one is ``(r + 0.5) / scale -+ 0.5`` at element r, a division of
    exact integers; on the centre itself (odd scales) the value is the pixel's own.
    """
    scale, here, r = inner.size, index(pixel), index(inner)
    if scale == 1:
        return value_at(here)
    first_half = r < scale // 2
    before = select(first_half, select(here < 1, 0, here - 1), here)
    after = select(first_half, here, select(here >= pixel.size - 1, pixel.size - 1, here + 1))
    left, right = value_at(before), value_at(after)
    distance = 2 * r + 1 + select(first_half, scale, -scale, I64)
    weight = cast(distance, left.type) / (2 * scale)
    mixed = (1 - weight) * left + weight * right
    return mixed if scale % 2 == 0 else select(r.equals(scale // 2), left, mixed)
