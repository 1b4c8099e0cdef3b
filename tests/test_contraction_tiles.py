"""Sums of products: tiles of registers, their blocks, and the shares of threads."""

from __future__ import annotations

import itertools
import platform
import re
from dataclasses import replace
from typing import Any

import pytest
from contraction_kernels import (
    TARGETS,
    bytes_convolution,
    convolution,
    fixed_kernel,
    gemm,
    product_kernel,
    with_fixed_weights,
)
from execution import random_array, run_single
from hypothesis import given
from hypothesis import strategies as st

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.expression.statements import Compute
from opendml.llvm.host import machine_of
from opendml.llvm.native import assembly
from opendml.loops.nest import Loop, Prefetch, Turn, nodes_of
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.contraction import ContractionKernel, schedule_contraction
from opendml.targets.cpu.contractions.blocks import even_block
from opendml.targets.cpu.kernel_description import describe_kernel
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.processor import Processor, host_processor
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING

pytestmark = pytest.mark.usefixtures("no_cache")


@pytest.mark.parametrize("target", TARGETS)
def test_tiles_fit_into_the_registers(target: CpuTarget) -> None:
    for desc in (gemm(512, 512, 512), gemm(100, 300, 20), gemm(33, 5, 64, True), convolution(4, 32, 64, 7)):
        kernel = product_kernel(desc, target)
        assert kernel.vectors * (kernel.tile_size * kernel.row_count + 1) < target.machine.vector_registers
        assert kernel.lanes * 4 == target.machine.vector_bytes


@pytest.mark.parametrize(("channels", "copies"), [(16, 1), (256, 2)])
def test_little_that_is_left_is_done_once_more(channels: int, copies: int) -> None:
    """The last of 13 rows, and a point behind nine strips: longer sums have code of their own for it."""
    rows = fixed_kernel(convolution(1, channels, 16, 13))
    strips = product_kernel(convolution(1, channels, 64, 17, window=1))
    assert rows.row is not None and rows.row_count == 2 and strips.vectors > 1
    for kernel, axis in ((rows, rows.row), (strips, strips.vector)):
        nodes = nodes_of(kernel_nest(kernel, TARGETS[0]).body)
        assert sum(isinstance(node, Loop) and node.axis is axis for node in nodes) == copies


def test_a_last_strip_that_hardly_overlaps_others_has_no_code_of_its_own() -> None:
    """The last of 267 strips of 24 points ends with 6400 points; the last of 17 would repeat eight of 400."""
    large, small = (product_kernel(convolution(1, 128, 128, size, window=1), TARGETS[1]) for size in (80, 20))
    for kernel, is_redone in ((large, True), (small, False)):
        assert kernel.panel is not None and kernel.vector.size % kernel.strip
        assert kernel.redoes is is_redone
        assert (kernel.last_vectors == kernel.vectors) is is_redone


def test_narrower_tiles_that_do_little_are_stored_by_a_loop() -> None:
    """Two columns of 80, of three rows, whose sums are transposed: a row and a register at a time."""
    kernel = fixed_kernel(convolution(1, 64, 64, 80), TARGETS[1])
    rest = kernel.rest
    assert kernel.turned and rest is not None and rest.row is not None and rest.size * rest.rows > 1
    for share, rows in ((TUNING.little_share, 1), (0.0, rest.rows)):
        nodes = nodes_of(kernel_nest(kernel, TARGETS[1].tuned(little_share=share)).body)
        turns = [node for node in nodes if isinstance(node, Turn)]
        assert sorted((turn.rows, turn.stride) for turn in turns) == [(2, 2 * rows if rows > 1 else 1), (6, 2)]


@pytest.mark.parametrize(
    ("channels", "size", "waits"), [(256, 64, True), (512, 32, True), (128, 64, False), (512, 7, False)]
)
def test_tiles_wait_where_what_they_load_is_more_than_a_cache_holds(channels: int, size: int, waits: bool) -> None:
    """Half a mebibyte, for instance: several parts of all channels, of little more than the nearest cache holds."""
    knobs: dict[str, Any] = {
        "waiting_tiles_bytes": 300 << 10,
        "vector_side_bytes": 192 << 10,
        "waiting_sums_bytes": 32 << 10,
        "part_bytes": 9 << 10,
    }
    many, few = (target.tuned(**knobs) for target in TARGETS[:2])
    kernel = fixed_kernel(convolution(1, channels, 128, size), few)
    assert (kernel.outer_at_once > 0) is waits
    for target in (many, few.tuned(items=1, many_items=1)):
        assert fixed_kernel(convolution(1, channels, 128, size), target).outer_at_once == 0
    if waits:
        strip = kernel.strip * 9 * 4 * kernel.outer_at_once
        assert 4 << 10 < strip <= 9 << 10


