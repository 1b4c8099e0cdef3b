"""The nest of a kernel, whichever kind it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from opendml.loops.nest import Nest
from opendml.targets.cpu.nests.scan import scan_nest
from opendml.targets.cpu.nests.scatter import scatter_nest
from opendml.targets.cpu.schedule import ScanKernel, ScatterKernel
from opendml.targets.cpu.target import CpuTarget

_NESTS: Final[dict[type, Callable[[Any, CpuTarget], Nest]]] = {
    ScanKernel: lambda kernel, target: scan_nest(kernel, target.tuning),
    ScatterKernel: lambda kernel, target: scatter_nest(kernel, target.tuning),
}


def kernel_nest(kernel: object, target: CpuTarget) -> Nest | None:
    """The nest that the code of a kernel is written from; None for kinds that are written otherwise."""
    make = _NESTS.get(type(kernel))
    return None if make is None else make(kernel, target)
