"""Initial contents of a resource: constants, arrays, sequences, files and lists of mixed types.

Parsing an initialiser allocates nothing beyond what stands in the model file: its size is known before its values are
generated, so that a model of any claimed size can be refused in time.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from opendml.description.enums import TensorDataType
from opendml.description.file_access import open_regular
from opendml.formats.files import IMAGE_SUFFIXES, Folders, image_size, read_image, read_numpy_header
from opendml.formats.json_text import Node, unknown_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DATA_TYPES", "InitialValues", "parse_data_type", "parse_initial_values", "resource_data_type"]

#: The data types a resource may hold.
DATA_TYPES = {data_type.name: data_type for data_type in TensorDataType if data_type.bits >= 8}


class InitialValues(Protocol):
    """Values to write into a resource."""

    @property
    def data_type(self) -> TensorDataType | None:
        """Type of the values, or None for a list of mixed types."""

    @property
    def size_in_bytes(self) -> int:
        """How much `write` fills."""

    def write(self, target: NDArray[np.uint8]) -> None:
        """Fill `target`, whose length is `size_in_bytes`."""


@dataclass(frozen=True, slots=True)
class ConstantValues:
    """One value, `count` times."""

    data_type: TensorDataType
    count: int
    value: np.generic

    @property
    def size_in_bytes(self) -> int:
        return self.count * self.data_type.dtype.itemsize

    def write(self, target: NDArray[np.uint8]) -> None:
        target.view(self.data_type.dtype)[:] = self.value


@dataclass(frozen=True, slots=True)
class ArrayValues:
    """Values that stand in the model file; `data_type` is None where their types are mixed."""

    data_type: TensorDataType | None
    contents: bytes = field(repr=False)

    @property
    def size_in_bytes(self) -> int:
        return len(self.contents)

    def write(self, target: NDArray[np.uint8]) -> None:
        target[:] = np.frombuffer(self.contents, np.uint8)


@dataclass(frozen=True, slots=True)
class SequenceValues:
    """start + i * delta for i in 0 to count - 1: integers wrap around, real numbers are rounded once."""

    data_type: TensorDataType
    count: int
    start: np.generic
    delta: np.generic

    @property
    def size_in_bytes(self) -> int:
        return self.count * self.data_type.dtype.itemsize

    def write(self, target: NDArray[np.uint8]) -> None:
        values = target.view(self.data_type.dtype)
        for begin in range(0, self.count, _CHUNK):
            end = min(begin + _CHUNK, self.count)
            values[begin:end] = self._values(begin, end).astype(values.dtype)
        values[0] = self.start  # 0 * delta is NaN for an infinite delta

    def _values(self, begin: int, end: int) -> NDArray[Any]:
        if self.data_type.dtype.kind == "f":
            with np.errstate(all="ignore"):
                real: NDArray[Any] = float(self.start) + np.arange(begin, end, dtype=np.float64) * float(self.delta)
            return real if self.data_type == TensorDataType.FLOAT64 else _rounded(real, self.data_type)
        start, delta = (np.uint64(int(value) % (1 << 64)) for value in (self.start, self.delta))
        return start + np.arange(begin, end, dtype=np.uint64) * delta


@dataclass(frozen=True, slots=True)
class FileValues:
    """`count` elements of a file from `offset` (bytes) on, stored as `stored`."""

    data_type: TensorDataType
    path: Path
    count: int
    stored: np.dtype[Any]
    offset: int
    node: Node = field(repr=False, compare=False)

    @property
    def size_in_bytes(self) -> int:
        return self.count * self.data_type.dtype.itemsize

    def write(self, target: NDArray[np.uint8]) -> None:
        try:
            with open_regular(self.path) as file:
                file.seek(self.offset)
                read = file.readinto(target.data)  # type: ignore[attr-defined]
        except OSError as error:
            self.node.fail(f"cannot read the file: {error.strerror or error}")
        if read != target.size:
            self.node.fail("the file changed while the model was being read")
        if self.stored.kind == "b":
            np.not_equal(target, 0, out=target.view(np.bool_))
        elif not self.stored.isnative:
            target.view(self.data_type.dtype).byteswap(inplace=True)


@dataclass(frozen=True, slots=True)
class ImageValues:
    """The pixels of an image file, scaled to `height` by `width`; layout [1, channels, height, width], 0.0 to 1.0."""

    data_type: TensorDataType
    path: Path
    channels: int
    height: int
    width: int
    node: Node = field(repr=False, compare=False)

    @property
    def size_in_bytes(self) -> int:
        return self.channels * self.height * self.width * self.data_type.dtype.itemsize

    def write(self, target: NDArray[np.uint8]) -> None:
        pixels = read_image(self.path, self.node, self.channels, self.height, self.width)
        target.view(self.data_type.dtype)[:] = (pixels / np.float32(255.0)).reshape(-1)


def parse_initial_values(resource: Node, folders: Folders) -> InitialValues:
    """The initialiser of a resource: its ``initialValues``, ``initialValuesDataType``, ``resampleSize``.

    Raises:
        ModelFormatError: with the path of what is wrong.
    """
    values = resource.member("initialValues")
    type_node = resource.optional("initialValuesDataType")
    data_type = parse_data_type(type_node) if type_node is not None else None
    if isinstance(values.value, list):
        parsed = _parse_list(values) if data_type is None else _parse_array(values, data_type)
    elif isinstance(values.value, dict):
        kind = [name for name in _GENERATORS if name in values]
        if len(kind) != 1:
            values.fail(f"expected one of the members {', '.join(_GENERATORS)}, got {', '.join(kind) or 'none'}")
        if data_type is None and kind != ["sourcePath"]:
            resource.fail("member 'initialValuesDataType' is required")
        parsed = _GENERATORS[kind[0]](values, data_type, resource, folders)
    elif values.value == "deferred":
        values.fail("only what an ONNX dispatchable writes can be deferred")
    else:
        values.expected("an array or an object")
    if not parsed.size_in_bytes:
        values.fail("there must be at least one value")
    return parsed


def parse_data_type(node: Node) -> TensorDataType | None:
    """A data type of DirectML, with or without its prefix; None for UNKNOWN."""
    name = node.text().removeprefix("DML_TENSOR_DATA_TYPE_")
    if name == "UNKNOWN":
        return None
    if name not in DATA_TYPES:
        node.fail(unknown_name("data type", name, DATA_TYPES))
    return DATA_TYPES[name]


def resource_data_type(dtype: np.dtype[Any]) -> TensorDataType | None:
    """DirectML's data type for a NumPy type (bool counts as UINT8), or None where there is none."""
    native = np.dtype(np.uint8) if dtype == np.bool_ else dtype.newbyteorder("=")
    return next((data_type for data_type in DATA_TYPES.values() if data_type.dtype == native), None)


