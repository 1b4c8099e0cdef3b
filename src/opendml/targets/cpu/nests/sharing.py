"""How work items are dealt out: which of them to whoever is done first, and how often a thread looks whether it is to
go on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from opendml.loops.nest import Body, Cut, Items
from opendml.targets.cpu.tuning import Tuning


class Shared(Protocol):
    """A kernel, as far as its work items go."""

    @property
    def item_count(self) -> int:
        """How many there are."""

    @property
    def serial(self) -> bool:
        """Whether one thread does all of them."""


def look_of(count: int, work: int, tuning: Tuning) -> int | None:
    """Of ``count`` work items with so much ``work`` together, how many a thread does between two looks; None: it needs
    none."""
    run = max(tuning.work_between_looks * count // max(work, 1), 1)
    return run if run < count else None


def shared_items(cuts: Iterable[Cut], body: Body, kernel: Shared, work: int, tuning: Tuning) -> Items:
    """The work items of a kernel, of so much ``work`` together; of a large one some of every share are for whichever
    thread is done first."""
    count = kernel.item_count
    pool = int(count * tuning.pooled_part) if work >= tuning.pooled_work and not kernel.serial else 0
    taken = max(-(-pool // tuning.pooled_runs), 1)
    return Items(tuple(cuts), body, kernel.serial, look_of(count, work, tuning), pool, taken)
