"""Products with weights of 4 bits that are known: few rows read them as they are, with the bits of dequantised ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from execution import assert_same_values
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml.expression.element_types import F32, U8
from opendml.expression.statements import Compute, Definition
from opendml.graph.compilation import divide_and_fuse
from opendml.graph.joining import join
from opendml.targets.cpu.refine.refining import refining
from opendml.targets.cpu.target import host_target
from opendml.targets.cpu.tuning import TUNING

Array = npt.NDArray[Any]
pytestmark = pytest.mark.usefixtures("no_cache")


def product(
    graph: dml.Graph, rows: int, sizes: tuple[int, int], block: int, *, seed: int = 0, **changes: Any
) -> tuple[Any, Array]:
    """x times dequantised weights {K, N}, which lie as {N, K} unless ``lies_turned`` is False."""
    random, (inner, columns) = np.random.default_rng(seed), sizes
    data_type, has_zero_point = changes.get("data_type", "float32"), changes.get("has_zero_point", True)
    lies_turned, signed = changes.get("lies_turned", True), changes.get("signed", False)
    shape = (columns, inner) if lies_turned else (inner, columns)
    counts = (columns, inner // block) if lies_turned else (inner // block, columns)
    packed = graph.constant(random.integers(0, 256, inner * columns // 2, dtype=np.uint8))
    scale = graph.constant((random.random(counts) * 0.1).astype(data_type))
    count = counts[0] * counts[1]
    zero_point = graph.constant(random.integers(0, 256, (count + 1) // 2, dtype=np.uint8)) if has_zero_point else None
    kind = "int4" if signed else "uint4"
    weights: Any = dml.dequantize(packed, scale, zero_point, input_data_type=kind, input_sizes=shape)
    x = random.normal(size=(rows, inner)).astype(data_type)
    given = graph.input(data_type, x.shape, name="x")
    return dml.gemm(given, weights.transpose() if lies_turned else weights), x


def result(device: dml.Device, *arguments: Any, **changes: Any) -> Array:
    graph = dml.Graph(device)
    y, x = product(graph, *arguments, **changes)
    found: Array = graph.compile({"y": y})(x=x)["y"]
    return found


@st.composite
def problems(draw: st.DrawFn) -> tuple[tuple[int, tuple[int, int], int], dict[str, Any]]:
    block = draw(st.sampled_from([16, 32, 64, 48]))
    sizes = (block * draw(st.integers(1, 5)), 2 * draw(st.integers(1, 80)))
    changes = {
        "data_type": draw(st.sampled_from(["float32", "float16"])),
        "has_zero_point": draw(st.booleans()),
        "lies_turned": draw(st.booleans()),
        "signed": draw(st.sampled_from([False, False, True])),
        "seed": draw(st.integers(0, 1 << 20)),
    }
    return (draw(st.integers(1, 10)), sizes, block), changes


@examples(40)
@given(problems(), st.integers(1, 3))
def test_bits(drawn: tuple[tuple[int, tuple[int, int], int], dict[str, Any]], threads: int) -> None:
    arguments, changes = drawn
    found = result(dml.Device("cpu", thread_count=threads), *arguments, **changes)
    assert_same_values(found, result(dml.Device("reference"), *arguments, **changes))


def parts_of(rows: int, sizes: tuple[int, int], block: int = 32, **changes: Any) -> tuple[Definition, Definition]:
    """What runs once, and what runs every time."""
    graph, target = dml.Graph(), host_target()
    y, _ = product(graph, rows, sizes, block, **changes)
    parts = divide_and_fuse(join(graph.describe(y), refining(target)), costs=target.costs)
    assert parts.initialisation is not None
    return parts.initialisation, parts.execution


def types_of(definition: Definition, count: int) -> set[Any]:
    """The types of what has so many elements."""
    tensors = {t for t in (*definition.inputs, *definition.outputs, *definition.temporaries) if t is not None}
    return {t.type for t in tensors if np.prod(t.sizes) == count}


def test_few_rows_read_bits() -> None:
    """Nothing dequantised is kept, and none is made where all that reads it is such a product."""
    sizes = (256, 192)
    once, every_time = parts_of(TUNING.few_bits_rows, sizes)
    assert types_of(every_time, sizes[0] * sizes[1] // 2) == {U8}
    assert F32 not in types_of(once, sizes[0] * sizes[1]) | types_of(every_time, sizes[0] * sizes[1])
    folds = [s for s in every_time.statements if isinstance(s, Compute)]
    assert len(folds) == 1


@pytest.mark.parametrize(
    ("rows", "sizes", "block", "changes"),
    [
        (TUNING.few_bits_rows + 1, (256, 192), 32, {}),
        (1, (8 * 40, 192), 40, {}),
        (1, (256, 192), 32, {"signed": True}),
    ],
    ids=["many rows", "blocks of another length", "signed integers"],
)
def test_others_read_dequantised_weights(
    rows: int, sizes: tuple[int, int], block: int, changes: dict[str, Any]
) -> None:
    _, every_time = parts_of(rows, sizes, block, **changes)
    assert U8 not in types_of(every_time, sizes[0] * sizes[1] // 2)
