"""From definitions, or the object files made of them, to programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opendml.expression.ir import Definition
from opendml.programs.binding import Binding
from opendml.programs.program import Program
from opendml.targets.cpu.compilation import generate

if TYPE_CHECKING:
    from opendml.targets.cpu.code.interface import Requirements
    from opendml.targets.cpu.code.program_code import ProgramCode
    from opendml.targets.cpu.target import CpuTarget


def compile_definition(
    definition: Definition,
    *,
    inputs: Sequence[Binding],
    outputs: Sequence[Binding],
    in_place: bool,
    target: CpuTarget,
    thread_count: int,
) -> Program:
    """Generate, compile (or fetch from the cache) and load the code of a definition."""
    code = generate(definition, target, in_place=in_place)
    return load_program(
        code, inputs=inputs, outputs=outputs, in_place=in_place, target=target, thread_count=thread_count
    )


def load_program(
    code: ProgramCode,
    *,
    inputs: Sequence[Binding],
    outputs: Sequence[Binding],
    in_place: bool,
    target: CpuTarget,
    thread_count: int,
) -> Program:
    """Compile (or fetch from the cache) and load code."""
    from opendml.llvm.object_cache import get_or_compile_all

    objects, from_cache = get_or_compile_all(code.modules, target.machine)
    return program_of(
        objects,
        code.requirements,
        inputs=inputs,
        outputs=outputs,
        in_place=in_place,
        target=target,
        thread_count=thread_count,
        from_cache=from_cache,
    )


def program_of(
    objects: Sequence[bytes],
    requirements: Requirements,
    *,
    inputs: Sequence[Binding],
    outputs: Sequence[Binding],
    in_place: bool,
    target: CpuTarget,
    thread_count: int,
    from_cache: bool,
) -> Program:
    """The program of object files, the first of them with the entry; they must be of this host's own making."""
    from opendml.llvm.native import load_object
    from opendml.targets.cpu.code.interface import ENTRY
    from opendml.targets.cpu.runtime.executable import CpuExecutable

    loaded = load_object(objects[0], [ENTRY], target.machine, objects[1:])
    program = Program(
        CpuExecutable(requirements, loaded, loaded[ENTRY], thread_count),
        inputs=inputs,
        outputs=outputs,
        in_place=in_place,
        from_cache=from_cache,
    )
    program.target = target
    return program
