"""Threads that run one function together: how they meet, wait, sleep and are waked."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from properties import HANGS

from opendml.description.errors import ConfigurationError
from opendml.llvm.host import host_machine, machine_of, usable_processors
from opendml.llvm.native import (
    LoadedObject,
    compile_object,
    load_object,
)
from opendml.targets.cpu.runtime import thread_team
from opendml.targets.cpu.runtime.barrier_code import GROUP, MOST_GROUPS, barrier_ir
from opendml.targets.cpu.runtime.calling_code import CALLED
from opendml.targets.cpu.runtime.team_code import LONG, team_ir
from opendml.targets.cpu.runtime.team_types import LONGEST, WAKINGS, types_ir
from opendml.targets.cpu.runtime.thread_team import ThreadTeam, default_team
from opendml.targets.cpu.runtime.waking_code import EACH, FIRST_GUESS, LONGEST_WAKING, SHORTEST_PAUSE

POSIX = pytest.mark.skipif(os.name != "posix", reason="POSIX only")
X86 = pytest.mark.skipif(not host_machine().triple.startswith("x86_64"), reason="x86-64 only")

EMPTY = "define void @entry(ptr %args, i64 %index, i64 %count, ptr %barrier) {\n  ret void\n}\n"

# args: 0 one cell of 64 bytes a thread, 1 one error count a thread (in such cells too), 2 the number of rounds.
# In each round every thread writes the round into its cell, waits, reads all its neighbours' cells, and waits again.
NEIGHBOURS = """
define void @entry(ptr %args, i64 %index, i64 %count, ptr %barrier) {
start:
  %cells = load ptr, ptr %args, align 8
  %errors_at = getelementptr ptr, ptr %args, i64 1
  %errors = load ptr, ptr %errors_at, align 8
  %rounds_at = getelementptr ptr, ptr %args, i64 2
  %rounds = load i64, ptr %rounds_at, align 8
  %offset = shl i64 %index, 6
  %cell = getelementptr i8, ptr %cells, i64 %offset
  %error = getelementptr i8, ptr %errors, i64 %offset
  %after = add i64 %index, 1
  %neighbour = urem i64 %after, %count
  %neighbour_offset = shl i64 %neighbour, 6
  %neighbour_cell = getelementptr i8, ptr %cells, i64 %neighbour_offset
  br label %round
round:
  %number = phi i64 [ 0, %start ], [ %next, %round ]
  %next = add i64 %number, 1
  store i64 %next, ptr %cell, align 8
  call void @barrier_wait(ptr %barrier, i64 %index, i64 %count)
  %read = load i64, ptr %neighbour_cell, align 8
  %wrong = icmp ne i64 %read, %next
  %one = zext i1 %wrong to i64
  %old = load i64, ptr %error, align 8
  %new = add i64 %old, %one
  store i64 %new, ptr %error, align 8
  call void @barrier_wait(ptr %barrier, i64 %index, i64 %count)
  %more = icmp ult i64 %next, %rounds
  br i1 %more, label %round, label %leave
leave:
  ret void
}
"""

# So many stores that nobody leaves out.
TAKE_TURNS = """
define internal void @take_turns(i64 %times) {
start:
  %place = alloca i64, align 8
  br label %turn
turn:
  %done = phi i64 [ 0, %start ], [ %done_next, %turn ]
  store volatile i64 %done, ptr %place, align 8
  %done_next = add i64 %done, 1
  %is_over = icmp uge i64 %done_next, %times
  br i1 %is_over, label %leave, label %turn
leave:
  ret void
}
"""

# The same, where one thread after the other comes late to the first of these barriers: by some nanoseconds, up to some
# milliseconds.
LATE = (
    NEIGHBOURS.replace(
        "  call void @barrier_wait(ptr %barrier, i64 %index, i64 %count)\n  %read",
        "  call void @come_late(i64 %number, i64 %index, i64 %count)\n"
        "  call void @barrier_wait(ptr %barrier, i64 %index, i64 %count)\n  %read",
    )
    + """
