"""The activations, on their own and as functions, against NumPy in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    run_single,
    seeds,
    sizes,
)
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from test_mathematics import assert_error

from opendml import operators
from opendml.description.enums import OperatorType
from opendml.description.tensor import TensorDesc
from opendml.expression.element_types import F32, I32
from opendml.expression.ir import Variable, constant
from opendml.operators.activation import FUSABLE_WITH_CLIP
from opendml.operators.activation_functions import ACTIVATIONS, activate, clip
from opendml.programs.device import compile_operator

bounded = examples(20)
INFINITY = float("inf")
NAN = float("nan")

SIGNED = ["FLOAT32", "FLOAT16", "INT32", "INT16", "INT8"]

Reference = Callable[..., Array]


def single(value: Array) -> Array:
    """A rounding to float32 on the way, of a float64 value."""
    return value.astype(np.float32).astype(np.float64)


def erfc(x: Array) -> Array:
    return np.array([math.erfc(value) for value in x.reshape(-1).tolist()]).reshape(x.shape)


def swish(x: Array, sigmoid_input_scale: float) -> Array:
    return np.asarray(x / (1 + np.exp(-single(x * sigmoid_input_scale))))


# The references take float64 arrays of float32 values; what they leave to one last rounding is given to more precision.
EXACT: dict[str, Reference] = {
    "hard_sigmoid": lambda x, alpha, beta: clamp(single(single(x * alpha) + beta), 0.0, 1.0),
    "hard_swish": lambda x, alpha, beta: x * clamp(single(single(x * alpha) + beta), 0.0, 1.0),
    "identity": lambda x: x,
    "leaky_relu": lambda x, alpha: np.where(x >= 0, x, alpha * x),
    "linear": lambda x, alpha, beta: single(alpha * x) + beta,
    "relu": lambda x: np.where(x < 0, 0.0, x),
    "shrink": lambda x, bias, threshold: np.where(x > threshold, x - bias, np.where(x < -threshold, x + bias, 0.0)),
    "softsign": lambda x: x / single(1 + np.abs(x)),
    "thresholded_relu": lambda x, alpha: np.where(x > alpha, x, 0.0),
}
# Those with transcendental functions: the error bound in units in the last place.
CLOSE: dict[str, tuple[Reference, float]] = {
    "celu": (lambda x, alpha: np.where(x >= 0, x, alpha * np.expm1(single(x / alpha))), 2.5),
    "elu": (lambda x, alpha: np.where(x >= 0, x, alpha * np.expm1(x)), 2.5),
    "gelu": (lambda x: x * (0.5 * erfc(x * -math.sqrt(0.5))), 1.79),
    "parametric_softplus": (lambda x, alpha, beta: alpha * np.logaddexp(0, single(beta * x)), 3.0),
    "scaled_elu": (lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x)), 3.5),
    "scaled_tanh": (lambda x, alpha, beta: alpha * np.tanh(single(beta * x)), 2.5),
    "sigmoid": (lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))), 2.0),
    "softplus": (lambda x, steepness: np.logaddexp(0, single(steepness * x)) / steepness, 3.0),
    "swish": (swish, 3.0),
    "tanh": (np.tanh, 1.98),
}
PARAMETERS: dict[str, tuple[str, ...]] = {
    "celu": ("alpha",),
    "elu": ("alpha",),
    "hard_sigmoid": ("alpha", "beta"),
    "hard_swish": ("alpha", "beta"),
    "leaky_relu": ("alpha",),
    "linear": ("alpha", "beta"),
    "parametric_softplus": ("alpha", "beta"),
    "scaled_elu": ("alpha", "gamma"),
    "scaled_tanh": ("alpha", "beta"),
    "shrink": ("bias", "threshold"),
    "softplus": ("steepness",),
    "swish": ("sigmoid_input_scale",),
    "thresholded_relu": ("alpha",),
}

numbers = st.sampled_from([1.0, 0.5, -0.25, 1.6732, 2.0, 0.01, -3.5]).map(lambda value: float(np.float32(value)))


def clamp(x: Array, low: float, high: float) -> Array:
    below = np.where(x > high, high, x)
    return np.where(below < low, low, below)


def describe(name: str, source: TensorDesc, target: TensorDesc, **parameters: float) -> operators.Operator:
    words = "".join(word.capitalize() for word in name.split("_"))
    return getattr(operators, f"Activation{words}")(input_tensor=source, output_tensor=target, **parameters)


@st.composite
def cases(draw: st.DrawFn, name: str) -> tuple[operators.Operator, Array, dict[str, float]]:
    """A descriptor, an input for it, and its parameters."""
    data_type = draw(st.sampled_from(["FLOAT32", "FLOAT16"]))
    shape = draw(sizes())
    source = draw(inputs(data_type, shape))
    positive = name in ("softplus", "celu")
    parameters = {field: abs(draw(numbers)) if positive else draw(numbers) for field in PARAMETERS.get(name, ())}
    desc = describe(name, source, draw(outputs(data_type, shape)), **parameters)
    return desc, random_array(source, draw(seeds)), parameters


@pytest.mark.sampled
@pytest.mark.parametrize("name", EXACT)
@bounded
@given(data=st.data())
def test_arithmetic_activations(name: str, data: st.DataObject) -> None:
    desc, x, parameters = data.draw(cases(name))
    with np.errstate(all="ignore"):
        expected = single(EXACT[name](x.astype(np.float64), **parameters)).astype(x.dtype)
    assert_same_values(run_single(desc, x), expected)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CLOSE)
@bounded
@given(data=st.data())
def test_transcendental_activations(name: str, data: st.DataObject) -> None:
    desc, x, parameters = data.draw(cases(name))
    reference, bound = CLOSE[name]
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64), **parameters)
    if x.dtype == np.float16:
        # The error before the only rounding to float16, then that rounding.
        bound = 0.5 + bound * 2.0**-13
    assert_error(run_single(desc, x).reshape(-1), exact.reshape(-1), bound, x.reshape(-1))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("celu", {"alpha": 1.0}),
        ("elu", {"alpha": 1.0}),
        ("gelu", {}),
        ("parametric_softplus", {"alpha": 1.0, "beta": 1.0}),
        ("scaled_elu", {"alpha": 1.0, "gamma": 1.0}),
        ("scaled_tanh", {"alpha": 1.0, "beta": 1.0}),
        ("sigmoid", {}),
        ("softplus", {"steepness": 1.0}),
        ("softsign", {}),
        ("swish", {"sigmoid_input_scale": 1.0}),
        ("tanh", {}),
    ],
)
def test_every_float16_result_is_the_nearest(name: str, parameters: dict[str, float]) -> None:
    """With parameters that scale nothing, against NumPy's float64."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    reference: dict[str, Reference] = {name: function for name, (function, _) in CLOSE.items()}
    reference["softsign"] = lambda x: x / (1 + np.abs(x))
    reference["swish"] = lambda x, sigmoid_input_scale: x / (1 + np.exp(-x))
    with np.errstate(all="ignore"):
        expected = reference[name](x.astype(np.float64), **parameters).astype(np.float16)
    tensor = TensorDesc("FLOAT16", [x.size])
    actual = compile_operator(describe(name, tensor, tensor, **parameters), 1)(x)
    if name == "swish":
        # The formula is an infinity times 0.
        expected[np.isneginf(x)] = NAN
    assert_same_values(actual, expected)


