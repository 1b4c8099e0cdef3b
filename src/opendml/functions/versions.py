"""Older versions of operators, for devices of lower feature levels.

The functions build the newest version of an operator. Where a device's level does not have that yet, an older version
says the same if the descriptor makes no use of what is new in it. Where it does, the error names the fields that do,
and the level that has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from opendml.description.descriptors import Operator
from opendml.description.enums import (
    AxisDirection,
    DepthSpaceOrder,
    FeatureLevel,
    InterpolationMode,
    OperatorType,
    ReduceFunction,
    TensorDataType,
)
from opendml.description.errors import InvalidDescriptorError
from opendml.description.fields import CountField, camel_case, is_integers
from opendml.description.json_values import to_float32
from opendml.description.operator_classes import operator_class
from opendml.description.rules import Violation, describe_value
from opendml.description.structs import ScalarUnion
from opendml.description.tensor import TensorDesc
from opendml.description.validation import validate


def version_for(desc: Operator, level: FeatureLevel) -> Operator:
    """The descriptor in the newest version of its operator that ``level`` has, or the oldest one if it has none.

    Raises InvalidDescriptorError if that cannot say the same: with the fields that need a newer version, and all else
    that is wrong with the descriptor.
    """
    version, lost = desc, list[Violation]()
    while version.since > level and version.type in _OLDER:
        version = _older(version, level, lost)
    if lost:
        others = [found for found in validate(desc, level) if found.field]
        message = f"{desc.type.dml_name} is invalid at feature level {level}:"
        raise InvalidDescriptorError(message, lost + others, desc=desc, feature_level=level)
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


def _older(desc: Operator, level: FeatureLevel, lost: list[Violation]) -> Operator:
    """The descriptor one version down; what that cannot say is added to ``lost``."""
    operator_type, change = _OLDER[desc.type]
    fields = {name: value for name, value in desc.values().items() if not isinstance(desc.fields[name], CountField)}
    newer = dict(fields)
    for name, must in change(fields):
        rule = f"must {must} at feature level {level}, which has {operator_type.dml_name} only"
        got = "" if newer[name] is None or isinstance(newer[name], TensorDesc) else describe_value(newer[name])
        lost.append(Violation(desc.type.dml_name, camel_case(name), rule, got, desc.since))
    return operator_class(operator_type)(**fields)


Fields = dict[str, Any]
Lost = Iterator[tuple[str, str]]
"""Fields with values that the older version has no place for, and what they must be."""

Change = Callable[[Fields], Lost]
"""Turns the fields of an operator into those of its older version."""


def _without(name: str, usual: str, is_usual: Callable[[Any], bool]) -> Change:
    """Drops a field that has its usual value."""

    def change(fields: Fields) -> Lost:
        if not is_usual(fields.pop(name)):
            yield name, usual

    return change


def _with_floats(data_type: str, *names: str) -> Change:
    """Turns numbers of the tensor's type into FLOAT, where that is exact."""

    def change(fields: Fields) -> Lost:
        type = fields.pop(data_type)
        for name in names:
            single = _single(fields[name], type)
            if single is None:
                yield name, "be a number that FLOAT has"
            fields[name] = single or 0.0

    return change


def _single(value: Any, data_type: TensorDataType) -> float | None:
    """A number of a data type as FLOAT, None if that has no such number."""
    if not isinstance(value, ScalarUnion):
        return None
    number = value.as_type(data_type)
    single = to_float32(number)
    return single if single == number or number != number else None


def _slice_forwards(fields: Fields) -> Lost:
    """SLICE has the sizes of the output where SLICE1 has those of the window, and no negative strides."""
    strides = fields.pop("input_window_strides")
    if not isinstance(strides, tuple) or not all(isinstance(stride, int) and stride > 0 for stride in strides):
        yield "input_window_strides", "be positive"
    fields.pop("input_window_sizes")
    fields |= {"offsets": fields.pop("input_window_offsets"), "sizes": fields["output_tensor"].sizes}
    fields["strides"] = strides


