"""Normalisations in training: batch_normalization_training, and the gradients of normalisations."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from opendml.building.operands import OperandRules
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate, evaluate_single, operand_rules
from opendml.functions.element_wise import packed
from opendml.functions.several import several
from opendml.functions.signatures import operator_function
from opendml.operators.normalization_training import (
    BatchNormalizationGrad,
    BatchNormalizationTraining,
    BatchNormalizationTrainingGrad,
    LocalResponseNormalizationGrad,
)
from opendml.programs.device import Device

T = TypeVar("T")


@several
class BatchNormalizationTrainingOutputs(NamedTuple, Generic[T]):
    """What ``batch_normalization_training`` returns."""

    output: T
    mean: T
    variance: T


@several
class BatchNormalizationGradOutputs(NamedTuple, Generic[T]):
    """What ``batch_normalization_grad`` and ``batch_normalization_training_grad`` return."""

    gradient: T
    scale_gradient: T
    bias_gradient: T


@operator_function
def batch_normalization_training(
    input: Operand,
    scale: Operand,
    bias: Operand,
    fused_add: Operand | None = None,
    *,
    epsilon: float = 1e-5,
    fused_activation: Operator | None = None,
    device: Device | None = None,
    out: Any = None,
) -> BatchNormalizationTrainingOutputs[Any]:
    """``scale * (input - mean) / sqrt(variance + epsilon) + bias + fused_add``, or an activation of it, by mean and
    variance of the input itself (BATCH_NORMALIZATION_TRAINING).

    ``input``: float32 or float16, any rank. ``scale``, ``bias``: the same type and rank; the statistics are taken along
    the dimensions in which they have size 1, their other sizes are the input's. ``fused_add``: of the input's sizes.
    ``fused_activation``: an activation without tensors, such as ``dml.fused_activation.relu()``. Returns ``output``
    of the input's sizes, and ``mean`` and ``variance`` (that of the population) of the sizes of ``scale``.

    >>> x, one = np.array([[1, 3], [-5, 5]], "float32"), np.ones((2, 1), "float32")
    >>> trained = dml.batch_normalization_training(x, one, one, epsilon=0)
    >>> trained.output.tolist(), trained.mean.ravel().tolist(), trained.variance.ravel().tolist()
    ([[0.0, 2.0], [0.0, 2.0]], [2.0, 0.0], [1.0, 25.0])
    """
    operands = (input, scale, bias, fused_add)
    outputs = evaluate(
        _batch_normalization_training, operands, (fused_activation,), (epsilon,), optional=1, device=device, out=out
    )
    return BatchNormalizationTrainingOutputs(*outputs)


@operand_rules(OperandRules("x"))
def _batch_normalization_training(
    input: TensorDesc,
    scale: TensorDesc,
    bias: TensorDesc,
    fused_add: TensorDesc | None,
    fused_activation: Operator | None,
    epsilon: Any,
) -> Operator:
    return BatchNormalizationTraining(
        input_tensor=input,
        scale_tensor=scale,
        bias_tensor=bias,
        fused_add_tensor=fused_add,
        output_tensor=packed(input),
        output_mean_tensor=packed(scale),
        output_variance_tensor=packed(scale),
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


@operator_function
def batch_normalization_grad(
    input: Operand,
    input_gradient: Operand,
    mean: Operand,
    variance: Operand,
    scale: Operand,
    *,
    epsilon: float = 1e-5,
    device: Device | None = None,
    out: Any = None,
) -> BatchNormalizationGradOutputs[Any]:
    """The gradients of ``batch_normalization`` by given mean and variance, which are constants
    (BATCH_NORMALIZATION_GRAD).

    ``input``, ``input_gradient``: what was normalised, and the gradient of the result; float32 or float16, any rank.
    ``mean``, ``variance``, ``scale``: the same type and rank, sizes of the input or 1, alike. Returns ``gradient`` of
    the input's sizes, and ``scale_gradient`` and ``bias_gradient`` of the sizes of ``scale``.

    >>> x, one = np.array([[1, 5]], "float32"), np.ones((1, 1), "float32")
    >>> gradients = dml.batch_normalization_grad(x, x, one, 4 * one, one, epsilon=0)
    >>> gradients.gradient.tolist(), gradients.scale_gradient.item(), gradients.bias_gradient.item()
    ([[0.5, 2.5]], 10.0, 6.0)
    """
    operands = (input, input_gradient, mean, variance, scale)
    outputs = evaluate(_batch_normalization_grad, operands, numbers=(epsilon,), device=device, out=out)
    return BatchNormalizationGradOutputs(*outputs)


@operand_rules(OperandRules("x"))
def _batch_normalization_grad(
    input: TensorDesc,
    input_gradient: TensorDesc,
    mean: TensorDesc,
    variance: TensorDesc,
    scale: TensorDesc,
    epsilon: Any,
) -> Operator:
    return BatchNormalizationGrad(**_gradient_tensors(input, input_gradient, mean, variance, scale), epsilon=epsilon)


@operator_function
def batch_normalization_training_grad(
    input: Operand,
    input_gradient: Operand,
    mean: Operand,
    variance: Operand,
    scale: Operand,
    *,
    epsilon: float = 1e-5,
    device: Device | None = None,
    out: Any = None,
) -> BatchNormalizationGradOutputs[Any]:
    """The gradients of ``batch_normalization_training``, whose statistics depend on the input
    (BATCH_NORMALIZATION_TRAINING_GRAD).

    Operands and results as those of ``batch_normalization_grad``; ``mean`` and ``variance`` are those that the forward
    function returns.

    >>> x, g = np.array([[1, 3]], "float32"), np.array([[1, 0]], "float32")
    >>> one = np.ones((1, 1), "float32")
    >>> gradients = dml.batch_normalization_training_grad(x, g, 2 * one, one, one, epsilon=3)
    >>> gradients.gradient.tolist(), gradients.scale_gradient.item(), gradients.bias_gradient.item()
    ([[0.1875, -0.1875]], -0.5, 1.0)
    """
    operands = (input, input_gradient, mean, variance, scale)
    outputs = evaluate(_batch_normalization_training_grad, operands, numbers=(epsilon,), device=device, out=out)
    return BatchNormalizationGradOutputs(*outputs)


@operand_rules(OperandRules("x"))
def _batch_normalization_training_grad(
    input: TensorDesc,
    input_gradient: TensorDesc,
    mean: TensorDesc,
    variance: TensorDesc,
    scale: TensorDesc,
    epsilon: Any,
) -> Operator:
    return BatchNormalizationTrainingGrad(
        **_gradient_tensors(input, input_gradient, mean, variance, scale), epsilon=epsilon
    )


def _gradient_tensors(
    input: TensorDesc, input_gradient: TensorDesc, mean: TensorDesc, variance: TensorDesc, scale: TensorDesc
) -> dict[str, TensorDesc]:
    """The tensors of both gradients of batch normalisation."""
    return {
        "input_tensor": input,
        "input_gradient_tensor": input_gradient,
        "mean_tensor": mean,
        "variance_tensor": variance,
        "scale_tensor": scale,
        "output_gradient_tensor": packed(input),
        "output_scale_gradient_tensor": packed(mean),
        "output_bias_gradient_tensor": packed(mean),
    }


@operator_function
def local_response_normalization_grad(
    input: Operand,
    input_gradient: Operand,
    *,
    cross_channel: bool,
    local_size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 1.0,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """The gradient of ``local_response_normalization`` (LOCAL_RESPONSE_NORMALIZATION_GRAD).

    ``input``, ``input_gradient``: what was normalised, and the gradient of the result; {N, C, H, W}, float32 or
    float16. The parameters are those of the forward function.

    >>> x = np.array([[[[3]]]], "float32")
    >>> dml.local_response_normalization_grad(x, x, cross_channel=True, local_size=1, alpha=1, beta=1, bias=1).item()
    -0.24000000953674316
    """
    parameters, numbers = (cross_channel, local_size), (alpha, beta, bias)
    operands = (input, input_gradient)
    return evaluate_single(_local_response_normalization_grad, operands, parameters, numbers, device=device, out=out)


@operand_rules(OperandRules("x"))
def _local_response_normalization_grad(
    input: TensorDesc,
    input_gradient: TensorDesc,
    cross_channel: Any,
    local_size: Any,
    alpha: Any,
    beta: Any,
    bias: Any,
) -> Operator:
    return LocalResponseNormalizationGrad(
        input_tensor=input,
        input_gradient_tensor=input_gradient,
        output_gradient_tensor=packed(input),
        cross_channel=cross_channel,
        local_size=local_size,
        alpha=alpha,
        beta=beta,
        bias=bias,
    )
