"""DxDispatch models: reading, checking, resources, bindings, running; hostile input; Microsoft's sample models."""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dxdispatch_models import ADD, changed, json_values, mutated_models
from hypothesis import given, settings
from hypothesis import strategies as st

from opendml.device import Device
from opendml.errors import ModelFormatError, OpendmlError
from opendml.models import Executor, Folders, Model, RunOptions, check_model, parse_model, read_model
from opendml.models.json_text import parse
from opendml.models.printing import format_elements, format_elements_verbose
from opendml.rules import validate_or_raise

SHARED = Path(os.environ.get("OPENDML_SHARED", Path(__file__).parents[2] / "shared")) / "dxdispatch"
EXAMPLES = Path(__file__).parents[1] / "examples"


class NumpyDevice:
    """A device that runs operators by NumPy functions of the flat arrays, so that models are tested by themselves."""

    def __init__(self, feature_level: str = "6_4") -> None:
        self.feature_level = feature_level
        self.calls: list[str] = []

    def create_operator(self, desc: Any) -> Any:
        validate_or_raise(desc, self.feature_level)
        return desc

    def compile(self, desc: Any, *arguments: Any) -> NumpyProgram:
        return NumpyProgram(desc, self.calls)


class NumpyProgram:
    def __init__(self, desc: Any, calls: list[str]) -> None:
        self.desc = desc
        self.calls = calls

    def bind(self, inputs: list[Any], outputs: list[Any]) -> Callable[[], None]:
        def elements(named: Any, arrays: list[Any]) -> list[Any]:
            return [
                None if array is None else np.lib.stride_tricks.as_strided(
                    array, tensor.sizes, [stride * array.itemsize for stride in tensor.effective_strides]
                )
                for (_, tensor), array in zip(named, arrays, strict=True)
            ]  # fmt: skip

        def run() -> None:
            self.calls.append(self.desc.type.name)
            values = FUNCTIONS[self.desc.type.name](self.desc, *elements(self.desc.inputs(), inputs))
            for target, value in zip(elements(self.desc.outputs(), outputs), values, strict=True):
                target[...] = value

        return run


def _slice(desc: Any, x: Any) -> list[Any]:
    return [x[tuple(slice(o, o + s * t, t) for o, s, t in zip(desc.offsets, desc.sizes, desc.strides, strict=True))]]


FUNCTIONS: dict[str, Callable[..., list[Any]]] = {
    "ELEMENT_WISE_ADD": lambda desc, a, b: [a + b],
    "ELEMENT_WISE_CLIP": lambda desc, x: [np.clip(x, desc.min, desc.max)],
    "JOIN": lambda desc, *tensors: [np.concatenate(tensors, desc.axis)],
    "SLICE": _slice,
    "SPLIT": lambda desc, x: np.split(x, np.cumsum([t.sizes[desc.axis] for t in desc.output_tensors])[:-1], desc.axis),
}


def read(model: Any, folder: Path = Path(), **options: Any) -> Model:
    text = model if isinstance(model, str) else json.dumps(model)
    return parse_model(text, Folders(folder, folder), **options)


def run(model: Any, folder: Path = Path(), device: NumpyDevice | None = None, **options: Any) -> str:
    output = io.StringIO()
    parsed = model if isinstance(model, Model) else read(model, folder)
    Executor(parsed, device or NumpyDevice(), RunOptions(**options), output).run()
    return output.getvalue()


def results(model: Any, folder: Path = Path()) -> list[str]:
    """The printed lines, but for those with times."""
    return [line for line in run(model, folder).splitlines() if not line.startswith("Dispatch")]


def resource(description: dict[str, Any], folder: Path = Path()) -> np.ndarray[Any, Any]:
    """The contents of a resource."""
    model = read({"resources": {"x": description}, "dispatchables": {}, "commands": []}, folder)
    return Executor(model, NumpyDevice(), None, io.StringIO()).contents("x")


def problem(model: Any, folder: Path = Path(), **options: Any) -> tuple[str, str]:
    """The path and message of the error that reading and preparing a model gives."""
    with pytest.raises(ModelFormatError) as caught:
        Executor(read(model, folder, **options), NumpyDevice(), None, io.StringIO())
    return caught.value.path, caught.value.message


# ---- JSON


