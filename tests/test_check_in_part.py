"""``opendml check`` lists all that is wrong with what can be read, beside all that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dxdispatch_models import ADD

import opendml as dml
from opendml.command_line import main
from opendml.description.enums import OperatorType
from opendml.operators import unavailable


def changed_model() -> dict[str, Any]:
    """Two operators that cannot be read, for five reasons together, and one that breaks a rule."""
    model: dict[str, Any] = json.loads(json.dumps(ADD))
    add = model["dispatchables"]["add"]
    misspelt = json.loads(json.dumps(add))
    desc = misspelt["desc"]
    desc["aTensor"] = desc.pop("ATensor")
    desc["BTensor"] = {"DataType": "FLOAT", "Size": [1]}
    desc["OutputTensor"]["Sizes"] = "all"
    invalid = json.loads(json.dumps(add))
    invalid["desc"]["OutputTensor"]["Sizes"][-1] += 1
    model["dispatchables"] = {
        "add": add,
        "misspelt": misspelt,
        "missing": {"type": "DML_OPERATOR_INVALID", "desc": {}},
        "invalid": invalid,
    }
    model["commands"].append({"type": "dispatch", "dispatchable": "misspelt", "bindings": {}})
    return model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(changed_model()))
    return path


def test_all_is_listed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(path)]) == 2
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[:5] == [
        "dispatchables.misspelt.desc.aTensor: unknown field; did you mean 'ATensor'?",
        "dispatchables.misspelt.desc.BTensor.Size: unknown field; did you mean 'Sizes'?",
        "dispatchables.misspelt.desc.BTensor.DataType: 'FLOAT' is not a DML_TENSOR_DATA_TYPE: one of UNKNOWN, FLOAT32, "
        "FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64, UINT64, INT64, UINT4, INT4; "
        "did you mean 'FLOAT32'?",
        "dispatchables.misspelt.desc.OutputTensor.Sizes: expected an array, got all",
        f"dispatchables.missing.type: {unavailable(OperatorType.INVALID)}",
    ]
    assert len(lines) > 5
    assert all(line.startswith("dispatchables.invalid.desc.OutputTensor.Sizes") for line in lines[5:])


def test_all_is_listed_for_programs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", str(path)]) == 2
    report = json.loads(capsys.readouterr().out)
    assert not report["valid"]
    assert len(report["unreadable"]) == 5
    assert report["unreadable"][0] == {
        "path": "dispatchables.misspelt.desc.aTensor",
        "message": "unknown field; did you mean 'ATensor'?",
    }
    assert {violation["dispatchable"] for violation in report["violations"]} == {"invalid"}


def test_running_refuses_what_cannot_be_read(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(path)]) == 2
    assert "dispatchables.misspelt.desc.aTensor: unknown field" in capsys.readouterr().err


def test_what_refers_to_unreadable_parts_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = json.loads(json.dumps(ADD))
    name = next(iter(model["resources"]))
    model["resources"][name]["initialValuesDatatype"] = "FLOAT32"
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    assert main(["check", str(path)]) == 2
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_serialised_graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two operators have unknown names, one an unknown type; the one that can be read breaks a rule at that level."""
    graph = dml.Graph()
    x = graph.input("float32", [4], name="x")
    y = dml.activation_tanh(dml.negate(dml.activation_tanh(dml.cos(x))))
    path = tmp_path / "graph.bin"
    dml.save(graph.describe({"y": y}), path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"ACTIVATION_TANH", b"ACTIVATION_TANG").replace(b"WISE_COS", b"WISE_COZ"))
    assert main(["check", "--feature-level", "3_0", str(path)]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" is ")[0] for line in lines[:3]] == [
        "nodes[0].desc.type: 'DML_OPERATOR_ELEMENT_WISE_COZ'",
        "nodes[1].desc.type: 'DML_OPERATOR_ACTIVATION_TANG'",
        "nodes[3].desc.type: 'DML_OPERATOR_ACTIVATION_TANG'",
    ]
    assert lines[3:] == [
        "nodes[2].desc: DML_OPERATOR_ELEMENT_WISE_NEGATE does not exist at feature level 3_0 "
        "(allowed from feature level 5_0 on)"
    ]
    assert main(["run", str(path)]) == 2
    assert "nodes[0].desc.type: 'DML_OPERATOR_ELEMENT_WISE_COZ' is not" in capsys.readouterr().err
