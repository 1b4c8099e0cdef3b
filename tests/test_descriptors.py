"""Descriptors as values, and in JSON."""

from __future__ import annotations

import copy
import json
import math
import pickle
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from sample_descriptors import sample, samples
from sample_tensors import f32
from specification import IMPLEMENTED

import opendml as dml
from opendml import operators as op
from opendml.description.enums import AxisDirection, OperatorType, PaddingMode, ReduceFunction, TensorDataType
from opendml.description.errors import DescriptorArgumentError, DescriptorFormatError
from opendml.description.fields import (
    ArrayField,
    BooleanField,
    CountField,
    EnumField,
    Field,
    FloatField,
    IntegerField,
    OperatorField,
    ScalarUnionField,
    StructField,
    TensorField,
)
from opendml.description.structs import ScalarUnion, ScaleBias, Size2D
from opendml.description.tensor import TensorDesc

each_sample = pytest.mark.parametrize("desc", samples(), ids=lambda desc: desc.type.name)


def test_there_is_a_sample_of_every_operator() -> None:
    assert sorted(desc.type for desc in samples()) == list(IMPLEMENTED)


def test_values_are_canonical() -> None:
    desc = op.Reduce(
        function="DML_REDUCE_FUNCTION_ARGMAX",
        input_tensor=f32(2, 3),
        output_tensor=TensorDesc("uint32", [1, 3]),
        axes=np.array([0]),
    )
    assert desc.function is ReduceFunction.ARGMAX
    assert desc.axes == (0,) and type(desc.axes[0]) is int
    assert desc.axis_count == 1
    assert desc == desc.replace() and hash(desc) == hash(desc.replace())
    assert desc.replace(axes=[0, 1]).axis_count == 2


def test_floats_are_single_precision() -> None:
    assert op.ActivationElu(alpha=0.1).alpha == struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert op.ActivationElu(alpha=1e300).alpha == math.inf
    assert op.ActivationElu(alpha=np.float64(-1e300)).alpha == -math.inf
    assert op.ActivationElu(alpha=10**400).alpha == math.inf
    assert op.ActivationElu(alpha=2) == op.ActivationElu(alpha=np.float16(2.0))


def test_floats_are_told_apart_by_their_bits() -> None:
    assert op.ActivationElu(alpha=0.0) != op.ActivationElu(alpha=-0.0)
    assert op.ActivationElu(alpha=math.nan) == op.ActivationElu(alpha=-math.nan)
    assert len({op.ActivationElu(alpha=value) for value in (0.0, -0.0, math.nan, -math.nan)}) == 3


def test_operators_of_one_layout_differ() -> None:
    tensors = {"input_tensor": f32(1), "output_tensor": f32(1)}
    assert op.ActivationElu(**tensors, alpha=1) != op.ActivationCelu(**tensors, alpha=1)
    assert op.ActivationElu(**tensors, alpha=1) != object()


@each_sample
def test_values_survive_copying(desc: dml.OperatorDesc) -> None:
    for copied in (copy.copy(desc), copy.deepcopy(desc), pickle.loads(pickle.dumps(desc)), desc.replace()):
        assert copied == desc and hash(copied) == hash(desc)
    assert type(desc).__name__ in repr(desc)


@each_sample
def test_immutable(desc: dml.OperatorDesc) -> None:
    name = next(iter(desc.fields))
    with pytest.raises(AttributeError, match="immutable"):
        setattr(desc, name, None)
    with pytest.raises(AttributeError, match="immutable"):
        delattr(desc, name)


def test_wrong_keywords() -> None:
    with pytest.raises(DescriptorArgumentError, match="no field 'stride'; did you mean 'strides'"):
        sample(op.Slice).replace(stride=[1])
    with pytest.raises(TypeError, match="Slice1 needs output_tensor, input_window_offsets"):
        op.Slice1(input_tensor=f32(1), input_window_sizes=[1], input_window_strides=[1])  # type: ignore[call-arg]


def test_binding_order() -> None:
    rnn = sample(op.Rnn, bias_tensor=None)
    assert [name for name, _ in rnn.inputs()] == [
        "InputTensor",
        "WeightTensor",
        "RecurrenceTensor",
        "BiasTensor",
        "HiddenInitTensor",
        "SequenceLengthsTensor",
    ]
    assert dict(rnn.inputs())["BiasTensor"] is None
    assert [name for name, _ in sample(op.Split).outputs()] == ["OutputTensors[0]", "OutputTensors[1]"]
    assert sample(op.FillValueConstant).inputs() == ()


