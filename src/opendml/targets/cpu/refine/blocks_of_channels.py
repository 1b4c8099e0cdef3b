"""Windows over what a product of matrices gives, some channels at a time: what lies between them stays in a cache.

A depthwise convolution, or a pooling, behind a convolution reads every channel by itself. If that one's sums are of
single points, or short, what it reads is worth reading once for each block of channels. So a thread
that has computed some channels of an image goes on with these, and nobody else ever sees them: the two statements
become those of a block of channels, one after the other (``Each``), with a tensor of its own between them. Which
channels are together changes no bit.

This is a matter of two operators, so it comes behind fusion, when what is left to be written is known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from opendml.expression.affine import affine
from opendml.expression.element_types import I64
from opendml.expression.ir import Axis, Expression, Fold, Index, Load, Tensor, constant, index, load, temporary
from opendml.expression.rewriting import Rewriter, walk
from opendml.expression.statements import (
    Compute,
    Definition,
    Each,
    Single,
    Statement,
    Store,
    expressions_of,
    loads_in,
    reads_of,
    writes_of,
)
from opendml.targets.cpu.refine.refinement import are_side_by_side, with_runs
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import Tuning


def blocks_of_channels(definition: Definition, target: CpuTarget) -> tuple[Definition, dict[Single, Single]]:
    """The definition with such pairs of statements in blocks, where these are enough for all threads, and more lies
    between the two than stays in their caches anyway; and for each statement of a block that which it is a part of."""
    statements, temporaries = list(definition.statements), list(definition.temporaries)
    wholes = dict[Single, Single]()
    for pair in reversed(list(_pairs(definition, target.tuning))):
        each = pair.each()
        statements[pair.number : pair.number + 2] = [each]
        temporaries[temporaries.index(pair.between)] = each.own[0]
        wholes |= zip(each.statements, (pair.first, pair.second), strict=True)
    if not wholes:
        return definition, wholes
    return replace(definition, statements=tuple(statements), temporaries=tuple(temporaries)), wholes


class _Walk(NamedTuple):
    """The axes of a statement that walk the images, if there are several, the panels of channels, if these lie in some,
    and the channels, all of them or those of a panel."""

    image: Axis | None
    panel: Axis | None
    channel: Axis


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Statements number ``number`` and the next one of a definition, and the tensor ``between`` them, which nothing
    else reads. A block has ``block`` channels, and is a part of a panel of ``width`` of these."""

    number: int
    first: Compute
    second: Compute
    between: Tensor
    axes: tuple[_Walk, _Walk]
    width: int
    block: int

    def each(self) -> Each:
        """Both for every block."""
        images, channels, *sizes = self.between.sizes
        panels = (Axis("panel", channels // self.width),) if self.width < channels else ()
        around = (Axis("image", images), *panels, Axis("block", self.width // self.block))
        own = temporary(self.between.name, self.between.type, [1, self.block, *sizes])
        own = with_runs(own, 1) if are_side_by_side(self.between) else own
        parts = (
            self._part(statement, axes, around, own)
            for statement, axes in zip((self.first, self.second), self.axes, strict=True)
        )
        return Each(around, tuple(parts), (own,))

    def _part(self, statement: Compute, axes: _Walk, around: Sequence[Axis], own: Tensor) -> Compute:
        """A statement for the channels of one block."""
        image, *panels, block = around
        within = Axis(axes.channel.name, self.block)
        there = index(block) * self.block + index(within)
        place: dict[Expression, Expression] = {}
        if axes.panel is not None:
            place[Index(axes.panel)] = index(panels[0])
        elif panels:
            there = index(panels[0]) * self.width + there
        place[Index(axes.channel)] = there
        if axes.image is not None:
            place[Index(axes.image)] = index(image)

        def inside(coordinates: Sequence[Expression]) -> tuple[Expression, ...]:
            return (constant(0, I64), index(within), *map(rewrite, coordinates[2:]))

        def visit(e: Expression) -> Expression | None:
            if isinstance(e, Load) and e.tensor is self.between:
                return load(own, inside(e.coordinates))
            return place.get(e) if isinstance(e, Index) else None

        rewrite = Rewriter(visit)
        stores = (
            Store(own, inside(s.coordinates), rewrite(s.value))
            if s.tensor is self.between
            else Store(s.tensor, tuple(map(rewrite, s.coordinates)), rewrite(s.value))
            for s in statement.stores
        )
        gone = (axes.image, axes.panel)
        kept = (within if axis is axes.channel else axis for axis in statement.axes if axis not in gone)
        return Compute(tuple(kept), tuple(stores))


# Which pairs there are ------------------------------------------------------------------------------------------------


def _pairs(definition: Definition, tuning: Tuning) -> Iterator[_Pair]:
    """Those that are worth it, in order; no statement is in two."""
    statements, number = definition.statements, 0
    readers = Counter(tensor for s in statements for tensor in reads_of(s))
    writers = Counter(tensor for s in statements for tensor in writes_of(s))
    roots = dict(definition.views)
    viewed = {*roots, *roots.values()}
    only = {t for t in definition.temporaries if readers[t] == writers[t] == 1 and t not in viewed}
    while number + 1 < len(statements):
        first, second = statements[number : number + 2]
        pair = None if _update(first, second, roots) else _pair(number, first, second, only, tuning)
        if pair is not None:
            yield pair
        number += 1 if pair is None else 2


def _pair(number: int, first: Statement, second: Statement, only: set[Tensor], tuning: Tuning) -> _Pair | None:
    if not isinstance(first, Compute) or not isinstance(second, Compute) or len(first.stores) != 1:
        return None
    (store,) = first.stores
    between = store.tensor
    if between not in only or len(between.sizes) < 3 or between not in reads_of(second):
        return None
    windows = _windows_of_product(first)
    if windows is None or windows > tuning.most_kept_steps or not _is_window(second, tuning):
        return None
    places = [store.coordinates[:2]]
    loads = {e for e in loads_in(second) if e.tensor is between}
    found = _axes(first, between, places), _axes(second, between, [e.coordinates[:2] for e in loads])
    if found[0] is None or found[1] is None:
        return None
    width = found[0].channel.size
    if found[1].panel is not None and found[1].channel.size != width:
        return None
    block = _block(between, width, tuning) if windows == 0 else _block_of_windows(between, width, tuning)
    return None if block is None else _Pair(number, first, second, between, (found[0], found[1]), width, block)


def _update(first: Statement, second: Statement, roots: Mapping[Tensor, Tensor]) -> bool:
    """Whether the second of two statements writes what either of them reads, by this name or another one."""
    reads, writes = reads_of(first) | reads_of(second), writes_of(second)
    return not {roots.get(t, t) for t in reads}.isdisjoint([roots.get(t, t) for t in writes])


def _windows_of_product(statement: Compute) -> int | None:
    """Steps of sums of products of floating-point numbers over windows, 0 where these are single points; None where a
    statement has no such sums."""
    folds = [e for e in walk(statement.stores[0].value) if isinstance(e, Fold)]
    if not folds or not all(fold.contract and fold.type.is_float for fold in folds):
        return None
    counts = [[axis.size for axis in fold.axes if axis.size > 1] for fold in folds]
    if not all(counts):
        return None
    return max(0 if len(sizes) == 1 else math.prod(sizes) for sizes in counts)


def _is_window(statement: Compute, tuning: Tuning) -> bool:
    """Whether a statement folds a few elements at each of its points."""
    folds = [e for x in expressions_of(statement) for e in walk(x) if isinstance(e, Fold)]
    return len(folds) > 0 and all(fold.steps <= tuning.most_guarded_taps for fold in folds)


def _axes(statement: Compute, between: Tensor, places: Iterable[Sequence[Expression]]) -> _Walk | None:
    """The axes of a statement that walk the images and the channels of a tensor, wherever it is read or written."""
    found = set(places)
    if len(found) != 1:
        return None
    image, channel = found.pop()
    images, channels = between.sizes[:2]
    walk_of_channels = _channels(statement, channel, channels)
    if walk_of_channels is None or images == 1:
        return walk_of_channels
    if not isinstance(image, Index) or image.axis not in statement.axes or image.axis.size != images:
        return None
    return walk_of_channels._replace(image=image.axis)


def _channels(statement: Compute, place: Expression, count: int) -> _Walk | None:
    """The axes that a place among the channels is a sum of: each channel once, in their order."""
    form = affine(place)
    axes = sorted(((step, axis) for axis, step in form.terms if axis in statement.axes), key=lambda term: term[0])
    if form.constant or len(axes) != len(form.terms) or not 1 <= len(axes) <= 2:
        return None
    (step, channel), *panels = axes
    if step != 1 or any(step != channel.size for step, _ in panels):
        return None
    panel = panels[0][1] if panels else None
    return _Walk(None, panel, channel) if math.prod(axis.size for _, axis in axes) == count else None


def _block(between: Tensor, width: int, tuning: Tuning) -> int | None:
    """Channels of a block of panels of ``width`` of them, as many as fit into a cache and leave blocks enough for all
    threads; None where there is no such number, or all of the tensor stays in caches anyway."""
    images, channels, plane = _planes(between, tuning)
    most = 0 if plane == 0 else min(tuning.kept_channels_bytes // plane, tuning.most_kept_channels)
    for block in range(min(width, most), tuning.fewest_kept_channels - 1, -1):
        if width % block == 0 and images * channels // block >= tuning.blocks_of_channels:
            return block
    return None


def _block_of_windows(between: Tensor, width: int, tuning: Tuning) -> int | None:
    """As ``_block``, where sums over windows come first: these have vectors along channels, some of which are whole."""
    images, channels, plane = _planes(between, tuning)
    block = tuning.kept_window_channels
    fits = 0 < block * plane <= tuning.kept_window_bytes and width % block == 0
    return block if fits and images * channels // block * 2 >= tuning.blocks_of_channels else None


def _planes(between: Tensor, tuning: Tuning) -> tuple[int, int, int]:
    """Images, channels, and the bytes of a plane; these are 0 where all of it stays in caches anyway, or its rows are
    short."""
    images, channels, *sizes = between.sizes
    plane = math.prod(sizes) * between.type.bits // 8
    if math.prod(sizes) < tuning.fewest_kept_points or images * channels * plane < tuning.fewest_kept_bytes:
        plane = 0
    return images, channels, plane
