"""Several runs as one page: a part for each machine and number of threads, rows in the order of the page.

Where a row was measured more than once the later file's stands. Limits are the best that any of the runs has measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from benchmarks.limits import Limits, better
from benchmarks.runs import COMPLETE, Facts, Run

Row = TypeVar("Row")


@dataclass(frozen=True)
class Source:
    """A saved run, and what its file is called."""

    name: str
    run: Run


@dataclass
class Part:
    """What was measured on a machine with a number of threads. ``run`` has all of it; ``repeated``: the titles of rows
    that an earlier source has too, by the source whose row stands."""

    run: Run
    sources: list[Source]
    repeated: dict[str, list[str]] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Of every contestant."""
        return self.run.facts.threads


def merge(sources: Sequence[Source], order: Mapping[str, int]) -> dict[str, list[Part]]:
    """The parts by their machines, in order of the first source of each, and of their numbers of threads; ``order`` has
    the places of known rows."""
    found: dict[tuple[str, int], list[Source]] = {}
    for source in sources:
        facts = source.run.facts
        found.setdefault((facts.machine, facts.threads), []).append(source)
    machines: dict[str, list[Part]] = {}
    for machine, threads in sorted(found, key=lambda key: key[1]):
        machines.setdefault(machine, []).append(_part(found[machine, threads], order))
    return {source.run.facts.machine: machines[source.run.facts.machine] for source in sources}


def _part(sources: Sequence[Source], order: Mapping[str, int]) -> Part:
    runs = [source.run for source in sources]

    def place(title: str) -> int:
        return order.get(title, len(order))

    run = Run(
        _facts(runs),
        COMPLETE if all(one.is_complete for one in runs) else "",
        limits=_limits(runs),
        operators=_latest([one.operators for one in runs], lambda row: row.title, place),
        networks=_latest([one.networks for one in runs], lambda row: row.title, place),
        small=_latest([one.small for one in runs], lambda row: row.name, lambda name: 0),
        compilation=_latest([one.compilation for one in runs], lambda row: row.name, lambda name: 0),
        growth=_latest([one.growth for one in runs], lambda curve: curve.name, lambda name: 0),
    )
    for one in runs:
        run.kernel_limits = better(run.kernel_limits, one.kernel_limits)
    part, seen = Part(run, list(sources)), set[str]()
    for source in sources:
        titles = source.run.titles
        if again := [title for title in titles if title in seen]:
            part.repeated.setdefault(source.name, []).extend(again)
        seen.update(titles)
    return part


def _latest(tables: Sequence[Sequence[Row]], title: Callable[[Row], str], place: Callable[[str], int]) -> list[Row]:
    rows = {title(row): row for table in tables for row in table}
    return sorted(rows.values(), key=lambda row: place(title(row)))


def _limits(runs: Sequence[Run]) -> dict[str, Limits]:
    found: dict[str, Limits] = {}
    for run in runs:
        for section, limits in run.limits.items():
            found[section] = found.get(section, Limits()).or_better(limits)
    return found


def _facts(runs: Sequence[Run]) -> Facts:
    """Those of the last one, with everybody who took part in any."""
    last = runs[-1].facts
    everybody = dict.fromkeys(member for run in reversed(runs) for member in run.facts.contestants)
    return replace(last, contestants=tuple(everybody))
