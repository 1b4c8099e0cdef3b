"""Random descriptors of quantization and products of integers."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from random_operators.parts import (
    LENGTHS,
    Build,
    HugeDraw,
    draw_input,
    draw_length,
    draw_output,
    draw_rank,
    draw_sizes,
    draw_type,
    maybe,
)
from random_operators.products import draw_parameter
from random_operators.windows import draw_windows


def _integer_product(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    rank = draw_rank(draw, cls, "a_tensor")
    batch = [draw_length(draw, (1, 2)) for _ in range(rank - 2)]
    rows, inner, columns = (draw_length(draw, (1, 2, 3, 4, 7, 13, 16, 17, 25, 33)) for _ in range(3))
    columns = draw_length(draw, LENGTHS) if draw(st.booleans()) else columns
    types = {name: draw_type(draw, cls, f"{name}_tensor") for name in ("a", "b", "output")}
    is_float = types["output"].is_float
    if is_float:
        types["b"] = types["a"]
    scale_type = types["output"] if is_float else TensorDataType.FLOAT32
    of = {"a": (rows, -2), "b": (columns, -1), "output": (rows, -2)}
    fields: dict[str, Any] = {
        "a_tensor": draw_input(draw, types["a"], [*batch, rows, inner]),
        "b_tensor": draw_input(draw, types["b"], [*batch, inner, columns]),
        "output_tensor": draw_output(draw, types["output"], [*batch, rows, columns]),
    }
    for name, (count, dimension) in of.items():
        if f"{name}_scale_tensor" in cls.fields:
            fields[f"{name}_scale_tensor"] = draw_parameter(draw, scale_type, count, rank, dimension)
        if f"{name}_zero_point_tensor" in cls.fields and draw(st.booleans()):
            fields[f"{name}_zero_point_tensor"] = draw_parameter(draw, types[name], count, rank, dimension)
    if "bias_tensor" in cls.fields:
        fields["bias_tensor"] = maybe(draw, lambda: draw_input(draw, scale_type, [*batch, rows, columns]))
    return cls(**fields)


def _convolution_integer(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    types = {name: draw_type(draw, cls, f"{name}_tensor") for name in ("input", "filter", "output")}
    rank = draw_rank(draw, cls)
    groups, per_group_in, per_group_out = (
        draw_length(draw, usual) for usual in ((1, 2, 3), (1, 2, 5, 13), (1, 2, 5, 13))
    )
    batch, filters = draw_length(draw, (1, 2)), groups * per_group_out
    names = ("strides", "dilations", "start_padding", "end_padding")
    fields: dict[str, Any] = {name: [] for name in names}
    sizes, kernel, output = [], [], []
    for _ in range(rank - 2):
        size = draw_length(draw, (1, 2, 3, 5, 8, 17, 33))
        stride, dilation = draw_length(draw, (1, 1, 2, 3, 9)), draw_length(draw, (1, 1, 2, 7))
        start, end = (draw_length(draw, (0, 1, 2, 3, 9)) for _ in range(2))
        longest = (size + start + end - 1) // dilation + 1
        taps = draw(st.integers(1, longest if isinstance(draw, HugeDraw) else min(longest, 4)))
        output.append((size + start + end - 1 - (taps - 1) * dilation) // stride + 1)
        for name, value in zip(names, (stride, dilation, start, end), strict=True):
            fields[name].append(value)
        sizes.append(size)
        kernel.append(taps)
    for name, count in (("input", 1), ("filter", filters), ("output", 1)):
        if f"{name}_scale_tensor" in cls.fields:
            fields[f"{name}_scale_tensor"] = draw_parameter(draw, TensorDataType.FLOAT32, count, rank, 1)
        if f"{name}_zero_point_tensor" in cls.fields and draw(st.booleans()):
            fields[f"{name}_zero_point_tensor"] = draw_parameter(draw, types[name], count, rank, 1)
    if "bias_tensor" in cls.fields:
        bias = [1, filters, *[1] * (rank - 2)]
        fields["bias_tensor"] = maybe(draw, lambda: draw_input(draw, TensorDataType.INT32, bias))
    return cls(
        input_tensor=draw_input(draw, types["input"], [batch, groups * per_group_in, *sizes]),
        filter_tensor=draw_input(draw, types["filter"], [filters, per_group_in, *kernel]),
        output_tensor=draw_output(draw, types["output"], [batch, filters, *output]),
        group_count=groups,
        **fields,
    )


def _quantized_pooling(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    sizes = [draw(st.integers(1, 2)), draw(st.integers(1, 3)), *draw_sizes(draw, draw_rank(draw, cls) - 2, 300)]
    fields: dict[str, Any]
    fields, pooled = draw_windows(draw, cls, sizes[2:])
    for name in ("input", "output"):
        data_type = draw_type(draw, cls, f"{name}_tensor")
        make, own = (draw_input, sizes) if name == "input" else (draw_output, [*sizes[:2], *pooled])
        fields[f"{name}_tensor"] = make(draw, data_type, own)
        fields[f"{name}_scale_tensor"] = draw_parameter(draw, TensorDataType.FLOAT32, sizes[1], len(sizes), 1)
        if draw(st.booleans()):
            fields[f"{name}_zero_point_tensor"] = draw_parameter(draw, data_type, sizes[1], len(sizes), 1)
    return cls(**fields, include_padding=draw(st.booleans()))


def _quantize(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    quantized, real = ("output", "input") if cls is op.Quantize else ("input", "output")
    counts = draw_sizes(draw, draw_rank(draw, cls), 60)
    sizes = [count * draw_length(draw, (1, 1, 2, 5, 16)) for count in counts]
    if math.prod(sizes) > 2**32 - 1:
        sizes = counts
    types = {name: draw_type(draw, cls, f"{name}_tensor") for name in (quantized, real)}
    tensors = [draw_input(draw, types[real], counts)]
    if draw(st.booleans()):
        tensors.append(draw_input(draw, types[quantized], counts))
    return cls(
        input_tensor=draw_input(draw, types["input"], sizes),
        quantization_type=len(tensors),
        quantization_tensors=tensors,
        output_tensor=draw_output(draw, types["output"], sizes),
    )


def _dynamic_quantize(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    sizes, data_type = draw_sizes(draw, draw_rank(draw, cls)), draw_type(draw, cls, "output_tensor")
    return cls(
        input_tensor=draw_input(draw, draw_type(draw, cls), sizes),
        output_tensor=draw_output(draw, data_type, sizes),
        output_scale_tensor=draw_output(draw, TensorDataType.FLOAT32, [1] * len(sizes)),
        output_zero_point_tensor=draw_output(draw, data_type, [1] * len(sizes)),
    )


BUILDERS: dict[str, Build] = {
    "MATRIX_MULTIPLY_INTEGER MATRIX_MULTIPLY_INTEGER_TO_FLOAT QUANTIZED_LINEAR_MATRIX_MULTIPLY": _integer_product,
    "CONVOLUTION_INTEGER QUANTIZED_LINEAR_CONVOLUTION": _convolution_integer,
    "QUANTIZED_LINEAR_AVERAGE_POOLING": _quantized_pooling,
    "DYNAMIC_QUANTIZE_LINEAR": _dynamic_quantize,
    "QUANTIZE DEQUANTIZE": _quantize,
}
