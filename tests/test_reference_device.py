"""``Device("reference")``: the interpreter behind the interface of compiled programs. And execution flags, which change
no bit on either device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from execution import assert_same_values, guarded_buffer, random_array
from graph_reference import evaluate_graph, seen_as
from graph_running import input_buffers, run_compiled
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from properties import examples
from sample_descriptors import samples
from test_graphs import assemblies

import opendml as dml
from opendml.building.graph_assembly import GraphAssembly
from opendml.description.descriptors import Operator
from opendml.description.errors import ConfigurationError
from opendml.description.graph_paths import graph_output_tensors
from opendml.expression.interpreter import run_interpreted

REFERENCE = dml.Device("reference")
X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


def test_it_is_a_device_like_the_other_one() -> None:
    assert repr(dml.Device("reference", feature_level="3_0")) == "Device('reference', feature_level='3_0')"
    assert dml.Device("reference") == REFERENCE != dml.Device("cpu")
    assert REFERENCE.thread_count == 1
    with pytest.raises(ConfigurationError, match="one thread"):
        dml.Device("reference", thread_count=2)
    with pytest.raises(ConfigurationError, match="'gpu': expected 'cpu', 'opencl:0' or 'reference'"):
        dml.Device("gpu")
    with pytest.raises(dml.InvalidDescriptorError):
        REFERENCE.compile(samples()[0].replace(output_tensor=dml.TensorDesc("float32", [9])))


@pytest.mark.sampled
@pytest.mark.parametrize("desc", samples(), ids=lambda desc: type(desc).__name__)
def test_every_operator_is_interpreted(desc: Operator) -> None:
    """Bound arrays, in buffers that end before a page that may not be touched, are what the definition says."""
    inputs = [
        None if t is None else random_array(t, number, special=False) for number, (_, t) in enumerate(desc.inputs())
    ]
    definition = desc.define()
    pairs = zip(inputs, definition.inputs, strict=True)
    expected = run_interpreted(definition, [None if a is None or t is None else a.reshape(t.sizes) for a, t in pairs])
    program = REFERENCE.compile(desc)
    outputs = [
        None if t is None else guarded_buffer(t.element_span, t.data_type.dtype, True) for _, t in desc.outputs()
    ]
    program.bind(inputs, outputs)()
    for (_, tensor), actual, wanted in zip(desc.outputs(), outputs, expected, strict=True):
        if tensor is not None and actual is not None and wanted is not None:
            assert_same_values(seen_as(actual.view(np.uint8), tensor), wanted.reshape(tensor.sizes))


def test_strided_outputs_keep_what_lies_between() -> None:
    source = dml.TensorDesc("float32", [2, 3])
    target = dml.TensorDesc("float32", [2, 3], [4, 1])
    program = REFERENCE.compile(dml.operators.ElementWiseIdentity(input_tensor=source, output_tensor=target))
    memory = np.full(7, -1, np.float32)
    program(np.arange(6, dtype=np.float32).reshape(2, 3), out=[memory])
    assert memory.tolist() == [0, 1, 2, -1, 3, 4, 5]


def test_programs_are_used_like_compiled_ones() -> None:
    tensor = dml.TensorDesc("float32", [3, 4])
    add = dml.operators.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    program = REFERENCE.compile(add)
    np.testing.assert_array_equal(program(X, X), X + X)
    np.testing.assert_array_equal(program.with_thread_count(7)(X, X), X + X)
    a, c = X.copy(), np.empty_like(X)
    call = program.bind([a, a], [c])
    for factor in (1, 3):
        a[...] = X * factor
        call()
        np.testing.assert_array_equal(c, a + a)
    program(a, X, out=[a])  # in place
    np.testing.assert_array_equal(a, X * 3 + X)
    with pytest.raises(dml.BindingError, match="ATensor"):
        program(X.astype(np.float64), X)
    again = copy.deepcopy(program)
    assert repr(again) == repr(program)
    np.testing.assert_array_equal(again(X, X), X + X)
    with pytest.raises(ConfigurationError, match="no kernels to profile"):
        dml.profile(program, X, X)
    assert "ELEMENT_WISE_ADD" in dml.explain(program)


def test_functions_take_it() -> None:
    functions: list[Callable[..., Any]] = [
        dml.activation_softmax,
        dml.activation_gelu,
        lambda x, device=None: dml.add(x, x.T.copy().T, device=device),
    ]
    for function in functions:
        assert_same_values(function(X, device=REFERENCE), function(X))
    pooled = dml.max_pooling(X[None, None], window_size=[2, 2], output_indices=True, device=REFERENCE)
    assert pooled.indices is not None
    assert pooled.indices.tolist() == [[[[5, 6, 7], [9, 10, 11]]]]


def test_graphs_run_on_it() -> None:
    def built(device: dml.Device) -> Any:
        graph = dml.Graph(device)
        x, w = graph.input("float32", [3, 4], name="x"), graph.input("float32", [4, 500], name="w", owned_by_dml=True)
        product = dml.gemm(*(t.reinterpret([1, 1, *t.sizes]) for t in (x, w)))
        return graph.compile({"y": dml.activation_tanh(product + np.linspace(0, 1, 500, dtype=np.float32))})

    w = np.random.default_rng(0).normal(size=(4, 500)).astype(np.float32)
    programs = [built(dml.Device("cpu")), built(REFERENCE)]
    for program in programs:
        program.initialize(w=w)
    programs.append(copy.deepcopy(programs[1]))
    expected, *others = [program(X)["y"] for program in programs]
    for other in others:
        assert_same_values(other, expected)
    with pytest.raises(ConfigurationError, match="no kernels to profile"):
        dml.profile(programs[1], X)


@examples(15, suppress_health_check=list(HealthCheck))
@given(assembly=assemblies(REFERENCE), seed=st.integers(0, 99))
def test_random_graphs_give_what_their_nodes_give(assembly: GraphAssembly, seed: int) -> None:
    buffers = input_buffers(assembly, seed)
    expected = evaluate_graph(assembly.desc, buffers, interpreted=True)
    actual = run_compiled(assembly, REFERENCE, buffers, apart=False)
    for desc, memory, result in zip(graph_output_tensors(assembly.desc), expected, actual, strict=True):
        assert_same_values(result, seen_as(memory, desc))


@pytest.mark.parametrize(
    "flags", [0, 7, "DISABLE_META_COMMANDS", ["DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE"], dml.ExecutionFlags(1)]
)
@pytest.mark.parametrize("device", [REFERENCE, dml.Device("cpu")])
def test_execution_flags_are_taken_and_change_nothing(device: dml.Device, flags: Any) -> None:
    tensor = dml.TensorDesc("float32", [3, 4])
    exp = dml.operators.ElementWiseExp(input_tensor=tensor, output_tensor=tensor)
    program = device.compile(exp, execution_flags=flags)
    assert program.execution_flags == dml.ExecutionFlags.parse(flags)
    assert copy.deepcopy(program).execution_flags == program.execution_flags
    assert_same_values(program(X), device.compile(exp)(X))
    assert device.create_operator(exp).compile(execution_flags=flags).execution_flags == program.execution_flags
    graph = dml.Graph(device)
    compiled = graph.compile(graph.input("float32", [3, 4]) + 1, execution_flags=flags)
    assert compiled.program.execution_flags == program.execution_flags
    assert copy.deepcopy(compiled).program.execution_flags == program.execution_flags


@pytest.mark.parametrize("flags", [8, "FAST", 1.5, [1, 64]])
def test_other_flags_are_refused(flags: Any) -> None:
    tensor = dml.TensorDesc("float32", [3, 4])
    exp = dml.operators.ElementWiseExp(input_tensor=tensor, output_tensor=tensor)
    with pytest.raises(ConfigurationError, match="execution_flags: "):
        dml.Device().compile(exp, execution_flags=flags)
