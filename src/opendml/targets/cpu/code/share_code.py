"""The entry's parts between two barriers, of which a thread does its own share, and those of threads that are late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from opendml.llvm.builder import Builder

THREAD: Final = "%thread"
"""The thread that runs the entry."""

_GENERATION: Final = "%generation"


@dataclass(frozen=True, slots=True)
class _Part:
    """A part that has begun: whose share is done; the thread itself, or -1, and the block that says so; the labels of
    the part, its work and the barrier behind it; and where the lines go that are known at its end."""

    who: str
    own: str
    before: str
    again: str
    work: str
    wait: str
    slot: int


class ShareWriter:
    """Writes what is around the work of a part::

        again:
          who = the thread, or, if it comes back here, the one whose share it is to do
        work:                                 -- unless someone else has begun the thread's own share
          ...
        wait:
          next = share_wait(who)              -- arrives for `who`, and waits for all others
          if next is a thread, to `again`

    A part that begins or ends in a loop, which has barriers, does not come back: all threads do their own shares. So do
    those of a program that does not ``act``.
    """

    def __init__(self, builder: Builder, *, acts: bool) -> None:
        self._builder = builder
        self._acts = acts
        self._part: _Part | None = None

    @property
    def thread(self) -> str:
        """Whose share is written now."""
        return THREAD if self._part is None else self._part.who

    def prologue(self) -> list[str]:
        """What stands before all parts: the number of the first generation."""
        first = "call i64 @first_generation(ptr %barrier, i64 %threads)"
        lines = [f"  {_GENERATION} = alloca i64, align 8", f"  %first_generation = {first}"]
        return [*lines, f"  store i64 %first_generation, ptr {_GENERATION}, align 8"]

    def begin(self) -> None:
        """A part begins: behind a barrier of all threads that is in no loop, or at the beginning."""
        builder = self._builder
        arguments = f"ptr %barrier, i64 {THREAD}, i64 %threads, i64 {self._generation()}"
        own = builder.assign(f"call i64 @share_begin({arguments})")
        if not self._acts:
            return
        again, work, wait = (builder.fresh(name) for name in ("again", "work", "wait"))
        before = builder.block
        builder.jump(again)
        builder.begin(again)
        slot = len(builder.lines)
        builder.lines.append("")
        builder.begin(work)
        self._part = _Part(f"%{builder.fresh('who')}", own, before, again, work, wait, slot)

    def interrupt(self) -> None:
        """A loop with barriers begins: the part does not come back, and is at an end."""
        part, self._part = self._part, None
        if part is not None:
            self._fill(part, [(part.own, part.before)], f"  br label %{part.work}")

    def meet(self) -> None:
        """All threads wait for each other, in no loop; a part ends, and the next one begins."""
        if not self._acts:
            self._meet_once()
            return
        part, self._part = self._part, None
        if part is None:  # not as in a loop: the thread's pools are emptied by whoever begins its next share
            self._wait(THREAD, acts=False)
        else:
            self._end(part, lambda: self._wait(part.who, acts=True))
        self._count()
        self.begin()

    def meet_in_loop(self) -> None:
        """All threads wait for each other in a loop."""
        self._meet_once()
        self._count()

    def _meet_once(self) -> None:
        self._builder.line(f"call void @barrier_wait(ptr %barrier, i64 {THREAD}, i64 %threads)")

    def end(self) -> None:
        """Nothing follows: no thread waits for others, but does what they have not begun."""
        part, self._part = self._part, None
        if part is not None:
            self._end(part, self._left)

    def _end(self, part: _Part, following: Callable[[], str]) -> None:
        """Behind the work of a part: once more, for the thread that ``following`` gives, if it does."""
        builder = self._builder
        behind = builder.fresh("behind")
        builder.jump(part.wait)
        builder.begin(part.wait)
        other = following()
        is_there = builder.assign(f"icmp sge i64 {other}, 0")
        builder.line(f"br i1 {is_there}, label %{part.again}, label %{behind}")
        is_own = builder.fresh("own")
        branch = f"br i1 %{is_own}, label %{part.work}, label %{part.wait}"
        lines = f"  %{is_own} = icmp sge i64 {part.who}, 0\n  {branch}"
        self._fill(part, [(part.own, part.before), (other, part.wait)], lines)
        builder.begin(behind)

    def _fill(self, part: _Part, values: Sequence[tuple[str, str]], rest: str) -> None:
        """The lines at the beginning of a part."""
        pairs = ", ".join(f"[ {value}, %{block} ]" for value, block in values)
        self._builder.lines[part.slot] = f"  {part.who} = phi i64 {pairs}\n{rest}"

    def _wait(self, who: str, *, acts: bool) -> str:
        flag = "true" if acts else "false"
        arguments = f"ptr %barrier, i64 {who}, i64 %threads, i64 {self._generation()}, i1 {flag}"
        return self._builder.assign(f"call i64 @share_wait({arguments})")

    def _left(self) -> str:
        """A share that has not been begun; those of the threads behind this one come first."""
        arguments = f"ptr %barrier, i64 {THREAD}, i64 %threads, i64 {self._generation()}"
        return self._builder.assign(f"call i64 @share_left({arguments})")

    def _generation(self) -> str:
        return self._builder.assign(f"load i64, ptr {_GENERATION}, align 8")

    def _count(self) -> None:
        following = self._builder.assign(f"add i64 {self._generation()}, 1")
        self._builder.line(f"store i64 {following}, ptr {_GENERATION}, align 8")
