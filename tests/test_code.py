"""Every operation and conversion of the grammar, for every type: compiled code gives the interpreter's bits."""

from __future__ import annotations

import ctypes
import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from execution import assert_identical

from opendml.description.enums import TensorDataType
from opendml.description.errors import ConfigurationError
from opendml.description.tensor import TensorDesc
from opendml.expression.element_types import BOOL, ELEMENT_TYPES, F16, F32, F64, I64, U8, ElementType
from opendml.expression.folds import sum_of
from opendml.expression.interpreter import NUMPY_TYPES, interpret, run_interpreted
from opendml.expression.ir import (
    ARITHMETIC,
    COMPARISONS,
    Axis,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expression,
    FusedMultiplyAdd,
    Select,
    Tensor,
    Unary,
    binary,
    cast,
    constant,
    index,
    load,
    select,
    temporary,
    unary,
)
from opendml.expression.statements import Compute, Definition, Scatter, Store
from opendml.llvm.builder import Builder
from opendml.llvm.function_text import FunctionText
from opendml.llvm.host import host_machine
from opendml.llvm.native import assembly, compile_object, load_object
from opendml.llvm.values import Value, literal
from opendml.programs.binding import Binding
from opendml.programs.compilation import compile_definition
from opendml.programs.program import Program
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.processor import Processor, host_processor

Array = np.ndarray[Any, Any]

NUMBERS = [t for t in ELEMENT_TYPES.values() if t is not BOOL]
SIGNED = ("i8", "i16", "i32", "i64")
DATA_TYPES = {d.dtype: d for d in TensorDataType if d.name not in ("UNKNOWN", "UINT4", "INT4")}
LEVELS = ("native", "avx2", "baseline")


pytestmark = pytest.mark.usefixtures("no_cache")


def _target(level: str) -> Processor:
    try:
        return host_processor(level)
    except ConfigurationError as error:
        pytest.skip(str(error))


def _special(type: ElementType) -> list[Any]:
    """Values at which something changes, in ``type``."""
    dtype = NUMPY_TYPES[type.name]
    if type is BOOL:
        return [False, True]
    if type.is_float:
        info = np.finfo(dtype)
        exact = [float(2**n + d) for n in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, 0, 0.5, 1)]
        small = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.5, 1 / 3, 65504.0, 65519.0, 65520.0, 1e-7, math.pi]
        limits = [float(info.max), float(info.tiny), float(info.smallest_subnormal), math.inf]
        with np.errstate(over="ignore"):
            positive = np.array(small + exact + limits, dtype)
        return [*positive, *-positive, dtype.type("nan")]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    around = [2**n + d for n in range(0, type.bits, 3) for d in (-1, 0, 1)]
    numbers = {low, low + 1, high, high - 1, 0, 1, 2, 3, 5, 7, 10, type.bits - 1, type.bits, *around}
    numbers |= {-n for n in list(numbers)}
    return sorted(n for n in numbers if low <= n <= high)


def _array(type: ElementType, values: Sequence[Any]) -> Array:
    return np.array(values, NUMPY_TYPES[type.name])


Case = Callable[..., Expression]


def _definition(inputs: Sequence[Array], cases: Sequence[Case]) -> Definition:
    """Each case twice: for neighbouring points together, and point by point."""
    (length,) = {array.size for array in inputs}
    types = {dtype: ELEMENT_TYPES[name] for name, dtype in NUMPY_TYPES.items()}
    sources = [Tensor(f"x{n}", types[a.dtype], (length,), (1,), "input") for n, a in enumerate(inputs)]
    outputs: list[Tensor] = []
    statements: list[Compute | Scatter] = []
    for case in cases:
        for together in (True, False):
            axis = Axis("i", length)
            value = case(*(load(source, (index(axis),)) for source in sources))
            value = cast(value, U8) if value.type is BOOL else value
            target = Tensor(f"y{len(outputs)}", value.type, (length,), (1,), "output")
            store = Store(target, (index(axis),), value)
            outputs.append(target)
            always = index(axis) >= 0
            statements.append(Compute((axis,), (store,)) if together else Scatter((axis,), always, store))
    return Definition(tuple(sources), tuple(outputs), tuple(statements))


def _desc(tensor: Tensor) -> TensorDesc:
    return TensorDesc(DATA_TYPES[NUMPY_TYPES[tensor.type.name]], tensor.sizes)


def _compile(definition: Definition, target: Processor, threads: int = 1) -> Program:
    inputs = [Binding(t.name, _desc(t)) for t in definition.inputs if t is not None]
    outputs = [Binding(t.name, _desc(t)) for t in definition.outputs if t is not None]
    return compile_definition(
        definition, inputs=inputs, outputs=outputs, in_place=False, target=target, thread_count=threads
    )


