"""Runs of the benchmarks that are saved, read again and compared."""

from __future__ import annotations

import importlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich")


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))


def module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.{name}")


def timing(*samples: float) -> Any:
    return module("timing").Timing.of(samples)


def run_of(rows: dict[str, dict[str, Any]]) -> Any:
    runs = module("runs")
    return runs.Run(("here",), tuple(runs.Row("group", name, timings) for name, timings in rows.items()))


def test_a_timing_has_the_quartiles_of_its_samples() -> None:
    found = timing(5.0, 1.0, 3.0, 2.0, 4.0)
    assert (found.lower, found.median, found.upper, found.minimum, found.rounds) == (2.0, 3.0, 4.0, 1.0, 5)
    assert timing(2.0) == module("timing").Timing(2.0, 2.0, 2.0, 2.0, 1)


def test_a_run_is_read_as_it_was_saved(tmp_path: Path) -> None:
    """Cases, networks with their kernels and small operators, but not what was not timed."""
    case = next(iter(module("cases").all_cases()))
    small, networks, report = module("small"), module("networks"), module("report").Report([("opendml", "1")], 2)
    report.results = [module("measure").Result(case, timings={"opendml": timing(1.0, 2.0), "NumPy": timing(3.0)})]
    kernels = [networks.Kernel("GEMM, 1x1000", 2, timing(0.25, 0.5, 0.75), 0.5, 0.75)]
    report.networks = [networks.NetworkResult("net", kernels, timings={"PyTorch": timing(4.0)})]
    report.small = [small.SmallResult("a call", timing(5.0)), small.SmallResult("none", None)]
    report.compilation = [small.SmallResult("a start", timing(6.0))]
    path = tmp_path / "run.json"
    module("runs").save_run(report, path)
    found = module("runs").load_run(path)
    assert found.facts == tuple(module("report").facts(report))
    assert {row.title: row.timings for row in found.rows} == {
        f"{case.group}: {case.name}": report.results[0].timings,
        "networks: net": report.networks[0].timings,
        "kernels of net: GEMM, 1x1000": {"opendml": timing(0.25, 0.5, 0.75)},
        "one small operator: a call": {"opendml": timing(5.0)},
        "compilation: a start": {"opendml": timing(6.0)},
    }
    assert {row.title: row.whole for row in found.rows if row.whole} == {
        "kernels of net: GEMM, 1x1000": "networks: net"
    }


def test_the_page_says_how_close_each_kernel_of_a_network_is_to_its_limit() -> None:
    networks, report = module("networks"), module("report").Report([("opendml", "1")], 2)
    kernels = [
        networks.Kernel("GEMM, 1x1000", 2, timing(25e-6), 0.5, 0.75),
        networks.Kernel("COPY, 3", 1, timing(1e-6), 0.003, 1.0),
        networks.Kernel("COPY, 1", 1, timing(2e-6), 0.001, 0.6),
    ]
    times = {"opendml": timing(4.0), "PyTorch": timing(2.0)}
    report.networks = [networks.NetworkResult("net", kernels, timings=times)]
    page = module("report").markdown(report, [])
    assert "### net\n\n| kernel | count | time | share | of its limit |" in page
    assert "| GEMM, 1x1000 | 2 | 25 µs | 50.0% | 75% |" in page
    assert "| all others | 2 | 3 µs | 0.4% | 90% |" in page
    assert "| 0.50 | 0.50 | 38% |" in page  # of medians, of minima, of limits
    assert "- networks: net: ratio 0.50 < 1.1" in page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", 'not a run of the benchmarks: "kind" must be "opendml benchmarks"'),
        ('{"kind": "opendml benchmarks", "version": 9}', "version 9; this reads version 2"),
        ('{"kind": "opendml benchmarks", "version": 2, "facts": []}', "KeyError: 'rows'"),
    ],
)
def test_a_file_that_is_no_run_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(module("runs").UnreadableRunError) as caught:
        module("runs").load_run(path)
    assert message in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("time", [0, -1, float("inf"), float("nan")])
