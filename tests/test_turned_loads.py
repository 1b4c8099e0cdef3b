"""Sums of products of a few rows whose other factor lies along the steps: squares of it are transposed in registers."""

from __future__ import annotations

import pytest
from contraction_kernels import TARGETS, activated_gemm, gemm, product_kernel
from nest_running import HOSTS, MANY_THREADS, check_nests, check_on_hosts, contents_of

from opendml.llvm.host import machine_of
from opendml.loops.nest_printer import format_nest
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.tuning import TUNING

pytestmark = pytest.mark.usefixtures("no_cache")


@pytest.mark.parametrize("rows", [4, 5, 7, 12, 14])
@pytest.mark.parametrize(("inner", "columns"), [(16, 16), (64, 100), (160, 33), (1024, 48), (32, 7)])
def test_results_are_those_of_the_definition(rows: int, inner: int, columns: int) -> None:
    check_on_hosts(gemm(rows, inner, columns, trans_b=True).define())


def test_of_batches_with_something_added() -> None:
    """And with an activation."""
    definition = activated_gemm("float32", (2, 3), 6, 48, 40).define()
    for machine in HOSTS:
        target = Processor(machine, MANY_THREADS)
        check_nests(target.refine(definition), target, contents_of(definition, 2), (1, 0))


def test_which_tiles_do() -> None:
    """Those of few rows, and of as many steps as fill squares; each loads a square once."""
    kernel = product_kernel(gemm(4, 1024, 256, trans_b=True))
    assert kernel.turns_loads and kernel.panel is None and kernel.tile_size == 4
    text = format_nest(kernel_nest(kernel, TARGETS[0]))
    assert text.count("transpose") == 1
    for other in (gemm(4, 1000, 256, trans_b=True), gemm(64, 1024, 256, trans_b=True), gemm(4, 1024, 256)):
        assert not product_kernel(other).turns_loads


@pytest.mark.parametrize(("machine", "steps"), [("avx512", 16), ("avx2", TUNING.turned_steps)])
def test_so_many_registers_hold_a_square_and_the_sums(machine: str, steps: int) -> None:
    target = Processor(machine_of("x86_64-unknown-linux-gnu", machine), TUNING)
    registers, lanes = target.machine.vector_registers, target.machine.lanes(32)
    most = registers - lanes - 2
    found = [product_kernel(gemm(rows, 1024, 256, trans_b=True), target).turns_loads for rows in (most, most + 1)]
    assert found == [True, False]
    assert product_kernel(gemm(4, steps, 256, trans_b=True), target).turns_loads
    if steps > lanes:
        assert not product_kernel(gemm(4, steps - lanes, 256, trans_b=True), target).turns_loads
