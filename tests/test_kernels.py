"""Kernels: what is read off index expressions, what schedules promise, and random definitions compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from execution import assert_same_values, guarded_buffer, random_values, seeds
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from properties import examples
from random_definitions import definitions

import opendml as dml
from opendml import operators as op
from opendml.description.enums import TensorDataType
from opendml.description.errors import ConfigurationError
from opendml.description.tensor import TensorDesc
from opendml.expression.affine import EXACT, Element, affine, decide, interval, threshold_form
from opendml.expression.element_types import F32, I8, I32, I64, U8
from opendml.expression.folds import sum_of
from opendml.expression.interpreter import NUMPY_TYPES, interpret
from opendml.expression.ir import (
    Axis,
    Expression,
    Tensor,
    Variable,
    binary,
    cast,
    constant,
    grid,
    index,
    indices,
    load,
    select,
    temporary,
)
from opendml.expression.mathematics import erf, exp, sigmoid, tanh
from opendml.expression.rewriting import substitute, walk
from opendml.expression.statements import Compute, Definition, Scatter, Store
from opendml.llvm.host import machine_of
from opendml.loops.nest import Leaf, Points, nodes_of
from opendml.loops.rewriting import simplify
from opendml.programs.binding import Binding
from opendml.programs.compilation import compile_definition
from opendml.targets.cpu import schedule
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.kernel_description import describe_kernel
from opendml.targets.cpu.kernels import ScatterKernel
from opendml.targets.cpu.processor import host_processor
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING

Array = np.ndarray[Any, Any]

DATA_TYPES = {d.dtype: d for d in TensorDataType if d.name not in ("UNKNOWN", "UINT4", "INT4")}


pytestmark = pytest.mark.usefixtures("no_cache")


def _levels() -> list[str]:
    found = []
    for level in ("native", "avx2", "baseline"):
        try:
            host_processor(level)
            found.append(level)
        except ConfigurationError:
            pass
    return found


LEVELS = _levels()


@examples(80, suppress_health_check=list(HealthCheck))
@given(definitions(), st.sampled_from(LEVELS), st.booleans(), st.sampled_from(("cached", "streamed", "staged")), seeds)
def test_random_definitions(definition: Definition, level: str, in_place: bool, written: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    tensors = [t for t in (*definition.inputs, *definition.outputs) if t is not None]
    contents = [random_values(DATA_TYPES[NUMPY_TYPES[t.type.name]], t.extent, generator) for t in tensors]
    expected = dict(zip(tensors, (c.copy() for c in contents), strict=True))
    interpret(definition, expected)
    target = host_processor(level).tuned(
        serial_work=0,
        streamed_bytes=1 << 40 if written == "cached" else 0,
        streamed_row_bytes=1 << 40 if written == "staged" else 0,
        prefetched_bytes=1 << 40 if written == "cached" else 0,
    )
    bindings = [_binding(t) for t in tensors]
    count = len(definition.inputs)
    program = compile_definition(
        definition,
        inputs=bindings[:count],
        outputs=bindings[count:],
        in_place=in_place,
        target=target,
        thread_count=3,
    )
    for threads, at_end in ((1, True), (3, False)):
        buffers = [_guarded(content, at_end) for content in contents]
        program.with_thread_count(threads).bind(buffers[:count], buffers[count:])()
        for tensor, buffer in zip(tensors, buffers, strict=True):
            assert_same_values(buffer, expected[tensor])


# Index expressions ---------------------------------------------------------------------------------------------------

AXES = (Axis("i", 5), Axis("j", 4), Axis("k", 3))
LARGE = st.sampled_from((0, 1, -1, 2, 3, -7, 10**9, 2**40, -(2**61), 2**62 - 1, -(2**63), 2**63 - 1))


@st.composite
def index_expressions(draw: st.DrawFn, depth: int = 3) -> Expression:
    """Sums, multiples, remainders, limits and choices of three axes, with constants that may overflow."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return index(draw(st.sampled_from(AXES))) if draw(st.booleans()) else constant(draw(LARGE), I64)
    left, right = draw(index_expressions(depth - 1)), draw(index_expressions(depth - 1))
    kind = draw(st.sampled_from(("add", "sub", "mul", "mul", "min", "max", "div", "rem", "select", "narrow")))
    if kind == "select":
        return select(draw(conditions(depth - 1)), left, right)
    if kind == "narrow":
        return cast(cast(left, draw(st.sampled_from((I8, I32, U8)))), I64)
    return binary(kind, left, right)


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> Expression:
    comparison = draw(st.sampled_from(("lt", "le", "gt", "ge", "eq", "ne")))
    return binary(comparison, draw(index_expressions(depth)), draw(index_expressions(depth)))


