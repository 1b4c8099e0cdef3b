"""Copies with margins: cut into what is copied and the margins, and moved into the sums before them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import assert_identical
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml.expression.element_types import F32, I64
from opendml.expression.interpreter import run_interpreted
from opendml.expression.ir import (
    Axis,
    Tensor,
    both,
    constant,
    grid,
    in_range,
    index,
    indices,
    load,
    packed_strides,
    select,
)
from opendml.expression.statements import Compute, Definition, Store
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.costs import GRAPH_COSTS
from opendml.graph.joining import join
from opendml.graph.margins import inside_and_margins
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.schedule import schedule_compute
from opendml.targets.cpu.target import host_target
from opendml.targets.cpu.tuning import TUNING

ROW = GRAPH_COSTS.surrounded_row


def copy_of(sizes: list[int], before: list[int], after: list[int]) -> tuple[Tensor, Tensor, Compute]:
    """A tensor, one with margins, and what copies the one to the other; 7 is in the margins."""
    whole = [b + n + a for b, n, a in zip(before, sizes, after, strict=True)]
    source = Tensor("source", F32, tuple(sizes), packed_strides(sizes), "input")
    target = Tensor("target", F32, tuple(whole), packed_strides(whole), "output")
    axes = grid(whole)
    there = [i - b for i, b in zip(indices(axes), before, strict=True)]
    inside = both(in_range(i, n) for i, n, size in zip(there, sizes, whole, strict=True) if n != size)
    value = select(inside, load(source, there), constant(7, F32))
    return source, target, Compute(axes, (Store(target, indices(axes), value),))


@examples(200)
@given(st.data())
def test_every_element_is_written_once(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    few = st.lists(st.integers(0, 2), min_size=rank, max_size=rank)
    sizes, before, after = [n + 1 for n in data.draw(few)], data.draw(few), data.draw(few)
    source, target, copy = copy_of(sizes, before, after)
    copy = replace(copy, axes=tuple(data.draw(st.permutations([*copy.axes, Axis("one", 1)]))))
    parts = inside_and_margins(copy)
    assert (parts is None) == (not any(before) and not any(after))
    if parts is None:
        return
    inside, margins = parts
    points = [math.prod(a.size for a in s.axes) * len(s.stores) for s in (inside, *margins)]
    assert points[0] == math.prod(sizes)
    assert sum(points) == math.prod(target.sizes)
    whole = Definition((source,), (target,), (copy,))
    x = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
    for statements in ((*margins, inside), (inside, *margins)):
        (found,) = run_interpreted(replace(whole, statements=statements), [x])
        (expected,) = run_interpreted(whole, [x])
        assert found is not None
        assert expected is not None
        assert_identical(found, expected)


def convolved(x: Any, channels: int, size: int = 3, **changes: Any) -> Any:
    weights = np.random.default_rng(channels).normal(size=(channels, x.sizes[1], size, size)).astype(np.float32)
    return dml.convolution(x, weights, **changes)


def between(network: Any, sizes: list[int]) -> list[tuple[int, ...]]:
    """The tensors of a network that are written by one of its statements and read by others; its results are those of
    its operators one at a time, by any number of threads."""
    graph = dml.Graph()
    desc = graph.describe(network(graph.input("float32", sizes)))
    x = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
    expected = dml.Device().compile_graph(desc, fusion=False)(x)
    for count in (1, 2, 7):
        assert_identical(dml.Device(thread_count=count).compile_graph(desc)(x), expected)
    execution = divide_and_fuse(join(desc, refining(host_target()))).execution  # where no store has margins of its own
    return [t.sizes for t in execution.temporaries if t.name.count("filter_panels") == 0]


PADDED: dict[str, Any] = {"start_padding": [1, 1], "end_padding": [1, 1]}


@pytest.mark.parametrize("act", [dml.activation_relu, lambda x: x * dml.activation_sigmoid(x), lambda x: x])
def test_a_convolution_writes_what_the_next_one_reads(act: Any) -> None:
    """The copy of the input, and one of what the first convolution writes, with the rows of channels together."""
    found = between(lambda x: convolved(act(convolved(x, 16, **PADDED)), 4, **PADDED), [2, 3, 5, ROW])
    assert found == [(2, 3, 7, ROW + 2), (2, 7, 16, ROW + 2)]


@pytest.mark.parametrize(
    "paddings", [([2, 1], [0, 3]), ([0, 0], [1, 2]), ([1, 0], [1, 0]), ([0, 3], [0, 0]), ([3, 2], [3, 2])]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_margins_of_any_width(paddings: tuple[list[int], list[int]], stride: int) -> None:
    start, end = paddings

    def network(x: Any) -> Any:
        made = convolved(x, 5, **PADDED)
        return convolved(made, 16, start_padding=start, end_padding=end, strides=[stride, stride])

    # Windows that do not reach the last row or column read less than all, and that is what is copied.
    unread = [(n + a + b - 3) % stride - b for n, a, b in zip((6, ROW), start, end, strict=True)]
    is_cropped = max(unread) > 0
    assert ((1, 5, 6, ROW) in between(network, [1, 3, 6, ROW])) == is_cropped


def test_a_padding_behind_a_convolution_is_in_its_margins() -> None:
    padding: dict[str, Any] = {"padding_mode": "CONSTANT", "padding_value": 2.5}

    def network(x: Any) -> Any:
        padded = dml.padding(convolved(x, 5, **PADDED), start_padding=[0, 0, 1, 2], end_padding=[0, 1, 0, 3], **padding)
        return dml.max_pooling(padded, window_size=[3, 3])[0]

    found = between(network, [1, 3, 6, ROW])
    assert (1, 5, 6, ROW) not in found


def test_what_others_read_is_read_within_margins() -> None:
    def residual(x: Any) -> Any:
        made = convolved(x, 8, **PADDED)
        return made + convolved(made, 8, **PADDED)

    assert between(residual, [1, 3, 6, ROW]) == [(1, 3, 8, ROW + 2), (1, 8, 8, ROW + 2)]


def test_what_others_read_as_one_row_stays_apart() -> None:
    """As sums of single points do."""

    def expanded(x: Any) -> Any:
        made = convolved(x, 8, **PADDED)
        return dml.join([convolved(made, 24, 1), convolved(made, 8, **PADDED)], axis=1)

    assert (1, 8, 6, ROW) in between(expanded, [1, 3, 6, ROW])


@pytest.mark.parametrize(("size", "columns"), [(1, 2 * ROW), (3, ROW - 1)])
def test_planes_in_one_row_and_short_rows_stay_apart(size: int, columns: int) -> None:
    """What takes all places of an image as one row, and rows of which the margins would be much."""
    padding = {} if size == 1 else PADDED
    found = between(lambda x: convolved(convolved(x, 8, size, **padding), 4, **PADDED), [1, 16, 6, columns])
    assert (1, 8, 6, columns) in found


@pytest.mark.parametrize(("rows", "is_serial"), [(TUNING.serial_work // TUNING.line_work, False), (64, True)])
def test_ends_of_many_rows_are_written_by_all_threads(rows: int, is_serial: bool) -> None:
    """Each is in a line of memory of its own; of a dense row all threads would write a part from more elements on."""
    tensor = Tensor("t", F32, (rows, ROW), (ROW, 1), "output")
    (row,) = grid([rows])
    ends = Compute((row,), (Store(tensor, (index(row), constant(0, I64)), constant(0, F32)),))
    assert schedule_compute(ends, host_target(), in_place=False).serial == is_serial
    dense = Tensor("t", F32, (rows,), (1,), "output")
    row_of_them = Compute((row,), (Store(dense, (index(row),), constant(0, F32)),))
    assert schedule_compute(row_of_them, host_target(), in_place=False).serial
