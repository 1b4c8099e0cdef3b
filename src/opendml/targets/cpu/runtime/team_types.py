"""The struct types of a thread team's LLVM text."""

from __future__ import annotations

from typing import Final

from opendml.targets.cpu.runtime.barrier_code import MOST_GROUPS, MOST_POOLS
from opendml.targets.cpu.runtime.platform_code import written_in

WAKINGS: Final = 16
"""Medians of how long workers take to wake up that a team keeps (`waking_code`)."""

LONGEST: Final = 10000
"""Microseconds that one thread is expected to take from which on nothing is judged, and all threads are called: what is
said of such work is only that it takes so long or longer (``longest_alone``)."""

MOST_LEVELS: Final = 6
"""How often threads are spared of those that others have been spared of (`fewer_code`)."""

PROGRAM_BITS: Final = 3
"""A team knows of two to this power programs how many threads are to be spared of them: one of those that have a
place together."""


def types_ir() -> str:
    """LLVM text of the types."""
    return written_in(
        _TYPES,
        {
            "$most_groups": MOST_GROUPS,
            "$most_pools": MOST_POOLS,
            "$wakings": WAKINGS,
            "$most_levels": MOST_LEVELS,
            "$programs": 1 << PROGRAM_BITS,
        },
    )


# The struct types. What different threads write at the same time lies in different cache lines; 128 bytes hold the
# mutex or the condition variable of every platform.
_TYPES = """
%storage = type { [128 x i8] }
; How Python gives its lock back and takes it again, how it handles signals, and the thread that may do that.
%python = type { ptr, ptr, ptr, i64 }
;                 0 stop, 1 look, 2 when to look, in milliseconds, 3 the caller's state in Python, null if it has none
%control = type { i64, ptr, i64, ptr }
;                    0 arrived,          2 generation, 3 sleepers, 4 spins, 5 sleep, 6 wake, 7 control, yield    8 mutex
%barrier = type { i64, [56 x i8], i64, i64, i64, ptr, ptr, { ptr, ptr, [8 x i8] }, %storage,
;                 9 condition, 10 arrivals of groups, a line each, 11 counters of pools, 12 threads with such
                  %storage, [$most_groups x [64 x i8]], [2 x [$most_pools x [64 x i8]]], i64,
;                 13 for how many microseconds to yield before sleeping, 14 when the last ones that slept were waked, 15
;                 how long the slowest of them took; 16 how often somebody has spun in vain, 17 the last generation so,
;                 18 for how many microseconds the first one then still waited for the others at the first barrier of a
;                 dispatch, 19 at all others, 20 how often that was at others, 21 the generation of the first one, 22
;                 for how many rounds one waits before it looks what others have not begun, 24 of which generation the
;                 share of each thread was begun last, a line each
                  i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, [40 x i8], [$most_pools x [64 x i8]] }
;                 0 ticket, 1 is asleep, 2 team, 3 thread index, 4 thread, 5 avoided processor    7 mutex   8 condition
;                9 how many of itself and those that it has called run
%worker = type { i64, i64, ptr, i64, ptr, i64, [16 x i8], %storage, %storage,
                 i64, [56 x i8] }
;                 in dispatches: 0 how many are yet to be done by fewer threads, 1 how many of these are a trial, 2 how
;                 many are yet not to be judged, 3 how often in a row a trial was sooner, 4 how often it was not;
;                 5 how many microseconds the one before the trial took, 6 whether one has taken too long
%sparing = type { i64, i64, i64, i64, i64, i64, i64 }
;              1 how many workers more than at the level before are spared; as long as trials have been sooner: 2 how
;              many were by the soonest of them, 3 how many microseconds that took
%level = type { %sparing, i64, i64, i64 }
; Of the program with an entry: 1 what the caller does alone, 2 what is done by fewer threads.
%judged = type { ptr, %sparing, [$most_levels x %level] }
;               0 busy            2 running, of those that the caller has called
%team = type { i64, [56 x i8], i64, [56 x i8],
;              4 entry, 5 args, 6 thread count, 7 the caller sleeps, 8 stopping, 9 started, 10 capacity, 11 spins now
               ptr, ptr, i64, i64, i64, i64, i64, i64,
;              12 spins, 13 processors  15 mutex, 16 all done, 17   18 set of processors
               i64, i64, [48 x i8], %storage, %storage, %barrier, %storage,
;              in microseconds: 19 how long workers spin, 20 when the last dispatch was over, 22 when those that sleep
;              were called, 0 if none was yet, 24 how long it takes to wake one, by how long ago the last dispatch was;
;              21 which of these this dispatch is about, 25 how long its slowest worker took to wake up, 0 if none
;              slept; 23 rounds of a spin loop in a microsecond, 0 if workers spin no longer where it takes longer to
;              wake them, 26 the processor of the caller, 27 whether workers have been waked for the
;              dispatch after this one, which the caller does alone
               i64, i64, i64, i64, i64, [$wakings x i64], i64, i64, i64,
;              28 workers that each thread calls; 29 what is known of programs, 30 by how many levels there are fewer
;              threads now, 31 workers that sleep
               { i64, [56 x i8] }, [$programs x %judged], { i64, [56 x i8] }, i64, [56 x i8] }
; The workers lie behind their team.
"""
