"""Inputs and outputs of programs of graphs: by position and name, owned and kept, views, and what nobody reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opendml as dml
from opendml.building.graph_building import CONSTANT_NODE_LIMIT
from opendml.building.graph_program import GraphProgram
from opendml.description.graph_validation import validate_graph

Array = np.ndarray[Any, Any]


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(1, 9, shape).astype(dtype)


def example() -> tuple[GraphProgram, Array, Array]:
    graph = dml.Graph()
    x, y = graph.input("float32", [2, 3], name="x"), graph.input("float32", [2, 3], name="y")
    return graph.compile({"sum": x + y, "difference": x - y}), numbers(2, 3), numbers(2, 3, seed=1)


def test_inputs_by_position_and_name() -> None:
    program, a, b = example()
    for result in (program(a, b), program(a, y=b), program(y=b, x=a)):
        assert list(result) == ["sum", "difference"]
        np.testing.assert_array_equal(result["sum"], a + b)
        np.testing.assert_array_equal(result["difference"], a - b)
    assert [binding.name for binding in program.inputs] == ["x", "y"]
    assert repr(program) == (
        "<GraphProgram of 2 nodes (x float32 [2, 3], y float32 [2, 3])"
        " -> (sum float32 [2, 3], difference float32 [2, 3])>"
    )


@pytest.mark.parametrize(
    ("arrays", "named", "message"),
    [
        (1, {}, "expected x, y, got nothing for y"),
        (3, {}, "got 3 arrays"),
        (2, {"x": 0}, "expected x, y, got x twice$"),
        (2, {"z": 0}, "expected x, y, got z unexpectedly$"),
        (0, {}, "got nothing for x, y$"),
    ],
)
def test_wrong_inputs(arrays: int, named: dict[str, int], message: str) -> None:
    program, *given = example()
    with pytest.raises(dml.BindingError, match=message):
        program(*[given[i % 2] for i in range(arrays)], **{name: given[i] for name, i in named.items()})


def test_wrong_arrays() -> None:
    program, a, b = example()
    with pytest.raises(dml.BindingError, match="x: expected sizes"):
        program(a[:, :2], b)
    with pytest.raises(dml.BindingError, match="y: expected elements of float32"):
        program(a, b.astype("float64"))


def test_forms_of_outputs() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [2])
    a = np.array([1, 2], "float32")
    assert isinstance(graph.compile(x + 1)(a), np.ndarray)
    assert isinstance(graph.compile([x + 1])(a), tuple)
    both = graph.compile((x + 1, x * 2))(a)
    np.testing.assert_array_equal(both, [[2, 3], [2, 4]])
    others: list[Any] = [[], {}, None, [x, None], 3]
    for outputs in others:
        with pytest.raises(dml.BindingError, match="outputs: expected a graph tensor"):
            graph.compile(outputs)


def test_out() -> None:
    program, a, b = example()
    places = {"sum": np.empty((2, 3), "float32"), "difference": np.empty((2, 3), "float32")}
    result = program(a, b, out=places)
    assert result["sum"] is places["sum"]
    np.testing.assert_array_equal(places["difference"], a - b)
    assert program(a, b, out={"sum": places["sum"]})["sum"] is places["sum"]
    assert program(a, b, out=[None, places["sum"]])["difference"] is places["sum"]
    for out, message in [([], "expected 2 arrays"), ({"product": a}, "expected sum, difference, got product")]:
        with pytest.raises(dml.BindingError, match=message):
            program(a, b, out=out)


def test_outputs_that_are_views() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [2, 3])
    y = x + 1
    program = graph.compile([y, y.transpose([1, 0]), y.reshape([6]), y.broadcast_to([2, 2, 3]), y])
    a = numbers(2, 3)
    b = a + 1
    for result, expected in zip(program(a), [b, b.T, b.ravel(), np.stack([b, b]), b], strict=True):
        np.testing.assert_array_equal(result, expected)
    place = np.zeros((3, 2), "float32")
    assert program(a, out=[None, place, None, None, None])[1] is place
    np.testing.assert_array_equal(place, b.T)
    with pytest.raises(dml.BindingError, match="out, output1: expected a writeable array"):
        program(a, out=[None, a, None, None, None])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "uint32"])
def test_inputs_and_constants_are_outputs(dtype: str) -> None:
    graph = dml.Graph(dml.Device(feature_level="4_1"))
    x = graph.input(dtype, [3], name="x")
    weight = graph.input(dtype, [5], name="weight", owned_by_dml=True)
    constant = numbers(3, dtype=dtype)
    program = graph.compile([x, graph.constant(constant), weight])
    program.initialize(weight=numbers(5, dtype=dtype, seed=2))
    results = program(numbers(3, dtype=dtype, seed=1))
    for result, expected in zip(results, [numbers(3, seed=1), constant, numbers(5, seed=2)], strict=True):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, expected.astype(dtype))


def test_inputs_that_nobody_reads() -> None:
    graph = dml.Graph()
    x, _ = graph.input("float32", [2], name="x"), graph.input("float32", [2], name="unused")
    program = graph.compile(x + 1)
    np.testing.assert_array_equal(program(np.zeros(2, "float32"), np.zeros(2, "float32")), [1, 1])
    with pytest.raises(dml.BindingError, match="got nothing for unused"):
        program(np.zeros(2, "float32"))


def test_inputs_first_seen_otherwise() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [2, 3], name="x", strides=[1, 2])
    program = graph.compile([x.reinterpret([6]) * 1, x + 0])
    a = numbers(3, 2).T
    for given in (a, np.ascontiguousarray(a), a[::-1][::-1]):
        flat, same = program(given)
        np.testing.assert_array_equal(flat, a.T.ravel())
        np.testing.assert_array_equal(same, a)
    for wrong in (a.T, a.astype("float64"), np.zeros(5, "float32")):
        with pytest.raises(dml.BindingError, match=r"x: expected float32 \[2, 3\], got"):
            program(wrong)


def test_bound_arrays_are_read_anew() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [2, 3])
    call = graph.compile([x.reshape([3, 2]) * 2, x + 0]).bind(a := numbers(3, 2).T)
    call()
    a[...] = 4
    call()
    np.testing.assert_array_equal(call.results[0], np.full((3, 2), 8))
    np.testing.assert_array_equal(call.results[1], np.full((2, 3), 4))


def test_names_of_inputs() -> None:
    graph = dml.Graph()
    graph.input("float32", [2], name="x")
    for name, message in [("x", "is an input already"), ("out", "is what outputs are given by")]:
        with pytest.raises(dml.InvalidDescriptorError, match=message):
            graph.input("float32", [2], name=name)
    with pytest.raises(dml.InvalidDescriptorError, match="sizes less than 1"):
        graph.input("float32", [2, 0])
    assert repr(graph) == "<Graph on Device('cpu', feature_level='6_4'): inputs (x), 0 nodes>"


# ---- what is owned, what is kept


def test_initializing_again() -> None:
    """With a constant too large to be part of the code, and after calls that were refused."""
    graph = dml.Graph()
    x = graph.input("float32", [1, 600], name="x")
    weight = graph.input("float32", [1, 600], name="weight", owned_by_dml=True)
    constant = numbers(1, 600, seed=3)
    program = graph.compile(x * (weight + constant))
    a = numbers(1, 600)
    for wrong in (numbers(1, 3), numbers(1, 600).astype(np.float64), "weights"):
        with pytest.raises(dml.BindingError):
            program.initialize(weight=wrong)
    with pytest.raises(dml.BindingError, match="initialized with weight first"):
        program(a)
    for seed in (1, 2):
        w = numbers(1, 600, seed=seed)
        program.initialize(weight=w)
        np.testing.assert_array_equal(program(a), a * (w + constant))
    with pytest.raises(dml.BindingError):
        program.initialize(weight=numbers(1, 3))
    np.testing.assert_array_equal(program(a), a * (w + constant))


def test_owned_inputs() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [1, 4], name="x")
    weight = graph.input("float32", [4, 4], name="weight", owned_by_dml=True)
    program = graph.compile(dml.gemm(x, weight.transpose([1, 0])) + numbers(1000)[:4])
    a, w = numbers(1, 4), numbers(4, 4, seed=1)
    with pytest.raises(dml.BindingError, match="initialized with weight first"):
        program(a)
    for arrays in ({}, {"x": a}, {"weight": w, "x": a}):
        with pytest.raises(dml.BindingError, match="expected weight to initialize with"):
            program.initialize(**arrays)
    program.initialize(weight=w)
    expected = a @ w.T + numbers(1000)[:4]
    w[...] = 0
    np.testing.assert_array_equal(program(a), expected)
    with pytest.raises(dml.BindingError, match="weight unexpectedly"):
        program(a, weight=w)


def test_constants_are_kept_once() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [2, 3, 4])
    bias = np.arange(3, dtype="float32").reshape(1, 3, 1)
    y = dml.add(dml.add(x, np.broadcast_to(bias, x.sizes)), np.broadcast_to(bias.copy(), x.sizes))
    desc = graph.describe(y)
    (constant,) = [node for node in desc.nodes if isinstance(node, dml.ConstantNode)]
    assert constant.data == bias.tobytes()
    np.testing.assert_array_equal(graph.compile(y)(numbers(2, 3, 4)), numbers(2, 3, 4) + 2 * bias)


def test_large_constants_are_owned_inputs() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [CONSTANT_NODE_LIMIT // 4 + 1])
    small, large = numbers(CONSTANT_NODE_LIMIT // 4), numbers(CONSTANT_NODE_LIMIT // 4 + 1, seed=1)
    outputs = [x * large, x * 2, graph.constant(small)]
    described = graph.describe(outputs)
    assert described.input_count == 1
    assert [len(node.data) for node in described.nodes if isinstance(node, dml.ConstantNode)] == [1028, 4, 1024]
    assembly = graph.assemble(outputs, constant_limit=CONSTANT_NODE_LIMIT)
    assert assembly.desc.input_count == 2
    assert {number: (kept.data, kept.owned) for number, kept in assembly.interface.kept.items()} == {
        1: (large.tobytes(), True)
    }
    for limit in (-1, CONSTANT_NODE_LIMIT, 10**9):
        results = graph.compile(outputs, constant_limit=limit)(numbers(257, seed=2))
        for result, expected in zip(
            results, [numbers(257, seed=2) * large, numbers(257, seed=2) * 2, small], strict=True
        ):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("level", ["2_1", "4_0", "6_1"])
def test_levels_without_constant_nodes(level: str) -> None:
    graph = dml.Graph(dml.Device(feature_level=level))
    y = graph.input("float32", [1, 1, 2, 2]) * 2 + numbers(1, 1, 2, 2)
    desc = graph.describe(y)
    assert not validate_graph(desc, level)
    assert desc.input_count == 3
    np.testing.assert_array_equal(
        graph.compile(y)(numbers(1, 1, 2, 2, seed=1)), numbers(1, 1, 2, 2, seed=1) * 2 + numbers(1, 1, 2, 2)
    )


@pytest.mark.parametrize("level", ["5_0", "6_4"])
def test_constants_of_operators_that_own_nothing(level: str) -> None:
    graph = dml.Graph(dml.Device(feature_level=level))
    x = graph.input("float32", [1, 2, 3, 4])
    weight, recurrence = numbers(1, 1, 50, 4) / 64, numbers(1, 1, 50, 50) / 512
    states = dml.rnn(x, weight, recurrence)
    program = graph.compile({"single": states.single})
    expected = dml.rnn(numbers(1, 2, 3, 4), weight, recurrence)
    np.testing.assert_array_equal(program(numbers(1, 2, 3, 4))["single"], expected.single)


def test_what_changes_is_not_kept() -> None:
    """The state of a recurrent network starts anew at every run, although its first value is a constant."""
    graph = dml.Graph()
    several = enumerate([(1, 2, 1, 1), (1, 1, 3, 1), (1, 1, 3, 3)])
    x, weight, recurrence = (numbers(*sizes, seed=i) / 16 for i, sizes in several)
    initial = numbers(1, 1, 1, 3)
    given = graph.input("float32", [1, 1, 3, 3])
    states = dml.rnn(graph.constant(x), graph.constant(weight), given, None, initial, output_sequence=False)
    program = graph.compile(states.single)
    for _ in range(2):
        np.testing.assert_array_equal(program(recurrence), dml.rnn(x, weight, recurrence, None, initial).single)
