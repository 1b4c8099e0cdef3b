"""RNN, GRU and LSTM: recurrent networks over sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from opendml.description.data_types import FLOATS, UINT32_ONLY
from opendml.description.descriptors import (
    Operator,
    at,
    boolean,
    count_of,
    enumeration,
    float_value,
    levels,
    operator_array,
    tensor_input,
    tensor_output,
)
from opendml.description.enums import OperatorType, RecurrentNetworkDirection, TensorFlags
from opendml.expression.statements import Definition
from opendml.operators.activation import FUSABLE_WITH_HARDMAX
from opendml.operators.recurrent_networks import GatedNetwork, MemoryNetwork, Network

if TYPE_CHECKING:
    from opendml.description.field_types import ActivationList, Count, Member, Number, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc


_NUMBERS: Final = {1: "one activation", 2: "two activations", 3: "three activations"}


class Recurrent(Operator):
    """What the recurrent operators share: one layer over a sequence, forward, backward or both.

    The sizes of the tensors are made of the sequence length S, directions D, batch N, input size I and hidden size H.
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
    activation_descs: ActivationList = operator_array(
        FUSABLE_WITH_HARDMAX, count="activation_desc_count", is_of_output=False
    )
    direction: Member[RecurrentNetworkDirection] = enumeration(RecurrentNetworkDirection)

    support = levels(at("1_0", (4, 4), FLOATS, sequence_lengths_tensor=UINT32_ONLY))

    gates: ClassVar[int] = Network.gates
    activations_each: ClassVar[int] = 1
    """Activations of a direction."""

    @property
    def direction_count(self) -> int:
        """The number of directions, 1 or 2."""
        return 2 if self.direction == RecurrentNetworkDirection.BIDIRECTIONAL else 1

    def is_backward(self, direction: int) -> bool:
        """Whether a slot of the directions' dimension runs from the end of the sequence."""
        return direction == 1 or self.direction == RecurrentNetworkDirection.BACKWARD

    def check(self, rules: Rules) -> None:
        """All sizes follow from the input, the hidden size and the direction."""
        tensors = [name for name, field in self.fields.items() if hasattr(field, "direction")]
        rules.same_data_type(*(name for name in tensors if name != "sequence_lengths_tensor"))
        for place, owner in rules.tensors(*(name for name in tensors if not name.startswith("output"))):
            must = "must not have DML_TENSOR_FLAG_OWNED_BY_DML, which this operator does not support"
            owned = TensorFlags.OWNED_BY_DML in owner.flags
            rules.require(not owned, f"{place}.flags", must, breaks=False)
        *others, last = [rules.location(name) for name in tensors if name.startswith("output")]
        no_output = all(getattr(self, name) is None for name in tensors if name.startswith("output"))
        rules.require(not no_output, "", f"{', '.join(others)} or {last} must be given", breaks=False)
        count = rules.integer("activation_desc_count")
        if rules.ready("direction") and count is not None:
            expected = self.direction_count * self.activations_each
            must = f"must be {expected}, {_NUMBERS[self.activations_each]} a direction"
            rules.require(count == expected, "activation_desc_count", must, count)
        self._check_sizes(rules)

    def tensor_sizes(self) -> dict[str, str]:
        """The sizes of every tensor: numbers, letters, and multiples of the hidden size."""
        states, rows = "1 D N H", f"{self.gates}H".removeprefix("1")
        return {
            "input_tensor": "1 S N I",
            "weight_tensor": f"1 D {rows} I",
            "recurrence_tensor": f"1 D {rows} H",
            "bias_tensor": f"1 1 D {2 * self.gates}H",
            "hidden_init_tensor": states,
            "cell_mem_init_tensor": states,
            "sequence_lengths_tensor": "1 1 1 N",
            "peephole_tensor": "1 1 D 3H",
            "output_sequence_tensor": "S D N H",
            "output_single_tensor": states,
            "output_cell_single_tensor": states,
        }

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
        }
        for factor in (2, 3, 4, 6, 8):
            source = f"{factor} * RecurrenceTensor.Sizes[3]"
            sizes[f"{factor}H"] = (None if hidden is None else factor * hidden, source)
        for name, letters in self.tensor_sizes().items():
            if getattr(self, name, None) is not None and rules.rank(name) == len(letters.split()):
                for i, letter in enumerate(letters.split()):
                    rules.size_is(name, i, *sizes[letter])


class Rnn(Recurrent, type=OperatorType.RNN, since="1_0"):
    """One-layer simple (Elman) recurrent network over a sequence, forward, backward or both.

    Input {1, sequence length S, batch N, input size I}, weights {1, D, hidden size H, I}, recurrence {1, D, H, H},
    bias {1, 1, D, 2 H}, initial hidden state {1, D, N, H}, sequence lengths {1, 1, 1, N}; outputs {S, D, N, H} and
    {1, D, N, H}. D is the number of directions, one activation for each.
    """

    def define(self) -> Definition:
        """``H = f(x * W + (W_b + R_b) + H * R)``, step after step."""
        return Network(self).definition()


class Gru(Recurrent, type=OperatorType.GRU, since="1_0"):
    """One-layer gated recurrent unit over a sequence, forward, backward or both.

    Input {1, sequence length S, batch N, input size I}; gates z (update), r (reset) and h (candidate) one behind the
    other in weights {1, D, 3 H, I}, recurrence {1, D, 3 H, H} and bias {1, 1, D, 6 H}, first those of the weights;
    initial hidden state {1, D, N, H}, sequence lengths {1, 1, 1, N}; outputs {S, D, N, H} and {1, D, N, H}. D is the
    number of directions, two activations for each: f of the gates, g of the candidate.
    """

    linear_before_reset: Value[bool] = boolean()

    gates = GatedNetwork.gates
    activations_each = 2

    def define(self) -> Definition:
        """``z = f(...), r = f(...), h = g(...), H = (1 - z) . h + z . H``, step after step.

        The candidate's product is ``(r . H) * R_h`` or, with LinearBeforeReset, ``r . (H * R_h + R_bh)``.
        """
        return GatedNetwork(self).definition()


class Lstm(Recurrent, type=OperatorType.LSTM, since="1_0"):
    """One-layer long short-term memory over a sequence, forward, backward or both.

    Input {1, sequence length S, batch N, input size I}; gates i (input), o (output), f (forget) and c (candidate) one
    behind the other in weights {1, D, 4 H, I}, recurrence {1, D, 4 H, H} and bias {1, 1, D, 8 H}, first those of the
    weights, the first three in peepholes {1, 1, D, 3 H}; initial hidden and cell states {1, D, N, H}, sequence lengths
    {1, 1, 1, N}; outputs {S, D, N, H}, {1, D, N, H} and, of the cell, {1, D, N, H}. D is the number of directions,
    three activations for each: f of the gates, g of the candidate, h of the cell.
    """

    cell_mem_init_tensor: Value[TensorDesc | None] = tensor_input(default=None, after="hidden_init_tensor")
    peephole_tensor: Value[TensorDesc | None] = tensor_input(default=None, after="sequence_lengths_tensor")
    output_cell_single_tensor: Value[TensorDesc | None] = tensor_output(default=None, after="output_single_tensor")
    clip_threshold: Number = float_value()
    use_clip_threshold: Value[bool] = boolean()
    couple_input_forget: Value[bool] = boolean()

    gates = MemoryNetwork.gates
    activations_each = 3

    def define(self) -> Definition:
        """``i = f(...), f = f(...), c = g(...), C = f . C + i . c, o = f(...), H = o . h(C)``, step after step."""
        return MemoryNetwork(self).definition()
