"""Data sets that are read: Parquet files, NumPy arrays, folders of images, arrays and tables in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from opendml.compatibility.distributed.columns import array_of_column, arrow
from opendml.description.errors import BindingError, ModelFormatError
from opendml.description.quoting import argument, listed, quoted
from opendml.formats.files import IMAGE_SUFFIXES

__all__ = ["IMAGE", "PATH", "ArraysSource", "ImageSource", "ParquetSource", "Source", "source_of"]

Array = npt.NDArray[Any]
Loader = Callable[[], dict[str, Array]]
"""Reads a batch: columns by name, text among them."""

IMAGE: Final = "image"
PATH: Final = "path"
"""The columns of a folder of images: pixels, and the path in the folder."""


class Source(Protocol):
    """A data set: the number of its rows, the names of its columns, and its batches in order."""

    rows: int
    columns: tuple[str, ...]

    def batches(self, size: int, columns: Sequence[str]) -> Iterator[Loader]:
        """What reads each batch, of at most ``size`` rows, with some of the columns."""


class ArraysSource:
    """Arrays with as many rows each, in memory or mapped from files."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        lengths = {len(array) if array.ndim else -1 for array in arrays.values()}
        if len(lengths) != 1 or -1 in lengths:
            shown = {name: list(array.shape) for name, array in arrays.items()}
            raise BindingError(f"a data set has columns of as many rows each, got {quoted(shown)}")
        self._arrays = dict(arrays)
        self.rows = lengths.pop()
        self.columns = tuple(arrays)

    def batches(self, size: int, columns: Sequence[str]) -> Iterator[Loader]:
        """See ``Source``."""
        for first in range(0, self.rows, size):
            yield lambda first=first: {name: self._arrays[name][first : first + size] for name in columns}  # type: ignore[misc]


class ParquetSource:
    """Parquet files, one after another."""

    def __init__(self, paths: Sequence[Path]) -> None:
        parquet = arrow().parquet
        self._files = []
        for path in paths:
            try:
                self._files.append(parquet.ParquetFile(path))
            except (OSError, ValueError) as error:  # pyarrow's own are of these
                raise ModelFormatError(path.name, f"no Parquet file can be read: {_first_line(error)}") from None
        self.rows = sum(file.metadata.num_rows for file in self._files)
        self.columns = tuple(self._files[0].schema_arrow.names)

    def batches(self, size: int, columns: Sequence[str]) -> Iterator[Loader]:
        """See ``Source``. Batches do not cross the ends of files."""
        for file in self._files:
            for batch in file.iter_batches(size, columns=list(columns)):
                yield lambda batch=batch: {  # type: ignore[misc]
                    name: array_of_column(batch.column(place), name) for place, name in enumerate(batch.schema.names)
                }


class ImageSource:
    """A folder of images, inner folders as well: their pixels as ``image``, three channels of uint8, and ``path``."""

    columns: tuple[str, ...] = (IMAGE, PATH)

    def __init__(self, folder: Path, paths: Sequence[str]) -> None:
        self.folder, self.paths, self.rows = folder, list(paths), len(paths)
        self.size: tuple[int, int] | None = None
        """Height and width that images are scaled to; the model's, if it says them."""

    def batches(self, size: int, columns: Sequence[str]) -> Iterator[Loader]:
        """See ``Source``."""
        for first in range(0, self.rows, size):
            part = self.paths[first : first + size]
            yield lambda part=part: self.load(part, columns)  # type: ignore[misc]

    def load(self, paths: Sequence[str], columns: Sequence[str]) -> dict[str, Array]:
        """Some of the images. Raises ModelFormatError for what cannot be read, BindingError for different sizes."""
        found: dict[str, Array] = {}
        if PATH in columns:
            found[PATH] = np.array(paths, np.str_)
        if IMAGE in columns:
            pixels = [_pixels(self.folder / path, path, self.size) for path in paths]
            if len({one.shape for one in pixels}) > 1:
                cure = argument("image_size", (224, 224))
                raise BindingError(
                    f"the images have different sizes, and the model leaves them open: {cure} is one, for example"
                )
            found[IMAGE] = np.stack(pixels)
        return found


def source_of(dataset: Any) -> Source:
    """The data set that a path, a mapping of arrays, an array or an Arrow table is.

    A path is a Parquet file, a ``.npy`` or ``.npz`` file, or a folder of Parquet files, of ``.npy`` files (columns by
    their names) or of images. Raises ModelFormatError for what is none of these, BindingError for arrays.
    """
    if isinstance(dataset, (str, os.PathLike)):
        return _source_at(Path(dataset))
    if isinstance(dataset, Mapping):
        return ArraysSource({name: np.asarray(array) for name, array in dataset.items()})
    if isinstance(dataset, np.ndarray):
        return ArraysSource({"data": dataset})
    if hasattr(dataset, "column_names") and hasattr(dataset, "column"):
        return ArraysSource({name: array_of_column(dataset.column(name), name) for name in dataset.column_names})
    expected = "a path, arrays by name, an Arrow table or a data set of Ray"
    raise BindingError(f"dataset: expected {expected}, got {type(dataset).__name__}")


def _source_at(path: Path) -> Source:
    if not path.exists():
        raise ModelFormatError("", f"there is no data set {quoted(str(path))}")
    if not path.is_dir():
        return _source_of_files(path.suffix.lower(), [path], str(path))
    files = sorted(one for one in path.iterdir() if one.is_file() and not one.name.startswith((".", "_")))
    suffixes = {one.suffix.lower() for one in files}
    for suffix in (".parquet", ".npy"):
        if suffix in suffixes:
            return _source_of_files(suffix, [one for one in files if one.suffix.lower() == suffix], str(path))
    images = sorted(one.relative_to(path).as_posix() for one in path.rglob("*") if one.suffix.lower() in IMAGE_SUFFIXES)
    if not images:
        raise ModelFormatError("", f"{quoted(str(path))} has no Parquet files, no .npy files and no images")
    return ImageSource(path, images)


def _source_of_files(suffix: str, paths: Sequence[Path], place: str) -> Source:
    if suffix == ".parquet":
        return ParquetSource(paths)
    try:
        if suffix == ".npy":
            names = ["data"] if len(paths) == 1 and place == str(paths[0]) else [path.stem for path in paths]
            arrays = [np.load(path, mmap_mode="r", allow_pickle=False) for path in paths]
            return ArraysSource(dict(zip(names, arrays, strict=True)))
        if suffix == ".npz":
            with np.load(paths[0], allow_pickle=False) as archive:
                return ArraysSource({name: archive[name] for name in archive.files})
    except BindingError:
        raise
    except Exception as error:  # damaged files raise many kinds
        raise ModelFormatError("", f"{quoted(place)} is no array that can be read: {_first_line(error)}") from None
    known = listed([".parquet", ".npy", ".npz"])
    raise ModelFormatError("", f"{quoted(place)} is no data set: expected {known}, or a folder of these or of images")


def _pixels(path: Path, shown: str, size: tuple[int, int] | None) -> npt.NDArray[np.uint8]:
    """The pixels of an image, [3, height, width]."""
    from opendml.formats.files import image_size, read_image
    from opendml.formats.json_text import Node

    place = Node(None, shown)
    height, width = size if size is not None else image_size(path, place)[1:]
    return read_image(path, place, 3, height, width)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).split("\n", 1)[0][:300]
