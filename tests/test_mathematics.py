"""The grammar's mathematical functions: measured errors, special values, and the same bits compiled and interpreted."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from execution import assert_same_values

from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.expression import exponentials_and_logarithms, mathematics, trigonometry
from opendml.expression.element_types import F16, F32, F64, I64, ElementType
from opendml.expression.interpreter import NUMPY_TYPES, run_interpreted
from opendml.expression.ir import Axis, Expression, Tensor, cast, fused_multiply_add, in_range, index, load, select
from opendml.expression.statements import Compute, Definition, Store
from opendml.programs.binding import Binding
from opendml.programs.compilation import compile_definition
from opendml.targets.cpu.processor import host_processor

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
    type = next(t for t in (F16, F32, F64) if NUMPY_TYPES[t.name] == arrays[0].dtype)
    (result,) = run_interpreted(definition_of(function, arrays[0].size, type, len(arrays)), arrays)
    assert result is not None
    return result


def compiled(function: Function, *arrays: Array) -> Array:
    type = next(t for t in (F16, F32, F64) if NUMPY_TYPES[t.name] == arrays[0].dtype)
    definition = definition_of(function, arrays[0].size, type, len(arrays))
    bindings = [
        [Binding(t.name, TensorDesc(DATA_TYPES[t.type.name], t.sizes)) for t in tensors if t is not None]
        for tensors in (definition.inputs, definition.outputs)
    ]
    program = compile_definition(
        definition, inputs=bindings[0], outputs=bindings[1], in_place=False, target=host_processor(), thread_count=1
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
    return np.asarray(np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))))


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def by_element(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.fromiter(map(function, x.tolist()), np.float64, x.size).astype(x.dtype)


# Function, reference in the wider type, bound for float32 (in float64 arithmetic), bound for float64. Those of float32
# are the largest errors of all arguments (docs/semantics.md), those of float64 a little more than what samples gave.
FUNCTIONS: dict[str, tuple[Function, Callable[[Array], Array], float, float]] = {
    "exp": (mathematics.exp, np.exp, 0.9, 1.3),
    "expm1": (mathematics.expm1, np.expm1, 1.44, 1.9),
    "log": (mathematics.log, np.log, 0.88, 0.9),
    "log1p": (mathematics.log1p, np.log1p, 1.47, 1.45),
    "tanh": (mathematics.tanh, np.tanh, 1.98, 2.0),
    "sigmoid": (mathematics.sigmoid, sigmoid, 1.74, 2.0),
    "softplus": (mathematics.softplus, softplus, 1.89, 1.8),
    "erf": (mathematics.erf, by_element(math.erf), 1.6, 1.5),
    "sinh": (mathematics.sinh, np.sinh, 1.63, 1.7),
    "cosh": (mathematics.cosh, np.cosh, 1.35, 1.7),
    "asinh": (mathematics.asinh, np.arcsinh, 1.87, 1.8),
    "acosh": (mathematics.acosh, np.arccosh, 2.06, 2.1),
    "atanh": (mathematics.atanh, np.arctanh, 2.18, 2.0),
    "sin": (trigonometry.sin, np.sin, 1.17, 1.2),
    "cos": (trigonometry.cos, np.cos, 1.17, 1.2),
    "tan": (trigonometry.tan, np.tan, 1.78, 1.7),
    "asin": (trigonometry.asin, np.arcsin, 1.19, 1.2),
    "acos": (trigonometry.acos, np.arccos, 1.15, 1.2),
    "atan": (trigonometry.atan, np.arctan, 1.3, 1.3),
}


def exact_value(reference: Callable[[Array], Array], x: Array) -> Array:
    with np.errstate(all="ignore"):
        return reference(x.astype(np.float64 if x.dtype == np.float32 else WIDE))


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_float16(name: str) -> None:
    function, reference, bound, _ = FUNCTIONS[name]
    x = every_float16()
    assert_error(interpreted(function, x), exact_value(reference, x), bound, x)


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32(name: str) -> None:
    function, reference, bound, _ = FUNCTIONS[name]
    x = interesting(np.float32, 100_000)
    assert_error(compiled(function, x), exact_value(reference, x), bound, x)


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64(name: str) -> None:
    function, reference, _, bound = FUNCTIONS[name]
    x = interesting(np.float64, 50_000)
    slack = 0.0 if WIDE is not np.float64 and name != "erf" else 1.0
    assert_error(compiled(function, x), exact_value(reference, x), bound + slack, x)


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_code_gives_the_same_bits(name: str, dtype: Any) -> None:
    x = interesting(dtype, 2_000, seed=3)
    assert_same_values(compiled(FUNCTIONS[name][0], x), interpreted(FUNCTIONS[name][0], x))


@pytest.mark.sampled
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
    "sinh": [(INFINITY, INFINITY), (-INFINITY, -INFINITY), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN)],
    "cosh": [(INFINITY, INFINITY), (-INFINITY, INFINITY), (0.0, 1.0), (-0.0, 1.0), (NAN, NAN)],
    "asinh": [(INFINITY, INFINITY), (-INFINITY, -INFINITY), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN)],
    "acosh": [(INFINITY, INFINITY), (1.0, 0.0), (0.5, NAN), (-1.0, NAN), (-1e30, NAN), (-INFINITY, NAN), (NAN, NAN)],
    "atanh": [(1.0, INFINITY), (-1.0, -INFINITY), (1.5, NAN), (0.0, 0.0), (-0.0, -0.0), (INFINITY, NAN), (NAN, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INFINITY, NAN), (-INFINITY, NAN), (NAN, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INFINITY, NAN), (-INFINITY, NAN), (NAN, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INFINITY, NAN), (-INFINITY, NAN), (NAN, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-1.5, NAN), (INFINITY, NAN), (NAN, NAN)],
    "acos": [(1.0, 0.0), (1.5, NAN), (-1.5, NAN), (-INFINITY, NAN), (NAN, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (NAN, NAN)],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str, dtype: Any) -> None:
    arguments, results = (np.array(column, dtype) for column in zip(*LIMITS[name], strict=True))
    assert_same_values(interpreted(FUNCTIONS[name][0], arguments), results)


def exact_gelu(x: Array) -> Array:
    return np.array([v * 0.5 * math.erfc(-v / math.sqrt(2)) if math.isfinite(v) else v for v in x.tolist()])


def test_gelu() -> None:
    x = np.concatenate([np.linspace(-15, 15, 200_001), np.geomspace(1e-45, 1, 2001), -np.geomspace(1e-45, 1, 2001)])
    x = x.astype(np.float32)
    actual = compiled(mathematics.gelu, x)
    assert_error(actual, exact_gelu(x), 1.79, x)
    assert_same_values(interpreted(mathematics.gelu, x[::7]), actual[::7])
    special = np.array([INFINITY, -INFINITY, NAN, 0.0, -0.0, 1e38, -1e38], np.float32)
    expected = np.array([INFINITY, NAN, NAN, 0.0, -0.0, 1e38, -0.0], np.float32)
    assert_same_values(interpreted(mathematics.gelu, special), expected)


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*FUNCTIONS, "gelu"])
def test_every_float16_result_is_the_nearest(name: str) -> None:
    """The reference is NumPy's float64, nowhere so near to the middle of two float16 numbers as to be in doubt."""
    function, reference = (mathematics.gelu, exact_gelu) if name == "gelu" else FUNCTIONS[name][:2]
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        wide = reference(x.astype(np.float64))
        expected = wide.astype(np.float16)
        clear = (wide * (1 - 1e-14)).astype(np.float16) == (wide * (1 + 1e-14)).astype(np.float16)
        assert (clear | np.isnan(wide)).all()
    if name == "gelu":
        expected[np.isneginf(x)] = NAN
    actual = compiled(lambda v: cast(function(cast(v, F32)), F16), x)
    assert_same_values(actual, expected)
    few = x[::17]
    assert_same_values(interpreted(lambda v: cast(function(cast(v, F32)), F16), few), expected[::17])


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*FUNCTIONS, "gelu"])
def test_float16_arguments_have_float32_results(name: str) -> None:
    """What is added for the sake of float16 is right for what is computed further in float32, too."""
    function, reference, bound = (mathematics.gelu, exact_gelu, 1.79) if name == "gelu" else FUNCTIONS[name][:3]
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
    if name == "gelu":
        exact[np.isneginf(x)] = NAN
    assert_error(compiled(lambda v: function(cast(v, F32)), x), exact, max(bound, 1.0), x)


