"""Two runs of the benchmarks side by side: what has become slower, what faster.

Machines differ, and so does one from hour to hour. What all peers of a row took longer, the machine took longer for; so
opendml's change is told beside theirs, and only what is beyond both the tolerance and the quartiles of its own samples
counts as slower or faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from rich.console import Console
from rich.table import Table

from benchmarks.runs import Row, Run, timed_rows
from benchmarks.timing import OPENDML, Timing

Verdict = Literal["slower", "faster", ""]


@dataclass(frozen=True)
class Change:
    """A row of both runs. ``machine``: how many times faster its peers, or those of the row that it is a part of, were
    in the second one; 1 without peers."""

    title: str
    before: Timing
    after: Timing
    machine: float

    @property
    def speedup(self) -> float:
        """How many times faster opendml has become beside its peers: below 1 it is slower."""
        return self.before.median / self.after.median / self.machine

    def verdict(self, tolerance: float) -> Verdict:
        """Whether that is more than the tolerance, a part of the time, and than what samples differ by anyway."""
        if self.speedup < 1 - tolerance and self.after.lower > self.before.upper / self.machine:
            return "slower"
        if self.speedup > 1 + tolerance and self.after.upper < self.before.lower / self.machine:
            return "faster"
        return ""


@dataclass(frozen=True)
class Comparison:
    """All rows that both runs have, and the titles of those that one of them lacks."""

    changes: tuple[Change, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def speedup(self) -> float:
        """The geometric mean."""
        return math.exp(sum(math.log(change.speedup) for change in self.changes) / len(self.changes))


def compare(before: Run, after: Run) -> Comparison:
    """The rows of opendml in two runs, matched by their titles."""
    old, new = _own_rows(before), _own_rows(after)
    machine = {row.title: _machine(row, other) for row, other in _pairs(before, after)}
    changes = tuple(_change(old[title], new[title], machine) for title in old if title in new)
    return Comparison(changes, tuple(t for t in old if t not in new), tuple(t for t in new if t not in old))


def _own_rows(run: Run) -> dict[str, Row]:
    return {row.title: row for row in timed_rows(run) if OPENDML in row.timings}


def _pairs(before: Run, after: Run) -> Iterator[tuple[Row, Row]]:
    """The rows that both runs have."""
    new = {row.title: row for row in timed_rows(after)}
    return ((row, new[row.title]) for row in timed_rows(before) if row.title in new)


def _machine(before: Row, after: Row) -> float:
    """How many times faster the peers have become."""
    peers = [name for name in before.timings if name != OPENDML and name in after.timings]
    return median(before.timings[n].median / after.timings[n].median for n in peers) if peers else 1.0


def _change(before: Row, after: Row, machine: Mapping[str, float]) -> Change:
    whole = before.title if before.whole is None else before.whole
    return Change(before.title, before.timings[OPENDML], after.timings[OPENDML], machine.get(whole, 1.0))


def print_comparison(before: Run, after: Run, tolerance: float, console: Console) -> int:
    """The comparison on a terminal; gives how many rows have become slower."""
    for name, run in (("before", before), ("after", after)):
        for fact in (*run.facts.lines, *([] if run.is_complete else [f"The run was not complete: {run.end}"])):
            console.print(f"{name}: {fact}", highlight=False, markup=False)
    found = compare(before, after)
    verdicts = [change.verdict(tolerance) for change in found.changes]
    slower = verdicts.count("slower")
    for wanted, colour in (("slower", "red"), ("faster", "green")):
        rows = [change for change, verdict in zip(found.changes, verdicts, strict=True) if verdict == wanted]
        if rows:
            console.print(_table(wanted, colour, sorted(rows, key=lambda change: change.speedup)))
    for where, titles in (("Only in the first run", found.gone), ("Only in the second run", found.new)):
        for title in titles:
            console.print(f"{where}: {title}", highlight=False, markup=False)
    console.print(_summary(found, verdicts, tolerance), highlight=False)
    return slower


def _table(title: str, colour: str, changes: Sequence[Change]) -> Table:
    table = Table(title=title, title_justify="left", title_style=f"bold {colour}")
    for column in ("row", "before", "after", "peers", "beside them"):
        table.add_column(column, justify="left" if column == "row" else "right", no_wrap=True)
    for change in changes:
        table.add_row(change.title, *_cells(change))
    return table


def _cells(change: Change) -> Iterator[str]:
    for timing in (change.before, change.after):
        yield f"{timing.median * 1e3:#.3g} ms"
    yield f"{change.machine:.2f}"
    yield f"{change.speedup:.2f}"


def _summary(found: Comparison, verdicts: Sequence[Verdict], tolerance: float) -> str:
    if not found.changes:
        return "The runs have no row in common."
    counts = f"{verdicts.count('slower')} slower, {verdicts.count('faster')} faster by more than {tolerance:.0%}"
    return f"{len(found.changes)} rows: {counts}; {found.speedup:.3f} times as fast in the geometric mean"
