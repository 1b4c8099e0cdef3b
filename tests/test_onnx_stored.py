"""What ONNX models were translated to is kept in the disk cache: the second time nothing is translated or validated."""

from __future__ import annotations

import copy
import mmap
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opendml as dml
import opendml.compatibility.onnxruntime as runtime
from opendml.description import validation
from opendml.formats.onnx import known_files, sources
from opendml.formats.onnx import translation as translation_module
from opendml.formats.onnx.places import TensorPlaces
from opendml.formats.onnx.reading import model_of_bytes
from opendml.targets.host_memory import MappedFile, let_go

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
TYPES = onnx.TensorProto
Array = np.ndarray[Any, Any]
node = helper.make_node


def info(name: str, sizes: Any, element: int = TYPES.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, sizes)


def proto(nodes: Sequence[Any], inputs: Any, outputs: Any, **weights: Array) -> Any:
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def network(seed: int = 0) -> Any:
    """Weights as an initialiser, in a constant node, computed from others, small, and what is known at import."""
    random = np.random.default_rng(seed)
    first, second = (random.standard_normal((24, 24)).astype("f") for _ in range(2))
    nodes = [
        node("Constant", [], ["v"], value=numpy_helper.from_array(second, "v")),
        node("MatMul", ["x", "w"], ["a"], name="first"),
        node("Transpose", ["v"], ["t"], perm=[1, 0]),
        node("MatMul", ["a", "t"], ["b"]),
        node("Add", ["b", "small"], ["y"]),
        node("Greater", ["y", "zero"], ["flags"]),
        node("Shape", ["w"], ["shape"]),
        node("GatherElements", ["table", "index"], ["picked"], axis=0),
    ]
    outputs = [info("y", ["n", 24]), info("flags", ["n", 24], TYPES.BOOL), info("shape", [2], TYPES.INT64)]
    outputs += [info("picked", ["m", 24], TYPES.INT64)]
    inputs = [info("x", ["n", 24]), info("index", ["m", 24], TYPES.INT64)]
    weights = {"w": first, "small": np.ones(24, "f"), "zero": np.zeros((), "f")}
    table = np.arange(24 * 24, dtype=np.int64).reshape(24, 24)
    model = proto(nodes, inputs, outputs, **weights, table=table)
    model.graph.initializer[0].ClearField("raw_data")
    model.graph.initializer[0].float_data.extend(first.reshape(-1).tolist())
    return model


SIZES = {"n": 2, "m": 3}


def feed() -> dict[str, Array]:
    random = np.random.default_rng(5)
    return {"x": random.standard_normal((2, 24)).astype("f"), "index": random.integers(0, 24, (3, 24))}


def loaded(source: Any) -> dml.OnnxModel:
    model = dml.load(source)
    assert isinstance(model, dml.OnnxModel)
    return model


def assert_same(found: dict[str, Array], expected: dict[str, Array]) -> None:
    assert list(found) == list(expected)
    for name, wanted in expected.items():
        assert (found[name].dtype, found[name].shape) == (wanted.dtype, wanted.shape)
        assert found[name].tobytes() == wanted.tobytes()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(known_files, "RECENT", 0)


