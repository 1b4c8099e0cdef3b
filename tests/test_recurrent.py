"""RNN against a plain loop in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from execution import Array, inputs, outputs, random_array, run_operator, seeds
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from opendml import operators
from opendml.description.enums import RecurrentNetworkDirection
from opendml.description.tensor import TensorDesc
from opendml.operators import recurrent

bounded = examples(30)
TANH, RELU = operators.ActivationTanh(), operators.ActivationRelu()
FUNCTIONS = {TANH.type: np.tanh, RELU.type: lambda x: np.maximum(x, 0)}


def recur(desc: operators.Rnn, arrays: list[Array | None]) -> tuple[Array, Array]:
    """The steps of the specification, one item of the batch at a time."""
    x, weights, recurrence, bias, initial, lengths = (None if a is None else a.astype(np.float64) for a in arrays)
    assert x is not None and weights is not None and recurrence is not None
    _, length, batch, _ = x.shape
    _, directions, hidden, _ = recurrence.shape
    sequence, single = np.zeros((length, directions, batch, hidden)), np.zeros((1, directions, batch, hidden))
    for d, b in itertools.product(range(directions), range(batch)):
        function = FUNCTIONS[desc.activation_descs[d].type]
        state = np.zeros(hidden) if initial is None else initial[0, d, b]
        count = length if lengths is None else min(int(lengths[0, 0, 0, b]), length)
        times = list(range(count))
        if desc.direction == RecurrentNetworkDirection.BACKWARD or d == 1:
            times.reverse()
        for time in times:
            total = x[0, time, b] @ weights[0, d].T + state @ recurrence[0, d].T
            if bias is not None:
                total = total + bias[0, 0, d, :hidden] + bias[0, 0, d, hidden:]
            state = sequence[time, d, b] = function(total)
        single[0, d, b] = state
    return sequence, single


@st.composite
def networks(draw: st.DrawFn) -> operators.Rnn:
    """Networks of all directions, with and without the optional tensors, in all layouts."""
    length, batch, width, hidden = (draw(st.integers(1, 4)) for _ in range(4))
    direction = draw(st.sampled_from(RecurrentNetworkDirection))
    directions = 2 if direction == RecurrentNetworkDirection.BIDIRECTIONAL else 1
    data_type = draw(st.sampled_from(["FLOAT32", "FLOAT16"]))
    sizes = {
        "input_tensor": [1, length, batch, width],
        "weight_tensor": [1, directions, hidden, width],
        "recurrence_tensor": [1, directions, hidden, hidden],
        "bias_tensor": [1, 1, directions, 2 * hidden],
        "hidden_init_tensor": [1, directions, batch, hidden],
    }
    optional = {"bias_tensor", "hidden_init_tensor"}
    fields: dict[str, Any] = {
        name: draw(inputs(data_type, shape))
        for name, shape in sizes.items()
        if name not in optional or draw(st.booleans())
    }
    if draw(st.booleans()):
        fields["sequence_lengths_tensor"] = draw(inputs("UINT32", [1, 1, 1, batch]))
    kept = draw(st.sampled_from([{"sequence"}, {"single"}, {"sequence", "single"}]))
    if "sequence" in kept:
        fields["output_sequence_tensor"] = draw(outputs(data_type, [length, directions, batch, hidden]))
    if "single" in kept:
        fields["output_single_tensor"] = draw(outputs(data_type, [1, directions, batch, hidden]))
    activations = tuple(draw(st.sampled_from([TANH, RELU])) for _ in range(directions))
    return operators.Rnn(direction=direction, activation_descs=activations, **fields)


def arrays_of(desc: operators.Rnn, seed: int) -> list[Array | None]:
    """Small values, and lengths from 0 to more than there are steps."""
    arrays: list[Array | None] = []
    for number, (name, tensor) in enumerate(desc.inputs()):
        if tensor is None:
            arrays.append(None)
        elif name == "SequenceLengthsTensor":
            repeated = random_array(tensor, seed + number, special=False).astype(np.uint32)
            arrays.append(repeated % np.uint32(desc.input_tensor.sizes[1] + 2))
        else:
            values = random_array(tensor, seed + number, special=False)
            arrays.append((values / values.dtype.type(4)).astype(values.dtype))
    return arrays


@bounded
@given(desc=networks(), seed=seeds, has_room=st.booleans())
def test_networks(desc: operators.Rnn, seed: int, has_room: bool) -> None:
    arrays = arrays_of(desc, seed)
    tolerance = 1e-5 if desc.input_tensor.data_type.name == "FLOAT32" else 2e-3
    with pytest.MonkeyPatch.context() as patch:
        if not has_room:
            patch.setattr(recurrent, "PROJECTED_GROWTH", 0)
            patch.setattr(recurrent, "UNPROJECTED_ELEMENTS", 0)
        outcome = run_operator(desc, arrays)
    for actual, expected in zip(outcome, recur(desc, arrays), strict=True):
        if actual is not None:
            scale = max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)


def test_without_steps_the_initial_state_remains() -> None:
    desc = operators.Rnn(
        input_tensor=TensorDesc("float32", [1, 3, 2, 1]),
        weight_tensor=TensorDesc("float32", [1, 1, 2, 1]),
        recurrence_tensor=TensorDesc("float32", [1, 1, 2, 2]),
        hidden_init_tensor=TensorDesc("float32", [1, 1, 2, 2]),
        sequence_lengths_tensor=TensorDesc("uint32", [1, 1, 1, 2]),
        output_sequence_tensor=TensorDesc("float32", [3, 1, 2, 2]),
        output_single_tensor=TensorDesc("float32", [1, 1, 2, 2]),
        activation_descs=(RELU,),
        direction=RecurrentNetworkDirection.BACKWARD,
    )
    ones = np.ones((1, 1, 2, 2), np.float32)
    lengths = np.array([[[[0, 2**32 - 1]]]], np.uint32)
    arrays = [np.full((1, 3, 2, 1), np.nan, np.float32), np.ones((1, 1, 2, 1), np.float32), ones, None, ones, lengths]
    arrays[0][:, :, 1] = 1
    sequence, single = run_operator(desc, arrays)
    assert single.tolist() == [[[[1, 1], [15, 15]]]]
    assert sequence[:, 0].tolist() == [[[0, 0], [15, 15]], [[0, 0], [7, 7]], [[0, 0], [3, 3]]]


@pytest.mark.parametrize("direction", [RecurrentNetworkDirection.FORWARD, RecurrentNetworkDirection.BIDIRECTIONAL])
def test_as_torch(direction: RecurrentNetworkDirection) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    directions = 2 if direction == RecurrentNetworkDirection.BIDIRECTIONAL else 1
    network = torch.nn.RNN(3, 5, nonlinearity="tanh", bidirectional=directions == 2)
    x = torch.randn(4, 2, 3)
    with torch.no_grad():
        sequence, single = network(x)

    def stacked(name: str) -> Array:
        parts = [getattr(network, name + suffix).detach().numpy() for suffix in ("_l0", "_l0_reverse")[:directions]]
        return np.stack(parts)

    bias = np.concatenate([stacked("bias_ih"), stacked("bias_hh")], axis=1)[None, None]
    arrays = [x.numpy()[None], stacked("weight_ih")[None], stacked("weight_hh")[None], bias, None, None]
    names = ("input_tensor", "weight_tensor", "recurrence_tensor", "bias_tensor")
    desc = operators.Rnn(
        **{name: TensorDesc("float32", a.shape) for name, a in zip(names, arrays, strict=False)},
        output_sequence_tensor=TensorDesc("float32", [4, directions, 2, 5]),
        output_single_tensor=TensorDesc("float32", [1, directions, 2, 5]),
        activation_descs=(TANH,) * directions,
        direction=direction,
    )
    own_sequence, own_single = run_operator(desc, arrays)
    expected = sequence.numpy().reshape(4, 2, directions, 5).swapaxes(1, 2)
    np.testing.assert_allclose(own_sequence, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(own_single[0], single.numpy(), rtol=1e-5, atol=1e-6)
