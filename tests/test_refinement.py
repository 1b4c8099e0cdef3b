"""Refinement moves bits: what a target makes of a definition is, bit for bit, what the definition says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from execution import Array, assert_same_values, random_array, run_operator, seeds
from hypothesis import given
from properties import examples
from random_descriptors import descriptors, is_drawn
from sample_tensors import f32

import opendml as dml
from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.enums import ConvolutionDirection, ConvolutionMode, MatrixTransform, OperatorType, TensorFlags
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.expression.interpreter import run_interpreted
from opendml.expression.ir import Fold
from opendml.expression.rewriting import walk
from opendml.expression.statements import Compute, Definition
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.llvm.host import machine_of
from opendml.loops.nest_printer import format_nest
from opendml.operators import implemented
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.nests.kernels import kernel_nest
from opendml.targets.cpu.refine.refining import refine, refined_definition, refining
from opendml.targets.cpu.target import CpuTarget
from opendml.targets.cpu.tuning import TUNING

TARGET = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx512"))


def interpreted(definition: Definition, arrays: Sequence[Array | None]) -> list[Any]:
    return run_interpreted(
        definition,
        [
            None if a is None or t is None else a.reshape(t.sizes)
            for a, t in zip(arrays, definition.inputs, strict=True)
        ],
    )


def assert_refined_is_defined(
    desc: Operator, target: CpuTarget = TARGET, seed: int = 0, arrays: Sequence[Array | None] | None = None
) -> Definition:
    """What the target computes of random arrays, or given ones, is what the definition says; returns the former."""
    if arrays is None:
        arrays = [None if t is None else random_array(t, seed + number) for number, (_, t) in enumerate(desc.inputs())]
    definition = desc.define()
    pairs = zip(definition.inputs, desc.inputs(), strict=True)
    owned = [own for own, (_, tensor) in pairs if own is not None and tensor is not None and tensor.is_owned_by_dml]
    refined = refine(definition, target, owned)
    for found, expected in zip(interpreted(refined, arrays), interpreted(definition, arrays), strict=True):
        if expected is not None:
            assert_same_values(found, expected)
    return refined


@examples(200)
@given(data=st.data(), seed=seeds, operator_type=st.sampled_from([o for o in implemented() if is_drawn(o)]))
def test_any_operator(data: st.DataObject, seed: int, operator_type: OperatorType) -> None:
    assert_refined_is_defined(data.draw(descriptors(operator_type)), seed=seed % 1000)


def names_of(definition: Definition) -> list[str]:
    """The tensors that refinement has added, or the definition has."""
    return [tensor.name for tensor in definition.temporaries]


# Matrix products -----------------------------------------------------------------------------------------------------


def product(
    rows: int,
    inner: int,
    columns: int,
    *,
    data_type: str = "FLOAT32",
    owned: bool = False,
    transposed: str = "",
    shared: bool = False,
) -> operators.Gemm:
    """A product of two batches; of the ``transposed`` matrices, and with one right matrix ``shared`` by the batches."""
    a, b = (inner, rows) if "a" in transposed else (rows, inner), (inner, columns)
    b = b[::-1] if "b" in transposed else b
    strides = [0, 0, b[1], 1] if shared else None
    addend = TensorDesc(data_type, [2, 1, rows, columns])
    return operators.Gemm(
        a_tensor=TensorDesc(data_type, [2, 1, *a]),
        b_tensor=TensorDesc(data_type, [2, 1, *b], strides, flags=TensorFlags(owned)),
        c_tensor=addend,
        output_tensor=addend,
        trans_a=MatrixTransform("a" in transposed),
        trans_b=MatrixTransform("b" in transposed),
        alpha=0.5,
        beta=2.0,
    )


@pytest.mark.parametrize(
    ("desc", "names"),
    [
        (product(5, 3, 20), []),
        (product(5, 3, 130, owned=True), ["panels", "panels"]),
        (product(5, 3, 128, owned=True, transposed="b"), ["panels"]),
        (product(4, 3, 20, owned=True, shared=True), ["panels"]),
        (product(3, 3, 130, owned=True), []),
        (product(1, 256, 1024, owned=True), ["panels"]),  # a mebibyte comes from far away
        (product(1, 256, 1023, owned=True), []),
        (product(1, 256, 1024, data_type="FLOAT16", owned=True), ["packed_ATensor"]),
        (product(1, 512, 1024, data_type="FLOAT16", owned=True), ["packed_ATensor", "panels"]),
        (product(1, 256, 1024, owned=True, transposed="b"), ["streams"]),
        (product(1, 256, 1020, owned=True, transposed="b"), []),
        (product(1, 512, 1024, data_type="FLOAT16", owned=True, transposed="b"), ["packed_ATensor", "streams"]),
        (product(5, 3, 128, transposed="a"), []),
        (product(1024, 3, 128, transposed="a"), ["packed_ATensor"]),  # steps are whole pages apart
        (product(5, 3, 6, data_type="FLOAT16", owned=True), ["packed_ATensor", "panels"]),
        (product(5, 20, 3), ["packed_BTensor"]),
        (product(5, 20, 3, transposed="b"), []),
        (product(3, 20, 5, data_type="FLOAT16", transposed="b"), ["packed_ATensor"]),
    ],
)
def test_matrices_are_copied_where_it_is_worth_it(desc: operators.Gemm, names: list[str]) -> None:
    assert not desc.define().temporaries
    assert names_of(assert_refined_is_defined(desc)) == names


@pytest.mark.parametrize("transposed", ["a", "ab"])
def test_columns_in_few_places_of_a_cache_are_copied_where_there_are_few_registers(transposed: str) -> None:
    """Steps that are a kibibyte apart, or a multiple of it, of which tiles read less than a line."""
    few, many = (CpuTarget(machine_of("x86_64-unknown-linux-gnu", level)) for level in ("avx2", "avx512"))
    for rows, of_few in ((256, ["packed_ATensor"]), (512, ["packed_ATensor"]), (264, [])):
        desc = product(rows, 20, 128, transposed=transposed)
        for target, names in ((few, of_few), (many, [])):
            assert names_of(assert_refined_is_defined(desc, target)) == names


@pytest.mark.parametrize(("inner", "gap"), [(512, 16), (1024, 16), (500, 0)])
def test_rows_of_copies_do_not_fall_into_the_same_places_of_a_cache(inner: int, gap: int) -> None:
    """Those that are half a page long, or whole ones, have a line between them."""
    (copy,) = assert_refined_is_defined(product(5, inner, 128, data_type="FLOAT16", transposed="a")).temporaries
    assert copy.sizes[-1] == inner + gap


def test_an_operator_alone_makes_no_panels() -> None:
    """Its weights are bound when it runs, OWNED_BY_DML or not, and a copy each time would cost more than it saves."""
    assert not refined_definition(product(5, 3, 128, owned=True), TARGET).temporaries


@pytest.mark.parametrize(
    ("rows", "columns", "widths"),
    [
        (6, 192, [64]),  # too few rows for tiles as wide as panels
        (7, 96, [48]),
        (7, 128, [32]),
        (7, 400, [48, 16]),
        (7, 100, [32, 4]),
    ],
)
def test_panels_are_as_wide_as_tiles(rows: int, columns: int, widths: list[int]) -> None:
    """Three registers of AVX-512, or two where columns would be left over and there are few."""
    definition = product(rows, 3, columns, owned=True).define()
    _, weights, _ = definition.inputs
    assert weights is not None
    found = refine(definition, TARGET, (weights,))
    assert [tensor.sizes[-1] for tensor in found.temporaries] == widths


@pytest.mark.parametrize(("rows", "inner", "bits"), [(1, 512, 16), (23, 512, 16), (24, 512, 32), (23, 511, 32)])
def test_panels_that_are_far_and_read_for_few_rows_keep_their_type(rows: int, inner: int, bits: int) -> None:
    definition = product(rows, inner, 1024, data_type="FLOAT16", owned=True).define()
    _, weights, _ = definition.inputs
    assert weights is not None
    found = refine(definition, TARGET, (weights,))
    panels = [tensor for tensor in found.temporaries if tensor.name.endswith("panels")]
    assert {tensor.type.bits for tensor in panels} == {bits}


def test_panels_are_widened_where_the_processor_has_no_instruction_for_that() -> None:
    machine = machine_of("x86_64-unknown-linux-gnu", "baseline")
    assert not machine.converts_float16
    definition = product(1, 512, 1024, data_type="FLOAT16", owned=True).define()
    _, weights, _ = definition.inputs
    assert weights is not None
    found = refine(definition, CpuTarget(machine), (weights,))
    assert [tensor.type.bits for tensor in found.temporaries if tensor.name.endswith("panels")] == [32]


@pytest.mark.parametrize("rows", [1, 3, 5, 23, 24])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_products_of_narrow_panels_have_the_bits_of_the_definition(rows: int, threads: int) -> None:
    random = np.random.default_rng(rows)
    weights = random.normal(size=(1, 1, 96, 200)).astype(np.float16)
    x = random.normal(size=(1, 1, rows, 96)).astype(np.float16)

    def product(device: dml.Device) -> Array:
        graph = dml.Graph(device)
        given = graph.input("float16", x.shape, name="x")
        found: Array = graph.compile({"y": dml.gemm(given, weights)})(x=x)["y"]
        return found

    tuning = replace(TUNING, few_rows_panel_bytes=1 << 10, prefetched_bytes=1 << 10)
    found = product(dml.Device("cpu", thread_count=threads, tuning=tuning))
    assert_same_values(found, product(dml.Device("reference")))


@pytest.mark.parametrize(("data_type", "is_asked_for"), [("float16", True), ("float32", False)])
def test_runs_that_one_row_widens_are_asked_for_ahead(data_type: str, is_asked_for: bool) -> None:
    """And those of float32, which keep memory busy as they are, and what stays in a cache, are not."""
    graph = dml.Graph()
    x = graph.input(data_type, [1, 1, 1, 512])
    product = dml.gemm(x, graph.constant(np.ones((1, 1, 512, 1024), data_type)))
    definition = divide_and_fuse(join(graph.describe(product), refining(TARGET)), costs=TARGET.costs).execution
    for limit, is_far in ((1 << 20, True), (1 << 22, False)):
        target = TARGET.tuned(prefetched_bytes=limit)
        code = generate(definition, target, in_place=False)
        nests = [format_nest(kernel_nest(kernel, target, ())) for kernel in code.kernels]
        asked = [line for nest in nests for line in nest.splitlines() if line.startswith("prefetch")]
        expected = f"panels {TUNING.summed_prefetch_distance} bytes ahead"
        assert [line.endswith(expected) for line in asked] == [True] * (is_asked_for and is_far)


@pytest.mark.parametrize("columns", [1024, 1])
def test_rows_that_sums_go_through_one_after_the_other_are_asked_for_ahead(columns: int) -> None:
    """Where they come from far, and there is a next row."""
    desc = operators.Gemm(
        a_tensor=f32(1, 1, 1, 512),
        b_tensor=f32(1, 1, columns, 512),
        output_tensor=f32(1, 1, 1, columns),
        trans_a=MatrixTransform.NONE,
        trans_b=MatrixTransform.TRANSPOSE,
        alpha=1.0,
        beta=0.0,
    )
    for limit in (1 << 11, 1 << 22):
        target = TARGET.tuned(prefetched_bytes=limit)
        (kernel,) = generate(refine(desc.define(), target), target, in_place=False).kernels
        is_asked_for = columns > 1 and limit < columns * 512 * 4
        expected = f"prefetch BTensor {TUNING.row_prefetch_distance} bytes ahead, reducing k < 512"
        assert (expected in format_nest(kernel_nest(kernel, target, ())).splitlines()) == is_asked_for
    random = np.random.default_rng(0)
    arrays = [random.random(tensor.sizes, np.float32) for tensor in (desc.a_tensor, desc.b_tensor)]
    run_operator(desc, [*arrays, None], tuning=replace(TUNING, prefetched_bytes=1 << 11))


def test_panels_are_made_once() -> None:
    """Weights of a graph are laid out when it is initialised."""
    graph = dml.Graph()
    x = graph.input("float32", [1, 1, 5, 100])
    graph_desc = graph.describe(dml.gemm(x, graph.constant(np.ones((1, 1, 100, 70), np.float32))))
    parts = divide_and_fuse(join(graph_desc, refining(TARGET)), costs=TARGET.costs)
    assert parts.initialisation is not None
    assert [t.name.rpartition(".")[2] for t in parts.initialisation.outputs if t is not None] == ["panels", "panels"]
    assert not any(tensor.name.endswith("panels") for tensor in parts.execution.temporaries)


# Convolutions --------------------------------------------------------------------------------------------------------


def convolution(
    sizes: list[int],
    filters: list[int],
    *,
    data_type: str = "FLOAT32",
    is_transposed: bool = False,
    groups: int = 1,
    stride: int = 1,
    dilation: int = 1,
    padding: int = 0,
    extra: int = 0,
    turned: bool = False,
    **changes: Any,
) -> operators.Convolution:
    """A convolution of two or more spatial dimensions with a bias."""
    counts = list[int]()
    for size, taps in zip(sizes[2:], filters[2:], strict=True):
        span = (taps - 1) * dilation + 1
        reached = (size - 1) * stride + span - 2 * padding
        counts.append((reached if is_transposed else (size + 2 * padding - span) // stride + 1) + extra)
    spatial, channels = len(counts), filters[1] * groups if is_transposed else filters[0]
    fields: dict[str, Any] = {
        "input_tensor": TensorDesc(data_type, sizes),
        "filter_tensor": TensorDesc(data_type, filters),
        "bias_tensor": TensorDesc(data_type, [1, channels, *[1] * spatial]),
        "output_tensor": TensorDesc(data_type, [sizes[0], channels, *counts]),
        "mode": ConvolutionMode.CONVOLUTION if turned else ConvolutionMode.CROSS_CORRELATION,
        "direction": ConvolutionDirection.BACKWARD if is_transposed else ConvolutionDirection.FORWARD,
        "strides": [stride] * spatial,
        "dilations": [dilation] * spatial,
        "start_padding": [padding] * spatial,
        "end_padding": [padding] * spatial,
        "output_padding": [extra] * spatial,
        "group_count": groups,
    }
    return operators.Convolution(**(fields | changes))


PADDED, PANELS, COLUMNS = "padded_input", "filter_panels", "columns"
PHASES = "OutputTensor_by_phases"
SOURCE, WEIGHTS = "packed_InputTensor", "packed_FilterTensor"


@pytest.mark.parametrize(
    ("desc", "names"),
    [
        (convolution([1, 2, 6, 7], [3, 2, 3, 3]), []),
        (convolution([1, 2, 6, 7], [3, 2, 3, 3], padding=1, turned=True), [PADDED]),
        (convolution([2, 4, 6, 7], [6, 2, 3, 2], groups=2, padding=1, stride=2, dilation=2, extra=1), [PADDED]),
        (convolution([1, 2, 6, 7], [3, 2, 3, 3], data_type="FLOAT16"), [SOURCE, WEIGHTS]),
        (convolution([1, 2, 6, 7], [3, 2, 3, 3], data_type="FLOAT16", padding=2), [PADDED, WEIGHTS]),
        (convolution([1, 3, 6, 7], [3, 1, 3, 3], groups=3, padding=1), []),
        (convolution([1, 3, 6, 7], [3, 1, 3, 3], groups=3, padding=3), [PADDED]),
        (convolution([2, 2, 9, 14], [70, 2, 3, 3], padding=1, turned=True), [PADDED, *[PANELS] * 2]),
        (convolution([2, 4, 10, 14], [32, 2, 3, 3], groups=2, data_type="FLOAT16"), [SOURCE, PANELS]),
        (convolution([1, 2, 5, 6], [64, 2, 3, 3], padding=1, turned=True), [COLUMNS]),
        (convolution([1, 4, 5, 6], [130, 2, 2, 3], groups=2, dilation=2, data_type="FLOAT16"), [COLUMNS, WEIGHTS]),
        (convolution([2, 3, 9, 9], [64, 3, 1, 1], stride=2), [COLUMNS]),
        (convolution([1, 2, 3, 4, 5], [3, 2, 2, 2, 3], padding=1), [PADDED]),
        (convolution([1, 2, 9], [3, 2, 4], padding=1, stride=3), [PADDED]),
        (convolution([1, 4, 3, 4], [4, 2, 3, 3], is_transposed=True), [PADDED]),
        (
            convolution([2, 4, 3, 4], [4, 2, 3, 2], is_transposed=True, groups=2, stride=2, turned=True),
            [PADDED, PHASES],
        ),
        (
            convolution([1, 2, 4, 4], [2, 3, 2, 2], is_transposed=True, stride=2, data_type="FLOAT16"),
            [SOURCE, WEIGHTS, PHASES],
        ),
        (
            convolution([1, 2, 4, 5], [2, 3, 3, 2], is_transposed=True, stride=3, dilation=2, padding=1),
            [PADDED, PHASES],
        ),
        (convolution([1, 2, 4, 5], [2, 3, 3, 2], is_transposed=True, stride=2, dilation=2, extra=1), [PADDED, PHASES]),
        (convolution([1, 2, 3, 3], [2, 1, 2, 2], is_transposed=True, stride=9), []),
        (convolution([1, 3, 6, 7], [3, 1, 3, 3], is_transposed=True, groups=3, padding=1), []),
        (convolution([2, 3, 6, 7], [3, 1, 3, 3], is_transposed=True, groups=3, stride=2, turned=True), []),
        (convolution([2, 3, 6, 20], [3, 1, 3, 4], is_transposed=True, groups=3, data_type="FLOAT16"), [WEIGHTS]),
        (convolution([1, 3, 6, 7], [3, 1, 2, 2], is_transposed=True, groups=3, stride=3, extra=2), [PADDED]),
        (convolution([1, 3, 6, 7], [3, 1, 9, 9], is_transposed=True, groups=3), [PADDED]),
        (convolution([2, 3, 9, 14], [3, 70, 3, 3], is_transposed=True), [PADDED, PANELS, PANELS]),
        (convolution([1, 3, 9, 7], [3, 16, 2, 2], is_transposed=True, stride=2), [PANELS, PHASES]),
        (convolution([2, 3, 9, 7], [3, 17, 4, 2], is_transposed=True, stride=2, turned=True), [PADDED, PANELS, PHASES]),
        (convolution([2, 3, 2, 3, 5], [3, 80, 3, 3, 3], is_transposed=True, stride=3), [PANELS, PANELS, PHASES]),
        (
            convolution([2, 3, 3, 5], [3, 80, 3, 3], is_transposed=True, stride=3, data_type="FLOAT16"),
            [SOURCE, PANELS, PANELS, PHASES],
        ),
        (
            convolution([1, 3, 9, 7], [3, 16, 3, 3], is_transposed=True, stride=2, extra=1),
            [PADDED, *[PANELS] * 4, PHASES],
        ),
        (
            convolution([1, 3, 9, 7], [3, 16, 4, 4], is_transposed=True, stride=2, padding=1),
            [PADDED, *[PANELS] * 4, PHASES],
        ),
        (convolution([1, 3, 9, 7], [3, 16, 2, 2], is_transposed=True, stride=2, padding=1), [*[PANELS] * 4, PHASES]),
        (convolution([1, 4, 9, 7], [4, 16, 2, 2], is_transposed=True, stride=2, groups=2), [*[PANELS] * 4, PHASES]),
    ],
)
def test_convolutions_read_copies_where_it_is_worth_it(desc: operators.Convolution, names: list[str]) -> None:
    assert not validate(desc)
    assert not desc.define().temporaries
    assert names_of(assert_refined_is_defined(desc)) == names


@pytest.mark.parametrize(
    ("desc", "sizes"),
    [
        (convolution([2, 16, 4, 7], [4, 16, 3, 3], padding=1), (2, 6, 16, 9)),
        (convolution([2, 32, 4, 7], [6, 16, 3, 3], padding=1, groups=2), (2, 6, 32, 9)),
        (convolution([2, 32, 4, 7], [8, 8, 3, 3], padding=1, groups=4), (2, 32, 6, 9)),
        (convolution([2, 6, 4, 7], [6, 1, 3, 3], padding=3, groups=6), (2, 6, 10, 13)),
        (convolution([2, 16, 4, 7], [16, 4, 3, 3], is_transposed=True), (2, 8, 16, 11)),
        (convolution([2, 6, 4, 7], [6, 4, 3, 3], is_transposed=True), (2, 6, 8, 11)),
        (convolution([1, 16, 3, 4, 5], [3, 16, 2, 2, 3], padding=1), (1, 5, 6, 16, 7)),
        (convolution([1, 16, 9], [3, 16, 4], padding=1), (1, 16, 11)),
    ],
)
def test_padded_copies_have_the_rows_of_many_channels_of_a_sum_side_by_side(
    desc: operators.Convolution, sizes: tuple[int, ...]
) -> None:
    (copy,) = (t for t in assert_refined_is_defined(desc).temporaries if t.name == PADDED)
    assert copy.sizes == sizes


def test_each_phase_of_a_transposed_convolution_is_a_statement() -> None:
    desc = convolution([1, 2, 4, 5], [2, 3, 3, 3], is_transposed=True, stride=2)
    assert len(desc.define().statements) == 1
    refined = assert_refined_is_defined(desc)
    # The padded copy, phases without a question, and their columns side by side, the last one by itself.
    assert len(refined.statements) == 1 + 4 + 2
    stores = [s.stores[0] for s in refined.statements if isinstance(s, Compute)]
    assert len(stores) == len(refined.statements)
    folds = [e for store in stores for e in walk(store.value) if isinstance(e, Fold)]
    assert len(folds) == 4 and all(fold.where is None for fold in folds)


@pytest.mark.parametrize(("extra", "groups", "counts"), [(1, 4, [4]), (0, 4, [1, 1, 1, 1]), (1, 2, [1, 1, 1, 1, 1, 1])])
def test_phases_of_single_channels_are_one_statement_where_they_are_as_large(
    extra: int, groups: int, counts: list[int]
) -> None:
    """Sums of several channels are stored apart, phase by phase, and these side by side."""
    desc = convolution(
        [1, 4, 5, 6], [4, 4 // groups, 3, 3], is_transposed=True, groups=groups, stride=2, padding=1, extra=extra
    )
    refined = assert_refined_is_defined(desc)
    found = [len(s.stores) for s in refined.statements if isinstance(s, Compute)]
    assert found[-len(counts) :] == counts


@pytest.mark.parametrize("zero_points", [(False, False), (True, False), (True, True)])
def test_padding_of_bytes_is_their_zero_point(zero_points: tuple[bool, bool]) -> None:
    ones: dict[str, Any] = {name: [1, 1] for name in ("strides", "dilations", "start_padding", "end_padding")}
    desc = operators.ConvolutionInteger(
        input_tensor=TensorDesc("UINT8", [2, 4, 3, 5]),
        input_zero_point_tensor=TensorDesc("UINT8", [1, 1, 1, 1]) if zero_points[0] else None,
        filter_tensor=TensorDesc("INT8", [6, 2, 3, 2]),
        filter_zero_point_tensor=TensorDesc("INT8", [1, 6, 1, 1]) if zero_points[1] else None,
        output_tensor=TensorDesc("INT32", [2, 6, 3, 6]),
        group_count=2,
        **ones,
    )
    assert not validate(desc) and len(desc.define().statements) == 1
    assert names_of(assert_refined_is_defined(desc)) == [PADDED]


def refined_filter(desc: operators.Convolution, target: CpuTarget = TARGET) -> Definition:
    """What a convolution of a fixed filter is refined to."""
    definition = desc.define()
    weights = definition.inputs[1]
    return refine(definition, target, () if weights is None else (weights,))


def panels_of(desc: operators.Convolution, target: CpuTarget = TARGET) -> tuple[list[str], list[int]]:
    """The tensors that refinement adds to a convolution of a fixed filter, and the widths of the panels among them."""
    definition, refined = desc.define(), refined_filter(desc, target)
    arrays = [None if t is None else random_array(t, number) for number, (_, t) in enumerate(desc.inputs())]
    for found, expected in zip(interpreted(refined, arrays), interpreted(definition, arrays), strict=True):
        assert_same_values(found, expected)
    return names_of(refined), [t.sizes[-1] for t in refined.temporaries if t.name == PANELS]


def test_filters_of_short_rows_are_in_panels_if_these_are_made_once() -> None:
    """Of several images: threads fill panels of their own otherwise."""
    few_registers = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "baseline"))
    for batch, panels in ((2, [PANELS]), (1, [])):
        desc = convolution([batch, 16, 7, 7], [32, 16, 3, 3], padding=1)
        assert panels_of(desc, few_registers)[0] == [PADDED, *panels]
        assert names_of(refine(desc.define(), few_registers, ())) == [PADDED]


def test_filters_that_few_windows_or_narrow_rows_share_are_in_narrow_panels() -> None:
    """Registers of channels are beside all windows of an image then, whose rows are not laid out in columns."""
    width = TUNING.streamed_panel
    narrower = CpuTarget(machine_of("x86_64-unknown-linux-gnu", "avx2"))
    for target in (TARGET, narrower):
        desc = convolution([1, 16, 7, 7], [80, 16, 3, 3], padding=1)
        assert panels_of(desc, target) == ([PADDED, PANELS], [width])
    assert panels_of(convolution([1, 32, 14, 14], [2 * width, 32, 1, 1], stride=2)) == ([PANELS], [width])
    assert panels_of(convolution([1, 16, 7, 7], [80 + 1, 16, 3, 3], padding=1)) == (
        [PADDED, PANELS, PANELS],
        [width, 1],
    )
    assert panels_of(convolution([1, 16, 7, 7], [40, 16, 3, 3], padding=1))[1] != [width, 8]
    assert panels_of(convolution([1, 16, 14, 14], [80 + 1, 16, 1, 1], stride=2)) == ([COLUMNS], [])
    assert panels_of(convolution([2, 16, 7, 7], [80, 16, 3, 3], padding=1)) == ([PADDED, PANELS, PANELS], [32, 16])
    for plane in ([9, 9], [3, 40, 9], [4, TUNING.wide_row - 1]):
        desc = convolution([1, 16, *plane], [80, 16, *[3] * len(plane)], padding=1)
        assert panels_of(desc) == ([PADDED, PANELS], [width])
        desc = convolution([1, 16, *plane], [80 + 8, 16, *[3] * len(plane)], padding=1)
        assert panels_of(desc) == ([PADDED, PANELS, PANELS], [width, 8])
    wide = convolution([1, 16, 6, TUNING.wide_row], [80, 16, 3, 3], padding=1)
    assert panels_of(wide) == ([PADDED, PANELS, PANELS], [32, 16])
    assert panels_of(convolution([1, 16, 19, 19], [80, 16, 1, 1], stride=2)) == ([COLUMNS], [])
    assert not refine(convolution([1, 16, 7, 7], [80, 16, 1, 1]).define(), TARGET, ()).temporaries


def test_filters_of_narrow_transposed_rows_are_in_panels_if_these_are_made_once() -> None:
    transposed: dict[str, Any] = {"is_transposed": True, "stride": 2, "padding": 1}
    for size in (4, TUNING.wide_row):
        desc = convolution([1, 8, size, size], [8, 32, 4, 4], **transposed)
        assert panels_of(desc)[1] == [32] * 4
        many = 4 * size**2 >= TUNING.windows_worth_panels and size >= TUNING.wide_row
        assert (PANELS in names_of(refine(desc.define(), TARGET, ()))) == many


@pytest.mark.parametrize(("padding", "dilation"), [(0, 1), (1, 1), (2, 2)])
def test_transposed_windows_of_one_input_have_one_tap_each(padding: int, dilation: int) -> None:
    """Whatever the stride is: others would meet zeros around the input."""
    for sizes, filters in (([2, 6, 1, 1], [6, 20, 4, 4]), ([1, 6, 1, 3], [6, 5, 4, 2]), ([1, 4, 1], [4, 3, 5])):
        desc = convolution(sizes, filters, is_transposed=True, padding=padding, dilation=dilation)
        refined = assert_refined_is_defined(desc)
        panels_of(desc)
        stores = [store for s in refined.statements if isinstance(s, Compute) for store in s.stores]
        folds = {e for store in stores for e in walk(store.value) if isinstance(e, Fold)}
        assert folds and all(fold.axes[1].size == 1 for fold in folds)


@pytest.mark.parametrize("size", [4, 7, 20])
def test_taps_that_meet_nothing_but_padding_are_no_part_of_panels(size: int) -> None:
    """What is left of a filter is laid out, and reads a copy with zeros around it, as a whole one does."""
    desc = convolution([1, 8, size], [16, 8, 31], padding=15)
    (panels,) = (t for t in refined_filter(desc).temporaries if t.name == PANELS)
    assert panels.sizes[-2] == min(2 * size - 1, 31)
    assert panels_of(desc)[0] == [PADDED, PANELS]


def test_vectors_are_of_channels_that_lie_side_by_side() -> None:
    """Not of points that fill vectors, as they would be behind narrow panels, from copies of all channels of them."""

    def by_points(channels: int, size: int) -> TensorDesc:
        return TensorDesc(
            "FLOAT32", [1, channels, size, size], strides=[channels * size**2, 1, channels * size, channels]
        )

    def width(size: int, *, planes: bool) -> list[int]:
        output = TensorDesc("FLOAT32", [1, 48, size, size]) if planes else by_points(48, size)
        tensors: dict[str, Any] = {"input_tensor": by_points(40, size), "output_tensor": output}
        return panels_of(convolution([1, 40, size, size], [48, 40, 1, 1], **tensors))[1]

    assert width(8, planes=True) == [32, 16]
    assert width(7, planes=True) == width(8, planes=False) == [TUNING.streamed_panel]


@pytest.mark.parametrize(("level", "width"), [("avx512", 32), ("avx2", 16)])
def test_panels_of_filters_are_as_wide_as_tiles(level: str, width: int) -> None:
    """Whatever stays in a cache: strips then follow one another in memory."""
    target = CpuTarget(machine_of("x86_64-unknown-linux-gnu", level))
    for channels in (16, 1 + TUNING.vector_side_bytes // (9 * TUNING.panel * 4)):
        desc = convolution([1, channels, 20, TUNING.wide_row], [TUNING.panel, channels, 3, 3], padding=1)
        assert panels_of(desc, target) == ([PADDED, PANELS], [width])


def test_long_sums_of_one_tap_read_a_fixed_filter_in_panels() -> None:
    steps, small = TUNING.fewest_panel_steps, TUNING.small_plane
    for channels, size, panels in ((steps, small + 1, [32]), (steps // 2, small, [32]), (steps // 2, small + 1, [])):
        desc = convolution([1, channels, 1, size], [64, channels, 1, 1])
        assert panels_of(desc) == ([PANELS] * len(panels), panels)
    for batch, size, panels in (
        (1, TUNING.medium_plane + 1, [32]),
        (2, TUNING.medium_plane, [32]),
        (2, TUNING.medium_plane + 1, []),
    ):
        desc = convolution([batch, steps, 1, size], [64, steps, 1, 1])
        assert panels_of(desc) == ([PANELS] * len(panels), panels)
    desc = convolution([1, steps, 40, 40], [64, steps, 1, 1], stride=2)
    assert panels_of(desc) == ([COLUMNS, PANELS], [32])


@pytest.mark.parametrize(
    ("windows", "sizes", "expected"),
    [
        ([1, 6, 1, 1], [96, 6, 1, 1], [(1, 2, 6, 1, 1, 48)]),  # as many panels as there are channels, none left
        ([2, 6, 2, 2], [96, 6, 1, 1], [(1, 2, 6, 1, 1, 48)]),
        ([1, 6, 3, 3], [20, 6, 3, 3], [(1, 1, 6, 3, 3, 20)]),
        ([1, 6, 1, 1], [70, 6, 1, 1], [(1, 1, 6, 1, 1, 64), (1, 1, 6, 1, 1, 6)]),
        ([1, 6, 3, 3], [64, 6, 1, 1], [(1, 4, 6, 1, 1, 16)]),  # nine of them fill a register, panels are narrow
        ([1, 6, 1, 1], [15, 6, 1, 1], []),
    ],
)
def test_filters_of_few_windows_are_in_panels_if_these_are_made_once(
    windows: list[int], sizes: list[int], expected: list[tuple[int, ...]]
) -> None:
    """Vectors are of output channels there."""
    desc = convolution(windows, sizes)
    definition = desc.define()
    weights = definition.inputs[1]
    assert weights is not None
    refined = refine(definition, TARGET, (weights,))
    assert [t.sizes for t in refined.temporaries if t.name == PANELS] == expected
    assert not refine(definition, TARGET).temporaries
    arrays = [None if t is None else random_array(t, number) for number, (_, t) in enumerate(desc.inputs())]
    for found, wanted in zip(interpreted(refined, arrays), interpreted(definition, arrays), strict=True):
        assert_same_values(found, wanted)
