"""The normalisations against NumPy: exactly where only the order of sums is free, else within rounding errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from execution import (
    Array,
    assert_identical,
    assert_same_values,
    inputs,
    outputs,
    random_array,
    run_operator,
    run_single,
    seeds,
    sizes,
)
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from sample_descriptors import sample
from sample_tensors import f32

from opendml import operators
from opendml.description.descriptors import Operator
from opendml.description.enums import FeatureLevel
from opendml.description.errors import InvalidDescriptorError
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate
from opendml.expression.statements import reads_of
from opendml.functions.versions import version_for
from opendml.targets.cpu.refine.refining import refined_definition
from opendml.targets.cpu.target import host_target

bounded = examples(12)
few = examples(6)
float_types = st.sampled_from(["FLOAT32", "FLOAT16"])
ACTIVATIONS = [None, operators.ActivationRelu(), operators.ActivationLinear(alpha=-2, beta=0.5)]

# Groups that are one run at the end of the tensor, and others; long enough for lanes, and not.
SHAPES = [
    ((3, 40), (1,)),
    ((2, 3, 4, 9), (2, 3)),
    ((2, 3, 4, 9), (3, 1, 2)),
    ((2, 18, 5), (1,)),
    ((17, 2, 20), (2, 0)),
    ((2, 2, 3), (2,)),
    ((5, 1, 1), (1,)),
    ((70,), (0,)),
    ((2, 1, 33), (0, 1, 2)),
    ((2, 3, 5), ()),
]


def parts(data: st.DataObject, data_type: str, shape: Sequence[int]) -> TensorDesc:
    """The description of a tensor that broadcasts to a shape."""
    return data.draw(inputs(data_type, [data.draw(st.sampled_from([1, size])) for size in shape]))


def activated(activation: Operator | None, y: Array) -> Array:
    if isinstance(activation, operators.ActivationRelu):
        return np.where(y < 0, np.float32(0), y)
    return y if activation is None else y * np.float32(-2) + np.float32(0.5)


@bounded
@given(
    data=st.data(), shape=sizes(), data_type=float_types, activation=st.sampled_from(ACTIVATIONS), seed=seeds,
    epsilon=st.sampled_from([1e-5, 0.0, 0.5]), special=st.booleans(),
)  # fmt: skip
def test_batch_normalization(
    data: st.DataObject,
    shape: list[int],
    data_type: str,
    activation: Operator | None,
    seed: int,
    epsilon: float,
    special: bool,
) -> None:
    source = data.draw(inputs(data_type, shape))
    given_tensors = [parts(data, data_type, shape) for _ in range(4)]
    names = ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")
    desc = operators.BatchNormalization(
        input_tensor=source,
        **dict(zip(names, given_tensors, strict=True)),
        output_tensor=data.draw(outputs(data_type, shape)),
        spatial=data.draw(st.booleans()),
        epsilon=epsilon,
        fused_activation=activation,
    )
    arrays = [random_array(tensor, seed + i, special) for i, tensor in enumerate([source, *given_tensors])]
    x, mean, variance, scale, bias = (array.astype(np.float32) for array in arrays)
    with np.errstate(all="ignore"):
        inverse = np.float32(1) / np.sqrt(variance + np.float32(epsilon))
        expected = activated(activation, scale * ((x - mean) * inverse) + bias).astype(arrays[0].dtype)
    assert_same_values(run_single(desc, *arrays), expected)


@pytest.mark.parametrize("strides", [None, [1, 6]])
def test_batch_normalization_of_features(strides: list[int] | None) -> None:
    """The deviation along the fastest dimension is computed once, with the same bits."""
    tensor, row = TensorDesc("FLOAT32", [6, 33]), TensorDesc("FLOAT32", [1, 33])
    fields: dict[str, Any] = {f"{name}_tensor": row for name in ("mean", "variance", "scale", "bias")}
    target = TensorDesc("FLOAT32", [6, 33], strides)
    desc = operators.BatchNormalization(input_tensor=tensor, **fields, output_tensor=target, spatial=True, epsilon=1e-3)
    assert len(desc.define().statements) == 1
    assert len(refined_definition(desc, host_target()).statements) == (2 if strides is None else 1)
    x, mean, variance, scale, bias = (random_array(t, i, False) for i, t in enumerate([tensor, *[row] * 4]))
    variance = np.abs(variance)
    expected = scale * ((x - mean) * (np.float32(1) / np.sqrt(variance + np.float32(1e-3)))) + bias
    assert_identical(run_single(desc, x, mean, variance, scale, bias), expected)
    formula = scale * ((x - mean.astype(float)) / np.sqrt(variance + 1e-3)) + bias
    np.testing.assert_allclose(expected, formula, rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------------------------------------------------------


def normalized(
    x: Array, axes: tuple[int, ...], use_mean: bool, use_variance: bool, epsilon: float, scale: Any, bias: Any
) -> Array:
    """The formula in float64."""
    y = x.astype(np.float64)
    if use_mean:
        y = y - y.mean(axis=axes, keepdims=True)
    if use_variance:
        y = y / np.sqrt((y * y).mean(axis=axes, keepdims=True) + epsilon)
    y = y if scale is None else y * scale.astype(np.float64)
    return y if bias is None else y + bias.astype(np.float64)


def assert_close(actual: Array, expected: Array) -> None:
    """Within the errors of sums of some hundred small numbers, and of one rounding to the type."""
    bound = 3e-5 + (np.abs(expected) * 2.0**-11 + 2.0**-25 if actual.dtype == np.float16 else 0)
    assert (np.abs(actual.astype(np.float64) - expected) <= bound * np.maximum(1, np.abs(expected))).all()


@pytest.mark.sampled
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@few
@given(
    data=st.data(), data_type=float_types, activation=st.sampled_from(ACTIVATIONS), seed=seeds,
    use_mean=st.booleans(), use_variance=st.booleans(),
)  # fmt: skip
def test_mean_variance_normalization(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    data: st.DataObject,
    data_type: str,
    activation: Operator | None,
    seed: int,
    use_mean: bool,
    use_variance: bool,
) -> None:
    source = data.draw(inputs(data_type, shape))
    scale, bias = (parts(data, data_type, shape) if data.draw(st.booleans()) else None for _ in range(2))
    target = data.draw(outputs(data_type, shape))
    fields: dict[str, Any] = {
        "input_tensor": source, "scale_tensor": scale, "bias_tensor": bias, "axes": axes, "epsilon": 0.125
    }  # fmt: skip
    desc = operators.MeanVarianceNormalization2(
        **fields, output_tensor=target, use_mean=use_mean, use_variance=use_variance, fused_activation=activation
    )
    tensors = (source, scale, bias)
    arrays = [None if t is None else random_array(t, seed + i, special=False) for i, t in enumerate(tensors)]
    actual = run_single(desc, *arrays)
    x, *affine = arrays
    assert x is not None
    assert_close(actual, activated(activation, normalized(x, axes, use_mean, use_variance, 0.125, *affine)))
    # The order of the sums does not depend on strides.
    packed = desc.replace(
        output_tensor=TensorDesc(data_type, shape),
        **{
            name: None if tensor is None else TensorDesc(data_type, tensor.sizes)
            for name, tensor in zip(("input_tensor", "scale_tensor", "bias_tensor"), tensors, strict=True)
        },
    )
    assert_identical(run_single(packed, *arrays), actual)
    if use_mean:
        older = operators.MeanVarianceNormalization1(
            **fields, output_tensor=target, normalize_variance=use_variance, fused_activation=activation
        )
        assert_identical(run_single(older, *arrays), actual)


@pytest.mark.parametrize("cross_channel", [False, True])
def test_mean_variance_normalization_of_images(cross_channel: bool) -> None:
    images = TensorDesc("FLOAT32", [2, 3, 5, 4])
    per_channel = TensorDesc("FLOAT32", [1, 3, 1, 1])
    desc = operators.MeanVarianceNormalization(
        input_tensor=images,
        scale_tensor=per_channel,
        bias_tensor=per_channel,
        output_tensor=images,
        cross_channel=cross_channel,
        normalize_variance=True,
        epsilon=1e-5,
    )
    x, scale, bias = (random_array(t, i, special=False) for i, t in enumerate([images, per_channel, per_channel]))
    axes = (1, 2, 3) if cross_channel else (2, 3)
    assert_close(run_single(desc, x, scale, bias), normalized(x, axes, True, True, 1e-5, scale, bias))


def layer(shape: Sequence[int], axes: Sequence[int], **changes: Any) -> operators.MeanVarianceNormalization2:
    tensor = TensorDesc("FLOAT32", shape)
    fields: dict[str, Any] = {"input_tensor": tensor, "output_tensor": tensor, "epsilon": 1e-5}
    return operators.MeanVarianceNormalization2(**fields | changes, axes=axes, use_mean=True, use_variance=True)


def test_the_variance_does_not_cancel() -> None:
    """Differences of large squares would have no correct digit here."""
    x = (1e6 + np.random.default_rng(1).integers(-8, 9, (2, 64))).astype(np.float32)
    actual = run_single(layer([2, 64], [1]), x, None, None)
    np.testing.assert_allclose(actual, normalized(x, (1,), True, True, 1e-5, None, None), atol=0.02)


def test_long_groups_are_normalized_in_pieces() -> None:
    x = np.random.default_rng(2).normal(5, 3, (2, 40_000)).astype(np.float32)
    desc = layer([2, 40_000], [1])
    assert len(desc.define().statements) > 1
    np.testing.assert_allclose(
        run_single(desc, x, None, None), normalized(x, (1,), True, True, 1e-5, None, None), atol=2e-5
    )


@pytest.mark.parametrize(
    ("shape", "axes"),
    [([2, 3, 130, 90], [1, 2, 3]), ([4, 9, 10000], [0, 2]), ([1, 40, 50, 20], [1, 2])],
    ids=["rows", "every channel", "channels last"],
)
def test_pieces_have_means_of_their_own(shape: list[int], axes: list[int]) -> None:
    """Values far from zero that drift: no piece's mean is that of its group, and the last piece is shorter."""
    count = math.prod(shape)
    x = (1000 + np.random.default_rng(3).normal(0, 1, count) + np.linspace(0, 20, count)).astype(np.float32)
    desc, x = layer(shape, axes), x.reshape(shape)
    actual = run_single(desc, x, None, None)
    np.testing.assert_allclose(actual, normalized(x, tuple(axes), True, True, 1e-5, None, None), atol=2e-4)


