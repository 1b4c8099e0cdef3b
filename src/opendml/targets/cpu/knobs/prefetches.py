"""What kernels, other than contractions, ask memory for ahead (``prefetches.py``, ``chosen_rows.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class PrefetchKnobs:
    """Which tensors, and how far ahead."""

    prefetched_bytes: int = 4 << 20
    """Size of a tensor from which on the lines that will be read are asked for ahead: smaller ones stay in a cache."""

    prefetch_distance: int = 2048
    """How many bytes ahead."""

    runs_side_by_side: int = 1 << 30
    """Large tensors up to which those are asked for that points without folds read side by side, each in a run."""

    staged_prefetch_distance: int = 4096
    """How many bytes ahead where a stage is filled: nothing is asked for while it is emptied."""

    folded_prefetch_distance: int = 2048
    """As ``prefetch_distance``, of what folds whose partial results are lanes go through, run after run; 0: none is
    asked for."""

    summed_prefetch_distance: int = 4096
    """How many bytes ahead in a run that a sum of products goes through once and widens."""

    row_prefetch_distance: int = 6144
    """How many bytes ahead, into the second-level cache, in rows that sums of products go through one after the other:
    one thread then reads memory a sixth to two fifths faster."""

    stored_prefetch_distance: int = 1024
    """As ``prefetch_distance``, of lines that will be written, but not past the caches; 0: none is asked for. It costs
    nothing where they are near already; in a network they are those of another run, and rows that are interleaved take
    a quarter to a third less time."""

    prefetched_run_bytes: int = 16384
    """Bytes of a row from which on lines are asked for along it where a loaded number chooses which row comes next;
    while a shorter one is read, that next one is asked for: too much of what is ahead lies behind the row."""

    choosing_operations: int = 8
    """Operations up to which the place of the next row is computed for that."""

    prefetch_steps: int = 8
    """How many steps of a fold ahead, if each of them reads another place. The last ones find nothing of use there, so
    it is an eighth of the fold's steps at most, and not done where these are few."""

    window_bytes: int = 1 << 17
    """How far the steps of a fold may spread at most for that: further ones would read the lines too late."""

    hiding_operations: int = 12
    """Operations at each point of a row from which on a fold asks for the next row: as many as take about as long as
    its memory does."""

    hiding_steps: int = 128
    """Steps of sums of products from which on what else is loaded is asked for before them: the steps of an LSTM of
    256 units and eight sequences take 7 to 8% less time (Zen 4)."""

    next_row_bytes: int = 1 << 18
    """Bytes of a row up to which that is done: the row, the next one and what is kept of it want to stay in the
    second-level cache."""
