"""Kernels of whole rows: scans and orders (``schedule.py``, ``nests/scan.py``, ``nests/order.py``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(init=False, repr=False, eq=False, frozen=True)
class ScanKnobs:
    """What of scans and orders is done together."""

    ordered_keys: int = 16
    """Keys of an order that are looked at together at most: each gets code that appends it."""

    counted_candidates: int = 96
    """Candidates of an order that are counted against one another at most: more are ordered digit by digit."""

    gathered_candidates: int = 16
    """Candidates at least that are gathered beside those wanted before all are ordered."""

    scan_items: int = 16
    """Work items of a scan, at least, where it is large enough: fewer and longer rows are better."""

    scanned_registers: int = 4
    """Registers of state that go through a scan together: a sum waits some cycles for the one before it."""

    scanned_row_bytes: int = 16384
    """Bytes of state of the points that a work item of a scan, or of folds that wait, covers at most: half a
    first-level cache."""

    scanned_together: int = 2
    """Points of a scan that lie apart and go step by step together: a sum waits four cycles for the one before it.
    More would write to more lines at once."""
