"""Lanes of vectors in LLVM IR: picked, interleaved, transposed, gathered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opendml.expression.element_types import F32, ElementType
from opendml.llvm.function_text import FunctionText
from opendml.llvm.values import LLVM_TYPES, Value, vector_type


class Lanes(FunctionText):
    """A function being written: what puts lanes of values elsewhere."""

    def shuffle(self, a: Value, b: Value | None, order: Sequence[int]) -> Value:
        """Lanes picked from ``a`` followed by ``b``."""
        second = f"{a.llvm_type} poison" if b is None else b.typed
        mask = ", ".join(f"i32 {i}" for i in order)
        if len(order) == 1:
            return Value(self.assign(f"extractelement {a.typed}, i64 {order[0]}"), a.type)
        text = self.assign(f"shufflevector {a.typed}, {second}, <{len(order)} x i32> <{mask}>")
        return Value(text, a.type, len(order))

    def interleaved(self, values: Sequence[Value]) -> Value:
        """Lane 0 of every value, then lane 1 of every value, and so on."""
        if len(values) % 2 == 0 and len(values) > 2:
            even, odd = self.interleaved(values[::2]), self.interleaved(values[1::2])
            return self.interleaved([even, odd])
        joined = values[0]
        for value in values[1:]:
            if value.lanes < joined.lanes:
                value = self.shuffle(value, None, [min(i, value.lanes - 1) for i in range(joined.lanes)])
            joined = self.shuffle(joined, value, range(joined.lanes + values[0].lanes))
        lanes, count = values[0].lanes, len(values)
        return self.shuffle(joined, None, [number * lanes + lane for lane in range(lanes) for number in range(count)])

    def transposed(self, rows: Sequence[Value], *, fenced: bool = False) -> list[Value]:
        """The columns of a square of vectors of at most 64 bytes; with fences between the shuffles, if these are to
        stay as they are written. Of what is loaded, LLVM makes loads that do a part of the work, but not of vectors of
        four blocks: there is a fence before these are exchanged.

        First groups of rows in each 16 bytes of the vectors, then blocks of 16 bytes between the groups: what
        processors have instructions for, and LLVM finds quickly.
        """
        count, unit = len(rows), min(len(rows), 128 // max(rows[0].type.bits, 8))
        values, size = list(rows), 1
        while size < unit:
            for i in (i for i in range(count) if not i & size):
                pair = self._unpacked(values[i], values[i + size], size, unit)
                values[i], values[i + size] = map(self.fenced, pair) if fenced else pair
            size *= 2
        if not fenced and count == 4 * unit:
            values = list(map(self.fenced, values))
        columns: list[Value] = []
        for residue in range(unit):
            place = sum(unit >> 1 >> bit for bit in range(unit.bit_length()) if residue >> bit & 1)
            columns += self._exchanged(values[place::unit], unit, self.fenced if fenced else lambda value: value)
        blocks = count // unit
        return [columns[column % unit * blocks + column // unit] for column in range(count)]

    def _unpacked(self, a: Value, b: Value, size: int, unit: int) -> tuple[Value, Value]:
        """In every ``unit`` lanes, pieces of ``size`` lanes of both by turns: of the lower and of the upper halves."""

        def half(upper: bool) -> Value:
            order = [
                start + (unit // 2 if upper else 0) + piece + lane + (a.lanes if second else 0)
                for start in range(0, a.lanes, unit)
                for piece in range(0, unit // 2, size)
                for second in (False, True)
                for lane in range(size)
            ]
            return self.shuffle(a, b, order)

        return half(False), half(True)

    def _exchanged(self, rows: Sequence[Value], unit: int, kept: Callable[[Value], Value]) -> list[Value]:
        """A square of blocks of ``unit`` lanes transposed: 1, 2 or 4 rows of as many blocks; ``kept``: what is done to
        the result of each shuffle."""

        def picked(a: Value, b: Value, blocks: Sequence[int]) -> Value:
            return kept(self.shuffle(a, b, [block * unit + lane for block in blocks for lane in range(unit)]))

        if len(rows) == 1:
            return list(rows)
        if len(rows) == 2:
            return [picked(rows[0], rows[1], (0, 2)), picked(rows[0], rows[1], (1, 3))]
        a, b, c, d = rows
        halves = [(picked(a, b, blocks), picked(c, d, blocks)) for blocks in ((0, 1, 4, 5), (2, 3, 6, 7))]
        return [picked(upper, lower, blocks) for upper, lower in halves for blocks in ((0, 2, 4, 6), (1, 3, 5, 7))]

    def extract(self, value: Value, lane: int) -> Value:
        """One lane as a scalar."""
        if value.lanes == 1:
            return value
        return Value(self.assign(f"extractelement {value.typed}, i64 {lane}"), value.type)

    def gathered(self, scalars: Sequence[Value], lanes: int) -> Value:
        """A vector of scalars; lanes without one are undefined."""
        type = scalars[0].type
        if lanes == 1:
            return scalars[0]
        text = "poison"
        for lane, scalar in enumerate(scalars):
            text = self.assign(f"insertelement {vector_type(type, lanes)} {text}, {scalar.typed}, i64 {lane}")
        return Value(text, type, lanes)

    def progression(self, step: int, type: ElementType, lanes: int) -> Value:
        """The constant vector 0, step, 2 * step ..."""
        limit = 1 << type.bits
        element = LLVM_TYPES[type.name]
        numbers = ((lane * step) % limit for lane in range(lanes))
        texts = (str(n - limit if n >= limit >> 1 else n) for n in numbers)
        return Value("<" + ", ".join(f"{element} {t}" for t in texts) + ">", type, lanes)

    def fenced(self, value: Value) -> Value:
        """The same value; of float32, LLVM does not look at how it was computed. It costs no instruction.

        Behind shuffles: for each of them LLVM tries anew to make one of all that lead to it, which takes it longer than
        all else where there are hundreds that are as they should be.
        """
        if value.type is not F32 or value.lanes == 1:
            return value
        kind, name = value.llvm_type, f"llvm.arithmetic.fence.v{value.lanes}f32"
        self.declarations.add(f"declare {kind} @{name}({kind})")
        return Value(self.assign(f"call {kind} @{name}({value.typed})"), value.type, value.lanes)


__all__ = ["Lanes"]
