"""Poolings against plain loops over windows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from execution import (
    INTEGERS,
    Array,
    assert_identical,
    assert_same_values,
    inputs,
    outputs,
    random_array,
    run_operator,
    run_single,
    seeds,
)
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from rounding import assert_within_rounding

from opendml import operators
from opendml.description.errors import ConfigurationError
from opendml.description.tensor import TensorDesc
from opendml.targets.cpu.target import host_target

bounded = examples(25)
types = st.sampled_from(["FLOAT32", "FLOAT16", *INTEGERS])
float_types = st.sampled_from(["FLOAT32", "FLOAT16"])

SLIDES = [(27, 3, 2, 0), (55, 3, 2, 0), (32, 2, 2, 0), (40, 3, 1, 1), (33, 3, 2, 1), (50, 2, 3, 0), (111, 3, 2, 0)]
"""Widths of rows, of windows, strides and paddings: several vectors of a row, and lanes that take no part."""


@dataclass(frozen=True)
class Sliding:
    """A window and the tensors that it slides over."""

    sizes: tuple[int, ...]
    output_sizes: tuple[int, ...]
    window_size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]

    def fields(self, is_dilated: bool = True) -> dict[str, Any]:
        """The fields of the descriptor."""
        names = ["window_size", "strides", "start_padding", "end_padding", *(["dilations"] if is_dilated else [])]
        return {name: getattr(self, name) for name in names}

    def windows(self) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
        """Every output coordinate with the input coordinates of its window that exist, in row-major order."""
        for place in itertools.product(*map(range, self.output_sizes)):
            walks = [
                [o * s + k * d - p for k in range(w)]
                for o, s, w, d, p in zip(
                    place[2:], self.strides, self.window_size, self.dilations, self.start_padding, strict=True
                )
            ]
            inside = [[p for p in walk if 0 <= p < n] for walk, n in zip(walks, self.sizes[2:], strict=True)]
            yield place, [(*place[:2], *rest) for rest in itertools.product(*inside)]


@st.composite
def slidings(draw: st.DrawFn, is_dilated: bool = True) -> Sliding:
    """Windows of all kinds, wholly in the padding too; outputs rounded down or up."""
    sizes = [draw(st.integers(1, 2)), draw(st.integers(1, 3))]
    output_sizes, rest = [*sizes], []
    for _ in range(draw(st.integers(2, 3))):
        size, window, stride = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
        dilation = draw(st.integers(1, 3)) if is_dilated else 1
        start, end = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        span = 1 + (window - 1) * dilation
        end = max(end, span - size - start)
        steps, remainder = divmod(size + start + end - span, stride)
        if remainder and (steps + 1) * stride < size + start:
            steps += draw(st.integers(0, 1))
        sizes.append(size)
        output_sizes.append(steps + 1)
        rest.append((window, stride, dilation, start, end))
    return Sliding(tuple(sizes), tuple(output_sizes), *zip(*rest, strict=True))


def largest(x: Array, sliding: Sliding) -> tuple[Array, Array]:
    """MAX_POOLING2 and its indices, by Python's comparisons."""
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    values = np.full(sliding.output_sizes, lowest, x.dtype)
    positions = np.full(sliding.output_sizes, 2**32 - 1, np.uint64)
    flat = np.arange(x.size, dtype=np.uint64).reshape(x.shape)
    for place, window in sliding.windows():
        best = None
        for source in window:
            if best is None or x[source] > x[best] or (np.isnan(x[source]) and not np.isnan(x[best])):
                best = source
        if best is not None:
            values[place], positions[place] = x[best], flat[best]
    return values, positions


@bounded
@given(
    data=st.data(), sliding=slidings(), data_type=types, index_type=st.sampled_from(["UINT32", "UINT64"]), seed=seeds
)
def test_max_pooling2(data: st.DataObject, sliding: Sliding, data_type: str, index_type: str, seed: int) -> None:
    source = data.draw(inputs(data_type, sliding.sizes))
    desc = operators.MaxPooling2(
        input_tensor=source,
        output_tensor=data.draw(outputs(data_type, sliding.output_sizes)),
        output_indices_tensor=data.draw(outputs(index_type, sliding.output_sizes)),
        **sliding.fields(),
    )
    x = random_array(source, seed)
    values, positions = run_operator(desc, [x])
    expected_values, expected_positions = largest(x, sliding)
    assert_same_values(values, expected_values)
    np.testing.assert_array_equal(positions, expected_positions)
    (values, absent) = run_operator(desc.replace(output_indices_tensor=None), [x])
    assert absent is None
    assert_same_values(values, expected_values)