def test_comments_and_trailing_commas() -> None:
    text = '// first\n{"a": [1, 2, /* , ] */ 3,], // "x"\n "b": "// \\" /* no comment */ ,]", /* end */ }'
    assert parse(text).value == {"a": [1, 2, 3], "b": '// " /* no comment */ ,]'}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "malformed JSON, line 1, column 1: expecting value"),
        ('{"a": 1\n  "b": 2}', "line 2, column 3: expecting ',' delimiter at '\"b\": 2}'"),
        ("[1,,]", "malformed JSON, line 1, column 4"),
        ("[,]", "malformed JSON, line 1, column 2"),
        ("{,}", "malformed JSON, line 1, column 2"),
        ("[1] []", "line 1, column 5: extra data"),
        ("[1, /* open", "line 1, column 5: a comment is not closed"),
        ("[NaN]", 'line 1, column 2: NaN is not a JSON number; write "nan"'),
        ("[1, -Infinity]", "line 1, column 5: -Infinity is not a JSON number"),
        ("[\n1e999]", "line 2, column 1: a number is outside the range of double precision"),
        ("[" + "1" * 5000 + "]", "line 1, column 2: a number has too many digits"),
        ("[" * 100000, "nested too deeply"),
        ('["a\nb"]', "line 1, column 4: invalid control character"),
        ('["abc', "line 1, column 2: unterminated string"),
        ('["\\', "line 1, column 2"),
        ('{"a": 1, "b": {"x": [{"k": 1, "k": 2}]}}', 'the name "k" occurs more than once'),
    ],
)
def test_malformed_json(text: str, message: str) -> None:
    with pytest.raises(ModelFormatError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_repeated_name_has_its_path() -> None:
    with pytest.raises(ModelFormatError) as caught:
        parse('{"b": [0, {"x": {"k": 1, "k": 1}}]}')
    assert caught.value.path == "b[1].x"


def test_long_hostile_strings_take_linear_time() -> None:
    for text in ('"' + '\\"' * 300_000, "[" + '"' * 300_001, "/*" * 300_000, "[" + ", " * 300_000, "{" + " " * 300_000):
        with pytest.raises(ModelFormatError):
            parse(text)


@given(json_values, st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_standard_json_is_read_as_by_python(value: Any, indent: int) -> None:
    assert parse(json.dumps(value, indent=indent, ensure_ascii=bool(indent % 2))).value == value


# ---- resources


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32", "FLOAT64"])
def test_real_values(data_type: str) -> None:
    values = [65504, -65504, 4, 0.1, -4.5, "nan", "inf", "-INF"]
    dtype = np.dtype(data_type.lower())
    expected = np.array([65504, -65504, 4, 0.1, -4.5, np.nan, np.inf, -np.inf]).astype(dtype)
    contents = resource({"initialValuesDataType": f"DML_TENSOR_DATA_TYPE_{data_type}", "initialValues": values})
    assert contents.dtype == dtype
    np.testing.assert_array_equal(contents, expected)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_integers_are_exact(bits: int, signed: bool) -> None:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    name = f"{'' if signed else 'U'}INT{bits}"
    description: dict[str, Any] = {"initialValuesDataType": name, "initialValues": [low, high, 1, high - 1]}
    assert resource(description).tolist() == [low, high, 1, high - 1]
    for outside in (low - 1, high + 1):
        description["initialValues"] = [0, outside]
        model = {"resources": {"x": description}, "dispatchables": {}, "commands": []}
        assert problem(model) == (
            "resources.x.initialValues[1]",
            f"the value is outside {name}'s range, {low} to {high}",
        )
    sequence = {"valueCount": 4, "valueStart": high, "valueDelta": 1}
    assert resource({"initialValuesDataType": name, "initialValues": sequence}).tolist() == [
        high,
        low,
        low + 1,
        low + 2,
    ]


@given(
    st.sampled_from(["FLOAT16", "FLOAT32", "FLOAT64"]),
    st.floats(-100, 100, width=16),
    st.floats(-10, 10, width=16),
    st.integers(1, 3000),
)
@settings(max_examples=40, deadline=None)
def test_sequences_of_real_numbers(data_type: str, start: float, delta: float, count: int) -> None:
    description = {"valueCount": count, "valueStart": start, "valueDelta": delta}
    contents = resource({"initialValuesDataType": data_type, "initialValues": description})
    # Start, delta and index are short enough for the sum to be exact before it is rounded.
    expected = [start + index * delta for index in range(count)]
    np.testing.assert_array_equal(contents, np.array(expected).astype(data_type.lower()))


def test_sequence_with_infinite_delta_begins_at_its_start() -> None:
    sequence = {"valueCount": 3, "valueStart": 1, "valueDelta": "inf"}
    assert resource({"initialValuesDataType": "FLOAT32", "initialValues": sequence}).tolist() == [1, np.inf, np.inf]


def test_long_sequence_crosses_chunks() -> None:
    sequence = {"valueCount": 700_001, "valueStart": 7, "valueDelta": 3}
    contents = resource({"initialValuesDataType": "UINT16", "initialValues": sequence})
    np.testing.assert_array_equal(contents, (7 + 3 * np.arange(700_001)).astype(np.uint16))


def test_list_of_mixed_types() -> None:
    elements = [
        {"name": "count", "type": "UINT32", "value": 6},
        {"type": "FLOAT64", "value": 2.5},
        {"type": "INT8", "value": -3},
        {"type": "FLOAT16", "value": "inf"},
    ]
    expected = struct.pack("<Idbe", 6, 2.5, -3, float("inf"))
    for data_type in ({}, {"initialValuesDataType": "UNKNOWN"}):
        assert resource({"initialValues": elements} | data_type).tobytes() == expected


def test_size_and_offset() -> None:
    description = {
        "initialValuesDataType": "UINT8",
        "initialValues": [1, 2, 3],
        "initialValuesOffsetInBytes": 5,
        "sizeInBytes": 64,
    }
    model = read({"resources": {"x": description}, "dispatchables": {}, "commands": []})
    assert model.resources["x"].size_in_bytes == 64
    assert resource(description).tolist() == [0, 0, 0, 0, 0, 1, 2, 3]
    del description["sizeInBytes"], description["initialValuesOffsetInBytes"]
    model = read({"resources": {"x": description}, "dispatchables": {}, "commands": []})
    assert model.resources["x"].size_in_bytes == 4, "rounded up to a multiple of 4"


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8", "|i1", ">i8", "<u2", "|b1"])
def test_numpy_files(dtype: str, tmp_path: Path) -> None:
    values = np.array([[1, 0, 3], [100, 5, 6]]).astype(dtype)
    np.save(tmp_path / "values.npy", values)
    contents = resource({"initialValues": {"sourcePath": "values.npy"}}, tmp_path)
    assert contents.tolist() == values.reshape(-1).astype(contents.dtype).tolist()
    assert contents.dtype == (np.uint8 if dtype == "|b1" else np.dtype(dtype).newbyteorder("="))


def test_raw_files(tmp_path: Path) -> None:
    (tmp_path / "values.dat").write_bytes(struct.pack("<3h", 1, -2, 3))
    source = {"initialValuesDataType": "INT16", "initialValues": {"sourcePath": "values.dat"}}
    assert resource(source, tmp_path).tolist() == [1, -2, 3]


def test_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(2 * 4 * 3, dtype=np.uint8).reshape(2, 4, 3) * 10
    image.fromarray(pixels).save(tmp_path / "pixels.png")
    source: dict[str, Any] = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "pixels.png"}}
    expected = (pixels.transpose(2, 0, 1) / np.float32(255)).reshape(-1)
    np.testing.assert_array_equal(resource(source, tmp_path), expected)
    source["resampleSize"] = [1, 1, 2, 2]
    assert resource(source, tmp_path).shape == (4,)


