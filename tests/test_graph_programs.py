"""Compiled graphs in the disk cache, and the memory that they take."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml._loading import LOADED_AT
from opendml.description.graph_desc import ConstantNode, GraphDesc, Node
from opendml.expression.element_types import F32, I64
from opendml.expression.ir import Tensor, constant, grid, indices, load, temporary
from opendml.expression.statements import Compute, Definition, Store
from opendml.graph import joining
from opendml.llvm.object_cache import default_cache
from opendml.loops import memory_plan
from opendml.loops.memory_plan import plan_memory
from opendml.loops.placement import PLACEMENT
from opendml.programs import graph_plan as plan_module
from opendml.programs.graph_plan import graph_key
from opendml.targets.cpu.processor import Processor, host_processor
from opendml.targets.cpu.runtime.executable import CpuExecutable
from opendml.targets.cpu.tuning import Tuning

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENDML_CACHE", raising=False)


def network(factor: float = 2.0, owned: bool = False) -> GraphDesc:
    """Something with a tensor that is kept as it is, one that is computed once, and one that is temporary."""
    graph = dml.Graph()
    x = graph.input("float32", [2, 3])
    weights = graph.input("float32", [3, 4], owned_by_dml=True) if owned else graph.constant(WEIGHTS)
    scores = dml.gemm(x, weights.packed() * factor) + dml.gemm(x * factor, weights)
    return graph.describe(dml.activation_softmax(scores, axes=[1]))


def renamed(graph: GraphDesc) -> GraphDesc:
    nodes = tuple(replace(node, name=f"other {number}") for number, node in enumerate(graph.nodes))
    return replace(graph, nodes=nodes, input_names=("a", *graph.input_names[1:]), output_names=("b",))


@pytest.mark.parametrize("owned", [False, True])
def test_a_graph_from_the_cache_passes_no_stage(owned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)

    def results(graph: GraphDesc) -> tuple[bool, Any]:
        program = dml.Device().compile_graph(graph)
        arrays = [WEIGHTS if is_owned else None for is_owned in program.owned]
        program.initialize(arrays)
        return program.from_cache, program(*[None if is_owned else x for is_owned in program.owned])

    was_there, expected = results(network(owned=owned))
    assert not was_there

    def fail(*_: Any) -> None:
        raise AssertionError("the graph is joined again")

    monkeypatch.setattr(joining, "join", fail)
    for graph in (network(owned=owned), renamed(network(owned=owned))):
        was_there, again = results(graph)
        assert was_there
        np.testing.assert_array_equal(again, expected)


def test_constants_of_other_content_share_their_code() -> None:
    """But for single numbers, which are part of it."""
    graph = network()

    def changed(node: Node) -> Node:
        return replace(node, data=node.data[::-1]) if isinstance(node, ConstantNode) and len(node.data) == 48 else node

    other = replace(graph, nodes=tuple(map(changed, graph.nodes)))
    x = np.ones([2, 3], np.float32)
    first, second = (dml.Device().compile_graph(g)(x) for g in (graph, other))
    assert not np.array_equal(first, second)
    halved = dml.Device().compile_graph(network(0.5))
    assert not halved.from_cache
    np.testing.assert_array_equal(halved(x), dml.Device().compile_graph(network(0.5), fusion=False)(x))


def retuned(target: Processor) -> Iterator[Processor]:
    """Targets with another value of one knob each, of all of them."""
    for knob in fields(Tuning):
        value = getattr(target.tuning, knob.name)
        if is_dataclass(value) and not isinstance(value, type):
            yield from (target.tuned(**{knob.name: replace(value, **{one.name: 1})}) for one in fields(value))
        else:
            yield target.tuned(**{knob.name: (*value, 16) if isinstance(value, tuple) else value + 1})


def test_what_a_key_depends_on() -> None:
    target, graph = host_processor(), network()
    key = graph_key(graph, target, True)
    assert key == graph_key(renamed(graph), target, True)
    others = [
        graph_key(graph, target, False),
        graph_key(graph, target, True, {0: 64.0}),
        graph_key(graph, target, True, {0: 32.0}),
        graph_key(network(3.0), target, True),
        graph_key(network(owned=True), target, True),
        graph_key(replace(graph, output_edges=()), target, True),
        graph_key(graph, replace(target, machine=replace(target.machine, cpu_name="other")), True),
        *(graph_key(graph, other, True) for other in retuned(target)),
    ]
    assert len({key, *others}) == len(others) + 1


@pytest.mark.parametrize("change", [("LOADED_AT", 0.0), ("PACKAGE", Path("nowhere"))])
def test_code_that_is_not_what_runs_stores_no_plan(change: tuple[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, *change)
    monkeypatch.setattr(plan_module, "package_digest", plan_module.package_digest.__wrapped__)
    assert graph_key(network(), host_processor(), True) is None
    x = np.ones([2, 3], np.float32)
    np.testing.assert_array_equal(*(dml.Device().compile_graph(network())(x) for _ in range(2)))
    monkeypatch.undo()
    assert graph_key(network(), host_processor(), True) is not None


def calls_of_hashing(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The files that are hashed from now on, call by call."""
    read: list[object] = []
    hashed = plan_module._hash_of_files

    def counted(files: Any) -> Any:
        read.append(files)
        return hashed(files)

    monkeypatch.setattr(plan_module, "_hash_of_files", counted)
    return read


