"""Random descriptors of pooling, resampling, blocks and regions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.fields import TensorField
from opendml.description.tensor import TensorDesc
from random_operators.element_wise import draw_parameters
from random_operators.parts import (
    Build,
    HugeDraw,
    draw_input,
    draw_length,
    draw_output,
    draw_rank,
    draw_sizes,
    draw_type,
    maybe,
    support_of,
)


def _pooling(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, spatial = draw_type(draw, cls), draw_rank(draw, cls) - 2
    sizes = [draw(st.integers(1, 2)), draw(st.integers(1, 3)), *draw_sizes(draw, spatial, 300)]
    fields, output = draw_windows(draw, cls, sizes[2:])
    source = draw_input(draw, data_type, sizes)
    target = draw_output(draw, data_type, [*sizes[:2], *output])
    if "p" in cls.fields:
        fields["p"] = draw(st.sampled_from((1, 2, 3, 5)))
    if "include_padding" in cls.fields:
        fields["include_padding"] = draw(st.booleans())
    if "output_indices_tensor" in cls.fields:
        index_type = draw(st.sampled_from(support_of(cls, "output_indices_tensor")[2]))
        fields["output_indices_tensor"] = maybe(draw, lambda: draw_output(draw, index_type, target.sizes))
    return cls(input_tensor=source, output_tensor=target, **fields)


def _pooling_gradient(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, spatial = (
        draw_type(draw, cls, "input_gradient_tensor"),
        draw_rank(draw, cls, "input_gradient_tensor") - 2,
    )
    sizes = [draw(st.integers(1, 2)), draw(st.integers(1, 3)), *draw_sizes(draw, spatial, 300)]
    fields: dict[str, Any]
    fields, pooled = draw_windows(draw, cls, sizes[2:])
    if "include_padding" in cls.fields:
        fields["include_padding"] = draw(st.booleans())
    if "input_tensor" in cls.fields:
        fields["input_tensor"] = draw_input(draw, data_type, sizes)
    return cls(
        input_gradient_tensor=draw_input(draw, data_type, [*sizes[:2], *pooled]),
        output_gradient_tensor=draw_output(draw, data_type, sizes),
        **fields,
    )


def _sliding_blocks(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, spatial = draw_type(draw, cls), draw_rank(draw, cls) - 2
    sizes = [draw(st.integers(1, 2)), draw(st.integers(1, 3)), *draw_sizes(draw, spatial, 60)]
    fields: dict[str, Any]
    fields, _ = draw_windows(draw, cls, sizes[2:])
    fields["window_sizes"] = fields.pop("window_size")
    image = TensorDesc(data_type, sizes)
    counts = op.Unfold(input_tensor=image, output_tensor=image, **fields).block_counts(sizes)
    columns = [sizes[0], sizes[1] * math.prod(fields["window_sizes"]), math.prod(counts)]
    (source, target) = (sizes, columns) if cls is op.Unfold else (columns, sizes)
    return cls(
        input_tensor=draw_input(draw, data_type, source), output_tensor=draw_output(draw, data_type, target), **fields
    )


def draw_windows(draw: st.DrawFn, cls: type[Operator], sizes: Sequence[int]) -> tuple[dict[str, Any], list[int]]:
    """Windows over spatial dimensions, and the sizes of their output."""
    names = ("strides", "window_size", "start_padding", "end_padding", "dilations")
    fields: dict[str, list[int]] = {name: [] for name in names}
    output = []
    for size in sizes:
        dilation = draw_length(draw, (1, 1, 2, 3, 50)) if "dilations" in cls.fields else 1
        start, end = draw_length(draw, (0, 0, 1, 2, 3, 4)), draw_length(draw, (0, 0, 1, 2, 3, 4))
        longest = (size + start + end - 1) // dilation + 1
        window = draw(st.integers(1, longest if isinstance(draw, HugeDraw) else min(longest, 5)))
        stride = draw_length(draw, (1, 1, 2, 3, 4, 2**31))
        room = size + start + end - 1 - (window - 1) * dilation
        count = room // stride + 1
        if room % stride and count * stride < size + start and draw(st.booleans()):
            count += 1
        output.append(count)
        for name, value in zip(names, (stride, window, start, end, dilation), strict=True):
            fields[name].append(value)
    return {name: values for name, values in fields.items() if name in cls.fields or name == "window_size"}, output


def _max_unpooling(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type = draw_type(draw, cls)
    sizes, target = draw_sizes(draw, 4, 300), draw_sizes(draw, 4, 600)
    places = draw_input(draw, draw(st.sampled_from(support_of(cls, "indices_tensor")[2])), sizes)
    source = draw_input(draw, data_type, sizes)
    return cls(input_tensor=source, indices_tensor=places, output_tensor=draw_output(draw, data_type, target))


def _upsample(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, sizes = draw_type(draw, cls), draw_sizes(draw, draw_rank(draw, cls), 200)
    width, height = (draw_length(draw, (1, 2, 3, 4, 5)) for _ in range(2))
    target = [*sizes[:-2], sizes[-2] * height, sizes[-1] * width]
    mode = draw(st.sampled_from(("NEAREST_NEIGHBOR", "LINEAR")))
    source = draw_input(draw, data_type, sizes)
    output = draw_output(draw, data_type, target)
    return cls(input_tensor=source, output_tensor=output, scale_size=(width, height), interpolation_mode=mode)


def _resample(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    names = [name for name, field in cls.fields.items() if isinstance(field, TensorField)]
    data_type, rank = draw_type(draw, cls, names[0]), draw_rank(draw, cls, names[0])
    sizes, outputs = draw_sizes(draw, rank, 300), draw_sizes(draw, rank, 300)
    whole, made = (sizes, outputs) if names[0] == "input_tensor" else (outputs, sizes)
    usual = draw(st.booleans())
    odd = (1.0, 2.0, 0.5, 0.3, 1.7, -1.5, 1e-3, 3.4e38, 0.0, float("nan"), float("inf"), 1e-40)
    fields: dict[str, Any] = {
        "scales": [b / a if usual else draw(st.sampled_from(odd)) for a, b in zip(whole, made, strict=True)]
    }
    for name in ("input_pixel_offsets", "output_pixel_offsets"):
        if name in cls.fields:
            centre = 0.5 if name.startswith("input") else -0.5
            others = (centre, 0.0, 1.25, -3.0, 100.0, 1e30, float("inf"), float("nan"))
            fields[name] = [centre if usual else draw(st.sampled_from(others)) for _ in sizes]
    if "antialiased" in cls.fields:
        fields["antialiased"] = draw(st.booleans())
    if "rounding_direction" in cls.fields:
        fields["rounding_direction"] = draw(st.sampled_from(("INCREASING", "DECREASING")))
    mode = draw(st.sampled_from(("NEAREST_NEIGHBOR", "LINEAR")))
    tensors = {names[0]: draw_input(draw, data_type, sizes), names[1]: draw_output(draw, data_type, outputs)}
    return cls(**tensors, interpolation_mode=mode, **fields)


def _regions(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    """Regions of images, and their gradients."""
    data_type, count = draw_type(draw, cls, "roi_tensor"), draw(st.integers(1, 4))
    channels, height, width = draw(st.integers(1, 9)), draw(st.integers(1, 3)), draw_length(draw, (1, 2, 3, 7, 8, 17))
    image = [draw(st.integers(1, 2)), channels, *draw_sizes(draw, 2, 200)]
    pooled = [count, channels, height, width]
    if cls is op.RoiPooling:
        return cls(
            input_tensor=draw_input(draw, data_type, image),
            roi_tensor=draw_input(draw, data_type, [1, 1, count, 5]),
            output_tensor=draw_output(draw, data_type, pooled),
            spatial_scale=draw(st.sampled_from((1, 0.5, 1e30))),
            pooled_size=(width, height),
        )
    ones = [1] * draw(st.integers(0, 2))
    least = draw(st.integers(0, 3))
    fields: dict[str, Any] = {
        "reduction_function": draw(st.sampled_from(("AVERAGE", "MAX"))),
        "minimum_samples_per_output": least,
        "maximum_samples_per_output": draw(st.sampled_from((least, least + 1, 2**32 - 1))),
    }
    fields = draw_parameters(draw, cls, {"roi_tensor": TensorDesc(data_type, [1])}) | fields
    if "align_regions_to_corners" in cls.fields:
        fields["align_regions_to_corners"] = draw(st.booleans())
    index_type = draw_type(draw, cls, "batch_indices_tensor")
    regions: dict[str, Any] = {
        "roi_tensor": draw_input(draw, data_type, [*ones, count, 4]),
        "batch_indices_tensor": draw_input(draw, index_type, [*ones, count]),
    }
    if cls is not op.RoiAlignGrad:
        tensors = {
            "input_tensor": draw_input(draw, data_type, image),
            "output_tensor": draw_output(draw, data_type, pooled),
        }
        return cls(**tensors, **regions, **fields)
    which = draw(st.integers(1, 3))
    is_needed = which > 1 or fields["reduction_function"] == "MAX"
    return cls(
        input_tensor=draw_input(draw, data_type, image) if is_needed or draw(st.booleans()) else None,
        input_gradient_tensor=draw_input(draw, data_type, pooled),
        output_gradient_tensor=draw_output(draw, data_type, image) if which & 1 else None,
        output_roi_gradient_tensor=draw_output(draw, data_type, [*ones, count, 4]) if which & 2 else None,
        **regions,
        **fields,
    )


BUILDERS: dict[str, Build] = {
    "MAX_POOLING MAX_POOLING1 MAX_POOLING2 AVERAGE_POOLING AVERAGE_POOLING1 LP_POOLING LP_POOLING1": _pooling,
    "MAX_UNPOOLING": _max_unpooling,
    "AVERAGE_POOLING_GRAD MAX_POOLING_GRAD": _pooling_gradient,
    "UNFOLD FOLD": _sliding_blocks,
    "ROI_ALIGN ROI_ALIGN1 ROI_ALIGN_GRAD ROI_POOLING": _regions,
    "UPSAMPLE_2D": _upsample,
    "RESAMPLE RESAMPLE1 RESAMPLE2 RESAMPLE3 RESAMPLE_GRAD RESAMPLE_GRAD1": _resample,
}