@pytest.mark.sampled
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("width", "window", "start", "end"), [(200, 41, 40, 40), (150, 60, 0, 70), (33, 3, 1, 1)])
def test_paddings_wider_than_a_vector(width: int, window: int, start: int, end: int, stride: int) -> None:
    outputs = (width + start + end - window) // stride + 1
    sliding = Sliding((1, 1, 2, width), (1, 1, 2, outputs), (1, window), (1, stride), (1, 1), (0, start), (0, end))
    desc = operators.MaxPooling(
        input_tensor=TensorDesc("float32", sliding.sizes),
        output_tensor=TensorDesc("float32", sliding.output_sizes),
        **sliding.fields(False),
    )
    x = random_array(desc.input_tensor, window)
    assert_same_values(run_single(desc, x), largest(x, sliding)[0])


@bounded
@given(data=st.data(), sliding=slidings(is_dilated=False), data_type=types, seed=seeds)
def test_older_max_poolings(data: st.DataObject, sliding: Sliding, data_type: str, seed: int) -> None:
    source = data.draw(inputs(data_type, sliding.sizes))
    tensors: dict[str, Any] = {
        "input_tensor": source,
        "output_tensor": data.draw(outputs(data_type, sliding.output_sizes)),
    }
    x = random_array(source, seed)
    expected, expected_positions = largest(x, sliding)
    assert_same_values(run_single(operators.MaxPooling(**tensors, **sliding.fields(False)), x), expected)
    indices = TensorDesc("uint32", sliding.output_sizes)
    first = operators.MaxPooling1(**tensors, output_indices_tensor=indices, **sliding.fields(False))
    values, positions = run_operator(first, [x])
    assert_same_values(values, expected)
    np.testing.assert_array_equal(positions, expected_positions)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "INT8", "INT64", "UINT8"])
