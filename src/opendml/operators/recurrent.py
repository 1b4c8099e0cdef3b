"""RNN: recurrent networks over sequences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from opendml.description.data_types import FLOATS, UINT32_ONLY
from opendml.description.descriptors import (
    Operator,
    at,
    count_of,
    enumeration,
    levels,
    operator_array,
    tensor_input,
    tensor_output,
)
from opendml.description.enums import OperatorType, RecurrentNetworkDirection, TensorFlags
from opendml.expression.folds import sum_of_products
from opendml.expression.ir import (
    I64,
    Axis,
    Compute,
    Definition,
    Expression,
    Repeat,
    Statement,
    Store,
    Tensor,
    binary,
    cast,
    clamp_index,
    constant,
    grid,
    index,
    indices,
    load,
    select,
    temporary,
)
from opendml.operators.activation import FUSABLE
from opendml.operators.activation_functions import activate
from opendml.operators.definition import computation_type, optional_tensor, packed_copy, tensor, widen

if TYPE_CHECKING:
    from opendml.description.field_types import ActivationList, Count, Member, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


PROJECTED_GROWTH: Final = 16
"""How many times the input's elements its projections to the hidden size may have to be computed all at once."""

_SIZES: Final = {
    "input_tensor": "1 S N I",
    "weight_tensor": "1 D H I",
    "recurrence_tensor": "1 D H H",
    "bias_tensor": "1 1 D 2H",
    "hidden_init_tensor": "1 D N H",
    "sequence_lengths_tensor": "1 1 1 N",
    "output_sequence_tensor": "S D N H",
    "output_single_tensor": "1 D N H",
}
"""The sizes of the tensors: sequence length S, directions D, batch N, input size I, hidden size H."""

UNPROJECTED_ELEMENTS: Final = 1 << 16
"""Elements that the projections may have in any case."""


class Rnn(Operator, type=OperatorType.RNN, since="1_0"):
    """One-layer simple (Elman) recurrent network over a sequence, forward, backward or both.

    Input {1, sequence length S, batch N, input size I}, weights {1, D, hidden size H, I}, recurrence {1, D, H, H},
    bias {1, 1, D, 2 H}, initial hidden state {1, D, N, H}, sequence lengths {1, 1, 1, N}; outputs {S, D, N, H} and
    {1, D, N, H}. D is the number of directions, one activation for each.
    """

    input_tensor: Value[TensorDesc] = tensor_input()
    weight_tensor: Value[TensorDesc] = tensor_input()
    recurrence_tensor: Value[TensorDesc] = tensor_input()
    bias_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    hidden_init_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    sequence_lengths_tensor: Value[TensorDesc | None] = tensor_input(default=None)
    output_sequence_tensor: Value[TensorDesc | None] = tensor_output(default=None)
    output_single_tensor: Value[TensorDesc | None] = tensor_output(default=None)
    activation_desc_count: Count = count_of("activation_descs", default=None)
    activation_descs: ActivationList = operator_array(FUSABLE, count="activation_desc_count")
    direction: Member[RecurrentNetworkDirection] = enumeration(RecurrentNetworkDirection)

    support = levels(at("1_0", (4, 4), FLOATS, sequence_lengths_tensor=UINT32_ONLY))

    @property
    def direction_count(self) -> int:
        """The number of directions, 1 or 2."""
        return 2 if self.direction == RecurrentNetworkDirection.BIDIRECTIONAL else 1

    def is_backward(self, direction: int) -> bool:
        """Whether a slot of the directions' dimension runs from the end of the sequence."""
        return direction == 1 or self.direction == RecurrentNetworkDirection.BACKWARD

    def define(self) -> Definition:
        """The input's part of all steps at once, then step after step.

        ``H = f((W_b + R_b) + sum of x * W + sum of h * R)``, each addition one more step of the same running sum; the
        hidden state stays in float32.
        """
        return _Network(self).definition()

    def check(self, rules: Rules) -> None:
        """All sizes follow from the input, the hidden size and the direction."""
        tensors = [name for name, field in self.fields.items() if hasattr(field, "direction")]
        rules.same_data_type(*(name for name in tensors if name != "sequence_lengths_tensor"))
        for place, owner in rules.tensors(*(name for name in tensors if not name.startswith("output"))):
            must = "must not have DML_TENSOR_FLAG_OWNED_BY_DML, which this operator does not support"
            owned = TensorFlags.OWNED_BY_DML in owner.flags
            rules.require(not owned, f"{place}.flags", must, breaks=False)
        no_output = self.output_sequence_tensor is None and self.output_single_tensor is None
        rules.require(not no_output, "", "OutputSequenceTensor or OutputSingleTensor must be given", breaks=False)
        count = rules.integer("activation_desc_count")
        if rules.ready("direction") and count is not None:
            must = f"must be {self.direction_count}, one activation a direction"
            rules.require(count == self.direction_count, "activation_desc_count", must, count)
        self._check_sizes(rules)

    def _check_sizes(self, rules: Rules) -> None:
        """Each size is one of a few, whose source is named beside it. Tensors of any other rank than 4 are broken."""
        directions = self.direction_count if rules.ready("direction") else None
        length, batch, input_size = (rules.size("input_tensor", i) for i in (1, 2, 3))
        hidden = rules.size("recurrence_tensor", 3)
        sizes: dict[str, tuple[int | None, str]] = {
            "1": (1, ""),
            "D": (directions, "the number of directions by Direction"),
            "S": (length, "InputTensor.Sizes[1]"),
            "N": (batch, "InputTensor.Sizes[2]"),
            "I": (input_size, "InputTensor.Sizes[3]"),
            "H": (hidden, "RecurrenceTensor.Sizes[3]"),
            "2H": (None if hidden is None else 2 * hidden, "2 * RecurrenceTensor.Sizes[3]"),
        }
        for name, letters in _SIZES.items():
            if getattr(self, name) is not None and rules.rank(name) == len(letters.split()):
                for i, letter in enumerate(letters.split()):
                    rules.size_is(name, i, *sizes[letter])


