"""Programs of many kernels: what has to wait for what is found without comparing all pairs, and what is alike is
scheduled and written once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import assert_same_values

import opendml as dml
from opendml import operators as op
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.expression import likeness
from opendml.expression.affine import Region, meet
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.loops import conflicts, sequence
from opendml.programs import binding
from opendml.targets.cpu.code import program_code, written_kernels
from opendml.targets.cpu.code.interface import ENTRY
from opendml.targets.cpu.code.kernel_code import kernel_code
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.target import host_target
from opendml.targets.cpu.tuning import TUNING


def _join(count: int, row: int = 4) -> Operator:
    pieces = [TensorDesc("float32", [1, row])] * count
    return op.Join(input_tensors=pieces, output_tensor=TensorDesc("float32", [count, row]), axis=0)


def _split(count: int, row: int = 4) -> Operator:
    pieces = [TensorDesc("float32", [1, row])] * count
    return op.Split(input_tensor=TensorDesc("float32", [count, row]), output_tensors=pieces, axis=0)


@pytest.mark.parametrize("operator", [_join, _split])
def test_regions_are_compared_with_their_neighbours(
    operator: Callable[[int], Operator], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0

    def counted(a: Region, b: Region) -> bool:
        nonlocal compared
        compared += 1
        return meet(a, b)

    monkeypatch.setattr(conflicts, "meet", counted)
    for count in (64, 128):
        compared = 0
        code = generate(operator(count).define(), host_target(), in_place=False)
        assert len(code.kernels) == count
        assert compared <= 2 * count
        assert "@barrier_wait(ptr %barrier" not in code.modules[0]


def test_regions_meet_as_boxes_do() -> None:
    """The answer is that of comparing all pairs."""
    generator = np.random.default_rng(3)
    for _ in range(20):
        rank = int(generator.integers(0, 4))
        regions = conflicts.Regions(rank)
        known: list[Region] = []
        for _ in range(30):
            low, extent = generator.integers(0, 12, rank), generator.integers(0, 3, rank)
            region = tuple((int(a), int(a + b)) for a, b in zip(low, extent, strict=True))
            assert any(regions.met_by(region)) == any(meet(region, other) for other in known)
            regions.add(region)
            known.append(region)


@pytest.mark.parametrize("operator", [_join, _split])
def test_pieces_alike_are_scheduled_and_written_once(
    operator: Callable[[int], Operator], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0

    def counted(*arguments: Any) -> Any:
        nonlocal written
        written += 1
        return kernel_code(*arguments)

    monkeypatch.setattr(written_kernels, "kernel_code", counted)
    texts = []
    for count in (64, 128):
        written = 0
        texts.append(generate(operator(count).define(), host_target(), in_place=False).modules)
        assert written == 1
    assert len(texts[0]) == len(texts[1]) == 1
    more = len(texts[1][0]) - len(texts[0][0])
    assert 0 < more <= 64 * 24  # two numbers in tables
    assert texts[0][0].count("call void @kernel0") == 1


@pytest.mark.parametrize("count", [TUNING.long_run - 1, TUNING.long_run])
@pytest.mark.parametrize("operator", [_join, _split])
def test_a_kernel_is_the_same_whether_it_is_shared(
    operator: Callable[[int], Operator], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = operator(count).define()
    shared = generate(definition, host_target(), in_place=False)
    describe = likeness.likeness

    def alone(*arguments: Any) -> likeness.Likeness:
        found = describe(*arguments)
        return replace(found, key=(object(), found.key))

    monkeypatch.setattr(sequence, "likeness", alone)
    assert generate(definition, host_target(), in_place=False).modules == shared.modules


@pytest.mark.sampled
@pytest.mark.parametrize(("count", "row", "threads"), [(4096, 3, (1, 2)), (70, 5000, (1, 2, 3)), (65, 40000, (2,))])
def test_joins_and_splits_of_many_pieces(count: int, row: int, threads: Sequence[int]) -> None:
    """Tiny pieces, those that threads take turns with, and those that they share out."""
    whole = np.random.default_rng(5).random((count, row), np.float32)
    pieces = [whole[n : n + 1].copy() for n in range(count)]
    joining, splitting = (dml.Device().compile(operator(count, row)) for operator in (_join, _split))
    for thread_count in threads:
        np.testing.assert_array_equal(joining.with_thread_count(thread_count)(*pieces), whole)
        for actual, expected in zip(splitting.with_thread_count(thread_count)(whole), pieces, strict=True):
            np.testing.assert_array_equal(actual, expected)


def _outputs(graph: dml.Graph, count: int) -> list[dml.GraphTensor]:
    x = graph.input("float32", [16])
    return [dml.activation_relu(x + float(n % 150)) for n in range(count)]


def _parts(graph: dml.Graph, count: int) -> list[dml.GraphTensor]:
    """The same of parts at other places: element by element, transposed, pooled, summed; with tensors in between."""
    x = graph.input("float32", [count + 2, 6, 7])
    found: list[dml.GraphTensor] = []
    for n in range(count):
        part = dml.slice(
            x, input_window_offsets=[n, n % 2, 1], input_window_sizes=[2, 5, 6], input_window_strides=[1, 1, 1]
        )
        found.append(dml.activation_relu(part - 0.5))
        found.append(dml.activation_tanh(part.transpose([2, 0, 1])))
        found.append(dml.reduce(part * part, "SUM", axes=[1, 2]))
        found.append(dml.activation_softmax(part, axes=[2]))
    return found


@pytest.mark.sampled
@pytest.mark.parametrize(("build", "count"), [(_parts, 66), (_outputs, 300)])
def test_graphs_of_many_outputs(build: Callable[[dml.Graph, int], list[dml.GraphTensor]], count: int) -> None:
    """Compiled, for one thread and for more, and interpreted they have the same bits."""
    results = []
    for device in (dml.Device("reference"), dml.Device(thread_count=1), dml.Device(thread_count=3)):
        graph = dml.Graph(device)
        program = graph.compile(build(graph, count))
        desc = program.inputs[0].desc
        assert desc is not None
        results.append(program(np.random.default_rng(8).standard_normal(desc.sizes, np.float32)))
    for expected, *others in zip(*results, strict=True):
        for actual in others:
            np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32))


def _sums(graph: dml.Graph, count: int) -> list[dml.GraphTensor]:
    x = graph.input("float32", [16])
    return [x + float(n) for n in range(count)]


def _code(
    build: Callable[[dml.Graph, int], list[dml.GraphTensor]], count: int, **knobs: int
) -> program_code.ProgramCode:
    graph = dml.Graph()
    joined = join(graph.describe(build(graph, count)))
    return generate(divide_and_fuse(joined).execution, host_target().tuned(**knobs), in_place=False)


def test_statements_that_differ_in_constants_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel for all of them, and those of which there are few keep their constants."""
    written = 0

    def counted(*arguments: Any) -> Any:
        nonlocal written
        written += 1
        return kernel_code(*arguments)

    monkeypatch.setattr(written_kernels, "kernel_code", counted)
    for count in (TUNING.long_run, 2 * TUNING.long_run):
        written = 0
        text = "\n".join(_code(_sums, count).modules)
        assert written == 1
        assert "@constants_f32 = internal constant" in text
    written = 0
    text = "\n".join(_code(_sums, TUNING.long_run - 1).modules)
    assert written == TUNING.long_run - 1
    assert "@constants" not in text


