"""The same elements otherwise: sizes, order, parts, repetition. What costs nothing is a view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import opendml as dml
from opendml.building.graph_tensor import GraphTensor
from opendml.description.quoting import listed
from opendml.formats.onnx.nodes import Node, Results, normal_axis
from opendml.formats.onnx.operators.interface import Table
from opendml.formats.onnx.types import check_count
from opendml.formats.onnx.values import NotExpressibleError, Value, known

__all__ = ["SHAPES"]


LARGEST_KNOWN: Final = 1 << 22
"""Elements of what is repeated while the graph is made; more are repeated by the program."""


def _constant(node: Node) -> Results:
    for name, data_type in _CONSTANTS.items():
        if name in node.attributes:
            found: Any = np.asarray(node.attributes[name], data_type)
            return known(found)
    raise NotExpressibleError("a constant of texts or a sparse one has no tensor")


_CONSTANTS: Final = {
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def _constant_of_shape(node: Node) -> Results:
    value = np.asarray(node.attributes.get("value", np.zeros(1, np.float32))).reshape(())
    return _repeated(node, value, node.integers_of(0))


def _repeated(node: Node, value: Any, sizes: Sequence[int]) -> Value:
    """A known value, seen with other sizes; few numbers can ask for more elements than a tensor may have."""
    if min(sizes, default=0) < 0:
        raise NotExpressibleError(f"its result would have the sizes {list(sizes)}")
    try:
        check_count(sizes)
    except ValueError as error:
        raise NotExpressibleError(str(error)) from None
    return known(np.broadcast_to(value, sizes), node.depends_on)


def _shape(node: Node) -> Results:
    sizes = node.sizes()[slice(node.integer("start"), node.attributes.get("end"))]
    return np.array(sizes, np.int64)


def _size(node: Node) -> Results:
    return np.array(math.prod(node.sizes()), np.int64)


def _identity(node: Node) -> Results:
    return node.value(0)


def _has_element(node: Node) -> Results:
    """A tensor is always there; an input that is left out is not."""
    return np.array(node.has(0))


def _dropout(node: Node) -> Results:
    """Nothing is dropped when a network is used; the mask says so."""
    if node.has(2) and bool(node.known(2).reshape(-1)[0]) and not (node.has(1) and float(node.known(1)) == 0):
        raise NotExpressibleError("in training it drops elements at random")
    mask = np.broadcast_to(np.ones((), np.bool_ if node.version >= 10 else node.type_of()), node.sizes())
    return [node.value(0), known(mask)]


def _seen(node: Node, sizes: Sequence[int]) -> Value:
    """The first input with other sizes."""
    value = node.value(0)
    if value.array is not None:
        return known(value.array.reshape(tuple(sizes)), node.depends_on)
    return node.result(node.tensor(), sizes, value.data_type)


def _reshape(node: Node) -> Results:
    sizes = node.sizes()
    given = node.given("shape", 1) or []
    kept = [
        sizes[i] if size == 0 and not node.integer("allowzero") and i < len(sizes) else size
        for i, size in enumerate(given)
    ]
    if -1 in kept:
        others = -math.prod(kept)
        kept[kept.index(-1)] = math.prod(sizes) // others if others else 0
    if math.prod(kept) != math.prod(sizes) or min(kept, default=0) < 0:
        raise NotExpressibleError(f"{list(sizes)} cannot have the sizes {given}")
    return _seen(node, kept)


def _flatten(node: Node) -> Results:
    sizes = node.sizes()
    axis = node.integer("axis", 1)
    axis = axis + len(sizes) if axis < 0 else axis
    return _seen(node, [math.prod(sizes[:axis]), math.prod(sizes[axis:])])


def _squeeze(node: Node) -> Results:
    sizes = node.sizes()
    given = node.given("axes", 1)
    axes = [i for i, size in enumerate(sizes) if size == 1] if given is None else given
    axes = [normal_axis(axis, len(sizes)) for axis in axes]
    if any(sizes[axis] != 1 for axis in axes):
        raise NotExpressibleError(f"{list(sizes)} has other sizes than 1 along {axes}")
    return _seen(node, [size for i, size in enumerate(sizes) if i not in axes])


def _unsqueeze(node: Node) -> Results:
    given = node.given("axes", 1) or []
    rank = len(node.sizes()) + len(given)
    axes = {normal_axis(axis, rank) for axis in given}
    old = iter(node.sizes())
    return _seen(node, [1 if i in axes else next(old) for i in range(rank)])


def _transpose(node: Node) -> Results:
    value = node.value(0)
    order = node.integers("perm") or list(range(value.rank))[::-1]
    if sorted(order) != list(range(value.rank)):
        raise NotExpressibleError(f"perm: {listed(order)} is no order of {value.rank} dimensions")
    if value.array is not None:
        return known(value.array.transpose(order), node.depends_on)
    sizes = [value.sizes[i] for i in order]
    return node.result(node.tensor().transpose(order or [0]), sizes, value.data_type)


def _expand(node: Node) -> Results:
    sizes = np.broadcast_shapes(node.sizes(), tuple(node.integers_of(1)))
    value = node.value(0)
    if value.array is not None:
        return _repeated(node, value.array, sizes)
    if 0 in sizes:
        return known(np.zeros(sizes, value.data_type), node.depends_on)
    return node.result(node.tensor().broadcast_to(sizes or (1,)), sizes, value.data_type)


def _concat(node: Node) -> Results:
    values = [node.value(i) for i in range(len(node.inputs))]
    axis = node.axis(values[0].rank)
    parts = [node.tensor(i) for i, value in enumerate(values) if 0 not in value.sizes]
    sizes = list(values[0].sizes)
    sizes[axis] = sum(value.sizes[axis] for value in values)
    if not parts:
        return known(np.zeros(sizes, values[0].data_type), node.depends_on)
    joined = dml.join(parts, axis=axis) if len(parts) > 1 else parts[0]
    return node.result(joined, sizes, values[0].data_type)


def _split(node: Node) -> Results:
    sizes = node.sizes()
    axis = node.axis(len(sizes))
    parts = node.given("split", 1)
    if parts is None:
        count = node.integer("num_outputs", len(node.outputs))
        if count != len(node.outputs):
            raise NotExpressibleError(f"num_outputs: expected {len(node.outputs)}, as many as it has, got {count}")
        each = -(-sizes[axis] // count)
        parts = [each] * (count - 1) + [sizes[axis] - each * (count - 1)]
    if sum(parts) != sizes[axis] or min(parts) < 0:
        raise NotExpressibleError(f"parts of {parts} do not make {sizes[axis]}")
    found: list[Value] = []
    for number, part in enumerate(parts):
        window = [slice(None)] * len(sizes)
        window[axis] = slice(sum(parts[:number]), sum(parts[:number]) + part)
        found.append(_part(node, window))
    return found


def _part(node: Node, window: Sequence[slice]) -> Value:
    """A part of the first input; it may have no elements."""
    value = node.value(0)
    kept = [len(range(size)[one]) for size, one in zip(value.sizes, window, strict=True)]
    if value.array is not None:
        return known(value.array[tuple(window)], node.depends_on)
    if 0 in kept:
        return known(np.zeros(kept, value.data_type), node.depends_on)
    return node.result(node.tensor()[tuple(window)], kept, value.data_type)


def _slice(node: Node) -> Results:
    sizes = node.sizes()
    starts, ends = node.given("starts", 1) or [], node.given("ends", 2) or []
    axes, steps = node.given("axes", 3), node.given("steps", 4)
    axes = list(range(len(starts))) if axes is None else [normal_axis(axis, len(sizes)) for axis in axes]
    window = [slice(None)] * len(sizes)
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(starts), strict=True):
        window[axis] = _window(start, end, step, sizes[axis])
    return _part(node, window)


def _window(start: int, end: int, step: int, size: int) -> slice:
    """A part by ONNX's rules: places count from the end where they are negative, and are moved to the nearest end."""
    start, end = (place + size if place < 0 else place for place in (start, end))
    if step > 0:
        return slice(min(max(start, 0), size), min(max(end, 0), size), step)
    first, last = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return slice(first, None if last < 0 else last, step)


