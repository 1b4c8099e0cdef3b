"""The calls of kernels in a program's entry: many of one function in a row are a loop over tables of its arguments.

A call is a few lines of text, and LLVM takes longer over a block the more pointers are alive in it; so what differs
between the calls of a long run (buffers, places in them, which thread is the first) stands in tables of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opendml.expression.element_types import BOOL
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value
from opendml.targets.cpu.kernel_parts import power_below
from opendml.targets.cpu.tuning import Tuning


@dataclass(frozen=True, slots=True)
class Place:
    """Memory that a kernel is given: ``offset`` bytes behind the beginning of tensor ``number``, which lies ``start``
    bytes behind what argument ``slot`` of the entry points to, or in a ``table`` of the program."""

    number: int
    slot: int
    start: int
    offset: int = 0
    table: str = ""


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call of a kernel with its arguments.

    ``rest``: the arguments behind the pointers and the thread. ``turn``: by how much the threads' numbers are moved.
    ``may_be_stopped``: whether it is left out in a dispatch that is to stop. ``looks``: whether the thread sees, behind
    it, if it is to go on. ``work``: its steps.
    """

    name: str
    places: tuple[Place, ...]
    positions: tuple[str, ...]
    turn: int
    rest: tuple[str, ...]
    may_be_stopped: bool
    looks: bool
    work: int

    def text(self, pointers: Sequence[str], thread: str) -> str:
        """The instruction."""
        arguments = [f"ptr {pointer}" for pointer in pointers]
        arguments += [*self.positions, f"i64 {thread}", "i64 %threads", *self.rest]
        return f"call void @{self.name}({', '.join(arguments)})"


class RunWriter:
    """Writes long runs; ``tables`` are the definitions of what differs in them."""

    def __init__(self, builder: Builder, look: Callable[[], list[Value]], tuning: Tuning) -> None:
        self.tables: list[str] = []
        self._builder = builder
        self._look = look
        self._work_between_looks = tuning.work_between_looks

    def write(self, run: Sequence[WrittenCall], thread: str, write_call: Callable[[str, bool], None]) -> None:
        """The loop, for the share of a thread; ``write_call(instruction, may_be_stopped)`` writes the call in it."""
        places = list(zip(*(call.places for call in run), strict=True))
        tables = [column[0].table for column in places]
        slots = [self._column([place.slot for place in column]) for column in places]
        offsets = [self._column([place.start + place.offset for place in column]) for column in places]
        turn = self._column([call.turn for call in run])
        may_be_stopped = any(call.may_be_stopped for call in run)
        work = max(sum(call.work for call in run) // len(run), 1)

        def body(position: str, _: list[Value]) -> list[Value]:
            if work * len(run) > self._work_between_looks:
                self.look_now_and_then(position, work)
            pointers = [self._pointer(*place, position) for place in zip(tables, slots, offsets, strict=True)]
            write_call(run[0].text(pointers, self._thread(thread, turn, position)), may_be_stopped)
            return []

        self._builder.loop("0", str(len(run)), 1, [], body)

    def look_now_and_then(self, position: str, work: int) -> None:
        """In a loop with rounds of so much work: have the thread see whether it is to go on, once in a while."""
        rounds = power_below(max(self._work_between_looks // work, 1))
        number = self._builder.assign(f"and i64 {position}, {rounds - 1}")
        is_time = Value(self._builder.assign(f"icmp eq i64 {number}, 0"), BOOL)
        self._builder.branch(is_time, self._look, list)

    def _column(self, numbers: Sequence[int]) -> str:
        """One argument of all calls: a number, or the name of a table."""
        if len(set(numbers)) == 1:
            return str(numbers[0])
        name = f"@table{len(self.tables)}"
        elements = ", ".join([f"i64 {number}" for number in numbers])
        self.tables.append(f"{name} = internal constant [{len(numbers)} x i64] [{elements}]")
        return name

    def _entry(self, column: str, position: str) -> str:
        if not column.startswith("@"):
            return column
        address = self._builder.assign(f"getelementptr i64, ptr {column}, i64 {position}")
        return self._builder.assign(f"load i64, ptr {address}, align 8")

    def _pointer(self, table: str, slot: str, offset: str, position: str) -> str:
        pointer = table
        if not table:
            address = self._builder.assign(f"getelementptr ptr, ptr %args, i64 {self._entry(slot, position)}")
            pointer = self._builder.assign(f"load ptr, ptr {address}, align 8")
        if offset == "0":
            return pointer
        return self._builder.assign(f"getelementptr i8, ptr {pointer}, i64 {self._entry(offset, position)}")

    def _thread(self, thread: str, turn: str, position: str) -> str:
        return thread if turn == "0" else moved_thread(self._builder, thread, self._entry(turn, position))


def moved_thread(builder: Builder, thread: str, turn: str) -> str:
    """The number by which a thread goes when another one than the first is to be the number 0."""
    return builder.assign(f"urem i64 {builder.assign(f'add i64 {thread}, {turn}')}, %threads")
