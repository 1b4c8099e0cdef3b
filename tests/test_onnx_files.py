"""Files of ONNX models: data beside them, what is damaged, and the command that takes them."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opendml as dml
from opendml.command_line import main
from opendml.formats.onnx.package import onnx_package
from opendml.targets.host_memory import MappedFile, owner_of

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
from onnx_building import REFERENCE, TYPES, expected_of, info, network, node, proto  # noqa: E402


def external(path: Path, **entries: str) -> None:
    """A model whose weight lies beside it."""
    model = proto([node("Add", ["x", "w"], ["y"])], [info("x", [4])], [info("y", [4])], w=np.zeros(4, "f"))
    (weight,) = model.graph.initializer
    weight.ClearField("raw_data")
    weight.data_location = TYPES.EXTERNAL
    for key, value in entries.items():
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    path.write_bytes(model.SerializeToString())


def test_data_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(bytes(8) + np.arange(4, dtype="f").tobytes())
    external(tmp_path / "model.onnx", location="data/w.bin", offset="8", length="16")
    model = dml.load(tmp_path / "model.onnx")
    assert isinstance(model, dml.OnnxModel)
    assert model.run({"x": np.ones(4, "f")}, device=REFERENCE)["y"].tolist() == [1, 2, 3, 4]


def test_weights_stay_in_the_memory_of_their_file(tmp_path: Path) -> None:
    """Mapped, and not copied before they are laid out."""
    weight = np.arange(1 << 20, dtype="f")
    model = proto([node("Add", ["x", "w"], ["y"])], [info("x", [1])], [info("y", None)], w=weight)
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    loaded = dml.load(tmp_path / "model.onnx")
    assert isinstance(loaded, dml.OnnxModel)
    loaded.needed_values()  # imports what reading needs
    tracemalloc.start()
    graph = loaded._translated(loaded._request(REFERENCE, None, None, narrows=False))[0]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < weight.nbytes // 4
    (data,) = graph._constants
    assert data == weight.tobytes()
    assert loaded.run({"x": np.ones(1, "f")}, device=REFERENCE)["y"][-1] == weight.size


@pytest.mark.parametrize(("rows", "offset", "stays"), [(1 << 14, 16, True), (64, 0, False)])
def test_tables_are_read_where_their_files_are(rows: int, offset: int, stays: bool, tmp_path: Path) -> None:
    """A large table of which few rows are read is not copied, neither when it is new nor from the cache."""
    table = np.arange(rows * 64, dtype="f").reshape(rows, 64)
    (tmp_path / "w.bin").write_bytes(bytes(offset) + table.tobytes())
    model = proto([node("Gather", ["w", "x"], ["y"])], [info("x", [3], TYPES.INT64)], [info("y", None)], w=table)
    (weight,) = model.graph.initializer
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", str(offset))):
        weight.external_data.add(key=key, value=value)
    onnx.save(model, tmp_path / "model.onnx")
    for _ in range(2):
        loaded = dml.load(tmp_path / "model.onnx")
        assert isinstance(loaded, dml.OnnxModel)
        program = loaded.compile()
        assert program.run({"x": np.array([1, 0, 5])})["y"].tolist() == table[[1, 0, 5]].tolist()
        assert program.program is not None and program.program.program._kept is not None
        (kept,) = program.program.program._kept
        assert isinstance(owner_of(kept.array), MappedFile) == stays


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../w.bin"}, "'../w.bin' is no file in the folder of the model"),
        ({"location": "/etc/hostname"}, "'/etc/hostname' is no file in the folder of the model"),
        ({"location": "link"}, "'link' leads out of the folder of the model"),
        ({"location": "circle"}, "('circle' leads nowhere|cannot read 'circle': Too many levels of symbolic links)"),
        ({"location": "w.bin", "offset": "1"}, "'w.bin' ends before it: 16 bytes"),
        ({"location": "w.bin", "offset": "-1"}, "offset '-1' is no number of bytes"),
        ({"location": "w.bin", "length": "8"}, r"float32 \[4\] needs 16 bytes, its length is 8"),
        ({"location": "absent"}, "cannot read 'absent': No such file or directory"),
    ],
)
def test_data_that_is_not_there(entries: dict[str, str], message: str, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (folder / "w.bin").write_bytes(bytes(16))
    (folder / "link").symlink_to(tmp_path / "w.bin")
    (folder / "circle").symlink_to("circle")
    external(folder / "model.onnx", **entries)
    model = dml.load(folder / "model.onnx")
    assert isinstance(model, dml.OnnxModel)
    with pytest.raises(dml.ModelFormatError, match=f"^initializer 'w': {message}$"):
        model.compile()


def test_damaged_models() -> None:
    whole = network().SerializeToString()
    for data in (whole[:20], whole[:-7]):
        with pytest.raises(dml.ModelFormatError):
            dml.load(data)
    with pytest.raises(dml.ModelFormatError, match=r"^not an ONNX model: it is a NumPy array; numpy.load"):
        dml.load(b"\x93NUMPY")
    with pytest.raises(dml.ModelFormatError, match=r"^there are no bytes; expected those of an ONNX model$"):
        dml.load(b"")


def test_data_of_another_length() -> None:
    model = proto([node("Add", ["x", "w"], ["y"])], [info("x", [4])], [info("y", [4])], w=np.zeros(4, "f"))
    model.graph.initializer[0].raw_data = bytes(12)
    loaded = dml.load(model.SerializeToString())
    assert isinstance(loaded, dml.OnnxModel)
    with pytest.raises(dml.ModelFormatError, match=r"^initializer 'w': float32 \[4\] needs 16 bytes, got 12$"):
        loaded.compile()


@pytest.mark.parametrize("sizes", [(1,) * 64 + (4,), (0,) * 65])
@pytest.mark.parametrize("is_beside", [False, True])
def test_data_of_too_many_dimensions(sizes: tuple[int, ...], is_beside: bool, tmp_path: Path) -> None:
    """More than any array has."""
    external(tmp_path / "model.onnx", location="w.bin")
    (tmp_path / "w.bin").write_bytes(bytes(16))
    model = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    (weight,) = model.graph.initializer
    del weight.dims[:]
    weight.dims.extend(sizes)
    if not is_beside:
        weight.data_location, weight.raw_data = TYPES.DEFAULT, bytes(0 if 0 in sizes else 16)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    loaded = dml.load(tmp_path / "model.onnx")
    assert isinstance(loaded, dml.OnnxModel)
    with pytest.raises(dml.ModelFormatError, match=r"^initializer 'w': no array has the sizes "):
        loaded.compile()


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    onnx_package.cache_clear()
    monkeypatch.setitem(sys.modules, "onnx", None)
    try:
        with pytest.raises(dml.ConfigurationError, match=r"pip install 'opendml\[onnx\]'"):
            dml.load(network().SerializeToString())
    finally:
        onnx_package.cache_clear()


# ---- the command


def test_the_command_runs_and_judges_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "network.onnx"
    onnx.save(network(), path)
    x = np.random.default_rng(0).standard_normal((1, 3, 4, 5)).astype("f")
    np.save(tmp_path / "x.npy", x)
    sizes = ["--size", "batch=1,x=1x3x4x5"]
    assert main(["run", str(path), "--device", "reference", "--json", *sizes]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert "y" in json.dumps(printed)
    for level in ("6_4", "2_1"):
        assert main(["check", str(path), "--feature-level", level, *sizes]) == 0
        assert capsys.readouterr().out == f"valid at feature level {level}: 3 operators\n"
    assert main(["explain", str(path), *sizes]) == 0
    assert "Nodes[0] 'first': CONVOLUTION" in capsys.readouterr().out
    assert main(["check", str(path)]) == 2
    assert "--size x=1x3x1x1, for example" in capsys.readouterr().out


@pytest.mark.parametrize("sizes", [[1 << 40, 1 << 40], [1 << 31, 2], [0, 1 << 62]])
def test_inputs_that_no_tensor_has_are_not_filled(
    sizes: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(proto([node("Neg", ["x"], ["y"])], [info("x", sizes)], [info("y", None)]), path)
    for options in ([], ["--input", "x=random"]):
        assert main(["run", str(path), *options]) == 2
        assert f"{path}: input 'x': no tensor has the sizes {sizes}: at most" in capsys.readouterr().err


def test_files_of_more_than_memory_are_told_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A head of a few bytes promises four pebibytes."""
    path, array = tmp_path / "model.onnx", tmp_path / "x.npy"
    onnx.save(proto([node("Neg", ["x"], ["y"])], [info("x", [4])], [info("y", None)]), path)
    with array.open("wb") as file:
        head = {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 1 << 10)}
        np.lib.format.write_array_header_1_0(file, head)
    assert main(["run", str(path), "--input", f"x={array}"]) == 2
    assert f"{path}: input 'x': 'x.npy' is no readable .npy file: 'Unable to allocate" in capsys.readouterr().err


