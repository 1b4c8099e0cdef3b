"""Tensors that live where they are joined: which do, that no copy of them is left, and that results stay the same."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from execution import assert_identical
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml.description.graph_desc import OperatorNode
from opendml.expression.element_types import F32
from opendml.expression.interpreter import run_interpreted
from opendml.expression.ir import Load, Tensor, constant, grid, index, indices, load, packed_strides, temporary
from opendml.expression.statements import Compute, Definition, Statement, Store, reads_of, writes_of
from opendml.graph.compilation import GraphDefinitions, divide_and_fuse
from opendml.graph.costs import GRAPH_COSTS
from opendml.graph.joining import join
from opendml.graph.lodging import lodged
from opendml.graph.provenance import Provenance
from opendml.graph.rows import fold_evaluations, innermost_last
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import host_target

ROW = GRAPH_COSTS.surrounded_row

PADDED: dict[str, Any] = {"start_padding": [1, 1], "end_padding": [1, 1]}


def is_copy(statement: Statement) -> bool:
    """Whether a statement moves elements and does nothing else."""
    return isinstance(statement, Compute) and all(isinstance(store.value, Load) for store in statement.stores)


def convolved(x: Any, channels: int, size: int = 3, **how: Any) -> Any:
    weights = np.random.default_rng(channels).normal(size=(channels, x.sizes[1], size, size)).astype("f")
    return dml.convolution(x, weights, **how)


def refined(desc: Any) -> GraphDefinitions:
    return divide_and_fuse(join(desc, refining(host_target())), costs=host_target().costs)


def checked(network: Callable[[Any], Any], sizes: list[int]) -> GraphDefinitions:
    """What a network is made into, whose results are those of its nodes one by one with any number of threads."""
    graph = dml.Graph()
    desc = graph.describe(network(graph.input("float32", sizes)))
    x = np.random.default_rng(0).normal(size=sizes).astype("f")
    expected = dml.Device(thread_count=1).compile_graph(desc, fusion=False)(x)
    for count in (1, 2, 7):
        found = dml.Device(thread_count=count).compile_graph(desc)(x)
        for one, other in zip(
            *(some if isinstance(some, tuple) else (some,) for some in (found, expected)), strict=True
        ):
            assert_identical(one, other)
    return refined(desc)


def skipping(x: Any) -> Any:
    """What is on the way down is joined with what comes up again, as U-Nets do it, and read with margins."""
    passed = dml.activation_relu(convolved(x, 8, **PADDED))
    inner = convolved(dml.max_pooling(passed, window_size=[2, 2], strides=[2, 2])[0], 8, **PADDED)
    grown = dml.upsample_2d(inner, scale_size=(2, 2), interpolation_mode="NEAREST_NEIGHBOR")
    return convolved(dml.join([passed, grown], axis=1), 8, **PADDED)


@pytest.mark.parametrize("batch", [1, 2])
def test_what_is_joined_and_read_with_margins_is_computed_there(batch: int) -> None:
    found = checked(skipping, [batch, 3, 8, ROW])
    lodgings = {tensor.name.split(".")[0]: lodging for tensor, lodging in found.lodgings.items()}
    (lodging,) = lodgings.values()
    assert "padded_input" in lodging.host.name and sorted(lodging.host.sizes) == sorted([batch, 10, 16, ROW + 2])
    assert all(t.sizes != (batch, 16, 8, ROW) for t in found.execution.temporaries)


def chained(x: Any) -> Any:
    """Halves of a tensor, and what blocks make of the second one, each joined with all before (C2f)."""
    parts = list(dml.split(convolved(x, 16, 1), output_axis_sizes=[8, 8], axis=1))
    for _ in range(2):
        parts.append(parts[-1] + dml.activation_relu(convolved(parts[-1], 8, **PADDED)))
    return convolved(dml.join(parts, axis=1), 8, 1)


@pytest.mark.parametrize("batch", [1, 3])
def test_parts_of_which_others_are_made_live_where_they_are_joined(batch: int) -> None:
    found = checked(chained, [batch, 8, 12, ROW])
    assert not any(is_copy(s) for s in found.execution.statements)
    assert len({lodging.host for lodging in found.lodgings.values()}) == 1 < len(found.lodgings)


def test_what_joins_joined_tensors_has_their_parts() -> None:
    def network(x: Any) -> Any:
        a, b, c = (dml.activation_relu(convolved(x, n, **PADDED)) for n in (8, 6, 4))
        inner = dml.join([a, b], axis=1)
        return (
            dml.join([inner, c], axis=1),
            dml.reduce(inner, function="SUM", axes=[1]),
            dml.reduce(a, function="SUM", axes=[2]),
        )

    found = checked(network, [2, 3, 8, 24])
    assert not any(is_copy(s) for s in found.execution.statements)
    assert {lodging.host.role for lodging in found.lodgings.values()} == {"output"}


def test_what_is_no_whole_part_or_an_output_stays_apart() -> None:
    def half(x: Any) -> Any:
        made = convolved(x, 8, **PADDED)
        first, _ = dml.split(made, output_axis_sizes=[4, 4], axis=1)
        return dml.join([first, convolved(x, 4, **PADDED)], axis=1), dml.reduce(made, function="SUM", axes=[1])

    def output(x: Any) -> Any:
        made = convolved(x, 8, **PADDED)
        return dml.join([made, convolved(x, 4, **PADDED)], axis=1), made

    for network in (half, output):
        assert not checked(network, [1, 3, 8, 24]).lodgings


def test_rows_of_elements_that_run_on_stay_long() -> None:
    """What walks all elements of a tensor in one loop would walk short rows of the joined one."""

    def network(x: Any) -> Any:
        made = dml.activation_tanh(x)
        return dml.join([made, x], axis=1), dml.reduce(made, function="SUM", axes=[0]), made * 2

    assert not checked(network, [8, 4096]).lodgings


def test_rows_that_are_folded_stay_rows() -> None:
    """Normalised rows that are columns of what they are copied to, as an image has the channels of tokens: where their
    elements are stored as they lie there, each folds its row anew."""

    def network(x: Any) -> Any:
        made = dml.mean_variance_normalization(x, None, None, axes=[2])
        weights = np.random.default_rng(0).normal(size=(96, 1, 3, 3)).astype("f")
        return dml.convolution(made.transpose([0, 2, 1]).reshape([2, 96, 5, 7]), weights, group_count=96, **PADDED)

    found = checked(network, [2, 35, 96])
    assert not found.lodgings
    (rows,) = [s for s in found.execution.statements if isinstance(s, Compute) and fold_evaluations(s) == 2 * 2 * 35]
    assert innermost_last(rows)[-1].size == 96


def test_kernels_are_called_by_the_nodes_whose_tensors_they_write() -> None:
    graph = dml.Graph()
    desc = graph.describe(skipping(graph.input("float32", [1, 3, 8, ROW])))
    joined = join(desc, refining(host_target()))
    parts = divide_and_fuse(joined)
    nodes = Provenance(desc, joined, parts.execution, parts.lodgings)
    operators = [node.operator.type.name if isinstance(node, OperatorNode) else "" for node in desc.nodes]
    named = [[operators[n] for n in nodes.nodes(s)] for s in parts.execution.statements]
    assert ["MAX_POOLING2"] in named
    assert ["CONVOLUTION", "ACTIVATION_RELU"] in named or ["CONVOLUTION"] in named
    assert not any("MAX_POOLING2" in one and "CONVOLUTION" in one for one in named)


def network_of(seed: int) -> tuple[Callable[[Any], Any], list[int]]:
    """Convolutions, activations and pooling of what was there before, split, joined and added up, and some of it given
    back; and the sizes of its input."""
    random = Random(seed)
    sizes = [random.choice([1, 2, 3]), 4, random.choice([3, 6]), random.choice([5, 20, ROW, ROW + 6])]
    steps: list[Callable[[Any, list[Any]], Any]] = [
        lambda x, _: convolved(x, random.choice([3, 8, 17]), **PADDED),
        lambda x, _: convolved(dml.activation_relu(x), random.choice([4, 8]), 1),
        lambda x, _: x * dml.activation_sigmoid(x),
        lambda x, _: dml.split(x, output_axis_sizes=[1, x.sizes[1] - 1], axis=1)[-1],
        lambda x, _: dml.max_pooling(x, window_size=[3, 3], **PADDED)[0],
        lambda x, known: x + random.choice([other for other in known if other.sizes == x.sizes]),
        *[lambda x, known: dml.join([x, *random.choices(known, k=random.randint(1, 2))], axis=1)] * 3,
    ]

    def network(x: Any) -> Any:
        known = [x]
        for _ in range(random.randint(5, 10)):
            made = random.choice(steps)(random.choice(known[-4:]), known)
            if made.sizes[1] < 50:
                known.append(made)
        return random.choice(known[1:-1]), known[-1]

    return network, sizes


@pytest.mark.parametrize("seed", range(8))
def test_networks_of_joined_tensors(seed: int) -> None:
    checked(*network_of(seed))


# Statements as they may be --------------------------------------------------------------------------------------------


def filled(host: Tensor, ranges: list[tuple[int, int]]) -> Compute:
    """What writes 3 to some ranges of coordinates."""
    axes = grid([end - first for first, end in ranges])
    place = tuple(index(axis) + first for axis, (first, _) in zip(axes, ranges, strict=True))
    return Compute(axes, (Store(host, place, constant(3, F32)),))


def around(host: Tensor, inner: list[tuple[int, int]]) -> list[Statement]:
    """What writes all but some ranges of coordinates, each element once."""
    found = list[Statement]()
    for d, (first, end) in enumerate(inner):
        for part in ((0, first), (end, host.sizes[d])):
            if part[0] < part[1]:
                found.append(filled(host, [*inner[:d], part, *((0, size) for size in host.sizes[d + 1 :])]))
    return found


@examples(200)
@given(st.data())
def test_any_copies_of_parts(data: st.DataObject) -> None:
    """A tensor that is copied in pieces to places in another one, with its dimensions in any order, and read there and
    by others: it lives there if all of it is copied and nothing else is written there. The results are the same."""
    rank = data.draw(st.integers(1, 3))
    sizes, before, after = (
        data.draw(st.lists(st.integers(least, most), min_size=rank, max_size=rank))
        for least, most in ((2, 4), (0, 2), (0, 2))
    )
    order, is_filled = data.draw(st.permutations(range(rank))), data.draw(st.booleans())
    inner = [(before[d], before[d] + sizes[d]) for d in order]
    source = Tensor("source", F32, tuple(sizes), packed_strides(sizes), "input")
    made, host = (
        temporary("made", F32, sizes),
        temporary("host", F32, [end + after[d] for d, (_, end) in zip(order, inner, strict=True)]),
    )
    axes, read = grid(sizes), grid(sizes)
    cut = data.draw(st.integers(0, sizes[0]))
    pieces = data.draw(st.permutations([(0, cut), (cut, sizes[0] - cut)]))
    copies = list[Statement]()
    for first, length in pieces[: data.draw(st.sampled_from((1, 2, 2)))]:
        if length:
            own = grid([length, *sizes[1:]])
            at = (index(own[0]) + first, *indices(own[1:]))
            copies.append(Compute(own, (Store(host, tuple(at[d] + before[d] for d in order), load(made, at)),)))
    is_whole = sum(s.axes[0].size for s in copies if isinstance(s, Compute)) == sizes[0]
    others = [filled(host, [(0, size) for size in host.sizes])] if is_filled else around(host, inner)
    results = [Tensor(t.name, F32, t.sizes, t.strides, "output") for t in (made, host)]
    again = grid(host.sizes)
    statements: list[Statement] = [
        Compute(axes, (Store(made, indices(axes), load(source, indices(axes)) + 1.5),)),
        *others,
        *copies,
        Compute(read, (Store(results[0], indices(read), load(made, indices(read)) * 2),)),
        Compute(again, (Store(results[1], indices(again), load(host, indices(again)) + 1),)),
    ]
    fewer = lodged(statements, frozenset(results), {})
    runs_on = list(order) == list(range(rank)) and not any(before[1:]) and not any(after[1:])
    if not is_whole or is_filled:
        assert not fewer.lodgings
    elif rank == 1 or runs_on:
        assert fewer.lodgings and len(fewer.statements) == len(statements) - len(copies)
    values = np.random.default_rng(0).normal(size=sizes).astype("f")
    found = [
        run_interpreted(Definition((source,), tuple(results), tuple(some), (made, host)), [values])
        for some in (statements, fewer.statements)
    ]
    for one, other in zip(*found, strict=True):
        assert_identical(one, other)
    assert bool(fewer.lodgings) == (made not in {t for s in fewer.statements for t in reads_of(s) | writes_of(s)})
