"""Square roots computed from estimates: IEEE 754's for every significand, at the limits of what is computed so, and in
vectors of which some elements are unusual."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from execution import run_operator
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.programs.device import Device
from opendml.targets.cpu.instructions.roots import LEAST

Array = np.ndarray[Any, Any]

COUNT = 1 << 21
SIGNIFICANDS = 1 << 23


def root(count: int) -> operators.ElementWiseSqrt:
    tensor = TensorDesc("FLOAT32", (count,))
    return operators.ElementWiseSqrt(input_tensor=tensor, output_tensor=tensor)


def check(x: Array) -> None:
    actual = Device("cpu", thread_count=2).compile(root(x.size))(x)
    with np.errstate(invalid="ignore"):
        expected = np.sqrt(x)
    different = (actual.view(np.uint32) != expected.view(np.uint32)) & ~(np.isnan(actual) & np.isnan(expected))
    assert not different.any(), x[different][:5]


@pytest.mark.parametrize("exponent", (126, 127))
def test_every_significand(exponent: int) -> None:
    """Those of two neighbouring exponents are all there is: four times a number has twice its root."""
    for first in range(0, SIGNIFICANDS, COUNT):
        bits = np.arange(first, first + COUNT, dtype=np.uint32) | np.uint32(exponent << 23)
        check(bits.view(np.float32))


@pytest.mark.parametrize("negative", (False, True))
def test_every_exponent(negative: bool) -> None:
    exponents = np.repeat(np.arange(256, dtype=np.uint32), COUNT // 256)
    significands = np.random.default_rng(0).integers(0, SIGNIFICANDS, COUNT, dtype=np.uint32)
    check((exponents << 23 | significands | np.uint32(negative << 31)).view(np.float32))


def test_around_the_limits() -> None:
    limits = np.array([LEAST, np.finfo(np.float32).max, np.finfo(np.float32).tiny, 1.0, 4.0], np.float32)
    around = limits.view(np.uint32)[:, np.newaxis] + np.arange(-512, 513, dtype=np.int64)
    check(around.astype(np.uint32).reshape(-1).view(np.float32))


@given(length=st.integers(1, 200), seed=st.integers(0, 1 << 31), share=st.sampled_from((0.0, 0.02, 0.5)))
@examples(15)
def test_unusual_numbers_among_others(length: int, seed: int, share: float) -> None:
    generator = np.random.default_rng(seed)
    x = generator.exponential(10, length).astype(np.float32)
    unusual = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1e-45, 1e-38, 1e-30, 3e38], np.float32)
    x = np.where(generator.random(length) < share, generator.choice(unusual, length), x)
    (actual,) = run_operator(root(length), [x])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(actual, np.sqrt(x))
