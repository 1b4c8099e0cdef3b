"""Random chains of operators and views: what fusion has to take apart and put together again.

``chain(random, device)`` is a graph in which each step mostly takes what the step before it gave: the same memory seen
in any other way (split, merged, exchanged, repeated, overlapping and partly left out dimensions, ranks 1 to 8, other
types), element-wise operators, and between them operators that move elements and those that reduce or multiply.
Tensors are tiny, so that tens of thousands of chains can be interpreted (``tools/soak_chains.py``). ``random`` is any
``random.Random``, a seeded one or hypothesis's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

import opendml as dml
from opendml import operators as op
from opendml.building.graph_assembly import GraphAssembly
from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel, TensorDataType
from opendml.description.fields import TensorArrayField, TensorField
from opendml.description.tensor import TensorDesc
from opendml.description.validation import support_at

ELEMENTS = 144
"""Elements of a tensor at most: each is computed by NumPy some dozen times."""

TYPES = ("float32",) * 5 + ("float16", "int32", "uint32", "int8", "uint8", "int64", "uint16")

COUNTS = (1, 3, 4, 6, 8, 9, 12, 16, 17, 24, 27, 32, 36, 48, 60, 64, 72, 96)


def chain(random: Random, device: dml.Device) -> GraphAssembly:
    """A graph of a few steps."""
    made = Chain(random, device)
    for _ in range(random.randint(2, 7)):
        made.step()
    return made.finish()


class Chain:
    """A graph that grows by steps; ``tensors`` are what they gave, views included."""

    def __init__(self, random: Random, device: dml.Device) -> None:
        self.random = random
        self.graph = dml.Graph(device)
        self.is_plain = random.random() < 0.4  # packed, and mostly element-wise: what fuses best
        self.whole: dict[Any, dml.GraphTensor] = {}
        self.tensors = [self.source(random.choice(TYPES), random.choice(COUNTS))]
        self.tensors[0] = self.tensors[0].reinterpret(self.parted(self.tensors[0].sizes[0]))

    def step(self) -> None:
        """One step from the last tensor, or now and then from an earlier one: views of it, then an operator."""
        x = self.tensors[-1] if self.random.random() < 0.9 else self.random.choice(self.tensors)
        for _ in range(self.random.choice((0, 1, 1, 1, 2))):
            x = self.small(self.random.choice(VIEWS)(self, x))
        is_other = self.random.random() < (0.1 if self.is_plain else 0.4)
        self.tensors.append(self.small(self.random.choice(OTHERS if is_other else ELEMENT_WISE)(self, x)))

    def finish(self) -> GraphAssembly:
        """What nobody has read is given out, and some of what is read."""
        read = {tensor.source for node in self.graph._nodes for tensor in node.inputs if tensor is not None}
        outputs = {self.tensors[-1].source: self.tensors[-1]}
        for x in self.tensors:
            if x.source not in read or (not self.is_plain and self.random.random() < 0.1):
                outputs.setdefault(x.source, x)
        return self.graph.assemble(list(outputs.values()), constant_limit=10**9)

    # ---- sizes and tensors

    def parted(self, count: int, most: int = 8) -> list[int]:
        """Sizes of up to ``most`` dimensions for so many elements."""
        sizes = [count]
        for _ in range(self.random.choice((0, 1, 1, 2, 2, 3, 4, 7))):
            if len(sizes) < most:
                number = self.random.randrange(len(sizes))
                factor = self.random.choice(divisors(sizes[number]))
                sizes[number : number + 1] = [factor, sizes[number] // factor]
        return sizes

    def source(self, data_type: TensorDataType | str, count: int) -> dml.GraphTensor:
        """An input of the graph or a constant, packed, of one dimension."""
        data_type = TensorDataType.parse(data_type)
        if self.random.random() < 0.2:
            values = np.arange(count) % 7 + 1
            return self.remember(self.graph.constant(values.astype(data_type.dtype)))
        return self.remember(self.graph.input(data_type, [count], owned_by_dml=self.random.random() < 0.1))

    def remember(self, x: dml.GraphTensor) -> dml.GraphTensor:
        """A tensor all of whose bytes have values, so that they may be read in any way."""
        if x.desc.element_span == x.desc.element_count:
            self.whole[x.source] = x
        return x

    def bytes_of(self, x: dml.GraphTensor) -> dml.GraphTensor:
        """All of the memory that ``x`` is seen in, as one dimension."""
        found = self.whole.get(x.source)
        if found is None:
            found = self.compute(op.ElementWiseIdentity, x, layout=False)
        if found.data_type != x.data_type:
            # Floats are never seen as other types: which NaN an operation gives is nobody's business.
            return self.compute(op.ElementWiseIdentity, x, layout=False).reinterpret([x.desc.element_count])
        return found.reinterpret([found.desc.element_count])

    def like(self, data_type: TensorDataType, sizes: Sequence[int], partner: dml.GraphTensor) -> dml.GraphTensor:
        """Another operand: the partner itself, another view of its memory or of an earlier tensor's, a new input, or a
        constant of one number."""
        count = math.prod(sizes)
        kind = self.random.randrange(6)
        if kind == 0 and partner.sizes == tuple(sizes) and partner.data_type == data_type:
            return partner
        if kind == 1:
            number = self.graph.constant(np.full([1] * len(sizes), self.random.choice((0, 1, 2, 3)), data_type.dtype))
            return number.broadcast_to(sizes)
        earlier = [x for x in self.tensors if x.data_type == data_type and x.desc.element_count * 2 >= count]
        if kind < 5 and earlier:
            x = self.bytes_of(self.random.choice(earlier))
            room = x.desc.element_count
            for _ in range(4):
                strides = self.strides(sizes)
                if 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) <= room:
                    return x.reinterpret(sizes, strides)
        x = self.source(data_type, count)
        return x.reinterpret(sizes, self.strides(sizes, repeated=False, padded=False))

    def strides(self, sizes: Sequence[int], repeated: bool = True, padded: bool = True) -> list[int]:
        """In any order of the dimensions; some of them repeated, or with gaps."""
        order = list(range(len(sizes)))
        if self.random.random() < 0.5:
            self.random.shuffle(order)
        strides, step = [0] * len(sizes), 1
        for d in reversed(order):
            if repeated and self.random.random() < 0.15:
                continue
            strides[d] = step
            step = step * sizes[d] + (self.random.randint(0, 2) if padded and self.random.random() < 0.1 else 0)
        return strides

    # ---- nodes

    def compute(
        self, cls: type[Operator], *inputs: dml.GraphTensor | None, layout: bool = True, **fields: Any
    ) -> dml.GraphTensor:
        """The first output of an operator whose output is like its first input, but for ``sizes`` and ``data_type``."""
        first = next(x for x in inputs if x is not None)
        directions = {name: field.direction for name, field in cls.fields.items() if isinstance(field, TensorField)}
        sizes = fields.pop("sizes", first.sizes)
        data_type = fields.pop("data_type", first.data_type)
        target = self.target(data_type, sizes) if layout else TensorDesc(data_type, sizes)
        descs = [None if x is None else x.desc for x in inputs]
        given = [name for name, direction in directions.items() if direction == "input"]
        (output, *further) = [name for name, direction in directions.items() if direction == "output"]
        desc = cls(**dict(zip(given, descs, strict=True)), **{output: target}, **dict.fromkeys(further), **fields)
        return self.append(desc, *inputs)[0]

    def append(self, desc: Operator, *inputs: dml.GraphTensor | None) -> list[dml.GraphTensor]:
        """The outputs of a node, without those that are absent."""
        return [self.remember(y) for y in self.graph.append(desc, *inputs) if y is not None]

    def target(self, data_type: TensorDataType, sizes: Sequence[int]) -> TensorDesc:
        """An output, mostly packed."""
        kind = 0.0 if self.is_plain else self.random.random()
        if kind < 0.75:
            return TensorDesc(data_type, sizes)
        return TensorDesc(data_type, sizes, self.strides(sizes, repeated=False, padded=kind > 0.92))

    def fitted(self, cls: type[Operator], x: dml.GraphTensor, ranks: Sequence[int] = ()) -> dml.GraphTensor:
        """The tensor as an operator can read it: of a type, and of one of the ``ranks``, that it takes."""
        names = [name for name, field in cls.fields.items() if isinstance(field, (TensorField, TensorArrayField))]
        support = support_at(cls.support, names[0], FeatureLevel.LEVEL_6_4)
        assert support is not None
        if x.data_type not in support.data_types:
            x = self.compute(op.Cast, x, data_type=TensorDataType.FLOAT32)
        lowest, highest = (min(ranks), max(ranks)) if ranks else support[:2]
        if x.rank > highest:
            if not x.desc.is_packed:
                x = self.compute(op.ElementWiseIdentity, x, layout=False)
            x = x.reinterpret([math.prod(x.sizes[: x.rank - highest + 1]), *x.sizes[x.rank - highest + 1 :]])
        if x.rank < lowest:
            new = lowest - x.rank
            x = x.reinterpret([1] * new + list(x.sizes), [0] * new + list(x.strides))
        return x

    def small(self, x: dml.GraphTensor) -> dml.GraphTensor:
        """A tensor, or the first elements of one that has become too large, without an operator."""
        sizes = list(x.sizes)
        while math.prod(sizes) > ELEMENTS:
            largest = sizes.index(max(sizes))
            sizes[largest] = max(1, sizes[largest] // 2)
        return x.reinterpret(sizes, x.strides)

    def axis(self, x: dml.GraphTensor) -> int:
        return self.random.randrange(x.rank)

    def axes(self, x: dml.GraphTensor) -> list[int]:
        return self.random.sample(range(x.rank), self.random.randint(1, x.rank))


def divisors(n: int) -> list[int]:
    """All numbers that divide ``n``."""
    return [d for d in range(1, n + 1) if n % d == 0]


# Views ---------------------------------------------------------------------------------------------------------------


def transposed(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    order = list(range(x.rank))
    c.random.shuffle(order)
    return x.transpose(order)


def reshaped(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    """Other dimensions for the elements in their order, or for the memory in its order."""
    if not x.desc.is_packed or c.random.random() < 0.3:
        x = c.bytes_of(x)
    return x.reinterpret(c.parted(x.desc.element_count))


def split_axis(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    axis = c.axis(x)
    factor = c.random.choice(divisors(x.sizes[axis]))
    if x.rank == 8:
        return x
    low, stride = x.sizes[axis] // factor, x.strides[axis]
    sizes = [*x.sizes[:axis], factor, low, *x.sizes[axis + 1 :]]
    return x.reinterpret(sizes, [*x.strides[:axis], stride * low, stride, *x.strides[axis + 1 :]])


def merged_axes(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    pairs = [d for d in range(x.rank - 1) if x.strides[d] == x.strides[d + 1] * x.sizes[d + 1]]
    if not pairs:
        return split_axis(c, x)
    d = c.random.choice(pairs)
    sizes = [*x.sizes[:d], x.sizes[d] * x.sizes[d + 1], *x.sizes[d + 2 :]]
    return x.reinterpret(sizes, [*x.strides[:d], *x.strides[d + 1 :]])


def lone_axis(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    """A dimension of one element more or less."""
    ones = [d for d in range(x.rank) if x.sizes[d] == 1]
    if x.rank == 8 or (ones and x.rank > 1 and c.random.random() < 0.5):
        keep = [d for d in range(x.rank) if not ones or d != ones[0]]
        return x.reinterpret([x.sizes[d] for d in keep], [x.strides[d] for d in keep])
    d = c.random.randint(0, x.rank)
    return x.reinterpret([*x.sizes[:d], 1, *x.sizes[d:]], [*x.strides[:d], c.random.choice((0, 1, 7)), *x.strides[d:]])


def repeated(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    """A dimension of stride 0 more, or one element of a dimension for all of them."""
    if x.rank == 8 or c.random.random() < 0.5:
        axis = c.axis(x)
        return x.reinterpret(x.sizes, [0 if d == axis else s for d, s in enumerate(x.strides)])
    d = c.random.randint(0, x.rank)
    return x.reinterpret([*x.sizes[:d], c.random.choice((2, 3)), *x.sizes[d:]], [*x.strides[:d], 0, *x.strides[d:]])


def part(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    """The first elements of dimensions, or every other one."""
    sizes, strides = [], []
    for n, s in zip(x.sizes, x.strides, strict=True):
        step = c.random.choice((1, 1, 1, 2, 3))
        sizes.append(c.random.randint(max(1, -(-n // step) - 1), -(-n // step)))
        strides.append(s * step)
    return x.reinterpret(sizes, strides)


def windows(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    """Overlapping rows, diagonals and whatever else strides can say, within the memory."""
    x = c.bytes_of(x)
    room, sizes, strides = x.desc.element_count - 1, [], []
    for _ in range(c.random.randint(1, 4)):
        stride = c.random.choice((0, 1, 1, 2, 3, 4, 5))
        size = min(c.random.choice((1, 2, 3, 4, 8, 9)), room // stride + 1 if stride else 3)
        room -= (size - 1) * stride
        sizes.append(size)
        strides.append(stride)
    return x.reinterpret(sizes, strides)


def bits(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    """Integers as other integers, or floats, of the same bytes."""
    if x.data_type.dtype.kind == "f" or not x.desc.is_packed:
        x = c.compute(op.Cast, x, layout=False, data_type=c.random.choice((TensorDataType.INT32, TensorDataType.UINT8)))
    size = x.desc.element_count * x.data_type.dtype.itemsize
    fits = [t for t in ("float32", "uint32", "int16", "uint8", "int32", "float16") if size % np.dtype(t).itemsize == 0]
    data_type = c.random.choice(fits)
    return x.reinterpret(c.parted(size // np.dtype(data_type).itemsize), data_type=data_type)


VIEWS: tuple[Callable[[Chain, Any], Any], ...] = (
    *(transposed, reshaped) * 4,
    *(split_axis, merged_axes) * 2,
    *(lone_axis, repeated, part, windows, bits),
)


# Element-wise operators ----------------------------------------------------------------------------------------------


def unary(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    cls = c.random.choice((op.ActivationRelu, op.ElementWiseNegate, op.ElementWiseAbs, op.ElementWiseIdentity))
    return c.compute(cls, c.fitted(cls, x))


def scaled(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    return c.compute(op.ElementWiseIdentity, c.fitted(op.ActivationRelu, x), scale_bias=(2.0, -1.0))


def costly(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    """What is stored rather than computed again."""
    cls = c.random.choice((op.ElementWiseSqrt, op.ElementWiseRecip, op.ElementWiseFloor))
    return c.compute(cls, c.fitted(cls, x))


def combined(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    cls = c.random.choice((op.ElementWiseAdd, op.ElementWiseSubtract, op.ElementWiseMultiply, op.ElementWiseMax))
    x = c.fitted(cls, x)
    y = c.like(x.data_type, x.sizes, x)
    return c.compute(cls, *((x, y) if c.random.random() < 0.5 else (y, x)))


def compared(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    cls = op.ElementWiseLogicalLessThan
    x = c.fitted(cls, x)
    return c.compute(cls, x, c.like(x.data_type, x.sizes, x), data_type=TensorDataType.UINT8)


def chosen(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    condition = c.like(TensorDataType.UINT8, x.sizes, x)
    return c.compute(op.ElementWiseIf, condition, x, c.like(x.data_type, x.sizes, x), data_type=x.data_type)


def converted(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    return c.compute(op.Cast, x, data_type=TensorDataType.parse(c.random.choice(TYPES)))


def any_copy(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    """A copy with any strides."""
    desc = TensorDesc(x.data_type, x.sizes, c.strides(x.sizes, repeated=False))
    return c.append(op.ElementWiseIdentity(input_tensor=x.desc, output_tensor=desc), x)[0]


ELEMENT_WISE: tuple[Callable[[Chain, Any], Any], ...] = (
    *(unary, combined) * 3,
    *(scaled, costly, compared, chosen, converted, any_copy),
)


# Others --------------------------------------------------------------------------------------------------------------


def sliced(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    offsets = [c.random.randint(0, min(n - 1, 2)) for n in x.sizes]
    extents = [n - offset for n, offset in zip(x.sizes, offsets, strict=True)]
    steps = [c.random.choice((1, 1, 1, 2, 3, -1, -2)) for _ in x.sizes]
    sizes = [1 + (n - 1) // abs(step) for n, step in zip(extents, steps, strict=True)]
    fields: dict[str, Any] = {
        "input_window_offsets": offsets,
        "input_window_sizes": extents,
        "input_window_strides": steps,
    }
    return c.compute(op.Slice1, x, sizes=sizes, **fields)


def joined(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    axis, parts = c.axis(x), [x]
    for _ in range(c.random.randint(1, 2)):
        sizes = [c.random.randint(1, n) if d == axis else n for d, n in enumerate(x.sizes)]
        parts.append(c.like(x.data_type, sizes, x))
    c.random.shuffle(parts)
    whole = [sum(p.sizes[axis] for p in parts) if d == axis else n for d, n in enumerate(x.sizes)]
    target = c.target(x.data_type, whole)
    return c.append(op.Join(input_tensors=[p.desc for p in parts], output_tensor=target, axis=axis), *parts)[0]


def split(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    """Pieces; some of them are used now, others later or never."""
    axis = c.axis(x)
    cuts = sorted(c.random.sample(range(1, x.sizes[axis]), min(x.sizes[axis] - 1, c.random.randint(1, 2))))
    ends = [0, *cuts, x.sizes[axis]]
    lengths = [b - a for a, b in pairwise(ends)]
    targets = [c.target(x.data_type, [*x.sizes[:axis], n, *x.sizes[axis + 1 :]]) for n in lengths]
    pieces = c.append(op.Split(input_tensor=x.desc, output_tensors=targets, axis=axis), x)
    c.tensors += pieces
    return c.random.choice(pieces)


def padded(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    start, end = ([c.random.choice((0, 0, 1, 2)) for _ in x.sizes] for _ in range(2))
    sizes = [sum(parts) for parts in zip(x.sizes, start, end, strict=True)]
    mode = c.random.choice(("CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC"))
    fields: dict[str, Any] = {"padding_mode": mode, "padding_value": 1.0, "start_padding": start, "end_padding": end}
    return c.compute(op.Padding, x, sizes=sizes, **fields)


def tiled(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    x = c.fitted(op.Tile, x)
    repeats = [c.random.choice((1, 1, 2)) for _ in x.sizes]
    return c.compute(op.Tile, x, sizes=[n * r for n, r in zip(x.sizes, repeats, strict=True)], repeats=repeats)


def gathered(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    axis = c.axis(x)
    sizes = [c.random.randint(1, 5) if d == axis else n for d, n in enumerate(x.sizes)]
    if c.random.random() < 0.5:
        indices = c.like(TensorDataType.UINT32, sizes, x)
        return c.compute(op.GatherElements, x, indices, sizes=sizes, axis=axis)
    indices = c.like(TensorDataType.UINT32, [1] * (x.rank - 1) + [sizes[axis]], x)
    return c.compute(op.Gather, x, indices, sizes=sizes, axis=axis, index_dimensions=1)


def scattered(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    axis = c.axis(x)
    sizes = [c.random.randint(1, 5) if d == axis else n for d, n in enumerate(x.sizes)]
    indices, updates = c.like(TensorDataType.UINT32, sizes, x), c.like(x.data_type, sizes, x)
    return c.compute(op.ScatterElements, x, indices, updates, axis=axis)


def reversed_rows(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    axis = c.axis(x)
    lengths = c.like(TensorDataType.UINT32, [1 if d == axis else n for d, n in enumerate(x.sizes)], x)
    return c.compute(op.ReverseSubsequences, x, lengths, axis=axis)


def reduced(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    axes = c.axes(x)
    sizes = [1 if d in axes else n for d, n in enumerate(x.sizes)]
    function = c.random.choice(("SUM", "MAX", "L1", "AVERAGE", "ARGMAX"))
    if function == "ARGMAX":
        x = c.fitted(op.Reduce, x)
        return c.compute(op.Reduce, x, sizes=sizes, function=function, axes=axes, data_type=TensorDataType.UINT32)
    if x.data_type not in (TensorDataType.FLOAT32, TensorDataType.FLOAT16):
        x = c.compute(op.Cast, x, data_type=TensorDataType.FLOAT32)
    return c.compute(op.Reduce, x, sizes=sizes, function=function, axes=axes)


def normalised(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    if c.random.random() < 0.5:
        x = c.fitted(op.ActivationSoftmax1, x)
        return c.compute(op.ActivationSoftmax1, x, axes=c.axes(x))
    x = c.fitted(op.MeanVarianceNormalization1, x)
    fields: dict[str, Any] = {"axes": c.axes(x), "normalize_variance": True, "epsilon": 0.5, "fused_activation": None}
    return c.compute(op.MeanVarianceNormalization1, x, None, None, **fields)


def summed_up(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    x = c.fitted(op.CumulativeSummation, x)
    direction = c.random.choice(("INCREASING", "DECREASING"))
    exclusive = c.random.random() < 0.3
    fields: dict[str, Any] = {"axis": c.axis(x), "axis_direction": direction, "has_exclusive_sum": exclusive}
    return c.compute(op.CumulativeSummation, x, **fields)


def multiplied(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    """GEMM with an earlier tensor, from either side, transposed or not."""
    x = c.fitted(op.Gemm, x, (2, 3, 4))
    (*batch, rows, inner), columns = x.sizes, c.random.randint(1, 6)
    trans_a, trans_b = c.random.random() < 0.5, c.random.random() < 0.5
    if trans_a:
        rows, inner = inner, rows
    y = c.like(x.data_type, [*batch, columns, inner] if trans_b else [*batch, inner, columns], x)
    sizes = [*batch, rows, columns]
    z = c.like(x.data_type, sizes, x) if c.random.random() < 0.5 else None
    fields: dict[str, Any] = {
        "trans_a": int(trans_a),
        "trans_b": int(trans_b),
        "alpha": 1.0,
        "beta": 1.0,
        "fused_activation": None,
    }
    return c.compute(op.Gemm, x, y, z, sizes=sizes, **fields)


def convolved(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    x = c.fitted(op.Convolution, x, (3, 4))
    batch, channels, *image = x.sizes
    groups = c.random.choice(divisors(channels))
    filters = groups * c.random.randint(1, 2)
    taps = [c.random.randint(1, min(3, n + 1)) for n in image]
    steps = [c.random.choice((1, 1, 2)) for _ in image]
    ends = [c.random.randint(0, 1) if n + 1 > t else 1 for n, t in zip(image, taps, strict=True)]
    output = [(n + e - t) // s + 1 for n, e, t, s in zip(image, ends, taps, steps, strict=True)]
    weights = c.like(x.data_type, [filters, channels // groups, *taps], x)
    bias = c.like(x.data_type, [1, filters, *[1] * len(image)], x) if c.random.random() < 0.5 else None
    none = [0] * len(image)
    return c.compute(
        op.Convolution,
        x,
        weights,
        bias,
        sizes=[batch, filters, *output],
        mode="CROSS_CORRELATION",
        direction="FORWARD",
        strides=steps,
        dilations=[1] * len(image),
        start_padding=none,
        end_padding=ends,
        output_padding=none,
        group_count=groups,
        fused_activation=None,
    )


def pooled(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    cls = c.random.choice((op.MaxPooling, op.AveragePooling))
    x = c.fitted(cls, x, (4, 5))
    image = x.sizes[2:]
    window, steps = [c.random.randint(1, min(3, n)) for n in image], [c.random.randint(1, 2) for _ in image]
    sizes = [*x.sizes[:2], *((n - w) // s + 1 for n, w, s in zip(image, window, steps, strict=True))]
    fields: dict[str, Any] = {} if cls is op.MaxPooling else {"include_padding": False}
    none = [0] * len(image)
    return c.compute(
        cls, x, sizes=sizes, window_size=window, strides=steps, start_padding=none, end_padding=none, **fields
    )


def blocks(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    x = c.fitted(op.DepthToSpace, x, (4,))
    batch, channels, height, width = x.sizes
    if channels % 4 == 0:
        sizes = [batch, channels // 4, height * 2, width * 2]
        return c.compute(op.DepthToSpace1, x, sizes=sizes, block_size=2, order=c.random.randint(0, 1))
    if height % 2 or width % 2:
        return sliced(c, x)
    sizes = [batch, channels * 4, height // 2, width // 2]
    return c.compute(op.SpaceToDepth1, x, sizes=sizes, block_size=2, order=c.random.randint(0, 1))


def upsampled(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    x = c.fitted(op.Upsample2D, x, (4,))
    sizes = [*x.sizes[:2], x.sizes[2] * 2, x.sizes[3] * 3]
    mode = c.random.choice(("NEAREST_NEIGHBOR", "LINEAR"))
    return c.compute(op.Upsample2D, x, sizes=sizes, scale_size=(3, 2), interpolation_mode=mode)


def one_hot(c: Chain, x: dml.GraphTensor) -> dml.GraphTensor:
    if x.data_type is not TensorDataType.UINT32:
        x = c.compute(op.Cast, x, data_type=TensorDataType.UINT32)
    axis = c.axis(x)
    lines = x.reinterpret([1 if d == axis else n for d, n in enumerate(x.sizes)], x.strides)
    values = c.like(TensorDataType.FLOAT32, [*[1] * (x.rank - 1), 2], x)
    sizes = [4 if d == axis else n for d, n in enumerate(lines.sizes)]
    return c.compute(op.OneHot, lines, values, sizes=sizes, data_type=TensorDataType.FLOAT32, axis=axis)


OTHERS: tuple[Callable[[Chain, Any], Any], ...] = (
    *(sliced, joined, split) * 3,
    *(padded, reduced) * 2,
    *(tiled, gathered, scattered, reversed_rows, normalised, summed_up),
    *(multiplied, convolved, pooled, blocks, upsampled, one_hot),
)
