"""The LLVM text of how threads wait: they spin for a while, and then sleep."""

from __future__ import annotations

from typing import Final

from opendml.llvm.host import Machine
from opendml.targets.cpu.runtime.platform_code import filled, written_in

YIELDING: Final = 16
"""Microseconds for each of the threads that those who wait at a barrier, and have spun, offer their processor to others
before they sleep. Sleepers are waked one after another, and are not at the next barrier before those who have been
waked first are tired of it: with 48 threads or more none was awake any longer once all had slept, and each kernel took
a third of a millisecond longer. So those that have slept at several barriers of a dispatch do so behind it, too: where
the host of a virtual machine had some of 64 processors now and then, and they then slept at once, an LSTM took 50 ms
with 64 threads, and 1.5 as it is now. A processor of a virtual machine is now and then away for a millisecond, too."""

LONGEST_YIELDING: Final = 1000
"""Microseconds that they do so at most because it takes long to wake one; that they are many may make it longer."""

LONGEST_ALONE: Final = 4000
"""Microseconds that workers who have been waked wait at most for the end of what the caller does alone meanwhile: such
work saves less than it takes to wake them, which is two milliseconds at most."""

SHORTER: Final = 3
"""How often the time that they spin at a barrier is halved behind the second one of a dispatch at which somebody has
spun in vain. Who comes late may share the processor of one that spins: with three threads on two processors that were
not known to be so few each of the 50 barriers of MobileNetV2 took a tenth of a millisecond, an eighth of it now."""


def waiting_ir(host: Machine) -> str:
    """LLVM text of how the caller, workers, and all of them at a barrier wait."""
    numbers = {
        "$longest_yielding": LONGEST_YIELDING,
        "$longest_alone": LONGEST_ALONE,
        "$shorter": SHORTER,
    }
    return filled(written_in(_WAITING, numbers), host)


