"""The LLVM text by which a dispatch looks for signals.

A signal, Ctrl-C before all, is handled by Python's main thread, and by it only between two of its own instructions. A
dispatch is one instruction. So the main thread, if it is the one that has called, looks now and then whether there is a
signal, as code of Python's own does that takes long: programs ask for that between their work items (``go_on``), waits
that are long enough to sleep in wake up for it. What a handler raises stops the dispatch: what is left of the program
is passed over, and the call raises it.
"""

from __future__ import annotations

from opendml.llvm.host import Machine
from opendml.targets.cpu.runtime.platform_code import filled


def signals_ir(host: Machine) -> str:
    """LLVM text of what a team knows of Python, and of ``control_begin`` and ``control_look``."""
    return filled(_SIGNALS, host)


_SIGNALS = """
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
"""
