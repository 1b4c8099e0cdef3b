"""Normalisations: by given or computed mean and variance, by a norm, by neighbours, and by constants."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from opendml.description.data_types import FLOATS
from opendml.description.descriptors import (
    Operator,
    at,
    boolean,
    count_of,
    float_array,
    float_value,
    levels,
    operator_desc,
    tensor_input,
    tensor_output,
    uint,
    uint_array,
)
from opendml.description.enums import FeatureLevel, OperatorType
from opendml.expression.folds import sum_of
from opendml.expression.ir import (
    Axis,
    Const,
    Expression,
    Tensor,
    both,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    select,
    unary,
)
from opendml.expression.mathematics import pow, power_integer, square
from opendml.expression.reductions import Reduction, reduction
from opendml.expression.statements import Compute, Definition, Store
from opendml.expression.windows import WindowDimension
from opendml.operators.activation import FUSABLE
from opendml.operators.activation_functions import activate
from opendml.operators.definition import every_element, optional_tensor, tensor, widen
from opendml.operators.groups import Groups, GroupValue, Place

if TYPE_CHECKING:
    from opendml.description.field_types import Count, Integer, Integers, Number, Numbers, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class BatchNormalization(Operator, type=OperatorType.BATCH_NORMALIZATION, since="1_0"):
    """Normalises with given mean and variance, then scales, shifts and optionally applies an activation.

    ``output = activation(scale * ((input - mean) / sqrt(variance + epsilon)) + bias)``; the four tensors beside the
    input have its sizes or 1, which broadcasts.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    mean_tensor: Value[TensorDesc] = tensor_input()
    variance_tensor: Value[TensorDesc] = tensor_input()
    scale_tensor: Value[TensorDesc] = tensor_input()
    bias_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    spatial: Value[bool] = boolean()
    epsilon: Number = float_value()
    fused_activation: Value[Operator | None] = operator_desc(FUSABLE, default=None)

    support = levels(at("3_1", (1, 8), FLOATS), at("1_0", (4, 4), FLOATS))

    def check(self, rules: Rules) -> None:
        """The given tensors broadcast; below 4_0 not along the channels, nor in space unless ``spatial``."""
        given = ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")
        _check_alike(rules, *given)
        for name in given:
            check_broadcast(rules, name, FeatureLevel.LEVEL_4_0)
        if rules.ready("spatial") and not self.spatial and rules.level < FeatureLevel.LEVEL_4_0:
            for name in ("mean_tensor", "variance_tensor"):
                _check_not_spatial(rules, name)

    def define(self) -> Definition:
        """All elements, by the reciprocal of the deviation."""
        source = tensor("InputTensor", self.input_tensor, "input")
        mean = tensor("MeanTensor", self.mean_tensor, "input")
        variance = tensor("VarianceTensor", self.variance_tensor, "input")
        scale = tensor("ScaleTensor", self.scale_tensor, "input")
        bias = tensor("BiasTensor", self.bias_tensor, "input")
        output = tensor("OutputTensor", self.output_tensor, "output")
        inverse = inverse_deviation(variance, self.epsilon)

        def normalized(place: Place) -> Expression:
            centred = widen(load(source, place)) - broadcast(mean, place)
            value = broadcast(scale, place) * (centred * inverse(place)) + broadcast(bias, place)
            return cast(activate(self.fused_activation, value), output.type)

        return Definition((source, mean, variance, scale, bias), (output,), (every_element(output, normalized),))


