"""Calls of a program on arrays of known types, sizes and strides: all that can be is known and checked before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from opendml.description.tensor import TensorDesc
from opendml.loops.alignment import ALIGNMENT
from opendml.programs.program import Program
from opendml.targets.interface import ArrayLayouts

Array = npt.NDArray[Any]


class QuickCall:
    """A program with one output, for inputs whose types, sizes and strides the caller has compared.

    ``run(*inputs, buffer)``, with ``room`` new bytes for a buffer, gives the offset of the output there;
    ``run(*inputs, output)``, if it was made for one, writes to that array and gives 0. -1 says that nothing ran,
    since an array is not aligned or the output overlaps an input. May be used from several threads at once.
    """

    __slots__ = ("_constants", "_keep", "all_given", "dtype", "present", "room", "run", "sizes")

    def __init__(self, program: Program, run: Any, constants: Mapping[int, Array]) -> None:
        ((position, desc),) = [(i, b.desc) for i, b in enumerate(program.outputs) if b.desc is not None]
        self.run = run
        self.dtype = desc.data_type.dtype
        self.sizes = desc.sizes
        self.room = desc.element_span * self.dtype.itemsize + ALIGNMENT
        self.all_given = not constants and all(binding.desc is not None for binding in program.inputs)
        self._constants = constants
        self.present = (position, len(program.outputs))
        self._keep = program

    def arrays(self, operands: Sequence[Array | None]) -> list[Array]:
        """The operands without absent ones, and the arrays that stand for numbers."""
        given = [self._constants.get(i, x) for i, x in enumerate(operands)]
        return [x for x in given if x is not None]


def quick_call(
    program: Program, inputs: Sequence[Array | None], output: Array | None, constants: Mapping[int, Array]
) -> QuickCall | None:
    """A quick call of a program for arrays such as these, which fit it; None where there can be none.

    ``constants``: which of the inputs stand for numbers, and stay as they are.
    """
    arrays = [array for array in inputs if array is not None]
    descs = [binding.desc for binding in program.inputs if binding.desc is not None]
    results = [binding.desc for binding in program.outputs if binding.desc is not None]
    if len(results) != 1 or len(arrays) != len(descs) or (output is None and results[0].strides is not None):
        return None
    tensors = [*descs, results[0]]
    layouts = ArrayLayouts(
        [tensor.data_type.dtype.alignment - 1 for tensor in tensors],
        [tensor.element_span * tensor.data_type.dtype.itemsize for tensor in tensors],
        [int(program.in_place and _same_places(tensor, results[0])) for tensor in tensors],
    )
    run = program.executable.array_function(layouts, into=output is not None)
    return None if run is None else QuickCall(program, run, constants)


def _same_places(a: TensorDesc, b: TensorDesc) -> bool:
    """Whether the elements of two tensors at the same address are the same ones."""
    strides = zip(a.sizes, a.effective_strides, b.effective_strides, strict=True) if a.sizes == b.sizes else None
    return a.data_type == b.data_type and strides is not None and all(n == 1 or x == y for n, x, y in strides)