def digest_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """The hash of a package that lies in a folder and was loaded long after it was written."""
    monkeypatch.setattr(plan_module, "PACKAGE", folder)
    monkeypatch.setattr(plan_module, "LOADED_AT", LOADED_AT + 3600)
    found: str | None = plan_module.package_digest.__wrapped__()
    return found


@pytest.mark.skipif(os.name != "posix", reason="there are no times that nobody can set")
def test_the_package_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as its files are as they were: of the same size and times they may have another content only together
    with another time of the file system's own record."""
    (tmp_path / "package" / "inner").mkdir(parents=True)
    first, second = tmp_path / "package" / "first.py", tmp_path / "package" / "inner" / "second.py"
    first.write_text("x = 1")
    second.write_text("y = 1")
    read = calls_of_hashing(monkeypatch)
    before = digest_of(tmp_path / "package", monkeypatch)
    assert before == digest_of(tmp_path / "package", monkeypatch)
    assert len(read) == 1
    times = second.stat()
    while second.stat().st_ctime_ns == times.st_ctime_ns:  # which tells no two moments apart that follow at once
        second.write_text("y = 2")
        os.utime(second, ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = digest_of(tmp_path / "package", monkeypatch)
    assert before is not None
    assert changed not in (before, None)
    second.rename(tmp_path / "package" / "second.py")
    assert digest_of(tmp_path / "package", monkeypatch) not in (before, changed, None)


@pytest.mark.skipif(os.name != "posix", reason="there are no times that nobody can set")
def test_older_files_that_came_later_are_not_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "only.py"
    file.write_text("x = 1")
    os.utime(file, (0, 0))
    monkeypatch.setattr(plan_module, "PACKAGE", tmp_path)
    monkeypatch.setattr(plan_module, "LOADED_AT", file.stat().st_ctime - 1)
    assert plan_module.package_digest.__wrapped__() is None
    monkeypatch.setattr(plan_module, "LOADED_AT", file.stat().st_ctime + 1)
    assert plan_module.package_digest.__wrapped__() is not None


def test_files_that_have_just_changed_are_hashed_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "package" / "only.py"
    file.parent.mkdir()
    file.write_text("x = 1")
    read = calls_of_hashing(monkeypatch)
    monkeypatch.setattr(plan_module, "RECENT", 10**18)
    assert digest_of(file.parent, monkeypatch) == digest_of(file.parent, monkeypatch)
    assert len(read) == 2


def test_an_object_that_is_gone_is_compiled_anew() -> None:
    x = np.ones([2, 3], np.float32)
    first = dml.Device().compile_graph(network())
    expected = first(x)
    plan, cache = plan_module.stored_plan(first.key), default_cache()
    assert plan is not None
    assert cache is not None
    cache.path(plan.execution.keys[0]).unlink()
    program = dml.Device().compile_graph(network())
    assert not program.from_cache
    np.testing.assert_array_equal(program(x), expected)
    assert dml.Device().compile_graph(network()).from_cache


def test_progress_is_told() -> None:
    """While something is compiled; from the cache there is nothing to tell."""
    graph = dml.Graph()
    y = dml.activation_tanh(graph.input("float32", [4]))
    told: list[float] = []
    graph.compile(y, progress=told.append)
    assert told
    assert told == sorted(told)
    assert told[-1] == 1
    told.clear()
    graph.compile(y, progress=told.append)
    assert not told


def test_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE", "0")
    assert not any(dml.Device().compile_graph(network()).from_cache for _ in range(2))


@examples(100)
@given(st.data())
def test_memory_plans(data: st.DataObject) -> None:
    """Tensors that are needed at the same time do not overlap, and none takes more than all that are ever needed, nor
    than it may to lie apart."""
    count = data.draw(st.integers(1, 12))
    tensors = [temporary(f"t{i}", F32, [data.draw(st.integers(1, 100))]) for i in range(count)]
    result = Tensor("result", F32, (1,), (1,), "output")
    statements = []
    reads: list[set[int]] = []
    for number, target in enumerate((*tensors, result)):
        reads.append(set(data.draw(st.lists(st.integers(0, number - 1), max_size=3))) if number else set())
        axes = grid([1])
        value = sum((load(tensors[r], [0]) for r in reads[-1]), start=load(tensors[0] if number else result, [0]))
        statements.append(Compute(axes, (Store(target, indices(axes), value),)))
    definition = Definition((), (result,), tuple(statements), tuple(tensors))
    growth, more = data.draw(st.sampled_from([1.0, 1.3, 2.0])), data.draw(st.sampled_from([0, 128, 1 << 20]))
    plan = plan_memory(definition, replace(PLACEMENT, growth=growth, most_growth=more))
    least = plan_memory(definition, PLACEMENT)
    assert plan.size <= max(least.size, min(growth * least.size, least.size + more))
    last = [max([n for n, read in enumerate(reads) if i in read | {0}] + [i]) for i in range(count)]
    alive = [{i for i in range(count) if i <= n <= last[i]} for n in range(count + 1)]
    assert plan.least_size == max(sum(plan.sizes[tensors[i]] for i in some) for some in alive)
    assert plan.least_size <= plan.size <= sum(plan.sizes.values())
    for some in alive:
        for a, b in itertools.combinations(sorted((plan.offsets[tensors[i]], plan.sizes[tensors[i]]) for i in some), 2):
            assert a[0] + a[1] <= b[0]
    assert max(plan.offsets[t] + plan.sizes[t] for t in tensors) == plan.size


def test_tensors_lie_apart() -> None:
    """A smaller one not in the place of a larger one, but behind all others, if there is room; one as large where one
    has been; with no room at all as close together as without any to spare."""
    tensors = [temporary(f"t{i}", F32, [size]) for i, size in enumerate((64, 32, 16, 16, 64))]
    result = Tensor("result", F32, (1,), (1,), "output")
    read = [None, *tensors]
    statements = [
        Compute((axis := grid([1])), (Store(target, indices(axis), constant(1, F32) if e is None else load(e, [0])),))
        for target, e in zip((*tensors, result), read, strict=True)
    ]
    definition = Definition((), (result,), tuple(statements), tuple(tensors))

    def offsets(growth: float, most_growth: int) -> list[int]:
        plan = plan_memory(definition, replace(PLACEMENT, growth=growth, most_growth=most_growth))
        return [plan.offsets[tensor] for tensor in tensors]

    least = offsets(1, 0)
    assert plan_memory(definition).size == 96 * 4
    assert offsets(2, 1 << 20) == [0, 256, 384, 448, 0]
    assert offsets(2, 0) == offsets(1, 1 << 20) == least
    assert offsets(2, 64) == [0, 256, 384, 0, 64]  # room for one of 16


def test_plans_of_many_tensors_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places of tensors that are needed are not looked at again and again: graphs may have thousands of these."""
    looks, is_free = list[int](), memory_plan._is_free

    def counted(start: int, *others: Any) -> bool:
        looks.append(start)
        return is_free(start, *others)

    monkeypatch.setattr(memory_plan, "_is_free", counted)
    tensors = [temporary(f"t{i}", F32, [16]) for i in range(300)]
    result = Tensor("result", F32, (300,), (1,), "output")
    writes = [Compute((axis := grid([1])), (Store(t, indices(axis), constant(1, F32)),)) for t in tensors]
    reads = [Compute(grid([1]), (Store(result, (constant(i, I64),), load(t, [0])),)) for i, t in enumerate(tensors)]
    definition = Definition((), (result,), (*writes, *reads, *writes), tuple(tensors))
    plan = plan_memory(definition, replace(PLACEMENT, growth=2, most_growth=1 << 20))
    assert plan.size == 300 * 64 and len(looks) <= 600


def test_memory_is_stated() -> None:
    program = dml.Device().compile_graph(network())
    properties = program.binding_properties
    assert 0 < program.least_temporary_size <= properties.temporary_resource_size
    text = dml.explain(program)
    alive = program.least_temporary_size
    assert f"{properties.temporary_resource_size} bytes for temporary tensors: {alive} bytes of them" in text


def test_calls_share_memory_for_temporaries_one_after_another() -> None:
    program = dml.Device().compile_graph(network())
    execution = program.execution
    executable = execution.executable
    assert isinstance(executable, CpuExecutable)
    assert execution.temporary_size > 0
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    bound = program.bind([x], first := execution.new_outputs())
    bound()
    expected = program(x)
    np.testing.assert_array_equal(first[0], expected)
    (spare,) = executable._spare
    np.testing.assert_array_equal(program(x), expected)
    assert executable._spare[0] is spare  # taken for the call, and given back
    assert executable.with_thread_count(2)._spare == []
    bound.run_last()
    assert len(executable._spare) == 1  # no more than one is kept
    with pytest.raises(dml.BindingError, match="last time"):
        bound()