def test_what_is_known_before_sums_is_added_to_addresses_there() -> None:
    """Inside of the loops of a sum, places count from there: LLVM would look for the best ways to all of them."""
    target = Processor(TARGETS[1].machine, TUNING)
    refined = with_fixed_weights(convolution(1, 64, 64, 80), target)
    modules = target.generate(refined, in_place=False).modules
    (code,) = [module for module in modules if "llvm.fma" in module]
    sums = re.findall(r"phi <8 x float>.*?br label %loop[0-9]+, !llvm.loop", code, re.DOTALL)
    assert sums
    for lines in sums:
        assert "getelementptr float, ptr %v" in lines and "getelementptr float, ptr %p" not in lines


def test_large_products_are_cut_into_enough_items() -> None:
    kernel = product_kernel(gemm(1024, 1024, 1024))
    assert not kernel.serial and kernel.item_count >= TUNING.items // 2
    assert kernel.panel is not None and kernel.panel.transposed is None
    assert kernel.panel_bytes <= 2 * TUNING.vector_side_bytes
    assert describe_kernel(kernel, host_processor()).startswith("scratch panel: f32[")


def test_a_tile_has_several_rows_where_these_are_short() -> None:
    """Seven points of each of two images, beside as many registers of channels as with long rows."""
    long, short = (product_kernel(convolution(4, 64, 128, size)) for size in (14, 7))
    assert long.row is None and short.row is not None
    assert (short.tile_size, short.row_count) == (7, 2)
    assert long.tile_size * long.vectors == short.tile_size * short.row_count * short.vectors
    assert all(block % short.row_count == 0 for axis, block in short.blocks if axis is short.row)


def test_points_left_over_are_a_narrower_tile() -> None:
    """Tiles without any left would have fewer sums, with few registers eight, as many as wait for one another."""
    many, few = (fixed_kernel(convolution(1, 64, 64, 32), target) for target in TARGETS[:2])
    assert many.rest is not None and (many.tile_size, many.vectors) == (14, 2)
    assert few.rest is not None and (few.tile_size, few.vectors) == (6, 2)
    assert fixed_kernel(convolution(1, 64, 64, 64)).rest is None, "hardly less time, twice the code"
    assert fixed_kernel(convolution(1, 4, 32, 16), TARGETS[1]).rest is not None
    assert all(block % few.tile_size == 0 or block == axis.size for axis, block in few.blocks if axis is few.tile)
    assert fixed_kernel(convolution(1, 64, 64, 30), TARGETS[1]).rest is None
    assert fixed_kernel(convolution(1, 64, 64, 256), TARGETS[1]).rest is None, "hardly less time, twice the code"


@pytest.mark.parametrize(("size", "rest"), [(13, (1, 6)), (14, (2, 3)), (27, (3, 2)), (16, (2, 3))])
def test_points_left_over_in_several_rows_are_a_tile_together(size: int, rest: tuple[int, int]) -> None:
    """As many sums as a whole tile has, whose rows work items are cut between."""
    kernel = fixed_kernel(convolution(1, 64, 64, size), TARGETS[1])
    assert kernel.rest is not None and (kernel.tile_size, kernel.tile.name) == (6, "y")
    assert kernel.rest.row is not None and kernel.rest.row.name == "x"
    assert (kernel.rest.size, kernel.rest.rows) == rest
    blocks = [block for axis, block in kernel.blocks if axis is kernel.rest.row]
    assert all(block % kernel.rest.rows == 0 or block == size for block in blocks)


def test_rows_of_points_left_over_are_rows_of_windows() -> None:
    """Those of other weights would read other lines of them at every step; and those of a single whole tile have tiles
    of several rows."""
    kernels = [
        fixed_kernel(convolution(1, 512, 512, 16), TARGETS[1]),
        fixed_kernel(convolution(1, 512, 512, 7), TARGETS[1]),
    ]
    kernels.append(fixed_kernel(convolution(1, 256, 1024, 14, 1), TARGETS[1]))
    assert [k.rest and k.rest.row and k.rest.row.name for k in kernels] == ["x", None, None]
    assert kernels[1].row_count == 2


