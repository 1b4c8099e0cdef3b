"""The reference device: programs that NumPy interprets, for whoever wants a second opinion on compiled ones.

An interpreted program takes and gives what a compiled one does, bit for bit, and shares no stage of the compiler with
it: its statements are the operators' definitions, as they were written, evaluated point by point.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from opendml.description.enums import ExecutionFlags
from opendml.description.errors import NotPicklableError
from opendml.expression.interpreter import interpret, logical_view, memory_of
from opendml.expression.ir import Definition
from opendml.programs.program import Binding, BoundCall, BoundTensor, Program, shallow_copy
from opendml.targets.cpu.code.interface import Requirements

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator

Array = npt.NDArray[Any]

NOTHING_NEEDED = Requirements(0, 0, 0, False)


class InterpretedProgram(Program):
    """A program that interprets a definition; used like any other one, and slow."""

    def __init__(
        self, definition: Definition, *, inputs: Sequence[Binding], outputs: Sequence[Binding], in_place: bool
    ) -> None:
        super().__init__(
            NOTHING_NEEDED,
            cast(Any, None),
            0,
            inputs=inputs,
            outputs=outputs,
            in_place=in_place,
            thread_count=1,
            from_cache=False,
        )
        self._definition = definition

    @property
    def temporary_size(self) -> int:
        """Bytes of the copies that a run makes of its tensors, and of the tensors in between."""
        definition = self._definition
        tensors = [*definition.inputs, *definition.outputs, *definition.temporaries]
        return sum(tensor.extent * tensor.type.bits // 8 for tensor in tensors if tensor is not None)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.desc is None:
            raise NotPicklableError("this program is only a part of a graph: pickle or copy the graph's")
        return interpret_operator, (self.desc, self.execution_flags)

    def with_thread_count(self, thread_count: int) -> Program:
        """The same program; the interpreter is one thread whatever is asked for."""
        return shallow_copy(self)

    def run_unchecked(self, arrays: Sequence[Array | None]) -> list[Array | None]:
        """As for compiled programs."""
        outputs = self.new_outputs()
        self.bind(arrays, outputs)()
        return outputs

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any], last_inputs: Sequence[BoundTensor] = ()) -> BoundCall:
        """As for compiled programs."""
        bound_inputs, bound_outputs = self._bound(inputs, outputs, last_inputs)
        read = [*bound_inputs, *last_inputs]
        run = functools.partial(_run, self._definition, read, bound_outputs)
        refreshed = [b for b in read if b is not None and b.refresh is not None]
        return BoundCall(run, (self, *read, *bound_outputs), refreshed, None, self._keep_for_later)


def interpret_operator(desc: Operator, execution_flags: ExecutionFlags = ExecutionFlags.NONE) -> InterpretedProgram:
    """The program that interprets a valid descriptor."""
    program = InterpretedProgram(
        desc.define(),
        inputs=[Binding(name, tensor) for name, tensor in desc.inputs()],
        outputs=[Binding(name, tensor) for name, tensor in desc.outputs()],
        in_place=desc.in_place,
    )
    program.desc, program.execution_flags = desc, execution_flags
    return program


def _run(definition: Definition, inputs: Sequence[BoundTensor | None], outputs: Sequence[BoundTensor | None]) -> None:
    """Interpret a definition on copies of bound arrays, and put the elements of its outputs where they belong."""
    memory = {}
    for tensor, bound in zip(definition.inputs, inputs, strict=True):
        if tensor is not None and bound is not None:
            memory[tensor] = own = memory_of(tensor, definition)
            given = _flat(bound)[: own.size]
            own[: given.size] = given
    pairs = [(t, b) for t, b in zip(definition.outputs, outputs, strict=True) if t is not None and b is not None]
    memory.update((tensor, memory_of(tensor, definition)) for tensor, _ in pairs)
    interpret(definition, memory)
    for tensor, bound in pairs:
        logical_view(tensor, _flat(bound))[...] = logical_view(tensor, memory[tensor])


def _flat(bound: BoundTensor) -> Array:
    """The memory of a bound array, from its first element to the last that the descriptor reaches."""
    array = bound.array
    if array.ndim == 1 and array.flags.c_contiguous:
        return array
    return np.lib.stride_tricks.as_strided(array, (bound.desc.element_span,), (array.itemsize,))
