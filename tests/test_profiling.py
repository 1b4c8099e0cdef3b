"""Profiles: how long kernels take, and the table, page and trace that show it."""

from __future__ import annotations

import html
import itertools
import json
import math
import re
import shutil
import struct
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_lines import invoke
from hypothesis import given
from hypothesis import strategies as st
from properties import HANGS, examples
from sample_descriptors import samples
from specification import SHARED

import opendml as dml
from opendml.description.errors import BindingError
from opendml.expression.element_types import I32
from opendml.graph import provenance
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.inspection.layered_drawing import draw
from opendml.inspection.measurements import End, KernelProfile, TensorUse
from opendml.inspection.profile_files import trace_of
from opendml.inspection.profile_page import DRAWN_BOXES, page
from opendml.inspection.profiling import Profile
from opendml.llvm.host import host_machine
from opendml.targets.cpu import limits as cpu_limits
from opendml.targets.cpu.code.interface import ENTRY
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.instructions.machine import machine_instructions
from opendml.targets.cpu.limits import byte_peak
from opendml.targets.cpu.processor import host_processor
from opendml.targets.cpu.runtime.timed_executable import tick_seconds
from opendml.targets.cpu.target import host_target
from opendml.targets.machine_limits import MachineLimits

EXAMPLES = Path(__file__).parents[1] / "examples"
HOSTILE = "<script>alert('&quot;\"')</script>\x1b[31m\x00\u202e]]>-->"
LIMITS = MachineLimits(2, ((1 << 12, 1e11), (1 << 20, 1e10)), 1e11)


def tensor(*sizes: int, data_type: str = "FLOAT32") -> dml.TensorDesc:
    return dml.TensorDesc(data_type, sizes)


def network(name: str = "net") -> tuple[dml.GraphProgram, list[np.ndarray[Any, Any]]]:
    """A compiled network, and an input for it."""
    graph, outputs = built_network(name)
    return graph.compile(outputs), [np.random.default_rng(1).normal(size=[1, 4, 24, 24]).astype(np.float32)]


def built_network(name: str = "net") -> tuple[dml.Graph, dict[str, dml.GraphTensor]]:
    """Two chains of operators that meet, with weights."""
    random = np.random.default_rng(0)
    graph = dml.Graph(dml.Device(thread_count=2))
    x = graph.input("float32", [1, 4, 24, 24], name="x")
    filter = random.normal(size=[8, 4, 3, 3]).astype(np.float32)
    with graph.scope(name):
        y = dml.convolution(x, filter, start_padding=[1, 1], end_padding=[1, 1])
        y = dml.activation_relu(y)
        pooled = dml.max_pooling(y, window_size=[2, 2], strides=[2, 2]).values
        mean = dml.reduce(y, "AVERAGE", axes=[2, 3])
    return graph, {"pooled": pooled * mean.broadcast_to(pooled.sizes), "mean": mean}


@pytest.fixture(scope="module")
def profiled() -> Profile:
    program, arrays = network()
    return dml.profile(program, *arrays, seconds=0.05)


# ---- limits and clocks


def test_limits() -> None:
    found = host_processor().limits(1)
    assert found is host_processor().limits(1)
    assert 1e9 < found.fma_peak < 1e13
    assert all(1e8 < rate < 1e13 for _, rate in found.copies)
    assert LIMITS.bandwidth(1) == 1e11
    assert LIMITS.bandwidth(1 << 30) == 1e10
    assert LIMITS.bandwidth(1 << 16) == pytest.approx(math.sqrt(1e11 * 1e10))
    assert LIMITS.least_seconds(1 << 20, 1e11) == pytest.approx(1)
    assert LIMITS.least_seconds(1 << 40, 1e11) == pytest.approx((1 << 40) / 1e10)
    limits = replace(LIMITS, byte_peak=4e11)
    assert limits.least_seconds(1 << 10, 1e11, 8e11) == pytest.approx(1 + 2)


