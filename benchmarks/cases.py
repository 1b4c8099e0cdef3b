"""What is measured: a table of descriptors, with the aims that they are held to.

A case is a DirectML descriptor, or a chain of operators (``chains``), and nothing else: opendml compiles it, and every
peer translates it into calls of its own, so all of them do the same work on the same arrays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.chains import Chain
from benchmarks.matrix_layers import MatrixProduct
from benchmarks.quantized_layers import QuantizedLayer
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    DepthSpaceOrder,
    InterpolationMode,
    MatrixTransform,
    PaddingMode,
    ReduceFunction,
)
from opendml.description.tensor import TensorDesc, packed_strides

POOLED = (8, 64, 112, 112)
"""The input of the two-dimensional poolings, whatever its data type."""

RESAMPLED = (8, 64, 56, 56)
"""What is resampled."""

VOLUME = (4, 32, 16, 56, 56)
"""The input of the three-dimensional pooling."""

IMAGE = (16, 64, 112, 112)
"""The float32 tensor of the other cases, 49 MiB; narrower types get a larger batch and the same number of bytes."""


Work = Operator | Chain
"""What is compiled and run: both tell their inputs and outputs."""

Values = tuple[float, float]
"""The range of random inputs, integers included."""


@dataclass(frozen=True)
class Aim:
    """What a case should reach: ``ratio`` times the speed of the best peer, ``share`` of the copy bandwidth, ``eager``
    times the speed of PyTorch's calls one by one."""

    ratio: float | None = None
    share: float | None = None
    eager: float | None = None


@dataclass(frozen=True)
class Case:
    """One row of the result: a descriptor, the section that it stands in, its aim, the range of its inputs, and what
    makes the inputs that it takes of random ones."""

    group: str
    name: str
    operator: Work
    aim: Aim = Aim()
    values: Values | None = None
    fill: Callable[[Sequence[npt.NDArray[Any]]], None] | None = None

    @property
    def title(self) -> str:
        """What ``--only`` is matched against."""
        return f"{self.group}: {self.name}"


@dataclass(frozen=True)
class Growth:
    """A panel of the plot over sizes: ``build(n)`` is the descriptor whose first input has ``n`` bytes."""

    name: str
    build: Callable[[int], Operator]


def all_cases() -> list[Case]:
    """All rows of the table, in its order."""
    sections = (
        _max_poolings,
        _slices,
        _splits_and_joins,
        _paddings,
        _tiles,
        _casts,
        _identities,
        _block_rearrangements,
        _additions,
        _reductions,
        _contractions,
        _pooling_gradients,
        _resamplings,
        _sliding_blocks,
        _recurrent,
        _attentions,
        _selections,
    )
    return [case for section in sections for case in section()]


