"""Activation functions. Without their tensors they are fused into other operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from opendml.description.data_types import FLOATS, FLOATS_AND_SIGNED, UP_TO_32_BIT
from opendml.description.descriptors import (
    Operator,
    at,
    count_of,
    float_value,
    levels,
    tensor_input,
    tensor_output,
    uint_array,
)
from opendml.description.enums import FeatureLevel, OperatorType
from opendml.expression.ir import Expression, Tensor, cast, load, select
from opendml.expression.reductions import Reduction, reduction
from opendml.expression.statements import Definition
from opendml.operators.activation_functions import activate, hardmax, log_softmax, parameterized_relu, softmax
from opendml.operators.definition import every_element, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Integers, Number, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


def _from_levels(levels: dict[str, str]) -> dict[OperatorType, FeatureLevel]:
    return {OperatorType[name]: FeatureLevel.parse(level) for level, names in levels.items() for name in names.split()}


# The operators that can be a FusedActivation, and the feature level from which on they can.
FUSABLE: Final = _from_levels(
    {
        "1_0": """
            ACTIVATION_ELU ACTIVATION_HARD_SIGMOID ACTIVATION_IDENTITY ACTIVATION_LEAKY_RELU ACTIVATION_LINEAR
            ACTIVATION_PARAMETRIC_SOFTPLUS ACTIVATION_RELU ACTIVATION_SCALED_ELU ACTIVATION_SCALED_TANH
            ACTIVATION_SIGMOID ACTIVATION_SOFTPLUS ACTIVATION_SOFTSIGN ACTIVATION_TANH ACTIVATION_THRESHOLDED_RELU
        """,
        "2_0": "ACTIVATION_SHRINK",
        "3_0": "ACTIVATION_CELU",
        "5_1": "ACTIVATION_GELU",
    }
)
FUSABLE_WITH_CLIP: Final = FUSABLE | _from_levels({"6_0": "ELEMENT_WISE_CLIP"})
FUSABLE_WITH_HARDMAX: Final = FUSABLE | _from_levels({"1_0": "ACTIVATION_HARDMAX"})
FUSABLE_WITH_SOFTMAX: Final = FUSABLE_WITH_CLIP | _from_levels({"6_1": "ACTIVATION_SOFTMAX ACTIVATION_SOFTMAX1"})


class Activation(Operator):
    """What the activations share: an input and an output alike, both absent in a fused activation."""

    input_tensor: Value[TensorDesc] = tensor_input(default=None, optional=False)
    output_tensor: Value[TensorDesc] = tensor_output(default=None, optional=False)

    in_place = True
    support = levels(
        at("3_0", (1, 8), FLOATS),
        at("2_0", (4, 5), FLOATS),
        at("1_0", (4, 4), FLOATS),
    )

    def check(self, rules: Rules) -> None:
        """Two tensors alike."""
        _check_alike(rules)

    def define(self) -> Definition:
        """The activation of every element, rounded once to float16."""
        source = tensor("InputTensor", self.input_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        statement = every_element(target, lambda i: cast(activate(self, widen(load(source, i))), target.type))
        return Definition((source,), (target,), (statement,))


class _OverGroups(Activation):
    """What the activations share in which groups of elements depend on each other."""

    in_place = False

    def group_axes(self) -> tuple[int, ...]:
        """The axes along which elements are in one group."""
        return (len(self.input_tensor.sizes) - 1,)

    def of_groups(self, store: Callable[[Reduction, Tensor], None]) -> Definition:
        """The definition whose statements ``store`` adds to a reduction over the groups."""
        output = tensor("OutputTensor", self.output_tensor, "output")
        work = reduction(tensor("InputTensor", self.input_tensor, "input"), self.group_axes())
        store(work, output)
        return Definition((work.source,), (output,), tuple(work.statements), tuple(work.temporaries))


class _OverRows(_OverGroups):
    """Every row of a matrix is a group."""

    def check(self, rules: Rules) -> None:
        """A matrix, with leading dimensions of size 1 at most."""
        super().check(rules)
        for i in range((rules.rank("input_tensor") or 0) - 2):
            rules.size_is("input_tensor", i, 1, why="as in all but the last two dimensions")


class _OverAxes(_OverGroups):
    """All elements along some axes are a group."""

    axis_count: Count = count_of("axes", default=None)
    axes: Integers = uint_array(count="axis_count")

    support = levels(at("5_1", (1, 8), FLOATS))

    def check(self, rules: Rules) -> None:
        """The axes are dimensions of the input."""
        super().check(rules)
        rules.axes_in_range("axes", "input_tensor", least=1)

    def group_axes(self) -> tuple[int, ...]:
        """The axes given."""
        return self.axes


class ActivationElu(Activation, type=OperatorType.ACTIVATION_ELU, since="1_0"):
    """Exponential linear unit: x if x >= 0, else alpha * (exp(x) - 1)."""

    alpha: Number = float_value()


class ActivationCelu(Activation, type=OperatorType.ACTIVATION_CELU, since="3_0"):
    """Continuously differentiable exponential linear unit: max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    alpha: Number = float_value()

    support = levels(at("3_0", (1, 8), FLOATS))


