"""Older versions of operators, for devices of lower feature levels.

The functions build the newest version of an operator. Where a device's level does not have that yet, and the
descriptor makes no use of what is new in it, an older version says the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from opendml.description.descriptors import Operator, operator_class
from opendml.description.enums import (
    AxisDirection,
    DepthSpaceOrder,
    FeatureLevel,
    OperatorType,
    ReduceFunction,
    TensorDataType,
)
from opendml.description.fields import CountField, ScalarUnion, is_integers
from opendml.description.json_values import to_float32


def version_for(desc: Operator, level: FeatureLevel) -> Operator:
    """The descriptor in the newest version that ``level`` has; as it is if there is none, for the rules to report."""
    version = desc
    while version.since > level:
        older = _older(version)
        if older is None:
            return desc
        version = older
    return version


def fits(number: Any, data_type: TensorDataType) -> bool:
    """Whether a data type has a number as a value (rounded, if it is a floating-point type)."""
    if isinstance(number, ScalarUnion):
        return True
    try:
        ScalarUnion.of(number, data_type)
    except (ArithmeticError, TypeError, ValueError):
        return False
    return True


def _older(desc: Operator) -> Operator | None:
    """The descriptor one version down, or None if that cannot say the same."""
    if desc.type not in _OLDER:
        return None
    operator_type, change = _OLDER[desc.type]
    fields = {name: value for name, value in desc.values().items() if not isinstance(desc.fields[name], CountField)}
    changed = change(fields)
    return None if changed is None else operator_class(operator_type)(**changed)


Fields = dict[str, Any]


def _without(name: str, is_usual: Callable[[Any], bool]) -> Callable[[Fields], Fields | None]:
    """Drops a field that has its usual value."""

    def change(fields: Fields) -> Fields | None:
        value = fields.pop(name)
        return fields if is_usual(value) else None

    return change


def _with_floats(data_type: str, *names: str) -> Callable[[Fields], Fields | None]:
    """Turns numbers of the tensor's type into FLOAT, where that is exact."""

    def change(fields: Fields) -> Fields | None:
        type = fields.pop(data_type)
        for name in names:
            fields[name] = _single(fields[name], type)
            if fields[name] is None:
                return None
        return fields

    return change


def _single(value: Any, data_type: TensorDataType) -> float | None:
    """A number of a data type as FLOAT, None if that has no such number."""
    if not isinstance(value, ScalarUnion):
        return None
    number = value.as_type(data_type)
    single = to_float32(number)
    return single if single == number or number != number else None


def _slice_forwards(fields: Fields) -> Fields | None:
    """SLICE has the sizes of the output where SLICE1 has those of the window, and no negative strides."""
    strides = fields["input_window_strides"]
    if not isinstance(strides, tuple) or not all(isinstance(stride, int) and stride > 0 for stride in strides):
        return None
    return {
        "input_tensor": fields["input_tensor"],
        "output_tensor": fields["output_tensor"],
        "offsets": fields["input_window_offsets"],
        "sizes": fields["output_tensor"].sizes,
        "strides": strides,
    }


def _single_diagonal(fields: Fields) -> Fields | None:
    """DIAGONAL_MATRIX has no input and a diagonal instead of a band."""
    first = fields.pop("diagonal_fill_begin")
    if fields.pop("input_tensor") is not None or fields.pop("diagonal_fill_end") != first + 1:
        return None
    return _with_floats("value_data_type", "value")(fields | {"offset": first})


def _as_reduction(function: ReduceFunction) -> Callable[[Fields], Fields | None]:
    """REDUCE finds the first of equal elements."""

    def change(fields: Fields) -> Fields | None:
        is_first = fields.pop("axis_direction") == AxisDirection.INCREASING
        return fields | {"function": function} if is_first else None

    return change


def _always_by_mean(fields: Fields) -> Fields | None:
    """MEAN_VARIANCE_NORMALIZATION1 can leave out the variance only."""
    use_mean, use_variance = fields.pop("use_mean"), fields.pop("use_variance")
    return fields | {"normalize_variance": use_variance} if use_mean is True else None


def _by_images(fields: Fields) -> Fields | None:
    """MEAN_VARIANCE_NORMALIZATION normalises images, or their channels by themselves."""
    axes = fields.pop("axes")
    axes = tuple(sorted(axes)) if is_integers(axes) else axes
    return fields | {"cross_channel": axes == (1, 2, 3)} if axes in ((1, 2, 3), (2, 3)) else None


def _all_ones(value: Any) -> bool:
    return isinstance(value, tuple) and set(value) == {1}


_OLDER: Final[dict[OperatorType, tuple[OperatorType, Callable[[Fields], Fields | None]]]] = {
    OperatorType.AVERAGE_POOLING1: (OperatorType.AVERAGE_POOLING, _without("dilations", _all_ones)),
    OperatorType.LP_POOLING1: (OperatorType.LP_POOLING, _without("dilations", _all_ones)),
    OperatorType.MAX_POOLING2: (OperatorType.MAX_POOLING1, _without("dilations", _all_ones)),
    OperatorType.MAX_POOLING1: (OperatorType.MAX_POOLING, _without("output_indices_tensor", lambda desc: desc is None)),
    OperatorType.SPACE_TO_DEPTH1: (
        OperatorType.SPACE_TO_DEPTH,
        _without("order", lambda order: order == DepthSpaceOrder.DEPTH_COLUMN_ROW),
    ),
    OperatorType.DEPTH_TO_SPACE1: (
        OperatorType.DEPTH_TO_SPACE,
        _without("order", lambda order: order == DepthSpaceOrder.DEPTH_COLUMN_ROW),
    ),
    OperatorType.SLICE1: (OperatorType.SLICE, _slice_forwards),
    OperatorType.ELEMENT_WISE_CLIP1: (OperatorType.ELEMENT_WISE_CLIP, _with_floats("min_max_data_type", "min", "max")),
    OperatorType.GATHER_ND1: (OperatorType.GATHER_ND, _without("batch_dimension_count", lambda count: count == 0)),
    OperatorType.DIAGONAL_MATRIX1: (OperatorType.DIAGONAL_MATRIX, _single_diagonal),
    OperatorType.MEAN_VARIANCE_NORMALIZATION2: (OperatorType.MEAN_VARIANCE_NORMALIZATION1, _always_by_mean),
    OperatorType.MEAN_VARIANCE_NORMALIZATION1: (OperatorType.MEAN_VARIANCE_NORMALIZATION, _by_images),
    OperatorType.ARGMAX: (OperatorType.REDUCE, _as_reduction(ReduceFunction.ARGMAX)),
    OperatorType.ARGMIN: (OperatorType.REDUCE, _as_reduction(ReduceFunction.ARGMIN)),
    OperatorType.ELEMENT_WISE_CLIP_GRAD1: (
        OperatorType.ELEMENT_WISE_CLIP_GRAD,
        _with_floats("min_max_data_type", "min", "max"),
    ),
    OperatorType.PADDING1: (OperatorType.PADDING, _with_floats("padding_value_data_type", "padding_value")),
}
