"""Programs whose kernels record when they run."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.description.errors import ConfigurationError
from opendml.expression.statements import Definition
from opendml.llvm.host import Machine, host_machine
from opendml.llvm.native import load_object
from opendml.llvm.object_cache import get_or_compile
from opendml.programs.compilation import load_program
from opendml.programs.program import Program
from opendml.targets.cpu.code.program_code import ProgramCode
from opendml.targets.cpu.code.records import CLOCK, RECORD
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.runtime.executable import CpuExecutable

CALIBRATION_SECONDS: Final = 0.02
"""How long the processor's counter is compared with the operating system's clock."""


class KernelTimes(NamedTuple):
    """A kernel in one run of a program, in seconds, all its repetitions together: how long it took, and how long each
    thread worked, the rest being spent on waiting for the others."""

    duration: float
    work: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class InstrumentedProgram:
    """A program that does the same as another one and records the times of its kernels.

    Only one thread at a time may run it. All threads wait for each other behind every kernel, so that kernels which
    would overlap do not.
    """

    program: Program
    code: ProgramCode
    records: npt.NDArray[Any]

    def reset(self) -> None:
        """Forget earlier runs; to be done before each one."""
        self.records[1:] = 0

    def times(self) -> list[KernelTimes]:
        """The times of the kernels, in their order, since the last reset."""
        second = tick_seconds(host_machine())
        records = self.records[1:].reshape(len(self.code.origins), self.program.thread_count, len(RECORD))
        work, time = (records[..., RECORD.index(name)] * second for name in ("work", "time"))
        # All threads leave a kernel together; it has begun with the first one that arrived.
        return [KernelTimes(float(waiting.max()), tuple(own.tolist())) for own, waiting in zip(work, time, strict=True)]


def processor_of(program: Program) -> Processor:
    """The processor that a program was compiled for. Raises ConfigurationError for a program of another target."""
    if isinstance(program.target, Processor):
        return program.target
    device = "the reference device" if program.target is None else program.target.name
    raise ConfigurationError(f"only kernels of the processor record their times, not those of {device}")


def instrumented(definition: Definition, original: Program) -> InstrumentedProgram:
    """The program of a definition with records, for the same tensors and threads as the ``original`` one."""
    target = processor_of(original)
    code = generate(definition, target, in_place=original.in_place, profiled=True)
    program = load_program(
        code,
        inputs=original.inputs,
        outputs=original.outputs,
        in_place=original.in_place,
        target=target,
        thread_count=original.thread_count,
    )
    size = program.thread_count * len(code.origins) * len(RECORD)
    assert isinstance(program.executable, CpuExecutable)
    program.executable.records = records = _records(size, program.thread_count)
    return InstrumentedProgram(program, code, records)


def _records(size: int, thread_count: int) -> npt.NDArray[Any]:
    records = np.zeros(1 + size, np.int64)
    records[0] = thread_count
    return records


@functools.cache
def tick_seconds(host: Machine) -> float:
    """The seconds from one tick of the processor's counter to the next, measured once."""
    text = f"declare i64 @{CLOCK}()\ndefine i64 @ticks() {{\n  %now = call i64 @{CLOCK}()\n  ret i64 %now\n}}\n"
    data, _ = get_or_compile(text, host)
    loaded = load_object(data, ["ticks"], host)
    ticks: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_int64)(loaded["ticks"])
    first_time, first = time.perf_counter_ns(), ticks()
    now = first_time
    while now < first_time + CALIBRATION_SECONDS * 1e9:
        now, last = time.perf_counter_ns(), ticks()
    return (now - first_time) * 1e-9 / (last - first)
