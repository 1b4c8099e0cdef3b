"""Instructions of processors: that each means what its body says, on this machine, and touches nothing else; that nests
run these bodies; and that roots are exact whatever estimates a processor has."""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execution import guarded_buffer

import opendml as dml
from opendml.expression.affine import Affine, Element
from opendml.expression.element_types import BOOL, F32, I32, U8, ElementType
from opendml.expression.integer_folding import WORD_DOTS
from opendml.expression.interpreter import NUMPY_TYPES
from opendml.expression.ir import WORD_PRODUCTS, Axis, Binary, Tensor, Variable, binary, constant, unary
from opendml.llvm.builder import Builder
from opendml.llvm.foreign import compile_foreign
from opendml.llvm.host import LEVELS, Machine, host_machine, machine_of
from opendml.llvm.native import LoadedObject, assembly, compile_object, load_object
from opendml.llvm.values import Value, vector_type
from opendml.loops.instructions import Instruction, Instructions
from opendml.loops.nest import Accumulate, At, Body, ElementStore, Leaf, Loop, Nest, Points
from opendml.loops.nest_interpreter import run_nest
from opendml.loops.nest_printer import format_nest
from opendml.targets.cpu.instructions.bytes import JOINED
from opendml.targets.cpu.instructions.machine import INSTRUCTIONS, machine_instructions
from opendml.targets.cpu.instructions.registers import by_registers
from opendml.targets.cpu.instructions.roots import ERROR, ESTIMATE, LEAST, ROOT, corrected
from opendml.targets.cpu.instructions.tiles import TILE_PRODUCTS

Array = np.ndarray[Any, Any]

# On this machine -----------------------------------------------------------------------------------------------------


@functools.cache
def _machine_for(instruction: Instruction) -> Machine | None:
    """The oldest kind of machine that has an instruction, if this one is of that kind."""
    host = host_machine()
    if not set(instruction.features) <= set(host.features):
        return None
    if host.architecture == "x86_64":
        for level in ("baseline", "avx2", "avx512"):
            if set(instruction.features) <= set(LEVELS[level].features) <= set(host.features):
                return host_machine(level)
    return host


HERE = [i for i in INSTRUCTIONS if _machine_for(i) is not None and i not in TILE_PRODUCTS]
"""But those of tile registers, which are no vectors: ``test_amx.py`` has them."""
OF: dict[str, list[Instruction]] = {
    operation: [i for i in HERE if i.operation == operation] for operation in sorted({i.operation for i in HERE})
}

SEEN = {
    "dot2": "pmaddwd|vpdpwssd",
    "dot4": "vpdpbusd|usdot|sdot",
    "dot4_saturating": "vpmaddubsw",
    "multiply-add": "vfmadd231ps",
    "estimate": "vrsqrt14ps",
    "sqrt": "vrsqrt14ps",
    "load": r"\{%k\d\} \{z\}|maskmov",
    "gather": "gather",
    "store": r"\{%k\d\}",
    "stream": "movnt|stnp",
    "prefetch": "prefetch|prfm",
    "round": "vcvtps2dq",
    "bytes": "vpackuswb",
}
"""What is in the listing of a function that uses an instruction."""


def _pointer(number: int, offset: str, type: str, builder: Builder) -> str:
    return builder.assign(f"getelementptr {type}, ptr %p{number}, i64 {offset}")


def _vector(builder: Builder, number: int, type: ElementType, lanes: int, offset: str = "0") -> Value:
    place = _pointer(number, offset, vector_type(type, 1), builder)
    return Value(builder.assign(f"load {vector_type(type, lanes)}, ptr {place}, align 1"), type, lanes)


def _mask(builder: Builder, number: int, lanes: int) -> Value:
    bytes_ = _vector(builder, number, U8, lanes)
    return Value(builder.assign(f"icmp ne {bytes_.typed}, zeroinitializer"), BOOL, lanes)