@pytest.fixture(name="work")
def _work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done of what takes long: translations, validations of operators, parsing whole files."""
    done: list[str] = []

    def counted(name: str, usual: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            done.append(name)
            return usual(*arguments, **named)

        return call

    monkeypatch.setattr(translation_module, "Translation", counted("translation", translation_module.Translation))
    monkeypatch.setattr(sources, "model_of_bytes", counted("parsing", model_of_bytes))
    monkeypatch.setattr(validation, "_check_tensors", counted("validation", validation._check_tensors))
    return done


def saved(model: Any, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def test_nothing_is_done_twice(tmp_path: Path, work: list[str]) -> None:
    path = saved(network(), tmp_path / "model.onnx")
    first = loaded(path)
    expected = first.compile(sizes=SIZES).run(feed())
    assert {*work} == {"translation", "validation", "parsing"}
    work.clear()
    again = loaded(path)
    assert repr(again) == repr(first)
    program = again.compile(sizes=SIZES)
    assert not work
    assert_same(program.run(feed()), expected)
    assert_same(program.run({"x": np.asfortranarray(feed()["x"]), "index": feed()["index"]}), expected)
    assert again.compile(sizes={"n": 3, "m": 3}).run({**feed(), "x": np.zeros((3, 24), "f")})["y"].shape == (3, 24)
    assert "translation" in work


def test_sessions_on_bytes_and_files(tmp_path: Path, work: list[str]) -> None:
    path = saved(network(), tmp_path / "model.onnx")
    expected = [runtime.InferenceSession(path.read_bytes()).run(None, feed()) for _ in range(2)]
    assert work.count("translation") == 1
    work.clear()
    session = runtime.InferenceSession(path)
    assert [one.shape for one in session.get_inputs()] == [["n", 24], ["m", 24]]
    for found, *wanted in zip(session.run(None, feed()), *expected, strict=True):
        assert all(found.tobytes() == one.tobytes() for one in wanted)
    assert work == ["parsing"]
    work.clear()
    assert runtime.InferenceSession(path).get_modelmeta().graph_name == "g"
    assert not work


def test_weights_are_part_of_the_name(tmp_path: Path, work: list[str]) -> None:
    path = saved(network(0), tmp_path / "model.onnx")
    loaded(path).compile(sizes=SIZES)
    saved(network(1), path)
    work.clear()
    assert_same(loaded(path).run(feed()), loaded(network(1).SerializeToString()).run(feed()))
    assert "translation" in work


def test_files_that_change_after_they_were_loaded(tmp_path: Path) -> None:
    path = saved(network(0), tmp_path / "model.onnx")
    expected = loaded(path).compile(sizes=SIZES).run(feed())
    known, read = loaded(path), loaded(path)
    assert read.proto.graph.name == "g"
    os.utime(path, ns=(1, 1))
    with pytest.raises(dml.ModelFormatError, match=r"'model\.onnx' has changed since it was loaded: load it again"):
        known.compile(sizes=SIZES)
    assert_same(loaded(path).compile(sizes=SIZES).run(feed()), expected)
    path.unlink()
    with pytest.raises(dml.ModelFormatError, match=r"cannot read 'model\.onnx'"):
        known.compile(sizes=SIZES)


def test_what_changed_just_now_is_not_trusted(tmp_path: Path, work: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(known_files, "RECENT", 3600 * 10**9)
    path = saved(network(0), tmp_path / "model.onnx")
    for _ in range(2):
        work.clear()
        loaded(path).compile(sizes=SIZES)
        assert "parsing" in work


def test_what_has_no_expression_is_kept_too(tmp_path: Path, work: list[str]) -> None:
    nodes = [node("NonZero", ["x"], ["n"]), node("Range", ["a", "b", "c"], ["y"]), node("Det", ["x"], ["d"])]
    inputs = [info("x", [2, 2]), *(info(name, []) for name in "abc")]
    path = saved(proto(nodes, inputs, [info("n", None), info("y", None), info("d", None)]), tmp_path / "model.onnx")
    messages = []
    for _ in range(2):
        model = loaded(path)
        with pytest.raises(dml.ModelFormatError) as error:
            model.compile()
        messages.append((str(error.value), error.value.problems, model.needed_values()))
        if not messages[1:]:
            work.clear()
    assert messages[0] == messages[1]
    assert not work


def test_programs_are_described_when_somebody_asks(tmp_path: Path, work: list[str]) -> None:
    path = saved(network(), tmp_path / "model.onnx")
    first = loaded(path).compile(sizes=SIZES)
    program = loaded(path).compile(sizes=SIZES)
    work.clear()
    assert program.program is not None
    assert first.program is not None
    assert program.program.desc == first.program.desc
    assert work.count("translation") == 1
    assert repr(program.program) == repr(first.program)
    for other in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program), pickle.loads(pickle.dumps(first))):
        assert_same(other.run(feed()), first.run(feed()))
        assert other.run_quickly(feed()) is not None


def test_entries_that_are_damaged_or_gone(tmp_path: Path, work: list[str]) -> None:
    path = saved(network(), tmp_path / "model.onnx")
    expected = loaded(path).compile(sizes=SIZES).run(feed())
    entries = sorted((tmp_path / "cache").glob("*.object"))
    contents = [entry.read_bytes() for entry in entries]
    for number, entry in enumerate(entries):
        for damaged in (None, contents[number][:-1] + bytes([contents[number][-1] ^ 1])):
            if damaged is None:
                entry.unlink(missing_ok=True)
            else:
                entry.write_bytes(damaged)
            assert_same(loaded(path).compile(sizes=SIZES).run(feed()), expected)
    work.clear()
    loaded(path).compile(sizes=SIZES)
    assert not work


def test_without_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, work: list[str]) -> None:
    monkeypatch.setenv("OPENDML_CACHE", "0")
    path = saved(network(), tmp_path / "model.onnx")
    for _ in range(2):
        work.clear()
        loaded(path).compile(sizes=SIZES).run(feed())
        assert "translation" in work


def with_data_beside(path: Path) -> Path:
    model = proto([node("MatMul", ["x", "w"], ["y"])], [info("x", [2, 32])], [info("y", None)], w=np.eye(32, dtype="f"))
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def test_weights_in_other_files_are_part_of_the_name(tmp_path: Path, work: list[str]) -> None:
    path = with_data_beside(tmp_path / "model.onnx")
    x = np.random.default_rng(0).standard_normal((2, 32)).astype("f")
    assert_same(loaded(path).run({"x": x}), {"y": x})
    work.clear()
    assert_same(loaded(path).run({"x": x}), {"y": x})
    assert not work
    (tmp_path / "w.bin").unlink()
    for source in (path, path.read_bytes()):
        with pytest.raises(dml.ModelFormatError, match="initializer 'w'"):
            loaded(source).run({"x": x})
    (tmp_path / "w.bin").write_bytes((2 * np.eye(32, dtype="f")).tobytes())
    assert_same(loaded(path).run({"x": x}), {"y": 2 * x})
    work.clear()
    assert_same(loaded(path).run({"x": x}), {"y": 2 * x})
    assert not work


def test_weights_leave_memory_when_they_are_laid_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the cache on their file is mapped; aligned data are read where they are, others from a copy."""
    gone: list[int] = []

    class Recorded(MappedFile):
        def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
            assert option == mmap.MADV_DONTNEED
            assert start % mmap.PAGESIZE == 0
            gone.append(length)
            super().madvise(option, start, length)

    monkeypatch.setattr(known_files, "MappedFile", Recorded)
    path, x = with_data_beside(tmp_path / "model.onnx"), np.ones((2, 32), "f")
    for model in (path, saved(onnx.load(path), tmp_path / "whole.onnx")):
        expected = loaded(model).run({"x": x})
        gone.clear()
        assert_same(loaded(model).run({"x": x}), expected)
        assert gone
        assert min(gone) >= 32 * 32 * 4


