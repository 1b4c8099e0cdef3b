"""What a thread has not begun between two barriers others do for it, each share once."""

from __future__ import annotations

import ctypes
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from execution import Array
from hypothesis import HealthCheck, given
from nest_running import PROGRAMS, Case, cases, check_case
from properties import examples
from team_programs import CACHE_LINE, TAKE_TURNS, layout_of, loaded
from test_pools import texts

import opendml as dml
from opendml.llvm.builder import Builder
from opendml.llvm.native import LoadedObject
from opendml.targets.cpu.code import entry_code
from opendml.targets.cpu.code.interface import ENTRY
from opendml.targets.cpu.code.share_code import ShareWriter
from opendml.targets.cpu.runtime.barrier_code import MOST_POOLS, POOLS_OFFSET
from opendml.targets.cpu.runtime.thread_team import ThreadTeam
from opendml.targets.cpu.tuning import TUNING

WORD = 8

# args: 0 how often each share of each round was done, 1 how many were not done once when the next round had begun, 2
# how many were done for others, 3 the number of rounds, 4 turns. In each round one thread comes late to its share by so
# many turns. Who does a share sees that all of the round before have been done.
SHARES = (
    """
define void @entry(ptr %args, i64 %index, i64 %count, ptr %barrier) {
start:
  %done = load ptr, ptr %args, align 8
  %errors_at = getelementptr ptr, ptr %args, i64 1
  %errors = load ptr, ptr %errors_at, align 8
  %acted_at = getelementptr ptr, ptr %args, i64 2
  %acted = load ptr, ptr %acted_at, align 8
  %rounds_at = getelementptr i64, ptr %args, i64 3
  %rounds = load i64, ptr %rounds_at, align 8
  %turns_at = getelementptr i64, ptr %args, i64 4
  %turns = load i64, ptr %turns_at, align 8
  %first = call i64 @first_generation(ptr %barrier, i64 %count)
  br label %round
round:
  %number = phi i64 [ 0, %start ], [ %number_next, %behind ]
  %generation = add i64 %first, %number
  %number_next = add i64 %number, 1
  %is_last = icmp eq i64 %number_next, %rounds
  %late = urem i64 %number, %count
  %is_late = icmp eq i64 %late, %index
  br i1 %is_late, label %come_late, label %begin
come_late:
  call void @take_turns(i64 %turns)
  br label %begin
begin:
  %own = call i64 @share_begin(ptr %barrier, i64 %index, i64 %count, i64 %generation)
  br label %again
again:
  %who = phi i64 [ %own, %begin ], [ %next, %wait ]
  %has_share = icmp sge i64 %who, 0
  br i1 %has_share, label %work, label %wait
work:
  %is_other = icmp ne i64 %who, %index
  %other = zext i1 %is_other to i64
  %acted_before = atomicrmw add ptr %acted, i64 %other monotonic
  %row = mul i64 %number, %count
  %cell_number = add i64 %row, %who
  %cell = getelementptr i64, ptr %done, i64 %cell_number
  %is_first_round = icmp eq i64 %number, 0
  br i1 %is_first_round, label %do, label %look
look:
  %thread = phi i64 [ 0, %work ], [ %thread_next, %look ]
  %row_before = sub i64 %row, %count
  %number_before = add i64 %row_before, %thread
  %before_at = getelementptr i64, ptr %done, i64 %number_before
  %before = load i64, ptr %before_at, align 8
  %is_wrong = icmp ne i64 %before, 1
  %wrong = zext i1 %is_wrong to i64
  %errors_before = atomicrmw add ptr %errors, i64 %wrong monotonic
  %thread_next = add i64 %thread, 1
  %is_more = icmp ult i64 %thread_next, %count
  br i1 %is_more, label %look, label %do
do:
  %old = load i64, ptr %cell, align 8
  %new = add i64 %old, 1
  store i64 %new, ptr %cell, align 8
  br label %wait
wait:
  %next = call i64 @behind(ptr %barrier, i64 %who, i64 %index, i64 %count, i64 %generation, i1 %is_last)
  %is_there = icmp sge i64 %next, 0
  br i1 %is_there, label %again, label %behind
behind:
  br i1 %is_last, label %leave, label %round
leave:
  ret void
}

define internal i64 @behind(ptr %barrier, i64 %who, i64 %index, i64 %count, i64 %generation, i1 %is_last) {
start:
  br i1 %is_last, label %end, label %meet
end:
  %left = call i64 @share_left(ptr %barrier, i64 %index, i64 %count, i64 %generation)
  ret i64 %left
meet:
  %next = call i64 @share_wait(ptr %barrier, i64 %who, i64 %count, i64 %generation, i1 true)
  ret i64 %next
}
"""
    + TAKE_TURNS
)


