"""The LLVM text of what programs share: a barrier for its threads, and the question whether they are to go on.

Programs know of the structs only offsets; `team_types` has them.
"""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import Final

from opendml.llvm.host import Machine
from opendml.targets.cpu.runtime.platform_code import filled, written_in

GROUP: Final = 4
"""Threads that count their arrivals at a barrier together: each waits for the others' turn at their counter's cache
line, some 60 ns, and so do the last ones of all groups at the one that they share."""

MOST_GROUPS: Final = 16
"""Groups at most, beyond which these are larger."""

MOST_POOLS: Final = 64
"""Threads of which each has a line of counters for the pools of its shares; among more, shares have no pools."""

POOLS_OFFSET: Final = 384 + MOST_GROUPS * 64
"""Bytes before the counters of pools: a line for each thread, twice."""

_WAITS_OFFSET: Final = POOLS_OFFSET + 2 * MOST_POOLS * 64
"""Bytes before what is known of waiting: two lines, in which the generation that the dispatch began with is number 9,
and how long one waits before it looks what others have not begun number 10."""

_SHARES_OFFSET: Final = _WAITS_OFFSET + 128
"""Bytes before a line for each thread that says of which generation its share was begun last."""


SHARED: Final = MappingProxyType(
    {
        "@barrier_wait": "declare void @barrier_wait(ptr, i64, i64) nounwind",
        "@first_generation": "declare i64 @first_generation(ptr, i64) nounwind",
        "@share_begin": "declare i64 @share_begin(ptr, i64, i64, i64) nounwind",
        "@share_left": "declare i64 @share_left(ptr, i64, i64, i64) nounwind",
        "@share_wait": "declare i64 @share_wait(ptr, i64, i64, i64, i1) nounwind",
        "@pools": "declare ptr @pools(ptr, i64, i64) nounwind",
        "@next_run": "declare { i64, i64, i64 } @next_run(ptr, i64, i64, i64, i64, i64, i64) nounwind",
        "@go_on": "declare i1 @go_on(ptr) nounwind",
    }
)
"""What `shared_ir` defines, and how modules that refer to it declare that."""


@functools.cache
def shared_ir(host: Machine) -> str:
    """The LLVM module of what programs share: the same for all of a machine, so that it is compiled once."""
    return barrier_ir(host) + control_ir()


def barrier_ir(host: Machine) -> str:
    """LLVM text that defines `void @barrier_wait(ptr %barrier, i64 %thread, i64 %thread_count)`.

    All `thread_count` threads must call it equally often; what any of them wrote before is seen by all after. A thread
    that is alone returns at once and does not touch `barrier`. Waiting threads spin briefly and then sleep.
    """
    return _with_places(filled(_BARRIER, host) + _SHARES + _POOLS).replace("$group", str(GROUP))


def generations_ir() -> str:
    """LLVM text that the team has in common with programs: `internal i1 @generation_claim(ptr %place, i64 %generation)`
    and `internal void @pools_empty(ptr %barrier, i64 %thread, i64 %set)`."""
    return _with_places(_GENERATIONS)


def _with_places(text: str) -> str:
    numbers = {
        "$most_groups": MOST_GROUPS,
        "$most_pools": MOST_POOLS,
        "$pools": POOLS_OFFSET,
        "$shares": _SHARES_OFFSET,
        "$first_generation": _WAITS_OFFSET + 9 * 8,
        "$acting_after": _WAITS_OFFSET + 10 * 8,
    }
    return written_in(text, numbers)


def control_ir() -> str:
    """LLVM text that defines `i1 @go_on(ptr %control)`: whether a thread is to do more work."""
    return _GO_ON


