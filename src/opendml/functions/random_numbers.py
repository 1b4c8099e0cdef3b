"""Random bits: random_generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from opendml.building.operands import OperandRules
from opendml.description.descriptors import Operator
from opendml.description.enums import RandomGeneratorType, TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Operand, evaluate, integers, operand_rules
from opendml.functions.element_wise import packed
from opendml.functions.several import several
from opendml.functions.signatures import operator_function
from opendml.operators.random_numbers import RandomGenerator
from opendml.programs.device import Device

T = TypeVar("T")


@several
class RandomGeneratorOutputs(NamedTuple, Generic[T]):
    """What ``random_generator`` returns; ``state`` is None if it was not asked for."""

    values: T
    state: T | None


@operator_function
def random_generator(
    input_state: Operand,
    *,
    output_sizes: Sequence[int],
    output_state: bool = True,
    generator_type: RandomGeneratorType | str = RandomGeneratorType.PHILOX_4X32_10,
    device: Device | None = None,
    out: Any = None,
) -> RandomGeneratorOutputs[Any]:
    """Random bits, uint32, a function of nothing but the state (RANDOM_GENERATOR).

    ``input_state``: uint32, {1, ..., 1, 6}: a counter of four words, the lowest first, and a key of two. A counter
    usually begins with zeros, a key is a seed. ``output_sizes``: any. Returns the ``values`` and, with
    ``output_state``, the ``state`` to go on with. Not for cryptography.

    >>> state = np.array([0, 0, 0, 0, 42, 0], "uint32")
    >>> random = dml.random_generator(state, output_sizes=[2, 3])
    >>> random.values.shape, random.state.tolist()
    ((2, 3), [2, 0, 0, 0, 42, 0])
    >>> fractions = (random.values >> 8) * np.float32(2**-24)  # 24 bits, from 0 to 1
    """
    parameters = (integers(output_sizes), output_state, generator_type)
    outputs = evaluate(_random_generator, (input_state,), parameters, device=device, out=out)
    return RandomGeneratorOutputs(outputs[0], outputs[1] if output_state else None)


@operand_rules(OperandRules("s", {"s": np.dtype(np.uint32)}))
def _random_generator(input_state: TensorDesc, output_sizes: Any, output_state: Any, generator_type: Any) -> Operator:
    return RandomGenerator(
        input_state_tensor=input_state,
        output_tensor=TensorDesc(TensorDataType.UINT32, output_sizes),
        output_state_tensor=packed(input_state) if output_state else None,
        generator_type=generator_type,
    )
