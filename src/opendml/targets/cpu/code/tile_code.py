"""Sums of products of words in tile registers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from opendml.expression.affine import Element
from opendml.expression.ir import Axis, Expression
from opendml.llvm.builder import Builder
from opendml.llvm.values import Value
from opendml.loops.nest import SumInTiles
from opendml.targets.cpu.code.evaluation import Evaluator
from opendml.targets.cpu.code.memory import Place
from opendml.targets.cpu.code.point import Point
from opendml.targets.cpu.instructions.tiles import write_tile_load, write_tile_store, write_zero
from opendml.targets.cpu.words_in_memory import word_in_memory


def write_sum_in_tiles(node: SumInTiles, builder: Builder, evaluator: Evaluator, point: Point) -> None:
    """Zeros, loops over all axes of the sum with the products inside, and the sums to memory."""
    instruction = evaluator.instructions.find(node.operation, node.target.type)
    assert instruction is not None
    columns = [(node.column, sum(node.columns[:number])) for number in range(len(node.columns))]
    pairs = list(itertools.product(range(len(node.rows)), range(len(node.columns))))
    by_rows = _first_of(node.by_rows)

    def load(tile: int, e: Element, start: tuple[Axis, int], between: int, here: Point) -> None:
        axis, distance = start
        name, constant = here.positions[axis]
        place = evaluator.place(e.tensor, e.address, here.at(axis, name, constant + distance))
        write_tile_load(builder, tile, evaluator.memory.pointer(place), between * place.size)

    def products(here: Point) -> None:
        """All loads before the first product: between products they would wait for these to have read the registers,
        where two threads share a core or what is loaded comes from the second-level cache, a tenth of the time."""
        between = node.by_columns.address.coefficient(node.step)
        rows = [(4 + i, by_rows, start, by_rows.address.coefficient(node.row)) for i, start in enumerate(node.starts)]
        loads = [(6 + j, node.by_columns, start, between) for j, start in enumerate(columns)]
        for tile, e, start, apart in (rows[0], *loads, *rows[1:]):
            load(tile, e, start, apart, here)
        for row, column in pairs:
            instruction.write(builder, 2 * row + column, 4 + row, 6 + column)

    def step(axes: Sequence[Axis], here: Point) -> None:
        if not axes:
            products(here)
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
        place = Place(node.target, None, node.places[row] * node.pitch + columns[column][1])
        write_tile_store(builder, 2 * row + column, evaluator.memory.pointer(place), node.pitch * place.size)


def _first_of(word: Expression) -> Element:
    """A word, or the first of four bytes that are one in memory."""
    if isinstance(word, Element):
        return word
    found = word_in_memory(word)
    assert found is not None
    return found.first
