"""The tool that tells whether a change of the package changes its code: its fingerprints are those of every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from properties import examples_of

import opendml as dml
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.targets.cpu.compilation import generate

TOOLS = Path(__file__).parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
import fingerprint_code as tool  # noqa: E402

OPERATORS = "GEMM,ACTIVATION_SOFTMAX,CUMULATIVE_SUMMATION,SCATTER"


def test_processes_agree_whatever_their_hashes_are(tmp_path: Path) -> None:
    """No address and no order of a set is in the text; the random descriptors are the same ones, too."""
    written = []
    for seed in ("1", "2"):
        file = tmp_path / seed
        options = [
            "--kinds",
            "sample,random,chain,runtime",
            "--operators",
            OPERATORS,
            "--examples",
            str(examples_of(2)),
            "--chains",
            str(examples_of(4)),
        ]
        command = [sys.executable, str(TOOLS / "fingerprint_code.py"), "write", str(file), *options, "--jobs", "1"]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True)
        written.append(tool.load(file))
    assert list(tool.differences(*written)) == []
    assert {work.kind for work in written[0]} == {"sample", "random", "chain", "runtime"}
    prints = [text for found in written[0].values() for text in found.values()]
    assert not [text for text in prints if " " in text], "code that could not be written"


def test_what_has_changed_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a file that holds the descriptors, so that the same ones are written again."""
    file = tmp_path / "before.json"
    assert tool.main(["write", str(file), "--kinds", "sample,runtime", "--operators", "GEMM", "--jobs", "1"]) == 0
    assert tool.main(["compare", str(file), "--jobs", "1"]) == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    prints = lines[0][3]
    prints["avx2"], prints["gone"] = "0" * 24, prints.pop("avx512")
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    assert tool.main(["compare", str(file), "--jobs", "1"]) == 1
    named = [line.rsplit(",")[-1].strip() for line in capsys.readouterr().out.splitlines()]
    assert named[:3] == ["avx2: has changed", "gone: is gone", "avx512: is new"]


def test_machines_have_code_of_their_own() -> None:
    (prints,) = tool.fingerprints(tool.corpus(["sample"], 0, 0, ["GEMM"])[:1]).values()
    assert prints.keys() >= tool.targets().keys()
    assert len({prints[machine] for machine in ("avx512", "avx2", "baseline")}) == 3


def test_code_does_not_depend_on_addresses() -> None:
    """What an epilogue reads is asked for in the order in which it stands there."""
    texts, kept = set(), []
    for _ in range(8):
        graph = dml.Graph()
        x, y, *more = (graph.input("float32", [64, 64]) for _ in range(7))
        result = dml.gemm(x, y)
        for operand in more:
            result = result + operand
        kept.append(divide_and_fuse(join(graph.describe(result))))
        texts.add(generate(kept[-1].execution, tool.targets()["avx2"], in_place=False).modules)
    assert len(texts) == 1