def _write_computation(builder: Builder, instruction: Instruction, registers: int = 1) -> None:
    """``p0[i] = instruction(p1[i], ...)`` for as many elements as its last parameter says."""
    lanes, type = instruction.lanes * registers, instruction.type
    inputs = 3 if instruction.operation in (*WORD_PRODUCTS, "multiply-add") else 1

    def step(i: str, _: list[Value]) -> list[Value]:
        operands = [_vector(builder, 1 + n, type, lanes, i) for n in range(inputs)]
        whole = instruction.operation == "sqrt"  # which asks once for all of its registers
        result = instruction.write(builder, *operands) if whole else by_registers(builder, instruction, *operands)
        builder.line(f"store {result.typed}, ptr {_pointer(0, i, vector_type(type, 1), builder)}, align 1")
        return []

    builder.loop("0", "%threads", lanes, [], step)


def _write_rounding(builder: Builder, instruction: Instruction) -> None:
    """``p0 = instruction(p1)``, of one register."""
    value = instruction.write(builder, _vector(builder, 1, F32, instruction.lanes))
    builder.line(f"store {value.typed}, ptr %p0, align 1")


def _write_bytes(builder: Builder, instruction: Instruction) -> None:
    """``p0 = instruction(p1...)``, of registers that lie behind one another."""
    lanes = instruction.lanes // JOINED
    words = [_vector(builder, 1, I32, lanes, str(n * lanes)) for n in range(JOINED)]
    builder.line(f"store {instruction.write(builder, *words).typed}, ptr %p0, align 1")


def _write_load(builder: Builder, instruction: Instruction) -> None:
    """``p0 = p1[lanes]`` where ``p2``."""
    mask = _mask(builder, 2, instruction.lanes)
    value = instruction.write(builder, instruction.type, "%p1", mask, 1)
    builder.line(f"store {value.typed}, ptr %p0, align 1")


def _write_gather(builder: Builder, instruction: Instruction) -> None:
    """``p0 = p1[p3]`` where ``p2``, which decides what lanes left out are as well."""
    lanes, type = instruction.lanes, instruction.type
    places = builder.assign(f"load <{lanes} x i64>, ptr %p3, align 1")
    pointers = builder.assign(f"getelementptr {vector_type(type, 1)}, ptr %p1, <{lanes} x i64> {places}")
    mask = _mask(builder, 2, lanes)
    value = instruction.write(builder, type, pointers, mask, 1)
    zero = builder.spread(builder.constant(constant(0, type)), lanes)
    builder.line(f"store {builder.select(mask, value, zero).typed}, ptr %p0, align 1")


def _write_store(builder: Builder, instruction: Instruction) -> None:
    """``p1[lanes] = p0`` where ``p2``."""
    value = _vector(builder, 0, instruction.type, instruction.lanes)
    instruction.write(builder, value, "%p1", _mask(builder, 2, instruction.lanes))


def _write_stream(builder: Builder, instruction: Instruction) -> None:
    value = _vector(builder, 0, instruction.type, instruction.lanes)
    instruction.write(builder, value, "%p1", instruction.size)


WRITERS: dict[str, Callable[[Builder, Instruction], None]] = {
    "load": _write_load,
    "gather": _write_gather,
    "store": _write_store,
    "stream": _write_stream,
    "round": _write_rounding,
    "bytes": _write_bytes,
    "prefetch": lambda builder, instruction: instruction.write(builder, "%p1"),
}


def _function(name: str, write: Callable[[Builder], None]) -> tuple[str, set[str]]:
    builder = Builder()
    write(builder)
    parameters = "ptr %p0, ptr %p1, ptr %p2, ptr %p3, i64 %threads"
    lines = [f"define void @{name}({parameters}) nounwind {{", "entry:", *builder.lines, "  ret void", "}"]
    return "\n".join(lines), builder.declarations


def _module(functions: Sequence[tuple[str, set[str]]]) -> str:
    declarations = sorted({line for _, needed in functions for line in needed})
    return "\n".join([*(text for text, _ in functions), *declarations, "!0 = !{i32 1}"])


