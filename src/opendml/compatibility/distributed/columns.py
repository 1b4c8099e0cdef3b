"""Columns of Arrow tables as arrays and back, over the same memory where their layouts allow it."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from opendml.description.errors import BindingError, ConfigurationError
from opendml.description.quoting import quoted

__all__ = ["array_of_column", "arrow", "column_of_array", "table_of"]

Array = npt.NDArray[Any]


def arrow() -> ModuleType:
    """The package pyarrow. Raises ConfigurationError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        message = f"tables and Parquet files need the package pyarrow: pip install 'opendml[parquet]' ({error})"
        raise ConfigurationError(message) from None
    return pyarrow  # type: ignore[no-any-return]


def array_of_column(column: Any, name: str) -> Array:
    """The rows of a column as an array: tensors of fixed sizes, lists of one length, numbers, text.

    A copy is made only of text, of bools, and of what lies in several chunks. Raises BindingError for rows that are
    missing or of different lengths.
    """
    if hasattr(column, "combine_chunks"):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if hasattr(column, "chunks"):
            column = column.chunk(0) if column.num_chunks else arrow().array([], column.type)
    if column.null_count:
        raise BindingError(f"column {quoted(name)}: {column.null_count} of its {len(column)} rows are missing")
    if hasattr(column, "to_numpy_ndarray"):
        return column.to_numpy_ndarray()  # type: ignore[no-any-return]
    kind = str(column.type)
    if "tensor" in kind.lower():  # Ray's own types of tensors
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if kind in ("string", "large_string"):
        return np.array(column.to_pylist(), np.str_)
    if "list" in kind:
        return _of_lists(column, name)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _of_lists(column: Any, name: str) -> Array:
    """Lists of one length, also of lists."""
    rows = len(column)
    values = array_of_column(column.flatten(), name)
    if rows == 0:
        return values.reshape(0, *values.shape)
    length, rest = divmod(len(values), rows)
    lengths = None if "fixed_size_list" in str(column.type) else column.value_lengths().to_numpy(zero_copy_only=False)
    if rest or (lengths is not None and (lengths != length).any()):
        raise BindingError(f"column {quoted(name)}: its rows are lists of different lengths")
    return values.reshape(rows, length, *values.shape[1:])


def column_of_array(array: Array) -> Any:
    """An array as a column, its first dimension being the rows."""
    pyarrow = arrow()
    if array.ndim == 1 or array.dtype.kind not in "iuf":
        return pyarrow.array(array.tolist() if array.ndim > 1 or array.dtype.kind not in "iuf" else array)
    contiguous = np.ascontiguousarray(array)
    if contiguous.size == 0:
        rows, sizes = contiguous.shape[0], contiguous.shape[1:]
        kind = pyarrow.fixed_shape_tensor(pyarrow.from_numpy_dtype(contiguous.dtype), sizes)
        storage = pyarrow.array([[]] * rows, kind.storage_type)
        return pyarrow.ExtensionArray.from_storage(kind, storage)
    return pyarrow.FixedShapeTensorArray.from_numpy_ndarray(contiguous)


def table_of(arrays: Mapping[str, Array]) -> Any:
    """Arrays of as many rows as a table."""
    return arrow().table({name: column_of_array(array) for name, array in arrays.items()})
