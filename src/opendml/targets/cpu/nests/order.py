"""Orders as nests: every work item is one sequence.

Where few points are wanted, candidates are gathered that are less than the last one wanted so far; whenever there are
twice as many as wanted, or some more where these are few, they are sorted and the others forgotten. So each element
costs a comparison, and most of them nothing else; in the worst case all are sorted, some at a time.
"""

from __future__ import annotations

from typing import Final

from opendml.expression.element_types import I64, U8, U16, U32, U64
from opendml.expression.ir import Variable, temporary
from opendml.loops.nest import (
    POSITION_BITS,
    Body,
    Branch,
    Candidates,
    Cut,
    Fill,
    Gather,
    Leaf,
    Loop,
    Nest,
    Pick,
    Points,
    Sort,
)
from opendml.loops.nest_integers import Equal, Register
from opendml.targets.cpu.kernels import OrderKernel
from opendml.targets.cpu.nests.sharing import shared_items
from opendml.targets.cpu.target import CpuTarget

UNSIGNED: Final = {8: U8, 16: U16, 32: U32, 64: U64}
DIGIT_BITS: Final = 8


def order_nest(kernel: OrderKernel, target: CpuTarget) -> Nest:
    """One sequence an item: its first elements, then the others as far as they are less."""
    candidates = _candidates(kernel, target)
    size, room, along = kernel.along.size, kernel.room, kernel.along
    count, threshold = Variable("count", I64), Variable("threshold", candidates.key)
    registers = (count, threshold) if room < size else ()
    body: Body = (
        *_chunks(kernel, 0, room, (Fill(candidates, kernel.key, along),)),
        Sort(candidates, room, registers),
    )
    if registers:
        gather = Gather(candidates, kernel.key, along, (count, threshold))
        is_sorted = Equal(Register(count), kernel.rank.size)
        rest = Branch(is_sorted, (), (Sort(candidates, Register(count)),))
        body = (*body, *_chunks(kernel, room, size, (gather,), registers), rest)
    store: Body = (Pick(candidates, kernel.rank, kernel.chosen), Leaf(kernel.stores))
    body = (*body, Loop(kernel.rank, 0, kernel.rank.size, 1, store))
    items = shared_items(map(Cut, kernel.axes), body, kernel, kernel.work, target.tuning)
    rows = (candidates.memory, candidates.other, candidates.digits)
    return Nest((items,), rows=rows)


def _chunks(
    kernel: OrderKernel, first: int, last: int, body: Body, carried: tuple[Variable, ...] = ()
) -> tuple[Loop, ...]:
    """``body`` at all positions: vector by vector, the rest one by one."""
    loops = []
    for lanes in dict.fromkeys((kernel.lanes, 1)):
        end = first + (last - first) // lanes * lanes
        inner: Body = (Points(kernel.along, lanes, "vector", body),) if lanes > 1 else body
        if end > first:
            loops.append(Loop(kernel.along, first, end, lanes, inner, carried=carried))
        first = end
    return tuple(loops)


def _candidates(kernel: OrderKernel, target: CpuTarget) -> Candidates:
    key = UNSIGNED[kernel.key.type.bits]
    words = 2 if key.bits > POSITION_BITS else 1
    lanes = target.machine.lanes(64)
    # Behind a full room there may be the rest of a vector of keys, and another vector that fills up the last one.
    room = kernel.room + kernel.lanes + lanes
    memory, other = (temporary(name, U64, (room * words,)) for name in ("candidates", "ordered"))
    digits = temporary("digits", U32, (key.bits // DIGIT_BITS << DIGIT_BITS,))
    counted = target.tuning.counted_candidates
    return Candidates(key, kernel.rank.size, kernel.room, memory, other, digits, lanes, counted)
