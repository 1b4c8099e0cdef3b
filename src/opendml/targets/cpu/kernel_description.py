"""Kernels as text, for people: which loops there are, and who runs them."""

from __future__ import annotations

from collections.abc import Sequence

from opendml.expression.affine import format_address
from opendml.expression.ir import Axis
from opendml.expression.printer import format_expression, format_values
from opendml.loops.nest_printer import format_nest
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.schedule import ComputeKernel, OrderKernel, ScanKernel, ScatterKernel
from opendml.targets.cpu.target import CpuTarget


def describe_kernel(
    kernel: ComputeKernel | ContractionKernel | ScanKernel | ScatterKernel | OrderKernel,
    target: CpuTarget,
    repeats: Sequence[Axis] = (),
) -> str:
    """The loops of a kernel from the outside in, and what is stored in the innermost one: its nest."""
    nest = kernel_nest(kernel, target, repeats)
    if nest is not None:
        return format_nest(nest)
    if isinstance(kernel, ContractionKernel):
        lines = _contraction_loops(kernel)
        stores = kernel.stores
    else:
        raise TypeError(type(kernel).__name__)
    text = ["  " * depth + line for depth, line in enumerate(lines)]
    targets = [(f"{store.tensor.name}@({format_address(store.address)})", store.value) for store in stores]
    return "\n".join(text + ["  " * len(lines) + line for line in format_values(targets)])


def _contraction_loops(kernel: ContractionKernel) -> list[str]:
    lines = [_items(kernel.item_count, kernel.serial)]
    if kernel.panel is not None:
        lines.append(f"with {format_expression(kernel.panel.source)} copied to {kernel.panel.tensor.name}")
    for axis in kernel.loops:
        sizes = [str(size) for cut, size in kernel.blocks if cut is axis and size < axis.size]
        block = f" in blocks of {' and '.join(sizes)} (shared out)" if sizes else ""
        steps = ""
        if axis is kernel.vector:
            steps = f", {kernel.vectors} vectors of {kernel.lanes} at a time"
        elif axis is kernel.tile:
            steps = f", {kernel.tile_size} together{', stored as vectors' if kernel.turned else ''}"
        lines.append(f"{_loop(axis)}{block}{steps}")
    return lines


def _items(count: int, serial: bool) -> str:
    return "by one thread" if serial else f"{count} work items, shared out among the threads"


def _loop(axis: Axis) -> str:
    return f"for {axis.name} < {axis.size}"
