"""Compiled code does what its nests say, bit for bit: of random definitions, descriptors and graphs, for processors
with vectors of every width, by 1, 2 and 7 threads in any order. Stray accesses and conflicts of threads are seen on
both sides: the interpreter of nests looks at each, and code runs between guard pages.

``OPENDML_TEST_SHARE`` makes them more; ``tools/soak_nests.py`` goes on as long as one likes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nest_running import HOSTS, MANY_THREADS, Case, cases, check_case, check_nests, contents_of, run_by_nests
from properties import examples
from random_descriptors import is_drawn

from opendml.expression.element_types import F32, I32, I64
from opendml.expression.folds import extreme_of, fold, maximum, partials_for, sum_of
from opendml.expression.interpreter import StrayAccessError
from opendml.expression.ir import (
    Axis,
    Expression,
    Tensor,
    cast,
    constant,
    index,
    indices,
    load,
    select,
    temporary,
)
from opendml.expression.statements import Compute, Definition, Each, Store
from opendml.llvm.host import Machine
from opendml.loops.nest import Items, nodes_of
from opendml.loops.nest_memory import RaceError, TensorMemory
from opendml.loops.nest_printer import format_nest
from opendml.loops.sequence import Barrier, Points, Step
from opendml.operators import implemented
from opendml.targets.cpu.code.program_code import ProgramCode
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.schedule import schedule_compute

pytestmark = pytest.mark.usefixtures("no_cache")


ANY: dict[str, Any] = {"suppress_health_check": list(HealthCheck)}


@examples(60, **ANY)
@given(cases("definitions"))
def test_random_definitions(case: Case) -> None:
    check_case(case)


DRAWN = [operator_type.name for operator_type in implemented() if is_drawn(operator_type)]


@pytest.mark.sampled
@pytest.mark.parametrize("name", DRAWN)
@settings(max_examples=2, deadline=None, **ANY)
@given(data=st.data())
def test_random_descriptors(name: str, data: st.DataObject) -> None:
    check_case(data.draw(cases(name)))


@examples(8, **ANY)
@given(cases("graphs"))
def test_random_graphs(case: Case) -> None:
    check_case(case)


@examples(25, **ANY)
@given(cases("chains"))
def test_random_chains(case: Case) -> None:
    check_case(case)


# Folds that begin with what only some points may compute --------------------------------------------------------------


@pytest.mark.parametrize("begins", ["load", "fold", "fold of a fold"])
def test_initial_values_that_conditions_make_safe(begins: str) -> None:
    """They are computed where the fold is, for all points before anything that wants it, and go by its plan: an element
    at a place that data says, which may be outside, or what another fold makes of it, also where that one's own initial
    value is such an element."""
    rows, columns = 3, 40
    i, j, k, m = Axis("i", rows), Axis("j", columns), Axis("k", 5), Axis("m", 3)
    x, w = Tensor("x", I32, (rows, columns), (columns, 1), "input"), Tensor("w", I32, (5,), (1,), "input")
    p = Tensor("p", I32, x.sizes, x.strides, "input")
    y = Tensor("y", I32, x.sizes, x.strides, "output")
    place = cast(load(p, indices((i, j))), I64)
    is_inside = (place >= 0) & (place < columns)
    there, here = load(x, (index(i), place)), load(x, indices((i, j)))
    element = select(is_inside, there, constant(7, I32))
    begin = {
        "load": element,
        "fold": select(is_inside, sum_of((m,), there * load(w, [index(m)])), constant(7, I32)),
        "fold of a fold": fold(operator.add, (m,), element, here * load(w, [index(m)])),
    }[begins]
    total = fold(operator.add, (k,), begin, here * load(w, [index(k)]))
    store = Store(y, indices((i, j)), total * total)
    definition = Definition((x, w, p), (y,), (Compute((i, j), (store,)),))
    target = Processor(HOSTS[0], MANY_THREADS)
    contents = contents_of(definition, 0)
    contents[p][::2] %= columns
    check_nests(definition, target, contents, (1, 0))


# What is wrong is seen -----------------------------------------------------------------------------------------------

COUNT = 4096
I = Axis("i", COUNT)  # noqa: E741
X, MIDDLE, Y = (
    Tensor("x", I32, (COUNT,), (1,), "input"),
    temporary("t", I32, (COUNT,)),
    Tensor("y", I32, (COUNT,), (1,), "output"),
)


def _two_steps() -> Definition:
    """One statement reads what the other one writes, from the other end."""

    def statement(target: Tensor, value: Expression) -> Compute:
        return Compute((I,), (Store(target, (index(I),), value),))

    first, second = statement(MIDDLE, load(X, [index(I)]) + 1), statement(Y, load(MIDDLE, [COUNT - 1 - index(I)]) * 2)
    return Definition((X,), (Y,), (first, second), (MIDDLE,))


def _code(definition: Definition) -> tuple[ProgramCode, dict[Tensor, Any]]:
    contents = {X: np.arange(COUNT, dtype=np.int32), Y: np.zeros(COUNT, np.int32)}
    return Processor(HOSTS[0], MANY_THREADS).generate(definition, in_place=False), contents


def _with_steps(code: ProgramCode, steps: Sequence[Step[Any]]) -> ProgramCode:
    return replace(code, sequence=replace(code.sequence, steps=tuple(steps)))


@pytest.mark.parametrize("order", [(0,), (1, 0), (3, 1, 4, 0, 6, 2, 5)])
def test_barriers_keep_threads_apart(order: Sequence[int]) -> None:
    """Without the one between them, the second statement reads what is not there yet."""
    code, contents = _code(_two_steps())
    steps = code.sequence.steps
    assert any(isinstance(step, Barrier) for step in steps)
    expected = 2 * (contents[X][::-1] + 1)
    assert (run_by_nests(code, contents, order)[Y] == expected).all()
    torn = _with_steps(code, [step for step in steps if not isinstance(step, Barrier)])
    assert (run_by_nests(torn, contents, order)[Y] == expected).all() == (len(order) == 1)


def test_conflicts_of_kernels_are_seen() -> None:
    """Of two that write to the same place between two barriers."""
    first, _ = _two_steps().statements
    assert isinstance(first, Compute)
    stores = [
        (store,)
        for store in (replace(first.stores[0], tensor=Y), Store(Y, (COUNT - 1 - index(I),), load(X, [index(I)])))
    ]
    definition = Definition((X,), (Y,), tuple(Compute((I,), some) for some in stores))
    code, contents = _code(definition)
    run_by_nests(code, contents, (1, 0))
    torn = _with_steps(code, [step for step in code.sequence.steps if not isinstance(step, Barrier)])
    with pytest.raises(RaceError, match="two threads"):
        run_by_nests(torn, contents, (1, 0))


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: f"{host.vector_bytes} bytes")
@pytest.mark.parametrize("initial", [float("-inf"), -1.5, 0.0])
def test_extremes_of_windows_begin_with_what_their_fold_begins_with(initial: float, host: Machine) -> None:
    """Also where no element of a window is larger."""
    y, x, v, u = Axis("y", 6), Axis("x", 40), Axis("v", 2), Axis("u", 2)
    source = Tensor("source", F32, (7, 82), (82, 1), "input")
    largest = Tensor("largest", F32, (6, 40), (40, 1), "output")
    element = load(source, (index(y) + index(v), index(x) * 2 + index(u)))
    value = fold(maximum, (v, u), constant(initial, F32), element)
    definition = Definition((source,), (largest,), (Compute((y, x), (Store(largest, (index(y), index(x)), value),)),))
    numbers = np.random.default_rng(0).choice(np.array([-np.inf, -2.0, -1.0], np.float32), 7 * 82)
    check_nests(definition, Processor(host), {source: numbers, largest: np.zeros(240, np.float32)}, (1, 0))


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: f"{host.vector_bytes} bytes")
@pytest.mark.parametrize(("stride", "size"), [(2, 3), (1, 3), (2, 4), (3, 5), (2, 2)])
def test_extremes_of_rows_that_windows_have_in_common(stride: int, size: int, host: Machine) -> None:
    """Of zeros the first one, whatever its sign, and NaN, where there is one: as if each window were on its own."""
    y, x, v, u = Axis("y", 10), Axis("x", 37), Axis("v", size), Axis("u", size)
    sizes = tuple(stride * (axis.size - 1) + size for axis in (y, x))
    source = Tensor("source", F32, sizes, (sizes[1], 1), "input")
    largest = Tensor("largest", F32, (y.size, x.size), (x.size, 1), "output")
    element = load(source, (index(y) * stride + index(v), index(x) * stride + index(u)))
    value = extreme_of("gt", (v, u), element)
    compute = Compute((y, x), (Store(largest, (index(y), index(x)), value),))
    target = Processor(host)
    rows = schedule_compute(compute, target, in_place=False).rows
    assert (rows is not None and rows.together > 1) == (stride < size)
    draw = np.random.default_rng(stride + size)
    numbers = draw.choice(np.array([-1.0, -0.0, 0.0], np.float32), sizes)
    for nan in ((), (0,), (sizes[0] - 1, sizes[0] // 2)):
        numbers[list(nan), sizes[1] // 3] = np.nan
        contents = {source: numbers.reshape(-1), largest: np.zeros(y.size * x.size, np.float32)}
        check_nests(Definition((source,), (largest,), (compute,)), target, contents, (1, 0))


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: f"{host.vector_bytes} bytes")
@pytest.mark.parametrize("comparison", ["gt", "lt"])
@pytest.mark.parametrize("count", [64, 200, 37])
def test_extremes_of_rows_whose_partial_results_are_lanes(count: int, comparison: str, host: Machine) -> None:
    """Of zeros the first one, whatever its sign, and NaN, where there is one, in whole steps and behind them."""
    y, x, k = Axis("y", 12), Axis("x", 3), Axis("k", count)
    source = Tensor("source", F32, (y.size, x.size, count), (x.size * count, count, 1), "input")
    found = Tensor("found", F32, (y.size,), (1,), "output")
    value = extreme_of(comparison, (x, k), load(source, (index(y), index(x), index(k))), partials=partials_for(k))
    definition = Definition((source,), (found,), (Compute((y,), (Store(found, (index(y),), value),)),))
    draw = np.random.default_rng(count)
    numbers = draw.choice(np.array([-1.0, -0.0, 0.0, 1.0], np.float32), (y.size, x.size * count))
    numbers[3], numbers[4] = -np.inf, np.inf
    numbers[range(5, 10), [0, count - 1, count, 2 * count + 9, -1]] = np.nan
    contents = {source: numbers.reshape(-1), found: np.zeros(y.size, np.float32)}
    check_nests(definition, Processor(host), contents, (1, 0))


def test_any_nan_is_as_good_as_another() -> None:
    """Two threads that compute the same point may give it NaN of either sign; a NaN and a number are a conflict."""
    y = Tensor("y", F32, (4,), (1,), "output")
    memory = TensorMemory({y: np.zeros(4, np.float32)})
    for memory.writer, value in enumerate((np.nan, -np.nan)):
        memory.write(y, np.array([1]), np.array([value], np.float32))
    with pytest.raises(RaceError, match="element 1"):
        memory.write(y, np.array([1]), np.array([2], np.float32))
        memory.writer = 0
        memory.write(y, np.array([1]), np.array([np.nan], np.float32))


def test_stray_stores_are_seen() -> None:
    code, contents = _code(_two_steps())
    with pytest.raises(StrayAccessError, match="y"):
        run_by_nests(code, contents | {Y: np.zeros(COUNT - 4, np.int32)}, (0,))


def test_what_is_explained_is_what_code_is_written_from() -> None:
    """Threads at points of their own do all of a kernel, and it is scheduled for that."""
    first, second = _two_steps().statements
    assert isinstance(first, Compute) and isinstance(second, Compute)
    point = Axis("p", 1)
    definition = Definition((X,), (Y,), (Each((point,), (first, second), (MIDDLE,)),))
    target = Processor(HOSTS[0], replace(MANY_THREADS, work_between_looks=16))
    code = target.generate(definition, in_place=False)
    (points,) = (step for step in code.sequence.steps if isinstance(step, Points))
    for call, description in zip(points.calls, code.describe_kernels(), strict=True):
        nest = kernel_nest(call.kernel.kernel, call.kernel.target, call.axes)
        assert description.text == format_nest(nest)
        assert all(node.look is None for node in nodes_of(nest.body) if isinstance(node, Items))
