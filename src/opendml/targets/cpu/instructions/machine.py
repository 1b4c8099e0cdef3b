"""Which instructions a machine has."""

from __future__ import annotations

import functools
from typing import Final

from opendml.llvm.host import Machine
from opendml.loops.instructions import Instruction, Instructions
from opendml.targets.cpu.instructions.moves import MOVES
from opendml.targets.cpu.instructions.products import PRODUCTS
from opendml.targets.cpu.instructions.roots import ESTIMATE, ROOT
from opendml.targets.cpu.instructions.tiles import TILE_PRODUCTS

INSTRUCTIONS: Final = (*PRODUCTS, *TILE_PRODUCTS, ESTIMATE, ROOT, *MOVES)


@functools.cache
def machine_instructions(machine: Machine) -> Instructions:
    """Those of ``INSTRUCTIONS`` that code for a machine may use: it has them, and registers of their size."""
    return Instructions(filter(functools.partial(_is_of, machine), INSTRUCTIONS))


def _is_of(machine: Machine, instruction: Instruction) -> bool:
    fits = instruction.size <= machine.vector_bytes or instruction.operation == "prefetch"
    return fits and set(instruction.features) <= set(machine.features)
