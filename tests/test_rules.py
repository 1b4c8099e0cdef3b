"""Validation: what the documentation allows is valid, and what it forbids is reported precisely, all at once."""

from __future__ import annotations

from typing import Any

import pytest
from breaches import texts
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from sample_descriptors import sample, samples
from sample_tensors import f32, u32
from specification import IMPLEMENTED, needs_specification
from specification import examples as documented_examples

import opendml as dml
from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel, OperatorType, TensorDataType
from opendml.description.rules import Violation
from opendml.description.tensor import TensorDesc
from opendml.description.validation import support_at, validate, validate_or_raise

each_sample = pytest.mark.parametrize("desc", samples(), ids=lambda desc: desc.type.name)


# ---- what is valid


@needs_specification
@pytest.mark.parametrize("operator_type", IMPLEMENTED, ids=lambda operator_type: operator_type.name)
def test_documented_examples_are_valid(operator_type: OperatorType) -> None:
    for example in documented_examples(operator_type):
        assert texts(example.desc) == [], example.title


@each_sample
def test_samples_are_valid(desc: Operator) -> None:
    assert texts(desc) == []
    validate_or_raise(desc)


@each_sample
def test_before_an_operator_exists(desc: Operator) -> None:
    for level in FeatureLevel:
        found = validate(desc, level)
        if level < desc.since:
            must = f"{desc.type.dml_name} does not exist at feature level {level}"
            assert found[0] == Violation(desc.type.dml_name, "", must, "", desc.since)


@each_sample
def test_higher_levels_allow_more(desc: Operator) -> None:
    counts = [len(validate(desc, level)) for level in FeatureLevel]
    assert counts == sorted(counts, reverse=True)


# ---- tensors, whatever the operator


def identity_of(tensor: TensorDesc, output: TensorDesc | None = None) -> Operator:
    """An operator with the tensor as its input."""
    return op.ElementWiseIdentity(input_tensor=tensor, output_tensor=output or TensorDesc("float32", tensor.sizes))


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (TensorDesc("float32", []), ["InputTensor.DimensionCount: must be from 1 to 8, got 0"]),
        (TensorDesc("float32", [1] * 9), ["InputTensor.DimensionCount: must be from 1 to 8, got 9"]),
        (TensorDesc("float32", [2, 0]), ["InputTensor.Sizes[1]: must be from 1 to 4294967295, got 0"]),
        (TensorDesc("float32", [2, -1]), ["InputTensor.Sizes[1]: must be from 1 to 4294967295, got -1"]),
        (TensorDesc("float32", [2**32]), ["InputTensor.Sizes[0]: must be from 1 to 4294967295, got 4294967296"]),
        (
            TensorDesc("float32", [2**16, 2**16]),
            ["InputTensor.Sizes: must have at most 4294967295 elements, got 4294967296"],
        ),
        (TensorDesc("float32", [2, 3], [3]), ["InputTensor.Strides: must have DimensionCount = 2 elements, got 1"]),
        (
            TensorDesc("float32", [2, 3], [2**32, -1]),
            [
                "InputTensor.Strides[0]: must be from 0 to 4294967295, got 4294967296",
                "InputTensor.Strides[1]: must be from 0 to 4294967295, got -1",
            ],
        ),
        (
            TensorDesc("float32", [2, 3], total_size_in_bytes=20),
            [
                "InputTensor.TotalTensorSizeInBytes: must be at least 24, the size that DataType, Sizes and Strides"
                " imply, and less than 2^64, got 20"
            ],
        ),
        (
            TensorDesc("float32", [2, 3], guaranteed_base_offset_alignment=2),
            [
                "InputTensor.GuaranteedBaseOffsetAlignment: must be 0 or a power of two not less than the size of"
                " the DataType, 4, got 2"
            ],
        ),
        (TensorDesc("float32", [2, 3], flags=4), ["InputTensor.Flags: must be known flags, got 4"]),
        (TensorDesc("float32", [2, 3], [0, 0], flags="OWNED_BY_DML", guaranteed_base_offset_alignment=64), []),
        (TensorDesc("float32", [2, 3], total_size_in_bytes=1 << 40), []),
    ],
)
def test_tensor_rules(tensor: TensorDesc, expected: list[str]) -> None:
    output = f32(*tensor.sizes) if 1 <= tensor.rank <= 8 and min(tensor.sizes) > 0 else f32(2, 3)
    own = [text for text in texts(identity_of(tensor, output)) if text.startswith("InputTensor")]
    assert own == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            TensorDesc("float32", [2, 3], [0, 1]),
            "OutputTensor.Strides: must give every element of an output's Sizes an address of its own, got {0, 1}",
        ),
        (
            TensorDesc("float32", [2, 3], [2, 1]),
            "OutputTensor.Strides: must give every element of an output's Sizes an address of its own, got {2, 1}",
        ),
        (
            TensorDesc("float32", [2, 3], flags="OWNED_BY_DML"),
            "OutputTensor.Flags: must not have DML_TENSOR_FLAG_OWNED_BY_DML, which is for inputs",
        ),
    ],
)
def test_output_rules(output: TensorDesc, expected: str) -> None:
    assert texts(identity_of(f32(2, 3), output)) == [expected]
    assert texts(identity_of(f32(2, 3), f32(2, 3, strides=[1, 2]))) == []


