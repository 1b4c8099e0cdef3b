"""Element-wise transcendental operators against NumPy in float64, over layouts, ranks and types; integer powers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from execution import assert_same_values, inputs, outputs, random_array, run_single, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.programs.device import compile_operator

Array = np.ndarray[Any, Any]
bounded = examples(6)

FLOATS = ("FLOAT32", "FLOAT16")
INTEGERS = ("INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8")


def erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in x.ravel().tolist()]).reshape(x.shape)


# Name of the operator's class, and NumPy's function.
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Exp": np.exp,
    "Log": np.log,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Tanh": np.tanh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Erf": erf,
}


def assert_near(actual: Array, exact: Array, ulp: float) -> None:
    """Within ``ulp`` units in the last place of float32; in float16 the nearest number, or one beside a middle."""
    with np.errstate(all="ignore"):
        if actual.dtype == np.float16:
            low, high = (exact * (1 - 2e-7)).astype(np.float16), (exact * (1 + 2e-7)).astype(np.float16)
            right = (actual == low) | (actual == high) | (np.isnan(actual) & np.isnan(exact))
        else:
            unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
            right = np.abs(actual - exact) <= ulp * unit
            right |= (actual == exact.astype(np.float32)) | (np.isnan(actual) & np.isnan(exact))
    assert right.all(), (actual[~right][:4], exact[~right][:4])


def factors(scale_bias: tuple[float, float] | None, x: Array) -> Array:
    """``x * Scale + Bias`` in float32, two roundings."""
    wide = x.astype(np.float32)
    return wide if scale_bias is None else wide * np.float32(scale_bias[0]) + np.float32(scale_bias[1])


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
@bounded
@given(data=st.data(), data_type=st.sampled_from(FLOATS), shape=sizes(), seed=seeds)
def test_functions(name: str, data: st.DataObject, data_type: str, shape: list[int], seed: int) -> None:
    scale_bias = data.draw(st.sampled_from((None, (0.125, 0.5), (-1.0, 0.0), (1e4, -3.0))))
    source = data.draw(inputs(data_type, shape))
    desc = getattr(operators, f"ElementWise{name}")(
        input_tensor=source, output_tensor=data.draw(outputs(data_type, shape)), scale_bias=scale_bias
    )
    x = random_array(source, seed)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](factors(scale_bias, x).astype(np.float64))
    assert_near(run_single(desc, x), exact, 2.1)


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_float16_result_is_the_nearest(name: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype(np.float64)).astype(np.float16)
    desc = getattr(operators, f"ElementWise{name}")(
        input_tensor=one("FLOAT16", x.size), output_tensor=one("FLOAT16", x.size)
    )
    assert_same_values(compile_operator(desc, 1)(x), expected)


@pytest.mark.parametrize("name", ["Pow", "AtanYx"])
def test_float16_results_of_two_arguments_are_the_nearest(name: str) -> None:
    """Samples: random bits and numbers of moderate size, but for those where NumPy's float64 is midway."""
    generator = np.random.default_rng(1)
    bits = generator.integers(0, 1 << 16, (2, 50_000), np.uint16, endpoint=False).view(np.float16)
    moderate = generator.normal(0, 3, (2, 50_000)).astype(np.float16)
    moderate[0] = np.abs(moderate[0])
    a, b = np.concatenate([bits, moderate], axis=1)
    tensor = one("FLOAT16", a.size)
    if name == "Pow":
        desc: Operator = operators.ElementWisePow(input_tensor=tensor, exponent_tensor=tensor, output_tensor=tensor)
    else:
        desc = operators.ElementWiseAtanYx(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    with np.errstate(all="ignore"):
        exact = (np.power if name == "Pow" else np.arctan2)(a.astype(np.float64), b.astype(np.float64))
        expected = exact.astype(np.float16)
        low, high = (exact * (1 - 1e-14)).astype(np.float16), (exact * (1 + 1e-14)).astype(np.float16)
    clear = (low == high) | np.isnan(exact)
    assert clear.mean() > 0.999
    assert_same_values(compile_operator(desc, 1)(a, b)[clear], expected[clear])


@bounded
@given(data=st.data(), data_type=st.sampled_from(FLOATS), shape=sizes(), seed=seeds)
def test_atan_yx(data: st.DataObject, data_type: str, shape: list[int], seed: int) -> None:
    a, b = data.draw(inputs(data_type, shape)), data.draw(inputs(data_type, shape))
    desc = operators.ElementWiseAtanYx(a_tensor=a, b_tensor=b, output_tensor=data.draw(outputs(data_type, shape)))
    y, x = random_array(a, seed), random_array(b, seed + 1)
    assert_near(run_single(desc, y, x), np.arctan2(y.astype(np.float64), x.astype(np.float64)), 1.6)


@bounded
@given(data=st.data(), types=st.tuples(*[st.sampled_from((*FLOATS, *INTEGERS))] * 2), shape=sizes(), seed=seeds)
def test_powers(data: st.DataObject, types: tuple[str, str], shape: list[int], seed: int) -> None:
    base, exponent = (data.draw(inputs(data_type, shape)) for data_type in types)
    scale_bias = data.draw(st.sampled_from((None, (1.0, 0.0), (0.5, 2.0))))
    desc = operators.ElementWisePow(
        input_tensor=base,
        exponent_tensor=exponent,
        output_tensor=data.draw(outputs(types[0], shape)),
        scale_bias=scale_bias,
    )
    x, y = random_array(base, seed), random_array(exponent, seed + 1)
    actual = run_single(desc, x, y)
    scaled = scaled_base(x, scale_bias)
    if x.dtype.kind != "f" and y.dtype.kind != "f":
        assert_same_values(actual, integer_powers(scaled, y))
        return
    with np.errstate(all="ignore"):
        exact = np.power(scaled.astype(np.float64), y.astype(np.float64))
    if x.dtype.kind == "f":
        assert_near(actual, exact, 1.0)
    else:
        # Integers that NumPy misses by its own error count as met.
        near = np.round(exact)
        whole = np.isfinite(exact) & (np.abs(exact - np.where(np.isfinite(exact), near, 0)) <= 1e-12 * np.abs(exact))
        assert_same_values(actual, saturated(np.where(whole, near, exact), actual.dtype))


def scaled_base(x: Array, scale_bias: tuple[float, float] | None) -> Array:
    """``x * Scale + Bias``, for integers by way of float64."""
    if x.dtype.kind == "f":
        return factors(scale_bias, x)
    if scale_bias in (None, (1.0, 0.0)):
        return x
    assert scale_bias is not None
    return saturated(x.astype(np.float64) * scale_bias[0] + scale_bias[1], x.dtype)


def saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Truncated and saturated, NaN 0."""
    limits = np.iinfo(dtype)
    numbers = [0 if math.isnan(v) else limits.max if v >= limits.max else limits.min if v <= limits.min else int(v)
               for v in x.ravel().tolist()]  # fmt: skip
    return np.array(numbers, dtype).reshape(x.shape)


def integer_powers(x: Array, y: Array) -> Array:
    """Python's powers, wrapped; truncated reciprocals, of 0 too."""
    bits = 8 * x.dtype.itemsize

    def power(base: int, exponent: int) -> int:
        if exponent >= 0:
            return int(pow(base, exponent, 1 << bits))
        return (base ** (exponent & 1)) % (1 << bits) if abs(base) == 1 else 0

    pairs = zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)
    return np.array([power(*pair) for pair in pairs], f"u{x.dtype.itemsize}").view(x.dtype).reshape(x.shape)