class _MeanVarianceNormalization(Operator):
    """What the versions of MEAN_VARIANCE_NORMALIZATION share: all but how the statistics are chosen."""

    input_tensor: Value[TensorDesc] = tensor_input()
    scale_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    bias_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_tensor: Value[TensorDesc] = tensor_output()

    # Every version has these behind its own fields.
    epsilon: float
    fused_activation: Operator | None

    channels_broadcast_from: ClassVar[FeatureLevel] = FeatureLevel.LEVEL_1_0
    """The level below which the channels of scale and bias must be those of the input."""

    def statistics(self) -> _Statistics:
        """Over which axes, and which of mean and variance."""
        raise TypeError(f"{self.__class__.__name__} has no statistics")

    def check(self, rules: Rules) -> None:
        """Scale and bias broadcast; below 5_2 there are both or none."""
        _check_alike(rules, "scale_tensor", "bias_tensor")
        for name in ("scale_tensor", "bias_tensor"):
            check_broadcast(rules, name, self.channels_broadcast_from)
        both_or_none = (self.scale_tensor is None) == (self.bias_tensor is None)
        if rules.level < FeatureLevel.LEVEL_5_2:
            must = f"ScaleTensor and BiasTensor must be given both or not at all at feature level {rules.level}"
            rules.require(both_or_none, "", must, allowed_at=FeatureLevel.LEVEL_5_2, breaks=False)

    def define(self) -> Definition:
        """The mean, then the mean of squared deviations from it, then every element, by the reciprocal of the
        deviation."""
        scale = optional_tensor("ScaleTensor", self.scale_tensor, "input")
        bias = optional_tensor("BiasTensor", self.bias_tensor, "input")
        output = tensor("OutputTensor", self.output_tensor, "output")
        axes, use_mean, use_variance = self.statistics()
        work = reduction(tensor("InputTensor", self.input_tensor, "input"), axes if use_mean or use_variance else ())
        groups = Groups(work, output)
        mean, inverse = self._moments(groups, math.prod(output.sizes[axis] for axis in set(axes)))

        def normalized(x: Expression, place: Place) -> Expression:
            value = x if mean is None else x - mean(place)
            value = value if inverse is None else value * inverse(place)
            value = value if scale is None else broadcast(scale, place) * value
            value = value if bias is None else value + broadcast(bias, place)
            return activate(self.fused_activation, value)

        groups.store(normalized)
        return _definition(work, output, scale, bias)

    def _moments(self, groups: Groups, count: int) -> tuple[GroupValue | None, GroupValue | None]:
        """The mean and the reciprocal of the deviation of ``count`` elements each, as far as they are used."""
        _, use_mean, use_variance = self.statistics()

        def inverse(squares: Expression) -> Expression:
            return 1 / unary("sqrt", squares / count + self.epsilon)

        if use_mean and use_variance:
            return groups.moments("inverse_deviation", inverse)
        mean = groups.total("mean", finish=lambda total: total / count) if use_mean else None
        return mean, groups.total("inverse_deviation", lambda x, _: square(x), inverse) if use_variance else None


class _Statistics(NamedTuple):
    """The axes along which elements are normalised together, and whether by their mean and by their variance."""

    axes: tuple[int, ...]
    use_mean: bool
    use_variance: bool


class MeanVarianceNormalization(_MeanVarianceNormalization, type=OperatorType.MEAN_VARIANCE_NORMALIZATION, since="1_0"):
    """Normalises each image (or each channel of it) to mean 0 and optionally variance 1, then scales and shifts."""

    cross_channel: Value[bool] = boolean()
    normalize_variance: Value[bool] = boolean()
    epsilon: Number = float_value()
    fused_activation: Value[Operator | None] = operator_desc(FUSABLE, default=None)

    support = levels(at("1_0", (4, 4), FLOATS))

    def statistics(self) -> _Statistics:
        """Height and width, and with ``cross_channel`` the channels."""
        return _Statistics((1, 2, 3) if self.cross_channel else (2, 3), True, self.normalize_variance)


class MeanVarianceNormalization1(
    _MeanVarianceNormalization, type=OperatorType.MEAN_VARIANCE_NORMALIZATION1, since="2_1"
):
    """Normalises along chosen axes to mean 0 and optionally variance 1, then scales and shifts."""

    axis_count: Count = count_of("axes", default=None)
    axes: Integers = uint_array(count="axis_count")
    normalize_variance: Value[bool] = boolean()
    epsilon: Number = float_value()
    fused_activation: Value[Operator | None] = operator_desc(FUSABLE, default=None)

    support = levels(at("3_1", (1, 8), FLOATS), at("2_1", (4, 4), FLOATS))
    channels_broadcast_from = FeatureLevel.LEVEL_4_0

    def check(self, rules: Rules) -> None:
        """The axes are dimensions of the input."""
        super().check(rules)
        rules.axes_in_range("axes", "input_tensor")

    def statistics(self) -> _Statistics:
        """The axes given."""
        return _Statistics(self.axes, True, self.normalize_variance)


class MeanVarianceNormalization2(
    _MeanVarianceNormalization, type=OperatorType.MEAN_VARIANCE_NORMALIZATION2, since="6_3"
):
    """Normalises along chosen axes, optionally by the mean and optionally by the variance, then scales and shifts.

    Without the mean it is taken as 0, also in the variance, which is then the mean square.
    """

    axis_count: Count = count_of("axes", default=None)
    axes: Integers = uint_array(count="axis_count")
    use_mean: Value[bool] = boolean()
    use_variance: Value[bool] = boolean()
    epsilon: Number = float_value()
    fused_activation: Value[Operator | None] = operator_desc(FUSABLE, default=None)

    support = levels(at("6_3", (1, 8), FLOATS))

    def check(self, rules: Rules) -> None:
        """The axes are dimensions of the input."""
        super().check(rules)
        rules.axes_in_range("axes", "input_tensor")

    def statistics(self) -> _Statistics:
        """The axes given."""
        return _Statistics(self.axes, self.use_mean, self.use_variance)


