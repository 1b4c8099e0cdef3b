"""Sums of products of bytes in the tile registers of AMX: nests run here, whatever this processor is, and code where it
has them."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from byte_networks import PADDED, Build, grouped, layer
from execution import Array, assert_same_values, guarded_buffer, guarded_memory, run_operator
from nest_running import MANY_THREADS, check_nests, contents_of
from test_refine_words import convolution, product, random

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.expression.affine import Element, bytes_between, loads_of
from opendml.expression.element_types import I32
from opendml.expression.integer_folding import dot
from opendml.expression.interpreter import interpret
from opendml.expression.statements import Definition
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.llvm.host import LEVELS, Machine, host_machine, machine_of
from opendml.llvm.native import assembly
from opendml.llvm.tile_permission import may_use_tiles
from opendml.loops.nest import Nest, Points, Prefetch, SumInTiles, nodes_of
from opendml.loops.nest_printer import format_nest
from opendml.targets.cpu.instructions.machine import machine_instructions
from opendml.targets.cpu.instructions.tiles import TILE_PRODUCTS
from opendml.targets.cpu.limits import loop_of_tiles
from opendml.targets.cpu.processor import Processor
from opendml.targets.cpu.refine.channel_runs import channel_runs
from opendml.targets.cpu.refine.refining import refined_definition, refining

FEATURES = tuple(sorted({*LEVELS["avx512"].features, "avx512vnni", "amx-int8"}))
MACHINE = Machine("x86_64-unknown-linux-gnu", "sapphirerapids", "", FEATURES, 64, 32)
AMX = Processor(host_machine() if host_machine().has("amx-int8") else MACHINE, MANY_THREADS)
"""This processor if it has tile registers, or else one that has."""


def windows(channels: int, filters: int, size: int, window: int, stride: int = 1, batch: int = 1) -> Operator:
    """A convolution of low images that is quantized again, with a scale and a zero point for each filter."""
    margin, one = [window // 2] * 2, TensorDesc("FLOAT32", [1])
    height, width = ((length + 2 * margin[0] - window) // stride + 1 for length in (3, size))
    return operators.QuantizedLinearConvolution(
        input_tensor=TensorDesc("UINT8", [batch, channels, 3, size]),
        input_scale_tensor=one,
        input_zero_point_tensor=TensorDesc("UINT8", [1]),
        filter_tensor=TensorDesc("INT8", [filters, channels, window, window]),
        filter_scale_tensor=TensorDesc("FLOAT32", [filters]),
        filter_zero_point_tensor=TensorDesc("INT8", [filters]),
        output_scale_tensor=one,
        output_tensor=TensorDesc("UINT8", [batch, filters, height, width]),
        strides=[stride] * 2,
        dilations=[1, 1],
        start_padding=margin,
        end_padding=margin,
        group_count=1,
    )


def matrices(a: str, b: str, rows: int, inner: int, columns: int) -> Operator:
    return operators.MatrixMultiplyInteger(
        a_tensor=TensorDesc(a, [rows, inner]),
        b_tensor=TensorDesc(b, [inner, columns]),
        output_tensor=TensorDesc("INT32", [rows, columns]),
    )


IN_TILES = [
    *(matrices(a, b, 35, 64, 50) for a in ("UINT8", "INT8") for b in ("UINT8", "INT8")),
    matrices("UINT8", "INT8", 7, 128, 64),
    matrices("UINT8", "INT8", 16, 40, 16),
    product(("UINT8", "INT8"), (True, True), 48, batch=2),
    windows(64, 17, 18, 3),
    windows(64, 33, 9, 1),
    windows(32, 16, 7, 3, batch=2),
    convolution(("INT8", "INT8"), (True, True), 32),
    matrices("UINT8", "INT8", 35, 64, 300),
    matrices("UINT8", "INT8", 33, 100, 128),
]
"""Rows, columns and words that do not fill tiles, and such as do; images narrower than a tile."""

OTHERS = [matrices("UINT8", "INT8", 40, 8, 40), windows(16, 16, 16, 3, stride=2), windows(3, 16, 16, 3)]
"""Few words in a sum, or places that are no run of memory."""


def nests_of(desc: Operator, target: Processor = AMX) -> list[Nest]:
    return list(target.generate(refined_definition(desc, target), in_place=False).nests)


def sums_of(nests: list[Nest]) -> list[SumInTiles]:
    return [node for nest in nests for node in nodes_of(nest.body) if isinstance(node, SumInTiles)]


@pytest.mark.parametrize("number", range(len(IN_TILES)))
def test_sums_in_tiles_are_the_sums(number: int) -> None:
    """Interpreted everywhere; compiled where the processor is this one."""
    definition = refined_definition(IN_TILES[number], AMX)
    assert sums_of(nests_of(IN_TILES[number]))
    check_nests(definition, AMX, contents_of(definition, number), (1, 0, 2))


@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_other_sums_stay(number: int) -> None:
    definition = refined_definition(OTHERS[number], AMX)
    assert not sums_of(nests_of(OTHERS[number]))
    check_nests(definition, AMX, contents_of(definition, number), (0,))


@pytest.mark.parametrize(
    ("a", "inner", "columns", "is_copied"),
    [
        ("UINT8", 64, 300, False),
        ("UINT8", 100, 128, False),
        ("UINT8", 98, 128, True),
        ("INT8", 100, 128, True),
        ("UINT8", 64, 50, True),
    ],
)
def test_rows_whose_bytes_are_words_are_read_where_they_lie(a: str, inner: int, columns: int, is_copied: bool) -> None:
    """Where they are unsigned, and the columns lie in panels; nothing behind the last row is touched."""
    desc = matrices(a, "INT8", 35, inner, columns)
    definition = refined_definition(desc, AMX)
    assert ("ATensor_words" in {tensor.name for tensor in definition.temporaries}) == is_copied
    left, right = random(TensorDesc(a, [35, inner]), 1), random(TensorDesc("INT8", [inner, columns]), 2)
    assert left is not None and right is not None
    (found,) = run_operator(desc, [left, None, right, None])
    np.testing.assert_array_equal(found, left.astype(np.int32) @ right.astype(np.int32))


def test_columns_are_read_from_panels_where_that_costs_less() -> None:
    """Of strips as wide as two tiles, which each thread packs for itself."""
    desc, cheap = matrices("UINT8", "INT8", 18, 64, 104), replace(MANY_THREADS, packing=0)
    definition = refined_definition(desc, AMX)
    for tuning, name in ((MANY_THREADS, "BTensor_words"), (cheap, "panel")):
        target = replace(AMX, knobs=tuning)
        assert {node.by_columns.tensor.name for node in sums_of(nests_of(desc, target))} == {name}
        check_nests(definition, target, contents_of(definition, 4), (1, 0))


def test_words_of_rows_lie_next_to_each_other() -> None:
    """Of a convolution's weights, so that a tile has the channels of a tap in a row."""
    for node in sums_of(nests_of(IN_TILES[7])):
        assert isinstance(node.by_rows, Element)
        assert node.by_rows.address.coefficient(node.step) == 1
        assert node.by_columns.address.coefficient(node.column) == 1
        assert node.depth == 16 and node.operation == "tiles of signed rows"