define internal void @come_late(i64 %number, i64 %index, i64 %count) {
start:
  %who = urem i64 %number, %count
  %is_on_time = icmp ne i64 %who, %index
  br i1 %is_on_time, label %leave, label %begin
begin:
  %digits = urem i64 %number, 22
  %times = shl i64 1, %digits
  call void @take_turns(i64 %times)
  br label %leave
leave:
  ret void
}
"""
    + TAKE_TURNS
)

# Adds 1 to the cell of every index, then spins while args[1] points to a zero: to keep a team busy.
HOLD = """
define void @entry(ptr %args, i64 %index, i64 %count, ptr %barrier) {
start:
  %started = load ptr, ptr %args, align 8
  %before = atomicrmw add ptr %started, i64 1 seq_cst, align 8
  %release_at = getelementptr ptr, ptr %args, i64 1
  %release = load ptr, ptr %release_at, align 8
  br label %check
check:
  %value = load atomic i64, ptr %release acquire, align 8
  %is_held = icmp eq i64 %value, 0
  br i1 %is_held, label %check, label %leave
leave:
  ret void
}
"""

# Takes as many turns as args[0] says where it is run by several threads, as args[1] says by one.
TURNS = (
    """
define void @entry(ptr %args, i64 %index, i64 %count, ptr %barrier) {
  %is_alone = icmp eq i64 %count, 1
  %alone_at = getelementptr i64, ptr %args, i64 1
  %turns_at = select i1 %is_alone, ptr %alone_at, ptr %args
  %turns = load i64, ptr %turns_at, align 8
  call void @take_turns(i64 %turns)
  ret void
}
"""
    + TAKE_TURNS
)

# One thread comes late to those of three barriers that have a bit in args[0], by as many turns as args has for so many
# threads.
LATE_BY_COUNT = (
    """
define void @entry(ptr %args, i64 %index, i64 %count, ptr %barrier) {
start:
  %turns_at = getelementptr i64, ptr %args, i64 %count
  %turns = load i64, ptr %turns_at, align 8
  %barriers = load i64, ptr %args
  %is_one = icmp eq i64 %index, 1
  br label %round
round:
  %number = phi i64 [ 0, %start ], [ %number_next, %meet ]
  %shifted = lshr i64 %barriers, %number
  %is_asked = trunc i64 %shifted to i1
  %is_late = and i1 %is_one, %is_asked
  br i1 %is_late, label %take, label %meet
take:
  call void @take_turns(i64 %turns)
  br label %meet
meet:
  call void @barrier_wait(ptr %barrier, i64 %index, i64 %count)
  %number_next = add i64 %number, 1
  %is_over = icmp eq i64 %number_next, 3
  br i1 %is_over, label %leave, label %round
leave:
  ret void
}
"""
    + TAKE_TURNS
)


ALL_BARRIERS, SECOND_BARRIER = 0b111, 0b010
CACHE_LINE = 64


@pytest.fixture(scope="session")
def late_by_count_program() -> LoadedObject:
    return load_object(compile_object(LATE_BY_COUNT + barrier_ir(host_machine()), host_machine()), ["entry"])


@pytest.fixture(scope="session")
def empty_program() -> LoadedObject:
    return load_object(compile_object(EMPTY, host_machine()), ["entry"])


@pytest.fixture(scope="session")
def neighbours_program() -> LoadedObject:
    return load_object(compile_object(NEIGHBOURS + barrier_ir(host_machine()), host_machine()), ["entry"])


@pytest.fixture(scope="session")
def late_program() -> LoadedObject:
    return load_object(compile_object(LATE + barrier_ir(host_machine()), host_machine()), ["entry"])


@pytest.fixture(scope="session")
def turns_program() -> LoadedObject:
    return load_object(compile_object(TURNS, host_machine()), ["entry"])


@pytest.fixture(scope="session")
def hold_program() -> LoadedObject:
    return load_object(compile_object(HOLD, host_machine()), ["entry"])


class Neighbours:
    """Buffers of the NEIGHBOURS program for up to `threads` threads."""

    def __init__(self, threads: int, rounds: int) -> None:
        self.cells = (ctypes.c_int64 * (8 * threads))()
        self.errors = (ctypes.c_int64 * (8 * threads))()
        self.rounds = rounds
        self.args = (ctypes.c_uint64 * 3)(ctypes.addressof(self.cells), ctypes.addressof(self.errors), rounds)
        self.address = ctypes.addressof(self.args)

    def check(self, threads: int) -> None:
        assert list(self.errors[::8]) == [0] * (len(self.errors) // 8)
        assert list(self.cells[: 8 * threads : 8]) == [self.rounds] * threads
        assert not any(self.cells[8 * threads :: 8])


def run_all(program: LoadedObject, team: ThreadTeam, threads: int, rounds: int) -> int:
    """Run a program of neighbours by so many threads, but for those that are spared if barriers happen to be late. By
    how many it was."""
    buffers = Neighbours(team.thread_count, rounds)
    found = team.run(program["entry"], buffers.address, threads)
    threads = min(threads, team.thread_count)
    assert 1 <= found <= threads
    buffers.check(found)
    return found


def run_whole(program: LoadedObject, team: ThreadTeam, rounds: int) -> None:
    """The same by all threads of a team that has never less to do: none is spared if they are more than processors."""
    found = run_all(program, team, team.thread_count, rounds)
    assert found == team.thread_count or team.thread_count <= usable_processors()


def meet(program: LoadedObject, team: ThreadTeam, *, rounds: int, times: int) -> None:
    """Run a program of neighbours so often, by the threads of a team, and end that."""
    for _ in range(times):
        run_whole(program, team, rounds)
    team.stop()


def layout_of(*names: str) -> tuple[Any, dict[str, Any]]:
    """How this machine lays out some of the team's structs, and these."""
    llvm.initialize_native_target()
    module = llvm.parse_assembly(types_ir() + "".join(f"\n@{name} = global %{name} zeroinitializer" for name in names))
    layout = llvm.Target.from_default_triple().create_target_machine().target_data
    return layout, {variable.name: variable.global_value_type for variable in module.global_variables}