@bounded
@given(data=st.data(), shape=sizes(), data_type=st.sampled_from(["INT32", "INT16", "INT8"]), seed=seeds)
def test_relu_of_integers(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    desc = operators.ActivationRelu(input_tensor=source, output_tensor=data.draw(outputs(data_type, shape)))
    assert_identical(run_single(desc, x), np.maximum(x, 0))


@bounded
@given(
    data=st.data(),
    shape=sizes(),
    data_type=st.sampled_from(["INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"]),
    bias=st.sampled_from([0.0, 1.0, 2.75, -2.75, 1e12, NAN]),
    threshold=st.sampled_from([0.0, 0.5, 3.5, -3.5, 300.0, INFINITY]),
    seed=seeds,
)
def test_shrink_of_integers(
    data: st.DataObject, shape: list[int], data_type: str, bias: float, threshold: float, seed: int
) -> None:
    source = data.draw(inputs(data_type, shape))
    x = random_array(source, seed)
    target = data.draw(outputs(data_type, shape))
    desc = operators.ActivationShrink(input_tensor=source, output_tensor=target, bias=bias, threshold=threshold)
    expected = np.array([shrunk(value, x.dtype, bias, threshold) for value in x.reshape(-1).tolist()], np.int64)
    assert_identical(run_single(desc, x), expected.astype(x.dtype).reshape(x.shape))


def shrunk(x: int, dtype: Any, bias: float, threshold: float) -> int:
    """SHRINK of one integer, not yet wrapped."""
    limits = np.iinfo(dtype)

    def integer(value: float) -> int:
        if math.isnan(value):
            return 0
        return int(min(max(value, limits.min), limits.max))

    if x > integer(threshold):
        return x - integer(bias)
    return x + integer(bias) if x < integer(-threshold) else 0


@bounded
@given(data=st.data(), shape=sizes(), data_type=st.sampled_from(SIGNED), seed=seeds)
def test_activations_of_two_tensors(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    first, second = (data.draw(inputs(data_type, shape)) for _ in range(2))
    target = data.draw(outputs(data_type, shape))
    x, other = random_array(first, seed), random_array(second, seed + 1)
    wide = (x.astype(np.float32), other.astype(np.float32)) if data_type == "FLOAT16" else (x, other)
    with np.errstate(all="ignore"):
        relu = np.where(x >= 0, x, (wide[0] * wide[1]).astype(x.dtype))
    desc = operators.ActivationParameterizedRelu(input_tensor=first, slope_tensor=second, output_tensor=target)
    assert_same_values(run_single(desc, x, other), relu)
    gradient = operators.ActivationReluGrad(
        input_tensor=first, input_gradient_tensor=second, output_gradient_tensor=target
    )
    assert_same_values(run_single(gradient, x, other), np.where(x > 0, other, x.dtype.type(0)))


# What the formulas leave open, or what a careless rewriting of them would change.
SPECIAL: list[tuple[str, dict[str, float], list[tuple[float, float]]]] = [
    ("relu", {}, [(NAN, NAN), (-0.0, -0.0), (-INFINITY, 0.0), (INFINITY, INFINITY)]),
    ("thresholded_relu", {"alpha": 1.0}, [(NAN, 0.0), (1.0, 0.0), (-INFINITY, 0.0)]),
    ("shrink", {"bias": 1.0, "threshold": 0.5}, [(NAN, 0.0), (0.5, 0.0), (-0.5, 0.0), (INFINITY, INFINITY)]),
    ("shrink", {"bias": 1.0, "threshold": -2.0}, [(0.0, -1.0), (-3.0, -2.0), (-2.0, -1.0)]),
    ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}, [(NAN, NAN), (-INFINITY, 0.0), (INFINITY, 1.0)]),
    ("leaky_relu", {"alpha": 0.0}, [(-INFINITY, NAN), (-1.0, -0.0), (NAN, NAN)]),
    ("elu", {"alpha": 2.0}, [(-INFINITY, -2.0), (NAN, NAN), (-0.0, -0.0), (200.0, 200.0), (INFINITY, INFINITY)]),
    ("celu", {"alpha": 2.0}, [(-INFINITY, -2.0), (NAN, NAN), (200.0, 200.0)]),
    ("celu", {"alpha": -2.0}, [(3.0, 3.0), (-INFINITY, -INFINITY)]),
    ("sigmoid", {}, [(-INFINITY, 0.0), (INFINITY, 1.0), (NAN, NAN)]),
    ("tanh", {}, [(-INFINITY, -1.0), (INFINITY, 1.0), (-0.0, -0.0)]),
    ("softplus", {"steepness": 4.0}, [(-INFINITY, 0.0), (1e30, 1e30), (NAN, NAN)]),
    ("parametric_softplus", {"alpha": 2.0, "beta": 3.0}, [(100.0, 600.0), (-INFINITY, 0.0)]),
    ("softsign", {}, [(INFINITY, NAN), (-3.0, -0.75)]),
    ("swish", {"sigmoid_input_scale": 1.0}, [(INFINITY, INFINITY), (-INFINITY, NAN), (-0.0, -0.0), (NAN, NAN)]),
    ("hard_swish", {"alpha": 0.25, "beta": 0.5}, [(-INFINITY, NAN), (-2.0, -0.0), (2.0, 2.0), (1.0, 0.75)]),
    ("gelu", {}, [(INFINITY, INFINITY), (-INFINITY, NAN), (0.0, 0.0), (-0.0, -0.0), (-40.0, -0.0), (NAN, NAN)]),
]


