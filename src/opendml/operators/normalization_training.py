"""Normalisations in training: BATCH_NORMALIZATION_TRAINING, gradients of batch and local response normalisation.

Everything is computed in float32, one rounding an operation; sums have the order of REDUCE. Divisions by a deviation
are multiplications by its reciprocal, computed once a group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from opendml.description.data_types import FLOATS
from opendml.description.descriptors import (
    Operator,
    at,
    boolean,
    float_value,
    levels,
    operator_desc,
    tensor_input,
    tensor_output,
    uint,
)
from opendml.description.enums import FeatureLevel, OperatorType
from opendml.expression.ir import Expression, Tensor, cast, grid, indices, load, temporary, unary
from opendml.expression.mathematics import square
from opendml.expression.reductions import reduction
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.activation import FUSABLE
from opendml.operators.activation_functions import activate
from opendml.operators.definition import computation_type, every_element, optional_tensor, tensor, widen
from opendml.operators.groups import Groups, GroupValue, Place
from opendml.operators.normalization import (
    broadcast,
    check_broadcast,
    inverse_deviation,
    power,
    response_windows,
    windowed_sum,
)

if TYPE_CHECKING:
    from opendml.description.field_types import Integer, Number, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

_ANY_LEVEL = FeatureLevel.LEVEL_1_0


class BatchNormalizationTraining(Operator, type=OperatorType.BATCH_NORMALIZATION_TRAINING, since="4_1"):
    """Normalises by mean and variance of the input, then scales, shifts and optionally adds and applies an activation.

    ``output = activation(scale * ((input - mean) / sqrt(variance + epsilon)) + bias + fused_add)``. The statistics are
    those along the dimensions in which ``scale_tensor`` has size 1, the variance that of the population, and are
    outputs, too.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    scale_tensor: Value[TensorDesc] = tensor_input()
    bias_tensor: Value[TensorDesc] = tensor_input()
    fused_add_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()
    output_mean_tensor: Value[TensorDesc] = tensor_output()
    output_variance_tensor: Value[TensorDesc] = tensor_output()
    epsilon: Number = float_value()
    fused_activation: Value[Operator | None] = operator_desc(FUSABLE, default=None)

    support = levels(at("4_1", (1, 8), FLOATS))

    def check(self, rules: Rules) -> None:
        """Images alike, and statistics alike, which broadcast."""
        images = ("input_tensor", "fused_add_tensor", "output_tensor")
        statistics = ("scale_tensor", "bias_tensor", "output_mean_tensor", "output_variance_tensor")
        _check_images_and_statistics(rules, images, statistics)

    def define(self) -> Definition:
        """The mean, then the mean of squared deviations from it, then every element."""
        scale = tensor("ScaleTensor", self.scale_tensor, "input")
        bias = tensor("BiasTensor", self.bias_tensor, "input")
        added = optional_tensor("FusedAddTensor", self.fused_add_tensor, "input")
        output = tensor("OutputTensor", self.output_tensor, "output")
        output_mean = tensor("OutputMeanTensor", self.output_mean_tensor, "output")
        output_variance = tensor("OutputVarianceTensor", self.output_variance_tensor, "output")
        axes = _reduced_axes(scale)
        work = reduction(tensor("InputTensor", self.input_tensor, "input"), axes)
        groups = Groups(work, output, keeps_values=True)
        count = math.prod(output.sizes[axis] for axis in axes)
        mean, variance = groups.moments("variance", lambda squares: squares / count)
        inverse = groups.derived(
            "inverse_deviation", lambda values, place: 1 / unary("sqrt", values[0] + self.epsilon), variance
        )

        def normalized(x: Expression, place: Place) -> Expression:
            value = broadcast(scale, place) * ((x - mean(place)) * inverse(place)) + broadcast(bias, place)
            value = value if added is None else value + widen(load(added, place))
            return activate(self.fused_activation, value)

        groups.store(normalized)
        groups.keep(mean, output_mean)
        groups.keep(variance, output_variance)
        outputs = (output, output_mean, output_variance)
        return Definition((work.source, scale, bias, added), outputs, tuple(work.statements), tuple(work.temporaries))


