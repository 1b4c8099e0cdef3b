"""Running operators in tests: ``run_operator`` is the one way in, so that every test meets every implementation.

The layouts and arrays that the tests draw are here too: strides that permute, pad and broadcast, and values that
include the awkward ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from opendml.descriptors import Operator
from opendml.enums import FeatureLevel, TensorDataType
from opendml.expression.interpreter import run_interpreted
from opendml.rules import validate
from opendml.tensor import TensorDesc

Array = np.ndarray[Any, Any]

FLOATS = ("FLOAT64", "FLOAT32", "FLOAT16")
INTEGERS = ("INT64", "INT32", "INT16", "INT8", "UINT64", "UINT32", "UINT16", "UINT8")
ALL_TYPES = FLOATS + INTEGERS


def run_operator(desc: Operator, arrays: Sequence[Array | None], level: str = "6_4") -> list[Any]:
    """The outputs (None for absent ones) of a valid descriptor, for logical inputs in DirectML's binding order."""
    violations = validate(desc, FeatureLevel.parse(level))
    assert not violations, [str(violation) for violation in violations]
    definition = desc.define()
    inputs = [
        None if array is None or tensor is None else array.reshape(tensor.sizes)
        for tensor, array in zip(definition.inputs, arrays, strict=True)
    ]
    outputs = run_interpreted(definition, inputs)
    described = [tensor for _, tensor in desc.outputs()]
    return [
        None if array is None or tensor is None else array.reshape(tensor.sizes)
        for tensor, array in zip(described, outputs, strict=True)
    ]


def run_single(desc: Operator, *arrays: Array | None) -> Array:
    """The output of an operator that has one."""
    (output,) = run_operator(desc, arrays)
    assert isinstance(output, np.ndarray)
    return output


def assert_identical(actual: Array, expected: Array) -> None:
    """The same type, shape and bits."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    unsigned = f"u{actual.dtype.itemsize}"
    np.testing.assert_array_equal(
        np.ascontiguousarray(actual).view(unsigned), np.ascontiguousarray(expected).view(unsigned)
    )


def assert_same_values(actual: Array, expected: Array) -> None:
    """As ``assert_identical``, but any NaN equals any other."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)
    if actual.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(actual)[numbers], np.signbit(expected)[numbers])


# ---------------------------------------------------------------------------------------------------------------------


def sizes(minimum_rank: int = 1, maximum_rank: int = 8, limit: int = 96) -> st.SearchStrategy[list[int]]:
    """Sizes of every rank with at most ``limit`` elements."""
    return st.integers(minimum_rank, maximum_rank).flatmap(
        lambda rank: st.lists(st.integers(1, 5), min_size=rank, max_size=rank).map(lambda drawn: _limited(drawn, limit))
    )


def _limited(drawn: list[int], limit: int) -> list[int]:
    total, result = 1, []
    for size in drawn:
        size = max(1, min(size, limit // total))
        total *= size
        result.append(size)
    return result


@st.composite
def layouts(draw: st.DrawFn, shape: Sequence[int], broadcast: bool = True) -> list[int] | None:
    """Strides for a shape: packed (None), permuted, padded, and for inputs (``broadcast``) some of them 0."""
    if draw(st.booleans()):
        return None
    strides = [0] * len(shape)
    step = draw(st.integers(1, 2))
    for dimension in draw(st.permutations(range(len(shape)))):
        if broadcast and draw(st.integers(0, 5)) == 0:
            continue
        strides[dimension] = step
        step = step * shape[dimension] + draw(st.integers(0, 2))
    return strides


@st.composite
def inputs(draw: st.DrawFn, data_type: str, shape: Sequence[int], broadcast: bool = True) -> TensorDesc:
    """The description of an input with any layout."""
    return TensorDesc(data_type, shape, draw(layouts(shape, broadcast)))


@st.composite
def outputs(draw: st.DrawFn, data_type: str, shape: Sequence[int]) -> TensorDesc:
    """The description of an output with any layout that does not overlap itself."""
    return TensorDesc(data_type, shape, draw(layouts(shape, broadcast=False)))


seeds = st.integers(0, 2**32 - 1)


def random_array(tensor: TensorDesc, seed: int, special: bool = True) -> Array:
    """Random values with the sizes and repetitions (strides of 0) of an input; ``special``: extreme ones among them."""
    generator = np.random.default_rng(seed)
    buffer = random_values(tensor.data_type, tensor.element_span, generator, special)
    strides = tuple(stride * buffer.itemsize for stride in tensor.effective_strides)
    return np.array(np.lib.stride_tricks.as_strided(buffer, tensor.sizes, strides))


def random_values(data_type: TensorDataType, count: int, generator: np.random.Generator, special: bool = True) -> Array:
    """A flat array of mostly small numbers and, if ``special``, some extreme ones."""
    dtype = data_type.dtype
    if dtype.kind == "f":
        values = generator.normal(0, 3, count).astype(dtype)
        limits = np.finfo(dtype)
        extremes = [np.nan, np.inf, -np.inf, 0.0, -0.0, limits.max, limits.min, limits.smallest_subnormal, 0.5, -2.5]
    else:
        bounds = np.iinfo(dtype)
        values = generator.integers(0 if bounds.min == 0 else -20, 21, count).astype(dtype)
        extremes = [bounds.min, bounds.max, bounds.max - 1, bounds.min // 2, bounds.max // 2 + 1]
    if special:
        chosen = generator.random(count) < 0.3
        values[chosen] = generator.choice(np.array(extremes, dtype), count)[chosen]
    return values
