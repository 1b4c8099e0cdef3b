"""Descriptors, graphs and programs go through pickle, copy.deepcopy and to other processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import opendml as dml
from opendml.description.errors import DescriptorFormatError, ModelFormatError, NotPicklableError
from opendml.llvm.host import NUM_THREADS_VARIABLE, default_thread_count

ROUNDS: list[Callable[[Any], Any]] = [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy]

TENSOR = dml.TensorDesc("float32", [2, 3])
ADD = dml.operators.ElementWiseAdd(a_tensor=TENSOR, b_tensor=TENSOR, output_tensor=TENSOR)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _weighted(owned: bool) -> dml.GraphProgram:
    """A product with 300 weights, which are laid out at initialisation."""
    graph = dml.Graph()
    x = graph.input("float32", [4, 20], name="x")
    weights = np.random.default_rng(1).normal(size=(20, 15)).astype(np.float32)
    w = graph.input("float32", [20, 15], name="w", owned_by_dml=True) if owned else graph.constant(weights)
    return graph.compile({"y": dml.activation_relu(dml.gemm(*(t.reinterpret([1, 1, *t.sizes]) for t in (x, w))))})


@pytest.mark.parametrize("again", ROUNDS)
def test_values_are_equal_again(again: Callable[[Any], Any]) -> None:
    strided = dml.TensorDesc("FLOAT16", [2, 3], [8, 2], flags="OWNED_BY_DML", guaranteed_base_offset_alignment=16)
    edge = dml.InputEdge(0, to_node_index=1, to_node_input_index=0)
    graph = dml.GraphDesc(
        input_count=1,
        output_count=1,
        nodes=[dml.ConstantNode(bytes(24), "c"), dml.OperatorNode(ADD, "add")],
        input_edges=[edge],
        intermediate_edges=[dml.IntermediateEdge(0, 0, to_node_index=1, to_node_input_index=1)],
        output_edges=[dml.OutputEdge(1, 0, graph_output_index=0)],
    )
    relu = dml.operators.ActivationElu(alpha=float("nan"))
    invalid = ADD.replace(a_tensor="nonsense")
    device = dml.Device("cpu", feature_level="3_0", thread_count=2)
    values = [strided, ADD, relu, invalid, graph, edge, device, dml.FeatureLevel.LEVEL_3_0, dml.validate(invalid)]
    for value in values:
        result = again(value)
        assert result == value
        assert type(result) is type(value)
        assert repr(result) == repr(value)
    checked = again(device.create_operator(ADD))
    assert (checked.device, checked.desc) == (device, ADD)
    assert again(dml.catalogue["SLICE1"]) == dml.catalogue["SLICE1"]


def test_descriptors_are_pickled_by_their_fields_only() -> None:
    hash(ADD)
    assert set(vars(pickle.loads(pickle.dumps(ADD)))) == set(ADD.fields)


@pytest.mark.parametrize("again", ROUNDS)
def test_errors_keep_what_they_say(again: Callable[[Any], Any]) -> None:
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        dml.Device().create_operator(ADD.replace(output_tensor=dml.TensorDesc("float32", [2, 4])))
    error = again(caught.value)
    assert str(error) == str(caught.value)
    assert error.violations == caught.value.violations != ()
    for other in (DescriptorFormatError("Desc.A", "no"), ModelFormatError("a.b", "no"), dml.BindingError("no")):
        assert str(again(other)) == str(other)
        assert vars(again(other)) == vars(other)


@pytest.mark.parametrize("again", ROUNDS)
def test_programs_are_compiled_again(again: Callable[[Any], Any]) -> None:
    program = dml.Device(thread_count=1).compile(ADD)
    other = again(program)
    assert other is not program
    assert (other.desc, other.thread_count, repr(other)) == (ADD, 1, repr(program))
    np.testing.assert_array_equal(other(X, X), X + X)


@pytest.mark.parametrize("again", ROUNDS)
def test_graphs_being_built_are_built_on(again: Callable[[Any], Any]) -> None:
    graph = dml.Graph()
    y = graph.input("float32", [2, 3], name="x") * 2
    other_graph, other_y = again((graph, y))
    assert other_y.graph is other_graph is not graph
    np.testing.assert_array_equal(other_graph.compile(other_y + 1)(X), X * 2 + 1)
    np.testing.assert_array_equal(graph.compile(y + 3)(X), X * 2 + 3)


@pytest.mark.parametrize("again", ROUNDS)
def test_compiled_graphs_take_along_what_they_keep(again: Callable[[Any], Any]) -> None:
    x = np.random.default_rng(0).normal(size=(4, 20)).astype(np.float32)
    w = np.random.default_rng(2).normal(size=(20, 15)).astype(np.float32)
    with_constant = _weighted(owned=False)
    np.testing.assert_array_equal(again(with_constant)(x)["y"], with_constant(x)["y"])

    program = _weighted(owned=True)
    waiting = again(program)
    assert "to be initialized with w" in repr(waiting)
    with pytest.raises(dml.BindingError, match="initialized with w"):
        waiting(x)
    program.initialize(w=w)
    initialised = again(program)
    waiting.initialize(w=w)
    for other in (initialised, waiting, again(initialised)):
        np.testing.assert_array_equal(other(x)["y"], program(x)["y"])


def test_what_another_kind_of_program_keeps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(_weighted(owned=False))
    monkeypatch.setattr("opendml.programs.compiled_graph.graph_key", lambda *_: b"another")
    with pytest.raises(dml.BindingError, match="for another processor"):
        pickle.loads(pickled)


def test_what_is_kept_goes_to_a_process_with_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose usual knobs follow from other facts: the program's own go with it."""
    x = np.random.default_rng(0).normal(size=(4, 20)).astype(np.float32)
    program = _weighted(owned=False)
    pickled = pickle.dumps(program)
    monkeypatch.setenv(NUM_THREADS_VARIABLE, str(default_thread_count() + 8))
    np.testing.assert_array_equal(pickle.loads(pickled)(x)["y"], program(x)["y"])


@pytest.mark.parametrize("again", [pickle.dumps, copy.copy, copy.deepcopy])
def test_bound_calls_refuse(again: Callable[[Any], Any]) -> None:
    call = dml.Device().compile(ADD).bind([X, X], [np.empty_like(X)])
    graph = dml.Graph()
    program = graph.compile(graph.input("float32", [2, 3]) + 1)
    for refusing in (call, program.bind(X), program.program.execution):
        with pytest.raises(NotPicklableError, match="pickle or copy the"):
            again(refusing)


def _compiled_elsewhere(desc: dml.OperatorDesc, x: Any) -> Any:
    return dml.Device(thread_count=1).compile(desc)(x, x)


def test_processes_share_descriptors_and_programs() -> None:
    graph_program = _weighted(owned=False)
    x = np.random.default_rng(0).normal(size=(4, 20)).astype(np.float32)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = [
            pool.submit(dml.Device(thread_count=1).compile(ADD), X, X),
            pool.submit(_compiled_elsewhere, ADD, X),
            pool.submit(graph_program, x),
            pool.submit(_compiled_elsewhere, ADD.replace(output_tensor=dml.TensorDesc("float32", [9])), X),
        ]
        np.testing.assert_array_equal(results[0].result(), X + X)
        np.testing.assert_array_equal(results[1].result(), X + X)
        np.testing.assert_array_equal(results[2].result()["y"], graph_program(x)["y"])
        with pytest.raises(dml.InvalidDescriptorError) as caught:
            results[3].result()
        assert caught.value.violations