def test_weights_that_are_fixed_are_packed_once() -> None:
    weights = np.random.default_rng(0).integers(-128, 128, (16, 16, 3, 3), np.int8)
    graph = dml.Graph()
    x = graph.input("uint8", [1, 16, 3, 20])
    one = np.float32(1)
    y = dml.quantized_linear_convolution(x, one, None, weights, one, None, None, one, start_padding=[1, 1])
    parts = divide_and_fuse(join(graph.describe(y), refining(AMX)), costs=AMX.costs)
    assert parts.initialisation is not None
    names = [t.name for t in parts.initialisation.outputs if t is not None]
    assert any(name.endswith("FilterTensor_words") for name in names)
    check_nests(parts.execution, AMX, contents_of(parts.execution, 1), (0, 1))


def bottleneck(graph: dml.Graph, x: Any) -> Any:
    """Points, windows, points: of 32 channels, and of 64."""
    return layer(layer(layer(x, 32, 64), 64, 64, 3, 3, **PADDED), 64, 32, zero=3)


def narrowing(graph: dml.Graph, x: Any) -> Any:
    """Every second point, and numbers of channels that do not fill tiles."""
    first = layer(layer(x, 32, 80), 80, 48, 3, 3, strides=[2, 2], **PADDED)
    return layer(layer(first, 48, 64, 1, 3, strides=[2, 2]), 64, 33, zero=3)


def summed(graph: dml.Graph, x: Any) -> Any:
    first = layer(x, 32, 64)
    return layer(dml.max(first, layer(first, 64, 64, 3, 3, **PADDED)), 64, 64)


def alone(graph: dml.Graph, x: Any) -> Any:
    """Words of an input, and sums that are stored along the rows of an image."""
    return layer(x, 32, 48, 3, **PADDED)


