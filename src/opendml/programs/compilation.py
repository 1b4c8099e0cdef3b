"""From definitions, or the objects made of them, to programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opendml.programs.binding import Binding
from opendml.programs.program import Program

if TYPE_CHECKING:
    from opendml.expression.statements import Definition
    from opendml.targets.target import Code, Requirements, Target


def compile_definition(
    definition: Definition,
    *,
    inputs: Sequence[Binding],
    outputs: Sequence[Binding],
    in_place: bool,
    target: Target,
    thread_count: int,
) -> Program:
    """Generate, compile (or fetch from the cache) and load the code of a definition."""
    code = target.generate(definition, in_place=in_place)
    return load_program(
        code, inputs=inputs, outputs=outputs, in_place=in_place, target=target, thread_count=thread_count
    )


def load_program(
    code: Code,
    *,
    inputs: Sequence[Binding],
    outputs: Sequence[Binding],
    in_place: bool,
    target: Target,
    thread_count: int,
) -> Program:
    """Compile (or fetch from the cache) and load code."""
    objects, from_cache = target.compile(code.modules)
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
    target: Target,
    thread_count: int,
    from_cache: bool,
) -> Program:
    """The program of a target's objects, in the order of the modules; they must be of this host's own making."""
    program = Program(
        target.load(objects, requirements, thread_count),
        inputs=inputs,
        outputs=outputs,
        in_place=in_place,
        from_cache=from_cache,
    )
    program.target = target
    return program
