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
ASKED = "import json, llvmlite.binding as b; print(json.dumps(b.get_host_cpu_features()))"


def _can_fault() -> bool:
    facts = Path("/proc/cpuinfo")
    is_x86 = platform.machine() == "x86_64" and sys.platform == "linux" and shutil.which("cc") is not None
    return is_x86 and "cpuid_fault" in facts.read_text().split()


def features(**environment: str) -> set[str]:
    """The instruction sets that LLVM sees."""
    command = [sys.executable, "-c", ASKED]
    run = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return {name for name, has in json.loads(run.stdout).items() if has}


@pytest.mark.skipif(not _can_fault(), reason="needs Linux on x86-64, CPUID that faults, and a C compiler")
def test_everybody_sees_an_older_processor(tmp_path: Path) -> None:
    library = tmp_path / "older_processor.so"
    build = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(build, check=True)
    whole, older = features(), features(LD_PRELOAD=str(library))
    assert older == {name for name in whole if not name.startswith(("avx512", "amx-", "avx10", "avxvnni"))}
    newer = features(LD_PRELOAD=str(library), OLDER_PROCESSOR_VNNI="1")
    assert newer == older | ({"avxvnni"} & whole)
