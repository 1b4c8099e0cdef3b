"""Profiles as one page of HTML that needs no other file: the fused graph drawn, and every kernel with its limits."""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from opendml.inspection.layered_drawing import Drawing, Point, draw
from opendml.inspection.measurements import End, Flow, KernelProfile, Measurements, TensorUse
from opendml.inspection.profile_table import clean, first_node, format_quantity, format_seconds, summary
from opendml.targets.machine_limits import MachineLimits

KERNEL_BOX: Final = (214.0, 62.0)
TENSOR_BOX: Final = (150.0, 26.0)
MARGIN: Final = 12.0
LABEL_MARGIN: Final = 8.0
TOOLTIP_LENGTH: Final = 2000
"""Sizes in pixels; the characters from which on a tooltip is cut off."""

DRAWN_BOXES: Final = 400
"""Kernels, inputs and outputs of a graph that is drawn, at most: nobody finds anything among more, and the lines of a
deep graph pass all that lies between their ends."""

LEAST_SCALE: Final = 0.7
"""To what part of its size a drawing shrinks on a small screen before it scrolls: its letters stay legible."""

NARROW_LETTERS: Final = frozenset("fijlrtI1|.,:;'`!()[]{}/ -")
NARROW_LETTER: Final = 0.42
SMALL_LETTER: Final = 0.62
CAPITAL: Final = 0.86
WIDE_LETTER: Final = 1.05
"""Widths of letters in parts of their size, as wide as any usual sans-serif font has them, bold ones included."""

FAMILIES: Final = ("ELEMENT_WISE_", "ACTIVATION_")
"""Beginnings of operators' names that boxes leave out."""


def page(profiles: Sequence[Measurements]) -> str:
    """The page of some profiles, one below the other. It has no script and loads nothing: sorting, opening rows and the
    links between drawing and rows are the browser's own."""
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
<a class="skip" href="#p0-kernels">Skip to the kernels</a>
<main>
{sections}
</main>
</body>
</html>
"""


def _section(profile: Measurements, prefix: str) -> str:
    lines = "\n".join(f"<p>{_text(line)}</p>" for line in summary(profile))
    return f"""<section>
<header><h1>{_text(profile.title)}</h1>
{lines}
{_LEGEND if profile.limits is not None else _LEGEND_WITHOUT_LIMITS}
<p><a href="#{prefix}kernels">Kernels</a> \N{MIDDLE DOT} <a href="#{prefix}drawing">Drawing</a></p>
</header>
{_strip(profile, prefix)}
<div class="columns">
<div class="kernels" id="{prefix}kernels">{_kernels(profile, prefix)}</div>
<figure class="drawing" id="{prefix}drawing" tabindex="0" aria-label="The fused graph">
{_graph(profile, prefix)}
</figure>
</div>
</section>"""


_LEGEND: Final = """<details class="legend"><summary>How to read this page</summary>
<p>A kernel is one loop nest: an operator, or several that were fused. Its time is measured while all threads wait for
each other behind every kernel, so the times of the kernels do not overlap.</p>
<p><b>Memory</b> counts every element that a kernel reads or writes once, and sets it beside copies of as many bytes.
<b>Arithmetic</b> counts floating-point operations, and sets them beside a loop of nothing but fused multiply-adds.
<b>Of the limit</b> is the least time that this machine needs for the larger one of the two, divided by the time that
was taken.</p>
<p>More than 100% is possible: bytes may still lie in a nearer cache than those of a copy, operations that occur twice
may be computed once, and a processor may have run faster than when its limits were measured.</p></details>"""

_LEGEND_WITHOUT_LIMITS: Final = """<details class="legend"><summary>How to read this page</summary>
<p>A kernel is one loop nest: an operator, or several that were fused. Its time is that of the device's own clock.</p>
<p><b>Memory</b> counts every element that a kernel reads or writes once, <b>Arithmetic</b> floating-point operations.
What the device could do at best is not known, so they stand beside nothing.</p></details>"""


def _text(text: str) -> str:
    """Text from anywhere as content or attribute of an element."""
    return html.escape(clean(text))


def _fitting(text: str, width: float, size: float) -> str:
    """Text cut so that it is no wider than ``width`` pixels in letters of a ``size``, in any usual sans-serif font."""
    text = clean(text).replace("\n", " ")
    room = width - _width("\N{HORIZONTAL ELLIPSIS}", size)
    if _width(text, size) <= width:
        return text
    ends = itertools.accumulate(_width(letter, size) for letter in text)
    return text[: sum(end <= room for end in ends)] + "\N{HORIZONTAL ELLIPSIS}"


def _width(text: str, size: float) -> float:
    return size * sum(NARROW_LETTER if c in NARROW_LETTERS else _letter_width(c) for c in text)


def _letter_width(letter: str) -> float:
    if not letter.isascii():
        return WIDE_LETTER
    return CAPITAL if letter.isupper() or letter in "@%&+_~<>=mw#" else SMALL_LETTER


def _heat(profile: Measurements, kernel: KernelProfile) -> str:
    """The time of a kernel beside that of the longest one, for the style sheet's colours."""
    longest = profile.longest_seconds
    return f"{kernel.seconds / longest if longest else 0:.3f}"


