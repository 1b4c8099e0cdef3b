"""Threads that run one function together: how they meet, and how long they live."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from properties import HANGS
from team_programs import CACHE_LINE, NEIGHBOURS, Neighbours, layout_of, meet, run_all, wait_until

from opendml.description.errors import ConfigurationError
from opendml.llvm.host import host_machine, machine_of
from opendml.llvm.native import (
    LoadedObject,
    compile_object,
    load_object,
)
from opendml.targets.cpu.runtime.barrier_code import GROUP, MOST_GROUPS, barrier_ir
from opendml.targets.cpu.runtime.calling_code import CALLED
from opendml.targets.cpu.runtime.team_code import team_ir
from opendml.targets.cpu.runtime.thread_team import ThreadTeam, default_team

POSIX = pytest.mark.skipif(os.name != "posix", reason="POSIX only")
X86 = pytest.mark.skipif(not host_machine().triple.startswith("x86_64"), reason="x86-64 only")


def test_what_different_threads_write_lies_in_lines_of_its_own() -> None:
    """Structs are whole cache lines, and so begins in them what others than the caller write."""
    names = {"team": (0, 2, 17, 28, 29, 31), "barrier": (0, 2, 10, 11, 24), "worker": (0, 7, 9)}
    layout, structs = layout_of(*names)
    for name, fields in names.items():
        assert layout.get_abi_size(structs[name]) % CACHE_LINE == 0
        assert [layout.get_element_offset(structs[name], field) % CACHE_LINE for field in fields] == [0] * len(fields)


@pytest.mark.parametrize("spin_microseconds", [0.0, 100.0])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_barrier(neighbours_program: LoadedObject, threads: int, spin_microseconds: float) -> None:
    for _ in range(3):
        meet(neighbours_program, ThreadTeam(threads, spin_microseconds=spin_microseconds), rounds=400, times=2)


@pytest.mark.parametrize("threads", [GROUP, GROUP + 1, 4 * GROUP, MOST_GROUPS * GROUP + 3])
def test_barrier_of_groups(neighbours_program: LoadedObject, threads: int) -> None:
    """One group, groups of unequal sizes, whole ones, and larger ones than usual where their number is limited."""
    meet(neighbours_program, ThreadTeam(threads), rounds=20, times=3)


@pytest.mark.parametrize("spin_microseconds", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("threads", [2, 3, 2 * GROUP + 1])
def test_some_come_late_to_barriers(late_program: LoadedObject, threads: int, spin_microseconds: float) -> None:
    """Those who wait spin, offer their processors to others, and sleep; behind some barriers they sleep sooner."""
    meet(late_program, ThreadTeam(threads, spin_microseconds=spin_microseconds), rounds=66, times=2)


@pytest.mark.parametrize("threads", [CALLED, CALLED + 1, CALLED + 2, 2 * CALLED + 2, CALLED * (CALLED + 1) + 2])
def test_workers_call_others(neighbours_program: LoadedObject, threads: int) -> None:
    """Up to three levels of them: in a team's first dispatch nobody sleeps."""
    for _ in range(4):
        meet(neighbours_program, ThreadTeam(threads), rounds=2, times=2)


def test_thread_count_may_change_from_run_to_run(neighbours_program: LoadedObject) -> None:
    most = 2 * CALLED + 3
    team = ThreadTeam(most)
    for threads in (2, 5, 1, 3, most, CALLED + 1, 2, CALLED + 2, most, 4):
        run_all(neighbours_program, team, threads, rounds=20)
    run_all(neighbours_program, team, 100, rounds=20)


def test_sleeping_workers_wake(neighbours_program: LoadedObject) -> None:
    for _ in range(10):
        team, found = ThreadTeam(3, spin_microseconds=5), []
        for _ in range(4):
            time.sleep(0.001)
            found.append(run_all(neighbours_program, team, team.thread_count, rounds=3))
        assert found[:2] == [3, 3]
        team.stop()


def test_dispatches_from_several_python_threads(neighbours_program: LoadedObject) -> None:
    team, used = ThreadTeam(2), []

    def work() -> None:
        for _ in range(200):
            buffers = Neighbours(2, rounds=5)
            threads = team.run(neighbours_program["entry"], buffers.address)
            buffers.check(threads)
            used.append(threads)

    python_threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in python_threads:
        thread.start()
    for thread in python_threads:
        thread.join()
    assert len(used) == 800
    assert set(used) <= {1, 2}


def test_busy_team_runs_alone(hold_program: LoadedObject, neighbours_program: LoadedObject) -> None:
    team = ThreadTeam(2)
    started, release = ctypes.c_int64(0), ctypes.c_int64(0)
    args = (ctypes.c_uint64 * 2)(ctypes.addressof(started), ctypes.addressof(release))
    holder = threading.Thread(target=team.run, args=(hold_program["entry"], ctypes.addressof(args)))
    holder.start()
    while started.value < 2:
        time.sleep(0.001)
    buffers = Neighbours(2, rounds=10)
    assert team.run(neighbours_program["entry"], buffers.address) == 1
    buffers.check(1)
    release.value = 1
    holder.join()
    buffers = Neighbours(2, rounds=10)
    assert team.run(neighbours_program["entry"], buffers.address) == 2


def test_stopped_team_runs_alone(neighbours_program: LoadedObject) -> None:
    team = ThreadTeam(3)
    assert team.run(neighbours_program["entry"], Neighbours(3, rounds=2).address) == 3
    team.stop()
    team.stop()
    buffers = Neighbours(3, rounds=2)
    assert team.run(neighbours_program["entry"], buffers.address) == 1
    buffers.check(1)


