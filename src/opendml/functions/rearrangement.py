"""Blocks of height and width into channels and back: space_to_depth, depth_to_space."""

from __future__ import annotations

from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.enums import DepthSpaceOrder
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, sizes_or
from opendml.functions.signatures import operator_function
from opendml.operators.rearrangement import DepthToSpace1, SpaceToDepth1
from opendml.programs.device import Device


@operator_function
def space_to_depth(
    input: Operand,
    *,
    block_size: int,
    order: DepthSpaceOrder | str = DepthSpaceOrder.DEPTH_COLUMN_ROW,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """Spatial blocks moved into channels (SPACE_TO_DEPTH1).

    ``input``: {N, C, H, W}, any type; H and W are multiples of ``block_size`` B. Returns {N, C B B, H / B, W / B}.
    ``order``: channels within places in the block (``DEPTH_COLUMN_ROW``), or the reverse (``COLUMN_ROW_DEPTH``).

    >>> dml.space_to_depth(np.array([[[[1, 2], [3, 4]]]]), block_size=2).tolist()
    [[[[1]], [[2]], [[3]], [[4]]]]
    """
    return evaluate_single(_space_to_depth, (input,), (block_size, order), device=device, out=out)


def _space_to_depth(input: TensorDesc, block: Any, order: Any) -> Operator:
    def deep() -> tuple[int, ...]:
        batch, channels, height, width = input.sizes
        return batch, channels * block * block, height // block, width // block

    output = TensorDesc(input.data_type, sizes_or(input.sizes, deep))
    return SpaceToDepth1(input_tensor=input, output_tensor=output, block_size=block, order=order)


@operator_function
def depth_to_space(
    input: Operand,
    *,
    block_size: int,
    order: DepthSpaceOrder | str = DepthSpaceOrder.DEPTH_COLUMN_ROW,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """Channels moved out into spatial blocks, the inverse of ``space_to_depth`` (DEPTH_TO_SPACE1).

    ``input``: {N, C, H, W}, any type; C is a multiple of ``block_size`` B squared. Returns {N, C / B / B, H B, W B}.

    >>> dml.depth_to_space(np.array([[[[1]], [[2]], [[3]], [[4]]]]), block_size=2).tolist()
    [[[[1, 2], [3, 4]]]]
    """
    return evaluate_single(_depth_to_space, (input,), (block_size, order), device=device, out=out)


def _depth_to_space(input: TensorDesc, block: Any, order: Any) -> Operator:
    def wide() -> tuple[int, ...]:
        batch, channels, height, width = input.sizes
        return batch, channels // (block * block), height * block, width * block

    output = TensorDesc(input.data_type, sizes_or(input.sizes, wide))
    return DepthToSpace1(input_tensor=input, output_tensor=output, block_size=block, order=order)
