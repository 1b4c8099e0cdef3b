"""Tensors that all read in a wider type: one copy takes their place, and what is computed keeps its bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from execution import assert_identical

import opendml as dml
from opendml.expression.ir import Cast, Load, Tensor
from opendml.expression.statements import Compute, Definition
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import host_target

CHANNELS, SIDE = 32, 14


def convolved(x: Any, seed: int, stride: int = 1) -> Any:
    weights = np.random.default_rng(seed).normal(size=(CHANNELS, CHANNELS, 1, 1)).astype(np.float16) / 8
    return dml.convolution(x, weights, strides=[stride, stride])


def copies(definition: Definition) -> list[Tensor]:
    """The temporaries that a statement does nothing with but widen them."""
    values = [s.stores[0].value for s in definition.statements if isinstance(s, Compute) and len(s.stores) == 1]
    widened = [e.operand.tensor for e in values if isinstance(e, Cast) and isinstance(e.operand, Load)]
    return [tensor for tensor in widened if tensor.role == "temporary"]


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("branches", [1, 2])
def test_what_a_residual_sum_is_around_is_widened_once(branches: int, is_kept: bool) -> None:
    """By what computes it: nothing copies it. An output of the graph stays one, and is copied."""
    graph = dml.Graph()
    first = dml.activation_relu(convolved(graph.input("float16", [1, CHANNELS, SIDE, SIDE]), 0))
    result = first
    for number in range(branches):
        result = result + convolved(first, 1 + number)
    desc = graph.describe([dml.activation_relu(result), *([first] if is_kept else [])])
    execution = divide_and_fuse(join(desc, refining(host_target())), costs=host_target().costs).execution
    assert not copies(execution)
    x = np.random.default_rng(9).normal(size=(1, CHANNELS, SIDE, SIDE)).astype(np.float16)
    device = dml.Device()
    alone, together = (device.compile_graph(desc, fusion=fusion)(x) for fusion in (False, True))
    for one, other in zip(*(r if isinstance(r, (list, tuple)) else [r] for r in (alone, together)), strict=True):
        assert_identical(other, one)