class LocalResponseNormalization(Operator, type=OperatorType.LOCAL_RESPONSE_NORMALIZATION, since="1_0"):
    """Divides each element by a power of the sum of squares around it, across channels or in space.

    ``x / (bias + alpha / local_size * sum) ** beta``; what lies outside the tensor does not count.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    cross_channel: Value[bool] = boolean()
    local_size: Integer = uint()
    alpha: Number = float_value()
    beta: Number = float_value()
    bias: Number = float_value()

    support = levels(at("1_0", (4, 4), FLOATS))

    def check(self, rules: Rules) -> None:
        """A window of at least one element."""
        _check_alike(rules)
        rules.at_least("local_size", 1)

    def define(self) -> Definition:
        """The sum of squares over the part of the window that is inside, in row-major order."""
        source = tensor("InputTensor", self.input_tensor, "input")
        output = tensor("OutputTensor", self.output_tensor, "output")
        axes = grid(output.sizes)
        windows = response_windows(axes, self.cross_channel, self.local_size)
        squares = windowed_sum(axes, windows, lambda place: square(widen(load(source, place))))
        divisor = power(squares * (self.alpha / self.local_size) + self.bias, self.beta)
        value = cast(widen(load(source, indices(axes))) / divisor, output.type)
        return Definition((source,), (output,), (Compute(axes, (Store(output, indices(axes), value),)),))


class LpNormalization(Operator, type=OperatorType.LP_NORMALIZATION, since="1_0"):
    """Divides every element by the L1 or L2 norm of its line along one axis, or by ``epsilon`` if that is larger."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    axis: Integer = uint()
    epsilon: Number = float_value()
    p: Integer = uint()

    support = levels(at("3_1", (1, 8), FLOATS), at("1_0", (4, 4), FLOATS))

    def check(self, rules: Rules) -> None:
        """P is 1 or 2."""
        _check_alike(rules)
        rules.axis_in_range("axis", "input_tensor")
        if rules.integer("p") is not None:
            rules.require(self.p in (1, 2), "p", "must be 1 or 2", self.p)

    def define(self) -> Definition:
        """The norm, then a division."""
        output = tensor("OutputTensor", self.output_tensor, "output")
        work = reduction(tensor("InputTensor", self.input_tensor, "input"), (self.axis,))
        groups = Groups(work, output)
        norms = {
            1: lambda: groups.total("norm", lambda x, place: unary("abs", x), self._divisor),
            2: lambda: groups.total("norm", lambda x, place: square(x), lambda sum: self._divisor(unary("sqrt", sum))),
        }
        norm = norms[self.p]()
        groups.store(lambda x, place: x / norm(place))
        return _definition(work, output)

    def _divisor(self, norm: Expression) -> Expression:
        """The larger one of norm and epsilon; a NaN norm stays."""
        return select(norm < self.epsilon, self.epsilon, norm)


class ValueScale2D(Operator, type=OperatorType.VALUE_SCALE_2D, since="1_0"):
    """Multiplies all elements of images by one scale and adds one bias per channel."""

    input_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    scale: Number = float_value()
    channel_count: Count = count_of("bias", default=None)
    bias: Numbers = float_array(count="channel_count")

    support = levels(at("1_0", (4, 4), FLOATS))

    def check(self, rules: Rules) -> None:
        """1 or 3 channels."""
        _check_alike(rules)
        channels = rules.integer("channel_count")
        if channels is not None:
            rules.require(channels in (1, 3), "channel_count", "must be 1 or 3", channels)
        rules.size_is("input_tensor", 1, rules.integer("channel_count"), "ChannelCount")

    def define(self) -> Definition:
        """``x * Scale + Bias[channel]``, rounded twice."""
        source = tensor("InputTensor", self.input_tensor, "input")
        output = tensor("OutputTensor", self.output_tensor, "output")

        def scaled(place: Place) -> Expression:
            x = widen(load(source, place))
            bias: Expression = constant(self.bias[-1], x.type)
            for channel, value in enumerate(self.bias[:-1]):
                bias = select(place[1].equals(channel), value, bias)
            return cast(x * self.scale + bias, output.type)

        return Definition((source,), (output,), (every_element(output, scaled),))


