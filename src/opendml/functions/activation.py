"""Activation functions: activation_relu and the like. All take any rank and return the input's type and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml.building.operands import ALONE
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, Operand, evaluate_single, integers, operand_rules
from opendml.functions.element_wise import packed
from opendml.functions.fused_activation import SCALED_ELU_ALPHA, SCALED_ELU_GAMMA
from opendml.functions.signatures import operator_function
from opendml.operators.activation import (
    Activation,
    ActivationCelu,
    ActivationElu,
    ActivationGelu,
    ActivationHardmax1,
    ActivationHardSigmoid,
    ActivationHardSwish,
    ActivationIdentity,
    ActivationLeakyRelu,
    ActivationLinear,
    ActivationLogSoftmax1,
    ActivationParameterizedRelu,
    ActivationParametricSoftplus,
    ActivationRelu,
    ActivationReluGrad,
    ActivationScaledElu,
    ActivationScaledTanh,
    ActivationShrink,
    ActivationSigmoid,
    ActivationSoftmax1,
    ActivationSoftplus,
    ActivationSoftsign,
    ActivationSwish,
    ActivationTanh,
    ActivationThresholdedRelu,
)
from opendml.programs.device import Device


@operator_function
def activation_elu(input: Operand, *, alpha: float = 1.0, device: Device | None = None, out: Any = None) -> Array:
    """``x if x >= 0, else alpha * (exp(x) - 1)`` (ACTIVATION_ELU).

    ``input``: float32 or float16.

    >>> dml.activation_elu(np.array([-np.inf, 2], "float32")).tolist()
    [-1.0, 2.0]
    """
    return _activated(ActivationElu, input, (alpha,), device, out)


@operator_function
def activation_celu(input: Operand, *, alpha: float = 1.0, device: Device | None = None, out: Any = None) -> Array:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`` (ACTIVATION_CELU).

    ``input``: float32 or float16.

    >>> dml.activation_celu(np.array([-np.inf, 2], "float32"), alpha=3).tolist()
    [-3.0, 2.0]
    """
    return _activated(ActivationCelu, input, (alpha,), device, out)