# ---- scalar unions


@examples(300)
@given(st.sampled_from([item for item in TensorDataType if item.bits]), st.binary(min_size=8, max_size=8))
def test_scalar_union_is_read_as_numpy_reads_it(data_type: TensorDataType, data: bytes) -> None:
    if data_type.bits == 4:
        return
    expected = np.frombuffer(data, data_type.dtype.newbyteorder("<"))[0].item()
    assert repr(ScalarUnion(data).as_type(data_type)) == repr(expected)


@pytest.mark.parametrize(
    ("value", "data_type", "data"),
    [
        (-2, "UINT8", b"\xfe"),
        (254, "UINT8", b"\xfe"),
        (254, "INT8", b"\xfe"),
        (2.0, "INT16", b"\x02\0"),
        (-1, "INT64", b"\xff" * 8),
        (2**64 - 1, "UINT64", b"\xff" * 8),
        (1.5, "FLOAT16", b"\0\x3e"),
        (1e6, "FLOAT16", b"\0\x7c"),
        (1, "FLOAT32", struct.pack("<f", 1)),
        (0.1, "FLOAT64", struct.pack("<d", 0.1)),
        (-3, "INT4", b"\x0d"),
    ],
)
def test_scalar_union_bytes(value: float, data_type: str, data: bytes) -> None:
    assert ScalarUnion.of(value, TensorDataType[data_type]).data == data.ljust(8, b"\0")


@pytest.mark.parametrize(
    ("value", "data_type"), [(256, "UINT8"), (-129, "INT8"), (0.5, "INT32"), (math.nan, "INT32"), (1, "UNKNOWN")]
)
def test_scalar_union_does_not_hold(value: float, data_type: str) -> None:
    with pytest.raises(ValueError):
        ScalarUnion.of(value, TensorDataType[data_type])


# ---- JSON


@each_sample
def test_json_round_trip(desc: dml.OperatorDesc) -> None:
    text = json.dumps(desc.to_json(), allow_nan=False)
    assert dml.OperatorDesc.from_json(json.loads(text)) == desc
    assert type(desc).from_json(json.loads(text)) == desc


@each_sample
def test_json_spellings(desc: dml.OperatorDesc) -> None:
    written = desc.to_json()
    short = written["Type"].removeprefix("DML_OPERATOR_")
    for spelled in (
        {"type": short, "desc": written["Desc"]},
        {"type": short, **written["Desc"]},
        {**written["Desc"], "Type": short},
        {"Type": int(desc.type), "Desc": written["Desc"]},
    ):
        assert dml.OperatorDesc.from_json(spelled) == desc


singles = st.floats(width=32)
uints = st.integers(0, 2**32 - 1)
tensors = st.builds(
    TensorDesc,
    st.sampled_from(TensorDataType),
    st.lists(uints, max_size=5),
    st.none() | st.lists(uints, min_size=1, max_size=5),
)


def _values(field: Field) -> st.SearchStrategy[Any]:
    """Any values that a field can hold, whether valid together or not."""
    strategies: dict[type[Field], Any] = {
        TensorField: tensors,
        IntegerField: getattr(field, "low", 0) is not None and st.integers(-(2**31), 2**32 - 1),
        CountField: uints,
        BooleanField: st.booleans(),
        FloatField: singles,
        ScalarUnionField: st.binary(min_size=8, max_size=8).map(ScalarUnion),
    }
    if isinstance(field, EnumField):
        return st.sampled_from(field.enumeration)
    if isinstance(field, OperatorField):
        return st.builds(op.ActivationScaledElu, alpha=singles, gamma=singles)
    if isinstance(field, StructField):
        return st.builds(field.struct_type, *[_values(field.element)] * 2)
    if isinstance(field, ArrayField):
        return st.lists(_values(field.element), max_size=4)
    values: st.SearchStrategy[Any] = strategies[type(field)]
    return values


@examples(400)
@given(st.data(), st.sampled_from(samples()))
def test_json_round_trip_of_anything(data: st.DataObject, sample_desc: dml.OperatorDesc) -> None:
    values = {}
    for name, field in sample_desc.fields.items():
        values[name] = data.draw(_values(field), name)
        if field.default is None and data.draw(st.booleans()):
            values[name] = None
    desc = type(sample_desc)(**values)
    assert dml.OperatorDesc.from_json(json.loads(json.dumps(desc.to_json(), allow_nan=False))) == desc


