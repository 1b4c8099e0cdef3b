"""Programs on an OpenCL device: memory, kernels, and an in-order queue.

Arrays live in the host's memory: a run copies inputs to the device and outputs back. What a program keeps for all its
runs (``resident``) is copied once, and tensors that live on the device (``DeviceBuffer``) are not copied.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opendml.description.errors import BindingError, CodeGenerationError
from opendml.targets.gpu.program import LaunchPlan, Loop, Slot, Step, launches_of
from opendml.targets.interface import ArrayLayouts, Buffer, DeviceBuffer, KernelTimes
from opendml.targets.opencl.machine import Tuning
from opendml.targets.opencl.memory import OpenClMemory
from opendml.targets.opencl.platform import Opened, driver_errors, opened, opened_with_clock, pyopencl_module
from opendml.targets.target import Requirements

Array = npt.NDArray[Any]

BUILD_OPTIONS = "-cl-fp32-correctly-rounded-divide-sqrt"
"""Asks for what ``divides_exactly`` says of a device. Contraction is off by the modules' own word, denormal numbers are
there by default."""


@dataclass(slots=True)
class ResidentBuffer:
    """An array that nobody writes to any longer, and its copy on the device."""

    array: Array
    address: int
    memory: Any
    refresh: None = None


def load_program(number: int, tuning: Tuning, data: bytes, requirements: Requirements) -> OpenClExecutable:
    """The program of an object: its launch plan and its SPIR-V. Raises CodeGenerationError with the driver's words."""
    device = opened(number)
    return OpenClExecutable(device, tuning, *_built(device, data), requirements)


def load_timed_program(number: int, tuning: Tuning, data: bytes, requirements: Requirements) -> TimedOpenClExecutable:
    """The same with clocks."""
    device = opened_with_clock(number)
    return TimedOpenClExecutable(device, tuning, *_built(device, data), requirements)


def _built(device: Opened, data: bytes) -> tuple[LaunchPlan, Any]:
    """The plan of an object, and what the driver has built of its SPIR-V, None where there are no kernels."""
    head, _, spirv = data.partition(b"\n")
    plan, cl = LaunchPlan.from_json(head.decode().removeprefix("; ")), pyopencl_module()
    if not plan.steps:
        return plan, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what drivers say of builds that succeed
            options = [BUILD_OPTIONS] if device.machine.divides_exactly else []
            return plan, cl.Program(device.context, spirv).build(options)
    except cl.Error as error:
        raise CodeGenerationError(f"{device.machine.device} does not accept the generated code: {error}") from error


class OpenClExecutable:
    """A built program. Every dispatch has kernels and memory of its own, so several may run at once."""

    thread_count = 1

    def __init__(
        self, device: Opened, tuning: Tuning, plan: LaunchPlan, built: Any, requirements: Requirements
    ) -> None:
        self.device = device
        self.tuning = tuning
        self.plan = plan
        self.built = built
        self.requirements = requirements
        self.least_temporary_size = requirements.least_temporary_size

    @property
    def temporary_size(self) -> int:
        """Bytes of temporary tensors, on the device."""
        return self.requirements.temporary_size

    def with_thread_count(self, thread_count: int) -> OpenClExecutable:
        """The same; the device has its own threads."""
        return self

    def resident(self, buffers: Sequence[Buffer]) -> list[ResidentBuffer]:
        """Copies of arrays on the device, for all dispatches of programs there."""
        return [ResidentBuffer(b.array, b.address, self.uploaded(flat(b.array))) for b in buffers]

    def dispatch(self, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer | None]) -> OpenClDispatch:
        """A dispatch with memory on the device."""
        return OpenClDispatch(self, inputs, outputs)

    def run(self, inputs: Sequence[Array | None], outputs: Sequence[Array | None]) -> None:
        """One dispatch."""
        read, written = ([None if a is None else _HostBuffer(a) for a in arrays] for arrays in (inputs, outputs))
        OpenClDispatch(self, read, written)()

    def runner(self, inputs: Sequence[Buffer | None], positions: Sequence[int], output_count: int) -> None:
        """None: a dispatch copies its arrays."""

    def array_function(self, layouts: ArrayLayouts, *, into: bool) -> None:
        """None: a call copies its arrays."""

    def allocated(self, size: int) -> Any:
        """Memory on the device."""
        cl = pyopencl_module()
        with driver_errors():
            return cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, max(size, 1))

    def uploaded(self, array: Array, size: int = 0) -> Any:
        """A copy of a flat array, with room for ``size`` bytes at least."""
        memory = self.allocated(max(array.nbytes, size))
        with driver_errors():
            pyopencl_module().enqueue_copy(self.device.queue, memory, array)
        return memory

    def launched(self, kernel: str, event: Any) -> None:
        """Told of every kernel that was started."""