# Expressions ---------------------------------------------------------------------------------------------------------


def broadcast(tensor: Tensor, place: Sequence[Expression]) -> Expression:
    """The element of ``tensor`` that belongs to a place, where dimensions of size 1 have one for all; widened."""
    return widen(load(tensor, [0 if size == 1 else i for i, size in zip(place, tensor.sizes, strict=True)]))


def inverse_deviation(variance: Tensor, epsilon: float) -> Callable[[Place], Expression]:
    """``1 / sqrt(variance + epsilon)`` at a place, where dimensions of size 1 have one variance for all."""
    return lambda place: 1 / unary("sqrt", broadcast(variance, place) + epsilon)


def power(x: Expression, exponent: float) -> Expression:
    """``x ** exponent``; multiples of a quarter up to 2 by square roots, which makes NaN of every negative ``x``."""
    quarters = exponent * 4
    if quarters not in range(1, 9):
        return pow(x, constant(exponent, x.type))
    root = unary("sqrt", x)
    factors = [power_integer(x, int(quarters) // 4)] if quarters >= 4 else []
    factors += [root] if int(quarters) & 2 else []
    factors += [unary("sqrt", root)] if int(quarters) & 1 else []
    return functools.reduce(lambda a, b: a * b, factors)


def response_windows(
    axes: Sequence[Axis], cross_channel: bool, local_size: int, mirrored: bool = False
) -> dict[int, WindowDimension]:
    """The windows of a local response around every point of images, by dimension: across channels or in space.

    ``mirrored``: the points around whose windows the point lies in.
    """
    return {d: _around(axes[d], local_size, mirrored) for d in ((1,) if cross_channel else (2, 3))}


def windowed_sum(
    axes: Sequence[Axis], windows: Mapping[int, WindowDimension], value_at: Callable[[Place], Expression]
) -> Expression:
    """The sum of values over the part of the windows that is inside, in row-major order."""
    place = tuple(windows[d].position if d in windows else index(axis) for d, axis in enumerate(axes))
    where = both(d.is_inside for d in windows.values())
    always = isinstance(where, Const) and where.value
    return sum_of([d.tap for d in windows.values()], value_at(place), None if always else where)


def _around(axis: Axis, local_size: int, mirrored: bool) -> WindowDimension:
    """The window along one axis; of an even number of elements one more lies behind the point."""
    reach = [min((local_size - 1) // 2, axis.size - 1), min(local_size // 2, axis.size - 1)]
    before, behind = reversed(reach) if mirrored else reach
    tap = Axis(f"t{axis.name}", before + 1 + behind)
    return WindowDimension(axis.size, 1, index(axis) - before, -before, axis.size - 1 - before, tap)


def _definition(work: Reduction, output: Tensor, *others: Tensor | None) -> Definition:
    return Definition((work.source, *others), (output,), tuple(work.statements), tuple(work.temporaries))


# Rules ---------------------------------------------------------------------------------------------------------------


def _check_alike(rules: Rules, *broadcasting: str) -> None:
    """One data type and rank, and the sizes of the input for the output."""
    rules.same_data_type("input_tensor", *broadcasting, "output_tensor")
    rules.same_rank("input_tensor", *broadcasting, "output_tensor")
    rules.same_sizes("input_tensor", "output_tensor")


def check_broadcast(rules: Rules, name: str, channels_from: FeatureLevel) -> None:
    """Every size is that of the input or 1, of the channels (dimension 1) only from some level on."""
    for d, (size, full) in _beside_input(rules, name):
        place, full_name = f"{name}.sizes[{d}]", f"InputTensor.Sizes[{d}] = {full}"
        rules.require(size in (1, full), place, f"must be 1 or {full_name}", size, breaks=False)
        if d == 1 and rules.level < channels_from and size == 1 != full:
            must = f"must be {full_name} at feature level {rules.level}"
            rules.violate(place, must, size, allowed_at=channels_from, breaks=False)


def _check_not_spatial(rules: Rules, name: str) -> None:
    """Nothing repeats in space: the dimensions behind the channels are those of the input."""
    for d, (size, full) in _beside_input(rules, name):
        if d >= 2 and size == 1 != full:
            must = f"must be InputTensor.Sizes[{d}] = {full}, as Spatial is false at feature level {rules.level}"
            rules.violate(f"{name}.sizes[{d}]", must, size, allowed_at=FeatureLevel.LEVEL_4_0, breaks=False)


def _beside_input(rules: Rules, name: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The sizes of a tensor beside those of the input."""
    return rules.along(name, "input_tensor")
