"""Tensors out of nothing: fill_value_constant, fill_value_sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendml.building.graph_building import Graph
from opendml.description.descriptors import Operator
from opendml.description.enums import TensorDataType
from opendml.description.structs import ScalarUnion
from opendml.description.tensor import TensorDesc
from opendml.functions.core import Array, evaluate_single, integers
from opendml.functions.signatures import operator_function
from opendml.operators.generation import FillValueConstant, FillValueSequence
from opendml.programs.device import Device


@operator_function
def fill_value_constant(
    output_sizes: Sequence[int],
    *,
    output_data_type: TensorDataType | str | Any,
    value: float | ScalarUnion,
    device: Device | Graph | None = None,
    out: Any = None,
) -> Array:
    """An array with the same value everywhere (FILL_VALUE_CONSTANT).

    ``output_data_type``: any type, that of the result. ``value``: a number that the type has.

    >>> dml.fill_value_constant([2, 2], output_data_type="int64", value=2**62).tolist()
    [[4611686018427387904, 4611686018427387904], [4611686018427387904, 4611686018427387904]]
    """
    parameters = (integers(output_sizes), output_data_type)
    return evaluate_single(_fill_value_constant, (), parameters, (value,), device=device, out=out)


def _fill_value_constant(output_sizes: Any, output_data_type: Any, value: Any) -> Operator:
    output = TensorDesc(output_data_type, output_sizes)
    return FillValueConstant(output_tensor=output, value_data_type=output.data_type, value=value)


@operator_function
def fill_value_sequence(
    output_sizes: Sequence[int],
    *,
    output_data_type: TensorDataType | str | Any,
    value_start: float | ScalarUnion,
    value_delta: float | ScalarUnion,
    device: Device | Graph | None = None,
    out: Any = None,
) -> Array:
    """``value_start + i * value_delta`` for every element, i counted row-major (FILL_VALUE_SEQUENCE).

    ``output_data_type``: any type but float64, that of the result. The values are numbers that the type has.

    >>> dml.fill_value_sequence([2, 3], output_data_type="float32", value_start=1, value_delta=0.5).tolist()
    [[1.0, 1.5, 2.0], [2.5, 3.0, 3.5]]
    """
    parameters = (integers(output_sizes), output_data_type)
    return evaluate_single(_fill_value_sequence, (), parameters, (value_start, value_delta), device=device, out=out)


def _fill_value_sequence(output_sizes: Any, output_data_type: Any, value_start: Any, value_delta: Any) -> Operator:
    output = TensorDesc(output_data_type, output_sizes)
    return FillValueSequence(
        output_tensor=output, value_data_type=output.data_type, value_start=value_start, value_delta=value_delta
    )