def describe(**members: Any) -> dict[str, Any]:
    return {"resources": {"x": members}, "dispatchables": {}, "commands": []}


@pytest.mark.parametrize(
    ("members", "path", "message"),
    [
        ({}, "", "member 'initialValues' is required"),
        ({"initialValues": 5}, ".initialValues", "expected an array or an object, got 5"),
        ({"initialValues": "deferred"}, ".initialValues", "deferred resources are not supported"),
        ({"initialValues": [], "initialValuesDataType": "INT8"}, ".initialValues", "at least one value"),
        ({"initialValues": [1]}, ".initialValues[0]", "must be an object with 'type' and 'value'"),
        ({"initialValues": [1], "initialValuesDataType": "FLOTA32"}, ".initialValuesDataType", "did you mean 'FLOAT"),
        ({"initialValues": [1], "initialValuesDataType": "UINT4"}, ".initialValuesDataType", "unknown data type"),
        ({"initialValues": [1, True], "initialValuesDataType": "INT8"}, ".initialValues[1]", "expected an integer"),
        ({"initialValues": [1.0], "initialValuesDataType": "INT8"}, ".initialValues[0]", "an integer for INT8"),
        ({"initialValues": [1, "x"], "initialValuesDataType": "FLOAT32"}, ".initialValues[1]", 'number, "nan", "inf"'),
        ({"initialValues": ["nan"], "initialValuesDataType": "INT8"}, ".initialValues[0]", "expected an integer"),
        ({"initialValues": [1e39], "initialValuesDataType": "FLOAT32"}, ".initialValues[0]", "outside FLOAT32's range"),
        ({"initialValues": [10**400], "initialValuesDataType": "FLOAT64"}, ".initialValues[0]", "outside FLOAT64's"),
        ({"initialValues": {"value": 1}, "initialValuesDataType": "INT8"}, ".initialValues", "'valueCount' is"),
        ({"initialValues": {"valueCount": 3}}, ".initialValues", "expected one of the members value, valueStart"),
        (
            {"initialValues": {"valueCount": 0, "value": 1}, "initialValuesDataType": "INT8"},
            ".initialValues.valueCount",
            "0 is outside 1 to 4294967295",
        ),
        (
            {"initialValues": {"valueCount": 1 << 32, "value": 1}, "initialValuesDataType": "INT8"},
            ".initialValues.valueCount",
            "4294967296 is outside 1 to 4294967295",
        ),
        ({"initialValues": {"valueCount": 3, "value": 1}}, "", "member 'initialValuesDataType' is required"),
        (
            {"initialValues": [1], "initialValuesDataType": "INT8", "sizeInByte": 4},
            "",
            "unknown member 'sizeInByte'; did you mean 'sizeInBytes'?",
        ),
        (
            {"initialValues": [1, 2], "initialValuesDataType": "INT64", "sizeInBytes": 12},
            ".sizeInBytes",
            "12 bytes are too small for 16 bytes of initial values",
        ),
        ({"initialValues": [1], "initialValuesDataType": "INT8", "type": "texture"}, ".type", "of the type 'buffer'"),
    ],
)
def test_bad_resources(members: dict[str, Any], path: str, message: str) -> None:
    found_path, found_message = problem(describe(**members))
    assert (found_path, message in found_message) == (f"resources.x{path}", True), found_message


