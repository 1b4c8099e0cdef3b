"""Loop nests into LLVM functions, node by node: everything has been decided."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

from opendml.expression.element_types import BOOL
from opendml.expression.ir import Axis, Expression, Variable
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value, vector_type
from opendml.loops.nest import (
    Accumulate,
    At,
    Block,
    Body,
    Branch,
    Candidates,
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
    nodes_of,
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
)
from opendml.targets.cpu.code.byte_stores import has_packs, is_of_bytes, leaf_of_bytes, write_bytes
from opendml.targets.cpu.code.evaluation import Evaluator
from opendml.targets.cpu.code.order_code import OrderWriter
from opendml.targets.cpu.code.point import Point
from opendml.targets.cpu.code.register_squares import turned
from opendml.targets.cpu.code.row_code import write_rows
from opendml.targets.cpu.code.stage_code import StageWriter
from opendml.targets.cpu.code.tile_code import write_sum_in_tiles
from opendml.targets.cpu.code.work_items import Bounds, block_bounds, decoded, share, smaller, write_items
from opendml.targets.cpu.instructions.tiles import CONFIGURATION_BYTES, write_configuration, write_release


def write_nest(nest: Nest, builder: Builder, evaluator: Evaluator, origin: Point, turn: str | None = None) -> None:
    """The lines of a nest. ``turn``: the number of the round of a loop around it, if there is one."""
    areas = {memory: builder.allocate(builder.fresh(memory.name), memory.size_in_bytes) for memory in nest.memories}
    for row in nest.rows:
        evaluator.memory.allocate(row)
    builder.rolled = nest.rolled
    evaluator.memory.keeps_bases = nest.rolled
    _NestWriter(builder, evaluator, areas, turn).body(nest.body, _Place((origin,)))


@dataclass(frozen=True, slots=True)
class _Place:
    """The points that stand here, and the number of the unrolled one."""

    points: tuple[Point, ...]
    copy: int = 0

    @property
    def numbered(self) -> list[tuple[int, Point]]:
        """The points, and the numbers of their registers."""
        return [(self.copy * len(self.points) + n, point) for n, point in enumerate(self.points)]

    def each(self, moved: Callable[[Point], Point]) -> _Place:
        return _Place(tuple(map(moved, self.points)), self.copy)


class _NestWriter:
    """Writes nodes through a Builder, and the expressions in them through an Evaluator."""

    def __init__(self, builder: Builder, evaluator: Evaluator, areas: dict[Memory, str], turn: str | None) -> None:
        self._builder = builder
        self._evaluator = evaluator
        self._areas = areas
        self._turn = turn
        self._parts: dict[Axis, Bounds] = {}
        self._locals: dict[Local, str] = {}
        self._orders: dict[Candidates, OrderWriter] = {}
        self._registers: dict[int, dict[Variable, Value]] = {}  # by the number of the point
        self._item, self._item_count, self._pooled = "0", 1, False
        self._elsewhere: str | None = None  # where what belongs to other threads is stored
        self._group: str | None = None  # where the number of the last item's group is
        self._stages = StageWriter(builder, evaluator, areas)

    def body(self, body: Body, place: _Place) -> None:
        """All nodes of a body."""
        for node in body:
            if isinstance(node, _EVALUATING):
                self._evaluator.plan = node.plan
            _WRITE[type(node)](self, node, place)

    def block(self, node: Block, place: _Place) -> None:
        with self._evaluator.scope(in_line=True):
            self.body(node.body, place)

    def _inside(self, body: Body, place: _Place) -> None:
        """A body whose values are not known behind it."""
        with self._evaluator.scope():
            self.body(body, place)

    def keeping(self, node: Keeping, place: _Place) -> None:
        with self._evaluator.keeping():
            self.body(node.body, place)

    # Integers and conditions -----------------------------------------------------------------------------------------

    def _integer(self, e: Integer, place: _Place) -> str:
        if isinstance(e, int):
            return str(e)
        if isinstance(e, Local):
            return self._locals[e]
        if isinstance(e, Start | End):
            return self._parts[e.axis][isinstance(e, End)]
        if isinstance(e, Register):
            return self._registers[place.copy][e.variable].text
        if isinstance(e, WholeSteps):
            return self._whole_steps(e, place)
        if isinstance(e, ToBoundary):
            (point,) = place.points
            first = point.at(e.axis, self._integer(e.first, place))
            return self._evaluator.memory.misaligned_elements(self._evaluator.place(e.tensor, e.address, first))
        if isinstance(e, Position):
            name, constant = place.points[0].positions[e.axis]
            return str(constant) if name is None else name
        if isinstance(e, Either):
            then, otherwise = self._integer(e.then, place), self._integer(e.otherwise, place)
            holds = self._condition(e.condition, place).text
            return self._builder.assign(f"select i1 {holds}, i64 {then}, i64 {otherwise}")
        left, right = self._integer(e.left, place), self._integer(e.right, place)
        if isinstance(e, Quotient):
            return self._builder.assign(f"udiv i64 {left}, {right}")
        if isinstance(e, Least):
            return smaller(self._builder, left, right)
        if isinstance(e, Greatest):
            more = self._builder.assign(f"icmp sgt i64 {left}, {right}")
            return self._builder.assign(f"select i1 {more}, i64 {left}, i64 {right}")
        return self._builder.assign(f"{_ARITHMETIC[type(e)]} nsw i64 {left}, {right}")

    def _whole_steps(self, e: WholeSteps, place: _Place) -> str:
        first, last = self._integer(e.first, place), self._integer(e.last, place)
        span = self._builder.assign(f"sub nsw i64 {last}, {first}")
        rest = self._builder.assign(f"srem i64 {span}, {e.step}")
        if not e.may_be_empty:
            return self._builder.assign(f"sub nsw i64 {last}, {rest}")
        end = self._builder.assign(f"sub nsw i64 {last}, {rest}") if e.step > 1 else last
        positive = self._builder.assign(f"icmp sgt i64 {span}, 0")
        return self._builder.assign(f"select i1 {positive}, i64 {end}, i64 {first}")

    def _condition(self, condition: Condition, place: _Place) -> Value:
        (point,) = place.points
        if isinstance(condition, Expression):
            return self._evaluator.value(condition, point)
        if isinstance(condition, Equal):
            left, right = self._integer(condition.left, place), self._integer(condition.right, place)
            return Value(self._builder.assign(f"icmp eq i64 {left}, {right}"), BOOL)
        if isinstance(condition, First):
            return self._is_first(condition.group)
        if isinstance(condition, Both):
            first, second = (self._condition(part, place).text for part in (condition.first, condition.second))
            return Value(self._builder.assign(f"select i1 {first}, i1 {second}, i1 false"), BOOL)
        element = self._evaluator.index(condition.address, point).text
        first, last = self._integer(condition.first, place), self._integer(condition.last, place)
        # What is before the first is far behind it as an unsigned number: one comparison tells.
        count, behind = (self._builder.assign(f"sub i64 {end}, {first}") for end in (last, element))
        return Value(self._builder.assign(f"icmp ult i64 {behind}, {count}"), BOOL)

    def _is_first(self, group: int) -> Value:
        """Whether this work item is of another group than the one that the thread did before. Where it does them in
        order, that can be told from the number; where it takes some from a pool, it keeps the group's."""
        if self._pooled:
            if self._group is None:
                self._group = self._builder.allocate(self._builder.fresh("group"), 8)
                self._builder.allocations.append(f"  store i64 -1, ptr {self._group}, align 8")
            number = self._builder.assign(f"udiv i64 {self._item}, {group}")
            before = self._builder.assign(f"load i64, ptr {self._group}, align 8")
            self._builder.line(f"store i64 {number}, ptr {self._group}, align 8")
            return Value(self._builder.assign(f"icmp ne i64 {number}, {before}"), BOOL)
        before = self._builder.assign(f"mul i64 %thread, {self._item_count}")
        first = self._builder.assign(f"udiv i64 {before}, %threads")
        is_first = self._builder.assign(f"icmp eq i64 {self._item}, {first}")
        place = self._builder.assign(f"urem i64 {self._item}, {group}")
        begins = self._builder.assign(f"icmp eq i64 {place}, 0")
        return Value(self._builder.assign(f"or i1 {is_first}, {begins}"), BOOL)

    # Loops -----------------------------------------------------------------------------------------------------------

    def items(self, node: Items, place: _Place) -> None:
        counts = node.counts

        def item(number: str) -> None:
            with self._evaluator.scope():
                here, parts, whole = place, dict[Axis, Bounds](), dict[Axis, int]()
                for cut, part in zip(node.cuts, decoded(self._builder, number, counts), strict=True):
                    axis, block = cut.axis, cut.block
                    if block is None:
                        point = part
                        if axis in parts:
                            point = self._builder.assign(f"add nsw i64 {parts[axis][0]}, {part}")
                        here = _moved(here, axis, point)
                        continue
                    size = whole.get(axis, axis.size)
                    parts[axis] = block_bounds(self._builder, part, block, size, parts.get(axis))
                    whole[axis] = block
                self._parts = {**self._parts, **parts}
                self._item, self._item_count, self._pooled = number, node.count, node.pool > 0
                self.body(node.body, here)

        write_items(self._builder, node, item, self._turn)

    def loop(self, node: Loop, place: _Place) -> None:
        carried = [(copy, variable) for copy in range(node.copies) for variable in node.carried]
        kept = self._evaluator.memory.around_sums() if _is_of_sums(node) else nullcontext()

        def step(position: str, values: list[Value]) -> list[Value]:
            self._set(carried, values)
            if node.unmoved is not None:
                self._locals[node.unmoved] = position
            with self._evaluator.scope():
                start = position if node.limit is None else smaller(self._builder, position, node.limit)
                self.body(node.body, _moved(place, node.axis, start))
            return [self._registers[copy][variable] for copy, variable in carried]

        first, last = self._integer(node.first, place), self._integer(node.last, place)
        before = [self._registers[copy][variable] for copy, variable in carried]
        with kept:
            self._set(carried, self._builder.loop(first, last, node.step, before, step))

    def _set(self, registers: Sequence[tuple[int, Variable]], values: Sequence[Value]) -> None:
        for (copy, variable), value in zip(registers, values, strict=True):
            self._registers.setdefault(copy, {})[variable] = value

    def points(self, node: Points, place: _Place) -> None:
        axis, count = node.axis, node.count
        if node.kind == "vector":
            self.body(node.body, place.each(lambda p: p._replace(vector=axis, lanes=count, active=node.active)))
        elif node.kind == "together":
            steps = [number * node.step for number in range(count)]
            points = tuple(_further(point, axis, step) for point in place.points for step in steps)
            self.body(node.body, _Place(points, place.copy))
        elif (leaf := leaf_of_bytes(node, self._evaluator.instructions)) is not None:
            self._evaluator.plan = leaf.plan
            bound = [self._with_registers(*one) for one in _unrolled(node, place)]
            write_bytes(self._evaluator, leaf.stores[0], bound, at_once=False)
        else:
            before = place.copy
            for number in range(count):
                here = tuple(_further(point, axis, number * node.step) for point in place.points)
                copy = place.copy * count + number
                self._take_over(node, before, copy)
                if number and _is_of_sums(node):
                    self._builder.reload()
                self.body(node.body, _Place(here, copy))
                before = copy
            self._take_over(node, before, place.copy)

    def _take_over(self, node: Points, before: int, copy: int) -> None:
        for variable, number in itertools.product(node.carried, range(node.copies)):
            known = self._registers[before * node.copies + number][variable]
            self._registers.setdefault(copy * node.copies + number, {})[variable] = known

    def at(self, node: At, place: _Place) -> None:
        position = node.position if isinstance(node.position, int) else self._integer(node.position, place)
        self.body(node.body, _moved(place, node.axis, position))

    def share(self, node: Share, _: _Place) -> None:
        self._locals[node.first], self._locals[node.last] = share(self._builder, node.count)

    def let(self, node: Let, place: _Place) -> None:
        self._locals[node.local] = self._integer(node.value, place)

    def branch(self, node: Branch, place: _Place) -> None:
        carried = [(copy, variable) for copy in range(node.copies) for variable in node.carried]

        def arm(body: Body) -> Callable[[], list[Value]]:
            def write() -> list[Value]:
                self._inside(body, place)
                return [self._registers[copy][variable] for copy, variable in carried]

            return write

        condition = self._condition(node.condition, place)
        self._set(carried, self._builder.branch(condition, arm(node.then), arm(node.otherwise)))

    # Expressions, registers and memory -------------------------------------------------------------------------------

    def leaf(self, node: Leaf, place: _Place) -> None:
        points = [self._with_registers(point, number) for number, point in place.numbered]
        if self._has_packs(node, points):
            write_bytes(self._evaluator, node.stores[0], points, at_once=True)
            return
        computed = []
        for point in points:
            values = [self._builder.spread(self._evaluator.value(e, point), point.lanes) for e in node.values]
            computed.append((values, [self._evaluator.value(store.value, point) for store in node.stores]))
        if node.written == "interleaved":
            self._interleaved(node, points, [stored for _, stored in computed])
            return
        if node.own is not None:
            self._own(node, node.own, place, [stored for _, stored in computed])
            return
        is_aligned = node.written == "past the caches"
        numbers = [number for number, _ in place.numbered]
        for number, point, (values, stored) in zip(numbers, points, computed, strict=True):
            for store, value in zip(node.stores, stored, strict=True):
                if store.margins is None:
                    self._evaluator.store(store.tensor, store.address, value, point, is_aligned)
                else:
                    write_rows(self._evaluator, store, store.margins, value, point)
            self._registers.setdefault(number, {}).update(zip(node.registers, values, strict=True))

    def _has_packs(self, node: Leaf, points: Sequence[Point]) -> bool:
        (first, *_) = points
        is_whole = first.active is None and first.mask is None and is_of_bytes(node, first.vector)
        return is_whole and has_packs(self._evaluator.instructions, first.lanes, len(points))

    def _own(self, node: Leaf, own: Condition, place: _Place, rows: Sequence[Sequence[Value]]) -> None:
        """What is not this thread's goes to memory of its own that nobody reads."""
        (point,), (values,) = place.points, rows
        is_own = self._condition(own, place)
        if self._elsewhere is None:
            self._elsewhere = self._builder.allocate("elsewhere", 8)
        for store, value in zip(node.stores, values, strict=True):
            there = self._evaluator.memory.pointer(self._evaluator.place(store.tensor, store.address, point))
            pointer = self._builder.assign(f"select i1 {is_own.text}, ptr {there}, ptr {self._elsewhere}")
            self._builder.line(f"store {value.typed}, ptr {pointer}, align {store.tensor.type.bits // 8}")

    def _with_registers(self, point: Point, number: int) -> Point:
        known = self._registers.get(number)
        return point.bound(tuple(known), tuple(known.values())) if known else point

    def accumulate(self, node: Accumulate, place: _Place) -> None:
        product, evaluator = node.product, self._evaluator
        multiply = evaluator.multiply_add if node.stays else self._builder.fused_multiply_add
        for number, point in place.numbered:
            if node.numbers is not None and number not in node.numbers:
                continue
            left, right = evaluator.value(product.left, point), evaluator.value(product.right, point)
            own = self._registers[number]
            if product.operation == "mul":
                own[node.register] = multiply(left, right, own[node.register])
            else:
                own[node.register] = evaluator.dot(product.operation, left, right, own[node.register])

    def turn(self, node: Turn, place: _Place) -> None:
        rows = [self._registers[place.copy + n * node.stride][node.source] for n in range(node.rows)]
        for lane, column in enumerate(turned(self._builder, rows)):
            self._registers.setdefault(place.copy * node.lanes + lane, {})[node.target] = column

    def tiles(self, node: Tiles, place: _Place) -> None:
        memory = self._builder.allocate(self._builder.fresh("tiles"), CONFIGURATION_BYTES)
        write_configuration(self._builder, memory, node.sizes)
        self.body(node.body, place)
        write_release(self._builder)

    def sum_in_tiles(self, node: SumInTiles, place: _Place) -> None:
        (point,) = place.points
        write_sum_in_tiles(node, self._builder, self._evaluator, point)

    def prefetch(self, node: Prefetch, place: _Place) -> None:
        for point in place.points:
            there = self._evaluator.place(node.tensor, node.address, point)
            self._evaluator.memory.prefetch(there, is_stored=node.is_stored, cache=node.cache)

    def _interleaved(self, node: Leaf, points: Sequence[Point], rows: Sequence[Sequence[Value]]) -> None:
        """The vectors of all points of each store as one, from where the first of them begins."""
        for store, column in zip(node.stores, zip(*rows, strict=True), strict=True):
            joined = self._builder.interleaved([self._builder.spread(v, points[0].lanes) for v in column])
            self._evaluator.memory.store(self._evaluator.place(store.tensor, store.address, points[0]), joined)

    def reduce(self, node: Reduce, place: _Place) -> None:
        self._evaluator.reduce(node.plan.ahead, place.points)

    def transpose(self, node: Transpose, place: _Place) -> None:
        self._evaluator.transpose_loads(node.loads, node.axis, place.points)

    def recall(self, node: Recall, place: _Place) -> None:
        (point,) = place.points
        for variable, address in zip(node.registers, self._addresses(node, place), strict=True):
            kind, size = vector_type(variable.type, point.lanes), max(variable.type.bits, 8) // 8
            text = self._builder.assign(f"load {kind}, ptr {address}, align {size}")
            self._registers.setdefault(place.copy, {})[variable] = Value(text, variable.type, point.lanes)

    def keep(self, node: Keep, place: _Place) -> None:
        for variable, address in zip(node.registers, self._addresses(node, place), strict=True):
            value = self._registers[place.copy][variable]
            self._builder.line(f"store {value.typed}, ptr {address}, align {max(variable.type.bits, 8) // 8}")

    def _addresses(self, node: Recall | Keep, place: _Place) -> Sequence[str]:
        """Where each memory has what belongs to the point."""
        (point,) = place.points
        position, origin = point.positions[node.axis].name, self._integer(node.origin, place)
        number = self._builder.assign(f"sub nsw i64 {position}, {origin}")
        kinds = [(vector_type(memory.type, 1), self._areas[memory]) for memory in node.memories]
        return [self._builder.assign(f"getelementptr {kind}, ptr {area}, i64 {number}") for kind, area in kinds]

    # Stages ----------------------------------------------------------------------------------------------------------

    def stage(self, node: Stage, place: _Place) -> None:
        origin = place
        for axis, position in node.origin:
            origin = _moved(origin, axis, position if isinstance(position, int) else self._integer(position, place))
        (point,) = origin.points
        with self._evaluator.memory.elsewhere(self._stages.begin(node.areas, point)):
            self.body(node.body, place)

    def flush(self, node: Flush, place: _Place) -> None:
        self._stages.flush(node, lambda e: self._integer(e, place))

    # Candidates of orders -------------------------------------------------------------------------------------------

    def _order(self, candidates: Candidates) -> OrderWriter:
        if candidates not in self._orders:
            self._orders[candidates] = OrderWriter(candidates, self._builder, self._evaluator)
        return self._orders[candidates]

    def fill(self, node: Fill, place: _Place) -> None:
        (point,) = place.points
        self._order(node.candidates).fill(node.key, point, _name(point, node.axis))

    def gather(self, node: Gather, place: _Place) -> None:
        (point,) = place.points
        own = self._registers[place.copy]
        state = [own[variable] for variable in node.registers]
        found = self._order(node.candidates).gather(node.key, point, _name(point, node.axis), state)
        own.update(zip(node.registers, found, strict=True))

    def sort(self, node: Sort, place: _Place) -> None:
        order, count = self._order(node.candidates), self._integer(node.count, place)
        if not node.registers:
            order.sort(count)
            return
        self._registers.setdefault(place.copy, {}).update(zip(node.registers, order.sorted(count), strict=True))

    def pick(self, node: Pick, place: _Place) -> None:
        (point,) = place.points
        found = self._order(node.candidates).pick(_name(point, node.axis))
        self._registers.setdefault(place.copy, {})[node.register] = found

    def fence(self, _: Fence, __: _Place) -> None:
        self._builder.line("fence seq_cst")  # stores past the caches are not ordered by anything weaker


