"""Numbers that are rounded, moved and clamped to integers of 8 bits, and widened again: every number that may go wrong,
compiled and as NumPy does it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from execution import Array, assert_identical
from test_refine_words import target_of

import opendml as dml
from opendml.expression.element_types import F32
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.constant_bounds import BOUNDED_BYTES, bound_of_constant
from opendml.graph.joining import join
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import host_target
from opendml.targets.cpu.tuning import TUNING

HALVES: Final = np.arange(-1100, 1100, dtype=np.float32) / 2
NUMBERS: Final = np.concatenate(
    [
        HALVES,
        np.nextafter(HALVES, np.float32(np.inf)),
        np.nextafter(HALVES, np.float32(-np.inf)),
        *(sign * np.float32(2.0) ** np.arange(-149, 128, dtype=np.float32) for sign in (1, -1)),
        *(np.float32(sign * (1 << 23)) + HALVES for sign in (1, -1)),
        *(np.float32(sign * (3 << 22)) + HALVES for sign in (1, -1)),
        np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], np.float32),
    ]
).astype(np.float32)
"""Halves, where rounding turns, and their neighbours; powers of two; where numbers stop having digits behind the
point."""

POINTS: Final = [("uint8", 0), ("uint8", 1), ("uint8", 127), ("uint8", 255), ("int8", 0), ("int8", -128), ("int8", 77)]


def float32(number: float) -> bytes:
    return np.float32(number).tobytes()


def integers(zero: int, type: str) -> Array:
    limits = np.iinfo(type)
    moved = np.rint(NUMBERS) + np.float32(zero)
    return np.where(np.isnan(moved), np.float32(0), np.clip(moved, limits.min, limits.max)).astype(type)


@pytest.mark.parametrize("count", [1, 5, NUMBERS.size])
@pytest.mark.parametrize(("type", "zero"), POINTS)
def test_integers(type: str, zero: int, count: int) -> None:
    """A zero point and a scale that are constants are part of the code."""
    graph = dml.Graph()
    x = graph.input("float32", [count])
    made = dml.quantize_linear(x, np.float32(1), np.array([zero], type))
    program = graph.compile(made)
    for start in range(0, NUMBERS.size - count + 1, max(count, NUMBERS.size // 50)):
        part = slice(start, start + count)
        assert_identical(np.asarray(program(NUMBERS[part].copy())), integers(zero, type)[part])


@pytest.mark.parametrize(("type", "zero"), POINTS)
@pytest.mark.parametrize("other", [0, 3])
def test_numbers(type: str, zero: int, other: int) -> None:
    """Widened at once, less the zero point or another number: no integer is ever made."""
    graph = dml.Graph()
    x = graph.input("float32", [NUMBERS.size])
    made = dml.quantize_linear(x, np.float32(1), np.array([zero], type))
    found = dml.dequantize_linear(made, np.float32(0.5), np.array([zero + other if zero + other < 128 else zero], type))
    expected = (integers(zero, type).astype(np.float32) - (zero + other if zero + other < 128 else zero)) * 0.5
    assert_identical(np.asarray(graph.compile(found)(NUMBERS)), expected.astype(np.float32))


@pytest.mark.parametrize("is_widened", [False, True])
@pytest.mark.parametrize(("type", "zero"), POINTS)
def test_no_instruction_rounds(type: str, zero: int, is_widened: bool) -> None:
    """An addition does."""
    graph = dml.Graph()
    point = np.array([zero], type)
    made = dml.quantize_linear(graph.input("float32", [64]), np.float32(1), point)
    desc = graph.describe(dml.dequantize_linear(made, np.float32(0.5), point) if is_widened else made)
    target = host_target()
    code = generate(divide_and_fuse(join(desc, refining(target)), costs=target.costs).execution, target, in_place=False)
    assert not any("llvm.rint" in module for module in code.modules)


FACTORS: Final = np.array(
    [0.0, -0.0, 1e-3, -1e-3, 0.5, -0.5, 1.0, -1.0, 2e4, -2e4, 2e6, -2e6, 1e30, -1e30, np.inf, -np.inf, np.nan, 3e-39],
    np.float32,
)
"""Factors of sums: these become small, too large for 32 bits, infinite or NaN."""


@pytest.mark.parametrize("zero", [0, 3, 255, None])
@pytest.mark.parametrize("columns", [32, 48, 80])
def test_sums_become_bytes(columns: int, zero: int | None) -> None:
    """Registers of them are rounded, clamped and joined at a time, and those that are left one by one; ``zero``: that
    of the results, or None where it is read."""
    rows, inner = 29, 64
    generator = np.random.default_rng(columns)
    a = generator.integers(0, 256, (rows, inner), np.uint8)
    b = generator.integers(-128, 128, (inner, columns), np.int8)
    b[:, ::5] = 0
    factors = np.resize(FACTORS, columns)
    graph = dml.Graph()
    given = [graph.input("uint8", a.shape), graph.input("float32", [columns])]
    point = graph.input("uint8", [1]) if zero is None else np.array([zero], np.uint8)
    made = dml.quantized_linear_matrix_multiply(
        given[0], np.float32(1), None, graph.constant(b), given[1], None, np.float32(1), point
    )
    arrays = [a, factors, *([np.array([127], np.uint8)] if zero is None else [])]
    sums = a.astype(np.int32) @ b.astype(np.int32)
    with np.errstate(all="ignore"):
        value = np.rint(sums.astype(np.float32) * factors) + np.float32(127 if zero is None else zero)
    expected = np.where(np.isnan(value), np.float32(0), np.clip(value, 0, 255)).astype(np.uint8)
    for count in (1, 2, 7):
        device = dml.Device(thread_count=count, tuning=replace(TUNING, serial_work=0))
        assert_identical(np.asarray(device.compile_graph(graph.describe(made))(*arrays)), expected)


@pytest.mark.parametrize(("level", "pack"), [("vnni", "avx512.packuswb.512"), ("avx2", "avx2.packuswb")])
def test_sums_are_packed(level: str, pack: str) -> None:
    """No register of them by itself."""
    graph = dml.Graph()
    x = graph.input("uint8", [28, 64])
    product = dml.quantized_linear_matrix_multiply(
        *(x, np.float32(0.5), None, graph.constant(np.full([64, 64], 65, np.int8)), np.float32(0.25), None),
        *(np.float32(2), np.array([3], np.uint8)),
    )
    target = target_of(level)
    code = generate(divide_and_fuse(join(graph.describe(product), refining(target))).execution, target, in_place=False)
    text = "\n".join(code.modules)
    assert re.search(rf"call <\d+ x i8> @llvm.x86.{pack}\(", text)
    assert not re.search(r"trunc <\d+ x i32> .* to <\d+ x i8>", text)


@pytest.mark.parametrize(
    ("scales", "is_bounded"), [((0.75, 1.5), False), ((1e-30, 4096.0), False), ((0.5, 3e9), True), ((0.5, -1.0), True)]
)
def test_scales_that_alike_sums_read(scales: tuple[float, float], is_bounded: bool) -> None:
    """Code that several sums share does not know their scales, but how large they are: only of large ones, or such
    below 0, the rounded sum is bounded before 32 bits hold it. ``is_bounded``: whether it is."""
    rows, size = 28, 64
    generator = np.random.default_rng(7)
    weights = generator.integers(-128, 128, (size, size), np.int8)
    inner = np.resize(np.array([1e-3, 2e-3], np.float32), size)
    graph, point, zero = dml.Graph(), np.array([3], np.uint8), np.array([0], np.uint8)
    arrays, made, expected = list[Array](), list[Any](), list[Array]()
    for scale in map(np.float32, scales):
        a, b = (generator.integers(0, 256, (rows, size), np.uint8) for _ in "ab")
        x, y = graph.input("uint8", a.shape), graph.input("uint8", b.shape)
        product = dml.quantized_linear_matrix_multiply(
            *(x, np.float32(1), None, graph.constant(weights), graph.constant(inner), None, np.float32(1), point)
        )
        total = dml.dequantize_linear(product, scale, point) + dml.dequantize_linear(y, scale / 3, zero)
        made.append(dml.quantize_linear(total, np.float32(1), zero))
        sums = np.rint((a.astype(np.int32) @ weights.astype(np.int32)).astype(np.float32) * inner) + np.float32(3)
        value = (np.clip(sums, 0, 255) - np.float32(3)) * scale + b.astype(np.float32) * (scale / 3)
        expected.append(np.clip(np.rint(value), 0, 255).astype(np.uint8))
        arrays += [a, b]
    desc = graph.describe(made)
    for count in (1, 2, 7):
        device = dml.Device(thread_count=count, tuning=replace(TUNING, serial_work=0))
        for found, values in zip(device.compile_graph(desc)(*arrays), expected, strict=True):
            assert_identical(np.asarray(found), values)
    assert_packed(desc, is_bounded)


@pytest.mark.parametrize(
    ("largest", "is_bounded"), [(0.12, False), (1e-30, False), (0.26, True), (3e9, True), (-0.25, True), (np.nan, True)]
)
def test_factors_of_columns(largest: float, is_bounded: bool) -> None:
    """Of factors that are constant code knows how large they are, and asks for no bound where 32 bits hold whatever
    they make of a sum. Graphs that differ in that alone, of the same cache, are other programs."""
    rows, size = 28, 64
    generator = np.random.default_rng(11)
    a = generator.integers(0, 256, (rows, size), np.uint8)
    weights = np.where(np.arange(size) % 2, 127, -128).astype(np.int8) * np.ones([size, 1], np.int8)
    factors = np.resize(np.array([1e-3, largest, 0.0], np.float32), size)
    graph = dml.Graph()
    product = dml.quantized_linear_matrix_multiply(
        *(graph.input("uint8", a.shape), np.float32(0.5), None, graph.constant(weights), graph.constant(factors), None),
        *(np.float32(0.5), np.array([3], np.uint8)),
    )
    desc = graph.describe(product)
    sums = a.astype(np.int32) @ weights.astype(np.int32)
    with np.errstate(invalid="ignore"):
        value = np.rint(sums.astype(np.float32) * factors) + np.float32(3)
    expected = np.where(np.isnan(value), np.float32(0), np.clip(value, 0, 255)).astype(np.uint8)
    for count in (1, 2, 7):
        device = dml.Device(thread_count=count, tuning=replace(TUNING, serial_work=0))
        assert_identical(np.asarray(device.compile_graph(desc)(a)), expected)
    assert_packed(desc, is_bounded)


def assert_packed(desc: dml.GraphDesc, is_bounded: bool) -> None:
    """With VNNI sums become bytes by instructions that saturate; whether what is rounded is bounded before."""
    target = target_of("vnni")
    fused = divide_and_fuse(join(desc, refining(target)), costs=target.costs).execution
    text = "\n".join(generate(fused, target, in_place=False).modules)
    assert "= call <64 x i8> @llvm.x86.avx512.packuswb.512" in text
    assert ("float 0x4100000000000000" in text) == is_bounded


@pytest.mark.parametrize(
    ("numbers", "bound"),
    [([0.1, 0.0], 0.125), ([0.125], 0.25), ([3e38], 2.0**128), ([0.0], 1.0), ([1e-45], 2.0**-148)],
)
def test_bounds_of_constants(numbers: list[float], bound: float) -> None:
    """Powers of two, so that networks that are trained again are the same programs."""
    assert bound_of_constant(np.array(numbers, np.float32).tobytes(), F32) == bound


@pytest.mark.parametrize("data", [b"", b"123", bytes(BOUNDED_BYTES + 4), *map(float32, (-0.0, np.inf, np.nan, -2))])
def test_constants_without_bounds(data: bytes) -> None:
    """Of numbers less than 0, -0 among them, or infinite, and of weights nothing is known."""
    assert bound_of_constant(data, F32) == np.inf
