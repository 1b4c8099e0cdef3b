"""Rules of attention: what is told of wrong descriptors, and what lower levels have."""

from __future__ import annotations

from typing import Any

import pytest
from attention_cases import random
from execution import assert_identical
from sample_descriptors import sample
from sample_tensors import f32

import opendml as dml
from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate


def texts(desc: Operator, level: str = "6_4") -> list[str]:
    return [str(violation) for violation in validate(desc, level)]


def test_sources() -> None:
    desc = sample(op.MultiheadAttention)
    assert texts(desc) == []
    assert texts(desc.replace(query_tensor=None))[0] == (
        "the queries must be given: one of QueryTensor, StackedQueryKeyTensor, StackedQueryKeyValueTensor"
    )
    assert texts(desc.replace(stacked_key_value_tensor=f32(2, 6, 3, 2, 4))) == [
        "StackedKeyValueTensor: must not be given beside KeyTensor, got it"
    ]
    assert texts(desc.replace(past_value_tensor=None))[0] == (
        "PastValueTensor: must be given beside PastKeyTensor, got nothing"
    )
    assert texts(desc.replace(mask_type="NONE")) == [
        "MaskTensor: must not be given, as MaskType is DML_MULTIHEAD_ATTENTION_MASK_TYPE_NONE, got it"
    ]
    assert texts(desc.replace(mask_tensor=None)) == [
        "MaskTensor: must be given, as MaskType is DML_MULTIHEAD_ATTENTION_MASK_TYPE_BOOLEAN, got nothing"
    ]


def test_sizes() -> None:
    desc = sample(op.MultiheadAttention)
    assert texts(desc.replace(key_tensor=f32(1, 6, 12), output_tensor=f32(2, 4, 16))) == [
        "KeyTensor.Sizes[0]: must be QueryTensor.Sizes[0] = 2, got 1",
        "OutputTensor.Sizes[1]: must be QueryTensor.Sizes[1] = 5, got 4",
        "OutputTensor.Sizes[2]: must be ValueTensor.Sizes[2] = 12, got 16",
    ]
    assert texts(desc.replace(past_key_tensor=f32(2, 3, 4, 4))) == [
        "RelativePositionBiasTensor.Sizes[3]: must be PastKeyTensor.Sizes[2] + KeyTensor.Sizes[1] = 10, got 9",
        "PastValueTensor.Sizes[2]: must be PastKeyTensor.Sizes[2] = 4, got 3",
        "OutputPresentKeyTensor.Sizes[2]: must be PastKeyTensor.Sizes[2] + KeyTensor.Sizes[1] = 10, got 9",
        "OutputPresentValueTensor.Sizes[2]: must be PastKeyTensor.Sizes[2] + KeyTensor.Sizes[1] = 10, got 9",
        "MaskTensor.Sizes[3]: must be PastKeyTensor.Sizes[2] + KeyTensor.Sizes[1] = 10, got 9",
    ]
    assert texts(desc.replace(bias_tensor=f32(35)))[0].startswith("BiasTensor.Sizes[0]: must be QueryTensor.Sizes[2] +")
    assert texts(desc.replace(head_count=5))[0] == "HeadCount: must divide QueryTensor.Sizes[2] = 12, got 5"
    mask = TensorDesc("int32", [2])
    assert texts(desc.replace(mask_tensor=mask, mask_type="KEY_SEQUENCE_LENGTH")) == [
        "MaskTensor: must have rank 2 at least, as MaskType is "
        "DML_MULTIHEAD_ATTENTION_MASK_TYPE_KEY_SEQUENCE_LENGTH, got rank 1"
    ]


def test_groups() -> None:
    desc = sample(op.MultiheadAttention1)
    assert texts(desc) == []
    assert texts(desc.replace(query_head_count=4, key_value_head_count=3))[-1] != ""
    assert "QueryHeadCount: must be a multiple of KeyValueHeadCount = 2, got 3" in texts(
        desc.replace(key_value_head_count=2)
    )
    assert texts(desc.replace(past_key_tensor=None))[0] == (
        "PastKeyTensor: must be given beside PastValueTensor, got nothing"
    )
    too_small = f32(2, 1, 2, 4)
    assert texts(desc.replace(output_present_key_tensor=too_small))[0] == (
        "OutputPresentKeyTensor.Sizes[2]: must be from PastKeyTensor.Sizes[2] = 3 to PastKeyTensor.Sizes[2] + "
        "StackedKeyValueTensor.Sizes[1] = 9, got 2"
    )


def test_lower_levels() -> None:
    q = random(1, 4, 8)
    at_6_1 = dml.Device(feature_level="6_1")
    expected = dml.multihead_attention(q, q, q, head_count=2).output
    assert_identical(dml.multihead_attention(q, q, q, head_count=2, device=at_6_1).output, expected)
    with pytest.raises(dml.InvalidDescriptorError, match="key_value_head_count: must be"):
        dml.multihead_attention(q, q, q, head_count=2, key_value_head_count=1, device=at_6_1)


def test_nothing_to_ask_with() -> None:
    """Without queries, keys or values the rules say what is missing, whatever else is given."""
    given: list[dict[str, Any]] = [{}, {"bias": random(24)}, {"past_key": random(1, 2, 3, 4)}]
    for operands in given:
        with pytest.raises(dml.InvalidDescriptorError, match="the queries must be given"):
            dml.multihead_attention(**operands, head_count=2, output_present_key=True)
