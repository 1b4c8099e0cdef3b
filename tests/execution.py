"""Running operators in tests: ``run_operator`` is the one way in, so that every test meets every implementation.

The layouts and arrays that the tests draw are here too: strides that permute, pad and broadcast, and values that
include the awkward ones.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import strategies as st

from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel, TensorDataType
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.expression.interpreter import run_interpreted
from opendml.expression.ir import Tensor
from opendml.expression.statements import Definition
from opendml.llvm.native import verify
from opendml.loops import memory_plan
from opendml.loops import sequence as sequence_module
from opendml.loops.sequence import KernelSequence
from opendml.programs import binding as binding_module
from opendml.programs import compiled_graph as graph_program_module
from opendml.programs.device import compile_operator
from opendml.programs.program import Program
from opendml.targets.cpu.code import program_code
from opendml.targets.cpu.code.written_kernels import WrittenKernel
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.runtime import executable as executable_module
from opendml.targets.cpu.runtime.executable import CpuExecutable, WorkingMemory
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING, Tuning
from opendml.targets.host_memory import address_of

Array = np.ndarray[Any, Any]

FLOATS = ("FLOAT64", "FLOAT32", "FLOAT16")
INTEGERS = ("INT64", "INT32", "INT16", "INT8", "UINT64", "UINT32", "UINT16", "UINT8")
ALL_TYPES = FLOATS + INTEGERS


def run_operator(
    desc: Operator, arrays: Sequence[Array | None], level: str = "6_4", tuning: Tuning = TUNING
) -> list[Any]:
    """The outputs (None for absent ones) of a valid descriptor, for logical inputs in DirectML's binding order.

    The operator is interpreted, and compiled and run by 1, 2 and 7 threads between guard pages; all must agree bit for
    bit (any NaN equals any other). Two threads are given inputs that are not aligned.
    """
    violations = validate(desc, FeatureLevel.parse(level))
    assert not violations, [str(violation) for violation in violations]
    interpreted = _run_interpreted(desc, arrays)
    program = compile_in_parallel(desc, tuning)
    for thread_count, at_end in ((1, True), (2, False), (7, True)):
        compiled = _run_compiled(program, arrays, thread_count, at_end)
        for a, b in zip(interpreted, compiled, strict=True):
            if a is not None:
                assert_same_values(b, a)
    return interpreted


def _run_interpreted(desc: Operator, arrays: Sequence[Array | None]) -> list[Any]:
    definition = desc.define()
    inputs = [
        None if array is None or tensor is None else array.reshape(tensor.sizes)
        for tensor, array in zip(definition.inputs, arrays, strict=True)
    ]
    outputs = run_interpreted(definition, inputs)
    described = [tensor for _, tensor in desc.outputs()]
    return [
        None if array is None or tensor is None else array.reshape(tensor.in_memory.sizes)
        for tensor, array in zip(described, outputs, strict=True)
    ]


def for_all_threads(tuning: Tuning) -> Tuning:
    """However small a kernel is, all threads take part in it, and take some of its work items from its pool; and its
    code is that of a large one."""
    return tuning.but(serial_work=0, pooled_work=0, little_work=0)


ALL_THREADS: Final = for_all_threads(TUNING)


def compile_in_parallel(desc: Operator, tuning: Tuning = TUNING, *, at_end: bool = True) -> Program:
    """The program of a descriptor; however small, all threads take part in it, and its code is that of a large one.
    Each thread's own memory lies between pages that tests protect, at their ``at_end``."""
    protected: list[int] = []

    def plan(definition: Definition, _: object) -> memory_plan.MemoryPlan:
        separate = _separate_pages(definition)
        protected.extend(separate.offsets[t] + separate.sizes[t] for t in definition.temporaries)
        return separate

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence_module, "plan_memory", plan)
        _scratch_between_pages(patch, at_end)
        program = compile_operator(desc, thread_count=7, tuning=for_all_threads(tuning))
    assert isinstance(program.executable, CpuExecutable)
    PROTECTED[program] = [*protected, *_pages_between_scratch(program.executable)]
    return program


