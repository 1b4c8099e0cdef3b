"""What this machine is: the processor that code is generated for, and how many threads may run it."""

from __future__ import annotations

import functools
import math
import os
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from opendml.description.errors import ConfigurationError
from opendml.description.quoting import quoted
from opendml.llvm.cores import core_count
from opendml.llvm.processor_facts import processor_facts
from opendml.llvm.quotas import processor_quota
from opendml.llvm.tile_permission import may_use_tiles

CPU_FEATURES_VARIABLE = "OPENDML_CPU_FEATURES"
NUM_THREADS_VARIABLE = "OPENDML_NUM_THREADS"
MAXIMUM_THREADS = 1024


Feature = Literal[
    "amx-int8",
    "avx2",
    "avx512bw",
    "avx512dq",
    "avx512f",
    "avx512vl",
    "avx512vnni",
    "avxvnni",
    "bmi2",
    "dotprod",
    "f16c",
    "fma",
    "i8mm",
    "neon",
]
"""LLVM's names of the instruction sets that code is chosen by."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts of a processor that code is generated for. Equal values give equal code.

    ``triple``, ``cpu_name`` and ``llvm_features`` are what LLVM is told (the last as "+avx2,-sse4a,..."; empty where
    ``cpu_name`` says all). ``features`` are the instruction sets that code may use, as far as it is chosen by them, in
    the order of their names. ``vector_bytes`` is the width of the widest vectors to use, in bytes: 64, 32 or 16, and
    ``vector_registers`` how many of them there are. ``cache_line`` is in bytes.
    """

    triple: str
    cpu_name: str
    llvm_features: str
    features: tuple[Feature, ...]
    vector_bytes: int
    vector_registers: int
    cache_line: int = 64

    @property
    def architecture(self) -> str:
        """The first part of the triple, Apple's and others' names for AArch64 unified: "x86_64", "aarch64", ..."""
        return architecture_of(self.triple)

    def has(self, *features: Feature) -> bool:
        """Whether code may use all of these instruction sets."""
        return all(feature in self.features for feature in features)

    def lanes(self, bits: int) -> int:
        """How many elements of so many bits a vector of ``vector_bytes`` holds."""
        return self.vector_bytes * 8 // bits

    @property
    def converts_float16(self) -> bool:
        """Whether there are instructions between float16 and float32: x86's F16C, all of AArch64."""
        return self.has("f16c") or self.has("neon")

    @property
    def reads_anywhere(self) -> bool:
        """Whether loads take no longer where the address is no multiple of an element's size."""
        return self.architecture in ("x86_64", "aarch64")

    @property
    def masks_vectors(self) -> bool:
        """Whether loads and stores of vectors of every type may leave out lanes at no cost."""
        return self.has("avx512bw", "avx512vl")


def architecture_of(triple: str) -> str:
    """As ``Machine.architecture``."""
    architecture = triple.split("-")[0]
    return "aarch64" if architecture.startswith("arm64") else architecture


def host_machine(level: str | None = None) -> Machine:
    """The processor of this process.

    `level` is one of LEVELS, maybe with instruction sets behind commas ("avx2,avxvnni"), and replaces what the
    processor offers by a fixed, lower set of features, so that code made for older machines can be tested on newer
    ones; by default the environment variable OPENDML_CPU_FEATURES.
    Raises ConfigurationError for an unknown level or one that this processor cannot run.
    """
    return _host_machine(level if level is not None else os.environ.get(CPU_FEATURES_VARIABLE, "") or "native")


def default_thread_count() -> int:
    """OPENDML_NUM_THREADS, or else the number of cores that this process may use, by affinity and by quota."""
    text = os.environ.get(NUM_THREADS_VARIABLE, "").strip()
    if not text:
        return usable_cores()
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAXIMUM_THREADS:
        raise ConfigurationError(
            f"{NUM_THREADS_VARIABLE}={quoted(text)}: expected a number from 1 to {MAXIMUM_THREADS}"
        )
    return int(text)


def usable_processors() -> int:
    """The number of processors that the operating system lets this process use all the time."""
    return _within_quota(len(_processors()))


def usable_cores() -> int:
    """As ``usable_processors``, of those that are parts of one core one: one thread of sums of products keeps its units
    busy, and a second one is one more to wait for."""
    return _within_quota(core_count(_processors()))


