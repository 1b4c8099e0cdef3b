"""Windows over what a product gives, in blocks of channels: which statements these are, and that no bit differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from statement_blocks import Network, blocks_of, described

import opendml as dml
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.loops.sequence import Points
from opendml.targets.cpu.code.program_code import ProgramCode
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.microarchitectures import tuning_of
from opendml.targets.cpu.refine.blocks_of_channels import blocks_of_channels
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import host_target
from opendml.targets.cpu.tuning import TUNING

TUNED: Final = replace(
    TUNING,
    kept_channels_bytes=1 << 12,
    fewest_kept_channels=2,
    most_kept_channels=6,
    most_kept_steps=40,
    kept_window_channels=4,
    kept_window_bytes=1 << 12,
    blocks_of_channels=4,
    fewest_kept_bytes=1,
    fewest_kept_points=1,
    serial_work=0,
)
"""Small tensors are worth blocks."""


def blocks(network: Network, sizes: Sequence[Sequence[int]]) -> list[tuple[tuple[int, ...], ...]]:
    """How many blocks there are along images and channels, and what each has of its own."""
    eaches = blocks_of(blocks_of_channels, network, sizes, TUNED)
    return [(tuple(axis.size for axis in each.axes), *(own.sizes for own in each.own)) for each in eaches]


PADDED: Final[dict[str, Any]] = {"start_padding": [1, 1], "end_padding": [1, 1]}


def inverted(stride: int = 1, act: Network = dml.activation_relu) -> Network:
    """A convolution of single points, and a depthwise one."""

    def network(x: Any, points: Any, windows: Any) -> Any:
        expanded = act(dml.convolution(x, points))
        return act(dml.convolution(expanded, windows, group_count=12, strides=[stride, stride], **PADDED))

    return network


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("act", [dml.activation_relu, lambda x: x * dml.activation_sigmoid(x)])
def test_depthwise_windows_are_done_with_their_channels(stride: int, act: Network) -> None:
    """As many channels as fit into the cache and leave blocks enough."""
    weights = ([12, 5, 1, 1], [12, 1, 3, 3])
    assert blocks(inverted(stride, act), ([3, 5, 9, 17], *weights)) == [((3, 2), (1, 6, 9, 17))]
    assert blocks(inverted(stride, act), ([1, 5, 9, 17], *weights)) == [((1, 4), (1, 3, 9, 17))]
    assert blocks(inverted(stride, act), ([2, 5, 20, 20], *weights)) == [((2, 6), (1, 2, 20, 20))]


def test_two_pairs_behind_each_other() -> None:
    """What one block's windows give all channels of the next product read."""

    def network(x: Any, points: Any, windows: Any, back: Any) -> Any:
        there = inverted()(x, points, windows)
        return inverted()(dml.convolution(there, back) + x, points, windows)

    found = blocks(network, ([2, 5, 9, 17], [12, 5, 1, 1], [12, 1, 3, 3], [5, 12, 1, 1]))
    assert found == [((2, 2), (1, 6, 9, 17))] * 2


def test_pooling_is_done_with_its_channels() -> None:
    def network(x: Any, points: Any) -> Any:
        return dml.max_pooling(dml.convolution(x, points), window_size=[3, 3], strides=[2, 2]).values

    assert blocks(network, ([2, 5, 9, 17], [12, 5, 1, 1])) == [((2, 2), (1, 6, 9, 17))]


def test_windows_of_windows_are_done_with_their_channels() -> None:
    """Where the first ones have few steps: some whole vectors of channels, if these fit and leave blocks enough."""

    def depthwise(x: Any, filters: Any, windows: Any) -> Any:
        first = dml.activation_relu(dml.convolution(x, filters, strides=[2, 2], **PADDED))
        return dml.convolution(first, windows, group_count=filters.sizes[0], **PADDED)

    def pooled(x: Any, filters: Any) -> Any:
        first = dml.activation_relu(dml.convolution(x, filters))
        return dml.max_pooling(first, window_size=[3, 3], strides=[2, 2]).values

    assert blocks(depthwise, ([2, 4, 17, 33], [12, 4, 3, 3], [12, 1, 3, 3])) == [((2, 3), (1, 4, 9, 17))]
    assert blocks(pooled, ([1, 4, 11, 19], [8, 4, 3, 3])) == [((1, 2), (1, 4, 9, 17))]
    assert blocks(pooled, ([1, 4, 11, 19], [4, 4, 3, 3])) == []  # blocks for too few threads
    assert blocks(pooled, ([1, 4, 11, 19], [10, 4, 3, 3])) == []  # no whole vectors
    assert blocks(pooled, ([1, 4, 22, 19], [8, 4, 3, 3])) == []  # more than fits
    assert blocks(pooled, ([1, 5, 11, 19], [8, 5, 3, 3])) == []  # more steps


