"""UNFOLD and FOLD: against plain loops, each other, PyTorch and ONNX's reference."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from execution import Array, assert_identical, inputs, outputs, random_array, run_single, seeds
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import opendml as dml
from opendml import operators
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate

bounded = examples(25)
float_types = st.sampled_from(["FLOAT32", "FLOAT16"])


@dataclass(frozen=True)
class Blocks:
    """An image and the blocks of a window over it."""

    sizes: tuple[int, ...]
    window_sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the descriptors."""
        names = ("window_sizes", "strides", "dilations", "start_padding", "end_padding")
        return {name: getattr(self, name) for name in names}

    @property
    def counts(self) -> tuple[int, ...]:
        """Blocks along each dimension."""
        arrays = (self.window_sizes, self.strides, self.dilations, self.start_padding, self.end_padding)
        return tuple(
            (n + b + e - d * (w - 1) - 1) // s + 1 for n, w, s, d, b, e in zip(self.sizes[2:], *arrays, strict=True)
        )

    @property
    def columns(self) -> tuple[int, int, int]:
        """The sizes of the columns."""
        return self.sizes[0], self.sizes[1] * math.prod(self.window_sizes), math.prod(self.counts)

    def pairs(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Element of the window, block and place in the image, all counted in row-major order, where that exists."""
        taps = itertools.product(*map(range, self.window_sizes))
        for number, tap in enumerate(taps):
            for column, block in enumerate(itertools.product(*map(range, self.counts))):
                ways = zip(tap, block, self.strides, self.dilations, self.start_padding, strict=True)
                place = tuple(b * s + k * d - p for k, b, s, d, p in ways)
                if all(0 <= p < n for p, n in zip(place, self.sizes[2:], strict=True)):
                    yield number, column, place

    @staticmethod
    def at(place: Sequence[int]) -> tuple[Any, ...]:
        """A place of all channels of all images."""
        return (slice(None), slice(None), *place)

    def unfolded(self, x: Array) -> Array:
        """UNFOLD by its formula."""
        result = np.zeros(self.columns, x.dtype)
        window = math.prod(self.window_sizes)
        for tap, block, place in self.pairs():
            result[:, tap::window, block] = x[self.at(place)]
        return result

    def folded(self, x: Array, type: Any) -> Array:
        """FOLD by its formula, in the order of the window's elements."""
        result = np.zeros(self.sizes, type)
        window = math.prod(self.window_sizes)
        for tap, block, place in self.pairs():
            result[self.at(place)] += x[:, tap::window, block].astype(type)
        return result


@st.composite
def blocks(draw: st.DrawFn) -> Blocks:
    """All ranks; windows beyond the image, wide paddings, strides past everything."""
    sizes, room = [draw(st.integers(1, 2)), draw(st.integers(1, 2))], 60
    rest: list[tuple[int, ...]] = []
    for _ in range(draw(st.sampled_from((1, 1, 2, 2, 2, 3, 4, 6)))):
        size = min(draw(st.sampled_from((1, 2, 3, 5, 8, 19, 33))), room)
        room //= size
        taps = draw(st.integers(1, 3 if len(rest) < 2 else 2))
        dilation, stride = draw(st.sampled_from((1, 1, 2, 3, 4))), draw(st.sampled_from((1, 1, 2, 3, 4, 6, 2**31)))
        start, end = draw(st.integers(0, 4)), draw(st.integers(0, 4))
        start, end = (start, end) if len(rest) < 2 else (start // 3, end // 3)
        end = max(end, (taps - 1) * dilation + 1 - size - start)
        sizes.append(size)
        rest.append((taps, stride, dilation, start, end))
    return Blocks(tuple(sizes), *zip(*rest, strict=True))


@bounded
@given(data=st.data(), drawn=blocks(), data_type=float_types, seed=seeds)
def test_unfold(data: st.DataObject, drawn: Blocks, data_type: str, seed: int) -> None:
    source, target = data.draw(inputs(data_type, drawn.sizes)), data.draw(outputs(data_type, drawn.columns))
    desc = operators.Unfold(input_tensor=source, output_tensor=target, **drawn.fields)
    x = random_array(source, seed)
    assert_identical(run_single(desc, x), drawn.unfolded(x))


@bounded
@given(data=st.data(), drawn=blocks(), data_type=float_types, seed=seeds)
def test_fold(data: st.DataObject, drawn: Blocks, data_type: str, seed: int) -> None:
    """Terms are added in float32 in the order of the window, so that the sums are known bit for bit."""
    source, target = data.draw(inputs(data_type, drawn.columns)), data.draw(outputs(data_type, drawn.sizes))
    desc = operators.Fold(input_tensor=source, output_tensor=target, **drawn.fields)
    x = random_array(source, seed, special=False)
    assert_identical(run_single(desc, x), drawn.folded(x, np.float32).astype(x.dtype))


@pytest.mark.sampled
@pytest.mark.parametrize("stride", [1, 2, 3, 8, 40])
@pytest.mark.parametrize(("window", "dilation", "start"), [(3, 1, 1), (7, 1, 6), (2, 3, 2), (5, 4, 9), (6, 6, 0)])
def test_rows_of_all_strides(stride: int, window: int, dilation: int, start: int) -> None:
    """Long rows: steps of strides in vectors, carries at every place, remainders, elements that are in no block."""
    drawn = Blocks((1, 2, 5, 67), (1, window), (2, stride), (1, dilation), (0, start), (0, 2))
    x = np.random.default_rng(window).normal(size=drawn.sizes).astype(np.float32)
    y = np.random.default_rng(stride).normal(size=drawn.columns).astype(np.float32)
    image, columns = TensorDesc("FLOAT32", drawn.sizes), TensorDesc("FLOAT32", drawn.columns)
    unfold = operators.Unfold(input_tensor=image, output_tensor=columns, **drawn.fields)
    fold = operators.Fold(input_tensor=columns, output_tensor=image, **drawn.fields)
    assert_identical(run_single(unfold, x), drawn.unfolded(x))
    assert_identical(run_single(fold, y), drawn.folded(y, np.float32))


def test_fold_is_the_transposed_unfold() -> None:
    """For all images and columns the products of one with the other are the same: sums of exact integers."""
    random = np.random.default_rng(0)
    window: dict[str, Any] = {"window_sizes": [3, 2], "strides": [2, 1], "dilations": [1, 2], "start_padding": [2, 0]}
    x = random.integers(-9, 9, (2, 3, 7, 6)).astype(np.float32)
    columns = dml.unfold(x, **window)
    y = random.integers(-9, 9, columns.shape).astype(np.float32)
    assert (columns * y).sum() == (x * dml.fold(y, output_sizes=x.shape, **window)).sum()


def test_what_is_no_number_stays_where_it_is() -> None:
    """Padding and elements in no block are zeros, whatever is beside them; sums begin with +0."""
    x = np.array([[[np.nan, -0.0, np.inf]]], np.float32)
    columns = dml.unfold(x, window_sizes=[2], strides=[2], start_padding=[1])
    assert_identical(columns, np.array([[[0, -0.0], [np.nan, np.inf]]], np.float32))
    image = dml.fold(columns, output_sizes=[1, 1, 5], window_sizes=[2], strides=[3])
    assert_identical(image, np.array([[[0, np.nan, 0, 0, np.inf]]], np.float32))


def test_huge_paddings_and_strides() -> None:
    """Blocks that are mostly padding: no more work than there are elements, and places that 64 bits hold."""
    most = 2**32 - 1
    window: dict[str, Any] = {"strides": [most - 1], "start_padding": [most], "end_padding": [most]}
    x = np.array([[[1, 2, 3, 4]]], np.float32)
    # Blocks begin 4294967295 elements before the image, 1 before it and so far behind it.
    columns = dml.unfold(x, window_sizes=[3], dilations=[2], **window)
    assert columns.tolist() == [[[0, 0, 0], [0, 2, 0], [0, 4, 0]]]
    image = dml.fold(columns, output_sizes=[1, 1, 4], window_sizes=[3], dilations=[2], **window)
    assert image.tolist() == [[[0, 2, 0, 4]]]


@pytest.mark.parametrize(
    ("size", "stride", "dilation", "padding"), [(3, 1, 1, 1), (3, 2, 1, 0), (2, 2, 1, 0), (3, 3, 2, 2), (4, 6, 3, 3)]
)
def test_against_pytorch(size: int, stride: int, dilation: int, padding: int) -> None:
    """PyTorch adds in the same order: the same bits."""
    torch = pytest.importorskip("torch")
    window = {"kernel_size": size, "stride": stride, "dilation": dilation, "padding": padding}
    same = {"window_sizes": size, "strides": stride, "dilations": dilation}
    same |= {"start_padding": padding, "end_padding": padding}
    fields: dict[str, Any] = {name: [value] * 2 for name, value in same.items()}
    x = torch.randn(2, 3, 12, 17)
    columns = torch.nn.functional.unfold(x, **window)
    assert_identical(dml.unfold(x.numpy(), **fields), columns.numpy())
    y = torch.randn(columns.shape)
    expected = torch.nn.functional.fold(y, (12, 17), **window)
    assert_identical(dml.fold(y.numpy(), output_sizes=x.shape, **fields), expected.numpy())


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_against_onnx(dimensions: int) -> None:
    pytest.importorskip("onnx")
    from onnx.reference.ops.op_col2im import Col2Im

    sizes, window = (5, 4, 3)[:dimensions], (3, 2, 2)[:dimensions]
    strides, dilations = (1, 2, 1)[:dimensions], (2, 1, 1)[:dimensions]
    start, end = (1, 0, 1)[:dimensions], (2, 1, 0)[:dimensions]
    drawn = Blocks((2, 3, *sizes), window, strides, dilations, start, end)
    x = np.random.default_rng(0).integers(-9, 9, drawn.columns).astype(np.float32)
    arrays: Sequence[Any] = (np.array(sizes, np.int64), np.array(window, np.int64))
    expected = Col2Im.eval(x, *arrays, dilations=dilations, pads=(*start, *end), strides=strides, n_outputs=1)
    np.testing.assert_array_equal(dml.fold(x, output_sizes=drawn.sizes, **drawn.fields), expected)


def test_rules() -> None:
    image, columns = TensorDesc("FLOAT32", [1, 2, 5, 6]), TensorDesc("FLOAT32", [1, 8, 20])
    window: dict[str, Any] = {"window_sizes": [2, 2], "strides": [1, 1], "dilations": [1, 1]}
    padding: dict[str, Any] = {"start_padding": [0, 0], "end_padding": [0, 0]}
    valid = operators.Unfold(input_tensor=image, output_tensor=columns, **window, **padding)
    assert validate(valid) == []
    assert valid.dimension_count == 2
    broken = valid.replace(
        output_tensor=TensorDesc("FLOAT16", [2, 9, 21]), strides=[1, 0], window_sizes=[7, 2], dilations=[1, 1]
    )
    assert [violation.field for violation in validate(broken)] == [
        "OutputTensor",
        "Strides[1]",
        "OutputTensor.Sizes[0]",
        "OutputTensor.Sizes[1]",
        "WindowSizes[0]",
    ]
    fold = operators.Fold(input_tensor=TensorDesc("FLOAT32", [1, 1, 8, 20]), output_tensor=image, **window, **padding)
    assert [str(violation) for violation in validate(fold)][:1] == [
        "InputTensor.DimensionCount: must be 3: {N, C * product(WindowSizes), blocks}, got 4"
    ]
    assert [str(v) for v in validate(valid.replace(output_tensor=TensorDesc("FLOAT32", [1, 8, 30])))] == [
        "OutputTensor.Sizes[2]: must be 4 * 5 blocks = 20, by (InputTensor.Sizes[i + 2] + StartPadding[i] + "
        "EndPadding[i] - Dilations[i] * (WindowSizes[i] - 1) - 1) / Strides[i] + 1 along each dimension i, got 30"
    ]
