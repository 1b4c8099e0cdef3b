"""Arrays that the results of functions are written to, and the descriptions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from opendml.description.descriptors import Operator
from opendml.description.errors import BindingError
from opendml.description.fields import TensorArrayField, TensorField
from opendml.description.tensor import MAXIMUM_UINT, TensorDesc, packed_strides
from opendml.programs.binding import as_array

NumPyArray = npt.NDArray[Any]


def given_results(out: Any) -> list[NumPyArray | None]:
    """The arrays given for outputs, one or several."""
    values = list(out) if isinstance(out, (tuple, list)) else [out]
    return [None if value is None else as_array(value, f"out[{i}]") for i, value in enumerate(values)]


def of_length(results: Sequence[NumPyArray | None], count: int) -> list[NumPyArray | None]:
    """Without what is None beyond the outputs, and with None for those that are not given."""
    length = max((i + 1 for i, array in enumerate(results) if array is not None), default=0)
    return [*results[:length], *[None] * (count - length)]


def with_outputs(desc: Operator, results: Sequence[NumPyArray | None]) -> Operator:
    """The descriptor with outputs that have the strides of given arrays."""
    outputs = desc.outputs()
    results = of_length(results, len(outputs))
    if len(results) != len(outputs):
        names = ", ".join(name for name, _ in outputs)
        raise BindingError(f"out: expected {len(outputs)} arrays ({names}), got {len(results)}")
    tensors = iter(
        [_output_description(name, tensor, array) for (name, tensor), array in zip(outputs, results, strict=True)]
    )
    changes: dict[str, Any] = {}
    for name, field in desc.fields.items():
        if isinstance(field, TensorArrayField) and field.direction == "output":
            changes[name] = tuple(next(tensors) for _ in getattr(desc, name))
        elif isinstance(field, TensorField) and field.direction == "output":
            changes[name] = next(tensors)
    return desc.replace(**changes)


def _output_description(name: str, tensor: TensorDesc | None, array: NumPyArray | None) -> TensorDesc | None:
    if tensor is None or array is None:
        return tensor
    if array.dtype != tensor.data_type.dtype:
        raise BindingError(f"out, {name}: expected elements of {tensor.data_type.dtype}, got {array.dtype}")
    if array.shape != tensor.sizes:
        raise BindingError(f"out, {name}: expected sizes {list(tensor.sizes)}, got {list(array.shape)}")
    if not (is_describable(array) and array.flags.aligned):
        raise BindingError(
            f"out, {name}: expected aligned memory with strides that are multiples of the element size and not"
            f" negative, got {list(array.strides)} bytes"
        )
    return description(array)


def description(array: NumPyArray) -> TensorDesc:
    """An array with its own strides, or packed if DirectML has no such strides."""
    packed = packed_strides(array.shape)
    if not is_describable(array):
        return TensorDesc(array.dtype, array.shape)
    # The stride of a single element means nothing.
    strides = tuple(
        usual if size == 1 else stride // array.itemsize
        for size, stride, usual in zip(array.shape, array.strides, packed, strict=True)
    )
    return TensorDesc(array.dtype, array.shape, None if strides == packed else strides)


def is_describable(array: NumPyArray) -> bool:
    """Whether a descriptor can have the strides of an array."""
    itemsize = array.itemsize
    return array.dtype.isnative and all(
        size <= 1 or (0 <= stride <= MAXIMUM_UINT * itemsize and stride % itemsize == 0)
        for size, stride in zip(array.shape, array.strides, strict=True)
    )
