"""The example networks, small ones of them, against PyTorch layer by layer and against their nodes one at a time."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execution import assert_identical
from graph_reference import evaluate_graph, seen_as
from properties import HANGS

import opendml as dml
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.loops.memory_plan import plan_memory
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import host_target

NETWORKS = Path(__file__).parent.parent / "examples" / "networks"

SMALL: dict[str, dict[str, int]] = {
    "mobilenet_v2": {"image_size": 32, "classes": 10},
    "resnet50": {"image_size": 32, "classes": 10},
    "mnist": {},
    "squeezenet": {"image_size": 48, "classes": 10},
    "transformer_encoder": {"batch": 2, "length": 9, "features": 32, "heads": 4, "inner_features": 48, "count": 2},
}
"""The quickest one is in the middle, which is what a share of one takes."""
MODEL_OPTIONS = ("classes", "features", "heads", "inner_features", "count")

RELATIVE_ERRORS = {
    "mnist": 2e-6,
    "squeezenet": 5e-6,
    "mobilenet_v2": 2e-4,
    "resnet50": 2e-5,
    "transformer_encoder": 5e-6,
}
"""What float32 sums of other orders may make of a layer and all layers before it; measured are about a quarter."""


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(NETWORKS))


def built(name: str) -> tuple[dml.Graph, Any]:
    graph = dml.Graph()
    return graph, importlib.import_module(name).build(graph, **SMALL[name])


@pytest.mark.sampled
@pytest.mark.parametrize("name", SMALL)
def test_layers_agree_with_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        options = {option: size for option, size in SMALL[name].items() if option in MODEL_OPTIONS}
        errors = importlib.import_module("compare_with_torch").compare(name, options, **SMALL[name])
    finally:
        torch.set_num_threads(threads)
    assert errors[-1].layer == "result"
    assert len(errors) >= {"mnist": 5, "squeezenet": 35, "mobilenet_v2": 120, "resnet50": 120}.get(name, 10)
    worst = max(errors, key=lambda error: error.relative_error)
    assert worst.relative_error <= RELATIVE_ERRORS[name], worst


@pytest.mark.sampled
@pytest.mark.parametrize("name", SMALL)
def test_networks_give_what_their_nodes_give(name: str) -> None:
    graph, network = built(name)
    program = graph.compile(network.output)
    desc = program.inputs[0].desc
    assert desc is not None
    x = np.random.default_rng(1).normal(size=desc.sizes).astype(np.float32)
    assembly = graph.assemble(network.output)
    (expected,) = evaluate_graph(assembly.desc, [x.view(np.uint8).ravel()])
    assert_identical(program(x), seen_as(expected, assembly.interface.outputs[0][1]))


@pytest.mark.sampled
@pytest.mark.parametrize("name", SMALL)
def test_memory_is_close_to_what_is_alive(name: str) -> None:
    graph, network = built(name)
    plan = plan_memory(
        divide_and_fuse(
            join(graph.describe(network.output), refining(host_target())), costs=host_target().costs
        ).execution
    )
    assert 0 < plan.least_size <= plan.size <= 1.1 * plan.least_size


def test_weights_are_loaded(tmp_path: Path) -> None:
    _, network = built("mnist")
    np.savez(tmp_path / "weights.npz", **{name: value * 2 for name, value in network.parameters.items()})
    weights = dict(np.load(tmp_path / "weights.npz"))
    loaded = importlib.import_module("mnist").build(dml.Graph(), weights)
    np.testing.assert_array_equal(loaded.parameters["conv1.weight"], network.parameters["conv1.weight"] * 2)
    with pytest.raises(ValueError, match=r"fc2.bias: expected \[10\], got \[9\]"):
        importlib.import_module("mnist").build(dml.Graph(), weights | {"fc2.bias": np.zeros(9)})


def test_networks_run_as_scripts() -> None:
    script = [sys.executable, str(NETWORKS / "mnist.py"), "--repetitions", "1"]
    result = subprocess.run(script, capture_output=True, text=True, check=True, timeout=HANGS)
    assert "MNIST: 5 layers, compiled in" in result.stdout
