"""The contents of large initialisers are left in the bytes of a model: what is parsed without them is the same."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_building import TYPES, info, model_of, node, proto

import opendml as dml
from opendml.formats.onnx import known_files, reading, sources
from opendml.formats.onnx.places import TensorPlaces
from opendml.formats.onnx.weights import LARGE, without_weights
from opendml.targets.host_memory import MappedFile, owner_of

RANDOM = np.random.default_rng(5)
WIDE = RANDOM.normal(size=(40, 40)).astype("f")
ELEMENTS = LARGE // 4


def model(**weights: Any) -> Any:
    names = [*weights]
    nodes = [node("Sum", names, ["y"], name="only")]
    return proto(nodes, [info("x", [1])], [info("y", None)], **weights)


def put_back(light: Any, weights: Any) -> Any:
    whole = ModelProto()
    whole.CopyFrom(light)
    for number, content in weights.items():
        tensor = whole.graph.initializer[number]
        assert tensor.raw_data == b"" and tensor.HasField("raw_data")
        tensor.raw_data = bytes(content)
    return whole


def varint(value: int, size: int) -> bytes:
    """A number in more bytes than it may need."""
    return bytes([value >> 7 * n & 127 | 128 * (n < size - 1) for n in range(size)])


def test_the_rest_is_as_it_was() -> None:
    whole = model(a=WIDE, b=np.ones(3, "f"), c=np.arange(ELEMENTS, dtype="f"), d=np.arange(ELEMENTS - 1, dtype="f"))
    whole.doc_string = "behind the graph"
    data = whole.SerializeToString()
    rest, weights = without_weights(data)
    assert sorted(weights) == [0, 2]
    assert len(rest) < len(data) - WIDE.nbytes
    assert all(content.obj is data for content in weights.values())
    light = ModelProto.FromString(bytes(rest))
    assert put_back(light, weights) == whole


def test_whole_models_need_not_be_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = list[int]()

    def parsed(data: bytes) -> Any:
        sizes.append(len(data))
        return reading.model_of_bytes(data)

    monkeypatch.setattr("opendml.formats.onnx.sources.model_of_bytes", parsed)
    loaded = model_of([node("MatMul", ["x", "w"], ["y"])], [info("x", [2, 40])], [info("y", [2, 40])], w=WIDE)
    x = RANDOM.normal(size=(2, 40)).astype("f")
    assert np.allclose(loaded.run({"x": x})["y"], x @ WIDE, atol=1e-4)
    assert loaded.head.graph.initializer[0].name == "w"
    assert max(sizes) < WIDE.nbytes
    assert numpy_helper.to_array(loaded.proto.graph.initializer[0]).tobytes() == WIDE.tobytes()


@pytest.mark.parametrize("field", [7, 5, 9])
def test_lengths_with_more_bytes_than_they_need(field: int) -> None:
    """Protocol buffers take them, so the model is left as it is."""
    content = WIDE.tobytes()
    tensor = TensorProto(dims=WIDE.shape, data_type=TYPES.FLOAT, name="w").SerializeToString()
    parts = {9: content, 5: tensor, 7: helper.make_graph([], "g", [], []).SerializeToString()}
    message = b""
    for number in (9, 5, 7):
        message = parts[number] + message if number != 9 else content
        message = varint(number << 3 | 2, 1) + varint(len(message), 5 if number == field else 3) + message
    rest, weights = without_weights(message)
    assert (rest, weights) == (message, {})
    assert ModelProto.FromString(message).graph.initializer[0].raw_data == content


def test_the_last_content_of_a_tensor_counts() -> None:
    def field(content: bytes) -> bytes:
        data: bytes = TensorProto(raw_data=content).SerializeToString()
        return data

    head = TensorProto(dims=WIDE.shape, data_type=TYPES.FLOAT, name="w").SerializeToString()
    first, last = bytes(2 * LARGE), WIDE.tobytes()
    for contents, expected in (((first, last), {0: last}), ((b"1234", last), {0: last}), ((last, b"1234"), {})):
        tensor = head + b"".join(map(field, contents))
        data = nested(7, nested(5, tensor)) + model(a=np.ones(1, "f")).SerializeToString()
        rest, weights = without_weights(data)
        assert {number: bytes(content) for number, content in weights.items()} == expected
        light = ModelProto.FromString(bytes(rest))
        assert put_back(light, weights) == ModelProto.FromString(data)


def nested(number: int, content: bytes) -> bytes:
    size = len(content)
    return varint(number << 3 | 2, 1) + varint(size, max(-(-size.bit_length() // 7), 1)) + content


def test_several_graphs_are_one() -> None:
    data = model(a=WIDE, b=np.ones(3, "f")).SerializeToString() + model(c=WIDE + 1).SerializeToString()
    rest, weights = without_weights(data)
    assert sorted(weights) == [0, 2]
    assert put_back(ModelProto.FromString(bytes(rest)), weights) == ModelProto.FromString(data)


def test_damaged_models_are_left_to_the_parser() -> None:
    data = model(a=WIDE, b=WIDE).SerializeToString()
    for end in range(0, len(data), 211):
        rest, weights = without_weights(data[:end])
        if weights:  # it ends between two fields
            assert put_back(ModelProto.FromString(bytes(rest)), weights) == ModelProto.FromString(data[:end])
        else:
            assert rest == data[:end]
    for place in range(60):
        damaged = bytearray(data)
        damaged[place] ^= 0x55
        without_weights(bytes(damaged))


def test_types_that_memory_has_otherwise() -> None:
    """Numbers that NumPy has no type for, and bytes that are too few."""
    bfloat = TensorProto(name="w", data_type=TYPES.BFLOAT16, dims=[LARGE], raw_data=bytes(2 * LARGE))
    short = TensorProto(name="w", data_type=TYPES.FLOAT, dims=[LARGE, 4], raw_data=bytes(8 * LARGE))
    for tensor, message in ((bfloat, "BFLOAT16|bfloat16"), (short, "needs 65536 bytes, got 32768")):
        graph = helper.make_graph([node("Identity", ["w"], ["y"])], "g", [], [info("y", None)], [tensor])
        one = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        with pytest.raises(dml.ModelFormatError, match=message):
            loaded = dml.load(one.SerializeToString())
            assert isinstance(loaded, dml.OnnxModel)
            loaded.compile()


def mapped_model(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dml.OnnxModel, Any]:
    """A model whose file is large and old enough to stay where it is."""
    monkeypatch.setattr(known_files, "RECENT", 0)
    monkeypatch.setattr(sources, "LARGE", 1)
    whole = proto([node("MatMul", ["x", "w"], ["y"])], [info("x", [2, 40])], [info("y", [2, 40])], w=WIDE)
    path.write_bytes(whole.SerializeToString())
    loaded = dml.load(path)
    assert isinstance(loaded, dml.OnnxModel)
    return loaded, whole


def test_large_files_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, whole = mapped_model(tmp_path / "a.onnx", monkeypatch)
    x = RANDOM.normal(size=(2, 40)).astype("f")
    assert isinstance(owner_of(loaded._source.content()), MappedFile)
    assert np.array_equal(loaded.run({"x": x})["y"], dml.gemm(x, WIDE))
    assert loaded.proto == whole


@pytest.mark.parametrize("cache", ["0", "1"])
def test_mapped_files_that_change(cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE", cache)
    loaded, _ = mapped_model(tmp_path / "a.onnx", monkeypatch)
    (tmp_path / "a.onnx").write_bytes(model(a=WIDE).SerializeToString())
    with pytest.raises(dml.ModelFormatError, match="has changed since it was loaded"):
        loaded.compile()


def test_models_are_pickled_and_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped, whole = mapped_model(tmp_path / "a.onnx", monkeypatch)
    read = dml.load(whole.SerializeToString())
    assert isinstance(read, dml.OnnxModel)
    x = RANDOM.normal(size=(2, 40)).astype("f")
    for one in (mapped, read):
        for copied in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
            (tmp_path / "a.onnx").unlink(missing_ok=True)
            assert copied.proto == whole
            assert np.array_equal(copied.run({"x": x})["y"], dml.gemm(x, WIDE))


def test_contents_that_are_a_part_of_the_data() -> None:
    """They are found by their address, where others begin alike too."""
    data = model(a=WIDE, b=WIDE).SerializeToString()
    _, weights = without_weights(data)
    places = TensorPlaces(data)
    starts = [places.find(content) for content in weights.values()]
    assert starts[0] is not None and starts[1] is not None and starts[0] < starts[1]
    assert places.find(WIDE.tobytes()) in starts
    assert places.find((WIDE + 1).tobytes()) is None
