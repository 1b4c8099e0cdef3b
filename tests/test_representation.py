"""What objects say about themselves, in one line."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

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


# ---- notebooks


class _Checker(HTMLParser):
    """Tags are closed in order, and none of them runs or fetches anything."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.rows = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "pre"}
        assert {name for name, _ in attrs} <= {"style", "colspan"}
        assert not any("color" in (value or "") or "url" in (value or "") for _, value in attrs)
        self.open.append(tag)
        self.rows += tag == "tr"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _shown(value: Any) -> tuple[str, int]:
    """The text of what a notebook shows, and the number of rows."""
    checker = _Checker()
    checker.feed(value._repr_html_())
    checker.close()
    assert not checker.open
    return " ".join(checker.text), checker.rows


HOSTILE = "<script>alert(1)</script>&\x1b[31m"


def _hostile_graph() -> tuple[dml.Graph, dml.GraphTensor]:
    graph = dml.Graph()
    x = graph.input("float32", [2, 3], name=HOSTILE)
    with graph.scope(HOSTILE):
        return graph, x + 1


def test_notebooks_show_graphs() -> None:
    graph, y = _hostile_graph()
    desc = graph.describe({HOSTILE: y})
    program = graph.compile({HOSTILE: y})
    for value in (graph, desc, program, program.program):
        text, rows = _shown(value)
        assert "<script>alert(1)</script>&\N{REPLACEMENT CHARACTER}[31m" in text
        assert "ELEMENT_WISE_ADD" in text
        assert rows >= 2


def test_notebooks_show_graphs_that_make_no_sense() -> None:
    nonsense: Any = ["node", None]
    graph = dml.GraphDesc(
        input_count=1, output_count=1, nodes=nonsense, input_edges=[dml.InputEdge(7, 9, 9)], input_names=["a"]
    )
    assert _shown(graph)[1] == 3


def test_notebooks_show_the_catalogue() -> None:
    text, rows = _shown(dml.catalogue)
    assert rows == len(dml.catalogue) + 1
    assert dml.catalogue["SLICE1"].summary in text
    text, rows = _shown(dml.catalogue["SLICE1"])
    assert rows == 7
    assert "input_window_strides INT[DimensionCount] attribute no" in text


def test_notebooks_show_explanations_and_profiles() -> None:
    text, _ = _shown(dml.explain(ADD))
    assert text == dml.explain(ADD)
    _, y = _hostile_graph()
    profile = dml.profile(y.graph.compile(y), X, seconds=0)
    text, rows = _shown(profile)
    assert rows == len(profile.kernels) + 1
    assert "1 kernel" in text


def test_long_tables_are_cut() -> None:
    graph = dml.Graph()
    y = graph.input("float32", [2])
    for _ in range(210):
        y = y + 1
    assert "and 10 more" in _shown(graph)[0]
