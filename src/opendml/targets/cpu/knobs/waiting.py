"""Sums that wait in memory for one another, or fill a panel on their way; and other folds that wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filling:
    """Which first tiles, instead of waiting, copy the other side to a panel while they are summed up."""

    registers: int = 2048
    """Bytes of all vector registers of a processor from which on they may: 32 of 64 bytes."""

    rows: int = 12
    """Points along the tile axis from which on they do."""

    steps: int = 1024
    """Steps of a fold from which on they do: of fewer, each on a page of its own, more stays near."""

    bytes: int = 16 << 20
    """Bytes of that other side up to which they do, half of a last cache at most: what comes from memory comes faster
    in long runs than a vector at every step."""

    share: float = 0.4
    """The part of ``packing`` that such a copy takes: every vector is loaded for a sum anyway."""


@dataclass(init=False, repr=False, eq=False, frozen=True)
class WaitingKnobs:
    """Which sums do, and for how many steps."""

    steps_at_once: int = 32
    """Steps after which sums wait in memory, where steps are on pages of their own: as many pages as processors know
    the addresses of; so many multiply-adds for each sum that is stored and loaded again."""

    steps_of_few_rows: int = 8
    """The same for fewer rows than ``rows_of_tiles``, which wait for memory: so few runs processors read ahead by
    themselves, faster than they are asked."""

    asked_runs_bytes: int = 1 << 62
    """Bytes of what these read above which the next steps' runs are asked for all the same, while sums are done."""

    steps_of_deep_sums: int = 1024
    """The same where there are few sums of so many steps that what these read comes from beyond the second-level cache:
    runs of a page, of which as many as there are rows and columns stay in that cache."""

    waiting_bytes: int = 32 << 10
    """Bytes of all sums up to which they do: each thread has a place for them in a near cache."""

    fewest_interrupted: int = 4
    """How many times as many steps there are, at least, where sums wait."""

    interrupted_rows: int = 48
    """Points along the tile axis up to which they do: for more it is worth it to copy the other side."""

    fold_steps_at_once: int = 0
    """Steps of folds after which their results wait in memory, where each step reads a row on pages of its own: so many
    long runs are read side by side, instead of a vector or two from every row. 0: they wait in no case."""

    fold_row_bytes: int = 4096
    """Bytes from one such row to the next from which on they do: a page."""

    filling: Filling = Filling()
    """Which sums fill a panel."""
