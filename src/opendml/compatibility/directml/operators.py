"""Operators of ``directml``: functions of expressions, and activations behind operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

import opendml
from opendml.compatibility import expression_functions as functions
from opendml.compatibility.directml.tensors import Expression
from opendml.compatibility.expression_functions import (
    activation_identity,
    activation_relu,
    activation_sigmoid,
    activation_tanh,
    divide,
    multiply,
    subtract,
)
from opendml.compatibility.expressions import FusedActivation as _FusedActivation
from opendml.compatibility.expressions import (
    GRUOutputOptions,
    data_type_of,
)
from opendml.description.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    InterpolationMode,
    MatrixTransform,
    OperatorType,
    PaddingMode,
    RecurrentNetworkDirection,
)
from opendml.description.errors import BindingError

__all__ = [
    "FusedActivation",
    "GRUOutputs",
    "MaxPoolingOutputs",
    "activation_gelu",
    "activation_identity",
    "activation_linear",
    "activation_relu",
    "activation_sigmoid",
    "activation_softmax",
    "activation_tanh",
    "add",
    "average_pooling",
    "batch_normalization",
    "broadcast",
    "convolution",
    "divide",
    "gather",
    "gemm",
    "gru",
    "join",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "multihead_attention",
    "multiply",
    "padding",
    "reinterpret",
    "slice",
    "subtract",
    "upsample_2d",
    "value_scale_2d",
]

Array = npt.NDArray[Any]
Numbers = Sequence[int]


class MaxPoolingOutputs(NamedTuple):
    """The maxima, and where they were, if that was asked for."""

    values: Any
    indices: Any


class GRUOutputs(NamedTuple):
    """All hidden states, and the last one; None for what was not asked for."""

    sequence: Any
    single: Any


class FusedActivation(_FusedActivation):
    """An activation behind an operator, by type and parameters, or by a function of its name: ``relu()``."""

    @staticmethod
    def none() -> FusedActivation:
        """No activation."""
        return FusedActivation(OperatorType.INVALID)

    @staticmethod
    def celu(alpha: float = 1.0) -> FusedActivation:
        """CELU."""
        return FusedActivation(OperatorType.ACTIVATION_CELU, alpha)

    @staticmethod
    def elu(alpha: float = 1.0) -> FusedActivation:
        """ELU."""
        return FusedActivation(OperatorType.ACTIVATION_ELU, alpha)

    @staticmethod
    def gelu() -> FusedActivation:
        """GELU."""
        return FusedActivation(OperatorType.ACTIVATION_GELU)

    @staticmethod
    def hard_sigmoid(alpha: float = 0.2, beta: float = 0.5) -> FusedActivation:
        """HARD_SIGMOID."""
        return FusedActivation(OperatorType.ACTIVATION_HARD_SIGMOID, alpha, beta)

    @staticmethod
    def identity() -> FusedActivation:
        """IDENTITY."""
        return FusedActivation(OperatorType.ACTIVATION_IDENTITY)

    @staticmethod
    def leaky_relu(alpha: float = 0.01) -> FusedActivation:
        """LEAKY_RELU."""
        return FusedActivation(OperatorType.ACTIVATION_LEAKY_RELU, alpha)

    @staticmethod
    def linear(alpha: float, beta: float) -> FusedActivation:
        """LINEAR."""
        return FusedActivation(OperatorType.ACTIVATION_LINEAR, alpha, beta)

    @staticmethod
    def parametric_softplus(alpha: float, beta: float) -> FusedActivation:
        """PARAMETRIC_SOFTPLUS."""
        return FusedActivation(OperatorType.ACTIVATION_PARAMETRIC_SOFTPLUS, alpha, beta)

    @staticmethod
    def relu() -> FusedActivation:
        """RELU."""
        return FusedActivation(OperatorType.ACTIVATION_RELU)

    @staticmethod
    def scaled_elu(alpha: float | None = None, gamma: float | None = None) -> FusedActivation:
        """SCALED_ELU, by default with the constants of self-normalising networks."""
        usual = opendml.fused_activation.SCALED_ELU_ALPHA, opendml.fused_activation.SCALED_ELU_GAMMA
        given = tuple(have if want is None else want for have, want in zip(usual, (alpha, gamma), strict=True))
        return FusedActivation(OperatorType.ACTIVATION_SCALED_ELU, *given)

    @staticmethod
    def scaled_tanh(alpha: float = 1.0, beta: float = 0.5) -> FusedActivation:
        """SCALED_TANH."""
        return FusedActivation(OperatorType.ACTIVATION_SCALED_TANH, alpha, beta)

    @staticmethod
    def shrink(bias: float = 0.0, threshold: float = 0.5) -> FusedActivation:
        """SHRINK."""
        return FusedActivation(OperatorType.ACTIVATION_SHRINK, bias, threshold)

    @staticmethod
    def sigmoid() -> FusedActivation:
        """SIGMOID."""
        return FusedActivation(OperatorType.ACTIVATION_SIGMOID)

    @staticmethod
    def softplus(steepness: float = 1.0) -> FusedActivation:
        """SOFTPLUS."""
        return FusedActivation(OperatorType.ACTIVATION_SOFTPLUS, steepness)

    @staticmethod
    def softsign() -> FusedActivation:
        """SOFTSIGN."""
        return FusedActivation(OperatorType.ACTIVATION_SOFTSIGN)

    @staticmethod
    def tanh() -> FusedActivation:
        """TANH."""
        return FusedActivation(OperatorType.ACTIVATION_TANH)

    @staticmethod
    def thresholded_relu(alpha: float = 1.0) -> FusedActivation:
        """THRESHOLDED_RELU."""
        return FusedActivation(OperatorType.ACTIVATION_THRESHOLDED_RELU, alpha)


Fused = FusedActivation | None


def activation_gelu(input: Expression) -> Expression:
    """``0.5 * x * (1 + erf(x / sqrt(2)))``."""
    return functions.activation("gelu", input)


def activation_linear(input: Expression, *, alpha: float, beta: float) -> Expression:
    """``alpha * x + beta``."""
    return functions.activation("linear", input, alpha=alpha, beta=beta)


def activation_softmax(input: Expression, *, axes: Numbers = ()) -> Expression:
    """Softmax along axes together; without any along the last one."""
    return functions.softmax(input, axes)


def add(a: Expression, b: Expression, *, fused_activation: Fused = None) -> Expression:
    """``a + b``."""
    return functions.add(a, b, fused_activation)


def reinterpret(input: Expression, sizes: Numbers, strides: Numbers | None = None, dtype: Any = None) -> Expression:
    """The same bytes with other sizes, strides or another type."""
    data_type = None if dtype is None else data_type_of(dtype)
    return functions.reinterpret(input, data_type, sizes, strides)


def broadcast(input: Expression, shape: Numbers) -> Expression:
    """Repeated along axes of size 1, and along new ones in front, as NumPy's; costs nothing.

    Raises BindingError, a ValueError, for sizes that are not to be had so.
    """
    source, wanted = list(input.shape), list(shape)
    if source == wanted:
        return input
    new = len(wanted) - len(source)
    if new < 0:
        raise BindingError(f"cannot broadcast {source} to {wanted}: the target has fewer axes")
    if any(have not in (1, want) for have, want in zip(source, wanted[new:], strict=True)):
        raise BindingError(f"cannot broadcast {source} to {wanted}: only axes of size 1 repeat")
    strides = input.tensor.desc.effective_strides
    repeated = [stride if have == want else 0 for have, want, stride in zip(source, wanted[new:], strides, strict=True)]
    return Expression(input.tensor.reinterpret(wanted, [*[0] * new, *repeated]))


def convolution(
    input: Expression,
    filter: Expression,
    bias: Expression | None = None,
    *,
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection = ConvolutionDirection.FORWARD,
    strides: Numbers = (),
    dilations: Numbers = (),
    start_padding: Numbers = (),
    end_padding: Numbers = (),
    output_padding: Numbers = (),
    group_count: int = 1,
    fused_activation: Fused = None,
    output_sizes: Numbers = (),
) -> Expression:
    """CONVOLUTION; empty lists stand for the defaults."""
    return functions.convolution(
        input,
        filter,
        bias,
        mode=mode,
        direction=direction,
        strides=strides,
        dilations=dilations,
        start_padding=start_padding,
        end_padding=end_padding,
        output_padding=output_padding,
        group_count=group_count,
        fused_activation=fused_activation,
        output_sizes=output_sizes,
    )


def upsample_2d(input: Expression, *, scale_size: tuple[int, int], interpolation_mode: InterpolationMode) -> Expression:
    """UPSAMPLE_2D; ``scale_size`` is width and height."""
    return functions.upsample_2d(input, scale_size, interpolation_mode)


def padding(
    input: Expression,
    *,
    padding_mode: PaddingMode = PaddingMode.CONSTANT,
    padding_value: float = 0.0,
    start_padding: Numbers,
    end_padding: Numbers,
) -> Expression:
    """PADDING."""
    return functions.padding(input, padding_mode, padding_value, start_padding, end_padding)


def mean_variance_normalization(
    input: Expression,
    scale: Expression | None = None,
    bias: Expression | None = None,
    *,
    axes: Numbers,
    normalize_variance: bool = True,
    normalize_mean: bool = True,
    epsilon: float = 1e-5,
    fused_activation: Fused = None,
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION2."""
    return functions.mean_variance_normalization(
        input,
        scale,
        bias,
        axes=axes,
        normalize_variance=normalize_variance,
        normalize_mean=normalize_mean,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


def slice(
    input: Expression, *, input_window_offsets: Numbers, input_window_sizes: Numbers, input_window_strides: Numbers
) -> Expression:
    """SLICE1."""
    return functions.slice(input, input_window_offsets, input_window_sizes, input_window_strides)


def value_scale_2d(input: Expression, *, scale: float, bias: Sequence[float]) -> Expression:
    """VALUE_SCALE_2D."""
    return functions.value_scale_2d(input, scale, bias)


def batch_normalization(
    input: Expression,
    mean: Expression,
    variance: Expression,
    scale: Expression,
    bias: Expression,
    *,
    spatial: bool = True,
    epsilon: float = 1e-5,
    fused_activation: Fused = None,
) -> Expression:
    """BATCH_NORMALIZATION."""
    return functions.batch_normalization(
        input, mean, variance, scale, bias, spatial=spatial, epsilon=epsilon, fused_activation=fused_activation
    )


def local_response_normalization(
    input: Expression, *, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float
) -> Expression:
    """LOCAL_RESPONSE_NORMALIZATION."""
    return functions.local_response_normalization(
        input, cross_channel=cross_channel, local_size=local_size, alpha=alpha, beta=beta, bias=bias
    )


def gemm(
    a: Expression,
    b: Expression,
    c: Expression | None = None,
    *,
    trans_a: MatrixTransform = MatrixTransform.NONE,
    trans_b: MatrixTransform = MatrixTransform.NONE,
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: Fused = None,
) -> Expression:
    """GEMM."""
    return functions.gemm(
        a, b, c, trans_a=trans_a, trans_b=trans_b, alpha=alpha, beta=beta, fused_activation=fused_activation
    )


def average_pooling(
    input: Expression,
    *,
    strides: Numbers,
    window_sizes: Numbers,
    start_padding: Numbers = (),
    end_padding: Numbers = (),
    dilations: Numbers = (),
    include_padding: bool = False,
    output_sizes: Numbers = (),
) -> Expression:
    """AVERAGE_POOLING."""
    return functions.average_pooling(
        input,
        strides=strides,
        window_sizes=window_sizes,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=dilations,
        include_padding=include_padding,
        output_sizes=output_sizes,
    )


def max_pooling(
    input: Expression,
    *,
    window_sizes: Numbers,
    strides: Numbers = (),
    start_padding: Numbers = (),
    end_padding: Numbers = (),
    dilations: Numbers = (),
    output_indices: bool = False,
) -> MaxPoolingOutputs:
    """MAX_POOLING; ``indices`` are None where they are not asked for."""
    pooled = functions.max_pooling(
        input,
        window_sizes=window_sizes,
        strides=strides,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=dilations,
        output_indices=output_indices,
    )
    return MaxPoolingOutputs(*pooled)


def multihead_attention(
    query: Expression, key: Expression, value: Expression, *, head_count: int, scale: float
) -> Expression:
    """MULTIHEAD_ATTENTION without masks; tensors are ``[batch, 1, sequence, channels]``, as is the result."""
    tensors = [one.tensor.reinterpret([1, one.shape[0], *one.shape[2:]]) for one in (query, key, value)]
    result: Any = opendml.multihead_attention(*tensors, head_count=head_count, scale=scale)
    batch, length, channels = result.output.sizes[-3:]
    return Expression(result.output.reinterpret([batch, 1, length, channels]))


def join(inputs: Sequence[Expression], *, axis: int) -> Expression:
    """JOIN."""
    return functions.join(inputs, axis)  # type: ignore[no-any-return]


def gru(
    input: Expression,
    weight: Expression,
    recurrence: Expression,
    bias: Expression | None = None,
    hidden_init: Expression | None = None,
    sequence_lengths: Expression | None = None,
    *,
    activation_descs: Sequence[FusedActivation],
    direction: RecurrentNetworkDirection = RecurrentNetworkDirection.FORWARD,
    linear_before_reset: bool = True,
    output_options: GRUOutputOptions = GRUOutputOptions.Both,
) -> GRUOutputs:
    """GRU."""
    outputs = functions.gru(
        (input, weight, recurrence, bias, hidden_init, sequence_lengths),
        activation_descs=activation_descs,
        direction=direction,
        linear_before_reset=linear_before_reset,
        output_options=output_options,
    )
    return GRUOutputs(*outputs)


def gather(input: Expression, indices: Expression, *, axis: int, index_dimensions: int) -> Expression:
    """GATHER."""
    return functions.gather(input, indices, axis, index_dimensions)
