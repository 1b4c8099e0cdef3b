"""Vectors of numbers that are rounded to bytes, some of them at once: packs that saturate clamp them and join them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from opendml.expression.element_types import F32, I32, U8, U32, number_of
from opendml.expression.ir import Axis, Binary, Bitcast, Cast, Const, Expression, constant
from opendml.llvm.values import Value
from opendml.loops.instructions import Instruction, Instructions
from opendml.loops.nest import ElementStore, Leaf, Node, Points
from opendml.targets.cpu.code.evaluation import Evaluator, Rounded, offset_of, rounded_to_integer
from opendml.targets.cpu.code.memory import Place
from opendml.targets.cpu.code.point import Point
from opendml.targets.cpu.instructions.bytes import JOINED
from opendml.targets.cpu.instructions.registers import by_registers

BOUND: Final = 1 << 17
"""A number beyond what integers of 8 bits and their offsets, of 16 at most, reach."""

WITHIN: Final = 1 << 30
"""A number that an i32 holds, with such an offset, too."""


def leaf_of_bytes(node: Node, instructions: Instructions) -> Leaf | None:
    """What is done at points that are unrolled, if that is one store of numbers that are rounded to a register of
    neighbouring bytes each."""
    if not isinstance(node, Points) or node.kind != "unrolled":
        return None
    count, inner = 1, node
    while inner.kind == "unrolled":
        count *= inner.count
        if inner.carried or len(inner.body) != 1 or not isinstance(inner.body[0], Points):
            return None
        inner = inner.body[0]
    is_whole = inner.kind == "vector" and inner.active is None and len(inner.body) == 1
    leaf = inner.body[0]
    if not is_whole or not isinstance(leaf, Leaf) or not is_of_bytes(leaf, inner.axis):
        return None
    return leaf if has_packs(instructions, inner.count, count) else None


def is_of_bytes(leaf: Leaf, vector: Axis | None) -> bool:
    """Whether a leaf is one store of numbers that are rounded, and bytes along a vector."""
    if len(leaf.stores) != 1 or leaf.registers or leaf.own is not None or leaf.written != "each" or vector is None:
        return False
    (store,) = leaf.stores
    is_row = store.margins is None and store.address.is_pure and store.address.coefficient(vector) == 1
    return is_row and store.tensor.type is U8 and rounded_to_integer(store.value) is not None


def has_packs(instructions: Instructions, lanes: int, points: int) -> bool:
    """Whether so many lanes are whole registers, and those of all points enough for an instruction."""
    pack = instructions.find("bytes", U8)
    if pack is None:
        return False
    registers, rest = divmod(lanes * JOINED, pack.lanes)
    return rest == 0 and registers.bit_count() == 1 and registers * points >= JOINED


def write_bytes(evaluator: Evaluator, store: ElementStore, points: Sequence[Point], *, at_once: bool) -> None:
    """The store at all of these points, which are vectors; those that are too few for a pack one by one. ``at_once``:
    everything is computed before anything is stored."""
    pack = evaluator.instructions.find("bytes", U8)
    assert pack is not None
    together = max(pack.lanes // points[0].lanes, 1)
    whole, waiting = len(points) - len(points) % together, list[tuple[Place, Value]]()
    for start in range(0, whole, together):
        waiting += _packed(evaluator, pack, store, points[start : start + together])
        if not at_once:
            _store_all(evaluator, waiting)
    left = [(point, evaluator.value(store.value, point)) for point in points[whole:]]
    _store_all(evaluator, waiting)
    for point, value in left:
        evaluator.store(store.tensor, store.address, value, point)


def _store_all(evaluator: Evaluator, waiting: list[tuple[Place, Value]]) -> None:
    for place, value in waiting:
        evaluator.memory.store(place, value)
    waiting.clear()


def _packed(
    evaluator: Evaluator, pack: Instruction, store: ElementStore, points: Sequence[Point]
) -> Iterator[tuple[Place, Value]]:
    """The bytes of registers at these points, and where they are stored."""
    rounded, lanes = rounded_to_integer(store.value), pack.lanes // JOINED
    assert rounded is not None
    registers = list[tuple[Place, Value]]()
    for point in points:
        words, place = _words(evaluator, rounded, point), evaluator.place(store.tensor, store.address, point)
        for start in range(0, point.lanes, lanes):
            part = (
                words if point.lanes == lanes else evaluator.builder.shuffle(words, None, range(start, start + lanes))
            )
            registers.append((place.moved(start), part))
    for first in range(0, len(registers), JOINED):
        places, parts = zip(*registers[first : first + JOINED], strict=True)
        packed, start = pack.write(evaluator.builder, *parts), 0
        for run in _runs(places, lanes):
            part = evaluator.builder.shuffle(packed, None, range(start, start + run * lanes))
            yield places[start // lanes], part
            start += run * lanes


def _runs(places: Sequence[Place], lanes: int) -> list[int]:
    """How many registers behind one another are next to each other in memory."""
    runs = [1]
    for before, place in itertools.pairwise(places):
        if place == before.moved(lanes):
            runs[-1] += 1
        else:
            runs.append(1)
    return runs


def _words(evaluator: Evaluator, rounded: Rounded, point: Point) -> Value:
    """The integers that packs clamp. What an i32 does not hold becomes its least one: numbers are bounded above before,
    and below where an offset less than 0 might be added to that. NaN becomes the least one, too."""
    builder, instruction = evaluator.builder, evaluator.instructions.find("round", F32)
    assert instruction is not None
    number = builder.spread(evaluator.value(rounded.number, point), point.lanes)
    if most(rounded.number) > WITHIN:
        high, low = (builder.spread(builder.constant(constant(n, F32)), point.lanes) for n in (BOUND, -BOUND))
        number = builder.select(builder.binary("gt", number, high), high, number)
        if not isinstance(rounded.offset, int) or rounded.offset < 0:
            number = builder.select(builder.binary("gt", number, low), number, low)
    words = by_registers(builder, instruction, number)
    if rounded.offset == 0:
        return words
    offset = offset_of(evaluator, rounded, point)
    whole = Value(str(offset), I32) if isinstance(offset, int) else builder.cast(offset, I32)
    return builder.binary("add", words, builder.spread(whole, words.lanes))


def most(e: Expression) -> float:
    """What a float32 is no larger than, by and large, up or down; infinite if that is not known, or it may be NaN."""
    bound = _MOST.get(type(e))
    return math.inf if bound is None else bound(e)


def _most_of_cast(e: Cast) -> float:
    type = e.operand.type
    return float(2**type.bits) if e.type is F32 and type.is_integer else math.inf


def _most_of_binary(e: Binary) -> float:
    left, right = most(e.left), most(e.right)
    if e.operation in ("add", "sub"):
        return left + right
    if math.isinf(left) or math.isinf(right):
        return math.inf
    if e.operation == "mul":
        return left * right
    if e.operation == "div" and isinstance(e.right, Const) and right > 0:
        return left / right
    return math.inf


def _most_of_constant(e: Const) -> float:
    value = abs(float(e.value))
    return value if math.isfinite(value) else math.inf


def _most_of_bits(e: Bitcast) -> float:
    """Bits that are no more than those of a number, as unsigned integers, are no larger number, and none below 0."""
    bits = e.operand
    if e.type is not F32 or not isinstance(bits, Binary) or bits.type is not U32 or bits.operation != "min":
        return math.inf
    return most(constant(number_of(int(bits.right.value), F32), F32)) if isinstance(bits.right, Const) else math.inf


_MOST: Final[dict[type, Callable[[Any], float]]] = {
    Const: _most_of_constant,
    Bitcast: _most_of_bits,
    Cast: _most_of_cast,
    Binary: _most_of_binary,
}
