"""Windows that slide over images: convolutions and poolings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.formats.onnx.nodes import Node, Results
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.values import NotExpressibleError

__all__ = ["WINDOWS", "TransposedWindow", "convolution_window", "pooled", "reaching", "transposed_window"]


@dataclass(frozen=True, slots=True)
class _Window:
    """A window and its way over the spatial dimensions: one number for each of them everywhere."""

    size: list[int]
    strides: list[int]
    dilations: list[int]
    start: list[int]
    end: list[int]

    def fields(self) -> dict[str, Any]:
        """As the functions name them, but for the size."""
        return {
            "strides": self.strides,
            "dilations": self.dilations,
            "start_padding": self.start,
            "end_padding": self.end,
        }

    def flat(self) -> _Window:
        """With another dimension, of size 1, in front: for images of one dimension."""
        return _Window([1, *self.size], [1, *self.strides], [1, *self.dilations], [0, *self.start], [0, *self.end])


def _window(node: Node, image: Sequence[int], size: Sequence[int]) -> _Window:
    count = len(image)
    strides = node.integers("strides") or [1] * count
    dilations = node.integers("dilations") or [1] * count
    pads = node.integers("pads") or [0] * 2 * count
    window = _Window(list(size), strides, dilations, pads[:count], pads[count:])
    mode = node.text("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return window
    if mode == "VALID":
        return replace(window, start=[0] * count, end=[0] * count)
    totals = [
        max((-(-length // stride) - 1) * stride + (one - 1) * dilation + 1 - length, 0)
        for length, one, stride, dilation in zip(image, size, strides, dilations, strict=True)
    ]
    start, end = _shared(totals, mode)
    return replace(window, start=start, end=end)


def _shared(totals: Sequence[int], mode: str) -> tuple[list[int], list[int]]:
    """Padding shared out between start and end; of an odd number more is at the end, or (SAME_LOWER) at the start."""
    smaller = [total // 2 for total in totals]
    larger = [total - total // 2 for total in totals]
    return (smaller, larger) if mode == "SAME_UPPER" else (larger, smaller)


# ---- convolutions


def convolution_window(node: Node, data: GraphTensor, filter: GraphTensor) -> dict[str, Any]:
    """How the filter of a convolution goes over the data, as the functions name it."""
    return _window(node, data.sizes[2:], _filter_size(node, filter)).fields()


def _filter_size(node: Node, filter: GraphTensor) -> Sequence[int]:
    """The size of a filter's window, which a node may say, too."""
    size, said = list(filter.sizes[2:]), node.integers("kernel_shape")
    if said and said != size:
        raise NotExpressibleError(f"kernel_shape: expected {size}, which the filter has, got {said}")
    return size


def _bias(node: Node, position: int) -> GraphTensor | None:
    return node.optional(position)


def _convolution(node: Node) -> Results:
    data, filter = node.tensor(0), node.tensor(1)
    window = convolution_window(node, data, filter)
    found: Any = dml.convolution(data, filter, _bias(node, 2), group_count=node.integer("group", 1), **window)
    return node.result(found)


class TransposedWindow(NamedTuple):
    """How the filter of a transposed convolution goes over an output of ``sizes``, which is what it reaches without so
    many elements at the ``start`` and at the ``end``; ``more`` follow there that it does not reach."""

    strides: Sequence[int]
    dilations: Sequence[int]
    start: Sequence[int]
    end: Sequence[int]
    output_padding: Sequence[int]
    sizes: Sequence[int]
    more: Sequence[int]


def transposed_window(node: Node, data: GraphTensor, filter: GraphTensor) -> TransposedWindow:
    """The attributes of a ConvTranspose."""
    image, size = data.sizes[2:], _filter_size(node, filter)
    window = replace(_window(node, image, size), start=[0] * len(image), end=[0] * len(image))
    extra = node.integers("output_padding") or [0] * len(image)
    full = [
        stride * (length - 1) + (one - 1) * dilation + 1 + more
        for length, one, stride, dilation, more in zip(
            image, size, window.strides, window.dilations, extra, strict=True
        )
    ]
    start, end = _cut(node, image, window.strides, full)
    more = [max(-first, 0) + max(-last, 0) for first, last in zip(start, end, strict=True)]
    start, end = ([max(one, 0) for one in cut] for cut in (start, end))
    sizes = [length - first - last for length, first, last in zip(full, start, end, strict=True)]
    return TransposedWindow(window.strides, window.dilations, start, end, extra, sizes, more)


