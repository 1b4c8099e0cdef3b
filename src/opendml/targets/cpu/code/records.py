"""Times of kernels, recorded by the program itself."""

from __future__ import annotations

from typing import Final

from opendml.llvm.builder import Builder

CLOCK: Final = "llvm.readcyclecounter"
"""The counter of constant rate that programs may read: x86's time stamp counter, AArch64's virtual counter."""

RECORD: Final = ("work", "time")
"""What a profiled program adds up for each kernel and thread, 64-bit ticks of the CLOCK: how long the thread
worked, and how long it took until all threads were done."""


def started(builder: Builder) -> str:
    """The time now."""
    return builder.assign(f"call i64 @{CLOCK}()")


def record(builder: Builder, number: int, start: str) -> None:
    """All threads meet behind the kernel of a number, each with what it took since ``start``."""
    arguments = f"ptr %records, i64 {number}, i64 %thread, i64 {start}, ptr %barrier, i64 %threads"
    builder.line(f"call void @record({arguments})")


FUNCTIONS: Final = (
    f"declare i64 @{CLOCK}()",
    """
%record = type { i64, i64 }

; All threads meet behind a kernel, each with what it took since %start. Not inlined: LLVM takes a time that grows with
; the square of the calls and clocks in one block.
define internal void @record(ptr %records, i64 %kernel, i64 %thread, i64 %start, ptr %barrier, i64 %threads) noinline {
  %end = call i64 @llvm.readcyclecounter()
  call void @barrier_wait(ptr %barrier, i64 %thread, i64 %threads)
  %together = call i64 @llvm.readcyclecounter()
  %room = load i64, ptr %records
  %row = mul i64 %kernel, %room
  %number = add i64 %row, %thread
  %header_end = getelementptr i64, ptr %records, i64 1
  %work_place = getelementptr %record, ptr %header_end, i64 %number
  %time_place = getelementptr %record, ptr %work_place, i64 0, i32 1
  %old_work = load i64, ptr %work_place
  %worked = sub i64 %end, %start
  %work = add i64 %old_work, %worked
  store i64 %work, ptr %work_place
  %old_time = load i64, ptr %time_place
  %took = sub i64 %together, %start
  %time = add i64 %old_time, %took
  store i64 %time, ptr %time_place
  ret void
}""",
)
