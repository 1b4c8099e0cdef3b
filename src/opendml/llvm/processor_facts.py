"""What LLVM says of this processor and of itself.

LLVM is asked once, and its answers are kept in the disk cache as long as the machine runs: a process whose code is all
in the cache needs nothing else of LLVM, whose library takes long to load.

LLVM asks the processor, by CPUID, while what names the answers is the kernel's description of it. Where another program
answers in the processor's place these are two, and nothing is kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import Final, NamedTuple

from opendml.llvm.object_cache import default_cache

__all__ = ["ProcessorFacts", "processor_facts"]

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PROCESSORS: Final = Path("/proc/cpuinfo")
_FIXED: Final = ("vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags", "Features", "CPU")
"""What lines of the kernel's description begin with that say which processor it is, and not what it does just now."""


_ARCH_PRCTL: Final = 158
_CPUID_GET: Final = 0x1011
"""Linux's call of x86-64, and its question whether CPUID is answered by the processor (1) or is a fault (0), which a
program may handle as it likes: arch_prctl(2)."""


class ProcessorFacts(NamedTuple):
    """LLVM's names of the machine's triple and processor; the features that it has, and all, as LLVM is told of them
    ("+avx2,-sse4a,..."); LLVM's and llvmlite's versions."""

    triple: str
    cpu_name: str
    available: tuple[str, ...]
    features: str
    compiler: str


@functools.cache
def processor_facts() -> ProcessorFacts:
    """The facts of the machine that this process runs on."""
    cache, key = default_cache(), _key()
    stored = None if cache is None or key is None else cache.read(key)
    if stored is not None:
        triple, cpu_name, available, features, compiler = json.loads(stored)
        return ProcessorFacts(triple, cpu_name, tuple(available), features, compiler)
    found = _asked()
    if cache is not None and key is not None:
        cache.write(key, json.dumps(found).encode())
    return found


def _asked() -> ProcessorFacts:
    """What LLVM says."""
    import llvmlite
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    available = tuple(sorted(name for name, has in features.items() if has))
    triple = llvm.get_process_triple() + ("-elf" if os.name == "nt" else "")  # LLVM's JIT loads only ELF on Windows.
    compiler = f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"
    return ProcessorFacts(triple, llvm.get_host_cpu_name(), available, features.flatten(), compiler)


def _key() -> bytes | None:
    """Names the facts: this start of this machine, its first processor, llvmlite. None where that is not known."""
    import llvmlite

    if _has_another_answer():
        return None
    with contextlib.suppress(OSError):
        boot = _BOOT.read_text()
        with _PROCESSORS.open() as file:
            lines = []
            for line in file:
                if not line.strip():
                    break  # behind it are the others
                lines += [line] if line.startswith(_FIXED) else []
        facts = ("processor", 1, boot, lines, llvmlite.__version__, llvmlite.__file__)
        return hashlib.sha256(repr(facts).encode()).digest()
    return None


def _has_another_answer() -> bool:
    """Whether this process is told something else by CPUID than the processor says."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    answered: int = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _CPUID_GET, 0)
    return answered == 0