@pytest.mark.parametrize("function", [mathematics.exp, mathematics.log, trigonometry.sin])
def test_rare_branches_under_a_guard(function: Function) -> None:
    """The argument is only loaded where an index is inside; its rare values are computed apart."""
    count = 203
    generator = np.random.default_rng(18)
    x = generator.choice(np.array([1.0, 2.0, 1e-40, 1e30, NAN], np.float32), count)
    places = generator.integers(-50, count + 50, count)
    values = Tensor("x", F32, (count,), (1,), "input")
    indices = Tensor("n", I64, (count,), (1,), "input")
    target = Tensor("y", F32, (count,), (1,), "output")
    axis = Axis("i", count)
    place = load(indices, [index(axis)])
    value = select(in_range(place, count), function(load(values, [place])), -1.0)
    definition = Definition((values, indices), (target,), (Compute((axis,), (Store(target, (index(axis),), value),)),))
    (expected,) = run_interpreted(definition, [x, places])
    desc = {t.name: TensorDesc("int64" if t is indices else "float32", t.sizes) for t in (values, indices, target)}
    program = compile_definition(
        definition,
        inputs=[Binding(name, desc[name]) for name in "xn"],
        outputs=[Binding("y", desc["y"])],
        in_place=False,
        target=host_processor(),
        thread_count=1,
    )
    assert expected is not None
    assert_same_values(program(x, places), expected)


