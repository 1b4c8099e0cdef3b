"""Operators that may write over their inputs give the same bits as when they do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from execution import assert_same_values, random_array

from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.programs.device import compile_operator


def _descriptors(data_type: str) -> Iterator[Operator]:
    tensor = TensorDesc(data_type, [3, 4, 21], [96, 1, 4])
    both: dict[str, Any] = {"input_tensor": tensor, "output_tensor": tensor}
    pair = {"a_tensor": tensor, "b_tensor": tensor, "output_tensor": tensor}
    yield operators.ElementWiseIdentity(**both, scale_bias=(1.5, -2))
    yield operators.ElementWiseAdd(**pair)
    yield operators.ElementWiseClip(**both, min=-1, max=2)
    yield operators.ElementWiseClip1(**both, min_max_data_type=data_type, min=1, max=2)
    yield operators.ActivationParameterizedRelu(**both, slope_tensor=tensor)
    if data_type != "INT32":
        yield operators.ElementWiseAdd1(**pair, fused_activation=operators.ActivationRelu())
    for axis in range(3):
        for direction in ("INCREASING", "DECREASING"):
            for exclusive in (False, True):
                along: dict[str, Any] = {**both, "axis": axis, "axis_direction": direction}
                yield operators.CumulativeSummation(**along, has_exclusive_sum=exclusive)
                yield operators.CumulativeProduct(**along, has_exclusive_product=exclusive)


@pytest.mark.sampled
@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "INT32"])
def test_an_output_may_be_the_input(data_type: str) -> None:
    for number, desc in enumerate(_descriptors(data_type)):
        tensors = [tensor for _, tensor in desc.inputs() if tensor is not None]
        arrays = [_strided(tensor, random_array(tensor, number + i)) for i, tensor in enumerate(tensors)]
        for thread_count in (1, 2):
            program = compile_operator(desc, thread_count=thread_count)
            apart = _strided(tensors[0], np.zeros(tensors[0].sizes, arrays[0].dtype))
            program.bind(arrays, [apart])()
            for chosen in range(len(arrays)):
                together = [_strided(tensor, array) for tensor, array in zip(tensors, arrays, strict=True)]
                program.bind(together, [together[chosen]])()
                assert_same_values(together[chosen].copy(), apart.copy())
            twice = [_strided(tensors[0], arrays[0])] * len(arrays)
            program.bind([arrays[0]] * len(arrays), [apart])()
            program.bind(twice, [twice[0]])()
            assert_same_values(twice[0].copy(), apart.copy())


def _strided(tensor: TensorDesc, content: np.ndarray) -> np.ndarray:
    """``content`` in memory of its own with the strides of a description."""
    buffer = np.zeros(tensor.element_span, tensor.data_type.dtype)
    strides = tuple(stride * buffer.itemsize for stride in tensor.effective_strides)
    view = np.lib.stride_tricks.as_strided(buffer, tensor.sizes, strides)
    view[...] = content
    return view


def test_each_is_one_statement() -> None:
    """Elements that one statement has written may not be read by another one."""
    for desc in _descriptors("FLOAT16"):
        assert desc.in_place
        assert len(desc.define().statements) == 1
