"""The LLVM text of how a dispatch reaches its workers, and how it learns that all of them are done.

A worker that spins looks at its ticket all the time, so that to give it one takes some 100 ns: a thread that calls 63
others is long in doing so. So threads are a tree. The caller calls the first CALLED workers, each of these the next
CALLED, and so on, before it begins to work. They end in the same tree: the last one of a worker and of those that it
has called tells so to the thread above. If any worker sleeps, the caller calls all of them: a sleeper may take a
thousand times as long to wake up as it takes the caller to wake one more, and would keep those below it waiting.
"""

from __future__ import annotations

from typing import Final

from opendml.targets.cpu.runtime.platform_code import written_in

CALLED: Final = 8
"""Workers that a thread calls at most, if none sleeps: thread ``t`` those that are threads ``CALLED * t + 1`` and
following."""


def calling_ir() -> str:
    """LLVM text of the functions."""
    return written_in(_CALLING, {"$called": CALLED})


_CALLING = """
; New tickets for %workers workers: for a dispatch, or to end.
define internal void @team_call_workers(ptr %team, i64 %workers, i1 %is_dispatch) nounwind {
  %called_address = getelementptr %team, ptr %team, i64 0, i32 22
  store atomic i64 0, ptr %called_address monotonic, align 8
  call void @team_note_processor(ptr %team)
  call void @team_set_width(ptr %team)
  %below = call { i64, i64 } @workers_below(ptr %team, i64 0, i64 %workers)
  %number = extractvalue { i64, i64 } %below, 1
  %running_now = select i1 %is_dispatch, i64 %number, i64 0
  %running = getelementptr %team, ptr %team, i64 0, i32 2
  store atomic i64 %running_now, ptr %running monotonic, align 8
  call void @workers_call(ptr %team, { i64, i64 } %below)
  ret void
}

; Call the workers below the one that is thread %index. It counts itself among those that it waits for.
define internal void @worker_call_others(ptr %worker, ptr %team, i64 %index, i64 %workers) nounwind {
  %below = call { i64, i64 } @workers_below(ptr %team, i64 %index, i64 %workers)
  %number = extractvalue { i64, i64 } %below, 1
  %all = add i64 %number, 1
  %running_address = getelementptr %worker, ptr %worker, i64 0, i32 9
  store atomic i64 %all, ptr %running_address monotonic, align 8
  call void @workers_call(ptr %team, { i64, i64 } %below)
  ret void
}

; How many workers each thread calls.
define internal void @team_set_width(ptr %team) nounwind {
  %sleepers_address = getelementptr %team, ptr %team, i64 0, i32 31
  %sleepers = load atomic i64, ptr %sleepers_address monotonic, align 8
  %nobody_sleeps = icmp eq i64 %sleepers, 0
  %capacity_address = getelementptr %team, ptr %team, i64 0, i32 10
  %capacity = load i64, ptr %capacity_address, align 8
  %width = select i1 %nobody_sleeps, i64 $called, i64 %capacity
  %width_address = getelementptr %team, ptr %team, i64 0, i32 28
  store i64 %width, ptr %width_address, align 8
  ret void
}

; The first of those of %workers workers that %thread calls, and how many they are.
define internal { i64, i64 } @workers_below(ptr %team, i64 %thread, i64 %workers) nounwind {
  %width_address = getelementptr %team, ptr %team, i64 0, i32 28
  %width = load i64, ptr %width_address, align 8
  %wanted = mul i64 %thread, %width
  %first = call i64 @llvm.umin.i64(i64 %wanted, i64 %workers)
  %left = sub i64 %workers, %first
  %number = call i64 @llvm.umin.i64(i64 %left, i64 %width)
  %begun = insertvalue { i64, i64 } poison, i64 %first, 0
  %result = insertvalue { i64, i64 } %begun, i64 %number, 1
  ret { i64, i64 } %result
}

; New tickets for the workers %below a thread: all tickets first, as waking a sleeper takes its time. Who has a ticket
; may be gone a moment later: a stop gives them, too.
define internal void @workers_call(ptr %team, { i64, i64 } %below) nounwind {
start:
  %first = extractvalue { i64, i64 } %below, 0
  %number = extractvalue { i64, i64 } %below, 1
  %end = add i64 %first, %number
  %workers = getelementptr %team, ptr %team, i64 1
  %is_none = icmp eq i64 %number, 0
  br i1 %is_none, label %leave, label %place
place:
  call void @workers_place(ptr %team, { i64, i64 } %below)
  br label %tickets
tickets:
  %k = phi i64 [ %first, %place ], [ %k_next, %tickets ]
  %worker = getelementptr %worker, ptr %workers, i64 %k
  %old_ticket = atomicrmw add ptr %worker, i64 1 seq_cst, align 8
  %k_next = add i64 %k, 1
  %more_tickets = icmp ult i64 %k_next, %end
  br i1 %more_tickets, label %tickets, label %wake
wake:
  call void @workers_wake(ptr %team, { i64, i64 } %below)
  br label %leave
leave:
  ret void
}

; Wake those of the workers %below this thread that sleep: not where it runs.
define internal void @workers_wake(ptr %team, { i64, i64 } %below) nounwind {
start:
  %first = extractvalue { i64, i64 } %below, 0
  %number = extractvalue { i64, i64 } %below, 1
  %end = add i64 %first, %number
  br label %check
check:
  %k = phi i64 [ %first, %start ], [ %k_next, %wake ], [ %k_next, %look ]
  %is_end = icmp uge i64 %k, %end
  br i1 %is_end, label %leave, label %look
look:
  %k_next = add i64 %k, 1
  %sleeps = call i1 @worker_sleeps(ptr %team, i64 %k)
  br i1 %sleeps, label %wake, label %check
wake:
  %workers = getelementptr %team, ptr %team, i64 1
  %worker = getelementptr %worker, ptr %workers, i64 %k
  %here = call i64 @processor_number()
  call void @worker_avoid(ptr %worker, ptr %team, i64 %here)
  call void @worker_wake(ptr %worker, ptr %team)
  br label %check
leave:
  ret void
}

define internal i1 @worker_sleeps(ptr %team, i64 %number) nounwind {
  %workers = getelementptr %team, ptr %team, i64 1
  %asleep_address = getelementptr %worker, ptr %workers, i64 %number, i32 1
  %asleep = load atomic i64, ptr %asleep_address seq_cst, align 8
  %is_asleep = icmp ne i64 %asleep, 0
  ret i1 %is_asleep
}

; Thread %index is done: so are those above it of which it is the last one. The caller may have to be waked.
define internal void @team_count_end(ptr %team, i64 %index) nounwind {
start:
  %workers = getelementptr %team, ptr %team, i64 1
  %width_address = getelementptr %team, ptr %team, i64 0, i32 28
  %width = load i64, ptr %width_address, align 8
  br label %count
count:
  %thread = phi i64 [ %index, %start ], [ %above, %rise ]
  %number = sub i64 %thread, 1
  %running_address = getelementptr %worker, ptr %workers, i64 %number, i32 9
  %before = atomicrmw sub ptr %running_address, i64 1 seq_cst, align 8
  %is_last = icmp eq i64 %before, 1
  br i1 %is_last, label %rise, label %leave
rise:
  %above = udiv i64 %number, %width
  %is_below_caller = icmp eq i64 %above, 0
  br i1 %is_below_caller, label %count_for_caller, label %count
count_for_caller:
  %callers_address = getelementptr %team, ptr %team, i64 0, i32 2
  %callers_before = atomicrmw sub ptr %callers_address, i64 1 seq_cst, align 8
  %is_over = icmp eq i64 %callers_before, 1
  %sleeps_address = getelementptr %team, ptr %team, i64 0, i32 7
  %sleeps = load atomic i64, ptr %sleeps_address seq_cst, align 8
  %caller_sleeps = icmp ne i64 %sleeps, 0
  %must_wake = and i1 %is_over, %caller_sleeps
  br i1 %must_wake, label %wake_caller, label %leave
wake_caller:
  %mutex = getelementptr %team, ptr %team, i64 0, i32 15
  %condition = getelementptr %team, ptr %team, i64 0, i32 16
  call void @wake_all(ptr %mutex, ptr %condition)
  br label %leave
leave:
  ret void
}

; Where the caller runs: none of its workers may.
define internal void @team_note_processor(ptr %team) nounwind {
  %here = call i64 @processor_number()
  %processor_address = getelementptr %team, ptr %team, i64 0, i32 26
  store atomic i64 %here, ptr %processor_address monotonic, align 8
  ret void
}

; None of the workers %below a thread must run where the team's caller does, also if it spins.
define internal void @workers_place(ptr %team, { i64, i64 } %below) nounwind {
start:
  %first = extractvalue { i64, i64 } %below, 0
  %number = extractvalue { i64, i64 } %below, 1
  %end = add i64 %first, %number
  %workers = getelementptr %team, ptr %team, i64 1
  %processor_address = getelementptr %team, ptr %team, i64 0, i32 26
  %processor = load atomic i64, ptr %processor_address monotonic, align 8
  br label %check
check:
  %k = phi i64 [ %first, %start ], [ %k_next, %place ]
  %is_end = icmp uge i64 %k, %end
  br i1 %is_end, label %leave, label %place
place:
  %worker = getelementptr %worker, ptr %workers, i64 %k
  call void @worker_avoid(ptr %worker, ptr %team, i64 %processor)
  %k_next = add i64 %k, 1
  br label %check
leave:
  ret void
}

define internal void @worker_avoid(ptr %worker, ptr %team, i64 %processor) nounwind {
  %set = getelementptr %team, ptr %team, i64 0, i32 18
  %thread_address = getelementptr %worker, ptr %worker, i64 0, i32 4
  %avoided_address = getelementptr %worker, ptr %worker, i64 0, i32 5
  %thread = load ptr, ptr %thread_address, align 8
  call void @thread_avoid(ptr %thread, ptr %avoided_address, ptr %set, i64 %processor)
  ret void
}
"""
