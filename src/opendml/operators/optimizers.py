"""ADAM_OPTIMIZER: a step of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.description.data_types import FLOATS, UINT32_ONLY
from opendml.description.descriptors import Operator, at, float_value, levels, tensor_input, tensor_output
from opendml.description.enums import OperatorType
from opendml.expression.ir import Expression, cast, constant, grid, indices, load, temporary, unary
from opendml.expression.mathematics import pow
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.definition import computation_type, every_element, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import Number, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


class AdamOptimizer(Operator, type=OperatorType.ADAM_OPTIMIZER, since="3_0"):
    """One step of Adam: new parameters, and new estimates of the gradient's first and second moment.

    ``m = beta1 * m + (1 - beta1) * g``, ``v = beta2 * v + (1 - beta2) * g * g``, ``x -= learning_rate * sqrt(1 - beta2
    ** t) / (1 - beta1 ** t) * m / (sqrt(v) + epsilon)``. The training step t is one number, 1 for the first step. In
    place outputs may be any of the inputs but the training step.
    """

    input_parameters_tensor: Value[TensorDesc] = tensor_input()
    input_first_moment_tensor: Value[TensorDesc] = tensor_input()
    input_second_moment_tensor: Value[TensorDesc] = tensor_input()
    gradient_tensor: Value[TensorDesc] = tensor_input()
    training_step_tensor: Value[TensorDesc] = tensor_input()
    output_parameters_tensor: Value[TensorDesc] = tensor_output()
    output_first_moment_tensor: Value[TensorDesc] = tensor_output()
    output_second_moment_tensor: Value[TensorDesc] = tensor_output()
    learning_rate: Number = float_value()
    beta1: Number = float_value()
    beta2: Number = float_value()
    epsilon: Number = float_value()

    in_place = True
    support = levels(at("3_0", (4, 4), FLOATS, training_step_tensor=UINT32_ONLY))

    def check(self, rules: Rules) -> None:
        """Tensors alike, and a training step of one element."""
        names = [name for name, field in self.fields.items() if hasattr(field, "direction")]
        alike = [name for name in names if name != "training_step_tensor"]
        rules.same_data_type(*alike)
        rules.same_rank(*names)
        rules.same_sizes(*alike)
        for d in range(rules.rank("training_step_tensor") or 0):
            rules.size_is("training_step_tensor", d, 1, why="as there is one training step")

    def define(self) -> Definition:
        """The step's factor once, then every element by itself."""
        inputs = [tensor(name, desc, "input") for name, desc in self.inputs() if desc is not None]
        outputs = [tensor(name, desc, "output") for name, desc in self.outputs() if desc is not None]
        type = computation_type(inputs[0].type)
        rate = temporary("rate", type, (1,))
        step = cast(load(inputs[4], (0,) * len(inputs[4].sizes)), type)
        corrections = [1 - pow(constant(beta, type), step) for beta in (self.beta1, self.beta2)]
        factor = constant(self.learning_rate, type) * (unary("sqrt", corrections[1]) / corrections[0])
        axes = grid(outputs[0].sizes)
        x, m, v, g = (widen(load(source, indices(axes))) for source in inputs[:4])
        first = _moving(m, g, self.beta1)
        second = _moving(v, g * g, self.beta2)
        parameter = x - load(rate, (0,)) * first / (unary("sqrt", second) + self.epsilon)
        stores = [
            Store(output, indices(axes), cast(value, output.type))
            for output, value in zip(outputs, (parameter, first, second), strict=True)
        ]
        statements = (every_element(rate, lambda _: factor), Compute(axes, tuple(stores)))
        return Definition(tuple(inputs), tuple(outputs), statements, (rate,))


def _moving(average: Expression, value: Expression, beta: float) -> Expression:
    """The moving average with one more value."""
    kept = constant(beta, average.type)
    return kept * average + (1 - kept) * value
