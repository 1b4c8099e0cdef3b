"""The LLVM text of when a dispatch does without some of its workers, although they are there.

Where threads are as many as processors, and other processes or the host of a virtual machine want some of these, one of
the threads has to share its processor: it is away for milliseconds, while all others wait for it at a barrier and leave
theirs idle. With an eighth fewer there is room for both; where there are far fewer processors than is known, with half
of them. On 32 processors of which other processes had four about half of the time MobileNetV2 took 6.8 ms with 32
threads and 1.3 with 28, where 32 took 1.1 without the others; BERT-base 56, 23 and 17 (Emerald Rapids). Three threads
on two processors that were not known to be so few: MobileNetV2 7.1 ms, with two threads 1.4 (Zen 5).

A dispatch is slow if an eighth of it has been waited for those that came late at barriers, so late that others had spun
in vain: a tenth of a millisecond or more. That may also be what the program is like, one of whose kernels one thread
does: trials say whether fewer threads are sooner (`sparing_code`). Where they are, and somebody is late all the same,
trials say whether still fewer are: that is the next level, which is about those that the levels before have left over.
What a level does by fewer comes to an end, and then threads are more again for a while, and judged. Only times of one
program are compared.
"""

from __future__ import annotations

from typing import Final

from opendml.targets.cpu.runtime.platform_code import written_in
from opendml.targets.cpu.runtime.team_types import MOST_LEVELS
from opendml.targets.cpu.runtime.waiting_code import SHORTER

EIGHTH: Final = 3
"""The part of the threads that is spared, one at least, and of the time by which a trial must be sooner: a half, so
often halved that it is one of 2 to this power. If that was no gain the next trial is to spare half of the threads, and
so on by turns."""

LEAST: Final = 2
"""Threads of which some may be spared: the caller stays."""

TRIALS: Final = 3
"""Dispatches of a trial: those who are spared spin before they sleep, and only then others move to their processors."""


def fewer_ir() -> str:
    """LLVM text of the functions."""
    return written_in(
        _FEWER,
        {
            "$eighth": EIGHTH,
            "$trials": TRIALS,
            "$least_workers": LEAST - 1,
            "$most_levels": MOST_LEVELS,
            "$shorter": SHORTER,
        },
    )


