"""Statements with their loops chosen: what a schedule makes of them, and nests are made from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from opendml.expression.affine import Element
from opendml.expression.ir import Axis, Expression, Fold, Tensor, Variable
from opendml.expression.statements import Scan
from opendml.loops.nest import ElementStore


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Points of ``axis``, ``together`` of them, whose windows overlap: what their sums load is shared.

    A window moves ``step`` elements along ``axis`` and ``reach`` along ``tap``, an axis of its fold. A work item covers
    ``block`` points. ``of_planes``: the axis before is one of channels, each of which has such points of its own, and
    not one of points as this one.
    """

    axis: Axis
    together: int
    block: int
    tap: Axis
    step: int
    reach: int
    of_planes: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ComputeKernel:
    """A Compute with its loops chosen.

    ``shared`` axes, slowest first, are cut into work items and shared out among threads, ``inner`` ones are loops
    within an item; ``vector`` is the axis whose neighbouring points are computed together, up to ``lanes`` of them;
    ``tile`` is an axis of which ``tile_size`` points are computed together as well, so that what they load is shared.
    ``interleaved`` says that points of the tile lie next to each other in the output: their vectors are stored as one;
    ``transposed`` that they lie next to each other in an input whose rows run along the vector axis: squares of points
    are loaded along the tile and transposed in registers. ``streamed`` says that the output is too large to stay in a
    cache, and is better written past it. Where its rows are short, ``stage`` is the axis along which they follow one
    another: ``stage_block`` of them are computed in memory that stays in a cache and written past it as one run, or one
    for every point of the tile. If it is the tile, the rows are those of a block of squares.
    ``vector_block`` cuts the vector axis into work items. If ``share`` is not 0, those of the same block of vectors
    follow one another along so many points of the last shared axis, one of its equal parts. ``rows`` is the axis
    outside of the vector axis of which some points are computed together. More ``lanes`` than the vector axis has
    points: all of them are one vector. ``steps_at_once``: not 0 where all points of a work item do so many steps of
    their folds before the next ones, while the results wait in memory.
    ``prefetched`` tells how many bytes ahead lines of tensors are asked for, ``next_rows`` the same in some folds.
    ``chosen_rows`` are loads of rows that come later, of which lines are asked for at every vector, and ``expected``
    loads of what is made of its sums, of which they are before these.
    """

    stores: tuple[ElementStore, ...]
    shared: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    vector: Axis | None
    lanes: int
    tile: Axis | None = None
    tile_size: int = 1
    tile_block: int = 1
    interleaved: bool = False
    transposed: bool = False
    streamed: bool = False
    stage: Axis | None = None
    stage_block: int = 1
    vector_block: int | None = None
    share: int = 0
    rows: Rows | None = None
    steps_at_once: int = 0
    serial: bool = False
    in_place: bool = False
    reads: frozenset[Tensor] = frozenset()
    prefetched: Mapping[Tensor, int] = field(default_factory=dict)
    next_rows: Mapping[Fold, Mapping[Tensor, int]] = field(default_factory=dict)
    chosen_rows: tuple[Element, ...] = ()
    expected: tuple[Element, ...] = ()

    @property
    def outer(self) -> tuple[Axis, ...]:
        """All axes but the vector, the tile and the rows, slowest first."""
        staged = () if self.stage is None or self.stage is self.tile else (self.stage,)
        return (*self.shared, *self.inner, *staged)

    @property
    def together(self) -> tuple[Axis, ...]:
        """The axes of which several points are computed at once, but for the vector axis."""
        return tuple(axis for axis in (self.tile, self.rows.axis if self.rows else None) if axis is not None)

    @property
    def rows_first(self) -> bool:
        """Whether blocks of rows are shared out before the planes of one image are. The sums of products before and
        behind are shared out by points, so a thread has most of what it reads from itself and not from another's cache,
        and writes what nobody else has read."""
        is_one = len(self.shared) == 1 and not self.inner
        return self.rows is not None and self.rows.of_planes and self.rows.block < self.rows.axis.size and is_one

    @property
    def item_count(self) -> int:
        """Work items of the kernel."""
        blocks = 1
        if self.tile is not None:
            blocks *= -(-self.tile.size // self.tile_block)
        if self.rows is not None:
            blocks *= -(-self.rows.axis.size // self.rows.block)
        if self.vector is not None and self.vector_block is not None:
            blocks *= -(-self.vector.size // self.vector_block)
        if self.stage is not None and self.stage is not self.tile:
            blocks *= -(-self.stage.size // self.stage_block)
        return math.prod(axis.size for axis in self.shared) * blocks


@dataclass(frozen=True, slots=True, eq=False)
class ScanKernel:
    """A Scan with its loops chosen: as for ComputeKernel; the state runs along ``along`` inside of them.

    A work item covers ``block`` points of ``vector``; where these are more than ``lanes``, it goes through them step by
    step, with their state in memory. Without a ``vector`` it covers ``rows_together`` points of ``rows``, if there is
    such an axis: these are ``lanes`` where that is not 1, and squares of them and as many steps are transposed in
    registers as they are loaded and stored.
    """

    scan: Scan
    step: tuple[Expression, ...]
    initial: tuple[Expression, ...]
    stores: tuple[ElementStore, ...]
    outer: tuple[Axis, ...]
    vector: Axis | None
    lanes: int
    block: int
    rows: Axis | None
    rows_together: int
    serial: bool
    reads: frozenset[Tensor]
    prefetched: Mapping[Tensor, int] = field(default_factory=dict)

    @property
    def work(self) -> int:
        """Steps of all points."""
        points = math.prod(axis.size for axis in (*self.outer, self.vector, self.rows) if axis is not None)
        return points * self.scan.along.size

    @property
    def by_rows(self) -> bool:
        """Whether the state is in memory."""
        return self.block > self.lanes

    @property
    def item_count(self) -> int:
        """Work items of the kernel."""
        blocks = ((self.vector, self.block), (self.rows, self.rows_together))
        counts = [-(-axis.size // size) for axis, size in blocks if axis is not None]
        return math.prod(axis.size for axis in self.outer) * math.prod(counts)


@dataclass(frozen=True, slots=True, eq=False)
class ScatterKernel:
    """A Scatter with its axes as they are, so that all writes of one element are made in order, by one thread.

    ``blocks`` are axes and how many of their points a work item covers: different points of such an axis never write
    the same element. Without ``blocks`` every thread goes through all points and writes its own part of the output.
    ``next_rows`` are what is asked for at each step along the last but one of its ``loops``: elements of a row that
    is so many steps further on.
    """

    axes: tuple[Axis, ...]
    where: Expression
    store: ElementStore
    blocks: tuple[tuple[Axis, int], ...]
    serial: bool
    reads: frozenset[Tensor]
    next_rows: tuple[tuple[Element, int], ...] = ()

    @property
    def loops(self) -> list[Axis]:
        """The axes that have several points."""
        return [axis for axis in self.axes if axis.size > 1]

    @property
    def work(self) -> int:
        """Steps of the kernel."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def item_count(self) -> int:
        """Work items of the kernel."""
        return math.prod(-(-axis.size // block) for axis, block in self.blocks)


@dataclass(frozen=True, slots=True, eq=False)
class OrderKernel:
    """An Order with its loops chosen: every work item is one sequence along ``along``, whose keys are computed some
    ``lanes`` at a time. ``room``: candidates that are gathered before they are ordered and most of them forgotten."""

    axes: tuple[Axis, ...]
    along: Axis
    key: Expression
    rank: Axis
    chosen: Variable
    stores: tuple[ElementStore, ...]
    lanes: int
    room: int
    serial: bool
    reads: frozenset[Tensor]

    @property
    def work(self) -> int:
        """Elements that are looked at."""
        return self.item_count * self.along.size

    @property
    def item_count(self) -> int:
        """Work items of the kernel."""
        return math.prod(axis.size for axis in self.axes)
