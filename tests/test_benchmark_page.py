"""The page of the benchmarks, of runs that were saved: merged, summed up and drawn."""

from __future__ import annotations

import re
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


def run(threads: int = 2, machine: str = "Model T (cpu, 512-bit vectors)", **tables: Any) -> Any:
    runs = module("runs")
    contestants = (("opendml", "1"), ("NumPy", "2"))
    facts = runs.Facts(machine, "Linux", threads, contestants, 2.0, 9, "today")
    return runs.Run(facts, runs.COMPLETE, **tables)


def operator(name: str, own: float, peer: float, section: str = "group", **more: Any) -> Any:
    timings = {"opendml": timing(own), "NumPy": timing(peer)}
    aim = module("cases").Aim(1.0)
    return module("runs").OperatorResult(section, name, aim, 0, 0, 100, timings=timings, **more)


def network(name: str, batch: int, own: float, peer: float, kernels: Any = ()) -> Any:
    timings = {"opendml": timing(own), "PyTorch": timing(peer)}
    return module("networks").NetworkResult(name, batch, list(kernels), timings=timings)


def kernel(title: str, seconds: float, share: float, traffic: int) -> Any:
    return module("networks").Kernel(title, 2, timing(seconds), share, traffic, 0, 0, 2)


def copies(rate: float) -> Any:
    return module("limits").Limits((module("limits").Copy(100, rate, "opendml"),))


def kernel_limits(rate: float) -> Any:
    return module("networks").MachineLimits(2, ((1 << 14, rate), (1 << 27, rate)), 1e12, 4e12)


def operators(*rows: Any, rate: float = 100.0) -> dict[str, Any]:
    return {"limits": {row.section: copies(rate) for row in rows}, "operators": list(rows)}


def test_the_page_says_which_commit_was_measured() -> None:
    first, second = run(), run(machine="Model A")
    second.facts = replace(second.facts, code="commit 0123456789ab")
    runs = [line for line in page_of(first, second).splitlines() if line.startswith("- Run ")]
    assert ["today, commit not kept:" in runs[0], "today, commit 0123456789ab:" in runs[1]] == [True, True]


def page_of(*runs: Any) -> str:
    sources = [module("merging").Source(f"{number}.save", one) for number, one in enumerate(runs)]
    text: str = module("page").markdown(module("merging").merge(sources, module("selection").order()), {})
    return text


def part_of(page: str, heading: str) -> str:
    """What stands below a heading."""
    return re.split(r"\n#+ ", page.split(f"# {heading}\n", 1)[1], maxsplit=1)[0]


def test_the_summary_counts_what_is_level_and_names_what_is_not() -> None:
    rows = (operator("a", 1.0, 4.0), operator("b", 1.0, 1.0), operator("c", 1.0, 0.5))
    alone = operator("d", 1.0, 1.0)
    del alone.timings["NumPy"]
    nets = [network("net", 1, 1.0, 1.05), network("net", 8, 1.0, 2.1), network("slow, int8", 1, 2.1, 1.0)]
    page = page_of(run(networks=nets, **operators(*rows, alone)))
    assert "| operators, 2 threads | 4 | 3 | 2 | - | 1.26 | 1.26 |" in page
    assert "| networks, 2 threads | 3 | 3 | 2 | 1 | 1.02 | 1.02 |" in page
    assert "| networks, float32 | 2 | 1.48 |" in page and "| networks, int8 | 1 | 0.48 |" in page
    assert "| group | 4 | [1.26](#group-1-2) |" in page and "#### Group { #group-1-2 }" in page
    assert part_of(page, "Operators below 1.00").strip().splitlines()[2:] == [
        "| group: c | 2 threads | 0.50 | 0.50 | NumPy |"
    ]
    assert part_of(page, "Networks below 1.10").strip().splitlines()[2:] == [
        "| networks: net | 2 threads | 1.05 | 1.05 | PyTorch |",
        "| networks: slow, int8 | 2 threads | 0.48 | 0.48 | PyTorch |",
    ]
    assert "None." in part_of(page_of(run(**operators(rows[0]))), "Operators below 1.00")


