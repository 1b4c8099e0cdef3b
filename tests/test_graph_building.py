"""Graphs written as expressions: what they describe, what their programs take and give, and errors."""

from __future__ import annotations

import doctest
import inspect
import operator
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calls import FUNCTIONS
from graph_reference import evaluate_graph, seen_as

import opendml as dml
from opendml import operators as op
from opendml.description.graph_desc import OperatorNode
from opendml.description.graph_validation import validate_graph

Array = np.ndarray[Any, Any]


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(1, 9, shape).astype(dtype)


def evaluated(function: Callable[..., Any], *arrays: Array, device: dml.Device | None = None) -> Any:
    """What a function of graph tensors gives for arrays."""
    graph = dml.Graph(device)
    tensors = [graph.input(array.dtype, array.shape) for array in arrays]
    return graph.compile(function(*tensors))(*arrays)


def line_of(call: Callable[..., Any]) -> int:
    return inspect.getsourcelines(call)[1]


# ---- the functions


class GraphFunctions:
    """The package, with functions that take arrays, build a graph on them, and evaluate it node by node."""

    def __getattr__(self, name: str) -> Any:
        return self.in_a_graph(FUNCTIONS[name]) if name in FUNCTIONS else getattr(dml, name)

    @staticmethod
    def in_a_graph(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            graph = dml.Graph()
            given: list[Array] = []

            def tensor(value: Any) -> Any:
                if isinstance(value, np.ndarray):
                    given.append(value)
                    return graph.input(value.dtype, value.shape)
                return [tensor(item) for item in value] if isinstance(value, list) else value

            operands = list(map(tensor, arguments))
            options = {name: tensor(value) for name, value in options.items()}
            result = function(*operands, **(options if given else {"device": graph, **options}))
            if not isinstance(result, (tuple, dml.GraphTensor)):
                raise TypeError(f"{function.__name__} did not build a graph")
            outputs = [x for x in (result if isinstance(result, tuple) else (result,)) if x is not None]
            assembly = graph.assemble(outputs)
            assert not validate_graph(assembly.desc)
            memory = evaluate_graph(
                assembly.desc, [np.ascontiguousarray(x).view(np.uint8).ravel() for x in map(padded, given)]
            )
            values = iter([seen_as(m, desc) for m, (_, desc) in zip(memory, assembly.interface.outputs, strict=False)])
            if isinstance(result, dml.GraphTensor):
                return next(values)
            items: list[Any] = [None if x is None else next(values) for x in result]
            return type(result)(*items) if hasattr(result, "_fields") else tuple(items)

        return call


def padded(array: Array) -> Array:
    """The bytes of an array, as many as a buffer for it has."""
    data = np.frombuffer(array.tobytes(), np.uint8)
    return np.concatenate([data, np.zeros(-data.size % 4, np.uint8)])


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_build_graphs(name: str) -> None:
    """The examples of the documentation, in a graph."""
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    (test,) = finder.find(FUNCTIONS[name], name, globs={"np": np, "dml": GraphFunctions()})
    assert runner.run(test).failed == 0


def test_arrays_beside_graph_tensors_are_constants() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [1, 2, 5, 5])
    weights = numbers(3, 2, 3, 3)
    y = dml.convolution(x, weights, numbers(1, 3, 1, 1))
    weights_then = weights.copy()
    weights[...] = 0
    image = numbers(1, 2, 5, 5, seed=1)
    np.testing.assert_array_equal(graph.compile(y)(image), dml.convolution(image, weights_then, numbers(1, 3, 1, 1)))


def test_a_graph_takes_the_place_of_a_device_where_there_are_no_operands() -> None:
    graph = dml.Graph()
    ramp = dml.fill_value_sequence([4], output_data_type="float32", value_start=0, value_delta=2, device=graph)
    np.testing.assert_array_equal(graph.compile(ramp)(), [0, 2, 4, 6])


def test_lower_levels_get_older_operators() -> None:
    graph = dml.Graph(dml.Device(feature_level="3_0"))
    x = graph.input("float32", [1, 1, 4, 4])
    desc = graph.describe(-dml.average_pooling(x, strides=[2, 2], window_size=[2, 2]))
    assert [node.operator.type.name for node in desc.nodes if isinstance(node, OperatorNode)] == [
        "AVERAGE_POOLING",
        "ELEMENT_WISE_IDENTITY",
    ]


# ---- Python's operators

