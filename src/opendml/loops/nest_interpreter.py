"""Nests run with NumPy: slow, simple, and the oracle of the code that is written from them.

A nest is run by one thread after the other, in any order: what comes out must not depend on it. The points of a vector,
and those that are taken together, are elements of NumPy arrays; everything else is a Python loop. Loads and stores are
checked, and so is that no two threads write different things to one place.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from opendml.expression.affine import Affine, Element
from opendml.expression.fused import fused_multiply_add
from opendml.expression.interpreter import (
    NUMPY_TYPES,
    PARTIAL_DIMENSIONS,
    REMAINS,
    Array,
    Frame,
    Operations,
    StrayAccessError,
)
from opendml.expression.ir import WORD_PRODUCTS, Axis, Expression, Part, Tensor, Variable, index
from opendml.expression.rewriting import Rewriter
from opendml.expression.statements import RowMargins
from opendml.loops.instructions import Instruction, Instructions
from opendml.loops.nest import (
    POSITION_BITS,
    Accumulate,
    Area,
    At,
    Block,
    Body,
    Branch,
    Candidates,
    Cut,
    ElementStore,
    Fence,
    Fill,
    Flush,
    Gather,
    Items,
    Keep,
    Keeping,
    Leaf,
    Let,
    Loop,
    Memory,
    Nest,
    Node,
    Pick,
    Points,
    Prefetch,
    Recall,
    Reduce,
    Share,
    Sort,
    Stage,
    SumInTiles,
    Tiles,
    Transpose,
    Turn,
    Written,
)
from opendml.loops.nest_integers import (
    Both,
    Condition,
    Difference,
    Either,
    End,
    Equal,
    First,
    Greatest,
    Integer,
    Least,
    Local,
    Position,
    Product,
    Quotient,
    Register,
    Start,
    Sum,
    ToBoundary,
    WholeSteps,
    Within,
)
from opendml.loops.nest_memory import Staged, Storage, TensorMemory, write
from opendml.loops.nest_place import Place, at_points
from opendml.loops.planned_frame import PlannedFrame, Plans
from opendml.loops.plans import AS_THEY_STAND, Folding, KeptRow, Plan


def run_nest(
    nest: Nest, storage: Storage, order: Iterable[int] = (0,), positions: Mapping[Axis, int] | None = None
) -> None:
    """Run a nest by threads one after the other, on flat buffers; ``positions`` are those of the Repeats around it."""
    order = list(order)
    memory = TensorMemory(storage)
    with np.errstate(all="ignore"):
        for thread in order:
            memory.writer = thread
            run_thread(nest, memory, positions or {}, thread, len(order))


def run_thread(nest: Nest, memory: TensorMemory, positions: Mapping[Axis, int], thread: int, threads: int) -> None:
    """What one of so many threads does of a nest."""
    _Thread(nest, memory, thread, threads).run(positions)


class _Thread:
    """One thread on its way through a nest."""

    def __init__(self, nest: Nest, memory: TensorMemory, thread: int, threads: int) -> None:
        self._nest = nest
        self._operations = _operations(nest.instructions)
        self._memory = memory
        self._thread = thread
        self._threads = threads
        self._parts: dict[Axis, tuple[int, int]] = {}
        self._locals: dict[Local, int] = {}
        self._number = 0  # of the work item
        self._before: int | None = None  # that of the one that this thread did before
        self._registers: dict[Variable, dict[int, Array]] = {}  # by the number of the point
        self._own: dict[Memory, Array] = {}
        self._staged: dict[Tensor, Staged] = {}
        self._areas: dict[Area, Staged] = {}
        self._candidates: dict[Candidates, list[int]] = {}
        self._tiles: tuple[tuple[int, int], ...] = ()
        self._kept: dict[Expression, Expression] = {}
        self._rewrite: Callable[[Expression], Expression] = memory.by_place
        self._plans, self._plan = Plans(self._rewrite), AS_THEY_STAND
        self._reduced: dict[Plan, Plan] = {}  # of Reduces, those that came last behind the others

    def run(self, positions: Mapping[Axis, int]) -> None:
        for memory in self._nest.memories:
            width = max(memory.type.bits, 8) // 8
            remains = np.full(memory.size * width, REMAINS, np.uint8)
            self._own[memory] = remains.view(NUMPY_TYPES[memory.type.name])
        for row in self._nest.rows:
            self._memory.own(row)
        self._body(self._nest.body, Place(positions))

    def _body(self, body: Body, place: Place) -> None:
        for node in body:
            self._plan = getattr(node, "plan", AS_THEY_STAND)
            _RUN[type(node)](self, node, place)

    # Integers and conditions -----------------------------------------------------------------------------------------

    def _integer(self, e: Integer, place: Place) -> int:
        if isinstance(e, int):
            return e
        if isinstance(e, Local):
            return self._locals[e]
        if isinstance(e, Start | End):
            return self._parts[e.axis][isinstance(e, End)]
        if isinstance(e, Register):
            return self._number_in(e.variable, place)
        if isinstance(e, WholeSteps):
            first, last = self._integer(e.first, place), self._integer(e.last, place)
            return first if e.may_be_empty and last <= first else last - int(np.fmod(last - first, e.step))
        if isinstance(e, ToBoundary):
            there = place.at(e.axis, self._integer(e.first, place))
            address = self._memory.address(e.tensor, self._place_of(e.address, there))
            return -address % e.bytes // (e.tensor.type.bits // 8)
        if isinstance(e, Position):
            return place.positions[e.axis]
        if isinstance(e, Either):
            return self._integer(e.then if self._holds(e.condition, place) else e.otherwise, place)
        return _ARITHMETIC[type(e)](self._integer(e.left, place), self._integer(e.right, place))

    def _holds(self, condition: Condition, place: Place) -> bool:
        if isinstance(condition, Within):
            address = self._place_of(condition.address, place)
            return self._integer(condition.first, place) <= address < self._integer(condition.last, place)
        if isinstance(condition, Equal):
            return self._integer(condition.left, place) == self._integer(condition.right, place)
        if isinstance(condition, Both):
            return self._holds(condition.first, place) and self._holds(condition.second, place)
        if isinstance(condition, First):
            return self._before is None or self._before // condition.group != self._number // condition.group
        return bool(self._value(condition, place))

    def _share(self, count: int) -> tuple[int, int]:
        return self._share_of(self._thread, count)

    def _share_of(self, thread: int, count: int) -> tuple[int, int]:
        return thread * count // self._threads, (thread + 1) * count // self._threads

    # Loops -----------------------------------------------------------------------------------------------------------

    def items(self, node: Items, place: Place) -> None:
        first, last = self._share(node.count)
        if node.serial:
            first, last = 0, node.count if self._thread == 0 else 0
        elif node.pool:
            last = first + node.kept(last - first)
        before: int | None = None
        for number in (*range(first, last), *(self._taken(node) if node.pool else ())):
            self._number, self._before, before = number, before, number
            self._item(node, place, [int(n) for n in np.unravel_index(number, node.counts)] if node.counts else [])

    def _taken(self, node: Items) -> Iterator[int]:
        """What this thread takes of its own pool and those of others: whoever does, here they take turns."""
        for ahead in range(self._threads):
            owner = (self._thread + ahead) % self._threads
            first, last = self._share_of(owner, node.count)
            pool = range(first + node.kept(last - first), last)
            # The owner has the first turn.
            for start in range(-ahead % self._threads * node.taken, len(pool), self._threads * node.taken):
                yield from pool[start : start + node.taken]

    def _item(self, node: Items, place: Place, numbers: Sequence[int]) -> None:
        parts: dict[Axis, tuple[int, int]] = {}
        for cut, number in zip(node.cuts, numbers, strict=True):
            if cut.block is None:
                place = place.at(cut.axis, parts.get(cut.axis, (0, 0))[0] + number)
            else:
                parts[cut.axis] = _part(cut, cut.block, number, parts.get(cut.axis))
        self._parts = {**self._parts, **parts}
        self._body(node.body, place)

    def loop(self, node: Loop, place: Place) -> None:
        for position in range(self._integer(node.first, place), self._integer(node.last, place), node.step):
            start = position if node.limit is None else min(position, node.limit)
            if node.unmoved is not None:
                self._locals[node.unmoved] = position
            self._body(node.body, place.at(node.axis, start))

    def points(self, node: Points, place: Place) -> None:
        if node.kind == "unrolled":
            before = place.copy
            for number in range(node.count):
                here = place.at(node.axis, place.positions[node.axis] + number * node.step)
                here = replace(here, copy=place.copy * node.count + number)
                self._take_over(node, before, here.copy)
                self._body(node.body, here)
                before = here.copy
            self._take_over(node, before, place.copy)
            return
        here = replace(place, spread=(*place.spread, (node.axis, node.count, node.step)))
        if node.kind == "vector":
            here = replace(here, vector=node.axis, active=node.active)
        self._body(node.body, here)

    def _take_over(self, node: Points, before: int, copy: int) -> None:
        for variable, number in itertools.product(node.carried, range(node.copies)):
            own = self._registers[variable]
            own[copy * node.copies + number] = own[before * node.copies + number]

    def at(self, node: At, place: Place) -> None:
        self._body(node.body, place.at(node.axis, self._integer(node.position, place)))

    def share(self, node: Share, _: Place) -> None:
        self._locals[node.first], self._locals[node.last] = self._share(node.count)

    def let(self, node: Let, place: Place) -> None:
        self._locals[node.local] = self._integer(node.value, place)

    def block(self, node: Block, place: Place) -> None:
        self._body(node.body, place)

    def branch(self, node: Branch, place: Place) -> None:
        self._body(node.then if self._holds(node.condition, place) else node.otherwise, place)

    def fence(self, _: Fence, __: Place) -> None:
        """Nothing here is written later than it says."""

    # Expressions -----------------------------------------------------------------------------------------------------

    def _frame(self, place: Place) -> Frame:
        bound = place.coordinates
        for variable in self._registers:
            value = self._register(variable, place)
            if value is not None:
                bound[variable] = value
        frame = Frame(self._memory.storage, bound, place.mask, len(place.spread), self._operations)
        if not self._nest.is_planned:
            return frame
        lanes = None if place.vector is None else place.dimension
        return PlannedFrame.of(frame, self._plans, self._plan, [*self._reduced.values()], lanes)

    def _register(self, variable: Variable, place: Place) -> Array | None:
        """What a register holds for the points that stand here, the vector last; None if that has not been computed for
        such points."""
        count, own = place.together, self._registers.get(variable, {})
        rows = [own.get(place.copy * count + number) for number in range(count)]
        lanes = math.prod(place.shape) // count
        found = [np.broadcast_to(row, lanes) for row in rows if row is not None and row.size in (1, lanes)]
        return np.stack(found).reshape(*place.shape, *[1] * PARTIAL_DIMENSIONS) if len(found) == count else None

    def _number_in(self, variable: Variable, place: Place) -> int:
        """The integer in a register that is the same at all points."""
        return int(self._registers[variable][place.copy][0])

    def _put(self, variable: Variable, number: int, place: Place) -> None:
        self._registers.setdefault(variable, {})[place.copy] = np.array([number], NUMPY_TYPES[variable.type.name])

    def _set(self, variable: Variable, value: Array, place: Place, some: Container[int] | None = None) -> None:
        """The registers of the points that stand here, or of ``some`` of them by number."""
        count = place.together
        rows = at_points(value, place).reshape(count, -1)
        numbered = ((place.copy * count + n, row) for n, row in enumerate(rows))
        found = ((number, row) for number, row in numbered if some is None or number in some)
        self._registers.setdefault(variable, {}).update(found)

    def _value(self, e: Expression, place: Place) -> Array:
        return self._frame(place).value(self._rewrite(e))

    def _place_of(self, address: Affine, place: Place) -> int:
        """An address where all axes stand at one point."""
        return int(self._value(address.as_expression(), place))

    def leaf(self, node: Leaf, place: Place) -> None:
        frame, rewrite = self._frame(place), self._rewrite
        values = [frame.value(rewrite(e)) for e in node.values]
        stored = node.stores if node.own is None or self._holds(node.own, place) else ()
        stores = [(s, self._address(frame, s.address), frame.value(rewrite(s.value))) for s in stored]
        for store, address, value in stores:
            self._store(store, address, value, place, node.written)
            if store.margins is not None:
                self._store_margins(store, store.margins, address, frame.value(index(store.margins.along)), place)
        for variable, value in zip(node.registers, values, strict=True):
            self._set(variable, value, place)

    def accumulate(self, node: Accumulate, place: Place) -> None:
        frame, product = self._frame(place), node.product
        left, right = (frame.value(self._rewrite(e)) for e in (product.left, product.right))
        before = frame.bound[node.register]
        if product.operation == "mul":
            after = fused_multiply_add(left, right, before)
        else:
            by = self._nest.instructions.find(product.operation, node.register.type)
            after = before + frame.value(self._rewrite(product)) if by is None else by.body(left, right, before)
        self._set(node.register, after, place, node.numbers)

    def turn(self, node: Turn, place: Place) -> None:
        rows = [self._registers[node.source][place.copy + n * node.stride] for n in range(node.rows)]
        columns = np.zeros((node.lanes, node.width), rows[0].dtype)
        columns[:, : node.rows] = np.stack(rows).T
        found = {place.copy * node.lanes + lane: column for lane, column in enumerate(columns)}
        self._registers.setdefault(node.target, {}).update(found)

    def tiles(self, node: Tiles, place: Place) -> None:
        self._tiles = node.sizes
        self._body(node.body, place)
        self._tiles = ()

    def sum_in_tiles(self, node: SumInTiles, place: Place) -> None:
        instruction = self._nest.instructions.find(node.operation, node.target.type)
        assert instruction is not None
        assert all(self._tiles[number] == size for number, size in node.tiles.items())
        rows, columns = sum(node.rows), sum(node.columns)
        total = np.zeros((rows, columns), np.int32)
        steps = [range(0, axis.size, node.depth if axis is node.step else 1) for axis in node.axes]
        for positions in itertools.product(*steps):
            here = replace(place, positions={**place.positions, **dict(zip(node.axes, positions, strict=True))})
            a = [
                self._words(node.by_rows, here.moved(*start), (node.row, count), (node.step, node.depth))
                for start, count in zip(node.starts, node.rows, strict=True)
            ]
            b = self._words(node.by_columns, here, (node.step, node.depth), (node.column, columns))
            total = instruction.body(np.concatenate(a), b, total)
        lines = [first + np.arange(count) for first, count in zip(node.places, node.rows, strict=True)]
        places = np.add.outer(np.concatenate(lines) * node.pitch, np.arange(columns))
        self._memory.write(node.target, places.reshape(-1), total.reshape(-1), None, None)

    def _words(self, e: Expression, place: Place, *axes: tuple[Axis, int]) -> Array:
        """What is loaded at a rectangle of points."""
        here = replace(place, spread=tuple((axis, count, 1) for axis, count in axes))
        return at_points(self._value(e, here), here).reshape([count for _, count in axes])

    def prefetch(self, _: Prefetch, __: Place) -> None:
        """What is near is nothing that a value depends on; there need be no such element."""

    def _address(self, frame: Frame, address: Affine) -> Array:
        return frame.value(self._rewrite(address.as_expression()))

    def _store(self, store: ElementStore, address: Array, value: Array, place: Place, written: Written) -> None:
        places, values = at_points(address, place), at_points(value, place)
        active = None if place.mask is None else at_points(place.mask, place)
        operation = "stream" if written == "past the caches" else "" if active is None else "store"
        instruction = self._nest.instructions.find(operation, store.tensor.type)
        staged = self._staged.get(store.tensor)
        if staged is None:
            self._memory.write(store.tensor, places, values, active, instruction)
            return
        places = places - staged.origin + staged.begin
        stored = places if active is None else places[active]
        if stored.size and (int(stored.min()) < 0 or int(stored.max()) >= staged.memory.size):
            raise StrayAccessError(f"{store.tensor.name}: a store outside of its stage")
        write(staged.memory, places, values, active, instruction)

    def _store_margins(
        self, store: ElementStore, margins: RowMargins, address: Array, along: Array, place: Place
    ) -> None:
        """What is around rows whose first or last point is one of these."""
        places, positions = at_points(address, place), at_points(along, place) % margins.row
        active = np.ones(places.shape, bool) if place.mask is None else at_points(place.mask, place)
        value = np.full(places.shape, margins.value.value, NUMPY_TYPES[store.tensor.type.name])
        for distance, position in margins.around:
            self._memory.write(store.tensor, places + distance, value, active & (positions == position))

    def reduce(self, node: Reduce, place: Place) -> None:
        """Values of folds are computed again, by the same plan, where they are wanted; the rows that they write are
        kept."""
        before = self._reduced.pop(node.plan, None) or _with_inner(node.plan)
        for folding in node.plan.ahead:
            self._plan = node.plan
            self._value(Part(folding.fold, 0), place)
            self._reduced[node.plan] = before
            self._plan = folding.steps.plan
            for row in folding.rows:
                self._write_row(row, place)

    def _write_row(self, row: KeptRow, place: Place) -> None:
        along = replace(place.at(row.axis, 0), spread=((row.axis, row.axis.size, 1),), vector=None, active=None)
        values = at_points(self._value(row.value, along), along)
        self._memory.write(row.memory, np.arange(row.axis.size), values)
        for e, axis in row.readers.items():
            self._kept[e] = Element(row.memory, Affine(((axis, 1),), 0), True)
        kept = Rewriter(dict(self._kept).get)
        self._rewrite = lambda e: self._memory.by_place(kept(e))
        self._plans = Plans(self._rewrite)

    def transpose(self, _: Transpose, __: Place) -> None:
        """The same values are loaded where they are wanted."""

    def keeping(self, node: Keeping, place: Place) -> None:
        for row in node.rows:
            self._memory.own(row.memory)
        self._body(node.body, place)
        self._kept, self._rewrite = {}, self._memory.by_place
        self._plans = Plans(self._rewrite)

    # Candidates of orders -------------------------------------------------------------------------------------------

    def _numbers(self, key: Expression, axis: Axis, place: Place) -> list[int]:
        """The candidates of the points that stand here: keys as unsigned numbers, positions behind them."""
        lowest = -(1 << (key.type.bits - 1)) if key.type.kind == "int" else 0
        keys = at_points(self._value(key, place), place).tolist()
        positions = at_points(place.coordinates[axis], place).tolist()
        return [(k - lowest) << POSITION_BITS | position for k, position in zip(keys, positions, strict=True)]

    def fill(self, node: Fill, place: Place) -> None:
        candidates = self._candidates.setdefault(node.candidates, [])
        start = place.positions[node.axis]
        candidates[start:] = self._numbers(node.key, node.axis, place)

    def gather(self, node: Gather, place: Place) -> None:
        count, threshold = node.registers
        candidates, limit = self._candidates[node.candidates], self._number_in(threshold, place)
        less = [n for n in self._numbers(node.key, node.axis, place) if n >> POSITION_BITS < limit]
        candidates[self._number_in(count, place) :] = less
        self._put(count, len(candidates), place)
        if len(candidates) >= node.candidates.room:
            self._sort(node.candidates, len(candidates), node.registers, place)

    def sort(self, node: Sort, place: Place) -> None:
        self._sort(node.candidates, self._integer(node.count, place), node.registers, place)

    def _sort(self, order: Candidates, count: int, registers: Sequence[Variable], place: Place) -> None:
        found = self._candidates[order] = sorted(self._candidates[order][:count])[: order.wanted]
        if len(found) > order.room + order.lanes:
            raise StrayAccessError(f"{order.memory.name}: no room for {len(found)}")
        state = (len(found), found[-1] >> POSITION_BITS)
        for variable, number in zip(registers, state, strict=False):
            self._put(variable, number, place)

    def pick(self, node: Pick, place: Place) -> None:
        candidate = self._candidates[node.candidates][place.positions[node.axis]]
        position = candidate & ((1 << POSITION_BITS) - 1)
        self._put(node.register, position, place)

    # Memory of the thread's own --------------------------------------------------------------------------------------

    def stage(self, node: Stage, place: Place) -> None:
        origin = place
        for axis, position in node.origin:
            origin = origin.at(axis, self._integer(position, place))
        for area in node.areas:
            target, size = self._place_of(area.target, origin), area.tensor.type.bits // 8
            behind = self._memory.address(area.tensor, target) % area.alignment
            begin = (area.slack + behind) // size
            staged = Staged(self._own[area.memory], begin, self._place_of(area.address, origin), target)
            self._staged[area.tensor] = self._areas[area] = staged
        self._body(node.body, place)
        self._staged = {}

    def flush(self, node: Flush, place: Place) -> None:
        staged, tensor = self._areas[node.area], node.area.tensor
        length = self._integer(node.length, place)
        counts = [range(self._integer(run.count, place)) for run in node.runs]
        stream = self._nest.instructions.find("stream", tensor.type)
        for numbers in itertools.product(*counts):
            pairs = list(zip(numbers, node.runs, strict=True))
            source = staged.begin + sum(number * run.pitch for number, run in pairs)
            target = staged.target + sum(number * run.target_pitch for number, run in pairs)
            if source < 0 or source + length > staged.memory.size:
                raise StrayAccessError(f"{tensor.name}: a run outside of its stage")
            places = np.arange(target, target + length)
            run = staged.memory[source : source + length]
            self._memory.write(tensor, places, run, instruction=stream)

    def recall(self, node: Recall, place: Place) -> None:
        there = place.coordinates[node.axis] - self._integer(node.origin, place)
        for register, memory in zip(node.registers, node.memories, strict=True):
            self._set(register, self._own[memory][there], place)

    def keep(self, node: Keep, place: Place) -> None:
        there = at_points(place.coordinates[node.axis], place) - self._integer(node.origin, place)
        for register, memory in zip(node.registers, node.memories, strict=True):
            value = self._register(register, place)
            assert value is not None
            self._own[memory][there] = at_points(value, place)


def _with_inner(plan: Plan) -> Plan:
    """A plan whose folds ahead are all that are known behind it: those ahead of others too."""
    found, stack = list[Folding](), [*reversed(plan.ahead)]
    while stack:
        folding = stack.pop()
        found.append(folding)
        stack += reversed(folding.ahead)
    return Plan(plan.choices, plan.foldings, tuple(found))


def _part(cut: Cut, block: int, number: int, outer: tuple[int, int] | None) -> tuple[int, int]:
    """The part of an axis that the block of a number is."""
    start, end = outer or (0, cut.axis.size)
    return start + number * block, min(start + (number + 1) * block, end)


@functools.lru_cache
def _operations(instructions: Instructions) -> Operations:
    """What instructions do in place of the operations of the grammar."""
    return {
        (instruction.operation, instruction.type): (
            partial(_product, instruction) if instruction.operation in WORD_PRODUCTS else instruction.body
        )
        for instruction in reversed(instructions.members)
    }


def _product(instruction: Instruction, a: Array, b: Array) -> Array:
    return np.asarray(instruction.body(a, b, np.zeros_like(a)))


_ARITHMETIC: Final[dict[type, Callable[[int, int], int]]] = {
    Sum: operator.add,
    Difference: operator.sub,
    Product: operator.mul,
    Quotient: operator.floordiv,
    Least: min,
    Greatest: max,
}

_RUN: Final[dict[type[Node], Callable[[_Thread, Any, Place], None]]] = {
    Items: _Thread.items,
    Loop: _Thread.loop,
    Points: _Thread.points,
    At: _Thread.at,
    Share: _Thread.share,
    Let: _Thread.let,
    Block: _Thread.block,
    Branch: _Thread.branch,
    Leaf: _Thread.leaf,
    Reduce: _Thread.reduce,
    Transpose: _Thread.transpose,
    Keeping: _Thread.keeping,
    Accumulate: _Thread.accumulate,
    Turn: _Thread.turn,
    Tiles: _Thread.tiles,
    SumInTiles: _Thread.sum_in_tiles,
    Prefetch: _Thread.prefetch,
    Recall: _Thread.recall,
    Keep: _Thread.keep,
    Stage: _Thread.stage,
    Flush: _Thread.flush,
    Fill: _Thread.fill,
    Gather: _Thread.gather,
    Sort: _Thread.sort,
    Pick: _Thread.pick,
    Fence: _Thread.fence,
}
