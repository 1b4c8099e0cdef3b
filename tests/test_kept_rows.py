"""Values that a fold keeps in scratch memory for what comes after it: the interpreter's bits, for all row lengths."""

from __future__ import annotations

import mmap
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execution import (
    assert_identical,
    compile_in_parallel,
    guarded_temporaries,
    random_values,
    run_operator,
    scratch_starts,
)
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.enums import TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.expression.element_types import ELEMENT_TYPES, ElementType
from opendml.expression.folds import fold, partials_for, sum_of
from opendml.expression.interpreter import NUMPY_TYPES, run_interpreted
from opendml.expression.ir import Axis, Expression, Tensor, binary, constant, index, load, select, unary
from opendml.expression.statements import Compute, Definition, Store
from opendml.llvm.host import machine_of
from opendml.loops.nest_printer import format_nest
from opendml.programs.binding import Binding
from opendml.programs.compilation import compile_definition
from opendml.targets.cpu.code.memory import Memory
from opendml.targets.cpu.code.modules import Support
from opendml.targets.cpu.code.program_code import program_code
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.processor import host_processor
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.runtime import executable as executable_module
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING

LENGTHS = (15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 1000, 4095)
TYPES = ("f16", "f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
DATA_TYPES = {d.dtype: d for d in TensorDataType if d.name not in ("UNKNOWN", "UINT4", "INT4")}

Value = Callable[[Expression], Expression]


pytestmark = pytest.mark.usefixtures("no_cache")


def worked(x: Expression) -> Expression:
    """Something that takes a few operations, of any type."""
    return (x * x + 3) * (x + 1) - x * 5


class Rows:
    """Rows of one tensor, each reduced before it is stored."""

    def __init__(self, type: ElementType, rows: int, length: int, output: ElementType | None = None) -> None:
        self.source = Tensor("x", type, (rows, length), (length, 1), "input")
        self.output = Tensor("y", output or type, (rows, length), (length, 1), "output")
        self.row, self.column = Axis("k", rows), Axis("v", length)
        self.element = load(self.source, (index(self.row), index(self.column)))

    def total(self, value: Value, where: Callable[[Axis], Expression] | None = None) -> Expression:
        """The sum along a row."""
        axis = Axis("r", self.column.size)
        element = value(load(self.source, (index(self.row), index(axis))))
        return sum_of((axis,), element, None if where is None else where(axis), partials_for(axis))

    def definition(self, value: Expression) -> Definition:
        """What stores ``value`` at every point."""
        store = Store(self.output, (index(self.row), index(self.column)), value)
        return Definition((self.source,), (self.output,), (Compute((self.row, self.column), (store,)),))


def kept(definition: Definition) -> list[int]:
    """The sizes of the scratch rows in the code, in elements."""
    sizes: list[int] = []
    allocate = Memory.allocate

    def recorded(memory: Memory, tensor: Tensor) -> None:
        sizes.append(tensor.extent)
        allocate(memory, tensor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Memory, "allocate", recorded)
        program_code(definition, CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512")), Support("", "", {}))
    return sizes


def check(definition: Definition, *arrays: Any) -> None:
    def bindings(tensors: Any) -> list[Binding]:
        return [Binding(t.name, TensorDesc(DATA_TYPES[NUMPY_TYPES[t.type.name]], t.sizes)) for t in tensors]

    expected = run_interpreted(definition, list(arrays))
    program = compile_definition(
        definition,
        inputs=bindings(definition.inputs),
        outputs=bindings(definition.outputs),
        in_place=False,
        target=host_processor(),
        thread_count=2,
    )
    results = program(*arrays)
    results = [results] if isinstance(results, np.ndarray) else results
    for actual, wanted in zip(results, expected, strict=True):
        assert wanted is not None
        assert_identical(np.nan_to_num(actual), np.nan_to_num(wanted))


def values_of(tensor: Tensor, seed: int = 0) -> Any:
    data_type = DATA_TYPES[NUMPY_TYPES[tensor.type.name]]
    count = int(np.prod(tensor.sizes))
    return random_values(data_type, count, np.random.default_rng(seed), special=False).reshape(tensor.sizes)


@pytest.mark.sampled
@pytest.mark.parametrize("length", (17, 64, 100))
@pytest.mark.parametrize("type", TYPES)
def test_every_type(type: str, length: int) -> None:
    rows = Rows(ELEMENT_TYPES[type], 3, length)
    definition = rows.definition(worked(rows.element) - rows.total(worked))
    assert len(kept(definition)) == 1
    check(definition, values_of(rows.source))


@pytest.mark.sampled
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length: int) -> None:
    rows = Rows(ELEMENT_TYPES["f32"], 2, length)
    definition = rows.definition(worked(rows.element) * rows.total(worked))
    partials = partials_for(rows.column)
    assert kept(definition) == [-(-length // partials) * partials]
    check(definition, values_of(rows.source))


@pytest.mark.parametrize(("type", "length"), (("f32", 32768), ("f32", 32769), ("f64", 16384), ("f64", 16385)))
def test_long_rows_are_computed_again(type: str, length: int) -> None:
    rows = Rows(ELEMENT_TYPES[type], 2, length)
    definition = rows.definition(worked(rows.element) * rows.total(worked))
    width = ELEMENT_TYPES[type].bits // 8
    assert kept(definition) == ([length] if length * width <= TUNING.graph.kept_row_bytes else [])
    check(definition, values_of(rows.source))


def test_several_rows_and_readers() -> None:
    """A second fold reads what the first one keeps, and keeps something of its own."""
    rows = Rows(ELEMENT_TYPES["f32"], 3, 77)
    first = rows.total(worked)

    def later(x: Expression) -> Expression:
        return unary("sqrt", unary("abs", worked(x) - first)) * 2 + 1

    second = rows.total(later)
    definition = rows.definition(worked(rows.element) + later(rows.element) * second)
    assert len(kept(definition)) == 2
    check(definition, values_of(rows.source))


def test_little_work_is_done_again() -> None:
    rows = Rows(ELEMENT_TYPES["f32"], 3, 77)
    assert kept(rows.definition((rows.element - 1) * rows.total(lambda x: x - 1))) == []


def test_other_values_are_not_confused() -> None:
    """The same operations on another row, or shifted by one, are not the same values."""
    rows = Rows(ELEMENT_TYPES["f32"], 3, 65)
    reversed_row = load(rows.source, (2 - index(rows.row), index(rows.column)))
    backwards = load(rows.source, (index(rows.row), 64 - index(rows.column)))
    for element in (reversed_row, backwards):
        definition = rows.definition(worked(element) * rows.total(worked))
        assert kept(definition) == []
        check(definition, values_of(rows.source))


def test_folds_of_a_branch_keep_nothing() -> None:
    """What is evaluated for some rows only must not be read in the others."""
    rows = Rows(ELEMENT_TYPES["f32"], 5, 70)
    total = rows.total(worked)
    for condition in (index(rows.row) >= 2, rows.total(lambda x: x) > 0.0, rows.element > 0.0):
        definition = rows.definition(worked(rows.element) * select(condition, total, 1.0))
        check(definition, values_of(rows.source))


def test_values_under_conditions() -> None:
    """A value that only some points need is read where the fold has computed it for all."""
    rows = Rows(ELEMENT_TYPES["f32"], 5, 70)
    guarded = select(index(rows.column) >= 9, worked(rows.element), 0.0)
    definition = rows.definition(guarded + select(rows.element > 0.0, worked(rows.element), 1.0) * rows.total(worked))
    assert len(kept(definition)) == 1
    check(definition, values_of(rows.source))


def test_guarded_elements_are_not_kept() -> None:
    """A fold that skips elements computes nothing for them."""
    rows = Rows(ELEMENT_TYPES["f32"], 2, 70)
    definition = rows.definition(worked(rows.element) * rows.total(worked, lambda axis: index(axis) >= 3))
    assert kept(definition) == []
    check(definition, values_of(rows.source))


def test_other_combinations_than_sums() -> None:
    rows = Rows(ELEMENT_TYPES["i32"], 2, 50)
    axis = Axis("r", 50)
    element = worked(load(rows.source, (index(rows.row), index(axis))))
    largest = fold(lambda a, b: binary("max", a, b), (axis,), constant(-99, element.type), element, None, 32)
    definition = rows.definition(largest - worked(rows.element))
    assert len(kept(definition)) == 1
    check(definition, values_of(rows.source))


def test_two_outputs() -> None:
    """Both stores read the row."""
    rows = Rows(ELEMENT_TYPES["f32"], 3, 33)
    other = Tensor("z", ELEMENT_TYPES["f32"], (3, 33), (33, 1), "output")
    total = rows.total(worked)
    place = (index(rows.row), index(rows.column))
    values = (worked(rows.element) * total, worked(rows.element) + total)
    stores = tuple(Store(t, place, value) for t, value in zip((rows.output, other), values, strict=True))
    definition = Definition((rows.source,), (rows.output, other), (Compute((rows.row, rows.column), stores),))
    assert len(kept(definition)) == 1
    check(definition, values_of(rows.source))


@pytest.mark.sampled
@pytest.mark.parametrize("data_type", ("FLOAT32", "FLOAT16"))
@pytest.mark.parametrize("operator", (operators.ActivationSoftmax1, operators.ActivationLogSoftmax1))
@given(length=st.one_of(st.sampled_from(LENGTHS), st.integers(16, 300)), seed=st.integers(0, 1 << 31), data=st.data())
@examples(5)
def test_softmax(operator: Any, data_type: str, length: int, seed: int, data: st.DataObject) -> None:
    """Interpreted and compiled, between guard pages, with special values; packed and with gaps between rows."""
    gap = data.draw(st.integers(0, 3))
    tensor = TensorDesc(data_type, (3, length), (length + gap, 1))
    values = random_values(tensor.data_type, 3 * length, np.random.default_rng(seed)).reshape(3, length)
    run_operator(operator(input_tensor=tensor, output_tensor=tensor, axes=(1,)), [values])


def test_softmax_keeps_its_exponentials() -> None:
    tensor = TensorDesc("FLOAT16", (3, 100))
    operator = operators.ActivationSoftmax1(input_tensor=tensor, output_tensor=tensor, axes=(1,))
    target = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512"))
    assert kept(refined_definition(operator, target)) == [128]


SOFTMAX = operators.ActivationSoftmax1(
    input_tensor=TensorDesc("float32", [7, 1000]), output_tensor=TensorDesc("float32", [7, 1000]), axes=[1]
)


@pytest.mark.parametrize("at_end", [True, False])
def test_no_thread_leaves_its_scratch_memory(at_end: bool) -> None:
    """What a thread has alone lies between protected pages, and nothing else of the program's memory is touched."""
    # Without pools, in which a thread that is late finds its rows done by others.
    program = compile_in_parallel(SOFTMAX, replace(TUNING, pooled_part=0.0), at_end=at_end)
    executable, threads = program.executable, program.thread_count
    assert isinstance(executable, executable_module.CpuExecutable)
    own = executable.requirements.scratch_size
    assert own > 4 * 1000
    memory = guarded_temporaries(program)
    x = random_values(TensorDataType.FLOAT32, 7000, np.random.default_rng(2)).reshape(7, 1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executable_module, "aligned_empty", lambda size: memory)
        call = program.bind([x], [y := np.empty_like(x)])
    call()
    np.testing.assert_array_equal(y, dml.Device("reference").compile(SOFTMAX)(x))
    pages = [memory[start : start + own - mmap.PAGESIZE] for start in scratch_starts(executable)]
    assert len(pages) == threads
    assert all(page.any() for page in pages)  # it is there that they write


def test_scratch_memory_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would see it: a program that is given too little writes to a protected page."""
    code = """
import sys
sys.path[:0] = [TESTS]
from test_kept_rows import SOFTMAX
from dataclasses import replace
from execution import program_code, compile_in_parallel, run_operator
import numpy as np
whole = program_code.sequence_of
def less(*arguments, **options):
    found = whole(*arguments, **options)
    return replace(found, scratch_bytes=found.scratch_bytes - 2048)
program_code.sequence_of = less
run_operator(SOFTMAX, [np.ones((7, 1000), np.float32)])
"""
    code = code.replace("TESTS", repr(str(Path(__file__).parent)))
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode < 0


# The next row -------------------------------------------------------------------------------------------------------


def asked_ahead(rows: int, length: int, value: Callable[[Rows], Expression], **knobs: int) -> list[str]:
    """What the nest of rows says about prefetches, and the caches that the code asks for them."""
    work = Rows(ELEMENT_TYPES["f32"], rows, length)
    target = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512")).tuned(**knobs)
    code = generate(work.definition(value(work)), target, in_place=False)
    ((kernel,), ((_, repeats),)) = code.kernels, code.origins
    nest = kernel_nest(kernel, target, repeats)
    lines = [line for line in format_nest(nest).splitlines() if line.startswith("prefetch")]
    levels = re.findall(r"@llvm.prefetch.p0\(ptr %\w+, i32 0, i32 (\d)", "".join(code.modules))
    return [*lines, *sorted(set(levels))]


def test_costly_folds_ask_for_the_next_row() -> None:
    """While they compute, memory has nothing else to do; what little work there is elsewhere hides nothing."""
    costly = lambda rows: rows.element * rows.total(lambda x: worked(worked(x)))  # noqa: E731
    cheap = lambda rows: rows.element * rows.total(lambda x: x * x)  # noqa: E731
    near, far = "prefetch x 2048 bytes ahead", "prefetch x 4096 bytes ahead, reducing r < 1024"
    assert asked_ahead(1024, 1024, costly) == [near, far, "2", "3"]
    assert asked_ahead(1024, 1024, cheap) == [near, "3"]
    assert asked_ahead(100, 1024, costly) == []  # in a cache anyway
    assert asked_ahead(16384, 64, costly) == [near, "3"]  # the next row begins where other prefetches are
    longest = TUNING.next_row_bytes // 4
    assert asked_ahead(64, longest, costly)[1].startswith("prefetch x 262144 bytes ahead")
    assert asked_ahead(64, longest + 64, costly) == [near, "3"]
    assert asked_ahead(1024, 1024, costly, folded_prefetch_distance=0) == [far, "2"]
    assert asked_ahead(1024, 1024, cheap, folded_prefetch_distance=0) == []