BINARY = [
    (operator.add, "float32 int32 uint8"),
    (operator.sub, "float32 int32 uint8"),
    (operator.mul, "float32 int32 uint8"),
    (operator.truediv, "float32"),
    (operator.mod, "float32 int32 uint8"),
    (operator.and_, "uint32 uint8"),
    (operator.or_, "uint32 uint8"),
    (operator.xor, "uint32 uint8"),
    (operator.lshift, "uint32"),
    (operator.rshift, "uint32"),
    (operator.eq, "float32 int32 uint8"),
    (operator.ne, "float32 int32 uint8"),
    (operator.lt, "float32 int32 uint8"),
    (operator.le, "float32 int32 uint8"),
    (operator.gt, "float32 int32 uint8"),
    (operator.ge, "float32 int32 uint8"),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("function", "dtype"), [(f, t) for f, types in BINARY for t in types.split()])
def test_operators(function: Callable[[Any, Any], Any], dtype: str) -> None:
    a, b, row = numbers(2, 1, 3, dtype=dtype), numbers(2, 4, 1, dtype=dtype, seed=1), numbers(3, dtype=dtype, seed=2)
    for left, right, expected in [
        (lambda x: x, lambda y: y, function(a, b)),
        (lambda x: x, lambda _: row, function(a, row)),
        (lambda _: row, lambda y: y, function(row, b)),
        (lambda x: x, lambda _: 2, function(a, np.array(2, dtype))),
        (lambda _: 7, lambda y: y, function(np.array(7, dtype), b)),
        (lambda x: x, lambda _: np.uint8(3), function(a, np.array(3, dtype))),
    ]:
        result = evaluated(lambda x, y, left=left, right=right: function(left(x), right(y)), a, b)
        assert result.dtype == (np.uint8 if expected.dtype == bool else dtype)
        np.testing.assert_array_equal(result, expected)


def test_unary_operators() -> None:
    x = numbers(3, 4) - 4
    np.testing.assert_array_equal(evaluated(operator.neg, x), -x)
    np.testing.assert_array_equal(evaluated(operator.abs, x), abs(x))
    np.testing.assert_array_equal(evaluated(lambda x: +x + 0, x), x)
    bits = numbers(5, dtype="uint8")
    np.testing.assert_array_equal(evaluated(operator.invert, bits), ~bits)


def test_the_remainder_has_the_sign_of_the_divisor() -> None:
    x = np.array([-7, 7, -7, 7], "int32")
    np.testing.assert_array_equal(evaluated(lambda x: x % np.array([3, -3, -3, 3], "int32"), x), [2, -2, -1, 1])


def test_numbers_are_exact() -> None:
    """A number is a constant of the tensor's type: no rounding but the operator's."""
    x = np.array([-0.0, 1, 1e-3, 5], "float32")
    np.testing.assert_array_equal(np.signbit(evaluated(lambda x: x * 3, x)), np.signbit(x))
    np.testing.assert_array_equal(evaluated(lambda x: x / 3, x), x / np.float32(3))
    large = np.array([2**62, -5], "int64")
    np.testing.assert_array_equal(evaluated(lambda x: x + (2**62 - 1), large), large + (2**62 - 1))


@pytest.mark.parametrize(("number", "dtype"), [(2.5, "int32"), (-1, "uint8"), (300, "uint8"), (2**31, "int32")])
def test_numbers_that_the_type_does_not_have(number: Any, dtype: str) -> None:
    x = dml.Graph().input(dtype, [2])
    with pytest.raises(dml.InvalidDescriptorError, match="is no value of"):
        x + number


def test_graph_tensors_are_no_values() -> None:
    x = dml.Graph().input("float32", [2])
    with pytest.raises(TypeError, match="truth value"):
        bool(x == x)
    with pytest.raises(TypeError, match="no values"):
        np.asarray(x)
    assert len({x, x + 0}) == 2
    assert repr(x.broadcast_to([3, 2])) == "GraphTensor('float32', [3, 2], strides=[0, 1])"


# ---- views


def test_views() -> None:
    x = numbers(2, 3, 4)
    np.testing.assert_array_equal(evaluated(lambda t: t.transpose([2, 0, 1]) + 0, x), x.transpose(2, 0, 1))
    np.testing.assert_array_equal(evaluated(lambda t: t.reshape([6, 4]) + 0, x), x.reshape(6, 4))
    np.testing.assert_array_equal(
        evaluated(lambda t: t.transpose([1, 0, 2]).reshape([24]), x), x.transpose(1, 0, 2).reshape(24)
    )
    np.testing.assert_array_equal(evaluated(lambda t: t.broadcast_to([2, 2, 3, 4]) * 2, x), np.stack([x, x]) * 2)
    np.testing.assert_array_equal(
        evaluated(
            lambda t: dml.reinterpret(dml.bit_not(dml.reinterpret(t, data_type="uint32")), data_type="float32"), x
        ),
        (~x.view(np.uint32)).view(np.float32),
    )
    np.testing.assert_array_equal(evaluated(lambda t: (t + 1).reinterpret([4], strides=[6]), x), (x + 1).ravel()[::6])