def test_memory_is_bounded_before_anything_is_allocated() -> None:
    huge = {"initialValuesDataType": "FLOAT64", "initialValues": {"valueCount": (1 << 32) - 1, "value": 1}}
    small = {"initialValuesDataType": "UINT8", "initialValues": [1]}
    path, message = problem({"resources": {"a": small, "b": huge}, "dispatchables": {}, "commands": []})
    assert path == "resources.b"
    assert message == (
        "the resources up to this one need 34359738364 bytes; the limit is 8589934592 bytes (--memory_limit)"
    )
    assert problem({"resources": {"a": small}, "dispatchables": {}, "commands": []}, memory_limit=3)[0] == "resources.a"
    padded = small | {"sizeInBytes": (1 << 64) - 1}
    assert problem({"resources": {"a": padded}, "dispatchables": {}, "commands": []})[0] == "resources.a"


def test_names_that_are_no_identifiers_are_quoted_in_paths() -> None:
    model = {"resources": {'a "b"\n': {"initialValues": 5}}, "dispatchables": {}, "commands": []}
    assert problem(model)[0] == 'resources["a \\"b\\"\\n"].initialValues'


# ---- files


@pytest.mark.parametrize("name", ["../outside.dat", "sub/../../outside.dat", "..\\outside.dat", "link/outside.dat"])
def test_paths_outside_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "outside.dat").write_bytes(b"1234")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    source = describe(initialValuesDataType="UINT8", initialValues={"sourcePath": name})
    path, message = problem(source, folder)
    assert path == "resources.x.initialValues.sourcePath"
    assert message.startswith("path outside the folder")
    target = changed("commands/1", {"type": "writeFile", "resource": "Out", "targetPath": name})
    assert problem(target, folder)[0] == "commands[1].targetPath"


@pytest.mark.parametrize("name", ["", ".", "a\0b", "x" * 5000, "missing.dat", "\ud800.dat", "/etc/hostname", "~/x"])
def test_unusable_source_paths(name: str, tmp_path: Path) -> None:
    source = describe(initialValuesDataType="UINT8", initialValues={"sourcePath": name})
    assert problem(source, tmp_path)[0] == "resources.x.initialValues.sourcePath"


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "not a readable .npy file"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "not a readable .npy file"),
        (b"\x93NUMPY\x03\x00" + struct.pack("<I", 10) + b"{" * 10, "not a readable .npy file"),
        (b"\x93NUMPY\x01\x00" + struct.pack("<H", 4) + b"((((", "not a readable .npy file"),
    ],
)
def test_bad_numpy_files(contents: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(contents)
    path, found = problem(describe(initialValues={"sourcePath": "x.npy"}), tmp_path)
    assert path == "resources.x.initialValues.sourcePath"
    assert message in found


def numpy_file(header: str, data: bytes = b"") -> bytes:
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "is not one of DirectML's"),
        ("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "is not one of DirectML's"),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "is not one of DirectML's"),
        ("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}", "Fortran order"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "negative"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "cut off"),
        (f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1 << 63}, {1 << 63})}}", "cut off"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", "at least one value"),
    ],
)
def test_absurd_numpy_headers(header: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(numpy_file(header, b"\0" * 8))
    assert message in problem(describe(initialValues={"sourcePath": "x.npy"}), tmp_path)[1]


@given(st.binary(max_size=80), st.integers(0, 140))
@settings(max_examples=80, deadline=None)
def test_damaged_numpy_files(tmp_path_factory: pytest.TempPathFactory, noise: bytes, position: int) -> None:
    folder = tmp_path_factory.mktemp("npy")
    stream = io.BytesIO()
    np.save(stream, np.arange(4, dtype=np.float32))
    contents = stream.getvalue()
    (folder / "x.npy").write_bytes(contents[:position] + noise + contents[position + len(noise) :])
    with contextlib.suppress(ModelFormatError):
        resource({"initialValues": {"sourcePath": "x.npy"}}, folder)


def test_file_of_the_wrong_type_or_size(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3, np.float32))
    (tmp_path / "x.dat").write_bytes(b"12345")
    source = describe(initialValuesDataType="INT32", initialValues={"sourcePath": "x.npy"})
    assert problem(source, tmp_path)[1] == "the file holds FLOAT32, but initialValuesDataType is INT32"
    source = describe(initialValuesDataType="INT32", initialValues={"sourcePath": "x.dat"})
    assert problem(source, tmp_path)[1] == "the file's size, 5 bytes, is not a multiple of INT32's 4 bytes"


def write_command(**members: Any) -> dict[str, Any]:
    return changed("commands/1", {"type": "writeFile", "resource": "Out"} | members)


