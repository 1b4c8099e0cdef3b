"""Threads of a team that sleep: whether they are waked, how many of them, and how long that takes."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from team_programs import Neighbours, run_alone, run_for, wait_until

from opendml.llvm.host import usable_processors
from opendml.llvm.native import LoadedObject
from opendml.targets.cpu.runtime.team_code import LONG
from opendml.targets.cpu.runtime.team_types import LONGEST, WAKINGS
from opendml.targets.cpu.runtime.thread_team import ThreadTeam
from opendml.targets.cpu.runtime.waking_code import EACH, FIRST_GUESS, LONGEST_WAKING, SHORTEST_PAUSE


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
    few = Neighbours(8, rounds=3)
    wait_until(lambda: team.run(neighbours_program["entry"], few.address, 8, alone=alone) == 8)
    assert run_for(neighbours_program, team, LONGEST) == 40


def test_all_are_waked_for_little_work_of_a_loop(neighbours_program: LoadedObject) -> None:
    """More than processors sleep again before the second time; the third one may be a trial of fewer."""
    team = ThreadTeam(40, spin_microseconds=1e7)
    assert [run_for(neighbours_program, team, EACH * 20**2) for _ in range(2)] == [40, 40]


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
