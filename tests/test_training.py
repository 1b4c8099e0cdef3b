"""Batch normalisation in training, gradients of normalisations, and Adam: against formulas in float64, differences of
the forward formulas, and PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from execution import Array, inputs, outputs, random_array, run_operator, run_single, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.tensor import TensorDesc
from opendml.expression.ir import Fold, Load
from opendml.expression.rewriting import walk
from opendml.expression.statements import expressions_of

bounded = examples(20)
types = st.sampled_from(["FLOAT32", "FLOAT16"])

STATISTICS = [(1, 3, 1, 1), (2, 3, 1, 1), (2, 3, 4, 1), (2, 3, 4, 5), (1, 1, 1, 1), (1, 1, 4, 1)]
"""Sizes of statistics for images of {2, 3, 4, 5}."""


def normalized(x: Array, scale: Array, bias: Array, epsilon: float) -> Array:
    """The forward formula, along the dimensions in which ``scale`` has size 1."""
    axes = tuple(i for i, size in enumerate(scale.shape) if size == 1)
    mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    return np.asarray(scale * (x - mean) / np.sqrt(variance + epsilon) + bias)


def local_response(x: Array, cross_channel: bool, size: int, alpha: float, beta: float, bias: float) -> Array:
    """LOCAL_RESPONSE_NORMALIZATION by loops over the offsets of a window."""
    axes, total = ((1,) if cross_channel else (2, 3)), np.zeros_like(x)
    for offsets in itertools.product(range(-((size - 1) // 2), size // 2 + 1), repeat=len(axes)):
        here, there = [slice(None)] * 4, [slice(None)] * 4
        for axis, offset in zip(axes, offsets, strict=True):
            n = x.shape[axis]
            here[axis] = slice(max(0, -offset), max(0, n - max(0, offset)))
            there[axis] = slice(max(0, offset), max(0, n + min(0, offset)))
        total[tuple(here)] += x[tuple(there)] ** 2
    return x / (bias + alpha / size * total) ** beta


def differences(function: Callable[[Array], Array], x: Array, gradient: Array) -> Array:
    """The gradient of ``sum(function(x) * gradient)`` by central differences in float64."""
    result, step = np.zeros(x.shape), 1e-5
    for place in np.ndindex(x.shape):
        moved = [x.astype(np.float64) for _ in range(2)]
        moved[0][place] += step
        moved[1][place] -= step
        result[place] = ((function(moved[0]) - function(moved[1])) * gradient).sum() / (2 * step)
    return result


def numbers(shape: Sequence[int], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def f32(shape: Sequence[int]) -> TensorDesc:
    return TensorDesc("FLOAT32", shape)


def gradient_desc(cls: Any, shape: Sequence[int], statistics: Sequence[int], epsilon: float = 0.01) -> Operator:
    images = dict.fromkeys(("input_tensor", "input_gradient_tensor", "output_gradient_tensor"), f32(shape))
    names = ("mean_tensor", "variance_tensor", "scale_tensor", "output_scale_gradient_tensor")
    alike = dict.fromkeys((*names, "output_bias_gradient_tensor"), f32(statistics))
    desc: Operator = cls(**images, **alike, epsilon=epsilon)
    return desc


@pytest.mark.parametrize("statistics", STATISTICS)
def test_gradients_of_training_are_derivatives(statistics: tuple[int, ...]) -> None:
    shape, epsilon = (2, 3, 4, 5), 0.01
    x, g = numbers(shape), numbers(shape, 1)
    scale, bias = numbers(statistics, 2), numbers(statistics, 3)
    axes = tuple(i for i, size in enumerate(statistics) if size == 1)
    mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    arrays = [a.astype(np.float32) for a in (x, g, mean, variance, scale)]
    found = run_operator(gradient_desc(operators.BatchNormalizationTrainingGrad, shape, statistics), arrays)
    expected = (
        differences(lambda v: normalized(v, scale, bias, epsilon), x, g),
        differences(lambda v: normalized(x, v, bias, epsilon), scale, g),
        differences(lambda v: normalized(x, scale, v, epsilon), bias, g),
    )
    for actual, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max() + 1e-6)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_gradients_by_given_statistics_are_derivatives(statistics: tuple[int, ...]) -> None:
    shape, epsilon = (2, 3, 4, 5), 0.01
    x, g = numbers(shape), numbers(shape, 1)
    mean, variance, scale, bias = (numbers(statistics, seed) for seed in range(2, 6))
    variance = variance**2

    def forward(x: Array, scale: Array, bias: Array) -> Array:
        return np.asarray(scale * (x - mean) / np.sqrt(variance + epsilon) + bias)

    arrays = [a.astype(np.float32) for a in (x, g, mean, variance, scale)]
    found = run_operator(gradient_desc(operators.BatchNormalizationGrad, shape, statistics), arrays)
    expected = (
        differences(lambda v: forward(v, scale, bias), x, g),
        differences(lambda v: forward(x, v, bias), scale, g),
        differences(lambda v: forward(x, scale, v), bias, g),
    )
    for actual, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("shape", [(6, 3, 4, 5), (2, 2, 1, 40000)], ids=["whole", "in pieces"])
def test_gradients_of_training_hold_for_any_given_mean(shape: tuple[int, ...]) -> None:
    """The input's own mean counts, wherever the sums begin."""
    statistics, epsilon = (1, shape[1], 1, 1), 0.01
    x, g, scale = (numbers(s, seed) for s, seed in ((shape, 0), (shape, 1), (statistics, 2)))
    mean, variance = numbers(statistics, 3), numbers(statistics, 4) ** 2
    arrays = [a.astype(np.float32) for a in (x, g, mean, variance, scale)]
    found, *_ = run_operator(gradient_desc(operators.BatchNormalizationTrainingGrad, shape, statistics), arrays)

    def mean_of(v: Array) -> Array:
        return np.asarray(v.mean(axis=(0, 2, 3), keepdims=True))

    centred = x - mean_of(x)
    covariance = mean_of(g * centred)
    expected = scale / np.sqrt(variance + epsilon) * (g - mean_of(g) - centred * covariance / (variance + epsilon))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cls", [operators.BatchNormalizationGrad, operators.BatchNormalizationTrainingGrad])