# The run from left to right -------------------------------------------------------------------------------------------


def _strip(profile: Measurements, prefix: str) -> str:
    """Every kernel as long as its time, in the order in which they run."""
    parts = [
        f'<a href="#{prefix}kernel{kernel.number}" title="{_text(_headline(profile, kernel))}" '
        f'aria-label="{_text(_headline(profile, kernel))}" '
        f'style="--heat:{_heat(profile, kernel)};flex-grow:{profile.share(kernel):.5f}"></a>'
        for kernel in profile.kernels
    ]
    return f'<nav class="strip" aria-label="The run from left to right">{"".join(parts)}</nav>'


def _headline(profile: Measurements, kernel: KernelProfile) -> str:
    return f"{kernel.number}: {kernel.title}, {format_seconds(kernel.seconds)} ({profile.share(kernel):.1%})"


# The kernels ----------------------------------------------------------------------------------------------------------


class _SortKey(NamedTuple):
    """A column: its heading, and what its values are sorted by, the first one smallest."""

    name: str
    heading: str
    key: Callable[[KernelProfile], Any]


_COLUMNS: Final = (
    _SortKey("number", "#", lambda kernel: kernel.number),
    _SortKey("title", "Kernel", lambda kernel: kernel.title),
    _SortKey("time", "Time", lambda kernel: -kernel.seconds),
    _SortKey("memory", "Memory", lambda kernel: -kernel.bytes),
    _SortKey("arithmetic", "Arithmetic", lambda kernel: -kernel.all_operations),
)
_SORTED_BY: Final = (*(column.name for column in _COLUMNS), "limit")


def _columns(profile: Measurements) -> tuple[_SortKey, ...]:
    """The columns; what the device could do at best only where that is known."""
    limits = profile.limits
    if limits is None:
        return _COLUMNS
    return (*_COLUMNS, _SortKey("limit", "Of the limit", lambda kernel: kernel.efficiency(limits)))


def _kernels(profile: Measurements, prefix: str) -> str:
    """The headings, which choose what rows are sorted by, and a row for each kernel that opens."""
    headings = "".join(
        f'<label class="{column.name}"><input type="radio" name="{prefix}sort" class="by-{column.name}"'
        f"{' checked' if column.name == 'number' else ''}><span>{column.heading}</span></label>"
        for column in _columns(profile)
    )
    places = {column.name: _places(profile, column) for column in _columns(profile)}
    drawn = _is_drawn(profile)
    rows = "\n".join(_row(profile, kernel, prefix, places, drawn) for kernel in profile.kernels)
    return f'<div class="headings" role="radiogroup" aria-label="Sort by">{headings}</div>\n{rows}'


def _places(profile: Measurements, column: _SortKey) -> dict[int, int]:
    """The place of every kernel if rows are sorted by a column."""
    ordered = sorted(profile.kernels, key=column.key)
    return {kernel.number: place for place, kernel in enumerate(ordered)}


def _row(
    profile: Measurements, kernel: KernelProfile, prefix: str, places: Mapping[str, Mapping[int, int]], drawn: bool
) -> str:
    nodes = f"<small>{_text(', '.join(kernel.nodes))}</small>" if kernel.nodes else ""
    cells = [
        f'<span class="number">{kernel.number}</span>',
        f'<span class="title">{_text(kernel.title)}{nodes}</span>',
        f'<span class="time">{format_seconds(kernel.seconds)} <small>{profile.share(kernel):.1%} of the kernels</small>'
        '<i class="bar"></i></span>',
        *_rates(kernel, profile.limits),
    ]
    order = ";".join(f"--by-{name}:{place[kernel.number]}" for name, place in places.items())
    return (
        f'<details class="row" style="--heat:{_heat(profile, kernel)};{order}"><summary>{"".join(cells)}</summary>'
        f"{_inside(kernel, prefix, drawn)}</details>"
    )