def residual(graph: dml.Graph, x: Any) -> Any:
    """Sums with numbers of another layer, dequantized: enough to be made of each for a loop."""
    first, half = layer(x, 32, 64), np.float32(0.5)
    second = layer(layer(first, 64, 32, 3, 3, **PADDED), 32, 64, zero=3)
    both = (dml.dequantize_linear(one, half, zero) for one, zero in ((first, np.uint8(2)), (second, np.uint8(3))))
    return layer(dml.quantize_linear(dml.add(*both), half, np.uint8(1)), 64, 64)


USUAL = (32, 9, 11)

IN_NETWORKS = [
    (bottleneck, 2, USUAL),
    (narrowing, 3, USUAL),
    (summed, 2, USUAL),
    (alone, 1, USUAL),
    (grouped, 1, USUAL),
    (bottleneck, 2, (32, 7, 7)),
    (bottleneck, 1, (32, 5, 4)),
    (bottleneck, 1, (32, 2, 6)),
    (summed, 2, (32, 7, 3)),
    (residual, 2, (32, 7, 7)),
    (residual, 2, (32, 9, 14)),
]
"""Networks of convolutions between which channels lie side by side, how many of these are in tiles at least, and the
channels, rows and columns of their input."""


def execution_of(build: Build, batch: int, sizes: Sequence[int]) -> Definition:
    graph = dml.Graph()
    desc = graph.describe(build(graph, graph.input("uint8", [batch, *sizes])))
    return divide_and_fuse(join(desc, refining(AMX)), costs=AMX.costs).execution


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("build", "count", "sizes"), IN_NETWORKS)
def test_points_of_images_are_rows(build: Build, count: int, sizes: Sequence[int], batch: int) -> None:
    """Of words that lie as they were stored, or in a copy where they are next to each other, too."""
    execution = execution_of(build, batch, sizes)
    made, _ = channel_runs(execution, AMX)
    sums = sums_of(list(AMX.generate(execution, in_place=False).nests))
    assert {node.operation for node in sums} == {"tiles of unsigned rows"} and len(sums) >= count
    check_nests(made, AMX, contents_of(made, 2), (1, 0))


def definition_of(number: int, target: Processor) -> Definition:
    """What runs of an operator, or of a network."""
    if number < len(IN_TILES):
        return refined_definition(IN_TILES[number], target)
    build, _, sizes = IN_NETWORKS[number - len(IN_TILES)]
    return channel_runs(execution_of(build, 2, sizes), target)[0]


@pytest.mark.parametrize(("height", "width", "rows"), [(7, 7, 2), (5, 4, 3), (2, 6, 2), (7, 14, 1)])
def test_short_rows_of_images_go_on_in_a_tile_register(height: int, width: int, rows: int) -> None:
    """With the margins between them: what these give is stored nowhere."""
    execution = execution_of(bottleneck, 1, (32, height, width))
    windows = [node for node in sums_of(list(AMX.generate(execution, in_place=False).nests)) if len(node.axes) > 1]
    (steps,) = {1 if node.beside is None else node.beside.step for node in windows if node.axes[0].size == 3}
    assert steps == rows
    for node in windows:
        assert all(count <= 16 for count in node.rows)


def test_rows_of_a_tile_register_are_near_one_another() -> None:
    """Rows of an image, not of several: each of these would be on a page of its own."""

    def wide(_: dml.Graph, x: Any) -> Any:
        return layer(layer(layer(x, 32, 512), 512, 64, 3, 3, **PADDED), 64, 32)

    sums = sums_of(list(AMX.generate(execution_of(wide, 8, (32, 7, 7)), in_place=False).nests))
    (windows,) = (node for node in sums if node.axes[0].size == 3)
    assert all(bytes_between(e, windows.row) <= 4096 for e in loads_of(windows.by_rows))
    assert windows.beside is not None and windows.beside.axis.size == windows.row.size == 7


def test_what_is_made_of_many_sums_is_a_loop_over_rows() -> None:
    """Where that is much: of rows that are an even number, so that bytes of two are stored together."""
    written_out = {8, 14, 16}
    for knobs, expected in ((MANY_THREADS, written_out), (replace(MANY_THREADS, long_results=1 << 30), {28, 32})):
        target = replace(AMX, knobs=knobs)
        definition = definition_of(len(IN_TILES) + len(IN_NETWORKS) - 1, target)
        found = set[int]()
        for nest in target.generate(definition, in_place=False).nests:
            rows = {node.row for node in sums_of([nest])}
            found |= {n.count for n in nodes_of(nest.body) if isinstance(n, Points) and n.axis in rows}
        assert found & expected, found