def _single_diagonal(fields: Fields) -> Lost:
    """DIAGONAL_MATRIX has no input and a diagonal instead of a band."""
    first, end = fields.pop("diagonal_fill_begin"), fields.pop("diagonal_fill_end")
    if fields.pop("input_tensor") is not None:
        yield "input_tensor", "not be given"
    if not isinstance(first, int) or end != first + 1:
        yield "diagonal_fill_end", "be DiagonalFillBegin + 1"
    yield from _with_floats("value_data_type", "value")(fields)
    fields["offset"] = first


def _as_reduction(function: ReduceFunction) -> Change:
    """REDUCE finds the first of equal elements."""

    def change(fields: Fields) -> Lost:
        if fields.pop("axis_direction") != AxisDirection.INCREASING:
            yield "axis_direction", f"be {AxisDirection.INCREASING.dml_name}"
        fields["function"] = function

    return change


def _always_by_mean(fields: Fields) -> Lost:
    """MEAN_VARIANCE_NORMALIZATION1 can leave out the variance only."""
    if fields.pop("use_mean") is not True:
        yield "use_mean", "be true"
    fields["normalize_variance"] = fields.pop("use_variance")


def _by_images(fields: Fields) -> Lost:
    """MEAN_VARIANCE_NORMALIZATION normalises images, or their channels by themselves."""
    axes = fields.pop("axes")
    axes = tuple(sorted(axes)) if is_integers(axes) else axes
    if axes not in ((1, 2, 3), (2, 3)):
        yield "axes", "be {1, 2, 3} or {2, 3}"
    fields["cross_channel"] = axes == (1, 2, 3)


def _over_rows(fields: Fields) -> Lost:
    """The first versions of softmax and its relatives work along the last dimension."""
    last = fields["input_tensor"].rank - 1
    if fields.pop("axes") != (last,):
        yield "axes", f"be {{{last}}}, the last dimension,"


def _linear(fields: Fields) -> Lost:
    """Before there was a direction nearest neighbours were rounded, halves up."""
    fields.pop("rounding_direction")
    if fields["interpolation_mode"] != InterpolationMode.LINEAR:
        yield "interpolation_mode", f"be {InterpolationMode.LINEAR.dml_name}"


def _by_centres(fields: Fields) -> Lost:
    """RESAMPLE aligns the centres of pixels."""
    for name, centre in (("input_pixel_offsets", 0.5), ("output_pixel_offsets", -0.5)):
        offsets = fields[name]
        del fields[name]
        if not isinstance(offsets, tuple) or set(offsets) != {centre}:
            yield name, f"be {centre} in all dimensions"


def _without_groups(fields: Fields) -> Lost:
    """MULTIHEAD_ATTENTION has one number of heads, and a past of one length."""
    if fields.pop("past_sequence_lengths_tensor") is not None:
        yield "past_sequence_lengths_tensor", "not be given"
    heads, others = fields.pop("query_head_count"), fields.pop("key_value_head_count")
    if heads != others:
        yield "key_value_head_count", "be head_count"
    fields["head_count"] = heads


def _by_centres_of_samples(fields: Fields) -> Lost:
    """ROI_ALIGN spreads its samples evenly, at the centres of pixels."""
    usual = {"input_pixel_offset": 0.5, "output_pixel_offset": -0.5, "align_regions_to_corners": False}
    for name, value in usual.items():
        if fields.pop(name) != value:
            yield name, f"be {str(value).lower()}"


def _all_ones(value: Any) -> bool:
    return isinstance(value, tuple) and set(value) == {1}


def _is_absent(value: Any) -> bool:
    return value is None


_DEPTH_FIRST = _without(
    "order",
    f"be {DepthSpaceOrder.DEPTH_COLUMN_ROW.dml_name}",
    lambda order: order == DepthSpaceOrder.DEPTH_COLUMN_ROW,
)
_NOT_DILATED = _without("dilations", "be 1 in all dimensions", _all_ones)
_LIMITS = _with_floats("min_max_data_type", "min", "max")

