"""Contractions: the parts of both factors that a work item reads again and again (``contractions/blocks.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class BlockKnobs:
    """Sizes of parts that are to stay in a cache, and how even they are."""

    vector_side_bytes: int = 768 << 10
    """Bytes of the factor along the vector axis that a work item reads again and again, from a second-level cache."""

    tile_side_bytes: int = 2 << 20
    """Bytes of the factor along the tile axis up to which strips of transposed tiles go through all of them, in parts
    of ``vector_side_bytes``: more come from memory, and those along the vector axis are better read again."""

    kept_side_bytes: int = 1 << 20
    """Bytes of the smaller factor up to which they do."""

    vector_side_bytes_of_words: int = 256 << 10
    """The same of products of words, whose other factor is read again for each such part at little cost: a byte of it
    is worth four times as many products as one of a float."""

    far_cache_bytes: int = 5
    """Bytes a cycle that a thread of many gets of what all of them read, from the last cache or one another's."""

    short_sums: int = 64
    """Steps of sums up to which it is their stores that take most of the time: work items then have rows of outputs at
    least as long as a page."""

    block_unevenness: float = 1 / 16
    """By how much of an axis its blocks may together be too long."""

    interrupted_items: int = 16
    """Work items that a kernel whose sums wait is cut into at least, where it is large enough; half as many for so few
    rows."""

    run_bytes: tuple[int, int] = (512, 4096)
    """Bytes of what the tiles of such a work item read together at each step, at least and at most."""

    parted_times: int = 2
    """How many times larger than the other factor one is, at least, of which each thread has a part of its own."""

    part_bytes: int = 14 << 10
    """Bytes of a strip that tiles whose sums wait for one another go through at once: with the rows beside it and the
    sums they are more than the nearest cache holds, but all but a little comes from there."""

    waiting_tiles_bytes: int = 1200 << 10
    """Bytes of a strip, and of the rows that its tiles load, from which on they wait: three fifths of the second-level
    cache, which holds what is to come and what is stored, too. Of 256 and 512 channels of 64x64 3x3 convolutions take
    a tenth to a third less time (Zen 3); where both are less than that they take as long."""

    waiting_sums_bytes: int = 128 << 10
    """Bytes of the sums of a work item that wait, at most."""

    fewest_waiting_tiles: int = 8
    """Tiles that go through the same strip at least."""
