"""The LLVM text of how workers that sleep are waked, and whether they are.

A worker that sleeps is awake a long time after it was called, in virtual machines hundreds of microseconds, and the
longer, the longer it has slept: workers measure that, and a dispatch waits for the slowest of them. Where the caller
would have to wait longer than others save it, it does all of the work by itself, if a worker that it wants sleeps. Only
where such work comes soon after such work, as a loop has it, are workers waked, for the next time: they spin again
before they sleep. What is not measured is taken to be less and less, so that it is measured now and then.

Each worker that is waked keeps its caller from working: of little work, that is not part of a loop, fewer workers are
called than there are (``EACH``).
"""

from __future__ import annotations

from typing import Final

from opendml.targets.cpu.runtime.platform_code import written_in
from opendml.targets.cpu.runtime.team_types import LONGEST
from opendml.targets.cpu.runtime.waiting_code import YIELDING

FIRST_GUESS: Final = 50
"""Microseconds that a sleeping worker takes to wake up, as long as none has been measured."""

SHORTEST_PAUSE: Final = 64
"""Microseconds since the last dispatch up to which the first of the medians is meant that a team keeps; each other one
is meant up to twice as many as the one before it."""

SHORT_PAUSES: Final = 2
"""The number of the one that says how long workers spin: how long it takes to wake who has slept for a short time."""

EACH: Final = 8
"""Microseconds that each worker more which has to be waked makes a dispatch longer, by and large: what takes ``alone``
microseconds by one thread is then over first if about the root of ``alone / EACH`` threads take part. Called every 30
ms, MNIST takes 0.6 to 0.8 ms with 32 threads, 0.25 with eight (Emerald Rapids)."""

LONGEST_WAKING: Final = 2000
"""Microseconds up to which it counts: a worker that takes longer has had to wait for another process."""

ACTING_AFTER: Final = 4
"""Microseconds that a thread waits at a barrier before it does the shares of others that have not begun theirs: more
than it takes them to see that the barrier before is open."""

ACTING_PART: Final = 6
"""At least the time that it spins, so often halved."""


def waking_ir() -> str:
    """LLVM text of the functions."""
    numbers = {
        "$longest_waking": LONGEST_WAKING,
        "$short_pauses": SHORT_PAUSES,
        "$yielding": YIELDING,
        "$each": EACH,
        "$longest_alone": LONGEST,
        "$acting_after": ACTING_AFTER,
        "$acting_part": ACTING_PART,
    }
    return written_in(_WAKING, numbers)


