"""A run: the chosen rows one after the other, each kept as soon as it is measured."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

from benchmarks.cases import Case
from benchmarks.compilation import measure_compilation
from benchmarks.growth import measure_growth
from benchmarks.limits import Needs, Watch, better, watch
from benchmarks.measure import Effort, run_case
from benchmarks.networks import measure_network
from benchmarks.peers import Contestant
from benchmarks.runs import COMPLETE, CUT_OFF, OperatorResult, Run, save_run
from benchmarks.selection import Selection
from benchmarks.small import measure_small

Row = TypeVar("Row")

SIGNALS: Final = ("SIGTERM", "SIGHUP")
"""What ends a process beside Ctrl-C, where the system has it."""


class CutOffError(BaseException):
    """The run is to end before its last row; the message says why. No contestant's error: none catches it."""


@dataclass
class Keeper:
    """Keeps a run row by row: in its file, if it has one, and within its time, if that is bounded. ``clock`` gives
    seconds."""

    run: Run
    path: Path | None = None
    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._begin = self.clock()

    def keep(self) -> None:
        """Whatever has been measured now stays. Raises CutOffError where the time is over."""
        if self.path is not None:
            save_run(self.run, self.path)
        if self.seconds is not None and self.clock() - self._begin >= self.seconds:
            raise CutOffError(f"its {self.seconds / 60:g} minutes were over")

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """A run that is whole when nothing cuts it off, and says what did."""
        with _raised():
            try:
                yield
                self.run.end = COMPLETE
            except KeyboardInterrupt:
                self.run.end = f"{CUT_OFF} by Ctrl-C"
            except CutOffError as reason:
                self.run.end = f"{CUT_OFF}: {reason}"
            except BaseException as error:
                self.run.end = f"{CUT_OFF} by {type(error).__name__}: {error}"
                raise
            finally:
                if self.path is not None and self.run.titles:
                    save_run(self.run, self.path)


@contextmanager
def _raised() -> Iterator[None]:
    """Signals that would end the process at once are raised as errors."""

    def cut_off(number: int, _: FrameType | None) -> None:
        raise CutOffError(signal.Signals(number).name)

    known = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    before = {number: signal.signal(number, cut_off) for number in known}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def measure(
    chosen: Selection,
    keeper: Keeper,
    racing: Sequence[Contestant],
    effort: Effort,
    sizes: Sequence[int],
    advance: Callable[[str], None],
) -> None:
    """All that is chosen, one row after the other."""
    run = keeper.run
    threads = run.facts.threads
    limits = watch(racing, threads, Effort(effort.seconds / 4, effort.minimum_rounds))
    for section, cases in chosen.sections.items():
        advance(f"limits: {section}")
        _measure_section(section, cases, keeper, limits, lambda case: _raced(case, racing, effort, advance))
    for network in chosen.networks:
        advance(network.title)
        result, found = measure_network(network, threads, effort)
        run.networks.append(result)
        run.kernel_limits = better(run.kernel_limits, found)
        keeper.keep()
    if chosen.with_small:
        advance("small operator")
        _keep_each(measure_small(racing, threads, effort), run.small, keeper)
    if chosen.with_compilation:
        _keep_each(measure_compilation(threads, effort, progress=advance), run.compilation, keeper)
    brief = Effort(effort.seconds / 2, 3)
    _keep_each(measure_growth(chosen.growths, racing, sizes, brief, advance), run.growth, keeper)


def _raced(case: Case, racing: Sequence[Contestant], effort: Effort, advance: Callable[[str], None]) -> OperatorResult:
    advance(case.title)
    return OperatorResult.of(run_case(case, racing, effort))


def _measure_section(
    section: str, cases: Sequence[Case], keeper: Keeper, watch: Watch, race: Callable[[Case], OperatorResult]
) -> None:
    """The rows of a section between measurements of what the machine can do."""
    run, needs = keeper.run, Needs.of(cases)
    run.limits[section] = watch.before(needs)
    for case in cases:
        result = race(case)
        run.limits[section] = run.limits[section].or_better(watch.between(needs))
        run.operators.append(result)
        keeper.keep()
    run.limits[section] = run.limits[section].or_better(watch.after(needs))
    keeper.keep()


def _keep_each(rows: Iterable[Row], table: list[Row], keeper: Keeper) -> None:
    for row in rows:
        table.append(row)
        keeper.keep()