def _rates(kernel: KernelProfile, limits: MachineLimits | None) -> list[str]:
    """Memory and arithmetic, and what they are of the limits, if these are known."""
    if limits is None:
        return [
            _rate("memory", kernel.bytes, "B", kernel.bandwidth),
            _rate("arithmetic", kernel.all_operations, _unit(kernel), kernel.operation_rate),
        ]
    of_copy = kernel.bandwidth / limits.bandwidth(kernel.bytes / kernel.repetitions)
    bound = kernel.bound_by(limits)
    return [
        _rate("memory", kernel.bytes, "B", kernel.bandwidth, f", {of_copy:.0%} of a copy", bound == "memory"),
        _rate(
            "arithmetic",
            kernel.all_operations,
            _unit(kernel),
            kernel.operation_rate,
            f", {kernel.of_peak(limits):.0%} of the peak",
            bound == "arithmetic",
        ),
        f'<span class="limit">{kernel.efficiency(limits):.0%} <small>of what {bound} allows</small></span>',
    ]


def _unit(kernel: KernelProfile) -> str:
    return "OP" if kernel.integer_operations else "FLOP"


def _rate(name: str, amount: float, unit: str, rate: float, beside: str = "", is_limit: bool = True) -> str:
    if not rate:
        return f'<span class="{name} none">none</span>'
    kind = "" if is_limit else " other"
    quantity = format_quantity(amount, unit)
    return f'<span class="{name}{kind}">{quantity} <small>{format_quantity(rate, f"{unit}/s")}{beside}</small></span>'


def _inside(kernel: KernelProfile, prefix: str, drawn: bool) -> str:
    """What a row shows when it is open. A link to it opens it, since it is inside."""
    link = f'<p><a href="#{prefix}box{kernel.number}">Show in the drawing</a></p>' if drawn else ""
    work = f"<p>Threads worked {', '.join(map(format_seconds, kernel.work))}</p>" if kernel.work else ""
    repeated = f"<p>{kernel.repetitions} times</p>" if kernel.repetitions > 1 else ""
    return (
        f'<div class="inside" id="{prefix}kernel{kernel.number}">'
        f"{link}{repeated}"
        f"{work}{_uses('Reads', kernel.reads)}{_uses('Writes', kernel.writes)}"
        f'<pre tabindex="0">{_text(kernel.description)}</pre></div>'
    )


def _uses(title: str, uses: Sequence[TensorUse]) -> str:
    items = "".join(f"<li>{_text(_use(use))}</li>" for use in uses)
    return f"<p>{title}</p><ul>{items}</ul>" if uses else ""


def _use(use: TensorUse) -> str:
    return f"{use.name}: {use.type}[{', '.join(map(str, use.sizes))}], {format_quantity(use.bytes, 'B')}"


# The graph ------------------------------------------------------------------------------------------------------------


def _graph(profile: Measurements, prefix: str) -> str:
    """Kernels, inputs and outputs as boxes, tensors as lines between them; where they are too many, words."""
    ends = _ends(profile)
    if not _is_drawn(profile):
        return f"<p>There is no drawing: it would have {len(ends):,} boxes, and up to {DRAWN_BOXES} are drawn.</p>"
    places = {end: place for place, end in enumerate(ends)}
    tensors: dict[tuple[int, int], list[Flow]] = {}
    for flow in profile.flows:
        tensors.setdefault((places[flow.source], places[flow.target]), []).append(flow)
    boxes = [KERNEL_BOX if end.kind == "kernel" else TENSOR_BOX for end in ends]
    drawing = draw(boxes, list(tensors))
    lines = [_line(path, flows) for path, flows in zip(drawing.paths, tensors.values(), strict=True)]
    shapes = [_shape(profile, end, corner, prefix) for end, corner in zip(ends, drawing.corners, strict=True)]
    return "\n".join([_svg_head(drawing), *lines, *shapes, "</svg>"])


def _ends(profile: Measurements) -> list[End]:
    """What the boxes of a drawing stand for."""
    return [
        *(End("input", n) for n in sorted({f.source.number for f in profile.flows if f.source.kind == "input"})),
        *(End("kernel", kernel.number) for kernel in profile.kernels),
        *(End("output", n) for n in sorted({f.target.number for f in profile.flows if f.target.kind == "output"})),
    ]