CUBE_ULP = 1.29
"""x * x * x has two roundings, of which the first is magnified: the largest error of all mantissas is 1.2874 ULP."""


@bounded
@given(
    data=st.data(),
    data_type=st.sampled_from(FLOATS),
    exponent=st.sampled_from((0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 2.5, math.inf, math.nan)),
    shape=sizes(),
    seed=seeds,
)
def test_constant_powers(data: st.DataObject, data_type: str, exponent: float, shape: list[int], seed: int) -> None:
    scale_bias = data.draw(st.sampled_from((None, (-0.5, 2.0))))
    source = data.draw(inputs(data_type, shape))
    desc = operators.ElementWiseConstantPow(
        input_tensor=source,
        output_tensor=data.draw(outputs(data_type, shape)),
        scale_bias=scale_bias,
        exponent=exponent,
    )
    x = random_array(source, seed)
    with np.errstate(all="ignore"):
        # An array of exponents: for the number 0.5 NumPy takes the square root, not the pow of C for -0 and -infinity.
        base = factors(scale_bias, x).astype(np.float64)
        exact = np.power(base, np.full_like(base, exponent))
    actual = run_single(desc, x)
    assert_near(actual, exact, CUBE_ULP if exponent == 3 else 1.0)
    zeros = (actual == 0) & (exact == 0)
    np.testing.assert_array_equal(np.signbit(actual)[zeros], np.signbit(exact)[zeros])


def one(data_type: str, count: int) -> TensorDesc:
    return TensorDesc(data_type, [count])


def test_float16_powers_are_the_nearest_numbers() -> None:
    """Of all float16 numbers, ties among the exact results included; the reference is exact in Python's integers."""
    x = np.arange(0x7C00, dtype=np.uint16).view(np.float16)
    for exponent in (2.0, 3.0):
        desc = operators.ElementWiseConstantPow(
            input_tensor=one("FLOAT16", x.size), output_tensor=one("FLOAT16", x.size), exponent=exponent
        )
        with np.errstate(over="ignore"):
            expected = (x.astype(np.float64) ** int(exponent)).astype(np.float16)
        assert_same_values(compile_operator(desc, 1)(x), expected)
    tensor = one("FLOAT16", x.size)
    power = operators.ElementWisePow(input_tensor=tensor, exponent_tensor=tensor, output_tensor=tensor)
    with np.errstate(over="ignore"):
        squares = (x.astype(np.float64) ** 2).astype(np.float16)
    assert_same_values(compile_operator(power, 1)(x, np.full_like(x, 2)), squares)


