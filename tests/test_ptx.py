"""The kernels of graphics processors as PTX: LLVM writes it, and NVIDIA's assembler takes it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sample_descriptors import samples

from opendml.description.descriptors import Operator
from opendml.llvm.foreign import compile_foreign
from opendml.targets.gpu.dialect import PTX
from opendml.targets.gpu.program import generate

PROCESSOR = "sm_90"
PACKAGE = "nvidia-cuda-nvcc"
CONTRACTED = re.compile(r"^\s+(?:fma|mad)\.\w*\.?f", re.MULTILINE)


def _assembler() -> Path | None:
    """``ptxas`` of the wheel, or of an installed toolkit."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files(PACKAGE) or ():
            if file.name == "ptxas":
                return Path(str(file.locate()))
    found = shutil.which("ptxas")
    return None if found is None else Path(found)


@pytest.mark.sampled
@pytest.mark.parametrize("desc", samples(), ids=lambda desc: type(desc).__name__)
def test_ptx_is_assembled(desc: Operator, tmp_path: Path) -> None:
    code = generate(desc.define(), PTX, divides_exactly=True, has_float64=True)
    (object_,), _ = compile_foreign(code.modules, PTX.triple, PROCESSOR, assembly=True)
    ptx = object_.partition(b"\n")[2].decode()
    assert [kernel.name for kernel in code.kernels] == re.findall(r"\.entry (\w+)\(", ptx)
    # Every operation rounds as the grammar says: nothing approximate, nothing flushed, no product joined to a sum
    # but where the definition does.
    assert not re.search(r"\.approx|\.ftz", ptx)
    if not any("@llvm.fma" in kernel.text for kernel in code.kernels):
        assert not CONTRACTED.search(ptx)
    assembler = _assembler()
    if assembler is None:
        pytest.skip(f"no ptxas: pip install --no-deps {PACKAGE}")
    source = tmp_path / "kernels.ptx"
    source.write_text(ptx)
    command: list[str | Path] = [assembler, f"-arch={PROCESSOR}", source, "-o", tmp_path / "kernels.cubin"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