def test_next_rows_of_what_is_added_are_asked_for() -> None:
    """Of large tensors, the strips of some rows each a part: together all lines of the next rows, each once."""
    target = replace(AMX, knobs=replace(MANY_THREADS, far_tile_bytes=1))
    definition = definition_of(len(IN_TILES) + len(IN_NETWORKS) - 1, target)
    nests = list(target.generate(definition, in_place=False).nests)
    asking = [nest for nest in nests if any(isinstance(n, Prefetch) for n in nodes_of(nest.body)) and sums_of([nest])]
    assert asking
    for nest in asking:
        (sums,) = sums_of([nest])
        asked = [node for node in nodes_of(nest.body) if isinstance(node, Prefetch)]
        assert len(asked) * 64 * 2 >= sum(sums.rows) * 64 and not any(ask.is_stored for ask in asked)
    check_nests(definition, target, contents_of(definition, 2), (1, 0))


def _listing(desc: Operator, target: Processor) -> Iterator[str]:
    for module in target.generate(refined_definition(desc, target), in_place=False).modules:
        yield assembly(module, target.machine)


def test_code_has_the_instructions() -> None:
    """The listing of what is compiled for such a processor: tiles are configured, used and released."""
    listing = "\n".join(_listing(IN_TILES[0], AMX))
    order = [
        listing.index(name) for name in ("ldtilecfg", "tilezero", "tileloadd", "tdpb", "tilestored", "tilerelease")
    ]
    assert order[0] < min(order[1:5]) and max(order[1:5]) < order[5]
    assert listing.count("ldtilecfg") == listing.count("tilerelease") == 1


def test_the_peak_is_measured_in_tiles() -> None:
    """Where there are any: the loop that is measured has four products in a round, and nothing else."""
    listing = assembly(loop_of_tiles(), AMX.machine)
    assert listing.count("tdpbusd") % 4 == 0 < listing.count("tdpbusd")
    assert "tileloadd" not in listing and listing.count("tilerelease") == 1


def test_processors_without_tiles_have_none() -> None:
    plain = Processor(machine_of("x86_64-unknown-linux-gnu", "avx512"), MANY_THREADS)
    assert not any(machine_instructions(plain.machine).find(i.operation, I32) for i in TILE_PRODUCTS)
    for desc in (IN_TILES[0], IN_TILES[7]):
        assert not sums_of(nests_of(desc, plain))


def test_levels_switch_tiles_off() -> None:
    """``OPENDML_CPU_FEATURES=avx512`` says so, since no level has them."""
    assert not any("amx-int8" in level.features for level in LEVELS.values())
    assert not host_machine().has("amx-int8") or may_use_tiles()


def test_nests_say_what_is_in_tiles() -> None:
    (nest,) = (nest for nest in nests_of(IN_TILES[1]) if sums_of([nest]))
    text = format_nest(nest)
    assert "tiles of 16x16, 16x16" in text
    assert "tiles of unsigned rows, sum[w < 16 step 16]" in text


@pytest.mark.parametrize("instruction", TILE_PRODUCTS, ids=lambda i: i.name)
def test_bodies_are_those_of_dot4(instruction: Any) -> None:
    """Extreme words too; the factor of unsigned bytes is the first one of ``dot4``."""
    generator = np.random.default_rng(3)
    a, b, c = (
        generator.integers(-(2**31), 2**31, sizes, np.int64).astype(np.int32) for sizes in ((3, 4), (4, 5), (3, 5))
    )
    a[0, :2], b[:2, 0] = -1, np.int32(-0x7F7F7F80)
    found = instruction.body(a, b, c)
    for m, n in np.ndindex(3, 5):
        pairs = [(int(a[m, k]) & 0xFFFFFFFF, int(b[k, n]) & 0xFFFFFFFF) for k in range(4)]
        terms = [dot(4, *(pair if instruction.name == "tdpbusd" else pair[::-1])) for pair in pairs]
        assert (int(found[m, n]) - int(c[m, n]) - sum(terms)) % 2**32 == 0