def _scaled_sums(graph: dml.Graph, count: int) -> list[dml.GraphTensor]:
    """Layers of a network that differ in what their results are scaled and moved by."""
    x, w = graph.input("float32", [1, 16, 9, 9]), graph.input("float32", [16, 16, 3, 3])
    found = []
    for n in range(count):
        x = dml.convolution(x, w, start_padding=[1, 1], end_padding=[1, 1]) * (0.01 + n / 7) + n / 3
        found.append(x)
    return found


def test_few_folds_that_differ_in_what_follows_them_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution is a long kernel, and what it is scaled by is read. The bits are those of the interpreter."""
    monkeypatch.setenv("OPENDML_CACHE", "0")
    code = _code(_scaled_sums, 3)
    assert len(code.sequence.constants) == 4  # the first convolution reads another kind of tensor
    apart = _code(_scaled_sums, 3, like_statements=4)
    assert not apart.sequence.constants
    names, names_apart = ({call.kernel.name for call in c.sequence.calls} for c in (code, apart))
    assert len(names_apart) == len(names) + 1
    results = []
    for device in (dml.Device("reference"), dml.Device(thread_count=2)):
        graph = dml.Graph(device)
        program = graph.compile(_scaled_sums(graph, 3))
        random = np.random.default_rng(3)
        results.append(program(*(random.standard_normal(b.desc.sizes, np.float32) for b in program.inputs if b.desc)))
    for expected, actual in zip(*results, strict=True):
        assert_same_values(actual, expected)


def _quantized_activations(graph: dml.Graph, count: int) -> list[dml.GraphTensor]:
    """Long statements without folds: numbers are quantised, a function of these is, and this is a number again."""
    found = []
    for n in range(count):
        x = graph.input("float32", [4, 33])
        for scale, zero_point in ((0.03 + n / 90, 130.0 + n), (0.02 + n / 70, 128.0 - n)):
            quantized = dml.cast(dml.round(x / scale) + zero_point, "uint8")
            x = dml.activation_sigmoid((dml.cast(quantized, "float32") - zero_point) * scale) * 2 - 1
        found.append(x)
    return found


def test_long_statements_that_differ_in_numbers_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers among them are read as integers, so that code knows that quotients are moved by such, and small
    ones by their bits, so that it knows that they are small."""
    monkeypatch.setenv("OPENDML_CACHE", "0")
    code, apart = _code(_quantized_activations, 3), _code(_quantized_activations, 3, long_statement=1000)
    assert [len({call.kernel.name for call in c.sequence.calls}) for c in (code, apart)] == [1, 3]
    assert not apart.sequence.constants
    types = [constant.type.name for constant in code.sequence.constants.values()]
    assert sorted(types) == 6 * ["i16"] + 6 * ["u32"]  # scales by their bits
    narrowed = [text.count("fptoui") + text.count("fptosi") for text in map("".join, (code.modules, apart.modules))]
    assert 3 * narrowed[0] == narrowed[1]  # as many conversions in a kernel as where the numbers are known
    results = []
    for device in (dml.Device("reference"), *(dml.Device(thread_count=n) for n in (1, 2, 7))):
        graph = dml.Graph(device)
        program = graph.compile(_quantized_activations(graph, 3))
        random = np.random.default_rng(4)
        descs = [b.desc for b in program.inputs if b.desc is not None]
        results.append(program(*(random.normal(0, 4, desc.sizes).astype(np.float32) for desc in descs)))
    for expected, *others in zip(*results, strict=True):
        for actual in others:
            assert_same_values(actual, expected)