def test_required_tensors() -> None:
    assert texts(sample(op.Slice1, input_tensor=None)) == ["InputTensor: must be given"]
    assert texts(op.ActivationElu(alpha=1)) == ["InputTensor: must be given", "OutputTensor: must be given"]
    assert texts(sample(op.MaxPooling1, output_indices_tensor=None)) == []


# ---- support tables


def test_ranks_and_types() -> None:
    desc = op.Slice1(
        input_tensor=TensorDesc("float64", [4, 4, 4]),
        output_tensor=TensorDesc("float64", [4, 4, 4]),
        input_window_offsets=[0] * 3,
        input_window_sizes=[4] * 3,
        input_window_strides=[1] * 3,
    )
    assert texts(desc, "4_1") == []
    types = "FLOAT32, FLOAT16, INT32, INT16, INT8, UINT32, UINT16 or UINT8"
    assert texts(desc, "2_1")[:2] == [
        "InputTensor: must have rank 4 to 5 at feature level 2_1, got rank 3 (allowed from feature level 3_0 on)",
        f"InputTensor: must be {types} at feature level 2_1, got FLOAT64 (allowed from feature level 4_1 on)",
    ]
    assert [violation.allowed_at for violation in validate(desc, "3_0")] == [FeatureLevel.LEVEL_4_1] * 2


def test_never_supported() -> None:
    [rank] = validate(sample(op.Gemm, a_tensor=f32(4), b_tensor=f32(4), c_tensor=None, output_tensor=f32(4)))[:1]
    assert (rank.rule, rank.got, rank.allowed_at) == ("must have rank 2 to 4 at feature level 6_4", "rank 1", None)
    tensors = {"input_tensor": TensorDesc("uint4", [8]), "output_tensor": TensorDesc("uint4", [8])}
    assert all(violation.allowed_at is None for violation in validate(op.Cast(**tensors)))


def test_reduce_by_function() -> None:
    integers = {"input_tensor": TensorDesc("int16", [2, 3]), "output_tensor": TensorDesc("int16", [1, 3])}
    assert texts(sample(op.Reduce, **integers, function="MAX", axes=[0])) == []
    assert len(texts(sample(op.Reduce, **integers, function="SUM", axes=[0]))) == 2
    indices = {"input_tensor": TensorDesc("int16", [2, 3]), "output_tensor": u32(1, 3)}
    assert texts(sample(op.Reduce, **indices, function="ARGMAX", axes=[0])) == []
    assert texts(sample(op.Reduce, **indices, function="MAX", axes=[0])) == [
        "OutputTensor: must have the DataType of InputTensor, INT16, got UINT32"
    ]


@examples(200)
@given(st.sampled_from(samples()), st.sampled_from(FeatureLevel), st.sampled_from(TensorDataType))
def test_a_type_is_allowed_where_its_violation_says(desc: Operator, level: FeatureLevel, kind: TensorDataType) -> None:
    changes: dict[str, Any] = {}
    for name in desc.fields:
        value = getattr(desc, name)
        if isinstance(value, TensorDesc):
            changes[name] = value.replace(data_type=kind)
    for violation in validate(desc.replace(**changes), level):
        if violation.got == kind.name and violation.allowed_at is not None:
            assert violation.allowed_at > level
            again = validate(desc.replace(**changes), violation.allowed_at)
            assert not any(v.field == violation.field and v.got == kind.name for v in again if v.allowed_at)


def test_support_rows() -> None:
    row = support_at(op.MaxPooling1.support, "output_indices_tensor", FeatureLevel.LEVEL_4_1)
    assert row == (4, 5, (TensorDataType.UINT32,))
    assert support_at(op.MaxPooling1.support, "input_tensor", FeatureLevel.LEVEL_1_0) is None


# ---- fields


