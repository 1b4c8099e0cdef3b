"""Gradients of poolings: average_pooling_grad, max_pooling_grad.

Windows are those of the forward functions (``opendml.functions.pooling``). ``output_sizes`` are the sizes of what was
pooled, and of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml.building.operands import OperandRules
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, integers, operand_rules
from opendml.functions.element_wise import packed
from opendml.functions.pooling import Window, window_fields, window_of
from opendml.functions.signatures import operator_function
from opendml.operators.pooling_gradients import AveragePoolingGrad, MaxPoolingGrad
from opendml.programs.device import Device


@operator_function
def average_pooling_grad(
    input_gradient: Operand,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    include_padding: bool = False,
    output_sizes: Sequence[int],
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The gradient of ``average_pooling``: every gradient spread evenly over its window (AVERAGE_POOLING_GRAD).

    ``input_gradient``: the gradient of the pooling's output, {N, C, H, W} or {N, C, D, H, W}, float32 or float16.
    ``output_sizes``: the sizes of what was pooled. The window as for ``average_pooling``, without dilations.

    >>> gradient = np.array([[[[4, 8]]]], "float32")
    >>> dml.average_pooling_grad(gradient, output_sizes=[1, 1, 1, 3], window_size=[1, 2]).tolist()
    [[[[2.0, 6.0, 4.0]]]]
    """
    window = window_of(window_size, strides, start_padding, end_padding, None, None)
    parameters = (window, integers(output_sizes), include_padding)
    return evaluate_single(_average_pooling_grad, (input_gradient,), parameters, device=device, out=out)


def _average_pooling_grad(
    input_gradient: TensorDesc, window: Window, output_sizes: Any, include_padding: Any
) -> Operator:
    fields = {name: value for name, value in window_fields(input_gradient, window).items() if name != "dilations"}
    return AveragePoolingGrad(
        input_gradient_tensor=input_gradient,
        output_gradient_tensor=TensorDesc(input_gradient.data_type, output_sizes),
        include_padding=include_padding,
        **fields,
    )


@operator_function
def max_pooling_grad(
    input: Operand,
    input_gradient: Operand,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The gradient of ``max_pooling``: every gradient at the first maximum of its window (MAX_POOLING_GRAD).

    ``input``: what was pooled, {N, C, H, W} or {N, C, D, H, W}, float32 or float16. ``input_gradient``: the gradient of
    the pooling's output. The window as for ``max_pooling``. Returns the sizes of the input; gradients that fall on the
    same element are added up.

    >>> x, gradient = np.array([[[[1, 5, 2]]]], "float32"), np.array([[[[3, 4]]]], "float32")
    >>> dml.max_pooling_grad(x, gradient, window_size=[1, 2]).tolist()
    [[[[0.0, 7.0, 0.0]]]]
    """
    window = window_of(window_size, strides, start_padding, end_padding, dilations, None)
    return evaluate_single(_max_pooling_grad, (input, input_gradient), (window,), device=device, out=out)


@operand_rules(OperandRules("x"))
def _max_pooling_grad(input: TensorDesc, input_gradient: TensorDesc, window: Window) -> Operator:
    return MaxPoolingGrad(
        input_tensor=input,
        input_gradient_tensor=input_gradient,
        output_gradient_tensor=packed(input),
        **window_fields(input, window),
    )