@pytest.mark.parametrize("shape", [[2, 40_000], [1, 5, 20_000]], ids=["rows", "an image"])
def test_large_groups_are_read_twice(shape: list[int]) -> None:
    """By the statement of the pieces, which folds each of them twice, and by that of the elements."""
    definition = layer(shape, list(range(1, len(shape)))).define()
    reading = [s for s in definition.statements if definition.inputs[0] in reads_of(s)]
    assert len(reading) == 2


def test_equal_elements_are_normalized_to_zero() -> None:
    x = np.full((1, 20), 3, np.float32)
    assert_identical(run_single(layer([1, 20], [1]), x, None, None), np.zeros((1, 20), np.float32))
    assert np.isnan(run_single(layer([1, 20], [1], epsilon=0), x, None, None)).all()


SINGLE_STATEMENTS = [
    layer([4, 7, 32], [2], scale_tensor=f32(1, 1, 32), bias_tensor=f32(1, 1, 32)),
    layer([4, 7, 3, 32], [2, 3], scale_tensor=f32(1, 7, 1, 1)),
    operators.LpNormalization(input_tensor=f32(2, 3, 20), output_tensor=f32(2, 3, 20), axis=2, epsilon=0, p=2),
    sample(operators.LocalResponseNormalization),
    sample(operators.BatchNormalization),
    sample(operators.ValueScale2D),
]


