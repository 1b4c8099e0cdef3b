"""Tensor descriptions: layout arithmetic, JSON, and arguments that make no sense."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from opendml.description import overlap
from opendml.description.enums import TensorDataType, TensorFlags
from opendml.description.errors import DescriptorFormatError, InvalidDescriptorError
from opendml.description.overlap import MOST_STEPS, overlaps_at_sight, overlaps_itself, search_overlap
from opendml.description.tensor import TensorDesc

quick = examples(200)
shapes = st.lists(st.integers(1, 5), min_size=1, max_size=8)


@quick
@given(shapes)
def test_packed_layout_is_numpys(sizes: list[int]) -> None:
    tensor = TensorDesc("int8", sizes)
    assert tensor.packed_strides == np.empty(sizes, np.int8).strides
    assert tensor.effective_strides == tensor.packed_strides
    assert tensor.is_packed and tensor.replace(strides=tensor.packed_strides).is_packed
    assert tensor.element_count == math.prod(sizes)


@quick
@given(st.data(), shapes, st.sampled_from([data_type for data_type in TensorDataType if data_type.bits]))
def test_size_is_that_of_the_last_element(data: st.DataObject, sizes: list[int], data_type: TensorDataType) -> None:
    strides = data.draw(st.none() | st.lists(st.integers(0, 1000), min_size=len(sizes), max_size=len(sizes)))
    tensor = TensorDesc(data_type, sizes, strides)
    steps = tensor.packed_strides if strides is None else strides
    last = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    needed = math.ceil((last + 1) * data_type.bits / 8)
    assert needed <= tensor.minimum_size_in_bytes < needed + 4
    assert tensor.minimum_size_in_bytes % 4 == 0
    assert tensor.total_size_in_bytes == tensor.minimum_size_in_bytes


def test_size_beyond_32_bits() -> None:
    tensor = TensorDesc("float32", [65535, 65535], [2**32 - 1, 1])
    assert tensor.minimum_size_in_bytes == 4 * (65534 * (2**32 - 1) + 65534 + 1)


def test_sub_byte_size() -> None:
    assert TensorDesc("uint4", [5]).minimum_size_in_bytes == 4
    assert TensorDesc("int4", [9]).minimum_size_in_bytes == 8


@examples(500)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40)), min_size=1, max_size=5))
def test_overlap_is_exact(dimensions: list[tuple[int, int]]) -> None:
    sizes, strides = zip(*dimensions, strict=True)
    coordinates = itertools.product(*(range(size) for size in sizes))
    addresses = [sum(map(int.__mul__, coordinate, strides)) for coordinate in coordinates]
    assert overlaps_itself(sizes, strides) == (len(set(addresses)) < len(addresses))


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ([65535, 65535], [65533, 65534], True),
        ([65535, 65535], [65537, 65536], False),
        ([16] * 8, [16**i for i in range(8)], False),
        ([2**16, 2**16], [2**32 - 1, 2**32 - 2], False),
        ([1, 1], [0, 0], False),
        ([2, 2], [1, 0], True),
    ],
)
def test_overlap_of_large_tensors_is_decided_quickly(sizes: list[int], strides: list[int], expected: bool) -> None:
    assert overlaps_itself(sizes, strides) == expected


def hard_layouts() -> Iterator[tuple[list[int], list[int]]]:
    """Layouts with about as many elements as addresses, which no inequality decides."""
    random = Random(7)
    for size in (2, 3, 4, 7, 16):
        for bits in range(8, 33, 4):
            yield [size] * 8, [random.randint(1 << bits - 2, (1 << bits) - 1) for _ in range(8)]
    for _ in range(20):
        sizes = [random.choice([2, 3, 5, 17, 100]) for _ in range(8)]
        yield sizes, [random.randint(1, (1 << random.randint(5, 32)) - 1) for _ in range(8)]
    yield [16] * 8, [2**31 + 3**i for i in range(8)]
    yield [2**16 - 1, 2**15, 2], [2**32 - 1, 2**32 - 3, 2**31 - 1]


def test_overlap_search_takes_few_steps() -> None:
    searched = [search_overlap(*layout) for layout in hard_layouts() if overlaps_at_sight(*layout) is None]
    assert {search.overlaps for search in searched} == {False, True}
    assert max(search.steps for search in searched) < 500 < MOST_STEPS


def test_overlap_search_without_an_answer_counts_as_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = [4] * 8, [2**32 - 5**i for i in range(8)]
    assert search_overlap(*layout).overlaps is False
    monkeypatch.setattr(overlap, "MOST_STEPS", 20)
    search = search_overlap(*layout)
    assert search == (True, 20)


def test_values_are_equal_and_hashable() -> None:
    first = TensorDesc("FLOAT32", [1, 2], [2, 1], flags="OWNED_BY_DML")
    second = TensorDesc(np.float32, (1, np.int64(2)), np.array([2, 1]), flags=TensorFlags.OWNED_BY_DML)
    assert first == second and hash(first) == hash(second)
    assert first != TensorDesc("FLOAT32", [1, 2], flags="OWNED_BY_DML")
    with pytest.raises(AttributeError):
        first.sizes = (3,)  # type: ignore[misc]


def test_explicit_default_size_is_no_difference() -> None:
    assert TensorDesc("int8", [5], total_size_in_bytes=8) == TensorDesc("int8", [5])


@pytest.mark.parametrize(
    "arguments",
    [
        {"data_type": "float33"},
        {"data_type": None},
        {"data_type": complex},
        {"sizes": 3},
        {"sizes": "12"},
        {"sizes": [1.5]},
        {"sizes": [True]},
        {"sizes": {1: 2}},
        {"strides": ["1"]},
        {"flags": "FLAG"},
        {"flags": 1.0},
        {"total_size_in_bytes": "many"},
        {"guaranteed_base_offset_alignment": 1.5},
    ],
)
def test_wrong_python_types(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidDescriptorError):
        TensorDesc(**({"data_type": "float32", "sizes": [1]} | arguments))


def test_nonsense_is_constructed() -> None:
    for sizes in ([], [0], [-1], [2**64] * 3, [1] * 100_000):
        TensorDesc("float32", sizes, [5], total_size_in_bytes=-4, guaranteed_base_offset_alignment=3)


integers = st.integers(-(2**70), 2**70)


@quick
@given(
    st.sampled_from(TensorDataType),
    st.lists(integers, max_size=9),
    st.none() | st.lists(integers, min_size=1, max_size=9),
    st.sampled_from([TensorFlags.NONE, TensorFlags.OWNED_BY_DML]),
    st.none() | st.integers(1, 2**64),
    st.integers(0, 4096),
)
def test_json_round_trip(
    data_type: TensorDataType,
    sizes: list[int],
    strides: list[int] | None,
    flags: TensorFlags,
    total: int | None,
    alignment: int,
) -> None:
    tensor = TensorDesc(
        data_type,
        sizes,
        strides,
        flags=flags,
        total_size_in_bytes=total,
        guaranteed_base_offset_alignment=alignment,
    )
    assert TensorDesc.from_json(tensor.to_json()) == tensor
    assert TensorDesc.from_json({"Type": "BUFFER", "Desc": tensor.to_json()}) == tensor


def test_json_defaults() -> None:
    json = {"DataType": "FLOAT16", "DimensionCount": 2, "Sizes": [2, 3], "Strides": [], "TotalTensorSizeInBytes": 0}
    assert TensorDesc.from_json(json) == TensorDesc("float16", [2, 3])
    assert TensorDesc.from_json(json).to_json() == {"DataType": "FLOAT16", "Sizes": [2, 3]}


@pytest.mark.parametrize(
    ("json", "path", "message"),
    [
        (3, "X", "expected an object, got 3"),
        ({}, "X.DataType", "the field is missing"),
        ({"DataType": "FLOAT32"}, "X.Sizes", "the field is missing"),
        ({"DataType": "FLOAT23", "Sizes": [1]}, "X.DataType", "did you mean 'FLOAT32'"),
        ({"DataType": "FLOAT32", "Sizes": [1, "2"]}, "X.Sizes[1]", "expected an integer, got 2"),
        ({"DataType": "FLOAT32", "Sizes": [1], "Stride": [1]}, "X.Stride", "did you mean 'Strides'"),
        ({"DataType": "FLOAT32", "Sizes": [1], "Flags": ["OWNED"]}, "X.Flags", "not a DML_TENSOR_FLAGS"),
        ({"DataType": "FLOAT32", "Sizes": [1], "DimensionCount": 2}, "X.DimensionCount", "expected 1"),
        ({"Type": "INVALID", "Desc": {}}, "X.Type", "BUFFER"),
        ({"Desc": {}}, "X.Desc.DataType", "the field is missing"),
        ({"Desc": {}, "Sizes": []}, "X.Desc", "unexpected field 'Sizes'"),
    ],
)
def test_json_errors(json: object, path: str, message: str) -> None:
    with pytest.raises(DescriptorFormatError) as raised:
        TensorDesc.from_json(json, "X")
    assert raised.value.path == path
    assert message in raised.value.message
