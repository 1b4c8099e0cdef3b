"""What this machine is: the processor that code is generated for, and how many threads may run it."""

from __future__ import annotations

import functools
import math
import mmap
import os
from dataclasses import dataclass

from opendml.description.errors import ConfigurationError
from opendml.description.quoting import quoted
from opendml.llvm.quotas import processor_quota

CPU_FEATURES_VARIABLE = "OPENDML_CPU_FEATURES"
NUM_THREADS_VARIABLE = "OPENDML_NUM_THREADS"
MAXIMUM_THREADS = 1024


@dataclass(frozen=True, slots=True)
class HostTarget:
    """The processor that code is generated for. Equal values give equal code.

    `triple`, `cpu_name` and `features` are LLVM's (`features` as "+avx2,-sse4a,..."; empty where `cpu_name` says all).
    `vector_bytes` is the width of the widest vectors to use, in bytes: 64, 32 or 16.
    `has_f16c` says that the processor converts between float16 and float32 (x86's F16C; all of AArch64),
    `has_avx512fp16` that it computes in float16 vectors. `page_size` is in bytes.
    """

    triple: str
    cpu_name: str
    features: str
    vector_bytes: int
    has_f16c: bool
    has_avx512fp16: bool
    page_size: int

    @property
    def architecture(self) -> str:
        """The first part of the triple, Apple's and others' names for AArch64 unified: "x86_64", "aarch64", ..."""
        architecture = self.triple.split("-")[0]
        return "aarch64" if architecture.startswith("arm64") else architecture


def host_target(level: str | None = None) -> HostTarget:
    """The target of this process.

    `level` is one of LEVELS and replaces what the processor offers by a fixed, lower set of features, so that code made
    for older machines can be tested on newer ones; by default the environment variable OPENDML_CPU_FEATURES.
    Raises ConfigurationError for an unknown level or one that this processor cannot run.
    """
    return _host_target(level if level is not None else os.environ.get(CPU_FEATURES_VARIABLE, "") or "native")


def default_thread_count() -> int:
    """OPENDML_NUM_THREADS, or else the number of processors that this process may use, by affinity and by quota."""
    text = os.environ.get(NUM_THREADS_VARIABLE, "").strip()
    if not text:
        return usable_processors()
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAXIMUM_THREADS:
        raise ConfigurationError(
            f"{NUM_THREADS_VARIABLE}={quoted(text)}: expected a number from 1 to {MAXIMUM_THREADS}"
        )
    return int(text)


def usable_processors() -> int:
    """The number of processors that the operating system lets this process use all the time.

    Of a quota, whole processors count: one thread more would spend it before its period ends, and all threads of a
    kernel would wait for the one that is stopped.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = processor_quota()
    return count if quota is None else max(1, min(count, math.floor(quota)))


# The microarchitecture levels of the x86-64 psABI: LLVM's name, the vector width, and the feature that tells a
# processor has the level. On other architectures there is only LLVM's generic processor.
LEVELS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "avx512": ("x86-64-v4", 64, ("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx2", "fma", "f16c", "bmi2")),
    "avx2": ("x86-64-v3", 32, ("avx2", "fma", "f16c", "bmi2")),
    "baseline": ("x86-64", 16, ()),
}


@functools.cache
def _host_target(level: str) -> HostTarget:
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple() + ("-elf" if os.name == "nt" else "")  # LLVM's JIT loads only ELF on Windows.
    available = {name for name, has in llvm.get_host_cpu_features().items() if has}
    is_x86 = triple.startswith("x86_64")
    if level == "native":
        cpu_name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        vector_bytes = next(width for _, width, needed in LEVELS.values() if available.issuperset(needed))
    else:
        cpu_name, vector_bytes, needed = _fixed_level(level, is_x86)
        if not available.issuperset(needed):
            missing = ", ".join(sorted(set(needed) - available))
            raise ConfigurationError(f"{CPU_FEATURES_VARIABLE}={quoted(level)}: this processor lacks {missing}")
        features, available = "", set(needed)
    return HostTarget(
        triple=triple,
        cpu_name=cpu_name,
        features=features,
        vector_bytes=vector_bytes if is_x86 else 16,
        has_f16c="f16c" in available if is_x86 else triple.startswith(("aarch64", "arm64")),
        has_avx512fp16=is_x86 and {"avx512fp16", "avx512vl"} <= available,
        page_size=mmap.PAGESIZE,
    )


def _fixed_level(level: str, is_x86: bool) -> tuple[str, int, tuple[str, ...]]:
    levels = LEVELS if is_x86 else {"baseline": ("generic", 16, ())}
    if level not in levels:
        allowed = ", ".join(["native", *levels])
        raise ConfigurationError(f"{CPU_FEATURES_VARIABLE}={quoted(level)}: expected one of {allowed}")
    return levels[level]
