"""Instructions of a processor, as nests name them: which operation one does, for how many lanes, and what that means.

A processor's instructions are its target's; here is what one is. Its *body* says with NumPy what it does, bit for bit
and element for element; the interpreter of nests runs it, and tests compare it with the machine. What the operations
mean, and so what a body is given and returns:

    sqrt                 body(x) -> y                              -- Unary("sqrt") of the grammar
    dot2, dot4           body(a, b, c) -> c + a . b                -- a product of words, and the addition behind it
    dot4_saturating      the same
    multiply-add         body(a, b, c) -> a * b + c, rounded once  -- where c is
    tiles of ... rows    body(a, b, c) -> c + a . b                -- dot4 of matrices: {m, k} words by {k, n}
    load, gather         body(memory, places, mask) -> values      -- 0 where the mask leaves a lane out
    store, stream        body(memory, places, mask, values)        -- ``stream``: past the caches
    prefetch             body(memory, places)                      -- nothing that a value depends on
    estimate             body(x) -> y                              -- of 1 / sqrt(x): a step of other instructions
    round                body(x) -> i                              -- to nearest even; -2^31 of what is beyond an i32
    bytes                body(a, b, c, d) -> those of all          -- of i32, clamped, one register behind the other

``memory`` is a row of elements. A body touches those at ``places`` where the mask holds and no others: the places of
lanes that are left out may be outside of the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from opendml.expression.element_types import ElementType

Operation = Literal[
    "sqrt",
    "dot2",
    "dot4",
    "dot4_saturating",
    "multiply-add",
    "tiles of unsigned rows",
    "tiles of signed rows",
    "load",
    "gather",
    "store",
    "stream",
    "prefetch",
    "estimate",
    "round",
    "bytes",
]


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """An instruction, or a few that belong together, by the ``name`` that the processor's manual has for it.

    It does ``operation`` for elements of ``type``, ``lanes`` at a time, on machines that have ``features``. ``write``
    is how the target's code says it; nobody else knows what that takes.
    """

    name: str
    operation: Operation
    type: ElementType
    lanes: int
    features: tuple[str, ...]
    body: Callable[..., Any]
    write: Callable[..., Any]

    @property
    def size(self) -> int:
        """Bytes of the registers that it works on."""
        return self.lanes * self.type.bits // 8


class Instructions:
    """Those that a nest may use, in the order in which they are preferred: by size first, the widest ones."""

    def __init__(self, members: Iterable[Instruction] = ()) -> None:
        self.members: Final = tuple(sorted(members, key=lambda instruction: -instruction.size))
        self._found: dict[tuple[str, ElementType], list[Instruction]] = {}
        for instruction in self.members:
            self._found.setdefault((instruction.operation, instruction.type), []).append(instruction)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.members)

    def find(self, operation: str, type: ElementType) -> Instruction | None:
        """The widest one for an operation, if there is any."""
        found = self._found.get((operation, type))
        return None if found is None else found[0]

    def fitting(self, operation: str, type: ElementType, lanes: int) -> Instruction | None:
        """The one that does an operation of so many lanes: the widest that is no wider, if they are whole registers of
        it. None: the operation is not done by an instruction that the nest knows."""
        for instruction in self._found.get((operation, type), ()):
            if instruction.lanes <= lanes:
                return None if lanes % instruction.lanes else instruction
        return None


NO_INSTRUCTIONS: Final = Instructions()
"""Of targets, and tests, that use plain operations alone."""
