"""Candidates of orders in LLVM: keys and positions as one integer, in memory of the thread's own.

A few candidates are ordered by counting how many are less than each, many digit by digit from the lowest one on. A
digit that all have in common costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from opendml.expression.element_types import BOOL, I64, U32, U64, ElementType
from opendml.expression.ir import Expression
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value, index_value, vector_type
from opendml.loops.nest import POSITION_BITS, Candidates
from opendml.targets.cpu.code.evaluation import Evaluator
from opendml.targets.cpu.code.memory import Place
from opendml.targets.cpu.code.point import Point
from opendml.targets.cpu.nests.order import DIGIT_BITS

DIGITS: Final = 1 << DIGIT_BITS


@dataclass(frozen=True, slots=True)
class _Candidates:
    """What candidates are as integers: their type in LLVM, its bytes, and the digits of a key."""

    key: ElementType

    @property
    def type(self) -> str:
        return "i128" if self.key.bits > POSITION_BITS else "i64"

    @property
    def bytes(self) -> int:
        return 16 if self.key.bits > POSITION_BITS else 8

    @property
    def digits(self) -> int:
        return self.key.bits // DIGIT_BITS


class OrderWriter:
    """Writes what the nodes of a nest say about candidates."""

    def __init__(self, node: Candidates, builder: Builder, evaluator: Evaluator) -> None:
        self.node = node
        self.builder = builder
        self.evaluator = evaluator
        self.candidates = _Candidates(node.key)
        memories = (node.memory, node.other, node.digits)
        self.area, self.other, self.table = (evaluator.memory.pointer(Place(tensor, None, 0)) for tensor in memories)
        self.function, text, declarations = _ordering(self.candidates, node.lanes, node.counted)
        builder.declarations |= {text, *declarations}

    def _keys(self, key: Expression, point: Point) -> Value:
        """The keys of some points as unsigned numbers."""
        type = self.candidates.key
        value = self.builder.spread(self.evaluator.value(key, point), point.lanes)
        if key.type.kind == "int":
            lowest = self.builder.spread(Value(str(-(1 << (type.bits - 1))), value.type), value.lanes)
            value = self.builder.binary("xor", value, lowest)
        return value._replace(type=type)

    def _packed(self, keys: Value, position: str) -> list[str]:
        """The candidates of keys from a position on, one by one."""
        builder = self.builder
        if self.candidates.bytes == 8:
            both = self._packed_vector(keys, position)
            return [builder.extract(both, lane).text for lane in range(keys.lanes)]
        found = []
        for lane in range(keys.lanes):
            key = builder.assign(f"zext i64 {builder.extract(keys, lane).text} to i128")
            high = builder.assign(f"shl i128 {key}, {POSITION_BITS}")
            place = builder.assign(f"zext i64 {builder.assign(f'add i64 {position}, {lane}')} to i128")
            found.append(builder.assign(f"or i128 {high}, {place}"))
        return found

    def _packed_vector(self, keys: Value, position: str) -> Value:
        builder, lanes = self.builder, keys.lanes
        high = builder.binary("shl", builder.cast(keys, U64), builder.spread(Value(str(POSITION_BITS), U64), lanes))
        place = builder.spread(Value(position, U64), lanes)
        if lanes > 1:
            place = builder.binary("add", place, builder.progression(1, U64, lanes))
        return builder.binary("or", high, place)

    def _place(self, number: str) -> str:
        return self.builder.assign(f"getelementptr {self.candidates.type}, ptr {self.area}, i64 {number}")

    def _put(self, candidate: str, number: str) -> None:
        self.builder.line(f"store {self.candidates.type} {candidate}, ptr {self._place(number)}, align 8")

    def fill(self, key: Expression, point: Point, position: str) -> None:
        """All candidates, each at its position."""
        keys = self._keys(key, point)
        if self.candidates.bytes == 8:
            self.builder.line(
                f"store {self._packed_vector(keys, position).typed}, ptr {self._place(position)}, align 8"
            )
            return
        for lane, candidate in enumerate(self._packed(keys, position)):
            self._put(candidate, self.builder.assign(f"add i64 {position}, {lane}"))

    def gather(self, key: Expression, point: Point, position: str, state: list[Value]) -> list[Value]:
        """Those that are less than the last one wanted so far, behind the others; equal ones come too late."""
        builder = self.builder
        keys = self._keys(key, point)
        is_less = builder.binary("lt", keys, builder.spread(state[1], keys.lanes))

        def append() -> list[Value]:
            count = state[0].text
            for lane, candidate in enumerate(self._packed(keys, position)):
                self._put(candidate, count)
                more = builder.assign(f"zext i1 {builder.extract(is_less, lane).text} to i64")
                count = builder.assign(f"add i64 {count}, {more}")
            is_full = Value(builder.assign(f"icmp sge i64 {count}, {self.node.room}"), BOOL)
            return builder.branch(is_full, lambda: self.sorted(count), lambda: [index_value(count), state[1]])

        return builder.branch(builder.any_lane(is_less), append, lambda: state)

    def sorted(self, count: str) -> list[Value]:
        """How many are left, and the threshold."""
        self.sort(count)
        return [index_value(self.node.wanted), self._threshold()]

    def sort(self, count: str) -> None:
        """Those wanted to the front."""
        arguments = f"ptr {self.area}, ptr {self.other}, i64 {count}, i64 {self.node.wanted}, ptr {self.table}"
        self.builder.line(f"call void @{self.function}({arguments})")

    def _threshold(self) -> Value:
        """The key of the last candidate wanted so far."""
        builder, type = self.builder, self.candidates.type
        last = builder.assign(f"load {type}, ptr {self._place(str(self.node.wanted - 1))}, align 8")
        high = builder.assign(f"lshr {type} {last}, {POSITION_BITS}")
        key = vector_type(self.candidates.key, 1)
        return Value(builder.assign(f"trunc {type} {high} to {key}"), self.candidates.key)

    def pick(self, place: str) -> Value:
        """Where the candidate of a place comes from."""
        builder, type = self.builder, self.candidates.type
        candidate = builder.assign(f"load {type}, ptr {self._place(place)}, align 8")
        low = builder.assign(f"trunc {type} {candidate} to i32")
        return Value(builder.assign(f"zext i32 {low} to i64"), I64)


def _ordering(candidates: _Candidates, vector: int, few: int) -> tuple[str, str, set[str]]:
    """A function ``(candidates, other memory, count, how many are wanted, table)`` that brings those wanted to the
    front, in order: its name, its text and what it declares."""
    builder = Builder()
    name = f"order_{candidates.key.bits}_{vector}_{few}"
    is_few = Value(builder.assign(f"icmp sle i64 %count, {few}"), BOOL)

    def counted() -> list[Value]:
        _by_counting(builder, candidates, vector)
        return []

    def digit_by_digit() -> list[Value]:
        _by_digits(builder, candidates)
        return []

    builder.branch(is_few, counted, digit_by_digit)
    area, other, table = (f"ptr noalias nocapture %{pointer}" for pointer in ("area", "other", "table"))
    head = f"define internal void @{name}({area}, {other}, i64 %count, i64 %wanted, {table}) noinline #0 {{"
    return name, "\n".join([head, "entry:", *builder.lines, "  ret void", "}"]), builder.declarations


def _at(builder: Builder, type: str, pointer: str, number: str) -> str:
    return builder.assign(f"getelementptr {type}, ptr {pointer}, i64 {number}")


def _copy_back(builder: Builder, candidates: _Candidates) -> list[Value]:
    builder.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    size = builder.assign(f"mul i64 %wanted, {candidates.bytes}")
    builder.line(f"call void @llvm.memcpy.p0.p0.i64(ptr align 8 %area, ptr align 8 %other, i64 {size}, i1 false)")
    return []


def _by_counting(builder: Builder, candidates: _Candidates, vector: int) -> None:
    """Every candidate goes to the place whose number is that of the candidates that are less than it."""
    type = candidates.type
    lanes = vector if type == "i64" else 1
    name = vector_type(U64, lanes) if type == "i64" else type
    # What stands behind the last candidate in its vector is no less than any.
    if lanes > 1:
        builder.line(f"store {name} splat (i64 -1), ptr {_at(builder, type, '%area', '%count')}, align 8")

    def one(number: str, _: list[Value]) -> list[Value]:
        candidate = builder.assign(f"load {type}, ptr {_at(builder, type, '%area', number)}, align 8")
        own = builder.spread(Value(candidate, U64), lanes).text

        def compare(position: str, less: list[Value]) -> list[Value]:
            others = builder.assign(f"load {name}, ptr {_at(builder, type, '%area', position)}, align 8")
            found = Value(builder.assign(f"icmp ult {name} {others}, {own}"), BOOL, lanes)
            return [builder.binary("add", less[0], builder.cast(found, U64))]

        zero = builder.spread(Value("0", U64), lanes)
        (less,) = builder.loop("0", "%count", lanes, [zero], compare)
        place = less.text
        if lanes > 1:
            place = builder.intrinsic(f"llvm.vector.reduce.add.v{lanes}i64", Value("", U64), less).text
        builder.line(f"store {type} {candidate}, ptr {_at(builder, type, '%other', place)}, align 8")
        return []

    builder.loop("0", "%count", 1, [], one)
    _copy_back(builder, candidates)


def _by_digits(builder: Builder, candidates: _Candidates) -> None:
    """Candidates by their lowest digit, then these by the next one, and so on: equal ones keep their order."""
    type = candidates.type
    builder.declarations.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    size = candidates.digits * DIGITS * 4
    builder.line(f"call void @llvm.memset.p0.i64(ptr align 64 %table, i8 0, i64 {size}, i1 false)")

    def counter(candidate: str, digit: int) -> str:
        """Where the number of those with the same digit stands."""
        moved = builder.assign(f"lshr {type} {candidate}, {POSITION_BITS + digit * DIGIT_BITS}")
        low = builder.assign(f"trunc {type} {moved} to i{DIGIT_BITS}")
        place = builder.assign(f"add nsw i64 {builder.assign(f'zext i{DIGIT_BITS} {low} to i64')}, {digit * DIGITS}")
        return _at(builder, "i32", "%table", place)

    def add(pointer: str, step: str) -> str:
        before = builder.assign(f"load i32, ptr {pointer}, align 4")
        builder.line(f"store i32 {builder.assign(f'add i32 {before}, {step}')}, ptr {pointer}, align 4")
        return before

    def count(number: str, _: list[Value]) -> list[Value]:
        candidate = builder.assign(f"load {type}, ptr {_at(builder, type, '%area', number)}, align 8")
        for digit in range(candidates.digits):
            add(counter(candidate, digit), "1")
        return []

    builder.loop("0", "%count", 1, [], count)
    moves = Value("0", I64)  # how often the candidates have gone from one memory to the other
    for digit in range(candidates.digits):
        moves = _move(builder, candidates, moves, partial(counter, digit=digit), digit)
    is_other = Value(builder.assign(f"trunc i64 {moves.text} to i1"), BOOL)
    builder.branch(is_other, lambda: _copy_back(builder, candidates), list)


def _move(builder: Builder, candidates: _Candidates, moves: Value, counter: Callable[[str], str], digit: int) -> Value:
    """Moves all candidates to where a digit says, unless they have it in common; how often there were moves then."""
    type = candidates.type
    is_other = builder.assign(f"trunc i64 {moves.text} to i1")
    source = builder.assign(f"select i1 {is_other}, ptr %other, ptr %area")
    target = builder.assign(f"select i1 {is_other}, ptr %area, ptr %other")
    same = builder.assign(f"load i32, ptr {counter(builder.assign(f'load {type}, ptr {source}, align 8'))}, align 4")
    together = builder.assign(f"icmp eq i64 {builder.assign(f'zext i32 {same} to i64')}, %count")

    def place(number: str, before: list[Value]) -> list[Value]:
        """The number of a digit becomes that of all lower ones."""
        here = _at(builder, "i32", "%table", builder.assign(f"add nsw i64 {number}, {digit * DIGITS}"))
        own = Value(builder.assign(f"load i32, ptr {here}, align 4"), U32)
        builder.line(f"store {before[0].typed}, ptr {here}, align 4")
        return [builder.binary("add", before[0], own)]

    def one(number: str, _: list[Value]) -> list[Value]:
        candidate = builder.assign(f"load {type}, ptr {_at(builder, type, source, number)}, align 8")
        pointer = counter(candidate)
        first = builder.assign(f"load i32, ptr {pointer}, align 4")
        builder.line(f"store i32 {builder.assign(f'add i32 {first}, 1')}, ptr {pointer}, align 4")
        there = _at(builder, type, target, builder.assign(f"zext i32 {first} to i64"))
        builder.line(f"store {type} {candidate}, ptr {there}, align 8")
        return []

    def move() -> list[Value]:
        builder.loop("0", str(DIGITS), 1, [Value("0", U32)], place)
        builder.loop("0", "%count", 1, [], one)
        return [Value(builder.assign(f"add i64 {moves.text}, 1"), I64)]

    return builder.branch(Value(together, BOOL), lambda: [moves], move)[0]
