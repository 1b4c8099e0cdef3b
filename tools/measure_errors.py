"""Measure the errors of the mathematical functions: every float16 and every float32 argument, the others in samples.

    python tools/measure_errors.py [--step 1] [--samples 200000] [--processes 1] [function ...]

prints a Markdown table. For every function: how many of the 65536 float16 arguments (or of the sampled pairs) do not
give the float16 number nearest to the exact result, and the largest error in float32 and in float64, in units in the
last place, with the argument where it was found. All of it is the compiled code. With a step of 1 every float32
argument is tried, of odd and even functions those without a sign; that takes some minutes a function and processor.

The reference is NumPy in float64 (for ``erf`` and ``gelu`` Python's ``math``) for float16 and float32, and for float64
the C library's ``long double``, where that is wider, or mpmath, if it is installed.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.expression import mathematics, trigonometry
from opendml.expression.element_types import F16, F32, F64, ElementType
from opendml.expression.ir import Axis, Expression, Tensor, cast, index, load
from opendml.expression.statements import Compute, Definition, Store
from opendml.operators.definition import widen
from opendml.programs.binding import Binding
from opendml.programs.compilation import compile_definition
from opendml.programs.program import Program
from opendml.targets.cpu.processor import host_processor

Array = npt.NDArray[Any]
Reference = Callable[..., Array]

PARTS: Final = 64
CHUNK: Final = 1 << 18
HAS_WIDER: Final = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant
DATA_TYPES: Final = {F16: TensorDataType.FLOAT16, F32: TensorDataType.FLOAT32, F64: TensorDataType.FLOAT64}
NUMPY_TYPES: Final = {F16: np.float16, F32: np.float32, F64: np.float64}


def main() -> None:
    """Print one row a function, as soon as it is measured."""
    parser = argparse.ArgumentParser(description="Measure the errors of the mathematical functions.")
    parser.add_argument("functions", nargs="*", choices=[*FUNCTIONS, []], help="by default all")
    parser.add_argument("--step", type=int, default=1, help="try every step-th float32 argument")
    parser.add_argument("--samples", type=int, default=200_000, help="how many arguments to try otherwise")
    parser.add_argument("--processes", type=int, default=1, help="how many processes to share the work among")
    options = parser.parse_args()
    names = options.functions or list(FUNCTIONS)
    tasks = [task for name in names for task in tasks_of(name, options.step, options.samples)]
    print("| function | float16 not nearest | float32 | at | float64 | at |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, group in itertools.groupby(measured(tasks, options.processes), lambda pair: pair[0].name):
        worst: dict[int, Worst] = {}
        for task, found in group:
            worst[task.bits] = max(worst.get(task.bits, found), found)
        print(f"| {name} | {worst[16]} | {worst[32]} | {worst[64]} |", flush=True)


def measured(tasks: Sequence[Task], processes: int) -> Iterator[tuple[Task, Worst]]:
    """The tasks, in order, with what was measured."""
    if processes == 1:
        yield from ((task, task.measure()) for task in tasks)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from zip(tasks, pool.map(Task.measure, tasks), strict=True)


def tasks_of(name: str, step: int, samples: int) -> list[Task]:
    """What is to be measured of a function, in parts."""
    function = FUNCTIONS[name]
    parts = PARTS if function.pairs is None else 1
    single = [Task(name, 32, step, samples, part, parts) for part in range(parts)]
    return [Task(name, 64, step, samples), *single, Task(name, 16, step, samples)]


@dataclass(frozen=True)
class Function:
    """What to measure, and with what to compare it."""

    function: Callable[..., Expression]
    reference: Reference
    exact: str
    """The name of mpmath's function."""
    symmetric: bool = False
    """Whether f(-x) = f(x) or f(-x) = -f(x)."""
    pairs: Callable[[np.random.Generator, int, type[Any]], tuple[Array, Array]] | None = None
    """For a function of two arguments: samples of them."""
    in_float64: bool = True

    @property
    def arguments(self) -> int:
        """How many arguments the function has."""
        return 1 if self.pairs is None else 2