def test_what_different_threads_write_lies_in_lines_of_its_own() -> None:
    """Structs are whole cache lines, and so begins in them what others than the caller write."""
    names = {"team": (0, 2, 17, 32), "barrier": (0, 2, 10, 11, 26), "worker": (0, 7, 9)}
    layout, structs = layout_of(*names)
    for name, fields in names.items():
        assert layout.get_abi_size(structs[name]) % CACHE_LINE == 0
        assert [layout.get_element_offset(structs[name], field) % CACHE_LINE for field in fields] == [0] * len(fields)


@pytest.mark.parametrize("spin_microseconds", [0.0, 100.0])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_barrier(neighbours_program: LoadedObject, threads: int, spin_microseconds: float) -> None:
    meet(neighbours_program, ThreadTeam(threads, spin_microseconds=spin_microseconds), rounds=400, times=5)


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
    team = ThreadTeam(3, spin_microseconds=5)
    for _ in range(30):
        time.sleep(0.001)
        run_whole(neighbours_program, team, rounds=3)


def wait_until(holds: Callable[[], bool], pause: float = 0.01) -> None:
    """Look now and then."""
    for _ in range(1 << 22 if pause == 0 else round(HANGS / pause)):
        if holds():
            return
        time.sleep(pause)
    pytest.fail("it does not come to pass")


def run_for(program: LoadedObject, team: ThreadTeam, alone: int) -> int:
    """Run what one thread does in so many microseconds; by how many threads."""
    buffers = Neighbours(team.thread_count, rounds=3)
    threads = team.run(program["entry"], buffers.address, alone=alone)
    buffers.check(threads)
    return threads


def run_alone(program: LoadedObject, team: ThreadTeam, alone: Callable[[], int]) -> None:
    """The same until the workers sleep, and nobody waits for them."""
    wait_until(lambda: run_for(program, team, alone()) == 1)


def test_brief_work_waits_for_nobody_who_sleeps(neighbours_program: LoadedObject) -> None:
    """Workers that do not spin are never waked for it, nor started; what takes long enough has them."""
    team = ThreadTeam(3, spin_microseconds=0)
    assert run_for(neighbours_program, team, 10) == 1
    for alone in (1 << 20, 3 * LONGEST_WAKING):
        assert run_for(neighbours_program, team, alone) == 3
        run_alone(neighbours_program, team, lambda: 0)


@pytest.mark.parametrize("threads", [20, 27])
def test_fewer_are_waked_for_little_work(neighbours_program: LoadedObject, threads: int) -> None:
    """About as many as make up for how long it takes to wake them; all of them for what is long, and of few."""
    team, alone = ThreadTeam(40, spin_microseconds=0), EACH * threads**2
    assert LONGEST_WAKING < alone < LONGEST
    assert run_for(neighbours_program, team, LONGEST) == 40
    wait_until(lambda: run_for(neighbours_program, team, alone) == threads)  # as soon as one of them sleeps
    assert team.run(neighbours_program["entry"], Neighbours(8, rounds=3).address, 8, alone=alone) == 8
    assert run_for(neighbours_program, team, LONGEST) == 40


