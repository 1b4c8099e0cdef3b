"""Runs of the benchmarks as files, which are compared later: JSON, a row for everything that was timed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Timing

if TYPE_CHECKING:
    from benchmarks.report import Report

KIND = "opendml benchmarks"
VERSION = 2


class UnreadableRunError(Exception):
    """A file is not a run of the benchmarks; the message says what is wrong with it."""


@dataclass(frozen=True)
class Row:
    """Something that was timed, and the timings of those who did it, by their names.

    ``whole``: the title of the row that this is a part of, whose peers tell how fast the machine was.
    """

    section: str
    name: str
    timings: dict[str, Timing]
    whole: str | None = None

    @property
    def title(self) -> str:
        """By which it is found in another run."""
        return f"{self.section}: {self.name}"


@dataclass(frozen=True)
class Run:
    """``facts``: the machine, the day and the contestants, a line each."""

    facts: tuple[str, ...]
    rows: tuple[Row, ...]


def save_run(report: Report, path: Path) -> None:
    """Write all timings of a report."""
    from benchmarks.report import facts

    rows = [
        {
            "section": row.section,
            "name": row.name,
            "timings": {name: asdict(timing) for name, timing in row.timings.items()},
            "whole": row.whole,
        }
        for row in _rows(report)
    ]
    run = {"kind": KIND, "version": VERSION, "facts": facts(report), "rows": rows}
    path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")


def _rows(report: Report) -> Iterator[Row]:
    from benchmarks.networks import SECTION
    from benchmarks.peers import OPENDML

    for result in report.results:
        yield Row(result.case.group, result.case.name, result.timings)
    for network in report.networks:
        whole = Row(SECTION, network.name, network.timings)
        yield whole
        for kernel in network.kernels:
            yield Row(f"kernels of {network.name}", kernel.title, {OPENDML: kernel.timing}, whole.title)
    for section, waits in (("one small operator", report.small), ("compilation", report.compilation)):
        for wait in waits:
            if wait.timing is not None:
                yield Row(section, wait.name, {OPENDML: wait.timing})


def load_run(path: Path) -> Run:
    """A run that was saved. Raises UnreadableRunError where the file is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableRunError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise UnreadableRunError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise UnreadableRunError(f'{path}: not a run of the benchmarks: "kind" must be "{KIND}"')
    if found.get("version") != VERSION:
        raise UnreadableRunError(f"{path}: version {found.get('version')!r}; this reads version {VERSION}")
    try:
        rows = tuple(_row(row) for row in found["rows"])
        return Run(tuple(str(fact) for fact in found["facts"]), rows)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableRunError(f"{path}: {type(error).__name__}: {error}") from None


def _row(found: dict[str, Any]) -> Row:
    timings = {str(name): _timing(timing) for name, timing in found["timings"].items()}
    whole = found["whole"]
    return Row(str(found["section"]), str(found["name"]), timings, None if whole is None else str(whole))


def _timing(found: dict[str, Any]) -> Timing:
    median, minimum, lower, upper = times = [float(found[name]) for name in ("median", "minimum", "lower", "upper")]
    if not all(math.isfinite(time) and time > 0 for time in times):
        raise ValueError(f"times must be positive numbers, got {times}")
    return Timing(median, minimum, lower, upper, int(found["rounds"]))