class Worst(NamedTuple):
    """The largest error, and where it is."""

    error: float
    place: str

    def __str__(self) -> str:
        return self.place if math.isnan(self.error) else f"{self.error:.3f} | {self.place}"


@dataclass(frozen=True)
class Task:
    """A function to be measured in the type of so many bits, or one of several parts of its float32 arguments."""

    name: str
    bits: int
    step: int
    samples: int
    part: int = 0
    parts: int = 1

    def measure(self) -> Worst:
        """The largest error; for float16 only how many results are not the nearest."""
        function = FUNCTIONS[self.name]
        if self.bits == 32:
            return float32_error(self)
        if self.bits == 64:
            return float64_error(function, self.samples)
        return Worst(math.nan, float16_failures(function, self.samples))


# Errors ------------------------------------------------------------------------------------------------------------


def float16_failures(function: Function, samples: int) -> str:
    """How many float16 results are not the nearest ones, and of how many arguments."""
    if function.pairs is None:
        arguments: tuple[Array, ...] = (np.arange(1 << 16, dtype=np.uint16).view(np.float16),)
    else:
        arguments = function.pairs(np.random.default_rng(1), samples, np.float16)
    result = program(function.function, F16, arguments[0].size, function.arguments)(*arguments)
    exact = evaluate(function.reference, arguments, np.float64)
    # The reference is not exact either: where it is as good as midway, both neighbours will do.
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float16)
        neighbours = [(exact * (1 + slack)).astype(np.float16) for slack in (-1e-14, 1e-14)]
    right = functools.reduce(np.logical_or, (result == value for value in (nearest, *neighbours)))
    right |= np.isnan(result) & np.isnan(nearest)
    right &= (result != 0) | (np.signbit(result) == np.signbit(nearest)) | (nearest != 0)
    return f"{int((~right).sum())} of {result.size}"


def float32_error(task: Task) -> Worst:
    """The largest error among all arguments of a part, or among sampled pairs."""
    function, worst = FUNCTIONS[task.name], Worst(0.0, "")
    for arguments in float32_arguments(task):
        result = program(function.function, F32, arguments[0].size, function.arguments)(*arguments)
        worst = max(worst, largest_error(result, evaluate(function.reference, arguments, np.float64), arguments))
    return worst


def float32_arguments(task: Task) -> Iterator[tuple[Array, ...]]:
    """All numbers from 0 to infinity and NaN, then those with a sign, a part of them; or pairs."""
    function = FUNCTIONS[task.name]
    if function.pairs is not None:
        yield function.pairs(np.random.default_rng(2), task.samples, np.float32)
        return
    size = (1 << (31 if function.symmetric else 32)) // task.parts
    end = (task.part + 1) * size
    for start in range(task.part * size, end, CHUNK * task.step):
        bits = np.arange(start, min(start + CHUNK * task.step, end), task.step, dtype=np.uint32)
        yield (bits.view(np.float32),)


