"""What a rule of refinement is given, and what it makes of a statement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from opendml.expression.element_types import ElementType
from opendml.expression.ir import Axis, Expression, Index, Tensor, grid, indices, load, packed_strides, temporary
from opendml.expression.rewriting import substitute
from opendml.expression.statements import Compute, Definition, Origin, Statement, Store
from opendml.targets.cpu.refine.sums import Sum
from opendml.targets.cpu.target import CpuTarget

CHANNEL: Final = 1
"""The dimension of a tensor's channels."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The target, and the inputs of a definition that are ``fixed``: what is made of these alone is made once, before
    the program ever runs, so that more is ``known`` then. No element of those with ``bounds`` is larger than these,
    whatever its sign; of float32 none is less than 0. Many of a ``denormal`` one may be so small that they are denormal
    numbers. Some come of other things that are known, their ``origins``, which take less memory."""

    target: CpuTarget
    fixed: frozenset[Tensor]
    bounds: Mapping[Tensor, float]
    denormal: frozenset[Tensor] = frozenset()
    origins: Mapping[Tensor, Origin] = field(default_factory=dict)
    known: frozenset[Tensor] = frozenset()


@dataclass(slots=True)
class Refinement:
    """The statements that take the place of one, in the order in which they run, and their temporaries."""

    statements: list[Statement] = field(default_factory=list)
    temporaries: list[Tensor] = field(default_factory=list)

    def copy(
        self,
        name: str,
        type: ElementType,
        sizes: Sequence[int],
        element: Callable[..., Expression],
        gap: int = 0,
        like: Tensor | None = None,
    ) -> Tensor:
        """A temporary with ``element(*coordinates)`` at all coordinates, and the statement that writes it, added. It is
        packed, or lies ``like`` another tensor. Behind each row of the last dimension are ``gap`` elements more, of any
        value."""
        made = temporary(name, type, [*sizes[:-1], sizes[-1] + gap] if gap else sizes)
        made = made if like is None else replace(made, strides=like.strides)
        axes = grid(sizes)
        self.temporaries.append(made)
        self.statements.append(Compute(axes, (Store(made, indices(axes), element(*indices(axes))),)))
        return made

    def values(self, name: str, value: Expression, axes: Sequence[Axis]) -> Expression:
        """What reads a value, of a statement with these axes, from a packed temporary that has all of its values."""

        def at(*coordinates: Expression) -> Expression:
            return substitute({Index(axis): c for axis, c in zip(axes, coordinates, strict=True)})(value)

        return load(self.copy(name, value.type, [axis.size for axis in axes], at), indices(axes))


def with_runs(tensor: Tensor, dimension: int, pitch: int | None = None) -> Tensor:
    """The tensor with the elements along a dimension side by side, and ``pitch`` of them from one run's first to the
    next's; None: as many as there are."""
    sizes = tensor.sizes
    run = sizes[dimension] if pitch is None else pitch
    *strides, last = packed_strides([*sizes[:dimension], *sizes[dimension + 1 :], run])
    return replace(tensor, strides=(*strides[:dimension], last, *strides[dimension:]))


def has_channel_runs(target: CpuTarget) -> bool:
    """Whether channels lie side by side in what a processor's sums of products read and write."""
    machine, tuning = target.machine, target.tuning
    is_wide = machine.vector_registers * machine.vector_bytes >= tuning.large_registers
    return is_wide and machine.vector_registers <= tuning.most_run_registers


def are_side_by_side(tensor: Tensor) -> bool:
    """Whether the channels of a point lie side by side, and not as planes."""
    has_places = len(tensor.sizes) > CHANNEL + 1 and math.prod(tensor.sizes[CHANNEL + 1 :]) > 1
    return has_places and tensor.sizes[CHANNEL] > 1 == tensor.strides[CHANNEL]


def pitch_of_run(elements: int, bits: int, target: CpuTarget) -> int:
    """Elements of so many bits from a point whose channels lie side by side to the next one: a cache line more than
    there are where points would share a few places of the nearest cache."""
    is_aliased = elements * bits // 8 % target.tuning.aliased_run_bytes == 0
    return elements + target.machine.cache_line * 8 // bits if is_aliased else elements


StatementRule = Callable[[Statement], Refinement | None]
"""What a statement becomes; None where it stays as it is."""


def statement_by_statement(definition: Definition, rule: StatementRule) -> Definition:
    """The definition with what a rule makes of each of its statements; itself where it makes nothing of any."""
    found = [rule(statement) for statement in definition.statements]
    if all(made is None for made in found):
        return definition
    statements, temporaries = list[Statement](), list(definition.temporaries)
    for statement, made in zip(definition.statements, found, strict=True):
        statements += [statement] if made is None else made.statements
        temporaries += [] if made is None else made.temporaries
    return replace(definition, statements=tuple(statements), temporaries=tuple(temporaries))


SumRule = Callable[[Sum, Surroundings], Refinement | None]
"""What a statement becomes that computes a sum of products; None where the rule does not fit, or is not worth it."""

DefinitionRule = Callable[[Definition, Surroundings], Definition]
"""What a definition becomes, whose statements have a form together; itself where the rule does not fit."""