def _values(e: Expression) -> Array:
    """The value at every point of ``AXES``."""
    result = temporary("t", e.type, [axis.size for axis in AXES])
    buffer = np.zeros(result.extent, NUMPY_TYPES[e.type.name])
    interpret(Definition((), (result,), (Compute(AXES, (Store(result, indices(AXES), e),)),)), {result: buffer})
    return buffer.reshape(result.sizes)


@examples(150)
@given(index_expressions())
def test_affine_forms_have_the_value_and_keep_to_their_range(e: Expression) -> None:
    form, values = affine(e), _values(e)
    np.testing.assert_array_equal(_values(form.as_expression()), values)
    low, high = form.range({}) or (-(2**63), 2**63 - 1)
    assert low <= int(values.min()) and int(values.max()) <= high
    bounds = interval(e, {}) or (-(2**63), 2**63 - 1)
    assert bounds[0] <= int(values.min()) and int(values.max()) <= bounds[1]


@examples(150)
@given(conditions(3), st.integers(0, 4), st.integers(0, 4))
def test_decided_conditions_are_right(condition: Expression, first: int, last: int) -> None:
    first, last = sorted((first, last))
    values = _values(condition)
    everywhere, part = decide(condition, {}), decide(condition, {AXES[0]: (first, last)})
    assert everywhere is None or (values == everywhere).all()
    assert part is None or (values[first : last + 1] == part).all()
    form = threshold_form(condition)
    if form is not None and form.magnitude <= EXACT:
        np.testing.assert_array_equal(_values(form.as_expression() >= 0), values)
    np.testing.assert_array_equal(_values(simplify({})(condition)), values)


def test_forms_add_up() -> None:
    i, j, _ = indices(AXES)
    form = affine((i + 2 * j) * 3 - (i - 5))
    assert (form.coefficient(AXES[0]), form.coefficient(AXES[1]), form.constant) == (2, 6, 5)
    assert form.is_pure and form.axes == AXES[:2]
    assert form.range({}) == (5, 31)
    assert form.range({AXES[0]: (4, 4)}) == (13, 31)
    assert affine(i - i).terms == ()
    assert not affine(i * j).is_pure


def test_what_may_overflow_is_no_sum() -> None:
    i, *_ = indices(AXES)
    wrapping = i * 2**62 + i * 2**62
    assert affine(wrapping).terms == ((wrapping, 1),)
    data = load(Tensor("x", I64, (5,), (1,), "input"), (i,))
    assert not affine(data + 1).is_pure and affine(data + 1).constant == 0
    assert decide(data + 1 > data, {}) is None


def test_shared_parts_are_compared_once() -> None:
    """Two equal expressions along which there are 2**200 paths."""

    def power() -> Expression:
        x: Expression = X
        for _ in range(200):
            x = x * x
        return x

    first, second = power(), power()
    assert first == second and second == first
    assert first != power() + 1
    assert len(list(walk(first))) == 201
    assert substitute({first: X})(second) is X


X = Variable("x", F32)

# Schedules -----------------------------------------------------------------------------------------------------------

TARGET = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512"))


def _copy(sizes: Sequence[int], strides: Sequence[int], target: Sequence[int], in_place: bool = False) -> Any:
    source = Tensor("x", F32, tuple(sizes), tuple(strides), "input")
    result = Tensor("y", F32, tuple(sizes), tuple(target), "output")
    axes = tuple(Axis("ijkl"[d], n) for d, n in enumerate(sizes))
    copy = Compute(axes, (Store(result, indices(axes), load(source, indices(axes))),))
    return schedule.schedule_compute(copy, TARGET, in_place=in_place)


def test_axes_that_continue_one_another_are_one() -> None:
    kernel = _copy([3, 4, 5], [20, 5, 1], [20, 5, 1])
    assert kernel.outer == () and kernel.vector.size == 60
    kernel = _copy([3, 4, 5], [1, 15, 3], [1, 15, 3])
    assert kernel.outer == () and kernel.vector.size == 60
    kernel = _copy([3, 4, 5], [40, 10, 1], [20, 5, 1])
    assert [axis.size for axis in kernel.outer] == [12] and kernel.vector.size == 5


