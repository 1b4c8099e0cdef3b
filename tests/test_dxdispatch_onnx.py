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
    graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
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
@pytest.mark.parametrize("way", ["override", "denotation", "shape", "--size", "-f", "-F", "-b", "both"])
def test_sizes_come_from_everywhere(way: str, rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the command line says comes first."""
    overrides = {"override": {"Name": {"rows": rows}}, "denotation": {"Denotation": {"DATA_BATCH": rows}}}
    overrides["both"] = {"Name": {"rows": 3 - rows}}
    dispatchable = {f"freeDimension{kind}Overrides": sizes for kind, sizes in overrides.get(way, {}).items()}
    bindings = {**BOUND, "x": {"name": "a", "shape": [rows, 2]}} if way == "shape" else BOUND
    path = model_file(tmp_path, dispatchable, bindings, later=DEFERRED)
    given = {"--size": f"rows={rows}", "-f": f"rows:{rows}", "-F": f"DATA_BATCH:{rows}", "-b": f"x:{rows},2"}
    given["both"] = given["-f"]
    options = ["-f" if way == "both" else way, given[way]] if way in given else []
    assert main(["run", str(path), "--device", "reference", *options]) == 0
    expected = ", ".join(str(number + 2) for number in range(2 * rows))
    assert f"Resource 'later': {expected}\n" in capsys.readouterr().out
    if way not in ("-f", "-F", "-b", "both"):  # DxDispatch's
        assert main(["check", str(path), *options]) == 0
        assert "1 operator" in capsys.readouterr().out


def test_dimensions_of_which_nothing_is_said_are_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = model_file(tmp_path, {}, BOUND, later=DEFERRED)
    assert main(["run", str(path), "--device", "reference"]) == 0
    assert "Resource 'later': 2, 3\n" in capsys.readouterr().out


@pytest.mark.parametrize("bindings", [{}, {"x": "a"}, {"y": "later"}], ids=str)
def test_what_is_not_bound_has_a_buffer(
    bindings: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model_file(tmp_path, {}, bindings, **{name: DEFERRED for name in bindings.values() if name == "later"})
    assert main(["run", str(path), "--device", "reference"]) == 0
    shown = capsys.readouterr().out
    assert "Dispatch 'plus': 1 iterations" in shown
    assert ("Resource 'later': 1, 1\n" in shown) == ("y" in bindings)


def test_sizes_of_a_model_alone_are_given_as_dxdispatch_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model_file(tmp_path, {}, {})
    model = str(tmp_path / "m.onnx")
    shapes = []
    for options in (["-f", "rows:2"], ["-F", "DATA_BATCH:2"], ["-b", "x:2,2", "-b", "y:2,2"], ["--size", "x=2x2"]):
        assert main(["run", model, "--device", "reference", "-p", *options]) == 0
        shapes.append(capsys.readouterr().out)
    assert shapes == [shapes[0]] * 4
    tensors = "".join(
        f"{one}:\n  Data Type = float32\n  Shape     = [2,2]\n\n" for one in ("@Input 'x'", "@Output 'y'")
    )
    expected = tensors.replace("@Input", "Input Tensor").replace("@Output", "Output Tensor")
    assert shapes[0] == f"{expected}y: float32 [2, 2]\n[[1., 1.],\n [1., 1.]]\n"
    assert main(["run", model, "-f", "rows=2"]) == 2
    assert "expected NAME:VALUE, got 'rows=2'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("dispatchable", "bindings", "resources", "message"),
    [
        ({}, {"x": {"name": "a", "shape": [3, 3]}}, {}, r"the model says <'x': float32 \[rows, 2\]>, not \[3, 3\]"),
        ({"sourcePath": "absent.onnx"}, BOUND, {"later": DEFERRED}, "absent.onnx"),
        ({"freeDimensionDenotationOverrides": {"N": 0}}, BOUND, {"later": DEFERRED}, "DenotationOverrides.N"),
        ({"graphOptimizationLevel": "all"}, BOUND, {"later": DEFERRED}, "graphOptimizationLevel"),
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
