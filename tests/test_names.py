"""Names as people type and paste them: what is understood, what is hinted at, and in which words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from command_lines import invoke
from sample_descriptors import sample
from specification import load

import opendml as dml
from opendml import operators
from opendml.description import enums, operator_classes
from opendml.description.enums import FeatureLevel, OperatorType
from opendml.description.names import did_you_mean, nearest, plain
from opendml.functions import usual_names
from opendml.operators import class_name, implemented, unavailable

SLICE1 = ["SLICE1", "slice1", "Slice1", "DML_OPERATOR_SLICE1", "dml_operator_slice1", "DML_SLICE1_OPERATOR_DESC"]
LEVEL_3_0 = ["3_0", "3.0", "LEVEL_3_0", "DML_FEATURE_LEVEL_3_0", "dml_feature_level_3_0"]
MISSING = [operator for operator in OperatorType if operator not in implemented() and operator]
LEVELS = "1_0, 2_0, 2_1, 3_0, 3_1, 4_0, 4_1, 5_0, 5_1, 5_2, 6_0, 6_1, 6_2, 6_3, 6_4"
DATA_TYPES = "UNKNOWN, FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64, UINT64, INT64, UINT4, INT4"
TOP_K1 = "DML_OPERATOR_TOP_K1 is an operator of DirectML (since feature level 2_1) that opendml does not have yet"


@pytest.mark.parametrize("name", SLICE1)
def test_operators_are_known_by_the_names_of_the_pages_and_of_the_classes(name: str) -> None:
    assert dml.catalogue[name].name == "SLICE1"
    assert OperatorType.parse(name) is OperatorType.SLICE1
    tensor = {"DataType": "FLOAT32", "Sizes": [2]}
    window = {"InputWindowOffsets": [0], "InputWindowSizes": [2], "InputWindowStrides": [1]}
    fields = {"InputTensor": tensor, "OutputTensor": tensor, "DimensionCount": 1, **window}
    assert dml.OperatorDesc.from_json({"Type": name, "Desc": fields}).type is OperatorType.SLICE1


def test_every_operator_is_known_by_all_its_names() -> None:
    for operator in OperatorType:
        for name in (operator.name, f"DML_OPERATOR_{operator.name}", f"DML_{operator.name}_OPERATOR_DESC"):
            assert OperatorType.parse(name) is OperatorType.parse(name.lower()) is operator
        assert OperatorType.parse(class_name(operator)) is operator


@pytest.mark.parametrize("name", LEVEL_3_0)
def test_levels_are_known_by_all_their_names(name: str) -> None:
    assert dml.Device(feature_level=name).feature_level is FeatureLevel.LEVEL_3_0
    tensor = dml.TensorDesc("float32", [2])
    negate = dml.operators.ElementWiseNegate(input_tensor=tensor, output_tensor=tensor)
    assert len(dml.validate(negate, name)) == 1


def test_members_are_known_in_any_letter_case() -> None:
    assert enums.PaddingMode.parse("wrap") is enums.PaddingMode.parse("dml_padding_mode_wrap") is enums.PaddingMode.WRAP
    assert enums.TensorFlags.parse(["owned_by_dml"]) is enums.TensorFlags.OWNED_BY_DML


@pytest.mark.parametrize(
    ("enumeration", "value", "message"),
    [
        (FeatureLevel, "7_0", f"'7_0' is not a DML_FEATURE_LEVEL: one of {LEVELS}"),
        (
            enums.TensorDataType,
            "FLOAT",
            f"'FLOAT' is not a DML_TENSOR_DATA_TYPE: one of {DATA_TYPES}; did you mean 'FLOAT32'?",
        ),
        (
            enums.InterpolationMode,
            "DML_INTERPOLATION_MODE_LINEA",
            "'DML_INTERPOLATION_MODE_LINEA' is not a DML_INTERPOLATION_MODE: one of NEAREST_NEIGHBOR, LINEAR; "
            "did you mean 'LINEAR'?",
        ),
        (enums.TensorFlags, "x", "'x' is not a DML_TENSOR_FLAGS: one of NONE, OWNED_BY_DML"),
        (
            OperatorType,
            "DML_SLICE_1_OPERATOR_DES",
            "'DML_SLICE_1_OPERATOR_DES' is not a DML_OPERATOR_TYPE: opendml ops and dml.catalogue list them; "
            "did you mean 'SLICE1'?",
        ),
        (
            OperatorType,
            "slic1",
            "'slic1' is not a DML_OPERATOR_TYPE: opendml ops and dml.catalogue list them; did you mean 'SLICE1'?",
        ),
    ],
)
def test_what_is_no_member(enumeration: Any, value: str, message: str) -> None:
    with pytest.raises(dml.UnknownMemberError) as caught:
        enumeration.parse(value)
    assert str(caught.value) == message


def test_long_names_are_cut() -> None:
    with pytest.raises(dml.UnknownMemberError) as caught:
        enums.TensorFlags.parse("x" * 10_000)
    assert len(str(caught.value)) < 200


def test_levels_of_devices() -> None:
    with pytest.raises(dml.ConfigurationError) as caught:
        dml.Device(feature_level="7_0")
    assert str(caught.value) == f"feature_level: '7_0' is not a DML_FEATURE_LEVEL: one of {LEVELS}"


def test_letter_case_comes_first() -> None:
    assert nearest("aTensor", ["BTensor", "ATensor"]) == "ATensor"
    assert nearest("FLOAT", ["FLOAT64", "FLOAT32"]) == "FLOAT64"  # the first of two as near
    assert nearest("inputtensor", ["input_tensors", "input_tensor"]) == "input_tensor"
    assert nearest("?", ["ATensor"]) is nearest("xyz", ["ATensor"]) is None
    assert did_you_mean("x", []) == ""


def test_scatter_is_understood_everywhere(tmp_path: Path) -> None:
    """SCATTER is an older name of SCATTER_ELEMENTS, of the same number: descriptors, models and files say either."""
    names = ["SCATTER", "scatter", "Scatter", "DML_OPERATOR_SCATTER", "DML_SCATTER_OPERATOR_DESC"]
    desc = sample(dml.operators.ScatterElements)
    for name in names:
        assert OperatorType.parse(name) is OperatorType.SCATTER_ELEMENTS is OperatorType["SCATTER"]
        assert dml.catalogue[name] == dml.catalogue["SCATTER_ELEMENTS"]
        assert name in dml.catalogue
        assert dml.OperatorDesc.from_json(desc.to_json() | {"Type": name}) == desc
        result = invoke("ops", name)
        assert result.exit_code == 0
        assert result.stdout.startswith("SCATTER_ELEMENTS (DML_SCATTER_ELEMENTS_OPERATOR_DESC)")
    with pytest.raises(dml.UnknownNameError, match="the class is ScatterElements"):
        dml.operators.Scatter  # noqa: B018
    with pytest.raises(dml.UnknownNameError, match=r"here it is dml\.scatter_elements"):
        dml.scatter  # noqa: B018
    graph = dml.Graph()
    tensors = [graph.input(tensor.data_type, tensor.sizes) for _, tensor in desc.inputs() if tensor is not None]
    dml.save(graph.describe(graph.append(desc, *tensors)[0]), tmp_path / "scatter.dml")
    written = (tmp_path / "scatter.dml").read_bytes()
    assert b"DML_OPERATOR_SCATTER\0" in written
    read = dml.load(tmp_path / "scatter.dml")
    assert isinstance(read, dml.GraphDesc)
    (node,) = read.nodes
    assert getattr(node, "operator", None) == desc


def test_every_operator_of_directml_is_here_or_announced() -> None:
    types = set(re.findall(r"DML_OPERATOR_(\w+)", str(load("enums.yaml")))) - {"TYPE"}
    assert len(types) > 170
    for name in types:
        operator = OperatorType.parse(name)
        assert operator in implemented() or unavailable(operator).startswith(operator.dml_name), name


# ---- operators that are not here yet


def test_words_about_missing_operators() -> None:
    assert unavailable(OperatorType.TOP_K1) == TOP_K1
    assert unavailable(OperatorType.INVALID) == "DML_OPERATOR_INVALID is no operator"


@pytest.mark.parametrize("operator", [OperatorType.TOP_K1, OperatorType.GRU], ids=lambda operator: operator.name)
def test_missing_operators_say_so_in_the_same_words(operator: OperatorType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operator is here: some are taken away."""
    monkeypatch.delitem(operators._FILES, operator)
    monkeypatch.delitem(operators._TYPES, class_name(operator))
    monkeypatch.delitem(vars(operators), class_name(operator), raising=False)
    monkeypatch.delitem(operator_classes._classes, operator, raising=False)
    words = unavailable(operator)
    with pytest.raises(dml.UnknownNameError) as missing_class:
        getattr(dml.operators, class_name(operator))
    assert str(missing_class.value) == words
    with pytest.raises(dml.UnknownOperatorError) as missing_entry:
        dml.catalogue[operator.name]
    assert str(missing_entry.value) == words
    with pytest.raises(dml.DescriptorFormatError) as missing_type:
        dml.OperatorDesc.from_json({"Type": operator.dml_name, "Desc": {}})
    assert str(missing_type.value) == f"Type: {words}"


