"""Runs of ONNX models on arrays that fit exactly, which take a way of their own: nothing is bound or checked twice."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import opendml as dml
import opendml.compatibility.onnxruntime as runtime
from opendml.formats.onnx.program import OnnxProgram
from opendml.programs import binding
from opendml.programs import program as programs
from opendml.targets.cpu.runtime import array_calls
from opendml.targets.interface import runner_of

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
TYPES = onnx.TensorProto
Array = np.ndarray[Any, Any]
node = helper.make_node


def info(name: str, sizes: Any, element: int = TYPES.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, sizes)


def file_of(nodes: Any, inputs: Any, outputs: Any, **weights: Array) -> bytes:
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    data: bytes = model.SerializeToString()
    return data


def mixed(first: int | str = 2) -> bytes:
    """Several outputs, bools, no dimensions, a constant too large for a node, temporaries, what is known."""
    nodes = [
        node("MatMul", ["x", "w"], ["p"]),
        node("Softmax", ["p"], ["y"], axis=1),
        node("MatMul", ["y", "w"], ["z"]),
        node("Not", ["flag"], ["not"]),
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Shape", ["w"], ["shape"]),
    ]
    inputs = [info("x", [first, 40]), info("flag", [], TYPES.BOOL)]
    outputs = [info("shape", [2], TYPES.INT64), info("z", [first, 40]), info("not", [], TYPES.BOOL), info("s", [])]
    weights = np.random.default_rng(0).standard_normal((40, 40)).astype("f")
    return file_of(nodes, inputs, outputs, w=weights)


def feed(rows: int = 2) -> dict[str, Array]:
    return {"x": np.random.default_rng(rows).standard_normal((rows, 40)).astype("f"), "flag": np.array(True)}


def loaded(file: bytes) -> dml.OnnxModel:
    model = dml.load(file)
    assert isinstance(model, dml.OnnxModel)
    return model


def slowly(program: OnnxProgram, arrays: dict[str, Array]) -> dict[str, Array]:
    """By arrays that are bound."""
    bound = program.bind(arrays)
    bound()
    return bound.results


@pytest.fixture(name="binds")
def _binds(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Something for every time that arrays are bound."""
    found: list[object] = []
    usual = binding.bind_all

    def bind_all(*arguments: Any) -> Any:
        found.append(None)
        return usual(*arguments)

    monkeypatch.setattr(programs, "bind_all", bind_all)
    return found


@pytest.mark.parametrize("device", ["cpu", "reference", "opencl"])
def test_results_are_those_of_bound_arrays(device: str) -> None:
    try:
        program = loaded(mixed()).compile(dml.Device(device))
    except dml.ConfigurationError as error:
        pytest.skip(str(error))
    quick, expected = program.run_quickly(feed()), slowly(program, feed())
    assert quick is not None
    for found, info in zip(quick, program.outputs, strict=True):
        wanted = expected[info.name]
        assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


def test_nothing_is_bound_when_sizes_are_known(binds: list[object]) -> None:
    session = runtime.InferenceSession(mixed())
    binds.clear()
    results = session.run(None, feed())
    assert not binds
    expected = session.run(["s", "z"], feed())
    np.testing.assert_array_equal(results[1], expected[1])
    assert results[3].shape == ()
    assert results[2].dtype == np.bool_


def test_nothing_is_bound_when_sizes_come_again(binds: list[object]) -> None:
    session, model = runtime.InferenceSession(mixed("rows")), loaded(mixed("rows"))
    for run in (lambda rows: session.run(None, feed(rows)), lambda rows: [*model.run(feed(rows)).values()]):
        first = [run(rows) for rows in (2, 3)]
        binds.clear()
        np.testing.assert_array_equal(run(3)[1], first[1][1])
        assert not binds
        np.testing.assert_array_equal(run(2)[1], first[0][1])


def test_results_are_new_arrays() -> None:
    session = runtime.InferenceSession(mixed())
    results = [session.run(None, feed()) for _ in range(3)]
    for first, second, third in zip(*results, strict=True):
        assert not np.shares_memory(first, second) and not np.shares_memory(second, third)
    known = results[0][0]
    known[:] = 0
    assert session.run(None, feed())[0].tolist() == [40, 40]


def test_other_arrays_are_converted_or_refused() -> None:
    """Strided ones, ones that are not aligned, subclasses; wrong types and sizes."""
    program = loaded(mixed()).compile()
    x, flag = feed().values()
    expected = program.run(feed())["z"]
    wide = np.zeros((2, 80), "f")
    wide[:, ::2] = x
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view("f").reshape(x.shape)
    unaligned[...] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    for other in (wide[:, ::2], unaligned, x.view(np.matrix), np.asfortranarray(x)):
        assert program.run_quickly({"x": other, "flag": flag}) is None
        np.testing.assert_array_equal(program.run({"x": other, "flag": flag})["z"], expected)
    found = program.run_quickly({"x": fixed, "flag": flag})
    assert found is not None
    np.testing.assert_array_equal(found[1], expected)
    for name, array in (("x", x[:1]), ("x", x.astype("d")), ("x", x.astype(">f4")), ("flag", np.array(1, np.uint8))):
        with pytest.raises(dml.BindingError, match=f"^'{name}': expected"):
            program.run(feed() | {name: array})
    with pytest.raises(dml.BindingError, match="unexpectedly"):
        program.run(feed() | {"other": x})


