"""The files a model reads and writes: where they may lie, NumPy arrays, images."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from opendml.description.file_access import open_regular
from opendml.description.quoting import quoted
from opendml.formats.json_text import Node

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "IMAGE_SUFFIXES",
    "Folders",
    "NumpyHeader",
    "image_size",
    "read_image",
    "read_numpy_header",
    "require_pillow",
    "write_image",
    "write_numpy",
    "write_text",
]

IMAGE_SUFFIXES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}


@dataclass(frozen=True, slots=True)
class Folders:
    """The two folders that a model's own paths are relative to and may not leave.

    Attributes:
        input: folder of the files named by ``sourcePath``; the model's own folder unless the user says otherwise.
        output: folder of the files named by ``targetPath``; the current directory unless the user says otherwise.
    """

    input: Path
    output: Path

    def source(self, node: Node) -> Path:
        """The existing file that `node` names."""
        path = _inside(self.input, node, "--input_path")
        if not os.path.isfile(path):  # noqa: PTH113 - false, not an error, for a name too long for the file system
            node.fail(f"no file {quoted(node.text())} in {_shown(self.input)} (--input_path names another folder)")
        return path

    def target(self, node: Node) -> Path:
        """The file to write that `node` names; it need not exist yet."""
        path = _inside(self.output, node, "--output_path")
        if os.path.isdir(path):  # noqa: PTH112 - as above
            node.fail(f"{quoted(node.text())} is a folder")
        return path


@dataclass(frozen=True, slots=True)
class NumpyHeader:
    """What the header of a .npy file says: `dtype` (any byte order), `shape`, and the `offset` of the data in bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    @property
    def count(self) -> int:
        """The number of elements (exact, whatever the shape claims)."""
        count = 1
        for size in self.shape:
            count *= size
        return count


def read_numpy_header(path: Path, node: Node) -> NumpyHeader:
    """The header of a .npy file (format versions 1 and 2).

    The data must be complete and in C order.
    """
    try:
        with open_regular(path) as file:
            version = np.lib.format.read_magic(file)
            shape, fortran_order, dtype = _NUMPY_HEADER_READERS[version](file)
            header = NumpyHeader(dtype, tuple(int(size) for size in shape), file.tell())
            length = file.seek(0, os.SEEK_END) - header.offset
    except Exception as error:  # NumPy parses the header as a Python literal and lets many kinds through
        node.fail(f"not a readable .npy file: {_what_it_is(path, 'numpy') or _first_line(error)}")
    if fortran_order and len(header.shape) > 1:
        node.fail("arrays in Fortran order are not supported")
    if any(size < 0 for size in header.shape):
        node.fail("not a readable .npy file: a size is negative")
    if header.count * header.dtype.itemsize > length:
        node.fail(f"the file is cut off: {header.count} elements need {header.count * header.dtype.itemsize} bytes")
    return header


def require_pillow(node: Node) -> Any:
    """The module PIL.Image."""
    try:
        from PIL import Image
    except ImportError:
        node.fail("image files need Pillow: pip install 'opendml[image]'")
    return Image


def image_size(path: Path, node: Node) -> tuple[int, int, int]:
    """Channels (1, 3 or 4), height and width of an image file, read from its header alone."""
    with _image(path, node) as image:
        channels = {"L": 1, "1": 1, "I;16": 1, "RGBA": 4, "LA": 4, "PA": 4}.get(image.mode, 3)
        return channels, int(image.height), int(image.width)


def read_image(path: Path, node: Node, channels: int, height: int, width: int) -> NDArray[np.uint8]:
    """The pixels of an image file, scaled to `height` by `width`, in the layout [channels, height, width]."""
    image_module = require_pillow(node)
    with _image(path, node) as image:
        converted = image.convert(_MODES[channels])
        if converted.size != (width, height):
            converted = converted.resize((width, height), image_module.Resampling.BICUBIC)
        pixels = np.asarray(converted, dtype=np.uint8).reshape(height, width, channels)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


@contextlib.contextmanager
def _image(path: Path, node: Node) -> Iterator[Any]:
    """An image file, opened; what fails while it is looked at is an error of `node`."""
    image_module, kinds = require_pillow(node), sorted(set(IMAGE_SUFFIXES.values()))
    try:
        with open_regular(path) as file, image_module.open(file, formats=kinds) as image:
            yield image
    except image_module.UnidentifiedImageError:  # whose words are those of the file object, not of the file
        found = (
            _what_it_is(path, "image")
            or f"{quoted(path.name)}: its first bytes are not those of a {' or '.join(kinds)} file"
        )
        node.fail(f"not a readable image: {found}")
    except Exception as error:  # decoders raise many kinds
        node.fail(f"not a readable image: {quoted(path.name)}: {_first_line(error)}")


def write_image(file: BinaryIO, values: NDArray[Any], image_format: str) -> None:
    """Write values of the layout [channels, height, width] as an image: 0.0 is dark, 1.0 full brightness."""
    from PIL import Image

    clamped = np.fmax(0.0, np.fmin(1.0, values.astype(np.float32)))
    pixels = (clamped * np.float32(255.0)).astype(np.uint8).transpose(1, 2, 0)
    Image.fromarray(np.ascontiguousarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)).save(
        file, format=image_format
    )


def write_numpy(file: BinaryIO, values: NDArray[Any]) -> None:
    """Write an array of plain numbers as a .npy file."""
    np.lib.format.write_array(file, values, allow_pickle=False)


def write_text(file: BinaryIO, values: NDArray[Any]) -> None:
    """Write an array as comma-separated values: a line for each row of the last dimension, each number so that reading
    it gives the same bits again."""
    rows = values.reshape(-1, values.shape[-1])
    for row in rows:
        file.write(",".join(map(_shortest, row)).encode() + b"\n")


def _shortest(value: Any) -> str:
    if value.dtype.kind != "f":
        return str(value)
    plain = abs(float(value))
    if plain == 0 or 1e-4 <= plain < 1e7 or not np.isfinite(plain):
        return str(np.format_float_positional(value, trim="-"))
    return str(np.format_float_scientific(value, trim="-"))


_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_NUMPY_HEADER_READERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _inside(folder: Path, node: Node, option: str) -> Path:
    name = node.text()
    try:
        root = folder.resolve()
        path = (root / name.replace("\\", "/")).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        node.fail(f"not a usable path: {_first_line(error)}")
    if path == root:
        node.fail(f"{quoted(name)} names no file")
    if not path.is_relative_to(root):
        node.fail(f"path outside the folder {_shown(folder)}: {quoted(name)} ({option} names another folder)")
    return path


def _what_it_is(path: Path, own: str) -> str:
    from opendml.formats.recognition import first_bytes, other_format

    return other_format(first_bytes(path), own)


def _shown(folder: Path) -> str:
    return quoted(str(folder), 300)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