@pytest.mark.parametrize("shape", [(2, 64, 8, 8), (2, 2, 1, 40000)], ids=["whole", "in pieces"])
def test_sums_of_gradients_read_the_images_once(cls: Any, shape: tuple[int, ...]) -> None:
    definition = gradient_desc(cls, shape, (1, shape[1], 1, 1)).define()
    images = [t for t in definition.inputs if t is not None and t.sizes == shape]
    folds = {e for s in definition.statements for root in expressions_of(s) for e in walk(root) if isinstance(e, Fold)}
    reading = [f for f in folds if any(isinstance(e, Load) and e.tensor in images for e in walk(f))]
    assert len(reading) == 1


@bounded
@given(data=st.data(), shape=sizes(1, 5, limit=200), data_type=types, seed=seeds)
def test_batch_normalization_training(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    part = [data.draw(st.sampled_from((1, size))) for size in shape]
    source, scale, bias, added = (data.draw(inputs(data_type, s)) for s in (shape, part, part, shape))
    with_sum, with_relu = data.draw(st.booleans()), data.draw(st.booleans())
    desc = operators.BatchNormalizationTraining(
        input_tensor=source,
        scale_tensor=scale,
        bias_tensor=bias,
        fused_add_tensor=added if with_sum else None,
        output_tensor=data.draw(outputs(data_type, shape)),
        output_mean_tensor=data.draw(outputs(data_type, part)),
        output_variance_tensor=data.draw(outputs(data_type, part)),
        epsilon=0.25,
        fused_activation=operators.ActivationRelu() if with_relu else None,
    )
    arrays = [random_array(t, seed + i, special=False) for i, t in enumerate((source, scale, bias, added))]
    x, s, b, a = (array.astype(np.float64) for array in arrays)
    output, mean, variance = run_operator(desc, [*arrays[:3], arrays[3] if with_sum else None])
    axes = tuple(i for i, size in enumerate(part) if size == 1)
    expected = normalized(x, s, b, 0.25) + (a if with_sum else 0)
    close: dict[str, Any] = {"rtol": 2e-3, "atol": 2e-3} if data_type == "FLOAT16" else {"rtol": 1e-5, "atol": 3e-5}
    np.testing.assert_allclose(output, np.maximum(expected, 0) if with_relu else expected, **close)
    np.testing.assert_allclose(mean, x.mean(axis=axes, keepdims=True), **close)
    np.testing.assert_allclose(variance, x.var(axis=axes, keepdims=True), **close)


def test_large_groups_are_summed_in_pieces() -> None:
    """Few channels of many elements: partial results, and the same values."""
    shape, statistics = (2, 2, 1, 40000), (1, 2, 1, 1)
    x, g = numbers(shape).astype(np.float32) + 3, numbers(shape, 1).astype(np.float32)
    scale, bias = numbers(statistics, 2).astype(np.float32), numbers(statistics, 3).astype(np.float32)
    desc = operators.BatchNormalizationTraining(
        input_tensor=f32(shape),
        scale_tensor=f32(statistics),
        bias_tensor=f32(statistics),
        output_tensor=f32(shape),
        output_mean_tensor=f32(statistics),
        output_variance_tensor=f32(statistics),
        epsilon=0.01,
    )
    output, mean, variance = run_operator(desc, [x, scale, bias, None])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(output, normalized(wide, scale, bias, 0.01), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, wide.mean(axis=(0, 2, 3), keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(variance, wide.var(axis=(0, 2, 3), keepdims=True), rtol=1e-5)
    backward = gradient_desc(operators.BatchNormalizationTrainingGrad, shape, statistics)
    _, scale_gradient, bias_gradient = run_operator(backward, [x, g, mean, variance, scale])
    centred = (wide - mean) / np.sqrt(variance.astype(np.float64) + 0.01)
    close: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-2}
    np.testing.assert_allclose(scale_gradient, (g * centred).sum(axis=(0, 2, 3), keepdims=True), **close)
    np.testing.assert_allclose(bias_gradient, g.sum(axis=(0, 2, 3), keepdims=True, dtype=np.float64), **close)


@pytest.mark.parametrize("cross_channel", [False, True])
@pytest.mark.parametrize("local_size", [1, 2, 3, 4, 9])
def test_local_response_normalization_grad_is_the_derivative(cross_channel: bool, local_size: int) -> None:
    shape = (1, 4, 3, 5)
    parameters: dict[str, Any] = {"alpha": 0.3, "beta": 0.75, "bias": 1.5}
    x, g = numbers(shape), numbers(shape, 1)
    desc = operators.LocalResponseNormalizationGrad(
        input_tensor=f32(shape),
        input_gradient_tensor=f32(shape),
        output_gradient_tensor=f32(shape),
        cross_channel=cross_channel,
        local_size=local_size,
        **parameters,
    )
    expected = differences(lambda v: local_response(v, cross_channel, local_size, **parameters), x, g)
    result = run_single(desc, x.astype(np.float32), g.astype(np.float32))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_batch_normalization_against_pytorch() -> None:
    torch = pytest.importorskip("torch")
    shape, statistics = (3, 5, 7, 9), (1, 5, 1, 1)
    x, scale, bias = torch.randn(shape, requires_grad=True), *(torch.randn(5, requires_grad=True) for _ in range(2))
    y = torch.nn.functional.batch_norm(x, None, None, scale, bias, True, 0.1, 1e-3)
    g = torch.randn(shape)
    expected = torch.autograd.grad(y, (x, scale, bias), g)
    alike: dict[str, Any] = dict.fromkeys(
        ("scale_tensor", "bias_tensor", "output_mean_tensor", "output_variance_tensor"), f32(statistics)
    )
    forward = operators.BatchNormalizationTraining(
        input_tensor=f32(shape), output_tensor=f32(shape), **alike, epsilon=1e-3
    )
    affine = [v.detach().numpy().reshape(statistics) for v in (scale, bias)]
    output, mean, variance = run_operator(forward, [x.detach().numpy(), *affine, None])
    np.testing.assert_allclose(output, y.detach().numpy(), rtol=1e-4, atol=1e-5)
    desc = gradient_desc(operators.BatchNormalizationTrainingGrad, shape, statistics, 1e-3)
    found = run_operator(desc, [x.detach().numpy(), g.numpy(), mean, variance, affine[0]])
    for actual, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(actual.ravel(), wanted.numpy().ravel(), rtol=1e-4, atol=1e-4)


def adam(shape: Sequence[int], data_type: str = "FLOAT32", **changes: Any) -> operators.AdamOptimizer:
    names = [name for name in operators.AdamOptimizer.fields if name.endswith("_tensor")]
    tensors: dict[str, Any] = dict.fromkeys(names, TensorDesc(data_type, shape))
    tensors["training_step_tensor"] = TensorDesc("UINT32", [1] * len(shape))
    parameters = {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
    return operators.AdamOptimizer(**tensors, **(parameters | changes))


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("step", [1, 2, 1000, 2**32 - 1])
def test_adam_optimizer(data_type: str, step: int) -> None:
    desc = adam((1, 2, 3, 11), data_type, learning_rate=0.5, epsilon=0.001)
    x, m, v, g = (numbers((1, 2, 3, 11), seed).astype(data_type.lower()) for seed in range(4))
    v = np.abs(v)
    found = run_operator(desc, [x, m, v, g, np.full((1, 1, 1, 1), step, np.uint32)])
    beta1, beta2 = (float(np.float32(beta)) for beta in (0.9, 0.999))
    x, m, v, g = (array.astype(np.float64) for array in (x, m, v, g))
    first, second = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    rate = 0.5 * np.sqrt(1 - beta2**step) / (1 - beta1**step)
    expected = (x - rate * first / (np.sqrt(second) + 0.001), first, second)
    rtol = 2e-3 if data_type == "FLOAT16" else 2e-5
    for actual, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=rtol)


def test_adam_of_step_0_is_the_formula() -> None:
    """The corrections are 0 / 0 there: the parameters are NaN, the moments as ever."""
    one = np.ones((1, 1, 1, 2), np.float32)
    parameters, first, second = run_operator(adam(one.shape), [one, one, one, one, np.zeros((1, 1, 1, 1), np.uint32)])
    assert np.isnan(parameters).all()
    np.testing.assert_allclose([first, second], 1, rtol=1e-6)


def test_adam_against_pytorch() -> None:
    torch = pytest.importorskip("torch")
    shape = (1, 1, 3, 17)
    desc = adam(shape)
    parameter = torch.nn.Parameter(torch.randn(shape))
    x, m, v = parameter.detach().numpy().copy(), np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    optimizer = torch.optim.Adam([parameter], lr=0.01, betas=(0.9, 0.999), eps=0)
    for step in range(1, 5):
        parameter.grad = torch.randn(shape)
        optimizer.step()
        g, t = parameter.grad.numpy(), np.full((1, 1, 1, 1), step, np.uint32)
        x, m, v = run_operator(desc.replace(epsilon=0), [x, m, v, g, t])
        np.testing.assert_allclose(x, parameter.detach().numpy(), rtol=1e-4, atol=1e-5)
