"""Sums of products of a few rows whose other factor lies along the steps: squares of it are transposed in registers."""

from __future__ import annotations

import pytest
from contraction_kernels import TARGETS, gemm, product_kernel
from nest_running import HOSTS, MANY_THREADS, check_nests, contents_of

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.llvm.host import machine_of
from opendml.loops.nest_printer import format_nest
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.tuning import TUNING

pytestmark = pytest.mark.usefixtures("no_cache")


@pytest.mark.parametrize("rows", [4, 5, 7, 12, 14])
@pytest.mark.parametrize(("inner", "columns"), [(16, 16), (64, 100), (160, 33), (1024, 48), (32, 7)])
def test_results_are_those_of_the_definition(rows: int, inner: int, columns: int) -> None:
    definition = gemm(rows, inner, columns, trans_b=True).define()
    for machine in HOSTS:
        for tuning in (MANY_THREADS, TUNING):
            target = Processor(machine, tuning)
            check_nests(target.refine(definition), target, contents_of(definition, 1), (1, 0))


def test_of_batches_with_something_added() -> None:
    """And with an activation."""
    definition = operators.Gemm(
        a_tensor=TensorDesc("float32", [2, 3, 6, 48]),
        b_tensor=TensorDesc("float32", [2, 3, 40, 48]),
        c_tensor=TensorDesc("float32", [2, 3, 6, 40]),
        output_tensor=TensorDesc("float32", [2, 3, 6, 40]),
        trans_a="NONE",
        trans_b="TRANSPOSE",
        alpha=0.5,
        beta=2.0,
        fused_activation=operators.ActivationRelu(),
    ).define()
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
