"""RNN: recurrent networks over sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opendml.data_types import FLOATS, UINT32_ONLY
from opendml.descriptors import (
    Operator,
    at,
    count_of,
    enumeration,
    levels,
    operator_array,
    tensor_input,
    tensor_output,
)
from opendml.enums import OperatorType, RecurrentNetworkDirection, TensorFlags
from opendml.operators.activation import FUSABLE

if TYPE_CHECKING:
    from opendml.rules import Rules
    from opendml.tensor import TensorDesc


class Rnn(Operator, type=OperatorType.RNN, since="1_0"):
    """One-layer simple (Elman) recurrent network over a sequence, forward, backward or both.

    Input {1, sequence length S, batch N, input size I}, weights {1, D, hidden size H, I}, recurrence {1, D, H, H},
    bias {1, 1, D, 2 H}, initial hidden state {1, D, N, H}, sequence lengths {1, 1, 1, N}; outputs {S, D, N, H} and
    {1, D, N, H}. D is the number of directions, one activation for each.
    """

    input_tensor: TensorDesc = tensor_input()
    weight_tensor: TensorDesc = tensor_input()
    recurrence_tensor: TensorDesc = tensor_input()
    bias_tensor: TensorDesc | None = tensor_input(default=None)
    hidden_init_tensor: TensorDesc | None = tensor_input(default=None)
    sequence_lengths_tensor: TensorDesc | None = tensor_input(default=None)
    output_sequence_tensor: TensorDesc | None = tensor_output(default=None)
    output_single_tensor: TensorDesc | None = tensor_output(default=None)
    activation_desc_count: int = count_of("activation_descs", default=None)
    activation_descs: tuple[Operator, ...] = operator_array(FUSABLE, count="activation_desc_count")
    direction: RecurrentNetworkDirection = enumeration(RecurrentNetworkDirection)

    support = levels(at("1_0", (4, 4), FLOATS, sequence_lengths_tensor=UINT32_ONLY))

    @property
    def direction_count(self) -> int:
        """The number of directions, 1 or 2."""
        return 2 if self.direction == RecurrentNetworkDirection.BIDIRECTIONAL else 1

    def check(self, rules: Rules) -> None:
        """All sizes follow from the input, the hidden size and the direction."""
        tensors = [name for name, field in self.fields.items() if hasattr(field, "direction")]
        rules.same_data_type(*(name for name in tensors if name != "sequence_lengths_tensor"))
        for place, tensor in rules.tensors(*(name for name in tensors if not name.startswith("output"))):
            must = "must not have DML_TENSOR_FLAG_OWNED_BY_DML, which this operator does not support"
            owned = TensorFlags.OWNED_BY_DML in tensor.flags
            rules.require(not owned, f"{place}.flags", must, breaks=False)
        no_output = self.output_sequence_tensor is None and self.output_single_tensor is None
        rules.require(not no_output, "", "OutputSequenceTensor or OutputSingleTensor must be given", breaks=False)
        if rules.ready("direction", "activation_desc_count"):
            must = f"must be {self.direction_count}, one activation a direction"
            count = self.activation_desc_count
            rules.require(count == self.direction_count, "activation_desc_count", must, count)
        # Tensors of any other rank than 4 are broken.
        if rules.ready("direction", "input_tensor", "recurrence_tensor"):
            self._check_sizes(rules)

    def _check_sizes(self, rules: Rules) -> None:
        _, length, batch, input_size = self.input_tensor.sizes
        hidden = self.recurrence_tensor.sizes[3]
        directions = self.direction_count
        expected = {
            "input_tensor": (1, length, batch, input_size),
            "weight_tensor": (1, directions, hidden, input_size),
            "recurrence_tensor": (1, directions, hidden, hidden),
            "bias_tensor": (1, 1, directions, 2 * hidden),
            "hidden_init_tensor": (1, directions, batch, hidden),
            "sequence_lengths_tensor": (1, 1, 1, batch),
            "output_sequence_tensor": (length, directions, batch, hidden),
            "output_single_tensor": (1, directions, batch, hidden),
        }
        for name, sizes in expected.items():
            rules.sizes_are(name, sizes, "by InputTensor.Sizes, RecurrenceTensor.Sizes[3] and Direction")