_OLDER: Final[dict[OperatorType, tuple[OperatorType, Change]]] = {
    OperatorType.ACTIVATION_HARDMAX1: (OperatorType.ACTIVATION_HARDMAX, _over_rows),
    OperatorType.ACTIVATION_LOG_SOFTMAX1: (OperatorType.ACTIVATION_LOG_SOFTMAX, _over_rows),
    OperatorType.ACTIVATION_SOFTMAX1: (OperatorType.ACTIVATION_SOFTMAX, _over_rows),
    OperatorType.ARGMAX: (OperatorType.REDUCE, _as_reduction(ReduceFunction.ARGMAX)),
    OperatorType.ARGMIN: (OperatorType.REDUCE, _as_reduction(ReduceFunction.ARGMIN)),
    OperatorType.AVERAGE_POOLING1: (OperatorType.AVERAGE_POOLING, _NOT_DILATED),
    OperatorType.DEPTH_TO_SPACE1: (OperatorType.DEPTH_TO_SPACE, _DEPTH_FIRST),
    OperatorType.DIAGONAL_MATRIX1: (OperatorType.DIAGONAL_MATRIX, _single_diagonal),
    OperatorType.ELEMENT_WISE_ADD1: (
        OperatorType.ELEMENT_WISE_ADD,
        _without("fused_activation", "not be given", _is_absent),
    ),
    OperatorType.ELEMENT_WISE_CLIP1: (OperatorType.ELEMENT_WISE_CLIP, _LIMITS),
    OperatorType.ELEMENT_WISE_CLIP_GRAD1: (OperatorType.ELEMENT_WISE_CLIP_GRAD, _LIMITS),
    OperatorType.TOP_K1: (
        OperatorType.TOP_K,
        _without(
            "axis_direction",
            f"be {AxisDirection.DECREASING.dml_name}",
            lambda direction: direction == AxisDirection.DECREASING,
        ),
    ),
    OperatorType.GATHER_ND1: (
        OperatorType.GATHER_ND,
        _without("batch_dimension_count", "be 0", lambda count: count == 0),
    ),
    OperatorType.LP_POOLING1: (OperatorType.LP_POOLING, _NOT_DILATED),
    OperatorType.MAX_POOLING1: (
        OperatorType.MAX_POOLING,
        _without("output_indices_tensor", "not be asked for", _is_absent),
    ),
    OperatorType.MAX_POOLING2: (OperatorType.MAX_POOLING1, _NOT_DILATED),
    OperatorType.MEAN_VARIANCE_NORMALIZATION1: (OperatorType.MEAN_VARIANCE_NORMALIZATION, _by_images),
    OperatorType.MEAN_VARIANCE_NORMALIZATION2: (OperatorType.MEAN_VARIANCE_NORMALIZATION1, _always_by_mean),
    OperatorType.MULTIHEAD_ATTENTION1: (OperatorType.MULTIHEAD_ATTENTION, _without_groups),
    OperatorType.PADDING1: (OperatorType.PADDING, _with_floats("padding_value_data_type", "padding_value")),
    OperatorType.RESAMPLE1: (OperatorType.RESAMPLE, _by_centres),
    OperatorType.RESAMPLE2: (OperatorType.RESAMPLE1, _linear),
    OperatorType.RESAMPLE3: (
        OperatorType.RESAMPLE2,
        _without("antialiased", "be false", lambda antialiased: antialiased is False),
    ),
    OperatorType.RESAMPLE_GRAD1: (OperatorType.RESAMPLE_GRAD, _linear),
    OperatorType.ROI_ALIGN1: (OperatorType.ROI_ALIGN, _by_centres_of_samples),
    OperatorType.SLICE1: (OperatorType.SLICE, _slice_forwards),
    OperatorType.SPACE_TO_DEPTH1: (OperatorType.SPACE_TO_DEPTH, _DEPTH_FIRST),
}