def float64_error(function: Function, samples: int) -> Worst:
    """The largest error among samples."""
    if not function.in_float64:
        return Worst(math.nan, "not offered | ")
    generator = np.random.default_rng(3)
    arguments: tuple[Array, ...] = (float64_samples(generator, samples),)
    if function.pairs is not None:
        arguments = function.pairs(generator, samples, np.float64)
    if HAS_WIDER and function.reference is not erf:
        exact = evaluate(function.reference, arguments, np.longdouble)
    else:
        arguments = tuple(argument[:: max(1, argument.size // 20_000)] for argument in arguments)
        exact = evaluate_slowly(function.exact, arguments)
    result = program(function.function, F64, arguments[0].size, function.arguments)(*arguments)
    return largest_error(result, exact, arguments)


def float64_samples(generator: np.random.Generator, count: int) -> Array:
    """Random bits, magnitudes of all sizes, and numbers where functions change."""
    bits = generator.integers(0, 1 << 64, count, np.uint64).view(np.float64)
    signs = generator.choice([-1.0, 1.0], count)
    parts = [bits, np.exp(generator.uniform(-40, 20, count)) * signs, generator.uniform(-1, 1, count)]
    parts += [generator.uniform(low, high, count) for low, high in ((0.5, 2), (-20, 20), (-750, 715))]
    return np.concatenate(parts)


def largest_error(result: Array, exact: Array, arguments: Sequence[Array]) -> Worst:
    """In units in the last place of the type of ``result``; infinite where one is NaN or infinite and the other not."""
    limits = np.finfo(result.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(result.dtype)
        different = np.flatnonzero(~((result == rounded) & (result != 0) | np.isnan(result) & np.isnan(rounded)))
        actual, expected = result[different], exact[different]
        exponent = np.maximum(np.frexp(expected)[1] - 1, limits.minexp) - limits.nmant
        error = np.abs(np.ldexp(actual.astype(exact.dtype) - expected, -exponent)).astype(np.float64)
    special = ~(np.isfinite(rounded[different]) & np.isfinite(actual))
    zeros = (actual == 0) & (rounded[different] == 0)
    error[special] = np.where(actual[special] == rounded[different][special], 0, np.inf)
    error[zeros] = np.where(np.signbit(actual) == np.signbit(rounded[different]), error, np.inf)[zeros]
    if not error.size:
        return Worst(0.5, "")
    place = different[int(error.argmax())]
    return Worst(float(error.max()), ", ".join(str(argument[place]) for argument in arguments))


# Programs and references -------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def program(function: Callable[..., Expression], type: ElementType, count: int, arguments: int) -> Program:
    """The compiled function of ``count`` numbers. float16 functions of two arguments go through float64."""
    sources = [Tensor(f"x{number}", type, (count,), (1,), "input") for number in range(arguments)]
    target = Tensor("y", type, (count,), (1,), "output")
    axis = Axis("i", count)
    values = [load(source, [index(axis)]) for source in sources]
    if type is F16 and arguments == 2:
        value = mathematics.narrow_to_f16(mathematics.without_last_bits(function(*(cast(v, F64) for v in values))))
    else:
        value = cast(function(*map(widen, values)), type)
    statement = Compute((axis,), (Store(target, (index(axis),), value),))
    desc = TensorDesc(DATA_TYPES[type], (count,))
    return compile_definition(
        Definition(tuple(sources), (target,), (statement,)),
        inputs=[Binding(source.name, desc) for source in sources],
        outputs=[Binding(target.name, desc)],
        in_place=False,
        target=host_processor(),
        thread_count=1,
    )


def evaluate(reference: Reference, arguments: Sequence[Array], wide: type[Any]) -> Array:
    """The reference in a wider type."""
    with np.errstate(all="ignore"):
        return reference(*(argument.astype(wide) for argument in arguments))


def evaluate_slowly(name: str, arguments: Sequence[Array]) -> Array:
    """mpmath's function, as long double or as float64."""
    import mpmath

    mpmath.mp.prec = 1200
    function = getattr(mpmath, name)

    def value(*numbers: float) -> Any:
        if not all(map(math.isfinite, numbers)):
            return np.longdouble(getattr(math, name)(*numbers)) if hasattr(math, name) else np.longdouble(math.nan)
        result = function(*map(mpmath.mpf, numbers))
        return np.longdouble(mpmath.nstr(result, 25)) if isinstance(result, mpmath.mpf) else np.longdouble(math.nan)

    return np.array([value(*place) for place in zip(*(a.tolist() for a in arguments), strict=True)], np.longdouble)


def sigmoid(x: Array) -> Array:
    """The logistic function."""
    return np.asarray(np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))))


def softplus(x: Array) -> Array:
    """``log(1 + exp(x))``."""
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def erf(x: Array) -> Array:
    """The error function; near 0 two terms of its series are enough."""
    result = (2 / math.sqrt(math.pi)) * x * (1 - x * x / 3)
    large = ~(np.abs(x) < 2.0**-13)
    result[large] = np.fromiter(map(math.erf, x[large].tolist()), np.float64)
    return np.asarray(result)


def gelu(x: Array) -> Array:
    """``x`` times the normal distribution function; near 0 by its series."""
    result = x * (0.5 + x / math.sqrt(2 * math.pi))
    large = ~(np.abs(x) < 2.0**-17)
    distribution = np.fromiter(map(math.erfc, (x[large] * -math.sqrt(0.5)).tolist()), np.float64) / 2
    result[large] = x[large] * distribution
    return np.asarray(result)


def points(generator: np.random.Generator, count: int, dtype: type[Any]) -> tuple[Array, Array]:
    """Points of the plane: random bits, near the origin, far away, near the axes."""
    bits = f"u{np.dtype(dtype).itemsize}"
    raw = [generator.integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(dtype) for _ in range(2)]
    limit = np.log(float(np.finfo(dtype).max)) / 2
    sized = [np.exp(generator.uniform(-limit, limit, count)) * generator.choice([-1, 1], count) for _ in range(2)]
    plain = [generator.normal(0, 1, count) for _ in range(2)]
    pairs = zip(raw, sized, plain, strict=True)
    y, x = (np.concatenate([part.astype(dtype) for part in parts]) for parts in pairs)
    return y, x


def powers(generator: np.random.Generator, count: int, dtype: type[Any]) -> tuple[Array, Array]:
    """Bases and exponents: random bits, moderate ones, negative bases with integers, results near the limits."""
    bits = f"u{np.dtype(dtype).itemsize}"
    raw = [generator.integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(dtype) for _ in range(2)]
    x = generator.uniform(0.01, 4, count)
    limit = np.log(float(np.finfo(dtype).max)) * 1.1
    bases = [raw[0], x, -x, x]
    exponents = [raw[1], generator.uniform(-20, 20, count), generator.integers(-30, 30, count)]
    exponents.append(generator.uniform(-limit, limit, count) / np.log(x))
    with np.errstate(over="ignore"):
        first, second = (np.concatenate([part.astype(dtype) for part in parts]) for parts in (bases, exponents))
    return first, second


FUNCTIONS: Final = {
    "exp": Function(mathematics.exp, np.exp, "exp"),
    "expm1": Function(mathematics.expm1, np.expm1, "expm1"),
    "log": Function(mathematics.log, np.log, "log"),
    "log1p": Function(mathematics.log1p, np.log1p, "log1p"),
    "sigmoid": Function(mathematics.sigmoid, sigmoid, "sigmoid"),
    "softplus": Function(mathematics.softplus, softplus, "softplus"),
    "tanh": Function(mathematics.tanh, np.tanh, "tanh", symmetric=True),
    "sinh": Function(mathematics.sinh, np.sinh, "sinh", symmetric=True),
    "cosh": Function(mathematics.cosh, np.cosh, "cosh", symmetric=True),
    "asinh": Function(mathematics.asinh, np.arcsinh, "asinh", symmetric=True),
    "acosh": Function(mathematics.acosh, np.arccosh, "acosh"),
    "atanh": Function(mathematics.atanh, np.arctanh, "atanh", symmetric=True),
    "erf": Function(mathematics.erf, erf, "erf", symmetric=True),
    "gelu": Function(mathematics.gelu, gelu, "", in_float64=False),
    "sin": Function(trigonometry.sin, np.sin, "sin", symmetric=True),
    "cos": Function(trigonometry.cos, np.cos, "cos", symmetric=True),
    "tan": Function(trigonometry.tan, np.tan, "tan", symmetric=True),
    "asin": Function(trigonometry.asin, np.arcsin, "asin", symmetric=True),
    "acos": Function(trigonometry.acos, np.arccos, "acos"),
    "atan": Function(trigonometry.atan, np.arctan, "atan", symmetric=True),
    "atan2": Function(trigonometry.atan2, np.arctan2, "atan2", pairs=points),
    "pow": Function(mathematics.pow, np.power, "power", pairs=powers),
}


if __name__ == "__main__":
    main()
