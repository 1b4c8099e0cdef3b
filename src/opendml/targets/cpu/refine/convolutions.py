"""Convolutions: the padding in a copy, every window's elements in columns, filters in panels of output channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from opendml.expression.affine import affine, interval
from opendml.expression.ir import Axis, Expression, Tensor, constant, grid, index, indices, load
from opendml.expression.limits import share_inside
from opendml.expression.statements import Compute, writes_of
from opendml.targets.cpu.panels import Columns, columns_in_panels
from opendml.targets.cpu.refine.copies_of_factors import Read, is_in_proportion, padded, widened, zero_outside
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings, are_side_by_side, pitch_of_run
from opendml.targets.cpu.refine.sums import Sum, at, coordinate_is, moved, sum_of
from opendml.targets.cpu.refine.taps_in_padding import without_padding
from opendml.targets.cpu.refine.words import words
from opendml.targets.cpu.tuning import Tuning


def convolution(found: Sum, surroundings: Surroundings) -> Refinement | None:
    """Sums over the channels of a group and the taps of a filter, for every place that the filter slides to."""
    windows = windows_of(found)
    if windows is None:
        return None
    refined = _Refined(windows, surroundings)
    return refined.floats() if windows.sum.fold.type.is_float else refined.integers()


def are_worth_guards(
    source: Tensor, taps: Sequence[int], reaches: Sequence[int], outside: Sequence[int], tuning: Tuning
) -> bool:
    """Whether depthwise sums run faster where they test for what is outside of their source themselves than from a
    padded copy. A window reaches over ``reaches`` elements behind its first one, and at most ``outside`` elements of it
    are outside, in each dimension.

    That is so for a few taps over contiguous rows: the tests are decided at the ends of rows and planes, as the code is
    written, if there is not more outside than a window reaches over.
    """
    if math.prod(taps) > tuning.most_guarded_taps or source.strides[-1] != 1:
        return False
    ways = zip(outside, reaches, strict=True)
    return all(most <= (reach if d >= len(taps) - 2 else 0) for d, (most, reach) in enumerate(ways))


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """A sum, and what its axes are. The window of place p is at ``p * stride + tap * dilation - padding``."""

    sum: Sum
    batch: Axis
    group: Axis
    channel: Axis
    place: tuple[Axis, ...]
    inner: Axis
    taps: tuple[Axis, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[int, ...]

    @property
    def is_of_single_channels(self) -> bool:
        """Whether each output channel is of one input channel of its own."""
        return self.channel.size == self.inner.size == 1

    @property
    def counted(self) -> tuple[int, ...]:
        """The places along each spatial dimension."""
        return tuple(axis.size for axis in self.place)

    @property
    def tap_counts(self) -> tuple[int, ...]:
        """The size of the filter along each spatial dimension."""
        return tuple(axis.size for axis in self.taps)


def windows_of(found: Sum) -> Windows | None:
    """A sum over windows of {N, C, spatial...} with a filter {OC, C / groups, spatial...}, turned round or not."""
    if not found.has_window_axes or found.fold.where is not None:
        return None
    batch, group, channel, *place = found.compute.axes
    inner, *taps = found.fold.axes
    left, right = found.left.load.coordinates, found.right.load.coordinates
    of_filter = coordinate_is(right[0], {group: channel.size, channel: 1}) and coordinate_is(right[1], {inner: 1})
    of_input = coordinate_is(left[0], {batch: 1}) and coordinate_is(left[1], {group: inner.size, inner: 1})
    if not of_filter or not of_input or not are_taps(right[2:], taps):
        return None
    ways = list[tuple[int, int, int]]()
    for coordinate, where, tap in zip(left[2:], place, taps, strict=True):
        form = affine(coordinate)
        stride = form.coefficient(where) if where.size > 1 else 1
        dilation = form.coefficient(tap) if tap.size > 1 else 1
        if stride < 1 or dilation < 1 or not coordinate_is(coordinate, {where: stride, tap: dilation}, form.constant):
            return None
        ways.append((stride, dilation, -form.constant))
    strides, dilations, padding = zip(*ways, strict=True)
    return Windows(found, batch, group, channel, (*place,), inner, (*taps,), strides, dilations, padding)


def are_taps(coordinates: Sequence[Expression], taps: Sequence[Axis]) -> bool:
    """Whether a filter is read at its taps, or some that follow one another, along each dimension in their order or the
    other way round."""
    for coordinate, tap in zip(coordinates, taps, strict=True):
        first = affine(coordinate).constant
        if not any(coordinate_is(coordinate, {tap: step}, first) for step in (1, -1)):
            return False
    return True


class _Refined:
    def __init__(self, windows: Windows, surroundings: Surroundings) -> None:
        self.windows, self.sum = windows, windows.sum
        self.source, self.weights = windows.sum.left.load.tensor, windows.sum.right.load.tensor
        self.output = windows.sum.compute.stores[0].tensor
        self.surroundings, self.target = surroundings, surroundings.target
        self.tuning, self.machine = self.target.tuning, self.target.machine
        self.is_fixed, self.known = self.weights in surroundings.fixed, surroundings.known
        self.is_streamed, self.has_runs = self._is_streamed(), self._has_runs()
        self.found = Refinement()

    def integers(self) -> Refinement | None:
        """The same sum over a padded copy, or along channels."""
        if self._goes_along_channels():
            return self._along_channels()
        read = self._padded() if self.sum.left.inside is not None else None
        if read is None:
            return None
        self._add({self.sum.left.whole: read(self.sum.left.load.coordinates)}, self.sum.compute.axes)
        self._leave_padding_out_of_words()
        return self.found

    def _leave_padding_out_of_words(self) -> None:
        """Where that is worth it, sums in words may leave out what is in the padding."""
        found, inside = self.found, self.sum.left.inside
        is_worth = self.is_fixed and self._is_worth_leaving_out
        there = sum_of(found.statements[-1]) if is_worth else None
        made = None if there is None else words(there, self.surroundings, inside)
        if made is not None:
            found.statements[-1:] = made.statements
            found.temporaries += made.temporaries

    def floats(self) -> Refinement | None:
        """Copies of the input and the filter, and the sums of all output channels, or of those in whole panels and of
        those that are left."""
        left, right = self.sum.left, self.sum.right
        if self._goes_along_channels():
            return self._along_channels()
        columns = self._columns() if self._has_columns() else None
        replaced = {left.whole: self._sliding() if columns is None else columns}
        width = self._panel_width()
        if width:
            there = sum_of(self.sum.rewritten(replaced, self.sum.compute.axes))
            assert there is not None
            filter_in_panels(there, width, self.found)
            if columns is None:
                self._leave_padding_out()
            return self.found
        replaced[right.whole] = widened(right, self.found)(right.load.coordinates)
        if all(e is there for e, there in replaced.items()):
            return None
        self._add(replaced, self.sum.compute.axes)
        return self.found

    def _leave_padding_out(self) -> None:
        """Where that is worth it, sums by panels may leave out what is in the padding."""
        found = self.found
        for statement in [*found.statements] if self._is_worth_leaving_out else ():
            if isinstance(statement, Compute) and self.output in writes_of(statement):
                found.statements.remove(statement)
                known = self.known if self.is_fixed else None
                found.statements.append(without_padding(statement, self.sum, known, found))

    @cached_property
    def _is_worth_leaving_out(self) -> bool:
        """Whether enough of the products are in the padding; of a filter that is not fixed, so many that both ways are
        worth their code, and so many of each weight's that it can be looked at every time."""
        inside = self.sum.left.inside
        if inside is None:
            return False
        outside, tuning = 1 - share_inside(inside), self.tuning
        per_weight = outside * self.windows.batch.size * math.prod(self.windows.counted)
        products = per_weight * math.prod(self.weights.sizes)
        is_worth_asking = per_weight >= tuning.padding_worth_looking and products >= tuning.padding_worth_code
        return outside >= tuning.least_padding and (self.is_fixed or is_worth_asking)

    def _goes_along_channels(self) -> bool:
        """Whether each channel is convolved by itself, and those of a point, which fill a vector, lie side by side in
        all there is."""
        lanes = self.machine.lanes(self.sum.fold.type.bits)
        is_wide = self.windows.is_of_single_channels and self.windows.group.size >= lanes
        return is_wide and are_side_by_side(self.source) and are_side_by_side(self.output)

    def _along_channels(self) -> Refinement:
        """Sums with the channels of a point in lanes, by a filter whose taps have theirs side by side. Which of them
        are outside is the same for all lanes, so no copy of the input has zeros around it."""
        windows, left, right = self.windows, self.sum.left, self.sum.right

        def weight(*place: Expression) -> Expression:
            there = dict(zip((*windows.taps, windows.group), place, strict=True))
            return at(right.element, there | {windows.channel: constant(0, place[-1].type)})

        sizes = [*windows.tap_counts, windows.group.size]
        turned = self.found.copy("turned_filter", right.element.type, sizes, weight)
        there = load(turned, (*indices(windows.taps), index(windows.group)))
        replaced = {right.whole: right.less_zero_point(there)}
        if left.inside is None:
            replaced[left.whole] = widened(left, self.found)(left.load.coordinates)
        self._add(replaced, self.sum.compute.axes)
        return self.found

    def _add(self, replaced: dict[Expression, Expression], axes: Sequence[Axis]) -> None:
        self.found.statements.append(self.sum.rewritten(replaced, axes))

    def _sliding(self) -> Expression:
        """The element of the input: of a padded copy, unless that would be out of proportion or tests cost less."""
        left = self.sum.left
        if left.inside is None:
            return widened(left, self.found)(left.load.coordinates)
        read = None if self._is_worth_guards() else self._padded()
        return left.whole if read is None else read(left.load.coordinates)

    def _padded(self) -> Read | None:
        reaches = [interval(coordinate, {}) for coordinate in self.sum.left.load.coordinates[2:]]
        lowest = [reach[0] for reach in reaches if reach is not None]
        highest = [reach[1] for reach in reaches if reach is not None]
        together = self.sum.fold.type.is_float and self.windows.inner.size >= self.tuning.side_by_side_channels
        return padded(self.sum.left, lowest, highest, self.output, self.tuning, self.found, rows_of_channels=together)

    def _is_worth_guards(self) -> bool:
        """Whether depthwise sums test for the padding themselves."""
        windows, sizes = self.windows, self.source.sizes[2:]
        if not windows.is_of_single_channels:
            return False
        taps, starts = windows.tap_counts, windows.padding
        reaches = [(tap - 1) * dilation for tap, dilation in zip(taps, windows.dilations, strict=True)]
        lasts = [(count - 1) * stride for count, stride in zip(windows.counted, windows.strides, strict=True)]
        ends = [
            last + reach - start - (size - 1)
            for last, reach, start, size in zip(lasts, reaches, starts, sizes, strict=True)
        ]
        return are_worth_guards(self.source, taps, reaches, list(map(max, starts, ends)), self.tuning)

    def _columns(self) -> Expression:
        """The element of a copy of every window's elements, tap by tap, in which all spatial dimensions are
        contiguous, so that the sums run over whole planes."""
        windows, left = self.windows, self.sum.left

        def element(batch: Expression, channel: Expression, *window: Expression) -> Expression:
            there = dict(zip((*windows.taps, *windows.place), window, strict=True))
            return zero_outside(left, [batch, channel, *(at(c, there) for c in left.load.coordinates[2:])])

        sizes, coordinates = self._column_sizes(), (*left.load.coordinates[:2], *indices(windows.taps))
        if not self.has_runs:
            columns = self.found.copy("columns", left.element.type, sizes, element)
            return load(columns, (*coordinates, *indices(windows.place)))
        (images, channels, *window), type = sizes, left.element.type
        gap = pitch_of_run(channels, type.bits, self.target) - channels
        turned = [images, *window, channels]
        rows = self.found.copy("columns", type, turned, lambda n, *at: element(n, at[-1], *at[:-1]), gap)
        return load(rows, (coordinates[0], *coordinates[2:], *indices(windows.place), coordinates[1]))

    def _column_sizes(self) -> list[int]:
        return [*self.source.sizes[:2], *self.windows.tap_counts, *self.windows.counted]

    def _has_columns(self) -> bool:
        """Whether there is such a copy: for outputs of narrow rows, whose sums run over planes in long vectors then,
        unless these run over channels, and for windows of one tap that leave places out."""
        windows, tuning, source = self.windows, self.tuning, self.source
        taps, counted, strides = windows.tap_counts, windows.counted, windows.strides
        if self.has_runs:
            return max(taps) == 1 < max(strides) and counted[-1] < tuning.wide_row
        # The planes of several images do not join into one; together with panels they would leave the cache.
        is_narrow = (
            source.sizes[0] == 1
            and 1 < counted[-1] < tuning.wide_row
            and math.prod(counted) < tuning.windows_without_columns
            and not self.is_streamed
        )
        is_narrow = is_narrow or (max(taps) == 1 < max(strides))
        is_shared = windows.channel.size >= tuning.outputs_worth_columns
        is_plain = max(*taps, *strides) == 1 and not any(windows.padding) and counted == source.sizes[2:]
        if not is_narrow or not is_shared or is_plain:
            return False
        return is_in_proportion(self._column_sizes(), source, self.output, tuning)

    def _panel_width(self) -> int:
        """Output channels of a panel of the filter; 0 where copying it into panels costs more than it saves."""
        windows, tuning = self.windows, self.tuning
        if windows.channel.size < tuning.narrowest_panel or 0 in self.weights.strides:
            return 0
        if self._are_few():
            # A kernel of its own for those that are left would cost as much as all others: narrower panels leave none.
            fitting = (n for n in range(tuning.panel, 0, -tuning.narrowest_panel) if windows.channel.size % n == 0)
            return 0 if self._has_columns() else next(fitting, tuning.panel)
        if self.is_streamed and not self._is_turned():
            return tuning.streamed_panel
        if self.has_runs:
            return self._width_of_runs()
        if max(windows.tap_counts) == 1:
            return self._width_of_tiles() if self._is_long() else 0
        # Short rows are taken together with those of other images. Panels for them, made every time, cost as much
        # as the threads' own, unless many registers leave out what is in the padding then.
        is_shared = self.is_fixed or (not self.target.has_few_registers and self._is_worth_leaving_out)
        is_long = windows.counted[-1] >= tuning.wide_row or (is_shared and windows.batch.size > 1)
        if not is_long or self._has_columns():
            return 0
        is_often_read = windows.batch.size * math.prod(windows.counted) >= tuning.windows_worth_panels
        return self._width_of_tiles() if self.is_fixed or is_often_read else 0

    def _is_turned(self) -> bool:
        """Whether channels lie side by side in what is summed up, but not in what that gives, while points there fill
        vectors: of them these would be then, behind narrow panels, from copies of all channels."""
        points = math.prod(self.windows.counted)
        fill_vectors = points % self.machine.lanes(self.sum.fold.type.bits) == 0
        return self.has_runs and fill_vectors and not are_side_by_side(self.output)

    def _width_of_tiles(self) -> int:
        """The channels of a tile, whose steps then follow one another in memory, and the next tile's behind them."""
        lanes = self.machine.lanes(self.sum.fold.type.bits)
        return min(self.tuning.panel, max(self.tuning.narrowest_panel, self.tuning.filter_panel_registers * lanes))

    def _width_of_runs(self) -> int:
        """As ``_width_of_tiles``, with a register more where a panel of a single one would be left over: its sums wait
        for one another, and read all windows once more."""
        width, lanes = self._width_of_tiles(), self.machine.lanes(self.sum.fold.type.bits)
        count, wider = self.windows.channel.size, width + lanes
        is_left_over = count % width == lanes != count % wider
        return wider if is_left_over and wider <= self.tuning.panel and self.target.has_few_registers else width

    def _is_long(self) -> bool:
        """Whether sums of one tap are so long that tiles of many channels, transposed before they are stored, take less
        time than panels of windows that threads fill."""
        windows, tuning = self.windows, self.tuning
        plane = math.prod(windows.counted)
        fewest = tuning.fewest_panel_steps // (2 if plane <= tuning.small_plane else 1)
        is_near = plane <= tuning.medium_plane or windows.batch.size == 1
        return self.is_fixed and is_near and windows.inner.size >= fewest and self._has_large_registers()

    def _has_large_registers(self) -> bool:
        return self.machine.vector_registers * self.machine.vector_bytes >= self.tuning.large_registers

    def _is_streamed(self) -> bool:
        """Whether the windows of one image share every vector of a fixed filter: where it is so large beside them that
        reading it is what takes time, and where their rows are too narrow for vectors along them, which copies of
        several taps would make whole but fill the caches."""
        windows, tuning = self.windows, self.tuning
        plane = math.prod(windows.counted)
        is_small = plane <= tuning.streamed_windows
        is_narrow = windows.counted[-1] < tuning.wide_row and max(windows.tap_counts) > 1
        is_single = windows.batch.size == 1 and plane > tuning.few_windows
        # Narrow rows are better off so even if a panel is left over in which vectors are not full.
        has_many = is_narrow and windows.channel.size >= tuning.outputs_worth_columns
        is_whole = has_many or windows.channel.size % tuning.streamed_panel == 0
        return self.is_fixed and is_single and (is_small or is_narrow) and is_whole and self._has_large_registers()

    def _has_runs(self) -> bool:
        """Whether vectors are of output channels, by a filter that is fixed, since these lie side by side at each
        point, or those that are summed up do."""
        lies_so = are_side_by_side(self.source) and max(self.windows.tap_counts) == 1
        return self.is_fixed and (lies_so or are_side_by_side(self.output)) and self._has_large_registers()

    def _are_few(self) -> bool:
        """Whether windows are too few for vectors along them, as of images of one point, and output channels are not:
        these lie side by side in panels that are made once."""
        windows, tuning = self.windows, self.tuning
        count = windows.batch.size * math.prod(windows.counted)
        return self.is_fixed and count <= tuning.few_windows


def filter_in_panels(found: Sum, width: int, refinement: Refinement) -> None:
    """Adds the sums over batch, group, channel and places with copies of the filter in which the output channels of a
    panel, ``width`` of them, lie next to each other: those in whole panels, and those that are left."""
    for region in columns_in_panels(found.compute.axes[2].size, width):
        refinement.statements.append(_of_panels(found, region, refinement))


def _of_panels(found: Sum, region: Columns, refinement: Refinement) -> Compute:
    (batch, group, channel, *places), folded, right = found.compute.axes, found.fold.axes, found.right
    start, blocks, width = region

    def element(group_index: Expression, block: Expression, *place: Expression) -> Expression:
        there = dict(zip(folded, place, strict=False)) | {group: group_index}
        return at(right.element, there | {channel: block * width + place[-1] + start})

    sizes = [group.size, blocks, *(axis.size for axis in folded), width]
    panels = refinement.copy("filter_panels", right.element.type, sizes, element)
    block, within = grid([blocks, width], "bo")
    replaced = moved({channel: index(block) * width + index(within) + start})
    replaced[right.whole] = load(panels, (index(group), index(block), *indices(folded), index(within)))
    return found.rewritten(replaced, (batch, group, block, within, *places))
