"""How work items are dealt out: which of them to whoever is done first, and how often a thread looks whether it is to
go on."""

from __future__ import annotations

from opendml.targets.cpu.tuning import Tuning


def look_of(count: int, work: int, tuning: Tuning) -> int | None:
    """Of ``count`` work items with so much ``work`` together, how many a thread does between two looks; None: it needs
    none."""
    run = max(tuning.work_between_looks * count // max(work, 1), 1)
    return run if run < count else None


def pool_of(count: int, work: int, tuning: Tuning) -> int:
    """Of ``count`` work items with so much ``work`` together, how many are for whichever thread is done first."""
    return int(count * tuning.pooled_part) if work >= tuning.pooled_work else 0