def _tile(node: Node) -> Results:
    value, repeats = node.value(0), node.integers_of(1)
    sizes = [size * count for size, count in zip(value.sizes, repeats, strict=True)]
    if (value.array is not None and math.prod(sizes) <= LARGEST_KNOWN) or 0 in sizes:
        array = np.zeros(value.sizes, value.data_type) if value.array is None else value.array
        return known(np.tile(array, repeats), node.depends_on)
    return node.result(dml.tile(node.tensor(), repeats), sizes, value.data_type)


_PADDING: Final = {"constant": "CONSTANT", "edge": "EDGE", "reflect": "REFLECTION", "wrap": "WRAP"}


def _pad(node: Node) -> Results:
    sizes = node.sizes()
    given = node.given("pads", 1) or []
    axes = node.integers_of(3) if node.has(3) else list(range(len(sizes)))
    count = len(axes)
    begin, end = [0] * len(sizes), [0] * len(sizes)
    for i, axis in enumerate(axes):
        axis = normal_axis(axis, len(sizes))
        begin[axis], end[axis] = given[i], given[count + i]
    mode = node.text("mode", "constant")
    value: Any = node.number("value")
    if node.has(2):
        value = node.known(2).reshape(-1)[0].item()
    if mode != "constant" and min(*begin, *end, 0) < 0:
        raise NotExpressibleError(f"negative pads with mode {mode!r} have no operator")
    tensor = _cropped(node.tensor(), begin, end)
    padded = [size + first + last for size, first, last in zip(sizes, begin, end, strict=True)]
    if any(begin) or any(end):
        start, stop = ([max(pad, 0) for pad in pads] for pads in (begin, end))
        tensor = dml.padding(
            tensor, start_padding=start, end_padding=stop, padding_mode=_PADDING[mode], padding_value=value
        )
    return node.result(tensor, padded, node.type_of())


