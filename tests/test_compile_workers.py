"""Modules compiled side by side, by threads and by processes of their own."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opendml as dml
from opendml.description.errors import CodeGenerationError
from opendml.llvm import compile_workers
from opendml.llvm.compile_workers import compile_objects
from opendml.llvm.compiled_objects import Compilation, get_or_compile_all, object_key
from opendml.llvm.host import Machine, host_machine
from opendml.llvm.native import compile_object, load_object
from opendml.llvm.object_cache import default_cache
from opendml.targets.cpu.tuning import TUNING

MODULES = [f"define i64 @f{n}(i64 %x) {{\n  %y = mul i64 %x, {n + 3}\n  ret i64 %y\n}}\n" for n in range(12)]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers, however little there is to do."""
    monkeypatch.setattr(compile_workers, "WORKER_SIZE", 1)
    monkeypatch.setattr(compile_workers, "default_thread_count", lambda: 3)


def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The workers that are started from now on."""
    found: list[Any] = []
    original = compile_workers._started

    def start(host: object) -> object:
        found.append(original(host_machine()))
        return found[-1]

    monkeypatch.setattr(compile_workers, "_started", start)
    return found


def test_workers_compile_what_this_process_would(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = started(monkeypatch)
    told: list[float] = []
    here: list[str] = []

    def compile_slowly(text: str, host: Machine, **_: object) -> bytes:
        here.append(text)
        while len(workers) < 2:  # so that enough is left when the workers are there
            time.sleep(0.001)
        return compile_object(text, host)

    monkeypatch.setattr(compile_workers, "compile_object", compile_slowly)
    objects = compile_objects(MODULES, host_machine(), told.append)
    assert objects == [compile_object(module, host_machine()) for module in MODULES]
    assert len(workers) == 2
    assert 0 < len(here) < len(MODULES)
    assert told == sorted(told)
    assert told[-1] == 1


def test_workers_begin_before_all_modules_are_there(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they have done by then is not done again."""
    here: list[str] = []

    def compile_and_tell(text: str, host: Machine, **_: object) -> bytes:
        here.append(text)
        return compile_object(text, host)

    monkeypatch.setattr(compile_workers, "compile_object", compile_and_tell)
    with compile_workers.Compilation(host_machine()) as compilation:
        for module in MODULES[:9]:
            compilation.begin(module)
        for _ in range(6000):
            if len(compilation._found) == 9:
                break
            time.sleep(0.01)
        assert not here
        objects = compilation.finish(MODULES[9:])
    assert objects == [compile_object(module, host_machine()) for module in MODULES]
    assert set(here) <= set(MODULES[9:])