def test_shifted_windows_overlap() -> None:
    windows = evaluated(lambda t: (t * 1).reinterpret([3, 3], strides=[1, 1]) + 0, np.arange(5, dtype="float32"))
    np.testing.assert_array_equal(windows, [[0, 1, 2], [1, 2, 3], [2, 3, 4]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.reinterpret([7]), "needs 28 bytes, but .* has 24"),
        (lambda x: x.reinterpret([2, 3], strides=[4, 1]), "needs 28 bytes"),
        (lambda x: x.reinterpret([2, 3], strides=[1]), "one stride a dimension"),
        (lambda x: x.reinterpret([2, 3], strides=[-3, 1]), "none of them negative"),
        (lambda x: x.reinterpret([0]), "sizes less than 1"),
        (lambda x: x.reinterpret([]), "from 1 to 8 dimensions"),
        (lambda x: x.reinterpret([6], data_type="float23"), "DataType"),
        (lambda x: x.reshape([4]), r"cannot have the sizes \[4\]"),
        (lambda x: x.transpose([0, 0]), "is no order of the dimensions"),
        (lambda x: x.broadcast_to([4, 3]), r"does not broadcast to \[4, 3\]"),
        (lambda x: x + np.zeros(2, "float32"), "do not broadcast to common sizes"),
    ],
)
def test_views_that_do_not_exist(change: Callable[[Any], Any], message: str) -> None:
    x = dml.Graph().input("float32", [2, 3])
    with pytest.raises(dml.InvalidDescriptorError, match=message) as caught:
        change(x)
    assert f'test_graph_building.py", line {line_of(change)}' in str(caught.value)


def test_bytes_beyond_the_end_are_not_read() -> None:
    """A tensor of 5 bytes has a buffer of 8, and its reader may see them all; an array has 5."""
    for is_owned in (False, True):
        for order in (1, -1):
            graph = dml.Graph()
            x = graph.input("int8", [5], name="x", owned_by_dml=is_owned)
            makers: list[Callable[[dml.GraphTensor], dml.GraphTensor]] = [
                dml.activation_relu,
                lambda x: dml.bit_not(x.reinterpret([2], data_type="uint32")),
            ]
            outputs = [make(x) for make in makers[::order]]
            program = graph.compile(outputs[::order])
            small = np.frombuffer(b"....\x01\x02\x03\x04\x05", np.int8, 5, 4)
            if is_owned:
                program.initialize(x=small)
            relu, bits = program() if is_owned else program(x=small)
            np.testing.assert_array_equal(relu, [1, 2, 3, 4, 5])
            np.testing.assert_array_equal(bits.view(np.uint8)[:5], 255 - small.view(np.uint8))


def test_outputs_that_are_read_beyond_their_end() -> None:
    graph = dml.Graph()
    x = graph.input("int8", [5])
    y = dml.activation_relu(x)
    program = graph.compile([y, dml.bit_not(y.reinterpret([2], data_type="uint32")), y])
    first, bits, again = program(np.arange(5, dtype="int8"))
    np.testing.assert_array_equal(first, np.arange(5))
    np.testing.assert_array_equal(again, first)
    np.testing.assert_array_equal(bits.view(np.uint8)[:5], 255 - np.arange(5))


# ---- outputs that nobody uses


def test_optional_outputs_that_nobody_uses_are_dropped() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [1, 1, 4, 4])
    desc = graph.describe(dml.max_pooling(x, window_size=[2, 2], output_indices=True).values)
    (node,) = desc.nodes
    assert isinstance(node, OperatorNode) and isinstance(node.operator, op.MaxPooling2)
    assert node.operator.output_indices_tensor is None
    assert desc.output_count == 1


def test_other_outputs_that_nobody_uses_are_hidden() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [6])
    _, middle, _ = dml.split(x, axis=0, output_axis_sizes=[1, 2, 3])
    assembly = graph.assemble(middle)
    assert not validate_graph(assembly.desc)
    assert assembly.desc.output_names == ("output", "unused0", "unused1")
    np.testing.assert_array_equal(graph.compile(middle)(np.arange(6, dtype="float32")), [1, 2])


def test_nodes_that_no_output_needs_are_left_out() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [2])
    x * 3 + numbers(2)
    assert len(graph.describe(x + x).nodes) == 1


# ---- descriptors and names