NUMBERS: dict[str, list[Any]] = {
    "float32": [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, 1e-45, -1e-39, 3.4e38, 0.1, 2.0**-126],
    "float16": [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, 6e-8, -3e-5, 65504.0, 0.1],
    "int32": [0, 1, -1, 2, -(2**31), 2**31 - 1, 31, 32, 33, 7],
    "uint8": [0, 1, 255, 2, 128, 7, 8, 9],
    "uint64": [0, 1, 2**64 - 1, 2**63, 64, 63, 10],
    "int64": [0, 1, -1, 2**63 - 1, -(2**63), 64, 3],
}


@pytest.mark.parametrize("data_type", NUMBERS)
def test_constants_that_are_read_are_what_they_were(data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they are and whatever is done with them: the interpreter has the constants themselves."""
    monkeypatch.setenv("OPENDML_CACHE", "0")
    dtype, given = np.dtype(data_type), NUMBERS[data_type]
    is_float = dtype.kind == "f"
    steps: list[Any] = [
        lambda x, c: x + c,
        lambda x, c: c - x,
        lambda x, c: x * c * c,
        lambda x, c: dml.max(x, c) + 1,
        lambda x, c: dml.if_(dml.greater_than(x, c), c, x),
        dml.divide,
    ]
    if is_float:
        steps.append(lambda x, c: dml.reduce(x * c, "SUM", axes=[1]))
    else:
        steps.append(dml.modulus_truncate)
    if dtype.kind == "u":
        steps.append(dml.bit_shift_left)
    values = np.resize(np.array(given, dtype), (3, 23))

    def results(device: dml.Device) -> Any:
        graph = dml.Graph(device)
        x = graph.input(data_type, [3, 23])
        return graph.compile([step(x, graph.constant(np.full([1, 1], c, dtype))) for step in steps for c in given])(
            values
        )

    for found, expected in zip(
        results(dml.Device(tuning=replace(TUNING, long_run=2))), results(dml.Device("reference")), strict=True
    ):
        assert_same_values(found, expected)


def _distances(text: str) -> list[int]:
    """For each pointer that the entry loads, in how many lines it is used last."""
    lines = text[text.index(f"define void @{ENTRY}(") :].splitlines()
    loaded = {
        found[1]: number for number, line in enumerate(lines) if (found := re.match(r"  (%\w+) = load ptr,", line))
    }
    last = {name: number for number, line in enumerate(lines) for name in re.findall(r"%\w+", line) if name in loaded}
    return [last[name] - number for name, number in loaded.items()]


def _shapes(graph: dml.Graph, count: int) -> list[dml.GraphTensor]:
    return [dml.activation_relu(dml.activation_tanh(graph.input("float32", [n + 2]))) for n in range(count)]


def test_pointers_of_many_tensors_are_loaded_where_they_are_used() -> None:
    assert max(_distances(_code(_shapes, 80).modules[0])) > 80
    assert max(_distances(_code(_shapes, 80, many_pointers=100).modules[0])) < 10


def test_programs_whose_pointers_are_loaded_where_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENDML_CACHE", "0")
    generator = np.random.default_rng(4)
    for build, count in ((_shapes, 5), (_parts, 3)):
        compiled = []
        for device in (dml.Device("reference"), dml.Device(thread_count=2, tuning=replace(TUNING, many_pointers=0))):
            graph = dml.Graph(device)
            compiled.append(device.compile_graph(graph.describe(build(graph, count)), fusion=False))
        sizes = [binding.desc.sizes for binding in compiled[0].inputs if binding.desc is not None]
        arrays = [generator.standard_normal(size, np.float32) for size in sizes]
        for found, expected in zip(*(each(*arrays) for each in compiled), strict=True):
            assert_same_values(found, expected)


def test_many_arrays_are_compared_with_those_near_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that overlap are found, and named, as among few."""
    compared = 0
    overlap = binding._overlap

    def counted(a: Any, b: Any) -> bool:
        nonlocal compared
        compared += 1
        return overlap(a, b)

    monkeypatch.setattr(binding, "_overlap", counted)
    count = 128
    splitting = dml.Device().compile(_split(count))
    whole, memory = np.zeros((count, 4), np.float32), np.zeros((2 * count, 4), np.float32)
    rows = [memory[n : n + 1] for n in range(2 * count)]
    splitting.bind([whole], rows[:count])
    assert compared == 0
    for outputs, names in (
        ([*rows[: count - 1], rows[5]], r"OutputTensors\[127\] .*OutputTensors\[5\]"),
        ([rows[9], *rows[: count - 1]], r"OutputTensors\[10\] .*OutputTensors\[0\]"),
    ):
        with pytest.raises(dml.BindingError, match=names):
            splitting.bind([whole], outputs)
    with pytest.raises(dml.BindingError, match=r"OutputTensors\[0\] .*InputTensor"):
        splitting.bind([memory[3 : count + 3]], [rows[count + 2], *rows[count + 3 : 2 * count], *rows[:2]])