# A barrier counts arrivals; the last thread to arrive resets the count and advances the generation that the others wait
# for. More than a few threads count by groups, each of which has a cache line for it: the last one of a group resets
# its count and arrives for all of it. Programs know of the struct only these offsets: 0 arrivals, 64 generation, 72
# sleepers, 80 spins before sleeping, 88 the function to sleep in, 96 that to wake sleepers, 112 that to offer the
# processor to others, from 384 on a line for each group, behind them two sets of lines, one for each thread: how many
# work items have been taken from the pool of its share of each of the kernels since the last barrier. Generations use
# the sets in turn: behind a barrier nobody is at work in the generation before any longer, so that whoever begins a
# share sets its line of that one's set to 0, for the generation after this one. Two lines further there is one for each
# thread's share (`_SHARES`).
_BARRIER = """
define void @barrier_wait(ptr %barrier, i64 %thread, i64 %thread_count) nounwind noinline {
start:
  %alone = icmp ule i64 %thread_count, 1
  br i1 %alone, label %leave, label %arrive
arrive:
  %generation_address = getelementptr i8, ptr %barrier, i64 64
  %generation = load atomic i64, ptr %generation_address monotonic, align 8
  %nobody = call i64 @share_wait(ptr %barrier, i64 %thread, i64 %thread_count, i64 %generation, i1 false)
  %set = and i64 %generation, 1
  call void @pools_empty(ptr %barrier, i64 %thread, i64 %set)
  br label %leave
leave:
  ret void
}

; The share of %thread is done: the last one opens the barrier. Gives whether that was it.
define internal i1 @barrier_arrive(ptr %barrier, i64 %thread, i64 %thread_count) nounwind alwaysinline {
start:
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
  br i1 %is_last_of_group, label %arrive_for_group, label %leave
arrive_for_group:
  store atomic i64 0, ptr %group_address monotonic, align 8
  br label %arrive_alone
arrive_alone:
  %expected = phi i64 [ %thread_count, %start ], [ %groups, %arrive_for_group ]
  %before = atomicrmw add ptr %barrier, i64 1 acq_rel, align 8
  %arrived = add i64 %before, 1
  %is_last = icmp eq i64 %arrived, %expected
  br i1 %is_last, label %release, label %leave
release:
  store atomic i64 0, ptr %barrier monotonic, align 8
  %generation_address = getelementptr i8, ptr %barrier, i64 64
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
leave:
  %has_opened = phi i1 [ false, %arrive_in_group ], [ false, %arrive_alone ], [ true, %release ], [ true, %wake ]
  ret i1 %has_opened
}

; Whether the barrier of %generation is open before so many %rounds are over.
define internal i1 @barrier_spin(ptr %barrier, i64 %generation, i64 %rounds) nounwind alwaysinline {
start:
  %generation_address = getelementptr i8, ptr %barrier, i64 64
  br label %spin
spin:
  %left = phi i64 [ %rounds, %start ], [ %fewer, %pause ]
  %now = load atomic i64, ptr %generation_address acquire, align 8
  %is_open = icmp ne i64 %now, %generation
  br i1 %is_open, label %leave, label %tired
tired:
  %is_tired = icmp eq i64 %left, 0
  br i1 %is_tired, label %leave, label %pause
pause:
  $pause
  %fewer = sub i64 %left, 1
  br label %spin
leave:
  ret i1 %is_open
}
$declare_pause
"""

