"""``python -m benchmarks``: measure opendml against its peers and write the result. It takes about twenty minutes."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.cases import Case

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "docs"


def main() -> int:
    """Runs the benchmark; the status is 1 if a contestant's result was wrong or opendml failed."""
    arguments = _parser().parse_args()
    # The libraries read these when they are loaded, so nothing of the benchmark is imported before.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENDML_NUM_THREADS"):
        os.environ[variable] = str(arguments.threads)
    return _run(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure opendml against NumPy, PyTorch and ONNX Runtime. The tables are printed; a full run (about"
        " twenty minutes) also writes them as Markdown, with plots.",
    )
    parser.add_argument("--only", metavar="PATTERN", help="only cases whose 'group: name' contains or matches this")
    parser.add_argument("--quick", action="store_true", help="few rounds and few sizes: a look, not a measurement")
    parser.add_argument("--threads", type=_count, default=2, metavar="N", help="threads of every contestant (2)")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="where to write (docs, and nowhere with --only or --quick)"
    )
    parser.add_argument("--no-growth", action="store_true", help="without the plot over sizes")
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from benchmarks.cases import all_cases, growths
    from benchmarks.function_cases import function_cases
    from benchmarks.growth import QUICK_SIZES, SIZES, measure_growth
    from benchmarks.limits import measure_limits
    from benchmarks.measure import Effort, keep_freed_memory, run_case
    from benchmarks.networks import NETWORKS, measure_networks, network_versions
    from benchmarks.peers import contestants
    from benchmarks.report import Report, print_report, versions
    from benchmarks.small import measure_small

    cases = [case for case in (*all_cases(), *function_cases()) if _is_chosen(case, arguments.only)]
    if arguments.list:
        print("\n".join(case.title for case in cases))
        return 0
    keep_freed_memory()
    effort = Effort(0.15, 3) if arguments.quick else Effort(2.0, 9)
    sizes = QUICK_SIZES if arguments.quick else SIZES
    everything = arguments.only is None
    with_networks = everything or _matches("networks", arguments.only)
    with_small = everything or _matches("small operator", arguments.only)
    with_growth = (everything or _matches("growth", arguments.only)) and not arguments.no_growth
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        steps = 1 + len(cases) + with_networks * len(NETWORKS) + with_small + with_growth * len(sizes) * len(growths())
        task = progress.add_task("limits of the machine", total=steps)

        def advance(description: str) -> None:
            progress.update(task, advance=1, description=description)

        racing = contestants(arguments.threads)
        brief = Effort(effort.seconds / 4, effort.minimum_rounds)
        limits = measure_limits(racing, arguments.threads, brief)
        report = Report(versions(racing), arguments.threads)
        for section, members in groupby(cases, key=lambda case: case.group):
            for case in members:
                advance(case.title)
                report.results.append(run_case(case, racing, effort))
            # Processors that others use too are not equally fast all the time.
            limits, before = measure_limits(racing, arguments.threads, brief), limits
            report.limits[section] = before.or_better(limits)
        if with_networks:
            report.contestants += network_versions()
            report.networks = measure_networks(arguments.threads, effort, advance)
        if with_small:
            advance("small operator")
            report.small = measure_small(racing, arguments.threads, effort)
        if with_growth:
            report.growth = measure_growth(racing, sizes, Effort(effort.seconds / 2, 3), advance)
        advance("done")
    print_report(report, Console(width=None if sys.stdout.isatty() else 160))
    directory = arguments.output or (DEFAULT_OUTPUT if everything and not arguments.quick else None)
    if directory is not None:
        _write(report, directory)
    return 1 if report.faults else 0


def _write(report: object, directory: Path) -> None:
    from benchmarks.report import Report, markdown, save_plots

    assert isinstance(report, Report)
    directory.mkdir(parents=True, exist_ok=True)
    plots = save_plots(report, directory)
    (directory / "benchmarks.md").write_text(markdown(report, plots), encoding="utf-8")


def _is_chosen(case: Case, pattern: str | None) -> bool:
    return pattern is None or _matches(case.title, pattern)


def _matches(title: str, pattern: str) -> bool:
    return pattern.lower() in title.lower() or fnmatch.fnmatch(title.lower(), pattern.lower())


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError("expected a number from 1 to 1024")
    return number


if __name__ == "__main__":
    sys.exit(main())
