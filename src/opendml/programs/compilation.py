"""From operators and definitions, or the objects made of them, to programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opendml.programs.binding import Binding
from opendml.programs.graph_plan import StoredProgram, operator_key, store_program, stored_objects, stored_program
from opendml.programs.program import Program

if TYPE_CHECKING:
    from opendml.description.descriptors import Operator
    from opendml.expression.statements import Definition
    from opendml.targets.target import Requirements, Target


def operator_program(desc: Operator, target: Target, thread_count: int) -> Program:
    """The program of a valid descriptor. One that was compiled before comes from the disk cache."""
    key = operator_key(desc, target)
    stored = stored_program(key)
    objects = None if stored is None else stored_objects(stored)
    from_cache = objects is not None
    if stored is None or objects is None:
        code = target.generate(target.refine(desc.define()), in_place=desc.in_place)
        compiled, from_cache = target.compile(code.modules)
        stored = StoredProgram(code.requirements, tuple(map(target.object_key, code.modules)))
        objects = dict(zip(stored.keys, compiled, strict=True))
        store_program(key, stored)
    return program_of(
        [objects[key] for key in stored.keys],
        stored.requirements,
        inputs=[Binding(name, tensor) for name, tensor in desc.inputs()],
        outputs=[Binding(name, tensor) for name, tensor in desc.outputs()],
        in_place=desc.in_place,
        target=target,
        thread_count=thread_count,
        from_cache=from_cache,
    )


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
