"""Types of ONNX's tensors, and what a model says of its inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from opendml.description.quoting import quoted
from opendml.description.tensor import MAXIMUM_UINT
from opendml.formats.onnx.package import onnx_package

__all__ = ["TensorInfo", "array_type", "check_count", "has_tensors", "info_of", "known_type", "type_name"]

DataType = np.dtype[Any]

_TENSORS: Final = "?bBhHiIlLqQefd"
"""The characters of NumPy's types that DirectML's tensors have; bools are UINT8 there."""


_TYPES: Final = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
}
"""The types that NumPy has by their numbers in TensorProto.DataType: known without the package."""


def check_count(sizes: Sequence[int]) -> None:
    """ValueError for sizes that neither a tensor may have, nor an array with none of its elements."""
    if math.prod(filter(None, sizes)) > MAXIMUM_UINT:
        raise ValueError(f"no tensor has the sizes {quoted(list(sizes))}: at most {MAXIMUM_UINT} elements fit")


def has_tensors(data_type: DataType) -> bool:
    """Whether DirectML has tensors of a type."""
    return data_type.kind in "biuf" and data_type.char in _TENSORS


def array_type(element_type: int) -> DataType:
    """NumPy's type of ONNX's; those that NumPy lacks are of ``ml_dtypes``. Raises KeyError for no type at all."""
    if element_type in _TYPES:
        return np.dtype(_TYPES[element_type])
    found: DataType = np.dtype(onnx_package().helper.tensor_dtype_to_np_dtype(element_type))
    return found


def known_type(element_type: int) -> DataType | None:
    """NumPy's type of ONNX's; None where a file says nothing, or something that is no type."""
    try:
        return array_type(element_type) if element_type else None
    except (KeyError, ValueError, TypeError):
        return None


def type_name(element_type: int) -> str:
    """``float32``, ``bool``, ``string``, or what else a model may say."""
    known = {"FLOAT": "float32", "DOUBLE": "float64"}
    try:
        name: str = onnx_package().TensorProto.DataType.Name(element_type)
    except ValueError:
        return f"type {element_type}"
    return known.get(name, name.lower())


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or an output of a model: what the file says of it.

    ``data_type``: a name, as of NumPy (``float32``, ``bool``), or what else it is (``string``, ``a sequence``).
    ``sizes``: of every dimension a number, a name, or None where the model says nothing; None where it does not even
    say how many there are.
    """

    name: str
    data_type: str
    sizes: tuple[int | str | None, ...] | None
    element_type: int = 0

    def __repr__(self) -> str:
        sizes = (
            "any sizes" if self.sizes is None else f"[{', '.join('?' if s is None else str(s) for s in self.sizes)}]"
        )
        return f"<{quoted(self.name)}: {self.data_type} {sizes}>"


_MEANINGLESS: Final = ("", "?", "-1", "None", "unk")


def info_of(value: Any) -> TensorInfo:
    """What a ValueInfoProto says."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        named = {"sequence_type": "a sequence", "optional_type": "an optional", "map_type": "a map"}
        return TensorInfo(value.name, named.get(kind, "of no type"), None)
    tensor = value.type.tensor_type
    sizes = tuple(map(_size, tensor.shape.dim)) if tensor.HasField("shape") else None
    return TensorInfo(value.name, type_name(tensor.elem_type), sizes, tensor.elem_type)


def _size(dimension: Any) -> int | str | None:
    """A dimension's size or name; exporters also write -1 and ``?`` for what they do not know."""
    if dimension.WhichOneof("value") == "dim_value":
        return int(dimension.dim_value) if dimension.dim_value >= 0 else None
    return None if dimension.dim_param in _MEANINGLESS else str(dimension.dim_param)
