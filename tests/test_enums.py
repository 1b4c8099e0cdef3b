"""The enumerations have DirectML's members, numbers and levels."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest
from specification import load, needs_specification

from opendml.description import enums
from opendml.description.enums import FeatureLevel, OperatorType, PaddingMode, TensorDataType, TensorFlags

ENUMERATIONS: list[type[Any]] = [
    value
    for value in vars(enums).values()
    if isinstance(value, type) and issubclass(value, enum.Enum) and value.__members__
]


@needs_specification
def test_every_enumeration_is_there() -> None:
    assert {enums.dml_type_name(enumeration) for enumeration in ENUMERATIONS} == set(load("enums.yaml")["enums"])


@needs_specification
@pytest.mark.parametrize("enumeration", ENUMERATIONS, ids=lambda enumeration: enumeration.__name__)
def test_members_and_numbers(enumeration: type[Any]) -> None:
    specified = load("enums.yaml")["enums"][enums.dml_type_name(enumeration)]
    names = {enums._prefix(enumeration) + name: int(member) for name, member in enumeration.__members__.items()}
    aliases = {alias: specified["values"][target] for alias, target in specified.get("aliases", {}).items()}
    assert names == specified["values"] | aliases
    assert issubclass(enumeration, enum.IntFlag) == (specified["kind"] == "flags")


@needs_specification
@pytest.mark.parametrize(
    "enumeration",
    [enumeration for enumeration in ENUMERATIONS if issubclass(enumeration, enums.DirectMLEnum)],
    ids=lambda enumeration: enumeration.__name__,
)
def test_since(enumeration: type[Any]) -> None:
    specified = load("enums.yaml")["enums"][enums.dml_type_name(enumeration)]
    prefix = enums._prefix(enumeration)
    members: Any = enumeration
    expected = dict.fromkeys(list(members), FeatureLevel.LEVEL_1_0)
    for level, names in specified.get("since", {}).items():
        for name in specified["values"] if names == "all" else names:
            expected[enumeration[name.removeprefix(prefix)]] = FeatureLevel.parse(level)
    assert {member: member.since for member in enumeration} == expected


@needs_specification
def test_bits() -> None:
    bits = load("enums.yaml")["data_type_bits"]
    assert {data_type.name: data_type.bits for data_type in TensorDataType if data_type.bits} == bits


@pytest.mark.parametrize("enumeration", ENUMERATIONS, ids=lambda enumeration: enumeration.__name__)
def test_names_read_back(enumeration: type[Any]) -> None:
    for member in enumeration:
        name = member.dml_names[0] if issubclass(enumeration, enum.IntFlag) else member.dml_name
        for spelling in (member, int(member), member.name, name):
            assert enumeration.parse(spelling) is member


@pytest.mark.parametrize(
    "value", ["WRAPPED", "", "W RAP", -1, 99, 2**70, 1.0, True, None, [], TensorFlags.OWNED_BY_DML]
)
def test_what_is_no_member(value: object) -> None:
    with pytest.raises(ValueError, match="DML_PADDING_MODE"):
        PaddingMode.parse(value)


def test_feature_levels() -> None:
    for spelling in ("6_4", "6.4", "LEVEL_6_4", "DML_FEATURE_LEVEL_6_4", 0x6400):
        assert FeatureLevel.parse(spelling) is FeatureLevel.LEVEL_6_4
    assert str(FeatureLevel.LEVEL_6_4) == "6_4"
    assert FeatureLevel.LEVEL_5_2 < FeatureLevel.LEVEL_6_0
    with pytest.raises(ValueError):
        FeatureLevel.parse("7_0")


def test_flags() -> None:
    assert TensorFlags.parse(["NONE", "DML_TENSOR_FLAG_OWNED_BY_DML"]) == TensorFlags.OWNED_BY_DML
    assert TensorFlags.parse([]) == TensorFlags.NONE
    assert TensorFlags(9).unknown_bits == 8
    with pytest.raises(ValueError):
        TensorFlags.parse("OWNED")


def test_data_types() -> None:
    assert TensorDataType.parse("float32") is TensorDataType.parse(np.float32) is TensorDataType.FLOAT32
    assert TensorDataType.parse(np.dtype("uint8")) is TensorDataType.UINT8
    for data_type in TensorDataType:
        if data_type.bits >= 8:
            assert data_type.dtype.itemsize * 8 == data_type.bits
            assert data_type.dtype.kind == ("f" if data_type.is_float else "i" if data_type.is_signed else "u")
        if data_type.is_integer and data_type.bits >= 8:
            information = np.iinfo(data_type.dtype)
            assert data_type.integer_range == (information.min, information.max)
    assert TensorDataType.INT4.integer_range == (-8, 7)
    assert TensorDataType.UINT4.integer_range == (0, 15)


def test_scatter_is_scatter_elements() -> None:
    assert OperatorType.parse("DML_OPERATOR_SCATTER") is OperatorType.SCATTER_ELEMENTS
