"""Nodes between DequantizeLinear and QuantizeLinear, by the integers themselves.

What was dequantised remembers its integers (``Value.integers``): what only moves elements moves these, and products of
two such tensors are sums of integers, exactly, which QuantizeLinear behind them takes as they are: DequantizeLinear,
Conv, Relu, QuantizeLinear are one QUANTIZED_LINEAR_CONVOLUTION. The tensors of float32 between are nodes of the graph
nobody reads then, unless another node of the model does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.description.errors import InvalidDescriptorError
from opendml.formats.onnx.nodes import Node, normal_axis
from opendml.formats.onnx.operators.table import OPERATORS
from opendml.formats.onnx.operators.windows import convolution_window, transposed_window
from opendml.formats.onnx.quantized_phases import Convolve, by_phases
from opendml.formats.onnx.values import Integers, NotExpressibleError, Products, Steps, Value, constant

__all__ = ["express_by_integers"]

Array = npt.NDArray[Any]
Values = list[Value | None]

BYTES: Final = (np.dtype(np.uint8), np.dtype(np.int8))
SMALLEST_SCALE: Final = float(np.finfo(np.float32).smallest_normal)
LARGEST_SCALE: Final = float(np.finfo(np.float32).max) / 2**17
"""With larger scales dequantised integers of 16 bits may be infinite."""

UNIT_ERROR: Final = 1e-6
"""Relative difference of a bias's scale to the product of the others, below which its integers are in their units: what
rounding such products otherwise than in float32 gives, and less than the product in float32 may err."""


def express_by_integers(node: Node) -> Values | None:
    """The outputs of a node whose inputs come of integers; None for what its usual function is to be taken.

    Descriptors that the device's feature level refuses are no reason to refuse a node: then it is computed as it is
    written.
    """
    function = _FUNCTIONS.get(node.operator)
    if function is None or not (
        node.operator == "DequantizeLinear" or any(value is not None and value.integers for value in node.inputs)
    ):
        return None
    try:
        return function(node)
    except (InvalidDescriptorError, NotExpressibleError):
        return None


def _as_written(node: Node) -> Values:
    """What the node's usual function gives."""
    found = OPERATORS["", node.operator](node)
    if found is None:
        raise NotExpressibleError("ONNX's definition of the operator is to be taken")
    return node.values(found)


def _with_origin(node: Node, origin: Integers | Products) -> Values | None:
    """The only output of the usual function, which comes of integers."""
    (value,) = _as_written(node)
    return None if value is None else [replace(value, integers=origin)]


# ---- to integers and from them


def _steps(node: Node, data_type: np.dtype[Any]) -> Steps | None:
    """The scale and the zero point of a node for integers of a type; None for what is not known, and for blocks."""
    scale = node.value(1).array
    zero_point = np.zeros(1, data_type)
    if node.has(2):
        found = node.value(2).array
        if found is None or found.dtype != data_type:
            return None
        zero_point = found.reshape(-1)
    if scale is None or scale.dtype != np.float32 or scale.ndim > 1 or node.integer("block_size"):
        return None
    scale = scale.reshape(-1)
    if not ((scale >= SMALLEST_SCALE) & (scale <= LARGEST_SCALE)).all():
        return None
    if scale.size == 1 and zero_point.size == 1:
        return Steps(scale, zero_point)
    axis = normal_axis(node.integer("axis", 1), len(node.sizes()))
    count = (node.sizes()[axis],)
    return Steps(np.broadcast_to(scale, count), np.broadcast_to(zero_point, count), axis)


def _dequantize(node: Node) -> Values | None:
    steps = _steps(node, node.type_of())
    if steps is None or node.integer("output_dtype") not in (0, _FLOAT) or 0 in node.sizes():
        return None
    return _with_origin(node, Integers(node.value(0), steps))


def _quantize(node: Node) -> Values | None:
    origin = node.value(0).integers
    asked = node.integer("output_dtype")
    data_type = node.type_of(2) if node.has(2) else np.dtype(np.uint8)
    if asked not in (0, _NUMBERS.get(data_type)) or node.integer("precision") not in (0, _FLOAT):
        return None
    steps = _steps(node, data_type)
    if steps is None or steps.axis is not None:
        return None
    if isinstance(origin, Integers):
        return [origin.value] if origin.steps.is_same(steps) else None
    if origin is None or data_type not in BYTES:
        return None
    found = origin.quantized(steps)
    for limits in origin.limits:
        found = _limited(found, limits, steps)
    return [node.result(found, node.sizes())]


