"""Folds over rows that are far apart, as nests.

A vector or two of every row is little of a page, and processors read ahead in none of them. So all points of a work
item do some steps before the next ones: the runs of a few rows are read side by side, and what the folds have come to
waits in memory of the thread's own. Every fold has its steps in the order of its definition.
"""

from __future__ import annotations

from opendml.expression.ir import Axis, Expression, Fold, Part, Variable
from opendml.expression.rewriting import substitute
from opendml.loops.nest import Body, Cut, Keep, Leaf, Loop, Memory, Nest, Points, Recall
from opendml.loops.nest_integers import Start
from opendml.targets.cpu.kernel_parts import all_folds
from opendml.targets.cpu.kernels import ComputeKernel
from opendml.targets.cpu.nests.chunks import chunks
from opendml.targets.cpu.nests.making import rewritten
from opendml.targets.cpu.nests.sharing import shared_items
from opendml.targets.cpu.tuning import Tuning


def waiting_folds_nest(kernel: ComputeKernel, work: int, tuning: Tuning) -> Nest:
    """Work items of a block of the vector axis, at one point of every other one."""
    vector, block = kernel.vector, kernel.vector_block
    assert vector is not None and block is not None
    folds = list(dict.fromkeys(all_folds(kernel)))
    states = {fold: _state(fold, number) for number, fold in enumerate(folds)}
    registers = tuple(variable for state in states.values() for variable in state)
    memories = tuple(Memory("state", variable.type, block) for variable in registers)
    place = (registers, memories, vector, Start(vector))
    results: dict[Expression, Expression] = {
        Part(fold, number): variable for fold, state in states.items() for number, variable in enumerate(state)
    }
    initial = tuple(e for fold in folds for e in fold.initial)
    step = Leaf(registers=registers, values=tuple(e for fold in folds for e in _joined(fold, states[fold])))
    parts: list[Body] = [
        (Leaf(registers=registers, values=initial), Keep(*place)),
        (Recall(*place), Leaf(rewritten(kernel.stores, substitute(results)))),
    ]
    begin, end = (chunks(vector, kernel.lanes, part) for part in parts)
    body: Body = (*begin, *_steps(kernel, vector, folds[0].axes[0], step, place), *end)
    for axis in reversed(kernel.inner):
        body = (Loop(axis, 0, axis.size, 1, body),)
    cuts = [*map(Cut, kernel.shared), Cut(vector, block)]
    return Nest((shared_items(cuts, body, kernel, work, tuning),), memories)


def _steps(
    kernel: ComputeKernel,
    vector: Axis,
    along: Axis,
    step: Leaf,
    place: tuple[tuple[Variable, ...], tuple[Memory, ...], Axis, Start],
) -> Body:
    """Some steps of all points, then the next ones; one by one those that are left."""
    count, recall, keep = kernel.steps_at_once, Recall(*place), Keep(*place)
    several = Points(along, count, "unrolled", (step,), carried=step.registers)
    whole = along.size - along.size % count
    loops = (
        Loop(along, 0, whole, count, chunks(vector, kernel.lanes, (recall, several, keep))),
        Loop(along, whole, along.size, 1, chunks(vector, kernel.lanes, (recall, step, keep))),
    )
    return loops if whole < along.size else loops[:1]


def _state(fold: Fold, number: int) -> tuple[Variable, ...]:
    return tuple(Variable(f"fold{number}_{n}", e.type) for n, e in enumerate(fold.elements))


def _joined(fold: Fold, state: tuple[Variable, ...]) -> tuple[Expression, ...]:
    """The fold's state behind one more step."""
    combine = fold.combine
    pairs = zip((*combine.left, *combine.right), (*state, *fold.elements), strict=True)
    rewrite = substitute(dict(pairs))
    return tuple(map(rewrite, combine.result))