def _text_of(instruction: Instruction) -> tuple[str, set[str]]:
    write = WRITERS.get(instruction.operation, _write_computation)
    return _function(f"f{INSTRUCTIONS.index(instruction)}", lambda builder: write(builder, instruction))


Function = Callable[..., None]


@functools.cache
def _library(machine: Machine) -> tuple[LoadedObject, str]:
    """The functions of all instructions that are tried on a kind of machine, and their listing."""
    functions = [_text_of(instruction) for instruction in HERE if _machine_for(instruction) == machine]
    module = _module(functions)
    names = [f"f{INSTRUCTIONS.index(i)}" for i in HERE if _machine_for(i) == machine]
    return load_object(compile_object(module, machine), names, machine), assembly(module, machine)


def _native(instruction: Instruction) -> Function:
    machine = _machine_for(instruction)
    assert machine is not None
    library, _ = _library(machine)
    return _called(library[f"f{INSTRUCTIONS.index(instruction)}"])


def _called(address: int) -> Function:
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(address)

    def call(*arguments: Array | int, count: int = 0) -> None:
        addresses = [a if isinstance(a, int) else a.ctypes.data for a in arguments]
        function(*addresses, *[None] * (4 - len(addresses)), count)

    return call


def _random(type: ElementType, count: int, generator: np.random.Generator) -> Array:
    """Any bits."""
    dtype = NUMPY_TYPES[type.name]
    return generator.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)


def _assert_same_bits(actual: Array, expected: Array, what: str) -> None:
    assert actual.tobytes() == expected.tobytes(), what


@pytest.mark.parametrize("operation", OF)
def test_code_has_the_instruction(operation: str) -> None:
    for instruction in OF[operation]:
        machine = _machine_for(instruction)
        assert machine is not None
        _, listing = _library(machine)
        name = f"f{INSTRUCTIONS.index(instruction)}"
        code = listing.partition(f"\n{name}:")[2].partition(".size")[0]
        assert re.search(SEEN[operation], code), f"{instruction}\n{code}"


EDGES = [0, -1, 1, 0x80808080 - 2**32, 0x7F7F7F7F, 0x80008000 - 2**32, 0x7FFF7FFF, 0x80FF80FF - 2**32, 2**31 - 1]


@pytest.mark.parametrize("operation", [name for name in WORD_PRODUCTS if name in OF])
def test_products_of_words(operation: str) -> None:
    """Random words and those at whose sums something wraps: the machine's are the body's are the grammar's."""
    generator = np.random.default_rng(0)
    pairs = np.array([(a, b, c) for a in EDGES for b in EDGES for c in EDGES], np.int32)
    drawn = generator.integers(-(2**31), 2**31, (4096, 3)).astype(np.int32)
    words = np.concatenate([pairs, drawn])
    words = np.concatenate([words, np.zeros((-len(words) % 16, 3), np.int32)])
    a, b, c = (np.ascontiguousarray(words[:, n]) for n in range(3))
    wide = a.astype(np.int64), b.astype(np.int64)
    meant = (WORD_DOTS[operation](*wide) + c).astype(np.int32)
    for instruction in OF[operation]:
        found = np.empty_like(a)
        _native(instruction)(found, a, b, c, count=a.size)
        _assert_same_bits(found, instruction.body(a, b, c), instruction.name)
        _assert_same_bits(found, meant, instruction.name)


@pytest.mark.skipif("multiply-add" not in OF, reason="this processor has no such instruction")
def test_multiply_adds() -> None:
    """Rounded once, also where what is added takes most of the product away, and where there is no number."""
    generator = np.random.default_rng(4)
    a, b, c = (generator.normal(size=4096).astype(np.float32) for _ in range(3))
    sizes = np.exp2(generator.integers(-60, 60, 4096)).astype(np.float32)
    odd = np.array([0, -0.0, 3, np.inf, -np.inf, np.nan, 1e-45, 1e38], np.float32)
    left, right, sums = (
        np.concatenate([a, a, odd]),
        np.concatenate([b, b * sizes, odd[::-1]]),
        np.concatenate([-(a * b), c, odd]),
    )
    for instruction in OF["multiply-add"]:
        found = np.empty_like(left)
        _native(instruction)(found, left, right, sums, count=left.size)
        with np.errstate(invalid="ignore"):
            expected = instruction.body(left, right, sums)
        np.testing.assert_array_equal(found, expected, instruction.name)


