"""Runs of the benchmarks: all that was measured, as files that are kept row by row, compared and reported later.

A file is JSON, and is replaced as a whole with every row that is added: whatever ends a run, its file is valid.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import opendml
from benchmarks.cases import Aim, bytes_moved, floating_point_operations, integer_operations
from benchmarks.coding import CAME_LATER, InvalidDataError, decode, encode
from benchmarks.commits import commit_of
from benchmarks.growth import Curve
from benchmarks.limits import Limits
from benchmarks.measure import Result
from benchmarks.networks import NetworkResult
from benchmarks.small import SmallResult
from benchmarks.timing import OPENDML, Outcome, Timing
from opendml.llvm.host import host_machine, usable_processors
from opendml.targets.machine_limits import MachineLimits

KIND: Final = "opendml benchmarks"
VERSION: Final = 3
LARGEST_FILE: Final = 1 << 26
"""Bytes; a run of everything has less than a fiftieth of it."""

COMPLETE: Final = "complete"
CUT_OFF: Final = "cut off"

SMALL: Final = "one small operator"
COMPILATION: Final = "compilation"
GROWTH: Final = "growth"


CHOOSING: Final = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "NPY_DISABLE_CPU_FEATURES",
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_CBWR",
)
"""Variables of the environment by which libraries take other code than the best one for a processor: figures with them
are not those of the libraries as they come."""


class UnreadableRunError(Exception):
    """A file is not a run of the benchmarks; the message says what is wrong with it."""


@dataclass(frozen=True)
class Facts:
    """What is true of a whole run. ``machine``: the processor, ``system``: what runs on it; ``contestants``: with their
    versions; ``seconds`` and ``rounds``: how long a row is measured at least; ``pattern``: which rows were chosen, all
    if it is empty; ``code``: the commit that was measured, None where that is not known; ``variables``: those of
    ``CHOOSING`` that were set, likewise."""

    machine: str
    system: str
    threads: int
    contestants: tuple[tuple[str, str], ...]
    seconds: float
    rounds: int
    date: str
    pattern: str = ""
    code: str | None = field(default=None, metadata=CAME_LATER)
    variables: tuple[str, ...] | None = field(default=None, metadata=CAME_LATER)

    @property
    def variables_told(self) -> str:
        """For readers, if there are any."""
        return f"with {', '.join(self.variables)}" if self.variables else ""

    @property
    def contestants_told(self) -> str:
        """For readers, with what chooses their code."""
        told = [f"{name} {version}" for name, version in self.contestants]
        return ", ".join([*told, self.variables_told] if self.variables else told)

    @property
    def code_told(self) -> str:
        """For readers."""
        return self.code or "commit not kept"

    @property
    def lines(self) -> list[str]:
        """For readers."""
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return [
            f"Machine: {self.machine}, {threads}; {self.system}; {self.date}",
            f"Contestants: {self.contestants_told}",
            f"Code: {self.code_told}",
            f"A row: {self.seconds:g} s, {self.rounds} rounds at least"
            + (f"; rows that match {self.pattern!r}" if self.pattern else ""),
        ]


@dataclass
class OperatorResult(Outcome):
    """A measured case, with what it computes and moves: ``operations`` of floating-point numbers, ``products`` of
    bytes, ``traffic`` in bytes."""

    section: str
    name: str
    aim: Aim
    operations: int
    products: int
    traffic: int

    @property
    def title(self) -> str:
        """By which it is chosen, and found in another run."""
        return f"{self.section}: {self.name}"

    @staticmethod
    def of(result: Result) -> OperatorResult:
        """What a run keeps of a case."""
        case, operator = result.case, result.case.operator
        return OperatorResult(
            case.group,
            case.name,
            case.aim,
            floating_point_operations(operator),
            integer_operations(operator),
            bytes_moved(operator),
            timings=result.timings,
            faults=result.faults,
            absent=result.absent,
        )


@dataclass
class Run:
    """All that a run has found. ``end``: whether that is all that it was to find, and if not, why; ``limits``: what the
    machine could do around each section of the operators, ``kernel_limits`` around the networks."""

    facts: Facts
    end: str = CUT_OFF
    limits: dict[str, Limits] = field(default_factory=dict)
    kernel_limits: MachineLimits | None = None
    operators: list[OperatorResult] = field(default_factory=list)
    networks: list[NetworkResult] = field(default_factory=list)
    small: list[SmallResult] = field(default_factory=list)
    compilation: list[SmallResult] = field(default_factory=list)
    growth: list[Curve] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether nothing ended it before its last row."""
        return self.end == COMPLETE

    @property
    def races(self) -> Sequence[OperatorResult | NetworkResult]:
        """The rows with peers."""
        return (*self.operators, *self.networks)

    @property
    def titles(self) -> list[str]:
        """Of all rows that were measured, with peers or without."""
        races = [row.title for row in self.races]
        waits = ((SMALL, self.small), (COMPILATION, self.compilation))
        curves = [f"{GROWTH}: {curve.name}" for curve in self.growth]
        return [*races, *(f"{title}: {row.name}" for title, rows in waits for row in rows), *curves]

    @property
    def finished(self) -> set[str]:
        """The titles of what need not be measured again: of single times of a run that was cut off, only tables behind
        which another one stands."""
        titles = {title for title in self.titles if not title.startswith((f"{SMALL}: ", f"{COMPILATION}: "))}
        if self.small and (self.is_complete or self.compilation or self.growth):
            titles.add(SMALL)
        if self.compilation and (self.is_complete or self.growth):
            titles.add(COMPILATION)
        return titles

    @property
    def faults(self) -> list[str]:
        """What failed or disagreed, a line each."""
        return [f"{row.title}: {name}: {what}" for row in self.races for name, what in row.faults.items()]


