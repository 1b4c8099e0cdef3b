"""Sums of 8-bit products laid out in words: what runs is what is defined, for every kind of processor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import Array, assert_identical

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.errors import ConfigurationError
from opendml.description.tensor import TensorDesc
from opendml.expression.affine import Affine, Element
from opendml.expression.element_types import I8, I32, U8, U32
from opendml.expression.integer_folding import dot
from opendml.expression.interpreter import run_interpreted
from opendml.expression.ir import WORD_PRODUCTS, Axis, Binary, Expression, Tensor, cast, constant
from opendml.expression.rewriting import walk
from opendml.expression.statements import Statement, writes_of
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.llvm.host import host_machine, machine_of
from opendml.targets.cpu.refine.refining import refine, refined_definition, refining
from opendml.targets.cpu.target import CpuTarget, host_target
from opendml.targets.cpu.words_in_memory import bytes_in_memory, word_in_memory


def target_of(level: str) -> CpuTarget:
    """A processor; ``vnni`` and ``arm`` have what no level has, and need not be this one."""
    if level == "arm":
        machine = machine_of("aarch64-unknown-linux-gnu", "baseline")
        return CpuTarget(replace(machine, features=("dotprod", *machine.features)), host_target().tuning)
    machine = machine_of("x86_64-unknown-linux-gnu", "avx512" if level == "vnni" else level)
    if level == "vnni":
        machine = type(machine)(
            machine.triple, "cascadelake", "", (*machine.features, "avx512vnni"), 64, machine.vector_registers
        )
    return CpuTarget(machine, host_target().tuning)


TYPES = [("UINT8", "INT8"), ("INT8", "UINT8"), ("INT8", "INT8"), ("UINT8", "UINT8")]


def random(desc: TensorDesc | None, seed: int) -> Array | None:
    if desc is None:
        return None
    limits = np.iinfo(desc.data_type.dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, desc.sizes, limits.dtype, endpoint=True)


def product(
    types: tuple[str, str], zero_points: tuple[bool, bool], inner: int, batch: int = 1, columns: int = 33
) -> Operator:
    """Enough rows and columns that packing pays off; B of all batches is the same."""
    (a, b), rows = types, 17
    strides = [0, columns, 1] if batch > 1 else None
    return operators.MatrixMultiplyInteger(
        a_tensor=TensorDesc(a, [batch, rows, inner]),
        a_zero_point_tensor=TensorDesc(a, [1, rows, 1]) if zero_points[0] else None,
        b_tensor=TensorDesc(b, [batch, inner, columns], strides),
        b_zero_point_tensor=TensorDesc(b, [1, 1, columns]) if zero_points[1] else None,
        output_tensor=TensorDesc("INT32", [batch, rows, columns]),
    )


def convolution(types: tuple[str, str], zero_points: tuple[bool, bool], channels: int, groups: int = 1) -> Operator:
    ones: dict[str, Any] = {name: [1, 1] for name in ("strides", "dilations", "start_padding", "end_padding")}
    return operators.ConvolutionInteger(
        input_tensor=TensorDesc(types[0], [2, channels * groups, 6, 7]),
        input_zero_point_tensor=TensorDesc(types[0], [1]) if zero_points[0] else None,
        filter_tensor=TensorDesc(types[1], [18 * groups, channels, 3, 3]),
        filter_zero_point_tensor=TensorDesc(types[1], [18 * groups]) if zero_points[1] else None,
        output_tensor=TensorDesc("INT32", [2, 18 * groups, 6, 7]),
        group_count=groups,
        **ones,
    )


def depthwise(
    types: tuple[str, str],
    zero_points: tuple[bool, bool] = (True, False),
    size: int = 14,
    window: int = 3,
    stride: int = 1,
    outputs: int = 1,
) -> Operator:
    """Each channel by itself, ``outputs`` times; images of two are not the same."""
    pads, places = [window // 2] * 2, (size + 2 * (window // 2) - window) // stride + 1
    return operators.ConvolutionInteger(
        input_tensor=TensorDesc(types[0], [2, 3, size, size]),
        input_zero_point_tensor=TensorDesc(types[0], [1]) if zero_points[0] else None,
        filter_tensor=TensorDesc(types[1], [3 * outputs, 1, window, window]),
        filter_zero_point_tensor=TensorDesc(types[1], [3 * outputs]) if zero_points[1] else None,
        output_tensor=TensorDesc("INT32", [2, 3 * outputs, places, places]),
        group_count=3,
        strides=[stride] * 2,
        dilations=[1, 1],
        start_padding=pads,
        end_padding=pads,
    )


DEPTHWISE = [
    *(depthwise(types, (True, i % 2 == 0), 7 + 9 * i) for i, types in enumerate(TYPES)),
    *(depthwise(types, (False, True), 33, stride=2) for types in TYPES),
    depthwise(TYPES[0], size=7, stride=2),
    depthwise(TYPES[2], size=40, window=4),
    depthwise(TYPES[2], size=19, window=5),
    depthwise(TYPES[3], (True, True), size=35, window=7, stride=2),
    depthwise(TYPES[2], (True, True), size=21, outputs=4),
]
"""Words of neighbours in a row, in which windows overlap: made where they are read, or a copy of them."""


CASES = [
    *(product(types, zero_points, 9) for types in TYPES for zero_points in ((False, False), (True, True))),
    product(TYPES[0], (True, False), 8, batch=2),
    product(TYPES[3], (False, True), 5, batch=2),
    *(convolution(types, (True, i % 2 == 0), 4 + i) for i, types in enumerate(TYPES)),
    convolution(TYPES[0], (True, True), 3, groups=2),
    # Columns in panels, some left beside them; the left matrix in place, or copied for what its rows come to.
    *(product(types, (True, False), 12, columns=128) for types in TYPES),
    product(TYPES[0], (False, True), 12, columns=300),
    product(TYPES[1], (True, False), 12, batch=2, columns=300),
    product(TYPES[2], (True, True), 9, batch=2, columns=300),
]


def operations(desc: Operator, level: str) -> set[str]:
    """The products of words in what is compiled for a processor."""
    return products_of(refined_definition(desc, target_of(level)).statements)


def products_of(statements: Iterable[Statement]) -> set[str]:
    """The products of words in statements."""
    values = [s.value for statement in statements for s in getattr(statement, "stores", ())]
    found = {e.operation for value in values for e in walk(value) if isinstance(e, Binary)}
    return found & set(WORD_PRODUCTS)


def assert_refined_identical(desc: Operator, level: str) -> None:
    """What a target makes of a definition gives its bits."""
    definition = desc.define()
    arrays = [random(tensor, seed) for seed, (_, tensor) in enumerate(desc.inputs())]
    inputs = [
        None if a is None or t is None else a.reshape(t.sizes) for a, t in zip(arrays, definition.inputs, strict=True)
    ]
    (expected,) = run_interpreted(definition, inputs)
    (found,) = run_interpreted(refine(definition, target_of(level)), inputs)
    assert found is not None and expected is not None
    assert_identical(found, expected)


@pytest.mark.parametrize("level", ["vnni", "avx2", "baseline", "arm"])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_packed_sums_are_the_sums(number: int, level: str) -> None:
    """Interpreted, so for processors too that this one is not."""
    desc = CASES[number]
    assert operations(desc, level) == {"avx2": {"dot2"}, "baseline": set()}.get(level, {"dot4"})
    assert_refined_identical(desc, level)


@pytest.mark.parametrize("level", ["vnni", "avx2", "arm"])
@pytest.mark.parametrize("number", range(len(DEPTHWISE)))
def test_words_of_windows(number: int, level: str) -> None:
    """Interpreted, as the others."""
    desc = DEPTHWISE[number]
    assert operations(desc, level) == (set() if level == "avx2" else {"dot4"})
    assert_refined_identical(desc, level)


@pytest.mark.parametrize("number", range(len(DEPTHWISE)))
def test_compiled_words_of_windows(number: int) -> None:
    """By any number of threads, and nothing is read beside the tensors."""
    from execution import run_operator

    desc = DEPTHWISE[number]
    run_operator(desc, [random(tensor, seed) for seed, (_, tensor) in enumerate(desc.inputs())])


def can_run(level: str) -> bool:
    try:
        host_machine(level)
    except ConfigurationError:
        return False
    return True


LEVELS = ("native", "avx512", "avx2,avxvnni", "avx2", "baseline")


@pytest.mark.parametrize("level", [level for level in LEVELS if can_run(level)])
@pytest.mark.parametrize("number", [1, 4, 7, 8, 11, 12, 15, 16, 17, 19, 20, 21])
def test_compiled_for_every_level(number: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from execution import run_operator

    monkeypatch.setenv("OPENDML_CPU_FEATURES", level)
    desc = CASES[number]
    run_operator(desc, [random(tensor, seed) for seed, (_, tensor) in enumerate(desc.inputs())])


def test_weights_are_packed_once() -> None:
    """What depends on constants alone, their words and their sums, is computed when a graph is initialised."""
    weights = np.random.default_rng(0).integers(-128, 128, (40, 33), np.int8)
    graph = dml.Graph()
    x, zero_point = graph.input("uint8", [17, 40], name="x"), graph.input("uint8", [1, 1], name="z")
    described = graph.describe(dml.matrix_multiply_integer(x, zero_point, graph.constant(weights)))
    parts = divide_and_fuse(join(described, refining(target_of("vnni"))), costs=target_of("vnni").costs)
    assert parts.initialisation is not None
    names = {t.name for t in parts.initialisation.outputs if t is not None}
    assert any(name.endswith("_words") for name in names) and any(name.endswith("right_sums") for name in names)
    assert not any(t.name in names for statement in parts.execution.statements for t in writes_of(statement))
    values = np.random.default_rng(1).integers(0, 256, (17, 40), np.uint8)
    program = graph.compile(dml.matrix_multiply_integer(x, zero_point, graph.constant(weights)))
    expected = (values.astype(np.int64) - 9) @ weights.astype(np.int64)
    assert program(x=values, z=np.full((1, 1), 9, np.uint8)).tolist() == expected.tolist()


def packed(desc: Operator) -> set[str]:
    """The tensors that are copied in words."""
    definition = refined_definition(desc, target_of("vnni"))
    return {t.name.removesuffix("Tensor_words") for t in definition.temporaries if t.name.endswith("_words")}


def test_words_that_lie_in_memory_are_read_there() -> None:
    """Where they are whole, of unlike types, and no zero point wants the sums of the rows."""
    plain, zero_point = (True, False), (False, True)
    assert packed(product(TYPES[0], plain, 12, columns=300)) == packed(product(TYPES[1], plain, 12, 2, 128)) == {"B"}
    for other in (
        product(TYPES[0], plain, 12),
        product(TYPES[0], zero_point, 12, columns=300),
        product(TYPES[2], plain, 12, columns=300),
        product(TYPES[0], plain, 9, columns=300),
    ):
        assert packed(other) == {"A", "B"}


BYTE, SIGNED = (Tensor("b", type, (64,), (1,), "input") for type in (U8, I8))
ALONG = Axis("i", 16)


def word(places: list[int], tensor: Tensor = BYTE, shifts: Sequence[int] = (8, 16, 24), step: int = 4) -> Expression:
    first, *parts = (cast(cast(Element(tensor, Affine(((ALONG, step),), n), True), U8), U32) for n in places)
    for part, shift in zip(parts, shifts, strict=True):
        first = first | part << shift
    return first


def test_words_are_known_by_their_bytes() -> None:
    for found in (word_in_memory(word([4, 5, 6, 7])), word_in_memory(cast(word([4, 5, 6, 7], SIGNED), I32))):
        assert found is not None and found.first.address.constant == 4
        assert found.element is not None and found.element.address == Affine(((ALONG, 1),), 1)
    for unaligned in (word([1, 2, 3, 4]), word([0, 1, 2, 3], step=6)):
        found = word_in_memory(unaligned)
        assert found is not None and found.element is None
    for other in (
        word([0, 1, 3, 2]),
        word([0, 1, 2, 2]),
        word([0, 1, 2, 3], shifts=(8, 24, 16)),
        word([0, 1, 2, 3]) + 1,
    ):
        assert word_in_memory(other) is None


def test_words_in_memory_are_one_load() -> None:
    text = str(dml.explain(product(TYPES[0], (False, False), 64, columns=128), llvm=True))
    if "dot4 of" not in text:
        pytest.skip("this processor has no products of four bytes, or does them in tile registers")
    kernel = text[text.index("fastcc void @kernel1") if "fastcc void @kernel1" in text else text.index("@kernel1") :]
    assert "load i32, ptr" in kernel and "load i8, ptr" not in kernel


def test_words_of_fewer_bytes() -> None:
    found = bytes_in_memory(cast(word([4, 5, 6], shifts=(8, 16)), I32))
    assert found is not None and (found.first.address.constant, found.count) == (4, 3)
    assert word_in_memory(word([4, 5, 6], shifts=(8, 16))) is None
    for other in (
        word([4], shifts=()),
        word([4, 6], shifts=(8,)),
        word([4, 5, 6], shifts=(8, 8)),
        word([4, 5, 6, 7, 8], shifts=(8, 16, 24, 32)),
    ):
        assert bytes_in_memory(other) is None


def test_words_of_windows_are_shared_by_rows() -> None:
    """Rows that are computed together have words in common, which are loaded once."""
    text = str(dml.explain(depthwise(TYPES[0], (False, False), 64), llvm=True))
    if "dot4 of" not in text:
        pytest.skip("this processor has no products of four bytes")
    kernel = text[text.rindex("define internal void @kernel") :]
    kernel = kernel[: kernel.index("\n}")]
    loads, products = (len(re.findall(pattern, kernel)) for pattern in (r"load <\d+ x i8>", "dpbusd|udot|usdot|sdot"))
    assert products and loads <= products  # Two for a word and its neighbours: three rows of four would be twice those.
    assert "load i8, ptr" not in kernel


def few_rows(rows: int) -> Operator:
    return operators.MatrixMultiplyInteger(
        a_tensor=TensorDesc("INT8", [rows, 64]),
        b_tensor=TensorDesc("INT8", [64, 64]),
        output_tensor=TensorDesc("INT32", [rows, 64]),
    )


@pytest.mark.parametrize(("level", "size", "in_panels"), [("avx2", 12, True), ("avx2", 6, False), ("vnni", 12, False)])
@pytest.mark.parametrize("types", TYPES)
def test_filters_that_many_windows_read_lie_in_panels(
    types: tuple[str, str], level: str, size: int, in_panels: bool
) -> None:
    """Made whenever they run, where words are copies in any case; their steps go along the words of a tap."""
    desc = operators.ConvolutionInteger(
        input_tensor=TensorDesc(types[0], [2, 10, size, size]),
        input_zero_point_tensor=TensorDesc(types[0], [1]),
        filter_tensor=TensorDesc(types[1], [32, 10, 3, 3]),
        filter_zero_point_tensor=TensorDesc(types[1], [32]),
        output_tensor=TensorDesc("INT32", [2, 32, size, size]),
        group_count=1,
        strides=[1, 1],
        dilations=[1, 1],
        start_padding=[1, 1],
        end_padding=[1, 1],
    )
    made = refined_definition(desc, target_of(level)).temporaries
    (filter,) = (tensor for tensor in made if tensor.name == "FilterTensor_words")
    image = next(tensor for tensor in made if tensor.name.endswith("nput_words"))
    assert (filter.sizes[-1] == 16 and filter.sizes[0] == 2) == in_panels
    assert (image.strides[2] == 1) == in_panels
    assert_refined_identical(desc, level)


def test_what_is_not_worth_it_stays() -> None:
    """Both factors are packed each time: of few rows that is more than the products. Words of two bytes are half
    empty, and those of rows that no other window reads have no use but one."""
    assert operations(few_rows(5), "vnni") == operations(depthwise(TYPES[0], window=2), "vnni") == set()
    assert operations(depthwise(TYPES[0], stride=4), "vnni") == set()
    assert operations(few_rows(6), "vnni") == {"dot4"}
    assert operations(few_rows(6), "avx2") == {"dot2"}


def test_words() -> None:
    """255 * -128 four times, and the product of the lowest numbers of 16 bits twice, which wraps."""
    assert dot(4, 0xFFFFFFFF, 0x80808080) == 4 * 255 * -128
    assert dot(4, 0x01020304, 0x01FF0100) == 1 * 1 + 2 * -1 + 3 * 1
    assert dot(2, 0x80008000, 0x80008000) == 2**31
    folded = Binary("dot2", constant(0x00020003, I32), constant(0x0005FFFF, I32))
    assert dot(2, 0x00020003, 0x0005FFFF) == 7 and folded.type is I32
