"""NumPy: the calls with which somebody would write each operator, into given outputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks import chains
from benchmarks.cases import Work
from benchmarks.matrix_layers import MatrixProduct
from benchmarks.peers import Array, Buffers, Prepared, Unsupported, in_place
from opendml import operators
from opendml.description.enums import DepthSpaceOrder, PaddingMode, ReduceFunction


class NumPy:
    """NumPy on the calling thread; its matrix product has threads of its own."""

    name = "NumPy"
    version = np.__version__

    def prepare(self, operator: Work, buffers: Buffers) -> list[Prepared]:
        """As the table below says."""
        translate = _TRANSLATIONS.get(type(operator))
        if translate is None:
            raise Unsupported(type(operator).__name__)
        prepared: list[Prepared] = translate(operator, buffers)
        return prepared


def peer(threads: int) -> NumPy:
    """The contestant. The threads of the matrix product are set through the environment, before NumPy is loaded."""
    return NumPy()


def strided_window(desc: operators.Slice1) -> tuple[slice, ...]:
    """The Python slices of SLICE1."""
    slices = []
    window = zip(
        desc.input_window_offsets,
        desc.input_window_sizes,
        desc.input_window_strides,
        desc.output_tensor.sizes,
        strict=True,
    )
    for offset, size, stride, count in window:
        first = offset + size - 1 if stride < 0 else offset
        end = first + stride * count
        slices.append(slice(first, end if end >= 0 else None, stride))
    return tuple(slices)


def interleaved_shapes(desc: operators.Tile) -> tuple[list[int], list[int], list[int]]:
    """TILE as a broadcast: the source's shape, that of the repetition, and the output seen in as many dimensions."""
    pairs = list(zip(desc.repeats, desc.input_tensor.sizes, strict=True))
    source = [n for _, size in pairs for n in (1, size)]
    repeated = [n for pair in pairs for n in pair]
    return source, repeated, repeated


def block_shapes(sizes: Sequence[int], block: int, order: DepthSpaceOrder) -> tuple[list[int], tuple[int, ...]]:
    """How a deep tensor {N, C * b * b, H, W} is seen in six dimensions, and the order of these in the wide tensor."""
    n, depth, h, w = sizes
    channels = depth // block**2
    if order is DepthSpaceOrder.DEPTH_COLUMN_ROW:
        return [n, block, block, channels, h, w], (0, 3, 4, 1, 5, 2)
    return [n, channels, block, block, h, w], (0, 1, 4, 2, 5, 3)


def _max_pooling(desc: Any, buffers: Buffers) -> list[Prepared]:
    """A maximum of shifted, strided views, one for each place in the window."""
    if len(buffers.outputs) > 1:
        raise Unsupported("indices")
    (x,), (y,) = buffers.inputs, buffers.outputs
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    taps = []
    for place in itertools.product(*map(range, desc.window_size)):
        spatial = zip(place, x.shape[2:], y.shape[2:], desc.strides, desc.start_padding, strict=True)
        ranges = [_tap(*each) for each in spatial]
        outputs = (slice(None), slice(None), *(target for _, target in ranges))
        inputs = (slice(None), slice(None), *(source for source, _ in ranges))
        taps.append((y[outputs], x[inputs]))

    def run() -> None:
        y.fill(lowest)
        for target, source in taps:
            np.maximum(target, source, out=target)

    return [in_place(buffers, run)]


