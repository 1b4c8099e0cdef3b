"""Loops of ONNX models whose rounds are not known before they run: driven from the host, in programs for the parts."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import opendml as dml
import opendml.compatibility.onnxruntime as runtime
from opendml.formats.onnx import model as model_module

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
TYPES = onnx.TensorProto
Array = np.ndarray[Any, Any]
node = helper.make_node


def info(name: str, sizes: Any, element: int = TYPES.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, sizes)


def graph_of(name: str, nodes: Sequence[Any], inputs: Any, outputs: Any, **weights: Array) -> Any:
    return helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(w, n) for n, w in weights.items()])


def file_of(graph: Any) -> bytes:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model.SerializeToString()  # type: ignore[no-any-return]


def halving(inner: Sequence[Any] = (), behind: Sequence[Any] = ()) -> bytes:
    """Halves ``x * scale`` until its sum is at most 1, at most ``count`` times; all that it was is stacked."""
    body = graph_of(
        "body",
        [
            node("Mul", ["state", "half"], ["next"]),
            node("ReduceSum", ["next"], ["sum"], keepdims=0),
            node("Greater", ["sum", "one"], ["goes_on"]),
            node("Add", ["state", "shift"], ["seen"]),
            *inner,
        ],
        [info("round", [], TYPES.INT64), info("was", [], TYPES.BOOL), info("state", [3])],
        [info("goes_on", [], TYPES.BOOL), info("next", [3]), info("seen", [3])],
        half=np.array(0.5, "f"),
    )
    graph = graph_of(
        "main",
        [
            node("Mul", ["x", "scale"], ["scaled"]),
            node("Loop", ["count", "", "scaled"], ["last", "all"], body=body, name="loop"),
            node("Add", ["last", "one"], ["y"]),
            node("ReduceSum", ["all", "axis"], ["total"], keepdims=0),
            *behind,
        ],
        [info("x", [3]), info("shift", [3]), info("count", [], TYPES.INT64)],
        [info("y", [3]), info("all", ["rounds", 3]), info("total", [3])],
        scale=np.array(2, "f"),
        one=np.array(1, "f"),
        axis=np.array([0], np.int64),
    )
    return file_of(graph)


def expected_of(x: Array, shift: Array, count: int) -> tuple[Array, Array, Array]:
    state, seen = x * 2, []
    for _ in range(count):
        seen.append(state + shift)
        state = state * np.float32(0.5)
        if not state.sum() > 1:
            break
    stacked = np.array(seen, "f").reshape(-1, 3)
    return state + 1, stacked, stacked.sum(0)


def feed(size: float, count: int) -> dict[str, Array]:
    return {"x": np.full(3, size, "f"), "shift": np.arange(3, dtype="f"), "count": np.array(count, np.int64)}


def test_rounds_follow_from_values() -> None:
    model = dml.load(halving())
    assert isinstance(model, dml.OnnxModel)
    program = model.compile()
    session = runtime.InferenceSession(halving())
    for size, count in ((1, 9), (100, 9), (100, 3), (0.1, 9), (7, 9)):
        given = feed(size, count)
        expected = expected_of(given["x"], given["shift"], count)
        for results in (program.run(given).values(), model.run(given).values(), session.run(None, given)):
            for found, wanted in zip(results, expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert program.run_quickly(feed(1, 1)) is None
    with pytest.raises(dml.BindingError, match="driven from the host"):
        program.bind(feed(1, 1))
    with pytest.raises(dml.NotPicklableError, match="driven from the host"):
        pickle.dumps(program)


def test_threads_take_turns() -> None:
    model = dml.load(halving())
    assert isinstance(model, dml.OnnxModel)
    program, results = model.compile(), dict[int, int]()

    def work(count: int) -> None:
        results[count] = len(program.run(feed(1e6, count))["all"])

    threads = [threading.Thread(target=work, args=(count,)) for count in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {count: count for count in range(1, 5)}


def test_other_arrays_are_refused() -> None:
    model = dml.load(halving())
    assert isinstance(model, dml.OnnxModel)
    program = model.compile()
    with pytest.raises(dml.BindingError, match=r"^'x': expected float32"):
        program.run(feed(1, 1) | {"x": np.zeros(4, "f")})


def test_no_rounds_give_nothing() -> None:
    model = dml.load(halving())
    assert isinstance(model, dml.OnnxModel)
    results = model.compile().run(feed(1, 0))
    assert results["all"].shape == (0, 3)
    assert results["y"].tolist() == [3] * 3
    assert results["total"].tolist() == [0] * 3


def test_the_body_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rounds there are, whatever their values: three parts, three translations."""
    translations: list[object] = []
    usual = model_module.Translation

    def translation(*arguments: Any) -> Any:
        translations.append(None)
        return usual(*arguments)

    monkeypatch.setenv("OPENDML_CACHE", "0")
    monkeypatch.setattr(model_module, "Translation", translation)
    model = dml.load(halving())
    assert isinstance(model, dml.OnnxModel)
    program = model.compile()
    program.run(feed(1e6, 20))
    translations.clear()
    results = program.run(feed(2e6, 20))
    assert len(results["all"]) == 20
    assert not translations


