"""Sums of products: which lines are asked for ahead, when, and by which tiles."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from contraction_kernels import TARGETS, convolution, fixed_kernel, gemm, product_kernel

import opendml as dml
from opendml.expression.affine import Element
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.loops.nest import At, Loop, Points, Prefetch, nodes_of
from opendml.loops.nest_printer import format_nest
from opendml.targets.cpu.contraction import ContractionKernel, schedule_contraction
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING


def test_lines_to_be_stored_are_asked_for_in_parts() -> None:
    """As many as a processor can wait for, at each step of the outermost loop of sums of which none is left out."""
    target = TARGETS[0].tuned(least_padding=1)
    nest = kernel_nest(product_kernel(convolution(1, 64, 64, 28), target), target)
    text = [line.strip() for line in format_nest(nest).splitlines()]
    (asked,) = (number for number, line in enumerate(text) if line.startswith("prefetch OutputTensor"))
    outer, inner = (text.index(f"for {axis} in 0..{n}, carrying sum (28 of each)") for axis, n in (("c", 64), ("t", 3)))
    assert outer < asked < inner
    assert "unrolled o + 0..1" in text[outer:asked]


def test_rows_of_the_next_tile_are_asked_for_while_they_are_short() -> None:
    assert product_kernel(gemm(512, 256, 512)).next_tile
    assert not product_kernel(gemm(64, 256, 512)).next_tile  # in the cache anyway
    assert product_kernel(gemm(512, 4096, 512)).next_tile  # longer than a page, from memory
    assert not product_kernel(gemm(128, 4096, 512)).next_tile  # longer than a page, from the last cache
    assert not product_kernel(gemm(512, 4112, 512)).next_tile


@pytest.mark.parametrize(("columns", "steps"), [(1024, TUNING.copied_steps_ahead), (1040, TUNING.steps_ahead)])
def test_what_tiles_copy_is_asked_for_further_ahead_where_rows_are_not_whole_pages(columns: int, steps: int) -> None:
    kernel = product_kernel(gemm(128, 300, columns))
    assert kernel.has_filling_tiles and kernel.panel is not None
    assert isinstance(kernel.panel.source, Element)
    asked = {
        n.address.constant - kernel.panel.source.address.constant
        for n in nodes_of(kernel_nest(kernel, TARGETS[0]).body)
        if isinstance(n, Prefetch) and n.tensor is kernel.panel.source.tensor
    }
    assert asked == {steps * columns + 16 * number for number in range(kernel.vectors)}


def test_scalars_that_are_asked_for_cost_little_beside_many_sums() -> None:
    """Planes of 13x13, whose rows of 26 sums leave nothing over: no copy is worth it."""
    kernel = fixed_kernel(convolution(1, 512, 1024, 13, window=1))
    assert kernel.turned and kernel.panel is None
    assert (kernel.vectors, kernel.tile_size) == (2, 13)


def test_vectors_of_long_strips_are_asked_for_ahead() -> None:
    """Of panels and of weights in panels alike, unless all steps of a strip stay in the nearest cache."""
    long = product_kernel(gemm(512, 512, 512))
    short = product_kernel(gemm(512, 512, 512), replace(TARGETS[0], knobs=replace(TUNING, near_strip_bytes=1 << 20)))
    assert long.panel is not None and long.far_vectors == (long.panel.element,)
    assert short.panel is not None and short.far_vectors == ()
    assert product_kernel(convolution(1, 64, 64, 28)).far_vectors
    copies = 2  # of the first tiles of a panel, and of others: items have one tile each
    assert format_nest(kernel_nest(long, TARGETS[0])).count("prefetch panel@") == copies * long.vectors


def test_vectors_of_short_strips_are_asked_for_a_strip_ahead() -> None:
    """Some steps ahead of the last steps of a channel there is another image, and nothing that is wanted soon."""
    short, long = (product_kernel(convolution(1, channels, 16, 112, window=1)) for channels in (32, 200))
    assert short.by_strips and not long.by_strips
    (vectors,) = short.far_vectors
    nodes = nodes_of(kernel_nest(short, TARGETS[0]).body)
    asked = {
        n.address.constant for n in nodes if isinstance(n, Prefetch) and n.tensor is vectors.tensor and n.cache == 1
    }
    assert asked == {vectors.address.constant + short.strip + 16 * number for number in range(short.vectors)}


def test_tiles_ask_for_the_next_block_of_weights_together() -> None:
    """Each for its part of every panel of it: all lines between the first and the last."""
    graph = dml.Graph()
    x = graph.input("float32", [1, 1, 128, 2048])
    desc = graph.describe(dml.gemm(x, graph.constant(np.ones((1, 1, 2048, 768), np.float32))))
    (statement,) = divide_and_fuse(join(desc, refining(TARGETS[0])), costs=TARGETS[0].costs).execution.statements
    assert isinstance(statement, Compute)
    kernel = schedule_contraction(statement, TARGETS[0])
    assert kernel is not None and kernel.panel is None
    (e,), (block, panels), (step,) = kernel.next_block, kernel.blocks[0], kernel.fold.axes
    assert panels < block.size and kernel.loops == (kernel.tile, block, kernel.vector)
    panel = e.address.coefficient(block)
    assert panel == 2048 * kernel.strip
    first = e.address.constant - panels * panel
    begins = [first + e.address.coefficient(kernel.tile) * row for row in range(0, 128, kernel.tile_size)]
    ends = [begin + e.address.coefficient(step) * step.size for begin in begins]
    assert begins[0] == 0 and ends[-1] >= panel
    assert all(end >= begin for end, begin in zip(ends, begins[1:], strict=False))
    assert 0 < e.address.coefficient(step) <= 16  # no line is left out
    assert not product_kernel(gemm(128, 2048, 768)).next_block


def lines_of_the_next_panel(kernel: ContractionKernel, e: Element, further: frozenset[int]) -> tuple[set[int], int]:
    """The lines that all tiles of all strips of a panel ask for at all steps, counted from where the next panel begins,
    and how many it has."""
    run, line = kernel.steps * kernel.vector.size, TARGETS[0].machine.cache_line // 4
    counts = {kernel.vector: kernel.strip, kernel.tile: kernel.tile_size}
    if kernel.row is not None:
        counts[kernel.row] = kernel.row_count * counts.get(kernel.row, 1)
    tiles = [0]
    for axis in (*kernel.across, kernel.vector):
        moves = (e.address.coefficient(axis) * n for n in range(0, axis.size, counts.get(axis, 1)))
        tiles = [tile + move for move, tile in itertools.product(moves, tiles)]
    steps = [0]
    for axis in kernel.fold.axes[:1] if further else kernel.fold.axes:
        steps = [step + e.address.coefficient(axis) * n for step, n in itertools.product(steps, range(axis.size))]
    places = itertools.product(tiles, steps, further or {0})
    assert any(e.address.coefficient(axis) == run for axis in kernel.along if axis is not kernel.vector)
    return {(e.address.constant - run + sum(place)) // line for place in places}, run // line


@pytest.mark.parametrize(
    ("channels", "filters", "size", "window", "registers"),
    [(256, 1024, 14, 1, 2), (1024, 256, 14, 1, 2), (256, 256, 14, 3, 2), (256, 1024, 14, 1, 4)],
)
def test_each_tile_asks_for_its_part_of_the_next_panel(
    channels: int, filters: int, size: int, window: int, registers: int
) -> None:
    """All tiles of the strips of a panel together for all of its lines, and for hardly any behind them."""
    target = TARGETS[0].tuned(filter_panel_registers=registers)
    kernel = fixed_kernel(convolution(1, channels, filters, size, window), target)
    assert kernel.keeps_tiles and kernel.panel is None
    assert kernel.vector.size == 16 * registers
    (e,) = kernel.next_block
    asked, lines = lines_of_the_next_panel(kernel, e, frozenset())
    assert asked >= set(range(lines)) and min(asked) == 0
    assert len(asked) <= 2 * lines


@pytest.mark.parametrize(
    ("channels", "size", "stride", "has_channels_last"),
    [(512, 7, 1, False), (256, 14, 2, False), (256, 28, 1, False), (512, 7, 1, True), (256, 14, 2, True)],
)
def test_lines_of_the_next_panel_are_asked_for_between_the_loops_of_a_window(
    channels: int, size: int, stride: int, has_channels_last: bool
) -> None:
    """Some at each step of the outermost one, where that is fewer than one at each step of the others; whether results
    are transposed or stored as they are. None of the steps is left out."""
    target = TARGETS[1].tuned(least_padding=1)
    desc = convolution(1, channels, 64, size, stride=stride, has_channels_last=has_channels_last)
    kernel = fixed_kernel(desc, target)
    assert kernel.keeps_tiles != has_channels_last
    _, *inner = kernel.fold.axes
    (e,) = kernel.next_block
    nodes = nodes_of(kernel_nest(kernel, target).body)
    channel, *_ = (node for node in nodes if isinstance(node, Loop) and node.axis.name == "c" and node.step == 1)
    asks = [ask for ask in nodes_of(channel.body) if isinstance(ask, Prefetch) and ask.tensor is e.tensor]
    once = [ask for node in channel.body if isinstance(node, At) for ask in nodes_of((node,)) if ask in asks]
    further = frozenset(ask.address.constant - e.address.constant for ask in once)
    assert 0 < len(further) < math.prod(axis.size for axis in inner)
    assert [ask for ask in asks if ask.cache == 2] == once
    asked, lines = lines_of_the_next_panel(kernel, e, further)
    assert asked >= set(range(lines)) and min(asked) == 0
    assert len(asked) <= 2 * lines


def test_small_filters_are_not_asked_for_by_panel() -> None:
    """They are near anyway."""
    assert not fixed_kernel(convolution(1, 64, 64, 56)).next_block


def test_lines_of_the_results_are_asked_for_between_the_steps() -> None:
    """A point's every few steps, of sums that have steps enough; else all of them before the first."""
    kernel = fixed_kernel(convolution(1, 256, 1024, 14, 1))
    nest = kernel_nest(kernel, TARGETS[0])
    loops = [node for node in nodes_of(nest.body) if isinstance(node, Loop)]
    stored = [node for node in nodes_of(nest.body) if isinstance(node, Prefetch) and node.is_stored]
    (asking,) = (node for node in loops if node.carried and any(n in stored for n in nodes_of(node.body)))
    assert asking.step * kernel.strip <= TUNING.asking_part * kernel.steps < (asking.step + 1) * kernel.strip
    assert [node.step for node in loops if node.carried] == [asking.step, 1]
    before = kernel_nest(kernel, replace(TARGETS[0], knobs=replace(TUNING, asking_part=0.0)))
    assert [n.step for n in nodes_of(before.body) if isinstance(n, Loop) and n.carried] == [1]