def _cropped(tensor: GraphTensor, begin: Sequence[int], end: Sequence[int]) -> GraphTensor:
    """Without what negative pads leave out."""
    windows = (slice(max(-b, 0), size + min(e, 0)) for b, e, size in zip(begin, end, tensor.sizes, strict=True))
    return tensor[tuple(windows)] if min(*begin, *end) < 0 else tensor


def _depth_to_space(node: Node) -> Results:
    order = "DEPTH_COLUMN_ROW" if node.text("mode", "DCR") == "DCR" else "COLUMN_ROW_DEPTH"
    return node.result(dml.depth_to_space(node.tensor(), block_size=node.integer("blocksize"), order=order))


def _space_to_depth(node: Node) -> Results:
    """Depths of the old sizes together, or (version 27) of one channel."""
    order = "DEPTH_COLUMN_ROW" if node.text("mode", "DCR") == "DCR" else "COLUMN_ROW_DEPTH"
    return node.result(dml.space_to_depth(node.tensor(), block_size=node.integer("blocksize"), order=order))


def _trilu(node: Node) -> Results:
    """Zeros beyond a diagonal, by a mask that is known: any rank, and nothing is computed with what is left."""
    rows, columns = node.sizes()[-2:]
    diagonal = node.integers_of(1)[0] if node.has(1) else 0
    whole = np.ones((rows, columns), np.uint8)
    mask = np.triu(whole, diagonal) if node.integer("upper", 1) else np.tril(whole, diagonal)
    tensor = node.tensor()
    zero = np.zeros((1, 1), tensor.dtype)
    return node.result(dml.if_(node.graph.constant(mask), tensor, zero), node.sizes(), node.type_of())


def _eye_like(node: Node) -> Results:
    data_type = node.data_type("dtype", node.type_of())
    rows, columns = node.sizes()
    if rows * columns > LARGEST_KNOWN:
        raise NotExpressibleError(
            f"a diagonal of {rows} x {columns} is too large to be computed while the graph is made"
        )
    return np.eye(rows, columns, node.integer("k"), data_type)


def _reverse_sequence(node: Node) -> Results:
    """The time and batch dimensions are moved to where the operator has them."""
    time, batch = node.integer("time_axis"), node.integer("batch_axis", 1)
    tensor = node.tensor()
    sizes = [1] * tensor.rank
    sizes[batch] = tensor.sizes[batch]
    every = [1 if i == time else size for i, size in enumerate(tensor.sizes)]
    lengths = dml.cast(node.tensor(1), "uint32").reshape(sizes).broadcast_to(every)
    return node.result(dml.reverse_subsequences(tensor, lengths, axis=time), node.sizes(), node.type_of())


def _column_to_image(node: Node) -> Results:
    image, block = node.integers_of(1), node.integers_of(2)
    count = len(image)
    pads = node.integers("pads") or [0] * 2 * count
    columns = node.tensor()
    channels = columns.sizes[1] // math.prod(block)
    found = dml.fold(
        columns,
        window_sizes=block,
        strides=node.integers("strides"),
        start_padding=pads[:count],
        end_padding=pads[count:],
        dilations=node.integers("dilations"),
        output_sizes=[columns.sizes[0], channels, *image],
    )
    return node.result(found)


def _range(node: Node) -> Results:
    """Numbers that are folded, where there are any, and not too many."""
    numbers = [node.known(position).reshape(-1) for position in range(3)]
    if any(one.size != 1 or not np.isfinite(one).all() for one in numbers) or not numbers[2].all():
        start, limit, step = (listed(one.tolist()) for one in numbers)
        raise NotExpressibleError(f"no numbers go from {start} to {limit} in steps of {step}")
    return _only_known(node)


def _only_known(node: Node) -> Results:
    """What depends on values of all inputs: it is folded once they are known."""
    for position in range(len(node.inputs)):
        if node.has(position):
            node.known(position)
    raise NotExpressibleError("it is too large to be computed while the graph is made")


SHAPES: Final[Table] = {
    "BlackmanWindow": _only_known,
    "Col2Im": _column_to_image,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _depth_to_space,
    "Dropout": _dropout,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "HammingWindow": _only_known,
    "HannWindow": _only_known,
    "Identity": _identity,
    "MelWeightMatrix": _only_known,
    "OptionalGetElement": _identity,
    "OptionalHasElement": _has_element,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ReverseSequence": _reverse_sequence,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
}
