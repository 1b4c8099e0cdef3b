"""Serialised graphs: reading, writing, round trips, damaged and hostile files, DxDispatch's dispatchable."""

from __future__ import annotations

import dataclasses
import json
import re
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_lines import invoke
from hypothesis import given
from hypothesis import strategies as st
from properties import examples, some
from random_graphs import graphs, permuted
from sample_descriptors import samples
from specification import SHARED

import opendml as dml
from opendml.description.descriptors import Operator
from opendml.description.errors import InvalidDescriptorError, ModelFormatError, OpendmlError
from opendml.description.graph_desc import (
    ConstantNode,
    GraphDesc,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
)
from opendml.description.graph_paths import topological_order
from opendml.description.graph_validation import validate_graph
from opendml.formats.serialized_graph.flat_buffers import Reader, Writer
from opendml.formats.serialized_graph.reading import read_graph
from opendml.formats.serialized_graph.schema import SCHEMA
from opendml.formats.serialized_graph.writing import _write_operator, write_graph

T = dml.TensorDesc("FLOAT32", [1, 1, 2, 3])

SAMPLE = SHARED / "dxdispatch" / "dmlSerializedGraph_matmul_add.json"
needs_sample = pytest.mark.skipif(not SAMPLE.is_file(), reason="the sample model is not here")


def add(**changes: Any) -> Operator:
    return dml.operators.ElementWiseAdd(**({"a_tensor": T, "b_tensor": T, "output_tensor": T} | changes))


def small_graph(**changes: Any) -> GraphDesc:
    """y = x + weights."""
    values: dict[str, Any] = {
        "input_count": 1,
        "output_count": 1,
        "nodes": [ConstantNode(np.arange(6, dtype=np.float32).tobytes(), "weights"), OperatorNode(add(), "add")],
        "input_edges": [InputEdge(0, 1, 0, "x")],
        "intermediate_edges": [IntermediateEdge(0, 0, 1, 1, "w")],
        "output_edges": [OutputEdge(1, 0, 0, "y")],
        "input_names": ["x"],
        "output_names": ["y"],
    }
    return GraphDesc(**(values | changes))


def saved_and_loaded(graph: GraphDesc) -> GraphDesc:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.bin"
        dml.save(graph, path)
        return loaded(path)


def loaded(path: Path) -> GraphDesc:
    graph = dml.load(path)
    assert isinstance(graph, GraphDesc)
    return graph


def without_names(graph: GraphDesc) -> tuple[Any, ...]:
    """What a graph computes: its nodes in topological order, and its edges in no order."""

    def bare(value: Any) -> Any:
        return dataclasses.replace(value, name="")

    graph = permuted(graph, topological_order(graph))
    edges = graph.input_edges, graph.intermediate_edges, graph.output_edges
    return (
        graph.input_count,
        graph.output_count,
        [bare(node) for node in graph.nodes],
        [Counter(bare(edge) for edge in group) for group in edges],
    )


# ---- round trips


@examples(60)
@given(graphs())
def test_random_graphs_survive(graph: GraphDesc) -> None:
    once = saved_and_loaded(graph)
    assert without_names(once) == without_names(graph)
    assert saved_and_loaded(once) == once, "a graph that was loaded is written with all its names"


@pytest.mark.parametrize("operator", samples(), ids=lambda operator: operator.type.name)
def test_every_operator_survives(operator: Operator) -> None:
    tensors = [(n, t) for n, (_, t) in enumerate(operator.inputs()) if t is not None]
    outputs = [n for n, (_, t) in enumerate(operator.outputs()) if t is not None]
    graph = GraphDesc(
        input_count=len(tensors),
        output_count=len(outputs),
        nodes=(OperatorNode(operator, "node"),),
        input_edges=tuple(InputEdge(i, 0, number, f"x{i}") for i, (number, _) in enumerate(tensors)),
        output_edges=tuple(OutputEdge(0, number, i, f"y{i}") for i, number in enumerate(outputs)),
        input_names=tuple(f"x{i}" for i in range(len(tensors))),
        output_names=tuple(f"y{i}" for i in range(len(outputs))),
    )
    assert saved_and_loaded(graph) == graph


