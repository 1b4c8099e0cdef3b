"""A run on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.runs import Run
from benchmarks.tables import (
    KERNEL_COLUMNS,
    WAIT_HEADER,
    absences,
    below_aim,
    cells,
    header,
    kernel_rows,
    limits_fact,
    mean_ratio,
    network_cells,
    network_header,
    ratio_cell,
    sections_of,
    shortfalls,
    taking_part,
    wait_cells,
    waits,
)


def print_report(run: Run, console: Console) -> None:
    """All that a run has found."""
    for line in run.facts.lines:
        console.print(line, highlight=False, markup=False)
    for section, results in sections_of(run).items():
        names, limits = taking_part(results), run.limits[section]
        losing = [bool(shortfalls(result, limits)) for result in results]
        rows = [cells(result, names, limits) for result in results]
        console.print(_table(f"{section} ({limits_fact(limits)})", header(names), rows, losing))
    if run.networks:
        _print_networks(run, console)
    for title, found in waits(run):
        losing = [row.is_met is False for row in found]
        console.print(_table(title.lower(), WAIT_HEADER, [wait_cells(row) for row in found], losing))
    for title, lines in (("Below the aim", below_aim(run)), ("Faults", run.faults)):
        if lines:
            console.print(f"[bold]{title}[/bold]")
            for line in lines:
                console.print(f"  {line}", highlight=False, markup=False)


def _print_networks(run: Run, console: Console) -> None:
    rows = [network_cells(network, run.facts.threads, run.kernel_limits) for network in run.networks]
    console.print(_table("networks", network_header(), rows))
    console.print(f"Ratio in the geometric mean: {ratio_cell(mean_ratio(run.networks))}.", highlight=False)
    for network in run.networks:
        if run.kernel_limits is not None and network.kernels:
            found = kernel_rows(network, run.kernel_limits)
            kernels = [[title, str(count), *told] for title, (count, told) in found.items()]
            console.print(_table(f"kernels of {network.label}", ["kernel", "count", *KERNEL_COLUMNS], kernels))
    for note in absences((network.label, network) for network in run.networks):
        console.print(f"  {note}", highlight=False, markup=False)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], losing: Iterable[bool] = ()) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    marks = list(losing)
    for number, row in enumerate(rows):
        table.add_row(*row, style="yellow" if marks and marks[number] else None)
    return table