def test_all_nodes_without_an_expression_are_named() -> None:
    """Inside of the loop and behind it, before anything runs."""
    inner, behind = node("NonZero", ["state"], ["where"], name="inner"), node("Det", ["all"], ["d"], name="behind")
    model = dml.load(halving([inner], [behind]))
    assert isinstance(model, dml.OnnxModel)
    with pytest.raises(dml.ModelFormatError) as error:
        model.compile()
    places = [problem.path for problem in error.value.problems]
    assert [place for place in places if place != "Loop 'loop'"] == ["NonZero 'inner'", "Det 'behind'"]


def test_more_rounds_than_are_unrolled() -> None:
    body = graph_of(
        "body",
        [node("Add", ["state", "one"], ["next"]), node("Identity", ["was"], ["goes_on"])],
        [info("round", [], TYPES.INT64), info("was", [], TYPES.BOOL), info("state", [2])],
        [info("goes_on", [], TYPES.BOOL), info("next", [2])],
        one=np.ones((), "f"),
    )
    nodes = [node("Loop", ["count", "", "x"], ["y"], body=body)]
    file = file_of(graph_of("main", nodes, [info("x", [2])], [info("y", [2])], count=np.array(1500, np.int64)))
    model = dml.load(file)
    assert isinstance(model, dml.OnnxModel)
    assert model.run({"x": np.array([0, 1], "f")})["y"].tolist() == [1500, 1501]


def test_loops_behind_loops_and_inside_of_them() -> None:
    """The trip count of the second is what the first one has computed; the body has a loop that is unrolled."""
    inside = graph_of(
        "inside",
        [node("Add", ["s", "one"], ["t"]), node("Identity", ["w"], ["v"])],
        [info("i", [], TYPES.INT64), info("w", [], TYPES.BOOL), info("s", [])],
        [info("v", [], TYPES.BOOL), info("t", [])],
    )
    body = graph_of(
        "body",
        [
            node("Loop", ["two", "", "state"], ["next"], body=inside),
            node("Less", ["next", "limit"], ["goes_on"]),
        ],
        [info("round", [], TYPES.INT64), info("was", [], TYPES.BOOL), info("state", [])],
        [info("goes_on", [], TYPES.BOOL), info("next", [])],
        two=np.array(2, np.int64),
    )
    again = helper.make_graph(body.node, "again", body.input, body.output, body.initializer)
    nodes = [
        node("Loop", ["", "", "zero"], ["first"], body=body),
        node("Mul", ["limit", "limit"], ["wide"]),
        node("Cast", ["first"], ["count"], to=TYPES.INT64),
        node("Loop", ["count", "", "first"], ["y"], body=again),
    ]
    graph = graph_of("main", nodes, [info("limit", [])], [info("y", [])], zero=np.zeros((), "f"), one=np.ones((), "f"))
    model = dml.load(file_of(graph))
    assert isinstance(model, dml.OnnxModel)
    for limit, wanted in ((5.0, 8.0), (1.0, 4.0), (10.5, 14.0)):
        assert model.compile().run({"limit": np.array(limit, "f")})["y"] == wanted
