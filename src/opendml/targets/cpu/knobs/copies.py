"""Copies, margins and tables that statements get beside their own result (``refine/copies.py``, ``refine/margins.py``,
``refine/shared_values.py``, ``refine/tables.py``, ``refine/places.py``, ``refine/channels.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class CopyKnobs:
    """From which sizes on a tensor of its own, or another order of one, is worth its memory."""

    alternating_copies: int = 8
    """Copies that take turns within a row and are joined to one statement at most."""

    alternating_bytes: int = 4096
    """Bytes of such a row at most: of longer ones each piece is long enough by itself."""

    margin_elements: int = 1 << 16
    """Elements that a tensor may have in any case with a margin of zeros: beyond the caches it has to pay off."""

    margin_growth: int = 3
    """How many times larger the margin may make the tensor then."""

    column_repeats: int = 2
    """Rows that have values of slow functions in common, such as square roots, or widened ones, from which on these get
    a tensor."""

    table_growth: int = 4
    """How many times larger than what is summed and what comes of it a table of the sum's weights may be, and one of
    places than what comes of these."""

    table_operations: int = 3
    """Operations of a weight from which on it is worth a table."""

    table_reads: int = 4
    """How many times as often as there are places in a table of samples it is to be read."""

    fewest_channels: int = 8
    """Channels from which on they are a vector where the places of everything else are loaded numbers."""

    channel_loads: int = 2
    """How many times as often as they have elements tensors are to be read that their channels are copied to the
    end."""

    limited_steps: int = 2
    """Steps that a fold which goes on for as long as a loaded number says is taken to have."""

    rows_worth_copies: int = 16
    """Rows that read all of a product's right factor from which on it is copied, if it does not lie row by row."""