def _check(inputs: Sequence[Array], cases: Sequence[Case], level: str = "native", any_nan: bool = True) -> None:
    definition = _definition(inputs, cases)
    expected = run_interpreted(definition, list(inputs))
    actual = _compile(definition, _target(level))(*inputs)
    for number, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert b is not None
        a, b = _without_nan(a, b) if any_nan and a.dtype.kind == "f" else (a, b)
        try:
            assert_identical(a, b)
        except AssertionError as error:
            way = "scalar" if number % 2 else "vector"
            raise AssertionError(f"case {number // 2}, {way}, {definition.statements[number]}") from error


def _without_nan(a: Array, b: Array) -> tuple[Array, Array]:
    """All NaN made the same: which one an operation gives is not defined."""
    nan = a.dtype.type("nan")
    return np.where(a != a, nan, a), np.where(b != b, nan, b)


# Operations ----------------------------------------------------------------------------------------------------------

FLOAT_ARITHMETIC = ("add", "sub", "mul", "div")


@pytest.mark.sampled
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type", NUMBERS, ids=repr)
def test_binary(type: ElementType, level: str) -> None:
    values = _special(type)
    a, b = (_array(type, side) for side in zip(*itertools.product(values, values), strict=True))
    operations = FLOAT_ARITHMETIC if type.is_float else ARITHMETIC
    cases = [lambda x, y, name=name: Binary(name, x, y) for name in (*operations, *COMPARISONS)]
    _check([a, b], cases, level)


@pytest.mark.sampled
@pytest.mark.parametrize("type", [t for t in NUMBERS if t.is_integer], ids=repr)
def test_binary_with_a_constant(type: ElementType) -> None:
    """Divisors and shift counts that are constants take other instructions."""
    values = _special(type)
    chosen = [*values[:3], *values[-3:], *(v for v in values if -9 < v < 65)]
    cases = [
        lambda x, name=name, v=v: Binary(name, x, constant(v, type))
        for name in ("div", "rem", "shl", "shr")
        for v in chosen
    ]
    _check([_array(type, values)], cases)


def test_binary_of_bool() -> None:
    a, b = (_array(U8, side) for side in zip(*itertools.product((0, 1, 255), repeat=2), strict=True))
    names = ("and", "or", "xor", *COMPARISONS)
    cases: list[Case] = [lambda x, y, name=name: Binary(name, cast(x, BOOL), cast(y, BOOL)) for name in names]
    cases += [lambda x, y: Unary("not", cast(x, BOOL)), lambda x, y: Select(cast(x, BOOL), y, x)]
    _check([a, b], cases)


@pytest.mark.sampled
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type", NUMBERS, ids=repr)
def test_unary(type: ElementType, level: str) -> None:
    of_floats = ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "round_even")
    operations = ("neg", "abs", "not") if type.is_integer else of_floats
    _check([_array(type, _special(type))], [lambda x, name=name: Unary(name, x) for name in operations], level)


@pytest.mark.sampled
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type", NUMBERS, ids=repr)
def test_cast(type: ElementType, level: str) -> None:
    targets = [t for t in ELEMENT_TYPES.values() if not (type is F64 and t is F16)]
    _check([_array(type, _special(type))], [lambda x, t=t: Cast(x, t) for t in targets], level)
    from_bool = [lambda x, t=t: Cast(cast(x, BOOL), t) for t in NUMBERS]
    _check([_array(type, _special(type))], from_bool, level)