def test_other_aims_that_are_missed_are_named_too() -> None:
    small = module("small").SmallResult("a call", timing(2.0), 1.0)
    row = operator("a", 1.0, 4.0)
    row.aim = module("cases").Aim(10.0, 0.5)
    slower = operator("b", 4.0, 1.0)
    page = page_of(run(small=[small], **operators(row, slower, rate=1000.0)))
    assert part_of(page, "Other aims that are missed").split("\n- ")[1:] == [
        "group: a, 2 threads: ratio 4.00 &lt; 10, share 10% &lt; 50%",
        "a call, 2 threads: 2 s\n",
    ]


def test_faults_are_named_and_text_of_libraries_is_no_markup() -> None:
    row = operator("a", 1.0, 4.0)
    row.faults = {"PyTorch": "Error: <script>"}
    page = page_of(run(**operators(row)))
    assert "- group: a: PyTorch: Error: &lt;script> (2 threads)" in page and "| fails |" in page


def test_numbers_of_threads_stand_side_by_side() -> None:
    kernels = [kernel("GEMM", 0.25, 0.9, 100), kernel("COPY", 0.001, 0.002, 10), kernel("CAST", 0.001, 0.001, 10)]
    alone = run(2, networks=[network("net", 8, 2.0, 3.0, kernels)], kernel_limits=kernel_limits(1000.0))
    many = run(16, networks=[network("net", 8, 1.0, 3.0), network("net", 1, 1.0, 0.5)])
    page = page_of(many, alone)
    table = [line for line in part_of(page, "Networks").splitlines() if line.startswith("| net ")]
    assert table == [
        "| net | 8 | 2 | 2000 | 3000 | - | - | - | 1.50 | 1.50 | 39% |",
        "| net | 8 | 16 | 1000 | 3000 | - | - | - | 3.00 | 3.00 | - |",
        "| net | 1 | 16 | 1000 | 500 | - | - | - | 0.50 | 0.50 | - |",
    ]
    assert "| 16 threads | 2 | 1.22 | 1.22 | - | - | - |" in page
    assert "| GEMM | 2 | 250 ms | 90.0% | 40% |" in page
    assert "| all others | 4 | 2 ms | 0.3% | 1000% |" in page
    assert page.index("networks, 2 threads") < page.index("networks, 16 threads")


def test_kernels_of_several_numbers_of_threads_are_one_table() -> None:
    def measured(threads: int, *kernels: Any) -> Any:
        limits = kernel_limits(1000.0)
        return run(threads, networks=[network("net", 1, 1.0, 2.0, kernels)], kernel_limits=limits)

    page = page_of(
        measured(2, kernel("GEMM", 0.5, 0.5, 100), kernel("COPY", 0.5, 0.5, 100)),
        measured(8, kernel("GEMM", 0.25, 1.0, 100)),
    )
    assert part_of(page, "net").strip().splitlines()[2:] == [
        "| GEMM | 2 | 500 ms | 50.0% | 20% | 250 ms | 100.0% | 40% |",
        "| COPY | 2 | 500 ms | 50.0% | 20% | - | - | - |",
    ]


def test_the_later_file_wins_and_the_page_says_so() -> None:
    first = run(**operators(operator("a", 1.0, 4.0), operator("b", 1.0, 3.0), rate=300.0))
    second = run(**operators(operator("b", 1.0, 2.0), rate=200.0))
    second.end = "cut off: SIGTERM"
    page = page_of(first, second)
    assert "| a | 1000 | 4000 | 4.00 |" in page and "| b | 1000 | 2000 | 2.00 |" in page and "3.00" not in page
    assert "- Rows of `1.save` that an earlier file has too, 1; these count: group: b" in page
    assert "Rows of `0.save`" not in page
    assert "at least for each; not complete: cut off: SIGTERM; Linux" in page
    assert "0.3 GB/s" not in page and "Copies: 0.0 GB/s moving 0 MiB" in page
    (part,) = (
        module("merging")
        .merge([module("merging").Source("x", first), module("merging").Source("y", second)], {})
        .popitem()[1]
    )
    assert part.run.limits["group"] == copies(300.0)  # the best that any of them has measured


