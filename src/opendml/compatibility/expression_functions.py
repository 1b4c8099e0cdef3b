"""DirectMLX's functions on expressions, in the keywords of its bindings; each is opendml's function of that name.

Those whose parameters are the same ones in all bindings are theirs as they stand here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import opendml as dml
from opendml.compatibility.expressions import Expression, FusedActivation, GRUOutputOptions, check_elements
from opendml.description.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    InterpolationMode,
    MatrixTransform,
    PaddingMode,
    RecurrentNetworkDirection,
    TensorDataType,
)

__all__ = [
    "activation",
    "activation_identity",
    "activation_relu",
    "activation_sigmoid",
    "activation_tanh",
    "add",
    "average_pooling",
    "batch_normalization",
    "convolution",
    "divide",
    "gather",
    "gemm",
    "gru",
    "join",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "multiply",
    "padding",
    "reinterpret",
    "slice",
    "softmax",
    "subtract",
    "upsample_2d",
    "value_scale_2d",
]

Numbers = Sequence[int]

E = TypeVar("E", bound=Expression)
"""The expressions of one interface: what is made of them is one of the same."""


def activation(name: str, input: E, **parameters: float) -> E:
    """The function ``activation_NAME``."""
    return input.wrap(getattr(dml, f"activation_{name}")(input.tensor, **parameters))


def softmax(input: E, axes: Numbers = ()) -> E:
    """Along ``axes``, without any along the last one."""
    return input.wrap(dml.activation_softmax(input.tensor, axes=_given(axes)))


def _elements(name: str, symbol: str, a: E, b: E) -> E:
    """A function of two tensors, element by element: of the same sizes and type. Raises BindingError."""
    check_elements(symbol, a, b)
    return a.wrap(getattr(dml, name)(a.tensor, b.tensor))


def activation_relu(input: E) -> E:
    """``max(0, x)``."""
    return activation("relu", input)


def activation_sigmoid(input: E) -> E:
    """``1 / (1 + exp(-x))``."""
    return activation("sigmoid", input)


def activation_identity(input: E) -> E:
    """The same values, packed."""
    return activation("identity", input)


def activation_tanh(input: E) -> E:
    """The hyperbolic tangent."""
    return activation("tanh", input)


def subtract(a: E, b: E) -> E:
    """``a - b``."""
    return _elements("subtract", "-", a, b)


def multiply(a: E, b: E) -> E:
    """``a * b``."""
    return _elements("multiply", "*", a, b)


def divide(a: E, b: E) -> E:
    """``a / b``."""
    return _elements("divide", "/", a, b)


def add(a: E, b: Expression, fused_activation: FusedActivation | None = None) -> E:
    """``a + b``."""
    check_elements("+", a, b)
    return a.wrap(dml.add(a.tensor, b.tensor, fused_activation=_fused(fused_activation)))


def convolution(
    input: E,
    filter: Expression,
    bias: Expression | None,
    *,
    mode: ConvolutionMode,
    direction: ConvolutionDirection,
    strides: Numbers,
    dilations: Numbers,
    start_padding: Numbers,
    end_padding: Numbers,
    output_padding: Numbers,
    group_count: int,
    fused_activation: FusedActivation | None,
    output_sizes: Numbers,
) -> E:
    """CONVOLUTION."""
    result = dml.convolution(
        input.tensor,
        filter.tensor,
        _tensor(bias),
        mode=mode,
        direction=direction,
        strides=_given(strides),
        dilations=_given(dilations),
        start_padding=_given(start_padding),
        end_padding=_given(end_padding),
        output_padding=_given(output_padding),
        group_count=int(group_count),
        fused_activation=_fused(fused_activation),
        output_sizes=_given(output_sizes),
    )
    return input.wrap(result)


def upsample_2d(input: E, scale_size: tuple[int, int], interpolation_mode: InterpolationMode) -> E:
    """UPSAMPLE_2D; ``scale_size`` is width and height."""
    return input.wrap(
        dml.upsample_2d(input.tensor, scale_size=scale_size, interpolation_mode=interpolation_mode),
    )


def padding(
    input: E, padding_mode: PaddingMode, padding_value: float, start_padding: Numbers, end_padding: Numbers
) -> E:
    """PADDING."""
    result = dml.padding(
        input.tensor,
        padding_mode=padding_mode,
        padding_value=padding_value,
        start_padding=list(start_padding),
        end_padding=list(end_padding),
    )
    return input.wrap(result)


def mean_variance_normalization(
    input: E,
    scale: Expression | None,
    bias: Expression | None,
    *,
    axes: Numbers,
    normalize_variance: bool,
    normalize_mean: bool,
    epsilon: float,
    fused_activation: FusedActivation | None,
) -> E:
    """MEAN_VARIANCE_NORMALIZATION, the newest version."""
    result = dml.mean_variance_normalization(
        input.tensor,
        _tensor(scale),
        _tensor(bias),
        axes=list(axes),
        normalize_variance=bool(normalize_variance),
        normalize_mean=bool(normalize_mean),
        epsilon=epsilon,
        fused_activation=_fused(fused_activation),
    )
    return input.wrap(result)


def slice(input: E, offsets: Numbers, sizes: Numbers, strides: Numbers) -> E:
    """SLICE1."""
    result = dml.slice(
        input.tensor,
        input_window_offsets=list(offsets),
        input_window_sizes=list(sizes),
        input_window_strides=list(strides),
    )
    return input.wrap(result)


def value_scale_2d(input: E, scale: float, bias: Sequence[float]) -> E:
    """VALUE_SCALE_2D."""
    return input.wrap(dml.value_scale_2d(input.tensor, scale=scale, bias=list(bias)))


def batch_normalization(
    input: E,
    mean: Expression,
    variance: Expression,
    scale: Expression,
    bias: Expression,
    *,
    spatial: bool,
    epsilon: float,
    fused_activation: FusedActivation | None,
) -> E:
    """BATCH_NORMALIZATION."""
    result = dml.batch_normalization(
        *(one.tensor for one in (input, mean, variance, scale, bias)),
        spatial=bool(spatial),
        epsilon=epsilon,
        fused_activation=_fused(fused_activation),
    )
    return input.wrap(result)


def local_response_normalization(
    input: E, *, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float
) -> E:
    """LOCAL_RESPONSE_NORMALIZATION."""
    result = dml.local_response_normalization(
        input.tensor, cross_channel=bool(cross_channel), local_size=local_size, alpha=alpha, beta=beta, bias=bias
    )
    return input.wrap(result)


def gemm(
    a: E,
    b: Expression,
    c: Expression | None,
    *,
    trans_a: MatrixTransform,
    trans_b: MatrixTransform,
    alpha: float,
    beta: float,
    fused_activation: FusedActivation | None,
) -> E:
    """GEMM."""
    result = dml.gemm(
        a.tensor,
        b.tensor,
        _tensor(c),
        trans_a=trans_a,
        trans_b=trans_b,
        alpha=alpha,
        beta=beta,
        fused_activation=_fused(fused_activation),
    )
    return a.wrap(result)


def average_pooling(
    input: E,
    *,
    strides: Numbers,
    window_sizes: Numbers,
    start_padding: Numbers,
    end_padding: Numbers,
    dilations: Numbers,
    include_padding: bool,
    output_sizes: Numbers,
) -> E:
    """AVERAGE_POOLING."""
    result = dml.average_pooling(
        input.tensor,
        window_size=list(window_sizes),
        strides=_given(strides),
        start_padding=_given(start_padding),
        end_padding=_given(end_padding),
        dilations=_given(dilations),
        include_padding=bool(include_padding),
        output_sizes=_given(output_sizes),
    )
    return input.wrap(result)


def max_pooling(
    input: Expression,
    *,
    window_sizes: Numbers,
    strides: Numbers,
    start_padding: Numbers,
    end_padding: Numbers,
    dilations: Numbers,
    output_indices: bool,
) -> tuple[Any, Any]:
    """MAX_POOLING: the values, and the indices or None."""
    result = dml.max_pooling(
        input.tensor,
        window_size=list(window_sizes),
        strides=_given(strides),
        start_padding=_given(start_padding),
        end_padding=_given(end_padding),
        dilations=_given(dilations),
        output_indices=bool(output_indices),
    )
    return input.wrap(result.values), None if result.indices is None else input.wrap(result.indices)


def reinterpret(input: E, data_type: TensorDataType | None, sizes: Numbers, strides: Numbers | None) -> E:
    """The same bytes with other sizes, strides or another type."""
    return input.wrap(input.tensor.reinterpret(list(sizes), None if strides is None else list(strides), data_type))


def join(inputs: Sequence[Expression], axis: int) -> Any:
    """JOIN."""
    return inputs[0].wrap(dml.join([one.tensor for one in inputs], axis=axis))


def gru(
    tensors: Sequence[Expression | None],
    *,
    activation_descs: Sequence[FusedActivation],
    direction: RecurrentNetworkDirection,
    linear_before_reset: bool,
    output_options: GRUOutputOptions,
) -> tuple[Any, Any]:
    """GRU: the sequence and the single output, None where they are not asked for.

    ``tensors``: input, weight, recurrence, bias, first hidden state, sequence lengths; the last three may be None.
    """
    first = tensors[0]
    assert first is not None
    result = dml.gru(
        *(_tensor(one) for one in tensors),
        activation_descs=[one.descriptor for one in activation_descs],
        direction=direction,
        linear_before_reset=bool(linear_before_reset),
        output_sequence=output_options is not GRUOutputOptions.Single,
        output_single=output_options is not GRUOutputOptions.Sequence,
    )
    sequence, single = (None if one is None else first.wrap(one) for one in result)
    return sequence, single


def gather(input: E, indices: Expression, axis: int, index_dimensions: int) -> E:
    """GATHER."""
    return input.wrap(dml.gather(input.tensor, indices.tensor, axis=axis, index_dimensions=index_dimensions))


def _given(numbers: Numbers) -> list[int] | None:
    """Numbers; none at all stand for the default."""
    return list(numbers) or None


def _tensor(expression: Expression | None) -> Any:
    return None if expression is None else expression.tensor


def _fused(activation: FusedActivation | None) -> Any:
    return None if activation is None else activation.descriptor