def _sum_of_rows(*sizes: int, level: str = "avx512") -> Any:
    """Sums along the dimension before the last one."""
    source = temporary("x", F32, sizes)
    *outer, step, vector = grid(sizes)
    axes = (*outer, vector)
    result = temporary("y", F32, [axis.size for axis in axes])
    value = sum_of((step,), load(source, (*indices(axes[:-1]), index(step), index(axes[-1]))))
    compute = Compute(axes, (Store(result, indices(axes), value),))
    target = CpuTarget(machine_of("x86_64-unknown-linux-gnu", level))
    return schedule.schedule_compute(compute, target, in_place=False)


def test_sums_of_many_far_rows_read_longer_runs_of_each() -> None:
    """Twice the registers, if there are as many and work items enough are left."""
    registers, wide = TUNING.looped_registers, TUNING.scattered_registers
    assert _sum_of_rows(16, 64, 12544).lanes == 16 * wide
    assert _sum_of_rows(16, 16, 12544).lanes == 16 * registers
    assert _sum_of_rows(1, 64, 12544).lanes == 16 * registers
    assert _sum_of_rows(16, 64, 12544, level="avx2").lanes == 8 * registers


def test_small_kernels_are_for_one_thread() -> None:
    assert _copy([100], [1], [1]).serial
    large = _copy([1000, 1000], [2000, 1], [1000, 1])
    assert not large.serial and large.item_count >= TUNING.items
    line = _copy([10**6], [1], [1])
    assert line.item_count >= TUNING.items and line.vector_block * line.item_count >= 10**6


def _binding(tensor: Tensor) -> Binding:
    return Binding(tensor.name, TensorDesc(DATA_TYPES[NUMPY_TYPES[tensor.type.name]], [tensor.extent]))


def _guarded(content: Array, at_end: bool) -> Array:
    buffer = guarded_buffer(content.size, content.dtype, at_end)
    buffer[...] = content
    return buffer


# Scatters and equal pieces -------------------------------------------------------------------------------------------


def _scatter(cls: type[op.ScatterElements], sizes: list[int], axis: int) -> ScatterKernel:
    data, chosen = TensorDesc("float32", sizes), TensorDesc("uint32", sizes)
    desc = cls(input_tensor=data, indices_tensor=chosen, updates_tensor=data, output_tensor=data, axis=axis)
    (scatter,) = (s for s in desc.define().statements if isinstance(s, Scatter))
    return schedule.schedule_scatter(scatter, TARGET)


@pytest.mark.parametrize(
    ("sizes", "axis", "cut", "items"),
    [
        ([512, 1000], 1, {0: 8}, 64),
        ([512, 1000], 0, {1: 64}, 16),
        ([6, 10000, 4], 1, {0: 1}, 6),
        ([6, 40, 1000], 1, {0: 1, 2: 90}, 72),
        ([4, 200000], 0, {1: 3125}, 64),
        ([200000], 0, {}, 1),
    ],
)
def test_scatters_are_cut_along_axes_that_no_index_moves(
    sizes: list[int], axis: int, cut: dict[int, int], items: int
) -> None:
    """The first such axis point by point or in blocks, others behind it in runs of several cache lines."""
    kernel = _scatter(op.ScatterElements, sizes, axis)
    assert {kernel.axes.index(a): block for a, block in kernel.blocks} == cut
    assert kernel.item_count == items
    assert not kernel.serial
    text = describe_kernel(kernel, TARGET)
    assert ("this thread's share" in text) == ("only if first <= " in text) == (not cut)


@pytest.mark.parametrize("function", [sigmoid, tanh, erf, exp])
def test_what_is_loaded_in_any_case_is_computed_in_vectors(function: Callable[[Expression], Expression]) -> None:
    """Conditions of functions on what padding has let through neither keep lanes apart nor are jumped over."""
    i, j = Axis("i", 40), Axis("j", 66)
    x, y = Tensor("x", F32, (40, 64), (64, 1), "input"), Tensor("y", F32, (40, 66), (66, 1), "output")
    value = function(load(x, (index(i), index(j) - 1)))
    is_inside = (index(j) >= 1) & (index(j) < 65)
    store = Store(y, (index(i), index(j)), select(is_inside, value, constant(0.0, F32)))
    definition = Definition((x,), (y,), (Compute((i, j), (store,)),))
    (nest,) = generate(definition, TARGET, in_place=False).nests
    leaves = [node for node in nodes_of(nest.body) if isinstance(node, Leaf)]
    wide = [leaf for node in nodes_of(nest.body) if isinstance(node, Points) for leaf in node.body]
    computing = [leaf for leaf in leaves if any(isinstance(e, Element) for e in walk(leaf.stores[0].value))]
    assert computing and all(leaf in wide for leaf in computing)
    assert not any(choice.how == "jump" for leaf in computing for choice in leaf.plan.choices.values())


