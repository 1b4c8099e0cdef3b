"""Targets: found by name, and used through their protocol alone."""

import importlib
import inspect
import pickle

import pytest

import opendml as dml
from opendml.targets import target as protocol
from opendml.targets.cpu.processor import Processor
from opendml.targets.registry import KINDS, find_target, parse_target_name
from opendml.targets.target import Target


@pytest.mark.parametrize(
    ("name", "canonical"), [("cpu", "cpu"), ("cpu:0", None), ("", None), ("gpu", None), ("cpu:", None), (" cpu", None)]
)
def test_names_of_targets(name: str, canonical: str | None) -> None:
    parsed = parse_target_name(name)
    assert (None if parsed is None else str(parsed)) == canonical


@pytest.mark.parametrize("kind", KINDS)
def test_a_targets_module_offers_what_the_registry_asks_for(kind: str) -> None:
    module = importlib.import_module(KINDS[kind].module)
    for name, _ in inspect.getmembers(protocol.TargetModule, inspect.isfunction):
        if not name.startswith("_"):
            assert callable(getattr(module, name))
    assert all(device.name.split(":")[0] == kind for device in module.describe_devices())


def test_the_processor_is_a_value() -> None:
    target: Target = find_target("cpu")
    assert target == find_target("cpu")
    assert target.name == "cpu"
    assert pickle.loads(pickle.dumps(target)) == target
    assert isinstance(target, Processor)
    assert target != target.tuned(serial_work=0)
    assert repr(target.tuning) in repr(target)  # all of it is in the cache's keys


def test_there_is_no_target_of_an_unknown_name() -> None:
    with pytest.raises(dml.ConfigurationError, match="unknown target 'abacus'"):
        find_target("abacus")


def test_devices_are_those_that_a_device_can_be_made_of() -> None:
    found = dml.devices()
    assert found[0].name == "cpu"
    assert "reference" in [device.name for device in found]
    for device in found:
        assert dml.Device(device.name).name == device.name
        assert device.description


def test_a_pickled_graph_returns_to_its_device() -> None:
    graph = dml.Graph(dml.Device("reference"))
    program = graph.compile(dml.activation_relu(graph.input("float32", [2, 3], name="x")))
    copied = pickle.loads(pickle.dumps(program.program))
    assert copied.execution.target is None