def test_lines_of_weights_that_do_not_stay_near_count_beside_vectors() -> None:
    """Vectors of channels then, whose lines are weights': each line is read once for a tile, not for every few of its
    channels."""
    long, short = (fixed_kernel(convolution(1, channels, 128, 28, 1), TARGETS[1]) for channels in (512, 128))
    assert long.turned and long.panel is None
    assert short.panel is not None


def test_vectors_of_short_sums_are_loaded_where_they_lie_where_there_are_few_registers() -> None:
    """Each step's are on a page of their own, but these are few. Not where vectors are in two lines, rows fall into
    the same places of the nearest cache, or sums are longer."""

    def is_packed(channels: int, size: int, target: CpuTarget = TARGETS[1]) -> bool:
        return product_kernel(convolution(1, channels, 256, size, window=1), target).panel is not None

    assert not is_packed(64, 56) and is_packed(64, 56, TARGETS[1].tuned(short_sums=32))
    assert is_packed(64, 13) and is_packed(64, 64) and is_packed(96, 56)


def test_tiles_of_one_tap_go_along_channels_where_there_are_few_registers() -> None:
    """Their scalars are far apart from step to step, and asked for: beside the sums that takes hardly longer."""
    kernel = fixed_kernel(convolution(1, 256, 1024, 14, window=1), TARGETS[1])
    assert kernel.turned and kernel.panel is None and (kernel.vectors, kernel.tile_size) == (2, 6)
    dearer = TARGETS[1].tuned(asked_scalars_penalty=TUNING.prefetched_penalty)
    assert not fixed_kernel(convolution(1, 256, 1024, 14, window=1), dearer).turned


def test_tiles_of_packed_vectors_are_turned_where_others_would_pack_theirs_too() -> None:
    """Where the others load theirs where they lie, being turned has to gain more than it usually does; as where it is
    no better for the processor."""
    target = TARGETS[1].tuned(turned_penalty=1.0)
    (both, dear), (loaded, packed) = (
        [product_kernel(desc, t) for t in (target, other)]
        for desc, other in (
            (convolution(8, 512, 512, 7), TARGETS[1]),
            (convolution(8, 512, 32, 16, window=1), target.tuned(repacked_penalty=1.0)),
        )
    )
    assert both.turned and both.panel is not None and both.vector.name == "o"
    assert not dear.turned and dear.panel is not None
    assert not loaded.turned and loaded.panel is None
    assert packed.turned and packed.panel is not None


def test_registers_are_halved_where_whole_ones_are_too_wide() -> None:
    """For all axes, or for one that halves divide: whole ones along others cost more then. Where units are half as wide
    as registers also where only the last vector would be a half."""
    target, units = TARGETS[0], TARGETS[0].tuned(issued=1)
    assert product_kernel(gemm(9, 512, 11), target).lanes == 8
    assert product_kernel(gemm(512, 256, 8), target).lanes == 8
    rest = fixed_kernel(convolution(8, 64, 40, 7), target)
    assert rest.vector.size == rest.lanes == 8
    for columns, lanes in ((40, 8), (41, 16), (48, 16)):
        assert product_kernel(gemm(64, 256, columns), units).lanes == lanes
        assert product_kernel(gemm(64, 256, columns), target).lanes == 16


def test_registers_are_not_halved_where_rows_transpose_what_they_load() -> None:
    kernel = product_kernel(gemm(8, 512, 1000, trans_b=True), TARGETS[0].tuned(issued=1))
    assert kernel.turns_loads and kernel.lanes == 16


@pytest.mark.parametrize("target", TARGETS[1:], ids=["avx2", "neon"])
def test_narrow_registers_are_not_halved(target: CpuTarget) -> None:
    lanes = target.machine.vector_bytes // 4
    *_, statement = refined_definition(gemm(lanes - 1, 64, lanes - 1), target).statements
    assert isinstance(statement, Compute)
    assert schedule_contraction(statement, target) is None