@pytest.mark.parametrize("desc", SINGLE_STATEMENTS, ids=lambda desc: desc.type.name)
def test_groups_at_the_end_are_one_statement(desc: Operator) -> None:
    """The reductions stand inside the statement that stores; nothing is kept in memory."""
    definition = refined_definition(desc, host_target())
    assert len(definition.statements) == 1
    assert not definition.temporaries


# ---------------------------------------------------------------------------------------------------------------------


def local_response(x: Array, cross_channel: bool, size: int, alpha: float, beta: float, bias: float) -> Array:
    """Point by point."""
    result = np.empty(x.shape)
    before, behind = math.floor((size - 1) / 2), math.ceil((size - 1) / 2)

    def window(i: int, count: int) -> slice:
        return slice(max(0, i - before), min(count - 1, i + behind) + 1)

    for n, c, h, w in np.ndindex(x.shape):
        _, channels, height, width = x.shape
        if cross_channel:
            around = x[n, window(c, channels), h, w]
        else:
            around = x[n, c, window(h, height), window(w, width)]
        squares = np.sum(around.astype(np.float64) ** 2)
        result[n, c, h, w] = x[n, c, h, w] / (bias + alpha / size * squares) ** beta
    return result


@examples(24)
@given(
    data=st.data(),
    shape=sizes(4, 4),
    data_type=float_types,
    cross_channel=st.booleans(),
    size=st.sampled_from([1, 2, 3, 4, 5, 9, 2**32 - 1]),
    beta=st.sampled_from([0.75, 0.5, 0.25, 1.0, 1.25, 2.0, 0.0, 0.6, -0.75, 3.0]),
    seed=seeds,
)
def test_local_response_normalization(
    data: st.DataObject,
    shape: list[int],
    data_type: str,
    cross_channel: bool,
    size: int,
    beta: float,
    seed: int,
) -> None:
    source, target = data.draw(inputs(data_type, shape)), data.draw(outputs(data_type, shape))
    parameters = {"alpha": 0.5 * size, "beta": beta, "bias": 1.5}
    desc = operators.LocalResponseNormalization(
        input_tensor=source, output_tensor=target, cross_channel=cross_channel, local_size=size, **parameters
    )
    x = random_array(source, seed, special=False)
    expected = local_response(x, cross_channel, size, desc.alpha, desc.beta, desc.bias)
    tiny = np.finfo(x.dtype).smallest_subnormal
    np.testing.assert_allclose(run_single(desc, x), expected, rtol=2e-3 if x.itemsize == 2 else 2e-6, atol=tiny)