def test_write_files(tmp_path: Path) -> None:
    line = run(write_command(targetPath="deep/out.npy", dimensions=[3, 1]), tmp_path).splitlines()[-1]
    assert line == f"Resource 'Out' written to '{tmp_path / 'deep/out.npy'}'"
    written = np.load(tmp_path / "deep/out.npy")
    assert written.dtype == np.float32
    assert written.tolist() == [[6], [10], [-2]]
    run(write_command(targetPath="out.npy"), tmp_path)
    assert np.load(tmp_path / "out.npy").tolist() == [6, 10, -2]
    run(write_command(targetPath="out.dat"), tmp_path)
    assert (tmp_path / "out.dat").read_bytes() == struct.pack("<3f", 6, 10, -2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "out.dat", "out.npy"], "nothing left over"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out.npy").write_bytes(b"old")
    monkeypatch.setattr("opendml.models.executor.write_numpy", lambda file, values: file.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(write_command(targetPath="out.npy"), tmp_path)
    assert (tmp_path / "out.npy").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.npy"]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    model = write_command(targetPath="file/out.npy")
    with pytest.raises(ModelFormatError, match=r"^commands\[1\]\.targetPath: cannot write 'out.npy'"):
        run(model, tmp_path)


def test_write_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    values = [0, 0.5, 1, 7, -3, "nan"]
    model = {
        "resources": {"x": {"initialValuesDataType": "FLOAT32", "initialValues": values}},
        "dispatchables": {},
        "commands": [
            {"type": "writeFile", "resource": "x", "targetPath": name, "dimensions": dimensions}
            for name, dimensions in (("grey.png", [1, 1, 2, 3]), ("colour.png", [1, 3, 1, 2]), ("c.jpg", [1, 3, 2, 1]))
        ],
    }
    run(model, tmp_path)
    assert np.asarray(image.open(tmp_path / "grey.png")).tolist() == [[0, 127, 255], [255, 0, 255]]
    assert np.asarray(image.open(tmp_path / "colour.png")).tolist() == [[[0, 255, 0], [127, 255, 255]]]
    assert image.open(tmp_path / "c.jpg").size == (1, 2)


@pytest.mark.parametrize(
    ("members", "path", "message"),
    [
        ({"targetPath": "a.npy", "dimensions": [4]}, "dimensions", "they need 16 bytes, but resource 'Out' has 12"),
        ({"targetPath": "a.npy", "dimensions": [1] * 33}, "dimensions", "at most 32"),
        ({"targetPath": "a.npy", "dimensions": [1 << 31] * 32}, "dimensions", "they need"),
        ({"targetPath": "a.npy", "dimensions": [3, 0]}, "dimensions[1]", "0 is outside 1 to 4294967295"),
        ({"targetPath": "a.png"}, "", "an image needs the dimensions"),
        ({"targetPath": "a.png", "dimensions": [1, 2, 1, 1]}, "dimensions", "an image needs the dimensions"),
        ({}, "", "member 'targetPath' is required"),
    ],
)
def test_bad_write_commands(members: dict[str, Any], path: str, message: str, tmp_path: Path) -> None:
    found_path, found_message = problem(write_command(**members), tmp_path)
    assert found_path == ("commands[1]" + (f".{path}" if path else ""))
    assert message in found_message


# ---- running


def test_add() -> None:
    lines = run(ADD).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("Dispatch 'add': 1 iterations, ")
    assert lines[0].endswith(" ms median (CPU)")
    assert lines[1] == "Resource 'Out': 6, 10, -2"


def test_desc_fields_inline_and_in_either_spelling() -> None:
    desc = ADD["dispatchables"]["add"]["desc"]
    for form in (
        {"type": "ELEMENT_WISE_ADD"} | desc,
        {"Type": "DML_OPERATOR_ELEMENT_WISE_ADD", "Desc": desc, "dmlCompileType": "DmlCompileGraph"},
        {"type": "ELEMENT_WISE_ADD", "executionFlags": ["NONE", "DISABLE_META_COMMANDS"]} | desc,
    ):
        assert results(changed("dispatchables/add", form)) == ["Resource 'Out': 6, 10, -2"]


def test_resources_keep_what_was_written() -> None:
    model = changed("commands/0/bindings/OutputTensor", "A")
    model["commands"] = [model["commands"][0]] * 3 + [{"type": "print", "resource": "A"}]
    assert results(model) == ["Resource 'A': 16, 26, -12"]


def test_element_offsets() -> None:
    model = changed("resources/A/initialValues", {"valueCount": 10, "valueStart": 1, "valueDelta": 1})
    model["commands"][0]["bindings"]["ATensor"] = {"name": "A", "elementCount": 3, "elementOffset": 4}
    assert results(model) == ["Resource 'Out': 10, 14, 2"]
    model["commands"][0]["bindings"]["ATensor"] = {"name": "A", "elementSizeInBytes": 16, "elementOffset": 1}
    assert results(model) == ["Resource 'Out': 10, 14, 2"]
    model["commands"][0]["bindings"]["ATensor"] = [{"name": "A"}]
    assert results(model) == ["Resource 'Out': 6, 10, -2"]


def test_owned_tensors_are_copied_at_initialisation() -> None:
    model = changed("dispatchables/add/desc/ATensor/Flags", "OWNED_BY_DML")
    model["dispatchables"]["add"]["bindings"] = {"ATensor": "A"}
    del model["commands"][0]["bindings"]["ATensor"]
    model["commands"][0]["bindings"]["OutputTensor"] = "A"  # what A held at the beginning counts
    model["commands"] = [model["commands"][0]] * 3 + [{"type": "print", "resource": "A"}]
    assert results(model) == ["Resource 'A': 6, 10, -2"]


def test_reinterpreted_resources() -> None:
    model = changed("resources/A", {"initialValuesDataType": "UINT32", "initialValues": [0x3F800000, 0x40000000, 0]})
    assert results(model) == ["Resource 'Out': 6, 10, -5"]


def test_iterations_and_repeats() -> None:
    device = NumpyDevice()
    lines = run(ADD, device=device, dispatch_iterations=4, dispatch_repeat=3, timing_verbosity=2).splitlines()
    assert len(device.calls) == 12
    assert lines[0].startswith("Initialize 'add': ")
    assert lines[1] == "Dispatch 'add': 4 iterations"
    assert lines[2].startswith("CPU Timings (Cold) : 1 samples, ")
    assert lines[3].startswith("CPU Timings (Hot)  : 3 samples, ")
    assert lines[4] == "The timings of each iteration: "
    assert [line.split(":")[0] for line in lines[5:9]] == [f"iteration {index}" for index in range(4)]
    assert lines[9] == "Resource 'Out': 6, 10, -2"


@pytest.mark.parametrize(("samples", "warmup", "cold"), [(1, 2, 0), (2, 2, 1), (3, 2, 2), (5, 2, 2), (3, 0, 0)])
def test_one_sample_is_always_hot(samples: int, warmup: int, cold: int) -> None:
    lines = run(ADD, dispatch_iterations=samples, warmup_samples=warmup, timing_verbosity=1).splitlines()
    assert any(line.startswith(f"CPU Timings (Cold) : {cold} samples") for line in lines) == (cold > 0)
    assert any(line.startswith(f"CPU Timings (Hot)  : {samples - cold} samples") for line in lines)


def test_time_to_run_overrides_iterations() -> None:
    device = NumpyDevice()
    run(ADD, device=device, milliseconds_to_run=30, dispatch_interval=5)
    assert 2 <= len(device.calls) <= 7


def test_progress_is_reported() -> None:
    shares: list[float] = []
    output = io.StringIO()
    options = RunOptions(milliseconds_to_run=350, dispatch_interval=2)
    Executor(read(ADD), NumpyDevice(), options, output, lambda name, share: shares.append(share)).run()
    assert shares == sorted(shares)
    assert len(shares) >= 3
    assert shares[-1] == 1.0


def test_commands_are_announced() -> None:
    lines = run(changed("commands", ADD["commands"][1:]), print_commands=True).splitlines()
    assert lines == [
        '[StartCmd][0000]\t: {"type":"print","resource":"Out"}',
        "Resource 'Out': 0, 0, 0",
        "[EndCmd][0000]\t: hr=0x00000000 ",
        "",
    ]


def test_number_formats() -> None:
    values = np.array([0, -0.0, 1, 0.1, 1e6, 1234567, 1e-5, 1 / 3, np.nan, np.inf, -np.inf], np.float32)
    expected = "0, -0, 1, 0.1, 1e+06, 1.23457e+06, 1e-05, 0.333333, nan, inf, -inf"
    assert "".join(format_elements(values)) == expected
    assert "".join(format_elements(np.array([-(1 << 63), 0]))) == "-9223372036854775808, 0"
    assert "".join(format_elements(np.array([(1 << 64) - 1], np.uint64))) == "18446744073709551615"
    assert "".join(format_elements(np.array([65, 255], np.uint8))) == "65, 255"
    many = np.arange(40_000, dtype=np.int32)
    assert "".join(format_elements(many)) == ", ".join(map(str, range(40_000)))


def test_verbose_printing() -> None:
    values = np.array([1.5, 0, -1] + [0] * 8, np.float32)
    lines = "".join(format_elements_verbose(values)).splitlines()
    assert lines[:3] == ["[ 0] 1.5 (0x3FC00000)", "[ 1] 0 (0x       0)", "[ 2] -1 (0xBF800000)"]
    model = changed("commands/1/verbose", True)
    assert "Resource 'Out':\n[0] 6 (0x40C00000)\n[1] 10 (0x41200000)\n[2] -2 (0xC0000000)\n\n" in run(model)


# ---- what is wrong with a model


@pytest.mark.parametrize(
    ("path", "value", "where", "message"),
    [
        ("commands", {}, "commands", "expected an array, got an object"),
        ("comands", [], "", "unknown member 'comands'; did you mean 'commands'?"),
        ("resources", [], "resources", "expected an object, got an array"),
        ("commands/0", 5, "commands[0]", "expected an object, got 5"),
        ("commands/0/type", "disptch", "commands[0].type", "unknown command 'disptch'; did you mean 'dispatch'?"),
        ("commands/0/dispatchable", "ad", "commands[0].dispatchable", "unknown dispatchable 'ad'; did you mean 'add'?"),
        ("commands/1/resource", "Oui", "commands[1].resource", "unknown resource 'Oui'; did you mean 'Out'?"),
        ("commands/1/verbose", 1, "commands[1].verbose", "expected true or false, got 1"),
        ("commands/0/threadGroupCount", [1, 1], "commands[0].threadGroupCount", "expected 3 elements, got 2"),
        ("commands/0/bindings/ATensor", "X", "commands[0].bindings.ATensor", "unknown resource 'X'"),
        ("commands/0/bindings/ATensor", 5, "commands[0].bindings.ATensor", "expected the name of a resource"),
        (
            "commands/0/bindings/ATensor",
            {"name": "A", "elementOfset": 4},
            "commands[0].bindings.ATensor",
            "unknown member 'elementOfset'; did you mean 'elementOffset'?",
        ),
        (
            "commands/0/bindings/ATensor",
            {"name": "A", "elementOffset": -1},
            "commands[0].bindings.ATensor.elementOffset",
            "-1 is outside",
        ),
        ("commands/0/bindings/CTensor", "A", "commands[0].bindings", "unknown bind point 'CTensor'; did you mean"),
        ("commands/0/bindings/ATensor", ["A", "B"], "commands[0].bindings.ATensor", "must be bound here, got 2"),
        ("commands/0/bindings/ATensor", [], "commands[0].bindings.ATensor", "1 resources must be bound here, got 0"),
        ("commands/0/bindings", {}, "commands[0].bindings.ATensor", "a resource must be bound to this tensor"),
        (
            "resources/A/initialValues",
            [1],
            "commands[0].bindings.ATensor",
            "ATensor needs 12 bytes, but 'A' has 4",
        ),
        (
            "commands/0/bindings/ATensor",
            {"name": "A", "elementOffset": 1 << 60},
            "commands[0].bindings.ATensor",
            "ATensor needs 12 bytes, but 'A' has 0 from offset 4611686018427387904 on",
        ),
        (
            "commands/0/bindings/ATensor",
            {"name": "A", "elementOffset": 0, "elementCount": 4},
            "commands[0].bindings.ATensor",
            "elementOffset and elementCount reach beyond the 12 bytes of 'A'",
        ),
        (
            "resources/A/sizeInBytes",
            13,
            "commands[0].bindings.ATensor",
            "the bound range, 13 bytes, is not a multiple of 4",
        ),
        ("dispatchables/add/type", "hlsl", "dispatchables.add.type", "HLSL dispatchables are not supported yet"),
        ("dispatchables/add/type", "ONNX", "dispatchables.add.type", "ONNX dispatchables are not supported yet"),
        (
            "dispatchables/add/type",
            "dmlSerializedGraph",
            "dispatchables.add",
            "unknown member 'desc'",
        ),
        ("dispatchables/add/dmlCompileType", "Op", "dispatchables.add.dmlCompileType", "unknown compile type 'Op'"),
        ("dispatchables/add/executionFlags", ["X"], "dispatchables.add.executionFlags[0]", "unknown execution flag"),
        ("dispatchables/add/executionFlags", 1, "dispatchables.add.executionFlags", "expected a string"),
        ("dispatchables/add/descr", {}, "dispatchables.add", "unknown member 'descr'; did you mean 'desc'?"),
        ("dispatchables/add/bindings", {"ATensor": "A"}, "dispatchables.add.bindings.ATensor", "is not OWNED_BY_DML"),
        ("dispatchables/add/bindings", {"BTensor": "Z"}, "dispatchables.add.bindings.BTensor", "unknown resource 'Z'"),
        ("dispatchables/add/type", "ELEMENT_WISE_AD", "dispatchables.add.type", "did you mean"),
        ("dispatchables/add/desc/ATensor/Sizes/0", "x", "dispatchables.add.desc.ATensor.Sizes[0]", "an integer"),
        ("dispatchables/add/desc/ATensor", 3, "dispatchables.add.desc.ATensor", "expected an object"),
        ("dispatchables/add/desc/ATensor/Szes", [], "dispatchables.add.desc.ATensor.Szes", "did you mean 'Sizes'?"),
        ("dispatchables/add/desc", [], "dispatchables.add.desc", "expected an object"),
        (
            "dispatchables/add/desc/ATensor/Flags",
            "OWNED_BY_DML",
            "dispatchables.add.bindings.ATensor",
            "a resource must be bound to it here",
        ),
        (
            "commands/0/bindings/OutputTensor",
            {"name": "A", "elementOffset": 1},
            "commands[0].bindings.OutputTensor",
            "OutputTensor needs 12 bytes, but 'A' has 8 from offset 4 on",
        ),
    ],
)
def test_errors_name_their_place(path: str, value: Any, where: str, message: str) -> None:
    found_path, found_message = problem(changed(path, value))
    assert found_path == where
    assert message in found_message


def test_required_members() -> None:
    for name in ("resources", "dispatchables", "commands"):
        model = {member: value for member, value in ADD.items() if member != name}
        assert problem(model) == ("", f"member '{name}' is required")


def test_overlapping_bindings() -> None:
    model = changed("resources/A/initialValues", {"valueCount": 64, "value": 1})
    offset = {"name": "A", "elementOffset": 4}
    assert run(changed("commands/0/bindings/OutputTensor", offset, model)), "behind ATensor, not overlapping"
    model["commands"][0]["bindings"] |= {"ATensor": "A", "BTensor": {"name": "A", "elementOffset": 0}}
    assert run(model), "two inputs may share bytes"
    model["dispatchables"]["add"]["desc"] = {
        name: {"DataType": "FLOAT32", "Sizes": [8]} for name in ("ATensor", "BTensor", "OutputTensor")
    }
    model["commands"][0]["bindings"] |= {"BTensor": {"name": "A", "elementOffset": 32}, "OutputTensor": offset}
    assert problem(model) == (
        "commands[0].bindings.OutputTensor",
        "OutputTensor overlaps ATensor in resource 'A', and one of them is written",
    )
    model["commands"][0]["bindings"]["OutputTensor"] = "A"
    assert run(model), "in place"


def test_operators_that_cannot_run_in_place() -> None:
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
        "DimensionCount": 1,
        "Offsets": [0],
        "Sizes": [3],
        "Strides": [1],
    }
    model = changed("dispatchables/add", {"type": "SLICE", "desc": desc})
    model["commands"][0]["bindings"] = {"InputTensor": "A", "OutputTensor": "A"}
    assert problem(model) == (
        "commands[0].bindings.OutputTensor",
        "OutputTensor and InputTensor are bound to the same bytes, with an operator that cannot run in place",
    )


