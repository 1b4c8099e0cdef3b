"""Statements that are computed block by block, so that what one writes is near when the next reads it
(``refine/row_blocks.py``, ``refine/blocks_of_channels.py``, ``refine/groups_apart.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class StatementBlockKnobs:
    """Sizes of blocks, and from which sizes on there are any."""

    rows_at_once: int = 1 << 16
    """Elements between two products up to which all are computed at once, one statement after the other, by all
    threads."""

    block_elements: int = 1 << 16
    """Elements between two products that a block of rows has: 256 KiB of float32, and as much for what is made of them,
    stay in a second-level cache. There are ``items`` blocks, at least, where there are rows enough."""

    fewest_rows: int = 14
    """Rows of a block at least, however long, and of which a block has whole multiples: as many share what a product
    loads on the widest processors."""

    kept_channels_bytes: int = 512 << 10
    """Bytes that a block of channels has between a product and the windows over it: they stay in a second-level cache,
    beside what the product reads."""

    fewest_kept_channels: int = 8
    """Channels of such a block at least: as many share what the product loads."""

    most_kept_channels: int = 32
    """Channels of such a block at most: more make nothing faster, and leave shares that are less even."""

    most_kept_steps: int = 160
    """Steps of sums over windows up to which these are done for a block of channels, as those of a network's first
    convolution: what more steps read is no longer near when the next block wants it."""

    kept_window_channels: int = 16
    """Channels of such a block: as many as the widest registers have lanes."""

    kept_window_bytes: int = 1 << 20
    """Bytes that such a block has between the sums and the windows over them: half a second-level cache, as what the
    sums read comes but once for each block."""

    blocks_of_channels: int = 64
    """Such blocks at least, four for each of sixteen threads: these share them out in whole ones. Where sums over
    windows come first half as many do."""

    fewest_kept_bytes: int = 1 << 20
    """Bytes of all blocks from which on they are not all in caches anyway."""

    fewest_kept_points: int = 512
    """Points of an image from which on vectors along them leave few lanes over, where images are done one by one."""

    groups_apart_bytes: int = 24 << 20
    """Bytes of what folds of groups and the groups' elements read from which on both are done group by group: fewer
    are in a last cache when they are read again, and all threads share out either evenly."""

    group_apart_bytes: int = 2 << 20
    """Bytes of a group up to which that is done: a thread's part of a last cache holds them."""

    group_row_bytes: int = 4096
    """How far the rows of groups lie apart at least: shorter ones fill no pages, of which processors read ahead."""

    uneven_groups: float = 1 / 8
    """By how much of all groups the shares of the threads may together be too many."""
