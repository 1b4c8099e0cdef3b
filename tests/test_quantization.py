"""QUANTIZE and DEQUANTIZE: blocks, and 4-bit types packed two a byte, against loops over elements."""

from __future__ import annotations

import math
from pathlib import Path
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
from opendml.targets.cpu.compilation import generate
from opendml.targets.cpu.target import host_target

bounded = examples(20)
QUANTIZED = st.sampled_from(["INT8", "UINT8", "INT4", "UINT4"])
REAL = st.sampled_from(["FLOAT32", "FLOAT16"])


def elements(desc: TensorDesc, array: Array) -> Array:
    """The values of a tensor, those of 4 bits out of their bytes, the first one in the lower half."""
    if desc.data_type.bits != 4:
        return array.astype(np.int64)
    result = np.zeros(desc.sizes, np.int64)
    for place in np.ndindex(*desc.sizes):
        offset = sum(i * stride for i, stride in zip(place, desc.effective_strides, strict=True))
        half = int(array[offset // 2]) >> (offset % 2 * 4) & 15
        result[place] = half - 16 if desc.data_type.is_signed_integer and half >= 8 else half
    return result


@st.composite
def blocks(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Sizes of scales, and of what they are for."""
    counts = [draw(st.sampled_from([1, 2, 3, 5])) for _ in range(draw(st.integers(1, 4)))]
    return counts, [count * draw(st.sampled_from([1, 1, 2, 3, 8])) for count in counts]


def spread(values: Array, sizes: list[int]) -> Array:
    """Each value for its block."""
    for axis, size in enumerate(sizes):
        values = np.repeat(values, size // values.shape[axis], axis)
    return values


@bounded
@given(data=st.data(), shapes=blocks(), quantized=QUANTIZED, real=REAL, has_zero_point=st.booleans(), seed=seeds)
def test_dequantize(
    data: st.DataObject, shapes: Any, quantized: str, real: str, has_zero_point: bool, seed: int
) -> None:
    counts, sizes = shapes
    source, scales = data.draw(inputs(quantized, sizes)), data.draw(inputs(real, counts))
    tensors = [scales, *([data.draw(inputs(quantized, counts))] if has_zero_point else [])]
    arrays = [random_array(t, seed + i, special=i == 0) for i, t in enumerate([source, *tensors])]
    desc = operators.Dequantize(
        input_tensor=source,
        quantization_type=len(tensors),
        quantization_tensors=tensors,
        output_tensor=data.draw(outputs(real, sizes)),
    )
    difference = elements(source, arrays[0])
    if has_zero_point:
        difference = difference - spread(elements(tensors[1], arrays[2]), sizes)
    expected = difference.astype(np.float32) * spread(arrays[1], sizes).astype(np.float32)
    assert_identical(run_single(desc, *arrays), expected.astype(arrays[1].dtype))


@bounded
@given(data=st.data(), shapes=blocks(), quantized=QUANTIZED, real=REAL, has_zero_point=st.booleans(), seed=seeds)
def test_quantize(data: st.DataObject, shapes: Any, quantized: str, real: str, has_zero_point: bool, seed: int) -> None:
    counts, sizes = shapes
    source, scales = data.draw(inputs(real, sizes)), data.draw(inputs(real, counts))
    tensors = [scales, *([data.draw(inputs(quantized, counts))] if has_zero_point else [])]
    arrays = [random_array(t, seed + i) for i, t in enumerate([source, *tensors])]
    target = data.draw(outputs(quantized, sizes))
    desc = operators.Quantize(
        input_tensor=source, quantization_type=len(tensors), quantization_tensors=tensors, output_tensor=target
    )
    zeros = spread(elements(tensors[1], arrays[2]), sizes) if has_zero_point else np.zeros(sizes, np.int64)
    with np.errstate(all="ignore"):
        rounded = np.rint(arrays[0].astype(np.float32) / spread(arrays[1], sizes).astype(np.float32))
        total = rounded.astype(np.float64) + zeros
    low, high = target.data_type.integer_range
    expected = np.where(np.isnan(total), 0, np.clip(total, low, high)).astype(np.int64)
    result = run_single(desc, *arrays)
    np.testing.assert_array_equal(elements(target, result), expected)


def test_packing_is_that_of_the_documentation() -> None:
    """Five elements are three bytes; rows are not aligned to bytes."""
    x = np.array([1, 2, 3, 4, 5], np.float32)
    assert dml.quantize(x, 1.0, output_data_type="uint4").tolist() == [0x21, 0x43, 0x05]
    rows = dml.quantize(np.array([[1, -1, 7], [-8, 0, 9]], np.float32), 1.0, output_data_type="int4")
    assert rows.tolist() == [0xF1, 0x87, 0x70]
    back = dml.dequantize(rows, 1.0, input_data_type="int4", input_sizes=[2, 3])
    assert back.tolist() == [[1, -1, 7], [-8, 0, 7]]


def test_weights_of_four_bits() -> None:
    """As language models have them: {N, K} in blocks of 32 along K, zero points packed too."""
    generator = np.random.default_rng(0)
    packed, zeros = (generator.integers(0, 256, n, np.uint8) for n in (6 * 64 // 2, 6 * 2 // 2))
    scale = generator.uniform(0.1, 1, (6, 2)).astype(np.float32)
    found = dml.dequantize(packed, scale, zeros, input_data_type="uint4", input_sizes=[6, 64])
    values = np.stack([packed & 15, packed >> 4], 1).reshape(6, 64).astype(np.float32)
    offsets = np.stack([zeros & 15, zeros >> 4], 1).reshape(6, 2).astype(np.float32)
    np.testing.assert_array_equal(found, (values - offsets.repeat(32, 1)) * scale.repeat(32, 1))


def test_a_graph_keeps_four_bits_between_its_nodes() -> None:
    x = np.random.default_rng(1).normal(0, 3, (3, 8)).astype(np.float32)
    graph = dml.Graph()
    quantized = dml.quantize(graph.input("float32", [3, 8]), 0.5, output_data_type="int4")
    assert (quantized.data_type, quantized.desc.total_size_in_bytes) == (dml.TensorDataType.INT4, 12)
    program = graph.compile(dml.dequantize(quantized, np.float32(0.5)))
    np.testing.assert_array_equal(program(x), np.clip(np.rint(x * 2), -8, 7) / 2)


def test_a_graph_takes_and_gives_bytes() -> None:
    packed = np.array([0x21, 0x43, 0x05], np.uint8)
    graph = dml.Graph()
    weights = graph.input("uint4", [5])
    program = graph.compile(
        dml.quantize(dml.dequantize(weights, np.float32(1)), np.float32(1), output_data_type="uint4")
    )
    assert program(packed).tolist() == packed.tolist()


def test_files_keep_four_bits(tmp_path: Path) -> None:
    """A serialised graph with packed weights gives what the graph gives that it was made of."""
    graph = dml.Graph()
    weights, scale = graph.input("uint4", [4, 8], name="w"), graph.input("float32", [4, 2], name="s")
    described = graph.describe(dml.dequantize(weights, scale))
    dml.save(described, tmp_path / "graph.dml")
    packed = np.random.default_rng(2).integers(0, 256, 16, np.uint8)
    scales = np.random.default_rng(3).uniform(0.5, 2, (4, 2)).astype(np.float32)
    read = dml.load(tmp_path / "graph.dml")
    assert isinstance(read, dml.GraphDesc)
    found = [dml.Device().compile_graph(d)(packed, scales) for d in (described, read)]
    values = np.stack([packed & 15, packed >> 4], 1).reshape(4, 8).astype(np.float32)
    for result in found:
        np.testing.assert_array_equal(result, values * scales.repeat(4, 1))


def test_the_furthest_places_compile() -> None:
    """Elements that lie further apart than any memory reaches are valid."""
    desc = operators.Quantize(
        input_tensor=TensorDesc("FLOAT32", [2**31 - 1], [0]),
        quantization_type="SCALE",
        quantization_tensors=[TensorDesc("FLOAT32", [1])],
        output_tensor=TensorDesc("INT4", [2**31 - 1], [2**32 - 1]),
    )
    assert not texts(desc)
    assert generate(desc.define(), host_target(), in_place=False).modules


# ---- rules


def texts(desc: Any, level: str = "6_4") -> list[str]:
    return [str(violation) for violation in validate(desc, level)]


def f32(*sizes: int) -> TensorDesc:
    return TensorDesc("FLOAT32", sizes)


def u4(*sizes: int) -> TensorDesc:
    return TensorDesc("UINT4", sizes)


@pytest.mark.parametrize("sizes", [[5], [3, 3], [2, 8]])
def test_bytes_of_four_bit_tensors(sizes: list[int]) -> None:
    desc = u4(*sizes)
    assert desc.in_memory.sizes == ((math.prod(sizes) + 1) // 2,)
    assert desc.total_size_in_bytes == -(-math.prod(sizes) // 8) * 4


def test_rules_of_blocks() -> None:
    desc = operators.Dequantize(
        input_tensor=u4(2, 6),
        quantization_type="SCALE_ZERO_POINT",
        quantization_tensors=[f32(2, 4), TensorDesc("INT4", [1, 4])],
        output_tensor=TensorDesc("FLOAT16", [2, 6]),
    )
    assert texts(desc) == [
        "QuantizationTensors[0].Sizes[1]: must divide InputTensor.Sizes[1] = 6, got 4",
        "QuantizationTensors[1].Sizes[0]: must be QuantizationTensors[0].Sizes[0] = 2, got 1",
        "QuantizationTensors[0]: must have the DataType of OutputTensor, FLOAT16, got FLOAT32",
        "QuantizationTensors[1]: must have the DataType of InputTensor, UINT4, got INT4",
    ]
    right = desc.replace(quantization_tensors=[f32(2, 3), u4(2, 3)], output_tensor=f32(2, 6))
    assert not texts(right)
    assert texts(right.replace(quantization_type="SCALE")) == [
        "QuantizationTensors: must have 1 elements, by QuantizationType, got 2"
    ]
    assert texts(right.replace(quantization_type="NONE"))[0].startswith(
        "QuantizationType: must be DML_QUANTIZATION_TYPE_SCALE or"
    )
    assert "DataType" not in texts(right, "6_3") and "6_3" in texts(right, "6_2")[0]
