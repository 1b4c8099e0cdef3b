"""Readers that are given something else than they read say what it is and what reads it."""

from __future__ import annotations

import importlib
import io
import json
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dxdispatch_models import ADD

import opendml as dml
from opendml import formats
from opendml.command_line import main
from opendml.formats.dxdispatch import Folders, parse_model
from opendml.formats.models import read_model
from opendml.formats.recognition import FORMATS, RECOGNISED_BYTES, format_of


def graph_bytes(folder: Path) -> bytes:
    graph = dml.Graph()
    y = dml.activation_relu(graph.input("float32", [2], name="x"))
    path = folder / "graph.bin"
    dml.save(graph.describe({"y": y}), path)
    return path.read_bytes()


def numpy_bytes(save: Any) -> bytes:
    file = io.BytesIO()
    save(file, np.zeros(2))
    return file.getvalue()


TENSOR = {"DataType": "FLOAT32", "Sizes": [1]}
RELU = {"Type": "ACTIVATION_RELU", "Desc": {"InputTensor": TENSOR, "OutputTensor": TENSOR}}
CONTENTS = {
    "onnx_text": b'# by hand\n<ir_version: 8, opset_import: ["" : 18]>\n',
    "dxdispatch": b"// a remark\n" + json.dumps(ADD).encode(),
    "onnx": b"\x08\x07\x12\x07pytorch:\x10graph",
    "numpy": numpy_bytes(np.save),
    "archive": numpy_bytes(np.savez),
    "image": b"\x89PNG\r\n\x1a\n" + bytes(20),
    "descriptor": json.dumps(RELU).encode(),
    "json": b'{"name": 1}',
}
RESOURCES = "resources of DxDispatch models, and inputs of serialised graphs, may be read from it"
WORDS = {
    "onnx_text": "it is an ONNX model as text; opendml.load, and opendml run, check, explain and profile, read it",
    "dxdispatch": "it is a DxDispatch model; opendml run, check, explain and profile read it",
    "onnx": "it is an ONNX model; opendml.load, and opendml run, check, explain and profile, read it",
    "numpy": f"it is a NumPy array; numpy.load reads it; {RESOURCES}",
    "archive": "it is a zip archive, as of PyTorch or NumPy; opendml does not read it",
    "image": f"it is an image; {RESOURCES}",
    "descriptor": "it is a descriptor in JSON; opendml.OperatorDesc.from_json reads it parsed",
    "json": "it is JSON text of another kind; opendml reads DxDispatch models and descriptors",
}


