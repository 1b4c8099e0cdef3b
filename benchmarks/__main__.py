"""``python -m benchmarks``: measure opendml against its peers and write the result, in about three quarters of an hour.

``python -m benchmarks compare BEFORE AFTER`` tells what has become slower between two runs that were saved.
"""

from __future__ import annotations

import argparse
import os
import sys
from itertools import groupby
from pathlib import Path

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "docs"


def main() -> int:
    """Runs the benchmark, or compares two runs.

    The status is 1 if a contestant's result was wrong or opendml failed, or if something has become slower.
    """
    if sys.argv[1:2] == ["compare"]:
        return _compare(_comparison_parser().parse_args(sys.argv[2:]))
    arguments = _parser().parse_args()
    # The libraries read these when they are loaded, so nothing of the benchmark is imported before.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENDML_NUM_THREADS"):
        os.environ[variable] = str(arguments.threads)
    return _run(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure opendml against NumPy, PyTorch, ONNX Runtime and OpenVINO. The tables are printed; a full"
        " run (about three quarters of an hour) also writes them as Markdown, with plots.",
        epilog="python -m benchmarks compare BEFORE AFTER compares two runs that --save has written.",
    )
    parser.add_argument("--only", metavar="PATTERN", help="only cases whose 'group: name' contains or matches this")
    parser.add_argument("--quick", action="store_true", help="few rounds and few sizes: a look, not a measurement")
    parser.add_argument(
        "--seconds", type=_seconds, default=2.0, metavar="S", help="how long a case is measured, at least 9 rounds (2)"
    )
    parser.add_argument("--threads", type=_count, default=2, metavar="N", help="threads of every contestant (2)")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="where to write (docs, and nowhere with --only or --quick)"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="write all timings to a file, for 'compare'")
    parser.add_argument("--no-growth", action="store_true", help="without the plot over sizes")
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    return parser


def _comparison_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks compare",
        description="Compare two runs that were saved with --save: what has become slower or faster beside its peers,"
        " by more than the tolerance and than the quartiles of its samples. The status is 1 if anything is slower.",
    )
    parser.add_argument("before", type=Path, metavar="BEFORE", help="the first run")
    parser.add_argument("after", type=Path, metavar="AFTER", help="the second run")
    parser.add_argument(
        "--tolerance", type=_part, default=0.05, metavar="PART", help="the part of the time that does not count (0.05)"
    )
    return parser


def _compare(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from benchmarks.comparison import print_comparison
    from benchmarks.runs import UnreadableRunError, load_run

    try:
        before, after = load_run(arguments.before), load_run(arguments.after)
    except UnreadableRunError as error:
        print(error, file=sys.stderr)
        return 2
    console = Console(width=None if sys.stdout.isatty() else 160)
    return 1 if print_comparison(before, after, arguments.tolerance, console) else 0


def _run(arguments: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from benchmarks.cases import all_cases, growths
    from benchmarks.compilation import measure_compilation
    from benchmarks.convolution_cases import convolution_cases
    from benchmarks.function_cases import function_cases
    from benchmarks.growth import QUICK_SIZES, SIZES, measure_growth
    from benchmarks.indexed_cases import indexed_cases
    from benchmarks.limits import measure_limits
    from benchmarks.matrix_cases import matrix_cases
    from benchmarks.measure import Effort, keep_freed_memory, run_case
    from benchmarks.networks import matches, measure_networks, networks
    from benchmarks.peers import contestants
    from benchmarks.quantized_cases import quantized_cases
    from benchmarks.report import Report, print_report, versions
    from benchmarks.runs import save_run
    from benchmarks.small import measure_small
    from benchmarks.special_cases import special_cases

    known = (
        *all_cases(),
        *convolution_cases(),
        *matrix_cases(),
        *quantized_cases(),
        *indexed_cases(),
        *special_cases(),
        *function_cases(),
    )
    pattern = "" if arguments.only is None else arguments.only
    cases = [case for case in known if matches(case.title, pattern)]
    chosen = [network for network in networks() if matches(network.title, pattern)]
    if arguments.list:
        print("\n".join([*(case.title for case in cases), *(network.title for network in chosen)]))
        return 0
    keep_freed_memory()
    effort = Effort(0.15, 3) if arguments.quick else Effort(arguments.seconds, 9)
    sizes = QUICK_SIZES if arguments.quick else SIZES
    everything = arguments.only is None
    with_small = matches("small operator", pattern)
    with_compilation = matches("compilation", pattern)
    with_growth = matches("growth", pattern) and not arguments.no_growth
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        steps = 1 + len(cases) + len(chosen) + with_small + with_compilation + with_growth * len(sizes) * len(growths())
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
        report.networks = measure_networks(chosen, arguments.threads, effort, advance)
        if with_small:
            advance("small operator")
            report.small = measure_small(racing, arguments.threads, effort)
        if with_compilation:
            advance("compilation")
            report.compilation = measure_compilation(arguments.threads, effort)
        if with_growth:
            report.growth = measure_growth(racing, sizes, Effort(effort.seconds / 2, 3), advance)
        advance("done")
    print_report(report, Console(width=None if sys.stdout.isatty() else 160))
    directory = arguments.output or (DEFAULT_OUTPUT if everything and not arguments.quick else None)
    if directory is not None:
        _write(report, directory)
    if arguments.save is not None:
        save_run(report, arguments.save)
    return 1 if report.faults else 0


def _write(report: object, directory: Path) -> None:
    from benchmarks.report import Report, markdown, save_plots

    assert isinstance(report, Report)
    directory.mkdir(parents=True, exist_ok=True)
    plots = save_plots(report, directory)
    (directory / "benchmarks.md").write_text(markdown(report, plots), encoding="utf-8")


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError("expected a number from 1 to 1024")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number <= 3600:
        raise argparse.ArgumentTypeError("expected seconds, more than 0 and up to 3600")
    return number


def _part(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError("expected a number from 0 to 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
