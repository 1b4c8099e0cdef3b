"""Normalisations: by given or computed mean and variance, by a norm, by neighbours, and by constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opendml.activations import activate
from opendml.data_types import FLOATS
from opendml.definition import computation_type, every_element, optional_tensor, tensor, widen
from opendml.descriptors import (
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
from opendml.enums import FeatureLevel, OperatorType
from opendml.expression.folds import sum_of
from opendml.expression.ir import (
    Axis,
    Compute,
    Const,
    Definition,
    Expression,
    Store,
    Tensor,
    both,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    select,
    temporary,
    unary,
)
from opendml.expression.mathematics import pow, power_integer
from opendml.expression.reductions import Reduction, reduction
from opendml.expression.windows import WindowDimension
from opendml.groups import Groups, Place
from opendml.operators.activation import FUSABLE

if TYPE_CHECKING:
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class BatchNormalization(Operator, type=OperatorType.BATCH_NORMALIZATION, since="1_0"):
    """Normalises with given mean and variance, then scales, shifts and optionally applies an activation.

    ``output = activation(scale * ((input - mean) / sqrt(variance + epsilon)) + bias)``; the four tensors beside the
    input have its sizes or 1, which broadcasts.
    """

    input_tensor: TensorDesc = tensor_input()
    mean_tensor: TensorDesc = tensor_input()
    variance_tensor: TensorDesc = tensor_input()
    scale_tensor: TensorDesc = tensor_input()
    bias_tensor: TensorDesc = tensor_input()
    output_tensor: TensorDesc = tensor_output()
    spatial: bool = boolean()
    epsilon: float = float_value()
    fused_activation: Operator | None = operator_desc(FUSABLE, default=None)

    support = levels(at("3_1", (1, 8), FLOATS), at("1_0", (4, 4), FLOATS))

    def check(self, rules: Rules) -> None:
        """The given tensors broadcast; below 4_0 not along the channels, nor in space unless ``spatial``."""
        given = ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")
        _check_alike(rules, *given)
        for name in given:
            _check_broadcast(rules, name, FeatureLevel.LEVEL_4_0)
        if rules.ready("spatial") and not self.spatial and rules.level < FeatureLevel.LEVEL_4_0:
            for name in ("mean_tensor", "variance_tensor"):
                _check_not_spatial(rules, name)

    def define(self) -> Definition:
        """All elements, by the reciprocal of the deviation: one division for as many elements as share a variance."""
        source = tensor("InputTensor", self.input_tensor, "input")
        mean = tensor("MeanTensor", self.mean_tensor, "input")
        variance = tensor("VarianceTensor", self.variance_tensor, "input")
        scale = tensor("ScaleTensor", self.scale_tensor, "input")
        bias = tensor("BiasTensor", self.bias_tensor, "input")
        output = tensor("OutputTensor", self.output_tensor, "output")
        inverse, statements = _inverse_deviation(variance, self.epsilon, output)

        def normalized(place: Place) -> Expression:
            centred = widen(load(source, place)) - broadcast(mean, place)
            value = broadcast(scale, place) * (centred * inverse(place)) + broadcast(bias, place)
            return cast(activate(self.fused_activation, value), output.type)
