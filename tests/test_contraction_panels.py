"""Sums of products: what is copied to panels, by whom, and who fills them on the way."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from contraction_kernels import (
    TARGETS,
    activated_gemm,
    convolution,
    fixed_kernel,
    gemm,
    product_kernel,
    with_fixed_weights,
)
from execution import assert_same_values, random_array, run_single
from nest_running import HOSTS, OTHERS, check_nests, contents_of

from opendml.expression.interpreter import run_interpreted
from opendml.expression.statements import Compute
from opendml.llvm.host import Machine
from opendml.loops.nest import Branch, Items, Leaf, Prefetch, Transpose, nodes_of
from opendml.programs.device import compile_operator
from opendml.targets.cpu.code.modules import Support
from opendml.targets.cpu.code.program_code import program_code
from opendml.targets.cpu.contraction import ContractionKernel, schedule_contraction
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.processor import Processor, host_processor
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING, Tuning

pytestmark = pytest.mark.usefixtures("no_cache")


@pytest.mark.parametrize("machine", [*HOSTS, *OTHERS], ids=str)
@pytest.mark.parametrize(
    ("channels", "filters", "size", "window", "stride"),
    [(5, 48, 7, 3, 1), (9, 32, 7, 1, 1), (6, 32, 9, 3, 2), (12, 80, 13, 1, 2), (17, 70, 15, 1, 1), (3, 32, 14, 3, 1)],
)
def test_fixed_filters_in_panels(
    machine: Machine, channels: int, filters: int, size: int, window: int, stride: int
) -> None:
    """Vectors along channels, tiles in rows and in parts of rows, one behind the other."""
    check_fixed_filters(machine, channels, filters, size, window, stride)


def test_rows_that_a_tile_leaves_over() -> None:
    """Seven rows are tiles of four and of three."""
    check_fixed_filters(HOSTS[0], 9, 32, 7, 3, 1)


@pytest.mark.parametrize(
    "machine", [m for m in (*HOSTS, *OTHERS) if m.vector_registers < TUNING.many_registers], ids=str
)
@pytest.mark.parametrize("size", [13, 14, 16])
def test_points_that_a_tile_leaves_over(machine: Machine, size: int) -> None:
    """Rows of 16 are two tiles of six and one of four, in work items of a tile or more; where tiles have two registers
    a point or two of 13 or 14 are a tile with those of other rows."""
    kernel = fixed_kernel(convolution(1, 4, 32, size), CpuTarget(machine))
    assert kernel.rest is not None and (machine.vector_bytes != 32 or (kernel.rest.row is None) == (size == 16))
    check_fixed_filters(machine, 4, 32, size, 3, 1)


def check_fixed_filters(machine: Machine, channels: int, filters: int, size: int, window: int, stride: int) -> None:
    knobs: dict[str, Any] = {
        "fewest_panel_steps": 8,
        "serial_work": 0,
        "near_strip_bytes": 256,
        "far_tile_bytes": 256,
        "items": 7,
        "redone_part": 8,
    }
    desc = convolution(1, channels, filters, size, window, stride)
    for redone_work in (0, 1 << 40):  # rows and strips that are left have code of their own, or are done once more
        target = Processor(machine, replace(TUNING, **knobs, redone_work=redone_work))
        refined = with_fixed_weights(desc, target)
        check_nests(refined, target, contents_of(refined, 3), (2, 0, 1))


@pytest.mark.parametrize("machine", [host for host in HOSTS if CpuTarget(host).has_few_registers], ids=str)
@pytest.mark.parametrize(("channels", "size", "stride"), [(3, 13, 1), (4, 14, 1), (3, 25, 2), (3, 16, 1)])
def test_tiles_wait_for_one_another(machine: Machine, channels: int, size: int, stride: int) -> None:
    """Some channels at a time: tiles, narrower ones of rows that are left, and those that are moved back."""
    desc = convolution(1, channels, 32, size, 3, stride)
    for items, redone_work in ((1, 0), (3, 1 << 40)):
        knobs: dict[str, Any] = {
            "waiting_tiles_bytes": 1,
            "fewest_waiting_tiles": 1,
            "part_bytes": 9 * 16 * 4,
            "fewest_panel_steps": 8,
            "items": items,
            "redone_work": redone_work,
            "redone_part": 8,
            "serial_work": 0,
        }
        target = Processor(machine, replace(TUNING, **knobs))
        refined = with_fixed_weights(desc, target)
        *_, statement = refined.statements
        assert isinstance(statement, Compute)
        kernel = schedule_contraction(statement, target)
        assert kernel is not None and 0 < kernel.outer_at_once < channels
        check_nests(refined, target, contents_of(refined, 3), (2, 0, 1))


@pytest.mark.parametrize("machine", HOSTS, ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(7, 48), (8, 33), (13, 130)])
def test_fixed_matrices_in_panels_of_a_register(machine: Machine, rows: int, columns: int) -> None:
    """Those that are left over have a panel of their own."""
    desc = gemm(rows, 19, columns)
    target = Processor(machine, replace(TUNING, serial_work=0, few_rows_panel_bytes=1))
    refined = with_fixed_weights(desc, target)
    widths = [t.sizes[-1] for t in refined.temporaries if t.name == "panels"]
    is_whole = machine.vector_bytes == machine.cache_line
    assert not is_whole or widths == [16] + [columns % 16] * (columns % 16 > 0)
    check_nests(refined, target, contents_of(refined, 3), (2, 0, 1))


@pytest.mark.parametrize("machine", HOSTS, ids=str)
@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize("parted_steps", [2, 4])
@pytest.mark.parametrize(
    ("rows", "inner", "columns", "least", "is_laid_out"),
    [
        (1, 192, 8, 1, True),
        (1, 128, 12, 1, True),
        (1, 192, 8, 1 << 20, False),
        (1, 192, 7, 1, False),
        (1, 100, 8, 1, False),
        (1, 64, 8, 1, False),
        (2, 192, 8, 1, False),
    ],
)
def test_a_fixed_matrix_whose_rows_one_row_is_multiplied_by_lies_as_it_is_read(
    machine: Machine,
    data_type: str,
    parted_steps: int,
    rows: int,
    inner: int,
    columns: int,
    least: int,
    is_laid_out: bool,
) -> None:
    """Where it is far, of all lanes if there are registers for the sums of several of its rows, of which all steps are
    whole; else, of sums long enough, of some lanes at a time."""
    desc = activated_gemm(data_type, [1, 1], rows, inner, columns)
    knobs = TUNING.but(serial_work=0, few_rows_panel_bytes=least, parted_steps=parted_steps)
    target = Processor(machine, knobs)
    refined = with_fixed_weights(desc, target)
    sizes = [t.sizes for t in refined.temporaries if t.name in ("streams", "partial_results")]
    whole = {64: 4, 32: 2 if machine.vector_registers == 32 else 1}.get(machine.vector_bytes, 1)
    together, steps = max(whole, 4 if whole == 1 else 0), inner // 64
    lanes = 64 if whole > 1 else machine.vector_registers // 8 * (machine.vector_bytes // 4)
    expected: list[tuple[int, ...]] = [(1, 1, columns // together, 64 // lanes, steps, together, lanes)]
    if lanes < 64:
        expected.append((1, 1, rows, columns // together, together, 64))
    assert sizes == (expected if is_laid_out and (whole > 1 or steps >= parted_steps) else [])
    contents = contents_of(refined, 3)
    check_nests(refined, target, contents, (2, 0, 1))
    inputs = [None if t is None else contents[t].reshape(t.sizes) for t in refined.inputs]
    for found, wanted in zip(*(run_interpreted(d, inputs) for d in (refined, desc.define())), strict=True):
        assert_same_values(found, wanted)


@pytest.mark.parametrize("sizes", [(8, 1), (2, 4), (4, 2), (5, 3)])
def test_batches_that_share_a_fixed_matrix_are_rows_of_one_product(sizes: tuple[int, int]) -> None:
    """Its panels are as wide as those of a product of as many rows; where there are few of these they have other
    widths."""

    def width(batch: int, rows: int) -> int:
        desc = gemm(rows, 19, 96, batch=batch)
        target = Processor(HOSTS[0], replace(TUNING, serial_work=0))
        refined = with_fixed_weights(desc, target)
        check_nests(refined, target, contents_of(refined, 3), (2, 0, 1))
        return next(t.sizes[-1] for t in refined.temporaries if t.name == "panels")

    assert width(*sizes) == width(1, sizes[0] * sizes[1]) != width(1, 5)


def test_each_of_many_threads_copies_a_part_of_the_panel() -> None:
    """Unless the other side is large, which would be read for every part."""

    def parts(rows: int, threads: int) -> int:
        kernel = product_kernel(gemm(rows, 128, 784), replace(TARGETS[0], knobs=tuned(threads)))
        assert kernel.panel is not None and kernel.blocks[0][0] is kernel.vector
        assert threads == 1 or kernel.item_count >= TUNING.items
        return kernel.block_counts[0]

    def tuned(threads: int) -> Tuning:
        return replace(TUNING, many_threads=threads)

    assert parts(512, 1) == 1
    assert 16 >= parts(512, 16) > parts(8192, 16) >= 1
    assert parts(512, 64) >= parts(512, 16)


@pytest.mark.parametrize("images", [1, 4, 8])
def test_images_of_short_sums_are_panels_of_their_own(images: int) -> None:
    """However short their rows of outputs, which that leaves as they are: a thread copies no more than one image."""
    kernel = product_kernel(convolution(images, 64, 384, 14, window=1))
    assert kernel.steps <= TUNING.short_sums and kernel.panel is not None
    blocks = dict(kernel.blocks)
    assert blocks[kernel.vector] == kernel.vector.size or images == 1
    assert math.prod(blocks[axis] for axis in kernel.along if axis is not kernel.vector) == 1
    assert images == 1 or kernel.block_counts[0] == images
    assert kernel.item_count >= TUNING.items


@pytest.mark.parametrize("machine", [*HOSTS, *OTHERS], ids=str)
def test_panels_of_filters_are_filled_through_all_taps_of_a_channel(machine: Machine) -> None:
    """The taps of a channel, and its neighbours', are one run of the filter, though not of the images: squares are
    transposed that begin at any tap."""
    target = Processor(machine, replace(TUNING, serial_work=0))
    definition = refined_definition(convolution(3, 5, 48, 7), target)
    nests = list(target.generate(definition, in_place=False).nests)
    transposed = {node.axis.size for nest in nests for node in nodes_of(nest.body) if isinstance(node, Transpose)}
    if machine.vector_registers * machine.vector_bytes >= TUNING.large_registers:
        assert transposed == {5 * 3 * 3}
    check_nests(definition, target, contents_of(definition, 3), (0, 1))


def test_first_tiles_fill_the_panel() -> None:
    """Where it is copied in the order of their steps; each step asks for the lines that a later one copies. What is
    transposed, or of several axes, has a loop of its own."""
    kernel = product_kernel(gemm(64, 300, 1024))
    (items,) = kernel_nest(kernel, TARGETS[0]).body
    assert isinstance(items, Items)
    (branch,) = (node for node in nodes_of(items.body) if isinstance(node, Branch))
    nodes = [*nodes_of(branch.then)]
    stored = [
        s for n in nodes if isinstance(n, Leaf) for s in n.stores if kernel.panel and s.tensor is kernel.panel.tensor
    ]
    asked = [n for n in nodes if isinstance(n, Prefetch) and n.tensor.name == "BTensor"]
    assert kernel.has_filling_tiles
    assert len(stored) == 1
    assert len(asked) == kernel.vectors
    assert not any(
        s.tensor is stored[0].tensor for n in nodes_of(branch.otherwise) if isinstance(n, Leaf) for s in n.stores
    )
    (output,) = (store.tensor for store in kernel.stores)
    results = [n for n in nodes_of(items.body) if isinstance(n, Leaf) for s in n.stores if s.tensor is output]
    assert len(results) == 1, "both kinds of tiles share what is made of their sums"
    assert not product_kernel(gemm(64, 300, 1024, True)).has_filling_tiles


def test_tiles_of_few_rows_fill_a_panel_where_registers_are_large() -> None:
    """Of a right side whose rows are whole pages, and that is neither small nor from memory; else sums wait."""
    for rows in (12, 13, 31, 48):
        for inner, columns in ((1024, 1024), (1024, 4096), (4096, 1024)):
            kernel = product_kernel(gemm(rows, inner, columns))
            assert kernel.has_filling_tiles and not kernel.steps_at_once
    others = [(11, 1024, 1024), (16, 1000, 1024), (16, 1024, 1040), (16, 1024, 5120), (48, 4096, 4096)]
    for sizes in others:
        kernel = product_kernel(gemm(*sizes))
        assert kernel.steps_at_once and kernel.panel is None
    for target in TARGETS[1:]:
        assert product_kernel(gemm(16, 1024, 1024), target).steps_at_once


def test_products_of_few_rows_whose_tiles_fill_a_panel() -> None:
    """Whatever the host's registers: rows of the last tile that two tiles have, and a narrower last strip."""
    desc = gemm(13, 140, 1024)
    arrays = (random_array(t, n, special=False) for n, t in enumerate((desc.a_tensor, desc.b_tensor)))
    target = host_processor().tuned(filling=replace(TUNING.filling, registers=0, steps=0, share=0.0))
    assert product_kernel(desc, target).has_filling_tiles
    run_single(desc, *arrays, None, tuning=target.tuning)