@pytest.mark.parametrize(("name", "parameters", "pairs"), SPECIAL)
def test_special_values(name: str, parameters: dict[str, float], pairs: list[tuple[float, float]]) -> None:
    x, expected = (np.array(column, np.float32) for column in zip(*pairs, strict=True))
    tensor = TensorDesc("FLOAT32", [len(pairs)])
    assert_same_values(run_single(describe(name, tensor, tensor, **parameters), x), expected)


def test_gelu_keeps_its_precision_where_one_plus_erf_vanishes() -> None:
    tensor = TensorDesc("FLOAT32", [3])
    x = np.array([-6.0, -8.0, -11.0], np.float32)
    exact = x * 0.5 * erfc(-x.astype(np.float64) * math.sqrt(0.5))
    assert_error(run_single(operators.ActivationGelu(input_tensor=tensor, output_tensor=tensor), x), exact, 6.0, x)


# ---------------------------------------------------------------------------------------------------------------------


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    shifted = x - np.max(x, axis=axes, keepdims=True)
    exponentials = np.exp(shifted)
    return np.asarray(exponentials / exponentials.sum(axis=axes, keepdims=True))


def assert_softmax(desc: operators.Operator, x: Array, axes: tuple[int, ...]) -> None:
    actual = run_single(desc, x)
    exact = softmax(x.astype(np.float64), axes)
    count = math.prod(x.shape[axis] for axis in axes)
    error = np.abs(actual.astype(np.float64) - exact)
    # One rounding of the difference under the exponential, a few of functions, those of the sum, the last one.
    relative = (count + 8 + np.abs(x.astype(np.float64)).max() * 4) * 2.0**-24
    last = np.finfo(actual.dtype).eps / 2
    assert (error <= exact * (relative + last) + np.finfo(actual.dtype).smallest_subnormal).all()


