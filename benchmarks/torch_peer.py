"""PyTorch on the CPU: native calls, into given outputs wherever PyTorch takes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.cases import Work
from benchmarks.matrix_layers import MatrixProduct
from benchmarks.numpy_peer import block_shapes, interleaved_shapes, strided_window
from benchmarks.peers import EAGER, Array, Buffers, Call, Prepared, Unsupported
from benchmarks.torch_functions import function_of, function_with_output
from benchmarks.torch_special import SPECIAL
from opendml import operators
from opendml.description.enums import ConvolutionDirection, DepthSpaceOrder, PaddingMode, ReduceFunction

Tensor = Any  # torch's own type is unknown to the type checker: torch is not needed for checking.
Tensors = Sequence[Tensor]


class PyTorch:
    """Tensors over the arrays of the case, layouts included."""

    name = EAGER
    version = str(torch.__version__)

    def prepare(self, operator: Work, buffers: Buffers) -> list[Prepared]:
        """As the table below says, or ``torch_functions``."""
        translate = _TRANSLATIONS.get(type(operator), _function)
        inputs, outputs = as_tensors(operator, buffers)
        return [_prepared(way, buffers) for way in translate(operator, inputs, outputs)]


def peer(threads: int) -> PyTorch:
    """The contestant; sets the threads of the process' PyTorch."""
    quick_calls(threads)
    return PyTorch()


def quick_calls(threads: int) -> None:
    """PyTorch with so many threads and without gradients."""
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)


def as_tensors(operator: Work, buffers: Buffers) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and outputs as PyTorch's tensors: what DirectML keeps in bytes as truth values is of type bool."""
    inputs, outputs = ([torch.from_numpy(a) for a in arrays] for arrays in (buffers.inputs, buffers.outputs))
    if isinstance(operator, operators.ElementWiseIf):
        inputs[0] = inputs[0].view(torch.bool)
    if isinstance(operator, operators.ElementWiseLogicalGreaterThan):
        outputs[0] = outputs[0].view(torch.bool)
    return inputs, outputs


class Fresh:
    """A call whose results are new tensors."""

    def __init__(self, call: Callable[[], Tensor]) -> None:
        self._call = call
        self._result: Tensor = None

    def run(self) -> None:
        self._result = self._call()

    def results(self) -> list[Array]:
        return [self._result.numpy()]


Way = Call | Fresh | Prepared
Ways = list[Way]


def _prepared(way: Way, buffers: Buffers) -> Prepared:
    if isinstance(way, Prepared):
        return way
    if isinstance(way, Fresh):
        return Prepared(way.run, way.results)
    return Prepared(way, lambda: buffers.outputs)


