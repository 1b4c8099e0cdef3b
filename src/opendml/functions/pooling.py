"""Pooling over sliding windows, and its inverse: max_pooling, average_pooling, lp_pooling, max_unpooling.

Tensors are {N, C, H, W} or {N, C, D, H, W}; window arrays have one element a spatial dimension. Along each, the window
of output o covers the inputs ``o * strides + k * dilations - start_padding`` for 0 <= k < window size. The output has
``(input size + start_padding + end_padding - dilated window size) // strides + 1`` elements; ``output_sizes`` (all
dimensions) may have one more where that rounds down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate, evaluate_single, integers, or_default, sizes_by
from opendml.functions.several import several
from opendml.functions.signatures import operator_function
from opendml.operators.pooling import AveragePooling1, LpPooling1, MaxPooling2, MaxUnpooling
from opendml.programs.device import Device

T = TypeVar("T")


@several
class MaxPoolingOutputs(NamedTuple, Generic[T]):
    """What ``max_pooling`` returns; ``indices`` is None unless asked for."""

    values: T
    indices: T | None


@operator_function
def max_pooling(
    input: Operand,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    output_indices: bool = False,
    indices_data_type: TensorDataType | str | Any = TensorDataType.UINT32,
    output_sizes: Sequence[int] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> MaxPoolingOutputs[Any]:
    """The maximum of every window, and where it was found (MAX_POOLING2; at lower levels MAX_POOLING1, MAX_POOLING).

    ``input``: {N, C, H, W} or {N, C, D, H, W}, any type but float64. Strides and dilations are 1 and paddings 0 by
    default; padding takes no part in a maximum. Returns ``values`` of the input's type and, with ``output_indices``
    (from level 2_0 on), ``indices``: the position of the first maximum in the input, counted as if it were packed.
    ``indices_data_type``: uint32, or from level 5_0 on uint64. Dilations other than 1 exist from level 2_1 on.

    >>> x = np.array([[[[1, 5, 2], [7, 3, 4], [0, 9, 8]]]], "float32")
    >>> pooled = dml.max_pooling(x, window_size=[2, 2], output_indices=True)
    >>> pooled.values.tolist()
    [[[[7.0, 5.0], [9.0, 9.0]]]]
    >>> pooled.indices.tolist()
    [[[[3, 1], [7, 7]]]]
    """
    window = window_of(window_size, strides, start_padding, end_padding, dilations, output_sizes)
    indices_type = indices_data_type if output_indices else None
    outputs = evaluate(_max_pooling, (input,), (window, indices_type), device=device, out=out)
    return MaxPoolingOutputs(outputs[0], outputs[1] if output_indices else None)


def _max_pooling(input: TensorDesc, window: Window, indices_type: Any) -> Operator:
    output = _pooled(input, window)
    indices = TensorDesc(indices_type, output.sizes) if indices_type is not None else None
    return MaxPooling2(
        input_tensor=input, output_tensor=output, output_indices_tensor=indices, **window_fields(input, window)
    )


@operator_function
def average_pooling(
    input: Operand,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    include_padding: bool = False,
    output_sizes: Sequence[int] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The mean of every window (AVERAGE_POOLING1; AVERAGE_POOLING below level 6_2).

    ``input``: {N, C, H, W} or {N, C, D, H, W}, float32 or float16. Strides and dilations are 1 and paddings 0 by
    default. ``include_padding``: divide by the size of the window, not by the number of its elements in the input.

    >>> dml.average_pooling(np.array([[[[1, 2], [3, 6]]]], "float32"), window_size=[2, 2]).tolist()
    [[[[3.0]]]]
    """
    window = window_of(window_size, strides, start_padding, end_padding, dilations, output_sizes)
    return evaluate_single(_average_pooling, (input,), (window, include_padding), device=device, out=out)


def _average_pooling(input: TensorDesc, window: Window, include_padding: Any) -> Operator:
    return AveragePooling1(
        input_tensor=input,
        output_tensor=_pooled(input, window),
        include_padding=include_padding,
        **window_fields(input, window),
    )


