"""Profiles as one page of HTML that needs no other file: the fused graph drawn, and every kernel with its limits."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from opendml.inspection.layered_drawing import Drawing, Point, draw
from opendml.inspection.profile_table import clean, first_node, format_quantity, format_seconds, summary
from opendml.inspection.profiling import End, Flow, KernelProfile, Profile, TensorUse

KERNEL_BOX: Final = (214.0, 62.0)
TENSOR_BOX: Final = (150.0, 26.0)
MARGIN: Final = 12.0
LABEL_LENGTH: Final = 31
TENSOR_LABEL_LENGTH: Final = 20
TOOLTIP_LENGTH: Final = 2000
"""Sizes in pixels, and lengths in characters from which on text is cut off."""

FAMILIES: Final = ("ELEMENT_WISE_", "ACTIVATION_")
"""Beginnings of operators' names that boxes leave out."""


def page(profiles: Sequence[Profile]) -> str:
    """The page of some profiles, one below the other."""
    title = ", ".join(dict.fromkeys(profile.title for profile in profiles))
    sections = "\n".join(_section(profile, f"p{number}-") for number, profile in enumerate(profiles))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Profile of {_text(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
{sections}
</body>
</html>
"""


def _section(profile: Profile, prefix: str) -> str:
    lines = "\n".join(f"<p>{_text(line)}</p>" for line in summary(profile))
    return f"""<section>
<header><h1>{_text(profile.title)}</h1>
{lines}</header>
{_strip(profile, prefix)}
<div class="columns">
<div class="table">{_table(profile, prefix)}</div>
<div class="drawing">{_graph(profile, prefix)}</div>
</div>
</section>"""


def _text(text: str) -> str:
    """Text from anywhere as content or attribute of an element."""
    return html.escape(clean(text))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _heat(profile: Profile, kernel: KernelProfile) -> str:
    """The share of a kernel beside the largest one, for the style sheet's colours."""
    largest = max(map(profile.share, profile.kernels))
    return f"{profile.share(kernel) / largest if largest else 0:.3f}"


# The run from left to right -------------------------------------------------------------------------------------------


def _strip(profile: Profile, prefix: str) -> str:
    """Every kernel as long as its time, in the order in which they run."""
    parts = [
        f'<a href="#{prefix}kernel{kernel.number}" title="{_text(_headline(profile, kernel))}" '
        f'style="--heat:{_heat(profile, kernel)};flex-grow:{profile.share(kernel):.5f}"></a>'
        for kernel in profile.kernels
    ]
    return f'<div class="strip">{"".join(parts)}</div>'


def _headline(profile: Profile, kernel: KernelProfile) -> str:
    return f"{kernel.number}: {kernel.title}, {format_seconds(kernel.seconds)} ({profile.share(kernel):.1%})"


# The table ------------------------------------------------------------------------------------------------------------


def _table(profile: Profile, prefix: str) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("#", "Kernel", "Time", "Memory", "Arithmetic", "Of the limit"))
    rows = "\n".join(_row(profile, kernel, prefix) for kernel in profile.kernels)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


def _row(profile: Profile, kernel: KernelProfile, prefix: str) -> str:
    limits = profile.limits
    of_copy = kernel.bandwidth / limits.bandwidth(kernel.bytes / kernel.repetitions)
    of_peak = kernel.operation_rate / limits.fma_peak
    by_memory = kernel.is_bound_by_memory(limits)
    cells = [
        f"<td>{kernel.number}</td>",
        f"<td>{_details(kernel)}</td>",
        f'<td>{format_seconds(kernel.seconds)} <small>{profile.share(kernel):.1%}</small><i class="bar"></i></td>',
        _rate(format_quantity(kernel.bytes, "B"), format_quantity(kernel.bandwidth, "B/s"), of_copy, by_memory),
        _rate(
            format_quantity(kernel.operations, "FLOP"),
            format_quantity(kernel.operation_rate, "FLOP/s"),
            of_peak,
            not by_memory,
        ),
        f"<td>{kernel.efficiency(limits):.0%} <small>{'memory' if by_memory else 'arithmetic'}</small></td>",
    ]
    return f'<tr id="{prefix}kernel{kernel.number}" style="--heat:{_heat(profile, kernel)}">{"".join(cells)}</tr>'


def _rate(amount: str, rate: str, share: float, is_limit: bool) -> str:
    if not share:
        return "<td></td>"
    return f'<td class="{"limit" if is_limit else "other"}">{amount}<br><small>{rate}, {share:.0%}</small></td>'


def _details(kernel: KernelProfile) -> str:
    nodes = f"<small>{_text(', '.join(kernel.nodes))}</small>" if kernel.nodes else ""
    work = ", ".join(map(format_seconds, kernel.work))
    repeated = f"<p>{kernel.repetitions} times</p>" if kernel.repetitions > 1 else ""
    return (
        f"<details><summary>{_text(kernel.title)}{nodes}</summary>{repeated}"
        f"<p>Threads worked {work}</p>{_uses('Reads', kernel.reads)}{_uses('Writes', kernel.writes)}"
        f"<pre>{_text(kernel.description)}</pre></details>"
    )


def _uses(title: str, uses: Sequence[TensorUse]) -> str:
    items = "".join(f"<li>{_text(_use(use))}</li>" for use in uses)
    return f"<p>{title}</p><ul>{items}</ul>" if uses else ""


def _use(use: TensorUse) -> str:
    return f"{use.name}: {use.type}[{', '.join(map(str, use.sizes))}], {format_quantity(use.bytes, 'B')}"


# The graph ------------------------------------------------------------------------------------------------------------


def _graph(profile: Profile, prefix: str) -> str:
    """Kernels, inputs and outputs as boxes, tensors as lines between them."""
    ends = [
        *(End("input", n) for n in sorted({f.source.number for f in profile.flows if f.source.kind == "input"})),
        *(End("kernel", kernel.number) for kernel in profile.kernels),
        *(End("output", n) for n in sorted({f.target.number for f in profile.flows if f.target.kind == "output"})),
    ]
    places = {end: place for place, end in enumerate(ends)}
    tensors: dict[tuple[int, int], list[Flow]] = {}
    for flow in profile.flows:
        tensors.setdefault((places[flow.source], places[flow.target]), []).append(flow)
    boxes = [KERNEL_BOX if end.kind == "kernel" else TENSOR_BOX for end in ends]
    drawing = draw(boxes, list(tensors))
    lines = [_line(path, flows) for path, flows in zip(drawing.paths, tensors.values(), strict=True)]
    shapes = [_shape(profile, end, corner, prefix) for end, corner in zip(ends, drawing.corners, strict=True)]
    return "\n".join([_svg_head(drawing), *lines, *shapes, "</svg>"])


def _svg_head(drawing: Drawing) -> str:
    width, height = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    box = f"{-MARGIN:g} {-MARGIN:g} {width:.0f} {height:.0f}"
    return (
        f'<svg viewBox="{box}" width="{width:.0f}" height="{height:.0f}" role="img" aria-label="The fused graph">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
    )


def _line(path: Sequence[Point], flows: Sequence[Flow]) -> str:
    """A curve from box to box; straight where it passes a layer."""
    steps = [f"M{path[0].x:.1f} {path[0].y:.1f}"]
    for number, (a, b) in enumerate(itertools.pairwise(path)):
        middle = (a.y + b.y) / 2
        curve = f"C{a.x:.1f} {middle:.1f} {b.x:.1f} {middle:.1f} {b.x:.1f} {b.y:.1f}"
        steps.append(curve if number % 2 == 0 else f"L{b.x:.1f} {b.y:.1f}")
    names = "\n".join(dict.fromkeys(flow.tensor for flow in flows))
    return f'<path class="flow" d="{" ".join(steps)}" marker-end="url(#arrow)"><title>{_text(names)}</title></path>'


def _shape(profile: Profile, end: End, corner: Point, prefix: str) -> str:
    if end.kind == "kernel":
        return _kernel_shape(profile, profile.kernels[end.number], corner, prefix)
    name = (profile.inputs if end.kind == "input" else profile.outputs)[end.number]
    width, height = TENSOR_BOX
    label = _text(_cut(name, TENSOR_LABEL_LENGTH))
    return (
        f'<g class="tensor"><title>{end.kind} {_text(name)}</title>'
        f'<rect x="{corner.x:.1f}" y="{corner.y:.1f}" width="{width:g}" height="{height:g}" rx="{height / 2:g}"/>'
        f'<text x="{corner.x + width / 2:.1f}" y="{corner.y + 17:.1f}">{label}</text></g>'
    )


def _kernel_shape(profile: Profile, kernel: KernelProfile, corner: Point, prefix: str) -> str:
    width, height = KERNEL_BOX
    middle, tooltip = corner.x + width / 2, "\n".join(_tooltip(profile, kernel))
    texts = [
        ("name", 18, _cut(_short(kernel.title), LABEL_LENGTH)),
        ("node", 35, _cut(first_node(kernel), LABEL_LENGTH)),
        ("", 52, f"{format_seconds(kernel.seconds)} \N{MIDDLE DOT} {profile.share(kernel):.1%}"),
    ]
    labels = "".join(
        f'<text class="{kind}" x="{middle:.1f}" y="{corner.y + y:.1f}">{_text(label)}</text>'
        for kind, y, label in texts
    )
    return (
        f'<a href="#{prefix}kernel{kernel.number}"><g class="kernel" style="--heat:{_heat(profile, kernel)}">'
        f"<title>{_text(tooltip)}</title>"
        f'<rect x="{corner.x:.1f}" y="{corner.y:.1f}" width="{width:g}" height="{height:g}" rx="7"/>{labels}</g></a>'
    )


def _short(title: str) -> str:
    for family in FAMILIES:
        title = title.replace(family, "")
    return title


def _tooltip(profile: Profile, kernel: KernelProfile) -> Iterator[str]:
    yield _headline(profile, kernel)
    yield from kernel.nodes
    yield ""
    yield _cut(kernel.description, TOOLTIP_LENGTH)


_STYLE: Final = """
:root { color-scheme: light dark; --page: #fbfbfa; --ink: #1c1e21; --quiet: #666b73; --line: #d9dbdf;
  --box: #eef0f3; --hot: #f0853f; --edge: #8b919b; --mark: #fff3d6; }
@media (prefers-color-scheme: dark) { :root { --page: #16181b; --ink: #e8e9eb; --quiet: #9aa0a9; --line: #33373d;
  --box: #23272d; --hot: #b8520f; --edge: #6d737d; --mark: #3a3016; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; }
section { max-width: 1800px; margin: 0 auto; padding: 24px; }
h1 { margin: 0 0 4px; font-size: 22px; overflow-wrap: anywhere; }
header p { margin: 0; color: var(--quiet); }
small { color: var(--quiet); font-size: 12px; }
.strip { display: flex; height: 26px; margin: 16px 0; gap: 1px; }
.strip a { flex: 0 0 0; min-width: 1px; border-radius: 2px; }
.strip a, .bar, .kernel rect { --tone: color-mix(in oklab, var(--hot) calc(var(--heat) * 100%), var(--box)); }
.strip a { background: var(--tone); box-shadow: inset 0 0 0 1px var(--line); }
.columns { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, auto); gap: 24px; align-items: start; }
.drawing { position: sticky; top: 8px; max-width: 40vw; max-height: calc(100vh - 16px); overflow: auto;
  border: 1px solid var(--line); border-radius: 8px; }
@media (max-width: 1100px) { .columns { grid-template-columns: minmax(0, 1fr); }
  .drawing { position: static; max-width: 100%; max-height: none; order: -1; } }
.table { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--quiet); font-weight: 500; font-size: 12px; white-space: nowrap; }
th, td { padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:nth-child(n+3) { white-space: nowrap; }
td.other { color: var(--quiet); }
tr:target { background: var(--mark); }
summary { cursor: pointer; overflow-wrap: anywhere; }
summary small { display: block; }
details p, details ul { margin: 6px 0 0; }
pre { max-width: 70ch; max-height: 24em; overflow: auto; padding: 8px; background: var(--box); border-radius: 6px;
  font-size: 12px; }
.bar { display: block; height: 6px; width: calc(var(--heat) * 110px + 2px); margin-top: 3px; border-radius: 3px;
  background: var(--tone); box-shadow: inset 0 0 0 1px var(--line); }
svg { display: block; margin: 0 auto; }
svg a { text-decoration: none; }
svg text { fill: var(--ink); font-size: 12px; text-anchor: middle; }
svg .node { fill: var(--quiet); font-size: 11px; }
svg .name { font-weight: 600; font-size: 11.5px; }
.kernel rect { fill: var(--tone); stroke: var(--edge); }
.kernel:hover rect { stroke-width: 2.5; }
.tensor rect { fill: none; stroke: var(--edge); stroke-dasharray: 4 3; }
.flow { fill: none; stroke: var(--edge); stroke-width: 1.3; }
.flow:hover { stroke: var(--ink); stroke-width: 3; }
marker path { fill: var(--edge); }
"""
