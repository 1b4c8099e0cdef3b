"""An OpenCL device as a target: its facts, its knobs, and SPIR-V made of its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from opendml.description.errors import ConfigurationError
from opendml.graph.costs import GraphCosts
from opendml.llvm.foreign import compile_foreign, foreign_key
from opendml.targets.gpu.dialect import SPIRV
from opendml.targets.opencl.machine import FEATURES, OpenClMachine, Tuning
from opendml.targets.opencl.platform import describe_device, find_devices, has_pyopencl, machine_of
from opendml.targets.target import Built, DeviceDescription, Progress, Requirements, built_in_turn

if TYPE_CHECKING:
    from opendml.description.graph_desc import GraphDesc
    from opendml.expression.ir import Tensor
    from opendml.expression.statements import Definition, Origin
    from opendml.targets.gpu.program import GpuCode
    from opendml.targets.opencl.executable import OpenClExecutable, TimedOpenClExecutable
    from opendml.targets.opencl.memory import OpenClMemorySpace


ADVICE: Final = "on x86-64 Linux, 'pip install intel-opencl-rt intel-cmplr-lib-rt' makes the processor one"


@dataclass(frozen=True, slots=True)
class OpenClTarget:
    """``number`` counts the devices of all platforms."""

    number: int
    machine: OpenClMachine
    tuning: Tuning

    @property
    def name(self) -> str:
        """By which the device is found again."""
        return f"opencl:{self.number}"

    @property
    def identity(self) -> str:
        """The whole of it."""
        return repr(self)

    @property
    def costs(self) -> GraphCosts:
        """What fusion weighs."""
        return self.tuning.graph

    @property
    def memory(self) -> OpenClMemorySpace:
        """Buffers of the device's context."""
        from opendml.targets.opencl.memory import OpenClMemorySpace

        return OpenClMemorySpace(self.number)

    @property
    def reads_anywhere(self) -> bool:
        """False: pointers of OpenCL are aligned."""
        return False

    def thread_count(self, asked: int | None) -> int:
        """One: the device's own are not this process's."""
        return 1

    def lay_out(self, graph: GraphDesc) -> GraphDesc:
        """As it is."""
        return graph

    def refine(
        self,
        definition: Definition,
        fixed: Iterable[Tensor] = (),
        bounds: Mapping[Tensor, float] | None = None,
        denormal: Iterable[Tensor] = (),
        origins: Mapping[Tensor, Origin] | None = None,
    ) -> Definition:
        """The definition itself: plain kernels want no other layout."""
        return definition

    def generate(self, definition: Definition, *, in_place: bool) -> GpuCode:
        """One module of kernels. Outputs have memory of their own on the device, so ``in_place`` changes nothing."""
        from opendml.targets.gpu.program import generate

        machine = self.machine
        return generate(definition, SPIRV, divides_exactly=machine.divides_exactly, has_float64=machine.has_float64)

    def object_key(self, module: str) -> bytes:
        """A hash over the module and the compiler: SPIR-V is the same for all devices."""
        return foreign_key(module, SPIRV.triple)

    def compile(self, modules: Sequence[str], progress: Progress | None = None) -> tuple[list[bytes], bool]:
        """SPIR-V, behind the launch plan."""
        return compile_foreign(modules, SPIRV.triple, progress=progress)

    def build(self, definitions: Sequence[Definition], progress: Progress | None = None) -> Built:
        """One after another."""
        return built_in_turn(self, definitions, progress)

    def load(self, objects: Sequence[bytes], requirements: Requirements, thread_count: int) -> OpenClExecutable:
        """Have the device's driver build a program."""
        from opendml.targets.opencl.executable import load_program

        return load_program(self.number, self.tuning, objects[0], requirements)

    def assembly(self, module: str) -> str:
        """SPIR-V, as LLVM prints it."""
        (text,), _ = compile_foreign([module], SPIRV.triple, assembly=True)
        return text.partition(b"\n")[2].decode()

    def instrumented(
        self, definition: Definition, *, in_place: bool, thread_count: int
    ) -> tuple[GpuCode, TimedOpenClExecutable]:
        """The same kernels on a queue whose events have times."""
        from opendml.targets.opencl.executable import load_timed_program

        code = self.generate(definition, in_place=in_place)
        objects, _ = self.compile(code.modules)
        return code, load_timed_program(self.number, self.tuning, objects[0], code.requirements)

    def limits(self, thread_count: int) -> None:
        """None: OpenCL does not tell them, and plain kernels do not reach them."""


def open_target(number: int, tuning: Tuning | None) -> OpenClTarget:
    """The device of a number. Raises ConfigurationError where pyopencl or the device is absent, or the device lacks
    arithmetic that the definitions need."""
    devices = find_devices()
    if number >= len(devices):
        have = f"there are {len(devices)}" if devices else f"no OpenCL device that takes SPIR-V was found; {ADVICE}"
        raise ConfigurationError(f"device 'opencl:{number}': {have}")
    machine = machine_of(devices[number])
    lacking = [text for name, text in FEATURES.items() if not getattr(machine, name)]
    if lacking:
        raise ConfigurationError(f"device 'opencl:{number}' ({machine.device}) lacks {', '.join(lacking)}")
    return OpenClTarget(number, machine, tuning or Tuning())


def describe_devices() -> list[DeviceDescription]:
    """The devices that there are; none where pyopencl is not installed."""
    return [describe_device(number) for number in range(len(find_devices()))] if has_pyopencl() else []
