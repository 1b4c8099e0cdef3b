"""Kernels as text, for people: which loops there are, and who runs them."""

from __future__ import annotations

from collections.abc import Sequence

from opendml.expression.ir import Axis
from opendml.loops.nest_printer import format_nest
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.kernels import ComputeKernel, OrderKernel, ScanKernel, ScatterKernel
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.target import CpuTarget


def describe_kernel(
    kernel: ComputeKernel | ContractionKernel | ScanKernel | ScatterKernel | OrderKernel,
    target: CpuTarget,
    repeats: Sequence[Axis] = (),
) -> str:
    """The loops of a kernel from the outside in, and what is stored in the innermost one: its nest."""
    return format_nest(kernel_nest(kernel, target, repeats))