@pytest.fixture(scope="session")
def shares_program() -> LoadedObject:
    return loaded(SHARES)


def run_shares(program: LoadedObject, team: ThreadTeam, threads: int, rounds: int, turns: int) -> tuple[int, int]:
    """By how many threads it was, and how many shares were done by others than their threads."""
    done = (ctypes.c_int64 * (rounds * threads))()
    errors, acted = ctypes.c_int64(), ctypes.c_int64()
    args = (ctypes.c_uint64 * 5)(*map(ctypes.addressof, (done, errors, acted)), rounds, turns)
    found = team.run(program["entry"], ctypes.addressof(args), threads)
    assert errors.value == 0
    assert list(done) == [1] * (rounds * found) + [0] * (rounds * (threads - found))
    return found, acted.value


@pytest.mark.parametrize("spin_microseconds", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("threads", [1, 2, 3, 9, 30, MOST_POOLS])
def test_each_share_is_done_once(shares_program: LoadedObject, threads: int, spin_microseconds: float) -> None:
    team = ThreadTeam(threads, spin_microseconds=spin_microseconds)
    for turns in (0, 1 << 8, 1 << 16, 1 << 20):
        run_shares(shares_program, team, threads, rounds=2 * threads + 3, turns=turns)
    team.stop()


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_others_do_what_a_late_thread_has_not_begun(shares_program: LoadedObject, threads: int) -> None:
    """Milliseconds late: long before that others have looked."""
    team = ThreadTeam(threads)
    acted = 0
    for _ in range(20):
        found, by_others = run_shares(shares_program, team, threads, rounds=20, turns=1 << 21)
        assert by_others == 0 or found > 1
        acted += by_others
    assert acted > 0
    team.stop()


def test_more_threads_than_have_lines_do_their_own_shares(shares_program: LoadedObject) -> None:
    team = ThreadTeam(MOST_POOLS + 7)
    for threads in (MOST_POOLS + 7, 5, MOST_POOLS + 1, MOST_POOLS):
        found, acted = run_shares(shares_program, team, threads, rounds=12, turns=1 << 12)
        assert acted == 0 or found <= MOST_POOLS
    team.stop()


def test_shares_begin_anew_with_every_dispatch(shares_program: LoadedObject) -> None:
    """By other threads, too, and of several teams at a time."""

    def run(seed: int) -> None:
        generator = np.random.default_rng(seed)
        team = ThreadTeam(9)
        for _ in range(60):
            threads, rounds, turns = generator.integers(1, 10), generator.integers(1, 6), 1 << generator.integers(0, 14)
            run_shares(shares_program, team, int(threads), int(rounds), int(turns))
        team.stop()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(3)))


def test_programs_know_where_shares_are_noted() -> None:
    layout, types = layout_of("barrier")
    barrier = types["barrier"]
    offset = layout.get_element_offset(barrier, 24)
    assert offset == POOLS_OFFSET + 2 * MOST_POOLS * CACHE_LINE + 2 * CACHE_LINE
    assert layout.get_element_offset(barrier, 21) == offset - 2 * CACHE_LINE + 9 * WORD
    assert layout.get_element_offset(barrier, 22) == offset - 2 * CACHE_LINE + 10 * WORD