def _tap(place: int, size: int, pooled: int, stride: int, padding: int) -> tuple[slice, slice]:
    """Where one place of the window reads, and the outputs for which that is inside the input."""
    first = max(0, -((place - padding) // stride))
    last = min(pooled - 1, (size - 1 + padding - place) // stride)
    start = first * stride + place - padding
    return slice(start, start + (last - first) * stride + 1, stride), slice(first, last + 1)


def _slice(desc: Any, buffers: Buffers) -> list[Prepared]:
    view, y = buffers.inputs[0][strided_window(desc)], buffers.outputs[0]
    return [in_place(buffers, lambda: np.copyto(y, view))]


def _split(desc: Any, buffers: Buffers) -> list[Prepared]:
    ends = list(itertools.accumulate(y.shape[desc.axis] for y in buffers.outputs))
    pieces = list(zip(buffers.outputs, np.split(buffers.inputs[0], ends[:-1], desc.axis), strict=True))

    def run() -> None:
        for target, source in pieces:
            np.copyto(target, source)

    return [in_place(buffers, run)]


def _join(desc: Any, buffers: Buffers) -> list[Prepared]:
    y = buffers.outputs[0]
    return [in_place(buffers, lambda: np.concatenate(buffers.inputs, desc.axis, out=y))]


def _padding(desc: Any, buffers: Buffers) -> list[Prepared]:
    """``np.pad``, and for constants also filling and copying."""
    (x,), (y,) = buffers.inputs, buffers.outputs
    modes: dict[Any, Any] = {
        PaddingMode.CONSTANT: "constant",
        PaddingMode.EDGE: "edge",
        PaddingMode.REFLECTION: "reflect",
    }
    widths = list(zip(desc.start_padding, desc.end_padding, strict=True))
    result: list[Array] = []

    def pad() -> None:
        result[:] = [np.pad(x, widths, mode=modes[desc.padding_mode])]

    ways = [Prepared(pad, lambda: result)]
    if desc.padding_mode is PaddingMode.CONSTANT:
        inside = y[tuple(slice(start, start + n) for start, n in zip(desc.start_padding, x.shape, strict=True))]

        def fill() -> None:
            y.fill(desc.padding_value)
            np.copyto(inside, x)

        ways.append(in_place(buffers, fill))
    return ways


def _tile(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x,), (y,) = buffers.inputs, buffers.outputs
    source, repeated, wide = interleaved_shapes(desc)
    view, target = np.broadcast_to(x.reshape(source), repeated), y.reshape(wide)
    return [in_place(buffers, lambda: np.copyto(target, view))]


def _copy(desc: Any, buffers: Buffers) -> list[Prepared]:
    """CAST and ELEMENT_WISE_IDENTITY, whatever the layouts."""
    (x,), (y,) = buffers.inputs, buffers.outputs
    return [in_place(buffers, lambda: np.copyto(y, x, casting="unsafe"))]


def _space_to_depth(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x,), (y,) = buffers.inputs, buffers.outputs
    deep, order = block_shapes(y.shape, desc.block_size, desc.order)
    target = y.reshape(deep).transpose(order)
    source = x.reshape(target.shape)
    return [in_place(buffers, lambda: np.copyto(target, source))]


def _depth_to_space(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x,), (y,) = buffers.inputs, buffers.outputs
    deep, order = block_shapes(x.shape, desc.block_size, desc.order)
    source = x.reshape(deep).transpose(order)
    target = y.reshape(source.shape)
    return [in_place(buffers, lambda: np.copyto(target, source))]


def _universal(function: Any) -> Callable[[Any, Buffers], list[Prepared]]:
    """A function of NumPy that works element by element."""

    def translate(desc: Any, buffers: Buffers) -> list[Prepared]:
        inputs, (y,) = buffers.inputs, buffers.outputs
        return [in_place(buffers, lambda: function(*inputs, out=y))]

    return translate


def _greater(desc: Any, buffers: Buffers) -> list[Prepared]:
    (a, b), y = buffers.inputs, buffers.outputs[0].view(np.bool_)
    return [in_place(buffers, lambda: np.greater(a, b, out=y))]


def _if(desc: Any, buffers: Buffers) -> list[Prepared]:
    condition, a, b = buffers.inputs
    (y,), where = buffers.outputs, condition.view(np.bool_)

    def run() -> None:
        np.copyto(y, b)
        np.copyto(y, a, where=where)

    result: list[Array] = []
    fresh = Prepared(lambda: result.__setitem__(slice(None), [np.where(where, a, b)]), lambda: result)
    return [in_place(buffers, run), fresh]


def _clip(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x,), (y,) = buffers.inputs, buffers.outputs
    low, high = x.dtype.type(desc.min), x.dtype.type(desc.max)
    return [in_place(buffers, lambda: np.clip(x, low, high, out=y))]


def _relu(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x,), (y,) = buffers.inputs, buffers.outputs
    zero = x.dtype.type(0)
    return [in_place(buffers, lambda: np.maximum(x, zero, out=y))]


def _leaky_relu(desc: Any, buffers: Buffers) -> list[Prepared]:
    """The larger one of ``x`` and ``alpha * x``, as alpha is less than 1."""
    (x,), (y,) = buffers.inputs, buffers.outputs
    alpha = x.dtype.type(desc.alpha)

    def run() -> None:
        np.multiply(x, alpha, out=y)
        np.maximum(x, y, out=y)

    return [in_place(buffers, run)]


def _sigmoid(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x,), (y,) = buffers.inputs, buffers.outputs
    return [in_place(buffers, lambda: _sigmoid_into(x, y))]


def _sigmoid_into(x: Array, y: Array) -> None:
    np.negative(x, out=y)
    np.exp(y, out=y)
    np.add(y, 1, out=y)
    np.reciprocal(y, out=y)


def _softplus(desc: Any, buffers: Buffers) -> list[Prepared]:
    """``log(1 + exp(x))``: the steepness of the cases is 1."""
    (x,), (y,) = buffers.inputs, buffers.outputs
    zero = x.dtype.type(0)
    return [in_place(buffers, lambda: np.logaddexp(zero, x, out=y))]


def _softmax(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x,), (y,), (axis,) = buffers.inputs, buffers.outputs, desc.axes

    def run() -> None:
        np.subtract(x, x.max(axis, keepdims=True), out=y)
        np.exp(y, out=y)
        np.divide(y, y.sum(axis, keepdims=True), out=y)

    return [in_place(buffers, run)]


def _log_softmax(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x,), (y,), (axis,) = buffers.inputs, buffers.outputs, desc.axes

    def run() -> None:
        np.subtract(x, x.max(axis, keepdims=True), out=y)
        np.subtract(y, np.log(np.exp(y).sum(axis, keepdims=True)), out=y)

    return [in_place(buffers, run)]


def _mean_variance_normalization(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x, scale, bias), (y,) = buffers.inputs, buffers.outputs
    return [in_place(buffers, lambda: _normalize(x, tuple(desc.axes), scale, bias, desc.epsilon, y))]


def _normalize(x: Array, axes: tuple[int, ...], scale: Array, bias: Array, epsilon: float, y: Array) -> None:
    np.subtract(x, x.mean(axes, keepdims=True), out=y)
    deviation = np.sqrt(np.square(y).mean(axes, keepdims=True) + x.dtype.type(epsilon))
    np.divide(y, deviation, out=y)
    np.multiply(y, scale, out=y)
    np.add(y, bias, out=y)


def _running_sum(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x,), (y,) = buffers.inputs, buffers.outputs
    return [in_place(buffers, lambda: np.cumsum(x, desc.axis, x.dtype, out=y))]


def _batch_normalization(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x, *parameters), (y,) = buffers.inputs, buffers.outputs
    return [in_place(buffers, lambda: _normalize_channels(desc.epsilon, y, x, *parameters))]


def _normalize_channels(
    epsilon: float, y: Array, x: Array, mean: Array, variance: Array, scale: Array, bias: Array
) -> None:
    """One factor and one summand for each channel."""
    factor = scale / np.sqrt(variance + x.dtype.type(epsilon))
    np.multiply(x, factor, out=y)
    np.add(y, bias - mean * factor, out=y)


def _scale_bias_relu(chain: Any, buffers: Buffers) -> list[Prepared]:
    (x, scale, bias), (y,) = buffers.inputs, buffers.outputs

    def run() -> None:
        np.multiply(x, scale, out=y)
        np.add(y, bias, out=y)
        np.maximum(y, x.dtype.type(0), out=y)

    return [in_place(buffers, run)]


def _add_layer_normalization(chain: Any, buffers: Buffers) -> list[Prepared]:
    (x, y, scale, bias), (z,) = buffers.inputs, buffers.outputs
    return [in_place(buffers, lambda: _normalize(x + y, (-1,), scale, bias, 1e-5, z))]


def _residual_relu(chain: Any, buffers: Buffers) -> list[Prepared]:
    (x, y, *parameters), (z,) = buffers.inputs, buffers.outputs

    def run() -> None:
        _normalize_channels(1e-5, z, x, *parameters)
        np.add(z, y, out=z)
        np.maximum(z, x.dtype.type(0), out=z)

    return [in_place(buffers, run)]


def _gated_sigmoid(chain: Any, buffers: Buffers) -> list[Prepared]:
    (x, y), (z,) = buffers.inputs, buffers.outputs

    def run() -> None:
        _sigmoid_into(x, z)
        np.multiply(z, x, out=z)
        np.multiply(z, y, out=z)

    return [in_place(buffers, run)]


def _reduce(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x,), (y,) = buffers.inputs, buffers.outputs
    axes = desc.axes
    if desc.function is ReduceFunction.ARGMAX:
        positions = np.empty(y.shape, np.intp)
        if len(axes) == x.ndim:
            flat, place = x.reshape(-1), positions.reshape(())
            return [Prepared(lambda: np.argmax(flat, out=place), lambda: [positions])]
        return [Prepared(lambda: np.argmax(x, axes[0], out=positions, keepdims=True), lambda: [positions])]
    function = _REDUCTIONS[desc.function]
    return [in_place(buffers, lambda: function(x, axis=axes, out=y, keepdims=True))]


_REDUCTIONS: dict[Any, Callable[..., object]] = {
    ReduceFunction.SUM: np.sum,
    ReduceFunction.MAX: np.max,
    ReduceFunction.AVERAGE: np.mean,
}


def _top_k(desc: Any, buffers: Buffers) -> list[Prepared]:
    """The last ones of a partition, in order; all of a sort."""
    (x,) = buffers.inputs
    found: list[Array] = []

    def run() -> None:
        negative = np.negative(x)
        if desc.k < x.shape[desc.axis]:
            some = np.argpartition(negative, desc.k, desc.axis).take(range(desc.k), desc.axis)
            order = np.argsort(np.take_along_axis(negative, some, desc.axis), desc.axis)
            chosen = np.take_along_axis(some, order, desc.axis)
        else:
            chosen = np.argsort(negative, desc.axis)
        found[:] = [np.take_along_axis(x, chosen, desc.axis), chosen]

    return [Prepared(run, lambda: found)]


def _nonzero(desc: Any, buffers: Buffers) -> list[Prepared]:
    """Only as many rows as there are."""
    (x,), (_, whole) = buffers.inputs, buffers.outputs
    found: list[Array] = []

    def run() -> None:
        found[:] = [np.argwhere(x)]

    def results() -> list[Array]:
        rows = np.zeros(whole.shape, np.int64)
        rows[: len(found[0])] = found[0]
        return [np.array([len(found[0])]), rows]

    return [Prepared(run, results)]


def _gather(desc: Any, buffers: Buffers) -> list[Prepared]:
    (x, chosen), (y,) = buffers.inputs, buffers.outputs
    numbers = chosen.reshape(-1)
    return [in_place(buffers, lambda: np.take(x, numbers, desc.axis, out=y, mode="clip"))]


def _scatter_rows(desc: Any, buffers: Buffers) -> list[Prepared]:
    """Of elements, too, if there is one row of them."""
    (x, chosen, updates), (y,) = buffers.inputs, buffers.outputs
    if chosen.size != len(updates):
        raise Unsupported("elements of several rows")
    numbers = chosen.reshape(-1)

    def run() -> None:
        np.copyto(y, x)
        y[numbers] = updates

    return [in_place(buffers, run)]


def _random_bits(desc: Any, buffers: Buffers) -> list[Prepared]:
    """The same generator with words of 64 bits: other numbers."""
    generator, count = np.random.Philox(0), buffers.outputs[0].size // 2
    return [in_place(buffers, lambda: generator.random_raw(count))]


def _gemm(desc: Any, buffers: Buffers) -> list[Prepared]:
    (a, b), (y,) = buffers.inputs, buffers.outputs
    return [in_place(buffers, lambda: np.matmul(a, b, out=y))]


def _matrix_product(layer: Any, buffers: Buffers) -> list[Prepared]:
    left, right = layer.sides(*layer.both(*buffers.inputs))
    (y,) = buffers.outputs
    return [in_place(buffers, lambda: np.matmul(left, right, out=y))]


_TRANSLATIONS: dict[type[Work], Callable[[Any, Buffers], list[Prepared]]] = {
    operators.MaxPooling: _max_pooling,
    operators.Slice1: _slice,
    operators.Split: _split,
    operators.Join: _join,
    operators.Padding: _padding,
    operators.Tile: _tile,
    operators.Cast: _copy,
    operators.ElementWiseIdentity: _copy,
    operators.SpaceToDepth1: _space_to_depth,
    operators.DepthToSpace1: _depth_to_space,
    operators.ElementWiseAdd: _universal(np.add),
    operators.ElementWiseMultiply: _universal(np.multiply),
    operators.ElementWiseDivide: _universal(np.divide),
    operators.ElementWiseExp: _universal(np.exp),
    operators.ElementWiseSqrt: _universal(np.sqrt),
    operators.ElementWiseClip: _clip,
    operators.ElementWiseLogicalGreaterThan: _greater,
    operators.ElementWiseIf: _if,
    operators.ActivationRelu: _relu,
    operators.ActivationLeakyRelu: _leaky_relu,
    operators.ActivationSigmoid: _sigmoid,
    operators.ActivationTanh: _universal(np.tanh),
    operators.ActivationSoftplus: _softplus,
    operators.ActivationSoftmax1: _softmax,
    operators.ActivationLogSoftmax1: _log_softmax,
    operators.MeanVarianceNormalization1: _mean_variance_normalization,
    operators.CumulativeSummation: _running_sum,
    operators.BatchNormalization: _batch_normalization,
    chains.ScaleBiasRelu: _scale_bias_relu,
    chains.AddLayerNormalization: _add_layer_normalization,
    chains.ResidualRelu: _residual_relu,
    chains.GatedSigmoid: _gated_sigmoid,
    operators.Reduce: _reduce,
    operators.TopK1: _top_k,
    operators.NonzeroCoordinates: _nonzero,
    operators.Gather: _gather,
    operators.ScatterElements: _scatter_rows,
    operators.ScatterNd: _scatter_rows,
    operators.RandomGenerator: _random_bits,
    operators.Gemm: _gemm,
    MatrixProduct: _matrix_product,
}
