"""Depthwise convolutions of tensors whose channels lie side by side, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from opendml import operators
from opendml.description.tensor import TensorDesc


def side_by_side(type: str, sizes: Sequence[int], gap: int = 0) -> TensorDesc:
    """A tensor with its channels side by side, and ``gap`` elements between those of two points."""
    _, channels, height, width = sizes
    pitch = channels + gap
    return TensorDesc(type, sizes, [height * width * pitch, 1, width * pitch, pitch])


def depthwise(
    sizes: Sequence[int],
    window: Sequence[int] = (3, 3),
    *,
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    start: Sequence[int] = (1, 1),
    end: Sequence[int] = (1, 1),
    type: str = "FLOAT32",
    mode: str = "CROSS_CORRELATION",
    outputs: int = 1,
    gap: int = 0,
    plane: str = "",
) -> operators.Convolution:
    """Every channel by itself, ``outputs`` times; the ``plane`` tensor has its own in planes."""
    batch, channels, *places = sizes
    ways = zip(places, window, strides, dilations, start, end, strict=True)
    counts = [(n + s + e - (w - 1) * d - 1) // step + 1 for n, w, step, d, s, e in ways]
    result = [batch, outputs * channels, *counts]
    return operators.Convolution(
        input_tensor=TensorDesc(type, sizes) if plane == "input" else side_by_side(type, sizes, gap),
        filter_tensor=TensorDesc(type, [outputs * channels, 1, *window]),
        output_tensor=TensorDesc(type, result) if plane == "output" else side_by_side(type, result, gap),
        mode=mode,
        direction="FORWARD",
        strides=strides,
        dilations=dilations,
        start_padding=start,
        end_padding=end,
        output_padding=(0, 0),
        group_count=channels,
    )
