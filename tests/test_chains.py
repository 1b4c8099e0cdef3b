"""Chains of views and operators: every way of seeing memory between operators fuses into statements that compile."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from execution import assert_identical
from graph_running import check_graph, write_text
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from properties import examples
from random_chains import chain

import opendml as dml
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import host_target

DEVICE = dml.Device(thread_count=2)

relu = dml.activation_relu


@pytest.mark.parametrize(
    ("sizes", "network", "kernels"),
    [
        ([9], lambda x: relu(relu(relu(x).reinterpret([3, 3])).transpose([1, 0])), 2),
        ([9], lambda x: relu(relu(relu(x).reinterpret([3, 3])).reinterpret([9])), 1),
        ([8], lambda x: relu(relu(relu(x).reinterpret([2, 2, 2])).transpose([0, 2, 1])), 2),
        ([8], lambda x: relu(relu(relu(x).reinterpret([2, 4])).reinterpret([2, 2, 2])), 1),
        ([2, 6], lambda x: relu(relu(relu(x).reinterpret([4, 3])).transpose([1, 0])), 2),
        ([24], lambda x: relu(relu(x.reinterpret([2, 3, 4]) + x.reinterpret([2, 3, 4])).transpose([2, 0, 1])), 1),
    ],
)
def test_digits_of_a_coordinate_in_another_order(sizes: list[int], network: Callable[[Any], Any], kernels: int) -> None:
    """A split dimension becomes digits of a coordinate; exchanged, these are no place that loops walk to."""
    graph = dml.Graph(DEVICE)
    desc = graph.describe(network(graph.input("float32", sizes)))
    assert len(divide_and_fuse(join(desc)).execution.statements) == kernels
    x = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
    assert_identical(DEVICE.compile_graph(desc)(x), DEVICE.compile_graph(desc, fusion=False)(x))


@examples(60, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False), seed=st.integers(0, 99))
def test_chains_mean_the_same_fused(random: Random, seed: int) -> None:
    check_graph(chain(random, DEVICE), host_target(), seed)


@examples(8, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False), seed=st.integers(0, 99))
def test_compiled_chains_are_interpreted_ones(random: Random, seed: int) -> None:
    check_graph(chain(random, DEVICE), host_target(), seed, device=DEVICE)


@pytest.mark.parametrize("level", ["avx2", "baseline"])
def test_chains_for_older_processors(level: str) -> None:
    """Text is written for any processor, whatever this one can run."""
    target = host_target(level)
    for seed in range(25):
        assert write_text(
            divide_and_fuse(join(chain(Random(seed), DEVICE).desc, refining(target)), costs=target.costs), target
        )