class _BatchNormalizationGradient(Operator):
    """What the gradients of batch normalisation share: all but that of the input."""

    input_tensor: Value[TensorDesc] = tensor_input()
    input_gradient_tensor: Value[TensorDesc] = tensor_input()
    mean_tensor: Value[TensorDesc] = tensor_input()
    variance_tensor: Value[TensorDesc] = tensor_input()
    scale_tensor: Value[TensorDesc] = tensor_input()
    output_gradient_tensor: Value[TensorDesc] = tensor_output()
    output_scale_gradient_tensor: Value[TensorDesc] = tensor_output()
    output_bias_gradient_tensor: Value[TensorDesc] = tensor_output()

    # Every version has it behind the tensors.
    epsilon: float

    def check(self, rules: Rules) -> None:
        """Images alike, and statistics alike, which broadcast."""
        images = ("input_tensor", "input_gradient_tensor", "output_gradient_tensor")
        gradients = ("output_scale_gradient_tensor", "output_bias_gradient_tensor")
        _check_images_and_statistics(rules, images, ("mean_tensor", "variance_tensor", "scale_tensor", *gradients))

    def define(self) -> Definition:
        """The sums of every group, then the gradient of every element."""
        mean, variance, scale = (
            tensor(name, desc, "input")
            for name, desc in (
                ("MeanTensor", self.mean_tensor),
                ("VarianceTensor", self.variance_tensor),
                ("ScaleTensor", self.scale_tensor),
            )
        )
        gradient = tensor("OutputGradientTensor", self.output_gradient_tensor, "output")
        scale_gradient = tensor("OutputScaleGradientTensor", self.output_scale_gradient_tensor, "output")
        bias_gradient = tensor("OutputBiasGradientTensor", self.output_bias_gradient_tensor, "output")
        work = reduction(
            tensor("InputTensor", self.input_tensor, "input"),
            _reduced_axes(mean),
            [tensor("InputGradientTensor", self.input_gradient_tensor, "input")],
        )
        inverse = inverse_deviation(variance, self.epsilon)
        groups = Groups(work, gradient, keeps_values=True)
        total, products, *others = groups.totals(
            ("gradients", "products", *self._OTHER_SUMS),
            lambda x, beside, place: self._terms(beside[0], x - broadcast(mean, place)),
        )
        factor = temporary("factor", computation_type(scale.type), scale.sizes)
        work.temporaries.append(factor)
        work.statements.append(every_element(factor, lambda place: broadcast(scale, place) * inverse(place)))
        self._store_gradient(groups, (total, products, *others), factor, mean, variance)
        groups.keep(products, scale_gradient, lambda value, place: value * inverse(place))
        groups.keep(total, bias_gradient)
        inputs = (work.source, *work.beside, mean, variance, scale)
        outputs = (gradient, scale_gradient, bias_gradient)
        return Definition(inputs, outputs, tuple(work.statements), tuple(work.temporaries))

    _OTHER_SUMS: ClassVar[tuple[str, ...]] = ()
    """What is summed beside the gradients and their products with the input's deviation from the given mean."""

    def _terms(self, gradient: Expression, deviation: Expression) -> tuple[Expression, ...]:
        """What an element adds to each of the sums."""
        return gradient, gradient * deviation

    def _store_gradient(
        self, groups: Groups, sums: Sequence[GroupValue], factor: Tensor, mean: Tensor, variance: Tensor
    ) -> None:
        """Adds the statements that store the input's gradient."""
        raise TypeError(f"{self.__class__.__name__} has no gradient")


class BatchNormalizationGrad(_BatchNormalizationGradient, type=OperatorType.BATCH_NORMALIZATION_GRAD, since="3_1"):
    """Gradients of batch normalisation by given mean and variance, which count as constants.

    ``output_gradient = input_gradient * (scale / sqrt(variance + epsilon))``; those of scale and bias are the sums of
    ``input_gradient * (input - mean) / sqrt(variance + epsilon)`` and of ``input_gradient`` along the dimensions in
    which the mean has size 1.
    """

    epsilon: Number = float_value(default=1e-5, optional=True)

    support = levels(at("3_1", (1, 8), FLOATS))

    def _store_gradient(
        self, groups: Groups, sums: Sequence[GroupValue], factor: Tensor, mean: Tensor, variance: Tensor
    ) -> None:
        (incoming,) = groups.work.beside
        groups.store(lambda _, place: widen(load(incoming, place)) * broadcast(factor, place))