# Between two barriers every thread has a share of the work, which another thread may do for it as long as it has not
# begun: a thread whose processor is away, or that is not awake yet, is not waited for. Who begins a share writes the
# generation into its line; each is begun once, and whoever has done it arrives for it. A thread that was late finds its
# shares begun, and goes through the program to where one is not. So each thread counts the generations itself.
_SHARES = """
; The generation with which the dispatch has begun.
define i64 @first_generation(ptr %barrier, i64 %threads) nounwind {
start:
  %alone = icmp ule i64 %threads, 1
  br i1 %alone, label %leave, label %look
look:
  %first_address = getelementptr i8, ptr %barrier, i64 $first_generation
  %first = load atomic i64, ptr %first_address monotonic, align 8
  br label %leave
leave:
  %result = phi i64 [ 0, %start ], [ %first, %look ]
  ret i64 %result
}

; Begin the share of %thread in a generation. Gives the thread, or -1 where it has been begun already. Once nobody is in
; the generation before any longer, its set of pools is emptied for the one after this.
define i64 @share_begin(ptr %barrier, i64 %thread, i64 %threads, i64 %generation) nounwind {
start:
  %is_own = call i1 @have_no_lines(i64 %threads)
  br i1 %is_own, label %leave, label %begin
begin:
  %first_line = getelementptr i8, ptr %barrier, i64 $shares
  %line = getelementptr [64 x i8], ptr %first_line, i64 %thread
  %is_first = call i1 @generation_claim(ptr %line, i64 %generation)
  br i1 %is_first, label %empty, label %leave
empty:
  %before = sub i64 %generation, 1
  %set = and i64 %before, 1
  call void @pools_empty(ptr %barrier, i64 %thread, i64 %set)
  br label %leave
leave:
  %result = phi i64 [ %thread, %start ], [ -1, %begin ], [ %thread, %empty ]
  ret i64 %result
}

; Begin a share that its thread has not begun. Gives the thread, or -1 where there is none. %thread: who comes last.
define i64 @share_left(ptr %barrier, i64 %thread, i64 %threads, i64 %generation) nounwind noinline {
start:
  %are_kept = call i1 @have_no_lines(i64 %threads)
  br i1 %are_kept, label %leave, label %next
next:
  %ahead = phi i64 [ 1, %start ], [ %ahead_next, %further ]
  %other = call i64 @thread_ahead(i64 %thread, i64 %ahead, i64 %threads)
  %begun = call i64 @share_begin(ptr %barrier, i64 %other, i64 %threads, i64 %generation)
  %is_first = icmp sge i64 %begun, 0
  br i1 %is_first, label %leave, label %further
further:
  %ahead_next = add i64 %ahead, 1
  %is_over = icmp ugt i64 %ahead_next, %threads
  br i1 %is_over, label %leave, label %next
leave:
  %result = phi i64 [ -1, %start ], [ %other, %next ], [ -1, %further ]
  ret i64 %result
}

; Wait for the end of a generation, with the share of %thread done, or none if that is -1. If it %acts gives the thread
; whose share, which it has not begun, is to be done meanwhile; else -1.
define i64 @share_wait(ptr %barrier, i64 %thread, i64 %threads, i64 %generation, i1 %acts) nounwind {
start:
  %alone = icmp ule i64 %threads, 1
  br i1 %alone, label %leave, label %look
look:
  %has_share = icmp sge i64 %thread, 0
  br i1 %has_share, label %arrive, label %wait
arrive:
  %has_opened = call i1 @barrier_arrive(ptr %barrier, i64 %thread, i64 %threads)
  br i1 %has_opened, label %leave, label %wait
wait:
  %place = select i1 %has_share, i64 %thread, i64 0
  %spins_address = getelementptr i8, ptr %barrier, i64 80
  %spins = load atomic i64, ptr %spins_address monotonic, align 8
  %after_address = getelementptr i8, ptr %barrier, i64 $acting_after
  %after = load atomic i64, ptr %after_address monotonic, align 8
  %first_rounds = select i1 %acts, i64 %after, i64 %spins
  %at_once = call i64 @llvm.umax.i64(i64 %first_rounds, i64 1)
  ; Who does not spin may have the processor of one that has not begun.
  %is_still = icmp eq i64 %spins, 0
  %offers = and i1 %is_still, %acts
  br i1 %offers, label %yield, label %spin
yield:
  %yield_address = getelementptr i8, ptr %barrier, i64 112
  %yield_function = load ptr, ptr %yield_address, align 8
  call void %yield_function()
  br label %spin
spin:
  %left = phi i64 [ %spins, %wait ], [ 0, %yield ], [ %fewer, %rest ]
  %rounds = call i64 @llvm.umin.i64(i64 %left, i64 %at_once)
  %is_open = call i1 @barrier_spin(ptr %barrier, i64 %generation, i64 %rounds)
  br i1 %is_open, label %leave, label %tired
tired:
  br i1 %acts, label %act, label %rest
act:
  %other = call i64 @share_left(ptr %barrier, i64 %place, i64 %threads, i64 %generation)
  %is_found = icmp sge i64 %other, 0
  br i1 %is_found, label %leave, label %rest
rest:
  %fewer = sub i64 %left, %rounds
  %is_tired = icmp eq i64 %fewer, 0
  br i1 %is_tired, label %sleep, label %spin
sleep:
  %sleep_address = getelementptr i8, ptr %barrier, i64 88
  %sleep_function = load ptr, ptr %sleep_address, align 8
  call void %sleep_function(ptr %barrier, i64 %generation)
  br label %leave
leave:
  %result = phi i64 [ -1, %start ], [ -1, %arrive ], [ -1, %spin ], [ %other, %act ], [ -1, %sleep ]
  ret i64 %result
}

; Whether threads have neither pools nor shares that others may begin: one that is alone, and those that are too many.
define internal i1 @have_no_lines(i64 %threads) nounwind alwaysinline {
  %alone = icmp ule i64 %threads, 1
  %are_many = icmp ugt i64 %threads, $most_pools
  %result = or i1 %alone, %are_many
  ret i1 %result
}

; The thread that is so far %ahead of a thread, up to as far as there are threads: the first one is ahead of the last.
define internal i64 @thread_ahead(i64 %thread, i64 %ahead, i64 %threads) nounwind alwaysinline {
  %turn = add i64 %thread, %ahead
  %is_around = icmp uge i64 %turn, %threads
  %around = select i1 %is_around, i64 %threads, i64 0
  %other = sub i64 %turn, %around
  ret i64 %other
}

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
"""