_CHUNK = 1 << 18
_SPECIAL = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def _rounded(values: NDArray[Any], data_type: TensorDataType) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return values.astype(data_type.dtype)


def _parse_number(node: Node, data_type: TensorDataType) -> np.generic:
    dtype = data_type.dtype
    value = node.value
    if dtype.kind != "f":
        if type(value) is not int:
            node.expected(f"an integer for {data_type.name}")
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            node.fail(f"the value is outside {data_type.name}'s range, {limits.min} to {limits.max}")
        return _scalar(dtype, value)
    if isinstance(value, str):
        if value.lower() not in _SPECIAL:
            node.expected('a number, "nan", "inf" or "-inf"')
        return _scalar(dtype, _SPECIAL[value.lower()])
    if type(value) not in (int, float):
        node.expected('a number, "nan", "inf" or "-inf"')
    try:
        number = _scalar(dtype, float(value))
    except OverflowError:
        number = _scalar(dtype, np.inf)
    if np.isinf(number):
        node.fail(f'the value is outside {data_type.name}\'s range; write "inf" or "-inf" for infinity')
    return number


def _scalar(dtype: np.dtype[Any], value: float) -> np.generic:
    with np.errstate(all="ignore"):
        scalar: np.generic = dtype.type(value)
    return scalar


