"""The page of the benchmarks, from saved runs: a summary, then machine by machine what was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.limits import Limits
from benchmarks.merging import Part, Source, merge
from benchmarks.networks import CONTESTANTS, QUANTIZED_SPREAD, NetworkResult
from benchmarks.plots import save_growth, save_network_ratios, save_ratios
from benchmarks.runs import OperatorResult, Run
from benchmarks.selection import order
from benchmarks.tables import (
    KERNEL_COLUMNS,
    NETWORK_AIM,
    WAIT_HEADER,
    absences,
    behind,
    capital,
    cells,
    header,
    kernel_rows,
    limits_fact,
    mean_ratio,
    network_cells,
    network_header,
    ratio_cell,
    ratio_cells,
    sections_of,
    shortfalls,
    slow,
    taking_part,
    wait_cells,
    waits,
)
from benchmarks.timing import OPENDML, Outcome, Timing
from opendml.targets.machine_limits import MachineLimits

LEVEL: Final = 1.0
"""The ratio from which on a row is not slower than its best peer."""

_INTRODUCTION: Final = (
    "Made by `python -m benchmarks report FILE...` of runs that `python -m benchmarks --save FILE` has measured;"
    " `--help` says how to measure a part."
)

_EXPLANATION: Final = (
    "Times are medians in milliseconds. All contestants of a row work on the same arrays and take turns, and their"
    " results have been compared. Peers write into given outputs where their interface allows it; where it does not,"
    " memory that they free is kept for their next call. Where a peer can do an operator in several ways the fastest"
    " one is taken; `-` means that it has none.",
    "",
    "`ratio` is the best peer's time divided by opendml's: above 1 opendml is faster; `of minima` is the same for the"
    " shortest times. `rate` counts every input once and every output once (for strided slices the cache lines that"
    " hold a selected element); `share` is that of the copy that"
    " moves about as many bytes, of the FMA peak for GEMM and convolution, or of the"
    " peak of products of bytes. Copies are measured before and after each section, peaks between its rows too,"
    " since shared processors are not equally fast all the time; the best ones count. Copies are opendml's"
    " own where nobody else's is named, bytes read and written.",
)

_NETWORKS_EXPLANATION: Final = (
    "PyTorch modules (`benchmarks/architectures`, `examples/networks`) with random parameters; milliseconds a run,"
    " medians. opendml, ONNX Runtime and OpenVINO run what `torch.onnx.export` makes of them; OpenVINO is told to"
    " compute in float32, and in float16 for the networks whose numbers are (where it takes bfloat16 for that, of fewer"
    " bits, in float32 again). PyTorch has its channels first or last,"
    " whichever is faster; `torch.compile` has the parameters as constants (freezing). Quantised networks (int8) round"
    " in other places in every library, so they are compared by how far their results are from those in float32, root"
    f" of the mean square: at most {QUANTIZED_SPREAD - 1:.0%} farther or nearer than opendml's. Weights of 7 bits are"
    " no larger than 64: so onnxruntime's documentation quantises for x86 processors without VNNI, where the other"
    " libraries saturate sums of two products, and opendml none. `of limits` is the part"
    " of the time of opendml's kernels that the machine needs at least."
)

_KERNELS_EXPLANATION: Final = (
    "Where the time of opendml's programs goes. Kernels that compute the same for the same sizes are one row: `time` is"
    " that of all of them, `share` their part of the time of all kernels, `of its limit` the part of their time that"
    " the machine needs at least to move the bytes or to compute, whichever is longer. A kernel whose tensors are still"
    " in a near cache may be above 100%."
)


PAGE: Final = "benchmarks"
"""The name of the page, and what those of its plots begin with."""


def write_page(sources: Sequence[Source], directory: Path, name: str = PAGE) -> Path:
    """``NAME.md`` and its plots in ``images``, of one saved run or several; plots of an earlier page of that name
    go."""
    machines = merge(sources, order())
    images = directory / "images"
    images.mkdir(parents=True, exist_ok=True)
    plots = _save_plots(machines, images, name)
    for stale in set(images.glob(f"{name}-*.png")) - {images / plot for made in plots.values() for plot in made}:
        stale.unlink()
    page = directory / f"{name}.md"
    page.write_text(markdown(machines, plots), encoding="utf-8")
    return page


def _save_plots(machines: Mapping[str, Sequence[Part]], images: Path, page: str) -> dict[str, list[str]]:
    """The names of the plots that there are data for, by machine."""
    plots: dict[str, list[str]] = {}
    for number, (machine, parts) in enumerate(machines.items(), 1):
        runs, mark = [part.run for part in parts], "" if number == 1 else f"-{number}"
        names = [save_ratios(runs, images, f"{page}-ratios{mark}.png")]
        names.append(save_network_ratios(runs, images, f"{page}-networks{mark}.png"))
        for run in runs:
            threads = "" if run is runs[0] else f"-{run.facts.threads}-threads"
            names.append(save_growth(run, images, f"{page}-growth{mark}{threads}.png"))
        plots[machine] = [name for name in names if name is not None]
    return plots


def markdown(machines: Mapping[str, Sequence[Part]], plots: Mapping[str, Sequence[str]]) -> str:
    """The page as text."""
    lines = ["# Benchmarks", "", _INTRODUCTION, "", *_summary(machines)]
    lines += ["## How to read the tables", "", *_EXPLANATION, ""]
    for number, (machine, parts) in enumerate(machines.items(), 1):
        lines += [f"## {_machine_name(number, len(machines))}{machine.partition(' (')[0]}", "", *_facts(parts)]
        for name in plots.get(machine, ()):
            lines += [f"![{Path(name).stem}](images/{name})", ""]
        for part in parts:
            lines += _operators(part, number)
        lines += _networks(parts)
        for part in parts:
            for title, rows in waits(part.run):
                lines += [f"### {title}, {_threads(part)}", "", *_rows(WAIT_HEADER, map(wait_cells, rows))]
        lines += _kernels(parts)
    return "\n".join(lines).rstrip() + "\n"


# ------------------------------------------------------------------------------------------------------------- summary


@dataclass(frozen=True)
class _Column:
    """A part, with what the summary calls it."""

    label: str
    number: int
    part: Part


def _columns(machines: Mapping[str, Sequence[Part]]) -> list[_Column]:
    return [
        _Column(f"{_machine_name(number, len(machines)).lower().replace(':', ',')}{_threads(part)}", number, part)
        for number, parts in enumerate(machines.values(), 1)
        for part in parts
    ]


def _summary(machines: Mapping[str, Sequence[Part]]) -> Iterator[str]:
    columns = _columns(machines)
    yield from ("## Summary", "")
    for number, machine in enumerate(machines, 1):
        yield f"- {_machine_name(number, len(machines)) or 'Machine: '}{_escaped(machine)}"
    yield ""
    yield from _counts(columns)
    yield from _means(columns)
    below = [(c, row) for c in columns for row, _ in behind(c.part.run.operators, LEVEL)]
    yield from _losing(f"Operators below {LEVEL:.2f}", below)
    nets = [(c, row) for c in columns for row, _ in behind(c.part.run.networks, NETWORK_AIM)]
    yield from _losing(f"Networks below {NETWORK_AIM:.2f}", nets)
    other = [f"{title}, {c.label}: {what}" for c in columns for title, what in _other_aims(c.part)]
    yield from _listed("Other aims that are missed", other)
    yield from _listed("Faults", [f"{fault} ({c.label})" for c in columns for fault in c.part.run.faults])


def _counts(columns: Sequence[_Column]) -> list[str]:
    """How many rows there are, and how many reach what they are to."""
    rows = []
    for column in columns:
        run = column.part.run
        tables: tuple[tuple[str, Sequence[Outcome], float], ...] = (
            ("operators", run.operators, LEVEL),
            ("networks", run.networks, NETWORK_AIM),
        )
        for name, results, aim in tables:
            if results:
                with_peer = sum(result.ratio() is not None for result in results)
                level, reached = (with_peer - len(list(behind(results, least))) for least in (LEVEL, aim))
                counts = [str(len(results)), str(with_peer), str(level), str(reached) if aim != LEVEL else "-"]
                means = [ratio_cell(mean_ratio(results, attribute)) for attribute in ("median", "minimum")]
                rows.append([f"{name}, {column.label}", *counts, *means])
    above = [f"at {aim:.2f} or above" for aim in (LEVEL, NETWORK_AIM)]
    return _rows(["what", "rows", "with a peer", *above, "geometric mean of ratios", "of minima"], rows)


def _means(columns: Sequence[_Column]) -> Iterator[str]:
    """The geometric means of the sections, one beside the other."""
    networks = _mean_rows(columns, [_by_type(column.part.run) for column in columns])
    sections = _mean_rows(columns, [sections_of(column.part.run) for column in columns], is_linked=True)
    yield from ("### Geometric means of the ratios", "")
    yield from _rows(["section", "rows", *(column.label for column in columns)], [*networks, *sections], escape=False)


def _mean_rows(
    columns: Sequence[_Column], found: Sequence[Mapping[str, Sequence[Outcome]]], is_linked: bool = False
) -> Iterator[list[str]]:
    for title in dict.fromkeys(title for tables in found for title in tables):
        means = [ratio_cell(mean_ratio(tables.get(title, ()))) for tables in found]
        if is_linked:
            pairs = zip(means, columns, found, strict=True)
            means = [_link(mean, title, column) if title in tables else mean for mean, column, tables in pairs]
        yield [_cell(title), str(max(len(tables.get(title, ())) for tables in found)), *means]


def _by_type(run: Run) -> dict[str, list[NetworkResult]]:
    """The networks by the type of their numbers, which stands in their names where it is not float32."""
    found: dict[str, list[NetworkResult]] = {}
    for network in run.networks:
        kinds = [kind for kind in ("float16", "int8") if kind in network.name]
        found.setdefault(f"networks, {kinds[0] if kinds else 'float32'}", []).append(network)
    return found


def _losing(title: str, rows: Sequence[tuple[_Column, OperatorResult | NetworkResult]]) -> Iterator[str]:
    """The rows that are slower than they are to be, and beside whom."""
    yield from (f"### {title}", "")
    if not rows:
        yield from ("None.", "")
        return
    told = [[row.title, column.label, *ratio_cells(row), row.best_peer or "-"] for column, row in rows]
    yield from _rows(["row", "where", "ratio", "of minima", "best peer"], told)


def _other_aims(part: Part) -> Iterator[tuple[str, str]]:
    """What the tables of slower rows do not say."""
    for row in part.run.operators:
        ratio = row.ratio()
        is_listed = ratio is not None and round(ratio, 2) < LEVEL
        missed = shortfalls(row, part.run.limits[row.section])
        found = [what for what in missed if not (is_listed and what.startswith("ratio"))]
        if found:
            yield row.title, ", ".join(found)
    for line in slow(part.run):
        title, _, what = line.rpartition(": ")
        yield title, what


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from (f"### {title}", "", *(f"- {_escaped(line)}" for line in lines), "")


# ------------------------------------------------------------------------------------------------------------ machines


def _machine_name(number: int, count: int) -> str:
    """Before what is said of a machine, if there are several."""
    return f"Machine {number}: " if count > 1 else ""


def _threads(part: Part) -> str:
    return _counted(part.threads, "thread")


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _facts(parts: Sequence[Part]) -> Iterator[str]:
    """Of a machine: what it is, what it can do at best, and the runs."""
    yield f"- Machine: {_escaped(parts[0].run.facts.machine)}"
    for part in parts:
        best = Limits()
        for limits in part.run.limits.values():
            best = best.or_better(limits)
        if best != Limits():
            yield f"- At best, {_threads(part)}: {_escaped(limits_fact(best))}"
        if part.run.kernel_limits is not None:
            yield f"- Around the networks, {_threads(part)}: {_kernel_limits_fact(part.run.kernel_limits)}"
    for part in parts:
        for source in part.sources:
            yield from _source_facts(source, part)
    yield ""


def _kernel_limits_fact(limits: MachineLimits) -> str:
    (small, near), (large, far) = limits.copies[0], limits.copies[-1]
    return (
        f"copies from {near / 1e9:.1f} GB/s moving {small >> 10} KiB to {far / 1e9:.1f} GB/s moving {large >> 20} MiB;"
        f" FMA peak: {limits.fma_peak / 1e9:.0f} GFLOP/s; products of bytes: {limits.byte_peak / 1e9:.0f} GOP/s"
    )


def _source_facts(source: Source, part: Part) -> Iterator[str]:
    run, facts = source.run, source.run.facts
    chosen = f", rows that match `{facts.pattern}`" if facts.pattern else ""
    end = "" if run.is_complete else f"; not complete: {run.end}"
    yield _escaped(
        f"- Run `{source.name}`, {facts.date}, {facts.code_told}: {_threads(part)},"
        f" {_counted(len(run.titles), 'row')}{chosen}, {facts.seconds:g} s and {facts.rounds} rounds at least for each"
        f"{end}; {facts.system}; {facts.contestants_told}"
    )
    again = part.repeated.get(source.name, [])
    if again:
        some = "; ".join(again[:5]) + ("; ..." if len(again) > 5 else "")
        yield _escaped(f"- Rows of `{source.name}` that an earlier file has too, {len(again)}; these count: {some}")


def _operators(part: Part, number: int) -> Iterator[str]:
    sections = sections_of(part.run)
    if sections:
        yield from (f"### Operators, {_threads(part)}", "")
    for title, results in sections.items():
        names, limits = taking_part(results), part.run.limits[title]
        anchor = _anchor(title, number, part.threads)
        yield from (f"#### {_escaped(capital(title))} {{ #{anchor} }}", "", f"{_escaped(limits_fact(limits))}.", "")
        yield from _rows(header(names), [cells(result, names, limits) for result in results])


def _networks(parts: Sequence[Part]) -> Iterator[str]:
    """All numbers of threads beside one another."""
    found = _by_network(parts)
    if not found:
        return
    yield from ("### Networks", "", _NETWORKS_EXPLANATION, "")
    rows = [
        network_cells(network, part.threads, part.run.kernel_limits)
        for members in found.values()
        for part, network in members
    ]
    yield from _rows(network_header(), rows)
    yield from _network_means(parts)
    all_networks = ((f"{network.label}", network) for members in found.values() for _, network in members)
    notes = absences(all_networks)
    if notes:
        yield from (*(f"- {_escaped(note)}" for note in notes), "")


def _network_means(parts: Sequence[Part]) -> list[str]:
    """The geometric means beside the best peer, and beside each."""
    rows = []
    for part in parts:
        networks = part.run.networks
        if networks:
            rows.append([_threads(part), str(len(networks)), ratio_cell(mean_ratio(networks))])
            for name in list(CONTESTANTS)[1:]:
                rows[-1].append(ratio_cell(mean_ratio(Outcome(timings=_two(row, name)) for row in networks)))
    beside = [f"beside {name}" for name in list(CONTESTANTS)[1:]]
    return ["Geometric means of the ratios:", "", *_rows(["threads", "networks", "beside the best", *beside], rows)]


def _two(row: Outcome, name: str) -> dict[str, Timing]:
    return {one: row.timings[one] for one in (OPENDML, name) if one in row.timings}


def _by_network(parts: Sequence[Part]) -> dict[str, list[tuple[Part, NetworkResult]]]:
    """The results of each network, whatever the number of threads, in the order of the page."""
    places = order()
    found: dict[str, list[tuple[Part, NetworkResult]]] = {}
    for part in parts:
        for network in part.run.networks:
            found.setdefault(network.title, []).append((part, network))
    return {title: found[title] for title in sorted(found, key=lambda title: places.get(title, len(places)))}


def _kernels(parts: Sequence[Part]) -> Iterator[str]:
    """The kernels of each network, with all numbers of threads beside one another."""
    tables = []
    for members in _by_network(parts).values():
        known = [
            (part, kernel_rows(network, part.run.kernel_limits))
            for part, network in members
            if part.run.kernel_limits is not None and network.kernels
        ]
        if known:
            tables.append((members[0][1].label, known))
    if tables:
        yield from ("### Kernels of the networks", "", _KERNELS_EXPLANATION, "")
    for label, known in tables:
        columns = [f"{name}, {_threads(part)}" for part, _ in known for name in KERNEL_COLUMNS]
        titles = dict.fromkeys(title for _, rows in known for title in rows if title != _OTHERS)
        rows = [[title, *_kernel_cells(title, [found for _, found in known])] for title in [*titles, _OTHERS]]
        told = [row for row in rows if any(cell != "-" for cell in row[1:])]
        yield from (f"#### {_escaped(label)}", "", *_rows(["kernel", "count", *columns], told))


_OTHERS: Final = "all others"


def _kernel_cells(title: str, tables: Sequence[Mapping[str, tuple[int, list[str]]]]) -> list[str]:
    counts = list(dict.fromkeys(str(table[title][0]) for table in tables if title in table))
    found = [cell for table in tables for cell in (table[title][1] if title in table else ["-"] * len(KERNEL_COLUMNS))]
    return ["/".join(counts) or "-", *found]


# ---------------------------------------------------------------------------------------------------------------- text


def _rows(columns: Sequence[str], rows: Iterable[Sequence[str]], escape: bool = True) -> list[str]:
    rule = ["---", *["---:"] * (len(columns) - 1)]
    told = [[_cell(cell) if escape else cell for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (columns, rule, *told)] + [""]


def _cell(text: str) -> str:
    return _escaped(text).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Text of files is no HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _anchor(title: str, number: int, threads: int) -> str:
    return f"{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}-{number}-{threads}"


def _link(text: str, title: str, column: _Column) -> str:
    return f"[{text}](#{_anchor(title, column.number, column.part.threads)})"