@pytest.mark.parametrize(("shape", "axes"), [case for case in SHAPES if len(case[1]) == 1])
@few
@given(data=st.data(), data_type=float_types, p=st.sampled_from([1, 2]), seed=seeds)
def test_lp_normalization(
    shape: tuple[int, ...], axes: tuple[int, ...], data: st.DataObject, data_type: str, p: int, seed: int
) -> None:
    source, target = data.draw(inputs(data_type, shape)), data.draw(outputs(data_type, shape))
    epsilon = data.draw(st.sampled_from([0.0, 1e-5, 12.0]))
    desc = operators.LpNormalization(input_tensor=source, output_tensor=target, axis=axes[0], epsilon=epsilon, p=p)
    x = random_array(source, seed, special=False)
    norm = np.linalg.norm(x.astype(np.float64), p, axes[0], keepdims=True)
    expected = x / np.maximum(norm, epsilon)
    rtol = 1e-3 if data_type == "FLOAT16" else 2e-6
    np.testing.assert_allclose(run_single(desc, x), expected, rtol=rtol, atol=np.finfo(x.dtype).smallest_subnormal)


def test_lp_normalization_of_special_lines() -> None:
    tensor = TensorDesc("FLOAT32", [4, 2])
    x = np.array([[0, -0.0], [1e-6, 0], [np.nan, 1], [np.inf, 1]], np.float32)
    desc = operators.LpNormalization(input_tensor=tensor, output_tensor=tensor, axis=1, epsilon=1e-5, p=1)
    expected = np.array([[0, -0.0], [np.float32(1e-6) / np.float32(1e-5), 0], [np.nan, np.nan], [np.nan, 0]])
    assert_same_values(run_single(desc, x), expected.astype(np.float32))
    unguarded = run_single(desc.replace(epsilon=0), x)
    assert np.isnan(unguarded[0]).all()
    assert unguarded[1].tolist() == [1, 0]


@bounded
@given(data=st.data(), shape=sizes(4, 4), data_type=float_types, channels=st.sampled_from([1, 3]), seed=seeds)
def test_value_scale_2d(data: st.DataObject, shape: list[int], data_type: str, channels: int, seed: int) -> None:
    shape[1] = channels
    source, target = data.draw(inputs(data_type, shape)), data.draw(outputs(data_type, shape))
    bias = [0.25, -3.5, 1e-3][:channels]
    desc = operators.ValueScale2D(input_tensor=source, output_tensor=target, scale=-0.3, bias=bias)
    x = random_array(source, seed)
    with np.errstate(all="ignore"):
        shift = np.array(bias, np.float32).reshape(-1, 1, 1)
        expected = (x.astype(np.float32) * np.float32(-0.3) + shift).astype(x.dtype)
    assert_same_values(run_single(desc, x), expected)


# ---- rules


def problems(desc: Operator, level: str) -> list[str]:
    return [str(violation) for violation in validate(desc, level)]


