"""What the values of a kernel consist of, as schedules ask it: folds, loads, operations."""

from __future__ import annotations

from collections.abc import Sequence

from opendml.expression.affine import Dependencies, Element, loads_of
from opendml.expression.ir import Binary, Cast, Expression, Fold, FusedMultiplyAdd, Part, Select, Tensor, Unary
from opendml.expression.rewriting import walk
from opendml.llvm.host import Machine
from opendml.targets.cpu.kernels import ComputeKernel
from opendml.targets.cpu.tuning import Tuning


def all_folds(kernel: ComputeKernel) -> list[Fold]:
    """All folds, those within others too."""
    return [e for store in kernel.stores for e in walk(store.value) if isinstance(e, Fold)]


def folds_along_vector(kernel: ComputeKernel) -> list[Fold]:
    """The folds that differ along the vector axis; the others are computed once before it begins."""
    folds = all_folds(kernel)
    if kernel.vector is None or not folds:
        return folds
    dependencies = Dependencies()
    return [fold for fold in folds if kernel.vector in dependencies.of(fold)]


def elements_of(kernel: ComputeKernel) -> list[Element]:
    """All loads."""
    return loads_of(*(store.value for store in kernel.stores))


def scattered_by(fold: Fold, tuning: Tuning) -> set[Tensor]:
    """The tensors of which the steps of a fold read places far from one another."""
    return {e.tensor for e in loads_of(fold) if _spread(e, fold) * e.type.bits // 8 > tuning.window_bytes}


def _spread(e: Element, fold: Fold) -> int:
    """How many elements lie between those of the first and the last step of a fold, but for one along a vector."""
    axes = fold.axes[:-1] if fold.partials > 1 else fold.axes
    return sum(abs(e.address.coefficient(axis)) * (axis.size - 1) for axis in axes)


def is_part(e: Expression) -> bool:
    """Whether ``e`` is what a fold gives: what is inside of it is computed elsewhere."""
    return isinstance(e, Part)


def work_of_operation(e: Expression, tuning: Tuning) -> int:
    """What an operation counts as: 0 where ``e`` is none."""
    if not isinstance(e, Unary | Binary | Select | Cast | FusedMultiplyAdd):
        return 0
    is_slow = isinstance(e, Unary | Binary) and e.operation in ("div", "rem", "sqrt")
    return tuning.slow_operation if is_slow else 1


def work_of_values(values: Sequence[Expression], tuning: Tuning) -> int:
    """What the operations of values count as, but for those of folds."""
    operations = {e for value in values for e in walk(value, is_part)}
    return sum(work_of_operation(e, tuning) for e in operations)


def sums_side_by_side(fold: Fold, machine: Machine, tuning: Tuning) -> int:
    """How many sums whose partial results are lanes are done together, where all of them load the same row, too: half
    of the registers hold them."""
    registers = -(-fold.partials * fold.type.bits // 8 // machine.vector_bytes)
    return power_below(min(tuning.rows_side_by_side, machine.vector_registers // 2 // registers))


def power_below(number: int) -> int:
    """The largest power of two up to ``number``, and 1 below it."""
    return 1 << (max(number, 1).bit_length() - 1)
