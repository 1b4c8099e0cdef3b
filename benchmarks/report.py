"""The result for readers: tables on the terminal and in Markdown, and plots."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import geometric_mean, median

from rich.console import Console
from rich.table import Table

from benchmarks.cases import Aim, Case, bytes_moved, floating_point_operations, integer_operations
from benchmarks.growth import Curve
from benchmarks.limits import Copy, Limits
from benchmarks.measure import Outcome, Result
from benchmarks.networks import CONTESTANTS, QUANTIZED_SPREAD, SECTION, Kernel, NetworkResult
from benchmarks.peers import EAGER, OPENDML, Contestant
from benchmarks.small import SmallResult
from benchmarks.timing import Timing
from opendml.llvm.host import host_machine


@dataclass
class Report:
    """All that a run has found."""

    contestants: list[tuple[str, str]]
    threads: int
    limits: dict[str, Limits] = field(default_factory=dict)
    """What the machine could do around each section."""
    results: list[Result] = field(default_factory=list)
    networks: list[NetworkResult] = field(default_factory=list)
    small: list[SmallResult] = field(default_factory=list)
    compilation: list[SmallResult] = field(default_factory=list)
    growth: list[Curve] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """What failed or disagreed, a line each."""
        outcomes = [(r.case.title, r) for r in self.results] + [(f"network: {r.name}", r) for r in self.networks]
        return [f"{title}: {name}: {what}" for title, r in outcomes for name, what in r.faults.items()]

    @property
    def below_aim(self) -> list[str]:
        """The rows that do not reach their aim."""
        missed = ((r.case.title, shortfalls(r, self.limits[r.case.group])) for r in self.results)
        rows = [f"{title}: {', '.join(found)}" for title, found in missed if found]
        rows += [f"{SECTION}: {r.name}: ratio {ratio:.2f} < {NETWORK_AIM:g}" for r, ratio in _behind(self.networks)]
        waits = (*self.small, *self.compilation)
        slow = [f"{s.name}: {_duration(s.timing.median)}" for s in waits if s.timing and s.is_met is False]
        return rows + slow


def versions(contestants: Sequence[Contestant]) -> list[tuple[str, str]]:
    """Names and versions for a report."""
    return [(contestant.name, contestant.version) for contestant in contestants]


def shortfalls(result: Result, limits: Limits) -> list[str]:
    """Which parts of its aim a case misses."""
    aim, ratio, share = result.case.aim, result.ratio(), _share(result, limits)
    missed = []
    if aim.ratio is not None and ratio is not None and round(ratio, 2) < aim.ratio:
        missed.append(f"ratio {ratio:.2f} < {aim.ratio:g}")
    if aim.share is not None and share is not None and round(share, 2) < aim.share:
        missed.append(f"share {share:.0%} < {aim.share:.0%}")
    eager = result.ratio_to(EAGER)
    if aim.eager is not None and eager is not None and round(eager, 2) < aim.eager:
        missed.append(f"{eager:.2f} < {aim.eager:g} times {EAGER}")
    return missed


# -------------------------------------------------------------------------------------------------------------- tables


def print_report(report: Report, console: Console) -> None:
    """The result on a terminal."""
    for line in facts(report):
        console.print(line, highlight=False)
    for group, results in _groups(report):
        names, limits = _taking_part(results, report), report.limits[group]
        table = Table(title=f"{group} ({_limits_fact(limits)})", title_justify="left", title_style="bold")
        for column in _header(names):
            table.add_column(column, justify="left" if column == "case" else "right", no_wrap=True)
        for result in results:
            losing = bool(shortfalls(result, limits))
            table.add_row(*_cells(result, names, limits), style="yellow" if losing else None)
        console.print(table)
    if report.networks:
        table = Table(title="networks", title_justify="left", title_style="bold")
        for column in _network_header():
            table.add_column(column, justify="left" if column == "network" else "right", no_wrap=True)
        for network in report.networks:
            table.add_row(*_network_cells(network))
        console.print(table)
        console.print(_geometric_mean(report.networks), highlight=False)
        for network in report.networks:
            table = Table(title=f"kernels of {network.name}", title_justify="left")
            for column in _KERNEL_HEADER:
                table.add_column(column, justify="left" if column == "kernel" else "right", no_wrap=True)
            for cells in _kernel_rows(network):
                table.add_row(*cells)
            console.print(table)
        for note in _network_notes(report):
            console.print(f"  {note}", highlight=False, markup=False)
    for title, waits in _waits(report):
        table = Table(title.lower(), "median", "minimum", "aim", title_justify="left")
        for row in waits:
            table.add_row(*_small_cells(row), style="yellow" if row.is_met is False else None)
        console.print(table)
    for title, lines in (("Below the aim", report.below_aim), ("Faults", report.faults)):
        if lines:
            console.print(f"[bold]{title}[/bold]")
            for line in lines:
                console.print(f"  {line}", highlight=False, markup=False)


def markdown(report: Report, plots: Sequence[str]) -> str:
    """The result as a page."""
    lines = ["# Benchmarks", "", "Made by `python -m benchmarks`; `--help` says how to run a part of it.", ""]
    lines += [f"- {fact}" for fact in facts(report)]
    lines += ["", *_EXPLANATION, ""]
    for group, results in _groups(report):
        names, limits = _taking_part(results, report), report.limits[group]
        lines += [
            f"## {group[0].upper()}{group[1:]}",
            "",
            f"{_limits_fact(limits)}.",
            "",
            *_rows(_header(names), [_cells(result, names, limits) for result in results]),
        ]
    if report.networks:
        lines += ["## Networks", "", _NETWORKS_EXPLANATION, ""]
        lines += _rows(_network_header(), [_network_cells(network) for network in report.networks])
        lines += [_geometric_mean(report.networks), ""]
        lines += [f"- {note}" for note in _network_notes(report)]
        lines += [""] if _network_notes(report) else []
        lines += ["## Kernels of the networks", "", _KERNELS_EXPLANATION, ""]
        for network in report.networks:
            lines += [f"### {network.name}", "", *_rows(_KERNEL_HEADER, _kernel_rows(network))]
    for title, waits in _waits(report):
        lines += [f"## {title}", ""]
        lines += _rows(["what", "median", "minimum", "aim"], [_small_cells(row) for row in waits])
    if plots:
        lines += ["## Growth with size and ratios", "", *(f"![{Path(plot).stem}]({plot})\n" for plot in plots)]
    for title, found in (("Below the aim", report.below_aim), ("Faults", report.faults)):
        if found:
            lines += [f"## {title}", "", *(f"- {line}" for line in found), ""]
    return "\n".join(lines).rstrip() + "\n"


_EXPLANATION = (
    "Times are medians in milliseconds. All contestants of a row work on the same arrays and take turns, and their"
    " results have been compared. Peers write into given outputs where their interface allows it; where it does not,"
    " memory that they free is kept for their next call. Where a peer can do an operator in several ways the fastest"
    " one is taken; `-` means that it has none.",
    "",
    "`ratio` is the best peer's time divided by opendml's: above 1 opendml is faster; `of minima` is the same for the"
    " shortest times. `rate` counts every input once and every output once (for strided slices the cache lines that"
    " hold a selected element); `share` is that of the copy that"
    " moves about as many bytes, of the FMA peak for GEMM and convolution, or of the"
    " peak of products of bytes. They are measured before and after each"
    " section, since shared processors are not equally fast all the time; the better ones count. Copies are opendml's"
    " own where nobody else's is named, bytes read and written.",
)


_NETWORKS_EXPLANATION = (
    "PyTorch modules (`benchmarks/architectures`, `examples/networks`) with random parameters; milliseconds a run,"
    " medians. opendml, ONNX Runtime and OpenVINO run what `torch.onnx.export` makes of them; OpenVINO is told to"
    " compute in float32, and in float16 for the networks whose numbers are. PyTorch has its channels first or last,"
    " whichever is faster; `torch.compile` has the parameters as constants (freezing). Quantised networks (int8) round"
    " in other places in every library, so they are compared by how far their results are from those in float32, root"
    f" of the mean square: at most {QUANTIZED_SPREAD - 1:.0%} farther or nearer than opendml's. `of limits` is the part"
    " of the time of opendml's kernels that the machine needs at least."
)


_KERNELS_EXPLANATION = (
    "Where the time of opendml's programs goes. Kernels that compute the same for the same sizes are one row: `time` is"
    " that of all of them, `share` their part of the time of all kernels, `of its limit` the part of their time that"
    " the machine needs at least to move the bytes or to compute, whichever is longer. A kernel whose tensors are still"
    " in a near cache may be above 100%."
)

_KERNEL_HEADER = ["kernel", "count", "time", "share", "of its limit"]

SMALL_SHARE = 0.005
"""Kernels of a network with less than this part of its time are one row of the page."""

NETWORK_AIM = 1.1
"""How many times faster than its best peer a network is to be."""


def _kernel_rows(network: NetworkResult) -> list[list[str]]:
    small = [kernel for kernel in network.kernels if kernel.share < SMALL_SHARE]
    rows = [_kernel_cells(kernel) for kernel in network.kernels if kernel.share >= SMALL_SHARE]
    return [*rows, _kernel_cells(_all_others(small))] if small else rows


def _all_others(kernels: Sequence[Kernel]) -> Kernel:
    share = sum(kernel.share for kernel in kernels)
    needed = sum(kernel.share * kernel.efficiency for kernel in kernels)
    timing = Timing.of([sum(kernel.timing.minimum for kernel in kernels)])
    count = sum(kernel.count for kernel in kernels)
    return Kernel("all others", count, timing, share, needed / share if share else 0.0)


def _kernel_cells(kernel: Kernel) -> list[str]:
    time = _duration(kernel.timing.minimum)
    return [kernel.title, str(kernel.count), time, f"{kernel.share:.1%}", f"{kernel.efficiency:.0%}"]


def _behind(networks: Sequence[NetworkResult]) -> Iterator[tuple[NetworkResult, float]]:
    for result in networks:
        ratio = result.ratio()
        if ratio is not None and round(ratio, 2) < NETWORK_AIM:
            yield result, ratio


def _geometric_mean(networks: Sequence[NetworkResult]) -> str:
    ratios = [ratio for ratio in (result.ratio() for result in networks) if ratio is not None]
    return f"Ratio in the geometric mean: {geometric_mean(ratios):.2f}." if ratios else "No peer took part."


def facts(report: Report) -> list[str]:
    """The machine, the day and the contestants, a line each."""
    host = host_machine()
    peers = ", ".join(f"{name} {version}" for name, version in report.contestants)
    threads = f"{report.threads} thread{'s' if report.threads > 1 else ''}"
    return [
        f"Machine: {_processor_name()} ({host.cpu_name}, {host.vector_bytes * 8}-bit vectors), {threads};"
        f" {platform.system()}, Python {platform.python_version()}; {datetime.date.today().isoformat()}",
        f"Contestants: {peers}",
    ]


def _limits_fact(limits: Limits) -> str:
    copies = ", ".join(_copy_fact(copy) for copy in limits.copies)
    peaks = f"FMA peak: {limits.fma_peak / 1e9:.0f} GFLOP/s; products of bytes: {limits.byte_peak / 1e9:.0f} GOP/s"
    return f"Copies: {copies}; {peaks}"


def _copy_fact(copy: Copy) -> str:
    by = "" if copy.by == OPENDML else f" ({copy.by})"
    return f"{copy.bandwidth / 1e9:.1f} GB/s moving {copy.traffic >> 20} MiB{by}"


def _processor_name() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _groups(report: Report) -> Iterator[tuple[str, list[Result]]]:
    """The results of each section of the table."""
    for group, results in groupby(report.results, key=lambda result: result.case.group):
        yield group, list(results)


def _taking_part(results: Sequence[Result], report: Report) -> list[str]:
    """The contestants that have a column: those that can do one of the cases at least."""
    return [n for n, _ in report.contestants if any(n in result.timings or n in result.faults for result in results)]


def _header(names: Sequence[str]) -> list[str]:
    return ["case", *names, "ratio", "of minima", "rate", "share", "aim"]


def _cells(result: Result, names: Sequence[str], limits: Limits) -> list[str]:
    times = [_time_cell(result, name) for name in names]
    ratio, minima, share = result.ratio(), result.ratio("minimum"), _share(result, limits)
    return [
        result.case.name,
        *times,
        "-" if ratio is None else f"{ratio:.2f}",
        "-" if minima is None else f"{minima:.2f}",
        _rate(result),
        "-" if share is None else f"{share:.0%}",
        _aim_cell(result, limits),
    ]


def _time_cell(result: Outcome, name: str) -> str:
    timing = result.timings.get(name)
    if timing is not None:
        return f"{timing.median * 1e3:#.3g}".rstrip(".")
    fault = result.faults.get(name)
    return "-" if fault is None else "differs" if fault == "differs" else "fails"


def _rate(result: Result) -> str:
    if result.own is None:
        return "-"
    operations, products = floating_point_operations(result.case.operator), integer_operations(result.case.operator)
    if operations or products:
        return f"{(operations or products) / result.own.median / 1e9:.0f} {'GFLOP/s' if operations else 'GOP/s'}"
    return f"{bytes_moved(result.case.operator) / result.own.median / 1e9:.1f} GB/s"


def _share(result: Result, limits: Limits) -> float | None:
    """The share of the limit that matters for the operator."""
    if result.own is None:
        return None
    operations, products = floating_point_operations(result.case.operator), integer_operations(result.case.operator)
    if operations or products:
        return max(operations / limits.fma_peak, products / limits.byte_peak) / result.own.median
    traffic = bytes_moved(result.case.operator)
    return traffic / result.own.median / limits.copy_bandwidth(traffic)


def _aim_cell(result: Result, limits: Limits) -> str:
    if result.own is None or not _has_aim(result.case):
        return ""
    return "; ".join(shortfalls(result, limits)) or "met"


def _has_aim(case: Case) -> bool:
    return case.aim != Aim()


def _network_header() -> list[str]:
    return ["network", *CONTESTANTS, "ratio", "of minima", "of limits"]


def _network_cells(result: NetworkResult) -> list[str]:
    ratios = [result.ratio(), result.ratio("minimum")]
    times = [_time_cell(result, name) for name in CONTESTANTS]
    limits = "-" if result.efficiency is None else f"{result.efficiency:.0%}"
    return [result.name, *times, *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios), limits]


def _network_notes(report: Report) -> list[str]:
    """Who did not take part, and why."""
    reasons = ((name, why, r.name) for r in report.networks for name, why in r.absent.items())
    return list(
        dict.fromkeys(f"{name}: {why}" if "installed" in why else f"{name}, {net}: {why}" for name, why, net in reasons)
    )


def _waits(report: Report) -> list[tuple[str, list[SmallResult]]]:
    """The tables of single times that are not empty, with their titles."""
    tables = (("One small operator", report.small), ("Compilation", report.compilation))
    return [(title, rows) for title, rows in tables if rows]


def _small_cells(row: SmallResult) -> list[str]:
    aim = "" if row.aim is None else f"under {_duration(row.aim)}: {'met' if row.is_met else 'missed'}"
    if row.timing is None:
        return [row.name, "-", "-", ""]
    return [row.name, _duration(row.timing.median), _duration(row.timing.minimum), aim]


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)] + [""]


# --------------------------------------------------------------------------------------------------------------- plots

_COLOURS = {
    OPENDML: "#c0392b",
    "NumPy": "#7f8c8d",
    "PyTorch": "#e67e22",
    "torch.compile": "#8e44ad",
    "ONNX Runtime": "#2980b9",
    "OpenVINO": "#16a085",
}


def save_plots(report: Report, directory: Path) -> list[str]:
    """Writes the plots there is data for to ``directory/images``; gives their paths, seen from ``directory``."""
    import matplotlib

    matplotlib.use("Agg")
    images = directory / "images"
    images.mkdir(parents=True, exist_ok=True)
    names = []
    if report.growth:
        names.append(_save_growth(report, images))
    ratios = {group: [r for r in (result.ratio() for result in results) if r] for group, results in _groups(report)}
    if any(ratios.values()):
        names.append(save_ratios({group: found for group, found in ratios.items() if found}, images))
    return [f"images/{name}" for name in names]


def _save_growth(report: Report, directory: Path) -> str:
    from matplotlib import pyplot

    columns = 2
    rows = -(-len(report.growth) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(11, 4 * rows), sharex=True, squeeze=False)
    for panel, curve in zip(axes.flat, report.growth, strict=False):
        for name, points in curve.speeds.items():
            sizes, speeds = zip(*points, strict=True)
            panel.loglog(sizes, [s / 1e9 for s in speeds], marker="o", ms=3, label=name, color=_COLOURS.get(name))
        panel.set_title(curve.name)
        panel.set_ylabel("GB/s, read and written")
        panel.grid(True, which="major", lw=0.3)
    for panel in axes[-1]:
        ticks = [1 << exponent for exponent in range(14, 30, 3)]
        panel.set_xticks(ticks, [_size(tick) for tick in ticks])
        panel.minorticks_off()
        panel.set_xlabel("size of the first input")
    # Not every contestant is in every panel: the legend names those of all.
    handles = {name: line for panel in axes.flat for line, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=len(handles), fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    return _save(figure, directory, "benchmarks-growth.png")


def save_ratios(groups: Mapping[str, Sequence[float]], directory: Path) -> str:
    """A row for each group of cases: a point for every case, and a line at their median."""
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(8, 1 + 0.27 * len(groups)))
    for row, (group, ratios) in enumerate(groups.items()):
        colours = ["#27ae60" if ratio >= 1 else "#c0392b" for ratio in ratios]
        panel.scatter(ratios, [row] * len(ratios), s=26, color=colours, alpha=0.55, linewidths=0)
        panel.plot([median(ratios)] * 2, [row - 0.35, row + 0.35], color="#2c3e50", lw=1.6)
        panel.text(-0.01, row, group, transform=panel.get_yaxis_transform(), ha="right", va="center", fontsize=9)
    panel.set_yticks([])
    panel.set_ylim(len(groups) - 0.5, -0.5)
    panel.set_xscale("log")
    largest = max(max(ratios) for ratios in groups.values())
    ticks = [tick for tick in (0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 50, 100) if tick <= 2 * largest]
    panel.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    panel.minorticks_off()
    panel.axvline(1, color="black", lw=0.8)
    panel.grid(True, axis="x", lw=0.3)
    panel.set_xlabel("best peer's time / opendml's time: a point for every case, a line at the median")
    figure.tight_layout()
    return _save(figure, directory, "benchmarks-ratios.png")


def _save(figure: object, directory: Path, name: str) -> str:
    from matplotlib import pyplot

    figure.savefig(directory / name, dpi=130)  # type: ignore[attr-defined]
    pyplot.close(figure)
    return name


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