def _parse_array(node: Node, data_type: TensorDataType) -> ArrayValues:
    dtype = data_type.dtype
    values = node.value
    kinds = set(map(type, values))
    if dtype.kind == "f":
        # The common case at once; what is not plain is converted, or complained about, one by one.
        if kinds <= {int, float}:
            with contextlib.suppress(OverflowError):
                rounded = _rounded(np.array(values, np.float64), data_type)
                if np.isfinite(rounded).all():
                    return ArrayValues(data_type, rounded.tobytes())
    elif kinds == {int}:
        limits = np.iinfo(dtype)
        if limits.min <= min(values) and max(values) <= limits.max:
            return ArrayValues(data_type, np.array(values, dtype).tobytes())
    return ArrayValues(data_type, b"".join(_parse_number(value, data_type).tobytes() for value in node.elements()))


def _parse_list(node: Node) -> ArrayValues:
    """Elements of the form {"type": "UINT32", "value": 6}, "name" being a comment, packed one behind the other."""
    contents = []
    for element in node.elements():
        if not isinstance(element.value, dict):
            element.fail("without 'initialValuesDataType' every element must be an object with 'type' and 'value'")
        members = element.members(known=("name", "type", "value"))
        data_type = parse_data_type(element.member("type"))
        if data_type is None:
            members["type"].fail("an element needs a known data type")
        contents.append(_parse_number(element.member("value"), data_type).tobytes())
    return ArrayValues(None, b"".join(contents))


def _parse_constant(node: Node, data_type: TensorDataType, resource: Node, folders: Folders) -> InitialValues:
    node.members(known=("valueCount", "value"))
    count = node.member("valueCount").unsigned(32, minimum=1)
    return ConstantValues(data_type, count, _parse_number(node.member("value"), data_type))


def _parse_sequence(node: Node, data_type: TensorDataType, resource: Node, folders: Folders) -> InitialValues:
    node.members(known=("valueCount", "valueStart", "valueDelta"))
    count = node.member("valueCount").unsigned(32, minimum=1)
    start, delta = (_parse_number(node.member(name), data_type) for name in ("valueStart", "valueDelta"))
    return SequenceValues(data_type, count, start, delta)


def _parse_file(node: Node, data_type: TensorDataType | None, resource: Node, folders: Folders) -> InitialValues:
    node.members(known=("sourcePath",))
    source = node.member("sourcePath")
    path = folders.source(source)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _parse_numpy_file(source, path, data_type)
    if data_type is None:
        resource.fail("member 'initialValuesDataType' is required: the file does not say its data type")
    if suffix in IMAGE_SUFFIXES:
        return _parse_image_file(source, path, data_type, resource)
    length, itemsize = path.stat().st_size, data_type.dtype.itemsize
    if length % itemsize:
        source.fail(f"the file's size, {length} bytes, is not a multiple of {data_type.name}'s {itemsize} bytes")
    return FileValues(data_type, path, length // itemsize, data_type.dtype.newbyteorder("<"), 0, source)


def _parse_numpy_file(source: Node, path: Path, data_type: TensorDataType | None) -> InitialValues:
    header = read_numpy_header(path, source)
    stored_type = resource_data_type(header.dtype)
    if stored_type is None:
        source.fail(f"the file's data type, {header.dtype}, is not one of DirectML's")
    if data_type is not None and data_type != stored_type:
        source.fail(f"the file holds {stored_type.name}, but initialValuesDataType is {data_type.name}")
    return FileValues(stored_type, path, header.count, header.dtype, header.offset, source)


def _parse_image_file(source: Node, path: Path, data_type: TensorDataType, resource: Node) -> InitialValues:
    if data_type not in (TensorDataType.FLOAT16, TensorDataType.FLOAT32):
        source.fail(f"images can be read as FLOAT16 or FLOAT32, not as {data_type.name}")
    mode = resource.optional("resampleMode")
    if mode is not None and mode.text() != "scale":
        mode.fail("resampleMode must be 'scale'")
    channels, height, width = image_size(path, source)
    size_node = resource.optional("resampleSize")
    if size_node is not None:
        batch, channels, height, width = (size.unsigned(32, minimum=1) for size in size_node.elements(count=4))
        if batch != 1 or channels not in (1, 3, 4):
            size_node.fail("resampleSize is [1, channels, height, width] with 1, 3 or 4 channels")
    return ImageValues(data_type, path, channels, height, width, source)


_GENERATORS: dict[str, Any] = {"value": _parse_constant, "valueStart": _parse_sequence, "sourcePath": _parse_file}
