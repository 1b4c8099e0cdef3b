"""Contractions: what is asked for ahead of them (``contractions/prefetches.py``, ``nests/asking.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class AskingKnobs:
    """Of what, and how far ahead."""

    far_tile_bytes: int = 256 << 10
    """Bytes of the factor along the tile axis from which on the next tile's are asked for while sums are done; and of
    what is added to sums in tile registers."""

    longest_next_row: int = 16 << 10
    """Bytes of all steps of a point up to which the next tile's are asked for: of what is longer than a page only where
    it comes from memory (``prefetched_bytes``)."""

    asking_part: float = 0.75
    """The part of a sum's steps between which what a tile stores, and what its results read, is asked for line by line:
    all at once would be more than a processor can wait for, and what the sums load would wait behind it."""

    fewest_asking_steps: int = 4
    """Steps of such a sum at least between which that is done: all sums of a tile go through a loop within a loop."""

    short_steps: int = 0
    """Steps of a sum up to which what a tile stores, and what its results read, is asked for while the tile before is
    done, where it comes from memory: the steps of one take less time than that."""

    far_results_bytes: int = 8 << 20
    """Bytes of what is stored, or read by results, from which on it comes from memory."""

    asking_channels: int = 16
    """Steps of the outermost of several loops of a sum at most, and a quarter of them, between which that is done where
    there are few registers, if a line at a time would not take longer: where the lines are is computed once for all of
    them, and steps of windows take a hundredth to a thirtieth less time than with a line every other step."""

    asking_tiles: int = 4
    """Tiles along the tile axis up to which each asks for all that the next strip of the other side loads."""

    asked_planes_bytes: int = 0
    """Bytes that all tiles which go through a strip ask for together, however many they are, where each step is on a
    page of its own, in whole lines, as planes of images are; of matrices as large panels take less time."""

    near_strip_bytes: int = 16 << 10
    """Bytes of all steps of a strip up to which it stays in the nearest cache, beside what the tiles read. Of longer
    ones vectors are asked for ahead: sums of products then take a twentieth to a twelfth less time."""

    asked_strip_rows: int = 1 << 62
    """Points that go through a strip up to which that is done: where processors wait for no second-level cache, those
    that a tile has, which go through it once."""

    steps_ahead: int = 16
    """How many steps of a sum before they are loaded vectors are asked for."""

    copied_steps_ahead: int = 4
    """How many steps of a sum before they are copied to a panel, at the same time, vectors are asked for where their
    rows are whole pages apart: further ones would push out one another. Of other rows it is ``steps_ahead``."""

    streamed_steps_ahead: int = 64
    """As ``steps_ahead``, of vectors that follow one another in memory and that all threads read, as panels of weights
    do: they come from beyond the second-level cache, in some hundred cycles."""