def growths() -> list[Growth]:
    """The panels of the plot over sizes."""
    return [
        Growth("identity (copy)", lambda n: identity(_packed("FLOAT32", (n // 4096, 1024)))),
        Growth("slice, inner stride -2", lambda n: slice1("FLOAT32", (1, 1, n // 4096, 1024), {3: -2})),
        Growth("add", lambda n: add("FLOAT32", (n // 4096, 1024))),
        Growth("max pooling 3x3/2 with indices", lambda n: max_pooling("FLOAT32", _plane(n), 3, 2, 1, indices=True)),
    ]


# ----------------------------------------------------------------------------------------------------------- sections


def _max_poolings() -> Iterator[Case]:
    windows = (("3x3/2 pad 1", 3, 2, 1), ("3x3/2", 3, 2, 0), ("2x2/2", 2, 2, 0))
    types = ("FLOAT32", "FLOAT16", "INT8")
    rows: list[Any] = [(data_type, POOLED, *window) for window, data_type in itertools.product(windows, types)]
    rows.append(("FLOAT32", VOLUME, "3x3x3/2 pad 1", 3, 2, 1))
    for indices, (data_type, sizes, label, size, stride, padding) in itertools.product((False, True), rows):
        aim = Aim(10.0 if indices else 1.0, 0.6 if data_type == "FLOAT32" else None)
        group = "max pooling with indices" if indices else "max pooling"
        operator = max_pooling(data_type, sizes, size, stride, padding, indices=indices)
        yield Case(group, f"{label} {short_name(data_type)}", operator, aim)


def _slices() -> Iterator[Case]:
    for place, axis in (("inner", 3), ("outer", 1)):
        for stride in (1, -1, 2, -2, -3):
            aim = _moving(place == "outer" or stride == 1)
            yield Case("slice1", f"{place} {stride:+d} f32", slice1("FLOAT32", IMAGE, {axis: stride}), aim)
    yield Case("slice1", "rows -2, columns +2 f32", slice1("FLOAT32", IMAGE, {2: -2, 3: 2}), _moving(False))
    for stride in (-1, 2):
        operator = slice1("INT8", _image("INT8"), {3: stride})
        yield Case("slice1", f"inner {stride:+d} i8", operator, _moving(False))


def _splits_and_joins() -> Iterator[Case]:
    pieces = (("channels 16+16+32", 1, (16, 16, 32)), ("batch 4+12", 0, (4, 12)), ("columns 28+84", 3, (28, 84)))
    for group, build in (("split", split), ("join", join)):
        for name, axis, sizes in pieces:
            yield Case(group, f"{name} f32", build("FLOAT32", IMAGE, axis, sizes), _moving(True))


def _paddings() -> Iterator[Case]:
    for mode, amount in itertools.product((PaddingMode.CONSTANT, PaddingMode.EDGE, PaddingMode.REFLECTION), (1, 3)):
        operator = padding("FLOAT32", IMAGE, (0, 0, amount, amount), mode)
        yield Case("padding", f"{mode.name.lower()} {amount} f32", operator, _moving(True))


def _tiles() -> Iterator[Case]:
    small = (16, 32, 56, 112)
    for name, repeats in (("channels x4", (1, 4, 1, 1)), ("rows and columns x2", (1, 1, 2, 2))):
        yield Case("tile", f"{name} f32", tile("FLOAT32", small, repeats), _moving(True))


def _casts() -> Iterator[Case]:
    pairs = (
        ("FLOAT32", "FLOAT16"),
        ("FLOAT16", "FLOAT32"),
        ("FLOAT32", "INT32"),
        ("INT32", "FLOAT32"),
        ("FLOAT32", "INT8"),
        ("INT8", "FLOAT32"),
        ("INT64", "INT32"),
        ("UINT8", "FLOAT16"),
    )
    for source, target in pairs:
        yield Case("cast", f"{short_name(source)} to {short_name(target)}", cast(source, target, IMAGE), _moving(True))


def _identities() -> Iterator[Case]:
    for data_type in ("FLOAT32", "INT8"):
        operator = identity(_packed(data_type, _image(data_type)))
        yield Case("identity", f"copy {short_name(data_type)}", operator, _moving(True))
    for data_type in ("FLOAT32", "FLOAT16", "INT8"):
        sizes = _image(data_type)
        rows_first = _packed(data_type, sizes)
        channels_last = TensorDesc(data_type, sizes, _channels_last_strides(sizes))
        for name, source, target in (
            ("NCHW to NHWC", rows_first, channels_last),
            ("NHWC to NCHW", channels_last, rows_first),
        ):
            yield Case("identity", f"{name} {short_name(data_type)}", identity(source, target), _moving(False))


def _block_rearrangements() -> Iterator[Case]:
    for order in DepthSpaceOrder:
        short = "".join(word[0] for word in order.name.split("_"))
        yield Case("space to depth", f"{short} 2 f32", space_to_depth("FLOAT32", IMAGE, 2, order), _moving(False))
        yield Case("depth to space", f"{short} 2 f32", depth_to_space("FLOAT32", IMAGE, 2, order), _moving(False))


def _additions() -> Iterator[Case]:
    for data_type in ("FLOAT32", "FLOAT16", "INT8"):
        yield Case("add", short_name(data_type), add(data_type, _image(data_type)), _moving(True))
    n, c, h, w = IMAGE
    for name, repeated in (("one value a channel", (0, 2, 3)), ("one row", (0, 1, 2)), ("one image", (0,))):
        yield Case("add", f"{name} f32", add("FLOAT32", (n, c, h, w), repeated), _moving(True))


def _reductions() -> Iterator[Case]:
    places = (("inner", (3,)), ("middle", (1,)), ("outer", (0,)), ("all axes", (0, 1, 2, 3)))
    functions = {
        "sum": ReduceFunction.SUM,
        "max": ReduceFunction.MAX,
        "mean": ReduceFunction.AVERAGE,
        "argmax": ReduceFunction.ARGMAX,
    }
    for (name, function), (place, axes) in itertools.product(functions.items(), places):
        yield Case("reduce", f"{name} {place} f32", reduce(function, "FLOAT32", IMAGE, axes), Aim(1.0))


def _contractions() -> Iterator[Case]:
    serious = Aim(share=0.6)
    yield Case("GEMM", "1024x1024x1024 f32", gemm("FLOAT32", 1024, 1024, 1024), serious)
    windows = (  # all of ResNet-50
        ("3x3 64 to 64, 56x56", 64, 64, 56, 3, 1),
        ("3x3/2 128 to 128, 56x56", 128, 128, 56, 3, 2),
        ("3x3 128 to 128, 28x28", 128, 128, 28, 3, 1),
        ("3x3/2 256 to 256, 28x28", 256, 256, 28, 3, 2),
        ("3x3 256 to 256, 14x14", 256, 256, 14, 3, 1),
        ("3x3/2 512 to 512, 14x14", 512, 512, 14, 3, 2),
        ("3x3 512 to 512, 7x7", 512, 512, 7, 3, 1),
    )
    for name, *layer in windows:
        yield Case("convolution", f"{name} f32, batch 8", convolution("FLOAT32", 8, *layer), serious)
    points = (
        ("1x1 256 to 64, 56x56", 256, 64, 56, 1, 1),
        ("1x1 1024 to 256, 14x14", 1024, 256, 14, 1, 1),
    )
    for name, *layer in points:
        yield Case("convolution", f"{name} f32, batch 8", convolution("FLOAT32", 8, *layer))
    yield Case("integer product", "1024x1024x1024 u8 i8", integer_product(1024, 1024, 1024), Aim(1.0, 0.6), (-100, 100))
    yield Case("integer product", "128x768x768 u8 i8", integer_product(128, 768, 768), Aim(1.0), (-100, 100))
    for name, *layer in (windows[0], windows[4], windows[6], points[0]):
        title = f"{name} u8 i8, batch 8"
        yield Case("quantized convolution", title, quantized_convolution(8, *layer), Aim(1.0), (1, 100))


def _pooling_gradients() -> Iterator[Case]:
    for label, size, stride, padding in (("3x3/2 pad 1", 3, 2, 1), ("2x2/2", 2, 2, 0)):
        for name, build in (("average", average_pooling_grad), ("max", max_pooling_grad)):
            yield Case("pooling gradient", f"{name} {label} f32", build(POOLED, size, stride, padding), Aim(1.0))


def _resamplings() -> Iterator[Case]:
    """Of values that do not cancel: libraries divide by scales or multiply by their rounded inverses, and weights
    differ by as much as coordinates are rounded."""
    values = (25, 75)
    for mode in InterpolationMode:
        name = mode.name.lower().replace("_", " ")
        for place, sizes in (("2 x", (112, 112)), ("1.5 x 2.5", (84, 140)), ("0.5 x", (28, 28))):
            yield Case("resample", f"{name} {place} f32", resample(RESAMPLED, sizes, mode), Aim(1.0), values)
            gradient = resample(RESAMPLED, sizes, mode, backward=True)
            yield Case("resample", f"gradient of {name} {place} f32", gradient, Aim(1.0), values)


def _sliding_blocks() -> Iterator[Case]:
    for label, sizes, *window in (
        ("3x3 pad 1", RESAMPLED, 3, 1, 1),
        ("3x3/2 pad 1", RESAMPLED, 3, 2, 1),
        ("patches 16x16", (8, 3, 224, 224), 16, 16, 0),
    ):
        for is_fold, name in enumerate(("unfold", "fold")):
            yield Case("sliding blocks", f"{name} {label} f32", blocks(sizes, *window, is_fold=bool(is_fold)), Aim(1.0))


def _recurrent() -> Iterator[Case]:
    for kind in (operators.Lstm, operators.Gru, operators.Rnn):
        for steps, batch, hidden in ((32, 1, 128), (32, 8, 128), (64, 8, 256), (64, 1, 512)):
            name = f"{kind.__name__.upper()} {hidden} units f32, {steps} steps, batch {batch}"
            yield Case("recurrent", name, recurrent(kind, steps, batch, hidden), Aim(1.0), values=(-0.1, 0.1))


def _attentions() -> Iterator[Case]:
    shapes = ((128, 12, 64), (512, 12, 64), (1024, 8, 64), (2048, 8, 64), (4096, 8, 64), (8192, 2, 64), (2048, 4, 128))
    for sequence, heads, size in shapes:
        name = f"{heads} heads of {size} f32, {sequence} queries and keys"
        yield Case("attention", name, attention(sequence, heads, size), Aim(1.0), values=(-1, 1))
    for sequence in (384, 1024):
        name = f"12 heads of 64 f32, {sequence} queries that see no later keys"
        operator = attention(sequence, 12, 64, is_masked=True)
        yield Case("attention", name, operator, Aim(1.0), values=(-1, 1), fill=_hide_later_keys)
    for past in (128, 1024, 4096):
        name = f"12 heads of 64 f32, one query behind {past} keys"
        yield Case("attention", name, attention(1, 12, 64, past=past), Aim(1.0), values=(-1, 1))


def _hide_later_keys(inputs: Sequence[npt.NDArray[Any]]) -> None:
    """A bias that hides them from the softmax."""
    bias = inputs[3]
    bias[...] = (np.tri(*bias.shape[-2:], dtype=bias.dtype) - 1) * 10000


def _selections() -> Iterator[Case]:
    """Scores of classes and of words, a long list, boxes along the first of two dimensions, and a full sort."""
    shapes = (((64, 1000), 1, 5), ((16, 32000), 1, 50), ((1, 1 << 20), 1, 100), ((8400, 80), 0, 100))
    for sizes, axis, count in (*shapes, ((256, 1000), 1, 1000)):
        name = f"{count} of {sizes[axis]} f32, {sizes[1 - axis]} times"
        yield Case("selection", name, top_k(sizes, axis, count), Aim(1.0))


def _moving(is_contiguous: bool) -> Aim:
    """Never below the best peer, and near the bandwidth where whole lines of the cache are read and written."""
    return Aim(1.0, 0.8 if is_contiguous else None)


# -------------------------------------------------------------------------------------------------------- descriptors


def average_pooling_grad(sizes: Sequence[int], window: int, stride: int, padding: int) -> Operator:
    """AVERAGE_POOLING_GRAD of a square window, without padding in the divisor."""
    return operators.AveragePoolingGrad(**_pooled_gradient(sizes, window, stride, padding), include_padding=False)


def max_pooling_grad(sizes: Sequence[int], window: int, stride: int, padding: int) -> Operator:
    """MAX_POOLING_GRAD of a square window."""
    fields = _pooled_gradient(sizes, window, stride, padding)
    return operators.MaxPoolingGrad(input_tensor=_packed("FLOAT32", sizes), dilations=[1, 1], **fields)


def _pooled_gradient(sizes: Sequence[int], window: int, stride: int, padding: int) -> dict[str, Any]:
    pooled = (*sizes[:2], *((size + 2 * padding - window) // stride + 1 for size in sizes[2:]))
    return {
        "input_gradient_tensor": _packed("FLOAT32", pooled),
        "output_gradient_tensor": _packed("FLOAT32", sizes),
        "strides": [stride] * 2,
        "window_size": [window] * 2,
        "start_padding": [padding] * 2,
        "end_padding": [padding] * 2,
    }


def resample(
    sizes: Sequence[int], image: Sequence[int], mode: InterpolationMode, *, backward: bool = False
) -> Operator:
    """RESAMPLE1 of images with their centres aligned, or its gradient."""
    original, resampled = _packed("FLOAT32", sizes), _packed("FLOAT32", (*sizes[:2], *image))
    fields: dict[str, Any] = {
        "interpolation_mode": mode,
        "scales": [b / a for a, b in zip(original.sizes, resampled.sizes, strict=True)],
        "input_pixel_offsets": [0.5] * 4,
        "output_pixel_offsets": [-0.5] * 4,
    }
    if backward:
        return operators.ResampleGrad(input_gradient_tensor=resampled, output_gradient_tensor=original, **fields)
    return operators.Resample1(input_tensor=original, output_tensor=resampled, **fields)


def blocks(sizes: Sequence[int], window: int, stride: int, padding: int, *, is_fold: bool = False) -> Operator:
    """UNFOLD of a square window, or FOLD of its columns."""
    count = math.prod((size + 2 * padding - window) // stride + 1 for size in sizes[2:])
    image, columns = _packed("FLOAT32", sizes), _packed("FLOAT32", (sizes[0], sizes[1] * window**2, count))
    fields: dict[str, Any] = {"window_sizes": [window] * 2, "strides": [stride] * 2, "dilations": [1] * 2}
    fields |= {"start_padding": [padding] * 2, "end_padding": [padding] * 2}
    if is_fold:
        return operators.Fold(input_tensor=columns, output_tensor=image, **fields)
    return operators.Unfold(input_tensor=image, output_tensor=columns, **fields)


def recurrent(kind: type[Any], steps: int, batch: int, hidden: int) -> Operator:
    """A network of as many inputs as units, forward, with biases; all states are its output."""
    rows, sigmoid, tanh = kind.gates * hidden, operators.ActivationSigmoid(), operators.ActivationTanh()
    fields: dict[Any, dict[str, Any]] = {
        operators.Rnn: {"activation_descs": [tanh]},
        operators.Gru: {"activation_descs": [sigmoid, tanh], "linear_before_reset": True},
        operators.Lstm: {
            "activation_descs": [sigmoid, tanh, tanh],
            "clip_threshold": 0,
            "use_clip_threshold": False,
            "couple_input_forget": False,
        },
    }
    operator: Operator = kind(
        input_tensor=_packed("FLOAT32", (1, steps, batch, hidden)),
        weight_tensor=_packed("FLOAT32", (1, 1, rows, hidden)),
        recurrence_tensor=_packed("FLOAT32", (1, 1, rows, hidden)),
        bias_tensor=_packed("FLOAT32", (1, 1, 1, 2 * rows)),
        output_sequence_tensor=_packed("FLOAT32", (steps, 1, batch, hidden)),
        direction="FORWARD",
        **fields[kind],
    )
    return operator


def attention(sequence: int, heads: int, size: int, *, past: int = 0, is_masked: bool = False) -> Operator:
    """Queries, keys and values of one batch, behind those of the past, and a bias of all scores if it is masked."""
    tensor = _packed("FLOAT32", (1, sequence, heads * size))
    given = dict.fromkeys(("query_tensor", "key_tensor", "value_tensor", "output_tensor"), tensor)
    if is_masked:
        given["relative_position_bias_tensor"] = _packed("FLOAT32", (1, heads, sequence, past + sequence))
    if past:
        cache = _packed("FLOAT32", (1, heads, past, size))
        given |= {"past_key_tensor": cache, "past_value_tensor": cache}
    return operators.MultiheadAttention(
        **given, scale=size**-0.5, mask_filter_value=-10000, head_count=heads, mask_type="NONE"
    )


def max_pooling(
    data_type: str, sizes: Sequence[int], window: int, stride: int, padding: int, *, indices: bool
) -> Operator:
    """MAX_POOLING, or MAX_POOLING1 with its indices; the same window along every spatial dimension."""
    spatial = len(sizes) - 2
    pooled = [(size + 2 * padding - window) // stride + 1 for size in sizes[2:]]
    fields: dict[str, Any] = {
        "input_tensor": _packed(data_type, sizes),
        "output_tensor": _packed(data_type, (*sizes[:2], *pooled)),
        "strides": [stride] * spatial,
        "window_size": [window] * spatial,
        "start_padding": [padding] * spatial,
        "end_padding": [padding] * spatial,
    }
    if indices:
        return operators.MaxPooling1(**fields, output_indices_tensor=_packed("UINT32", (*sizes[:2], *pooled)))
    return operators.MaxPooling(**fields)


def slice1(data_type: str, sizes: Sequence[int], axis_strides: Mapping[int, int]) -> Operator:
    """SLICE1 with the stride of each sliced axis, without its first and last 4 elements; the other axes stay whole."""
    strides = [axis_strides.get(axis, 1) for axis in range(len(sizes))]
    margins = [4 if axis in axis_strides else 0 for axis in range(len(sizes))]
    windows = [size - 2 * margin for size, margin in zip(sizes, margins, strict=True)]
    selected = [1 + (window - 1) // abs(stride) for window, stride in zip(windows, strides, strict=True)]
    return operators.Slice1(
        input_tensor=_packed(data_type, sizes),
        output_tensor=_packed(data_type, selected),
        input_window_offsets=tuple(margins),
        input_window_sizes=tuple(windows),
        input_window_strides=tuple(strides),
    )


def split(data_type: str, sizes: Sequence[int], axis: int, pieces: Sequence[int]) -> Operator:
    """SPLIT into pieces of the given sizes along ``axis``."""
    parts = tuple(_packed(data_type, _with(sizes, axis, piece)) for piece in pieces)
    return operators.Split(input_tensor=_packed(data_type, sizes), output_tensors=parts, axis=axis)


def join(data_type: str, sizes: Sequence[int], axis: int, pieces: Sequence[int]) -> Operator:
    """JOIN of pieces of the given sizes along ``axis``."""
    parts = tuple(_packed(data_type, _with(sizes, axis, piece)) for piece in pieces)
    return operators.Join(input_tensors=parts, output_tensor=_packed(data_type, sizes), axis=axis)


def padding(data_type: str, sizes: Sequence[int], amounts: Sequence[int], mode: PaddingMode) -> Operator:
    """PADDING by the same amount before and after."""
    padded = [size + 2 * amount for size, amount in zip(sizes, amounts, strict=True)]
    return operators.Padding(
        input_tensor=_packed(data_type, sizes),
        output_tensor=_packed(data_type, padded),
        padding_mode=mode,
        padding_value=0.0,
        start_padding=tuple(amounts),
        end_padding=tuple(amounts),
    )


def tile(data_type: str, sizes: Sequence[int], repeats: Sequence[int]) -> Operator:
    """TILE."""
    repeated = [size * count for size, count in zip(sizes, repeats, strict=True)]
    return operators.Tile(
        input_tensor=_packed(data_type, sizes), output_tensor=_packed(data_type, repeated), repeats=tuple(repeats)
    )


def cast(source: str, target: str, sizes: Sequence[int]) -> Operator:
    """CAST."""
    return operators.Cast(input_tensor=_packed(source, sizes), output_tensor=_packed(target, sizes))


def identity(source: TensorDesc, target: TensorDesc | None = None) -> Operator:
    """ELEMENT_WISE_IDENTITY; a copy, or a change of the layout."""
    return operators.ElementWiseIdentity(input_tensor=source, output_tensor=target or source)


def space_to_depth(data_type: str, sizes: Sequence[int], block: int, order: DepthSpaceOrder) -> Operator:
    """SPACE_TO_DEPTH1."""
    n, c, h, w = sizes
    return operators.SpaceToDepth1(
        input_tensor=_packed(data_type, sizes),
        output_tensor=_packed(data_type, (n, c * block * block, h // block, w // block)),
        block_size=block,
        order=order,
    )


def depth_to_space(data_type: str, sizes: Sequence[int], block: int, order: DepthSpaceOrder) -> Operator:
    """DEPTH_TO_SPACE1."""
    n, c, h, w = sizes
    return operators.DepthToSpace1(
        input_tensor=_packed(data_type, sizes),
        output_tensor=_packed(data_type, (n, c // block // block, h * block, w * block)),
        block_size=block,
        order=order,
    )


def add(data_type: str, sizes: Sequence[int], repeated: Sequence[int] = ()) -> Operator:
    """ELEMENT_WISE_ADD; the second operand is repeated along some axes (broadcast)."""
    single = [1 if i in repeated else size for i, size in enumerate(sizes)]
    strides = [0 if i in repeated else stride for i, stride in enumerate(packed_strides(single))]
    plain = _packed(data_type, sizes)
    second = TensorDesc(data_type, sizes, strides) if repeated else plain
    return operators.ElementWiseAdd(a_tensor=plain, b_tensor=second, output_tensor=plain)


def reduce(function: ReduceFunction, data_type: str, sizes: Sequence[int], axes: Sequence[int]) -> Operator:
    """REDUCE."""
    reduced = [1 if i in axes else size for i, size in enumerate(sizes)]
    return operators.Reduce(
        function=function,
        input_tensor=_packed(data_type, sizes),
        output_tensor=_packed("UINT32" if function is ReduceFunction.ARGMAX else data_type, reduced),
        axes=tuple(axes),
    )


def top_k(sizes: Sequence[int], axis: int, count: int) -> Operator:
    """TOP_K1, the largest elements."""
    wanted = [count if i == axis else size for i, size in enumerate(sizes)]
    return operators.TopK1(
        input_tensor=_packed("FLOAT32", sizes),
        output_value_tensor=_packed("FLOAT32", wanted),
        output_index_tensor=_packed("UINT32", wanted),
        axis=axis,
        k=count,
        axis_direction="DECREASING",
    )


def gemm(data_type: str, rows: int, columns: int, inner: int) -> Operator:
    """GEMM of two packed matrices."""
    return operators.Gemm(
        a_tensor=_packed(data_type, (1, 1, rows, inner)),
        b_tensor=_packed(data_type, (1, 1, inner, columns)),
        output_tensor=_packed(data_type, (1, 1, rows, columns)),
        trans_a=MatrixTransform.NONE,
        trans_b=MatrixTransform.NONE,
        alpha=1.0,
        beta=0.0,
    )


def integer_product(rows: int, columns: int, inner: int) -> Operator:
    """MATRIX_MULTIPLY_INTEGER of packed matrices without zero points."""
    return operators.MatrixMultiplyInteger(
        a_tensor=_packed("UINT8", (rows, inner)),
        b_tensor=_packed("INT8", (inner, columns)),
        output_tensor=_packed("INT32", (rows, columns)),
    )


def quantized_convolution(batch: int, channels: int, filters: int, size: int, window: int, stride: int) -> Operator:
    """QUANTIZED_LINEAR_CONVOLUTION as ``convolution``, a scale for each filter, without zero points."""
    margin = window // 2
    result = (size + 2 * margin - window) // stride + 1
    one = _packed("FLOAT32", (1, 1, 1, 1))
    return operators.QuantizedLinearConvolution(
        input_tensor=_packed("UINT8", (batch, channels, size, size)),
        input_scale_tensor=one,
        filter_tensor=_packed("INT8", (filters, channels, window, window)),
        filter_scale_tensor=_packed("FLOAT32", (1, filters, 1, 1)),
        output_scale_tensor=one,
        output_tensor=_packed("UINT8", (batch, filters, result, result)),
        strides=(stride, stride),
        dilations=(1, 1),
        start_padding=(margin, margin),
        end_padding=(margin, margin),
        group_count=1,
    )


def convolution(
    data_type: str, batch: int, channels: int, filters: int, size: int, window: int, stride: int
) -> Operator:
    """CONVOLUTION of square images that keeps their size (or divides it by the stride), without bias."""
    margin = window // 2
    result = (size + 2 * margin - window) // stride + 1
    return operators.Convolution(
        input_tensor=_packed(data_type, (batch, channels, size, size)),
        filter_tensor=_packed(data_type, (filters, channels, window, window)),
        output_tensor=_packed(data_type, (batch, filters, result, result)),
        mode=ConvolutionMode.CROSS_CORRELATION,
        direction=ConvolutionDirection.FORWARD,
        strides=(stride, stride),
        dilations=(1, 1),
        start_padding=(margin, margin),
        end_padding=(margin, margin),
        output_padding=(0, 0),
        group_count=1,
    )


def _packed(data_type: str, sizes: Sequence[int]) -> TensorDesc:
    return TensorDesc(data_type, sizes)


def _with(sizes: Sequence[int], axis: int, size: int) -> list[int]:
    return [size if i == axis else other for i, other in enumerate(sizes)]


def _image(data_type: str) -> tuple[int, ...]:
    """IMAGE with the batch that makes it as many bytes in another data type."""
    batch, *rest = IMAGE
    return (batch * 32 // TensorDesc(data_type, (1,)).data_type.bits, *rest)


def _plane(size_in_bytes: int) -> tuple[int, int, int, int]:
    """Sizes of float32 images for the growth of pooling: 32 channels at most, and wide rows."""
    elements = size_in_bytes // 4
    channels = min(32, elements // 4096)
    width = 64 if elements < 1 << 20 else 256
    return (1, channels, elements // channels // width, width) if channels > 1 else (1, 1, elements // width, width)


def _channels_last_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    _, c, h, w = sizes
    return (h * w * c, 1, w * c, c)


def short_name(data_type: str) -> str:
    """``f32`` for FLOAT32."""
    return data_type.replace("FLOAT", "f").replace("UINT", "u").replace("INT", "i")


# --------------------------------------------------------------------------------------------------------------- work

CACHE_LINE = 64


def bytes_moved(operator: Work) -> int:
    """Bytes that must cross the memory bus: every input read once and every output written once.

    Repeated elements (stride 0) count once. Of a strided slice those rows count that are selected, and of each row all
    the cache lines that hold a selected element; of what is gathered as much as comes out.
    """
    tensors = [desc for _, desc in (*operator.inputs(), *operator.outputs()) if desc is not None]
    total = sum(_distinct_bytes(desc) for desc in tensors)
    if isinstance(operator, operators.Slice1):
        source, selected = operator.input_tensor, operator.output_tensor
        item = source.data_type.bits // 8
        step = min(abs(operator.input_window_strides[-1]) * item, CACHE_LINE)
        total += selected.element_count * step - _distinct_bytes(source)
    if isinstance(operator, operators.Gather):
        total += min(0, _distinct_bytes(operator.output_tensor) - _distinct_bytes(operator.input_tensor))
    return total


def floating_point_operations(operator: Work) -> int:
    """Multiplications and additions of GEMM, CONVOLUTION, the matrices of recurrent networks and attention; 0 for the
    operators that are bound by memory."""
    if isinstance(operator, MatrixProduct):
        return operator.operations
    if isinstance(operator, operators.Gemm):
        return 2 * operator.output_tensor.element_count * operator.a_tensor.sizes[-1]
    if isinstance(operator, operators.Convolution):
        is_forward = operator.direction is ConvolutionDirection.FORWARD
        once = operator.output_tensor if is_forward else operator.input_tensor
        return 2 * once.element_count * math.prod(operator.filter_tensor.sizes[1:])
    if isinstance(operator, operators.Rnn | operators.Gru | operators.Lstm):
        _, steps, batch, _ = operator.input_tensor.sizes
        matrices = operator.weight_tensor.element_count + operator.recurrence_tensor.element_count
        return 2 * steps * batch * matrices
    if isinstance(operator, operators.MultiheadAttention) and operator.key_tensor is not None:
        past = 0 if operator.past_key_tensor is None else operator.past_key_tensor.sizes[2]
        return 4 * operator.output_tensor.element_count * (past + operator.key_tensor.sizes[1])
    return 0


def integer_operations(operator: Work) -> int:
    """As ``floating_point_operations``, of products of bytes."""
    if isinstance(operator, QuantizedLayer):
        return 2 * math.prod(operator.output_sizes) * operator.steps
    if isinstance(operator, operators.MatrixMultiplyInteger):
        return 2 * operator.output_tensor.element_count * operator.a_tensor.sizes[-1]
    if isinstance(operator, operators.QuantizedLinearConvolution):
        return 2 * operator.output_tensor.element_count * math.prod(operator.filter_tensor.sizes[1:])
    return 0


def _distinct_bytes(desc: TensorDesc) -> int:
    steps = zip(desc.sizes, desc.effective_strides, strict=True)
    return math.prod(size for size, stride in steps if stride) * desc.data_type.bits // 8
