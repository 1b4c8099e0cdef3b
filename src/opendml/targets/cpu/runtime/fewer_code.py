"""The LLVM text of when a dispatch does without some of its workers, although they are there.

Where threads are as many as processors, and other processes or the host of a virtual machine want some of these, one of
the threads has to share its processor: it is away for milliseconds, while all others wait for it at a barrier and leave
theirs idle. With an eighth fewer there is room for both; where there are far fewer processors than is known, with half
of them. On 32 processors of which other processes had four about half of the time MobileNetV2 took 6.8 ms with 32
threads and 1.3 with 28, where 32 took 1.1 without the others; BERT-base 56, 23 and 17 (Emerald Rapids). Three threads
on two processors that were not known to be so few: MobileNetV2 7.1 ms, with two threads 1.4 (Zen 5).

A dispatch is slow if all had to sleep at a barrier: somebody has come late by more than they spin and yield, from a
tenth of a millisecond with a few threads to half of one with 32. That may also be what the program is like, one of
whose kernels one thread does: trials say whether fewer threads are sooner (`sparing_code`). Only times of one program
are compared.
"""

from __future__ import annotations

from typing import Final

from opendml.targets.cpu.runtime.platform_code import written_in

EIGHTH: Final = 3
"""The part of the threads that is spared, one at least, and of the time by which a trial must be sooner: a half, so
often halved that it is one of 2 to this power. If that was no gain the next trial is to spare half of the threads, and
so on by turns."""

LEAST: Final = 3
"""Threads of which some may be spared: of two there would be one left (`alone_code`)."""

TRIALS: Final = 3
"""Dispatches of a trial: those who are spared spin before they sleep, and only then others move to their processors."""


def fewer_ir() -> str:
    """LLVM text of the functions."""
    return written_in(_FEWER, {"$eighth": EIGHTH, "$trials": TRIALS, "$least": LEAST})


_FEWER = """
; How many of %workers there are to be in a dispatch of %entry.
define internal i64 @team_spare_some(ptr %team, ptr %entry, i64 %workers) nounwind {
start:
  %entry_address = getelementptr %team, ptr %team, i64 0, i32 31
  %known = load ptr, ptr %entry_address, align 8
  %is_known = icmp eq ptr %known, %entry
  %count = add i64 %workers, 1
  %are_many = icmp uge i64 %count, $least
  %may_be_spared = and i1 %is_known, %are_many
  br i1 %may_be_spared, label %ask, label %leave
ask:
  %sparing = getelementptr %team, ptr %team, i64 0, i32 30
  %goes_on = call i1 @sparing_goes_on(ptr %sparing)
  %losses_address = getelementptr %sparing, ptr %sparing, i64 0, i32 4
  %losses = load i64, ptr %losses_address, align 8
  %odd = and i64 %losses, 1
  %is_half = icmp ne i64 %odd, 0
  %halvings = select i1 %is_half, i64 1, i64 $eighth
  %rounded = lshr i64 %count, %halvings
  %part = call i64 @llvm.umax.i64(i64 %rounded, i64 1)
  %spared = select i1 %goes_on, i64 %part, i64 0
  br label %leave
leave:
  %fewer = phi i64 [ 0, %start ], [ %spared, %ask ]
  %result = sub i64 %workers, %fewer
  ret i64 %result
}

; %workers of %most have taken part in a dispatch of %entry, which has taken %time microseconds.
define internal void @team_judge_some(ptr %team, ptr %entry, i64 %most, i64 %workers, i64 %time) nounwind {
start:
  %sparing = getelementptr %team, ptr %team, i64 0, i32 30
  %were_spared = icmp ult i64 %workers, %most
  br i1 %were_spared, label %compare, label %look
compare:
  call void @sparing_compare(ptr %sparing, i64 %time, i64 $eighth)
  br label %leave
look:
  %count = add i64 %workers, 1
  %are_many = icmp uge i64 %count, $least
  ; Who does not spin sleeps at every barrier: there are more threads than processors.
  %patience_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 15
  %patience = load i64, ptr %patience_address, align 8
  %do_spin = icmp ne i64 %patience, 0
  %is_judged = and i1 %are_many, %do_spin
  br i1 %is_judged, label %know, label %leave
know:
  %entry_address = getelementptr %team, ptr %team, i64 0, i32 31
  %known = load ptr, ptr %entry_address, align 8
  %is_known = icmp eq ptr %known, %entry
  br i1 %is_known, label %judge, label %begin
begin:
  store ptr %entry, ptr %entry_address, align 8
  store %sparing zeroinitializer, ptr %sparing, align 8
  br label %judge
judge:
  ; At the first barrier all wait for those that had to be waked: if they were late at one, that says nothing.
  %called_address = getelementptr %team, ptr %team, i64 0, i32 22
  %called = load atomic i64, ptr %called_address monotonic, align 8
  %were_called = icmp ne i64 %called, 0
  %late_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 14
  %late = load i64, ptr %late_address, align 8
  %is_once = icmp eq i64 %late, 1
  %says_nothing = and i1 %is_once, %were_called
  br i1 %says_nothing, label %leave, label %say
say:
  %is_slow = icmp ne i64 %late, 0
  call void @sparing_judge(ptr %sparing, i1 %is_slow, i64 %time, i64 $trials)
  br label %leave
leave:
  ret void
}
"""