@bounded
@given(data=st.data(), shape=sizes(), data_type=st.sampled_from(["FLOAT32", "FLOAT16"]), seed=seeds)
def test_softmax1(data: st.DataObject, shape: list[int], data_type: str, seed: int) -> None:
    ranks = st.integers(0, len(shape) - 1)
    axes = tuple(data.draw(st.lists(ranks, min_size=1, max_size=len(shape), unique=True)))
    source = data.draw(inputs(data_type, shape))
    desc = operators.ActivationSoftmax1(
        input_tensor=source, output_tensor=data.draw(outputs(data_type, shape)), axes=axes
    )
    assert_softmax(desc, random_array(source, seed, special=False), axes)


@st.composite
def groups(draw: st.DrawFn, name: str) -> tuple[operators.Operator, Array, tuple[int, ...]]:
    """A descriptor with axes, an input for it, and the axes."""
    data_type = draw(st.sampled_from(["FLOAT32", "FLOAT16"]))
    shape = draw(sizes()) if draw(st.booleans()) else draw(st.sampled_from([[3, 40], [2, 4, 9], [2, 18, 5], [70]]))
    axes = tuple(draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True)))
    source = draw(inputs(data_type, shape))
    desc = getattr(operators, name)(input_tensor=source, output_tensor=draw(outputs(data_type, shape)), axes=axes)
    return desc, random_array(source, draw(seeds), special=name == "ActivationHardmax1"), axes


