"""ONNX dispatchables of DxDispatch models: sizes of dispatches, of dimensions by name, deferred resources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opendml.command_line import main
from opendml.description.errors import ModelFormatError
from opendml.formats.models import read_model

onnx = pytest.importorskip("onnx")
helper = onnx.helper


def model_file(folder: Path, dispatchable: dict[str, Any], bindings: dict[str, Any], **resources: Any) -> Path:
    """A model whose dispatchable adds one to {rows, 2}."""
    sizes = ["rows", 2]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, sizes)],
        [helper.make_tensor_value_info("y", 1, sizes)],
        [helper.make_tensor("one", 1, [1], [1.0])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), folder / "m.onnx")
    numbers = {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4]}
    document = {
        "resources": {"a": numbers, **resources},
        "dispatchables": {"plus": {"type": "onnx", "sourcePath": "m.onnx", **dispatchable}},
        "commands": [
            {"type": "dispatch", "dispatchable": "plus", "bindings": bindings},
            *({"type": "print", "resource": name} for name in resources),
        ],
    }
    (folder / "m.json").write_text(json.dumps(document))
    return folder / "m.json"


DEFERRED = {"initialValuesDataType": "FLOAT32", "initialValues": "deferred"}
BOUND = {"x": "a", "y": "later"}


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("way", ["override", "shape", "option"])
def test_sizes_come_from_everywhere(way: str, rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dispatchable = {"freeDimensionNameOverrides": {"rows": rows}} if way == "override" else {}
    bindings = {**BOUND, "x": {"name": "a", "shape": [rows, 2]}} if way == "shape" else BOUND
    path = model_file(tmp_path, dispatchable, bindings, later=DEFERRED)
    options = ["--size", f"rows={rows}"] if way == "option" else []
    assert main(["run", str(path), "--device", "reference", *options]) == 0
    expected = ", ".join(str(number + 2) for number in range(2 * rows))
    assert f"Resource 'later': {expected}\n" in capsys.readouterr().out
    assert main(["check", str(path), *options]) == 0
    assert "1 operator" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("dispatchable", "bindings", "resources", "message"),
    [
        ({}, BOUND, {"later": DEFERRED}, r"dispatchables.plus.sourcePath: input 'x': not all of its sizes are known"),
        ({}, {"x": {"name": "a", "shape": [3, 3]}}, {}, r"the model says <'x': float32 \[rows, 2\]>, not \[3, 3\]"),
        ({"sourcePath": "absent.onnx"}, BOUND, {"later": DEFERRED}, "absent.onnx"),
        ({"freeDimensionDenotationOverrides": {"N": 1}}, BOUND, {"later": DEFERRED}, "found by name only"),
        ({"freeDimensionNameOverrides": {"rows": 1}}, {"x": "a"}, {"later": DEFERRED}, "no output .* is bound to it"),
        ({"freeDimensionNameOverrides": {"rows": 0}}, BOUND, {"later": DEFERRED}, "freeDimensionNameOverrides.rows"),
        (
            {},
            {"x": {"name": "a", "shape": [1, 2]}, "y": {"name": "later", "shape": [3, 2]}},
            {"later": DEFERRED},
            r"the model gives \[1, 2\], not \[3, 2\]",
        ),
    ],
)
def test_what_is_wrong_is_said(
    dispatchable: dict[str, Any], bindings: dict[str, Any], resources: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = model_file(tmp_path, dispatchable, bindings, **resources)
    with pytest.raises(ModelFormatError, match=message):
        read_model(path)
    assert read_model(path, in_part=True).unreadable