def test_in_place_with_another_layout() -> None:
    desc = {
        "ATensor": {"DataType": "FLOAT32", "Sizes": [2, 2], "Strides": [1, 2]},
        "BTensor": {"DataType": "FLOAT32", "Sizes": [2, 2]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 2]},
    }
    model = changed("dispatchables/add/desc", desc)
    for name in ("A", "B"):
        model["resources"][name]["initialValues"] = [1, 2, 3, 4]
    model["commands"][0]["bindings"]["OutputTensor"] = "A"
    assert "with different layouts" in problem(model)[1]


def test_outputs_that_share_bytes() -> None:
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [2]},
        "OutputCount": 2,
        "OutputTensors": [{"DataType": "FLOAT32", "Sizes": [1]}] * 2,
        "Axis": 0,
    }
    model = changed("dispatchables/add", {"type": "SPLIT", "desc": desc})
    model["commands"][0]["bindings"] = {"InputTensor": "A", "OutputTensors": ["Out", "Out"]}
    assert problem(model) == (
        "commands[0].bindings.OutputTensors[1]",
        "OutputTensors[0] and OutputTensors[1] are bound to the same bytes",
    )


def test_alignment() -> None:
    model = changed("resources/A/initialValues", {"valueCount": 64, "value": 1})
    model["commands"][0]["bindings"]["ATensor"] = {"name": "A", "elementOffset": 2}
    assert problem(model)[1] == "the offset, 8 bytes, is not a multiple of 16"
    model["commands"][0]["bindings"]["ATensor"] = {"name": "A", "elementOffset": 4}
    model["dispatchables"]["add"]["desc"]["ATensor"]["GuaranteedBaseOffsetAlignment"] = 64
    assert problem(model)[1] == "the offset, 16 bytes, is not a multiple of 64"


