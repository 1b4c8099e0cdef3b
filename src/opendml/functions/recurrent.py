"""Recurrent networks: rnn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from opendml.building.operands import OperandRules
from opendml.description.descriptors import Operator
from opendml.description.enums import RecurrentNetworkDirection
from opendml.description.tensor import TensorDesc
from opendml.functions import fused_activation
from opendml.functions.core import Operand, evaluate, integers, is_member, operand_rules, sizes_or
from opendml.functions.several import several
from opendml.functions.signatures import operator_function
from opendml.operators.recurrent import Rnn
from opendml.programs.device import Device

T = TypeVar("T")


@several
class RnnOutputs(NamedTuple, Generic[T]):
    """What ``rnn`` returns; None for what was not asked for."""

    sequence: T | None
    single: T | None


@operator_function
def rnn(
    input: Operand,
    weight: Operand,
    recurrence: Operand,
    bias: Operand | None = None,
    hidden_init: Operand | None = None,
    sequence_lengths: Operand | None = None,
    *,
    activation_descs: Sequence[Operator] | None = None,
    direction: RecurrentNetworkDirection | str = RecurrentNetworkDirection.FORWARD,
    output_sequence: bool = True,
    output_single: bool = True,
    device: Device | None = None,
    out: Any = None,
) -> RnnOutputs[Any]:
    """A simple recurrent network over a sequence, ``H = f(X @ W.T + H @ R.T + Wb + Rb)`` step by step (RNN).

    ``input``: {1, S, N, I}, float32 or float16: S steps, batches of N, I features. ``weight``: {1, D, H, I},
    ``recurrence``: {1, D, H, H}, ``bias``: {1, 1, D, 2 H}, ``hidden_init``: {1, D, N, H}, ``sequence_lengths``:
    {1, 1, 1, N}, uint32. D directions: 2 for ``BIDIRECTIONAL``, else 1. ``activation_descs``: one activation without
    tensors a direction, by default tanh. Returns ``sequence``, {S, D, N, H}: the state after every step, and
    ``single``, {1, D, N, H}: the last one.

    >>> one = np.ones((1, 1, 1, 1), "float32")
    >>> states = dml.rnn(np.ones((1, 3, 1, 1), "float32"), one, one, activation_descs=[dml.fused_activation.relu()])
    >>> states.sequence.ravel().tolist(), states.single.item()
    ([1.0, 2.0, 3.0], 3.0)
    """
    operands = (input, weight, recurrence, bias, hidden_init, sequence_lengths)
    parameters = (integers(activation_descs), direction, output_sequence, output_single)
    return RnnOutputs(*evaluate(_rnn, operands, parameters, optional=3, device=device, out=out))


@operand_rules(OperandRules("xxxxxl"))
def _rnn(
    input: TensorDesc,
    weight: TensorDesc,
    recurrence: TensorDesc,
    bias: TensorDesc | None,
    hidden_init: TensorDesc | None,
    sequence_lengths: TensorDesc | None,
    activation_descs: Any,
    direction: Any,
    output_sequence: bool,
    output_single: bool,
) -> Operator:
    directions = 2 if is_member(direction, RecurrentNetworkDirection.BIDIRECTIONAL) else 1

    def states(steps: int) -> TensorDesc:
        sizes = sizes_or(input.sizes, lambda: (steps, directions, input.sizes[2], recurrence.sizes[3]))
        return TensorDesc(input.data_type, sizes)

    return Rnn(
        input_tensor=input,
        weight_tensor=weight,
        recurrence_tensor=recurrence,
        bias_tensor=bias,
        hidden_init_tensor=hidden_init,
        sequence_lengths_tensor=sequence_lengths,
        output_sequence_tensor=states(input.sizes[1] if input.rank > 1 else 1) if output_sequence else None,
        output_single_tensor=states(1) if output_single else None,
        activation_descs=(fused_activation.tanh(),) * directions if activation_descs is None else activation_descs,
        direction=direction,
    )