def test_other_spellings_of_classes() -> None:
    with pytest.raises(AttributeError) as caught:
        dml.operators.SLICE1  # noqa: B018
    assert str(caught.value) == "module 'opendml.operators' has no attribute 'SLICE1'; the class is Slice1"
    with pytest.raises(AttributeError) as caught:
        dml.operators.Slic1  # noqa: B018
    assert str(caught.value) == "module 'opendml.operators' has no attribute 'Slic1'; did you mean 'Slice1'?"


# ---- names of functions elsewhere


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("softmax", "module 'opendml' has no attribute 'softmax'; here it is dml.activation_softmax"),
        ("relu", "module 'opendml' has no attribute 'relu'; here it is dml.activation_relu"),
        ("sum", "module 'opendml' has no attribute 'sum'; here it is dml.reduce(x, \"SUM\")"),
        ("matmul", "module 'opendml' has no attribute 'matmul'; here it is dml.gemm"),
        ("LogSoftmax", "module 'opendml' has no attribute 'LogSoftmax'; here it is dml.activation_log_softmax"),
        ("MaxPooling", "module 'opendml' has no attribute 'MaxPooling'; did you mean 'max_pooling'?"),
        ("Slice1", "module 'opendml' has no attribute 'Slice1'; the descriptor is dml.operators.Slice1"),
        ("convolutoin", "module 'opendml' has no attribute 'convolutoin'; did you mean 'convolution'?"),
        ("qwxyz", "module 'opendml' has no attribute 'qwxyz'"),
        ("topk", "module 'opendml' has no attribute 'topk'; here it is dml.top_k(x, axis=..., k=...)"),
    ],
)
def test_names_of_functions_elsewhere(name: str, message: str) -> None:
    with pytest.raises(dml.UnknownNameError) as caught:
        getattr(dml, name)
    assert str(caught.value) == message
    assert not hasattr(dml, name)


def test_names_elsewhere_lead_to_functions_here() -> None:
    meanings: dict[str, str] = {}
    for meaning, names in usual_names.HERE.items():
        for name in map(plain, names.split()):
            assert meanings.setdefault(name, meaning) == meaning, name
    for call, names_elsewhere in usual_names.HERE.items():
        assert callable(getattr(dml, call.partition("(")[0]))
        for name in names_elsewhere.split():
            assert not hasattr(dml, name), name


@pytest.mark.parametrize("operator", MISSING, ids=lambda operator: operator.name)
def test_functions_of_missing_operators(operator: OperatorType) -> None:
    newest = max(other for other in MISSING if other.name.rstrip("123") == operator.name.rstrip("123"))
    with pytest.raises(dml.UnknownNameError) as caught:
        getattr(dml, operator.name.rstrip("123").lower())
    assert str(caught.value) == unavailable(newest)
