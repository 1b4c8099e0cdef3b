"""Steps of training: adam_optimizer."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from opendml.building.operands import OperandRules
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Operand, evaluate, operand_rules
from opendml.functions.element_wise import packed
from opendml.functions.several import several
from opendml.functions.signatures import operator_function
from opendml.operators.optimizers import AdamOptimizer
from opendml.programs.device import Device

T = TypeVar("T")


@several
class AdamOptimizerOutputs(NamedTuple, Generic[T]):
    """What ``adam_optimizer`` returns."""

    parameters: T
    first_moment: T
    second_moment: T


@operator_function
def adam_optimizer(
    input_parameters: Operand,
    input_first_moment: Operand,
    input_second_moment: Operand,
    gradient: Operand,
    training_step: Operand,
    *,
    learning_rate: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    device: Device | None = None,
    out: Any = None,
) -> AdamOptimizerOutputs[Any]:
    """One step of Adam (ADAM_OPTIMIZER).

    ``input_parameters``, ``input_first_moment``, ``input_second_moment``, ``gradient``: alike, four dimensions, float32
    or float16; the moments are 0 before the first step. ``training_step``: one uint32, {1, 1, 1, 1}, 1 for the first
    step. Returns the new ``parameters``, ``first_moment`` and ``second_moment``; ``out`` may be the inputs themselves.

    >>> x, zero = np.full((1, 1, 1, 1), 2, "float32"), np.zeros((1, 1, 1, 1), "float32")
    >>> step = np.ones((1, 1, 1, 1), "uint32")
    >>> new = dml.adam_optimizer(x, zero, zero, x, step, learning_rate=0.5)
    >>> [round(float(part.item()), 4) for part in new]
    [1.5, 0.2, 0.004]
    """
    operands = (input_parameters, input_first_moment, input_second_moment, gradient, training_step)
    numbers = (learning_rate, beta1, beta2, epsilon)
    return AdamOptimizerOutputs(*evaluate(_adam_optimizer, operands, numbers=numbers, device=device, out=out))


@operand_rules(OperandRules("xxxxt", {"t": np.dtype(np.uint32)}))
def _adam_optimizer(
    input_parameters: TensorDesc,
    input_first_moment: TensorDesc,
    input_second_moment: TensorDesc,
    gradient: TensorDesc,
    training_step: TensorDesc,
    learning_rate: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
) -> Operator:
    return AdamOptimizer(
        input_parameters_tensor=input_parameters,
        input_first_moment_tensor=input_first_moment,
        input_second_moment_tensor=input_second_moment,
        gradient_tensor=gradient,
        training_step_tensor=training_step,
        output_parameters_tensor=packed(input_parameters),
        output_first_moment_tensor=packed(input_parameters),
        output_second_moment_tensor=packed(input_parameters),
        learning_rate=learning_rate,
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
    )
