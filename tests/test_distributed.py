"""Models over data sets: on this machine, and on a local cluster of Ray whose workers are killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_lines import invoke

import opendml as dml
from opendml.compatibility.distributed import running
from opendml.compatibility.distributed.columns import table_of
from opendml.compatibility.distributed.sinks import file_name
from opendml.formats.onnx.model import OnnxModel

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
TYPES = onnx.TensorProto

ROWS = 11
X = np.arange(ROWS * 6, dtype=np.float32).reshape(ROWS, 2, 3)


def model(batch: int | str | None = "batch", sizes: tuple[Any, ...] = (2, 3), element: int = TYPES.FLOAT) -> bytes:
    """``double`` and ``total`` of rows."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["double"]),
        helper.make_node("ReduceSum", ["x", "axes"], ["total"], keepdims=0),
    ]
    axes = numpy_helper.from_array(np.arange(1, 1 + len(sizes)), "axes")
    inputs = [helper.make_tensor_value_info("x", element, [batch, *sizes])]
    outputs = [
        helper.make_tensor_value_info("double", element, [batch, *sizes]),
        helper.make_tensor_value_info("total", element, [batch]),
    ]
    graph = helper.make_graph(nodes, "rows", inputs, outputs, [axes])
    data: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    return data


def check(results: Any, x: np.ndarray[Any, Any] = X) -> None:
    np.testing.assert_array_equal(results["double"], x + x)
    np.testing.assert_array_equal(results["total"], x.sum((1, 2)))


# ---- here


@pytest.mark.parametrize("batch_size", [1, 4, 11, 64])
def test_arrays(batch_size: int) -> None:
    check(dml.distributed.map(model(), {"x": X}, batch_size=batch_size))


def test_the_order_is_that_of_the_rows_however_long_batches_take() -> None:
    results = dml.distributed.map(model(), {"x": np.tile(X, (8, 1, 1))}, batch_size=1, workers=4)
    check(results, np.tile(X, (8, 1, 1)))


def test_one_program_does_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, compile_model = [], OnnxModel.compile

    def counted(self: Any, *arguments: Any, **named: Any) -> Any:
        compiled.append(named["sizes"])
        return compile_model(self, *arguments, **named)

    monkeypatch.setattr(OnnxModel, "compile", counted)
    check(dml.distributed.map(model(), {"x": X}, batch_size=4))
    assert compiled == [{"x": [4, 2, 3]}]


def test_batches_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model(4))
    check(dml.distributed.map(path, X))
    with pytest.raises(dml.BindingError, match="batch_size=3: the model has batches of 4"):
        dml.distributed.map(path, X, batch_size=3)


def test_rows_are_converted_within_their_kind_and_reshaped() -> None:
    check(dml.distributed.map(model(), X.astype(np.float64).reshape(ROWS, 6)))
    loaded = dml.load(model())
    assert isinstance(loaded, OnnxModel)
    check(dml.distributed.map(loaded, X.astype(np.uint8)))
    with pytest.raises(dml.BindingError, match=r"rows of \[5\] do not fit"):
        dml.distributed.map(model(), np.zeros((3, 5), np.float32))
    with pytest.raises(dml.BindingError, match="float32 does not become int32"):
        dml.distributed.map(model(element=TYPES.INT32), X)


def test_columns() -> None:
    check(dml.distributed.map(model(), {"a": X, "b": X * 0}, columns={"x": "a"}))
    kept = dml.distributed.map(model(), {"x": X, "number": np.arange(ROWS)}, keep=["number"], batch_size=4)
    check(kept)
    np.testing.assert_array_equal(kept["number"], np.arange(ROWS))
    for columns, message in (({}, "no column for the input 'x' \\(column 'x'\\)"), ({"x": "c"}, "column 'c'")):
        with pytest.raises(dml.BindingError, match=message):
            dml.distributed.map(model(), {"a": X, "b": X}, columns=columns)
    with pytest.raises(dml.BindingError, match="there is no z"):
        dml.distributed.map(model(), {"x": X}, keep=["z"])


