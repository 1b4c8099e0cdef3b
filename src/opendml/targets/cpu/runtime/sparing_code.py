"""The LLVM text of trials with fewer threads: how it is found out, and for how long it stays so, that they are sooner.

Where two dispatches in a row were slow (one may have met memory that was new, a processor that was away once, or
threads that had been spared before and slept), the next one is a trial, or the next few of which the last one counts.
If that takes less time, so are the next ones done, after each further such trial twice as many of them, and so many
times more as the time that it takes is saved: what it costs to look again is made up for. If it does not, what was
expected is wrong, and dispatches are not judged for a while, each time for twice as many.
"""

from __future__ import annotations

from typing import Final

from opendml.targets.cpu.runtime.platform_code import written_in

MOST_DOUBLINGS: Final = 8
"""How often the numbers of dispatches are doubled at most."""

MOST_DISPATCHES: Final = 4096
"""Dispatches by fewer threads behind which it is looked again, however much they save."""


def sparing_ir() -> str:
    """LLVM text of the functions."""
    return written_in(_SPARING, {"$most_doublings": MOST_DOUBLINGS, "$most_dispatches": MOST_DISPATCHES})


_SPARING = """
; Whether there is something left of what %place counts: one less from now on.
define internal i1 @count_down(ptr %place) nounwind {
  %left = load i64, ptr %place, align 8
  %is_left = icmp ne i64 %left, 0
  %less = call i64 @llvm.usub.sat.i64(i64 %left, i64 1)
  store i64 %less, ptr %place, align 8
  ret i1 %is_left
}

; Whether the next dispatch is to be done by fewer threads, if there is one: it counts.
define internal i1 @sparing_goes_on(ptr %sparing) nounwind {
  %goes_on = call i1 @count_down(ptr %sparing)
  ret i1 %goes_on
}

; Those that are to be compared with fewer have taken %time microseconds, which may be too slow: perhaps the next
; %trials are a trial, and it is said whether they are.
define internal i1 @sparing_judge(ptr %sparing, i1 %is_slow, i64 %time, i64 %trials) nounwind {
start:
  %trusted_address = getelementptr %sparing, ptr %sparing, i64 0, i32 2
  %is_trusted = call i1 @count_down(ptr %trusted_address)
  br i1 %is_trusted, label %leave, label %compare
compare:
  %is_second_address = getelementptr %sparing, ptr %sparing, i64 0, i32 6
  br i1 %is_slow, label %suspect, label %forget
suspect:
  %is_second = load i64, ptr %is_second_address, align 8
  store i64 1, ptr %is_second_address, align 8
  %is_first = icmp eq i64 %is_second, 0
  br i1 %is_first, label %leave, label %try
try:
  %slow_address = getelementptr %sparing, ptr %sparing, i64 0, i32 5
  store i64 %time, ptr %slow_address, align 8
  store i64 0, ptr %is_second_address, align 8
  store i64 %trials, ptr %sparing, align 8
  %trials_address = getelementptr %sparing, ptr %sparing, i64 0, i32 1
  store i64 %trials, ptr %trials_address, align 8
  br label %leave
forget:
  %gains_address = getelementptr %sparing, ptr %sparing, i64 0, i32 3
  store i64 0, ptr %gains_address, align 8
  store i64 0, ptr %is_second_address, align 8
  br label %leave
leave:
  %is_begun = phi i1 [ false, %start ], [ false, %suspect ], [ true, %try ], [ false, %forget ]
  ret i1 %is_begun
}

; Fewer threads have taken %time microseconds: if that was the last one of a trial it says, by whether it was sooner by
; one of 2 to the %margin parts, what is to become of the next dispatches. Gives whether it was of a trial.
define internal i1 @sparing_compare(ptr %sparing, i64 %time, i64 %margin) nounwind {
start:
  %trials_address = getelementptr %sparing, ptr %sparing, i64 0, i32 1
  %is_trial = call i1 @count_down(ptr %trials_address)
  %trials_left = load i64, ptr %trials_address, align 8
  %is_none_left = icmp eq i64 %trials_left, 0
  %is_last = and i1 %is_trial, %is_none_left
  br i1 %is_last, label %compare, label %leave
compare:
  %slow_address = getelementptr %sparing, ptr %sparing, i64 0, i32 5
  %slow = load i64, ptr %slow_address, align 8
  %part = lshr i64 %slow, %margin
  %most = sub i64 %slow, %part
  %is_gain = icmp ult i64 %time, %most
  %gains_address = getelementptr %sparing, ptr %sparing, i64 0, i32 3
  %losses_address = getelementptr %sparing, ptr %sparing, i64 0, i32 4
  %count_address = select i1 %is_gain, ptr %gains_address, ptr %losses_address
  %count_before = load i64, ptr %count_address, align 8
  %count_now = add i64 %count_before, 1
  %losses = load i64, ptr %losses_address, align 8
  ; Whether they are odd may say what fewer threads are (`fewer_code`): a gain leaves it so.
  %losses_if_gain = and i64 %losses, 1
  %losses_kept = select i1 %is_gain, i64 %losses_if_gain, i64 %losses
  store i64 0, ptr %gains_address, align 8
  store i64 %losses_kept, ptr %losses_address, align 8
  store i64 %count_now, ptr %count_address, align 8
  %doublings = call i64 @llvm.umin.i64(i64 %count_now, i64 $most_doublings)
  %once = shl i64 1, %doublings
  %gain = call i64 @llvm.usub.sat.i64(i64 %slow, i64 %time)
  %least = call i64 @llvm.umax.i64(i64 %time, i64 1)
  %saved_times = udiv i64 %gain, %least
  %times = call i64 @llvm.umax.i64(i64 %saved_times, i64 1)
  %as_many_times = mul i64 %once, %times
  %more = call i64 @llvm.umin.i64(i64 %as_many_times, i64 $most_dispatches)
  %number = select i1 %is_gain, i64 %more, i64 %once
  %trusted_address = getelementptr %sparing, ptr %sparing, i64 0, i32 2
  %number_address = select i1 %is_gain, ptr %sparing, ptr %trusted_address
  store i64 %number, ptr %number_address, align 8
  br label %leave
leave:
  ret i1 %is_trial
}
"""