def _elements_of_a_row(count: int, size: int) -> op.ScatterElements:
    data, many = TensorDesc("float32", [size]), TensorDesc("float32", [count])
    indices = TensorDesc("int32", [count])
    return op.ScatterElements(
        input_tensor=data, indices_tensor=indices, updates_tensor=many, output_tensor=data, axis=0
    )


def _elements_of_rows(count: int, sizes: tuple[int, int]) -> op.ScatterNd:
    data, many = TensorDesc("float32", sizes), TensorDesc("float32", [1, count])
    indices = TensorDesc("int32", [count, 2])
    return op.ScatterNd(
        input_tensor=data,
        indices_tensor=indices,
        updates_tensor=many,
        output_tensor=data,
        input_dimension_count=2,
        indices_dimension_count=2,
    )


@pytest.mark.parametrize(
    ("desc", "loops", "questions"),
    [(_elements_of_a_row(1 << 16, 1000), 1, 0), (_elements_of_rows(1 << 16, (40, 50)), 2, 1)],
)
def test_scatters_decide_without_a_jump_what_is_theirs(
    desc: op.ScatterElements | op.ScatterNd, loops: int, questions: int
) -> None:
    """Nobody could foresee it: the only jumps ask whether there is a next point. Whether a number is an index is
    answered with that, or asked before, as an address that is none may be anything."""
    text = "".join(generate(desc.define(), host_processor(), in_place=False).modules)
    (loop,) = (part for part in text.split("define ")[1:] if "select i1" in part and "ptr %" in part and "sext" in part)
    assert loop.count("br i1") == loops
    assert len(re.findall(r"select i1 %\w+, ptr %\w+, ptr %elsewhere", loop)) == 1
    assert len(re.findall(r"select i1 %\w+, i1 %\w+, i1 false", loop)) == questions


def test_what_is_written_is_not_computed_where_it_has_no_value() -> None:
    """A load that only the condition keeps inside of its tensor."""
    (i,), size = grid([1 << 16]), 1000
    chosen, x = Tensor("chosen", I64, (i.size,), (1,), "input"), Tensor("x", F32, (size,), (1,), "input")
    y = Tensor("y", F32, (size,), (1,), "output")
    place = load(chosen, [index(i)])
    store = Store(y, (place,), load(x, [place]))
    scatter = Scatter((i,), (place >= 0) & (place < size), store)
    definition = Definition((chosen, x), (y,), (scatter,))
    text = "".join(generate(definition, host_processor(), in_place=False).modules)
    (loop,) = (part for part in text.split("define ")[1:] if "%elsewhere" in part and "br i1" in part)
    assert loop.count("br i1") == 2


@pytest.mark.parametrize(
    ("stride", "tuned", "ahead"),
    [
        (2048, {"items": 1}, {"chosen": 2, "updates": 4}),
        (1024, {"items": 1}, {"chosen": 2, "updates": 4}),
        (768, {"items": 1}, {"chosen": 2}),
        (2048, {"items": 1, "prefetch_distance": 4096}, {"chosen": 4, "updates": 8}),
        (2048, {"items": 1, "prefetched_bytes": 1 << 24}, {"chosen": 2}),
        (2048, {"items": 1, "prefetched_bytes": 1 << 30}, {}),
        (2048, {}, {}),
    ],
)
def test_parts_of_rows_on_pages_of_their_own_are_asked_for_ahead(
    stride: int, tuned: dict[str, int], ahead: dict[str, int]
) -> None:
    """As many rows ahead as are a distance if they were one run, of tensors that are far; of whole rows only."""
    i, j = Axis("i", 1500), Axis("j", 128)
    chosen = Tensor("chosen", I64, (i.size, j.size), (stride, 1), "input")
    updates = Tensor("updates", F32, (i.size, j.size), (stride, 1), "input")
    y = Tensor("y", F32, (64, j.size), (j.size, 1), "output")
    place = load(chosen, [index(i), index(j)])
    store = Store(y, (place, index(j)), load(updates, [index(i), index(j)]))
    scatter = Scatter((i, j), (place >= 0) & (place < 64), store)
    target = TARGET.tuned(prefetched_bytes=1 << 20).tuned(**tuned)
    kernel = schedule.schedule_scatter(scatter, target)
    assert {e.tensor.name: rows for e, rows in kernel.next_rows} == ahead
    text = describe_kernel(kernel, target)
    for tensor in (chosen, updates):
        row, line = ahead.get(tensor.name, 0), 64 * 8 // tensor.type.bits
        asked = [int(place) for place in re.findall(rf"prefetch {tensor.name}@\({stride}\*i \+ (\d+)\)", text)]
        assert asked == [row * stride + n for n in range(0, j.size + line - 1, line) if row]


