"""Work items of sums of products that come out evenly among many threads."""

from __future__ import annotations

import math
from typing import Any

import pytest
from contraction_kernels import TARGETS, bytes_convolution, convolution, fixed_kernel
from execution import random_array, run_single

from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.tuning import TUNING


def longest_share(kernel: ContractionKernel, shares: int) -> float:
    """Of the thread that has most, as a multiple of what each had if points were shared out."""
    points = math.prod(dict(kernel.blocks).values())
    whole = math.prod(axis.size for axis in (*kernel.batch, *kernel.across, *kernel.along))
    return -(-kernel.item_count // shares) * points * shares / whole


def blocks(kernel: ContractionKernel) -> list[tuple[str, int, int]]:
    """The axes of two kernels are not the same ones."""
    return [(axis.name, axis.size, block) for axis, block in kernel.blocks]


def of_shares(desc: Any, shares: int, **knobs: Any) -> ContractionKernel:
    return fixed_kernel(desc, TARGETS[0].tuned(shares=shares, **knobs))


@pytest.mark.parametrize(
    ("desc", "shares"),
    [
        (convolution(1, 64, 64, 40), 16),
        (convolution(1, 64, 64, 80), 32),
        (convolution(1, 512, 2048, 7, 1), 48),
        (convolution(1, 80, 80, 80), 64),
        (convolution(1, 256, 128, 40, 1), 64),
    ],
)
def test_many_threads_have_shares_as_long(desc: Any, shares: int) -> None:
    """Items are smaller then, but no more than eight times as many as threads; panels, which each thread fills for its
    items, are as many as before."""
    before, after = of_shares(desc, shares, worth_uneven=1.0), of_shares(desc, shares)
    assert longest_share(after, shares) < longest_share(before, shares) * (1 - TUNING.worth_uneven)
    assert before.item_count < after.item_count <= 8 * shares
    assert list(before.tile_steps.values()) == list(after.tile_steps.values())
    panels = [kernel.panel and kernel.panel.tensor.sizes for kernel in (before, after)]
    assert panels[0] == panels[1]


@pytest.mark.parametrize("shares", [1, 2])
@pytest.mark.parametrize("size", [7, 14, 40, 56])
def test_few_threads_have_the_items_that_are_best_for_caches(shares: int, size: int) -> None:
    desc = convolution(1, 64, 64, size)
    assert blocks(of_shares(desc, shares)) == blocks(of_shares(desc, shares, worth_uneven=1.0))


@pytest.mark.parametrize(("desc", "shares"), [(convolution(1, 64, 64, 56), 16), (convolution(1, 256, 1024, 14, 1), 64)])
def test_what_comes_out_evenly_stays(desc: Any, shares: int) -> None:
    """However little smaller items are to be worth."""
    usual = of_shares(desc, shares, worth_uneven=1.0)
    assert longest_share(usual, shares) == 1
    assert blocks(of_shares(desc, shares, worth_uneven=0.0, item_overhead=0)) == blocks(usual)


def test_smaller_items_must_be_worth_what_they_take() -> None:
    desc = convolution(1, 64, 64, 40)
    usual = blocks(of_shares(desc, 16, worth_uneven=1.0))
    assert blocks(of_shares(desc, 16, item_overhead=1 << 20)) == usual != blocks(of_shares(desc, 16))


@pytest.mark.parametrize("shares", [3, 7, 40])
def test_bits_are_the_same_however_items_are_cut(shares: int) -> None:
    tuning = TUNING.but(shares=shares, worth_uneven=0.0, item_overhead=0)
    desc, integers = convolution(2, 13, 40, 19), bytes_convolution(13, 40, 19)
    run_single(desc, *(random_array(t, shares) for t in (desc.input_tensor, desc.filter_tensor)), None, tuning=tuning)
    given = (random_array(t, shares) for t in (integers.input_tensor, integers.filter_tensor))
    run_single(integers, next(given), None, next(given), None, tuning=tuning)