def test_channels_may_be_those_of_panels_of_a_filter() -> None:
    """A block is a part of one of them, or they stay whole."""

    def pooled(x: Any, filters: Any) -> Any:
        first = dml.activation_relu(dml.convolution(x, filters, **PADDED))
        return dml.max_pooling(first, window_size=[3, 3], strides=[2, 2]).values

    def depthwise(x: Any, filters: Any, windows: Any) -> Any:
        return dml.convolution(dml.convolution(x, filters), windows, group_count=64, **PADDED)

    width = max(2 * host_target().machine.vector_bytes // 4, 16)
    around = (64 // width, width // 4)
    assert blocks(pooled, ([1, 4, 9, 17], [64, 4, 3, 3])) == [((1, *around), (1, 4, 9, 17))]
    assert blocks(pooled, ([2, 4, 9, 17], [64, 4, 3, 3])) == [((2, *around), (1, 4, 9, 17))]
    assert blocks(depthwise, ([1, 4, 11, 19], [64, 4, 3, 3], [64, 1, 3, 3])) == [((1, *around), (1, 4, 9, 17))]
    wider = replace(TUNED, kept_window_channels=width * 2, kept_window_bytes=1 << 20)
    desc = described(pooled, ([1, 4, 9, 17], [64, 4, 3, 3]))
    execution = divide_and_fuse(join(desc, refining(host_target())), costs=host_target().costs).execution
    assert len(blocks_of_channels(execution, host_target(tuning=replace(wider, kept_window_channels=width)))[1]) == 2
    assert not blocks_of_channels(execution, host_target(tuning=wider))[1]


def test_first_convolutions_of_networks_are_done_with_their_pooling() -> None:
    """With the knobs as they are, and the layouts that their filters have."""

    def network(padding: int) -> Network:
        around: dict[str, Any] = {"start_padding": [padding, padding], "end_padding": [padding, padding]}

        def pooled(x: Any, filters: Any) -> Any:
            first = dml.activation_relu(dml.convolution(x, filters, strides=[2, 2], **around))
            return dml.max_pooling(first, window_size=[3, 3], strides=[2, 2]).values

        return pooled

    for padding, size in ((0, 3), (3, 7)):
        desc = described(network(padding), ([8, 3, 224, 224], [64, 3, size, size]))
        execution = divide_and_fuse(join(desc, refining(host_target())), costs=host_target().costs).execution
        assert len(blocks_of_channels(execution, host_target(tuning=TUNING))[1]) == 2


def test_windows_may_read_their_channels_again() -> None:
    def network(x: Any, points: Any, windows: Any) -> Any:
        expanded = dml.convolution(x, points)
        return dml.convolution(expanded, windows, group_count=12, **PADDED) + expanded

    assert blocks(network, ([2, 5, 9, 17], [12, 5, 1, 1], [12, 1, 3, 3])) == [((2, 2), (1, 6, 9, 17))]


def test_what_others_read_too_stays_whole() -> None:
    """What another statement reads; channels of which windows read others; numbers of channels without a divisor;
    products over windows."""

    def twice(x: Any, points: Any, windows: Any) -> Any:
        expanded = dml.convolution(x, points)
        made = dml.convolution(expanded, windows, group_count=12, **PADDED)
        return made + dml.reduce(expanded, function="SUM", axes=[2, 3])

    def joined(x: Any, points: Any, windows: Any) -> Any:
        return dml.convolution(dml.convolution(x, points), windows, group_count=6, **PADDED)

    def wide(x: Any, points: Any, windows: Any) -> Any:
        return dml.convolution(dml.convolution(x, points, **PADDED), windows, group_count=12, **PADDED)

    def uneven(x: Any, points: Any, windows: Any) -> Any:
        return dml.convolution(dml.convolution(x, points), windows, group_count=11, **PADDED)

    x = [2, 5, 9, 17]
    assert blocks(twice, (x, [12, 5, 1, 1], [12, 1, 3, 3])) == []
    assert blocks(joined, (x, [12, 5, 1, 1], [12, 2, 3, 3])) == []
    assert blocks(wide, (x, [12, 5, 3, 3], [12, 1, 3, 3])) == []
    assert blocks(uneven, (x, [11, 5, 1, 1], [11, 1, 3, 3])) == []


def test_small_tensors_stay_whole() -> None:
    """They are in the caches of all threads, and few blocks would leave threads without work."""
    weights = ([96, 5, 1, 1], [96, 1, 3, 3])

    def network(x: Any, points: Any, windows: Any) -> Any:
        return dml.convolution(dml.convolution(x, points), windows, group_count=96, **PADDED)

    def count(*x: int) -> int:
        execution = divide_and_fuse(
            join(described(network, (x, *weights)), refining(host_target())), costs=host_target().costs
        ).execution
        return len(blocks_of_channels(execution, host_target(tuning=TUNING))[1])

    assert count(8, 5, 112, 112) == 2
    assert count(1, 5, 112, 112) == count(8, 5, 16, 16) == count(2, 5, 24, 24) == 0


def test_threads_have_four_blocks_each() -> None:
    machine = host_target().machine
    assert [tuning_of(machine, threads).blocks_of_channels for threads in (1, 2, 16)] == [4, 8, 64]


def test_a_profile_knows_what_blocks_are_parts_of() -> None:
    """Of both kernels the operators are those of the graph, and the bytes those of all blocks."""
    sizes = ([2, 5, 9, 17], [12, 5, 1, 1], [12, 1, 3, 3])
    program = dml.Device(thread_count=2, tuning=TUNED).compile_graph(described(inverted(), sizes))
    arrays = [np.ones(one, np.float32) for one in sizes]
    kernels = dml.profile(program, *arrays, seconds=0.01).kernels
    first, second = (kernel for kernel in kernels if kernel.operators)
    assert first.operators == second.operators == ("CONVOLUTION", "ACTIVATION_RELU")
    assert first.repetitions == second.repetitions == 4
    assert "CONVOLUTION" in dml.explain(program)


def test_a_thread_does_both_behind_each_other() -> None:
    """Without a barrier between them; not where results may be in the memory of inputs."""
    desc = described(inverted(), ([2, 5, 9, 17], [12, 5, 1, 1], [12, 1, 3, 3]))
    target = host_target(tuning=TUNED)
    execution = divide_and_fuse(join(desc, refining(target)), costs=target.costs).execution

    def points(code: ProgramCode) -> list[int]:
        return [len(step.calls) for step in code.sequence.steps if isinstance(step, Points)]

    assert points(generate(execution, target, in_place=False)) == [2]
    assert points(generate(execution, target, in_place=True)) == []
