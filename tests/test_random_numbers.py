"""RANDOM_GENERATOR: known answers of Philox, and a formulation with Python's own integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from execution import inputs, outputs, run_operator, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate

Array = np.ndarray[Any, Any]
WORD = 1 << 32


def philox(counter: int, key: int) -> list[int]:
    """The four words of a counter, lowest first."""
    c = [counter >> 32 * i & WORD - 1 for i in range(4)]
    k = [key >> 32 * i & WORD - 1 for i in range(2)]
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second // WORD ^ c[1] ^ k[0], second % WORD, first // WORD ^ c[3] ^ k[1], first % WORD]
        k = [(k[0] + 0x9E3779B9) % WORD, (k[1] + 0xBB67AE85) % WORD]
    return c


def number_of(words: Array) -> int:
    return sum(int(word) << 32 * i for i, word in enumerate(words.reshape(-1)))


def expected(state: Array, count: int) -> tuple[list[int], list[int]]:
    """The first words from a state on, and the state afterwards."""
    counter, key = number_of(state.reshape(-1)[:4]), number_of(state.reshape(-1)[4:])
    blocks = -(-count // 4)
    words = [word for b in range(blocks) for word in philox((counter + b) % WORD**4, key)]
    after = (counter + blocks) % WORD**4
    return words[:count], [*(after >> 32 * i & WORD - 1 for i in range(4)), *map(int, state.reshape(-1)[4:])]


# What Random123 publishes for Philox 4x32-10.
KNOWN = [
    ("00000000 00000000 00000000 00000000 00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("state", "answer"), KNOWN)
def test_known_answers(state: str, answer: str) -> None:
    words = np.array([int(word, 16) for word in state.split()], np.uint32)
    found = dml.random_generator(words, output_sizes=[4]).values
    assert [f"{word:08x}" for word in found] == answer.split()
    assert expected(words, 4)[0] == found.tolist()


# Beginnings of counters: everywhere, and where words carry.
counters = st.one_of(
    st.integers(0, WORD**4 - 1),
    st.sampled_from([0, 1, 2, 3, 4]).flatmap(
        lambda words: st.integers(0, 40).map(lambda n: (WORD**words - n) % WORD**4)
    ),
)


@examples(40)
@given(data=st.data(), shape=sizes(), rank=st.integers(1, 8), counter=counters, seed=seeds)
def test_words_and_states(data: st.DataObject, shape: list[int], rank: int, counter: int, seed: int) -> None:
    state_sizes = [1] * (rank - 1) + [6]
    source = data.draw(inputs("UINT32", state_sizes))
    state = np.random.default_rng(seed).integers(0, WORD, 6, dtype=np.uint32)
    state[:4] = [counter >> 32 * i & WORD - 1 for i in range(4)]
    if source.effective_strides[-1] == 0:
        state[:] = state[0]
    has_state = data.draw(st.booleans())
    desc = operators.RandomGenerator(
        input_state_tensor=source,
        output_tensor=data.draw(outputs("UINT32", shape)),
        output_state_tensor=data.draw(outputs("UINT32", state_sizes)) if has_state else None,
    )
    words, after = run_operator(desc, [state.reshape(state_sizes)])
    right_words, right_state = expected(state, words.size)
    assert words.reshape(-1).tolist() == right_words
    assert after is None if not has_state else after.reshape(-1).tolist() == right_state


@pytest.mark.parametrize("count", [1, 3, 4, 5, 127, 4099])
def test_a_state_goes_on_where_it_was(count: int) -> None:
    """Two calls, the second from the state of the first, give what one call gives, from whole blocks on."""
    state = np.array([WORD - 2, WORD - 1, 0, 0, 5, 7], np.uint32)
    first = dml.random_generator(state, output_sizes=[count])
    assert first.state is not None
    second = dml.random_generator(first.state, output_sizes=[6])
    blocks = -(-count // 4) * 4
    whole = dml.random_generator(state, output_sizes=[blocks + 6], output_state=False)
    assert whole.state is None
    np.testing.assert_array_equal(whole.values[:count], first.values)
    np.testing.assert_array_equal(whole.values[blocks:], second.values)


def test_all_threads_have_the_same_numbers() -> None:
    """Enough for several threads."""
    state = np.arange(6, dtype=np.uint32)
    results = [
        dml.random_generator(state, output_sizes=[3, 33335], device=dml.Device(thread_count=count))
        for count in (1, 2, 7)
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result.values, results[0].values)
        np.testing.assert_array_equal(result.state, results[0].state)
    assert results[0].values[-1, -3:].tolist() == expected(state, 3 * 33335)[0][-3:]


def test_bits_are_equally_likely() -> None:
    words = dml.random_generator(np.arange(6, dtype=np.uint32), output_sizes=[1 << 14], output_state=False).values
    shares = [float((words >> bit & 1).mean()) for bit in range(32)]
    assert max(abs(share - 0.5) for share in shares) < 0.02


def test_all_that_is_wrong_with_a_state() -> None:
    desc = operators.RandomGenerator(
        input_state_tensor=TensorDesc("UINT32", [1, 2, 5]),
        output_tensor=TensorDesc("UINT32", [3]),
        output_state_tensor=TensorDesc("UINT32", [7]),
        generator_type="MERSENNE",
    )
    found = {violation.field: violation.rule for violation in validate(desc)}
    assert found == {
        "Type": "must be a DML_RANDOM_GENERATOR_TYPE (one of PHILOX_4X32_10)",
        "OutputStateTensor": "must have the DimensionCount of InputStateTensor, 3",
        "InputStateTensor.Sizes[1]": "must be 1, as a state is {1, ..., 1, 6}",
        "InputStateTensor.Sizes[2]": "must be 6, as a state is {1, ..., 1, 6}",
        "OutputStateTensor.Sizes[0]": "must be 6, as a state is {1, ..., 1, 6}",
    }


def test_the_type_in_json() -> None:
    """The field is called as the operator's own member: nested they are apart, inline by their letter case."""
    tensors = {name: {"DataType": "UINT32", "Sizes": [1, 1, 1, 6]} for name in ("InputStateTensor", "OutputTensor")}
    nested = {"Type": "RANDOM_GENERATOR", "Desc": {**tensors, "Type": "PHILOX_4X32_10"}}
    inline = {"type": "DML_OPERATOR_RANDOM_GENERATOR", **tensors, "Type": "DML_RANDOM_GENERATOR_TYPE_PHILOX_4X32_10"}
    desc = dml.OperatorDesc.from_json(nested)
    assert desc == dml.OperatorDesc.from_json(inline) == dml.OperatorDesc.from_json(desc.to_json())
    assert desc.to_json()["Desc"]["Type"] == "DML_RANDOM_GENERATOR_TYPE_PHILOX_4X32_10"


def test_a_graph_of_uniform_numbers() -> None:
    graph = dml.Graph()
    state = graph.input("uint32", [6])
    random = dml.random_generator(state, output_sizes=[5, 7])
    bits = dml.bit_or(dml.bit_and(random.values, np.uint32(0x7FFFFF)), np.uint32(0x3F800000))
    program = graph.compile([dml.reinterpret(bits, data_type="float32"), random.state])
    given = np.array([9, 0, 0, 0, 1, 2], np.uint32)
    numbers, after = program(given)
    words = np.array(expected(given, 35)[0], np.uint32).reshape(5, 7)
    np.testing.assert_array_equal(numbers, (words & 0x7FFFFF | 0x3F800000).view(np.float32))
    assert after.tolist() == expected(given, 35)[1]
