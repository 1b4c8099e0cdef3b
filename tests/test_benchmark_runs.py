"""Runs of the benchmarks that are saved, read again and compared."""

from __future__ import annotations

import io
import json
import math
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmark_modules import module, timing

pytest.importorskip("rich")


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))


def run(**tables: Any) -> Any:
    """A run that was complete."""
    runs = module("runs")
    contestants = (("opendml", "1"), ("NumPy", "2"))
    facts = runs.Facts("Model T (cpu, 512-bit vectors)", "Linux", 2, contestants, 2.0, 9, "today")
    return runs.Run(facts, runs.COMPLETE, **tables)


def operator(name: str, section: str = "group", **outcome: Any) -> Any:
    """Of 1 MFLOP."""
    return module("runs").OperatorResult(section, name, module("cases").Aim(1.0), 10**6, 0, 100, **outcome)


def run_of(rows: dict[str, dict[str, Any]]) -> Any:
    limits = {"group": module("limits").Limits(fma_peak=1e6)}
    return run(limits=limits, operators=[operator(name, timings=timings) for name, timings in rows.items()])


def kernel(title: str, *samples: float) -> Any:
    return module("networks").Kernel(title, 2, timing(*samples), 0.5, 1000, 0, 0, 2)


def full_run() -> Any:
    """A row of everything."""
    small, networks, growth = module("small"), module("networks"), module("growth")
    limits = module("limits").Limits((module("limits").Copy(8000, 5e9, "NumPy"),), 1e12, None)
    return run(
        limits={"group": limits},
        kernel_limits=module("networks").MachineLimits(2, ((10, 1e9), (100, 1e8)), 1e12, 1e13),
        operators=[
            operator(
                "case",
                timings={"opendml": timing(1.0, 2.0), "NumPy": timing(3.0)},
                faults={"PyTorch": "differs"},
                absent={"OpenVINO": "not installed"},
            )
        ],
        networks=[
            networks.NetworkResult("net", 8, [kernel("GEMM, 1x1000", 0.25, 0.5)], timings={"PyTorch": timing(4.0)})
        ],
        small=[small.SmallResult("a call", timing(5.0), 5e-6), small.SmallResult("none", None)],
        compilation=[small.SmallResult("a start", timing(6.0))],
        growth=[growth.Curve("copy", {"opendml": [(1024, 1e9), (4096, 2e9)]})],
    )


def test_a_timing_has_the_quartiles_of_its_samples() -> None:
    found = timing(5.0, 1.0, 3.0, 2.0, 4.0)
    assert (found.lower, found.median, found.upper, found.minimum, found.rounds) == (2.0, 3.0, 4.0, 1.0, 5)
    assert timing(2.0) == module("timing").Timing(2.0, 2.0, 2.0, 2.0, 1)


def test_a_run_is_read_as_it_was_saved(tmp_path: Path) -> None:
    """Cases, networks with their kernels, small operators, limits, faults and curves."""
    saved, path = full_run(), tmp_path / "run.json"
    module("runs").save_run(saved, path)
    assert module("runs").load_run(path) == saved
    assert [one.name for one in tmp_path.iterdir()] == ["run.json"]