def test_peaks_are_those_of_the_best_turn_between_the_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may have had a processor in any of them."""
    order: list[str] = []
    rates = {"copy": 1.0, "fma": 5.0, "byte": 7.0}

    def measured(name: str) -> Callable[..., float]:
        def measure(*_: object) -> float:
            order.append(name)
            return rates[name] * (2 if order.count(name) == 3 else 1)

        return measure

    for name, function in (("copy", "copy_bandwidth"), ("fma", "fma_peak"), ("byte", "byte_peak")):
        monkeypatch.setattr(cpu_limits, function, measured(name))
    found = cpu_limits.processor_limits.__wrapped__(host_processor(), 2)
    assert (found.thread_count, found.fma_peak, found.byte_peak) == (2, 10.0, 14.0)
    assert order == ["copy", "fma", "byte"] * len(cpu_limits.COPIED)


def test_a_peak_is_that_of_a_run_that_nothing_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the time is over with the first one."""
    now, durations = 0.0, iter([1.0] * 5 + [0.5] + [1.0] * 100)

    class Team:
        def run(self, *_: object) -> int:
            nonlocal now
            now += next(durations)
            return 2

    monkeypatch.setattr(cpu_limits, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(cpu_limits, "default_team", lambda _: Team())
    first = cpu_limits.fma_peak(2, 0.01)
    assert first == pytest.approx(2 * cpu_limits.fma_peak(2, 0.01))


def test_peak_of_products_of_bytes() -> None:
    assert 1e9 < byte_peak(1, 0.01) < 1e14


def test_the_clock_ticks_from_once_to_ten_times_a_nanosecond_or_less_often() -> None:
    assert 1e-10 < tick_seconds(host_machine()) < 1e-6


# ---- profiles


def test_a_kernel_of_a_part_that_runs_several_times_is_as_close_to_its_limit_as_once() -> None:
    limits = replace(LIMITS, byte_peak=4e11)
    use = TensorUse("x", "float32", (4,), 16)
    for operations, products in ((10**9, 0), (0, 10**9), (0, 0)):
        once = KernelProfile(0, ("GEMM",), (), (use,), (use,), 1, 0.5, (0.5,), operations, "", products)
        assert once.times(3).efficiency(limits) == pytest.approx(once.efficiency(limits))
        assert once.times(3).bytes == 96 and once.times(3).seconds == 1.5


def test_a_profile_of_a_graph(profiled: Profile) -> None:
    assert profiled.title == "graph of 5 operators"
    assert profiled.inputs[0] == "x"
    assert profiled.outputs == ("pooled", "mean")
    assert profiled.runs >= 3
    assert 0 < profiled.kernel_seconds <= profiled.instrumented_seconds
    assert sum(map(profiled.share, profiled.kernels)) == pytest.approx(1)
    computed = {operator for kernel in profiled.kernels for operator in kernel.operators}
    assert {"CONVOLUTION", "ACTIVATION_RELU", "REDUCE"} <= computed
    assert any(name.startswith("MAX_POOLING") for name in computed)
    for number, kernel in enumerate(profiled.kernels):
        assert kernel.number == number
        assert kernel.seconds > 0
        assert len(kernel.work) == profiled.thread_count
        assert all(0 <= work <= kernel.seconds * 1.01 + 1e-6 for work in kernel.work)
        assert kernel.writes
        assert profiled.limits is not None and kernel.efficiency(profiled.limits) > 0
        assert all("net (test_profiling.py:" in node or "element_wise" in node for node in kernel.nodes)
    convolution = next(kernel for kernel in profiled.kernels if "ACTIVATION_RELU" in kernel.operators)
    assert convolution.title == "CONVOLUTION + ACTIVATION_RELU"
    assert convolution.operations >= 2 * 8 * 24 * 24 * 4 * 9
    assert not convolution.integer_operations


def test_products_of_bytes_are_operations_too() -> None:
    def tensor(data_type: str, *sizes: int) -> dml.TensorDesc:
        return dml.TensorDesc(data_type, sizes)

    product = dml.operators.MatrixMultiplyInteger(
        a_tensor=tensor("UINT8", 1, 1, 64, 256),
        b_tensor=tensor("INT8", 1, 1, 256, 96),
        output_tensor=tensor("INT32", 1, 1, 64, 96),
    )
    program = dml.Device(thread_count=1).compile(product)
    a, b = np.ones((1, 1, 64, 256), np.uint8), np.ones((1, 1, 256, 96), np.int8)
    found = dml.profile(program, a, None, b, None, seconds=0.01)
    assert found.limits is not None
    kernel = max(found.kernels, key=lambda kernel: kernel.integer_operations)
    if machine_instructions(host_machine()).find("dot4", I32):
        assert kernel.integer_operations == 2 * 64 * 256 * 96 and not kernel.operations
    assert 0 < kernel.of_peak(found.limits) <= kernel.efficiency(found.limits)
    assert "of bytes at" in str(found)


def test_the_flow_of_tensors(profiled: Profile) -> None:
    sources = {flow.source for flow in profiled.flows}
    targets = {flow.target for flow in profiled.flows}
    assert End("input", 0) in sources
    assert {End("output", 0), End("output", 1)} <= targets
    for kernel in profiled.kernels:
        end = End("kernel", kernel.number)
        assert end in sources
        assert end in targets
    for flow in profiled.flows:
        if flow.source.kind == flow.target.kind == "kernel":
            assert flow.source.number < flow.target.number


def test_a_program_with_records_gives_the_same_results() -> None:
    program, arrays = network()
    before = program(*arrays)
    dml.profile(program, *arrays, seconds=0)
    after = program(*arrays)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    out = {name: np.zeros_like(array) for name, array in before.items()}
    dml.profile(program, x=arrays[0], out=out, seconds=0)
    assert all(np.array_equal(before[name], out[name]) for name in before)


def test_an_operator_that_repeats() -> None:
    desc = next(sample for sample in samples() if sample.type.name == "RNN")
    program = dml.Device().compile(desc)
    arrays = [None if b.desc is None else np.zeros(b.desc.sizes, b.desc.data_type.dtype) for b in program.inputs]
    found = dml.profile(program, *arrays, seconds=0)
    assert found.title == "RNN"
    assert {kernel.title for kernel in found.kernels} == {"RNN"}
    assert found.kernel_seconds <= found.instrumented_seconds
    repeated = [kernel for kernel in found.kernels if kernel.repetitions > 1]
    for kernel in repeated:
        assert kernel.bytes % kernel.repetitions == 0


def test_programs_of_descriptors_by_themselves() -> None:
    t = tensor(3)
    add = dml.operators.ElementWiseAdd(a_tensor=t, b_tensor=t, output_tensor=t)
    node = dml.OperatorNode(add, "sum")
    edges: dict[str, Any] = {
        "input_edges": [dml.InputEdge(0, 0, 0), dml.InputEdge(0, 0, 1)],
        "output_edges": [dml.OutputEdge(0, 0, 0)],
    }
    compiled = dml.Device().compile_graph(dml.GraphDesc(input_count=1, output_count=1, nodes=[node], **edges))
    found = dml.profile(compiled, np.ones(3, np.float32), seconds=0)
    assert [kernel.nodes for kernel in found.kernels] == [("sum",)]
    with pytest.raises(BindingError, match="no inputs by name"):
        dml.profile(compiled, x=np.ones(3, np.float32))
    with pytest.raises(BindingError):
        dml.profile(compiled, np.ones(3, np.float64))
    with pytest.raises(BindingError, match="part of a graph"):
        dml.profile(compiled.execution, np.ones(3, np.float32))


def test_the_table(profiled: Profile) -> None:
    text = str(profiled)
    assert text.startswith("graph of 5 operators\n")
    assert f"{len(profiled.kernels)} kernels, 2 threads" in text
    assert "CONVOLUTION + ACTIVATION_RELU" in text


# ---- trace and page


def test_the_trace(profiled: Profile, tmp_path: Path) -> None:
    profiled.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [event for event in events if event["ph"] == "X"]
    assert {event["args"]["kernel"] for event in kernels} == set(range(len(profiled.kernels)))
    assert len({event["tid"] for event in kernels}) <= 2
    ends: dict[int, float] = defaultdict(float)
    for event in kernels:
        assert event["ts"] >= ends[event["tid"]] - 1e-6
        ends[event["tid"]] = event["ts"] + event["dur"]
    assert max(ends.values()) <= profiled.instrumented_seconds * 1e6 * 1.01
    assert {event["pid"] for event in json.loads(trace_of([profiled] * 2))["traceEvents"]} == {0, 1}


VOID = {"input", "meta", "path", "rect", "br", "link", "img"}


class Page(HTMLParser):
    """What a page consists of; fails where elements are not closed in the order in which they were opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        values = dict(attributes)
        assert not any(name.startswith("on") or name == "src" for name in values)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [values["href"] or ""] if "href" in values else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page(profiled: Profile, tmp_path: Path) -> None:
    profiled.save_page(tmp_path / "profile.html")
    text = (tmp_path / "profile.html").read_text(encoding="utf-8")
    found = Page(text)
    assert not {"script", "link", "img", "iframe"} & found.tags.keys()
    assert not re.search(r"https?:|url\((?!#)|@import", text)
    assert len(found.ids) == len(set(found.ids))
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    for kernel in profiled.kernels:
        assert f"p0-kernel{kernel.number}" in found.ids
        assert kernel.title in found.text
        assert kernel.description.splitlines()[-1].strip() in found.text
    assert "default-src 'none'" in text
    ends = {end for flow in profiled.flows for end in (flow.source, flow.target)}
    assert text.count('<g class="kernel"') == len(profiled.kernels)
    boxes = {f"p0-box{kernel.number}" for kernel in profiled.kernels}
    assert boxes <= set(found.ids) & {link[1:] for link in found.links}
    assert text.count('<g class="tensor"') == len([end for end in ends if end.kind != "kernel"])
    twice = Page(page([profiled, profiled]))
    assert len(twice.ids) - twice.ids.count("arrow") == len(set(twice.ids) - {"arrow"})


def test_the_page_of_very_many_kernels(profiled: Profile, tmp_path: Path) -> None:
    """They are all in the table; instead of a drawing there is a word about it, and no row leads to one."""
    kernels = tuple(replace(profiled.kernels[0], number=n, seconds=float(n)) for n in range(DRAWN_BOXES + 1))
    many = replace(profiled, kernels=kernels, flows=())
    assert many.kernel_seconds == sum(range(DRAWN_BOXES + 1))
    many.save_page(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert f"it would have {DRAWN_BOXES + 1} boxes" in text
    assert "<svg" not in text
    assert "Show in the drawing" not in text
    assert text.count('class="row"') == DRAWN_BOXES + 1


def test_a_profiled_entry_has_one_clock_and_one_record_for_each_kernel() -> None:
    """LLVM takes a time that grows with the square of the calls in a block."""
    graph = dml.Graph()
    x = graph.input("float32", [4])
    joined = join(graph.describe([x + float(n) for n in range(70)]))
    code = generate(divide_and_fuse(joined).execution, host_target(), in_place=False, profiled=True)
    entry = code.modules[0][code.modules[0].index(f"define void @{ENTRY}(") :]
    assert entry.count("@llvm.readcyclecounter()") == entry.count("call void @record(") == 70
    assert "@barrier_wait" not in entry


def test_the_nodes_of_a_kernel_are_found_once_for_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor that many kernels write has as many branches that lead to it: they are followed once, not by each."""
    followed = 0
    before = provenance.Provenance._before

    def counted(*arguments: Any) -> Any:
        nonlocal followed
        followed += 1
        return before(*arguments)

    monkeypatch.setattr(provenance.Provenance, "_before", counted)
    count = 20
    graph = dml.Graph()
    pieces = [dml.activation_relu(graph.input("float32", [1, n + 1])) for n in range(count)]
    desc = graph.describe(dml.join(pieces, axis=1))
    joined = join(desc)
    definition = divide_and_fuse(joined).execution
    assert len(definition.statements) == count
    found = provenance.Provenance(desc, joined, definition)
    nodes = [found.nodes(statement) for statement in definition.statements]
    assert followed == count
    assert sorted(nodes) == [(n, count) for n in range(count)]


def test_the_name_of_a_graph_is_the_title() -> None:
    graph = dml.Graph(name="two steps")
    x = graph.input("float32", [4], name="x")
    program = graph.compile(dml.activation_relu(x) + 1)
    found = dml.profile(program, np.zeros(4, np.float32), seconds=0)
    assert found.title == "two steps: graph of 2 operators"
    assert "<h1>two steps: graph of 2 operators</h1>" in page([found])
    assert repr(graph).startswith("<Graph 'two steps' on ")


def test_names_from_files_are_text() -> None:
    program, arrays = network(HOSTILE)
    found = dml.profile(program, *arrays, seconds=0)
    text = page([found])
    assert "<script" not in text
    assert not set("\x1b\x00\u202e") & set(text)
    assert "<script>alert('&quot;\"')</script>" in Page(text).text
    assert not set("\x1b\x00\u202e") & set(str(found))
    json.loads(trace_of([found]))


BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

MEASURE = """<script>
const box = element => element.getBoundingClientRect();
const rows = [...document.querySelectorAll('.row')];
const heights = rows.map(row => box(row).height);
rows.forEach(row => row.open = true);
const cells = rows.flatMap(row => [...row.querySelectorAll('summary > span')]).filter(cell => box(cell).width);
const spilled = [...document.querySelectorAll('svg text')].filter(text => {
  const inner = box(text), outer = box(text.parentNode.querySelector('rect'));
  return inner.left < outer.left || inner.right > outer.right;
});
document.querySelector('.by-time').click();
const places = rows.map(row => [Number(getComputedStyle(row).order), box(row).top]);
parent.document.body.innerHTML = '<pre id="measured">' + JSON.stringify({
  width: innerWidth,
  page: document.documentElement.scrollWidth,
  right: Math.max(...cells.map(cell => box(cell).right)),
  tallest: Math.max(...heights),
  spilled: spilled.length,
  sorted: places.every(([a, y]) => places.every(([b, z]) => a >= b || y < z)),
}) + '</pre>';
</script>"""
"""What stands where; the page itself has no script, and forbids them."""


def browser(folder: Path, *arguments: str) -> str:
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'browser'}"]
    run = subprocess.run([*command, *arguments], check=True, capture_output=True, timeout=HANGS, text=True)
    return run.stdout


