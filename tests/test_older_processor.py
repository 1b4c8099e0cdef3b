"""The benchmarks' older processor: what CPUID answers under it, in a process of its own."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "benchmarks" / "older_processor.c"
KEPT = (
    "import json; from opendml.llvm.processor_facts import processor_facts as f;"
    "print(json.dumps(dict.fromkeys(f().available, True)))"
)
ASKED = "import json, llvmlite.binding as b; print(json.dumps(b.get_host_cpu_features()))"


def _can_fault() -> bool:
    facts = Path("/proc/cpuinfo")
    is_x86 = platform.machine() == "x86_64" and sys.platform == "linux" and shutil.which("cc") is not None
    return is_x86 and "cpuid_fault" in facts.read_text().split()


def features(asked: str = ASKED, **environment: str) -> set[str]:
    """The instruction sets that LLVM sees, or another program that prints them."""
    command = [sys.executable, "-c", asked]
    run = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return {name for name, has in json.loads(run.stdout).items() if has}


@pytest.fixture(name="library")
def _library(tmp_path: Path) -> Path:
    """The library, where it can be."""
    if not _can_fault():
        pytest.skip("needs Linux on x86-64, CPUID that faults, and a C compiler")
    built = tmp_path / "older_processor.so"
    build = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(built), str(SOURCE)]
    subprocess.run(build, check=True)
    return built


def test_everybody_sees_an_older_processor(library: Path) -> None:
    whole, older = features(), features(LD_PRELOAD=str(library))
    assert older == {name for name in whole if not name.startswith(("avx512", "amx-", "avx10", "avxvnni"))}
    newer = features(LD_PRELOAD=str(library), OLDER_PROCESSOR_VNNI="1")
    assert newer == older | ({"avxvnni"} & whole)


def test_one_disk_cache_serves_both_processors(library: Path, tmp_path: Path) -> None:
    """In any order: neither is told what the other one was."""
    for number, order in enumerate(("whole, older, whole", "older, whole, older")):
        cache = str(tmp_path / f"cache{number}")
        for which in order.split(", "):
            preloaded = {"LD_PRELOAD": str(library)} if which == "older" else {}
            seen = features(KEPT, OPENDML_CACHE_DIR=cache, **preloaded)
            assert seen == features(**preloaded)