_WAITING = """
; Whether there is %value at %place before it is time to sleep.
define internal i1 @spin_until(ptr %place, i64 %value, ptr %team) nounwind {
start:
  %spins_address = getelementptr %team, ptr %team, i64 0, i32 11
  %spins = load atomic i64, ptr %spins_address monotonic, align 8
  br label %spin
spin:
  %left = phi i64 [ %spins, %start ], [ %fewer, %pause ]
  %now = load atomic i64, ptr %place acquire, align 8
  %is_there = icmp eq i64 %now, %value
  br i1 %is_there, label %leave, label %tired
tired:
  %is_tired = icmp eq i64 %left, 0
  br i1 %is_tired, label %leave, label %pause
pause:
  $pause
  %fewer = sub i64 %left, 1
  br label %spin
leave:
  ret i1 %is_there
}

; Whether a dispatch is over, by all threads or by the caller alone while workers have been waked.
define internal i1 @team_is_over(ptr %team) nounwind {
  %running_address = getelementptr %team, ptr %team, i64 0, i32 2
  %alone_address = getelementptr %team, ptr %team, i64 0, i32 27
  %running = load atomic i64, ptr %running_address acquire, align 8
  %alone = load atomic i64, ptr %alone_address monotonic, align 8
  %either = or i64 %running, %alone
  %is_over = icmp eq i64 %either, 0
  ret i1 %is_over
}

; Whether there is %value at %place, or the dispatch is over, before it is time to sleep. Who has been waked for the
; dispatch after one that the caller does alone must not sleep again before that: it is little work.
define internal i1 @yield_until(ptr %place, i64 %value, ptr %team) nounwind {
start:
  %alone_address = getelementptr %team, ptr %team, i64 0, i32 27
  %alone = load atomic i64, ptr %alone_address monotonic, align 8
  %is_alone = icmp ne i64 %alone, 0
  %yielding_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 13
  %yielding = load atomic i64, ptr %yielding_address monotonic, align 8
  %limit = select i1 %is_alone, i64 $longest_alone, i64 %yielding
  %begin = call i64 @microseconds()
  br label %look
look:
  %now = load atomic i64, ptr %place acquire, align 8
  %is_there = icmp eq i64 %now, %value
  %is_over = call i1 @team_is_over(ptr %team)
  %is_enough = or i1 %is_there, %is_over
  br i1 %is_enough, label %leave, label %yield
yield:
  %is_time_left = call i1 @yield_since(i64 %begin, i64 %limit)
  br i1 %is_time_left, label %look, label %leave
leave:
  ret i1 %is_enough
}

; Offer the processor, if that has not been done for so long: who is waited for may be on this one, and runs then.
define internal i1 @yield_since(i64 %begin, i64 %limit) nounwind {
start:
  %time = call i64 @microseconds()
  %waited = sub i64 %time, %begin
  %is_time_left = icmp ult i64 %waited, %limit
  br i1 %is_time_left, label %yield, label %leave
yield:
  call void @thread_yield()
  br label %leave
leave:
  ret i1 %is_time_left
}

; Wait until no worker runs.
define internal void @team_wait(ptr %team, ptr %control) nounwind {
start:
  %running_address = getelementptr %team, ptr %team, i64 0, i32 2
  %is_done = call i1 @spin_until(ptr %running_address, i64 0, ptr %team)
  br i1 %is_done, label %leave, label %yield
yield:
  %is_done_soon = call i1 @yield_until(ptr %running_address, i64 0, ptr %team)
  br i1 %is_done_soon, label %leave, label %sleep
sleep:
  %mutex = getelementptr %team, ptr %team, i64 0, i32 15
  %condition = getelementptr %team, ptr %team, i64 0, i32 16
  %sleeps_address = getelementptr %team, ptr %team, i64 0, i32 7
  call void @mutex_lock(ptr %mutex)
  store atomic i64 1, ptr %sleeps_address seq_cst, align 8
  br label %check
check:
  %still_running = load atomic i64, ptr %running_address seq_cst, align 8
  %is_over = icmp eq i64 %still_running, 0
  br i1 %is_over, label %awake, label %wait
wait:
  call void @wait_and_look(ptr %condition, ptr %mutex, ptr %control)
  br label %check
awake:
  store atomic i64 0, ptr %sleeps_address monotonic, align 8
  call void @mutex_unlock(ptr %mutex)
  br label %leave
leave:
  ret void
}

; Wait with the mutex held, and look for signals without it.
define internal void @wait_and_look(ptr %condition, ptr %mutex, ptr %control) nounwind {
  call void @condition_wait_briefly(ptr %condition, ptr %mutex)
  call void @mutex_unlock(ptr %mutex)
  call void @control_look(ptr %control)
  call void @mutex_lock(ptr %mutex)
  ret void
}

; Return once the worker has the %ticket. How long it spins counts from when its dispatch is over: who is done early
; must not be asleep once those who are called last are done, or the next dispatch would be as long.
define internal void @worker_wait(ptr %worker, ptr %team, i64 %ticket) nounwind {
start:
  %mutex = getelementptr %worker, ptr %worker, i64 0, i32 7
  %condition = getelementptr %worker, ptr %worker, i64 0, i32 8
  %asleep_address = getelementptr %worker, ptr %worker, i64 0, i32 1
  br label %spin
spin:
  %is_new = call i1 @spin_until(ptr %worker, i64 %ticket, ptr %team)
  br i1 %is_new, label %leave, label %consider
consider:
  %is_over = call i1 @team_is_over(ptr %team)
  br i1 %is_over, label %sleep, label %yield
yield:
  %is_over_soon = call i1 @yield_until(ptr %worker, i64 %ticket, ptr %team)
  br i1 %is_over_soon, label %spin, label %sleep
sleep:
  %sleepers_address = getelementptr %team, ptr %team, i64 0, i32 31
  call void @mutex_lock(ptr %mutex)
  %sleepers_before = atomicrmw add ptr %sleepers_address, i64 1 monotonic, align 8
  store atomic i64 1, ptr %asleep_address seq_cst, align 8
  %ticket_now = load atomic i64, ptr %worker seq_cst, align 8
  %is_called = icmp eq i64 %ticket_now, %ticket
  br i1 %is_called, label %awake, label %wait
wait:
  call void @condition_wait(ptr %condition, ptr %mutex)
  %ticket_then = load atomic i64, ptr %worker seq_cst, align 8
  %is_called_then = icmp eq i64 %ticket_then, %ticket
  br i1 %is_called_then, label %measure, label %awake
measure:
  call void @worker_measure(ptr %team)
  br label %awake
awake:
  %has_ticket = phi i1 [ true, %sleep ], [ true, %measure ], [ false, %wait ]
  store atomic i64 0, ptr %asleep_address monotonic, align 8
  %sleepers_then = atomicrmw sub ptr %sleepers_address, i64 1 monotonic, align 8
  call void @mutex_unlock(ptr %mutex)
  br i1 %has_ticket, label %leave, label %spin
leave:
  ret void
}

; The slow side of @barrier_wait: yield, then sleep, until the generation is no longer %generation.
define internal void @barrier_sleep(ptr %barrier, i64 %generation) nounwind {
start:
  %generation_address = getelementptr %barrier, ptr %barrier, i64 0, i32 2
  %begin = call i64 @microseconds()
  %is_noted = call i1 @barrier_note_late(ptr %barrier, i64 %generation)
  %is_open_soon = call i1 @barrier_yield(ptr %barrier, i64 %generation, i64 %begin)
  br i1 %is_open_soon, label %leave, label %sleep
sleep:
  %sleepers = getelementptr %barrier, ptr %barrier, i64 0, i32 3
  %mutex = getelementptr %barrier, ptr %barrier, i64 0, i32 8
  %condition = getelementptr %barrier, ptr %barrier, i64 0, i32 9
  call void @mutex_lock(ptr %mutex)
  %before = atomicrmw add ptr %sleepers, i64 1 seq_cst, align 8
  %control_address = getelementptr %barrier, ptr %barrier, i64 0, i32 7, i32 0
  %control = load ptr, ptr %control_address, align 8
  br label %check
check:
  %now = load atomic i64, ptr %generation_address seq_cst, align 8
  %is_open = icmp ne i64 %now, %generation
  br i1 %is_open, label %awake, label %wait
wait:
  call void @wait_and_look(ptr %condition, ptr %mutex, ptr %control)
  br label %check
awake:
  %after = atomicrmw sub ptr %sleepers, i64 1 monotonic, align 8
  call void @mutex_unlock(ptr %mutex)
  call void @barrier_measure(ptr %barrier)
  br label %leave
leave:
  call void @barrier_note_lost(ptr %barrier, i1 %is_noted, i64 %generation, i64 %begin)
  ret void
}

; A dispatch begins with the barrier of %generation: nobody has come late.
define internal void @barrier_forget_late(ptr %barrier, i64 %generation) nounwind {
  %late_address = getelementptr %barrier, ptr %barrier, i64 0, i32 16
  store atomic i64 0, ptr %late_address monotonic, align 8
  %first_lost_address = getelementptr %barrier, ptr %barrier, i64 0, i32 18
  store atomic i64 0, ptr %first_lost_address monotonic, align 8
  %others_lost_address = getelementptr %barrier, ptr %barrier, i64 0, i32 19
  store atomic i64 0, ptr %others_lost_address monotonic, align 8
  %others_late_address = getelementptr %barrier, ptr %barrier, i64 0, i32 20
  store atomic i64 0, ptr %others_late_address monotonic, align 8
  %first_address = getelementptr %barrier, ptr %barrier, i64 0, i32 21
  store atomic i64 %generation, ptr %first_address monotonic, align 8
  ret void
}

; Somebody has spun in vain at the barrier of %generation. The first one says that it is a late one; behind the second
; such barrier of a dispatch all spin for a shorter time. Gives whether it was the first one.
define internal i1 @barrier_note_late(ptr %barrier, i64 %generation) nounwind {
start:
  %last_address = getelementptr %barrier, ptr %barrier, i64 0, i32 17
  %is_first = call i1 @generation_claim(ptr %last_address, i64 %generation)
  br i1 %is_first, label %count, label %leave
count:
  %late_address = getelementptr %barrier, ptr %barrier, i64 0, i32 16
  %before = atomicrmw add ptr %late_address, i64 1 monotonic, align 8
  %is_second = icmp eq i64 %before, 1
  br i1 %is_second, label %shorten, label %leave
shorten:
  %spins_address = getelementptr %barrier, ptr %barrier, i64 0, i32 4
  %spins = load atomic i64, ptr %spins_address monotonic, align 8
  %fewer = lshr i64 %spins, $shorter
  store atomic i64 %fewer, ptr %spins_address monotonic, align 8
  br label %leave
leave:
  %is_noted = phi i1 [ false, %start ], [ true, %count ], [ true, %shorten ]
  ret i1 %is_noted
}

; The one that has noted that the barrier of %generation is a late one has waited from %begin on.
define internal void @barrier_note_lost(ptr %barrier, i1 %is_noted, i64 %generation, i64 %begin) nounwind {
start:
  br i1 %is_noted, label %add, label %leave
add:
  %now = call i64 @microseconds()
  %time = sub i64 %now, %begin
  %first_address = getelementptr %barrier, ptr %barrier, i64 0, i32 18
  %others_address = getelementptr %barrier, ptr %barrier, i64 0, i32 19
  %first_generation_address = getelementptr %barrier, ptr %barrier, i64 0, i32 21
  %first_generation = load atomic i64, ptr %first_generation_address monotonic, align 8
  %is_other = icmp ne i64 %generation, %first_generation
  %address = select i1 %is_other, ptr %others_address, ptr %first_address
  %before = atomicrmw add ptr %address, i64 %time monotonic, align 8
  %others_late_address = getelementptr %barrier, ptr %barrier, i64 0, i32 20
  %other = zext i1 %is_other to i64
  %late_before = atomicrmw add ptr %others_late_address, i64 %other monotonic, align 8
  br label %leave
leave:
  ret void
}

; Whether the generation is no longer %generation before it is time to sleep.
define internal i1 @barrier_yield(ptr %barrier, i64 %generation, i64 %begin) nounwind {
start:
  %generation_address = getelementptr %barrier, ptr %barrier, i64 0, i32 2
  %yielding_address = getelementptr %barrier, ptr %barrier, i64 0, i32 13
  %yielding = load atomic i64, ptr %yielding_address monotonic, align 8
  br label %look
look:
  %now = load atomic i64, ptr %generation_address acquire, align 8
  %is_open = icmp ne i64 %now, %generation
  br i1 %is_open, label %leave, label %yield
yield:
  %is_time_left = call i1 @yield_since(i64 %begin, i64 %yielding)
  br i1 %is_time_left, label %look, label %leave
leave:
  ret i1 %is_open
}

; The thread that opens the barrier wakes those that sleep.
define internal void @barrier_wake(ptr %barrier) nounwind {
  %slowest_address = getelementptr %barrier, ptr %barrier, i64 0, i32 15
  %slowest = atomicrmw xchg ptr %slowest_address, i64 0 monotonic, align 8
  call void @barrier_learn(ptr %barrier, i64 %slowest)
  %waked_address = getelementptr %barrier, ptr %barrier, i64 0, i32 14
  %now = call i64 @microseconds()
  store atomic i64 %now, ptr %waked_address monotonic, align 8
  %mutex = getelementptr %barrier, ptr %barrier, i64 0, i32 8
  %condition = getelementptr %barrier, ptr %barrier, i64 0, i32 9
  call void @wake_all(ptr %mutex, ptr %condition)
  ret void
}

; How long to yield from now on, where it has taken %waking to wake somebody: twice as long, so that those who have been
; waked first do not sleep again before the last ones are there.
define internal void @barrier_learn(ptr %barrier, i64 %waking) nounwind {
  %patience_address = getelementptr %barrier, ptr %barrier, i64 0, i32 13
  %patience = load atomic i64, ptr %patience_address monotonic, align 8
  %twice = mul i64 %waking, 2
  %bounded = call i64 @llvm.umin.i64(i64 %twice, i64 $longest_yielding)
  %more = call i64 @llvm.umax.i64(i64 %patience, i64 %bounded)
  %does_yield = icmp ne i64 %patience, 0
  %learned = select i1 %does_yield, i64 %more, i64 0
  store atomic i64 %learned, ptr %patience_address monotonic, align 8
  ret void
}

; Somebody who has slept at the barrier is awake.
define internal void @barrier_measure(ptr %barrier) nounwind {
  %waked_address = getelementptr %barrier, ptr %barrier, i64 0, i32 14
  %waked = load atomic i64, ptr %waked_address monotonic, align 8
  %now = call i64 @microseconds()
  %time = sub i64 %now, %waked
  %slowest_address = getelementptr %barrier, ptr %barrier, i64 0, i32 15
  %before = atomicrmw umax ptr %slowest_address, i64 %time monotonic, align 8
  ret void
}

; The mutex is held for a moment so that a thread which has checked, but does not wait yet, is not missed.
define internal void @wake_all(ptr %mutex, ptr %condition) nounwind {
  call void @mutex_lock(ptr %mutex)
  call void @mutex_unlock(ptr %mutex)
  call void @condition_wake_all(ptr %condition)
  ret void
}

; To measure how long a pause takes.
define void @team_pause(i64 %times) nounwind {
start:
  br label %pause
pause:
  %left = phi i64 [ %times, %start ], [ %fewer, %pause ]
  $pause
  %fewer = sub i64 %left, 1
  %is_over = icmp eq i64 %fewer, 0
  br i1 %is_over, label %leave, label %pause
leave:
  ret void
}
"""
