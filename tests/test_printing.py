"""Whatever is made to be printed can be: on streams of any encoding, whatever names it holds."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from dxdispatch_models import ADD

import opendml as dml
from opendml.command_line import main
from opendml.description.quoting import ascii_only

NAME = "größe 模型 \ud800"
ENCODINGS = ["cp1252", "ascii", "utf-8"]


def stream(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


def written(text: io.TextIOWrapper) -> str:
    text.flush()
    buffer = text.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(text.encoding)


@pytest.fixture(scope="module")
def program() -> dml.GraphProgram:
    graph = dml.Graph()
    with graph.scope("größe 模型"):
        y = dml.activation_relu(graph.input("float32", [4], name="größe"))
    return graph.compile({"模型": y})


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_profiles_and_explanations(encoding: str, program: dml.GraphProgram) -> None:
    out = stream(encoding)
    print(dml.profile(program, np.zeros(4, "float32"), seconds=0.01), file=out)
    print(dml.explain(program), file=out)
    print(dml.catalogue, dml.catalogue["SLICE1"], file=out)
    assert "gr\\xf6\\xdfe \\u6a21\\u578b" in written(out)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    "arguments", [["ops"], ["ops", "slice1"], ["check"], ["explain"], ["run"], ["check", "--json"]]
)
def test_the_command_line(encoding: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = dict(ADD, dispatchables={NAME: ADD["dispatchables"]["add"]})
    model["commands"] = [{**ADD["commands"][0], "dispatchable": NAME}, *ADD["commands"][1:]]
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    out, complaints = stream(encoding), stream(encoding)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", complaints)
    status = main([*arguments, str(path)] if arguments[0] != "ops" else arguments)
    assert (status, written(complaints)) == (0, "")
    assert written(out)


def test_other_characters_are_escaped() -> None:
    assert ascii_only("größe 模") == "gr\\xf6\\xdfe \\u6a21"
    assert ascii_only("plain\n") == "plain\n"
