"""Rows of tables for the terminal and for the page: what is said of a result, and by how much it misses its aim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import geometric_mean
from typing import Final, TypeVar

from benchmarks.cases import Aim
from benchmarks.limits import Copy, Limits
from benchmarks.networks import CONTESTANTS, NetworkResult
from benchmarks.peers import EAGER, PEERS
from benchmarks.runs import OperatorResult, Run
from benchmarks.small import SmallResult
from benchmarks.timing import OPENDML, Outcome
from opendml.targets.machine_limits import MachineLimits

NETWORK_AIM: Final = 1.1
"""How many times faster than its best peer a network is to be."""

SMALL_SHARE: Final = 0.005
"""Kernels of a network with less than this part of its time are one row."""

WAIT_HEADER: Final = ["what", "median", "minimum", "aim"]
KERNEL_COLUMNS: Final = ["time", "share", "of its limit"]


T = TypeVar("T", bound=Outcome)


# ---------------------------------------------------------------------------------------------------------------- aims


def shortfalls(result: OperatorResult, limits: Limits) -> list[str]:
    """Which parts of its aim a case misses."""
    aim, ratio, share = result.aim, result.ratio(), share_of(result, limits)
    missed = []
    if aim.ratio is not None and ratio is not None and round(ratio, 2) < aim.ratio:
        missed.append(f"ratio {ratio:.2f} < {aim.ratio:g}")
    if aim.share is not None and share is not None and round(share, 2) < aim.share:
        missed.append(f"share {share:.0%} < {aim.share:.0%}")
    eager = result.ratio_to(EAGER)
    if aim.eager is not None and eager is not None and round(eager, 2) < aim.eager:
        missed.append(f"{eager:.2f} < {aim.eager:g} times {EAGER}")
    return missed


def below_aim(run: Run) -> list[str]:
    """The rows that do not reach their aim."""
    missed = ((row.title, shortfalls(row, run.limits[row.section])) for row in run.operators)
    rows = [f"{title}: {', '.join(found)}" for title, found in missed if found]
    rows += [f"{row.title}: ratio {ratio:.2f} < {NETWORK_AIM:g}" for row, ratio in behind(run.networks, NETWORK_AIM)]
    return rows + slow(run)


def slow(run: Run) -> list[str]:
    """What takes longer than it should."""
    waits = (*run.small, *run.compilation)
    return [f"{s.name}: {duration(s.timing.median)}" for s in waits if s.timing and s.is_met is False]


def behind(rows: Iterable[T], aim: float) -> Iterator[tuple[T, float]]:
    """The rows whose ratio, as it is shown, is below."""
    for row in rows:
        ratio = row.ratio()
        if ratio is not None and round(ratio, 2) < aim:
            yield row, ratio


def mean_ratio(rows: Iterable[Outcome], attribute: str = "median") -> float | None:
    """The geometric mean of the ratios, if any row has one."""
    ratios = [ratio for ratio in (row.ratio(attribute) for row in rows) if ratio is not None]
    return geometric_mean(ratios) if ratios else None


def share_of(result: OperatorResult, limits: Limits) -> float | None:
    """The share of the limit that matters for the operator, if that was measured."""
    if result.own is None:
        return None
    if not result.operations and not result.products:
        bandwidth = limits.copy_bandwidth(result.traffic)
        return None if bandwidth is None else result.traffic / result.own.median / bandwidth
    counts = ((result.operations, limits.fma_peak), (result.products, limits.byte_peak))
    needed = [count / peak for count, peak in counts if count and peak is not None]
    return max(needed) / result.own.median if needed else None


# --------------------------------------------------------------------------------------------------------------- cells


def sections_of(run: Run) -> dict[str, list[OperatorResult]]:
    """The results of each section."""
    found: dict[str, list[OperatorResult]] = {}
    for result in run.operators:
        found.setdefault(result.section, []).append(result)
    return found


def taking_part(results: Sequence[Outcome]) -> list[str]:
    """The contestants that have a column: those that can do one of the rows at least."""
    names = {name: None for result in results for name in (*result.timings, *result.faults)}
    known = [OPENDML, *PEERS]
    return [*(name for name in known if name in names), *(name for name in names if name not in known)]


def header(names: Sequence[str]) -> list[str]:
    """Of a section of the operators."""
    return ["case", *names, "ratio", "of minima", "rate", "share", "aim"]


def cells(result: OperatorResult, names: Sequence[str], limits: Limits) -> list[str]:
    """The row of a case."""
    share = share_of(result, limits)
    return [
        result.name,
        *(time_cell(result, name) for name in names),
        *ratio_cells(result),
        _rate(result),
        "-" if share is None else f"{share:.0%}",
        _aim_cell(result, limits),
    ]


def time_cell(result: Outcome, name: str) -> str:
    """The median of a contestant in milliseconds, or why it has none."""
    timing = result.timings.get(name)
    if timing is not None:
        milliseconds = timing.median * 1e3
        return f"{milliseconds:.0f}" if milliseconds >= 999.5 else f"{milliseconds:#.3g}".rstrip(".")
    fault = result.faults.get(name)
    return "-" if fault is None else "differs" if fault == "differs" else "fails"


def ratio_cells(result: Outcome) -> list[str]:
    """The ratios of medians and of minima."""
    return [ratio_cell(result.ratio()), ratio_cell(result.ratio("minimum"))]


def ratio_cell(ratio: float | None) -> str:
    """Two digits behind the point, if there is a ratio."""
    return "-" if ratio is None else f"{ratio:.2f}"


def _rate(result: OperatorResult) -> str:
    if result.own is None:
        return "-"
    count, unit = (result.operations, "GFLOP/s") if result.operations else (result.products, "GOP/s")
    if count:
        return f"{count / result.own.median / 1e9:.0f} {unit}"
    return f"{result.traffic / result.own.median / 1e9:.1f} GB/s"


def _aim_cell(result: OperatorResult, limits: Limits) -> str:
    if result.own is None or result.aim == Aim():
        return ""
    return "; ".join(shortfalls(result, limits)) or "met"


def limits_fact(limits: Limits) -> str:
    """What was measured of the machine, on a line."""
    facts = [f"copies: {', '.join(map(_copy_fact, limits.copies))}"] if limits.copies else []
    if limits.fma_peak is not None:
        facts.append(f"FMA peak: {limits.fma_peak / 1e9:.0f} GFLOP/s")
    if limits.byte_peak is not None:
        facts.append(f"products of bytes: {limits.byte_peak / 1e9:.0f} GOP/s")
    return capital("; ".join(facts)) or "No limits measured"


def _copy_fact(copy: Copy) -> str:
    by = "" if copy.by == OPENDML else f" ({copy.by})"
    return f"{copy.bandwidth / 1e9:.1f} GB/s moving {copy.traffic >> 20} MiB{by}"


def network_header(names: Sequence[str] = tuple(CONTESTANTS)) -> list[str]:
    """Of the table of networks."""
    return ["network", "batch", "threads", *names, "ratio", "of minima", "of limits"]


def network_cells(result: NetworkResult, threads: int, limits: MachineLimits | None) -> list[str]:
    """The row of a network."""
    efficiency = result.efficiency(limits)
    return [
        result.name,
        str(result.batch),
        str(threads),
        *(time_cell(result, name) for name in CONTESTANTS),
        *ratio_cells(result),
        "-" if efficiency is None else f"{efficiency:.0%}",
    ]


def absences(rows: Iterable[tuple[str, Outcome]]) -> list[str]:
    """Who did not take part, and why: a line for each reason."""
    found: dict[str, dict[str, None]] = {}
    for title, row in rows:
        for name, why in row.absent.items():
            found.setdefault(f"{name}: {why}", {})[title] = None
    return [f"{reason} ({', '.join(titles)})" for reason, titles in found.items()]


def kernel_rows(network: NetworkResult, limits: MachineLimits) -> dict[str, tuple[int, list[str]]]:
    """How many kernels there are of each title, what they take, of all and of what they need; those that take a small
    part of the time are one row."""
    rows = {
        kernel.title: (kernel.count, _kernel_cells(kernel.timing.minimum, kernel.share, kernel.efficiency(limits)))
        for kernel in network.kernels
        if kernel.share >= SMALL_SHARE
    }
    small = [kernel for kernel in network.kernels if kernel.share < SMALL_SHARE]
    if small:
        time = sum(kernel.timing.minimum for kernel in small)
        needed = sum(kernel.timing.minimum * kernel.efficiency(limits) for kernel in small)
        found = _kernel_cells(time, sum(kernel.share for kernel in small), needed / time)
        rows["all others"] = (sum(kernel.count for kernel in small), found)
    return rows


def _kernel_cells(time: float, share: float, efficiency: float) -> list[str]:
    return [duration(time), f"{share:.1%}", f"{efficiency:.0%}"]


def waits(run: Run) -> list[tuple[str, list[SmallResult]]]:
    """The tables of single times that are not empty, with their titles."""
    tables = (("One small operator", run.small), ("Compilation", run.compilation))
    return [(title, rows) for title, rows in tables if rows]


def wait_cells(row: SmallResult) -> list[str]:
    """The row of a single time."""
    if row.timing is None:
        return [row.name, "-", "-", ""]
    aim = "" if row.aim is None else f"under {duration(row.aim)}: {'met' if row.is_met else 'missed'}"
    return [row.name, duration(row.timing.median), duration(row.timing.minimum), aim]


def duration(seconds: float) -> str:
    """In the unit that suits it."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


def capital(text: str) -> str:
    """With a capital letter, as a heading."""
    return text[:1].upper() + text[1:]