@pytest.mark.sampled
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
@pytest.mark.parametrize("width, scheme", [(400, "light"), (768, "dark"), (1280, "light"), (1700, "dark")])
def test_the_page_in_a_browser(profiled: Profile, tmp_path: Path, width: int, scheme: str) -> None:
    text = re.sub(r"<meta http-equiv=[^>]*>", "", page([profiled])).replace("</body>", MEASURE + "</body>")
    # A frame may be narrower than the windows of a browser.
    frame = f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{html.escape(text)}"></iframe>'
    (tmp_path / "page.html").write_text(f"<!DOCTYPE html><body>{frame}</body>", encoding="utf-8")
    address = (tmp_path / "page.html").as_uri()
    colours = f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"
    output = browser(tmp_path, "--window-size=1800,1000", colours, "--dump-dom", address)
    measured = re.search(r'id="measured">(.*?)</pre>', output)
    assert measured is not None
    found = json.loads(measured[1])
    assert found["width"] == width
    assert found["page"] <= width, "the page scrolls sideways"
    assert found["right"] <= width, "an open row pushes columns out of view"
    assert found["tallest"] < 200
    assert found["spilled"] == 0, "names leave their boxes"
    assert found["sorted"]


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_a_link_from_the_drawing_opens_its_row(profiled: Profile, tmp_path: Path) -> None:
    profiled.save_page(tmp_path / "profile.html")
    address = (tmp_path / "profile.html").as_uri() + "#p0-kernel0"
    picture = tmp_path / "profile.png"
    browser(tmp_path, "--window-size=1200,800", f"--screenshot={picture}", address)
    header = picture.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", header[16:24]) == (1200, 800)
    opened = re.findall(r'<details class="row"[^>]* open', browser(tmp_path, "--dump-dom", address))
    assert len(opened) == 1


