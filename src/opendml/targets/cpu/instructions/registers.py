"""Values of several registers, one register at a time."""

from __future__ import annotations

from opendml.llvm.builder import Builder
from opendml.llvm.values import Value
from opendml.loops.instructions import Instruction


def by_registers(builder: Builder, instruction: Instruction, *operands: Value) -> Value:
    """What an instruction makes of operands that are whole registers, all of as many lanes."""
    lanes, width = operands[0].lanes, instruction.lanes
    parts: list[Value] = []
    for start in range(0, lanes, width):
        here = range(start, start + width)
        registers = [v if width == lanes else builder.shuffle(v, None, here) for v in operands]
        parts.append(instruction.write(builder, *registers))
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [builder.shuffle(x, y, range(2 * x.lanes)) for x, y in pairs]
    return parts[0]