def test_small_scatters_wake_nobody() -> None:
    assert _scatter(op.ScatterElements, [10, 10], 0).serial


@pytest.mark.parametrize("threads", [1, 2, 5, 64])
def test_scatters_without_such_an_axis_write_part_by_part(threads: int) -> None:
    """Many updates of the same elements: the last one stays, whoever writes it."""
    count, size = 40000, 97
    desc = _elements_of_a_row(count, size)
    generator = np.random.default_rng(0)
    chosen = generator.integers(-size - 3, size + 3, count).astype(np.int32)
    updates = generator.random(count, np.float32)
    expected = np.zeros(size, np.float32)
    for place, update in zip(chosen, updates, strict=True):
        if -size <= place < size:
            expected[place] = update
    result = dml.Device(thread_count=threads).compile(desc)(np.zeros(size, np.float32), chosen, updates)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_scatters_of_several_coordinates_write_part_by_part(threads: int) -> None:
    """Numbers that are no indices make no address, however large they are; the last of equal ones stays."""
    count, sizes = 40000, (97, 30)
    generator = np.random.default_rng(1)
    chosen = generator.integers(-3, 100, (count, 2)).astype(np.int32)
    chosen[::50] = generator.choice(np.array([-(2**31), 2**31 - 1, 2**27, -30, 96], np.int32), chosen[::50].shape)
    updates = generator.random((1, count), np.float32)
    expected = np.zeros(sizes, np.float32)
    for (row, column), update in zip(chosen.tolist(), updates[0], strict=True):
        if -sizes[0] <= row < sizes[0] and -sizes[1] <= column < sizes[1]:
            expected[row, column] = update
    desc = _elements_of_rows(count, sizes)
    device = dml.Device("cpu", thread_count=threads)
    result = device.compile(desc)(np.zeros(sizes, np.float32), chosen, updates)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_equal_pieces_share_their_code(axis: int) -> None:
    """Pieces that lie at other places only are one function."""
    piece = TensorDesc("float32", [3, 4, 5])
    whole = TensorDesc("float32", [3 * (30 if axis == 0 else 1), 4 * (30 if axis == 1 else 1), 5])
    split = op.Split(input_tensor=whole, output_tensors=[piece] * 30, axis=axis)
    join = op.Join(input_tensors=[piece] * 30, output_tensor=whole, axis=axis)
    for desc in (split, join):
        text = "".join(generate(desc.define(), host_processor(), in_place=False).modules)
        assert len(re.findall(r"define.* @kernel\d+\(", text)) == 1
    x = np.arange(whole.element_count, dtype=np.float32).reshape(whole.sizes)
    parts = dml.Device().compile(split)(x)
    np.testing.assert_array_equal(np.stack(parts), np.stack(np.split(x, 30, axis)))
    np.testing.assert_array_equal(dml.Device().compile(join)(*parts), x)


def test_equal_pieces_of_large_tensors_share_their_code() -> None:
    """Wherever their lines of memory begin."""
    piece, whole = TensorDesc("float32", [4, 111, 301]), TensorDesc("float32", [4, 111 * 60, 301])
    split = op.Split(input_tensor=whole, output_tensors=[piece] * 60, axis=1)
    text = "".join(generate(split.define(), host_processor(), in_place=False).modules)
    assert "prefetch" in text
    assert len(re.findall(r"define.* @kernel\d+\(", text)) == 1


def test_small_kernels_take_turns() -> None:
    """Pieces that one thread copies are copied by different ones as soon as there is enough for two."""
    piece, whole = TensorDesc("float32", [100, 90]), TensorDesc("float32", [100, 90 * 11])
    join = op.Join(input_tensors=[piece] * 11, output_tensor=whole, axis=1)
    few = op.Join(input_tensors=[piece] * 3, output_tensor=TensorDesc("float32", [100, 270]), axis=1)
    assert generate(join.define(), host_processor(), in_place=False).requirements.parallel
    assert not generate(few.define(), host_processor(), in_place=False).requirements.parallel
    parts = [np.full(piece.sizes, number, np.float32) for number in range(11)]
    for threads in (1, 2, 3, 7):
        program = dml.Device(thread_count=threads).compile(join)
        np.testing.assert_array_equal(program(*parts), np.concatenate(parts, 1))
