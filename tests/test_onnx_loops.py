"""Nodes of ONNX models that no graph has, loops whose rounds are not known before they run, for example: driven from
the host, in programs for the parts."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opendml as dml
import opendml.compatibility.onnxruntime as runtime
from opendml.command_line import main
from opendml.formats.onnx import translation as translation_module
from opendml.formats.onnx.operators import control
from opendml.inspection.profiling import StagedProfile

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
    data: bytes = model.SerializeToString()
    return data


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
    usual = translation_module.Translation

    def translation(*arguments: Any) -> Any:
        translations.append(None)
        return usual(*arguments)

    monkeypatch.setenv("OPENDML_CACHE", "0")
    monkeypatch.setattr(translation_module, "Translation", translation)
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


@pytest.mark.parametrize("rounds", [1 << 62, 1 << 40])
def test_rounds_whose_results_memory_has_no_room_for(rounds: int) -> None:
    def loop(ends: bool) -> dml.OnnxModel:
        """Stacks its state, which grows by 1, in each round; one that ends does so before its second round."""
        going = node("Less", ["state", "one"], ["goes_on"]) if ends else node("Identity", ["was"], ["goes_on"])
        body = graph_of(
            "body",
            [node("Add", ["state", "one"], ["next"]), going, node("Identity", ["next"], ["seen"])],
            [info("round", [], TYPES.INT64), info("was", [], TYPES.BOOL), info("state", [])],
            [info("goes_on", [], TYPES.BOOL), info("next", []), info("seen", [])],
            one=np.ones((), "f"),
        )
        nodes = [node("Loop", ["count", "", "x"], ["y", "all"], body=body, name="counting")]
        outputs = [info("y", []), info("all", ["rounds"])]
        graph = graph_of("main", nodes, [info("x", []), info("count", [], TYPES.INT64)], outputs)
        model = dml.load(file_of(graph))
        assert isinstance(model, dml.OnnxModel)
        return model

    given = {"x": np.array(1, "f"), "count": np.array(rounds, np.int64)}
    with pytest.raises(dml.OutOfMemoryError, match=f"Loop 'counting': what its {rounds} rounds give takes"):
        loop(ends=False).run(given)
    assert loop(ends=True).run(given)["all"].tolist() == [2]


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


def counting(name: str, states: str = "s") -> Any:
    """Adds ``one`` to a state until it is not less than ``limit``; both are names around it."""
    return graph_of(
        name,
        [node("Add", [states, "one"], ["t"]), node("Less", ["t", "limit"], ["v"])],
        [info("i", [], TYPES.INT64), info("w", [], TYPES.BOOL), info(states, [])],
        [info("v", [], TYPES.BOOL), info("t", [])],
    )


def run_of(graph: Any, given: dict[str, Array], **functions: Any) -> list[Array]:
    """What a model gives, compiled and run at once the same, and as ONNX Runtime has it."""
    model = helper.make_model(
        graph, opset_imports=functions.pop("imports", [helper.make_opsetid("", 18)]), ir_version=9, **functions
    ).SerializeToString()
    loaded = dml.load(model)
    assert isinstance(loaded, dml.OnnxModel)
    sizes = {name: array.shape for name, array in given.items()}
    found = [*loaded.compile(sizes=sizes).run(given).values()]
    for one, other in zip(found, loaded.run(given).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for one, other in zip(found, session.run(None, given), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-6)
    return found


@pytest.mark.parametrize("limit", [0.5, 3.0])
def test_loops_in_branches(limit: float) -> None:
    """Of a condition that is computed: one branch has a loop, the other one other sizes."""
    loop = graph_of("t", [node("Loop", ["", "", "zero"], ["last"], body=counting("b"))], [], [info("last", [])])
    other = graph_of("e", [node("Add", ["x", "limit"], ["more"])], [], [info("more", [2])])
    nodes = [
        node("Greater", ["limit", "one"], ["c"]),
        node("If", ["c"], ["y"], then_branch=loop, else_branch=other, name="if"),
        node("Mul", ["y", "limit"], ["z"]),
    ]
    graph = graph_of(
        "main",
        nodes,
        [info("x", [2]), info("limit", [])],
        [info("z", None)],
        zero=np.zeros((), "f"),
        one=np.ones((), "f"),
    )
    (found,) = run_of(graph, {"x": np.array([1, 2], "f"), "limit": np.array(limit, "f")})
    assert found.shape == (() if limit > 1 else (2,))


def test_loops_in_unrolled_loops() -> None:
    """The outer one has three rounds, those of the inner one follow from what is carried; and in a function."""
    body = graph_of(
        "outer",
        [
            node("Loop", ["", "", "state"], ["up"], body=counting("inner"), name="inner"),
            node("Sub", ["up", "one"], ["next"]),
            node("Identity", ["was"], ["goes_on"]),
        ],
        [info("round", [], TYPES.INT64), info("was", [], TYPES.BOOL), info("state", [])],
        [info("goes_on", [], TYPES.BOOL), info("next", []), info("up", [])],
    )
    nodes = [node("Loop", ["three", "", "zero"], ["y", "all"], body=body, name="outer")]
    weights = {"three": np.array(3, np.int64), "zero": np.zeros((), "f"), "one": np.ones((), "f")}
    outputs = [info("y", []), info("all", [3])]
    given = {"limit": np.array(4.5, "f")}
    run_of(graph_of("main", nodes, [info("limit", [])], outputs, **weights), given)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("of.mine", 1)]
    constants = [node("Constant", [], [name], value=numpy_helper.from_array(w, name)) for name, w in weights.items()]
    function = helper.make_function("of.mine", "F", ["limit"], ["y", "all"], [*constants, *nodes], imports)
    call = node("F", ["limit"], ["y", "all"], domain="of.mine")
    graph = graph_of("main", [call], [info("limit", [])], outputs)
    run_of(graph, given, imports=imports, functions=[function])


@pytest.mark.parametrize("version", [8, 18])
@pytest.mark.parametrize("backwards", [0, 1])
def test_long_scans(version: int, backwards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rounds than are unrolled, along other axes and backwards; below version 9 for every batch."""
    monkeypatch.setattr(control, "LONGEST", 4)
    body = graph_of(
        "body",
        [node("Add", ["s", "e"], ["t"]), node("Mul", ["t", "two"], ["seen"])],
        [info("s", [2]), info("e", [2])],
        [info("t", [2]), info("seen", [2])],
        two=np.array([2, 3], "f"),
    )
    old = version < 9
    attributes = {"directions": [backwards]} if old else {"scan_input_directions": [backwards]}
    attributes |= (
        {} if old else {"scan_input_axes": [1], "scan_output_axes": [1], "scan_output_directions": [backwards]}
    )
    inputs = ["", "s", "x"] if old else ["s", "x"]
    nodes = [node("Scan", inputs, ["y", "all"], body=body, num_scan_inputs=1, **attributes)]
    sizes = ([3, 2], [3, 6, 2]) if old else ([2], [2, 6])
    graph = graph_of("main", nodes, [info("s", sizes[0]), info("x", sizes[1])], [info("y", None), info("all", None)])
    random = np.random.default_rng(3)
    given = {"s": random.standard_normal(sizes[0]).astype("f"), "x": random.standard_normal(sizes[1]).astype("f")}
    run_of(graph, given, imports=[helper.make_opsetid("", version)])


