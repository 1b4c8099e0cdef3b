"""Sums of products of words in tile registers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from opendml.expression.affine import Element
from opendml.expression.ir import Axis
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value
from opendml.loops.nest import SumInTiles
from opendml.targets.cpu.code.evaluation import Evaluator
from opendml.targets.cpu.code.memory import Place
from opendml.targets.cpu.code.point import Point
from opendml.targets.cpu.instructions.tiles import write_tile_load, write_tile_store, write_zero


def write_sum_in_tiles(node: SumInTiles, builder: Builder, evaluator: Evaluator, point: Point) -> None:
    """Zeros, loops over all axes of the sum with the products inside, and the sums to memory."""
    instruction = evaluator.instructions.find(node.operation, node.target.type)
    assert instruction is not None
    row_starts, column_starts = (_starts(parts) for parts in (node.rows, node.columns))
    pairs = list(itertools.product(range(len(node.rows)), range(len(node.columns))))

    def loaded(first: int, e: Element, axis: Axis, starts: Sequence[int], stride: int, here: Point) -> None:
        for number, start in enumerate(starts):
            name, constant = here.positions[axis]
            place = evaluator.place(e.tensor, e.address, here.at(axis, name, constant + start))
            write_tile_load(builder, first + number, evaluator.memory.pointer(place), stride * place.size)

    def step(axes: Sequence[Axis], here: Point) -> None:
        if not axes:
            loaded(4, node.by_rows, node.row, row_starts, node.by_rows.address.coefficient(node.row), here)
            between = node.by_columns.address.coefficient(node.step)
            loaded(6, node.by_columns, node.column, column_starts, between, here)
            for row, column in pairs:
                instruction.write(builder, 2 * row + column, 4 + row, 6 + column)
            return
        axis, *rest = axes

        def inside(position: str, _: list[Value]) -> list[Value]:
            with evaluator.scope():
                step(rest, here.at(axis, position))
            return []

        builder.loop("0", str(axis.size), node.depth if axis is node.step else 1, [], inside)

    for row, column in pairs:
        write_zero(builder, 2 * row + column)
    step(node.axes, point)
    for row, column in pairs:
        place = Place(node.target, None, row_starts[row] * node.pitch + column_starts[column])
        write_tile_store(builder, 2 * row + column, evaluator.memory.pointer(place), node.pitch * place.size)


def _starts(parts: Sequence[int]) -> list[int]:
    return [sum(parts[:number]) for number in range(len(parts))]
