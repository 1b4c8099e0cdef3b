"""Every target gives the interpreter's bits: of all operators, of graphs, and of hostile indices.

A target is added by a line of ``KINDS``; its first device is met here. Where there is none the tests are skipped, and
say why.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import plain_target
import pytest
from command_lines import invoke
from dxdispatch_models import ADD
from execution import assert_identical, assert_same_values, guarded_buffer, random_array, random_values, seeds
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from random_descriptors import descriptors, is_drawn
from random_graphs import graphs
from sample_descriptors import samples
from test_networks import SMALL

import opendml as dml
from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType
from opendml.description.graph_paths import graph_input_tensors
from opendml.expression.statements import Repeat
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.targets.registry import KINDS, TargetKind

PLAIN = TargetKind("plain_target", is_numbered=True, has_threads=False)
"""The kernels of graphics processors on this one: an example of a target, and there on every machine."""

OTHERS = [*(kind for kind in KINDS if kind != "cpu"), "plain"]  # whose conformity the other tests are about
DRAWN = [operator_type for operator_type in OperatorType if is_drawn(operator_type)]
REFERENCE = dml.Device("reference")


@pytest.fixture(scope="module", params=OTHERS)
def device(request: pytest.FixtureRequest) -> Iterator[dml.Device]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KINDS, "plain", PLAIN)
        # Nothing behind a tensor may be touched.
        patch.setattr(plain_target, "allocated", lambda size: guarded_buffer(size, np.dtype(np.uint8), True))
        try:
            found = dml.Device(request.param)
        except dml.ConfigurationError as error:
            pytest.skip(str(error))
        yield found


def _check(device: dml.Device, desc: Operator, arrays: list[Any]) -> None:
    """The outputs, in buffers of the exact size, and what lies between their elements."""
    results = []
    for on in (REFERENCE, device):
        outputs = [
            None if t is None else guarded_buffer(t.element_span, t.data_type.dtype, True) for _, t in desc.outputs()
        ]
        on.compile(desc).bind(arrays, outputs)()
        results.append(outputs)
    for expected, actual in zip(*results, strict=True):
        if expected is not None and actual is not None:
            assert_same_values(actual, expected)


def _arrays(desc: Operator, seed: int) -> list[Any]:
    return [None if t is None else random_array(t, seed + number) for number, (_, t) in enumerate(desc.inputs())]


@pytest.mark.sampled
@pytest.mark.parametrize("desc", samples(), ids=lambda desc: type(desc).__name__)
def test_every_operator(device: dml.Device, desc: Operator) -> None:
    _check(device, desc, _arrays(desc, 3))


@pytest.mark.sampled
@pytest.mark.parametrize("operator_type", DRAWN, ids=lambda operator_type: operator_type.name)
@examples(1)
@given(data=st.data(), seed=seeds)
def test_random_descriptors(device: dml.Device, operator_type: OperatorType, data: st.DataObject, seed: int) -> None:
    desc = data.draw(descriptors(operator_type))
    _check(device, desc, _arrays(desc, seed))


@examples(20)
@given(graph=graphs(most=4), seed=seeds)
def test_random_graphs(device: dml.Device, graph: dml.GraphDesc, seed: int) -> None:
    """Fused, with constants and inputs OWNED_BY_DML; run twice."""
    generator = np.random.default_rng(seed)
    arrays = [
        None if t is None else random_values(t.data_type, t.element_span, generator) for t in graph_input_tensors(graph)
    ]
    results = []
    for on in (REFERENCE, device):
        program = on.compile_graph(graph)
        owned = program.owned
        program.initialize([a if is_owned else None for a, is_owned in zip(arrays, owned, strict=True)])
        call_inputs = [None if is_owned else a for a, is_owned in zip(arrays, owned, strict=True)]
        outputs = [
            guarded_buffer(b.desc.element_span, b.desc.data_type.dtype, True)
            for b in program.outputs
            if b.desc is not None
        ]
        call = program.bind(call_inputs, outputs)
        call()
        call()
        results.append(outputs)
    for expected, actual in zip(*results, strict=True):
        assert_same_values(actual, expected)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["Gru", "MultiheadAttention"])
def test_what_a_definition_repeats_and_does_for_each(device: dml.Device, name: str) -> None:
    """Loops of the host: steps of a recurrent network, and blocks of attention with memory of their own."""
    desc = next(desc for desc in samples() if type(desc).__name__ == name)
    _check(device, desc, _arrays(desc, 5))


def test_attention_in_blocks_of_keys(device: dml.Device) -> None:
    """A loop of the host whose statements read what they wrote the time before."""
    sizes = {"query_tensor": (1, 16, 6), "key_tensor": (1, 530, 6), "value_tensor": (1, 530, 6)}
    desc = dml.operators.MultiheadAttention(
        **{name: dml.TensorDesc("FLOAT32", size) for name, size in sizes.items()},
        output_tensor=dml.TensorDesc("FLOAT32", sizes["query_tensor"]),
        scale=0.5,
        mask_filter_value=0,
        head_count=2,
        mask_type="NONE",
    )
    assert any(isinstance(statement, Repeat) for statement in desc.define().statements)
    _check(device, desc, _arrays(desc, 7))


HOSTILE = np.array([-(2**31), -1, 0, 2, 3, 7, 2**31 - 1, 1 << 20], np.int32)


def test_hostile_indices(device: dml.Device) -> None:
    """Indices from wherever: the definitions clamp or guard them, and no target loads what they guard."""
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    indices = HOSTILE.reshape(1, 8)
    for on in (device,):
        np.testing.assert_array_equal(
            dml.gather(values, indices, axis=0, index_dimensions=1, device=on),
            dml.gather(values, indices, axis=0, index_dimensions=1, device=REFERENCE),
        )
        places = np.resize(HOSTILE, (3, 4))
        for function in (dml.gather_elements, dml.scatter_elements):
            arguments = (values, places) if function is dml.gather_elements else (values, places, -values)
            np.testing.assert_array_equal(
                function(*arguments, axis=1, device=on), function(*arguments, axis=1, device=REFERENCE)
            )


def test_strided_outputs_keep_what_lies_between(device: dml.Device) -> None:
    output = dml.TensorDesc("FLOAT32", [2, 3], [8, 2])
    desc = dml.operators.ElementWiseIdentity(
        input_tensor=dml.TensorDesc("FLOAT32", [2, 3]), output_tensor=output, scale_bias=None
    )
    buffer = np.full(output.element_span, 7, np.float32)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    device.compile(desc).bind([x], [buffer])()
    expected = np.full(output.element_span, 7, np.float32)
    np.lib.stride_tricks.as_strided(expected, (2, 3), (32, 8))[...] = x
    np.testing.assert_array_equal(buffer, expected)


def test_a_graph_comes_from_the_cache(device: dml.Device) -> None:
    graph = dml.Graph(device)
    x = graph.input("float32", [5], name="x")
    result = dml.activation_softplus(x * 3.25 + 1)
    programs = [graph.compile(result) for _ in range(2)]
    assert programs[1].program.from_cache
    values = np.linspace(-1, 1, 5, dtype=np.float32)
    assert_identical(*(program(values) for program in programs))


def test_a_program_pickles_and_returns_to_its_device(device: dml.Device) -> None:
    x = np.linspace(-1, 1, 6, dtype=np.float32)
    tensor = dml.TensorDesc("FLOAT32", [6])
    program = device.compile(dml.operators.ActivationRelu(input_tensor=tensor, output_tensor=tensor))
    copied = pickle.loads(pickle.dumps(program))
    assert copied.target == program.target
    assert copied.from_cache
    np.testing.assert_array_equal(copied(x), np.maximum(x, 0))


def test_the_command_line_runs_models_there(device: dml.Device, tmp_path: Path) -> None:
    tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 3]}
    text = {"initialValuesDataType": "FLOAT32"}
    model = {
        "resources": {
            "A": {**text, "initialValues": [1, 2, 3]},
            "B": {**text, "initialValues": [5, 8, -5]},
            "Out": {**text, "initialValues": [0, 0, 0]},
        },
        "dispatchables": {
            "add": {
                "type": "DML_OPERATOR_ELEMENT_WISE_ADD",
                "desc": {"ATensor": tensor, "BTensor": tensor, "OutputTensor": tensor},
            }
        },
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "add",
                "bindings": {"ATensor": "A", "BTensor": "B", "OutputTensor": "Out"},
            },
            {"type": "print", "resource": "Out"},
        ],
    }
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    result = invoke("run", path, "--device", device.name.partition(":")[0])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "Resource 'Out': 6, 10, -2"
    assert f"\n-Device: {device.name}\n" in invoke("run", "-s").stdout


def _network(device: dml.Device) -> dml.GraphProgram:
    graph = dml.Graph(device)
    x = graph.input("float32", [4, 6], name="x")
    weights = graph.constant(np.ones([6, 2], np.float32))
    return graph.compile(dml.reduce(dml.activation_relu(dml.gemm(x, weights)), "SUM", axes=[1]))


def test_explanations_are_of_the_devices_kernels(device: dml.Device) -> None:
    program = _network(device)
    text = dml.explain(program)
    assert dml.explain(program.desc, device=device) == dml.explain(program.desc, device=device.name) == text
    target = device.target
    assert target is not None
    joined = join(program.desc, target.refine)
    code = target.generate(divide_and_fuse(joined, costs=target.costs).execution, in_place=False)
    kernels = code.describe_kernels()
    assert kernels and all(kernel.text in text for kernel in kernels)
    assert code.describe_sequence() in text
    assert "GEMM of Nodes" in text
    assert "LLVM IR" not in text
    longer = dml.explain(program, llvm=True, assembly=True)
    assert all(module.rstrip() in longer and target.assembly(module).rstrip() in longer for module in code.modules)


def test_profiles_are_of_the_devices_kernels(device: dml.Device, tmp_path: Path) -> None:
    program, x = _network(device), np.ones([4, 6], np.float32)
    before = program(x)
    found = dml.profile(program, x, seconds=0)
    assert_identical(before, program(x))
    assert found.device == device.name
    assert [kernel.description for kernel in found.kernels] == [
        kernel.description for kernel in dml.profile(program, x, seconds=0).kernels
    ]
    assert {name for kernel in found.kernels for name in kernel.operators} >= {"GEMM", "ACTIVATION_RELU", "REDUCE"}
    assert all(kernel.seconds > 0 for kernel in found.kernels)
    assert found.kernel_seconds <= found.instrumented_seconds
    if found.limits is None:
        assert f" on {device.name}: a run takes" in str(found)
        for text in ("this machine", "of copy", "of peak", "Limit", "inf"):
            assert text not in str(found)
    found.save_page(tmp_path / "page.html")
    found.save_trace(tmp_path / "trace.json")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('class="row"') == len(found.kernels)
    assert ("Of the limit" in page) == (found.limits is not None)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["args"]["kernel"] for event in events if event["ph"] == "X"} == set(range(len(found.kernels)))


@pytest.mark.parametrize("command", ["explain", "profile"])
def test_the_command_line_shows_kernels(device: dml.Device, command: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(ADD))
    options = ["--llvm"] if command == "explain" else ["-t", 1]
    result = invoke(command, path, "--device", device.name, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "ATensor@(i) + BTensor@(i)" in result.stdout if command == "explain" else "1 kernel" in result.stdout
    for found in json.loads(invoke(command, path, "--device", device.name, "--json").stdout):
        assert command == "explain" or found["device"] == device.name
    refused = invoke(command, path, "--device", "reference")
    assert refused.exit_code != 0
    assert f"there are no kernels to {command}" in refused.stderr


def test_an_initialized_graph_pickles_with_what_it_keeps(device: dml.Device) -> None:
    graph = dml.Graph(device)
    x = graph.input("float32", [5], name="x")
    weights = graph.input("float32", [5], name="w", owned_by_dml=True)
    program = graph.compile(x * dml.exp(weights)).program
    values = np.linspace(-1, 1, 5, dtype=np.float32)
    program.initialize([None, values])
    copied = pickle.loads(pickle.dumps(program))
    assert copied.execution.target == program.execution.target
    assert_identical(copied(values, None), program(values, None))


def test_a_forked_process_is_told_so(device: dml.Device) -> None:
    """What a driver's threads have to do nobody does there."""
    if not hasattr(os, "fork") or not device.name.startswith("opencl"):
        pytest.skip("needs fork, and a driver with threads")
    x = np.ones(3, np.float32)
    dml.activation_relu(x, device=device)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            dml.activation_tanh(x, device=device)
        except dml.OpendmlError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"forked" in os.read(reading, 1000)


NETWORKS = Path(__file__).parent.parent / "examples" / "networks"


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["mobilenet_v2", "transformer_encoder", "squeezenet"])
def test_networks(device: dml.Device, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many kernels, weights that stay on the device, temporaries that share memory: as on the processor."""
    if device.name.startswith("plain"):
        pytest.skip("one point after another takes too long")
    monkeypatch.syspath_prepend(str(NETWORKS))
    results = []
    for on in (dml.Device("cpu"), device):
        graph = dml.Graph(on)
        program = graph.compile(importlib.import_module(name).build(graph, **SMALL[name]).output)
        desc = program.inputs[0].desc
        assert desc is not None
        x = np.random.default_rng(1).normal(size=desc.sizes).astype(np.float32)
        results.append(program(x))
    assert_identical(*results)
