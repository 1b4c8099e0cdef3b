"""Graph tensors as NumPy's users use them: parts, products, powers, views, and NumPy's own functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calls import numbers

import opendml as dml
from opendml.building.numpy_functions import _FUNCTIONS

Array = np.ndarray[Any, Any]
X = numbers((3, 4, 5))


def pooled(x: Any) -> Any:
    """Two outputs, values and indices: no tensor."""
    return dml.max_pooling(x.reshape(1, 1, 3, -1), window_size=[1, 1])


MATRIX, ROW = numbers((5, 2), seed=1), numbers((5,), seed=2)

SAME: list[Callable[[Any], Any]] = [
    lambda x: x[1],
    lambda x: x[-1, 2],
    lambda x: x[0, 0, 0],
    lambda x: x[..., ::-2],
    lambda x: x[2:0:-1, 1:3, None, 4],
    lambda x: x[None, ..., 0],
    lambda x: x[-100:2, ..., np.int64(3) : 100],
    lambda x: x.T,
    lambda x: x.transpose(1, 0, -1),
    lambda x: x.transpose([2, 0, 1])[1:],
    lambda x: x.reshape(-1),
    lambda x: x.reshape(2, -1, 5),
    lambda x: x.T.reshape([10, 6]),
    lambda x: x.flatten(),
    lambda x: x[:1].squeeze(0),
    lambda x: x[:1, :, :1].squeeze(),
    lambda x: x @ MATRIX,
    lambda x: x @ ROW,
    lambda x: ROW[:4] @ x,
    lambda x: x[0] @ x.transpose(0, 2, 1),
    lambda x: MATRIX.T @ x.transpose(0, 2, 1),
    lambda x: x**2,
    lambda x: x % 4,
    lambda x: ROW % x[:, :, :1],
    lambda x: np.add(x, 1),
    lambda x: np.maximum(x, ROW),
    lambda x: np.square(x) - np.abs(x),
    lambda x: np.floor(x / 2) * np.rint(x / 3),
    lambda x: ROW + x,
    lambda x: x > ROW,
    lambda x: next(iter(x)),
    lambda x: dml.reshape(x, (5, 12)),
    dml.transpose,
    dml.flatten,
    lambda x: dml.squeeze(x[:, :1], axis=[1]),
    lambda x: dml.expand_dims(x, axis=[0, -1]),
]


@pytest.mark.parametrize("call", SAME)
def test_what_numpy_gives(call: Callable[[Any], Any]) -> None:
    graph = dml.Graph()
    built = call(graph.input("float32", X.shape))
    expected = np.asarray(call(X))
    assert built.shape == (expected.shape or (1,))
    assert built.dtype == (np.uint8 if expected.dtype == bool else expected.dtype)
    np.testing.assert_array_equal(graph.compile(built)(X), expected.reshape(built.shape))


def test_attributes_of_numpy() -> None:
    x = dml.Graph().input("float16", [2, 3])
    assert (x.shape, x.ndim, x.size, len(x)) == ((2, 3), 2, 6, 2) and x.dtype == np.float16
    assert x[:].source is x.source
    assert x.astype("int32").dtype == np.int32


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(_FUNCTIONS))
def test_functions_of_numpy_that_exist_mean_the_same(name: str) -> None:
    function: np.ufunc = getattr(np, name)
    for dtype in ("float32", "int32", "uint8", "uint32"):
        arrays = [numbers((2, 5), dtype, seed=seed) % np.array(5, dtype) + np.array(1, dtype) for seed in range(2)]
        if name == "matmul":
            arrays[1] = arrays[1].T
        arrays = arrays[: function.nin]
        graph = dml.Graph()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                built = function(*[graph.input(x.dtype, x.shape) for x in arrays])
            except (TypeError, dml.InvalidDescriptorError):
                continue
            expected = function(*arrays)
        result = graph.compile(built)(*arrays)
        np.testing.assert_allclose(result, expected, rtol=2e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (np.log2, "no operator means exactly what numpy.log2 does; use opendml.log"),
        (np.sign, "numpy.sign gives NaN for NaN; use opendml.sign"),
        (np.add.reduce, "numpy.add.reduce cannot take a graph tensor; use opendml.reduce"),
        (lambda x: np.add(x, 1, out=np.zeros(3)), "takes no out"),
        (lambda x: x // 2, "unsupported operand"),
        (lambda x: x.astype("int32") / 2, "opendml.divide truncates"),
        (lambda x: x[[0, 1]], "takes integers, slices"),
        (lambda x: x[True], "takes integers, slices"),
        (lambda x: x["a"], "takes integers, slices"),
        (lambda x: pooled(x) + 1, "use .values or .indices"),
        (lambda x: np.exp(pooled(x)), "not support ufuncs"),
    ],
)
def test_what_has_no_exact_meaning(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(dml.Graph().input("float32", X.shape))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x[3], IndexError, "index 3 is out of range for a dimension of 3"),
        (lambda x: x[0, 0, 0, 0], IndexError, "too many indices"),
        (lambda x: x[1:1], dml.InvalidDescriptorError, "would have no elements"),
        (lambda x: x.reshape(7, -1), dml.InvalidDescriptorError, "cannot have the sizes"),
        (lambda x: x.squeeze(0), dml.InvalidDescriptorError, "has other sizes than 1"),
        (lambda x: x.expand_dims(9), dml.InvalidDescriptorError, "are no axes of"),
        (lambda x: x @ x, dml.InvalidDescriptorError, "5 columns do not meet 4 rows"),
        (lambda x: pooled(x).shape, AttributeError, "use .values"),
    ],
)
def test_what_does_not_exist(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(dml.Graph().input("float32", X.shape))


def test_views_of_arrays() -> None:
    assert np.shares_memory(dml.reshape(X, [-1, 5]), X)
    assert np.shares_memory(dml.transpose(X, [1, 0, 2]), X)
    assert dml.flatten([[1, 2], [3, 4]]).tolist() == [1, 2, 3, 4]
    calls: list[Callable[[], Array]] = [
        lambda: dml.reshape(X, [7, -1]),
        lambda: dml.squeeze(X, 0),
        lambda: dml.transpose(X, [0, 0, 1]),
    ]
    for call in calls:
        with pytest.raises(dml.InvalidDescriptorError):
            call()


def test_parts_at_the_first_level_of_graphs() -> None:
    graph = dml.Graph(dml.Device(feature_level="2_1"))
    x = graph.input("float32", [1, 1, 3, 4])
    np.testing.assert_array_equal(graph.compile(x[..., ::-3])(X[:1, None, :3, :4]), X[:1, None, :3, 3::-3])