@pytest.mark.parametrize(("base", "exponent"), [("INT32", "FLOAT32"), ("UINT8", "FLOAT16"), ("FLOAT32", "INT32")])
def test_powers_of_mixed_types_that_are_integers_are_exact(base: str, exponent: str) -> None:
    bases, exponents = np.meshgrid(np.arange(1, 16), np.arange(0, 8))
    keep = bases.astype(np.float64) ** exponents < 200
    x = bases[keep].astype(TensorDesc(base, [1]).data_type.dtype)
    y = exponents[keep].astype(TensorDesc(exponent, [1]).data_type.dtype)
    desc = operators.ElementWisePow(
        input_tensor=one(base, x.size), exponent_tensor=one(exponent, x.size), output_tensor=one(base, x.size)
    )
    np.testing.assert_array_equal(run_single(desc, x, y), bases[keep] ** exponents[keep])


def test_large_integer_exponents_keep_their_parity() -> None:
    x, y = np.full(3, -1, np.float32), np.array([2**24 + 1, 2**31 - 1, 2**30], np.int32)
    desc = operators.ElementWisePow(
        input_tensor=one("FLOAT32", 3), exponent_tensor=one("INT32", 3), output_tensor=one("FLOAT32", 3)
    )
    assert run_single(desc, x, y).tolist() == [-1, -1, 1]


def pow_desc(base: str, exponent: str) -> Operator:
    sizes = [1, 1, 2, 3]
    return operators.ElementWisePow(
        input_tensor=TensorDesc(base, sizes),
        exponent_tensor=TensorDesc(exponent, sizes),
        output_tensor=TensorDesc(base, sizes),
    )


@pytest.mark.parametrize(
    ("base", "exponent", "level", "valid"),
    [
        ("FLOAT32", "FLOAT32", "1_0", True),
        ("FLOAT32", "FLOAT16", "1_0", False),
        ("FLOAT32", "FLOAT16", "3_0", True),
        ("INT8", "UINT32", "2_1", False),
        ("INT8", "UINT32", "3_0", True),
    ],
)
def test_types_of_exponents(base: str, exponent: str, level: str, valid: bool) -> None:
    assert (not validate(pow_desc(base, exponent), FeatureLevel.parse(level))) is valid


def test_pow_chooses_the_operator_by_the_exponent() -> None:
    x = np.array([1.0, 4.0, 9.0], np.float32)
    assert dml.pow(x, 0.5).tolist() == [1, 2, 3]
    assert dml.pow(x, np.array([2, 1, 0], np.int8), scale_bias=(1, 1)).tolist() == [4, 5, 1]
    assert dml.exp(x, scale_bias=(0, 0)).tolist() == [1, 1, 1]


def test_in_place() -> None:
    desc = operators.ElementWiseTanh(input_tensor=one("FLOAT32", 100), output_tensor=one("FLOAT32", 100))
    x = np.linspace(-3, 3, 100, dtype=np.float32)
    program = compile_operator(desc, 1)
    expected = program(x)
    program.bind([x], [x])()
    assert_same_values(x, expected)


@pytest.mark.parametrize("name", ["Exp", "Log", "Sin", "Pow"])
def test_rare_arguments_beside_common_ones(name: str) -> None:
    """One rare argument at every place of a vector, and in the remainder of a short row."""
    count, rare = 130, {"Exp": 100.0, "Log": 1e-40, "Sin": 1e30, "Pow": math.inf}[name]
    common = np.linspace(0.5, 2, count, dtype=np.float32)
    x = np.tile(common, (count, 1))
    np.fill_diagonal(x, rare)
    desc = TensorDesc("float32", x.shape)
    if name == "Pow":
        program = compile_operator(
            operators.ElementWisePow(input_tensor=desc, exponent_tensor=desc, output_tensor=desc), 1
        )
        result, plain = program(x, np.full_like(x, 1.5)), program(np.tile(common, (count, 1)), np.full_like(x, 1.5))
    else:
        program = compile_operator(getattr(operators, f"ElementWise{name}")(input_tensor=desc, output_tensor=desc), 1)
        result, plain = program(x), program(np.tile(common, (count, 1)))
    diagonal = np.eye(count, dtype=bool)
    assert_same_values(result[~diagonal], plain[~diagonal])
    assert len(set(result[diagonal].tolist())) == 1
    assert result[0, 0] != plain[0, 0]
