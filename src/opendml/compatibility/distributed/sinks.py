"""Where results go: arrays in memory, or a folder of ``.npy`` or Parquet files that appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from opendml.compatibility.distributed.columns import arrow, table_of
from opendml.description.errors import BindingError, ConfigurationError
from opendml.description.quoting import quoted

__all__ = ["FORMATS", "ArraysSink", "NumpySink", "ParquetSink", "Sink", "check_free", "file_name", "whole_folder"]

Array = npt.NDArray[Any]

FORMATS: Final = ("parquet", "npy")


class Sink(Protocol):
    """Takes the results of batch after batch, in the order of the rows."""

    def write(self, results: Mapping[str, Array]) -> None:
        """Takes columns of a batch."""

    def close(self) -> None:
        """Finishes."""


class ArraysSink:
    """Keeps arrays; ``arrays`` has them when all is written."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Array]] = {}
        self.arrays: dict[str, Array] = {}

    def write(self, results: Mapping[str, Array]) -> None:
        """See ``Sink``."""
        for name, array in results.items():
            self._parts.setdefault(name, []).append(array)

    def close(self) -> None:
        """See ``Sink``."""
        self.arrays = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        self._parts = {}


class NumpySink:
    """A ``.npy`` file for each column, filled from the front."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._folder, self._rows, self._written = folder, rows, 0
        self._numbers: dict[str, Array] = {}
        self._texts: dict[str, list[Array]] = {}

    def write(self, results: Mapping[str, Array]) -> None:
        """See ``Sink``. Raises BindingError where rows of a column have another size than those before."""
        count = len(next(iter(results.values())))
        for name, array in results.items():
            if array.dtype.kind == "U":
                self._texts.setdefault(name, []).append(array)
                continue
            if name not in self._numbers:
                self._numbers[name] = np.lib.format.open_memmap(
                    self._path(name), "w+", array.dtype, (self._rows, *array.shape[1:])
                )
            place = self._numbers[name]
            if place.shape[1:] != array.shape[1:]:
                sizes = f"{list(place.shape[1:])} and {list(array.shape[1:])}"
                raise BindingError(f"{quoted(name)} has rows of {sizes}: a .npy file has rows of one size")
            place[self._written : self._written + count] = array
        self._written += count

    def close(self) -> None:
        """See ``Sink``."""
        for array in self._numbers.values():
            array.flush()  # type: ignore[attr-defined]
        self._numbers = {}
        for name, parts in self._texts.items():
            np.save(self._path(name), np.concatenate(parts), allow_pickle=False)

    def _path(self, name: str) -> Path:
        path = self._folder / f"{file_name(name)}.npy"
        if path.exists():
            raise BindingError(f"two columns would be the file {quoted(path.name)}")
        return path


class ParquetSink:
    """One Parquet file with a row group for each batch; tensors are Arrow's of fixed sizes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "part-00000.parquet"
        self._writer: Any = None

    def write(self, results: Mapping[str, Array]) -> None:
        """See ``Sink``."""
        table = table_of(results)
        if self._writer is None:
            self._writer = arrow().parquet.ParquetWriter(self._path, table.schema)
        if table.schema != self._writer.schema:
            raise BindingError("the results' rows have different sizes: a Parquet file has rows of one size")
        self._writer.write_table(table)

    def close(self) -> None:
        """See ``Sink``."""
        if self._writer is not None:
            self._writer.close()


def file_name(column: str) -> str:
    """A column's name as that of a file: other characters than letters, digits, ``.``, ``-`` and ``_`` are ``_``."""
    return re.sub(r"[^\w.-]", "_", column).lstrip(".") or "_"


def check_free(output: Path) -> None:
    """Raises ConfigurationError where the folder of results is there already, unless it is empty."""
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise ConfigurationError(f"{quoted(str(output))} is there already: results are written to a new folder")


@contextlib.contextmanager
def whole_folder(output: Path) -> Iterator[Path]:
    """A folder beside ``output`` to write to, which becomes ``output`` at the end, and is removed if that fails."""
    check_free(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.parent / f".{output.name}.{uuid.uuid4().hex[:12]}.unfinished"
    unfinished.mkdir()
    try:
        yield unfinished
        check_free(output)
        if output.exists():
            output.rmdir()
        os.rename(unfinished, output)  # noqa: PTH104
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
