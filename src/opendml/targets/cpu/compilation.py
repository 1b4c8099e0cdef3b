"""From a definition to code for a processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opendml.expression.statements import Definition, Single

if TYPE_CHECKING:
    from opendml.targets.cpu.code.program_code import ProgramCode
    from opendml.targets.cpu.target import CpuTarget


def generate(
    definition: Definition,
    target: CpuTarget,
    *,
    in_place: bool,
    profiled: bool = False,
    begin: Callable[[str], None] | None = None,
) -> ProgramCode:
    """The LLVM modules of a definition for a processor; if it is ``profiled``, its kernels record their times.
    ``begin`` is given modules that are written while others are not."""
    from opendml.llvm.float16 import CONVERSIONS
    from opendml.targets.cpu.code.modules import Support
    from opendml.targets.cpu.code.program_code import program_code
    from opendml.targets.cpu.refine.blocks_of_channels import blocks_of_channels
    from opendml.targets.cpu.refine.channel_runs import channel_runs
    from opendml.targets.cpu.refine.groups_apart import groups_apart
    from opendml.targets.cpu.refine.rows_with_margins import rows_with_margins
    from opendml.targets.cpu.runtime.barrier_code import SHARED, shared_ir

    conversions = "" if target.machine.converts_float16 else CONVERSIONS
    support = Support(conversions, shared_ir(target.machine), SHARED)
    wholes = dict[Single, Single]()
    rules = (channel_runs, rows_with_margins, blocks_of_channels, groups_apart)
    for rule in () if in_place else rules:
        definition, parts = rule(definition, target)
        wholes |= {part: wholes.get(whole, whole) for part, whole in parts.items()}
    return program_code(definition, target, support, in_place=in_place, profiled=profiled, begin=begin, wholes=wholes)
