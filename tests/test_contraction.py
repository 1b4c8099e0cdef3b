"""Sums of products in tiles of registers: every choice of loops gives the interpreter's bits."""

from __future__ import annotations

import itertools
import math
import platform
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import Array, assert_same_values, guarded_buffer, random_array, random_values, run_single, seeds
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from nest_running import HOSTS, OTHERS, check_nests, contents_of
from properties import examples
from test_kernels import DATA_TYPES, LEVELS

import opendml as dml
from opendml import operators
from opendml.description.enums import ConvolutionDirection, ConvolutionMode, MatrixTransform
from opendml.description.tensor import TensorDesc
from opendml.expression.affine import Element
from opendml.expression.element_types import F16, F32, F64, ElementType
from opendml.expression.folds import sum_of_products
from opendml.expression.interpreter import NUMPY_TYPES, interpret
from opendml.expression.ir import Axis, Tensor, cast, index, indices, load, select
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition, Store
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.llvm.host import Machine, machine_of
from opendml.llvm.native import STRAIGHT, assembly
from opendml.loops.nest import At, Branch, Items, Leaf, Loop, Points, Prefetch, nodes_of
from opendml.loops.nest_interpreter import run_nest
from opendml.loops.nest_printer import format_nest
from opendml.programs.binding import Binding
from opendml.programs.compilation import compile_definition
from opendml.programs.device import compile_operator
from opendml.targets.cpu.code.modules import Support
from opendml.targets.cpu.code.program_code import program_code
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.contraction import ContractionKernel, schedule_contraction
from opendml.targets.cpu.contractions import tiles as choice
from opendml.targets.cpu.contractions.blocks import even_block
from opendml.targets.cpu.kernel_description import describe_kernel
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.processor import Processor, host_processor
from opendml.targets.cpu.refine.refining import refine, refined_definition, refining
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING, Tuning

TARGETS = (
    CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512")),
    CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx2")),
    CpuTarget(machine_of("aarch64-unknown-linux-gnu", "baseline")),
)


@pytest.fixture(autouse=True, scope="module")
def no_cache() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENDML_CACHE", "0")
        yield


def laid_out(
    draw: st.DrawFn, name: str, type: ElementType, sizes: Sequence[int], role: Any, order: Sequence[int] | None = None
) -> Tensor:
    """A tensor whose dimensions lie in any order in memory, some with gaps."""
    strides = [0] * len(sizes)
    step = draw(st.sampled_from([1, 1, 1, 2]))
    for dimension in draw(st.permutations(range(len(sizes)))) if order is None else order:
        strides[dimension] = step
        step = step * sizes[dimension] + draw(st.sampled_from([0, 0, 3]))
    return Tensor(name, type, tuple(sizes), tuple(strides), role)


@st.composite
def products(draw: st.DrawFn, largest: int = 70) -> Definition:
    """``y[b, m, n, p] = f(sum over k, l of a[b, m, k, l] * b[b, n, p, k, l])`` of tensors in any layout."""

    def size(*sizes: int) -> int:
        return draw(st.sampled_from([n for n in sizes if n <= largest]))

    type = draw(st.sampled_from([F32, F32, F32, F16, F64]))
    computed = F32 if type is F16 else type
    batch, rows = size(1, 2), size(1, 3, 7, 13, 14, 17, 29)
    outer, columns = size(1, 1, 3), size(1, 4, 15, 16, 17, 33, 50, 70)
    inner, taps = size(1, 2, 5, 16, 17, 19, 37), size(1, 1, 3)
    b, m, n, p = axes = [Axis(*pair) for pair in zip("bmnp", (batch, rows, outer, columns), strict=True)]
    k, t = folded = Axis("k", inner), Axis("t", taps)
    left = laid_out(draw, "left", type, [batch, rows, inner, taps], "input")
    right = laid_out(draw, "right", type, [batch, outer, columns, inner, taps], "input")
    bias = laid_out(draw, "bias", computed, [columns], "input")
    target = draw(st.sampled_from([type, computed]))
    output = laid_out(draw, "output", target, [batch, rows, outer, columns], "output")
    x = cast(load(left, indices([b, m, k, t])), computed)
    y = cast(load(right, indices([b, n, p, k, t])), computed)
    total = sum_of_products(folded, *((x, y) if draw(st.booleans()) else (y, x)))
    if draw(st.booleans()):
        total = total + load(bias, [index(p)])
        total = select(total > 0, total, total * 0.25)
    store = Store(output, indices(axes), cast(total, target))
    return Definition((left, right, bias), (output,), (Compute(tuple(axes), (store,)),))


