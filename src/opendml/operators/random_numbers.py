"""RANDOM_GENERATOR: random bits from a counter, Philox 4x32-10.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC11).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from opendml.description.data_types import UINT32_ONLY
from opendml.description.descriptors import Operator, at, enumeration, levels, tensor_input, tensor_output
from opendml.description.enums import OperatorType, RandomGeneratorType
from opendml.expression.element_types import U32, U64
from opendml.expression.ir import Axis, Expression, Tensor, cast, constant, index, load, temporary
from opendml.expression.positions import row_major
from opendml.expression.statements import Compute, Definition, Statement, Store
from opendml.operators.definition import chosen, every_element, optional_tensor, tensor

if TYPE_CHECKING:
    from opendml.description.field_types import Member, Value
    from opendml.description.rules import Rules
    from opendml.description.tensor import TensorDesc

STATE_WORDS: Final = 6
"""Words of a state: four of the counter, the lowest first, and two of the key."""

COUNTER_WORDS: Final = 4
ROUNDS: Final = 10
MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
"""What is added to the two words of the key before every round but the first: the golden ratio, and sqrt(3) - 1."""


class RandomGenerator(Operator, type=OperatorType.RANDOM_GENERATOR, since="3_0"):
    """Random bits, every word of 32 bits equally likely, from a counter and a key.

    The state has six elements: a counter of 128 bits, its lowest word first, and a key of 64 bits. Every value of the
    counter gives four words. The output state has the counter behind the last one used, and the same key.
    """

    input_state_tensor: Value[TensorDesc] = tensor_input()
    output_tensor: Value[TensorDesc] = tensor_output()
    output_state_tensor: Value[TensorDesc | None] = tensor_output(default=None)
    generator_type: Member[RandomGeneratorType] = enumeration(
        RandomGeneratorType, default=RandomGeneratorType.PHILOX_4X32_10, json_name="Type"
    )

    support = levels(
        at("4_0", (1, 8), UINT32_ONLY),
        at("3_0", (4, 4), UINT32_ONLY),
    )

    def check(self, rules: Rules) -> None:
        """States are {1, ..., 1, 6}."""
        rules.same_rank("input_state_tensor", "output_state_tensor")
        for place, state in rules.tensors("input_state_tensor", "output_state_tensor"):
            sizes = [1] * (state.rank - 1) + [STATE_WORDS]
            rules.sizes_are(place, sizes, why="as a state is {1, ..., 1, 6}")

    def define(self) -> Definition:
        """Four words for every value of the counter, in element order."""
        state = tensor("InputStateTensor", self.input_state_tensor, "input")
        target = tensor("OutputTensor", self.output_tensor, "output")
        after = optional_tensor("OutputStateTensor", self.output_state_tensor, "output")
        count = self.output_tensor.element_count
        words = temporary("words", U32, [count])
        statements: list[Statement] = [
            *_words(state, words),
            every_element(target, lambda o: load(words, [row_major(o, target.sizes)])),
        ]
        if after is not None:
            used = constant(-(-count // COUNTER_WORDS), U32)
            following = [*_counter(state, used), *_key(state)]
            statements.append(every_element(after, lambda o: chosen(following, o[-1])))
        return Definition((state,), (target, after), tuple(statements), (words,))


def _words(state: Tensor, target: Tensor) -> list[Statement]:
    """All whole blocks of four words, and what there is of the last one."""
    whole, rest = divmod(target.sizes[0], COUNTER_WORDS)
    parts = [(Axis("b", whole), 0, COUNTER_WORDS), (Axis("b", 1), whole, rest)]
    return [_blocks(state, target, blocks, first, words) for blocks, first, words in parts if blocks.size and words]


def _blocks(state: Tensor, target: Tensor, blocks: Axis, first: int, words: int) -> Compute:
    """The first ``words`` words of blocks from number ``first`` on, in row-major order."""
    word = Axis("w", words)
    block = index(blocks) + first
    values = philox(_counter(state, cast(block, U32)), _key(state))[:words]
    place = block * COUNTER_WORDS + index(word)
    return Compute((blocks, word), (Store(target, (place,), chosen(values, index(word))),))


def philox(counter: Sequence[Expression], key: Sequence[Expression]) -> list[Expression]:
    """The four words that Philox 4x32-10 makes of a counter of four words and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for number in range(ROUNDS):
        if number:
            k0, k1 = k0 + KEY_STEPS[0], k1 + KEY_STEPS[1]
        (high0, low0), (high1, low1) = _product(c0, MULTIPLIERS[0]), _product(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return [c0, c1, c2, c3]


def _product(word: Expression, factor: int) -> tuple[Expression, Expression]:
    """The high and the low word of a product."""
    whole = cast(word, U64) * factor
    return cast(whole >> 32, U32), cast(whole, U32)


def _counter(state: Tensor, steps: Expression) -> list[Expression]:
    """The counter of a state, that many steps (less than 2^32) ahead, modulo 2^128."""
    words, carry = [], steps
    for word in _state_words(state)[:COUNTER_WORDS]:
        moved = word + carry
        words.append(moved)
        carry = cast(moved < carry, U32)
    return words


def _key(state: Tensor) -> list[Expression]:
    return _state_words(state)[COUNTER_WORDS:]


def _state_words(state: Tensor) -> list[Expression]:
    return [load(state, [*itertools.repeat(0, len(state.sizes) - 1), i]) for i in range(STATE_WORDS)]
