"""The reference device: programs that NumPy interprets, for whoever wants a second opinion on compiled ones.

An interpreted program takes and gives what a compiled one does, bit for bit, and shares no stage of the compiler with
it: its statements are the operators' definitions, as they were written, evaluated point by point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from opendml.description.enums import ExecutionFlags
from opendml.expression.interpreter import interpret, logical_view, memory_of
from opendml.expression.statements import Definition
from opendml.programs.binding import Binding
from opendml.programs.program import Program

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator
    from opendml.targets.interface import ArrayLayouts, Buffer

Array = npt.NDArray[Any]


class InterpretedExecutable:
    """A definition in place of code; always one thread."""

    thread_count = 1
    least_temporary_size = 0

    def __init__(self, definition: Definition) -> None:
        self._definition = definition

    @property
    def temporary_size(self) -> int:
        """Bytes of the copies that a run makes of its tensors, and of the tensors in between."""
        definition = self._definition
        tensors = [*definition.inputs, *definition.outputs, *definition.temporaries]
        return sum(tensor.extent * tensor.type.bits // 8 for tensor in tensors if tensor is not None)

    def with_thread_count(self, thread_count: int) -> InterpretedExecutable:
        """The same; the interpreter is one thread whatever is asked for."""
        return self

    def resident(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """They are where they are read."""
        return buffers

    def dispatch(self, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer | None]) -> InterpretedDispatch:
        """An interpretation on fixed arrays."""
        read, written = ([None if b is None else b.array for b in buffers] for buffers in (inputs, outputs))
        return InterpretedDispatch(self._definition, read, written)

    def run(self, inputs: Sequence[Array | None], outputs: Sequence[Array | None]) -> None:
        """Interpret once."""
        _run(self._definition, inputs, outputs)

    def runner(self, inputs: Sequence[Buffer | None], positions: Sequence[int], output_count: int) -> None:
        """None: nothing here is quick."""

    def array_function(self, layouts: ArrayLayouts, *, into: bool) -> None:
        """None: nothing here is quick."""


@dataclass(slots=True)
class InterpretedDispatch:
    """A definition and its arrays."""

    definition: Definition
    inputs: Sequence[Array | None]
    outputs: Sequence[Array | None]

    def __call__(self) -> None:
        """Interpret once."""
        _run(self.definition, self.inputs, self.outputs)

    def quicker(self) -> InterpretedDispatch:
        """The same: nothing here is quick."""
        return self

    def release(self) -> None:
        """It holds nothing."""


def interpret_operator(desc: Operator, execution_flags: ExecutionFlags = ExecutionFlags.NONE) -> Program:
    """The program that interprets a valid descriptor."""
    program = Program(
        InterpretedExecutable(desc.define()),
        inputs=[Binding(name, tensor) for name, tensor in desc.inputs()],
        outputs=[Binding(name, tensor) for name, tensor in desc.outputs()],
        in_place=desc.in_place,
    )
    program.desc, program.execution_flags = desc, execution_flags
    program.origin = interpret_operator, (desc, execution_flags)
    return program


def _run(definition: Definition, inputs: Sequence[Array | None], outputs: Sequence[Array | None]) -> None:
    """Interpret a definition on copies of arrays, and put the elements of its outputs where they belong."""
    memory = {}
    for tensor, array in zip(definition.inputs, inputs, strict=True):
        if tensor is not None and array is not None:
            memory[tensor] = own = memory_of(tensor, definition)
            given = _flat(array)[: own.size]
            own[: given.size] = given
    pairs = [(t, a) for t, a in zip(definition.outputs, outputs, strict=True) if t is not None and a is not None]
    memory.update((tensor, memory_of(tensor, definition)) for tensor, _ in pairs)
    interpret(definition, memory)
    for tensor, array in pairs:
        logical_view(tensor, _flat(array))[...] = logical_view(tensor, memory[tensor])


def _flat(array: Array) -> Array:
    """The memory of an array, from its first element to the last one."""
    if array.ndim == 1 and array.flags.c_contiguous:
        return array
    span = 1 + sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)) // array.itemsize
    return np.lib.stride_tricks.as_strided(array, (span,), (array.itemsize,))