_WAKING = """
; Whether no worker that is there for %wanted threads sleeps, and none has yet to be started.
define internal i1 @team_is_awake(ptr %team, i64 %wanted) nounwind {
start:
  %target = call i64 @team_workers_for(ptr %team, i64 %wanted)
  %started_address = getelementptr %team, ptr %team, i64 0, i32 9
  %started = load i64, ptr %started_address, align 8
  %is_short = icmp ult i64 %started, %target
  br i1 %is_short, label %leave, label %check
check:
  %k = phi i64 [ 0, %start ], [ %k_next, %next ]
  %is_end = icmp uge i64 %k, %target
  br i1 %is_end, label %leave, label %next
next:
  %is_asleep = call i1 @worker_sleeps(ptr %team, i64 %k)
  %k_next = add i64 %k, 1
  br i1 %is_asleep, label %leave, label %check
leave:
  %is_awake = phi i1 [ false, %start ], [ true, %check ], [ false, %next ]
  ret i1 %is_awake
}

; How many of %workers are to take part in what takes one thread %alone microseconds, %gap microseconds after the last
; dispatch: in a loop all of them, which spin from then on.
define internal i64 @team_worth_waking(ptr %team, i64 %workers, i64 %alone, i64 %gap) nounwind {
start:
  %sleepers_address = getelementptr %team, ptr %team, i64 0, i32 31
  %sleepers = load atomic i64, ptr %sleepers_address monotonic, align 8
  %nobody_sleeps = icmp eq i64 %sleepers, 0
  %is_long = icmp uge i64 %alone, $longest_alone
  %are_all = or i1 %nobody_sleeps, %is_long
  br i1 %are_all, label %leave, label %look
look:
  %is_soon = call i1 @team_spins_so_long(ptr %team, i64 %gap)
  br i1 %is_soon, label %leave, label %reckon
reckon:
  %share = udiv i64 %alone, $each
  %as_number = uitofp i64 %share to double
  %root = call double @llvm.sqrt.f64(double %as_number)
  %threads = fptoui double %root to i64
  %others = call i64 @llvm.usub.sat.i64(i64 %threads, i64 1)
  %one_or_more = call i64 @llvm.umax.i64(i64 %others, i64 1)
  %fewer = call i64 @llvm.umin.i64(i64 %one_or_more, i64 %workers)
  br label %leave
leave:
  %result = phi i64 [ %workers, %start ], [ %workers, %look ], [ %fewer, %reckon ]
  ret i64 %result
}

; Whether workers spin for longer than %gap microseconds before they sleep, or would if they had been waked.
define internal i1 @team_spins_so_long(ptr %team, i64 %gap) nounwind {
  %patience_address = getelementptr %team, ptr %team, i64 0, i32 19
  %least_patience = load i64, ptr %patience_address, align 8
  %rounds_address = getelementptr %team, ptr %team, i64 0, i32 23
  %rounds = load i64, ptr %rounds_address, align 8
  %is_fixed = icmp eq i64 %rounds, 0
  %short_address = getelementptr %team, ptr %team, i64 0, i32 24, i64 $short_pauses
  %short = load atomic i64, ptr %short_address monotonic, align 8
  %more_patience = call i64 @llvm.umax.i64(i64 %least_patience, i64 %short)
  %patience = select i1 %is_fixed, i64 %least_patience, i64 %more_patience
  %is_soon = icmp ult i64 %gap, %patience
  ret i1 %is_soon
}

; Have the workers for %wanted threads spin: those that sleep are waked, without a ticket.
define internal void @team_rouse(ptr %team, i64 %wanted) nounwind {
start:
  %spins = call i64 @team_set_spins(ptr %team, i64 %wanted)
  %is_in_vain = icmp eq i64 %spins, 0
  br i1 %is_in_vain, label %leave, label %recruit
recruit:
  %called_address = getelementptr %team, ptr %team, i64 0, i32 22
  store atomic i64 0, ptr %called_address monotonic, align 8
  %alone_address = getelementptr %team, ptr %team, i64 0, i32 27
  store atomic i64 1, ptr %alone_address monotonic, align 8
  %workers = call i64 @team_recruit(ptr %team, i64 %wanted)
  ; The caller goes on computing: who comes to share its processor would not be awake before that is over.
  call void @team_note_processor(ptr %team)
  %begun = insertvalue { i64, i64 } poison, i64 0, 0
  %all = insertvalue { i64, i64 } %begun, i64 %workers, 1
  call void @workers_place(ptr %team, { i64, i64 } %all)
  call void @workers_wake(ptr %team, { i64, i64 } %all)
  br label %leave
leave:
  ret void
}

; How long %count threads spin from now on: as long as it takes to wake them, which is at most twice of what would have
; been best. With more threads than processors the one that is waited for may need this one's processor: do not spin.
define internal i64 @team_set_spins(ptr %team, i64 %count) nounwind {
  %spins_address = getelementptr %team, ptr %team, i64 0, i32 12
  %least_spins = load i64, ptr %spins_address, align 8
  %rounds_address = getelementptr %team, ptr %team, i64 0, i32 23
  %rounds = load i64, ptr %rounds_address, align 8
  %waking_address = getelementptr %team, ptr %team, i64 0, i32 24, i64 $short_pauses
  %waking = load atomic i64, ptr %waking_address monotonic, align 8
  %spins_of_waking = mul i64 %rounds, %waking
  %spins = call i64 @llvm.umax.i64(i64 %least_spins, i64 %spins_of_waking)
  %processors_address = getelementptr %team, ptr %team, i64 0, i32 13
  %processors = load i64, ptr %processors_address, align 8
  %fits = icmp ule i64 %count, %processors
  %spins_now = select i1 %fits, i64 %spins, i64 0
  %spins_now_address = getelementptr %team, ptr %team, i64 0, i32 11
  store atomic i64 %spins_now, ptr %spins_now_address monotonic, align 8
  ; For how long of that one waits at a barrier before it looks whether others have not begun their shares.
  %some = mul i64 %rounds, $acting_after
  %part = lshr i64 %spins_now, $acting_part
  %acting = call i64 @llvm.umax.i64(i64 %some, i64 %part)
  %acting_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 22
  store atomic i64 %acting, ptr %acting_address monotonic, align 8
  ; What has been learned of it is taken to be less and less.
  %learned_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 13
  %learned = load atomic i64, ptr %learned_address monotonic, align 8
  %decay = udiv i64 %learned, 16
  %less = sub i64 %learned, %decay
  %usual = mul i64 %count, $yielding
  %patience = call i64 @llvm.umax.i64(i64 %less, i64 %usual)
  %does_spin = icmp ne i64 %spins_now, 0
  %patience_now = select i1 %does_spin, i64 %patience, i64 0
  store atomic i64 %patience_now, ptr %learned_address monotonic, align 8
  ret i64 %spins_now
}

; Wake a worker that sleeps. Each takes its time: it is measured from the first one on.
define internal void @worker_wake(ptr %worker, ptr %team) nounwind {
start:
  %called_address = getelementptr %team, ptr %team, i64 0, i32 22
  %called = load atomic i64, ptr %called_address monotonic, align 8
  %is_first = icmp eq i64 %called, 0
  br i1 %is_first, label %look, label %wake
look:
  %now = call i64 @microseconds()
  store atomic i64 %now, ptr %called_address monotonic, align 8
  br label %wake
wake:
  %mutex = getelementptr %worker, ptr %worker, i64 0, i32 7
  %condition = getelementptr %worker, ptr %worker, i64 0, i32 8
  call void @wake_all(ptr %mutex, ptr %condition)
  ret void
}

; What the slowest worker has measured moves the median an eighth up or down: single ones that take long, as where
; another process has the processor, say little of the next time.
define internal void @team_note_waking(ptr %team) nounwind {
start:
  %slowest_address = getelementptr %team, ptr %team, i64 0, i32 25
  %slowest = load atomic i64, ptr %slowest_address monotonic, align 8
  %is_none = icmp eq i64 %slowest, 0
  br i1 %is_none, label %leave, label %note
note:
  store atomic i64 0, ptr %slowest_address monotonic, align 8
  %pause_address = getelementptr %team, ptr %team, i64 0, i32 21
  %pause = load atomic i64, ptr %pause_address monotonic, align 8
  %waking_address = getelementptr %team, ptr %team, i64 0, i32 24, i64 %pause
  %before = load atomic i64, ptr %waking_address monotonic, align 8
  %part = udiv i64 %before, 8
  %step = add i64 %part, 1
  %more = add i64 %before, %step
  %less = sub i64 %before, %step
  %is_slower = icmp ugt i64 %slowest, %before
  %barrier = getelementptr %team, ptr %team, i64 0, i32 17
  %is_short = icmp ule i64 %pause, $short_pauses
  %slowest_of_short = select i1 %is_short, i64 %slowest, i64 0
  call void @barrier_learn(ptr %barrier, i64 %slowest_of_short)
  %above = call i64 @llvm.umin.i64(i64 %more, i64 %slowest)
  %below = call i64 @llvm.umax.i64(i64 %less, i64 %slowest)
  %after = select i1 %is_slower, i64 %above, i64 %below
  store atomic i64 %after, ptr %waking_address monotonic, align 8
  br label %leave
leave:
  ret void
}

define internal void @worker_measure(ptr %team) nounwind {
start:
  %called_address = getelementptr %team, ptr %team, i64 0, i32 22
  %called = load atomic i64, ptr %called_address monotonic, align 8
  %now = call i64 @microseconds()
  %time = sub i64 %now, %called
  %counts = icmp ult i64 %time, $longest_waking
  br i1 %counts, label %count, label %leave
count:
  %slowest_address = getelementptr %team, ptr %team, i64 0, i32 25
  %before = atomicrmw umax ptr %slowest_address, i64 %time monotonic, align 8
  br label %leave
leave:
  ret void
}

declare double @llvm.sqrt.f64(double)

define i64 @team_waking(ptr %team, i64 %pause) nounwind {
  %waking_address = getelementptr %team, ptr %team, i64 0, i32 24, i64 %pause
  %waking = load atomic i64, ptr %waking_address monotonic, align 8
  ret i64 %waking
}
"""
