"""Gradients of poolings against the scatter form of the specification, differences and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from execution import Array, assert_identical, inputs, outputs, random_array, run_operator, run_single, seeds
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from rounding import assert_within_rounding
from test_pooling import Sliding, largest, slidings

from opendml import operators
from opendml.description.errors import ConfigurationError
from opendml.description.tensor import TensorDesc
from opendml.programs.device import compile_operator
from opendml.targets.cpu.target import host_target

bounded = examples(25)
float_types = st.sampled_from(["FLOAT32", "FLOAT16"])


def spread_evenly(gradient: Array, sliding: Sliding, include_padding: bool) -> Array:
    """AVERAGE_POOLING_GRAD by its formula, in float64."""
    result = np.zeros(sliding.sizes)
    for place, window in sliding.windows():
        count = np.prod(sliding.window_size) if include_padding else len(window)
        for source in window:
            result[source] += np.float64(gradient[place]) / count
    return result


def spread_to_largest(x: Array, gradient: Array, sliding: Sliding) -> Array:
    """MAX_POOLING_GRAD by the positions of the maxima, in float64."""
    result = np.zeros(x.size)
    _, positions = largest(x, sliding)
    there = positions < x.size
    np.add.at(result, positions[there].astype(np.int64), gradient.astype(np.float64)[there])
    return result.reshape(x.shape)


@bounded
@given(
    data=st.data(),
    sliding=slidings(is_dilated=False),
    data_type=float_types,
    include_padding=st.booleans(),
    seed=seeds,
)
def test_average_pooling_grad(
    data: st.DataObject, sliding: Sliding, data_type: str, include_padding: bool, seed: int
) -> None:
    source = data.draw(inputs(data_type, sliding.output_sizes))
    desc = operators.AveragePoolingGrad(
        input_gradient_tensor=source,
        output_gradient_tensor=data.draw(outputs(data_type, sliding.sizes)),
        include_padding=include_padding,
        **sliding.fields(False),
    )
    gradient = random_array(source, seed, special=False)
    expected = spread_evenly(gradient, sliding, include_padding)
    magnitudes = spread_evenly(np.abs(gradient), sliding, include_padding)
    assert_within_rounding(run_single(desc, gradient), expected, magnitudes, 30)


@bounded
@given(data=st.data(), sliding=slidings(), data_type=float_types, special=st.booleans(), seed=seeds)
def test_max_pooling_grad(data: st.DataObject, sliding: Sliding, data_type: str, special: bool, seed: int) -> None:
    source = data.draw(inputs(data_type, sliding.sizes))
    incoming = data.draw(inputs(data_type, sliding.output_sizes))
    desc = operators.MaxPoolingGrad(
        input_tensor=source,
        input_gradient_tensor=incoming,
        output_gradient_tensor=data.draw(outputs(data_type, sliding.sizes)),
        **sliding.fields(),
    )
    x, gradient = random_array(source, seed, special), random_array(incoming, seed + 1, special=False)
    expected = spread_to_largest(x, gradient, sliding)
    magnitudes = spread_to_largest(x, np.abs(gradient), sliding)
    assert_within_rounding(run_single(desc, x, gradient), expected, magnitudes, 30)


@pytest.mark.sampled
@pytest.mark.parametrize("stride", [1, 2, 3, 8, 40])
@pytest.mark.parametrize(("window", "dilation", "start"), [(3, 1, 1), (7, 1, 6), (2, 3, 2)])
def test_rows_of_all_strides(stride: int, window: int, dilation: int, start: int) -> None:
    """Long rows: blocks of strides in vectors, carries at every place, remainders."""
    span = (window - 1) * dilation + 1
    count = (67 + start + 2 - span) // stride + 1
    sliding = Sliding((1, 2, 5, 67), (1, 2, 5, count), (1, window), (1, stride), (1, dilation), (0, start), (0, 2))
    x = np.random.default_rng(window).integers(0, 9, sliding.sizes).astype(np.float32)
    gradient = np.random.default_rng(stride).integers(-9, 9, sliding.output_sizes).astype(np.float32)
    tensors: dict[str, Any] = {
        "input_gradient_tensor": TensorDesc("FLOAT32", gradient.shape),
        "output_gradient_tensor": TensorDesc("FLOAT32", x.shape),
    }
    desc = operators.MaxPoolingGrad(input_tensor=TensorDesc("FLOAT32", x.shape), **tensors, **sliding.fields())
    np.testing.assert_array_equal(run_single(desc, x, gradient), spread_to_largest(x, gradient, sliding))
    if dilation == 1:
        average = operators.AveragePoolingGrad(include_padding=True, **tensors, **sliding.fields(False))
        expected = spread_evenly(gradient, sliding, True)
        np.testing.assert_allclose(run_single(average, gradient), expected, rtol=1e-5, atol=1e-6)


def _square_window(size: int = 2, stride: int = 1, padding: int = 0) -> dict[str, Any]:
    return {
        "strides": [stride] * 2,
        "window_size": [size] * 2,
        "start_padding": [padding] * 2,
        "end_padding": [padding] * 2,
    }


def test_ties_and_nan_go_to_the_first() -> None:
    tensor, pooled = TensorDesc("FLOAT32", [1, 1, 1, 6]), TensorDesc("FLOAT32", [1, 1, 1, 3])
    window: dict[str, Any] = {"strides": [1, 2], "window_size": [1, 2], "start_padding": [0, 0], "end_padding": [0, 0]}
    desc = operators.MaxPoolingGrad(
        input_tensor=tensor,
        input_gradient_tensor=pooled,
        output_gradient_tensor=tensor,
        dilations=[1, 1],
        **window,
    )
    x = np.array([-0.0, 0.0, np.nan, np.nan, 7, np.nan], np.float32).reshape(tensor.sizes)
    gradient = np.array([1, 2, 3], np.float32).reshape(pooled.sizes)
    assert run_single(desc, x, gradient).ravel().tolist() == [1, 0, 2, 0, 0, 3]
    lowest = np.full(tensor.sizes, -np.inf, np.float32)
    assert run_single(desc, lowest, gradient).ravel().tolist() == [1, 0, 2, 0, 3, 0]


def test_gradients_that_are_no_numbers_stay_where_they_are() -> None:
    """An infinity reaches the elements of its window, or the largest one of them, and no other one."""
    tensor, pooled = TensorDesc("FLOAT32", [1, 1, 3, 3]), TensorDesc("FLOAT32", [1, 1, 2, 2])
    gradient = np.array([np.inf, 0, 0, 0], np.float32).reshape(pooled.sizes)
    tensors: dict[str, Any] = {"input_gradient_tensor": pooled, "output_gradient_tensor": tensor}
    average = operators.AveragePoolingGrad(include_padding=False, **tensors, **_square_window())
    expected = [np.inf, np.inf, 0, np.inf, np.inf, 0, 0, 0, 0]
    assert run_single(average, gradient).ravel().tolist() == expected
    largest = operators.MaxPoolingGrad(input_tensor=tensor, dilations=[1, 1], **tensors, **_square_window())
    x = np.arange(9, dtype=np.float32).reshape(tensor.sizes)
    assert run_single(largest, x, gradient).ravel().tolist() == [0, 0, 0, 0, np.inf, 0, 0, 0, 0]


def test_huge_paddings_and_strides() -> None:
    """Windows that are mostly in the padding: no more work and memory than there are elements."""
    huge = 2**31
    tensor, pooled = TensorDesc("FLOAT32", [1, 1, 2, 3]), TensorDesc("FLOAT32", [1, 1, 2, 3])
    desc = operators.AveragePoolingGrad(
        input_gradient_tensor=pooled,
        output_gradient_tensor=tensor,
        strides=[huge, huge - 1],
        window_size=[huge, 3],
        start_padding=[huge, huge - 2],
        end_padding=[huge, huge],
        include_padding=False,
    )
    gradient = np.array([[1, 2, 3], [4, 5, 6]], np.float32).reshape(pooled.sizes)
    # Of the rows' windows only the second one, 0 to huge - 1, has rows; of the columns' 1 to 3 has columns.
    assert run_single(desc, gradient).ravel().tolist() == [0, 5 / 4, 5 / 4, 0, 5 / 4, 5 / 4]


@pytest.mark.parametrize("include_padding", [False, True])
def test_average_pooling_grad_is_the_derivative(include_padding: bool) -> None:
    """The gradient of sum(pooled * g) is what differences of the pooling give; it is linear, so any step does."""
    tensor, pooled = TensorDesc("FLOAT32", [1, 1, 4, 5]), TensorDesc("FLOAT32", [1, 1, 3, 3])
    window = _square_window(3, 2, 1)
    forward = operators.AveragePooling(
        input_tensor=tensor, output_tensor=pooled.replace(sizes=[1, 1, 2, 3]), include_padding=include_padding, **window
    )
    g = np.random.default_rng(0).normal(size=(1, 1, 2, 3)).astype(np.float32)
    desc = operators.AveragePoolingGrad(
        input_gradient_tensor=forward.output_tensor,
        output_gradient_tensor=tensor,
        include_padding=include_padding,
        **window,
    )
    result = run_single(desc, g)
    for place in np.ndindex(4, 5):
        one = np.zeros(tensor.sizes, np.float32)
        one[0, 0, *place] = 1
        change = (run_operator(forward, [one])[0] * g).sum()
        np.testing.assert_allclose(result[0, 0, *place], change, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gradient", [0.0, 1.0, np.inf])
def test_windows_that_lie_in_the_padding_spread_nothing(gradient: float) -> None:
    """No window has an element of the tensor, so no quotient by their number of 0 may reach the output."""
    sliding = Sliding((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (1, 2), (1, 1), (0, 1), (0, 0))
    desc = operators.AveragePoolingGrad(
        input_gradient_tensor=TensorDesc("FLOAT32", sliding.output_sizes),
        output_gradient_tensor=TensorDesc("FLOAT32", sliding.sizes),
        include_padding=False,
        **sliding.fields(False),
    )
    assert run_single(desc, np.full(sliding.output_sizes, gradient, np.float32)) == 0


def test_against_pytorch() -> None:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    x = torch.randn(2, 3, 13, 18, requires_grad=True)
    for size, stride, padding in ((3, 2, 1), (2, 2, 0), (3, 1, 1), (5, 3, 2)):
        window: dict[str, Any] = _square_window(size, stride, padding)
        for include_padding in (None, False, True):
            y = (
                functional.max_pool2d(x, size, stride, padding)
                if include_padding is None
                else functional.avg_pool2d(x, size, stride, padding, count_include_pad=include_padding)
            )
            g = torch.randn_like(y)
            (expected,) = torch.autograd.grad(y, x, g)
            tensors: dict[str, Any] = {
                "input_gradient_tensor": TensorDesc("FLOAT32", g.shape),
                "output_gradient_tensor": TensorDesc("FLOAT32", x.shape),
            }
            if include_padding is None:
                source = TensorDesc("FLOAT32", x.shape)
                desc = operators.MaxPoolingGrad(input_tensor=source, dilations=[1, 1], **tensors, **window)
                result = run_single(desc, x.detach().numpy(), g.numpy())
            else:
                average = operators.AveragePoolingGrad(include_padding=include_padding, **tensors, **window)
                result = run_single(average, g.numpy())
            np.testing.assert_allclose(result, expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
def test_windows_that_read_the_same_place_again_under_a_mask(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of stride 0: a fold that is the same in all lanes, in a vector in which some lanes may not load."""
    try:
        host_target(level)
    except ConfigurationError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("OPENDML_CPU_FEATURES", level)
    tensors: dict[str, Any] = {
        "input_tensor": TensorDesc("FLOAT16", [2, 2, 2, 128], strides=[0, 2, 0, 2]),
        "input_gradient_tensor": TensorDesc("FLOAT16", [2, 2, 7, 1], strides=[0, 2, 0, 2]),
        "output_gradient_tensor": TensorDesc("FLOAT16", [2, 2, 2, 128], strides=[7, 3, 1, 15]),
    }
    desc = operators.MaxPoolingGrad(
        **tensors,
        strides=[1, 2**31],
        window_size=[1, 3],
        start_padding=[1, 1],
        end_padding=[4, 1],
        dilations=[50, 50],
    )
    x, gradient = (random_array(tensor, seed) for seed, (_, tensor) in enumerate(desc.inputs()) if tensor is not None)
    (expected,) = run_operator(desc, [x, gradient])
    assert_identical(compile_operator(desc, thread_count=1)(x, gradient), expected)
