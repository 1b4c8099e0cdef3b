"""Outputs that are written past the caches, and the stages that gather them (``schedule.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class StoreKnobs:
    """Which outputs, and sizes of stages."""

    streamed_bytes: int = 8 << 20
    """Bytes of outputs from which on they are written past the caches: larger than the second-level caches of one
    core."""

    staged_bytes: int = 0
    """As ``streamed_bytes``, of outputs of short rows, which are gathered in a stage, where these have to be larger."""

    staged_squares_bytes: int = 8 << 20
    """As ``streamed_bytes``, of outputs of squares that are transposed in registers: one by one their rows would be
    written to many places in turn."""

    streamed_row_bytes: int = 4096
    """Bytes of a row from which on it is written past the caches as it is; shorter ones are gathered in a stage."""

    staged_steps: int = 4
    """Steps of folds up to which a stage pays: with more, the arithmetic hides how long ordinary stores take."""

    stage_bytes: int = 16384
    """Bytes of neighbouring rows of all outputs that are computed in a stage, which stays in the first-level cache."""

    transposed_stage_bytes: int = 131072
    """Bytes of a stage that takes squares: in the second-level cache, so that runs are long in the input and the
    output."""

    long_row: int = 3
    """Vectors of a row with margins from which on those inside of it, away from its ends, are stored as they are,
    behind a branch: by masks it is up to four stores. 1x1 convolutions to 64 channels of 56x56 take a tenth less time
    (Zen 5)."""