@pytest.mark.parametrize("trans_b", [False, True])
def test_left_matrices_are_read_by_columns_where_these_stay_near(trans_b: bool) -> None:
    """Not where steps are whole pages apart, nor where there are many of them in a large matrix. In the former case
    nothing is copied, either, where vectors may as well lie along those columns: both sides are transposed."""

    def copies(rows: int, inner: int) -> int:
        *copies, _ = refined_definition(gemm(rows, inner, 256, trans_b, True), TARGETS[0]).statements
        return len(copies)

    assert [copies(512, 512), copies(64, 2048)] == [0, 0]
    assert [copies(1024, 512), copies(512, 4096)] == [int(not trans_b), 1]


def test_tiles_are_transposed_where_both_sides_of_a_product_are() -> None:
    """And left columns are whole pages apart: vectors are along these, in panels of a thread's own."""
    kernel = product_kernel(gemm(1024, 1024, 1024, trans_a=True, trans_b=True))
    assert kernel.turned
    assert kernel.panel is not None
    assert not product_kernel(gemm(1024, 1024, 1024, trans_a=True)).turned


@pytest.mark.parametrize(("trans_b", "rows"), [(False, 61), (True, 61), (False, 256), (True, 1024)])
def test_products_of_left_matrices_by_columns(trans_b: bool, rows: int) -> None:
    desc = gemm(rows, 173, 150, trans_b, True)
    run_single(desc, *(random_array(t, n, special=False) for n, t in enumerate((desc.a_tensor, desc.b_tensor))), None)


def test_a_transposed_right_matrix_is_packed_along_its_rows() -> None:
    kernel = product_kernel(gemm(256, 256, 256, True))
    assert kernel.panel is not None and kernel.panel.transposed is kernel.fold.axes[0]


def test_threads_have_scratch_memory_of_their_own() -> None:
    desc = gemm(256, 256, 256)
    code = program_code(refined_definition(desc, TARGETS[0]), TARGETS[0], Support("", "", {}))
    (kernel,) = code.kernels
    assert isinstance(kernel, ContractionKernel)
    assert code.requirements.scratch_size >= kernel.panel_bytes > 0
    program = compile_operator(desc, thread_count=3)
    assert program.temporary_size == 3 * program.with_thread_count(1).temporary_size > 0
    assert math.prod(kernel.block_counts) == kernel.item_count
