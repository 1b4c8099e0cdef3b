"""Element-wise arithmetic and limits: floats against NumPy in the wider type, integers against Python's, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import reference
from execution import INTEGERS, Array, assert_same_values, inputs, outputs, random_array, run_single, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.programs.device import compile_operator
from opendml.programs.program import Program

bounded = examples(8)
few = examples(4)

FLOATS = ("FLOAT32", "FLOAT16")
SIGNED = ("INT64", "INT32", "INT16", "INT8")


def wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype == np.float16 else x


def one_by_one(function: Callable[..., int], *arrays: Array) -> Array:
    """A function of Python's integers, wrapped to the type of the arrays."""
    dtype = arrays[0].dtype
    mask = (1 << (dtype.itemsize * 8)) - 1
    values = [function(*place) & mask for place in zip(*(x.ravel().tolist() for x in arrays), strict=True)]
    return np.array(values, f"u{dtype.itemsize}").view(dtype).reshape(arrays[0].shape)


def truncated(a: int, b: int) -> int:
    """The quotient toward zero."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def exact_mean(a: Array, b: Array) -> Array:
    """The sum wraps before it is halved."""
    return one_by_one(lambda total: truncated(total, 2), one_by_one(lambda x, y: x + y, a, b))


def float_max(a: Array, b: Array) -> Array:
    return np.where(np.isnan(a) | (a >= b), a, b)


def float_min(a: Array, b: Array) -> Array:
    return np.where(np.isnan(a) | (a <= b), a, b)


# Name of the operator's class: for floats, for integers.
PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "Subtract": (np.subtract, lambda a, b: one_by_one(lambda x, y: x - y, a, b)),
    "Multiply": (np.multiply, lambda a, b: one_by_one(lambda x, y: x * y, a, b)),
    "Divide": (np.divide, lambda a, b: one_by_one(truncated, a, b)),
    "ModulusTruncate": (
        np.fmod,
        lambda a, b: one_by_one(lambda x, y: int(math.copysign(1, x)) * (abs(x) % abs(y)) if y else -1, a, b),
    ),
    "ModulusFloor": (np.mod, lambda a, b: one_by_one(lambda x, y: x % y if y else -1, a, b)),
    "Max": (float_max, lambda a, b: one_by_one(max, a, b)),
    "Min": (float_min, lambda a, b: one_by_one(min, a, b)),
    "Mean": (lambda a, b: (a + b) / np.float32(2), exact_mean),
    "DifferenceSquare": (
        lambda a, b: np.square(a - b),
        lambda a, b: one_by_one(lambda x, y: (x - y) ** 2, a, b),
    ),
}
ROUNDINGS: dict[str, Callable[[float], int]] = {
    "HALVES_TO_NEAREST_EVEN": round,
    "TOWARD_ZERO": math.trunc,
    "TOWARD_INFINITY": lambda x: int(math.copysign(math.floor(abs(x) + 0.5), x)),
}


def rounded(x: Array, to_integer: Callable[[float], int]) -> Array:
    """Finite elements by a function of Python's floats, which are wider; the sign stays."""
    return np.array(
        [v if not math.isfinite(v) else math.copysign(to_integer(v), v) for v in x.ravel().tolist()]
    ).reshape(x.shape)


UNARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "Abs": (np.abs, lambda x: one_by_one(abs, x)),
    "Negate": (np.negative, lambda x: one_by_one(lambda v: -v, x)),
    "Sign": (
        lambda x: (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype),
        lambda x: one_by_one(lambda v: (v > 0) - (v < 0), x),
    ),
    "Ceil": (lambda x: rounded(x, math.ceil), lambda x: x),
    "Floor": (lambda x: rounded(x, math.floor), lambda x: x),
    "Recip": (lambda x: np.float32(1) / x, lambda x: x),
    "Sqrt": (np.sqrt, lambda x: x),
}


def compiled(desc: Operator) -> Program:
    return compile_operator(desc, thread_count=1)


def operator(name: str) -> Any:
    return getattr(operators, f"ElementWise{name}")


def data_types_of(name: str) -> list[str]:
    field = "a_tensor" if name in PAIRS else "input_tensor"
    return [data_type.name for data_type in operator(name).support[0].of(field).data_types]


