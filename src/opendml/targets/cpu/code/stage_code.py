"""Stages: where the stores of a nest go meanwhile, and their way from there in long runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opendml.expression.element_types import U8, U16, U32, U64
from opendml.expression.ir import Tensor
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value, vector_type
from opendml.loops.nest import Area, Flush, Memory, Run
from opendml.loops.nest_integers import Integer
from opendml.targets.cpu.code.evaluation import Evaluator
from opendml.targets.cpu.code.point import Point
from opendml.targets.cpu.code.work_items import smaller
from opendml.targets.cpu.instructions.moves import write_stream

UNSIGNED_OF_SIZE: Final = {1: U8, 2: U16, 4: U32, 8: U64}


class StageWriter:
    """Writes what Stage and Flush of a nest say."""

    def __init__(self, builder: Builder, evaluator: Evaluator, memories: Mapping[Memory, str]) -> None:
        self._builder = builder
        self._evaluator = evaluator
        self._memories = memories
        self._ends: dict[Area, tuple[str, str]] = {}

    def begin(self, areas: Sequence[Area], origin: Point) -> dict[Tensor, str]:
        """Where tensors begin while their elements from ``origin`` on are computed in ``areas``."""
        evaluator = self._evaluator
        places = [evaluator.place(area.tensor, area.target, origin) for area in areas]
        targets = [evaluator.memory.pointer(place) for place in places]
        sources = [self._beginning(area, target) for area, target in zip(areas, targets, strict=True)]
        self._ends = dict(zip(areas, zip(sources, targets, strict=True), strict=True))
        return {area.tensor: self._moved(area, origin, source) for area, source in zip(areas, sources, strict=True)}

    def _beginning(self, area: Area, target: str) -> str:
        """Where the block begins in its area: as far behind a line as in the output."""
        address = self._builder.assign(f"ptrtoint ptr {target} to i64")
        behind = self._builder.assign(f"and i64 {address}, {area.alignment - 1}")
        place = self._builder.assign(f"add nsw i64 {behind}, {area.slack}")
        return self._builder.assign(f"getelementptr i8, ptr {self._memories[area.memory]}, i64 {place}")

    def _moved(self, area: Area, origin: Point, source: str) -> str:
        """Where the tensor would begin if ``source`` were its element at ``origin``."""
        index = self._evaluator.index(area.address, origin).text
        back = self._builder.assign(f"sub nsw i64 0, {index}")
        return self._builder.assign(f"getelementptr {vector_type(area.tensor.type, 1)}, ptr {source}, i64 {back}")

    def flush(self, node: Flush, integer: Callable[[Integer], str]) -> None:
        """A block from the stage to the output."""

        def groups(runs: Sequence[Run], source: str, target: str) -> None:
            if runs:
                self._each(runs[0], node.area, (source, target), integer, lambda a, b: groups(runs[1:], a, b))
            else:
                self._run(node.area, source, target, integer(node.length))

        groups(node.runs, *self._ends[node.area])

    def _each(
        self,
        run: Run,
        area: Area,
        pointers: tuple[str, str],
        integer: Callable[[Integer], str],
        body: Callable[[str, str], None],
    ) -> None:
        """``body`` for places that lie so many elements apart in the stage and in the output."""
        size = area.tensor.type.bits // 8

        def one(position: str, _: list[Value]) -> list[Value]:
            pitches = (run.pitch, run.target_pitch)
            offsets = [self._builder.assign(f"mul nsw i64 {position}, {pitch * size}") for pitch in pitches]
            pairs = zip(pointers, offsets, strict=True)
            source, target = (self._builder.assign(f"getelementptr i8, ptr {p}, i64 {offset}") for p, offset in pairs)
            body(source, target)
            return []

        self._builder.loop("0", integer(run.count), 1, [], one)

    def _run(self, area: Area, source: str, target: str, count: str) -> None:
        """``count`` elements from one place to another, both as far behind a line."""
        builder, size = self._builder, area.tensor.type.bits // 8
        lanes = area.alignment // size
        address = builder.assign(f"ptrtoint ptr {target} to i64")
        gap = builder.assign(f"and i64 {builder.assign(f'sub i64 0, {address}')}, {area.alignment - 1}")
        start = smaller(builder, builder.assign(f"udiv i64 {gap}, {size}"), count)
        span = builder.assign(f"sub nsw i64 {count}, {start}")
        rest = builder.assign(f"srem i64 {span}, {lanes}")
        end = builder.assign(f"sub nsw i64 {count}, {rest}")
        self._copy(area, source, target, ("0", start), 1)
        self._copy(area, source, target, (start, end), lanes)
        self._copy(area, source, target, (end, count), 1)

    def _copy(self, area: Area, source: str, target: str, bounds: tuple[str, str], lanes: int) -> None:
        builder, size = self._builder, area.tensor.type.bits // 8
        type = UNSIGNED_OF_SIZE[size]  # bits are moved, whatever they mean
        element, kind = vector_type(type, 1), vector_type(type, lanes)

        def body(position: str, _: list[Value]) -> list[Value]:
            places = [builder.assign(f"getelementptr {element}, ptr {p}, i64 {position}") for p in (source, target)]
            value = builder.assign(f"load {kind}, ptr {places[0]}, align {area.alignment if lanes > 1 else size}")
            if lanes > 1:
                write_stream(builder, Value(value, type, lanes), places[1], area.alignment)
            else:
                builder.line(f"store {kind} {value}, ptr {places[1]}, align {size}")
            return []

        builder.loop(*bounds, lanes, [], body)
