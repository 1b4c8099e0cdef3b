"""Sums of products in tiles of registers: every choice of loops gives the interpreter's bits."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contraction_kernels import TARGETS, gemm
from execution import Array, assert_same_values, guarded_buffer, random_array, random_values, run_single, seeds
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from properties import examples
from test_kernels import DATA_TYPES, LEVELS

import opendml as dml
from opendml import operators
from opendml.description.enums import ConvolutionDirection, ConvolutionMode, MatrixTransform
from opendml.description.tensor import TensorDesc
from opendml.expression.element_types import F16, F32, F64, ElementType
from opendml.expression.folds import sum_of_products
from opendml.expression.interpreter import NUMPY_TYPES, interpret
from opendml.expression.ir import Axis, Tensor, cast, index, indices, load, select
from opendml.expression.statements import Compute, Definition, Store
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.llvm.native import STRAIGHT
from opendml.loops.nest_interpreter import run_nest
from opendml.loops.nest_printer import format_nest
from opendml.programs.binding import Binding
from opendml.programs.compilation import compile_definition
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.contraction import schedule_contraction
from opendml.targets.cpu.contractions import tiles as choice
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.processor import host_processor
from opendml.targets.cpu.refine.refining import refined_definition, refining
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING

pytestmark = pytest.mark.usefixtures("no_cache")


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


def redone(seed: int) -> dict[str, Any]:
    """Knobs by which rows and strips that are left are done with others once more wherever that can be, or nowhere;
    by which narrower tiles are few, or none are; by which all results are stored by a loop, or long ones; and by which
    tiles wait for one another, if their sums have several axes, or do not."""
    return {
        "redone_work": seed % 2 << 40,
        "redone_part": 8,
        "fewest_redone": 1,
        "hardly_redone": 8 if seed // 2 % 3 == 0 else -1,
        "little_share": 1 if seed // 6 % 2 else 1 / 8,
        "long_results": 1 if seed // 12 % 2 else 12,
        "waiting_tiles_bytes": 0 if seed % 5 < 2 else 1 << 60,
        "fewest_waiting_tiles": 1,
        "part_bytes": 1 << seed % 11,
    }


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
                **redone(seed),
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
    even = {"shares": (1, 5, 16)[seed % 3], "worth_uneven": 0.0, "item_overhead": 0}
    target = target.tuned(serial_work=0, items=items, **even, **knobs, **waiting(near_bytes), **redone(seed))
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


def test_other_folds_are_left_alone() -> None:
    x = TensorDesc("float32", [8, 8])
    desc = operators.ElementWiseAdd(a_tensor=x, b_tensor=x, output_tensor=x)
    (statement,) = desc.define().statements
    assert isinstance(statement, Compute)
    assert schedule_contraction(statement, TARGETS[0]) is None


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