def test_json_is_directmls() -> None:
    assert sample(op.Slice1).to_json() == {
        "Type": "DML_OPERATOR_SLICE1",
        "Desc": {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 4, 4]},
            "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]},
            "DimensionCount": 4,
            "InputWindowOffsets": [0, 0, 0, 1],
            "InputWindowSizes": [1, 1, 4, 3],
            "InputWindowStrides": [1, 1, -2, 2],
        },
    }
    desc = sample(op.ElementWiseAdd1).to_json()["Desc"]
    assert desc["FusedActivation"] == {"Type": "DML_OPERATOR_ACTIVATION_ELU", "Alpha": 0.5}
    assert sample(op.ElementWiseClip).to_json()["Desc"]["Max"] == "inf"
    assert sample(op.ElementWiseClip1).to_json()["Desc"]["Max"] == 0.1


@pytest.mark.parametrize(
    "activation",
    [
        {"Type": "ACTIVATION_ELU", "Alpha": 0.5},
        {"Type": "DML_OPERATOR_ACTIVATION_ELU", "Alpha": 0.5, "InputTensor": None, "OutputTensor": None},
        {"type": "ACTIVATION_ELU", "desc": {"Alpha": 0.5}},
    ],
)
def test_fused_activation_in_json(activation: dict[str, Any]) -> None:
    tensors = {key: {"DataType": "FLOAT32", "Sizes": [3]} for key in ("ATensor", "BTensor", "OutputTensor")}
    desc = dml.OperatorDesc.from_json({"Type": "ELEMENT_WISE_ADD1", **tensors, "FusedActivation": activation})
    assert desc == op.ElementWiseAdd1(
        a_tensor=f32(3), b_tensor=f32(3), output_tensor=f32(3), fused_activation=op.ActivationElu(alpha=0.5)
    )


@pytest.mark.parametrize(
    ("value", "data_type", "expected"),
    [
        (2, "FLOAT16", 2.0),
        ("-inf", "FLOAT16", -math.inf),
        ({"UInt16": 0x3E00}, "FLOAT16", 1.5),
        ({"Float32": "inf"}, "FLOAT32", math.inf),
        ({"Int8": -3}, "INT8", -3),
        ({"UInt64": 2**64 - 1}, "UINT64", 2**64 - 1),
        (2**63 + 1, "UINT64", 2**63 + 1),
        ({"Bytes": [1, 2, 0, 0, 0, 0, 0, 0]}, "INT32", 513),
    ],
)
def test_scalar_unions_in_json(value: object, data_type: str, expected: float) -> None:
    tensor = {"DataType": data_type, "Sizes": [1]}
    desc = {"OutputTensor": tensor, "ValueDataType": data_type, "Value": value}
    read = op.FillValueConstant.from_json({"Type": "FILL_VALUE_CONSTANT", "Desc": desc})
    assert read.value.as_type(TensorDataType[data_type]) == expected


def _broken(desc: type[dml.OperatorDesc], **changes: Any) -> dict[str, Any]:
    written = sample(desc).to_json()
    return {"Type": written["Type"], "Desc": written["Desc"] | changes}


