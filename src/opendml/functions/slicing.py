"""Strided windows: slice, slice_grad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, integers, sizes_by
from opendml.functions.signatures import operator_function
from opendml.operators.slicing import Slice1, SliceGrad
from opendml.programs.device import Device


@operator_function
def slice(
    input: Operand,
    *,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """A strided window of the input (SLICE1).

    ``input``: any type and rank; the window arrays have one element a dimension. The window begins at
    ``input_window_offsets`` and has ``input_window_sizes``; negative ``input_window_strides`` walk it from its end.
    Returns {1 + (window size - 1) // \\|stride\\|, ...}; ``output_sizes`` may be smaller.

    >>> dml.slice(np.arange(8), input_window_offsets=[1], input_window_sizes=[6], input_window_strides=[-2]).tolist()
    [6, 4, 2]
    """
    window = (integers(input_window_offsets), integers(input_window_sizes), integers(input_window_strides))
    return evaluate_single(_slice, (input,), (*window, integers(output_sizes)), device=device, out=out)


def _slice(input: TensorDesc, offsets: Any, sizes: Any, strides: Any, output_sizes: Any) -> Operator:
    if output_sizes is None:
        output_sizes = sizes_by(
            lambda _, size, stride: 1 + (size - 1) // abs(stride) if size >= 1 else 1, input.sizes, sizes, strides
        )
    return Slice1(
        input_tensor=input,
        output_tensor=TensorDesc(input.data_type, output_sizes),
        input_window_offsets=offsets,
        input_window_sizes=sizes,
        input_window_strides=strides,
    )


@operator_function
def slice_grad(
    input_gradient: Operand,
    *,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int],
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The gradient of ``slice``: zeros, and the elements of the gradient where they were sliced (SLICE_GRAD).

    ``input_gradient``: the gradient of the slice, any type and rank. ``output_sizes``: the sizes of what was
    sliced, and of the result; the window as for ``slice``.

    >>> window = {"input_window_offsets": [1], "input_window_sizes": [6], "input_window_strides": [-2]}
    >>> dml.slice_grad(np.array([1, 2, 3]), **window, output_sizes=[8]).tolist()
    [0, 0, 3, 0, 2, 0, 1, 0]
    """
    window = (integers(input_window_offsets), integers(input_window_sizes), integers(input_window_strides))
    parameters = (integers(output_sizes), *window)
    return evaluate_single(_slice_grad, (input_gradient,), parameters, device=device, out=out)


def _slice_grad(input_gradient: TensorDesc, output_sizes: Any, offsets: Any, sizes: Any, strides: Any) -> Operator:
    return SliceGrad(
        input_gradient_tensor=input_gradient,
        output_gradient_tensor=TensorDesc(input_gradient.data_type, output_sizes),
        input_window_offsets=offsets,
        input_window_sizes=sizes,
        input_window_strides=strides,
    )