def _name(point: Point, axis: Axis) -> str:
    """Where an axis stands at the beginning of a step of its loop."""
    name, _ = point.positions[axis]
    assert name is not None
    return name


_EVALUATING: Final = (Leaf, Reduce, Transpose, Accumulate, Prefetch, Branch, Let, Fill, Gather)
"""The nodes that evaluate expressions, and have a plan of these."""

_ARITHMETIC: Final = {Sum: "add", Difference: "sub", Product: "mul"}


def _moved(place: _Place, axis: Axis, position: str | int) -> _Place:
    """All points with an axis somewhere else."""
    if isinstance(position, int):
        return place.each(lambda point: point.at(axis, None, position))
    return place.each(lambda point: point.at(axis, position))


def _unrolled(node: Points, place: _Place) -> Iterator[tuple[Point, int]]:
    """All points of unrolled ones, and the numbers of their registers."""
    if node.kind == "vector":
        yield from ((p._replace(vector=node.axis, lanes=node.count), n) for n, p in place.numbered)
        return
    for number in range(node.count):
        here = tuple(_further(point, node.axis, number * node.step) for point in place.points)
        for inner in node.body:
            assert isinstance(inner, Points)
            yield from _unrolled(inner, _Place(here, place.copy * node.count + number))


def _is_of_sums(node: Loop | Points) -> bool:
    """Whether the steps of one are those of sums of products in registers."""
    return bool(node.carried) and any(isinstance(inner, Accumulate) for inner in nodes_of(node.body))