@pytest.mark.sampled
@pytest.mark.parametrize("level", ["avx2", "baseline"])
@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "log", "gelu"])
def test_older_processors_give_the_same_bits(name: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CPU_FEATURES", level)
    monkeypatch.setenv("OPENDML_CACHE", "0")
    function = mathematics.gelu if name == "gelu" else FUNCTIONS[name][0]
    for dtype in (np.float32,) if name == "gelu" else (np.float32, np.float64):
        x = interesting(dtype, 500, seed=4)
        assert_same_values(compiled(function, x), interpreted(function, x))


# ---------------------------------------------------------------------------------------------------------------------


# Numbers nearer to multiples of pi / 2 than their neighbours.
HARD_ANGLES = {
    np.float32: (16367173.0 * 2.0**72, 11520.75, 102943.7),
    np.float64: (6381956970095103.0 * 2.0**797, 5.706674932067741e17, 1.7976931348623157e308),
}


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_angles_of_all_sizes(dtype: Any) -> None:
    """Against mpmath, so that not even the argument reduction is shared."""
    mpmath = pytest.importorskip("mpmath")
    generator = np.random.default_rng(10)
    largest = math.log(float(np.finfo(dtype).max))
    quarters = generator.integers(1, 2**20, 150) * (math.pi / 2)
    x = np.concatenate([np.exp(generator.uniform(0, largest, 300)), quarters, HARD_ANGLES[dtype]]).astype(dtype)
    for name in ("sin", "cos", "tan"):
        bound = FUNCTIONS[name][3]
        with mpmath.workprec(1300):
            texts = [mpmath.nstr(getattr(mpmath, name)(mpmath.mpf(value)), 25) for value in x.tolist()]
        exact = np.array([np.longdouble(text) for text in texts])
        assert_error(compiled(FUNCTIONS[name][0], x), exact, bound, x)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_near_quarter_turns(name: str) -> None:
    """The float32 numbers around every multiple of pi / 2 that is reduced in three steps, and some beyond."""
    function, reference, bound, _ = FUNCTIONS[name]
    nearest = (np.arange(1, 8_000) * (math.pi / 2)).astype(np.float32)
    x = np.concatenate([(nearest.view(np.int32) + step).view(np.float32) for step in range(-3, 4)])
    assert_error(compiled(function, x), reference(x.astype(np.float64)), bound, x)


@pytest.mark.parametrize(("dtype", "wide"), [(np.float32, np.float64), (np.float64, WIDE)])
def test_atan2(dtype: Any, wide: Any) -> None:
    generator = np.random.default_rng(11)
    size = 20_000
    y = np.concatenate([random_bits(size, dtype, 12), generator.normal(0, 1, size).astype(dtype)])
    x = np.concatenate([random_bits(size, dtype, 13), generator.normal(0, 1, size).astype(dtype)])
    special = np.meshgrid(special_values(dtype), special_values(dtype))
    y, x = np.concatenate([y, special[0].ravel()]), np.concatenate([x, special[1].ravel()])
    with np.errstate(all="ignore"):
        exact = np.arctan2(y.astype(wide), x.astype(wide))
    actual = compiled(trigonometry.atan2, y, x)
    assert_error(actual, exact, 1.5 + (1.0 if wide is dtype else 0.0), y, x)
    assert_same_values(interpreted(trigonometry.atan2, y[::7], x[::7]), actual[::7])


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


@pytest.mark.sampled
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


# ---------------------------------------------------------------------------------------------------------------------


def rounded(exact: Fraction, dtype: Any) -> float:
    """The number of a type nearest to an exact one, ties to even; 0 has no sign."""
    limits = np.finfo(dtype)
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, int(limits.minexp)) - int(limits.nmant))
    nearest = round(magnitude / unit) * unit
    number = INFINITY if nearest >= Fraction(2) ** int(limits.maxexp) else float(nearest)
    return -number if exact < 0 else number


