"""The LLVM text that every program contains: a barrier for its threads, and the question whether they are to go on.

Programs know of the structs only offsets; `team_code` has their types.
"""

from __future__ import annotations

from typing import Final

from opendml.llvm.host import Machine
from opendml.targets.cpu.runtime.platform_code import filled

GROUP: Final = 4
"""Threads that count their arrivals at a barrier together: each waits for the others' turn at their counter's cache
line, some 60 ns, and so do the last ones of all groups at the one that they share."""

MOST_GROUPS: Final = 16
"""Groups at most, beyond which these are larger."""


def barrier_ir(host: Machine) -> str:
    """LLVM text that defines `internal void @barrier_wait(ptr %barrier, i64 %thread, i64 %thread_count)`.

    All `thread_count` threads must call it equally often; what any of them wrote before is seen by all after. A thread
    that is alone returns at once and does not touch `barrier`. Waiting threads spin briefly and then sleep.
    """
    return filled(_BARRIER, host).replace("$most_groups", str(MOST_GROUPS)).replace("$group", str(GROUP))


def control_ir() -> str:
    """LLVM text that defines `internal i1 @go_on(ptr %control, i64 %thread)`: whether a thread is to do more work."""
    return _GO_ON


# A barrier counts arrivals; the last thread to arrive resets the count and advances the generation that the others wait
# for. More than a few threads count by groups, each of which has a cache line for it: the last one of a group resets
# its count and arrives for all of it. Programs know of the struct only these offsets: 0 arrivals, 8 to 56 how many work
# items have been taken from the pools of the kernels since the last barrier, 64 generation, 72 sleepers, 80 spins
# before sleeping, 88 the function to sleep in, 96 that to wake sleepers, from 384 on a line for each group. The last
# thread to arrive empties the pools' counters too: whoever takes from one comes before the barrier behind it.
_BARRIER = """
define internal void @barrier_wait(ptr %barrier, i64 %thread, i64 %thread_count) nounwind noinline {
start:
  %alone = icmp ule i64 %thread_count, 1
  br i1 %alone, label %leave, label %arrive
arrive:
  %generation_address = getelementptr i8, ptr %barrier, i64 64
  %generation = load atomic i64, ptr %generation_address monotonic, align 8
  %is_few = icmp ule i64 %thread_count, $group
  br i1 %is_few, label %arrive_alone, label %arrive_in_group
arrive_in_group:
  %more_threads = add i64 %thread_count, $group
  %more_threads_less = sub i64 %more_threads, 1
  %wanted_groups = udiv i64 %more_threads_less, $group
  %are_many = icmp ugt i64 %wanted_groups, $most_groups
  %groups = select i1 %are_many, i64 $most_groups, i64 %wanted_groups
  %group = urem i64 %thread, %groups
  %behind = sub i64 %groups, %group
  %behind_less = sub i64 %behind, 1
  %rounded = add i64 %thread_count, %behind_less
  %group_size = udiv i64 %rounded, %groups
  %group_offset = mul i64 %group, 64
  %first_group = getelementptr i8, ptr %barrier, i64 384
  %group_address = getelementptr i8, ptr %first_group, i64 %group_offset
  %before_in_group = atomicrmw add ptr %group_address, i64 1 acq_rel, align 8
  %arrived_in_group = add i64 %before_in_group, 1
  %is_last_of_group = icmp eq i64 %arrived_in_group, %group_size
  br i1 %is_last_of_group, label %arrive_for_group, label %spin_start
arrive_for_group:
  store atomic i64 0, ptr %group_address monotonic, align 8
  br label %arrive_alone
arrive_alone:
  %expected = phi i64 [ %thread_count, %arrive ], [ %groups, %arrive_for_group ]
  %before = atomicrmw add ptr %barrier, i64 1 acq_rel, align 8
  %arrived = add i64 %before, 1
  %is_last = icmp eq i64 %arrived, %expected
  br i1 %is_last, label %release, label %spin_start
release:
  store atomic i64 0, ptr %barrier monotonic, align 8
  %taken = getelementptr i8, ptr %barrier, i64 8
  store <7 x i64> zeroinitializer, ptr %taken, align 8
  %advanced = atomicrmw add ptr %generation_address, i64 1 seq_cst, align 8
  %sleepers_address = getelementptr i8, ptr %barrier, i64 72
  %sleepers = load atomic i64, ptr %sleepers_address seq_cst, align 8
  %none_sleep = icmp eq i64 %sleepers, 0
  br i1 %none_sleep, label %leave, label %wake
wake:
  %wake_address = getelementptr i8, ptr %barrier, i64 96
  %wake_function = load ptr, ptr %wake_address, align 8
  call void %wake_function(ptr %barrier)
  br label %leave
spin_start:
  %spins_address = getelementptr i8, ptr %barrier, i64 80
  %spins = load i64, ptr %spins_address, align 8
  br label %spin
spin:
  %left = phi i64 [ %spins, %spin_start ], [ %fewer, %pause ]
  %now = load atomic i64, ptr %generation_address acquire, align 8
  %is_open = icmp ne i64 %now, %generation
  br i1 %is_open, label %leave, label %tired
tired:
  %is_tired = icmp eq i64 %left, 0
  br i1 %is_tired, label %sleep, label %pause
pause:
  $pause
  %fewer = sub i64 %left, 1
  br label %spin
sleep:
  %sleep_address = getelementptr i8, ptr %barrier, i64 88
  %sleep_function = load ptr, ptr %sleep_address, align 8
  call void %sleep_function(ptr %barrier, i64 %generation)
  br label %leave
leave:
  ret void
}
$declare_pause
"""

# Programs know of the control block of a dispatch: 0 whether it is to stop, 8 the function that looks for a reason.
_GO_ON = """
define internal i1 @go_on(ptr %control, i64 %thread) nounwind noinline {
start:
  %is_caller = icmp eq i64 %thread, 0
  br i1 %is_caller, label %look, label %leave
look:
  %look_address = getelementptr i8, ptr %control, i64 8
  %look_function = load ptr, ptr %look_address, align 8
  call void %look_function(ptr %control)
  br label %leave
leave:
  %stop = load atomic i64, ptr %control monotonic, align 8
  %goes_on = icmp eq i64 %stop, 0
  ret i1 %goes_on
}
"""
