"""The LLVM text of when a caller does without workers, although they are there.

A virtual machine's processors may be fewer in truth than it knows, and other processes may have them: then threads
wait at each barrier for one that does not run, and all of them take longer than the caller would alone. Where
dispatches of little work have taken far longer than that, trials say whether it is sooner alone (`sparing_code`).
"""

from __future__ import annotations

from typing import Final

from opendml.targets.cpu.runtime.platform_code import written_in
from opendml.targets.cpu.runtime.team_types import LONGEST

LOST: Final = 100
"""Microseconds by which, at least, a dispatch has taken more than twice as long as it would have alone."""


def alone_ir() -> str:
    """LLVM text of the functions."""
    return written_in(_ALONE, {"$lost": LOST, "$longest": LONGEST})


_ALONE = """
; Whether the caller is to do alone what is expected to take it %alone microseconds.
define internal i1 @team_spares_workers(ptr %program, i64 %alone) nounwind {
start:
  %is_expected = icmp ult i64 %alone, $longest
  br i1 %is_expected, label %ask, label %leave
ask:
  %sparing = getelementptr %judged, ptr %program, i64 0, i32 1
  %goes_on = call i1 @sparing_goes_on(ptr %sparing)
  br label %leave
leave:
  %result = phi i1 [ false, %start ], [ %goes_on, %ask ]
  ret i1 %result
}

; All threads have taken %time microseconds for what was expected to take one %alone.
define internal void @team_judge(ptr %team, ptr %program, i64 %alone, i64 %time) nounwind {
  %counted = call i64 @team_time_awake(ptr %team, i64 %time)
  %twice = mul i64 %alone, 2
  %most = add i64 %twice, $lost
  %takes_longer = icmp ugt i64 %counted, %most
  %is_expected = icmp ult i64 %alone, $longest
  %is_slow = and i1 %takes_longer, %is_expected
  %sparing = getelementptr %judged, ptr %program, i64 0, i32 1
  %is_begun = call i1 @sparing_judge(ptr %sparing, i1 %is_slow, i64 %time, i64 1)
  ret void
}

; The caller has taken %time microseconds.
define internal void @team_judge_alone(ptr %program, i64 %time) nounwind {
  %sparing = getelementptr %judged, ptr %program, i64 0, i32 1
  %is_trial = call i1 @sparing_compare(ptr %sparing, i64 %time, i64 63)
  ret void
}
"""
