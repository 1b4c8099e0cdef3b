"""Slices, splits, joins, padding, tiles and block rearrangement against plain NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from execution import (
    ALL_TYPES,
    assert_identical,
    inputs,
    layouts,
    outputs,
    random_array,
    run_operator,
    run_single,
    seeds,
    sizes,
)
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from reference import space_to_depth, window_selection

from opendml import operators
from opendml.description.enums import DepthSpaceOrder, PaddingMode
from opendml.description.tensor import TensorDesc

bounded = examples(40)
types = st.sampled_from(ALL_TYPES)


@st.composite
def windows(draw: st.DrawFn, signed: bool) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Sizes of a tensor, a window in it (offsets, sizes, strides), and how many elements are taken of it."""
    shape, offsets, extents, strides, counts = draw(sizes()), [], [], [], []
    for size in shape:
        offset = draw(st.integers(0, size - 1))
        extent = draw(st.integers(1, size - offset))
        stride = draw(st.integers(1, 3)) * (draw(st.sampled_from([1, -1])) if signed else 1)
        offsets.append(offset)
        extents.append(extent)
        strides.append(stride)
        counts.append(draw(st.integers(1, 1 + (extent - 1) // abs(stride))))
    return shape, offsets, extents, strides, counts


@bounded
@given(data=st.data(), window=windows(signed=False), data_type=types, seed=seeds)
def test_slice(data: st.DataObject, window: tuple[list[int], ...], data_type: str, seed: int) -> None:
    shape, offsets, extents, strides, counts = window
    source = data.draw(inputs(data_type, shape))
    target = data.draw(outputs(data_type, counts))
    desc = operators.Slice(input_tensor=source, output_tensor=target, offsets=offsets, sizes=counts, strides=strides)
    x = random_array(source, seed)
    assert_identical(run_single(desc, x), x[window_selection(offsets, extents, strides, counts)])


@bounded
@given(data=st.data(), window=windows(signed=True), data_type=types, seed=seeds)
def test_slice1(data: st.DataObject, window: tuple[list[int], ...], data_type: str, seed: int) -> None:
    shape, offsets, extents, strides, counts = window
    source = data.draw(inputs(data_type, shape))
    desc = operators.Slice1(
        input_tensor=source,
        output_tensor=data.draw(outputs(data_type, counts)),
        input_window_offsets=offsets,
        input_window_sizes=extents,
        input_window_strides=strides,
    )
    x = random_array(source, seed)
    assert_identical(run_single(desc, x), x[window_selection(offsets, extents, strides, counts)])


@bounded
@given(data=st.data(), window=windows(signed=True), data_type=types, seed=seeds)
def test_slice_grad(data: st.DataObject, window: tuple[list[int], ...], data_type: str, seed: int) -> None:
    shape, offsets, extents, strides, counts = window
    source = data.draw(inputs(data_type, counts))
    desc = operators.SliceGrad(
        input_gradient_tensor=source,
        output_gradient_tensor=data.draw(outputs(data_type, shape)),
        input_window_offsets=offsets,
        input_window_sizes=extents,
        input_window_strides=strides,
    )
    x = random_array(source, seed)
    expected = np.zeros(shape, x.dtype)
    expected[window_selection(offsets, extents, strides, counts)] = x
    assert_identical(run_single(desc, x), expected)


def test_slice_grad_without_gaps_is_one_statement() -> None:
    desc = operators.SliceGrad(
        input_gradient_tensor=TensorDesc("float32", [2, 3]),
        output_gradient_tensor=TensorDesc("float32", [4, 5]),
        input_window_offsets=[1, 1],
        input_window_sizes=[2, 3],
        input_window_strides=[-1, 1],
    )
    assert len(desc.define().statements) == 1
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = np.zeros((4, 5), np.float32)
    expected[1:3, 1:4] = x[::-1]
    assert_identical(run_single(desc, x), expected)


@st.composite
def pieces(draw: st.DrawFn) -> tuple[list[int], int, list[int]]:
    """Sizes of a whole, an axis, and the sizes on it of the parts that make it up."""
    shape = draw(sizes(limit=40))
    axis = draw(st.integers(0, len(shape) - 1))
    parts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    shape[axis] = sum(parts)
    return shape, axis, parts


@bounded
@given(data=st.data(), cut=pieces(), data_type=types, seed=seeds)
def test_split(data: st.DataObject, cut: tuple[list[int], int, list[int]], data_type: str, seed: int) -> None:
    shape, axis, parts = cut
    source = data.draw(inputs(data_type, shape))
    targets = [data.draw(outputs(data_type, [*shape[:axis], part, *shape[axis + 1 :]])) for part in parts]
    x = random_array(source, seed)
    results = run_operator(operators.Split(input_tensor=source, output_tensors=targets, axis=axis), [x])
    expected = np.split(x, list(itertools.accumulate(parts))[:-1], axis)
    for result, piece in zip(results, expected, strict=True):
        assert_identical(result, piece)


@bounded
@given(data=st.data(), cut=pieces(), data_type=types, seed=seeds)
def test_join(data: st.DataObject, cut: tuple[list[int], int, list[int]], data_type: str, seed: int) -> None:
    shape, axis, parts = cut
    sources = [data.draw(inputs(data_type, [*shape[:axis], part, *shape[axis + 1 :]])) for part in parts]
    arrays = [random_array(source, seed + i) for i, source in enumerate(sources)]
    desc = operators.Join(input_tensors=sources, output_tensor=data.draw(outputs(data_type, shape)), axis=axis)
    (result,) = run_operator(desc, arrays)
    assert_identical(result, np.concatenate(arrays, axis))


NUMPY_MODES = {
    PaddingMode.EDGE: "edge",
    PaddingMode.REFLECTION: "reflect",
    PaddingMode.SYMMETRIC: "symmetric",
    PaddingMode.WRAP: "wrap",
}


@st.composite
def paddings(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    """Sizes of a tensor and paddings, some wider than the tensor."""
    shape, result, total = draw(sizes(limit=12)), [], 1
    for size in shape:
        widest = 9 if total < 40 else 1 if total < 300 else 0
        start, end = draw(st.integers(0, widest)), draw(st.integers(0, widest))
        total *= size + start + end
        result.append((start, end))
    return shape, result


@examples(80)
@given(data=st.data(), padding=paddings(), mode=st.sampled_from(list(NUMPY_MODES)), data_type=types, seed=seeds)
def test_padding_repeats_the_input(
    data: st.DataObject, padding: tuple[list[int], list[tuple[int, int]]], mode: PaddingMode, data_type: str, seed: int
) -> None:
    shape, widths = padding
    source = data.draw(inputs(data_type, shape))
    padded = [size + start + end for size, (start, end) in zip(shape, widths, strict=True)]
    desc = operators.Padding(
        input_tensor=source,
        output_tensor=data.draw(outputs(data_type, padded)),
        padding_mode=mode,
        padding_value=0,
        start_padding=[start for start, _ in widths],
        end_padding=[end for _, end in widths],
    )
    x = random_array(source, seed)
    assert_identical(run_single(desc, x), np.pad(x, widths, mode=NUMPY_MODES[mode]))  # type: ignore[call-overload]


@bounded
@given(data=st.data(), padding=paddings(), data_type=types, value=st.integers(0, 100), seed=seeds)
def test_padding1_with_a_constant(
    data: st.DataObject, padding: tuple[list[int], list[tuple[int, int]]], data_type: str, value: int, seed: int
) -> None:
    shape, widths = padding
    source = data.draw(inputs(data_type, shape))
    padded = [size + start + end for size, (start, end) in zip(shape, widths, strict=True)]
    desc = operators.Padding1(
        input_tensor=source,
        output_tensor=data.draw(outputs(data_type, padded)),
        padding_mode=PaddingMode.CONSTANT,
        padding_value_data_type=data_type,
        padding_value=value,
        start_padding=[start for start, _ in widths],
        end_padding=[end for _, end in widths],
    )
    x = random_array(source, seed)
    assert_identical(run_single(desc, x), np.pad(x, widths, constant_values=value))


@pytest.mark.parametrize(
    ("data_type", "value", "expected"),
    [
        ("INT8", 10.6, 10),
        ("INT8", -10.6, -10),
        ("INT8", 1e30, 127),
        ("UINT16", -1.0, 0),
        ("INT64", float("nan"), 0),
        ("UINT32", float("inf"), 2**32 - 1),
        ("FLOAT16", 2049.0, 2048.0),
        ("FLOAT32", float("-inf"), float("-inf")),
        ("FLOAT64", 0.1, float(np.float32(0.1))),
    ],
)
def test_padding_converts_its_value(data_type: str, value: float, expected: float) -> None:
    desc = operators.Padding(
        input_tensor=TensorDesc(data_type, [1]),
        output_tensor=TensorDesc(data_type, [3]),
        padding_mode=PaddingMode.CONSTANT,
        padding_value=value,
        start_padding=[2],
        end_padding=[0],
    )
    dtype = TensorDesc(data_type, [1]).data_type.dtype
    assert_identical(run_single(desc, np.array([7], dtype)), np.array([expected, expected, 7], dtype))


@pytest.mark.parametrize("mode", NUMPY_MODES)
def test_padding_of_a_single_element_repeats_it(mode: PaddingMode) -> None:
    desc = operators.Padding(
        input_tensor=TensorDesc("uint8", [1, 2]),
        output_tensor=TensorDesc("uint8", [5, 2]),
        padding_mode=mode,
        padding_value=0,
        start_padding=[3, 0],
        end_padding=[1, 0],
    )
    assert_identical(run_single(desc, np.array([[7, 8]], np.uint8)), np.array([[7, 8]] * 5, np.uint8))


@bounded
@given(data=st.data(), shape=sizes(limit=24), data_type=types.filter(lambda name: name != "FLOAT64"), seed=seeds)
def test_tile(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    repeats, total = [], 1
    for _ in shape:
        repeats.append(data.draw(st.integers(1, 3 if total < 12 else 1)))
        total *= repeats[-1]
    source = data.draw(inputs(data_type, shape))
    target = data.draw(outputs(data_type, [n * r for n, r in zip(shape, repeats, strict=True)]))
    x = random_array(source, seed)
    result = run_single(operators.Tile(input_tensor=source, output_tensor=target, repeats=repeats), x)
    assert_identical(result, np.tile(x, repeats))


@bounded
@given(
    data=st.data(),
    shape=st.tuples(*(st.integers(1, 3) for _ in range(4))),
    block=st.integers(1, 3),
    order=st.sampled_from(DepthSpaceOrder),
    data_type=types,
    seed=seeds,
)
def test_space_to_depth_and_back(
    data: st.DataObject, shape: tuple[int, ...], block: int, order: DepthSpaceOrder, data_type: str, seed: int
) -> None:
    n, c, h, w = shape
    space, depth = [n, c, h * block, w * block], [n, c * block**2, h, w]
    source = data.draw(inputs(data_type, space))
    target = data.draw(outputs(data_type, depth))
    x = random_array(source, seed)
    forward = operators.SpaceToDepth1(input_tensor=source, output_tensor=target, block_size=block, order=order)
    y = run_single(forward, x)
    assert_identical(y, space_to_depth(x, block, order == DepthSpaceOrder.DEPTH_COLUMN_ROW))
    backward = operators.DepthToSpace1(
        input_tensor=TensorDesc(data_type, depth, data.draw(layouts(depth, broadcast=False))),
        output_tensor=data.draw(outputs(data_type, space)),
        block_size=block,
        order=order,
    )
    assert_identical(run_single(backward, y), x)


def test_the_first_versions_have_depth_column_row_order() -> None:
    x = np.arange(48, dtype=np.uint32).reshape(1, 3, 4, 4)
    space, depth = TensorDesc("uint32", [1, 3, 4, 4]), TensorDesc("uint32", [1, 12, 2, 2])
    y = run_single(operators.SpaceToDepth(input_tensor=space, output_tensor=depth, block_size=2), x)
    assert_identical(y, space_to_depth(x, 2, depth_first=True))
    assert_identical(run_single(operators.DepthToSpace(input_tensor=depth, output_tensor=space, block_size=2), y), x)
