"""ONNX models as text: the three spellings of the package onnx state the same model, and damaged ones are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import mangled_files
import numpy as np
import pytest
from command_lines import invoke
from properties import HANGS, examples_of

import opendml as dml
from opendml.formats import onnx_text
from opendml.formats.onnx_text.reading import MOST_NESTED

onnx = pytest.importorskip("onnx")
from mangled_onnx import originals  # noqa: E402
from onnx import serialization  # noqa: E402

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
TEXT = (
    "# a comment\n"
    + HEAD
    + """layer (float[N, 2] x) => (float[N, 3] y)
<float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[3] b = {0.5, -40, 1}>
{
   product = MatMul (x, w)  # rows of x
   sum = Add (product, b)
   y = Relu (sum)
}
"""
)
SUFFIXES = {"onnxtxt": ".onnxtxt", "textproto": ".textproto", "json": ".onnxjson"}
X = np.array([[1, 2], [3, 4]], np.float32)
Y = np.array([[9.5, 0, 16], [19.5, 0, 34]], np.float32)


def spelt(data: bytes, spelling: str) -> bytes:
    model = onnx.ModelProto()
    model.ParseFromString(data)
    return bytes(serialization.registry.get(spelling).serialize_proto(model))


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A model in each of the spellings."""
    file = tmp_path / f"model{SUFFIXES[request.param]}"
    file.write_bytes(spelt(onnx.parser.parse_model(TEXT).SerializeToString(), request.param))
    return file


def test_a_text_written_by_hand() -> None:
    model = dml.load(TEXT.encode())
    assert isinstance(model, dml.OnnxModel)
    np.testing.assert_array_equal(model.run({"x": X})["y"], Y)


def test_every_spelling_is_the_same_model(path: Path) -> None:
    assert onnx_text.recognises(path.read_bytes())
    for source in (path, path.read_bytes(), b"\xef\xbb\xbf" + path.read_bytes()):
        model = dml.load(source)
        assert isinstance(model, dml.OnnxModel)
        assert model.name == ("model" if source is path else "layer")
        np.testing.assert_array_equal(model.run({"x": X})["y"], Y)


def test_json_as_protocol_buffers_name_fields_by_themselves(tmp_path: Path) -> None:
    from google.protobuf import json_format

    model = dml.load(json_format.MessageToJson(onnx.parser.parse_model(TEXT)).encode())
    assert isinstance(model, dml.OnnxModel)
    np.testing.assert_array_equal(model.run({"x": X})["y"], Y)


def test_weights_beside_the_text(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(TEXT)
    for tensor in model.graph.initializer:  # the helper moves what is raw only
        tensor.raw_data = onnx.numpy_helper.to_array(tensor).tobytes()
        tensor.ClearField("float_data")
    onnx.external_data_helper.convert_model_to_external_data(model, location="weights", size_threshold=0)
    onnx.save(model, tmp_path / "model.textproto", format="textproto")
    assert (tmp_path / "weights").stat().st_size >= 36
    loaded = dml.load(tmp_path / "model.textproto")
    assert isinstance(loaded, dml.OnnxModel)
    np.testing.assert_array_equal(loaded.run({"x": X})["y"], Y)


@pytest.mark.parametrize("path", ["textproto"], indirect=True)
def test_commands(path: Path) -> None:
    """A model of the suffix that it is given; its content tells what it is."""
    np.save(path.parent / "x.npy", X)
    run = invoke("run", path, "--json")
    assert json.loads(run.stdout)["outputs"]["y"]["values"] == Y.tolist(), run.stderr
    checked = invoke("check", path, "--size", "N=2")
    assert (checked.exit_code, checked.stderr) == (0, "")
    assert checked.stdout.startswith("valid at feature level 6_4: ")
    assert invoke("check", path).exit_code == 2, "the size of N is not known"
    assert "MatMul" in invoke("explain", path, "--size", "N=2").stdout
    assert invoke("profile", path, "--size", "N=2", "-t", "1").exit_code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "g (float[1] x) => (float[1] y) {\n y = = }", r"^line 3, column 6: Expected character \("),
        ("ir_version: 8\ngraph {\n  nodes {\n  }\n}", r"^line 3, column 3: .*nodes"),
        ('{"ir_version": 8, "graph": {"nodes": []}}', "nodes"),
        ('{"ir_version": 8', "."),
        ("ir_version: 8\n", "it has no graph or no set of operators"),
        ('<ir_version: 8, opset_import: ["" : 999]>\ng (float[1] x) => (float[1] y) { y = Neg(x) }', "version 999"),
        (HEAD + 'g (float[1] x) => (float[1] y) { y = Neg(x) }\n# "', ""),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, message: str) -> None:
    if not message:
        assert isinstance(dml.load(text.encode()), dml.OnnxModel)
        return
    with pytest.raises(dml.ModelFormatError, match=message) as caught:
        dml.load(text.encode())
    assert len(str(caught.value)) < 400


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(dml.ModelFormatError, match=r"^byte 14: not a text in UTF-8$"):
        dml.load(b"ir_version: 8\n\xff")
    with pytest.raises(dml.ModelFormatError, match=r"^it is no ONNX model as text$"):
        onnx_text.read_bytes(b"graph {}")


DEEP = {
    "types": HEAD + "g (" + "seq(" * 100_000 + "float[1]" + ")" * 100_000 + " x) => (float[1] y) { y = Neg(x) }",
    "graphs": HEAD + "g (float[1] x) => (float[1] y) { " + "y = If(x) <then_branch = g () => (float[1] y) {" * 50_000,
    "messages": "ir_version: 8 graph {" + "node { attribute { g {" * 50_000,
    "objects": '{"ir_version": 8, "graph": ' + '{"node": [{"attribute": [{"g": ' * 50_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_nested_deeply(name: str, tmp_path: Path) -> None:
    """In a process of its own: ONNX's parser calls itself for each, and would end it."""
    path = tmp_path / "deep.txt"
    path.write_text(DEEP[name])
    arguments = [sys.executable, "-m", "opendml", "check", str(path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 2, done.stderr[-1000:]
    assert "Traceback" not in done.stderr
    if name in ("types", "graphs"):
        assert f"more than {MOST_NESTED} brackets in brackets" in done.stdout + done.stderr


def _damaged(number: int) -> bytes:
    random = Random(number)
    data: bytes = spelt(random.choice(originals()), random.choice([*SUFFIXES]))
    damages: Any = mangled_files.DAMAGES
    for _ in range(random.choice((1, 1, 2, 4))):
        data = random.choice(damages)(data, random)[: mangled_files.LARGEST]
    return data


@pytest.mark.filterwarnings("ignore:invalid:DeprecationWarning")  # of damaged escape sequences, by protocol buffers
def test_damaged_texts_are_read_or_refused() -> None:
    for number in range(examples_of(600)):
        try:
            dml.load(_damaged(number))
        except dml.OpendmlError as error:
            assert len(str(error)) < 3000, number
        except Exception as error:
            raise AssertionError(f"text {number}") from error
