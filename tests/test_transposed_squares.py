"""Squares of elements that are transposed in registers: how large they are, and how many of them lie below another."""

from __future__ import annotations

import pytest
from contraction_kernels import TARGETS
from nest_running import HOSTS, MANY_THREADS, check_nests, contents_of

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.expression.statements import Definition
from opendml.targets.cpu.kernels import ComputeKernel
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.target import CpuTarget

WIDE, NARROW, *_ = TARGETS

pytestmark = pytest.mark.usefixtures("no_cache")


def transposition(data_type: str, rows: int, columns: int) -> Definition:
    """A matrix of so many rows and columns becomes one of columns and rows."""
    return operators.ElementWiseIdentity(
        input_tensor=TensorDesc(data_type, [columns, rows], strides=[1, columns]),
        output_tensor=TensorDesc(data_type, [columns, rows]),
    ).define()


def kernel_of(definition: Definition, target: CpuTarget) -> ComputeKernel:
    (kernel,) = Processor(target.machine, target.tuning).generate(definition, in_place=False).kernels
    assert isinstance(kernel, ComputeKernel)
    return kernel


@pytest.mark.parametrize(
    ("target", "data_type", "size"),
    [
        (WIDE, "float64", 8),
        (WIDE, "float32", 16),
        (WIDE, "float16", 32),
        (WIDE, "uint8", 32),
        (NARROW, "float64", 8),
        (NARROW, "float32", 8),
        (NARROW, "float16", 16),
        (NARROW, "uint8", 16),
    ],
    ids=str,
)
def test_squares_fit_in_registers(target: CpuTarget, data_type: str, size: int) -> None:
    kernel = kernel_of(transposition(data_type, 200, 300), target)
    assert (kernel.transposed, kernel.tile_size, kernel.lanes) == (True, size, size)
    bits = kernel.stores[0].tensor.type.bits
    assert size * -(-size // target.machine.lanes(bits)) <= target.machine.vector_registers


@pytest.mark.parametrize(
    ("data_type", "rows", "block", "size"),
    [
        ("float32", 500, 96, 8),
        ("float32", 512, 16, 8),  # two places in the nearest cache, of eight lines each
        ("float32", 1024, 16, 8),  # one: but what is read is whole lines
        ("float32", 256, 32, 8),
        ("float16", 512, 32, 16),
        ("float16", 2048, 32, 16),
        ("uint8", 512, 64, 16),
        ("uint8", 2048, 64, 32),  # lines would come four times
        ("uint8", 2000, 96, 16),
    ],
)
def test_rows_that_share_places_in_the_cache_are_few(data_type: str, rows: int, block: int, size: int) -> None:
    """Those of the results that are written a part of a line at a time wait for the other parts."""
    kernel = kernel_of(transposition(data_type, rows, 320), NARROW)
    assert (kernel.tile_block, kernel.tile_size) == (block, size)


@pytest.mark.parametrize("data_type", ["float64", "float32", "float16", "uint8"])
@pytest.mark.parametrize(("rows", "columns"), [(64, 48), (128, 33), (1024, 35), (71, 70)])
def test_results_are_those_of_the_definition(data_type: str, rows: int, columns: int) -> None:
    definition = transposition(data_type, rows, columns)
    for machine in HOSTS:
        check_nests(definition, Processor(machine, MANY_THREADS), contents_of(definition, 1), (1, 0))


def padded(data_type: str, rows: int, columns: int, before: int, behind: int) -> Definition:
    """As ``transposition``, with margins of the number 3 around: where these are, nothing is read."""
    return operators.Padding1(
        input_tensor=TensorDesc(data_type, [columns, rows], strides=[1, columns]),
        output_tensor=TensorDesc(data_type, [columns + before + behind, rows + before + behind]),
        padding_mode="CONSTANT",
        padding_value_data_type=data_type,
        padding_value=3,
        start_padding=[before, before],
        end_padding=[behind, behind],
    ).define()


@pytest.mark.parametrize("data_type", ["float32", "uint8"])
@pytest.mark.parametrize(
    ("rows", "columns", "before", "behind"),
    [(200, 56, 1, 1), (64, 300, 1, 0), (71, 32, 0, 2), (130, 97, 40, 3), (33, 200, 5, 70), (70, 9, 1, 1)],
)
def test_squares_between_margins_are_transposed(
    data_type: str, rows: int, columns: int, before: int, behind: int
) -> None:
    """Wherever margins begin and end, in one share of the rows or in several; where less than a square lies between
    them, nothing is."""
    definition = padded(data_type, rows, columns, before, behind)
    for machine in HOSTS:
        processor = Processor(machine, MANY_THREADS)
        (kernel,) = processor.generate(definition, in_place=False).kernels
        assert isinstance(kernel, ComputeKernel)
        (text,) = (one.text for one in processor.generate(definition, in_place=False).describe_kernels())
        if machine.vector_bytes >= 32:
            assert ("transpose" in text) == (kernel.transposed and columns >= kernel.tile_size)
        check_nests(definition, processor, contents_of(definition, 1), (1, 0))