def test_messages_say_what_a_user_of_the_command_or_of_python_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What they name is an option of the command that was called, and with it the command goes on."""
    path = tmp_path / "model.onnx"
    nodes = [node("Tanh", ["x"], ["t"], name="squash"), node("Tile", ["t", "times"], ["y"])]

    def save(sizes: Sequence[int | str | None] | None) -> None:
        x, y = (info(name, sizes, TYPES.DOUBLE) for name in "xy")
        onnx.save(proto(nodes, [x, info("times", [2], TYPES.INT64)], [y], 17), path)

    def said(*options: str) -> str:
        status = main(["check", str(path), *options])
        shown = capsys.readouterr()
        return "valid" if status == 0 else shown.out + shown.err

    save(["n", 3])
    model = dml.load(path)
    assert isinstance(model, dml.OnnxModel)
    values, more = ["--value", "times=1x2"], ["--size", "n=2"]
    assert said(*values).startswith("input 'x': not all of its sizes are known, <'x': float64 [n, 3]>: --size n=1, for")
    with pytest.raises(dml.ModelFormatError, match=r": sizes=\{'n': 1\}, for example"):
        model.compile()
    assert said(*values, "--size", "m=1").startswith("--size: the model has no dimension and no input 'm'")
    with pytest.raises(dml.ModelFormatError, match=r"^sizes: the model has no dimension and no input 'm'"):
        model.compile(sizes={"m": 1})
    assert "--value: the model has no input z" in said("--value", "z=1")
    with pytest.raises(dml.BindingError, match=r"^values: the model has no input z"):
        model.compile(values={"z": 1})
    assert said(*values, *more).startswith("Tanh 'squash': no FLOAT64 here (--narrow-float64 computes it in FLOAT32):")
    assert said(*values, *more, "--narrow-float64") == "valid"
    save([None, 3])
    assert "--size x=1x3, for example" in said(*values)
    save(None)
    assert "--size x=1x3x224x224, for example" in said(*values)
    for command in ("explain", "profile"):
        assert main([command, str(path), *values]) == 2
        assert "--size x=" in capsys.readouterr().err


def test_the_command_takes_inputs_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "network.onnx"
    onnx.save(network(), path)
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype("f")
    np.save(tmp_path / "a.npy", x)
    np.savez(tmp_path / "all.npz", x=x, unused=x)
    expected = expected_of(x)
    run = ["run", str(path), "--device", "reference"]
    for given in (f"x={tmp_path / 'a.npy'}", f"x={tmp_path / 'all.npz'}", str(tmp_path / "all.npz")):
        assert main([*run, "--json", "--input", given]) == 0
        printed = json.loads(capsys.readouterr().out)["outputs"]["y"]
        assert printed["sizes"] == [2, 4]
        np.testing.assert_allclose(printed["values"], expected, rtol=1e-5, atol=1e-5)
    output = tmp_path / "results.npz"
    assert main([*run, "--input", f"x={tmp_path / 'a.npy'}", "--output", str(output)]) == 0
    assert capsys.readouterr().out == f"y: float32 [2, 4]\nwritten to {output}\n"
    np.testing.assert_allclose(np.load(output)["y"], expected, rtol=1e-5, atol=1e-5)
    assert main([*run, "--input", "x=random", "--size", "batch=1", "--size", "x=1x3x4x4"]) == 0
    assert capsys.readouterr().out.startswith("y: float32 [1, 4]\n[[")
    assert main([*run, "--input", "z=random", "--size", "x=1x3x4x4"]) == 2
    assert "the model has no input z, only x" in capsys.readouterr().err
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY")
    for name in ("bad.npy", "absent.npy", "x.txt"):
        assert main([*run, "--input", f"x={tmp_path / name}"]) == 2
        assert name in capsys.readouterr().err


def test_the_command_takes_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)
    image.fromarray(pixels).save(tmp_path / "x.png")
    cases: list[tuple[Sequence[int | str | None], int, Any]] = [
        ([1, 3, "h", "w"], TYPES.FLOAT, (pixels / np.float32(255)).transpose(2, 0, 1)),
        ([1, "h", "w", 3], TYPES.UINT8, pixels),
    ]
    for sizes, element, expected in cases:
        model = proto([node("Identity", ["x"], ["y"])], [info("x", sizes, element)], [info("y", None, element)])
        onnx.save(model, tmp_path / "m.onnx")
        command = ["run", str(tmp_path / "m.onnx"), "--device", "reference", "--input", f"x={tmp_path / 'x.png'}"]
        assert main([*command, "--output", str(tmp_path / "y.npz")]) == 0
        np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], expected[None])
        capsys.readouterr()


def test_the_command_takes_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node("Reshape", ["x", "sizes"], ["y"])]
    model = proto(nodes, [info("x", [6]), info("sizes", [2], TYPES.INT64)], [info("y", None)])
    onnx.save(model, tmp_path / "m.onnx")
    value = ["--value", "sizes=2x3"]
    assert main(["run", str(tmp_path / "m.onnx"), "--device", "reference", *value]) == 0
    assert capsys.readouterr().out == "y: float32 [2, 3]\n[[0., 0., 0.],\n [0., 0., 0.]]\n"
    assert main(["check", str(tmp_path / "m.onnx")]) == 2
    assert "decide what it computes (inputs sizes: --value sizes=1x1, for example)" in capsys.readouterr().out
    assert main(["run", str(tmp_path / "m.onnx"), "--value", "sizes=two"]) == 2
    assert "expected NAME=NUMBER" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["batch", "batch=", "=1", "batch=1x", "batch=-1", "a=1,,b=2"])
def test_sizes_of_the_command_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "model.onnx", "--size", text]) == 2
    assert "--size" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "n=3"], "--size: the input 'x' would be [3, 2], but what it is read from is [4, 2]"),
        (["--size", "x=4x3"], "--size: the input 'x' would be [4, 3], but what it is read from is [4, 2]"),
        (["--output", "y.txt"], "--output: expected a file such as results.npz, got y.txt"),
        (["--size", "n=4"], ""),
    ],
    ids=str,
)
def test_the_command_says_early_what_contradicts(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sizes that are not those of a file beside the model, and outputs of no format, before anything runs."""
    onnx.save(proto([node("Neg", ["x"], ["y"])], [info("x", ["n", 2])], [info("y", None)]), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((4, 2), "f"))
    status = main(["run", str(tmp_path / "m.onnx"), "--device", "reference", *options])
    shown = capsys.readouterr()
    assert (status, message in shown.err) == ((2, True) if message else (0, True))
    assert ("y: float32 [4, 2]" in shown.out) == (not message)


def test_the_command_iterates_as_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Iterations of repeated runs, so many or for a time, the first ones left out of the median."""
    onnx.save(proto([node("Neg", ["x"], ["y"])], [info("x", [2])], [info("y", None)]), tmp_path / "m.onnx")
    runs: list[dml.OnnxProgram] = []
    usual = dml.OnnxProgram.run

    def run(self: dml.OnnxProgram, arrays: Any) -> Any:
        runs.append(self)
        return usual(self, arrays)

    monkeypatch.setattr(dml.OnnxProgram, "run", run)
    arguments = ["run", str(tmp_path / "m.onnx"), "--device", "reference", "--output", "y.npz"]
    arguments += ["--output_path", str(tmp_path)]
    assert main([*arguments, "-i", "5", "-r", "3", "-w", "2", "-v", "2"]) == 0
    shown = capsys.readouterr().out
    assert len(runs) == 15
    assert "the median of 3 iterations" in shown
    assert shown.count("\nall: ") == 1
    assert list(np.load(tmp_path / "y.npz")) == ["y"]
    del runs[:]
    assert main([*arguments, "-t", "0", "-i", "5"]) == 0
    assert len(runs) == 1