def test_inputs_without_rows_are_given_by_values() -> None:
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        "scaled",
        [helper.make_tensor_value_info("x", TYPES.FLOAT, ["n", 2]), helper.make_tensor_value_info("factor", 1, [])],
        [helper.make_tensor_value_info("y", TYPES.FLOAT, ["n", 2])],
    )
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    with pytest.raises(dml.BindingError, match="factor has no dimension for a batch"):
        dml.distributed.map(file, {"x": X[:, 0, :2]})
    results = dml.distributed.map(file, {"x": X[:, 0, :2]}, values={"factor": 3})
    np.testing.assert_array_equal(results["y"], X[:, 0, :2] * 3)


def test_outputs_have_a_row_for_each() -> None:
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)],
        "all",
        [helper.make_tensor_value_info("x", TYPES.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TYPES.FLOAT, [])],
    )
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    with pytest.raises(dml.BindingError, match="output 'y' has no row for each row"):
        dml.distributed.map(file, X[:, 0, :2])


def test_progress_goes_from_nothing_to_all() -> None:
    told: list[float] = []
    dml.distributed.map(model(), X, batch_size=4, progress=told.append)
    assert told == [4 / 11, 8 / 11, 1]


def test_options_that_make_no_sense(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"workers": 0}, "workers=0"),
        ({"format": "csv"}, "format='csv'"),
        ({"batch_size": -1}, "batch_size=-1"),
    ]
    for options, message in cases:
        with pytest.raises(dml.ConfigurationError, match=message):
            dml.distributed.map(model(), X, **options)
    with pytest.raises(dml.ConfigurationError, match="no rows"):
        dml.distributed.map(model(), X[:0])
    with pytest.raises(dml.BindingError, match="expected a path"):
        dml.distributed.map(model(), 7)
    with pytest.raises(dml.BindingError, match="as many rows"):
        dml.distributed.map(model(), {"x": X, "y": X[:3]})
    with pytest.raises(dml.ModelFormatError, match=r"there is no data set '.*nowhere'"):
        dml.distributed.map(model(), tmp_path / "nowhere")
    (tmp_path / "text.csv").write_text("1,2")
    for place in (tmp_path, tmp_path / "text.csv"):
        with pytest.raises(dml.ModelFormatError):
            dml.distributed.map(model(), place)


def test_the_model_is_complained_of_before_the_data_set(tmp_path: Path) -> None:
    for dataset in (tmp_path / "nowhere", {"x": X[:0]}, 7):
        with pytest.raises(dml.ModelFormatError, match=r"no file 'none\.onnx'"):
            dml.distributed.map(tmp_path / "none.onnx", dataset)


# ---- files


def test_numpy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X)
    assert dml.distributed.map(model(), tmp_path / "rows.npy", output=tmp_path / "out", batch_size=4) == ROWS
    check({name: np.load(tmp_path / "out" / f"{name}.npy") for name in ("double", "total")})
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "x.npy", X)
    np.save(tmp_path / "folder" / "other.npy", X)
    check(dml.distributed.map(model(), tmp_path / "folder"))
    np.savez(tmp_path / "rows.npz", x=X)
    check(dml.distributed.map(model(), tmp_path / "rows.npz"))
    assert file_name("a/b:c.0") == "a_b_c.0"


