"""Identity, addition, clipping and casts against plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from execution import (
    ALL_TYPES,
    INTEGERS,
    assert_identical,
    assert_same_values,
    inputs,
    outputs,
    random_array,
    run_single,
    seeds,
    sizes,
)
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from reference import cast, clip, scale_bias

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.programs.device import compile_operator

bounded = examples(40)
CLIP_TYPES = tuple(name for name in ALL_TYPES if name != "FLOAT64")


def vector(data_type: str, values: list[float]) -> tuple[TensorDesc, np.ndarray[Any, Any]]:
    tensor = TensorDesc(data_type, [len(values)])
    return tensor, np.array(values, tensor.data_type.dtype)


@bounded
@given(data=st.data(), shape=sizes(), data_type=st.sampled_from(ALL_TYPES), seed=seeds)
def test_identity_copies_bits(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    desc = operators.ElementWiseIdentity(input_tensor=source, output_tensor=data.draw(outputs(data_type, shape)))
    assert_identical(run_single(desc, x), x)


def test_identity_keeps_the_payload_of_nan() -> None:
    for data_type, bits in (("FLOAT16", 0x7C01), ("FLOAT32", 0xFFA00001), ("FLOAT64", 0x7FF0000000000123)):
        tensor = TensorDesc(data_type, [1])
        x = np.array([bits], f"u{tensor.data_type.bits // 8}").view(tensor.data_type.dtype)
        desc = operators.ElementWiseIdentity(input_tensor=tensor, output_tensor=tensor)
        assert_identical(run_single(desc, x), x)
        assert_identical(compile_operator(desc, thread_count=1)(x), x)


@bounded
@given(
    data=st.data(),
    shape=sizes(limit=32),
    data_type=st.sampled_from(ALL_TYPES),
    factors=st.tuples(*(st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.75, -300.125, 1e10, float("inf")]) for _ in range(2))),
    seed=seeds,
)
def test_identity_scales(
    data: st.DataObject, shape: list[int], data_type: str, factors: tuple[float, float], seed: int
) -> None:
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    desc = operators.ElementWiseIdentity(
        input_tensor=source, output_tensor=data.draw(outputs(data_type, shape)), scale_bias=factors
    )
    expected = x if x.dtype.kind != "f" and factors == (1.0, 0.0) else cast(scale_bias(x, *factors), x.dtype)
    assert_same_values(run_single(desc, x), expected)


def test_scaled_integers_saturate_and_truncate() -> None:
    tensor, x = vector("INT8", [-128, -7, -1, 0, 1, 7, 127])
    desc = operators.ElementWiseIdentity(input_tensor=tensor, output_tensor=tensor, scale_bias=(1.5, 0.25))
    assert run_single(desc, x).tolist() == [-128, -10, -1, 0, 1, 10, 127]


def test_scaling_by_one_is_exact_for_64_bit_integers() -> None:
    tensor = TensorDesc("INT64", [1])
    desc = operators.ElementWiseIdentity(input_tensor=tensor, output_tensor=tensor, scale_bias=(1, 0))
    x = np.array([2**62 + 1], np.int64)
    assert_identical(run_single(desc, x), x)


@bounded
@given(data=st.data(), shape=sizes(), data_type=st.sampled_from(CLIP_TYPES), seed=seeds)
def test_add(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    left, right = data.draw(inputs(data_type, shape)), data.draw(inputs(data_type, shape))
    a, b = random_array(left, seed), random_array(right, seed + 1)
    desc = operators.ElementWiseAdd(a_tensor=left, b_tensor=right, output_tensor=data.draw(outputs(data_type, shape)))
    with np.errstate(all="ignore"):
        assert_same_values(run_single(desc, a, b), a + b)


@bounded
@given(data=st.data(), shape=sizes(), data_type=st.sampled_from(["FLOAT32", "FLOAT16"]), seed=seeds)
def test_add1_without_activation(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    left, right = data.draw(inputs(data_type, shape)), data.draw(inputs(data_type, shape))
    a, b = random_array(left, seed), random_array(right, seed + 1)
    desc = operators.ElementWiseAdd1(a_tensor=left, b_tensor=right, output_tensor=data.draw(outputs(data_type, shape)))
    with np.errstate(all="ignore"):
        assert_same_values(run_single(desc, a, b), a + b)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
def test_add1_applies_its_activation_to_the_exact_sum(data_type: str) -> None:
    tensor, a = vector(data_type, [2048, -3, 1, 60000])
    b = np.array([1, 1, -1, 60000], a.dtype)
    activation = operators.ActivationLinear(alpha=0.5, beta=0.25)
    desc = operators.ElementWiseAdd1(
        a_tensor=tensor, b_tensor=tensor, output_tensor=tensor, fused_activation=activation
    )
    exact = (a.astype(np.float32) + b.astype(np.float32)) * np.float32(0.5) + np.float32(0.25)
    assert_identical(run_single(desc, a, b), exact.astype(a.dtype))


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@bounded
@given(data=st.data(), shape=sizes(limit=24), slope=st.sampled_from([None, 0.0, 0.1, -2.0]), seed=seeds)
def test_add1_with_rectifiers(
    data: st.DataObject, data_type: str, shape: list[int], slope: float | None, seed: int
) -> None:
    left, right = data.draw(inputs(data_type, shape)), data.draw(inputs(data_type, shape))
    a, b = random_array(left, seed, special=False), random_array(right, seed + 1, special=False)
    activation = operators.ActivationRelu() if slope is None else operators.ActivationLeakyRelu(alpha=slope)
    desc = operators.ElementWiseAdd1(
        a_tensor=left,
        b_tensor=right,
        output_tensor=data.draw(outputs(data_type, shape)),
        fused_activation=activation,
    )
    total = a.astype(np.float32) + b.astype(np.float32)
    expected = np.where(total > 0, total, total * np.float32(slope or 0)).astype(a.dtype)
    np.testing.assert_array_equal(run_single(desc, a, b), expected)


LIMITS = (-3e38, -200.0, -2.5, -1.0, 0.0, 0.5, 2.0, 77.7, 3e9, 3e38, float("inf"), float("-inf"), float("nan"))


@bounded
@given(
    data=st.data(),
    shape=sizes(limit=32),
    data_type=st.sampled_from(CLIP_TYPES),
    limits=st.tuples(st.sampled_from(LIMITS), st.sampled_from(LIMITS)),
    factors=st.sampled_from([None, (2.0, -1.5), (-0.5, 3.0)]),
    seed=seeds,
)
def test_clip(
    data: st.DataObject,
    shape: list[int],
    data_type: str,
    limits: tuple[float, float],
    factors: tuple[float, float] | None,
    seed: int,
) -> None:
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    desc = operators.ElementWiseClip(
        input_tensor=source,
        output_tensor=data.draw(outputs(data_type, shape)),
        scale_bias=factors,
        min=limits[0],
        max=limits[1],
    )
    low, high = cast(np.array(limits, np.float32), x.dtype)
    scaled = x if factors is None else scale_bias(x, *factors)
    if x.dtype.kind != "f":
        scaled = cast(scaled, x.dtype)
    assert_same_values(run_single(desc, x), cast(clip(scaled, low, high), x.dtype))


@bounded
@given(data=st.data(), shape=sizes(limit=32), data_type=st.sampled_from(INTEGERS), seed=seeds)
def test_clip1_has_exact_limits(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    bounds = np.iinfo(x.dtype)
    low, high = (data.draw(st.integers(int(bounds.min), int(bounds.max))) for _ in range(2))
    desc = operators.ElementWiseClip1(
        input_tensor=source,
        output_tensor=data.draw(outputs(data_type, shape)),
        min_max_data_type=data_type,
        min=low,
        max=high,
    )
    assert_identical(run_single(desc, x), clip(x, x.dtype.type(low), x.dtype.type(high)))


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
def test_clip1_of_floats(data_type: str) -> None:
    tensor, x = vector(data_type, [-9, -2, -0.0, 0.0, 1.5, 3, float("inf"), float("-inf"), float("nan")])
    desc = operators.ElementWiseClip1(
        input_tensor=tensor, output_tensor=tensor, min_max_data_type=data_type, min=-2, max=3
    )
    assert_same_values(run_single(desc, x), np.array([-2, -2, -0.0, 0.0, 1.5, 3, 3, -2, np.nan], x.dtype))


def test_clip_gives_min_where_min_exceeds_max() -> None:
    tensor, x = vector("FLOAT32", [-5, 0, 5])
    desc = operators.ElementWiseClip(input_tensor=tensor, output_tensor=tensor, min=2, max=1)
    assert run_single(desc, x).tolist() == [2, 2, 2]


@examples(100)
@given(
    data=st.data(),
    shape=sizes(limit=40),
    source_type=st.sampled_from(ALL_TYPES),
    target_type=st.sampled_from(ALL_TYPES),
    seed=seeds,
)
def test_cast(data: st.DataObject, shape: list[int], source_type: str, target_type: str, seed: int) -> None:
    source = data.draw(inputs(source_type, shape))
    target = data.draw(outputs(target_type, shape))
    x = random_array(source, seed)
    result = run_single(operators.Cast(input_tensor=source, output_tensor=target), x)
    assert_same_values(result, cast(x, target.data_type.dtype))


@pytest.mark.sampled
@pytest.mark.parametrize("target_type", ALL_TYPES)
@pytest.mark.parametrize("source_type", ALL_TYPES)
def test_cast_around_the_limits_of_all_types(source_type: str, target_type: str) -> None:
    around = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        0.99,
        -0.99,
        2048.5,
        2049.0,
        65504.0,
        65519.996,
        65520.0,
        1e-8,
        5.96e-8,
        float("nan"),
    ]
    around += [sign * (2.0**bits + delta) for bits in range(64) for delta in (-1.0, 0.0, 1.0) for sign in (1, -1)]
    around += [float("inf"), float("-inf"), 3e38, -3e38]
    source, target = TensorDesc(source_type, [len(around)]), TensorDesc(target_type, [len(around)])
    x = cast(np.array(around, np.float64), source.data_type.dtype)
    result = run_single(operators.Cast(input_tensor=source, output_tensor=target), x)
    assert_same_values(result, cast(x, target.data_type.dtype))


def test_float64_is_rounded_to_float16_once() -> None:
    # Just above the middle of two float16 numbers, but the middle itself once rounded to float32.
    x = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11 - 2.0**-40], np.float64)
    source, target = TensorDesc("FLOAT64", [2]), TensorDesc("FLOAT16", [2])
    result = run_single(operators.Cast(input_tensor=source, output_tensor=target), x)
    assert result.tolist() == [1 + 2.0**-10, 1 + 2.0**-10]
