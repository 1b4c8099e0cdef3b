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


PLACEMENT: Final = Placement()
"""Where no target states others."""
