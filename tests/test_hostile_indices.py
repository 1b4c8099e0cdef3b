"""Indices, lengths and regions from wherever: every operator that is told places by a tensor reads and writes nothing
outside of its buffers, which lie between guard pages, and compiled code does what the interpreter does."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from execution import random_array, run_operator, seeds
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from properties import examples
from random_descriptors import descriptors

import opendml as dml
from opendml.description.enums import OperatorType
from opendml.description.fields import TensorField
from opendml.description.operator_classes import operator_class
from opendml.description.tensor import TensorDesc

PLACES = {
    "GATHER GATHER_ELEMENTS GATHER_ND GATHER_ND1 SCATTER_ELEMENTS SCATTER_ND ONE_HOT MAX_UNPOOLING": ["indices_tensor"],
    "REVERSE_SUBSEQUENCES RNN GRU LSTM": ["sequence_lengths_tensor"],
    "ROI_POOLING": ["roi_tensor"],
    "ROI_ALIGN ROI_ALIGN1 ROI_ALIGN_GRAD": ["roi_tensor", "batch_indices_tensor"],
    "MULTIHEAD_ATTENTION": ["mask_tensor"],
    "MULTIHEAD_ATTENTION1": ["mask_tensor", "past_sequence_lengths_tensor"],
}
"""The inputs that tell an operator where to read or write, or how far."""

TOLD = {OperatorType[name]: fields for names, fields in PLACES.items() for name in names.split()}


def test_every_operator_that_is_told_places_is_tried() -> None:
    told = {
        OperatorType[name]: [
            field_name
            for field_name, field in operator_class(OperatorType[name]).fields.items()
            if isinstance(field, TensorField)
            and field.direction == "input"
            and re.search("indices|lengths|^mask|^roi", field_name)
        ]
        for name in dml.catalogue
    }
    assert {operator: set(fields) for operator, fields in told.items() if fields} == {
        operator: set(fields) for operator, fields in TOLD.items()
    }


def hostile_array(tensor: TensorDesc, sizes: set[int], seed: int) -> Any:
    """Numbers at and beyond the ends of the dimensions and of the type; what strides repeat is repeated."""
    dtype = tensor.data_type.dtype
    numbers: list[float]
    if dtype.kind == "f":
        largest = float(np.finfo(dtype).max)
        numbers = [float("nan"), float("inf"), float("-inf"), largest, -largest, -1.0, -0.5, 0.0, 1.5, 2.0**15]
    else:
        limits = np.iinfo(dtype)
        near = {place + step for place in {0, *sizes, *(-size for size in sizes)} for step in (-1, 0, 1)}
        far = {limits.min, limits.min + 1, limits.max - 1, limits.max, 2**31, 2**32, 2**33 + 1, -(2**31) - 1, -(2**32)}
        numbers = sorted(number for number in near | far if limits.min <= number <= limits.max)
    buffer = np.random.default_rng(seed).choice(np.array(numbers, dtype), tensor.element_span)
    strides = tuple(stride * buffer.itemsize for stride in tensor.effective_strides)
    return np.array(np.lib.stride_tricks.as_strided(buffer, tensor.sizes, strides))


@pytest.mark.sampled
@pytest.mark.parametrize("operator_type", TOLD, ids=lambda operator_type: operator_type.name)
def test_hostile_places(operator_type: OperatorType) -> None:
    @examples(4, suppress_health_check=list(HealthCheck))
    @given(desc=descriptors(operator_type), seed=seeds, data=st.data())
    def check(desc: Any, seed: int, data: st.DataObject) -> None:
        names = [name for name, field in desc.fields.items() if getattr(field, "direction", "") == "input"]
        told = [name for name in TOLD[operator_type] if getattr(desc, name) is not None]
        hostile = set(told[:1]) | {name for name in told[1:] if data.draw(st.booleans())}
        tensors = [getattr(desc, name) for name in names]
        sizes = {size for tensor in tensors if tensor is not None for size in tensor.sizes}
        arrays = [
            None
            if tensor is None
            else hostile_array(tensor, sizes, seed + number)
            if name in hostile
            else random_array(tensor, seed + number)
            for number, (name, tensor) in enumerate(zip(names, tensors, strict=True))
        ]
        run_operator(desc, arrays)

    check()
