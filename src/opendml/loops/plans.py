"""Plans: how what a node of a nest evaluates is computed where it stands; the grammar is in ``nest.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from opendml.expression.ir import Axis, Expression, Fold, Select, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Overlap:
    """The steps of folds at several points of ``axis`` that are taken together go in the order of what they load: a
    window moves ``step`` elements along the axis, and ``reach`` along ``tap``, an axis of the fold. Those of one point
    keep their order."""

    axis: Axis
    tap: Axis
    step: int
    reach: int


How = Literal["jump", "lanes", "known lanes", "rarely"]
"""How a Select is computed if not by both of its branches: ``jump`` to the one that all lanes take; both in ``lanes``,
each where it is taken; in ``known lanes`` where it is known as the points stand which ones these are, so that a branch
that none takes is left out; ``rarely``, the first one only if some lane takes it, but then at all of them."""

Folded = Literal["points", "partials", "partials of each lane", "partials side by side"]
"""What the states of a fold are lanes of: ``points`` side by side; its ``partials``, once for all points if it is the
same at all of them, else of one point after the other, or step by step of all of them, ``side by side``."""

Guard = Literal["always", "jump", "jumps", "lanes", "known lanes"]
"""How steps that a fold leaves out are: none are; a ``jump`` of all points; ``jumps`` of each; in ``lanes``, where
these take part; in ``known lanes``, so that steps that none of them takes are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptRow:
    """A value at every point of a row: ``writer`` computes ``value`` along ``axis``, and puts it to ``memory``.

    ``readers`` are the expressions that are the same elsewhere, each with the axis that takes the place of ``axis``.
    """

    writer: Fold
    axis: Axis
    value: Expression
    readers: Mapping[Expression, Axis]
    memory: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """How a Select is computed; in lanes its branches have plans of their own where some lanes are left out."""

    select: Select
    how: How
    then: Plan
    otherwise: Plan


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How expressions are computed: the Selects that are more than both of their branches, and the folds that nothing
    before has computed, each at one point where it is wanted; those ``ahead`` at all points of a step side by side."""

    choices: Mapping[Expression, Choice]
    foldings: Mapping[Fold, Folding]
    ahead: tuple[Folding, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps of a fold: how some are left out, the plan of those that are not, and that of steps which lanes are left
    out of."""

    guard: Guard
    plan: Plan
    masked: Plan


@dataclass(frozen=True, slots=True, eq=False)
class Folding:
    """How a fold is computed: along its ``unrolled`` axes, the innermost ones, all steps are written out, or those of
    several points in the order of an ``overlap``. Folds inside that are the same at all of its steps come ``ahead``.
    ``rest``: the steps of the last lanes of partial results, where not all take part. ``rows`` are kept as it goes."""

    fold: Fold
    how: Folded
    unrolled: tuple[Axis, ...]
    overlap: Overlap | None
    ahead: tuple[Folding, ...]
    steps: Steps
    rest: Steps | None = None
    rows: tuple[KeptRow, ...] = ()


AS_THEY_STAND: Final = Plan({}, {})
"""The plan of expressions that have none: all is computed as it stands."""
