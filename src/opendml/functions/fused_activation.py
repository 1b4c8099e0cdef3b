"""Activations to fuse into an operator: ``dml.add(a, b, fused_activation=dml.fused_activation.relu())``.

Each function returns the activation's descriptor without tensors, with DirectMLX's defaults. ``clip`` can be fused into
convolutions and GEMM, ``softmax`` into GEMM only, ``hardmax`` into recurrent networks only.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from opendml.description.structs import ScaleBias
from opendml.functions.signatures import operator_function
from opendml.operators.activation import (
    ActivationCelu,
    ActivationElu,
    ActivationGelu,
    ActivationHardmax,
    ActivationHardSigmoid,
    ActivationIdentity,
    ActivationLeakyRelu,
    ActivationLinear,
    ActivationParametricSoftplus,
    ActivationRelu,
    ActivationScaledElu,
    ActivationScaledTanh,
    ActivationShrink,
    ActivationSigmoid,
    ActivationSoftmax,
    ActivationSoftmax1,
    ActivationSoftplus,
    ActivationSoftsign,
    ActivationTanh,
    ActivationThresholdedRelu,
)
from opendml.operators.element_wise import ElementWiseClip

# The float32 neighbours of the constants of self-normalising networks (Klambauer et al., 2017), as DirectMLX has them.
SCALED_ELU_ALPHA: Final = 1.67326319217681884765625
SCALED_ELU_GAMMA: Final = 1.05070102214813232421875


@operator_function
def elu(*, alpha: float = 1.0) -> ActivationElu:
    """``x if x >= 0, else alpha * (exp(x) - 1)`` (ACTIVATION_ELU)."""
    return ActivationElu(alpha=alpha)


@operator_function
def celu(*, alpha: float = 1.0) -> ActivationCelu:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`` (ACTIVATION_CELU)."""
    return ActivationCelu(alpha=alpha)


@operator_function
@functools.cache
def gelu() -> ActivationGelu:
    """``0.5 * x * (1 + erf(x / sqrt(2)))`` (ACTIVATION_GELU)."""
    return ActivationGelu()


@operator_function
def hard_sigmoid(*, alpha: float = 0.2, beta: float = 0.5) -> ActivationHardSigmoid:
    """``max(0, min(alpha * x + beta, 1))`` (ACTIVATION_HARD_SIGMOID)."""
    return ActivationHardSigmoid(alpha=alpha, beta=beta)


@operator_function
@functools.cache
def hardmax() -> ActivationHardmax:
    """1 at the first maximum of a step's units, 0 elsewhere (ACTIVATION_HARDMAX)."""
    return ActivationHardmax()


@operator_function
@functools.cache
def identity() -> ActivationIdentity:
    """``x`` (ACTIVATION_IDENTITY)."""
    return ActivationIdentity()


@operator_function
def leaky_relu(*, alpha: float = 0.01) -> ActivationLeakyRelu:
    """``x if x >= 0, else alpha * x`` (ACTIVATION_LEAKY_RELU)."""
    return ActivationLeakyRelu(alpha=alpha)


@operator_function
def linear(*, alpha: float, beta: float) -> ActivationLinear:
    """``alpha * x + beta`` (ACTIVATION_LINEAR)."""
    return ActivationLinear(alpha=alpha, beta=beta)


@operator_function
def parametric_softplus(*, alpha: float, beta: float) -> ActivationParametricSoftplus:
    """``alpha * ln(1 + exp(beta * x))`` (ACTIVATION_PARAMETRIC_SOFTPLUS)."""
    return ActivationParametricSoftplus(alpha=alpha, beta=beta)


@operator_function
@functools.cache
def relu() -> ActivationRelu:
    """``max(0, x)`` (ACTIVATION_RELU)."""
    return ActivationRelu()


@operator_function
def scaled_elu(*, alpha: float = SCALED_ELU_ALPHA, gamma: float = SCALED_ELU_GAMMA) -> ActivationScaledElu:
    """``gamma * x if x > 0, else gamma * (alpha * exp(x) - alpha)`` (ACTIVATION_SCALED_ELU)."""
    return ActivationScaledElu(alpha=alpha, gamma=gamma)


@operator_function
def scaled_tanh(*, alpha: float = 1.0, beta: float = 0.5) -> ActivationScaledTanh:
    """``alpha * tanh(beta * x)`` (ACTIVATION_SCALED_TANH)."""
    return ActivationScaledTanh(alpha=alpha, beta=beta)


@operator_function
def shrink(*, bias: float = 0.0, threshold: float = 0.5) -> ActivationShrink:
    """``x - bias if x > threshold, x + bias if x < -threshold, else 0`` (ACTIVATION_SHRINK)."""
    return ActivationShrink(bias=bias, threshold=threshold)


@operator_function
@functools.cache
def sigmoid() -> ActivationSigmoid:
    """``1 / (1 + exp(-x))`` (ACTIVATION_SIGMOID)."""
    return ActivationSigmoid()


@operator_function
def softplus(*, steepness: float = 1.0) -> ActivationSoftplus:
    """``ln(1 + exp(steepness * x)) / steepness`` (ACTIVATION_SOFTPLUS)."""
    return ActivationSoftplus(steepness=steepness)


@operator_function
@functools.cache
def softsign() -> ActivationSoftsign:
    """``x / (1 + abs(x))`` (ACTIVATION_SOFTSIGN)."""
    return ActivationSoftsign()


@operator_function
@functools.cache
def tanh() -> ActivationTanh:
    """``tanh(x)`` (ACTIVATION_TANH)."""
    return ActivationTanh()


@operator_function
def thresholded_relu(*, alpha: float = 1.0) -> ActivationThresholdedRelu:
    """``x if x > alpha, else 0`` (ACTIVATION_THRESHOLDED_RELU)."""
    return ActivationThresholdedRelu(alpha=alpha)


@operator_function
def softmax(*, axes: Sequence[int] | None = None) -> ActivationSoftmax | ActivationSoftmax1:
    """``exp(x)`` over its sum along the last axis (ACTIVATION_SOFTMAX), or along ``axes`` (ACTIVATION_SOFTMAX1)."""
    return ActivationSoftmax() if axes is None else ActivationSoftmax1(axes=tuple(axes))


@operator_function
def clip(min: float, max: float, *, scale_bias: ScaleBias | tuple[float, float] | None = None) -> ElementWiseClip:
    """``x``, or ``x * scale + bias``, limited to [min, max] (ELEMENT_WISE_CLIP)."""
    return ElementWiseClip(min=min, max=max, scale_bias=None if scale_bias is None else ScaleBias(*scale_bias))