_GENERATIONS = """
; Write a generation where an earlier one stands. Gives whether it did: for one thread only.
define internal i1 @generation_claim(ptr %place, i64 %generation) nounwind alwaysinline {
start:
  %last = load atomic i64, ptr %place monotonic, align 8
  %is_late = icmp uge i64 %last, %generation
  br i1 %is_late, label %leave, label %exchange
exchange:
  %exchanged = cmpxchg ptr %place, i64 %last, i64 %generation acq_rel monotonic, align 8
  %is_first = extractvalue { i64, i1 } %exchanged, 1
  br label %leave
leave:
  %result = phi i1 [ false, %start ], [ %is_first, %exchange ]
  ret i1 %result
}

; None of a thread's pools of a set has been taken from.
define internal void @pools_empty(ptr %barrier, i64 %thread, i64 %set) nounwind alwaysinline {
start:
  %has_pools = icmp ult i64 %thread, $most_pools
  br i1 %has_pools, label %empty, label %leave
empty:
  %before = mul i64 %set, $most_pools
  %number = add i64 %before, %thread
  %line_offset = mul i64 %number, 64
  %first_line = getelementptr i8, ptr %barrier, i64 $pools
  %line = getelementptr i8, ptr %first_line, i64 %line_offset
  store <8 x i64> zeroinitializer, ptr %line, align 8
  br label %leave
leave:
  ret void
}
"""

# Where the counters of one kernel's pools are, that of the first thread before the others; null where it has none. And
# the next run of work items for a thread that has been through those of the share `ahead` of its own: where it begins
# and ends, and how far ahead it is, the latter `threads` where there is none left. Of every share the first items are
# its thread's own, of all `count` items `kept`.
_POOLS = (
    _GENERATIONS
    + """
define ptr @pools(ptr %barrier, i64 %threads, i64 %kernel) nounwind {
start:
  %none = call i1 @have_no_lines(i64 %threads)
  br i1 %none, label %leave, label %find
find:
  %generation_address = getelementptr i8, ptr %barrier, i64 64
  %generation = load atomic i64, ptr %generation_address monotonic, align 8
  %set = and i64 %generation, 1
  %before = mul i64 %set, $most_pools
  %set_offset = mul i64 %before, 64
  %first_line = getelementptr i8, ptr %barrier, i64 $pools
  %line = getelementptr i8, ptr %first_line, i64 %set_offset
  %counters = getelementptr i64, ptr %line, i64 %kernel
  br label %leave
leave:
  %found = phi ptr [ null, %start ], [ %counters, %find ]
  ret ptr %found
}

define { i64, i64, i64 } @next_run(ptr %taken, i64 %thread, i64 %threads, i64 %count, i64 %kept, i64 %run,
                                   i64 %ahead_before) nounwind noinline {
start:
  br label %look
look:
  %ahead = phi i64 [ %ahead_before, %start ], [ %ahead_next, %further ]
  %owner = call i64 @thread_ahead(i64 %thread, i64 %ahead, i64 %threads)
  %items_before = mul i64 %owner, %count
  %items_behind = add i64 %items_before, %count
  %first = udiv i64 %items_before, %threads
  %last = udiv i64 %items_behind, %threads
  %size = sub i64 %last, %first
  %product = mul i64 %size, %kept
  %own = udiv i64 %product, %count
  %first_taken = add i64 %first, %own
  %pool = sub i64 %size, %own
  %offset = mul i64 %owner, 64
  %counter = getelementptr i8, ptr %taken, i64 %offset
  ; An atomic addition would take a line away from those who only look.
  %known = load atomic i64, ptr %counter monotonic, align 8
  %may_be_left = icmp ult i64 %known, %pool
  br i1 %may_be_left, label %take, label %further
take:
  %number = atomicrmw add ptr %counter, i64 %run monotonic, align 8
  %is_left = icmp ult i64 %number, %pool
  br i1 %is_left, label %found, label %further
found:
  %begin = add i64 %first_taken, %number
  %behind = add i64 %begin, %run
  %is_whole = icmp ult i64 %behind, %last
  %end = select i1 %is_whole, i64 %behind, i64 %last
  br label %leave
further:
  %ahead_next = add i64 %ahead, 1
  %is_over = icmp uge i64 %ahead_next, %threads
  br i1 %is_over, label %leave, label %look
leave:
  %result_begin = phi i64 [ %begin, %found ], [ 0, %further ]
  %result_end = phi i64 [ %end, %found ], [ 0, %further ]
  %result_ahead = phi i64 [ %ahead, %found ], [ %threads, %further ]
  %with_begin = insertvalue { i64, i64, i64 } poison, i64 %result_begin, 0
  %with_end = insertvalue { i64, i64, i64 } %with_begin, i64 %result_end, 1
  %result = insertvalue { i64, i64, i64 } %with_end, i64 %result_ahead, 2
  ret { i64, i64, i64 } %result
}
"""
)

# Programs know of the control block of a dispatch: 0 whether it is to stop, 8 the function that looks for a reason, if
# this is the thread that may.
_GO_ON = """
define i1 @go_on(ptr %control) nounwind noinline {
  %look_address = getelementptr i8, ptr %control, i64 8
  %look_function = load ptr, ptr %look_address, align 8
  call void %look_function(ptr %control)
  %stop = load atomic i64, ptr %control monotonic, align 8
  %goes_on = icmp eq i64 %stop, 0
  ret i1 %goes_on
}
"""