@pytest.mark.parametrize(
    ("written", "path", "message"),
    [
        ([], "", "expected an object, got list"),
        ({}, "Type", "the field is missing"),
        ({"Type": None}, "Type", "expected the name of a member, got null"),
        ({"Type": "SLIC1"}, "Type", "did you mean 'SLICE1'"),
        ({"Type": "DML_OPERATOR_INVALID"}, "Type", "DML_OPERATOR_INVALID is no operator"),
        ({"Type": "SLICE1", "Desc": 3}, "Desc", "expected an object, got 3"),
        ({"Type": "SLICE1", "Desc": {}, "bindings": {}}, "bindings", "unknown field; expected Type or Desc"),
        ({"Type": "SLICE1", "Desc": {}}, "Desc.InputTensor", "the field is missing"),
        (_broken(op.Slice1, InputWindowStride=[1]), "Desc.InputWindowStride", "did you mean 'InputWindowStrides'"),
        (_broken(op.Slice1, InputWindowStrides=[1, 1, "x"]), "Desc.InputWindowStrides[2]", "expected an integer"),
        (_broken(op.Slice1, InputWindowStrides=7), "Desc.InputWindowStrides", "expected an array, got 7"),
        (_broken(op.Slice1, InputTensor=None), "Desc.InputTensor", "null is not allowed"),
        (_broken(op.Slice1, InputTensor={"DataType": "FLOAT32"}), "Desc.InputTensor.Sizes", "the field is missing"),
        (_broken(op.Split, OutputTensors=[5]), "Desc.OutputTensors[0]", "expected an object"),
        (_broken(op.Padding, PaddingMode="EDGES"), "Desc.PaddingMode", "did you mean"),
        (_broken(op.Padding, PaddingValue="9"), "Desc.PaddingValue", "expected a number, 'inf'"),
        (_broken(op.AveragePooling, IncludePadding=2), "Desc.IncludePadding", "expected true or false, got 2"),
        (_broken(op.Upsample2D, ScaleSize={"Width": 1}), "Desc.ScaleSize.Height", "the field is missing"),
        (_broken(op.ElementWiseIdentity, ScaleBias={"Scale": 1, "Bias": True}), "Desc.ScaleBias.Bias", "got true"),
        (_broken(op.ElementWiseAdd1, FusedActivation={"Type": "GELU"}), "Desc.FusedActivation.Type", "GELU"),
        (_broken(op.Rnn, ActivationDescs=[{"Type": "ACTIVATION_ELU"}]), "Desc.ActivationDescs[0].Alpha", "missing"),
        (_broken(op.ElementWiseClip1, Min={"Int8": 1}), "Desc.Min.Int8", "expected Float32 or Bytes"),
        (_broken(op.ElementWiseClip1, Min=None), "Desc.Min", "null is not allowed"),
    ],
)
def test_json_errors(written: object, path: str, message: str) -> None:
    with pytest.raises(DescriptorFormatError) as raised:
        dml.OperatorDesc.from_json(written)
    assert raised.value.path == path
    assert message in raised.value.message
    assert str(raised.value).startswith(path)


def test_json_of_another_operator() -> None:
    with pytest.raises(DescriptorFormatError, match="Type: expected DML_OPERATOR_SLICE1"):
        op.Slice1.from_json(sample(op.Slice).to_json())
    with pytest.raises(DescriptorFormatError, match=r"^here\.Desc\.Axis: expected an integer"):
        dml.OperatorDesc.from_json(_broken(op.Split, Axis=0.5), "here")


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@examples(500)
@given(st.data(), st.sampled_from(samples()), junk)
def test_hostile_json_raises_nothing_else(data: st.DataObject, desc: dml.OperatorDesc, value: object) -> None:
    written = json.loads(json.dumps(desc.to_json()))
    place = written
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
        if not (isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans())):
            break
        place = place[key]
    place[key] = value
    try:
        read = dml.OperatorDesc.from_json(written)
    except DescriptorFormatError as error:
        assert str(error)
        return
    assert isinstance(dml.validate(read), list)
    assert dml.OperatorDesc.from_json(json.loads(json.dumps(read.to_json(), allow_nan=False))) == read


def test_enumerations_of_another_kind_are_kept_apart() -> None:
    desc = sample(op.Padding, padding_mode=AxisDirection.DECREASING)
    assert (
        "PaddingMode: must be a DML_PADDING_MODE (one of CONSTANT, EDGE, REFLECTION, SYMMETRIC, WRAP), "
        "got DML_AXIS_DIRECTION_DECREASING"
    ) in map(str, dml.validate(desc))
    assert sample(op.Padding, padding_mode=1).padding_mode is PaddingMode.EDGE  # type: ignore[attr-defined]
    assert sample(op.Padding, padding_mode=9).padding_mode == 9  # type: ignore[attr-defined]


def test_structs() -> None:
    factors: list[Any] = [np.int32(2), 3]
    desc = op.Upsample2D(input_tensor=f32(1), output_tensor=f32(1), scale_size=factors, interpolation_mode="LINEAR")
    assert desc.scale_size == Size2D(width=2, height=3)
    identity = op.ElementWiseIdentity(input_tensor=f32(1), output_tensor=f32(1), scale_bias=(2, 1e-60))
    assert identity.scale_bias == ScaleBias(2.0, 0.0)


def test_types_are_numbered() -> None:
    assert op.Slice1.type is OperatorType.SLICE1
    assert op.Slice1.fields["input_window_strides"].json_name == "InputWindowStrides"