def expected_of(functions: tuple[Callable[..., Any], Callable[..., Any]], *arrays: Array) -> Array:
    dtype = arrays[0].dtype
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            return np.asarray(functions[0](*map(wide, arrays))).astype(dtype)
        return np.asarray(functions[1](*arrays), dtype)


@pytest.mark.parametrize("name", PAIRS)
@bounded
@given(data=st.data(), shape=sizes(limit=64), seed=seeds)
def test_two_tensors(name: str, data: st.DataObject, shape: list[int], seed: int) -> None:
    data_type = data.draw(st.sampled_from(data_types_of(name)))
    left, right = data.draw(inputs(data_type, shape)), data.draw(inputs(data_type, shape))
    a, b = random_array(left, seed), random_array(right, seed + 1)
    desc = operator(name)(a_tensor=left, b_tensor=right, output_tensor=data.draw(outputs(data_type, shape)))
    assert_same_values(run_single(desc, a, b), expected_of(PAIRS[name], a, b))


@pytest.mark.parametrize("name", UNARY)
@bounded
@given(data=st.data(), shape=sizes(limit=64), seed=seeds)
def test_one_tensor(name: str, data: st.DataObject, shape: list[int], seed: int) -> None:
    data_type = data.draw(st.sampled_from(data_types_of(name)))
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    desc = operator(name)(input_tensor=source, output_tensor=data.draw(outputs(data_type, shape)))
    assert_same_values(run_single(desc, x), expected_of(UNARY[name], x))


SCALED = [name for name in UNARY if "scale_bias" in operator(name).fields]


@pytest.mark.parametrize("name", SCALED)
@few
@given(
    data=st.data(),
    shape=sizes(limit=24),
    factors=st.tuples(*(st.sampled_from([0.0, 1.0, -0.5, 2.75, -300.125, math.inf]) for _ in range(2))),
    seed=seeds,
)
def test_scale_and_bias_come_first(
    name: str, data: st.DataObject, shape: list[int], factors: tuple[float, float], seed: int
) -> None:
    data_type = data.draw(st.sampled_from(data_types_of(name)))
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    target = data.draw(outputs(data_type, shape))
    result = run_single(operator(name)(input_tensor=source, output_tensor=target, scale_bias=factors), x)
    scaled = reference.scale_bias(x, *factors)
    if x.dtype.kind != "f":
        scaled = x if factors == (1, 0) else reference.cast(scaled, x.dtype)
    assert_same_values(result, expected_of(UNARY[name], scaled).astype(x.dtype))


@pytest.mark.parametrize("data_type", FLOATS)
@pytest.mark.parametrize("mode", ROUNDINGS)
def test_round(mode: str, data_type: str) -> None:
    around = [0.0, 0.25, 0.49999997, 0.5, 0.75, 1.5, 2.5, 3.5, 1023.5, 1024.5, 8388607.5, 8388609, 2e30, math.inf]
    values = [sign * value for value in around for sign in (1, -1)] + [math.nan]
    tensor = TensorDesc(data_type, [len(values)])
    with np.errstate(over="ignore"):
        x = np.array(values, tensor.data_type.dtype)
    result = run_single(operators.ElementWiseRound(input_tensor=tensor, output_tensor=tensor, rounding_mode=mode), x)
    assert_same_values(result, rounded(x, ROUNDINGS[mode]).astype(x.dtype))


# ---- every pair of 8-bit integers, every float16


