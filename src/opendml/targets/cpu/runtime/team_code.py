"""The LLVM text of a thread team, which dispatches programs; what these themselves contain is `barrier_code`.

Its types are in `team_types`, how it looks for signals in `signals_code`, how workers are called in `calling_code`,
whether they are waked in `waking_code`, when the caller does without them in `alone_code`, when a dispatch does without
some in `fewer_code`, after one that was slow (`slowness_code`), and how threads wait in `waiting_code`.
"""

from __future__ import annotations

from typing import Final

from opendml.llvm.host import Machine
from opendml.targets.cpu.runtime.alone_code import alone_ir
from opendml.targets.cpu.runtime.barrier_code import MOST_GROUPS, generations_ir
from opendml.targets.cpu.runtime.calling_code import calling_ir
from opendml.targets.cpu.runtime.fewer_code import fewer_ir
from opendml.targets.cpu.runtime.platform_code import filled, platform_ir, written_in
from opendml.targets.cpu.runtime.signals_code import signals_ir
from opendml.targets.cpu.runtime.slowness_code import slowness_ir
from opendml.targets.cpu.runtime.sparing_code import sparing_ir
from opendml.targets.cpu.runtime.team_types import WAKINGS, types_ir
from opendml.targets.cpu.runtime.waiting_code import waiting_ir
from opendml.targets.cpu.runtime.waking_code import FIRST_GUESS, SHORTEST_PAUSE, waking_ir

ALONE_BITS: Final = 32
"""Bits of how many threads are asked for. Those above say how many microseconds one thread would take alone."""

LONG: Final = (1 << 31) - 1
"""So many microseconds, or more."""


def team_ir(host: Machine) -> str:
    """The LLVM text of the team for `host`."""
    numbers = {
        "$alone_bits": ALONE_BITS,
        "$first_guess": FIRST_GUESS,
        "$wakings": WAKINGS,
        "$last_waking": WAKINGS - 1,
        "$shortest_pause": SHORTEST_PAUSE,
        "$most_groups": MOST_GROUPS,
    }
    team = filled(written_in(_TEAM, numbers), host)
    parts = (types_ir(), team, calling_ir(), sparing_ir(), alone_ir(), slowness_ir(), fewer_ir(), waking_ir())
    return "".join((*parts, signals_ir(host), waiting_ir(host), generations_ir(), platform_ir(host)))


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
  %alone_address = getelementptr %team, ptr %team, i64 0, i32 27
  store atomic i64 0, ptr %alone_address monotonic, align 8
  %asleep_address = getelementptr %team, ptr %team, i64 0, i32 31
  store atomic i64 0, ptr %asleep_address monotonic, align 8
  %sleepers = getelementptr %barrier, ptr %barrier, i64 0, i32 3
  store atomic i64 0, ptr %sleepers monotonic, align 8
  %sleep = getelementptr %barrier, ptr %barrier, i64 0, i32 5
  store ptr @barrier_sleep, ptr %sleep, align 8
  %wake = getelementptr %barrier, ptr %barrier, i64 0, i32 6
  store ptr @barrier_wake, ptr %wake, align 8
  %yield = getelementptr %barrier, ptr %barrier, i64 0, i32 7, i32 1
  store ptr @thread_yield, ptr %yield, align 8
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
  br i1 %acquired, label %look_back, label %run_alone
look_back:
  %now = call i64 @microseconds()
  %program = call ptr @team_program(ptr %team, ptr %entry)
  %is_sparing = call i1 @team_spares_workers(ptr %program, i64 %alone)
  br i1 %is_sparing, label %spare, label %consider
spare:
  %spared_time = call i64 @team_run_by_caller(ptr %team, ptr %entry, ptr %args, ptr %control, i64 %now)
  call void @team_judge_alone(ptr %program, i64 %spared_time)
  store atomic i64 0, ptr %team release, align 8
  ret i64 1
consider:
  %most = call i64 @team_workers_for(ptr %team, i64 %wanted)
  %some = call i64 @team_spare_some(ptr %team, ptr %program, i64 %most)
  %is_without_all = icmp eq i64 %some, 0
  br i1 %is_without_all, label %without, label %choose
without:
  %without_time = call i64 @team_run_by_caller(ptr %team, ptr %entry, ptr %args, ptr %control, i64 %now)
  call void @team_judge_some(ptr %team, ptr %program, i64 0, i64 %alone, i64 %without_time)
  store atomic i64 0, ptr %team release, align 8
  ret i64 1
choose:
  %last_address = getelementptr %team, ptr %team, i64 0, i32 20
  %last = load atomic i64, ptr %last_address monotonic, align 8
  %gap = sub i64 %now, %last
  ; What is known of fewer threads is about as many as there are.
  %are_some_spared = icmp ult i64 %some, %most
  %worth_waking = call i64 @team_worth_waking(ptr %team, i64 %some, i64 %alone, i64 %gap)
  %called = select i1 %are_some_spared, i64 %some, i64 %worth_waking
  %chosen = add i64 %called, 1
  %pauses = udiv i64 %gap, $shortest_pause
  %zeros = call i64 @llvm.ctlz.i64(i64 %pauses, i1 false)
  %digits = sub i64 64, %zeros
  %pause = call i64 @llvm.umin.i64(i64 %digits, i64 $last_waking)
  %pause_address = getelementptr %team, ptr %team, i64 0, i32 21
  store atomic i64 %pause, ptr %pause_address monotonic, align 8
  %work_of_others = mul i64 %alone, %called
  %saved = udiv i64 %work_of_others, %chosen
  %waking_address = getelementptr %team, ptr %team, i64 0, i32 24, i64 %pause
  %waking = load atomic i64, ptr %waking_address monotonic, align 8
  %is_brief = icmp ult i64 %saved, %waking
  br i1 %is_brief, label %look, label %recruit
