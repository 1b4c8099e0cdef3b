"""Whether sums of products of words may be done in a processor's tile registers, and how."""

from __future__ import annotations

from dataclasses import dataclass

from opendml.expression.affine import Element
from opendml.expression.element_types import I32
from opendml.expression.ir import Axis, Binary, Const
from opendml.targets.cpu.contractions.problem import Problem
from opendml.targets.cpu.instructions.machine import machine_instructions
from opendml.targets.cpu.instructions.tiles import WORDS, Operation


@dataclass(frozen=True, slots=True)
class MatrixSteps:
    """``operation`` takes ``depth`` words along ``axis``, an axis of the fold, at a time."""

    operation: Operation
    axis: Axis
    depth: int


def matrix_steps(problem: Problem, side: int, row: Axis) -> MatrixSteps | None:
    """How the products of words are done of which factor number ``side`` goes along the columns and the other one along
    ``row``: that one must be a run of memory along some axis of the fold. None: not at all."""
    fold, target, rows = problem.fold, problem.target, problem.elements[1 - side]
    operation: Operation = "tiles of unsigned rows" if side == 1 else "tiles of signed rows"  # dot4's left one is
    instruction = machine_instructions(target.machine).find(operation, I32)
    product = fold.elements[0]
    is_words = (
        isinstance(product, Binary) and product.operation == "dot4" and isinstance(problem.factors[side], Element)
    )
    starts_at_zero = isinstance(fold.initial[0], Const) and not fold.initial[0].bits
    if instruction is None or not is_words or not starts_at_zero or not _is_word(problem, 1 - side):
        return None
    address = rows[0].address
    if address.coefficient(row) < 1:
        return None
    runs = (axis for axis in fold.axes if axis.size > 1 and address.coefficient(axis) == 1)
    axis = next(runs, None)
    depth = 0 if axis is None else next(n for n in range(WORDS, 0, -1) if axis.size % n == 0)
    return None if axis is None or depth < target.tuning.fewest_words else MatrixSteps(operation, axis, depth)


def _is_word(problem: Problem, side: int) -> bool:
    """Whether a factor is an element, or a word of four that are one in memory."""
    if isinstance(problem.factors[side], Element):
        return True
    word = problem.words[side]
    return word is not None and word.element is not None and word.first.safe