def test_descriptors_are_values() -> None:
    def described() -> dml.GraphDesc:
        graph = dml.Graph()
        x = graph.input("float32", [2], name="x")
        return graph.describe({"y": (x + 1) * x})

    assert described() == described()
    assert described().input_names == ("x",)
    assert described().output_names == ("y",)


def test_nodes_are_named_after_their_lines() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [2])
    y = x + x
    line = sys._getframe().f_lineno - 1
    with graph.scope("stage"):
        y = y * y
        with graph.scope("end"):
            y = dml.activation_relu(y)
    names = [node.name for node in graph.describe(y).nodes]
    assert names == [
        f"element_wise_add (test_graph_building.py:{line})",
        f"stage (test_graph_building.py:{line + 3})",
        f"stage/end (test_graph_building.py:{line + 5})",
    ]


def test_any_operator_can_be_appended() -> None:
    graph = dml.Graph()
    x = graph.input("float32", [2, 3])
    desc = dml.TensorDesc("float32", [6])
    (y,) = graph.append(dml.operators.ActivationRelu(input_tensor=desc, output_tensor=desc), x)
    assert y is not None
    np.testing.assert_array_equal(graph.compile(y)(numbers(2, 3)), numbers(6))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda x: [x], r"has 2 inputs \(ATensor, BTensor\), got 1"),
        (lambda x: [x, None], "BTensor is missing"),
        (lambda x: [x, x.graph.input("float32", [3])], "BTensor has 8 bytes, but .* has 12"),
        (lambda x: [x, x.graph.input("float32", [2], owned_by_dml=True)], "disagree on being OWNED_BY_DML"),
    ],
)
def test_inputs_that_do_not_fit_an_operator(inputs: Callable[[Any], list[Any]], message: str) -> None:
    graph = dml.Graph()
    desc = dml.TensorDesc("float32", [2])
    add = dml.operators.ElementWiseAdd(a_tensor=desc, b_tensor=desc, output_tensor=desc)
    with pytest.raises(dml.InvalidDescriptorError, match=message):
        graph.append(add, *inputs(graph.input("float32", [2])))


# ---- errors


ERRORS: Sequence[tuple[Callable[[Any], Any], str]] = [
    (lambda x: dml.gather_elements(x, [1], axis=0), "indices: must have the number of dimensions of input, 2, got 1"),
    (lambda x: x + np.zeros((2, 3), "float64"), "right: must have the data type of left, FLOAT32, got FLOAT64"),
    (
        lambda x: dml.slice(x, input_window_offsets=[0, 0], input_window_sizes=[2, 9], input_window_strides=[1, 1]),
        "input_window_offsets[1] + input_window_sizes[1] <= input.sizes[1] = 3, got 9",
    ),
    (lambda x: dml.cast(x, "float23"), "dml.cast: output_data_type: 'float23' is not"),
    (lambda x: x << x, "left: must be UINT64"),
    (lambda x: dml.fused_activation.relu() and dml.activation_softmax(x, axes=[5]), "axes[0]: must be less"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_point_at_the_line_that_made_the_node(call: Callable[[Any], Any], message: str) -> None:
    x = dml.Graph().input("float32", [2, 3])
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        call(x)
    first, *violations = str(caught.value).split("\n")
    assert first.startswith(f'File "{Path(__file__)}", line {line_of(call)}: ')
    assert message in str(caught.value)
    assert len(caught.value.violations) == len(violations)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: dml.add(x, ["a", 2]), "b: expected an array"),
        (lambda x: dml.add(x, None), "b: an array is needed"),  # type: ignore[call-overload]
        (lambda x: dml.add(x, x, out=np.zeros(2, "float32")), "out: a graph that is built has no arrays"),
        (lambda x: dml.add(x, x, device=dml.Device(feature_level="3_0")), "device: expected that of the graph"),
        (lambda x: dml.add(x, dml.Graph().input("float32", [2])), "different graphs"),
        (lambda x: x + dml.Graph().input("float32", [2]), "different graphs"),
        (lambda x: dml.Graph().compile(x), "different graphs"),
    ],
)
def test_operands_that_do_not_belong_in_a_graph(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(dml.BindingError, match=message):
        call(dml.Graph().input("float32", [2]))


def test_the_device_of_the_graph_may_be_named() -> None:
    device = dml.Device(feature_level="5_0")
    x = dml.Graph(device).input("float32", [2])
    assert dml.add(x, x, device=dml.Device(feature_level="5_0")).sizes == (2,)


def test_levels_without_graphs() -> None:
    with pytest.raises(dml.InvalidDescriptorError, match="graphs do not exist at feature level 2_0, only from 2_1 on"):
        dml.Graph(dml.Device(feature_level="2_0"))
