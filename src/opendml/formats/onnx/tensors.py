"""Tensors of a file as arrays: initialisers and attributes, their data in the file or beside it.

Files are data: sizes, offsets and names in them are checked before anything is read.
"""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opendml.description.errors import ModelFormatError
from opendml.description.file_access import open_regular
from opendml.description.quoting import quoted
from opendml.formats.onnx.package import onnx_package
from opendml.formats.onnx.types import array_type, type_name
from opendml.targets.host_memory import mapped_array

__all__ = ["LARGEST", "array_of", "path_beside"]

Array = npt.NDArray[Any]

LARGEST: Final = (1 << 63) - 1
"""Bytes that an array may have, were there no size of 0 in it; NumPy has no others."""

MOST_DIMENSIONS: Final = 32
"""Dimensions that an array may have with every NumPy: from 2.0 on there may be 64."""


def array_of(tensor: Any, folder: Path | None, place: str, content: memoryview | None = None) -> Array:
    """The values of a TensorProto; data beside the model's file is mapped, not read. ``content``: its ``raw_data``, if
    that was left out of it.

    Raises ModelFormatError for what is damaged, or lies outside of the model's folder.
    """
    sizes = tuple(int(size) for size in tensor.dims)
    if any(size < 0 for size in sizes):
        raise ModelFormatError(place, f"the sizes {quoted(list(sizes))} have a negative one")
    try:
        data_type = array_type(tensor.data_type)
    except (KeyError, ValueError):
        raise ModelFormatError(place, f"there is no {type_name(tensor.data_type)}") from None
    is_empty_but_large = 0 in sizes and math.prod(filter(None, sizes)) * data_type.itemsize > LARGEST
    if is_empty_but_large or len(sizes) > MOST_DIMENSIONS:
        raise ModelFormatError(place, f"no array has the sizes {quoted(list(sizes))}")
    if tensor.data_location == onnx_package().TensorProto.EXTERNAL:
        return _external(tensor, data_type, sizes, folder, place)
    if tensor.HasField("raw_data") and data_type.kind in "biuf":
        raw = tensor.raw_data if content is None else content
        expected, given = math.prod(sizes) * data_type.itemsize, len(raw)
        if expected != given:
            raise ModelFormatError(place, f"{data_type} {list(sizes)} needs {expected} bytes, got {given}")
        return np.frombuffer(raw, data_type.newbyteorder("<")).reshape(sizes)
    if content is not None:
        tensor = _with_content(tensor, content)
    try:
        array: Array = onnx_package().numpy_helper.to_array(tensor)
    except Exception as error:  # whatever the package raises of a damaged tensor
        raise ModelFormatError(place, f"its data cannot be read: {quoted(str(error))}") from None
    if array.shape != sizes:
        raise ModelFormatError(place, f"its data has the sizes {list(array.shape)}, not {list(sizes)}")
    return array


def _with_content(tensor: Any, content: memoryview) -> Any:
    whole = onnx_package().TensorProto()
    whole.CopyFrom(tensor)
    whole.raw_data = bytes(content)
    return whole


def _external(tensor: Any, data_type: np.dtype[Any], sizes: tuple[int, ...], folder: Path | None, place: str) -> Array:
    """Data in another file: a part of it, mapped into memory."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = path_beside(folder, entries.get("location", ""), place)
    offset, length = (_count(entries.get(key, ""), key, place) for key in ("offset", "length"))
    needed = math.prod(sizes) * data_type.itemsize
    if data_type.kind not in "biuf":
        raise ModelFormatError(place, f"{type_name(tensor.data_type)} outside of the model's file is not read")
    if length is not None and length != needed:
        raise ModelFormatError(place, f"{data_type} {list(sizes)} needs {needed} bytes, its length is {length}")
    try:
        with open_regular(path) as file:
            have = file.seek(0, 2)
            if (offset or 0) + needed > have:
                raise ModelFormatError(place, f"{quoted(path.name)} ends before it: {have} bytes")
            if not needed:
                return np.empty(sizes, data_type)
            return mapped_array(file, data_type.newbyteorder("<"), sizes, offset or 0)
    except OSError as error:
        raise ModelFormatError(place, f"cannot read {quoted(path.name)}: {error.strerror or error}") from None


def path_beside(folder: Path | None, location: str, place: str) -> Path:
    """A file in the folder of the model, or in one inside that. Raises ModelFormatError."""
    if not isinstance(location, str):  # as protocol buffers give what is not UTF-8
        raise ModelFormatError(place, f"{quoted(location)} is no file in the folder of the model")
    parts = PurePosixPath(location.replace("\\", "/"))
    if folder is None:
        raise ModelFormatError(place, f"its data is in {quoted(location)}, but a model given as bytes has no folder")
    if not parts.name or parts.is_absolute() or ".." in parts.parts or "\0" in location or ":" in location:
        raise ModelFormatError(place, f"{quoted(location)} is no file in the folder of the model")
    path = folder / parts
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # before Python 3.13 links that lead to themselves are a RuntimeError
        raise ModelFormatError(place, f"{quoted(location)} leads nowhere") from None
    if not is_inside:
        raise ModelFormatError(place, f"{quoted(location)} leads out of the folder of the model")
    return path


def _count(text: str, key: str, place: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ModelFormatError(place, f"{key} {quoted(text)} is no number of bytes")
    return int(text)