def test_loops_between_which_lines_are_asked_for_have_some_steps() -> None:
    """Of short sums those of several points are asked for at once, so that all are behind a part of the steps."""
    kernel = product_kernel(gemm(64, 64, 64, trans_a=True, trans_b=True))
    assert kernel.turned
    nodes = [*nodes_of(kernel_nest(kernel, TARGETS[0]).body)]
    (asking,) = (node for node in nodes if isinstance(node, Loop) and node.carried and node.step > 1)
    assert asking.step == TUNING.fewest_asking_steps
    asked, *_ = asking.body
    assert isinstance(asked, At)
    (points,) = asked.body
    assert isinstance(points, Points)
    rounds = int(TUNING.asking_part * kernel.steps) // asking.step
    assert (points.count - 1) * rounds < kernel.strip <= points.count * rounds


def test_tiles_ask_for_the_next_strip_where_few_of_them_read_it() -> None:
    """For all lines that this strip does not end in, wherever in a line strips begin."""
    squeeze = product_kernel(convolution(1, 128, 16, 55, 1))
    (e,) = squeeze.next_strip
    assert e in set(walk(squeeze.fold)) and not squeeze.next_block
    nest = format_nest(kernel_nest(squeeze, TARGETS[0]))
    asked = {int(number) for number in re.findall(r"prefetch \S+@\(3025\*\w+ \+ \w+ \+ (\d+)\) to cache 2", nest)}
    line = TARGETS[0].machine.cache_line // 4
    assert asked >= {squeeze.strip - 1 + line * (number + 1) for number in range(squeeze.strip // line)}
    many = product_kernel(convolution(1, 64, 256, 56, 1))  # tiles read it, and each step is far from the one before
    assert not many.next_strip and not many.next_block
    assert not product_kernel(convolution(1, 16, 16, 28, 1)).next_strip  # in the cache anyway


def test_what_the_next_strip_costs_where_it_is_asked_for() -> None:
    """Planes of several images are copied to panels, unless what is asked for takes less time than that."""
    several = convolution(8, 256, 64, 56, 1)
    assert product_kernel(several).panel is not None
    kernel = product_kernel(several, TARGETS[0].tuned(asked_planes_bytes=1 << 19, asked_strip_penalty=1.0))
    assert kernel.panel is None and kernel.next_strip
    few = TARGETS[0].tuned(asked_planes_bytes=1 << 12, asked_strip_penalty=1.0)
    assert product_kernel(several, few).panel is not None


def stored_lines(kernel: ContractionKernel, target: CpuTarget) -> set[int]:
    """How far from where a tile stores the lines are that it asks for to store there, along each row."""
    nest = format_nest(kernel_nest(kernel, target))
    asked = re.findall(r"prefetch OutputTensor@\(.*?\+ xy(?: \+ (\d+))?\) to store there", nest)
    return {int(number or 0) for number in asked}


def test_results_of_short_sums_come_a_tile_ahead_where_they_come_from_memory() -> None:
    """A strip is followed by the next one of the same rows, the last lines of a strip by the first of that."""
    short = TARGETS[0].tuned(short_steps=TUNING.short_sums)
    large, small, long = convolution(8, 32, 128, 64, 1), convolution(1, 32, 16, 64, 1), convolution(8, 128, 64, 64, 1)
    kernel = product_kernel(large, short)
    assert kernel.results_ahead and kernel.loops[-1] is kernel.vector
    line = short.machine.cache_line // 4
    assert stored_lines(kernel, short) == {kernel.strip + first for first in range(0, kernel.strip, line)}
    assert stored_lines(product_kernel(large), TARGETS[0]) == set(range(0, kernel.strip, line))
    assert not any(product_kernel(one, short).results_ahead for one in (small, long))
    assert not product_kernel(large).results_ahead


def summing_points(kernel: ContractionKernel, target: CpuTarget) -> list[Points]:
    """The steps of a kernel's sums that are written out."""
    nodes = nodes_of(kernel_nest(kernel, target).body)
    return [node for node in nodes if isinstance(node, Points) and node.carried]


@pytest.mark.parametrize(("filters", "size", "window", "steps"), [(1024, 14, 1, 8), (256, 14, 3, 3), (64, 56, 7, 7)])
def test_some_steps_are_written_out_where_there_are_few_registers(
    filters: int, size: int, window: int, steps: int
) -> None:
    """As many as divide the innermost axis, a row of windows whole; each asks for lines that the others do not."""
    target, line = TARGETS[1], TARGETS[1].machine.cache_line // 4
    kernel = fixed_kernel(convolution(1, 256, filters, size, window), target)
    found = summing_points(kernel, target)
    assert {points.count for points in found} == {steps}
    last = next(axis for axis in reversed(kernel.fold.axes) if axis.size > 1)
    for points in found:
        asked = [node for node in nodes_of(points.body) if isinstance(node, Prefetch)]
        assert all(abs(ask.address.coefficient(last)) * steps > (steps - 1) * line for ask in asked)
    assert not summing_points(fixed_kernel(convolution(1, 256, filters, size, window)), TARGETS[0])
    single = target.tuned(steps_written_out=1)
    assert not summing_points(fixed_kernel(convolution(1, 256, filters, size, window), single), single)


def test_lines_of_the_results_are_asked_for_once_beside_short_steps() -> None:
    """Sums of many channels of windows go through some of these between a point's lines and the next one's."""
    kernel = fixed_kernel(convolution(1, 256, 256, 14), TARGETS[1])
    loops = [node for node in nodes_of(kernel_nest(kernel, TARGETS[1]).body) if isinstance(node, Loop)]
    stored = [n for node in loops for n in nodes_of(node.body) if isinstance(n, Prefetch) and n.is_stored]
    inner = [node for node in loops if any(n in stored for n in nodes_of(node.body)) and node.carried]
    assert inner
    assert {node.step for node in inner} == {TUNING.asking_channels}


@pytest.mark.parametrize(("channels", "few"), [(32, 8), (64, 16), (256, 16), (1024, 32)])
def test_lines_of_the_results_are_asked_for_some_at_a_time(channels: int, few: int) -> None:
    """All of them in the first half of the channels, and none of them twice but at the end."""
    kernel = fixed_kernel(convolution(1, channels, 64, 28), TARGETS[1])
    loops = [node for node in nodes_of(kernel_nest(kernel, TARGETS[1]).body) if isinstance(node, Loop) and node.carried]
    outer = [loop for loop in loops if loop.axis.size == channels and loop.step > 1]
    points = [n for loop in outer for n in nodes_of(loop.body) if isinstance(n, Points) and n.axis is kernel.vector]
    lines = [n for n in points if all(isinstance(inner, Points | Prefetch) for inner in nodes_of(n.body))]
    assert {loop.step for loop in outer} == {few}
    assert {n.count for n in lines} == {kernel.strip * few * 2 // channels}
