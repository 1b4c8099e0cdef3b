"""DxDispatch models: JSON, resources and the files they come from and go to."""

from __future__ import annotations

import contextlib
import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dxdispatch_models import ADD, changed, json_values
from dxdispatch_running import problem, read, resource, run
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from opendml.description.errors import ModelFormatError
from opendml.formats.dxdispatch import Folders, check_model, parse_model
from opendml.formats.json_text import parse

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
@examples(60)
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


@given(
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.lists(st.integers(-(1 << 90), 1 << 90) | st.floats(-70000, 70000) | st.integers(-9, 9), min_size=1),
)
@examples(60)
def test_integers_stand_among_real_numbers(dtype: type[np.floating[Any]], values: list[int | float]) -> None:
    """Each is the double nearest to it, rounded to the type; beyond its largest number it is refused."""
    description: dict[str, Any] = {"initialValuesDataType": dtype.__name__.upper(), "initialValues": values}
    with np.errstate(over="ignore"):
        expected = [dtype(float(value)) for value in values]
    if np.isfinite(expected).all():
        np.testing.assert_array_equal(resource(description), np.array(expected))
    else:
        first = next(place for place, value in enumerate(expected) if np.isinf(value))
        path, _ = problem({"resources": {"x": description}, "dispatchables": {}, "commands": []})
        assert path == f"resources.x.initialValues[{first}]"


def test_integers_beyond_all_real_numbers_are_refused() -> None:
    description = {"initialValuesDataType": "FLOAT64", "initialValues": [1, 10**400]}
    path, message = problem({"resources": {"x": description}, "dispatchables": {}, "commands": []})
    assert path == "resources.x.initialValues[1]"
    assert message.startswith("the value is outside FLOAT64's range")


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
@examples(40)
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


def test_what_is_no_image_is_told_by_its_name(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    source = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "pixels.png"}}
    for content, reason in (
        (b"abc", "'pixels.png': its first bytes are not those of a JPEG or PNG file"),
        (b"\x93NUMPY", "it is a NumPy"),
    ):
        (tmp_path / "pixels.png").write_bytes(content)
        with pytest.raises(ModelFormatError, match=f"not a readable image: {reason}"):
            resource(source, tmp_path)


def describe(**members: Any) -> dict[str, Any]:
    return {"resources": {"x": members}, "dispatchables": {}, "commands": []}


@pytest.mark.parametrize(
    ("members", "path", "message"),
    [
        ({}, "", "member 'initialValues' is required"),
        ({"initialValues": 5}, ".initialValues", "expected an array or an object, got 5"),
        ({"initialValues": "deferred"}, ".initialValues", "it is deferred, but no output"),
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
@examples(80)
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
    monkeypatch.setattr(
        "opendml.formats.dxdispatch.executor.write_numpy", lambda file, values: file.write(b"half") and 1 / 0
    )
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


def test_names_in_messages_are_cut(tmp_path: Path) -> None:
    """However long a resource's name is, and whatever is said of it."""
    name = "x" * 10_000
    text = json.dumps(ADD).replace('"A"', json.dumps(name))
    for path, value in (
        ("commands/0/bindings/ATensor", {"name": name, "elementOffset": 2**40}),
        ("commands/0/bindings/ATensor", {"name": name, "elementOffset": 8, "elementCount": 2**40}),
        ("commands/1/resource", name + "y"),
        ("commands/1", {"type": "writeFile", "resource": name, "targetPath": "x.npy", "dimensions": [2**20]}),
    ):
        with pytest.raises(ModelFormatError) as caught:
            model = parse_model(json.dumps(changed(path, value, json.loads(text))), Folders(tmp_path, tmp_path))
            (problem_found,) = check_model(model, "6_4").binding_problems[:1]
            raise problem_found
        assert len(str(caught.value)) < 700
