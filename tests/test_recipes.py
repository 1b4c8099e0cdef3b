"""What "Adding an operator" says is all that there is to do: tried on a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from properties import HANGS

ROOT = Path(__file__).parents[1]

WITHOUT = """
import opendml as dml
from opendml.command_line import main
assert dml.OperatorType.REVERSE_SUBSEQUENCES not in dml.operators.implemented()
assert not hasattr(dml, "reverse_subsequences") and not hasattr(dml.operators, "ReverseSubsequences")
assert dml.negate([-1, 2]).tolist() == [1, -2]
assert main(["ops", "REVERSE_SUBSEQUENCES"]) == 2
"""

WITH = """
import numpy as np
import opendml as dml
from opendml.command_line import main
from opendml.operators.turning import ReverseSubsequences
assert dml.operators.ReverseSubsequences is ReverseSubsequences
x, lengths = dml.TensorDesc("float32", [2, 3]), dml.TensorDesc("uint32", [2, 1])
desc = ReverseSubsequences(input_tensor=x, sequence_lengths_tensor=lengths, output_tensor=x, axis=1)
assert dml.OperatorDesc.from_json(desc.to_json()) == desc
assert [v.field for v in dml.validate(desc.replace(axis=2))] == ["Axis"]
arrays = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array([[2], [9]], np.uint32)
for device in map(dml.Device, ("cpu", "reference")):
    assert device.compile(desc)(*arrays).tolist() == [[2, 1, 3], [6, 5, 4]]
assert dml.reverse_subsequences(*arrays, axis=1).tolist() == [[2, 1, 3], [6, 5, 4]]
graph = dml.Graph()
turned = dml.reverse_subsequences(graph.input("float32", [2, 3], name="x"), arrays[1], axis=1)
assert graph.compile(turned + 1)(arrays[0]).tolist() == [[3, 2, 4], [7, 6, 5]]
assert main(["ops", "REVERSE_SUBSEQUENCES"]) == 0
"""


def in_copy(copy: Path, script: str) -> str:
    """What a script prints where the indices have been written anew, with the package of the copy."""
    program = f"import runpy; runpy.run_path({str(copy / 'tools' / 'write_index.py')!r}, run_name='__main__')\n{script}"
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "OPENDML_CACHE_DIR": str(copy / "cache")}
    arguments = [sys.executable, "-c", program]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_operator_is_its_class_and_its_function(tmp_path: Path) -> None:
    """One is taken away, and the rest does not miss it; its two files come back, as another family, and it is there."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "write_index.py", tmp_path / "tools")
    package = tmp_path / "src" / "opendml"
    parts = [package / "operators" / "reversal.py", package / "functions" / "reversal.py"]
    texts = [part.read_text() for part in parts]
    for part in parts:
        part.unlink()
    in_copy(tmp_path, WITHOUT)
    for part, text in zip(parts, texts, strict=True):
        part.with_name("turning.py").write_text(text.replace("operators.reversal", "operators.turning"))
    assert "since feature level 2_1" in in_copy(tmp_path, WITH), "what the command says of it"
    indices = package / "__init__.py", package / "operators" / "__init__.py"
    for index in indices:
        before = (ROOT / index.relative_to(tmp_path)).read_text()
        assert sorted(index.read_text().replace("turning", "reversal").splitlines()) == sorted(before.splitlines())