def waiting(near_bytes: int) -> dict[str, Any]:
    """Knobs by which sums wait in memory after a few steps, wherever these are."""
    return (
        {
            "page_bytes": 4,
            "steps_at_once": 4,
            "steps_of_few_rows": 3,
            "fewest_interrupted": 1,
            "run_bytes": (16, 64),
            "prefetched_bytes": 4,
            "steps_of_deep_sums": 4,
        }
        if near_bytes == 1
        else {}
    )


def any_tile(seed: int) -> Any:
    """A cost that prefers any choice of loops."""

    def cost(_: Any, tile: Any) -> float:
        return zlib.crc32(f"{seed} {tile}".encode())

    return cost


@examples(60, suppress_health_check=list(HealthCheck))
@given(products(), st.sampled_from(LEVELS), st.sampled_from([1, 3000, 1 << 20]), st.sampled_from([1, 6, 64]), seeds)
def test_every_choice_of_loops_gives_the_same_bits(
    definition: Definition, level: str, near_bytes: int, items: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    tensors = [t for t in (*definition.inputs, *definition.outputs) if t is not None]
    contents = [random_values(data_type(t), t.extent, generator, special=False) for t in tensors]
    expected = dict(zip(tensors, (c.copy() for c in contents), strict=True))
    interpret(definition, expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice._Choices, "cost", any_tile(seed))
        bindings = [Binding(t.name, TensorDesc(data_type(t), [t.extent])) for t in tensors]
        program = compile_definition(
            definition,
            inputs=bindings[:-1],
            outputs=bindings[-1:],
            in_place=False,
            target=host_processor(level).tuned(
                serial_work=0,
                items=items,
                vector_side_bytes=near_bytes,
                far_tile_bytes=near_bytes,
                near_strip_bytes=near_bytes,
                **waiting(near_bytes),
            ),
            thread_count=5,
        )
    for threads, at_end in ((1, True), (2, False), (5, True)):
        buffers = [guarded(content, at_end) for content in contents]
        program.with_thread_count(threads).bind(buffers[:-1], buffers[-1:])()
        for tensor, buffer in zip(tensors, buffers, strict=True):
            assert_same_values(buffer, expected[tensor])


def data_type(tensor: Tensor) -> Any:
    return DATA_TYPES[NUMPY_TYPES[tensor.type.name]]


def guarded(content: Array, at_end: bool) -> Array:
    buffer = guarded_buffer(content.size, content.dtype, at_end)
    buffer[...] = content
    return buffer


# Operators -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("data_type", ["float32", "float16"])
def test_products_larger_than_blocks(data_type: str, trans: tuple[bool, bool]) -> None:
    rows, inner, columns = 45, 37, 130
    a = TensorDesc(data_type, (1, 2, *((inner, rows) if trans[0] else (rows, inner))))
    b = TensorDesc(data_type, (1, 2, *((columns, inner) if trans[1] else (inner, columns))))
    desc = operators.Gemm(
        a_tensor=a,
        b_tensor=b,
        output_tensor=TensorDesc(data_type, [1, 2, rows, columns]),
        trans_a=MatrixTransform(trans[0]),
        trans_b=MatrixTransform(trans[1]),
        alpha=1.0,
        beta=0.0,
        fused_activation=operators.ActivationRelu(),
    )
    run_single(desc, random_array(a, 1, special=False), random_array(b, 2, special=False), None)


@pytest.mark.sampled
@pytest.mark.parametrize("size", [7, 14, 20])
@pytest.mark.parametrize(("channels", "filters", "groups"), [(5, 70, 1), (4, 66, 2), (3, 16, 1), (40, 40, 40)])
@pytest.mark.parametrize(("window", "stride", "dilation"), [(3, 1, 1), (3, 2, 1), (1, 2, 1), (2, 1, 2), (1, 1, 1)])
def test_convolutions_with_panels_and_columns(
    size: int, channels: int, filters: int, groups: int, window: int, stride: int, dilation: int
) -> None:
    pad = (window - 1) * dilation // 2
    result = (size + 2 * pad - (window - 1) * dilation - 1) // stride + 1
    x = TensorDesc("float32", [2, channels, size, size])
    w = TensorDesc("float32", [filters, channels // groups, window, window])
    bias = TensorDesc("float32", [1, filters, 1, 1])
    desc = operators.Convolution(
        input_tensor=x,
        filter_tensor=w,
        bias_tensor=bias,
        output_tensor=TensorDesc("float32", [2, filters, result, result]),
        mode=ConvolutionMode.CROSS_CORRELATION,
        direction=ConvolutionDirection.FORWARD,
        strides=(stride, stride),
        dilations=(dilation, dilation),
        start_padding=(pad, pad),
        end_padding=(pad, pad),
        output_padding=(0, 0),
        group_count=groups,
    )
    arrays = (random_array(t, n, special=False) for n, t in enumerate((x, w, bias)))
    run_single(desc, *arrays, tuning=replace(TUNING, windows_worth_panels=0))


@examples(40, suppress_health_check=list(HealthCheck))
@given(products(17), st.sampled_from(TARGETS), st.sampled_from([1, 3000]), st.sampled_from([1, 6]), seeds)
def test_nests_of_every_choice_of_loops(
    definition: Definition, target: CpuTarget, near_bytes: int, items: int, seed: int
) -> None:
    """For processors that this one is not, and their threads in several orders."""
    generator = np.random.default_rng(seed)
    tensors = [t for t in (*definition.inputs, *definition.outputs) if t is not None]
    contents = {t: random_values(data_type(t), t.extent, generator, special=False) for t in tensors}
    expected = {tensor: content.copy() for tensor, content in contents.items()}
    interpret(definition, expected)
    (statement,) = definition.statements
    assert isinstance(statement, Compute)
    knobs = dict.fromkeys(("vector_side_bytes", "far_tile_bytes", "near_strip_bytes"), near_bytes)
    target = target.tuned(serial_work=0, items=items, **knobs, **waiting(near_bytes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice._Choices, "cost", any_tile(seed))
        kernel = schedule_contraction(statement, target)
    assume(kernel is not None)
    assert kernel is not None
    nest = kernel_nest(kernel, target)
    assert isinstance(format_nest(nest), str)
    for order in ((0,), (2, 0, 1)):
        found = {tensor: content.copy() for tensor, content in contents.items()}
        run_nest(nest, found, order)
        for tensor, buffer in found.items():
            assert_same_values(buffer, expected[tensor])


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
    }
    target = Processor(machine, replace(TUNING, **knobs))
    definition = convolution(1, channels, filters, size, window, stride).define()
    refined = refine(definition, target, [t for t in definition.inputs[1:2] if t is not None])
    check_nests(refined, target, contents_of(refined, 3), (2, 0, 1))


# What schedules promise ----------------------------------------------------------------------------------------------


def product_kernel(desc: Any, target: CpuTarget = TARGETS[0]) -> ContractionKernel:
    *_, statement = refined_definition(desc, target).statements
    assert isinstance(statement, Compute)
    kernel = schedule_contraction(statement, target)
    assert kernel is not None
    return kernel


def fixed_kernel(desc: operators.Convolution, target: CpuTarget = TARGETS[0]) -> ContractionKernel:
    """Of a convolution whose filter is fixed: its panels are made at initialisation."""
    definition = desc.define()
    weights = definition.inputs[1]
    assert weights is not None
    *_, statement = refine(definition, target, (weights,)).statements
    assert isinstance(statement, Compute)
    kernel = schedule_contraction(statement, target)
    assert kernel is not None
    return kernel


def gemm(rows: int, inner: int, columns: int, trans_b: bool = False, trans_a: bool = False) -> operators.Gemm:
    return operators.Gemm(
        a_tensor=TensorDesc("float32", [1, 1, *((inner, rows) if trans_a else (rows, inner))]),
        b_tensor=TensorDesc("float32", [1, 1, *((columns, inner) if trans_b else (inner, columns))]),
        output_tensor=TensorDesc("float32", [1, 1, rows, columns]),
        trans_a=MatrixTransform(trans_a),
        trans_b=MatrixTransform(trans_b),
        alpha=1.0,
        beta=0.0,
    )


def convolution(
    batch: int, channels: int, filters: int, size: int, window: int = 3, stride: int = 1
) -> operators.Convolution:
    """Of square images that keep their size, divided by the stride."""
    pad, result = window // 2, (size - 1) // stride + 1
    return operators.Convolution(
        input_tensor=TensorDesc("float32", [batch, channels, size, size]),
        filter_tensor=TensorDesc("float32", [filters, channels, window, window]),
        output_tensor=TensorDesc("float32", [batch, filters, result, result]),
        mode=ConvolutionMode.CROSS_CORRELATION,
        direction=ConvolutionDirection.FORWARD,
        strides=(stride, stride),
        dilations=(1, 1),
        start_padding=(pad, pad),
        end_padding=(pad, pad),
        output_padding=(0, 0),
        group_count=1,
    )


@pytest.mark.parametrize("target", TARGETS)
def test_tiles_fit_into_the_registers(target: CpuTarget) -> None:
    for desc in (gemm(512, 512, 512), gemm(100, 300, 20), gemm(33, 5, 64, True), convolution(4, 32, 64, 7)):
        kernel = product_kernel(desc, target)
        assert kernel.vectors * (kernel.tile_size * kernel.row_count + 1) < target.machine.vector_registers
        assert kernel.lanes * 4 == target.machine.vector_bytes


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


def test_points_left_over_are_a_narrower_tile_where_there_are_few_registers() -> None:
    """Tiles without any left would have eight sums, as many as wait for one another; with many registers they have
    more."""
    many, few = (fixed_kernel(convolution(1, 64, 64, 32), target) for target in TARGETS[:2])
    assert many.rest is None and many.tile_size * many.vectors > 16
    assert few.rest is not None and (few.tile_size, few.vectors) == (6, 2)
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
        plain = fixed_kernel(desc, replace(target, tuning=nothing))
        assert choice_of(fixed_kernel(desc, target)) == choice_of(plain)


def test_lines_to_be_stored_are_asked_for_in_parts() -> None:
    """As many as a processor can wait for, at each step of the outermost loop of the sums."""
    nest = kernel_nest(product_kernel(convolution(1, 64, 64, 28)), TARGETS[0])
    text = [line.strip() for line in format_nest(nest).splitlines()]
    (asked,) = (number for number, line in enumerate(text) if line.startswith("prefetch OutputTensor"))
    outer, inner = (text.index(f"for {axis} in 0..{n}, carrying sum (28 of each)") for axis, n in (("c", 64), ("t", 3)))
    assert outer < asked < inner
    assert "unrolled o + 0..1" in text[outer:asked]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="LLVM writes the host's code here")
def test_steps_of_sums_need_no_address_from_the_stack() -> None:
    """All points of a tile are constants away from one address, in loops of three axes too."""
    desc, target = convolution(8, 64, 64, 56), TARGETS[0]
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


def test_each_of_many_threads_copies_a_part_of_the_panel() -> None:
    """Unless the other side is large, which would be read for every part."""

    def parts(rows: int, threads: int) -> int:
        kernel = product_kernel(gemm(rows, 128, 784), replace(TARGETS[0], tuning=tuned(threads)))
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


def test_rows_of_the_next_tile_are_asked_for_while_they_are_short() -> None:
    assert product_kernel(gemm(512, 256, 512)).next_tile
    assert not product_kernel(gemm(64, 256, 512)).next_tile  # in the cache anyway
    assert product_kernel(gemm(512, 4096, 512)).next_tile  # longer than a page, from memory
    assert not product_kernel(gemm(128, 4096, 512)).next_tile  # longer than a page, from the last cache
    assert not product_kernel(gemm(512, 4112, 512)).next_tile


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


@pytest.mark.parametrize(("columns", "steps"), [(1024, TUNING.copied_steps_ahead), (1040, TUNING.steps_ahead)])
def test_what_tiles_copy_is_asked_for_further_ahead_where_rows_are_not_whole_pages(columns: int, steps: int) -> None:
    kernel = product_kernel(gemm(128, 300, columns))
    assert kernel.has_filling_tiles and kernel.panel is not None
    assert isinstance(kernel.panel.source, Element)
    asked = {
        n.address.constant - kernel.panel.source.address.constant
        for n in nodes_of(kernel_nest(kernel, TARGETS[0]).body)
        if isinstance(n, Prefetch) and n.tensor is kernel.panel.source.tensor
    }
    assert asked == {steps * columns + 16 * number for number in range(kernel.vectors)}


def test_scalars_that_are_asked_for_cost_little_beside_many_sums() -> None:
    """Planes of 13x13, whose rows of 26 sums leave nothing over: no copy is worth it."""
    kernel = fixed_kernel(convolution(1, 512, 1024, 13, window=1))
    assert kernel.turned and kernel.panel is None
    assert (kernel.vectors, kernel.tile_size) == (2, 13)


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


def test_vectors_of_long_strips_are_asked_for_ahead() -> None:
    """Of panels and of weights in panels alike, unless all steps of a strip stay in the nearest cache."""
    long = product_kernel(gemm(512, 512, 512))
    short = product_kernel(gemm(512, 512, 512), replace(TARGETS[0], tuning=replace(TUNING, near_strip_bytes=1 << 20)))
    assert long.panel is not None and long.far_vectors == (long.panel.element,)
    assert short.panel is not None and short.far_vectors == ()
    assert product_kernel(convolution(1, 64, 64, 28)).far_vectors
    copies = 2  # of the first tiles of a panel, and of others: items have one tile each
    assert format_nest(kernel_nest(long, TARGETS[0])).count("prefetch panel@") == copies * long.vectors


def test_vectors_of_short_strips_are_asked_for_a_strip_ahead() -> None:
    """Some steps ahead of the last steps of a channel there is another image, and nothing that is wanted soon."""
    short, long = (product_kernel(convolution(1, channels, 16, 112, window=1)) for channels in (32, 200))
    assert short.by_strips and not long.by_strips
    (vectors,) = short.far_vectors
    nodes = nodes_of(kernel_nest(short, TARGETS[0]).body)
    asked = {
        n.address.constant for n in nodes if isinstance(n, Prefetch) and n.tensor is vectors.tensor and n.cache == 1
    }
    assert asked == {vectors.address.constant + short.strip + 16 * number for number in range(short.vectors)}


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


@pytest.mark.parametrize("rows", [1, 13, 33])
def test_products_of_few_rows_by_wide_matrices(rows: int) -> None:
    """Blocks of steps and columns that do not come out even, and rows of the last tile that two tiles have."""
    desc = gemm(rows, 1009 if rows == 1 else 173, 1061)
    arrays = (random_array(t, n, special=False) for n, t in enumerate((desc.a_tensor, desc.b_tensor)))
    assert product_kernel(desc, host_processor()).steps_at_once
    run_single(desc, *arrays, None)


def test_products_of_few_rows_whose_tiles_fill_a_panel() -> None:
    """Whatever the host's registers: rows of the last tile that two tiles have, and a narrower last strip."""
    desc = gemm(13, 140, 1024)
    arrays = (random_array(t, n, special=False) for n, t in enumerate((desc.a_tensor, desc.b_tensor)))
    target = host_processor().tuned(filling=replace(TUNING.filling, registers=0, steps=0, share=0.0))
    assert product_kernel(desc, target).has_filling_tiles
    run_single(desc, *arrays, None, tuning=target.tuning)


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


def test_sums_of_products_say_that_they_are_straight() -> None:
    """And other kernels do not."""
    target = host_processor()
    text = "\n".join(target.generate(refined_definition(gemm(64, 64, 64, True), target), in_place=False).modules)
    heads = re.findall(r"^define .* @kernel\d+\(.*", text, re.MULTILINE)
    assert sum(STRAIGHT in head for head in heads) == 1
    a = gemm(64, 64, 64).a_tensor
    copied = operators.ElementWiseIdentity(input_tensor=a, output_tensor=a).define()
    text = "\n".join(target.generate(copied, in_place=False).modules)
    assert "@kernel" in text
    assert STRAIGHT not in text


def test_short_sums_are_stored_in_whole_rows() -> None:
    (columns, block), _ = product_kernel(gemm(1024, 16, 1024)).blocks
    assert block == columns.size == 1024
    (columns, block), _ = product_kernel(gemm(1024, 512, 1024)).blocks
    assert block < columns.size


def test_tiles_ask_for_the_next_block_of_weights_together() -> None:
    """Each for its part of every panel of it: all lines between the first and the last."""
    graph = dml.Graph()
    x = graph.input("float32", [1, 1, 128, 2048])
    desc = graph.describe(dml.gemm(x, graph.constant(np.ones((1, 1, 2048, 768), np.float32))))
    (statement,) = divide_and_fuse(join(desc, refining(TARGETS[0])), costs=TARGETS[0].costs).execution.statements
    assert isinstance(statement, Compute)
    kernel = schedule_contraction(statement, TARGETS[0])
    assert kernel is not None and kernel.panel is None
    (e,), (block, panels), (step,) = kernel.next_block, kernel.blocks[0], kernel.fold.axes
    assert panels < block.size and kernel.loops == (kernel.tile, block, kernel.vector)
    panel = e.address.coefficient(block)
    assert panel == 2048 * kernel.strip
    first = e.address.constant - panels * panel
    begins = [first + e.address.coefficient(kernel.tile) * row for row in range(0, 128, kernel.tile_size)]
    ends = [begin + e.address.coefficient(step) * step.size for begin in begins]
    assert begins[0] == 0 and ends[-1] >= panel
    assert all(end >= begin for end, begin in zip(ends, begins[1:], strict=False))
    assert 0 < e.address.coefficient(step) <= 16  # no line is left out
    assert not product_kernel(gemm(128, 2048, 768)).next_block


@pytest.mark.parametrize(
    ("channels", "filters", "size", "window"), [(256, 1024, 14, 1), (1024, 256, 14, 1), (256, 256, 14, 3)]
)
def test_each_tile_asks_for_its_part_of_the_next_panel(channels: int, filters: int, size: int, window: int) -> None:
    """All tiles of a strip together for all of its lines, and for hardly any behind them."""
    kernel = fixed_kernel(convolution(1, channels, filters, size, window))
    assert kernel.keeps_tiles and kernel.vector.size == kernel.strip and kernel.panel is None
    (e,) = kernel.next_block
    run, line = kernel.steps * kernel.strip, TARGETS[0].machine.cache_line // 4
    tiles = [0]
    for axis in kernel.across:
        points = (kernel.row_count if axis is kernel.row else 1) * (kernel.tile_size if axis is kernel.tile else 1)
        moves = (e.address.coefficient(axis) * n for n in range(0, axis.size, points))
        tiles = [tile + move for move, tile in itertools.product(moves, tiles)]
    steps = [0]
    for axis in kernel.fold.axes:
        steps = [step + e.address.coefficient(axis) * n for step, n in itertools.product(steps, range(axis.size))]
    asked = {(e.address.constant + tile + step - run) // line for tile in tiles for step in steps}
    assert asked >= set(range(run // line)) and min(asked) == 0
    assert len(asked) <= 2 * run // line
    assert any(e.address.coefficient(axis) == run for axis in kernel.along if axis is not kernel.vector)


def test_small_filters_and_those_with_wider_panels_are_not_asked_for_by_panel() -> None:
    """They are near anyway, or their strips do not follow one another."""
    assert not fixed_kernel(convolution(1, 64, 64, 56)).next_block
    wider = replace(TARGETS[0], tuning=replace(TUNING, filter_panel_registers=4))
    assert not fixed_kernel(convolution(1, 256, 1024, 14, 1), wider).next_block


def test_lines_of_the_results_are_asked_for_between_the_steps() -> None:
    """A point's every few steps, of sums that have steps enough; else all of them before the first."""
    kernel = fixed_kernel(convolution(1, 256, 1024, 14, 1))
    nest = kernel_nest(kernel, TARGETS[0])
    loops = [node for node in nodes_of(nest.body) if isinstance(node, Loop)]
    stored = [node for node in nodes_of(nest.body) if isinstance(node, Prefetch) and node.is_stored]
    (asking,) = (node for node in loops if node.carried and any(n in stored for n in nodes_of(node.body)))
    assert asking.step * kernel.strip <= TUNING.asking_part * kernel.steps < (asking.step + 1) * kernel.strip
    assert [node.step for node in loops if node.carried] == [asking.step, 1]
    before = kernel_nest(kernel, replace(TARGETS[0], tuning=replace(TUNING, asking_part=0.0)))
    assert [n.step for n in nodes_of(before.body) if isinstance(n, Loop) and n.carried] == [1]


def test_loops_between_which_lines_are_asked_for_have_some_steps() -> None:
    """Of short sums those of several points are asked for at once, so that all are behind a part of the steps."""
    kernel = product_kernel(gemm(64, 64, 64, trans_a=True, trans_b=True))
    assert kernel.turned
    nodes = [*nodes_of(kernel_nest(kernel, TARGETS[0]).body)]
    (asking,) = (node for node in nodes if isinstance(node, Loop) and node.carried and node.step > 1)
    assert asking.step == TUNING.fewest_asking_steps
    asked, *_ = asking.body
    assert isinstance(asked, At)
    (points,) = asked.body
    assert isinstance(points, Points)
    rounds = int(TUNING.asking_part * kernel.steps) // asking.step
    assert (points.count - 1) * rounds < kernel.strip <= points.count * rounds


def test_threads_have_parts_of_the_larger_factor_of_their_own() -> None:
    """All of whose sums they do, where the other one is small: work items in a row have the same part."""
    squeeze = product_kernel(convolution(1, 128, 16, 55, 1))
    assert squeeze.blocks[0] == (squeeze.vector, squeeze.strip)
    assert all(block == axis.size for axis, block in squeeze.blocks[1:])
    whole = replace(TARGETS[0], tuning=replace(TUNING, parted_times=1 << 30))
    assert product_kernel(convolution(1, 128, 16, 55, 1), whole).blocks[0][1] > squeeze.strip
    window = product_kernel(convolution(1, 16, 64, 55))
    first, *_ = window.blocks
    assert window.turned and first[0] in window.across and first[1] < first[0].size
    assert product_kernel(convolution(1, 512, 512, 7)).blocks[0][0] not in window.across  # the filter is the larger one
    short = (product_kernel(convolution(1, 3, 64, 112), target).block_counts for target in (TARGETS[0], whole))
    assert len(set(short)) == 1  # its results take more time than what it reads


def test_tiles_ask_for_the_next_strip_where_few_of_them_read_it() -> None:
    """For all lines that this strip does not end in, wherever in a line strips begin."""
    squeeze = product_kernel(convolution(1, 128, 16, 55, 1))
    (e,) = squeeze.next_strip
    assert e in set(walk(squeeze.fold)) and not squeeze.next_block
    nest = format_nest(kernel_nest(squeeze, TARGETS[0]))
    asked = {int(number) for number in re.findall(r"prefetch \S+@\(3025\*\w+ \+ \w+ \+ (\d+)\) to cache 2", nest)}
    line = TARGETS[0].machine.cache_line // 4
    assert asked >= {squeeze.strip - 1 + line * (number + 1) for number in range(squeeze.strip // line)}
    many = product_kernel(convolution(1, 64, 256, 56, 1))  # tiles read it, and each step is far from the one before
    assert not many.next_strip and not many.next_block
    assert not product_kernel(convolution(1, 16, 16, 28, 1)).next_strip  # in the cache anyway


def test_a_transposed_right_matrix_is_packed_along_its_rows() -> None:
    kernel = product_kernel(gemm(256, 256, 256, True))
    assert kernel.panel is not None and kernel.panel.transposed is kernel.fold.axes[0]


def test_small_products_are_for_one_thread() -> None:
    assert product_kernel(gemm(16, 4, 16)).serial


def test_other_folds_are_left_alone() -> None:
    x = TensorDesc("float32", [8, 8])
    desc = operators.ElementWiseAdd(a_tensor=x, b_tensor=x, output_tensor=x)
    (statement,) = desc.define().statements
    assert isinstance(statement, Compute)
    assert schedule_contraction(statement, TARGETS[0]) is None


def test_threads_have_scratch_memory_of_their_own() -> None:
    desc = gemm(256, 256, 256)
    code = program_code(refined_definition(desc, TARGETS[0]), TARGETS[0], Support("", "", {}))
    (kernel,) = code.kernels
    assert isinstance(kernel, ContractionKernel)
    assert code.requirements.scratch_size >= kernel.panel_bytes > 0
    program = compile_operator(desc, thread_count=3)
    assert program.temporary_size == 3 * program.with_thread_count(1).temporary_size > 0
    assert math.prod(kernel.block_counts) == kernel.item_count


def test_code_is_the_same_each_time() -> None:
    """It does not depend on where objects lie in memory: the same text is what the cache finds again."""

    def text() -> tuple[str, ...]:
        graph = dml.Graph()
        a, b, *others = (graph.input("float32", [200, 200]) for _ in range(6))
        joined = join(graph.describe(sum(others, dml.gemm(a, b))), refining(host_processor()))
        return generate(divide_and_fuse(joined).execution, host_processor(), in_place=False).modules

    first = text()
    assert any("@llvm.prefetch" in module for module in first)
    assert all(text() == first for _ in range(4))