def test_all_are_waked_for_little_work_of_a_loop(neighbours_program: LoadedObject) -> None:
    team = ThreadTeam(40, spin_microseconds=1e7)
    assert [run_for(neighbours_program, team, EACH * 20**2) for _ in range(5)] == [40] * 5


def test_workers_measure_how_long_they_take_to_wake_up(neighbours_program: LoadedObject) -> None:
    """By how long they had nothing to do. What they save others is compared with that."""
    team = ThreadTeam(2, spin_microseconds=0)
    assert team.waking_microseconds == (FIRST_GUESS,) * WAKINGS
    found = set()
    for pause in (0.001, 0.05) * 20:
        time.sleep(pause)
        assert run_for(neighbours_program, team, LONG) == 2
        found.add(team.waking_microseconds)
    assert len(found) > 1
    assert all(0 < waking <= LONGEST_WAKING for wakings in found for waking in wakings)
    changed = [n for n, waking in enumerate(team.waking_microseconds) if waking != FIRST_GUESS]
    assert all(SHORTEST_PAUSE << n > 1000 for n in changed)  # none slept for less
    run_alone(neighbours_program, team, lambda: 2 * min(team.waking_microseconds) - 2)
    assert run_for(neighbours_program, team, 2 * max(team.waking_microseconds)) == 2


def test_what_is_not_measured_is_tried_again(neighbours_program: LoadedObject) -> None:
    """Each time that nobody is waked, less is expected of it the next time."""
    team, runs = ThreadTeam(2, spin_microseconds=0), 1
    assert run_for(neighbours_program, team, 2 * FIRST_GUESS - 2) == 1
    while run_for(neighbours_program, team, 2 * FIRST_GUESS - 2) == 1:
        assert runs < WAKINGS  # one at least for each length of a pause
        runs += 1
    assert min(team.waking_microseconds) < FIRST_GUESS


@pytest.mark.skipif(usable_processors() < 2, reason="threads do not spin where each has no processor")
@pytest.mark.parametrize("have_slept", [False, True])
def test_brief_work_that_comes_soon_wakes_workers(neighbours_program: LoadedObject, have_slept: bool) -> None:
    """What comes soon after what was done alone has them started, or waked, for the next time."""
    team = ThreadTeam(2, spin_microseconds=2e4 if have_slept else 1e7)
    for sleeps in range(1 + have_slept):
        assert run_for(neighbours_program, team, 0) == 1
        wait_until(lambda: run_for(neighbours_program, team, 0) == 2, pause=0)
        if have_slept and not sleeps:
            wait_until(lambda: run_for(neighbours_program, team, 0) == 1, pause=0.5)
    team.stop()
    assert run_for(neighbours_program, team, 0) == 1


