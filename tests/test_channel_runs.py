"""Bytes between convolutions with their channels side by side: which tensors these are, and that no bit differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from byte_networks import NETWORKS, PADDED, Build, described, layer, plain, pooled, residual, strided, weights
from execution import Array, assert_identical
from test_refine_words import target_of

import opendml as dml
from opendml.expression.affine import Element
from opendml.expression.interpreter import run_interpreted
from opendml.expression.ir import Fold, Tensor
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition, expressions_of, reads_of, writes_of
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.targets.cpu.contraction import schedule_contraction
from opendml.targets.cpu.refine.channel_runs import channel_runs
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.tuning import TUNING, Tuning


def numbers(tensor: Tensor) -> Array:
    """Some that a tensor may have."""
    bits, kind = tensor.type.bits, tensor.type.kind
    if kind == "float":
        return np.random.default_rng(0).normal(size=tensor.sizes).astype(f"float{bits}")
    return weights(tensor.sizes, 5, f"{kind}{bits}")


def has_runs(tensor: Tensor) -> bool:
    """Whether the channels of a tensor lie side by side."""
    return tensor.type.bits == 8 and len(tensor.sizes) == 4 and tensor.strides[1] == 1 and tensor.sizes[2] > 1


def laid_out(desc: Any, level: str, tuning: Tuning = TUNING) -> tuple[Definition, Definition]:
    """What runs of a graph on a processor, before and after."""
    target = replace(target_of(level), knobs=tuning)
    execution = divide_and_fuse(join(desc, refining(target)), costs=target.costs).execution
    made, were = channel_runs(execution, target)
    assert set(were.values()) <= set(execution.statements)
    assert set(were) <= set(made.statements)
    return execution, made


@pytest.mark.parametrize("type", ["uint8", "int8"])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_bit_differs(name: str, batch: int, type: str) -> None:
    build, _ = NETWORKS[name]
    desc = described(build, batch, type)
    x = weights([batch, 32, 9, 11], 7, type)
    expected = np.asarray(dml.Device("reference").compile_graph(desc)(x))
    for count in (1, 2, 7):
        device = dml.Device(thread_count=count, tuning=replace(TUNING, serial_work=0))
        assert_identical(np.asarray(device.compile_graph(desc)(x)), expected)


@pytest.mark.parametrize("level", ["vnni", "arm", "avx2", "avx512"])
@pytest.mark.parametrize("name", NETWORKS)
def test_what_runs_is_what_was_written_down(name: str, level: str) -> None:
    """Interpreted, for processors that need not be this one. Where products are of 16 bits convolutions of single
    channels have none, and keep planes."""
    build, count = NETWORKS[name]
    before, after = laid_out(described(build, 1, "uint8"), level)
    keeps_planes = name == "depthwise" and level in ("avx2", "avx512")
    assert sum(map(has_runs, after.temporaries)) == (0 if keeps_planes else count)
    arrays = [None if t is None else numbers(t) for t in before.inputs]
    expected, found = run_interpreted(before, arrays), run_interpreted(after, arrays)
    for a, b in zip(expected, found, strict=True):
        assert a is not None
        assert b is not None
        assert_identical(b, a)


def test_processors_without_products_of_words_keep_their_layouts() -> None:
    before, after = laid_out(described(plain, 1, "uint8"), "baseline")
    assert after is before


@pytest.mark.parametrize("level", ["avx2", "avx512"])
def test_words_of_two_are_copies_with_the_channels_of_a_point_side_by_side(level: str) -> None:
    """No more of them than before, and points of which few places of a cache would have all are a line apart; what is
    summed up at several taps goes along a point's words first, as filters lie."""
    line = 64
    for aliased, between in ((1024, 0), (line, line // 4)):
        tuning = replace(TUNING, serial_work=0, aliased_run_bytes=aliased)
        desc = described(plain, 2, "uint8")
        before, after = laid_out(desc, level, tuning)
        copies, made = ([t for t in d.temporaries if words_of_input(t)] for d in (before, after))
        assert len(made) == len(copies) == 3
        assert [t.strides[2] for t in made] == [9 * 11, 1, 1]  # The first one's input is the user's.
        assert [t.strides[4] - t.sizes[2] for t in made if t.strides[2] == 1] == [between] * 2
        kernels = [schedule_contraction(s, target_of(level)) for s in after.statements if isinstance(s, Compute)]
        (fold,) = (k.fold for k in kernels if k is not None and all(axis.size > 1 for axis in k.fold.axes))
        panel = target_of(level).machine.vector_bytes // 2
        assert {e.address.coefficient(fold.axes[-1]) for e in elements(fold)} == {0, 1, panel}
        x = weights([2, 32, 9, 11], 7, "uint8")
        expected = np.asarray(dml.Device("reference").compile_graph(desc)(x))
        for count in (1, 2, 7):
            assert_identical(np.asarray(dml.Device(thread_count=count, tuning=tuning).compile_graph(desc)(x)), expected)


def words_of_input(tensor: Tensor) -> bool:
    """Whether a temporary tensor has the words of a convolution's input."""
    return tensor.type.bits == 32 and tensor.name.endswith(("InputTensor_words", "padded_input_words"))


def test_nothing_between_convolutions_is_copied() -> None:
    """But what is around a tensor, which is stored within that at once."""
    before, after = laid_out(described(plain, 1, "uint8"), "vnni")
    copies = [[t for s in d.statements for t in writes_of(s) if "words" in t.name] for d in (before, after)]
    assert [len({*one}) for one in copies] == [3, 2]
    around = [s for s in after.statements if not reads_of(s)]
    assert [len(s.stores) for s in around if isinstance(s, Compute)] == [2, 2]
    (margin,) = {tensor for s in around for tensor in writes_of(s)}
    assert margin.sizes == (1, 64, 11, 13)
    assert sum(margin in writes_of(s) for s in after.statements) == 3


def large(graph: dml.Graph, x: Any) -> Any:
    """Rows of windows that are more than a word."""
    windows = layer(layer(x, 32, 32), 32, 32, 5, groups=32, start_padding=[2, 2], end_padding=[2, 2])
    return layer(windows, 32, 48)


def narrow(graph: dml.Graph, x: Any) -> Any:
    """Too few channels for a vector."""
    return layer(layer(x, 32, 8), 8, 32)


def odd(graph: dml.Graph, x: Any) -> Any:
    """Channels that are no whole words."""
    return layer(layer(x, 32, 18), 18, 32)


def summed(graph: dml.Graph, x: Any) -> Any:
    """A residual sum of numbers, whose bytes the next two convolutions read."""
    first = layer(x, 32, 32)
    second = layer(layer(first, 32, 32, 3, 3, **PADDED), 32, 32, zero=3)
    zero = np.array([3], "uint8")
    parts = (dml.dequantize_linear(part, np.float32(0.7), zero) for part in (first, second))
    total = dml.quantize_linear(sum(parts), np.float32(1.3), zero)
    return dml.max(layer(total, 32, 16), layer(total, 32, 16, zero=3))


def test_sums_are_a_part_of_the_convolution_before() -> None:
    """They were a part of the words that the next ones read."""
    desc = described(summed, 1, "uint8")
    _, made = laid_out(desc, "vnni")
    alone = [s for s in made.statements if not any(isinstance(e, Fold) for x in expressions_of(s) for e in walk(x))]
    assert all(sum(map(has_runs, reads_of(s))) < 2 for s in alone)
    x = weights([1, 32, 9, 11], 7, "uint8")
    expected = np.asarray(dml.Device("reference").compile_graph(desc)(x))
    for count in (1, 2, 7):
        device = dml.Device(thread_count=count, tuning=replace(TUNING, serial_work=0))
        assert_identical(np.asarray(device.compile_graph(desc)(x)), expected)


def test_tiles_go_along_rows_where_columns_are_as_long() -> None:
    """Of what a margin is around, whose rows and columns are no one run of points: neighbours are nearer in a row."""

    def points_and_windows(graph: dml.Graph, x: Any) -> Any:
        return layer(layer(layer(x, 32, 64), 64, 48), 48, 32, 3, zero=3, **PADDED)

    _, made = laid_out(described(points_and_windows, 1, "uint8", (28, 28)), "vnni")
    kernels = [schedule_contraction(s, target_of("vnni")) for s in made.statements if isinstance(s, Compute)]
    _, points, windows = (kernel for kernel in kernels if kernel is not None)
    for kernel, channels in ((points, 64), (windows, 48)):
        assert {e.address.coefficient(kernel.tile) for e in elements(kernel.fold)} == {0, channels}


def test_points_that_windows_read_are_in_many_sets_of_a_cache() -> None:
    """A line is between the channels of one and of the next, in memory that nothing reads or writes."""
    tuning = replace(TUNING, serial_work=0, aliased_points=32)
    for build in (plain, strided, residual):
        desc = described(build, 2, "uint8")
        _, made = laid_out(desc, "vnni", tuning)
        tensors = [t for t in made.temporaries if has_runs(t)]
        pitches = {t.strides[3] - t.sizes[1] for t in tensors if t.name.endswith("_bytes")}
        others = {t.strides[3] - t.sizes[1] for t in tensors if not t.name.endswith("_bytes")}
        assert pitches == {64} and others == {0}
        x = weights([2, 32, 9, 11], 7, "uint8")
        expected = np.asarray(dml.Device("reference").compile_graph(desc)(x))
        for count in (1, 2, 7):
            found = dml.Device(thread_count=count, tuning=tuning).compile_graph(desc)(x)
            assert_identical(np.asarray(found), expected)


def elements(fold: Fold) -> list[Element]:
    """What the sums of a kernel load."""
    return [e for e in walk(fold) if isinstance(e, Element)]


@pytest.mark.parametrize("build", [large, narrow, odd])
def test_what_would_not_be_faster_stays(build: Build) -> None:
    before, after = laid_out(described(build, 1, "uint8"), "vnni")
    assert after is before


def test_sums_in_the_lanes_of_points_read_a_copy() -> None:
    before, after = laid_out(described(pooled, 1, "uint8"), "vnni")
    kept = {t for t in before.temporaries if t.type.bits == 8} & set(after.temporaries)
    assert len(kept) == 1
    (copy,) = (s for s in after.statements if writes_of(s) == kept)
    assert all(map(has_runs, reads_of(copy)))


@pytest.mark.parametrize(("level", "width"), [("vnni", 32), ("arm", 8), ("avx2", 16)])
def test_weights_lie_in_panels(level: str, width: int) -> None:
    """Those of 64 channels do, as wide as two registers."""
    target = target_of(level)
    parts = divide_and_fuse(join(described(plain, 1, "uint8"), refining(target)), costs=target.costs)
    assert parts.initialisation is not None
    made = [t for s in parts.initialisation.statements for t in writes_of(s) if "FilterTensor_words" in t.name]
    assert any(tensor.sizes[0] == 64 // width and tensor.sizes[-1] == width for tensor in made)