def test_a_time_must_be_positive(tmp_path: Path, time: float) -> None:
    row = {"median": time, "minimum": 1, "lower": 1, "upper": 1, "rounds": 1}
    rows = [{"section": "s", "name": "n", "timings": {"opendml": row}, "whole": None}]
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"kind": "opendml benchmarks", "version": 2, "facts": [], "rows": rows}))
    with pytest.raises(module("runs").UnreadableRunError, match="times must be positive"):
        module("runs").load_run(path)


@pytest.mark.parametrize(
    ("before", "after", "peer_before", "peer_after", "verdict", "speedup"),
    [
        ((1.0,), (2.0,), (1.0,), (1.0,), "slower", 0.5),
        ((1.0,), (0.5,), (1.0,), (1.0,), "faster", 2.0),
        # The machine is half as fast, for the peer too.
        ((1.0,), (2.0,), (1.0,), (2.0,), "", 1.0),
        # It is twice as fast, and opendml has nothing of it.
        ((1.0,), (1.0,), (1.0,), (0.5,), "slower", 0.5),
        # Beyond the tolerance, but within the quartiles.
        ((1.0, 2.0, 3.0), (2.4, 2.4, 2.4), (1.0,), (1.0,), "", 2 / 2.4),
        # Within the tolerance.
        ((1.0,), (1.04,), (1.0,), (1.0,), "", 1 / 1.04),
    ],
)
def test_what_is_slower_is_told_beside_the_peers(
    before: tuple[float, ...],
    after: tuple[float, ...],
    peer_before: tuple[float, ...],
    peer_after: tuple[float, ...],
    verdict: str,
    speedup: float,
) -> None:
    first = run_of({"case": {"opendml": timing(*before), "NumPy": timing(*peer_before)}})
    second = run_of({"case": {"opendml": timing(*after), "NumPy": timing(*peer_after)}})
    (change,) = module("comparison").compare(first, second).changes
    assert change.verdict(0.05) == verdict
    assert change.speedup == pytest.approx(speedup)


def test_what_is_a_part_of_a_row_is_told_beside_its_peers() -> None:
    """The machine is half as fast: of a kernel, too, which has no peers of its own."""

    def run(machine: float) -> Any:
        runs = module("runs")
        whole = runs.Row("networks", "net", {"opendml": timing(machine), "PyTorch": timing(machine)})
        parts = {"level": timing(machine), "slower": timing(machine**2)}
        kernels = (runs.Row("kernels of net", name, {"opendml": t}, whole.title) for name, t in parts.items())
        return runs.Run((), (whole, *kernels))

    found = module("comparison").compare(run(1.0), run(2.0))
    assert {change.title: change.verdict(0.05) for change in found.changes} == {
        "networks: net": "",
        "kernels of net: level": "",
        "kernels of net: slower": "slower",
    }


def test_rows_that_a_run_lacks_are_named_and_the_status_tells_of_slower_ones() -> None:
    from rich.console import Console

    first = run_of(
        {"both": {"opendml": timing(1.0)}, "old": {"opendml": timing(1.0)}, "NumPy's": {"NumPy": timing(1.0)}}
    )
    second = run_of({"both": {"opendml": timing(4.0)}, "new": {"opendml": timing(1.0)}})
    shown = io.StringIO()
    console = Console(file=shown, width=120)
    assert module("comparison").print_comparison(first, second, 0.05, console) == 1
    text = shown.getvalue()
    assert "Only in the first run: group: old" in text and "Only in the second run: group: new" in text
    assert "NumPy's" not in text
    assert "1 rows: 1 slower, 0 faster by more than 5%; 0.250 times as fast in the geometric mean" in text
    assert module("comparison").print_comparison(first, first, 0.05, console) == 0
    nothing = run_of({})
    assert module("comparison").print_comparison(nothing, nothing, 0.05, console) == 0


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "1e9"])
def test_cases_take_some_seconds(
    seconds: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--seconds", seconds])
    with pytest.raises(SystemExit) as end:
        module("__main__").main()
    assert end.value.code == 2 and "expected seconds" in capsys.readouterr().err
