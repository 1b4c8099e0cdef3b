"""Statements into kernels: scheduled, and written as functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opendml.expression.affine import affine
from opendml.expression.ir import Axis, Load, Tensor
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Order, Scan, Single, writes_of
from opendml.loops.sequence import Sharing
from opendml.targets.cpu.code.kernel_code import KernelCode, kernel_code
from opendml.targets.cpu.code.modules import ModuleWriter
from opendml.targets.cpu.contraction import ContractionKernel, schedule_contraction
from opendml.targets.cpu.kernels import ComputeKernel, OrderKernel, ScanKernel, ScatterKernel
from opendml.targets.cpu.little_work import short_where_little
from opendml.targets.cpu.schedule import schedule_compute, schedule_order, schedule_scan, schedule_scatter, work_of
from opendml.targets.cpu.target import CpuTarget

Kernel = ComputeKernel | ContractionKernel | ScanKernel | ScatterKernel | OrderKernel


@dataclass(frozen=True, slots=True, eq=False)
class WrittenKernel:
    """A kernel and its function, as ``opendml.loops.sequence`` asks for it; ``target``: what it was scheduled for."""

    name: str
    tensors: Sequence[Tensor]
    kernel: Kernel
    code: KernelCode
    work: int
    target: CpuTarget

    @property
    def is_serial(self) -> bool:
        """Whether one thread does all of it."""
        return self.kernel.serial

    @property
    def takes_turns(self) -> bool:
        """Whether that may be another thread than the first, which alone looks for signals."""
        return self.kernel.serial and not self.code.is_controlled

    @property
    def scratch_bytes(self) -> int:
        """Memory that each thread needs alone."""
        return self.code.scratch_bytes


class KernelWriter:
    """Makes kernels, whose functions go to ``modules``, each text once.

    Threads at points of an Each do all work items of a kernel by themselves, and do not look for signals between them:
    the loop over the points does.
    """

    def __init__(self, target: CpuTarget, in_place: bool, modules: ModuleWriter) -> None:
        self._names: dict[str, str] = {}  # of texts
        self._modules = modules
        self._targets: dict[Sharing, CpuTarget] = {
            "as it pays": target,
            "alone": target.tuned(items=1, shares=1, work_between_looks=1 << 62),
            "beside": target.tuned(serial_work=0),
        }
        self._in_place = in_place

    def __call__(
        self, statement: Single, repeats: tuple[Axis, ...], order: Mapping[Tensor, int], sharing: Sharing
    ) -> WrittenKernel:
        """The kernel of a statement."""
        target = short_where_little(statement, repeats, self._targets[sharing])
        kernel = scheduled(statement, target, self._in_place)
        tensors = sorted(kernel.reads | writes_of(statement), key=order.__getitem__)
        code = kernel_code(kernel, tensors, repeats, target)
        name = self._names.get(code.text)
        if name is None:
            name = self._names[code.text] = f"kernel{len(self._names)}"
            self._modules.add(name, code.text, code.declarations)
        return WrittenKernel(name, tensors, kernel, code, work_of_kernel(kernel), target)


def work_of_kernel(kernel: Kernel) -> int:
    """The steps of a kernel."""
    return work_of(kernel) if isinstance(kernel, ComputeKernel) else kernel.work


def updates(compute: Compute) -> bool:
    """Whether points read what they write, so that none may be done twice."""
    loads = {e for store in compute.stores for e in walk(store.value) if isinstance(e, Load)}
    for store in compute.stores:
        for e in (e for e in loads if e.tensor is store.tensor):
            differences = [affine(a - b) for a, b in zip(e.coordinates, store.coordinates, strict=True)]
            if not any(form.terms or form.constant for form in differences):
                return True
    return False


def scheduled(statement: Single, target: CpuTarget, in_place: bool) -> Kernel:
    """The kernel of a statement, its loops chosen."""
    if isinstance(statement, Compute):
        in_place = in_place or updates(statement)
        found = None if in_place else schedule_contraction(statement, target)
        return found or schedule_compute(statement, target, in_place=in_place)
    if isinstance(statement, Scan):
        return schedule_scan(statement, target)
    if isinstance(statement, Order):
        return schedule_order(statement, target)
    return schedule_scatter(statement, target)
