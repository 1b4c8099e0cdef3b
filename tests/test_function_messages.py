"""What is wrong with a call is told in the words of the call, without what was only inferred, and with a cure."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calls import FUNCTIONS, described
from test_function_levels import LATER, call_of

import opendml as dml
from opendml.description.data_types import nearest_data_type
from opendml.description.enums import TensorDataType
from opendml.description.fields import CountField
from opendml.functions.arguments import TYPES_OF_INPUT, _Call

X = np.zeros((1, 1, 4, 4), "float32")
WINDOW: dict[str, Any] = {"window_size": [2, 2]}
DOUBLE = X.astype("float64")

MESSAGES: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: dml.activation_relu(DOUBLE),
        "dml.activation_relu: DML_OPERATOR_ACTIVATION_RELU is invalid at feature level 6_4:\n"
        "  input: must be FLOAT32, FLOAT16, INT32, INT16 or INT8 at feature level 6_4, got FLOAT64; "
        "try input.astype(np.float32)",
    ),
    (
        lambda: dml.max_pooling(X, window_size=[0, 2]),
        "dml.max_pooling: DML_OPERATOR_MAX_POOLING2 is invalid at feature level 6_4:\n"
        "  window_size[0]: must be at least 1, got 0",
    ),
    (
        lambda: dml.max_pooling(X[0], **WINDOW),
        "dml.max_pooling: DML_OPERATOR_MAX_POOLING2 is invalid at feature level 6_4:\n"
        "  input: must have rank 4 to 5 at feature level 6_4, got rank 3; try input.reshape([1, 1, 4, 4])",
    ),
    (
        lambda: dml.gemm(X, X.astype("float16")),
        "dml.gemm: DML_OPERATOR_GEMM is invalid at feature level 6_4:\n"
        "  b: must have the data type of a, FLOAT32, got FLOAT16; try b.astype(np.float32)",
    ),
    (
        lambda: dml.convolution(X, np.zeros((2, 3, 3, 3), "float32")),
        "dml.convolution: DML_OPERATOR_CONVOLUTION is invalid at feature level 6_4:\n"
        "  filter.shape[1]: must be input.shape[1] / group_count = 1 / 1, got 3",
    ),
    (
        lambda: dml.convolution(X[0], np.zeros((1, 1, 3, 3), "float32"), strides=[1]),
        "dml.convolution: DML_OPERATOR_CONVOLUTION is invalid at feature level 6_4:\n"
        "  filter: must have the number of dimensions of input, 3, got 4\n"
        "  filter.shape[1]: must be input.shape[1] / group_count = 4 / 1, got 1",
    ),
    (
        lambda: dml.convolution(X, np.zeros((1, 1, 3, 3), "float32"), strides=[1], dilations=[1, 1, 1]),
        "dml.convolution: DML_OPERATOR_CONVOLUTION is invalid at feature level 6_4:\n"
        "  strides: must have input.ndim - 2 = 2 elements, got 1\n"
        "  dilations: must have input.ndim - 2 = 2 elements, got 3",
    ),
    (
        lambda: dml.slice(
            X, input_window_offsets=[0] * 3, input_window_sizes=[1, 1, 4, 4], input_window_strides=[1] * 4
        ),
        "dml.slice: DML_OPERATOR_SLICE1 is invalid at feature level 6_4:\n"
        "  input_window_offsets: must have input.ndim = 4 elements, got 3",
    ),
    (
        lambda: dml.add(X.astype(complex), 1),
        "a: 'complex128': DirectML has no complex numbers; give .real and .imag as two tensors",
    ),
    (lambda: dml.add(1, np.array(["a"])), "b: 'str32': DirectML's tensors hold numbers, not texts"),
    (
        lambda: dml.cast(X, "float8"),
        "dml.cast: output_data_type: 'float8' is not a DML_TENSOR_DATA_TYPE: one of UNKNOWN, FLOAT32, FLOAT16, UINT32, "
        "UINT16, UINT8, INT32, INT16, INT8, FLOAT64, UINT64, INT64, UINT4, INT4; did you mean 'FLOAT32'?",
    ),
    (
        lambda: dml.reduce(X, "sums"),
        "dml.reduce: DML_OPERATOR_REDUCE is invalid at feature level 6_4:\n"
        "  function: must be a DML_REDUCE_FUNCTION (one of ARGMAX, ARGMIN, AVERAGE, L1, L2, LOG_SUM, LOG_SUM_EXP, MAX, "
        "MIN, MULTIPLY, SUM, SUM_SQUARE; did you mean 'SUM'?), got sums",
    ),
]


@pytest.mark.parametrize(("call", "message"), MESSAGES)
def test_messages(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        call()
    assert str(caught.value) == message


def test_graph_tensors_are_spoken_of_as_such() -> None:
    x = dml.Graph().input("float64", [2, 3])
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        dml.activation_relu(x)
    assert str(caught.value.violations[0]) == (
        "input: must be FLOAT32, FLOAT16, INT32, INT16 or INT8 at feature level 6_4, got FLOAT64; "
        'try dml.cast(input, "float32")'
    )


def test_what_the_user_gives_for_outputs_is_named() -> None:
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        dml.max_pooling(X, **WINDOW, output_sizes=[1, 1, 3, 9])
    assert [violation.field for violation in caught.value.violations] == ["output_sizes[3]"]
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        dml.argmax(X, output_data_type="float32")
    assert [violation.field for violation in caught.value.violations] == ["output_data_type"]


def test_tensors_of_an_array_are_named_one_by_one() -> None:
    x, scale = np.ones((2, 4), np.float32), np.ones((1, 1), np.float32)
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        dml.quantize(x, scale.astype(np.float16), np.zeros((1, 3), np.uint8))
    places = [violation.field for violation in caught.value.violations]
    assert places == ["zero_point.shape[1]", "scale"]


def test_inferred_violations_are_told_where_there_is_no_cause() -> None:
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        dml.equals(X, X, device=dml.Device(feature_level="1_0"))
    (violation,) = caught.value.violations
    assert str(violation) == (
        "output_data_type: must be UINT32 at feature level 1_0, got UINT8 (allowed from feature level 2_0 on)"
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_field_is_a_parameter_or_inferred(name: str) -> None:
    """Nothing that a user writes is spoken of by another name, in any version of an operator."""
    arguments, options = call_of(name)
    for level in ("1_0", "2_0", "2_1", "3_0", "5_0", "6_4"):
        try:
            desc = described(FUNCTIONS[name], *arguments, level=level, **options)
        except dml.InvalidDescriptorError as error:
            assert "does not exist" in str(error) or name in LATER
            continue
        call = _Call(desc, dml.FeatureLevel.LEVEL_6_4, inspect.unwrap(FUNCTIONS[name]), tuple(arguments), options)
        for field in desc.fields.values():
            if getattr(field, "direction", "") != "output" and not isinstance(field, CountField):
                is_inferred = field.name in TYPES_OF_INPUT or (name, field.name) in INFERRED
                known = call._parameter(field)
                assert is_inferred or known in inspect.signature(FUNCTIONS[name]).parameters, field.name


INFERRED = {
    ("argmax", "function"),
    ("argmin", "function"),
    ("lstm", "use_clip_threshold"),
    ("quantize", "quantization_type"),
    ("dequantize", "quantization_type"),
}


def test_nearest_data_types() -> None:
    types = {name: TensorDataType[name] for name in TensorDataType.__members__}
    floats, some = (types["FLOAT32"], types["FLOAT16"]), (types["FLOAT32"], types["INT32"], types["INT8"])
    indices = (types["UINT32"], types["UINT64"])
    for name, choice, expected in [
        ("FLOAT64", floats, "FLOAT32"),
        ("INT64", floats, "FLOAT32"),
        ("UINT8", some, "INT32"),
        ("INT64", some, "INT32"),
        ("FLOAT16", some, "FLOAT32"),
        ("UINT16", indices, "UINT32"),
        ("INT64", indices, "UINT64"),
    ]:
        assert nearest_data_type(types[name], choice) is types[expected], name
    for given, other in itertools.product(list(TensorDataType)[1:], repeat=2):
        assert nearest_data_type(given, (other, given)) is given
