"""Images as columns of their blocks, and such columns as images: unfold, fold.

Images are {N, C, spatial...} with 1 to 6 spatial dimensions, columns {N, C * product(window_sizes), blocks}; window
arrays have one element a spatial dimension. Along each, element k of block b is element
``b * strides + k * dilations - start_padding`` of the image, and there are
``(size + start_padding + end_padding - dilations * (window_sizes - 1) - 1) // strides + 1`` blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, integers, sizes_by, sizes_or
from opendml.functions.pooling import window_count, window_fields, window_of
from opendml.functions.signatures import operator_function
from opendml.operators.sliding_blocks import Fold, Unfold
from opendml.programs.device import Device


@operator_function
def unfold(
    input: Operand,
    *,
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The blocks that a sliding window covers as the columns of a matrix, im2col (UNFOLD; level 6_4).

    ``input``: {N, C, spatial...}, float32 or float16. Strides and dilations are 1 and paddings, which are zeros, 0 by
    default. Rows go through the channels, and through the window of each.

    >>> x = np.array([[[1, 2, 3, 4]]], "float32")
    >>> dml.unfold(x, window_sizes=[3], end_padding=[1]).tolist()
    [[[1.0, 2.0, 3.0], [2.0, 3.0, 4.0], [3.0, 4.0, 0.0]]]
    """
    window = window_of(window_sizes, strides, start_padding, end_padding, dilations, None)
    return evaluate_single(_unfold, (input,), window[:-1], device=device, out=out)


def _unfold(input: TensorDesc, *window: Any) -> Operator:
    fields = _fields(input, window)

    def sizes() -> tuple[int, ...]:
        names = ("window_sizes", "strides", "start_padding", "end_padding", "dilations")
        counts = sizes_by(window_count, input.sizes[2:], *(fields[name] for name in names))
        return input.sizes[0], input.sizes[1] * math.prod(fields["window_sizes"]), math.prod(counts)

    output = TensorDesc(input.data_type, sizes_or(input.sizes, sizes))
    return Unfold(input_tensor=input, output_tensor=output, **fields)


@operator_function
def fold(
    input: Operand,
    *,
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    output_sizes: Sequence[int],
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The sum of the columns of a matrix as blocks of an image, col2im (FOLD; level 6_4).

    ``input``: {N, C * product(window_sizes), blocks}, float32 or float16, laid out as ``unfold`` lays it out.
    ``output_sizes``: {N, C, spatial...}. The window as for ``unfold``; what falls into the padding is dropped.

    >>> columns = np.array([[[1, 2, 3], [10, 20, 30]]], "float32")
    >>> dml.fold(columns, output_sizes=[1, 1, 4], window_sizes=[2]).tolist()
    [[[1.0, 12.0, 23.0, 30.0]]]
    """
    window = window_of(window_sizes, strides, start_padding, end_padding, dilations, None)
    return evaluate_single(_fold, (input,), (integers(output_sizes), *window[:-1]), device=device, out=out)


def _fold(input: TensorDesc, output_sizes: Any, *window: Any) -> Operator:
    output = TensorDesc(input.data_type, output_sizes)
    return Fold(input_tensor=input, output_tensor=output, **_fields(output, window))


def _fields(image: TensorDesc, window: tuple[Any, ...]) -> dict[str, Any]:
    """The fields of a window with their defaults."""
    size, strides, start_padding, end_padding, dilations = window
    fields = window_fields(image, (size, strides, start_padding, end_padding, dilations, None))
    return {"window_sizes": fields.pop("window_size"), **fields}
