"""Sums whose partial results are lanes, several of them step by step: the same bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contraction_kernels import activated_gemm, gemm
from nest_running import check_on_hosts

from opendml.expression.statements import Definition
from opendml.llvm.host import Machine, machine_of
from opendml.loops.nest_printer import format_nest
from opendml.targets.cpu.microarchitectures import tuning_of
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.tuning import TUNING

pytestmark = pytest.mark.usefixtures("no_cache")

SIDE_BY_SIDE = "side by side"
AVX512 = machine_of("x86_64-unknown-linux-gnu", "avx512")
AVX2 = machine_of("x86_64-unknown-linux-gnu", "avx2")


def row(inner: int, columns: int) -> Definition:
    """One row times the rows of a matrix."""
    return gemm(1, inner, columns, trans_b=True).define()


def few_rows(inner: int, columns: int) -> Definition:
    """Three rows."""
    return gemm(3, inner, columns, trans_b=True).define()


def few_columns(inner: int, rows: int) -> Definition:
    """Many rows times two columns."""
    return gemm(rows, inner, 2).define()


def halves(inner: int, columns: int) -> Definition:
    """The same of float16, with something added and an activation of its own."""
    return activated_gemm("float16", (1, 1), 1, inner, columns).define()


def text_of(definition: Definition, target: Processor) -> str:
    nests = target.generate(target.refine(definition), in_place=False).nests
    return "\n".join(format_nest(nest) for nest in nests)


@pytest.mark.parametrize("make", [row, few_rows, few_columns, halves])
@pytest.mark.parametrize(("inner", "columns"), [(64, 4), (640, 8), (200, 12), (129, 128), (4096, 6), (3, 4), (700, 1)])
def test_results_are_those_of_the_definition(make: object, inner: int, columns: int) -> None:
    assert callable(make)
    check_on_hosts(make(inner, columns))


def test_several_sums_share_a_row() -> None:
    """Where there are registers for them, and whole groups of them."""
    target = Processor(AVX512, TUNING)
    assert SIDE_BY_SIDE in text_of(row(4096, 128), target)
    assert SIDE_BY_SIDE not in text_of(row(4096, 126), target)
    assert SIDE_BY_SIDE not in text_of(row(4096, 128), Processor(AVX2, TUNING))
    assert SIDE_BY_SIDE not in text_of(row(4096, 128), target.tuned(rows_side_by_side=1))


def test_what_is_shared_is_loaded_once_for_all() -> None:
    """In a step of four sums: four vectors of what they share, and sixteen of their own."""
    target = Processor(AVX512, TUNING)
    code = target.generate(target.refine(row(9216, 128)), in_place=False)
    loads = [line for module in code.modules for line in module.splitlines() if "load <64 x float>" in line]
    assert len(loads) == 5


def test_sums_of_few_rows_and_of_few_columns_share_what_they_load() -> None:
    """Where registers hold the partial results of all, and the nearest cache what each reads of its own."""
    target = Processor(AVX512, TUNING)
    for definition in (few_rows(1024, 128), few_columns(1024, 128)):
        assert SIDE_BY_SIDE in text_of(definition, target)
        assert SIDE_BY_SIDE not in text_of(definition, target.tuned(near_rows_bytes=1 << 12))
        assert SIDE_BY_SIDE not in text_of(definition, target.tuned(sums_side_by_side_bytes=256))
    assert SIDE_BY_SIDE not in text_of(few_rows(4096, 128), target)


@pytest.mark.parametrize(("machine", "sums"), [(AVX512, 6), (AVX2, 1)])
def test_registers_hold_the_partial_results_of_so_many_sums(machine: Machine, sums: int) -> None:
    assert tuning_of(machine, 2).sums_side_by_side_bytes // (64 * 4) == sums


@pytest.mark.parametrize(("make", "own"), [(few_rows, 3), (few_columns, 2)])
def test_a_step_of_few_rows_or_columns_loads_a_vector_for_all_of_them(
    make: Callable[[int, int], Definition], own: int
) -> None:
    target = Processor(AVX512, TUNING)
    code = target.generate(target.refine(make(1024, 128)), in_place=False)
    loads = [line for module in code.modules for line in module.splitlines() if "load <64 x float>" in line]
    assert len(loads) == own + 1
