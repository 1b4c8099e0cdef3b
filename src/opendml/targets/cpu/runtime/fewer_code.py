"""The LLVM text of when a dispatch does without some of its workers, although they are there.

Where threads are as many as processors, and other processes or the host of a virtual machine want some of these, one of
the threads has to share its processor: it is away for milliseconds, while all others wait for it at a barrier and leave
theirs idle. With an eighth fewer there is room for both; where there are far fewer processors than is known, with half
of them. On 32 processors of which other processes had four about half of the time MobileNetV2 took 6.8 ms with 32
threads and 1.3 with 28, where 32 took 1.1 without the others; BERT-base 56, 23 and 17 (Emerald Rapids). Three threads
on two processors that were not known to be so few: MobileNetV2 7.1 ms, with two threads 1.4 (Zen 5).

A dispatch is slow if others waited for those that came late, or most threads were there in vain (`slowness_code`). That
may also be what the program is like, one of whose kernels one thread does: trials say whether fewer threads are sooner
(`sparing_code`). Where they are, and that is slow all the same, trials say whether still fewer are: that is the next
level, which is about those that the levels before have left over. What a level does by fewer comes to an end, and then
threads are more again for a while, and judged. Only times of one program are compared; a team knows of a few what is to
be spared of each.
"""

from __future__ import annotations

from typing import Final

from opendml.targets.cpu.runtime.platform_code import written_in
from opendml.targets.cpu.runtime.slowness_code import IN_VAIN, MOSTLY_WAITED, NOT_SLOW
from opendml.targets.cpu.runtime.team_types import MOST_LEVELS, PROGRAM_BITS

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
            "$below_place": 64 - PROGRAM_BITS,
            "$not_slow": NOT_SLOW,
            "$mostly_waited": MOSTLY_WAITED,
            "$in_vain": IN_VAIN,
        },
    )


