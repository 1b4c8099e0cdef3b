"""The LLVM text of a thread team, which dispatches programs; what these themselves contain is `barrier_code`.

A signal, Ctrl-C before all, is handled by Python's main thread, and by it only between two of its own instructions. A
dispatch is one instruction. So the main thread, if it is the one that has called, looks now and then whether there is a
signal, as code of Python's own does that takes long: programs ask for that between their work items (``go_on``), waits
that are long enough to sleep in wake up for it. What a handler raises stops the dispatch: what is left of the program
is passed over, and the call raises it.

A worker that sleeps is awake a long time after it was called, in virtual machines hundreds of microseconds, and the
longer, the longer it has slept: workers measure that, and a dispatch waits for the slowest of them. Where the caller
would have to wait longer than others save it, it does all of the work by itself, if a worker that it wants sleeps. Only
where such work comes soon after such work, as a loop has it, are workers waked, for the next time: they spin again
before they sleep. What is not measured is taken to be less and less, so that it is measured now and then.
"""

from __future__ import annotations

from typing import Final

from opendml.llvm.host import Machine
from opendml.targets.cpu.runtime.barrier_code import MOST_GROUPS, MOST_POOLS, pools_ir
from opendml.targets.cpu.runtime.platform_code import filled, platform_ir

ALONE_BITS: Final = 32
"""Bits of how many threads are asked for. Those above say how many microseconds one thread would take alone."""

LONG: Final = (1 << 31) - 1
"""So many microseconds, or more."""

FIRST_GUESS: Final = 50
"""Microseconds that a sleeping worker takes to wake up, as long as none has been measured."""

WAKINGS: Final = 16
"""Medians of that which are kept, by how long ago the last dispatch was."""

SHORTEST_PAUSE: Final = 64
"""Microseconds up to which the first one is meant; each other one is meant up to twice as many as the one before it."""

_SHORT_PAUSES: Final = 2
"""The number of the one that says how long workers spin: how long it takes to wake who has slept for a short time."""

LONGEST_WAKING: Final = 2000
"""Microseconds up to which it counts: a worker that takes longer has had to wait for another process."""

YIELDING: Final = 16
"""Microseconds for each of the threads that those who wait at a barrier, and have spun, offer their processor to others
before they sleep. Sleepers are waked one after another, and are not at the next barrier before those who have been
waked first are tired of it: with 48 threads or more none was awake any longer once all had slept, and each kernel took
a third of a millisecond longer. A processor of a virtual machine is now and then away for a millisecond, too."""

OFTEN: Final = 4
"""Barriers of a dispatch at which threads have slept all the same; behind them they sleep as soon as they have spun."""


def team_ir(host: Machine) -> str:
    """The LLVM text of the team for `host`."""
    text = (_TYPES + _TEAM).replace("$most_groups", str(MOST_GROUPS)).replace("$most_pools", str(MOST_POOLS))
    numbers = {
        "$alone_bits": ALONE_BITS,
        "$first_guess": FIRST_GUESS,
        "$longest_waking": LONGEST_WAKING,
        "$wakings": WAKINGS,
        "$last_waking": WAKINGS - 1,
        "$short_pauses": _SHORT_PAUSES,
        "$yielding": YIELDING,
        "$often": OFTEN,
        "$shortest_pause": SHORTEST_PAUSE,
    }
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    return filled(text, host) + pools_ir() + platform_ir(host)


# The struct types. What different threads write at the same time lies in different cache lines; 128 bytes hold the
# mutex or the condition variable of every platform.
_TYPES = """
%storage = type { [128 x i8] }
; How Python gives its lock back and takes it again, how it handles signals, and the thread that may do that.
%python = type { ptr, ptr, ptr, i64 }
;                 0 stop, 1 look, 2 when to look, in milliseconds, 3 the caller's state in Python, null if it has none
%control = type { i64, ptr, i64, ptr }
;                    0 arrived,          2 generation, 3 sleepers, 4 spins, 5 sleep, 6 wake, 7 control    8 mutex
%barrier = type { i64, [56 x i8], i64, i64, i64, ptr, ptr, { ptr, [16 x i8] }, %storage,
;                 9 condition, 10 arrivals of groups, a line each, 11 counters of pools, 12 threads with such
                  %storage, [$most_groups x [64 x i8]], [2 x [$most_pools x [64 x i8]]], i64,
;                 13 for how many microseconds to yield before sleeping, 14 how often all have had to sleep
                  i64, i64, [40 x i8] }
;                 0 ticket, 1 is asleep, 2 team, 3 thread index, 4 thread, 5 avoided processor    7 mutex   8 condition
%worker = type { i64, i64, ptr, i64, ptr, i64, [16 x i8], %storage, %storage }
;               0 busy            2 running
%team = type { i64, [56 x i8], i64, [56 x i8],
;              4 entry, 5 args, 6 thread count, 7 the caller sleeps, 8 stopping, 9 started, 10 capacity, 11 spins now
               ptr, ptr, i64, i64, i64, i64, i64, i64,
;              12 spins, 13 processors  15 mutex, 16 all done, 17   18 set of processors
               i64, i64, [48 x i8], %storage, %storage, %barrier, %storage,
;              in microseconds: 19 how long workers spin, 20 when the last dispatch was over, 22 when those that sleep
;              were called, 0 if none was yet, 24 how long it takes to wake one, by how long ago the last dispatch was;
;              21 which of these this dispatch is about, 25 how long its slowest worker took to wake up, 0 if none
;              slept; 23 rounds of a spin loop in a microsecond, 0 if workers spin no longer where it takes longer to
;              wake them
               i64, i64, i64, i64, i64, [$wakings x i64], i64, [16 x i8] }
; The workers lie behind their team.
"""

