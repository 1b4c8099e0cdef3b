"""What stands for a tensor, in functions on arrays and in graphs: numbers, lists, bools, sizes that broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calls import described, numbers

import opendml as dml

Array = np.ndarray[Any, Any]
X, ROW, COLUMN = numbers((3, 4)), numbers((4,), seed=1), numbers((3, 1), seed=2)
INTEGERS, BYTES = numbers((3, 4), "int32"), numbers((3, 4), "uint8")
IMAGE, FILTER = numbers((2, 3, 5, 5)), numbers((4, 3, 2, 2), seed=1)
A, B = numbers((2, 3, 4)), numbers((4, 5), seed=1)

CASES: list[tuple[Callable[[Any], Any], Array, Any]] = [
    (lambda x: dml.add(x, 1.0), X, X + 1),
    (lambda x: dml.add(1, x), X, X + 1),
    (lambda x: dml.add(x, np.float64(0.1)), X, X + np.float32(0.1)),
    (lambda x: dml.add(x, np.array(2)), X, X + 2),
    (lambda x: dml.add(x, True), X, X + 1),
    (lambda x: dml.add(x, [1, 2, 3, 4]), X, X + np.array([1, 2, 3, 4], np.float32)),
    (lambda x: dml.add(x, [[1], [2.5], [3]]), X, X + np.array([[1], [2.5], [3]], np.float32)),
    (lambda x: dml.add(x, ROW), X, X + ROW),
    (lambda x: dml.multiply(COLUMN, x), ROW, COLUMN * ROW),
    (lambda x: dml.subtract(x, -(2**31)), INTEGERS, INTEGERS - np.int32(-(2**31))),
    (lambda x: dml.less_than(x, 200), BYTES, BYTES < 200),
    (lambda x: dml.if_(x > 0, x, 0), X, np.where(X > 0, X, 0)),
    (lambda x: dml.if_(X > 0, x, ROW), COLUMN, np.where(X > 0, COLUMN, ROW)),
    (lambda x: dml.if_([True, False, True, False], x, 0.5), X, np.where([1, 0, 1, 0], X, np.float32(0.5))),
    (lambda x: dml.if_(x > 0, np.float32(1), 2), X, np.where(X > 0, 1, 2)),
    (lambda x: dml.logical_and(X > 0, x), X < 5, (X > 0) & (X < 5)),
    (lambda x: dml.logical_or(x, True), BYTES, np.ones((3, 4))),
    (lambda x: dml.pow(x, 2), INTEGERS, INTEGERS**2),
    (lambda x: dml.pow(x, [0, 1, 2, 3]), X, X ** np.array([0, 1, 2, 3], np.float32)),
    (lambda x: dml.activation_parameterized_relu(x, 0.25), X, np.where(X >= 0, X, X / 4)),
    (lambda x: dml.clip_grad(x, 7, min=-2, max=2), X, np.where(np.abs(X) < 2, 7, 0)),
    (lambda x: dml.convolution(x, FILTER, [1, 2, 3, 4]), IMAGE, None),
    (lambda x: dml.convolution(x, FILTER, np.array([1, 2, 3, 4], np.float32)), IMAGE, None),
    (lambda x: dml.gemm(x, B), A, A @ B),
    (lambda x: dml.gemm(x, B, B[0]), A, A @ B + B[0]),
    (lambda x: dml.gemm(x, B, 3, beta=2), A, A @ B + 6),
    (lambda x: dml.gemm(x, A[0], trans_b="TRANSPOSE"), A, A @ A[0].T),
    (lambda x: dml.batch_normalization(x, 1, 4, 2, 0.5, epsilon=0), X, 2 * (X - 1) / 2 + 0.5),
    (lambda x: dml.dequantize_linear(x, 0.5, 3), BYTES, (BYTES.astype(int) - 3) * 0.5),
    (lambda x: dml.quantize_linear(x, 0.5, 30), X, X * 2 + 30),
    (lambda x: dml.quantized_linear_add(x, 1, None, x, 2, None, 1, 1), BYTES, BYTES * 3 + 1),
    (lambda x: dml.gather(x, [[2, 0]], axis=1, index_dimensions=1), X, X[:, [2, 0]]),
    (lambda x: dml.one_hot(x, [[0.0, 1.0]], output_length=3, axis=1), COLUMN.astype("int32") % 3, None),
    (lambda x: dml.join([x, [[9, 9, 9, 9]]], axis=0), X, np.concatenate([X, np.full((1, 4), 9)])),
    (dml.identity, X > 0, X > 0),
    (lambda x: dml.add(dml.identity(np.array(2, "float32")), x), ROW, ROW + 2),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("call", "array", "expected"), CASES)
def test_arrays_and_graphs_take_the_same(call: Callable[[Any], Any], array: Array, expected: Any) -> None:
    graph = dml.Graph()
    tensor = graph.input(np.uint8 if array.dtype == bool else array.dtype, array.shape)
    given = array.view(np.uint8) if array.dtype == bool else array
    try:
        built = call(tensor)
    except TypeError:  # ``X > 0`` beside a graph tensor is NumPy's own.
        built = None
    for _ in range(3):  # The second and third call take other ways.
        result = call(array)
        if expected is not None:
            np.testing.assert_array_equal(result, expected)
    if built is not None:
        assert built.sizes == result.shape
        np.testing.assert_array_equal(graph.compile(built)(given), result)


def test_a_bias_of_one_dimension_is_one_of_channels() -> None:
    bias = numbers((4,), seed=2)
    expected = dml.convolution(IMAGE, FILTER, bias.reshape(1, 4, 1, 1))
    for given in (bias, bias.tolist()):
        np.testing.assert_array_equal(dml.convolution(IMAGE, FILTER, given), expected)
    back = dml.convolution(numbers((1, 4, 4, 4)), FILTER, [1, 2, 3], direction="BACKWARD")
    assert back.shape == (1, 3, 5, 5)
    with pytest.raises(dml.InvalidDescriptorError, match="do not broadcast"):
        dml.convolution(IMAGE, FILTER, [1, 2, 3])


def test_nothing_is_copied_to_broadcast() -> None:
    desc = described(dml.add, X, ROW)
    assert desc.a_tensor.strides is None
    assert desc.b_tensor.strides == (0, 1)
    assert described(dml.add, X, 2).b_tensor.strides == (0, 0)
    assert described(dml.gemm, A, B, 1).c_tensor.strides == (0, 0, 0)
    assert described(dml.gemm, A, B).b_tensor.sizes == (2, 4, 5)
    bias = described(dml.convolution, IMAGE, FILTER, [1, 2, 3, 4]).bias_tensor
    assert bias.sizes == (1, 4, 1, 1)


ERRORS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: dml.add(x, 2**24 + 1), "b: 16777217 is no value of FLOAT32"),
    (lambda x: dml.add(x, 1e39), "b: 1e[+]39 is no value of FLOAT32"),
    (lambda x: dml.add(x, [1, 2**24 + 1, 3, 4]), "b: 16777217 is no value of FLOAT32"),
    (lambda x: dml.add(dml.cast(x, "int32"), 2.0), "b: 2.0 is no value of INT32"),
    (lambda x: dml.add(dml.cast(x, "uint8"), -1), "b: -1 is no value of UINT8"),
    (lambda x: dml.add(dml.cast(x, "int32"), 2**70), "is no value of INT32"),
    (lambda x: dml.add(x, [1, 2]), "do not broadcast to common sizes"),
    (lambda x: dml.gemm(x, x.reshape(2, 6)), "= 4, the inner size by trans_a and trans_b"),
    (lambda x: dml.if_(x, 1.0, 2.0), "a: nothing says which type 1.0 has; write np.float32"),
    (lambda x: dml.add(x, "text"), "b: expected an array"),
    (lambda x: dml.add(x, [x, [1]]), "b: expected an array, a number, or a list of numbers"),
    (lambda x: dml.add(x, dml.MaxPoolingOutputs(x, None)), r"MaxPoolingOutputs holds .* use .values or .indices"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_what_is_not_exact_or_ambiguous(call: Callable[[Any], Any], message: str) -> None:
    for operand in (X, dml.Graph().input("float32", [3, 4])):
        for _ in range(2):
            with pytest.raises((dml.BindingError, dml.InvalidDescriptorError), match=message):
                call(operand)


def test_numbers_of_a_type_that_has_them() -> None:
    half = np.ones(3, np.float16)
    assert dml.add(half, 65504).dtype == np.float16
    assert np.isinf(dml.add(half, float("inf"))).all()
    assert np.isnan(dml.add(half, float("nan"))).all()
    with pytest.raises(dml.InvalidDescriptorError, match="no value of FLOAT16"):
        dml.add(half, 70000.0)
    assert dml.add(np.ones(2, np.int64), 2**62).tolist() == [2**62 + 1] * 2


def test_signed_zeros_of_numbers_are_kept() -> None:
    zeros = np.array([-0.0], np.float32)
    for _ in range(3):
        assert [bool(np.signbit(dml.add(zeros, zero))[0]) for zero in (0.0, -0.0)] == [False, True]