def test_large_planes_of_several_images_are_packed_for_tiles_of_three_vectors() -> None:
    """Beside what comes from far each step loads few scalars. One image, few filters, planes that stay near, and
    processors without as many registers have the tiles that they had."""

    def choice_of(kernel: ContractionKernel) -> tuple[int, int, bool]:
        return kernel.vectors, kernel.tile_size, kernel.panel is not None

    assert choice_of(fixed_kernel(convolution(8, 256, 64, 56, 1))) == (3, 8, True)
    assert choice_of(fixed_kernel(convolution(8, 64, 64, 56, 1))) == (3, 8, True)
    nothing = replace(TUNING, far_scalar=0.0)
    for count, (size, filters, few) in enumerate(((56, 64, 0), (56, 40, 0), (14, 64, 0), (56, 64, 1))):
        target, images = TARGETS[few], 1 if count == 0 else 8
        desc = convolution(images, 64, filters, size, 1)
        plain = fixed_kernel(desc, replace(target, knobs=nothing))
        assert choice_of(fixed_kernel(desc, target)) == choice_of(plain)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="LLVM writes the host's code here")
def test_steps_of_sums_need_no_address_from_the_stack() -> None:
    """All points of a tile are constants away from one address, in loops of three axes too, which leave nothing out."""
    desc, target = convolution(8, 64, 64, 56), TARGETS[0].tuned(least_padding=1)
    kernel = product_kernel(desc, target)
    code = generate(refined_definition(desc, target), target, in_place=False)
    lines = [line for module in code.modules for line in assembly(module, target.machine).splitlines()]
    products = [number for number, line in enumerate(lines) if "vfmadd" in line]
    assert len(products) == kernel.tile_size * kernel.vectors, "one loop of all sums"
    label = max(number for number, line in enumerate(lines[: products[0]]) if line.startswith(".LBB"))
    step = lines[label : products[-1]]
    bases = [found[1] for line in step if (found := re.search(r"vbroadcastss\s.*\((%\w+)", line))]
    assert len(bases) == kernel.tile_size and len(set(bases)) == 1
    assert not any("%rsp" in line for line in step)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="LLVM writes the host's code here")
@pytest.mark.parametrize(("level", "size"), [("avx2", 56), ("avx2", 14), ("avx2", 7), ("avx512", 56)])
@pytest.mark.parametrize("window", [1, 3])
def test_sums_of_words_that_another_instruction_adds_up_stay_in_registers(level: str, size: int, window: int) -> None:
    """Products of 16 bits take a register before they meet their sums, where one has to be left for them; and LLVM adds
    up none of several steps, for which it would move sums to the stack."""
    target = CpuTarget(machine_of("x86_64-unknown-linux-gnu", level))
    desc = bytes_convolution(256, 64, size, window)
    code = generate(refined_definition(desc, target), target, in_place=False)
    lines = [line for module in code.modules for line in assembly(module, target.machine).splitlines()]
    labels = [number for number, line in enumerate(lines) if line.startswith(".LBB")]
    loops = [lines[first:last] for first, last in itertools.pairwise([*labels, len(lines)])]
    counts = [sum("vpmaddwd" in line for line in loop) for loop in loops]
    steps = loops[max(range(len(loops)), key=counts.__getitem__)]
    assert max(counts) >= 12
    assert not any(re.search(r"[xyz]mm\d+, .*%rsp|%rsp.*[xyz]mm\d", line) for line in steps if "vpmadd" not in line)
    assert sum("vpadd" in line for line in steps) >= max(counts)