def test_only_files_that_are_read_leave_memory(tmp_path: Path) -> None:
    """What was written to a private mapping, or to memory, has nowhere to come back from."""
    (tmp_path / "data").write_bytes(bytes(3 * mmap.PAGESIZE))
    with (tmp_path / "data").open("r+b") as file:
        private = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        read = MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
        private[:] = b"x" * len(private)
        for memory in (private, bytearray(private), read):
            array = np.frombuffer(memory, np.uint8)[100:-100]
            before = array.copy()
            let_go(array)
            np.testing.assert_array_equal(array, before)


def test_weights_in_other_files_that_change_while_a_model_is_used(tmp_path: Path) -> None:
    path = with_data_beside(tmp_path / "model.onnx")
    model = loaded(path)
    model.compile()
    os.utime(tmp_path / "w.bin", ns=(1, 1))
    with pytest.raises(dml.ModelFormatError, match=r"'w\.bin' has changed since it was loaded: load it again"):
        model.compile()
    loaded(path).compile()


def test_weights_in_other_files_that_changed_just_now(tmp_path: Path, work: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(known_files, "RECENT", 3600 * 10**9)
    path = with_data_beside(tmp_path / "model.onnx")
    for _ in range(2):
        work.clear()
        loaded(path).compile()
        assert "translation" in work


def test_places_of_data_beside_the_model() -> None:
    tensor = numpy_helper.from_array(np.zeros(4, "f"), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TYPES.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "8"}.items():
        tensor.external_data.add(key=key, value=value)
    function = helper.make_function("own", "F", [], ["c"], [node("Constant", [], ["c"], value=tensor)], [])
    model = helper.make_model(helper.make_graph([], "g", [], []), functions=[function])
    places = TensorPlaces(model.SerializeToString())
    assert places.external == {"w.bin": {None: {8}}}
    file = memoryview(bytes(8) + b"0123456789")
    assert places.find_beside(b"01234", "w.bin", file) == 8
    assert places.find_beside(b"12345", "w.bin", file) is None
    assert places.find_beside(b"01234", "v.bin", file) is None


def test_values_and_narrowed_nodes_are_part_of_the_name(work: list[str]) -> None:
    nodes = [node("Range", ["zero", "end", "one"], ["r"]), node("Erf", ["x"], ["e"]), node("Add", ["e", "r"], ["y"])]
    inputs = [info("x", [1], TYPES.DOUBLE), info("end", [], TYPES.DOUBLE)]
    numbers = {"zero": np.zeros((), "d"), "one": np.ones((), "d")}
    data = proto(nodes, inputs, [info("y", None, TYPES.DOUBLE)], **numbers).SerializeToString()
    for _ in range(2):
        for end in (2.0, 3.0):
            program = loaded(data).compile(values={"end": end}, narrow_float64=True)
            assert program.narrowed == ("Erf 'e'", "Add 'y'")
            assert program.run({"x": np.zeros(1)})["y"].tolist() == [*range(int(end))]
        with pytest.raises(dml.ModelFormatError, match="no FLOAT64 here"):
            loaded(data).compile(values={"end": 2.0})
    assert work.count("translation") == 3


def test_places_of_tensors() -> None:
    model = network()
    data = model.SerializeToString()
    places = TensorPlaces(data)
    for tensor in (*model.graph.initializer, model.graph.node[0].attribute[0].t):
        content = numpy_helper.to_array(tensor).tobytes()
        start = places.find(content)
        assert start is not None
        assert data[start : start + len(content)] == content
    assert not places.external
    assert places.find(b"1234") is None
    with pytest.raises(dml.ModelFormatError, match="damaged"):
        TensorPlaces(data[:-5])


AGAIN = """
import sys
import numpy as np
import opendml as dml
from opendml.formats.onnx import known_files
known_files.RECENT = 0
program = dml.load(sys.argv[1]).compile(sizes={"n": 2, "m": 3})
program.run({"x": np.ones((2, 24), "f"), "index": np.zeros((3, 24), np.int64)})
later = "formats.onnx.translation", "targets.cpu.tuning", "description.graph_desc", "description.descriptors"
print(*(name in sys.modules for name in ("onnx", *(f"opendml.{name}" for name in later))))
"""


def test_what_is_in_the_cache_needs_no_compiler(tmp_path: Path) -> None:
    """Neither its modules and knobs, nor descriptors of operators, nor the packages that it is made of."""
    path = saved(network(), tmp_path / "model.onnx")
    command = [sys.executable, "-c", AGAIN, str(path)]
    said = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() for _ in range(2)]
    assert said == [["True"] * 5, ["False"] * 5]