def test_workers_spin_as_long_as_it_takes_to_wake_them(
    neighbours_program: LoadedObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless they are told how long; either way they wake up."""
    for told in (None, "30"):
        monkeypatch.delenv("OPENDML_SPIN_MICROSECONDS", raising=False)
        if told is not None:
            monkeypatch.setenv("OPENDML_SPIN_MICROSECONDS", told)
        team = ThreadTeam(2)
        for pause in (0, 1e-5, 3e-4, 1e-3, 1e-2) * 4:
            time.sleep(pause)
            for alone in (0, 100, LONG):
                run_for(neighbours_program, team, alone)


def threads_of(program: LoadedObject, *, together: int, alone: int, expected: int, times: int) -> list[int]:
    """By how many threads so many runs are done which take that many turns, and are expected to take microseconds."""
    return numbers_of_threads(program, ThreadTeam(2, spin_microseconds=1e7), (together, alone), expected, times)


def numbers_of_threads(
    program: LoadedObject, team: ThreadTeam, turns: Sequence[int], expected: int, times: int
) -> list[int]:
    """By how many threads so many runs of a program are done."""
    args = (ctypes.c_int64 * len(turns))(*turns)
    found = [team.run(program["entry"], ctypes.addressof(args), alone=expected) for _ in range(times)]
    team.stop()
    return found


@pytest.mark.skipif(usable_processors() < 2, reason="threads do not spin where each has no processor")
def test_what_takes_longer_than_alone_is_done_alone(turns_program: LoadedObject) -> None:
    """By more and more dispatches at a time; where that is no gain, or what one thread takes is not known, by fewer."""
    more, many, few, brief = 4 * 10**7, 10**7, 1, 2 * FIRST_GUESS
    found = threads_of(turns_program, together=many, alone=few, expected=brief, times=60)
    assert 2 in found
    assert found.count(2) <= 15  # one of 2, 4, 8, 16 and 32, and those that come too soon after another process's
    found = threads_of(turns_program, together=many, alone=more, expected=brief, times=60)
    assert 1 in found
    assert found.count(1) <= 15
    assert 1 not in threads_of(turns_program, together=many, alone=few, expected=LONGEST, times=20)


@pytest.mark.parametrize(
    ("turns", "others", "found_at_most"),
    [
        ({8: 10**8, 7: 1}, 10**8, {8: 15, 6: 12, 4: 12}),
        ({3: 10**8, 2: 1}, 0, {3: 15, 1: 40}),
        ({2: 10**8, 1: 1}, 0, {2: 15}),
        ({8: 10**8, 7: 4 * 10**8, 4: 1}, 4 * 10**8, {8: 18, 7: 9, 3: 12, 2: 12}),
        ({8: 3 * 10**8, 7: 5 * 10**7, 6: 1}, 10**8, {8: 15, 7: 25, 5: 12, 4: 12, 3: 12}),
        ({8: 10**7, 7: 10**8, 4: 10**8}, 0, {7: 12, 4: 12}),
    ],
    ids=["an eighth", "one of three", "one of two", "half", "two of eight", "nobody"],
)
def test_threads_are_spared_where_that_is_sooner(
    late_by_count_program: LoadedObject,
    monkeypatch: pytest.MonkeyPatch,
    turns: Mapping[int, int],
    others: int,
    found_at_most: Mapping[int, int],
) -> None:
    """If some are late at barriers: for 2, 4, 8 and more dispatches, each behind a trial; where it is no gain, or none
    any longer, it is tried again after as many. Fewer threads may be late as well: then still fewer are tried."""
    monkeypatch.setattr(thread_team, "usable_processors", lambda: 8)
    args = [ALL_BARRIERS, *(turns.get(count, others) for count in range(1, 9))]
    team = ThreadTeam(max(turns), spin_microseconds=20)
    found = numbers_of_threads(late_by_count_program, team, args, LONG, 40)
    assert set(found) <= {*turns, *found_at_most}
    assert {count: found.count(count) for count in found_at_most if found.count(count) > found_at_most[count]} == {}
    assert set(found) >= set(turns)


def test_nobody_is_spared_of_more_threads_than_processors(
    late_by_count_program: LoadedObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They sleep at every barrier."""
    monkeypatch.setattr(thread_team, "usable_processors", lambda: 4)
    team = ThreadTeam(8, spin_microseconds=20)
    assert set(numbers_of_threads(late_by_count_program, team, [ALL_BARRIERS, *[10**6] * 8], LONG, 20)) == {8}


def test_threads_are_spared_where_one_is_late_behind_the_barrier_that_waits_for_sleepers(
    late_by_count_program: LoadedObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All wait at the first one for those that are waked, which says nothing; what comes late behind it does."""
    monkeypatch.setattr(thread_team, "usable_processors", lambda: 8)
    args = (ctypes.c_int64 * 9)(SECOND_BARRIER, *[10**8] * 6, 1, 10**8)
    team = ThreadTeam(8, spin_microseconds=5000)
    found = []
    for _ in range(8):
        time.sleep(0.03)  # workers sleep, and are awake sooner than the others have spun
        found.append(team.run(late_by_count_program["entry"], ctypes.addressof(args)))
    team.stop()
    assert found[:2] == [8, 8]
    assert 7 in found


def test_brief_and_other_work_from_several_python_threads(neighbours_program: LoadedObject) -> None:
    """Workers that fall asleep, are waked with work or without, and come in late."""
    team = ThreadTeam(2, spin_microseconds=20)

    def work(number: int) -> None:
        random = np.random.default_rng(number)
        for pause in random.integers(0, 120, 400):
            time.sleep(pause * 1e-6)
            run_for(neighbours_program, team, int(random.choice([0, 1000, LONG])))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))


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
from opendml.llvm.host import host_machine
from opendml.llvm.native import compile_object, load_object
from opendml.targets.cpu.runtime.barrier_code import barrier_ir
from opendml.targets.cpu.runtime.thread_team import default_team
sys.path.insert(0, os.environ["TEST_DIRECTORY"])
from test_thread_team import NEIGHBOURS, Neighbours
program = load_object(compile_object(NEIGHBOURS + barrier_ir(host_machine()), host_machine()), ["entry"])
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
        os._exit(0 if run(3) == 3 and run(2) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
busy.join()
assert run(3) == 3
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