@bounded
@given(case=groups("ActivationLogSoftmax1"))
def test_log_softmax1(case: tuple[operators.Operator, Array, tuple[int, ...]]) -> None:
    desc, x, axes = case
    wide = x.astype(np.float64)
    shifted = wide - wide.max(axis=axes, keepdims=True)
    exact = shifted - np.log(np.exp(shifted).sum(axis=axes, keepdims=True))
    # A rounding of the difference, one of the result, and the error of the logarithm of a sum.
    last = np.finfo(x.dtype).eps / 2
    actual = run_single(desc, x)
    assert (np.abs(actual - exact) <= np.abs(exact) * (last + 2.0**-23) + 1e-6).all()


@bounded
@given(case=groups("ActivationHardmax1"))
def test_hardmax1(case: tuple[operators.Operator, Array, tuple[int, ...]]) -> None:
    desc, x, axes = case
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    order = [*kept, *sorted(axes)]
    rows = x.transpose(order).reshape(math.prod(x.shape[axis] for axis in kept), -1)
    expected = np.zeros(rows.shape, x.dtype)
    expected[np.arange(len(rows)), np.argmax(rows, axis=1)] = 1
    expected = expected.reshape([x.shape[axis] for axis in order]).transpose(np.argsort(order))
    assert_identical(run_single(desc, x), expected)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("strides", [None, [1, 6]])
def test_groups_have_the_same_bits_in_every_layout(name: str, strides: list[int] | None) -> None:
    """The definition does not know them, and is the same for rows and axes."""
    packed, target = TensorDesc("FLOAT32", [6, 75]), TensorDesc("FLOAT32", [6, 75], strides)
    x = random_array(packed, 5, special=False)
    over_rows = getattr(operators, f"Activation{name}")(input_tensor=packed, output_tensor=packed)
    over_axes = getattr(operators, f"Activation{name}1")(input_tensor=packed, output_tensor=target, axes=[1])
    values, elements = over_axes.define().statements
    assert [len(values.axes), len(elements.axes)] == [1, 2]
    assert len(over_rows.define().statements) == 2
    assert_identical(run_single(over_axes, x), run_single(over_rows, x))


def test_log_softmax_and_hardmax_of_special_values() -> None:
    tensor = TensorDesc("FLOAT32", [5, 3])
    x = np.array(
        [[0, 1000, 0], [INFINITY, 1, INFINITY], [-INFINITY] * 3, [-INFINITY, 2, -INFINITY], [1, NAN, NAN]], np.float32
    )
    logarithms = [[-1000, 0, -1000], [NAN, -INFINITY, NAN], [NAN] * 3, [-INFINITY, 0, -INFINITY], [NAN] * 3]
    desc = operators.ActivationLogSoftmax(input_tensor=tensor, output_tensor=tensor)
    assert_same_values(run_single(desc, x), np.array(logarithms, np.float32))
    first = [[0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]]
    hardmax = operators.ActivationHardmax(input_tensor=tensor, output_tensor=tensor)
    assert_identical(run_single(hardmax, x), np.array(first, np.float32))