# A dispatch gives every worker that takes part a new ticket. A worker sleeps only while it says so in "is asleep" and
# its ticket is still the old one; since both sides write before they read, and all four accesses are sequentially
# consistent, either the worker sees the new ticket or the dispatcher sees the sleeper. "the caller sleeps" and
# "running", and "sleepers" and "generation", are two more such pairs.
_TEAM = """
define i64 @team_size(i64 %thread_count) nounwind {
  %workers = getelementptr %team, ptr null, i64 1
  %end = getelementptr %worker, ptr %workers, i64 %thread_count
  %size = ptrtoint ptr %end to i64
  ret i64 %size
}

define void @team_initialise(
    ptr %team, i64 %capacity, i64 %spins, i64 %processors, i64 %patience, i64 %rounds
) nounwind {
start:
  %rounds_address = getelementptr %team, ptr %team, i64 0, i32 23
  store i64 %rounds, ptr %rounds_address, align 8
  %patience_address = getelementptr %team, ptr %team, i64 0, i32 19
  store i64 %patience, ptr %patience_address, align 8
  %capacity_address = getelementptr %team, ptr %team, i64 0, i32 10
  store i64 %capacity, ptr %capacity_address, align 8
  %spins_address = getelementptr %team, ptr %team, i64 0, i32 12
  store i64 %spins, ptr %spins_address, align 8
  %processors_address = getelementptr %team, ptr %team, i64 0, i32 13
  store i64 %processors, ptr %processors_address, align 8
  %set = getelementptr %team, ptr %team, i64 0, i32 18
  call void @processors_of_caller(ptr %set)
  call void @team_reset(ptr %team)
  br label %guess
guess:
  %number = phi i64 [ 0, %start ], [ %number_next, %guess ]
  %waking_address = getelementptr %team, ptr %team, i64 0, i32 24, i64 %number
  store atomic i64 $first_guess, ptr %waking_address monotonic, align 8
  %number_next = add i64 %number, 1
  %is_more = icmp ult i64 %number_next, $wakings
  br i1 %is_more, label %guess, label %leave
leave:
  ret void
}

; No worker exists: the state after creation, and in a child process after a fork.
define void @team_reset(ptr %team) nounwind {
  %running = getelementptr %team, ptr %team, i64 0, i32 2
  store atomic i64 0, ptr %running monotonic, align 8
  %caller_sleeps = getelementptr %team, ptr %team, i64 0, i32 7
  store atomic i64 0, ptr %caller_sleeps monotonic, align 8
  %started = getelementptr %team, ptr %team, i64 0, i32 9
  store i64 0, ptr %started, align 8
  %mutex = getelementptr %team, ptr %team, i64 0, i32 15
  call void @mutex_initialise(ptr %mutex)
  %done = getelementptr %team, ptr %team, i64 0, i32 16
  call void @condition_initialise(ptr %done)
  %barrier = getelementptr %team, ptr %team, i64 0, i32 17
  store atomic i64 0, ptr %barrier monotonic, align 8
  %groups = getelementptr %barrier, ptr %barrier, i64 0, i32 10
  store [$most_groups x [64 x i8]] zeroinitializer, ptr %groups, align 8
  %pool_threads = getelementptr %barrier, ptr %barrier, i64 0, i32 12
  store i64 0, ptr %pool_threads, align 8
  %sleepers = getelementptr %barrier, ptr %barrier, i64 0, i32 3
  store atomic i64 0, ptr %sleepers monotonic, align 8
  %sleep = getelementptr %barrier, ptr %barrier, i64 0, i32 5
  store ptr @barrier_sleep, ptr %sleep, align 8
  %wake = getelementptr %barrier, ptr %barrier, i64 0, i32 6
  store ptr @barrier_wake, ptr %wake, align 8
  %barrier_mutex = getelementptr %barrier, ptr %barrier, i64 0, i32 8
  call void @mutex_initialise(ptr %barrier_mutex)
  %barrier_condition = getelementptr %barrier, ptr %barrier, i64 0, i32 9
  call void @condition_initialise(ptr %barrier_condition)
  ; A stopped team stays busy for ever.
  %stopping_address = getelementptr %team, ptr %team, i64 0, i32 8
  %stopping = load atomic i64, ptr %stopping_address monotonic, align 8
  store atomic i64 %stopping, ptr %team release, align 8
  ret void
}

define i64 @team_run(ptr %team, ptr %entry, ptr %args, i64 %wanted) nounwind {
  %control = alloca %control, align 8
  call void @control_begin(ptr %control, ptr null)
  %count = call i64 @team_run_controlled(ptr %team, ptr %entry, ptr %args, i64 %wanted, ptr %control)
  ret i64 %count
}

define internal i64 @team_run_controlled(ptr %team, ptr %entry, ptr %args, i64 %asked, ptr %control) nounwind {
start:
  %alone = lshr i64 %asked, $alone_bits
  %above = shl i64 %alone, $alone_bits
  %wanted = sub i64 %asked, %above
  %is_single = icmp ule i64 %wanted, 1
  br i1 %is_single, label %run_alone, label %acquire
acquire:
  %exchange = cmpxchg ptr %team, i64 0, i64 1 acquire monotonic, align 8
  %acquired = extractvalue { i64, i1 } %exchange, 1
  br i1 %acquired, label %consider, label %run_alone
consider:
  %now = call i64 @microseconds()
  %last_address = getelementptr %team, ptr %team, i64 0, i32 20
  %last = load atomic i64, ptr %last_address monotonic, align 8
  %gap = sub i64 %now, %last
  %pauses = udiv i64 %gap, $shortest_pause
  %zeros = call i64 @llvm.ctlz.i64(i64 %pauses, i1 false)
  %digits = sub i64 64, %zeros
  %pause = call i64 @llvm.umin.i64(i64 %digits, i64 $last_waking)
  %pause_address = getelementptr %team, ptr %team, i64 0, i32 21
  store atomic i64 %pause, ptr %pause_address monotonic, align 8
  %others = sub i64 %wanted, 1
  %work_of_others = mul i64 %alone, %others
  %saved = udiv i64 %work_of_others, %wanted
  %waking_address = getelementptr %team, ptr %team, i64 0, i32 24, i64 %pause
  %waking = load atomic i64, ptr %waking_address monotonic, align 8
  %is_brief = icmp ult i64 %saved, %waking
  br i1 %is_brief, label %look, label %recruit
look:
  %is_awake = call i1 @team_is_awake(ptr %team, i64 %wanted)
  br i1 %is_awake, label %recruit, label %brief
brief:
  %decay = udiv i64 %waking, 32
  %less = sub i64 %waking, %decay
  store atomic i64 %less, ptr %waking_address monotonic, align 8
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
  br i1 %is_soon, label %rouse, label %release
rouse:
  call void @team_rouse(ptr %team, i64 %wanted)
  br label %release
release:
  store atomic i64 0, ptr %team release, align 8
  call void @call_entry(ptr %entry, ptr %args, i64 0, i64 1, ptr null, ptr %control)
  call void @team_note_end(ptr %team)
  ret i64 1
run_alone:
  call void @call_entry(ptr %entry, ptr %args, i64 0, i64 1, ptr null, ptr %control)
  ret i64 1
recruit:
  %workers = call i64 @team_recruit(ptr %team, i64 %wanted)
  %has_workers = icmp ne i64 %workers, 0
  br i1 %has_workers, label %dispatch, label %nobody
nobody:
  store atomic i64 0, ptr %team release, align 8
  br label %run_alone
dispatch:
  %count = add i64 %workers, 1
  call void @team_dispatch(ptr %team, ptr %entry, ptr %args, i64 %workers, ptr %control)
  %barrier = getelementptr %team, ptr %team, i64 0, i32 17
  call void @call_entry(ptr %entry, ptr %args, i64 0, i64 %count, ptr %barrier, ptr %control)
  call void @team_wait(ptr %team, ptr %control)
  call void @team_note_waking(ptr %team)
  call void @team_note_end(ptr %team)
  store atomic i64 0, ptr %team release, align 8
  ret i64 %count
}

define internal void @team_note_end(ptr %team) nounwind {
  %last_address = getelementptr %team, ptr %team, i64 0, i32 20
  %now = call i64 @microseconds()
  store atomic i64 %now, ptr %last_address monotonic, align 8
  ret void
}

; The same, of a struct of the four and room for a control block: a foreign call with one argument takes half as long.
; It is called with the interpreter's lock held, gives it back meanwhile, and may return with an exception set.
define void @team_call(ptr %call) nounwind {
  %control = getelementptr ptr, ptr %call, i64 4
  %detach_address = getelementptr %python, ptr @python, i64 0, i32 0
  %attach_address = getelementptr %python, ptr @python, i64 0, i32 1
  %detach = load ptr, ptr %detach_address, align 8
  %attach = load ptr, ptr %attach_address, align 8
  %state = call ptr %detach()
  call void @control_begin(ptr %control, ptr %state)
  %entry_address = getelementptr ptr, ptr %call, i64 1
  %args_address = getelementptr ptr, ptr %call, i64 2
  %wanted_address = getelementptr ptr, ptr %call, i64 3
  %team = load ptr, ptr %call, align 8
  %entry = load ptr, ptr %entry_address, align 8
  %args = load ptr, ptr %args_address, align 8
  %wanted = load i64, ptr %wanted_address, align 8
  %count = call i64 @team_run_controlled(ptr %team, ptr %entry, ptr %args, i64 %wanted, ptr %control)
  call void %attach(ptr %state)
  ret void
}

@python = internal global %python zeroinitializer, align 8

define void @team_know(ptr %detach, ptr %attach, ptr %check_signals, i64 %main_thread) nounwind {
  %detach_address = getelementptr %python, ptr @python, i64 0, i32 0
  store ptr %detach, ptr %detach_address, align 8
  %attach_address = getelementptr %python, ptr @python, i64 0, i32 1
  store ptr %attach, ptr %attach_address, align 8
  %check_address = getelementptr %python, ptr @python, i64 0, i32 2
  store ptr %check_signals, ptr %check_address, align 8
  %main_address = getelementptr %python, ptr @python, i64 0, i32 3
  store i64 %main_thread, ptr %main_address, align 8
  ret void
}

define internal void @control_begin(ptr %control, ptr %state) nounwind {
  store atomic i64 0, ptr %control monotonic, align 8
  %look_address = getelementptr %control, ptr %control, i64 0, i32 1
  store ptr @control_look, ptr %look_address, align 8
  %when_address = getelementptr %control, ptr %control, i64 0, i32 2
  store i64 0, ptr %when_address, align 8
  %state_address = getelementptr %control, ptr %control, i64 0, i32 3
  store ptr %state, ptr %state_address, align 8
  ret void
}

; Have Python handle signals, if this is the thread that may and some time has passed; stop if a handler raises.
define internal void @control_look(ptr %control) nounwind {
start:
  %state_address = getelementptr %control, ptr %control, i64 0, i32 3
  %state = load ptr, ptr %state_address, align 8
  %has_state = icmp ne ptr %state, null
  br i1 %has_state, label %identify, label %leave
identify:
  %main_address = getelementptr %python, ptr @python, i64 0, i32 3
  %main_thread = load i64, ptr %main_address, align 8
  %this_thread = call i64 @thread_identity()
  %is_main = icmp eq i64 %this_thread, %main_thread
  br i1 %is_main, label %compare, label %leave
compare:
  %when_address = getelementptr %control, ptr %control, i64 0, i32 2
  %when = load i64, ptr %when_address, align 8
  %now = call i64 @milliseconds()
  %next = add i64 %now, $patience
  %is_first = icmp eq i64 %when, 0
  br i1 %is_first, label %begin, label %wait
begin:
  store i64 %next, ptr %when_address, align 8
  br label %leave
wait:
  %is_early = icmp ult i64 %now, %when
  br i1 %is_early, label %leave, label %look
look:
  store i64 %next, ptr %when_address, align 8
  %stop = load atomic i64, ptr %control monotonic, align 8
  %is_over = icmp ne i64 %stop, 0
  br i1 %is_over, label %leave, label %check
check:
  %detach_address = getelementptr %python, ptr @python, i64 0, i32 0
  %attach_address = getelementptr %python, ptr @python, i64 0, i32 1
  %check_address = getelementptr %python, ptr @python, i64 0, i32 2
  %detach = load ptr, ptr %detach_address, align 8
  %attach = load ptr, ptr %attach_address, align 8
  %check_signals = load ptr, ptr %check_address, align 8
  call void %attach(ptr %state)
  %result = call i32 %check_signals()
  %same_state = call ptr %detach()
  %raises = icmp ne i32 %result, 0
  br i1 %raises, label %end, label %leave
end:
  store atomic i64 1, ptr %control monotonic, align 8
  br label %leave
leave:
  ret void
}

; How many workers %wanted threads are, as far as the team has room.
define internal i64 @team_workers_for(ptr %team, i64 %wanted) nounwind {
  %capacity_address = getelementptr %team, ptr %team, i64 0, i32 10
  %capacity = load i64, ptr %capacity_address, align 8
  %wanted_workers = sub i64 %wanted, 1
  %workers = call i64 @llvm.umin.i64(i64 %wanted_workers, i64 %capacity)
  ret i64 %workers
}

; Whether no worker that is there for %wanted threads sleeps, and none has yet to be started.
define internal i1 @team_is_awake(ptr %team, i64 %wanted) nounwind {
start:
  %target = call i64 @team_workers_for(ptr %team, i64 %wanted)
  %started_address = getelementptr %team, ptr %team, i64 0, i32 9
  %started = load i64, ptr %started_address, align 8
  %is_short = icmp ult i64 %started, %target
  br i1 %is_short, label %leave, label %begin
begin:
  %first = getelementptr %team, ptr %team, i64 1
  br label %check
check:
  %k = phi i64 [ 0, %begin ], [ %k_next, %next ]
  %is_end = icmp uge i64 %k, %target
  br i1 %is_end, label %leave, label %next
next:
  %asleep_address = getelementptr %worker, ptr %first, i64 %k, i32 1
  %asleep = load atomic i64, ptr %asleep_address monotonic, align 8
  %k_next = add i64 %k, 1
  %is_asleep = icmp ne i64 %asleep, 0
  br i1 %is_asleep, label %leave, label %check
leave:
  %is_awake = phi i1 [ false, %start ], [ true, %check ], [ false, %next ]
  ret i1 %is_awake
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
  %workers = call i64 @team_recruit(ptr %team, i64 %wanted)
  %first = getelementptr %team, ptr %team, i64 1
  br label %check
check:
  %k = phi i64 [ 0, %recruit ], [ %k_next, %look ], [ %k_next, %wake ]
  %is_end = icmp uge i64 %k, %workers
  br i1 %is_end, label %leave, label %look
look:
  %asleep_address = getelementptr %worker, ptr %first, i64 %k, i32 1
  %asleep = load atomic i64, ptr %asleep_address seq_cst, align 8
  %is_asleep = icmp ne i64 %asleep, 0
  %k_next = add i64 %k, 1
  br i1 %is_asleep, label %wake, label %check
wake:
  ; The caller goes on computing: who comes to share its processor would not be awake before that is over.
  %worker = getelementptr %worker, ptr %first, i64 %k
  call void @worker_avoid_caller(ptr %worker, ptr %team)
  call void @worker_call(ptr %worker, ptr %team)
  br label %check
leave:
  ret void
}

; Start workers until there are enough for %wanted threads. Gives the number of workers to use: fewer where the team is
; smaller or the operating system refuses.
define internal i64 @team_recruit(ptr %team, i64 %wanted) nounwind {
start:
  %target = call i64 @team_workers_for(ptr %team, i64 %wanted)
  %started_address = getelementptr %team, ptr %team, i64 0, i32 9
  br label %check
check:
  %started = load i64, ptr %started_address, align 8
  %is_enough = icmp uge i64 %started, %target
  br i1 %is_enough, label %leave, label %recruit
recruit:
  %next = add i64 %started, 1
  %failure = call i32 @worker_start(ptr %team, i64 %started, i64 %next)
  %is_failure = icmp ne i32 %failure, 0
  br i1 %is_failure, label %leave, label %count
count:
  store i64 %next, ptr %started_address, align 8
  br label %check
leave:
  %workers = call i64 @llvm.umin.i64(i64 %started, i64 %target)
  ret i64 %workers
}

define internal i32 @worker_start(ptr %team, i64 %number, i64 %index) nounwind {
  %workers = getelementptr %team, ptr %team, i64 1
  %worker = getelementptr %worker, ptr %workers, i64 %number
  store atomic i64 0, ptr %worker monotonic, align 8
  %asleep = getelementptr %worker, ptr %worker, i64 0, i32 1
  store atomic i64 0, ptr %asleep monotonic, align 8
  %team_address = getelementptr %worker, ptr %worker, i64 0, i32 2
  store ptr %team, ptr %team_address, align 8
  %index_address = getelementptr %worker, ptr %worker, i64 0, i32 3
  store i64 %index, ptr %index_address, align 8
  %avoided = getelementptr %worker, ptr %worker, i64 0, i32 5
  store i64 -1, ptr %avoided, align 8
  %mutex = getelementptr %worker, ptr %worker, i64 0, i32 7
  call void @mutex_initialise(ptr %mutex)
  %condition = getelementptr %worker, ptr %worker, i64 0, i32 8
  call void @condition_initialise(ptr %condition)
  %thread = getelementptr %worker, ptr %worker, i64 0, i32 4
  %failure = call i32 @thread_start(ptr %thread, ptr %worker)
  ret i32 %failure
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
  ret i64 %spins_now
}

define internal void @team_dispatch(ptr %team, ptr %entry, ptr %args, i64 %workers, ptr %control) nounwind {
start:
  %control_address = getelementptr %team, ptr %team, i64 0, i32 17, i32 7, i32 0
  store ptr %control, ptr %control_address, align 8
  %count = add i64 %workers, 1
  %entry_address = getelementptr %team, ptr %team, i64 0, i32 4
  store ptr %entry, ptr %entry_address, align 8
  %args_address = getelementptr %team, ptr %team, i64 0, i32 5
  store ptr %args, ptr %args_address, align 8
  %count_address = getelementptr %team, ptr %team, i64 0, i32 6
  store i64 %count, ptr %count_address, align 8
  %spins_now = call i64 @team_set_spins(ptr %team, i64 %count)
  %barrier_spins = getelementptr %team, ptr %team, i64 0, i32 17, i32 4
  store i64 %spins_now, ptr %barrier_spins, align 8
  %yielding = mul i64 %count, $yielding
  %does_spin = icmp ne i64 %spins_now, 0
  %yielding_now = select i1 %does_spin, i64 %yielding, i64 0
  %barrier_yielding = getelementptr %team, ptr %team, i64 0, i32 17, i32 13
  store atomic i64 %yielding_now, ptr %barrier_yielding monotonic, align 8
  %barrier_late = getelementptr %team, ptr %team, i64 0, i32 17, i32 14
  store i64 0, ptr %barrier_late, align 8
  ; A dispatch begins a generation, as a barrier does. What pools the last one has left are in the other set, unless it
  ; was of other threads.
  %barrier = getelementptr %team, ptr %team, i64 0, i32 17
  %generation_address = getelementptr %barrier, ptr %barrier, i64 0, i32 2
  %generation = load atomic i64, ptr %generation_address monotonic, align 8
  %set = and i64 %generation, 1
  %next_generation = add i64 %generation, 1
  store atomic i64 %next_generation, ptr %generation_address monotonic, align 8
  call void @pools_empty(ptr %barrier, i64 0, i64 %set)
  %pool_threads_address = getelementptr %barrier, ptr %barrier, i64 0, i32 12
  %pool_threads = load i64, ptr %pool_threads_address, align 8
  %are_same = icmp eq i64 %pool_threads, %count
  br i1 %are_same, label %begin, label %empty
empty:
  store i64 %count, ptr %pool_threads_address, align 8
  br label %next
next:
  %thread = phi i64 [ 0, %empty ], [ %thread_next, %next ]
  call void @pools_empty(ptr %barrier, i64 %thread, i64 0)
  call void @pools_empty(ptr %barrier, i64 %thread, i64 1)
  %thread_next = add i64 %thread, 1
  %is_more = icmp ult i64 %thread_next, %count
  br i1 %is_more, label %next, label %begin
begin:
  %running = getelementptr %team, ptr %team, i64 0, i32 2
  store atomic i64 %workers, ptr %running monotonic, align 8
  call void @team_wake(ptr %team, i64 %workers)
  ret void
}

; New tickets for the first %workers workers: all tickets first, as waking a sleeper takes its time.
define internal void @team_wake(ptr %team, i64 %workers) nounwind {
start:
  %called_address = getelementptr %team, ptr %team, i64 0, i32 22
  store atomic i64 0, ptr %called_address monotonic, align 8
  %first = getelementptr %team, ptr %team, i64 1
  br label %tickets
tickets:
  %i = phi i64 [ 0, %start ], [ %i_next, %tickets ]
  %worker_i = getelementptr %worker, ptr %first, i64 %i
  %old_ticket = atomicrmw add ptr %worker_i, i64 1 seq_cst, align 8
  %i_next = add i64 %i, 1
  %more_tickets = icmp ult i64 %i_next, %workers
  br i1 %more_tickets, label %tickets, label %sleepers
sleepers:
  %k = phi i64 [ 0, %tickets ], [ %k_next, %next ]
  %worker_k = getelementptr %worker, ptr %first, i64 %k
  ; Also a worker that still spins may have come to share the caller's processor.
  call void @worker_avoid_caller(ptr %worker_k, ptr %team)
  %asleep_address = getelementptr %worker, ptr %worker_k, i64 0, i32 1
  %asleep = load atomic i64, ptr %asleep_address seq_cst, align 8
  %is_asleep = icmp ne i64 %asleep, 0
  br i1 %is_asleep, label %wake, label %next
wake:
  call void @worker_call(ptr %worker_k, ptr %team)
  br label %next
next:
  %k_next = add i64 %k, 1
  %more_sleepers = icmp ult i64 %k_next, %workers
  br i1 %more_sleepers, label %sleepers, label %leave
leave:
  ret void
}

define internal void @worker_avoid_caller(ptr %worker, ptr %team) nounwind {
  %set = getelementptr %team, ptr %team, i64 0, i32 18
  %thread_address = getelementptr %worker, ptr %worker, i64 0, i32 4
  %avoided_address = getelementptr %worker, ptr %worker, i64 0, i32 5
  %thread = load ptr, ptr %thread_address, align 8
  call void @thread_avoid_caller(ptr %thread, ptr %avoided_address, ptr %set)
  ret void
}

; Wake a worker that sleeps. Each takes its time: it is measured from the first one on.
define internal void @worker_call(ptr %worker, ptr %team) nounwind {
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

define i64 @team_waking(ptr %team, i64 %pause) nounwind {
  %waking_address = getelementptr %team, ptr %team, i64 0, i32 24, i64 %pause
  %waking = load atomic i64, ptr %waking_address monotonic, align 8
  ret i64 %waking
}

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

; Wait until no worker runs.
define internal void @team_wait(ptr %team, ptr %control) nounwind {
start:
  %running_address = getelementptr %team, ptr %team, i64 0, i32 2
  %is_done = call i1 @spin_until(ptr %running_address, i64 0, ptr %team)
  br i1 %is_done, label %leave, label %sleep
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
  call void @condition_wait_briefly(ptr %condition, ptr %mutex)
  call void @mutex_unlock(ptr %mutex)
  call void @control_look(ptr %control)
  call void @mutex_lock(ptr %mutex)
  br label %check
awake:
  store atomic i64 0, ptr %sleeps_address monotonic, align 8
  call void @mutex_unlock(ptr %mutex)
  br label %leave
leave:
  ret void
}

; End and join the workers, and keep the team busy for ever. A second call does nothing.
define void @team_stop(ptr %team) nounwind {
start:
  %stopping_address = getelementptr %team, ptr %team, i64 0, i32 8
  %before = atomicrmw xchg ptr %stopping_address, i64 1 seq_cst, align 8
  %was_stopping = icmp ne i64 %before, 0
  br i1 %was_stopping, label %leave, label %acquire
acquire:
  %exchange = cmpxchg ptr %team, i64 0, i64 1 acquire monotonic, align 8
  %acquired = extractvalue { i64, i1 } %exchange, 1
  br i1 %acquired, label %wake, label %yield
yield:
  call void @thread_yield()
  br label %acquire
wake:
  %started_address = getelementptr %team, ptr %team, i64 0, i32 9
  %started = load i64, ptr %started_address, align 8
  %is_empty = icmp eq i64 %started, 0
  br i1 %is_empty, label %leave, label %join_start
join_start:
  call void @team_wake(ptr %team, i64 %started)
  %workers = getelementptr %team, ptr %team, i64 1
  br label %join
join:
  %i = phi i64 [ 0, %join_start ], [ %next, %join ]
  %thread_address = getelementptr %worker, ptr %workers, i64 %i, i32 4
  %thread = load ptr, ptr %thread_address, align 8
  call void @thread_join(ptr %thread)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %started
  br i1 %more, label %join, label %joined
joined:
  store i64 0, ptr %started_address, align 8
  br label %leave
leave:
  ret void
}

; The life of a worker thread.
define internal ptr @worker_main(ptr %worker) nounwind {
start:
  %team_address = getelementptr %worker, ptr %worker, i64 0, i32 2
  %team = load ptr, ptr %team_address, align 8
  %index_address = getelementptr %worker, ptr %worker, i64 0, i32 3
  %index = load i64, ptr %index_address, align 8
  %entry_address = getelementptr %team, ptr %team, i64 0, i32 4
  %args_address = getelementptr %team, ptr %team, i64 0, i32 5
  %count_address = getelementptr %team, ptr %team, i64 0, i32 6
  %running_address = getelementptr %team, ptr %team, i64 0, i32 2
  %sleeps_address = getelementptr %team, ptr %team, i64 0, i32 7
  %barrier = getelementptr %team, ptr %team, i64 0, i32 17
  br label %rest
rest:
  %seen = phi i64 [ 0, %start ], [ %ticket, %run ], [ %ticket, %wake_caller ]
  %ticket = add i64 %seen, 1
  call void @worker_wait(ptr %worker, ptr %team, i64 %ticket)
  ; A dispatch counts this worker among the running before it gives the ticket; a stop gives one while none runs.
  %running = load atomic i64, ptr %running_address acquire, align 8
  %has_work = icmp ne i64 %running, 0
  br i1 %has_work, label %run, label %leave
run:
  %entry = load ptr, ptr %entry_address, align 8
  %args = load ptr, ptr %args_address, align 8
  %count = load i64, ptr %count_address, align 8
  %control_address = getelementptr %barrier, ptr %barrier, i64 0, i32 7, i32 0
  %control = load ptr, ptr %control_address, align 8
  %generation_address = getelementptr %barrier, ptr %barrier, i64 0, i32 2
  %generation = load atomic i64, ptr %generation_address monotonic, align 8
  %generation_before = sub i64 %generation, 1
  %set = and i64 %generation_before, 1
  call void @pools_empty(ptr %barrier, i64 %index, i64 %set)
  call void @call_entry(ptr %entry, ptr %args, i64 %index, i64 %count, ptr %barrier, ptr %control)
  %before = atomicrmw sub ptr %running_address, i64 1 seq_cst, align 8
  %is_last = icmp eq i64 %before, 1
  %sleeps = load atomic i64, ptr %sleeps_address seq_cst, align 8
  %caller_sleeps = icmp ne i64 %sleeps, 0
  %must_wake = and i1 %is_last, %caller_sleeps
  br i1 %must_wake, label %wake_caller, label %rest
wake_caller:
  %mutex = getelementptr %team, ptr %team, i64 0, i32 15
  %condition = getelementptr %team, ptr %team, i64 0, i32 16
  call void @wake_all(ptr %mutex, ptr %condition)
  br label %rest
leave:
  ret ptr null
}

; Return once the worker has the %ticket.
define internal void @worker_wait(ptr %worker, ptr %team, i64 %ticket) nounwind {
start:
  %mutex = getelementptr %worker, ptr %worker, i64 0, i32 7
  %condition = getelementptr %worker, ptr %worker, i64 0, i32 8
  %asleep_address = getelementptr %worker, ptr %worker, i64 0, i32 1
  br label %spin
spin:
  %is_new = call i1 @spin_until(ptr %worker, i64 %ticket, ptr %team)
  br i1 %is_new, label %leave, label %sleep
sleep:
  call void @mutex_lock(ptr %mutex)
  store atomic i64 1, ptr %asleep_address seq_cst, align 8
  br label %check
check:
  %ticket_now = load atomic i64, ptr %worker seq_cst, align 8
  %is_called = icmp eq i64 %ticket_now, %ticket
  br i1 %is_called, label %awake, label %wait
wait:
  call void @condition_wait(ptr %condition, ptr %mutex)
  %ticket_then = load atomic i64, ptr %worker seq_cst, align 8
  %is_called_then = icmp eq i64 %ticket_then, %ticket
  br i1 %is_called_then, label %measure, label %roused
measure:
  call void @worker_measure(ptr %team)
  br label %awake
roused:
  store atomic i64 0, ptr %asleep_address monotonic, align 8
  call void @mutex_unlock(ptr %mutex)
  br label %spin
awake:
  store atomic i64 0, ptr %asleep_address monotonic, align 8
  call void @mutex_unlock(ptr %mutex)
  br label %leave
leave:
  ret void
}

; The slow side of @barrier_wait: yield, then sleep, until the generation is no longer %generation.
define internal void @barrier_sleep(ptr %barrier, i64 %generation) nounwind {
start:
  %generation_address = getelementptr %barrier, ptr %barrier, i64 0, i32 2
  %is_open_soon = call i1 @barrier_yield(ptr %barrier, i64 %generation)
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
  call void @condition_wait_briefly(ptr %condition, ptr %mutex)
  call void @mutex_unlock(ptr %mutex)
  call void @control_look(ptr %control)
  call void @mutex_lock(ptr %mutex)
  br label %check
awake:
  %after = atomicrmw sub ptr %sleepers, i64 1 monotonic, align 8
  call void @mutex_unlock(ptr %mutex)
  br label %leave
leave:
  ret void
}

; Whether the generation is no longer %generation before it is time to sleep. Who is waited for may be on this thread's
; processor, and runs as soon as it is offered.
define internal i1 @barrier_yield(ptr %barrier, i64 %generation) nounwind {
start:
  %generation_address = getelementptr %barrier, ptr %barrier, i64 0, i32 2
  %yielding_address = getelementptr %barrier, ptr %barrier, i64 0, i32 13
  %yielding = load atomic i64, ptr %yielding_address monotonic, align 8
  %begin = call i64 @microseconds()
  br label %look
look:
  %now = load atomic i64, ptr %generation_address acquire, align 8
  %is_open = icmp ne i64 %now, %generation
  br i1 %is_open, label %leave, label %consider
consider:
  %time = call i64 @microseconds()
  %waited = sub i64 %time, %begin
  %is_long = icmp uge i64 %waited, %yielding
  br i1 %is_long, label %leave, label %yield
yield:
  call void @thread_yield()
  br label %look
leave:
  ret i1 %is_open
}

; The thread that opens the barrier wakes those that sleep. If that comes again and again somebody's processor is away
; for long, perhaps because that of those who wait is not given back to it.
define internal void @barrier_wake(ptr %barrier) nounwind {
start:
  %late_address = getelementptr %barrier, ptr %barrier, i64 0, i32 14
  %late = load i64, ptr %late_address, align 8
  %late_now = add i64 %late, 1
  store i64 %late_now, ptr %late_address, align 8
  %is_often = icmp uge i64 %late_now, $often
  br i1 %is_often, label %hurry, label %wake
hurry:
  %yielding_address = getelementptr %barrier, ptr %barrier, i64 0, i32 13
  store atomic i64 0, ptr %yielding_address monotonic, align 8
  br label %wake
wake:
  %mutex = getelementptr %barrier, ptr %barrier, i64 0, i32 8
  %condition = getelementptr %barrier, ptr %barrier, i64 0, i32 9
  call void @wake_all(ptr %mutex, ptr %condition)
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

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
"""