def native_threads() -> set[str]:
    return {path.name for path in Path("/proc/self/task").iterdir()}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_team_ends_its_threads_when_it_dies(empty_program: LoadedObject) -> None:
    gc.collect()
    before = native_threads()
    team = ThreadTeam(4)
    team.run(empty_program["entry"], 0)
    workers = native_threads() - before
    assert len(workers) == 3
    del team
    # The kernel wakes whoever joins a thread before it takes the thread off this list.
    wait_until(lambda: not native_threads() & workers)


def test_thread_count_is_checked() -> None:
    for thread_count in (0, -1, 1 << 40):
        with pytest.raises(ConfigurationError, match="thread_count"):
            ThreadTeam(thread_count)


def test_spin_time_of_the_environment_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("-1", "nan", "long", "inf"):
        monkeypatch.setenv("OPENDML_SPIN_MICROSECONDS", text)
        with pytest.raises(ConfigurationError, match="OPENDML_SPIN_MICROSECONDS"):
            ThreadTeam(2)


def test_default_team_is_shared_and_grows() -> None:
    assert default_team(1) is default_team(2)
    larger = default_team(900)
    assert larger.thread_count >= 900
    assert default_team(2) is larger


PRELUDE = """
import ctypes, os, sys, threading, time
from opendml.targets.cpu.runtime.thread_team import default_team
sys.path.insert(0, os.environ["TEST_DIRECTORY"])
from team_programs import NEIGHBOURS, Neighbours, loaded
program = loaded(NEIGHBOURS)
def run_new(threads):
    global program
    program = loaded(NEIGHBOURS)  # of which nothing is known: threads of the other one may be spared by now
    return run(threads)
def run(threads):
    buffers = Neighbours(threads, rounds=50)
    used = default_team(threads).run(program["entry"], buffers.address, threads)
    buffers.check(used)
    return used
"""

FORK = """
import warnings
warnings.simplefilter("ignore")
assert run(3) == 3
busy = threading.Thread(target=lambda: [run(3) for _ in range(300)])
busy.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        os._exit(0 if run_new(3) == 3 and run(2) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
busy.join()
assert run_new(3) == 3
"""

EXIT = """
def forever():
    while True:
        run(3)
for _ in range(2):
    threading.Thread(target=forever, daemon=True).start()
time.sleep(0.2)
"""


@pytest.mark.parametrize("script", [pytest.param(FORK, marks=POSIX, id="fork"), pytest.param(EXIT, id="exit")])
def test_in_a_process_of_its_own(script: str) -> None:
    environment = {**os.environ, "TEST_DIRECTORY": str(Path(__file__).parent)}
    command = [sys.executable, "-c", PRELUDE + script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGS, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_workers_have_room_for_large_frames() -> None:
    source = """
define void @entry(ptr %args, i64 %index, i64 %count, ptr %barrier) {
start:
  %frame = alloca [6291456 x i8], align 64
  br label %touch
touch:
  %end = phi i64 [ 6291456, %start ], [ %offset, %touch ]
  %offset = sub i64 %end, 4096
  %address = getelementptr i8, ptr %frame, i64 %offset
  store volatile i8 1, ptr %address
  %more = icmp ne i64 %offset, 0
  br i1 %more, label %touch, label %leave
leave:
  %cell = getelementptr i8, ptr %args, i64 %index
  store i8 1, ptr %cell
  ret void
}
"""
    code = load_object(compile_object(source, host_machine()), ["entry"])
    done = (ctypes.c_uint8 * 3)()
    assert ThreadTeam(3).run(code["entry"], ctypes.addressof(done)) == 3
    assert list(done) == [1] * 3


@X86
def test_floating_point_environment_is_standard_in_all_threads(neighbours_program: LoadedObject) -> None:
    source = """
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
define void @set_control(ptr %value) {
  call void @llvm.x86.sse.ldmxcsr(ptr %value)
  ret void
}
define void @get_control(ptr %value) {
  call void @llvm.x86.sse.stmxcsr(ptr %value)
  ret void
}
define void @entry(ptr %args, i64 %index, i64 %count, ptr %barrier) {
  %cell = getelementptr i32, ptr %args, i64 %index
  call void @llvm.x86.sse.stmxcsr(ptr %cell)
  ret void
}
"""
    code = load_object(compile_object(source, host_machine()), ["set_control", "get_control", "entry"])
    control = {name: ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code[name]) for name in ("set_control", "get_control")}
    flush_to_zero = ctypes.c_uint32(0x9FC0)
    before, inside, after = ctypes.c_uint32(), (ctypes.c_uint32 * 3)(), ctypes.c_uint32()
    control["get_control"](ctypes.addressof(before))
    control["set_control"](ctypes.addressof(flush_to_zero))
    try:
        threads = ThreadTeam(3).run(code["entry"], ctypes.addressof(inside))  # Workers inherit the flags.
        control["get_control"](ctypes.addressof(after))
    finally:
        control["set_control"](ctypes.addressof(before))
    assert threads == 3
    assert list(inside) == [0x1F80] * 3
    assert after.value & 0xFFC0 == 0x9FC0


@pytest.mark.parametrize(
    "triple",
    ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-macosx14.0", "x86_64-pc-windows-msvc-elf"],
)
def test_team_compiles_for_other_platforms(triple: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    host = machine_of(triple, "baseline")
    object_file = compile_object(team_ir(host), host)
    starter = b"CreateThread" if "windows" in triple else b"pthread_create"
    assert starter in object_file
    assert compile_object(NEIGHBOURS + barrier_ir(host), host)