def test_invalid_operators_are_reported_whole() -> None:
    model = changed("dispatchables/add/desc/BTensor/Sizes", [4])
    model["dispatchables"]["add"]["desc"]["OutputTensor"]["DataType"] = "INT64"
    path, message = problem(model)
    assert path == "dispatchables.add"
    assert message.startswith("DML_OPERATOR_ELEMENT_WISE_ADD is invalid at feature level 6_4:\n")
    assert "\n  dispatchables.add.desc.BTensor.Sizes" in message
    assert "\n  dispatchables.add.desc.OutputTensor" in message
    report = check_model(read(model), "6_4")
    assert list(report.violations) == ["add"]
    assert len(report.violations["add"]) >= 2
    assert not report.binding_problems


def test_nothing_runs_if_a_later_command_is_wrong() -> None:
    device = NumpyDevice()
    model = changed("commands", [ADD["commands"][0], changed("commands/0/bindings/ATensor", [])["commands"][0]])
    with pytest.raises(ModelFormatError, match=r"^commands\[1\]"):
        run(model, device=device)
    assert device.calls == []


def test_model_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name, contents, message in (
        ("binary.json", b"\xff\xfe\x00", "not UTF-8 text: invalid start byte at byte 0"),
        ("model.onnx", b"", "ONNX models are not supported"),
        ("empty.json", b"", "malformed JSON"),
    ):
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(ModelFormatError, match=message):
            read_model(tmp_path / name)
    for path in (tmp_path, tmp_path / "missing.json", tmp_path / "a\0b.json"):
        with pytest.raises(ModelFormatError, match="cannot read the file"):
            read_model(path)
    (tmp_path / "mark.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(ADD).encode())
    assert results(read_model(tmp_path / "mark.json")) == ["Resource 'Out': 6, 10, -2"]


# ---- hostile input


@given(mutated_models())
@settings(max_examples=400, deadline=None)
def test_mutated_models_fail_cleanly(tmp_path_factory: pytest.TempPathFactory, model: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        parsed = read(model, folder, memory_limit=1 << 20)
        check_model(parsed, "2_0")
        run(parsed)
    except ModelFormatError as error:
        assert str(error)
        assert "\n" not in error.path


@given(st.integers(0, 2000), st.text(max_size=3), st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_damaged_text_fails_cleanly(position: int, noise: str, removed: int) -> None:
    text = json.dumps(ADD)
    position %= len(text)
    try:
        run(read(text[:position] + noise + text[position + removed :], memory_limit=1 << 20))
    except OpendmlError as error:
        assert isinstance(error, ModelFormatError)


# ---- the examples and Microsoft's models, compiled


def compiled(path: Path, output_path: Path | None = None, **options: Any) -> tuple[Executor, list[str]]:
    """A model file run on the processor: its executor, and the lines printed but for those with times."""
    output = io.StringIO()
    executor = Executor(read_model(path, output_path=output_path, **options), Device("cpu"), None, output)
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


@pytest.mark.skipif(not SHARED.is_dir(), reason="Microsoft's models are not here")
@pytest.mark.parametrize("name", ["onnx_gemm", "onnx_dynamic_shapes"])
def test_models_of_other_kinds_are_refused(name: str) -> None:
    with pytest.raises(ModelFormatError, match="not supported"):
        read_model(SHARED / f"{name}.json")


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