def _between_pages(type: ElementType, lanes: int) -> Iterator[tuple[Array, Array, int]]:
    """Memory, a mask of whose lanes only those in it take part, and the place of the first lane. The others are in a
    page that must not be touched, behind the memory or before it."""
    dtype = NUMPY_TYPES[type.name]
    for count in range(lanes + 1):
        behind = guarded_buffer(max(count, 1), dtype, at_end=True)
        mask = np.arange(lanes) < count
        yield behind, mask, 0 if count else 1
        before = guarded_buffer(max(count, 1), dtype, at_end=False)
        yield before, mask[::-1].copy(), count - lanes


@pytest.mark.parametrize("operation", [name for name in ("load", "store", "gather") if name in OF])
def test_lanes_that_are_left_out_are_not_touched(operation: str) -> None:
    """Neither by the machine nor by the body."""
    generator = np.random.default_rng(1)
    for instruction in OF[operation]:
        lanes, type = instruction.lanes, instruction.type
        native, far = _native(instruction), 1 << 20
        whole = _random(type, lanes, generator)
        masks = [(whole, generator.integers(0, 2, lanes).astype(bool), 0) for _ in range(8)]
        for memory, mask, first in [*_between_pages(type, lanes), *masks]:
            memory[...] = _random(type, memory.size, generator)
            places = np.where(mask, first + np.arange(lanes), far)
            begin = memory.ctypes.data + first * memory.itemsize
            if operation == "store":
                values, expected = _random(type, lanes, generator), memory.copy()
                instruction.body(expected, places, mask, values)
                native(values, begin, mask.view(np.uint8))
                _assert_same_bits(memory, expected, instruction.name)
                continue
            found = np.empty(lanes, memory.dtype)
            there = memory.ctypes.data if operation == "gather" else begin
            native(found, there, mask.view(np.uint8), places)
            _assert_same_bits(found, instruction.body(memory, places, mask), instruction.name)


def test_stores_past_the_caches() -> None:
    generator = np.random.default_rng(2)
    for instruction in OF["stream"]:
        dtype = NUMPY_TYPES[instruction.type.name]
        memory = guarded_buffer(instruction.lanes, dtype, at_end=True)
        values, expected = _random(instruction.type, instruction.lanes, generator), np.zeros_like(memory)
        _native(instruction)(values, memory)
        instruction.body(expected, np.arange(instruction.lanes), np.True_, values)
        _assert_same_bits(memory, expected, instruction.name)


def test_prefetches_of_what_is_not_there() -> None:
    (instruction,) = OF["prefetch"]
    memory = guarded_buffer(8, np.dtype(np.uint8), at_end=True)
    for place in (0, 8, 1 << 40):
        _native(instruction)(memory, memory.ctypes.data + place)
        instruction.body(memory, np.array([place]))
    assert not memory.any()


@pytest.mark.skipif("round" not in OF, reason="this processor has no such instruction")
def test_rounding_of_any_number() -> None:
    """Halves, which go to the even neighbour, and numbers that no i32 holds."""
    halves = np.arange(-64, 64, dtype=np.float32) / 2
    large = np.float32(2) ** np.arange(20, 36, dtype=np.float32)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    drawn = _random(F32, 4096, np.random.default_rng(5))
    numbers = np.concatenate([halves, large, -large, np.nextafter(large, np.float32(0)), odd, drawn])
    numbers = np.concatenate([numbers, np.zeros(-numbers.size % 16, np.float32)])
    for instruction in OF["round"]:
        for start in range(0, numbers.size, instruction.lanes):
            part = numbers[start : start + instruction.lanes].copy()
            found = np.empty(instruction.lanes, np.int32)
            _native(instruction)(found, part)
            _assert_same_bits(found, instruction.body(part), instruction.name)