_FEWER = """
; How many of %workers there are to be in a dispatch of %program: less by what each level spares, up to one by which
; none is to be done by fewer, or that is in a trial.
define internal i64 @team_spare_some(ptr %team, ptr %program, i64 %workers) nounwind {
start:
  %levels_address = getelementptr %team, ptr %team, i64 0, i32 30, i32 0
  store i64 0, ptr %levels_address, align 8
  br label %look
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
  %sparing = getelementptr %judged, ptr %program, i64 0, i32 2, i64 %level
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
  ret i64 %workers_left
}

; What a team knows of the program with an %entry: nothing if another one that has the same place came after it.
define internal ptr @team_program(ptr %team, ptr %entry) nounwind {
start:
  %bits = ptrtoint ptr %entry to i64
  %mixed = mul i64 %bits, -7046029254386353131
  %place = lshr i64 %mixed, $below_place
  %program = getelementptr %team, ptr %team, i64 0, i32 29, i64 %place
  %known = load ptr, ptr %program, align 8
  %is_known = icmp eq ptr %known, %entry
  br i1 %is_known, label %leave, label %begin
begin:
  store %judged zeroinitializer, ptr %program, align 8
  store ptr %entry, ptr %program, align 8
  br label %leave
leave:
  ret ptr %program
}

; %workers have taken part in a dispatch of %program, which has taken %time microseconds, and would take one thread
; %alone.
define internal void @team_judge_some(ptr %team, ptr %program, i64 %workers, i64 %alone, i64 %time) nounwind {
start:
  %levels_address = getelementptr %team, ptr %team, i64 0, i32 30, i32 0
  %level = load i64, ptr %levels_address, align 8
  %are_all = icmp eq i64 %level, 0
  br i1 %are_all, label %look, label %compare
compare:
  %level_before = sub i64 %level, 1
  %sparing_before = getelementptr %judged, ptr %program, i64 0, i32 2, i64 %level_before
  %counted = call i64 @level_time(ptr %sparing_before, i64 %time)
  %is_trial = call i1 @sparing_compare(ptr %sparing_before, i64 %counted, i64 $eighth)
  br i1 %is_trial, label %settle, label %look
settle:
  %is_new_choice = call i1 @level_settle(ptr %sparing_before, i64 %time)
  br i1 %is_new_choice, label %forget, label %leave
look:
  %are_many = icmp uge i64 %workers, $least_workers
  %is_further = icmp ult i64 %level, $most_levels
  ; Who is not to spin is late at every barrier.
  %spins_address = getelementptr %team, ptr %team, i64 0, i32 12
  %spins = load i64, ptr %spins_address, align 8
  %are_to_spin = icmp ne i64 %spins, 0
  %may_be_fewer = and i1 %are_many, %is_further
  %is_judged = and i1 %may_be_fewer, %are_to_spin
  br i1 %is_judged, label %judge, label %leave
judge:
  %sparing = getelementptr %judged, ptr %program, i64 0, i32 2, i64 %level
  %gains_address = getelementptr %sparing, ptr %sparing, i64 0, i32 3
  %gains = load i64, ptr %gains_address, align 8
  %slowness = call i64 @team_slowness(ptr %team, i64 %workers, i64 %alone, i64 %time)
  %was_slow = icmp ne i64 %slowness, $not_slow
  %was_sooner = call i1 @level_was_sooner(ptr %sparing, i64 %time)
  %is_slow = or i1 %was_slow, %was_sooner
  %is_begun = call i1 @sparing_judge(ptr %sparing, i1 %is_slow, i64 %time, i64 $trials)
  br i1 %is_begun, label %choose, label %leave
choose:
  call void @level_choose(ptr %sparing, i64 %workers, i64 %slowness)
  %is_new = icmp eq i64 %gains, 0
  br i1 %is_new, label %forget, label %leave
forget:
  ; Nothing is known of the next level then, which says the same of the one behind it before that comes into force.
  %before_next = phi i64 [ %level, %choose ], [ %level_before, %settle ]
  %next = add i64 %before_next, 1
  %is_level = icmp ult i64 %next, $most_levels
  br i1 %is_level, label %clear, label %leave
clear:
  %next_address = getelementptr %judged, ptr %program, i64 0, i32 2, i64 %next
  store %level zeroinitializer, ptr %next_address, align 8
  br label %leave
leave:
  ret void
}

; What a trial is to spare of %workers and the caller: an eighth, or half if most of them were there in vain. If the one
; before was no gain, the other one; behind a gain what was soonest then, and every second time the other one if most of
; the time was waited.
define internal void @level_choose(ptr %level, i64 %workers, i64 %slowness) nounwind {
  %gains_address = getelementptr %sparing, ptr %level, i64 0, i32 3
  %gains = load i64, ptr %gains_address, align 8
  %losses_address = getelementptr %sparing, ptr %level, i64 0, i32 4
  %losses = load i64, ptr %losses_address, align 8
  %best_address = getelementptr %level, ptr %level, i64 0, i32 2
  %best = load i64, ptr %best_address, align 8
  %count = add i64 %workers, 1
  %half = lshr i64 %count, 1
  %rounded = lshr i64 %count, $eighth
  %part = call i64 @llvm.umax.i64(i64 %rounded, i64 1)
  %odd = and i64 %losses, 1
  %is_second = icmp ne i64 %odd, 0
  %was_in_vain = icmp eq i64 %slowness, $in_vain
  %is_half_new = xor i1 %is_second, %was_in_vain
  %was_half = icmp eq i64 %best, %half
  %is_new = icmp eq i64 %gains, 0
  %is_not_half = xor i1 %was_half, true
  %is_half = select i1 %is_new, i1 %is_half_new, i1 %is_not_half
  %chosen = select i1 %is_half, i64 %half, i64 %part
  %odd_gains = and i64 %gains, 1
  %is_even = icmp eq i64 %odd_gains, 0
  %was_partly_waited = icmp ult i64 %slowness, $mostly_waited
  %is_good = or i1 %is_even, %was_partly_waited
  %has_best = icmp ne i64 %gains, 0
  %stays = and i1 %is_good, %has_best
  %spared = select i1 %stays, i64 %best, i64 %chosen
  %spared_address = getelementptr %level, ptr %level, i64 0, i32 1
  store i64 %spared, ptr %spared_address, align 8
  ret void
}

; How many microseconds it took those that were soonest of fewer threads, as long as that is a gain; else the most that
; there are.
define internal i64 @level_best_time(ptr %level) nounwind {
  %gains_address = getelementptr %sparing, ptr %level, i64 0, i32 3
  %gains = load i64, ptr %gains_address, align 8
  %time_address = getelementptr %level, ptr %level, i64 0, i32 3
  %time = load i64, ptr %time_address, align 8
  %has_best = icmp ne i64 %gains, 0
  %result = select i1 %has_best, i64 %time, i64 -1
  ret i64 %result
}

; Whether fewer threads were sooner than %time microseconds when that was tried last.
define internal i1 @level_was_sooner(ptr %level, i64 %time) nounwind {
  %best_time = call i64 @level_best_time(ptr %level)
  %part = lshr i64 %time, $eighth
  %most = sub i64 %time, %part
  %is_sooner = icmp ult i64 %best_time, %most
  ret i1 %is_sooner
}

; What a trial counts that took %time microseconds: where it was about others than were soonest before, and these were
; sooner, it is they who will be taken.
define internal i64 @level_time(ptr %level, i64 %time) nounwind {
  %spared_address = getelementptr %level, ptr %level, i64 0, i32 1
  %spared = load i64, ptr %spared_address, align 8
  %best_address = getelementptr %level, ptr %level, i64 0, i32 2
  %best = load i64, ptr %best_address, align 8
  %best_time = call i64 @level_best_time(ptr %level)
  %is_other = icmp ne i64 %spared, %best
  %least = call i64 @llvm.umin.i64(i64 %time, i64 %best_time)
  %result = select i1 %is_other, i64 %least, i64 %time
  ret i64 %result
}

; Behind a dispatch of a trial, which took %time microseconds: if that was a gain, what was soonest so far is done from
; now on. Gives whether that is no longer what it was.
define internal i1 @level_settle(ptr %level, i64 %time) nounwind {
start:
  %trials_address = getelementptr %sparing, ptr %level, i64 0, i32 1
  %trials = load i64, ptr %trials_address, align 8
  %gains_address = getelementptr %sparing, ptr %level, i64 0, i32 3
  %gains = load i64, ptr %gains_address, align 8
  %is_last = icmp eq i64 %trials, 0
  %is_gain = icmp ne i64 %gains, 0
  %is_settled = and i1 %is_last, %is_gain
  br i1 %is_settled, label %compare, label %leave
compare:
  %spared_address = getelementptr %level, ptr %level, i64 0, i32 1
  %spared = load i64, ptr %spared_address, align 8
  %best_address = getelementptr %level, ptr %level, i64 0, i32 2
  %best = load i64, ptr %best_address, align 8
  %best_time_address = getelementptr %level, ptr %level, i64 0, i32 3
  %best_time = load i64, ptr %best_time_address, align 8
  %is_first = icmp eq i64 %gains, 1
  %is_sooner = icmp ult i64 %time, %best_time
  %is_same = icmp eq i64 %spared, %best
  %is_other = xor i1 %is_same, true
  %is_as_good = or i1 %is_sooner, %is_same
  %is_best = or i1 %is_first, %is_as_good
  br i1 %is_best, label %keep, label %return
keep:
  store i64 %spared, ptr %best_address, align 8
  store i64 %time, ptr %best_time_address, align 8
  br label %leave
return:
  store i64 %best, ptr %spared_address, align 8
  br label %leave
leave:
  %is_changed = phi i1 [ false, %start ], [ %is_other, %keep ], [ false, %return ]
  ret i1 %is_changed
}
"""
