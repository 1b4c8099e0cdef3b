"""Runs of graphs on packed arrays of known types and sizes: all that can be is known and checked before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from opendml.description.tensor import TensorDesc
from opendml.targets.host_memory import new_array, place_of

if TYPE_CHECKING:
    from opendml.programs.binding import Binding
    from opendml.programs.compiled_graph import CompiledGraph

__all__ = ["Form", "QuickRun", "quick_run"]

Array = npt.NDArray[Any]
Form = tuple["np.dtype[Any]", tuple[int, ...]]
"""The type and the sizes of an output's array, of as many bytes as its tensor."""

SMALL: Final = 1024
"""Bytes of an output up to which aligning it to cache lines costs more than it gains."""


class QuickRun:
    """A program for arrays that are packed and aligned, and whose types and sizes the caller has compared.

    Called with them in the order of the inputs it gives new outputs in theirs. May be used from several threads at
    once.
    """

    __slots__ = ("_forms", "_places", "_run")

    def __init__(
        self, program: CompiledGraph, constants: dict[int, Array], positions: Sequence[int], forms: Sequence[Form]
    ) -> None:
        places = [place_of(binding.desc) for binding in program.outputs if binding.desc is not None]
        used = zip(places, forms, strict=False)
        places[: len(forms)] = [place._replace(dtype=kind, sizes=sizes, strides=None) for place, (kind, sizes) in used]
        self._run = program.runner(constants, positions)
        self._forms = forms if len(forms) == len(places) and all(p.buffer_size <= SMALL for p in places) else None
        self._places = (places, len(forms))

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Run once."""
        if self._forms is not None:
            results = [np.empty(sizes, kind) for kind, sizes in self._forms]
            self._run(*arrays, *results)
            return results
        places, count = self._places
        outputs = [new_array(place) for place in places]
        self._run(*arrays, *outputs)
        return outputs[:count]


def quick_run(
    program: CompiledGraph,
    inputs: Sequence[Binding],
    outputs: Sequence[Binding],
    constants: dict[int, Array],
    forms: Sequence[Form],
) -> QuickRun | None:
    """A quick run of an initialised program; None where tensors do not lie in memory as packed arrays do.

    ``inputs``, ``outputs``: the first ones of the program's as its caller sees them; inputs OWNED_BY_DML are not given.
    ``constants``: the arrays of others of the program's inputs, by position.
    """
    positions = [n for n, b in enumerate(inputs) if b.desc is not None and not b.desc.is_owned_by_dml]
    pairs = [(inputs[n].desc, program.inputs[n].desc) for n in positions]
    pairs += [(seen.desc, written.desc) for seen, written in zip(outputs, program.outputs, strict=False)]
    if any(seen is None or there is None or not _is_as_packed(seen, there) for seen, there in pairs):
        return None
    return QuickRun(program, constants, positions, forms)


def _is_as_packed(seen: TensorDesc, there: TensorDesc) -> bool:
    """Whether a packed array of a tensor is in place as what the program has there."""
    same = seen.data_type == there.data_type and seen.element_span == there.element_span
    return same and seen.is_packed and there.data_type.bits >= 8