# ---- the drawing


@examples(60)
@given(data=st.data())
def test_drawings(data: st.DataObject) -> None:
    boxes = data.draw(st.lists(st.tuples(st.integers(10, 200), st.integers(10, 60)), min_size=1, max_size=12))
    pairs = [(a, b) for b in range(len(boxes)) for a in range(b)]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    drawing = draw(boxes, edges)
    places = [(corner, size) for corner, size in zip(drawing.corners, boxes, strict=True)]
    for number, (corner, (width, height)) in enumerate(places):
        assert -0.01 <= corner.x <= drawing.width - width + 0.01
        assert -0.01 <= corner.y <= drawing.height - height + 0.01
        for other, (w, h) in places[:number]:
            apart_x = corner.x + width <= other.x or other.x + w <= corner.x
            assert apart_x or corner.y + height <= other.y or other.y + h <= corner.y
    for (source, target), path in zip(edges, drawing.paths, strict=True):
        (start, (width, height)), (end, (other_width, _)) = places[source], places[target]
        assert path[0] == pytest.approx((start.x + width / 2, start.y + height))
        assert path[-1] == pytest.approx((end.x + other_width / 2, end.y))
        assert all(a.y <= b.y for a, b in itertools.pairwise(path))


# ---- explain and the command line


def test_explain() -> None:
    program, _ = network()
    text = dml.explain(program)
    titles = ["Graph", "Expressions", "Kernels", "Sequence", "Memory"]
    assert [title for title in titles if f"{title}\n{'-' * len(title)}\n" in text] == titles
    assert "CONVOLUTION of Nodes" in text
    assert "fused multiply-add" in text
    assert dml.explain(program.desc) == text
    assert "LLVM IR" in dml.explain(program.program, llvm=True)
    t = tensor(3)
    add = dml.operators.ElementWiseAdd(a_tensor=t, b_tensor=t, output_tensor=t)
    assert dml.explain(add) == dml.explain(dml.Device().compile(add))
    with pytest.raises(dml.InvalidDescriptorError):
        dml.explain(add.replace(output_tensor=tensor(4)))
    with pytest.raises(dml.ConfigurationError):
        dml.explain(program.program.execution)


