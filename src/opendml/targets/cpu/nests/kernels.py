"""The nest of a kernel, whichever kind it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from opendml.expression.ir import Axis
from opendml.loops.nest import Nest
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.instructions.machine import machine_instructions
from opendml.targets.cpu.kernels import ComputeKernel, OrderKernel, ScanKernel, ScatterKernel
from opendml.targets.cpu.nests.compute import compute_nest
from opendml.targets.cpu.nests.contraction import contraction_nest
from opendml.targets.cpu.nests.order import order_nest
from opendml.targets.cpu.nests.planning import planned
from opendml.targets.cpu.nests.scan import scan_nest
from opendml.targets.cpu.nests.scatter import scatter_nest
from opendml.targets.cpu.target import CpuTarget


def _planned(nest: Nest, target: CpuTarget) -> Nest:
    return planned(nest, target.tuning, target.tuning.unrolled_steps)


_NESTS: Final[dict[type, Callable[[Any, CpuTarget, Sequence[Axis]], Nest]]] = {
    ComputeKernel: compute_nest,
    OrderKernel: lambda kernel, target, _: _planned(order_nest(kernel, target), target),
    ContractionKernel: lambda kernel, target, _: planned(contraction_nest(kernel, target), target.tuning, 1),
    ScanKernel: lambda kernel, target, _: _planned(scan_nest(kernel, target.tuning), target),
    ScatterKernel: lambda kernel, target, _: _planned(scatter_nest(kernel, target), target),
}


def kernel_nest(
    kernel: ComputeKernel | ContractionKernel | ScanKernel | ScatterKernel | OrderKernel,
    target: CpuTarget,
    repeats: Sequence[Axis] = (),
) -> Nest:
    """The nest that the code of a kernel inside of ``repeats`` is written from, by the machine's instructions."""
    nest = _NESTS[type(kernel)](kernel, target, repeats)
    return replace(nest, instructions=machine_instructions(target.machine))
