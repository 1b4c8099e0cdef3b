"""Larger tensors out of smaller ones: padding, tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.enums import PaddingMode
from opendml.description.structs import ScalarUnion
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, integers, sizes_by
from opendml.functions.signatures import operator_function
from opendml.functions.versions import fits
from opendml.operators.padding import Padding, Padding1, Tile
from opendml.programs.device import Device


@operator_function
def padding(
    input: Operand,
    *,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    padding_mode: PaddingMode | str = PaddingMode.CONSTANT,
    padding_value: float | ScalarUnion = 0,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The input with elements added at both ends of every dimension (PADDING1).

    ``input``: any type and rank. The paddings have one element a dimension. ``padding_mode``: ``CONSTANT``
    (``padding_value``), ``EDGE``, ``REFLECTION``, ``SYMMETRIC`` or ``WRAP``. A value that an integer type does not have
    is converted as FLOAT (PADDING).

    >>> dml.padding(np.array([1, 2, 3]), start_padding=[2], end_padding=[1], padding_mode="REFLECTION").tolist()
    [3, 2, 1, 2, 3, 2]
    """
    parameters = (padding_mode, integers(start_padding), integers(end_padding))
    return evaluate_single(_padding, (input,), parameters, (padding_value,), device=device, out=out)


def _padding(input: TensorDesc, mode: Any, start_padding: Any, end_padding: Any, value: Any) -> Operator:
    sizes = sizes_by(lambda size, start, end: size + start + end, input.sizes, start_padding, end_padding)
    output = TensorDesc(input.data_type, sizes)
    if not fits(value, input.data_type):
        return Padding(
            input_tensor=input,
            output_tensor=output,
            padding_mode=mode,
            padding_value=value,
            start_padding=start_padding,
            end_padding=end_padding,
        )
    return Padding1(
        input_tensor=input,
        output_tensor=output,
        padding_mode=mode,
        padding_value_data_type=input.data_type,
        padding_value=value,
        start_padding=start_padding,
        end_padding=end_padding,
    )


@operator_function
def tile(input: Operand, repeats: Sequence[int], *, device: Device | None = None, out: Any = None) -> Array:
    """The input repeated a whole number of times along every dimension (TILE).

    ``input``: any type but float64, any rank. ``repeats``: one count a dimension.

    >>> dml.tile(np.array([[1, 2]]), [2, 2]).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    return evaluate_single(_tile, (input,), (integers(repeats),), device=device, out=out)


def _tile(input: TensorDesc, repeats: Any) -> Operator:
    sizes = sizes_by(lambda size, count: size * count, input.sizes, repeats)
    return Tile(input_tensor=input, output_tensor=TensorDesc(input.data_type, sizes), repeats=repeats)
