"""The processor of this process as a target of programs (``targets.target.Target``)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opendml.llvm.compiled_objects import Compilation, get_or_compile_all, object_key
from opendml.llvm.host import Machine, default_thread_count, host_machine
from opendml.llvm.processor_facts import processor_facts
from opendml.targets.cpu.caches import system_caches
from opendml.targets.cpu.target import CpuTarget, UsualKnobs
from opendml.targets.target import Built, DeviceDescription, Progress, Requirements, Target

if TYPE_CHECKING:
    from opendml.description.graph_desc import GraphDesc
    from opendml.expression.ir import Tensor
    from opendml.expression.statements import Definition, Origin
    from opendml.llvm.native import LoadedObject
    from opendml.targets.cpu.code.program_code import ProgramCode
    from opendml.targets.cpu.runtime.executable import CpuExecutable
    from opendml.targets.cpu.runtime.timed_executable import TimedCpuExecutable
    from opendml.targets.cpu.tuning import Tuning
    from opendml.targets.machine_limits import MachineLimits


@dataclass(frozen=True, slots=True)
class Processor(CpuTarget):
    """A ``CpuTarget`` that makes programs."""

    @property
    def name(self) -> str:
        """The only device of this kind."""
        return "cpu"

    @property
    def memory(self) -> None:
        """None: it is the host's."""

    @property
    def reads_anywhere(self) -> bool:
        """As the processor does."""
        return self.machine.reads_anywhere

    def thread_count(self, asked: int | None) -> int:
        """As many as are asked for, else as many as the process may use."""
        return default_thread_count() if asked is None else asked

    def lay_out(self, graph: GraphDesc) -> GraphDesc:
        """Channels side by side where sums gain by that."""
        from opendml.targets.cpu.layouts import laid_out

        return laid_out(graph, self)

    def refine(
        self,
        definition: Definition,
        fixed: Iterable[Tensor] = (),
        bounds: Mapping[Tensor, float] | None = None,
        denormal: Iterable[Tensor] = (),
        origins: Mapping[Tensor, Origin] | None = None,
    ) -> Definition:
        """By the rules of ``refine/``: layouts for vectors and for the processor's instructions."""
        from opendml.targets.cpu.refine.refining import refine

        return refine(definition, self, fixed, bounds, denormal, origins)

    def generate(self, definition: Definition, *, in_place: bool) -> ProgramCode:
        """LLVM modules, the first of them with the entry."""
        from opendml.targets.cpu.compilation import generate

        return generate(definition, self, in_place=in_place)

    def object_key(self, module: str) -> bytes:
        """A hash over the module, the processor and the compiler."""
        return object_key(module, self.machine)

    def compile(self, modules: Sequence[str], progress: Progress | None = None) -> tuple[list[bytes], bool]:
        """Relocatable object files."""
        from opendml.targets.cpu.runtime.barrier_code import shared_ir

        return get_or_compile_all(modules, self.machine, progress, [shared_ir(self.machine)])

    def build(self, definitions: Sequence[Definition], progress: Progress | None = None) -> Built:
        """Modules are compiled by other processes while the next ones are written."""
        from opendml.targets.cpu.compilation import generate
        from opendml.targets.cpu.runtime.barrier_code import shared_ir

        rare = self.tuned(simple_work=self.tuning.rare_work)
        with Compilation(self.machine, progress, [shared_ir(self.machine)]) as compilation:
            codes = [
                generate(definition, rare if number else self, in_place=False, begin=compilation.begin)
                for number, definition in enumerate(definitions)
            ]
            modules = tuple(dict.fromkeys(module for code in codes for module in code.modules))
            objects, from_cache = compilation.finish(modules)
        return Built(codes, dict(zip(modules, objects, strict=True)), from_cache)

    def load(self, objects: Sequence[bytes], requirements: Requirements, thread_count: int) -> CpuExecutable:
        """Map objects into this process. They are machine code that will run."""
        from opendml.targets.cpu.runtime.executable import CpuExecutable

        return CpuExecutable(requirements, *self._loaded(objects), thread_count)

    def _loaded(self, objects: Sequence[bytes]) -> tuple[LoadedObject, int]:
        from opendml.llvm.native import load_object
        from opendml.targets.cpu.code.interface import ENTRY

        loaded = load_object(objects[0], [ENTRY], self.machine, objects[1:])
        return loaded, loaded[ENTRY]

    def assembly(self, module: str) -> str:
        """The processor's instructions."""
        from opendml.llvm import native

        return native.assembly(module, self.machine)

    def instrumented(
        self, definition: Definition, *, in_place: bool, thread_count: int
    ) -> tuple[ProgramCode, TimedCpuExecutable]:
        """The same kernels, with a record for each of them and each thread."""
        from opendml.targets.cpu.compilation import generate
        from opendml.targets.cpu.runtime.timed_executable import TimedCpuExecutable

        code = generate(definition, self, in_place=in_place, profiled=True)
        objects, _ = self.compile(code.modules)
        place = self._loaded(objects)
        return code, TimedCpuExecutable(code.requirements, *place, thread_count, len(code.origins))

    def limits(self, thread_count: int) -> MachineLimits:
        """Measured by copies and a loop of fused multiply-adds on this processor."""
        from opendml.targets.cpu.limits import processor_limits

        return processor_limits(self, thread_count)


def host_processor(level: str | None = None, tuning: Tuning | None = None) -> Processor:
    """This process's processor, as ``host_target``."""
    usual = _host_processor(host_machine(level), default_thread_count())
    return usual if tuning is None or tuning == usual.tuning else Processor(usual.machine, tuning)


@functools.cache
def _host_processor(machine: Machine, threads: int) -> Processor:
    """The processor with its usual knobs, which each compilation asks for several times."""
    return Processor(machine, UsualKnobs(machine, threads, processor_facts().cpu_name, system_caches()))


def open_target(number: int, tuning: Tuning | None) -> Target:
    """The processor; its number is 0."""
    return host_processor(tuning=tuning)


def describe_devices() -> list[DeviceDescription]:
    """This process's processor."""
    machine = host_machine()
    facts = (
        ("Triple", machine.triple),
        ("Threads", str(default_thread_count())),
        ("Memory", "the host's"),
        ("FLOAT64", "yes"),
    )
    return [DeviceDescription("cpu", machine.cpu_name, facts)]
