"""Mangled ONNX models: only the package's own errors are raised, and nothing outside of a model's folder is read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import opendml as dml
from opendml.formats.onnx import translation

onnx = pytest.importorskip("onnx")
from mangled_onnx import mangled, originals  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

MEMORY = 1 << 27
"""Bytes that reading a small model may take, at most."""


def read_and_describe(data: bytes, folder: Path) -> bool:
    """Whether a model has a graph; else it was refused."""
    path = folder / "model.onnx"
    path.write_bytes(data)
    try:
        model = dml.load(path)
        assert isinstance(model, dml.OnnxModel)
        model.describe()
    except dml.OpendmlError:
        return False
    return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inside").mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (tmp_path / "inside" / "w.bin").write_bytes(np.ones(4, "f").tobytes())
    return tmp_path / "inside"


def test_originals_are_read(folder: Path) -> None:
    assert all(read_and_describe(data, folder) for data in originals())


@pytest.mark.parametrize("batch", range(2))
def test_mangled_models_are_read_or_refused(batch: int, folder: Path) -> None:
    for number in range(batch * 100_000, batch * 100_000 + 40):
        tracemalloc.start()
        try:
            read_and_describe(mangled(number), folder)
        except Exception as error:
            raise AssertionError(f"model {number}") from error
        finally:
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert most < MEMORY, (number, most)


def test_functions_that_call_others_twice_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There would be two to the power of 30 nodes."""
    monkeypatch.setattr(translation, "MOST_NODES", 100)
    node, info = helper.make_node, helper.make_tensor_value_info
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("of.mine", 1)]
    bodies = [[node(f"F{i + 1}", ["x"], ["y"], domain="of.mine")] * 2 for i in range(30)]
    bodies.append([node("Identity", ["x"], ["y"])])
    functions = [helper.make_function("of.mine", f"F{i}", ["x"], ["y"], body, imports) for i, body in enumerate(bodies)]
    call = node("F0", ["x"], ["y"], domain="of.mine")
    graph = helper.make_graph([call], "g", [info("x", 1, [1])], [info("y", 1, None)])
    model = dml.load(helper.make_model(graph, opset_imports=imports, functions=functions).SerializeToString())
    assert isinstance(model, dml.OnnxModel)
    with pytest.raises(dml.ModelFormatError, match="the model has more than 100 nodes"):
        model.describe()


def test_few_bytes_do_not_ask_for_much(folder: Path) -> None:
    """Results of a billion elements from a few numbers."""
    node, info = helper.make_node, helper.make_tensor_value_info
    imports = [helper.make_opsetid("", 18)]
    large = {"zero": np.array(0), "many": np.array(1 << 30), "one": np.array(1), "sizes": np.array([1 << 30])}
    nodes = [
        node("Range", ["zero", "many", "one"], ["a"]),
        node("Tile", ["sizes", "sizes"], ["b"]),
        node("Add", ["column", "row"], ["c"]),
        node("HannWindow", ["many"], ["d"]),
        node("Resize", ["row", "", "", "wide"], ["e"]),
        node("Neg", ["x"], ["y"]),
    ]
    large["wide"] = np.array([1, 1 << 30])
    large |= {"column": np.zeros((30000, 1), "f"), "row": np.zeros((1, 30000), "f")}
    weights = [numpy_helper.from_array(array, name) for name, array in large.items()]
    graph = helper.make_graph(nodes, "g", [info("x", 1, [1])], [info("y", 1, None)], weights)
    tracemalloc.start()
    read_and_describe(helper.make_model(graph, opset_imports=imports).SerializeToString(), folder)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < MEMORY