@pytest.mark.parametrize("data_type", ["INT8", "UINT8"])
@pytest.mark.parametrize("name", [name for name in PAIRS if name not in ("Mean", "DifferenceSquare")])
def test_all_pairs_of_bytes(name: str, data_type: str) -> None:
    tensor = TensorDesc(data_type, [256, 256])
    every = np.arange(256, dtype=np.uint8).view(tensor.data_type.dtype)
    a, b = (np.array(x) for x in np.broadcast_arrays(every[:, None], every))
    program = compiled(operator(name)(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor))
    wider: dict[str, Callable[[Array, Array], Array]] = {
        "Subtract": lambda x, y: x - y,
        "Multiply": lambda x, y: x * y,
        "Divide": lambda x, y: np.where(y == 0, -1, np.trunc(x / np.where(y == 0, 1, y))),
        "ModulusTruncate": lambda x, y: np.where(y == 0, -1, np.fmod(x, np.where(y == 0, 1, y))),
        "ModulusFloor": lambda x, y: np.where(y == 0, -1, np.mod(x, np.where(y == 0, 1, y))),
        "Max": np.maximum,
        "Min": np.minimum,
    }
    exact = wider[name](a.astype(np.int64), b.astype(np.int64)).astype(np.int64)
    np.testing.assert_array_equal(program(a, b), exact.astype(a.dtype))


