"""Activation functions as expressions, for the operators of that name and for those that fuse an activation.

``activate(desc, x)`` applies the activation that a descriptor names to one element. Floating-point elements are F32
(float16 has been widened); those activations whose support tables have integers take them too. The definitions follow
DirectML's formulas literally, one rounding an operation, except where a formula would overflow or cancel on the way to
a representable result; comparisons are IEEE 754's. What that means for NaN and -0 is in the notes of each function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from opendml.definition import converted
from opendml.enums import OperatorType
from opendml.expression import mathematics
from opendml.expression.ir import Expression, select, unary


class ActivationDesc(Protocol):
    """A descriptor of an activation operator: its type and its parameters, named as DirectML's fields in snake_case."""

    @property
    def type(self) -> OperatorType:
        """Which activation it is."""


def activate(desc: ActivationDesc | None, x: Expression) -> Expression:
    """The activation of ``x`` that ``desc`` describes; ``x`` itself if there is none.

    Raises ``KeyError`` for a descriptor that is not an element-wise activation (``desc.type not in ACTIVATIONS``).
    """
    return x if desc is None else ACTIVATIONS[desc.type](desc, x)


def clip(x: Expression, low: Expression | float, high: Expression | float) -> Expression:
    """``max(low, min(x, high))``: ``low`` prevails where it exceeds ``high``, NaN stays, a limit that is NaN is none."""
    below = select(x > high, high, x)
    return select(below < low, low, below)


def _linear(desc: Any, x: Expression) -> Expression:
    return x * desc.alpha + desc.beta


def _hard_sigmoid(desc: Any, x: Expression) -> Expression:
    return clip(x * desc.alpha + desc.beta, 0.0, 1.0)


def _scaled_tanh(desc: Any, x: Expression) -> Expression:
    return mathematics.tanh(x * desc.beta) * desc.alpha


def _relu(desc: Any, x: Expression) -> Expression:
    """NaN and -0 stay as they are."""
    return select(x < 0, 0, x)


def _leaky_relu(desc: Any, x: Expression) -> Expression:
    return select(x >= 0, x, x * desc.alpha)


def _thresholded_relu(desc: Any, x: Expression) -> Expression:
    """0 for NaN, which exceeds nothing."""
    return select(x > desc.alpha, x, 0.0)


def _elu(desc: Any, x: Expression) -> Expression:
    return select(x >= 0, x, mathematics.expm1(x) * desc.alpha)


def _celu(desc: Any, x: Expression) -> Expression:
    """The same as max(0, x) + min(0, alpha * (exp(x / alpha) - 1)) for every alpha but 0, negative ones included."""
    return select(x >= 0, x, mathematics.expm1(x / desc.alpha) * desc.alpha)


def _scaled_elu(desc: Any, x: Expression) -> Expression:
    return select(x > 0, x, mathematics.expm1(x) * desc.alpha) * desc.gamma


def _softplus(desc: Any, x: Expression) -> Expression:
    return mathematics.softplus(x * desc.steepness) / desc.steepness


def _parametric_softplus(desc: Any, x: Expression) -> Expression:
    return mathematics.softplus(x * desc.beta) * desc.alpha


def _softsign(desc: Any, x: Expression) -> Expression:
    """NaN for an infinity, as the formula says."""
    return x / (unary("abs", x) + 1)


def _shrink(desc: Any, x: Expression) -> Expression:
    """0 for NaN. For integers the parameters are converted first, as CLIP's are; sums wrap."""
    bias, threshold = converted(desc.bias, x.type), converted(desc.threshold, x.type)
    beyond = select(x > threshold, x - bias, 0)
    if x.type.kind == "uint":
        return beyond
    return select(x > threshold, x - bias, select(x < -threshold, x + bias, 0))


def _gelu(desc: Any, x: Expression) -> Expression:
    """``x`` times the normal distribution function, with full relative accuracy for negative ``x`` too."""
    tail = mathematics.normal_tail(unary("abs", x))
    return x * select(x < 0, tail, 1 - tail)


def _clip(desc: Any, x: Expression) -> Expression:
    factors = desc.scale_bias
    scaled = x if factors is None else x * factors.scale + factors.bias
    return clip(scaled, converted(desc.min, x.type), converted(desc.max, x.type))


ACTIVATIONS: Final[Mapping[OperatorType, Callable[[Any, Expression], Expression]]] = {
    OperatorType.ACTIVATION_CELU: _celu,
    OperatorType.ACTIVATION_ELU: _elu,
    OperatorType.ACTIVATION_GELU: _gelu,
    OperatorType.ACTIVATION_HARD_SIGMOID: _hard_sigmoid,
    OperatorType.ACTIVATION_IDENTITY: lambda desc, x: x,
    OperatorType.ACTIVATION_LEAKY_RELU: _leaky_relu,
    OperatorType.ACTIVATION_LINEAR: _linear,
    OperatorType.ACTIVATION_PARAMETRIC_SOFTPLUS: _parametric_softplus,
    OperatorType.ACTIVATION_RELU: _relu,
    OperatorType.ACTIVATION_SCALED_ELU: _scaled_elu,
    OperatorType.ACTIVATION_SCALED_TANH: _scaled_tanh,
    OperatorType.ACTIVATION_SHRINK: _shrink,
    OperatorType.ACTIVATION_SIGMOID: lambda desc, x: mathematics.sigmoid(x),
    OperatorType.ACTIVATION_SOFTPLUS: _softplus,
    OperatorType.ACTIVATION_SOFTSIGN: _softsign,
    OperatorType.ACTIVATION_TANH: lambda desc, x: mathematics.tanh(x),
    OperatorType.ACTIVATION_THRESHOLDED_RELU: _thresholded_relu,
    OperatorType.ELEMENT_WISE_CLIP: _clip,
}