def _further(point: Point, axis: Axis, distance: int) -> Point:
    """A point so much further along an axis."""
    name, constant = point.positions[axis]
    return point.at(axis, name, constant + distance)


_WRITE: Final[dict[type[Node], Callable[[_NestWriter, Any, _Place], None]]] = {
    Items: _NestWriter.items,
    Loop: _NestWriter.loop,
    Points: _NestWriter.points,
    At: _NestWriter.at,
    Share: _NestWriter.share,
    Let: _NestWriter.let,
    Block: _NestWriter.block,
    Branch: _NestWriter.branch,
    Leaf: _NestWriter.leaf,
    Reduce: _NestWriter.reduce,
    Transpose: _NestWriter.transpose,
    Keeping: _NestWriter.keeping,
    Accumulate: _NestWriter.accumulate,
    Turn: _NestWriter.turn,
    Tiles: _NestWriter.tiles,
    SumInTiles: _NestWriter.sum_in_tiles,
    Prefetch: _NestWriter.prefetch,
    Recall: _NestWriter.recall,
    Keep: _NestWriter.keep,
    Stage: _NestWriter.stage,
    Flush: _NestWriter.flush,
    Fill: _NestWriter.fill,
    Gather: _NestWriter.gather,
    Sort: _NestWriter.sort,
    Pick: _NestWriter.pick,
    Fence: _NestWriter.fence,
}
