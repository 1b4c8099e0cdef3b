"""Random descriptors of matrix products, convolutions, recurrent networks and attention."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel, OperatorType, TensorDataType
from opendml.description.fields import BooleanField
from opendml.description.tensor import TensorDesc
from opendml.operators.activation import FUSABLE_WITH_CLIP, FUSABLE_WITH_HARDMAX, FUSABLE_WITH_SOFTMAX
from opendml.operators.recurrent import Recurrent
from random_operators.parts import (
    LENGTHS,
    Build,
    HugeDraw,
    draw_activation,
    draw_floats,
    draw_input,
    draw_length,
    draw_number,
    draw_output,
    draw_rank,
    draw_type,
    maybe,
)


def _gemm(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, rank = draw_type(draw, cls, "a_tensor"), draw_rank(draw, cls, "a_tensor")
    batch = [draw_length(draw, (1, 2)) for _ in range(rank - 2)]
    rows, inner, columns = (draw_length(draw, (1, 2, 3, 4, 7, 13, 16, 17, 25, 33)) for _ in range(3))
    columns = draw_length(draw, LENGTHS) if draw(st.booleans()) else columns
    transposed = [draw(st.booleans()) for _ in range(2)]
    a = [*batch, inner, rows] if transposed[0] else [*batch, rows, inner]
    b = [*batch, columns, inner] if transposed[1] else [*batch, inner, columns]
    output = [*batch, rows, columns]
    a_tensor, b_tensor = draw_input(draw, data_type, a), draw_input(draw, data_type, b)
    return cls(
        a_tensor=a_tensor,
        b_tensor=b_tensor,
        c_tensor=maybe(draw, lambda: draw_input(draw, data_type, output)),
        output_tensor=draw_output(draw, data_type, output),
        trans_a=int(transposed[0]),
        trans_b=int(transposed[1]),
        alpha=draw_number(draw) if draw(st.booleans()) else 1.0,
        beta=draw_number(draw),
        fused_activation=maybe(draw, lambda: draw_activation(draw, _fusable_with_softmax(output), rank)),
    )


def _fusable_with_softmax(output: Sequence[int]) -> dict[OperatorType, FeatureLevel]:
    """ACTIVATION_SOFTMAX is for matrices."""
    if set(output[:-2]) <= {1}:
        return FUSABLE_WITH_SOFTMAX
    return FUSABLE_WITH_CLIP | {OperatorType.ACTIVATION_SOFTMAX1: FeatureLevel.LEVEL_6_1}


def _convolution(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    data_type, spatial = draw_type(draw, cls), draw_rank(draw, cls) - 2
    groups, forward = draw(st.integers(1, 3)), draw(st.booleans())
    per_group_in, per_group_out = (draw_length(draw, (1, 2, 3, 5, 13)) for _ in range(2))
    batch = draw_length(draw, (1, 2))
    names = ("strides", "dilations", "start_padding", "end_padding", "output_padding")
    fields: dict[str, list[int]] = {name: [] for name in names}
    sizes, kernel, output = [], [], []
    for _ in range(spatial):
        size = draw_length(draw, (1, 2, 3, 5, 8, 17, 33) if spatial < 3 else (1, 2, 3, 5))
        stride, dilation = draw_length(draw, (1, 1, 2, 3, 9)), draw_length(draw, (1, 1, 2, 7))
        start, end = (draw_length(draw, (0, 1, 2, 3, 9)) for _ in range(2))
        if forward:
            longest = (size + start + end - 1) // dilation + 1
            taps = draw(st.integers(1, longest if isinstance(draw, HugeDraw) else min(longest, 4)))
            extra = 0
            count = (size + start + end - 1 - (taps - 1) * dilation) // stride + 1
        else:
            taps = draw_length(draw, (1, 2, 3, 4))
            full = stride * (size - 1) + 1 + (taps - 1) * dilation
            start, end = min(start, full - 1), 0
            end = min(draw(st.integers(0, 3)), full - 1 - start)
            extra = draw(st.integers(0, max(stride, dilation) - 1))
            count = full - start - end + extra
        for name, value in zip(names, (stride, dilation, start, end, extra), strict=True):
            fields[name].append(value)
        sizes.append(size)
        kernel.append(taps)
        output.append(count)
    channels, filters = per_group_in * groups, per_group_out * groups
    filter_sizes = [filters, per_group_in, *kernel] if forward else [channels, per_group_out, *kernel]
    return cls(
        input_tensor=draw_input(draw, data_type, [batch, channels, *sizes]),
        filter_tensor=draw_input(draw, data_type, filter_sizes),
        bias_tensor=maybe(draw, lambda: draw_input(draw, data_type, [1, filters, *[1] * spatial])),
        output_tensor=draw_output(draw, data_type, [batch, filters, *output]),
        mode=draw(st.sampled_from(("CONVOLUTION", "CROSS_CORRELATION"))),
        direction="FORWARD" if forward else "BACKWARD",
        group_count=groups,
        fused_activation=maybe(draw, lambda: draw_activation(draw, FUSABLE_WITH_CLIP, spatial + 2)),
        **fields,
    )


def draw_parameter(draw: st.DrawFn, data_type: TensorDataType, count: int, rank: int, dimension: int) -> TensorDesc:
    """A scale or zero point, one or ``count`` of them along a dimension."""
    sizes = [1] * rank
    if draw(st.booleans()) and -rank <= dimension < rank:
        sizes[dimension] = count
    return draw_input(draw, data_type, sizes)


def _recurrent(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    assert issubclass(cls, Recurrent)
    data_type = draw_type(draw, cls)
    length, batch, inputs = (draw_length(draw, usual) for usual in (range(1, 6), range(1, 6), range(1, 10)))
    hidden = draw_length(draw, (1, 2, 3, 5, 16, 17, 33, 70))
    direction = draw(st.sampled_from(("FORWARD", "BACKWARD", "BIDIRECTIONAL")))
    both = 2 if direction == "BIDIRECTIONAL" else 1
    state, rows = [1, both, batch, hidden], cls.gates * hidden
    optional = {
        "bias_tensor": [1, 1, both, 2 * rows],
        "hidden_init_tensor": state,
        "cell_mem_init_tensor": state,
        "sequence_lengths_tensor": [1, 1, 1, batch],
        "peephole_tensor": [1, 1, both, 3 * hidden],
        "output_sequence_tensor": [length, both, batch, hidden],
        "output_single_tensor": state,
        "output_cell_single_tensor": state,
    }
    made = [name for name in cls.fields if name.startswith("output")]
    left_out = draw(st.sets(st.sampled_from(made), max_size=len(made) - 1))
    fields: dict[str, Any] = {}
    for name, sizes in optional.items():
        if name in made and name not in left_out:
            fields[name] = draw_output(draw, data_type, sizes)
        elif name in cls.fields and name not in made:
            kind = TensorDataType.UINT32 if name == "sequence_lengths_tensor" else data_type
            fields[name] = maybe(draw, functools.partial(draw_input, draw, kind, sizes))
    for name, field in cls.fields.items():
        if isinstance(field, BooleanField):
            fields[name] = draw(st.booleans())
    return cls(
        input_tensor=draw_input(draw, data_type, [1, length, batch, inputs]),
        weight_tensor=draw_input(draw, data_type, [1, both, rows, inputs]),
        recurrence_tensor=draw_input(draw, data_type, [1, both, rows, hidden]),
        activation_descs=[draw_activation(draw, FUSABLE_WITH_HARDMAX, 4) for _ in range(both * cls.activations_each)],
        direction=direction,
        **fields,
        **draw_floats(draw, cls),
    )


def _attention(draw: st.DrawFn, cls: type[Operator]) -> Operator:
    """Any stacking, mask and past."""
    data_type = draw_type(draw, cls, "output_tensor")
    batch, queries, new, past = (
        draw_length(draw, usual) for usual in (range(1, 4), range(1, 6), range(1, 8), range(4))
    )
    heads, size, value_size = (draw_length(draw, usual) for usual in (range(1, 4), (1, 3, 4, 16, 17), (1, 2, 5, 16)))
    shared, has_past = 1, past > 0
    form = draw(st.sampled_from(("apart", "query_key", "key_value", "query_key_value", "cached")))
    if form in ("apart", "key_value") and "query_head_count" in cls.fields:
        shared = draw(st.sampled_from((1, 2)))
    value_size = size if form in ("key_value", "query_key_value") else value_size
    new = queries if form.startswith("query") else 0 if form == "cached" else new
    past = max(past, 1) if form == "cached" else past
    has_past = past > 0
    total, all_heads = past + new, heads * shared
    sizes: dict[str, list[int]] = {
        "query_tensor": [batch, queries, all_heads * size],
        "key_tensor": [batch, new, heads * size],
        "value_tensor": [batch, new, heads * value_size],
        "stacked_query_key_tensor": [batch, queries, heads, 2, size],
        "stacked_key_value_tensor": [batch, new, heads, 2, size],
        "stacked_query_key_value_tensor": [batch, queries, heads, 3, size],
        "bias_tensor": [all_heads * size + heads * (size + value_size)],
        "relative_position_bias_tensor": [batch, all_heads, queries, total],
        "past_key_tensor": [batch, heads, past, size],
        "past_value_tensor": [batch, heads, past, value_size],
    }
    held = {
        "apart": ["query_tensor", "key_tensor", "value_tensor"],
        "query_key": ["stacked_query_key_tensor", "value_tensor"],
        "key_value": ["query_tensor", "stacked_key_value_tensor"],
        "query_key_value": ["stacked_query_key_value_tensor"],
        "cached": ["query_tensor"],
    }[form]
    held += ["past_key_tensor", "past_value_tensor"] * has_past
    held += [name for name in ("bias_tensor", "relative_position_bias_tensor") if draw(st.booleans())]
    fields: dict[str, Any] = {name: draw_input(draw, data_type, sizes[name]) for name in held}
    if "past_sequence_lengths_tensor" in cls.fields and has_past and new and draw(st.booleans()):
        fields["past_sequence_lengths_tensor"] = draw_input(draw, TensorDataType.INT32, [batch])
        total = draw(st.integers(past, total)) if "relative_position_bias_tensor" not in held else total
    masks = {
        "NONE": None,
        "KEY_SEQUENCE_LENGTH": [1, batch],
        "KEY_SEQUENCE_END_START": [2, batch],
        "KEY_QUERY_SEQUENCE_LENGTH_START_END": [3 * batch + 2],
        "BOOLEAN": [batch, all_heads, queries, total],
    }
    present = draw(st.sampled_from((0, 3))) if total != past + new else draw(st.integers(0, 3))
    total = past + new if not present else total
    masks["BOOLEAN"] = [batch, all_heads, queries, total]
    kind = draw(st.sampled_from(tuple(masks)))
    mask = masks[kind]
    counts = {"head_count": heads, "query_head_count": all_heads, "key_value_head_count": heads}
    return cls(
        **fields,
        mask_tensor=None if mask is None else draw_input(draw, TensorDataType.INT32, mask),
        mask_type=kind,
        output_tensor=draw_output(draw, data_type, [batch, queries, all_heads * value_size]),
        output_present_key_tensor=draw_output(draw, data_type, [batch, heads, total, size]) if present & 1 else None,
        output_present_value_tensor=draw_output(draw, data_type, [batch, heads, total, value_size])
        if present & 2
        else None,
        scale=draw(st.sampled_from((1.0, 0.25, 0.0, -3.0))),
        mask_filter_value=draw(st.sampled_from((-10000.0, 0.0, float("-inf"), 1.0))),
        **{name: count for name, count in counts.items() if name in cls.fields},
    )


BUILDERS: dict[str, Build] = {
    "MULTIHEAD_ATTENTION MULTIHEAD_ATTENTION1": _attention,
    "GEMM": _gemm,
    "CONVOLUTION": _convolution,
    "RNN GRU LSTM": _recurrent,
}
