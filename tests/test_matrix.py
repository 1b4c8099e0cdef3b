"""GEMM against NumPy in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from execution import Array, assert_identical, inputs, outputs, random_array, run_single, seeds
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from rounding import assert_within_rounding

from opendml import operators
from opendml.description.enums import MatrixTransform
from opendml.description.tensor import TensorDesc

bounded = examples(40)
scales = st.sampled_from([0.0, 1.0, -0.5, 3.25])


def gemm(a: Any, b: Any, c: Any, output: Any, trans: Sequence[bool] = (False, False), **fields: Any) -> operators.Gemm:
    fields = {"alpha": 1.0, "beta": 1.0} | fields
    trans_a, trans_b = map(MatrixTransform, trans)
    return operators.Gemm(
        a_tensor=a, b_tensor=b, c_tensor=c, output_tensor=output, trans_a=trans_a, trans_b=trans_b, **fields
    )


def packed(data_type: str, *sizes: int) -> TensorDesc:
    return TensorDesc(data_type, sizes)


def multiply(a: Array, b: Array, trans: Sequence[bool]) -> Array:
    a, b = (np.swapaxes(m, -1, -2) if is_transposed else m for m, is_transposed in zip((a, b), trans, strict=True))
    return a.astype(np.float64) @ b.astype(np.float64)


@bounded
@given(
    data=st.data(),
    batch=st.lists(st.integers(1, 2), max_size=2),
    sizes=st.tuples(st.integers(1, 7), st.integers(1, 9), st.integers(1, 7)),
    data_type=st.sampled_from(["FLOAT32", "FLOAT16"]),
    trans=st.tuples(st.booleans(), st.booleans()),
    alpha=scales,
    beta=scales,
    has_c=st.booleans(),
    seed=seeds,
)
def test_products(
    data: st.DataObject,
    batch: list[int],
    sizes: tuple[int, int, int],
    data_type: str,
    trans: tuple[bool, bool],
    alpha: float,
    beta: float,
    has_c: bool,
    seed: int,
) -> None:
    rows, inner, columns = sizes
    tensors = (
        data.draw(inputs(data_type, [*batch, *((inner, rows) if trans[0] else (rows, inner))])),
        data.draw(inputs(data_type, [*batch, *((columns, inner) if trans[1] else (inner, columns))])),
        data.draw(inputs(data_type, [*batch, rows, columns])) if has_c else None,
    )
    desc = gemm(*tensors, data.draw(outputs(data_type, [*batch, rows, columns])), trans, alpha=alpha, beta=beta)
    a, b, c = (None if t is None else random_array(t, seed + n, special=False) for n, t in enumerate(tensors))
    output = run_single(desc, a, b, c)
    assert a is not None and b is not None
    exact, magnitude = alpha * multiply(a, b, trans), abs(alpha) * multiply(np.abs(a), np.abs(b), trans)
    if c is not None:
        exact, magnitude = exact + beta * c.astype(np.float64), magnitude + np.abs(beta * c.astype(np.float64))
    assert_within_rounding(output, exact, magnitude, inner + 4)


@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(33, 40, 70), (1, 100, 65), (65, 17, 1), (5, 1, 5)])
def test_sizes_around_blocks(rows: int, inner: int, columns: int, trans: tuple[bool, bool]) -> None:
    a = packed("float32", *((inner, rows) if trans[0] else (rows, inner)))
    b = packed("float32", *((columns, inner) if trans[1] else (inner, columns)))
    left, right = random_array(a, 1, special=False), random_array(b, 2, special=False)
    output = run_single(gemm(a, b, None, packed("float32", rows, columns), trans), left, right, None)
    exact = multiply(left, right, trans)
    assert_within_rounding(output, exact, multiply(np.abs(left), np.abs(right), trans), inner + 2)


def test_strides_do_not_change_the_bits() -> None:
    a, c = packed("float32", 5, 6), packed("float32", 5, 7)
    x, y = random_array(a, 1, special=False), random_array(packed("float32", 6, 7), 2, special=False)
    plain = run_single(gemm(a, packed("float32", 6, 7), None, c), x, y, None)
    strided = run_single(gemm(a, TensorDesc("float32", [6, 7], [1, 9]), None, c), x, y, None)
    transposed = run_single(gemm(a, packed("float32", 7, 6), None, c, (False, True)), x, y.T.copy(), None)
    assert_identical(strided, plain)
    assert_identical(transposed, plain)


def test_a_beta_of_0_leaves_c_out() -> None:
    matrix = packed("float32", 2, 2)
    ones = np.ones((2, 2), np.float32)
    output = run_single(gemm(matrix, matrix, matrix, matrix, beta=0.0), ones, ones, np.full((2, 2), np.nan, np.float32))
    np.testing.assert_array_equal(output, 2 * ones)


def test_float16_is_rounded_once() -> None:
    a, b = packed("float16", 1, 4097), packed("float16", 4097, 1)
    output = run_single(
        gemm(a, b, None, packed("float16", 1, 1), alpha=0.125),
        np.ones((1, 4097), np.float16),
        np.ones((4097, 1), np.float16),
        None,
    )
    assert output.tolist() == [[512.0]]


def test_activation() -> None:
    matrix = packed("float32", 3, 3)
    x = random_array(matrix, 4, special=False)
    plain = run_single(gemm(matrix, matrix, matrix, matrix), x, x, x)
    fused = run_single(gemm(matrix, matrix, matrix, matrix, fused_activation=operators.ActivationRelu()), x, x, x)
    assert_identical(fused, np.maximum(plain, 0))


@pytest.mark.sampled
@pytest.mark.parametrize("axes", [None, (3,), (2,), (1, 3), (0, 1, 2, 3)])
def test_fused_softmax_equals_softmax_of_the_product(axes: tuple[int, ...] | None) -> None:
    a, b = packed("float32", 1, 2 if axes else 1, 3, 4), packed("float32", 1, 2 if axes else 1, 4, 20)
    target = packed("float32", 1, 2 if axes else 1, 3, 20)
    left, right = random_array(a, 1, special=False), random_array(b, 2, special=False)

    def softmax(**tensors: Any) -> Any:
        return operators.ActivationSoftmax1(axes=axes, **tensors) if axes else operators.ActivationSoftmax(**tensors)

    fused = run_single(gemm(a, b, None, target, fused_activation=softmax()), left, right, None)
    product = run_single(gemm(a, b, None, target), left, right, None)
    assert_identical(fused, run_single(softmax(input_tensor=target, output_tensor=target), product))
    np.testing.assert_allclose(fused.sum(axes or 3), 1, rtol=1e-5)


def test_float16_softmax_is_of_the_unrounded_product() -> None:
    a, b, target = packed("float16", 2, 3), packed("float16", 3, 5), packed("float16", 2, 5)
    left, right = random_array(a, 1, special=False), random_array(b, 2, special=False)
    product = multiply(left, right, (False, False))
    exponentials = np.exp(product - product.max(-1, keepdims=True))
    exact = exponentials / exponentials.sum(-1, keepdims=True)
    desc = gemm(a, b, None, target, fused_activation=operators.ActivationSoftmax())
    np.testing.assert_allclose(run_single(desc, left, right, None), exact, rtol=2e-3, atol=1e-6)
