"""PyDirectML's interface and that of its successor ``directml``, against NumPy, PyTorch and opendml's functions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opendml
import opendml.compatibility.directml as later
import opendml.compatibility.pydirectml as dml
from opendml.compatibility.expressions import FusedActivation, TensorPolicy

FLOAT32 = dml.TensorDataType.FLOAT32
OWNED = dml.TensorFlags.OWNED_BY_DML
RANDOM = np.random.default_rng(0)


def numbers(*sizes: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(sizes).astype(np.float32)


def computed(build: Callable[..., Any], *arrays: np.ndarray[Any, Any], owned: int = 0) -> np.ndarray[Any, Any]:
    """What an expression of inputs gives; the last ``owned`` are OWNED_BY_DML."""
    device = dml.Device(True, True)
    builder, bindings, expressions = dml.GraphBuilder(device), [], []
    for number, array in enumerate(arrays):
        flags = OWNED if number >= len(arrays) - owned else dml.TensorFlags.NONE
        data_type = opendml.TensorDesc(array.dtype, [1]).data_type
        expression = dml.input_tensor(builder, number, dml.TensorDesc(data_type, flags, list(array.shape)))
        expressions.append(expression)
        bindings.append(dml.Binding(expression, array))
    output = build(*expressions)
    model = builder.build(dml.ExecutionFlags.NONE, [output])
    (result,) = device.compute(model, bindings, [output])
    assert list(result.shape) == output.get_output_desc().sizes
    return np.array(result)


# ---- a small network in the samples' style

NETWORK = """
import sys
import numpy as np
import pydirectml as dml

device = dml.Device(True, True)
builder = dml.GraphBuilder(device)
bindings = []
random = np.random.default_rng(1)
weights = {}

def tensor(name, sizes, data_sizes=None, flags=dml.TensorFlags.OWNED_BY_DML):
    expression = dml.input_tensor(builder, len(bindings), dml.TensorDesc(dml.FLOAT32, flags, sizes))
    weights[name] = random.standard_normal(data_sizes or sizes).astype(np.float32) * 0.5
    bindings.append(dml.Binding(expression, weights[name]))
    return expression

image = tensor("image", [1, 3, 12, 12], flags=dml.TensorFlags.NONE)
relu = dml.FusedActivation(dml.OperatorType.ACTIVATION_RELU)
first = dml.convolution(image, tensor("w", [8, 3, 3, 3]), tensor("b", [1, 8, 1, 1], [8]), strides=[1, 1],
                        start_padding=[1, 1], end_padding=[1, 1], fused_activation=relu)
