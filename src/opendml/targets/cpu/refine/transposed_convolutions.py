"""Transposed convolutions: a statement for each phase, the outputs that the same taps of the filter reach, or one for
all of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from opendml.expression.affine import Affine, affine
from opendml.expression.element_types import I64
from opendml.expression.folds import sum_of_products
from opendml.expression.ir import (
    Axis,
    Binary,
    Const,
    Expression,
    Part,
    Tensor,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    temporary,
)
from opendml.expression.rewriting import conjuncts, substitute
from opendml.expression.statements import Compute, Store, rewritten, stores_of
from opendml.targets.cpu.refine.convolutions import are_taps, are_worth_guards, filter_in_panels
from opendml.targets.cpu.refine.copies_of_factors import Read, padded, widened, zero_outside
from opendml.targets.cpu.refine.refinement import Refinement, Surroundings
from opendml.targets.cpu.refine.sums import Sum, at, coordinate_is, moved, sum_of
from opendml.targets.cpu.tuning import Tuning


def transposed_convolution(found: Sum, surroundings: Surroundings) -> Refinement | None:
    """Sums over the channels of a group and those taps of a filter that meet an input, for every output."""
    ways = _ways(found) if found.fold.type.is_float else None
    most = surroundings.target.tuning.most_phases
    count = 0 if ways is None else math.prod(min(way.stride, way.place.size) for way in ways)
    if ways is None or count > most**2:
        return None
    phases = [list(_phases(way)) for way in ways]
    is_in_panels = _is_worth_panels(found, surroundings)
    are_alike = is_in_panels and _are_alike(found, ways, phases)
    if not are_alike and count > most:
        return None
    return _refinement(found, ways, phases, surroundings, is_in_panels=is_in_panels, are_alike=are_alike)


class _Way(NamedTuple):
    """Along a spatial dimension the output at ``place`` reads the input at ``(place - tap * dilation + padding) /
    stride``, where that is a whole number."""

    place: Axis
    tap: Axis
    stride: int
    dilation: int
    padding: int


def _ways(found: Sum) -> list[_Way] | None:
    """Of a sum of elements of {N, C, spatial...} by those of a filter {C, OC / groups, spatial...}."""
    if not found.has_window_axes:
        return None
    batch, group, channel, *place = found.compute.axes
    inner, *taps = found.fold.axes
    left, right = found.left.load.coordinates, found.right.load.coordinates
    input_channel = {group: inner.size, inner: 1}
    of_filter = coordinate_is(right[0], input_channel) and coordinate_is(right[1], {channel: 1})
    of_input = coordinate_is(left[0], {batch: 1}) and coordinate_is(left[1], input_channel)
    if not of_filter or not of_input or not are_taps(right[2:], taps):
        return None
    asked = set() if found.fold.where is None else set(conjuncts(found.fold.where))
    ways = list[_Way]()
    for coordinate, target, tap in zip(left[2:], place, taps, strict=True):
        way = _way(coordinate, target, tap, asked)
        if way is None:
            return None
        ways.append(way)
    return None if asked else ways


def _way(coordinate: Expression, place: Axis, tap: Axis, asked: set[Expression]) -> _Way | None:
    """How a dimension of the input is read; takes the question whether a tap meets an input from those ``asked``."""
    form, stride, shift = affine(coordinate), 1, 0
    (quotient,) = form.opaque if len(form.terms) == 1 and form.opaque else (None,)
    if isinstance(quotient, Binary) and quotient.operation == "div" and isinstance(quotient.right, Const):
        if form.terms != ((quotient, 1),):
            return None
        stride, shift, form = int(quotient.right.value), -form.constant, affine(quotient.left)
        question = (quotient.left % stride).equals(0)
        if question not in asked:
            return None
        asked.remove(question)
    dilation = -form.coefficient(tap) if tap.size > 1 else 1
    expected = Affine((*(((place, 1),) if place.size > 1 else ()), *(((tap, -dilation),) if tap.size > 1 else ())), 0)
    if dilation < 1 or dict(form.terms) != dict(expected.terms):
        return None
    return _Way(place, tap, stride, dilation, form.constant - shift * stride)


@dataclass(frozen=True, slots=True)
class _Phase:
    """Every ``stride``-th element of an output dimension of a transposed convolution, from ``start`` on.

    The filter taps that reach them are ``tap + step * j``; with the tap of number j the element of number q reads the
    input at ``q + place - back * j``.
    """

    start: int
    length: int
    tap: int
    step: int
    tap_count: int
    place: int
    back: int


def _phases(way: _Way) -> Iterator[_Phase]:
    """The phases of a dimension: those elements whose sums have the same form."""
    size, taps, stride = way.place.size, way.tap.size, way.stride
    common = math.gcd(stride, way.dilation)
    step = stride // common
    for start in range(min(stride, size)):
        length = -(-(size - start) // stride)
        shifted = start + way.padding
        if shifted % common:
            yield _Phase(start, length, 0, 1, 0, 0, 0)
            continue
        # The least tap with tap * dilation = shifted (mod stride).
        tap = shifted // common * pow(way.dilation // common, -1, step) % step
        tap_count = max(0, -(-(taps - tap) // step))
        yield _Phase(
            start, length, tap, step, tap_count, (shifted - tap * way.dilation) // stride, way.dilation // common
        )


def _refinement(
    found: Sum,
    ways: Sequence[_Way],
    phases: Sequence[Sequence[_Phase]],
    surroundings: Surroundings,
    *,
    is_in_panels: bool,
    are_alike: bool,
) -> Refinement:
    """The statements; of phases that ``are_alike`` together, else of each phase."""
    refinement = Refinement()
    used = [[p for p in own if p.tap_count] for own in phases]
    lowest = [min((p.place - p.back * (p.tap_count - 1) for p in own), default=0) for own in used]
    highest = [max((p.place + p.length - 1 for p in own), default=0) for own in used]
    sizes = found.left.load.tensor.sizes[2:]
    if all(low >= 0 for low in lowest) and all(high < size for high, size in zip(highest, sizes, strict=True)):
        read: Read | None = widened(found.left, refinement)
    elif _is_worth_guards(found, used, lowest, highest, surroundings.target.tuning):
        read = None
    else:
        output, tuning = found.compute.stores[0].tensor, surroundings.target.tuning
        together = found.fold.axes[0].size >= tuning.side_by_side_channels
        read = padded(found.left, lowest, highest, output, tuning, refinement, rows_of_channels=together)
    guarded: Read = lambda place: zero_outside(found.left, place)  # noqa: E731
    apart = _columns_apart(found, ways[-1])
    as_it_is: Read = lambda place: cast(load(found.right.load.tensor, place), found.right.element.type)  # noqa: E731
    reads = read or guarded, as_it_is if is_in_panels else widened(found.right, refinement)
    if are_alike:
        _add_alike(found, ways, [own[0] for own in phases], reads, surroundings.target.tuning.panel, refinement)
        return refinement
    if not is_in_panels and _are_together(found, phases, surroundings.target.tuning):
        refinement.statements.append(_of_all_phases(found, ways, phases, reads))
        return refinement
    for each in itertools.product(*phases):
        sums = _of_phase(found, ways, each, reads, apart)
        one = sum_of(sums) if is_in_panels else None
        if one is None:
            refinement.statements.append(sums)
        else:
            filter_in_panels(one, surroundings.target.tuning.panel, refinement)
    if apart is not None:
        refinement.temporaries.append(apart)
        refinement.statements += _interleaved(apart, found.compute.stores[0].tensor)
    return refinement


def _is_worth_guards(
    found: Sum, phases: Sequence[Sequence[_Phase]], lowest: Sequence[int], highest: Sequence[int], tuning: Tuning
) -> bool:
    """Whether depthwise sums test for what is outside themselves."""
    source, taps = found.left.load.tensor, [axis.size for axis in found.fold.axes[1:]]
    if not found.fold.axes[0].size == found.compute.axes[2].size == 1:
        return False
    reaches = [max((p.back * (p.tap_count - 1) for p in own), default=0) for own in phases]
    outside = [max(-low, high - size + 1) for low, high, size in zip(lowest, highest, source.sizes[2:], strict=True)]
    return are_worth_guards(source, taps, reaches, outside, tuning)


def _is_worth_panels(found: Sum, surroundings: Surroundings) -> bool:
    """Whether copying the filter into panels costs less than it saves: output channels never lie side by side in it."""
    (batch, _, channel, *places), weights = found.compute.axes, found.right.load.tensor
    tuning, windows = surroundings.target.tuning, batch.size * math.prod(place.size for place in places)
    is_fixed = weights in surroundings.fixed
    is_wide = channel.size >= tuning.narrowest_panel and (is_fixed or places[-1].size >= tuning.wide_row)
    is_kept = is_fixed or windows >= tuning.windows_worth_panels
    return is_wide and is_kept and 0 not in weights.strides


def _columns_apart(found: Sum, way: _Way) -> Tensor | None:
    """The output with the phases of its last dimension in a dimension of their own, the first: neighbours of one phase
    are then neighbours in memory, and can be stored together. None where they are so anyway, elements are apart, or
    sums are of a single channel: these take less time than memory does."""
    store, *others = found.compute.stores
    output = store.tensor
    is_all = math.prod(axis.size for axis in found.compute.axes) == math.prod(output.sizes)
    is_plain = coordinate_is(store.coordinates[-1], {way.place: 1}) and output.strides[-1] == 1
    is_single = found.fold.axes[0].size == 1
    if others or not is_all or not is_plain or is_single or not 1 < way.stride < way.place.size:
        return None
    sizes = (way.stride, *output.sizes[:-1], -(-way.place.size // way.stride))
    return temporary(f"{output.name}_by_phases", output.type, sizes)


def _interleaved(apart: Tensor, output: Tensor) -> Iterator[Compute]:
    """The phases side by side: all that are complete, and the columns behind these."""
    stride = apart.sizes[0]
    whole, rest = divmod(output.sizes[-1], stride)
    for first, columns, count in ((0, whole, stride), (whole, 1, rest)):
        if not count:
            continue
        axes = grid([*output.sizes[:-1], columns, count])
        *place, column, phase = indices(axes)
        there = load(apart, (phase, *place, column + first))
        yield Compute(axes, (Store(output, (*place, (column + first) * stride + phase), there),))


# All phases at once ---------------------------------------------------------------------------------------------------


def _are_alike(found: Sum, ways: Sequence[_Way], phases: Sequence[Sequence[_Phase]]) -> bool:
    """Whether there are sums of several phases, which differ in nothing but the taps that they begin with, as those of
    windows that do not overlap: then they are like further channels. So they are only where there is one group, and
    where all elements of the output are written each at its own place."""
    (batch, group, channel, *places), (store, *others) = found.compute.axes, found.compute.stores
    targets, counts = (batch, channel, *places), [len(own) for own in phases]
    if others or group.size > 1 or math.prod(counts) == 1 or counts != [way.stride for way in ways]:
        return False
    is_whole = store.tensor.sizes == tuple(axis.size for axis in targets)
    is_own = all(coordinate_is(c, {axis: 1}) for c, axis in zip(store.coordinates, targets, strict=True))
    return is_whole and is_own and all(map(_differ_in_taps_alone, phases))


def _differ_in_taps_alone(phases: Sequence[_Phase]) -> bool:
    """Whether those of a dimension do, each of which begins with the tap of its number."""
    first = phases[0]
    return first.tap_count > 0 and all(p == replace(first, start=p.start, tap=p.start) for p in phases)


def _add_alike(
    found: Sum,
    ways: Sequence[_Way],
    first: Sequence[_Phase],
    reads: tuple[Read, Read],
    panel: int,
    refinement: Refinement,
) -> None:
    """Adds the sums of all phases as those of groups, to a tensor in which each phase is apart, and what puts them side
    by side."""
    (batch, _, channel, *_), (inner, *_), (store,) = found.compute.axes, found.fold.axes, found.compute.stores
    strides, output = [way.stride for way in ways], store.tensor
    phase, lengths = Axis("phase", math.prod(strides)), [p.length for p in first]
    places, taps = grid(lengths, "xyz"), grid([p.tap_count for p in first], "tuv")
    starts = [index(phase) // math.prod(strides[d + 1 :]) % stride for d, stride in enumerate(strides)]
    steps = list(zip(ways, places, taps, first, starts, strict=True))
    position = [index(q) + p.place - index(j) * p.back for _, q, j, p, _ in steps]
    there = {way.tap: index(j) * p.step + start for way, _, j, p, start in steps}
    left = reads[0]((*found.left.load.coordinates[:2], *position))
    right = reads[1]([at(coordinate, there) for coordinate in found.right.load.coordinates])
    outputs = {way.place: index(q) * way.stride + start for way, q, _, _, start in steps}
    replaced = {Part(found.fold, 0): sum_of_products((inner, *taps), left, right), **moved(outputs)}
    made = found.rewritten(replaced, (batch, phase, channel, *places))
    apart = temporary(f"{output.name}_by_phases", output.type, [phase.size, *output.sizes[:2], *lengths])
    spread = (index(phase), index(batch), index(channel), *indices(places))
    sums = sum_of(replace(made, stores=(Store(apart, spread, made.stores[0].value),)))
    assert sums is not None
    filter_in_panels(sums, panel, refinement)
    refinement.temporaries.append(apart)
    refinement.statements.append(_side_by_side(apart, output, strides))


def _side_by_side(apart: Tensor, output: Tensor, strides: Sequence[int]) -> Compute:
    """The elements of all phases in their places."""
    axes = grid([*apart.sizes[1:3], *itertools.chain(*zip(apart.sizes[3:], strides, strict=True))])
    batch, channel, *rest = indices(axes)
    places, starts = rest[::2], rest[1::2]
    number: Expression = constant(0, I64)
    for stride, start in zip(strides, starts, strict=True):
        number = number * stride + start
    value = load(apart, (number, batch, channel, *places))
    target = (place * stride + start for place, stride, start in zip(places, strides, starts, strict=True))
    return Compute(axes, (Store(output, (batch, channel, *target), value),))


def _are_together(found: Sum, phases: Sequence[Sequence[_Phase]], tuning: Tuning) -> bool:
    """Whether the sums of all phases are of a single channel, a few steps each, and of equally many outputs: then the
    lines that all of them write to come and go once if they are computed in one statement."""
    is_single = found.fold.axes[0].size == 1 and len(found.compute.stores) == 1
    are_equal = all(len({p.length for p in own}) == 1 for own in phases)
    steps = math.prod(sum(max(p.tap_count, 1) for p in own) for own in phases)
    return is_single and are_equal and steps <= tuning.most_guarded_taps


def _of_all_phases(
    found: Sum, ways: Sequence[_Way], phases: Sequence[Sequence[_Phase]], reads: tuple[Read, Read]
) -> Compute:
    """One statement for them, with a store of each."""
    first, *others = (_of_phase(found, ways, each, reads, None) for each in itertools.product(*phases))
    stores = list(first.stores)
    for other in others:
        there = substitute(moved({a: index(b) for a, b in zip(other.axes, first.axes, strict=True)}))
        stores += stores_of(rewritten(other, there, {}))
    return replace(first, stores=tuple(stores))


def _of_phase(
    found: Sum, ways: Sequence[_Way], phases: Sequence[_Phase], reads: tuple[Read, Read], apart: Tensor | None
) -> Compute:
    """The sums of the outputs that are in these phases, stored in ``apart`` if there is such a tensor."""
    (batch, group, channel, *_), (inner, *_) = found.compute.axes, found.fold.axes
    places, taps = grid([p.length for p in phases], "xyz"), grid([p.tap_count for p in phases], "tuv")
    total: Expression = constant(0, found.fold.type)
    if all(p.tap_count for p in phases):
        steps = list(zip(places, taps, phases, strict=True))
        position = [index(q) + p.place - index(j) * p.back for q, j, p in steps]
        there = {way.tap: index(j) * p.step + p.tap for way, (_, j, p) in zip(ways, steps, strict=True)}
        left = reads[0]((*found.left.load.coordinates[:2], *position))
        right = reads[1]([at(coordinate, there) for coordinate in found.right.load.coordinates])
        total = sum_of_products((inner, *taps), left, right)
    outputs = {way.place: index(q) * way.stride + p.start for way, q, p in zip(ways, places, phases, strict=True)}
    replaced = {Part(found.fold, 0): total, **moved(outputs)}
    made = found.rewritten(replaced, (batch, group, channel, *places))
    if apart is None:
        return made
    (store,) = made.stores
    spread = (constant(phases[-1].start, I64), *store.coordinates[:-1], index(places[-1]))
    return replace(made, stores=(Store(apart, spread, store.value),))