def test_machines_stand_one_after_the_other() -> None:
    page = page_of(
        run(2, "Model T (cpu)", **operators(operator("a", 1.0, 4.0))),
        run(2, "Model A (other)", **operators(operator("a", 1.0, 2.0))),
        run(8, "Model T (cpu)", **operators(operator("a", 1.0, 3.0))),
    )
    assert re.findall(r"^## (.*)$", page, re.MULTILINE)[2:] == ["Machine 1: Model T", "Machine 2: Model A"]
    assert "| section | rows | machine 1, 2 threads | machine 1, 8 threads | machine 2, 2 threads |" in page
    assert "| group | 1 | [4.00](#group-1-2) | [3.00](#group-1-8) | [2.00](#group-2-2) |" in page
    assert page.count("{ #group-") == 3


def test_rows_are_in_the_order_of_the_benchmark_whatever_the_order_of_files() -> None:
    sections = list(module("selection").sections().items())[:3]
    rows = [operator(cases[0].name, 1.0, 1.0, section) for section, cases in sections]
    page = page_of(*(run(**operators(row)) for row in reversed(rows)))
    found = [name.lower() for name in re.findall(r"^#### (.*) \{", page, re.MULTILINE)]
    assert found == [section for section, _ in sections]


def test_who_did_not_take_part_is_told_once_for_all_networks() -> None:
    nets = [network("net", batch, 1.0, 2.0) for batch in (1, 8)]
    for one in nets:
        one.absent = {"OpenVINO": "Unsupported: int8"}
    assert "\n- OpenVINO: Unsupported: int8 (net, net, batch 8)\n" in page_of(run(networks=nets))


def test_the_report_of_a_run_is_printed() -> None:
    import io

    from rich.console import Console

    shown = io.StringIO()
    nets = [network("net", 8, 2.0, 3.0, [kernel("GEMM", 0.25, 0.9, 100)])]
    found = run(networks=nets, kernel_limits=kernel_limits(1000.0), **operators(operator("a", 2.0, 1.0)))
    found.small = [module("small").SmallResult("a call", timing(2.0), 1.0)]
    module("report").print_report(found, Console(file=shown, width=200))
    text = shown.getvalue()
    for expected in ("group (Copies", "kernels of net, batch 8", "geometric mean: 1.50", "group: a: ratio 0.50 < 1"):
        assert expected in text, expected


def test_the_page_and_its_plots_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of saved files; plots of an earlier page go, and nothing else does."""
    pytest.importorskip("matplotlib")
    growth = module("growth").Curve("copy", {"opendml": [(1024, 1e9), (4096, 2e9)]})
    first = run(2, growth=[growth], **operators(operator("a", 1.0, 4.0)))
    second = run(8, networks=[network("net", 1, 1.0, 2.0)])
    for name, one in (("a.save", first), ("b.save", second)):
        module("runs").save_run(one, tmp_path / name)
    images = tmp_path / "out" / "images"
    images.mkdir(parents=True)
    for name in ("benchmarks-old.png", "other.png"):
        (images / name).write_bytes(b"")
    files = [str(tmp_path / name) for name in ("a.save", "b.save")]
    monkeypatch.setattr(sys, "argv", ["benchmarks", "report", *files, "--output", str(tmp_path / "out")])
    assert module("__main__").main() == 0
    plots = {"benchmarks-ratios.png", "benchmarks-networks.png", "benchmarks-growth.png"}
    assert {path.name for path in images.iterdir()} == plots | {"other.png"}
    page = (tmp_path / "out" / "benchmarks.md").read_text()
    assert set(re.findall(r"\(images/(.*?)\)", page)) == plots
    assert "Run `a.save`" in page and "Run `b.save`" in page and str(tmp_path) not in page
    monkeypatch.setattr(
        sys, "argv", [*sys.argv[:2], *files, "--output", str(tmp_path / "out"), "--name", "other_machine"]
    )
    assert module("__main__").main() == 0
    others = {plot.replace("benchmarks", "other_machine", 1) for plot in plots}
    assert {path.name for path in images.iterdir()} == plots | others | {"other.png"}
    assert set(re.findall(r"\(images/(.*?)\)", (tmp_path / "out" / "other_machine.md").read_text())) == others
    assert (tmp_path / "out" / "benchmarks.md").read_text() == page
    (tmp_path / "b.save").write_text("{}")
    assert module("__main__").main() == 2
    assert "b.save: not a run of the benchmarks" in capsys.readouterr().err