@operator_function
def activation_gelu(input: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``0.5 * x * (1 + erf(x / sqrt(2)))`` (ACTIVATION_GELU).

    ``input``: float32 or float16.

    >>> dml.activation_gelu(np.array([0, 10], "float32")).tolist()
    [0.0, 10.0]
    """
    return _activated(ActivationGelu, input, (), device, out)


@operator_function
def activation_hard_sigmoid(
    input: Operand, *, alpha: float = 0.2, beta: float = 0.5, device: Device | None = None, out: Any = None
) -> Array:
    """``max(0, min(alpha * x + beta, 1))`` (ACTIVATION_HARD_SIGMOID).

    ``input``: float32 or float16.

    >>> dml.activation_hard_sigmoid(np.array([-5, 0, 5], "float32")).tolist()
    [0.0, 0.5, 1.0]
    """
    return _activated(ActivationHardSigmoid, input, (alpha, beta), device, out)


@operator_function
def activation_hard_swish(
    input: Operand, *, alpha: float = 1 / 6, beta: float = 0.5, device: Device | None = None, out: Any = None
) -> Array:
    """``x * max(0, min(alpha * x + beta, 1))`` (ACTIVATION_HARD_SWISH).

    ``input``: float32 or float16.

    >>> dml.activation_hard_swish(np.array([-3, 0.5, 6], "float32"), alpha=0.25).tolist()
    [-0.0, 0.3125, 6.0]
    """
    return _activated(ActivationHardSwish, input, (alpha, beta), device, out)


@operator_function
def activation_identity(input: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``x`` (ACTIVATION_IDENTITY).

    ``input``: float32 or float16.

    >>> dml.activation_identity(np.array([-1, 2], "float32")).tolist()
    [-1.0, 2.0]
    """
    return _activated(ActivationIdentity, input, (), device, out)


@operator_function
def activation_leaky_relu(
    input: Operand, *, alpha: float = 0.01, device: Device | None = None, out: Any = None
) -> Array:
    """``x if x >= 0, else alpha * x`` (ACTIVATION_LEAKY_RELU).

    ``input``: float32 or float16.

    >>> dml.activation_leaky_relu(np.array([-4, 2], "float32"), alpha=0.25).tolist()
    [-1.0, 2.0]
    """
    return _activated(ActivationLeakyRelu, input, (alpha,), device, out)


@operator_function
def activation_linear(
    input: Operand, *, alpha: float, beta: float, device: Device | None = None, out: Any = None
) -> Array:
    """``alpha * x + beta`` (ACTIVATION_LINEAR).

    ``input``: float32 or float16.

    >>> dml.activation_linear(np.array([1, 2], "float32"), alpha=2, beta=0.5).tolist()
    [2.5, 4.5]
    """
    return _activated(ActivationLinear, input, (alpha, beta), device, out)


@operator_function
def activation_parameterized_relu(
    input: Operand, slope: Operand, *, device: Device | None = None, out: Any = None
) -> Array:
    """``x if x >= 0, else slope * x``, element by element (ACTIVATION_PARAMETERIZED_RELU). Integers wrap.

    ``input``, ``slope``: the same type and sizes; float32, float16 or signed integers up to 32 bits.

    >>> dml.activation_parameterized_relu(np.array([-4, -4, 2], "float32"), np.array([0.5, 2, 2], "float32")).tolist()
    [-2.0, -8.0, 2.0]
    """
    return evaluate_single(_parameterized_relu, (input, slope), device=device, out=out)


@operand_rules(ALONE)
def _parameterized_relu(input: TensorDesc, slope: TensorDesc) -> Operator:
    return ActivationParameterizedRelu(input_tensor=input, slope_tensor=slope, output_tensor=packed(input))


@operator_function
def activation_parametric_softplus(
    input: Operand, *, alpha: float, beta: float, device: Device | None = None, out: Any = None
) -> Array:
    """``alpha * ln(1 + exp(beta * x))`` (ACTIVATION_PARAMETRIC_SOFTPLUS).

    ``input``: float32 or float16.

    >>> dml.activation_parametric_softplus(np.array([-np.inf, 100], "float32"), alpha=2, beta=1).tolist()
    [0.0, 200.0]
    """
    return _activated(ActivationParametricSoftplus, input, (alpha, beta), device, out)


@operator_function
def activation_relu(input: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``max(0, x)`` (ACTIVATION_RELU).

    ``input``: float32, float16 or signed integers up to 32 bits.

    >>> dml.activation_relu(np.array([-1, 2], "float32")).tolist()
    [0.0, 2.0]
    """
    return _activated(ActivationRelu, input, (), device, out)


@operator_function
def activation_relu_grad(
    input: Operand, input_gradient: Operand, *, device: Device | None = None, out: Any = None
) -> Array:
    """The gradient of ``activation_relu`` at ``input``: ``input_gradient if x > 0, else 0`` (ACTIVATION_RELU_GRAD).

    ``input``, ``input_gradient``: the same type and sizes; float32, float16 or signed integers up to 32 bits.

    >>> dml.activation_relu_grad(np.array([-1, 0, 2], "float32"), np.array([5, 6, 7], "float32")).tolist()
    [0.0, 0.0, 7.0]
    """
    return evaluate_single(_relu_grad, (input, input_gradient), device=device, out=out)


@operand_rules(ALONE)
def _relu_grad(input: TensorDesc, input_gradient: TensorDesc) -> Operator:
    return ActivationReluGrad(
        input_tensor=input, input_gradient_tensor=input_gradient, output_gradient_tensor=packed(input)
    )


@operator_function
def activation_scaled_elu(
    input: Operand,
    *,
    alpha: float = SCALED_ELU_ALPHA,
    gamma: float = SCALED_ELU_GAMMA,
    device: Device | None = None,
    out: Any = None,
) -> Array:
    """``gamma * x if x > 0, else gamma * (alpha * exp(x) - alpha)`` (ACTIVATION_SCALED_ELU).

    ``input``: float32 or float16.

    >>> dml.activation_scaled_elu(np.array([0, 2], "float32"), gamma=1.5).tolist()
    [0.0, 3.0]
    """
    return _activated(ActivationScaledElu, input, (alpha, gamma), device, out)


@operator_function
def activation_scaled_tanh(
    input: Operand, *, alpha: float = 1.0, beta: float = 0.5, device: Device | None = None, out: Any = None
) -> Array:
    """``alpha * tanh(beta * x)`` (ACTIVATION_SCALED_TANH).

    ``input``: float32 or float16.

    >>> dml.activation_scaled_tanh(np.array([-np.inf, 0], "float32"), alpha=3).tolist()
    [-3.0, 0.0]
    """
    return _activated(ActivationScaledTanh, input, (alpha, beta), device, out)


@operator_function
def activation_shrink(
    input: Operand, *, bias: float = 0.0, threshold: float = 0.5, device: Device | None = None, out: Any = None
) -> Array:
    """``x - bias if x > threshold, x + bias if x < -threshold, else 0`` (ACTIVATION_SHRINK).

    ``input``: any type up to 32 bits.

    >>> dml.activation_shrink(np.array([-2, 0.25, 2], "float32"), bias=1).tolist()
    [-1.0, 0.0, 1.0]
    """
    return _activated(ActivationShrink, input, (bias, threshold), device, out)


@operator_function
def activation_sigmoid(input: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``1 / (1 + exp(-x))`` (ACTIVATION_SIGMOID).

    ``input``: float32 or float16.

    >>> dml.activation_sigmoid(np.array([-np.inf, 0], "float32")).tolist()
    [0.0, 0.5]
    """
    return _activated(ActivationSigmoid, input, (), device, out)


@operator_function
def activation_softplus(
    input: Operand, *, steepness: float = 1.0, device: Device | None = None, out: Any = None
) -> Array:
    """``ln(1 + exp(steepness * x)) / steepness`` (ACTIVATION_SOFTPLUS).

    ``input``: float32 or float16.

    >>> dml.activation_softplus(np.array([-np.inf, 100], "float32")).tolist()
    [0.0, 100.0]
    """
    return _activated(ActivationSoftplus, input, (steepness,), device, out)


@operator_function
def activation_softsign(input: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``x / (1 + abs(x))`` (ACTIVATION_SOFTSIGN).

    ``input``: float32 or float16.

    >>> dml.activation_softsign(np.array([-1, 0, 3], "float32")).tolist()
    [-0.5, 0.0, 0.75]
    """
    return _activated(ActivationSoftsign, input, (), device, out)


@operator_function
def activation_swish(
    input: Operand, *, sigmoid_input_scale: float = 1.0, device: Device | None = None, out: Any = None
) -> Array:
    """``x / (1 + exp(-sigmoid_input_scale * x))`` (ACTIVATION_SWISH).

    ``input``: float32 or float16.

    >>> dml.activation_swish(np.array([0, 100], "float32")).tolist()
    [0.0, 100.0]
    """
    return _activated(ActivationSwish, input, (sigmoid_input_scale,), device, out)


@operator_function
def activation_tanh(input: Operand, *, device: Device | None = None, out: Any = None) -> Array:
    """``tanh(x)`` (ACTIVATION_TANH).

    ``input``: float32 or float16.

    >>> dml.activation_tanh(np.array([-np.inf, 0], "float32")).tolist()
    [-1.0, 0.0]
    """
    return _activated(ActivationTanh, input, (), device, out)


@operator_function
def activation_thresholded_relu(
    input: Operand, *, alpha: float = 1.0, device: Device | None = None, out: Any = None
) -> Array:
    """``x if x > alpha, else 0`` (ACTIVATION_THRESHOLDED_RELU).

    ``input``: float32 or float16.

    >>> dml.activation_thresholded_relu(np.array([0.5, 1.5], "float32")).tolist()
    [0.0, 1.5]
    """
    return _activated(ActivationThresholdedRelu, input, (alpha,), device, out)


@operator_function
def activation_softmax(
    input: Operand, *, axes: Sequence[int] | None = None, device: Device | None = None, out: Any = None
) -> Array:
    """``exp(x)`` over its sum along some axes together (ACTIVATION_SOFTMAX1).

    ``input``: float32 or float16. Without ``axes`` the last one. Below level 5_1 only that, and all but the
    last two sizes are 1 (ACTIVATION_SOFTMAX).

    >>> dml.activation_softmax(np.array([[1, 1, -np.inf]], "float32"), axes=[1]).tolist()
    [[0.5, 0.5, 0.0]]
    """
    return evaluate_single(_over_groups, (input,), (integers(axes), ActivationSoftmax1), device=device, out=out)


@operator_function
def activation_log_softmax(
    input: Operand, *, axes: Sequence[int] | None = None, device: Device | None = None, out: Any = None
) -> Array:
    """The natural logarithm of ``activation_softmax``, without loss of precision (ACTIVATION_LOG_SOFTMAX1).

    ``input``: float32 or float16. Without ``axes`` the last one. Below level 5_1 only that, and all but the
    last two sizes are 1 (ACTIVATION_LOG_SOFTMAX).

    >>> dml.activation_log_softmax(np.array([[-1000, 0, -np.inf]], "float32")).tolist()
    [[-1000.0, 0.0, -inf]]
    """
    return evaluate_single(_over_groups, (input,), (integers(axes), ActivationLogSoftmax1), device=device, out=out)


@operator_function
def activation_hardmax(
    input: Operand, *, axes: Sequence[int] | None = None, device: Device | None = None, out: Any = None
) -> Array:
    """1 at the first maximum along some axes together, 0 elsewhere (ACTIVATION_HARDMAX1). NaN exceeds everything.

    ``input``: float32 or float16. Without ``axes`` the last one. Below level 5_1 only that, and all but the
    last two sizes are 1 (ACTIVATION_HARDMAX).

    >>> dml.activation_hardmax(np.array([[1, 3, 3], [2, 0, 1]], "float32")).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    return evaluate_single(_over_groups, (input,), (integers(axes), ActivationHardmax1), device=device, out=out)


@operand_rules(ALONE)
def _over_groups(input: TensorDesc, axes: Any, operator: type[Operator]) -> Operator:
    """The descriptor of an operator that works along some axes together, by default along the last one."""
    last = (input.rank - 1,)
    return operator(input_tensor=input, output_tensor=packed(input), axes=last if axes is None else axes)


def _activated(
    operator: type[Activation], input: Operand, numbers: tuple[float, ...], device: Device | None, out: Any
) -> Array:
    return evaluate_single(_activation, (input,), (operator,), numbers, device=device, out=out)


@operand_rules(ALONE)
def _activation(input: TensorDesc, operator: type[Activation], *numbers: float) -> Operator:
    """The descriptor of an activation whose fields behind the tensors are ``numbers``."""
    names = [name for name in operator.fields if not name.endswith("_tensor")]
    return operator(input_tensor=input, output_tensor=packed(input), **dict(zip(names, numbers, strict=True)))