def test_values_at_their_limits_survive() -> None:
    strided = dml.TensorDesc("FLOAT32", [1, 1, 2, 3], [6, 6, 3, 1], total_size_in_bytes=64)
    broadcast = strided.replace(strides=[0, 0, 0, 0], total_size_in_bytes=64)
    clip = dml.operators.ElementWiseClip(
        input_tensor=broadcast, output_tensor=strided, scale_bias=(1e-40, -0.0), min=float("-inf"), max=float("nan")
    )
    graph = small_graph(
        nodes=[OperatorNode(clip, "clip ü")],
        input_edges=[InputEdge(0, 0, 0, "x")],
        intermediate_edges=[],
        output_edges=[OutputEdge(0, 0, 0, "y")],
    )
    loaded = saved_and_loaded(graph)
    assert loaded == graph
    assert loaded.nodes[0].name == "clip ü"


def test_nodes_are_put_in_order() -> None:
    graph = small_graph()
    backwards = permuted(graph, [1, 0])
    assert backwards.intermediate_edges[0].from_node_index == 1
    assert saved_and_loaded(backwards) == graph


def test_names_are_invented_where_there_are_none() -> None:
    bare = small_graph(
        input_names=[], output_names=[],
        input_edges=[InputEdge(0, 1, 0)], intermediate_edges=[IntermediateEdge(0, 0, 1, 1)],
        output_edges=[OutputEdge(1, 0, 0)],
    )  # fmt: skip
    loaded = saved_and_loaded(bare)
    assert loaded.input_names == ("input_0",) and loaded.output_names == ("output_0",)
    assert all(edge.name for edge in loaded.intermediate_edges)


def test_constants_in_files_of_their_own(tmp_path: Path) -> None:
    data = np.arange(6, dtype=np.float32).tobytes()
    graph = small_graph(nodes=[ConstantNode(data, "weights", source="/model/w:0"), OperatorNode(add(), "add")])
    dml.save(graph, tmp_path / "graph.bin")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_model_w_0.bin", "graph.bin"]
    assert (tmp_path / "_model_w_0.bin").read_bytes() == data
    assert dml.load(tmp_path / "graph.bin") == graph
    (tmp_path / "_model_w_0.bin").unlink()
    with pytest.raises(ModelFormatError, match=r"nodes\[0\].desc.data.name: no file '_model_w_0.bin'"):
        dml.load(tmp_path / "graph.bin")
    with pytest.raises(ModelFormatError, match="no folder is given"):
        read_graph(write_graph(graph)[0])


def test_the_format_is_that_of_the_flatbuffers_library() -> None:
    """Read by an implementation that is not ours."""
    pytest.importorskip("flatbuffers")
    from flatbuffers import encode, number_types
    from flatbuffers.table import Table

    data = write_graph(small_graph())[0]
    root = Table(data, encode.Get(number_types.UOffsetTFlags.packer_type, data, 0))

    def names(table: Table, slot: int) -> list[str]:
        offset = table.Offset(slot)
        begin = table.Vector(offset)
        return [table.String(begin + 4 * i).decode() for i in range(table.VectorLen(offset))]

    assert names(root, 6) == ["x"] and names(root, 8) == ["y"]
    nodes = root.Offset(4)
    assert root.VectorLen(nodes) == 2
    add_node = Table(data, root.Indirect(root.Vector(nodes) + 4))
    assert add_node.Get(number_types.Uint8Flags, add_node.Offset(4) + add_node.Pos) == 1
    assert add_node.String(add_node.Offset(8) + add_node.Pos) == b"add"
    assert names(add_node, 10) == ["x", "w"]
    operator = Table(data, add_node.Indirect(add_node.Offset(6) + add_node.Pos))
    assert operator.String(operator.Offset(4) + operator.Pos) == b"DML_OPERATOR_ELEMENT_WISE_ADD"
    tensor = Table(data, operator.Indirect(operator.Vector(operator.Offset(6))))
    assert tensor.String(tensor.Offset(4) + tensor.Pos) == b"DML_TENSOR_DATA_TYPE_FLOAT32"
    assert tensor.Get(number_types.Uint64Flags, tensor.Offset(10) + tensor.Pos) == 24
    assert (tensor.Offset(10) + tensor.Pos) % 8 == 0, "a UINT64 is aligned"
    assert tensor.GetVectorAsNumpy(number_types.Uint32Flags, tensor.Offset(6)).tolist() == [1, 1, 2, 3]
    assert tensor.Offset(8) == 0, "packed tensors have no strides"


