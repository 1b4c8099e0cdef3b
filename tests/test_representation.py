"""What objects say about themselves, in one line."""

from __future__ import annotations

import numpy as np
import pytest

import opendml as dml

TENSOR = dml.TensorDesc("float32", [2, 3])
ADD = dml.operators.ElementWiseAdd(a_tensor=TENSOR, b_tensor=TENSOR, output_tensor=TENSOR)
X = np.ones((2, 3), np.float32)


def test_programs_say_what_they_compute_and_take() -> None:
    program = dml.Device(thread_count=1).compile(ADD)
    text = "(ATensor float32 [2, 3], BTensor float32 [2, 3]) -> (OutputTensor float32 [2, 3])"
    assert repr(program) == f"<Program ELEMENT_WISE_ADD {text}, 1 thread>"
    assert repr(program.bind([X, X], [X.copy()])) == f"<BoundCall of {program!r}>"


def test_graphs_say_what_they_take_and_what_they_wait_for() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [2, 3], name="x")
    program = graph.compile({"y": x + 1})
    text = "of 2 nodes (x float32 [2, 3]) -> (y float32 [2, 3])"
    assert repr(program) == f"<GraphProgram {text}>"
    assert repr(program.program) == f"<CompiledGraph {text}>"
    assert repr(program.bind(X)).startswith("<BoundGraph of <BoundCall of <Program a part of a graph (x float32")
    waiting = graph.compile(x * graph.input("float32", [2, 3], name="w", owned_by_dml=True))
    assert repr(waiting).endswith(", to be initialized with w>")
    assert repr(waiting.program).endswith(", to be initialized with w>")
    assert repr(x) == "GraphTensor('float32', [2, 3])"
    assert "inputs (x, w), 2 nodes" in repr(graph)


def test_many_tensors_are_cut_short() -> None:
    join = dml.operators.Join(input_tensors=[TENSOR] * 9, output_tensor=dml.TensorDesc("float32", [18, 3]), axis=0)
    assert "InputTensors[3] float32 [2, 3], 5 more) ->" in repr(dml.Device().compile(join))


def test_the_catalogue_says_what_it_has() -> None:
    names = list(dml.catalogue)
    assert repr(dml.catalogue) == f"<Catalogue of {len(names)} operators: {names[0]}, {names[1]} ... {names[-1]}>"
    entry = dml.catalogue["SLICE1"]
    assert repr(entry).startswith(
        "<SLICE1, from feature level 2_1 on: InputTensor, OutputTensor, DimensionCount, Input"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (dml.FeatureLevel.LEVEL_3_0, "FeatureLevel.LEVEL_3_0"),
        (dml.TensorDataType.FLOAT32, "TensorDataType.FLOAT32"),
        (dml.Device("cpu", feature_level="3_0"), "Device('cpu', feature_level='3_0')"),
        (dml.Device(thread_count=2), "Device('cpu', feature_level='6_4', thread_count=2)"),
    ],
)
def test_values_are_shown_as_they_are_written(value: object, text: str) -> None:
    assert repr(value) == text