@pytest.mark.parametrize("rounds", [2, 30])
def test_rounds_of_too_many_nodes(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph has no more nodes than it may; the host runs the rounds instead."""
    monkeypatch.setattr(control, "MOST_NODES", 20)
    body = graph_of(
        "body",
        [node("Add", ["s", "one"], ["t"]), node("Identity", ["w"], ["v"])],
        [info("i", [], TYPES.INT64), info("w", [], TYPES.BOOL), info("s", [2])],
        [info("v", [], TYPES.BOOL), info("t", [2])],
    )
    nodes = [node("Loop", ["count", "", "x"], ["y"], body=body)]
    weights = {"count": np.array(rounds, np.int64), "one": np.ones((), "f")}
    model = dml.load(file_of(graph_of("main", nodes, [info("x", [2])], [info("y", [2])], **weights)))
    assert isinstance(model, dml.OnnxModel)
    program = model.compile()
    assert (program.program is None) == (rounds > 2)
    assert program.run({"x": np.array([0, 1], "f")})["y"].tolist() == [rounds, rounds + 1]


def test_all_nodes_inside_of_one_another_are_named() -> None:
    """In a loop of a branch, in the other branch, and behind; the node that the host would drive is among them."""
    body = counting("b")
    body.node.append(node("NonZero", ["s"], ["where"], name="deep"))
    loop = graph_of("t", [node("Loop", ["", "", "zero"], ["last"], body=body, name="loop")], [], [info("last", [])])
    other = graph_of("e", [node("Det", ["x"], ["d"], name="beside")], [], [info("d", [])])
    nodes = [
        node("Greater", ["limit", "one"], ["c"]),
        node("If", ["c"], ["y"], then_branch=loop, else_branch=other, name="if"),
        node("TfIdfVectorizer", ["y"], ["z"], name="behind"),
    ]
    weights = {"zero": np.zeros((), "f"), "one": np.ones((), "f")}
    graph = graph_of("main", nodes, [info("x", [2, 2]), info("limit", [])], [info("z", None)], **weights)
    model = dml.load(file_of(graph))
    assert isinstance(model, dml.OnnxModel)
    with pytest.raises(dml.ModelFormatError) as error:
        model.compile()
    places = {problem.path for problem in error.value.problems}
    assert places == {"NonZero 'deep'", "Det 'beside'", "TfIdfVectorizer 'behind'", "If 'if'"}


def test_conditions_that_would_spare_a_branch_are_named() -> None:
    """Nodes of one branch have no expression, the other one would do: whose value decides is said."""
    spared = graph_of("t", [node("Det", ["x"], ["d"], name="spared")], [], [info("d", [])])
    taken = graph_of("e", [node("ReduceSum", ["x"], ["sum"], keepdims=0)], [], [info("sum", [])])
    nodes = [node("If", ["c"], ["y"], then_branch=spared, else_branch=taken, name="if")]
    graph = graph_of("main", nodes, [info("x", [2, 2]), info("c", [], TYPES.BOOL)], [info("y", [])])
    model = dml.load(file_of(graph))
    assert isinstance(model, dml.OnnxModel)
    with pytest.raises(
        dml.ModelFormatError, match=r"condition is not known \(inputs c: values={'c': 1}, for example\)"
    ):
        model.compile()
    program = model.compile(values={"c": False})
    assert program.run({"x": np.ones((2, 2), "f")})["y"] == 4


# ---- explained and profiled

ARRAYS = {"x": np.array([3, 4, 5], "f"), "shift": np.ones(3, "f"), "count": np.array(9)}


def test_programs_in_parts_are_profiled() -> None:
    """Each part by itself, with the model's nodes, and how often it ran."""
    model = dml.load(halving())
    assert isinstance(model, dml.OnnxModel)
    found = dml.profile(model.compile(), ARRAYS, seconds=0)
    assert isinstance(found, StagedProfile)
    rounds = len(expected_of(ARRAYS["x"], ARRAYS["shift"], 9)[1])
    places = ["before Loop 'loop'", "body of Loop 'loop'", "behind Loop 'loop'"]
    assert [(part.title, count) for part, count in zip(found.parts, found.counts, strict=True)] == list(
        zip(places, [1, rounds, 1], strict=True)
    )
    names = [name for kernel in found.kernels for name in kernel.nodes]
    assert {"Mul", "Add", "ReduceSum", "Greater"} <= {*names}
    assert [kernel.number for kernel in found.kernels] == list(range(len(found.kernels)))
    sums = [kernel for kernel in found.kernels if "Greater" in kernel.nodes]
    (alone,) = (kernel for kernel in found.parts[1].kernels if "Greater" in kernel.nodes)
    assert [(one.repetitions, one.bytes) for one in sums] == [(rounds, rounds * alone.bytes)]
    assert f"body of Loop 'loop': {rounds} x " in str(found)


def test_profiles_of_programs_in_parts_are_saved(tmp_path: Path) -> None:
    model = dml.load(halving())
    assert isinstance(model, dml.OnnxModel)
    found = dml.profile(model.compile(), **ARRAYS, seconds=0)
    found.save_page(tmp_path / "page.html")
    found.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {one["args"]["name"] for one in events if one["name"] == "process_name"} == {
        f"{place} Loop 'loop'" for place in ("before", "body of", "behind")
    }
    assert (tmp_path / "page.html").read_text().count("<section") >= 3


def test_programs_in_parts_are_explained() -> None:
    """What has run: sizes are known then. Parts of parts have their own places."""
    model = dml.load(halving())
    assert isinstance(model, dml.OnnxModel)
    program = model.compile()
    assert "run the program first" in dml.explain(program)
    program.run(ARRAYS)
    explained = dml.explain(program)
    assert "# before Loop 'loop'\n\nGraph" in explained
    assert "# body of Loop 'loop'\n\nGraph" in explained
    assert "# behind Loop 'loop'\n\nGraph" in explained


@pytest.mark.parametrize("command", ["profile", "explain"])
def test_the_commands_show_programs_in_parts(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnx").write_bytes(halving())
    np.save(tmp_path / "count.npy", ARRAYS["count"])
    np.save(tmp_path / "x.npy", ARRAYS["x"])
    options = ["-t", "0"] if command == "profile" else []
    assert main([command, str(tmp_path / "m.onnx"), *options]) == 0
    shown = capsys.readouterr()
    assert all(f"# {place} Loop 'loop'" in shown.out for place in ("before", "body of", "behind"))
    (tmp_path / "other.onnx").write_bytes(halving(behind=[node("Det", ["all"], ["d"], name="behind")]))
    assert main([command, str(tmp_path / "other.onnx"), *options]) == 2
    assert "Det 'behind': DirectML has no determinants" in capsys.readouterr().err


def test_parts_have_the_flags_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    compile_graph = dml.Device.compile_graph

    def noted(self: dml.Device, *given: Any, execution_flags: Any, **named: Any) -> Any:
        asked.append(execution_flags)
        return compile_graph(self, *given, execution_flags=execution_flags, **named)

    monkeypatch.setattr(dml.Device, "compile_graph", noted)
    model = dml.load(halving())
    assert isinstance(model, dml.OnnxModel)
    flags = dml.ExecutionFlags.DISABLE_META_COMMANDS
    model.compile(dml.Device("reference"), execution_flags=flags).run(ARRAYS)
    assert asked == [flags] * 3


def test_models_that_run_but_have_no_graph_are_told_from_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.onnx").write_bytes(halving())
    assert main(["check", str(tmp_path / "m.onnx")]) == 2
    said = (
        "Loop 'loop': it is driven from the host when the model is run, and part of no graph: the values of its input 0"
    )
    assert said in capsys.readouterr().out
    assert main(["run", str(tmp_path / "m.onnx"), "--value", "count=2"]) == 0
    capsys.readouterr()
    (tmp_path / "m.onnx").write_bytes(halving(behind=[node("Det", ["x"], ["d"], name="behind")]))
    assert main(["check", str(tmp_path / "m.onnx")]) == 2
    assert "driven from the host" not in capsys.readouterr().out
