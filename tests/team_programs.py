"""Programs that threads of a team run together, and how tests run them."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import pytest
from properties import HANGS

from opendml.llvm.host import host_machine
from opendml.llvm.native import LoadedObject, compile_object, load_object
from opendml.targets.cpu.runtime.barrier_code import barrier_ir
from opendml.targets.cpu.runtime.team_types import types_ir
from opendml.targets.cpu.runtime.thread_team import ThreadTeam


def loaded(text: str) -> LoadedObject:
    """A program that threads of a team run together."""
    return load_object(compile_object(text + barrier_ir(host_machine()), host_machine()), ["entry"])


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

# Takes as many turns as args[count] says where it is run by so many threads.
TURNS_BY_COUNT = (
    """
define void @entry(ptr %args, i64 %index, i64 %count, ptr %barrier) {
  %turns_at = getelementptr i64, ptr %args, i64 %count
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


def meet(program: LoadedObject, team: ThreadTeam, *, rounds: int, times: int) -> None:
    """Run a program of neighbours so often, by the threads of a team, and end that. None is spared before two runs have
    been judged."""
    found = [run_all(program, team, team.thread_count, rounds) for _ in range(times)]
    assert found[:2] == [team.thread_count] * min(times, 2)
    team.stop()


def layout_of(*names: str) -> tuple[Any, dict[str, Any]]:
    """How this machine lays out some of the team's structs, and these."""
    llvm.initialize_native_target()
    module = llvm.parse_assembly(types_ir() + "".join(f"\n@{name} = global %{name} zeroinitializer" for name in names))
    layout = llvm.Target.from_default_triple().create_target_machine().target_data
    return layout, {variable.name: variable.global_value_type for variable in module.global_variables}


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
