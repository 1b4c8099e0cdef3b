"""Recurrent networks: rnn, gru, lstm."""

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
from opendml.operators.recurrent import Gru, Lstm, Rnn
from opendml.programs.device import Device

T = TypeVar("T")


@several
class RnnOutputs(NamedTuple, Generic[T]):
    """What ``rnn`` returns; None for what was not asked for."""

    sequence: T | None
    single: T | None


@several
class GruOutputs(NamedTuple, Generic[T]):
    """What ``gru`` returns; None for what was not asked for."""

    sequence: T | None
    single: T | None


@several
class LstmOutputs(NamedTuple, Generic[T]):
    """What ``lstm`` returns; None for what was not asked for."""

    sequence: T | None
    single: T | None
    cell_single: T | None


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


@operator_function
def gru(
    input: Operand,
    weight: Operand,
    recurrence: Operand,
    bias: Operand | None = None,
    hidden_init: Operand | None = None,
    sequence_lengths: Operand | None = None,
    *,
    activation_descs: Sequence[Operator] | None = None,
    direction: RecurrentNetworkDirection | str = RecurrentNetworkDirection.FORWARD,
    linear_before_reset: bool = False,
    output_sequence: bool = True,
    output_single: bool = True,
    device: Device | None = None,
    out: Any = None,
) -> GruOutputs[Any]:
    """A gated recurrent unit over a sequence, ``H = (1 - z) * h + z * H`` step by step (GRU).

    ``input``: {1, S, N, I}, float32 or float16: S steps, batches of N, I features. The gates z, r and h follow one
    another in ``weight``: {1, D, 3 H, I}, ``recurrence``: {1, D, 3 H, H} and ``bias``: {1, 1, D, 6 H}, first those of
    the weights. ``hidden_init``: {1, D, N, H}, ``sequence_lengths``: {1, 1, 1, N}, uint32. D directions: 2 for
    ``BIDIRECTIONAL``, else 1. ``activation_descs``: two activations without tensors a direction, that of z and r and
    that of h, by default sigmoid and tanh. ``linear_before_reset``: whether r multiplies the product of the state, as
    in PyTorch and cuDNN, or the state itself. Returns ``sequence``, {S, D, N, H}: the state after every step, and
    ``single``, {1, D, N, H}: the last one.

    >>> ones, halves = np.ones((1, 1, 3, 1), "float32"), [dml.fused_activation.linear(alpha=0, beta=0.5)]
    >>> x = np.ones((1, 3, 1, 1), "float32")
    >>> states = dml.gru(x, ones, 0 * ones, activation_descs=[*halves, dml.fused_activation.relu()])
    >>> states.sequence.ravel().tolist(), states.single.item()
    ([0.5, 0.75, 0.875], 0.875)
    """
    operands = (input, weight, recurrence, bias, hidden_init, sequence_lengths)
    parameters = (integers(activation_descs), direction, linear_before_reset, output_sequence, output_single)
    return GruOutputs(*evaluate(_gru, operands, parameters, optional=3, device=device, out=out))


@operator_function
def lstm(
    input: Operand,
    weight: Operand,
    recurrence: Operand,
    bias: Operand | None = None,
    hidden_init: Operand | None = None,
    cell_mem_init: Operand | None = None,
    sequence_lengths: Operand | None = None,
    peephole: Operand | None = None,
    *,
    activation_descs: Sequence[Operator] | None = None,
    direction: RecurrentNetworkDirection | str = RecurrentNetworkDirection.FORWARD,
    clip_threshold: float | None = None,
    couple_input_forget: bool = False,
    output_sequence: bool = True,
    output_single: bool = True,
    output_cell_single: bool = True,
    device: Device | None = None,
    out: Any = None,
) -> LstmOutputs[Any]:
    """A long short-term memory over a sequence, ``C = f * C + i * c``, ``H = o * tanh(C)`` step by step (LSTM).

    ``input``: {1, S, N, I}, float32 or float16: S steps, batches of N, I features. The gates i, o, f and c follow one
    another in ``weight``: {1, D, 4 H, I}, ``recurrence``: {1, D, 4 H, H} and ``bias``: {1, 1, D, 8 H}, first those of
    the weights, and i, o and f in ``peephole``: {1, 1, D, 3 H}. ``hidden_init`` and ``cell_mem_init``: {1, D, N, H},
    ``sequence_lengths``: {1, 1, 1, N}, uint32. D directions: 2 for ``BIDIRECTIONAL``, else 1. ``activation_descs``:
    three activations without tensors a direction, that of i, o and f, that of c and that of C, by default sigmoid, tanh
    and tanh. ``clip_threshold``: what is activated is clipped to plus and minus that, but for C. Where
    ``couple_input_forget``, f is 1 - i. Returns ``sequence``, {S, D, N, H}: the state after every step, ``single``,
    {1, D, N, H}: the last one, and ``cell_single``, likewise: the last C.

    >>> ones, half = np.ones((1, 1, 4, 1), "float32"), dml.fused_activation.linear(alpha=0, beta=0.5)
    >>> x, relu = np.ones((1, 3, 1, 1), "float32"), dml.fused_activation.relu()
    >>> states = dml.lstm(x, ones, 0 * ones, activation_descs=[half, relu, relu])
    >>> states.sequence.ravel().tolist(), states.cell_single.item()
    ([0.25, 0.375, 0.4375], 0.875)
    """
    operands = (input, weight, recurrence, bias, hidden_init, cell_mem_init, sequence_lengths, peephole)
    outputs = (output_sequence, output_single, output_cell_single)
    parameters = (integers(activation_descs), direction, couple_input_forget, *outputs)
    numbers = (clip_threshold,)
    return LstmOutputs(*evaluate(_lstm, operands, parameters, numbers, optional=5, device=device, out=out))


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
    states = _States(input, recurrence, direction)
    return Rnn(
        input_tensor=input,
        weight_tensor=weight,
        recurrence_tensor=recurrence,
        bias_tensor=bias,
        hidden_init_tensor=hidden_init,
        sequence_lengths_tensor=sequence_lengths,
        output_sequence_tensor=states.sequence(output_sequence),
        output_single_tensor=states.single(output_single),
        activation_descs=states.activations(activation_descs, fused_activation.tanh()),
        direction=direction,
    )