@given(st.integers(1, 4000), st.integers(1, 64), st.integers(1, 80))
def test_blocks_are_even(size: int, step: int, wanted: int) -> None:
    block = even_block(size, step, TUNING.block_unevenness, wanted)
    count = -(-size // block)
    tiles, in_block = -(-size // step), -(-block // step)
    assert block == size or block % step == 0
    assert count >= min(wanted, tiles)
    assert in_block == 1 or in_block * count <= tiles * (1 + TUNING.block_unevenness)


# Channels, filters, and the width and height of an image: windows of one point.
POINTS = [
    (256, 1024, 14),
    (64, 256, 56),
    (256, 64, 56),
    (128, 512, 28),
    (512, 2048, 7),
    (1024, 256, 14),
    (512, 1000, 13),
]


@pytest.mark.parametrize(("channels", "filters", "size"), POINTS)
@pytest.mark.parametrize("threads", [2, 4])
def test_threads_have_equal_shares(channels: int, filters: int, size: int, threads: int) -> None:
    kernel = product_kernel(gemm(filters, channels, size * size))
    steps = {kernel.vector: kernel.strip, kernel.tile: kernel.tile_size}
    shares = [0] * threads
    for item in range(kernel.item_count):
        rest, tiles = item, 1
        spans = dict.fromkeys(kernel.loops, 0) | {axis: axis.size for axis in kernel.loops}
        counts = kernel.block_counts
        numbers = []
        for count in reversed(counts):
            rest, number = divmod(rest, count)
            numbers.append(number)
        for (axis, block), number in zip(kernel.blocks, reversed(numbers), strict=True):
            spans[axis] = min(block, spans[axis] - number * block)
        for axis, span in spans.items():
            tiles *= max(0, -(-span // steps.get(axis, 1)))
        shares[(item * threads + threads - 1) // kernel.item_count] += tiles
    assert max(shares) <= 1.15 * sum(shares) / threads


def test_sums_of_few_rows_wait_while_a_wide_matrix_is_read_in_long_runs() -> None:
    """Where each of its rows is on a page of its own, for one row too; not where there are so many rows that a copy of
    it pays, or where its rows are short."""
    one, few = product_kernel(gemm(1, 1000, 1100)), product_kernel(gemm(13, 1000, 1100))
    assert (one.steps_at_once, few.steps_at_once) == (8, 32)
    assert few.far_vectors and not one.far_vectors
    assert one.waiting_sizes[0] == 1 and few.waiting_sizes[0] % few.tile_size == 0 and few.waiting_sizes[0] >= 13
    assert not product_kernel(gemm(200, 1000, 1100)).steps_at_once
    assert not product_kernel(gemm(13, 1000, 200)).steps_at_once
    assert not product_kernel(gemm(13, 100, 1100)).steps_at_once
    first = refined_definition(gemm(1, 1000, 200), TARGETS[0]).statements[0]
    assert isinstance(first, Compute)
    assert schedule_contraction(first, TARGETS[0]) is None


def test_few_rows_ask_for_a_matrix_that_comes_from_memory() -> None:
    """Where a processor asks for runs beyond a size: as many steps ahead as wait at once."""
    size = 4 * 1000 * 1100
    assert not product_kernel(gemm(1, 1000, 1100), TARGETS[0].tuned(asked_runs_bytes=size)).far_vectors
    target = TARGETS[0].tuned(asked_runs_bytes=size - 1)
    kernel = product_kernel(gemm(1, 1000, 1100), target)
    (element,) = kernel.far_vectors
    asked = [node for node in nodes_of(kernel_nest(kernel, target).body) if isinstance(node, Prefetch)]
    ahead = kernel.steps_at_once * element.address.coefficient(kernel.last_step)
    places = [node.address.constant for node in asked if node.tensor is element.tensor]
    assert places and min(places) == element.address.constant + ahead


@pytest.mark.parametrize("rows", [1, 13, 33])
@pytest.mark.parametrize("asked", [0, 1 << 62])
def test_products_of_few_rows_by_wide_matrices(rows: int, asked: int) -> None:
    """Blocks of steps and columns that do not come out even, and rows of the last tile that two tiles have."""
    desc = gemm(rows, 1009 if rows == 1 else 173, 1061)
    arrays = (random_array(t, n, special=False) for n, t in enumerate((desc.a_tensor, desc.b_tensor)))
    tuning = replace(TUNING, far_penalty=9, packing=99, transposing=99)  # whatever this processor would choose
    tuning = tuning.but(asked_runs_bytes=asked)
    assert product_kernel(desc, host_processor(tuning=tuning)).steps_at_once
    run_single(desc, *arrays, None, tuning=tuning)


def test_few_sums_of_many_steps_wait_for_those_of_all_work_items() -> None:
    """Where their inputs are larger than a near cache, and what waits is not; a panel has the steps of a round."""
    deep, turned = product_kernel(gemm(64, 16384, 64)), product_kernel(gemm(64, 16384, 64, True))
    assert deep.by_rounds and turned.by_rounds and deep.waiting_sizes == (64, 64)
    assert deep.panel is None and turned.panel is not None and turned.panel_bytes < 1 << 18
    assert not product_kernel(gemm(64, 4096, 64)).by_rounds
    assert not product_kernel(gemm(200, 16384, 200)).by_rounds


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
def test_products_of_many_steps(trans_a: bool, trans_b: bool) -> None:
    """Steps that are left over are fewer than a square's, and done in the last round; tiles are moved back."""
    desc = gemm(61, 9223, 67, trans_b, trans_a)
    arrays = (random_array(t, n, special=False) for n, t in enumerate((desc.a_tensor, desc.b_tensor)))
    assert product_kernel(desc, TARGETS[0]).by_rounds
    run_single(desc, *arrays, None)


def test_tiles_have_few_rows_that_are_pages_apart() -> None:
    """More would fall into the same places of the nearest cache than it bears."""
    aliased, apart = product_kernel(gemm(16, 1024, 1000, True)), product_kernel(gemm(16, 1000, 1000, True))
    assert aliased.tile_size * aliased.row_count <= 2 * TUNING.aliased_rows < apart.tile_size * apart.row_count


def test_short_sums_are_stored_in_whole_rows() -> None:
    (columns, block), _ = product_kernel(gemm(1024, 16, 1024)).blocks
    assert block == columns.size == 1024
    (columns, block), _ = product_kernel(gemm(1024, 512, 1024)).blocks
    assert block < columns.size


def test_tiles_are_smaller_where_much_is_made_of_short_sums() -> None:
    """What is made of the sums of a smaller tile is hidden behind the sums of the next one."""

    def points(inner: int, activation: Any, hidden: int) -> int:
        desc = operators.Gemm(
            a_tensor=TensorDesc("float32", [1, 1, 3136, inner]),
            b_tensor=TensorDesc("float32", [1, 1, inner, 256]),
            output_tensor=TensorDesc("float32", [1, 1, 3136, 256]),
            trans_a="NONE",
            trans_b="NONE",
            alpha=1.0,
            beta=0.0,
            fused_activation=activation,
        )
        kernel = fixed_kernel(desc, TARGETS[0].tuned(hidden_results=hidden))
        return kernel.vectors * kernel.tile_size

    none, long = TUNING.hidden_results, operators.ActivationSigmoid()
    assert points(16, long, 160) < points(16, long, none)
    assert points(16, None, 160) == points(16, None, none)
    assert points(1024, long, 160) == points(1024, long, none)


def test_threads_have_parts_of_the_larger_factor_of_their_own() -> None:
    """All of whose sums they do, where the other one is small: work items in a row have the same part."""
    squeeze = product_kernel(convolution(1, 128, 16, 55, 1))
    assert squeeze.blocks[0] == (squeeze.vector, squeeze.strip)
    assert all(block == axis.size for axis, block in squeeze.blocks[1:])
    whole = replace(TARGETS[0], knobs=replace(TUNING, parted_times=1 << 30))
    assert product_kernel(convolution(1, 128, 16, 55, 1), whole).blocks[0][1] > squeeze.strip
    window = product_kernel(convolution(1, 16, 64, 55))
    first, *_ = window.blocks
    assert window.turned and first[0] in window.across and first[1] < first[0].size
    assert product_kernel(convolution(1, 512, 512, 7)).blocks[0][0] not in window.across  # the filter is the larger one
    short = (product_kernel(convolution(1, 3, 64, 112), target).block_counts for target in (TARGETS[0], whole))
    assert len(set(short)) == 1  # its results take more time than what it reads


@pytest.mark.parametrize("columns", [768, 3072])
def test_parts_of_the_larger_factor_are_cut_into_enough_items(columns: int) -> None:
    """However many of them are near at once: a thread that falls behind leaves some of its share to the others."""
    kernel = fixed_kernel(gemm(197, 768, columns))
    assert kernel.blocks[0] == (kernel.along[0], 1)
    assert TUNING.many_items <= kernel.item_count < 2 * TUNING.many_items


def test_few_rows_by_a_narrow_matrix_that_is_far_have_an_item_for_every_register() -> None:
    """Each reads a part of the matrix of its own; of more columns, or more rows, there are items enough anyway."""
    lanes, many = TARGETS[0].machine.vector_bytes // 4, TUNING.many_threads
    few = fixed_kernel(gemm(8, 9216, 8 * lanes))
    assert few.vectors == 1 and few.item_count == 8 and few.tile_size * few.row_count == 8
    for wider in (gemm(8, 9216, 8 * lanes * many), gemm(64, 9216, 8 * lanes), gemm(8, 64, 8 * lanes)):
        assert fixed_kernel(wider).vectors > 1


def test_small_products_are_for_one_thread() -> None:
    assert product_kernel(gemm(16, 4, 16)).serial
