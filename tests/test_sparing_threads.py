"""Dispatches that do without threads of a team where these would be waited for."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence

import pytest
from team_programs import ALL_BARRIERS, LATE_BY_COUNT, SECOND_BARRIER, TURNS, loaded

from opendml.llvm.host import usable_processors
from opendml.llvm.native import LoadedObject
from opendml.targets.cpu.runtime import thread_team
from opendml.targets.cpu.runtime.team_code import LONG
from opendml.targets.cpu.runtime.team_types import LONGEST, PROGRAM_BITS
from opendml.targets.cpu.runtime.thread_team import ThreadTeam
from opendml.targets.cpu.runtime.waking_code import FIRST_GUESS


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


@pytest.mark.skipif(usable_processors() < 2, reason="threads do not spin where each has no processor")
def test_what_is_done_alone_says_nothing_of_another_program(turns_program: LoadedObject) -> None:
    team, brief = ThreadTeam(2, spin_microseconds=1e7), 2 * FIRST_GUESS
    slow, quick = (ctypes.c_int64 * 2)(4 * 10**7, 1), (ctypes.c_int64 * 2)(1, 1)
    found = [team.run(turns_program["entry"], ctypes.addressof(slow), alone=brief) for _ in range(8)]
    assert found[-1] == 1
    another = loaded(TURNS)
    assert [team.run(another["entry"], ctypes.addressof(quick), alone=brief) for _ in range(2)] == [2, 2]
    team.stop()


@pytest.mark.parametrize(
    ("turns", "others", "found_at_most"),
    [
        ({8: 10**8, 7: 1}, 10**8, {8: 6, 6: 12, 4: 12}),
        ({3: 10**8, 2: 1}, 0, {3: 15, 1: 40}),
        ({2: 10**8, 1: 1}, 0, {2: 15}),
        ({8: 10**8, 7: 4 * 10**8, 4: 1}, 4 * 10**8, {8: 18, 7: 9, 3: 12, 2: 12}),
        ({8: 3 * 10**8, 7: 5 * 10**7, 6: 1}, 10**8, {8: 15, 7: 25, 5: 12, 4: 12, 3: 12}),
        ({8: 10**7, 7: 10**8, 4: 10**8}, 0, {7: 12, 4: 12}),
        ({8: 10**8, 7: 5 * 10**7, 4: 1}, 5 * 10**7, {8: 10, 7: 14, 6: 12, 5: 12, 3: 12, 2: 12}),
    ],
    ids=["an eighth", "one of three", "one of two", "half", "two of eight", "nobody", "an eighth, and then half"],
)
def test_threads_are_spared_where_that_is_sooner(
    late_by_count_program: LoadedObject,
    monkeypatch: pytest.MonkeyPatch,
    turns: Mapping[int, int],
    others: int,
    found_at_most: Mapping[int, int],
) -> None:
    """If some are late at barriers: for 2, 4, 8 and more dispatches, and for as many times more as that saves of their
    time, each behind a trial; where it is no gain, or none any longer, it is tried again after as many. Fewer threads
    may be late as well: then still fewer are tried. Behind a gain others are tried, too."""
    monkeypatch.setattr(thread_team, "usable_processors", lambda: 8)
    args = [ALL_BARRIERS, *(turns.get(count, others) for count in range(1, 9))]
    team = ThreadTeam(max(turns), spin_microseconds=20)
    found = numbers_of_threads(late_by_count_program, team, args, LONG, 40)
    assert set(found) <= {*turns, *found_at_most}
    assert {count: found.count(count) for count in found_at_most if found.count(count) > found_at_most[count]} == {}
    assert set(found) >= set(turns)


def test_threads_are_spared_of_more_than_processors(
    late_by_count_program: LoadedObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They sleep at every barrier."""
    monkeypatch.setattr(thread_team, "usable_processors", lambda: 4)
    team = ThreadTeam(8, spin_microseconds=20)
    args = [ALL_BARRIERS, *[1] * 6, *[10**8] * 2]
    found = numbers_of_threads(late_by_count_program, team, args, LONG, 20)
    assert found[:2] == [8, 8]
    assert 4 in found


def test_half_of_threads_that_are_there_in_vain_is_spared(
    turns_by_count_program: LoadedObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is late, but all take far longer than their share of what one thread is expected to take."""
    monkeypatch.setattr(thread_team, "usable_processors", lambda: 8)
    many = 3 * 10**7
    args = [0, 10 * many, many, many, 1, many, many, many, many]
    for expected, is_spared in ((5000, True), (LONGEST, False)):
        found = numbers_of_threads(turns_by_count_program, ThreadTeam(8), args, expected, 20)
        by_several = [count for count in found if count != 1]  # alone is tried as well
        assert by_several[:2] == [8, 8]
        assert (by_several[2] == 4) == is_spared


def test_what_is_known_of_a_program_is_known_behind_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless both have one place: then what is known is of the last one."""
    monkeypatch.setattr(thread_team, "usable_processors", lambda: 8)
    args = (ctypes.c_int64 * 9)(ALL_BARRIERS, *[1] * 7, 10**8)
    alike = [loaded(LATE_BY_COUNT) for _ in range(40)]
    programs = {place_of(program): program for program in alike}
    one, another = list(programs.values())[:2]
    team, found = ThreadTeam(8, spin_microseconds=20), []
    for _ in range(12):
        found += [team.run(program["entry"], ctypes.addressof(args)) for program in (one, another)]
    team.stop()
    assert found[:4] == [8, 8, 8, 8]
    assert found.count(8) <= 12


def place_of(program: LoadedObject) -> int:
    """Where a team keeps what it knows of a program: the highest bits of a product."""
    return (program["entry"] * 0x9E3779B97F4A7C15) % (1 << 64) >> (64 - PROGRAM_BITS)


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