def _function(work: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    function, with_output = function_of(work), function_with_output(work)
    if function is None:
        raise Unsupported(type(work).__name__)
    fresh: Ways = [Fresh(lambda: function(*inputs))]
    return fresh if with_output is None else [lambda: with_output(*inputs, out=outputs[0]), *fresh]


def _max_pooling(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    if desc.start_padding != desc.end_padding:
        raise Unsupported("padding on one side")
    (x,), y = inputs, outputs[0]
    spatial = len(desc.window_size)
    name = f"max_pool{spatial}d"
    function = getattr(torch.ops.aten, f"{name}_with_indices").out
    positions = torch.empty(y.shape, dtype=torch.int64)
    arguments = (list(desc.window_size), list(desc.strides), list(desc.start_padding))

    def run() -> None:
        function(x, *arguments, out=y, indices=positions)

    def results() -> list[Array]:
        """PyTorch counts positions in each plane, DirectML over the whole input."""
        planes = torch.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * spatial)
        return [y.numpy(), (positions + planes * math.prod(x.shape[2:])).numpy()][: len(outputs)]

    ways: Ways = [Prepared(run, results)]
    if len(outputs) == 1:
        simple = getattr(torch.nn.functional, name)
        ways.append(Fresh(lambda: simple(x, *arguments)))
    return ways


def _slice(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    """Views and a copy; PyTorch has no negative steps, but ``flip`` and ``index_select``."""
    (x,), (y,) = inputs, outputs
    slices = strided_window(desc)
    backward = [axis for axis, part in enumerate(slices) if part.step < 0]
    view = x[tuple(map(_ascending, slices, desc.output_tensor.sizes))]
    if not backward:
        return [lambda: y.copy_(view)]
    ways: Ways = [Fresh(lambda: torch.flip(view, backward))]
    if len(backward) == 1:
        (axis,) = backward
        reversed_positions = torch.arange(view.shape[axis]).flip(0)
        ways.append(lambda: torch.index_select(view, axis, reversed_positions, out=y))
    return ways


def _ascending(part: slice, count: int) -> slice:
    """The same positions in ascending order."""
    if part.step > 0:
        return part
    first = part.start + (count - 1) * part.step
    return slice(first, part.start + 1, -part.step)


def _split(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    (x,) = inputs
    sizes = [y.shape[desc.axis] for y in outputs]
    pieces = list(zip(outputs, torch.split(x, sizes, desc.axis), strict=True))

    def run() -> None:
        for target, source in pieces:
            target.copy_(source)

    together = torch.ops.aten.split_with_sizes_copy.out
    return [run, lambda: together(x, sizes, desc.axis, out=list(outputs))]


def _join(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    return [lambda: torch.cat(list(inputs), desc.axis, out=outputs[0])]


def _padding(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    (x,), (y,) = inputs, outputs
    pairs = list(zip(desc.start_padding, desc.end_padding, strict=True))
    if any(pair != (0, 0) for pair in pairs[:2]):
        raise Unsupported("padding of batch or channels")
    amounts = [n for pair in reversed(pairs[2:]) for n in pair]
    if desc.padding_mode is PaddingMode.CONSTANT:
        inside = y[tuple(slice(start, start + n) for (start, _), n in zip(pairs, x.shape, strict=True))]

        def fill() -> None:
            y.fill_(desc.padding_value)
            inside.copy_(x)

        return [fill, Fresh(lambda: torch.nn.functional.pad(x, amounts, value=desc.padding_value))]
    functions = {PaddingMode.EDGE: "replication_pad2d", PaddingMode.REFLECTION: "reflection_pad2d"}
    function = getattr(torch.ops.aten, functions[desc.padding_mode]).out
    return [lambda: function(x, amounts, out=y)]


def _tile(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    (x,), (y,) = inputs, outputs
    source, repeated, wide = interleaved_shapes(desc)
    view, target = x.view(source).expand(repeated), y.view(wide)
    return [lambda: target.copy_(view), Fresh(lambda: torch.tile(x, desc.repeats))]


def _copy(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    (x,), (y,) = inputs, outputs
    return [lambda: y.copy_(x)]


def _space_to_depth(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    (x,), (y,) = inputs, outputs
    deep, order = block_shapes(y.shape, desc.block_size, desc.order)
    target = y.view(deep).permute(order)
    source = x.view(target.shape)
    ways: Ways = [lambda: target.copy_(source)]
    if desc.order is DepthSpaceOrder.COLUMN_ROW_DEPTH:
        ways.append(Fresh(lambda: torch.nn.functional.pixel_unshuffle(x, desc.block_size)))
    return ways


def _depth_to_space(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    (x,), (y,) = inputs, outputs
    deep, order = block_shapes(x.shape, desc.block_size, desc.order)
    source = x.view(deep).permute(order)
    target = y.view(source.shape)
    ways: Ways = [lambda: target.copy_(source)]
    if desc.order is DepthSpaceOrder.COLUMN_ROW_DEPTH:
        ways.append(Fresh(lambda: torch.nn.functional.pixel_shuffle(x, desc.block_size)))
    return ways


def _reduce(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    (x,), (y,) = inputs, outputs
    axes = list(desc.axes)
    if desc.function is ReduceFunction.ARGMAX:
        if len(axes) == x.ndim:
            flat = x.view(-1)
            return [Fresh(lambda: torch.argmax(flat))]
        positions = torch.empty(y.shape, dtype=torch.int64)
        run: Call = lambda: torch.argmax(x, axes[0], keepdim=True, out=positions)  # noqa: E731
        ways: Ways = [Prepared(run, lambda: [positions.numpy()])]
        return ways
    function = _REDUCTIONS[desc.function]
    return [lambda: function(x, axes, keepdim=True, out=y)]


_REDUCTIONS = {ReduceFunction.SUM: torch.sum, ReduceFunction.MAX: torch.amax, ReduceFunction.AVERAGE: torch.mean}


def _top_k(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    (x,), positions = inputs, torch.empty(outputs[1].shape, dtype=torch.int64)
    values = torch.empty_like(outputs[0])
    run: Call = lambda: torch.topk(x, desc.k, desc.axis, out=(values, positions))  # noqa: E731
    return [Prepared(run, lambda: [values.numpy(), positions.numpy()])]


def _gemm(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    a, b, y = (tensor[0, 0] for tensor in (*inputs, *outputs))
    return [lambda: torch.mm(a, b, out=y)]


def _matrix_product(layer: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    weights = [torch.from_numpy(layer.weights)] if layer.is_fixed else []
    left, right = layer.sides(*inputs, *weights)
    (y,) = outputs
    return [lambda: torch.matmul(left, right, out=y)]


def _convolution(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    x, weights = inputs
    if desc.start_padding != desc.end_padding:
        raise Unsupported("padding on one side")
    strides, padding, dilations, extra = (
        list(values) for values in (desc.strides, desc.start_padding, desc.dilations, desc.output_padding)
    )
    rank, functions, groups = len(strides), torch.nn.functional, desc.group_count
    if desc.direction is ConvolutionDirection.FORWARD:
        forward = getattr(functions, f"conv{rank}d")
        return [Fresh(lambda: forward(x, weights, None, strides, padding, dilations, groups))]
    transposed = getattr(functions, f"conv_transpose{rank}d")
    return [Fresh(lambda: transposed(x, weights, None, strides, padding, extra, groups, dilations))]


def _recurrent(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    """Weights with the gates in PyTorch's order, copied beforehand."""
    x, weights, recurrence, bias = (tensor[0] for tensor in inputs)
    function, order = _NETWORKS[type(desc)]
    own, recurrent = bias[0, 0].chunk(2)

    def reordered(gates: Tensor) -> Tensor:
        parts = gates.chunk(len(order))
        return torch.cat([parts[i] for i in order])

    parameters = [reordered(gates) for gates in (weights[0], recurrence[0], own, recurrent)]
    state = torch.zeros(1, x.shape[1], recurrence.shape[-1])
    states = (state, state) if isinstance(desc, operators.Lstm) else state
    return [Fresh(lambda: function(x, states, parameters, True, 1, 0.0, False, False, False)[0].unsqueeze(1))]


_NETWORKS: dict[type[Work], tuple[Any, list[int]]] = {
    operators.Rnn: (torch.rnn_tanh, [0]),
    operators.Gru: (torch.gru, [1, 0, 2]),
    operators.Lstm: (torch.lstm, [0, 2, 3, 1]),
}
"""The function, and where in DirectML's order its gates are."""


def _attention(desc: Any, inputs: Tensors, outputs: Tensors) -> Ways:
    """Behind the past, whose keys and values PyTorch wants in one tensor with the new ones."""
    query, *new = (x.unflatten(-1, (desc.head_count, -1)).transpose(1, 2) for x in inputs[:3])
    has_bias, has_past = desc.relative_position_bias_tensor is not None, desc.past_key_tensor is not None
    bias, past = inputs[3] if has_bias else None, inputs[-2:]
    function = torch.nn.functional.scaled_dot_product_attention

    def run() -> Tensor:
        joined = [torch.cat(pair, 2) for pair in zip(past, new, strict=True)] if has_past else new
        return function(query, *joined, attn_mask=bias, scale=desc.scale).transpose(1, 2).flatten(2)

    return [Fresh(run)]


_TRANSLATIONS: dict[type[Work], Callable[[Any, Tensors, Tensors], Sequence[Way]]] = {
    **SPECIAL,
    operators.MaxPooling: _max_pooling,
    operators.MaxPooling1: _max_pooling,
    operators.Slice1: _slice,
    operators.Split: _split,
    operators.Join: _join,
    operators.Padding: _padding,
    operators.Tile: _tile,
    operators.Cast: _copy,
    operators.ElementWiseIdentity: _copy,
    operators.SpaceToDepth1: _space_to_depth,
    operators.DepthToSpace1: _depth_to_space,
    operators.Reduce: _reduce,
    operators.TopK1: _top_k,
    operators.Gemm: _gemm,
    MatrixProduct: _matrix_product,
    operators.Convolution: _convolution,
    operators.Rnn: _recurrent,
    operators.Gru: _recurrent,
    operators.Lstm: _recurrent,
    operators.MultiheadAttention: _attention,
}
