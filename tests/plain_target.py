"""A whole target in a page: the kernels of graphics processors, run by this processor, one point after another.

It is the example of "Adding a target", and a second device for the conformity suite that is there on every machine.
Like any target it is a value with facts and knobs, and a module with ``open_target`` and ``describe_devices``.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from opendml.description.errors import BindingError
from opendml.description.graph_desc import GraphDesc
from opendml.expression.ir import Tensor
from opendml.expression.statements import Definition, Origin
from opendml.graph.costs import GRAPH_COSTS, GraphCosts
from opendml.llvm.compiled_objects import object_key
from opendml.llvm.host import Machine, host_machine
from opendml.llvm.native import assembly, compile_object, load_object
from opendml.llvm.object_cache import get_or_make
from opendml.targets.gpu.dialect import Dialect
from opendml.targets.gpu.program import GpuCode, LaunchPlan, Loop, Step, generate, launches_of
from opendml.targets.interface import ArrayLayouts, Buffer, DeviceBuffer, GivenArray, KernelTimes
from opendml.targets.target import Built, DeviceDescription, Progress, Requirements, built_in_turn

Array = np.ndarray[Any, Any]

SECONDS_A_POINT = 1e-9
"""What its clock says: it ticks once for every point of a kernel, and so is the same on every machine."""

DIALECT = Dialect(
    triple="",
    kernel="",
    position=("%position = load i64, ptr @position",),
    declarations=("@position = global i64 0",),
)


@dataclass(frozen=True, slots=True)
class PlainTarget:
    """What it depends on beside a definition: the machine. Nothing of it is to be tuned."""

    machine: Machine
    tuning: None = None
    name: str = "plain:0"
    costs: GraphCosts = GRAPH_COSTS
    reads_anywhere: bool = False

    @property
    def identity(self) -> str:
        return repr(self)

    @property
    def memory(self) -> PlainMemorySpace:
        return PlainMemorySpace()

    def thread_count(self, asked: int | None) -> int:
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
        return definition

    def generate(self, definition: Definition, *, in_place: bool) -> GpuCode:
        return generate(definition, DIALECT, divides_exactly=True, has_float64=True)

    def object_key(self, module: str) -> bytes:
        return hashlib.sha256(b"plain" + object_key(module, self.machine)).digest()

    def compile(self, modules: Sequence[str], progress: Progress | None = None) -> tuple[list[bytes], bool]:
        found = [get_or_make(self.object_key(module), partial(self._made, module)) for module in modules]
        return [data for data, _ in found], all(was_there for _, was_there in found)

    def build(self, definitions: Sequence[Definition], progress: Progress | None = None) -> Built:
        return built_in_turn(self, definitions, progress)

    def _made(self, module: str) -> bytes:
        """What ``load`` needs to know, then the code."""
        return module.partition("\n")[0].encode() + b"\n" + compile_object(module, self.machine)

    def load(self, objects: Sequence[bytes], requirements: Requirements, thread_count: int) -> PlainExecutable:
        return PlainExecutable(self.machine, objects[0], requirements)

    def assembly(self, module: str) -> str:
        return assembly(module, self.machine)

    def instrumented(
        self, definition: Definition, *, in_place: bool, thread_count: int
    ) -> tuple[GpuCode, PlainExecutable]:
        code = self.generate(definition, in_place=in_place)
        return code, self.load(self.compile(code.modules)[0], code.requirements, 1)

    def limits(self, thread_count: int) -> None:
        return None


class PlainExecutable:
    """Code that is loaded: a function a kernel, and the position that it asks for. It always has its clocks on."""

    thread_count = 1

    def __init__(self, machine: Machine, data: bytes, requirements: Requirements) -> None:
        head, _, code = data.partition(b"\n")
        self.plan = LaunchPlan.from_json(head.decode().removeprefix("; "))
        self.temporary_size = requirements.temporary_size
        self.least_temporary_size = requirements.least_temporary_size
        names = [launch.kernel for launch in launches_of(self.plan.steps)]
        self.seconds = dict.fromkeys(names, 0.0)
        self._loaded = load_object(code, [*names, *(["position"] if names else [])], machine) if names else None

    def with_thread_count(self, thread_count: int) -> PlainExecutable:
        return self

    def resident(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        return buffers

    def runner(self, inputs: Sequence[Buffer | None], positions: Sequence[int], output_count: int) -> None:
        return None

    def array_function(self, layouts: ArrayLayouts, *, into: bool) -> None:
        return None

    def dispatch(self, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer | None]) -> PlainDispatch:
        return PlainDispatch(self, [*inputs, *outputs])

    def run(self, inputs: Sequence[Array | None], outputs: Sequence[Array | None]) -> None:
        PlainDispatch(self, [None if a is None else GivenArray(a, 0) for a in (*inputs, *outputs)])()

    def launch(self, step: Step, addresses: Sequence[int], loops: tuple[int, ...]) -> None:
        """Do a step: a kernel at all its points, or several again and again."""
        if isinstance(step, Loop):
            for i in range(step.size):
                for inner in step.body:
                    self.launch(inner, addresses, (*loops, i))
            return
        assert self._loaded is not None
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * (len(step.buffers) + len(loops)))(
            self._loaded[step.kernel]
        )
        position = ctypes.c_int64.from_address(self._loaded["position"])
        for point in range(step.points):
            position.value = point
            function(*(addresses[number] for number in step.buffers), *loops)
        self.seconds[step.kernel] += step.points * SECONDS_A_POINT

    def reset(self) -> None:
        self.seconds = dict.fromkeys(self.seconds, 0.0)

    def times(self) -> list[KernelTimes]:
        return [KernelTimes(seconds, ()) for seconds in self.seconds.values()]


class PlainDispatch:
    """Memory that programs run on: copies of inputs, so that an output may be one of them, and tensors that are there
    already."""

    def __init__(self, executable: PlainExecutable, buffers: Sequence[Buffer | None]) -> None:
        self.executable = executable
        self.buffers = buffers
        plan = executable.plan
        for slot, buffer in zip((*plan.inputs, *plan.outputs), buffers, strict=True):
            if slot is not None and isinstance(buffer, DeviceBuffer) and buffer.memory.size < slot.size:
                raise BindingError(f"{buffer.name}: {slot.size} bytes are needed, and the tensor has less")

    def __call__(self) -> None:
        plan = self.executable.plan
        memory = [allocated(plan.temporary_size)]
        for slot, buffer in zip((*plan.inputs, *plan.outputs), self.buffers, strict=True):
            if isinstance(buffer, DeviceBuffer):
                assert isinstance(buffer.memory, PlainMemory)
                memory.insert(-1, buffer.memory.content)
                continue
            given = np.zeros(0, np.uint8) if buffer is None else copied(_bytes_of(buffer.array))
            memory.insert(-1, allocated(max(given.size, 0 if slot is None else slot.size)))
            memory[-2][: given.size] = given
        addresses = [own.ctypes.data for own in memory]
        for step in plan.steps:
            self.executable.launch(step, addresses, ())
        for number, buffer in enumerate(self.buffers):
            if buffer is not None and number >= len(plan.inputs) and not isinstance(buffer, DeviceBuffer):
                target = _bytes_of(buffer.array)
                target[...] = copied(memory[number][: target.size])

    def quicker(self) -> PlainDispatch:
        return self

    def release(self) -> None:
        pass


@dataclass(eq=False)
class PlainMemory:
    """Bytes of the device: nobody else sees them."""

    content: Array
    keep: object = None

    @property
    def size(self) -> int:
        return self.content.size

    @property
    def handle(self) -> int:
        return self.content.ctypes.data

    offset = 0

    def read(self, target: Array) -> None:
        target[...] = copied(self.content[: target.size])

    def write(self, source: Array) -> None:
        self.content[: source.size] = copied(source)


class PlainMemorySpace:
    """``kDLExtDev``, which is for experiments."""

    dlpack_device = (12, 0)

    def allocate(self, size: int) -> PlainMemory:
        return PlainMemory(allocated(size))

    def adopt(self, handle: int, offset: int, size: int) -> PlainMemory:
        place = (ctypes.c_uint8 * size).from_address(handle + offset)
        return PlainMemory(np.ctypeslib.as_array(place), place)


def copied(content: Array) -> Array:
    """Bytes on their way between the host and the device."""
    return content


def allocated(size: int) -> Array:
    """Memory of the device: as large as kernels are told, and no larger."""
    return np.zeros(size, np.uint8)


def _bytes_of(array: Array) -> Array:
    span = sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)) + array.itemsize
    return np.lib.stride_tricks.as_strided(array.view(), (span // array.itemsize,), (array.itemsize,)).view(np.uint8)


def open_target(number: int, tuning: None) -> PlainTarget:
    return PlainTarget(host_machine())


def describe_devices() -> list[DeviceDescription]:
    return [DeviceDescription("plain:0", "One point after another")]
