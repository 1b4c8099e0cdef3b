"""Channels side by side between the operators of a graph: which tensors have them so, and that no bit differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from execution import Array, assert_identical
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml.description.graph_desc import GraphDesc, OperatorNode
from opendml.description.graph_paths import graph_input_tensors
from opendml.expression.ir import Fold
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition, Each, expressions_of, writes_of
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.llvm.host import machine_of
from opendml.programs.compiled_graph import compile_graph
from opendml.targets.cpu.contraction import schedule_contraction
from opendml.targets.cpu.layouts import laid_out
from opendml.targets.cpu.microarchitectures import tuning_of
from opendml.targets.cpu.processor import host_processor
from opendml.targets.cpu.refine.blocks_of_channels import blocks_of_channels
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.schedule import schedule_compute
from opendml.targets.cpu.target import CpuTarget, host_target

Build = Callable[[Any], Any]
"""What makes an output of a graph's input."""

PADDED: Final[dict[str, Any]] = {"start_padding": [1, 1], "end_padding": [1, 1]}

USUAL: Final = host_target("avx2")
AVX2: Final = USUAL.tuned(fewest_run_steps=1)
"""However few channels are summed up, so that small networks will do."""


def normal(sizes: Sequence[int], seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=sizes).astype(np.float32)


