"""``python -m benchmarks``: measure opendml against its peers, in about an hour.

``python -m benchmarks report FILE...`` makes the page of runs that were saved; ``python -m benchmarks compare BEFORE
AFTER`` tells what has become slower between two.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "docs"


def main() -> int:
    """Runs the benchmark, reports saved runs or compares two.

    The status is 1 if a contestant's result was wrong or opendml failed, or if something has become slower; 2 if the
    arguments or files are wrong; 3 if the run was cut off.
    """
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    commands = {"compare": (_comparison_parser, _compare), "report": (_report_parser, _report)}
    parser, run = commands.get(command, (_parser, _run))
    arguments = parser().parse_args(sys.argv[2:] if command in commands else sys.argv[1:])
    if run is _run:
        # The libraries read these when they are loaded, so nothing of the benchmark is imported before.
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENDML_NUM_THREADS"):
            os.environ[variable] = str(arguments.threads)
    from benchmarks.runs import UnreadableRunError

    try:
        return run(arguments)
    except UnreadableRunError as error:
        _say(str(error))
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure opendml against NumPy, PyTorch, ONNX Runtime and OpenVINO, in about an hour. The tables"
        " are printed; --save keeps them row by row, whatever ends the run.",
        epilog="python -m benchmarks report FILE... makes the page of saved runs;"
        " python -m benchmarks compare BEFORE AFTER compares two.",
    )
    parser.add_argument("--only", metavar="PATTERN", help="only rows whose 'section: name' contains or matches this")
    parser.add_argument("--quick", action="store_true", help="few rounds and few sizes: a look, not a measurement")
    parser.add_argument(
        "--seconds", type=_seconds, default=2.0, metavar="S", help="how long a row is measured, at least 9 rounds (2)"
    )
    parser.add_argument("--threads", type=_count, default=2, metavar="N", help="threads of every contestant (2)")
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="keep every row in a file as soon as it is measured, for the others"
    )
    parser.add_argument(
        "--skip",
        type=Path,
        metavar="FILE",
        nargs="+",
        default=[],
        help="without the rows that these saved runs have for as many threads: goes on with a run that was cut off",
    )
    parser.add_argument(
        "--minutes", type=_minutes, metavar="M", help="end the run behind the row in which so much time has passed"
    )
    parser.add_argument("--no-growth", action="store_true", help="without the plot over sizes")
    parser.add_argument("--list", action="store_true", help="list the rows and end")
    return parser


def _report_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks report",
        description="Make a page of the benchmarks, benchmarks.md with its plots in images/, of runs that were saved"
        " with --save: machine by machine, numbers of threads side by side. Where a row was measured more than once the"
        " later file's stands.",
    )
    parser.add_argument("runs", type=Path, metavar="FILE", nargs="+", help="a saved run")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", default=DEFAULT_OUTPUT, help="where to write (docs of this repository)"
    )
    parser.add_argument(
        "--name", type=_page_name, metavar="NAME", default="benchmarks", help="write NAME.md and images/NAME-*.png"
    )
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
    from benchmarks.runs import load_run

    before, after = load_run(arguments.before), load_run(arguments.after)
    console = Console(width=None if sys.stdout.isatty() else 160)
    return 1 if print_comparison(before, after, arguments.tolerance, console) else 0


def _report(arguments: argparse.Namespace) -> int:
    from benchmarks.merging import Source
    from benchmarks.page import write_page
    from benchmarks.runs import load_run

    names = [path.name for path in arguments.runs]
    sources = [
        Source(name if names.count(name) == 1 else f"{name} ({number})", load_run(path))
        for number, (name, path) in enumerate(zip(names, arguments.runs, strict=True), 1)
    ]
    print(f"written: {write_page(sources, arguments.output, arguments.name)}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from benchmarks.growth import QUICK_SIZES, SIZES
    from benchmarks.measure import Effort, keep_freed_memory
    from benchmarks.peers import contestants
    from benchmarks.report import print_report
    from benchmarks.running import Keeper, measure
    from benchmarks.runs import Run, facts_of_this_machine, load_run
    from benchmarks.selection import select

    pattern = arguments.only or ""
    earlier = [load_run(path) for path in arguments.skip]
    measured = {title for run in earlier if run.facts.threads == arguments.threads for title in run.finished}
    chosen = select(pattern, measured, not arguments.no_growth)
    titles = list(chosen.titles)
    if not titles:
        _say(f"no row matches {pattern!r} that is not skipped; --list names all" if measured else _unmatched(pattern))
        return 2
    if arguments.list:
        print("\n".join(titles))
        return 0
    if arguments.save is not None and not arguments.save.resolve().parent.is_dir():
        _say(f"--save: {arguments.save.parent} is no directory")
        return 2
    keep_freed_memory()
    effort = Effort(0.15, 3) if arguments.quick else Effort(arguments.seconds, 9)
    racing = contestants(arguments.threads)
    versions = [(contestant.name, contestant.version) for contestant in racing]
    run = Run(facts_of_this_machine(versions, arguments.threads, effort.seconds, effort.minimum_rounds, pattern))
    if run.facts.variables:
        _say(f"not the best that contestants can do: {run.facts.variables_told}")
    keeper = Keeper(run, arguments.save, None if arguments.minutes is None else arguments.minutes * 60)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress, keeper.keeping():
        task = progress.add_task("", total=len(titles))

        def advance(description: str) -> None:
            rows = len(run.races) + len(run.growth) + bool(run.small) + bool(run.compilation)
            progress.update(task, completed=rows, description=description)

        measure(chosen, keeper, racing, effort, QUICK_SIZES if arguments.quick else SIZES, advance)
        advance("done")
    print_report(run, Console(width=None if sys.stdout.isatty() else 160))
    if not run.is_complete:
        kept = f"; {arguments.save} has them" if arguments.save is not None and run.titles else ""
        count = len(run.titles)
        _say(f"the run was {run.end}; it has measured {count} row{'' if count == 1 else 's'}{kept}")
        return 3
    return 1 if run.faults else 0


def _unmatched(pattern: str) -> str:
    return f"no row matches {pattern!r}; --list names all" if pattern else "nothing is chosen"


def _say(message: str) -> None:
    print(f"benchmarks: {message}", file=sys.stderr)


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


def _minutes(text: str) -> float:
    number = float(text)
    if not 0 < number <= 1440:
        raise argparse.ArgumentTypeError("expected minutes, more than 0 and up to 1440")
    return number


def _page_name(text: str) -> str:
    if not re.fullmatch(r"\w+", text):
        raise argparse.ArgumentTypeError("expected letters, digits and underscores")
    return text


def _part(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError("expected a number from 0 to 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