def entry_of(output: Any, serial_work: int = 1) -> str:
    text = texts(output, tuning=TUNING.but(serial_work=serial_work))
    entry = text[text.index(f"define void @{ENTRY}") :]
    return entry[: entry.index("\n}\n")]


def test_kernels_of_a_part_are_called_for_whose_share_it_is() -> None:
    """All but those of loops in which threads meet, whose threads do their own: the steps of a network."""
    graph = dml.Graph(dml.Device("cpu", thread_count=2))
    roots = dml.cumulative_summation(dml.sqrt(graph.input("FLOAT32", [64, 40])), axis=0)
    entry = entry_of(graph.describe(dml.cumulative_summation(roots, axis=1)))
    called = re.findall(r"call void @kernel\d+\(.*i64 (%\w+), i64 %threads", entry)
    assert len(called) > 1 and "%thread" not in called and "@barrier_wait" not in entry

    graph = dml.Graph(dml.Device("cpu", thread_count=2))
    given = [graph.input("FLOAT32", sizes) for sizes in ([1, 4, 3, 8], [1, 1, 480, 8], [1, 1, 480, 160])]
    entry = entry_of(graph.describe(list(dml.gru(*given))))
    called = re.findall(r"call void @kernel\d+\(.*i64 (%\w+), i64 %threads", entry)
    assert "%thread" in called and any(name.startswith("%who") for name in called)


def test_all_threads_take_part_where_they_are_to() -> None:
    """As in most tests, where the processors are fewer."""
    graph = dml.Graph(dml.Device("cpu", thread_count=2))
    output = graph.describe(dml.sqrt(graph.input("FLOAT32", [64, 40])))
    assert "@share_left" in entry_of(output) and "%who" in entry_of(output)
    assert "@share_left" not in entry_of(output, serial_work=0) and "%who" not in entry_of(output, serial_work=0)


@pytest.mark.parametrize("threads", [2, 5, 16])
def test_bits_are_the_same_whoever_does_a_share(threads: int) -> None:
    """More threads than processors come late all the time: to kernels with pools and without, to those that one thread
    does, to points and to loops."""
    generator = np.random.default_rng(threads)
    given: list[Array] = [
        generator.standard_normal(sizes, np.float32)
        for sizes in ((1, 4, 40, 40), (8, 4, 3, 3), (8, 1, 3, 3), (1, 1, 96, 18), (1, 1, 96, 32))
    ]

    def network(device: dml.Device) -> Any:
        graph = dml.Graph(device)
        x, first, second, w, r = (graph.input("FLOAT32", array.shape) for array in given)
        y = dml.activation_relu(dml.convolution(x, first))
        y = dml.convolution(y, second, group_count=8)
        y = dml.max_pooling(y, window_size=[2, 2], strides=[2, 2]).values
        return graph.compile([y, dml.activation_softmax(y), *dml.gru(y, w, r)])

    tuning = TUNING.but(serial_work=1, pooled_work=0)
    expected = network(dml.Device("reference"))(*given)
    program = network(dml.Device("cpu", thread_count=threads, tuning=tuning))
    for _ in range(30):
        for found, wanted in zip(program(*given), expected, strict=True):
            assert found.tobytes() == wanted.tobytes()


class Acting(ShareWriter):
    """Also where all threads are to take part, so that they are waked, however little there is to do."""

    def __init__(self, builder: Builder, *, acts: bool) -> None:
        super().__init__(builder, acts=True)


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("name", PROGRAMS)
def test_random_programs_by_whoever_comes_first(name: str) -> None:
    """Seven threads on fewer processors."""

    @examples(20, suppress_health_check=list(HealthCheck))
    @given(cases(name))
    def check(case: Case) -> None:
        check_case(case)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry_code, "ShareWriter", Acting)
        check()
