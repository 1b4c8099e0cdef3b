"""DxDispatch models: the examples and Microsoft's sample models, compiled."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opendml.formats.dxdispatch import Executor, RunOptions
from opendml.formats.dxdispatch.reports import TextReport
from opendml.formats.models import read_model
from opendml.programs.device import Device

SHARED = Path(os.environ.get("OPENDML_SHARED", Path(__file__).parents[2] / "shared")) / "dxdispatch"
EXAMPLES = Path(__file__).parents[1] / "examples"


# ---- the examples and Microsoft's models, compiled


def compiled(path: Path, output_path: Path | None = None, **options: Any) -> tuple[Executor, list[str]]:
    """A model file run on the processor: its executor, and the lines printed but for those with times."""
    output = io.StringIO()
    report = TextReport(RunOptions(), output)
    executor = Executor(read_model(path, output_path=output_path, **options), Device("cpu"), None, report)
    executor.run()
    return executor, [line for line in output.getvalue().splitlines() if not line.startswith("Dispatch")]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("slice1", ["Resource 'forwards': 2, 4, 10, 12", "Resource 'backwards': 14, 16, 6, 8"]),
        ("max_pooling1", ["Resource 'values': 7, 7, 9, 8", "Resource 'indices': 2, 2, 4, 7"]),
        (
            "split",
            [
                "Resource 'rows 0 to 1': 1, 2, 3, 4",
                "Resource 'row 2': 5, 6",
                "Resource 'rows 3 to 5': 7, 8, 9, 10, 11, 12",
                "Resource 'column 0': 1, 3, 5, 7, 9, 11",
                "Resource 'column 1': 2, 4, 6, 8, 10, 12",
            ],
        ),
    ],
)
def test_examples(name: str, lines: list[str]) -> None:
    assert compiled(EXAMPLES / f"{name}.json")[1] == lines


def test_every_example_is_tested() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.json")) == ["max_pooling1", "slice1", "split"]


def _elu(x: Any, alpha: float) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _windows(x: Any, filter: Any) -> Any:
    """Cross-correlation of an array with a filter, without padding."""
    windows = np.lib.stride_tricks.sliding_window_view(x, filter.shape)
    return (windows * filter).sum(axis=tuple(range(-filter.ndim, 0)))


def _linear_upsampling(x: Any) -> Any:
    positions = (np.arange(4) + 0.5) / 2 - 0.5
    rows = np.array([np.interp(positions, [0, 1], row) for row in x])
    return np.array([np.interp(positions, [0, 1], column) for column in rows.T]).T


RNN_INPUT = 1 + np.arange(32.0).reshape(8, 4)
RNN_WEIGHTS = 1 + 0.4 * np.arange(40.0).reshape(2, 5, 4)
COUNT = 1 + np.arange(32.0)

# What each of Microsoft's models leaves in its resources, in closed form or by NumPy.
SAMPLES: dict[str, dict[str, Any]] = {
    "dml_convolution_2d": {"output": _windows(COUNT[:9].reshape(3, 3), np.full((2, 2), 0.5))},
    "dml_convolution_3d": {"output": np.full(8, 4)},
    "dml_cumulative_product": {"Out": [2, 8, 64, 192]},
    "dml_element_wise_add": {"Out": [6, 10, -2]},
    "dml_element_wise_add1": {"Out": _elu(np.array([6, 10, -2]), 0.5)},
    "dml_element_wise_add_npy": {"Out": 2 * COUNT[:6]},
    "dml_element_wise_clip": {"A": np.clip(np.arange(-4, 5), -2.5, 2.5)},
    "dml_element_wise_identity": {"Out": 2 * COUNT[:3] + 10},
    "dml_fill_value_sequence": {"Out": 3.2 + 1.5 * np.arange(5)},
    "dml_gemm": {"output": np.outer([1, 2, 3], [4, 5, 6]) + 2},
    "dml_gemm_graph": {"output": np.full(1024, 32)},
    "dml_join": {"Out": [1, 2, 3, 100, 115, 5, 6, 7, 8, 9]},
    "dml_owned_tensors": {"Out": [6, 10, -2]},
    "dml_reduce": {"output": [6, 15, 24], "input": COUNT[:9]},
    "dml_rnn": {"output": [_elu(RNN_INPUT @ RNN_WEIGHTS[0].T, 0.5), _elu(RNN_INPUT @ RNN_WEIGHTS[1].T, 3.5)]},
    "dml_scalar_union_fp16": {"output": [2, 2, 3, 4, 4]},
    "dml_slice": {"output": COUNT[:25].reshape(5, 5)[1:4, 1:4:2]},
    "dml_split": {"Out1": [1, 2], "Out2": [3, 4], "Out3": [5, 6]},
    "dml_upsample_2d": {"output": _linear_upsampling(COUNT[:4].reshape(2, 2))},
}


@pytest.mark.skipif(not SHARED.is_dir(), reason="Microsoft's models are not here")
@pytest.mark.parametrize("name", SAMPLES)
def test_sample_models(name: str, tmp_path: Path) -> None:
    executor, lines = compiled(SHARED / f"{name}.json", tmp_path)
    for resource_name, expected in SAMPLES[name].items():
        contents = executor.contents(resource_name)
        np.testing.assert_allclose(contents, np.asarray(expected, np.float64).reshape(-1), rtol=2e-6)
        line = next(line for line in lines if line.startswith(f"Resource '{resource_name}': "))
        assert line == f"Resource '{resource_name}': {', '.join(f'{value:g}' for value in contents)}"


@pytest.mark.skipif(not SHARED.is_dir(), reason="Microsoft's models are not here")
def test_every_operator_model_is_tested() -> None:
    assert sorted(path.stem for path in SHARED.glob("dml_*.json")) == sorted(SAMPLES)


ONNX_SAMPLES = {
    "onnx_gemm": [("Out", [22, 28, 34, 40, 46, 60, 74, 88, 70, 92, 114, 136])],
    "onnx_dynamic_shapes": [
        ("c", [1, 2, 7, 8, *[0] * 8]),
        ("c", list(range(1, 13))),
        ("deferredY", list(range(1, 13))),
    ],
}
"""What is printed, by resource."""


@pytest.mark.skipif(not SHARED.is_dir(), reason="Microsoft's models are not here")
@pytest.mark.parametrize("name", ONNX_SAMPLES)
def test_onnx_samples(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    _, lines = compiled(SHARED / f"{name}.json", tmp_path)
    printed = [line for line in lines if line.startswith("Resource")]
    assert printed == [
        f"Resource '{resource}': {', '.join(map(str, values))}" for resource, values in ONNX_SAMPLES[name]
    ]


@pytest.mark.skipif(not SHARED.is_dir(), reason="Microsoft's models are not here")
def test_sample_files_are_written(tmp_path: Path) -> None:
    compiled(SHARED / "dml_element_wise_add_npy.json", tmp_path)
    expected = [2, 4, 6, 8, 10, 12]
    assert np.load(tmp_path / "dml_element_wise_add_output.npy").tolist() == expected
    assert (tmp_path / "dml_element_wise_add_output.dat").read_bytes() == struct.pack("<6f", *expected)


@pytest.mark.skipif(not SHARED.is_dir(), reason="Microsoft's models are not here")
def test_image_sample(tmp_path: Path) -> None:
    """The model that makes a photograph grey, with a picture of our own: one colour a quadrant."""
    image = pytest.importorskip("PIL.Image")
    colours = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], np.uint8)
    image.fromarray(colours.repeat(256, 0).repeat(256, 1)).save(tmp_path / "chihuahua.jpg", quality=100)
    compiled(SHARED / "image_io.json", tmp_path, input_path=tmp_path)
    written = np.asarray(image.open(tmp_path / "output.png"))
    assert written.shape == (512, 512)
    weights = np.array([0.2989, 0.5870, 0.1140])
    for row in range(2):
        for column in range(2):
            middle = written[row * 256 + 100 : row * 256 + 150, column * 256 + 100 : column * 256 + 150]
            assert np.abs(middle - colours[row, column] @ weights).max() < 3