_FEWER = """
; How many of %workers there are to be in a dispatch of %entry: less by what each level spares, up to one by which none
; is to be done by fewer, or that is in a trial.
define internal i64 @team_spare_some(ptr %team, ptr %entry, i64 %workers) nounwind {
start:
  %levels_address = getelementptr %team, ptr %team, i64 0, i32 31, i32 1
  store i64 0, ptr %levels_address, align 8
  %entry_address = getelementptr %team, ptr %team, i64 0, i32 31, i32 0
  %known = load ptr, ptr %entry_address, align 8
  %is_known = icmp eq ptr %known, %entry
  br i1 %is_known, label %look, label %leave
look:
  %level = phi i64 [ 0, %start ], [ %level_next, %spare ]
  %workers_left = phi i64 [ %workers, %start ], [ %fewer, %spare ]
  %is_in_trial = phi i1 [ false, %start ], [ %is_trial, %spare ]
  %are_few = icmp ult i64 %workers_left, $least_workers
  %is_last = icmp eq i64 %level, $most_levels
  %is_bound = or i1 %are_few, %is_last
  %is_end = or i1 %is_bound, %is_in_trial
  br i1 %is_end, label %leave, label %ask
ask:
  %sparing = getelementptr %team, ptr %team, i64 0, i32 30, i64 %level
  %goes_on = call i1 @sparing_goes_on(ptr %sparing)
  br i1 %goes_on, label %spare, label %leave
spare:
  %trials_address = getelementptr %sparing, ptr %sparing, i64 0, i32 1
  %trials = load i64, ptr %trials_address, align 8
  %is_trial = icmp ne i64 %trials, 0
  %spared_address = getelementptr %level, ptr %sparing, i64 0, i32 1
  %spared = load i64, ptr %spared_address, align 8
  ; A program may be dispatched with fewer threads than it was judged with.
  %bounded = call i64 @llvm.umin.i64(i64 %spared, i64 %workers_left)
  %fewer = sub i64 %workers_left, %bounded
  %level_next = add i64 %level, 1
  store i64 %level_next, ptr %levels_address, align 8
  br label %look
leave:
  %result = phi i64 [ %workers, %start ], [ %workers_left, %look ], [ %workers_left, %ask ]
  ret i64 %result
}

; %workers have taken part in a dispatch of %entry, which has taken %time microseconds.
define internal void @team_judge_some(ptr %team, ptr %entry, i64 %workers, i64 %time) nounwind {
start:
  %levels_address = getelementptr %team, ptr %team, i64 0, i32 31, i32 1
  %level = load i64, ptr %levels_address, align 8
  %are_all = icmp eq i64 %level, 0
  br i1 %are_all, label %know, label %compare
know:
  %entry_address = getelementptr %team, ptr %team, i64 0, i32 31, i32 0
  %known = load ptr, ptr %entry_address, align 8
  %is_known = icmp eq ptr %known, %entry
  br i1 %is_known, label %look, label %begin
begin:
  store ptr %entry, ptr %entry_address, align 8
  %levels = getelementptr %team, ptr %team, i64 0, i32 30
  store [$most_levels x %level] zeroinitializer, ptr %levels, align 8
  br label %look
compare:
  %level_before = sub i64 %level, 1
  %sparing_before = getelementptr %team, ptr %team, i64 0, i32 30, i64 %level_before
  %is_trial = call i1 @sparing_compare(ptr %sparing_before, i64 %time, i64 $eighth)
  br i1 %is_trial, label %leave, label %look
look:
  %are_many = icmp uge i64 %workers, $least_workers
  %is_further = icmp ult i64 %level, $most_levels
  ; Who does not spin is late at every barrier: there are more threads than processors.
  %patience_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 15
  %patience = load i64, ptr %patience_address, align 8
  %do_spin = icmp ne i64 %patience, 0
  %may_be_fewer = and i1 %are_many, %is_further
  %is_judged = and i1 %may_be_fewer, %do_spin
  br i1 %is_judged, label %judge, label %leave
judge:
  %sparing = getelementptr %team, ptr %team, i64 0, i32 30, i64 %level
  %gains_address = getelementptr %sparing, ptr %sparing, i64 0, i32 3
  %gains = load i64, ptr %gains_address, align 8
  %is_slow = call i1 @team_was_late(ptr %team, i64 %time)
  %is_begun = call i1 @sparing_judge(ptr %sparing, i1 %is_slow, i64 %time, i64 $trials)
  ; Behind a gain a trial is about as many threads as were sooner then.
  %is_new = icmp eq i64 %gains, 0
  %is_choice = and i1 %is_begun, %is_new
  br i1 %is_choice, label %choose, label %leave
choose:
  call void @level_choose(ptr %sparing, i64 %workers)
  ; Nothing is known of the next level then, which says the same of the one behind it before that comes into force.
  %next = add i64 %level, 1
  %is_level = icmp ult i64 %next, $most_levels
  br i1 %is_level, label %forget, label %leave
forget:
  %next_address = getelementptr %team, ptr %team, i64 0, i32 30, i64 %next
  store %level zeroinitializer, ptr %next_address, align 8
  br label %leave
leave:
  ret void
}

; What a trial is to spare of %workers and the caller.
define internal void @level_choose(ptr %level, i64 %workers) nounwind {
  %losses_address = getelementptr %sparing, ptr %level, i64 0, i32 4
  %losses = load i64, ptr %losses_address, align 8
  %odd = and i64 %losses, 1
  %is_half = icmp ne i64 %odd, 0
  %halvings = select i1 %is_half, i64 1, i64 $eighth
  %count = add i64 %workers, 1
  %rounded = lshr i64 %count, %halvings
  %part = call i64 @llvm.umax.i64(i64 %rounded, i64 1)
  %spared_address = getelementptr %level, ptr %level, i64 0, i32 1
  store i64 %part, ptr %spared_address, align 8
  ret void
}

; Whether somebody has waited at barriers for an eighth of %time or longer, where spinning was in vain. At the first one
; all wait for those that had to be waked.
define internal i1 @team_was_late(ptr %team, i64 %time) nounwind {
  %called_address = getelementptr %team, ptr %team, i64 0, i32 22
  %called = load atomic i64, ptr %called_address monotonic, align 8
  %were_called = icmp ne i64 %called, 0
  %first_lost_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 20
  %first_lost = load atomic i64, ptr %first_lost_address monotonic, align 8
  %first_counted = select i1 %were_called, i64 0, i64 %first_lost
  %others_lost_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 21
  %others_lost = load atomic i64, ptr %others_lost_address monotonic, align 8
  %yielded = add i64 %first_counted, %others_lost
  %late_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 18
  %late = load atomic i64, ptr %late_address monotonic, align 8
  %others_late_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 22
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
  %most = lshr i64 %time, $eighth
  %was_long = icmp uge i64 %lost, %most
  %was_late = icmp ne i64 %counted, 0
  %result = and i1 %was_late, %was_long
  ret i1 %result
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