def test_workers_end_where_no_module_follows(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing the next one has failed."""
    workers = started(monkeypatch)
    with pytest.raises(ZeroDivisionError), compile_workers.Compilation(host_machine()) as compilation:
        for module in MODULES:
            compilation.begin(module)
        raise ZeroDivisionError
    for thread in compilation._workers:
        thread.join(60)
        assert not thread.is_alive()
    for worker in workers:
        assert worker is not None and worker.poll() is not None


def test_modules_are_compiled_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often they are begun; and the cache has them then."""
    monkeypatch.setenv("OPENDML_CACHE_DIR", str(tmp_path))
    expected = [compile_object(module, host_machine()) for module in MODULES[:4]]
    for is_there in (False, True):
        with Compilation(host_machine()) as compilation:
            for module in (MODULES[1], MODULES[0], MODULES[1]):
                compilation.begin(module)
            assert compilation.finish(MODULES[:4]) == (expected, is_there)


def test_few_modules_need_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = started(monkeypatch)
    assert len(compile_objects(MODULES[:2], host_machine())) == 2
    assert compile_objects([], host_machine()) == []
    assert not workers


def test_large_modules_are_compiled_by_threads_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, together = started(monkeypatch), threading.Barrier(2, timeout=60)
    monkeypatch.setattr(compile_workers, "HELPER_SIZE", len(MODULES[0]))
    monkeypatch.setattr(compile_workers, "default_thread_count", lambda: 2)

    def compile_together(text: str, host: Machine, **_: object) -> bytes:
        together.wait()
        return compile_object(text, host)

    monkeypatch.setattr(compile_workers, "compile_object", compile_together)
    assert compile_objects(MODULES[:2], host_machine()) == [compile_object(m, host_machine()) for m in MODULES[:2]]
    assert not workers


def test_a_helper_goes_first_until_it_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not until it is done; and its module is what would be compiled by anybody."""
    monkeypatch.setattr(compile_workers, "HELPER_SIZE", 1)
    monkeypatch.setattr(compile_workers, "HEAD_START", 60.0)
    monkeypatch.setattr(compile_workers, "default_thread_count", lambda: 2)
    order: list[str] = []
    left = threading.Event()

    def compile_late(text: str, host: Machine, under_way: Callable[[], None]) -> bytes:
        time.sleep(0.05)
        order.append("under way")
        under_way()
        assert left.wait(60)
        return compile_object(text, host)

    monkeypatch.setattr(compile_workers, "compile_object", compile_late)
    with compile_workers.Compilation(host_machine()) as compilation:
        compilation.begin(MODULES[0])
        order.append("left")
        left.set()
        assert compilation.finish([]) == [compile_object(MODULES[0], host_machine())]
    assert order == ["under way", "left"]


def test_compilations_say_when_they_are_under_way() -> None:
    told: list[int] = []
    expected = compile_object(MODULES[0], host_machine())
    assert compile_object(MODULES[0], host_machine(), under_way=lambda: told.append(1)) == expected
    assert told == [1]


def test_threads_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they could not compile is compiled by who asks for it, and what cannot be is said by that one."""
    monkeypatch.setattr(compile_workers, "HELPER_SIZE", 1)
    monkeypatch.setattr(compile_workers, "default_thread_count", lambda: 4)
    asker = threading.get_ident()

    def compile_here_only(text: str, host: Machine, **_: object) -> bytes:
        if threading.get_ident() != asker:
            raise MemoryError
        return compile_object(text, host)

    expected = [compile_object(module, host_machine()) for module in MODULES]
    monkeypatch.setattr(compile_workers, "compile_object", compile_here_only)
    assert compile_objects(MODULES, host_machine()) == expected
    with pytest.raises(CodeGenerationError):
        compile_objects([*MODULES, "define nothing"], host_machine())


def test_shared_modules_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the process: another cache is given what was compiled for the first."""
    shared = MODULES[0].replace("@f0", "@shared")
    for name in "first", "second":
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv("OPENDML_CACHE_DIR", str(tmp_path / name))
        _, is_there = get_or_compile_all([shared], host_machine(), shared=[shared])
        assert is_there == (name == "second")
        cache = default_cache()
        assert cache is not None
        assert cache.read(object_key(shared, host_machine())) is not None
        _, is_there = get_or_compile_all([MODULES[1]], host_machine(), shared=[shared])
        assert not is_there


@pytest.mark.parametrize("executable", ["", "/nonexistent/python", "end at once", "answer nonsense", "never answer"])
def test_workers_that_fail(executable: str, few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = {
        "end at once": "exit 1",
        "answer nonsense": "head -c 8 >/dev/null; printf '\\377\\377\\377\\000\\000\\000\\000\\000abc'",
        "never answer": "exec sleep 100",
    }
    if executable in scripts:
        if not Path("/bin/sh").exists():
            pytest.skip("needs a shell")
        script = tmp_path / "python"
        script.write_text(f"#!/bin/sh\n{scripts[executable]}\n")
        script.chmod(0o755)
        executable = str(script)
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(compile_workers, "PATIENCE", 0.2)
    objects = compile_objects(MODULES, host_machine())
    assert objects == [compile_object(module, host_machine()) for module in MODULES]


def test_errors_are_those_of_this_process(few: None) -> None:
    with pytest.raises(CodeGenerationError):
        compile_objects([*MODULES, "define nonsense"], host_machine())


def test_objects_that_refer_to_one_another() -> None:
    text = "declare i64 @f1(i64)\ndefine i64 @g(i64 %x) {\n  %y = call i64 @f1(i64 %x)\n  ret i64 %y\n}\n"
    first, second = (compile_object(module, host_machine()) for module in (text, MODULES[1]))
    assert load_object(first, ["g"], more=[second])["g"]
    with pytest.raises(CodeGenerationError):
        load_object(first, ["g"])


def test_programs_in_many_modules(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel in a module of its own gives what they all in one do; float16, barriers and profiles included."""
    monkeypatch.setenv("OPENDML_CACHE", "0")
    graph = dml.Graph(dml.Device(thread_count=2))
    x = graph.input("float16", [64, 96])
    y = dml.activation_softmax(dml.gemm(x, x, trans_b="TRANSPOSE"), axes=[1])
    desc = graph.describe([y, dml.reduce(dml.activation_tanh(y), "SUM", axes=[0]), dml.cast(y, "float32")])
    array = np.random.default_rng(0).normal(size=[64, 96]).astype(np.float16)
    expected = graph.device.compile_graph(desc)(array)
    device = dml.Device(thread_count=2, tuning=replace(TUNING, module_size=1))
    program = device.compile_graph(desc)
    for a, b in zip(program(array), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(dml.profile(program, array, seconds=0).kernels) > 3
    assert "define void @kernel1(" in dml.explain(program, llvm=True)
    assert "kernel1:" in dml.explain(program, assembly=True)


class Ending:
    """A worker that ends just behind the first look at it."""

    looks = 0

    def is_alive(self) -> bool:
        self.looks += 1
        return self.looks == 1

    def join(self, timeout: float) -> None:
        """It has ended already."""


def test_a_worker_may_end_while_others_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with compile_workers.Compilation(host_machine()) as compilation:
        worker = Ending()
        monkeypatch.setattr(compilation, "_workers", [worker])
        assert compilation.finish(MODULES[:1]) == [compile_object(MODULES[0], host_machine())]
    assert worker.looks > 1