def test_max_pooling_of_lowest_values_gives_the_first_position(data_type: str) -> None:
    sliding = Sliding((1, 2, 3, 4), (1, 2, 3, 4), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    tensor = TensorDesc(data_type, sliding.sizes)
    dtype = tensor.data_type.dtype
    x = np.full(sliding.sizes, -np.inf if dtype.kind == "f" else np.iinfo(dtype).min, dtype)
    desc = operators.MaxPooling2(
        input_tensor=tensor,
        output_tensor=tensor,
        output_indices_tensor=TensorDesc("uint32", sliding.output_sizes),
        **sliding.fields(),
    )
    values, positions = run_operator(desc, [x])
    assert_same_values(values, x)
    np.testing.assert_array_equal(positions, largest(x, sliding)[1])


def test_max_pooling_special_values() -> None:
    tensor = TensorDesc("float32", [1, 1, 1, 8])
    desc = operators.MaxPooling1(
        input_tensor=tensor,
        output_tensor=TensorDesc("float32", [1, 1, 1, 4]),
        output_indices_tensor=TensorDesc("uint32", [1, 1, 1, 4]),
        window_size=[1, 2],
        strides=[1, 2],
        start_padding=[0, 0],
        end_padding=[0, 0],
    )
    x = np.array([-0.0, 0.0, 0.0, -0.0, np.inf, np.nan, np.nan, np.inf], np.float32).reshape(1, 1, 1, 8)
    values, positions = run_operator(desc, [x])
    assert positions.ravel().tolist() == [0, 2, 5, 6]
    assert np.isnan(values.ravel()[2:]).all()
    assert np.signbit(values.ravel()[:2]).tolist() == [True, False]


@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512"])
@pytest.mark.parametrize("nans", [0, 1, 9])
@pytest.mark.parametrize(("width", "window", "stride", "padding"), SLIDES)
def test_the_first_of_the_largest_numbers_or_of_nan(
    level: str, nans: int, width: int, window: int, stride: int, padding: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros of both signs among few other numbers, and NaN of many bits, at the ends of rows too."""
    try:
        host_target(level)
    except ConfigurationError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("OPENDML_CPU_FEATURES", level)
    size = (width + 2 * padding - window) // stride + 1
    sliding = Sliding((1, 2, 9, width), (1, 2, 5, size), (3, window), (2, stride), (1, 1), (1, padding), (1, padding))
    desc = operators.MaxPooling(
        input_tensor=TensorDesc("float32", sliding.sizes),
        output_tensor=TensorDesc("float32", sliding.output_sizes),
        **sliding.fields(False),
    )
    generator = np.random.default_rng(width * window + nans)
    x = generator.choice(np.array([-np.inf, -1.0, -0.0, 0.0], np.float32), sliding.sizes)
    places = generator.choice(x.size, nans, replace=False) // width * width + generator.choice([0, width - 1, 5], nans)
    x.reshape(-1).view(np.uint32)[places] = 0x7FC00001 + np.arange(nans, dtype=np.uint32)
    assert_identical(run_single(desc, x), largest(x, sliding)[0])


def test_max_pooling1_of_the_documentation() -> None:
    desc = operators.MaxPooling1(
        input_tensor=TensorDesc("float32", [1, 1, 2, 4]),
        output_tensor=TensorDesc("float32", [1, 1, 2, 2]),
        output_indices_tensor=TensorDesc("uint32", [1, 1, 2, 2]),
        window_size=[1, 3],
        strides=[1, 1],
        start_padding=[0, 0],
        end_padding=[0, 0],
    )
    values, positions = run_operator(desc, [np.array([3, 5, 7, 1, 9, 4, 2, 8], np.float32).reshape(1, 1, 2, 4)])
    assert values.ravel().tolist() == [7, 7, 9, 8]
    assert positions.ravel().tolist() == [2, 2, 4, 7]


def sums(x: Array, sliding: Sliding) -> tuple[Array, Array, Array]:
    """Over every window, in float64: the sum, the sum of magnitudes, and the number of elements."""
    totals = [np.zeros(sliding.output_sizes) for _ in range(3)]
    for place, window in sliding.windows():
        for source in window:
            value = float(x[source])
            for total, term in zip(totals, (value, abs(value), 1), strict=True):
                total[place] += term
    return totals[0], totals[1], totals[2]


@bounded
@given(
    data=st.data(), sliding=slidings(), data_type=float_types, include=st.booleans(), seed=seeds, special=st.booleans()
)
def test_average_pooling1(
    data: st.DataObject, sliding: Sliding, data_type: str, include: bool, seed: int, special: bool
) -> None:
    source = data.draw(inputs(data_type, sliding.sizes))
    desc = operators.AveragePooling1(
        input_tensor=source,
        output_tensor=data.draw(outputs(data_type, sliding.output_sizes)),
        include_padding=include,
        **sliding.fields(),
    )
    x = random_array(source, seed, special)
    with np.errstate(all="ignore"):
        total, magnitude, count = sums(x, sliding)
        # The largest finite numbers may overflow on the way to a finite result.
        magnitude[magnitude > 3e38] = np.inf
        divisor = np.full(count.shape, np.prod(sliding.window_size)) if include else count
        exact = np.where(np.abs(total) > 3.5e38, np.copysign(np.inf, total), total / divisor)
        assert_within_rounding(run_single(desc, x), exact, magnitude / divisor, count.max() + 2)


@bounded
@given(data=st.data(), sliding=slidings(), data_type=float_types, p=st.integers(1, 5), seed=seeds)
def test_lp_pooling1(data: st.DataObject, sliding: Sliding, data_type: str, p: int, seed: int) -> None:
    source = data.draw(inputs(data_type, sliding.sizes))
    desc = operators.LpPooling1(
        input_tensor=source, output_tensor=data.draw(outputs(data_type, sliding.output_sizes)), p=p, **sliding.fields()
    )
    x = random_array(source, seed, special=False)
    total, _, count = sums(np.abs(x.astype(np.float64)) ** p, sliding)
    exact = total ** (1 / p)
    assert_within_rounding(run_single(desc, x), exact, exact, count.max() + p + 4)


@pytest.mark.parametrize("name", ["AveragePooling", "LpPooling"])
def test_poolings_without_dilations_equal_those_with_dilations_of_1(name: str) -> None:
    sliding = Sliding((2, 3, 5, 6), (2, 3, 3, 3), (3, 2), (2, 2), (1, 1), (1, 0), (1, 0))
    tensors = {
        "input_tensor": TensorDesc("float32", sliding.sizes),
        "output_tensor": TensorDesc("float32", sliding.output_sizes),
    }
    own: dict[str, Any] = {"include_padding": False} if name == "AveragePooling" else {"p": 3}
    x = random_array(tensors["input_tensor"], 7)
    old = getattr(operators, name)(**tensors, **own, **sliding.fields(False))
    new = getattr(operators, name + "1")(**tensors, **own, **sliding.fields())
    assert_same_values(run_single(old, x), run_single(new, x))


@pytest.mark.parametrize(("include", "expected"), [(True, [0, 2, 0]), (False, [np.nan, 4, np.nan])])
def test_average_of_a_window_wholly_in_the_padding(include: bool, expected: Sequence[float]) -> None:
    desc = operators.AveragePooling(
        input_tensor=TensorDesc("float32", [1, 1, 1, 1]),
        output_tensor=TensorDesc("float32", [1, 1, 1, 3]),
        window_size=[1, 2],
        strides=[1, 2],
        start_padding=[0, 2],
        end_padding=[0, 3],
        include_padding=include,
    )
    output = run_single(desc, np.full((1, 1, 1, 1), 4, np.float32))
    np.testing.assert_array_equal(output.ravel(), np.array(expected, np.float32))


def test_definitions_do_not_grow_with_sizes() -> None:
    side = 2**15
    desc = operators.MaxPooling2(
        input_tensor=TensorDesc("float32", [1, 1, side, side]),
        output_tensor=TensorDesc("float32", [1, 1, side + 1, side + 1]),
        output_indices_tensor=TensorDesc("uint32", [1, 1, side + 1, side + 1]),
        window_size=[side, side],
        strides=[1, 1],
        dilations=[2**16, 2**16],
        start_padding=[2**31, 2**31],
        end_padding=[2**16 * (side - 1) - 2**31 + 1, 2**16 * (side - 1) - 2**31 + 1],
    )
    definition = desc.define()
    assert len(definition.statements) == 1
    assert not definition.temporaries
