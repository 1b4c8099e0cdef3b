"""Targets: found by name, and used through their protocol alone."""

import importlib
import inspect
import pickle
from dataclasses import replace

import pytest

import opendml as dml
from opendml.targets import target as protocol
from opendml.targets.cpu.microarchitectures import tuning_of
from opendml.targets.cpu.processor import Processor, host_processor
from opendml.targets.cpu.target import UsualKnobs
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


def test_what_the_cache_knows_a_processor_by() -> None:
    """Facts that the usual knobs follow from, or all knobs; each target that prints otherwise by another text."""
    usual = host_processor()
    facts = usual.knobs
    assert isinstance(facts, UsualKnobs)
    given = host_processor(tuning=pickle.loads(pickle.dumps(usual.tuning)))
    assert (given, given.identity) == (usual, usual.identity)
    copied = pickle.loads(pickle.dumps(usual))
    assert (copied, copied.identity, hash(copied)) == (usual, usual.identity, hash(usual))
    smaller = replace(facts, caches={1: 1 << 12, 2: 1 << 18})
    others = [
        usual.tuned(serial_work=0),
        replace(usual, machine=replace(usual.machine, cpu_name="other")),
        replace(usual, knobs=replace(facts, threads=facts.threads + 1)),
        replace(usual, knobs=replace(facts, name="another")),
        replace(usual, knobs=smaller),
        host_processor(tuning=replace(usual.tuning, serial_work=0)),
    ]
    assert len({usual.identity, *(other.identity for other in others)}) == len(others)  # two have the same knobs
    assert others[0].identity == others[-1].identity
    assert repr(others[0].tuning) in others[0].identity
    assert smaller.tuning == tuning_of(facts.machine, facts.threads, facts.name, {1: 1 << 12, 2: 1 << 18})
    assert replace(usual, machine=replace(usual.machine, cpu_name="other")).tuning is usual.tuning


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