def _transposed_convolution(node: Node) -> Results:
    data, filter, bias = node.tensor(0), node.tensor(1), _bias(node, 2)
    window, group = transposed_window(node, data, filter), node.integer("group", 1)
    found: Any = dml.convolution(
        data,
        filter,
        None if any(window.more) else bias,
        direction="BACKWARD",
        strides=window.strides,
        dilations=window.dilations,
        start_padding=window.start,
        end_padding=window.end,
        output_padding=window.output_padding,
        group_count=group,
        output_sizes=[data.sizes[0], filter.sizes[1] * group, *window.sizes],
    )
    if any(window.more):
        found = dml.padding(found, start_padding=[0] * data.rank, end_padding=[0, 0, *window.more])
        found = found if bias is None else found + bias.reshape(1, -1, *[1] * (data.rank - 2))
    return node.result(found)


def _cut(node: Node, image: Sequence[int], strides: Sequence[int], full: Sequence[int]) -> tuple[list[int], list[int]]:
    """What a transposed convolution leaves out at the start and at the end; less than nothing is added at the end."""
    mode = node.text("auto_pad", "NOTSET")
    wanted = node.integers("output_shape")
    if wanted is not None:
        wanted = wanted[-len(image) :]
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [length * stride for length, stride in zip(image, strides, strict=True)]
    if wanted is None:
        pads = node.integers("pads") if mode in ("NOTSET", "") else None
        pads = pads or [0] * 2 * len(image)
        return pads[: len(image)], pads[len(image) :]
    totals = [have - want for have, want in zip(full, wanted, strict=True)]
    start, end = _shared([max(total, 0) for total in totals], "SAME_UPPER" if mode == "SAME_UPPER" else "SAME_LOWER")
    return start, [last + min(total, 0) for last, total in zip(end, totals, strict=True)]


def _integer_convolution(node: Node) -> Results:
    data, filter = node.tensor(0), node.tensor(1)
    found: Any = dml.convolution_integer(
        data,
        node.optional(2),
        filter,
        node.optional(3),
        group_count=node.integer("group", 1),
        **convolution_window(node, data, filter),
    )
    return node.result(found)


def _quantized_convolution(node: Node) -> Results:
    data, filter = node.tensor(0), node.tensor(3)
    found: Any = dml.quantized_linear_convolution(
        data,
        node.tensor(1),
        node.optional(2),
        filter,
        node.tensor(4),
        node.optional(5),
        node.optional(8),
        node.tensor(6),
        node.optional(7),
        group_count=node.integer("group", 1),
        **convolution_window(node, data, filter),
    )
    return node.result(found)


# ---- poolings


def pooled(node: Node) -> tuple[GraphTensor, _Window, list[int]]:
    """The images with two spatial dimensions at least, the window, and the sizes of the output."""
    data = node.tensor()
    window = _window(node, data.sizes[2:], node.integers("kernel_shape") or [])
    if len(window.size) == 1:
        data, window = data.expand_dims(2), window.flat()
    counts = [
        _count(*each, ceil=bool(node.integer("ceil_mode")))
        for each in zip(
            data.sizes[2:], window.size, window.strides, window.dilations, window.start, window.end, strict=True
        )
    ]
    return data, window, [*data.sizes[:2], *counts]


