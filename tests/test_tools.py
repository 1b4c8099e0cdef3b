"""The tools of the project: that the measurement of errors misses no argument, and prints its table, and that what is
measured of attention is the same."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def tool(name: str) -> ModuleType:
    path = Path(__file__).parent.parent / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measure_errors() -> ModuleType:
    return tool("measure_errors")


@pytest.fixture(scope="module")
def measure_attention() -> ModuleType:
    return tool("measure_attention")


@pytest.mark.parametrize(("name", "count"), [("exp", 1 << 32), ("tanh", 1 << 31)])
def test_parts_make_all_arguments(measure_errors: ModuleType, name: str, count: int) -> None:
    """Without a sign, where the function is odd or even."""
    step = 1 << 12
    tasks = [task for task in measure_errors.tasks_of(name, step, 10) if task.bits == 32]
    chunks = [chunk for task in tasks for (chunk,) in measure_errors.float32_arguments(task)]
    assert len(tasks) > 16
    np.testing.assert_array_equal(np.concatenate(chunks).view(np.uint32), np.arange(0, count, step, dtype=np.uint32))


def test_errors_are_seen(measure_errors: ModuleType) -> None:
    exact = np.array([1.0, 1.5, 0.0, 1e-45, np.inf, np.nan])
    actual = exact.astype(np.float32)
    assert measure_errors.largest_error(actual, exact, (exact,)).error <= 0.5
    for place, wrong, error in [(1, 1.5 + 2**-22, 2.0), (2, -0.0, np.inf), (3, 3e-45, 1.0), (4, 3e38, np.inf)]:
        changed = actual.copy()
        changed[place] = wrong
        worst = measure_errors.largest_error(changed, exact, (exact,))
        assert worst.error == pytest.approx(error, abs=0.3)
        assert worst.place == str(exact[place])


def test_a_table_is_printed(
    measure_errors: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["exp", "gelu", "atan2", "--step", str(1 << 22), "--samples", "100"]
    monkeypatch.setattr(sys, "argv", ["measure_errors.py", *arguments])
    measure_errors.main()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows[2:]] == ["exp", "gelu", "atan2"]
    assert {len(row) for row in rows} == {6}
    assert [row[1] for row in rows[2:]] == ["0 of 65536", "0 of 65536", "0 of 300"]
    assert all(float(row[2]) < 2 for row in rows[2:])
    assert float(rows[2][4]) < 2
    assert rows[3][4] == "not offered"


# ---- programs of another processor

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import cross_check  # noqa: E402


@pytest.mark.skipif(
    not (shutil.which(cross_check.COMPILER) and shutil.which(cross_check.EMULATOR[0])),
    reason="needs AArch64's compiler and emulator",
)
def test_programs_of_another_processor_are_run_and_compared(tmp_path: Path) -> None:
    """A wrong bit is seen, whichever thread writes it, and only in the program that it is in."""
    sources = (cross_check.Source("sample", 7), cross_check.Source("chain", 3))
    target = cross_check.target("generic")
    cases = [case for source in sources for case in cross_check.cases_of(source, 0, target)]
    assert cross_check.run(cases, target, tmp_path) == []
    cases[0].after[-1].view(np.uint8)[0] ^= 1
    (tmp_path / "again").mkdir()
    failures = cross_check.run(cases, cross_check.target("generic"), tmp_path / "again")
    assert len(failures) == len(cross_check.THREADS)
    assert all(failure.startswith(cases[0].name) and "element 0" in failure for failure in failures)


@pytest.mark.parametrize("mask", ["none", "lengths", "boolean", "causal", "additive"])
def test_attention_is_measured_beside_what_gives_the_same(measure_attention: ModuleType, mask: str) -> None:
    """Every mask, keys of the past, and stacks, as PyTorch has them."""
    pytest.importorskip("torch")
    case = measure_attention.Case
    for chosen in (case(5, 2, 16, mask=mask), case(2, 2, 16, past=7, mask=mask), case(3, 2, 8, is_stacked=True)):
        arrays = measure_attention.Arrays(chosen)
        call, output = measure_attention.own(chosen, arrays, 1)
        call()
        peer, results = measure_attention.with_torch(chosen, arrays)
        peer()
        np.testing.assert_allclose(output, results[0].numpy(), rtol=1e-4, atol=1e-5)


def test_measured_attention_has_names_of_its_own(measure_attention: ModuleType) -> None:
    names = [case.name for case in measure_attention.cases()]
    assert len(set(names)) == len(names) > 50