def _is_drawn(profile: Measurements) -> bool:
    return len(_ends(profile)) <= DRAWN_BOXES


def _svg_head(drawing: Drawing) -> str:
    width, height = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    box = f"{-MARGIN:g} {-MARGIN:g} {width:.0f} {height:.0f}"
    return (
        f'<svg viewBox="{box}" style="width:clamp({LEAST_SCALE * width:.0f}px,100%,{width:.0f}px)">'
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


def _shape(profile: Measurements, end: End, corner: Point, prefix: str) -> str:
    if end.kind == "kernel":
        return _kernel_shape(profile, profile.kernels[end.number], corner, prefix)
    name = (profile.inputs if end.kind == "input" else profile.outputs)[end.number]
    width, height = TENSOR_BOX
    label = _text(_fitting(name, width - 2 * LABEL_MARGIN, 12))
    return (
        f'<g class="tensor"><title>{end.kind} {_text(name)}</title>'
        f'<rect x="{corner.x:.1f}" y="{corner.y:.1f}" width="{width:g}" height="{height:g}" rx="{height / 2:g}"/>'
        f'<text x="{corner.x + width / 2:.1f}" y="{corner.y + 17:.1f}">{label}</text></g>'
    )


def _kernel_shape(profile: Measurements, kernel: KernelProfile, corner: Point, prefix: str) -> str:
    width, height = KERNEL_BOX
    middle, tooltip = corner.x + width / 2, "\n".join(_tooltip(profile, kernel))
    texts = [
        ("name", 18, _fitting(_short(kernel.title), width - 2 * LABEL_MARGIN, 11.5)),
        ("node", 35, _fitting(first_node(kernel), width - 2 * LABEL_MARGIN, 11)),
        ("", 52, f"{format_seconds(kernel.seconds)} \N{MIDDLE DOT} {profile.share(kernel):.1%}"),
    ]
    labels = "".join(
        f'<text class="{kind}" x="{middle:.1f}" y="{corner.y + y:.1f}">{_text(label)}</text>'
        for kind, y, label in texts
    )
    return (
        f'<a href="#{prefix}kernel{kernel.number}" id="{prefix}box{kernel.number}">'
        f'<g class="kernel" style="--heat:{_heat(profile, kernel)}">'
        f"<title>{_text(tooltip)}</title>"
        f'<rect x="{corner.x:.1f}" y="{corner.y:.1f}" width="{width:g}" height="{height:g}" rx="7"/>{labels}</g></a>'
    )


def _short(title: str) -> str:
    for family in FAMILIES:
        title = title.replace(family, "")
    return title


def _tooltip(profile: Measurements, kernel: KernelProfile) -> Iterator[str]:
    yield _headline(profile, kernel)
    yield from kernel.nodes
    yield ""
    cut = len(kernel.description) > TOOLTIP_LENGTH
    yield kernel.description[:TOOLTIP_LENGTH] + "\N{HORIZONTAL ELLIPSIS}" * cut


_SORTING: Final = "\n".join(
    f".kernels:has(.by-{name}:checked) .row {{ order: var(--by-{name}); }}" for name in _SORTED_BY
)

_STYLE: Final = """
:root { color-scheme: light dark; --page: #fbfbfa; --ink: #1c1e21; --quiet: #666b73; --line: #d9dbdf;
  --box: #eef0f3; --hot: #f0853f; --edge: #8b919b; --mark: #fff3d6; }
@media (prefers-color-scheme: dark) { :root { --page: #16181b; --ink: #e8e9eb; --quiet: #9aa0a9; --line: #33373d;
  --box: #23272d; --hot: #b8520f; --edge: #6d737d; --mark: #3a3016; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; }
.skip { position: absolute; left: 8px; top: -60px; padding: 6px 12px; background: var(--page);
  border: 2px solid var(--edge); }
.skip:focus { top: 8px; z-index: 1; }
section { max-width: 1800px; margin: 0 auto; padding: 24px; }
h1 { margin: 0 0 4px; font-size: 22px; overflow-wrap: anywhere; }
header p { margin: 0; color: var(--quiet); max-width: 90ch; }
a { color: inherit; }
small { color: var(--quiet); font-size: 12px; }
.legend { margin: 6px 0; color: var(--quiet); }
.legend p { margin: 4px 0; }
.strip { display: flex; height: 26px; margin: 16px 0; gap: 1px; }
.strip a { flex: 0 0 0; min-width: 1px; border-radius: 2px; }
.strip a, .bar, .kernel rect { --tone: color-mix(in oklab, var(--hot) calc(var(--heat) * 100%), var(--box)); }
.strip a { background: var(--tone); box-shadow: inset 0 0 0 1px var(--line); }
.columns { display: grid; grid-template-columns: minmax(0, 1fr); gap: 24px; align-items: start; }
.drawing { margin: 0; padding: 8px 0; overflow: auto; border: 1px solid var(--line); border-radius: 8px; }
@media (min-width: 1500px) {
  .columns { grid-template-columns: minmax(0, 1fr) minmax(0, 36vw); }
  .drawing { position: sticky; top: 8px; max-height: calc(100vh - 16px); }
}
.kernels { display: flex; flex-direction: column; font-variant-numeric: tabular-nums; }
.headings, .row > summary { display: grid; gap: 0 12px; align-items: start;
  grid-template-columns: 2.2em minmax(12em, 1fr) 9em 10.5em 11em 8em; }
.row { border-bottom: 1px solid var(--line); order: var(--by-number); }
.row > summary { padding: 5px 0 5px 1.1em; position: relative; list-style: none; }
.row > summary::-webkit-details-marker { display: none; }
.row > summary::before { content: "\\25B8"; position: absolute; left: 0; top: 5px; color: var(--quiet); }
.row[open] > summary::before { content: "\\25BE"; }
.headings { padding-left: 1.1em; order: -1; border-bottom: 1px solid var(--line); }
.headings label { color: var(--quiet); font-weight: 500; font-size: 12px; cursor: pointer; }
.headings input { position: absolute; opacity: 0; width: 1px; height: 1px; }
.headings span:hover { text-decoration: underline; }
.headings input:checked + span { color: var(--ink); }
.headings input:checked + span::after { content: " \\25BE"; }
.headings input:focus-visible + span { outline: 2px solid var(--hot); outline-offset: 2px; }
SORTING
summary { cursor: pointer; }
summary span { overflow-wrap: anywhere; }
summary small { display: block; }
.other, .none { color: var(--quiet); }
.row:has(:target), .row:has(:target) > summary { background: var(--mark); }
.inside { padding: 0 0 12px 3.3em; scroll-margin-top: 5em; }
.inside p, .inside ul { margin: 6px 0 0; overflow-wrap: anywhere; }
pre { overflow: auto; max-height: 24em; padding: 8px; background: var(--box); border-radius: 6px; font-size: 12px; }
.bar { display: block; height: 6px; width: calc(var(--heat) * 100% + 2px); max-width: 110px; margin-top: 3px;
  border-radius: 3px;
  background: var(--tone); box-shadow: inset 0 0 0 1px var(--line); }
@media (max-width: 900px) {
  section { padding: 16px; }
  .headings { display: flex; flex-wrap: wrap; padding: 0 0 6px; }
  .headings::before { content: "Sort by"; color: var(--quiet); font-size: 12px; }
  .row { border: 1px solid var(--line); border-radius: 8px; margin-top: 8px; padding: 0 10px; }
  .row > summary { grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 2px 12px; }
  .row .number { display: none; }
  .row .title { grid-column: 1 / -1; font-weight: 600; }
  .row .title small { font-weight: 400; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
  .inside { padding-left: 1.1em; }
}
@media (max-width: 600px) {
  .row > summary { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .row .none { display: none; }
}
svg { display: block; margin: 0 auto; }
svg a { text-decoration: none; }
svg text { fill: var(--ink); font-size: 12px; text-anchor: middle; }
svg .node { fill: var(--quiet); font-size: 11px; }
svg .name { font-weight: 600; font-size: 11.5px; }
.kernel rect { fill: var(--tone); stroke: var(--edge); }
.kernel:hover rect { stroke-width: 2.5; }
a:target .kernel rect { stroke: var(--ink); stroke-width: 3; }
.tensor rect { fill: none; stroke: var(--edge); stroke-dasharray: 4 3; }
.flow { fill: none; stroke: var(--edge); stroke-width: 1.3; }
.flow:hover { stroke: var(--ink); stroke-width: 3; }
marker path { fill: var(--edge); }
""".replace("SORTING", _SORTING)
