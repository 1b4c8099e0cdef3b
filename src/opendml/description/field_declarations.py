"""What operators are declared with: a function for each kind of field.

``default=None`` makes a field optional (counts: computed from their array). ``after`` places a field that a later
version of an operator adds. They return Any so that a declaration may give the field the type that its values have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opendml.description.enums import DirectMLEnum, FeatureLevel, OperatorType
from opendml.description.fields import (
    REQUIRED,
    ArrayField,
    BooleanField,
    CountField,
    EnumField,
    Field,
    FloatField,
    IntegerField,
    OperatorArrayField,
    OperatorField,
    ScalarUnionField,
    StructField,
    TensorArrayField,
    TensorField,
)
from opendml.description.structs import ScaleBias, Size2D
from opendml.description.tensor import MAXIMUM_UINT


def tensor_input(*, default: Any = REQUIRED, optional: bool | None = None, after: str = "") -> Any:
    """A tensor that is read; optional if it has a default, unless said otherwise."""
    return TensorField("input", default=default, optional=_is_optional(default, optional), after=after)


def tensor_output(*, default: Any = REQUIRED, optional: bool | None = None, after: str = "") -> Any:
    """A tensor that is written; optional if it has a default, unless said otherwise."""
    return TensorField("output", default=default, optional=_is_optional(default, optional), after=after)


def _is_optional(default: Any, optional: bool | None) -> bool:
    return default is not REQUIRED if optional is None else optional


def tensor_inputs(*, count: str) -> Any:
    """An array of tensors that are read."""
    return TensorArrayField("input", count)


def tensor_outputs(*, count: str) -> Any:
    """An array of tensors that are written."""
    return TensorArrayField("output", count)


def count_of(array: str, *, default: Any = REQUIRED, rank_of: Sequence[str] = (), less: int = 0) -> Any:
    """The length of an array (or of several: of most, or else of the one named), which is the rank of tensors if such
    are named, or ``less`` than that."""
    return CountField(array, rank_of, less, default=default)


def uint(*, default: Any = REQUIRED, after: str = "") -> Any:
    """A UINT: 0 to 2^32 - 1."""
    return _uint_field(default=default, after=after)


def int_value(*, default: Any = REQUIRED, after: str = "") -> Any:
    """An INT: -2^31 to 2^31 - 1."""
    return _int_field(default=default, after=after)


def uint_array(*, count: str, after: str = "") -> Any:
    """An array of UINT, its length in the field ``count``."""
    return ArrayField(_uint_field(), count, after=after)


def int_array(*, count: str, after: str = "") -> Any:
    """An array of INT, its length in the field ``count``."""
    return ArrayField(_int_field(), count, after=after)


def _int_field(**options: Any) -> Field:
    return IntegerField("INT", -(2**31), 2**31 - 1, **options)


def _uint_field(**options: Any) -> Field:
    return IntegerField("UINT", 0, MAXIMUM_UINT, **options)


def boolean(*, default: Any = REQUIRED, after: str = "") -> Any:
    """A BOOL."""
    return BooleanField(default=default, after=after)


def float_value(*, default: Any = REQUIRED, optional: bool = False, after: str = "") -> Any:
    """A FLOAT (IEEE single)."""
    return FloatField(default=default, optional=optional, after=after)


def float_array(*, count: str, after: str = "") -> Any:
    """An array of FLOAT (IEEE single), its length in the field ``count``."""
    return ArrayField(FloatField(), count, after=after)


def enumeration(of: type[DirectMLEnum], *, default: Any = REQUIRED, after: str = "", json_name: str = "") -> Any:
    """A member of an enumeration. ``json_name``: DirectML's name of the field, where Python's is another."""
    return EnumField(of, default=default, after=after, json_name=json_name)


def scalar_union(data_type: str, *, default: Any = REQUIRED) -> Any:
    """A number whose data type is in the field named."""
    return ScalarUnionField(data_type, default=default)


def scale_bias(*, default: Any = REQUIRED) -> Any:
    """A ``ScaleBias``; optional if it has a default."""
    return StructField("DML_SCALE_BIAS", ScaleBias, FloatField(), default=default, optional=_is_optional(default, None))


def size_2d(*, default: Any = REQUIRED) -> Any:
    """A ``Size2D``."""
    return StructField("DML_SIZE_2D", Size2D, _uint_field(), default=default)


def operator_desc(accepts: Mapping[OperatorType, FeatureLevel], *, default: Any = REQUIRED) -> Any:
    """A fused activation; optional if it has a default."""
    return OperatorField(accepts, default=default, optional=_is_optional(default, None))


def operator_array(accepts: Mapping[OperatorType, FeatureLevel], *, count: str, is_of_output: bool = True) -> Any:
    """An array of activations; ``is_of_output``: whether they are applied to the operator's output as it is."""
    return OperatorArrayField(accepts, count, is_of_output=is_of_output)