def test_what_occurs_often_is_written_once() -> None:
    graph = dml.Graph()
    y = graph.input("float32", [1000], name="x")
    for _ in range(6):
        y = dml.activation_softplus(dml.activation_gelu(y))
    assert len(dml.explain(graph.compile(y))) < 200_000


def test_the_command_line(tmp_path: Path) -> None:
    files = ["--html", tmp_path / "page.html", "--trace", tmp_path / "trace.json"]
    result = invoke("profile", EXAMPLES / "split.json", "-t", 1, *files)
    assert result.exit_code == 0, result.output
    assert "# split_rows\n3 kernels, 1 thread: " in result.stdout
    assert "# split_columns\n2 kernels" in result.stdout
    ids = Page((tmp_path / "page.html").read_text(encoding="utf-8")).ids
    assert {"p0-kernel2", "p1-kernel1"} <= set(ids)
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    missing = invoke("profile", tmp_path / "none.json")
    assert missing.exit_code == 2


def test_serialised_graphs_on_the_command_line(tmp_path: Path) -> None:
    """A graph in a file of its own, and a model that runs one."""
    graph, outputs = built_network()
    dml.save(graph.describe(outputs), tmp_path / "network.bin")
    model: dict[str, Any] = {
        "resources": {},
        "dispatchables": {"net": {"type": "dmlSerializedGraph", "sourcePath": "network.bin"}},
        "commands": [{"type": "dispatch", "dispatchable": "net", "bindings": {}}],
    }
    for name, size in (("x", 4 * 24 * 24), ("pooled", 8 * 12 * 12), ("mean", 8)):
        values = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": size, "value": 0.5}}
        model["resources"][name] = values
        model["commands"][0]["bindings"][name] = name
    (tmp_path / "network.json").write_text(json.dumps(model))
    for file in ("network.bin", "network.json"):
        result = invoke("profile", tmp_path / file, "-t", 1, "--threads", 2)
        assert result.exit_code == 0, result.output
        assert "CONVOLUTION + ACTIVATION_RELU" in result.stdout
        assert "for temporary tensors (" in result.stdout


SAMPLE = SHARED / "dxdispatch" / "dmlSerializedGraph_matmul_add.json"


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the sample model is not here")
@pytest.mark.parametrize("name", [SAMPLE.name, "matmul_add/Partition_0.bin"])
def test_a_graph_of_onnx_runtime_on_the_command_line(name: str, tmp_path: Path) -> None:
    page_file, trace = tmp_path / "page.html", tmp_path / "trace.json"
    files = ["--html", str(page_file), "--trace", str(trace)]
    result = invoke("profile", SAMPLE.parent / name, "-t", 1, *files)
    assert result.exit_code == 0, result.output
    assert "1 kernel, 1 thread: " in result.stdout
    assert re.search(r"\bGEMM\s+model_output_dmlEp_0\b", result.stdout)
    assert "p0-kernel0" in Page(page_file.read_text(encoding="utf-8")).ids
    assert json.loads(trace.read_text())["traceEvents"]
