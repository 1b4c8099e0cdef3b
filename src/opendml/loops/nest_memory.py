"""Memory while a nest is run with NumPy: tensors as rows of elements, checked, and who has written what."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opendml.expression.affine import Element
from opendml.expression.interpreter import NUMPY_TYPES, REMAINS, Array, StrayAccessError
from opendml.expression.ir import Expression, Load, Tensor
from opendml.expression.rewriting import Rewriter
from opendml.loops.instructions import Instruction

Storage = dict[Tensor, Array]


class RaceError(AssertionError):
    """Two threads wrote different values to one element; always a defect of the schedule."""


class Staged(NamedTuple):
    """Where the elements of a tensor are meanwhile: the one at address ``origin`` at place ``begin`` of ``memory``; it
    belongs to ``target`` of the tensor."""

    memory: Array
    begin: int
    origin: int
    target: int


class TensorMemory:
    """Tensors as rows of elements, loads from them by address, and who has written what."""

    def __init__(self, storage: Storage) -> None:
        self._flat: dict[Tensor, Tensor] = {}
        self._given = dict(storage)
        self._own: set[Tensor] = set()
        self.storage: Storage = {}
        self._writers: dict[int, tuple[int, bytes]] = {}  # by the place in the memory of this process
        self.writer = 0  # the thread that is at it
        self.by_place = Rewriter(read=self._read)

    def flat(self, tensor: Tensor) -> Tensor:
        """The tensor as a row of its elements."""
        if tensor not in self._flat:
            row = Tensor(tensor.name, tensor.type, (tensor.extent,), (1,), tensor.role)
            self._flat[tensor] = row
            self.storage[row] = self._given[tensor]
        return self._flat[tensor]

    def own(self, tensor: Tensor) -> None:
        """Memory of a thread for a tensor, with remains in it."""
        size = tensor.extent * max(tensor.type.bits, 8) // 8
        self.hold(tensor, np.full(size, REMAINS, np.uint8).view(NUMPY_TYPES[tensor.type.name]))

    def hold(self, tensor: Tensor, buffer: Array) -> None:
        """A thread has a buffer for a tensor alone."""
        self._own.add(tensor)
        self._given[tensor] = buffer
        if tensor in self._flat:
            self.storage[self._flat[tensor]] = buffer

    def meet(self) -> None:
        """The threads have met: what is written from now on is no conflict with what was written before."""
        self._writers = {}

    def address(self, tensor: Tensor, place: int) -> int:
        """Where an element is in the memory of this process."""
        buffer = self.storage[self.flat(tensor)]
        return int(buffer.ctypes.data) + place * buffer.itemsize

    def _read(self, _: Expression, e: Expression) -> Expression:
        return Load(self.flat(e.tensor), (e.address.as_expression(),)) if isinstance(e, Element) else e

    def write(
        self,
        tensor: Tensor,
        places: Array,
        values: Array,
        active: Array | None = None,
        instruction: Instruction | None = None,
    ) -> None:
        """Values to places in order, those of the ``active`` points; by an instruction, if there is one."""
        buffer = self.storage[self.flat(tensor)]
        stored = places if active is None else places[active]
        if stored.size and (int(stored.min()) < 0 or int(stored.max()) >= min(tensor.extent, buffer.size)):
            raise StrayAccessError(f"{tensor.name}: a store outside of its {tensor.extent} elements")
        if tensor not in self._own:
            self._check_writers(tensor, stored, values if active is None else values[active])
        write(buffer, places, values, active, instruction)

    def _check_writers(self, tensor: Tensor, places: Array, values: Array) -> None:
        start, size, thread = self.address(tensor, 0), values.itemsize, self.writer
        for place, value in zip(places.tolist(), values, strict=True):
            bits = value.tobytes() if value == value else b"NaN"  # any NaN is as good as another
            there = start + place * size
            writer, before = self._writers.setdefault(there, (thread, bits))
            if writer != thread and before != bits:
                raise RaceError(f"{tensor.name}: element {place} is written by two threads")
            self._writers[there] = (thread, bits)


def write(
    buffer: Array, places: Array, values: Array, active: Array | None = None, instruction: Instruction | None = None
) -> None:
    """Values to places of a row of elements, as ``TensorMemory.write``, without its checks."""
    if instruction is not None:
        instruction.body(buffer, places, np.True_ if active is None else active, values)
        return
    if active is not None:
        places, values = places[active], values[active]
    for place, value in zip(places.tolist(), values, strict=True):
        buffer[place] = value
