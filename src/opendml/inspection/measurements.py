"""What a profile measures: kernels, tensors that go from one to another, times and memory of a program."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from opendml.targets.machine_limits import MachineLimits


class TensorUse(NamedTuple):
    """A tensor that a kernel reads or writes, and the bytes of it that are touched in one run of the program."""

    name: str
    type: str
    sizes: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """One kernel in the run of a program in which it was fastest. Times are in seconds.

    ``operators`` are the operators that it computes (in whole or in part), ``nodes`` the names of their nodes in a
    graph. It runs ``repetitions`` times, together for ``seconds``; ``work`` is how long each of this process's threads
    worked in that time. ``operations`` are floating-point ones, ``integer_operations`` those of products of
    bytes, two for each and its addition. ``description`` has its loops and expressions.
    """

    number: int
    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    reads: tuple[TensorUse, ...]
    writes: tuple[TensorUse, ...]
    repetitions: int
    seconds: float
    work: tuple[float, ...]
    operations: int
    description: str
    integer_operations: int = 0

    def times(self, count: int) -> KernelProfile:
        """The same kernel in a program that ran ``count`` times."""
        reads, writes = (
            tuple(use._replace(bytes=use.bytes * count) for use in uses) for uses in (self.reads, self.writes)
        )
        return replace(
            self,
            reads=reads,
            writes=writes,
            repetitions=self.repetitions * count,
            seconds=self.seconds * count,
            work=tuple(seconds * count for seconds in self.work),
            operations=self.operations * count,
            integer_operations=self.integer_operations * count,
        )

    @property
    def title(self) -> str:
        """``CONVOLUTION + ACTIVATION_RELU``."""
        counts = Counter(self.operators)
        return " + ".join(f"{name} x{count}" if count > 1 else name for name, count in counts.items())

    @property
    def bytes(self) -> int:
        """Bytes read and written, each element once a repetition."""
        return sum(use.bytes for use in (*self.reads, *self.writes))

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds if self.seconds else math.inf

    @property
    def all_operations(self) -> int:
        """Of floating-point numbers and of bytes."""
        return self.operations + self.integer_operations

    @property
    def operation_rate(self) -> float:
        """Operations a second."""
        return self.all_operations / self.seconds if self.seconds else math.inf

    def of_peak(self, limits: MachineLimits) -> float:
        """The part of the time that the machine needs at least to compute."""
        least = limits.computing(self.operations, self.integer_operations)
        return least / self.seconds if self.seconds else math.inf

    def efficiency(self, limits: MachineLimits) -> float:
        """The part of the time that the machine needs at least to move the bytes or to compute: 1 is the limit.

        It may be above 1 where bytes stay in nearer caches than those of a copy of that size.
        """
        once = (self.bytes, self.operations, self.integer_operations)
        least = limits.least_seconds(*(amount / self.repetitions for amount in once))
        return least * self.repetitions / self.seconds if self.seconds else math.inf

    def bound_by(self, limits: MachineLimits) -> Literal["memory", "arithmetic"]:
        """What takes the machine longer: moving the bytes, or computing."""
        moving = self.bytes / limits.bandwidth(self.bytes / self.repetitions)
        return "memory" if moving >= limits.computing(self.operations, self.integer_operations) else "arithmetic"


class End(NamedTuple):
    """Where a tensor comes from or goes to: a kernel, an input or an output of the program, by its number."""

    kind: Literal["input", "kernel", "output"]
    number: int


class Flow(NamedTuple):
    """A tensor that goes from one end to another."""

    source: End
    target: End
    tensor: str


@dataclass(frozen=True, slots=True)
class Measurements:
    """The kernels of a program in the order in which they run.

    All times are the least of several runs, since what disturbs a run makes it slower. ``seconds`` is the time of the
    program as it is, ``instrumented_seconds`` that with records, when all threads wait for each other behind every
    kernel; ``kernel_seconds`` is the time of all kernels, the rest is starting and waking threads, and
    ``longest_seconds`` that of the longest one. ``temporary_bytes`` is the memory for temporary tensors,
    ``alive_bytes`` what those of them have that are alive at one time, at most; ``thread_bytes`` is what each thread
    needs beside that. ``device`` is the name of the device; ``thread_count``: threads of this process that run the
    kernels, None where the device has its own. ``limits``: what it could do at best, None where that is not known.
    """

    title: str
    kernels: tuple[KernelProfile, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    flows: tuple[Flow, ...]
    seconds: float
    instrumented_seconds: float
    runs: int
    temporary_bytes: int
    alive_bytes: int
    thread_bytes: int
    device: str
    thread_count: int | None
    limits: MachineLimits | None
    kernel_seconds: float = field(init=False, repr=False, compare=False)
    longest_seconds: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Asked for beside every kernel, of which there may be thousands.
        object.__setattr__(self, "kernel_seconds", sum(kernel.seconds for kernel in self.kernels))
        object.__setattr__(self, "longest_seconds", max((kernel.seconds for kernel in self.kernels), default=0.0))

    def share(self, kernel: KernelProfile) -> float:
        """The part that a kernel has in the time of all."""
        return kernel.seconds / self.kernel_seconds if self.kernel_seconds else 0.0
