"""The text of a function in LLVM IR as it is written: names, lines, blocks, structured control flow.

Control flow is structured (``loop``, ``branch``), so every value is in SSA form as it is written and no pass has to
find out what is a loop. A ``Value`` of one lane is a scalar; it is spread over lanes only where a vector needs it,
so what is the same for all lanes is computed once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from opendml.expression.element_types import ElementType
from opendml.expression.ir import Const
from opendml.llvm.values import Value, literal, vector_type
from opendml.loops.alignment import aligned

_NUMBER: Final = re.compile(r"[0-9]+$")

ROLLED: Final = ", !llvm.loop !1"
"""On the jump that closes a loop: the optimiser must not unroll it."""


class FunctionText:
    """One LLVM function being written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._called: set[str] = set()
        self.allocations: list[str] = []
        self.scratch_bytes = 0  # of the thread's own memory, at %scratch
        self.is_pooled = False  # whether it takes work items from pools, which %taken counts
        self.is_controlled = False  # whether the function asks now and then, with %control, whether it is to go on
        self.rolled = False  # whether loops are to stay as they are written
        self._count = 0
        self._spread: dict[tuple[str, ElementType, int], Value] = {}  # scalars in all lanes, known in this block
        self.block = "entry"

    def fresh(self, prefix: str = "v") -> str:
        """A name that no other value or block has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def assign(self, text: str) -> str:
        """A line that defines a new value; its name."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def lines_here(self) -> LinesHere:
        """Room for lines that are found to be wanted only later."""
        self.lines.append("")
        return LinesHere(self, len(self.lines) - 1, self._count)

    def line(self, text: str) -> None:
        """A line that defines nothing."""
        self.lines.append(f"  {text}")

    def allocate(self, name: str, size: int) -> str:
        """``size`` bytes of the thread's own memory, aligned to ``ALIGNMENT``; their address.

        It is the program's unless it is little: a caller's stack may be small, and what a kernel needs may be large.
        """
        self.allocations.append(f"  %{name} = getelementptr i8, ptr %scratch, i64 {self.scratch_bytes}")
        self.scratch_bytes += aligned(size)
        return f"%{name}"

    def begin(self, label: str) -> None:
        """Start the block ``label``."""
        self.lines.append(f"{label}:")
        self.block = label
        self._spread.clear()

    def jump(self, label: str) -> None:
        """End the block with a jump."""
        self.line(f"br label %{label}")

    def loop(
        self,
        first: str,
        last: str,
        step: int,
        carried: Sequence[Value],
        body: Callable[[str, list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """``for i in range(first, last, step)``: the carried values after it. ``body(i, values)`` gives new ones."""
        header, inside, done = self.fresh("loop"), self.fresh("body"), self.fresh("done")
        before = self.block
        self.jump(header)
        self.begin(header)
        position = f"%{self.fresh('i')}"
        slot = len(self.lines)
        values = [v._replace(text=f"%{self.fresh('c')}") for v in carried]
        self.lines += [""] * (1 + len(values))
        go_on = self.assign(f"icmp slt i64 {position}, {last}")
        self.line(f"br i1 {go_on}, label %{inside}, label %{done}")
        self.begin(inside)
        results = body(position, values)
        following = self.assign(f"add nsw i64 {position}, {step}")
        end = self.block
        self.line(f"br label %{header}{ROLLED if self.rolled else ''}")
        self.lines[slot] = f"  {position} = phi i64 [ {first}, %{before} ], [ {following}, %{end} ]"
        for number, (value, start, result) in enumerate(zip(values, carried, results, strict=True), slot + 1):
            incoming = f"[ {start.text}, %{before} ], [ {result.text}, %{end} ]"
            self.lines[number] = f"  {value.text} = phi {value.llvm_type} {incoming}"
        self.begin(done)
        return values

    def branch(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]],
    ) -> list[Value]:
        """``if condition``: the values of the branch taken, which must agree in types."""
        yes, no, done = self.fresh("then"), self.fresh("else"), self.fresh("join")
        self.line(f"br i1 {condition.text}, label %{yes}, label %{no}")
        self.begin(yes)
        first = list(then())
        first_end = self.block
        slot = len(self.lines)
        self.lines.append("")
        self.begin(no)
        second = list(otherwise())
        second_end = self.block
        lanes = [max(a.lanes, b.lanes) for a, b in zip(first, second, strict=True)]
        second = [self.spread(v, n) for v, n in zip(second, lanes, strict=True)]
        self.jump(done)
        tail = self.lines[slot + 1 :]
        del self.lines[slot:]
        self._spread.clear()
        first = [self.spread(v, n) for v, n in zip(first, lanes, strict=True)]
        self.jump(done)
        self.lines += tail
        self.begin(done)
        merged = []
        for a, b in zip(first, second, strict=True):
            text = self.assign(f"phi {a.llvm_type} [ {a.text}, %{first_end} ], [ {b.text}, %{second_end} ]")
            merged.append(a._replace(text=text))
        return merged

    def constant(self, const: Const) -> Value:
        """A constant operand, a scalar."""
        return Value(literal(const), const.type)

    def spread(self, value: Value, lanes: int) -> Value:
        """The value in all of ``lanes`` lanes: written once in a block, which is much less for LLVM to read."""
        if value.lanes == lanes:
            return value
        if value.lanes != 1:
            raise ValueError(f"{value} cannot have {lanes} lanes")
        if not value.text.startswith("%"):
            return Value(f"splat ({value.typed})", value.type, lanes)
        key = value.text, value.type, lanes
        found = self._spread.get(key)
        if found is None:
            target = vector_type(value.type, lanes)
            one = self.assign(f"insertelement {target} poison, {value.typed}, i64 0")
            text = self.assign(f"shufflevector {target} {one}, {target} poison, <{lanes} x i32> zeroinitializer")
            found = self._spread[key] = Value(text, value.type, lanes)
        return found

    def aligned(self, *values: Value) -> list[Value]:
        """The values with as many lanes as the widest of them has."""
        lanes = max([v.lanes for v in values])
        return [v if v.lanes == lanes else self.spread(v, lanes) for v in values]

    def intrinsic(self, name: str, result: Value, *operands: Value) -> Value:
        """A call of ``llvm.name`` on operands of the lanes of ``result``, which gives type and lanes."""
        kind = vector_type(result.type, result.lanes)
        given = ", ".join([value.typed for value in operands])
        if name not in self._called:  # Its name tells the types of what is overloaded.
            self._called.add(name)
            kinds = ", ".join([value.llvm_type for value in operands])
            self.declarations.add(f"declare {kind} @{name}({kinds})")
        return Value(self.assign(f"call {kind} @{name}({given})"), result.type, result.lanes)

    def reload(self) -> None:
        """What is loaded from here on is not what was loaded before: LLVM would keep that in registers, and move to
        memory what these were for."""
        self.line('call void asm sideeffect "", "~{memory}"()')

    def opaque(self, pointer: str, here: LinesHere | None = None) -> str:
        """The same address, of which LLVM does not know how it was computed. It costs no instruction."""
        self.declarations.add("declare ptr @llvm.strip.invariant.group.p0(ptr)")
        return (here or self).assign(f"call ptr @llvm.strip.invariant.group.p0(ptr {pointer})")


class LinesHere:
    """Lines of a function in a place behind which others have been written."""

    def __init__(self, text: FunctionText, slot: int, count: int) -> None:
        self._text = text
        self._slot = slot
        self._count = count
        self._lines: list[str] = []

    def knows(self, name: str) -> bool:
        """Whether a value was there before these lines; of those known now all that were are known here."""
        number = _NUMBER.search(name)
        return number is None or int(number[0]) <= self._count

    def assign(self, text: str) -> str:
        """As ``FunctionText.assign``, for what is made of such values."""
        name = f"%{self._text.fresh()}"
        self._lines.append(f"  {name} = {text}")
        self._text.lines[self._slot] = "\n".join(self._lines)
        return name


__all__ = ["ROLLED", "FunctionText", "LinesHere"]
