"""Scatters and compactions as statements of blocks, and the threads that update them (``refine/scatters.py``,
``refine/scattered_parts.py``, ``refine/compactions.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class ScatterKnobs:
    """Which scatters update blocks and rows as a whole, and of what sizes."""

    scattered_block: int = 16
    """Elements of a block from which on a scatter updates blocks as a whole."""

    scattered_columns: int = 128
    """Columns of a block at most that a thread updates by itself: some cache lines of every row."""

    scattered_columns_bytes: int = 1 << 20
    """Bytes of such a block at most: half a second-level cache. Blocks half as wide take a quarter longer: as much less
    of every row is read at once."""

    scattered_rows_bytes: int = 4096
    """Bytes of rows, at least, that a thread updates by itself: what three calls cost is little beside that."""

    most_scattered_rows_bytes: int = 1 << 17
    """Bytes of such a row at most: a tensor that is far has many of them, and each thread some."""

    updates_worth_copies: int = 4
    """How many times more elements than updates there may be that blocks are worth it, since all of them are copied."""

    compacted_piece: int = 1024
    """Elements of a piece of a compaction: a piece of a large tensor is little work for a thread, and what it keeps of
    a piece (2 bytes an element) stays in a first-level cache. At most 65536, as places in it have 16 bits."""

    scattered_run: int = 64
    """Points of an axis behind others that one work item of a scatter covers at least: several cache lines a row."""