def facts_of_this_machine(
    contestants: Sequence[tuple[str, str]], threads: int, seconds: float, rounds: int, pattern: str
) -> Facts:
    """Of a run that begins now."""
    host, level = host_machine(), os.environ.get("OPENDML_CPU_FEATURES", "")
    features = f", no more than {level}" if level else ""
    # A run that is held to some of a machine's processors is one of that machine.
    processors, usable = os.cpu_count() or 1, usable_processors()
    held = "" if usable == processors else f", {usable} of its processors"
    return Facts(
        f"{_processor_name()} ({host.cpu_name}, {host.vector_bytes * 8}-bit vectors{features}),"
        f" {processors} processors",
        f"{platform.system()}, Python {platform.python_version()}{held}",
        threads,
        tuple(contestants),
        seconds,
        rounds,
        datetime.date.today().isoformat(),
        pattern,
        commit_of(Path(opendml.__file__).parent),
        tuple(f"{name}={os.environ[name]}" for name in CHOOSING if os.environ.get(name)),
    )


def _processor_name() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


# --------------------------------------------------------------------------------------------------------------- files


def save_run(run: Run, path: Path) -> None:
    """Put a run into the place of what the file had, at once."""
    text = json.dumps({"kind": KIND, "version": VERSION, "run": encode(run)}, indent=1, allow_nan=False)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)


def load_run(path: Path) -> Run:
    """A run that was saved. Raises UnreadableRunError where the file is none."""
    found = _parsed(path)
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise UnreadableRunError(f'{path}: not a run of the benchmarks: "kind" must be "{KIND}"')
    if found.get("version") != VERSION:
        raise UnreadableRunError(
            f"{path}: version {str(found.get('version'))[:20]}; this reads version {VERSION}: measure it again"
        )
    try:
        run: Run = decode(Run, found.get("run"), "run")
        _check(run)
    except InvalidDataError as error:
        raise UnreadableRunError(f"{path}: damaged: {error}") from None
    return run


def _parsed(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise UnreadableRunError(f"{path}: larger than {LARGEST_FILE >> 20} MiB")
        return json.loads(data)
    except OSError as error:
        raise UnreadableRunError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableRunError(f"{path}: not JSON: {error}") from None


def _check(run: Run) -> None:
    """What no type says: numbers by which others are divided, and what belongs to another place."""
    if run.facts.threads < 1:
        raise InvalidDataError("run.facts.threads: expected 1 or more")
    for row in run.operators:
        if row.section not in run.limits:
            raise InvalidDataError(f"run.limits: {row.section!r} is missing")
    for curve in run.growth:
        if not all(
            points and all(size > 0 and speed > 0 for size, speed in points) for points in curve.speeds.values()
        ):
            raise InvalidDataError(f"run.growth: {curve.name!r} needs points with positive sizes and rates")
    limits = run.kernel_limits
    if limits is None:
        if any(network.kernels for network in run.networks):
            raise InvalidDataError("run.kernel_limits: missing, but there are kernels")
        return
    rates = (*(number for copy in limits.copies for number in copy), limits.fma_peak, limits.byte_peak)
    if not limits.copies or not all(rate > 0 for rate in rates) or limits.copies != tuple(sorted(set(limits.copies))):
        raise InvalidDataError("run.kernel_limits: expected copies by size and peaks, all positive")
    if len({traffic for traffic, _ in limits.copies}) < len(limits.copies):
        raise InvalidDataError("run.kernel_limits.copies: a size stands there twice")


# ---------------------------------------------------------------------------------------------------------- comparison


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


def timed_rows(run: Run) -> Iterator[Row]:
    """A row for everything that was timed, kernels too."""
    for result in run.operators:
        yield Row(result.section, result.name, result.timings)
    for network in run.networks:
        whole = Row("networks", network.label, network.timings)
        yield whole
        for kernel in network.kernels:
            yield Row(f"kernels of {network.label}", kernel.title, {OPENDML: kernel.timing}, whole.title)
    for section, waits in ((SMALL, run.small), (COMPILATION, run.compilation)):
        for wait in waits:
            if wait.timing is not None:
                yield Row(section, wait.name, {OPENDML: wait.timing})
