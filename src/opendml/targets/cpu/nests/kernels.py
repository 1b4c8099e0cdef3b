"""The nest of a kernel, whichever kind it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from opendml.expression.ir import Axis
from opendml.loops.nest import Nest
from opendml.targets.cpu.nests.compute import compute_nest
from opendml.targets.cpu.nests.order import order_nest
from opendml.targets.cpu.nests.scan import scan_nest
from opendml.targets.cpu.nests.scatter import scatter_nest
from opendml.targets.cpu.schedule import ComputeKernel, OrderKernel, ScanKernel, ScatterKernel
from opendml.targets.cpu.target import CpuTarget

_NESTS: Final[dict[type, Callable[[Any, CpuTarget, Sequence[Axis]], Nest]]] = {
    ComputeKernel: compute_nest,
    OrderKernel: lambda kernel, target, _: order_nest(kernel, target),
    ScanKernel: lambda kernel, target, _: scan_nest(kernel, target.tuning),
    ScatterKernel: lambda kernel, target, _: scatter_nest(kernel, target.tuning),
}


def kernel_nest(kernel: object, target: CpuTarget, repeats: Sequence[Axis] = ()) -> Nest | None:
    """The nest that the code of a kernel inside of ``repeats`` is written from; None for kinds that are written
    otherwise."""
    make = _NESTS.get(type(kernel))
    return None if make is None else make(kernel, target, repeats)
