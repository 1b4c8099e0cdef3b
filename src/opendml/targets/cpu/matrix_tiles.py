"""Whether sums of products of words may be done in a processor's tile registers, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opendml.expression.affine import Element
from opendml.expression.element_types import I32
from opendml.expression.ir import Axis, Binary, Const, Expression, Fold
from opendml.targets.cpu.instructions.machine import machine_instructions
from opendml.targets.cpu.instructions.tiles import WORDS, Operation
from opendml.targets.cpu.target import CpuTarget


@dataclass(frozen=True, slots=True)
class MatrixSteps:
    """``operation`` takes ``depth`` words along ``axis``, an axis of the fold, at a time."""

    operation: Operation
    axis: Axis
    depth: int


def matrix_steps(
    fold: Fold, factors: Sequence[Expression], side: int, row: Axis, target: CpuTarget
) -> MatrixSteps | None:
    """How the products of words are done of which factor number ``side`` goes along the columns and the other one along
    ``row``: that one must be a run of memory along some axis of the fold. None: not at all."""
    product, rows = fold.elements[0], factors[1 - side]
    operation: Operation = "tiles of unsigned rows" if side == 1 else "tiles of signed rows"  # dot4's left one is
    instruction = machine_instructions(target.machine).find(operation, I32)
    is_words = isinstance(product, Binary) and product.operation == "dot4"
    starts_at_zero = isinstance(fold.initial[0], Const) and not fold.initial[0].bits
    if instruction is None or not is_words or not starts_at_zero or not all(isinstance(e, Element) for e in factors):
        return None
    assert isinstance(rows, Element)
    if rows.address.coefficient(row) < 1:
        return None
    runs = (axis for axis in fold.axes if axis.size > 1 and rows.address.coefficient(axis) == 1)
    axis = next(runs, None)
    depth = 0 if axis is None else next(n for n in range(WORDS, 0, -1) if axis.size % n == 0)
    return None if axis is None or depth < target.tuning.fewest_words else MatrixSteps(operation, axis, depth)