pooled = dml.max_pooling(first, window_sizes=[2, 2], strides=[2, 2])
left = dml.convolution(pooled.values, tensor("l", [4, 8, 1, 1]), None)
right = dml.activation_tanh(left)
joined = dml.join([left, right], 1)
named = [tensor(name, [1, 8, 1, 1]) for name in ("mean", "scale", "bias")]
variance = dml.input_tensor(builder, len(bindings), dml.TensorDesc(dml.FLOAT32, [1, 8, 1, 1]))
bindings.append(dml.Binding(variance, np.full((1, 8, 1, 1), 2)))
normal = dml.batch_normalization(joined, named[0], variance, named[1], named[2], 1, 1e-5, relu)
average = dml.average_pooling(normal, [6, 6], [6, 6], [0, 0], [0, 0], 0)
row = dml.reinterpret(average, dml.TensorDataType.FLOAT32, [1, 1, 1, 8], [8, 8, 8, 1])
shift = dml.input_tensor(builder, len(bindings), dml.TensorDesc(dml.FLOAT32, [1, 1, 1, 10], [1, 1, 1, 0]))
bindings.append(dml.Binding(shift, np.zeros(shift.get_output_desc().sizes) + 0.25))
scores = dml.add(dml.gemm(row, tensor("d", [1, 1, 8, 10])), shift)
chances = dml.activation_soft_max(scores)
model = builder.build(dml.ExecutionFlags.NONE, [chances, scores])
output_data = device.compute(model, bindings, [chances, scores])
answer = [np.array(one, np.float32) for one in output_data]
"""


def test_a_network_in_the_style_of_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "pydirectml", dml)
    names: dict[str, Any] = {}
    exec(NETWORK, names)
    given = {name: torch.from_numpy(array) for name, array in names["weights"].items()}
    functional = torch.nn.functional
    x = functional.relu(functional.conv2d(given["image"], given["w"], given["b"], padding=1))
    x = functional.conv2d(functional.max_pool2d(x, 2), given["l"])
    x = torch.cat([x, torch.tanh(x)], 1)
    mean, scale, bias = (given[name].reshape(-1) for name in ("mean", "scale", "bias"))
    x = functional.relu(functional.batch_norm(x, mean, torch.full((8,), 2.0), scale, bias, eps=1e-5))
    scores = x.mean((2, 3)) @ given["d"][0, 0] + 0.25
    chances, found = names["answer"]
    np.testing.assert_allclose(found.reshape(1, -1), scores.numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(chances.reshape(1, -1), torch.softmax(scores, 1).numpy(), rtol=1e-5, atol=1e-6)
    assert chances.shape == (1, 1, 1, 10)


def test_scripts_find_it_under_its_name() -> None:
    lines = "import sys, opendml.compatibility.pydirectml as p; sys.modules['pydirectml'] = p\n"
    program = lines + "import pydirectml as dml; print(dml.Device(False), dml.TensorDesc(dml.FLOAT32, [1, 2]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "dml.Device on cpu dml.TensorDesc of type 1 and shape [1, 2] with flags 0\n"


# ---- operators

IMAGE = numbers(1, 4, 6, 6)
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "relu": (dml.activation_relu, opendml.activation_relu),
    "sigmoid": (dml.activation_sigmoid, opendml.activation_sigmoid),
    "identity": (dml.activation_identity, lambda x: x),
    "tanh": (dml.activation_tanh, opendml.activation_tanh),
    "linear": (lambda x: dml.activation_linear(x, 2, 1), lambda x: x * 2 + 1),
    "softmax": (dml.activation_soft_max, lambda x: opendml.activation_softmax(x, axes=[3])),
    "padding": (
        lambda x: dml.padding(x, dml.PaddingMode.REFLECTION, 0.0, [0, 0, 1, 2], [0, 0, 2, 1]),
        lambda x: np.pad(x, [(0, 0), (0, 0), (1, 2), (2, 1)], "reflect"),
    ),
    "slice": (lambda x: dml.slice(x, [0, 1, 2, 0], [1, 2, 4, 6], [1, 1, 2, 1]), lambda x: x[:, 1:3, 2:6:2]),
    "value scale": (
        lambda x: dml.value_scale_2d(dml.slice(x, [0, 0, 0, 0], [1, 3, 6, 6], [1, 1, 1, 1]), 2.0, [1, 2, 3]),
        lambda x: x[:, :3] * 2 + np.arange(1, 4, dtype=np.float32).reshape(1, 3, 1, 1),
    ),
    "response": (
        lambda x: dml.local_response_normalization(x, True, 3, 0.1, 0.75, 1.0),
        lambda x: opendml.local_response_normalization(x, cross_channel=True, local_size=3, alpha=0.1, beta=0.75),
    ),
    "upsample": (
        lambda x: dml.up_sample_2d(x, dml.Size2D(3, 2), dml.InterpolationMode.NEAREST_NEIGHBOR),
        lambda x: x.repeat(2, 2).repeat(3, 3),
    ),
    "variance": (
        lambda x: dml.mean_variance_normalization(x, None, None, [0, 2, 3], 1, 1e-5),  # type: ignore[arg-type]
        lambda x: opendml.mean_variance_normalization(x, axes=[0, 2, 3]),
    ),
    "average": (
        lambda x: dml.average_pooling(x, [2, 2], [3, 3], [1, 1], [0, 0], 1),  # type: ignore[arg-type]
        lambda x: opendml.average_pooling(
            x, window_size=[3, 3], strides=[2, 2], start_padding=[1, 1], end_padding=[0, 0], include_padding=True
        ),
    ),
    "numbers": (lambda x: 1.0 - (2.0 * x + 1) / 4 - x * 0.5, lambda x: 1.0 - (2.0 * x + 1) / 4 - x * 0.5),
    "number over": (lambda x: 3.0 / (x * x + 1.0), lambda x: 3.0 / (x * x + 1.0)),
    "negative": (lambda x: -x, lambda x: -x),
    "arithmetic": (
        lambda x: dml.subtract(dml.multiply(x, x), dml.divide(x, dml.add(x, x + x))),
        lambda x: x * x - x / (x + (x + x)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_operators(case: str) -> None:
    build, expected = CASES[case]
    np.testing.assert_allclose(computed(build, IMAGE), expected(IMAGE), rtol=1e-6, atol=1e-6)


def test_modulus_has_the_sign_of_the_dividend_and_later_of_the_divisor() -> None:
    a, b = np.array([[-7, 7, -1, 5]], np.int32), np.array([[5, -5, 5, 5]], np.int32)
    np.testing.assert_array_equal(computed(lambda x, y: x % y, a, b), np.fmod(a, b))
    graph = later.Graph(later.Device())
    x, y = graph.input([1, 4], np.int32), graph.input([1, 4], np.int32)
    np.testing.assert_array_equal(graph.compile([x % y])({x: a, y: b})[0], a % b)


def test_indices_of_the_maximum_and_gathering() -> None:
    device = dml.Device()
    builder = dml.GraphBuilder(device)
    x = dml.input_tensor(builder, 0, dml.TensorDesc(FLOAT32, [1, 1, 4, 4]))
    at = dml.input_tensor(builder, 1, dml.TensorDesc(dml.TensorDataType.UINT32, [1, 1, 1, 2]))
    pooled = dml.max_pooling(x, [2, 2], [2, 2], output_indices=True)
    picked = dml.gather(x, at, 3, 1)
    model = builder.build(dml.ExecutionFlags.NONE, [pooled.values, pooled.indices, picked])
    data = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    bindings = [dml.Binding(x, data), dml.Binding(at, [3, 0])]
    values, indices, columns = device.compute(model, bindings, [pooled.values, pooled.indices, picked])
    np.testing.assert_array_equal(values.ravel(), [5, 7, 13, 15])
    np.testing.assert_array_equal(indices.ravel(), [5, 7, 13, 15])
    np.testing.assert_array_equal(np.array(columns)[0, 0], data[0, 0][:, [3, 0]])


def test_a_recurrent_network() -> None:
    x, w, r = numbers(1, 3, 2, 4), numbers(1, 1, 9, 4), numbers(1, 1, 9, 3)
    gates = [FusedActivation(dml.OperatorType.ACTIVATION_SIGMOID), FusedActivation(dml.OperatorType.ACTIVATION_TANH)]
    forward = dml.RecurrentNetworkDirection.FORWARD

    def build(*tensors: Any) -> Any:
        outputs = dml.gru(
            *tensors, activation_descs=gates, direction=forward, output_options=dml.OutputOptions.Sequence
        )
        assert outputs.single is None
        return outputs.sequence

    activations = [opendml.fused_activation.sigmoid(), opendml.fused_activation.tanh()]
    expected = opendml.gru(x, w, r, activation_descs=activations, linear_before_reset=True)
    np.testing.assert_array_equal(computed(build, x, w, r), expected.sequence)


def test_weights_are_laid_out_again_when_their_bindings_change() -> None:
    device = dml.Device()
    builder = dml.GraphBuilder(device)
    x = dml.input_tensor(builder, 0, dml.TensorDesc(FLOAT32, [1, 2]))
    w = dml.input_tensor(builder, 1, dml.TensorDesc(FLOAT32, OWNED, [1, 2]))
    y = x * w
    model = builder.build(dml.ExecutionFlags.NONE, [y])
    initialize, calls = model._program.initialize, []

    def counted(**arrays: Any) -> None:
        calls.append(arrays)
        initialize(**arrays)

    model._program.initialize = counted  # type: ignore[method-assign]
    first, second = (dml.Binding(w, [factor, factor]) for factor in (2, 3))
    for weights, expected in ((first, 2), (first, 2), (second, 3)):
        (result,) = device.compute(model, [dml.Binding(x, [1, 1]), weights], [y])
        np.testing.assert_array_equal(result, [[expected] * 2])
    assert len(calls) == 2


def test_bindings_are_copies_that_fill_their_tensors() -> None:
    builder = dml.GraphBuilder(dml.Device())
    x = dml.input_tensor(builder, 0, dml.TensorDesc(FLOAT32, [1, 2, 2, 2], [2, 1, 0, 0]))
    data = np.array([1, 2])
    binding = dml.Binding(x, data)
    data[:] = 0
    np.testing.assert_array_equal(binding.data, [1, 2])
    assert binding.data.dtype == np.float32
    with pytest.raises(opendml.BindingError, match="does not fill"):
        dml.Binding(x, [1])


def test_inputs_have_indices_without_gaps() -> None:
    builder = dml.GraphBuilder(dml.Device())
    x = dml.input_tensor(builder, 1, dml.TensorDesc(FLOAT32, [2]))
    with pytest.raises(opendml.BindingError, match="input_index=1"):
        dml.input_tensor(builder, 1, dml.TensorDesc(FLOAT32, [2]))
    with pytest.raises(opendml.BindingError, match="than 0"):
        builder.build(dml.ExecutionFlags.NONE, [x + 1.0])


def test_forms_of_descriptions() -> None:
    interleaved = TensorPolicy.interleaved_channel
    for desc, strides, flags in (
        (dml.TensorDesc(FLOAT32, [1, 2, 3, 4]), None, 0),
        (dml.TensorDesc(FLOAT32, [1, 2, 3, 4], interleaved), [24, 1, 8, 2], 0),
        (dml.TensorDesc(FLOAT32, OWNED, [1, 2, 3, 4], interleaved), [24, 1, 8, 2], 1),
        (dml.TensorDesc(FLOAT32, [1, 2, 3, 4], [24, 12, 1, 3]), [24, 12, 1, 3], 0),
        (dml.TensorDesc(FLOAT32, OWNED, [1, 2, 3, 4], None, 128, 16), None, 1),
        (dml.TensorDesc(data_type=FLOAT32, flags=OWNED, sizes=[1, 2, 3, 4]), None, 1),
    ):
        assert (desc.sizes, desc.strides, int(desc.flags)) == ([1, 2, 3, 4], strides, flags)
    assert dml.TensorDesc(FLOAT32, OWNED, [4], None, 128, 16).total_tensor_size_in_bytes == 128
    for wrong in ((FLOAT32,), (FLOAT32, [1], [1], 4, 0, 5)):
        with pytest.raises(TypeError):
            dml.TensorDesc(*wrong)
    with pytest.raises(TypeError, match="colour"):
        dml.TensorDesc(FLOAT32, sizes=[1], colour=3)


def test_names_that_there_are_not() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        dml.no_such_name  # noqa: B018


# ---- fused activations, in both


@pytest.mark.parametrize(
    "name",
    [name for name in vars(later.FusedActivation) if not name.startswith("_") and name not in ("none", "linear")],
)
def test_fused_activations_are_opendmls_with_their_defaults(name: str) -> None:
    parameters = (1.5, 0.5) if name == "parametric_softplus" else ()
    made = getattr(later.FusedActivation, name)(*parameters).descriptor
    named = dict(zip(("alpha", "beta"), parameters, strict=False))
    assert made == getattr(opendml.fused_activation, name)(**named)


def test_no_activation_and_what_cannot_be_fused() -> None:
    assert later.FusedActivation.none().descriptor is None
    with pytest.raises(opendml.BindingError, match="ACTIVATION_HARDMAX cannot be fused"):
        FusedActivation(dml.OperatorType.ACTIVATION_HARDMAX)


# ---- the later package


def test_constants_names_buffers_and_broadcasting() -> None:
    device = later.Device()
    graph = later.Graph(device)
    image = graph.input([1, 3, 2, 2], name="image")
    bias = graph.constant(np.array([1, 2, 3], np.float32), sizes=[1, 3, 1, 1])
    shifted = image + later.broadcast(bias, image.shape)
    first = graph.compile([shifted, -shifted])
    data = numbers(1, 3, 2, 2)
    positive, negative = first({"image": data}, readback=False)
    assert isinstance(positive, later.Buffer)
    graph = later.Graph(device)
    a, b = (graph.input([1, 3, 2, 2]) for _ in range(2))
    second = graph.compile([later.multiply(a, b)])
    expected = data + np.array([1, 2, 3], np.float32).reshape(1, 3, 1, 1)
    np.testing.assert_array_equal(second({a: positive, b: negative})[0], -(expected * expected))
    np.testing.assert_array_equal(positive.numpy(), expected)
    with pytest.raises(ValueError, match="different device"):
        second({a: later.Buffer(later.Device(), data), b: negative})


def test_what_is_bound_is_checked_before_anything_runs() -> None:
    graph = later.Graph(later.Device())
    x, w = graph.input([1, 2], name="x"), graph.input([1, 2], owned=True)
    operator = graph.compile([x * w])
    half = np.zeros(2, np.float16)
    for call, message in (
        (lambda: operator({x: half}), r"initialize\(\) comes before dispatch\(\).*input 1"),
        (lambda: operator.initialize({}), "initialize.* is missing input 1"),
        (lambda: operator.initialize({x: half}), "input 0 'x'.* bind it at dispatch"),
        (lambda: operator.initialize({w: np.zeros(2, np.int32)}), "astype"),
        (lambda: operator.initialize({w: np.zeros(3, np.float32)}), "does not fill input 1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    operator.initialize({w: half + 2})
    np.testing.assert_array_equal(operator({"x": [3.0, 4.0]})[0], [[6, 8]])
    for given, message in (
        ({w: half, x: half}, r"bind it in initialize\(\)"),
        ({x: half, "x": half}, "bound twice"),
        ({"y": half}, "no input named 'y'"),
        ({x * w: half}, "not an input"),
    ):
        with pytest.raises(ValueError, match=message):
            operator(given)
    with pytest.raises(TypeError, match="keys are expressions"):
        operator({3: half})


def test_attention_of_several_images() -> None:
    query, key, value = (numbers(2, 1, length, 8) for length in (3, 5, 5))
    graph = later.Graph(later.Device())
    inputs = [graph.input(one.shape) for one in (query, key, value)]
    output = later.multihead_attention(*inputs, head_count=2, scale=0.5)
    (result,) = graph.compile([output])(dict(zip(inputs, (query, key, value), strict=True)))
    q, k, v = (one.reshape(2, -1, 2, 4).transpose(0, 2, 1, 3).astype(float) for one in (query, key, value))
    scores = np.exp(q @ k.transpose(0, 1, 3, 2) * 0.5)
    expected = (scores / scores.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(2, 1, 3, 8)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_strided_inputs_take_their_buffer() -> None:
    graph = later.Graph(later.Device())
    x = graph.input([1, 3, 2, 2], strides=[12, 1, 6, 3])
    (result,) = graph.compile([later.activation_identity(x)])({x: np.arange(12, dtype=np.float32)})
    np.testing.assert_array_equal(result, np.arange(12).reshape(1, 2, 2, 3).transpose(0, 3, 1, 2))


def test_memory_of_operators() -> None:
    graph = later.Graph(later.Device())
    x = graph.input([1, 2])
    operator = graph.compile([x + 1.0])
    assert operator.initialized
    assert operator.persistent_size >= 0 and operator.temporary_size >= 0 and operator.descriptor_count > 0
