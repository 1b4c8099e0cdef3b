"""Groups whose rows lie apart, one behind the other: which statements these are, and that no bit differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from statement_blocks import Network, blocks_of

import opendml as dml
from opendml.expression.element_types import F32
from opendml.expression.folds import sum_of
from opendml.expression.ir import Tensor, grid, index, indices, load
from opendml.expression.statements import Compute, Definition, Store
from opendml.targets.cpu.refine.groups_apart import groups_apart
from opendml.targets.cpu.target import host_target
from opendml.targets.cpu.tuning import TUNING

TUNED: Final = replace(
    TUNING,
    prefetched_bytes=1 << 10,
    groups_apart_bytes=1 << 11,
    group_apart_bytes=1 << 12,
    group_row_bytes=64,
    shares=2,
    serial_work=0,
)
"""Small tensors are worth it."""


def forward(x: Any, scale: Any, bias: Any) -> Any:
    found = dml.batch_normalization_training(x, scale, bias)
    return [dml.activation_relu(found.output), found.mean, found.variance]


def gradient(x: Any, dy: Any, mean: Any, variance: Any, scale: Any) -> Any:
    return [*dml.batch_normalization_training_grad(x, dy, mean, variance * variance, scale)]


def gradient_by_given(x: Any, dy: Any, mean: Any, variance: Any, scale: Any) -> Any:
    return [*dml.batch_normalization_grad(x, dy, mean, variance * variance, scale)]


def normalised(x: Any, y: Any) -> Any:
    """Over all images, with an element-wise operator behind."""
    found = dml.mean_variance_normalization(x, axes=[0, 2, 3])
    return [found * y, found + y]


def groups(network: Network, sizes: Sequence[Sequence[int]], tuning: Any = TUNED) -> list[tuple[int, ...]]:
    """How many groups there are, of every pair."""
    return [tuple(axis.size for axis in each.axes) for each in blocks_of(groups_apart, network, sizes, tuning)]


IMAGES, CHANNELS = (3, 4, 8, 9), (1, 4, 1, 1)
SIZES: Final[dict[Network, Sequence[Sequence[int]]]] = {
    forward: (IMAGES, CHANNELS, CHANNELS),
    gradient: (IMAGES, IMAGES, CHANNELS, CHANNELS, CHANNELS),
    gradient_by_given: (IMAGES, IMAGES, CHANNELS, CHANNELS, CHANNELS),
    normalised: (IMAGES, IMAGES),
}


@pytest.mark.parametrize("network", SIZES, ids=lambda network: network.__name__)
def test_values_and_elements_of_a_channel(network: Network) -> None:
    """In training: what is behind the elements is fused with them before."""
    assert groups(network, SIZES[network]) == [(4,)]


@pytest.mark.parametrize(
    "knobs",
    [
        {"groups_apart_bytes": 1 << 20},  # all of it stays in a cache
        {"group_apart_bytes": 256},  # a group does not
        {"group_row_bytes": 4096},  # rows are short
        {"shares": 3},  # one thread has twice as many groups as others
    ],
    ids=lambda knobs: next(iter(knobs)),
)
def test_what_is_not_worth_it(knobs: Any) -> None:
    for network, sizes in SIZES.items():
        assert groups(network, sizes, replace(TUNED, **knobs)) == []


def test_elements_of_another_group() -> None:
    """They read what other groups' values are: these have to be there."""

    def turned(x: Any) -> Any:
        sums = dml.reduce(x, function="SUM", axes=[0, 2, 3])
        return [
            x
            * dml.slice(
                sums, input_window_offsets=[0] * 4, input_window_sizes=CHANNELS, input_window_strides=[1, -1, 1, 1]
            )
        ]

    assert groups(turned, (IMAGES,)) == []


def test_channels_that_lie_side_by_side() -> None:
    """Rows of a group are single elements."""

    def last(x: Any) -> Any:
        return [x - dml.reduce(x, function="AVERAGE", axes=[0, 1, 2])]

    assert groups(last, ((3, 8, 9, 4),)) == []


def test_elements_on_a_diagonal() -> None:
    """One axis of the elements walks both of the values': there is no group of elements for each of these."""
    a, b, c = first = grid([4, 4, 300])
    d, e = second = grid([4, 300])
    x, y = Tensor("x", F32, (4, 4, 300), (1200, 300, 1), "input"), Tensor("y", F32, (4, 300), (300, 1), "output")
    sums = Tensor("sums", F32, (4, 4), (4, 1), "output")
    total = sum_of([c], load(x, indices(first)))
    values = Compute((a, b), (Store(sums, (index(a), index(b)), total),))
    elements = Compute(second, (Store(y, indices(second), load(x, (index(d), index(d), index(e)))),))
    definition = Definition((x,), (y, sums), (values, elements))
    target = host_target(tuning=TUNED)
    assert groups_apart(definition, target)[0].statements == definition.statements
    squares = Compute((a, b, c), (Store(x, indices(first), load(x, indices(first))),))
    assert groups_apart(replace(definition, statements=(values, squares)), target)[0].statements == (values, squares)


SIDES = st.integers(1, 6)


@examples(15)
@given(st.sampled_from([*SIZES]), SIDES, st.integers(1, 6), st.integers(3, 14), st.integers(5, 40))
def test_any_sizes(network: Network, batch: int, channels: int, height: int, width: int) -> None:
    """Few bytes are worth it here, so every size is cut that has groups for two threads."""
    image, channel = (batch, channels, height, width), (1, channels, 1, 1)
    sizes = [image if one == IMAGES else channel for one in SIZES[network]]
    anything = replace(TUNED, prefetched_bytes=1, groups_apart_bytes=1, group_apart_bytes=1 << 20, group_row_bytes=16)
    found = groups(network, sizes, anything)
    assert found in ([], [(channels,)])
    assert found or channels % 2 or 1 in (channels, batch)  # one image has runs of memory
