"""Programs that are compiled, run and dropped again and again leave nothing behind (``tools/soak.py``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CYCLES = os.environ.get("OPENDML_SOAK_CYCLES", "75")


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells about a process")
def test_nothing_grows() -> None:
    """OPENDML_SOAK_CYCLES makes it longer."""
    tool = Path(__file__).parent.parent / "tools" / "soak.py"
    done = subprocess.run(
        [sys.executable, str(tool), "--cycles", CYCLES], capture_output=True, text=True, check=False, timeout=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr
