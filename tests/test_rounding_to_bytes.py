"""Numbers that are rounded, moved and clamped to integers of 8 bits, and widened again: every number that may go wrong,
compiled and as NumPy does it."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from execution import Array, assert_identical

import opendml as dml
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import host_target

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
