"""Running a model: resources are allocated and filled, operators compiled and initialised, commands executed in order.

All of the model is checked before the first operator is compiled. The lines printed are DxDispatch's.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from opendml.description.errors import BindingError, ModelFormatError, OutOfMemoryError
from opendml.description.file_access import write_atomically
from opendml.description.graph_desc import GraphDesc
from opendml.description.quoting import quoted
from opendml.formats.dxdispatch.bindings import (
    BoundTensor,
    DispatchBindings,
    bind_dispatch,
    bind_initialization,
    tensors_to_bind,
)
from opendml.formats.dxdispatch.checking import check_operator
from opendml.formats.dxdispatch.model import (
    Dispatchable,
    DispatchCommand,
    Model,
    PrintCommand,
    Resource,
    WriteFileCommand,
)
from opendml.formats.dxdispatch.reports import Report, TextReport
from opendml.formats.files import IMAGE_SUFFIXES, write_image, write_numpy, write_text
from opendml.loops.alignment import ALIGNMENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from opendml.programs.device import Device
    from opendml.programs.program import BoundCall

__all__ = ["Executor", "RunOptions"]

#: Called while a dispatch repeats: its name, the share done (0 to 1).
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How dispatches are repeated and timed; names and meanings are DxDispatch's.

    Attributes:
        dispatch_iterations: how often a dispatch command binds, dispatches and waits.
        dispatch_repeat: how often the operator runs within one iteration; times are divided by it.
        milliseconds_to_run: how long a dispatch command repeats; overrides `dispatch_iterations`.
        dispatch_interval: least time in milliseconds from one iteration to the next.
        warmup_samples: how many of the first iterations are counted as cold (one is always hot).
        timing_verbosity: 0 the hot median; 1 also initialisation and statistics; 2 also every iteration.
        print_commands: announce every command and its end.
    """

    dispatch_iterations: int = 1
    dispatch_repeat: int = 1
    milliseconds_to_run: int | None = None
    dispatch_interval: int = 0
    warmup_samples: int = 1
    timing_verbosity: int = 0
    print_commands: bool = False