OLD_RULES = [
    (
        operators.BatchNormalization,
        {"scale_tensor": f32(2, 1, 4, 5)},
        "3_1",
        "4_0",
        "ScaleTensor.Sizes[1]: must be InputTensor.Sizes[1] = 3",
    ),
    (
        operators.BatchNormalization,
        {"spatial": False},
        "3_1",
        "4_0",
        "MeanTensor.Sizes[2]: must be InputTensor.Sizes[2] = 4",
    ),
    (operators.MeanVarianceNormalization1, {"bias_tensor": f32(1, 1, 1, 1)}, "3_1", "4_0", "BiasTensor.Sizes[1]"),
    (operators.MeanVarianceNormalization1, {"scale_tensor": None}, "5_1", "5_2", "must be given both or not at all"),
    (operators.MeanVarianceNormalization, {"bias_tensor": None}, "5_1", "5_2", "must be given both or not at all"),
]


@pytest.mark.parametrize(("cls", "changes", "before", "since", "text"), OLD_RULES)
def test_rules_that_later_levels_relax(
    cls: type[Operator], changes: dict[str, Any], before: str, since: str, text: str
) -> None:
    desc = sample(cls, **changes)
    assert not problems(desc, since)
    found = problems(desc, before)
    assert found and text in found[0] and f"(allowed from feature level {since} on)" in found[0]


def test_the_first_version_always_broadcast_channels() -> None:
    assert not problems(sample(operators.MeanVarianceNormalization, scale_tensor=f32(1, 1, 1, 1)), "1_0")


BROKEN = [
    (
        operators.BatchNormalization,
        {"mean_tensor": f32(1, 2, 1, 1)},
        "MeanTensor.Sizes[1]: must be 1 or InputTensor.Sizes[1] = 3",
    ),
    (operators.BatchNormalization, {"bias_tensor": f32(3, 1, 1)}, "BiasTensor: must have the DimensionCount"),
    (
        operators.BatchNormalization,
        {"output_tensor": f32(2, 3, 4, 6)},
        "OutputTensor.Sizes[3]: must be InputTensor.Sizes[3] = 5",
    ),
    (
        operators.MeanVarianceNormalization2,
        {"scale_tensor": f32(2, 3, 2, 5)},
        "ScaleTensor.Sizes[2]: must be 1 or InputTensor.Sizes[2] = 4",
    ),
    (operators.MeanVarianceNormalization2, {"axes": [4]}, "Axes[0]: must be less than InputTensor.DimensionCount = 4"),
    (operators.MeanVarianceNormalization1, {"axes": [1, 1]}, "Axes[1]: must not name a dimension again"),
    (operators.LocalResponseNormalization, {"local_size": 0}, "LocalSize: must be at least 1"),
    (operators.LpNormalization, {"p": 3}, "P: must be 1 or 2"),
    (operators.LpNormalization, {"axis": 4}, "Axis: must be less than"),
    (operators.ValueScale2D, {"bias": [1, 2]}, "ChannelCount: must be 1 or 3"),
    (operators.ValueScale2D, {"bias": [1]}, "InputTensor.Sizes[1]: must be ChannelCount = 1"),
]


@pytest.mark.parametrize(("cls", "changes", "text"), BROKEN)
def test_rules(cls: type[Operator], changes: dict[str, Any], text: str) -> None:
    found = problems(sample(cls, **changes), "6_4")
    assert len(found) == 1 and text in found[0]


def test_older_versions_say_the_same() -> None:
    newest = sample(operators.MeanVarianceNormalization2)
    first = version_for(newest.replace(axes=[3, 2]), FeatureLevel.parse("2_0"))
    assert first == sample(operators.MeanVarianceNormalization)
    assert version_for(newest, FeatureLevel.parse("6_2")) == sample(operators.MeanVarianceNormalization1, axes=[1, 3])
    with pytest.raises(InvalidDescriptorError, match=r"Axes: must be \{1, 2, 3\} or \{2, 3\} at"):
        version_for(newest, FeatureLevel.parse("2_0"))
    with pytest.raises(InvalidDescriptorError, match="UseMean: must be true at feature level 6_2"):
        version_for(newest.replace(use_mean=False), FeatureLevel.parse("6_2"))


def test_json_keeps_the_bias() -> None:
    desc = sample(operators.ValueScale2D, bias=[float("inf"), 0.1, -0.0])
    assert Operator.from_json(desc.to_json()) == desc
    (output,) = run_operator(desc.replace(bias=[0, 0, 0], scale=1), [np.ones((2, 3, 4, 5), np.float32)])
    assert (output == 1).all()
