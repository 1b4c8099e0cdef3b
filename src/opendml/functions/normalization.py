"""Normalisations: by given or computed statistics, by a norm, by neighbours, by constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml.building.operands import OperandRules
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, integers, operand_rules
from opendml.functions.element_wise import packed
from opendml.functions.signatures import operator_function
from opendml.operators.normalization import (
    BatchNormalization,
    LocalResponseNormalization,
    LpNormalization,
    MeanVarianceNormalization2,
    ValueScale2D,
)
from opendml.programs.device import Device


@operator_function
def batch_normalization(
    input: Operand,
    mean: Operand,
    variance: Operand,
    scale: Operand,
    bias: Operand,
    *,
    spatial: bool = True,
    epsilon: float = 1e-5,
    fused_activation: Operator | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``scale * (input - mean) / sqrt(variance + epsilon) + bias``, or an activation of it (BATCH_NORMALIZATION).

    ``input``: float32 or float16, any rank. The other arrays: the same type and rank, sizes of the input or 1, which
    broadcasts. ``spatial`` has no effect from feature level 4_0 on; where false it forbids, below that, to broadcast
    mean and variance in space. ``fused_activation``: an activation without tensors, such as
    ``dml.fused_activation.relu()``. Returns the type and sizes of the input.

    >>> one = np.ones((1, 1), "float32")
    >>> dml.batch_normalization(np.array([[1, 5]], "float32"), one, 4 * one, one, one, epsilon=0).tolist()
    [[1.0, 3.0]]
    """
    operands = (input, mean, variance, scale, bias)
    return evaluate_single(
        _batch_normalization, operands, (spatial, fused_activation), (epsilon,), device=device, out=out
    )


@operand_rules(OperandRules("x"))
def _batch_normalization(
    input: TensorDesc,
    mean: TensorDesc,
    variance: TensorDesc,
    scale: TensorDesc,
    bias: TensorDesc,
    spatial: Any,
    fused_activation: Operator | None,
    epsilon: Any,
) -> Operator:
    return BatchNormalization(
        input_tensor=input,
        mean_tensor=mean,
        variance_tensor=variance,
        scale_tensor=scale,
        bias_tensor=bias,
        output_tensor=packed(input),
        spatial=spatial,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


@operator_function
def mean_variance_normalization(
    input: Operand,
    scale: Operand | None = None,
    bias: Operand | None = None,
    *,
    axes: Sequence[int],
    normalize_variance: bool = True,
    normalize_mean: bool = True,
    epsilon: float = 1e-5,
    fused_activation: Operator | None = None,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``scale * (input - mean) / sqrt(variance + epsilon) + bias``, mean and variance being taken along some axes
    (MEAN_VARIANCE_NORMALIZATION2): layer, group and instance normalisation.

    ``input``: float32 or float16, any rank. ``scale``, ``bias``: the same type and rank, sizes of the input or 1, which
    broadcasts; None for 1 and 0. Without ``normalize_variance`` there is no division, without ``normalize_mean`` the
    mean counts as 0, also in the variance (RMS normalisation). With no axes, ``[]``, each element is normalised by
    itself: its mean is the element, its variance 0. ``fused_activation``: an activation without tensors,
    such as ``dml.fused_activation.relu()``. Returns the type and sizes of the input.

    >>> x = np.array([[1, 3], [-5, 5]], "float32")
    >>> dml.mean_variance_normalization(x, axes=[1], epsilon=0).tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """
    parameters = (integers(axes), normalize_variance, normalize_mean, fused_activation)
    operands = (input, scale, bias)
    return evaluate_single(
        _mean_variance_normalization, operands, parameters, (epsilon,), optional=2, device=device, out=out
    )


@operand_rules(OperandRules("x"))
def _mean_variance_normalization(
    input: TensorDesc,
    scale: TensorDesc | None,
    bias: TensorDesc | None,
    axes: Any,
    normalize_variance: Any,
    normalize_mean: Any,
    fused_activation: Operator | None,
    epsilon: Any,
) -> Operator:
    return MeanVarianceNormalization2(
        input_tensor=input,
        scale_tensor=scale,
        bias_tensor=bias,
        output_tensor=packed(input),
        axes=axes,
        use_mean=normalize_mean,
        use_variance=normalize_variance,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


@operator_function
def local_response_normalization(
    input: Operand,
    *,
    cross_channel: bool,
    local_size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``x / (bias + alpha / local_size * (sum of squares around x)) ** beta`` (LOCAL_RESPONSE_NORMALIZATION).

    ``input``: {N, C, H, W}, float32 or float16. The sum is over ``local_size`` channels, or without ``cross_channel``
    over as many rows and columns, as far as they exist; of an even number one more lies behind than before.

    >>> x = np.array([[[[1]], [[2]], [[2]]]], "float32")
    >>> dml.local_response_normalization(x, cross_channel=True, local_size=3, alpha=3, beta=0.5, bias=0)[0, 1].tolist()
    [[0.6666666865348816]]
    """
    parameters, numbers = (cross_channel, local_size), (alpha, beta, bias)
    return evaluate_single(_local_response_normalization, (input,), parameters, numbers, device=device, out=out)


def _local_response_normalization(
    input: TensorDesc, cross_channel: Any, local_size: Any, alpha: Any, beta: Any, bias: Any
) -> Operator:
    return LocalResponseNormalization(
        input_tensor=input,
        output_tensor=packed(input),
        cross_channel=cross_channel,
        local_size=local_size,
        alpha=alpha,
        beta=beta,
        bias=bias,
    )


@operator_function
def lp_normalization(
    input: Operand,
    *,
    axis: int,
    epsilon: float = 1e-5,
    p: int = 2,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``x / max(norm, epsilon)`` with the L1 or L2 norm of the elements along one axis (LP_NORMALIZATION).

    ``input``: float32 or float16, any rank. ``p``: 1 or 2.

    >>> dml.lp_normalization(np.array([[3, 4], [0, 0]], "float32"), axis=1).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    return evaluate_single(_lp_normalization, (input,), (axis, p), (epsilon,), device=device, out=out)


def _lp_normalization(input: TensorDesc, axis: Any, p: Any, epsilon: Any) -> Operator:
    return LpNormalization(input_tensor=input, output_tensor=packed(input), axis=axis, epsilon=epsilon, p=p)


@operator_function
def value_scale_2d(
    input: Operand, *, scale: float, bias: Sequence[float], device: Device | None = None, out: Any = None
) -> Array:
    """``x * scale + bias[channel]`` of images with 1 or 3 channels (VALUE_SCALE_2D).

    ``input``: {N, C, H, W}, float32 or float16. ``bias``: one number a channel.

    >>> image = np.array([[[[1]], [[2]], [[3]]]], "float32")
    >>> dml.value_scale_2d(image, scale=2, bias=[0.5, 0, -1]).reshape(-1).tolist()
    [2.5, 4.0, 5.0]
    """
    return evaluate_single(_value_scale_2d, (input,), numbers=(scale, integers(bias)), device=device, out=out)


def _value_scale_2d(input: TensorDesc, scale: Any, bias: Any) -> Operator:
    return ValueScale2D(input_tensor=input, output_tensor=packed(input), scale=scale, bias=bias)