def _count(length: int, size: int, stride: int, dilation: int, start: int, end: int, *, ceil: bool) -> int:
    """Places of a window; rounded up, the last one must begin in the image or the padding before it."""
    way = length + start + end - (size - 1) * dilation - 1
    if not ceil:
        return way // stride + 1
    count = -(-way // stride) + 1
    return count - 1 if (count - 1) * stride >= length + start else count


def reaching(window: _Window, image: Sequence[int], counts: Sequence[int]) -> _Window:
    """The window with as much padding at the end as its last place needs."""
    end = [
        max(pad, (count - 1) * stride + (size - 1) * dilation + 1 - length - start)
        for pad, count, size, stride, dilation, length, start in zip(
            window.end, counts, window.size, window.strides, window.dilations, image, window.start, strict=True
        )
    ]
    return replace(window, end=end)


def _result_sizes(node: Node, sizes: Sequence[int]) -> list[int]:
    """Without the dimension that was put in for images of one dimension."""
    return [*sizes[:2], *sizes[3:]] if len(node.sizes()) == 3 else list(sizes)


def _max_pool(node: Node) -> Results:
    data, window, sizes = pooled(node)
    found = dml.max_pooling(
        data,
        window_size=window.size,
        output_indices=node.wants(1),
        indices_data_type="uint64",
        output_sizes=sizes,
        **reaching(window, data.sizes[2:], sizes[2:]).fields(),
    )
    kept = _result_sizes(node, sizes)
    values = node.result(found.values, kept)
    if found.indices is None:
        return values
    indices = found.indices.reinterpret(data_type="int64")
    if node.integer("storage_order"):
        indices = _by_columns(indices, data.sizes[2:])
    return [values, node.result(indices, kept)]


def _by_columns(indices: GraphTensor, image: Sequence[int]) -> GraphTensor:
    """Numbers of elements that count the first spatial dimension fastest."""
    every = [np.full((1,) * indices.rank, count, np.int64) for count in (math.prod(image), *image)]
    place = dml.modulus_floor(indices, every[0])
    found = indices - place
    step = np.ones((1,) * indices.rank, np.int64)
    steps = [step * math.prod(image[:number]) for number in range(len(image))]
    for count, one in reversed(list(zip(every[1:], steps, strict=True))):
        found = found + dml.modulus_floor(place, count) * one
        place = dml.divide(place, count)
    return found


def _average_pool(node: Node) -> Results:
    """Padding may count; what a window needs beyond it never does, so then the padding becomes a part of the image."""
    data, window, sizes = pooled(node)
    counts_padding = bool(node.integer("count_include_pad"))
    reached = reaching(window, data.sizes[2:], sizes[2:])
    if counts_padding and reached.end != window.end:
        data = dml.padding(data, start_padding=[0, 0, *window.start], end_padding=[0, 0, *window.end])
        nothing = [0] * len(window.size)
        reached = reaching(replace(window, start=nothing, end=nothing), data.sizes[2:], sizes[2:])
        counts_padding = False
    found = dml.average_pooling(
        data, window_size=window.size, include_padding=counts_padding, output_sizes=sizes, **reached.fields()
    )
    return node.result(found, _result_sizes(node, sizes))


def _lp_pool(node: Node) -> Results:
    data, window, sizes = pooled(node)
    found = dml.lp_pooling(
        data,
        window_size=window.size,
        p=node.integer("p", 2),
        output_sizes=sizes,
        **reaching(window, data.sizes[2:], sizes[2:]).fields(),
    )
    return node.result(found, _result_sizes(node, sizes))


def _max_unpool(node: Node) -> Results:
    """Indices count in the image that the window makes, which ``output_shape`` may enlarge at its ends."""
    sizes = node.sizes()
    if len(sizes) != 4:
        raise NotExpressibleError(f"{len(sizes) - 2} spatial dimensions have no operator")
    window = _window(node, sizes[2:], node.integers("kernel_shape") or [])
    spatial = [
        (length - 1) * stride - first - last + size
        for length, stride, first, last, size in zip(
            sizes[2:], window.strides, window.start, window.end, window.size, strict=True
        )
    ]
    counted = [*sizes[:2], *spatial]
    indices = node.tensor(1).packed().reinterpret(data_type="uint64")
    found = dml.max_unpooling(node.tensor(), indices, output_sizes=counted)
    wanted = node.integers_of(2) if node.has(2) else counted
    more = [want - have for want, have in zip(wanted, counted, strict=True)]
    if any(more):
        found = dml.padding(found, start_padding=[0] * 4, end_padding=more)
    return node.result(found, wanted, node.type_of())


WINDOWS: Final[Table] = {
    "AveragePool": _average_pool,
    "Conv": _convolution,
    "ConvInteger": _integer_convolution,
    "ConvTranspose": _transposed_convolution,
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
    "QLinearConv": _quantized_convolution,
}