def test_wrong_values_of_fields() -> None:
    assert texts(sample(op.Split, axis=-1)) == ["Axis: must be an integer from 0 to 4294967295, got -1"]
    assert texts(sample(op.Split, axis=True)) == ["Axis: must be an integer from 0 to 4294967295, got true"]
    assert texts(sample(op.Split, axis=4)) == ["Axis: must be less than InputTensor.DimensionCount = 4, got 4"]
    assert texts(sample(op.Split, axis=2**2000)) == [
        "Axis: must be an integer from 0 to 4294967295, got an integer of 2001 bits"
    ]
    assert texts(sample(op.ElementWiseClip, min="low")) == ["Min: must be a number, got low"]
    assert texts(sample(op.ElementWiseClip, scale_bias=(1, "x"))) == ["ScaleBias.Bias: must be a number, got x"]
    assert texts(sample(op.AveragePooling, include_padding=3)) == [
        "IncludePadding: must be a BOOL, true or false, got 3"
    ]
    assert texts(sample(op.Slice1, input_window_strides=[1, 1, 2**31, 1])) == [
        "InputWindowStrides[2]: must be an integer from -2147483648 to 2147483647, got 2147483648"
    ]
    assert texts(sample(op.Slice1, input_tensor="x")) == ["InputTensor: must be a TensorDesc, got x"]
    assert texts(sample(op.FillValueConstant, value_data_type="UINT8", value=300))[:1] == [
        "Value: must be a number that ValueDataType can hold, got 300"
    ]
    assert texts(sample(op.ElementWiseAdd1, fused_activation=5)) == ["FusedActivation: must be an operator, got 5"]


def test_counts() -> None:
    assert texts(sample(op.Slice1, dimension_count=3)) == [
        "DimensionCount: must be InputTensor.DimensionCount = 4, got 3"
    ]
    assert texts(sample(op.Slice1, input_window_sizes=[1, 1, 4])) == [
        "InputWindowSizes: must have DimensionCount = 4 elements, got 3"
    ]
    assert texts(sample(op.Reduce, axis_count=1)) == ["Axes: must have AxisCount = 1 elements, got 2"]
    assert texts(sample(op.Split, output_tensors=[]))[:1] == ["OutputCount: must be at least 1, got 0"]


def test_members_of_higher_levels() -> None:
    assert texts(sample(op.Padding, padding_mode="WRAP"), "6_3") == [
        "PaddingMode: must not be DML_PADDING_MODE_WRAP at feature level 6_3 (allowed from feature level 6_4 on)"
    ]
    assert texts(sample(op.Padding, padding_mode="WRAP")) == []
    assert len(texts(sample(op.Padding, padding_mode="SYMMETRIC"), "2_1")) == 1


# ---- hostile values


hostile_integers = st.sampled_from([-1, 0, 1, 2, 3, 7, 2**31, 2**32 - 1, 2**32, 2**64, -(2**64), 10**5000])
hostile_tensors = st.builds(
    TensorDesc,
    st.sampled_from(TensorDataType),
    st.lists(hostile_integers, max_size=9),
    st.none() | st.lists(hostile_integers, max_size=9),
    flags=st.integers(-3, 9),
    total_size_in_bytes=st.none() | hostile_integers,
    guaranteed_base_offset_alignment=hostile_integers,
)
sound_tensors = st.builds(
    TensorDesc, st.sampled_from(["float32", "uint32", "int8"]), st.lists(st.integers(1, 9), min_size=1, max_size=8)
)
hostile_values = st.one_of(
    st.none(),
    st.booleans(),
    hostile_integers,
    st.floats(),
    st.text(max_size=3),
    hostile_tensors,
    sound_tensors,
    st.sampled_from(samples()),
    st.lists(hostile_integers, max_size=9),
    st.lists(sound_tensors | hostile_tensors | st.none(), max_size=3),
    st.lists(st.floats() | st.text(max_size=3) | st.sampled_from(samples()), max_size=3),
    st.dictionaries(st.text(max_size=2), st.none(), max_size=1),
    st.just(object()),
    st.just(range(1000)),
)


@examples(1000)
@given(st.data(), st.sampled_from(samples()), st.sampled_from(FeatureLevel))
def test_hostile_descriptors_raise_nothing(data: st.DataObject, desc: Operator, level: FeatureLevel) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(desc.fields)), min_size=1, max_size=4, unique=True))
    changed = desc.replace(**{name: data.draw(hostile_values, name) for name in names})
    for violation in dml.validate(changed, level):
        assert str(violation).startswith(violation.field) and len(str(violation)) < 500
        assert violation.allowed_at is None or violation.allowed_at > level


@examples(800)
@given(st.data(), st.sampled_from(samples()))
def test_sound_tensors_in_any_combination(data: st.DataObject, desc: Operator) -> None:
    changes = {name: data.draw(sound_tensors, name) for name, field in desc.fields.items() if "tensor" in name}
    kept = {name: tensor for name, tensor in changes.items() if not name.endswith("s")}
    assert isinstance(dml.validate(desc.replace(**kept)), list)