_FLOAT: Final = 1
_NUMBERS: Final[dict[np.dtype[Any], int]] = {
    np.dtype(np.uint8): 2,
    np.dtype(np.int8): 3,
    np.dtype(np.uint16): 4,
    np.dtype(np.int16): 5,
}
"""ONNX's numbers of the types that elements are quantised to."""


def _limited(tensor: GraphTensor, limits: tuple[float, float], steps: Steps) -> GraphTensor:
    """Integers of numbers between limits: as quantising keeps the order of numbers, those between quantised limits."""
    info = np.iinfo(steps.data_type)
    with np.errstate(over="ignore"):
        places = np.rint(np.asarray(limits, np.float32) / steps.scale) + steps.zero_point.astype(np.float32)
    low, high = (int(place) for place in np.clip(places, info.min, info.max))
    found: Any = tensor
    if low > info.min:
        found = dml.max(found, steps.data_type.type(low))
    if high < info.max:
        found = dml.min(found, steps.data_type.type(high))
    return found  # type: ignore[no-any-return]


def _relu(node: Node) -> Values | None:
    origin = node.value(0).integers
    if isinstance(origin, Products):
        return _with_limits(node, origin, (0.0, np.inf))
    if isinstance(origin, Integers) and origin.steps.axis is None:
        zero = np.array(origin.steps.zero_point[0])
        integers = constant(node.graph, origin.value)
        found: Any = integers if zero == np.iinfo(zero.dtype).min else dml.max(integers, zero[()])
        return [_dequantized(node, node.result(found, node.sizes()), origin.steps)]
    return None


def _clip(node: Node) -> Values | None:
    origin = node.value(0).integers
    limits = []
    for position, name, usual in ((1, "min", -np.inf), (2, "max", np.inf)):
        given = node.value(position).array if node.has(position) else node.number(name, usual)
        if given is None:
            return None
        limits.append(float(np.asarray(given).reshape(())))
    if not isinstance(origin, Products) or np.isnan(limits).any():
        return None
    return _with_limits(node, origin, (limits[0], limits[1]))


def _with_limits(node: Node, origin: Products, limits: tuple[float, float]) -> Values | None:
    return _with_origin(node, replace(origin, limits=(*origin.limits, limits)))


# ---- what moves elements


def _dequantized(node: Node, integers: Value, steps: Steps) -> Value:
    """What stands for the numbers of integers."""
    tensor = constant(node.graph, integers)
    shape = [1] * tensor.rank
    if steps.axis is not None:
        shape[steps.axis] = -1
    scale, zero_point = (part.reshape(shape) for part in (steps.scale, steps.zero_point))
    found: Any = dml.dequantize_linear(tensor, scale, zero_point)
    return replace(node.result(found, integers.sizes), integers=Integers(integers, steps))


def _move(node: Node) -> Values | None:
    """The node on integers, and dequantised behind it: the same numbers."""
    origin = node.value(0).integers
    if not isinstance(origin, Integers):
        return None
    steps = origin.steps
    if steps.axis is not None:
        if node.operator != "Transpose":
            return None
        order = node.integers("perm") or list(range(node.value(0).rank))[::-1]
        steps = replace(steps, axis=order.index(steps.axis))
    return _moved(node, [origin.value, *node.inputs[1:]], steps)


def _moved(node: Node, inputs: Sequence[Value | None], steps: Steps) -> Values | None:
    inner = Node(node.graph, node.operator, node.version, inputs, node.attributes, node.outputs)
    values = _as_written(inner)
    if any(value is None or 0 in value.sizes for value in values):
        return None
    return [_dequantized(node, value, steps) for value in values if value is not None]


def _join(node: Node) -> Values | None:
    origins = [None if value is None else value.integers for value in node.inputs]
    found = [origin for origin in origins if isinstance(origin, Integers) and origin.steps.axis is None]
    if len(found) < len(origins) or not all(one.steps.is_same(found[0].steps) for one in found):
        return None
    return _moved(node, [one.value for one in found], found[0].steps)


def _max_pool(node: Node) -> Values | None:
    """The largest integer stands for the largest number; but a window of nothing but padding has no integer."""
    window, pads = node.integers("kernel_shape") or [], node.integers("pads") or [0]
    if node.wants(1) or max(pads) >= min(window) or max(node.integers("dilations") or [1]) > 1:
        return None
    return _move(node)


# ---- products


def _of_bytes(node: Node, position: int, axis: int | None = None) -> Integers | None:
    """The integers of 8 bits of an input, with steps for all of it or along an axis."""
    origin = node.value(position).integers if node.has(position) else None
    if not isinstance(origin, Integers) or origin.steps.data_type not in BYTES:
        return None
    return origin if origin.steps.axis in (None, axis) else None


