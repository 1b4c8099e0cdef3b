"""SPACE_TO_DEPTH and DEPTH_TO_SPACE: moving blocks of height and width into channels, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.description.data_types import ALL, FLOATS, UP_TO_32_BIT
from opendml.description.descriptors import Operator, at, enumeration, levels, tensor_input, tensor_output, uint
from opendml.description.enums import DepthSpaceOrder, OperatorType
from opendml.expression.element_types import I64
from opendml.expression.ir import Expression, Tensor, constant, grid, index, indices, load
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.definition import tensor

if TYPE_CHECKING:
    from opendml.description.field_types import Integer, Member, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class BlockRearrangement(Operator):
    """What the four operators share. Tensors are {N, C, H, W}."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    block_size: Integer = uint()

    support = levels(
        at("5_0", (4, 4), ALL),
        at("2_1", (4, 4), UP_TO_32_BIT),
        at("1_0", (4, 4), FLOATS),
    )

    @property
    def channel_order(self) -> DepthSpaceOrder:
        """The order of channels; the versions without a field for it have depth, column, row."""
        order: DepthSpaceOrder = getattr(self, "order", DepthSpaceOrder.DEPTH_COLUMN_ROW)
        return order

    def _check_sizes(self, rules: Rules, space: str, depth: str) -> None:
        """The tensor ``space`` has blocks in its height and width that ``depth`` has in its channels."""
        rules.same_data_type("input_tensor", "output_tensor")
        rules.same_rank("input_tensor", "output_tensor")
        rules.at_least("block_size", 1)
        rules.size_is("output_tensor", 0, rules.size("input_tensor", 0), "InputTensor.Sizes[i]")
        block = rules.integer("block_size")
        if block is None or not rules.ready("input_tensor"):
            return
        power_of = {1: 2, 2: 1, 3: 1}
        for i, power in power_of.items():
            # The channels grow where height and width shrink.
            is_divided = (i == 1) == (depth == "input_tensor")
            self._check_size(rules, i, block**power, "BlockSize" + " * BlockSize" * (power - 1), is_divided)

    @staticmethod
    def _check_size(rules: Rules, i: int, factor: int, name: str, is_divided: bool) -> None:
        """A size of the output is that of the input divided by a factor, without a rest, or times it."""
        size, has_output = rules.size("input_tensor", i), rules.ready("output_tensor")
        if size is None:
            return
        if is_divided:
            must = f"must be a multiple of {name} = {factor}"
            has_output &= rules.require(size % factor == 0, f"input_tensor.sizes[{i}]", must, size)
        expected, operator = (size // factor, "/") if is_divided else (size * factor, "*")
        if has_output:
            rules.size_is("output_tensor", i, expected, f"InputTensor.Sizes[i] {operator} ({name})")


class SpaceToDepth(BlockRearrangement, type=OperatorType.SPACE_TO_DEPTH, since="1_0"):
    """Moves BlockSize x BlockSize spatial blocks into the channel dimension."""

    def check(self, rules: Rules) -> None:
        """Height and width are whole blocks."""
        self._check_sizes(rules, space="input_tensor", depth="output_tensor")

    def define(self) -> Definition:
        """One copy, a permutation of the dimensions and the offsets in a block."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        blocks = _Blocks(target, self.block_size, self.channel_order)
        axes = (blocks.n, *blocks.channel_axes, blocks.h, blocks.w)
        copy = Compute(axes, (Store(target, blocks.in_depth, load(source, blocks.in_space)),))
        return Definition((source,), (target,), (copy,))


class SpaceToDepth1(SpaceToDepth, type=OperatorType.SPACE_TO_DEPTH1, since="2_1"):
    """Moves spatial blocks of height and width into channels, in one of two channel orders."""

    order: Member[DepthSpaceOrder] = enumeration(DepthSpaceOrder)

    support = levels(at("5_0", (4, 4), ALL), at("2_1", (4, 4), UP_TO_32_BIT))


class DepthToSpace(BlockRearrangement, type=OperatorType.DEPTH_TO_SPACE, since="1_0"):
    """Moves channels out into BlockSize x BlockSize spatial blocks."""

    def check(self, rules: Rules) -> None:
        """Channels are whole blocks."""
        self._check_sizes(rules, space="output_tensor", depth="input_tensor")

    def define(self) -> Definition:
        """One copy, a permutation of the dimensions and the offsets in a block."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        blocks = _Blocks(source, self.block_size, self.channel_order)
        axes = (blocks.n, blocks.c, blocks.h, blocks.y, blocks.w, blocks.x)
        copy = Compute(axes, (Store(target, blocks.in_space, load(source, blocks.in_depth)),))
        return Definition((source,), (target,), (copy,))


class DepthToSpace1(DepthToSpace, type=OperatorType.DEPTH_TO_SPACE1, since="2_1"):
    """Moves blocks of channels into height and width, in one of two channel orders."""

    order: Member[DepthSpaceOrder] = enumeration(DepthSpaceOrder)

    support = levels(at("5_0", (4, 4), ALL), at("2_1", (4, 4), UP_TO_32_BIT))


class _Blocks:
    """The six axes of a rearrangement and the coordinates that they make in the deep and in the wide tensor."""

    def __init__(self, deep: Tensor, size: int, order: DepthSpaceOrder) -> None:
        batch, channels, height, width = deep.sizes
        self.n, self.c, self.h, self.w = grid((batch, channels // size**2, height, width), "nchw")
        self.y, self.x = grid((size, size), "yx")
        depth_first = order is DepthSpaceOrder.DEPTH_COLUMN_ROW
        self.channel_axes = (self.y, self.x, self.c) if depth_first else (self.c, self.y, self.x)
        n, c, h, w, y, x = indices((self.n, self.c, self.h, self.w, self.y, self.x))
        channel: Expression = constant(0, I64)
        for axis in self.channel_axes:
            channel = channel * axis.size + index(axis)
        self.in_depth = (n, channel, h, w)
        self.in_space = (n, c, h * size + y, w * size + x)
