"""The grammar's mathematical functions: measured errors, special values, and the same bits compiled and interpreted."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from execution import assert_same_values

from opendml.enums import TensorDataType
from opendml.expression import mathematics
from opendml.expression.interpreter import NUMPY_TYPES, run_interpreted
from opendml.expression.ir import (
    F32,
    F64,
    Axis,
    Compute,
    Definition,
    ElementType,
    Expression,
    Store,
    Tensor,
    index,
    load,
)
from opendml.program import Binding, compile_definition
from opendml.runtime.host import host_target
from opendml.tensor import TensorDesc

Array = np.ndarray[Any, Any]
Function = Callable[..., Expression]

INFINITY = float("inf")
NAN = float("nan")
WIDE = np.longdouble if np.finfo(np.longdouble).nmant > 60 else np.float64
"""Where there is nothing wider than float64, its own functions are the reference, and half a unit in doubt."""

DATA_TYPES = {
    "f16": TensorDataType.FLOAT16,
    "f32": TensorDataType.FLOAT32,
    "f64": TensorDataType.FLOAT64,
}


def definition_of(function: Function, count: int, type: ElementType, arguments: int) -> Definition:
    sources = [Tensor(f"x{n}", type, (count,), (1,), "input") for n in range(arguments)]
    axis = Axis("i", count)
    value = function(*(load(source, [index(axis)]) for source in sources))
    target = Tensor("y", value.type, (count,), (1,), "output")
    return Definition(tuple(sources), (target,), (Compute((axis,), (Store(target, (index(axis),), value),)),))


def interpreted(function: Function, *arrays: Array) -> Array:
    type = next(t for t in (F32, F64) if NUMPY_TYPES[t.name] == arrays[0].dtype)
    (result,) = run_interpreted(definition_of(function, arrays[0].size, type, len(arrays)), arrays)
    assert result is not None
    return result


def compiled(function: Function, *arrays: Array) -> Array:
    type = next(t for t in (F32, F64) if NUMPY_TYPES[t.name] == arrays[0].dtype)
    definition = definition_of(function, arrays[0].size, type, len(arrays))
    bindings = [
        [Binding(t.name, TensorDesc(DATA_TYPES[t.type.name], t.sizes)) for t in tensors if t is not None]
        for tensors in (definition.inputs, definition.outputs)
    ]
    program = compile_definition(
        definition, inputs=bindings[0], outputs=bindings[1], in_place=False, host=host_target(), thread_count=1
    )
    result = program(*arrays)
    assert isinstance(result, np.ndarray)
    return result


def error_in_ulp(actual: Array, exact: Array) -> Array:
    """The distance from a wider result, in units in the last place of the narrow type; infinite if not comparable."""
    limits = np.finfo(actual.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(actual.dtype)
        exponent = np.maximum(np.frexp(exact)[1] - 1, limits.minexp)
        unit = np.ldexp(np.ones_like(exact), exponent - limits.nmant)
        error = np.abs(actual.astype(exact.dtype) - exact) / unit
        special = ~np.isfinite(rounded) | ~np.isfinite(actual)
        alike = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
        error = np.where(special, np.where(alike, 0, np.inf), error)
        zeros = (actual == 0) & (rounded == 0) & (np.signbit(actual) != np.signbit(rounded))
    return np.where(zeros, np.inf, error)


def assert_error(actual: Array, exact: Array, bound: float, *arguments: Array) -> None:
    error = error_in_ulp(actual, exact)
    worst = int(error.argmax())
    places = [argument[worst].item().hex() for argument in arguments]
    assert error[worst] <= bound, f"{error[worst]} ULP at {places}: {actual[worst]!r}, exactly {exact[worst]!r}"


def every_float16() -> Array:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def random_bits(count: int, dtype: Any, seed: int = 1) -> Array:
    bits = f"u{np.dtype(dtype).itemsize}"
    return np.random.default_rng(seed).integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(dtype)


def interesting(dtype: Any, count: int, seed: int = 2) -> Array:
    """Random bits, and as many numbers of moderate size, small ones and numbers near 1."""
    generator = np.random.default_rng(seed)
    moderate = generator.uniform(-100, 100, count)
    near_one = 1 + generator.uniform(-0.5, 0.5, count)
    small = generator.uniform(-1.5, 1.5, count)
    parts = [random_bits(count, dtype, seed), *(part.astype(dtype) for part in (moderate, small, near_one))]
    return np.concatenate([*parts, special_values(dtype)])


def special_values(dtype: Any) -> Array:
    limits = np.finfo(dtype)
    values = [0.0, 1.0, 2.0, 0.5, INFINITY, NAN, limits.max, limits.tiny, limits.smallest_subnormal, limits.eps]
    return np.array([*values, *(-value for value in values)], dtype)


def sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x)))


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def by_element(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.fromiter(map(function, x.tolist()), np.float64, x.size).astype(x.dtype)


# Function, reference in the wider type, bound for float32 (in float64 arithmetic), bound for float64.
FUNCTIONS: dict[str, tuple[Function, Callable[[Array], Array], float, float]] = {
    "exp": (mathematics.exp, np.exp, 1.0, 1.3),
    "expm1": (mathematics.expm1, np.expm1, 1.6, 1.6),
    "log": (mathematics.log, np.log, 1.0, 1.0),
    "log1p": (mathematics.log1p, np.log1p, 1.5, 1.5),
    "tanh": (mathematics.tanh, np.tanh, 1.5, 1.5),
    "sigmoid": (mathematics.sigmoid, sigmoid, 2.0, 2.0),
    "softplus": (mathematics.softplus, softplus, 1.8, 1.8),
    "erf": (mathematics.erf, by_element(math.erf), 1.5, 2.0),
}


def exact_value(reference: Callable[[Array], Array], x: Array) -> Array:
    with np.errstate(all="ignore"):
        return reference(x.astype(np.float64 if x.dtype == np.float32 else WIDE))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_float16(name: str) -> None:
    function, reference, bound, _ = FUNCTIONS[name]
    x = every_float16()
    assert_error(interpreted(function, x), exact_value(reference, x), bound, x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32(name: str) -> None:
    function, reference, bound, _ = FUNCTIONS[name]
    x = interesting(np.float32, 100_000)
    assert_error(interpreted(function, x), exact_value(reference, x), bound, x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64(name: str) -> None:
    function, reference, _, bound = FUNCTIONS[name]
    x = interesting(np.float64, 50_000)
    slack = 0.0 if WIDE is not np.float64 and name != "erf" else 1.0
    assert_error(interpreted(function, x), exact_value(reference, x), bound + slack, x)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_code_gives_the_same_bits(name: str, dtype: Any) -> None:
    x = interesting(dtype, 20_000, seed=3)
    assert_same_values(compiled(FUNCTIONS[name][0], x), interpreted(FUNCTIONS[name][0], x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dense_float32(name: str) -> None:
    """Every 997th float32, through the compiled code."""
    function, reference, bound, _ = FUNCTIONS[name]
    if name == "erf":
        pytest.skip("Python's erf is too slow for so many arguments")
    x = np.arange(0, 1 << 32, 997, dtype=np.uint32).view(np.float32)
    for chunk in np.array_split(x, 8):
        assert_error(compiled(function, chunk), exact_value(reference, chunk), bound, chunk)


LIMITS: dict[str, list[tuple[float, float]]] = {
    "exp": [(INFINITY, INFINITY), (-INFINITY, 0.0), (0.0, 1.0), (-0.0, 1.0), (NAN, NAN)],
    "expm1": [(INFINITY, INFINITY), (-INFINITY, -1.0), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN)],
    "log": [(INFINITY, INFINITY), (1.0, 0.0), (0.0, -INFINITY), (-0.0, -INFINITY), (-1.0, NAN), (NAN, NAN)],
    "log1p": [(INFINITY, INFINITY), (-1.0, -INFINITY), (-1.5, NAN), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN)],
    "tanh": [(INFINITY, 1.0), (-INFINITY, -1.0), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN)],
    "sigmoid": [(INFINITY, 1.0), (-INFINITY, 0.0), (0.0, 0.5), (-0.0, 0.5), (NAN, NAN)],
    "softplus": [(INFINITY, INFINITY), (-INFINITY, 0.0), (NAN, NAN)],
    "erf": [(INFINITY, 1.0), (-INFINITY, -1.0), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN)],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str, dtype: Any) -> None:
    arguments, results = (np.array(column, dtype) for column in zip(*LIMITS[name], strict=True))
    assert_same_values(interpreted(FUNCTIONS[name][0], arguments), results)


def test_normal_tail() -> None:
    x = np.linspace(0, 14.5, 40_001, dtype=np.float32)
    exact = np.array([0.5 * math.erfc(t / math.sqrt(2)) for t in x.tolist()])
    normal = exact > np.finfo(np.float32).tiny
    assert_error(interpreted(mathematics.normal_tail, x)[normal], exact[normal], 6.0, x[normal])
    assert interpreted(mathematics.normal_tail, np.array([INFINITY, 20, NAN], np.float32))[:2].tolist() == [0, 0]


# ---------------------------------------------------------------------------------------------------------------------


def power_arguments(dtype: Any, count: int) -> tuple[Array, Array]:
    """Bases and exponents: random bits, moderate ones, negative bases with integers, results near the limits."""
    generator = np.random.default_rng(5)
    x = generator.uniform(0.01, 4, count)
    limit = 100 if dtype is np.float32 else 720
    pairs = [
        (random_bits(count, dtype, 6), random_bits(count, dtype, 7)),
        (x, generator.uniform(-20, 20, count)),
        (-x, generator.integers(-30, 30, count)),
        (x, generator.uniform(-limit, limit, count) / np.log(x)),
    ]
    first, second = zip(*pairs, strict=True)
    return np.concatenate([v.astype(dtype) for v in first]), np.concatenate([v.astype(dtype) for v in second])


@pytest.mark.parametrize(("dtype", "wide", "bound"), [(np.float32, np.float64, 0.6), (np.float64, WIDE, 1.5)])
def test_pow(dtype: Any, wide: Any, bound: float) -> None:
    x, y = power_arguments(dtype, 20_000)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wide), y.astype(wide))
    slack = 1.0 if wide is np.float64 and dtype is np.float64 else 0.0
    actual = interpreted(mathematics.pow, x, y)
    assert_error(actual, exact, bound + slack, x, y)
    assert_same_values(compiled(mathematics.pow, x, y), actual)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pow_of_special_values_is_that_of_c(dtype: Any) -> None:
    values = [0.0, 1.0, 2.0, 0.5, 3.0, 1.5, 1e30, 16777215.0, 2.0**60, np.finfo(dtype).smallest_subnormal, INFINITY]
    values += [-value for value in values] + [NAN]
    x, y = (v.reshape(-1) for v in np.meshgrid(np.array(values, dtype), np.array(values, dtype)))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    assert_error(interpreted(mathematics.pow, x, y), exact, 1.5, x, y)


@pytest.mark.parametrize("n", [-7, -1, 0, 1, 2, 3, 10, 31])
def test_power_integer(n: int) -> None:
    x = np.random.default_rng(8).uniform(-2, 2, 1000).astype(np.float32)
    exact = x.astype(np.float64) ** n
    assert_error(interpreted(lambda v: mathematics.power_integer(v, n), x), exact, abs(n) + 1, x)


@pytest.mark.parametrize(("dtype", "wide"), [(np.float32, np.float64), (np.float64, WIDE)])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 6, 7, 16, 1000])
def test_root(p: int, dtype: Any, wide: Any) -> None:
    x = np.abs(np.concatenate([random_bits(5000, dtype, 9), special_values(dtype)]))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wide), wide(1) / wide(p))
    assert_error(interpreted(lambda v: mathematics.root(v, p), x), exact, 2.5 if wide is dtype else 1.5, x)


def test_root_of_negative_numbers() -> None:
    x = np.array([-1.0, -INFINITY], np.float32)
    assert np.isnan(interpreted(lambda v: mathematics.root(v, 3), x)).all()
    assert np.isnan(interpreted(lambda v: mathematics.root(v, 2), x)).all()
    assert interpreted(lambda v: mathematics.root(v, 1), x).tolist() == x.tolist()


# ---------------------------------------------------------------------------------------------------------------------


def nearest_float16(value: float) -> float:
    """The float16 nearest to a number, ties to even, computed with fractions."""
    if not math.isfinite(value) or value == 0:
        return value
    exact = abs(Fraction(value))
    exponent = max(math.frexp(value)[1] - 11, -24)
    unit = Fraction(2) ** exponent
    rounded = round(exact / unit) * unit
    magnitude = INFINITY if rounded > 65504 else float(rounded)
    return math.copysign(magnitude, value)


def test_float64_becomes_float16_with_one_rounding() -> None:
    half = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middle = ((half[:-1] + half[1:]) / 2)[::5]
    close = [np.nextafter(middle, 0), np.nextafter(middle, 1e9), middle * (1 + 2.0**-30), middle * (1 - 2.0**-30)]
    beyond = np.array([65504, 65519.999999999, 65520, 65536, 1e39, 1e308, 2.0**-25, 1e-8, 1e-40, 1e-310, 5e-324])
    x = np.concatenate([half, middle, *close, beyond, random_bits(5_000, np.float64), special_values(np.float64)])
    x = np.concatenate([x, -x])
    expected = np.array([nearest_float16(value) for value in x.tolist()]).astype(np.float16)
    actual = interpreted(mathematics.narrow_to_f16, x)
    assert actual.dtype == np.float16
    assert_same_values(actual, expected)
    assert_same_values(compiled(mathematics.narrow_to_f16, x), actual)
