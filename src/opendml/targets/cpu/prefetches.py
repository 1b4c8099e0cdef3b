"""What kernels, but for contractions, ask memory for ahead of its use: lines of large tensors, which processors do not
ask for by themselves, or not soon enough."""

from __future__ import annotations

from collections.abc import Sequence

from opendml.expression.affine import Affine, Element, bytes_between, loads_of
from opendml.expression.ir import Axis, Expression, Fold, Tensor
from opendml.expression.rewriting import walk
from opendml.targets.cpu.kernel_parts import (
    all_folds,
    elements_of,
    folds_along_vector,
    is_part,
    scattered_by,
    work_of_operation,
)
from opendml.targets.cpu.kernels import ComputeKernel, ScatterKernel
from opendml.targets.cpu.tuning import Tuning


def prefetched(kernel: ComputeKernel, tuning: Tuning) -> dict[Tensor, int]:
    """The large tensors of which lines are asked for ahead of their use, and how many bytes further these lie.

    Of inputs that is along the rows, unless the steps of a fold read a little of many rows: then it is the next steps'
    rows.
    """
    folds = all_folds(kernel)
    if any(fold.contract for fold in folds):
        widened = dict.fromkeys(_runs_of_sums(kernel, folds, tuning), tuning.summed_prefetch_distance)
        return _strips_of_sums(kernel, folds, tuning) | widened
    distance = _distance(kernel, folds, tuning)
    reads = kernel.reads - {e.tensor for e in kernel.chosen_rows}
    far = {t for t in reads if distance and is_far(t, tuning)}
    if len(far) > tuning.runs_side_by_side and not folds:
        far = set()
    ahead = {t: distance for t in far if not _is_in_strips(kernel, t, distance)}
    ahead |= {t: rows for t in ahead if (rows := _rows_ahead(kernel, t, distance))}
    are_asked = kernel.stage is None and not kernel.streamed and (not folds or _stores_parts_of_rows(kernel))
    if tuning.stored_prefetch_distance and are_asked:
        ahead |= {s.tensor: tuning.stored_prefetch_distance for s in kernel.stores if is_far(s.tensor, tuning)}
    for fold in folds:
        for tensor in scattered_by(fold, tuning) & ahead.keys():
            moves = {e.address.coefficient(fold.axes[-1]) for e in loads_of(fold)}
            del ahead[tensor]
            steps = min(tuning.prefetch_steps, fold.axes[-1].size // tuning.prefetch_steps)
            if len(fold.axes) == 1 and len(moves) == 1 and 2 * steps >= tuning.prefetch_steps:
                ahead[tensor] = steps * moves.pop() * tensor.type.bits // 8
    return ahead


def next_rows(kernel: ComputeKernel, tuning: Tuning) -> dict[Fold, dict[Tensor, int]]:
    """The folds that ask for lines of tensors ahead by themselves, and how many bytes further these lie."""
    return _next_rows_of_a_fold(kernel, tuning) | _rows_ahead_of_sums(kernel, tuning)


def expected(kernel: ComputeKernel, tuning: Tuning) -> tuple[Element, ...]:
    """The loads along the vector axis from large tensors that something is made of with sums of products: they come
    while these are summed up, in which memory is at rest."""
    folds = all_folds(kernel)
    is_long = all(fold.contract and fold.partials == 1 and fold.steps >= tuning.hiding_steps for fold in folds)
    if kernel.vector is None or not folds or not is_long:
        return ()
    inside = set(loads_of(*folds))
    return tuple(
        e
        for e in dict.fromkeys(elements_of(kernel))
        if e not in inside and e.address.is_pure and e.address.coefficient(kernel.vector) == 1
        if is_far(e.tensor, tuning)
    )


def next_squares(rows: Axis, lanes: int, roots: Sequence[Expression], tuning: Tuning) -> dict[Tensor, int]:
    """The large tensors of which lines of the next rows are asked for, and how many bytes further these lie."""
    ahead = dict[Tensor, int]()
    for e in loads_of(*roots):
        if is_far(e.tensor, tuning):
            distance = lanes * bytes_between(e, rows)
            ahead[e.tensor] = distance if distance <= tuning.next_row_bytes else tuning.prefetch_distance
    return ahead


def rows_of_updates(kernel: ScatterKernel, tuning: Tuning) -> tuple[tuple[Element, int], ...]:
    """Of what a scatter reads along the last of its loops, parts of rows on pages of their own, and how many rows
    further those are that are asked for: as many as are a distance, if they were one run."""
    if len(kernel.loops) < 2 or kernel.loops[-1] in dict(kernel.blocks):
        return ()
    row, last = kernel.loops[-2:]
    loads = dict.fromkeys(loads_of(kernel.where, kernel.store.value))
    parts = {e: last.size * e.type.bits // 8 for e in loads if e.address.is_pure and e.address.coefficient(last) == 1}
    return tuple(
        (e, -(-tuning.prefetch_distance // part))
        for e, part in parts.items()
        if is_far(e.tensor, tuning) and part <= tuning.page_bytes <= bytes_between(e, row)
    )


def _distance(kernel: ComputeKernel, folds: Sequence[Fold], tuning: Tuning) -> int:
    """How many bytes ahead along the rows."""
    if kernel.stage is not None:
        return tuning.staged_prefetch_distance
    in_lanes = any(fold.partials > 1 for fold in folds)
    return tuning.folded_prefetch_distance if in_lanes else tuning.prefetch_distance


def _runs_of_sums(kernel: ComputeKernel, folds: Sequence[Fold], tuning: Tuning) -> set[Tensor]:
    """The large tensors that a sum of products goes through in one run, a row of panels at each step, and widens: what
    processors ask for by themselves is less than memory could bring by then, while whole lines of float32 keep it busy.
    """
    return {
        e.tensor
        for fold in folds
        for e in walk(fold)
        if isinstance(e, Element) and e.type.bits < fold.type.bits and is_far(e.tensor, tuning)
        if kernel.vector is not None and len(fold.axes) == 1
        if (e.address.coefficient(kernel.vector), e.address.coefficient(fold.axes[0])) == (1, kernel.vector.size)
    }


def _strips_of_sums(kernel: ComputeKernel, folds: Sequence[Fold], tuning: Tuning) -> dict[Tensor, int]:
    """The tensors that sums of products of points side by side go through in one run, a row of panels at each step, and
    whose strips the nearest cache does not keep until they are read again."""
    ahead = dict[Tensor, int]()
    if kernel.vector is None or kernel.tile is None:
        return ahead
    loads = [(e, fold.axes[0]) for fold in folds if len(fold.axes) == 1 for e in loads_of(fold)]
    for e, axis in loads:
        step = kernel.vector.size * e.type.bits // 8
        moves = (e.address.coefficient(kernel.vector), e.address.coefficient(axis))
        if moves == (1, kernel.vector.size) and step * axis.size > tuning.near_strip_bytes:
            ahead[e.tensor] = step * tuning.steps_ahead
    return ahead


def _rows_ahead_of_sums(kernel: ComputeKernel, tuning: Tuning) -> dict[Fold, dict[Tensor, int]]:
    """The sums of products whose neighbours are lanes, each of a row of a large tensor that begins where the one before
    ends. Such a run is all that a thread reads, and of one run processors ask for less by themselves than memory could
    bring; behind the last lane of a row they wait for its sum besides."""
    found = dict[Fold, dict[Tensor, int]]()
    axis = kernel.vector or next(reversed(kernel.outer), None)
    for fold in all_folds(kernel):
        if fold.contract and fold.partials > 1 and fold.type.is_float and len(fold.axes) == 1 and axis is not None:
            row = [(e, e.address.coefficient(axis), e.address.coefficient(fold.axes[0])) for e in loads_of(fold)]
            far = {e.tensor for e, *steps in row if steps == [fold.axes[0].size, 1] and is_far(e.tensor, tuning)}
            found[fold] = dict.fromkeys(far, tuning.row_prefetch_distance)
    return {fold: tensors for fold, tensors in found.items() if tensors}


def _next_rows_of_a_fold(kernel: ComputeKernel, tuning: Tuning) -> dict[Fold, dict[Tensor, int]]:
    """The fold of a row that computes most, and the large tensors of which it asks for the next row: memory is at work
    meanwhile, and what else goes through the row finds it in the second-level cache."""
    if kernel.vector is None or not kernel.shared or kernel.together:
        return {}
    row, outer = kernel.vector.size, kernel.shared[-1]
    folds = [f for f in all_folds(kernel) if f.partials > 1 and [a.size for a in f.axes] == [row] and f.where is None]
    parts = {fold: [e for element in fold.elements for e in walk(element, is_part)] for fold in folds}
    work = {fold: sum(work_of_operation(e, tuning) for e in found) for fold, found in parts.items()}
    fold = max(work, key=work.__getitem__, default=None)
    if fold is None or work[fold] < tuning.hiding_operations:
        return {}
    distances = dict[Tensor, int]()
    for e in parts[fold]:
        if isinstance(e, Element) and (e.address.coefficient(fold.axes[0]), e.address.coefficient(outer)) == (1, row):
            reaches = tuning.prefetch_distance <= row * e.type.bits // 8 <= tuning.next_row_bytes
            if reaches and is_far(e.tensor, tuning):
                distances[e.tensor] = row * e.type.bits // 8
    return {fold: distances} if distances else {}


def _is_in_strips(kernel: ComputeKernel, tensor: Tensor, distance: int) -> bool:
    """Whether squares of a tensor have rows further apart than ``distance`` bytes: those that come next lie elsewhere,
    and what is ahead in the rows is long out of the nearest cache when its turn comes."""
    if not kernel.transposed or kernel.vector is None:
        return False
    steps = (e.address.coefficient(kernel.vector) for e in elements_of(kernel) if e.tensor == tensor)
    return any(abs(step) * tensor.type.bits // 8 > distance for step in steps)


def _rows_ahead(kernel: ComputeKernel, tensor: Tensor, distance: int) -> int:
    """Bytes to the row which comes next where short parts of rows that are far apart are read, or no more than half of
    what lies in a run, as far on as if the parts were one run: ``distance`` bytes ahead, or a part of them, is what
    nobody reads. 0: they are no such parts."""
    vector, size = kernel.vector, tensor.type.bits // 8
    if vector is None or kernel.tile is not None or folds_along_vector(kernel) or 2 * vector.size * size > distance:
        return 0
    places = {e.address for e in elements_of(kernel) if e.tensor == tensor}
    rows = {_row_apart(kernel, place) * size for place in places}
    steps, row = {place.coefficient(vector) for place in places}, min(rows - {0}, default=0)
    run = vector.size * max(map(abs, steps), default=0) * size
    is_far, has_gaps = row > distance and steps == {1}, 0 < 2 * run <= row and not all_folds(kernel)
    return -(-distance // run) * row if is_far or has_gaps else 0


def _stores_parts_of_rows(kernel: ComputeKernel) -> bool:
    """Whether no more than half of what lies in a run is stored, as some of the channels of each point, of which
    processors do not see by themselves which lines come next."""
    vector = kernel.vector
    return vector is not None and all(
        s.address.coefficient(vector) == 1 and 2 * vector.size <= _row_apart(kernel, s.address) for s in kernel.stores
    )


def _row_apart(kernel: ComputeKernel, place: Affine) -> int:
    """Elements from a row to the one that a kernel goes through next; 0: there is none."""
    steps = (abs(place.coefficient(axis)) for axis in reversed(kernel.outer) if axis.size > 1)
    return next((step for step in steps if step), 0)


def is_far(tensor: Tensor, tuning: Tuning) -> bool:
    """Whether a tensor does not stay in a cache."""
    return tensor.extent * tensor.type.bits // 8 >= tuning.prefetched_bytes