class Executor:
    """A model made ready to run on a device."""

    def __init__(
        self,
        model: Model,
        device: Device,
        options: RunOptions | None = None,
        report: Report | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Check the model against the device, compile its operators, fill its resources.

        Args:
            model: what to run.
            device: where to run it.
            options: repetition and timing.
            report: what is told what happens; by default DxDispatch's lines on standard output.
            progress: told how far long compilations and dispatches are.

        Raises:
            ModelFormatError: a descriptor is invalid at the device's feature level, or bindings do not fit.
        """
        self.model = model
        self.options = options or RunOptions()
        self._report = report or TextReport(self.options, sys.stdout)
        self._progress = progress
        for dispatchable in model.dispatchables.values():
            check_operator(dispatchable, device.feature_level)
        initial = {name: bind_initialization(model, entry) for name, entry in model.dispatchables.items()}
        dispatches = [
            (command, bind_dispatch(model, model.dispatchables[command.dispatchable], command.bindings, command.path))
            for command in model.commands
            if isinstance(command, DispatchCommand)
        ]
        # All programs come first: they tell how much memory they need before any is taken.
        self._programs: dict[str, Any] = {}
        self._compile_all(device, initial)
        self._buffers = {name: _allocate(resource) for name, resource in model.resources.items()}
        self._views: dict[tuple[str, int, int, str], NDArray[Any]] = {}
        self._owned = {
            name: {bound.name: self._view(bound).copy() for bound in bindings.inputs if bound is not None}
            for name, bindings in initial.items()
        }
        self._binders = {command.path: self._binder(command, bindings) for command, bindings in dispatches}

    def run(self) -> None:
        """Execute the commands in order. Resources keep what is written into them from one command to the next.

        Raises:
            ModelFormatError: a file cannot be written.
        """
        actions: dict[type, Callable[[int, Any], None]] = {
            DispatchCommand: self._dispatch,
            PrintCommand: self._print,
            WriteFileCommand: self._write_file,
        }
        for index, command in enumerate(self.model.commands):
            self._report.command_started(index, json.dumps(self.model.parameters[index], separators=(",", ":")))
            actions[type(command)](index, command)
            self._report.command_ended(index)

    def dispatches(self) -> Iterator[tuple[str, Any, Callable[..., BoundCall]]]:
        """For every dispatch command the name of the dispatchable, its program, and what binds the command's arrays to
        the program or to a variant of it."""
        for command in self.model.commands:
            if isinstance(command, DispatchCommand):
                name = command.dispatchable
                yield name, self._programs[name], self._binders[command.path]

    def contents(self, resource: str) -> NDArray[Any]:
        """The elements of a resource up to its last initial value, in its data type (UINT8 for mixed types)."""
        described = self.model.resources[resource]
        dtype = described.data_type.dtype if described.data_type else np.dtype(np.uint8)
        count = described.used_size_in_bytes // dtype.itemsize
        return self._buffers[resource][: count * dtype.itemsize].view(dtype)

    def _compile_all(self, device: Device, initial: dict[str, DispatchBindings]) -> None:
        """Compile all dispatchables, which with the resources must not need more memory than the model may take.

        One dispatch runs at a time, so temporaries count for the one that needs most.
        """
        left = self.model.memory_limit - sum(resource.size_in_bytes for resource in self.model.resources.values())
        largest = 0
        for name, dispatchable in self.model.dispatchables.items():
            start = time.perf_counter()
            left -= sum(bound.tensor.total_size_in_bytes for bound in initial[name].inputs if bound is not None)
            program = self._programs[name] = self._compiled(device, name, dispatchable, left)
            temporary, kept = _memory_of(program)
            left -= kept
            largest = max(largest, temporary)
            if largest > left:
                reason = f"it needs {temporary} bytes for temporary tensors and keeps {kept}; the limit leaves"
                raise _too_large(dispatchable, f"{reason} {max(left + kept, 0)}")
            self._report.initialized(name, (time.perf_counter() - start) * 1000)

    def _compiled(self, device: Device, name: str, dispatchable: Dispatchable, memory_limit: int) -> Any:
        desc, flags = dispatchable.desc, dispatchable.execution_flags
        if not isinstance(desc, GraphDesc):
            return device.compile(desc, execution_flags=flags)
        progress = self._compilation_progress(name)
        try:
            return device.compile_graph(desc, progress=progress, execution_flags=flags, memory_limit=memory_limit)
        except OutOfMemoryError as error:
            raise _too_large(dispatchable, str(error)) from error

    def _compilation_progress(self, name: str) -> Callable[[float], None] | None:
        tell = self._progress
        return None if tell is None else lambda share: tell(f"compiling {name}", share)

    def _binder(self, command: DispatchCommand, bindings: DispatchBindings) -> Callable[..., BoundCall]:
        """What binds the arrays of a command to its program; tried once."""
        program, owned = self._programs[command.dispatchable], self._owned[command.dispatchable]
        names = [name for name, _ in tensors_to_bind(self.model.dispatchables[command.dispatchable].desc)[0]]
        inputs = [
            owned.get(name) if bound is None else self._view(bound)
            for name, bound in zip(names, bindings.inputs, strict=True)
        ]
        outputs = [None if bound is None else self._view(bound) for bound in bindings.outputs]
        try:
            program.bind(inputs, outputs)
        except BindingError as error:
            raise ModelFormatError(f"{command.path}.bindings", str(error)) from error
        return lambda variant=program: variant.bind(inputs, outputs)

    def _dispatch(self, index: int, command: DispatchCommand) -> None:
        samples = array("d", self._samples(command.dispatchable, self._binders[command.path]))
        self._report.dispatched(command.dispatchable, samples)

    def _samples(self, name: str, bind: Callable[..., BoundCall]) -> Iterator[float]:
        """The time in milliseconds of one dispatch, for every iteration."""
        options, clock = self.options, time.perf_counter
        started = reported = clock()
        iterations = options.dispatch_iterations if options.milliseconds_to_run is None else (1 << 32) - 1
        repeats = range(options.dispatch_repeat)
        for completed in range(iterations):
            begin = clock()
            bound = bind()
            bound.hasten()
            dispatched = clock()
            for _ in repeats:
                bound()
            end = clock()
            yield (end - dispatched) * 1000 / options.dispatch_repeat
            pause = max(0.0, options.dispatch_interval / 1000 - (clock() - begin))
            elapsed = (end - started + pause) * 1000
            if options.milliseconds_to_run is not None and elapsed > options.milliseconds_to_run:
                break
            if self._progress is not None and end - reported > 0.1:
                reported = end
                limit = options.milliseconds_to_run
                done = (completed + 1) / iterations if limit is None else elapsed / max(limit, 1)
                self._progress(name, min(done, 1.0))
            if pause:
                time.sleep(pause)
        if self._progress is not None and reported > started:
            self._progress(name, 1.0)

    def _print(self, index: int, command: PrintCommand) -> None:
        data_type = self.model.resources[command.resource].data_type
        values = self.contents(command.resource)
        self._report.printed(command.resource, data_type.name if data_type else "UINT8", values, command.verbose)

    def _write_file(self, index: int, command: WriteFileCommand) -> None:
        target = command.target_path
        suffix = target.suffix.lower()
        values = self.contents(command.resource)
        if command.dimensions:
            count = int(np.prod(command.dimensions, dtype=np.int64))
            values = self._buffers[command.resource].view()[: count * values.itemsize].view(values.dtype)
            values = values.reshape(command.dimensions)
        try:
            if suffix == ".npy":
                write_atomically(target, lambda file: write_numpy(file, values))
            elif suffix in IMAGE_SUFFIXES:
                write_atomically(target, lambda file: write_image(file, values[0], IMAGE_SUFFIXES[suffix]))
            elif suffix == ".csv":
                write_atomically(target, lambda file: write_text(file, values))
            else:
                write_atomically(target, lambda file: _write_bytes(file, self._buffers[command.resource]))
        except OSError as error:
            raise ModelFormatError(
                f"{command.path}.targetPath", f"cannot write {quoted(target.name)}: {error.strerror or error}"
            ) from error
        self._report.written(command.resource, target)

    def _view(self, bound: BoundTensor) -> NDArray[Any]:
        """A tensor's bytes as a flat array of its data type. The same bytes always give the same array."""
        dtype = bound.tensor.data_type.dtype
        key = (bound.resource, bound.offset, bound.tensor.total_size_in_bytes, dtype.str)
        if key not in self._views:
            length = bound.tensor.total_size_in_bytes // dtype.itemsize * dtype.itemsize
            self._views[key] = self._buffers[bound.resource][bound.offset : bound.offset + length].view(dtype)
        return self._views[key]


def _memory_of(program: Any) -> tuple[int, int]:
    """Bytes that a run needs beside its tensors, and bytes that are kept from one run to the next."""
    properties = getattr(program, "binding_properties", None)
    if properties is not None:
        return properties.temporary_resource_size, properties.persistent_resource_size
    return getattr(program, "temporary_size", 0), 0


def _too_large(dispatchable: Dispatchable, message: str) -> ModelFormatError:
    return ModelFormatError(dispatchable.path, f"{message} (--memory_limit)")


def _write_bytes(file: BinaryIO, contents: NDArray[np.uint8]) -> None:
    file.write(contents.data)


def _allocate(resource: Resource) -> NDArray[np.uint8]:
    """The bytes of a resource, on a cache line's boundary, zero but for the initial values."""
    try:
        memory = np.zeros(resource.size_in_bytes + ALIGNMENT, np.uint8)
    except MemoryError:
        raise ModelFormatError(resource.path, f"{resource.size_in_bytes} bytes are more than there is memory") from None
    begin = -memory.ctypes.data % ALIGNMENT
    buffer = memory[begin : begin + resource.size_in_bytes]
    resource.initial_values.write(buffer[resource.initial_values_offset_in_bytes : resource.used_size_in_bytes])
    return buffer
