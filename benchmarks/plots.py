"""The plots of the page: ratios of operators and networks, and rates over sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.runs import Run
from benchmarks.tables import NETWORK_AIM, sections_of
from benchmarks.timing import OPENDML

_COLOURS: Final = {
    OPENDML: "#c0392b",
    "NumPy": "#7f8c8d",
    "PyTorch": "#e67e22",
    "torch.compile": "#8e44ad",
    "ONNX Runtime": "#2980b9",
    "OpenVINO": "#16a085",
}

_THREAD_COLOURS: Final = ("#2980b9", "#e67e22", "#27ae60", "#8e44ad", "#7f8c8d")
_THREAD_MARKERS: Final = ("o", "s", "^", "D", "v")

_TICKS: Final = (0.1, 0.25, 0.5, 0.7, 1, 1.4, 2, 3, 5, 10, 25, 50, 100)


def save_ratios(runs: Sequence[Run], directory: Path, name: str) -> str | None:
    """The operators: a panel for each number of threads, a row for each section, with a point for every case and a line
    at their median."""
    panels = [(run.facts.threads, found) for run in runs if (found := _section_ratios(run))]
    if not panels:
        return None
    pyplot = _pyplot()
    sections = list(dict.fromkeys(section for _, found in panels for section in found))
    size = (3 + 6 * len(panels), 1.2 + 0.27 * len(sections))
    figure, axes = pyplot.subplots(1, len(panels), figsize=size, squeeze=False, sharey=True)
    for panel, (threads, found) in zip(axes.flat, panels, strict=True):
        for row, section in enumerate(sections):
            _draw_section(panel, row, found.get(section, ()))
        panel.set_title(f"{threads} thread{'s' if threads > 1 else ''}", fontsize=10)
        panel.set_ylim(len(sections) - 0.5, -0.5)
        panel.set_yticks(range(len(sections)), sections, fontsize=9)
        _set_scale(panel, [ratio for ratios in found.values() for ratio in ratios])
    figure.supxlabel("best peer's time / opendml's time: a point for every case, a line at the median", fontsize=10)
    figure.tight_layout()
    return _save(figure, directory, name)


def _section_ratios(run: Run) -> dict[str, list[float]]:
    ratios = {
        section: [ratio for ratio in (result.ratio() for result in results) if ratio is not None]
        for section, results in sections_of(run).items()
    }
    return {section: found for section, found in ratios.items() if found}


def _draw_section(panel: Any, row: int, ratios: Sequence[float]) -> None:
    if ratios:
        colours = ["#27ae60" if ratio >= 1 else "#c0392b" for ratio in ratios]
        panel.scatter(ratios, [row] * len(ratios), s=26, color=colours, alpha=0.55, linewidths=0)
        panel.plot([median(ratios)] * 2, [row - 0.35, row + 0.35], color="#2c3e50", lw=1.6)


def save_network_ratios(runs: Sequence[Run], directory: Path, name: str) -> str | None:
    """The networks: a row for each, with a point for every number of threads."""
    found = {run.facts.threads: _network_ratios(run) for run in runs}
    rows = list(dict.fromkeys(label for ratios in found.values() for label in ratios))
    if not rows:
        return None
    pyplot = _pyplot()
    figure, panel = pyplot.subplots(figsize=(9, 1.4 + 0.25 * len(rows)))
    for number, (threads, ratios) in enumerate(found.items()):
        style = number % len(_THREAD_COLOURS)
        places = [rows.index(label) for label in ratios]
        label = f"{threads} thread{'s' if threads > 1 else ''}"
        look = {"color": _THREAD_COLOURS[style], "marker": _THREAD_MARKERS[style]}
        panel.scatter(list(ratios.values()), places, s=30, alpha=0.75, linewidths=0, label=label, **look)
    panel.set_yticks(range(len(rows)), rows, fontsize=9)
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.axvline(NETWORK_AIM, color="#27ae60", lw=0.8, ls="--", label=f"the aim, {NETWORK_AIM:g}")
    _set_scale(panel, [ratio for ratios in found.values() for ratio in ratios.values()])
    panel.grid(True, axis="y", lw=0.2)
    panel.set_xlabel("best peer's time / opendml's time")
    figure.legend(loc="upper right", ncols=len(found) + 1, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.35 / figure.get_figheight()))
    return _save(figure, directory, name)


def _network_ratios(run: Run) -> dict[str, float]:
    ratios = {network.label: network.ratio() for network in run.networks}
    return {label: ratio for label, ratio in ratios.items() if ratio is not None}


def _set_scale(panel: Any, ratios: Sequence[float]) -> None:
    """From what is seen, and a little more, with the line of equal times."""
    low, high = min(0.9, *ratios) / 1.15, max(1.2, *ratios) * 1.15
    panel.set_xscale("log")
    panel.set_xlim(low, high)
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    panel.set_xticks(ticks, [f"{tick:g}x" for tick in ticks], fontsize=9)
    panel.minorticks_off()
    panel.axvline(1, color="black", lw=0.8)
    panel.grid(True, axis="x", lw=0.3)


def save_growth(run: Run, directory: Path, name: str) -> str | None:
    """Rates over sizes: a panel for each operator, a curve for each contestant."""
    if not run.growth:
        return None
    pyplot = _pyplot()
    columns = min(2, len(run.growth))
    rows = -(-len(run.growth) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(5.5 * columns, 4 * rows), sharex=True, squeeze=False)
    for panel, curve in zip(axes.flat, run.growth, strict=False):
        for contestant, points in curve.speeds.items():
            sizes, speeds = zip(*points, strict=True)
            rates = [speed / 1e9 for speed in speeds]
            panel.loglog(sizes, rates, marker="o", ms=3, label=contestant, color=_COLOURS.get(contestant))
        panel.set_title(curve.name)
        panel.set_ylabel("GB/s, read and written")
        panel.grid(True, which="major", lw=0.3)
    for panel in axes[-1]:
        ticks = [1 << exponent for exponent in range(14, 30, 3)]
        panel.set_xticks(ticks, [_size(tick) for tick in ticks])
        panel.minorticks_off()
        panel.set_xlabel("size of the first input")
    # Not every contestant is in every panel: the legend names those of all.
    handles: Mapping[str, Any] = {
        label: line for panel in axes.flat for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=max(1, len(handles)), fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    return _save(figure, directory, name)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, directory: Path, name: str) -> str:
    figure.savefig(directory / name, dpi=130)
    _pyplot().close(figure)
    return name


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
