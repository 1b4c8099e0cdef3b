"""The LLVM text of when a caller does without workers, although they are there.

A virtual machine's processors may be fewer in truth than it knows, and other processes may have them: then threads
wait at each barrier for one that does not run, and all of them take longer than the caller would alone. Where two
dispatches of little work in a row have taken far longer than that (one may have met memory that was new, or a processor
that was away once), the next one is a trial, which the caller does alone. If that takes less time, so are the next ones
done, after each further such trial twice as many of them. If it does not, what was expected is wrong, and dispatches
are not judged for a while, each time for twice as many.
"""

from __future__ import annotations

from typing import Final

from opendml.targets.cpu.runtime.platform_code import written_in
from opendml.targets.cpu.runtime.waking_code import LONGEST_WAKING

LOST: Final = 100
"""Microseconds by which, at least, a dispatch has taken more than twice as long as it would have alone."""

LONGEST: Final = 10000
"""Microseconds that one thread is expected to take from which on nothing is judged: what is said of such work is only
that it takes so long or longer (``longest_alone``)."""

MOST_DOUBLINGS: Final = 8
"""How often the numbers of dispatches are doubled at most."""


def alone_ir() -> str:
    """LLVM text of the functions."""
    numbers = {
        "$lost": LOST,
        "$longest_waking": LONGEST_WAKING,
        "$longest": LONGEST,
        "$most_doublings": MOST_DOUBLINGS,
    }
    return written_in(_ALONE, numbers)


_ALONE = """
; Whether the caller is to do alone what is expected to take it %alone microseconds.
define internal i1 @team_spares_workers(ptr %team, i64 %alone) nounwind {
start:
  %solos_address = getelementptr %team, ptr %team, i64 0, i32 29
  %solos = load i64, ptr %solos_address, align 8
  %are_over = icmp eq i64 %solos, 0
  br i1 %are_over, label %leave, label %compare
compare:
  %slow_address = getelementptr %team, ptr %team, i64 0, i32 34
  %slow = load i64, ptr %slow_address, align 8
  %is_sooner = icmp ult i64 %alone, %slow
  %is_expected = icmp ult i64 %alone, $longest
  %is_spared = and i1 %is_sooner, %is_expected
  br i1 %is_spared, label %count, label %leave
count:
  %less = sub i64 %solos, 1
  store i64 %less, ptr %solos_address, align 8
  br label %leave
leave:
  %result = phi i1 [ false, %start ], [ false, %compare ], [ true, %count ]
  ret i1 %result
}

; All threads have taken %time microseconds for what was expected to take one %alone: perhaps the next is a trial.
; What it takes to wake those that sleep does not count.
define internal void @team_judge(ptr %team, i64 %alone, i64 %time) nounwind {
start:
  %trusted_address = getelementptr %team, ptr %team, i64 0, i32 31
  %trusted = load i64, ptr %trusted_address, align 8
  %is_trusted = icmp ne i64 %trusted, 0
  br i1 %is_trusted, label %trust, label %compare
trust:
  %trusted_less = sub i64 %trusted, 1
  store i64 %trusted_less, ptr %trusted_address, align 8
  br label %leave
compare:
  %called_address = getelementptr %team, ptr %team, i64 0, i32 22
  %called = load atomic i64, ptr %called_address monotonic, align 8
  %were_awake = icmp eq i64 %called, 0
  %waking = select i1 %were_awake, i64 0, i64 $longest_waking
  %twice = mul i64 %alone, 2
  %more = add i64 %twice, $lost
  %most = add i64 %more, %waking
  %takes_longer = icmp ugt i64 %time, %most
  %is_expected = icmp ult i64 %alone, $longest
  %is_slow = and i1 %takes_longer, %is_expected
  %gains_address = getelementptr %team, ptr %team, i64 0, i32 32
  %is_second_address = getelementptr %team, ptr %team, i64 0, i32 35
  br i1 %is_slow, label %suspect, label %forget
suspect:
  %is_second = load i64, ptr %is_second_address, align 8
  store i64 1, ptr %is_second_address, align 8
  %gains = load i64, ptr %gains_address, align 8
  %either = or i64 %is_second, %gains
  %is_first = icmp eq i64 %either, 0
  br i1 %is_first, label %leave, label %try
try:
  %slow_address = getelementptr %team, ptr %team, i64 0, i32 34
  store i64 %time, ptr %slow_address, align 8
  %solos_address = getelementptr %team, ptr %team, i64 0, i32 29
  store i64 1, ptr %solos_address, align 8
  %is_trial_address = getelementptr %team, ptr %team, i64 0, i32 30
  store i64 1, ptr %is_trial_address, align 8
  br label %leave
forget:
  store i64 0, ptr %gains_address, align 8
  store i64 0, ptr %is_second_address, align 8
  br label %leave
leave:
  ret void
}

; The caller has taken %time microseconds: if that was a trial it says what is to become of the next dispatches.
define internal void @team_judge_alone(ptr %team, i64 %time) nounwind {
start:
  %is_trial_address = getelementptr %team, ptr %team, i64 0, i32 30
  %is_trial = load i64, ptr %is_trial_address, align 8
  %is_none = icmp eq i64 %is_trial, 0
  br i1 %is_none, label %leave, label %compare
compare:
  store i64 0, ptr %is_trial_address, align 8
  %slow_address = getelementptr %team, ptr %team, i64 0, i32 34
  %slow = load i64, ptr %slow_address, align 8
  %is_gain = icmp ult i64 %time, %slow
  %gains_address = getelementptr %team, ptr %team, i64 0, i32 32
  %losses_address = getelementptr %team, ptr %team, i64 0, i32 33
  %same_address = select i1 %is_gain, ptr %gains_address, ptr %losses_address
  %other_address = select i1 %is_gain, ptr %losses_address, ptr %gains_address
  %same = load i64, ptr %same_address, align 8
  %more = add i64 %same, 1
  %doublings = call i64 @llvm.umin.i64(i64 %more, i64 $most_doublings)
  store i64 %doublings, ptr %same_address, align 8
  store i64 0, ptr %other_address, align 8
  %number = shl i64 1, %doublings
  %solos_address = getelementptr %team, ptr %team, i64 0, i32 29
  %trusted_address = getelementptr %team, ptr %team, i64 0, i32 31
  %number_address = select i1 %is_gain, ptr %solos_address, ptr %trusted_address
  store i64 %number, ptr %number_address, align 8
  br label %leave
leave:
  ret void
}
"""