def _processors() -> frozenset[int]:
    """The system's numbers of the processors on which this process may run."""
    return frozenset(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))


def _within_quota(count: int) -> int:
    """So many processors, or as many as a quota is worth.

    Of a quota, whole processors count: one thread more would spend it before its period ends, and all threads of a
    kernel would wait for the one that is stopped.
    """
    quota = processor_quota()
    return count if quota is None else max(1, min(count, math.floor(quota)))


class Level(NamedTuple):
    """A set of processors: LLVM's name, the instruction sets that all of them have, their vectors, and the instruction
    sets of some of them that may be named behind the level."""

    cpu_name: str
    features: tuple[Feature, ...]
    vector_bytes: int
    vector_registers: int
    further: tuple[Feature, ...] = ()


# The microarchitecture levels of the x86-64 psABI. On other architectures there is only LLVM's generic processor.
LEVELS: dict[str, Level] = {
    "avx512": Level(
        "x86-64-v4",
        ("avx2", "avx512bw", "avx512dq", "avx512f", "avx512vl", "bmi2", "f16c", "fma"),
        64,
        32,
        ("avx512vnni", "avxvnni"),
    ),
    "avx2": Level("x86-64-v3", ("avx2", "bmi2", "f16c", "fma"), 32, 16, ("avxvnni",)),
    "baseline": Level("x86-64", (), 16, 16),
}
OPTIONAL: tuple[Feature, ...] = ("amx-int8", "avx512vnni", "avxvnni")
"""Instruction sets of some processors of a level, used where this one has them, and the system gives leave."""
AARCH64 = Level("generic", ("neon",), 16, 32)
AARCH64_OPTIONAL: tuple[Feature, ...] = ("dotprod", "i8mm")
OTHER = Level("generic", (), 16, 16)


def machine_of(triple: str, level: str) -> Machine:
    """The processors of a level, of this architecture or another one; "avx2,avxvnni" those that have an instruction set
    besides.

    Raises ConfigurationError for a level that the architecture does not have, or one that does not know what is behind
    it.
    """
    architecture = architecture_of(triple)
    levels = LEVELS if architecture == "x86_64" else {"baseline": AARCH64 if architecture == "aarch64" else OTHER}
    name, *words = level.split(",")
    found = levels.get(name)
    further = [] if found is None else [feature for feature in found.further if feature in words]
    if found is None or len(further) != len(words):
        allowed = ", ".join(["native", *(_described(*item) for item in levels.items())])
        raise ConfigurationError(f"{CPU_FEATURES_VARIABLE}={quoted(level)}: expected one of {allowed}")
    features = tuple(sorted({*found.features, *further}))
    told = ",".join(f"+{feature}" for feature in further)
    return Machine(triple, found.cpu_name, told, features, found.vector_bytes, found.vector_registers)


def _described(name: str, level: Level) -> str:
    return name if not level.further else f"{name} (with {' or '.join(f',{f}' for f in level.further)})"


@functools.cache
def _host_machine(level: str) -> Machine:
    facts = processor_facts()
    triple, available = facts.triple, set(facts.available)
    if level != "native":
        machine = machine_of(triple, level)
        missing = sorted(set(machine.features) - available) if machine.architecture == "x86_64" else []
        if missing:
            raise ConfigurationError(
                f"{CPU_FEATURES_VARIABLE}={quoted(level)}: this processor lacks {', '.join(missing)}"
            )
        return machine
    is_x86 = architecture_of(triple) == "x86_64"
    levels = (name for name, known in LEVELS.items() if available.issuperset(known.features))
    like = next(levels) if is_x86 else "baseline"
    machine = machine_of(triple, like)
    optional = OPTIONAL if is_x86 else AARCH64_OPTIONAL if machine.architecture == "aarch64" else ()
    if "amx-int8" in available and not may_use_tiles():
        available.remove("amx-int8")
    given = LEVELS["avx512"].features if is_x86 else ()
    found = {*machine.features, *(name for name in (*given, *optional) if name in available)}
    features = tuple(sorted(found))
    return replace(
        machine,
        cpu_name=facts.cpu_name,
        llvm_features=facts.features,
        features=features,
    )