def layer(x: Any, outputs: int, window: int = 1, groups: int = 1, **options: Any) -> Any:
    """A convolution with a filter that is a constant."""
    weights = normal([outputs, x.sizes[1] // groups, *[window] * (len(x.sizes) - 2)], outputs + window)
    return dml.convolution(x, (weights / 8).astype(x.data_type.dtype), group_count=groups, **options)


def plain(x: Any) -> Any:
    """Points, windows, points: what the last ones read has channels side by side."""
    return layer(layer(layer(x, 32), 24, 3, **PADDED), 16)


def residual(x: Any) -> Any:
    """A sum of what is read twice, and an activation."""
    first = layer(x, 32)
    second = layer(layer(first, 16, 3, **PADDED), 32)
    return layer(dml.activation_relu(dml.add(first, second)), 16)


def joined(x: Any) -> Any:
    """Two convolutions behind one another in channels."""
    first = layer(x, 16)
    return layer(dml.join([layer(first, 24), layer(first, 40, 3, **PADDED)], axis=1), 16)


def pooled(x: Any) -> Any:
    """Poolings between convolutions, and a mean at the end."""
    first = dml.max_pooling(layer(x, 32), window_size=[3, 3], strides=[2, 2], **PADDED).values
    second = dml.average_pooling(layer(first, 64), window_size=[2, 2], strides=[1, 1])
    return dml.reduce(layer(second, 256), "AVERAGE", axes=[2, 3])


def strided(x: Any) -> Any:
    """Windows of one tap that leave points out, over channels whose points would share places of a cache."""
    first = layer(x, 256)
    return dml.activation_relu(layer(layer(first, 48, strides=[2, 2]), 16, 3, strides=[2, 2], **PADDED))


def scaled(x: Any) -> Any:
    """Factors of each channel, from all points of it, as squeezing and exciting has them."""
    first = layer(x, 32)
    factors = dml.activation_sigmoid(layer(dml.reduce(first, "AVERAGE", axes=[2, 3]), 32))
    return layer(dml.multiply(first, factors), 16)


def depthwise(x: Any) -> Any:
    """Depthwise windows, by one and by two steps, and sums with what they read."""
    first = layer(x, 32)
    second = dml.add(first, layer(first, 32, 3, groups=32, **PADDED))
    third = layer(layer(second, 64), 64, 5, groups=64, strides=[2, 2], start_padding=[2, 2], end_padding=[1, 1])
    return layer(dml.activation_relu(third), 16)


def normalized(x: Any) -> Any:
    """Mean and variance of each channel."""
    return layer(dml.mean_variance_normalization(layer(x, 32), axes=[2, 3]), 16)


def one_dimension(x: Any) -> Any:
    """Rows instead of planes."""
    rows = x.reshape(x.sizes[0], x.sizes[1], -1)
    return layer(layer(rows, 32, 3, start_padding=[1], end_padding=[1]), 16)


def by_points(x: Any) -> Any:
    """The channels of depthwise windows are the last dimension of what normalises them, and of the layers behind that,
    whose results are added as they are."""
    first = layer(x, 32)
    single = layer(first, 32, 3, groups=32, **PADDED)
    points = dml.mean_variance_normalization(single.transpose([0, 2, 3, 1]), axes=[3])
    second = dml.add(first, matrix_layer(points, 32).transpose([0, 3, 1, 2]))
    return layer(dml.activation_relu(second), 16, 3, **PADDED)


def by_points_of_rows(x: Any) -> Any:
    """The same of one dimension, of which somebody else takes the mean of each channel."""
    rows = x.reshape(x.sizes[0], x.sizes[1], -1)
    first = layer(rows, 32, 3, start_padding=[1], end_padding=[1])
    points = dml.mean_variance_normalization(first.transpose([0, 2, 1]), axes=[2])
    factors = dml.reduce(first, "AVERAGE", axes=[2])
    return layer(dml.multiply(points.transpose([0, 2, 1]), factors), 16, 3)


def by_points_of_volumes(x: Any) -> Any:
    """The same of three, in whose planes others go along, too."""
    volumes = x.reshape(x.sizes[0], x.sizes[1], 3, 3, -1)
    first = dml.activation_relu(layer(volumes, 48, 3, start_padding=[1] * 3, end_padding=[1] * 3))
    pooled = dml.max_pooling(first, window_size=[2, 2, 2], strides=[1, 1, 2]).values
    return dml.mean_variance_normalization(pooled.transpose([0, 2, 3, 4, 1]), axes=[4])


def matrix_layer(x: Any, outputs: int) -> Any:
    """All points of a tensor with the channels as the last dimension times a matrix that is a constant."""
    rows = x.packed().reshape(-1, x.sizes[-1])
    found = dml.gemm(rows, (normal([x.sizes[-1], outputs], outputs) / 8).astype(x.data_type.dtype))
    return found.reshape(*x.sizes[:-1], outputs)


def points_from_outside(x: Any) -> Any:
    """Depthwise windows over what is given with the channels as the last dimension."""
    last = x.reshape(x.sizes[0], *x.sizes[2:], x.sizes[1]).transpose([0, 3, 1, 2])
    return layer(dml.add(layer(last, 32, 3, groups=32, **PADDED), last), 16)


RUNS: Final[dict[str, tuple[Build, int]]] = {
    "by points": (by_points, 4),
    "points from outside": (points_from_outside, 2),
    "by points of rows": (by_points_of_rows, 1),
    "by points of volumes": (by_points_of_volumes, 3),
    "plain": (plain, 1),
    "residual": (residual, 5),
    "joined": (joined, 4),
    "pooled": (pooled, 4),
    "strided": (strided, 1),
    "scaled": (scaled, 2),
    "depthwise": (depthwise, 6),
    "one dimension": (one_dimension, 1),
}
"""Networks, and how many of their tensors have channels side by side."""


def narrow(x: Any) -> Any:
    """Channels that are no whole vectors."""
    return layer(layer(x, 20), 16)


def turned(x: Any) -> Any:
    """What else reads it divides the channels."""
    first = layer(x, 32)
    return dml.add(layer(first, 32), first[:, ::-1])


def from_outside(x: Any) -> Any:
    """A residual sum with what is as it is given."""
    return layer(dml.add(x, layer(x, x.sizes[1], 3, **PADDED)), 16)


def windows_only(x: Any) -> Any:
    """Nobody sums up the channels of single points."""
    single = layer(layer(x, 32, 3, **PADDED), 32, 3, groups=32, **PADDED)
    return layer(single, 32, 3, **PADDED)


def multiplied(x: Any) -> Any:
    """Windows that have several outputs of each channel."""
    return layer(layer(layer(x, 32), 64, 3, groups=32, **PADDED), 16, 3, **PADDED)


def single_from_outside(x: Any) -> Any:
    """Depthwise windows over what is as it is given."""
    return layer(layer(x, x.sizes[1], 3, groups=x.sizes[1], **PADDED), 16)


def columns(x: Any) -> Any:
    """Who reads it goes along the columns."""
    first = layer(x, 32)
    return dml.add(layer(first, 32).transpose([0, 1, 3, 2]), first.transpose([0, 1, 3, 2])).packed()


PLANES: Final[dict[str, Build]] = {
    "columns": columns,
    "multiplied": multiplied,
    "single from outside": single_from_outside,
    "narrow": narrow,
    "turned": turned,
    "from outside": from_outside,
    "windows only": windows_only,
}


def described(build: Build, sizes: Sequence[int] = (1, 32, 9, 11), type: str = "float32") -> GraphDesc:
    graph = dml.Graph()
    return graph.describe(build(graph.input(type, sizes, name="x")))


def strides_of(graph: GraphDesc) -> list[tuple[int, ...]]:
    """Those of all outputs that are not packed."""
    operators = [node.operator for node in graph.nodes if isinstance(node, OperatorNode)]
    outputs = [desc for operator in operators for _, desc in operator.outputs()]
    return [desc.strides for desc in outputs if desc is not None and desc.strides and not desc.is_packed]


@pytest.mark.parametrize("name", RUNS)
def test_channels_lie_side_by_side_where_points_are_summed_up(name: str) -> None:
    build, count = RUNS[name]
    graph = described(build)
    made = laid_out(graph, AVX2)
    found = strides_of(made)
    assert len(found) == count
    assert all(strides[1] == 1 for strides in found)
    assert (made.input_edges, made.intermediate_edges, made.output_edges) == (
        graph.input_edges,
        graph.intermediate_edges,
        graph.output_edges,
    )


@pytest.mark.parametrize("name", PLANES)
def test_other_tensors_stay_as_they_are(name: str) -> None:
    graph = described(PLANES[name])
    assert laid_out(graph, AVX2) is graph


def target_of(name: str, level: str = "avx512", triple: str = "x86_64") -> CpuTarget:
    """A processor with the knobs of two threads."""
    machine = replace(machine_of(f"{triple}-unknown-linux-gnu", level), cpu_name=name)
    return CpuTarget(machine, tuning_of(machine, 2))


@pytest.mark.parametrize(
    ("name", "level", "triple"),
    [
        ("x86-64", "baseline", "x86_64"),
        ("znver5", "avx512", "x86_64"),
        ("generic", "baseline", "aarch64"),
    ],
)
def test_processors_that_do_not_gain_keep_planes(name: str, level: str, triple: str) -> None:
    graph = described(plain)
    assert laid_out(graph, target_of(name, level, triple).tuned(fewest_run_steps=1)) is graph


@pytest.mark.parametrize("name", ["emeraldrapids", "sapphirerapids", "skylake-avx512", "znver4"])
def test_processors_of_many_wide_registers_gain_by_whole_ones(name: str) -> None:
    """24 channels, as the second of these tensors has, are one and a half."""
    target = target_of(name)
    graph = described(lambda x: layer(layer(layer(layer(x, 32), 256), 24), 16))
    assert [strides[1] for strides in strides_of(laid_out(graph, target))] == [1, 1]


def test_few_points_are_summed_up_with_vectors_of_channels() -> None:
    """Panels of a large filter are no planes of images, which would be copied: their steps follow one another."""
    target = target_of("emeraldrapids")
    graph = laid_out(described(lambda x: layer(layer(x, 1024), 1024), (1, 1024, 7, 7)), target)
    execution = divide_and_fuse(join(graph, refining(target)), costs=target.costs).execution
    kernels = [schedule_contraction(s, target) for s in execution.statements if isinstance(s, Compute)]
    assert [kernel.vector.size for kernel in kernels if kernel is not None] == [16, 16]


def test_copies_that_are_widened_lie_as_what_they_are_of() -> None:
    joined = join(laid_out(described(plain, type="float16"), AVX2), refining(AVX2))
    copies = [t for t in joined.temporaries if "packed_InputTensor" in t.name and t.sizes[1] == 24]
    assert [(t.type.bits, t.strides) for t in copies] == [(32, (9 * 11 * 24, 1, 11 * 24, 24))]


def test_means_of_channels_go_along_with_them() -> None:
    """However many points they are of; what sums up several values of these at once wants them side by side."""
    for width in (3, 40):
        assert len(strides_of(laid_out(described(scaled, (1, 32, 16, width)), AVX2))) == 2
    assert strides_of(laid_out(described(normalized, (1, 32, 16, 16)), AVX2)) == []


def test_filters_that_are_given_late_change_nothing() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [1, 32, 5, 7], name="x")
    weights = graph.input("float32", [16, 32, 1, 1], name="weights")
    desc = graph.describe(dml.convolution(layer(x, 32), weights))
    assert laid_out(desc, AVX2) is desc


def test_short_sums_gain_where_what_they_give_lies_so_too() -> None:
    """And that is read by sums that gain."""
    assert strides_of(laid_out(described(plain), USUAL)) == []
    assert len(strides_of(laid_out(described(lambda x: layer(layer(x, 256), 16)), USUAL))) == 1
    assert len(strides_of(laid_out(described(lambda x: layer(layer(layer(x, 32), 256), 16)), USUAL))) == 2
    assert strides_of(laid_out(described(lambda x: layer(layer(layer(x, 32), 248), 16)), USUAL)) == []


def test_points_whose_channels_fill_the_cache_unevenly_are_further_apart() -> None:
    (first,) = strides_of(laid_out(described(strided), AVX2))
    assert first == (99 * 272, 1, 11 * 272, 272)


def test_what_a_graph_gives_back_lies_as_it_was_described() -> None:
    graph = dml.Graph()
    first = layer(graph.input("float32", [1, 32, 9, 11], name="x"), 32)
    desc = graph.describe({"first": first, "second": layer(first, 16)})
    assert laid_out(desc, AVX2) is desc


@pytest.mark.parametrize("type", ["float32", "float16"])
@pytest.mark.parametrize("batch", [1, 2, 9])
@pytest.mark.parametrize("name", [*RUNS, *PLANES])
def test_no_bit_differs(name: str, batch: int, type: str) -> None:
    build = RUNS[name][0] if name in RUNS else PLANES[name]
    check(described(build, (batch, 32, 9, 11), type), (batch, 32, 9, 11))


def check(graph: GraphDesc, sizes: Sequence[int]) -> None:
    """What processors with few registers compute of a graph, by several threads, fused and not, is what the
    interpreter does; what this one computes, too."""
    (given_desc,) = [desc for desc in graph_input_tensors(graph) if desc is not None]
    x = normal(sizes, 7).reshape(given_desc.sizes).astype(given_desc.data_type.dtype)
    expected = np.asarray(dml.Device("reference").compile_graph(graph)(x))
    few = replace(host_processor("avx2"), knobs=replace(AVX2.tuning, serial_work=0))
    own = replace(host_processor(), knobs=replace(AVX2.tuning, serial_work=0))
    for target, threads, fusion in ((few, 1, True), (few, 2, False), (few, 7, True), (own, 2, True)):
        program = compile_graph(graph, target=target, thread_count=threads, fusion=fusion)
        assert_identical(np.asarray(program(x)), expected)


@examples(60)
@given(st.integers(0, 1 << 32), st.sampled_from([1, 2]), st.integers(3, 17), st.integers(3, 17), st.booleans())
def test_no_bit_of_random_networks_differs(seed: int, batch: int, height: int, width: int, is_half: bool) -> None:
    sizes, type = (batch, 32, height, width), "float16" if is_half else "float32"
    check(described(lambda x: random_network(x, Random(seed)), sizes, type), sizes)


def random_network(x: Any, random: Random) -> Any:
    """Up to eight layers, each behind one that is there already, and all that nobody reads in one result."""
    made = [x]
    for _ in range(random.randint(2, 8)):
        at = random.choice(made[-3:])
        kind = random.choice(
            ["points", "points", "windows", "depthwise", "sum", "activation", "pooling", "join", "normalized", "matrix"]
        )
        alike = [one for one in made if one.sizes == at.sizes and one is not at]
        if kind == "points":
            made.append(layer(at, random.choice([8, 16, 24, 40, 256])))
        elif kind == "windows":
            made.append(layer(at, random.choice([16, 32]), 3, **PADDED, strides=[random.choice([1, 2])] * 2))
        elif kind == "depthwise":
            made.append(layer(at, at.sizes[1], 3, groups=at.sizes[1], **PADDED))
        elif kind == "sum" and alike:
            made.append(dml.add(at, random.choice(alike)))
        elif kind == "normalized":
            points = dml.mean_variance_normalization(at.transpose([0, 2, 3, 1]), axes=[3])
            made.append(points.transpose([0, 3, 1, 2]))
        elif kind == "matrix":
            order, back = random.choice([([0, 2, 3, 1], [0, 3, 1, 2]), ([2, 0, 3, 1], [1, 3, 0, 2])])
            made.append(matrix_layer(at.transpose(order), random.choice([16, 32])).transpose(back))
        elif kind == "join" and alike:
            made.append(dml.join([at, random.choice(alike)], axis=1))
        elif kind == "pooling":
            made.append(dml.max_pooling(at, window_size=[2, 2], strides=[1, 1], **PADDED).values)
        else:
            made.append(dml.activation_relu(at))
    return layer(made[-1], 16)


def refined(name: str) -> Definition:
    """What a network's program computes on a processor with few registers."""
    graph = laid_out(described(RUNS[name][0], (1, 32, 15, 15)), AVX2)
    joined = join(graph, refining(AVX2))
    return divide_and_fuse(joined, costs=AVX2.costs).execution


def test_sums_store_their_channels_where_others_join_them() -> None:
    """Nothing is copied: what is joined is whole lines of each point's channels."""

    def joined(x: Any) -> Any:
        return layer(dml.join([layer(x, 32), layer(x, 48, 3, **PADDED)], axis=1), 16)

    graph = laid_out(described(joined), AVX2)
    execution = divide_and_fuse(join(graph, refining(AVX2)), costs=AVX2.costs).execution
    (wide,) = [t for t in execution.temporaries if t.sizes[1] == 80]
    writers = [s for s in execution.statements if wide in writes_of(s)]
    assert len(writers) == 2
    assert all(any(isinstance(e, Fold) for x in expressions_of(s) for e in walk(x)) for s in writers)


@pytest.mark.parametrize(
    ("outputs", "widths"), [(16, [16]), (24, [24]), (32, [16]), (40, [24, 16]), (72, [24]), (56, [16, 8])]
)
def test_no_panel_of_a_single_register_is_left_over(outputs: int, widths: list[int]) -> None:
    """A panel of three registers takes it, or all are of three; where that would leave one, too, they stay of two."""
    joined = join(laid_out(described(lambda x: layer(layer(x, 48), outputs)), AVX2), refining(AVX2))
    execution = divide_and_fuse(joined, costs=AVX2.costs).execution
    first, *panels = [t.sizes[-1] for t in execution.inputs if t is not None and "filter_panels" in t.name]
    assert first == 16 and panels == widths


def test_windows_that_leave_points_out_of_short_rows_have_copies_of_points() -> None:
    """All places of an image are one row of points then."""
    (copy,) = [t for t in refined("strided").temporaries if "columns" in t.name]
    assert copy.sizes == (1, 1, 1, 8, 8, 272)


def pooled_by_blocks(images: int) -> Each:
    """The blocks of channels of windows with a pooling behind them."""
    graph = dml.Graph()
    x = graph.input("float32", [images, 3, 224, 224], name="x")
    first = dml.activation_relu(layer(x, 64, 7, strides=[2, 2], start_padding=[3, 3], end_padding=[3, 3]))
    pool = dml.max_pooling(first, window_size=[3, 3], strides=[2, 2], **PADDED).values
    target = AVX2.tuned(blocks_of_channels=1)
    joined = join(laid_out(graph.describe(layer(pool, 32)), target), refining(target))
    definition, _ = blocks_of_channels(divide_and_fuse(joined, costs=target.costs).execution, target)
    (each,) = [s for s in definition.statements if isinstance(s, Each)]
    return each


def test_channels_of_a_block_lie_side_by_side_as_those_of_all_blocks() -> None:
    (own,) = pooled_by_blocks(1).own
    assert own.sizes == (1, 16, 112, 112)
    assert own.strides == (16 * 112 * 112, 1, 16 * 112, 16)


@pytest.mark.parametrize(("images", "count"), [(1, 0), (8, 1)])
def test_lines_that_poolings_of_a_block_store_are_asked_for(images: int, count: int) -> None:
    """They are a part of each point's, apart from one another; one image stays in a cache."""
    pooling = pooled_by_blocks(images).statements[1]
    assert isinstance(pooling, Compute)
    kernel = schedule_compute(pooling, AVX2, in_place=False)
    assert len(kernel.prefetched.keys() & writes_of(pooling)) == count