@pytest.mark.parametrize("name", ["model.onnx", "model.json", "model.bin"])
def test_files_without_a_byte_are_empty(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    for read in (dml.load, read_model):
        with pytest.raises(
            dml.ModelFormatError, match="the file is empty; expected an ONNX model, a serialised DML graph"
        ):
            read(tmp_path / name)


def test_formats_are_told_apart_by_content(tmp_path: Path) -> None:
    contents = {**CONTENTS, "serialized_graph": graph_bytes(tmp_path)}
    assert contents.keys() == FORMATS.keys()
    for name, content in contents.items():
        assert format_of(content) == name
        for length in range(4):
            assert format_of(content[:length]) in ("", name, "json", "archive", "image")
    assert format_of(b"") == format_of(bytes(100)) == format_of(b"hello, world, here is text") == ""


DAMAGED = {"onnx": "it is no ONNX model, or a damaged one", "onnx_text": "line 3, column 1: Identifier expected"}
"""What readers say of those of the contents that are only the beginning of a file."""


FOLDERS = [module.name for module in pkgutil.iter_modules(formats.__path__) if module.ispkg]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_format_is_a_folder_with_two_functions(name: str, tmp_path: Path) -> None:
    """All folders of formats, and nothing else, have ``recognises`` and ``read``; the table knows each."""
    module = importlib.import_module(f"opendml.formats.{name}")
    contents = {**CONTENTS, "serialized_graph": graph_bytes(tmp_path)}
    assert FORMATS[name].recognises is module.recognises
    assert [other for other, content in contents.items() if module.recognises(content)] == [name]
    path = tmp_path / "file"
    path.write_bytes(contents[name])
    if name in DAMAGED:
        pytest.importorskip("onnx")
        with pytest.raises(dml.ModelFormatError, match=DAMAGED[name]):
            module.read(path)
    else:
        assert module.read(path)


@pytest.mark.parametrize(("suffix", "kind"), [(".npy", "a readable .npy file"), (".png", "a readable image")])
def test_files_of_resources_that_are_something_else(suffix: str, kind: str, tmp_path: Path) -> None:
    if suffix == ".png":
        pytest.importorskip("PIL.Image")
    folders = Folders(tmp_path, tmp_path)
    for name in ("onnx", "archive", "dxdispatch", "numpy", "image"):
        (tmp_path / f"x{suffix}").write_bytes(CONTENTS[name])
        if (name, suffix) in (("numpy", ".npy"), ("image", ".png")):
            continue
        resource = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": f"x{suffix}"}}
        model = {"resources": {"A": resource}, "dispatchables": {}, "commands": []}
        with pytest.raises(dml.ModelFormatError) as caught:
            parse_model(json.dumps(model), folders)
        assert str(caught.value) == f"resources.A.initialValues.sourcePath: not {kind}: {WORDS[name]}"


def test_descriptors_that_are_something_else() -> None:
    with pytest.raises(dml.DescriptorFormatError) as caught:
        dml.OperatorDesc.from_json(ADD)
    assert str(caught.value) == f"not a descriptor: {WORDS['dxdispatch']}"
    with pytest.raises(dml.DescriptorFormatError, match=r"^expected an object, got \{\}; json.loads parses a text$"):
        dml.OperatorDesc.from_json("{}")


@pytest.mark.parametrize(
    "part", [b" ", b"\n", b"//", b"// \n", b"/*", b"/* */", b"/**/ // \n", b"{ ", b"[", b'{"', b"\x0a"]
)
def test_no_file_is_looked_at_again_and_again(part: bytes) -> None:
    """Patterns that can divide such bytes in many ways would look at them 2^n times, and never come back."""
    assert format_of(part * (RECOGNISED_BYTES // len(part))) in ("", "json")


@pytest.mark.parametrize("name", CONTENTS)
def test_loading_something_else(name: str, tmp_path: Path) -> None:
    for suffix in (".bin", ".onnx", ""):
        path = tmp_path / f"file{suffix}"
        path.write_bytes(CONTENTS[name])
        with pytest.raises(dml.ModelFormatError) as caught:
            dml.load(path)
        expected = f"not a serialised graph: {WORDS[name]}"
        assert DAMAGED.get(name, expected) in str(caught.value)


def test_loading_what_has_no_format(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"neither a model nor a graph")
    expected = "^of no format that opendml reads; as a serialised graph: the file is damaged: it leads to byte"
    with pytest.raises(dml.ModelFormatError, match=expected):
        dml.load(path)


@pytest.mark.parametrize("name", [name for name in CONTENTS if name not in ("dxdispatch", "json")])
@pytest.mark.parametrize("command", ["run", "check", "explain", "profile"])
def test_commands_on_something_else(
    name: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(CONTENTS[name])
    assert main([command, str(path)]) == 2
    if name in DAMAGED:  # read by its content, whatever the suffix, and found to be damaged
        pytest.importorskip("onnx")
        assert DAMAGED[name] in "".join(capsys.readouterr())
        return
    assert capsys.readouterr().err == f"error: {path}: not a DxDispatch model: {WORDS[name]}\n"


def test_content_counts_not_the_suffix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, content in (("graph.json", graph_bytes(tmp_path)), ("model.bin", CONTENTS["dxdispatch"])):
        (tmp_path / name).write_bytes(content)
        assert main(["check", str(tmp_path / name)]) == 0
    assert capsys.readouterr().out == "valid at feature level 6_4: 1 operator\n" * 2