class EmulatedTiles:
    """The instructions of tile registers, done with NumPy for code that calls them as functions."""

    def __init__(self) -> None:
        self.tiles: list[Array] = []
        self.calls = Counter[str]()
        self._kept: list[Any] = []

    def ldtilecfg(self, place: int) -> None:
        fields = np.frombuffer(ctypes.string_at(place, 64), np.uint8)
        assert fields[0] == 1 and not fields[1:16].any()
        sizes = zip(fields[48:56].tolist(), fields[16:32].view(np.uint16).tolist(), strict=True)
        self.tiles = [np.zeros((rows, length), np.uint8) for rows, length in sizes]

    def tilerelease(self) -> None:
        self.tiles = []

    def tilezero(self, tile: int) -> None:
        self.tiles[tile][...] = 0

    def tileloadd64(self, tile: int, place: int, stride: int) -> None:
        for number, row in enumerate(self.tiles[tile]):
            row[...] = np.frombuffer(ctypes.string_at(place + number * stride, row.size), np.uint8)

    def tilestored64(self, tile: int, place: int, stride: int) -> None:
        for number, row in enumerate(self.tiles[tile]):
            ctypes.memmove(place + number * stride, row.tobytes(), row.size)

    def tdpbusd(self, total: int, left: int, right: int) -> None:
        self._add(TILE_PRODUCTS[0], total, left, right)

    def tdpbsud(self, total: int, left: int, right: int) -> None:
        self._add(TILE_PRODUCTS[1], total, left, right)

    def _add(self, instruction: Any, *numbers: int) -> None:
        """The rows and words of the three must fit, or the processor refuses."""
        c, a, b = (self.tiles[number].view(np.int32) for number in numbers)
        assert a.shape[1] == b.shape[0] and c.shape == (a.shape[0], b.shape[1])
        c[...] = instruction.body(a, b, c)

    def in_place_of_instructions(self, text: str) -> str:
        """A module that calls this in their place."""
        text = re.sub(r"declare void @llvm\.x86\.(\w*tile\w*|tdp\w+)\(([^)]*)\)", self._defined, text)
        return re.sub(r"@llvm\.x86\.(\w*tile\w*|tdp\w+)\(", r"@emulated_\1(", text)

    def _defined(self, found: re.Match[str]) -> str:
        name, types = found[1], [kind.split()[0] for kind in found[2].split(",") if kind]

        def run(*arguments: int) -> None:
            self.calls[name] += 1
            getattr(self, name)(*arguments)

        function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(types))(run)
        self._kept.append(function)
        address = ctypes.cast(function, ctypes.c_void_p).value
        widened = {"ptr": "ptrtoint ptr {} to i64", "i8": "zext i8 {} to i64", "i64": "add i64 {}, 0"}
        lines = [f"  %w{i} = {widened[kind].format(f'%a{i}')}" for i, kind in enumerate(types)]
        given = ", ".join(f"i64 %w{i}" for i in range(len(types)))
        parameters = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(types))
        body = "\n".join([*lines, f"  %f = inttoptr i64 {address} to ptr", f"  call void %f({given})", "  ret void"])
        return f"define internal void @emulated_{name}({parameters}) {{\n{body}\n}}"


@pytest.mark.skipif(not host_machine().has("avx512bw"), reason="tiles are for processors with AVX-512")
@pytest.mark.parametrize("number", range(len(IN_TILES) + len(IN_NETWORKS)))
def test_code_with_emulated_tiles(number: int) -> None:
    """All but the instructions themselves runs on this processor, between guard pages."""
    features = tuple(sorted({*host_machine().features, "amx-int8"}))
    target = Processor(replace(host_machine(), features=features), MANY_THREADS)
    definition, emulated = definition_of(number, target), EmulatedTiles()
    contents = contents_of(definition, number)
    expected = {tensor: content.copy() for tensor, content in contents.items()}
    interpret(definition, expected)
    with guarded_memory(apart=True):
        code = target.generate(definition, in_place=False)
        objects, _ = target.compile([emulated.in_place_of_instructions(module) for module in code.modules])
        executable = target.load(objects, code.requirements, 1)
        found = {tensor: guarded_buffer(c.size, c.dtype, at_end=True) for tensor, c in contents.items()}
        for tensor, buffer in found.items():
            buffer[...] = contents[tensor]
        executable.run([found[tensor] for tensor in code.slots], [])
    for tensor, buffer in found.items():
        assert_same_values(buffer, expected[tensor])
    assert {"ldtilecfg", "tilezero", "tileloadd64", "tilestored64", "tilerelease"} < set(emulated.calls)


@pytest.mark.skipif(not host_machine().has("amx-int8"), reason="this processor has no tile registers")
def test_this_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of random bytes the results are those without tiles."""
    for desc in IN_TILES[:6]:
        arrays = [random(tensor, seed) for seed, (_, tensor) in enumerate(desc.inputs())]
        found = dml.Device("cpu").compile(desc)(*arrays)
        monkeypatch.setenv("OPENDML_CPU_FEATURES", "avx512")
        expected = dml.Device("cpu").compile(desc)(*arrays)
        monkeypatch.delenv("OPENDML_CPU_FEATURES")
        assert np.array_equal(found, expected)
