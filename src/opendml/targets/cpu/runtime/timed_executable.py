"""Code whose kernels record when they run, by the processor's own counter."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.llvm.compiled_objects import get_or_compile
from opendml.llvm.host import Machine, host_machine
from opendml.llvm.native import LoadedObject, load_object
from opendml.targets.cpu.code.records import CLOCK, RECORD
from opendml.targets.cpu.runtime.executable import CpuExecutable
from opendml.targets.interface import KernelTimes
from opendml.targets.target import Requirements

CALIBRATION_SECONDS: Final = 0.02
"""How long the processor's counter is compared with the operating system's clock."""


class TimedCpuExecutable(CpuExecutable):
    """A loaded entry function whose ``kernel_count`` kernels write their times to records. All threads wait for each
    other behind every kernel."""

    def __init__(
        self, requirements: Requirements, loaded: LoadedObject, entry: int, thread_count: int, kernel_count: int
    ) -> None:
        super().__init__(requirements, loaded, entry, thread_count)
        self._kernel_count = kernel_count
        self.records: npt.NDArray[Any] = np.zeros(1 + self.thread_count * kernel_count * len(RECORD), np.int64)
        self.records[0] = self.thread_count

    def reset(self) -> None:
        """Forget earlier runs."""
        self.records[1:] = 0

    def times(self) -> list[KernelTimes]:
        """The times of the kernels, in their order, since the last reset."""
        second = tick_seconds(host_machine())
        records = self.records[1:].reshape(self._kernel_count, self.thread_count, len(RECORD))
        work, time = (records[..., RECORD.index(name)] * second for name in ("work", "time"))
        # All threads leave a kernel together; it has begun with the first one that arrived.
        return [KernelTimes(float(waiting.max()), tuple(own.tolist())) for own, waiting in zip(work, time, strict=True)]


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