class ActivationGelu(Activation, type=OperatorType.ACTIVATION_GELU, since="5_1"):
    """Gaussian error linear unit: 0.5 * x * (1 + erf(x / sqrt(2)))."""

    support = levels(at("5_1", (1, 8), FLOATS))


class ActivationHardSigmoid(Activation, type=OperatorType.ACTIVATION_HARD_SIGMOID, since="1_0"):
    """Clamped linear approximation of the sigmoid: max(0, min(alpha * x + beta, 1))."""

    alpha: Number = float_value()
    beta: Number = float_value()


class ActivationHardSwish(Activation, type=OperatorType.ACTIVATION_HARD_SWISH, since="6_2"):
    """The input times its hard sigmoid: x * max(0, min(alpha * x + beta, 1))."""

    alpha: Number = float_value()
    beta: Number = float_value()

    in_place = False
    support = levels(at("6_2", (1, 8), FLOATS))


class ActivationHardmax(_OverRows, type=OperatorType.ACTIVATION_HARDMAX, since="1_0"):
    """1 at the first maximum of every row of a matrix, 0 elsewhere."""

    def define(self) -> Definition:
        """The position of the maximum, then its comparison with all positions."""
        return self.of_groups(hardmax)


class ActivationHardmax1(_OverAxes, type=OperatorType.ACTIVATION_HARDMAX1, since="5_1"):
    """1 at the first maximum along a chosen set of axes, all of them jointly, 0 elsewhere."""

    def define(self) -> Definition:
        """The position of the maximum, then its comparison with all positions."""
        return self.of_groups(hardmax)


class ActivationIdentity(Activation, type=OperatorType.ACTIVATION_IDENTITY, since="1_0"):
    """x."""


class ActivationLeakyRelu(Activation, type=OperatorType.ACTIVATION_LEAKY_RELU, since="1_0"):
    """Rectified linear unit with a slope for negative inputs: x if x >= 0, else alpha * x."""

    alpha: Number = float_value()


class ActivationLinear(Activation, type=OperatorType.ACTIVATION_LINEAR, since="1_0"):
    """Linear function: alpha * x + beta."""

    alpha: Number = float_value()
    beta: Number = float_value()


class ActivationLogSoftmax(_OverRows, type=OperatorType.ACTIVATION_LOG_SOFTMAX, since="1_0"):
    """The natural logarithm of the softmax over the last dimension of a matrix."""

    def define(self) -> Definition:
        """The elements less the logarithm of the sum of exponentials."""
        return self.of_groups(log_softmax)


class ActivationLogSoftmax1(_OverAxes, type=OperatorType.ACTIVATION_LOG_SOFTMAX1, since="5_1"):
    """The natural logarithm of the softmax over a chosen set of axes, all of them jointly."""

    def define(self) -> Definition:
        """The elements less the logarithm of the sum of exponentials."""
        return self.of_groups(log_softmax)


class ActivationParameterizedRelu(Operator, type=OperatorType.ACTIVATION_PARAMETERIZED_RELU, since="1_0"):
    """Rectified linear unit with a slope of its own for every element: x if x >= 0, else slope * x."""

    input_tensor: Value[TensorDesc] = tensor_input()
    slope_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()

    in_place = True
    support = levels(
        at("5_1", (1, 8), FLOATS_AND_SIGNED),
        at("3_0", (1, 8), FLOATS),
        at("2_0", (4, 5), FLOATS),
        at("1_0", (4, 4), FLOATS),
    )

    def check(self, rules: Rules) -> None:
        """Three tensors alike."""
        _check_alike(rules)

    def define(self) -> Definition:
        """The activation of every element, rounded once to float16; integers wrap."""
        return _of_two(self, lambda x, slope: parameterized_relu(widen(x), widen(slope)))


class ActivationParametricSoftplus(Activation, type=OperatorType.ACTIVATION_PARAMETRIC_SOFTPLUS, since="1_0"):
    """Parametric softplus: alpha * ln(1 + exp(beta * x))."""

    alpha: Number = float_value()
    beta: Number = float_value()


class ActivationRelu(Activation, type=OperatorType.ACTIVATION_RELU, since="1_0"):
    """Rectified linear unit: max(0, x)."""

    support = levels(
        at("5_1", (1, 8), FLOATS_AND_SIGNED),
        at("3_0", (1, 8), FLOATS),
        at("2_0", (4, 5), FLOATS),
        at("1_0", (4, 4), FLOATS),
    )