class TimedOpenClExecutable(OpenClExecutable):
    """The times are those of the events of its kernels."""

    def __init__(
        self, device: Opened, tuning: Tuning, plan: LaunchPlan, built: Any, requirements: Requirements
    ) -> None:
        super().__init__(device, tuning, plan, built, requirements)
        self._events: dict[str, list[Any]] = {}
        self.reset()

    def launched(self, kernel: str, event: Any) -> None:
        """Keep the event."""
        self._events[kernel].append(event)

    def reset(self) -> None:
        """Forget earlier runs."""
        self._events = {launch.kernel: [] for launch in launches_of(self.plan.steps)}

    def times(self) -> list[KernelTimes]:
        """Seconds between the beginning and the end of each kernel on the device."""
        with driver_errors():
            nanoseconds = [
                sum(event.profile.end - event.profile.start for event in events) for events in self._events.values()
            ]
        return [KernelTimes(time * 1e-9, ()) for time in nanoseconds]


@dataclass(slots=True)
class _HostBuffer:
    """An array, of a call that comes once."""

    array: Array
    address: int = 0


class OpenClDispatch:
    """Kernels with their arguments, the arrays that are copied in before them, and those copied out behind them."""

    def __init__(
        self, executable: OpenClExecutable, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer | None]
    ) -> None:
        self.executable = executable
        self._read: list[tuple[Any, Array]] = []
        self._written: list[tuple[Any, Array]] = []
        plan = executable.plan
        memory = [self._input(slot, buffer) for slot, buffer in zip(plan.inputs, inputs, strict=True)]
        memory += [self._output(slot, buffer) for slot, buffer in zip(plan.outputs, outputs, strict=True)]
        memory.append(executable.allocated(plan.temporary_size) if plan.temporary_size else None)
        self._memory = memory
        with driver_errors():
            self._run = [self._prepared(step) for step in plan.steps]

    def _input(self, slot: Slot | None, buffer: Buffer | None) -> Any:
        if slot is None or buffer is None:
            return None
        if isinstance(buffer, ResidentBuffer):
            return buffer.memory
        if isinstance(buffer, DeviceBuffer):
            return _in_place(slot, buffer)
        array = flat(buffer.array)
        memory = self.executable.allocated(max(slot.size, array.nbytes))
        self._read.append((memory, array))
        return memory

    def _output(self, slot: Slot | None, buffer: Buffer | None) -> Any:
        if slot is None or buffer is None:
            return None
        if isinstance(buffer, DeviceBuffer):
            return _in_place(slot, buffer)
        array = flat(buffer.array)
        memory = self.executable.allocated(max(slot.size, array.nbytes))
        if not slot.is_dense or array.nbytes > slot.size:
            self._read.append((memory, array))
        self._written.append((memory, array))
        return memory

    def _prepared(self, step: Step) -> Callable[[list[int]], None]:
        """What runs a step at a point of the loops around it."""
        if isinstance(step, Loop):
            return self._prepared_loop(step)
        cl, executable = pyopencl_module(), self.executable
        kernel = cl.Kernel(executable.built, step.kernel)
        kernel.set_args(*[self._memory[number] for number in step.buffers], *[np.int64(0) for _ in step.loops])
        group = executable.tuning.group
        size, queue, first = (-(-step.points // group) * group,), executable.device.queue, len(step.buffers)

        def launch(position: list[int]) -> None:
            for argument, number in enumerate(step.loops, first):
                kernel.set_arg(argument, np.int64(position[number]))
            executable.launched(step.kernel, cl.enqueue_nd_range_kernel(queue, kernel, size, None))

        return launch

    def _prepared_loop(self, loop: Loop) -> Callable[[list[int]], None]:
        body = [self._prepared(step) for step in loop.body]

        def run(position: list[int]) -> None:
            for i in range(loop.size):
                here = [*position, i]
                for step in body:
                    step(here)

        return run

    def __call__(self) -> None:
        """Copy in, run, copy out, and wait."""
        cl, queue = pyopencl_module(), self.executable.device.queue
        with driver_errors():
            for memory, array in self._read:
                cl.enqueue_copy(queue, memory, array, is_blocking=False)
            for step in self._run:
                step([])
            for memory, array in self._written:
                cl.enqueue_copy(queue, array, memory, is_blocking=False)
            queue.finish()

    def quicker(self) -> OpenClDispatch:
        """The same: its arguments are set already."""
        return self

    def release(self) -> None:
        """Its memory goes with it."""


def _in_place(slot: Slot, buffer: DeviceBuffer) -> Any:
    """The memory of a tensor that lives on the device."""
    assert isinstance(buffer.memory, OpenClMemory)
    if buffer.memory.buffer.size < slot.size:
        raise BindingError(f"{buffer.name}: {slot.size} bytes are needed, and the tensor has {buffer.memory.size}")
    return buffer.memory.buffer


def flat(array: Array) -> Array:
    """The memory of an array, from its first element to the last one, as bytes."""
    span = 1 + sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)) // array.itemsize
    elements = array if array.ndim == 1 and array.flags.c_contiguous else None
    if elements is None:
        elements = np.lib.stride_tricks.as_strided(array, (span,), (array.itemsize,))
    return elements.view(np.uint8)