# ---- what cannot be written


def test_an_invalid_graph_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidDescriptorError):
        dml.save(small_graph(output_edges=[]), tmp_path / "graph.bin")
    assert not list(tmp_path.iterdir())


UNWRITABLE: dict[str, tuple[GraphDesc, str]] = {
    "owned input": (
        small_graph(nodes=[small_graph().nodes[0], OperatorNode(add(a_tensor=T.replace(flags="OWNED_BY_DML")))]),
        "x: the format has no inputs OWNED_BY_DML",
    ),
    "alignment": (
        small_graph(
            nodes=[small_graph().nodes[0], OperatorNode(add(a_tensor=T.replace(guaranteed_base_offset_alignment=64)))]
        ),
        r"Nodes\[1\].ATensor: the format has no GuaranteedBaseOffsetAlignment",
    ),
    "two outputs": (
        small_graph(output_count=2, output_edges=[OutputEdge(1, 0, 0), OutputEdge(1, 0, 1)], output_names=["y", "z"]),
        "cannot have one output of a node as y and z",
    ),
    "two names": (small_graph(output_names=["x"]), "two tensors have the name 'x'"),
    "name of a file": (
        small_graph(nodes=[ConstantNode(bytes(24), source="a\0b"), small_graph().nodes[1]]),
        "no file may have",
    ),
    "one file": (
        small_graph(
            nodes=[ConstantNode(bytes(24), source="a/b"), OperatorNode(add()), ConstantNode(b"1" * 24, source="a:b")],
            input_count=0,
            input_edges=[],
            input_names=[],
            intermediate_edges=[IntermediateEdge(0, 0, 1, 1), IntermediateEdge(2, 0, 1, 0)],
        ),
        "would share the file 'a_b.bin'",
    ),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_the_format_has_no_place_for(name: str) -> None:
    graph, message = UNWRITABLE[name]
    assert validate_graph(graph) == []
    with pytest.raises(ModelFormatError, match=message):
        write_graph(graph)


# ---- damaged and hostile files


def loaded_or_refused(data: bytes, folder: Path | None = None) -> GraphDesc | None:
    """The graph, which validation judges without failing, or None: nothing but our own errors."""
    try:
        graph = read_graph(data, folder)
    except OpendmlError:
        return None
    validate_graph(graph)
    return graph


SEED_OPERATORS = [operator for operator in samples() if "GEMM RNN JOIN SPLIT PADDING1 CONVOLUTION".find(
    operator.type.name) >= 0]  # fmt: skip


@examples(250)
@given(graphs(SEED_OPERATORS, most=4), st.data())
def test_damaged_files_are_refused_or_read(graph: GraphDesc, data: st.DataObject) -> None:
    content = bytearray(write_graph(graph)[0])
    changes = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for position, value in data.draw(st.lists(changes, min_size=1, max_size=6)):
        content[position] = value
    loaded_or_refused(bytes(content), Path("does not exist"))
    loaded_or_refused(bytes(content[: data.draw(st.integers(0, len(content)))]))


@needs_sample
def test_every_damage_of_one_byte_of_a_real_file() -> None:
    folder = SAMPLE.parent / "matmul_add"
    content = (folder / "Partition_0.bin").read_bytes()
    generator = np.random.default_rng(0)
    for position in some(range(len(content))):
        for value in {0, 255, content[position] ^ 1, int(generator.integers(256))}:
            loaded_or_refused(content[:position] + bytes([value]) + content[position + 1 :], folder)


@examples(200)
@given(st.binary(max_size=200))
def test_noise_is_refused(data: bytes) -> None:
    assert loaded_or_refused(data) is None


def test_the_same_bytes_again_and_again_are_refused() -> None:
    """A file of some hundred kilobytes that stands for a graph of a hundred million tensors."""
    writer = Writer(SCHEMA)
    name = writer.text("a tensor")
    names = writer.references([name] * 1000)
    raw = writer.table("ConstantRawData", data=writer.content(bytes(100_000)))
    desc = writer.table("ConstantNodeDesc", data_type=("B", 2), data=raw)
    node = writer.table("DmlGraphNode", desc_type=("B", 2), desc=desc, name=name, inputNames=names, outputNames=names)
    nodes = writer.references([node] * 100_000)
    none = writer.references([])
    data = writer.finish(writer.table("DmlGraphDesc", nodes=nodes, graphInputNames=none, graphOutputNames=none))
    tracemalloc.start()
    with pytest.raises(ModelFormatError):
        read_graph(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 * len(data)

    one_name = writer_of_constants(1000, 100_000)
    with pytest.raises(ModelFormatError, match="again and again"):
        read_graph(one_name)


def writer_of_constants(count: int, size: int) -> bytes:
    """A file of so many constants that share their data."""
    writer = Writer(SCHEMA)
    raw = writer.table("ConstantRawData", data=writer.content(bytes(size)))
    desc = writer.table("ConstantNodeDesc", data_type=("B", 2), data=raw)
    nodes = [
        writer.table(
            "DmlGraphNode",
            desc_type=("B", 2),
            desc=desc,
            name=writer.text(f"c{i}"),
            inputNames=writer.texts([]),
            outputNames=writer.texts([f"t{i}"]),
        )
        for i in range(count)
    ]
    none = writer.texts([])
    table = writer.table("DmlGraphDesc", nodes=writer.references(nodes), graphInputNames=none, graphOutputNames=none)
    return writer.finish(table)


def test_reading_costs_what_the_file_has() -> None:
    """A real graph stays far from the limit on what may be read altogether."""
    chain = [IntermediateEdge(i, 0, i + 1, 0, f"t{i}") for i in range(1999)]
    graph = small_graph(
        nodes=[OperatorNode(dml.operators.ElementWiseIdentity(input_tensor=T, output_tensor=T), "same")] * 2000,
        input_edges=[InputEdge(0, 0, 0, "x")],
        intermediate_edges=chain,
        output_edges=[OutputEdge(1999, 0, 0, "y")],
    )
    data = write_graph(graph)[0]
    assert read_graph(data) == graph
    reader = Reader(data, SCHEMA)
    limit = reader._left
    for node in reader.root("DmlGraphDesc").tables("nodes", "DmlGraphNode"):
        for tensor in (node.table("desc", "OperatorNodeDesc") or node).tables("inputs", "DmlBufferTensorDesc"):
            tensor.numbers("sizes", "I")
    assert limit - reader._left < limit / 2


def with_files(tmp_path: Path, source: str) -> bytes:
    graph = small_graph(nodes=[ConstantNode(bytes(24), "w", source=source), OperatorNode(add(), "add")])
    return write_graph(graph)[0]


@pytest.mark.parametrize("source", ["../secret", "/etc/passwd", "..\\secret", "sub/../../secret", "C:secret"])
def test_constants_stay_in_the_folder(tmp_path: Path, source: str) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(ModelFormatError, match="no file"):
        read_graph(with_files(tmp_path, source), inside)


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "w.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ModelFormatError, match="lies outside the folder"):
        read_graph(with_files(tmp_path, "w"), inside)


def test_constants_larger_than_their_readers_are_refused(tmp_path: Path) -> None:
    data = with_files(tmp_path, "w")
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ModelFormatError, match=r"'w.bin' has 1099511627776 bytes, more than 24"):
        read_graph(data, tmp_path)
    (tmp_path / "w.bin").unlink()
    (tmp_path / "w.bin").write_bytes(bytes(20))
    assert [str(v) for v in validate_graph(read_graph(data, tmp_path))] == [
        "Nodes[0] 'w'.DataSize: must have the size of Nodes[1] 'add'.BTensor, 24 bytes, got 20"
    ]


def file_of(nodes: list[tuple[Operator, list[str], list[str]]], inputs: list[str], outputs: list[str]) -> bytes:
    """A file of nodes with any names of tensors."""
    writer = Writer(SCHEMA)
    written = [
        writer.table(
            "DmlGraphNode",
            desc_type=("B", 1),
            desc=_write_operator(writer, operator),
            name=writer.text("node"),
            inputNames=writer.texts(reads),
            outputNames=writer.texts(gives),
        )
        for operator, reads, gives in nodes
    ]
    names = {"graphInputNames": writer.texts(inputs), "graphOutputNames": writer.texts(outputs)}
    return writer.finish(writer.table("DmlGraphDesc", nodes=writer.references(written), **names))


def test_nodes_may_stand_in_any_order() -> None:
    graph = read_graph(file_of([(SAME, ["t"], ["y"]), (SAME, ["x"], ["t"])], ["x"], ["y"]))
    assert validate_graph(graph) == []
    assert topological_order(graph) == [1, 0]


def test_a_cycle_is_read_and_found_invalid() -> None:
    graph = read_graph(file_of([(SAME, ["t"], ["u"]), (SAME, ["u"], ["t"]), (SAME, ["x"], ["y"])], ["x"], ["y"]))
    assert [v.field for v in validate_graph(graph)] == ["IntermediateEdges"]
    with pytest.raises(InvalidDescriptorError, match="cycle"):
        dml.Device("cpu").compile_graph(graph)


NAMES_THAT_DO_NOT_FIT = [
    (["z"], ["y"], "nothing in the graph gives a tensor 'z'"),
    (["x"], ["x"], "two tensors have the name 'x'"),
    (["x", "x"], ["y"], "expected 1 names of tensors, got 2"),
    ([], ["y"], "there is no name for InputTensor"),
    ([""], ["y"], "expected 0 tensors, got 1"),
    (["x"], [], "there is no name for OutputTensor"),
]


@pytest.mark.parametrize(("reads", "gives", "message"), NAMES_THAT_DO_NOT_FIT)
def test_names_that_do_not_fit(reads: list[str], gives: list[str], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        read_graph(file_of([(SAME, reads, gives)], ["x"], ["y"]))


SAME = dml.operators.ElementWiseIdentity(input_tensor=T, output_tensor=T)


def changed_text(old: str, new: str) -> bytes:
    assert len(old) == len(new)
    return write_graph(small_graph())[0].replace(old.encode(), new.encode())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "ELEMENT_WISE_ADD",
            "ELEMENT_WISE_ADX",
            r"nodes\[1\].desc.type: 'DML_OPERATOR_ELEMENT_WISE_ADX' is not a DML_OP",
        ),
        ("_TYPE_FLOAT32", "_TYPE_FLOAT99", r"nodes\[1\].desc.inputs\[0\].dataType: .* is not a DML_TENSOR_DATA_TYPE"),
    ],
)
def test_unknown_names_are_told(old: str, new: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        read_graph(changed_text(old, new))


# ---- running


@needs_sample
def test_the_sample_computes_what_its_onnx_file_says(tmp_path: Path) -> None:
    folder = SAMPLE.parent / "matmul_add"
    graph = loaded(folder / "Partition_0.bin")
    assert saved_and_loaded(graph) == graph
    program = dml.Device("cpu").compile_graph(graph)
    x = np.random.default_rng(0).standard_normal((1, 1, 1, 5), dtype=np.float32)
    weights = np.fromfile(folder / "matmul_b_tensor.bin", np.float32).reshape(5, 5)
    bias = np.fromfile(folder / "add_b_tensor.bin", np.float32)
    result = program(x)
    np.testing.assert_allclose(result, x @ weights + bias, rtol=1e-6)
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(folder / "matmul_add.onnx", providers=["CPUExecutionProvider"])
    shape = [size if isinstance(size, int) else 1 for size in session.get_inputs()[0].shape]
    expected = session.run(None, {session.get_inputs()[0].name: x.reshape(shape)})[0]
    np.testing.assert_allclose(result.ravel(), expected.ravel(), rtol=1e-6)


def run(*arguments: object) -> tuple[int, str]:
    result = invoke(*arguments)
    return result.exit_code, result.output


@needs_sample
def test_the_sample_model_runs() -> None:
    code, output = run("run", SAMPLE)
    assert code == 0, output
    assert "Resource 'model_output': 12.25, 12.25, 12.25, 12.25, 12.25" in output
    assert run("check", SAMPLE, "--feature-level", "2_1")[0] == 0
    code, output = run("check", SAMPLE, "--feature-level", "2_0")
    assert code == 1
    assert "dispatchables.matmul_add: DML_GRAPH_DESC does not exist at feature level 2_0" in output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model that runs y = x + weights, with x = 1, 2, ... 6."""
    dml.save(small_graph(), tmp_path / "graph.bin")
    (tmp_path / "model.json").write_text(json.dumps(MODEL))
    return tmp_path


MODEL: dict[str, Any] = {
    "resources": {
        "in": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4, 5, 6]},
        "out": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 6, "value": 0}},
    },
    "dispatchables": {"graph": {"type": "dmlSerializedGraph", "sourcePath": "graph.bin", "executionFlags": "NONE"}},
    "commands": [
        {"type": "dispatch", "dispatchable": "graph", "bindings": {"x": "in", "y": "out"}},
        {"type": "print", "resource": "out"},
    ],
}


def test_a_model_runs_a_graph(folder: Path) -> None:
    code, output = run("run", folder / "model.json")
    assert code == 0, output
    assert "Resource 'out': 1, 3, 5, 7, 9, 11" in output


@pytest.mark.parametrize(
    ("bindings", "message"),
    [
        ({"x": "in"}, r"commands\[0\].bindings.y: a resource must be bound to this tensor"),
        ({"x": "in", "y": "out", "z": "in"}, "unknown bind point 'z'"),
        ({"x": "in", "y": "in"}, "y and x are bound to the same bytes|x and y are bound to the same bytes"),
        ({"x": ["in", "in"], "y": "out"}, "1 resources must be bound here, got 2"),
        ({"x": {"name": "in", "elementOffset": 4}, "y": "out"}, "x needs 24 bytes, but 'in' has 8 from offset 16 on"),
    ],
)
def test_bindings_are_checked(folder: Path, bindings: dict[str, Any], message: str) -> None:
    model = dict(MODEL, commands=[dict(MODEL["commands"][0], bindings=bindings)])
    (folder / "model.json").write_text(json.dumps(model))
    code, output = run("check", folder / "model.json")
    assert code == 2
    assert re.search(message, output), output
    assert run("run", folder / "model.json")[0] == 2


def test_damaged_graphs_of_models_are_told(folder: Path) -> None:
    (folder / "graph.bin").write_bytes(b"\xff" * 64)
    code, output = run("run", folder / "model.json")
    assert code == 2
    assert "dispatchables.graph.sourcePath: " in output and "damaged" in output
    (folder / "graph.bin").unlink()
    assert "no file 'graph.bin'" in run("check", folder / "model.json")[1]


def test_a_graph_alone_runs(folder: Path) -> None:
    code, output = run("run", folder / "graph.bin")
    assert code == 0, output
    assert "Resource 'y': 0, 1, 2, 3, 4, 5" in output
    np.save(folder / "x.npy", np.full((1, 1, 2, 3), 10, np.float32))
    assert "Resource 'y': 10, 11, 12, 13, 14, 15" in run("run", folder / "graph.bin")[1]


def test_a_graph_alone_is_checked_and_explained(folder: Path) -> None:
    assert run("check", folder / "graph.bin") == (0, "valid at feature level 6_4: 1 operator\n")
    code, output = run("check", folder / "graph.bin", "--feature-level", "5_0")
    assert code == 1
    assert "Nodes[0] 'weights': must not be a constant at feature level 5_0" in output
    code, output = run("explain", folder / "graph.bin")
    assert code == 0
    assert "Nodes[1] 'add': ELEMENT_WISE_ADD(ATensor=x, BTensor=Nodes[0] 'weights') -> OutputTensor=y" in output


def test_an_invalid_graph_alone_is_checked(folder: Path) -> None:
    (folder / "graph.bin").write_bytes(file_of([(SAME, ["x"], ["t"])], ["x"], ["y"]))
    code, output = run("check", folder / "graph.bin")
    assert code == 1
    assert "Nodes[0] 'node'.OutputTensor: must be connected" in output
    assert run("run", folder / "graph.bin")[0] == 2