class ActivationReluGrad(Operator, type=OperatorType.ACTIVATION_RELU_GRAD, since="3_0"):
    """The gradient of the rectified linear unit: that of its output where its input x > 0, else 0."""

    input_tensor: Value[TensorDesc] = tensor_input()
    input_gradient_tensor: Value[TensorDesc] = tensor_input()
    output_gradient_tensor: Value[TensorDesc] = tensor_output()

    support = levels(at("5_1", (1, 8), FLOATS_AND_SIGNED), at("4_0", (1, 8), FLOATS), at("3_0", (1, 8), FLOATS))

    def check(self, rules: Rules) -> None:
        """Three tensors alike."""
        _check_alike(rules)

    def define(self) -> Definition:
        """The gradient is copied bit for bit."""
        return _of_two(self, lambda x, gradient: select(widen(x) > 0, gradient, 0))


class ActivationScaledElu(Activation, type=OperatorType.ACTIVATION_SCALED_ELU, since="1_0"):
    """Scaled exponential linear unit: gamma * x if x > 0, else gamma * (alpha * exp(x) - alpha)."""

    alpha: Number = float_value()
    gamma: Number = float_value()


class ActivationScaledTanh(Activation, type=OperatorType.ACTIVATION_SCALED_TANH, since="1_0"):
    """Scaled hyperbolic tangent: alpha * tanh(beta * x)."""

    alpha: Number = float_value()
    beta: Number = float_value()


class ActivationShrink(Activation, type=OperatorType.ACTIVATION_SHRINK, since="2_0"):
    """Shrink: x - bias if x > threshold, x + bias if x < -threshold, else 0."""

    bias: Number = float_value()
    threshold: Number = float_value()

    support = levels(
        at("5_1", (1, 8), UP_TO_32_BIT),
        at("3_0", (1, 8), FLOATS),
        at("2_0", (4, 5), FLOATS),
    )


class ActivationSigmoid(Activation, type=OperatorType.ACTIVATION_SIGMOID, since="1_0"):
    """Logistic sigmoid: 1 / (1 + exp(-x))."""


class ActivationSoftmax(_OverRows, type=OperatorType.ACTIVATION_SOFTMAX, since="1_0"):
    """Softmax over the last dimension of a matrix: exp(x) / sum of exp(x) of the row."""

    def define(self) -> Definition:
        """Shares of the sum of exponentials."""
        return self.of_groups(softmax)


class ActivationSoftmax1(_OverAxes, type=OperatorType.ACTIVATION_SOFTMAX1, since="5_1"):
    """Softmax over a chosen set of axes, all of them jointly."""

    def define(self) -> Definition:
        """Shares of the sum of exponentials."""
        return self.of_groups(softmax)


class ActivationSoftplus(Activation, type=OperatorType.ACTIVATION_SOFTPLUS, since="1_0"):
    """Softplus: ln(1 + exp(steepness * x)) / steepness."""

    steepness: Number = float_value()

    def check(self, rules: Rules) -> None:
        """Steepness was restricted until 6_4."""
        super().check(rules)
        if rules.ready("steepness") and rules.level < FeatureLevel.LEVEL_6_4:
            must = f"must be at least 1 at feature level {rules.level}"
            allowed_at = FeatureLevel.LEVEL_6_4
            rules.require(self.steepness >= 1, "steepness", must, self.steepness, allowed_at=allowed_at)


class ActivationSoftsign(Activation, type=OperatorType.ACTIVATION_SOFTSIGN, since="1_0"):
    """Softsign: x / (1 + |x|)."""


class ActivationSwish(Activation, type=OperatorType.ACTIVATION_SWISH, since="6_2"):
    """The input times the sigmoid of a multiple of it: x / (1 + exp(-sigmoid_input_scale * x))."""

    sigmoid_input_scale: Number = float_value()

    in_place = False
    support = levels(at("6_2", (1, 8), FLOATS))


class ActivationTanh(Activation, type=OperatorType.ACTIVATION_TANH, since="1_0"):
    """Hyperbolic tangent."""


class ActivationThresholdedRelu(Activation, type=OperatorType.ACTIVATION_THRESHOLDED_RELU, since="1_0"):
    """Rectified linear unit with a threshold: x if x > alpha, else 0."""

    alpha: Number = float_value()


def _check_alike(rules: Rules) -> None:
    tensors = [name for name, field in rules.desc.fields.items() if hasattr(field, "direction")]
    rules.same_data_type(*tensors)
    rules.same_rank(*tensors)
    rules.same_sizes(*tensors)


def _of_two(desc: Operator, function: Callable[[Expression, Expression], Expression]) -> Definition:
    """Every element of the output from those of two inputs."""
    first, second = (tensor(name, desc, "input") for name, desc in desc.inputs() if desc is not None)
    (target,) = (tensor(name, desc, "output") for name, desc in desc.outputs() if desc is not None)
    statement = every_element(target, lambda i: cast(function(load(first, i), load(second, i)), target.type))
    return Definition((first, second), (target,), (statement,))
