"""What the LLVM text of a thread team owes to processors and operating systems: pauses, threads, locks, placement."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass

from opendml.llvm.host import Machine

STACK_BYTES = 8 << 20

PATIENCE = 50
"""Milliseconds after which a dispatch looks for signals, and after which again."""


def platform_ir(host: Machine) -> str:
    """The text that calls a program's entry, starts threads, locks, sleeps and places threads on ``host``."""
    architecture = architecture_of(host)
    threads = _WINDOWS_THREADS if "windows" in host.triple else _POSIX_THREADS
    placement = _LINUX_PLACEMENT if "linux" in host.triple else _NO_PLACEMENT
    return filled(architecture.call_entry + architecture.declare_pause + threads + placement, host)


def architecture_of(host: Machine) -> Architecture:
    """What is known of a processor; of others nothing."""
    return ARCHITECTURES.get(host.architecture, Architecture())


def filled(template: str, host: Machine) -> str:
    """A text with what it leaves open (``$pause`` ...) written in for ``host``."""
    # As integers: in a second interpreter some Pythons (3.12) write members of enumerations otherwise.
    names = (name for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL") if hasattr(signal, name))
    faults = [int(getattr(signal, name)) for name in names]
    unblock = [f"%fault{number} = call i32 @sigdelset(ptr %blocked, i32 {number})" for number in faults]
    values = {
        "$pause": architecture_of(host).pause,
        "$declare_pause": architecture_of(host).declare_pause,
        "$stack_bytes": str(STACK_BYTES),
        "$unblock_faults": "\n  ".join(unblock),
        "$set_mask": str(int(getattr(signal, "SIG_SETMASK", 0))),
        "$patience": str(PATIENCE),
        "$monotonic": "6" if "darwin" in host.triple or "macos" in host.triple else "1",
    }
    return written_in(template, values)


def written_in(template: str, values: Mapping[str, int | str]) -> str:
    """A text with values in the place of their names."""
    for name, value in values.items():
        template = template.replace(name, str(value))
    return template


@dataclass(frozen=True)
class Architecture:
    """What the text needs to know of a processor: how to pause in a spin loop, and the floating-point environment."""

    pause: str = ""
    declare_pause: str = ""
    call_entry: str = """
define internal void @call_entry(ptr %entry, ptr %args, i64 %index, i64 %count, ptr %barrier, ptr %control) nounwind {
  call void %entry(ptr %args, i64 %index, i64 %count, ptr %barrier, ptr %control)
  ret void
}
"""


ARCHITECTURES = {
    "x86_64": Architecture(
        pause="call void @llvm.x86.sse2.pause()",
        declare_pause="declare void @llvm.x86.sse2.pause()",
        # MXCSR: 0x1f80 is all exceptions masked, round to nearest, denormals kept.
        call_entry="""
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal void @call_entry(ptr %entry, ptr %args, i64 %index, i64 %count, ptr %barrier, ptr %control) nounwind {
  %callers = alloca i32, align 4
  %standard = alloca i32, align 4
  store i32 8064, ptr %standard, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %callers)
  call void @llvm.x86.sse.ldmxcsr(ptr %standard)
  call void %entry(ptr %args, i64 %index, i64 %count, ptr %barrier, ptr %control)
  call void @llvm.x86.sse.ldmxcsr(ptr %callers)
  ret void
}
""",
    ),
    "aarch64": Architecture(
        pause="call void @llvm.aarch64.hint(i32 1)",
        declare_pause="declare void @llvm.aarch64.hint(i32)",
        call_entry="""
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define internal void @call_entry(ptr %entry, ptr %args, i64 %index, i64 %count, ptr %barrier, ptr %control) nounwind {
  %callers = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 0)
  call void %entry(ptr %args, i64 %index, i64 %count, ptr %barrier, ptr %control)
  call void @llvm.aarch64.set.fpcr(i64 %callers)
  ret void
}
""",
    ),
}

# Workers take no signals but those of their own faults: the others are for the interpreter's threads, whose system
# calls they must interrupt. (128 bytes hold every platform's sigset_t and pthread_attr_t.)
_POSIX_THREADS = """
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @sched_yield()
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i64 @pthread_self()
declare i32 @clock_gettime(i32, ptr)

define internal i64 @thread_identity() nounwind {
  %identity = call i64 @pthread_self()
  ret i64 %identity
}

define internal i64 @milliseconds() nounwind {
  %microseconds = call i64 @microseconds()
  %milliseconds = udiv i64 %microseconds, 1000
  ret i64 %milliseconds
}

define internal i64 @microseconds() nounwind {
  %time = alloca { i64, i64 }, align 8
  %result = call i32 @clock_gettime(i32 $monotonic, ptr %time)
  %nanoseconds_address = getelementptr { i64, i64 }, ptr %time, i64 0, i32 1
  %seconds = load i64, ptr %time, align 8
  %nanoseconds = load i64, ptr %nanoseconds_address, align 8
  %whole = mul i64 %seconds, 1000000
  %rest = udiv i64 %nanoseconds, 1000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

; Conditions wait until a time of day. If that is set, a wait is longer or shorter once.
define internal void @condition_wait_briefly(ptr %condition, ptr %mutex) nounwind {
  %time = alloca { i64, i64 }, align 8
  %result = call i32 @clock_gettime(i32 0, ptr %time)
  %nanoseconds_address = getelementptr { i64, i64 }, ptr %time, i64 0, i32 1
  %seconds = load i64, ptr %time, align 8
  %nanoseconds = load i64, ptr %nanoseconds_address, align 8
  %patience = mul i64 $patience, 1000000
  %end = add i64 %nanoseconds, %patience
  %carry = udiv i64 %end, 1000000000
  %rest = urem i64 %end, 1000000000
  %end_seconds = add i64 %seconds, %carry
  store i64 %end_seconds, ptr %time, align 8
  store i64 %rest, ptr %nanoseconds_address, align 8
  %waited = call i32 @pthread_cond_timedwait(ptr %condition, ptr %mutex, ptr %time)
  ret void
}

define internal i32 @thread_start(ptr %thread, ptr %worker) nounwind {
  %attributes = alloca [128 x i8], align 16
  %blocked = alloca [128 x i8], align 16
  %callers = alloca [128 x i8], align 16
  %r0 = call i32 @pthread_attr_init(ptr %attributes)
  %r1 = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 $stack_bytes)
  %r2 = call i32 @sigfillset(ptr %blocked)
  $unblock_faults
  %r3 = call i32 @pthread_sigmask(i32 $set_mask, ptr %blocked, ptr %callers)
  %failure = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @worker_main, ptr %worker)
  %r4 = call i32 @pthread_sigmask(i32 $set_mask, ptr %callers, ptr null)
  %r5 = call i32 @pthread_attr_destroy(ptr %attributes)
  ret i32 %failure
}

define internal void @thread_join(ptr %thread) nounwind {
  %result = call i32 @pthread_join(ptr %thread, ptr null)
  ret void
}

define internal void @thread_yield() nounwind {
  %result = call i32 @sched_yield()
  ret void
}

define internal void @mutex_initialise(ptr %mutex) nounwind {
  %result = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  ret void
}

define internal void @mutex_lock(ptr %mutex) nounwind {
  %result = call i32 @pthread_mutex_lock(ptr %mutex)
  ret void
}

define internal void @mutex_unlock(ptr %mutex) nounwind {
  %result = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

define internal void @condition_initialise(ptr %condition) nounwind {
  %result = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}

define internal void @condition_wait(ptr %condition, ptr %mutex) nounwind {
  %result = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  ret void
}

define internal void @condition_wake_all(ptr %condition) nounwind {
  %result = call i32 @pthread_cond_broadcast(ptr %condition)
  ret void
}
"""

# In a virtual machine Linux takes an idle processor for a preempted one, wakes the sleeper on the waker's processor and
# leaves it there: two threads share one processor for as long as they like. So a worker is told, when it gets work,
# which processor it must not take; once told, it costs nothing until the caller moves to another one.
_LINUX_PLACEMENT = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_setaffinity_np(ptr, i64, ptr)

define internal void @processors_of_caller(ptr %set) nounwind {
  %result = call i32 @sched_getaffinity(i32 0, i64 128, ptr %set)
  ret void
}

define internal i64 @processor_number() nounwind {
  %number = call i32 @sched_getcpu()
  %result = zext i32 %number to i64
  ret i64 %result
}

define internal void @thread_avoid(ptr %thread, ptr %avoided_address, ptr %set, i64 %processor) nounwind {
start:
  %avoided = load i64, ptr %avoided_address, align 8
  %is_known = icmp eq i64 %processor, %avoided
  %is_outside = icmp uge i64 %processor, 1024
  %nothing_to_do = or i1 %is_known, %is_outside
  br i1 %nothing_to_do, label %leave, label %tell
tell:
  ; Without that processor the set may be empty, which the operating system refuses.
  %others = alloca [128 x i8], align 16
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %others, ptr align 16 %set, i64 128, i1 false)
  %word_number = lshr i64 %processor, 6
  %word_address = getelementptr i64, ptr %others, i64 %word_number
  %word = load i64, ptr %word_address, align 8
  %bit_number = and i64 %processor, 63
  %bit = shl i64 1, %bit_number
  %mask = xor i64 %bit, -1
  %word_without = and i64 %word, %mask
  store i64 %word_without, ptr %word_address, align 8
  %result = call i32 @pthread_setaffinity_np(ptr %thread, i64 128, ptr %others)
  store i64 %processor, ptr %avoided_address, align 8
  br label %leave
leave:
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""

_NO_PLACEMENT = """
define internal void @processors_of_caller(ptr %set) nounwind {
  ret void
}

define internal i64 @processor_number() nounwind {
  ret i64 0
}

define internal void @thread_avoid(ptr %thread, ptr %avoided_address, ptr %set, i64 %processor) nounwind {
  ret void
}
"""

# Slim locks and condition variables are one pointer each, zero when new. 65536: the stack size is what to reserve.
_WINDOWS_THREADS = """
declare ptr @CreateThread(ptr, i64, ptr, ptr, i32, ptr)
declare i32 @WaitForSingleObject(ptr, i32)
declare i32 @CloseHandle(ptr)
declare i32 @SwitchToThread()
declare void @AcquireSRWLockExclusive(ptr)
declare void @ReleaseSRWLockExclusive(ptr)
declare i32 @SleepConditionVariableSRW(ptr, ptr, i32, i32)
declare void @WakeAllConditionVariable(ptr)
declare i32 @GetCurrentThreadId()
declare i64 @GetTickCount64()
declare i32 @QueryPerformanceCounter(ptr)
declare i32 @QueryPerformanceFrequency(ptr)

define internal i64 @thread_identity() nounwind {
  %number = call i32 @GetCurrentThreadId()
  %identity = zext i32 %number to i64
  ret i64 %identity
}

define internal i64 @milliseconds() nounwind {
  %result = call i64 @GetTickCount64()
  ret i64 %result
}

define internal i64 @microseconds() nounwind {
  %count_address = alloca i64, align 8
  %rate_address = alloca i64, align 8
  %counted = call i32 @QueryPerformanceCounter(ptr %count_address)
  %told = call i32 @QueryPerformanceFrequency(ptr %rate_address)
  %count = load i64, ptr %count_address, align 8
  %rate = load i64, ptr %rate_address, align 8
  %seconds = udiv i64 %count, %rate
  %part = urem i64 %count, %rate
  %whole = mul i64 %seconds, 1000000
  %parts = mul i64 %part, 1000000
  %rest = udiv i64 %parts, %rate
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

define internal void @condition_wait_briefly(ptr %condition, ptr %mutex) nounwind {
  %result = call i32 @SleepConditionVariableSRW(ptr %condition, ptr %mutex, i32 $patience, i32 0)
  ret void
}

define internal i32 @thread_start(ptr %thread, ptr %worker) nounwind {
  %handle = call ptr @CreateThread(ptr null, i64 $stack_bytes, ptr @worker_main, ptr %worker, i32 65536, ptr null)
  store ptr %handle, ptr %thread, align 8
  %is_null = icmp eq ptr %handle, null
  %failure = zext i1 %is_null to i32
  ret i32 %failure
}

define internal void @thread_join(ptr %thread) nounwind {
  %waited = call i32 @WaitForSingleObject(ptr %thread, i32 -1)
  %closed = call i32 @CloseHandle(ptr %thread)
  ret void
}

define internal void @thread_yield() nounwind {
  %result = call i32 @SwitchToThread()
  ret void
}

define internal void @mutex_initialise(ptr %mutex) nounwind {
  store ptr null, ptr %mutex, align 8
  ret void
}

define internal void @mutex_lock(ptr %mutex) nounwind {
  call void @AcquireSRWLockExclusive(ptr %mutex)
  ret void
}

define internal void @mutex_unlock(ptr %mutex) nounwind {
  call void @ReleaseSRWLockExclusive(ptr %mutex)
  ret void
}

define internal void @condition_initialise(ptr %condition) nounwind {
  store ptr null, ptr %condition, align 8
  ret void
}

define internal void @condition_wait(ptr %condition, ptr %mutex) nounwind {
  %result = call i32 @SleepConditionVariableSRW(ptr %condition, ptr %mutex, i32 -1, i32 0)
  ret void
}

define internal void @condition_wake_all(ptr %condition) nounwind {
  call void @WakeAllConditionVariable(ptr %condition)
  ret void
}
"""
