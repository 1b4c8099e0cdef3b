"""How places for temporary tensors are looked for: what targets state, which plan no memory themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Placement:
    """How long places are looked for: knobs, which a target states."""

    rounds: int = 16
    """How often an order in which tensors get their places is tried again, those first that found none below the least
    size: more gain a few per cent in a few graphs."""

    compared_pairs: int = 1 << 17
    """Pairs of tensors that are looked at for that at most, so that large graphs take no longer for it than small ones
    do: some hundredths of a second."""

    growth: float = 1.0
    """How many times the memory of the best order tensors may take together to lie apart: where others have lain that
    are no longer needed only if these were as large, so that every thread writes what it has written and read itself
    before. With 1 they take no more."""

    most_growth: int = 0
    """Bytes by which it may be more for that."""


PLACEMENT: Final = Placement()
"""Where no target states others."""
