"""A definition into LLVM modules: every kernel a function, and one entry that all threads run together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opendml.expression.ir import Axis, Tensor
from opendml.expression.statements import Definition, Single
from opendml.loops.nest import Nest
from opendml.loops.sequence import KernelSequence, Tuning, sequence_of
from opendml.targets.cpu.code.entry_code import EntryWriter
from opendml.targets.cpu.code.modules import Begin, ModuleWriter, Support
from opendml.targets.cpu.code.written_kernels import Kernel, KernelWriter, WrittenKernel, scheduled
from opendml.targets.cpu.little_work import microseconds_of
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.target import KernelDescription, Requirements

Origin = tuple[Single, tuple[Axis, ...]]
"""The statement of a kernel, and the axes of the Repeats that it is in."""


@dataclass(frozen=True, slots=True)
class ProgramCode:
    """The text of modules, and what a program needs to know to run them.

    The entry expects the buffers of the ``sequence.slots``, in order; after them comes one buffer of
    ``requirements.temporary_size`` bytes and ``scratch_size`` more for each thread, aligned to 64, if that is not
    nothing; then, if the program is profiled, one for records: the number of threads that it has room for, then as many
    RECORDs for each kernel. ``wholes`` are the statements of the graph that statements of it are a part of.
    """

    modules: tuple[str, ...]
    sequence: KernelSequence[WrittenKernel]
    requirements: Requirements
    target: CpuTarget
    in_place: bool
    wholes: Mapping[Single, Single]

    @property
    def slots(self) -> tuple[Tensor, ...]:
        """The tensors that the program is given."""
        return self.sequence.slots

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The statements, in the order in which their kernels run."""
        return tuple((call.statement, call.axes) for call in self.sequence.calls)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the ``origins``, for people who want to see them: all are scheduled, those alike too."""
        calls = self.sequence.calls
        return tuple(scheduled(call.statement, call.kernel.target, self.in_place) for call in calls)

    @property
    def nests(self) -> tuple[Nest, ...]:
        """The nests of the ``kernels``."""
        pairs = zip(self.kernels, self.sequence.calls, strict=True)
        return tuple(kernel_nest(kernel, call.kernel.target, call.axes) for kernel, call in pairs)

    def describe_kernels(self) -> tuple[KernelDescription, ...]:
        """The nests of the kernels."""
        from opendml.loops.nest_printer import format_nest

        pairs = zip(self.origins, self.nests, strict=True)
        return tuple(
            KernelDescription(statement, repeats, format_nest(nest), self.wholes.get(statement, statement))
            for (statement, repeats), nest in pairs
        )

    def describe_sequence(self) -> str:
        """Kernels, barriers and what repeats."""
        return str(self.sequence)


def program_code(
    definition: Definition,
    target: CpuTarget,
    support: Support,
    *,
    in_place: bool = False,
    profiled: bool = False,
    begin: Begin | None = None,
    wholes: Mapping[Single, Single] | None = None,
) -> ProgramCode:
    """The modules of a definition. ``support`` is what its functions refer to.

    ``in_place`` says that outputs may be bound to the same memory as inputs. ``profiled`` adds
    records of time, for which all threads wait for each other behind every kernel. ``begin`` is given
    modules that are written while others are not. ``wholes`` are for people who ask what a kernel computes.
    """
    writer = ModuleWriter(support, target, begin)
    kernels = KernelWriter(target, in_place, writer)
    knobs = target.tuning
    likeness = knobs.like_statements, knobs.long_statement
    tuning = Tuning(knobs.serial_work, knobs.long_run, *likeness, knobs.placement, knobs.work_beside)
    sequence = sequence_of(definition, kernels, tuning, every_kernel_waits=profiled)
    entry = EntryWriter(sequence, knobs, profiled=profiled)
    modules = writer.modules(entry.text(), entry.globals)
    least_size, is_parallel = sequence.memory.least_size, sequence.is_parallel
    called = ((call.statement, call.axes) for call in sequence.calls)
    if profiled or knobs.serial_work == 0:
        alone = knobs.longest_alone  # all threads have records, or are to take part whatever there is to do
    else:
        alone = microseconds_of(called, knobs) if is_parallel else 0
    requirements = Requirements(entry.temporary_size, least_size, entry.scratch_in_memory, is_parallel, alone)
    return ProgramCode(modules, sequence, requirements, target, in_place, wholes or {})
