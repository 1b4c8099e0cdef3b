"""Where the sums of the tiles of a work item wait for one another in memory."""

from __future__ import annotations

import math
from collections.abc import Callable

from opendml.expression.affine import Affine, Element
from opendml.expression.ir import Axis, temporary
from opendml.loops.nest import At, Body
from opendml.loops.nest_integers import Difference, Integer, Local, Position, Product, Start, Sum
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.nests.tile_counts import TileCounts


class WaitingSums:
    """Memory for the sums of a work item, those of a tile's vectors next to one another. A tile that is moved back has
    a place of its own there, since sums that two tiles have in common are done by both: ``unmoved`` are the positions
    that tiles would have else."""

    def __init__(self, kernel: ContractionKernel) -> None:
        extents = {axis: size for axis, size in _extents(kernel).items() if size > 1}
        inner_first = sorted(extents, key=lambda axis: axis is not kernel.vector)
        self.unmoved = {axis: Local(f"unmoved_{axis.name}") for axis in extents}
        self.memory = temporary("sums", kernel.fold.type, (math.prod(extents.values()),))
        self._pitches = {
            axis: math.prod(extents[inner] for inner in inner_first[:number]) for number, axis in enumerate(inner_first)
        }

    def with_place(self, body: Callable[[TileCounts, Element], Body]) -> Callable[[TileCounts], Body]:
        """What is done with the sums of a tile, each of which has a place in memory."""

        def made(counts: TileCounts) -> Body:
            base, origin = Axis("sums_base", 1 << 40), list[Integer]()
            for axis, pitch in self._pitches.items():
                from_start = Difference(Difference(self.unmoved[axis], Start(axis)), Position(axis))
                origin.append(Product(from_start, pitch))
            total, *others = origin
            for other in others:
                total = Sum(total, other)
            place = Element(self.memory, Affine(((base, 1), *self._pitches.items()), 0), True)
            return (At(base, total, body(counts, place)),)

        return made


def _extents(kernel: ContractionKernel) -> dict[Axis, int]:
    """How many points of each axis a work item has, in whole tiles."""
    blocks, steps = dict(kernel.blocks), kernel.tile_steps
    if kernel.rest is not None and kernel.rest.row is not None:
        steps[kernel.rest.row] = kernel.rest.rows
    return {axis: -(-blocks.get(axis, axis.size) // step) * step for axis, step in steps.items()}