@operator_function
def lp_pooling(
    input: Operand,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    p: int = 2,
    output_sizes: Sequence[int] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The Lp norm of every window, ``sum(abs(x) ** p) ** (1 / p)`` (LP_POOLING1; LP_POOLING below level 6_2).

    ``input``: {N, C, H, W} or {N, C, D, H, W}, float32 or float16. ``p``: at least 1. Strides and dilations are 1
    and paddings 0 by default.

    >>> dml.lp_pooling(np.array([[[[3, -4]]]], "float32"), window_size=[1, 2]).tolist()
    [[[[5.0]]]]
    """
    window = window_of(window_size, strides, start_padding, end_padding, dilations, output_sizes)
    return evaluate_single(_lp_pooling, (input,), (window, p), device=device, out=out)


def _lp_pooling(input: TensorDesc, window: Window, p: Any) -> Operator:
    return LpPooling1(input_tensor=input, output_tensor=_pooled(input, window), p=p, **window_fields(input, window))


@operator_function
def max_unpooling(
    input: Operand, indices: Operand, *, output_sizes: Sequence[int], device: Device | None = None, out: Any = None
) -> Array:
    """Zeros with every input value at its index, the inverse of ``max_pooling`` (MAX_UNPOOLING).

    ``input``: {N, C, H, W}, any type but float64. ``indices``: positions in the output, counted as if it were packed;
    of the input's sizes, uint32 or uint64; those outside the output are dropped. ``output_sizes``: any four.

    >>> dml.max_unpooling(np.array([[[[7, 9]]]]), np.array([[[[3, 0]]]], "uint32"), output_sizes=[1, 1, 2, 2]).tolist()
    [[[[9, 0], [0, 7]]]]
    """
    return evaluate_single(_max_unpooling, (input, indices), (integers(output_sizes),), device=device, out=out)


def _max_unpooling(input: TensorDesc, indices: TensorDesc, output_sizes: Any) -> Operator:
    output = TensorDesc(input.data_type, output_sizes)
    return MaxUnpooling(input_tensor=input, indices_tensor=indices, output_tensor=output)


Window = tuple[Any, Any, Any, Any, Any, Any]


def window_of(
    size: Any, strides: Any, start_padding: Any, end_padding: Any, dilations: Any, output_sizes: Any
) -> Window:
    """The parameters of a window, as they are given."""
    return (
        integers(size),
        integers(strides),
        integers(start_padding),
        integers(end_padding),
        integers(dilations),
        integers(output_sizes),
    )


def window_fields(input: TensorDesc, window: Window) -> dict[str, Any]:
    """The fields of a window over tensors of the input's rank, with their defaults."""
    size, strides, start_padding, end_padding, dilations, _ = window
    count = len(size) if isinstance(size, tuple) else max(input.rank - 2, 0)
    return {
        "window_size": size,
        "strides": or_default(strides, 1, count),
        "start_padding": or_default(start_padding, 0, count),
        "end_padding": or_default(end_padding, 0, count),
        "dilations": or_default(dilations, 1, count),
    }


def _pooled(input: TensorDesc, window: Window) -> TensorDesc:
    return TensorDesc(input.data_type, pooled_sizes(input, window))


def pooled_sizes(input: TensorDesc, window: Window) -> Any:
    """The sizes of the output: those asked for, or one element for each window."""
    if window[-1] is not None:
        return window[-1]
    fields = window_fields(input, window)
    names = ("window_size", "strides", "start_padding", "end_padding", "dilations")
    return (*input.sizes[:2], *sizes_by(window_count, input.sizes[2:], *(fields[name] for name in names)))


def window_count(size: int, window: int, stride: int, start: int, end: int, dilation: int) -> int:
    """How many places a window has along a dimension."""
    return (size + start + end - (window - 1) * dilation - 1) // stride + 1
