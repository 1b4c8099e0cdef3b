"""Sequences of kernels run with NumPy, each kernel as its nest: what a program does from barrier to barrier.

Between two barriers threads go one after the other, in any order: what comes out must not depend on it. Temporaries lie
where the memory plan has them, whatever else lies there. Stray accesses are seen, and so are conflicts: two threads
that write different values to one place between two barriers, in one kernel or in several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opendml.expression.interpreter import NUMPY_TYPES, REMAINS, Array
from opendml.expression.ir import Axis, Tensor
from opendml.loops.nest import Nest
from opendml.loops.nest_interpreter import run_thread
from opendml.loops.nest_memory import Storage, TensorMemory
from opendml.loops.sequence import Barrier, Call, KernelSequence, Loop, Points, Run, Step

NestOf = Callable[[Call[Any]], Nest]
"""The nest of a call's kernel, over the tensors of the call's own statement."""

Positions = Mapping[Axis, int]


def run_sequence(
    sequence: KernelSequence[Any], buffers: Mapping[Tensor, Array], nest_of: NestOf, order: Sequence[int] = (0,)
) -> None:
    """Run a sequence by as many threads as ``order`` has numbers, which go in that order between any two barriers, on
    flat buffers, one for each of the sequence's slots."""
    memory = TensorMemory(_storage(sequence, buffers))
    threads = [_Thread(sequence, memory, nest_of, number, len(order)).steps(sequence.steps, {}) for number in order]
    with np.errstate(all="ignore"):
        while True:
            arrived = [next(thread, None) for thread in threads]
            if arrived[0] is None:
                assert not any(arrived), "threads meet at different barriers"
                return
            assert all(arrived), "threads meet at different barriers"
            memory.meet()


def _storage(sequence: KernelSequence[Any], buffers: Mapping[Tensor, Array]) -> Storage:
    """Slots as they are given, and temporaries in one memory, with remains in it."""
    plan = sequence.memory
    shared = np.full(plan.size, REMAINS, np.uint8)
    rows = {tensor: buffers[tensor].view(np.uint8) for tensor in sequence.slots}
    rows |= {tensor: shared[start:] for tensor, start in plan.offsets.items() if tensor not in sequence.own}
    rows |= {view: rows[root] for view, root in sequence.views.items() if root in rows}
    return {tensor: _elements(row, tensor) for tensor, row in rows.items()}


def _elements(row: Array, tensor: Tensor) -> Array:
    """Bytes as elements of a tensor: as many as it has and there are."""
    dtype = NUMPY_TYPES[tensor.type.name]
    count = min(tensor.extent, row.size // dtype.itemsize)
    elements: Array = row[: count * dtype.itemsize].view(dtype)
    return elements


class _Thread:
    """One thread on its way through a sequence."""

    def __init__(
        self, sequence: KernelSequence[Any], memory: TensorMemory, nest_of: NestOf, number: int, count: int
    ) -> None:
        self._sequence = sequence
        self._memory = memory
        self._nest_of = nest_of
        self._number = number
        self._count = count

    def steps(self, steps: Sequence[Step[Any]], positions: Positions) -> Iterator[Barrier]:
        """All steps up to the end, from barrier to barrier."""
        for step in steps:
            if isinstance(step, Barrier):
                yield step
            elif isinstance(step, Loop):
                for i in range(step.axis.size):
                    yield from self.steps(step.steps, {**positions, step.axis: i})
            elif isinstance(step, Points):
                self._points(step, positions)
            else:
                for call in step.calls if isinstance(step, Run) else (step,):
                    number = (self._number + call.turn) % self._count
                    self._run(call, positions, number, self._count)

    def _points(self, points: Points[Any], positions: Positions) -> None:
        """This thread's share of the points, from the last one to the first: at each of them it is alone, with remains
        in what it has alone."""
        sizes = [axis.size for axis in points.axes]
        count = math.prod(sizes)
        first, last = (n * count // self._count for n in (self._number, self._number + 1))
        for number in reversed(range(first, last)):
            for tensor, _ in points.own:
                self._hold(tensor)
            place = [int(i) for i in np.unravel_index(number, sizes)] if sizes else []
            here = {**positions, **dict(zip(points.axes, place, strict=True))}
            for call in points.calls:
                self._run(call, here, 0, 1)

    def _run(self, call: Call[Any], positions: Positions, number: int, count: int) -> None:
        """As one of so many threads, whichever it is."""
        self._memory.writer = self._number
        run_thread(self._nest_of(call), self._memory, positions, number, count)

    def _hold(self, tensor: Tensor) -> None:
        """Memory of this thread's own for a tensor, and the views of it."""
        seen = [tensor, *(view for view, root in self._sequence.views.items() if root is tensor)]
        size = max(t.extent * NUMPY_TYPES[t.type.name].itemsize for t in seen)
        row = np.full(size, REMAINS, np.uint8)
        for each in seen:
            self._memory.hold(each, _elements(row, each))