def _zero_point(steps: Steps) -> Array | None:
    """None for 0: there is nothing to subtract then."""
    return np.ascontiguousarray(steps.zero_point) if steps.zero_point.any() else None


def _scale(steps: Steps) -> Array:
    return np.ascontiguousarray(steps.scale)


def _units(a: Steps, b: Steps) -> Array:
    """What a product of integers stands for: one, or one for each output."""
    return a.scale * b.scale


def _bias_in_units(value: Value, units: Array, count: int) -> GraphTensor | None:
    """The integers of a bias, one for each output, if products are in their units."""
    origin = value.integers
    if not isinstance(origin, Integers) or origin.steps.data_type != np.int32 or origin.steps.zero_point.any():
        return None
    if value.sizes[-1:] != (count,) or np.prod(value.sizes) != count:
        return None
    if not np.allclose(origin.steps.scale, units, rtol=UNIT_ERROR, atol=0):
        return None
    assert value.tensor is not None
    return constant(value.tensor.graph, origin.value).reshape(count)


def _along(values: Array, rank: int, axis: int) -> Array:
    """One value, or one for each place along an axis, as a tensor."""
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def _scaled(sums: Any, units: Array, axis: int) -> Any:
    """Sums of integers times what one of them stands for."""
    return dml.cast(sums, "float32") * _along(units, sums.rank, axis)


def _quantized_sums(sums: Any, units: Array, axis: int) -> Callable[[Steps], GraphTensor]:
    """As the quantised operators do it, for sums that none of them computes."""

    def quantized(steps: Steps) -> GraphTensor:
        found: Any = dml.quantize_linear(
            _scaled(sums, units / steps.scale, axis), np.float32(1), steps.zero_point.reshape([1] * sums.rank)
        )
        return found  # type: ignore[no-any-return]

    return quantized


def _convolve(node: Node) -> Values | None:
    data, filter = _of_bytes(node, 0), _of_bytes(node, 1, 0)
    if data is None or filter is None:
        return None
    x, w = constant(node.graph, data.value), constant(node.graph, filter.value)
    window = {"group_count": node.integer("group", 1), **convolution_window(node, x, w)}
    return _convolved(node, data.steps, filter.steps, w.sizes[0], lambda convolve: convolve(x, w, window))


def _convolve_transposed(node: Node) -> Values | None:
    """As convolutions, one for each phase of the output, whose integers are then side by side."""
    groups = node.integer("group", 1)
    data, filter = _of_bytes(node, 0), _of_bytes(node, 1, 1)
    if data is None or filter is None or filter.value.array is None:
        return None
    x, weights, steps = constant(node.graph, data.value), filter.value.array, filter.steps
    if steps.axis is not None:
        # Each group's outputs have those that the filter has.
        steps = Steps(np.tile(steps.scale, groups), np.tile(steps.zero_point, groups), steps.axis)
    window = transposed_window(node, x, constant(node.graph, filter.value))
    count = weights.shape[1] * groups
    return _convolved(node, data.steps, steps, count, lambda convolve: by_phases(x, weights, groups, window, convolve))


def _convolved(
    node: Node, of_data: Steps, of_filter: Steps, count: int, over: Callable[[Convolve], GraphTensor]
) -> Values:
    """The ``count`` channels of what goes ``over`` windows, as sums of integers and as integers of the result."""
    units = _units(of_data, of_filter)
    bias = _bias_in_units(node.value(2), units, count) if node.has(2) else None
    zero_points = _zero_point(of_data), _zero_point(of_filter)

    def summed(x: GraphTensor, filter: GraphTensor | Array, fields: dict[str, Any]) -> GraphTensor:
        found: Any = dml.convolution_integer(x, zero_points[0], filter, zero_points[1], **fields)
        return found  # type: ignore[no-any-return]

    sums: Any = over(summed)
    if bias is not None:
        sums = sums + bias.reshape(_along(np.empty(count), sums.rank, 1).shape)
    value = _scaled(sums, units, 1)
    if node.has(2) and bias is None:
        return [node.result(value + node.tensor(2).reshape([1, -1, *[1] * (sums.rank - 2)]))]

    def quantized(steps: Steps) -> GraphTensor:
        scales = _scale(of_data), _scale(of_filter)

        def convolved(x: GraphTensor, filter: GraphTensor | Array, fields: dict[str, Any]) -> GraphTensor:
            found: Any = dml.quantized_linear_convolution(
                x,
                scales[0],
                zero_points[0],
                filter,
                scales[1],
                zero_points[1],
                bias,
                steps.scale,
                steps.zero_point,
                **fields,
            )
            return found  # type: ignore[no-any-return]

        return over(convolved)

    return [replace(node.result(value), integers=Products(quantized))]


