"""Activation functions as expressions, for the operators of that name and for those that fuse an activation.

``activate(desc, x)`` applies the activation that a descriptor names to one element. Floating-point elements are F32
(float16 has been widened); those activations whose support tables have integers take them too. The definitions follow
DirectML's formulas literally, one rounding an operation, except where a formula would overflow or cancel on the way to
a representable result; comparisons are IEEE 754's. What that means for NaN and -0 is in the notes of each function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from opendml.description.enums import OperatorType
from opendml.expression import mathematics
from opendml.expression.floating_point import right_for_float16
from opendml.expression.folds import lowest, maximum
from opendml.expression.ir import Expression, Tensor, select, unary
from opendml.expression.reductions import Reduction, extreme_and_position, one_value
from opendml.operators.definition import converted, widen
from opendml.operators.groups import Groups, Place


class ActivationDesc(Protocol):
    """A descriptor of an activation operator: its type and its parameters, named as DirectML's fields in snake_case."""

    @property
    def type(self) -> OperatorType:
        """Which activation it is."""


def activate(desc: ActivationDesc | None, x: Expression) -> Expression:
    """The activation of ``x`` that ``desc`` describes; ``x`` itself if there is none.

    Raises ``KeyError`` for a descriptor that is not an element-wise activation (``desc.type not in ACTIVATIONS``).
    """
    if desc is None:
        return x
    function, fields = ACTIVATIONS[desc.type]
    return function(x, *(getattr(desc, name) for name in fields))


def clip(x: Expression, low: Expression | float, high: Expression | float) -> Expression:
    """``max(low, min(x, high))``: ``low`` prevails over ``high``, NaN stays, a limit that is NaN is none."""
    below = select(x > high, high, x)
    return select(below < low, low, below)


def softmax(work: Reduction, output: Tensor) -> None:
    """Adds to ``work`` the statements that store ``exp(x) / sum of exp(x)`` of every group in ``output``.

    The maximum of the group is subtracted first, which changes nothing but the range, unless it is infinite: then the
    formula is taken as it stands (infinities give NaN, the numbers beside them 0).
    """
    groups = Groups(work, output)
    shifted = _shifted(groups)
    share = groups.total("share", lambda x, place: mathematics.exp(shifted(x, place)), lambda total: 1 / total)
    groups.store(lambda x, place: mathematics.exp(shifted(x, place)) * share(place))


def log_softmax(work: Reduction, output: Tensor) -> None:
    """As ``softmax``, for the natural logarithm of it: ``(x - maximum) - log(sum of exp(x - maximum))``."""
    groups = Groups(work, output)
    shifted = _shifted(groups)
    logarithm = groups.total("logarithm", lambda x, place: mathematics.exp(shifted(x, place)), mathematics.log)
    groups.store(lambda x, place: shifted(x, place) - logarithm(place))


def hardmax(work: Reduction, output: Tensor) -> None:
    """As ``softmax``, for 1 at the first NaN or else the first maximum of the group and 0 elsewhere."""
    groups = Groups(work, output)
    first = groups.reduced("position", extreme_and_position("gt", groups.type, widen), part=1)
    groups.store(lambda x, place: select(first(place).equals(work.position(place)), 1, 0, groups.type))


def _shifted(groups: Groups) -> Callable[[Expression, Place], Expression]:
    """The elements less the maximum of their group, if that is finite."""
    reducer = one_value(maximum, lowest(groups.type), lambda value, point: widen(value))
    largest = groups.reduced("maximum", reducer, lambda value: select(unary("abs", value) < float("inf"), value, 0))
    return lambda x, place: x - largest(place)


def parameterized_relu(x: Expression, slope: Expression) -> Expression:
    """``x`` if it is not negative, else ``slope * x``; integers wrap, NaN stays."""
    return select(x >= 0, x, slope * x)


def _linear(x: Expression, alpha: float, beta: float) -> Expression:
    return x * alpha + beta


def _hard_sigmoid(x: Expression, alpha: float, beta: float) -> Expression:
    return clip(x * alpha + beta, 0.0, 1.0)


def _times(x: Expression, factor: float) -> Expression:
    """``x * factor``. ``x`` itself for 1: the functions know float16 numbers, widened, and round them rightly."""
    return x if factor == 1 else x * factor


def _over(x: Expression, divisor: float) -> Expression:
    """``x / divisor``; ``x`` itself for 1."""
    return x if divisor == 1 else x / divisor


def _swish(x: Expression, scale: float) -> Expression:
    """NaN where the formula is an infinity times 0."""
    result = x * mathematics.sigmoid(_times(x, scale))
    return right_for_float16(x, x, result, _FLOAT16_SWISH) if scale == 1 else result


def _hard_swish(x: Expression, alpha: float, beta: float) -> Expression:
    return x * _hard_sigmoid(x, alpha, beta)


def _scaled_tanh(x: Expression, alpha: float, beta: float) -> Expression:
    return _times(mathematics.tanh(_times(x, beta)), alpha)