def awkward_triples(dtype: Any, count: int) -> tuple[Array, Array, Array]:
    """Random bits, cancelling products and sums, results around the smallest and the largest numbers, ties."""
    limits, generator = np.finfo(dtype), np.random.default_rng(14)
    two = dtype(2)

    def moderate() -> Array:
        return (generator.normal(0, 1, count) * 2.0 ** generator.integers(-3, 4, count)).astype(dtype)

    def scaled(low: int, high: int) -> Array:
        return np.asarray(moderate() * two ** generator.integers(low, high, count).astype(dtype))

    small, large = limits.minexp // 2, limits.maxexp // 2
    a, b = moderate(), moderate()
    whole = [generator.integers(-64, 64, count).astype(dtype) for _ in range(3)]
    subnormal = generator.integers(-8, 8, count) * limits.smallest_subnormal
    near_normal = generator.choice([-1, 1], count) * limits.tiny * (1 + generator.integers(-3, 3, count) * limits.eps)
    triples = [
        tuple(random_bits(count, dtype, seed) for seed in (15, 16, 17)),
        (a, b, -(a * b)),
        (a, b, -np.nextafter(a * b, dtype(0))),
        (whole[0] * two**-30, whole[1], whole[2] * two ** generator.integers(-40, 20, count).astype(dtype)),
        (scaled(small - 30, small + 5), scaled(small - 30, small + 5), subnormal.astype(dtype)),
        (scaled(small - 20, small), scaled(small - 20, small), near_normal.astype(dtype)),
        (scaled(large - 3, large + 3), scaled(large - 3, large + 3), -limits.max * generator.random(count)),
    ]
    x, y, z = zip(*triples, strict=True)
    first, second, third = (np.concatenate([part.astype(dtype) for part in parts]) for parts in (x, y, z))
    return first, second, third


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore:overflow")
def test_fused_multiply_add_rounds_once(dtype: Any) -> None:
    x, y, z = awkward_triples(dtype, 800)
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    x, y, z = x[finite], y[finite], z[finite]
    exact = [Fraction(a) * Fraction(b) + Fraction(c) for a, b, c in zip(*(v.tolist() for v in (x, y, z)), strict=True)]
    expected = np.array([rounded(value, dtype) for value in exact], dtype)
    actual = interpreted(fused_multiply_add, x, y, z)
    np.testing.assert_array_equal(actual, expected)
    assert (np.signbit(actual) == [value < 0 for value in exact])[[value != 0 for value in exact]].all()
    assert_same_values(compiled(fused_multiply_add, x, y, z), actual)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fused_multiply_add_of_special_values(dtype: Any) -> None:
    x, y, z = (v.ravel() for v in np.meshgrid(*[special_values(dtype)] * 3))
    wide = np.float64 if dtype is np.float32 else np.longdouble
    actual = interpreted(fused_multiply_add, x, y, z)
    assert_same_values(compiled(fused_multiply_add, x, y, z), actual)
    if np.finfo(wide).nmant > np.finfo(dtype).nmant:
        with np.errstate(all="ignore"):
            simple = x.astype(wide) * y.astype(wide) + z.astype(wide)
            special = ~(np.isfinite(x) & np.isfinite(y) & np.isfinite(z)) | (simple == 0)
            simple = simple.astype(dtype)
        assert_same_values(actual[special], simple[special])


@pytest.mark.parametrize("level", ["avx2", "baseline"])
def test_fused_multiply_add_without_an_instruction(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``baseline`` calls the C library's."""
    monkeypatch.setenv("OPENDML_CPU_FEATURES", level)
    monkeypatch.setenv("OPENDML_CACHE", "0")
    for dtype in (np.float32, np.float64):
        arguments = awkward_triples(dtype, 100)
        assert_same_values(compiled(fused_multiply_add, *arguments), interpreted(fused_multiply_add, *arguments))


@pytest.mark.parametrize(
    "function", [exponentials_and_logarithms.exp_of_sum, exponentials_and_logarithms.exp_of_negative]
)
def test_what_is_0_is_no_product_that_vanishes(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors take some hundred cycles for one, and scores that masks hide all have such exponentials."""
    hidden = np.array([-105, -1e3, -1e4, -3e38, -INFINITY], np.float32)
    exact = np.errstate
    monkeypatch.setattr(np, "errstate", lambda **_: exact(under="raise", over="ignore", invalid="ignore"))
    np.testing.assert_array_equal(interpreted(function, hidden), np.zeros(5, np.float32))
    with pytest.raises(FloatingPointError, match="underflow"):
        interpreted(lambda x: x * x, np.array([1e-30], np.float32))


@pytest.mark.parametrize("type", [np.float32, np.float64])
def test_exponentials_end_where_half_the_smallest_number_is(type: Any) -> None:
    """Above, they are subnormal numbers, and 0 below."""
    limits = np.finfo(type)
    least = math.log(2) * (limits.minexp - limits.nmant - 1)
    x = np.array([least + 0.01, least - 0.01, least - 0.4, least - 0.9, least - 1e4], type)
    expected = np.array([limits.smallest_subnormal, 0, 0, 0, 0], type)
    for actual in (interpreted(mathematics.exp, x), compiled(mathematics.exp, x)):
        np.testing.assert_array_equal(actual.view(f"u{x.itemsize}"), expected.view(f"u{x.itemsize}"))