@pytest.mark.skipif("bytes" not in OF, reason="this processor has no such instruction")
def test_bytes_of_any_integers() -> None:
    """In order, and clamped: those of 16 bits, where packs saturate first, and their neighbours, too."""
    edges = [n + d for n in (0, 255, 256, -256, 32767, -32768, 65535, -65536, 2**31 - 2, 1 - 2**31) for d in (-1, 0, 1)]
    drawn = np.random.default_rng(6).integers(-(2**31), 2**31, 64)
    integers = np.array([*range(-32, 288), *edges, *edges[::-1], *drawn, *[0] * 62]).astype(np.int32)
    for instruction in OF["bytes"]:
        for start in range(0, integers.size - instruction.lanes + 1, instruction.lanes // 2):
            part = integers[start : start + instruction.lanes].copy()
            found = np.empty(instruction.lanes, np.uint8)
            _native(instruction)(found, part)
            _assert_same_bits(found, instruction.body(*np.split(part, JOINED)), instruction.name)


# Square roots --------------------------------------------------------------------------------------------------------

needs_estimates = pytest.mark.skipif("sqrt" not in OF, reason="this processor has no such instruction")


def _numbers() -> Array:
    """Of every exponent and sign, random ones, and those at both ends."""
    generator = np.random.default_rng(3)
    exponents = np.arange(512, dtype=np.uint32)[:, np.newaxis] << np.uint32(23)
    significands = generator.integers(0, 1 << 23, (512, 62), dtype=np.uint32)
    ends = np.broadcast_to(np.array([0, (1 << 23) - 1], np.uint32), (512, 2))
    bits: Array = exponents | np.concatenate([significands, ends], 1)
    return bits.reshape(-1).view(np.float32)


@needs_estimates
def test_estimates_are_as_near_as_the_manual_says() -> None:
    x = _numbers()
    x = x[(x >= np.float32(LEAST)) & np.isfinite(x)]
    x = x[: x.size // 16 * 16]
    found = np.empty_like(x)
    _native(ESTIMATE)(found, x, count=x.size)
    for estimate in (found, ESTIMATE.body(x)):
        assert np.abs(estimate.astype(np.float64) * np.sqrt(x.astype(np.float64)) - 1).max() <= ERROR


def _same_numbers(a: Array, b: Array) -> Array:
    return np.asarray((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b)))


def test_roots_of_the_body_are_exact() -> None:
    x = _numbers()
    with np.errstate(invalid="ignore"):
        assert _same_numbers(ROOT.body(x), np.sqrt(x)).all()


@needs_estimates
@pytest.mark.parametrize("registers", [1, 2])
def test_roots_of_the_machine_are_those_of_the_body(registers: int) -> None:
    """Usual numbers alone, whole registers of unusual ones, and both together."""
    machine = _machine_for(ROOT)
    assert machine is not None
    module = _module([_function("f", lambda builder: _write_computation(builder, ROOT, registers))])
    library = load_object(compile_object(module, machine), ["f"], machine)
    x = _numbers()
    for numbers in (x, np.random.default_rng(4).permutation(x)):
        found = np.empty_like(numbers)
        _called(library["f"])(found, numbers, count=numbers.size)
        assert _same_numbers(found, ROOT.body(numbers)).all()


def _near_the_middle(distance: int) -> Array:
    """All numbers from 1 to 4 whose roots are nearest to the middle between two floating-point numbers.

    A middle is m / 2^24 with m odd. Of numbers x in units of 2^-23 (below 2) or 2^-22, x - (m / 2^24)^2 is a whole
    number of 2^-48; those are found for which it is no more than ``distance``.
    """
    middles = np.arange((1 << 24) + 1, 1 << 25, 2, dtype=np.int64)
    squares = middles * middles
    found = []
    for shift in (25, 26):
        half = 1 << (shift - 1)
        rest = ((squares + half) & ((1 << shift) - 1)) - half
        near = np.abs(rest) <= distance
        significands = (squares[near] - rest[near]) >> shift
        fits = (significands >= 1 << 23) & (significands < 1 << 24)
        found.append(np.ldexp(significands[fits].astype(np.float64), shift - 48).astype(np.float32))
    return np.unique(np.concatenate(found))


def test_roots_are_exact_whatever_the_estimates_are() -> None:
    """Every estimate within the bound, for every number whose root is so near to a middle that it could matter.

    Before the last rounding a root is wrong by less than 2^-46 of itself: half the square of its error, which is less
    than 2^-23, and a residual of at most 2^-22 times the error of the halved reciprocal, no more than 2^-23. For a root
    r from 1 to 2 this is no more than 2 * 2^-46 * r^2 in x: 32 of the units of ``_near_the_middle`` are more, and here
    are 8 times as many.
    """
    numbers = _near_the_middle(256)
    assert 32 <= numbers.size <= 256
    for x in numbers:
        reciprocal = 1 / np.sqrt(np.float64(x))
        ends = np.array([reciprocal * (1 - ERROR), reciprocal * (1 + ERROR)], np.float32).view(np.uint32)
        estimates = np.arange(ends[0], ends[1] + 1, dtype=np.uint32).view(np.float32)
        estimates = estimates[np.abs(estimates.astype(np.float64) / reciprocal - 1) <= ERROR]
        assert estimates.size >= 1024
        assert (corrected(np.full_like(estimates, x), estimates) == np.sqrt(x)).all()


def test_roots_of_random_numbers_from_random_estimates() -> None:
    generator = np.random.default_rng(5)
    x = np.exp2(generator.uniform(-96, 127.99, 1 << 16)).astype(np.float32)
    exact = 1 / np.sqrt(x.astype(np.float64))
    for errors in (generator.uniform(-1, 1, x.size), generator.choice([-1.0, 1.0], x.size)):
        estimates = (exact * (1 + errors * ERROR * (1 - 2.0**-9))).astype(np.float32)
        assert (corrected(x, estimates) == np.sqrt(x)).all()


# Of AArch64 ----------------------------------------------------------------------------------------------------------

PRODUCTS_OF_ARM = [("usdot", "neoverse-v1", 1), ("sdot", "neoverse-n1", 3)]
"""An instruction, a processor that has no better one, and how many of them a product of words takes."""

DRIVER = """
#include <stdio.h>
void f(int *, const int *, const int *, const int *, long);
int main(void) {
  static int memory[4][COUNT];
  if (fread(memory[1], sizeof(int), 3 * COUNT, stdin) != 3 * COUNT) return 1;
  f(memory[0], memory[1], memory[2], memory[3], COUNT);
  return fwrite(memory[0], sizeof(int), COUNT, stdout) != COUNT;
}
"""


def _of_arm(name: str) -> Instruction:
    machine = machine_of("aarch64-unknown-linux-gnu", "baseline")
    features: tuple[Any, ...] = (*machine.features, "dotprod", *(["i8mm"] if name == "usdot" else []))
    found = machine_instructions(replace(machine, features=features)).find("dot4", I32)
    assert found is not None and found.name.startswith(name)
    return found


def _module_of_arm(name: str) -> str:
    return _module([_function("f", lambda builder: _write_computation(builder, _of_arm(name), registers=2))])


@pytest.mark.parametrize(("name", "processor", "count"), PRODUCTS_OF_ARM)
def test_products_of_words_on_arm(name: str, processor: str, count: int) -> None:
    (listing,), _ = compile_foreign([_module_of_arm(name)], "aarch64-unknown-linux-gnu", processor, assembly=True)
    assert len(re.findall(rf"\t{name}\t", listing.decode())) == 2 * count


@pytest.mark.skipif(not all(map(shutil.which, ("qemu-aarch64-static", "aarch64-linux-gnu-gcc"))), reason="needs QEMU")
@pytest.mark.parametrize(("name", "processor", "count"), PRODUCTS_OF_ARM)
def test_products_of_words_of_an_emulated_arm(name: str, processor: str, count: int, tmp_path: Path) -> None:
    (code,), _ = compile_foreign([_module_of_arm(name)], "aarch64-unknown-linux-gnu", processor)
    (tmp_path / "f.o").write_bytes(code)
    (tmp_path / "driver.c").write_text(DRIVER.replace("COUNT", "64"))
    files = [str(tmp_path / file) for file in ("driver.c", "f.o")]
    subprocess.run(["aarch64-linux-gnu-gcc", "-static", "-o", str(tmp_path / "driver"), *files], check=True)
    words = _random(I32, 3 * 64, np.random.default_rng(6)).reshape(3, 64)
    words[:2, :8] = np.array([[0x80808080], [0x7F7F7F7F]], np.uint32).view(np.int32)
    words[:2, 8:16] = np.array([[-1], [0x7F80FF80]], np.int64).astype(np.int32)
    command = ["qemu-aarch64-static", "-cpu", "max", str(tmp_path / "driver")]
    ran = subprocess.run(command, check=True, input=words.tobytes(), capture_output=True)
    assert ran.stdout == _of_arm(name).body(*words).tobytes()


# In nests ------------------------------------------------------------------------------------------------------------

ALONG = Axis("i", 8)
X, Y = Tensor("x", F32, (8,), (1,), "input"), Tensor("y", F32, (8,), (1,), "output")
THERE = Affine(((ALONG, 1),), 0)


def _other(instruction: Instruction, body: Callable[..., Any]) -> Instructions:
    """An instruction that does something else, to see that it is it that runs."""
    return Instructions([replace(instruction, body=body, lanes=4)])


def _of(operation: str, type: ElementType) -> Instruction:
    return next(i for i in INSTRUCTIONS if (i.operation, i.type) == (operation, type))


def _vectors(leaf: Leaf, active: int | None = None) -> Body:
    return (Loop(ALONG, 0, 8, 4, (Points(ALONG, 4, "vector", (leaf,), active),)),)


def _run(body: Body, instructions: Instructions, *buffers: Array) -> Array:
    run_nest(Nest(body, instructions=instructions), dict(zip((X, Y), buffers, strict=True)))
    return buffers[1]


def test_nests_run_the_bodies_of_computations() -> None:
    root = Leaf((ElementStore(Y, THERE, unary("sqrt", Element(X, THERE, True))),))
    instructions = _other(ROOT, lambda x: x + 100)
    assert format_nest(Nest(_vectors(root), instructions=instructions)).startswith(f"sqrt of f32 x 4: {ROOT.name}\n")
    x = np.arange(8, dtype=np.float32)
    assert _run(_vectors(root), instructions, x, np.zeros_like(x)).tolist() == (x + 100).tolist()
    assert _run(_vectors(root), Instructions(), x, np.zeros_like(x)).tolist() == np.sqrt(x).tolist()


def test_nests_run_the_bodies_of_products() -> None:
    """In expressions and as the next term of a sum."""
    total, words = Variable("total", I32), Tensor("w", I32, (8,), (1,), "input")
    out = Tensor("o", I32, (8,), (1,), "output")
    product = binary("dot4", Element(words, THERE, True), Element(words, THERE, True))
    assert isinstance(product, Binary)
    body: Body = (
        Leaf(registers=(total,), values=(constant(1000, I32),)),
        Accumulate(total, product),
        Leaf((ElementStore(out, THERE, total + product),)),
    )
    nest: Body = (Loop(ALONG, 0, 8, 4, (Points(ALONG, 4, "vector", body),)),)
    instructions = _other(_of("dot4", I32), lambda a, b, c: c + 10 * a + b)
    values, found = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    run_nest(Nest(nest, instructions=instructions), {words: values, out: found})
    assert found.tolist() == (1000 + 2 * 11 * values).tolist()


@pytest.mark.parametrize("operation", ["load", "store", "stream"])
def test_nests_run_the_bodies_of_moves(operation: str) -> None:
    """Masked ones where lanes take no part, and stores past the caches."""
    is_stream = operation == "stream"
    leaf = Leaf((ElementStore(Y, THERE, Element(X, THERE, True)),), written="past the caches" if is_stream else "each")
    body = _vectors(leaf, None if is_stream else 3)
    original, seen = _of(operation, F32), []

    def moved(*operands: Array) -> Any:
        seen.append(operands[1].reshape(-1).tolist())
        return original.body(*operands)

    x = np.arange(1, 9, dtype=np.float32)
    instructions = _other(original, moved)
    y = _run(body, instructions, x, np.zeros_like(x))
    assert y.tolist() == [v if is_stream or n % 4 < 3 else 0 for n, v in enumerate(x.tolist())]
    assert [places[:3] for places in seen] == [[0, 1, 2], [4, 5, 6]]
    assert format_nest(Nest(body, instructions=instructions)).startswith(f"{operation} of f32 x 4: {original.name}\n")


def test_what_all_lanes_load_is_one_load() -> None:
    """No vector, and so no lanes that could be left out: they have it all."""
    leaf = Leaf((ElementStore(Y, THERE, Element(X, Affine((), 5), True)),))
    instructions = _other(_of("load", F32), lambda memory, places, mask: np.zeros(places.shape, memory.dtype))
    y = _run(_vectors(leaf, 3), instructions, np.arange(8, dtype=np.float32), np.zeros(8, np.float32))
    assert y.tolist() == [5, 5, 5, 0, 5, 5, 5, 0]


def test_instructions_are_for_whole_registers() -> None:
    """The widest that is no wider than a value, or none."""
    machine = machine_of("x86_64-unknown-linux-gnu", "avx512")
    instructions = machine_instructions(replace(machine, features=(*machine.features, "avx512vnni")))
    for lanes, expected in ((2, None), (4, 4), (8, 8), (16, 16), (24, None), (32, 16)):
        found = instructions.fitting("dot4", I32, lanes)
        assert (found and found.lanes) == expected
    assert instructions.fitting("sqrt", F32, 32) is ROOT
    assert instructions.fitting("sqrt", F32, 8) is None
    assert machine_instructions(machine).find("dot4", I32) is None
    assert machine_instructions(machine) is machine_instructions(replace(machine))


@pytest.mark.parametrize("level", ["avx512", "avx2", "baseline"])
def test_machines_have_what_their_facts_say(level: str) -> None:
    for triple in ("x86_64-unknown-linux-gnu", *(["aarch64-unknown-linux-gnu"] if level == "baseline" else [])):
        machine = machine_of(triple, level)
        instructions = machine_instructions(machine)
        assert all(instruction.size <= machine.vector_bytes for instruction in instructions if instruction.type != U8)
        for type in (F32, U8):
            assert (instructions.find("store", type) is not None) == machine.masks_vectors
            assert instructions.find("stream", type) is not None
        assert (instructions.find("load", F32) is not None) == machine.has("avx2")


def test_processors_that_gather_in_microcode_load_one_by_one() -> None:
    machine = machine_of("x86_64-unknown-linux-gnu", "avx512")
    names = ("x86-64-v4", "icelake-server", "znver4", "znver5")
    found = [machine_instructions(replace(machine, cpu_name=name)) for name in names]
    assert [each.find("gather", F32) is not None for each in found] == [True, True, False, False]
    assert all(each.find("load", F32) is not None for each in found)


def test_explanations_name_instructions() -> None:
    """What ``explain`` shows of a root is what its kernel is written with."""
    tensor = dml.TensorDesc("float32", [64])
    text = dml.explain(dml.operators.ElementWiseSqrt(input_tensor=tensor, output_tensor=tensor), llvm=True)
    assert (f"sqrt of f32 x 16: {ROOT.name}\n" in text) == ("rsqrt14" in text) == ("sqrt" in OF)


def test_at_is_no_vector() -> None:
    """A root at one point is the instruction for square roots."""
    single: Body = (At(ALONG, 3, (Leaf((ElementStore(Y, THERE, unary("sqrt", Element(X, THERE, True))),)),)),)
    nest = Nest(single, instructions=_other(ROOT, lambda x: x))
    assert "sqrt of" not in format_nest(nest)
