"""Random descriptors of operators that move elements, and those that make them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.enums import DepthSpaceOrder, TensorDataType
from random_operators.parts import (
    Build,
    draw_input,
    draw_length,
    draw_number,
    draw_output,
    draw_rank,
    draw_scalar,
    draw_sizes,
    draw_type,
    maybe,
    support_of,
)


def _slice(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, whole = draw_type(draw, cls), draw_sizes(draw, draw_rank(draw, cls))
    steps = [draw(st.sampled_from((1, 1, 2, 3, 5))) for _ in whole]
    offsets = [draw(st.integers(0, min(size - 1, 4))) for size in whole]
    sizes = [
        draw(st.integers(1, (size - offset - 1) // step + 1))
        for size, offset, step in zip(whole, offsets, steps, strict=True)
    ]
    source, target = draw_input(draw, data_type, whole), draw_output(draw, data_type, sizes)
    return cls(input_tensor=source, output_tensor=target, offsets=offsets, sizes=sizes, strides=steps)


def _slice1(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    whole_name = "input_tensor" if "input_tensor" in cls.fields else "output_gradient_tensor"
    data_type, whole = draw_type(draw, cls, whole_name), draw_sizes(draw, draw_rank(draw, cls, whole_name))
    steps = [draw(st.sampled_from((1, 1, -1, 2, -2, 3, -3, 4, 5, -7, 2**31 - 1, -(2**31)))) for _ in whole]
    offsets = [draw(st.integers(0, min(size - 1, 4))) for size in whole]
    windows = [
        size - offset if draw(st.booleans()) else draw(st.integers(1, size - offset))
        for size, offset in zip(whole, offsets, strict=True)
    ]
    most = [1 + (window - 1) // abs(step) for window, step in zip(windows, steps, strict=True)]
    part = [n if draw(st.booleans()) else draw(st.integers(1, n)) for n in most]
    fields: dict[str, Any] = {
        "input_window_offsets": offsets,
        "input_window_sizes": windows,
        "input_window_strides": steps,
    }
    if cls is op.Slice1:
        source, target = draw_input(draw, data_type, whole), draw_output(draw, data_type, part)
        return cls(input_tensor=source, output_tensor=target, **fields)
    source, target = draw_input(draw, data_type, part), draw_output(draw, data_type, whole)
    return cls(input_gradient_tensor=source, output_gradient_tensor=target, **fields)


def _pieces(draw: st.DrawFn, cls: type[Operator], field: str) -> tuple[TensorDataType, list[list[int]], list[int], int]:
    """Sizes of pieces, and of the whole along the axis."""
    data_type, whole = draw_type(draw, cls, field), draw_sizes(draw, draw_rank(draw, cls, field), 900)
    axis = draw(st.integers(0, len(whole) - 1))
    lengths = [draw_length(draw, (1, 1, 2, 3, 5, 16, 17, 33)) for _ in range(draw(st.integers(1, 5)))]
    pieces = [[*whole[:axis], length, *whole[axis + 1 :]] for length in lengths]
    return data_type, pieces, [*whole[:axis], sum(lengths), *whole[axis + 1 :]], axis


def _split(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, pieces, whole, axis = _pieces(draw, cls, "input_tensor")
    targets = [draw_output(draw, data_type, sizes) for sizes in pieces]
    return cls(input_tensor=draw_input(draw, data_type, whole), output_tensors=targets, axis=axis)


def _join(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, pieces, whole, axis = _pieces(draw, cls, "output_tensor")
    sources = [draw_input(draw, data_type, sizes) for sizes in pieces]
    return cls(input_tensors=sources, output_tensor=draw_output(draw, data_type, whole), axis=axis)


def _padding(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, sizes = draw_type(draw, cls), draw_sizes(draw, draw_rank(draw, cls), 600)
    amounts = (0, 0, 1, 2, 3, 7, 17) if len(sizes) < 4 else (0, 0, 0, 1, 2)
    start, end = ([draw_length(draw, amounts) for _ in sizes] for _ in range(2))
    target = draw_output(draw, data_type, [sum(parts) for parts in zip(sizes, start, end, strict=True)])
    value: dict[str, Any] = {"padding_value": draw_number(draw)}
    if "padding_value_data_type" in cls.fields:
        value = {"padding_value_data_type": data_type, "padding_value": draw_scalar(draw, data_type)}
    mode = draw(st.sampled_from(("CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP")))
    fields = {"padding_mode": mode, "start_padding": start, "end_padding": end, **value}
    return cls(input_tensor=draw_input(draw, data_type, sizes), output_tensor=target, **fields)


def _tile(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, sizes = draw_type(draw, cls), draw_sizes(draw, draw_rank(draw, cls), 300)
    repeats = [draw_length(draw, (1, 2, 3) if len(sizes) < 4 else (1, 2)) for _ in sizes]
    target = draw_output(draw, data_type, [n * r for n, r in zip(sizes, repeats, strict=True)])
    return cls(input_tensor=draw_input(draw, data_type, sizes), output_tensor=target, repeats=repeats)


def _blocks(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, block = draw_type(draw, cls), draw_length(draw, (1, 2, 3, 4))
    batch, depth, height, width = draw_sizes(draw, 4, 300)
    deep = [batch, depth * block * block, height, width]
    wide = [batch, depth, height * block, width * block]
    to_depth = issubclass(cls, op.SpaceToDepth)
    source, target = (wide, deep) if to_depth else (deep, wide)
    order = {"order": draw(st.sampled_from(DepthSpaceOrder))} if "order" in cls.fields else {}
    tensors = {
        "input_tensor": draw_input(draw, data_type, source),
        "output_tensor": draw_output(draw, data_type, target),
    }
    return cls(**tensors, block_size=block, **order)


def _reverse(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, sizes = draw_type(draw, cls), draw_sizes(draw, draw_rank(draw, cls))
    axis = draw(st.integers(0, len(sizes) - 1))
    lines = [1 if d == axis else n for d, n in enumerate(sizes)]
    return cls(
        input_tensor=draw_input(draw, data_type, sizes),
        sequence_lengths_tensor=draw_input(
            draw, draw(st.sampled_from(support_of(cls, "sequence_lengths_tensor")[2])), lines
        ),
        output_tensor=draw_output(draw, data_type, sizes),
        axis=axis,
    )


def _diagonal(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, sizes = draw_type(draw, cls, "output_tensor"), draw_sizes(draw, draw_rank(draw, cls, "output_tensor"))
    diagonals = st.sampled_from((*range(-4, 20), -(2**31), 2**31 - 1))
    target = draw_output(draw, data_type, sizes)
    if cls is op.DiagonalMatrix:
        return cls(output_tensor=target, offset=draw(diagonals), value=draw_number(draw))
    return cls(
        input_tensor=maybe(draw, lambda: draw_input(draw, data_type, sizes)),
        output_tensor=target,
        value_data_type=data_type,
        value=draw_scalar(draw, data_type),
        diagonal_fill_begin=draw(diagonals),
        diagonal_fill_end=draw(diagonals),
    )


def _fill(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, sizes = draw_type(draw, cls, "output_tensor"), draw_sizes(draw, draw_rank(draw, cls, "output_tensor"))
    names = [name for name in ("value", "value_start", "value_delta") if name in cls.fields]
    values = {name: draw_scalar(draw, data_type) for name in names}
    return cls(output_tensor=draw_output(draw, data_type, sizes), value_data_type=data_type, **values)


def _random_generator(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type = TensorDataType.UINT32
    sizes = [1] * (draw_rank(draw, cls, "input_state_tensor") - 1) + [6]
    return cls(
        input_state_tensor=draw_input(draw, data_type, sizes),
        output_tensor=draw_output(draw, data_type, draw_sizes(draw, draw_rank(draw, cls, "output_tensor"))),
        output_state_tensor=draw_output(draw, data_type, sizes) if draw(st.booleans()) else None,
    )


BUILDERS: dict[str, Build] = {
    "SLICE": _slice,
    "SLICE1 SLICE_GRAD": _slice1,
    "SPLIT": _split,
    "JOIN": _join,
    "PADDING PADDING1": _padding,
    "TILE": _tile,
    "SPACE_TO_DEPTH SPACE_TO_DEPTH1 DEPTH_TO_SPACE DEPTH_TO_SPACE1": _blocks,
    "REVERSE_SUBSEQUENCES": _reverse,
    "DIAGONAL_MATRIX DIAGONAL_MATRIX1": _diagonal,
    "FILL_VALUE_CONSTANT FILL_VALUE_SEQUENCE": _fill,
    "RANDOM_GENERATOR": _random_generator,
}
