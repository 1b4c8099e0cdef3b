"""Directed graphs without cycles drawn in layers, from the top down (after Sugiyama, Tagawa and Toda, 1981)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

LAYER_GAP: Final = 34.0
BOX_GAP: Final = 24.0
"""Least distances between boxes, in pixels."""

SWEEPS: Final = 8
ALIGNING_SWEEPS: Final = 60
PASSING_WIDTH: Final = 6.0
"""Room for an edge that passes a layer."""

STRAIGHTNESS: Final = 4.0
"""How much more an edge that passes layers pulls its bends together than boxes are pulled to their neighbours."""


class Point(NamedTuple):
    """A place in pixels from the top left corner."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """Where boxes are (their top left corners), the points that each edge passes, and the size of the whole."""

    corners: tuple[Point, ...]
    paths: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def draw(boxes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Drawing:
    """A drawing of boxes, given by width and height, and of edges between them, which lead to later boxes only."""
    layers = _layers(len(boxes), edges)
    graph = _LayeredGraph(boxes, edges, layers)
    graph.order()
    centres = graph.centres()
    tops, height = _tops(boxes, layers)
    left = min((centres[n] - graph.widths[n] / 2 for n in range(len(graph.widths))), default=0.0)
    right = max((centres[n] + graph.widths[n] / 2 for n in range(len(graph.widths))), default=0.0)
    corners = tuple(Point(centres[n] - w / 2 - left, tops[layers[n]]) for n, (w, _) in enumerate(boxes))
    depths = _depths(boxes, layers)

    def path(source: int, target: int) -> tuple[Point, ...]:
        points = [Point(centres[source] - left, tops[layers[source]] + boxes[source][1])]
        for layer in range(layers[source] + 1, layers[target]):
            x = centres[graph.bends[source, layer]] - left
            points += [Point(x, tops[layer]), Point(x, tops[layer] + depths[layer])]
        return (*points, Point(centres[target] - left, tops[layers[target]]))

    return Drawing(corners, tuple(path(a, b) for a, b in edges), right - left, height)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: below all boxes that lead to it; others just above what they lead to."""
    layers = [0] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        layers[target] = max(layers[target], layers[source] + 1)
    has_source = {target for _, target in edges}
    nearest: dict[int, int] = {}
    for source, target in edges:
        nearest[source] = min(nearest.get(source, layers[target]), layers[target])
    for box in nearest.keys() - has_source:
        layers[box] = nearest[box] - 1
    return layers


def _depths(boxes: Sequence[tuple[float, float]], layers: Sequence[int]) -> list[float]:
    """The height of the highest box in each layer."""
    heights = [0.0] * (max(layers, default=-1) + 1)
    for (_, height), layer in zip(boxes, layers, strict=True):
        heights[layer] = max(heights[layer], height)
    return heights


def _tops(boxes: Sequence[tuple[float, float]], layers: Sequence[int]) -> tuple[list[float], float]:
    """The upper edge of each layer, and the lower edge of the last one."""
    tops, place = [], 0.0
    for height in _depths(boxes, layers):
        tops.append(place)
        place += height + LAYER_GAP
    return tops, max(place - LAYER_GAP, 0.0)


class _LayeredGraph:
    """Boxes and the bends of edges that pass layers; all edges of a box share their bends."""

    def __init__(
        self, boxes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], layers: Sequence[int]
    ) -> None:
        self.widths = [width for width, _ in boxes]
        self.bends: dict[tuple[int, int], int] = {}
        self.rows: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
        self._box_count = len(boxes)
        for box, layer in enumerate(layers):
            self.rows[layer].append(box)
        links: set[tuple[int, int]] = set()
        for source, target in edges:
            last = source
            for layer in range(layers[source] + 1, layers[target]):
                here = self._bend(source, layer)
                links.add((last, here))
                last = here
            links.add((last, target))
        self._above: list[list[int]] = [[] for _ in self.widths]
        self._below: list[list[int]] = [[] for _ in self.widths]
        for a, b in sorted(links):
            self._above[b].append(a)
            self._below[a].append(b)

    def _bend(self, source: int, layer: int) -> int:
        if (source, layer) not in self.bends:
            self.bends[source, layer] = len(self.widths)
            self.rows[layer].append(len(self.widths))
            self.widths.append(PASSING_WIDTH)
        return self.bends[source, layer]

    def order(self) -> None:
        """Order each row by the mean place of the neighbours in the next row, down and up again and again."""
        places = {n: place for row in self.rows for n, place in _places(row)}
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            neighbours = self._above if down else self._below
            for row in self.rows if down else reversed(self.rows):
                keys = {n: _mean((places[m] for m in neighbours[n]), places[n]) for n in row}
                row.sort(key=keys.__getitem__)
                places.update(_places(row))

    def centres(self) -> dict[int, float]:
        """The middle of every box and bend: close to its neighbours, in the order of the rows."""
        centres: dict[int, float] = {}
        for row in self.rows:
            centres |= _spread(row, dict.fromkeys(row, 0.0), self.widths, {})
        weights = dict.fromkeys(range(self._box_count, len(self.widths)), STRAIGHTNESS)
        for sweep in range(ALIGNING_SWEEPS):
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                wanted = {n: self._wanted(n, centres) for n in row}
                centres |= _spread(row, wanted, self.widths, weights)
        return centres

    def _wanted(self, n: int, centres: Mapping[int, float]) -> float:
        near = [*self._above[n], *self._below[n]]
        pulls = [STRAIGHTNESS if min(n, m) >= self._box_count else 1.0 for m in near]
        return sum(p * centres[m] for p, m in zip(pulls, near, strict=True)) / sum(pulls) if near else centres[n]


def _places(row: Sequence[int]) -> Iterator[tuple[int, float]]:
    """How far from its beginning each member of a row is, as a part of the whole."""
    return ((n, (place + 0.5) / len(row)) for place, n in enumerate(row))


def _mean(values: Iterable[float], otherwise: float) -> float:
    given = list(values)
    return sum(given) / len(given) if given else otherwise


def _spread(
    row: Sequence[int], wanted: Mapping[int, float], widths: Sequence[float], weights: Mapping[int, float]
) -> dict[int, float]:
    """Places as near as possible to those wanted (least squares) that keep the order and the gaps of a row.

    Without the gaps this is isotonic regression: neighbours in the wrong order are pooled at their mean.
    """
    offsets, place = {}, 0.0
    for before, n in zip([None, *row], row, strict=False):
        place += 0.0 if before is None else (widths[before] + widths[n]) / 2 + BOX_GAP
        offsets[n] = place
    pools: list[tuple[float, float, list[int]]] = []  # weighted sum, weight, members
    for n in row:
        weight = weights.get(n, 1.0)
        pools.append((weight * (wanted[n] - offsets[n]), weight, [n]))
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            (s, w, members), (t, v, more) = pools[-2:]
            pools[-2:] = [(s + t, w + v, members + more)]
    return {n: s / w + offsets[n] for s, w, members in pools for n in members}
