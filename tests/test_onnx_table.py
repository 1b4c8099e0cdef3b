"""The page of real models: what it measures, shown on a model that is none, and how it is written."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

if sys.platform != "linux":
    pytest.skip("memory is read as Linux tells it", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import onnx_table  # noqa: E402

SIZES = {"batch": 2}


def test_a_model_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    infos = [helper.make_tensor_value_info(name, kind, ["batch", 3]) for name in ("x", "state", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "state"], ["y"])], "g", infos[:2], infos[2:])
    path = tmp_path / "deep" / "small.onnx"
    path.parent.mkdir()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    model = onnx_table.Model("none", "small.onnx", [SIZES], onnx_table.BYTES, zeros=("state",))
    arrays = tmp_path / "arrays.npz"
    monkeypatch.setenv("OPENDML_TABLE_ARRAYS", str(arrays))
    monkeypatch.setattr(
        onnx_table, "MODELS", {"small": model, "gone": onnx_table.Model("none", "gone.onnx", [{}], onnx_table.PIXELS)}
    )

    def here(path: Path, name: str, number: int, engine: str, repeat: int, _: Path) -> dict[str, float]:
        return onnx_table.child(path, onnx_table.MODELS[name], model.sizes[number], engine, repeat)

    monkeypatch.setattr(onnx_table, "_in_process", here)
    (row,) = onnx_table.rows(tmp_path, [], 2, 1, arrays)
    assert (row.name, row.sizes, row.error) == ("small", "batch 2", 0)
    assert np.load(arrays)["state"].tolist() == [[0, 0, 0]] * 2
    drawn = np.load(arrays)["x"]
    assert (drawn == np.floor(drawn)).all()
    assert drawn.min() >= 0
    assert 1 < drawn.max() <= 256
    assert not [*onnx_table.rows(tmp_path, ["gone"], 2, 1, arrays)]


def test_errors_are_relative_to_the_largest_element() -> None:
    wanted = np.array([1, -4], np.float32)
    assert onnx_table._error([wanted + np.float32(1)], [wanted]) == 0.25
    assert onnx_table._error([wanted[:1]], [wanted]) == np.inf
    assert onnx_table._error([wanted.astype("d")], [wanted]) == np.inf


def test_the_page_has_a_geometric_mean() -> None:
    row = onnx_table.Row("nudenet", "x 1x2", 1e-7, 1.0, 4.0, 10, 20, 50, 60, 30, 40, False)
    text = onnx_table.page([row, row._replace(name="PP-OCR cls", theirs=1.0, is_quantized=True)], "a machine")
    assert "Geometric mean: 2.00." in text
    assert "| nudenet | x 1x2 | 1e-07 | 1 | 4 | 4.00 | 10 | 20 | 50 | 60 | 30 | 40 |" in text
    assert "| PP-OCR cls | x 1x2 | 1e-07 q | 1 | 1 | 1.00 |" in text
    assert "- pixels, in [0, 1): nudenet\n- pixels, in [-1, 1): PP-OCR cls\n" in text


def test_ranges_keep_to_their_ends() -> None:
    random = np.random.default_rng(0)
    for content in (onnx_table.SAMPLES, onnx_table.PIXELS, onnx_table.PIXELS_AS_THEY_ARE):
        numbers = content.numbers
        assert numbers is not None
        drawn = numbers.draw(random, (1000,))
        assert numbers.low <= drawn.min() < drawn.max() < numbers.high
        assert (drawn == np.floor(drawn)).all() == numbers.is_whole


def test_models_have_names_of_their_own() -> None:
    """Every file is told from the others by the end of its path."""
    files = [model.file for model in onnx_table.MODELS.values()]
    assert len({*files}) == len(files) >= 15
    assert all(model.sizes for model in onnx_table.MODELS.values())