def test_hardmax_in_pieces() -> None:
    tensor = TensorDesc("FLOAT32", [3, 12_000])
    x = np.random.default_rng(3).integers(0, 1000, (3, 12_000)).astype(np.float32)
    desc = operators.ActivationHardmax1(input_tensor=tensor, output_tensor=tensor, axes=[1, 0])
    assert np.flatnonzero(run_single(desc, x)).tolist() == [int(np.argmax(x))]


@bounded
@given(data=st.data(), rows=st.integers(1, 5), width=st.integers(1, 70), rank=st.integers(2, 5), seed=seeds)
def test_softmax_is_softmax1_of_the_last_dimension(
    data: st.DataObject, rows: int, width: int, rank: int, seed: int
) -> None:
    shape = [1] * (rank - 2) + [rows, width]
    source, target = data.draw(inputs("FLOAT32", shape)), data.draw(outputs("FLOAT32", shape))
    x = random_array(source, seed, special=False)
    plain = operators.ActivationSoftmax(input_tensor=source, output_tensor=target)
    general = operators.ActivationSoftmax1(input_tensor=source, output_tensor=target, axes=(rank - 1,))
    assert_softmax(plain, x, (rank - 1,))
    assert_identical(run_single(plain, x), run_single(general, x))


def test_softmax_of_large_and_infinite_values() -> None:
    tensor = TensorDesc("FLOAT32", [4, 3])
    x = np.array(
        [[1000, 1000, -1000], [INFINITY, 1, 0], [-INFINITY, -INFINITY, -INFINITY], [-INFINITY, 2, 2]], np.float32
    )
    expected = np.array([[0.5, 0.5, 0], [NAN, 0, 0], [NAN, NAN, NAN], [0, 0.5, 0.5]], np.float32)
    assert_same_values(run_single(operators.ActivationSoftmax(input_tensor=tensor, output_tensor=tensor), x), expected)


def test_softmax_in_pieces() -> None:
    """One long row: partial results, summed in their order."""
    tensor = TensorDesc("FLOAT32", [1, 40_000])
    x = np.random.default_rng(3).normal(0, 4, (1, 40_000)).astype(np.float32)
    actual = run_single(operators.ActivationSoftmax(input_tensor=tensor, output_tensor=tensor), x)
    np.testing.assert_allclose(actual, softmax(x.astype(np.float64), (1,)), rtol=4e-6)


# ---------------------------------------------------------------------------------------------------------------------


def test_every_fusable_activation_has_a_function() -> None:
    alone = {OperatorType.ACTIVATION_SWISH, OperatorType.ACTIVATION_HARD_SWISH}
    assert set(ACTIVATIONS) == set(FUSABLE_WITH_CLIP) | alone


def test_no_activation_is_the_element_itself() -> None:
    x = Variable("x", F32)
    assert activate(None, x) is x
    assert activate(operators.ActivationIdentity(), x) is x


def test_clip_converts_its_limits_to_the_type_of_the_element() -> None:
    desc = operators.ElementWiseClip(min=-1.75, max=2.5)
    x = Variable("x", I32)
    assert repr(activate(desc, x)) == repr(clip(x, constant(-1, I32), constant(2, I32)))
    assert "-1.75:f32" in repr(activate(desc, Variable("x", F32)))


@bounded
@given(data=st.data(), data_type=st.sampled_from(["FLOAT32", "FLOAT16"]), seed=seeds)
def test_clip_of_scaled_elements(data: st.DataObject, data_type: str, seed: int) -> None:
    tensor = TensorDesc(data_type, [2, 7])
    x = random_array(tensor, seed)
    low, high = data.draw(numbers), data.draw(numbers)
    alone = operators.ElementWiseClip(
        input_tensor=tensor, output_tensor=tensor, scale_bias=(0.5, 1.0), min=low, max=high
    )
    with np.errstate(all="ignore"):
        expected = clamp(single(single(x.astype(np.float64) * 0.5) + 1.0), low, high).astype(x.dtype)
    assert_same_values(run_single(alone, x), expected)