def test_parquet_files(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    tensors = pyarrow.FixedShapeTensorArray.from_numpy_ndarray(X)
    lists = pyarrow.array(X.reshape(ROWS, 6).tolist(), pyarrow.list_(pyarrow.float32()))
    fixed = pyarrow.FixedSizeListArray.from_arrays(X.reshape(-1), 6)
    names = pyarrow.array([f"row {number}" for number in range(ROWS)])
    folder = tmp_path / "in"
    folder.mkdir()
    table = pyarrow.table({"x": tensors, "lists": lists, "fixed": fixed, "name": names})
    parquet.write_table(table.slice(0, 5), folder / "a.parquet")
    parquet.write_table(table.slice(5), folder / "b.parquet")
    for column in ("x", "lists", "fixed"):
        check(dml.distributed.map(model(), table, columns={"x": column}))
        check(dml.distributed.map(model(), folder, columns={"x": column}, batch_size=4))
    output = tmp_path / "out"
    assert dml.distributed.map(model(), folder, output=output, keep=["name"], batch_size=4) == ROWS
    written = parquet.read_table(output)
    check({"double": written["double"].combine_chunks().to_numpy_ndarray(), "total": written["total"].to_numpy()})
    assert written["name"].to_pylist() == names.to_pylist()
    with pytest.raises(dml.BindingError, match="missing"):
        dml.distributed.map(model(), pyarrow.table({"x": pyarrow.array([1.0, None])}))
    with pytest.raises(dml.BindingError, match="different lengths"):
        dml.distributed.map(model(), pyarrow.table({"x": pyarrow.array([[1.0], [1.0, 2.0, 3.0]])}))
    (folder / "c.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(dml.ModelFormatError, match=r"c\.parquet: no Parquet file"):
        dml.distributed.map(model(), folder)


def test_arrow_batches_are_not_copied() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from opendml.compatibility.distributed.columns import array_of_column, column_of_array

    flat = pyarrow.array(X.reshape(-1))
    for column in (pyarrow.FixedSizeListArray.from_arrays(flat, 6), column_of_array(X), flat):
        array = array_of_column(column, "x")
        first = (column.storage.flatten() if hasattr(column, "storage") else flat).buffers()[1].address
        assert array.__array_interface__["data"][0] == first
    assert column_of_array(X).storage.flatten().buffers()[1].address == X.__array_interface__["data"][0]


def test_folders_of_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    colours = [(255, 0, 0), (0, 255, 0), (0, 51, 255)]
    for number, colour in enumerate(colours):
        path = tmp_path / "in" / f"{'deep/' * (number == 2)}{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (4, 5), colour).save(path)
    results = dml.distributed.map(model(sizes=(3, 2, 2)), tmp_path / "in", batch_size=2)
    assert results["path"].tolist() == ["0.png", "1.png", "deep/2.png"]
    expected = np.array(colours, np.float32) / 255
    np.testing.assert_array_equal(results["double"][:, :, 1, 1], expected * 2)
    shifted = dml.distributed.map(
        model(sizes=(3, "h", "w")), tmp_path / "in", image_size=(2, 3), image_mean=(0.5,), image_deviation=(0.5, 1, 2)
    )
    np.testing.assert_allclose(shifted["double"][:, :, 1, 2], 4 * (expected - 0.5) / np.array([1, 2, 4]), rtol=1e-6)
    last = dml.distributed.map(model(sizes=(2, 2, 3), element=TYPES.INT32), tmp_path / "in", output=tmp_path / "out")
    assert last == 3
    assert np.load(tmp_path / "out" / "path.npy").tolist() == results["path"].tolist()
    assert np.load(tmp_path / "out" / "double.npy")[1, 0, 0].tolist() == [0, 510, 0]


def test_output_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"
    calls = []

    def failing(share: float) -> None:
        calls.append(share)
        assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []
        if len(calls) == 2:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        dml.distributed.map(model(), X, output=output, batch_size=2, progress=failing)
    assert list(tmp_path.iterdir()) == []
    assert dml.distributed.map(model(), X, output=output) == ROWS
    monkeypatch.setattr(running, "map_here", lambda *_: pytest.fail("nothing is to run"))
    with pytest.raises(dml.ConfigurationError, match="is there already"):
        dml.distributed.map(model(), X, output=output)


# ---- the command


def test_the_command(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "model.onnx").write_bytes(model(sizes=(3, "h", "w")))
    (tmp_path / "images").mkdir()
    for number in range(3):
        image.new("RGB", (2, 2), (51, 255, number)).save(tmp_path / "images" / f"{number}.png")
    arguments = ["map", tmp_path / "model.onnx", tmp_path / "images", "--output", tmp_path / "out", "--batch", 2]
    options = ["--image-size", "2x3", "--image-mean", "0.2,0,0", "--image-deviation", "0.5", "--workers", 1]
    result = invoke(*arguments, *options)
    assert result.exit_code == 0, result.stderr
    assert "3 rows in" in result.stdout
    found = np.load(tmp_path / "out" / "double.npy")
    np.testing.assert_allclose(found[1, :, 1, 2], [0, 4, 4 / 255], atol=1e-6)
    again = invoke(*arguments)
    assert again.exit_code == 2
    assert "is there already" in again.stderr
    image.new("RGB", (3, 2)).save(tmp_path / "images" / "wide.png")
    assert (
        "different sizes, and the model leaves them open: --image-size 224x224"
        in invoke(*arguments[:4], tmp_path / "open").stderr
    )
    for wrong, message in (
        (["--image-size", "2"], "HEIGHTxWIDTH"),
        (["--image-mean", "a"], "expected numbers"),
        (["--column", "x=image,=y"], "NAME=NAME"),
    ):
        result = invoke(*arguments[:4], tmp_path / "other", *wrong)
        assert result.exit_code == 2
        assert message in result.stderr


def test_the_command_on_tables(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "model.onnx").write_bytes(model())
    parquet.write_table(table_of({"data": X, "id": np.arange(ROWS)}), tmp_path / "in.parquet")
    arguments = ["map", tmp_path / "model.onnx", tmp_path / "in.parquet", "--output", tmp_path / "out", "--json"]
    result = invoke(*arguments, "--column", "x=data", "--keep", "id")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["rows"] == ROWS
    written = parquet.read_table(tmp_path / "out")
    assert written["id"].to_pylist() == list(range(ROWS))
    np.testing.assert_array_equal(written["total"].to_numpy(), X.sum((1, 2)))


# ---- Ray


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A cluster of this machine, of two processors."""
    package = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    package.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    package.data.DataContext.get_current().enable_progress_bars = False
    yield package
    package.shutdown()


def workers_of_ray() -> list[int]:
    """The processes of this test's cluster that run models."""
    parents, workers = {}, []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if "Worker" in (title := (place / "cmdline").read_text()) and title.startswith("ray::MapWorker"):
                workers.append(int(place.name))
        except (OSError, ValueError):
            continue

    def is_ours(process: int) -> bool:
        while process > 1 and process != os.getpid():
            process = parents.get(process, 0)
        return process == os.getpid()

    return [process for process in workers if is_ours(process)]


def test_a_killed_worker_loses_nothing(ray: Any, tmp_path: Path) -> None:
    if not Path("/proc").exists():
        pytest.skip("processes are found in /proc")
    rows = 40

    def slowly(table: Any) -> Any:
        time.sleep(0.1)
        return table

    data = np.arange(rows * 6, dtype=np.float32).reshape(rows, 2, 3)
    numbered = table_of({"x": data, "row": np.arange(rows)})
    tables = [numbered.slice(first, 1) for first in range(rows)]
    dataset = ray.data.from_arrow(tables).map_batches(slowly, batch_format="pyarrow", batch_size=None)
    killed: list[int] = []
    done = threading.Event()

    def kill() -> None:
        while not killed and not done.is_set():
            for process in workers_of_ray()[:1]:
                time.sleep(0.5)
                os.kill(process, signal.SIGKILL)
                killed.append(process)
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        results = dml.distributed.map(model(), dataset, batch_size=1, keep=["row"], workers=1)
        found = results.to_pandas().sort_values("row")
    finally:
        done.set()
        killer.join()
    assert killed
    assert found["row"].tolist() == list(range(rows))
    np.testing.assert_array_equal(found["total"].to_numpy(), data.sum((1, 2)))


def test_files_by_ray_are_those_written_here(ray: Any, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = table_of({"x": X, "row": np.arange(ROWS)})
    parquet.write_table(table, tmp_path / "in.parquet")
    options: dict[str, Any] = {"batch_size": 4, "keep": ["row"], "workers": 1}
    assert dml.distributed.map(model(), tmp_path / "in.parquet", output=tmp_path / "out", **options) == ROWS
    written = parquet.read_table(tmp_path / "out").sort_by("row")
    np.testing.assert_array_equal(written["total"].to_numpy(), X.sum((1, 2)))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    check(dml.distributed.map(model(), {"x": X}, batch_size=4, workers=1))


def test_images_by_ray_are_read_by_its_workers(ray: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "in").mkdir()
    for number in range(3):
        image.new("RGB", (2, 2), (51, 255, number)).save(tmp_path / "in" / f"{number}.png")
    rows = dml.distributed.map(model(sizes=(3, 1, 2)), tmp_path / "in", output=tmp_path / "out", workers=1)
    assert rows == 3
    assert np.load(tmp_path / "out" / "path.npy").tolist() == ["0.png", "1.png", "2.png"]
    expected = np.array([[51, 255, number] for number in range(3)], np.float32) / 255
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "double.npy")[:, :, 0, 1], expected * 2)
    with pytest.raises(dml.BindingError, match="no column for the input"):
        dml.distributed.map(model(), {"a": X, "b": X})
