"""DirectMLX's functions on expressions, in the keywords of its bindings; each is opendml's function of that name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    "add",
    "average_pooling",
    "batch_normalization",
    "convolution",
    "elements",
    "gather",
    "gemm",
    "gru",
    "join",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "padding",
    "reinterpret",
    "slice",
    "softmax",
    "upsample_2d",
    "value_scale_2d",
]

Numbers = Sequence[int]


def activation(name: str, input: Expression, **parameters: float) -> Any:
    """The function ``activation_NAME``."""
    return input.wrap(getattr(dml, f"activation_{name}")(input.tensor, **parameters))


def softmax(input: Expression, axes: Numbers = ()) -> Any:
    """Along ``axes``, without any along the last one."""
    return input.wrap(dml.activation_softmax(input.tensor, axes=_given(axes)))


def elements(name: str, symbol: str, a: Expression, b: Expression) -> Any:
    """A function of two tensors, element by element: of the same sizes and type. Raises BindingError."""
    check_elements(symbol, a, b)
    return a.wrap(getattr(dml, name)(a.tensor, b.tensor))


def add(a: Expression, b: Expression, fused_activation: FusedActivation | None = None) -> Any:
    """``a + b``."""
    check_elements("+", a, b)
    return a.wrap(dml.add(a.tensor, b.tensor, fused_activation=_fused(fused_activation)))


def convolution(
    input: Expression,
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
) -> Any:
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


def upsample_2d(input: Expression, scale_size: tuple[int, int], interpolation_mode: InterpolationMode) -> Any:
    """UPSAMPLE_2D; ``scale_size`` is width and height."""
    return input.wrap(
        dml.upsample_2d(input.tensor, scale_size=scale_size, interpolation_mode=interpolation_mode),
    )


def padding(
    input: Expression, padding_mode: PaddingMode, padding_value: float, start_padding: Numbers, end_padding: Numbers
) -> Any:
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
    input: Expression,
    scale: Expression | None,
    bias: Expression | None,
    *,
    axes: Numbers,
    normalize_variance: bool,
    normalize_mean: bool,
    epsilon: float,
    fused_activation: FusedActivation | None,
) -> Any:
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


def slice(input: Expression, offsets: Numbers, sizes: Numbers, strides: Numbers) -> Any:
    """SLICE1."""
    result = dml.slice(
        input.tensor,
        input_window_offsets=list(offsets),
        input_window_sizes=list(sizes),
        input_window_strides=list(strides),
    )
    return input.wrap(result)


def value_scale_2d(input: Expression, scale: float, bias: Sequence[float]) -> Any:
    """VALUE_SCALE_2D."""
    return input.wrap(dml.value_scale_2d(input.tensor, scale=scale, bias=list(bias)))


def batch_normalization(
    input: Expression,
    mean: Expression,
    variance: Expression,
    scale: Expression,
    bias: Expression,
    *,
    spatial: bool,
    epsilon: float,
    fused_activation: FusedActivation | None,
) -> Any:
    """BATCH_NORMALIZATION."""
    result = dml.batch_normalization(
        *(one.tensor for one in (input, mean, variance, scale, bias)),
        spatial=bool(spatial),
        epsilon=epsilon,
        fused_activation=_fused(fused_activation),
    )
    return input.wrap(result)


def local_response_normalization(
    input: Expression, *, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float
) -> Any:
    """LOCAL_RESPONSE_NORMALIZATION."""
    result = dml.local_response_normalization(
        input.tensor, cross_channel=bool(cross_channel), local_size=local_size, alpha=alpha, beta=beta, bias=bias
    )
    return input.wrap(result)


def gemm(
    a: Expression,
    b: Expression,
    c: Expression | None,
    *,
    trans_a: MatrixTransform,
    trans_b: MatrixTransform,
    alpha: float,
    beta: float,
    fused_activation: FusedActivation | None,
) -> Any:
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
    input: Expression,
    *,
    strides: Numbers,
    window_sizes: Numbers,
    start_padding: Numbers,
    end_padding: Numbers,
    dilations: Numbers,
    include_padding: bool,
    output_sizes: Numbers,
) -> Any:
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


def reinterpret(input: Expression, data_type: TensorDataType | None, sizes: Numbers, strides: Numbers | None) -> Any:
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


def gather(input: Expression, indices: Expression, axis: int, index_dimensions: int) -> Any:
    """GATHER."""
    return input.wrap(dml.gather(input.tensor, indices.tensor, axis=axis, index_dimensions=index_dimensions))


def _given(numbers: Numbers) -> list[int] | None:
    """Numbers; none at all stand for the default."""
    return list(numbers) or None


def _tensor(expression: Expression | None) -> Any:
    return None if expression is None else expression.tensor


def _fused(activation: FusedActivation | None) -> Any:
    return None if activation is None else activation.descriptor