def _scratch_between_pages(patch: pytest.MonkeyPatch, at_end: bool) -> None:
    """Have programs give each thread whole pages of scratch memory, however little it needs, and one behind them.

    What the thread needs lies at their end (to a cache line, as all of it does) or at their beginning.
    """
    page = mmap.PAGESIZE
    # What stands there, which a test may have put there.
    sequence_of: Callable[..., KernelSequence[WrittenKernel]] = vars(program_code)["sequence_of"]

    def sequence(*arguments: Any, **options: Any) -> KernelSequence[WrittenKernel]:
        found = sequence_of(*arguments, **options)
        if not found.scratch_bytes:
            return found
        whole = -(-found.scratch_bytes // page) * page
        # Where the memory of the first thread begins: behind a page of its own too.
        begin = -(-found.memory.size // page) * page + page + (whole - found.scratch_bytes if at_end else 0)
        return replace(found, memory=replace(found.memory, size=begin), scratch_bytes=whole + page)

    patch.setattr(program_code, "sequence_of", sequence)


def _pages_between_scratch(executable: CpuExecutable) -> list[int]:
    """Where the pages before, between and behind the scratch memories of a program's threads begin, if it has any."""
    page, starts, needed = mmap.PAGESIZE, scratch_starts(executable), executable.requirements
    return [start - page for start in [*starts, *(starts[-1:] and [starts[-1] + needed.scratch_size])]]


def scratch_starts(executable: CpuExecutable) -> list[int]:
    """Where the first pages of the threads' scratch memories begin, if the code needs any."""
    page, needed = mmap.PAGESIZE, executable.requirements
    size, first = needed.scratch_size, needed.temporary_size // page * page
    return [first + thread * size for thread in range(executable.thread_count)] if size else []


PROTECTED: weakref.WeakKeyDictionary[Program, list[int]] = weakref.WeakKeyDictionary()
"""Where the pages between temporaries begin, for programs of ``compile_in_parallel``."""


def _run_compiled(program: Program, arrays: Sequence[Array | None], thread_count: int, at_end: bool) -> list[Any]:
    inputs = [
        None if binding.desc is None or array is None else _guarded(binding.desc, array, at_end, shift=not at_end)
        for binding, array in zip(program.inputs, arrays, strict=True)
    ]
    outputs = [None if b.desc is None else _guarded(b.desc, None, at_end) for b in program.outputs]
    before = [None if x is None else x[1].copy() for x in (*inputs, *outputs)]
    memory = guarded_temporaries(program)
    program = program.with_thread_count(thread_count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executable_module, "aligned_empty", lambda size: memory)
        call = program.bind(
            [None if x is None else x[1] for x in inputs], [None if x is None else x[1] for x in outputs]
        )
    call()
    results = [None if x is None else x[0].copy() for x in outputs]
    _check_nothing_else_was_written(before, inputs, outputs)
    return results


def _check_nothing_else_was_written(
    before: Sequence[Array | None],
    inputs: Sequence[tuple[Array, Array] | None],
    outputs: Sequence[tuple[Array, Array] | None],
) -> None:
    """Inputs, and the gaps between the elements of outputs, are as they were. Resets the outputs."""
    for x in outputs:
        if x is not None:
            x[0].view(f"u{x[0].itemsize}")[...] = 0
    for x, content in zip((*inputs, *outputs), before, strict=True):
        if x is not None and content is not None:
            assert x[1].tobytes() == content.tobytes(), "a program wrote beside its outputs"


def _separate_pages(definition: Definition) -> memory_plan.MemoryPlan:
    """A plan in which every temporary ends right before a page of its own, which the tests protect."""
    page = mmap.PAGESIZE
    offsets: dict[Tensor, int] = {}
    sizes: dict[Tensor, int] = {}
    end = 0
    for tensor in definition.temporaries:
        seen = [tensor, *(view for view, root in definition.views if root is tensor)]
        sizes[tensor] = max(t.extent * t.type.bits // 8 for t in seen)
        end += -(-sizes[tensor] // page) * page
        offsets[tensor] = end - sizes[tensor]
        end += page
    return memory_plan.MemoryPlan(offsets, sizes, end, end)


def guarded_temporaries(program: Program) -> Array:
    """Memory for the temporaries of a program compiled with ``_separate_pages``, the pages between them protected."""
    return _with_protected_pages(program.temporary_size, PROTECTED.get(program, ()))


def _with_protected_pages(size: int, protected: Iterable[int]) -> Array:
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, max(size, page))
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for place in protected:
        if _mprotect(base + place, page, 0) != 0:
            pytest.skip("this system does not let a page be protected")
    return np.frombuffer(memory, np.uint8)


@contextmanager
def guarded_memory(apart: bool) -> Iterator[None]:
    """Inside, all memory that graphs and their programs make for themselves ends right before a protected page.

    That is what ``initialize`` keeps, and temporaries: the arena that they share as a whole, or, with ``apart``, each
    of them (of programs compiled inside) between pages of its own, and each thread's scratch memory too.
    """
    plans: dict[int, list[int]] = {}
    page = mmap.PAGESIZE

    def plan(definition: Definition, _: object) -> memory_plan.MemoryPlan:
        separate = _separate_pages(definition)
        if not separate.size:
            return separate
        size = separate.size
        while size in plans:  # It tells the plan.
            size += page
        plans[size] = [separate.offsets[t] + separate.sizes[t] for t in definition.temporaries]
        return memory_plan.MemoryPlan(separate.offsets, separate.sizes, size, size)

    def guarded(size: int) -> Array:
        return guarded_buffer(size, np.dtype(np.uint8), True)

    def memory(executable: CpuExecutable) -> WorkingMemory | None:
        between = _pages_between_scratch(executable) if apart else []
        shared = between[0] if between else executable.requirements.temporary_size
        if shared not in plans and not between:
            return WorkingMemory.of(executable.temporary_size) if executable.temporary_size else None
        pages = _with_protected_pages(executable.temporary_size, [*plans.get(shared, ()), *between])
        return WorkingMemory(pages, address_of(pages))

    with pytest.MonkeyPatch.context() as patch:
        if apart:
            patch.setattr(sequence_module, "plan_memory", plan)
            _scratch_between_pages(patch, at_end=True)
        for module in (binding_module, executable_module, graph_program_module):
            patch.setattr(module, "aligned_empty", guarded)
        patch.setattr(CpuExecutable, "_memory", memory)
        yield


def _guarded(desc: TensorDesc, content: Array | None, at_end: bool, *, shift: bool = False) -> tuple[Array, Array]:
    """A tensor between guard pages, as a logical view and as the flat buffer."""
    buffer = guarded_buffer(desc.element_span, desc.data_type.dtype, at_end, shift=shift)
    strides = tuple(stride * buffer.itemsize for stride in desc.effective_strides)
    view = np.lib.stride_tricks.as_strided(buffer, desc.sizes, strides)
    if content is not None:
        view[...] = content
    return view, buffer


def guarded_buffer(count: int, dtype: np.dtype[Any], at_end: bool, *, shift: bool = False) -> Array:
    """``count`` elements right before (``at_end``) or right after a page that may not be touched; with ``shift`` one
    byte further on, so that they are not aligned."""
    page = mmap.PAGESIZE
    size = -(-max(count * dtype.itemsize + shift, 1) // page) * page
    memory = mmap.mmap(-1, size + 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for guard in (base, base + page + size):
        if _mprotect(guard, page, 0) != 0:
            pytest.skip("this system does not let a page be protected")
    start = page + (size - count * dtype.itemsize if at_end else shift)
    return np.frombuffer(memory, dtype, count, start)


def _mprotect(address: int, size: int, protection: int) -> int:
    if os.name == "nt":
        return 1
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return int(function(address, size, protection))


def run_single(desc: Operator, *arrays: Array | None, tuning: Tuning = TUNING) -> Array:
    """The output of an operator that has one."""
    (output,) = run_operator(desc, arrays, tuning=tuning)
    assert isinstance(output, np.ndarray)
    return output


def assert_identical(actual: Array, expected: Array) -> None:
    """The same type, shape and bits."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    unsigned = f"u{actual.dtype.itemsize}"
    np.testing.assert_array_equal(
        np.ascontiguousarray(actual).view(unsigned), np.ascontiguousarray(expected).view(unsigned)
    )


def check_code(desc: Operator, targets: Iterable[CpuTarget]) -> None:
    """There is code for a valid descriptor, for any processor, which LLVM takes; operands in place or not, profiled or
    not. It is written and read, not compiled."""
    for number, target in enumerate(targets):
        definition = refined_definition(desc, target)
        for in_place in {False, desc.in_place}:
            for module in generate(definition, target, in_place=in_place, profiled=number == 0).modules:
                verify(module, target.machine)


def assert_same_values(actual: Array, expected: Array) -> None:
    """As ``assert_identical``, but any NaN equals any other."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)
    if actual.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(actual)[numbers], np.signbit(expected)[numbers])


# ---------------------------------------------------------------------------------------------------------------------


def sizes(minimum_rank: int = 1, maximum_rank: int = 8, limit: int = 96) -> st.SearchStrategy[list[int]]:
    """Sizes of every rank with at most ``limit`` elements."""
    return st.integers(minimum_rank, maximum_rank).flatmap(
        lambda rank: st.lists(st.integers(1, 5), min_size=rank, max_size=rank).map(lambda drawn: _limited(drawn, limit))
    )


def _limited(drawn: list[int], limit: int) -> list[int]:
    total, result = 1, []
    for size in drawn:
        size = max(1, min(size, limit // total))
        total *= size
        result.append(size)
    return result


@st.composite
def layouts(draw: st.DrawFn, shape: Sequence[int], broadcast: bool = True) -> list[int] | None:
    """Strides for a shape: packed (None), permuted, padded, and for inputs (``broadcast``) some of them 0."""
    if draw(st.booleans()):
        return None
    strides = [0] * len(shape)
    step = draw(st.integers(1, 2))
    for dimension in draw(st.permutations(range(len(shape)))):
        if broadcast and draw(st.integers(0, 5)) == 0:
            continue
        strides[dimension] = step
        step = step * shape[dimension] + draw(st.integers(0, 2))
    return strides


@st.composite
def inputs(draw: st.DrawFn, data_type: str, shape: Sequence[int], broadcast: bool = True) -> TensorDesc:
    """The description of an input with any layout."""
    return TensorDesc(data_type, shape, draw(layouts(shape, broadcast)))


@st.composite
def outputs(draw: st.DrawFn, data_type: str, shape: Sequence[int]) -> TensorDesc:
    """The description of an output with any layout that does not overlap itself."""
    return TensorDesc(data_type, shape, draw(layouts(shape, broadcast=False)))


seeds = st.integers(0, 2**32 - 1)


def random_array(tensor: TensorDesc, seed: int, special: bool = True) -> Array:
    """Random values with the sizes and repetitions (strides of 0) of an input; ``special``: extreme ones among them.
    Of the 4-bit types random bytes."""
    if tensor.data_type.bits == 4:
        return np.random.default_rng(seed).integers(0, 256, tensor.in_memory.sizes, np.uint8)
    generator = np.random.default_rng(seed)
    buffer = random_values(tensor.data_type, tensor.element_span, generator, special)
    strides = tuple(stride * buffer.itemsize for stride in tensor.effective_strides)
    return np.array(np.lib.stride_tricks.as_strided(buffer, tensor.sizes, strides))


def random_values(data_type: TensorDataType, count: int, generator: np.random.Generator, special: bool = True) -> Array:
    """A flat array of mostly small numbers and, if ``special``, some extreme ones."""
    dtype = data_type.dtype
    if dtype.kind == "f":
        values = generator.normal(0, 3, count).astype(dtype)
        limits = np.finfo(dtype)
        extremes = [np.nan, np.inf, -np.inf, 0.0, -0.0, limits.max, limits.min, limits.smallest_subnormal, 0.5, -2.5]
    else:
        bounds = np.iinfo(dtype)
        values = generator.integers(0 if bounds.min == 0 else -20, 21, count).astype(dtype)
        extremes = [bounds.min, bounds.max, bounds.max - 1, bounds.min // 2, bounds.max // 2 + 1]
    if special:
        chosen = generator.random(count) < 0.3
        values[chosen] = generator.choice(np.array(extremes, dtype), count)[chosen]
    return values


def frames(text: str) -> list[int]:
    """The bytes by which functions move the stack pointer."""
    return [int(size, 0) for size in re.findall(r"subq\t\$(\w+), %rsp", text)]