@pytest.mark.parametrize("name", UNARY)
def test_every_float16(name: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    tensor = TensorDesc("FLOAT16", [x.size])
    program = compiled(operator(name)(input_tensor=tensor, output_tensor=tensor))
    assert_same_values(program(x), expected_of(UNARY[name], x))


@pytest.mark.parametrize("name", ["ModulusTruncate", "ModulusFloor"])
@pytest.mark.parametrize("data_type", FLOATS)
def test_remainders_of_floats_are_exact(data_type: str, name: str) -> None:
    """All exponents together, and dividends at and beside multiples of the divisor."""
    tensor = TensorDesc(data_type, [1 << 14])
    dtype, generator = tensor.data_type.dtype, np.random.default_rng(7)
    program = compiled(operator(name)(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor))
    bits = tensor.data_type.bits
    for kind in range(8):
        a, b = (generator.integers(0, 1 << bits, tensor.sizes, dtype=f"u{bits // 8}").view(dtype) for _ in range(2))
        with np.errstate(all="ignore"):
            if kind % 4 == 1:
                b = (a / generator.integers(1, 1 << 20, a.shape)).astype(dtype)
            if kind % 4 > 1:
                a = (b * generator.integers(1, 1 << (10 * (kind % 4) - 10), a.shape)).astype(dtype)
            if kind % 4 == 3:
                a = np.nextafter(a, generator.choice([-np.inf, np.inf], a.shape).astype(dtype))
        assert_same_values(program(a, b), expected_of(PAIRS[name], a, b))


@pytest.mark.parametrize("data_type", [name for name in INTEGERS if not name.endswith("8")])
def test_quotients_of_large_integers(data_type: str) -> None:
    tensor = TensorDesc(data_type, [600])
    dtype, generator = tensor.data_type.dtype, np.random.default_rng(3)
    limits = np.iinfo(dtype)
    a, b = (generator.integers(limits.min, limits.max, 600, dtype, endpoint=True) for _ in range(2))
    b[200:] >>= generator.integers(0, tensor.data_type.bits, 400).astype(dtype)
    b[:5], a[:5] = [0, -1 & limits.max, limits.max, limits.min, 1], [7, limits.min, limits.min, limits.min, limits.max]
    if limits.min:
        b[1] = -1
    for i in range(400, 600):
        # At and beside multiples of the divisor.
        a[i] = min(max(int(a[i]) // (int(b[i]) or 1) * int(b[i]) + i % 3 - 1, limits.min), limits.max)
    for name in ("Divide", "ModulusTruncate", "ModulusFloor"):
        program = compiled(operator(name)(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor))
        np.testing.assert_array_equal(program(a, b), expected_of(PAIRS[name], a, b))


def test_corners_of_integer_division() -> None:
    a, b = np.array([-128, -128, 5, -5, 0], np.int8), np.array([-1, 0, 0, 0, 0], np.int8)
    assert dml.divide(a, b).tolist() == [-128, -1, -1, -1, -1]
    assert dml.modulus_truncate(a, b).tolist() == [0, -1, -1, -1, -1]
    assert dml.modulus_floor(a, b).tolist() == [0, -1, -1, -1, -1]
    assert dml.divide(np.array([5], np.uint64), np.array([0], np.uint64)).tolist() == [2**64 - 1]


# ---- limits

LIMITS = (-3e38, -200.0, -2.5, 0.0, 0.5, 77.7, 3e9, math.inf, -math.inf, math.nan)


@bounded
@given(
    data=st.data(),
    shape=sizes(limit=32),
    low=st.sampled_from(LIMITS),
    factors=st.sampled_from([None, (2.0, -1.5), (-0.5, 3.0)]),
    seed=seeds,
)
def test_threshold(
    data: st.DataObject, shape: list[int], low: float, factors: tuple[float, float] | None, seed: int
) -> None:
    data_type = data.draw(st.sampled_from(data_types_of("Threshold")))
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    desc = operators.ElementWiseThreshold(
        input_tensor=source, output_tensor=data.draw(outputs(data_type, shape)), scale_bias=factors, min=low
    )
    scaled = x if factors is None else reference.scale_bias(x, *factors)
    scaled = scaled if x.dtype.kind == "f" else reference.cast(scaled, x.dtype)
    limit = reference.cast(np.array([low], np.float32), x.dtype)[0]
    assert_same_values(run_single(desc, x), np.where(scaled < limit, limit, scaled).astype(x.dtype))


@bounded
@given(
    data=st.data(), shape=sizes(limit=32), limits=st.tuples(*(st.sampled_from(LIMITS) for _ in range(2))), seed=seeds
)
def test_clip_grad(data: st.DataObject, shape: list[int], limits: tuple[float, float], seed: int) -> None:
    data_type = data.draw(st.sampled_from(data_types_of("ClipGrad")))
    source, incoming = data.draw(inputs(data_type, shape)), data.draw(inputs(data_type, shape))
    x, gradient = random_array(source, seed), random_array(incoming, seed + 1)
    target = data.draw(outputs(data_type, shape))
    tensors: dict[str, Any] = {
        "input_tensor": source,
        "input_gradient_tensor": incoming,
        "output_gradient_tensor": target,
    }
    result = run_single(operators.ElementWiseClipGrad(**tensors, min=limits[0], max=limits[1]), x, gradient)
    low, high = reference.cast(np.array(limits, np.float32), x.dtype)
    expected = np.where((x <= low) | (x >= high), x.dtype.type(0), gradient)
    assert_same_values(result, expected)
    union: dict[str, Any] = {"min_max_data_type": data_type, "min": low.item(), "max": high.item()}
    assert_same_values(run_single(operators.ElementWiseClipGrad1(**tensors, **union), x, gradient), expected)


def test_clip_grad1_has_exact_limits() -> None:
    x = np.array([2**62, 2**62 + 1, 2**62 + 2], np.int64)
    gradient = np.array([5, 6, 7], np.int64)
    assert dml.clip_grad(x, gradient, min=2**62, max=2**62 + 2).tolist() == [0, 6, 0]


def test_clip_grad_passes_where_x_is_nan() -> None:
    x, gradient = np.array([math.nan, 1, 2], np.float32), np.array([5, 6, 7], np.float32)
    assert dml.clip_grad(x, gradient, min=-1, max=1).tolist() == [5, 0, 0]


def _descriptors_of_pairs(tensor: TensorDesc) -> list[Operator]:
    return [operator(name)(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor) for name in PAIRS]


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "INT32"])
def test_outputs_may_be_inputs(data_type: str) -> None:
    tensor = TensorDesc(data_type, [37])
    a, b = random_array(tensor, 1), random_array(tensor, 2)
    for desc in _descriptors_of_pairs(tensor):
        assert desc.in_place
        program = compiled(desc)
        expected = program(a, b)
        for place in range(2):
            arrays = [a.copy(), b.copy()]
            program.bind(arrays, [arrays[place]])()
            assert_same_values(arrays[place], expected)


def test_older_levels_have_float_limits() -> None:
    device = dml.Device("cpu", feature_level="4_1")
    x, gradient = np.array([-2, 0, 2], np.float32), np.array([5, 6, 7], np.float32)
    assert dml.clip_grad(x, gradient, min=-1, max=1, device=device).tolist() == [0, 6, 0]
    with pytest.raises(dml.InvalidDescriptorError, match="5_0"):
        dml.clip_grad(x.astype(np.int32), gradient.astype(np.int32), min=-(2**30) - 1, max=1, device=device)
