"""Which instructions a machine has."""

from __future__ import annotations

import functools
from typing import Final

from opendml.llvm.host import Machine
from opendml.loops.instructions import Instruction, Instructions
from opendml.targets.cpu.instructions.bytes import BYTES
from opendml.targets.cpu.instructions.moves import MOVES
from opendml.targets.cpu.instructions.multiply_add import MULTIPLY_ADD
from opendml.targets.cpu.instructions.products import PRODUCTS
from opendml.targets.cpu.instructions.roots import ESTIMATE, ROOT
from opendml.targets.cpu.instructions.tiles import TILE_PRODUCTS

INSTRUCTIONS: Final = (*PRODUCTS, MULTIPLY_ADD, *TILE_PRODUCTS, ESTIMATE, ROOT, *BYTES, *MOVES)

_MICROCODED: Final = frozenset({("gather", "znver4"), ("gather", "znver5")})
"""Operations whose instructions processors, by LLVM's names, only have as long sequences of microcode, which loads one
by one are faster than: a gather of 8 is some 40 of its steps on Zen processors and 5 on Skylake (uops.info), and
programs that avoid it there are faster (github.com/ARM-software/astc-encoder, number 511)."""


@functools.cache
def machine_instructions(machine: Machine) -> Instructions:
    """Those of ``INSTRUCTIONS`` that code for a machine may use: it has them, and registers of their size."""
    return Instructions(filter(functools.partial(_is_of, machine), INSTRUCTIONS))


def _is_of(machine: Machine, instruction: Instruction) -> bool:
    fits = instruction.size <= machine.vector_bytes or instruction.operation == "prefetch"
    is_fast = (instruction.operation, machine.cpu_name) not in _MICROCODED
    return fits and is_fast and set(instruction.features) <= set(machine.features)