def test_a_run_says_which_commit_it_measured(tmp_path: Path) -> None:
    """Those of before do not."""
    saved, path, runs = run(), tmp_path / "run.json", module("runs")
    saved.facts = replace(saved.facts, code="commit 0123456789ab with changes")
    runs.save_run(saved, path)
    assert "Code: commit 0123456789ab with changes" in runs.load_run(path).facts.lines
    whole = json.loads(path.read_text())
    del whole["run"]["facts"]["code"]
    path.write_text(json.dumps(whole))
    assert runs.load_run(path).facts.code is None
    assert "Code: commit not kept" in runs.load_run(path).facts.lines


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_the_commit_of_a_folder_is_known_where_git_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of a clone in which something was installed."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    commit_of = module("commits").commit_of
    kept, installed = tmp_path / "clone" / "package", tmp_path / "clone" / "installed"
    kept.mkdir(parents=True)
    installed.mkdir()
    for folder in (kept, installed):
        (folder / "code.py").write_text("1")
    assert commit_of(kept) is None and commit_of(tmp_path / "nowhere") is None

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *arguments]
        return subprocess.run(command, cwd=kept, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("add", "code.py")
    git("commit", "-q", "-m", "code")
    whole = git("rev-parse", "HEAD")
    assert commit_of(kept) == f"commit {whole[:12]}" and commit_of(installed) is None
    (kept / "code.py").write_text("2")
    assert commit_of(kept) == f"commit {whole[:12]} with changes"


def test_what_was_timed_is_compared_row_by_row() -> None:
    saved, rows = full_run(), {row.title: row for row in module("runs").timed_rows(full_run())}
    assert {title: row.timings for title, row in rows.items()} == {
        "group: case": saved.operators[0].timings,
        "networks: net, batch 8": saved.networks[0].timings,
        "kernels of net, batch 8: GEMM, 1x1000": {"opendml": timing(0.25, 0.5)},
        "one small operator: a call": {"opendml": timing(5.0)},
        "compilation: a start": {"opendml": timing(6.0)},
    }
    assert {title: row.whole for title, row in rows.items() if row.whole} == {
        "kernels of net, batch 8: GEMM, 1x1000": "networks: net, batch 8"
    }


def test_what_a_case_computes_is_kept_with_its_result() -> None:
    case = next(case for case in module("cases").all_cases() if case.group == "GEMM")
    found = module("runs").OperatorResult.of(module("measure").Result(case, timings={"opendml": timing(1.0)}))
    assert found.title == case.title and found.aim == case.aim
    assert (found.operations, found.products, found.traffic) == (2 * 1024**3, 0, 3 * 4 * 1024**2)


def test_a_run_on_some_of_the_processors_is_one_of_the_same_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """But one with fewer features is not."""
    runs = module("runs")

    def facts(usable: int) -> Any:
        monkeypatch.setattr(runs, "usable_processors", lambda: usable)
        monkeypatch.setattr(runs.os, "cpu_count", lambda: 16)
        return runs.facts_of_this_machine((("opendml", "1"),), 2, 0.5, 9, "")

    assert facts(2).machine == facts(16).machine and "16 processors" in facts(2).machine
    assert facts(2).system.endswith(", 2 of its processors") and "processors" not in facts(16).system
    assert facts(2).threads == 2 and facts(2).seconds == 0.5
    whole = facts(16).machine
    monkeypatch.setenv("OPENDML_CPU_FEATURES", "baseline")
    assert facts(16).machine != whole and "no more than baseline" in facts(16).machine


def test_variables_that_choose_code_are_facts_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever chooses slower code for a peer is told to readers."""
    runs = module("runs")
    for name in runs.CHOOSING:
        monkeypatch.delenv(name, raising=False)

    def facts() -> Any:
        return runs.facts_of_this_machine((("opendml", "1"), ("NumPy", "2")), 2, 0.5, 9, "")

    assert facts().variables == ()
    assert "Contestants: opendml 1, NumPy 2" in facts().lines  # the code of a changed tree is "with changes"
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert facts().variables == ("OPENBLAS_CORETYPE=Haswell",)
    assert "Contestants: opendml 1, NumPy 2, with OPENBLAS_CORETYPE=Haswell" in facts().lines


def test_text_of_libraries_stays_on_its_line(tmp_path: Path) -> None:
    saved = run_of({"case": {}})
    saved.operators[0].faults = {"PyTorch": "one\ntwo\x1b[31m"}
    module("runs").save_run(saved, tmp_path / "run.json")
    assert module("runs").load_run(tmp_path / "run.json").operators[0].faults == {"PyTorch": "one two [31m"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("\x00", "not JSON"),
        ("[]", 'not a run of the benchmarks: "kind" must be "opendml benchmarks"'),
        ('{"kind": "opendml benchmarks", "version": 2, "rows": []}', "version 2; this reads version 3"),
        ('{"kind": "opendml benchmarks", "version": 3}', "run: expected an object, got None"),
        ('{"kind": "opendml benchmarks", "version": 3, "run": {}}', "run: 'facts' is missing"),
    ],
)
def test_a_file_that_is_no_run_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(module("runs").UnreadableRunError) as caught:
        module("runs").load_run(path)
    assert message in str(caught.value) and str(path) in str(caught.value)


def damaged(place: str, value: Any) -> Any:
    """What a file of a full run has, with another value in a place: names and numbers with dots between them."""
    found = json.loads(json.dumps(module("coding").encode(full_run())))
    *way, last = [int(step) if step.isdigit() else step for step in place.split(".")]
    inside = found
    for step in way:
        inside = inside[step]
    inside[last] = value
    return {"kind": "opendml benchmarks", "version": 3, "run": found}


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        *(
            ("operators.0.timings.opendml.median", time, ", got")
            for time in (0, -1, math.inf, math.nan, 1e30, "1", True)
        ),
        ("operators.0.timings.opendml.rounds", 0, "must be positive"),
        ("operators.0.timings.opendml.rounds", 1.5, "expected a number from 0 on"),
        ("operators.0.timings", [], "expected an object"),
        ("operators.0.section", "group\n| x", "expected a line of text"),
        ("operators.0.section", "other", "run.limits: 'other' is missing"),
        ("operators.0.surplus", 1, "'surplus' is not known"),
        ("operators", {}, "expected a list"),
        ("limits.group.fma_peak", 0, "peaks must be positive"),
        ("limits.group.copies.0.traffic", 0, "must be positive"),
        ("kernel_limits", None, "missing, but there are kernels"),
        ("kernel_limits.copies", [], "expected copies by size and peaks"),
        ("kernel_limits.copies", [[100, 1.0], [10, 1.0]], "expected copies by size and peaks"),
        ("kernel_limits.copies", [[10, 1.0], [10, 2.0]], "a size stands there twice"),
        ("kernel_limits.copies.0", [1], "expected 2 members, got 1"),
        ("kernel_limits.fma_peak", 0, "all positive"),
        ("networks.0.kernels.0.runs", 0, "runs 0 times"),
        ("growth.0.speeds.opendml", [], "needs points"),
        ("growth.0.speeds.opendml.0", [0, 1.0], "needs points"),
        ("facts.threads", 0, "expected 1 or more"),
    ],
)
def test_a_damaged_run_is_refused(tmp_path: Path, place: str, value: Any, message: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(damaged(place, value)))
    with pytest.raises(module("runs").UnreadableRunError, match="damaged") as caught:
        module("runs").load_run(path)
    assert message in str(caught.value)


def test_the_whole_run_is_what_the_tests_of_damage_change(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(damaged("facts.date", "tomorrow")))
    assert module("runs").load_run(path).facts.date == "tomorrow"


# ------------------------------------------------------------------------------------------------------------- running


class Clock:
    """Seconds that pass when they are told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_rows_are_kept_as_soon_as_they_are_measured(tmp_path: Path) -> None:
    """With what the machine could do until then; and whatever ends the run, the file tells."""
    running, runs, limits = module("running"), module("runs"), module("limits")
    path, peaks = tmp_path / "run.json", iter([5.0, 9.0, 7.0, 8.0])
    keeper = running.Keeper(run(), path)
    cases = [case for case in module("cases").all_cases() if case.group == "convolution"][:3]
    watch = limits.Watch(lambda sizes: limits.Copy(1, 1.0, "opendml"), lambda: next(peaks), lambda: 1.0)
    kept = []

    def race(case: Any) -> Any:
        kept.append(runs.load_run(path) if path.exists() else None)
        if len(kept) == 3:
            signal.raise_signal(signal.SIGTERM)
        return operator(case.name, case.group, timings={"opendml": timing(1.0)})

    before = signal.getsignal(signal.SIGTERM)
    with keeper.keeping():
        running._measure_section("convolution", cases, keeper, watch, race)
    assert signal.getsignal(signal.SIGTERM) == before
    found = runs.load_run(path)
    assert [len(one.operators) if one else 0 for one in kept] == [0, 1, 2]
    assert found.end == "cut off: SIGTERM" and not found.is_complete and found.titles == [c.title for c in cases[:2]]
    assert [one and one.limits["convolution"].fma_peak for one in kept[1:]] == [9.0, 9.0]
    assert found.limits["convolution"] == limits.Limits(fma_peak=9.0)


def test_a_run_says_what_ended_it(tmp_path: Path) -> None:
    running, runs, path = module("running"), module("runs"), tmp_path / "run.json"

    def end(cause: BaseException | None) -> str:
        keeper = running.Keeper(full_run(), path)
        keeper.run.end = runs.CUT_OFF
        with keeper.keeping():
            keeper.keep()
            assert not runs.load_run(path).is_complete
            if cause is not None:
                raise cause
        return str(runs.load_run(path).end)

    assert end(None) == runs.COMPLETE
    assert end(KeyboardInterrupt()) == "cut off by Ctrl-C"
    with pytest.raises(MemoryError):
        end(MemoryError("none left"))
    assert runs.load_run(path).end == "cut off by MemoryError: none left"


def test_a_run_ends_behind_the_row_in_which_its_time_is_over(tmp_path: Path) -> None:
    running, clock, path = module("running"), Clock(), tmp_path / "run.json"
    keeper, measured = running.Keeper(full_run(), path, 120.0, clock), []
    with keeper.keeping():
        for seconds in (60.0, 119.9, 120.0, 180.0):
            clock.now = seconds
            measured.append(seconds)
            keeper.keep()
    assert measured == [60.0, 119.9, 120.0]
    assert module("runs").load_run(path).end == "cut off: its 2 minutes were over"


def test_nothing_is_written_where_nothing_was_measured(tmp_path: Path) -> None:
    running, path = module("running"), tmp_path / "run.json"
    with running.Keeper(run(), path).keeping():
        raise KeyboardInterrupt
    assert not path.exists()


# -------------------------------------------------------------------------------------------------------------- limits


def test_only_limits_that_tell_something_of_the_rows_are_measured() -> None:
    limits, cases = module("limits"), module("cases").all_cases()

    def needs(section: str) -> Any:
        return limits.Needs.of(case for case in cases if case.group == section)

    small, _, large = limits.COPIED
    assert needs("GEMM") == needs("convolution") == limits.Needs((), True, False)
    assert needs("integer product") == limits.Needs((), False, True)
    (copy,) = (case for case in cases if case.title == "identity: copy f32")
    assert limits.Needs.of([copy]) == limits.Needs((large,))
    assert small in needs("max pooling").copies
    assert limits.Needs.of([]) == limits.Needs()


def test_the_best_of_several_measurements_counts() -> None:
    """Copies behind a section are those before the next one."""
    limits = module("limits")
    small, middle, large = limits.COPIED
    copied: list[Any] = []

    def copy(sizes: Any) -> Any:
        copied.append(sizes)
        return limits.Copy(8 * math.prod(sizes), float(len(copied)), "opendml")

    watch = limits.Watch(copy, lambda: 7.0, lambda: 8.0)
    needs = limits.Needs((small, large), True, False)
    before = watch.before(needs)
    assert copied == [small, large] and (before.fma_peak, before.byte_peak) == (7.0, None)
    after = before.or_better(watch.after(needs))
    assert [one.bandwidth for one in after.copies] == [3.0, 4.0]
    assert before.or_better(after) == after.or_better(before) == after
    assert [one.bandwidth for one in watch.before(limits.Needs((middle, large))).copies] == [5.0, 4.0]
    assert after.copy_bandwidth(8 * math.prod(small)) == 3.0 and after.copy_bandwidth(1 << 40) == 4.0
    assert limits.Limits().copy_bandwidth(5) is None


def test_limits_of_kernels_are_the_best_too() -> None:
    limits, kind = module("limits"), module("networks").MachineLimits
    first, second = kind(2, ((10, 1.0), (20, 4.0)), 5.0, 6.0), kind(2, ((10, 2.0), (20, 3.0)), 4.0, 7.0)
    assert limits.better(first, second) == kind(2, ((10, 2.0), (20, 4.0)), 5.0, 7.0)
    assert limits.better(None, second) == limits.better(second, None) == second
    assert limits.better(first, kind(2, (), 9.0, 1.0)) == kind(2, first.copies, 9.0, 6.0)


# ---------------------------------------------------------------------------------------------------------- comparison


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

    def measured(machine: float) -> Any:
        kernels = [kernel("level", machine), kernel("slower", machine**2)]
        timings = {"opendml": timing(machine), "PyTorch": timing(machine)}
        return run(networks=[module("networks").NetworkResult("net", 1, kernels, timings=timings)])

    found = module("comparison").compare(measured(1.0), measured(2.0))
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
    assert "before: Machine: Model T (cpu, 512-bit vectors), 2 threads; Linux; today" in text
    assert "not complete" not in text
    first.end = "cut off: SIGTERM"
    assert module("comparison").print_comparison(first, first, 0.05, console) == 0
    assert "after: The run was not complete: cut off: SIGTERM" in shown.getvalue()
    nothing = run_of({})
    assert module("comparison").print_comparison(nothing, nothing, 0.05, console) == 0


# ----------------------------------------------------------------------------------------------------------- arguments


def status(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Of the command."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENDML_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    return int(module("__main__").main())


@pytest.mark.parametrize("option", ["--seconds", "--minutes"])
@pytest.mark.parametrize("amount", ["0", "-1", "nan", "1e9"])
def test_cases_take_some_seconds(
    option: str, amount: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        status(monkeypatch, option, amount)
    assert end.value.code == 2 and f"expected {option[2:]}" in capsys.readouterr().err


def test_a_pattern_that_matches_no_row_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    assert status(monkeypatch, "--only", "resnet 5O", "--save", str(path)) == 2
    assert "no row matches 'resnet 5O'" in capsys.readouterr().err and not path.exists()
    assert status(monkeypatch, "--only", "GEMM: *", "--list") == 0
    assert capsys.readouterr().out == "GEMM: 1024x1024x1024 f32\n"


def test_rows_of_saved_runs_can_be_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    cases = [case for case in module("cases").all_cases() if case.group == "cast"]
    saved = run(limits={"cast": module("limits").Limits()})
    saved.operators = [operator(case.name, "cast", timings={"opendml": timing(1.0)}) for case in cases[1:]]
    module("runs").save_run(saved, path)
    assert status(monkeypatch, "--only", "cast: *", "--skip", str(path), "--list") == 0
    assert capsys.readouterr().out == f"{cases[0].title}\n"
    assert status(monkeypatch, "--only", cases[1].title, "--skip", str(path), "--list") == 2
    assert "that is not skipped" in capsys.readouterr().err
    # Rows of another number of threads are others.
    assert status(monkeypatch, "--only", "cast: *", "--skip", str(path), "--threads", "8", "--list") == 0
    assert capsys.readouterr().out.splitlines() == [case.title for case in cases]
    path.write_text("[]")
    assert status(monkeypatch, "--skip", str(path), "--list") == 2
    assert "not a run of the benchmarks" in capsys.readouterr().err


def test_a_table_of_single_times_that_was_cut_off_is_measured_again() -> None:
    saved = full_run()
    assert {"group: case", "one small operator", "compilation", "growth: copy"} <= saved.finished
    saved.end, saved.growth = module("runs").CUT_OFF, []
    assert "one small operator" in saved.finished and "compilation" not in saved.finished
    saved.compilation = []
    assert "one small operator" not in saved.finished


def test_a_directory_that_is_not_there_is_found_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(monkeypatch, "--only", "GEMM: *", "--save", str(tmp_path / "none" / "run.json")) == 2
    assert "is no directory" in capsys.readouterr().err