def _multiply(node: Node) -> Values | None:
    """MatMul of matrices and stacks of them; one matrix for all of a stack makes one matrix of the rows of all."""
    rank = node.value(1).rank
    left, right = _of_bytes(node, 0), _of_bytes(node, 1, rank - 1)
    if left is None or right is None or min(node.value(0).rank, rank) < 2:
        return None
    a, b = constant(node.graph, left.value), constant(node.graph, right.value)
    sizes = (*np.broadcast_shapes(a.sizes[:-2], b.sizes[:-2]), a.sizes[-2], b.sizes[-1])
    if rank == 2:
        a = a.reshape(-1, a.sizes[-1])
    zero_points = _zero_point(left.steps), _zero_point(right.steps)
    sums = dml.matrix_multiply_integer(a, zero_points[0], b, zero_points[1])
    value = _scaled(sums, _units(left.steps, right.steps), len(sums.sizes) - 1)

    def quantized(steps: Steps) -> GraphTensor:
        scales = _scale(left.steps), _scale(right.steps)
        found: Any = dml.quantized_linear_matrix_multiply(
            a, scales[0], zero_points[0], b, scales[1], zero_points[1], steps.scale, steps.zero_point
        )
        return found  # type: ignore[no-any-return]

    return [replace(node.result(value, sizes), integers=Products(quantized))]


def _add(node: Node) -> Values | None:
    """A sum of two tensors of integers in the steps of the result: ``(a - a_zero_point) * (a_scale / scale)`` and the
    same of b, which is no division of every element."""
    origins = [_of_bytes(node, position) for position in range(2)]
    parts = [(constant(node.graph, one.value), one.steps) for one in origins if one is not None]
    if len(parts) < len(origins):
        return None
    sizes = np.broadcast_shapes(*(tensor.sizes for tensor, _ in parts))

    def quantized(steps: Steps) -> GraphTensor:
        terms: list[Any] = []
        for tensor, own in parts:
            shape = [1] * tensor.rank
            zero_point = None if not own.zero_point.any() else own.zero_point.reshape(shape)
            terms.append(dml.dequantize_linear(tensor, (own.scale / steps.scale).reshape(shape), zero_point))
        found: Any = dml.quantize_linear(terms[0] + terms[1], np.float32(1), steps.zero_point.reshape([1] * len(sizes)))
        return found  # type: ignore[no-any-return]

    return _with_origin(node, Products(quantized))


def _gemm(node: Node) -> Values | None:
    is_turned = [bool(node.integer(name)) for name in ("transA", "transB")]
    left, right = _of_bytes(node, 0), _of_bytes(node, 1, 0 if is_turned[1] else 1)
    if left is None or right is None or (node.number("alpha", 1.0), node.number("beta", 1.0)) != (1.0, 1.0):
        return None
    a, b = (
        tensor.transpose() if turned else tensor
        for tensor, turned in zip(
            (constant(node.graph, left.value), constant(node.graph, right.value)), is_turned, strict=True
        )
    )
    units = _units(left.steps, right.steps)
    sums: Any = dml.matrix_multiply_integer(a, _zero_point(left.steps), b, _zero_point(right.steps))
    if node.has(2):
        bias = _bias_in_units(node.value(2), units, b.sizes[1])
        if bias is None:
            return [node.result(_scaled(sums, units, 1) + node.tensor(2))]
        sums = sums + bias.reshape(1, -1)
    value = node.result(_scaled(sums, units, 1))
    return [replace(value, integers=Products(_quantized_sums(sums, units, 1)))]


_MOVES: Final = (
    *("DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "SpaceToDepth", "Split"),
    *("Squeeze", "Tile", "Transpose", "Unsqueeze"),
)

_FUNCTIONS: Final[dict[str, Callable[[Node], Values | None]]] = {
    **dict.fromkeys(_MOVES, _move),
    "Add": _add,
    "Clip": _clip,
    "Concat": _join,
    "Conv": _convolve,
    "ConvTranspose": _convolve_transposed,
    "DequantizeLinear": _dequantize,
    "Gemm": _gemm,
    "MatMul": _multiply,
    "MaxPool": _max_pool,
    "QuantizeLinear": _quantize,
    "Relu": _relu,
}
