"""The LLVM text of whether a dispatch was slow, so that fewer threads may be sooner.

It was if an eighth of its time has been waited for those that came late at barriers, so late that others had spun in
vain: a tenth of a millisecond or more. Little work is slow as well if a quarter of the threads would have been enough
for the time that it has taken.
"""

from __future__ import annotations

from typing import Final

from opendml.targets.cpu.runtime.platform_code import written_in
from opendml.targets.cpu.runtime.team_types import LONGEST
from opendml.targets.cpu.runtime.waiting_code import SHORTER
from opendml.targets.cpu.runtime.waking_code import LONGEST_WAKING

NOT_SLOW, PARTLY_WAITED, MOSTLY_WAITED, IN_VAIN = range(4)
"""How slow a dispatch was: not, an eighth or half of it was waited for late threads, or most threads were there in
vain."""

WAITED: Final = 8
"""The part of a dispatch that others have waited for those that came late, one of so many, from which on it is slow."""

QUARTER: Final = 4
"""Threads of which one does as much as they did, where they were there in vain: their barriers take longer than their
shares, or somebody is late by no more than the others spin. Of 64 processors of a virtual machine the host had some of
the last dozen now and then: MNIST took 0.4 ms with 64 threads, and 0.05 with 32."""


def slowness_ir() -> str:
    """LLVM text of the functions."""
    return written_in(
        _SLOWNESS,
        {
            "$not_slow": NOT_SLOW,
            "$partly_waited": PARTLY_WAITED,
            "$mostly_waited": MOSTLY_WAITED,
            "$in_vain": IN_VAIN,
            "$waited": WAITED,
            "$quarter": QUARTER,
            "$shorter": SHORTER,
            "$longest_waking": LONGEST_WAKING,
            "$longest_alone": LONGEST,
        },
    )


_SLOWNESS = """
; How slow the dispatch was in which %workers have taken part, which has taken %time microseconds, and would take one
; thread %alone.
define internal i64 @team_slowness(ptr %team, i64 %workers, i64 %alone, i64 %time) nounwind {
  %was_in_vain = call i1 @team_was_in_vain(ptr %team, i64 %workers, i64 %alone, i64 %time)
  %waited = call i64 @team_waited(ptr %team)
  %part = udiv i64 %time, $waited
  %half = lshr i64 %time, 1
  %is_part = icmp uge i64 %waited, %part
  %is_half = icmp uge i64 %waited, %half
  %came_late = icmp ne i64 %waited, 0
  %was_slow = and i1 %came_late, %is_part
  %how_long = select i1 %is_half, i64 $mostly_waited, i64 $partly_waited
  %if_waited = select i1 %was_slow, i64 %how_long, i64 $not_slow
  %result = select i1 %was_in_vain, i64 $in_vain, i64 %if_waited
  ret i64 %result
}

; Whether %workers, three threads or more with the caller, have taken longer than a quarter of them were to take for
; what takes one %alone.
define internal i1 @team_was_in_vain(ptr %team, i64 %workers, i64 %alone, i64 %time) nounwind {
  %counted = call i64 @team_time_awake(ptr %team, i64 %time)
  %threads = add i64 %workers, 1
  %work = mul i64 %counted, %threads
  %most = mul i64 %alone, $quarter
  %took_longer = icmp ugt i64 %work, %most
  %is_expected = icmp ult i64 %alone, $longest_alone
  %are_several = icmp ugt i64 %workers, 1
  %is_known = and i1 %is_expected, %are_several
  %result = and i1 %took_longer, %is_known
  ret i1 %result
}

; What counts of a dispatch that has taken %time microseconds: not what it takes to wake those that sleep.
define internal i64 @team_time_awake(ptr %team, i64 %time) nounwind {
  %called_address = getelementptr %team, ptr %team, i64 0, i32 22
  %called = load atomic i64, ptr %called_address monotonic, align 8
  %were_awake = icmp eq i64 %called, 0
  %waking = select i1 %were_awake, i64 0, i64 $longest_waking
  %counted = call i64 @llvm.usub.sat.i64(i64 %time, i64 %waking)
  ret i64 %counted
}

; For how many microseconds somebody has waited at barriers where spinning was in vain, one at least if there were any.
; At the first one all wait for those that had to be waked.
define internal i64 @team_waited(ptr %team) nounwind {
  %called_address = getelementptr %team, ptr %team, i64 0, i32 22
  %called = load atomic i64, ptr %called_address monotonic, align 8
  %were_called = icmp ne i64 %called, 0
  %first_lost_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 18
  %first_lost = load atomic i64, ptr %first_lost_address monotonic, align 8
  %first_counted = select i1 %were_called, i64 0, i64 %first_lost
  %others_lost_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 19
  %others_lost = load atomic i64, ptr %others_lost_address monotonic, align 8
  %yielded = add i64 %first_counted, %others_lost
  %late_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 16
  %late = load atomic i64, ptr %late_address monotonic, align 8
  %others_late_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 20
  %others_late = load atomic i64, ptr %others_late_address monotonic, align 8
  %counted = select i1 %were_called, i64 %others_late, i64 %late
  ; Behind two they spin for a shorter time.
  %shorter = call i64 @llvm.usub.sat.i64(i64 %late, i64 2)
  %whole = sub i64 %counted, %shorter
  %shorter_as_whole = lshr i64 %shorter, $shorter
  %waits = add i64 %whole, %shorter_as_whole
  %spinning = call i64 @team_spinning(ptr %team)
  %spun = mul i64 %waits, %spinning
  %lost = add i64 %yielded, %spun
  %least = call i64 @llvm.umax.i64(i64 %lost, i64 1)
  %came_late = icmp ne i64 %counted, 0
  %result = select i1 %came_late, i64 %least, i64 0
  ret i64 %result
}

; How many microseconds threads spin.
define internal i64 @team_spinning(ptr %team) nounwind {
  %spins_address = getelementptr %team, ptr %team, i64 0, i32 12
  %spins = load i64, ptr %spins_address, align 8
  %least = call i64 @llvm.umax.i64(i64 %spins, i64 1)
  %patience_address = getelementptr %team, ptr %team, i64 0, i32 19
  %patience = load i64, ptr %patience_address, align 8
  %spins_now_address = getelementptr %team, ptr %team, i64 0, i32 11
  %spins_now = load atomic i64, ptr %spins_now_address monotonic, align 8
  %product = mul i64 %spins_now, %patience
  %result = udiv i64 %product, %least
  ret i64 %result
}
"""