@pytest.mark.parametrize("types", [("f16", "i16"), ("f32", "u32"), ("f64", "i64"), ("i8", "u8")])
def test_bitcast(types: tuple[str, str]) -> None:
    """Bits as they are, those of NaN included."""
    first, second = (ELEMENT_TYPES[name] for name in types)
    bits = np.random.default_rng(0).integers(0, 256, 1000 * first.bits // 8, np.uint8)
    a = bits.view(NUMPY_TYPES[first.name])
    _check([a], [lambda x: Bitcast(x, second)], any_nan=False)
    _check([a.view(NUMPY_TYPES[second.name])], [lambda x: Bitcast(x, first)], any_nan=False)


@pytest.mark.parametrize("type", NUMBERS, ids=repr)
def test_select_takes_one_side(type: ElementType) -> None:
    values = _special(type)
    a, b = (_array(type, side) for side in zip(*itertools.product(values, values), strict=True))
    _check([a, b], [lambda x, y: select(x < y, x, y), lambda x, y: select(x.differs(y), y, constant(1, type))])


@pytest.mark.parametrize("type", [F32, F64], ids=repr)
def test_code_calls_the_functions_of_c99_only(type: ElementType) -> None:
    """What the oldest processors have no instruction for is found in the C library of every system."""
    operations = ("sqrt", "floor", "ceil", "trunc", "round_even")
    cases: list[Case] = [lambda x, y, name=name: Unary(name, x) for name in operations]
    cases += [lambda x, y: FusedMultiplyAdd(x, y, x), lambda x, y: Binary("div", x, y)]
    cases += [lambda x, y, t=t: cast(cast(x, t), type) for t in ELEMENT_TYPES.values()]
    array = _array(type, _special(type))
    target = _target("baseline")
    modules = generate(_definition([array, array], cases), target, in_place=False).modules
    text = "\n".join(assembly(module, target.machine) for module in modules)
    called = set(re.findall(r"\b(?:call|jmp|callq|jmpq|bl|b)\s+_?([a-z]\w*)", text))
    called -= set(re.findall(r"^_?(\w+):", text, re.MULTILINE))
    known = {"sqrt", "floor", "ceil", "trunc", "rint", "fma", "memcpy", "memset"}
    assert called <= known | {f"{name}f" for name in known}, called


def test_fused_multiply_add_is_one_instruction() -> None:
    builder = Builder()
    x = Value("%x", F32)
    builder.fused_multiply_add(x, builder.spread(x, 4), x)
    assert "@llvm.fma.v4f32" in builder.lines[-1]


# Constants -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("type", ELEMENT_TYPES.values(), ids=repr)
def test_literals_are_exact(type: ElementType) -> None:
    """Constants of every kind, NaN with payloads included, arrive bit for bit."""
    consts = [constant(v, type) for v in _special(type)]
    if type.is_float:
        exponent = {16: 0x7C00, 32: 0x7F800000, 64: 0x7FF0000000000000}[type.bits]
        # Quiet ones: moving a signalling NaN through a register may quieten it.
        quiet = {16: 0x200, 32: 0x400000, 64: 0x8000000000000}[type.bits]
        consts += [Const(exponent | quiet | n, type) for n in (0, 1, 77)]
        consts += [Const((1 << (type.bits - 1)) | exponent | quiet | 5, type)]
    _check([_array(U8, [0] * 40)], [lambda x, c=c: select(x > 0, constant(0, type), c) for c in consts], any_nan=False)


@pytest.mark.sampled
@pytest.mark.parametrize("type", [t for t in ELEMENT_TYPES.values() if not t.is_float], ids=repr)
def test_constants_are_folded_as_they_are_computed(type: ElementType) -> None:
    values = _special(type)
    values = values[:: max(1, len(values) // 12)]
    operations = ("and", "or", "xor", *COMPARISONS) if type is BOOL else (*ARITHMETIC, *COMPARISONS)
    for name, a, b in itertools.product(operations, values, values):
        left, right = constant(a, type), constant(b, type)
        assert _value(binary(name, left, right)) == _value(Binary(name, left, right)), (name, a, b)
    for a, target in itertools.product(values, ELEMENT_TYPES.values()):
        folded, computed = cast(constant(a, type), target), Cast(constant(a, type), target)
        np.testing.assert_array_equal(_value(folded), _value(computed))


@pytest.mark.sampled
@pytest.mark.parametrize("type", [t for t in NUMBERS if t.is_integer], ids=repr)
def test_simplifications_change_nothing(type: ElementType) -> None:
    variables = [_special(type)[n] for n in (0, 1, -1)]
    for name, number, c in itertools.product(ARITHMETIC, variables, (0, 1, -1, 2)):
        x = Unary("neg", Unary("neg", constant(number, type)))  # not folded
        for a, b in ((x, constant(c, type)), (constant(c, type), x)):
            assert _value(binary(name, a, b)) == _value(Binary(name, a, b)), (name, number, c)


@pytest.mark.sampled
@pytest.mark.parametrize("type", [t for t in NUMBERS if t.is_float], ids=repr)
def test_what_is_denied_of_numbers_is_one_comparison(type: ElementType) -> None:
    special = _special(type)
    for name, limit, number in itertools.product(("lt", "le", "gt", "ge"), special, special):
        x, c = Unary("neg", constant(-number, type)), constant(limit, type)
        for left, right in ((x, c), (c, x)):
            denied, ordered = ~Binary(name, left, right), Binary("eq", x, x)
            for found in (denied & ordered, ordered & denied):
                assert _value(found) == _value(Binary("and", denied, ordered)), (name, number, limit)
                assert isinstance(found, Binary)
                assert (found.operation in COMPARISONS) == (limit == limit), (name, limit)


def test_what_is_denied_of_anything_else_stays() -> None:
    x, y, c = (Unary("neg", constant(number, F32)) for number in (1.0, 2.0, 3.0))
    limit = constant(6.0, F32)
    for denied, ordered in (
        (~Binary("ge", y, x), Binary("eq", x, x)),
        (~Binary("ge", limit, x), Binary("eq", y, y)),
        (~Binary("ge", limit, x), Binary("eq", x, c)),
        (~Binary("eq", limit, x), Binary("eq", x, x)),
        (Binary("ge", limit, x), Binary("eq", x, x)),
    ):
        assert (denied & ordered).children == (denied, ordered)


def _value(e: Expression) -> Any:
    tensor = temporary("t", e.type, [1])
    buffer = np.zeros(1, NUMPY_TYPES[e.type.name])
    interpret(Definition((), (tensor,), (Compute((), (Store(tensor, (constant(0, I64),), e),)),)), {tensor: buffer})
    return buffer[0]


# The writer of text --------------------------------------------------------------------------------------------------


def test_literals() -> None:
    assert literal(constant(-1, ELEMENT_TYPES["u8"])) == "-1"
    assert literal(constant(1.5, F16)) == "0xH3E00"
    assert literal(constant(0.1, F32)) == "0x3FB99999A0000000"
    assert literal(constant(-0.0, F64)) == "0x8000000000000000"
    assert literal(constant(True, BOOL)) == "true"


def test_lines_are_written_where_there_is_room_for_them() -> None:
    """Of what was known there: values that are younger, whatever their names, and no arguments, are not."""
    text = FunctionText()
    before = text.assign("add i64 %p9, 1")
    here = text.lines_here()
    behind = f"%{text.fresh('i')}"
    assert [here.knows(name) for name in ("%thread", before, behind)] == [True, True, False]
    text.line("br label %next")
    made = here.assign(f"mul i64 {before}, 2")
    assert not here.knows(made)
    here.assign(f"mul i64 {made}, 3")
    lines = "\n".join(text.lines).splitlines()
    assert [line.split("=")[-1].strip() for line in lines] == [
        "add i64 %p9, 1",
        f"mul i64 {before}, 2",
        f"mul i64 {made}, 3",
        "br label %next",
    ]


def test_a_scalar_is_spread_only_where_needed() -> None:
    builder = Builder()
    number = builder.constant(constant(3, F32))
    assert builder.spread(number, 1) is number
    assert builder.spread(number, 8).llvm_type == "<8 x float>"
    assert builder.lines == []
    with pytest.raises(ValueError, match="lanes"):
        builder.spread(Value("%x", F32, 4), 8)


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize(("type", "side"), [(F32, 2), (F32, 8), (F32, 16), (U8, 16), (U8, 64), (F64, 8)])
def test_squares_are_transposed(type: ElementType, side: int, fenced: bool) -> None:
    """With fences behind the shuffles of float32, where there are some, and without; with 16 lanes once in any case."""
    builder, kind = Builder(), Value("", type, side).llvm_type
    places = [f"getelementptr {kind}, ptr %p, i64 {n}" for n in range(side)]
    rows = [Value(builder.assign(f"load {kind}, ptr {builder.assign(p)}, align 1"), type, side) for p in places]
    columns = builder.transposed(rows, fenced=fenced)
    for place, column in zip(places, columns, strict=True):
        builder.line(f"store {column.typed}, ptr {builder.assign(place)}, align 1")
    lines = "\n".join([*sorted(builder.declarations), "define void @f(ptr %p) {", *builder.lines, "ret void", "}"])
    assert ("@llvm.arithmetic.fence" in lines) == ((fenced or side == 16) and type is F32)
    matrix = np.arange(side * side).reshape(side, side).astype(NUMPY_TYPES[type.name])
    loaded = load_object(compile_object(lines + "\n", host_machine()), ["f"])
    expected = matrix.T.copy()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded["f"])(matrix.ctypes.data)
    np.testing.assert_array_equal(matrix, expected)


def test_unary_is_what_python_writes() -> None:
    x = Const(5, I64)
    assert unary("neg", x) == -x


def test_steps_beyond_a_count_are_not_taken() -> None:
    """Of a fold of 2**80 steps those are taken that its counts allow, interpreted and compiled."""
    counts, total = Tensor("counts", I64, (3,), (1,), "input"), Tensor("total", I64, (3,), (1,), "output")
    point, taps = Axis("i", 3), (Axis("y", 2**40), Axis("x", 2**40))
    count = load(counts, (index(point),))
    where = (index(taps[0]) < count) & (index(taps[1]) < count - 1)
    value = sum_of(taps, index(taps[0]) + 1, where)
    definition = Definition((counts,), (total,), (Compute((point,), (Store(total, (index(point),), value),)),))
    given_counts = np.array([3, -1, 2])
    (interpreted,) = run_interpreted(definition, [given_counts])
    assert interpreted is not None and interpreted.tolist() == [12, 0, 3]
    program = _compile(definition, host_processor())
    found = np.zeros(3, np.int64)
    program.bind([given_counts], [found])()
    assert found.tolist() == [12, 0, 3]