class _Network:
    """The tensors of one network, and the statements that fill them.

    ``projections`` {S, D, N, H} is the input's part at the input's own time, where there is room for all of it.
    ``states`` {S + 1, D, N, H} begins with the initial state and then has one entry a step, whichever way the steps
    run; without an output of all states two entries take turns. A state stays as it is beyond its sequence's end.
    """

    def __init__(self, desc: Rnn) -> None:
        self.desc = desc
        self.input = tensor("InputTensor", desc.input_tensor, "input")
        self.weights = tensor("WeightTensor", desc.weight_tensor, "input")
        self.recurrence = tensor("RecurrenceTensor", desc.recurrence_tensor, "input")
        self.bias = optional_tensor("BiasTensor", desc.bias_tensor, "input")
        self.initial = optional_tensor("HiddenInitTensor", desc.hidden_init_tensor, "input")
        self.lengths = optional_tensor("SequenceLengthsTensor", desc.sequence_lengths_tensor, "input")
        self.sequence = optional_tensor("OutputSequenceTensor", desc.output_sequence_tensor, "output")
        self.single = optional_tensor("OutputSingleTensor", desc.output_single_tensor, "output")
        _, self.length, self.batch, _ = self.input.sizes
        _, self.directions, self.hidden, _ = self.recurrence.sizes
        type = computation_type(self.input.type)
        sizes = [self.directions, self.batch, self.hidden]
        room = PROJECTED_GROWTH * math.prod(self.input.sizes) + UNPROJECTED_ELEMENTS
        is_projected = self.length * math.prod(sizes) <= room
        self.projections = temporary("projections", type, [self.length, *sizes]) if is_projected else None
        self.states = temporary("states", type, [2 if self.sequence is None else self.length + 1, *sizes])

    def _state(self, step: Expression) -> Expression:
        """Where the state after so many steps is."""
        return step % 2 if self.sequence is None else step

    def definition(self) -> Definition:
        """Copies of the matrices with the hidden size last, the projections, the steps, and the outputs."""
        weights, copy_weights = packed_copy(self.weights, (0, 1, 3, 2))
        recurrence, copy_recurrence = packed_copy(self.recurrence, (0, 1, 3, 2))
        temporaries, statements = [weights, recurrence, self.states], [copy_weights, copy_recurrence, self._begin()]
        if self.projections is not None:
            axes = grid(self.projections.sizes, "tdbh")
            value = self._projection(weights, *indices(axes))
            temporaries.append(self.projections)
            statements.append(Compute(axes, (Store(self.projections, indices(axes), value),)))
        steps = Axis("s", self.length)
        repeated = Repeat(steps, (self._step(index(steps), weights, recurrence),))
        outputs = [store for store in (self._store_sequence(), self._store_single()) if store is not None]
        return Definition(
            (self.input, self.weights, self.recurrence, self.bias, self.initial, self.lengths),
            (self.sequence, self.single),
            (*statements, repeated, *outputs),
            tuple(temporaries),
        )

    def _projection(
        self, weights: Tensor, time: Expression, direction: Expression, item: Expression, unit: Expression
    ) -> Expression:
        """The biases and the product of input and weights."""
        (inner,) = grid([weights.sizes[2]], "i")
        start: Expression = constant(0, weights.type)
        if self.bias is not None:
            own, recurrent = (load(self.bias, (0, 0, direction, unit + n * self.hidden)) for n in (0, 1))
            start = widen(own) + widen(recurrent)
        left = widen(load(self.input, (0, time, item, index(inner))))
        return sum_of_products((inner,), left, load(weights, (0, direction, index(inner), unit)), initial=start)

    def _begin(self) -> Compute:
        """The state before the first step: 0 where none is given."""
        axes = grid(self.states.sizes[1:], "dbh")
        value: Expression = constant(0, self.states.type)
        if self.initial is not None:
            value = widen(load(self.initial, (0, *indices(axes))))
        return Compute(axes, (Store(self.states, (constant(0, I64), *indices(axes)), value),))

    def _step(self, step: Expression, weights: Tensor, recurrence: Tensor) -> Statement:
        """One state after the one before it, in all directions."""
        axes = grid([self.batch, self.hidden], "bh")
        item, unit = indices(axes)
        stores = []
        for number, activation in enumerate(self.desc.activation_descs):
            direction = constant(number, I64)
            (inner,) = grid([self.hidden], "j")
            place = (self._time(step, number, item), direction, item, unit)
            start = self._projection(weights, *place) if self.projections is None else load(self.projections, place)
            before = load(self.states, (self._state(step), direction, item, index(inner)))
            right = load(recurrence, (0, direction, index(inner), unit))
            value = activate(activation, sum_of_products((inner,), before, right, initial=start))
            if self.lengths is not None:
                value = select(step < self._length_of(item), value, load(self.states, (self._state(step), *place[1:])))
            stores.append(Store(self.states, (self._state(step + 1), *place[1:]), value))
        return Compute(axes, tuple(stores))

    def _time(self, step: Expression, direction: int, item: Expression) -> Expression:
        """The time of the input that a step reads."""
        if not self.desc.is_backward(direction):
            return step
        time = self._length_of(item) - 1 - step
        # Beyond the end of a shorter sequence any time will do.
        return time if self.lengths is None else clamp_index(time, self.length)

    def _length_of(self, item: Expression) -> Expression:
        """The number of steps of an item of the batch, never more than there are."""
        if self.lengths is None:
            return constant(self.length, I64)
        return binary("min", cast(load(self.lengths, (0, 0, 0, item)), I64), self.length)

    def _store_sequence(self) -> Statement | None:
        """Every state at its input's time, 0 behind the end of a shorter sequence."""
        if self.sequence is None:
            return None
        axes = grid([self.length, self.batch, self.hidden], "tbh")
        time, item, unit = indices(axes)
        stores = []
        for direction in range(self.directions):
            length = self._length_of(item)
            number = length - time if self.desc.is_backward(direction) else time + 1
            state = load(self.states, (number, direction, item, unit))
            place = (time, constant(direction, I64), item, unit)
            stores.append(Store(self.sequence, place, cast(select(time < length, state, 0), self.sequence.type)))
        return Compute(axes, tuple(stores))

    def _store_single(self) -> Statement | None:
        """The last state, the initial one where there is no step."""
        if self.single is None:
            return None
        axes = grid(self.single.sizes[1:], "dbh")
        direction, item, unit = indices(axes)
        value = load(self.states, (self._state(constant(self.length, I64)), direction, item, unit))
        place = (constant(0, I64), direction, item, unit)
        return Compute(axes, (Store(self.single, place, cast(value, self.single.type)),))
