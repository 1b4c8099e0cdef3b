"""Mangled ONNX models: only the package's own errors are raised, and nothing outside of a model's folder is read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opendml as dml
import opendml.compatibility.onnxruntime as runtime
from opendml.formats.onnx import translation
from opendml.formats.onnx.stand_ins import stand_ins
from opendml.formats.onnx.values import known

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


@pytest.mark.parametrize("equation", ["ab..cd,abcd->ab", "abcd.,abcd", "abcd,ab>cd", "a\nbcd,abcd->a"])
def test_equations_that_are_none_are_refused_at_once(equation: str, folder: Path, monkeypatch: Any) -> None:
    """The package onnx, which infers what other nodes without an expression give, would never return."""
    asked: list[object] = []
    monkeypatch.setattr(onnx.shape_inference, "infer_node_outputs", lambda *given: asked.append(given))
    info = helper.make_tensor_value_info
    node = helper.make_node("Einsum", ["x", "x"], ["y"], equation=equation)
    graph = helper.make_graph([node], "g", [info("x", 1, [1, 3, 4, 4])], [info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    assert not read_and_describe(model.SerializeToString(), folder)
    assert not asked


def test_weights_of_a_refused_node_are_not_handed_on(monkeypatch: Any) -> None:
    """Sizes are: what it would give follows from them."""
    asked: list[set[str]] = []
    infer = onnx.shape_inference.infer_node_outputs

    def recorded(schema: Any, node: Any, types: Any, data: Any) -> Any:
        asked.append({*data})
        return infer(schema, node, types, data)

    monkeypatch.setattr(onnx.shape_inference, "infer_node_outputs", recorded)
    inputs = [known(np.ones((100, 100), "f")), known(np.array([2, 3]))]
    found = stand_ins(dml.Graph(), helper.make_node("Tile", ["weights", "repeats"], ["y"]), inputs, 18)
    assert asked == [{"repeats"}]
    assert found is not None
    assert [None if one is None else one.sizes for one in found] == [(200, 300)]


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
    bodies = [[node(f"F{i + 1}", ["x"], [name], domain="of.mine") for name in ("twice", "y")] for i in range(30)]
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


def test_known_results_are_not_copied_while_a_model_is_compiled(folder: Path) -> None:
    """Four billion elements, fewer than a tensor may have, are one number until somebody runs the model."""
    node, info = helper.make_node, helper.make_tensor_value_info
    weights = [numpy_helper.from_array(np.array([1 << 16, (1 << 16) - 1]), "sizes")]
    graph = helper.make_graph([node("ConstantOfShape", ["sizes"], ["y"])], "g", [], [info("y", 1, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    loaded = dml.load(model)
    assert isinstance(loaded, dml.OnnxModel)
    tracemalloc.start()
    loaded.compile()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < MEMORY


# ---- what is damaged on purpose

node, info = helper.make_node, helper.make_tensor_value_info
X, Y = [info("x", 1, [4])], [info("y", 1, None)]
ADD = [node("Add", ["x", "w"], ["y"])]
INNER = helper.make_graph([node("Identity", ["go"], ["goes"])], "b", [info("i", 7, [])], [info("goes", 9, [])])


def loaded(path: Path) -> dml.OnnxModel:
    model = dml.load(path)
    assert isinstance(model, dml.OnnxModel)
    return model


def weight(name: str = "w", data: object = None) -> Any:
    return numpy_helper.from_array(np.ones(4, "f") if data is None else np.asarray(data), name)


def outside(location: str, offset: object = 0, length: object = 16) -> Any:
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return tensor


def raw(*sizes: int, data: bytes = b"") -> Any:
    return onnx.TensorProto(name="w", data_type=1, dims=sizes, raw_data=data)


DAMAGED = {
    "data beyond its file": (ADD, X, Y, [outside("w.bin", 8)], "'w.bin' ends before it: 16 bytes"),
    "a negative offset": (ADD, X, Y, [outside("w.bin", -4)], "offset '-4' is no number of bytes"),
    "a length of its own": (ADD, X, Y, [outside("w.bin", 0, 1 << 40)], "needs 16 bytes, its length is 1099511627776"),
    "data outside": (ADD, X, Y, [outside("../w.bin")], "'../w.bin' is no file in the folder"),
    "data anywhere": (ADD, X, Y, [outside("/etc/passwd")], "'/etc/passwd' is no file in the folder"),
    "data in a folder": (ADD, X, Y, [outside(".")], "'.' is no file in the folder"),
    "no such data": (ADD, X, Y, [outside("no.bin")], "cannot read 'no.bin'"),
    "absurd sizes": (ADD, X, Y, [raw(1 << 62, 1 << 62, data=b"1234")], "needs 8507059173.* bytes, got 4"),
    "absurd sizes of nothing": (ADD, X, Y, [raw(0, 1 << 62, 1 << 62)], r"no array has the sizes \[0, 4611686018427"),
    "an absurd input of nothing": (ADD, [info("x", 1, [0, 1 << 62, 1 << 62])], Y, [weight()], "'x': no tensor has the"),
    "negative sizes": (ADD, X, Y, [raw(-4)], "have a negative one"),
    "an absurd input": ([node("Neg", ["x"], ["y"])], [info("x", 1, [1 << 40])], Y, [], "input 'x': no tensor has the"),
    "an input of many dimensions": (ADD, [info("x", 1, [1] * 2000)], Y, [weight()], "input 'x'"),
    "a circle": (
        [node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), node("Neg", ["b"], ["y"])],
        X,
        Y,
        [],
        "it reads 'a'",
    ),
    "an unknown name": ([node("Add", ["x", "nobody"], ["y"])], X, Y, [], "Add 'y': it reads 'nobody', which nothing"),
    "two of a name": (
        [node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])],
        X,
        Y,
        [],
        "Abs 'y': its output 'y' is given by",
    ),
    "a weight's name": ([node("Neg", ["x"], ["w"]), *ADD], X, Y, [weight()], "Neg 'w': its output 'w' is given by"),
    "an input's name": (
        [node("Neg", ["x"], ["x"]), node("Abs", ["x"], ["y"])],
        X,
        Y,
        [],
        "Neg 'x': its output 'x' is given",
    ),
    "an input twice": (ADD, X * 2, Y, [weight()], "input 'x': the name 'x' is an input already"),
    "an output that is too large": (
        [node("Expand", ["x", "w"], ["y"])],
        X,
        Y,
        [weight(data=[1 << 40, 4])],
        "output 'y': .*must be from 1 to 4294967295",
    ),
    "many weights": (
        [node("Resize", ["x", "", "", "w"], ["y"], mode="cubic")],
        [info("x", 1, [1, 1, 1, 1 << 31])],
        Y,
        [weight(data=[1, 1, 1, 2])],
        "the weights from 2147483648 to 2 elements along a dimension are too many",
    ),
    "a loop without a state": (
        [node("Loop", ["w", "", "x"], ["y"], body=INNER)],
        X,
        Y,
        [weight(data=3)],
        "expected 3 and 2",
    ),
    "a scan of nothing": (
        [node("Scan", ["x"], ["y"], body=INNER, num_scan_inputs=9)],
        X,
        Y,
        [],
        "num_scan_inputs is 9",
    ),
    "a result of many elements": (
        [node("ConstantOfShape", ["w"], ["y"])],
        X,
        Y,
        [weight(data=[1 << 40, 1 << 20])],
        "ConstantOfShape 'y': no tensor has the sizes \\[1099511627776, 1048576\\]: at most 4294967295 elements fit",
    ),
    "a repeated number": (
        [node("Expand", ["one", "w"], ["y"])],
        X,
        Y,
        [weight("one", 1.0), weight(data=[1 << 20, 1 << 20])],
        "Expand 'y': no tensor has the sizes \\[1048576, 1048576\\]: at most 4294967295 elements fit",
    ),
    "a result of negative sizes": (
        [node("ConstantOfShape", ["w"], ["y"])],
        X,
        Y,
        [weight(data=[4, -4])],
        r"ConstantOfShape 'y': its result would have the sizes \[4, -4\]",
    ),
    "no such type": ([node("Cast", ["x"], ["y"], to=999)], X, Y, [], "Cast 'y': to: 999 is no type of ONNX's tensors"),
    "no type to cast to": ([node("Cast", ["x"], ["y"])], X, Y, [], "Cast 'y': to: 0 is no type of ONNX's tensors"),
    "no such word": (
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="SAME")],
        [info("x", 1, [1, 1, 4, 4])],
        Y,
        [],
        "MaxPool 'y': auto_pad: expected NOTSET, SAME_UPPER, SAME_LOWER or VALID, got 'SAME'",
    ),
    "another operator's word": (
        [node("Resize", ["x", "", "", "w"], ["y"], mode="bilinear")],
        [info("x", 1, [1, 1, 4, 4])],
        Y,
        [weight(data=[1, 1, 8, 8])],
        "Resize 'y': mode: expected nearest, linear or cubic, got 'bilinear'",
    ),
    "a filter of another size": (
        [node("Conv", ["x", "w"], ["y"], kernel_shape=[5, 5])],
        [info("x", 1, [1, 1, 8, 8])],
        Y,
        [weight(data=np.ones((1, 1, 3, 3), "f"))],
        r"Conv 'y': kernel_shape: expected \[3, 3\], which the filter has, got \[5, 5\]",
    ),
    "parts of another number": (
        [node("Split", ["x"], ["y"], num_outputs=1 << 40)],
        X,
        Y,
        [],
        "Split 'y': num_outputs: expected 1, as many as it has, got 1099511627776",
    ),
    "no order": (
        [node("Transpose", ["x"], ["y"], perm=[9])],
        X,
        Y,
        [],
        "Transpose 'y': perm: 9 is no order of 1 dimensions",
    ),
    "no steps": (
        [node("Range", ["zero", "w", "zero"], ["y"])],
        X,
        Y,
        [weight("zero", 0.0), weight(data=4.0)],
        "Range 'y': no numbers go from 0.0 to 4.0 in steps of 0.0",
    ),
    "labels of nothing": ([node("Einsum", ["x"], ["y"], equation="i->ij")], X, Y, [], "'i->ij' has a label in its"),
    "a label twice": ([node("Einsum", ["x"], ["y"], equation="i->ii")], X, Y, [], "'i->ii' has a label in its"),
    "another number of units": (
        [node("GRU", ["x", "w", "r"], ["y"], hidden_size=1 << 40)],
        [info("x", 1, [3, 1, 4])],
        Y,
        [weight(data=np.ones((1, 6, 4), "f")), weight("r", np.ones((1, 6, 2), "f"))],
        "GRU 'y': hidden_size: expected 2, which the weights have, got 1099511627776",
    ),
    "a branch too few": ([node("If", ["w"], ["y"])], X, Y, [weight(data=True)], "If 'y': 'then_branch' is missing"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_what_is_wrong_is_said(kind: str, folder: Path) -> None:
    nodes, inputs, outputs, weights, message = DAMAGED[kind]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
    with pytest.raises(dml.ModelFormatError, match=message):
        loaded = dml.load(path)
        assert isinstance(loaded, dml.OnnxModel)
        loaded.compile(dml.Device("reference"))


def test_links_do_not_lead_out(folder: Path) -> None:
    (folder / "link.bin").symlink_to(folder.parent / "w.bin")
    graph = helper.make_graph(ADD, "g", X, Y, [outside("link.bin")])
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
    with pytest.raises(dml.ModelFormatError, match=r"'link.bin' leads out of the folder"):
        loaded(path).describe()


@pytest.mark.parametrize("place", ["x", "y", "w", "location", "graph", "producer", "add"])
def test_texts_that_are_not_utf8(place: str, folder: Path) -> None:
    """Names of inputs, outputs and weights are refused, and so is everything else that is looked at."""
    names = {name: "TEXT" if name == place else name for name in ("x", "y", "w", "graph", "producer", "add")}
    tensor = outside("TEXT" if place == "location" else "w.bin")
    tensor.name = names["w"]
    nodes = [node("Add", [names["x"], names["w"]], [names["y"]], name=names["add"])]
    graph = helper.make_graph(nodes, names["graph"], [info(names["x"], 1, [4])], [info(names["y"], 1, None)], [tensor])
    whole = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], producer_name=names["producer"], ir_version=9
    )
    path = folder / "model.onnx"
    path.write_bytes(whole.SerializeToString().replace(b"TEXT", b"\xff\xfeXT"))
    if place in ("graph", "producer"):
        assert runtime.InferenceSession(path).get_modelmeta().version
        return
    with pytest.raises(dml.ModelFormatError, match=r"b'.xff.xfeXT'"):
        loaded(path).compile(dml.Device("reference"))
    with pytest.raises(dml.OpendmlError):
        runtime.InferenceSession(path)