look:
  %is_awake = call i1 @team_is_awake(ptr %team, i64 %chosen)
  br i1 %is_awake, label %recruit, label %brief
brief:
  %decay = udiv i64 %waking, 32
  %less = sub i64 %waking, %decay
  store atomic i64 %less, ptr %waking_address monotonic, align 8
  %is_soon = call i1 @team_spins_so_long(ptr %team, i64 %gap)
  br i1 %is_soon, label %rouse, label %release
rouse:
  call void @team_rouse(ptr %team, i64 %chosen)
  br label %release
release:
  store atomic i64 0, ptr %team release, align 8
  call void @call_entry(ptr %entry, ptr %args, i64 0, i64 1, ptr null, ptr %control)
  %alone_address = getelementptr %team, ptr %team, i64 0, i32 27
  store atomic i64 0, ptr %alone_address monotonic, align 8
  %brief_end = call i64 @team_note_end(ptr %team)
  ret i64 1
run_alone:
  call void @call_entry(ptr %entry, ptr %args, i64 0, i64 1, ptr null, ptr %control)
  ret i64 1
recruit:
  %workers = call i64 @team_recruit(ptr %team, i64 %chosen)
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
  %end = call i64 @team_note_end(ptr %team)
  %time = sub i64 %end, %now
  call void @team_judge(ptr %team, ptr %program, i64 %alone, i64 %time)
  %are_fewer_called = icmp ult i64 %called, %some
  br i1 %are_fewer_called, label %over, label %judge
judge:
  call void @team_judge_some(ptr %team, ptr %program, i64 %workers, i64 %alone, i64 %time)
  br label %over
over:
  store atomic i64 0, ptr %team release, align 8
  ret i64 %count
}

; The caller does without its workers. Gives the microseconds since %begin.
define internal i64 @team_run_by_caller(ptr %team, ptr %entry, ptr %args, ptr %control, i64 %begin) nounwind {
  call void @call_entry(ptr %entry, ptr %args, i64 0, i64 1, ptr null, ptr %control)
  %end = call i64 @team_note_end(ptr %team)
  %time = sub i64 %end, %begin
  ret i64 %time
}

define internal i64 @team_note_end(ptr %team) nounwind {
  %last_address = getelementptr %team, ptr %team, i64 0, i32 20
  %now = call i64 @microseconds()
  store atomic i64 %now, ptr %last_address monotonic, align 8
  ret i64 %now
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

; How many workers %wanted threads are, as far as the team has room.
define internal i64 @team_workers_for(ptr %team, i64 %wanted) nounwind {
  %capacity_address = getelementptr %team, ptr %team, i64 0, i32 10
  %capacity = load i64, ptr %capacity_address, align 8
  %wanted_workers = sub i64 %wanted, 1
  %workers = call i64 @llvm.umin.i64(i64 %wanted_workers, i64 %capacity)
  ret i64 %workers
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
  ; A dispatch begins a generation, as a barrier does. What pools the last one has left are in the other set, unless it
  ; was of other threads, or of an entry that does not begin shares.
  %barrier = getelementptr %team, ptr %team, i64 0, i32 17
  %generation_address = getelementptr %barrier, ptr %barrier, i64 0, i32 2
  %generation = load atomic i64, ptr %generation_address monotonic, align 8
  %next_generation = add i64 %generation, 1
  store atomic i64 %next_generation, ptr %generation_address monotonic, align 8
  call void @barrier_forget_late(ptr %barrier, i64 %next_generation)
  %begun_address = getelementptr %barrier, ptr %barrier, i64 0, i32 24
  %begun = load atomic i64, ptr %begun_address monotonic, align 8
  %are_begun = icmp eq i64 %begun, %generation
  %pool_threads_address = getelementptr %barrier, ptr %barrier, i64 0, i32 12
  %pool_threads = load i64, ptr %pool_threads_address, align 8
  %are_as_many = icmp eq i64 %pool_threads, %count
  %are_empty = and i1 %are_as_many, %are_begun
  br i1 %are_empty, label %begin, label %empty
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
  call void @team_call_workers(ptr %team, i64 %workers, i1 true)
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
  %count = add i64 %started, 1
  %count_address = getelementptr %team, ptr %team, i64 0, i32 6
  store i64 %count, ptr %count_address, align 8
  call void @team_call_workers(ptr %team, i64 %started, i1 false)
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
  %barrier = getelementptr %team, ptr %team, i64 0, i32 17
  br label %rest
rest:
  %seen = phi i64 [ 0, %start ], [ %ticket, %run ]
  %ticket = add i64 %seen, 1
  call void @worker_wait(ptr %worker, ptr %team, i64 %ticket)
  %count = load i64, ptr %count_address, align 8
  %workers = sub i64 %count, 1
  call void @worker_call_others(ptr %worker, ptr %team, i64 %index, i64 %workers)
  ; A dispatch counts this worker among the running before it gives the ticket; a stop gives one while none runs.
  %running = load atomic i64, ptr %running_address acquire, align 8
  %has_work = icmp ne i64 %running, 0
  br i1 %has_work, label %run, label %leave
run:
  %entry = load ptr, ptr %entry_address, align 8
  %args = load ptr, ptr %args_address, align 8
  %control_address = getelementptr %barrier, ptr %barrier, i64 0, i32 7, i32 0
  %control = load ptr, ptr %control_address, align 8
  call void @call_entry(ptr %entry, ptr %args, i64 %index, i64 %count, ptr %barrier, ptr %control)
  call void @team_count_end(ptr %team, i64 %index)
  br label %rest
leave:
  ret ptr null
}

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.usub.sat.i64(i64, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
"""
