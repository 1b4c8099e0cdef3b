"""The catalogue agrees with the specification: fields, levels, support tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from specification import IMPLEMENTED, SHEET_NAMES, needs_specification, sheet

import opendml as dml
from opendml.description.enums import FeatureLevel, OperatorType
from opendml.description.errors import UnknownOperatorError
from opendml.description.operator_classes import operator_class
from opendml.operators import class_name
from opendml.operators.catalogue import SupportByLevel, catalogue

each_operator = pytest.mark.parametrize("operator_type", IMPLEMENTED, ids=lambda operator_type: operator_type.name)

# Where the project departs from a sheet on purpose: docs/semantics.md says why.
SUPPORT_DEVIATIONS = {
    "MAX_UNPOOLING": {"3_0": "2_0"},  # the oldest table of the documentation holds from 2_0 on
    "TOP_K": {"2_0": "1_0"},  # the header, and the history of feature levels, have the operator from 1_0 on
    "SCATTER_ELEMENTS": {"1_0": "2_0"},  # the documentation contradicts itself; the header has the operator from 2_0 on
}


SINCE_DEVIATIONS = {"TOP_K": "1_0"}


# Their sheets have no list of activations: docs/semantics.md says which one theirs is.
RECURRENT = ("RNN", "GRU", "LSTM")


# Tensors whose data types the sheets have as printed, against the pages' own words.
TYPE_DEVIATIONS = {
    "ADAM_OPTIMIZER": {"TrainingStepTensor": {"UINT32"}},
    # Their pages leave the types out.
    "FOLD": {"InputTensor": {"FLOAT32", "FLOAT16"}, "OutputTensor": {"FLOAT32", "FLOAT16"}},
    "UNFOLD": {"InputTensor": {"FLOAT32", "FLOAT16"}, "OutputTensor": {"FLOAT32", "FLOAT16"}},
    "MULTIHEAD_ATTENTION1": {"PastSequenceLengthsTensor": {"INT32"}},
}


def _kind(kind: str) -> str:
    """The sheet's word for the kind of a field."""
    base, is_array = kind.partition("[")[0], "[" in kind
    words = {
        "DML_TENSOR_DESC": "tensor",
        "DML_OPERATOR_DESC": "operator",
        "DML_SCALAR_UNION": "scalar_union",
        "DML_SCALE_BIAS": "scale_bias",
        "DML_SIZE_2D": "size_2d",
        "FLOAT": "float",
        "INT": "int",
    }
    return words.get(base, "uint") + ("_array" if is_array else "")


def _table(table: SupportByLevel) -> dict[str, Any]:
    return {
        str(level): {
            name: ([row.minimum_rank, row.maximum_rank], {data_type.name for data_type in row.data_types})
            for name, row in rows.items()
        }
        for level, rows in table.items()
    }


def _specified_table(table: Mapping[str, Any], renamed: Mapping[str, str] = {}) -> dict[str, Any]:
    return {
        renamed.get(level, level): {name: (row["ranks"], set(row["types"])) for name, row in rows.items()}
        for level, rows in table.items()
    }


@needs_specification
@each_operator
def test_fields(operator_type: OperatorType) -> None:
    entry = catalogue[operator_type.name]
    expected = [
        (f["name"], f["kind"], f["type"].replace("bool", "uint"), f["optional"]) for f in sheet(operator_type)["fields"]
    ]
    assert [(f.name, f.role, _kind(f.kind), f.is_optional) for f in entry.fields] == expected
    sheet_name = SHEET_NAMES.get(operator_type.name, operator_type.name)
    assert entry.struct.replace(operator_type.name, sheet_name) == sheet(operator_type)["struct"]


@needs_specification
@each_operator
def test_since_and_in_place(operator_type: OperatorType) -> None:
    entry, specified = catalogue[operator_type.name], sheet(operator_type)
    since = SINCE_DEVIATIONS.get(operator_type.name, specified["since"])
    assert (str(entry.since), entry.in_place) == (since, specified["in_place"])
    assert entry.since == operator_type.since


@needs_specification
@each_operator
def test_support(operator_type: OperatorType) -> None:
    renamed = SUPPORT_DEVIATIONS.get(operator_type.name, {})
    specified = sheet(operator_type)
    table = _specified_table(specified["support"], renamed)
    for name, types in TYPE_DEVIATIONS.get(operator_type.name, {}).items():
        for rows in table.values():
            rows[name] = (rows[name][0], types)
    assert _table(catalogue[operator_type.name].support) == table
    variants = {
        frozenset(variant["functions"]): _specified_table(variant["support"])
        for variant in specified.get("support_by_function", ())
    }
    built = catalogue[operator_type.name].support_variants
    assert {frozenset(names.split()): _table(table) for names, table in built.items()} == variants


@needs_specification
@each_operator
def test_fusable_activations(operator_type: OperatorType) -> None:
    specified = {
        name if name.startswith(("ACTIVATION_", "ELEMENT_WISE_")) else f"ACTIVATION_{name}"
        for name in sheet(operator_type).get("fused_activations", ())
    }
    if operator_type.name in RECURRENT:
        general = sheet(OperatorType.MEAN_VARIANCE_NORMALIZATION1)["fused_activations"]
        specified = {*general, "ACTIVATION_HARDMAX"}
    fusable = [f.fusable for f in catalogue[operator_type.name].fields if f.fusable]
    assert [{activation.name for activation in table} for table in fusable] == ([specified] if specified else [])
    # No activation can be fused before it exists.
    assert all(level >= activation.since for table in fusable for activation, level in table.items())


@each_operator
def test_tables_are_sound(operator_type: OperatorType) -> None:
    entry = catalogue[operator_type.name]
    tables = [entry.support, *entry.support_variants.values()]
    for table in tables:
        assert min(table) == entry.since
        assert list(table) == sorted(table, reverse=True)
        for level, rows in table.items():
            for row in rows.values():
                most = 8 if level >= FeatureLevel.LEVEL_3_0 else 5
                assert 1 <= row.minimum_rank <= row.maximum_rank <= most


@each_operator
def test_class(operator_type: OperatorType) -> None:
    entry = catalogue[operator_type.name]
    assert entry.operator_class is operator_class(operator_type) is getattr(dml.operators, class_name(operator_type))
    assert entry.operator_class.__name__ == class_name(operator_type)
    assert entry.summary and entry.summary[-1] == "."


def test_names() -> None:
    assert dml.catalogue["SLICE1"] == dml.catalogue["DML_OPERATOR_SLICE1"]
    assert len(dml.catalogue) == len(list(dml.catalogue)) == len(IMPLEMENTED)
    assert "SLICE7" not in dml.catalogue
    with pytest.raises(UnknownOperatorError, match="did you mean 'SLICE1'"):
        dml.catalogue["SLICE_1"]
    with pytest.raises(UnknownOperatorError, match="DML_OPERATOR_INVALID is no operator"):
        dml.catalogue["INVALID"]
    with pytest.raises(AttributeError):
        dml.operators.Slice7  # noqa: B018


def test_exports() -> None:
    for name in dml.__all__:
        assert getattr(dml, name) is not None
    for name in dml.operators.__all__:
        assert getattr(dml.operators, name).type in IMPLEMENTED
    assert set(dml.operators.__all__) <= set(dir(dml.operators))
    with pytest.raises(AttributeError):
        dml.Slice  # noqa: B018