class BatchNormalizationTrainingGrad(
    _BatchNormalizationGradient, type=OperatorType.BATCH_NORMALIZATION_TRAINING_GRAD, since="4_1"
):
    """Gradients of batch normalisation in training, where mean and variance are functions of the input.

    With the means m() along the dimensions in which the mean has size 1, ``output_gradient`` is
    ``scale / sqrt(variance + epsilon) * (dy - m(dy) - (x - m(x)) * m(dy * (x - m(x))) / (variance + epsilon))``; those
    of scale and bias are as in BATCH_NORMALIZATION_GRAD.
    """

    epsilon: Number = float_value()

    support = levels(at("4_1", (1, 8), FLOATS))

    _OTHER_SUMS = ("deviations",)

    def _terms(self, gradient: Expression, deviation: Expression) -> tuple[Expression, ...]:
        return gradient, gradient * deviation, deviation

    def _store_gradient(
        self, groups: Groups, sums: Sequence[GroupValue], factor: Tensor, mean: Tensor, variance: Tensor
    ) -> None:
        """By sums about the given mean, which one pass gives: it is moved to that of the input behind it."""
        work, (total, products, deviations) = groups.work, sums
        (incoming,) = work.beside
        count = math.prod(work.sizes) // math.prod(work.result_sizes())
        mean_gradient = groups.derived("mean_gradient", lambda values, place: values[0] / count, total)
        shift = groups.derived("shift", lambda values, place: values[0] / count, deviations)
        actual = groups.derived("mean", lambda values, place: broadcast(mean, place) + values[0], shift)
        ratio = groups.derived(
            "ratio",
            lambda values, place: (
                (values[0] / count - values[1] * values[2]) / (broadcast(variance, place) + self.epsilon)
            ),
            *(products, mean_gradient, shift),
        )

        def gradient(x: Expression, place: Place) -> Expression:
            centred = widen(load(incoming, place)) - mean_gradient(place)
            return broadcast(factor, place) * (centred - (x - actual(place)) * ratio(place))

        groups.store(gradient)


class LocalResponseNormalizationGrad(Operator, type=OperatorType.LOCAL_RESPONSE_NORMALIZATION_GRAD, since="3_1"):
    """Back-propagates a gradient through LOCAL_RESPONSE_NORMALIZATION.

    With ``s = bias + alpha / local_size * (sum of squares around)``, ``output_gradient = dy / s ** beta - 2 * alpha *
    beta / local_size * x * sum``, where the sum is that of ``dy * x / s ** (beta + 1)`` over all elements in whose
    windows the element lies.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    input_gradient_tensor: Value[TensorDesc] = tensor_input()
    output_gradient_tensor: Value[TensorDesc] = tensor_output()
    cross_channel: Value[bool] = boolean()
    local_size: Integer = uint()
    alpha: Number = float_value()
    beta: Number = float_value()
    bias: Number = float_value()

    support = levels(at("3_1", (4, 4), FLOATS))

    def check(self, rules: Rules) -> None:
        """Tensors alike, and a window of at least one element."""
        names = ("input_tensor", "input_gradient_tensor", "output_gradient_tensor")
        rules.same_data_type(*names)
        rules.same_rank(*names)
        rules.same_sizes(*names)
        rules.at_least("local_size", 1)

    def define(self) -> Definition:
        """What each element gives to its neighbours, then the sum of what it gets."""
        source = tensor("InputTensor", self.input_tensor, "input")
        incoming = tensor("InputGradientTensor", self.input_gradient_tensor, "input")
        target = tensor("OutputGradientTensor", self.output_gradient_tensor, "output")
        type = computation_type(source.type)
        direct, given = (temporary(name, type, source.sizes) for name in ("direct", "given"))
        axes = grid(source.sizes)
        windows = response_windows(axes, self.cross_channel, self.local_size)
        squares = windowed_sum(axes, windows, lambda place: square(widen(load(source, place))))
        divisor = squares * (self.alpha / self.local_size) + self.bias
        scaled = widen(load(incoming, indices(axes))) / power(divisor, self.beta)
        stores = (
            Store(direct, indices(axes), scaled),
            Store(given, indices(axes), scaled * widen(load(source, indices(axes))) / divisor),
        )
        last = grid(source.sizes)
        mirrored = response_windows(last, self.cross_channel, self.local_size, mirrored=True)
        total = windowed_sum(last, mirrored, lambda place: load(given, place))
        share = widen(load(source, indices(last))) * (2 * self.alpha * self.beta / self.local_size)
        value = load(direct, indices(last)) - share * total
        second = Compute(last, (Store(target, indices(last), cast(value, target.type)),))
        return Definition((source, incoming), (target,), (Compute(axes, stores), second), (direct, given))


def _reduced_axes(statistics: Tensor) -> list[int]:
    """The dimensions along which statistics are the same."""
    return [axis for axis, size in enumerate(statistics.sizes) if size == 1]


def _check_images_and_statistics(rules: Rules, images: Sequence[str], statistics: Sequence[str]) -> None:
    rules.same_data_type(*images, *statistics)
    rules.same_rank(*images, *statistics)
    rules.same_sizes(*images)
    rules.same_sizes(*statistics)
    check_broadcast(rules, statistics[0], _ANY_LEVEL)
