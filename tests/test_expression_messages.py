"""What is wrong with Python's operators on graph tensors is told in the words of the expression; types of elements that
DirectML does not have are called by name, with what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opendml as dml
from opendml.building.operator_messages import EXPRESSIONS
from opendml.description.operator_classes import operator_class

GRAPH = dml.Graph()
X, N, U, D = (GRAPH.input(name, [2, 3]) for name in ("float32", "int32", "float64", "uint8"))
TYPES = "FLOAT32, FLOAT16, INT64, INT32, INT16, INT8, UINT64, UINT32, UINT16 or UINT8"

MESSAGES: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: X + N,
        "left + right: DML_OPERATOR_ELEMENT_WISE_ADD is invalid at feature level 6_4:\n"
        '  right: must have the data type of left, FLOAT32, got INT32; try right.astype("float32")',
    ),
    (
        lambda: U * U,
        "left * right: DML_OPERATOR_ELEMENT_WISE_MULTIPLY is invalid at feature level 6_4:\n"
        f'  left: must be {TYPES} at feature level 6_4, got FLOAT64; try left.astype("float32")\n'
        f'  right: must be {TYPES} at feature level 6_4, got FLOAT64; try right.astype("float32")',
    ),
    (
        lambda: -D,
        "-operand: DML_OPERATOR_ELEMENT_WISE_NEGATE is invalid at feature level 6_4:\n"
        "  operand: must be FLOAT32, FLOAT16, INT64, INT32, INT16 or INT8 at feature level 6_4, got UINT8; "
        'try operand.astype("int16")',
    ),
    (
        lambda: np.exp(N),
        "DML_OPERATOR_ELEMENT_WISE_EXP is invalid at feature level 6_4:\n"
        "  operand: must be FLOAT32 or FLOAT16 at feature level 6_4, got INT32; "
        'try operand.astype("float32")',
    ),
    (
        lambda: X == N,
        "left == right: DML_OPERATOR_ELEMENT_WISE_LOGICAL_EQUALS is invalid at feature level 6_4:\n"
        '  right: must have the data type of left, FLOAT32, got INT32; try right.astype("float32")',
    ),
    (
        lambda: X.T @ N,
        "left @ right: DML_OPERATOR_GEMM is invalid at feature level 6_4:\n"
        '  right: must be FLOAT32 or FLOAT16 at feature level 6_4, got INT32; try right.astype("float32")\n'
        '  right: must have the data type of left, FLOAT32, got INT32; try right.astype("float32")',
    ),
]


@pytest.mark.parametrize(("expression", "message"), MESSAGES)
def test_messages(expression: Callable[[], Any], message: str) -> None:
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        expression()
    place, _, text = str(caught.value).partition(", line ")
    assert place.endswith('test_expression_messages.py"')
    assert text.partition(": ")[2] == message


def test_values_and_operands_are_called_by_their_side() -> None:
    with pytest.raises(dml.InvalidDescriptorError, match=r"right: 1.5 is no value of INT32"):
        N + 1.5
    with pytest.raises(dml.InvalidDescriptorError, match=r"left: 1.5 is no value of INT32"):
        1.5 + N
    with pytest.raises(dml.BindingError, match=r"^right: expected an array, a graph tensor or a number, got None$"):
        X + None


def test_every_expression_has_operands() -> None:
    for operator_type, expression in EXPRESSIONS.items():
        fields = {field.json_name for field in operator_class(operator_type).fields.values()}
        assert fields & {"ATensor", "InputTensor"}
        assert ("left" in expression) == bool(fields & {"BTensor", "ExponentTensor"})


FOREIGN = [
    (np.zeros(2, complex), "'complex128': DirectML has no complex numbers; give .real and .imag as two tensors"),
    (2j, "'complex128': DirectML has no complex numbers; give .real and .imag as two tensors"),
    ([2j], "'complex128': DirectML has no complex numbers; give .real and .imag as two tensors"),
    (np.array(["a"]), "'str32': DirectML's tensors hold numbers, not texts"),
    (np.array([None]), "'object': DirectML's tensors hold numbers, not objects of Python"),
    (np.zeros(2, "M8[s]"), "'datetime64[s]': DirectML's tensors hold numbers, not times; .view(np.int64) gives theirs"),
    (np.zeros(2, "f4,i4"), "'void64': DirectML's tensors hold numbers, not records; give each field as a tensor"),
]


@pytest.mark.parametrize(("value", "message"), FOREIGN)
def test_types_of_other_libraries(value: Any, message: str) -> None:
    for call, name in ((dml.identity, "input"), (lambda given: X[0] + given, "right")):
        with pytest.raises(dml.InvalidDescriptorError) as caught:
            call(value)
        assert str(caught.value) == f"{name}: {message}"


@pytest.mark.parametrize(
    ("data_type", "message"),
    [
        ("bfloat16", "DataType: 'bfloat16': DirectML has no bfloat16; float32 holds all its values"),
        (bool, "DataType: 'bool': DirectML has no bool; uint8 has the same bytes"),
        (complex, "DataType: 'complex': DirectML has no complex numbers; give .real and .imag as two tensors"),
    ],
)
def test_descriptions(data_type: Any, message: str) -> None:
    with pytest.raises(dml.InvalidDescriptorError) as caught:
        dml.TensorDesc(data_type, [1])
    assert str(caught.value) == message


def test_tensors_that_numpy_cannot_see() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(dml.BindingError) as caught:
        dml.identity(torch.ones(2, dtype=torch.bfloat16))
    assert str(caught.value) == "input: DirectML has no bfloat16; float32 holds all its values"