@operand_rules(OperandRules("xxxxxl"))
def _gru(
    input: TensorDesc,
    weight: TensorDesc,
    recurrence: TensorDesc,
    bias: TensorDesc | None,
    hidden_init: TensorDesc | None,
    sequence_lengths: TensorDesc | None,
    activation_descs: Any,
    direction: Any,
    linear_before_reset: bool,
    output_sequence: bool,
    output_single: bool,
) -> Operator:
    states = _States(input, recurrence, direction)
    return Gru(
        input_tensor=input,
        weight_tensor=weight,
        recurrence_tensor=recurrence,
        bias_tensor=bias,
        hidden_init_tensor=hidden_init,
        sequence_lengths_tensor=sequence_lengths,
        output_sequence_tensor=states.sequence(output_sequence),
        output_single_tensor=states.single(output_single),
        activation_descs=states.activations(activation_descs, fused_activation.sigmoid(), fused_activation.tanh()),
        direction=direction,
        linear_before_reset=linear_before_reset,
    )


@operand_rules(OperandRules("xxxxxxlx"))
def _lstm(
    input: TensorDesc,
    weight: TensorDesc,
    recurrence: TensorDesc,
    bias: TensorDesc | None,
    hidden_init: TensorDesc | None,
    cell_mem_init: TensorDesc | None,
    sequence_lengths: TensorDesc | None,
    peephole: TensorDesc | None,
    activation_descs: Any,
    direction: Any,
    couple_input_forget: bool,
    output_sequence: bool,
    output_single: bool,
    output_cell_single: bool,
    clip_threshold: float | None,
) -> Operator:
    states = _States(input, recurrence, direction)
    tanh = fused_activation.tanh()
    return Lstm(
        input_tensor=input,
        weight_tensor=weight,
        recurrence_tensor=recurrence,
        bias_tensor=bias,
        hidden_init_tensor=hidden_init,
        cell_mem_init_tensor=cell_mem_init,
        sequence_lengths_tensor=sequence_lengths,
        peephole_tensor=peephole,
        output_sequence_tensor=states.sequence(output_sequence),
        output_single_tensor=states.single(output_single),
        output_cell_single_tensor=states.single(output_cell_single),
        activation_descs=states.activations(activation_descs, fused_activation.sigmoid(), tanh, tanh),
        direction=direction,
        clip_threshold=0 if clip_threshold is None else clip_threshold,
        use_clip_threshold=clip_threshold is not None,
        couple_input_forget=couple_input_forget,
    )


class _States:
    """What follows from the sizes of the input and the recurrence, and from the direction."""

    def __init__(self, input: TensorDesc, recurrence: TensorDesc, direction: Any) -> None:
        self._input, self._recurrence = input, recurrence
        self._directions = 2 if is_member(direction, RecurrentNetworkDirection.BIDIRECTIONAL) else 1

    def sequence(self, is_wanted: bool) -> TensorDesc | None:
        """All states."""
        return self._of(self._input.sizes[1] if self._input.rank > 1 else 1) if is_wanted else None

    def single(self, is_wanted: bool) -> TensorDesc | None:
        """The last state."""
        return self._of(1) if is_wanted else None

    def activations(self, given: Any, *defaults: Operator) -> Any:
        """Those given, or the default ones for every direction."""
        return defaults * self._directions if given is None else given

    def _of(self, steps: int) -> TensorDesc:
        input, recurrence = self._input, self._recurrence
        sizes = sizes_or(input.sizes, lambda: (steps, self._directions, input.sizes[2], recurrence.sizes[3]))
        return TensorDesc(input.data_type, sizes)
