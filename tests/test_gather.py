"""GATHER and MAX_UNPOOLING: reading and writing where an index tensor says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from execution import ALL_TYPES, assert_identical, inputs, outputs, random_array, run_single, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from reference import max_unpooling

from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.loops.nest_printer import format_nest
from opendml.targets.cpu.processor import host_processor
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.tuning import TUNING

bounded = examples(50)


@st.composite
def gathers(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], int, int]:
    """Sizes of input, indices and output, the axis and the number of index dimensions, as DirectML aligns them."""
    original, chosen = draw(sizes(1, 4, limit=24)), draw(sizes(1, 3, limit=8))
    index_dimensions = draw(st.integers(0, len(chosen)))
    chosen = chosen[:index_dimensions]
    axis = draw(st.integers(0, len(original) - 1))
    gathered = original[:axis] + chosen + original[axis + 1 :]
    rank = draw(st.integers(max(len(original), len(chosen), len(gathered), 1), 8))
    padded = [[1] * (rank - len(part)) + part for part in (original, chosen, gathered)]
    return padded[0], padded[1], padded[2], axis + rank - len(original), index_dimensions


@bounded
@given(
    data=st.data(),
    shapes=gathers(),
    data_type=st.sampled_from(ALL_TYPES),
    index_type=st.sampled_from(["INT64", "INT32", "UINT64", "UINT32"]),
    seed=seeds,
)
def test_gather(
    data: st.DataObject,
    shapes: tuple[list[int], list[int], list[int], int, int],
    data_type: str,
    index_type: str,
    seed: int,
) -> None:
    input_sizes, index_sizes, output_sizes, axis, index_dimensions = shapes
    source = data.draw(inputs(data_type, input_sizes))
    chosen = data.draw(inputs(index_type, index_sizes))
    x, positions = random_array(source, seed), random_array(chosen, seed + 1)
    desc = operators.Gather(
        input_tensor=source,
        indices_tensor=chosen,
        output_tensor=data.draw(outputs(data_type, output_sizes)),
        axis=axis,
        index_dimensions=index_dimensions,
    )
    size = input_sizes[axis]
    inside = [min(max(p + size if p < 0 else p, 0), size - 1) for p in map(int, positions.ravel())]
    plain = np.array(inside, np.int64).reshape(index_sizes[len(index_sizes) - index_dimensions :])
    assert_identical(run_single(desc, x, positions), np.take(x, plain, axis).reshape(output_sizes))


@pytest.mark.parametrize(
    ("index_type", "positions", "expected"),
    [
        ("INT32", [-1, -3, -4, -(2**31), 3, 2**31 - 1], [30, 10, 10, 10, 30, 30]),
        ("INT64", [-1, -3, -4, -(2**63), 3, 2**63 - 1], [30, 10, 10, 10, 30, 30]),
        ("UINT32", [0, 1, 2, 3, 2**31, 2**32 - 1], [10, 20, 30, 30, 30, 30]),
        ("UINT64", [0, 1, 2, 3, 2**63, 2**64 - 1], [10, 20, 30, 30, 30, 30]),
    ],
)
def test_indices_outside_are_clamped(index_type: str, positions: list[int], expected: list[int]) -> None:
    chosen = TensorDesc(index_type, [6])
    desc = operators.Gather(
        input_tensor=TensorDesc("INT16", [3]),
        indices_tensor=chosen,
        output_tensor=TensorDesc("INT16", [6]),
        axis=0,
        index_dimensions=1,
    )
    x = np.array([10, 20, 30], np.int16)
    assert run_single(desc, x, np.array(positions, chosen.data_type.dtype)).tolist() == expected


@st.composite
def unpoolings(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Sizes of an input and of an output that may be smaller or larger."""
    n, c, h, w = (draw(st.integers(1, 3)) for _ in range(4))
    return [n, c, h, w], [n, c, draw(st.integers(1, 5)), draw(st.integers(1, 5))]


@bounded
@given(
    data=st.data(),
    shapes=unpoolings(),
    data_type=st.sampled_from([name for name in ALL_TYPES if name != "FLOAT64"]),
    index_type=st.sampled_from(["UINT64", "UINT32"]),
    seed=seeds,
)
def test_max_unpooling(
    data: st.DataObject, shapes: tuple[list[int], list[int]], data_type: str, index_type: str, seed: int
) -> None:
    input_sizes, output_sizes = shapes
    source, places = data.draw(inputs(data_type, input_sizes)), TensorDesc(index_type, input_sizes)
    x = random_array(source, seed)
    last = math.prod(output_sizes) + 2
    positions = np.random.default_rng(seed).integers(0, last, input_sizes).astype(places.data_type.dtype)
    positions[positions == last - 1] = np.iinfo(positions.dtype).max
    desc = operators.MaxUnpooling(
        input_tensor=source, indices_tensor=places, output_tensor=data.draw(outputs(data_type, output_sizes))
    )
    assert_identical(run_single(desc, x, positions), max_unpooling(x, positions, output_sizes))


ASKED_FOR = replace(TUNING, serial_work=0, prefetched_bytes=0)


def rows_desc(width: int, count: int, index_type: str = "INT64") -> operators.Gather:
    return operators.Gather(
        input_tensor=TensorDesc("FLOAT32", [50, width]),
        indices_tensor=TensorDesc(index_type, [1, count]),
        output_tensor=TensorDesc("FLOAT32", [count, width]),
        axis=0,
        index_dimensions=1,
    )


@pytest.mark.parametrize("index_type", ["INT64", "UINT32"])
@pytest.mark.parametrize("width", [16, 33, 200])
def test_rows_that_come_next_are_asked_for(width: int, index_type: str) -> None:
    """Which they are is read from the indices alone, behind whose last one nothing is."""
    desc = rows_desc(width, 70, index_type)
    x, positions = random_array(desc.input_tensor, width), random_array(desc.indices_tensor, width)
    positions[0, ::2] = np.arange(35)
    asked = run_single(desc, x, positions, tuning=ASKED_FOR)
    assert_identical(asked, run_single(desc, x, positions))
    nest = asked_nest(desc)
    rows = max(ASKED_FOR.prefetch_distance // (4 * width), 1)
    assert f"prefetch InputTensor@({width}*" in nest
    assert f"min((i + {rows}), 69)" in nest
    assert "prefetch InputTensor 2048" not in nest


def test_long_rows_are_asked_for_as_they_are_read() -> None:
    nest = asked_nest(rows_desc(4096, 70))
    assert "prefetch InputTensor 2048 bytes ahead" in nest
    assert "prefetch InputTensor@" not in nest


def asked_nest(desc: operators.Gather) -> str:
    target = host_processor(tuning=ASKED_FOR)
    code = target.generate(refined_definition(desc, target), in_place=False)
    return "\n".join(map(format_nest, code.nests))
