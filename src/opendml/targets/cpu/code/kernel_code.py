"""Kernels into LLVM functions: their parameters, and the lines of their nests between these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opendml.expression.affine import Element, loads_of
from opendml.expression.ir import Axis, Tensor
from opendml.llvm.builder import Builder
from opendml.llvm.native import STRAIGHT
from opendml.loops.alignment import ALIGNMENT
from opendml.loops.nest import ElementStore
from opendml.targets.cpu.code.evaluation import Evaluator
from opendml.targets.cpu.code.memory import Pointer
from opendml.targets.cpu.code.nest_code import write_nest
from opendml.targets.cpu.code.point import Point, Position
from opendml.targets.cpu.contraction import ContractionKernel
from opendml.targets.cpu.kernels import ComputeKernel, OrderKernel, ScanKernel, ScatterKernel
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.target import CpuTarget


@dataclass(frozen=True, slots=True)
class KernelCode:
    """The text of a kernel's function from its parameters on, and what it declares: intrinsics, functions of its own.

    ``origins`` are the elements of the tensors that the function wants pointers to. Kernels that do the same to other
    tensors, or at other places of them, have the same text. ``scratch_bytes``: memory that each thread needs alone.
    ``is_controlled``: whether the function takes the control block of the dispatch; ``is_pooled``: whether it takes the
    counters of work items that have been taken from the pools of shares, or null where there are none.
    """

    text: str
    declarations: frozenset[str]
    origins: tuple[int, ...]
    scratch_bytes: int
    is_controlled: bool
    is_pooled: bool


def kernel_code(
    kernel: ComputeKernel | ContractionKernel | ScanKernel | ScatterKernel | OrderKernel,
    tensors: Sequence[Tensor],
    repeats: Sequence[Axis],
    target: CpuTarget,
) -> KernelCode:
    """The function ``(pointers of tensors..., positions of repeats..., thread, threads)``, from its parameters on.

    A kernel that takes long takes the control block of the dispatch behind those, and one that needs memory for each
    thread a pointer to the thread's own one. On the stack there
    are only the registers that LLVM spills.
    """
    builder = Builder()
    origins = _origins(kernel)
    pointers = {tensor: Pointer(f"%p{number}", origins[tensor]) for number, tensor in enumerate(tensors)}
    nest = kernel_nest(kernel, target, repeats)
    evaluator = Evaluator(builder, pointers, target, nest.ahead, nest.ahead_in_folds, nest.instructions)
    origin = Point({axis: Position(f"%r{number}") for number, axis in enumerate(repeats)})
    write_nest(nest, builder, evaluator, origin, f"%r{len(repeats) - 1}" if repeats else None)
    qualifier = "" if nest.aliased else " noalias"
    parameters = [f"ptr{qualifier} nocapture {pointers[tensor].name}" for tensor in tensors]
    parameters += [f"i64 %r{number}" for number in range(len(repeats))]
    parameters += ["i64 %thread", "i64 %threads"]
    if builder.is_pooled:
        parameters.append("ptr nocapture %taken")
    if builder.is_controlled:
        parameters.append("ptr nocapture %control")
    if builder.scratch_bytes:
        parameters.append(f"ptr noalias nocapture align {ALIGNMENT} %scratch")
    attributes = f"noinline {STRAIGHT}" if isinstance(kernel, ContractionKernel) else "noinline"
    head = f"({', '.join(parameters)}) {attributes} #0 {{"
    text = "\n".join([head, "entry:", *builder.allocations, *builder.lines, "  ret void", "}"])
    places = tuple(origins[tensor] for tensor in tensors)
    declarations = frozenset(builder.declarations)
    return KernelCode(text, declarations, places, builder.scratch_bytes, builder.is_controlled, builder.is_pooled)


def _origins(kernel: ComputeKernel | ContractionKernel | ScanKernel | ScatterKernel | OrderKernel) -> dict[Tensor, int]:
    """The least constant part of the addresses in each tensor: kernels that differ in it alone are one function."""
    stores = (kernel.store,) if isinstance(kernel, ScatterKernel) else kernel.stores
    expressions = [e for store in stores for e in (store.value, *store.address.opaque)]
    if isinstance(kernel, ScanKernel):
        expressions += [*kernel.initial, *kernel.step]
    elif isinstance(kernel, ScatterKernel):
        expressions.append(kernel.where)
    elif isinstance(kernel, OrderKernel):
        expressions.append(kernel.key)
    elif isinstance(kernel, ContractionKernel) and kernel.panel is not None:
        expressions.append(kernel.panel.source)
    places: list[ElementStore | Element] = [*stores, *loads_of(*expressions)]
    origins: dict[Tensor, int] = {}
    for place in places:
        origins[place.tensor] = min(origins.get(place.tensor, place.address.constant), place.address.constant)
    return origins