def _relu(x: Expression) -> Expression:
    """NaN and -0 stay as they are."""
    return select(x < 0, 0, x)


def _leaky_relu(x: Expression, alpha: float) -> Expression:
    return select(x >= 0, x, x * alpha)


def _thresholded_relu(x: Expression, alpha: float) -> Expression:
    """0 for NaN, which exceeds nothing."""
    return select(x > alpha, x, 0)


def _elu(x: Expression, alpha: float) -> Expression:
    return select(x >= 0, x, _times(mathematics.expm1(x), alpha))


def _celu(x: Expression, alpha: float) -> Expression:
    """The same as ``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`` for positive and for negative ``alpha``."""
    return select(x >= 0, x, _times(mathematics.expm1(_over(x, alpha)), alpha))


def _scaled_elu(x: Expression, alpha: float, gamma: float) -> Expression:
    return select(x > 0, x, mathematics.expm1(x) * alpha) * gamma


def _softplus(x: Expression, steepness: float) -> Expression:
    return _over(mathematics.softplus(_times(x, steepness)), steepness)


def _parametric_softplus(x: Expression, alpha: float, beta: float) -> Expression:
    return _times(mathematics.softplus(_times(x, beta)), alpha)


def _softsign(x: Expression) -> Expression:
    """NaN for an infinity, as the formula says."""
    return x / (unary("abs", x) + 1)


def _shrink(x: Expression, bias: float, threshold: float) -> Expression:
    """0 for NaN. For integers the parameters are converted first, as CLIP's are; the sums wrap."""
    amount = converted(bias, x.type)
    below = select(x < converted(-threshold, x.type), x + amount, 0)
    return select(x > converted(threshold, x.type), x - amount, below)


def _clip(x: Expression, scale_bias: _ScaleBias | None, low: float, high: float) -> Expression:
    scaled = x if scale_bias is None else x * scale_bias.scale + scale_bias.bias
    return clip(scaled, converted(low, x.type), converted(high, x.type))


class _ScaleBias(Protocol):
    """DML_SCALE_BIAS."""

    @property
    def scale(self) -> float: ...
    @property
    def bias(self) -> float: ...


class _Activation(NamedTuple):
    """A function of an element and of the fields of its descriptor that are named."""

    function: Callable[..., Expression]
    fields: tuple[str, ...] = ()


_FLOAT16_SWISH: Final = ((2.0**-24, 2.0**-24),)
"""Where float32 is midway between float16 numbers, and the exact result is not."""

ACTIVATIONS: Final[Mapping[OperatorType, _Activation]] = {
    OperatorType.ACTIVATION_CELU: _Activation(_celu, ("alpha",)),
    OperatorType.ACTIVATION_ELU: _Activation(_elu, ("alpha",)),
    OperatorType.ACTIVATION_GELU: _Activation(mathematics.gelu),
    OperatorType.ACTIVATION_HARD_SIGMOID: _Activation(_hard_sigmoid, ("alpha", "beta")),
    OperatorType.ACTIVATION_HARD_SWISH: _Activation(_hard_swish, ("alpha", "beta")),
    OperatorType.ACTIVATION_IDENTITY: _Activation(lambda x: x),
    OperatorType.ACTIVATION_LEAKY_RELU: _Activation(_leaky_relu, ("alpha",)),
    OperatorType.ACTIVATION_LINEAR: _Activation(_linear, ("alpha", "beta")),
    OperatorType.ACTIVATION_PARAMETRIC_SOFTPLUS: _Activation(_parametric_softplus, ("alpha", "beta")),
    OperatorType.ACTIVATION_RELU: _Activation(_relu),
    OperatorType.ACTIVATION_SCALED_ELU: _Activation(_scaled_elu, ("alpha", "gamma")),
    OperatorType.ACTIVATION_SCALED_TANH: _Activation(_scaled_tanh, ("alpha", "beta")),
    OperatorType.ACTIVATION_SHRINK: _Activation(_shrink, ("bias", "threshold")),
    OperatorType.ACTIVATION_SIGMOID: _Activation(mathematics.sigmoid),
    OperatorType.ACTIVATION_SOFTPLUS: _Activation(_softplus, ("steepness",)),
    OperatorType.ACTIVATION_SOFTSIGN: _Activation(_softsign),
    OperatorType.ACTIVATION_SWISH: _Activation(_swish, ("sigmoid_input_scale",)),
    OperatorType.ACTIVATION_TANH: _Activation(mathematics.tanh),
    OperatorType.ACTIVATION_THRESHOLDED_RELU: _Activation(_thresholded_relu, ("alpha",)),
    OperatorType.ELEMENT_WISE_CLIP: _Activation(_clip, ("scale_bias", "min", "max")),
}
"""The activations of one element each; SOFTMAX, LOG_SOFTMAX, HARDMAX and their versions have functions of their own."""