def test_values_are_compared() -> None:
    nodes = [node("Range", ["start", "end", "step"], ["r"]), node("Add", ["x", "r"], ["y"])]
    inputs = [info("x", [1]), *(info(name, []) for name in ("start", "end", "step"))]
    session = runtime.InferenceSession(file_of(nodes, inputs, [info("y", None)]))
    for end in (3, 3, 5, 3, 5):
        values = dict(zip(("start", "end", "step"), np.array([0, end, 1], "f"), strict=True))
        arrays = {name: np.array(value) for name, value in values.items()}
        (found,) = session.run(None, {"x": np.ones(1, "f"), **arrays})
        assert found.tolist() == [*range(1, end + 1)]


def test_values_that_are_left_out_are_those_it_was_compiled_for() -> None:
    nodes = [node("Range", ["start", "end", "step"], ["r"]), node("Add", ["x", "r"], ["y"])]
    inputs = [info("x", [1]), *(info(name, []) for name in ("start", "end", "step"))]
    values = {name: np.array(value, "f") for name, value in (("start", 0), ("end", 3), ("step", 1))}
    program = loaded(file_of(nodes, inputs, [info("y", None)])).compile(values=values)
    x = {"x": np.ones(1, "f")}
    for given in (x, x | {"end": values["end"]}, x | values):
        found = program.run_quickly(given, values_given=False)
        assert found is not None
        assert found[0].tolist() == [1, 2, 3]
    for wrong in ({}, x | {"other": values["end"]}, x | {"end": values["step"]}, values):
        assert program.run_quickly(wrong, values_given=False) is None
        with pytest.raises(dml.BindingError):
            program.run(wrong)


@pytest.mark.parametrize("kind", ["model", "session"])
def test_values_of_an_earlier_run_take_no_part(kind: str) -> None:
    """A program that was compiled for some, when it met them, is not what runs where they are left out."""
    inputs = [info("x", [2, 3]), info("repeats", [2], TYPES.INT64)]
    file = file_of([node("Tile", ["x", "repeats"], ["y"])], inputs, [info("y", None)])
    session = runtime.InferenceSession(file)
    run = loaded(file).run if kind == "model" else lambda arrays: session.run(None, arrays)
    x = {"x": np.ones((2, 3), "f")}
    for _ in range(2):
        run(x | {"repeats": np.array([3, 2])})
        with pytest.raises((dml.BindingError, ValueError), match="repeats"):
            run(x)


def test_many_inputs_and_several_threads() -> None:
    """More inputs than functions on arrays take; every thread has temporaries of its own."""
    names = [f"x{i}" for i in range(20)]
    nodes = [node("Sum", names, ["s"]), node("Softmax", ["s"], ["y"], axis=0), node("CumSum", ["y", "axis"], ["z"])]
    axis = np.array(0, np.int64)
    outputs = [info("y", [3000]), info("z", [3000])]
    program = loaded(file_of(nodes, [info(n, [3000]) for n in names], outputs, axis=axis)).compile()
    arrays = {name: np.random.default_rng(i).standard_normal(3000).astype("f") for i, name in enumerate(names)}
    expected, wrong = slowly(program, arrays), []

    def work() -> None:
        for _ in range(20):
            results = program.run_quickly(arrays)
            if results is None or any((r != e).any() for r, e in zip(results, expected.values(), strict=True)):
                wrong.append(results)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_without_native_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where arrays are not as NumPy's usually are, dispatches do the same."""
    monkeypatch.setattr("opendml.targets.cpu.runtime.executable.data_offset", lambda: None)
    program = loaded(mixed()).compile()
    np.testing.assert_array_equal(program.run(feed())["z"], slowly(program, feed())["z"])


def test_a_wrong_number_of_arrays_runs_nothing() -> None:
    desc = dml.TensorDesc("FLOAT32", [4])
    program = dml.Device().compile(dml.operators.ActivationRelu(input_tensor=desc, output_tensor=desc))
    run = runner_of(program.executable, [None], [0], 1)
    x, y = np.arange(-2, 2, dtype="f"), np.full(4, 7, "f")
    run(x)
    assert y.tolist() == [7] * 4
    run(x, y)
    assert y.tolist() == [0, 0, 0, 1]
    assert array_calls.table_call([0] * 4, [], [0])() == -1
